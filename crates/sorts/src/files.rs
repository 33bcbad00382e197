//! Runs of a sort in files.
//!
//! All runs of a pass lie in one file, so a sort takes two descriptors however many runs it has. A run is a list of
//! pieces, each read by itself ([`PIECE_BYTES`]). A merge reads as many runs as it gets memory for, two at least; what are
//! more are merged into longer runs first, neighbours with neighbours, so that rows with equal keys keep their order.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics, Time};
use halcyon_spill::batches::{BatchWriter, Batches, Piece};
use halcyon_spill::{Spill, own_bytes};

use crate::key::Layout;
use crate::memory::Sorted;
use crate::merge::{Merge, Source};
use crate::steps::Steps;

/// Bytes of a piece that are aimed at.
const PIECE_BYTES: usize = 64 << 10;

/// Whether an error says that memory was denied to whoever could go on with less.
pub(crate) fn is_denied(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// A run in a file.
#[derive(Clone, Debug, Default)]
struct Run {
    pieces: Vec<Piece>,
    /// Bytes of the largest piece.
    piece_bytes: usize,
}

impl Run {
    /// Bytes that a merge holds of the run: a batch, its keys, and the batch before it.
    fn bytes(&self) -> usize {
        self.piece_bytes * 3
    }
}

/// Runs as they are written.
pub(crate) struct Files {
    spill: Arc<Spill>,
    schema: SchemaRef,
    told: SpillMetrics,
    writer: BatchWriter,
    runs: Vec<Run>,
    /// Rows of a piece.
    piece_rows: usize,
}

impl Files {
    /// A file for runs. `row_bytes`: of a row about.
    pub(crate) fn new(
        spill: &Arc<Spill>,
        schema: &SchemaRef,
        metrics: &ExecutionPlanMetricsSet,
        output: usize,
        row_bytes: usize,
        rows_max: usize,
    ) -> Result<Self> {
        let told = SpillMetrics::new(metrics, output);
        told.spill_file_count.add(1);
        Ok(Files {
            spill: Arc::clone(spill),
            schema: Arc::clone(schema),
            told,
            writer: BatchWriter::new(spill, schema)?,
            runs: Vec::new(),
            piece_rows: (PIECE_BYTES / row_bytes.max(1)).clamp(1, rows_max),
        })
    }

    /// Writes rows as a run. Errors: 57014, 53400, 53100, 58030.
    pub(crate) async fn write(
        &mut self,
        mut rows: Sorted,
        steps: &Steps,
        time: &Time,
    ) -> Result<()> {
        let mut run = Run::default();
        while let Some(batch) = rows.next(self.piece_rows, steps, time).await? {
            append(&mut self.writer, &mut run, batch, &self.told).await?;
        }
        self.runs.push(run);
        Ok(())
    }

    /// A merge of all runs. `memory`: for what is held of them.
    ///
    /// Errors: 57014, 53400, 53100, 58030.
    pub(crate) async fn finish(
        self,
        layout: &Arc<Layout>,
        memory: &MemoryReservation,
        steps: &Steps,
        time: &Time,
    ) -> Result<Merge> {
        let Files { spill, schema, told, writer, mut runs, piece_rows } = self;
        let mut file = writer.finish();
        loop {
            let many = fan_in(&runs, memory);
            if many == runs.len() {
                return merge(&file, runs, layout, &schema, steps, time);
            }
            told.spill_file_count.add(1);
            let (mut writer, mut longer) = (BatchWriter::new(&spill, &schema)?, Vec::new());
            while !runs.is_empty() {
                let many = fan_in(&runs, memory);
                let rest = runs.split_off(many);
                let mut rows = merge(&file, runs, layout, &schema, steps, time)?;
                let mut run = Run::default();
                while let Some(batch) = rows.next(piece_rows).await? {
                    append(&mut writer, &mut run, batch, &told).await?;
                }
                longer.push(run);
                runs = rest;
            }
            (file, runs) = (writer.finish(), longer);
        }
    }
}

/// How many of the first runs are merged at once; their memory is reserved.
fn fan_in(runs: &[Run], memory: &MemoryReservation) -> usize {
    memory.free();
    let mut bytes = 0;
    for (many, run) in runs.iter().enumerate() {
        bytes += run.bytes();
        if memory.try_resize(bytes).is_err() {
            // A merge of fewer than two would go on for ever.
            if many < 2 {
                let least = runs.iter().take(2);
                memory.resize(least.map(Run::bytes).sum());
            }
            return many.max(2).min(runs.len());
        }
    }
    runs.len()
}

fn merge(
    file: &Batches,
    runs: Vec<Run>,
    layout: &Arc<Layout>,
    schema: &SchemaRef,
    steps: &Steps,
    time: &Time,
) -> Result<Merge> {
    let source = |run: Run| Ok(Source::Run(file.reader()?, run.pieces.into_iter()));
    let sources = runs.into_iter().map(source).collect::<Result<_>>()?;
    Ok(Merge::new(layout, schema, sources, None, steps, time))
}

/// Appends rows to a run, in pieces that are not much larger than they are to be.
async fn append(
    writer: &mut BatchWriter,
    run: &mut Run,
    batch: RecordBatch,
    told: &SpillMetrics,
) -> Result<()> {
    let rows = batch.num_rows();
    let parts = (own_bytes(&batch) / (2 * PIECE_BYTES) + 1).min(rows);
    let part_rows = rows.div_ceil(parts);
    let mut from = 0;
    while from < rows {
        let part = batch.slice(from, part_rows.min(rows - from));
        from += part.num_rows();
        let piece = writer.append(&part).await?;
        told.spilled_rows.add(piece.rows);
        told.spilled_bytes.add(piece.bytes());
        run.piece_bytes = run.piece_bytes.max(piece.bytes());
        run.pieces.push(piece);
    }
    Ok(())
}
