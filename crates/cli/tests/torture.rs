//! A server that is killed again and again, and the promises that its clients got.
//!
//! Each round starts `halcyon serve --data`, runs transfers between accounts in four sessions,
//! tables being made and dropped, a sequence and checkpoints, and ends the process by SIGKILL at a
//! random moment; some rounds kill it while it recovers. What was acknowledged is noted here, in
//! another process. After the restart:
//! 1. every acknowledged transfer is there (of the session with `synchronous_commit = off`, all up
//!    to some number), and no other but the one that was under way;
//! 2. each balance is what the transfers make of it, so no transaction is there in part;
//! 3. every acknowledged table is there, with its row; a table without its row never is;
//! 4. no value of the sequence is handed out twice;
//! 5. materialized views are what their queries are;
//! 6. `halcyon check` finds nothing.
//!
//! In some rounds a copy of the folder is damaged as well: a file is removed or cut, a bit flipped, a stretch
//! zeroed. A server on the copy refuses to start, or 1 to 5 hold.
//!
//! `HALCYON_TORTURE_ROUNDS` sets how many rounds (15), `HALCYON_TORTURE_SEED` the choices,
//! `HALCYON_TORTURE_BINARY` another build's server.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

const ACCOUNTS: u64 = 40;
const START: i64 = 1000;
/// Views by name, and their queries; `a` is a key.
const VIEWS: [(&str, &str); 3] = [
    ("total", "SELECT count(*) AS a, sum(balance) AS b FROM account"),
    ("by_branch", "SELECT id % 4 AS a, sum(balance) AS b FROM account GROUP BY id % 4"),
    ("sent", "SELECT session AS a, sum(amount) AS b FROM transfer GROUP BY session"),
];
const SESSIONS: usize = 4;
/// The session that does not wait for its commits to become durable.
const CARELESS: usize = 3;

/// The acknowledgements that clients got.
#[derive(Clone, Default)]
struct Told {
    /// Transfers by session; their numbers are dense, from 1.
    transfers: [i64; SESSIONS],
    /// Numbers of tables made and not dropped, or about to be dropped.
    tables: BTreeSet<i64>,
    /// Tables whose DROP was sent but not answered.
    dropping: BTreeSet<i64>,
    next_table: i64,
    sequence: i64,
}

/// xorshift; the moments of events differ from run to run anyway.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

struct Server {
    child: Child,
    address: String,
    /// A reader of the server's output until it ends.
    _output: BufReader<ChildStdout>,
}

/// The server's binary.
fn halcyon() -> String {
    std::env::var("HALCYON_TORTURE_BINARY").unwrap_or(env!("CARGO_BIN_EXE_halcyon").to_owned())
}

fn spawn(folder: &Path) -> Child {
    let folder = folder.to_str().expect("a plain path");
    Command::new(halcyon())
        .args(["serve", "--listen", "127.0.0.1:0", "--data", folder])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts")
}

impl Server {
    fn start(folder: &Path) -> Server {
        Server::try_start(folder).expect("the server is ready")
    }

    /// A server, unless it refuses to start.
    fn try_start(folder: &Path) -> Option<Server> {
        let mut child = spawn(folder);
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the server speaks or ends");
        if line.is_empty() {
            let ended = child.wait().expect("it was started here");
            assert_eq!(ended.code(), Some(1), "a server that refuses ends in order");
            return None;
        }
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        assert!(line.starts_with("ready after"), "the server says {line:?}");
        Some(Server { child, address, _output: output })
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was started here");
    }

    /// Ends the server in order.
    fn stop(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.expect("kill is there").success());
        assert!(self.child.wait().expect("it was started here").success());
    }

    async fn connect(&self) -> Client {
        let (host, port) = self.address.rsplit_once(':').expect("host and port");
        let config = format!("host={host} port={port} user=halcyon dbname=halcyon");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("a server");
        tokio::spawn(async move {
            // The task ends when the server is killed.
            let _ = connection.await;
        });
        client
    }
}

type Gone = tokio_postgres::Error;

