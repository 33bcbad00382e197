//! What the catalog says of a materialized view, beside the columns of its table.

use std::sync::Arc;

use halcyon_base::ids::TableId;
use halcyon_sql::syntax::ViewCell;
use halcyon_views::MaintainedView;
use serde::{Deserialize, Serialize};

/// A materialized view's definition, and the view that runs.
#[derive(Clone)]
pub struct MaterializedView {
    /// The query as SQL text, with every relation's schema written out.
    pub query: String,
    /// Tables, streams and materialized views that it reads, by ascending id.
    pub reads: Vec<TableId>,
    /// What its rows must not be.
    pub guards: Vec<ViewGuard>,
    /// A view over streams in a database on disk: it begins without rows whenever the database is
    /// opened, since nobody has kept the events.
    pub empty_on_restart: bool,
    /// Where its program runs.
    pub cell: ViewCell,
    /// `None` in a catalog that was read back and is not in use.
    pub maintained: Option<Arc<MaintainedView>>,
}

impl MaterializedView {
    /// The view that runs. Panics: in a catalog that is not in use.
    #[inline]
    pub fn maintained(&self) -> &Arc<MaintainedView> {
        self.maintained.as_ref().expect("views of a database in use have engines")
    }
}

/// CREATE ASSERTION: no row of a view may satisfy a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewGuard {
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The condition as SQL text, over the columns of the view.
    pub condition: String,
    /// Role that owns it.
    pub owner: String,
}
