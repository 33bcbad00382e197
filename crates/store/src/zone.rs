//! Zones: the least and the greatest value that a column has in a segment, so that a scan passes by segments of which
//! no row can be wanted.
//!
//! Who asks first finds the zone, in one pass over the segment's values; who writes a value forgets it, by one store
//! of a byte. A row that is deleted leaves the zone as it is, which then may be wider than need be.
//!
//! Readers share a segment that nobody changes, so those that find its zone at once all find the same: the state is
//! stored behind the values, and a reader that sees the state sees the values.
//! Invariant, checked by `Segment::check`: every value of a live row that is not NULL lies in a zone that is known.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use crate::value::Type;

const UNKNOWN: u8 = 0;
const KNOWN: u8 = 1;
/// Some value has no place among 64-bit numbers.
const NONE: u8 = 2;

/// The zone of a column of a segment.
#[derive(Debug, Default)]
pub(crate) struct Zone {
    state: AtomicU8,
    least: AtomicI64,
    greatest: AtomicI64,
}

impl Clone for Zone {
    fn clone(&self) -> Self {
        Zone {
            // Before the values, as a reader does.
            state: AtomicU8::new(self.state.load(Ordering::Acquire)),
            least: AtomicI64::new(self.least.load(Ordering::Relaxed)),
            greatest: AtomicI64::new(self.greatest.load(Ordering::Relaxed)),
        }
    }
}

impl Zone {
    /// Forgets what is known; for writers.
    #[inline]
    pub(crate) fn forget(&mut self) {
        *self.state.get_mut() = UNKNOWN;
    }

    /// What is known, if anything is: least and greatest, or `None` for a column without a zone.
    pub(crate) fn known(&self) -> Option<Option<(i64, i64)>> {
        match self.state.load(Ordering::Acquire) {
            UNKNOWN => None,
            KNOWN => {
                let least = self.least.load(Ordering::Relaxed);
                Some(Some((least, self.greatest.load(Ordering::Relaxed))))
            }
            _ => Some(None),
        }
    }

    /// The zone, found by `find` if it is not known.
    pub(crate) fn get(&self, find: impl FnOnce() -> Option<(i64, i64)>) -> Option<(i64, i64)> {
        if let Some(known) = self.known() {
            return known;
        }
        let found = find();
        let state = match found {
            Some((least, greatest)) => {
                self.least.store(least, Ordering::Relaxed);
                self.greatest.store(greatest, Ordering::Relaxed);
                KNOWN
            }
            None => NONE,
        };
        self.state.store(state, Ordering::Release);
        found
    }
}

/// Whether a type's values can have a zone.
pub(crate) fn has_zone(ty: Type) -> bool {
    matches!(
        ty,
        Type::Int16
            | Type::Int32
            | Type::Int64
            | Type::Date
            | Type::Time
            | Type::Timestamp
            | Type::TimestampTz
            | Type::Decimal { .. }
    )
}
