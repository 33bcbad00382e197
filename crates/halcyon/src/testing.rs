//! Access below the public interface for the tests of this repository. Compiled with the feature
//! `testing` only, which programs do not use: nothing here is promised.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use halcyon_base::ids::{PartitionId, RowId};
use halcyon_catalog::Catalog;
use halcyon_sql::error::Result;
use halcyon_store::{Partition, RowRef, Value};
use halcyon_txn::{CancelToken, LogOptions, WaitLimits, cut};

pub use halcyon_txn::{File, Storage};

use crate::database::Database;
use crate::durable;
use crate::options::DatabaseOptions;
use crate::statement::Statement;

thread_local! {
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Makes the next statement that this thread runs in a transaction block panic.
pub fn panic_in_next_statement() {
    PANICS.set(true);
}

pub(crate) fn panic_if_asked() {
    assert!(!PANICS.replace(false), "a test asked for this panic");
}

/// Opens a database as [`Database::open_with`] does, on a simulated disk: for tests of crashes.
pub fn open_on(
    storage: Arc<dyn Storage>,
    log_file_bytes: u64,
    options: DatabaseOptions,
) -> Result<Database> {
    let log = LogOptions { file_bytes: log_file_bytes, ..LogOptions::default() };
    Database::found(durable::open_on(storage, log, options.has_latches(), &|_| ())?, options)
}

/// The catalog as last published.
pub fn catalog(database: &Database) -> Arc<Catalog> {
    database.shared.catalog()
}

/// The workload class that a statement's hint names.
pub fn workload_class(statement: &Statement) -> Option<Arc<str>> {
    statement.prepared().subject().workload_class.clone()
}

/// Whether two statements run one plan.
pub fn share_a_plan(one: &Statement, other: &Statement) -> bool {
    Arc::ptr_eq(&one.prepared(), &other.prepared())
}

/// All rows of all partitions at one moment, with their ids, after a check of the invariants of
/// partitions and catalog: for tests that compare databases.
pub fn rows(database: &Database) -> BTreeMap<PartitionId, Vec<(RowId, Vec<Value>)>> {
    catalog(database).check();
    let rows = |root: &Partition| {
        root.check();
        let values = |row: RowRef<'_>| row.values().map(|value| value.to_owned()).collect();
        root.rows().map(|row| (row.id(), values(row))).collect()
    };
    roots(database).iter().map(|(id, root)| (*id, rows(root))).collect()
}

#[cfg(feature = "latches")]
/// Whether every partition is latched: for tests of experiments.
pub fn is_latched(database: &Database) -> bool {
    roots(database).values().all(|root| root.is_latched())
}

/// Panics unless the invariants of all views' engines hold.
pub fn check_views(database: &Database) {
    let catalog = catalog(database);
    catalog
        .tables
        .values()
        .filter_map(|t| t.materialized())
        .for_each(|view| view.maintained().check());
}

/// The roots of all partitions at one moment.
fn roots(database: &Database) -> BTreeMap<PartitionId, triomphe::Arc<Partition>> {
    let catalog = catalog(database);
    let cells: Vec<_> = catalog.tables.values().flat_map(|table| &table.cells).cloned().collect();
    let cancel = CancelToken::new();
    let limits = WaitLimits { timeout: None, cancel: &cancel };
    let roots = cut(&database.shared.manager, &cells, &limits).expect("nobody ends this wait");
    cells.iter().map(|cell| cell.id).zip(roots).collect()
}
