//! Progress on stderr, if it is a terminal, while something takes long.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::backend::{Collected, Onlooker};

/// Statements shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A file being read, with a bar that shows the progress.
pub struct ReadWithBar {
    file: File,
    bar: ProgressBar,
}

impl ReadWithBar {
    /// Opens `path`. A pipe or device has no length and gets no bar, nor does any file unless `shown`.
    pub fn open(path: &str, shown: bool) -> io::Result<Self> {
        let file = File::open(path).map_err(|error| named(path, &error))?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
        let bar = match length.filter(|_| shown) {
            Some(length) => ProgressBar::new(length),
            None => return Ok(ReadWithBar { file, bar: ProgressBar::hidden() }),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        Ok(ReadWithBar { file, bar })
    }
}

/// The error with the file's name in it, which an `io::Error` lacks.
pub fn named(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}

impl Read for ReadWithBar {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.bar.inc(length as u64);
        Ok(length)
    }
}

impl Drop for ReadWithBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How often a second session asks how far the statement is.
const LOOK: Duration = Duration::from_millis(300);

/// The longest time that the end of a statement waits for the second session's last answer.
const LAST_ANSWER: Duration = Duration::from_secs(1);

/// The outermost work of a session.
fn question(session: u32) -> String {
    format!(
        "SELECT command, relation, index, phase, unit, done, total FROM halcyon.progress \
         WHERE session = {session} ORDER BY work LIMIT 1"
    )
}

/// Tells steps of the onlooker's session until nobody takes them any more.
fn look(onlooker: Onlooker, stopped: &Receiver<()>, steps: &Sender<Option<Step>>) {
    let Some(mut backend) = (onlooker.open)() else { return };
    let question = question(onlooker.session);
    loop {
        let mut rows = Collected::default();
        // Without the right or the view there is no step, and the time is shown alone.
        if backend.run(&question, &mut rows).is_err() {
            return;
        }
        let step = rows.0.first().and_then(|row| Step::of(row));
        let is_over = steps.send(step).is_err();
        if is_over || stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// How far a statement is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    what: String,
    unit: String,
    done: u64,
    total: Option<u64>,
}

impl Step {
    /// The step of a row of the question.
    fn of(row: &[Option<String>]) -> Option<Step> {
        let [command, relation, index, phase, unit, done, total] = row else { return None };
        let name = index.as_ref().or(relation.as_ref());
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        Some(Step {
            what: format!("{}{name}: {}", command.as_ref()?, phase.as_ref()?),
            unit: unit.clone()?,
            done: done.as_ref()?.parse().ok()?,
            total: total.as_ref().and_then(|total| total.parse().ok()),
        })
    }

    /// As it stands beside the bar.
    fn text(&self) -> String {
        let Step { what, unit, done, total } = self;
        let amount = |number: u64| match unit.as_str() {
            "bytes" => HumanBytes(number).to_string(),
            _ => HumanCount(number).to_string(),
        };
        let of = total.map(|total| format!(" of {}", amount(total))).unwrap_or_default();
        let unit = if unit == "bytes" { String::new() } else { format!(" {unit}") };
        format!("{what}, {}{of}{unit}", amount(*done))
    }

    fn draw(&self, bar: &ProgressBar) {
        let template = match self.total {
            Some(_) => "{bar:20} {percent:>3}% {elapsed} {wide_msg}",
            None => "{spinner} {elapsed} {wide_msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        if let Some(total) = self.total {
            bar.set_length(total.max(1));
            bar.set_position(self.done.min(total));
        }
        bar.set_message(self.text() + " (Ctrl-C cancels)");
    }
}

/// The time of a statement so far, and how far it is, once it has run for a second. Dropping it ends it.
pub struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the wait; with no onlooker nothing will be shown.
    pub fn start(onlooker: Option<Onlooker>) -> Self {
        let Some(onlooker) = onlooker else {
            return Watch { stop: None, thread: None };
        };
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                show(onlooker, &stopped);
            }
        });
        Watch { stop: Some(stop), thread: Some(thread) }
    }
}

/// Draws until the statement has ended.
fn show(onlooker: Onlooker, stopped: &Receiver<()>) {
    const DRAWN: Duration = Duration::from_millis(100);
    let bar = ProgressBar::new_spinner().with_elapsed(PATIENCE);
    bar.set_draw_target(ProgressDrawTarget::stderr());
    let template = "{spinner} {elapsed} (Ctrl-C cancels)";
    bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
    bar.enable_steady_tick(DRAWN);
    // A second session may be slow to answer; the end of the statement does not wait for it.
    let (stop, look_stopped) = mpsc::channel();
    let (steps, told) = mpsc::channel();
    let (looks, looked) = mpsc::channel::<()>();
    let looking = std::thread::spawn(move || {
        look(onlooker, &look_stopped, &steps);
        drop(looks);
    });
    while stopped.recv_timeout(DRAWN) == Err(RecvTimeoutError::Timeout) {
        if let Some(step) = told.try_iter().last().flatten() {
            step.draw(&bar);
        }
    }
    bar.finish_and_clear();
    drop((stop, told));
    if looked.recv_timeout(LAST_ANSWER) == Err(RecvTimeoutError::Disconnected) {
        // The thread only asks; a panic there must not hide the statement's result.
        let _ = looking.join();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread only draws; a panic there must not hide the statement's result.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::embedded::Embedded;
    use halcyon::Database;

    fn row(words: &[&str]) -> Vec<Option<String>> {
        words.iter().map(|word| (*word != "-").then(|| (*word).to_owned())).collect()
    }

    #[test]
    fn a_step_is_told_in_its_unit() {
        let of = |words: &[&str]| Step::of(&row(words)).expect("a step").text();
        let phase = "building index: scanning table";
        assert_eq!(
            of(&["CREATE INDEX", "t", "t_a", phase, "rows", "20480", "1000000"]),
            "CREATE INDEX t_a: building index: scanning table, 20,480 of 1,000,000 rows"
        );
        assert_eq!(
            of(&["COPY FROM", "t", "-", "copying", "bytes", "2048", "-"]),
            "COPY FROM t: copying, 2.00 KiB"
        );
        assert_eq!(
            of(&["CHECKPOINT", "-", "-", "writing tables", "rows", "7", "-"]),
            "CHECKPOINT: writing tables, 7 rows"
        );
        for strange in [&["x"][..], &[], &["COPY FROM", "t", "-", "copying", "bytes", "many", "-"]]
        {
            assert_eq!(Step::of(&row(strange)), None);
        }
    }

    #[test]
    fn an_onlooker_tells_the_work_of_its_session_until_it_is_stopped() {
        let database = Database::in_memory();
        let mut copying = database.session();
        copying.batch("CREATE TABLE t (a INTEGER)").expect("a table");
        let statement = copying.prepare("COPY t FROM STDIN").expect("a copy");
        copying.run(&statement, &[]).expect("it begins");
        copying.copy_data(b"1\n2\n").expect("two rows");
        let second = database.clone();
        let onlooker = Onlooker {
            session: copying.id(),
            open: Box::new(move || Some(Box::new(Embedded::new(&second)))),
        };
        let (stop, stopped) = mpsc::channel();
        let (steps, told) = mpsc::channel();
        let looking = std::thread::spawn(move || look(onlooker, &stopped, &steps));
        let step = told.recv().expect("it tells").expect("the copy goes on");
        assert_eq!(step.text(), "COPY FROM t: copying, 4 B");
        copying.copy_end().expect("two rows");
        drop(stop);
        looking.join().expect("it ends");
        assert!(told.try_iter().all(|step| step.is_none_or(|step| step.done == 4)));
    }
}
