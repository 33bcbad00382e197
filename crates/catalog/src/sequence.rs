//! Sequences: numbers handed out without waiting for other transactions.
//!
//! Invariant, checked by `sequences_never_repeat_a_value`: between `last` and the next value lies
//! one increment; a value is handed out once per round of the sequence, whatever becomes of the
//! transaction, and also after a crash.
//! Cost: one compare-and-swap; with a log a mutex, and a record for every `LOGGED_AHEAD` values.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use halcyon_base::ids::TableId;
use halcyon_txn::{Log, sequence_payload};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ids::Ids;
use super::rights::Grant;

use crate::session_vars::SessionVars;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Values that one record of the log covers. A crash skips those of them that were not handed out.
const LOGGED_AHEAD: u32 = 32;

/// Where a sequence stands: one for all versions of the catalog that have the sequence, until it is
/// altered.
pub struct Position {
    /// Names it in the log.
    id: u32,
    last: AtomicI64,
    logged: Mutex<Logged>,
    log: Option<Arc<Log>>,
}

struct Logged {
    /// Where it would go on after a crash.
    last: i64,
    /// Values from the present one on that this covers.
    left: u32,
}

impl Position {
    /// A position behind `last`.
    pub fn new(ids: &Ids, last: i64) -> Arc<Self> {
        Self::restored(ids.oid(), last, ids.log.clone())
    }

    /// A position behind `last` of a sequence that ends with its session.
    pub fn unlogged(ids: &Ids, last: i64) -> Arc<Self> {
        Self::restored(ids.oid(), last, None)
    }

    /// Whether the values handed out are written down.
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    pub(crate) fn restored(id: u32, last: i64, log: Option<Arc<Log>>) -> Arc<Self> {
        let logged = Mutex::new(Logged { last, left: 0 });
        Arc::new(Position { id, last: AtomicI64::new(last), logged, log })
    }

    /// Last value handed out; [`SequenceOptions::start`] − increment before the first.
    pub fn last(&self) -> i64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Its name in the log, and the value behind which it would go on after a crash.
    pub(crate) fn stored(&self) -> (u32, i64) {
        (self.id, self.logged.lock().last)
    }

    /// Takes a step; `None` if there is none.
    fn step(&self, options: &SequenceOptions) -> Option<i64> {
        let Some(log) = &self.log else {
            let step = |last| options.after(last);
            let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()?;
            return options.after(last);
        };
        let mut logged = self.logged.lock();
        let next = options.after(self.last())?;
        if logged.left == 0 {
            (logged.last, logged.left) = (next, 1);
            while logged.left < LOGGED_AHEAD
                && let Some(further) = options.after(logged.last)
            {
                logged.last = further;
                logged.left += 1;
            }
            log.append_sequence(&sequence_payload(self.id, logged.last));
        }
        logged.left -= 1;
        self.last.store(next, Ordering::Relaxed);
        Some(next)
    }

    fn put(&self, last: i64) {
        let mut logged = self.logged.lock();
        *logged = Logged { last, left: 0 };
        if let Some(log) = &self.log {
            log.append_sequence(&sequence_payload(self.id, last));
        }
        self.last.store(last, Ordering::Relaxed);
    }
}

/// A sequence. Its position is outside transactions, as in PostgreSQL: gaps, but no waiting.
#[derive(Clone)]
pub struct Sequence {
    /// Object id.
    pub oid: u32,
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Start, step and bounds.
    pub options: SequenceOptions,
    /// Where it stands.
    pub position: Arc<Position>,
    /// Column it belongs to, dropped with it: (table, column).
    pub owned_by: Option<(TableId, u16)>,
    /// Role that owns it.
    pub owner: String,
    /// What others may do.
    pub grants: Vec<Grant>,
    /// COMMENT ON SEQUENCE.
    pub comment: Option<String>,
}

/// Parameters of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SequenceOptions {
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

impl SequenceOptions {
    /// The value of `last` before the first has been handed out.
    pub fn before_first(&self) -> i64 {
        self.start.wrapping_sub(self.increment)
    }

    /// The value after `last`; `None` at the end of a sequence that does not cycle.
    fn after(&self, last: i64) -> Option<i64> {
        if last == self.before_first() {
            return Some(self.start);
        }
        let next = last.checked_add(self.increment);
        match next.filter(|next| (self.min..=self.max).contains(next)) {
            None if self.cycle => Some(if self.increment > 0 { self.min } else { self.max }),
            next => next,
        }
    }
}

impl Sequence {
    /// The next value. Errors: 2200H.
    pub fn next(&self) -> Result<i64> {
        self.position.step(&self.options).ok_or_else(|| self.exhausted())
    }

    fn exhausted(&self) -> SqlError {
        let (end, value) = match self.options.increment > 0 {
            true => ("maximum", self.options.max),
            false => ("minimum", self.options.min),
        };
        SqlError::new(
            SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("nextval: reached {end} value of sequence \"{}\" ({value})", self.name),
        )
    }

    /// Whether a value has been handed out since the start or the last restart.
    pub fn is_called(&self) -> bool {
        self.position.last() != self.options.before_first()
    }

    /// Sets the value last handed out, or with `called` false the next one. Errors: 22003.
    pub fn set(&self, value: i64, called: bool) -> Result<()> {
        let SequenceOptions { min, max, .. } = self.options;
        if !(min..=max).contains(&value) {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({min}..{max})",
                    self.name
                ),
            ));
        }
        let last = match called {
            true => value,
            false => value.wrapping_sub(self.options.increment),
        };
        self.position.put(last);
        Ok(())
    }
}

