//! The ways in which a look-up reads, one after the other until it has all rows: row at a time while these are few, then
//! by a scan ([`halcyon_prepare::change_over`] says how few).
//!
//! A look-up that leaves off has given nobody a row, and changed nothing: what it does twice leaves no trace
//! ([`halcyon_plan::repeatable`]). Under locks of its own it gives them back and begins anew over a cut, as one does that
//! waits too long for a lock. Where its transaction keeps the locks, it begins anew under these, since it must see the
//! same rows as other statements of the transaction, and those that the transaction has changed; unless a scan would
//! lock more than the look-up has.

use std::sync::Arc;

use halcyon_catalog::{Catalog, Table};
use halcyon_plan::bind::Binder;
use halcyon_prepare::change_over::Limit;
use halcyon_prepare::plan::Prepared;
use halcyon_sql::error::{Result, SqlError, SqlState};

use crate::execute::{Ran, RowAccess};
use crate::session::Session;

/// A way in which a look-up reads. Other statements know only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Row at a time, under locks that are given back if the rows are many.
    Few,
    /// Row at a time until a scan would have taken less time; `visited` rows were visited before, in vain.
    Many { visited: u32 },
    /// By a scan.
    Scan,
}

impl Reading {
    /// The way over a snapshot, or under locks that stay.
    pub const BEGINNING: Reading = Reading::Many { visited: 0 };

    /// How a statement goes on over a cut that has run [`Reading::Few`], if it does: it left off, or, as one `with_patience`,
    /// did not get its locks.
    pub fn over_a_cut(ran: &Result<Ran>, with_patience: bool) -> Option<Reading> {
        match ran {
            Ok(Ran::TooMany(visited)) => Some(Reading::Many { visited: *visited }),
            Err(error) if with_patience && has_no_lock(error) => Some(Reading::BEGINNING),
            _ => None,
        }
    }

    /// Reads in this way, and by a scan if there are too many rows for it.
    pub fn until_done(self, mut read: impl FnMut(Reading) -> Result<Ran>) -> Result<Ran> {
        match read(self)? {
            Ran::TooMany(_) => read(Reading::Scan),
            ran => Ok(ran),
        }
    }

    /// The limit that holds while a statement reads row at a time.
    pub fn limit(self) -> Limit {
        match self {
            Reading::Few => Limit::UnderLocks,
            Reading::Many { .. } | Reading::Scan => Limit::InAll,
        }
    }
}

/// Whether a statement was refused a lock that others hold.
fn has_no_lock(error: &SqlError) -> bool {
    matches!(error.state(), SqlState::LOCK_NOT_AVAILABLE | SqlState::DEADLOCK_DETECTED)
}

/// How many rows a statement may visit row at a time; `u32::MAX` if there is no other way for it, `None` if the other way
/// is better at once. `setting`: the visits under locks, 0 for no limit.
#[inline]
pub(crate) fn visits_max(
    reading: Reading,
    setting: u32,
    subject: &Prepared,
    access: &RowAccess<'_>,
) -> Option<u32> {
    let change_over = &subject.change_over;
    match reading {
        _ if setting == 0 || !change_over.is_possible() => Some(u32::MAX),
        Reading::Few => Some(change_over.visits_under_locks(setting)),
        Reading::Many { visited } => match rows_of(subject.plan.tables(), access) {
            Some(rows) => change_over.visits_in_all(setting, rows, visited),
            None => Some(u32::MAX),
        },
        Reading::Scan => Some(u32::MAX),
    }
}

/// How many rows the tables have; `None` if not all of their partitions are locked.
fn rows_of(tables: &[Arc<Table>], access: &RowAccess<'_>) -> Option<u64> {
    let partitions = tables.iter().zip(0..).flat_map(|(table, number)| {
        let count = u32::try_from(table.cells.len()).expect("a table has few partitions");
        (0..count).map(move |partition| (number, partition))
    });
    let roots = access.roots();
    let rows = |(table, partition): (usize, u32)| {
        let is_there = match access {
            RowAccess::Locked(_, set) => set.locks.get(table, partition).is_some(),
            RowAccess::Cut(_) => true,
        };
        is_there.then(|| roots.partition(table, partition).row_count())
    };
    partitions.map(rows).sum()
}

impl Session {
    /// The plan by which the analytical executor runs a look-up; `None` if there is none, and it goes on row at a time.
    #[cold]
    pub(crate) fn scanning(
        &self,
        prepared: &Prepared,
        catalog: &Arc<Catalog>,
    ) -> Option<Arc<Prepared>> {
        let scanning = |binder: &Binder<'_>| self.shared.cache.scanning(prepared, binder);
        self.binding(catalog, false, scanning).ok().flatten()
    }
}
