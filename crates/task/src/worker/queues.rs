//! The queues of one worker: a ring per band and class, strict bands with a floor for each lower
//! one, stride between the classes of a band.
//!
//! Words: *pass* of a class is its time divided by its weight; the class with the least goes next. A
//! waiting band below another one is *owed* its floor of the time that other bands take, and goes
//! first while it is owed any.
//! Invariants, checked by `Queues::check` in tests:
//! 1. Bit `c` of `ready[b]` is set exactly if the ring of band `b` and class `c` has tasks.
//! 2. Of a ring's places exactly those from head to tail are filled.
//! 3. Tasks wait behind a ring only while the ring is not empty, and are younger than the tasks in
//!    it.
//! 4. A band that waits is owed more with each turn of another band, and a class that waits has the
//!    least pass of its band once the others have run for long enough: nothing waits for ever.
//!
//! Cost: push, pop O(1); a choice O(ready classes of a band).
//! Source: stride scheduling (Waldspurger 1995); the clamp of a waking class is Seastar's.

use super::slot::TaskRef;
use crate::annotation::{Ahead, Annotation, BANDS, CLASSES, LINE_BYTES};
use crate::shares::Shares;
use std::collections::VecDeque;

/// Most tasks between two readings of the clock.
pub(crate) const CHUNK: usize = 32;
/// Rings of a worker: band in the low bits, class above.
const RINGS: usize = BANDS * CLASSES;

/// A waiting task with the lines to fetch before it runs; they stand here so that fetching them
/// does not wait for the task's own slot.
struct Waiting {
    task: TaskRef,
    ahead: Ahead,
}

/// Number of tasks that a ring holds; further tasks wait behind the ring. Few in tests, so that
/// some do.
const PLACES: usize = if cfg!(any(test, shuttle)) { 8 } else { 256 };

/// Tasks of one band and class, oldest first: a ring of a fixed size that stays in the cache, and a
/// queue for the tasks that do not fit.
#[repr(align(64))]
pub(crate) struct Ring {
    /// None until the first push.
    places: Option<Box<[Option<Waiting>; PLACES]>>,
    /// Places are counted without end, and taken modulo their number.
    head: usize,
    tail: usize,
    /// Tasks that may be in the ring: 0 while some wait behind it, or there is none.
    room: usize,
    /// Number of tasks left in the ring at which tasks from behind are moved in; 0 if none wait
    /// behind.
    refill: usize,
    /// Smoothed ticks per task; 0 until something was measured.
    pub(crate) ticks_per_task: u64,
    /// Tasks to run before the clock is read.
    pub(crate) chunk: usize,
    /// A task whose wait is measured: its number, counted as `head` is, and the time at which it
    /// came, in ticks; 0 if there is none.
    sample: (usize, u64),
    behind: VecDeque<Waiting>,
}

impl Ring {
    fn new() -> Ring {
        Ring {
            places: None,
            head: 0,
            tail: 0,
            room: 0,
            refill: 0,
            ticks_per_task: 0,
            chunk: 1,
            sample: (0, 0),
            behind: VecDeque::new(),
        }
    }

