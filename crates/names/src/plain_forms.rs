//! Forms of a SELECT that the planner reads otherwise than PostgreSQL, or not at all, written in others:
//!
//! | written | means |
//! |---|---|
//! | `SELECT DISTINCT lower(s) … ORDER BY lower(s)` | `… ORDER BY 1` |
//! | `GROUP BY ROLLUP (1)`, `GROUP BY (a, b)`, `ROLLUP ((a, b), c)` | `ROLLUP` of the first item; `a, b`; the sets themselves |
//! | `EXISTS (SELECT FROM t)` | `EXISTS (SELECT 1 FROM t)` |
//! | `WHERE 'true'`, `ON 'true'`, `HAVING 'true'` | the constant as a condition |
//! | `HAVING 1 < 2` without GROUP BY and calls | `HAVING count(*) >= 0 AND (1 < 2)`: one group or none |
//! | `LATERAL (SELECT a.x)` | `LATERAL (SELECT a.x AS x)` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, DataType, Distinct, Expr, GroupByExpr, JoinConstraint, JoinOperator,
    LimitClause, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, UnaryOperator, Value, Visit, VisitMut, Visitor, VisitorMut, visit_relations,
};
use halcyon_dialect::made::{cast, is_quoted, number};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_own_expr;

/// Writes these forms of a query in others. Before items have names.
///
/// Errors: 0A000 for a recursive query with an order or bounds, 42601 for an alias in quotes and for an order by a constant that is no place, 54011 for a cube of too many parts.
pub fn settle(query: &mut Query) -> Result<()> {
    match VisitMut::visit(query, &mut Forms) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Forms;

impl VisitorMut for Forms {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        if let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by)
            && matches!(select.distinct, Some(Distinct::Distinct))
        {
            by_places(select, order);
        }
        for cte in query.with.iter().filter(|with| with.recursive).flat_map(|with| &with.cte_tables)
        {
            if let Err(error) = is_bare_recursion(cte) {
                return ControlFlow::Break(error);
            }
        }
        let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else {
            return ControlFlow::Continue(());
        };
        match keys.iter().try_for_each(|key| is_no_other_constant(&key.expr, "ORDER BY")) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Derived { lateral: true, subquery, .. } = factor {
            name_columns(&mut subquery.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::Exists { subquery, .. } = expr {
            give_list(&mut subquery.body);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        match settle_select(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Errors: 0A000 for a recursive query with an order, bounds or locks of its own.
fn is_bare_recursion(cte: &Cte) -> Result<()> {
    let query = &cte.query;
    let SetExpr::SetOperation { right, .. } = query.body.as_ref() else { return Ok(()) };
    let clause = match query.as_ref() {
        Query { order_by: Some(_), .. } => "ORDER BY",
        Query { limit_clause: Some(LimitClause::LimitOffset { limit: None, .. }), .. } => "OFFSET",
        Query { limit_clause: Some(_), .. } | Query { fetch: Some(_), .. } => "LIMIT",
        query if !query.locks.is_empty() => "FOR UPDATE/SHARE",
        _ => return Ok(()),
    };
    let name = fold(&cte.alias.name);
    let own = visit_relations(right.as_ref(), |relation| match relation.0.as_slice() {
        [ObjectNamePart::Identifier(part)] if fold(part) == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match own {
        ControlFlow::Break(()) => {
            let message = format!("{clause} in a recursive query is not implemented");
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Gives a SELECT without a list one that says nothing of its rows.
fn give_list(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) if select.projection.is_empty() => {
            select.projection.push(SelectItem::UnnamedExpr(number("1")));
        }
        SetExpr::Query(query) => give_list(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            give_list(left);
            give_list(right);
        }
        _ => {}
    }
}

/// Whether a condition calls any function.
fn calls(condition: &Expr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    condition.visit(&mut Search).is_break()
}

/// Gives columns of a list their own names: those of an outer query would have others.
fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Some(alias) = match &*expr {
                        Expr::Identifier(name) => Some(name.clone()),
                        Expr::CompoundIdentifier(path) => path.last().cloned(),
                        _ => None,
                    }
                {
                    let expr = std::mem::replace(expr, number("0"));
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
        SetExpr::Query(query) => name_columns(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            name_columns(left);
            name_columns(right);
        }
        _ => {}
    }
}

fn settle_select(select: &mut Select) -> Result<()> {
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && alias.quote_style == Some('\'')
        {
            let message = format!("syntax error at or near \"'{}'\"", alias.value);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    for condition in [&mut select.selection, &mut select.having].into_iter().flatten() {
        as_condition(condition);
    }
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
        use JoinOperator as J;
        if let J::Join(on)
        | J::Inner(on)
        | J::Left(on)
        | J::LeftOuter(on)
        | J::Right(on)
        | J::RightOuter(on)
        | J::FullOuter(on) = &mut join.join_operator
            && let JoinConstraint::On(condition) = on
        {
            as_condition(condition);
        }
    }
    // While keys still name items by their places.
    halcyon_dialect::groupings::tell_items_apart(select);
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    if let Some(condition) = &mut select.having
        && keys.is_empty()
        && !calls(condition)
    {
        let is_group = parse_own_expr("count(*) >= 0");
        let own = Expr::Nested(Box::new(std::mem::replace(condition, number("0"))));
        let (left, right) = (Box::new(is_group), Box::new(own));
        *condition = Expr::BinaryOp { left, op: BinaryOperator::And, right };
    }
    let items: Vec<Option<Expr>> = select.projection.iter().map(expression).collect();
    let mut settled = Vec::with_capacity(keys.len());
    for mut key in std::mem::take(keys) {
        match &mut key {
            Expr::Tuple(parts) if parts.len() > 1 => settled.append(parts),
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                for part in sets.iter_mut().flatten() {
                    *part = placed(std::mem::replace(part, number("0")), &items)?;
                }
                settled.push(by_sets(key)?);
            }
            _ => {
                is_no_other_constant(&key, "GROUP BY")?;
                settled.push(key);
            }
        }
    }
    *keys = settled;
    Ok(())
}

fn expression(item: &SelectItem) -> Option<Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// The order of a SELECT DISTINCT by the places of its items.
fn by_places(select: &Select, order: &mut OrderBy) {
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let items: Vec<Option<Expr>> = select.projection.iter().map(expression).collect();
    // Behind a star places are not known.
    if items.iter().any(Option::is_none) {
        return;
    }
    for key in keys {
        let is_plain = matches!(bare(&key.expr), Expr::Identifier(_) | Expr::Value(_));
        let place = items.iter().flatten().position(|item| bare(item) == bare(&key.expr));
        if let Some(place) = place.filter(|_| !is_plain) {
            key.expr = number(&(place + 1).to_string());
        }
    }
}

fn as_condition(condition: &mut Expr) {
    if is_quoted(bare(condition)) {
        *condition = cast(std::mem::replace(condition, number("0")), DataType::Boolean);
    }
}

/// Errors: 42601 for a key that is a constant and no place of an item.
fn is_no_other_constant(key: &Expr, clause: &str) -> Result<()> {
    let is_other = match bare(key) {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => !digits.bytes().all(|byte| byte.is_ascii_digit()),
            Value::SingleQuotedString(_) | Value::Null | Value::Boolean(_) => true,
            _ => false,
        },
        _ => false,
    };
    match is_other {
        true => {
            let message = format!("non-integer constant in {clause}");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
        false => Ok(()),
    }
}

/// A part of a grouping set: the item of a place, or the part itself.
///
/// Errors: 42P10 for a place without an item, 42601 for any other constant.
fn placed(part: Expr, items: &[Option<Expr>]) -> Result<Expr> {
    let no_item = |place: &str| {
        let message = format!("GROUP BY position {place} is not in select list");
        SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
    };
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = bare(&part)
        && let Expr::Value(value) = bare(expr)
        && let Value::Number(digits, _) = &value.value
    {
        is_no_other_constant(expr, "GROUP BY")?;
        return Err(no_item(&format!("-{digits}")));
    }
    is_no_other_constant(&part, "GROUP BY")?;
    let Expr::Value(value) = bare(&part) else { return Ok(part) };
    let Value::Number(digits, _) = &value.value else { return Ok(part) };
    let item = digits.parse::<usize>().ok().and_then(|place| items.get(place.checked_sub(1)?));
    match item {
        Some(Some(item)) => Ok(item.clone()),
        _ => Err(no_item(digits)),
    }
}

/// The most parts of a cube (PostgreSQL's limit).
const CUBE_MAX: usize = 12;

/// The most sets of a GROUPING SETS with others within (PostgreSQL's limit).
const SETS_MAX: usize = 4_096;

/// ROLLUP and CUBE with parts of several expressions as the sets that they stand for, and GROUPING SETS with
/// others within as one.
fn by_sets(key: Expr) -> Result<Expr> {
    Ok(match key {
        Expr::Rollup(ref parts) | Expr::Cube(ref parts)
            if parts.iter().any(|part| part.len() > 1) =>
        {
            Expr::GroupingSets(sets_of(key)?)
        }
        Expr::GroupingSets(ref sets) if sets.iter().any(|set| nested_sets(set).is_some()) => {
            Expr::GroupingSets(sets_of(key)?)
        }
        other => other,
    })
}

/// What stands for several sets within GROUPING SETS.
fn nested_sets(set: &[Expr]) -> Option<&Expr> {
    match set {
        [key @ (Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))] => Some(key),
        _ => None,
    }
}

/// The sets for which a key stands. Errors: 54011, 54001 for too many of them.
fn sets_of(key: Expr) -> Result<Vec<Vec<Expr>>> {
    let united = |parts: &[Vec<Expr>], has: &dyn Fn(usize) -> bool| -> Vec<Expr> {
        let within = parts.iter().enumerate().filter(|(at, _)| has(*at));
        within.flat_map(|(_, part)| part.iter().cloned()).collect()
    };
    Ok(match key {
        Expr::Rollup(parts) => {
            (0..=parts.len()).rev().map(|length| united(&parts, &|at| at < length)).collect()
        }
        Expr::Cube(parts) => {
            if parts.len() > CUBE_MAX {
                let message = format!("CUBE is limited to {CUBE_MAX} elements");
                return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
            }
            let sets = (0..1_usize << parts.len()).rev();
            sets.map(|mask| united(&parts, &|at| mask >> (parts.len() - 1 - at) & 1 == 1)).collect()
        }
        Expr::GroupingSets(sets) => {
            let mut all = Vec::new();
            for mut set in sets {
                match nested_sets(&set) {
                    Some(_) => all.extend(sets_of(set.remove(0))?),
                    None => all.push(set),
                }
                if all.len() > SETS_MAX {
                    let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                    return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
                }
            }
            all
        }
        other => vec![vec![other]],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_sql::parse::parse_query;

    fn settled(text: &str) -> String {
        let mut query = parse_query(text).expect(text);
        match settle(&mut query) {
            Ok(()) => query.to_string(),
            Err(error) => error.state().to_string(),
        }
    }

    #[test]
    fn forms_become_what_the_planner_takes() {
        for (text, expected) in [
            (
                "SELECT DISTINCT lower(a) FROM t ORDER BY (lower(a)) DESC",
                "SELECT DISTINCT lower(a) FROM t ORDER BY 1 DESC",
            ),
            // Names stay names, and behind a star places are not known.
            ("SELECT DISTINCT a FROM t ORDER BY a", "SELECT DISTINCT a FROM t ORDER BY a"),
            (
                "SELECT DISTINCT *, a + 1 FROM t ORDER BY a + 1",
                "SELECT DISTINCT *, a + 1 FROM t ORDER BY a + 1",
            ),
            ("SELECT a + 1 FROM t ORDER BY a + 1", "SELECT a + 1 FROM t ORDER BY a + 1"),
            (
                "SELECT a, b FROM t GROUP BY ROLLUP (1, b)",
                "SELECT a, b FROM t GROUP BY ROLLUP (a, b)",
            ),
            ("SELECT a FROM t GROUP BY ROLLUP (2)", "42P10"),
            ("SELECT a FROM t GROUP BY (a, b)", "SELECT a FROM t GROUP BY a, b"),
            (
                "SELECT a FROM t GROUP BY ROLLUP ((a, b), c)",
                "SELECT a FROM t GROUP BY GROUPING SETS ((a, b, c), (a, b), ())",
            ),
            (
                "SELECT a FROM t GROUP BY CUBE ((a, b), c)",
                "SELECT a FROM t GROUP BY GROUPING SETS ((a, b, c), (a, b), (c), ())",
            ),
            (
                "SELECT a FROM t GROUP BY GROUPING SETS (a, GROUPING SETS ((), ROLLUP (a, b)))",
                "SELECT a FROM t GROUP BY GROUPING SETS ((a), (), (a, b), (a), ())",
            ),
            ("SELECT 1 FROM t HAVING 1 < 2", "SELECT 1 FROM t HAVING count(*) >= 0 AND (1 < 2)"),
            ("SELECT 1 FROM t HAVING min(a) < 2", "SELECT 1 FROM t HAVING min(a) < 2"),
            ("SELECT 1 FROM t GROUP BY a HAVING a < 2", "SELECT 1 FROM t GROUP BY a HAVING a < 2"),
            (
                "SELECT 1 FROM t, LATERAL (SELECT t.a, 1 UNION SELECT b, 2) q",
                "SELECT 1 FROM t, LATERAL (SELECT t.a AS a, 1 UNION SELECT b AS b, 2) q",
            ),
            ("SELECT a FROM t ORDER BY 'a'", "42601"),
            ("SELECT a FROM t WHERE ('true')", "SELECT a FROM t WHERE ('true')::BOOLEAN"),
            ("SELECT a + 1 'b' FROM t", "42601"),
        ] {
            assert_eq!(settled(text), expected, "{text}");
        }
    }
}
