//! What all transactions of a manager share.
//!
//! Invariant, checked by [`Center::check`]: a participant stands at its number, and stays there as
//! long as the manager: a number that was read in a lock always names its participant.

use crate::cut_counts::Counting;
use crate::deadlock::WaitGraph;
use crate::lock::ParticipantId;
use crate::log::Log;
use crate::participant::Participant;
use halcyon_base::SessionId;
use halcyon_base::sync::atomic::{AtomicU64, Ordering};
use halcyon_base::sync::{Arc, Mutex};

/// What all transactions share, touched only when one has to wait or to be looked at.
pub(crate) struct Center {
    pub(crate) waits: Mutex<WaitGraph>,
    pub(crate) participants: Mutex<Vec<Arc<Participant>>>,
    pub(crate) next_txn: AtomicU64,
    /// The redo log; `None` in a database that lives in memory alone.
    pub(crate) log: Option<Arc<Log>>,
    /// How often an owner has settled its view without others that the same events went to
    /// ([`crate::view`]).
    pub(crate) lone_view_settlements: AtomicU64,
    /// Cuts, and what they waited for.
    pub(crate) cuts: Counting,
    /// Called when a transaction has begun to wait for a lock, with its session.
    pub(crate) on_wait: Mutex<Vec<OnWait>>,
}

/// Something to be called when a transaction of a session has begun to wait.
pub(crate) type OnWait = std::sync::Arc<dyn Fn(SessionId) + Send + Sync>;

impl Center {
    pub(crate) fn new(log: Option<Arc<Log>>) -> Self {
        Center {
            waits: Mutex::new(WaitGraph::default()),
            participants: Mutex::new(Vec::new()),
            next_txn: AtomicU64::new(1),
            log,
            lone_view_settlements: AtomicU64::new(0),
            cuts: Counting::default(),
            on_wait: Mutex::default(),
        }
    }

    /// Says that a transaction of a session has begun to wait.
    pub(crate) fn tell_of_wait(&self, session: SessionId) {
        let told = self.on_wait.lock().clone();
        told.iter().for_each(|tell| tell(session));
    }

    /// Counts a lone settlement, before the rows change: a reader who sees them finds another number.
    pub(crate) fn note_lone_view_settlement(&self) {
        self.lone_view_settlements.fetch_add(1, Ordering::SeqCst);
    }

    /// Panics unless every participant stands at its number.
    pub(crate) fn check(&self) {
        for (position, participant) in self.participants.lock().iter().enumerate() {
            assert_eq!(participant.id.0 as usize, position, "a participant stands at its number");
        }
    }

    pub(crate) fn participant(&self, id: ParticipantId) -> Arc<Participant> {
        Arc::clone(&self.participants.lock()[id.0 as usize])
    }

    pub(crate) fn enroll(&self, slot: usize) -> Arc<Participant> {
        let mut participants = self.participants.lock();
        let number = u32::try_from(participants.len()).expect("participants fit into memory");
        let participant = Arc::new(Participant::new(ParticipantId(number), slot));
        participants.push(Arc::clone(&participant));
        participant
    }
}
