//! Many clients, and clients that are slower than their results.

use std::io::Read as _;
use std::time::{Duration, Instant};

use halcyon_server::{Server, ServerConfig};

use super::common::*;
use super::vanishing::thousand_rows;

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line of memory");
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// Raises the limit of open files of this process, which has the server and the clients; 1,024 is
/// usual.
fn allow_open_files(count: usize) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    if soft.is_none_or(|soft: usize| soft >= count) {
        return;
    }
    let limit = format!("--nofile={count}:");
    let pid = std::process::id().to_string();
    let raised = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    if !raised.is_ok_and(|status| status.success()) {
        eprintln!("the limit of open files could not be raised to {count}");
    }
}

/// Whether this process runs one test only, so that its memory is that test's. If not, the test has
/// been run in a process of its own, and has passed.
#[cfg(target_os = "linux")]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "HALCYON_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("the tests are a program");
    let mut alone = std::process::Command::new(program);
    let ran = alone.args(["--exact", test]).env(ALONE, "1").output().expect("it runs again");
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// The result has a million rows, about 60 MB on the wire.
#[cfg(target_os = "linux")]
#[test]
fn a_client_that_does_not_read_holds_no_result() {
    const ROWS: usize = 1_000_000;
    if !is_alone("load::a_client_that_does_not_read_holds_no_result") {
        return;
    }
    let server = server();
    let mut raw = Raw::connect(server.address());
    thousand_rows(&mut raw);
    raw.ok("SELECT count(*) FROM k a, k b");
    let before = resident_bytes();
    raw.send(&query("SELECT a.id, b.id, a.name, b.name FROM k a, k b"));
    let mut most = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        most = most.max(resident_bytes().saturating_sub(before));
    }
    assert!(most < 40 << 20, "{most} bytes were taken while the client did not read");
    let mut other = Raw::connect(server.address());
    other.ok("SELECT count(*) FROM k");
    let (mut rows, mut tag) = (0, Vec::new());
    raw.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut stream = std::io::BufReader::with_capacity(1 << 16, &raw.stream);
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("the rest of the result");
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        stream.read_exact(&mut body).expect("a whole message");
        match head[0] {
            b'D' => rows += 1,
            b'C' => tag = body,
            b'Z' => break,
            _ => {}
        }
    }
    assert_eq!(rows, ROWS);
    assert_eq!(tag, b"SELECT 1000000\0");
}

#[test]
fn a_thousand_clients_wait_for_one_lock_and_all_get_it() {
    const CLIENTS: usize = 1_000;
    allow_open_files(4 * CLIENTS);
    let server = server();
    let address = server.address();
    let mut holder = Raw::connect(address);
    holder.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)");
    holder.ok("INSERT INTO t VALUES (1, 0)");
    holder.ok("BEGIN");
    holder.ok("UPDATE t SET n = n + 1 WHERE id = 1");
    let mut waiters: Vec<Raw> = (0..CLIENTS).map(|_| Raw::connect(address)).collect();
    for waiter in &mut waiters {
        waiter.send(&query("UPDATE t SET n = n + 1 WHERE id = 1"));
    }
    // All clients wait; a new client is served nevertheless.
    let mut newcomer = Raw::connect(address);
    newcomer.ok("SELECT 1");
    assert_eq!(server.connections(), CLIENTS + 2);
    holder.ok("COMMIT");
    for waiter in &mut waiters {
        let answer = waiter.until(b'Z');
        assert_eq!(kinds(&answer), "CZ", "{answer:?}");
    }
    let rows = newcomer.ok("SELECT n FROM t");
    assert_eq!(rows[1].body, b"\0\x01\0\0\0\x041001");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = server_with(ServerConfig { connections_max: 3, ..ServerConfig::default() });
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::connect(server.address())).collect();
    let mut surplus = Raw::silent(server.address());
    surplus.send(&startup(&superuser()));
    assert_eq!(surplus.until(b'Z')[0].field(b'C'), Some("53300"));
    clients.pop();
    eventually("room for another", || server.connections() == 2);
    Raw::connect(server.address()).ok("SELECT 1");
}

