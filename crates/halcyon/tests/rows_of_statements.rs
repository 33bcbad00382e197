//! Rows that random statements answer with or change.
//!
//! In the ordinary run, a seed's statements are compared with themselves said in another way: rows for
//! which a condition holds, counted in WHERE and counted by CASE; conditions that hold, do not hold and are
//! NULL, which are all rows; point plans beside vectorised ones.
//!
//! `HALCYON_FUZZ_POSTGRES="host=… port=… user=… dbname=…"` compares with PostgreSQL over the wire instead, for
//! `HALCYON_FUZZ_SECONDS` (20), from `HALCYON_FUZZ_SEED` (1) on, in a schema of that database. Halcyon runs
//! within the test, or is a server that `HALCYON_FUZZ_SERVER` names in the same way.
//! `HALCYON_FUZZ_RECORD=FILE` writes statements with PostgreSQL's answers, as `tests/sql/random.slt` has them.

#[path = "rows_of_statements/statements.rs"]
mod statements;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use halcyon::{Database, Session, SqlState, SqlType, TextFormat};
use statements::Statements;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Rows as text, sorted, or the state of an error.
type Answer = Result<Vec<String>, String>;

/// Who answers statements.
enum Answering {
    Session(Box<Session>),
    Client(Box<(Runtime, Client)>),
}

impl Answering {
    fn session(point_plans: bool) -> Self {
        let mut session = Database::in_memory().session();
        let setting = if point_plans { "on" } else { "off" };
        session.set("halcyon.point_plans", setting).expect("a setting");
        Answering::Session(Box::new(session))
    }

    fn client(config: &str) -> Self {
        let runtime = Runtime::new().expect("threads");
        let client = runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(config, NoTls).await.expect("the server answers");
            tokio::spawn(connection);
            client
        });
        Answering::Client(Box::new((runtime, client)))
    }

    fn ask(&mut self, sql: &str) -> Answer {
        let mut rows = match self {
            Answering::Session(session) => of_session(session, sql)?,
            Answering::Client(connected) => {
                let (runtime, client) = &**connected;
                let answer = runtime.block_on(client.simple_query(sql));
                let messages = answer.map_err(|error| match error.code() {
                    Some(state) => state.code().to_owned(),
                    None => panic!("{sql}\n{error}"),
                })?;
                let row = |message: &SimpleQueryMessage| match message {
                    SimpleQueryMessage::Row(row) => {
                        let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                        Some(cells.collect::<Vec<_>>().join(" "))
                    }
                    _ => None,
                };
                messages.iter().filter_map(row).collect()
            }
        };
        rows.sort();
        Ok(rows)
    }

    fn must(&mut self, sql: &str) {
        if let Err(state) = self.ask(sql) {
            panic!("{state}: {sql}");
        }
    }
}

fn of_session(session: &mut Session, sql: &str) -> Answer {
    let state = |error: halcyon::SqlError| error.state().to_string();
    let mut rows = match session.query(sql, &[]) {
        // A statement that is no query.
        Err(error) if error.state() == SqlState::NO_DATA => return Ok(Vec::new()),
        other => other.map_err(state)?,
    };
    let types: Vec<SqlType> =
        rows.columns().iter().map(|column| column.ty.unwrap_or(SqlType::Text)).collect();
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(state)? {
        let cells = types.iter().enumerate().map(|(at, ty)| match row.value(at) {
            value if value.is_null() => "NULL".to_owned(),
            value => TextFormat::default().text(value, *ty),
        });
        all.push(cells.collect::<Vec<_>>().join(" "));
    }
    Ok(all)
}

/// An error that says that something is not offered, or that a subquery had two rows, which shows
/// only if somebody looks.
fn tells_nothing(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|state| state == "0A000" || state == "21000")
}

