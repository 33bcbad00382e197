//! Random bytes against the message decoder and the state machine of a connection, and random
//! SQL text: no panic, no hang, and the server serves others afterwards.
//!
//! Strategy: streams of well-formed messages in random order with random names, values and
//! statements; some have bytes flipped, cut or doubled. A seed is printed when it fails:
//! `HALCYON_FUZZ_SEED=n cargo test -p halcyon-server --test wire fuzz` repeats it;
//! `HALCYON_FUZZ_SECONDS` sets how long each test runs, instead of a number of rounds.
//! Invariants: every answer is a sequence of whole messages; the connection ends, or is ready; no
//! error is an internal one (XX000), which is what a panic in a statement becomes.

use std::time::{Duration, Instant};

use super::common::*;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// Rounds from the first seed on, `count` of them or as many as the time allows; the seed of a
/// failing round is printed.
fn rounds(count: u64, mut round: impl FnMut(Random)) {
    let mut one = |seed: u64| {
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            round(Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
        }));
        if let Err(panic) = seen {
            eprintln!(
                "repeat with: HALCYON_FUZZ_SEED={seed} cargo test -p halcyon-server --test wire fuzz"
            );
            std::panic::resume_unwind(panic);
        }
    };
    if let Some(seed) = environment("HALCYON_FUZZ_SEED") {
        return one(seed);
    }
    match environment("HALCYON_FUZZ_SECONDS").map(Duration::from_secs) {
        None => (1..=count).for_each(one),
        Some(time) => {
            let start = Instant::now();
            (1..).take_while(|_| start.elapsed() < time).for_each(one);
        }
    }
}

const STATEMENTS: &[&str] = &[
    "SELECT 1",
    "SELECT $1::int",
    "SELECT id, n FROM t WHERE id = $1",
    "INSERT INTO t VALUES ($1, $2)",
    "UPDATE t SET n = 'x' WHERE id < 10 RETURNING id",
    "DELETE FROM t WHERE id > 100",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "COPY t FROM STDIN",
    "COPY t TO STDOUT",
    "SET application_name = 'fuzz'",
    "SELECT 1; SELECT 2",
    "SELECT count(*) FROM t a, t b",
    "",
    ";",
    "not SQL",
];

fn name(random: &mut Random) -> &'static str {
    random.pick(&["", "a", "b"])
}

fn random_message(random: &mut Random) -> Vec<u8> {
    match random.below(14) {
        0 | 1 => query(random.pick(STATEMENTS)),
        2 | 3 => parse(name(random), random.pick(STATEMENTS)),
        4 | 5 => {
            let values = ["1", "7", "text", ""];
            let count = random.below(3);
            let params: Vec<_> = (0..count).map(|_| random.pick(&values)).collect();
            bind(name(random), name(random), &params)
        }
        6 => describe(random.pick(b"SP"), name(random)),
        7 | 8 => execute(name(random), random.below(3) as u32),
        9 => message(b'C', &[&[random.pick(b"SP")], name(random).as_bytes(), b"\0"]),
        10 => message(b'd', &[random.pick(&[&b"1\tx\n"[..], b"x", b"\\.\n", b"2"])]),
        11 => message(random.pick(b"cH"), &[]),
        12 => message(b'f', &[b"no\0"]),
        _ => sync(),
    }
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(4) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        _ => {
            let copy = bytes[at..].to_vec();
            bytes.extend(copy);
        }
    }
}

/// Reads whole messages to the end of the stream; none of them may tell of a broken invariant.
fn drain(raw: &mut Raw) {
    while let Some(frame) = raw.next() {
        if frame.kind == b'E' {
            let state = frame.field(b'C').expect("every error has a state");
            assert_ne!(state, "XX000", "{frame:?}");
        }
    }
}

#[test]
fn random_streams_of_messages_break_nothing() {
    let server = server();
    Raw::connect(server.address()).ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT)");
    rounds(200, |mut random| {
        let mut stream: Vec<u8> = Vec::new();
        for _ in 0..random.below(30) {
            let mut next = random_message(&mut random);
            if random.below(12) == 0 {
                damage(&mut random, &mut next);
            }
            stream.extend(next);
        }
        let mut raw = Raw::connect(server.address());
        raw.send(&stream);
        // The stream ends here: announced bytes do not come.
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        drain(&mut raw);
    });
    eventually("the end of all connections", || server.connections() == 0);
    Raw::connect(server.address()).ok("SELECT count(*) FROM t");
}

