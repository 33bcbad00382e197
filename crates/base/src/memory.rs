//! The shares that statements have in the process's memory, and the refusal of more.
//!
//! Words: an *account* counts the bytes that were allocated less those that were freed while a thread worked
//! for its owner, usually a session. The *total* is the sum of all bytes allocated and not freed. A
//! *refusal* says that a statement asked for more when the total stood above its limit; the statement
//! ends at the next place at which it looks whether it is cancelled.
//!
//! The counts come from an allocator that calls [`note`]. A program with another allocator has no counts:
//! there the process's resident memory ([`set_resident`]) stands for the total, and a statement that looks
//! while it is above the limit is refused.
//!
//! A statement's first bytes are never refused ([`allowance`]), so that small statements are answered, and
//! memory can be freed, while others are refused.
//!
//! A refused statement goes on until it looks, and may allocate meanwhile. Between the limit and the *ceiling*
//! lies room for that; a refused statement that would rise above the ceiling is held where it allocates, for a
//! while ([`ask`]), until others have ended and freed theirs. One statement at a time, the *leader*, is not
//! held, so that the holding ends. If the process comes near the ceiling although nobody asks, the statement
//! with most is refused ([`refuse_largest`]).
//!
//! A *work* ([`Work`]) is what threads of a pool do for one execution of a statement. It can be ended by itself:
//! its threads may go on for a moment after the statement was answered and its session has begun another one.
//!
//! Invariants, checked by `what_is_counted_adds_up`: the total is the sum of what all threads have noted, up to
//! [`DRIFT_MAX`] per thread; a handed-over account is empty. Checked by
//! `a_work_is_ended_for_all_its_threads_and_its_number_is_used_again`: a work's number belongs to nobody else
//! as long as a thread works for it.
//! Cost: [`note`] adds to a thread's own word, and once in [`DRIFT_MAX`] bytes to two shared ones;
//! [`AccountId::enter`] reads and writes a thread's own words. Nothing here allocates but [`Account::new`].
//! Threads: all; what threads tell of accounts is relaxed, since no decision rests on an order between two counts.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::clock;
use crate::duty;

mod classes;

pub use classes::{class_bytes, set_class};

/// Bytes that a thread counts by itself before it tells its account and the total.
pub const DRIFT_MAX: i64 = 64 << 10;
/// The part of a statement's own limit, and of that of its class and of all, which those leave who can do with less.
const SPARE_OF_STATEMENT: i64 = 4;
const SPARE_OF_ALL: i64 = 8;
/// Bytes that a thread carries over from one account to the next.
const CARRIED_MAX: i64 = 4 << 10;
/// A buffer that has grown to so many bytes counts as one that goes on growing.
pub const GROWING_MIN: usize = 16 << 20;
/// Values from this size on are copied a few times on their way: each is asked for so often.
const LARGE_VALUE: u64 = 1 << 20;
const COPIES: u64 = 3;
/// Accounts that can be told apart at a time; owners beyond share the account of nobody.
const ACCOUNTS_MAX: usize = 1 << 14;
/// Works that can be told apart at a time; those beyond cannot be ended by themselves.
const WORKS_MAX: usize = 1 << 12;
/// Blocks from this size on are asked for before they are allocated ([`ask`]).
pub const LARGE_BLOCK: usize = 64 << 10;
/// The longest time that a statement is held at one place, and the longest altogether.
const HELD_MAX: Duration = Duration::from_millis(500);
const HELD_IN_ALL_MAX_MS: u64 = 3000;
/// How often a held statement looks.
const HELD_LOOK: Duration = Duration::from_millis(1);

/// The counts of an account. Lines of its own, in pairs: every session writes its account.
#[repr(align(128))]
struct Counts {
    /// By the running statement.
    statement: AtomicI64,
    /// The least that `statement` has been. Work of an earlier statement may free what it had after a later
    /// one has begun; that gives the later one nothing.
    lowest: AtomicI64,
    /// By earlier statements of the transaction.
    transaction: AtomicI64,
    /// What the running statement has asked for at once and not allocated so far.
    promised: AtomicI64,
    total_limit: AtomicI64,
    statement_limit: AtomicI64,
    refused: AtomicU8,
    /// The workload class that the running statement counts to; [`classes::NONE`] outside statements.
    class: AtomicU8,
    /// What the class counts of the statement.
    in_class: AtomicI64,
    /// Whether the statement is being planned.
    is_planning: AtomicBool,
    /// How long the statement has been held.
    held_ms: AtomicU64,
    /// How long workers have worked for the statement, ns.
    busy_ns: AtomicU64,
    /// The counts when the statement was refused.
    refused_statement: AtomicI64,
    refused_total: AtomicI64,
    /// The limit that was exceeded.
    refused_limit: AtomicI64,
}

const NOT_REFUSED: u8 = 0;
const BY_TOTAL: u8 = 1;
const BY_STATEMENT: u8 = 2;
const BY_CLASS: u8 = 3;

impl Counts {
    const fn new() -> Self {
        Counts {
            statement: AtomicI64::new(0),
            lowest: AtomicI64::new(0),
            transaction: AtomicI64::new(0),
            promised: AtomicI64::new(0),
            total_limit: AtomicI64::new(0),
            statement_limit: AtomicI64::new(0),
            refused: AtomicU8::new(NOT_REFUSED),
            class: AtomicU8::new(classes::NONE),
            in_class: AtomicI64::new(0),
            is_planning: AtomicBool::new(false),
            held_ms: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            refused_statement: AtomicI64::new(0),
            refused_total: AtomicI64::new(0),
            refused_limit: AtomicI64::new(0),
        }
    }
}