/// The next value, without remembering it for a session. `read_only`: whether the transaction is.
/// Errors: 2200H, 25006.
pub fn next(sequence: &Sequence, read_only: bool) -> Result<i64> {
    refuse_in_read_only(sequence, read_only, "nextval")?;
    sequence.next()
}

/// Puts it at `value`; `called` says whether that value counts as given out. `read_only`: whether the
/// transaction is. Errors: 22003, 25006.
pub fn set(sequence: &Sequence, value: i64, called: bool, read_only: bool) -> Result<()> {
    refuse_in_read_only(sequence, read_only, "setval")?;
    sequence.set(value, called)
}

/// The value last given out, or the first to be given, and whether any was.
pub fn position(sequence: &Sequence) -> (i64, bool) {
    match sequence.is_called() {
        true => (sequence.position.last(), true),
        false => (sequence.options.start, false),
    }
}

/// Errors: 25006 for a sequence that lasts, in a READ ONLY transaction.
fn refuse_in_read_only(sequence: &Sequence, read_only: bool, function: &str) -> Result<()> {
    if !read_only || crate::temporary::is_temporary(&sequence.schema) {
        return Ok(());
    }
    let message = format!("cannot execute {function}() in a read-only transaction");
    Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
}

/// `nextval`: the next value, remembered for `currval`. Errors: 2200H, 25006.
pub fn next_value(sequence: &Sequence, session: &SessionVars) -> Result<i64> {
    refuse_in_read_only(sequence, session.read_only, "nextval")?;
    let value = sequence.next()?;
    let mut known = session.sequence_values.lock();
    known.retain(|(oid, _)| *oid != sequence.oid);
    known.push((sequence.oid, value));
    Ok(value)
}

/// `currval`. Errors: 55000 if this session has not asked for a value yet.
pub fn current_value(sequence: &Sequence, session: &SessionVars) -> Result<i64> {
    let known = session.sequence_values.lock();
    let found = known.iter().find(|(oid, _)| *oid == sequence.oid);
    found.map(|(_, value)| *value).ok_or_else(|| {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name),
        )
    })
}

/// `lastval`. Errors: 55000 if this session has not asked any sequence yet.
pub fn last_value(session: &SessionVars) -> Result<i64> {
    session.sequence_values.lock().last().map(|(_, value)| *value).ok_or_else(|| {
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            "lastval is not yet defined in this session",
        )
    })
}

/// `setval`. Errors: 22003, 25006.
pub fn set_value(
    sequence: &Sequence,
    value: i64,
    called: bool,
    session: &SessionVars,
) -> Result<i64> {
    refuse_in_read_only(sequence, session.read_only, "setval")?;
    sequence.set(value, called)?;
    if called {
        let mut known = session.sequence_values.lock();
        known.retain(|(oid, _)| *oid != sequence.oid);
        known.push((sequence.oid, value));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(options: SequenceOptions) -> Sequence {
        Sequence {
            oid: 7,
            schema: "public".to_owned(),
            name: "s".to_owned(),
            options,
            position: Position::restored(8, options.before_first(), None),
            owned_by: None,
            owner: "halcyon".to_owned(),
            grants: Vec::new(),
            comment: None,
        }
    }

    fn values(sequence: &Sequence, count: usize) -> Vec<Result<i64, SqlState>> {
        (0..count).map(|_| sequence.next().map_err(|error| error.state())).collect()
    }

    const UP: SequenceOptions =
        SequenceOptions { start: 2, increment: 2, min: 1, max: 5, cycle: false };
    const END: Result<i64, SqlState> = Err(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED);

    #[test]
    fn values_step_to_the_end_and_stop_or_cycle() {
        let up = sequence(UP);
        assert!(!up.is_called());
        assert_eq!(values(&up, 4), [Ok(2), Ok(4), END, END]);
        assert!(up.is_called());
        assert_eq!(
            up.next().unwrap_err().message(),
            "nextval: reached maximum value of sequence \"s\" (5)"
        );
        let cycle = sequence(SequenceOptions { cycle: true, ..UP });
        assert_eq!(values(&cycle, 4), [Ok(2), Ok(4), Ok(1), Ok(3)]);
        let down =
            sequence(SequenceOptions { start: -1, increment: -1, min: -2, max: -1, cycle: false });
        assert_eq!(values(&down, 3), [Ok(-1), Ok(-2), END]);
        let edge = SequenceOptions {
            start: i64::MAX - 1,
            increment: 1,
            min: 1,
            max: i64::MAX,
            cycle: false,
        };
        assert_eq!(values(&sequence(edge), 3), [Ok(i64::MAX - 1), Ok(i64::MAX), END]);
        let lowest = SequenceOptions { start: i64::MIN, min: i64::MIN, ..edge };
        assert_eq!(values(&sequence(lowest), 2), [Ok(i64::MIN), Ok(i64::MIN + 1)]);
    }

    #[test]
    fn setval_moves_and_refuses_what_is_out_of_bounds() {
        let up = sequence(UP);
        up.set(3, true).expect("in bounds");
        assert_eq!(values(&up, 2), [Ok(5), END]);
        up.set(3, false).expect("in bounds");
        assert_eq!(values(&up, 1), [Ok(3)]);
        assert_eq!(up.set(6, true).unwrap_err().state(), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    }
}
