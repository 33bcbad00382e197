//! What tests remember of a point plan, to compare ways of planning.

use std::fmt;

use super::rel::{Builder, Rel};

/// The relations that a point plan was made of, as text; remembered where assertions are on.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Relations(String);

impl Relations {
    /// Relations, layout, types of slots and names of tables.
    pub fn of(builder: &Builder, rel: &Rel, output: &[usize]) -> Relations {
        if !cfg!(debug_assertions) {
            return Relations::default();
        }
        let Builder { tables, slots, subqueries } = builder;
        let tables: Vec<_> = tables.iter().map(|table| table.id).collect();
        Relations(format!("{rel:?} gives {output:?}; {tables:?} {slots:?} {subqueries:?}"))
    }
}

impl fmt::Debug for Relations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