/// The accounts; the first is nobody's: of threads that work for no statement.
static ACCOUNTS: [Counts; ACCOUNTS_MAX] = [const { Counts::new() }; ACCOUNTS_MAX];
static TOTAL: AtomicI64 = AtomicI64::new(0);
/// Whether an allocator counts.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// Bytes of the process's memory as the system counts them.
static RESIDENT: AtomicI64 = AtomicI64::new(0);
/// By how much more is resident than was allocated, when the system was asked last: stacks, fragments, and
/// memory that the allocator has not given back.
static UNCOUNTED: AtomicI64 = AtomicI64::new(0);
/// What statements have asked for and not allocated so far.
static PROMISED: AtomicI64 = AtomicI64::new(0);
/// What kept plans take.
static PLANS: AtomicI64 = AtomicI64::new(0);
static LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);
/// What the process must not exceed: refused statements are held before they do.
static CEILING: AtomicI64 = AtomicI64::new(i64::MAX);
/// The account that is not held; 0 for none.
static LEADER: AtomicU32 = AtomicU32::new(0);
/// Threads of pools that are held, and how many may be: the others go on with what frees memory.
static POOLED_HELD: AtomicU32 = AtomicU32::new(0);
static POOLED_HELD_MAX: AtomicU32 = AtomicU32::new(0);
/// Gives back to the system what the allocator keeps for the calling thread.
static COLLECTOR: OnceLock<fn()> = OnceLock::new();
/// Who wakes threads for a collection.
static SLEEPERS: Mutex<Vec<Weak<Waking>>> = Mutex::new(Vec::new());
/// How often all threads were asked to give back.
static COLLECTIONS: AtomicU32 = AtomicU32::new(0);
static REFUSALS: AtomicU64 = AtomicU64::new(0);
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers::below(ACCOUNTS_MAX));
static WORKS: [WorkState; WORKS_MAX] = [const { WorkState::new() }; WORKS_MAX];
static WORK_NUMBERS: Mutex<Numbers> = Mutex::new(Numbers::below(WORKS_MAX));

/// A work: how many refer to it, and whether it is to end.
struct WorkState {
    users: AtomicU32,
    is_ended: AtomicBool,
}

impl WorkState {
    const fn new() -> Self {
        WorkState { users: AtomicU32::new(0), is_ended: AtomicBool::new(false) }
    }
}

/// Numbers of accounts, or of works, that have no owner.
struct Numbers {
    next: u16,
    end: usize,
    free: Vec<u16>,
}

impl Numbers {
    const fn below(end: usize) -> Self {
        Numbers { next: 1, end, free: Vec::new() }
    }

    /// A number without an owner; 0 if all have owners.
    fn take(&mut self) -> u16 {
        if let Some(number) = self.free.pop() {
            return number;
        }
        let fits = usize::from(self.next) < self.end;
        let number = if fits { self.next } else { 0 };
        self.next += u16::from(fits);
        number
    }
}

/// Numbers are whole whenever their lock is free.
fn poisoned<T>(error: PoisonError<T>) -> T {
    error.into_inner()
}

/// A thread's own words.
struct Own {
    account: Cell<AccountId>,
    drift: Cell<i64>,
    /// The last collection in which the thread took part.
    collected: Cell<u32>,
    /// Whether the thread is one of a pool.
    is_pooled: Cell<bool>,
}

thread_local!(static OWN: Own = const {
    Own {
        account: Cell::new(AccountId { account: 0, work: 0 }),
        drift: Cell::new(0),
        collected: Cell::new(0),
        is_pooled: Cell::new(false),
    }
});

/// Counts bytes that the calling thread has allocated, or, below zero, freed. For allocators.
#[inline]
pub fn note(bytes: i64) {
    // Fails only where a thread ends, whose last bytes nobody counts.
    let _ = OWN.try_with(|own| {
        let drift = own.drift.get() + bytes;
        if -DRIFT_MAX < drift && drift < DRIFT_MAX {
            own.drift.set(drift);
        } else {
            own.drift.set(0);
            tell(own.account.get(), drift);
            take_part(own);
        }
    });
}

/// Asks for a block of so many bytes, by [`LARGE_BLOCK`] at least, which is about to be allocated where nobody
/// can refuse. A statement that may not have it is refused, which it will see when it looks; if
/// the process would rise above its ceiling meanwhile, the statement is held. For allocators.
#[cold]
pub fn ask(bytes: i64) {
    let account = current();
    if account.account == 0 {
        return;
    }
    let counts = account.counts();
    let statement = taken(counts).saturating_add(bytes);
    let may = judge(counts, statement, used().saturating_add(bytes));
    if !may && used().saturating_add(bytes) > CEILING.load(Relaxed) {
        hold(account, bytes);
    }
}

/// Holds the calling thread while so many bytes more would be above the ceiling, and for [`HELD_MAX`] at most.
#[cold]
fn hold(account: AccountId, bytes: i64) {
    let counts = account.counts();
    let is_pooled = OWN.try_with(|own| own.is_pooled.get()).unwrap_or(true);
    // A thread that serves the network has others to serve.
    let serves = !is_pooled && duty::is_on_duty();
    if serves || counts.held_ms.load(Relaxed) >= HELD_IN_ALL_MAX_MS {
        return;
    }
    if is_pooled && POOLED_HELD.fetch_add(1, Relaxed) >= POOLED_HELD_MAX.load(Relaxed) {
        POOLED_HELD.fetch_sub(1, Relaxed);
        return;
    }
    let began = Instant::now();
    while began.elapsed() < HELD_MAX && !may_pass(account, bytes) {
        std::thread::sleep(HELD_LOOK);
    }
    let held_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    counts.held_ms.fetch_add(held_ms, Relaxed);
    if is_pooled {
        POOLED_HELD.fetch_sub(1, Relaxed);
    }
}

