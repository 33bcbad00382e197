//! CREATE MATERIALIZED VIEW with its options.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use serde::{Deserialize, Serialize};

use super::reader::Reader;
use super::with_commas;
use crate::error::{Result, SqlError, SqlState};
use crate::identifier::fold;

/// `CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [WITH (options)] AS query [WITH DATA]`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateMaterializedView {
    /// The view.
    pub name: ObjectName,
    /// It may exist.
    pub if_not_exists: bool,
    /// Names of its first columns, in place of the query's.
    pub columns: Vec<Ident>,
    /// What stands in WITH.
    pub options: ViewOptions,
    /// Gives its rows.
    pub query: Box<Query>,
}

/// Options of a materialized view; `None` and false mean that it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// `on_restart = 'empty'`: it begins without rows when the database is opened again.
    pub empty_on_restart: bool,
    /// `executor = '…'`: how its programs are run.
    pub executor: Option<ViewExecutor>,
    /// `place = '…'`, `cell_memory = '…'`, `cell_cpu = …`: where its programs are run.
    pub cell: ViewCell,
}

/// Where the programs of a materialized view are run, and with what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewCell {
    /// The place.
    pub place: ViewPlace,
    /// Memory of the cell in MiB.
    pub memory_mb: Option<u32>,
    /// The processor that the cell is bound to.
    pub cpu: Option<u32>,
}

/// A place where the programs of a materialized view are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ViewPlace {
    /// The process.
    #[default]
    Process,
    /// A cell: a machine of its own.
    Cell,
    /// A thread that does what a cell does, for tests and comparisons.
    Thread,
}

/// Each with the word that says so.
const PLACES: &[(&str, ViewPlace)] =
    &[("process", ViewPlace::Process), ("cell", ViewPlace::Cell), ("thread", ViewPlace::Thread)];

impl ViewCell {
    /// Whether the programs are run in the process.
    pub fn is_process(&self) -> bool {
        self.place == ViewPlace::Process
    }

    /// The options that say so.
    pub fn options(&self) -> Vec<String> {
        if self.is_process() {
            return Vec::new();
        }
        let word = PLACES.iter().find(|(_, place)| *place == self.place).map_or("", |one| one.0);
        let memory = self.memory_mb.map(|mb| format!("cell_memory = '{mb}MB'"));
        let cpu = self.cpu.map(|cpu| format!("cell_cpu = {cpu}"));
        [Some(format!("place = '{word}'")), memory, cpu].into_iter().flatten().collect()
    }
}

/// How the programs of a materialized view are run: the slow twins are for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewExecutor {
    /// As machine code.
    Compiled,
    /// Operation by operation.
    Operations,
    /// By walking the program's tree.
    Interpreted,
}

/// Each with the word that says so.
const EXECUTORS: &[(&str, ViewExecutor)] = &[
    ("compiled", ViewExecutor::Compiled),
    ("operations", ViewExecutor::Operations),
    ("interpreted", ViewExecutor::Interpreted),
];

/// Behind CREATE MATERIALIZED VIEW. Errors: 42601; 22023 for an option that is none, has another value
/// or comes twice.
pub(super) fn create_materialized_view(reader: &mut Reader<'_>) -> Result<CreateMaterializedView> {
    let if_not_exists = reader.eats("IF NOT EXISTS");
    let name = reader.name()?;
    let mut columns = Vec::new();
    if reader.eats_token(&Token::LParen) {
        columns = reader.idents()?;
        reader.expect_token(&Token::RParen)?;
    }
    let options = match reader.eats("WITH") {
        true => options(reader)?,
        false => ViewOptions::default(),
    };
    reader.expect("AS")?;
    let query = reader.sql_with_joins(|parser| parser.parse_query())?;
    // A view without its rows would be filled by REFRESH alone; here it is up to date from the start.
    if !reader.eats("WITH NO DATA") {
        reader.eats("WITH DATA");
    }
    Ok(CreateMaterializedView { name, if_not_exists, columns, options, query })
}

