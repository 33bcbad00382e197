//! Transactions of a session: the one in which a statement runs, and the block from BEGIN to
//! COMMIT, with its modes, private catalog, snapshot and savepoints.

use std::sync::Arc;

use halcyon_catalog::Catalog;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::utility::Modes;
use halcyon_txn::{Isolation, Savepoint, Transaction};

use crate::acquire::Snapshot;
use crate::deferral::Deferrals;
use crate::settings::Settings;

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The transaction may read and write.
    ReadWrite,
    /// The transaction reads a snapshot and takes no lock.
    ReadOnly,
}

/// A transaction in the form that its statements need: a statement's own, or that of a block.
pub(crate) struct Work {
    pub tx: Transaction,
    /// The catalog with this transaction's changes, if it has made any.
    pub catalog: Option<Arc<Catalog>>,
    /// Start in microseconds since 1970; 0 until it is first read.
    pub started_us: i64,
}

impl Work {
    pub fn new(tx: Transaction) -> Self {
        Work { tx, catalog: None, started_us: 0 }
    }
}

/// A transaction block in progress. Whether the block has failed is in the session's entry, where a
/// result that is read on another thread finds it ([`crate::activity::SessionEntry::has_failed`]).
pub(crate) struct Block {
    pub work: Work,
    pub modes: Modes,
    /// Whether a statement has run, after which the modes are fixed.
    pub used: bool,
    /// Whether no BEGIN began it: it spans the statements of one message.
    pub implicit: bool,
    /// Whether it was made READ ONLY after it had read under locks.
    pub refuses_writes: bool,
    /// The snapshot of a READ ONLY transaction, once it has read something.
    pub snapshot: Option<Snapshot>,
    savepoints: Vec<Named>,
    /// Constraints that wait to be judged.
    pub deferrals: Deferrals,
    /// Settings to return to on rollback. `None` while nothing was set.
    pub settings_before: Option<Settings>,
    /// Settings as SET LOCAL found them, to return to in any case: (name, value, or `None` for the
    /// default).
    pub local: Vec<(String, Option<String>)>,
    /// The roles to return to.
    pub roles: RolesBefore,
}

/// The roles that SET ROLE and SET LOCAL ROLE of a block have replaced.
#[derive(Clone, Default)]
pub(crate) struct RolesBefore {
    /// The role to return to on rollback. `None` while none was set.
    pub rollback: Option<String>,
    /// The role to return to on commit, if the present one was set by SET LOCAL ROLE.
    pub commit: Option<String>,
}

impl RolesBefore {
    /// Notes that `role` is replaced, by SET LOCAL ROLE if `local`.
    pub fn note(&mut self, role: &str, local: bool) {
        self.rollback.get_or_insert_with(|| role.to_owned());
        match local {
            true => drop(self.commit.get_or_insert_with(|| role.to_owned())),
            false => self.commit = None,
        }
    }
}

/// A savepoint with its name, and the private catalog at its time.
struct Named {
    name: String,
    at: Savepoint,
    catalog: Option<Arc<Catalog>>,
    /// Number of the transaction's wishes at its time ([`crate::signals`]).
    wishes: usize,
    deferrals: Deferrals,
    /// The role at its time, and the roles that had been replaced.
    role: String,
    roles: RolesBefore,
    refuses_writes: bool,
}

/// What the session returns to after ROLLBACK TO SAVEPOINT.
pub(crate) struct ReturnTo {
    /// How many wishes the transaction had.
    pub wishes: usize,
    /// The role.
    pub role: String,
}

impl Block {
    pub fn new(work: Work, modes: Modes) -> Self {
        Block {
            work,
            modes,
            used: false,
            implicit: false,
            refuses_writes: false,
            snapshot: None,
            savepoints: Vec::new(),
            deferrals: Deferrals::default(),
            settings_before: None,
            local: Vec::new(),
            roles: RolesBefore::default(),
        }
    }

    /// Whether its statements read a snapshot.
    pub fn reads_snapshot(&self) -> bool {
        self.modes.read_only == Some(true)
    }

    /// Whether it may only read.
    pub fn read_only(&self) -> bool {
        self.reads_snapshot() || self.refuses_writes
    }

    /// Whether modes that concern its locks can change no more.
    pub fn is_under_way(&self) -> bool {
        self.used || !self.savepoints.is_empty()
    }

    pub fn isolation(&self) -> Isolation {
        self.modes.isolation.unwrap_or(Isolation::Serializable)
    }

    /// The catalog against which the block's statements are bound, if it is not the published one.
    pub fn catalog(&self) -> Option<&Arc<Catalog>> {
        let of_snapshot = || self.snapshot.as_ref().map(|snapshot| &snapshot.catalog);
        self.work.catalog.as_ref().or_else(of_snapshot)
    }

    /// Undoes everything and gives all locks back, unless there are savepoints to return to. Whether it did.
    ///
    /// For a block that has failed, between statements: it stays until its client ends it.
    pub fn gives_up(&mut self) -> bool {
        if !self.savepoints.is_empty() {
            return false;
        }
        self.work.tx.give_up();
        self.work.catalog = None;
        self.deferrals = Deferrals::default();
        true
    }

    pub fn savepoint(&mut self, name: &str, wishes: usize, role: &str) {
        self.work.tx.begin_statement();
        let at = self.work.tx.savepoint();
        self.work.tx.end_statement();
        let catalog = self.work.catalog.clone();
        let (name, deferrals) = (name.to_owned(), self.deferrals.clone());
        let (role, roles) = (role.to_owned(), self.roles.clone());
        let refuses_writes = self.refuses_writes;
        self.savepoints.push(Named {
            name,
            at,
            catalog,
            wishes,
            deferrals,
            role,
            roles,
            refuses_writes,
        });
    }

    /// Undoes everything since the savepoint `name`, which stays. Returns what the session has to
    /// return to.
    ///
    /// Errors: 3B001 if there is no savepoint of that name.
    pub fn rollback_to(&mut self, name: &str) -> Result<ReturnTo> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        let savepoint = &self.savepoints[at];
        self.work.tx.begin_statement();
        self.work.tx.rollback_to(savepoint.at);
        self.work.tx.end_statement();
        self.work.catalog = savepoint.catalog.clone();
        if let Some(catalog) = &self.work.catalog {
            catalog.register_own_types();
        }
        self.deferrals = savepoint.deferrals.clone();
        self.roles = savepoint.roles.clone();
        self.refuses_writes = savepoint.refuses_writes;
        Ok(ReturnTo { wishes: savepoint.wishes, role: savepoint.role.clone() })
    }

    /// Removes the savepoint `name` and those after it.
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
