//! The deterministic twin: the same workers on one thread, in an order that a seed decides.

use super::{Context, on_worker};
use crate::annotation::WorkerId;
use crate::clock::Clock;
use crate::timers::NEVER;
use halcyon_base::rng::Rng;
use halcyon_base::sync::Arc;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};

/// Virtual workers and the order in which they take turns.
pub(crate) struct Simulation {
    workers: Vec<Context>,
    rng: Rng,
    now: Arc<AtomicU64>,
    /// Until when each worker is without its core, ns.
    preempted_until: Vec<u64>,
}

impl Simulation {
    pub(crate) fn new(seed: u64, now: &Arc<AtomicU64>) -> Simulation {
        Simulation {
            workers: Vec::new(),
            rng: Rng::new(seed),
            now: Arc::clone(now),
            preempted_until: Vec::new(),
        }
    }

    pub(crate) fn clock(now: &Arc<AtomicU64>) -> Clock {
        Clock::Virtual(Arc::clone(now))
    }

    pub(crate) fn add(&mut self, worker: Context) {
        self.workers.push(worker);
        self.preempted_until.push(0);
    }

    /// Takes one turn of a worker that the seed chooses; false if none had anything to do.
    pub(crate) fn turn(&mut self) -> bool {
        let count = self.workers.len();
        if count == 0 {
            return false;
        }
        if self.now.load(Ordering::Relaxed) >= self.next_deadline() {
            on_worker(|| self.workers[0].turn());
            return true;
        }
        let first = self.rng.below(count as u64 + 1) as usize;
        // The last number: work that blocks comes first this time.
        if first == count && self.workers[0].shared.offload.run_one() {
            self.now.fetch_add(self.rng.below(100_000), Ordering::Relaxed);
            return true;
        }
        for step in 0..count {
            let chosen = (first + step) % count;
            let runs = self.preempted_until[chosen] <= self.now.load(Ordering::Relaxed);
            if runs && self.workers[chosen].wants_turn() {
                let worker = &mut self.workers[chosen];
                on_worker(|| worker.turn());
                worker.rest();
                self.now.fetch_add(self.rng.below(2_000) + 1, Ordering::Relaxed);
                return true;
            }
        }
        if self.workers.iter().any(Context::wants_turn) {
            // All workers with work are without a core: nothing happens until the first has one
            // again.
            let now = self.now.load(Ordering::Relaxed);
            let next = self.preempted_until.iter().copied().filter(|&until| until > now).min();
            let next = next.unwrap_or(now).min(self.next_deadline().max(now));
            self.now.store(next, Ordering::Relaxed);
            return true;
        }
        // No worker runs a task: the rest of a turn (settling counts, freeing) may make work.
        let mut worked = false;
        for worker in &mut self.workers {
            worked |= on_worker(|| worker.turn());
            worker.rest();
        }
        worked |= count > 0 && self.workers[0].shared.offload.run_one();
        let next = self.next_deadline();
        if !worked && next != NEVER {
            // Nothing happens until the next deadline.
            self.now.fetch_max(next, Ordering::Relaxed);
            return true;
        }
        worked
    }

    /// When the first deadline is due.
    fn next_deadline(&self) -> u64 {
        self.workers.first().map_or(NEVER, |worker| worker.shared.timers.next_ticks())
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

    pub(crate) fn preempt(&mut self, worker: WorkerId, until_ns: u64) {
        let until = &mut self.preempted_until[usize::from(worker.0)];
        *until = until_ns.max(*until);
    }

    /// Drops the workers, which hold the runtime that holds them.
    pub(crate) fn end(&mut self) {
        self.workers.clear();
    }
}
