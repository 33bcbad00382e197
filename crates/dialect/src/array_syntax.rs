//! Arrays in syntax that DataFusion's planner lacks: `ARRAY(SELECT …)`, slices without a bound,
//! comparisons with ANY and ALL of constants, which become IN.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, Subscript, TableFactor, Value, WindowSpec,
    WindowType,
};

use crate::made::{call, cast, is_quoted, number, quoted};
use halcyon_sql::coerce::arrays;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_query;

/// The subscript behind which no array has an element.
const LAST: &str = "2147483647";

/// Rewrites an expression whose parts are as they were written.
///
/// Errors: 42601 for `ARRAY(…)` of a query of several columns, 0A000 for an order that cannot be kept.
pub(crate) fn before_its_parts(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Function(function) => {
            if let Some(query) = query_of_array(function) {
                // In brackets, so that ANY of the array is no comparison with rows.
                let query = Expr::Subquery(Box::new(gathered(*query)?));
                *expr = Expr::Nested(Box::new(query));
            }
        }
        Expr::Cast { expr: array, data_type, .. } => {
            if let (Expr::Array(array), DataType::Array(ArrayElemTypeDef::SquareBracket(item, _))) =
                (array.as_mut(), data_type)
            {
                type_elements(&mut array.elem, item);
            }
        }
        // A query in several brackets is one all the same.
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            let mut inner = right.as_ref();
            while let Expr::Nested(nested) = inner {
                inner = nested;
            }
            if matches!(inner, Expr::Subquery(_)) {
                **right = inner.clone();
            }
        }
        Expr::CompoundFieldAccess { access_chain, .. } => {
            for access in access_chain {
                let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) =
                    access
                else {
                    continue;
                };
                lower_bound.get_or_insert_with(|| number("1"));
                upper_bound.get_or_insert_with(|| number(LAST));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Casts the elements of `ARRAY[1, 'NaN']::float8[]`: where constants in quotes stand beside others, the array has no type
/// before the cast.
fn type_elements(elements: &mut [Expr], item: &DataType) {
    let quoted = elements.iter().filter(|element| is_quoted(element)).count();
    if quoted == 0 || quoted == elements.len() {
        return;
    }
    for element in elements.iter_mut().filter(|element| !matches!(element, Expr::Array(_))) {
        *element = cast(std::mem::replace(element, number("0")), item.clone());
    }
}

/// The query of `ARRAY(SELECT …)`, taken out.
fn query_of_array(function: &mut Function) -> Option<Box<Query>> {
    let [name] = function.name.0.as_slice() else { return None };
    let name = name.as_ident()?;
    let is_array = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("array");
    match std::mem::replace(&mut function.args, FunctionArguments::None) {
        FunctionArguments::Subquery(query) if is_array => Some(query),
        other => {
            function.args = other;
            None
        }
    }
}

/// The query of one row that has the rows of `query`, in their order, as an array.
fn gathered(mut query: Query) -> Result<Query> {
    let orders = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(orders)) => orders.clone(),
        _ => Vec::new(),
    };
    let is_cut = query.limit_clause.is_some() || query.fetch.is_some();
    if let SetExpr::Select(select) = query.body.as_mut() {
        let item = only_item(select)?;
        if let Some(item) = item.filter(|item| !is_cut && has_rows_alone(select, item, &orders)) {
            let orders = orders.into_iter().map(|order| of_item(order, &item)).collect();
            select.projection = vec![named(array_of(item.0, orders))];
            query.order_by = None;
            return Ok(query);
        }
    }
    let (value, place) = (column("value"), column("place"));
    let mut names = vec![value.clone()];
    let mut outer = Vec::new();
    if let Some(first) = orders.first() {
        let item = match query.body.as_mut() {
            SetExpr::Select(select) => only_item(select)?,
            _ => None,
        };
        if is_item(&first.expr, item.as_ref()) {
            outer.push(OrderByExpr { expr: Expr::Identifier(value.clone()), ..first.clone() });
        } else {
            let SetExpr::Select(select) = query.body.as_mut() else {
                return Err(SqlError::unsupported("ORDER BY in ARRAY of this form of query"));
            };
            let window = WindowSpec {
                window_name: None,
                partition_by: Vec::new(),
                order_by: orders.clone(),
                window_frame: None,
            };
            let mut row_number = call("row_number", Vec::new());
            if let Expr::Function(function) = &mut row_number {
                function.over = Some(WindowType::WindowSpec(window));
            }
            select
                .projection
                .push(SelectItem::ExprWithAlias { expr: row_number, alias: place.clone() });
            names.push(place.clone());
            outer.push(OrderByExpr::from(place));
        }
    }
    let mut over = parse_query("SELECT 1 FROM (SELECT 1) AS q (a)")?;
    let SetExpr::Select(select) = over.body.as_mut() else { unreachable!("a SELECT") };
    select.projection = vec![named(array_of(Expr::Identifier(value), outer))];
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut select.from[0].relation
    else {
        unreachable!("a derived table")
    };
    **subquery = query;
    alias.name = column("rows");
    let of_name = |name| ast::TableAliasColumnDef { name, data_type: None };
    alias.columns = names.into_iter().map(of_name).collect();
    Ok(over)
}

