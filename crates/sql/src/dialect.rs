//! PostgreSQL's syntax rewritten, tree by tree, into what DataFusion's planner takes.
//!
//! Two kinds of work, both before names are resolved:
//! - **Names of result columns** are PostgreSQL's (`count`, `case`, `?column?`), and a name may
//!   stand more than once. DataFusion wants names to be unique, so later ones carry an invisible
//!   tail that [`shown_name`] cuts off.
//! - **Operators and clauses** that DataFusion lacks become functions of ours (`halcyon_plan::functions`)
//!   or simpler syntax: FETCH FIRST, LIKE … ESCAPE, SIMILAR TO, AT TIME ZONE, EXTRACT of fields
//!   with a fraction, `^`, row comparisons. Rows compared with the rows of a subquery are calls of
//!   [`ROW`], for the binder.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, JoinConstraint, JoinOperator, LimitClause,
    ObjectName, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, TableSampleKind, TableSampleMethod, TableWithJoins,
    UnaryOperator, Value, VisitMut, VisitorMut,
};

use crate::error::{Result, SqlError, SqlState};

/// Begins the tail that makes a repeated name unique. No identifier can be typed with it.
const TAIL: char = '\u{1}';

/// The function that stands for a row that is compared with rows of a subquery.
pub const ROW: &str = "row\u{1}";

/// A column's name as the client sees it.
pub fn shown_name(name: &str) -> &str {
    name.split(TAIL).next().unwrap_or(name)
}

/// Rewrites a query in place. Errors: 0A000 for clauses that nobody offers.
pub fn rewrite_query(query: &mut Query) -> Result<()> {
    finish(VisitMut::visit(query, &mut Rewrite { level: 0 }))
}

/// Rewrites a scalar expression in place.
pub fn rewrite_expr(expr: &mut Expr) -> Result<()> {
    finish(VisitMut::visit(expr, &mut Rewrite { level: 0 }))
}

fn finish(flow: ControlFlow<SqlError>) -> Result<()> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewrite {
    /// Queries around the place.
    level: usize,
}

impl VisitorMut for Rewrite {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.level += 1;
        if self.level == 1 {
            separate_order_names(query);
        }
        unify_values(&mut query.body);
        match clauses(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.level -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if select.into.is_some() {
            return ControlFlow::Break(
                SqlError::unsupported("SELECT INTO").hint("Use CREATE TABLE … AS."),
            );
        }
        crate::wildcards::name_whole_tables(select);
        name_items(&mut select.projection);
        match select.from.iter().try_for_each(joins_have_conditions) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        name_function_columns(factor);
        match sample(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match operator(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Errors: 42601 for a join without ON, USING, NATURAL or CROSS.
fn joins_have_conditions(tables: &TableWithJoins) -> Result<()> {
    let within = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => joins_have_conditions(table_with_joins),
        _ => Ok(()),
    };
    within(&tables.relation)?;
    for join in &tables.joins {
        within(&join.relation)?;
        if let JoinOperator::Join(JoinConstraint::None)
        | JoinOperator::Inner(JoinConstraint::None)
        | JoinOperator::Left(JoinConstraint::None)
        | JoinOperator::LeftOuter(JoinConstraint::None)
        | JoinOperator::Right(JoinConstraint::None)
        | JoinOperator::RightOuter(JoinConstraint::None)
        | JoinOperator::FullOuter(JoinConstraint::None) = &join.join_operator
        {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("the join with {} has no condition", join.relation),
            )
            .hint("A join has ON or USING behind it; CROSS JOIN has neither."));
        }
    }
    Ok(())
}

/// `SELECT upper(t.a) AS a … ORDER BY t.a`: output and column may share their name. DataFusion has
/// both in one schema while it sorts and finds the name ambiguous, so the output gets a tail.
fn separate_order_names(query: &mut Query) {
    struct Columns(HashSet<String>);
    impl ast::Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr {
                self.0.extend(parts.last().map(normal));
            }
            ControlFlow::Continue(())
        }
    }
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_mut().map(|by| &mut by.kind)
    else {
        return;
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut columns = Columns(HashSet::new());
    for by in order.iter() {
        let _ = ast::Visit::visit(&by.expr, &mut columns);
    }
    if columns.0.is_empty() {
        return;
    }
    name_items(&mut select.projection);
    let grouped = select.group_by.to_string();
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = normal(alias);
        let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        if plain || !columns.0.contains(&name) || grouped.contains(&name) {
            continue;
        }
        *alias = Ident::with_quote('"', format!("{name}{TAIL}o"));
        for by in order.iter_mut() {
            if matches!(&by.expr, Expr::Identifier(ident) if normal(ident) == name) {
                by.expr = Expr::Identifier(alias.clone());
            }
        }
    }
}

