//! A server in a control group, and clients that ask for more memory than it has.
//!
//! `halcyon serve` runs with 512 MB, which the kernel holds it to where control groups (version 1 or 2) can be
//! made: a process that takes more is killed. Elsewhere the server is given the limit that it would take
//! from its group, and its resident memory is measured. Clients send the statements of [`GREEDY`]
//! again and again, several at a time; another one sends point statements. Then
//! 1. the server lives, and has not been started anew;
//! 2. every statement is answered, or refused with 53200, 54000 or at its timeout (57014);
//! 3. some statement was refused with 53200, with detail and hint;
//! 4. every point statement was answered, and a refused statement has left nothing;
//! 5. when all is over, a statement that needs half of the memory is answered.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HALCYON_MEMORY_SECONDS` | how long clients go on | each statement once |
//! | `HALCYON_MEMORY_MB` | memory of the group | 512 |
//! | `HALCYON_MEMORY_CLIENTS` | clients that send greedy statements | 1 |
//! | `HALCYON_MEMORY_BINARY` | the server | the one of this build |
//! | `HALCYON_MEMORY_P99_MS` | within which 99 of 100 point statements are answered | not looked at |

mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use server::{Server, resident};
use tokio::runtime::Runtime;
use tokio_postgres::Client;

/// Statements that ask for more than 512 MB, or would if they were let.
const GREEDY: &[&str] = &[
    "SELECT generate_series(1, 2147483647)",
    "SELECT range(2147483647)",
    "SELECT array_agg(g) FROM generate_series(1, 1000000000) g",
    "SELECT length(string_agg(g::text || repeat('y', 1000), ',')) FROM generate_series(1, 9999999) g",
    "SELECT length(replace(repeat('x', 200000000), 'x', repeat('y', 1000)))",
    "SELECT length(translate(repeat('x', 100000000), 'x', 'é'))",
    "SELECT length(regexp_replace(repeat('x', 100000000), 'x', repeat('y', 1000), 'g'))",
    "SELECT length(regexp_replace(repeat('x', 1000000), '(x+)', repeat('\\1', 1000), 'g'))",
    "SELECT length(format(repeat('%1$s', 10000000), repeat('y', 1000)))",
    "SELECT length(format(repeat('%200000000s', 5), 'x', 'x', 'x', 'x', 'x'))",
    "SELECT length(encode(decode(repeat('00', 50000000), 'hex'), 'escape'))",
    "SELECT length(unistr(repeat('x', 200000000)))",
    "SELECT length(quote_literal(repeat('''', 100000000)))",
    "SELECT cardinality(parse_ident(repeat('a.', 50000000) || 'a'))",
    "SELECT cardinality(array_cat(range(1, 9000000), range(1, 9000000)))",
    "SELECT cardinality(array_remove(range(1, 18000000), 7))",
    "SELECT 'x' SIMILAR TO repeat('%', 200000000)",
    "SELECT cardinality(array_fill(repeat('x', 1000000), ARRAY[1000000]))",
    "SELECT cardinality(regexp_split_to_array(repeat('x,', 100000000), ','))",
    "WITH a AS (SELECT repeat('x', 50000000) t), b AS (SELECT t || t t FROM a),
          c AS (SELECT t || t t FROM b), d AS (SELECT t || t t FROM c), e AS (SELECT t || t t FROM d)
     SELECT length(t) FROM e",
    "SELECT length(concat(t, t, t, t, t, t, t, t, t, t)) FROM (SELECT repeat('x', 60000000) t) s",
    "SELECT repeat('x', 100000000), g FROM generate_series(1, 100000) g",
    "SELECT max(CASE WHEN g > 3 THEN repeat('x', 10000000) ELSE 'a' END) FROM generate_series(1, 999) g",
    "SELECT max(lpad(g::text, 30000)) FROM generate_series(1, 1000000) g",
    "SELECT cardinality(string_to_array(repeat('x,', 100000000), ','))",
    "SELECT length(array_to_string(array_repeat('x', 1000000), repeat('y', 100000)))",
    "SELECT cardinality(array_repeat(array_repeat('x', 10000), 10000))",
    "SELECT max(s) FROM (SELECT string_agg(g::text, ',') OVER (ORDER BY g) s
                         FROM generate_series(1, 100000) g) q",
    "SELECT g, g::text || repeat('x', 100) FROM generate_series(1, 9999999) g ORDER BY g % 1000, 2",
    "SELECT count(*) FROM (SELECT g::text || repeat('x', 100) t, count(*)
                           FROM generate_series(1, 9999999) g GROUP BY 1) s",
    "SELECT count(*) FROM generate_series(1, 99999999) a(x) JOIN generate_series(1, 99999999) b(y)
                          ON x = y + 1",
    "CREATE TABLE big AS SELECT g, repeat('x', 100) t FROM generate_series(1, 99999999) g",
    "INSERT INTO wide SELECT g, repeat('x', 100000) FROM generate_series(1000, 100000) g",
    "UPDATE wide SET t = repeat('x', 2000000)",
    "BEGIN; DECLARE c CURSOR WITH HOLD FOR
            SELECT repeat('x', 100000) FROM generate_series(1, 100000) g; COMMIT",
    "SELECT a.t, b.t FROM wide a, wide b ORDER BY 2, 1 OFFSET 39999",
    "CREATE MATERIALIZED VIEW pairs AS
     SELECT a.id + b.id * 1000 + c.id * 1000000 k, count(*) n FROM wide a, wide b, wide c GROUP BY 1",
];

