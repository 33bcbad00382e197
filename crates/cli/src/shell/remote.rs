//! A database over the wire.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::{SinkExt, StreamExt, future};
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage};

use super::backend::{
    Backend, BlockState, Collected, Done, Error, Message, Onlooker, Result, Sink,
};
use super::print::{Column, ColumnKind};

/// Bytes of COPY data sent at once.
const CHUNK: usize = 64 * 1024;

/// A connection.
pub struct Remote {
    runtime: Runtime,
    client: Client,
    notices: Arc<Mutex<VecDeque<Message>>>,
    database: String,
    state: BlockState,
    config: Config,
    /// Number of the session on the server, if it was asked for.
    session: Option<u32>,
}

impl Remote {
    /// Connects to `postgresql://user:password@host:port/database` or `host=… port=…`.
    ///
    /// TLS is not supported: a server on another machine is reached through a tunnel. `watched`: the session's
    /// statements are to be looked at while they run ([`Backend::onlooker`]).
    pub fn connect(url: &str, watched: bool) -> Result<Self> {
        let mut config: Config =
            url.parse().map_err(|error| Error::Connection(format!("{url}: {error}")))?;
        if config.get_user().is_none() {
            config.user("halcyon");
        }
        if config.get_application_name().is_none() {
            config.application_name("halcyon shell");
        }
        let mut remote = Self::open(config)?;
        if watched {
            let mut rows = Collected::default();
            // A server of another kind has no number, or no progress.
            let _ = remote.run("SELECT pg_backend_pid()", &mut rows);
            let number = rows.0.into_iter().flatten().flatten().next();
            remote.session = number.and_then(|number| number.parse().ok());
        }
        Ok(remote)
    }

    fn open(config: Config) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let notices = Arc::new(Mutex::new(VecDeque::new()));
        let (client, mut connection) = runtime.block_on(config.connect(NoTls)).map_err(failed)?;
        let received = notices.clone();
        runtime.spawn(async move {
            let mut messages =
                pin!(futures::stream::poll_fn(move |context| connection.poll_message(context)));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notice(notice) = message {
                    let mut received = received.lock().expect("nobody panics with it");
                    received.push_back(message_of(&notice));
                }
            }
        });
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default().to_owned();
        Ok(Remote {
            runtime,
            client,
            notices,
            database,
            state: BlockState::Idle,
            config,
            session: None,
        })
    }

    /// Types of the result's columns; none for statements that cannot be prepared.
    async fn kinds(&self, text: &str) -> Result<Vec<ColumnKind>> {
        if !returns_rows(text) {
            return Ok(Vec::new());
        }
        let statement = self.client.prepare(text).await.map_err(failed)?;
        Ok(statement.columns().iter().map(|column| kind(column.type_())).collect())
    }

    async fn run_async(&self, text: &str, sink: &mut dyn Sink) -> Result<Done> {
        let kinds = self.kinds(text).await?;
        let messages = self.client.simple_query_raw(text).await.map_err(failed)?;
        let mut messages = pin!(messages);
        let (mut had_rows, mut count) = (false, None);
        while let Some(message) = messages.next().await {
            match message.map_err(failed)? {
                SimpleQueryMessage::RowDescription(columns) => {
                    had_rows = true;
                    let column = |(place, name): (usize, &str)| Column {
                        name: name.to_owned(),
                        kind: kinds.get(place).copied().unwrap_or(ColumnKind::Text),
                    };
                    let names = columns.iter().map(|column| column.name());
                    sink.columns(names.enumerate().map(column).collect())?;
                }
                SimpleQueryMessage::Row(row) => {
                    sink.row((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())?;
                }
                SimpleQueryMessage::CommandComplete(rows) => count = Some(rows),
                _ => {}
            }
        }
        Ok(Done { tag: tag(text, count), had_rows })
    }

    fn follow(&mut self, text: &str, failed: bool) {
        let word = words(text, 1);
        self.state = match (self.state, word.as_str(), failed) {
            _ if self.client.is_closed() => BlockState::Gone,
            (_, "BEGIN" | "START", false) => BlockState::InTransaction,
            (_, "COMMIT" | "END" | "ABORT", false) => BlockState::Idle,
            (_, "ROLLBACK", false) if words(text, 3).contains(" TO") => BlockState::InTransaction,
            (_, "ROLLBACK", false) => BlockState::Idle,
            (BlockState::InTransaction, _, true) => BlockState::Failed,
            (state, _, _) => state,
        };
    }
}

impl Backend for Remote {
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<Done> {
        let done = self.runtime.block_on(self.run_async(text, sink));
        self.follow(text, done.is_err());
        done
    }

    fn copy_in(&mut self, text: &str, data: &mut dyn Read) -> Result<u64> {
        let done = self.runtime.block_on(async {
            let sink = self.client.copy_in(text).await.map_err(failed)?;
            let mut sink = pin!(sink);
            let mut buffer = vec![0; CHUNK];
            loop {
                match data.read(&mut buffer)? {
                    0 => return sink.finish().await.map_err(failed),
                    length => {
                        let chunk = bytes::Bytes::copy_from_slice(&buffer[..length]);
                        sink.send(chunk).await.map_err(failed)?;
                    }
                }
            }
        });
        self.follow(text, done.is_err());
        done
    }

