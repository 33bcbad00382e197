//! The progress of work that lasts: what runs, how far it is, and since when, for those who look on.
//!
//! Words: a *work* is one run of something that may last (a COPY, an index that is built, a checkpoint). Its *stages*
//! follow each other; each counts what is *done* in one unit, of a total if that is known. A work that is begun while
//! the thread is within another one is a *part* of that, and counts for it as well where both count in one unit.
//!
//! A work belongs to the account that its thread works for ([`memory::current`]), by which a database finds the
//! session, or to a database. Works of nobody are seen by [`all`] alone.
//!
//! Invariants: a work is listed from its beginning until the owner's handle is dropped, whichever way that happens;
//! checked by `a_work_is_listed_until_it_is_dropped_also_by_a_panic`. What is done never falls within a stage, and who
//! looks sees the words of one stage; checked by `who_looks_while_stages_change_sees_the_words_of_one`.
//! Cost: counting is an addition to a word of the work's own, and of those that it is a part of; who counts does so once
//! in some thousand rows ([`Rows`]). Beginning and ending lock the list of works, and allocate.
//! Threads: all. Counts are relaxed; the words that say what a stage is are read under a sequence number, which one
//! thread at a time writes.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{clock, memory};

mod words;

pub use words::{Kind, Phase, Unit};

/// Rows that a loop counts by itself before it tells its work.
pub const ROWS_PER_TELL: u64 = 1024;

/// Says that a total is not known.
const UNKNOWN: u64 = u64::MAX;

static WORKS: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Lists and names are whole whenever their lock is free.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A table, view or index that a work is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Name of the schema.
    pub schema: String,
    /// Name within the schema.
    pub name: String,
    /// Number of the object, which clients know as its oid.
    pub oid: u32,
}

impl Object {
    /// An object by its names and number.
    pub fn new(schema: &str, name: &str, oid: u32) -> Object {
        Object { schema: schema.to_owned(), name: name.to_owned(), oid }
    }
}

/// A work's words, alone in their cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Entry {
    number: u64,
    kind: Kind,
    account: u16,
    database: Option<u128>,
    object: Option<Object>,
    part_of: Option<Arc<Entry>>,
    began_us: i64,
    /// The index of the present stage.
    index: Mutex<Option<Object>>,
    /// Odd while the words of a stage are written.
    sequence: AtomicU64,
    phase: AtomicU8,
    unit: AtomicU8,
    total: AtomicU64,
    stage_began_us: AtomicU64,
    done: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    excluded: AtomicU64,
}

impl Entry {
    fn begin_stage(&self, phase: Phase, unit: Unit, total: Option<u64>, index: Option<Object>) {
        // The lock keeps writers apart; readers take it for the name alone.
        let mut of_stage = locked(&self.index);
        *of_stage = index;
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence + 1, Relaxed);
        fence(Release);
        self.phase.store(phase as u8, Relaxed);
        self.unit.store(unit as u8, Relaxed);
        self.total.store(total.unwrap_or(UNKNOWN), Relaxed);
        self.stage_began_us.store(now_us(), Relaxed);
        self.done.store(0, Relaxed);
        self.sequence.store(sequence + 2, Release);
    }

    fn unit(&self) -> u8 {
        self.unit.load(Relaxed)
    }

    /// Counts in the present stage, if that has the unit, and in those of the works that it is a part of.
    fn count(&self, unit: Unit, more: u64) {
        let mut entry = Some(self);
        while let Some(this) = entry {
            if this.unit() == unit as u8 {
                this.done.fetch_add(more, Relaxed);
            }
            entry = this.part_of.as_deref();
        }
    }

    /// Counts for the whole work and its stage.
    fn add(&self, unit: Unit, more: u64) {
        match unit {
            Unit::Rows => drop(self.rows.fetch_add(more, Relaxed)),
            Unit::Bytes => drop(self.bytes.fetch_add(more, Relaxed)),
            Unit::Partitions => {}
        }
        self.count(unit, more);
        tell_watcher(self);
    }

    fn shown(&self) -> Shown {
        let (phase, unit, total, began, done) = loop {
            let before = self.sequence.load(Acquire);
            let words = (
                self.phase.load(Relaxed),
                self.unit(),
                self.total.load(Relaxed),
                self.stage_began_us.load(Relaxed),
                self.done.load(Relaxed),
            );
            fence(Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
                break words;
            }
            std::hint::spin_loop();
        };
        Shown {
            number: self.number,
            part_of: self.part_of.as_ref().map(|whole| whole.number),
            kind: self.kind,
            account: self.account,
            database: self.database,
            object: self.object.clone(),
            index: locked(&self.index).clone(),
            phase: Phase::of(phase),
            unit: Unit::of(unit),
            done,
            // What is counted may have grown since.
            total: (total != UNKNOWN).then_some(total.max(done)),
            rows: self.rows.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            excluded: self.excluded.load(Relaxed),
            began_us: self.began_us,
            stage_began_us: i64::try_from(began).unwrap_or(i64::MAX),
        }
    }
}

