//! The side of a join that looks up: pairs of rows, what a condition leaves of them, and the rows that become of
//! them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{interleave, take};
use datafusion::common::{JoinType, Result, internal_err};

use crate::joins::build::{BLOCK_BITS, Build, nulls};
use crate::joins::plan::{Join, Source, batch_of};
use crate::keys::Rows;

/// Rows of the table that are looked at before others may run, whether they give pairs or not.
const LOOKS_MAX: usize = 1 << 16;

/// Pairs of rows: of a batch that looks up, and numbers of rows in the table. Number 0: no row.
#[derive(Debug, Default)]
struct Pairs {
    probe: Vec<u32>,
    build: Vec<u32>,
}

impl Pairs {
    fn push(&mut self, probe: u32, build: u32) {
        self.probe.push(probe);
        self.build.push(build);
    }

    fn len(&self) -> usize {
        self.probe.len()
    }
}

/// A batch that looks up, as far as it has got.
pub(crate) struct Probe<const N: usize> {
    join: Arc<Join>,
    build: Arc<Build<N>>,
    batch: Option<RecordBatch>,
    rows: Rows<N>,
    texts: Vec<ArrayRef>,
    /// By row: the first number of the chain that its key may be in.
    first: Vec<u32>,
    /// The row that is next, and the number in its chain that is; 0: its first.
    row: usize,
    number: u32,
    /// By row: whether it has a match.
    matched: Vec<bool>,
    /// Rows for which was said whether they have a match.
    told: usize,
}

impl<const N: usize> Probe<N> {
    pub(crate) fn new(build: &Arc<Build<N>>) -> Self {
        Probe {
            join: Arc::clone(&build.join),
            build: Arc::clone(build),
            batch: None,
            rows: Rows::new(),
            texts: Vec::new(),
            first: Vec::new(),
            row: 0,
            number: 0,
            matched: Vec::new(),
            told: 0,
        }
    }

    /// The table.
    pub(crate) fn build(&self) -> &Arc<Build<N>> {
        &self.build
    }

    /// Begins with a batch.
    pub(crate) fn set(&mut self, batch: RecordBatch) -> Result<()> {
        let keys = self.join.probe_keys(&batch)?;
        self.rows.set_keys(&self.join.layout, &keys, &self.join.hasher);
        self.texts = self.join.texts(&keys);
        self.build.first(&mut self.rows, &mut self.first);
        if self.join.drops_nulls
            && let Some(nulls) = nulls(&keys)
        {
            for (first, is_valid) in self.first.iter_mut().zip(&nulls) {
                *first = if is_valid { *first } else { 0 };
            }
        }
        self.matched.clear();
        self.matched.resize(batch.num_rows(), false);
        (self.row, self.number, self.told) = (0, 0, 0);
        self.batch = Some(batch);
        Ok(())
    }

    /// Whether rows of the batch have not been looked up to their end.
    pub(crate) fn has_more(&self) -> bool {
        self.batch.is_some()
    }

