//! Rows of a join's sides in files, split by the hashes of their keys.
//!
//! Rows with equal keys have equal hashes, so that parts of both sides that have one number are joined by themselves
//! (the hash join of GRACE: Kitsuregawa, Tanaka and Moto-oka 1983). All parts of a side lie in one file, whose pieces
//! are listed by part: a side takes one descriptor, and parts are read in the order of their rows. Each depth takes
//! four further bits of the hash, below those that tables take for tags.
//!
//! Memory: a side that is split holds up to [`OPEN_BYTES`] for each part beside what it reserves.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, FixedSizeBinaryArray, RecordBatch, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use halcyon_spill::batches::{BatchWriter, Batches, Piece, can_hold};
use halcyon_spill::{Spill, own_bytes};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_task::proceed;

use crate::joins::build::{Collected, Restored};
use crate::joins::plan::{Join, batch_of};

/// Parts of a side, as a power of two.
const PART_BITS: u32 = 4;
/// Parts of a side.
pub(crate) const PARTS: usize = 1 << PART_BITS;
/// The greatest depth: above it a part has rows whose hashes are nearly equal.
pub(crate) const DEPTH_MAX: u32 = 6;
/// Rows, and bytes, of a part that are written at once.
const OPEN_ROWS: usize = 8192;
const OPEN_BYTES: usize = 128 << 10;
/// Rows of a block that are split at once.
const ROWS_STEP: usize = 8192;

/// The part of a row with this hash. Tables take the four uppermost bits and the lowest.
#[inline(always)]
fn part(hash: u64, depth: u32) -> usize {
    (hash >> (56 - PART_BITS * depth)) as usize & (PARTS - 1)
}

/// Where a join puts rows, and what it tells of that.
#[derive(Clone)]
pub(crate) struct Spilling {
    spill: Arc<Spill>,
    metrics: ExecutionPlanMetricsSet,
    output: usize,
    /// Made by the first file, so that a join that does not spill tells nothing.
    told: Option<SpillMetrics>,
}

impl Spilling {
    /// Files of a join's output of this number.
    pub(crate) fn new(
        spill: &Arc<Spill>,
        metrics: &ExecutionPlanMetricsSet,
        output: usize,
    ) -> Self {
        Spilling { spill: Arc::clone(spill), metrics: metrics.clone(), output, told: None }
    }

    /// A file for rows of a side.
    pub(crate) fn splitter(&mut self, schema: &SchemaRef, depth: u32) -> Result<Splitter> {
        let writer = BatchWriter::new(&self.spill, schema)?;
        let told = || SpillMetrics::new(&self.metrics, self.output);
        let told = self.told.get_or_insert_with(told).clone();
        told.spill_file_count.add(1);
        let open = std::array::from_fn(|_| Open::default());
        Ok(Splitter { writer, depth, open, parts: Default::default(), told })
    }
}

/// A side as it is split.
pub(crate) struct Splitter {
    writer: BatchWriter,
    depth: u32,
    open: [Open; PARTS],
    parts: [Part; PARTS],
    told: SpillMetrics,
}

/// Rows of a part that wait to be written.
#[derive(Default)]
struct Open {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

/// A part in a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) rows: usize,
}

/// A side that was split.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) file: Batches,
    pub(crate) parts: [Part; PARTS],
}

impl Splitter {
    /// The part of a row with this hash.
    pub(crate) fn part(&self, hash: u64) -> usize {
        part(hash, self.depth)
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.writer.schema()
    }

