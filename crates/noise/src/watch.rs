//! What interrupts threads of this process while they run: by processor and cause, for as long as somebody watches.
//!
//! A [`Watch`] follows threads by their names with an instance of the kernel's tracer of its own, which notes events of these
//! threads alone, so that what other processes do costs nothing. A thread that reads the trace five times a second turns
//! events into interruptions ([`Interruptions`]): another thread had the processor although the watched one would have
//! gone on, or an interrupt or its deferred work ran within it. Waiting of the thread's own choice is none.
//! Gaps that the kernel does not see, below it, are not told: that takes stamps.
//! Cost: nothing without a watch; with one, a line of trace for each switch and interrupt of the watched threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use crate::trace::{Event, Kind, Tracer, Unavailable, parse};
use crate::tsc::{Tsc, stamp};

/// What one cause took of the watched threads on one processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The processor.
    pub cpu: u32,
    /// Name of the cause, as in [`crate::Attribution`].
    pub cause: String,
    /// Number of interruptions.
    pub count: u64,
    /// Time that they took, µs.
    pub total_us: f64,
    /// The longest, µs.
    pub worst_us: f64,
    /// When the last one ended, µs since 1970-01-01 UTC.
    pub last_us: i64,
}

/// Interruptions of this process' threads by processor and cause.
static TOLD: Mutex<BTreeMap<(u32, String), Row>> = Mutex::new(BTreeMap::new());

/// Causes that are told apart; interruptions by further ones go by one name for all.
const CAUSES_MAX: usize = 2_000;
const FURTHER: &str = "other causes";

/// All interruptions that watches of this process have seen, by processor and cause.
pub fn rows() -> Vec<Row> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
}

/// Adds one interruption of `us` µs that ended at `at_us`, µs since 1970-01-01 UTC.
pub fn tell(cpu: u32, cause: &str, us: f64, at_us: i64) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = told.len() < CAUSES_MAX || told.contains_key(&(cpu, cause.to_owned()));
    let cause = if is_known { cause } else { FURTHER };
    let row = told.entry((cpu, cause.to_owned())).or_insert_with(|| Row {
        cpu,
        cause: cause.to_owned(),
        count: 0,
        total_us: 0.0,
        worst_us: 0.0,
        last_us: at_us,
    });
    row.count += 1;
    row.total_us += us;
    row.worst_us = row.worst_us.max(us);
    row.last_us = row.last_us.max(at_us);
}

/// How often the trace is read.
const TURN: Duration = Duration::from_millis(200);
/// Bytes that one turn reads of a processor at most; the kernel drops the oldest events meanwhile, and says so.
const TURN_BYTES: usize = 4 << 20;
/// Room for events of each processor, KiB.
const BUFFER_KB: u32 = 1024;

/// A running watch; it ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the threads of this process whose names begin with one of `names`, those that begin later too, on these
    /// processors.
    ///
    /// Errors: says why there is no trace.
    pub fn start(names: &'static [&'static str], cpus: &[u32]) -> Result<Watch, Unavailable> {
        let tracer = Tracer::of_threads(cpus, BUFFER_KB)?;
        let over = Arc::new(AtomicBool::new(false));
        let mut reader = Reader::new(tracer, names)?;
        let ends = Arc::clone(&over);
        let thread = thread::Builder::new().name("noise-watch".into()).spawn(move || {
            while !ends.load(Relaxed) {
                reader.turn();
                thread::park_timeout(TURN);
            }
        });
        let thread =
            thread.map_err(|error| Unavailable(format!("no thread to watch with: {error}")))?;
        Ok(Watch { over, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A watch that panicked has told what it told.
            let _ = thread.join();
        }
    }
}

/// Reads the trace and tells interruptions.
struct Reader {
    names: &'static [&'static str],
    /// The pipe of each processor, and the beginning of a line that it has not ended.
    pipes: Vec<(File, Vec<u8>)>,
    seen: Interruptions,
    tsc: Tsc,
    /// Dropped last: the kernel keeps an instance while its pipes are open.
    tracer: Tracer,
}

