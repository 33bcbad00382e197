//! Rights, cell by cell: every statement of [`STATEMENTS`] tried by every role of [`SCENARIOS`].
//!
//! What PostgreSQL 15 answers is recorded in `tests/rights/postgresql.txt`, by statement: each answer
//! with the scenarios that get it. An answer is `ok`, a SQLSTATE, or 42501 with its message.
//! `tests/rights/differences.txt` lists the cells in which Halcyon answers with another SQLSTATE, with
//! Halcyon's answer and the reason, and the messages that are worded otherwise; a difference that is not
//! listed fails, and so does a listed one that is none. `HALCYON_RIGHTS_POSTGRES="host=… user=… dbname=…"` asks PostgreSQL again and writes the record;
//! `HALCYON_BLESS=1` writes the cells of the list of differences, whose new reasons are to be filled in.

mod scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use halcyon::{Database, Outcome, Session, SqlError, SqlState};
use scenarios::{CLEANUP, OBJECTS, RELS, ROLES, SCENARIOS, STATEMENTS, Scenario};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// Answers by statement and scenario.
type Table = BTreeMap<(usize, usize), String>;

/// Who answers statements: `ok`, or what an error says.
trait Answers {
    fn ask(&mut self, text: &str) -> Result<(), String>;
}

impl Answers for Session {
    fn ask(&mut self, text: &str) -> Result<(), String> {
        let told = |error: SqlError| shown(error.state().as_str(), error.message());
        let statement = self.prepare(text).map_err(told);
        let ran = statement.and_then(|statement| self.run(&statement, &[]).map_err(told));
        match ran {
            Ok(Outcome::Rows { rows, .. }) => rows.collect().map(|_| ()).map_err(told),
            Ok(Outcome::CopyIn { .. } | Outcome::CopyOut { .. }) => {
                self.copy_abandon();
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(told) => {
                self.fail_transaction();
                Err(told)
            }
        }
    }
}

/// A connection to PostgreSQL, made anew where COPY has taken it.
struct PostgreSql {
    runtime: Runtime,
    config: String,
    client: Client,
    /// The process that serves the connection.
    backend: i32,
}

impl PostgreSql {
    fn new(config: &str) -> Self {
        let runtime = Runtime::new().expect("threads");
        let (client, backend) = runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(config, NoTls).await.expect("PostgreSQL answers");
            tokio::spawn(connection);
            let row = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a number");
            let backend = row.get(0);
            (client, backend)
        });
        PostgreSql { runtime, config: config.to_owned(), client, backend }
    }
}

impl Answers for PostgreSql {
    fn ask(&mut self, text: &str) -> Result<(), String> {
        let answer = self.runtime.block_on(self.client.simple_query(text));
        let Err(error) = answer else { return Ok(()) };
        match error.as_db_error() {
            Some(error) => Err(shown(error.code().code(), error.message())),
            // The beginning of COPY: the statement was let through.
            None => {
                let abandoned = self.backend;
                *self = PostgreSql::new(&self.config);
                must(self, &format!("SELECT pg_terminate_backend({abandoned}, 5000)"));
                Ok(())
            }
        }
    }
}

/// An error as the tables have it.
fn shown(state: &str, message: &str) -> String {
    match state {
        // The database has a name of its own.
        "42501" if message.starts_with("permission denied for database") => {
            "42501 permission denied for database".to_owned()
        }
        "42501" => format!("42501 {message}"),
        state => state.to_owned(),
    }
}

fn must(by: &mut dyn Answers, text: &str) {
    if let Err(told) = by.ask(text) {
        panic!("{told}: {text}");
    }
}

fn prepare(by: &mut dyn Answers, scenario: &Scenario) {
    for text in CLEANUP {
        // Memberships that are none are not taken back.
        let _ = by.ask(text);
    }
    for text in OBJECTS {
        must(by, text);
    }
    for text in scenario.grants {
        must(by, &text.replace("$RELS", RELS));
    }
}

