//! PostgreSQL's meaning of a plan, where DataFusion's is another.
//!
//! Between planner and optimizer a plan passes through, in this order:
//! 0. `crate::levels` and `crate::recursion` refuse plans without a meaning; `crate::row_sets`
//!    compares rows with rows of subqueries field by field, `halcyon_unnest::set_operations` counts copies.
//! 1. `literals`: integer constants are INTEGER if they fit, then BIGINT, then NUMERIC.
//! 2. [`halcyon_unnest::inputs_first`]: in passes 3 and 4 columns of outer queries have the types that the passes gave them.
//! 3. `operators`: constants in quotes take the type of the operand beside them; division of
//!    decimals, arithmetic of dates, concatenation; types of parameters.
//! 4. DataFusion's type coercion; then `halcyon_collated` puts keys where texts are ordered by other collations than C.
//! 5. `casts`: conversions that Arrow does differently become functions of ours; `crate::session_zone` puts the
//!    session's time zone in where moments are taken apart or moved.
//! 6. [`with_checked_arithmetic`]: `+ - * /` and unary minus become functions that refuse overflow
//!    and division by zero, so that the optimizer never folds a constant the wrong way.
//! 7. `crate::unnest`: subqueries become joins where DataFusion's optimizer would not.
//!
//! After the optimizer, [`with_plain_arithmetic`] restores the operators: row-at-a-time executors
//! read plain expressions and check results themselves; the analytical executor puts the checks in
//! again.
//!
//! Deviations, on purpose: EXTRACT of whole fields gives an integer, not a numeric; NUMERIC
//! without precision keeps 38 digits; a recursive query has the types of its first part.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::functions::string::expr_fn::rtrim;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_nested::expr_fn::array_to_string;
use datafusion::logical_expr::expr::{
    Alias, Between, Case, Cast, InList, InSubquery, Like, Placeholder, ScalarFunction,
    WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, InvariantLevel, Join, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, RecursiveQuery, ScalarUDF, Subquery, Union,
    WindowFunctionDefinition,
};
use datafusion::logical_expr::{lit, when};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast;

use crate::arithmetic::{self, NumericDivision};
use crate::engine::DataFusion;
use crate::env::Env;
use crate::execution;
use crate::functions;
use crate::growing;
use crate::guards;
use crate::interrupts::go_on;
use crate::join_keys::with_null_safe_keys;
use crate::levels::aggregates_are_own;
use crate::recursion::{marked, recursion_is_well_formed};
use crate::row_sets::with_fields_compared;
use crate::session_zone;
use crate::sizes;
use crate::{concatenation, documents, intervals};
use halcyon_aggregates::singles::with_single_sums;
use halcyon_collated::{self as collated, Collations, Find};
use halcyon_collations::Collation;
use halcyon_functions as by_value;
use halcyon_functions::casts::PgCast;
use halcyon_functions::{
    compared_constants, corrected, fields, like, long_lists, memberships, nested, table_functions,
    volatile_order, zoned,
};
use halcyon_sql::coerce;
use halcyon_sql::coerce::nested::is_nested;
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::{is_day_or_moment, is_label, is_moment, is_zoned_moment};
use halcyon_sql::error::{SqlError, SqlState};
pub(crate) use halcyon_sql::meeting_types::is_text;
use halcyon_sql::meeting_types::{Beside, common_type, comparable, series_types, wider};
use halcyon_sql::misfits;
use halcyon_sql::type_names::{UNCONSTRAINED, cast_type};
use halcyon_sql::types::{Element, OID_ALIAS_KEY, PG_TYPE_KEY, SqlType, TYPE_KEY};
use halcyon_sql::values::{shown_type, sql_type_of, sql_type_of_arrow, to_scalar};
use halcyon_unnest::constant_rows::{self, are_constants};
use halcyon_unnest::inputs_first::{inputs_first, names_of};
use halcyon_unnest::late_effects::with_volatile_columns_late;
use halcyon_unnest::row_values::with_rows_selected;
use halcyon_unnest::set_operations::{with_copies_counted, with_flat_unions};
use halcyon_unnest::sorts::with_subqueries_below_sorts;
use halcyon_unnest::unnest;
use halcyon_value::calendar::Field as DateField;
use halcyon_value::decimal::{DIGITS_MAX, is_free};
use halcyon_value::pattern::moment;

/// Gives DataFusion's planner Halcyon's types.
#[derive(Debug)]
pub struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, ty: &ast::DataType) -> Result<Option<FieldRef>> {
        if let ast::DataType::Array(items) = ty {
            // Drivers know arrays of object ids, and ask for the others.
            let is_oids = matches!(items, ast::ArrayElemTypeDef::SquareBracket(item, None)
                if item.to_string().eq_ignore_ascii_case("oid"));
            return Ok(is_oids.then(|| Arc::new(SqlType::Array(Element::OID).field("", true))));
        }
        let ty = cast_type(ty).map_err(external)?;
        Ok(Some(Arc::new(ty.field("", true))))
    }
}

/// Passes 0 to 4, including the types of the parameters: types and operators have PostgreSQL's
/// meaning, and subqueries are still expressions. Views are compiled from this form.
pub fn meaning(
    plan: LogicalPlan,
    given: &[Option<SqlType>],
    df: &DataFusion,
) -> Result<(LogicalPlan, Vec<SqlType>)> {
    aggregates_are_own(&plan)?;
    recursion_is_well_formed(&plan)?;
    let plan = with_copies_counted(with_fields_compared(plan)?)?;
    let plan = with_subqueries_below_sorts(with_rows_selected(plan)?)?;
    let plan = with_volatile_columns_late(plan)?;
    let plan = literals(plan)?;
    let mut types = Parameters::new(given);
    types.find_arrays(&plan)?;
    let plan = operators(plan, &mut types)?;
    let plan = types.settle(plan)?;
    // The analyzer's own check comes last, when the subqueries that it would refuse are gone.
    let analyzed = Analyzer::new().rules.iter().try_fold(plan, |plan, rule| match rule.name() {
        "type_coercion" => coerced(plan),
        _ => rule.analyze(plan, df.options()),
    });
    Ok((analyzed?, types.into_types()))
}

/// Errors: 0A000 for a cast to texts of a length that its value may not have, which the executors of
/// views would not cut.
pub fn cuts_no_text(plan: &LogicalPlan) -> Result<()> {
    let cuts = |cast: &Cast| {
        let most = match sql_type_of(&cast.field) {
            Some(SqlType::Char(Some(length)) | SqlType::Varchar(Some(length))) => length as usize,
            _ => return false,
        };
        quoted(&cast.expr).is_none_or(|text| text.chars().count() > most)
    };
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| match expr {
                // Texts become arrays in a pass that views do not have: Arrow would make each an array of itself.
                Expr::Cast(cast) if is_nested(cast.field.data_type()) => {
                    Err(external(SqlError::unsupported("CAST to an array in a materialized view")))
                }
                Expr::Cast(cast) if cuts(cast) => Err(external(SqlError::unsupported(
                    "CAST to a type of texts with a length in a materialized view",
                ))),
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })
    .map(|_| ())
}

/// Passes 0 to 7, including the types of the parameters and the collations of the columns.
pub fn analyze(
    plan: LogicalPlan,
    given: &[Option<SqlType>],
    df: &DataFusion,
    zone: &str,
    find: Find<'_>,
) -> Result<(LogicalPlan, Vec<SqlType>, Collations)> {
    let (plan, types) = meaning(plan, given, df)?;
    let collated::Settled { plan, columns, .. } = collated::settle(plan, find)?;
    let plan = growing::folding(|| rewrite_expressions(casts(plan, zone)?, finished))?;
    let plan = long_lists::with_arrays(unnest(plan)?)?;
    sizes::check_plan(&plan)?;
    plan.check_invariants(InvariantLevel::Executable)?;
    Ok((plan, types, columns))
}

/// Runs DataFusion's optimizer, then makes arithmetic plain again.
pub fn optimize(plan: LogicalPlan, df: &DataFusion) -> Result<LogicalPlan> {
    // The state serves as configuration because it knows functions; it has no clock, so nothing of
    // the execution is folded.
    let plan = volatile_order::keys_computed_once(with_flat_unions(plan)?)?;
    let plan = guards::guarded(&plan)?.unwrap_or(plan);
    let optimizer = df.state().optimizer();
    let plan = constant_rows::hidden(plan)?;
    let plan = growing::folding(|| optimizer.optimize(plan, df.state(), |_, _| {}))?;
    let plan = constant_rows::shown(plan)?;
    with_plain_arithmetic(with_null_safe_keys(plan)?)
}

/// Optimises in the short way, as [`optimize`] does in full, for plain plans; `None` for others.
pub fn optimize_briefly(plan: &LogicalPlan, df: &DataFusion) -> Result<Option<LogicalPlan>> {
    let guarded = guards::guarded(plan)?;
    let plan = guarded.as_ref().unwrap_or(plan);
    let plan = growing::folding(|| df.brief().optimize(plan, df.state()))?;
    plan.map(|plan| with_plain_arithmetic(with_null_safe_keys(plan)?)).transpose()
}

/// The passes for one scalar expression over `schema`.
pub fn analyze_expr(
    expr: Expr,
    schema: &DFSchema,
    params: &[Option<SqlType>],
    df: &DataFusion,
    zone: &str,
    find: Find<'_>,
) -> Result<(Expr, Option<Arc<Collation>>)> {
    let expr = expr.transform_up(|e| Ok(narrow(e))).data()?;
    let mut types = Parameters::new(params);
    let expr = expr.transform_up(|e| operator(e, schema, &mut types)).data()?;
    let expr = expr.transform_up(|e| types.settle_expr(e)).data()?;
    let expr = expr.rewrite(&mut TypeCoercionRewriter::new(schema)).data()?;
    let (expr, collation) = collated::settle_expr(expr, schema, find)?;
    let expr = expr.transform_up(|e| cast(e, schema, zone)).data()?;
    let expr = growing::folding(|| expr.transform_up(|e| finished(e, schema))).data()?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(df.options()))
        .build();
    let expr = expr.transform_up(|expr| Ok(guards::kept_case(expr, schema))).data()?;
    let expr = growing::folding(|| ExprSimplifier::new(context).simplify(expr))?;
    Ok((expr.transform_up(|e| Ok(unguarded(e))).data()?, collation))
}

/// Applies `rewrite`, which keeps types, to every expression of every node, innermost first.
fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    rewrite_nodes(plan, false, rewrite)
}

/// Applies `rewrite` to every expression of every node, innermost first, and recomputes the schemas
/// of nodes that changed; if the rewriting `retypes`, also those of all nodes above, whose inputs
/// have other types then.
fn rewrite_nodes(
    plan: LogicalPlan,
    retypes: bool,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let mut changed = false;
    plan.transform_up_with_subqueries(|node| {
        go_on()?;
        if are_constants(&node) {
            return Ok(Transformed::no(node));
        }
        let schema = input_schema(&node)?;
        let names = names_of(&node);
        let rewritten = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| {
                go_on()?;
                rewrite(expr, &schema)
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?;
        changed = rewritten.transformed || retypes && changed;
        if changed { rewritten.map_data(renew) } else { Ok(rewritten) }
    })
    .data()
}

/// Columns that the expressions of a node may name.
fn input_schema(node: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = node {
        let source =
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&source);
    }
    Ok(schema)
}

/// A node with its schema recomputed, because its inputs or expressions have other types now.
fn renew(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Values(mut values) => {
            // The planner gave NULLs the type that the other cells had before this pass.
            for cell in values.values.iter_mut().flatten() {
                if matches!(cell, Expr::Literal(value, _) if value.is_null()) {
                    *cell = Expr::Literal(ScalarValue::Null, None);
                }
            }
            LogicalPlanBuilder::values(values.values)?.build()
        }
        // DataFusion would keep the schema of a union whose inputs have other types now.
        LogicalPlan::Union(union) => {
            Union::try_new_with_loose_types(union.inputs).map(LogicalPlan::Union)
        }
        node => node.recompute_schema(),
    }
}

/// Pass 1. LIMIT and the arguments of window functions stay BIGINT, because their type cannot be
/// seen, except that of the default of `lead` and `lag`.
fn literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        go_on()?;
        if matches!(node, LogicalPlan::Limit(_)) {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::RecursiveQuery(query) = node {
            return Ok(Transformed::yes(recursion_with_its_types(query)?));
        }
        let names = names_of(&node);
        let rewritten = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let narrowed = expr.transform_up(|expr| {
                Ok(match expr {
                    Expr::WindowFunction(function)
                        if matches!(&function.fun, WindowFunctionDefinition::WindowUDF(own)
                            if !matches!(own.name(), "lead" | "lag")) =>
                    {
                        Transformed::no(widen_arguments(function))
                    }
                    expr => narrow(expr),
                })
            })?;
            Ok(narrowed.update_data(|expr| name.restore(expr)))
        })?;
        // The inputs may have changed even if the node's own expressions have not.
        rewritten.map_data(renew).map(|node| Transformed::yes(node.data))
    })
    .data()
}