/// Whether a refused statement may go on: there is room for so many bytes, or it leads.
fn may_pass(account: AccountId, bytes: i64) -> bool {
    if used().saturating_add(bytes) <= CEILING.load(Relaxed) {
        return true;
    }
    let leader = LEADER.load(Relaxed);
    if leader == u32::from(account.account) {
        return true;
    }
    // A leader that has ended, or has little, frees nothing that is worth waiting for.
    let counts = &ACCOUNTS[leader as usize];
    let leads = leader != 0
        && counts.refused.load(Relaxed) != NOT_REFUSED
        && taken(counts) > allowance(LIMIT.load(Relaxed));
    let mine = u32::from(account.account);
    !leads && LEADER.compare_exchange(leader, mine, Relaxed, Relaxed).is_ok()
}

/// Refuses the statement that has most, if it has more than a statement may always have. Returns
/// whether one ends now because of its memory.
pub fn refuse_largest() -> bool {
    let least = allowance(LIMIT.load(Relaxed));
    let with_most = ACCOUNTS[1..].iter().max_by_key(|counts| taken(counts));
    let Some(counts) = with_most.filter(|counts| taken(counts) > least) else { return false };
    refuse(counts, BY_TOTAL, taken(counts), used(), counts.total_limit.load(Relaxed));
    true
}

/// Says that the calling thread is one of a pool that has a thread for each core. All of them but one may be held
/// at a time.
pub fn join_pool() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    POOLED_HELD_MAX.store(u32::try_from(threads).unwrap_or(u32::MAX).saturating_sub(1), Relaxed);
    let _ = OWN.try_with(|own| own.is_pooled.set(true));
}

/// Sets the function that gives back to the system what the allocator keeps for the thread that calls it. The
/// first one stays.
pub fn set_collector(give_back: fn()) {
    let _ = COLLECTOR.set(give_back);
}

/// What wakes sleeping threads, so that they take part in a collection.
pub type Waking = dyn Fn() + Send + Sync;

/// Has `wake` called at each collection, as long as it lives: threads that sleep for long, as those of an idle
/// server do, keep what was freed in their name. Each of them calls [`at_rest`] then.
pub fn wake_for_collections(wake: &Arc<Waking>) {
    let mut sleepers = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    sleepers.retain(|wake| wake.strong_count() > 0);
    sleepers.push(Arc::downgrade(wake));
}

/// Lets every thread give back what the allocator keeps for it, when it next counts or rests; threads that
/// sleep are woken ([`wake_for_collections`]).
pub fn collect() {
    COLLECTIONS.fetch_add(1, Relaxed);
    at_rest();
    let sleepers = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    sleepers.iter().filter_map(Weak::upgrade).for_each(|wake| wake());
}

/// Takes part in the last collection. For threads that are about to sleep.
#[inline]
pub fn at_rest() {
    let _ = OWN.try_with(take_part);
}

#[inline]
fn take_part(own: &Own) {
    let collections = COLLECTIONS.load(Relaxed);
    if own.collected.replace(collections) != collections
        && let Some(give_back) = COLLECTOR.get()
    {
        give_back();
    }
}

/// Tells that a buffer has grown to so many bytes, by [`GROWING_MIN`] at least: it will ask for twice as much
/// when it is full again, at once, and where nobody can refuse. So the statement is refused now if it may
/// not have that. For allocators.
#[cold]
pub fn foresee(bytes: i64) {
    let account = current();
    if account.account != 0 {
        let counts = account.counts();
        let statement = taken(counts).saturating_add(2 * bytes);
        judge(counts, statement, used().saturating_add(2 * bytes));
    }
}

/// Adds a thread's drift to its account and the total, and refuses the statement more if it must.
#[cold]
fn tell(account: AccountId, drift: i64) {
    let counts = account.counts();
    let statement = counts.statement.fetch_add(drift, Relaxed) + drift;
    if statement < counts.lowest.load(Relaxed) {
        counts.lowest.store(statement, Relaxed);
    }
    let class = counts.class.load(Relaxed);
    if class != classes::NONE {
        counts.in_class.fetch_add(drift, Relaxed);
        classes::add(class, drift);
    }
    TOTAL.fetch_add(drift, Relaxed);
    if !COUNTS.load(Relaxed) {
        COUNTS.store(true, Relaxed);
    }
    if drift > 0 && account.account != 0 {
        keep_promise(counts, drift);
        judge(counts, taken(counts), used());
    }
}

/// What a statement has taken, since it had least.
fn taken(counts: &Counts) -> i64 {
    (counts.statement.load(Relaxed) - counts.lowest.load(Relaxed)).max(0)
}

/// Notes that a statement has allocated bytes, which it may have asked for.
fn keep_promise(counts: &Counts, bytes: i64) {
    let promised = counts.promised.load(Relaxed);
    if promised > 0 {
        promise(counts, (promised - bytes).max(0));
    }
}

/// Sets what a statement has asked for and not allocated so far.
fn promise(counts: &Counts, bytes: i64) {
    let before = counts.promised.swap(bytes, Relaxed);
    PROMISED.fetch_add(bytes - before, Relaxed);
}

/// Refuses a statement that has, or is about to have, so many bytes of such a total. Returns whether
/// the statement may go on.
fn judge(counts: &Counts, statement: i64, total: i64) -> bool {
    let (own, limit) = (counts.statement_limit.load(Relaxed), counts.total_limit.load(Relaxed));
    if statement > own {
        refuse(counts, BY_STATEMENT, statement, total, own);
        return false;
    }
    if total > limit && statement > allowance(limit) {
        refuse(counts, BY_TOTAL, statement, total, limit);
        return false;
    }
    let class = counts.class.load(Relaxed);
    let more = statement.saturating_sub(taken(counts));
    if class != classes::NONE
        && statement > allowance(limit)
        && let Some(limit) = classes::exceeded(class, more)
    {
        refuse(counts, BY_CLASS, statement, total, limit);
        return false;
    }
    true
}