impl Reader {
    fn new(tracer: Tracer, names: &'static [&'static str]) -> Result<Reader, Unavailable> {
        let pipes = tracer.pipes()?.into_iter().map(|pipe| (pipe, Vec::new())).collect();
        let seen = Interruptions::default();
        let mut reader = Reader { names, pipes, seen, tsc: Tsc::measure(), tracer };
        reader.follow()?;
        Ok(reader)
    }

    /// Has the kernel note events of threads that have begun since the last turn.
    fn follow(&mut self) -> Result<(), Unavailable> {
        let threads = threads(self.names);
        let new: Vec<u32> = threads.difference(&self.seen.watched).copied().collect();
        if !new.is_empty() {
            self.tracer.add_threads(&new)?;
        }
        self.seen.watch(threads);
        Ok(())
    }

    fn turn(&mut self) {
        // A thread that ended before its number was written is none to follow.
        let _ = self.follow();
        let mut events = Vec::new();
        let mut lost = 0;
        for (pipe, rest) in &mut self.pipes {
            let trace = parse(&lines(pipe, rest));
            events.extend(trace.events);
            lost += trace.lost;
        }
        if lost > 0 {
            self.seen.forget();
        }
        // Threads move between processors.
        events.sort_by_key(|event| event.at);
        let (now, now_us) = (stamp(), unix_us());
        for event in &events {
            if let Some((cpu, cause, ticks)) = self.seen.event(event) {
                let ago_us = self.tsc.us(now.saturating_sub(event.at)) as i64;
                tell(cpu, &cause, self.tsc.us(ticks), now_us - ago_us);
            }
        }
    }
}

/// The whole lines that a pipe has; what follows the last of them stays in `rest`.
fn lines(pipe: &mut impl Read, rest: &mut Vec<u8>) -> String {
    let mut chunk = [0; 1 << 16];
    while rest.len() < TURN_BYTES {
        match pipe.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => rest.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let end = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&rest[..end]).into_owned();
    rest.drain(..end);
    text
}

/// Numbers of this process' threads whose names begin with one of these.
fn threads(names: &[&str]) -> HashSet<u32> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let wanted = |entry: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        names.iter().any(|wanted| name.starts_with(wanted))
    };
    let chosen = entries.filter(wanted);
    chosen.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn unix_us() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Events of watched threads as interruptions.
#[derive(Debug, Default)]
pub struct Interruptions {
    watched: HashSet<u32>,
    /// Watched threads that would go on: where and since when they wait, and the thread that came in their place.
    away: HashMap<u32, (u32, u64, String)>,
    /// When each watched thread last got a processor.
    resumed: HashMap<u32, u64>,
    /// By processor the interrupt within a watched thread: name, beginning, and number of those within it.
    interrupts: HashMap<u32, (String, u64, u32)>,
}

impl Interruptions {
    /// Watches these threads and no others.
    pub fn watch(&mut self, threads: HashSet<u32>) {
        self.away.retain(|thread, _| threads.contains(thread));
        self.resumed.retain(|thread, _| threads.contains(thread));
        self.watched = threads;
    }

    /// Forgets what has begun: events were lost.
    pub fn forget(&mut self) {
        self.away.clear();
        self.interrupts.clear();
    }

    /// Takes the next event. Gives the interruption that it ends: processor, cause, ticks.
    pub fn event(&mut self, event: &Event) -> Option<(u32, String, u64)> {
        match &event.kind {
            Kind::Switch { from, runnable, to } => {
                self.interrupts.remove(&event.cpu);
                self.leaves(from.id, *runnable, &to.name, event);
                self.resumes(to.id, event)
            }
            Kind::Enter(name) if self.watched.contains(&event.thread) => {
                let entered = self.interrupts.entry(event.cpu);
                entered
                    .and_modify(|(_, _, within)| *within += 1)
                    .or_insert_with(|| (name.clone(), event.at, 0));
                None
            }
            Kind::Leave(_) => {
                let (_, _, within) = self.interrupts.get_mut(&event.cpu)?;
                if *within > 0 {
                    *within -= 1;
                    return None;
                }
                let (name, since, _) = self.interrupts.remove(&event.cpu)?;
                Some((event.cpu, name, event.at.saturating_sub(since)))
            }
            _ => None,
        }
    }

    fn leaves(&mut self, thread: u32, runnable: bool, by: &str, event: &Event) {
        let came_back = self.resumed.get(&thread).is_some_and(|&at| at > event.at);
        if runnable && self.watched.contains(&thread) && !came_back {
            self.away.insert(thread, (event.cpu, event.at, by.to_owned()));
        } else {
            self.away.remove(&thread);
        }
    }

