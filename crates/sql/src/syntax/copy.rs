//! COPY, whose options PostgreSQL spells in more ways than the SQL parser knows.
//!
//! In brackets a switch takes `on`, `true`, `1` and their opposites, a name may stand in quotes, and a
//! list may be `*`. Options without brackets are those of PostgreSQL before 9.0.
//!
//! The SQL parser's tree of COPY FROM has no place for a condition, and a table as its source only. So
//! `COPY t (a) FROM … WHERE b > 1` has the source `SELECT a FROM t WHERE b > 1` here: [`Filtered`].

use datafusion::sql::sqlparser::ast::{
    CopyOption, CopySource, CopyTarget, Expr, Ident, ObjectName, SelectItem, SetExpr,
    Statement as Sql, TableFactor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::Statement;
use super::reader::Reader;
use crate::error::Result;

/// Behind COPY.
pub(super) fn copy(reader: &mut Reader<'_>) -> Result<Statement> {
    let of_query = reader.eats_token(&Token::LParen);
    let source = match of_query {
        true => {
            let query = reader.sql_with_joins(|parser| parser.parse_query())?;
            reader.expect_token(&Token::RParen)?;
            CopySource::Query(query)
        }
        false => CopySource::Table {
            table_name: reader.name()?,
            columns: reader
                .sql(|p| p.parse_parenthesized_column_list(IsOptional::Optional, false))?,
        },
    };
    let to = match of_query {
        true => reader.expect("TO").map(|()| true)?,
        false => reader.expect_one_of(&["FROM", "TO"])? == "TO",
    };
    let target = if reader.eats("STDIN") {
        CopyTarget::Stdin
    } else if reader.eats("STDOUT") {
        CopyTarget::Stdout
    } else if reader.eats("PROGRAM") {
        CopyTarget::Program { command: reader.string()? }
    } else {
        CopyTarget::File { filename: reader.string()? }
    };
    reader.eats("WITH");
    let mut options = Vec::new();
    if reader.eats_token(&Token::LParen) {
        options.push(option(reader)?);
        while reader.eats_token(&Token::Comma) {
            options.push(option(reader)?);
        }
        reader.expect_token(&Token::RParen)?;
    }
    while !reader.is_at_end() && (to || !reader.is("WHERE")) {
        options.push(bare_option(reader)?);
    }
    let source = match source {
        CopySource::Table { table_name, columns } if !to && reader.eats("WHERE") => {
            let condition = reader.sql_with_joins(|parser| parser.parse_expr())?;
            Filtered { table_name, columns, condition }.into_source()
        }
        source => source,
    };
    let (legacy_options, values) = (Vec::new(), Vec::new());
    let copy = Sql::Copy { source, to, target, options, legacy_options, values };
    Ok(Statement::Sql(Box::new(copy)))
}

/// The source of a COPY FROM with a condition on the rows.
#[derive(Clone, Debug)]
pub struct Filtered {
    /// The table that takes the rows.
    pub table_name: ObjectName,
    /// The columns that the data has; none: all.
    pub columns: Vec<Ident>,
    /// The condition: other rows are passed over.
    pub condition: Expr,
}

impl Filtered {
    /// The query that stands for a table and a condition.
    fn into_source(self) -> CopySource {
        let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT * FROM t WHERE TRUE");
        let query = parsed.and_then(|mut parser| parser.parse_query());
        let mut query = query.expect("the text is a query");
        let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("it is a SELECT") };
        if !self.columns.is_empty() {
            let item = |name| SelectItem::UnnamedExpr(Expr::Identifier(name));
            select.projection = self.columns.into_iter().map(item).collect();
        }
        if let TableFactor::Table { name, .. } = &mut select.from[0].relation {
            *name = self.table_name;
        }
        select.selection = Some(self.condition);
        CopySource::Query(query)
    }

    /// What the source of a COPY FROM says; `None` if there is no condition.
    pub fn of(source: &CopySource) -> Option<Filtered> {
        let CopySource::Query(query) = source else { return None };
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let TableFactor::Table { name, .. } = &select.from.first()?.relation else { return None };
        let column = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        };
        Some(Filtered {
            table_name: name.clone(),
            columns: select.projection.iter().filter_map(column).collect(),
            condition: select.selection.clone()?,
        })
    }
}

/// The format that stands for HEADER MATCH, of which the SQL parser's tree knows nothing.
pub const HEADER_MATCH: &str = "\u{1}header match";