/// Refuses a statement, unless it was refused before.
fn refuse(counts: &Counts, by: u8, statement: i64, total: i64, limit: i64) {
    if counts.refused.load(Relaxed) == NOT_REFUSED {
        counts.refused_statement.store(statement, Relaxed);
        counts.refused_total.store(total, Relaxed);
        counts.refused_limit.store(limit, Relaxed);
        counts.refused.store(by, Relaxed);
        REFUSALS.fetch_add(1, Relaxed);
    }
}

/// Bytes that a statement may always have, under a limit of the total.
pub fn allowance(limit: i64) -> i64 {
    (limit / 128).clamp(1 << 20, 16 << 20)
}

/// Bytes in use: allocated and not freed, promised, and taken by what no allocator counts.
pub fn used() -> i64 {
    match COUNTS.load(Relaxed) {
        false => RESIDENT.load(Relaxed),
        true => TOTAL.load(Relaxed) + UNCOUNTED.load(Relaxed) + PROMISED.load(Relaxed),
    }
}

/// Sets the limit that holds for what belongs to no statement (messages while they arrive), and the ceiling
/// below which refused statements are held.
pub fn set_limit(bytes: i64, ceiling: i64) {
    LIMIT.store(bytes, Relaxed);
    CEILING.store(ceiling.max(bytes), Relaxed);
}

/// The ceiling of [`set_limit`].
pub fn ceiling() -> i64 {
    CEILING.load(Relaxed)
}

/// The limit of [`set_limit`].
pub fn limit() -> i64 {
    LIMIT.load(Relaxed)
}

/// Whether so many bytes more are within the limit of [`set_limit`].
pub fn has_room(bytes: usize) -> bool {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    used().saturating_add(bytes) <= limit()
}

/// Bytes that the allocator has counted; 0 in a program whose allocator does not count.
pub fn counted() -> i64 {
    TOTAL.load(Relaxed)
}

/// Bytes that kept plans take.
pub fn plans() -> i64 {
    PLANS.load(Relaxed)
}

/// Says that kept plans take so many bytes more, or below zero less.
pub fn add_plans(bytes: i64) {
    PLANS.fetch_add(bytes, Relaxed);
}

/// Runs `work`, and gives the bytes that the calling thread's account has more than before, as far as the program's
/// allocator counts.
pub fn with_growth<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let account = current();
    let told = || {
        // A thread that changes its account tells what it has counted.
        drop(AccountId::default().enter());
        account.bytes().0
    };
    let before = told();
    let done = work();
    (done, told() - before)
}

/// How often statements were refused more memory since the process began.
pub fn refusals() -> u64 {
    REFUSALS.load(Relaxed)
}

/// Tells the process's resident memory in bytes, its files left out.
pub fn set_resident(bytes: i64) {
    RESIDENT.store(bytes, Relaxed);
    UNCOUNTED.store((bytes - TOTAL.load(Relaxed)).max(0), Relaxed);
}

/// Asks for a value of so many bytes, and for the copies of it that are made on the way to the client. Errors:
/// as [`request`].
pub fn request_value(bytes: u64) -> Result<(), Refusal> {
    request(if bytes < LARGE_VALUE { bytes } else { bytes.saturating_mul(COPIES) })
}

/// Asks for so many bytes, which are about to be allocated at once, on behalf of the account that the
/// thread works for; nobody's is given all. Errors: the statement may not have them, and has been refused.
pub fn request(bytes: u64) -> Result<(), Refusal> {
    let id = current();
    if id.account == 0 {
        return Ok(());
    }
    let counts = id.counts();
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let statement = taken(counts).saturating_add(bytes);
    promise(counts, 0);
    if judge(counts, statement, used().saturating_add(bytes)) {
        promise(counts, bytes);
        return Ok(());
    }
    Err(id.refusal().expect("the judge has refused"))
}

/// A limit of memory, by what it limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All memory together.
    Total,
    /// What the statement has.
    Statement,
    /// What the statements of its workload class have together.
    Class,
}

/// Why a statement was refused more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose limit is exceeded.
    pub by: Bound,
    /// Bytes that the statement had, with those that it asked for.
    pub statement: u64,
    /// Bytes that the whole process had then.
    pub total: u64,
    /// The limit that is exceeded.
    pub limit: u64,
}

/// An account by its number, for threads that work for its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountId {
    /// Nobody's is 0.
    account: u16,
    /// The work within the account; 0 for what cannot be ended by itself.
    work: u16,
}

/// The account that the calling thread works for.
pub fn current() -> AccountId {
    OWN.try_with(|own| own.account.get()).unwrap_or_default()
}

/// Whether the work of the calling thread is to end.
#[inline]
pub fn is_ended() -> bool {
    let AccountId { work, .. } = current();
    work != 0 && WORKS[usize::from(work)].is_ended.load(Relaxed)
}

impl AccountId {
    /// The account's number; 0 for nobody's.
    pub fn number(self) -> u16 {
        self.account
    }

