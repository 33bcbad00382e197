//! A prepared statement: its text, and the plan that it has at present.

use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;
use std::time::Duration;

use halcyon_prepare::cache::{Bound, Lookup};
use halcyon_prepare::plan::{Plan, Prepared};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse;
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::stack::with_stack_for;
use halcyon_sql::types::SqlType;
use halcyon_sql::utility::Utility;

/// A prepared statement: planned once, and planned again only when the catalog has changed.
///
/// A statement belongs to the database, not to a session. A statement per session keeps cores from
/// sharing cache lines.
pub struct Statement {
    /// The text from which the statement was made.
    source: Arc<str>,
    /// The text as it is shown while the statement runs: [`shown`] of its source.
    shown: Arc<str>,
    /// The text from which the plan was made, under which the statement is counted: that of its
    /// shape if its literals are parameters of the plan; [`shown`].
    pub(crate) counted_as: RefCell<Arc<str>>,
    /// Declared types of the parameters; `None` where the type was inferred.
    pub(crate) types: Vec<Option<SqlType>>,
    pub(crate) bound: RefCell<Bound>,
    /// The outcome of the last look-up of the plan, until it has been counted.
    pub(crate) lookup: Cell<Option<Lookup>>,
    /// How long planning took, for the first run right behind it: so much less time the statement has.
    pub(crate) planned: Cell<Duration>,
    /// The slot in which the session that ran the statement last keeps its counts.
    pub(crate) tally: Cell<usize>,
    /// Whether somebody has been told the columns of its rows ([`Statement::fix_columns`]).
    columns_are_fixed: Cell<bool>,
}

impl Statement {
    /// Makes a statement that will run often: it has its own copy of its text, so that noting the
    /// running text touches no reference count that other sessions share.
    pub(crate) fn lasting(bound: Bound, text: &str, types: &[Option<SqlType>]) -> Self {
        let source: Arc<str> = text.into();
        let shown = shown(&source);
        let counted_as = match bound.has_constants() {
            true => Arc::from(beginning(&bound.prepared.text)),
            false => shown.clone(),
        };
        Statement::new(bound, source, shown, counted_as, types)
    }

    /// Makes a statement that will run once: it is counted under its plan's text.
    pub(crate) fn passing(bound: Bound, text: &str, types: &[Option<SqlType>]) -> Self {
        let counted_as = shown(&bound.prepared.text);
        let (source, shown) = match bound.has_constants() {
            true => {
                let source = text.into();
                let shown = shown(&source);
                (source, shown)
            }
            false => (bound.prepared.text.clone(), counted_as.clone()),
        };
        Statement::new(bound, source, shown, counted_as, types)
    }

    fn new(
        bound: Bound,
        source: Arc<str>,
        shown: Arc<str>,
        counted_as: Arc<str>,
        types: &[Option<SqlType>],
    ) -> Self {
        Statement {
            source,
            shown,
            counted_as: RefCell::new(counted_as),
            types: types.to_vec(),
            lookup: Cell::new(Some(bound.lookup)),
            bound: RefCell::new(bound),
            planned: Cell::default(),
            tally: Cell::new(0),
            columns_are_fixed: Cell::new(false),
        }
    }

    /// Fixes the columns of the statement's rows: a client has been told them, or may rely on them.
    ///
    /// After a change of the catalog that changes their number, names or types, runs of the statement
    /// fail with 0A000 instead of giving rows of another form.
    pub fn fix_columns(&self) {
        self.columns_are_fixed.set(true);
    }

    /// Whether the columns are free to change to `columns`. Errors: 0A000.
    pub(crate) fn accept_columns(&self, columns: &[ResultColumn]) -> Result<()> {
        let form = |column: &ResultColumn| (column.name.clone(), column.client_type());
        let is_same = || self.columns().iter().map(form).eq(columns.iter().map(form));
        match !self.columns_are_fixed.get() || is_same() {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            )),
        }
    }

    /// Replaces the statement's plan.
    pub(crate) fn bind_again(&self, bound: Bound) {
        self.lookup.set(Some(bound.lookup));
        if bound.has_constants() || self.bound.borrow().has_constants() {
            *self.counted_as.borrow_mut() = shown(&bound.prepared.text);
        }
        *self.bound.borrow_mut() = bound;
    }

    /// The statement's present plan.
    #[inline]
    pub(crate) fn prepared(&self) -> Ref<'_, Arc<Prepared>> {
        Ref::map(self.bound.borrow(), |bound| &bound.prepared)
    }

    /// The statement's own text as it is shown, if it is counted under another.
    #[inline]
    pub(crate) fn own_text(&self) -> Option<Arc<str>> {
        let differs = !Arc::ptr_eq(&self.shown, &self.counted_as.borrow());
        differs.then(|| Arc::clone(&self.shown))
    }

    /// The text from which the statement was made.
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

    /// Columns of the result; empty if the statement returns no rows.
    pub fn columns(&self) -> Arc<[ResultColumn]> {
        self.prepared().columns.clone()
    }

    /// First words of the command tag.
    pub fn tag(&self) -> &'static str {
        self.prepared().tag
    }

    /// Whether the statement's text is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self.prepared().plan, Plan::Empty)
    }
}

/// The most bytes of a text that are kept to show and to count it by: sessions and the table of statements keep
/// many texts for long, and a text may have gigabytes.
const SHOWN_BYTES_MAX: usize = 4096;

/// A text as it is kept: the text itself, or its beginning.
fn shown(text: &Arc<str>) -> Arc<str> {
    match text.len() > SHOWN_BYTES_MAX {
        false => text.clone(),
        true => Arc::from(beginning(text)),
    }
}

/// The beginning of a text that is longer than is kept.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// Whether a failed transaction block still accepts a plan: COMMIT and ROLLBACK in all forms, and
/// the empty statement.
pub(crate) fn is_taken_after_failure(plan: &Plan) -> bool {
    use Utility::{Commit, Rollback, RollbackTo};
    matches!(plan, Plan::Empty | Plan::Utility(Commit { .. } | Rollback { .. } | RollbackTo(_)))
}

/// Splits a text into its statements, each with its own text.
///
/// Errors: 42601 with the position if one of them is malformed.
pub fn split_statements(text: &str) -> Result<Vec<&str>> {
    // The trees are dropped there too.
    with_stack_for(text.len(), || {
        Ok(parse::parse(text)?.into_iter().map(|parsed| parsed.text).collect())
    })
}
