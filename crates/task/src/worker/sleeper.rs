//! Tasks that suspend: where a task rests until somebody wakes it, and how it becomes ready again.
//!
//! Words: a *sleeper* is what a task that may suspend shares with its wakers. The task is *queued*
//! (it is ready, or on its way to a worker), *running*, *asleep* (the sleeper holds it), or *ended*.
//! A wake-up of a running task is remembered: the task is queued again when its step ends.
//!
//! Invariants, checked by the models `wake_up_is_never_lost`, `two_wakers_wake_a_task_once` and
//! `aborted_group_wakes_its_sleepers`; the canaries beside them plant bugs:
//! 1. The task is in exactly one place: the runtime's queues, a worker, or its sleeper; and the
//!    sleeper holds it exactly while the state is asleep. Who changes the state from asleep takes
//!    it.
//! 2. A wake-up that begins after the task's step began leads to another step, or the task ends.
//! 3. A task whose group was stopped, or whose runtime stops, does not stay asleep: who stops it says
//!    so first and wakes every registered sleeper then; a task that falls asleep looks whether
//!    anybody said so.
//!
//! Cost: a suspension and a wake-up take two exchanges and two locks that nobody else wants.

use super::Context;
use super::shared::{STOPPING, Shared};
use super::slot::TaskRef;
use super::task::{Step, Task};
use crate::annotation::{Annotation, WorkerId};
use crate::group_table::GroupId;
use crate::planted;
use halcyon_base::sync::Mutex;
use halcyon_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

const QUEUED: u8 = 0;
const RUNNING: u8 = 1;
const ASLEEP: u8 = 2;
const ENDED: u8 = 3;

/// The part of a suspendable task that its wakers know.
pub(crate) struct Sleeper {
    state: AtomicU8,
    cancelled: AtomicBool,
    /// The worker that ran the task last.
    last: AtomicU16,
    /// When the task was woken, ticks.
    ready_ticks: AtomicU64,
    /// Until when the step that runs may last, ticks.
    slice_ticks: AtomicU64,
    /// The task while it is asleep.
    task: Mutex<Option<TaskRef>>,
    group: GroupId,
    /// Place in the group's list of sleepers.
    place: usize,
    shared: halcyon_base::sync::Arc<Shared>,
}

impl Sleeper {
    /// A sleeper for a task of `group` that is to be spawned.
    pub(crate) fn new(shared: &halcyon_base::sync::Arc<Shared>, group: GroupId) -> Arc<Sleeper> {
        let state = shared.groups.state(group);
        state.register(|place| {
            let sleeper = Arc::new(Sleeper {
                state: AtomicU8::new(QUEUED),
                cancelled: AtomicBool::new(false),
                last: AtomicU16::new(u16::MAX),
                ready_ticks: AtomicU64::new(0),
                slice_ticks: AtomicU64::new(u64::MAX),
                task: Mutex::new(None),
                group,
                place,
                shared: halcyon_base::sync::Arc::clone(shared),
            });
            (Waker::from(Arc::clone(&sleeper)), sleeper)
        })
    }

    /// Begins a step; returns when the task was woken, or 0 if it was queued otherwise.
    fn begin(&self, cx: &Context) -> u64 {
        let now = cx.clock.ticks();
        self.last.store(cx.id.0, Ordering::Relaxed);
        self.slice_ticks.store(now + cx.limits.slice, Ordering::Relaxed);
        // What wakers did before they woke the task is seen by this step.
        self.state.swap(RUNNING, Ordering::SeqCst);
        let ready = self.ready_ticks.swap(0, Ordering::Relaxed);
        if ready == 0 { 0 } else { now.saturating_sub(ready).max(1) }
    }

    /// Lays the task down; it comes back if it was woken while it ran.
    pub(super) fn rest(self: &Arc<Self>, task: TaskRef) -> Result<(), TaskRef> {
        *self.task.lock() = Some(task);
        let asleep = if planted::is(planted::SLEEP_THROUGH_WAKE) {
            self.state.store(ASLEEP, Ordering::SeqCst);
            true
        } else {
            let (from, to) = (RUNNING, ASLEEP);
            self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        if !asleep {
            return Err(self.task.lock().take().expect("nobody takes the task of who is awake"));
        }
        // Pairs with `Shared::wake_sleepers`: the thread that stops the group wakes this sleeper, or is seen.
        if self.stopped() && !planted::is(planted::SLEEP_THROUGH_STOP) {
            self.wake_by_ref();
        }
        Ok(())
    }

    /// Whether the task is to be dropped instead of run: it waits for nothing any more.
    fn stopped(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
            || self.shared.groups.state(self.group).stopped()
            || self.shared.phase.load(Ordering::SeqCst) == STOPPING
    }

    /// Asks the task to end: its next step drops it.
    pub(crate) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.wake_by_ref();
    }

    pub(crate) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// The task's end: wake-ups mean nothing from now on.
    fn end(&self) {
        self.state.store(ENDED, Ordering::SeqCst);
        self.shared.groups.state(self.group).unregister(self.place);
    }