    fn counts(self) -> &'static Counts {
        &ACCOUNTS[usize::from(self.account)]
    }

    /// Makes the calling thread work for the account until the guard is dropped.
    #[inline]
    pub fn enter(self) -> Entered {
        Entered(switch(self))
    }

    /// Whether the running statement was refused more memory. Without counts: whether the process has more
    /// than the limit.
    #[inline]
    pub fn is_refused(self) -> bool {
        self.account != 0
            && (self.counts().refused.load(Relaxed) != NOT_REFUSED || self.is_uncounted())
    }

    /// Refuses a statement of a program without counts. `true` if it is to end.
    fn is_uncounted(self) -> bool {
        let over = || RESIDENT.load(Relaxed) > self.counts().total_limit.load(Relaxed);
        !COUNTS.load(Relaxed) && over()
    }

    /// Whether so many bytes more are within the limit of the total.
    pub fn has_room(self, bytes: usize) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let limit = self.counts().total_limit.load(Relaxed);
        self.account == 0 || bytes <= allowance(limit) || used().saturating_add(bytes) <= limit
    }

    /// Whether so many bytes more leave a part of every limit that holds for the statement: its own, that of its class,
    /// and that of all. For what can go on with less: it is to do so before the statement is refused.
    pub fn has_room_to_spare(self, bytes: usize) -> bool {
        if self.account == 0 {
            return true;
        }
        let counts = self.counts();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let below = |limit: i64, part: i64| limit - limit / part;
        let own = below(counts.statement_limit.load(Relaxed), SPARE_OF_STATEMENT);
        let total = below(counts.total_limit.load(Relaxed), SPARE_OF_ALL);
        let class = counts.class.load(Relaxed);
        taken(counts).saturating_add(bytes) <= own
            && used().saturating_add(bytes) <= total
            && (class == classes::NONE || classes::has_room_to_spare(class, bytes, SPARE_OF_ALL))
    }

    /// The refusal of the running statement.
    pub fn refusal(self) -> Option<Refusal> {
        if !self.is_refused() {
            return None;
        }
        let counts = self.counts();
        let by = counts.refused.load(Relaxed);
        // Without counts nobody has judged.
        let limit = if by == NOT_REFUSED { &counts.total_limit } else { &counts.refused_limit };
        let bytes = |count: &AtomicI64| u64::try_from(count.load(Relaxed)).unwrap_or(0);
        Some(Refusal {
            by: match by {
                BY_STATEMENT => Bound::Statement,
                BY_CLASS => Bound::Class,
                _ => Bound::Total,
            },
            statement: if by == NOT_REFUSED { 0 } else { bytes(&counts.refused_statement) },
            total: if by == NOT_REFUSED { bytes(&RESIDENT) } else { bytes(&counts.refused_total) },
            limit: bytes(limit),
        })
    }

    /// Bytes of the running or last statement, and of earlier ones of its transaction. What an earlier statement
    /// frees late is not taken from the statement's.
    pub fn bytes(self) -> (i64, i64) {
        let counts = self.counts();
        let late = counts.lowest.load(Relaxed).min(0);
        (counts.statement.load(Relaxed) - late, counts.transaction.load(Relaxed) + late)
    }

    /// How long workers have worked for the running or last statement ([`AccountId::working`]): processor time,
    /// unless others had the workers' processors meanwhile.
    pub fn busy(self) -> Duration {
        Duration::from_nanos(self.counts().busy_ns.load(Relaxed))
    }

    /// Whether the running statement is being planned.
    pub fn is_planning(self) -> bool {
        self.counts().is_planning.load(Relaxed)
    }

    /// The limit of the running or last statement alone, in bytes.
    pub fn statement_limit(self) -> i64 {
        self.counts().statement_limit.load(Relaxed)
    }

    /// A future whose polls, and whose end, are the account's.
    pub fn working<F: Future>(self, future: F) -> Working<F> {
        Working { share: Share::of(self), future: Some(Box::pin(future)) }
    }

    /// A reference that keeps the account's work from ending its number.
    pub fn share(self) -> Share {
        Share::of(self)
    }
}

/// A work, which dropping ends. Its threads see that at [`is_ended`].
#[derive(Debug)]
pub struct Work(Share);

impl Work {
    /// A new work for an account.
    pub fn of(account: AccountId) -> Work {
        let work = WORK_NUMBERS.lock().unwrap_or_else(poisoned).take();
        let state = &WORKS[usize::from(work)];
        if work != 0 {
            state.is_ended.store(false, Relaxed);
            // Pairs with the last drop of a share: the number was free.
            state.users.store(1, Release);
        }
        Work(Share(AccountId { work, ..account }))
    }

    /// The account with the work.
    pub fn id(&self) -> AccountId {
        self.0.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let AccountId { work, .. } = self.id();
        if work != 0 {
            WORKS[usize::from(work)].is_ended.store(true, Relaxed);
        }
    }
}

/// A share in a work: its number belongs to nobody else meanwhile.
#[derive(Debug)]
pub struct Share(AccountId);

impl Share {
    /// The caller works for it, or has a share itself.
    fn of(id: AccountId) -> Share {
        if id.work != 0 {
            WORKS[usize::from(id.work)].users.fetch_add(1, Relaxed);
        }
        Share(id)
    }

    /// The account with the work.
    pub fn id(&self) -> AccountId {
        self.0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let AccountId { work, .. } = self.0;
        if work != 0 && WORKS[usize::from(work)].users.fetch_sub(1, AcqRel) == 1 {
            WORK_NUMBERS.lock().unwrap_or_else(poisoned).free.push(work);
        }
    }
}

/// Makes the thread work for `to`; returns the account that it worked for.
#[inline]
fn switch(to: AccountId) -> AccountId {
    let switched = OWN.try_with(|own| {
        let drift = own.drift.get();
        let from = own.account.replace(to);
        if from.account != to.account && !(-CARRIED_MAX..=CARRIED_MAX).contains(&drift) {
            own.drift.set(0);
            tell(from, drift);
        }
        from
    });
    switched.unwrap_or_default()
}

/// Tells what the thread has counted by itself.
fn flush() {
    let _ = OWN.try_with(|own| tell(own.account.get(), own.drift.replace(0)));
}