/// Behind WITH.
fn options(reader: &mut Reader<'_>) -> Result<ViewOptions> {
    reader.expect_token(&Token::LParen)?;
    let mut options = ViewOptions::default();
    let mut seen: Vec<String> = Vec::new();
    loop {
        let key = fold(&reader.ident()?);
        reader.expect_token(&Token::Eq)?;
        let value = option_value(reader)?;
        if seen.contains(&key) {
            return Err(bad(format!("parameter \"{key}\" specified more than once")));
        }
        option(&mut options, &key, &value)?;
        seen.push(key);
        if !reader.eats_token(&Token::Comma) {
            break;
        }
    }
    reader.expect_token(&Token::RParen)?;
    let ViewOptions { executor, cell, .. } = options;
    if cell.is_process() && cell != ViewCell::default() {
        return Err(bad("only a view WITH (place = 'cell') has memory and a processor".to_owned()));
    }
    if !cell.is_process() && executor.is_some() {
        return Err(bad("a cell has no choice of executors".to_owned())
            .hint("The programs of cells are run as operations."));
    }
    Ok(options)
}

/// A text in quotes, a number or a word, as the value of an option.
pub(super) fn option_value(reader: &mut Reader<'_>) -> Result<String> {
    match reader.ahead().next() {
        Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)) => reader.string(),
        Some(Token::Number(..)) => {
            reader.sql(Parser::parse_number).map(|number| number.to_string())
        }
        _ => reader.ident().map(|word| fold(&word)),
    }
}

fn option(options: &mut ViewOptions, key: &str, value: &str) -> Result<()> {
    let invalid = |hint: &str| {
        bad(format!("invalid value for parameter \"{key}\": \"{value}\"")).hint(hint.to_owned())
    };
    match key {
        "on_restart" if value == "empty" => options.empty_on_restart = true,
        "on_restart" => return Err(invalid("The only one is 'empty'.")),
        "executor" => match EXECUTORS.iter().find(|(word, _)| *word == value) {
            Some((_, executor)) => options.executor = Some(*executor),
            None => return Err(invalid("There are 'compiled', 'operations' and 'interpreted'.")),
        },
        "place" => match PLACES.iter().find(|(word, _)| *word == value) {
            Some((_, place)) => options.cell.place = *place,
            None => return Err(invalid("There are 'process', 'cell' and 'thread'.")),
        },
        "cell_memory" => {
            let gigabytes = value.strip_suffix("GB").and_then(|number| number.parse().ok());
            let megabytes = value.strip_suffix("MB").and_then(|number| number.parse().ok());
            options.cell.memory_mb = megabytes.or(gigabytes.map(|number: u32| number << 10));
            if !options.cell.memory_mb.is_some_and(|mb| (32..=4096).contains(&mb)) {
                return Err(invalid("Give 32MB to 4GB."));
            }
        }
        "cell_cpu" => match value.parse() {
            Ok(cpu) => options.cell.cpu = Some(cpu),
            Err(_) => return Err(invalid("Give the number of a processor.")),
        },
        "refresh" => {
            return Err(bad("parameter \"refresh\" cannot be set".to_owned()).hint(
                "A materialized view is always up to date; CREATE VIEW is computed when read.",
            ));
        }
        other => return Err(bad(format!("unrecognized parameter \"{other}\""))),
    }
    Ok(())
}

/// 22023.
fn bad(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

impl fmt::Display for CreateMaterializedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE MATERIALIZED VIEW ")?;
        if self.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        write!(f, "{}", self.name)?;
        if !self.columns.is_empty() {
            write!(f, " ({})", with_commas(&self.columns))?;
        }
        let ViewOptions { empty_on_restart, executor, cell } = self.options;
        let word = |executor| EXECUTORS.iter().find(|(_, one)| *one == executor);
        let executor = executor.and_then(word).map(|(word, _)| format!("executor = '{word}'"));
        let restart = empty_on_restart.then(|| "on_restart = 'empty'".to_owned());
        let options: Vec<String> =
            restart.into_iter().chain(executor).chain(cell.options()).collect();
        if !options.is_empty() {
            write!(f, " WITH ({})", with_commas(&options))?;
        }
        write!(f, " AS {}", self.query)
    }
}
