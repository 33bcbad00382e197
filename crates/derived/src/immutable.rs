//! Expressions that give the same value for the same row, in every session and at all times.

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use datafusion::sql::sqlparser::ast::{self, Visit, Visitor};

use halcyon_catalog::session_vars::SessionVars;
use halcyon_plan::bind::Binder;
use halcyon_plan::execution::belongs_to_execution;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::enums::is_label;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Where an expression over one row stands, for its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The key of an index.
    IndexExpression,
    /// The condition of a partial index.
    IndexPredicate,
    /// GENERATED ALWAYS AS.
    Generation,
    /// CHECK.
    Check,
    /// DEFAULT.
    Default,
    /// The condition of COPY FROM.
    CopyCondition,
}

impl Place {
    fn singular(self) -> &'static str {
        match self {
            Place::IndexExpression => "index expression",
            Place::IndexPredicate => "index predicate",
            Place::Generation => "column generation expression",
            Place::Check => "check constraint",
            Place::Default => "DEFAULT expression",
            Place::CopyCondition => "COPY FROM WHERE condition",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Place::IndexExpression => "index expressions",
            Place::IndexPredicate => "index predicates",
            Place::Generation => "column generation expressions",
            Place::Check => "check constraints",
            Place::Default => "DEFAULT expressions",
            Place::CopyCondition => "COPY FROM WHERE conditions",
        }
    }

    /// 42P17.
    fn not_immutable(self) -> SqlError {
        let message = match self {
            Place::Generation => "generation expression is not immutable".to_owned(),
            _ => format!("functions in {} must be marked IMMUTABLE", self.singular()),
        };
        SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
    }
}

/// Binds an expression that must be immutable.
///
/// Errors: 42P17 if the expression is not; 0A000, 42803 and 42P20 for subqueries, aggregates and window
/// functions; those of binding.
pub fn immutable(
    binder: &Binder<'_>,
    expr: &ast::Expr,
    schema: &DFSchema,
    place: Place,
) -> Result<Expr> {
    if has_subquery(expr) {
        let message = format!("cannot use subquery in {}", place.singular());
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    // What a literal means, or a conversion gives, may depend on the session's time zone: then two
    // zones make two expressions.
    let in_zone = |zone: &str| {
        let session = SessionVars { time_zone: zone.to_owned(), ..binder.session.clone() };
        Binder { session: &session, ..*binder }.expr(expr, schema)
    };
    let bound = in_zone("UTC")?;
    let mut refused = None;
    bound
        .apply(|part| {
            refused = refusal(part, schema, place);
            Ok(match refused {
                Some(_) => TreeNodeRecursion::Stop,
                None => TreeNodeRecursion::Continue,
            })
        })
        .map_err(|error| sql_error(error, ""))?;
    match refused {
        Some(error) => Err(error),
        None if in_zone("+05:45")? != bound => Err(place
            .not_immutable()
            .hint("Write the time zone: AT TIME ZONE 'UTC', or an offset behind a literal.")),
        None => Ok(bound),
    }
}

/// Refuses an expression that no single row gives a value.
///
/// Errors: 0A000, 42803 and 42P20 for subqueries, aggregates and window functions.
pub fn of_one_row(expr: &ast::Expr, bound: &Expr, place: Place) -> Result<()> {
    if has_subquery(expr) {
        let message = format!("cannot use subquery in {}", place.singular());
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let mut refused = None;
    bound
        .apply(|part| {
            refused = of_many_rows(part, place);
            Ok(if refused.is_some() {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })
        .map_err(|error| sql_error(error, ""))?;
    refused.map_or(Ok(()), Err)
}

/// Why a part of an expression may not stand there because it needs many rows, or gives some.
fn of_many_rows(part: &Expr, place: Place) -> Option<SqlError> {
    let plural = place.plural();
    match part {
        Expr::AggregateFunction(_) => Some(SqlError::new(
            SqlState::GROUPING_ERROR,
            format!("aggregate functions are not allowed in {plural}"),
        )),
        Expr::WindowFunction(_) => Some(SqlError::new(
            SqlState::WINDOWING_ERROR,
            format!("window functions are not allowed in {plural}"),
        )),
        Expr::Unnest(_) => Some(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("set-returning functions are not allowed in {plural}"),
        )),
        _ => None,
    }
}

/// Why a part of an expression may not stand there, if it may not.
fn refusal(part: &Expr, schema: &DFSchema, place: Place) -> Option<SqlError> {
    let plural = place.plural();
    if let Some(refused) = of_many_rows(part, place) {
        return Some(refused);
    }
    match part {
        // PostgreSQL's conversions, where they are not Arrow's.
        Expr::ScalarFunction(call) if call.name() == "pg_cast" => {
            let [of] = &call.args[..] else { return None };
            let to = part.get_type(schema).ok()?;
            is_stable(of, &to, schema).then(|| place.not_immutable())
        }
        Expr::ScalarFunction(call) => {
            let is_immutable = call.func.signature().volatility == Volatility::Immutable
                && !belongs_to_execution(call.name());
            (!is_immutable).then(|| place.not_immutable())
        }
        Expr::Cast(cast) => {
            is_stable(&cast.expr, cast.field.data_type(), schema).then(|| place.not_immutable())
        }
        Expr::Placeholder(_) => Some(SqlError::new(
            SqlState::UNDEFINED_PARAMETER,
            format!("parameters are not allowed in {plural}"),
        )),
        _ => None,
    }
}

/// Whether a conversion may have to know the present, because a text may name it: `now`, `today`; or how labels
/// are called, which ALTER TYPE changes.
fn is_stable(of: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    let Ok(from) = of.get_type(schema) else { return false };
    let is_constant = matches!(of, Expr::Literal(..));
    is_text(&from) && (is_temporal(to) || is_label(to)) && !is_constant
        || is_label(&from) && !is_label(to)
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::Utf8View)
}

/// Whether texts of the type may name the present.
fn is_temporal(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_))
}

fn has_subquery(expr: &ast::Expr) -> bool {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Queries).is_break()
}