#[test]
fn a_class_has_as_many_connections_as_its_limit_says() {
    let server = server_with(ServerConfig::default());
    let mut admin = Raw::connect(server.address());
    admin.ok("CREATE ROLE bob LOGIN");
    admin.ok("CREATE WORKLOAD CLASS few SET 'CONNECTION LIMIT' = 2");
    admin.ok("CREATE WORKLOAD MAPPING m WORKLOAD CLASS few SET 'USER NAME' = 'bob'");
    let login = || {
        let mut raw = Raw::silent(server.address());
        raw.send(&startup("bob"));
        let answer = raw.until(b'Z');
        (raw, answer[0].field(b'C').map(str::to_owned))
    };
    let (first, second) = (login(), login());
    assert_eq!((first.1, second.1), (None, None));
    assert_eq!(login().1.as_deref(), Some("53300"));
    Raw::connect(server.address()).ok("SELECT 1");
    drop(first.0);
    eventually("room for another", || login().1.is_none());
}

#[test]
fn the_last_connections_are_kept_for_superusers() {
    let config = ServerConfig {
        connections_max: 3,
        superuser_reserved_connections: 1,
        ..ServerConfig::default()
    };
    let server = server_with(config);
    let mut admin = Raw::connect(server.address());
    admin.ok("CREATE ROLE bob LOGIN");
    let login = |user: &str| {
        let mut raw = Raw::silent(server.address());
        raw.send(&startup(user));
        let answer = raw.until(b'Z');
        (raw, answer[0].field(b'C').map(str::to_owned))
    };
    let (_bob, refused) = login("bob");
    assert_eq!(refused, None);
    assert_eq!(login("bob").1.as_deref(), Some("53300"));
    let (mut second, refused) = login(&superuser());
    assert_eq!(refused, None, "a place is kept");
    second.ok("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bob'");
    eventually("bob's place is free", || server.connections() == 2);
}

/// A server with one thread for the network: if a wait kept that thread, nobody else would be served,
/// nor the client that could end the wait. Each statement has run short before, so that it begins where
/// its message was read.
#[test]
fn whatever_waits_leaves_the_network_to_another_thread() {
    let server = server_with(ServerConfig { threads: 1, ..ServerConfig::default() });
    let address = server.address();
    let mut holder = Raw::connect(address);
    holder.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)");
    holder.ok("INSERT INTO t VALUES (1, 0)");
    // (what the holder takes, what waits for it, how the holder gives it back)
    let waits = [
        (
            "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1",
            "UPDATE t SET n = n + 1 WHERE id = 1",
            "COMMIT",
        ),
        (
            "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1",
            "SELECT n FROM t WHERE id = 1 FOR UPDATE",
            "COMMIT",
        ),
        ("BEGIN; LOCK TABLE t", "INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING", "COMMIT"),
        ("BEGIN; LOCK TABLE t", "BEGIN; LOCK TABLE t; COMMIT", "COMMIT"),
        (
            "SELECT pg_advisory_lock(7)",
            "SELECT pg_advisory_lock(7), pg_advisory_unlock(7)",
            "SELECT pg_advisory_unlock(7)",
        ),
        (
            "SELECT 1",
            "SELECT pg_sleep(CASE WHEN n > 100 THEN 0.3 ELSE 0 END) FROM t WHERE id = 1",
            "SELECT 1",
        ),
    ];
    for (taken, waiting, given_back) in waits {
        let mut waiter = Raw::connect(address);
        for _ in 0..20 {
            waiter.ok(waiting);
        }
        holder.ok("UPDATE t SET n = 1000 WHERE id = 1");
        holder.ok(taken);
        waiter.send(&query(waiting));
        std::thread::sleep(Duration::from_millis(20));
        let mut newcomer = Raw::connect(address);
        newcomer.ok("SELECT 1");
        holder.ok(given_back);
        let answer = waiter.until(b'Z');
        assert!(answer.iter().all(|frame| frame.kind != b'E'), "{waiting}: {answer:?}");
        holder.ok("UPDATE t SET n = 0 WHERE id = 1");
    }
}

