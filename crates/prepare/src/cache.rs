//! Statements by their text, so that the second execution of a text plans nothing.
//!
//! The key is the text and everything else that binding looks at: catalog version, declared
//! parameter types, user, search path, time zone, and whether point plans are made. A lookup
//! hashes the text once and compares it once. The cache holds a bounded number of statements;
//! room is made by second chance: what was not asked for since the last sweep goes first.
//!
//! Invariant, checked by `a_statement_about_its_session_is_kept_for_no_other`: a statement that
//! shows something of its session (system views) is never kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use datafusion::common::hash_utils::RandomState;
use parking_lot::RwLock;

use crate::plan::{Plan, Prepared};
use crate::prepare::prepare;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::SessionVars;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse;
use halcyon_sql::types::SqlType;

/// Longer texts are not kept: they are loads, not statements that come again.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// A bounded set of bound statements. Shared by all sessions.
pub struct StatementCache {
    capacity: usize,
    hasher: RandomState,
    entries: RwLock<HashMap<u64, Vec<Entry>, BuildHasherDefault<Identity>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

struct Entry {
    text: Box<str>,
    types: Box<[Option<SqlType>]>,
    setting: Setting,
    prepared: Arc<Prepared>,
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

impl Entry {
    fn answers(&self, text: &str, types: &[Option<SqlType>], binder: &Binder<'_>) -> bool {
        self.prepared.catalog_version == binder.catalog.version
            && *self.text == *text
            && *self.types == *types
            && self.setting.is(binder.session, binder.point_plans)
    }
}

impl StatementCache {
    /// A cache of at most `capacity` statements; 0 keeps none.
    pub fn new(capacity: usize) -> Self {
        StatementCache {
            capacity,
            hasher: RandomState::default(),
            entries: RwLock::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The statement in `text`, bound; an empty text gives [`Plan::Empty`].
    ///
    /// Errors: those of parsing and binding; 42601 if there is more than one statement.
    pub fn get_or_bind(
        &self,
        text: &str,
        types: &[Option<SqlType>],
        binder: &Binder<'_>,
    ) -> Result<Arc<Prepared>> {
        let hash = self.hasher.hash_one(text);
        if let Some(found) = self.get(hash, text, types, binder) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(found);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let prepared = Arc::new(bind_one(text, types, binder)?);
        if prepared.shareable && text.len() <= TEXT_BYTES_MAX && self.capacity > 0 {
            self.keep(hash, text, types, binder, &prepared);
        }
        Ok(prepared)
    }

    fn get(
        &self,
        hash: u64,
        text: &str,
        types: &[Option<SqlType>],
        binder: &Binder<'_>,
    ) -> Option<Arc<Prepared>> {
        let entries = self.entries.read();
        let entry = entries.get(&hash)?.iter().find(|entry| entry.answers(text, types, binder))?;
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(&entry.prepared))
    }

    fn keep(
        &self,
        hash: u64,
        text: &str,
        types: &[Option<SqlType>],
        binder: &Binder<'_>,
        prepared: &Arc<Prepared>,
    ) {
        let entry = Entry {
            text: text.into(),
            types: types.into(),
            setting: Setting::of(binder),
            prepared: Arc::clone(prepared),
            used: AtomicBool::new(true),
        };
        let mut entries = self.entries.write();
        let full = entries.values().map(Vec::len).sum::<usize>() >= self.capacity;
        if full {
            make_room(&mut entries, self.capacity, binder.catalog.version);
        }
        let same = entries.entry(hash).or_default();
        // Whoever bound the same text meanwhile was as right as we are.
        same.retain(|known| !known.answers(text, types, binder));
        same.push(entry);
    }

    /// Lookups that found their statement, and those that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// The statements it holds, in no order.
    pub fn statements(&self) -> Vec<Arc<Prepared>> {
        let entries = self.entries.read();
        entries.values().flatten().map(|entry| Arc::clone(&entry.prepared)).collect()
    }
}

/// Drops statements of older catalogs, then what was not used since the last sweep, then any.
fn make_room(
    entries: &mut HashMap<u64, Vec<Entry>, BuildHasherDefault<Identity>>,
    capacity: usize,
    version: u64,
) {
    for same in entries.values_mut() {
        same.retain(|entry| {
            entry.prepared.catalog_version >= version && entry.used.swap(false, Ordering::Relaxed)
        });
    }
    let mut excess = entries.values().map(Vec::len).sum::<usize>() as isize - capacity as isize + 1;
    for same in entries.values_mut() {
        while excess > 0 && same.pop().is_some() {
            excess -= 1;
        }
    }
    entries.retain(|_, same| !same.is_empty());
}

fn bind_one(text: &str, types: &[Option<SqlType>], binder: &Binder<'_>) -> Result<Prepared> {
    let mut parsed = parse::parse(text)?;
    if parsed.len() > 1 {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        ));
    }
    match parsed.pop() {
        None => Ok(Prepared {
            text: text.into(),
            catalog_version: binder.catalog.version,
            plan: Plan::Empty,
            params: Vec::new(),
            columns: Arc::from([]),
            tag: "",
            shareable: true,
            locks_rows: false,
        }),
        Some(parsed) => parse::with_stack(|| prepare(binder, parsed, types)),
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