/// A plan whose columns say of their types what those of a schema say, also when its constants are folded.
fn with_metadata_of(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let fields = || plan.schema().fields().iter().zip(schema.fields());
    // The columns of a union get their metadata in later passes.
    let unions = plan.exists(|node| Ok(matches!(node, LogicalPlan::Union(_))))?;
    let is_bare = |field: &FieldRef| field.metadata().is_empty() && !field.data_type().is_nested();
    if !unions && fields().all(|(own, wanted)| is_bare(own) && is_bare(wanted)) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().zip(fields());
    let exprs = columns.map(|(column, (own, wanted))| {
        // What runs the plan may have lost metadata that the plan has, of constants and unions, so all are marked.
        let column = marked(Expr::Column(column), wanted);
        let metadata = FieldMetadata::from(wanted.as_ref());
        column.alias_with_metadata(own.name(), Some(metadata))
    });
    let exprs: Vec<Expr> = exprs.collect();
    Projection::try_new(exprs, Arc::new(plan)).map(LogicalPlan::Projection)
}

/// Casts both parts of a recursive query to the types that its work table was planned with.
fn recursion_with_its_types(mut query: RecursiveQuery) -> Result<LogicalPlan> {
    let mut planned = None;
    query.recursive_term.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && scan.table_name.table() == query.name
        {
            planned = Some(scan.source.schema());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if let Some(planned) = planned {
        let schema = DFSchema::try_from(planned.as_ref().clone())?;
        for (at, field) in schema.fields().iter().enumerate() {
            let first = field.data_type();
            let then = &before_planners_cast(&query.recursive_term, at)?;
            let widens = first.is_integer() && (then.is_decimal() || then.is_floating())
                || first.is_decimal() && (then.is_floating() || has_more_places(then, first))
                || *first == DataType::Date32 && is_moment(then);
            if widens {
                let message = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    query.name,
                    at + 1,
                    shown_type(first),
                    shown_type(then),
                );
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(external(error.hint(hint)));
            }
        }
        for term in [&mut query.static_term, &mut query.recursive_term] {
            let plan = with_constants_of(term.as_ref().clone(), &schema)?;
            let plan = coerce_plan_expr_for_schema(plan, &schema)?;
            *term = Arc::new(with_metadata_of(plan, &schema)?);
        }
    }
    LogicalPlan::RecursiveQuery(query).recompute_schema()
}

/// Whether a NUMERIC has digits behind the point that another one, whose digits were said, has not.
fn has_more_places(then: &DataType, first: &DataType) -> bool {
    matches!((then, first), (DataType::Decimal128(_, then), DataType::Decimal128(_, scale))
        if then > scale && *first != UNCONSTRAINED.arrow())
}

/// The type of a column of a recursive query's second part as it was written: DataFusion's planner casts to the
/// types of the first part by itself.
fn before_planners_cast(plan: &LogicalPlan, at: usize) -> Result<DataType> {
    if let LogicalPlan::Projection(projection) = plan {
        let expr = projection.expr[at].clone().unalias();
        let schema = projection.input.schema();
        match &expr {
            Expr::Cast(cast) if !cast.field.metadata().contains_key(TYPE_KEY) => {
                return cast.expr.get_type(schema);
            }
            // A set operation, or DISTINCT, below.
            Expr::Column(column) => {
                if let Some(below) = schema.maybe_index_of_column(column) {
                    return before_planners_cast(&projection.input, below);
                }
            }
            _ => {}
        }
    }
    Ok(type_of(plan, at).clone())
}

/// A SELECT whose constants in quotes are of the types that its columns have in a schema.
fn with_constants_of(mut plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    for (at, field) in schema.fields().iter().enumerate() {
        let constant = match quoted_output(&plan, at) {
            Some(text) if !is_text(field.data_type()) => typed_constant(text, field.data_type())?,
            _ => continue,
        };
        plan = with_output(&plan, at, constant)?;
    }
    Ok(plan)
}

fn widen_arguments(mut function: Box<WindowFunction>) -> Expr {
    for argument in function.params.args.iter_mut() {
        if let Expr::Literal(ScalarValue::Int32(Some(value)), metadata) = argument {
            *argument = Expr::Literal(ScalarValue::Int64(Some(i64::from(*value))), metadata.take());
        }
    }
    Expr::WindowFunction(function)
}

/// An integer constant in the type that PostgreSQL gives it.
pub(crate) fn narrow(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata)
            if i32::try_from(value).is_ok() =>
        {
            Transformed::yes(Expr::Literal(ScalarValue::Int32(Some(value as i32)), metadata))
        }
        Expr::Literal(ScalarValue::UInt64(Some(value)), metadata) => Transformed::yes(
            Expr::Literal(ScalarValue::Decimal128(Some(i128::from(value)), 20, 0), metadata),
        ),
        Expr::Literal(ScalarValue::Decimal128(Some(value), precision, scale), metadata)
            if scale < 0 =>
        {
            let digits = (precision as i8 - scale).clamp(1, 38) as u8;
            let whole = halcyon_value::decimal::to_whole(value, scale).unwrap_or(i128::MAX);
            Transformed::yes(Expr::Literal(
                ScalarValue::Decimal128(Some(whole), digits, 0),
                metadata,
            ))
        }
        Expr::Literal(ScalarValue::Utf8(text), metadata) => {
            Transformed::yes(Expr::Literal(ScalarValue::Utf8View(text), metadata))
        }
        Expr::BinaryExpr(mut binary) => {
            let sides = [binary.left.as_mut(), binary.right.as_mut()];
            if sides.iter().any(|side| is_small_constant(side)) {
                sides.into_iter().for_each(narrow_parameter);
            }
            Transformed::yes(Expr::BinaryExpr(binary))
        }
        Expr::InList(mut list) if list.list.iter().all(is_small_constant) => {
            narrow_parameter(&mut list.expr);
            Transformed::yes(Expr::InList(list))
        }
        other => Transformed::no(other),
    }
}

fn is_small_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int32(Some(_)), _))
}

/// A parameter beside an integer constant, for which the planner gave it the constant's type before that was narrowed.
fn narrow_parameter(expr: &mut Expr) {
    if let Expr::Placeholder(Placeholder { field: Some(field), .. }) = expr
        && *field.data_type() == DataType::Int64
        && field.metadata().is_empty()
    {
        *field = Arc::new(SqlType::Integer.field("", true));
    }
}

/// Pass 3.
fn operators(plan: LogicalPlan, types: &mut Parameters) -> Result<LogicalPlan> {
    let mut work = |node: LogicalPlan| {
        let schema = input_schema(&node)?;
        documents::are_not_compared(&node, &schema)?;
        let names = names_of(&node);
        let is_limit = matches!(node, LogicalPlan::Limit(_));
        let node = match node {
            LogicalPlan::Union(union) => LogicalPlan::Union(set_operation(union, types)?),
            LogicalPlan::Join(join) => LogicalPlan::Join(intersection(join)?),
            // What its first part is cast to may have another number of digits now.
            LogicalPlan::RecursiveQuery(query) => recursion_with_its_types(query)?,
            LogicalPlan::Filter(mut filter) if untyped(&filter.predicate) => {
                filter.predicate = adapt(filter.predicate, &DataType::Boolean, types)?;
                LogicalPlan::Filter(filter)
            }
            other => other,
        };
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| match expr {
                Expr::Placeholder(placeholder) if is_limit => {
                    Ok(Transformed::yes(types.typed(placeholder, &DataType::Int64)))
                }
                expr => match quoted(&expr) {
                    Some(text) if is_limit => {
                        typed_constant(text, &DataType::Int64).map(Transformed::yes)
                    }
                    _ => operator(expr, &schema, types),
                },
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?
        .map_data(|node| with_single_sums(renew(node)?))
        .data()
    };
    inputs_first(plan, &mut work, &renew)
}

/// Pass 4, as DataFusion's rule does it, but for the types of outer columns.
fn coerced(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut work = |node: LogicalPlan| {
        let schema = input_schema(&node)?;
        let node = match node {
            LogicalPlan::Filter(mut filter) => {
                filter.predicate = filter.predicate.cast_to(&DataType::Boolean, &schema)?;
                LogicalPlan::Filter(filter)
            }
            other => other,
        };
        let mut rewriter = TypeCoercionRewriter::new(&schema);
        let names = names_of(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.rewrite(&mut rewriter)?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?;
        rewriter.coerce_plan(node.data)?.recompute_schema()
    };
    inputs_first(plan, &mut work, &LogicalPlan::recompute_schema)
}

/// Checks that the parts of a UNION have matching column types; constants in quotes take the type
/// that the column has in the other parts.
///
/// Errors: 42804; those of the type's input.
fn set_operation(mut union: Union, types: &mut Parameters) -> Result<Union> {
    for at in 0..union.schema.fields().len() {
        let mut known: Option<DataType> = None;
        for input in &union.inputs {
            let ty = input.schema().field(at).data_type();
            if ty.is_null() || quoted_output(input, at).is_some() {
                continue;
            }
            match &known {
                Some(first) if !comparable(first, ty) => {
                    let (first, ty) = (shown_type(first), shown_type(ty));
                    let message = format!("UNION types {first} and {ty} cannot be matched");
                    return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
                }
                Some(_) => {}
                None => known = Some(ty.clone()),
            }
        }
        let Some(known) = known else { continue };
        for input in &mut union.inputs {
            if let LogicalPlan::Projection(projection) = input.as_ref()
                && let parameter = projection.expr[at].clone().unalias()
                && untyped(&parameter)
            {
                let parameter = adapt(parameter, &known, types)?;
                *input = Arc::new(with_output(input, at, parameter)?);
            }
        }
        if is_text(&known) {
            continue;
        }
        let all: Vec<&DataType> = union.inputs.iter().map(|input| type_of(input, at)).collect();
        if let Some((common, is_converted)) = common_type(all.into_iter(), Beside::Together) {
            for input in &mut union.inputs {
                if is_converted(type_of(input, at)) && quoted_output(input, at).is_none() {
                    *input = Arc::new(with_column_of(Arc::clone(input), at, common.clone())?);
                }
            }
        }
        for input in &mut union.inputs {
            if let Some(text) = quoted_output(input, at) {
                let constant = typed_constant(text, &known)?;
                *input = Arc::new(with_output(input, at, constant)?);
            }
        }
    }
    Ok(union)
}

/// Gives both sides of INTERSECT or EXCEPT, which are joins here, the types that their columns have in common.
///
/// Errors: 42804.
fn intersection(mut join: Join) -> Result<Join> {
    let word = match join.join_type {
        JoinType::LeftSemi => "INTERSECT",
        JoinType::LeftAnti => "EXCEPT",
        _ => return Ok(join),
    };
    for pair in 0..join.on.len() {
        let (Expr::Column(left), Expr::Column(right)) = &join.on[pair] else { continue };
        let places = (
            join.left.schema().maybe_index_of_column(left),
            join.right.schema().maybe_index_of_column(right),
        );
        let (Some(left), Some(right)) = places else { continue };
        let sides = [(&join.left, left), (&join.right, right)];
        let texts = sides.map(|(side, at)| quoted_below(side, at).map(str::to_owned));
        let types = [0, 1].map(|side| match texts[side] {
            Some(_) => DataType::Null,
            None => type_of(sides[side].0, sides[side].1).clone(),
        });
        let [of_left, of_right] = &types;
        if of_left == of_right {
            continue;
        }
        if !comparable(of_left, of_right) {
            let (left, right) = (shown_type(of_left), shown_type(of_right));
            let message = format!("{word} types {left} and {right} cannot be matched");
            return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
        }
        let common = match common_type(types.iter(), Beside::Together) {
            Some((common, _)) => Some(common),
            None if of_left.is_null() => Some(of_right.clone()),
            None if of_right.is_null() => Some(of_left.clone()),
            None => type_union_resolution(&types),
        };
        let Some(common) = common.map(|common| with_places_of(common, &texts)) else { continue };
        // What is given has no more digits than it had.
        if texts[1].is_some() && common.is_decimal() {
            join.right = Arc::new(with_typed_column(&join.right, right, &common)?);
            let column = |side: &LogicalPlan, at| Column::from(side.schema().qualified_field(at));
            let key = to(Expr::Column(column(&join.left, left)), common);
            join.on[pair] = (key, Expr::Column(column(&join.right, right)));
            continue;
        }
        if type_of(&join.left, left) != &common {
            let differ = is_distinct(&join.left);
            join.left = Arc::new(with_typed_column(&join.left, left, &common)?);
            // Values that differ in their own type may be one in the common type.
            if differ {
                join.left = Arc::new(LogicalPlan::Distinct(Distinct::All(join.left)));
            }
        }
        if type_of(&join.right, right) != &common {
            join.right = Arc::new(with_typed_column(&join.right, right, &common)?);
        }
        let column =
            |side: &LogicalPlan, at| Expr::Column(Column::from(side.schema().qualified_field(at)));
        join.on[pair] = (column(&join.left, left), column(&join.right, right));
    }
    Ok(join)
}

/// Whether no two rows of a side of a set operation are the same.
fn is_distinct(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Distinct(Distinct::All(_)) => true,
        LogicalPlan::SubqueryAlias(side) => is_distinct(&side.input),
        LogicalPlan::Projection(projection) => is_distinct(&projection.input),
        _ => false,
    }
}

/// A type of decimals with as many digits behind the point as the longest of some numbers in quotes; other types as
/// they are.
fn with_places_of(ty: DataType, texts: &[Option<String>]) -> DataType {
    match ty {
        DataType::Decimal128(precision, scale) => {
            let places = texts.iter().flatten().map(|text| places(text).min(37)).max().unwrap_or(0);
            let more = (places - scale).max(0);
            DataType::Decimal128(precision.saturating_add(more as u8).min(38), scale + more)
        }
        other => other,
    }
}

/// The constant in quotes that a column of a SELECT is, also below DISTINCT and a count of copies.
fn quoted_below(plan: &LogicalPlan, at: usize) -> Option<&str> {
    match plan {
        LogicalPlan::Projection(projection) => match &projection.expr[at] {
            Expr::Column(column) => {
                let at = projection.input.schema().maybe_index_of_column(column)?;
                quoted_below(&projection.input, at)
            }
            expr => quoted(expr),
        },
        LogicalPlan::Distinct(Distinct::All(input)) => quoted_below(input, at),
        // The planner's own names for the sides of a set operation.
        LogicalPlan::SubqueryAlias(side) if matches!(side.alias.table(), "left" | "right") => {
            quoted_below(&side.input, at)
        }
        LogicalPlan::Window(window) if at < window.input.schema().fields().len() => {
            quoted_below(&window.input, at)
        }
        _ => None,
    }
}

/// A plan with one of its columns cast to another type, under its name.
fn with_typed_column(plan: &Arc<LogicalPlan>, at: usize, ty: &DataType) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().enumerate().map(|(place, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if place != at {
            return column;
        }
        let cast = match sql_type_of_arrow(ty) {
            Some(sql) if is_text(field.data_type()) => {
                Expr::Cast(Cast { expr: Box::new(column), field: Arc::new(sql.field("", true)) })
            }
            _ => to(column, ty.clone()),
        };
        cast.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    Projection::try_new(columns, Arc::clone(plan)).map(LogicalPlan::Projection)
}

fn type_of(plan: &LogicalPlan, at: usize) -> &DataType {
    plan.schema().field(at).data_type()
}

/// Converts expressions that stand beside each other to the type that they have in common.
fn all_of_one_type<'e>(
    exprs: impl Iterator<Item = &'e mut Expr>,
    schema: &DFSchema,
    how: Beside,
) -> Result<()> {
    let exprs: Vec<&mut Expr> = exprs.collect();
    let types = exprs.iter().map(|expr| expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let Some((common, is_converted)) = common_type(types.iter(), how) else { return Ok(()) };
    for (expr, _) in exprs.into_iter().zip(&types).filter(|(_, ty)| is_converted(ty)) {
        *expr = to(std::mem::take(expr), common.clone());
    }
    Ok(())
}

/// Converts numbers that are the results of a CASE to the type that holds all of them: DataFusion tells the type of the
/// first for that of the whole until the plan is finished, and a UNION above chooses its own before.
fn numbers_of_one_type<'e>(
    exprs: impl Iterator<Item = &'e mut Expr>,
    schema: &DFSchema,
) -> Result<()> {
    let exprs: Vec<&mut Expr> = exprs.collect();
    let types = exprs.iter().map(|expr| expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let known: Vec<DataType> = types.iter().filter(|ty| !ty.is_null()).cloned().collect();
    let differ = known.windows(2).any(|pair| pair[0] != pair[1]);
    if !differ || !known.iter().all(DataType::is_numeric) {
        return Ok(());
    }
    let Some(common) = type_union_resolution(&known) else { return Ok(()) };
    for (expr, ty) in exprs.into_iter().zip(&types) {
        if !ty.is_null() && *ty != common {
            *expr = to(std::mem::take(expr), common.clone());
        }
    }
    Ok(())
}

/// A plan with one of its columns converted.
fn with_column_of(plan: Arc<LogicalPlan>, at: usize, ty: DataType) -> Result<LogicalPlan> {
    let mut exprs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let name = plan.schema().field(at).name().clone();
    exprs[at] = to(std::mem::take(&mut exprs[at]), ty).alias(name);
    Projection::try_new(exprs, plan).map(LogicalPlan::Projection)
}

/// The constant in quotes that a column of a SELECT is, if it is one.
fn quoted_output(plan: &LogicalPlan, at: usize) -> Option<&str> {
    match plan {
        LogicalPlan::Projection(projection) => quoted(&projection.expr[at]),
        _ => None,
    }
}

/// A SELECT with another expression for one of its columns.
fn with_output(plan: &LogicalPlan, at: usize, expr: Expr) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(plan.clone()) };
    let mut exprs = projection.expr.clone();
    exprs[at] = expr.alias(projection.schema.field(at).name());
    Projection::try_new(exprs, Arc::clone(&projection.input)).map(LogicalPlan::Projection)
}

