//! The protocol by which statements find the rows of views over streams up to date.
//!
//! A stream's handle gives its events to the engines of the views that read the stream, and to
//! nothing else: from then on the *rows* of such a view are stale, until a reader has them brought
//! up to date. Every statement that reads tables therefore takes these steps:
//!
//! 1. [`StreamViews::settle`] brings the stale rows of all views up to date, at one moment and in a
//!    transaction of its own, and notes how often a writer has done so for one view alone.
//! 2. The statement acquires locks or a cut.
//! 3. [`Settled::is_torn`] says whether such a writer came between the two steps. If one did, and
//!    the statement reads several views over streams, an event may be in the rows of one view and
//!    absent from those of another, so the statement begins again with step 1.
//!
//! Two kinds of statements *own* the views instead: those that must find the same rows again later
//! (their transaction keeps shared locks), and those that were torn once. For them step 2 takes the
//! views' locks exclusively ([`claim`]), and [`own`] then brings their rows up to date and keeps
//! further events out until the transaction ends.
//!
//! The rules below this protocol are those of `halcyon_txn::derived`, where a model checks them.

use std::sync::Arc;

use halcyon_base::duty;
use halcyon_base::ids::SessionId;
use halcyon_catalog::{Catalog, Table};
use halcyon_ddl::views;
use halcyon_plan::env::Need;
use halcyon_sql::error::Result;
use halcyon_txn::{Manager, Mode, Transaction, WaitLimits};

use crate::shared::Shared;

/// The views of a database, as one session reads them.
#[derive(Clone, Copy)]
pub(crate) struct StreamViews<'a> {
    pub shared: &'a Shared,
    pub session: SessionId,
    pub limits: WaitLimits<'a>,
}

/// Proof that the rows of views were brought up to date at one moment.
#[must_use = "a statement that reads several views has to ask whether they are torn"]
pub(crate) struct Settled<'a> {
    manager: &'a Manager,
    /// How often a writer had brought one view alone up to date before that moment.
    alone: u64,
}

impl<'a> StreamViews<'a> {
    /// Brings rows up to date if those of one of `tables` are stale: the rows of these tables, and
    /// with them those of all other views. Rows for which `held` is true are left as they are: the
    /// caller's transaction has locked them, so they belong to that transaction and are up to date.
    ///
    /// Errors: the errors of a wait for locks.
    pub fn settle<'t>(
        &self,
        tables: impl IntoIterator<Item = &'t Arc<Table>>,
        held: impl Fn(&Table) -> bool,
    ) -> Result<Settled<'a>> {
        let manager = &self.shared.manager;
        let settled = Settled { manager, alone: manager.lone_view_settlements() };
        let stale = |table: &&'t Arc<Table>| {
            table.materialized().is_some_and(|view| view.maintained().is_stale()) && !held(table)
        };
        let stale: Vec<_> = tables.into_iter().filter(stale).collect();
        if !stale.is_empty() {
            let catalog = self.shared.catalog();
            duty::relieved(|| {
                views::bring_up_to_date(manager, self.session, &catalog, &held, &self.limits)
            })?;
            views::require_settled(&stale)?;
        }
        Ok(settled)
    }

    /// Settles a single view as [`StreamViews::settle`] does; its reader cannot be torn.
    pub fn settle_one(&self, view: &Arc<Table>) -> Result<()> {
        self.settle([view], |_| false).map(|_| ())
    }
}

impl Settled<'_> {
    /// Whether an event may be in the rows of one of `tables` and missing in another's. To be
    /// called once the locks or the cut have been acquired.
    #[inline]
    pub fn is_torn<'t>(
        &self,
        catalog: &Catalog,
        tables: impl IntoIterator<Item = &'t Arc<Table>>,
    ) -> bool {
        self.manager.lone_view_settlements() != self.alone
            && tables.into_iter().filter(|table| views::is_streamed(catalog, table)).count() > 1
    }
}

/// Makes the needs of views over streams exclusive, for a statement that will [`own`] them.
pub(crate) fn claim(catalog: &Catalog, tables: &[Arc<Table>], needs: &mut [Need]) {
    for need in needs {
        if views::is_streamed(catalog, &tables[need.table]) {
            need.mode = Mode::Exclusive;
        }
    }
}

/// Makes the transaction the owner of those of `tables` that are views over streams and that it
/// holds exclusively: their rows then have every event so far, and get no further ones before the
/// transaction ends.
pub(crate) fn own(catalog: &Catalog, tables: &[Arc<Table>], tx: &mut Transaction) {
    for table in tables.iter().filter(|table| views::is_streamed(catalog, table)) {
        views::own(table, tx);
    }
}
