//! VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH MATERIALIZED VIEW, CREATE STATISTICS, and parameters of an index's storage: what
//! PostgreSQL's tables need from time to time and Halcyon's do not. Their objects must exist; otherwise these statements do
//! nothing. Statistics are not kept, so all names of some are taken.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::parser::{IsOptional, Parser};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::moves::move_to;
use super::reader::{Reader, is_word};
use super::with_commas;
use crate::error::{Result, SqlError};

/// A statement that would keep tables in order, if they needed that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// The statement's first word.
    pub verb: UpkeepVerb,
    /// What the statement names; empty for the whole database.
    pub objects: Vec<UpkeepObject>,
}

/// The first words of an [`Upkeep`], which are its command tag too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UpkeepVerb {
    Vacuum,
    Analyze,
    Reindex,
    Cluster,
    Refresh,
    CreateStatistics,
    AlterStatistics,
    DropStatistics,
    AlterIndex,
}

/// What an [`Upkeep`] names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpkeepObject {
    /// A table or materialized view, and columns of it.
    Table(ObjectName, Vec<Ident>),
    /// An index.
    Index(ObjectName),
    /// A schema.
    Schema(Ident),
    /// Statistics, which nobody keeps.
    Statistics(ObjectName),
}

impl UpkeepVerb {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            UpkeepVerb::Vacuum => "VACUUM",
            UpkeepVerb::Analyze => "ANALYZE",
            UpkeepVerb::Reindex => "REINDEX",
            UpkeepVerb::Cluster => "CLUSTER",
            UpkeepVerb::Refresh => "REFRESH MATERIALIZED VIEW",
            UpkeepVerb::CreateStatistics => "CREATE STATISTICS",
            UpkeepVerb::AlterStatistics => "ALTER STATISTICS",
            UpkeepVerb::DropStatistics => "DROP STATISTICS",
            UpkeepVerb::AlterIndex => "ALTER INDEX",
        }
    }
}

/// Behind VACUUM.
pub(super) fn vacuum(reader: &mut Reader<'_>) -> Result<Upkeep> {
    options(reader, &["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"])?;
    tables(reader, UpkeepVerb::Vacuum)
}

/// Behind ANALYZE.
pub(super) fn analyze(reader: &mut Reader<'_>) -> Result<Upkeep> {
    options(reader, &["VERBOSE"])?;
    tables(reader, UpkeepVerb::Analyze)
}

/// Behind REINDEX.
pub(super) fn reindex(reader: &mut Reader<'_>) -> Result<Upkeep> {
    options(reader, &[])?;
    let kind = reader.expect_one_of(&["TABLE", "INDEX", "SCHEMA", "DATABASE", "SYSTEM"])?;
    reader.eats("CONCURRENTLY");
    let objects = match kind {
        "TABLE" => vec![UpkeepObject::Table(reader.name()?, Vec::new())],
        "INDEX" => vec![UpkeepObject::Index(reader.name()?)],
        "SCHEMA" => vec![UpkeepObject::Schema(reader.ident()?)],
        _ => {
            if !reader.is_at_end() {
                reader.ident()?;
            }
            Vec::new()
        }
    };
    Ok(Upkeep { verb: UpkeepVerb::Reindex, objects })
}

/// Behind CLUSTER.
pub(super) fn cluster(reader: &mut Reader<'_>) -> Result<Upkeep> {
    options(reader, &["VERBOSE"])?;
    let mut objects = Vec::new();
    if !reader.is_at_end() {
        let table = reader.name()?;
        if reader.eats("USING") {
            // An index has its table's schema.
            let mut index = table.0.clone();
            index.pop();
            index.extend(reader.name()?.0);
            objects.push(UpkeepObject::Index(ObjectName(index)));
        }
        objects.insert(0, UpkeepObject::Table(table, Vec::new()));
    }
    Ok(Upkeep { verb: UpkeepVerb::Cluster, objects })
}

/// Behind REFRESH MATERIALIZED VIEW. Errors: 0A000 for WITH NO DATA, which would empty the view.
pub(super) fn refresh(reader: &mut Reader<'_>) -> Result<Upkeep> {
    reader.eats("CONCURRENTLY");
    let objects = vec![UpkeepObject::Table(reader.name()?, Vec::new())];
    if reader.eats("WITH NO DATA") {
        return Err(SqlError::unsupported("REFRESH MATERIALIZED VIEW … WITH NO DATA")
            .hint("A materialized view always has its rows."));
    }
    reader.eats("WITH DATA");
    Ok(Upkeep { verb: UpkeepVerb::Refresh, objects })
}

/// Behind CREATE STATISTICS.
pub(super) fn create_statistics(reader: &mut Reader<'_>) -> Result<Upkeep> {
    reader.eats("IF NOT EXISTS");
    let name = match reader.is("ON") {
        true => None,
        false => Some(UpkeepObject::Statistics(reader.name()?)),
    };
    if matches!(reader.ahead().next(), Some(Token::LParen)) {
        reader
            .sql(|parser| parser.parse_parenthesized_column_list(IsOptional::Mandatory, false))?;
    }
    reader.expect("ON")?;
    let of = reader.sql(|parser| parser.parse_comma_separated(Parser::parse_expr))?;
    reader.expect("FROM")?;
    let columns = of.into_iter().filter_map(|expr| match expr {
        Expr::Identifier(column) => Some(column),
        _ => None,
    });
    let table = UpkeepObject::Table(reader.name()?, columns.collect());
    let objects = name.into_iter().chain([table]).collect();
    Ok(Upkeep { verb: UpkeepVerb::CreateStatistics, objects })
}