/// The types of the parameters as far as they are known.
pub(crate) struct Parameters {
    known: HashMap<String, FieldRef>,
    count: usize,
}

impl Parameters {
    pub(crate) fn new(given: &[Option<SqlType>]) -> Self {
        let known = given.iter().enumerate().filter_map(|(at, ty)| {
            ty.map(|ty| (format!("${}", at + 1), Arc::new(ty.field("", true))))
        });
        Parameters { known: known.collect(), count: given.len() }
    }

    /// Notes the parameters that stand for arrays: `x = ANY ($1)`, `$1::integer[]`.
    pub(crate) fn find_arrays(&mut self, plan: &LogicalPlan) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        plan.apply_with_subqueries(|node| {
            let schema = input_schema(node)?;
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    self.note_array(expr, &schema);
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })
        .map(|_| ())
    }

    fn note_array(&mut self, expr: &Expr, schema: &DFSchema) {
        let (id, field) = match expr {
            // Beside another array, when names were bound.
            Expr::Placeholder(Placeholder { id, field: Some(field) }) => (id, Arc::clone(field)),
            Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
                Expr::Placeholder(placeholder) => (&placeholder.id, Arc::clone(field)),
                _ => return,
            },
            Expr::ScalarFunction(call) if corrected::takes_element(call.name()) => {
                let (list, element) = match (call.name(), call.args.as_slice()) {
                    ("array_prepend", [element, list]) | (_, [list, element, ..]) => {
                        (list, element)
                    }
                    _ => return,
                };
                let Expr::Placeholder(placeholder) = list else { return };
                let element = match element {
                    element if untyped(element) || quoted(element).is_some() => {
                        Ok(DataType::Utf8View)
                    }
                    element => element.get_type(schema),
                };
                let Some(element) = element.ok().filter(|ty| !ty.is_null()) else { return };
                let list = DataType::List(Arc::new(Field::new_list_field(element, true)));
                (&placeholder.id, Arc::new(Field::new("", list, true)))
            }
            _ => return,
        };
        let DataType::List(item) = field.data_type() else { return };
        if sql_type_of(item).is_some() {
            self.known.entry(id.clone()).or_insert(field);
        }
    }

    /// The parameter with its known type, or with type `ty` if none is known yet.
    pub(crate) fn typed(&mut self, placeholder: Placeholder, ty: &DataType) -> Expr {
        let ty = sql_type_of_arrow(ty).unwrap_or(SqlType::Text);
        self.typed_as(placeholder, &Arc::new(ty.field("", true)))
    }

    /// Gives a parameter a type as [`Parameters::typed`] does: the type of a field.
    fn typed_as(&mut self, placeholder: Placeholder, otherwise: &FieldRef) -> Expr {
        let Placeholder { id, field } = placeholder;
        let known = self.known.get(&id).cloned();
        let own = known.or_else(|| field.filter(|field| !field.data_type().is_null()));
        let field = own.unwrap_or_else(|| Arc::clone(otherwise));
        self.known.entry(id.clone()).or_insert_with(|| Arc::clone(&field));
        // No kernel keeps the names of items' types.
        let field = match field.data_type() {
            ty @ DataType::List(_) => {
                let plain = field.as_ref().clone().with_data_type(nested::without_names(ty));
                Arc::new(plain)
            }
            _ => field,
        };
        Expr::Placeholder(Placeholder { id, field: Some(field) })
    }

    /// Gives every parameter of the plan its type; text if none was found.
    fn settle(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if self.count == 0 {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(|node| {
            go_on()?;
            let names = names_of(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let new = expr.transform_up(|expr| {
                    go_on()?;
                    self.settle_expr(expr)
                })?;
                Ok(new.update_data(|expr| name.restore(expr)))
            })?
            .map_data(renew)
            .map(|node| Transformed::yes(node.data))
        })
        .data()
    }

    fn settle_expr(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::Placeholder(placeholder) => {
                Transformed::yes(self.typed(placeholder, &DataType::Utf8View))
            }
            other => Transformed::no(other),
        })
    }

    pub(crate) fn into_types(self) -> Vec<SqlType> {
        (1..=self.count)
            .map(|number| {
                let field = self.known.get(&format!("${number}"));
                field.and_then(|field| sql_type_of(field)).unwrap_or(SqlType::Text)
            })
            .collect()
    }
}

/// The text of a constant in quotes, whose type depends on the operand beside it.
pub(crate) fn quoted(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text)), _) => {
            Some(text)
        }
        Expr::Alias(Alias { expr, .. }) => quoted(expr),
        _ => None,
    }
}

pub(crate) fn untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field, .. })
        if field.as_ref().is_none_or(|field| field.data_type().is_null()))
}

/// Converts a quoted constant or an untyped parameter to the type of the operand beside it.
fn adapt(expr: Expr, ty: &DataType, types: &mut Parameters) -> Result<Expr> {
    if let Expr::Placeholder(placeholder) = expr {
        return Ok(types.typed(placeholder, ty));
    }
    match quoted(&expr) {
        Some(text) if !is_text(ty) && !ty.is_null() => typed_constant(text, ty),
        _ => Ok(expr),
    }
}

/// A constant of type `ty` from its text in quotes. Errors: those of the type's input.
pub(crate) fn typed_constant(text: &str, ty: &DataType) -> Result<Expr> {
    if let Some(present) = present(text, ty) {
        return Ok(present);
    }
    match sql_type_of_arrow(ty) {
        // A constant of the column's own type leaves the column without a cast, so that indexes can
        // be used.
        Some(ty @ SqlType::Decimal { scale, .. }) if places(text) <= scale => {
            constant(text, ty, &TimeZone::UTC).or_else(|_| number(text))
        }
        Some(SqlType::Decimal { .. }) => number(text),
        Some(SqlType::TimestampTz) => moment_constant(text),
        Some(ty) => constant(text, ty, &TimeZone::UTC),
        None => Ok(Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None)),
    }
}

/// A constant of type `ty` from its text in quotes, where a moment without a zone is one of this zone. Errors: those of the
/// type's input.
pub(crate) fn constant_in_zone(text: &str, ty: &DataType, zone: &TimeZone) -> Result<Expr> {
    match sql_type_of_arrow(ty) {
        Some(SqlType::TimestampTz) if word_for_the_present(text).is_none() => {
            constant(text, SqlType::TimestampTz, zone)
        }
        _ => typed_constant(text, ty),
    }
}

/// The word for the present that a text is, in lower case. Source: PostgreSQL, "Special Values".
pub fn word_for_the_present(text: &str) -> Option<&'static str> {
    let words = ["now", "today", "tomorrow", "yesterday"];
    words.into_iter().find(|word| word.eq_ignore_ascii_case(text.trim()))
}

/// A day or moment that is called by a word for the present: a function of the session.
fn present(text: &str, ty: &DataType) -> Option<Expr> {
    let word = word_for_the_present(text)?;
    if !is_day_or_moment(ty) {
        return None;
    }
    let name = if word == "now" { "now" } else { "current_date" };
    let function = execution::functions().into_iter().find(|own| own.name() == name)?;
    let begin = function.call(Vec::new());
    let day = |by: i32| {
        let days = whole(to(begin.clone(), DataType::Int32), Operator::Plus, lit(by));
        to(days, DataType::Date32)
    };
    Some(match word {
        "tomorrow" => to(day(1), ty.clone()),
        "yesterday" => to(day(-1), ty.clone()),
        _ if begin.get_type(&DFSchema::empty()).ok().as_ref() == Some(ty) => begin,
        _ => to(begin, ty.clone()),
    })
}

