//! Statements by their text and by its shape, so that what came before is not planned again.
//!
//! A text is looked up as it is, and then by its shape ([`crate::shapes`]): texts that differ in
//! literals alone run one plan, with their literals for parameters. The key is the text or shape and
//! everything else that binding looks at: catalog version, declared parameter types, user, search path,
//! time zone, and whether point plans are made. Both tables hold a bounded number of statements; room
//! is made by second chance: what was not asked for since the last sweep goes first.
//!
//! Invariants, checked by `a_statement_about_its_session_is_kept_for_no_other` (1) and
//! `texts_of_one_shape_answer_as_each_alone` (2):
//! 1. A statement that shows something of its session (system views) is never kept.
//! 2. The plan of a shape gives each of its texts the rows, columns and errors of that text alone.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use datafusion::common::hash_utils::RandomState;
use parking_lot::RwLock;

use crate::plan::Prepared;
use crate::prepare::{nothing, prepare};
use crate::shape::Shape;
use crate::shapes::{MissReason, ShapePlan, Way};
use halcyon_base::duty;
use halcyon_base::memory;
use halcyon_catalog::session_vars::SessionVars;
use halcyon_plan::bind::Binder;
use halcyon_plan::interrupts::under;
use halcyon_plan::phases::{Phase, PhaseClock};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse;
use halcyon_sql::stack::{SHORT_TEXT_BYTES, with_stack_for};
use halcyon_sql::types::SqlType;
use halcyon_store::Value;

/// Longer texts are not kept: they are loads, not statements that come again.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// The part of the limit of memory that kept plans may have.
const PART_OF_LIMIT: i64 = 16;
/// How many plans there is room for at least: one that is larger is not kept.
const PLANS_AT_LEAST: i64 = 64;
/// What a plan counts at least: a thread tells no smaller changes.
const PLAN_BYTES_LEAST: i64 = 2 << 10;
/// The most bytes that kept plans may have under any limit.
const PLANS_MAX: i64 = 128 << 20;

/// A statement as the cache gives it: its plan, and the text's literals if the plan is its shape's.
pub struct Bound {
    /// What runs.
    pub prepared: Arc<Prepared>,
    /// Values of the plan's parameters, if the text itself says them.
    pub constants: Vec<Value>,
    /// Whether the plan was there.
    pub lookup: Lookup,
}

/// What a lookup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// A plan was there.
    Hit,
    /// A plan was made, for this reason.
    Miss(MissReason),
}

impl Bound {
    /// A plan that was there, for a text that it was made of.
    fn found(prepared: Arc<Prepared>) -> Self {
        Bound { prepared, constants: Vec::new(), lookup: Lookup::Hit }
    }

    /// A plan that was made now.
    fn made(prepared: Arc<Prepared>, missed: MissReason) -> Self {
        Bound { prepared, constants: Vec::new(), lookup: Lookup::Miss(missed) }
    }

    /// Whether the parameters of the plan are literals of the text.
    #[inline]
    pub fn has_constants(&self) -> bool {
        !self.constants.is_empty()
    }
}

