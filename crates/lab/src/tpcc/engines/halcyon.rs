//! Halcyon through its public crate: a session per client, statements prepared once.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use halcyon::{Access, Database, DatabaseOptions, Isolation, RowSet, Session, Statement, Value};

use super::{Client, Content, Engine};
use crate::tpcc::consistency;
use crate::tpcc::input::Input;
use crate::tpcc::load::populate;
use crate::tpcc::random::Scale;
use crate::tpcc::schema::{Dialect, Table, statements};
use crate::tpcc::sql::Sql;
use crate::tpcc::transactions::{self, Connection, Ended};
use crate::tpcc::views;
use crate::tpcc::{Conflict, Done, Durability, LOCK_WAIT_MAX, Trouble};
use crate::{Failure, Result};

/// How the database is set up and used.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Partitions of every table but `item`.
    pub partitions: u32,
    /// Of every transaction.
    pub isolation: Isolation,
    /// Whether transactions that only read are declared so, and read a snapshot without locks.
    pub snapshot_reads: bool,
    /// Whether a transaction is a program that takes its locks first.
    pub one_shot: bool,
    /// Whether every access to segments and indexes takes a latch.
    pub latches: bool,
    /// Whether there are views over the tables.
    pub views: bool,
    /// When a commit is on disk; the database is in a temporary folder if it ever is.
    pub durability: Durability,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            partitions: 1,
            isolation: Isolation::Serializable,
            snapshot_reads: false,
            one_shot: false,
            latches: false,
            views: false,
            durability: Durability::Off,
        }
    }
}

/// A database with the tables.
pub struct Halcyon {
    database: Database,
    /// Removed after the database.
    _folder: Option<Folder>,
    scale: Scale,
    setup: Setup,
}

/// A folder for a database, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("halcyon-tpcc-data-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm in a temporary place.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A loader of rows, a hundred thousand per transaction.
pub struct Loading {
    session: Session,
    inserts: Vec<Statement>,
    rows: usize,
}

impl Halcyon {
    /// Empty tables.
    pub fn new(scale: Scale, setup: Setup) -> Result<Self> {
        let options = DatabaseOptions { latches: setup.latches, ..DatabaseOptions::default() };
        let (database, folder) = match setup.durability {
            Durability::Off => (Database::with_options(options), None),
            Durability::Async | Durability::Sync => {
                let folder = Folder::new()?;
                (Database::open_with(&folder.0, options, &|_| ())?, Some(folder))
            }
        };
        let mut session = database.session();
        for text in statements(Dialect::Halcyon { partitions: setup.partitions }) {
            session.execute(text.as_str(), &[])?;
        }
        Ok(Halcyon { database, _folder: folder, scale, setup })
    }

    /// The tables with their content.
    pub fn loaded(content: Content, setup: Setup) -> Result<Self> {
        let mut engine = Halcyon::new(content.scale, setup)?;
        let mut loading = engine.loading()?;
        populate(content.scale, content.seed, &mut |table, values| loading.row(table, values))?;
        loading.finish()?;
        if setup.views {
            views::create(&mut engine.database.session())?;
        }
        Ok(engine)
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Begins to load rows.
    pub fn loading(&mut self) -> Result<Loading> {
        let mut session = self.database.session();
        let prepare = |table: Table| session.prepare(&table.insert());
        let inserts = Table::ALL.map(prepare).into_iter().collect::<Result<_, _>>()?;
        session.begin(Isolation::Serializable, Access::ReadWrite)?;
        Ok(Loading { session, inserts, rows: 0 })
    }

    /// Runs one statement; how many rows it changed.
    #[cfg(test)]
    pub fn change(&self, text: &str) -> Result<u64> {
        Ok(self.database.session().execute(text, &[])?)
    }
}

impl Loading {
    /// Adds a row to a table.
    pub fn row(&mut self, table: Table, values: &[Value]) -> Result<()> {
        self.session.execute(&self.inserts[table as usize], values)?;
        self.rows += 1;
        if self.rows.is_multiple_of(100_000) {
            self.session.commit()?;
            self.session.begin(Isolation::Serializable, Access::ReadWrite)?;
        }
        Ok(())
    }

