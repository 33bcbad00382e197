//! FOR UPDATE, FOR SHARE and their relatives: where they may stand, and how long they wait.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    GroupByExpr, LockClause, NonBlock, ObjectNamePart, Query, Select, SetExpr, Statement,
    TableFactor, TableWithJoins, Visit, Visitor,
};

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
    let with = match query.body.as_ref() {
        SetExpr::Select(select) if select.distinct.is_some() => "DISTINCT clause",
        SetExpr::Select(select) if select.having.is_some() => "HAVING clause",
        SetExpr::Select(select) => match &select.group_by {
            GroupByExpr::Expressions(exprs, _) if exprs.is_empty() => "",
            _ => "GROUP BY clause",
        },
        SetExpr::SetOperation { .. } => "UNION/INTERSECT/EXCEPT",
        SetExpr::Values(_) => "VALUES",
        _ => "",
    };
    if !with.is_empty() {
        let message = format!("FOR {} is not allowed with {with}", first.lock_type);
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    match query.body.as_ref() {
        SetExpr::Select(select) => locks.iter().try_for_each(|lock| names_a_table(lock, select)),
        _ => Ok(()),
    }
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
