//! Restrictions on a recursive query's references to itself.
//!
//! Each step sees the rows of the step before. Operators that need all rows (aggregates, outer
//! joins that add rows without a match, EXCEPT) have no meaning there, and an aggregate, which has
//! a row for empty input, would never end. The rules are PostgreSQL's.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, make_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, RecursiveQuery, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

/// Checks all recursive queries of a plan as DataFusion's planner made it. Errors: 42P19.
pub(crate) fn recursion_is_well_formed(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(query) = node {
            let found = references(&query.recursive_term, query)?;
            if found > 1 {
                return Err(wrong(format!(
                    "recursive reference to query \"{}\" must not appear more than once",
                    query.name
                )));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn wrong(message: String) -> DataFusionError {
    external(SqlError::new(SqlState::INVALID_RECURSION, message))
}

/// Number of references to `query` in a part of its recursive term.
fn references(plan: &LogicalPlan, query: &RecursiveQuery) -> Result<usize> {
    let not_within = |what: &str| {
        let name = &query.name;
        wrong(format!("recursive reference to query \"{name}\" must not appear within {what}"))
    };
    let mut found = 0;
    let mut in_subquery = false;
    plan.apply_subqueries(|subquery| {
        in_subquery |= names(subquery, query)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    // LATERAL is a subquery of a node and an input of it as well.
    if in_subquery && !matches!(plan, LogicalPlan::Subquery(_)) {
        return Err(not_within("a subquery"));
    }
    match plan {
        LogicalPlan::TableScan(scan) if scan.table_name.table() == query.name => return Ok(1),
        LogicalPlan::Aggregate(aggregate)
            if !aggregate.aggr_expr.is_empty() && names(&aggregate.input, query)? =>
        {
            let message =
                "aggregate functions are not allowed in a recursive query's recursive term";
            return Err(wrong(message.to_owned()));
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (names(&join.left, query)?, names(&join.right, query)?);
            match join.join_type {
                JoinType::Left if right => return Err(not_within("an outer join")),
                JoinType::Right if left => return Err(not_within("an outer join")),
                JoinType::Full if left || right => return Err(not_within("an outer join")),
                JoinType::LeftAnti if right => return Err(not_within("EXCEPT")),
                JoinType::LeftSemi if right => return Err(not_within("INTERSECT")),
                _ => {}
            }
        }
        _ => {}
    }
    for input in plan.inputs() {
        found += references(input, query)?;
    }
    Ok(found)
}

/// Whether `query` is named anywhere in a plan.
fn names(plan: &LogicalPlan, query: &RecursiveQuery) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan)
            if scan.table_name.table() == query.name);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The name of the function that [`marked`] calls.
pub(crate) const MARKED: &str = "marked";

/// `value`, whose field has exactly the type and the metadata of `wanted`: DataFusion runs a recursive query only if the
/// fields of both of its parts have the same, elements of arrays included; and an alias adds to a column's metadata, if it
/// does not lose its own, and takes nothing away.
pub(crate) fn marked(value: Expr, wanted: &Field) -> Expr {
    let metadata = wanted.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
    let (ty, metadata) = (wanted.data_type().clone(), metadata.collect());
    // A constant that is folded loses its metadata.
    let signature = Signature::any(1, Volatility::Volatile);
    ScalarUDF::new_from_impl(Marked { ty, metadata, signature }).call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marked {
    ty: DataType,
    metadata: BTreeMap<String, String>,
    signature: Signature,
}

impl ScalarUDFImpl for Marked {
    fn name(&self) -> &str {
        MARKED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(MARKED, self.ty.clone(), args.arg_fields[0].is_nullable());
        Ok(Arc::new(field.with_metadata(self.metadata.clone().into_iter().collect())))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.swap_remove(0);
        if value.data_type() == self.ty {
            return Ok(value);
        }
        // Elements may have another representation, or other metadata, than the planner was told.
        let mut values = value.into_array(args.number_rows)?;
        if !values.data_type().equals_datatype(&self.ty) {
            values = cast(&values, &self.ty)?;
        }
        Ok(ColumnarValue::Array(make_array(told_as(values.to_data(), &self.ty)?)))
    }
}

/// A vector as one of the type `ty`, from which its own differs in metadata alone.
fn told_as(data: ArrayData, ty: &DataType) -> Result<ArrayData> {
    let items: Vec<&DataType> = match ty {
        DataType::List(item) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => return Ok(data),
    };
    let children = data.child_data().iter().zip(items);
    let children = children.map(|(child, ty)| told_as(child.clone(), ty));
    let children = children.collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().data_type(ty.clone()).child_data(children).build()?)
}