/// A TIMESTAMPTZ constant. If the text names no zone, it is a cast, which uses the session's zone.
fn moment_constant(text: &str) -> Result<Expr> {
    let read = |zone| constant(text, SqlType::TimestampTz, &zone);
    let (here, elsewhere) = (read(TimeZone::UTC)?, read(TimeZone::Fixed(3600))?);
    if here == elsewhere {
        return Ok(here);
    }
    let text = Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None);
    let field = Arc::new(SqlType::TimestampTz.field("", true));
    Ok(Expr::Cast(Cast { expr: Box::new(text), field }))
}

/// Digits after the point, at most 100.
fn places(text: &str) -> i8 {
    let (digits, exponent) = text.trim().split_once(['e', 'E']).unwrap_or((text, "0"));
    let written = digits.split_once('.').map_or(0, |(_, places)| {
        places.bytes().take_while(u8::is_ascii_digit).count().min(100) as i64
    });
    (written - exponent.parse::<i64>().unwrap_or(0).clamp(-100, 100)).clamp(0, 100) as i8
}

/// A constant of type `ty` from its text.
fn constant(text: &str, ty: SqlType, zone: &TimeZone) -> Result<Expr> {
    let value = coerce::parse_owned(text, ty, zone).map_err(external)?;
    Ok(Expr::Literal(to_scalar(value.as_ref(), ty), None))
}

/// A NUMERIC constant with as many digits as its text.
pub(crate) fn number(text: &str) -> Result<Expr> {
    let scale = places(text).min(37);
    constant(text, SqlType::Decimal { precision: 38, scale }, &TimeZone::UTC)
}

/// Gives constants in quotes and parameters beside BYTEA in `string_agg` that type.
///
/// Errors: 42883 for an aggregate that DataFusion has for more types than PostgreSQL.
fn has_aggregate(
    name: &str,
    args: &mut [Expr],
    schema: &DFSchema,
    known: &mut Parameters,
) -> Result<()> {
    let is_missing: fn(&DataType) -> bool = match name {
        "min" | "max" => |ty| *ty == DataType::Boolean,
        "string_agg" => |ty| !ty.is_string() && !ty.is_binary() && !ty.is_null(),
        _ => return Ok(()),
    };
    let is_open = |arg: &Expr| quoted(arg).is_some() || untyped(arg);
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let mixes = name == "string_agg"
        && meeting_type(args.iter(), schema).is_binary()
        && args.iter().zip(&types).any(|(arg, ty)| !is_open(arg) && is_text(ty));
    if !mixes && !args.iter().zip(&types).any(|(arg, ty)| !is_open(arg) && is_missing(ty)) {
        if name == "string_agg" && types.iter().any(DataType::is_binary) {
            for arg in args {
                *arg = adapt(std::mem::take(arg), &DataType::BinaryView, known)?;
            }
        }
        return Ok(());
    }
    let types: Vec<String> = types.iter().map(shown_type).collect();
    Err(external(misfits::no_function(name, &types)))
}

/// 42804: an operand of AND, OR or CASE that is no condition.
pub(crate) fn not_boolean(word: &str, ty: &DataType) -> SqlError {
    let ty = shown_type(ty);
    let message = format!("argument of {word} must be type boolean, not type {ty}");
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

/// 42883: no operator of this name takes these types.
pub(crate) fn no_operator(left: &DataType, op: &str, right: &DataType) -> SqlError {
    let (left, right) = (shown_type(left), shown_type(right));
    misfits::no_operator(&left, op, &right)
}

/// Gives one expression PostgreSQL's meaning; its operands have theirs already.
pub(crate) fn operator(
    expr: Expr,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<Transformed<Expr>> {
    go_on()?;
    Ok(Transformed::yes(match expr {
        Expr::BinaryExpr(binary) => binary_operator(binary, schema, types)?,
        Expr::InList(InList { expr, list, negated }) => {
            let all = std::iter::once(*expr).chain(list);
            let all: Vec<Expr> = all.map(|expr| reopened(expr, types)).collect();
            let ty = meeting_type(all.iter(), schema);
            let all = all.into_iter().map(|expr| adapt(expr, &ty, types));
            let mut all = all.collect::<Result<Vec<_>>>()?;
            without_padding(&mut all, schema)?;
            documents::all_compared(&mut all, "=", schema)?;
            in_list(all.remove(0), all, negated, schema, types)?
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let all = [*expr, *low, *high].map(|expr| reopened(expr, types));
            // Each is compared with the first alone.
            let known = all.iter().map(|expr| meeting_type(std::iter::once(expr), schema));
            let ty = known.into_iter().find(|ty| !is_text(ty)).unwrap_or(DataType::Utf8View);
            let [expr, low, high] = all.map(|expr| adapt(expr, &ty, types));
            let mut all = [expr?, low?, high?];
            without_padding(&mut all, schema)?;
            all_of_one_type(all.iter_mut(), schema, Beside::Compared)?;
            documents::all_compared(&mut all, ">=", schema)?;
            let [expr, low, high] = all.map(Box::new);
            Expr::Between(Between { expr, negated, low, high })
        }
        Expr::Like(like) => pattern_match(like, schema, types)?,
        Expr::Case(case) => branches(case, schema, types)?,
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            rows_are_comparable(&expr, "=", &subquery, schema)?;
            Expr::InSubquery(InSubquery { expr, subquery, negated })
        }
        Expr::SetComparison(comparison) => {
            let op = comparison.op.to_string();
            rows_are_comparable(&comparison.expr, &op, &comparison.subquery, schema)?;
            Expr::SetComparison(comparison)
        }
        Expr::WindowFunction(mut function) => {
            has_aggregate(function.fun.name(), &mut function.params.args, schema, types)?;
            let name = function.fun.name().to_owned();
            let first = function.params.args.first().map(|arg| arg.get_type(schema)).transpose()?;
            for (at, arg) in function.params.args.iter_mut().enumerate() {
                let ty = match (name.as_str(), at) {
                    ("lead" | "lag" | "nth_value", 1) | ("ntile", 0) => DataType::Int32,
                    ("lead" | "lag", 2) if untyped(arg) => {
                        first.clone().expect("the first of three")
                    }
                    _ => continue,
                };
                if untyped(arg) {
                    *arg = adapt(std::mem::take(arg), &ty, types)?;
                }
            }
            intervals::keyed_window(&mut function, schema)?;
            Expr::WindowFunction(function)
        }
        Expr::ScalarFunction(function) => call(function, schema, types)?,
        Expr::Cast(Cast { expr, field }) => match *expr {
            Expr::Placeholder(placeholder) => {
                let is_list = matches!(field.data_type(), DataType::List(_));
                // One that stood beside a moment when names were bound has its type from there.
                let has_own = |own: &FieldRef| own.metadata().contains_key(TYPE_KEY);
                let own = types.known.contains_key(&placeholder.id)
                    || placeholder.field.as_ref().is_some_and(has_own);
                let typed = types.typed_as(placeholder, &field);
                // A list of a parameter does not name its items' type as the cast does.
                if own || is_list { written_cast(typed, field, schema)? } else { typed }
            }
            expr => written_cast(expr, field, schema)?,
        },
        Expr::Negative(expr) => negative(*expr, schema, types)?,
        Expr::AggregateFunction(mut call) => {
            documents::are_gathered(call.func.name(), &call.params.args, schema)?;
            has_aggregate(call.func.name(), &mut call.params.args, schema, types)?;
            if is_of_a_set(call.func.name()) {
                call.params.order_by.clear();
            }
            // DataFusion counts pairs by an integer without sign.
            if call.func.name() == "regr_count"
                && let [y, x] = call.params.args.as_slice()
            {
                let pair = when(y.clone().is_not_null(), x.clone()).end()?;
                (call.func, call.params.args) = (count_udaf(), vec![pair]);
            }
            Expr::AggregateFunction(call)
        }
        Expr::IsTrue(expr) => Expr::IsTrue(truth(*expr, types)?),
        Expr::IsFalse(expr) => Expr::IsFalse(truth(*expr, types)?),
        Expr::IsUnknown(expr) => Expr::IsUnknown(truth(*expr, types)?),
        Expr::IsNotTrue(expr) => Expr::IsNotTrue(truth(*expr, types)?),
        Expr::IsNotFalse(expr) => Expr::IsNotFalse(truth(*expr, types)?),
        Expr::IsNotUnknown(expr) => Expr::IsNotUnknown(truth(*expr, types)?),
        Expr::Not(expr) => Expr::Not(truth(*expr, types)?),
        Expr::IsNull(expr) if untyped(&expr) => {
            Expr::IsNull(Box::new(adapt(*expr, &DataType::Utf8View, types)?))
        }
        Expr::IsNotNull(expr) if untyped(&expr) => {
            Expr::IsNotNull(Box::new(adapt(*expr, &DataType::Utf8View, types)?))
        }
        other => return Ok(Transformed::no(other)),
    }))
}

/// Errors: 42883 for a value of another kind than the only column of a subquery that it is compared with.
fn rows_are_comparable(
    expr: &Expr,
    op: &str,
    subquery: &Subquery,
    schema: &DFSchema,
) -> Result<()> {
    let (left, right) = (expr.get_type(schema)?, type_of(&subquery.subquery, 0));
    let is_open =
        quoted(expr).is_some() || untyped(expr) || quoted_below(&subquery.subquery, 0).is_some();
    match is_open || comparable(&left, right) {
        true => Ok(()),
        false => Err(external(no_operator(&left, op, right))),
    }
}

/// An operand that is a condition.
fn truth(expr: Expr, types: &mut Parameters) -> Result<Box<Expr>> {
    adapt(expr, &DataType::Boolean, types).map(Box::new)
}

/// A cast that stands in the statement. NUMERIC without precision takes any decimal unchanged,
/// integers without places, and a constant with its digits: these have their types before others
/// are brought to a common one.
///
/// Errors: 42846 between types that SQL does not convert; 22P02 for a constant that is no number.
fn written_cast(expr: Expr, field: FieldRef, schema: &DFSchema) -> Result<Expr> {
    if let Some(to) = sql_type_of(&field)
        && quoted(&expr).is_none()
        && !untyped(&expr)
    {
        let ty = expr.get_type(schema)?;
        if is_nested(&ty) {
            let own = expr.metadata(schema)?.inner().get(PG_TYPE_KEY).cloned();
            let is_vector = own.is_some_and(|own| own.ends_with("vector"));
            // What was cast to an array keeps the metadata, and is no vector any more.
            if is_text(&to.arrow()) && is_vector && !matches!(expr, Expr::Cast(_)) {
                // `int2vector` and `oidvector` have no braces.
                let items = array_to_string(expr, lit(" "));
                return Ok(Expr::Cast(Cast { expr: Box::new(items), field }));
            }
            return nested_cast(expr, &ty, field, to);
        }
    }
    let to = sql_type_of(&field).filter(|_| field.metadata().contains_key(TYPE_KEY));
    let cast = |expr| Expr::Cast(Cast { expr: Box::new(expr), field: Arc::clone(&field) });
    let Some(to) = to else { return Ok(cast(expr)) };
    if let Some(text) = quoted(&expr) {
        return if to == UNCONSTRAINED { number(text) } else { Ok(cast(expr)) };
    }
    let from_field = expr.to_field(schema)?.1;
    let ty = from_field.data_type();
    let Some(from) = sql_type_of(&from_field).filter(|_| !ty.is_null()) else {
        return Ok(cast(expr));
    };
    if to == UNCONSTRAINED {
        if let SqlType::Decimal { .. } = from {
            return Ok(expr);
        }
        if let Some(digits) = arithmetic::digits_of(ty) {
            return Ok(self::to(expr, DataType::Decimal128(digits, 0)));
        }
    }
    match coerce::castable(from, to) {
        true => Ok(cast(expr)),
        false => Err(external(no_cast(&from.to_string(), &to.to_string()))),
    }
}

/// A cast of an array or a row as it was written: of arrays to arrays alone, of as many dimensions, and to texts.
/// Errors: 42846, 0A000.
fn nested_cast(expr: Expr, ty: &DataType, field: FieldRef, to: SqlType) -> Result<Expr> {
    let cast = |expr, field| Ok(Expr::Cast(Cast { expr: Box::new(expr), field }));
    let (levels, item) = nested::levels_of(ty);
    match (to.element(), sql_type_of(&item)) {
        _ if is_text(&to.arrow()) => cast(expr, field),
        // SQL's types of arrays say nothing of dimensions.
        (Some(element), own)
            if levels > 0
                && (item.data_type().is_null()
                    || own.is_some_and(|own| coerce::castable(own, element))) =>
        {
            match levels {
                1 => cast(expr, field),
                _ => cast(expr, Arc::new(Field::new("", nested::of_levels(levels, element), true))),
            }
        }
        (Some(element), None) if levels > 0 && is_text(&element.arrow()) => {
            Err(external(SqlError::unsupported("CAST of an array of rows to an array")))
        }
        _ => Err(external(no_cast(&shown_type(ty), &to.to_string()))),
    }
}

/// 42846: SQL does not convert between these types.
fn no_cast(from: &str, to: &str) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {from} to {to}"))
}

