//! Cursors: DECLARE, FETCH, MOVE, CLOSE.

use std::fmt;

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::reader::Reader;
use crate::error::Result;

/// A statement about a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorStatement {
    /// DECLARE name CURSOR FOR query.
    Declare(DeclareCursor),
    /// FETCH, which gives rows, or MOVE, which counts them.
    Fetch {
        /// The cursor.
        cursor: Ident,
        /// Where it goes from where it is.
        step: Step,
        /// MOVE: rows are passed over.
        moves_only: bool,
    },
    /// CLOSE name; without a name, CLOSE ALL.
    Close(Option<Ident>),
}

/// `DECLARE name [BINARY] [SCROLL] CURSOR [WITH HOLD] FOR query`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclareCursor {
    /// Its name.
    pub name: Ident,
    /// SCROLL: it goes backward too. NO SCROLL and neither are the same.
    pub scrolls: bool,
    /// WITH HOLD: it outlives its transaction.
    pub holds: bool,
    /// The text of the query, which is one that parses.
    pub query: String,
}

/// Where FETCH and MOVE go. Rows are numbered from 1; a cursor may stand before the first and behind
/// the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many rows forward, or backward if negative, giving each; 0 gives the present one again.
    By(i64),
    /// All rows that are left, forward.
    ToEnd,
    /// All rows before, backward.
    ToBegin,
    /// To the row of this number, or from the end if negative; 0 is before the first.
    Absolute(i64),
    /// To the row this far away, giving that one alone.
    Relative(i64),
}

/// Behind DECLARE.
pub(super) fn declare(reader: &mut Reader<'_>) -> Result<CursorStatement> {
    let name = reader.ident()?;
    let (mut scrolls, mut holds) = (false, false);
    // How values are sent is the client's choice with each FETCH.
    loop {
        if reader.eats("NO SCROLL") {
            scrolls = false;
        } else if reader.eats("SCROLL") {
            scrolls = true;
        } else if !["BINARY", "ASENSITIVE", "INSENSITIVE"].iter().any(|word| reader.eats(word)) {
            break;
        }
    }
    reader.expect("CURSOR")?;
    if reader.eats("WITH HOLD") {
        holds = true;
    } else {
        reader.eats("WITHOUT HOLD");
    }
    reader.expect("FOR")?;
    let query = reader.rest().to_owned();
    reader.sql_with_joins(|parser| parser.parse_query())?;
    Ok(CursorStatement::Declare(DeclareCursor { name, scrolls, holds, query }))
}

/// Behind FETCH.
pub(super) fn fetch(reader: &mut Reader<'_>) -> Result<CursorStatement> {
    step_of_cursor(reader, false)
}

/// Behind MOVE.
pub(super) fn move_cursor(reader: &mut Reader<'_>) -> Result<CursorStatement> {
    step_of_cursor(reader, true)
}

fn step_of_cursor(reader: &mut Reader<'_>, moves_only: bool) -> Result<CursorStatement> {
    // A cursor may be called `next` or `all`: such a word at the end is its name.
    let step = match reader.ahead().nth(1) {
        None | Some(Token::EOF) => None,
        Some(_) => step(reader)?,
    };
    if !reader.eats("FROM") {
        reader.eats("IN");
    }
    let cursor = reader.ident()?;
    Ok(CursorStatement::Fetch { cursor, step: step.unwrap_or(Step::By(1)), moves_only })
}

fn step(reader: &mut Reader<'_>) -> Result<Option<Step>> {
    const WORDS: &[(&str, Step)] = &[
        ("NEXT", Step::By(1)),
        ("PRIOR", Step::By(-1)),
        ("FIRST", Step::Absolute(1)),
        ("LAST", Step::Absolute(-1)),
        ("ALL", Step::ToEnd),
        ("FORWARD ALL", Step::ToEnd),
        ("BACKWARD ALL", Step::ToBegin),
    ];
    if let Some((_, step)) = WORDS.iter().find(|(words, _)| reader.eats(words)) {
        return Ok(Some(*step));
    }
    if reader.eats("ABSOLUTE") {
        return reader.signed().map(Step::Absolute).map(Some);
    }
    if reader.eats("RELATIVE") {
        return reader.signed().map(Step::Relative).map(Some);
    }
    let sign = if reader.eats("BACKWARD") { -1 } else { i64::from(reader.eats("FORWARD")) };
    match (reader.is_at_number(), sign) {
        (true, -1) => Ok(Some(Step::By(reader.signed()?.saturating_neg()))),
        (true, _) => reader.signed().map(Step::By).map(Some),
        (false, 0) => Ok(None),
        (false, sign) => Ok(Some(Step::By(sign))),
    }
}

/// Behind CLOSE.
pub(super) fn close(reader: &mut Reader<'_>) -> Result<CursorStatement> {
    match reader.eats("ALL") {
        true => Ok(CursorStatement::Close(None)),
        false => reader.ident().map(Some).map(CursorStatement::Close),
    }
}

impl fmt::Display for DeclareCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeclareCursor { name, scrolls, holds, query } = self;
        let scroll = if *scrolls { " SCROLL" } else { "" };
        let hold = if *holds { " WITH HOLD" } else { "" };
        write!(f, "DECLARE {name}{scroll} CURSOR{hold} FOR {query}")
    }
}

impl fmt::Display for CursorStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CursorStatement::Declare(declare) => declare.fmt(f),
            CursorStatement::Fetch { cursor, step, moves_only } => {
                let verb = if *moves_only { "MOVE" } else { "FETCH" };
                write!(f, "{verb} {step} FROM {cursor}")
            }
            CursorStatement::Close(Some(name)) => write!(f, "CLOSE {name}"),
            CursorStatement::Close(None) => f.write_str("CLOSE ALL"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::By(rows) => write!(f, "FORWARD {rows}"),
            Step::ToEnd => f.write_str("FORWARD ALL"),
            Step::ToBegin => f.write_str("BACKWARD ALL"),
            Step::Absolute(row) => write!(f, "ABSOLUTE {row}"),
            Step::Relative(rows) => write!(f, "RELATIVE {rows}"),
        }
    }
}