fn option(reader: &mut Reader<'_>) -> Result<CopyOption> {
    crate::error::SqlError::unless_interrupted()?;
    const NAMES: &[&str] = &[
        "FORMAT",
        "FREEZE",
        "DELIMITER",
        "NULL",
        "HEADER",
        "QUOTE",
        "ESCAPE",
        "FORCE_QUOTE",
        "FORCE_NOT_NULL",
        "FORCE_NULL",
        "ENCODING",
    ];
    Ok(match reader.expect_one_of(NAMES)? {
        "FORMAT" => CopyOption::Format(word(reader)?),
        "FREEZE" => CopyOption::Freeze(switch(reader)?),
        "DELIMITER" => CopyOption::Delimiter(character(reader)?),
        "NULL" => CopyOption::Null(reader.string()?),
        "HEADER" if reader.eats("MATCH") => CopyOption::Format(Ident::new(HEADER_MATCH)),
        "HEADER" => CopyOption::Header(switch(reader)?),
        "QUOTE" => CopyOption::Quote(character(reader)?),
        "ESCAPE" => CopyOption::Escape(character(reader)?),
        "FORCE_QUOTE" => CopyOption::ForceQuote(columns(reader)?),
        "FORCE_NOT_NULL" => CopyOption::ForceNotNull(columns(reader)?),
        "FORCE_NULL" => CopyOption::ForceNull(columns(reader)?),
        _ => CopyOption::Encoding(word(reader)?.value),
    })
}

/// An option as PostgreSQL wrote it before options stood in brackets.
fn bare_option(reader: &mut Reader<'_>) -> Result<CopyOption> {
    const NAMES: &[&str] = &[
        "BINARY",
        "CSV",
        "PARQUET",
        "FREEZE",
        "HEADER",
        "DELIMITER",
        "NULL",
        "QUOTE",
        "ESCAPE",
        "FORCE QUOTE",
        "FORCE NOT NULL",
        "FORCE NULL",
        "ENCODING",
    ];
    let listed = |reader: &mut Reader<'_>| match reader.eats_token(&Token::Mul) {
        true => Ok(vec![Ident::new("*")]),
        false => reader.idents(),
    };
    let name = reader.expect_one_of(NAMES)?;
    if matches!(name, "DELIMITER" | "NULL" | "QUOTE" | "ESCAPE") {
        reader.eats("AS");
    }
    Ok(match name {
        "BINARY" => CopyOption::Format(Ident::new("binary")),
        "CSV" => CopyOption::Format(Ident::new("csv")),
        "PARQUET" => CopyOption::Format(Ident::new("parquet")),
        "FREEZE" => CopyOption::Freeze(true),
        "HEADER" => CopyOption::Header(true),
        "DELIMITER" => CopyOption::Delimiter(character(reader)?),
        "NULL" => CopyOption::Null(reader.string()?),
        "QUOTE" => CopyOption::Quote(character(reader)?),
        "ESCAPE" => CopyOption::Escape(character(reader)?),
        "FORCE QUOTE" => CopyOption::ForceQuote(listed(reader)?),
        "FORCE NOT NULL" => CopyOption::ForceNotNull(listed(reader)?),
        "FORCE NULL" => CopyOption::ForceNull(listed(reader)?),
        _ => CopyOption::Encoding(reader.string()?),
    })
}

/// A name, bare or in quotes.
fn word(reader: &mut Reader<'_>) -> Result<Ident> {
    match reader.ahead().next() {
        Some(Token::SingleQuotedString(_)) => reader.string().map(Ident::new),
        _ => reader.ident(),
    }
}

/// On, off, or nothing, which is on.
fn switch(reader: &mut Reader<'_>) -> Result<bool> {
    let value = match reader.ahead().next() {
        Some(Token::Comma | Token::RParen) => return Ok(true),
        Some(Token::Number(digits, _)) => digits.clone(),
        Some(Token::SingleQuotedString(text)) => text.clone(),
        Some(Token::Word(word)) => word.value.clone(),
        _ => String::new(),
    };
    let refused = reader.unexpected("true or false");
    let on = match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => true,
        "off" | "false" | "0" => false,
        _ => return Err(refused),
    };
    reader.skip();
    Ok(on)
}

/// One character in quotes.
fn character(reader: &mut Reader<'_>) -> Result<char> {
    let refused = reader.unexpected("one character in quotes");
    let text = reader.string()?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(refused),
    }
}

/// Columns in brackets, or `*` for all.
fn columns(reader: &mut Reader<'_>) -> Result<Vec<Ident>> {
    if reader.eats_token(&Token::Mul) {
        return Ok(vec![Ident::new("*")]);
    }
    reader.expect_token(&Token::LParen)?;
    if reader.eats_token(&Token::Mul) {
        reader.expect_token(&Token::RParen)?;
        return Ok(vec![Ident::new("*")]);
    }
    let columns = reader.idents()?;
    reader.expect_token(&Token::RParen)?;
    Ok(columns)
}