/// While it lives the thread works for an account; then again for the one before.
#[derive(Debug)]
pub struct Entered(AccountId);

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        switch(self.0);
    }
}

/// An account with its owner. Dropping it leaves what it counts to nobody.
#[derive(Debug)]
pub struct Account(AccountId);

/// The limits of a statement, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of all memory together.
    pub total: i64,
    /// Of the statement alone.
    pub statement: i64,
    /// Number of the workload class whose limits hold too; `None` for none.
    pub class: Option<u8>,
}

/// No limits.
const FREELY: Limits = Limits { total: i64::MAX, statement: i64::MAX, class: None };

impl Account {
    /// An empty account; nobody's if all are taken.
    #[allow(clippy::new_without_default)] // a number is taken
    pub fn new() -> Self {
        let account =
            Account(AccountId { account: NUMBERS.lock().unwrap_or_else(poisoned).take(), work: 0 });
        account.begin(FREELY, false);
        account
    }

    /// The account's number.
    #[inline]
    pub fn id(&self) -> AccountId {
        self.0
    }

    /// Begins a statement: its count is zero and nothing is refused. What the last one has left is
    /// counted as its transaction's if that goes on, else as nobody's.
    #[inline]
    pub fn begin(&self, limits: Limits, transaction_goes_on: bool) {
        if self.0.account == 0 {
            return;
        }
        let counts = self.0.counts();
        counts.total_limit.store(limits.total, Relaxed);
        counts.statement_limit.store(limits.statement, Relaxed);
        self.0.leave_class();
        counts.class.store(limits.class.unwrap_or(classes::NONE), Relaxed);
        if counts.promised.load(Relaxed) != 0 {
            promise(counts, 0);
        }
        if counts.refused.load(Relaxed) != NOT_REFUSED {
            counts.refused.store(NOT_REFUSED, Relaxed);
        }
        if counts.lowest.load(Relaxed) != 0 {
            counts.lowest.store(0, Relaxed);
        }
        if counts.held_ms.load(Relaxed) != 0 {
            counts.held_ms.store(0, Relaxed);
        }
        if counts.busy_ns.load(Relaxed) != 0 {
            counts.busy_ns.store(0, Relaxed);
        }
        if counts.statement.load(Relaxed) != 0 {
            let left = counts.statement.swap(0, Relaxed);
            counts.transaction.fetch_add(left, Relaxed);
        }
        if !transaction_goes_on && counts.transaction.load(Relaxed) != 0 {
            self.0.leave_transaction();
        }
    }

    /// Says that the statement is being planned from now on.
    pub fn begin_planning(&self) {
        self.0.counts().is_planning.store(true, Relaxed);
    }

    /// Says that planning is over. What it has left is a plan, which is nobody's.
    pub fn end_planning(&self) {
        if self.0.account != 0 {
            flush();
            let counts = self.0.counts();
            self.0.leave_class();
            counts.lowest.store(0, Relaxed);
            let left = counts.statement.swap(0, Relaxed);
            AccountId::default().counts().statement.fetch_add(left, Relaxed);
            counts.is_planning.store(false, Relaxed);
        }
    }
}

impl AccountId {
    /// Says that the statement has ended, so that its workload class no longer counts it.
    #[inline]
    pub fn leave_class(self) {
        let counts = self.counts();
        let class = counts.class.load(Relaxed);
        if class == classes::NONE {
            return;
        }
        counts.class.store(classes::NONE, Relaxed);
        // A look-up takes no memory of its class: locked instructions, on a line that all of the class share, would be
        // a tenth of its time. Of two threads that come here at once, one takes the bytes away.
        if counts.in_class.load(Relaxed) != 0 {
            classes::add(class, -counts.in_class.swap(0, Relaxed));
        }
    }

    fn leave_transaction(self) {
        let left = self.counts().transaction.swap(0, Relaxed);
        AccountId::default().counts().statement.fetch_add(left, Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.0.account == 0 {
            return;
        }
        self.begin(FREELY, false);
        self.0.counts().is_planning.store(false, Relaxed);
        NUMBERS.lock().unwrap_or_else(poisoned).free.push(self.0.account);
    }
}

/// A future that works for an account.
pub struct Working<F> {
    share: Share,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Working<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let id = self.share.id();
        let _entered = id.enter();
        let began = clock::now();
        let polled = self.future.as_mut().expect("taken by drop alone").as_mut().poll(context);
        let busy = u64::try_from(clock::now().since(began).as_nanos()).unwrap_or(u64::MAX);
        id.counts().busy_ns.fetch_add(busy, Relaxed);
        polled
    }
}

