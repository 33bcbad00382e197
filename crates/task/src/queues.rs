//! The tasks that wait at one worker: a ring per band and class, strict bands with a floor for the
//! lowest, stride between the classes of a band.
//!
//! Words: *pass* of a class is its time divided by its weight; the class with the least goes next.
//! Invariants, checked by [`Queues::check`]:
//! 1. Bit `c` of `ready[b]` is set exactly if ring `(b, c)` is not empty.
//! 2. `prefetched <= len` of every ring.
//!
//! Cost: push, pop O(1); a choice O(ready classes of a band).
//! Source: stride scheduling (Waldspurger 1995); the clamp of a waking class is Seastar's.

use crate::annotation::{BANDS, CLASSES, LINE_BYTES};
use crate::slot::TaskRef;
use std::collections::VecDeque;

/// Tasks of one band and class, oldest first.
#[derive(Default)]
pub(crate) struct Ring {
    tasks: VecDeque<TaskRef>,
    /// How many tasks from the front have had their annotated lines fetched.
    prefetched: usize,
    /// Smoothed ticks per task; 0 until something was measured.
    pub(crate) ticks_per_task: u64,
}

impl Ring {
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The oldest task; fetches ahead so that `distance` tasks behind it are on their way.
    #[inline]
    pub(crate) fn pop(&mut self, distance: usize) -> Option<TaskRef> {
        let task = self.tasks.pop_front()?;
        self.prefetched = self.prefetched.saturating_sub(1);
        while self.prefetched < distance
            && let Some(ahead) = self.tasks.get(self.prefetched)
        {
            let annotation = &ahead.header().annotation;
            prefetch(annotation.address, annotation.lines);
            self.prefetched += 1;
        }
        if let Some(far) = self.tasks.get(2 * distance) {
            far.prefetch();
        }
        Some(task)
    }
}

