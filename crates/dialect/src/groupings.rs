//! What GROUP BY may say: so many sets of keys, and each expression once, of which DataFusion keeps one and counts two.
//!
//! Invariant, checked by `grouping_sets_are_counted_before_they_are_made`: no plan has more than [`SETS_MAX`] sets in one GROUP BY.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Ident, Select, SelectItem, Value};

use crate::made::{call, quoted};
use crate::shown_item_name;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

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

/// Tells items of the list apart that are one expression and keys of sets both: `SELECT a AS x, a AS y … ROLLUP (x, y)`.
///
/// Each is NULL where its own key is not in the set. DataFusion knows keys by their expressions, so the second one gets
/// another with the same value. Keys that name the item, or its place, follow by themselves.
pub fn tell_items_apart(select: &mut Select) {
    let GroupByExpr::Expressions(exprs, _) = &select.group_by else { return };
    let is_sets =
        |expr: &Expr| matches!(expr, Expr::Cube(_) | Expr::Rollup(_) | Expr::GroupingSets(_));
    if !exprs.iter().any(is_sets) {
        return;
    }
    let (mut keys, items) = (Vec::new(), &select.projection);
    exprs.iter().for_each(|expr| leaves(expr, &mut keys));
    let is_named = |item: &SelectItem, name: &Ident| match item {
        SelectItem::ExprWithAlias { alias, .. } => fold(alias) == fold(name),
        _ => false,
    };
    // Items that a key means by their name or place; other keys are expressions, and mean the first item that is one.
    let mut meant: Vec<usize> = Vec::new();
    for key in keys {
        let at = match key {
            Expr::Identifier(name) => items.iter().position(|item| is_named(item, name)),
            key => place_of(key, items),
        };
        let first = || items.iter().position(|item| expr_of(item) == Some(key));
        meant.extend(at.or_else(first));
    }
    meant.sort_unstable();
    meant.dedup();
    let mut apart = Vec::new();
    for (at, item) in meant.iter().enumerate() {
        let (expr, name) = (expr_of(&items[*item]), shown_item_name(&items[*item]));
        let before = meant[..at].iter().filter(|other| expr_of(&items[**other]) == expr).count();
        if let (Some(expr), Some(name), 1..) = (expr, name, before) {
            let expr = (0..before).fold(expr.clone(), |expr, _| call("coalesce", vec![expr]));
            apart.push((*item, SelectItem::ExprWithAlias { expr, alias: quoted(name) }));
        }
    }
    for (at, item) in apart {
        select.projection[at] = item;
    }
}

/// The keys of an element of GROUP BY.
fn leaves<'e>(expr: &'e Expr, keys: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Cube(sets) | Expr::Rollup(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().for_each(|expr| leaves(expr, keys));
        }
        key => keys.push(key),
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
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

/// The expression of the item whose place a number names.
fn item_of<'i>(expr: &Expr, items: &'i [SelectItem]) -> Option<&'i Expr> {
    place_of(expr, items).and_then(|at| expr_of(&items[at]))
}

/// The place of an item that a number names.
fn place_of(expr: &Expr, items: &[SelectItem]) -> Option<usize> {
    let Expr::Value(value) = expr else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    // Columns that a star stands for count too.
    let at = digits.parse::<usize>().ok()?.checked_sub(1)?;
    let before = items.get(..=at)?;
    before.iter().all(|item| expr_of(item).is_some()).then_some(at)
}