#[test]
fn a_condition_says_the_same_wherever_it_stands() {
    let mut wrong = Vec::new();
    for seed in 1..=6 {
        let mut statements = Statements::new(seed);
        let mut sessions = [Answering::session(true), Answering::session(false)];
        for text in statements.tables() {
            sessions.iter_mut().for_each(|session| session.must(&text));
        }
        for _ in 0..8 {
            let (from, condition) = statements.condition_over();
            let texts = [
                format!("SELECT count(*) FROM {from} WHERE {condition}"),
                format!("SELECT count(CASE WHEN {condition} THEN 1 END) FROM {from}"),
                format!("SELECT count(*) FROM {from} WHERE NOT ({condition})"),
                format!("SELECT count(*) FROM {from} WHERE ({condition}) IS NULL"),
                format!("SELECT count(*) FROM {from}"),
            ];
            for session in &mut sessions {
                let answers = texts.each_ref().map(|text| session.ask(text));
                if answers.iter().any(tells_nothing) {
                    continue;
                }
                let counts = answers.each_ref().map(|answer| {
                    answer.as_ref().ok().and_then(|rows| rows[0].parse::<i64>().ok())
                });
                let right = match counts {
                    [Some(yes), Some(again), Some(no), Some(unknown), Some(all)] => {
                        yes == again && yes + no + unknown == all
                    }
                    _ => false,
                };
                if !right {
                    wrong.push(format!("seed {seed}: {answers:?}\n  {}", texts[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of the conditions:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn answers_are_those_of_postgresql() {
    let Ok(postgres) = std::env::var("HALCYON_FUZZ_POSTGRES") else { return };
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let patience = Duration::from_secs(number("HALCYON_FUZZ_SECONDS", 20));
    let first = number("HALCYON_FUZZ_SEED", 1);
    let (begin, mut reference) = (Instant::now(), Answering::client(&postgres));
    let mut compared = Compared::default();
    for seed in first.. {
        if begin.elapsed() > patience {
            break;
        }
        compare(seed, &mut reference, &mut compared);
    }
    if let Ok(path) = std::env::var("HALCYON_FUZZ_RECORD") {
        std::fs::write(path, &compared.records).expect("a file that can be written");
    }
    let Compared { wrong, asked, refused, .. } = compared;
    println!("{asked} statements, {refused} refused, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What came of comparing.
#[derive(Default)]
struct Compared {
    wrong: Vec<String>,
    asked: usize,
    refused: usize,
    /// Statements with their answers, in the form of `tests/sql`.
    records: String,
}

fn compare(seed: u64, reference: &mut Answering, compared: &mut Compared) {
    const SCHEMA: &str = "halcyon_fuzz";
    let _ = reference.ask(&format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"));
    reference.must(&format!("CREATE SCHEMA {SCHEMA}"));
    reference.must(&format!("SET search_path = {SCHEMA}; SET statement_timeout = 10000"));
    let mut own = match std::env::var("HALCYON_FUZZ_SERVER") {
        Ok(server) => {
            let mut client = Answering::client(&server);
            for name in Statements::names() {
                client.must(&format!("DROP TABLE IF EXISTS {name}"));
            }
            vec![client]
        }
        Err(_) => vec![Answering::session(true), Answering::session(false)],
    };
    let mut statements = Statements::new(seed);
    for text in statements.tables() {
        reference.must(&text);
        own.iter_mut().for_each(|own| own.must(&text));
        let _ = write!(compared.records, "statement ok\n{text}\n\n");
    }
    for round in 0..24 {
        let texts = match round % 4 {
            3 => {
                let (write, table) = statements.write();
                vec![write, format!("SELECT * FROM {table}")]
            }
            _ => vec![statements.query()],
        };
        let answers: Vec<Answer> = texts.iter().map(|text| reference.ask(text)).collect();
        for own in &mut own {
            let found: Vec<Answer> = texts.iter().map(|text| own.ask(text)).collect();
            compared.asked += 1;
            if found.iter().chain(&answers).any(tells_nothing) {
                // Tables that may differ from now on are of no use.
                compared.refused += 1;
                if texts.len() > 1 {
                    return;
                }
                continue;
            }
            if found != answers && !(found[0].is_err() && answers[0].is_err()) {
                let text = texts.join("; ");
                compared.wrong.push(format!("seed {seed}: {text}\n  {found:?}\n  {answers:?}"));
                if texts.len() > 1 {
                    return;
                }
            }
        }
        for (text, answer) in texts.iter().zip(&answers) {
            record(text, answer, &mut compared.records);
        }
    }
    for name in Statements::names() {
        let _ = write!(compared.records, "statement ok\nDROP TABLE {name}\n\n");
    }
}

fn record(text: &str, answer: &Answer, records: &mut String) {
    let Ok(rows) = answer else { return };
    let written = match text.starts_with("SELECT") || text.starts_with('(') {
        true => {
            let columns = rows.first().map_or(1, |row| row.split(' ').count());
            let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
            format!("query {} rowsort\n{text}\n----\n{rows}\n", "I".repeat(columns))
        }
        false => format!("statement ok\n{text}\n\n"),
    };
    records.push_str(&written);
}