    /// Commits the rest.
    pub fn finish(mut self) -> Result<()> {
        Ok(self.session.commit()?)
    }
}

impl Engine for Halcyon {
    fn client(&self) -> Result<Box<dyn Client>> {
        let mut session = self.database.session();
        session.set("lock_timeout", &format!("{}ms", LOCK_WAIT_MAX.as_millis()))?;
        let synchronous = if self.setup.durability == Durability::Sync { "on" } else { "off" };
        session.set("synchronous_commit", synchronous)?;
        let prepare = |sql: Sql| session.prepare(&sql.text());
        let statements = Sql::all().map(prepare).collect::<Result<_, _>>()?;
        let locks = Locks::prepare(&mut session)?;
        let hand = Hand { session, statements, locks, rows: RowSet::default(), setup: self.setup };
        Ok(Box::new(hand))
    }

    fn broken_meanwhile(&self) -> Result<Option<String>> {
        if self.setup.views { views::broken(&self.database) } else { Ok(None) }
    }

    fn broken(&self) -> Result<Option<String>> {
        if let Some(broken) = self.broken_meanwhile()? {
            return Ok(Some(broken));
        }
        let mut session = self.database.session();
        consistency::broken(self.scale, &mut |text| {
            let mut rows = session.query(text, &[])?;
            let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("no count".into()))?;
            Ok(row.get(0)?)
        })
    }
}

/// The locks that a program takes before it begins, by type of transaction.
struct Locks {
    statements: Vec<Vec<Statement>>,
}

impl Locks {
    /// Prepares the locks, on tables in order of creation. A transaction locks only tables that it
    /// is sure to touch.
    fn prepare(session: &mut Session) -> Result<Self> {
        let texts: [&[&str]; transactions::TYPES] = [
            &[
                "LOCK TABLE item, warehouse IN SHARE MODE",
                "LOCK TABLE district IN EXCLUSIVE MODE",
                "LOCK TABLE customer IN SHARE MODE",
                "LOCK TABLE new_order, orders, stock, order_line IN EXCLUSIVE MODE",
            ],
            &["LOCK TABLE warehouse, district, customer, history IN EXCLUSIVE MODE"],
            &["LOCK TABLE customer, orders, order_line IN SHARE MODE"],
            &["LOCK TABLE customer, new_order, orders, order_line IN EXCLUSIVE MODE"],
            &["LOCK TABLE district, stock, order_line IN SHARE MODE"],
        ];
        let mut all = Vec::new();
        for texts in texts {
            let prepare = |text: &&str| session.prepare(text);
            all.push(texts.iter().map(prepare).collect::<Result<_, _>>()?);
        }
        Ok(Locks { statements: all })
    }
}

/// A session and its statements.
struct Hand {
    session: Session,
    statements: Vec<Statement>,
    locks: Locks,
    rows: RowSet,
    setup: Setup,
}

impl Client for Hand {
    fn run(&mut self, input: &Input) -> Done<Ended> {
        transactions::run(self, input)
    }
}

impl Connection for Hand {
    const TABLE_LOCKS: bool = true;

    fn begin(&mut self, input: &Input) -> Done<()> {
        let snapshot = self.setup.snapshot_reads && input.kind().only_reads();
        let access = if snapshot { Access::ReadOnly } else { Access::ReadWrite };
        self.session.begin(self.setup.isolation, access)?;
        if self.setup.one_shot {
            for lock in &self.locks.statements[input.kind() as usize] {
                self.session.execute(lock, &[])?;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Done<()> {
        Ok(self.session.commit()?)
    }

    fn rollback(&mut self) -> Done<()> {
        Ok(self.session.rollback()?)
    }

    fn query(&mut self, sql: Sql, params: &[Value]) -> Done<&RowSet> {
        self.session.query_into(&self.statements[sql.number()], params, &mut self.rows)?;
        Ok(&self.rows)
    }

    fn execute(&mut self, sql: Sql, params: &[Value]) -> Done<u64> {
        Ok(self.session.execute(&self.statements[sql.number()], params)?)
    }
}

impl From<halcyon::SqlError> for Trouble {
    fn from(error: halcyon::SqlError) -> Self {
        use halcyon::SqlState;
        let conflict = match error.state() {
            SqlState::DEADLOCK_DETECTED => Conflict::Deadlock,
            SqlState::SERIALIZATION_FAILURE => Conflict::Serialization,
            SqlState::LOCK_NOT_AVAILABLE => Conflict::LockWait,
            _ => return Trouble::Failed(error.into()),
        };
        Trouble::Conflict(conflict)
    }
}
