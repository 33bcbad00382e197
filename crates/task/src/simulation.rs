//! The deterministic twin: the same workers on one thread, in an order that a seed decides.

use crate::clock::Clock;
use crate::context::{self, Context};
use halcyon_base::rng::Rng;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};

/// Virtual workers and the order in which they take turns.
pub(crate) struct Simulation {
    workers: Vec<Context>,
    rng: Rng,
    now: Arc<AtomicU64>,
}

impl Simulation {
    pub(crate) fn new(seed: u64, now: &Arc<AtomicU64>) -> Simulation {
        Simulation { workers: Vec::new(), rng: Rng::new(seed), now: Arc::clone(now) }
    }

    pub(crate) fn clock(now: &Arc<AtomicU64>) -> Clock {
        Clock::Virtual(Arc::clone(now))
    }

    pub(crate) fn add(&mut self, worker: Context) {
        self.workers.push(worker);
    }

    /// Takes one turn of a worker that the seed chooses; false if none had anything to do.
    pub(crate) fn turn(&mut self) -> bool {
        let count = self.workers.len();
        if count == 0 {
            return false;
        }
        let first = self.rng.below(count as u64) as usize;
        for step in 0..count {
            let chosen = (first + step) % count;
            if self.workers[chosen].has_work() {
                let worker = &mut self.workers[chosen];
                context::on_worker(|| worker.turn());
                self.now.fetch_add(self.rng.below(2_000) + 1, Ordering::Relaxed);
                return true;
            }
        }
        // Nobody runs a task: what turns do besides (settling counts, freeing) may make work.
        let mut worked = false;
        for worker in &mut self.workers {
            worked |= context::on_worker(|| worker.turn());
        }
        worked
    }

    pub(crate) fn run_until(&mut self, done: impl Fn() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if !self.turn() {
                return done();
            }
        }
    }

    /// Lets go of the workers, which hold the runtime that holds them.
    pub(crate) fn end(&mut self) {
        self.workers.clear();
    }
}
