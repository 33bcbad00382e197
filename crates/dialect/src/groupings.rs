//! Expressions that GROUP BY names twice, of which DataFusion keeps one and counts two.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};

/// Drops what GROUP BY names again, in the same words or by the item's place in the list.
pub(crate) fn name_each_once(select: &mut Select) {
    let GroupByExpr::Expressions(exprs, modifiers) = &mut select.group_by else { return };
    // `GROUP BY ()` is one group of all rows; beside other expressions it says nothing.
    let is_empty = |expr: &Expr| matches!(expr, Expr::Tuple(parts) if parts.is_empty());
    if exprs.iter().all(is_empty) && !exprs.is_empty() {
        *exprs = vec![Expr::GroupingSets(vec![Vec::new()])];
    }
    exprs.retain(|expr| !is_empty(expr));
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