    fn copy_out(&mut self, text: &str, out: &mut dyn Write) -> Result<Option<u64>> {
        let done = self.runtime.block_on(async {
            let stream = self.client.copy_out(text).await.map_err(failed)?;
            let mut stream = pin!(stream);
            while let Some(chunk) = stream.next().await {
                out.write_all(&chunk.map_err(failed)?)?;
            }
            Ok(None)
        });
        self.follow(text, done.is_err());
        done
    }

    fn take_notices(&mut self) -> Vec<Message> {
        // Notices travel on another task; those before the result have been read before it.
        self.runtime.block_on(future::ready(()));
        self.notices.lock().expect("nobody panics with it").drain(..).collect()
    }

    fn onlooker(&self) -> Option<Onlooker> {
        let (session, mut config) = (self.session?, self.config.clone());
        config.application_name("halcyon shell, progress");
        let open = move || {
            let second = Remote::open(config).ok()?;
            Some(Box::new(second) as Box<dyn Backend>)
        };
        Some(Onlooker { session, open: Box::new(open) })
    }

    fn canceller(&self) -> Arc<dyn Fn() + Send + Sync> {
        let token = self.client.cancel_token();
        let runtime = self.runtime.handle().clone();
        Arc::new(move || {
            let token = token.clone();
            runtime.spawn(async move {
                // A server that is gone has no statement to cancel.
                let _ = token.cancel_query(NoTls).await;
            });
        })
    }

    fn state(&self) -> BlockState {
        self.state
    }

    fn database(&self) -> String {
        self.database.clone()
    }
}

fn failed(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(error) => Error::Statement(Box::new(message_of(error))),
        None => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            Error::Connection(format!("{error}{}", cause.unwrap_or_default()))
        }
    }
}

fn message_of(error: &tokio_postgres::error::DbError) -> Message {
    use tokio_postgres::error::ErrorPosition::Original;
    Message {
        severity: error.severity().to_owned(),
        state: error.code().code().to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().map(str::to_owned),
        hint: error.hint().map(str::to_owned),
        context: error.where_().map(str::to_owned),
        position: match error.position() {
            Some(Original(position)) => Some(*position as usize),
            _ => None,
        },
    }
}

fn kind(ty: &Type) -> ColumnKind {
    match *ty {
        Type::BOOL => ColumnKind::Boolean,
        Type::INT2
        | Type::INT4
        | Type::INT8
        | Type::FLOAT4
        | Type::FLOAT8
        | Type::NUMERIC
        | Type::OID => ColumnKind::Number,
        _ => ColumnKind::Text,
    }
}

/// Whether a statement is of a kind that returns rows, so that asking for their types pays.
fn returns_rows(text: &str) -> bool {
    let first = words(text, 1);
    ["SELECT", "VALUES", "WITH", "TABLE"].contains(&first.as_str())
}

/// The first `count` words in upper case, comments left out.
fn words(text: &str, count: usize) -> String {
    let text = super::scan::statements(text).first().map_or("", |(_, text)| *text);
    let text = text.trim_start_matches('(');
    let split = text.split(|c: char| c.is_whitespace() || c == ';' || c == '(');
    let words = split.filter(|word| !word.is_empty()).take(count);
    words.collect::<Vec<_>>().join(" ").to_uppercase()
}

/// The command tag, of which the client library gives only the count.
fn tag(text: &str, count: Option<u64>) -> String {
    let first = words(text, 1);
    match (first.as_str(), count) {
        ("INSERT", Some(count)) => format!("INSERT 0 {count}"),
        ("SELECT" | "UPDATE" | "DELETE" | "COPY" | "FETCH" | "MERGE", Some(count)) => {
            format!("{first} {count}")
        }
        ("WITH" | "VALUES" | "TABLE", Some(count)) => format!("SELECT {count}"),
        ("CREATE" | "ALTER" | "DROP" | "TRUNCATE", _) => {
            let noise = ["OR", "REPLACE", "UNIQUE", "TEMP", "TEMPORARY", "IF"];
            let long = words(text, 5);
            let kept = long.split(' ').filter(|word| !noise.contains(word));
            let length = if long.contains("MATERIALIZED") { 3 } else { 2 };
            kept.take(length).collect::<Vec<_>>().join(" ")
        }
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_spelled_as_the_server_does() {
        let cases = [
            ("insert into t values (1)", Some(1), "INSERT 0 1"),
            ("/* x */ UPDATE t SET a = 1;", Some(3), "UPDATE 3"),
            ("CREATE UNIQUE INDEX i ON t (a)", Some(0), "CREATE INDEX"),
            ("CREATE OR REPLACE VIEW v AS SELECT 1", Some(0), "CREATE VIEW"),
            ("drop table if exists t", Some(0), "DROP TABLE"),
            ("begin;", Some(0), "BEGIN"),
            ("SET x = 1", Some(0), "SET"),
        ];
        for (text, count, expected) in cases {
            assert_eq!(tag(text, count), expected, "{text}");
        }
    }

    #[test]
    fn statements_with_results_are_known_by_their_first_word() {
        assert!(returns_rows("-- c\n (select 1)"));
        assert!(returns_rows("WITH a AS (SELECT 1) SELECT * FROM a"));
        assert!(!returns_rows("BEGIN"));
    }
}
