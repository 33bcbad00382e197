//! What the running engine tells the system views: everything the catalog does not hold.

use std::borrow::Cow;

use halcyon_store::Partition;

use halcyon_query::catalog::Table;

/// The engine's state, asked when a system view is read.
///
/// Times are microseconds since 1970-01-01 UTC. Calls may take latches for a moment but do not
/// wait for transactions.
pub trait Live: Send + Sync {
    /// Text of `version()`.
    fn version(&self) -> String;
    /// When the engine started.
    fn started_us(&self) -> i64;
    /// Open sessions.
    fn sessions(&self) -> Vec<SessionRow>;
    /// Statements of the cache with their counters.
    fn statements(&self) -> Vec<StatementRow>;
    /// Partition locks, held and awaited.
    fn locks(&self) -> Vec<LockRow>;
    /// Transactions under way.
    fn transactions(&self) -> Vec<TransactionRow>;
    /// The redo log; `None` for a database that lives in memory alone.
    fn log(&self) -> Option<LogRow>;
    /// Settings as the asking session has them.
    fn settings(&self) -> Vec<SettingRow>;
    /// Roots of a table's partitions as last committed, in partition order.
    fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>>;
}

/// A session.
#[derive(Clone, Debug, Default)]
pub struct SessionRow {
    /// Its number, also the backend's process id for clients.
    pub id: u32,
    /// Role it acts for.
    pub user: String,
    /// As set by the client.
    pub application: String,
    /// Address of the client; `None` when embedded.
    pub client: Option<String>,
    /// What it does now.
    pub state: SessionState,
    /// Last or running statement.
    pub statement: Option<String>,
    /// When it began.
    pub started_us: i64,
    /// When its transaction began, if it has one.
    pub transaction_us: Option<i64>,
    /// When its last or running statement began.
    pub statement_us: Option<i64>,
    /// Its transaction, if it has one.
    pub transaction: Option<u64>,
}

/// What a session does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionState {
    /// Runs a statement.
    Active,
    /// Waits for its client.
    #[default]
    Idle,
    /// Waits for its client within a transaction.
    IdleInTransaction,
    /// Waits for its client within a transaction that failed.
    Failed,
    /// Waits for a partition lock.
    Waiting,
    /// Waits for the disk: what it is about to be told is not durable yet.
    Syncing,
}

impl SessionState {
    /// As `pg_stat_activity.state` spells it; a waiting statement is an active one.
    pub fn name(self) -> &'static str {
        match self {
            SessionState::Active | SessionState::Waiting | SessionState::Syncing => "active",
            SessionState::Idle => "idle",
            SessionState::IdleInTransaction => "idle in transaction",
            SessionState::Failed => "idle in transaction (aborted)",
        }
    }
}

/// A statement of the cache. Times are nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct StatementRow {
    /// Its text.
    pub text: String,
    /// Which executor runs it: `point`, `analytical`, `write`, ….
    pub executor: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// Time of all runs together.
    pub total_ns: u64,
    /// Time of the longest run.
    pub max_ns: u64,
    /// Rows given or changed, all runs together.
    pub rows: u64,
    /// Runs that ended in an error.
    pub errors: u64,
}

/// A lock on a partition, held or awaited.
#[derive(Clone, Debug, Default)]
pub struct LockRow {
    /// The partition.
    pub partition: u32,
    /// The transaction that holds or awaits it.
    pub transaction: u64,
    /// Its session.
    pub session: u32,
    /// Exclusive or shared.
    pub exclusive: bool,
    /// Held or awaited.
    pub granted: bool,
}

/// The redo log.
#[derive(Clone, Debug, Default)]
pub struct LogRow {
    /// Where the next record goes.
    pub end: String,
    /// Everything before is durable.
    pub durable: String,
    /// Where the last checkpoint's cut was.
    pub checkpoint: String,
    /// Bytes of the log behind that.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
    /// Commits since the start.
    pub commits: u64,
    /// How often a batch of them was written and synced.
    pub syncs: u64,
    /// Time that took, in milliseconds.
    pub sync_ms: f64,
    /// When the last checkpoint of this process was done.
    pub checkpoint_us: Option<i64>,
    /// Why no commits are taken, if that is so.
    pub error: Option<String>,
}

/// A transaction under way.
#[derive(Clone, Debug, Default)]
pub struct TransactionRow {
    /// Its number.
    pub id: u64,
    /// Its session.
    pub session: u32,
    /// Isolation level as SQL spells it.
    pub isolation: &'static str,
    /// READ ONLY.
    pub read_only: bool,
    /// When it began.
    pub started_us: i64,
    /// Undo records it holds.
    pub undo_records: u64,
    /// Locks it holds.
    pub locks: u64,
}

/// A setting, as SHOW ALL, `pg_settings` and `halcyon.settings` list it.
#[derive(Clone, Debug, Default)]
pub struct SettingRow {
    /// Name.
    pub name: Cow<'static, str>,
    /// Value as SHOW prints it.
    pub value: String,
    /// Value as a number of `unit`s, for what has a unit.
    pub number: String,
    /// Value without SET or ALTER SYSTEM.
    pub default: String,
    /// The default as a number of `unit`s.
    pub default_number: String,
    /// Unit of a bare number.
    pub unit: Option<&'static str>,
    /// What it is for.
    pub description: &'static str,
    /// Heading in `pg_settings`.
    pub category: &'static str,
    /// Whose it is: `session`, `transaction`, `database` or `read-only`.
    pub scope: &'static str,
    /// Who may set it when, as `pg_settings.context` spells it.
    pub context: &'static str,
    /// Whence the value is, as `pg_settings.source` spells it.
    pub source: &'static str,
    /// `bool`, `integer`, `string` or `enum`.
    pub kind: &'static str,
    /// Least value.
    pub least: Option<String>,
    /// Greatest value.
    pub most: Option<String>,
    /// Values of an enumeration.
    pub words: Vec<&'static str>,
}
