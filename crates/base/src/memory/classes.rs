//! The memory of workload classes: what the running statements of a class, and of the classes below it, hold
//! together (P4 §2, total statement memory limit).
//!
//! Invariant, checked by `a_class_holds_what_its_statements_hold`: a class's bytes are the sum of what its running
//! statements have told, up to [`super::DRIFT_MAX`] per thread; a statement that ends takes its part out again.
//! Several databases of one process share the table: there a limit is that of the database that set it last.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU8};

/// How many classes there are.
const CLASSES: usize = 64;
/// No class.
pub(super) const NONE: u8 = u8::MAX;

/// A class: what it holds, what it may hold, and the class above.
struct Class {
    used: AtomicI64,
    limit: AtomicI64,
    above: AtomicU8,
}

static TABLE: [Class; CLASSES] = [const {
    Class { used: AtomicI64::new(0), limit: AtomicI64::new(i64::MAX), above: AtomicU8::new(NONE) }
}; CLASSES];

/// The class and those above it.
fn chain(class: u8) -> impl Iterator<Item = &'static Class> {
    let next = |class: &&'static Class| TABLE.get(usize::from(class.above.load(Relaxed)));
    // A table that is changed at the moment may have a circle.
    std::iter::successors(TABLE.get(usize::from(class)), next).take(CLASSES)
}

/// Sets what a class may hold in bytes, with the classes below it, and the class above it.
pub fn set_class(class: u8, limit: Option<u64>, above: Option<u8>) {
    if let Some(own) = TABLE.get(usize::from(class)) {
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        own.limit.store(limit, Relaxed);
        own.above.store(above.unwrap_or(NONE), Relaxed);
    }
}

/// Bytes that the running statements of a class hold; not those of the classes below it.
pub fn class_bytes(class: u8) -> i64 {
    TABLE.get(usize::from(class)).map_or(0, |own| own.used.load(Relaxed))
}

/// Adds bytes of a statement of a class.
pub(super) fn add(class: u8, bytes: i64) {
    if let Some(own) = TABLE.get(usize::from(class)) {
        own.used.fetch_add(bytes, Relaxed);
    }
}

/// Bytes that a class and all below it hold.
fn held(class: &Class) -> i64 {
    let all =
        (0..CLASSES as u8).filter(|number| chain(*number).any(|own| std::ptr::eq(own, class)));
    all.map(|number| TABLE[usize::from(number)].used.load(Relaxed)).sum()
}

/// The limit that a class, or one above it, exceeds with so many bytes more.
pub(super) fn exceeded(class: u8, more: i64) -> Option<i64> {
    let mut limited = chain(class).filter(|own| own.limit.load(Relaxed) < i64::MAX);
    let own = limited.find(|own| held(own).saturating_add(more) > own.limit.load(Relaxed))?;
    Some(own.limit.load(Relaxed))
}

/// Whether so many bytes more leave a part (one in `part`) of the limits of a class and of those above it.
pub(super) fn has_room_to_spare(class: u8, more: i64, part: i64) -> bool {
    let mut limited = chain(class).filter(|own| own.limit.load(Relaxed) < i64::MAX);
    limited.all(|own| {
        let limit = own.limit.load(Relaxed);
        held(own).saturating_add(more) <= limit - limit / part
    })
}
