//! A merge of sorted sources: rows of files, or of other operators.
//!
//! The batch in which a source stands is held with its keys, and those that rows were picked of until these are given.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::row::{Row, Rows};
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::Time;
use futures::StreamExt;
use futures::future::try_join_all;
use halcyon_spill::batches::{BatchReader, Piece};
use halcyon_spill::without_others;

use crate::key::{Bytes, Keys, Layout, head};
use crate::rows::{Counted, MERGE_ROWS, batch_of, gathered};
use crate::steps::{Steps, comparisons};
use crate::tree::{EXHAUSTED, Tree, Whole};

/// Where sorted rows come from.
pub(crate) enum Source {
    /// An operator.
    Input(SendableRecordBatchStream),
    /// A run in a file.
    Run(BatchReader, std::vec::IntoIter<Piece>),
}

impl Source {
    /// The next batch with rows.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match self {
                Source::Input(input) => input.next().await.transpose()?,
                Source::Run(reader, pieces) => match pieces.next() {
                    Some(piece) => Some(reader.read(&piece).await?),
                    None => None,
                },
            };
            if batch.as_ref().is_none_or(|batch| batch.num_rows() > 0) {
                return Ok(batch);
            }
        }
    }
}

/// Where a source stands.
#[derive(Debug, Default)]
struct Cursor {
    /// Its batch among those that are held.
    held: usize,
    row: usize,
    begins: Vec<u128>,
    bytes: Option<Rows>,
}

impl Cursor {
    /// Whether all rows of the batch were picked.
    fn is_spent(&self) -> bool {
        self.row == self.begins.len()
    }

    /// Bytes of the keys.
    fn bytes(&self) -> usize {
        let bytes = self.bytes.as_ref().map_or(0, Rows::size);
        bytes + self.begins.capacity() * size_of::<u128>()
    }

    /// The head of the row, in the source of this number.
    fn head(&self, source: usize) -> u128 {
        let source = u32::try_from(source).expect("a source has a place of 32 bits");
        self.begins.get(self.row).map_or(EXHAUSTED, |&begin| head(begin, source))
    }
}

/// The order of the rows at which cursors stand. A head's place is its source, so that rows with equal keys come in the
/// order of their sources.
fn of_bytes<'c>(cursors: &'c [Cursor]) -> Bytes<impl Fn(u32) -> Row<'c>> {
    Bytes(|source| {
        let cursor = &cursors[source as usize];
        let bytes = cursor.bytes.as_ref().expect("heads do not hold the keys");
        bytes.row(cursor.row)
    })
}

/// A merge.
pub(crate) struct Merge {
    layout: Arc<Layout>,
    schema: SchemaRef,
    sources: Vec<Source>,
    cursors: Vec<Cursor>,
    held: Vec<RecordBatch>,
    picked: Vec<(usize, usize)>,
    /// `None` before it has begun.
    tree: Option<Tree>,
    /// What is held, unless the sources' memory was reserved for all of them.
    memory: Option<MemoryReservation>,
    steps: Steps,
    time: Time,
}

/// Why rows are given before there are as many as wanted.
enum Stop {
    /// A source needs another batch.
    Wants(usize),
    /// No source has rows.
    Ended,
    /// There are as many as wanted.
    Full,
}

impl Merge {
    /// A merge of sources, of which there is one at least. `memory`: what they hold is reserved batch by batch.
    pub(crate) fn new(
        layout: &Arc<Layout>,
        schema: &SchemaRef,
        sources: Vec<Source>,
        memory: Option<MemoryReservation>,
        steps: &Steps,
        time: &Time,
    ) -> Self {
        let cursors = sources.iter().map(|_| Cursor::default()).collect();
        Merge {
            layout: Arc::clone(layout),
            schema: Arc::clone(schema),
            sources,
            cursors,
            held: Vec::new(),
            picked: Vec::new(),
            tree: None,
            memory,
            steps: steps.clone(),
            time: time.clone(),
        }
    }