/// `- x`, which numbers and intervals alone have.
fn negative(expr: Expr, schema: &DFSchema, types: &mut Parameters) -> Result<Expr> {
    let expr = adapt(expr, &DataType::Float64, types)?;
    let ty = expr.get_type(schema)?;
    match ty.is_numeric() || ty.is_null() || matches!(ty, DataType::Interval(_)) {
        true => Ok(Expr::Negative(Box::new(expr))),
        false => Err(external(misfits::no_prefix_operator("-", &shown_type(&ty)))),
    }
}

/// Whether an aggregate has the same result in every order of its input.
fn is_of_a_set(aggregate: &str) -> bool {
    matches!(
        aggregate,
        "min" | "max" | "count" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor"
    )
}

/// LIKE and ILIKE, which texts alone have.
fn pattern_match(like: Like, schema: &DFSchema, types: &mut Parameters) -> Result<Expr> {
    let are_bytes = |ty: DataType| matches!(ty, DataType::Binary | DataType::BinaryView);
    let of_bytes = |side: &Expr| side.get_type(schema).is_ok_and(are_bytes);
    let is_binary = !like.case_insensitive && (of_bytes(&like.expr) || of_bytes(&like.pattern));
    let ty = if is_binary { DataType::BinaryView } else { DataType::Utf8View };
    let mut side = |expr: Box<Expr>| adapt(*expr, &ty, types).map(Box::new);
    let (expr, pattern) = (side(like.expr)?, side(like.pattern)?);
    let fits = |side: &Expr| of_bytes(side) || side.get_type(schema).is_ok_and(|ty| ty.is_null());
    if is_binary && fits(&expr) && fits(&pattern) {
        let matches = by_value::of_name("bytealike").expect("a function");
        let found = matches.call([*expr, *pattern].map(|side| to(side, ty.clone())).to_vec());
        return Ok(if like.negated { !found } else { found });
    }
    let (of, by) = (expr.get_type(schema)?, pattern.get_type(schema)?);
    if [&of, &by].into_iter().any(|ty| !is_text(ty) && !ty.is_null()) {
        let op = match (like.negated, like.case_insensitive) {
            (false, false) => "~~",
            (true, false) => "!~~",
            (false, true) => "~~*",
            (true, true) => "!~~*",
        };
        return Err(external(no_operator(&of, op, &by)));
    }
    Ok(Expr::Like(Like { expr, pattern, ..like }))
}

/// The type that quoted constants and parameters among `exprs` take: the one that the other expressions have in
/// common, if they are numbers or moments; else that of the first.
fn meeting_type<'a>(exprs: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> DataType {
    exprs
        .filter(|expr| quoted(expr).is_none() && !untyped(expr))
        .filter_map(|expr| expr.get_type(schema).ok())
        .filter(|ty| !ty.is_null())
        .reduce(wider)
        .unwrap_or(DataType::Utf8View)
}

/// A parameter that has no type but the one which DataFusion's planner gave to it for what stands beside it: constants of
/// BIGINT may have become INTEGER, and decimals have fewer digits than it may have.
fn reopened(expr: Expr, types: &Parameters) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: Some(field) })
            if !types.known.contains_key(&id)
                && (*field.data_type() == DataType::Int64 && field.metadata().is_empty()
                    || field.data_type().is_decimal()) =>
        {
            Expr::Placeholder(Placeholder { id, field: None })
        }
        other => other,
    }
}

fn branches(case: Case, schema: &DFSchema, types: &mut Parameters) -> Result<Expr> {
    let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    let ty = meeting_type(results.chain(case.else_expr.as_deref()), schema);
    let operand = case.expr.as_deref().into_iter();
    let tested =
        meeting_type(operand.chain(case.when_then_expr.iter().map(|(w, _)| w.as_ref())), schema);
    let has_operand = case.expr.is_some();
    let operand = case.expr.map(|expr| adapt(*expr, &tested, types)).transpose()?;
    let mut tests: Vec<Expr> = operand.into_iter().collect();
    let mut results = Vec::with_capacity(case.when_then_expr.len());
    for (when, then) in case.when_then_expr {
        tests.push(match has_operand {
            true => adapt(*when, &tested, types)?,
            false => condition_of_case(*when, schema, types)?,
        });
        results.push(Box::new(adapt(*then, &ty, types)?));
    }
    if has_operand {
        documents::all_compared(&mut tests, "=", schema)?;
        all_of_one_type(tests.iter_mut(), schema, Beside::Compared)?;
    }
    let mut else_expr = match case.else_expr {
        Some(expr) => Some(Box::new(adapt(*expr, &ty, types)?)),
        None => None,
    };
    let all = results.iter_mut().chain(&mut else_expr).map(Box::as_mut);
    all_of_one_type(all, schema, Beside::Together)?;
    let all = results.iter_mut().chain(&mut else_expr).map(Box::as_mut);
    numbers_of_one_type(all, schema)?;
    let mut tests = tests.into_iter().map(Box::new);
    let expr = if has_operand { tests.next() } else { None };
    let when_then_expr: Vec<_> = tests.zip(results).collect();
    let results = when_then_expr.iter().map(|(_, then)| then.as_ref());
    match_each_other("CASE", results.chain(else_expr.as_deref()), schema)?;
    Ok(Expr::Case(Case { expr, when_then_expr, else_expr }))
}

/// Errors: 42804 for results of one expression that have no type in common.
fn match_each_other<'a>(
    word: &str,
    results: impl Iterator<Item = &'a Expr>,
    schema: &DFSchema,
) -> Result<()> {
    let mut first: Option<DataType> = None;
    for result in results {
        let ty = result.get_type(schema)?;
        match &first {
            _ if ty.is_null() => {}
            Some(first) if !comparable(first, &ty) => {
                let (first, ty) = (shown_type(first), shown_type(&ty));
                let message = format!("{word} types {first} and {ty} cannot be matched");
                return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
            }
            Some(_) => {}
            None => first = Some(ty),
        }
    }
    Ok(())
}

/// A condition of CASE without an operand. Errors: 42804 for what is no condition.
fn condition_of_case(when: Expr, schema: &DFSchema, types: &mut Parameters) -> Result<Expr> {
    let when = adapt(when, &DataType::Boolean, types)?;
    let ty = when.get_type(schema)?;
    if ty == DataType::Boolean || ty.is_null() {
        return Ok(when);
    }
    Err(external(not_boolean("CASE/WHEN", &ty)))
}

fn call(function: ScalarFunction, schema: &DFSchema, types: &mut Parameters) -> Result<Expr> {
    documents::are_taken(function.name(), &function.args, schema)?;
    let ScalarFunction { func, args } = zoned_call(fields::settled(function, schema)?, schema)?;
    let name = func.name();
    let args = match name {
        // Its results have to have a type in common, as those of CASE have.
        "nvl2" if args.len() == 3 => {
            let [tested, value, other] = <[Expr; 3]>::try_from(args).expect("three");
            let is_there = adapt(tested, &DataType::Utf8View, types)?.is_not_null();
            let when_then_expr = vec![(Box::new(is_there), Box::new(value))];
            let case = Case { expr: None, when_then_expr, else_expr: Some(Box::new(other)) };
            return branches(case, schema, types);
        }
        "nullif" if let Some((common, own)) = kept_by_nullif(&args, schema)? => {
            let args = args.into_iter().map(|arg| to(arg, common.clone())).collect();
            let value = call(ScalarFunction { func, args }, schema, types)?;
            return Ok(if own == common { value } else { to(value, own) });
        }
        "coalesce" | "nullif" | "greatest" | "least" | "nvl" => {
            let ty = meeting_type(args.iter(), schema);
            let adapted = args.into_iter().map(|arg| adapt(arg, &ty, types));
            let mut args = adapted.collect::<Result<Vec<_>>>()?;
            if matches!(name, "greatest" | "least") {
                documents::have_an_order(&args, schema)?;
            }
            let is_nullif = name == "nullif" && args.len() == 2;
            if is_nullif {
                let [left, right] = [args[0].get_type(schema)?, args[1].get_type(schema)?];
                if !comparable(&left, &right) {
                    return Err(external(no_operator(&left, "=", &right)));
                }
            }
            let how = if is_nullif { Beside::Compared } else { Beside::Together };
            all_of_one_type(args.iter_mut(), schema, how)?;
            if name != "nullif" {
                match_each_other(&name.to_uppercase(), args.iter(), schema)?;
            }
            // DataFusion's functions compare months before days.
            if matches!(ty, DataType::Interval(_)) && matches!(name, "greatest" | "least") {
                let name = if name == "least" { "least" } else { "greatest" };
                return Ok(table_functions::call(name, args));
            }
            let first = args.first().map(|arg| arg.get_type(schema)).transpose()?;
            // DataFusion's function would give the value in the type of the comparison.
            // A document would be compared by its bytes.
            if is_nullif && matches!(first, Some(DataType::LargeBinary | DataType::LargeUtf8)) {
                let [value, other] = <[Expr; 2]>::try_from(args).expect("two");
                let (left, right) = documents::compared(value.clone(), "=", other, schema)?;
                return when(
                    whole(left, Operator::Eq, right),
                    Expr::Literal(ScalarValue::Null, None),
                )
                .otherwise(value);
            }
            let keeps_type = matches!(first, Some(DataType::Interval(_) | DataType::Float32))
                || is_nullif
                    && first.is_some_and(|ty| ty.is_decimal())
                    && !are_alike(&args, schema)?;
            if is_nullif && (keeps_type || matches!(ty, DataType::Interval(_))) {
                return nullif(args);
            }
            args
        }
        "make_array" => {
            let ty = meeting_type(args.iter(), schema);
            let adapted = args.into_iter().map(|arg| adapt(arg, &ty, types));
            let mut args = adapted.collect::<Result<Vec<_>>>()?;
            match_each_other("ARRAY", args.iter(), schema)?;
            all_of_one_type(args.iter_mut(), schema, Beside::Together)?;
            numbers_of_one_type(args.iter_mut(), schema)?;
            args
        }
        name if corrected::takes_element(name) => element_arguments(name, args, schema, types)?,
        // `a && b`; DataFusion wants the items' type.
        "array_has_any" | "array_has_all" if args.len() == 2 => {
            for arg in &args {
                if arg.get_type(schema)?.is_null() {
                    return Ok(unknown());
                }
            }
            args
        }
        name if table_functions::is_ours(name) => table_arguments(name, args, schema, types)?,
        name if by_value::is_ours(name) => by_value_arguments(name, args, schema, types)?,
        name if let Some(wanted) = zoned::argument_types(name, args.len()) => {
            let adapted = args.into_iter().zip(wanted).map(|(arg, ty)| adapt(arg, &ty, types));
            adapted.collect::<Result<Vec<_>>>()?
        }
        // Of any number there is the one that takes most.
        "abs" | "ceil" | "floor" | "round" | "trunc" if args.len() == 1 => {
            let [number] = <[Expr; 1]>::try_from(args).expect("one");
            let number = adapt(number, &DataType::Float64, types)?;
            // DataFusion's leaves integers as they are, and gives a REAL for one.
            let becomes_double = match number.get_type(schema)? {
                DataType::Float32 => name != "abs",
                ty => name == "round" && ty.is_integer(),
            };
            vec![if becomes_double { to(number, DataType::Float64) } else { number }]
        }
        // A date is a moment in the session's zone there.
        "timezone" if args.len() == 2 => {
            let [zone, moment] = <[Expr; 2]>::try_from(args).expect("two");
            let moment = adapt(moment, &SqlType::TimestampTz.arrow(), types)?;
            let is_day = moment.get_type(schema)? == DataType::Date32;
            vec![zone, if is_day { to(moment, SqlType::TimestampTz.arrow()) } else { moment }]
        }
        "generate_series" if args.iter().any(untyped) => {
            let given = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
            let wanted = series_types(&given).unwrap_or(given);
            let adapted = args.into_iter().zip(wanted).map(|(arg, ty)| adapt(arg, &ty, types));
            adapted.collect::<Result<Vec<_>>>()?
        }
        name if let Some(wanted) = corrected::parameter_types(name, args.len()) => {
            let adapted = args.into_iter().zip(wanted).map(|(arg, ty)| adapt(arg, &ty, types));
            adapted.collect::<Result<Vec<_>>>()?
        }
        "sha224" | "sha256" | "sha384" | "sha512" if args.len() == 1 && untyped(&args[0]) => {
            let [bytes] = <[Expr; 1]>::try_from(args).expect("one");
            vec![adapt(bytes, &DataType::BinaryView, types)?]
        }
        "to_timestamp" if args.len() == 1 && untyped(&args[0]) => {
            let [seconds] = <[Expr; 1]>::try_from(args).expect("one");
            vec![adapt(seconds, &DataType::Float64, types)?]
        }
        // Of a date it is a moment with a time zone.
        "date_trunc" if args.len() == 2 && args[1].get_type(schema)? == DataType::Date32 => {
            let [field, day] = <[Expr; 2]>::try_from(args).expect("two");
            vec![field, to(day, SqlType::TimestampTz.arrow())]
        }
        // DataFusion reads texts as Arrow does, which knows neither `epoch` nor eras.
        "date_part"
            if let [_, moment] = args.as_slice()
                && quoted(moment).is_none()
                && is_text(&moment.get_type(schema)?) =>
        {
            let message = "function pg_catalog.extract(unknown, text) does not exist";
            return Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)));
        }
        // Arguments of any type: all but texts are written as PostgreSQL writes them.
        "concat" | "concat_ws" => {
            args.into_iter().map(|arg| as_output(arg, schema)).collect::<Result<Vec<_>>>()?
        }
        _ => args,
    };
    let (is_part, is_length) = (name == "date_part", name == "array_length");
    let func = match name {
        _ if is_part => corrected::date_part(),
        // The planner's own, for ANY.
        "array_has" => corrected::array_has(),
        // The planner's own, for POSITION.
        "strpos" => corrected::strpos(),
        _ => func,
    };
    let call = functions::adjust(func, args, schema)?;
    // Positions, which DataFusion counts by unsigned integers, are INTEGER; an empty array has NULL as its length.
    Ok(match call.get_type(schema)? {
        DataType::Int32 if is_length => {
            nullif(vec![call, Expr::Literal(ScalarValue::Int32(Some(0)), None)])?
        }
        DataType::UInt64 => to(call, DataType::Int32),
        DataType::Decimal128(precision, scale) => match digits_of_field(&call, schema)? {
            Some(digits) if digits < scale => to(call, DataType::Decimal128(precision, digits)),
            _ => call,
        },
        _ => call,
    })
}

