//! Texts of SQL run in a session, with what came of each statement as JSON.

use std::time::Instant;

use halcyon::{Outcome, Rows, Session, SessionState, SqlError, SqlState};
use serde_json::{Value as Json, json};

use crate::answer::of_sql;
use crate::json;

/// Bytes of values that the answer to one text holds, about; further rows are left out.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Statements of one text that are answered.
const STATEMENTS_MAX: usize = 100;

/// Runs the statements of `text` one after the other until one fails or `is_over` says so. Each commits by itself,
/// unless the text or an earlier one has opened a transaction block.
///
/// `rows_max`: rows shown of each statement; a result with more is ended there, and marked.
pub(crate) fn run(
    session: &mut Session,
    text: &str,
    rows_max: usize,
    is_over: &dyn Fn() -> bool,
) -> Json {
    let mut results = Vec::new();
    let mut bytes_left = ANSWER_BYTES_MAX;
    let began = Instant::now();
    let mut at = 0;
    let ended = session.split(text).and_then(|statements| {
        for statement in statements.into_iter().take(STATEMENTS_MAX) {
            if is_over() {
                return Err(SqlError::cancelled());
            }
            at = offset(text, statement);
            results.push(one(session, statement, rows_max, &mut bytes_left)?);
        }
        Ok(())
    });
    json!({
        "results": results,
        "error": ended.err().map(|error| failed(session, &error, &text[..at])),
        "ms": began.elapsed().as_secs_f64() * 1e3,
        "state": state(session),
    })
}

/// Where a statement stands in its text.
fn offset(text: &str, statement: &str) -> usize {
    let at = (statement.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    if at <= text.len() && text.is_char_boundary(at) { at } else { 0 }
}

/// An error, with its position in the whole text and what was noticed before.
fn failed(session: &mut Session, error: &SqlError, before: &str) -> Json {
    let mut told = of_sql(error);
    if let Some(position) = error.fields().position {
        told["position"] = json!(before.chars().count() + position as usize);
    }
    told["notices"] = notices(session);
    told
}

/// The session's transaction, in the words of `halcyon.sessions`.
pub(crate) fn state(session: &Session) -> &'static str {
    match session.state() {
        SessionState::Idle => "idle",
        SessionState::InTransaction => "idle in transaction",
        SessionState::Failed => "idle in transaction (aborted)",
    }
}

fn notices(session: &mut Session) -> Json {
    session.take_notices().iter().map(of_sql).collect()
}

fn one(
    session: &mut Session,
    text: &str,
    rows_max: usize,
    bytes_left: &mut usize,
) -> Result<Json, SqlError> {
    let began = Instant::now();
    let statement = session.prepare_passing(text, &[])?;
    let mut told = match session.run(&statement, &[])? {
        Outcome::Rows { rows, tag, written } => {
            shown(session, rows, (tag, written), rows_max, bytes_left)?
        }
        Outcome::Done(tag) => json!({ "tag": tag.to_string() }),
        Outcome::CopyIn { .. } | Outcome::CopyOut { .. } => {
            session.copy_abandon();
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "COPY FROM STDIN, COPY TO STDOUT and SUBSCRIBE are not run on this page",
            )
            .hint("Use psql or halcyon shell; the page Views follows a view."));
        }
    };
    told["ms"] = json!(began.elapsed().as_secs_f64() * 1e3);
    told["notices"] = notices(session);
    Ok(told)
}

/// The first rows of a result.
fn shown(
    session: &Session,
    mut rows: Rows,
    (tag, written): (&'static str, Option<u64>),
    rows_max: usize,
    bytes_left: &mut usize,
) -> Result<Json, SqlError> {
    let columns = rows.columns().clone();
    let format = session.text_format();
    let mut shown = Vec::new();
    let mut is_cut = false;
    while let Some(row) = rows.next()? {
        let row = json::text_row(&row, &columns, format);
        let bytes = bytes(&row);
        if shown.len() >= rows_max || bytes > *bytes_left {
            is_cut = true;
            break;
        }
        *bytes_left -= bytes;
        shown.push(row);
    }
    let count = written.unwrap_or(shown.len() as u64);
    Ok(json!({
        "tag": if is_cut { tag.to_owned() } else { format!("{tag} {count}") },
        "columns": json::columns(&columns),
        "rows": shown,
        "more": is_cut,
    }))
}

fn bytes(row: &Json) -> usize {
    let of = |value: &Json| value.as_str().map_or(0, str::len) + 8;
    row.as_array().map_or(0, |values| values.iter().map(of).sum())
}
