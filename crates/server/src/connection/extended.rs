//! The extended protocol: named statements and portals, pipelines, row limits.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use halcyon::{IdleLimit, Outcome, SessionState, SqlError, SqlState, Statement, TextFormat, Value};
use halcyon_base::duty;
use halcyon_traces::Commented;
use tokio::io::{AsyncRead, AsyncWrite};

use super::simple::{concerns_transaction, rows_tag};
use super::{Connection, End, Failure, LONG_TEXT, Parsed, SharedStatement, running};
use crate::format::Format;
use crate::format::parameter::{self, utf8};
use crate::rows::{Paused, RowStream};
use crate::traced::Current;
use crate::wire::frontend::{Bind, Target};

/// A portal: a statement with its parameter values, ready to run or running.
pub(super) struct Portal {
    statement: SharedStatement,
    params: Vec<Value>,
    formats: Vec<Format>,
    progress: Progress,
    /// How long its rows may lie unread.
    idle: Option<IdleLimit>,
    /// What has been recorded of it for traces, between two Executes.
    recorded: Option<Box<Current>>,
}

impl Portal {
    /// How long the rows that are left may still lie unread; `None`: for ever.
    pub(super) fn idle_left(&self) -> Option<Duration> {
        matches!(self.progress, Progress::Suspended(_)).then(|| Some(self.idle?.left()))?
    }
}

enum Progress {
    /// The portal has not run yet.
    Bound,
    /// The portal has run and has rows left.
    Suspended(Box<RowStream>),
    /// The portal ran to its end.
    Done(String),
}

fn lock(parsed: &Parsed) -> MutexGuard<'_, Statement> {
    super::lock(&parsed.statement)
}

