//! Random statements over values of all types, asked of this server and of PostgreSQL over the wire: rows, the
//! types of their columns and SQLSTATEs must be the same.
//!
//! In the ordinary run, the answers are compared with those of another server of ours: plans that look rows up beside
//! vectorised ones.
//!
//! `HALCYON_FUZZ_POSTGRES="host=… port=… user=… dbname=…"` names the PostgreSQL; its schema `halcyon_beside` is
//! dropped and made anew. `HALCYON_FUZZ_SECONDS` (20) is for how long, `HALCYON_FUZZ_SEED` (1) the first seed,
//! `HALCYON_FUZZ_SERVER` another server of Halcyon's in the same form.

#[path = "beside_postgresql/statements.rs"]
mod statements;
#[path = "beside_postgresql/templates.rs"]
mod templates;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use halcyon::Database;
use halcyon_server::{Server, ServerConfig, serve};
use statements::{Expression, Statement, Statements};
use tokio::runtime::Runtime;
use tokio_postgres::types::{FromSql, Kind, Type as PgType};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Differences that have a reason: a part of the statement or of what we say to it, or several with ` & ` between them,
/// and the reason.
const KNOWN: &str = include_str!("beside_postgresql/known.txt");

/// What came of a statement: types of columns and rows as texts, or an error's state and message.
type Answer = Result<(Vec<u32>, Vec<String>), (String, String)>;

/// A connection.
struct Asked {
    runtime: Runtime,
    client: Client,
}

impl Asked {
    fn new(config: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let client = runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(config, NoTls).await.expect("the server answers");
            tokio::spawn(connection);
            client
        });
        Asked { runtime, client }
    }

    fn must(&self, sql: &str) {
        if let Err(error) = self.runtime.block_on(self.client.batch_execute(sql)) {
            panic!("{sql}\n{error:?}");
        }
    }

    fn ask(&self, sql: &str, ordered: bool) -> Answer {
        let failed = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(told) => (told.code().code().to_owned(), told.message().to_owned()),
            None => panic!("{sql}\n{error}"),
        };
        self.runtime.block_on(async {
            let prepared = self.client.prepare(sql).await.map_err(failed)?;
            // Texts of a length become texts in expressions.
            let known = |ty: u32| if matches!(ty, 1042 | 1043) { 25 } else { ty };
            let types: Vec<u32> =
                prepared.columns().iter().map(|column| known(column.type_().oid())).collect();
            if sql.contains("$1") {
                // What values parameters have is left open.
                let of_parameters = prepared.params().iter().map(|ty| known(ty.oid()).to_string());
                return Ok((types, of_parameters.collect()));
            }
            let messages = self.client.simple_query(sql).await.map_err(failed)?;
            let row = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len())
                        .map(|at| cell(row.get(at), types.get(at).copied().unwrap_or(0)));
                    Some(cells.collect::<Vec<_>>().join(" | "))
                }
                _ => None,
            };
            let mut rows: Vec<String> = messages.iter().filter_map(row).collect();
            if sql.starts_with("SELECT") {
                let binary = self.client.query(&prepared, &[]).await.map_err(failed)?;
                rows.extend(binary.iter().map(|row| {
                    let cells = (0..row.len())
                        .map(|at| row.get::<_, Option<Bytes>>(at).map(|bytes| bytes.0));
                    let shown = cells.map(|cell| cell.unwrap_or_else(|| "NULL".to_owned()));
                    format!("binary {}", shown.collect::<Vec<_>>().join(" | "))
                }));
            }
            if !ordered {
                rows.sort();
            }
            Ok((types, rows))
        })
    }
}

/// A value's bytes in the binary format, as hexadecimal digits. Of numbers that may have been rounded otherwise, and of
/// what may hold some, there is nothing: their texts are compared.
struct Bytes(String);