/// A server with one thread for the network, and statements that were short until one of them reaches all rows: others
/// are served meanwhile.
#[test]
fn a_write_that_lasts_leaves_the_network_to_another_thread() {
    let server = server_with(ServerConfig { threads: 1, ..ServerConfig::default() });
    let mut writer = Raw::connect(server.address());
    writer.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, n INTEGER)");
    writer.ok("CREATE TABLE u (id INTEGER PRIMARY KEY, g INTEGER, n INTEGER)");
    writer.ok("INSERT INTO t SELECT i, i % 7, 0 FROM generate_series(1, 150000) AS s(i)");
    writer.ok("CREATE MATERIALIZED VIEW v AS SELECT g, SUM(n) AS n FROM t GROUP BY g");
    let writes = [
        "UPDATE t SET n = n + 1 WHERE id <= ",
        "INSERT INTO u SELECT * FROM t WHERE id <= ",
        "SELECT count(n) FROM t WHERE id <= ",
        "DELETE FROM u WHERE id <= ",
        "UPDATE t SET n = 1 / (150000 - id) WHERE id <= ",
    ];
    for write in writes {
        for _ in 0..20 {
            writer.ok(&format!("{write}0"));
        }
        let mut newcomer = Raw::connect(server.address());
        newcomer.ok("SELECT 1");
        let began = Instant::now();
        writer.send(&query(&format!("{write}150000")));
        std::thread::sleep(Duration::from_millis(5));
        let mut longest = Duration::ZERO;
        let mut answered = 0;
        writer.stream.set_nonblocking(true).expect("a socket");
        while writer.stream.peek(&mut [0]).is_err() {
            let asked = Instant::now();
            newcomer.ok("SELECT 1");
            longest = longest.max(asked.elapsed());
            answered += 1;
        }
        writer.stream.set_nonblocking(false).expect("a socket");
        let took = began.elapsed();
        let answer = writer.until(b'Z');
        println!("{write}: {took:?}, {answered} answers meanwhile, the longest {longest:?}");
        let fails = write.contains('/');
        assert_eq!(answer.iter().any(|frame| frame.kind == b'E'), fails, "{write}: {answer:?}");
        assert!(longest < took / 2 || took < Duration::from_millis(50), "{write}: {longest:?}");
    }
}

/// Threads of this process.
#[cfg(target_os = "linux")]
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux tells").count()
}

/// How many threads of this process run a statement that waits in the middle.
#[cfg(target_os = "linux")]
fn own_thread_count() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux tells");
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        std::fs::read_to_string(thread.expect("Linux tells").path().join("comm")).ok()
    };
    threads.filter_map(name).filter(|name| name.starts_with("halcyon-waits")).count()
}

/// A server with two lanes for a test that counts threads; `None` unless the test runs alone.
#[cfg(target_os = "linux")]
fn lone_server(test: &str) -> Option<Server> {
    let config = ServerConfig { threads: 2, ..ServerConfig::default() };
    is_alone(test).then(|| server_with(config))
}

