//! What GROUP BY may say: so many sets of keys, and each expression once, of which DataFusion keeps one and counts two.
//!
//! Invariant, checked by `grouping_sets_are_counted_before_they_are_made`: no plan has more than [`SETS_MAX`] sets in one GROUP BY.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Sets of keys of one GROUP BY, as in PostgreSQL.
const SETS_MAX: u64 = 4_096;

/// Elements of one CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// Errors: 54011 for a CUBE that is too large, 54001 for too many sets of keys: they multiply, and planning makes all
/// of them in one step.
pub(crate) fn check(select: &Select) -> Result<()> {
    let GroupByExpr::Expressions(exprs, _) = &select.group_by else { return Ok(()) };
    let mut all: u64 = 1;
    for expr in exprs {
        all = all.saturating_mul(sets(expr)?);
    }
    match all > SETS_MAX {
        false => Ok(()),
        true => {
            let message = format!("too many grouping sets present (maximum {SETS_MAX})");
            Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message))
        }
    }
}

/// How many sets an element of GROUP BY stands for.
fn sets(expr: &Expr) -> Result<u64> {
    match expr {
        Expr::Cube(elements) if elements.len() > CUBE_MAX => Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("CUBE is limited to {CUBE_MAX} elements"),
        )),
        Expr::Cube(elements) => Ok(1 << elements.len()),
        Expr::Rollup(elements) => Ok(elements.len() as u64 + 1),
        Expr::GroupingSets(listed) => {
            let mut all: u64 = 0;
            for set in listed {
                let own = match set.as_slice() {
                    [expr] => sets(expr)?,
                    _ => 1,
                };
                all = all.saturating_add(own);
            }
            Ok(all)
        }
        _ => Ok(1),
    }
}

/// Drops what GROUP BY names again, in the same words or by the item's place in the list.
pub(crate) fn name_each_once(select: &mut Select) {
    let GroupByExpr::Expressions(exprs, modifiers) = &mut select.group_by else { return };
    // `GROUP BY ()` is one group of all rows; beside other expressions it says nothing.
    let is_empty = |expr: &Expr| matches!(expr, Expr::Tuple(parts) if parts.is_empty());
    if exprs.iter().all(is_empty) && !exprs.is_empty() {
        *exprs = vec![Expr::GroupingSets(vec![Vec::new()])];
    }
    exprs.retain(|expr| !is_empty(expr));
    for expr in exprs.iter_mut() {
        if let Expr::Rollup(elements) = expr
            && (1..elements.len()).any(|at| elements[..at].contains(&elements[at]))
        {
            *expr = Expr::GroupingSets(sets_of_rollup(elements));
        }
    }
    if exprs.len() < 2 || !modifiers.is_empty() {
        return;
    }
    let items = &select.projection;
    let mut seen: Vec<Expr> = Vec::with_capacity(exprs.len());
    exprs.retain(|expr| {
        let meant = item_of(expr, items).unwrap_or(expr);
        let is_new = !seen.contains(meant);
        if is_new {
            seen.push(meant.clone());
        }
        is_new
    });
}

/// The sets that ROLLUP stands for, the largest first, in which each expression stands once.
fn sets_of_rollup(elements: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let set = |count: usize| {
        elements[..count].iter().flatten().fold(Vec::new(), |mut set, expr| {
            if !set.contains(expr) {
                set.push(expr.clone());
            }
            set
        })
    };
    (0..=elements.len()).rev().map(set).collect()
}

/// The item whose place a number names.
fn item_of<'i>(expr: &Expr, items: &'i [SelectItem]) -> Option<&'i Expr> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    // Columns that a star stands for count too.
    let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
    let before = items.get(..=at)?;
    let is_plain = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    match before.iter().all(is_plain).then(|| &before[at])? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
