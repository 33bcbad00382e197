//! Doing records again on the partitions of a database that is being opened.
//!
//! Partitions are independent of each other, so each belongs to one of several workers: one thread
//! reads the log and deals the parts of each commit out to them. With one worker nothing is dealt
//! out; both ways must agree (`replay_agrees_with_one_and_with_many_workers`).

use super::Malformed;
use super::code::{self, PartitionPart, RowEntry, Rows};
use halcyon_base::PartitionId;
use halcyon_store::{Partition, Schema, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Bytes of row entries dealt out at a time.
const DEAL_BYTES: usize = 1 << 18;
/// Deals that may wait at a worker.
const DEALS: usize = 8;

/// Partitions by id, without indexes.
pub(crate) type Partitions = BTreeMap<PartitionId, Partition>;

/// Does commits again.
pub(crate) struct Replay {
    workers: Vec<Worker>,
    /// Changes of the catalog by the commits, in order.
    pub(crate) catalog: Vec<Vec<u8>>,
    /// By sequence: the value last logged.
    pub(crate) sequences: BTreeMap<u32, i64>,
}

enum Worker {
    Here(Partitions),
    Thread { sender: SyncSender<Deal>, deal: Deal, thread: JoinHandle<Result<Partitions, Broken>> },
}

/// A worker without further work: its partitions, or the thread that still works.
enum Last {
    Done(Partitions),
    Working(JoinHandle<Result<Partitions, Broken>>),
}

/// Work for a worker, in order.
#[derive(Default)]
struct Deal {
    parts: Vec<Dealt>,
    bytes: Vec<u8>,
}

struct Dealt {
    partition: PartitionId,
    what: What,
    /// End of its rows in the deal's bytes.
    end: usize,
    /// Number of the record that the part belongs to, for messages.
    record: u64,
}

#[derive(Clone)]
enum What {
    /// Changes rows of a partition that has this number of columns.
    Change(usize),
    Define(Arc<Schema>),
    Drop,
}

/// A record that cannot be done again, by its number.
pub(crate) struct Broken {
    pub(crate) record: u64,
    pub(crate) why: Malformed,
}

impl Replay {
    /// Begins with what a checkpoint held.
    pub(crate) fn new(partitions: Partitions, worker_count: usize) -> Self {
        let mut shares: Vec<Partitions> = Vec::new();
        shares.resize_with(worker_count.max(1), Partitions::new);
        for (id, partition) in partitions {
            let share = id.0 as usize % shares.len();
            shares[share].insert(id, partition);
        }
        let alone = shares.len() == 1;
        let worker = |share| match alone {
            true => Worker::Here(share),
            false => {
                let (sender, receiver) = sync_channel(DEALS);
                let thread = thread::spawn(move || work(share, &receiver));
                Worker::Thread { sender, deal: Deal::default(), thread }
            }
        };
        let workers = shares.into_iter().map(worker).collect();
        Replay { workers, catalog: Vec::new(), sequences: BTreeMap::new() }
    }

    /// Does a commit again, now or soon; `record` is its number.
    pub(crate) fn commit(&mut self, record: u64, payload: &[u8]) -> Result<(), Malformed> {
        let (catalog, parts) = code::decode(payload)?;
        for part in parts {
            let (partition, what, rows) = match part {
                PartitionPart::Changed(id, rows) => (id, What::Change(rows.columns), rows.bytes),
                PartitionPart::Defined(id, schema, rows) => (id, What::Define(schema), rows.bytes),
                PartitionPart::Dropped(id) => (id, What::Drop, &[][..]),
            };
            let worker = partition.0 as usize % self.workers.len();
            match &mut self.workers[worker] {
                Worker::Here(partitions) => apply(partitions, partition, what, rows)?,
                Worker::Thread { sender, deal, .. } => {
                    deal.bytes.extend_from_slice(rows);
                    deal.parts.push(Dealt { partition, what, end: deal.bytes.len(), record });
                    if deal.bytes.len() >= DEAL_BYTES {
                        // A worker that has ended gives its error when it is asked for its
                        // partitions.
                        let _ = sender.send(std::mem::take(deal));
                    }
                }
            }
        }
        self.catalog.extend(catalog.map(ToOwned::to_owned));
        Ok(())
    }

    /// Notes the value from which a sequence goes on.
    pub(crate) fn sequence(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let (id, last) = code::decode_sequence(payload)?;
        self.sequences.insert(id, last);
        Ok(())
    }

    /// Waits until everything is done, and returns the partitions. Of several broken records the
    /// first one is the error.
    pub(crate) fn finish(self) -> Result<Partitions, Broken> {
        let mut all = Partitions::new();
        let mut broken: Option<Broken> = None;
        // All workers are told that nothing more comes before any is waited for.
        let last = |worker| match worker {
            Worker::Here(partitions) => Last::Done(partitions),
            Worker::Thread { sender, deal, thread } => {
                // As above.
                let _ = sender.send(deal);
                Last::Working(thread)
            }
        };
        let workers: Vec<Last> = self.workers.into_iter().map(last).collect();
        for worker in workers {
            let done = match worker {
                Last::Done(partitions) => Ok(partitions),
                Last::Working(thread) => {
                    thread.join().expect("records are checked before they are done")
                }
            };
            match done {
                Ok(partitions) => all.extend(partitions),
                Err(new) if broken.as_ref().is_none_or(|old| new.record < old.record) => {
                    broken = Some(new);
                }
                Err(_) => {}
            }
        }
        broken.map_or(Ok(all), Err)
    }
}

fn work(mut partitions: Partitions, deals: &Receiver<Deal>) -> Result<Partitions, Broken> {
    for Deal { parts, bytes } in deals {
        let mut start = 0;
        for Dealt { partition, what, end, record } in parts {
            apply(&mut partitions, partition, what, &bytes[start..end])
                .map_err(|why| Broken { record, why })?;
            start = end;
        }
    }
    Ok(partitions)
}

fn apply(
    partitions: &mut Partitions,
    id: PartitionId,
    what: What,
    rows: &[u8],
) -> Result<(), Malformed> {
    const NONE: Malformed = Malformed("there is no such partition");
    match what {
        What::Change(columns) => {
            let root = partitions.get_mut(&id).ok_or(NONE)?;
            if root.schema().columns.len() != columns {
                return Err(Malformed("the partition has another number of columns"));
            }
            apply_rows(root, &Rows { bytes: rows, columns })
        }
        What::Define(schema) => {
            let columns = schema.columns.len();
            let mut root = Partition::new(schema);
            apply_rows(&mut root, &Rows { bytes: rows, columns })?;
            partitions.insert(id, root);
            Ok(())
        }
        What::Drop => partitions.remove(&id).map(|_| ()).ok_or(NONE),
    }
}

fn apply_rows(root: &mut Partition, rows: &Rows<'_>) -> Result<(), Malformed> {
    let schema = root.schema().clone();
    rows.each(|entry| match entry {
        RowEntry::Insert(row, values) => {
            if root.row(row).is_some() {
                return Err(Malformed("a row is inserted where one is"));
            }
            check_values(&schema, 0..values.len(), values)?;
            root.insert_at(row, values);
            Ok(())
        }
        RowEntry::Update(row, columns, values) => {
            root.row(row).ok_or(Malformed("a row is updated that is not there"))?;
            check_values(&schema, columns.iter().map(|&column| column.into()), values)?;
            root.update_unchecked(row, columns, values);
            Ok(())
        }
        RowEntry::Delete(row) => match root.delete(row) {
            true => Ok(()),
            false => Err(Malformed("a row is deleted that is not there")),
        },
    })
}

/// Whether the values can be stored: storage would panic.
fn check_values(
    schema: &Schema,
    columns: impl Iterator<Item = usize>,
    values: &[ValueRef<'_>],
) -> Result<(), Malformed> {
    for (column, value) in columns.zip(values) {
        let def = schema.columns[column];
        if !def.ty.holds(value) || (value.is_null() && !def.nullable) {
            return Err(Malformed("a value does not fit its column"));
        }
    }
    Ok(())
}
