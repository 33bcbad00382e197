//! Functions and operators of `jsonpath`. A path is a text here, read where it is followed.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use halcyon_json::path::{self, Path};
use halcyon_json::{JsonError, Tree};

use super::json::jsonb;
use super::regex::{Options, compile};
use super::{Arguments, Gives, Kind, Row, list, text};
use halcyon_sql::error::{Result, SqlState};

/// The document, the path, variables, and whether errors of what is not there give NULL.
const PATH: &[Kind] = &[Kind::Jsonb, Kind::Text, Kind::Jsonb, Kind::Bool];
const OPERANDS: &[Kind] = &[Kind::Jsonb, Kind::Text];

const EXISTS: &str = "Whether a path of `jsonpath` finds anything; variables, and whether errors are NULL, may follow.";
const HOLDS: &str = "Whether the condition that a path of `jsonpath` is holds; variables, and whether errors are NULL, may follow.";
const ALL: &str = "What a path of `jsonpath` finds, as an array; variables, and whether errors are left out, may follow.";
const FIRST: &str = "The first that a path of `jsonpath` finds; variables, and whether errors are NULL, may follow.";
const EACH: &str = "What a path of `jsonpath` finds, as rows; variables, and whether errors are left out, may follow.";
const READ: &str = "The text of a path of `jsonpath`, if it is one.";

pub(super) const ROWS: &[Row] = &[
    Row::new("jsonb_path_exists", EXISTS, PATH, Gives::Bool, |args| exists(args, is_silent(args)))
        .optional(2),
    Row::new("@?", EXISTS, OPERANDS, Gives::Bool, |args| exists(args, true)),
    Row::new("jsonb_path_match", HOLDS, PATH, Gives::Bool, |args| holds(args, is_silent(args)))
        .optional(2),
    Row::new("@@", HOLDS, OPERANDS, Gives::Bool, |args| holds(args, true)),
    Row::new("jsonb_path_query_array", ALL, PATH, Gives::Jsonb, |args| {
        found(args, is_silent(args), |items| {
            jsonb(&Tree::Array(items.into_iter().map(Cow::into_owned).collect()))
        })
        .map(|found| found.unwrap_or_else(|| jsonb(&Tree::Array(Vec::new()))))
    })
    .optional(2),
    Row::new("jsonb_path_query_first", FIRST, PATH, Gives::Jsonb, |args| {
        let first = |items: Vec<Cow<'_, Tree>>| items.first().map(|item| jsonb(item));
        Ok(found(args, is_silent(args), first)?.flatten().unwrap_or(ScalarValue::Null))
    })
    .optional(2),
    Row::new("jsonb_path_query\u{1}rows", EACH, PATH, Gives::Jsonbs, |args| {
        let all = |items: Vec<Cow<'_, Tree>>| items.iter().map(|item| jsonb(item)).collect();
        let all: Vec<ScalarValue> = found(args, is_silent(args), all)?.unwrap_or_default();
        Ok(list(&all, &DataType::LargeBinary))
    })
    .optional(2),
    Row::new("jsonpath", READ, &[Kind::Text], Gives::Text, |args| {
        Path::read(args.text(0))?;
        Ok(text(args.text(0)))
    }),
];

fn is_silent(args: &Arguments<'_>) -> bool {
    matches!(args.values.get(3), Some(ScalarValue::Boolean(Some(true))))
}

fn exists(args: &Arguments<'_>, is_silent: bool) -> Result<ScalarValue> {
    let some = found(args, is_silent, |items| !items.is_empty())?;
    Ok(ScalarValue::Boolean(some))
}

fn holds(args: &Arguments<'_>, is_silent: bool) -> Result<ScalarValue> {
    let held = found(args, is_silent, |items| path::holds(&items))?;
    Ok(ScalarValue::Boolean(match held {
        Some(Err(error)) if !is_silent => return Err(error.into()),
        held => held.and_then(|held| held.ok().flatten()),
    }))
}

/// What is made of the items that the path finds; `None` for an error that is not to be told.
fn found<T>(
    args: &Arguments<'_>,
    is_silent: bool,
    made: impl FnOnce(Vec<Cow<'_, Tree>>) -> T,
) -> Result<Option<T>> {
    let path = Path::read(args.text(1))?;
    let document = args.node(0).tree();
    let variables = if args.has(2) { args.node(2).tree() } else { Tree::Null };
    match path::find(&path, &document, &variables, &matches) {
        Ok(items) => Ok(Some(made(items))),
        Err(error) if is_silent && is_of_items(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether an error is one of items, not of the path itself.
fn is_of_items(error: &JsonError) -> bool {
    let state = &error.told().state;
    state.starts_with(b"2203") || matches!(state, b"22012" | b"22003")
}

/// `like_regex`: XQuery's flags in PostgreSQL's letters.
fn matches(pattern: &str, flags: &str, item: &str) -> halcyon_json::Result<bool> {
    let letters = flags.chars().filter(|flag| matches!(flag, 'i' | 'x' | 'q'));
    // Without `s` a point matches no newline; with `m` anchors match at lines.
    let lines = match (flags.contains('s'), flags.contains('m')) {
        (false, true) => "n",
        (false, false) => "p",
        (true, true) => "w",
        (true, false) => "s",
    };
    let letters: String = letters.chain(lines.chars()).collect();
    let compiled = Options::parse(&letters).and_then(|options| compile(pattern, options));
    let compiled =
        compiled.map_err(|error| JsonError::new(b"2201B", error.message().to_owned()))?;
    compiled.is_match(item).map_err(|error| match error.state() {
        SqlState::QUERY_CANCELED => JsonError::new(b"57014", error.message().to_owned()),
        SqlState::OUT_OF_MEMORY => JsonError::new(b"53200", error.message().to_owned()),
        _ => JsonError::new(b"54000", error.message().to_owned()),
    })
}
