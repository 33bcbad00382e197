//! Columns with their collations, and the keys of texts.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use halcyon_collations::{Collation, FIELD_KEY};
use halcyon_functions::{collation, of_name};

use crate::marker::{constant, is_collatable};
use crate::strength::State;

/// The key of a text in a locale; without one, the text.
pub(crate) fn key(text: Expr, locale: Option<&str>) -> Expr {
    match locale {
        Some(locale) => {
            of_name(collation::KEY).expect("a function").call(vec![text, constant(locale)])
        }
        None => text,
    }
}

/// The text of a key.
pub(crate) fn text(key: Expr) -> Expr {
    of_name(collation::TEXT).expect("a function").call(vec![key])
}

/// The collation of a column of a table.
fn state_of_field(field: &Field) -> State {
    if !is_collatable(field.data_type()) {
        return State::None;
    }
    let own = field.metadata().get(FIELD_KEY).and_then(|text| Collation::of_spelled(text));
    State::Implicit(own.map(Arc::new))
}

pub(crate) fn states_of_fields<'f>(fields: impl IntoIterator<Item = &'f FieldRef>) -> Vec<State> {
    fields.into_iter().map(|field| state_of_field(field)).collect()
}

/// The default collations of columns.
pub(crate) fn plain(schema: &DFSchema) -> Vec<State> {
    let of = |field: &FieldRef| match is_collatable(field.data_type()) {
        true => State::Implicit(None),
        false => State::None,
    };
    schema.fields().iter().map(of).collect()
}

/// A query of one column with the keys of its texts in their place.
pub(crate) fn with_keys(plan: Arc<LogicalPlan>, locale: &str) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let keys = columns.into_iter().map(|column| {
        let name = column.name.clone();
        key(Expr::Column(column), Some(locale)).alias(name)
    });
    Projection::try_new(keys.collect(), plan).map(LogicalPlan::Projection)
}
