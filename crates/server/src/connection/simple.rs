//! The simple protocol: one message, any number of statements, all results in text.

use std::sync::Mutex;

use bytes::Bytes;
use halcyon::{Outcome, Session, SessionState, SqlError, Statement, Tag};
use halcyon_base::{clock, duty};
use halcyon_traces::Commented;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, End, Failure, LONG_TEXT, running};
use crate::format::parameter::utf8;
use crate::rows::RowStream;

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Answers a Query message: the statements in turn, until one fails.
    pub(super) async fn query(&mut self, text: &Bytes) -> Result<(), End> {
        // A Query ends the unnamed statement and portal.
        self.statements.remove("");
        self.portals.remove("");
        let done = match utf8(text) {
            Ok(text) => self.run_all(text).await,
            Err(error) => Err(error.into()),
        };
        if let Err(Failure::Sql(error)) = &done {
            self.traced.fail(error, self.arrived(), &self.session);
        }
        let failed = done.is_err();
        let done = match (done, self.end_implicit(failed)) {
            (Ok(()), Err(error)) => {
                self.traced.fail_last(&error);
                Err(error.into())
            }
            (done, _) => done,
        };
        match done {
            Ok(()) => {}
            Err(Failure::Sql(error)) => self.report(&error),
            Err(Failure::End(end)) => return Err(end),
        }
        if self.session.state() == SessionState::Idle {
            self.portals.clear();
        }
        self.ready().await
    }

    async fn run_all(&mut self, text: &str) -> Result<(), Failure> {
        // The comment differs from run to run, which a plan must not.
        let comment = Commented::divide(text);
        let text = comment.map_or(text, |comment| comment.text);
        let parent = self.traced.parent(self.traced.told(comment), &self.session);
        self.traced.begin(parent.clone(), self.arrived(), &self.session);
        let split = || split(&mut self.session, text);
        let statements = running(|| duty::relieved_if(text.len() > LONG_TEXT, split))?;
        if statements.is_empty() {
            self.traced.discard();
            self.output.put_empty(b'I');
        }
        let many = statements.len() > 1;
        for (at, statement) in statements.into_iter().enumerate() {
            let own = Commented::divide(statement);
            let statement = own.map_or(statement, |own| own.text);
            match self.traced.told(own) {
                None if at == 0 => {}
                told => {
                    let from = if at == 0 { self.arrived() } else { clock::now() };
                    self.traced.begin(told.or_else(|| parent.clone()), from, &self.session);
                }
            }
            let offset = statement.as_ptr() as usize - text.as_ptr() as usize;
            let before = &text[..offset];
            let shift = |failure| match failure {
                Failure::Sql(error) => Failure::Sql(shifted(error, before)),
                end => end,
            };
            self.run_one(statement, many).await.map_err(shift)?;
            self.traced.end(&self.session);
        }
        Ok(())
    }

    async fn run_one(&mut self, text: &str, many: bool) -> Result<(), Failure> {
        let began = self.traced.plans();
        let prepare = || self.session.prepare_passing(text, &[]);
        let made = running(|| duty::relieved_if(text.len() > LONG_TEXT, prepare));
        self.traced.planned(began, made.as_ref(), false);
        let statement = made?;
        if statement.is_empty() {
            self.traced.discard();
            self.output.put_empty(b'I');
            return Ok(());
        }
        if self.implicit && statement.tag() == "BEGIN" {
            // The statements of this message so far become part of the block, as in PostgreSQL.
            self.implicit = false;
        }
        if many && !concerns_transaction(&statement) {
            self.begin_implicit();
        }
        if self.drops_own(&statement) {
            self.output.command_complete(statement.tag());
            return Ok(());
        }
        // The session lends statements by cell; a lock around it lets the task change threads.
        let statement = Mutex::new(statement);
        let outcome = self.run_statement(&statement, &[]).await?;
        if self.session.state() == SessionState::Idle {
            self.implicit = false;
        }
        self.send_outcome(outcome).await
    }

    async fn send_outcome(&mut self, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::Rows { rows, tag, written } => {
                self.output.row_description(rows.columns(), &[]);
                let mut rows = RowStream::new(rows, &[], self.text_format);
                let (_, sent) = self.send_rows(&mut rows, u64::MAX).await?;
                let tag = rows_tag(tag, written.unwrap_or(sent));
                self.tell_changes();
                self.output.command_complete(&tag);
            }
            Outcome::Done(tag) => {
                self.traced.wrote(tag.rows);
                self.tell_changes();
                self.output.command_complete(&tag.to_string());
            }
            Outcome::CopyIn { columns, binary } => self.copy_in(columns, binary).await?,
            Outcome::CopyOut { columns, binary } => self.copy_out(columns, binary).await?,
        }
        Ok(())
    }

    /// DEALLOCATE of a statement made by Parse, and the part of DISCARD that concerns such
    /// statements.
    ///
    /// True if the session itself has nothing to do for the statement.
    pub(super) fn drops_own(&mut self, statement: &Statement) -> bool {
        match statement.tag() {
            "DEALLOCATE" | "DEALLOCATE ALL" => {
                let words: Vec<_> = statement.text().split_whitespace().collect();
                let name = words.last().map(|name| name.trim_end_matches(';')).unwrap_or_default();
                if words.len() <= 3 && name.eq_ignore_ascii_case("all") {
                    self.statements.clear();
                    return false;
                }
                let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                    Some(quoted) => quoted.replace("\"\"", "\""),
                    None => name.to_lowercase(),
                };
                self.statements.remove(&name).is_some()
            }
            "DISCARD ALL" => {
                self.statements.clear();
                self.portals.clear();
                false
            }
            _ => false,
        }
    }
}

/// The command tag of a statement that returned `rows` rows, or wrote them.
pub(super) fn rows_tag(name: &'static str, rows: u64) -> String {
    match name {
        "SELECT" | "FETCH" | "MOVE" | "INSERT" | "UPDATE" | "DELETE" | "MERGE" => {
            Tag::counted(name, rows).to_string()
        }
        _ => name.to_owned(),
    }
}

/// Whether a statement begins or ends transactions itself.
pub(super) fn concerns_transaction(statement: &Statement) -> bool {
    matches!(statement.tag(), "BEGIN" | "START TRANSACTION" | "COMMIT" | "ROLLBACK" | "DISCARD ALL")
}

/// The statements of a text. A text with one statement, the usual case, is not parsed.
fn split<'t>(session: &mut Session, text: &'t str) -> Result<Vec<&'t str>, SqlError> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == ';');
    match trimmed {
        "" => Ok(Vec::new()),
        one if !one.contains(';') => Ok(vec![one]),
        _ => session.split(text),
    }
}

/// Shifts the position of an error, for a statement that begins after `before`, to count from the
/// text's start.
fn shifted(error: SqlError, before: &str) -> SqlError {
    match error.fields().position {
        Some(position) => error.position(position + before.chars().count() as u32),
        None => error,
    }
}