/// Statements of their own and of blocks, by both protocols, short ones and definitions.
#[cfg(target_os = "linux")]
#[test]
fn statements_that_wait_for_locks_keep_no_thread() {
    const WAITERS: usize = 200;
    let alone = lone_server("load::statements_that_wait_for_locks_keep_no_thread");
    let Some(server) = alone else { return };
    let mut holder = Raw::connect(server.address());
    holder.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)");
    holder.ok("INSERT INTO t VALUES (1, 0)");
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Raw::connect(server.address())).collect();
    let text = "UPDATE t SET n = n + 1 WHERE id = 1";
    let asked = |number: usize| match number % 4 {
        0 => query(text),
        1 => query(&format!("BEGIN; {text}; COMMIT")),
        2 => query("ALTER TABLE t ALTER COLUMN n SET DEFAULT 7"),
        _ => [parse("", text), bind("", "", &[]), execute("", 0), sync()].concat(),
    };
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&asked(number));
        waiter.until(b'Z');
    }
    holder.ok("UPDATE t SET n = 0; BEGIN; LOCK TABLE t");
    let before = thread_count();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&asked(number));
    }
    let mut watcher = Raw::connect(server.address());
    let waiting = "SELECT count(*) FROM halcyon.locks WHERE NOT granted";
    eventually("all but the definitions behind the first wait for the table", || {
        watcher.count(waiting) >= WAITERS * 3 / 4
    });
    // Threads that have planned end when they have had nothing to do for ten seconds. The definition that has
    // the catalog waits for the table as a thread.
    eventually("those who wait have no threads", || thread_count() <= before + 2);
    holder.ok("COMMIT");
    for waiter in &mut waiters {
        let answer = waiter.until(b'Z');
        assert!(answer.iter().all(|frame| frame.kind != b'E'), "{answer:?}");
    }
    let rows = holder.query("SELECT n FROM t");
    assert_eq!(&rows[1].body[6..], (WAITERS * 3 / 4).to_string().as_bytes());
}

/// What a block has changed is read, as it was before, while the block waits: in a function, for a lock, for its
/// client's next data or for the client to read, or for the next statement.
#[test]
fn a_block_that_waits_holds_up_no_reader() {
    let server = server();
    let (mut holder, mut reader) = (Raw::connect(server.address()), Raw::connect(server.address()));
    holder.ok("CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER)");
    holder.ok("INSERT INTO a SELECT i, 1 FROM generate_series(1, 1000) g (i)");
    holder.ok("CREATE TABLE b (id INTEGER PRIMARY KEY, n INTEGER)");
    holder.ok("INSERT INTO b VALUES (1, 1)");
    holder.ok("CREATE TABLE c (n INTEGER)");
    holder.ok("BEGIN; LOCK TABLE c; SELECT pg_advisory_lock(7)");
    reader.ok("SET statement_timeout = '30s'");
    let waits = [
        "SELECT 1",
        "SELECT pg_sleep(600)",
        "SELECT n, pg_sleep(600) FROM b WHERE id = 1",
        "UPDATE b SET n = 2 WHERE id = 1 AND pg_sleep(600) IS NOT NULL",
        "INSERT INTO b SELECT n, n FROM b WHERE pg_sleep(600) IS NOT NULL",
        "EXPLAIN ANALYZE SELECT pg_sleep(600)",
        "SELECT pg_advisory_xact_lock(7)",
        "INSERT INTO c VALUES (1)",
        "COPY b FROM STDIN",
        "COPY (SELECT pg_sleep(600)) TO STDOUT",
        "SELECT repeat('x', 1000000) FROM a",
    ];
    for wait in waits {
        let mut waiter = Raw::connect(server.address());
        let pid = String::from_utf8(waiter.value("SELECT pg_backend_pid()")).expect("a number");
        waiter.ok("BEGIN");
        waiter.ok("UPDATE a SET n = 2 WHERE id < 10");
        waiter.send(&query(wait));
        let begun = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND query = '{}'",
            wait.replace('\'', "''")
        );
        eventually("the statement is under way", || reader.count(&begun) == 1);
        for _ in 0..2 {
            assert_eq!(reader.count("SELECT sum(n) FROM a"), 1_000, "{wait}");
            assert_eq!(reader.count("SELECT n FROM a WHERE id = 5"), 1, "{wait}");
            assert_eq!(reader.count("SELECT sum(a.n) FROM a JOIN b USING (id)"), 1, "{wait}");
            std::thread::sleep(Duration::from_millis(20));
        }
        reader.ok(&format!("SELECT pg_terminate_backend({pid})"));
    }
}

