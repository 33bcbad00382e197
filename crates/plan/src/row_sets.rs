//! Rows compared with the rows of a subquery: `(a, b) IN (SELECT x, y …)`, also with ANY and ALL.
//!
//! [`halcyon_dialect`] writes such a row, and the subquery's only column, as a call of
//! [`halcyon_dialect::ROW`]. The comparison becomes EXISTS over the subquery's rows whose fields compare
//! so: TRUE if there is one; otherwise NULL if the comparison is NULL for one; otherwise FALSE.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, Spans};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Filter, LogicalPlan, Operator, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility, lit, when,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_unnest::conjunctions::conjunction;

/// The function that stands for a row until [`with_fields_compared`]. It is never evaluated.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(RowFunction(signature)))
    });
    Arc::clone(&ROW)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RowFunction(Signature);

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        halcyon_dialect::ROW
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(external(SqlError::unsupported("a row as a value")))
    }
}

/// Rewrites comparisons of rows with subqueries into comparisons of their fields.
pub(crate) fn with_fields_compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        crate::interrupts::go_on()?;
        let node = with_subqueries_below(node)?;
        let schema = merge_schema(&node.inputs());
        if let LogicalPlan::Filter(filter) = node {
            return restricted(filter, &schema);
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| compared(expr, &schema))?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

/// A SELECT or WHERE whose compared rows have columns of the input where they had subqueries, which cannot stand within
/// the condition of another.
fn with_subqueries_below(node: LogicalPlan) -> Result<LogicalPlan> {
    if !matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_)) {
        return Ok(node);
    }
    let mut below: Vec<Expr> = Vec::new();
    let names = NamePreserver::new(&node);
    let node = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let new = expr.transform_up(|expr| match expr {
            Expr::ScalarFunction(row) if row.name() == halcyon_dialect::ROW => {
                let row = Expr::ScalarFunction(row);
                row.transform_up(|field| Ok(column_of_subquery(field, &mut below)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(new.update_data(|expr| name.restore(expr)))
    });
    let node = node?.data;
    if below.is_empty() {
        return Ok(node);
    }
    let wider = |input: Arc<LogicalPlan>| {
        let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        let added = below.into_iter().enumerate().map(|(at, query)| query.alias(name_of(at)));
        let all = columns.iter().cloned().chain(added).collect();
        Projection::try_new(all, input).map(|wider| (columns, LogicalPlan::Projection(wider)))
    };
    match node {
        LogicalPlan::Filter(filter) => {
            let (columns, input) = wider(filter.input)?;
            let filter = LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?);
            // The rows of the condition are compared before the columns go.
            let filter = with_fields_compared(filter)?;
            Projection::try_new(columns, Arc::new(filter)).map(LogicalPlan::Projection)
        }
        LogicalPlan::Projection(projection) => {
            let (_, input) = wider(projection.input)?;
            Projection::try_new(projection.expr, Arc::new(input)).map(LogicalPlan::Projection)
        }
        other => Ok(other),
    }
}

/// A column in the place of a subquery, which is put below.
fn column_of_subquery(field: Expr, below: &mut Vec<Expr>) -> Transformed<Expr> {
    if !matches!(field, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)) {
        return Transformed::no(field);
    }
    below.push(field);
    Transformed::yes(Expr::Column(Column::from_name(name_of(below.len() - 1))))
}

/// A name that no statement has.
fn name_of(at: usize) -> String {
    format!("row\u{1}{at}")
}

/// A comparison that is a condition of a WHERE by itself needs no third truth value.
fn restricted(filter: Filter, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    let mut conditions = Vec::new();
    for condition in split_conjunction_owned(filter.predicate) {
        let new = match Comparison::of(&condition)? {
            Some(comparison) if !comparison.negated => {
                Transformed::yes(comparison.matches(schema)?)
            }
            _ => condition.transform_up(|expr| compared(expr, schema))?,
        };
        changed |= new.transformed;
        conditions.push(new.data);
    }
    let predicate = conjunction(conditions).expect("a filter has a condition");
    let filter = LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?);
    Ok(if changed { Transformed::yes(filter) } else { Transformed::no(filter) })
}

fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match Comparison::of(&expr)? {
        Some(comparison) => comparison.value(schema).map(Transformed::yes),
        None => Ok(Transformed::no(expr)),
    }
}

/// A comparison with some row of a subquery, or its negation.
struct Comparison {
    row: Vec<Expr>,
    op: Operator,
    /// For ALL: no row may compare in this way.
    opposite: bool,
    negated: bool,
    rows: LogicalPlan,
    fields: Vec<Expr>,
}

impl Comparison {
    fn of(expr: &Expr) -> Result<Option<Comparison>> {
        let (row, op, all, negated, subquery) = match expr {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                (expr, Operator::Eq, false, *negated, subquery)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let all = matches!(quantifier, SetQuantifier::All);
                (expr, *op, all, all, subquery)
            }
            _ => return Ok(None),
        };
        let Some(row) = fields(row) else { return Ok(None) };
        let LogicalPlan::Projection(projection) = subquery.subquery.as_ref() else {
            return Ok(None);
        };
        let Some(fields) = fields(&projection.expr[0]) else { return Ok(None) };
        if fields.len() != row.len() {
            return Err(external(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "a row is compared with rows of another number of columns",
            )));
        }
        let rows = projection.input.as_ref().clone();
        Ok(Some(Comparison { row, op, opposite: all, negated, rows, fields }))
    }

    /// Whether there is a row for which the comparison is TRUE.
    fn matches(&self, schema: &DFSchema) -> Result<Expr> {
        self.exists(self.condition(schema)?)
    }

    /// The comparison's value.
    fn value(&self, schema: &DFSchema) -> Result<Expr> {
        let unknown = self.exists(self.condition(schema)?.is_null())?;
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        let value =
            when(self.matches(schema)?, lit(true)).when(unknown, null).otherwise(lit(false))?;
        Ok(if self.negated { !value } else { value })
    }

    fn exists(&self, condition: Expr) -> Result<Expr> {
        let rows = Filter::try_new(condition, Arc::new(self.rows.clone()))?;
        let subquery = Arc::new(LogicalPlan::Filter(rows));
        let outer_ref_columns = subquery.all_out_ref_exprs();
        let subquery = Subquery { subquery, outer_ref_columns, spans: Spans::new() };
        Ok(Expr::Exists(Exists { subquery, negated: false }))
    }

    /// The comparison with one row of the subquery.
    fn condition(&self, schema: &DFSchema) -> Result<Expr> {
        let row = self.row.iter().map(|expr| as_outer(expr.clone(), schema));
        let row = row.collect::<Result<Vec<_>>>()?;
        let mut pairs: Vec<(Expr, Expr)> = row.into_iter().zip(self.fields.clone()).collect();
        let each = |op: Operator, pairs: Vec<(Expr, Expr)>| {
            pairs.into_iter().map(move |(a, b)| binary(a, op, b))
        };
        let condition = match self.op {
            Operator::Eq => conjunction(each(self.op, pairs)),
            Operator::NotEq => each(self.op, pairs).reduce(Expr::or),
            op => {
                let strict = match op {
                    Operator::Lt | Operator::LtEq => Operator::Lt,
                    _ => Operator::Gt,
                };
                let (a, b) = pairs.pop().expect("a row has fields");
                let last = binary(a, op, b);
                Some(pairs.into_iter().rev().fold(last, |rest, (a, b)| {
                    let less = binary(a.clone(), strict, b.clone());
                    less.or(binary(a, Operator::Eq, b).and(rest))
                }))
            }
        };
        let condition = condition.expect("a row has fields");
        Ok(if self.opposite { !condition } else { condition })
    }
}

/// The fields of a row.
fn fields(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Alias(alias) => fields(&alias.expr),
        Expr::ScalarFunction(call) if call.name() == halcyon_dialect::ROW => {
            Some(call.args.clone())
        }
        _ => None,
    }
}

fn binary(a: Expr, op: Operator, b: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(a), op, Box::new(b)))
}

/// A field over the rows of a node, as a subquery of the node names it.
fn as_outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.qualified_field_from_column(&column)?.1);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => Err(external(
            SqlError::unsupported("a subquery in a row that is compared with another"),
        )),
        other => Ok(Transformed::no(other)),
    })
    .data()
}
