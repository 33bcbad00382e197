//! The mailbox of an exchange: batches on their way from its inputs to its outputs.
//!
//! Words: a *lane* is a queue with one or more *readers*, the exchange's outputs; a *feeder* is the task that
//! runs one input and puts its batches into lanes. A lane is *hungry* while it holds fewer batches than it
//! has room for.
//!
//! A feeder waits while no open lane is hungry. So memory is bounded as long as outputs are read evenly, and
//! an output that is read alone, as the build side of a join is, never waits in vain for a feeder that waits
//! for another output's reader.
//!
//! Invariants, checked by `every_batch_arrives_once_whatever_the_order` and
//! `a_feeder_waits_until_some_lane_is_hungry`:
//! 1. A batch that was put is taken once, or dropped with the last reader of its lane.
//! 2. A reader that waits is woken by the next batch of its lane that no other reader takes, by a failure, and
//!    by the last feeder's end.
//! 3. A feeder that waits is woken when a lane becomes hungry, and when the last lane closes.
//!
//! Cost: one lock for a batch that is put and one for batches that are taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use parking_lot::Mutex;

/// Batches that a lane has room for, for each of its readers.
const AHEAD: usize = 2;

/// The mailbox of one exchange.
pub(crate) struct Mailbox(Mutex<State>);

struct State {
    lanes: Vec<Lane>,
    /// Feeders that have not ended.
    feeders: usize,
    /// Feeders that wait for a hungry lane.
    waiting: Vec<Waker>,
    failure: Option<Arc<DataFusionError>>,
}

struct Lane {
    batches: VecDeque<RecordBatch>,
    /// Readers that wait.
    waiting: Vec<Waker>,
    /// Readers that are left.
    readers: usize,
    room: usize,
}

impl Lane {
    fn new(readers: usize) -> Self {
        Lane { batches: VecDeque::new(), waiting: Vec::new(), readers, room: AHEAD * readers }
    }

    fn is_open(&self) -> bool {
        self.readers > 0
    }

    fn is_hungry(&self) -> bool {
        self.is_open() && self.batches.len() < self.room
    }
}

fn register(wakers: &mut Vec<Waker>, polled: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(polled.waker())) {
        wakers.push(polled.waker().clone());
    }
}

impl Mailbox {
    /// A mailbox with a lane for each number of readers, into which so many feeders put batches.
    pub(crate) fn new(readers: impl IntoIterator<Item = usize>, feeders: usize) -> Self {
        let lanes = readers.into_iter().map(Lane::new).collect();
        Mailbox(Mutex::new(State { lanes, feeders, waiting: Vec::new(), failure: None }))
    }

    /// Ready once some lane is hungry; `false` if no lane is open any more.
    pub(crate) fn poll_room(&self, polled: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.0.lock();
        if state.lanes.iter().any(Lane::is_hungry) {
            return Poll::Ready(true);
        }
        if !state.lanes.iter().any(Lane::is_open) {
            return Poll::Ready(false);
        }
        register(&mut state.waiting, polled);
        Poll::Pending
    }