/// Prepared statements, and portals, that a connection may have while more memory is in use than the limit.
const FREE_NAMES: usize = 256;
/// Parameters from this size on, all together, ask for their memory.
const LARGE_PARAMS: usize = 1 << 20;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Parse: plans a statement and keeps it under a name.
    pub(super) fn parse(
        &mut self,
        name: String,
        text: &Bytes,
        types: &[u32],
    ) -> Result<(), Failure> {
        let text = utf8(text)?;
        // The comment differs from run to run, which a plan must not.
        let comment = Commented::divide(text);
        let text = comment.map_or(text, |comment| comment.text);
        let told = self.traced.told(comment);
        let parent = self.traced.parent(told.clone(), &self.session);
        self.traced.begin_parse(parent, self.arrived(), &self.session);
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        if name.is_empty() {
            // The unnamed statement goes even if its successor cannot be planned.
            self.statements.remove("");
        }
        if self.statements.len() >= FREE_NAMES {
            self.session.require_memory()?;
        }
        let declared = types.to_vec();
        let types: Vec<_> = types.iter().map(|oid| parameter::type_of(*oid)).collect();
        let prepare = || match name.is_empty() {
            true => self.session.prepare_passing(text, &types),
            false => self.session.prepare_typed(text, &types),
        };
        let began = self.traced.plans();
        let made = running(|| duty::relieved_if(text.len() > LONG_TEXT, prepare));
        self.traced.planned(began, made.as_ref(), true);
        let statement = made?;
        statement.fix_columns();
        let statement = Mutex::new(statement);
        let parsed = Arc::new(Parsed { statement, declared, told: told.map(Box::new) });
        self.traced.parsed(&parsed);
        self.statements.insert(name, parsed);
        self.output.put_empty(b'1');
        Ok(())
    }

    /// Bind: makes a portal.
    pub(super) fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let statement = self.statement(&bind.statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", bind.portal),
            )
            .into());
        }
        if self.portals.len() >= FREE_NAMES {
            self.session.require_memory()?;
        }
        let bytes = bind.parameters.iter().flatten().map(|value| value.len()).sum::<usize>();
        if bytes >= LARGE_PARAMS {
            self.session.require_memory_for(bytes)?;
        }
        let (params, formats, wider) = {
            let prepared = lock(&statement);
            self.session.refuse_if_failed(&prepared)?;
            let columns = self.session.columns(&prepared).len();
            let params = params(&bind, &prepared, self.text_format)?;
            let wider = running(|| self.session.with_digits_of(&prepared, &params))?;
            (params, formats(&bind, columns)?, wider)
        };
        let statement = match wider {
            Some(wider) => {
                wider.fix_columns();
                let declared = statement.declared.clone();
                let told = statement.told.clone();
                Arc::new(Parsed { statement: Mutex::new(wider), declared, told })
            }
            None => statement,
        };
        let (progress, idle, recorded) = (Progress::Bound, None, None);
        let portal = Portal { statement, params, formats, progress, idle, recorded };
        self.portals.insert(bind.portal, portal);
        self.output.put_empty(b'2');
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<SharedStatement, SqlError> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// Describe: types of parameters and columns.
    pub(super) fn describe(&mut self, target: &Target) -> Result<(), Failure> {
        let formats;
        let columns = match target {
            Target::Statement(name) => {
                let parsed = self.statement(name)?;
                let statement = lock(&parsed);
                self.output.parameter_description(&statement.params(), &parsed.declared);
                formats = Vec::new();
                self.session.columns(&statement)
            }
            Target::Portal(name) => match self.portals.get(name) {
                Some(portal) => {
                    formats = portal.formats.clone();
                    self.session.columns(&lock(&portal.statement))
                }
                None => {
                    formats = Vec::new();
                    self.session.cursor_columns(name).ok_or_else(|| no_portal(name))?
                }
            },
        };
        match columns.is_empty() {
            true => self.output.put_empty(b'n'),
            false => self.output.row_description(&columns, &formats),
        }
        Ok(())
    }

    /// Close. A name that does not exist counts as closed.
    pub(super) fn close(&mut self, target: &Target) {
        match target {
            Target::Statement(name) => drop(self.statements.remove(name)),
            Target::Portal(name) => {
                if self.portals.remove(name).is_none() {
                    // A cursor that does not exist counts as closed.
                    let _ = self.session.close_cursor(Some(name));
                }
            }
        }
        self.output.put_empty(b'3');
    }

    /// Execute: runs a portal, or continues one.
    pub(super) async fn execute(&mut self, name: &str, rows_max: i32) -> Result<(), Failure> {
        // The portal is taken out while it runs: if it is a COMMIT, that clears all portals.
        let Some(mut portal) = self.portals.remove(name) else {
            return self.execute_cursor(name, rows_max).await;
        };
        self.traced.take_up(portal.recorded.take());
        let executed = self.execute_portal(name, &mut portal, rows_max).await;
        if executed.is_ok() {
            self.traced.end(&self.session);
        }
        if !concerns_transaction(&lock(&portal.statement)) {
            self.portals.insert(name.to_owned(), portal);
        }
        executed
    }

    /// Execute of a cursor made by DECLARE, which is a portal as well.
    async fn execute_cursor(&mut self, name: &str, rows_max: i32) -> Result<(), Failure> {
        if self.session.cursor_columns(name).is_none() {
            return Err(no_portal(name).into());
        }
        let limit = u64::try_from(rows_max).ok().filter(|limit| *limit > 0);
        let parent = self.traced.parent(None, &self.session);
        self.traced.begin(parent, self.arrived(), &self.session);
        self.traced.name("FETCH");
        let began = self.traced.runs();
        let fetched = running(|| self.session.fetch_cursor(name, limit));
        self.traced.ran(began, &self.session);
        let Outcome::Rows { rows, .. } = fetched? else { unreachable!("FETCH gives rows") };
        let mut rows = RowStream::new(rows, &[], self.text_format);
        let (_, sent) = self.send_rows(&mut rows, u64::MAX).await?;
        match limit {
            Some(limit) if sent == limit => self.output.put_empty(b's'),
            _ => self.output.command_complete(&rows_tag("SELECT", sent)),
        }
        self.traced.end(&self.session);
        Ok(())
    }

    async fn execute_portal(
        &mut self,
        name: &str,
        portal: &mut Portal,
        rows_max: i32,
    ) -> Result<(), Failure> {
        let limit = u64::try_from(rows_max).ok().filter(|limit| *limit > 0).unwrap_or(u64::MAX);
        let tag = lock(&portal.statement).tag();
        if let Progress::Bound = portal.progress {
            match self.start(portal).await? {
                Some(Outcome::Rows { rows, written, .. }) => {
                    let rows = RowStream::new(rows, &portal.formats, self.text_format);
                    if let Some(written) = written {
                        return self.finish_written(portal, rows, rows_tag(tag, written)).await;
                    }
                    portal.progress = Progress::Suspended(Box::new(rows));
                    portal.idle = self.session.idle_limit();
                }
                Some(Outcome::Done(tag)) => {
                    self.traced.wrote(tag.rows);
                    self.tell_changes();
                    self.output.command_complete(&tag.to_string());
                    portal.progress = Progress::Done(String::new());
                    return Ok(());
                }
                Some(Outcome::CopyIn { columns, binary }) => {
                    portal.progress = Progress::Done(String::new());
                    return self.copy_in(columns, binary).await;
                }
                Some(Outcome::CopyOut { columns, binary }) => {
                    portal.progress = Progress::Done(String::new());
                    return self.copy_out(columns, binary).await;
                }
                None => return Ok(()),
            }
        }
        match &mut portal.progress {
            Progress::Suspended(rows) => {
                let (paused, sent) = self.send_rows(rows, limit).await?;
                portal.idle.iter_mut().for_each(IdleLimit::touch);
                if paused == Paused::Limit {
                    portal.recorded = self.traced.set_aside();
                    self.output.put_empty(b's');
                    return Ok(());
                }
                let tag = rows_tag(tag, sent);
                self.tell_changes();
                self.output.command_complete(&tag);
                portal.progress = Progress::Done(rows_tag_of_none(&tag));
            }
            Progress::Done(tag) if tag.is_empty() => {
                return Err(SqlError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("portal \"{name}\" cannot be run"),
                )
                .into());
            }
            Progress::Done(tag) => self.output.command_complete(tag),
            Progress::Bound => unreachable!("it was started above"),
        }
        Ok(())
    }

    /// Sends the rows that a writing statement returns. Its effects have happened, so a row limit
    /// would only be in the way; no driver relies on one for such statements.
    async fn finish_written(
        &mut self,
        portal: &mut Portal,
        mut rows: RowStream,
        tag: String,
    ) -> Result<(), Failure> {
        self.send_rows(&mut rows, u64::MAX).await?;
        self.tell_changes();
        self.output.command_complete(&tag);
        portal.progress = Progress::Done(tag);
        Ok(())
    }

    /// Runs a portal's statement; `None` if the statement is empty.
    async fn start(&mut self, portal: &mut Portal) -> Result<Option<Outcome>, Failure> {
        let told = portal.statement.told.as_deref().cloned();
        let parent = self.traced.parent(told, &self.session);
        self.traced.begin_execute(&portal.statement, parent, self.arrived(), &self.session);
        self.traced.describe(&lock(&portal.statement));
        if let Some(done) = self.begin_portal(portal) {
            portal.progress = Progress::Done(done);
            return Ok(None);
        }
        let outcome = self.run_statement(&portal.statement.statement, &portal.params).await?;
        if self.session.state() == SessionState::Idle {
            self.implicit = false;
            if concerns_transaction(&lock(&portal.statement)) {
                self.portals.clear();
            }
        }
        Ok(Some(outcome))
    }

    /// Does what comes before a portal's statement runs. The tag of a statement that is not to run.
    fn begin_portal(&mut self, portal: &Portal) -> Option<String> {
        let statement = lock(&portal.statement);
        if statement.is_empty() {
            self.traced.discard();
            self.output.put_empty(b'I');
            return Some("SELECT 0".into());
        }
        if self.implicit && statement.tag() == "BEGIN" {
            self.implicit = false;
        }
        if self.drops_own(&statement) {
            self.output.command_complete(statement.tag());
            return Some(statement.tag().into());
        }
        // A lone statement whose Sync has arrived already needs no transaction around it.
        if !concerns_transaction(&statement) && self.input.peek() != Some(b'S') {
            self.begin_implicit();
        }
        None
    }

    /// Sync: ends the pipeline and its implicit transaction.
    pub(super) async fn sync(&mut self) -> Result<(), End> {
        let failed = std::mem::take(&mut self.skipping);
        self.traced.finish_prepared();
        if let Err(error) = self.end_implicit(failed) {
            self.traced.fail_last(&error);
            self.report(&error);
        }
        if self.session.state() == SessionState::Idle {
            self.portals.clear();
        }
        self.ready().await
    }
}