    /// The next rows, at most so many.
    ///
    /// Errors: 57014, 53200, and those of sources.
    pub(crate) async fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        assert!(rows_max > 0, "a batch has a row");
        if self.tree.is_none() {
            self.begin().await?;
        }
        loop {
            match self.pick(rows_max).await? {
                Stop::Wants(source) => {
                    let next = self.sources[source].next().await?;
                    // Without room, the batches that rows were picked of are given first.
                    let is_late = match &next {
                        Some(batch) => !self.picked.is_empty() && self.reserve(batch).is_err(),
                        None => false,
                    };
                    let given = if is_late { Some(self.given().await?) } else { None };
                    self.set(source, next).await?;
                    if given.is_some() {
                        return Ok(given);
                    }
                }
                Stop::Ended if self.picked.is_empty() => return Ok(None),
                Stop::Full | Stop::Ended => return self.given().await.map(Some),
            }
        }
    }

    /// Reads the first batch of each source, of all of them side by side.
    async fn begin(&mut self) -> Result<()> {
        let first = try_join_all(self.sources.iter_mut().map(Source::next)).await?;
        for (source, batch) in first.into_iter().enumerate() {
            if let Some(batch) = batch {
                self.hold(source, batch).await?;
            }
        }
        let heads = self.cursors.iter().enumerate().map(|(source, cursor)| cursor.head(source));
        let heads: Vec<u128> = heads.collect();
        let count = heads.len();
        self.tree = Some(match self.layout.is_packed() {
            true => Tree::new(heads, &Whole),
            false => Tree::new(heads, &of_bytes(&self.cursors)),
        });
        self.steps.end(count).await
    }

    /// Picks rows until something else is to be done.
    async fn pick(&mut self, rows_max: usize) -> Result<Stop> {
        let Some(mut tree) = self.tree.take() else {
            return internal_err!("a merge has begun");
        };
        let units = 1 + comparisons(self.sources.len());
        let time = self.time.clone();
        let stop = loop {
            let before = self.picked.len();
            let step = rows_max.min(before + MERGE_ROWS);
            let timer = time.timer();
            let stop = match self.layout.is_packed() {
                true => self.pick_some::<true>(&mut tree, step),
                false => self.pick_some::<false>(&mut tree, step),
            };
            drop(timer);
            self.steps.end((self.picked.len() - before) * units).await?;
            match stop {
                Stop::Full if self.picked.len() < rows_max => {}
                stop => break stop,
            }
        };
        self.tree = Some(tree);
        Ok(stop)
    }

    /// Picks rows until there are so many.
    fn pick_some<const IS_PACKED: bool>(&mut self, tree: &mut Tree, rows: usize) -> Stop {
        while self.picked.len() < rows {
            if tree.head() == EXHAUSTED {
                return Stop::Ended;
            }
            let source = tree.winner();
            let cursor = &mut self.cursors[source];
            if cursor.is_spent() {
                return Stop::Wants(source);
            }
            self.picked.push((cursor.held, cursor.row));
            cursor.row += 1;
            if cursor.is_spent() {
                continue;
            }
            let head = cursor.head(source);
            match IS_PACKED {
                true => tree.replace(head, &Whole),
                false => tree.replace(head, &of_bytes(&self.cursors)),
            }
        }
        Stop::Full
    }

    /// Gives the source that has won, and whose batch is spent, its next batch.
    async fn set(&mut self, source: usize, batch: Option<RecordBatch>) -> Result<()> {
        match batch {
            Some(batch) => self.hold(source, batch).await?,
            None => self.cursors[source] = Cursor::default(),
        }
        let Some(tree) = &mut self.tree else {
            return internal_err!("a merge has begun");
        };
        assert_eq!(tree.winner(), source, "a batch is that of the winner");
        let head = self.cursors[source].head(source);
        match self.layout.is_packed() {
            true => tree.replace(head, &Whole),
            false => tree.replace(head, &of_bytes(&self.cursors)),
        }
        Ok(())
    }

    /// Holds a source's next batch, whose rows are all before it. Errors: 53200, 57014, and those of keys.
    async fn hold(&mut self, source: usize, mut batch: RecordBatch) -> Result<()> {
        if self.reserve(&batch).is_err() {
            batch = without_others(batch, 0)?;
            self.reserve(&batch)?;
        }
        let timer = self.time.timer();
        let Keys { begins, bytes } = self.layout.keys(&batch)?;
        self.cursors[source] = Cursor { held: self.held.len(), row: 0, begins, bytes };
        self.held.push(batch);
        drop(timer);
        self.steps.end(self.cursors[source].begins.len() * (self.layout.columns() + 1)).await
    }

    /// Asks for the memory of what is held and of another batch. Errors: 53200.
    fn reserve(&self, batch: &RecordBatch) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let mut counted = Counted::default();
        self.held.iter().chain([batch]).for_each(|batch| counted.add(batch));
        let keys = self.cursors.iter().map(Cursor::bytes).sum::<usize>();
        memory.try_resize(counted.bytes() + keys + batch.num_rows() * size_of::<u128>())
    }

    /// The rows that were picked, which leave only the batches in which sources stand.
    async fn given(&mut self) -> Result<RecordBatch> {
        let picked = std::mem::take(&mut self.picked);
        let column = |at: usize| self.held.iter().map(|batch| batch.column(at).clone()).collect();
        let columns: Vec<Vec<ArrayRef>> = (0..self.schema.fields().len()).map(column).collect();
        let columns = gathered(&columns, &picked, &self.steps, &self.time).await?;
        let held = std::mem::take(&mut self.held);
        for cursor in self.cursors.iter_mut().filter(|cursor| !cursor.is_spent()) {
            self.held.push(held[cursor.held].clone());
            cursor.held = self.held.len() - 1;
        }
        batch_of(&self.schema, columns, picked.len())
    }
}