/// A column of VALUES whose cells are not all of one kind loses what types say beyond their class
/// (`varchar(3)` is then text, as in PostgreSQL): DataFusion's planner wants all cells to say it.
fn unify_values(body: &mut SetExpr) {
    let rows = match body {
        SetExpr::SetOperation { left, right, .. } => {
            unify_values(left);
            return unify_values(right);
        }
        SetExpr::Values(values) if values.rows.len() > 1 => &mut values.rows,
        _ => return,
    };
    let is_constant = |expr: &Expr| match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } => matches!(expr.as_ref(), Expr::Value(_)),
        _ => false,
    };
    for at in 0..rows[0].content.len() {
        let cells = || rows.iter().filter_map(|row| row.content.get(at));
        let first = match cells().next() {
            Some(Expr::Cast { data_type, .. }) => Some(data_type),
            _ => None,
        };
        let of_one_type = first.is_some()
            && cells().all(
                |cell| matches!(cell, Expr::Cast { data_type, .. } if Some(data_type) == first),
            );
        if of_one_type || cells().all(is_constant) {
            continue;
        }
        for row in rows.iter_mut() {
            if let Some(cell) = row.content.get_mut(at).filter(|cell| !is_constant(cell)) {
                *cell = call("coalesce", vec![std::mem::replace(cell, number("0"))]);
            }
        }
    }
}

/// FETCH FIRST becomes LIMIT; row locks are the engine's business and are dropped here.
fn clauses(query: &mut Query) -> Result<()> {
    query.locks.clear();
    if let Some(fetch) = query.fetch.take() {
        if fetch.with_ties || fetch.percent {
            return Err(SqlError::unsupported("FETCH … WITH TIES or PERCENT"));
        }
        let count = fetch.quantity.unwrap_or_else(|| number("1"));
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, .. }) => *limit = Some(count),
            clause => {
                *clause = Some(LimitClause::LimitOffset {
                    limit: Some(count),
                    offset: None,
                    limit_by: Vec::new(),
                });
            }
        }
    }
    Ok(())
}

/// Gives every unnamed item PostgreSQL's name and makes all names of the list distinct.
fn name_items(items: &mut [SelectItem]) {
    let has_wildcard = items
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut taken: HashSet<String> = HashSet::new();
    let mut repeats = 0;
    let mut unique = |name: String, force: bool| {
        if !force && taken.insert(name.clone()) {
            return name;
        }
        repeats += 1;
        format!("{name}{TAIL}{repeats}")
    };
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = figure(expr).unwrap_or_else(|| "?column?".to_owned());
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let given = unique(name.clone(), has_wildcard);
                if !plain || given != name {
                    let expr = std::mem::replace(expr, number("0"));
                    *item = SelectItem::ExprWithAlias { expr, alias: quoted(given) };
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let given = unique(normal(alias), false);
                *alias = Ident { value: given, quote_style: Some('"'), span: alias.span };
            }
            _ => {}
        }
    }
}

/// The name of an item's column in the result; `None` for `*`.
pub fn shown_item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            Some(figure(expr).unwrap_or_else(|| "?column?".to_owned()))
        }
        SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
        _ => None,
    }
}