impl<F> Drop for Working<F> {
    fn drop(&mut self) {
        let _entered = self.share.id().enter();
        self.future = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: i64 = 1 << 20;

    /// The counts are the process's: tests of them take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn turn() -> std::sync::MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[test]
    fn what_is_counted_adds_up() {
        let _turn = turn();
        let before = counted();
        let accounts: Vec<Account> = (0..4).map(|_| Account::new()).collect();
        std::thread::scope(|scope| {
            for (at, account) in (1..).zip(&accounts) {
                scope.spawn(move || {
                    let _entered = account.id().enter();
                    (0..100).for_each(|_| note(at * MB));
                    (0..90).for_each(|_| note(-at * MB));
                });
            }
        });
        for (at, account) in (1..).zip(&accounts) {
            assert_eq!(account.id().bytes(), (at * 10 * MB, 0));
        }
        assert_eq!(counted() - before, (1 + 2 + 3 + 4) * 10 * MB);
        // The next statement begins with nothing; what was left is the transaction's, then nobody's.
        accounts[0].begin(FREELY, true);
        assert_eq!(accounts[0].id().bytes(), (0, 10 * MB));
        accounts[0].begin(FREELY, false);
        assert_eq!(accounts[0].id().bytes(), (0, 0));
        accounts[1].end_planning();
        assert_eq!(accounts[1].id().bytes(), (0, 0));
        note(-100 * MB);
        assert_eq!(counted(), before);
    }

    #[test]
    fn small_changes_stay_with_the_thread_and_large_ones_do_not_move_to_the_next_account() {
        let _turn = turn();
        let (one, other) = (Account::new(), Account::new());
        {
            let _one = one.id().enter();
            note(DRIFT_MAX / 2);
            assert_eq!(one.id().bytes().0, 0);
            let _other = other.id().enter();
            assert_eq!(one.id().bytes().0, DRIFT_MAX / 2);
            note(-DRIFT_MAX / 2);
        }
        assert_eq!(other.id().bytes(), (0, -DRIFT_MAX / 2), "what is freed for others");
        assert_eq!(current(), AccountId::default());
    }

    #[test]
    fn the_statement_that_asks_above_the_limit_is_refused_and_a_small_one_is_not() {
        let _turn = turn();
        let limit = used() + 100 * MB;
        let limits = Limits { total: limit, statement: i64::MAX, class: None };
        let (large, small) = (Account::new(), Account::new());
        large.begin(limits, false);
        small.begin(limits, false);
        let entered = large.id().enter();
        note(90 * MB);
        assert!(!large.id().is_refused());
        note(20 * MB);
        let refusal = large.id().refusal().expect("110 of 100 MB");
        assert_eq!((refusal.statement, refusal.by), (110 << 20, Bound::Total));
        assert_eq!(refusal.limit, u64::try_from(limit).expect("above zero"));
        drop(entered);
        let entered = small.id().enter();
        note(allowance(limit) / 2);
        assert!(!small.id().is_refused());
        assert!(request(1 << 30).is_err() && small.id().is_refused());
        note(-allowance(limit) / 2);
        drop(entered);
        let _entered = large.id().enter();
        note(-110 * MB);
        large.begin(limits, false);
        assert!(!large.id().is_refused() && request(50 << 20).is_ok());
        let asked = small.id().enter();
        small.begin(limits, false);
        assert!(request(60 << 20).is_err(), "another has been promised 50 of 100 MB");
        drop(asked);
        note(50 * MB);
        note(-50 * MB);
        assert_eq!(PROMISED.load(Relaxed), 0, "what was allocated is promised no longer");
        assert!(request(u64::MAX).is_err());
    }

    #[test]
    fn what_an_earlier_statement_frees_late_gives_the_next_one_nothing() {
        let _turn = turn();
        let account = Account::new();
        account.begin(FREELY, false);
        let _entered = account.id().enter();
        note(80 * MB);
        account.begin(Limits { total: used() + MB, statement: i64::MAX, class: None }, false);
        note(-80 * MB);
        note(85 * MB);
        assert!(account.id().is_refused());
        note(-85 * MB);
    }

    #[test]
    fn a_buffer_is_refused_before_it_doubles_beyond_the_limit() {
        let _turn = turn();
        let account = Account::new();
        // What is promised later counts as used.
        let limits = Limits { total: used() + 100 * MB, statement: i64::MAX, class: None };
        account.begin(limits, false);
        let _entered = account.id().enter();
        foresee(20 * MB);
        assert!(!account.id().is_refused() && request_value(30 << 20).is_ok());
        foresee(60 * MB);
        assert!(account.id().is_refused());
        account.begin(limits, false);
        assert!(request_value(40 << 20).is_err(), "three copies");
    }

    #[test]
    fn a_refused_statement_is_held_below_the_ceiling_unless_it_leads() {
        let _turn = turn();
        let limit = used() + 100 * MB;
        set_limit(limit, limit + 50 * MB);
        let limits = Limits { total: limit, statement: i64::MAX, class: None };
        let (large, other) = (Account::new(), Account::new());
        large.begin(limits, false);
        other.begin(limits, false);
        let entered = large.id().enter();
        note(90 * MB);
        let began = Instant::now();
        ask(100 * MB);
        assert!(large.id().is_refused() && began.elapsed() < HELD_MAX / 2, "the leader goes on");
        drop(entered);
        let entered = other.id().enter();
        ask(100 * MB);
        assert!(other.id().is_refused() && began.elapsed() >= HELD_MAX, "another is held");
        let began = Instant::now();
        ask(10 * MB);
        assert!(began.elapsed() < HELD_MAX / 2, "below the ceiling nobody is");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(HELD_MAX / 10);
                let _entered = large.id().enter();
                note(-90 * MB);
            });
            ask(100 * MB);
        });
        assert!(began.elapsed() < HELD_MAX, "until others have ended");
        drop(entered);
        set_limit(i64::MAX, i64::MAX);
    }

    #[test]
    fn the_statement_with_most_is_refused_and_a_small_one_never() {
        let _turn = turn();
        set_limit(used() + 200 * MB, i64::MAX);
        let limits = Limits { total: i64::MAX, statement: i64::MAX, class: None };
        let (large, small) = (Account::new(), Account::new());
        large.begin(limits, false);
        small.begin(limits, false);
        assert!(!refuse_largest());
        for (account, bytes) in [(&large, 90), (&small, 50)] {
            let _entered = account.id().enter();
            note(bytes * MB);
        }
        assert!(refuse_largest() && large.id().is_refused() && !small.id().is_refused());
        for (account, bytes) in [(&large, 90), (&small, 50)] {
            let _entered = account.id().enter();
            note(-bytes * MB);
        }
        set_limit(i64::MAX, i64::MAX);
    }

    #[test]
    fn a_work_is_ended_for_all_its_threads_and_its_number_is_used_again() {
        let _turn = turn();
        let account = Account::new();
        let (work, other) = (Work::of(account.id()), Work::of(account.id()));
        let number = work.id().work;
        assert!(number != 0 && other.id().work != number);
        let _entered = work.id().enter();
        let share = current().share();
        assert!(!is_ended());
        drop(work);
        assert!(is_ended());
        {
            let _other = other.id().enter();
            assert!(!is_ended());
        }
        assert!(Work::of(account.id()).id().work != number, "somebody works for it");
        drop(share);
        let again = Work::of(account.id());
        assert_eq!(again.id().work, number);
        assert!(!is_ended());
    }

    #[test]
    fn every_thread_gives_back_once_when_it_counts_or_rests() {
        static GIVEN: AtomicU32 = AtomicU32::new(0);
        let _turn = turn();
        set_collector(|| {
            GIVEN.fetch_add(1, Relaxed);
        });
        let given = GIVEN.load(Relaxed);
        collect();
        at_rest();
        assert_eq!(GIVEN.load(Relaxed), given + 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                note(2 * DRIFT_MAX);
                note(-2 * DRIFT_MAX);
                at_rest();
            });
        });
        assert_eq!(GIVEN.load(Relaxed), given + 2);
    }

    #[test]
    fn sleepers_are_woken_for_each_collection_as_long_as_they_live() {
        let _turn = turn();
        let woken = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&woken);
        let waking: Arc<Waking> = Arc::new(move || _ = count.fetch_add(1, Relaxed));
        wake_for_collections(&waking);
        collect();
        collect();
        assert_eq!(woken.load(Relaxed), 2);
        drop(waking);
        collect();
        assert_eq!(woken.load(Relaxed), 2);
    }

    #[test]
    fn a_class_holds_what_its_statements_hold() {
        let _turn = turn();
        let (above, class) = (60, 61);
        set_class(above, Some(50 * MB as u64), None);
        set_class(class, None, Some(above));
        let limits = |class| Limits { class: Some(class), ..FREELY };
        let (one, other) = (Account::new(), Account::new());
        one.begin(limits(class), false);
        other.begin(limits(above), false);
        {
            let _entered = one.id().enter();
            note(40 * MB);
        }
        let entered = other.id().enter();
        note(9 * MB);
        assert_eq!((class_bytes(class), class_bytes(above)), (40 * MB, 9 * MB));
        assert!(!other.id().is_refused() && request(9 << 20).is_err());
        let refusal = other.id().refusal().expect("the class above has no more");
        assert_eq!((refusal.by, refusal.limit), (Bound::Class, 50 * MB as u64));
        note(-9 * MB);
        drop(entered);
        other.id().leave_class();
        one.begin(FREELY, false);
        assert_eq!((class_bytes(class), class_bytes(above)), (0, 0));
        set_class(above, None, None);
        set_class(class, None, None);
        let _entered = one.id().enter();
        note(-40 * MB);
    }

    #[test]
    fn what_is_freed_late_is_not_taken_from_the_planned_statement() {
        let _turn = turn();
        let account = Account::new();
        let entered = account.id().enter();
        account.begin(FREELY, false);
        note(80 * MB);
        account.begin(FREELY, false);
        account.begin_planning();
        assert!(account.id().is_planning());
        note(-80 * MB);
        note(3 * MB);
        assert_eq!(account.id().bytes().0, 3 * MB);
        account.end_planning();
        assert_eq!((account.id().bytes(), account.id().is_planning()), ((0, 0), false));
        drop(entered);
        note(-3 * MB);
    }

    #[test]
    fn a_statement_has_a_limit_of_its_own() {
        let _turn = turn();
        let account = Account::new();
        account.begin(Limits { total: i64::MAX, statement: 10 * MB, class: None }, false);
        let entered = account.id().enter();
        assert!(request(9 << 20).is_ok());
        note(11 * MB);
        let refusal = account.id().refusal().expect("11 of 10 MB");
        assert_eq!((refusal.by, refusal.limit), (Bound::Statement, 10 << 20));
        note(-11 * MB);
        drop(entered);
        account.begin(FREELY, false);
        assert_eq!(account.id().refusal(), None);
    }

    #[test]
    fn who_can_do_with_less_leaves_a_part_of_every_limit() {
        let _turn = turn();
        let account = Account::new();
        let id = account.id();
        set_class(59, Some(80 * MB as u64), None);
        let begin = |total: i64, statement: i64, class| {
            account.begin(Limits { total, statement, class }, false);
            move |bytes: i64| id.has_room_to_spare(bytes as usize)
        };
        let has_room = begin(i64::MAX, 100 * MB, None);
        assert!(has_room(75 * MB) && !has_room(76 * MB));
        let has_room = begin(i64::MAX, i64::MAX, Some(59));
        assert!(has_room(70 * MB) && !has_room(71 * MB));
        account.id().leave_class();
        let before = used();
        let has_room = begin(before + 800 * MB, i64::MAX, None);
        assert!(has_room(600 * MB) && !has_room(800 * MB));
        account.begin(FREELY, false);
        set_class(59, None, None);
    }

    #[test]
    fn a_future_works_for_its_account_wherever_it_is_polled_and_dropped() {
        let _turn = turn();
        struct Freed;
        impl Drop for Freed {
            fn drop(&mut self) {
                note(-MB);
            }
        }
        let account = Account::new();
        let future = account.id().working(async {
            let _freed = Freed;
            note(2 * MB);
            std::future::pending::<()>().await;
        });
        let mut future = Box::pin(future);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        assert_eq!((account.id().bytes().0, current()), (2 * MB, AccountId::default()));
        drop(future);
        assert_eq!(account.id().bytes().0, MB);
        note(-MB);
    }
}
