//! Views of a catalog that was read back: compiled again, and filled from what they read.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_store::Partition;
use halcyon_txn::{CancelToken, PartitionCell};
use halcyon_views::MaintainedView;

use super::define::{cell_choice, define_stored};
use halcyon_catalog::materialized::MaterializedView;
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{Catalog, Table, TableKind};
use halcyon_plan::bind::Binder;
use halcyon_plan::engine::DataFusion;
use halcyon_sql::error::Result;

/// Gives every materialized view its engine and its rows, in the order of their ids, which puts
/// each after those that it reads. Nobody uses the catalog yet.
///
/// Errors: a view that cannot be compiled or filled any more; the message names it.
pub fn revive(catalog: Catalog, df: &DataFusion) -> Result<Catalog> {
    let views: Vec<TableId> =
        catalog.tables.values().filter(|t| t.materialized().is_some()).map(|t| t.id).collect();
    let mut catalog = Arc::new(catalog);
    for id in views {
        let view = catalog.table(id).clone();
        let maintained = revive_one(&catalog, df, &view).map_err(|error| {
            let name = view.qualified_name();
            error.context(format!("recovery of materialized view \"{name}\""))
        })?;
        Arc::make_mut(&mut catalog).change_table(id, |table| {
            let own = (**table.materialized().expect("the ids are of views")).clone();
            table.cells = vec![maintained.rows().clone()];
            let maintained = Some(maintained);
            table.kind = TableKind::Materialized(Arc::new(MaterializedView { maintained, ..own }));
        });
    }
    Ok(Arc::unwrap_or_clone(catalog))
}

fn revive_one(
    catalog: &Arc<Catalog>,
    df: &DataFusion,
    table: &Arc<Table>,
) -> Result<Arc<MaintainedView>> {
    let view = table.materialized().expect("the caller asks for views");
    let session = SessionVars::of_engine();
    let binder = Binder::new(catalog, &session, df);
    let never = CancelToken::new();
    let mut definition = define_stored(&binder, &view.query, table.columns.len(), &never)?;
    // A database is opened even where no cell can be had: who uses the view is told so.
    definition.cell = cell_choice(view.cell, true);
    let mut rows = Partition::new(table.store_schema());
    for index in &table.indexes {
        rows.add_index(index.def()).expect("an empty partition has no duplicates");
    }
    let mut roots = Vec::new();
    if !view.empty_on_restart {
        for id in definition.reads() {
            let cells = &catalog.table(id).cells;
            roots.extend(cells.iter().map(|cell| (id, cell.root_if_free())));
        }
    }
    let roots = roots.iter().map(|(id, root)| (*id, root.as_ref().expect("nobody uses it yet")));
    let cell = |rows| Arc::new(PartitionCell::derived(table.cells[0].id, rows));
    definition.fill(table.id, roots, rows, cell, catalog.budget.clone(), &never)
}
