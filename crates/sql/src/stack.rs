//! Stacks for what is as deep as a statement: parsing, planning, running and dropping it.
//!
//! Callers have stacks of any size. What recurses over a statement's trees runs here on a stack that is
//! large enough for the deepest statement that is taken ([`crate::parse::DEPTH_MAX`]). A stack is only
//! reserved: what is never touched costs no memory.
//!
//! The SQL parser recurses in more ways than it counts, and makes trees of chains that are as deep as
//! their text is long. So it asks through its dialect, again and again, whether enough of the stack is
//! left to drop such a tree: `go_on`.
//!
//! Cost: the reservation, and pages that are touched for the first time, some twenty microseconds; nothing
//! for a short text on a thread whose stack has [`THREAD_BYTES`]. Long texts always get a stack of their
//! own, because pages of a thread's stack, once touched, are never given back.

use std::cell::Cell;
use std::panic::resume_unwind;

use halcyon_base::interrupt;

/// Levels that a statement's tree may have.
pub const DEPTH_MAX: usize = 512;
/// What planning and running the deepest statement need, in code that is not optimised.
const NEEDED_BYTES: usize = 192 << 20;
/// Stack of a thread on which many statements are planned: enough for any.
pub const THREAD_BYTES: usize = SEGMENT_BYTES;
/// A text of at most so many bytes is short: planning touches little of the stack, however deep the text.
pub const SHORT_TEXT_BYTES: usize = 512;
/// A new stack: what is needed, and what may lie between two calls of [`with_stack`].
const SEGMENT_BYTES: usize = 256 << 20;
/// Always left, for code that does not look how much is left.
const UNSEEN_BYTES: usize = 4 << 20;
/// What a destructor uses for one level of a tree that the parser has made, at most.
const LEVEL_BYTES: usize = 512;

thread_local! {
    /// What the running parse must leave of its stack.
    static LEFT_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` with enough stack for any statement that [`crate::parse`] lets through.
pub fn with_stack<R>(work: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(NEEDED_BYTES, SEGMENT_BYTES, work)
}

/// Runs `work`, which concerns a statement with a text of so many bytes, as [`with_stack`] does; on a new
/// stack, given back at the end, if the text is long.
pub fn with_stack_for<R>(text_bytes: usize, work: impl FnOnce() -> R) -> R {
    match text_bytes <= SHORT_TEXT_BYTES {
        true => with_stack(work),
        false => with_new_stack(work),
    }
}

/// Runs `work` as [`with_stack`] does, on a stack that is given back at the end.
pub fn with_new_stack<R>(work: impl FnOnce() -> R) -> R {
    stacker::grow(SEGMENT_BYTES, work)
}

/// Drops a value that may be as deep as a statement.
pub fn drop_deep<T>(value: T) {
    with_stack(|| drop(value));
}

/// Runs `parse` with enough stack for every tree that so many tokens can become.
pub(crate) fn with_stack_for_tokens<R>(tokens: usize, parse: impl FnOnce() -> R) -> R {
    struct Restored(usize);
    impl Drop for Restored {
        fn drop(&mut self) {
            LEFT_BYTES.set(self.0);
        }
    }
    let left = UNSEEN_BYTES + tokens.saturating_mul(LEVEL_BYTES);
    let bytes = NEEDED_BYTES + left;
    let parse = || {
        let _restored = Restored(LEFT_BYTES.replace(left));
        parse()
    };
    match tokens <= SHORT_TEXT_BYTES {
        true => stacker::maybe_grow(bytes, bytes.max(SEGMENT_BYTES), parse),
        false => stacker::grow(bytes.max(SEGMENT_BYTES), parse),
    }
}

/// Why the parser was stopped.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    /// Too little of its stack is left.
    Depth,
    /// The statement is to end.
    Interrupt,
}

/// Ends the parser if the stack it needs is used up or its statement is to end. The dialect calls this
/// whenever it is asked something, which is in every loop and every recursion of the parser.
///
/// Panics: without a message, for the reader that began the parse.
#[inline]
pub(crate) fn go_on() {
    if is_used_up() {
        stop_for_depth();
    }
    if interrupt::is_pending() {
        resume_unwind(Box::new(Stop::Interrupt));
    }
}

/// Ends the parser because what it reads is too deep. Panics: as [`go_on`].
pub(crate) fn stop_for_depth() -> ! {
    resume_unwind(Box::new(Stop::Depth))
}

/// Whether the running parse has come to the end of its stack.
fn is_used_up() -> bool {
    stacker::remaining_stack().is_some_and(|left| left < LEFT_BYTES.get())
}

/// Bytes of the stack between here and where `base` was taken.
pub(crate) fn bytes_since(base: usize) -> usize {
    base.abs_diff(here())
}

/// The place of the stack at which the caller stands.
#[inline(never)]
pub(crate) fn here() -> usize {
    let local = 0u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}