/// The expression of a list's only item and the item's name, if it has one; `None` for a star.
///
/// Errors: 42601 for several items.
fn only_item(select: &Select) -> Result<Option<(Expr, Option<Ident>)>> {
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr)] => Ok(Some((expr.clone(), None))),
        [SelectItem::ExprWithAlias { expr, alias }] => {
            Ok(Some((expr.clone(), Some(alias.clone()))))
        }
        [_] => Ok(None),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column")),
    }
}

/// Whether an array of the item over the SELECT's rows is the array of the SELECT's rows: nothing is grouped,
/// and no function is called that might group or give several rows.
fn has_rows_alone(select: &Select, item: &(Expr, Option<Ident>), orders: &[OrderByExpr]) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(exprs, _) => !exprs.is_empty(),
        GroupByExpr::All(_) => true,
    };
    select.distinct.is_none()
        && !is_grouped
        && select.having.is_none()
        && !calls(&item.0)
        && orders.iter().all(|order| !calls(&order.expr))
}

/// Whether a function is called, or a query asked, within an expression.
fn calls(expr: &Expr) -> bool {
    struct Calls;
    impl ast::Visitor for Calls {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    ast::Visit::visit(expr, &mut Calls).is_break()
}

/// Whether an ORDER BY names the only item: by number, name or the same expression.
fn is_item(by: &Expr, item: Option<&(Expr, Option<Ident>)>) -> bool {
    if matches!(by, Expr::Value(value) if value.value == Value::Number("1".to_owned(), false)) {
        return true;
    }
    item.is_some_and(|(expr, name)| match (by, name) {
        (Expr::Identifier(by), Some(name)) if fold(by) == fold(name) => true,
        (by, _) => by == expr,
    })
}

/// The order by the item itself if it is named.
fn of_item(order: OrderByExpr, item: &(Expr, Option<Ident>)) -> OrderByExpr {
    match is_item(&order.expr, Some(item)) {
        true => OrderByExpr { expr: item.0.clone(), ..order },
        false => order,
    }
}

/// `array_agg(value ORDER BY …)`, empty where there are no rows.
fn array_of(value: Expr, orders: Vec<OrderByExpr>) -> Expr {
    let mut agg = call("array_agg", vec![value]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut agg
        && !orders.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(orders));
    }
    call("array\u{1}gathered", vec![agg])
}

fn named(expr: Expr) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: quoted("array".to_owned()) }
}

/// A name that no text has.
fn column(name: &str) -> Ident {
    quoted(format!("{name}\u{1}"))
}

