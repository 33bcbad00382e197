//! Plans in which texts have collations: whatever orders such texts orders their keys.
//!
//! Columns have collations ([`halcyon_collations::FIELD_KEY`] in their fields), and COLLATE gives an expression one:
//! the dialect writes it as a call of [`MARKER`]. [`settle`] goes over a bound plan once, finds out by PostgreSQL's
//! rules ([`strength`]) which collation each comparison has, and rewrites what depends on an order:
//!
//! | of texts with a locale's order | becomes |
//! |---|---|
//! | `a < b` and its kin, BETWEEN, `< ANY (SELECT …)` | the same of keys |
//! | a key of ORDER BY, in windows and aggregates too | the key of the text |
//! | `min`, `max`, `greatest`, `least` | the text of the least or greatest key |
//! | `lower`, `upper` in Turkish and Azerbaijani | functions of these languages |
//!
//! Equality needs nothing: collations are deterministic, so that texts are equal if their bytes are. Behind this pass
//! nobody knows of collations; an index, whose order is that of bytes, is not found by a comparison of keys.
//!
//! Invariant, checked by `no_marker_is_left`: a settled plan has no call of [`MARKER`]. A node that is not known
//! here and might order texts with collations is refused, never passed by.
//! Cost: a plan without collations is looked at once; one with collations is rewritten once.
//! Source: PostgreSQL's documentation, 24.2.2; `parse_collate.c`.

#![forbid(unsafe_code)]

mod columns;
mod expressions;
mod marker;
mod nodes;
mod strength;

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use halcyon_collations::{Collation, FIELD_KEY};
use halcyon_sql::error;

pub use marker::{MARKER, function, involves, involves_expr};

/// Finds the collation that a name with or without a schema stands for. Errors: 42704.
pub type Find<'a> = &'a dyn Fn(&[String]) -> error::Result<Arc<Collation>>;

/// Collations of columns; `None` for the default one, and for columns that have none.
pub type Collations = Vec<Option<Arc<Collation>>>;

/// The field with this collation in its metadata, and no other.
pub fn with_collation(field: &FieldRef, collation: Option<&Collation>) -> FieldRef {
    let mut field = Arc::clone(field);
    match collation {
        Some(collation) => {
            let spelled = collation.spelled();
            Arc::make_mut(&mut field).metadata_mut().insert(FIELD_KEY.to_owned(), spelled);
        }
        None if field.metadata().contains_key(FIELD_KEY) => {
            Arc::make_mut(&mut field).metadata_mut().remove(FIELD_KEY);
        }
        None => {}
    }
    field
}

/// A plan without markers.
pub struct Settled {
    /// The plan.
    pub plan: LogicalPlan,
    /// The collations of its columns.
    pub columns: Collations,
    /// Whether an order of texts is that of a locale.
    pub orders: bool,
}

/// Settles the collations of a plan with PostgreSQL's types.
///
/// Errors: 42704 for an unknown collation, 42P21 and 42P22 for those that exclude each other, 42804 for COLLATE of
/// other things than texts, 0A000.
pub fn settle(plan: LogicalPlan, find: Find<'_>) -> Result<Settled> {
    if !involves(&plan)? {
        let columns = vec![None; plan.schema().fields().len()];
        return Ok(Settled { plan, columns, orders: false });
    }
    let mut pass = expressions::Pass::new(find);
    let (plan, states) = pass.plan(plan)?;
    let columns = states.into_iter().map(strength::State::into_column).collect();
    Ok(Settled { plan, columns, orders: pass.orders })
}