    /// Puts rows into their parts; `None`: a row is left out.
    pub(crate) async fn push(
        &mut self,
        batch: &RecordBatch,
        parts: impl Iterator<Item = Option<usize>>,
    ) -> Result<()> {
        let mut rows: [Vec<u32>; PARTS] = Default::default();
        for (row, part) in parts.enumerate() {
            if let Some(part) = part {
                rows[part].push(row as u32);
            }
        }
        for (part, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let taken = take_record_batch(batch, &UInt32Array::from(rows))?;
            let open = &mut self.open[part];
            open.rows += taken.num_rows();
            open.bytes += own_bytes(&taken);
            open.batches.push(taken);
            if open.rows >= OPEN_ROWS || open.bytes >= OPEN_BYTES {
                self.write(part).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, part: usize) -> Result<()> {
        let open = std::mem::take(&mut self.open[part]);
        if open.rows == 0 {
            return Ok(());
        }
        SqlError::unless_interrupted().map_err(external)?;
        let batch = concat_batches(self.writer.schema(), &open.batches)?;
        let piece = self.writer.append(&batch).await?;
        self.told.spilled_rows.add(piece.rows);
        self.told.spilled_bytes.add(piece.bytes());
        self.parts[part].rows += piece.rows;
        self.parts[part].pieces.push(piece);
        proceed().await;
        Ok(())
    }

    /// The side with all its rows.
    pub(crate) async fn finish(mut self) -> Result<Side> {
        for part in 0..PARTS {
            self.write(part).await?;
        }
        Ok(Side { file: self.writer.finish(), parts: self.parts })
    }
}

/// Whether rows of both sides of a join can be put into files.
pub(crate) fn can_spill<const N: usize>(join: &Join, right: &Schema) -> bool {
    can_hold(&BuildRows::new::<N>(join).schema) && can_hold(right)
}

/// Rows of the left side in files: what is kept of them, the words of their keys, whether they are dead, and their
/// numbers in the whole side.
#[derive(Debug)]
pub(crate) struct BuildRows {
    pub(crate) schema: SchemaRef,
}

/// Columns behind those that are kept.
const BESIDE: usize = 3;

impl BuildRows {
    pub(crate) fn new<const N: usize>(join: &Join) -> Self {
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let kept = join.kept_schema.fields().iter().map(nullable);
        let words = DataType::FixedSizeBinary((N * 8) as i32);
        let beside = [
            Field::new("words", words, false),
            Field::new("dead", DataType::Boolean, false),
            Field::new("row", DataType::UInt32, false),
        ];
        BuildRows { schema: Arc::new(Schema::new(kept.chain(beside).collect::<Vec<_>>())) }
    }

    /// Rows as they lie in files. `first`: the number of the first; `dead`: of these rows, from 0.
    fn batch<const N: usize>(
        &self,
        kept: &RecordBatch,
        keys: &[[u64; N]],
        dead: &[u32],
        first: u32,
    ) -> Result<RecordBatch> {
        let words = Buffer::from_vec(keys.as_flattened().to_vec());
        let mut is_dead = vec![false; keys.len()];
        dead.iter().for_each(|&row| is_dead[row as usize] = true);
        let mut columns = kept.columns().to_vec();
        columns.push(Arc::new(FixedSizeBinaryArray::try_new((N * 8) as i32, words, None)?));
        columns.push(Arc::new(BooleanArray::from(is_dead)));
        columns.push(Arc::new(UInt32Array::from_iter_values(first..first + keys.len() as u32)));
        batch_of(&self.schema, columns, keys.len())
    }

    /// Rows out of a file.
    pub(crate) fn restored<const N: usize>(
        &self,
        join: &Join,
        batch: &RecordBatch,
    ) -> Result<Restored<N>> {
        let (kept, beside) = batch.columns().split_at(batch.num_columns() - BESIDE);
        let words = beside[0].as_fixed_size_binary_opt().map(FixedSizeBinaryArray::value_data);
        let words = words.ok_or_else(|| internal_datafusion_err!("keys are words"))?;
        let (words, _) = words.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let dead = beside[1].as_boolean();
        Ok(Restored {
            kept: batch_of(&join.kept_schema, kept.to_vec(), batch.num_rows())?,
            keys: words.as_chunks::<N>().0.to_vec(),
            dead: dead.values().set_indices().map(|row| row as u32).collect(),
            ids: beside[2].as_primitive::<UInt32Type>().values().to_vec(),
        })
    }

    /// Puts rows into their parts. Dead rows are spread over all parts, or left out if nobody asks for them.
    pub(crate) async fn split<const N: usize>(
        &self,
        join: &Join,
        rows: Rows<'_, N>,
        into: &mut Splitter,
    ) -> Result<()> {
        let batch = self.batch(rows.kept, rows.keys, rows.dead, rows.first)?;
        let parts = parts_of(join, rows.keys, rows.dead, join.gives_build_rows(), into);
        into.push(&batch, parts.into_iter()).await
    }

    /// Puts rows of a file into parts of a further depth.
    pub(crate) async fn split_again<const N: usize>(
        &self,
        join: &Join,
        batch: &RecordBatch,
        into: &mut Splitter,
    ) -> Result<()> {
        let rows = self.restored::<N>(join, batch)?;
        let parts = parts_of(join, &rows.keys, &rows.dead, true, into);
        into.push(batch, parts.into_iter()).await
    }

    /// Puts all that a table would have been made of into parts, and gives its memory back. Returns how many rows.
    pub(crate) async fn split_collected<const N: usize>(
        &self,
        join: &Join,
        collected: Collected<N>,
        into: &mut Splitter,
    ) -> Result<(u32, MemoryReservation)> {
        let Collected { blocks, keys, dead, memory } = collected;
        let (mut first, mut dead) = (0, &dead[..]);
        for block in blocks {
            let mut from = 0;
            while from < block.num_rows() {
                let rows = ROWS_STEP.min(block.num_rows() - from);
                let (here, behind) =
                    dead.split_at(dead.partition_point(|&row| (row as usize) < first + rows));
                let here: Vec<u32> = here.iter().map(|&row| row - first as u32).collect();
                let kept = &block.slice(from, rows);
                let keys = &keys[first..first + rows];
                let step = Rows { kept, keys, dead: &here, first: first as u32 };
                self.split(join, step, into).await?;
                (first, from, dead) = (first + rows, from + rows, behind);
            }
        }
        drop(keys);
        memory.free();
        Ok((first as u32, memory))
    }
}

/// Rows of the left side, `dead` being numbered from the first of them, which is row `first` of the whole side.
pub(crate) struct Rows<'r, const N: usize> {
    pub(crate) kept: &'r RecordBatch,
    pub(crate) keys: &'r [[u64; N]],
    pub(crate) dead: &'r [u32],
    pub(crate) first: u32,
}

/// The parts of rows with these keys. `keeps_dead`: dead rows go to parts in turn, else nowhere.
pub(crate) fn parts_of<const N: usize>(
    join: &Join,
    keys: &[[u64; N]],
    dead: &[u32],
    keeps_dead: bool,
    into: &Splitter,
) -> Vec<Option<usize>> {
    let part = |key: &[u64; N]| Some(into.part(join.hasher.key(key)));
    let mut parts: Vec<Option<usize>> = keys.iter().map(part).collect();
    for &row in dead {
        parts[row as usize] = keeps_dead.then_some(row as usize % PARTS);
    }
    parts
}
