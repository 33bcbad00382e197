//! The transaction a session is in: its modes, private catalog, snapshot and savepoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halcyon_base::ids::PartitionId;
use halcyon_query::catalog::{Catalog, Table};
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::utility::Modes;
use halcyon_store::Partition;
use halcyon_txn::{Isolation, Savepoint, Transaction};

use crate::session::Session;
use crate::settings::Settings;

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may.
    ReadWrite,
    /// It reads a snapshot and takes no lock.
    ReadOnly,
}

/// A transaction in progress.
pub(crate) struct Active {
    pub tx: Transaction,
    pub modes: Modes,
    /// An error happened: only ROLLBACK (TO) helps.
    pub failed: bool,
    /// Set when rows that arrive as they are read end in an error. None before there are any.
    pub rows_failed: Option<Arc<AtomicBool>>,
    /// Any statement ran yet, after which the modes are fixed.
    pub used: bool,
    /// The catalog with this transaction's changes, if it made any.
    pub catalog: Option<Arc<Catalog>>,
    /// What a READ ONLY transaction reads.
    pub snapshot: Option<Snapshot>,
    pub savepoints: Vec<Named>,
    /// Settings to return to if it is rolled back, and those to return to in any case (before
    /// the first SET LOCAL). None while nothing was set.
    pub settings_before: Option<Settings>,
    /// Settings as SET LOCAL found them: (name, value or default).
    pub local: Vec<(String, Option<String>)>,
    /// Start in microseconds since 1970; 0 until somebody asks.
    pub started_us: i64,
}

/// A savepoint with its name, and the private catalog then.
pub(crate) struct Named {
    pub name: String,
    pub at: Savepoint,
    pub catalog: Option<Arc<Catalog>>,
}

/// Every partition at one cut, with the catalog that names them.
pub(crate) struct Snapshot {
    pub catalog: Arc<Catalog>,
    /// In order of partition id.
    pub roots: Vec<(PartitionId, triomphe::Arc<Partition>)>,
}

impl Snapshot {
    /// The roots of `tables`, by table and partition number.
    pub fn roots_of(&self, tables: &[Arc<Table>]) -> Vec<Vec<triomphe::Arc<Partition>>> {
        let root = |id: PartitionId| {
            let at = self.roots.binary_search_by_key(&id, |(id, _)| *id);
            self.roots[at.expect("the snapshot holds every partition of its catalog")].1.clone()
        };
        tables.iter().map(|table| table.cells.iter().map(|cell| root(cell.id)).collect()).collect()
    }
}

impl Active {
    pub fn new(tx: Transaction, modes: Modes) -> Self {
        Active {
            tx,
            modes,
            failed: false,
            rows_failed: None,
            used: false,
            catalog: None,
            snapshot: None,
            savepoints: Vec::new(),
            settings_before: None,
            local: Vec::new(),
            started_us: 0,
        }
    }

    /// Whether it can only be rolled back.
    pub fn is_failed(&self) -> bool {
        self.failed
            || self.rows_failed.as_ref().is_some_and(|failed| failed.load(Ordering::Relaxed))
    }

    pub fn read_only(&self) -> bool {
        self.modes.read_only == Some(true)
    }

    pub fn isolation(&self) -> Isolation {
        self.modes.isolation.unwrap_or(Isolation::Serializable)
    }

    pub fn savepoint(&mut self, name: &str) {
        self.tx.begin_statement();
        let at = self.tx.savepoint();
        self.tx.end_statement();
        let catalog = self.catalog.clone();
        self.savepoints.push(Named { name: name.to_owned(), at, catalog });
    }

    /// Undoes everything since the savepoint `name`, which stays.
    ///
    /// Errors: 3B001 if there is none of that name.
    pub fn rollback_to(&mut self, name: &str) -> Result<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.tx.begin_statement();
        self.tx.rollback_to(savepoint.at);
        self.tx.end_statement();
        self.catalog = savepoint.catalog.clone();
        self.failed = false;
        self.rows_failed = None;
        Ok(())
    }

    /// Forgets the savepoint `name` and those after it.
    pub fn release(&mut self, name: &str) -> Result<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_SAVEPOINT_SPECIFICATION,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }
}

impl Session {
    /// Runs `work` in a transaction, commits, and begins again if it fell victim to others.
    ///
    /// `work` may run several times: it must not have effects outside the database. Retries on
    /// 40001 and 40P01 with growing pauses. Errors: those of `work`; the transaction is undone.
    pub fn transaction<T>(&mut self, mut work: impl FnMut(&mut Session) -> Result<T>) -> Result<T> {
        let mut pause_us = 20;
        loop {
            self.begin(Isolation::Serializable, Access::ReadWrite)?;
            let done = work(self).and_then(|value| self.commit().map(|()| value));
            match done {
                Ok(value) => return Ok(value),
                Err(error) => {
                    self.rollback_if_active();
                    let retry = [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED];
                    if !retry.contains(&error.state()) {
                        return Err(error);
                    }
                }
            }
            std::thread::sleep(std::time::Duration::from_micros(self.jitter(pause_us)));
            pause_us = (pause_us * 2).min(20_000);
        }
    }
}