/// The answer of a cell.
fn cell(by: &mut dyn Answers, scenario: &Scenario, statement: &str) -> String {
    must(by, "BEGIN");
    must(by, "SELECT nextval('s.q')");
    for text in scenario.becomes {
        must(by, text);
    }
    let answer = statement.split("; ").try_for_each(|text| by.ask(text));
    // A COPY that PostgreSQL has begun took the block with it.
    let _ = by.ask("ROLLBACK");
    let _ = by.ask("DEALLOCATE ALL");
    // SET ROLE is undone as well.
    let undone = by.ask("CREATE ROLE another").and_then(|()| by.ask("DROP ROLE another"));
    assert_eq!(undone, Ok(()), "after {statement} by {}", scenario.name);
    answer.err().unwrap_or_else(|| "ok".to_owned())
}

fn ask_all(by: &mut dyn Answers) -> Table {
    for role in ROLES {
        let _ = by.ask(&format!("CREATE ROLE {role}"));
    }
    let mut table = Table::new();
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        prepare(by, scenario);
        for (number, statement) in STATEMENTS.iter().enumerate() {
            table.insert((number, at), cell(by, scenario, statement));
        }
    }
    for text in CLEANUP {
        let _ = by.ask(text);
    }
    table
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/rights").join(name)
}

/// The record's text: by statement, each answer with its scenarios.
fn written(table: &Table) -> String {
    let mut text = String::new();
    for (number, statement) in STATEMENTS.iter().enumerate() {
        text.push_str(&format!("{statement}\n"));
        let mut by_answer: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            by_answer.entry(&table[&(number, at)]).or_default().push(scenario.name);
        }
        for (answer, names) in by_answer {
            text.push_str(&format!("    {answer}: {}\n", names.join(" ")));
        }
    }
    text
}

/// Reads lines `answer: scenarios` under statements; `each` gets statement, scenario, answer.
fn read(text: &str, mut each: impl FnMut(usize, usize, &str)) {
    let mut statement = None;
    let is_read = |line: &&str| {
        !line.starts_with('#') && !line.starts_with(WORDED) && !line.trim().is_empty()
    };
    for line in text.lines().filter(is_read) {
        let Some(answers) = line.strip_prefix("    ") else {
            let found = STATEMENTS.iter().position(|text| *text == line);
            statement = Some(found.unwrap_or_else(|| panic!("no statement {line}")));
            continue;
        };
        let (answer, names) = answers.rsplit_once(": ").expect("answer: scenarios");
        for name in names.split(' ') {
            let found = SCENARIOS.iter().position(|scenario| scenario.name == name);
            let at = found.unwrap_or_else(|| panic!("no scenario {name}"));
            each(statement.expect("a statement first"), at, answer);
        }
    }
}

fn table_of(text: &str) -> Table {
    let mut table = Table::new();
    read(text, |statement, scenario, answer| {
        table.insert((statement, scenario), answer.to_owned());
    });
    table
}

