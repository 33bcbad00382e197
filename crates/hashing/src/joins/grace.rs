//! A join whose left side is in files: its right side is split as the left one was, then parts are joined one after the
//! other.
//!
//! A part whose table is refused its memory is split again, by further bits of the hashes, until it fits or has one
//! key; then it may take all the memory that is left, and fails if that is not enough.
//!
//! Each output of a join with one table for all joins its own rows with each part of the one left side: it makes tables
//! of its own of it, and waits for no other output, which might be held back until this one gives rows. What it has
//! matched it notes by the rows' numbers in the whole side ([`SpilledBuild`]); the last output gives the rows that are
//! left by reading the left side once more.
//!
//! The order of the right side is lost among parts. Where it is wanted, its rows are numbered, and what comes out is
//! sorted by these numbers ([`in_order`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::{StreamExt, stream};
use halcyon_sorts::sorts;
use halcyon_spill::batches::{BatchReader, Batches, Piece};
use halcyon_sql::diagnose::{external, sql_error};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_task::proceed;
use parking_lot::Mutex;

use crate::joins::build::{Builder, Collected, nulls};
use crate::joins::parts::{
    BuildRows, DEPTH_MAX, PARTS, Part, Rows as SplitRows, Side, Spilling, Splitter, parts_of,
};
use crate::joins::plan::{Join, Source, batch_of};
use crate::joins::probe::Probe;
use crate::keys::Rows;

/// Whether an error says that memory was denied to whoever could go on with less.
pub(crate) fn is_denied(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// The left side as it is put into files.
pub(crate) struct SpilledBuilder<const N: usize> {
    join: Arc<Join>,
    rows: BuildRows,
    splitter: Splitter,
    keys: Rows<N>,
    count: u32,
    memory: Option<MemoryReservation>,
}

impl<const N: usize> SpilledBuilder<N> {
    pub(crate) fn new(join: &Arc<Join>, spilling: &mut Spilling) -> Result<Self> {
        let rows = BuildRows::new::<N>(join);
        let splitter = spilling.splitter(&rows.schema, 0)?;
        let (join, keys) = (Arc::clone(join), Rows::new());
        Ok(SpilledBuilder { join, rows, splitter, keys, count: 0, memory: None })
    }

    /// Takes what a table would have been made of.
    pub(crate) async fn take_collected(&mut self, collected: Collected<N>) -> Result<()> {
        assert_eq!(self.count, 0, "what was collected came first");
        let split = self.rows.split_collected(&self.join, collected, &mut self.splitter);
        let (count, memory) = split.await?;
        (self.count, self.memory) = (count, Some(memory));
        Ok(())
    }

    /// Takes rows in. Errors: 53200, 53400, 53100, 58030, and those of expressions.
    pub(crate) async fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let (keys, kept) = self.join.kept(batch)?;
        self.keys.set_keys(&self.join.layout, &keys, &self.join.hasher);
        let dead = dead(&self.join, &keys);
        let (kept, keys) = (&kept, &self.keys.keys[..]);
        let rows = SplitRows { kept, keys, dead: &dead, first: self.count };
        self.rows.split(&self.join, rows, &mut self.splitter).await?;
        let count = u32::try_from(batch.num_rows()).ok();
        let count = count.and_then(|rows| self.count.checked_add(rows)).filter(|&n| n < u32::MAX);
        self.count = count.ok_or_else(|| {
            let message = "a join's table has room for four thousand million rows";
            external(SqlError::new(SqlState::OUT_OF_MEMORY, message))
        })?;
        Ok(())
    }

    /// The side with all its rows. `probers`: how many outputs will look up.
    pub(crate) async fn finish(self, probers: usize) -> Result<SpilledBuild> {
        let words = match self.join.gives_build_rows() {
            true => (self.count as usize).div_ceil(64),
            false => 0,
        };
        if let Some(memory) = &self.memory {
            memory.resize(words * 8);
        }
        Ok(SpilledBuild {
            rows: self.rows,
            side: self.splitter.finish().await?,
            visited: (0..words).map(|_| AtomicU64::new(0)).collect(),
            probers: AtomicUsize::new(probers),
            _memory: self.memory,
        })
    }
}

/// Which rows have NULL in their keys, if those find nothing.
fn dead(join: &Join, keys: &[ArrayRef]) -> Vec<u32> {
    let nulls = if join.drops_nulls { nulls(keys) } else { None };
    let Some(nulls) = nulls else { return Vec::new() };
    (0..nulls.len() as u32).filter(|&row| nulls.is_null(row as usize)).collect()
}

