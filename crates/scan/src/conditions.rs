//! Conditions over the rows of a segment, one after the other, each over the rows that those before have kept.
//!
//! Words: a condition is *fixed* if it stands in the statement, and *found* if the execution finds it: the keys in
//! a join's hash table, the greatest row that a TopK still wants. What a join finds is only worth looking at while
//! it drops rows, so a found condition that keeps nearly all rows is given up.
//!
//! Rows are kept as a mask while they are many, and as row numbers when fewer than one in [`SPARSE`] are left: from
//! then on a column's other rows are not touched. A column that no condition and no reader needs is never read.
//!
//! Where the zone of a segment's column says that a condition is true of none of its rows, or of all, no row is looked
//! at ([`mod@crate::bounds`]).
//!
//! Invariant, checked by `conditions_keep_what_one_filter_keeps`: the rows kept are those for which the AND of all
//! conditions is true.
//! Cost: O(rows) for the first condition, O(rows kept) for each other; no copy of a column whose rows all stay.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, filter, prep_null_mask_filter, take};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

use crate::bounds::{Answer, Bound};
use crate::lazy::may_fail;
use crate::members::Members;

/// Rows are numbered instead of masked when fewer than one in so many are left.
const SPARSE: usize = 4;

/// Rows over which a found condition is judged, and the share of them that it may keep, in percent.
const TRIAL_ROWS: usize = 32_768;
const KEPT_MOST: usize = 80;

/// A condition over some columns of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// The columns, by their places among those that the scan reads.
    columns: Vec<usize>,
    /// Over a batch of these columns alone.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// What `expr` asks, if that is whether an integer is among a list.
    members: Option<Members>,
    /// What `expr` compares, if that is a column with a constant.
    bound: Option<Bound>,
    /// Whether the condition may have an error for a row that those before have dropped.
    may_fail: bool,
}

impl Condition {
    /// A condition whose columns are places in `schema`, the columns that a scan reads.
    pub(crate) fn new(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(&expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let narrow = Arc::new(schema.project(&columns)?);
        let moved = expr.transform(|part| {
            let Some(column) = part.downcast_ref::<Column>() else {
                return Ok(Transformed::no(part));
            };
            let place = columns.binary_search(&column.index());
            let place =
                place.map_err(|_| internal_datafusion_err!("a column was just collected"))?;
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as _))
        });
        let expr = moved.data()?;
        let (members, bound) = (Members::of(&expr), Bound::of(&expr, &narrow));
        let may_fail = may_fail(&expr);
        Ok(Condition { expr, columns, schema: narrow, members, bound, may_fail })
    }

    /// The conditions that `predicate` is the AND of: first plain comparisons with constants, then others that cannot
    /// fail, then the others in their order.
    pub(crate) fn all_of(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Vec<Self>> {
        let (mut plain, others): (Vec<_>, Vec<_>) =
            split_conjunction(predicate).into_iter().partition(|part| is_plain(part));
        let (fallible, safe): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|part| may_fail(part));
        plain.extend(safe.into_iter().chain(fallible));
        plain.into_iter().map(|part| Condition::new(Arc::clone(part), schema)).collect()
    }

    /// Whether the condition is true, row by row; where NULL, it is not.
    fn holds(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        if let ([column], Some(members)) = (&columns[..], &self.members)
            && let Some(held) = members.hold(column)
        {
            return Ok(held);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let held = self.expr.evaluate(&batch)?.into_array(rows)?;
        let Some(held) = held.as_boolean_opt() else {
            let ty = held.data_type();
            return Err(internal_datafusion_err!("a condition is of type {ty}"));
        };
        Ok(if held.null_count() > 0 { prep_null_mask_filter(held) } else { held.clone() })
    }

    /// What is known of all rows of a segment whose only column lies in a zone.
    fn answer(&self, zone: &ZoneOf<'_>) -> Answer {
        let ([column], true) = (&self.columns[..], self.bound.is_some() || self.members.is_some())
        else {
            return Answer::Of;
        };
        let Some((zone, may_have_nulls)) = zone(*column) else { return Answer::Of };
        let answer = match (&self.bound, &self.members) {
            (Some(bound), _) => bound.answer(zone),
            (_, Some(members)) => members.answer(zone),
            _ => Answer::Of,
        };
        if answer == Answer::All && may_have_nulls { Answer::Of } else { answer }
    }

    /// The columns, by their places among those that the scan reads.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Over a batch of the columns alone.
    pub(crate) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }
}

