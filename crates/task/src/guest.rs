//! Guests: threads that are no workers, compute for long, and take turns with the workers for their processors.
//!
//! Some work cannot be cut into tasks: a loop that changes a million rows on its caller's thread. Beside the workers it
//! would be one thread more than there are processors, which the operating system shares out without knowing of classes
//! and bands. Words: a *guest* is such a thread. As long as workers have nothing to do it computes *at large*, on a
//! processor that nobody wants. Else it *asks*: a task of the guest's group stands in the queues of its band and class,
//! under the group's limit and quotas as any other, and the worker whose turn comes to the task *lends* its processor:
//! the worker sleeps while the guest computes. The guest looks often ([`Guest::is_due`]) and pauses when the loan is over
//! ([`Guest::pause`]). So bands, weights, floors and limits hold for guests, and their time is charged to their class.
//!
//! Invariants, checked by the model `guest_and_worker_take_turns` and its canaries:
//! 1. A guest that does not compute at large computes while its worker sleeps. A guest that is late is an exception: a
//!    worker takes its processor back after [`LOAN_MAX`], since the guest may wait for something itself.
//! 2. A guest that asks is lent a processor when its turn comes, or goes on because its group or its runtime was stopped.
//!
//! Cost: a look is a load or two, or a reading of the clock; a loan two wake-ups of sleeping threads per [`LOAN`].

use crate::annotation::Annotation;
use crate::group::{Group, Locality, RunningGroup};
use crate::group_table::EnqueueError;
use crate::planted;
use crate::worker::outside_workers;
use crate::worker::shared::Shared;
use halcyon_base::sync::atomic::Ordering;
use halcyon_base::sync::{Arc, Condvar, Mutex};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Polled, Poll, Waker};
use std::time::Duration;

/// How long a loan lasts. Waking two threads takes some ten microseconds.
const LOAN: Duration = Duration::from_micros(500);

/// After so long a worker takes its processor back.
const LOAN_MAX: Duration = match cfg!(shuttle) {
    // Timed waits of the model may end at any moment, but for endless ones.
    true => Duration::from_secs(3600),
    false => Duration::from_micros(1_000),
};

/// How often a guest that waits looks whether it was cancelled.
const LOOK: Duration = match cfg!(shuttle) {
    true => Duration::from_secs(3600),
    false => Duration::from_millis(10),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The guest computes at large, or not at all.
    Elsewhere,
    /// The guest waits for its turn.
    Asks,
    /// A worker sleeps for the guest.
    Lent,
    /// Nobody lends any more.
    Over,
}

struct State {
    phase: Phase,
    /// Wakes the task that lends; `None` while the task is ready or runs.
    waker: Option<Waker>,
}

/// What a guest and the task that lends know of each other.
struct Loan {
    state: Mutex<State>,
    guest: Condvar,
    worker: Condvar,
}

