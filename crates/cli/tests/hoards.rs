//! Sessions that hoard: what a client can make a server keep by many small statements or messages is refused
//! (53200, 54000) before it fills the server's memory, and others are answered meanwhile.
//!
//! Each case runs on a server of its own with a small limit ([`LIMIT_MB`]), which holds the same in a large one.

mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use server::Server;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// `memory_limit` of the servers. The program itself takes up to sixty.
const LIMIT_MB: u64 = 128;
/// What the process may have at most, beyond the limit: what one message or batch takes.
const ABOVE_LIMIT_MB: u64 = 64;
/// Hoarding that is never refused ends the test after so many statements.
const STATEMENTS_MAX: usize = 20_000;

/// A server with the limit.
fn start() -> Server {
    Server::start(&mut Command::new(server::binary()), Some(LIMIT_MB))
}

fn is_refusal(error: &Error) -> bool {
    let refusals = [SqlState::OUT_OF_MEMORY, SqlState::PROGRAM_LIMIT_EXCEEDED];
    error.code().is_some_and(|state| refusals.contains(state))
}

/// Sends statements until one is refused; panics if none is.
async fn until_refused(client: &Client, statement: impl Fn(usize) -> String) -> Error {
    for number in 0..STATEMENTS_MAX {
        if let Err(error) = client.batch_execute(&statement(number)).await {
            assert!(is_refusal(&error), "{error:?}");
            return error;
        }
    }
    panic!("{} was never refused", statement(0).chars().take(80).collect::<String>());
}

/// Runs a case: `hoard` is refused, while another client is answered and the process stays small.
fn check<F: Future<Output = ()>>(hoard: impl FnOnce(Client, Client) -> F) {
    let server = start();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let other = server.connect().await;
        other
            .batch_execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)")
            .await
            .expect("small");
        hoard(server.connect().await, server.connect().await).await;
        let row =
            other.query_one("SELECT a FROM t WHERE a = 1", &[]).await.expect("it is answered");
        assert_eq!(row.get::<_, i32>(0), 1);
        other.batch_execute("BEGIN; SHOW memory_limit; COMMIT").await.expect("it is answered");
    });
    let most = (LIMIT_MB + ABOVE_LIMIT_MB) << 20;
    let has = server.resident();
    assert!(has < most, "the server has {} MB", has >> 20);
}

/// A statement many times over, with a number that begins at `number * times`.
fn times(number: usize, times: usize, one: impl Fn(usize) -> String) -> String {
    (number * times..(number + 1) * times).map(one).collect()
}

#[test]
fn notifications_that_nobody_reads_are_refused() {
    check(|sender, listener| async move {
        // Within a transaction a session is told nothing.
        listener.batch_execute("LISTEN c").await.expect("small");
        listener.batch_execute("BEGIN").await.expect("small");
        let payload = "x".repeat(7000);
        let refused = until_refused(&sender, |number| {
            times(number, 100, |at| format!("NOTIFY c, '{at}{payload}';"))
        });
        refused.await;
        // A refusal for memory gives that of its own batch back: there may be room for a few more.
        let called = "SELECT pg_notify('c', repeat('y', 7000) || g) FROM generate_series(1, 100) g";
        until_refused(&sender, |_| called.to_owned()).await;
        listener.batch_execute("COMMIT; SELECT 1").await.expect("it reads now");
        drop(listener);
        until_there_is_room(&sender, "NOTIFY c, 'z'").await;
    });
}

#[test]
fn advisory_locks_are_refused_and_end_with_their_session() {
    check(|client, _other| async move {
        let error = until_refused(&client, |number| {
            let first = number * 5000;
            format!(
                "SELECT count(pg_advisory_lock(g)) FROM generate_series({first}, {}) g",
                first + 4999
            )
        });
        assert_eq!(error.await.code(), Some(&SqlState::OUT_OF_MEMORY));
        let began = Instant::now();
        for _ in 0..100 {
            client.batch_execute("SELECT 1").await.expect("it is answered");
        }
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the ends of statements look at no locks of others"
        );
        client.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("it gives back");
        until_there_is_room(&client, "SELECT pg_advisory_lock(1)").await;
    });
}

