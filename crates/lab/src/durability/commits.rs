//! Commits per second, by engine and number of sessions.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use halcyon::{Database, IntoValue, Session, Statement};
use rusqlite::Connection;
use serde_json::json;
use tokio::runtime::Runtime;

use super::Options;
use crate::measure::{self, Rounds};
use crate::postgres::{self, Server};
use crate::{Arm, Failure, Reporter, Result};

/// Rows per session.
const ROWS: i64 = 1_000;
/// Approximate size of a one-row commit in the log, with its frame.
const RECORD_BYTES: usize = 64;
/// Linux's `O_DSYNC`, on all architectures that this runs on.
const O_DSYNC: i32 = 0o10000;
/// Length of the file for bare appends, which begin anew at its end.
const FILE_BYTES: usize = 16 << 20;

/// Settings of PostgreSQL: commits that are durable when they are acknowledged, and room.
const POSTGRES: [&str; 5] = [
    "fsync=on",
    "synchronous_commit=on",
    "wal_sync_method=fdatasync",
    "shared_buffers=256MB",
    "max_wal_size=4GB",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Fdatasync,
    Dsync,
    Sync,
    Async,
    Off,
    Sqlite,
    Postgres,
}

impl Engine {
    const ALL: [Engine; 7] = [
        Engine::Fdatasync,
        Engine::Dsync,
        Engine::Sync,
        Engine::Async,
        Engine::Off,
        Engine::Sqlite,
        Engine::Postgres,
    ];

    fn name(self) -> &'static str {
        match self {
            Engine::Fdatasync => "disk (fdatasync)",
            Engine::Dsync => "disk (O_DSYNC)",
            Engine::Sync => "halcyon sync",
            Engine::Async => "halcyon async",
            Engine::Off => "halcyon off",
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        }
    }

    fn is_disk(self) -> bool {
        matches!(self, Engine::Fdatasync | Engine::Dsync)
    }
}

/// An arm while it is being measured.
struct Measured {
    engine: Engine,
    folder: PathBuf,
    workers: Vec<Box<dyn Worker>>,
    /// The server of the workers, or the session that reports on Halcyon's log.
    server: Option<Server>,
    session: Option<Session>,
    rates: Rounds,
    done: u64,
    failure: Option<Failure>,
}

/// One session.
trait Worker: Send {
    /// Commits one transaction.
    fn commit(&mut self) -> Result<()>;
}

/// Runs all arms.
pub fn run(options: &Options, folder: &Path, reporter: &mut Reporter) -> Result<()> {
    let mut disk_rate = 0.0;
    let missing = postgres::missing();
    if let Some(missing) = &missing {
        reporter.progress(format_args!("postgres: left out, {missing}"));
    }
    for &sessions in &options.sessions {
        let mut arms = Vec::new();
        for engine in Engine::ALL {
            if engine == Engine::Postgres && missing.is_some() {
                continue;
            }
            // A second session at one file's end would be another experiment.
            if !engine.is_disk() || sessions == options.sessions[0] {
                arms.push(Measured::new(engine, sessions, folder)?);
            }
        }
        let time = measure::seconds(options.seconds / f64::from(options.rounds));
        for round in 0..options.rounds {
            reporter.progress(format_args!("{sessions} sessions, round {}", round + 1));
            for place in 0..arms.len() {
                let turn = (place + round as usize) % arms.len();
                arms[turn].round(time);
            }
        }
        for arm in &arms {
            if arm.engine.is_disk() {
                disk_rate = arm.rates.median().max(disk_rate);
            }
        }
        for arm in arms {
            reporter.arm(arm.report(options, sessions, disk_rate));
        }
    }
    Ok(())
}

impl Measured {
    fn new(engine: Engine, sessions: u32, folder: &Path) -> Result<Self> {
        let name = format!("{}-{sessions}", engine.name().replace(' ', "-"));
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let (mut server, mut session) = (None, None);
        let workers = match engine {
            Engine::Fdatasync | Engine::Dsync => {
                vec![Box::new(Appender::new(&folder, engine == Engine::Dsync)?) as Box<dyn Worker>]
            }
            Engine::Sync => {
                let database = Database::open(&folder)?;
                session = Some(database.session());
                halcyon(&database, sessions, "on")?
            }
            Engine::Async => halcyon(&Database::open(&folder)?, sessions, "off")?,
            Engine::Off => halcyon(&Database::in_memory(), sessions, "off")?,
            Engine::Sqlite => sqlite(&folder, sessions)?,
            Engine::Postgres => {
                let server = server.insert(Server::start(&folder, &POSTGRES)?);
                postgres_workers(server, sessions)?
            }
        };
        let rates = Rounds::default();
        Ok(Measured { engine, folder, workers, server, session, rates, done: 0, failure: None })
    }

