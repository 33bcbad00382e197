//! Which statements have been short of late: these run on Python's main thread itself.
//!
//! Handing a statement to another thread and waiting for it costs more than a look-up by key. What has run in less than
//! [`SHORT`] so many times in a row is taken to do so again; while it waits for a lock or the disk, signals are asked for
//! in any case. The price: where such a statement computes for long after all, Ctrl-C ends it late, once.

use std::collections::HashMap;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use halcyon::{CancelHandle, Outcome, Progress, Session, Statement, Value};
use pyo3::prelude::*;

use crate::interrupt::{LOOK, Unpark};

/// The longest run that is short.
const SHORT: Duration = Duration::from_micros(200);
/// Short runs in a row after which a statement is taken for short.
const SHORT_RUNS: u8 = 8;
/// Texts that are remembered; then all are forgotten.
const TEXTS_MAX: usize = 1024;
/// The longest text that is remembered, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Short runs in a row of each text.
#[derive(Default)]
pub struct Habits(HashMap<String, u8>);

impl Habits {
    /// Whether the next run is taken for short.
    pub fn is_short(&self, text: &str) -> bool {
        self.0.get(text).is_some_and(|runs| *runs >= SHORT_RUNS)
    }

    /// Notes how long a run took.
    pub fn note(&mut self, text: &str, took: Duration) {
        let is_short = took <= SHORT;
        match self.0.get_mut(text) {
            Some(runs) if is_short => *runs = (*runs + 1).min(SHORT_RUNS),
            Some(runs) => *runs = 0,
            None if is_short && text.len() <= TEXT_BYTES_MAX => {
                if self.0.len() >= TEXTS_MAX {
                    self.0.clear();
                }
                self.0.insert(text.to_owned(), 1);
            }
            None => {}
        }
    }
}

/// Runs a statement on this thread, which is Python's main thread and does not hold the interpreter's lock. A signal's handler
/// that raises while the statement waits ends it; the exception is returned in `raised`.
pub fn run_here(
    session: &mut Session,
    statement: &Statement,
    params: &[Value],
    cancel: &CancelHandle,
    raised: &mut Option<PyErr>,
) -> halcyon::Result<Outcome> {
    loop {
        match session.run_or_queue(statement, params)? {
            Progress::Done(outcome) => return Ok(outcome),
            Progress::Queued => wait(cancel, raised, |context| {
                (session.poll_lock(context), session.lock_time_left())
            }),
            Progress::Syncing => wait(cancel, raised, |context| {
                (session.poll_disk(context), session.disk_time_left())
            }),
        }
    }
}

/// Waits until `poll` is ready or its time is over, and asks for signals meanwhile.
fn wait(
    cancel: &CancelHandle,
    raised: &mut Option<PyErr>,
    mut poll: impl FnMut(&mut Context<'_>) -> (Poll<()>, Option<Duration>),
) {
    let waker = Waker::from(Unpark::this_thread());
    let mut context = Context::from_waker(&waker);
    let mut asked = Instant::now();
    loop {
        let (Poll::Pending, left) = poll(&mut context) else { return };
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        std::thread::park_timeout(left.map_or(LOOK, |left| left.min(LOOK)));
        if asked.elapsed() >= LOOK {
            asked = Instant::now();
            if raised.is_none() {
                *raised = Python::attach(|py| py.check_signals()).err();
            }
        }
        if raised.is_some() {
            cancel.cancel();
        }
    }
}
