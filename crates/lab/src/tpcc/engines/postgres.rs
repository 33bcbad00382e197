//! PostgreSQL on a socket in a temporary folder: started for the arm, thrown away after it.
//!
//! Nothing of it need be on disk when a commit is acknowledged (`synchronous_commit`, `fsync` and
//! `full_page_writes` are off), as nothing is of Halcyon's in memory. Clients talk to it over a
//! Unix socket with prepared statements in binary form; money is in whole cents, since its
//! NUMERIC would be a handicap. It will not run as root: then it runs as the user `postgres`.

use std::error::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use halcyon::{RowSet, Value, ValueRef};
use tokio::runtime::Runtime;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client as Pg, Config, NoTls, Row, Statement};

use super::{Client, Content, Engine};
use crate::tpcc::consistency;
use crate::tpcc::input::Input;
use crate::tpcc::random::Scale;
use crate::tpcc::schema::{Dialect, Table, statements};
use crate::tpcc::sql::Sql;
use crate::tpcc::transactions::{self, Connection, Ended};
use crate::tpcc::{Conflict, Done, Trouble};
use crate::{Failure, Result};

const USER: &str = "halcyon";

/// Where Debian and its kin put the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(|path| number(path))?;
    let folder = newest.join("bin");
    folder.join("initdb").exists().then_some(folder)
}

/// What keeps PostgreSQL from running here, with the command that helps.
pub fn missing() -> Option<String> {
    programs().is_none().then(|| {
        "needs /usr/lib/postgresql/*/bin/initdb (Debian: apt-get install postgresql)".to_owned()
    })
}

/// A server, stopped and removed when dropped.
struct Server {
    process: Child,
    folder: PathBuf,
    programs: PathBuf,
}

/// A database of PostgreSQL's.
pub struct Postgres {
    server: Server,
    scale: Scale,
    serializable: bool,
}

