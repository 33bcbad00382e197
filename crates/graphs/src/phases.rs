//! Parallel algorithms as phases, so that threads and task groups can run the same ones.
//!
//! A *phase* is a number of items that may be worked on in any order and in parallel; between two
//! phases one worker alone decides what comes next. Workers claim *morsels* of a phase; there is no
//! queue. The worker that finishes a phase's last morsel opens the next phase, so no worker waits
//! at a barrier that could work.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use halcyon_task::measure::thread_cpu_ns;

/// The items of a phase, and how many of them make a morsel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// At least 1.
    pub items: usize,
    /// At least 1.
    pub grain: usize,
}

/// An algorithm, computed in phases.
pub trait Algorithm: Send + Sync + 'static {
    /// Works on part of the phase that is open.
    fn work(&self, worker: usize, items: Range<usize>);

    /// Opens the next phase; `None`: the answer is complete. No worker is at work meanwhile.
    fn next_phase(&self) -> Option<Phase>;
}

/// The workers of an algorithm, with the claims on its phases.
pub struct Crew<A> {
    algorithm: Arc<A>,
    /// Number of the phase in the upper half, number of claimed morsels in the lower.
    claims: AtomicU64,
    items: AtomicUsize,
    grain: AtomicUsize,
    finished: AtomicUsize,
    /// Processor time of the workers that have ended, ns.
    spent_ns: AtomicU64,
}

/// The outcome of a worker's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worked {
    /// A morsel was done.
    Morsel,
    /// Nothing was done: other workers are busy with the last morsels of a phase.
    Nothing,
    /// Nothing was done: the answer is complete.
    Ended,
}

/// The phase number that marks the end.
const ENDED: u64 = u32::MAX as u64;

/// The morsel that no phase reaches: nothing can be claimed while the next phase is opened.
const SEALED: u64 = u32::MAX as u64;

/// Ends the algorithm if its worker panics, because the other workers would wait for its morsel for
/// ever.
struct EndOnPanic<'a>(&'a AtomicU64);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(ENDED << 32, Release);
        }
    }
}

impl<A: Algorithm> Crew<A> {
    /// Opens the first phase.
    pub fn new(algorithm: Arc<A>) -> Self {
        let crew = Crew {
            algorithm,
            claims: AtomicU64::new(0),
            items: AtomicUsize::new(0),
            grain: AtomicUsize::new(1),
            finished: AtomicUsize::new(0),
            spent_ns: AtomicU64::new(0),
        };
        crew.open(0);
        crew
    }

    fn open(&self, number: u64) {
        let Some(phase) = self.algorithm.next_phase() else {
            self.claims.store(ENDED << 32, Release);
            return;
        };
        assert!(phase.items > 0 && phase.grain > 0, "{phase:?} has no morsel");
        assert!(
            phase.items.div_ceil(phase.grain) < SEALED as usize,
            "{phase:?} has too many morsels"
        );
        // A claim of the phase that has ended may still be under way, and must not take the sizes
        // of this phase for its own: so its exchange is made to fail first. Release, paired with
        // the Acquires in `claim`: a worker that reads one of these sizes makes its exchange after
        // the seal, in vain.
        if number > 0 {
            self.claims.store((number - 1) << 32 | SEALED, Relaxed);
        }
        self.items.store(phase.items, Release);
        self.grain.store(phase.grain, Release);
        self.finished.store(0, Relaxed);
        // Pairs with the Acquire in `claim`: a worker that sees the phase sees its size and its
        // data.
        self.claims.store(number << 32, Release);
    }

    /// Works off a morsel, if one can be claimed.
    pub fn work(&self, worker: usize) -> Worked {
        let (number, items) = match self.claim() {
            Ok(claimed) => claimed,
            Err(worked) => return worked,
        };
        let _end = EndOnPanic(&self.claims);
        self.algorithm.work(worker, items.clone());
        // Each worker's changes are released here, and acquired by the worker that opens the next
        // phase.
        let finished = self.finished.fetch_add(items.len(), AcqRel) + items.len();
        if finished == self.items.load(Relaxed) {
            self.open(number + 1);
        }
        Worked::Morsel
    }