/// Whether an expression compares a column with constants.
fn is_plain(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_some();
    let is_constant = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().is_some();
    if let Some(comparison) = expr.downcast_ref::<BinaryExpr>() {
        use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        return matches!(comparison.op(), Eq | NotEq | Lt | LtEq | Gt | GtEq)
            && is_column(comparison.left())
            && is_constant(comparison.right());
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return is_column(list.expr()) && list.list().iter().all(is_constant);
    }
    let tested = expr.downcast_ref::<IsNullExpr>().map(IsNullExpr::arg);
    let tested = tested.or(expr.downcast_ref::<IsNotNullExpr>().map(IsNotNullExpr::arg));
    tested.is_some_and(is_column)
}

/// What an execution has found so far of one found condition.
#[derive(Debug)]
pub(crate) struct Found {
    source: Arc<DynamicFilterPhysicalExpr>,
    /// The state of the source that `parts` were made of.
    generation: Option<u64>,
    parts: Vec<Tried>,
    /// How all parts together did, whatever the source knew at the time.
    all: Trial,
}

/// A part of a found condition, and how it did.
#[derive(Debug)]
struct Tried {
    condition: Condition,
    trial: Trial,
}

/// Rows that were looked at, and how many of them were kept.
#[derive(Debug, Default)]
struct Trial {
    rows: usize,
    kept: usize,
}

impl Trial {
    fn add(&mut self, rows: usize, kept: usize) {
        self.rows += rows;
        self.kept += kept;
    }

    fn is_worth_it(&self) -> bool {
        self.rows < TRIAL_ROWS || self.kept * 100 <= self.rows * KEPT_MOST
    }
}

impl Found {
    pub(crate) fn new(source: Arc<DynamicFilterPhysicalExpr>) -> Self {
        Found { source, generation: None, parts: Vec::new(), all: Trial::default() }
    }

    /// Looks whether the source knows more than before.
    fn refresh(&mut self, schema: &Schema) -> Result<()> {
        let generation = self.source.snapshot_generation();
        if self.generation == Some(generation) {
            return Ok(());
        }
        let current = self.source.current()?;
        let parts = Condition::all_of(&current, schema)?.into_iter();
        let parts = parts.filter(|part| !part.columns.is_empty() || !is_true(&part.expr));
        self.parts = parts.map(|condition| Tried { condition, trial: Trial::default() }).collect();
        self.generation = Some(generation);
        Ok(())
    }
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let constant = expr.downcast_ref::<Literal>();
    constant.is_some_and(|constant| constant.value() == &true.into())
}

/// Which rows of a segment are left.
enum Kept {
    All,
    Masked(BooleanArray),
    Numbered(UInt32Array),
}

/// Gives the zone of a column of a segment, and whether the column may have NULLs, by its place among those that the
/// scan reads.
pub(crate) type ZoneOf<'a> = dyn Fn(usize) -> Option<((i64, i64), bool)> + 'a;

/// Gives a column of a segment by its place among those that the scan reads.
pub(crate) type Read<'a> = dyn FnMut(usize) -> Result<ArrayRef> + 'a;

/// The rows of a segment while conditions are tried.
pub(crate) struct Rows<'a> {
    read: &'a mut Read<'a>,
    zone: Option<&'a ZoneOf<'a>>,
    rows: usize,
    kept: Kept,
    left: usize,
    /// Columns as they lie in the segment.
    whole: Vec<Option<ArrayRef>>,
    /// Columns of numbered rows.
    thin: Vec<Option<ArrayRef>>,
}

impl<'a> Rows<'a> {
    /// All rows of a segment of which `columns` columns can be read.
    pub(crate) fn new(rows: usize, columns: usize, read: &'a mut Read<'a>) -> Self {
        let none = || vec![None; columns];
        let (kept, whole, thin) = (Kept::All, none(), none());
        Rows { read, zone: None, rows, kept, left: rows, whole, thin }
    }

    /// The same, of which zones are known.
    pub(crate) fn within(self, zone: &'a ZoneOf<'a>) -> Self {
        Rows { zone: Some(zone), ..self }
    }

    /// Rows that are left.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether a column was read.
    pub(crate) fn has_read(&self) -> bool {
        self.whole.iter().any(Option::is_some)
    }

    fn whole(&mut self, column: usize) -> Result<ArrayRef> {
        if let Some(read) = &self.whole[column] {
            return Ok(Arc::clone(read));
        }
        let read = (self.read)(column)?;
        Ok(Arc::clone(self.whole[column].insert(read)))
    }

