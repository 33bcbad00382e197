//! How a tree's nodes are protected: not at all, by a reader-writer latch, or by a version.
//!
//! All three keep their state in the node's first word, [`Node::latch`].
//! Waiting spins briefly, then gives the core away: the holder may have been preempted.

use halcyon_base::sync::atomic::{AtomicU64, Ordering::*, fence};
use halcyon_base::sync::{hint, thread};

use crate::node::Node;

/// Looks at a taken latch before the core is given away.
const SPINS: u32 = 64;

/// A way to read and write single nodes.
pub trait Access: Send + Sync + 'static {
    /// The result of `look` on a state of the node that no writer was changing. `look` may run
    /// several times, also on a mixture of two states; only the result of a clean run is returned.
    fn read<R>(node: &Node, look: impl Fn(&Node) -> R) -> R;

    /// Runs `change` while nobody else changes the node, and no reader believes what it sees.
    fn write<R>(node: &Node, change: impl FnOnce(&Node) -> R) -> R;
}

fn pause(round: &mut u32) {
    *round += 1;
    if *round < SPINS { hint::spin_loop() } else { thread::yield_now() }
}

/// One thread, or threads that take turns by other means: no protection.
pub struct Unlatched;

impl Access for Unlatched {
    #[inline(always)]
    fn read<R>(node: &Node, look: impl Fn(&Node) -> R) -> R {
        look(node)
    }

    #[inline(always)]
    fn write<R>(node: &Node, change: impl FnOnce(&Node) -> R) -> R {
        change(node)
    }
}

/// Many readers or one writer. The word counts readers; its top bit is the writer.
pub struct Latch;

const WRITER: u64 = 1 << 63;

struct ReadHeld<'a>(&'a AtomicU64);

impl Drop for ReadHeld<'_> {
    fn drop(&mut self) {
        // Pairs with the writer's Acquire exchange: our reads end before its writes begin.
        self.0.fetch_sub(1, Release);
    }
}

struct WriteHeld<'a>(&'a AtomicU64);

impl Drop for WriteHeld<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire of whoever takes the latch next. Readers that announced
        // themselves meanwhile take their announcement back, so it is a subtraction.
        self.0.fetch_sub(WRITER, Release);
    }
}

impl Access for Latch {
    #[inline(always)]
    fn read<R>(node: &Node, look: impl Fn(&Node) -> R) -> R {
        let word = &node.latch;
        let mut round = 0;
        loop {
            // Pairs with the Release in `WriteHeld`.
            if word.fetch_add(1, Acquire) & WRITER == 0 {
                break;
            }
            word.fetch_sub(1, Relaxed);
            while word.load(Relaxed) & WRITER != 0 {
                pause(&mut round);
            }
        }
        let _held = ReadHeld(word);
        look(node)
    }

    #[inline(always)]
    fn write<R>(node: &Node, change: impl FnOnce(&Node) -> R) -> R {
        let word = &node.latch;
        let mut round = 0;
        // Pairs with the Release of the last reader or writer.
        while word.compare_exchange_weak(0, WRITER, Acquire, Relaxed).is_err() {
            pause(&mut round);
        }
        let _held = WriteHeld(word);
        change(node)
    }
}

/// Writers exclude each other by the word's lowest bit and count it up; readers take nothing and
/// look again if the word has changed. A sequence lock: Boehm, "Can seqlocks get along with
/// programming language memory models?", MSPC 2012; for trees Cha et al. (OLFIT), VLDB 2001.
pub struct Version;

const LOCKED: u64 = 1;

struct VersionHeld<'a>(&'a AtomicU64, u64);

impl Drop for VersionHeld<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire in `begin` and in `lock`: who sees this version sees the changes.
        self.0.store(self.1 + LOCKED, Release);
    }
}

impl Version {
    /// The version of a node that nobody is changing.
    #[inline(always)]
    pub fn begin(node: &Node) -> u64 {
        let mut round = 0;
        loop {
            // Pairs with the Release in `VersionHeld`.
            let version = node.latch.load(Acquire);
            if version & LOCKED == 0 {
                return version;
            }
            pause(&mut round);
        }
    }

    /// Whether what was read since `begin` is one state of the node.
    #[inline(always)]
    pub fn unchanged(node: &Node, version: u64) -> bool {
        // Orders the reads of the data before the second look at the version; pairs with the
        // Release fence in `write`: if one read saw a change, this look sees its lock bit.
        fence(Acquire);
        node.latch.load(Relaxed) == version
    }

    /// Locks the node if its version is still `version`.
    #[inline(always)]
    fn lock(node: &Node, version: u64) -> bool {
        node.latch.compare_exchange(version, version | LOCKED, Acquire, Relaxed).is_ok()
    }
}

impl Access for Version {
    #[inline(always)]
    fn read<R>(node: &Node, look: impl Fn(&Node) -> R) -> R {
        loop {
            let version = Version::begin(node);
            let result = look(node);
            if crate::planted::is(crate::planted::UNCHECKED_READ)
                || Version::unchanged(node, version)
            {
                return result;
            }
        }
    }

    #[inline(always)]
    fn write<R>(node: &Node, change: impl FnOnce(&Node) -> R) -> R {
        let version = loop {
            let version = Version::begin(node);
            if Version::lock(node, version) {
                break version;
            }
        };
        // The lock bit becomes visible before any change does.
        fence(Release);
        let _held = VersionHeld(&node.latch, version | LOCKED);
        change(node)
    }
}