/// The name PostgreSQL gives to an unnamed result column (`FigureColname`); `None` is `?column?`.
fn figure(expr: &Expr) -> Option<String> {
    let name = match expr {
        Expr::Identifier(ident) => return Some(normal(ident)),
        Expr::CompoundIdentifier(parts) => return parts.last().map(normal),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return figure(inner),
        Expr::Cast { expr: inner, data_type, .. } => {
            return figure(inner).or_else(|| Some(type_name(data_type)));
        }
        Expr::Function(function) => {
            return function.name.0.last().and_then(ObjectNamePart::as_ident).map(normal);
        }
        Expr::Case { else_result, .. } => {
            return else_result.as_deref().and_then(figure).or_else(|| Some("case".to_owned()));
        }
        Expr::Subquery(query) => return first_name(query),
        Expr::TypedString(typed) => return Some(type_name(&typed.data_type)),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => "bool",
        Expr::Exists { negated: false, .. } => "exists",
        Expr::Extract { .. } => "extract",
        Expr::Position { .. } => "position",
        Expr::Substring { .. } => "substring",
        Expr::Overlay { .. } => "overlay",
        Expr::Ceil { .. } => "ceil",
        Expr::Floor { .. } => "floor",
        Expr::AtTimeZone { .. } => "timezone",
        Expr::Interval(_) => "interval",
        Expr::Array(_) => "array",
        Expr::Tuple(_) => "row",
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        },
        _ => return None,
    };
    Some(name.to_owned())
}

fn first_name(query: &Query) -> Option<String> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => {
                return match select.projection.first()? {
                    SelectItem::UnnamedExpr(expr) => figure(expr),
                    item => shown_item_name(item),
                };
            }
            SetExpr::Query(query) => body = query.body.as_ref(),
            SetExpr::SetOperation { left, .. } => body = left.as_ref(),
            _ => return None,
        }
    }
}

/// A type's name in `pg_type`, as casts of constants are named.
fn type_name(ty: &DataType) -> String {
    match crate::type_names::cast_type(ty) {
        Ok(ty) => crate::type_names::pg_type_name(ty).to_owned(),
        Err(_) => ty.to_string().to_lowercase(),
    }
}

/// `FROM generate_series(1, 3) AS g` names the table and its column `g`.
fn name_function_columns(factor: &mut TableFactor) {
    let (name, alias) = match factor {
        TableFactor::Table { name, args: Some(_), alias, .. }
        | TableFactor::Function { name, alias, .. } => (name, alias),
        _ => return,
    };
    let Some(own) = name.0.last().and_then(ObjectNamePart::as_ident) else { return };
    if !matches!(normal(own).as_str(), "generate_series" | "range") {
        return;
    }
    let column = |name: &Ident| TableAliasColumnDef { name: name.clone(), data_type: None };
    match alias {
        Some(alias) if alias.columns.is_empty() => alias.columns = vec![column(&alias.name)],
        Some(_) => {}
        None => {
            let name = quoted(normal(own));
            *alias =
                Some(TableAlias { explicit: true, columns: vec![column(&name)], name, at: None });
        }
    }
}

/// `t TABLESAMPLE BERNOULLI (p)`: each row with probability p %. SYSTEM takes blocks of rows in
/// PostgreSQL, of whatever size; here a block is a row.
fn sample(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::Table { sample, alias, name, .. } = factor else { return Ok(()) };
    let Some(TableSampleKind::BeforeTableAlias(clause) | TableSampleKind::AfterTableAlias(clause)) =
        sample.take()
    else {
        return Ok(());
    };
    if clause.seed.is_some() || clause.bucket.is_some() || clause.offset.is_some() {
        return Err(SqlError::unsupported("TABLESAMPLE … REPEATABLE"));
    }
    let (Some(TableSampleMethod::Bernoulli | TableSampleMethod::System), Some(quantity)) =
        (clause.name, clause.quantity)
    else {
        return Err(SqlError::unsupported("this method of TABLESAMPLE")
            .hint("There are BERNOULLI (percent) and SYSTEM (percent)."));
    };
    let percent: Option<f64> = quantity.value.to_string().parse().ok();
    if percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLESAMPLE_ARGUMENT,
            "sample percentage must be between 0 and 100",
        ));
    }
    let named = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
    let alias = alias.take().or_else(|| {
        named.map(|name| TableAlias { explicit: true, name, columns: Vec::new(), at: None })
    });
    let mut query = crate::parse::parse_query("SELECT * FROM t WHERE random() * 100 < 0")?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(Expr::BinaryOp { right, .. }) = &mut select.selection
    {
        **right = quantity.value;
        select.from[0].relation = factor.clone();
    }
    *factor =
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    Ok(())
}

