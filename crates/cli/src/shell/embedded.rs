//! A database in this process.

use std::io::{Read, Write};
use std::sync::Arc;

use halcyon::{Database, Outcome, ResultColumn, Rows, Session, SessionState, SqlError, SqlType};

use super::backend::{Backend, BlockState, Done, Error, Message, Onlooker, Result, Sink};
use super::print::{Column, ColumnKind};

/// Bytes of COPY data handed over at once.
const CHUNK: usize = 64 * 1024;

/// A session of a database in this process, which may have other sessions.
pub struct Embedded {
    database: Database,
    session: Session,
}

impl Embedded {
    /// A session of `database`.
    pub fn new(database: &Database) -> Self {
        Embedded { database: database.clone(), session: database.session() }
    }

    fn rows(&mut self, mut rows: Rows, sink: &mut dyn Sink) -> Result<u64> {
        let format = self.session.text_format();
        let columns: Arc<[ResultColumn]> = rows.columns().clone();
        sink.columns(columns.iter().map(column).collect())?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let cell = |(at, column): (usize, &ResultColumn)| {
                let value = row.value(at);
                (!value.is_null()).then(|| format.text(value, column.ty.unwrap_or(SqlType::Text)))
            };
            sink.row(columns.iter().enumerate().map(cell).collect())?;
            count += 1;
        }
        Ok(count)
    }

    /// The answer to COPY data for a statement that is no COPY.
    fn not_copy(what: &str) -> Error {
        Error::Statement(Box::new(Message {
            severity: "ERROR".into(),
            state: "42601".into(),
            message: format!("the statement is not {what}"),
            ..Message::default()
        }))
    }
}

fn column(column: &ResultColumn) -> Column {
    let kind = match column.ty {
        Some(SqlType::Boolean) => ColumnKind::Boolean,
        Some(
            SqlType::SmallInt
            | SqlType::Integer
            | SqlType::BigInt
            | SqlType::Real
            | SqlType::Double
            | SqlType::Decimal { .. },
        ) => ColumnKind::Number,
        _ => ColumnKind::Text,
    };
    Column { name: column.name.clone(), kind }
}

impl Backend for Embedded {
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<Done> {
        let statement = self.session.prepare(text)?;
        match self.session.run(&statement, &[])? {
            Outcome::Rows { rows, tag, written } => {
                let count = self.rows(rows, sink)?;
                let count = written.unwrap_or(count);
                Ok(Done { tag: format!("{tag} {count}"), had_rows: true })
            }
            Outcome::Done(tag) => Ok(Done { tag: tag.to_string(), had_rows: false }),
            Outcome::CopyIn { .. } => {
                let mut input = std::io::stdin().lock();
                let rows = feed(&mut self.session, &mut input)?;
                Ok(Done { tag: format!("COPY {rows}"), had_rows: false })
            }
            Outcome::CopyOut { .. } => {
                let mut out = std::io::stdout().lock();
                drain(&mut self.session, &mut out)?;
                Ok(Done { tag: "COPY".into(), had_rows: true })
            }
        }
    }

    fn copy_in(&mut self, text: &str, data: &mut dyn Read) -> Result<u64> {
        let statement = self.session.prepare(text)?;
        match self.session.run(&statement, &[])? {
            Outcome::CopyIn { .. } => feed(&mut self.session, data),
            _ => Err(Self::not_copy("COPY … FROM STDIN")),
        }
    }

    fn copy_out(&mut self, text: &str, out: &mut dyn Write) -> Result<Option<u64>> {
        let statement = self.session.prepare(text)?;
        match self.session.run(&statement, &[])? {
            Outcome::CopyOut { .. } => drain(&mut self.session, out),
            _ => Err(Self::not_copy("COPY … TO STDOUT")),
        }
    }

    fn take_notices(&mut self) -> Vec<Message> {
        self.session.take_notices().iter().map(|notice| message("NOTICE", notice)).collect()
    }

    fn onlooker(&self) -> Option<Onlooker> {
        let database = self.database.clone();
        let open = move || Some(Box::new(Embedded::new(&database)) as Box<dyn Backend>);
        Some(Onlooker { session: self.session.id(), open: Box::new(open) })
    }

    fn canceller(&self) -> Arc<dyn Fn() + Send + Sync> {
        let handle = self.session.canceller();
        Arc::new(move || handle.cancel())
    }

    fn state(&self) -> BlockState {
        match self.session.state() {
            SessionState::Idle => BlockState::Idle,
            SessionState::InTransaction => BlockState::InTransaction,
            SessionState::Failed => BlockState::Failed,
        }
    }

    fn database(&self) -> String {
        "halcyon".into()
    }
}

fn feed(session: &mut Session, data: &mut dyn Read) -> Result<u64> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match data.read(&mut buffer) {
            Ok(0) => return Ok(session.copy_end()?.rows.unwrap_or(0)),
            Ok(length) => session.copy_data(&buffer[..length])?,
            Err(error) => {
                session.copy_abandon();
                return Err(error.into());
            }
        }
    }
}

fn drain(session: &mut Session, out: &mut dyn Write) -> Result<Option<u64>> {
    loop {
        let (mut written, mut rows) = (Ok(()), 0);
        let tag = session.copy_out(|row| {
            rows += 1;
            if written.is_ok() {
                written = out.write_all(row);
            }
        })?;
        if let Err(error) = written {
            session.copy_abandon();
            return Err(error.into());
        }
        if let Some(tag) = tag {
            return Ok(tag.rows);
        }
        if rows == 0 && session.is_following() {
            session.wait_for_changes();
        }
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        Error::Statement(Box::new(message("ERROR", &error)))
    }
}

fn message(severity: &str, error: &SqlError) -> Message {
    let fields = error.fields();
    Message {
        severity: severity.into(),
        state: fields.state.to_string(),
        message: fields.message.clone(),
        detail: fields.detail.clone(),
        hint: fields.hint.clone(),
        context: fields.context.clone(),
        position: fields.position.map(|position| position as usize),
    }
}
