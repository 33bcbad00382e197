//! How a statement acquires the rows that it reads and writes: by locks of a transaction, or by a
//! cut.
//!
//! All locks of a statement are taken before it runs, in the order of partition ids, so that single
//! statements cause no deadlocks among themselves. Transactions of several statements may cause
//! them; `halcyon_txn` finds these. A cut is a reference to each partition's value at one moment,
//! and stops no writer.

use std::sync::Arc;

use halcyon_base::ids::{PartitionId, SessionId, TableId};
use halcyon_catalog::{Catalog, Table};
use halcyon_plan::env::{Locks, Need};
use halcyon_sql::error::Result;
use halcyon_store::Partition;
use halcyon_txn::{
    LockError, LockHandle, Lsn, Mode, PartitionCell, Transaction, WaitLimits, cut_noting,
};

use crate::shared::Shared;
use crate::stream_views::{self, StreamViews};
use halcyon_plan::lock_errors;

/// Roots by table of a plan, then by partition number.
pub(crate) type TableRoots = Vec<Vec<triomphe::Arc<Partition>>>;

/// All partitions at one cut, with the catalog that names them.
pub(crate) struct Snapshot {
    pub catalog: Arc<Catalog>,
    /// Roots in the order of partition ids.
    roots: Vec<(PartitionId, triomphe::Arc<Partition>)>,
}

impl Snapshot {
    /// The roots of `tables`, by table, then by partition number.
    pub fn roots_of(&self, tables: &[Arc<Table>]) -> TableRoots {
        let root = |id: PartitionId| {
            let at = self.roots.binary_search_by_key(&id, |(id, _)| *id);
            self.roots[at.expect("the snapshot holds every partition of its catalog")].1.clone()
        };
        tables.iter().map(|table| table.cells.iter().map(|cell| root(cell.id)).collect()).collect()
    }
}

/// What a statement does while its lock is somebody else's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// The thread waits.
    #[default]
    Blocks,
    /// The statement stands in the lock's queue and gives its thread back; later it runs once more.
    Suspends,
}

/// What has become of an acquisition of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    Whole,
    /// All locks are held, but views over streams among the tables are torn (see [`stream_views`]).
    Torn,
    /// The transaction stands in the queue of a lock; those before it are held.
    Queued,
}

/// The parties to an acquisition: the session that acquires, and the limits of its waits.
#[derive(Clone, Copy)]
pub(crate) struct Acquisition<'a> {
    pub shared: &'a Shared,
    pub session: SessionId,
    pub limits: WaitLimits<'a>,
    pub wait: LockWait,
}

/// Locks that a statement holds, and the needs that led to them.
#[derive(Default)]
pub(crate) struct LockSet {
    pub needs: Vec<Need>,
    pub locks: Locks,
}