fn operator(expr: &mut Expr) -> Result<()> {
    let old = match expr {
        Expr::Like { escape_char: Some(_), .. }
        | Expr::ILike { escape_char: Some(_), .. }
        | Expr::SimilarTo { .. }
        | Expr::AtTimeZone { .. }
        | Expr::UnaryOp { .. }
        | Expr::Extract { .. }
        | Expr::BinaryOp { .. }
        | Expr::Collate { .. }
        | Expr::Function(_)
        | Expr::Value(_)
        | Expr::InSubquery { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::InList { .. } => std::mem::replace(expr, number("0")),
        _ => return Ok(()),
    };
    *expr = match old {
        Expr::Like { negated, any, expr, pattern, escape_char } => Expr::Like {
            negated,
            any,
            expr,
            pattern: escaped(pattern, escape_char),
            escape_char: None,
        },
        Expr::ILike { negated, any, expr, pattern, escape_char } => Expr::ILike {
            negated,
            any,
            expr,
            pattern: escaped(pattern, escape_char),
            escape_char: None,
        },
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let mut args = vec![*pattern];
            args.extend(escape_char.map(Expr::Value));
            let op = if negated {
                BinaryOperator::PGRegexNotMatch
            } else {
                BinaryOperator::PGRegexMatch
            };
            binary(*expr, op, call("similar_to_escape", args))
        }
        Expr::AtTimeZone { timestamp, time_zone } => call("timezone", vec![*time_zone, *timestamp]),
        Expr::Extract { field, syntax, expr } => extract(field, syntax, expr),
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::PGSquareRoot => call("sqrt", vec![*expr]),
            UnaryOperator::PGCubeRoot => call("cbrt", vec![*expr]),
            UnaryOperator::PGAbs => call("abs", vec![*expr]),
            // Before text too, where PostgreSQL has no such operator: SQLite's corpus does it.
            UnaryOperator::Plus => nested(*expr),
            UnaryOperator::BitwiseNot => call("bitwise_not", vec![*expr]),
            op => Expr::UnaryOp { op, expr },
        },
        Expr::Collate { expr, collation } => collate(*expr, &collation)?,
        Expr::InList { expr, list, negated } => in_list(*expr, list, negated),
        Expr::InSubquery { expr, subquery, negated } => match row_of(&expr) {
            Some(row) => {
                let subquery = Box::new(query_of_rows(*subquery, &row)?);
                Expr::InSubquery { expr: Box::new(call(ROW, row)), subquery, negated }
            }
            None => Expr::InSubquery { expr, subquery, negated },
        },
        Expr::AnyOp { left, compare_op, right, is_some } => {
            let (left, right) = compared_with_rows(left, right)?;
            Expr::AnyOp { left, compare_op, right, is_some }
        }
        Expr::AllOp { left, compare_op, right } => {
            let (left, right) = compared_with_rows(left, right)?;
            Expr::AllOp { left, compare_op, right }
        }
        Expr::BinaryOp { left, op, right } => binary_operator(*left, op, *right)?,
        Expr::Function(function) => renamed(function),
        Expr::Value(value) => constant(value),
        other => other,
    };
    Ok(())
}

/// Numbers with more digits than NUMERIC has are DOUBLE PRECISION.
fn constant(value: ast::ValueWithSpan) -> Expr {
    let Value::Number(digits, _) = &value.value else { return Expr::Value(value) };
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 2);
    let before = whole.trim_start_matches('0').len() as i64 + exponent.max(0);
    let after = (places.len() as i64 - exponent).max(0);
    if before.max(0) + after <= 38 {
        return Expr::Value(value);
    }
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(string(digits)),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    }
}