/// The owner of `/proc/self` is who we are.
fn we_are_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A program of PostgreSQL's, as a user it accepts.
fn program(programs: &Path, name: &str) -> Command {
    let path = programs.join(name);
    if !we_are_root() {
        return Command::new(path);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(path);
    command
}

impl Server {
    fn start() -> Result<Self> {
        let programs = programs().ok_or_else(|| Failure::Engine("no PostgreSQL here".into()))?;
        let folder = std::env::temp_dir().join(format!("halcyon-pg-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        if we_are_root() {
            let (user, group) = user_postgres()?;
            chown(&folder, Some(user), Some(group))?;
        }
        let data = folder.join("data");
        let mut make = program(&programs, "initdb");
        make.args(["--no-sync", "--auth=trust", "--locale=C", "--encoding=UTF8", "-U", USER]);
        let made = make.arg("-D").arg(&data).current_dir(&folder).stdout(Stdio::null()).status()?;
        if !made.success() {
            return Err(Failure::Engine("initdb failed".into()));
        }
        let mut run = program(&programs, "postgres");
        run.arg("-D").arg(&data).arg("-k").arg(&folder).current_dir(&folder);
        for setting in [
            "listen_addresses=",
            "max_connections=300",
            "shared_buffers=4GB",
            "synchronous_commit=off",
            "fsync=off",
            "full_page_writes=off",
            "max_wal_size=8GB",
            "jit=off",
        ] {
            run.args(["-c", setting]);
        }
        let process = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Server { process, folder, programs })
    }

    /// A connection, once the server listens; within half a minute.
    fn connect(&self) -> Result<(Runtime, Pg)> {
        // One thread for the connection and its client: what a program does that only waits.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut config = Config::new();
        config.host_path(&self.folder).user(USER).dbname("postgres");
        let since = Instant::now();
        let (client, connection) = loop {
            match runtime.block_on(config.connect(NoTls)) {
                Ok(connected) => break connected,
                Err(error) if since.elapsed() > Duration::from_secs(30) => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        runtime.spawn(connection);
        Ok((runtime, client))
    }
}

/// Numbers of the user that Debian's package makes.
fn user_postgres() -> Result<(u32, u32)> {
    let missing =
        || Failure::Engine("PostgreSQL does not run as root, nor is there a user postgres".into());
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:")).ok_or_else(missing)?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(user)), Some(Ok(group))) => Ok((user, group)),
        _ => Err(missing()),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = program(&self.programs, "pg_ctl");
        stop.args(["stop", "--mode=immediate", "--silent", "-D"]).arg(self.folder.join("data"));
        // Nothing is to be kept, and nobody left to tell: what cannot be stopped is killed.
        let stopped = stop.current_dir("/").stdout(Stdio::null()).status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Postgres {
    /// The tables with what `folder` holds of them: a file of rows per table.
    pub fn loaded(content: Content, folder: &Path, serializable: bool) -> Result<Self> {
        let server = Server::start()?;
        let (runtime, client) = server.connect()?;
        let copy = |table: Table| {
            let file = folder.join(format!("{}.tsv", table.name()));
            format!("COPY {} FROM '{}'", table.name(), file.display())
        };
        let texts = statements(Dialect::Integers).into_iter().chain(Table::ALL.map(copy));
        for text in texts.chain(["VACUUM ANALYZE".into(), "CHECKPOINT".into()]) {
            runtime.block_on(client.batch_execute(&text))?;
        }
        Ok(Postgres { server, scale: content.scale, serializable })
    }
}

impl Engine for Postgres {
    fn client(&self) -> Result<Box<dyn Client>> {
        let (runtime, client) = self.server.connect()?;
        let mut statements = Vec::new();
        for sql in Sql::all() {
            // Its sums of BIGINT are NUMERIC.
            let text = sql.text().replace("sum(ol_amount)", "sum(ol_amount)::BIGINT");
            statements.push(runtime.block_on(client.prepare(&text))?);
        }
        let begin = match self.serializable {
            true => "BEGIN ISOLATION LEVEL SERIALIZABLE",
            false => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        Ok(Box::new(Hand { runtime, client, statements, begin, rows: RowSet::default() }))
    }

    fn broken(&self) -> Result<Option<String>> {
        let (runtime, client) = self.server.connect()?;
        consistency::broken(self.scale, &mut |text| {
            Ok(runtime.block_on(client.query_one(text, &[]))?.try_get(0)?)
        })
    }
}

struct Hand {
    runtime: Runtime,
    client: Pg,
    statements: Vec<Statement>,
    begin: &'static str,
    rows: RowSet,
}

impl Client for Hand {
    fn run(&mut self, input: &Input) -> Done<Ended> {
        transactions::run(self, input)
    }
}

/// A value as PostgreSQL takes it.
#[derive(Debug)]
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Int32(value) => value.to_sql(ty, out),
            Value::Timestamp(value) => value.to_sql(ty, out),
            Value::Decimal(value) => (*value as i64).to_sql(ty, out),
            Value::Text(value) => value.to_sql(ty, out),
            other => unreachable!("TPC-C has no {other:?}"),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::VARCHAR, Type::TEXT].contains(ty)
    }

    to_sql_checked!();
}

/// The cells of a row, for as long as it lives.
fn cell(row: &Row, column: usize) -> ValueRef<'_> {
    let ty = row.columns()[column].type_();
    let value = match *ty {
        Type::INT4 => row.get::<_, Option<i32>>(column).map(ValueRef::Int32),
        Type::INT8 => row.get::<_, Option<i64>>(column).map(ValueRef::Int64),
        _ => row.get::<_, Option<&str>>(column).map(ValueRef::Text),
    };
    value.unwrap_or(ValueRef::Null)
}

impl Connection for Hand {
    const TABLE_LOCKS: bool = false;

    fn begin(&mut self, _input: &Input) -> Done<()> {
        Ok(self.runtime.block_on(self.client.batch_execute(self.begin))?)
    }

    fn commit(&mut self) -> Done<()> {
        Ok(self.runtime.block_on(self.client.batch_execute("COMMIT"))?)
    }

    fn rollback(&mut self) -> Done<()> {
        Ok(self.runtime.block_on(self.client.batch_execute("ROLLBACK"))?)
    }

    fn query(&mut self, sql: Sql, params: &[Value]) -> Done<&RowSet> {
        let bound: Vec<Bound<'_>> = params.iter().map(Bound).collect();
        let params: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let statement = &self.statements[sql.number()];
        let rows = self.runtime.block_on(self.client.query(statement, &params))?;
        self.rows.reset(statement.columns().len());
        for row in &rows {
            self.rows.push_row((0..row.len()).map(|column| cell(row, column)));
        }
        Ok(&self.rows)
    }

    fn execute(&mut self, sql: Sql, params: &[Value]) -> Done<u64> {
        let bound: Vec<Bound<'_>> = params.iter().map(Bound).collect();
        let params: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let statement = &self.statements[sql.number()];
        Ok(self.runtime.block_on(self.client.execute(statement, &params))?)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let detail = error.as_db_error().map(|error| format!(": {error}")).unwrap_or_default();
        Failure::Engine(format!("{error}{detail}"))
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code().map(|code| code.code()) {
            Some("40001") => Trouble::Conflict(Conflict::Serialization),
            Some("40P01") => Trouble::Conflict(Conflict::Deadlock),
            _ => Trouble::Failed(error.into()),
        }
    }
}