/// `pg_sleep` and advisory locks, on their own and in blocks, by both protocols.
#[cfg(target_os = "linux")]
#[test]
fn functions_that_wait_keep_no_thread() {
    const WAITERS: usize = 200;
    let Some(server) = lone_server("load::functions_that_wait_keep_no_thread") else { return };
    let mut holder = Raw::connect(server.address());
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Raw::connect(server.address())).collect();
    let asked = |number: usize| match number % 4 {
        0 => query("SELECT pg_advisory_lock(1), 'x'; SELECT 1 / pg_advisory_unlock(1)::int"),
        1 => query("BEGIN; SELECT pg_advisory_xact_lock(1); COMMIT"),
        2 => query("BEGIN READ ONLY; SELECT pg_sleep(15); COMMIT"),
        _ => {
            let text = "SELECT pg_advisory_xact_lock_shared($1)";
            [parse("", text), bind("", "", &["1"]), execute("", 0), sync()].concat()
        }
    };
    holder.ok("SELECT pg_advisory_lock(1)");
    let before = thread_count();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&asked(number));
    }
    let mut watcher = Raw::connect(server.address());
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    eventually("three quarters wait for the lock", || watcher.count(waiting) == WAITERS * 3 / 4);
    eventually("those who wait have no threads", || thread_count() <= before + 2);
    holder.ok("SELECT pg_advisory_unlock(1)");
    for waiter in &mut waiters {
        let answer = waiter.until(b'Z');
        assert!(answer.iter().all(|frame| frame.kind != b'E'), "{answer:?}");
    }
    assert_eq!(watcher.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn statements_of_a_limited_class_wait_and_hold_no_thread() {
    const WAITERS: usize = 200;
    let alone = lone_server("load::statements_of_a_limited_class_wait_and_hold_no_thread");
    let Some(server) = alone else { return };
    let mut holder = Raw::connect(server.address());
    holder.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)");
    holder.ok("INSERT INTO t VALUES (1, 0)");
    holder.ok("CREATE WORKLOAD CLASS batch SET 'CONCURRENCY LIMIT' = 1");
    holder.ok("CREATE WORKLOAD MAPPING m WORKLOAD CLASS batch SET 'APPLICATION NAME' = 'etl'");
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Raw::connect(server.address())).collect();
    let text = "UPDATE t SET n = n + 1 WHERE id = 1";
    let asked = |number: usize| match number % 3 {
        0 => query(text),
        1 => query(&format!("BEGIN; {text}; COMMIT")),
        _ => [parse("", text), bind("", "", &[]), execute("", 0), sync()].concat(),
    };
    for waiter in &mut waiters {
        waiter.ok("SET application_name = 'etl'");
    }
    // The one inside waits for the table.
    holder.ok("BEGIN; LOCK TABLE t");
    let before = thread_count();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&asked(number));
    }
    let mut watcher = Raw::connect(server.address());
    let waiting = "SELECT count(*) FROM halcyon.m_admission_control_queues";
    eventually("all but one wait at the gate", || watcher.count(waiting) == WAITERS - 1);
    eventually("those who wait have no threads", || thread_count() <= before + 3);
    holder.ok("COMMIT");
    for waiter in &mut waiters {
        let answer = waiter.until(b'Z');
        assert!(answer.iter().all(|frame| frame.kind != b'E'), "{answer:?}");
    }
    let rows = holder.query("SELECT n FROM t");
    assert_eq!(&rows[1].body[6..], WAITERS.to_string().as_bytes());
}