/// Settles the collations of an expression over the columns of a schema, and tells that of its value.
///
/// Errors: those of [`settle`].
pub fn settle_expr(
    expr: Expr,
    schema: &DFSchema,
    find: Find<'_>,
) -> Result<(Expr, Option<Arc<Collation>>)> {
    if !involves_expr(&expr, schema)? {
        return Ok((expr, None));
    }
    let mut pass = expressions::Pass::new(find);
    let (expr, state) = pass.over(schema, expr)?;
    Ok((expr, state.into_column()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::functions_aggregate::expr_fn::min;
    use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};
    use halcyon_collations::builtin;
    use halcyon_sql::error::{SqlError, SqlState};

    fn find(name: &[String]) -> error::Result<Arc<Collation>> {
        let found = name.last().and_then(|name| builtin(name));
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, "no such collation");
        found.map(|found| Arc::new(found.collation.clone())).ok_or_else(missing)
    }

    /// A table of a column with collation `sv-x-icu`, one with `de-x-icu`, one without, and a number.
    fn table() -> LogicalPlanBuilder {
        let text = |name: &str, collation: Option<&str>| {
            let field = Arc::new(Field::new(name, DataType::Utf8View, true));
            let own = collation.and_then(builtin).map(|own| &own.collation);
            with_collation(&field, own)
        };
        let number = Arc::new(Field::new("n", DataType::Int32, true));
        let texts =
            [text("sv", Some("sv-x-icu")), text("de", Some("de-x-icu")), text("plain", None)];
        let fields: Vec<FieldRef> = texts.into_iter().chain([number]).collect();
        let source = LogicalTableSource::new(Arc::new(Schema::new(fields)));
        LogicalPlanBuilder::scan("t", Arc::new(source), None).expect("a scan")
    }

    fn collate(expr: Expr, name: &str) -> Expr {
        function().call(vec![expr, lit(name)])
    }

    fn settled(plan: LogicalPlanBuilder) -> Result<Settled> {
        settle(plan.build().expect("a plan"), &find)
    }

    #[test]
    fn no_marker_is_left() {
        let plan = table()
            .filter(collate(col("plain"), "C").lt(lit("z")).and(col("sv").gt(lit("a"))))
            .and_then(|plan| {
                plan.project([collate(col("plain"), "de-x-icu").alias("x"), col("sv")])
            })
            .and_then(|plan| plan.sort([col("x").sort(true, false), col("sv").sort(true, false)]))
            .expect("a plan");
        let Settled { plan, columns, orders } = settled(plan).expect("settled");
        let mut markers = 0;
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                markers += usize::from(expr.to_string().contains(MARKER));
                Ok(TreeNodeRecursion::Continue)
            })
        })
        .expect("looked at");
        assert_eq!(markers, 0, "{plan}");
        let shown = plan.to_string();
        assert!(
            orders && shown.contains("Sort: collation\u{1}key(x, Utf8View(\"de\"))"),
            "{shown}"
        );
        assert!(shown.contains("t.plain < Utf8(\"z\")"), "{shown}");
        assert!(shown.contains("collation\u{1}key(t.sv, Utf8View(\"sv\")) >"), "{shown}");
        let names: Vec<_> = columns.iter().flatten().map(|own| own.name.as_str()).collect();
        assert_eq!(names, ["de-x-icu", "sv-x-icu"]);
    }

    #[test]
    fn least_texts_are_the_texts_of_least_keys_under_the_same_name() {
        let plan =
            table().aggregate([col("n")], [min(col("sv")), min(col("plain"))]).expect("a plan");
        let before = plan.schema().field_names();
        let Settled { plan, columns, .. } = settled(plan).expect("settled");
        assert_eq!(plan.schema().field_names(), before);
        let types: Vec<_> = plan.schema().fields().iter().map(|field| field.data_type()).collect();
        assert_eq!(types, [&DataType::Int32, &DataType::Utf8View, &DataType::Utf8View]);
        assert!(columns[1].is_some() && columns[2].is_none());
    }

    #[test]
    fn plans_without_collations_stay_and_conflicts_are_errors() {
        let plain =
            table().project([col("n")]).and_then(LogicalPlanBuilder::build).expect("a plan");
        assert!(involves(&plain).expect("looked at"), "the table has columns with collations");
        let refused = |condition: Expr| {
            let plan = table().filter(condition).expect("a plan");
            settled(plan).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let sv = || col("sv");
        assert!(refused(sv().lt(col("de"))).contains("could not determine which collation"));
        assert!(refused(sv().eq(col("de"))).contains("could not determine which collation"));
        assert!(refused(collate(sv(), "C").lt(collate(sv(), "sv-x-icu"))).contains("mismatch"));
        assert!(refused(collate(col("n"), "C").eq(lit(1))).contains("not supported by type"));
        assert!(refused(collate(sv(), "nope").eq(lit(""))).contains("no such collation"));
        assert_eq!(refused(sv().lt(col("plain"))), "");
        assert_eq!(refused(sv().lt(collate(col("de"), "C"))), "");
    }
}