fn now_us() -> u64 {
    u64::try_from(clock::wall_us()).unwrap_or(0)
}

/// A work as it was at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The work's number, in the order in which works of the process began.
    pub number: u64,
    /// Number of the work that it is a part of.
    pub part_of: Option<u64>,
    /// What it does.
    pub kind: Kind,
    /// Number of the account that it is done for ([`memory::AccountId::number`]); 0 for nobody's.
    pub account: u16,
    /// The database whose own work it is.
    pub database: Option<u128>,
    /// The table or view that it is about.
    pub object: Option<Object>,
    /// The index that the stage is about.
    pub index: Option<Object>,
    /// What the stage does.
    pub phase: Phase,
    /// What the stage counts.
    pub unit: Unit,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; `None` if that is not known.
    pub total: Option<u64>,
    /// Rows since the work began.
    pub rows: u64,
    /// Bytes since the work began.
    pub bytes: u64,
    /// Rows that a condition has left out.
    pub excluded: u64,
    /// When the work began, microseconds since 1970.
    pub began_us: i64,
    /// When the stage began, microseconds since 1970.
    pub stage_began_us: i64,
}

impl Shown {
    /// How much of the stage is done, 0 to 100; `None` if its total is not known.
    pub fn percent(&self) -> Option<f64> {
        self.total.map(|total| match total {
            0 => 100.0,
            total => self.done as f64 * 100.0 / total as f64,
        })
    }
}

/// All works of the process, in the order in which they began.
pub fn all() -> Vec<Shown> {
    let works = locked(&WORKS).clone();
    let mut shown: Vec<Shown> = works.iter().map(|entry| entry.shown()).collect();
    shown.sort_by_key(|work| work.number);
    shown
}

/// A work that goes on, which others see until this is dropped.
#[derive(Debug)]
pub struct Work(Arc<Entry>);

/// Begins a work of the account that the thread works for.
pub fn begin(kind: Kind, object: Option<Object>) -> Work {
    begin_for(None, kind, object)
}

/// Begins a work of a database, known by its number, and of the account that the thread works for, if there is one.
pub fn begin_for(database: Option<u128>, kind: Kind, object: Option<Object>) -> Work {
    let now = now_us();
    let entry = Arc::new(Entry {
        number: NEXT.fetch_add(1, Relaxed),
        kind,
        account: memory::current().number(),
        database,
        object,
        part_of: present(),
        began_us: i64::try_from(now).unwrap_or(i64::MAX),
        index: Mutex::new(None),
        sequence: AtomicU64::new(0),
        phase: AtomicU8::new(Phase::Initializing as u8),
        unit: AtomicU8::new(Unit::Rows as u8),
        total: AtomicU64::new(UNKNOWN),
        stage_began_us: AtomicU64::new(now),
        done: AtomicU64::new(0),
        rows: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        excluded: AtomicU64::new(0),
    });
    locked(&WORKS).push(Arc::clone(&entry));
    Work(entry)
}

/// Begins a work of the thread's account that writes rows into a table, so many in all if that is known.
pub fn begin_writing(kind: Kind, table: Object, rows: Option<usize>) -> Work {
    let work = begin(kind, Some(table));
    work.stage(Phase::WritingRows, Unit::Rows, rows.map(|rows| rows as u64));
    work
}

impl Work {
    /// Begins the next stage.
    pub fn stage(&self, phase: Phase, unit: Unit, total: Option<u64>) {
        self.0.begin_stage(phase, unit, total, None);
    }

    /// Says that so many rows more are done.
    #[inline]
    pub fn rows(&self, more: u64) {
        self.0.add(Unit::Rows, more);
    }

    /// Says that so many bytes more are done.
    #[inline]
    pub fn bytes(&self, more: u64) {
        self.0.add(Unit::Bytes, more);
    }

    /// Says that a condition has left out so many rows more.
    pub fn excluded(&self, more: u64) {
        self.0.excluded.fetch_add(more, Relaxed);
    }

    /// Says how much of the stage is done, unless more was said before.
    pub fn reach(&self, done: u64) {
        self.0.done.fetch_max(done, Relaxed);
    }

