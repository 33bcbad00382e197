//! The files of `tests/sql` over the wire: a server of its own for each file, and tokio-postgres'
//! simple protocol, whose values are text. `halcyon`'s test of the same name runs them embedded.

#[path = "../../halcyon/tests/slt/corpus.rs"]
mod corpus;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use corpus::{Expected, Style, Tally, judge, known_failures, repository};
use halcyon::Database;
use halcyon_server::{ServerConfig, serve};
use sqllogictest::{DB, DBOutput, DefaultColumnType};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

struct Engine {
    runtime: Arc<Runtime>,
    client: Client,
    style: Style,
    expected: Expected,
}

#[derive(Debug)]
struct Failure(tokio_postgres::Error);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_db_error() {
            Some(told) => write!(f, "{}: {}", told.code().code(), told.message()),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl DB for Engine {
    type Error = Failure;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failure> {
        let answer = self.runtime.block_on(self.client.simple_query(sql)).map_err(Failure)?;
        let mut types = Vec::new();
        let mut rows = Vec::new();
        let mut changed = 0;
        for message in answer {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    types = self.style.types(&self.expected, columns.len());
                }
                SimpleQueryMessage::Row(row) => {
                    let cell = |at| self.style.shown(row.get(at), types.get(at));
                    rows.push((0..row.len()).map(cell).collect());
                }
                SimpleQueryMessage::CommandComplete(count) => changed = count,
                _ => {}
            }
        }
        Ok(if types.is_empty() {
            DBOutput::StatementComplete(changed)
        } else {
            DBOutput::Rows { types, rows }
        })
    }

    fn engine_name(&self) -> &str {
        "postgresql"
    }

    fn error_sql_state(error: &Failure) -> Option<String> {
        error.0.code().map(|code| code.code().to_owned())
    }
}

fn run_file(path: &Path, name: &str, style: Style) -> Tally {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig { listen, ..ServerConfig::default() };
    let server = serve(Database::in_memory(), config).expect("a server on loopback starts");
    let user = Database::in_memory().session().setting("session_authorization").expect("a setting");
    let login = format!("host=127.0.0.1 port={} user={user}", server.address().port());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
    let runtime = Arc::new(runtime);
    let expected = Arc::new(Mutex::new(Vec::new()));
    corpus::run_file(path, name, style, &expected, || {
        let connecting = tokio_postgres::connect(&login, NoTls);
        let (client, connection) = runtime.block_on(connecting).expect("a login");
        runtime.spawn(connection);
        let (runtime, expected) = (Arc::clone(&runtime), Arc::clone(&expected));
        async move { Ok(Engine { runtime, client, style, expected }) }
    })
}

#[test]
fn own_files_pass_over_the_wire() {
    let tally = corpus::run_folder(&repository().join("tests/sql"), "slt", |path, name| {
        run_file(path, name, Style::Postgres)
    });
    judge(&tally, &known_failures("known_failures.txt"));
}

#[test]
fn sqlites_corpus_passes_over_the_wire() {
    let folder = corpus::whole_corpus().unwrap_or_else(|| repository().join("tests/sql/corpus"));
    let tally =
        corpus::run_folder(&folder, "test", |path, name| run_file(path, name, Style::Sqlite));
    judge(&tally, &known_failures("corpus_known_failures.txt"));
}

#[test]
fn a_wrong_answer_over_the_wire_is_seen() {
    let folder = std::env::temp_dir().join(format!("halcyon-wire-slt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("canary.test");
    std::fs::write(&path, "query I\nSELECT 1\n----\n2\n\nquery I\nSELECT 1\n----\n1\n")
        .expect("a file");
    let tally = run_file(&path, "canary", Style::Sqlite);
    std::fs::remove_dir_all(&folder).expect("removed");
    let failed: Vec<&str> = tally.failed.keys().map(String::as_str).collect();
    assert_eq!((tally.run, failed), (2, vec!["canary:1"]));
}