/// Functions that are an operator, or have another name, in DataFusion.
fn renamed(mut function: Function) -> Expr {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(normal);
    let arguments = match &function.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    };
    match (name.as_deref(), arguments) {
        (Some("mod"), 2) => {
            let mut operands = operands(function).into_iter();
            let (a, b) = (operands.next(), operands.next());
            let operand = |expr: Option<Expr>| nested(expr.unwrap_or_else(null));
            nested(binary(operand(a), BinaryOperator::Modulo, operand(b)))
        }
        (Some("gen_random_uuid"), 0) => Expr::Cast {
            kind: ast::CastKind::DoubleColon,
            expr: Box::new(call("uuid", Vec::new())),
            data_type: DataType::Uuid,
            array: false,
            format: None,
        },
        (Some("sign"), 1) => {
            function.name = ObjectName::from(vec![quoted("signum".to_owned())]);
            Expr::Function(function)
        }
        (Some("every"), 1) => {
            function.name = ObjectName::from(vec![quoted("bool_and".to_owned())]);
            Expr::Function(function)
        }
        (Some(name), 1) if CASTS.contains(&name) && plain_arguments(&function) => {
            let ty = ObjectName::from(vec![quoted(name.to_owned())]);
            let argument = operands(function).pop().expect("there is one");
            Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(argument),
                data_type: DataType::Custom(ty, Vec::new()),
                array: false,
                format: None,
            }
        }
        _ => Expr::Function(function),
    }
}

/// Types whose name is a function as well: `int8(x)` is a cast.
const CASTS: &[&str] = &[
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
];

fn plain_arguments(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    function.over.is_none()
        && function.filter.is_none()
        && (list.args.iter())
            .all(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(_))))
}

fn operands(function: Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = function.args else { return Vec::new() };
    list.args
        .into_iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

fn null() -> Expr {
    Expr::Value(Value::Null.with_empty_span())
}

fn binary_operator(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr> {
    Ok(match op {
        BinaryOperator::PGExp => call("power", vec![left, right]),
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => match (row_of(&left), row_of(&right)) {
            (Some(a), Some(b)) => compare_rows(&a, &op, &b)?,
            (Some(row), None) if let Some(query) = subquery_of(&right) => {
                compare_rows(&row, &op, &fields_of(query, &row)?)?
            }
            (None, Some(row)) if let Some(query) = subquery_of(&left) => {
                compare_rows(&fields_of(query, &row)?, &op, &row)?
            }
            _ => binary(left, op, right),
        },
        op => binary(left, op, right),
    })
}

/// EXTRACT of a field that has a fraction is ours; whole fields are DataFusion's.
fn extract(field: DateTimeField, syntax: ast::ExtractSyntax, expr: Box<Expr>) -> Expr {
    let name = field.to_string().to_lowercase();
    match name.trim_matches(['\'', '"']) {
        field @ ("second" | "seconds" | "millisecond" | "milliseconds" | "microsecond"
        | "microseconds" | "epoch" | "julian") => {
            call("extract_fraction", vec![string(field), *expr])
        }
        field @ ("century" | "decade" | "millennium" | "isoyear" | "isodow" | "dow" | "doy"
        | "timezone" | "timezone_hour" | "timezone_minute") => {
            call("extract_whole", vec![string(field), *expr])
        }
        _ => Expr::Extract { field, syntax, expr },
    }
}

fn escaped(pattern: Box<Expr>, escape: Option<ast::ValueWithSpan>) -> Box<Expr> {
    match escape {
        Some(escape) => Box::new(call("like_escape", vec![*pattern, Expr::Value(escape)])),
        None => pattern,
    }
}

fn collate(expr: Expr, collation: &ObjectName) -> Result<Expr> {
    let name = collation.0.last().and_then(ObjectNamePart::as_ident).map(|i| i.value.clone());
    match name.as_deref() {
        Some("C" | "POSIX" | "default" | "ucs_basic" | "c" | "posix") => Ok(expr),
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{collation}\" does not exist"),
        )
        .hint("Strings are ordered by code point; use COLLATE \"C\".")),
    }
}

/// The fields of `(a, b)` or `ROW(a, b)`.
fn row_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(fields) if fields.len() > 1 => Some(fields.clone()),
        Expr::Nested(inner) => row_of(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            match &function.args {
                FunctionArguments::List(list) => list
                    .args
                    .iter()
                    .map(|arg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                        _ => None,
                    })
                    .collect(),
                _ => None,
            }
        }
        _ => None,
    }
}

