//! Tables of statements and answers.
//!
//! The statements of a row are the code spans of its first cell; they run one after the other. The
//! second cell has the answer to the last one:
//! - `ok` for a statement that succeeds and returns no rows;
//! - the rows, values separated by `, ` and rows by `; `, NULL as `NULL`; `no rows` if there are
//!   none;
//! - an SQLSTATE for an error, or SQLSTATE, colon and message.
//!
//! Statements before the last must succeed. All rows of a table run in one session, in their order.

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::page::{TableRow, code_spans};

/// A session for the statements of one table.
pub struct Asker {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Asker {
    /// Connects to the server at `address` (host and port).
    pub fn new(address: &str) -> Asker {
        let (host, port) = address.rsplit_once(':').expect("host and port");
        let config = format!("host={host} port={port} user=halcyon dbname=halcyon");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(&config, NoTls)).expect("a server");
        runtime.spawn(connection);
        Asker { runtime, client }
    }

    /// The database's answer to `statement`, in the form of a table's cell.
    pub fn answer(&self, statement: &str) -> String {
        match self.runtime.block_on(self.client.simple_query(statement)) {
            Ok(messages) => match rows(&messages) {
                None => "ok".to_owned(),
                Some(rows) if rows.is_empty() => "no rows".to_owned(),
                Some(rows) => {
                    let rows: Vec<String> = rows.iter().map(|row| row.join(", ")).collect();
                    rows.join("; ")
                }
            },
            Err(error) => match error.as_db_error() {
                Some(error) => format!("{}: {}", error.code().code(), error.message()),
                None => panic!("{statement}: {error}"),
            },
        }
    }

    /// Rows of a query; panics if it fails.
    pub fn rows(&self, query: &str) -> Vec<Vec<String>> {
        let messages = self.runtime.block_on(self.client.simple_query(query));
        rows(&messages.unwrap_or_else(|error| panic!("{query}: {error}"))).expect("a query")
    }

    /// The claim of a row of a table of statements, and the true answer; `None` if the claim is
    /// true.
    pub fn wrong(&self, row: &TableRow) -> Option<String> {
        let (claimed, expected) = (row.cells.first()?, row.cells.get(1)?);
        let expected = expected.replace('`', "");
        let mut statements = code_spans(claimed);
        let last = statements.pop()?;
        for statement in statements {
            let answer = self.answer(statement);
            if is_error(&answer) {
                return Some(format!("{statement}\n  answers: {answer}"));
            }
        }
        let answer = self.answer(last);
        let shown = if is_error(&answer) && expected.len() == 5 { &answer[..5] } else { &answer };
        (shown != expected).then(|| format!("{last}\n  page:    {expected}\n  answers: {answer}"))
    }
}

/// Whether an answer is an SQLSTATE and a message.
fn is_error(answer: &str) -> bool {
    answer.get(5..7) == Some(": ")
        && answer[..5].bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

/// The rows among `messages`; `None` if the statement returns none.
fn rows(messages: &[SimpleQueryMessage]) -> Option<Vec<Vec<String>>> {
    let mut described = false;
    let mut rows = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => described = true,
            SimpleQueryMessage::Row(row) => rows
                .push((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect()),
            _ => {}
        }
    }
    described.then_some(rows)
}