    /// The rows of the next pairs of the batch, at most `rows_max` but for those without a match; `None` if these give
    /// none, and there may be more ([`Probe::has_more`]): the caller lets others run between two pieces.
    pub(crate) fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        if let Some(batch) = self.batch.take() {
            let pairs = self.pairs(rows_max);
            let pairs = self.restricted(&batch, pairs)?;
            if self.join.gives_build_rows() {
                pairs.build.iter().for_each(|&number| self.build.visit(number));
            }
            let given = match self.join.kind {
                Inner | Left => pairs,
                Right | Full => self.with_unmatched(pairs),
                LeftSemi | LeftAnti | LeftMark => Pairs::default(),
                RightSemi => self.rows_told(pairs, Some(true)),
                RightAnti => self.rows_told(pairs, Some(false)),
                RightMark => self.rows_told(pairs, None),
            };
            let rows = match given.len() {
                0 => None,
                _ => Some(self.output(&batch, &given)?),
            };
            if self.row < batch.num_rows() {
                self.batch = Some(batch);
            }
            return Ok(rows);
        }
        Ok(None)
    }

    /// The next pairs whose keys are equal: at most `rows_max`, among [`LOOKS_MAX`] rows of the table.
    fn pairs(&mut self, rows_max: usize) -> Pairs {
        let mut pairs = Pairs::default();
        let one_is_enough = self.join.residual.is_none()
            && matches!(
                self.join.kind,
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
            );
        let end = self.first.len();
        let mut looks = 0;
        pairs.probe.reserve(rows_max.min(end));
        pairs.build.reserve(rows_max.min(end));
        let is_direct = self.build.is_direct();
        while self.row < end {
            let row = self.row;
            let mut number = match self.number {
                0 => self.first[row],
                number => number,
            };
            let key = &self.rows.keys[row];
            while number != 0 {
                let next = self.build.next(number);
                looks += 1;
                if is_direct || self.build.has_key(number, key, &self.texts, row) {
                    pairs.push(row as u32, number);
                    if one_is_enough {
                        break;
                    }
                }
                if (pairs.len() >= rows_max || looks >= LOOKS_MAX) && next != 0 {
                    self.number = next;
                    return pairs;
                }
                number = next;
            }
            self.number = 0;
            self.row += 1;
            if pairs.len() >= rows_max || looks >= LOOKS_MAX {
                return pairs;
            }
        }
        pairs
    }

    /// The pairs for which the rest of the join's condition is true.
    fn restricted(&self, batch: &RecordBatch, pairs: Pairs) -> Result<Pairs> {
        let Some(residual) = &self.join.residual else { return Ok(pairs) };
        if pairs.len() == 0 {
            return Ok(pairs);
        }
        let columns = residual.columns.iter().map(|&source| self.column(batch, source, &pairs));
        let columns = columns.collect::<Result<_>>()?;
        let rows = batch_of(&residual.schema, columns, pairs.len())?;
        let held = residual.condition.evaluate(&rows)?.into_array(pairs.len())?;
        let Some(held) = held.as_boolean_opt() else {
            return internal_err!("a join's condition is of type {}", held.data_type());
        };
        let mut kept = Pairs::default();
        for (at, is_held) in held.iter().enumerate() {
            if is_held == Some(true) {
                kept.push(pairs.probe[at], pairs.build[at]);
            }
        }
        Ok(kept)
    }

    /// The pairs, and between them the rows that were looked up to their end and have no match.
    fn with_unmatched(&mut self, pairs: Pairs) -> Pairs {
        pairs.probe.iter().for_each(|&row| self.matched[row as usize] = true);
        let mut all = Pairs::default();
        let mut rest = pairs.probe.iter().zip(&pairs.build).peekable();
        for row in self.told..self.row {
            if !self.matched[row] {
                all.push(row as u32, 0);
            }
            while let Some((&probe, &build)) = rest.next_if(|&(&probe, _)| probe == row as u32) {
                all.push(probe, build);
            }
        }
        rest.for_each(|(&probe, &build)| all.push(probe, build));
        self.told = self.row;
        all
    }

    /// The rows that were looked up to their end, and have a match or none; `None`: all of them.
    fn rows_told(&mut self, pairs: Pairs, matched: Option<bool>) -> Pairs {
        pairs.probe.iter().for_each(|&row| self.matched[row as usize] = true);
        let rows = self.told..self.row;
        let rows = rows.filter(|&row| matched.is_none_or(|matched| self.matched[row] == matched));
        let probe: Vec<u32> = rows.map(|row| row as u32).collect();
        self.told = self.row;
        Pairs { build: vec![0; probe.len()], probe }
    }

    fn output(&self, batch: &RecordBatch, pairs: &Pairs) -> Result<RecordBatch> {
        let columns = self.join.output.iter().map(|&source| self.column(batch, source, pairs));
        batch_of(&self.join.schema, columns.collect::<Result<_>>()?, pairs.len())
    }

    /// A column of pairs.
    fn column(&self, batch: &RecordBatch, source: Source, pairs: &Pairs) -> Result<ArrayRef> {
        match source {
            Source::Build(column) => rows_of(&self.build, column, &pairs.build),
            Source::Probe(column) => {
                let column = batch.column(column);
                let is_whole = pairs.len() == column.len()
                    && pairs.probe.iter().enumerate().all(|(at, &row)| at == row as usize);
                if is_whole {
                    return Ok(Arc::clone(column));
                }
                Ok(take(column, &UInt32Array::from(pairs.probe.clone()), None)?)
            }
            Source::Mark => {
                let marks = pairs.probe.iter().map(|&row| Some(self.matched[row as usize]));
                Ok(Arc::new(marks.collect::<BooleanArray>()))
            }
        }
    }
}