async fn transfers(
    client: Client,
    session: usize,
    told: Arc<Mutex<Told>>,
    seed: u64,
) -> Result<(), Gone> {
    let mut choices = Choices(seed | 1);
    if session == CARELESS {
        client.batch_execute("SET synchronous_commit = off").await?;
    }
    let row = client
        .query_one(
            &format!("SELECT coalesce(max(number), 0) FROM transfer WHERE session = {session}"),
            &[],
        )
        .await?;
    let mut number: i64 = row.get(0);
    loop {
        number += 1;
        let (from, to) = (choices.below(ACCOUNTS), choices.below(ACCOUNTS));
        let amount = choices.below(50) as i64;
        let statements = format!(
            "BEGIN; UPDATE account SET balance = balance - {amount} WHERE id = {from};
             UPDATE account SET balance = balance + {amount} WHERE id = {to};
             INSERT INTO transfer VALUES ({session}, {number}, {from}, {to}, {amount}); COMMIT"
        );
        match client.batch_execute(&statements).await {
            Ok(()) => told.lock().expect("unpoisoned").transfers[session] = number,
            // A victim of a deadlock: its transaction left nothing.
            Err(error) if error.code().is_some_and(|code| code.code() == "40P01") => {
                client.batch_execute("ROLLBACK").await?;
                number -= 1;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn tables(client: Client, told: Arc<Mutex<Told>>, seed: u64) -> Result<(), Gone> {
    let mut choices = Choices(seed | 1);
    loop {
        let number = {
            let mut told = told.lock().expect("unpoisoned");
            told.next_table += 1;
            told.next_table
        };
        let made = format!(
            "BEGIN; CREATE TABLE made_{number} (id SERIAL PRIMARY KEY, v INT);
             INSERT INTO made_{number} (v) VALUES ({number}); COMMIT"
        );
        client.batch_execute(&made).await?;
        told.lock().expect("unpoisoned").tables.insert(number);
        let value: i64 = client.query_one("SELECT nextval('counter')", &[]).await?.get(0);
        {
            let mut told = told.lock().expect("unpoisoned");
            assert!(value > told.sequence, "the sequence gave {value} after {}", told.sequence);
            told.sequence = value;
        }
        match choices.below(4) {
            0 => client.batch_execute("CHECKPOINT").await?,
            1 => {
                client
                    .batch_execute(&format!(
                        "TRUNCATE made_{number} ; INSERT INTO made_{number} (v) VALUES ({number})"
                    ))
                    .await?
            }
            2 => {
                told.lock().expect("unpoisoned").dropping.insert(number);
                client.batch_execute(&format!("DROP TABLE made_{number}")).await?;
                let mut told = told.lock().expect("unpoisoned");
                told.tables.remove(&number);
                told.dropping.remove(&number);
            }
            _ => {
                client
                    .batch_execute(&format!("ALTER TABLE made_{number} ADD COLUMN w INT DEFAULT 1"))
                    .await?
            }
        }
    }
}

async fn number(client: &Client, query: &str) -> i64 {
    let query = format!("SELECT ({query})::bigint");
    client.query_one(&query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error}")).get(0)
}

/// Panics unless the database is what the clients were told.
async fn verify(client: &Client, told: &mut Told) {
    for session in 0..SESSIONS {
        let of = format!("FROM transfer WHERE session = {session}");
        let last = number(client, &format!("SELECT coalesce(max(number), 0) {of}")).await;
        let count = number(client, &format!("SELECT count(*) {of}")).await;
        assert_eq!(count, last, "session {session} has a gap");
        let acknowledged = told.transfers[session];
        assert!(last <= acknowledged + 1, "session {session} has {last}, told was {acknowledged}");
        assert!(
            last >= acknowledged || session == CARELESS,
            "session {session} lost a transfer: {last} are there, {acknowledged} were acknowledged"
        );
        told.transfers[session] = last;
    }
    let wrong = number(
        client,
        &format!(
            "SELECT count(*) FROM account a WHERE balance <> {START}
             + (SELECT coalesce(sum(amount), 0) FROM transfer t WHERE t.target = a.id)
             - (SELECT coalesce(sum(amount), 0) FROM transfer t WHERE t.source = a.id)"
        ),
    )
    .await;
    assert_eq!(wrong, 0, "balances that the transfers do not explain");
    for (view, query) in VIEWS {
        let differ = format!(
            "SELECT count(*) FROM {view} v FULL JOIN ({query}) q ON v.a = q.a
             WHERE v.b IS DISTINCT FROM q.b"
        );
        assert_eq!(number(client, &differ).await, 0, "view {view} is not what its query is");
    }
    let total = number(client, "SELECT sum(balance) FROM account").await;
    assert_eq!(total, START * ACCOUNTS as i64);
    let rows = client
        .query(
            "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'made%'",
            &[],
        )
        .await
        .expect("a query");
    let found: BTreeSet<i64> = rows
        .iter()
        .map(|row| row.get::<_, String>(0)["made_".len()..].parse().expect("a number"))
        .collect();
    for table in &told.tables {
        let known = found.contains(table) || told.dropping.contains(table);
        assert!(known, "table made_{table} is lost");
    }
    for table in &found {
        assert!(told.tables.contains(table) || *table == told.next_table, "made_{table} is back");
        let rows = number(client, &format!("SELECT count(*) FROM made_{table}")).await;
        // Between TRUNCATE and INSERT, which are two transactions, the table has no row.
        assert!(rows == 1 || (rows == 0 && *table == told.next_table), "made_{table} has {rows}");
    }
    told.tables = found;
    told.dropping.clear();
}

fn parameter(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> =
        paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

/// The bytes of a file without the zeroes at its end. Whole blocks of zeroes are passed over first, which takes
/// a fraction of the time in a build without optimisation.
fn used(bytes: &[u8]) -> usize {
    const ZEROES: [u8; 4096] = [0; 4096];
    let blocks = bytes.rchunks(ZEROES.len());
    let empty: usize = blocks.take_while(|block| ZEROES.starts_with(block)).map(<[u8]>::len).sum();
    let rest = &bytes[..bytes.len() - empty];
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Copies a folder, does harm to one file of the copy, and says which.
fn harmed(from: &Path, to: &Path, choices: &mut Choices) -> String {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("it lies below"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("it can be made");
        let bytes = std::fs::read(&file).expect("it can be read");
        std::fs::write(&target, &bytes[..used(&bytes)]).expect("it can be written");
        // The zeroes at the end take no room.
        let file = std::fs::OpenOptions::new().write(true).open(&target).expect("it is there");
        file.set_len(bytes.len() as u64).expect("it can grow");
    }
    let all = files(to);
    let file = &all[choices.below(all.len() as u64) as usize];
    let mut bytes = std::fs::read(file).expect("it can be read");
    let used = used(&bytes).max(1);
    let at = choices.below(used as u64) as usize;
    let shown = file.display();
    let what = match choices.below(4) {
        0 => {
            std::fs::remove_file(file).expect("it can be removed");
            return format!("removed {shown}");
        }
        1 => {
            bytes.truncate(at);
            format!("cut {shown} at {at} of {used}")
        }
        2 if at < bytes.len() => {
            bytes[at] ^= 1 << choices.below(8);
            format!("flipped a bit at {at} of {used} in {shown}")
        }
        _ => {
            let end = (at + 1 + choices.below(4096) as usize).min(bytes.len());
            bytes[at.min(end)..end].fill(0);
            format!("zeroed {shown} from {at} to {end} of {used}")
        }
    };
    std::fs::write(file, bytes).expect("it can be written");
    what
}

/// A server on a damaged copy refuses to start, or has what the clients were told. Whether it started.
fn survives_harm(runtime: &Runtime, folder: &Path, told: &Told, choices: &mut Choices) -> bool {
    let copy = Folder(folder.with_extension("harmed"));
    let what = harmed(folder, &copy.0, choices);
    println!("{what}");
    let Some(server) = Server::try_start(&copy.0) else { return false };
    runtime.block_on(async {
        let client = server.connect().await;
        verify(&client, &mut told.clone()).await;
    });
    server.kill();
    true
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder of a failed test stays for inspection.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[test]
fn what_was_acknowledged_outlives_the_process() {
    let rounds = parameter("HALCYON_TORTURE_ROUNDS", 15);
    let seed = parameter("HALCYON_TORTURE_SEED", u64::from(std::process::id()) << 20 | 1);
    println!("HALCYON_TORTURE_SEED={seed}");
    let mut choices = Choices(seed | 1);
    let folder = std::env::temp_dir().join(format!("halcyon-torture-{}", std::process::id()));
    let folder = Folder(folder);
    println!("{}", folder.0.display());
    let runtime = Runtime::new().expect("threads");
    let told = Arc::new(Mutex::new(Told::default()));
    let server = Server::start(&folder.0);
    runtime.block_on(async {
        let setup = format!(
            "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT)
                 WITH (partition_by = 'id', partitions = 4);
             CREATE TABLE transfer (session INT, number BIGINT, source INT, target INT,
                 amount BIGINT, PRIMARY KEY (session, number))
                 WITH (partition_by = 'session', partitions = 4);
             CREATE SEQUENCE counter;
             INSERT INTO account SELECT n, {START} FROM generate_series(0, {}) n",
            ACCOUNTS - 1
        );
        let client = server.connect().await;
        client.batch_execute(&setup).await.expect("tables are made");
        for (view, query) in VIEWS {
            let text = format!("CREATE MATERIALIZED VIEW {view} AS {query}");
            client.batch_execute(&text).await.expect("views are made");
        }
    });
    server.kill();
    let (mut acknowledged, mut recoveries_killed) = (0, 0);
    let (mut harm_refused, mut harm_borne) = (0, 0);
    for round in 0..rounds {
        if choices.below(3) == 0 {
            // Most likely killed before the server is ready.
            let mut child = spawn(&folder.0);
            std::thread::sleep(Duration::from_millis(choices.below(60)));
            child.kill().expect("it runs");
            child.wait().expect("it was started here");
            recoveries_killed += 1;
        }
        if choices.below(2) == 0 {
            let before = told.lock().expect("unpoisoned").clone();
            match survives_harm(&runtime, &folder.0, &before, &mut choices) {
                true => harm_borne += 1,
                false => harm_refused += 1,
            }
        }
        if choices.below(3) == 0 {
            let checked = Command::new(halcyon())
                .args(["check", "--data", folder.0.to_str().expect("a plain path")])
                .output()
                .expect("it runs");
            assert!(checked.status.success(), "round {round}: {checked:?}");
        }
        let server = Server::start(&folder.0);
        runtime.block_on(async {
            let client = server.connect().await;
            let mut now = std::mem::take(&mut *told.lock().expect("unpoisoned"));
            verify(&client, &mut now).await;
            acknowledged = now.transfers.iter().sum();
            *told.lock().expect("unpoisoned") = now;
            let mut work: Vec<JoinHandle<Result<(), Gone>>> = Vec::new();
            for session in 0..SESSIONS {
                let client = server.connect().await;
                let seed = choices.below(u64::MAX);
                work.push(tokio::spawn(transfers(client, session, told.clone(), seed)));
            }
            let seed = choices.below(u64::MAX);
            work.push(tokio::spawn(tables(server.connect().await, told.clone(), seed)));
            tokio::time::sleep(Duration::from_millis(30 + choices.below(600))).await;
            server.kill();
            for work in work {
                let error =
                    work.await.expect("no session finds a fault").expect_err("it was killed");
                assert!(error.is_closed() || error.code().is_none(), "round {round}: {error:?}");
            }
        });
    }
    println!("{rounds} rounds, {acknowledged} transfers, {recoveries_killed} recoveries killed");
    println!("damaged copies: {harm_refused} refused, {harm_borne} whole");
    assert!(acknowledged > rounds as i64, "hardly anything was done");
}

/// Twenty lives, each with a commit, ended in order or killed: one log file, and one that is made in advance.
#[test]
fn a_restart_takes_no_room_on_the_disk() {
    const LOG_FILE: u64 = 16 << 20;
    let folder = Folder(std::env::temp_dir().join(format!("halcyon-lives-{}", std::process::id())));
    let runtime = Runtime::new().expect("threads");
    for life in 0..20 {
        let server = Server::start(&folder.0);
        runtime.block_on(async {
            let client = server.connect().await;
            let statements = match life {
                0 => "CREATE TABLE lives (n INT)".to_owned(),
                _ => format!("INSERT INTO lives VALUES ({life})"),
            };
            client.batch_execute(&statements).await.expect("there is room");
            assert_eq!(number(&client, "SELECT count(*) FROM lives").await, life);
        });
        match life % 2 {
            0 => server.kill(),
            _ => server.stop(),
        }
        let all = files(&folder.0);
        let logs = all.iter().filter(|file| file.extension().is_some_and(|ext| ext == "log"));
        assert_eq!(logs.count(), 1, "after life {life}: {all:?}");
        let bytes = all.iter().map(|file| file.metadata().expect("a file").len()).sum::<u64>();
        assert!(bytes < 2 * LOG_FILE + (1 << 20), "{bytes} bytes after life {life}: {all:?}");
    }
}