impl<'a> FromSql<'a> for Bytes {
    fn from_sql(
        ty: &PgType,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        if matches!(ty.oid(), 700 | 701 | 1700 | 114 | 3802 | 1042 | 1043 | 25) {
            return Ok(Bytes("…".to_owned()));
        }
        if let Kind::Array(_) = ty.kind()
            && raw.len() >= 8
        {
            // A part of an array has NULL for PostgreSQL if the array has.
            let plain = raw[..4].iter().chain(&raw[8..]);
            return Ok(Bytes(plain.map(|byte| format!("{byte:02x}")).collect()));
        }
        Ok(Bytes(raw.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn accepts(_: &PgType) -> bool {
        true
    }
}

/// A value's text; of numbers that may have been rounded otherwise, the digits that count.
fn cell(text: Option<&str>, ty: u32) -> String {
    let Some(text) = text else { return "NULL".to_owned() };
    match (ty, text.parse::<f64>().map(|number| number + 0.0)) {
        (700, Ok(number)) => format!("{number:.4e}"),
        (701 | 1700, Ok(number)) => format!("{number:.8e}"),
        // CHAR is padded where its length is known.
        _ => text.trim_end_matches(' ').to_owned(),
    }
}

/// Differences of one kind.
#[derive(Default)]
struct Differences {
    count: usize,
    /// The shortest that was seen, with both answers.
    example: Option<(String, String)>,
}

#[derive(Default)]
struct Compared {
    asked: usize,
    same: usize,
    errors: usize,
    undecided: usize,
    known: usize,
    kinds: BTreeMap<String, Differences>,
}

#[test]
fn answers_types_and_states_are_those_of_postgresql() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let first = number("HALCYON_FUZZ_SEED", 1);
    let begin = Instant::now();
    let (_server, own) = own_server();
    let mut compared = Compared::default();
    match std::env::var("HALCYON_FUZZ_POSTGRES") {
        Ok(postgres) => {
            let patience = Duration::from_secs(number("HALCYON_FUZZ_SECONDS", 20));
            for seed in (first..).take_while(|_| begin.elapsed() <= patience) {
                compare(seed, &postgres, &own, &mut compared);
            }
        }
        // Without one, plans that look rows up are compared with vectorised ones, of another server.
        Err(_) => {
            let (_other, reference) = served();
            for seed in first..first + SEEDS {
                // Of odd seeds both sides would have plans of one kind.
                compare(2 * seed, &reference, &own, &mut compared);
            }
        }
    }
    let Compared { asked, same, errors, undecided, known, kinds } = compared;
    let differing: usize = kinds.values().map(|kind| kind.count).sum();
    for (name, kind) in &kinds {
        let (text, answers) = kind.example.clone().unwrap_or_default();
        println!("== {} × {name}\n{text}\n{answers}\n", kind.count);
    }
    println!(
        "{asked} statements: {same} the same, {errors} of them errors; {undecided} undecided; {known} known differences; {differing} differ in {} kinds",
        kinds.len()
    );
    assert!(kinds.is_empty(), "{differing} statements differ");
}

/// Seeds of the ordinary run.
const SEEDS: u64 = 4;

fn own_server() -> (Option<Server>, String) {
    if let Ok(server) = std::env::var("HALCYON_FUZZ_SERVER") {
        return (None, server);
    }
    let (server, config) = served();
    (Some(server), config)
}

/// A server of ours, and how to connect.
fn served() -> (Server, String) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig { listen, ..ServerConfig::default() };
    let server = serve(Database::in_memory(), config).expect("a server on loopback starts");
    let address = server.address();
    let user = Database::in_memory().session().setting("session_authorization").expect("it exists");
    let config =
        format!("host={} port={} user={user} dbname=halcyon", address.ip(), address.port());
    (server, config)
}

fn compare(seed: u64, postgres: &str, own: &str, compared: &mut Compared) {
    let (reference, own) = (Asked::new(postgres), Asked::new(own));
    reference.must("SET client_min_messages = error; DROP SCHEMA IF EXISTS halcyon_beside CASCADE; CREATE SCHEMA halcyon_beside; SET search_path = halcyon_beside");
    own.must("DROP TABLE IF EXISTS t, u, e, w");
    for server in [&reference, &own] {
        server.must("SET statement_timeout = 10000; SET TIME ZONE 'Europe/Berlin'; SET bytea_output = 'hex'");
    }
    if seed.is_multiple_of(2) {
        own.must("SET halcyon.point_plans = off");
    }
    let mut statements = Statements::new(seed);
    for text in statements.tables() {
        reference.must(&text);
        own.must(&text);
    }
    for _ in 0..40 {
        let statement = statements.statement();
        if statement.changes.is_some() {
            both(&reference, &own, "BEGIN");
        }
        let ask =
            |server: &Asked, statement: &Statement| server.ask(&statement.text, statement.ordered);
        let (wanted, found) = (ask(&reference, &statement), ask(&own, &statement));
        compared.asked += 1;
        // What is constant may be computed when a statement is prepared, or be left out beside NULL.
        let is_plain = statement.plain
            && !statement.text.contains("$1")
            && !statement.text.contains("CAST(NULL");
        match verdict(&wanted, &found, is_plain) {
            Verdict::Same => {
                compared.same += 1;
                compared.errors += usize::from(wanted.is_err());
            }
            Verdict::Undecided => {
                compared.undecided += 1;
                both(&reference, &own, "ROLLBACK");
                continue;
            }
            Verdict::Different if takes_more(&statement, &wanted, &found) => compared.same += 1,
            Verdict::Different => {
                both(&reference, &own, "ROLLBACK");
                let (text, wanted, found) = plainest(&reference, &own, &statement).unwrap_or((
                    statement.text.clone(),
                    wanted,
                    found,
                ));
                note(compared, seed, text, &wanted, &found);
            }
        }
        if let Some(table) = statement.changes {
            both(&reference, &own, "COMMIT");
            let text = format!("SELECT * FROM {table}");
            let (wanted, found) = (reference.ask(&text, false), own.ask(&text, false));
            if matches!(verdict(&wanted, &found, true), Verdict::Different) {
                note(compared, seed, statement.text, &wanted, &found);
                return;
            }
        }
    }
}

fn both(reference: &Asked, own: &Asked, text: &str) {
    reference.must(text);
    own.must(text);
}

/// Whether we give a parameter a type where PostgreSQL asks for a cast.
fn takes_more(statement: &Statement, wanted: &Answer, found: &Answer) -> bool {
    let asks = |state: &str| matches!(state, "42725" | "42P18" | "42P08" | "42804" | "42883");
    statement.text.contains("$1")
        && matches!((wanted, found), (Err((state, _)), Ok(_)) if asks(state))
}

enum Verdict {
    Same,
    Different,
    /// One side met an error in a row that the other did not need to look at.
    Undecided,
}

fn verdict(wanted: &Answer, found: &Answer, plain: bool) -> Verdict {
    let of_data = |answer: &Answer| {
        answer.as_ref().is_err_and(|(state, _)| state.starts_with("22") || state.starts_with("21"))
    };
    match (wanted, found) {
        (Ok(a), Ok(b)) if a == b => Verdict::Same,
        (Ok(_), Ok(_)) => Verdict::Different,
        (Err(a), Err(b)) if a.0 == b.0 => Verdict::Same,
        // Which row and which part of it is looked at first is left open.
        _ if of_data(wanted) && of_data(found) => Verdict::Same,
        // We offer more.
        (Err((state, _)), _) if state == "0A000" => Verdict::Same,
        (Ok(_), Err(_)) if of_data(found) && !plain => Verdict::Undecided,
        (Err(_), Ok(_)) if of_data(wanted) && !plain => Verdict::Undecided,
        _ => Verdict::Different,
    }
}

/// The smallest expression within a statement that differs by itself.
fn plainest(
    reference: &Asked,
    own: &Asked,
    statement: &Statement,
) -> Option<(String, Answer, Answer)> {
    let mut found = None;
    let mut candidates: Vec<Expression> = statement.parts.clone();
    while let Some(part) = candidates.pop() {
        let text = format!("SELECT {} FROM {}", part.text, statement.from);
        let (wanted, ours) = (reference.ask(&text, false), own.ask(&text, false));
        if matches!(
            verdict(
                &wanted,
                &ours,
                !part.text.contains(" OVER (") && !part.text.contains("CAST(NULL")
            ),
            Verdict::Different
        ) {
            found = Some((text, wanted, ours));
            candidates =
                part.parts.iter().filter(|inner| inner.text != part.text).cloned().collect();
        }
    }
    found
}

fn note(compared: &mut Compared, seed: u64, text: String, wanted: &Answer, found: &Answer) {
    let short = |answer: &Answer| match answer {
        Ok((types, rows)) => {
            format!("{types:?} {}", rows.iter().take(9).cloned().collect::<Vec<_>>().join(" // "))
        }
        Err((state, message)) => format!("{state} {message}"),
    };
    // Numbers, names and texts differ within one kind.
    let shape = |message: &str| {
        let letters = message.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
        letters
            .collect::<String>()
            .split('"')
            .step_by(2)
            .collect::<Vec<_>>()
            .join("…")
            .chars()
            .take(90)
            .collect::<String>()
    };
    let name = match (wanted, found) {
        (Ok(a), Ok(b)) if a.0 != b.0 => format!("types {:?} instead of {:?}", b.0, a.0),
        (Ok(_), Ok(_)) => {
            // Texts in quotes, and what they are cast to, are of no account.
            let without: String = text.split('\'').step_by(2).collect::<Vec<_>>().join("'");
            format!(
                "rows of {}",
                without.chars().filter(|c| !c.is_ascii_digit()).take(60).collect::<String>()
            )
        }
        (Err((state, _)), Ok(_)) => format!("no error instead of {state}"),
        (Ok(_), Err((state, message))) => format!("{state} {}", shape(message)),
        (Err((wanted, _)), Err((state, message))) => {
            format!("{state} {} instead of {wanted}", shape(message))
        }
    };
    let has = |needle: &str| {
        name.contains(needle)
            || text.contains(needle)
            || short(found).contains(needle)
            || short(wanted).contains(needle)
    };
    let is_known = |needles: &str| needles.split(" & ").all(has);
    if KNOWN.lines().filter_map(|line| line.split_once(" | ")).any(|(needle, _)| is_known(needle)) {
        compared.known += 1;
        return;
    }
    let kind = compared.kinds.entry(name).or_default();
    kind.count += 1;
    if kind.example.as_ref().is_none_or(|(before, _)| before.len() > text.len()) {
        let answers = format!(
            "  PostgreSQL: {}\n  Halcyon:    {}\n  seed {seed}",
            short(wanted),
            short(found)
        );
        kind.example = Some((text, answers));
    }
}
