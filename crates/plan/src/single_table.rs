//! The short way from DataFusion's planner to a row-at-a-time executor: for look-ups, and for the queries
//! behind UPDATE and DELETE.
//!
//! [`crate::semantics`] goes over a plan once for each of its passes and computes the types of all nodes
//! again each time; the optimizer does so for each rule. A *single-table plan* reads one table and has
//! nothing but conditions, a list of expressions, an order and a LIMIT. Its expressions are over the table's columns
//! alone, so that all passes can be applied to one expression after the other: [`meaning`]. If its
//! expressions are *settled* (columns, constants, parameters, comparisons, arithmetic), there is nothing to
//! optimise but the columns that nobody reads: [`optimized`].
//!
//! Statements that need even less than this are planned without DataFusion (`exec/src/point/short`), and are
//! compared with what comes out here.
//!
//! Invariant, checked by an assertion wherever tests bind a statement: [`meaning`] gives what
//! [`crate::semantics::analyze`] does. Whatever has an error or is in doubt goes the long way.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Between, Cast, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Limit, LogicalPlan, Operator, Projection, Sort,
    SubqueryAlias, TableScan, TableScanBuilder,
};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use halcyon_functions::{long_lists, memberships};
use halcyon_sql::types::SqlType;

use crate::documents;
use crate::semantics::{self, Parameters};
use crate::sizes;
use halcyon_unnest::conjunctions::conjunction;
use halcyon_unnest::late_effects::is_volatile_above;

/// The plan with PostgreSQL's meaning, and the types of the parameters; `None` if the plan is not of one
/// table, or has an error: then the long way is to say which.
pub(crate) fn meaning(
    plan: &LogicalPlan,
    given: &[Option<SqlType>],
    zone: &str,
) -> Option<(LogicalPlan, Vec<SqlType>)> {
    if halcyon_collated::involves(plan).ok()? {
        return None;
    }
    let mut passes = Passes { types: Parameters::new(given), zone };
    passes.types.find_arrays(plan).ok()?;
    let plan = long_lists::with_arrays(passes.node(plan, false)?).ok()?;
    sizes::check_plan(&plan).ok()?;
    Some((plan, passes.types.into_types()))
}

/// All passes of [`crate::semantics`], for one expression after the other.
struct Passes<'a> {
    types: Parameters,
    zone: &'a str,
}