#[cfg(target_os = "linux")]
#[test]
fn statements_that_compute_keep_no_thread() {
    const READERS: usize = 60;
    let alone = lone_server("load::statements_that_compute_keep_no_thread");
    let Some(server) = alone else { return };
    let mut watcher = Raw::connect(server.address());
    watcher.ok("CREATE TABLE n (v BIGINT)");
    watcher.ok("INSERT INTO n SELECT i FROM generate_series(1, 3000) AS s(i)");
    watcher.ok("SET halcyon.point_plans = off; SELECT count(*) FROM n");
    let before = thread_count();
    let long = "SELECT count(*) FROM n a, n b, n c WHERE a.v + b.v + c.v > 0";
    let mut readers: Vec<_> = (0..READERS).map(|_| Raw::connect(server.address())).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        let asked = match number % 2 {
            0 => query(long),
            _ => [parse("", long), bind("", "", &[]), execute("", 0), sync()].concat(),
        };
        reader.send(&asked);
    }
    eventually("all compute", || watcher.count("SELECT count(*) FROM halcyon.tasks") == READERS);
    // Threads that have planned end when they have had nothing to do for ten seconds.
    eventually("those who await rows have no threads", || thread_count() <= before + 2);
    let running = "SELECT count(*) FROM halcyon.workers WHERE session IS NOT NULL";
    assert!(watcher.count(running) <= std::thread::available_parallelism().map_or(1, usize::from));
    let sessions = "SELECT session FROM halcyon.tasks WHERE pg_cancel_backend(session)";
    assert_eq!(watcher.count(&format!("SELECT count(*) FROM ({sessions}) q")), READERS);
    for reader in &mut readers {
        let answer = reader.until(b'Z');
        assert_eq!(state_of(&answer), Some("57014"), "{answer:?}");
    }
    eventually("no task is left", || watcher.count("SELECT count(*) FROM halcyon.tasks") == 0);
}

/// Queries over system tables, some of which count the rows of tables, by both protocols and in blocks.
#[cfg(target_os = "linux")]
#[test]
fn queries_over_system_tables_have_no_thread_of_their_own() {
    const READERS: usize = 200;
    let alone = lone_server("load::queries_over_system_tables_have_no_thread_of_their_own");
    let Some(server) = alone else { return };
    let mut watcher = Raw::connect(server.address());
    watcher.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)");
    watcher.ok("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 5000) AS s(i)");
    let described = "SELECT a.attname, c.reltuples::int, pg_table_size(c.oid) > 0 FROM pg_class c \
        JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid \
        WHERE c.relname = 't' AND n.nspname = 'public' AND a.attnum > 0 ORDER BY a.attnum";
    watcher.ok(described);
    let before = thread_count();
    let mut readers: Vec<_> = (0..READERS).map(|_| Raw::connect(server.address())).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        let asked = match number % 3 {
            0 => query(described),
            1 => query(&format!("BEGIN; {described}; COMMIT")),
            _ => [parse("", described), bind("", "", &[]), execute("", 0), sync()].concat(),
        };
        reader.send(&asked);
    }
    let mut most = 0;
    for reader in &mut readers {
        most = most.max(own_thread_count());
        let answer = reader.until(b'Z');
        let rows = answer.iter().filter(|frame| frame.kind == b'D').map(|frame| &frame.body[..]);
        let expected: [&[u8]; 2] = [
            b"\0\x03\0\0\0\x02id\0\0\0\x045000\0\0\0\x01t",
            b"\0\x03\0\0\0\x04name\0\0\0\x045000\0\0\0\x01t",
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected, "{answer:?}");
    }
    assert_eq!(most, 0, "threads of queries");
    // Threads that have planned end when they have had nothing to do for ten seconds.
    eventually("threads that have planned are gone", || thread_count() <= before + 2);
    // A wait in the middle of a statement is seen.
    let mut sleeper = Raw::connect(server.address());
    sleeper.send(&query("SELECT pg_sleep(60) FROM t"));
    eventually("one that waits over rows has a thread", || own_thread_count() == 1);
    let sleeps = "query LIKE 'SELECT pg_sleep%'";
    watcher.ok(&format!("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {sleeps}"));
    sleeper.until(b'Z');
}

