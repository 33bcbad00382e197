//! Whether the work of this thread is to stop, for code that has no way of being told.
//!
//! A statement's planning passes through code of others (parser, planner, optimizer), to which no
//! token can be handed. The caller that begins such work sets a check for its thread, and our rules, visitors
//! and callbacks, by which that code comes again and again, ask it.
//!
//! Threads: what [`watching`] says holds for its own thread alone. Cost: [`is_pending`] is a read of a
//! thread's own variable and one call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::memory;

type Check = Rc<dyn Fn() -> bool>;

thread_local! {
    static ASKED: RefCell<Option<Check>> = const { RefCell::new(None) };
}

/// Puts back who was asked before, also if the work panics.
struct Restored(Option<Check>);

impl Drop for Restored {
    fn drop(&mut self) {
        ASKED.set(self.0.take());
    }
}

/// Does `work`, during which [`is_pending`] answers what `check` does. Within other such work the
/// inner `check` is asked alone.
pub fn watching<R>(check: impl Fn() -> bool + 'static, work: impl FnOnce() -> R) -> R {
    let check: Check = Rc::new(check);
    let _restored = Restored(ASKED.replace(Some(check)));
    work()
}

/// Whether the work of this thread is to stop; false outside [`watching`].
pub fn is_pending() -> bool {
    ASKED.with_borrow(|check| check.as_ref().is_some_and(|check| check()))
}

/// Steps of a loop over one large value that is read: of each [`STEPS_PER_LOOK`] one asks whether to go on.
#[derive(Debug, Default)]
pub struct Pace {
    steps: Cell<u32>,
    is_over: Cell<bool>,
}

/// At some 10 ns to a microsecond a step, a look is cheap and comes within milliseconds.
pub const STEPS_PER_LOOK: u32 = 4096;

impl Pace {
    /// Counts a step. Whether the loop is to end, because the work of this thread is to stop or was refused memory;
    /// once so, always.
    #[inline]
    pub fn is_over(&self) -> bool {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_PER_LOOK) {
            self.look();
        }
        self.is_over.get()
    }

    #[cold]
    fn look(&self) {
        let is_over = is_pending() || memory::is_ended() || memory::current().is_refused();
        self.is_over.set(self.is_over.get() || is_over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_ends_within_so_many_steps_of_its_interrupt() {
        let pace = Pace::default();
        assert!((0..2 * STEPS_PER_LOOK).all(|_| !pace.is_over()));
        watching(|| true, || assert!((0..STEPS_PER_LOOK).any(|_| pace.is_over())));
        assert!(pace.is_over(), "for good");
    }

    #[test]
    fn the_innermost_is_asked_and_none_behind_its_end() {
        assert!(!is_pending());
        watching(
            || true,
            || {
                assert!(is_pending());
                watching(|| false, || assert!(!is_pending()));
                let caught = std::panic::catch_unwind(|| {
                    watching(|| false, || std::panic::resume_unwind(Box::new(())))
                });
                assert!(caught.is_err() && is_pending());
            },
        );
        assert!(!is_pending());
    }
}