/// A bounded set of bound statements. Shared by all sessions.
pub struct StatementCache {
    hasher: RandomState,
    texts: RwLock<Slots<Arc<Prepared>>>,
    shapes: RwLock<Slots<ShapeState>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What is known of a shape.
enum ShapeState {
    /// One text of it was planned, and went this way.
    Seen(Arc<Way>),
    /// A plan serves all its texts.
    Planned(Arc<ShapePlan>),
    /// Its texts are planned one by one.
    Refused(MissReason),
}

impl Clone for ShapeState {
    fn clone(&self) -> Self {
        match self {
            ShapeState::Seen(way) => ShapeState::Seen(Arc::clone(way)),
            ShapeState::Planned(plan) => ShapeState::Planned(Arc::clone(plan)),
            ShapeState::Refused(reason) => ShapeState::Refused(*reason),
        }
    }
}

impl StatementCache {
    /// A cache of at most `capacity` texts and as many shapes; 0 keeps none.
    pub fn new(capacity: usize) -> Self {
        StatementCache {
            hasher: RandomState::default(),
            texts: RwLock::new(Slots::new(capacity)),
            shapes: RwLock::new(Slots::new(capacity)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The statement in `text`, bound; an empty text gives [`Plan::Empty`](crate::plan::Plan::Empty).
    ///
    /// Errors: those of parsing and binding; 42601 if there is more than one statement.
    pub fn get_or_bind(
        &self,
        text: &str,
        types: &[Option<SqlType>],
        binder: &Binder<'_>,
    ) -> Result<Bound> {
        let key = self.key(text, types, binder);
        if let Some(prepared) = self.texts.read().get(&key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Bound::found(prepared));
        }
        let bound =
            match Shape::of(text).filter(|shape| types.is_empty() && !shape.literals.is_empty()) {
                Some(shape) => self.by_shape(&shape, &key, binder)?,
                None => self.bind_text(&key, binder, MissReason::NoShape)?,
            };
        let count = if bound.lookup == Lookup::Hit { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(bound)
    }

    /// The same statement by the analytical executor, if that takes the same parameters and gives rows of the same form.
    /// `binder` makes no point plans.
    pub fn scanning(&self, of: &Prepared, binder: &Binder<'_>) -> Option<Arc<Prepared>> {
        debug_assert!(!binder.point_plans);
        let types: Vec<_> = of.params.iter().copied().map(Some).collect();
        // An error would be that of a plan which nobody asked for.
        let found = self.get_or_bind(&of.text, &types, binder).ok()?;
        (!found.has_constants() && of.is_answered_by(&found.prepared)).then_some(found.prepared)
    }

    fn by_shape(&self, shape: &Shape, text: &Key<'_>, binder: &Binder<'_>) -> Result<Bound> {
        let key = self.key(&shape.key, &[], binder);
        let known = self.shapes.read().get(&key);
        match known {
            Some(ShapeState::Planned(plan)) => self.by_plan(&plan, shape, text, binder),
            Some(ShapeState::Refused(reason)) => self.bind_text(text, binder, reason),
            Some(ShapeState::Seen(first)) => {
                let (planned, bytes) = with_bytes(|| plan_shape(shape, text.text, &first, binder));
                let state = match planned {
                    Ok(plan) => ShapeState::Planned(Arc::new(plan)),
                    Err(reason) => ShapeState::Refused(reason),
                };
                self.shapes.write().keep(&key, state.clone(), bytes);
                match state {
                    ShapeState::Planned(plan) => {
                        let mut bound = self.by_plan(&plan, shape, text, binder)?;
                        if bound.lookup == Lookup::Hit {
                            bound.lookup = Lookup::Miss(MissReason::ShapePlanned);
                        }
                        Ok(bound)
                    }
                    ShapeState::Refused(reason) => self.bind_text(text, binder, reason),
                    ShapeState::Seen(_) => unreachable!("one of the two above"),
                }
            }
            None => {
                let bound = self.bind_text(text, binder, MissReason::New)?;
                if bound.prepared.shareable {
                    let state = match Way::of(&bound.prepared) {
                        Ok(way) => ShapeState::Seen(Arc::new(way)),
                        Err(reason) => ShapeState::Refused(reason),
                    };
                    self.shapes.write().keep(&key, state, 0);
                }
                Ok(bound)
            }
        }
    }

    /// A text by the plan of its shape, or by one of its own if its literals do not fit.
    fn by_plan(
        &self,
        plan: &ShapePlan,
        shape: &Shape,
        text: &Key<'_>,
        binder: &Binder<'_>,
    ) -> Result<Bound> {
        match plan.constants(shape, text.text, &binder.session.time_zone) {
            Ok(constants) => {
                let prepared = Arc::clone(&plan.prepared);
                Ok(Bound { prepared, constants, lookup: Lookup::Hit })
            }
            Err(reason) => self.bind_text(text, binder, reason),
        }
    }

    /// A text by a plan of its own, which is kept.
    fn bind_text(&self, key: &Key<'_>, binder: &Binder<'_>, reason: MissReason) -> Result<Bound> {
        let (prepared, bytes) = with_bytes(|| bind_one(key.text, key.types, binder));
        let prepared = Arc::new(prepared?);
        if prepared.shareable && key.text.len() <= TEXT_BYTES_MAX {
            self.texts.write().keep(key, Arc::clone(&prepared), bytes);
        }
        Ok(Bound::made(prepared, reason))
    }

    fn key<'a>(
        &self,
        text: &'a str,
        types: &'a [Option<SqlType>],
        binder: &'a Binder<'_>,
    ) -> Key<'a> {
        Key { hash: self.hasher.hash_one(text), text, types, binder }
    }

    /// Lookups that found a plan, and those that made one.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

/// Plans, and gives the plan's bytes, as far as they are counted.
fn with_bytes<T>(plan: impl FnOnce() -> T) -> (T, i64) {
    let (planned, bytes) = memory::with_growth(plan);
    (planned, bytes.max(PLAN_BYTES_LEAST))
}

/// The most bytes that all kept plans of a table may have together, as far as they are counted.
fn plans_max() -> i64 {
    (memory::limit() / PART_OF_LIMIT).min(PLANS_MAX)
}

/// The plan of a shape, from one of its texts.
///
/// Errors: why there is none. An error of binding says no more than that: the text by itself will tell
/// its own.
fn plan_shape(
    shape: &Shape,
    text: &str,
    first: &Way,
    binder: &Binder<'_>,
) -> Result<ShapePlan, MissReason> {
    let with_parameters = shape.with_parameters(text);
    let prepared = bind_one(&with_parameters, &shape.declared(), binder);
    let prepared = prepared.map_err(|_| MissReason::LiteralsDecide)?;
    ShapePlan::new(Arc::new(prepared), shape, first)
}

/// Parses and plans a text until the binder's token ends it. A thread on duty is relieved if the text is long;
/// otherwise the binder relieves it once it finds that planning will last.
fn bind_one(text: &str, types: &[Option<SqlType>], binder: &Binder<'_>) -> Result<Prepared> {
    let bind = || plan_one(text, types, binder);
    duty::relieved_if(text.len() > SHORT_TEXT_BYTES, || match binder.cancel {
        Some(cancel) => under(cancel, bind),
        None => bind(),
    })
}

/// Parses and plans a text. An everyday text needs no stack, unless its planning asks for some; others get as
/// much as they take.
fn plan_one(text: &str, types: &[Option<SqlType>], binder: &Binder<'_>) -> Result<Prepared> {
    let (began, clock) = (Instant::now(), PhaseClock::default());
    let binder = Binder { clock: Some(&clock), ..*binder };
    let mut prepared = match clock.time(Phase::Parse, || parse::parse_everyday(text)) {
        Some(parsed) => prepare(&binder, parsed, types)?,
        None => with_stack_for(text.len(), || {
            let mut parsed = clock.time(Phase::Parse, || parse::parse_tokens(text))?;
            if parsed.len() > 1 {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "cannot insert multiple commands into a prepared statement",
                ));
            }
            match parsed.pop() {
                Some(parsed) => prepare(&binder, parsed, types),
                None => Ok(nothing(text, &binder)),
            }
        })?,
    };
    prepared.planning = clock.times(began.elapsed());
    Ok(prepared)
}

/// What is looked up: a text or the key of a shape, and all else that binding looks at.
struct Key<'a> {
    hash: u64,
    text: &'a str,
    types: &'a [Option<SqlType>],
    binder: &'a Binder<'a>,
}