/// A column of rows of the table, by their numbers; 0: NULL.
fn rows_of<const N: usize>(build: &Build<N>, column: usize, numbers: &[u32]) -> Result<ArrayRef> {
    let has_none = numbers.contains(&0);
    let ty = build.join.kept_schema.field(column).data_type();
    match &build.blocks[..] {
        [] => Ok(new_null_array(ty, numbers.len())),
        [block] => {
            let rows = numbers.iter().map(|&number| number.saturating_sub(1));
            let rows = arrow::buffer::ScalarBuffer::from_iter(rows);
            let nulls =
                has_none.then(|| numbers.iter().map(|&number| number != 0).collect::<NullBuffer>());
            Ok(take(block.column(column), &UInt32Array::new(rows, nulls), None)?)
        }
        blocks => {
            let mut arrays: Vec<&dyn Array> =
                blocks.iter().map(|block| block.column(column).as_ref()).collect();
            let null = has_none.then(|| new_null_array(ty, 1));
            arrays.extend(null.as_deref());
            let place = |&number: &u32| match number {
                0 => (blocks.len(), 0),
                _ => {
                    let row = number as usize - 1;
                    (row >> BLOCK_BITS, row & ((1 << BLOCK_BITS) - 1))
                }
            };
            let places: Vec<(usize, usize)> = numbers.iter().map(place).collect();
            Ok(interleave(&arrays, &places)?)
        }
    }
}

/// The rows of the table that are given once all have looked up.
pub(crate) struct Leftover<const N: usize> {
    build: Arc<Build<N>>,
    /// The next row.
    row: usize,
}

impl<const N: usize> Leftover<N> {
    pub(crate) fn new(build: Arc<Build<N>>) -> Self {
        Leftover { build, row: 0 }
    }

    /// Whether there are rows that have not been looked at.
    pub(crate) fn has_more(&self) -> bool {
        self.row < self.build.rows()
    }

    /// The next rows, at most `rows_max`; `None` if the next [`LOOKS_MAX`] rows of the table give none, and there may be
    /// more ([`Leftover::has_more`]).
    pub(crate) fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        let join = Arc::clone(&self.build.join);
        let Some(wanted) = join.leftover() else {
            self.row = self.build.rows();
            return Ok(None);
        };
        let end = self.build.rows().min(self.row + LOOKS_MAX);
        let mut numbers = Vec::with_capacity(rows_max.min(self.build.rows()));
        while self.row < end && numbers.len() < rows_max {
            if wanted.is_none_or(|wanted| self.build.was_visited(self.row) == wanted) {
                numbers.push(self.row as u32 + 1);
            }
            self.row += 1;
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        let column = |(at, &source): (usize, &Source)| match source {
            Source::Build(column) => rows_of(&self.build, column, &numbers),
            Source::Probe(_) => {
                Ok(new_null_array(join.schema.field(at).data_type(), numbers.len()))
            }
            Source::Mark => {
                let marks =
                    numbers.iter().map(|&number| Some(self.build.was_visited(number as usize - 1)));
                Ok(Arc::new(marks.collect::<BooleanArray>()) as ArrayRef)
            }
        };
        let columns = join.output.iter().enumerate().map(column).collect::<Result<_>>()?;
        batch_of(&join.schema, columns, numbers.len()).map(Some)
    }
}