/// Runs a statement once what was freed has been given back to the system.
async fn until_there_is_room(client: &Client, statement: &str) {
    let mut last = None;
    for _ in 0..200 {
        match client.batch_execute(statement).await {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{statement}: there is no room again: {last:?}");
}

/// Rows of a table fill the memory until `hoard`, a statement with a number, is refused; then they go.
async fn until_refused_beside_rows(
    client: &Client,
    other: &Client,
    hoard: impl Fn(usize) -> String,
) -> Error {
    other.batch_execute("CREATE TABLE fill (t TEXT)").await.expect("small");
    for number in 0..STATEMENTS_MAX {
        if let Err(error) = client.batch_execute(&hoard(number)).await {
            other.batch_execute("DROP TABLE fill").await.expect("it gives back");
            return error;
        }
        // So few that they are refused only when more is in use than the limit.
        let rows = "INSERT INTO fill SELECT repeat('x', 1000) FROM generate_series(1, 400)";
        other.batch_execute(rows).await.expect("rows are refused later than what is hoarded");
    }
    panic!("{} was never refused", hoard(0));
}

#[test]
fn savepoints_and_channels_are_refused_when_memory_is_short() {
    // By the million they would take hours here.
    check(|client, other| async move {
        client.batch_execute("BEGIN").await.expect("small");
        let savepoint = |_| "SAVEPOINT s".to_owned();
        let error = until_refused_beside_rows(&client, &other, savepoint).await;
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY));
        client.batch_execute("ROLLBACK").await.expect("it takes nothing");
        let listen = |number| format!("LISTEN c{number}");
        let error = until_refused_beside_rows(&client, &other, listen).await;
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY));
        client.batch_execute("UNLISTEN *").await.expect("it takes nothing");
    });
}

#[test]
fn prepared_statements_and_cursors_are_refused() {
    check(|client, other| async move {
        let text = "y".repeat(200_000);
        let prepare = |number: usize| format!("PREPARE p{number} AS SELECT '{text}' || $1::text");
        until_refused(&client, prepare).await;
        client.batch_execute("DEALLOCATE ALL").await.expect("it gives back");
        until_there_is_room(&client, "PREPARE p AS SELECT 1").await;
        client.batch_execute("DEALLOCATE ALL").await.expect("it gives back");
        other.batch_execute("BEGIN").await.expect("small");
        until_refused(&other, |number| {
            format!("DECLARE c{number} CURSOR WITH HOLD FOR SELECT '{text}' || {number}")
        })
        .await;
        other.batch_execute("ROLLBACK").await.expect("it gives back");
    });
}

#[test]
fn statements_of_the_protocol_are_refused() {
    check(|client, _other| async move {
        let text = format!("SELECT $1::int, '{}'", "y".repeat(200_000));
        let mut kept = Vec::new();
        let error = loop {
            assert!(kept.len() < STATEMENTS_MAX, "never refused");
            match client.prepare(&text).await {
                Ok(statement) => kept.push(statement),
                Err(error) => break error,
            }
        };
        assert!(is_refusal(&error), "{error:?}");
    });
}

#[test]
fn settings_of_a_programs_own_are_refused() {
    check(|client, _other| async move {
        let value = "z".repeat(100_000);
        until_refused(&client, |number| format!("SET my.own{number} = '{value}'")).await;
        client.batch_execute("RESET ALL; SET my.own = 'small'").await.expect("there is room again");
    });
}

#[test]
fn a_commit_whose_record_does_not_fit_is_rolled_back() {
    let folder = std::env::temp_dir().join(format!("halcyon-hoards-{}", std::process::id()));
    let mut command = Command::new(server::binary());
    let server = Server::start(command.arg("serve").arg("--data").arg(&folder), Some(LIMIT_MB));
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = server.connect().await;
        client
            .batch_execute("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (0, 'kept')")
            .await
            .expect("small");
        client.batch_execute("BEGIN").await.expect("small");
        let many = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 25000) g";
        client.batch_execute(many).await.expect("it fits");
        let error = client.batch_execute("COMMIT").await.expect_err("its record does not");
        assert_eq!(error.code(), Some(&SqlState::OUT_OF_MEMORY), "{error:?}");
        let row = client.query_one("SELECT count(*) FROM t", &[]).await.expect("it is answered");
        assert_eq!(row.get::<_, i64>(0), 1, "no trace");
        client.batch_execute("INSERT INTO t VALUES (1, 'small')").await.expect("there is room");
    });
    drop(server);
    // What is left of the folder is the system's.
    let _ = std::fs::remove_dir_all(&folder);
}

