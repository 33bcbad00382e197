//! Conditions joined by AND, as trees that are as deep as the logarithm of their number.
//!
//! The type of an operator's result is asked of both operands, at every level of a tree again. In a chain of
//! `n` conditions, each of which is a level, that takes time in proportion to `n²`, and every rule that joins
//! conditions anew makes a chain of them. So chains are balanced where they are made here, and before each of
//! DataFusion's rules.
//! Invariant, checked by `long_conjunctions_are_balanced_and_keep_their_order`: the order of conditions stays.

use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

/// A chain of at most so many conditions is left as it is: plans are shown as DataFusion makes them.
const SHORT: usize = 64;

/// The conditions joined by AND; `None` if there are none.
pub fn conjunction(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    let conditions: Vec<Expr> = conditions.into_iter().collect();
    match conditions.len() > SHORT {
        true => Some(joined(conditions)),
        false => conditions.into_iter().reduce(Expr::and),
    }
}

/// The node with its condition balanced, if that is a long chain.
pub fn balanced(node: LogicalPlan) -> LogicalPlan {
    match node {
        LogicalPlan::Filter(mut filter) if is_long(&filter.predicate) => {
            filter.predicate = rejoined(filter.predicate);
            LogicalPlan::Filter(filter)
        }
        LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(is_long) => {
            join.filter = join.filter.map(rejoined);
            LogicalPlan::Join(join)
        }
        other => other,
    }
}

fn rejoined(predicate: Expr) -> Expr {
    joined(split_conjunction_owned(predicate))
}

fn is_long(mut predicate: &Expr) -> bool {
    for _ in 0..SHORT {
        match predicate {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, .. }) => predicate = left,
            _ => return false,
        }
    }
    true
}

/// Panics: if there are no conditions.
fn joined(mut conditions: Vec<Expr>) -> Expr {
    if conditions.len() <= 2 {
        return conditions.into_iter().reduce(Expr::and).expect("a conjunction has conditions");
    }
    let upper = conditions.split_off(conditions.len() / 2);
    joined(conditions).and(joined(upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::logical_expr::utils::split_conjunction;
    use datafusion::logical_expr::{Filter, LogicalPlanBuilder, col, lit};
    use halcyon_sql::stack::with_new_stack;

    fn depth(predicate: &Expr) -> usize {
        match predicate {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                1 + depth(left).max(depth(right))
            }
            _ => 0,
        }
    }

    #[test]
    fn long_conjunctions_are_balanced_and_keep_their_order() {
        // Chains of thousands need more stack than a test's thread has.
        with_new_stack(balances_long_conjunctions);
    }

    fn balances_long_conjunctions() {
        for (count, deepest) in [(1, 0), (SHORT, SHORT - 1), (SHORT + 1, 7), (5_000, 13)] {
            let conditions = || (0..count).map(|n| col("a").not_eq(lit(n as i64)));
            let made = conjunction(conditions()).expect("conditions");
            assert_eq!(depth(&made), deepest, "{count}");
            let expected: Vec<Expr> = conditions().collect();
            assert_eq!(split_conjunction(&made), expected.iter().collect::<Vec<_>>());
            let chain = conditions().reduce(Expr::and).expect("conditions");
            let empty = LogicalPlanBuilder::empty(false).build().expect("no rows");
            let filter = Filter::new(chain.clone(), empty.into());
            let node = balanced(LogicalPlan::Filter(filter));
            node.apply_expressions(|found| {
                assert_eq!(split_conjunction(found), expected.iter().collect::<Vec<_>>());
                assert_eq!(depth(found), deepest, "{count}");
                Ok(TreeNodeRecursion::Continue)
            })
            .expect("no error");
            // Chains of thousands are as deep as that.
            halcyon_sql::stack::with_stack(|| drop((node, chain)));
        }
        assert_eq!(conjunction([]), None);
    }
}