    fn resumes(&mut self, thread: u32, event: &Event) -> Option<(u32, String, u64)> {
        if self.watched.contains(&thread) {
            self.resumed.insert(thread, event.at);
        }
        let (cpu, since, by) = self.away.remove(&thread)?;
        Some((cpu, format!("pre-empted by {by}"), event.at.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Thread;
    use halcyon_base::rng::Rng;

    fn event(at: u64, cpu: u32, thread: u32, kind: Kind) -> Event {
        Event { at, cpu, thread, kind }
    }

    fn switch(at: u64, cpu: u32, from: u32, runnable: bool, to: u32) -> Event {
        let thread = |id: u32| Thread { id, name: format!("t{id}") };
        event(at, cpu, from, Kind::Switch { from: thread(from), runnable, to: thread(to) })
    }

    fn told(events: &[Event]) -> Vec<(u32, String, u64)> {
        let mut seen = Interruptions::default();
        seen.watch(HashSet::from([7, 8]));
        events.iter().filter_map(|event| seen.event(event)).collect()
    }

    #[test]
    fn a_thread_that_would_go_on_and_waits_is_interrupted_wherever_it_goes_on() {
        let found = told(&[switch(10, 1, 7, true, 3), switch(25, 0, 4, false, 7)]);
        assert_eq!(found, [(1, "pre-empted by t3".into(), 15)]);
        // It sleeps by its own choice.
        assert!(told(&[switch(10, 1, 7, false, 3), switch(25, 1, 3, true, 7)]).is_empty());
        // Nobody watches the other one.
        assert!(told(&[switch(10, 1, 3, true, 4), switch(25, 1, 4, true, 3)]).is_empty());
    }

    #[test]
    fn an_event_that_is_read_late_begins_no_interruption() {
        let late =
            [switch(25, 0, 4, false, 7), switch(10, 1, 7, true, 3), switch(90, 0, 4, false, 7)];
        assert!(told(&late).is_empty(), "the thread runs since 25");
    }

    #[test]
    fn interrupts_within_a_watched_thread_are_told_with_those_within_them() {
        let enter = |at, thread, name: &str| event(at, 1, thread, Kind::Enter(name.into()));
        let leave = |at, thread, name: &str| event(at, 1, thread, Kind::Leave(name.into()));
        let found = told(&[
            enter(10, 7, "softirq NET_RX"),
            enter(20, 7, "interrupt local_timer"),
            leave(30, 7, "interrupt local_timer"),
            leave(50, 7, "softirq NET_RX"),
            enter(60, 3, "interrupt local_timer"),
            leave(70, 3, "interrupt local_timer"),
        ]);
        assert_eq!(found, [(1, "softirq NET_RX".into(), 40)]);
    }

    #[test]
    fn any_order_of_events_is_taken() {
        let mut rng = Rng::new(9);
        let mut seen = Interruptions::default();
        seen.watch(HashSet::from([1, 2]));
        for _ in 0..20_000 {
            let (at, cpu, thread) = (rng.below(500), rng.below(2) as u32, rng.below(4) as u32);
            let kind = match rng.below(4) {
                0 => Kind::Enter("a".into()),
                1 => Kind::Leave("b".into()),
                2 => Kind::PageFault { in_kernel: false },
                _ => switch(at, cpu, thread, rng.below(2) == 0, rng.below(4) as u32).kind,
            };
            if let Some((cpu, cause, ticks)) = seen.event(&event(at, cpu, thread, kind)) {
                assert!(cpu < 2 && !cause.is_empty() && ticks <= 500);
            }
            if rng.below(1_000) == 0 {
                seen.forget();
            }
        }
    }

    #[test]
    fn rows_add_up_by_processor_and_cause() {
        tell(4_000, "a", 3.0, 50);
        tell(4_000, "a", 5.0, 40);
        tell(4_001, "a", 1.0, 60);
        let found: Vec<Row> = rows().into_iter().filter(|row| row.cpu >= 4_000).collect();
        let row = Row {
            cpu: 4_000,
            cause: "a".into(),
            count: 2,
            total_us: 8.0,
            worst_us: 5.0,
            last_us: 50,
        };
        assert_eq!((found.len(), &found[0]), (2, &row));
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        let mut rest = b"ab".to_vec();
        assert_eq!(lines(&mut &b"c\nde\nf"[..], &mut rest), "abc\nde\n");
        assert_eq!((lines(&mut &b""[..], &mut rest), rest), (String::new(), b"f".to_vec()));
    }

    #[test]
    fn this_kernel_tells_who_took_the_processor_of_a_watched_thread() {
        let cpus = halcyon_machine::affinity::get().expect("affinity can be asked for");
        let cpu = *cpus.last().expect("some processor");
        let watch = match Watch::start(&["watched-"], &[cpu]) {
            Ok(watch) => watch,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let over = AtomicBool::new(false);
        let spin = |name: &str| {
            halcyon_machine::affinity::set(&[cpu]).expect("an allowed processor");
            while !over.load(Relaxed) {
                std::hint::black_box(name);
            }
        };
        let seen =
            || rows().iter().any(|row| row.cpu == cpu && row.cause == "pre-empted by rival-thread");
        thread::scope(|scope| {
            for name in ["watched-1", "rival-thread"] {
                let thread = thread::Builder::new().name(name.into());
                thread.spawn_scoped(scope, || spin(name)).expect("a thread");
            }
            let since = std::time::Instant::now();
            while !seen() && since.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(50));
            }
            over.store(true, Relaxed);
        });
        drop(watch);
        assert!(seen(), "{:?}", rows());
    }
}
