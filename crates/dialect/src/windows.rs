//! Named windows: `WINDOW w AS (…)`, `OVER w` and `OVER (w …)`, each replaced by what it says.
//!
//! A definition may start from one that stands before it and add what that one lacks: an ORDER BY, and
//! a frame. DataFusion's planner resolves `OVER w` alone and plans `OVER (w …)` as if `w` were not
//! written, so no name of a window is left when it sees the query.
//!
//! The planner's time grows with the cube of the number of different partitions and orders in a SELECT list, so
//! there is a limit on them.
//!
//! Rules and messages: PostgreSQL's (`SELECT`, "WINDOW Clause").

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    NamedWindowDefinition, NamedWindowExpr, ObjectNamePart, OrderBy, Query, Select, Value,
    VisitMut, VisitorMut, WindowFrame, WindowFrameBound, WindowSpec, WindowType,
};

use crate::made::{binary, call, nested, number, string};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::frames::excluded;
use halcyon_sql::type_names::cast_type;
use halcyon_sql::types::SqlType;

/// Replaces the names of windows in a SELECT's list, in its other expressions and in the ORDER BY of
/// its query. Subqueries have windows of their own and are left alone.
///
/// Errors: 42704 for unknown names; 42P20 for a name defined twice, or for a definition that would
/// override what it starts from.
pub(crate) fn resolve(select: &mut Select, order: Option<&mut OrderBy>) -> Result<()> {
    let mut known: Vec<(String, WindowSpec)> = Vec::new();
    for NamedWindowDefinition(name, window) in std::mem::take(&mut select.named_window) {
        let name = fold(&name);
        if find(&known, &name).is_some() {
            let message = format!("window \"{name}\" is already defined");
            return Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
        }
        let window = match window {
            NamedWindowExpr::WindowSpec(window) => extended(window, &known, false)?,
            NamedWindowExpr::NamedWindow(other) => {
                let message = format!("syntax error at or near \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        known.push((name, window));
    }
    let mut calls = Calls { known: &known, queries: 0, sorts: HashSet::new() };
    let flow = match VisitMut::visit(select, &mut calls) {
        ControlFlow::Continue(()) => {
            order.map_or(ControlFlow::Continue(()), |order| order.visit(&mut calls))
        }
        stopped => stopped,
    };
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Calls of window functions outside subqueries.
struct Calls<'a> {
    known: &'a [(String, WindowSpec)],
    /// Subqueries around the place.
    queries: usize,
    /// The different partitions and orders so far, as text.
    sorts: HashSet<String>,
}

/// The function that says what the frame of a window excludes: as a condition, or beside the value that it gives.
pub const EXCLUDE: &str = "exclude\u{1}";

/// The most different partitions and orders of the windows of a SELECT.
const SORTS_MAX: usize = 256;

impl VisitorMut for Calls<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Function(function) if self.queries == 0 => self.call(function),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Calls<'_> {
    fn call(&mut self, function: &mut Function) -> ControlFlow<SqlError> {
        let mut window = match function.over.take() {
            None => return ControlFlow::Continue(()),
            Some(WindowType::NamedWindow(name)) => named(self.known, &name).cloned(),
            Some(WindowType::WindowSpec(window)) => extended(window, self.known, true),
        };
        if let Ok(window) = &mut window
            && let Some((_, kind)) = window.window_name.take().as_ref().and_then(excluded)
        {
            exclude(function, &kind);
        }
        match window.and_then(|window| self.note_sort(&window).map(|()| window)) {
            Ok(mut window) => {
                window.window_frame.as_mut().map(settle_bounds);
                function.over = Some(WindowType::WindowSpec(window));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Says what the frame of a call excludes: in the first argument of a function that gives a value of the frame, in the
/// FILTER of an aggregate, and nowhere for what looks at no frame.
fn exclude(function: &mut Function, kind: &str) {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let kind = string(kind);
    match name.as_deref().unwrap_or_default() {
        "first_value" | "last_value" | "nth_value" => {
            if let FunctionArguments::List(list) = &mut function.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) =
                    list.args.first_mut()
            {
                *value = call(EXCLUDE, vec![kind, std::mem::replace(value, number("0"))]);
            }
        }
        "row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist" | "ntile" | "lag"
        | "lead" => {}
        _ => {
            let marker = call(EXCLUDE, vec![kind]);
            function.filter = Some(Box::new(match function.filter.take() {
                Some(filter) => binary(marker, BinaryOperator::And, nested(*filter)),
                None => marker,
            }));
        }
    }
}

/// Writes the bounds of a frame that are constant whole numbers as such: the planner takes nothing else.
fn settle_bounds(frame: &mut WindowFrame) {
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        let (WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) =
            bound
        else {
            continue;
        };
        // `CAST('1 day' AS interval)`, `1.5::real`
        if let Expr::Cast { expr, data_type, .. } = offset.as_ref()
            && let Expr::Value(value) = expr.as_ref()
            && matches!(
                (&value.value, cast_type(data_type)),
                (Value::SingleQuotedString(_), Ok(SqlType::Interval))
                    | (
                        Value::Number(..),
                        Ok(SqlType::Real | SqlType::Double | SqlType::Decimal { .. })
                    )
            )
        {
            **offset = Expr::Value(value.clone());
        } else if !matches!(offset.as_ref(), Expr::Value(_))
            && let Some(whole) = constant(offset).and_then(|whole| u32::try_from(whole).ok())
        {
            **offset = number(&whole.to_string());
        }
    }
}

/// The value of a constant whole number; `None` for other expressions.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => digits.parse().ok(),
            _ => None,
        },
        Expr::Cast { expr, data_type, .. } => {
            let is_whole = matches!(
                cast_type(data_type),
                Ok(SqlType::SmallInt | SqlType::Integer | SqlType::BigInt)
            );
            match expr.as_ref() {
                Expr::Value(value) if is_whole => match &value.value {
                    Value::SingleQuotedString(text) => text.trim().parse().ok(),
                    _ => constant(expr),
                },
                _ => constant(expr).filter(|_| is_whole),
            }
        }
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (constant(left)?, constant(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Calls<'_> {
    /// Errors: 54000 for too many different partitions and orders.
    fn note_sort(&mut self, window: &WindowSpec) -> Result<()> {
        SqlError::unless_interrupted()?;
        let sort = WindowSpec { window_frame: None, ..window.clone() };
        self.sorts.insert(sort.to_string());
        if self.sorts.len() > SORTS_MAX {
            let message = "too many different windows";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .detail(format!(
                    "A SELECT has at most {SORTS_MAX} different PARTITION BY and ORDER BY of windows."
                ))
                .hint("Compute some of them in a subquery."));
        }
        Ok(())
    }
}

fn find<'a>(known: &'a [(String, WindowSpec)], name: &str) -> Option<&'a WindowSpec> {
    known.iter().find(|(other, _)| other == name).map(|(_, window)| window)
}

fn named<'a>(known: &'a [(String, WindowSpec)], name: &Ident) -> Result<&'a WindowSpec> {
    let name = fold(name);
    find(known, &name).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
    })
}