/// How many digits behind the point EXTRACT of a field has where they are fewer than those of a second.
fn digits_of_field(call: &Expr, schema: &DFSchema) -> Result<Option<i8>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = call else { return Ok(None) };
    let ("extract_fraction", [field, moment]) = (func.name(), args.as_slice()) else {
        return Ok(None);
    };
    let Some(field) = quoted(field).and_then(DateField::from_name) else { return Ok(None) };
    let is_day = moment.get_type(schema)? == DataType::Date32;
    Ok(match field {
        DateField::Millisecond => Some(3),
        DateField::Microsecond => Some(0),
        DateField::Epoch | DateField::Julian if is_day => Some(0),
        _ => None,
    })
}

/// Whether all arguments are of one type.
fn are_alike(args: &[Expr], schema: &DFSchema) -> Result<bool> {
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    Ok(types.windows(2).all(|pair| pair[0] == pair[1]))
}

/// The type in which NULLIF compares its arguments, and that of its value, where the value keeps the type of the first
/// argument although the second has another, or numbers are compared as DOUBLE PRECISION.
fn kept_by_nullif(args: &[Expr], schema: &DFSchema) -> Result<Option<(DataType, DataType)>> {
    let [value, other] = args else { return Ok(None) };
    if [value, other].into_iter().any(|arg| quoted(arg).is_some() || untyped(arg)) {
        return Ok(None);
    }
    let (own, beside) = (value.get_type(schema)?, other.get_type(schema)?);
    let is_number = |ty: &DataType| ty.is_integer() || ty.is_decimal();
    Ok(match (&own, &beside) {
        _ if own == beside => None,
        _ if own.is_integer() && beside.is_integer() => Some((wider(own.clone(), beside), own)),
        (_, DataType::Float32) if is_number(&own) => Some((DataType::Float64, DataType::Float64)),
        (DataType::Date32, DataType::Timestamp(_, None)) => Some((beside, own)),
        _ => None,
    })
}

/// NULL if the two are equal, otherwise the first: for types that DataFusion compares differently.
fn nullif(args: Vec<Expr>) -> Result<Expr> {
    let [value, other] = <[Expr; 2]>::try_from(args).expect("two");
    let equal = whole(value.clone(), Operator::Eq, other);
    when(equal, Expr::Literal(ScalarValue::Null, None)).otherwise(value)
}