impl Loan {
    /// Changes the phase from the guest's side, and tells the other side.
    fn turn_to(&self, phase: Phase) {
        let mut state = self.state.lock();
        if state.phase == Phase::Over {
            return;
        }
        if state.phase == Phase::Lent {
            self.worker.notify_one();
        }
        state.phase = phase;
        let waker = match phase {
            Phase::Asks if !planted::is(planted::UNHEARD_GUEST) => state.waker.take(),
            Phase::Over => state.waker.take(),
            _ => None,
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The task that lends its worker's processor.
struct Lender(std::sync::Arc<Loan>);

impl Future for Lender {
    type Output = ();

    fn poll(self: Pin<&mut Self>, polled: &mut Polled<'_>) -> Poll<()> {
        let loan = &self.0;
        let mut state = loan.state.lock();
        if state.phase == Phase::Asks {
            state.phase = Phase::Lent;
            loan.guest.notify_one();
            let is_kept = !planted::is(planted::LENDS_WITHOUT_SLEEP);
            while is_kept && state.phase == Phase::Lent {
                if loan.worker.wait_for(&mut state, LOAN_MAX).timed_out() {
                    break;
                }
            }
            if state.phase == Phase::Lent {
                state.phase = Phase::Elsewhere;
            }
        }
        match state.phase {
            Phase::Over => return Poll::Ready(()),
            // Behind those who wait by now.
            Phase::Asks => polled.waker().wake_by_ref(),
            Phase::Elsewhere | Phase::Lent => state.waker = Some(polled.waker().clone()),
        }
        Poll::Pending
    }
}

/// Dropped at its end, and in its place when its group or runtime is stopped.
impl Drop for Lender {
    fn drop(&mut self) {
        self.0.state.lock().phase = Phase::Over;
        self.0.guest.notify_one();
    }
}

/// A thread's turns among the workers; see the module.
pub struct Guest {
    shared: Arc<Shared>,
    loan: std::sync::Arc<Loan>,
    group: RunningGroup,
    /// Ticks at which the loan ends; in the past for who has none, and never once nobody lends.
    until: u64,
    is_at_large: bool,
    may_be_at_large: bool,
}

impl Group {
    /// Makes a guest of the calling thread, whose turns are those of the group's tasks with this annotation. The
    /// group has no other tasks. `may_be_at_large`: the guest computes without asking while workers have nothing to do; a group
    /// whose limits hold exactly asks in any case. `None`: the runtime is simulated, and has no processors to lend.
    ///
    /// Errors: see [`EnqueueError`]. Panics: on a worker; as [`Group::task`].
    pub fn guest(
        mut self,
        annotation: Annotation,
        locality: Locality,
        may_be_at_large: bool,
    ) -> Result<Option<Guest>, EnqueueError> {
        outside_workers("waits for a loan");
        let shared = Arc::clone(self.shared());
        if shared.simulation.is_some() {
            return Ok(None);
        }
        let loan = std::sync::Arc::new(Loan {
            state: Mutex::new(State { phase: Phase::Elsewhere, waker: None }),
            guest: Condvar::new(),
            worker: Condvar::new(),
        });
        drop(self.future(annotation, Lender(std::sync::Arc::clone(&loan))));
        let group = self.enqueue(locality)?;
        Ok(Some(Guest { shared, loan, group, until: 0, is_at_large: false, may_be_at_large }))
    }
}

impl Guest {
    /// The group whose tasks' turns are the guest's.
    pub fn group(&self) -> &RunningGroup {
        &self.group
    }

    /// Whether the guest should pause: its loan is over, or workers want the processor on which it is at large.
    #[inline]
    pub fn is_due(&self) -> bool {
        match self.is_at_large {
            true => !self.has_room(),
            false => self.shared.clock.ticks() >= self.until,
        }
    }

    /// Gives the processor back and waits for the next turn; at once if a processor is free. Ends early when
    /// `is_cancelled` says so, which is asked every [`LOOK`].
    pub fn pause(&mut self, is_cancelled: impl Fn() -> bool) {
        self.leaves_large();
        if self.may_be_at_large && self.goes_at_large() {
            return self.loan.turn_to(Phase::Elsewhere);
        }
        self.loan.turn_to(Phase::Asks);
        let mut state = self.loan.state.lock();
        while state.phase == Phase::Asks {
            self.loan.guest.wait_for(&mut state, LOOK);
            if state.phase == Phase::Asks && is_cancelled() {
                // The task that lends finds that nobody asks.
                state.phase = Phase::Elsewhere;
            }
        }
        self.until = match state.phase {
            Phase::Over => u64::MAX,
            _ => self.shared.clock.ticks().saturating_add(self.shared.clock.of(LOAN)),
        };
    }

    /// Gives the processor back: the thread is about to wait for something else, or does not compute for a while. The next
    /// look finds a pause due.
    pub fn rest(&mut self) {
        self.leaves_large();
        if self.until != u64::MAX {
            self.until = 0;
        }
        self.loan.turn_to(Phase::Elsewhere);
    }

    /// Whether there is a worker with nothing to do for each guest at large.
    #[inline]
    fn has_room(&self) -> bool {
        let idle = self.shared.islands.iter().map(|island| island.idle.load(Ordering::Relaxed));
        let idle: u32 = idle.map(u64::count_ones).sum();
        self.shared.guests.load(Ordering::Relaxed) <= idle as usize
    }

    fn goes_at_large(&mut self) -> bool {
        self.shared.guests.fetch_add(1, Ordering::Relaxed);
        self.is_at_large = true;
        if !self.has_room() {
            self.leaves_large();
        }
        self.is_at_large
    }

    fn leaves_large(&mut self) {
        if std::mem::take(&mut self.is_at_large) {
            self.shared.guests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.leaves_large();
        self.loan.turn_to(Phase::Over);
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_at_large, group) = (self.is_at_large, &self.group);
        f.debug_struct("Guest").field("at_large", &is_at_large).field("group", group).finish()
    }
}