    /// Makes this the thread's work until the guard is dropped: what [`stage`] and [`rows`] are told counts for it, and
    /// works that are begun meanwhile are parts of it.
    pub fn enter(&self) -> Within {
        Within(PRESENT.replace(Some(Arc::clone(&self.0))), PhantomData)
    }

    /// The work as others see it.
    pub fn shown(&self) -> Shown {
        self.0.shown()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        locked(&WORKS).retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

thread_local! {
    /// The work that the thread is within.
    static PRESENT: RefCell<Option<Arc<Entry>>> = const { RefCell::new(None) };
    static WATCHER: RefCell<Option<Box<Watcher>>> = const { RefCell::new(None) };
}

/// The stretch of a thread within a work ([`Work::enter`]).
#[derive(Debug)]
pub struct Within(Option<Arc<Entry>>, PhantomData<*const ()>);

impl Drop for Within {
    fn drop(&mut self) {
        PRESENT.set(self.0.take());
    }
}

fn present() -> Option<Arc<Entry>> {
    PRESENT.with_borrow(Clone::clone)
}

/// Begins the next stage of the work that the thread is within, if it is within one.
pub fn stage(phase: Phase, unit: Unit, total: Option<u64>) {
    if let Some(entry) = present() {
        entry.begin_stage(phase, unit, total, None);
    }
}

/// Begins the stage in which an index is built of so many rows.
pub fn stage_of_index(index: Object, total: u64) {
    if let Some(entry) = present() {
        entry.begin_stage(Phase::ScanningTable, Unit::Rows, Some(total), Some(index));
    }
}

/// Says that the keys of an index, or of its part, are there and are put into it. The counts go on.
pub fn loads_tree() {
    swap_phase(Phase::ScanningTable, Phase::LoadingTree);
}

/// Says that keys are made of the rows of a table's next part.
pub fn scans_table() {
    swap_phase(Phase::LoadingTree, Phase::ScanningTable);
}

fn swap_phase(from: Phase, to: Phase) {
    PRESENT.with_borrow(|entry| {
        if let Some(entry) = entry {
            // Another phase stays as it is.
            let _ = entry.phase.compare_exchange(from as u8, to as u8, Relaxed, Relaxed);
        }
    });
}

/// Says that the work that the thread is within has done so many rows more.
pub fn rows(more: u64) {
    if let Some(entry) = present() {
        entry.add(Unit::Rows, more);
    }
}

/// Says that the work that the thread is within has done so many bytes more.
pub fn bytes(more: u64) {
    if let Some(entry) = present() {
        entry.add(Unit::Bytes, more);
    }
}

/// The rows of a loop, which are told to the thread's work [`ROWS_PER_TELL`] at a time, and the rest at the loop's end.
#[derive(Debug, Default)]
pub struct Rows(Cell<u64>);

impl Rows {
    /// Counts a row.
    #[inline]
    pub fn next(&self) {
        let counted = self.0.get() + 1;
        self.0.set(counted);
        if counted == ROWS_PER_TELL {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        rows(self.0.take());
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if self.0.get() > 0 {
            self.tell();
        }
    }
}

/// What [`watch`] calls.
pub type Watcher = dyn FnMut(&Shown);

/// Has `watcher` called on this thread whenever it has counted for a work, until `watch(None)`: for tests that look on
/// at a moment of their choice, while the work stands still.
pub fn watch(watcher: Option<Box<Watcher>>) {
    WATCHER.set(watcher);
}

#[inline]
fn tell_watcher(entry: &Entry) {
    // Taken out, so that what it does itself is not watched.
    if let Some(mut watcher) = WATCHER.take() {
        watcher(&entry.shown());
        WATCHER.set(Some(watcher));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Account;

    fn of(work: &Work) -> Shown {
        let number = work.0.number;
        all().into_iter().find(|shown| shown.number == number).expect("it is listed")
    }

    fn is_listed(number: u64) -> bool {
        all().iter().any(|shown| shown.number == number)
    }

    #[test]
    fn a_work_is_listed_until_it_is_dropped_also_by_a_panic() {
        let account = Account::new();
        let work = {
            let _entered = account.id().enter();
            begin(Kind::CopyFromFile, Some(Object::new("public", "t", 7)))
        };
        let shown = of(&work);
        assert_eq!(shown.account, account.id().number());
        assert_eq!((shown.phase, shown.total), (Phase::Initializing, None));
        assert_eq!(shown.object.map(|object| object.oid), Some(7));
        drop(work);
        assert!(!is_listed(shown.number));

        let number = Cell::new(0);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let work = begin(Kind::Update, None);
            let _within = work.enter();
            number.set(work.0.number);
            assert!(is_listed(work.0.number));
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(ended.is_err() && !is_listed(number.get()));
        assert!(present().is_none(), "the thread is within nothing any more");
    }

    #[test]
    fn counts_rise_within_a_stage_and_begin_anew_with_the_next() {
        let work = begin(Kind::CopyFromFile, None);
        work.stage(Phase::Copying, Unit::Bytes, Some(100));
        work.bytes(60);
        work.rows(3);
        work.excluded(1);
        work.reach(50);
        let shown = work.shown();
        assert_eq!((shown.done, shown.total, shown.rows), (60, Some(100), 3));
        assert_eq!((shown.bytes, shown.excluded, shown.percent()), (60, 1, Some(60.0)));
        work.bytes(60);
        assert_eq!(work.shown().total, Some(120), "a file that has grown is not more than whole");
        work.stage(Phase::CheckingRows, Unit::Rows, None);
        work.rows(2);
        let shown = work.shown();
        assert_eq!((shown.done, shown.total, shown.percent()), (2, None, None));
        assert_eq!((shown.rows, shown.bytes), (5, 120), "for the whole work");
    }

    #[test]
    fn a_part_counts_for_the_whole_where_both_have_one_unit() {
        let whole = begin(Kind::Import, None);
        whole.stage(Phase::RunningScripts, Unit::Bytes, Some(1000));
        let within = whole.enter();
        let part = begin(Kind::CopyFromFile, None);
        drop(within);
        part.stage(Phase::Copying, Unit::Bytes, Some(400));
        part.bytes(300);
        part.rows(8);
        assert_eq!(part.shown().part_of, Some(whole.shown().number));
        assert_eq!((whole.shown().done, whole.shown().rows), (300, 0));
        let other = begin(Kind::CopyFromFile, None);
        assert_eq!(other.shown().part_of, None, "the thread has left the whole");
    }

    #[test]
    fn rows_of_a_loop_are_told_in_batches_and_at_its_end() {
        let told = std::rc::Rc::new(RefCell::new(Vec::new()));
        let work = begin(Kind::AlterTable, None);
        work.stage(Phase::RewritingRows, Unit::Rows, Some(2500));
        let _within = work.enter();
        let watcher = std::rc::Rc::clone(&told);
        watch(Some(Box::new(move |shown| watcher.borrow_mut().push(shown.done))));
        let rows = Rows::default();
        (0..2500).for_each(|_| rows.next());
        drop(rows);
        watch(None);
        assert_eq!(*told.borrow(), [1024, 2048, 2500]);
    }

    #[test]
    fn an_index_swaps_its_phases_and_nothing_else_does() {
        let work = begin(Kind::CreateIndex, None);
        let _within = work.enter();
        loads_tree();
        assert_eq!(work.shown().phase, Phase::Initializing);
        stage_of_index(Object::new("public", "t_i", 9), 10);
        rows(4);
        loads_tree();
        let shown = work.shown();
        assert_eq!((shown.phase, shown.done), (Phase::LoadingTree, 4));
        assert_eq!(shown.index.map(|index| index.name), Some("t_i".to_owned()));
        scans_table();
        assert_eq!((work.shown().phase, work.shown().done), (Phase::ScanningTable, 4));
    }

    /// Readers beside a writer: counts of one stage never fall, and are never those of another.
    #[test]
    fn who_looks_while_stages_change_sees_the_words_of_one() {
        let work = begin(Kind::Checkpoint, None);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let (mut looks, mut last) = (0u64, (0, 0));
                while !over.load(Relaxed) || looks == 0 {
                    let shown = work.shown();
                    let stage = shown.total.unwrap_or(0);
                    // A stage's total is even with rows and odd with bytes, and its counts reach it.
                    match shown.unit {
                        _ if stage == 0 => {}
                        Unit::Rows => assert_eq!(stage % 2, 0, "{shown:?}"),
                        Unit::Bytes => assert_eq!(stage % 2, 1, "{shown:?}"),
                        Unit::Partitions => panic!("no stage has partitions"),
                    }
                    assert!(shown.done <= stage, "{shown:?}");
                    assert!(stage != last.0 || shown.done >= last.1, "{shown:?} behind {last:?}");
                    last = (stage, shown.done);
                    looks += 1;
                }
            });
            for stage in 1..2000u64 {
                let unit = if stage % 2 == 0 { Unit::Rows } else { Unit::Bytes };
                work.stage(Phase::WritingTables, unit, Some(stage));
                for _ in 0..stage.min(40) {
                    work.0.add(unit, 1);
                }
            }
            over.store(true, Relaxed);
            looking.join().expect("it has seen nothing that cannot be");
        });
    }
}