/// Fetches `lines` cache lines from `address` on.
#[inline(always)]
fn prefetch(address: usize, lines: u8) {
    for line in 0..usize::from(lines) {
        let at = address.wrapping_add(line * LINE_BYTES);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch is a hint; it neither faults nor changes what memory holds, whatever
        // the address.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(at));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }
}

/// What waits at a worker.
pub(crate) struct Queues {
    rings: Box<[[Ring; CLASSES]; BANDS]>,
    /// Classes with tasks, a bit each, by band.
    ready: [u16; BANDS],
    /// Time by weight, by class.
    pass: [u64; CLASSES],
    /// 2^16 divided by the class's weight.
    stride: [u64; CLASSES],
    /// Ticks that the lowest waiting band is owed: its floor of the time that others took. Below
    /// zero while it has had more, as a long task of it makes it.
    owed_to_lowest: i64,
    /// A lowest band that waits is owed a tick for each so many that others take.
    floor: i64,
    /// Whether the last choice was the lowest band by its floor.
    by_floor: bool,
}

impl Queues {
    /// Panics: if a weight or the floor is 0.
    pub(crate) fn new(weights: [u32; CLASSES], floor: i64) -> Queues {
        assert!(floor > 0, "a floor of one in 0 has no meaning");
        Queues {
            rings: Box::default(),
            ready: [0; BANDS],
            pass: [0; CLASSES],
            stride: weights.map(|weight| (1 << 16) / u64::from(weight)),
            owed_to_lowest: 0,
            floor,
            by_floor: false,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, task: TaskRef) {
        let annotation = &task.header().annotation;
        let (band, class) = (usize::from(annotation.band), usize::from(annotation.class));
        let ring = &mut self.rings[band][class];
        if ring.tasks.is_empty() {
            self.wake(band, class);
        }
        self.rings[band][class].tasks.push_back(task);
    }

    /// A class that was asleep may not collect the time it slept as a claim.
    #[cold]
    fn wake(&mut self, band: usize, class: usize) {
        let least = bits(self.ready[band]).map(|other| self.pass[other]).min();
        let least = least.unwrap_or(self.pass[class]);
        self.pass[class] = self.pass[class].max(least);
        self.ready[band] |= 1 << class;
    }

    #[inline]
    pub(crate) fn ring(&mut self, band: usize, class: usize) -> &mut Ring {
        &mut self.rings[band][class]
    }

    #[inline]
    pub(crate) fn pop(&mut self, band: usize, class: usize, distance: usize) -> Option<TaskRef> {
        let ring = &mut self.rings[band][class];
        let task = ring.pop(distance);
        if ring.tasks.is_empty() {
            self.ready[band] &= !(1 << class);
        }
        task
    }

    /// Whether some task waits.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.ready != [0; BANDS]
    }

    /// Whether a task waits that goes before those of `band`, the band chosen last.
    #[inline]
    pub(crate) fn goes_before(&self, band: usize) -> bool {
        self.ready[..band].iter().any(|&classes| classes != 0)
    }

    /// Band and class whose turn it is.
    pub(crate) fn choose(&mut self) -> Option<(usize, usize)> {
        let first = self.ready.iter().position(|&classes| classes != 0)?;
        let last = self.ready.iter().rposition(|&classes| classes != 0)?;
        self.by_floor = self.owed_to_lowest > 0 && last > first;
        let band = if self.by_floor { last } else { first };
        let least = bits(self.ready[band]).min_by_key(|&class| self.pass[class])?;
        Some((band, least))
    }

    /// Charges `ticks` to a class of a band.
    pub(crate) fn charge(&mut self, band: usize, class: usize, ticks: u64) {
        self.pass[class] += (ticks * self.stride[class]) >> 8;
        let ticks = ticks as i64;
        if self.by_floor {
            self.owed_to_lowest -= ticks;
        } else if self.ready[band + 1..].iter().any(|&classes| classes != 0) {
            self.owed_to_lowest += ticks / self.floor;
        }
    }

    /// Takes up to `count` of the youngest tasks that another worker may run, oldest first.
    pub(crate) fn give(&mut self, count: usize, mut to: impl FnMut(TaskRef)) {
        let mut left = count;
        for band in 0..BANDS {
            for class in bits(self.ready[band]) {
                let ring = &mut self.rings[band][class];
                let from = ring.tasks.len() - left.min(ring.tasks.len() / 2);
                let mut kept = VecDeque::new();
                for task in ring.tasks.drain(from..) {
                    if task.header().annotation.may_move() && left > 0 {
                        left -= 1;
                        to(task);
                    } else {
                        kept.push_back(task);
                    }
                }
                ring.tasks.append(&mut kept);
                ring.prefetched = ring.prefetched.min(ring.tasks.len());
                if ring.tasks.is_empty() {
                    self.ready[band] &= !(1 << class);
                }
            }
        }
    }

    /// Takes out every task that `wanted` names.
    pub(crate) fn take(
        &mut self,
        mut wanted: impl FnMut(&TaskRef) -> bool,
        mut to: impl FnMut(TaskRef),
    ) {
        for band in 0..BANDS {
            for class in bits(self.ready[band]) {
                let ring = &mut self.rings[band][class];
                for task in std::mem::take(&mut ring.tasks) {
                    if wanted(&task) { to(task) } else { ring.tasks.push_back(task) }
                }
                ring.prefetched = 0;
                if ring.tasks.is_empty() {
                    self.ready[band] &= !(1 << class);
                }
            }
        }
    }

    /// How many tasks wait, and what they will take by what their like took, in ticks.
    pub(crate) fn backlog(&self) -> (usize, u64) {
        let mut total = (0, 0);
        for band in 0..BANDS {
            for class in bits(self.ready[band]) {
                let ring = &self.rings[band][class];
                total.0 += ring.tasks.len();
                total.1 += ring.tasks.len() as u64 * ring.ticks_per_task;
            }
        }
        total
    }

    /// Panics unless the invariants hold.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for band in 0..BANDS {
            for class in 0..CLASSES {
                let ring = &self.rings[band][class];
                assert_eq!(self.ready[band] >> class & 1 == 1, !ring.tasks.is_empty());
                assert!(ring.prefetched <= ring.tasks.len());
            }
        }
    }
}

fn bits(mut mask: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < CLASSES).then_some(bit)
    })
}
