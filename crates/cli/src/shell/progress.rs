//! Progress on stderr, if it is a terminal, while something takes long.

use std::fs::File;
use std::io::{self, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Statements shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A file being read, with a bar that shows the progress.
pub struct ReadWithBar {
    file: File,
    bar: ProgressBar,
}

impl ReadWithBar {
    /// Opens `path`. A pipe or device has no length and gets no bar.
    pub fn open(path: &str) -> io::Result<Self> {
        let file = File::open(path).map_err(|error| named(path, &error))?;
        let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
        let bar = match length {
            Some(length) => ProgressBar::new(length),
            None => ProgressBar::hidden(),
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

/// A spinner with the time so far, once a statement has run for a second. Dropping it ends it.
pub struct Spinner {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts the wait. `shown`: whether to show anything.
    pub fn start(shown: bool) -> Self {
        if !shown {
            return Spinner { stop: None, thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner().with_elapsed(PATIENCE);
            bar.set_draw_target(ProgressDrawTarget::stderr());
            let template = "{spinner} {elapsed} (Ctrl-C cancels)";
            bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
            bar.enable_steady_tick(Duration::from_millis(100));
            // The statement has ended, or its thread has.
            let _ = stopped.recv();
            bar.finish_and_clear();
        });
        Spinner { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread only draws; a panic there must not hide the statement's result.
            let _ = thread.join();
        }
    }
}