    /// Puts a batch into a lane; a lane without readers drops it.
    pub(crate) fn put(&self, lane: usize, batch: RecordBatch) {
        let mut state = self.0.lock();
        let lane = &mut state.lanes[lane];
        if !lane.is_open() {
            drop(state);
            return;
        }
        lane.batches.push_back(batch);
        let reader = lane.waiting.pop();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Tells every lane of an error; the first one counts.
    pub(crate) fn fail(&self, error: DataFusionError) {
        let mut state = self.0.lock();
        state.failure.get_or_insert_with(|| Arc::new(error));
        let readers = state.waiting_readers();
        drop(state);
        readers.into_iter().for_each(Waker::wake);
    }

    /// Notes a feeder's end.
    pub(crate) fn end_feeder(&self) {
        let mut state = self.0.lock();
        state.feeders -= 1;
        let readers = if state.feeders == 0 { state.waiting_readers() } else { Vec::new() };
        drop(state);
        readers.into_iter().for_each(Waker::wake);
    }

    /// The next batches of a lane, of at most `rows` rows together if they are several; `None` behind the last.
    ///
    /// Errors: that of a feeder, ahead of the batches that are there. A reader that was told of it asks no more.
    pub(crate) fn poll_take(
        &self,
        lane: usize,
        rows: usize,
        polled: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<RecordBatch>>>> {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        if let Some(failure) = &state.failure {
            return Poll::Ready(Some(Err(DataFusionError::from(failure))));
        }
        let lane = &mut state.lanes[lane];
        let was_hungry = lane.is_hungry();
        let Some(first) = lane.batches.pop_front() else {
            if state.feeders == 0 {
                return Poll::Ready(None);
            }
            register(&mut lane.waiting, polled);
            return Poll::Pending;
        };
        // A reader that was polled for another reason does not wait any more: the next wake-up is another's.
        lane.waiting.retain(|waker| !waker.will_wake(polled.waker()));
        let mut taken = first.num_rows();
        let mut batches = vec![first];
        while let Some(next) = lane.batches.front()
            && taken + next.num_rows() <= rows
        {
            taken += next.num_rows();
            batches.extend(lane.batches.pop_front());
        }
        let feeders = match !was_hungry && lane.is_hungry() {
            true => std::mem::take(&mut state.waiting),
            false => Vec::new(),
        };
        drop(guard);
        feeders.into_iter().for_each(Waker::wake);
        Poll::Ready(Some(Ok(batches)))
    }

    /// Notes that a reader of a lane is gone; returns whether no reader of any lane is left.
    pub(crate) fn leave(&self, lane: usize) -> bool {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let lane = &mut state.lanes[lane];
        lane.readers -= 1;
        // One of those that are left may have to take what the one that is gone was woken for.
        let mut woken = std::mem::take(&mut lane.waiting);
        let left = match lane.is_open() {
            true => VecDeque::new(),
            false => std::mem::take(&mut lane.batches),
        };
        woken.append(&mut state.waiting);
        let is_last = !state.lanes.iter().any(Lane::is_open);
        drop(guard);
        drop(left);
        woken.into_iter().for_each(Waker::wake);
        is_last
    }
}

impl State {
    fn waiting_readers(&mut self) -> Vec<Waker> {
        self.lanes.iter_mut().flat_map(|lane| std::mem::take(&mut lane.waiting)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use halcyon_base::rng::Rng;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn batch(numbers: &[i64]) -> RecordBatch {
        let column = Arc::new(Int64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter([("n", column as _)]).expect("one column")
    }

    fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
        let values =
            |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        batches.iter().flat_map(values).collect()
    }

    /// A task of the test: its waker, and how often it was woken.
    fn task() -> (Waker, Arc<Count>) {
        let count = Arc::new(Count::default());
        (Waker::from(Arc::clone(&count)), count)
    }

    #[test]
    fn a_feeder_waits_until_some_lane_is_hungry() {
        let mailbox = Mailbox::new([1, 1], 1);
        let (waker, woken) = task();
        let mut feeder = Context::from_waker(&waker);
        for number in 0..AHEAD as i64 {
            assert_eq!(mailbox.poll_room(&mut feeder), Poll::Ready(true));
            mailbox.put(0, batch(&[number]));
        }
        assert_eq!(mailbox.poll_room(&mut feeder), Poll::Ready(true), "the other lane is hungry");
        for number in 0..AHEAD as i64 {
            mailbox.put(1, batch(&[number]));
        }
        assert_eq!(mailbox.poll_room(&mut feeder), Poll::Pending);
        let (reading, _) = task();
        let taken = mailbox.poll_take(1, 1, &mut Context::from_waker(&reading));
        let Poll::Ready(Some(Ok(taken))) = taken else { panic!("a batch is there") };
        assert_eq!(numbers(&taken), [0]);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(mailbox.poll_room(&mut feeder), Poll::Ready(true));
        assert!(!mailbox.leave(0) && mailbox.leave(1));
        assert_eq!(mailbox.poll_room(&mut feeder), Poll::Ready(false));
    }

    #[test]
    fn a_failure_reaches_every_reader() {
        let mailbox = Mailbox::new([1, 2], 2);
        let (waker, woken) = task();
        let mut reader = Context::from_waker(&waker);
        assert!(mailbox.poll_take(1, 10, &mut reader).is_pending());
        mailbox.put(0, batch(&[1]));
        mailbox.fail(DataFusionError::Execution("first".into()));
        mailbox.fail(DataFusionError::Execution("second".into()));
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        for lane in [0, 1, 1] {
            let Poll::Ready(Some(Err(error))) = mailbox.poll_take(lane, 10, &mut reader) else {
                panic!("lane {lane} is told");
            };
            assert!(error.to_string().contains("first"), "{error}");
        }
    }

    /// Feeders and readers take turns as a seed says; a task that waits runs again only when it was woken.
    #[test]
    fn every_batch_arrives_once_whatever_the_order() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let lanes: Vec<usize> =
                (0..1 + rng.below(3)).map(|_| 1 + rng.below(3) as usize).collect();
            let feeders = 1 + rng.below(3) as usize;
            let mailbox = Mailbox::new(lanes.clone(), feeders);
            let readers: Vec<usize> =
                lanes.iter().enumerate().flat_map(|(lane, &count)| vec![lane; count]).collect();
            let tasks: Vec<_> = (0..feeders + readers.len()).map(|_| task()).collect();
            let mut asleep = vec![None; tasks.len()];
            let mut ended = vec![false; tasks.len()];
            let mut left: Vec<i64> = (0..feeders).map(|_| rng.below(20) as i64).collect();
            let (mut next, mut sent, mut got) = (0, Vec::new(), Vec::new());
            let mut idle = 0;
            while ended.contains(&false) {
                let turn = rng.below(tasks.len() as u64) as usize;
                let count = tasks[turn].1.0.load(Ordering::SeqCst);
                if ended[turn] || asleep[turn] == Some(count) {
                    idle += 1;
                    assert!(idle < 10_000, "seed {seed}: all that have not ended sleep");
                    continue;
                }
                idle = 0;
                let mut polled = Context::from_waker(&tasks[turn].0);
                asleep[turn] = match turn.checked_sub(feeders) {
                    None => match mailbox.poll_room(&mut polled) {
                        Poll::Pending => Some(count),
                        Poll::Ready(open) => {
                            assert!(open);
                            if left[turn] == 0 {
                                ended[turn] = true;
                                mailbox.end_feeder();
                            } else {
                                left[turn] -= 1;
                                next += 1;
                                let lane = rng.below(lanes.len() as u64) as usize;
                                sent.push((lane, next));
                                mailbox.put(lane, batch(&[next]));
                            }
                            None
                        }
                    },
                    Some(reader) => match mailbox.poll_take(readers[reader], 3, &mut polled) {
                        Poll::Pending => Some(count),
                        Poll::Ready(None) => {
                            ended[turn] = true;
                            None
                        }
                        Poll::Ready(Some(batches)) => {
                            let batches = batches.expect("nothing fails");
                            let taken = numbers(&batches);
                            assert!(taken.len() <= 3);
                            got.extend(taken.into_iter().map(|number| (readers[reader], number)));
                            None
                        }
                    },
                };
            }
            sent.sort_unstable();
            got.sort_unstable();
            assert_eq!(sent, got, "seed {seed}");
        }
    }
}