/// A connection that speaks the protocol byte by byte.
struct Raw(TcpStream);

impl Raw {
    fn connect(server: &Server) -> Raw {
        let stream = TcpStream::connect(&server.address).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream.set_write_timeout(Some(Duration::from_secs(60))).expect("a time");
        let mut raw = Raw(stream);
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0halcyon\0database\0halcyon\0\0");
        let length = u32::try_from(body.len() + 4).expect("short");
        raw.0.write_all(&length.to_be_bytes()).expect("it reads");
        raw.0.write_all(&body).expect("it reads");
        raw.until(b'Z');
        raw
    }

    fn send(&mut self, kind: u8, length: u32, body: &[u8]) -> std::io::Result<()> {
        self.0.write_all(&[kind])?;
        self.0.write_all(&length.to_be_bytes())?;
        self.0.write_all(body)
    }

    fn message(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).expect("short") - 4];
        self.0.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    /// Reads up to a message of a kind, or an error; its body.
    fn until(&mut self, kind: u8) -> String {
        loop {
            let (found, body) = self.message().expect("an answer");
            if found == kind || found == b'E' {
                return String::from_utf8_lossy(&body).into_owned();
            }
        }
    }
}

#[test]
fn a_line_without_end_is_refused() {
    let server = start();
    let mut raw = Raw::connect(&server);
    let query = b"CREATE TABLE lines (t TEXT)\0";
    raw.send(b'Q', 4 + 28, query).expect("it reads");
    raw.until(b'Z');
    raw.send(b'Q', 4 + 22, b"COPY lines FROM STDIN\0").expect("it reads");
    raw.until(b'G');
    let piece = vec![b'x'; 1 << 20];
    let sent = (0..512).take_while(|_| raw.send(b'd', 4 + (1 << 20), &piece).is_ok()).count();
    // The server may have ended the connection within a piece.
    let _ = raw.send(b'c', 4, b"");
    let told = raw.until(b'C');
    assert!(told.contains("53200") || told.contains("54000"), "{sent} MB sent: {told}");
    let has = server.resident();
    assert!(has < (LIMIT_MB + ABOVE_LIMIT_MB) << 20, "the server has {} MB", has >> 20);
    drop(Raw::connect(&server));
}

#[test]
fn a_message_of_two_gigabytes_is_refused_before_it_arrives() {
    let server = start();
    for kind in [b'P', b'B', b'Q', b'd'] {
        let mut raw = Raw::connect(&server);
        raw.send(kind, 0x7fff_ffff, b"s\0").expect("it reads");
        let told = raw.until(b'E');
        assert!(told.contains("08P01") || told.contains("53200"), "{told}");
    }
    // One that is legal is refused when memory is full, not before.
    let mut raw = Raw::connect(&server);
    let piece = vec![b' '; 1 << 20];
    let began = raw.send(b'Q', 900 << 20, &piece);
    let sent = (0..900).take_while(|_| began.is_ok() && raw.0.write_all(&piece).is_ok()).count();
    assert!(sent < 800, "{sent} MB were taken");
    let has = server.resident();
    assert!(has < (LIMIT_MB + ABOVE_LIMIT_MB) << 20, "the server has {} MB", has >> 20);
    drop(Raw::connect(&server));
}

#[test]
fn a_client_that_does_not_read_holds_no_result() {
    let server = start();
    let mut idle: Vec<Raw> = (0..4).map(|_| Raw::connect(&server)).collect();
    for raw in &mut idle {
        let text = b"SELECT repeat('x', 10000) || g FROM generate_series(1, 1000000) g\0";
        raw.send(b'Q', 4 + u32::try_from(text.len()).expect("short"), text).expect("it reads");
    }
    std::thread::sleep(Duration::from_secs(3));
    let has = server.resident();
    assert!(has < (LIMIT_MB + ABOVE_LIMIT_MB) << 20, "the server has {} MB", has >> 20);
    let mut other = Raw::connect(&server);
    other.send(b'Q', 4 + 9, b"SELECT 1\0").expect("it reads");
    assert!(!other.until(b'C').contains("53200"));
}
