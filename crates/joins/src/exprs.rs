//! Expressions whose columns are numbered anew.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;

pub(crate) type Expr = Arc<dyn PhysicalExpr>;

/// `expr` with each of its columns replaced by what stands in that place of `by`.
pub(crate) fn replaced(expr: &Expr, by: &[Expr]) -> Result<Expr> {
    let moved = Arc::clone(expr).transform_down(|part| {
        let Some(column) = part.downcast_ref::<Column>() else {
            return Ok(Transformed::no(part));
        };
        let new = by.get(column.index());
        let new = new.ok_or_else(|| internal_datafusion_err!("no column {column} below"))?;
        Ok(Transformed::new(Arc::clone(new), true, TreeNodeRecursion::Jump))
    });
    moved.data()
}

/// `expr` with its columns renumbered by `place`.
pub(crate) fn renumbered(
    expr: &Expr,
    mut place: impl FnMut(usize) -> Option<usize>,
) -> Result<Expr> {
    let moved = Arc::clone(expr).transform(|part| {
        let Some(column) = part.downcast_ref::<Column>() else {
            return Ok(Transformed::no(part));
        };
        let new = place(column.index());
        let new = new.ok_or_else(|| internal_datafusion_err!("column {column} is not at hand"))?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), new)) as _))
    });
    moved.data()
}

/// The numbers of an expression's columns, ascending.
pub(crate) fn columns(expr: &Expr) -> Vec<usize> {
    let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Whether an expression is a column, or a cast of one: it may be evaluated later and more than once.
pub(crate) fn is_plain(expr: &Expr) -> bool {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => is_plain(cast.expr()),
        None => expr.downcast_ref::<Column>().is_some(),
    }
}

/// The column that an expression is, or is a cast of.
pub(crate) fn column_of(expr: &Expr) -> Option<usize> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => column_of(cast.expr()),
        None => expr.downcast_ref::<Column>().map(Column::index),
    }
}