impl Passes<'_> {
    /// `is_seen`: expressions that compute something lie above, and the long way would find types for
    /// them before those here are final.
    fn node(&mut self, plan: &LogicalPlan, is_seen: bool) -> Option<LogicalPlan> {
        match plan {
            LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => {
                Some(plan.clone())
            }
            LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
                LogicalPlan::TableScan(_) => self.node(&alias.input, is_seen).map(|_| plan.clone()),
                _ => None,
            },
            LogicalPlan::EmptyRelation(_) => Some(plan.clone()),
            LogicalPlan::Filter(filter) => {
                let input = self.node(&filter.input, true)?;
                // A chain of AND in the form in which `row_sets` leaves one.
                let chain = conjunction(split_conjunction_owned(filter.predicate.clone()))?;
                let predicate = self.expr(&chain, input.schema())?;
                let ty = predicate.get_type(input.schema()).ok()?;
                let filter = Filter::try_new(predicate, Arc::new(input)).ok()?;
                (ty == DataType::Boolean).then_some(LogicalPlan::Filter(filter))
            }
            LogicalPlan::Projection(projection) if !is_seen => {
                let computes = !projection.expr.iter().all(is_column);
                // The long way leaves the fields above as they were before arithmetic was checked.
                if !computes && is_computed(&projection.input) {
                    return None;
                }
                let input = self.node(&projection.input, computes)?;
                let names = NamePreserver::new_for_projection();
                let exprs = projection.expr.iter().map(|expr| {
                    let name = names.save(expr);
                    Some(name.restore(self.expr(expr, input.schema())?))
                });
                let exprs = exprs.collect::<Option<Vec<Expr>>>()?;
                let made = Projection::try_new(exprs, Arc::new(input)).ok()?;
                Some(LogicalPlan::Projection(made))
            }
            // The long way computes volatile columns above sorts and limits.
            LogicalPlan::Sort(Sort { input, .. }) | LogicalPlan::Limit(Limit { input, .. })
                if is_volatile_above(input) =>
            {
                None
            }
            LogicalPlan::Sort(sort) if sort.expr.iter().all(|key| is_column(&key.expr)) => {
                let input = Arc::new(self.node(&sort.input, is_seen)?);
                let sort = LogicalPlan::Sort(Sort { input: Arc::clone(&input), ..sort.clone() });
                documents::are_not_compared(&sort, input.schema()).ok()?;
                Some(sort)
            }
            LogicalPlan::Limit(limit) => {
                let input = Arc::new(self.node(&limit.input, is_seen)?);
                let (skip, fetch) = (self.bound(&limit.skip)?, self.bound(&limit.fetch)?);
                Some(LogicalPlan::Limit(Limit { skip, fetch, input }))
            }
            _ => None,
        }
    }

    /// A bound of LIMIT that is a whole number or a parameter.
    fn bound(&mut self, bound: &Option<Box<Expr>>) -> Option<Option<Box<Expr>>> {
        Some(match bound.as_deref() {
            None => None,
            Some(Expr::Literal(value, _)) if value.data_type() == DataType::Int64 => bound.clone(),
            Some(Expr::Placeholder(parameter)) => {
                let typed = self.types.typed(parameter.clone(), &DataType::Int64);
                let field = match &typed {
                    Expr::Placeholder(parameter) => parameter.field.as_ref(),
                    _ => None,
                };
                // A parameter of another type is converted.
                field.filter(|field| *field.data_type() == DataType::Int64)?;
                Some(Box::new(typed))
            }
            Some(_) => return None,
        })
    }

    fn expr(&mut self, expr: &Expr, schema: &DFSchema) -> Option<Expr> {
        if !is_of_one_row(expr) {
            return None;
        }
        self.passes(expr.clone(), schema).ok().flatten()
    }

    fn passes(&mut self, expr: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        let types = &mut self.types;
        let expr = expr.transform_up(|expr| Ok(semantics::narrow(expr))).data()?;
        let expr = expr.transform_up(|expr| semantics::operator(expr, schema, types)).data()?;
        // Another node may say of which type such a parameter is.
        if expr.exists(|part| Ok(semantics::untyped(part)))? {
            return Ok(None);
        }
        let expr = expr.rewrite(&mut TypeCoercionRewriter::new(schema)).data()?;
        let expr = expr.transform_up(|expr| semantics::cast(expr, schema, self.zone)).data()?;
        expr.transform_up(|expr| semantics::finished(expr, schema)).data().map(Some)
    }
}

/// Whether expressions within a plan compute something.
fn is_computed(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => !projection.expr.iter().all(is_column),
        LogicalPlan::Sort(sort) => is_computed(&sort.input),
        LogicalPlan::Limit(limit) => is_computed(&limit.input),
        _ => false,
    }
}

/// Whether an expression is a column, by whatever name.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr),
        expr => matches!(expr, Expr::Column(_)),
    }
}

/// Whether an expression has nothing but values of one row.
fn is_of_one_row(expr: &Expr) -> bool {
    let odd = expr.exists(|part| {
        Ok(!matches!(
            part,
            Expr::Column(_)
                | Expr::Literal(..)
                | Expr::Placeholder(_)
                | Expr::Alias(_)
                | Expr::BinaryExpr(_)
                | Expr::Not(_)
                | Expr::Negative(_)
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Like(_)
                | Expr::Case(_)
                | Expr::Cast(_)
                | Expr::ScalarFunction(_)
        ))
    });
    odd.is_ok_and(|odd| !odd)
}

/// A single-table plan in the form in which row-at-a-time executors take it: arithmetic is plain, and the scan
/// has the columns that are read alone. `None` if an expression is not settled.
pub(crate) fn optimized(plan: &LogicalPlan) -> Option<LogicalPlan> {
    let mut read = BTreeSet::new();
    narrowed(plan, &mut read)
}

