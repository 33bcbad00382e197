//! RETURNING with subqueries, as a query over the rows that the statement returns.
//!
//! A subquery is planned, and RETURNING is computed row by row where rows are written. A statement whose RETURNING has
//! subqueries is therefore written as one of several parts ([`super::compound`]): the write, which returns its rows
//! whole, and a query of these rows. That is PostgreSQL's meaning: subqueries find the tables as they were when the
//! statement began.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, FromTable, Ident, Query, SelectItem, SetExpr, Visit};

use super::Write;
use halcyon_sql::error::Result;
use halcyon_sql::parse::parse_query;

/// The entry of WITH that has the rows; no statement can write the name.
const ROWS: &str = "returned\u{1}rows";

/// The statement as a query behind WITH, if subqueries stand in its RETURNING and it has no tables beside its target.
pub fn in_parts(write: Write<'_>, with: Option<&ast::With>) -> Result<Option<Query>> {
    let Some(items) = write.returning() else { return Ok(None) };
    if write.has_other_tables() || !has_subqueries(items) {
        return Ok(None);
    }
    let Some(alias) = write.alias() else { return Ok(None) };
    let body = match write {
        Write::Insert(insert) => SetExpr::Insert(ast::Statement::Insert(ast::Insert {
            returning: whole(),
            ..insert.clone()
        })),
        Write::Update(update) => SetExpr::Update(ast::Statement::Update(ast::Update {
            returning: whole(),
            ..update.clone()
        })),
        Write::Delete(delete) => SetExpr::Delete(ast::Statement::Delete(ast::Delete {
            returning: whole(),
            ..delete.clone()
        })),
    };
    let mut query =
        parse_query(&format!("WITH \"{ROWS}\" AS (SELECT 1) SELECT 1 FROM \"{ROWS}\" AS a"))?;
    let own = query.with.as_mut().expect("it has one");
    *own.cte_tables[0].query.body = body;
    if let Some(with) = with {
        own.recursive = with.recursive;
        own.cte_tables.splice(0..0, with.cte_tables.iter().cloned());
    }
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("it is a SELECT") };
    select.projection = items.to_vec();
    if let ast::TableFactor::Table { alias: Some(named), .. } = &mut select.from[0].relation {
        named.name = alias;
    }
    Ok(Some(query))
}

fn whole() -> Option<Vec<SelectItem>> {
    Some(vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())])
}

fn has_subqueries(items: &[SelectItem]) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    items.iter().any(|item| item.visit(&mut Search).is_break())
}

impl Write<'_> {
    fn returning(&self) -> Option<&[SelectItem]> {
        match self {
            Write::Insert(insert) => insert.returning.as_deref(),
            Write::Update(update) => update.returning.as_deref(),
            Write::Delete(delete) => delete.returning.as_deref(),
        }
    }

    /// Whether the statement names tables beside its target: FROM of UPDATE, USING of DELETE.
    fn has_other_tables(&self) -> bool {
        match self {
            Write::Insert(_) => false,
            Write::Update(update) => update.from.is_some() || !update.table.joins.is_empty(),
            Write::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                    &delete.from;
                delete.using.is_some() || from.len() != 1 || !from[0].joins.is_empty()
            }
        }
    }

    /// The name by which the statement's expressions know its target.
    fn alias(&self) -> Option<Ident> {
        let of_factor = |table: &ast::TableWithJoins| match &table.relation {
            ast::TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.clone()),
            _ => None,
        };
        let own = match self {
            Write::Insert(insert) => insert.table_alias.as_ref().map(|alias| alias.alias.clone()),
            Write::Update(update) => of_factor(&update.table),
            Write::Delete(delete) => match &delete.from {
                FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                    from.first().and_then(of_factor)
                }
            },
        };
        own.or_else(|| self.target()?.0.last()?.as_ident().cloned())
    }
}