/// Converts the arguments of a function of the table: quoted constants and parameters get the types
/// that the function takes there.
fn table_arguments(
    name: &str,
    args: Vec<Expr>,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<Vec<Expr>> {
    let type_of = |arg: &Expr| match quoted(arg).is_some() || untyped(arg) {
        true => Ok(None),
        false => arg.get_type(schema).map(Some),
    };
    let given = args.iter().map(type_of).collect::<Result<Vec<_>>>()?;
    let mut given = given;
    // Of two functions the one of doubles is preferred for what has no type.
    let is_exact = |ty: &Option<DataType>| ty.as_ref().is_some_and(DataType::is_decimal);
    if name == "width_bucket" && !given.iter().any(is_exact) {
        let bounds = given.iter_mut().take(3).filter(|ty| ty.is_none());
        bounds.for_each(|ty| *ty = Some(DataType::Float64));
    }
    let Some(wanted) = table_functions::argument_types(name, &given) else {
        return Err(external(table_functions::does_not_exist(name, &given)));
    };
    // Of a NUMERIC's power and logarithm there are functions of NUMERIC, which are those of doubles here.
    let beside_exact = matches!(name, "power" | "log") && given.iter().any(is_exact);
    let of_parameter = |ty: DataType| match ty {
        _ if beside_exact => UNCONSTRAINED.arrow(),
        DataType::Int64 if matches!(name, "bytes_overlay" | "bytes_substr" | "overlay") => {
            DataType::Int32
        }
        ty => ty,
    };
    let adapted = args.into_iter().zip(wanted).map(|(arg, ty)| match untyped(&arg) {
        true => adapt(arg, &of_parameter(ty), types),
        false => adapt(arg, &ty, types),
    });
    adapted.collect()
}

/// Converts the arguments of a function of an array and elements: quoted constants and parameters are elements.
///
/// Errors: 42883 for a value that is none.
fn element_arguments(
    name: &str,
    args: Vec<Expr>,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<Vec<Expr>> {
    let given = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let item = given.iter().find_map(|ty| match ty {
        DataType::List(item) => Some(item.data_type().clone()),
        _ => None,
    });
    let adds_one = matches!(name, "array_append" | "array_prepend");
    if adds_one && item.as_ref().is_some_and(is_nested) && given.iter().any(|ty| !is_nested(ty)) {
        let message = "argument must be empty or one-dimensional array";
        return Err(external(SqlError::new(SqlState::DATA_EXCEPTION, message)));
    }
    let Some(item) = item.filter(|item| !item.is_null() && !is_nested(item)) else {
        return Ok(args);
    };
    let is_open = |arg: &Expr| quoted(arg).is_some() || untyped(arg);
    let of_items =
        |ty: &DataType| DataType::List(Arc::new(Field::new_list_field(ty.clone(), true)));
    if let ("array_has", [DataType::List(_), of]) = (name, &given[..])
        && !is_open(&args[1])
        && comparable(&item, of)
    {
        let Some(common) = memberships::compared_as(&item, of) else { return Ok(args) };
        let wanted = [of_items(&common), common];
        let sides = args.into_iter().zip(wanted).zip(&given);
        return Ok(sides
            .map(|((arg, ty), given)| if *given == ty { arg } else { to(arg, ty) })
            .collect());
    }
    // The last argument of these is a number of elements, or a place.
    let counted = match name {
        "array_position" => 3,
        "array_remove_n" => 3,
        "array_replace_n" => 4,
        _ => usize::MAX,
    };
    let elements = args.iter().zip(&given).take(counted - 1);
    let elements = elements.filter(|(arg, ty)| !is_open(arg) && !matches!(ty, DataType::List(_)));
    let common = elements.map(|(_, ty)| ty.clone()).fold(item.clone(), wider);
    let widened = |arg: Expr, ty: &DataType| match ty {
        DataType::List(_) => to(arg, of_items(&common)),
        _ => arg,
    };
    let widens = common.is_integer() && common != item;
    let one = |(arg, ty): (Expr, &DataType)| {
        if is_open(&arg) {
            return adapt(arg, if widens { &common } else { &item }, types);
        }
        let arg = if widens { widened(arg, ty) } else { arg };
        // Other integers may be counts and places.
        let is_element =
            !matches!(ty, DataType::List(_)) && (name == "array_has" || !ty.is_integer());
        if !is_element || comparable(&item, ty) {
            return Ok(arg);
        }
        Err(external(match name {
            "array_has" => no_operator(ty, "=", &item),
            _ => {
                let given: Vec<String> = given.iter().map(shown_type).collect();
                let message = format!("function {name}({}) does not exist", given.join(", "));
                SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
            }
        }))
    };
    args.into_iter().zip(&given).map(one).collect()
}

/// The call with the function that its arguments ask for, where DataFusion finds one by name alone:
/// moments in the session's zone, and bytes.
fn zoned_call(function: ScalarFunction, schema: &DFSchema) -> Result<ScalarFunction> {
    let ScalarFunction { func, mut args } = function;
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let name = func.name();
    if let (true, [DataType::Time64(_), ..]) = (name == "to_char", &types[..]) {
        args[0] = to(std::mem::take(&mut args[0]), interval());
    }
    if let (true, [_, DataType::Time64(_)]) = (name == "date_trunc", &types[..]) {
        args[1] = to(std::mem::take(&mut args[1]), interval());
    }
    // A date has a zone only where the pattern shows one.
    let shows_zone = |args: &[Expr]| args.get(1).and_then(quoted).is_some_and(moment::shows_zone);
    if let (true, Some(DataType::Date32)) = (name == "to_char" && shows_zone(&args), types.first())
    {
        let moment = SqlType::TimestampTz.arrow();
        let func =
            Arc::new(zoned::instead_of(name, std::slice::from_ref(&moment)).expect("to_char"));
        args[0] = to(std::mem::take(&mut args[0]), moment);
        return Ok(ScalarFunction { func, args });
    }
    // Of the two functions the one of moments with a zone is preferred: for days, and beside what has no type.
    let is_local = types.iter().any(|ty| is_moment(ty) && !is_zoned_moment(ty));
    if name == "age" && args.len() == 2 && !is_local && args.iter().any(untyped) {
        let func = zoned::instead_of(name, &[SqlType::TimestampTz.arrow()]).expect("age");
        return Ok(ScalarFunction { func: Arc::new(func), args });
    }
    let func = match zoned::instead_of(name, &types) {
        Some(zoned) => Arc::new(zoned),
        None if let Some(twin) = table_functions::twin(name, &types) => {
            Arc::new(table_functions::function(twin))
        }
        // OVERLAY and `||` of arrays are DataFusion's functions of these names.
        None => {
            let own = table_functions::of_name(name).or_else(|| by_value::of_name(name));
            own.map_or(func, growing::bound)
        }
    };
    Ok(ScalarFunction { func, args })
}

/// Converts the arguments of a function of [`by_value`], as [`table_arguments`] does.
fn by_value_arguments(
    name: &str,
    args: Vec<Expr>,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<Vec<Expr>> {
    let type_of = |arg: &Expr| match quoted(arg).is_some() || untyped(arg) {
        true => Ok(None),
        false => arg.get_type(schema).map(Some),
    };
    let mut given = args.iter().map(type_of).collect::<Result<Vec<_>>>()?;
    // `x < ANY ($1)`: an array of what it is compared with.
    let mut args = args;
    if name.starts_with("array\u{1}a")
        && given[0].is_none()
        && let Some(list) = given
            .get(1)
            .and_then(Option::as_ref)
            .and_then(sql_type_of_arrow)
            .and_then(SqlType::array_of)
    {
        let ty = list.arrow();
        args[0] = match std::mem::take(&mut args[0]) {
            Expr::Placeholder(parameter) => {
                types.typed_as(parameter, &Arc::new(list.field("", true)))
            }
            other => adapt(other, &ty, types)?,
        };
        given[0] = Some(ty);
    }
    if name.starts_with("array\u{1}a")
        && let [Some(DataType::List(item)), Some(value), ..] = given.as_slice()
        && (!comparable(value, item.data_type()) || is_nested(item.data_type()))
    {
        let op = args.get(2).and_then(quoted).unwrap_or("=");
        return Err(external(no_operator(value, op, item.data_type())));
    }
    let mut wanted = by_value::argument_types(name, &given).map_err(external)?;
    // `x < ANY (array)`
    if name.starts_with("array\u{1}a")
        && let [DataType::List(item), value, ..] = wanted.as_mut_slice()
        && given[1].is_none()
    {
        *value = item.data_type().clone();
    }
    let one = |(at, (arg, ty)): (usize, (Expr, DataType))| {
        // The only parameter behind `-` is a member's name.
        let ty = if untyped(&arg) && name == "chr" { DataType::Int32 } else { ty };
        let arg = match untyped(&arg) && name != "-" && by_value::takes_path(name, at) {
            true => adapt(arg, &SqlType::Text.array_of().expect("of texts").arrow(), types)?,
            false => adapt(arg, &ty, types)?,
        };
        // A document's moments have the offset of the session's zone, which casts know.
        if halcyon_names::documents::keeps_values(name) && is_zoned_moment(&arg.get_type(schema)?) {
            let moment = by_value::of_name("json\u{1}moment").expect("a function");
            return Ok(moment.call(vec![to(arg, DataType::Utf8View)]));
        }
        match by_value::is_written(name, at) {
            true if name == "format" => as_output(arg, schema),
            true => as_text(arg, schema),
            false => Ok(arg),
        }
    };
    args.into_iter().zip(wanted).enumerate().map(one).collect()
}

/// A value as a result shows it: `t` and `f` where a cast to text says `true` and `false`.
fn as_output(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    if expr.get_type(schema)? != DataType::Boolean {
        return as_text(expr, schema);
    }
    let word = |word: &str| Expr::Literal(ScalarValue::Utf8View(Some(word.to_owned())), None);
    let falsehood = Expr::Not(Box::new(expr.clone()));
    when(expr, word("t")).when(falsehood, word("f")).end()
}

fn as_text(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr.get_type(schema)? {
        ty if is_text(&ty) || ty.is_null() => Ok(expr),
        _ => Ok(Expr::Cast(Cast::new(Box::new(expr), DataType::Utf8View))),
    }
}

/// `x IN (a, b)`. DataFusion takes a NULL in a list for a value that is not equal, unless the list
/// has only constants, and wants one type for all of them; so other lists become `x = a OR x = b`.
fn in_list(
    expr: Expr,
    list: Vec<Expr>,
    negated: bool,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<Expr> {
    fn constant(expr: &Expr) -> bool {
        match expr {
            Expr::Literal(..) | Expr::Placeholder(_) => true,
            Expr::Cast(Cast { expr, .. }) | Expr::Negative(expr) => constant(expr),
            _ => false,
        }
    }
    if expr.is_volatile() || list.iter().all(constant) && are_of_one_kind(&expr, &list, schema)? {
        return Ok(Expr::InList(InList { expr: Box::new(expr), list, negated }));
    }
    let mut equal = Vec::with_capacity(list.len());
    for item in list {
        let (left, right) = (Box::new(expr.clone()), Box::new(item));
        equal.push(binary_operator(BinaryExpr::new(left, Operator::Eq, right), schema, types)?);
    }
    let any = any_of(equal);
    Ok(if negated { !any } else { any })
}

/// Whether DataFusion compares all of them by one type. Of floats and decimals, which meet as floats, it would
/// make decimals.
fn are_of_one_kind(expr: &Expr, list: &[Expr], schema: &DFSchema) -> Result<bool> {
    let types = list.iter().chain([expr]).map(|expr| expr.get_type(schema));
    let types = types.filter(|ty| !ty.as_ref().is_ok_and(DataType::is_null));
    let types = types.collect::<Result<Vec<_>>>()?;
    let (floats, decimals) =
        (types.iter().any(DataType::is_floating), types.iter().any(DataType::is_decimal));
    Ok(!(floats && decimals) && types.iter().all(|ty| comparable(&types[0], ty)))
}

/// Conditions with OR between them, as deep as the logarithm of their number.
fn any_of(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() == 1 {
        return conditions.remove(0);
    }
    let upper = conditions.split_off(conditions.len() / 2);
    any_of(conditions).or(any_of(upper))
}

/// Whether an interval stands beside a number, which Arrow would convert when rows are there.
fn is_span_beside_number(span: &DataType, number: &DataType) -> bool {
    matches!(span, DataType::Interval(_)) && number.is_numeric()
}

fn binary_operator(binary: BinaryExpr, schema: &DFSchema, types: &mut Parameters) -> Result<Expr> {
    use Operator::*;
    let BinaryExpr { left, op, right } = binary;
    let (mut left, mut right) = (reopened(*left, types), reopened(*right, types));
    if matches!(op, And | Or) {
        left = adapt(left, &DataType::Boolean, types)?;
        right = adapt(right, &DataType::Boolean, types)?;
        return Ok(whole(left, op, right));
    }
    if op == StringConcat {
        return concatenation(left, right, schema, types);
    }
    let ty = meeting_type([&left, &right].into_iter(), schema);
    let partner = match (op, &ty) {
        (Plus, ty) if is_day_or_moment(ty) => DataType::Interval(IntervalUnit::MonthDayNano),
        (Multiply | Divide, DataType::Interval(_)) => DataType::Float64,
        _ => ty,
    };
    if matches!(left, Expr::Placeholder(_)) || matches!(right, Expr::Placeholder(_)) {
        note_object_id(&left, &right, schema, types)?;
        note_object_id(&right, &left, schema, types)?;
    }
    left = adapt(left, &partner, types)?;
    right = adapt(right, &partner, types)?;
    if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom) {
        let mut sides = [left, right];
        all_of_one_type(sides.iter_mut(), schema, Beside::Compared)?;
        without_padding(&mut sides, schema)?;
        [left, right] = sides;
    }
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    match op {
        BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight
            if [&lt, &rt].iter().any(|ty| ty.is_floating() || ty.is_decimal()) =>
        {
            Err(external(no_operator(&lt, &op.to_string(), &rt)))
        }
        BitwiseShiftLeft | BitwiseShiftRight if lt == DataType::Int16 => {
            Ok(small_shifted(whole(left, op, to(right, DataType::Int32))))
        }
        Plus | Minus if is_span_beside_number(&lt, &rt) || is_span_beside_number(&rt, &lt) => {
            Err(external(no_operator(&lt, &op.to_string(), &rt)))
        }
        Plus | Minus | Multiply | Divide | Modulo => calculation(left, lt, op, right, rt),
        AtArrow | ArrowAt => match [&lt, &rt].map(|ty| matches!(ty, DataType::List(_))) {
            [true, true] if !comparable(&lt, &rt) => {
                Err(external(no_operator(&lt, &op.to_string(), &rt)))
            }
            [true, true] if op == AtArrow => Ok(corrected::array_has_all().call(vec![left, right])),
            [true, true] => Ok(corrected::array_has_all().call(vec![right, left])),
            [true, false] if rt.is_null() => Ok(unknown()),
            [false, true] if lt.is_null() => Ok(unknown()),
            _ => Err(external(no_operator(&lt, &op.to_string(), &rt))),
        },
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => {
            if comparable(&lt, &rt) {
                let (left, right) = documents::compared(left, &op.to_string(), right, schema)?;
                let is_ordered = matches!(op, Lt | LtEq | Gt | GtEq);
                match is_ordered
                    && nested::without_names(&lt) == nested::without_names(&rt)
                    && matches!(sql_type_of_arrow(&lt), Some(SqlType::Array(_)))
                {
                    true => Ok(whole(nested::key_of(left), op, nested::key_of(right))),
                    false => Ok(whole(left, op, right)),
                }
            } else {
                Err(external(no_operator(&lt, &op.to_string(), &rt)))
            }
        }
        _ => Ok(whole(left, op, right)),
    }
}

/// A shifted SMALLINT, which was computed as INTEGER: its lower 16 bits.
fn small_shifted(shifted: Expr) -> Expr {
    let by = || Expr::Literal(ScalarValue::Int32(Some(16)), None);
    let raised = whole(to(shifted, DataType::Int32), Operator::BitwiseShiftLeft, by());
    to(whole(raised, Operator::BitwiseShiftRight, by()), DataType::Int16)
}

/// Notes that a parameter beside an object id is one: drivers send no other number for it.
fn note_object_id(
    parameter: &Expr,
    beside: &Expr,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<()> {
    if let Expr::Placeholder(Placeholder { id, .. }) = parameter
        && beside.to_field(schema)?.1.metadata().contains_key(OID_ALIAS_KEY)
    {
        let field = || Arc::new(SqlType::Oid.field("", true));
        types.known.entry(id.clone()).or_insert_with(field);
    }
    Ok(())
}

/// A condition that is neither true nor false.
fn unknown() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// If one of the compared texts is CHAR(n), which is stored without trailing blanks, removes
/// trailing blanks from the others: from constants, parameters and VARCHAR. TEXT stays as it is.
fn without_padding(exprs: &mut [Expr], schema: &DFSchema) -> Result<()> {
    let mut types = Vec::with_capacity(exprs.len());
    for expr in exprs.iter() {
        types.push(match expr {
            Expr::Column(_)
            | Expr::Cast(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Literal(_, Some(_)) => sql_type_of(expr.to_field(schema)?.1.as_ref()),
            Expr::ScalarFunction(call) => PgCast::of(call).map(|cast| cast.types().1),
            _ => None,
        });
    }
    if !types.iter().any(|ty| matches!(ty, Some(SqlType::Char(_)))) {
        return Ok(());
    }
    for (expr, ty) in exprs.iter_mut().zip(types) {
        match expr {
            Expr::Literal(ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text)), _)
                if ty != Some(SqlType::Text) =>
            {
                text.truncate(text.trim_end_matches(' ').len());
            }
            Expr::Placeholder(_) => *expr = rtrim(vec![std::mem::take(expr)]),
            _ if matches!(ty, Some(SqlType::Varchar(_))) => {
                *expr = rtrim(vec![std::mem::take(expr)]);
            }
            _ => {}
        }
    }
    Ok(())
}

fn whole(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// `||` of texts; one side may have any type and is written as text.
fn concatenation(
    left: Expr,
    right: Expr,
    schema: &DFSchema,
    types: &mut Parameters,
) -> Result<Expr> {
    // A constant in quotes and a parameter are bytes beside bytes.
    let bytes = |side: &Expr| {
        let is_open = quoted(side).is_some() || matches!(side, Expr::Placeholder(_));
        let ty = if is_open { None } else { side.get_type(schema).ok() };
        ty.filter(|ty| ty.is_binary() && !matches!(ty, DataType::FixedSizeBinary(_)))
    };
    let wanted = bytes(&left).or_else(|| bytes(&right)).unwrap_or(DataType::Utf8View);
    let (left, right) = (adapt(left, &wanted, types)?, adapt(right, &wanted, types)?);
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    let takes = |ty: &DataType| {
        let is_bytes = ty.is_binary() && !matches!(ty, DataType::FixedSizeBinary(_));
        is_text(ty) || ty.is_null() || ty.is_nested() || is_bytes
    };
    if !takes(&lt) && !takes(&rt) {
        return Err(external(no_operator(&lt, "||", &rt)));
    }
    let is_array = |ty: &DataType| is_nested(ty) && !matches!(ty, DataType::Struct(_));
    if is_array(&lt) || is_array(&rt) || (lt.is_binary() && rt.is_binary()) {
        return Ok(whole(left, Operator::StringConcat, right));
    }
    Ok(whole(as_text(left, schema)?, Operator::StringConcat, as_text(right, schema)?))
}

fn interval() -> DataType {
    DataType::Interval(IntervalUnit::MonthDayNano)
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

pub(crate) fn to(expr: Expr, ty: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), ty))
}

/// `+ - * / %` by PostgreSQL's rules, unless both sides are integers or both are floats.
pub(crate) fn calculation(
    left: Expr,
    lt: DataType,
    op: Operator,
    right: Expr,
    rt: DataType,
) -> Result<Expr> {
    use DataType::{Date32, Float32, Float64, Interval, Time64, Timestamp};
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    let sum = |left, right| whole(left, op, right);
    Ok(match (&lt, op, &rt) {
        (Date32, Plus | Minus, ty) if ty.is_integer() => {
            to(sum(to(left, DataType::Int32), to(right, DataType::Int32)), Date32)
        }
        (ty, Plus, Date32) if ty.is_integer() => {
            to(sum(to(left, DataType::Int32), to(right, DataType::Int32)), Date32)
        }
        (Date32, Minus, Date32) => sum(to(left, DataType::Int32), to(right, DataType::Int32)),
        (Date32, Plus | Minus, Interval(_)) => sum(to(left, timestamp()), right),
        (Interval(_), Plus, Date32) => sum(to(right, timestamp()), left),
        _ if is_label(&lt) || is_label(&rt) => {
            return Err(external(no_operator(&lt, &op.to_string(), &rt)));
        }
        (Interval(_), Plus, Timestamp(..)) => sum(right, left),
        (Interval(_), Plus, Time64(_)) => table_functions::call("time_add", vec![right, left]),
        (Time64(_), Plus, Interval(_)) => table_functions::call("time_add", vec![left, right]),
        (Time64(_), Minus, Interval(_)) => {
            table_functions::call("time_subtract", vec![left, right])
        }
        (Date32, Plus, Time64(_)) => sum(to(left, timestamp()), to(right, interval())),
        (Timestamp(..), Plus | Minus, Time64(_)) => sum(left, to(right, interval())),
        (Time64(_), Plus, Timestamp(..)) => sum(right, to(left, interval())),
        (Time64(_), Plus, Date32) => sum(to(right, timestamp()), to(left, interval())),
        (Timestamp(..) | Date32, Minus, Timestamp(..) | Date32) => {
            functions::timestamp_difference(to_moment(left, &lt), to_moment(right, &rt))
        }
        (Time64(_), Minus, Time64(_)) => functions::time_difference(left, right),
        (Interval(_), Multiply | Divide, ty) if ty.is_numeric() => {
            functions::scale_interval(left, to(right, DataType::Float64), op == Divide)
        }
        (ty, Multiply, Interval(_)) if ty.is_numeric() => {
            functions::scale_interval(right, to(left, DataType::Float64), false)
        }
        // A REAL beside a number of another type is DOUBLE PRECISION.
        (Float32, _, ty) if ty.is_numeric() && *ty != Float32 => {
            sum(to(left, Float64), to(right, Float64))
        }
        (ty, _, Float32) if ty.is_numeric() && *ty != Float32 => {
            sum(to(left, Float64), to(right, Float64))
        }
        (left_ty, Divide, right_ty) if is_exact(left_ty) && is_exact(right_ty) => {
            if left_ty.is_integer() && right_ty.is_integer() {
                return Ok(sum(left, right));
            }
            NumericDivision::call(left, &lt, right, &rt)
        }
        (left_ty, Modulo, right_ty) if let Some(rest) = free_rest(left_ty, right_ty) => {
            to(sum(left, right), rest)
        }
        (left_ty, _, right_ty)
            if is_text(left_ty)
                || is_text(right_ty)
                || *left_ty == DataType::Boolean
                || *right_ty == DataType::Boolean =>
        {
            return Err(external(no_operator(&lt, &op.to_string(), &rt)));
        }
        _ => sum(left, right),
    })
}

/// The type of a remainder beside a NUMERIC without digits, which has none either; `None` for other types.
fn free_rest(left: &DataType, right: &DataType) -> Option<DataType> {
    let free = |ty: &DataType| match *ty {
        DataType::Decimal128(precision, scale) => Some((is_free(precision, scale), scale)),
        ref ty => ty.is_integer().then_some((false, 0)),
    };
    let ((left, left_scale), (right, right_scale)) = (free(left)?, free(right)?);
    let scale = left_scale.max(right_scale);
    ((left || right) && is_free(DIGITS_MAX, scale))
        .then_some(DataType::Decimal128(DIGITS_MAX, scale))
}

fn to_moment(expr: Expr, ty: &DataType) -> Expr {
    match ty {
        DataType::Date32 => to(expr, timestamp()),
        _ => expr,
    }
}

fn is_exact(ty: &DataType) -> bool {
    ty.is_integer() || matches!(ty, DataType::Decimal128(..))
}

/// Pass 5.
fn casts(plan: LogicalPlan, zone: &str) -> Result<LogicalPlan> {
    rewrite_nodes(plan, true, |expr, schema| cast(expr, schema, zone))
}

/// Replaces a conversion that Arrow does differently by a function.
pub(crate) fn cast(expr: Expr, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    let Cast { expr: inner, field } = match expr {
        Expr::Cast(cast) => cast,
        Expr::ScalarFunction(call) => {
            return session_zone::call(call, schema, zone).map(Transformed::yes);
        }
        Expr::BinaryExpr(binary) => {
            let sum = session_zone::sum(&binary, schema, zone)?;
            return Ok(match sum {
                Some(sum) => Transformed::yes(sum),
                None => Transformed::no(Expr::BinaryExpr(binary)),
            });
        }
        other => return Ok(Transformed::no(other)),
    };
    let from_field = inner.to_field(schema)?.1;
    if let DataType::List(item) = field.data_type() {
        return list_cast(*inner, &from_field, item, zone).map(Transformed::yes);
    }
    if is_nested(from_field.data_type()) && is_text(field.data_type()) {
        let field = Expr::Cast(Cast { expr: Box::new(nested::text_of(*inner, zone)), field });
        return Ok(Transformed::yes(field));
    }
    let (Some(from), Some(to)) = (sql_type_of(&from_field), sql_type_of(&field)) else {
        return Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field })));
    };
    if let Some(text) = quoted(&inner) {
        if let Some(present) = present(text, field.data_type()) {
            return present.transform_up(|expr| cast(expr, schema, zone));
        }
        let zone = TimeZone::parse(zone).map_err(external)?;
        let mut folded = explicit(text, to, &zone)?;
        // Arrow does not tell CHAR, VARCHAR and TEXT apart, and the first is shown with its blanks.
        if let Expr::Literal(_, told) = &mut folded
            && is_text(field.data_type())
            && field.metadata().contains_key(TYPE_KEY)
        {
            *told = Some(FieldMetadata::from(field.as_ref()));
        }
        // A function of DataFusion's may want another of Arrow's types for the same of SQL.
        return Ok(Transformed::yes(match *field.data_type() == to.arrow() {
            true => folded,
            false => Expr::Cast(Cast { expr: Box::new(folded), field }),
        }));
    }
    // A cast that the planner added between days and dates is not one that SQL has.
    let is_ours = !field.metadata().contains_key(TYPE_KEY);
    if from_field.data_type().is_null()
        || !(PgCast::differs(from, to) || always_fails(&inner, &field))
        || *field.data_type() != to.arrow()
        || (is_ours && !coerce::castable(from, to))
    {
        return Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field })));
    }
    if !coerce::castable(from, to) {
        return Err(external(no_cast(&from.to_string(), &to.to_string())));
    }
    let cast = ScalarUDF::new_from_impl(PgCast::new(from, to, zone));
    Ok(Transformed::yes(cast.call(vec![*inner])))
}