/// The left side in files, as the outputs of a join share it.
pub(crate) struct SpilledBuild {
    rows: BuildRows,
    side: Side,
    /// A bit for each row: whether it has been matched.
    visited: Vec<AtomicU64>,
    /// Outputs that still look up.
    probers: AtomicUsize,
    _memory: Option<MemoryReservation>,
}

impl SpilledBuild {
    fn visit(&self, row: u32) {
        self.visited[row as usize / 64].fetch_or(1 << (row % 64), Ordering::Relaxed);
    }

    fn was_visited(&self, row: u32) -> bool {
        self.visited[row as usize / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// An output has looked up all its rows. Whether it is the last: it sees what all others have noted.
    fn end_prober(&self) -> bool {
        self.probers.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Parts of both sides with one number.
struct Pair {
    left: Batches,
    build: Part,
    right: Batches,
    probe: Part,
    /// The depth at which they were split.
    depth: u32,
    /// Whether the last split has put all rows of the left part above into this one.
    is_whole: bool,
}

/// What is read next.
enum State<const N: usize> {
    /// The right side is split.
    Splitting(Box<Splitter>),
    /// A pair is taken up.
    Between,
    /// A part of the right side looks up in the table of its left one.
    Probing {
        probe: Box<Probe<N>>,
        reader: BatchReader,
        pieces: std::vec::IntoIter<Piece>,
    },
    /// Rows of the left side are given.
    Leaving {
        reader: BatchReader,
        pieces: std::vec::IntoIter<Piece>,
    },
    Ended,
}

/// The work of one output.
pub(crate) struct Grace<const N: usize> {
    join: Arc<Join>,
    build: Arc<SpilledBuild>,
    right: Option<SendableRecordBatchStream>,
    keys: Rows<N>,
    /// The number of the next row of the right side, if they are numbered.
    numbers: Option<u64>,
    spilling: Spilling,
    pool: Arc<dyn MemoryPool>,
    count: Count,
    pairs: Vec<Pair>,
    state: State<N>,
}

impl<const N: usize> Grace<N> {
    /// `count`: rows of the right side. `in_order`: whether they are numbered, in a column behind the join's own.
    pub(crate) fn new(
        join: &Arc<Join>,
        build: Arc<SpilledBuild>,
        right: SendableRecordBatchStream,
        mut spilling: Spilling,
        pool: &Arc<dyn MemoryPool>,
        count: Count,
        in_order: bool,
    ) -> Result<Self> {
        let schema = right.schema();
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let mut fields: Vec<Field> = schema.fields().iter().map(nullable).collect();
        let mut join = Arc::clone(join);
        if in_order {
            let number = Field::new("number", DataType::UInt64, true);
            join = Arc::new(join.with_probe_column(fields.len(), Arc::new(number.clone())));
            fields.push(number);
        }
        let splitter = spilling.splitter(&Arc::new(Schema::new(fields)), 0)?;
        Ok(Grace {
            join,
            build,
            right: Some(right),
            keys: Rows::new(),
            numbers: in_order.then_some(0),
            spilling,
            pool: Arc::clone(pool),
            count,
            pairs: Vec::new(),
            state: State::Splitting(Box::new(splitter)),
        })
    }

    /// The rows, in batches of at most `rows_max` but for those without a match.
    pub(crate) fn batches(self, rows_max: usize) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.join.schema);
        let batches = stream::try_unfold(self, move |mut grace| async move {
            let next = grace.next(rows_max).await?;
            Ok(next.map(|batch| (batch, grace)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// The next batch.
    ///
    /// Errors: 57014, 53200, 53400, 53100, 58030, and those of conditions and inputs.
    async fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        loop {
            SqlError::unless_interrupted().map_err(external)?;
            proceed().await;
            match &mut self.state {
                State::Splitting(_) => self.split_next().await?,
                State::Between => match self.pairs.pop() {
                    Some(pair) => self.take_up(pair).await?,
                    None => self.state = self.leave()?,
                },
                State::Probing { probe, reader, pieces } => {
                    if let Some(batch) = probe.next(rows_max)? {
                        return Ok(Some(batch));
                    }
                    if probe.has_more() {
                        continue;
                    }
                    match pieces.next() {
                        Some(piece) => probe.set(reader.read(&piece).await?)?,
                        None => {
                            if self.join.gives_build_rows() {
                                probe.build().visited_ids().for_each(|row| self.build.visit(row));
                            }
                            self.state = State::Between;
                        }
                    }
                }
                State::Leaving { reader, pieces } => match pieces.next() {
                    Some(piece) => {
                        let batch = reader.read(&piece).await?;
                        if let Some(left) = self.left_of(&batch)? {
                            return Ok(Some(left));
                        }
                    }
                    None => self.state = State::Ended,
                },
                State::Ended => return Ok(None),
            }
        }
    }

    /// Splits the next batch of the right side, or ends that.
    async fn split_next(&mut self) -> Result<()> {
        let next = match &mut self.right {
            Some(right) => right.next().await,
            None => None,
        };
        let State::Splitting(splitter) = &mut self.state else {
            return internal_err!("the right side is split once");
        };
        let Some(batch) = next else {
            self.right = None;
            let State::Splitting(splitter) = std::mem::replace(&mut self.state, State::Between)
            else {
                return internal_err!("the right side is split once");
            };
            let (right, build) = (splitter.finish().await?, Arc::clone(&self.build));
            self.push_pairs(&build.side, &right, 0, None);
            return Ok(());
        };
        let mut batch = batch?;
        self.count.add(batch.num_rows());
        let keys = self.join.probe_keys(&batch)?;
        self.keys.set_keys(&self.join.layout, &keys, &self.join.hasher);
        let dead = dead(&self.join, &keys);
        let needs_match = self.join.needs_build_rows();
        let mut parts = parts_of(&self.join, &self.keys.keys, &dead, !needs_match, splitter);
        if needs_match {
            let lefts = &self.build.side.parts;
            parts.iter_mut().for_each(|part| *part = part.filter(|&part| lefts[part].rows > 0));
        }
        let mut columns = batch.columns().to_vec();
        if let Some(next) = &mut self.numbers {
            let rows = batch.num_rows() as u64;
            columns.push(Arc::new(UInt64Array::from_iter_values(*next..*next + rows)));
            *next += rows;
        }
        batch = batch_of(splitter.schema(), columns, batch.num_rows())?;
        splitter.push(&batch, parts.into_iter()).await
    }

    /// Notes what is to be joined of two sides. `above`: rows of the left part that was split, if one was.
    fn push_pairs(&mut self, left: &Side, right: &Side, depth: u32, above: Option<usize>) {
        for part in (0..PARTS).rev() {
            let (build, probe) = (&left.parts[part], &right.parts[part]);
            // What is left of the left side is given from its files at the end.
            let is_over = probe.rows == 0 || (build.rows == 0 && self.join.needs_build_rows());
            if !is_over {
                self.pairs.push(Pair {
                    is_whole: above == Some(build.rows),
                    left: left.file.clone(),
                    build: build.clone(),
                    right: right.file.clone(),
                    probe: probe.clone(),
                    depth,
                });
            }
        }
    }

    /// Makes a table of a pair's left part, or splits the pair again.
    async fn take_up(&mut self, pair: Pair) -> Result<()> {
        let is_last = pair.depth == DEPTH_MAX || pair.is_whole;
        let memory = MemoryConsumer::new("JoinExec part").with_can_spill(!is_last);
        let rows = Some(pair.build.rows);
        let mut builder = Builder::<N>::new(&self.join, memory.register(&self.pool), rows);
        let mut reader = pair.left.reader()?;
        let mut taken = Ok(());
        for piece in &pair.build.pieces {
            SqlError::unless_interrupted().map_err(external)?;
            let batch = reader.read(piece).await?;
            taken = builder.restore(self.build.rows.restored(&self.join, &batch)?);
            proceed().await;
            if taken.is_err() {
                break;
            }
        }
        match taken.and_then(|()| builder.close()) {
            Ok(()) => {
                let probe = Box::new(Probe::new(&Arc::new(builder.build(1).await)));
                let (reader, pieces) = (pair.right.reader()?, pair.probe.pieces.into_iter());
                self.state = State::Probing { probe, reader, pieces };
                Ok(())
            }
            Err(denied) if is_denied(&denied) && !is_last => {
                drop(builder);
                self.split_again(pair).await
            }
            Err(denied) if is_denied(&denied) => Err(cannot_split(denied)),
            Err(error) => Err(error),
        }
    }

    /// Splits both parts of a pair by further bits.
    async fn split_again(&mut self, pair: Pair) -> Result<()> {
        let depth = pair.depth + 1;
        let mut left = self.spilling.splitter(&self.build.rows.schema, depth)?;
        let mut reader = pair.left.reader()?;
        for piece in &pair.build.pieces {
            let batch = reader.read(piece).await?;
            self.build.rows.split_again::<N>(&self.join, &batch, &mut left).await?;
            proceed().await;
        }
        let left = left.finish().await?;
        let mut reader = pair.right.reader()?;
        let mut right = self.spilling.splitter(pair.right.schema(), depth)?;
        for piece in &pair.probe.pieces {
            let batch = reader.read(piece).await?;
            let keys = self.join.probe_keys(&batch)?;
            self.keys.set_keys(&self.join.layout, &keys, &self.join.hasher);
            let dead = dead(&self.join, &keys);
            let parts = parts_of(&self.join, &self.keys.keys, &dead, true, &right);
            right.push(&batch, parts.into_iter()).await?;
            proceed().await;
        }
        let right = right.finish().await?;
        self.push_pairs(&left, &right, depth, Some(pair.build.rows));
        Ok(())
    }

    /// What is done once all pairs are joined.
    fn leave(&self) -> Result<State<N>> {
        if !self.join.gives_build_rows() || !self.build.end_prober() {
            return Ok(State::Ended);
        }
        let side = &self.build.side;
        let pieces: Vec<Piece> = side.parts.iter().flat_map(|part| &part.pieces).copied().collect();
        Ok(State::Leaving { reader: side.file.reader()?, pieces: pieces.into_iter() })
    }

    /// The rows that a piece of the left side gives once all have looked up.
    fn left_of(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(wanted) = self.join.leftover() else { return Ok(None) };
        let rows = self.build.rows.restored::<N>(&self.join, batch)?;
        let visited: Vec<bool> = rows.ids.iter().map(|&row| self.build.was_visited(row)).collect();
        let given = (0..visited.len() as u32)
            .filter(|&row| wanted.is_none_or(|wanted| visited[row as usize] == wanted));
        let given = UInt32Array::from_iter_values(given);
        if given.is_empty() {
            return Ok(None);
        }
        let column = |(at, &source): (usize, &Source)| match source {
            Source::Build(column) => Ok(take(rows.kept.column(column), &given, None)?),
            Source::Probe(_) => {
                Ok(new_null_array(self.join.schema.field(at).data_type(), given.len()))
            }
            Source::Mark => {
                let marks = given.values().iter().map(|&row| Some(visited[row as usize]));
                Ok(Arc::new(marks.collect::<BooleanArray>()) as ArrayRef)
            }
        };
        let columns = self.join.output.iter().enumerate().map(column).collect::<Result<_>>()?;
        batch_of(&self.join.schema, columns, given.len()).map(Some)
    }
}

/// 53200 of a part that cannot be split.
fn cannot_split(denied: DataFusionError) -> DataFusionError {
    let told = sql_error(denied, "");
    let detail =
        "Too many rows of a join's left side have one key, which cannot be split over files.";
    let detail = match &told.fields().detail {
        Some(asked) => format!("{detail} {asked}"),
        None => detail.to_owned(),
    };
    external(told.detail(detail))
}

/// Batches that are given once.
struct Once {
    schema: SchemaRef,
    batches: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of a join in parts")
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.batches.lock().take();
        batches.unwrap_or_else(|| {
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::empty()))
        })
    }
}

/// Rows in the order of the numbers in their last column, without it.
pub(crate) fn in_order(
    batches: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = batches.schema();
    let last = schema.fields().len() - 1;
    let number = Arc::new(Column::new(schema.field(last).name(), last));
    let order = LexOrdering::from([PhysicalSortExpr::new(number, SortOptions::default())]);
    let batches = Mutex::new(Some(batches));
    let once: Arc<dyn PartitionStream> = Arc::new(Once { schema: Arc::clone(&schema), batches });
    let rows = StreamingTableExec::try_new(schema, vec![once], None, [], false, None)?;
    let sort = Arc::new(SortExec::new(order, Arc::new(rows)));
    let sorted = sorts(sort, true)?.execute(0, Arc::clone(context))?;
    let given: Vec<usize> = (0..last).collect();
    let schema = Arc::new(sorted.schema().project(&given)?);
    let batches = sorted.map(move |batch| -> Result<RecordBatch> { Ok(batch?.project(&given)?) });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}