    /// A column for the next condition: all rows, or those numbered.
    fn column(&mut self, column: usize) -> Result<ArrayRef> {
        if let Some(thin) = &self.thin[column] {
            return Ok(Arc::clone(thin));
        }
        let whole = self.whole(column)?;
        let Kept::Numbered(numbers) = &self.kept else { return Ok(whole) };
        let thin = take(&whole, numbers, None)?;
        Ok(Arc::clone(self.thin[column].insert(thin)))
    }

    /// Keeps the rows for which a condition is true; returns how many it saw and how many it kept.
    fn keep(&mut self, condition: &Condition) -> Result<(usize, usize)> {
        if condition.may_fail {
            self.number();
        }
        let seen = if let Kept::Numbered(_) = self.kept { self.left } else { self.rows };
        match self.zone.map_or(Answer::Of, |zone| condition.answer(zone)) {
            Answer::Of => {}
            Answer::All => return Ok((seen, seen)),
            Answer::None => {
                self.left = 0;
                return Ok((seen, 0));
            }
        }
        let columns = condition.columns.iter().map(|&column| self.column(column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let held = condition.holds(columns, seen)?;
        let kept = held.true_count();
        if kept == seen {
            return Ok((seen, kept));
        }
        match &self.kept {
            Kept::All => {
                self.left = kept;
                self.kept = Kept::Masked(held);
            }
            Kept::Masked(before) => {
                let both = BooleanArray::new(before.values() & held.values(), None);
                self.left = both.true_count();
                self.kept = Kept::Masked(both);
            }
            Kept::Numbered(numbers) => {
                let numbers = filter(numbers, &held)?;
                self.left = kept;
                for thin in self.thin.iter_mut().flatten() {
                    *thin = filter(thin, &held)?;
                }
                self.kept = Kept::Numbered(numbers.as_primitive().clone());
            }
        }
        if self.left * SPARSE < self.rows {
            self.number();
        }
        Ok((seen, kept))
    }

    /// Numbers the rows that are left, if they are masked.
    fn number(&mut self) {
        if let Kept::Masked(mask) = &self.kept {
            let places = mask.values().set_indices().map(|place| place as u32);
            self.kept = Kept::Numbered(UInt32Array::from_iter_values(places));
        }
    }

    /// Keeps the rows for which all conditions are true. Found ones come last.
    pub(crate) fn keep_all(
        &mut self,
        fixed: &[Condition],
        found: &mut [Found],
        schema: &Schema,
    ) -> Result<()> {
        for condition in fixed {
            if self.left == 0 {
                return Ok(());
            }
            self.keep(condition)?;
        }
        for found in found.iter_mut().filter(|found| found.all.is_worth_it()) {
            found.refresh(schema)?;
            let before = self.left;
            for part in found.parts.iter_mut().filter(|part| part.trial.is_worth_it()) {
                if self.left == 0 {
                    break;
                }
                let (seen, kept) = self.keep(&part.condition)?;
                part.trial.add(seen, kept);
            }
            if !found.parts.is_empty() {
                found.all.add(before, self.left);
            }
        }
        Ok(())
    }

    /// Columns with all rows, and which of them are left, if rows are kept as a mask.
    pub(crate) fn masked(
        &mut self,
        columns: &[usize],
    ) -> Result<Option<(Vec<ArrayRef>, BooleanArray)>> {
        let Kept::Masked(mask) = &self.kept else { return Ok(None) };
        let mask = mask.clone();
        let whole = columns.iter().map(|&column| self.whole(column)).collect::<Result<Vec<_>>>()?;
        Ok(Some((whole, mask)))
    }

    /// The rows that are left, of these columns.
    pub(crate) fn columns(&mut self, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let mask = match &self.kept {
            Kept::Masked(mask) => {
                let builder = FilterBuilder::new(mask);
                Some(if columns.len() > 1 { builder.optimize() } else { builder }.build())
            }
            _ => None,
        };
        let column = |&column: &usize| match &mask {
            Some(mask) => Ok(mask.filter(&self.whole(column)?)?),
            None => self.column(column),
        };
        columns.iter().map(column).collect()
    }
}

/// Whether conditions may be tried on rows of a sample: nothing in them has an effect or waits.
pub(crate) fn may_be_tried(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut harmless = true;
    let walked = expr.apply(|part| {
        harmless &=
            !part.is_volatile_node() && part.downcast_ref::<DynamicFilterPhysicalExpr>().is_none();
        Ok(match harmless {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    });
    walked.is_ok() && harmless
}

#[cfg(test)]
mod tests;