/// A bounded table from keys to values.
struct Slots<T> {
    capacity: usize,
    count: usize,
    /// Counted bytes of all values.
    bytes: i64,
    entries: HashMap<u64, Vec<Entry<T>>, BuildHasherDefault<Identity>>,
}

struct Entry<T> {
    text: Box<str>,
    types: Box<[Option<SqlType>]>,
    setting: Setting,
    catalog_version: u64,
    /// Version of the catalog of all sessions that was there then.
    shared_version: u64,
    value: T,
    bytes: i64,
    /// Set by a lookup, cleared by a sweep.
    used: AtomicBool,
}

/// What binding depends on besides text and catalog.
struct Setting {
    user: String,
    search_path: Vec<String>,
    time_zone: String,
    point_plans: bool,
}

impl Setting {
    fn of(binder: &Binder<'_>) -> Self {
        Setting {
            user: binder.session.user.clone(),
            search_path: binder.session.search_path.clone(),
            time_zone: binder.session.time_zone.clone(),
            point_plans: binder.point_plans,
        }
    }

    fn is(&self, session: &SessionVars, point_plans: bool) -> bool {
        self.point_plans == point_plans
            && self.user == session.user
            && self.search_path == session.search_path
            && self.time_zone == session.time_zone
    }
}

impl<T> Entry<T> {
    fn answers(&self, key: &Key<'_>) -> bool {
        self.catalog_version == key.binder.catalog.plan_version()
            && *self.text == *key.text
            && *self.types == *key.types
            && self.setting.is(key.binder.session, key.binder.point_plans)
    }
}

