//! Work that blocks: file and socket calls, run by a few named threads of the control plane, so that
//! no worker waits for them.
//!
//! Threads are started when there is work and none of them is free, up to [`crate::Config::blocking`];
//! what is more waits its turn. They end with the runtime, which runs what was asked for before.
//! Invariants, checked by the model `offloaded_work_runs_and_wakes_its_task` with a planted bug:
//! 1. While work waits, a thread is on its way to it: the thread that adds work wakes an idle thread, or
//!    starts one, or as many threads as there may be are busy and look again when they are done.
//! 2. The runtime ends after the last piece of work.

use crate::planted;
use halcyon_base::sync::{Arc, Condvar, Mutex, thread};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Job = Box<dyn FnOnce() + Send>;

/// The threads of a runtime that may block.
pub(crate) struct Offload {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: Vec<thread::JoinHandle<()>>,
    ending: bool,
}

impl Offload {
    pub(crate) fn new(limit: usize) -> Offload {
        Offload { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds work. `simulated`: nobody runs it but [`Offload::run_one`].
    ///
    /// Errors: the first thread could not be started; the work is dropped then.
    pub(crate) fn add(self: &Arc<Self>, job: Job, simulated: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if simulated {
            return Ok(());
        }
        let told = planted::is(planted::NOBODY_SERVES) && !state.threads.is_empty();
        let served = told || state.idle >= state.jobs.len();
        if !served && state.threads.len() < self.limit {
            let (number, pool) = (state.threads.len(), Arc::clone(self));
            let thread = thread::Builder::new().name(format!("blocking-{number}"));
            match thread.spawn(move || pool.serve()) {
                Ok(thread) => state.threads.push(thread),
                Err(error) if state.threads.is_empty() => {
                    state.jobs.pop_back();
                    return Err(error);
                }
                // Threads that run look for work when they are done.
                Err(_) => {}
            }
        }
        drop(state);
        if !planted::is(planted::NOBODY_SERVES) {
            self.changed.notify_one();
        }
        Ok(())
    }

    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                run(job);
                state = self.state.lock();
            } else if state.ending {
                return;
            } else {
                state.idle += 1;
                self.changed.wait(&mut state);
                state.idle -= 1;
            }
        }
    }

    /// Runs a piece of work on the calling thread, which drives a simulation; false if there is none.
    pub(crate) fn run_one(&self) -> bool {
        let job = self.state.lock().jobs.pop_front();
        job.map(run).is_some()
    }

    /// Lets the threads end once there is no work. Returns at once.
    pub(crate) fn close(&self) {
        self.state.lock().ending = true;
        self.changed.notify_all();
    }

    /// Ends the threads, after all work.
    pub(crate) fn end(&self) {
        self.close();
        let threads = std::mem::take(&mut self.state.lock().threads);
        for thread in threads {
            thread.join().expect("panics of work are caught");
        }
    }
}

/// Runs work; a panic ends the work alone, whose result is then told to be lost.
fn run(job: Job) {
    let _ = catch_unwind(AssertUnwindSafe(job));
}
