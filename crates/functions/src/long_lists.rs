//! Long lists of constants (`x IN (1, …, 5000)`) as one constant while a statement is planned.
//!
//! The passes of planning and the rules of the optimizer look at every expression of a plan and copy each, some thirty
//! times. Programs send lists of thousands of keys. So such a list is an array, one literal, from where its types are
//! known until the plan runs, where [`crate::memberships`] makes a list of it again.
//!
//! Invariant, checked by `a_list_is_back_as_it_was`: a list that became an array is the same list again.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DFSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, InList};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::corrected::array_has;
use crate::memberships::{are_many, is_hashed};

/// A plan with an array in place of each long list of constants in its filters: `x IN (…)` is `array_has` of one constant.
/// [`as_list`](crate::memberships::as_list) makes lists of them again where the plan runs. Beside outer joins lists stay, since rules see by them that
/// a join may be an inner one.
///
/// Cost: O(nodes) without long lists.
pub fn with_arrays(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_long_lists(&plan)? {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
        let schema = Arc::clone(filter.input.schema());
        let made = std::mem::take(&mut filter.predicate).transform_down(|expr| match expr {
            Expr::InList(list) => as_array(list, &schema),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(made.update_data(|predicate| {
            filter.predicate = predicate;
            LogicalPlan::Filter(filter)
        }))
    })
    .data()
}

/// Whether a plan has long lists in its filters, and no outer joins.
fn has_long_lists(plan: &LogicalPlan) -> Result<bool> {
    let (mut found, mut is_outer) = (false, false);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Join(join) => {
                let outer = [JoinType::Left, JoinType::Right, JoinType::Full];
                is_outer |= outer.contains(&join.join_type);
            }
            LogicalPlan::Filter(filter) if !found => {
                let is_long = |part: &Expr| Ok(matches!(part, Expr::InList(list) if is_long(list)));
                found = filter.predicate.exists(is_long)?;
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found && !is_outer)
}

fn is_long(list: &InList) -> bool {
    are_many(list.list.len())
}

/// The list as an array, if it is long and has nothing but constants of the value's type.
fn as_array(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let found = if is_long(&list) { constants(&list, schema)? } else { None };
    let Some((of, values)) = found else { return Ok(Transformed::no(Expr::InList(list))) };
    let values = ScalarValue::iter_to_array(values)?;
    let array = SingleRowListArrayBuilder::new(values).with_nullable(true).build_list_scalar();
    let has = array_has().call(vec![Expr::Literal(array, None), of]);
    Ok(Transformed::yes(if list.negated { Expr::Not(Box::new(has)) } else { has }))
}

/// The value that is looked for and the constants of a list, all of one type; `None` for other lists.
fn constants(list: &InList, schema: &DFSchema) -> Result<Option<(Expr, Vec<ScalarValue>)>> {
    let wanted = list.expr.get_type(schema)?;
    // An integer that was widened for the constants is compared as it is, as the optimizer would have found.
    let (of, ty) = match list.expr.as_ref() {
        Expr::Cast(Cast { expr, .. }) => match expr.get_type(schema)? {
            own if own.is_integer()
                && wanted.is_integer()
                && own.primitive_width() < wanted.primitive_width() =>
            {
                (expr.as_ref(), own)
            }
            _ => return Ok(None),
        },
        other => (other, wanted.clone()),
    };
    if !is_hashed(&ty) {
        return Ok(None);
    }
    let constant = |item: &Expr| {
        let value = match item {
            Expr::Literal(value, _) => value.clone(),
            Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
                Expr::Literal(value, _) => value.cast_to(field.data_type()).ok()?,
                _ => return None,
            },
            _ => return None,
        };
        let is_typed = value.data_type() == wanted || value.data_type().is_null();
        // Out of range: no value of the narrower type.
        if is_typed { value.cast_to(&ty).ok() } else { None }
    };
    let values: Option<Vec<ScalarValue>> = list.list.iter().map(constant).collect();
    Ok(values.map(|values| (of.clone(), values)))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, cast, col, lit, logical_plan};

    use super::*;
    use crate::memberships::as_list;

    fn scan() -> LogicalPlanBuilder {
        let fields =
            [("small", DataType::Int16), ("whole", DataType::Int32), ("float", DataType::Float64)];
        let fields: Vec<Field> =
            fields.into_iter().map(|(name, ty)| Field::new(name, ty, true)).collect();
        logical_plan::table_scan(Some("t"), &Schema::new(fields), None).expect("a scan")
    }

    fn filtered(predicate: Expr) -> LogicalPlan {
        scan().filter(predicate).and_then(LogicalPlanBuilder::build).expect("a plan")
    }

    fn numbers(count: i32) -> Vec<Expr> {
        (0..count).map(lit).chain([Expr::Literal(ScalarValue::Int32(None), None)]).collect()
    }

    /// Expressions that a pass over the plan looks at.
    fn expressions(plan: &LogicalPlan) -> usize {
        let mut count = 0;
        let walked = plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|_| {
                    count += 1;
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        });
        walked.expect("nothing fails");
        count
    }

    #[test]
    fn passes_look_at_a_few_expressions_for_a_long_list() {
        for negated in [false, true] {
            let plan = filtered(col("whole").in_list(numbers(20_000), negated));
            assert_eq!(expressions(&plan), 20_003);
            let plan = with_arrays(plan).expect("an array");
            assert_eq!(expressions(&plan), 3 + usize::from(negated));
        }
    }

    #[test]
    fn a_list_is_back_as_it_was() {
        let plan = filtered(col("whole").in_list(numbers(500), false));
        let array = with_arrays(plan.clone()).expect("an array");
        assert_ne!(array, plan);
        let back = array.transform_up(|node| {
            node.map_expressions(|expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarFunction(call) => as_list(call),
                    other => Ok(Transformed::no(other)),
                })
            })
        });
        assert_eq!(back.data().expect("a list"), plan);
    }

    #[test]
    fn a_widened_column_is_compared_as_it_is_if_all_constants_fit() {
        let widened = cast(col("small"), DataType::Int32);
        let plan = filtered(widened.clone().in_list(numbers(300), false));
        assert!(
            !with_arrays(plan).expect("an array").display_indent().to_string().contains("CAST")
        );
        let plan = filtered(widened.in_list(numbers(40_000), false));
        assert_eq!(with_arrays(plan.clone()).expect("a list"), plan);
    }

    #[test]
    fn other_lists_stay() {
        let floats = (0..500).map(|at| lit(f64::from(at))).collect();
        let mut mixed = numbers(500);
        mixed.push(col("whole") + lit(1));
        for predicate in [
            col("whole").in_list(numbers(10), false),
            col("float").in_list(floats, false),
            col("whole").in_list(mixed, false),
        ] {
            let plan = filtered(predicate);
            assert_eq!(with_arrays(plan.clone()).expect("a list"), plan);
        }
        let outer = scan().join(
            LogicalPlanBuilder::from(filtered(lit(true)))
                .alias("u")
                .and_then(LogicalPlanBuilder::build)
                .expect("a plan"),
            JoinType::Left,
            (vec!["t.whole"], vec!["u.whole"]),
            None,
        );
        let outer = outer.and_then(|plan| plan.filter(col("u.whole").in_list(numbers(500), false)));
        let plan = outer.and_then(LogicalPlanBuilder::build).expect("a plan");
        assert_eq!(with_arrays(plan.clone()).expect("a list"), plan);
    }
}