/// The tag for running a finished portal once more: it has no rows left.
fn rows_tag_of_none(tag: &str) -> String {
    match tag.rsplit_once(' ') {
        Some((name, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{name} 0")
        }
        _ => tag.to_owned(),
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

/// Parameter values, converted to the statement's types.
///
/// Errors: 08P01 if the number of values or formats is wrong; those of decoding.
fn params(bind: &Bind, statement: &Statement, text: TextFormat) -> Result<Vec<Value>, SqlError> {
    let types = statement.params();
    let formats = Format::from_codes(&bind.parameter_formats)?;
    let given = bind.parameters.len();
    if formats.len() > 1 && formats.len() != given {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!("bind message has {} parameter formats but {given} parameters", formats.len()),
        ));
    }
    if given != types.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!(
                "bind message supplies {given} parameters, but prepared statement \"{}\" requires {}",
                bind.statement,
                types.len()
            ),
        ));
    }
    let value = |(at, bytes): (usize, &Option<Bytes>)| match bytes {
        Some(bytes) => parameter::decode(bytes, Format::of(&formats, at), types[at], text, at + 1),
        None => Ok(Value::Null),
    };
    bind.parameters.iter().enumerate().map(value).collect()
}

/// Formats of the result's columns. Errors: 08P01 if their number is wrong.
fn formats(bind: &Bind, columns: usize) -> Result<Vec<Format>, SqlError> {
    let formats = Format::from_codes(&bind.result_formats)?;
    if formats.len() > 1 && formats.len() != columns {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!(
                "bind message has {} result formats but query has {columns} columns",
                formats.len()
            ),
        ));
    }
    Ok(formats)
}
