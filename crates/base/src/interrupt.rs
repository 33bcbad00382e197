//! Whether the work of this thread is to stop, for code that has no way of being told.
//!
//! A statement's planning passes through code of others (parser, planner, optimizer), to which no
//! token can be handed. The caller that begins such work sets a check for its thread, and our rules, visitors
//! and callbacks, by which that code comes again and again, ask it.
//!
//! Threads: what [`watching`] says holds for its own thread alone. Cost: [`is_pending`] is a read of a
//! thread's own variable and one call.

use std::cell::RefCell;
use std::rc::Rc;

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

#[cfg(test)]
mod tests {
    use super::*;

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