    /// Tasks in the ring and behind it.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.filled() + self.behind.len()
    }

    #[inline(always)]
    fn filled(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Nothing waits behind an empty ring.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    #[inline(always)]
    fn take(&mut self, at: usize) -> Option<Waiting> {
        self.places.as_mut().and_then(|places| places[at % PLACES].take())
    }

    /// The lines of a task that is among the next `distance` are fetched at once, those of others
    /// when they get there ([`Ring::pop_front`]).
    #[inline(always)]
    fn push_back(&mut self, task: TaskRef, ahead: Ahead, distance: usize) {
        let (filled, waiting) = (self.filled(), Waiting { task, ahead });
        if filled >= self.room {
            return self.push_behind(waiting);
        }
        if filled < distance {
            prefetch(ahead);
        }
        if let Some(places) = &mut self.places {
            places[self.tail % PLACES] = Some(waiting);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    #[cold]
    fn push_behind(&mut self, waiting: Waiting) {
        self.places.get_or_insert_with(|| Box::new(std::array::from_fn(|_| None)));
        self.behind.push_back(waiting);
        self.refill();
    }

    /// Moves tasks from behind into the ring.
    #[cold]
    fn refill(&mut self) {
        let Some(places) = &mut self.places else { return };
        while self.tail.wrapping_sub(self.head) < PLACES
            && let Some(waiting) = self.behind.pop_front()
        {
            places[self.tail % PLACES] = Some(waiting);
            self.tail = self.tail.wrapping_add(1);
        }
        let more = !self.behind.is_empty();
        (self.room, self.refill) = if more { (0, PLACES / 2) } else { (PLACES, 0) };
    }

    /// The oldest task. Fetches slot and lines of the task that is now the last of the next
    /// `distance`.
    #[inline(always)]
    fn pop_front(&mut self, distance: usize) -> Option<TaskRef> {
        if self.is_empty() {
            return None;
        }
        let at = self.head;
        self.head = at.wrapping_add(1);
        let left = self.filled();
        let places = self.places.as_mut()?;
        let first = places[at % PLACES].take();
        if left >= distance
            && let Some(waiting) = &places[at.wrapping_add(distance) % PLACES]
        {
            waiting.task.prefetch();
            prefetch(waiting.ahead);
        }
        if left < self.refill {
            self.refill();
        }
        first.map(|waiting| waiting.task)
    }

    /// Measures the wait of the youngest task, which came at `now` or shortly before, unless another
    /// one is being measured.
    fn sample(&mut self, now: u64) {
        if self.sample.1 == 0 && !self.is_empty() {
            self.sample = (self.head.wrapping_add(self.len() - 1), now);
        }
    }

    /// The time at which the measured task came, once it has been taken out.
    #[inline]
    pub(crate) fn sampled(&mut self) -> Option<u64> {
        let (number, at) = self.sample;
        let passed = at != 0 && (self.head.wrapping_sub(number) as isize) > 0;
        passed.then(|| std::mem::take(&mut self.sample.1))
    }

    /// The youngest task.
    fn pop_back(&mut self) -> Option<TaskRef> {
        self.sample.1 = 0;
        if let Some(waiting) = self.behind.pop_back() {
            if self.behind.is_empty() {
                self.refill();
            }
            return Some(waiting.task);
        }
        if self.is_empty() {
            return None;
        }
        self.tail = self.tail.wrapping_sub(1);
        self.take(self.tail).map(|waiting| waiting.task)
    }

    /// Queues a task again at the end where it was taken out.
    fn put_back(&mut self, task: TaskRef) {
        let ahead = task.header().annotation.ahead();
        self.push_back(task, ahead, 0);
    }

    /// Notes that `count` tasks took `ticks`; the next chunk lasts about `chunk_ticks`.
    #[inline]
    pub(crate) fn measured(&mut self, count: usize, ticks: u64, chunk_ticks: u64) {
        let per_task = if count == CHUNK { ticks / CHUNK as u64 } else { ticks / count as u64 };
        self.ticks_per_task = match self.ticks_per_task {
            0 => per_task.max(1),
            before => ((3 * before + per_task) / 4).max(1),
        };
        // Doubled at most: a first short task says little about the next ones.
        let most = (2 * self.chunk).min(CHUNK);
        self.chunk = if self.ticks_per_task * most as u64 <= chunk_ticks {
            most
        } else {
            (chunk_ticks / self.ticks_per_task).clamp(1, most as u64) as usize
        };
    }
}

/// Fetches cache lines.
#[inline(always)]
fn prefetch(ahead: Ahead) {
    for line in 0..ahead.lines() {
        let at = ahead.address().wrapping_add(line * LINE_BYTES);
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

/// All tasks that wait at a worker.
pub(crate) struct Queues {
    rings: Box<[Ring; RINGS]>,
    /// Classes with tasks, a bit each, by band.
    ready: [u64; BANDS],
    /// Time by weight, by ring: time that a class takes in one band is no debt in another.
    pass: Box<[u64; RINGS]>,
    /// 2^16 divided by the class's weight.
    stride: Box<[u64; CLASSES]>,
    /// Pass of the class chosen last, by band: where a class that wakes begins. The class that runs
    /// has at least that, so a single task that comes again keeps its claim.
    reached: [u64; BANDS],
    /// Ticks that a waiting band is owed, times 1000. Below zero while the band has had more, as
    /// after a long task, but never below `-debt_limit`: no band waits for ever on its account.
    owed: [i64; BANDS],
    /// Ticks by which a waiting band is owed more for each 1000 that other bands take.
    floors: [i64; BANDS],
    debt_limit: i64,
    /// Whether the last choice was a lower band, because it was owed time.
    by_floor: bool,
    /// The last reading of the clock, ticks.
    pub(crate) now: u64,
    /// How many tasks ahead lines are fetched.
    distance: usize,
}

impl Queues {
    /// A band that had more than `debt_limit` ticks above its share is forgiven what is more.
    pub(crate) fn new(shares: &Shares, debt_limit: u64, distance: usize) -> Queues {
        let mut queues = Queues {
            rings: Box::new(std::array::from_fn(|_| Ring::new())),
            ready: [0; BANDS],
            pass: Box::new([0; RINGS]),
            reached: [0; BANDS],
            stride: Box::new([0; CLASSES]),
            owed: [0; BANDS],
            floors: [0; BANDS],
            debt_limit: (debt_limit * 1000) as i64,
            by_floor: false,
            now: 0,
            distance,
        };
        queues.share(shares);
        queues
    }

    /// Divides time by these shares from now on.
    pub(crate) fn share(&mut self, shares: &Shares) {
        debug_assert_eq!(shares.check(), Ok(()));
        *self.stride = shares.weights.map(|weight| (1 << 16) / u64::from(weight));
        for (floor, given) in self.floors[1..].iter_mut().zip(shares.floors) {
            *floor = i64::from(given);
        }
    }

    /// Queues a task in the ring that its annotation names.
    #[inline]
    pub(crate) fn push(&mut self, task: TaskRef, annotation: &Annotation) {
        debug_assert_eq!(task.header().annotation, *annotation);
        let ring = annotation.ring();
        let queue = &mut self.rings[ring % RINGS];
        let slept = queue.is_empty();
        queue.push_back(task, annotation.ahead(), self.distance);
        if slept {
            self.wake(ring % BANDS, ring / BANDS);
        }
    }

    /// A class that was asleep may not collect the time it slept as a claim.
    #[inline]
    fn wake(&mut self, band: usize, class: usize) {
        let pass = &mut self.pass[band | (class * BANDS)];
        *pass = (*pass).max(self.reached[band]);
        self.ready[band] |= 1 << class;
    }

    /// Measures from now on the wait of the youngest task of each ring that has none measured yet.
    /// Once per turn: code in `push` would cost every task a nanosecond.
    pub(crate) fn sample(&mut self) {
        for band in 0..BANDS {
            for class in bits(self.ready[band]) {
                self.rings[band | (class * BANDS)].sample(self.now);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn ring(&mut self, ring: usize) -> &mut Ring {
        &mut self.rings[ring % RINGS]
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self, ring: usize) -> Option<TaskRef> {
        let queue = &mut self.rings[ring % RINGS];
        let task = queue.pop_front(self.distance);
        if queue.is_empty() {
            self.ready[ring % BANDS] &= !(1 << (ring / BANDS));
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

    /// The ring whose turn it is.
    pub(crate) fn choose(&mut self) -> Option<usize> {
        let first = self.ready.iter().position(|&classes| classes != 0)?;
        let (mut band, mut most) = (first, 0);
        for lower in first + 1..BANDS {
            if self.ready[lower] != 0 && self.owed[lower] > most {
                (band, most) = (lower, self.owed[lower]);
            }
        }
        self.by_floor = band != first;
        let classes = self.ready[band];
        let class = if classes & (classes - 1) == 0 {
            classes.trailing_zeros() as usize
        } else {
            bits(classes).min_by_key(|&class| self.pass[band | (class * BANDS)])?
        };
        let ring = band | (class * BANDS);
        self.reached[band] = self.reached[band].max(self.pass[ring]);
        Some(ring)
    }

    /// Charges `ticks` to the class of a ring.
    pub(crate) fn charge(&mut self, ring: usize, ticks: u64) {
        let (band, class) = (ring % BANDS, ring / BANDS);
        self.pass[ring] += (ticks * self.stride[class]) >> 8;
        let ticks = ticks as i64;
        if self.by_floor {
            self.owed[band] = (self.owed[band] - ticks * 1000).max(-self.debt_limit);
        }
        for other in 1..BANDS {
            if other == band {
            } else if self.ready[other] != 0 {
                self.owed[other] += ticks * self.floors[other];
            } else {
                self.owed[other] = self.owed[other].min(0);
            }
        }
    }

    /// Takes up to `count` of the youngest tasks that another worker may run: of each ring half at
    /// most, and from the highest band first.
    pub(crate) fn give(&mut self, count: usize, mut to: impl FnMut(TaskRef)) {
        let (mut left, mut kept) = (count, Vec::new());
        let ready = self.ready;
        let rings =
            (0..BANDS).flat_map(|band| bits(ready[band]).map(move |class| band | (class * BANDS)));
        for ring in rings {
            let queue = &mut self.rings[ring];
            for _ in 0..left.min(queue.len() / 2) {
                let Some(task) = queue.pop_back() else { break };
                if task.header().annotation.may_move() {
                    left -= 1;
                    to(task);
                } else {
                    kept.push(task);
                }
            }
            kept.drain(..).rev().for_each(|task| queue.put_back(task));
        }
    }

    /// Takes out every task that `wanted` names.
    pub(crate) fn take(
        &mut self,
        mut wanted: impl FnMut(&TaskRef) -> bool,
        mut to: impl FnMut(TaskRef),
    ) {
        for (ring, queue) in self.rings.iter_mut().enumerate() {
            for _ in 0..queue.len() {
                let Some(task) = queue.pop_front(0) else { break };
                if wanted(&task) { to(task) } else { queue.put_back(task) }
            }
            queue.sample.1 = 0;
            if queue.is_empty() {
                self.ready[ring % BANDS] &= !(1 << (ring / BANDS));
            }
        }
    }

    /// Number of waiting tasks, and the ticks that they will take, estimated from earlier tasks of
    /// their rings.
    pub(crate) fn backlog(&self) -> (usize, u64) {
        let mut total = (0, 0);
        for band in 0..BANDS {
            for class in bits(self.ready[band]) {
                let ring = &self.rings[band | (class * BANDS)];
                total.0 += ring.len();
                total.1 += ring.len() as u64 * ring.ticks_per_task;
            }
        }
        total
    }

    /// Panics unless the invariants hold.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (number, ring) in self.rings.iter().enumerate() {
            let ready = self.ready[number % BANDS] >> (number / BANDS) & 1 == 1;
            assert_eq!(ready, !ring.is_empty());
            let places = ring.places.iter().flat_map(|places| places.iter());
            assert_eq!(places.filter(|place| place.is_some()).count(), ring.filled());
            assert!(ring.behind.is_empty() || !ring.is_empty() && ring.room == 0);
            assert_eq!(ring.behind.is_empty(), ring.refill == 0);
        }
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < CLASSES).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotation::{Annotation, ClassId, Priority, TaskPlace, WorkerId};
    use crate::group_table::GroupId;
    use crate::worker::slot::{Arena, Header, Pool};
    use crate::worker::task::Once;
    use halcyon_base::rng::Rng;

    fn queues() -> (Queues, Pool) {
        let mut shares = Shares { floors: [25; BANDS - 1], ..Shares::default() };
        shares.weights[1] = 3;
        (Queues::new(&shares, 10_000_000, 4), Pool::new(WorkerId(0), &Arena::new(2)))
    }

    fn task(pool: &mut Pool, annotation: Annotation) -> TaskRef {
        let header = Header::new(annotation.or(&Annotation::OUTSIDE), GroupId::NONE, 0, 0);
        pool.make(header, Once(Some(|_: &mut crate::Context| ())))
    }

    fn push(queues: &mut Queues, pool: &mut Pool, annotation: Annotation) {
        let annotation = annotation.or(&Annotation::OUTSIDE);
        queues.push(task(pool, annotation), &annotation);
    }

    /// Against plain queues: every order of pushes, pops, gifts and removals.
    #[test]
    fn rings_agree_with_plain_queues() {
        for seed in 0..if cfg!(miri) { 2 } else { 100 } {
            let (mut rng, (mut queues, mut pool)) = (Rng::new(seed), queues());
            let mut model: Vec<VecDeque<u16>> = vec![VecDeque::new(); RINGS];
            let mut next = 0u16;
            for _ in 0..400 {
                let ring = rng.below(3) as usize | (rng.below(2) as usize) << 2;
                match rng.below(10) {
                    0..6 => {
                        // The number travels as the worker that the task asks for.
                        let bands = [Priority::Urgent, Priority::High, Priority::Normal];
                        let annotation = Annotation::new()
                            .priority(bands[ring & 3])
                            .class(ClassId((ring >> 2) as u8))
                            .place(TaskPlace::Worker(WorkerId(next)));
                        push(&mut queues, &mut pool, annotation);
                        model[ring].push_back(next);
                        next += 1;
                    }
                    6..9 => {
                        queues.distance = rng.below(6) as usize;
                        let popped = queues.pop(ring);
                        let number = popped.as_ref().map(|task| task.header().annotation.target());
                        assert_eq!(number, model[ring].pop_front(), "seed {seed}");
                        popped.into_iter().for_each(|task| pool.release(task));
                    }
                    _ => {
                        let mut taken = Vec::new();
                        let odd = |task: &TaskRef| task.header().annotation.target() % 2 == 1;
                        queues.take(odd, |task| taken.push(task));
                        model.iter_mut().for_each(|ring| ring.retain(|number| number % 2 == 0));
                        taken.into_iter().for_each(|task| pool.release(task));
                        queues.give(8, |_| panic!("tasks with a place do not move"));
                    }
                }
                queues.check();
            }
        }
    }

    #[test]
    fn half_of_what_may_move_is_given_away() {
        let (mut queues, mut pool) = queues();
        (0..20).for_each(|_| push(&mut queues, &mut pool, Annotation::new()));
        let mut given = Vec::new();
        queues.give(64, |task| given.push(task));
        assert_eq!((given.len(), queues.backlog().0), (10, 10));
        queues.check();
    }

    #[test]
    fn classes_share_by_weight_and_a_lower_band_keeps_its_floor() {
        let (mut queues, mut pool) = queues();
        let class = |class| Annotation::new().class(ClassId(class));
        let low = Annotation::new().priority(Priority::Low);
        let mut time = [0u64; 3];
        for _ in 0..if cfg!(miri) { 2_000 } else { 50_000 } {
            for (annotation, ring) in [(class(0), 2), (class(1), 2 | 1 << 2), (low, 3)] {
                if queues.ring(ring).is_empty() {
                    push(&mut queues, &mut pool, annotation);
                }
            }
            let ring = queues.choose().expect("all have tasks");
            pool.release(queues.pop(ring).expect("it was chosen"));
            // A task of the lowest band takes 500 times as long.
            let ticks = if ring == 3 { 500_000 } else { 1000 };
            queues.charge(ring, ticks);
            time[match ring {
                2 => 0,
                3 => 2,
                _ => 1,
            }] += ticks;
        }
        let share = time[2] as f64 / time.iter().sum::<u64>() as f64;
        assert!((0.02..0.04).contains(&share), "the lowest band has {share}");
        let ratio = time[1] as f64 / time[0] as f64;
        assert!((2.8..3.2).contains(&ratio), "weights 3 and 1 gave {ratio}");
    }

    #[test]
    fn class_that_slept_does_not_catch_up() {
        let (mut queues, mut pool) = queues();
        let class = |class| Annotation::new().class(ClassId(class));
        push(&mut queues, &mut pool, class(0));
        for _ in 0..1000 {
            let ring = queues.choose().expect("class 0 has a task");
            pool.release(queues.pop(ring).expect("it was chosen"));
            queues.charge(ring, 1000);
            push(&mut queues, &mut pool, class(0));
        }
        (0..100).for_each(|_| push(&mut queues, &mut pool, class(2)));
        let mut late = 0;
        for _ in 0..20 {
            let ring = queues.choose().expect("both have tasks");
            late += usize::from(ring == (2 | 2 << 2));
            pool.release(queues.pop(ring).expect("it was chosen"));
            queues.charge(ring, 1000);
            push(&mut queues, &mut pool, class(0));
        }
        assert!((8..=12).contains(&late), "class 2 ran {late} of 20 times");
    }
    /// Every band and class that waits runs again and again, whatever the others do: bursts of long
    /// tasks, single ones, weights that change.
    #[test]
    fn nothing_waits_for_ever() {
        for seed in 0..if cfg!(miri) { 1 } else { 20 } {
            let (mut rng, (mut queues, mut pool)) = (Rng::new(seed), queues());
            let bands = [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low];
            let place = |band: usize, class: u8| {
                Annotation::new().priority(bands[band]).class(ClassId(class))
            };
            let kinds: Vec<(usize, u8)> =
                (0..BANDS).flat_map(|band| [0, 7, 63].map(|class| (band, class))).collect();
            for &(band, class) in &kinds {
                push(&mut queues, &mut pool, place(band, class));
            }
            let (mut time, mut runs, mut now) = ([0u64; BANDS], [0u32; 12], 0u64);
            for turn in 0..if cfg!(miri) { 500 } else { 40_000 } {
                if turn % 1000 == 999 {
                    let mut shares = Shares::default();
                    shares.weights[7] = [1, 2, 4][rng.below(3) as usize];
                    queues.share(&shares);
                }
                let ring = queues.choose().expect("all have tasks");
                pool.release(queues.pop(ring).expect("it was chosen"));
                let ticks = if rng.chance(1, 500) { 20_000_000 } else { 1000 + rng.below(20_000) };
                now += ticks;
                queues.charge(ring, ticks);
                let (band, class) = (ring % BANDS, (ring / BANDS) as u8);
                push(&mut queues, &mut pool, place(band, class));
                time[band] += ticks;
                let kind = kinds.iter().position(|&kind| kind == (band, class)).unwrap();
                runs[kind] += 1;
                queues.check();
            }
            if !cfg!(miri) {
                let least = *time.iter().min().unwrap() as f64 / now as f64;
                assert!(least > 0.015, "seed {seed}: a band has {least} of {time:?}");
                assert!(runs.iter().all(|&runs| runs > 10), "seed {seed}: runs {runs:?}");
            }
        }
    }

    /// The wait of a task that is measured is the time from its push to its run.
    #[test]
    fn waits_are_measured_by_samples() {
        let (mut queues, mut pool) = queues();
        queues.now = 100;
        push(&mut queues, &mut pool, Annotation::new());
        queues.sample();
        (0..19).for_each(|_| push(&mut queues, &mut pool, Annotation::new()));
        let ring = Annotation::OUTSIDE.ring();
        assert_eq!(queues.ring(ring).sampled(), None, "it has not run");
        pool.release(queues.pop(ring).expect("there are 20"));
        assert_eq!(queues.ring(ring).sampled(), Some(100), "the first that came");
        queues.now = 150;
        queues.sample();
        for left in (0..19).rev() {
            pool.release(queues.pop(ring).expect("there are more"));
            let sampled = queues.ring(ring).sampled();
            assert_eq!(sampled, (left == 0).then_some(150), "the last that came");
        }
    }
}
