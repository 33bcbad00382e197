//! A prepared statement: its text, and the plan that it has at present.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::Result;
use halcyon_sql::parse;
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_sql::utility::Utility;

/// A prepared statement: planned once, planned again only when the catalog has changed.
///
/// It belongs to the database, not to a session; one per session keeps cores apart.
pub struct Statement {
    /// A copy of this statement alone, so that noting what runs touches no count that others share.
    pub(crate) text: Arc<str>,
    /// Types of the parameters as they were declared; `None` where they were inferred.
    pub(crate) types: Vec<Option<SqlType>>,
    pub(crate) prepared: RefCell<Arc<Prepared>>,
    /// Where the session that ran the statement last keeps its counts.
    pub(crate) tally: Cell<usize>,
}

impl Statement {
    pub(crate) fn new(prepared: Arc<Prepared>, types: &[Option<SqlType>]) -> Self {
        Statement {
            text: Arc::from(&*prepared.text),
            types: types.to_vec(),
            prepared: RefCell::new(prepared),
            tally: Cell::new(0),
        }
    }

    /// The text it was made from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Types of `$1`, `$2`, ….
    pub fn params(&self) -> Vec<SqlType> {
        self.prepared.borrow().params.clone()
    }

    /// Columns of the result; empty if there is none.
    pub fn columns(&self) -> Arc<[ResultColumn]> {
        self.prepared.borrow().columns.clone()
    }

    /// First words of the command tag.
    pub fn tag(&self) -> &'static str {
        self.prepared.borrow().tag
    }

    /// Whether it is an empty text.
    pub fn is_empty(&self) -> bool {
        matches!(self.prepared.borrow().plan, Plan::Empty)
    }
}

/// Whether a failed transaction block still takes a plan: COMMIT and ROLLBACK in all forms, and
/// nothing at all.
pub(crate) fn is_taken_after_failure(plan: &Plan) -> bool {
    use Utility::{Commit, Rollback, RollbackTo};
    matches!(plan, Plan::Empty | Plan::Utility(Commit { .. } | Rollback { .. } | RollbackTo(_)))
}

/// The statements of a text, each as a text of its own.
///
/// Errors: 42601 with the position if one of them is malformed.
pub fn split_statements(text: &str) -> Result<Vec<&str>> {
    Ok(parse::parse(text)?.into_iter().map(|parsed| parsed.text).collect())
}