#[test]
fn every_cell_is_answered_as_postgresql_answers() {
    if let Ok(config) = std::env::var("HALCYON_RIGHTS_POSTGRES") {
        let table = ask_all(&mut PostgreSql::new(&config));
        std::fs::write(file("postgresql.txt"), written(&table)).expect("the record is written");
    }
    let record = std::fs::read_to_string(file("postgresql.txt")).expect("the record");
    let meant = table_of(&record);
    assert_eq!(meant.len(), STATEMENTS.len() * SCENARIOS.len(), "the record is of other cells");
    let mut session = Database::in_memory().session();
    let found = ask_all(&mut session);
    let differs =
        |at: &(usize, usize)| found[at][..state(at, &found)] != meant[at][..state(at, &meant)];
    let differing: Table =
        found.iter().filter(|(at, _)| differs(at)).map(|(at, told)| (*at, told.clone())).collect();
    for (at, told) in &differing {
        let grants = told == "ok" && meant[at].starts_with("42501");
        assert!(!grants, "{} is granted to {}", STATEMENTS[at.0], SCENARIOS[at.1].name);
    }
    let same = meant.iter().filter(|(at, _)| !differs(at));
    let worded = same.filter(|(at, told)| found[at] != **told);
    let worded: BTreeSet<String> =
        worded.map(|(at, told)| format!("{WORDED}{told} => {}", found[at])).collect();
    let list = std::fs::read_to_string(file("differences.txt")).unwrap_or_default();
    if std::env::var_os("HALCYON_BLESS").is_some() {
        let text = differences(&differing, &worded, &list);
        std::fs::write(file("differences.txt"), text).expect("the list");
        return;
    }
    let is_worded = |line: &&str| line.starts_with(WORDED);
    let listed: BTreeSet<String> = list.lines().filter(is_worded).map(str::to_owned).collect();
    let unlisted: Vec<_> = worded.symmetric_difference(&listed).collect();
    assert!(unlisted.is_empty(), "messages worded otherwise, or listed for nothing: {unlisted:#?}");
    let listed = table_of(&list);
    let mut wrong = Vec::new();
    for at in found.keys() {
        let told = |table: &Table| table.get(at).cloned();
        if told(&differing) != told(&listed) {
            wrong.push(format!(
                "{} by {}: PostgreSQL answers {:?}, Halcyon {:?}, listed {:?}",
                STATEMENTS[at.0],
                SCENARIOS[at.1].name,
                meant[at],
                found[at],
                told(&listed)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}

/// Begins the lines of messages that are worded otherwise.
const WORDED: &str = "worded: ";

/// Where the message begins in an answer.
fn state(at: &(usize, usize), table: &Table) -> usize {
    table[at].find(' ').unwrap_or(table[at].len())
}

/// The list of differences with the comments that it has, by statement.
fn differences(differing: &Table, worded: &BTreeSet<String>, list: &str) -> String {
    let mut comments: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut head, mut open, mut first) = (Vec::new(), Vec::new(), true);
    for line in list.lines() {
        if line.is_empty() && first {
            first = false;
            head.append(&mut open);
        } else if line.starts_with('#') {
            open.push(line);
        } else if !line.starts_with("    ") && !line.starts_with(WORDED) && !line.is_empty() {
            comments.insert(line, std::mem::take(&mut open));
        }
    }
    let mut text: String = head.iter().map(|line| format!("{line}\n")).collect();
    text.push('\n');
    worded.iter().for_each(|line| text.push_str(&format!("{line}\n")));
    for (number, statement) in STATEMENTS.iter().enumerate() {
        let mut by_answer: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            if let Some(answer) = differing.get(&(number, at)) {
                by_answer.entry(answer).or_default().push(scenario.name);
            }
        }
        if by_answer.is_empty() {
            continue;
        }
        text.push('\n');
        for comment in comments.get(statement).into_iter().flatten() {
            text.push_str(&format!("{comment}\n"));
        }
        text.push_str(&format!("{statement}\n"));
        for (answer, names) in by_answer {
            text.push_str(&format!("    {answer}: {}\n", names.join(" ")));
        }
    }
    text
}

/// SUBSCRIBE, which PostgreSQL has not, is for those who may read the view.
#[test]
fn those_subscribe_who_may_read() {
    let database = Database::in_memory();
    let mut owner = database.session();
    for role in ROLES {
        must(&mut owner, &format!("CREATE ROLE {role} LOGIN"));
    }
    let mut seen = BTreeSet::new();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.becomes == ["SET LOCAL ROLE ana"]) {
        prepare(&mut owner, scenario);
        let mut ana = database.session_as("ana").expect("she may log in");
        let may_read = ana.ask("SELECT * FROM s.m");
        let follows = match ana.into_subscription("s.m", None) {
            Ok(_) => Ok(()),
            Err(error) => Err(shown(error.state().as_str(), error.message())),
        };
        assert_eq!(follows, may_read, "{}", scenario.name);
        seen.insert(may_read.is_ok());
    }
    assert_eq!(seen.len(), 2, "some may read and some may not");
}

/// The table is no table if all roles get the same answers.
#[test]
fn the_record_tells_rights_apart() {
    let record = std::fs::read_to_string(file("postgresql.txt")).expect("the record");
    let table = table_of(&record);
    for (number, statement) in STATEMENTS.iter().enumerate() {
        assert_eq!(table[&(number, 0)], table[&(number, 1)], "a superuser again: {statement}");
    }
    let answers: BTreeSet<Vec<&String>> = (0..SCENARIOS.len())
        .map(|at| (0..STATEMENTS.len()).map(|number| &table[&(number, at)]).collect())
        .collect();
    assert!(answers.len() > 20, "{} kinds of scenarios", answers.len());
    let denied = SqlState::INSUFFICIENT_PRIVILEGE;
    let count = table.values().filter(|told| told.starts_with(denied.as_str())).count();
    assert!(count > 1_000, "{count} cells are refused");
}