/// A window together with what the one says that it starts from. `in_call`: it stands after OVER.
fn extended(
    mut window: WindowSpec,
    known: &[(String, WindowSpec)],
    in_call: bool,
) -> Result<WindowSpec> {
    let Some(mut name) = window.window_name.take() else { return Ok(window) };
    if let Some((base, _)) = excluded(&name) {
        window.window_name = Some(name);
        let Some(base) = base else { return Ok(window) };
        name = base;
    }
    let base = named(known, &name)?;
    let name = fold(&name);
    let refused = |what: &str| {
        SqlError::new(SqlState::WINDOWING_ERROR, format!("cannot {what} of window \"{name}\""))
    };
    if !window.partition_by.is_empty() {
        return Err(refused("override PARTITION BY clause"));
    }
    if !window.order_by.is_empty() && !base.order_by.is_empty() {
        return Err(refused("override ORDER BY clause"));
    }
    if base.window_frame.is_some() {
        let message = format!("cannot copy window \"{name}\" because it has a frame clause");
        let error = SqlError::new(SqlState::WINDOWING_ERROR, message);
        let adds = !window.order_by.is_empty() || window.window_frame.is_some();
        return Err(if in_call && !adds {
            error.hint("Omit the parentheses in this OVER clause.")
        } else {
            error
        });
    }
    window.partition_by.clone_from(&base.partition_by);
    if window.order_by.is_empty() {
        window.order_by.clone_from(&base.order_by);
    }
    Ok(window)
}
