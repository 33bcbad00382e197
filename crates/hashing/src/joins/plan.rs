//! A join as its plan says it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use crate::hash::Hasher;
use crate::layout::{Layout, Nulls, WORDS_MAX};

/// Where a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A column that the side in the table keeps.
    Build(usize),
    /// A column of the side that looks up.
    Probe(usize),
    /// Whether there is a match.
    Mark,
}

/// A condition on pairs whose keys are equal.
#[derive(Clone, Debug)]
pub(crate) struct Residual {
    pub(crate) condition: Arc<dyn PhysicalExpr>,
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<Source>,
}

/// A join. Its left side is put into the table.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) kind: JoinType,
    build_keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) probe_keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) hasher: Hasher,
    /// Whether rows with NULL in their keys find nothing.
    pub(crate) drops_nulls: bool,
    /// Columns of the left side that are kept, and the keys that are texts and no such columns.
    kept: Vec<usize>,
    pub(crate) kept_schema: SchemaRef,
    /// The kept columns that are the keys' texts.
    pub(crate) texts: Vec<usize>,
    /// Keys that are kept behind the columns.
    texts_computed: Vec<usize>,
    pub(crate) residual: Option<Residual>,
    pub(crate) output: Vec<Source>,
    pub(crate) schema: SchemaRef,
}

impl Join {
    /// The join that a node does; `None` if it is one that is not done here.
    pub(crate) fn of(node: &HashJoinExec) -> Result<Option<Join>> {
        let (left, right) = (node.left().schema(), node.right().schema());
        if node.null_aware
            || node.fetch().is_some()
            || *node.partition_mode() == PartitionMode::Auto
        {
            return Ok(None);
        }
        let drops_nulls = node.null_equality() == NullEquality::NullEqualsNothing;
        let mut fields = Vec::new();
        for (of_left, of_right) in node.on() {
            let (ty, other) = (of_left.data_type(&left)?, of_right.data_type(&right)?);
            if ty != other {
                return Ok(None);
            }
            // Rows with NULL find nothing, or have a bit that says so.
            fields.push(Field::new("key", ty, true));
        }
        let nulls = if drops_nulls { Nulls::LeftOut } else { Nulls::Equal };
        let layout = Layout::of(&Schema::new(fields), nulls);
        let Some(layout) = layout.filter(|layout| layout.words() <= WORDS_MAX) else {
            return Ok(None);
        };
        let mut kept = Kept { columns: Vec::new() };
        let kind = *node.join_type();
        let all = columns(kind, left.fields().len(), right.fields().len());
        let chosen: Vec<Source> = match node.projection.as_deref() {
            Some(chosen) => chosen.iter().map(|&column| all[column]).collect(),
            None => all,
        };
        let output = chosen.into_iter().map(|source| kept.source(source)).collect();
        let residual = match node.filter() {
            None => None,
            Some(filter) => {
                let source = |column: &datafusion::physical_plan::joins::utils::ColumnIndex| {
                    Some(match column.side {
                        JoinSide::Left => kept.source(Source::Build(column.index)),
                        JoinSide::Right => Source::Probe(column.index),
                        JoinSide::None => return None,
                    })
                };
                let columns: Option<Vec<_>> = filter.column_indices().iter().map(source).collect();
                let Some(columns) = columns else { return Ok(None) };
                let condition = Arc::clone(filter.expression());
                Some(Residual { condition, schema: Arc::clone(filter.schema()), columns })
            }
        };
        let build_keys: Vec<_> = node.on().iter().map(|(key, _)| Arc::clone(key)).collect();
        let probe_keys = node.on().iter().map(|(_, key)| Arc::clone(key)).collect();
        let mut fields: Vec<Field> =
            kept.columns.iter().map(|&column| left.field(column).clone()).collect();
        let (mut texts, mut texts_computed) = (Vec::new(), Vec::new());
        for (key, _) in layout.texts() {
            let plain = build_keys[key].downcast_ref::<Column>().map(Column::index);
            let place = plain.and_then(|of| kept.columns.iter().position(|&column| column == of));
            texts.push(place.unwrap_or(fields.len()));
            if place.is_none() {
                texts_computed.push(key);
                fields.push(Field::new("key", layout.ty(key).clone(), true));
            }
        }
        Ok(Some(Join {
            kind,
            build_keys,
            probe_keys,
            layout: Arc::new(layout),
            hasher: Hasher::new(),
            drops_nulls,
            kept: kept.columns,
            kept_schema: Arc::new(Schema::new(fields)),
            texts,
            texts_computed,
            residual,
            output,
            schema: node.schema(),
        }))
    }