impl<T: Clone> Slots<T> {
    fn new(capacity: usize) -> Self {
        Slots { capacity, count: 0, bytes: 0, entries: HashMap::default() }
    }

    fn get(&self, key: &Key<'_>) -> Option<T> {
        let entry = self.entries.get(&key.hash)?.iter().find(|entry| entry.answers(key))?;
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Some(entry.value.clone())
    }

    /// Keeps a value of so many counted bytes, unless it is large: constants that were folded may be texts of
    /// megabytes.
    fn keep(&mut self, key: &Key<'_>, value: T, bytes: i64) {
        let bytes_max = plans_max();
        if self.capacity == 0 || bytes > bytes_max / PLANS_AT_LEAST {
            return;
        }
        if self.count >= self.capacity || self.bytes + bytes > bytes_max {
            self.make_room(key.binder.catalog.shared_version(), bytes_max - bytes);
        }
        let entry = Entry {
            text: key.text.into(),
            types: key.types.into(),
            setting: Setting::of(key.binder),
            catalog_version: key.binder.catalog.plan_version(),
            shared_version: key.binder.catalog.shared_version(),
            value,
            bytes,
            used: AtomicBool::new(true),
        };
        let same = self.entries.entry(key.hash).or_default();
        // Another session that bound the same text meanwhile was as right as this one.
        let before = self.bytes;
        let (count, held) = (&mut self.count, &mut self.bytes);
        same.retain(|known| {
            let goes = known.answers(key);
            *count -= usize::from(goes);
            *held -= if goes { known.bytes } else { 0 };
            !goes
        });
        self.count += 1;
        self.bytes += bytes;
        memory::add_plans(self.bytes - before);
        same.push(entry);
    }

    /// Drops entries of older catalogs, then those not used since the last sweep, then any, until there is room
    /// for one more and the others have `bytes_max` at most.
    fn make_room(&mut self, version: u64, bytes_max: i64) {
        for same in self.entries.values_mut() {
            same.retain(|entry| {
                entry.shared_version >= version && entry.used.swap(false, Ordering::Relaxed)
            });
        }
        let mut left: usize = self.entries.values().map(Vec::len).sum();
        let mut bytes: i64 = self.entries.values().flatten().map(|entry| entry.bytes).sum();
        for same in self.entries.values_mut() {
            while (left >= self.capacity || bytes > bytes_max)
                && let Some(entry) = same.pop()
            {
                left -= 1;
                bytes -= entry.bytes;
            }
        }
        self.entries.retain(|_, same| !same.is_empty());
        self.count = left;
        memory::add_plans(bytes - self.bytes);
        self.bytes = bytes;
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        memory::add_plans(-self.bytes);
    }
}

/// Hashes are keys already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
