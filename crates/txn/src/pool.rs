//! Seats between transactions. Sessions of one slot share a pool of seats, so beginning a transaction
//! allocates nothing once the pool is warm and writes no line that sessions of other slots write.

use crate::center::Center;
use crate::seat::Seat;
use halcyon_base::TxnId;
use halcyon_base::sync::atomic::Ordering;
use halcyon_base::sync::{Arc, Mutex};
use std::ops::Range;

/// Transaction ids that a pool takes at a time.
const TXN_IDS_PER_REFILL: u64 = 1024;

/// The seats of one slot's sessions, in lines of their own.
#[repr(align(128))]
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    slot: usize,
    pub(crate) center: Arc<Center>,
}

#[derive(Default)]
struct PoolState {
    // Boxed, because a seat moves between pool and transaction twice per transaction.
    #[expect(clippy::vec_box)]
    free: Vec<Box<Seat>>,
    txns: Range<u64>,
}

impl Pool {
    /// The pool of the sessions that `slot` stands for, without seats.
    pub(crate) fn new(slot: usize, center: Arc<Center>) -> Self {
        Pool { state: Mutex::new(PoolState::default()), slot, center }
    }

    /// A seat and the id of the transaction that will use it.
    pub(crate) fn take(&self) -> (Box<Seat>, TxnId) {
        let mut state = self.state.lock();
        if state.txns.is_empty() {
            let first = self.center.next_txn.fetch_add(TXN_IDS_PER_REFILL, Ordering::Relaxed);
            state.txns = first..first + TXN_IDS_PER_REFILL;
        }
        let txn = state.txns.next().expect("the range was refilled");
        let seat = state.free.pop();
        drop(state);
        let seat = seat.unwrap_or_else(|| Box::new(Seat::new(self.center.enroll(self.slot))));
        (seat, TxnId(txn))
    }

    /// Takes a seat back whose transaction has ended.
    pub(crate) fn give_back(&self, seat: Box<Seat>) {
        self.state.lock().free.push(seat);
    }
}