fn subquery_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery_of(inner),
        _ => None,
    }
}

/// The sides of a comparison with ANY or ALL: a row and a subquery of rows, or as they were.
fn compared_with_rows(left: Box<Expr>, right: Box<Expr>) -> Result<(Box<Expr>, Box<Expr>)> {
    match (row_of(&left), subquery_of(&right)) {
        (Some(row), Some(query)) => {
            let query = query_of_rows(query.clone(), &row)?;
            Ok((Box::new(call(ROW, row)), Box::new(Expr::Subquery(Box::new(query)))))
        }
        _ => Ok((left, right)),
    }
}

/// A query whose columns are made one: a row that is compared with `row`.
fn query_of_rows(query: Query, row: &[Expr]) -> Result<Query> {
    over_columns(query, row.len(), |fields| call(ROW, fields))
}

/// The columns of a query of one row that is compared with `row`, each by a query of its own.
fn fields_of(query: &Query, row: &[Expr]) -> Result<Vec<Expr>> {
    let field = |at: usize| over_columns(query.clone(), row.len(), |fields| fields[at].clone());
    (0..row.len()).map(|at| Ok(Expr::Subquery(Box::new(field(at)?)))).collect()
}

/// `SELECT item FROM (query) AS row (…)`, where `item` is made of its columns.
fn over_columns(query: Query, columns: usize, item: impl Fn(Vec<Expr>) -> Expr) -> Result<Query> {
    let name = |at: usize| quoted(format!("field{TAIL}{at}"));
    let own = match query.body.as_ref() {
        SetExpr::Select(select) if select.projection.iter().all(is_one_column) => {
            Some(select.projection.len())
        }
        _ => None,
    };
    if let Some(own) = own.filter(|own| *own != columns) {
        let which = if own > columns { "many" } else { "few" };
        let message = format!("subquery has too {which} columns");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let alias = TableAlias {
        explicit: true,
        name: quoted(format!("row{TAIL}")),
        columns: (0..columns)
            .map(|at| TableAliasColumnDef { name: name(at), data_type: None })
            .collect(),
        at: None,
    };
    let mut over = crate::parse::parse_query("SELECT 1 AS value FROM t")?;
    if let SetExpr::Select(select) = over.body.as_mut() {
        let fields = (0..columns).map(|at| Expr::Identifier(name(at))).collect();
        let value =
            SelectItem::ExprWithAlias { expr: item(fields), alias: quoted("row".to_owned()) };
        select.projection = vec![value];
        select.from[0].relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(alias),
            sample: None,
        };
    }
    Ok(over)
}

fn is_one_column(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// `(a, b) < (x, y)` is `a < x OR (a = x AND b < y)`; equality is by field.
fn compare_rows(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Expr> {
    if left.len() != right.len() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        ));
    }
    let pairs = left.iter().zip(right);
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        BinaryOperator::Eq => return Ok(joined(pairs, op, &BinaryOperator::And)),
        _ => return Ok(joined(pairs, op, &BinaryOperator::Or)),
    };
    let mut pairs: Vec<_> = pairs.collect();
    let (a, b) = pairs.pop().expect("a row has fields");
    let mut result = binary(a.clone(), op.clone(), b.clone());
    for (a, b) in pairs.into_iter().rev() {
        let less = binary(a.clone(), strict.clone(), b.clone());
        let same = binary(a.clone(), BinaryOperator::Eq, b.clone());
        let rest = binary(same, BinaryOperator::And, nested(result));
        result = binary(less, BinaryOperator::Or, nested(rest));
    }
    Ok(nested(result))
}

fn joined<'a>(
    pairs: impl Iterator<Item = (&'a Expr, &'a Expr)>,
    op: &BinaryOperator,
    with: &BinaryOperator,
) -> Expr {
    let each = pairs.map(|(a, b)| binary(a.clone(), op.clone(), b.clone()));
    nested(each.reduce(|a, b| binary(a, with.clone(), b)).expect("a row has fields"))
}