/// Sessions that commit while another is at the disk wait without a thread, whether they wrote in a statement of their own
/// or in a block, and each has its rows when the server starts again.
#[cfg(target_os = "linux")]
#[test]
fn commits_that_wait_for_the_disk_keep_no_thread() {
    const WRITERS: usize = 60;
    const COMMITS: usize = 10;
    if !is_alone("load::commits_that_wait_for_the_disk_keep_no_thread") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("halcyon-commits-{}", std::process::id()));
    let start = || {
        let database = halcyon::Database::open(&folder).expect("the folder is the test's own");
        server_of(database, ServerConfig { threads: 2, ..ServerConfig::default() })
    };
    let server = start();
    let mut watcher = Raw::connect(server.address());
    watcher.ok("CREATE TABLE t (id INTEGER PRIMARY KEY)");
    let mut listener = Raw::connect(server.address());
    listener.ok("LISTEN c");
    let mut writers: Vec<_> = (0..WRITERS).map(|_| Raw::connect(server.address())).collect();
    let before = thread_count();
    let mut most = 0;
    for commit in 0..COMMITS {
        for (number, writer) in writers.iter_mut().enumerate() {
            let text = format!("INSERT INTO t VALUES ({})", commit * WRITERS + number);
            let asked = match number % 4 {
                0 => query(&text),
                1 => query(&format!("BEGIN; {text}; COMMIT")),
                2 => query(&format!("BEGIN; {text}; NOTIFY c, '{commit}'; COMMIT")),
                _ => [parse("", &text), bind("", "", &[]), execute("", 0), sync()].concat(),
            };
            writer.send(&asked);
        }
        for writer in &mut writers {
            most = most.max(thread_count());
            let answer = writer.until(b'Z');
            assert!(answer.iter().all(|frame| frame.kind != b'E'), "{answer:?}");
        }
    }
    // One is at the disk; those that have planned, or took over a lane meanwhile, stay for ten seconds.
    assert!(most <= before + WRITERS / 2, "{before} threads, and then {most}");
    let batches = "SELECT commits > syncs FROM halcyon.log";
    assert_eq!(&watcher.query(batches)[1].body[6..], b"t", "commits share batches");
    let mut told: Vec<Frame> = Vec::new();
    while told.len() < WRITERS / 4 * COMMITS {
        told.extend(listener.until(b'A'));
    }
    let payloads = told.iter().map(|frame| frame.body[frame.body.len() - 2]);
    let expected = (0..COMMITS).flat_map(|commit| [b'0' + commit as u8; WRITERS / 4]);
    assert!(payloads.eq(expected), "each is told once, in the order of commits");
    drop((writers, watcher, listener));
    drop(server);
    let server = start();
    let rows = Raw::connect(server.address()).query("SELECT count(*) FROM t");
    assert_eq!(&rows[1].body[6..], (WRITERS * COMMITS).to_string().as_bytes());
    drop(server);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Subscribers wait for changes without a thread, hear of each, and end when the server's administrator says so.
#[cfg(target_os = "linux")]
#[test]
fn subscriptions_keep_no_thread() {
    const SUBSCRIBERS: usize = 90;
    let Some(server) = lone_server("load::subscriptions_keep_no_thread") else { return };
    let mut writer = Raw::connect(server.address());
    writer.ok("CREATE TABLE t (g INTEGER)");
    writer.ok("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g");
    let before = thread_count();
    let mut subscribers: Vec<_> =
        (0..SUBSCRIBERS).map(|_| Raw::connect(server.address())).collect();
    for (number, subscriber) in subscribers.iter_mut().enumerate() {
        let text = "SUBSCRIBE v";
        let asked = match number % 2 {
            0 => query(text),
            _ => [parse("", text), bind("", "", &[]), execute("", 0), sync()].concat(),
        };
        subscriber.send(&asked);
        let begun = subscriber.until(b'd');
        assert_eq!(begun.last().expect("a line").body, b"0\t=\n");
    }
    eventually("those who wait have no threads", || thread_count() <= before + 2);
    for change in 1..=3 {
        writer.ok("INSERT INTO t VALUES (7)");
        for subscriber in &mut subscribers {
            let end = format!("{change}\t=\n");
            // Signs of life may come before.
            while subscriber.until(b'd').last().expect("a line").body != end.as_bytes() {}
        }
    }
    assert!(thread_count() <= before + 2, "changes are told by the lanes' own threads");
    let ended =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SUBSCRIBE%'";
    let told = writer.query(ended);
    assert_eq!(told.iter().filter(|frame| frame.kind == b'D').count(), SUBSCRIBERS);
    for subscriber in &mut subscribers {
        assert_eq!(state_of(&subscriber.until(b'E')), Some("57P01"));
    }
    eventually("their places are free", || server.connections() == 1);
}