/// Behind ALTER STATISTICS.
pub(super) fn alter_statistics(reader: &mut Reader<'_>) -> Result<Upkeep> {
    reader.if_exists();
    let objects = vec![UpkeepObject::Statistics(reader.name()?)];
    match reader.is("SET") && reader.ahead().nth(1).is_some_and(|word| is_word(word, "STATISTICS"))
    {
        true => {
            reader.expect("SET STATISTICS")?;
            reader.signed()?;
        }
        false => {
            move_to(reader)?;
        }
    }
    Ok(Upkeep { verb: UpkeepVerb::AlterStatistics, objects })
}

/// Behind DROP STATISTICS.
pub(super) fn drop_statistics(reader: &mut Reader<'_>) -> Result<Upkeep> {
    reader.if_exists();
    let mut objects = vec![UpkeepObject::Statistics(reader.name()?)];
    while reader.eats_token(&Token::Comma) {
        objects.push(UpkeepObject::Statistics(reader.name()?));
    }
    let _ = reader.eats("CASCADE") || reader.eats("RESTRICT");
    Ok(Upkeep { verb: UpkeepVerb::DropStatistics, objects })
}

/// Behind ALTER INDEX, if parameters of its storage are set.
pub(super) fn storage_of_index(reader: &mut Reader<'_>) -> Result<Upkeep> {
    let exists = reader.if_exists();
    let name = UpkeepObject::Index(reader.name()?);
    reader.expect_one_of(&["SET", "RESET"])?;
    reader.expect_token(&Token::LParen)?;
    reader.sql(|parser| {
        parser.parse_comma_separated(|parser| {
            let name = parser.parse_identifier()?;
            if parser.consume_token(&Token::Eq) {
                parser.parse_expr()?;
            }
            Ok(name)
        })
    })?;
    reader.expect_token(&Token::RParen)?;
    // One that need not exist is not looked for.
    let objects = if exists { Vec::new() } else { vec![name] };
    Ok(Upkeep { verb: UpkeepVerb::AlterIndex, objects })
}

/// Options: in brackets, or of these words. None of them matters.
fn options(reader: &mut Reader<'_>, words: &[&str]) -> Result<()> {
    if matches!(reader.ahead().next(), Some(Token::LParen)) {
        return reader.sql(|parser| parser.parse_utility_options()).map(|_| ());
    }
    while words.iter().any(|word| reader.eats(word)) {}
    Ok(())
}

fn tables(reader: &mut Reader<'_>, verb: UpkeepVerb) -> Result<Upkeep> {
    let mut objects = Vec::new();
    while !reader.is_at_end() {
        if !objects.is_empty() {
            reader.expect_token(&Token::Comma)?;
        }
        reader.eats("ONLY");
        let table = reader.name()?;
        let columns = |parser: &mut Parser<'static>| {
            parser.parse_parenthesized_column_list(IsOptional::Optional, false)
        };
        objects.push(UpkeepObject::Table(table, reader.sql(columns)?));
    }
    Ok(Upkeep { verb, objects })
}

impl fmt::Display for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb.name())?;
        match (self.verb, self.objects.as_slice()) {
            (UpkeepVerb::Reindex, []) => f.write_str(" DATABASE"),
            (UpkeepVerb::Reindex, [object @ UpkeepObject::Table(..), ..]) => {
                write!(f, " TABLE {object}")
            }
            (UpkeepVerb::Reindex, [object @ UpkeepObject::Index(_), ..]) => {
                write!(f, " INDEX {object}")
            }
            (UpkeepVerb::Reindex, [object, ..]) => write!(f, " SCHEMA {object}"),
            (UpkeepVerb::Cluster, [table, UpkeepObject::Index(index)]) => {
                let name = index.0.last().map(ToString::to_string).unwrap_or_default();
                write!(f, " {table} USING {name}")
            }
            (UpkeepVerb::AlterIndex, []) => f.write_str(" IF EXISTS i RESET (fillfactor)"),
            (UpkeepVerb::AlterIndex, [index, ..]) => write!(f, " {index} RESET (fillfactor)"),
            (UpkeepVerb::AlterStatistics, [name, ..]) => write!(f, " {name} SET STATISTICS -1"),
            (UpkeepVerb::CreateStatistics, objects) => {
                objects.iter().try_for_each(|object| match object {
                    UpkeepObject::Table(table, columns) if columns.is_empty() => {
                        write!(f, " ON (1) FROM {table}")
                    }
                    UpkeepObject::Table(table, columns) => {
                        write!(f, " ON {} FROM {table}", with_commas(columns))
                    }
                    name => write!(f, " {name}"),
                })
            }
            (_, []) => Ok(()),
            (_, objects) => write!(f, " {}", with_commas(objects)),
        }
    }
}

impl fmt::Display for UpkeepObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpkeepObject::Table(name, columns) if columns.is_empty() => name.fmt(f),
            UpkeepObject::Table(name, columns) => write!(f, "{name} ({})", with_commas(columns)),
            UpkeepObject::Index(name) => name.fmt(f),
            UpkeepObject::Schema(name) => name.fmt(f),
            UpkeepObject::Statistics(name) => name.fmt(f),
        }
    }
}