#[test]
fn random_first_bytes_break_nothing() {
    let server = server();
    rounds(200, |mut random| {
        let mut packet = startup(&superuser());
        for _ in 0..=random.below(3) {
            damage(&mut random, &mut packet);
        }
        let mut raw = Raw::silent(server.address());
        raw.send(&packet);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut raw.stream, &mut rest).ok();
    });
    Raw::connect(server.address()).ok("SELECT 1");
}

#[test]
fn random_bodies_of_messages_decode_or_are_refused() {
    use halcyon_server::wire::frontend::decode;
    rounds(200_000, |mut random| {
        let mut bytes = random_message(&mut random);
        damage(&mut random, &mut bytes);
        let kind = bytes.first().copied().unwrap_or(b'B');
        let body = bytes.get(5..).unwrap_or_default();
        let _ = decode(kind, bytes::Bytes::copy_from_slice(body));
    });
}

const TOKENS: &[&str] = &[
    "SELECT",
    "FROM",
    "t",
    "WHERE",
    "id",
    "n",
    "=",
    "<",
    "(",
    ")",
    ",",
    "*",
    "+",
    "-",
    "/",
    "'x'",
    "1",
    "0",
    "1.5",
    "9223372036854775807",
    "NULL",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "GROUP",
    "BY",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "ON",
    "USING",
    "UNION",
    "ALL",
    "EXCEPT",
    "DISTINCT",
    "COUNT",
    "SUM",
    "CAST",
    "AS",
    "INTEGER",
    "TEXT",
    "NUMERIC",
    "DATE",
    "INTERVAL",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "RETURNING",
    "CREATE",
    "TABLE",
    "DROP",
    "INDEX",
    "VIEW",
    "PRIMARY",
    "KEY",
    "BEGIN",
    "COMMIT",
    "EXPLAIN",
    "WITH",
    "RECURSIVE",
    "OVER",
    "PARTITION",
    "EXISTS",
    "ANY",
    "$1",
    "::",
    ";",
    "--",
    "/*",
    "*/",
    "\"",
    "'",
    "ä",
    "\u{1F600}",
    "[",
    "]",
    ".",
    "||",
    "%",
    "coalesce",
    "now()",
    "DEFAULT",
    "ARRAY",
    "LATERAL",
    "VALUES (1), (2)",
    "e'\\x'",
    "B'1'",
    "COPY",
    "STDOUT",
];

#[test]
fn random_sql_text_breaks_nothing() {
    let server = server();
    let mut raw = Raw::connect(server.address());
    raw.ok("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT)");
    raw.ok("SET statement_timeout = '5s'");
    let valid = [
        "SELECT t.id, count(*) FROM t LEFT JOIN t u ON t.id = u.id WHERE t.n LIKE 'a%' GROUP BY t.id",
        "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT * FROM r",
        "INSERT INTO t SELECT id + 1000, n FROM t ON CONFLICT (id) DO UPDATE SET n = 'x' RETURNING *",
        "UPDATE t SET n = CASE WHEN id > 5 THEN 'a' ELSE n || 'b' END WHERE id IN (SELECT id FROM t)",
        "SELECT sum(id) OVER (PARTITION BY n ORDER BY id) FROM t ORDER BY 1 LIMIT 3 OFFSET 1",
    ];
    rounds(400, |mut random| {
        let text = match random.below(2) {
            0 => {
                let count = 1 + random.below(14);
                (0..count).map(|_| random.pick(TOKENS)).collect::<Vec<_>>().join(" ")
            }
            _ => {
                let mut words: Vec<_> = random.pick(&valid).split(' ').collect();
                for _ in 0..=random.below(3) {
                    let at = random.below(words.len());
                    match random.below(3) {
                        0 => words[at] = random.pick(TOKENS),
                        1 => words.insert(at, random.pick(TOKENS)),
                        _ => drop(words.remove(at)),
                    }
                    if words.is_empty() {
                        words.push("SELECT");
                    }
                }
                words.join(" ")
            }
        };
        raw.send(&[query(&text), message(b'f', &[b"no\0"])].concat());
        let answer = raw.until(b'Z');
        assert_eq!(answer.last().map(|frame| frame.kind), Some(b'Z'), "{text}");
        let internal = answer.iter().find(|frame| frame.field(b'C') == Some("XX000"));
        assert!(internal.is_none_or(|frame| frame.kind != b'E'), "{text}: {internal:?}");
        if answer.last().is_some_and(|frame| frame.body != b"I") {
            raw.ok("ROLLBACK");
        }
    });
}
