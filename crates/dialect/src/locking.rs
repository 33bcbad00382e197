//! FOR UPDATE, FOR SHARE and their relatives: where they may stand, and how long they wait.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LockClause, LockType, NonBlock, ObjectNamePart, Query, Select, SetExpr,
    Statement, TableFactor, TableWithJoins, Visit, Visitor,
};

use crate::many_rows::is_of_rows;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

/// How long a statement waits for locks that somebody else has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// As long as `lock_timeout` says.
    #[default]
    Waits,
    /// NOWAIT: not at all, which is an error.
    Fails,
    /// SKIP LOCKED: not at all, and there are no rows then.
    Skips,
}

impl Patience {
    /// What the locking clauses of a statement say: NOWAIT within any of its queries, SKIP LOCKED for the
    /// statement's own rows. A subquery with SKIP LOCKED waits, since the rest of the statement has its effects.
    pub fn of(statement: &Statement) -> Patience {
        struct Impatient;
        impl Visitor for Impatient {
            type Break = ();

            fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
                match has(&query.locks, NonBlock::Nowait) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
        }
        if statement.visit(&mut Impatient).is_break() {
            return Patience::Fails;
        }
        match statement {
            Statement::Query(query) if has(&query.locks, NonBlock::SkipLocked) => Patience::Skips,
            _ => Patience::Waits,
        }
    }
}

fn has(locks: &[LockClause], wanted: NonBlock) -> bool {
    locks.iter().any(|lock| lock.nonblock.as_ref() == Some(&wanted))
}

/// Checks the locking clauses of a query and drops them.
///
/// Errors: 0A000 beside clauses by which rows are not those of a table; 42P01 and 42601 for names behind OF.
pub(crate) fn settle(query: &mut Query) -> Result<()> {
    let locks = std::mem::take(&mut query.locks);
    let Some(first) = locks.first() else { return Ok(()) };
    are_of_tables(&query.body, &first.lock_type)?;
    match query.body.as_ref() {
        SetExpr::Select(select) => locks.iter().try_for_each(|lock| {
            names_a_table(lock, select)?;
            queries_below(select, lock)
                .try_for_each(|query| are_of_tables(&query.body, &lock.lock_type))
        }),
        _ => Ok(()),
    }
}

/// Errors: 0A000 for a query whose rows are not those of tables.
fn are_of_tables(body: &SetExpr, lock: &LockType) -> Result<()> {
    let with = match body {
        SetExpr::Select(select) if select.distinct.is_some() => "DISTINCT clause",
        SetExpr::Select(select) if select.having.is_some() => "HAVING clause",
        SetExpr::Select(select) => match &select.group_by {
            GroupByExpr::Expressions(exprs, _) if exprs.is_empty() => made_of_rows(select),
            _ => "GROUP BY clause",
        },
        SetExpr::SetOperation { .. } => "UNION/INTERSECT/EXCEPT",
        SetExpr::Values(_) => "VALUES",
        _ => "",
    };
    if with.is_empty() {
        return Ok(());
    }
    let message = format!("FOR {lock} is not allowed with {with}");
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

/// Aggregates of everyday use and of the standard.
const AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "max",
    "min",
    "mode",
    "percentile_cont",
    "percentile_disc",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// What the list of a SELECT computes of several rows, or makes several rows of; nothing is an empty text.
fn made_of_rows(select: &Select) -> &'static str {
    struct Calls {
        queries: usize,
        found: [bool; 3],
    }
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && self.queries == 0
            {
                let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                let is_window = function.over.is_some();
                self.found[0] |=
                    !is_window && name.is_some_and(|name| AGGREGATES.contains(&name.as_str()));
                self.found[1] |= is_window;
                self.found[2] |= is_of_rows(function);
            }
            ControlFlow::Continue(())
        }
    }
    let mut calls = Calls { queries: 0, found: [false; 3] };
    let _ = select.projection.visit(&mut calls);
    match calls.found {
        [true, ..] => "aggregate functions",
        [_, true, _] => "window functions",
        [.., true] => "set-returning functions in the target list",
        _ => "",
    }
}

/// The subqueries in FROM whose rows a clause locks: those that it names, or all but VALUES.
fn queries_below<'q>(select: &'q Select, lock: &LockClause) -> impl Iterator<Item = &'q Query> {
    let of = lock.of.as_ref().and_then(|of| of.0.last()?.as_ident().map(fold));
    let factors = select.from.iter().flat_map(|tables| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    });
    factors.filter_map(move |factor| match factor {
        TableFactor::Derived { subquery, alias, .. } => {
            let name = alias.as_ref().map(|alias| fold(&alias.name));
            let is_named = of.is_none() || of == name;
            (is_named && !matches!(*subquery.body, SetExpr::Values(_))).then_some(&**subquery)
        }
        _ => None,
    })
}

/// Errors: 42P01 for a name behind OF that FROM does not have, 42601 for one with a schema.
fn names_a_table(lock: &LockClause, select: &Select) -> Result<()> {
    let Some(of) = &lock.of else { return Ok(()) };
    let [name] = of.0.as_slice() else {
        let message = format!("FOR {} must specify unqualified relation names", lock.lock_type);
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    };
    let name = name.as_ident().map(fold).unwrap_or_default();
    if select.from.iter().any(|tables| has_name(tables, &name)) {
        return Ok(());
    }
    let message =
        format!("relation \"{name}\" in FOR {} clause not found in FROM clause", lock.lock_type);
    Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
}

fn has_name(tables: &TableWithJoins, name: &str) -> bool {
    let of_factor = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias, .. } => match alias {
            Some(alias) => fold(&alias.name) == name,
            None => has_name(table_with_joins, name),
        },
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => fold(&alias.name) == name,
        TableFactor::Table { name: own, .. } => {
            own.0.last().and_then(ObjectNamePart::as_ident).map(fold).as_deref() == Some(name)
        }
        _ => false,
    };
    of_factor(&tables.relation) || tables.joins.iter().any(|join| of_factor(&join.relation))
}