#[test]
fn a_suspended_statement_ends_as_others_do() {
    let server = server();
    let address = server.address();
    let mut holder = Raw::connect(address);
    holder.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE u (n INTEGER)");
    holder.ok("INSERT INTO t VALUES (1, 0); INSERT INTO u VALUES (0)");
    let text = "UPDATE t SET n = n + 1 WHERE id = 1";
    for block in ["", "BEGIN; "] {
        let mut waiter = Raw::connect(address);
        for (setting, expected) in [
            ("SET lock_timeout = '30ms'", "55P03"),
            ("SET lock_timeout = 0; SET statement_timeout = '30ms'", "57014"),
        ] {
            waiter.ok(setting);
            holder.ok("BEGIN; LOCK TABLE t");
            assert_eq!(state_of(&waiter.query(&format!("{block}{text}"))), Some(expected));
            holder.ok("COMMIT");
            waiter.query("ROLLBACK");
            waiter.ok("RESET statement_timeout; RESET lock_timeout");
            waiter.ok(text);
        }
        let waiting = |holder: &mut Raw| {
            holder.count("SELECT count(*) FROM halcyon.locks WHERE NOT granted") == 1
        };
        // Cancelled, and then asked to end.
        let number = waiter.count("SELECT pg_backend_pid()");
        for (wish, expected) in [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")]
        {
            holder.ok("BEGIN; LOCK TABLE t");
            waiter.send(&query(&format!("{block}{text}")));
            eventually("it waits", || waiting(&mut holder));
            holder.ok(&format!("SELECT {wish}({number})"));
            let answer = match expected {
                "57014" => waiter.until(b'Z'),
                _ => std::iter::from_fn(|| waiter.next()).collect(),
            };
            let states: Vec<_> =
                answer.iter().filter(|frame| frame.kind == b'E').map(|f| f.field(b'C')).collect();
            assert!(states.contains(&Some(expected)), "{wish}: {states:?}");
            holder.ok("COMMIT");
            if expected == "57014" {
                waiter.query("ROLLBACK");
            }
        }
        // The table is gone when its lock comes.
        let mut waiter = Raw::connect(address);
        holder.ok("CREATE TABLE passing (n INTEGER)");
        waiter.ok("UPDATE passing SET n = 1");
        holder.ok("BEGIN; DROP TABLE passing");
        waiter.send(&query(&format!("{block}UPDATE passing SET n = 1")));
        eventually("it waits", || waiting(&mut holder));
        holder.ok("COMMIT");
        assert_eq!(state_of(&waiter.until(b'Z')), Some("42P01"));
        waiter.query("ROLLBACK");
        // The client is gone when its lock comes: what it held is free.
        holder.ok("BEGIN; LOCK TABLE t");
        waiter.ok("BEGIN; UPDATE u SET n = n + 1");
        waiter.send(&query(text));
        eventually("it waits", || waiting(&mut holder));
        drop(waiter);
        holder.ok("COMMIT");
        holder.ok("SET lock_timeout = '10s'; UPDATE u SET n = n + 1; RESET lock_timeout");
    }
    // A deadlock has one victim, whose locks are free.
    let mut other = Raw::connect(address);
    holder.ok("BEGIN; UPDATE t SET n = 0");
    other.ok("BEGIN; UPDATE u SET n = 0");
    other.send(&query("UPDATE t SET n = 1"));
    let first = holder.query("UPDATE u SET n = 1");
    let second = other.until(b'Z');
    let states = [state_of(&first), state_of(&second)];
    assert!(states == [Some("40P01"), None] || states == [None, Some("40P01")], "{states:?}");
}