/// `left = ANY (array)` and `left <> ALL (array)` of constants, as IN and NOT IN; `None` for other arrays and
/// operators.
///
/// Errors: 22P02 for a text that is no array.
pub(crate) fn membership(
    left: &Expr,
    op: &BinaryOperator,
    is_all: bool,
    array: &Expr,
) -> Result<Option<Expr>> {
    let negated = match (op, is_all) {
        (BinaryOperator::Eq, false) => false,
        (BinaryOperator::NotEq, true) => true,
        _ => return Ok(None),
    };
    let Some(list) = constants(array)? else { return Ok(None) };
    if list.is_empty() {
        return Ok(Some(Expr::Value(Value::Boolean(negated).with_empty_span())));
    }
    Ok(Some(Expr::InList { expr: Box::new(left.clone()), list, negated }))
}

/// The elements of an array of constants; `None` for other arrays. Errors: 22P02.
fn constants(array: &Expr) -> Result<Option<Vec<Expr>>> {
    Ok(match array {
        Expr::Nested(inner) => constants(inner)?,
        Expr::Array(array) if array.elem.iter().all(is_constant) && !array.elem.is_empty() => {
            Some(array.elem.clone())
        }
        Expr::Value(value) if is_quoted(array) => {
            let Value::SingleQuotedString(text) = &value.value else { return Ok(None) };
            let element = |element: Option<String>| {
                let value = element.map_or(Value::Null, Value::SingleQuotedString);
                Expr::Value(value.with_empty_span())
            };
            Some(arrays::parse(text)?.into_iter().map(element).collect())
        }
        Expr::Cast { expr, data_type: DataType::Array(items), .. } if is_quoted(expr) => {
            let (ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) =
                items
            else {
                return Ok(None);
            };
            if matches!(**item, DataType::Array(_)) {
                return Ok(None);
            }
            let elements = constants(expr)?.unwrap_or_default();
            Some(elements.into_iter().map(|expr| cast(expr, (**item).clone())).collect())
        }
        _ => None,
    })
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

/// The patterns of `LIKE ANY (…)`: the elements of an array or of a list; `None` for arrays that
/// are no list.
///
/// Errors: 22P02 for a text that is no array.
pub(crate) fn patterns(of: &Expr) -> Result<Option<Vec<Expr>>> {
    let listed = match of {
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Tuple(patterns) => Some(patterns.clone()),
        Expr::Nested(inner) => return patterns(inner),
        other => constants(other)?,
    };
    Ok(listed.filter(|patterns| !patterns.is_empty()))
}

/// A condition for each operand with OR between them, in brackets, as deep as the logarithm of their number.
///
/// Panics: if there are none.
pub(crate) fn any_of(operands: Vec<Expr>, condition: impl Fn(Expr) -> Expr) -> Expr {
    joined(operands.into_iter().map(condition).collect(), &BinaryOperator::Or)
}

/// A condition that holds of all operands, as a tree that is no deeper than it must be.
pub(crate) fn all_of(operands: Vec<Expr>, condition: impl Fn(Expr) -> Expr) -> Expr {
    joined(operands.into_iter().map(condition).collect(), &BinaryOperator::And)
}

fn joined(mut conditions: Vec<Expr>, op: &BinaryOperator) -> Expr {
    assert!(!conditions.is_empty(), "ANY of nothing");
    if conditions.len() == 1 {
        return conditions.remove(0);
    }
    let upper = conditions.split_off(conditions.len() / 2);
    let (left, right) = (Box::new(joined(conditions, op)), Box::new(joined(upper, op)));
    Expr::Nested(Box::new(Expr::BinaryOp { left, op: op.clone(), right }))
}

/// The patterns of `LIKE ALL (ARRAY[…])`, which the parser takes for a call.
pub(crate) fn all_patterns(of: &Expr) -> Result<Option<Vec<Expr>>> {
    behind_all(of).map_or(Ok(None), patterns)
}

/// What stands in the brackets of `ALL (…)`, which the SQL parser reads as a call.
pub(crate) fn behind_all(of: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = of else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))]
            if function.name.to_string().eq_ignore_ascii_case("all") =>
        {
            Some(array)
        }
        _ => None,
    }
}