/// SQLSTATEs with which a greedy statement may be refused.
const REFUSALS: &[&str] = &["53200", "54000", "57014", "42P07", "25P02"];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A control group with a limit of memory, removed when dropped.
struct Group(PathBuf);

impl Group {
    /// A group below this process's own; `None` where none can be made.
    fn new(bytes: u64) -> Option<Group> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |controller: &str| {
            let mut lines = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            lines.find(|(names, _)| *names == controller).map(|(_, path)| path.trim_matches('/'))
        };
        let name = format!("halcyon-test-{}", std::process::id());
        let root = Path::new("/sys/fs/cgroup");
        let (folder, file) = match path("memory") {
            Some(own) => (root.join("memory").join(own), "memory.limit_in_bytes"),
            None => (root.join(path("")?), "memory.max"),
        };
        let folder = folder.join(name);
        std::fs::create_dir(&folder).ok()?;
        let group = Group(folder);
        // A group without the file has no controller of memory.
        std::fs::write(group.0.join(file), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its process is gone by now; the kernel may take a moment to see that.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A server within `group`, or with the limit that it would take from one of `bytes`.
fn start(group: Option<&Group>, bytes: u64) -> Server {
    match group {
        Some(group) => {
            // A shell enters the group and becomes the server.
            let procs = group.0.join("cgroup.procs").display().to_string();
            let enter = "echo $$ > \"$0\" && exec \"$@\"";
            Server::start(Command::new("sh").args(["-c", enter, &procs, &server::binary()]), None)
        }
        None => Server::start(&mut Command::new(server::binary()), Some((bytes / 100 * 80) >> 20)),
    }
}

/// The counts of what clients were told.
#[derive(Default)]
struct Told {
    answered: AtomicUsize,
    out_of_memory: AtomicUsize,
    refused: AtomicUsize,
}

/// Sends greedy statements in turn, from the `first` on, until the time is over.
async fn be_greedy(client: Client, first: usize, until: Instant, told: Arc<Told>) {
    client.batch_execute("SET statement_timeout = '5s'").await.expect("it is set");
    for number in 0.. {
        if number >= GREEDY.len() && Instant::now() >= until {
            return;
        }
        let statement = GREEDY[(first + number) % GREEDY.len()];
        match client.batch_execute(statement).await {
            Ok(()) => _ = told.answered.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                let refused = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
                let state = refused.code().code();
                assert!(REFUSALS.contains(&state), "{statement}: {refused:?}");
                let count = if state == "53200" { &told.out_of_memory } else { &told.refused };
                count.fetch_add(1, Ordering::Relaxed);
                if state == "53200" {
                    assert!(refused.detail().is_some(), "{statement}: {refused:?}");
                    assert!(refused.hint().is_some(), "{statement}: {refused:?}");
                }
            }
        }
        client.batch_execute("ROLLBACK; CLOSE ALL").await.expect("small statements are answered");
        let clean = "DROP TABLE IF EXISTS big; DROP MATERIALIZED VIEW IF EXISTS pairs;
                     DELETE FROM wide WHERE id >= 1000";
        if first == 0 {
            // Another client may hold what is to be dropped until its own timeout.
            let _ = client.batch_execute(clean).await;
        }
    }
}

/// Sends point statements until `stop`; returns how long each took, and the most memory that the server,
/// a process, had meanwhile.
async fn be_modest(client: Client, process: u32, stop: Arc<AtomicBool>) -> (Vec<Duration>, u64) {
    let read = client.prepare("SELECT n FROM small WHERE id = $1").await.expect("a plan");
    let (mut times, mut peak) = (Vec::new(), 0);
    for number in 0_i32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let row = client.query_one(&read, &[&(number % 100)]).await.expect("it is answered");
        times.push(began.elapsed());
        peak = peak.max(resident(process));
        assert_eq!(row.get::<_, i32>(0), 2 * (number % 100));
        if number % 16 == 0 {
            let state = "BEGIN; SELECT n FROM small WHERE id = 7; COMMIT; SHOW memory_limit";
            client.batch_execute(state).await.expect("it is answered");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (times, peak)
}

#[test]
fn no_statement_ends_a_server_for_its_memory() {
    let bytes = setting("HALCYON_MEMORY_MB", 512) << 20;
    let seconds = setting("HALCYON_MEMORY_SECONDS", 0);
    let clients = usize::try_from(setting("HALCYON_MEMORY_CLIENTS", 1)).expect("a few");
    let group = Group::new(bytes);
    let mut server = start(group.as_ref(), bytes);
    let runtime = Runtime::new().expect("a runtime");
    let (told, stop) = (Arc::new(Told::default()), Arc::new(AtomicBool::new(false)));
    let (times, peak) = runtime.block_on(async {
        let owner = server.connect().await;
        owner
            .batch_execute(
                "CREATE TABLE small (id INT PRIMARY KEY, n INT);
                 INSERT INTO small SELECT g, 2 * g FROM generate_series(0, 99) g;
                 CREATE TABLE wide (id INT PRIMARY KEY, t TEXT);
                 INSERT INTO wide SELECT g, repeat('x', 100000) FROM generate_series(1, 200) g",
            )
            .await
            .expect("tables");
        let modest = be_modest(server.connect().await, server.process(), Arc::clone(&stop));
        let modest = tokio::spawn(modest);
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut greedy = Vec::new();
        for number in 0..clients {
            let (client, told) = (server.connect().await, Arc::clone(&told));
            let first = number * GREEDY.len() / clients;
            greedy.push(tokio::spawn(be_greedy(client, first, until, told)));
        }
        for client in greedy {
            client.await.expect("every statement was answered or refused");
        }
        stop.store(true, Ordering::Relaxed);
        let modest = modest.await.expect("every point statement was answered");
        let rows =
            owner.query_one("SELECT count(*), max(length(t)) FROM wide WHERE id < 1000", &[]);
        let row = rows.await.expect("it is answered");
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (200, 100_000), "no trace");
        let half = format!(
            "SELECT count(*) FROM (SELECT DISTINCT g FROM generate_series(1, {}) g) s",
            bytes >> 10
        );
        owner.query_one(&half, &[]).await.expect("memory is free again");
        modest
    });
    assert!(server.lives(), "the server lives");
    assert!(peak < bytes, "the server had {peak} of {bytes} bytes");
    let out = told.out_of_memory.load(Ordering::Relaxed);
    let (answered, refused) =
        (told.answered.load(Ordering::Relaxed), told.refused.load(Ordering::Relaxed));
    assert!(out > 0, "the canary: of {answered} answered and {refused} refused none for memory");
    judge_times(times);
    println!("{} MB at most of {} MB", peak >> 20, bytes >> 20);
    println!("{out} refused for memory, {refused} otherwise, {answered} answered");
}

fn judge_times(mut times: Vec<Duration>) {
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    println!("{} point statements, p99 {p99:?}, longest {:?}", times.len(), times[times.len() - 1]);
    let most = setting("HALCYON_MEMORY_P99_MS", 0);
    assert!(most == 0 || p99 <= Duration::from_millis(most), "p99 of point statements: {p99:?}");
}