    fn round(&mut self, time: Duration) {
        if self.failure.is_some() {
            return;
        }
        let barrier = Barrier::new(self.workers.len() + 1);
        // The time is from when all may begin to when the last has ended: the sum of each session's
        // own time would count the shared syncs more than once.
        let (results, took): (Vec<Result<u64>>, Duration) = std::thread::scope(|scope| {
            let running: Vec<_> = self
                .workers
                .iter_mut()
                .map(|worker| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        commit_for(worker.as_mut(), time)
                    })
                })
                .collect();
            let began = Instant::now();
            barrier.wait();
            let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
            (running.into_iter().map(join).collect(), began.elapsed())
        });
        let mut round = 0;
        for result in results {
            match result {
                Ok(done) => round += done,
                Err(failure) => self.failure = Some(failure),
            }
        }
        self.done += round;
        let rate = round as f64 / took.as_secs_f64();
        self.rates.push(rate);
    }

    fn report(mut self, options: &Options, sessions: u32, disk_rate: f64) -> Arm {
        let params = json!({
            "part": "commits", "sessions": sessions, "seconds": options.seconds,
            "rounds": options.rounds,
        });
        let mut arm = Arm::new("durability", self.engine.name(), params);
        let rate = self.rates.median();
        if self.engine.is_disk() {
            arm.figure("disk_appends_per_s", rate.round());
        } else {
            arm.figure("commits_per_s", rate.round());
            if disk_rate > 0.0
                && matches!(self.engine, Engine::Sync | Engine::Sqlite | Engine::Postgres)
            {
                // A sync carries at most one commit of each session.
                arm.rounded("share_of_disk", rate / (disk_rate * f64::from(sessions)));
            }
        }
        if let Some(session) = &mut self.session
            && let Ok(commits) = commits_per_sync(session)
        {
            arm.rounded("commits_per_sync", commits);
        }
        arm.rounded("spread", self.rates.spread());
        let failure = self.failure.take().or_else(|| self.check(sessions).err());
        if let Some(failure) = failure {
            arm.check = failure.to_string();
        }
        arm
    }

    /// Checks that the table shows every acknowledged update once the folder has been opened anew.
    fn check(&mut self, sessions: u32) -> Result<()> {
        let found = match self.engine {
            Engine::Fdatasync | Engine::Dsync | Engine::Off => return Ok(()),
            Engine::Sync | Engine::Async => {
                self.workers.clear();
                self.session = None;
                let mut session = Database::open(&self.folder)?.session();
                let sum = session.prepare("SELECT sum(balance)::bigint FROM account")?;
                let mut rows = session.query(&sum, &[])?;
                let row = rows.next()?;
                row.map(|row| row.get::<i64>(0)).transpose()?
            }
            Engine::Sqlite => {
                self.workers.clear();
                let connection = Connection::open(self.folder.join("db"))?;
                Some(connection.query_row("SELECT sum(balance) FROM account", [], |r| r.get(0))?)
            }
            Engine::Postgres => {
                self.workers.clear();
                let server = self.server.as_ref().expect("it was started");
                let (runtime, client) = server.connect()?;
                let sum = client.query_one("SELECT sum(balance)::bigint FROM account", &[]);
                Some(runtime.block_on(sum)?.try_get(0)?)
            }
        };
        let expected = self.done as i64;
        match found == Some(expected) {
            true => Ok(()),
            false => Err(Failure::WrongAnswer(format!(
                "{expected} updates by {sessions} sessions were acknowledged, {found:?} are there"
            ))),
        }
    }
}

/// Number of commits that a sync made durable, on average since the database was opened.
fn commits_per_sync(session: &mut Session) -> Result<f64> {
    let log = session.prepare("SELECT commits, syncs FROM halcyon.log")?;
    let mut rows = session.query(&log, &[])?;
    let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("there is no log".into()))?;
    let (commits, syncs): (i64, i64) = (row.get(0)?, row.get(1)?);
    Ok(commits as f64 / syncs.max(1) as f64)
}

/// Commits for this time; returns how many commits there were.
fn commit_for(worker: &mut dyn Worker, time: Duration) -> Result<u64> {
    let start = Instant::now();
    let mut done = 0;
    loop {
        worker.commit()?;
        done += 1;
        if start.elapsed() >= time {
            return Ok(done);
        }
    }
}

/// Appends records to a file that was filled before, as a log would.
struct Appender {
    file: File,
    at: usize,
    synced_by_write: bool,
}