/// `(a, b) IN ((1, 2), …)` by row equality; any other list stays.
fn in_list(expr: Expr, list: Vec<Expr>, negated: bool) -> Expr {
    let rows: Option<Vec<Vec<Expr>>> = list.iter().map(row_of).collect();
    match (row_of(&expr), rows) {
        (Some(left), Some(rows)) if rows.iter().all(|row| row.len() == left.len()) => {
            let any = rows
                .iter()
                .map(|row| joined(left.iter().zip(row), &BinaryOperator::Eq, &BinaryOperator::And))
                .reduce(|a, b| binary(a, BinaryOperator::Or, b))
                .expect("IN has a list");
            if negated {
                Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(any)) }
            } else {
                nested(any)
            }
        }
        _ => Expr::InList { expr: Box::new(expr), list, negated },
    }
}

/// An identifier as names are compared: folded unless quoted.
pub fn normal(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

fn quoted(name: String) -> Ident {
    Ident::with_quote('"', name)
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).with_empty_span())
}

fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).with_empty_span())
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// `name(args)`.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|a| FunctionArg::Unnamed(FunctionArgExpr::Expr(a))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![quoted(name.to_owned())]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_query;

    fn rewritten(text: &str) -> String {
        let mut query = parse_query(text).expect(text);
        rewrite_query(&mut query).expect(text);
        query.to_string().replace(TAIL, "~")
    }

    #[test]
    fn result_columns_are_named_as_postgresql_names_them() {
        for (item, name) in [
            ("1", "?column?"),
            ("a + 1", "?column?"),
            ("count(*)", "count"),
            ("pg_catalog.Version()", "version"),
            ("'1'::int", "int4"),
            ("a::text", "a"),
            ("CASE WHEN a THEN 1 END", "case"),
            ("CASE WHEN a THEN 1 ELSE b END", "b"),
            ("(SELECT max(x) FROM t)", "max"),
            ("EXTRACT(year FROM a)", "extract"),
            ("coalesce(a, b)", "coalesce"),
            ("DATE '2020-01-01'", "date"),
            ("EXISTS (SELECT 1)", "exists"),
            ("NOT a", "?column?"),
            ("(b)", "b"),
        ] {
            let text = rewritten(&format!("SELECT {item}"));
            assert!(text.ends_with(&format!(" AS \"{name}\"")), "{item}: {text}");
        }
    }

    #[test]
    fn repeated_names_are_told_apart_and_shown_alike() {
        assert_eq!(
            rewritten("SELECT a, a, 1, 2, b AS a FROM t"),
            "SELECT a, a AS \"a~1\", 1 AS \"?column?\", 2 AS \"?column?~2\", b AS \"a~3\" FROM t"
        );
        assert_eq!(shown_name("a\u{1}3"), "a");
    }

    #[test]
    fn clauses_and_operators_become_what_the_planner_takes() {
        for (text, expected) in [
            ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
            (
                "SELECT a FROM t TABLESAMPLE SYSTEM (5)",
                "SELECT a FROM (SELECT * FROM t WHERE random() * 100 < 5) AS t",
            ),
            ("SELECT a FROM t FOR UPDATE", "SELECT a FROM t"),
            ("SELECT a FROM t WHERE int8(b) = 1", "SELECT a FROM t WHERE CAST(b AS \"int8\") = 1"),
            ("SELECT a FROM t WHERE (a, b) = (1, 2)", "SELECT a FROM t WHERE (a = 1 AND b = 2)"),
            (
                "SELECT a FROM t WHERE (a, b) > (1, 2)",
                "SELECT a FROM t WHERE (a > 1 OR (a = 1 AND (b > 2)))",
            ),
            (
                "SELECT a FROM t WHERE a LIKE 'x!%' ESCAPE '!'",
                "SELECT a FROM t WHERE a LIKE \"like_escape\"('x!%', '!')",
            ),
            (
                "SELECT a FROM t WHERE a NOT SIMILAR TO 'x'",
                "SELECT a FROM t WHERE a !~ \"similar_to_escape\"('x')",
            ),
        ] {
            assert_eq!(rewritten(text), expected);
        }
    }
}