    /// The keys of rows of the left side, and what is kept of them.
    pub(crate) fn kept(&self, batch: &RecordBatch) -> Result<(Vec<ArrayRef>, RecordBatch)> {
        let keys = values(&self.build_keys, batch)?;
        let columns = self.kept.iter().map(|&column| Arc::clone(batch.column(column)));
        let computed = self.texts_computed.iter().map(|&key| Arc::clone(&keys[key]));
        let columns: Vec<ArrayRef> = columns.chain(computed).collect();
        Ok((keys, batch_of(&self.kept_schema, columns, batch.num_rows())?))
    }

    /// The keys of rows of the right side.
    pub(crate) fn probe_keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        values(&self.probe_keys, batch)
    }

    /// Of the columns of keys, those that are texts.
    pub(crate) fn texts(&self, keys: &[ArrayRef]) -> Vec<ArrayRef> {
        self.layout.texts().map(|(column, _)| Arc::clone(&keys[column])).collect()
    }

    /// The join with a further column behind its output: one that the right side has at place `column`.
    pub(crate) fn with_probe_column(&self, column: usize, field: FieldRef) -> Join {
        let mut join = self.clone();
        join.output.push(Source::Probe(column));
        let fields = self.schema.fields().iter().cloned().chain([field]);
        join.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        join
    }

    /// Whether rows of the left side are given once all of the right side have looked them up.
    pub(crate) fn gives_build_rows(&self) -> bool {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        matches!(self.kind, Left | Full | LeftSemi | LeftAnti | LeftMark)
    }

    /// Which rows of the left side are given once all have been looked up: those with a match, those without (false),
    /// or all of them. The outer `None`: none.
    pub(crate) fn leftover(&self) -> Option<Option<bool>> {
        match self.kind {
            JoinType::Left | JoinType::Full | JoinType::LeftAnti => Some(Some(false)),
            JoinType::LeftSemi => Some(Some(true)),
            JoinType::LeftMark => Some(None),
            _ => None,
        }
    }

    /// Whether nothing is given if the left side has no rows.
    pub(crate) fn needs_build_rows(&self) -> bool {
        use JoinType::{Full, Right, RightAnti, RightMark};
        !matches!(self.kind, Right | Full | RightAnti | RightMark)
    }
}

/// The columns of a join's output.
fn columns(kind: JoinType, left: usize, right: usize) -> Vec<Source> {
    use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
    let mut all = Vec::new();
    if !matches!(kind, RightSemi | RightAnti | RightMark) {
        all.extend((0..left).map(Source::Build));
    }
    if !matches!(kind, LeftSemi | LeftAnti | LeftMark) {
        all.extend((0..right).map(Source::Probe));
    }
    if matches!(kind, LeftMark | RightMark) {
        all.push(Source::Mark);
    }
    all
}

/// Columns of the left side that are wanted.
struct Kept {
    columns: Vec<usize>,
}

impl Kept {
    /// A source, whose column of the left side becomes one of those kept.
    fn source(&mut self, source: Source) -> Source {
        let Source::Build(column) = source else { return source };
        let place = self.columns.iter().position(|&kept| kept == column);
        Source::Build(place.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        }))
    }
}

fn values(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let value = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(batch.num_rows());
    exprs.iter().map(value).collect()
}

/// A batch, also of rows without columns.
pub(crate) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