/// Whether the cast is one of a constant that has no value of the type. Folding raises the error of such a
/// cast when the statement is planned; the error of a function is raised when it is called, which a branch
/// that is not taken never is.
fn always_fails(constant: &Expr, field: &Field) -> bool {
    matches!(constant, Expr::Literal(value, _) if value.cast_to(field.data_type()).is_err())
}

/// A cast to an array of items: item by item, as casts of single values; from a text by the array's
/// notation. The result's type does not name the types of SQL that Arrow cannot tell, as no kernel
/// keeps such names.
fn list_cast(expr: Expr, from: &Field, item: &FieldRef, zone: &str) -> Result<Expr> {
    let plain = nested::without_names(&DataType::List(Arc::clone(item)));
    let zone_read = || TimeZone::parse(zone).map_err(external);
    if let Some(text) = quoted(&expr) {
        return nested::list_constant(text, item, &zone_read()?);
    }
    let to_type = sql_type_of(item).filter(|ty| ty.element().is_none());
    let cuts = matches!(to_type, Some(SqlType::Char(_) | SqlType::Varchar(Some(_))));
    match (from.data_type(), to_type) {
        (ty, _) if (*ty == plain && !cuts) || ty.is_null() => Ok(to(expr, plain)),
        (DataType::List(of), Some(to_type)) if !is_nested(of.data_type()) => {
            let Some(from_type) = sql_type_of(of) else { return Ok(to(expr, plain)) };
            if !coerce::castable(from_type, to_type) {
                let (from, to) = (format!("{from_type}[]"), format!("{to_type}[]"));
                return Err(external(no_cast(&from, &to)));
            }
            Ok(nested::items_cast(expr, from_type, to_type, 1, zone))
        }
        (ty @ DataType::List(_), None) => {
            let ((levels, of), (_, to_item)) = (nested::levels_of(ty), nested::levels_of(&plain));
            match (sql_type_of(&of), sql_type_of(&to_item)) {
                (Some(from_type), Some(to_type)) if coerce::castable(from_type, to_type) => {
                    Ok(nested::items_cast(expr, from_type, to_type, levels, zone))
                }
                _ => Ok(to(expr, plain)),
            }
        }
        (ty, Some(to_type)) if is_text(ty) => Ok(nested::items_read(expr, to_type, zone)),
        (ty, Some(to_type)) if !is_nested(ty) => {
            Err(external(no_cast(&shown_type(ty), &format!("{to_type}[]"))))
        }
        (ty, None) if is_text(ty) => {
            Err(external(SqlError::unsupported("an array of several dimensions")))
        }
        _ => Ok(to(expr, plain)),
    }
}

fn explicit(text: &str, to: SqlType, zone: &TimeZone) -> Result<Expr> {
    let value = halcyon_store::ValueRef::Text(text);
    let arena = coerce::Arena::new();
    let value = coerce::cast(value, SqlType::Text, to, zone, &arena).map_err(external)?;
    Ok(Expr::Literal(to_scalar(value, to), None))
}

/// Pass 6.
pub fn with_checked_arithmetic(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_expressions(plan, guarded)
}

/// Pass 6, constants that comparisons have, ILIKE as a function, and the order of different values that are gathered.
pub(crate) fn finished(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let expr = match expr {
        // Different values are found by sorting them.
        Expr::AggregateFunction(mut call)
            if call.params.distinct
                && call.params.order_by.is_empty()
                && matches!(call.func.name(), "array_agg" | "string_agg") =>
        {
            call.params.order_by = vec![call.params.args[0].clone().sort(true, false)];
            return Ok(Transformed::yes(Expr::AggregateFunction(call)));
        }
        other => other,
    };
    let bare = compared_constants::bare(expr)?;
    let guarded = bare.transform_data(|expr| guarded(expr, schema))?;
    guarded.transform_data(|expr| like::check(expr, schema))
}

/// A node of an expression in a form that DataFusion may fold and run: checked arithmetic,
/// intervals by keys.
fn guarded(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let checked = arithmetic::check(expr, schema)?;
    let checked = checked.transform_data(|expr| concatenation::check(expr, schema))?;
    checked.transform_data(|expr| intervals::check(expr, schema))
}

/// Undoes [`guarded`] and the replacement of ILIKE.
pub(crate) fn unguarded(expr: Expr) -> Transformed<Expr> {
    let plain = arithmetic::uncheck(expr);
    let plain = plain.transform_data(|expr| Ok(concatenation::uncheck(expr)));
    let plain = plain.and_then(|plain| plain.transform_data(|expr| Ok(intervals::uncheck(expr))));
    let plain = plain.and_then(|plain| plain.transform_data(|expr| Ok(like::uncheck(expr))));
    plain.expect("nothing of this fails")
}

/// Undoes pass 6.
pub fn with_plain_arithmetic(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        go_on()?;
        if are_constants(&node) {
            return Ok(Transformed::no(node));
        }
        let names = names_of(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| Ok(unguarded(expr)))?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

/// Puts in the values of one execution: parameters, the clock, the session, sequences.
pub fn bind_late(plan: LogicalPlan, env: &Env<'_>) -> halcyon_sql::error::Result<LogicalPlan> {
    let bound = plan.transform_up_with_subqueries(|node| {
        go_on()?;
        if are_constants(&node) {
            return Ok(Transformed::no(node));
        }
        let names = names_of(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| bind_late_expr(expr, env))?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })?
        .map_data(crate::limits::computed)
    });
    bound.data().map_err(|error| halcyon_sql::diagnose::sql_error(error, ""))
}

/// Puts in the values of one execution as [`bind_late`] does, for one node of an expression.
pub fn bind_late_expr(expr: Expr, env: &Env<'_>) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Placeholder(placeholder) => {
            let field = placeholder.field.as_deref();
            let ty = field.and_then(sql_type_of).unwrap_or(SqlType::Text);
            match parameter(env, &placeholder.id, ty) {
                Some(value) => {
                    let value = match field.map(Field::data_type) {
                        Some(list @ DataType::List(_)) => value.cast_to(list)?,
                        _ => value,
                    };
                    Ok(Transformed::yes(Expr::Literal(value, None)))
                }
                None => Err(external(SqlError::new(
                    SqlState::UNDEFINED_PARAMETER,
                    format!("there is no parameter {}", placeholder.id),
                ))),
            }
        }
        Expr::ScalarFunction(call) if execution::belongs_to_execution(call.name()) => {
            execution::bind_call(call, env).map(Transformed::yes).map_err(external)
        }
        Expr::ScalarFunction(call) => memberships::as_list(call),
        Expr::Not(of) => Ok(match *of {
            Expr::InList(list) => {
                Transformed::yes(Expr::InList(InList { negated: !list.negated, ..list }))
            }
            of => Transformed::no(Expr::Not(Box::new(of))),
        }),
        other => Ok(Transformed::no(other)),
    }
}

/// Values of parameters by their place in the statement.
fn parameter(env: &Env<'_>, id: &str, ty: SqlType) -> Option<ScalarValue> {
    let index: usize = id.strip_prefix('$')?.parse().ok()?;
    let value = env.params.get(index.checked_sub(1)?)?;
    Some(to_scalar(value.as_ref(), ty))
}