impl<'a> Acquisition<'a> {
    /// The protocol for views over streams, in this session's name.
    pub fn stream_views(&self) -> StreamViews<'a> {
        let Acquisition { shared, session, limits, .. } = *self;
        StreamViews { shared, session, limits }
    }

    /// Takes the locks that `set.needs` name; `set.locks` then holds exactly these. With `owns` the
    /// transaction also becomes the owner of those of the tables that are views over streams.
    ///
    /// Errors: those of a wait for locks.
    #[inline]
    pub fn lock(
        &self,
        tx: &mut Transaction,
        catalog: &Catalog,
        tables: &[Arc<Table>],
        set: &mut LockSet,
        owns: bool,
    ) -> Result<Locked> {
        let held = |table: &Table| tx.holds(&table.cells[0]);
        let settled = self.stream_views().settle(tables, held)?;
        if owns {
            stream_views::claim(catalog, tables, &mut set.needs);
        }
        if !lock_needs(tx, tables, set, &self.limits, self.wait)? {
            return Ok(Locked::Queued);
        }
        if owns {
            stream_views::own(catalog, tables, tx);
            return Ok(Locked::Whole);
        }
        Ok(if settled.is_torn(catalog, tables) { Locked::Torn } else { Locked::Whole })
    }

    /// Takes locks of tables that later statements of the transaction will want, with those that this statement needs,
    /// in one order. Views and streams are left to the statements that name them, and nothing is locked ahead of a
    /// statement that reads some. False if the transaction stands in the queue of a lock.
    /// Errors: those of a wait for locks.
    #[cold]
    pub fn lock_ahead(
        &self,
        tx: &mut Transaction,
        catalog: &Catalog,
        ahead: impl Iterator<Item = (TableId, Mode)>,
        tables: &[Arc<Table>],
        needs: &[Need],
    ) -> Result<bool> {
        let is_plain = |table: &Table| table.materialized().is_none() && !table.is_stream();
        if !tables.iter().all(|table| is_plain(table)) {
            return Ok(true);
        }
        let mut wanted: Vec<(&Arc<Table>, &Arc<PartitionCell>, Mode)> = Vec::new();
        let known = ahead.filter_map(|(id, mode)| Some((catalog.tables.get(&id)?, mode)));
        for (table, mode) in known.filter(|(table, _)| is_plain(table)) {
            wanted.extend(table.cells.iter().map(|cell| (table, cell, mode)));
        }
        for need in needs {
            let table = &tables[need.table];
            let cells = match need.partition {
                Some(partition) => &table.cells[partition as usize..=partition as usize],
                None => &table.cells[..],
            };
            wanted.extend(cells.iter().map(|cell| (table, cell, need.mode)));
        }
        wanted.sort_unstable_by_key(|(_, cell, mode)| (cell.id, *mode == Mode::Shared));
        wanted.dedup_by_key(|(_, cell, _)| cell.id);
        for (table, cell, mode) in wanted {
            let locked = take(tx, cell, mode, &self.limits, self.wait);
            if locked.map_err(|error| lock_errors::of_table(error, table))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the right to change the catalog. False if the transaction stands in the queue for it.
    pub fn lock_catalog(&self, tx: &mut Transaction) -> Result<bool> {
        let locked = take(tx, &self.shared.ddl, Mode::Exclusive, &self.limits, self.wait);
        locked.map(|handle| handle.is_some()).map_err(lock_errors::of_catalog)
    }

    /// Cuts through `tables`. Returns their roots, and the end of the log that contains all changes
    /// in them; `None` if views among the tables are torn.
    pub fn cut(
        &self,
        catalog: &Catalog,
        tables: &[Arc<Table>],
    ) -> Result<Option<(TableRoots, Lsn)>> {
        let settled = self.stream_views().settle(tables, |_| false)?;
        let cells: Vec<_> = tables.iter().flat_map(|table| table.cells.iter().cloned()).collect();
        let (roots, lsn) = self.cut_cells(&cells)?;
        if settled.is_torn(catalog, tables) {
            return Ok(None);
        }
        let mut roots = roots.into_iter();
        let of_table = |table: &Arc<Table>| roots.by_ref().take(table.cells.len()).collect();
        Ok(Some((tables.iter().map(of_table).collect(), lsn)))
    }

    /// Cuts through the whole database, as [`Acquisition::cut`] does through tables. `None` also if
    /// another catalog has been published meanwhile.
    pub fn snapshot(&self, catalog: &Arc<Catalog>) -> Result<Option<(Snapshot, Lsn)>> {
        let settled = self.stream_views().settle(catalog.tables.values(), |_| false)?;
        let cells = catalog.tables.values().flat_map(|table| table.cells.iter().cloned());
        let mut cells: Vec<Arc<PartitionCell>> = cells.collect();
        cells.sort_unstable_by_key(|cell| cell.id);
        let (roots, lsn) = self.cut_cells(&cells)?;
        let is_torn = settled.is_torn(catalog, catalog.tables.values());
        if is_torn || !self.shared.is_current(catalog, false) {
            return Ok(None);
        }
        let roots = cells.iter().map(|cell| cell.id).zip(roots).collect();
        Ok(Some((Snapshot { catalog: catalog.clone(), roots }, lsn)))
    }

    fn cut_cells(
        &self,
        cells: &[Arc<PartitionCell>],
    ) -> Result<(Vec<triomphe::Arc<Partition>>, Lsn)> {
        let cut = cut_noting(&self.shared.manager, cells, &self.limits, |lsn| lsn);
        cut.map_err(lock_errors::of_cut)
    }
}

/// Takes a lock; `None` if the transaction stands in its queue.
#[inline]
fn take(
    tx: &mut Transaction,
    cell: &Arc<PartitionCell>,
    mode: Mode,
    limits: &WaitLimits<'_>,
    wait: LockWait,
) -> std::result::Result<Option<LockHandle>, LockError> {
    match wait {
        LockWait::Blocks => tx.lock(cell, mode, limits).map(Some),
        LockWait::Suspends => tx.ask(cell, mode, limits),
    }
}

/// Takes the locks that `set.needs` name, in order of partition id, the stronger first. False if the
/// transaction stands in the queue of one of them.
pub(crate) fn lock_needs(
    tx: &mut Transaction,
    tables: &[Arc<Table>],
    set: &mut LockSet,
    limits: &WaitLimits<'_>,
    wait: LockWait,
) -> Result<bool> {
    let LockSet { needs, locks } = set;
    if let [Need { table, partition: Some(partition), mode }] = needs[..] {
        let cell = &tables[table].cells[partition as usize];
        let locked = take(tx, cell, mode, limits, wait);
        let locked = locked.map_err(|error| lock_errors::of_table(error, &tables[table]))?;
        let Some(handle) = locked else { return Ok(false) };
        locks.set_only(table, partition, handle);
        return Ok(true);
    }
    locks.reset(tables);
    let at = |need: &Need| {
        let partition = need.partition.expect("spread out") as usize;
        (tables[need.table].cells[partition].id, need.mode == Mode::Shared)
    };
    if needs.iter().any(|need| need.partition.is_none()) {
        spread(tables, needs);
    }
    if needs.len() > 1 {
        needs.sort_unstable_by_key(at);
    }
    for need in needs.iter() {
        let partition = need.partition.expect("spread out");
        let cell = &tables[need.table].cells[partition as usize];
        let locked = take(tx, cell, need.mode, limits, wait);
        let locked = locked.map_err(|error| lock_errors::of_table(error, &tables[need.table]))?;
        let Some(handle) = locked else { return Ok(false) };
        locks.set(need.table, partition, handle);
    }
    Ok(true)
}

/// Replaces needs of whole tables by needs of each of their partitions.
fn spread(tables: &[Arc<Table>], needs: &mut Vec<Need>) {
    for at in 0..needs.len() {
        let need = needs[at];
        if need.partition.is_none() {
            let count = tables[need.table].cells.len() as u32;
            needs[at].partition = Some(0);
            needs.extend((1..count).map(|partition| Need { partition: Some(partition), ..need }));
        }
    }
}
