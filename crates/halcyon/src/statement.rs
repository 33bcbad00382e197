//! A prepared statement: its text, and the plan that it has at present.

use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;

use halcyon_prepare::cache::{Bound, Lookup};
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
    /// The text it was made from.
    source: Arc<str>,
    /// The text that its plan was made from, by which it is counted: that of its shape, if its literals
    /// are parameters of the plan.
    pub(crate) counted_as: RefCell<Arc<str>>,
    /// Types of the parameters as they were declared; `None` where they were inferred.
    pub(crate) types: Vec<Option<SqlType>>,
    pub(crate) bound: RefCell<Bound>,
    /// What the last lookup of its plan came to, until that is counted.
    pub(crate) lookup: Cell<Option<Lookup>>,
    /// Where the session that ran the statement last keeps its counts.
    pub(crate) tally: Cell<usize>,
}

impl Statement {
    /// A statement that will run often: it has a copy of its text, so that noting what runs touches no
    /// count that other sessions share.
    pub(crate) fn lasting(bound: Bound, text: &str, types: &[Option<SqlType>]) -> Self {
        let source: Arc<str> = text.into();
        let counted_as = match bound.has_constants() {
            true => Arc::from(&*bound.prepared.text),
            false => source.clone(),
        };
        Statement::new(bound, source, counted_as, types)
    }

    /// A statement that will run once: it is counted by the text that its plan has.
    pub(crate) fn passing(bound: Bound, text: &str, types: &[Option<SqlType>]) -> Self {
        let counted_as = bound.prepared.text.clone();
        let source = match bound.has_constants() {
            true => text.into(),
            false => counted_as.clone(),
        };
        Statement::new(bound, source, counted_as, types)
    }

    fn new(
        bound: Bound,
        source: Arc<str>,
        counted_as: Arc<str>,
        types: &[Option<SqlType>],
    ) -> Self {
        Statement {
            source,
            counted_as: RefCell::new(counted_as),
            types: types.to_vec(),
            lookup: Cell::new(Some(bound.lookup)),
            bound: RefCell::new(bound),
            tally: Cell::new(0),
        }
    }

    /// Puts another plan in the place of the one it has.
    pub(crate) fn bind_again(&self, bound: Bound) {
        self.lookup.set(Some(bound.lookup));
        if bound.has_constants() || self.bound.borrow().has_constants() {
            *self.counted_as.borrow_mut() = bound.prepared.text.clone();
        }
        *self.bound.borrow_mut() = bound;
    }

    /// The plan that it has at present.
    #[inline]
    pub(crate) fn prepared(&self) -> Ref<'_, Arc<Prepared>> {
        Ref::map(self.bound.borrow(), |bound| &bound.prepared)
    }

    /// The text it was made from, if it is counted by another.
    #[inline]
    pub(crate) fn own_text(&self) -> Option<Arc<str>> {
        let differs = !Arc::ptr_eq(&self.source, &self.counted_as.borrow());
        differs.then(|| Arc::clone(&self.source))
    }

    /// The text it was made from.
    pub fn text(&self) -> &str {
        &self.source
    }

    /// Types of `$1`, `$2`, ….
    pub fn params(&self) -> Vec<SqlType> {
        let bound = self.bound.borrow();
        match bound.has_constants() {
            true => Vec::new(),
            false => bound.prepared.params.clone(),
        }
    }

    /// The parameters that stand for arrays: numbers from 1, types of elements. A value of one is the
    /// array's text (`{1,2}`).
    pub fn array_params(&self) -> Vec<(usize, SqlType)> {
        let bound = self.bound.borrow();
        match bound.has_constants() {
            true => Vec::new(),
            false => bound.prepared.arrays.clone(),
        }
    }

    /// Columns of the result; empty if there is none.
    pub fn columns(&self) -> Arc<[ResultColumn]> {
        self.prepared().columns.clone()
    }

    /// First words of the command tag.
    pub fn tag(&self) -> &'static str {
        self.prepared().tag
    }

    /// Whether it is an empty text.
    pub fn is_empty(&self) -> bool {
        matches!(self.prepared().plan, Plan::Empty)
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