/// `read`: columns that nodes above read.
fn narrowed(plan: &LogicalPlan, read: &mut BTreeSet<Column>) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::TableScan(scan) => scan_of(scan, read).map(LogicalPlan::TableScan),
        LogicalPlan::SubqueryAlias(alias) => {
            let LogicalPlan::TableScan(scan) = alias.input.as_ref() else { return None };
            let inner = |column: &Column| Column::new(Some(scan.table_name.clone()), &column.name);
            let read = read.iter().map(inner).collect();
            let input = Arc::new(LogicalPlan::TableScan(scan_of(scan, &read)?));
            let made = SubqueryAlias::try_new(input, alias.alias.clone()).ok()?;
            Some(LogicalPlan::SubqueryAlias(made))
        }
        LogicalPlan::Filter(filter) => {
            let predicate = settled(&filter.predicate, filter.input.schema())?;
            note(&predicate, read);
            let input = Arc::new(narrowed(&filter.input, read)?);
            Filter::try_new(predicate, input).ok().map(LogicalPlan::Filter)
        }
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema();
            let exprs = projection.expr.iter().map(|expr| settled(expr, schema));
            let exprs = exprs.collect::<Option<Vec<Expr>>>()?;
            read.clear();
            exprs.iter().for_each(|expr| note(expr, read));
            let input = Arc::new(narrowed(&projection.input, read)?);
            let schema = Arc::clone(&projection.schema);
            let made = Projection::try_new_with_schema(exprs, input, schema).ok()?;
            Some(LogicalPlan::Projection(made))
        }
        LogicalPlan::Sort(sort) => {
            sort.expr.iter().for_each(|key| note(&key.expr, read));
            let input = Arc::new(narrowed(&sort.input, read)?);
            Some(LogicalPlan::Sort(Sort { input, ..sort.clone() }))
        }
        LogicalPlan::Limit(limit) => {
            let input = Arc::new(narrowed(&limit.input, read)?);
            Some(LogicalPlan::Limit(Limit { input, ..limit.clone() }))
        }
        _ => None,
    }
}

/// Adds the columns of an expression to those that are read.
fn note(expr: &Expr, read: &mut BTreeSet<Column>) {
    read.extend(expr.column_refs().into_iter().cloned());
}

/// The scan with the columns `read` alone.
fn scan_of(scan: &TableScan, read: &BTreeSet<Column>) -> Option<TableScan> {
    if scan.projection.is_some() {
        return None;
    }
    let schema = scan.source.schema();
    let places = read.iter().map(|column| schema.index_of(&column.name).ok());
    let mut places = places.collect::<Option<Vec<usize>>>()?;
    places.sort_unstable();
    places.dedup();
    let (name, source) = (scan.table_name.clone(), Arc::clone(&scan.source));
    TableScanBuilder::new(name, source).with_projection(Some(places)).build().ok()
}

/// The expression with plain arithmetic, if there is nothing in it that the optimizer would compute or
/// turn around; constants of another type than what they are compared with are converted.
fn settled(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let plain = expr.clone().transform_up(|expr| Ok(semantics::unguarded(expr))).data().ok()?;
    let plain = plain.transform_up(|expr| Ok(converted(expr))).data().ok()?;
    is_settled(&plain, schema).then_some(plain)
}

/// A whole number in a wider type of whole numbers.
fn converted(expr: Expr) -> Transformed<Expr> {
    if let Expr::Cast(Cast { expr: inner, field }) = &expr
        && let Expr::Literal(value, metadata) = inner.as_ref()
        && value.data_type().is_integer()
        && *field.data_type() == DataType::Int64
        && metadata.is_none()
        && let Ok(value) = value.cast_to(field.data_type())
    {
        return Transformed::yes(Expr::Literal(value, None));
    }
    Transformed::no(expr)
}

/// Whether an expression is a constant or parameter of a column's type, and not NULL.
fn is_bound_of(bound: &Expr, column: &Expr, schema: &DFSchema) -> bool {
    let is_constant = match bound {
        Expr::Literal(value, _) => !value.is_null(),
        bound => matches!(bound, Expr::Placeholder(_)),
    };
    is_constant && bound.get_type(schema).ok() == column.get_type(schema).ok()
}

fn is_settled(expr: &Expr, schema: &DFSchema) -> bool {
    let mut settled = true;
    let walked = expr.apply(|part| {
        settled &= match part {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Placeholder(_)
            | Expr::Alias(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_) => true,
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let constant = |side: &Expr| matches!(side, Expr::Literal(..));
                let null = |side: &Expr| matches!(side, Expr::Literal(value, _) if value.is_null());
                let is_settled = match op {
                    Operator::And | Operator::Or => !constant(left) && !constant(right),
                    Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::Plus
                    | Operator::Minus
                    | Operator::Multiply => {
                        left.get_type(schema).ok() == right.get_type(schema).ok()
                    }
                    _ => false,
                };
                let folds = constant(left) && constant(right);
                is_settled && !folds && !null(left) && !null(right)
            }
            Expr::InList(InList { expr, list, .. }) => {
                is_column(expr) && list.iter().all(|item| is_bound_of(item, expr, schema))
            }
            Expr::ScalarFunction(call) => {
                memberships::is_of_long_array(call) && is_column(&call.args[1])
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                is_column(expr) && is_bound_of(low, expr, schema) && is_bound_of(high, expr, schema)
            }
            _ => false,
        };
        Ok(if settled { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && settled
}