impl Appender {
    fn new(folder: &Path, synced_by_write: bool) -> Result<Self> {
        let path = folder.join("log");
        std::fs::write(&path, vec![0; FILE_BYTES])?;
        File::open(&path)?.sync_all()?;
        let flags = if synced_by_write { O_DSYNC } else { 0 };
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&path)?;
        Ok(Appender { file, at: 0, synced_by_write })
    }
}

impl Worker for Appender {
    fn commit(&mut self) -> Result<()> {
        self.file.write_all_at(&[1; RECORD_BYTES], self.at as u64)?;
        if !self.synced_by_write {
            self.file.sync_data()?;
        }
        self.at = (self.at + RECORD_BYTES) % (FILE_BYTES - RECORD_BYTES);
        Ok(())
    }
}

struct Halcyon {
    session: Session,
    update: Statement,
    /// Ids of this session, all of one partition.
    ids: Vec<i64>,
    turn: usize,
}

fn halcyon(database: &Database, sessions: u32, synchronous: &str) -> Result<Vec<Box<dyn Worker>>> {
    let mut session = database.session();
    let create = format!(
        "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL)
         WITH (partition_by = 'id', partitions = {sessions})"
    );
    session.execute(create.as_str(), &[])?;
    let last = ROWS * i64::from(sessions) - 1;
    let fill = format!("INSERT INTO account SELECT n, 0 FROM generate_series(0, {last}) n");
    session.execute(fill.as_str(), &[])?;
    let worker = |number| {
        let mut session = database.session();
        session.set("synchronous_commit", synchronous)?;
        let update = session.prepare("UPDATE account SET balance = balance + 1 WHERE id = $1")?;
        let ids = (0..ROWS).map(|row| row * i64::from(sessions) + i64::from(number)).collect();
        Ok(Box::new(Halcyon { session, update, ids, turn: 0 }) as Box<dyn Worker>)
    };
    (0..sessions).map(worker).collect()
}

impl Worker for Halcyon {
    fn commit(&mut self) -> Result<()> {
        let id = self.ids[self.turn % self.ids.len()];
        self.turn += 1;
        match self.session.execute(&self.update, &[id.into_value()])? {
            1 => Ok(()),
            other => Err(Failure::WrongAnswer(format!("{other} rows were updated"))),
        }
    }
}

struct Sqlite {
    connection: Connection,
    id: i64,
}

fn sqlite(folder: &Path, sessions: u32) -> Result<Vec<Box<dyn Worker>>> {
    let open = || -> Result<Connection> {
        let connection = Connection::open(folder.join("db"))?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
        Ok(connection)
    };
    open()?.execute_batch(&format!(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {})
         INSERT INTO account SELECT n, 0 FROM n",
        ROWS * i64::from(sessions) - 1
    ))?;
    let worker = |number| {
        let connection = open()?;
        Ok(Box::new(Sqlite { connection, id: ROWS * i64::from(number) }) as Box<dyn Worker>)
    };
    (0..sessions).map(worker).collect()
}

impl Worker for Sqlite {
    fn commit(&mut self) -> Result<()> {
        let text = "UPDATE account SET balance = balance + 1 WHERE id = ?1";
        match self.connection.prepare_cached(text)?.execute([self.id])? {
            1 => Ok(()),
            other => Err(Failure::WrongAnswer(format!("{other} rows were updated"))),
        }
    }
}

struct Postgres {
    runtime: Runtime,
    client: tokio_postgres::Client,
    update: tokio_postgres::Statement,
    id: i64,
}

fn postgres_workers(server: &Server, sessions: u32) -> Result<Vec<Box<dyn Worker>>> {
    let (runtime, client) = server.connect()?;
    let fill = format!(
        "CREATE TABLE account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);
         INSERT INTO account SELECT n, 0 FROM generate_series(0, {}) n;
         VACUUM ANALYZE account; CHECKPOINT",
        ROWS * i64::from(sessions) - 1
    );
    // One by one: VACUUM runs in no transaction block.
    for statement in fill.split(';') {
        runtime.block_on(client.batch_execute(statement))?;
    }
    let worker = |number| {
        let (runtime, client) = server.connect()?;
        let text = "UPDATE account SET balance = balance + 1 WHERE id = $1";
        let update = runtime.block_on(client.prepare(text))?;
        let id = ROWS * i64::from(number);
        Ok(Box::new(Postgres { runtime, client, update, id }) as Box<dyn Worker>)
    };
    (0..sessions).map(worker).collect()
}

impl Worker for Postgres {
    fn commit(&mut self) -> Result<()> {
        match self.runtime.block_on(self.client.execute(&self.update, &[&self.id]))? {
            1 => Ok(()),
            other => Err(Failure::WrongAnswer(format!("{other} rows were updated"))),
        }
    }
}
