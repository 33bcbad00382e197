//! When the DEFERRABLE constraints of a transaction block are judged: what SET CONSTRAINTS has said, and
//! what waits for COMMIT.

use halcyon_base::ids::TableId;
use halcyon_catalog::{Catalog, Deferral};
use halcyon_exec::deferrable::DeferrableCheck;
use halcyon_sql::error::Result;
use halcyon_txn::{Savepoint, Transaction, WaitLimits};

/// Constraints of a block that are put off, and those that SET CONSTRAINTS has named.
#[derive(Clone, Default)]
pub(crate) struct Deferrals {
    /// What SET CONSTRAINTS ALL said last.
    all: Option<Deferral>,
    /// What SET CONSTRAINTS has said of single constraints since then, the last behind the others.
    named: Vec<(TableId, String, Deferral)>,
    /// Constraints that may be broken, each with the beginning of the first statement that may have
    /// broken it.
    waiting: Vec<(DeferrableCheck, Savepoint)>,
}

impl Deferrals {
    /// When the constraint is judged.
    pub fn of(&self, check: &DeferrableCheck) -> Deferral {
        let is_meant = |(owner, name, _): &&(TableId, String, Deferral)| {
            *owner == check.owner && *name == check.name
        };
        let named = self.named.iter().rev().find(is_meant).map(|(.., deferral)| *deferral);
        named.or(self.all).unwrap_or(check.deferral)
    }

    /// Whether anything is to be judged before the block commits.
    pub fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn put_off(&mut self, check: &DeferrableCheck, since: Savepoint) {
        if !self.waiting.iter().any(|(known, _)| known == check) {
            self.waiting.push((check.clone(), since));
        }
    }

    /// SET CONSTRAINTS: of the constraints named (table, name), or of all.
    pub fn set(&mut self, named: Option<Vec<(TableId, String)>>, deferral: Deferral) {
        match named {
            None => {
                self.all = Some(deferral);
                self.named.clear();
            }
            Some(named) => {
                let named = named.into_iter().map(|(owner, name)| (owner, name, deferral));
                self.named.extend(named);
            }
        }
    }

    /// Judges the constraints that no longer wait. Errors: 23503, 23505; those of a wait for locks.
    pub fn judge(
        &mut self,
        catalog: &Catalog,
        tx: &mut Transaction,
        limits: &WaitLimits<'_>,
        is_due: impl Fn(&Self, &DeferrableCheck) -> bool,
    ) -> Result<()> {
        for (check, since) in &self.waiting {
            if is_due(self, check) {
                check.judge(catalog, tx, since, limits)?;
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = waiting.into_iter().filter(|(check, _)| !is_due(self, check)).collect();
        Ok(())
    }

    /// Tables whose changed rows wait to be judged: their columns must stay.
    pub fn pending_tables(&self, catalog: &Catalog, tx: &Transaction) -> Vec<TableId> {
        let is_pending =
            |(check, since): &&(DeferrableCheck, Savepoint)| check.is_pending(catalog, tx, since);
        self.waiting.iter().filter(is_pending).map(|(check, _)| check.written).collect()
    }
}

/// Judges what a statement has left to its caller, or puts it off to the end of the block.
///
/// Errors: 23503, 23505; those of a wait for locks. The statement is to be taken back then.
pub(crate) fn settle(
    checks: &[DeferrableCheck],
    since: Savepoint,
    deferrals: Option<&mut Deferrals>,
    catalog: &Catalog,
    tx: &mut Transaction,
    limits: &WaitLimits<'_>,
) -> Result<()> {
    let Some(deferrals) = deferrals else {
        return checks.iter().try_for_each(|check| check.judge(catalog, tx, &since, limits));
    };
    for check in checks {
        match deferrals.of(check) {
            Deferral::Immediate => check.judge(catalog, tx, &since, limits)?,
            Deferral::Deferred => deferrals.put_off(check, since),
        }
    }
    Ok(())
}