    /// Adds the processor time that a worker has used since `start_ns`.
    pub fn spent(&self, start_ns: u64) {
        self.spent_ns.fetch_add(thread_cpu_ns().saturating_sub(start_ns), Relaxed);
    }

    /// Processor time of all workers that have ended, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.spent_ns.load(Relaxed)
    }

    fn claim(&self) -> Result<(u64, Range<usize>), Worked> {
        let mut claims = self.claims.load(Acquire);
        loop {
            let (number, morsel) = (claims >> 32, (claims & u64::from(u32::MAX)) as usize);
            if number == ENDED {
                return Err(Worked::Ended);
            }
            // These are sizes of this phase, or the exchange below fails: the worker that changed
            // them had sealed the phase before.
            let (items, grain) = (self.items.load(Acquire), self.grain.load(Acquire));
            if morsel * grain >= items {
                let now = self.claims.load(Acquire);
                if now == claims {
                    return Err(Worked::Nothing);
                }
                claims = now;
                continue;
            }
            match self.claims.compare_exchange_weak(claims, claims + 1, AcqRel, Acquire) {
                Ok(_) => return Ok((number, morsel * grain..items.min((morsel + 1) * grain))),
                Err(now) => claims = now,
            }
        }
    }
}

/// Runs an algorithm on `threads` threads, placed by the operating system; returns their processor
/// time, ns.
pub fn on_threads<A: Algorithm>(algorithm: &Arc<A>, threads: usize) -> u64 {
    let crew = Crew::new(Arc::clone(algorithm));
    let work = |worker| {
        let (mut idle, start_ns) = (0, thread_cpu_ns());
        loop {
            match crew.work(worker) {
                Worked::Morsel => idle = 0,
                Worked::Ended => return crew.spent(start_ns),
                // As OpenMP's runtimes do with more threads than cores: spin briefly, then give the
                // core away.
                Worked::Nothing if idle < 100 => {
                    idle += 1;
                    std::hint::spin_loop();
                }
                Worked::Nothing => std::thread::yield_now(),
            }
        }
    };
    if threads == 1 {
        work(0);
        return crew.cpu_ns();
    }
    std::thread::scope(|scope| {
        for worker in 1..threads {
            let work = &work;
            scope.spawn(move || work(worker));
        }
        work(0);
    });
    crew.cpu_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Counts each item of each of ten phases.
    struct Counting {
        phase: Mutex<usize>,
        seen: Vec<AtomicUsize>,
    }

    impl Algorithm for Counting {
        fn work(&self, _worker: usize, items: Range<usize>) {
            items.for_each(|item| {
                self.seen[item].fetch_add(1, Relaxed);
            });
        }

        fn next_phase(&self) -> Option<Phase> {
            let mut phase = self.phase.lock().unwrap();
            let done: usize = self.seen.iter().map(|seen| seen.load(Relaxed)).sum();
            assert_eq!(done, (0..*phase).map(|before| 10 * before + 1).sum::<usize>());
            *phase += 1;
            (*phase <= 10).then_some(Phase { items: 10 * (*phase - 1) + 1, grain: *phase })
        }
    }

    /// Panics at its first item.
    struct Broken;

    impl Algorithm for Broken {
        fn work(&self, _worker: usize, items: Range<usize>) {
            assert_ne!(items.start, 0, "broken");
        }

        fn next_phase(&self) -> Option<Phase> {
            Some(Phase { items: 8, grain: 1 })
        }
    }

    #[test]
    fn a_panic_ends_all_workers() {
        let run = || on_threads(&Arc::new(Broken), 4);
        assert!(std::panic::catch_unwind(run).is_err());
    }

    #[test]
    fn every_item_of_a_phase_is_worked_on_once_before_the_next() {
        for threads in 1..=4 {
            for _ in 0..500 {
                let seen = (0..100).map(|_| AtomicUsize::new(0)).collect();
                on_threads(&Arc::new(Counting { phase: Mutex::new(0), seen }), threads);
            }
        }
    }
}