    /// Whether the running step has lasted for its share of time, or should end at once.
    fn spent(&self) -> bool {
        self.stopped() || {
            let until = self.slice_ticks.load(Ordering::Relaxed);
            self.shared.clock.ticks_after(1) >= until
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.load(Ordering::SeqCst);
        loop {
            if state == ENDED {
                return;
            }
            if state == ASLEEP && planted::is(planted::WOKEN_TWICE) {
                self.state.store(QUEUED, Ordering::SeqCst);
                break;
            }
            // Also where it is queued: the exchange hands what was done before to the next step.
            let changed =
                self.state.compare_exchange(state, QUEUED, Ordering::SeqCst, Ordering::SeqCst);
            match changed {
                Ok(ASLEEP) => break,
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        // Invariant 1: the change from asleep was ours, and with it the task.
        let task = self.task.lock().take().expect("a sleeper holds its task while it is asleep");
        self.ready_ticks.store(self.shared.clock.ticks().max(1), Ordering::Relaxed);
        self.shared.ready(task, WorkerId(self.last.load(Ordering::Relaxed)));
    }
}

thread_local! {
    /// The sleeper and the annotation of the task that this thread runs. Threads of the model checker share a thread.
    static CURRENT: RefCell<Option<(Arc<Sleeper>, Annotation)>> = const { RefCell::new(None) };
}

/// Says that this thread runs no task any more: its step panicked.
pub(super) fn none_runs() {
    CURRENT.set(None);
}

/// Asks at a point between two pieces of work whether the running future should let others run:
/// pending, with a wake-up on its way, once the step has lasted for [`crate::Config::slice`], or
/// when the task was cancelled, its group stopped, or its runtime shuts down. Then the task is
/// dropped in the place of its next step, so what waits for its end waits for at most the work
/// between two such points. Always ready outside the futures of a runtime.
pub fn poll_proceed(polled: &mut std::task::Context<'_>) -> Poll<()> {
    if CURRENT.with_borrow(|current| current.as_ref().is_some_and(|(sleeper, _)| sleeper.spent())) {
        polled.waker().wake_by_ref();
        return Poll::Pending;
    }
    Poll::Ready(())
}

/// A number that tells the running step from the others of its future: pieces of work between two calls with the same
/// number were one stretch. `None` outside the futures of a runtime.
pub fn step() -> Option<u64> {
    CURRENT.with_borrow(|current| {
        current.as_ref().map(|(sleeper, _)| sleeper.slice_ticks.load(Ordering::Relaxed))
    })
}

/// The runtime, the group and the annotation of the future that this thread runs.
pub(crate) fn surroundings() -> Option<(halcyon_base::sync::Arc<Shared>, GroupId, Annotation)> {
    CURRENT.with_borrow(|current| {
        let (sleeper, annotation) = current.as_ref()?;
        Some((halcyon_base::sync::Arc::clone(&sleeper.shared), sleeper.group, *annotation))
    })
}

/// As [`poll_proceed`], to be awaited: returns at once while the step may go on, and in the task's
/// next step otherwise.
pub async fn proceed() {
    let mut asked = false;
    std::future::poll_fn(|polled| {
        // The next step begins with time of its own.
        if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { poll_proceed(polled) }
    })
    .await;
}

/// A task that may suspend ([`Context::suspend`]).
pub(crate) struct Suspendable<T> {
    task: T,
    sleeper: Arc<Sleeper>,
}

impl<T> Suspendable<T> {
    pub(crate) fn new(task: T, sleeper: Arc<Sleeper>) -> Suspendable<T> {
        Suspendable { task, sleeper }
    }
}

impl<T: Task> Task for Suspendable<T> {
    fn run(&mut self, cx: &mut Context) -> Step {
        let waited = self.sleeper.begin(cx);
        if waited > 0 {
            let class = usize::from(cx.annotation().class_id().0);
            cx.me().classes[class].waited(waited);
        }
        if self.sleeper.cancelled() {
            return Step::Done;
        }
        cx.counters().group.store(self.sleeper.group.0, Ordering::Relaxed);
        cx.sleeper = Some(Arc::clone(&self.sleeper));
        if !cfg!(shuttle) {
            CURRENT.set(Some((Arc::clone(&self.sleeper), cx.annotation())));
        }
        let step = self.task.run(cx);
        self.task_ran(cx, step)
    }
}

impl<T> Suspendable<T> {
    fn task_ran(&self, cx: &mut Context, step: Step) -> Step {
        if !cfg!(shuttle) {
            CURRENT.set(None);
        }
        cx.counters().group.store(GroupId::NONE.0, Ordering::Relaxed);
        if step != Step::SUSPEND {
            cx.sleeper = None;
            self.sleeper.state.store(QUEUED, Ordering::SeqCst);
        }
        step
    }
}

impl<T> Drop for Suspendable<T> {
    fn drop(&mut self) {
        self.sleeper.end();
    }
}
