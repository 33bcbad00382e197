//! VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH MATERIALIZED VIEW: what PostgreSQL's tables need from time to time and Halcyon's do
//! not. Their objects must exist; otherwise these statements do nothing.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::parser::{IsOptional, Parser};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::reader::Reader;
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
        }
    }
}
