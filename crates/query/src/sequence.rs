//! Positions of sequences. They stand outside transactions: gaps, but no waiting.

use std::sync::atomic::Ordering;

use crate::catalog::Sequence;
use crate::error::{Result, SqlError, SqlState};

/// The next value. Errors: 2200H at the end of a sequence that does not cycle.
pub fn next(sequence: &Sequence) -> Result<i64> {
    let options = sequence.options;
    let mut given = 0;
    let step = |last: i64| {
        let next = last.checked_add(options.increment);
        given = match next {
            Some(next) if (options.min..=options.max).contains(&next) => next,
            _ if options.cycle && options.increment > 0 => options.min,
            _ if options.cycle => options.max,
            _ => return None,
        };
        Some(given)
    };
    match sequence.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
        Ok(_) => Ok(given),
        Err(_) => Err(SqlError::new(
            SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("nextval: reached the end of sequence \"{}\"", sequence.name),
        )),
    }
}

/// Puts it at `value`; `called` says whether that value counts as given out.
pub fn set(sequence: &Sequence, value: i64, called: bool) -> Result<()> {
    let options = sequence.options;
    if !(options.min..=options.max).contains(&value) {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("setval: value {value} is out of bounds for sequence \"{}\"", sequence.name),
        ));
    }
    let last = if called { value } else { value.wrapping_sub(options.increment) };
    sequence.last.store(last, Ordering::Relaxed);
    Ok(())
}

/// The value last given out, or the first to be given, and whether any was.
pub fn position(sequence: &Sequence) -> (i64, bool) {
    let last = sequence.last.load(Ordering::Relaxed);
    let before_start = sequence.options.start.wrapping_sub(sequence.options.increment);
    if last == before_start { (sequence.options.start, false) } else { (last, true) }
}
