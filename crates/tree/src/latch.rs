//! How a tree's nodes are protected: not at all, by a reader-writer latch, by a version, or by
//! tasks that run at the node's home.
//!
//! Waiting spins briefly, then gives the core away: the holder may have been preempted.

use halcyon_base::sync::atomic::{AtomicU64, Ordering::*};
use halcyon_base::sync::{hint, thread};
use halcyon_task::{Context, Resource, Synchronisation, WorkerId};

use crate::node::{Node, NodeId};
use crate::planted;

/// Looks at a taken latch before the core is given away.
const SPINS: u32 = 64;

/// A way to read and write single nodes.
pub trait Access {
    /// The result of `look` on a state of the node that no writer was changing. `look` may run
    /// several times, also on a mixture of two states; only the result of a clean run is returned.
    fn read<R>(&self, node: &Node, look: impl Fn(&Node) -> R) -> R;

    /// Runs `change` while nobody else changes the node of this id, and no reader believes what it sees.
    fn write<R>(&self, id: NodeId, node: &Node, change: impl FnOnce(&Node) -> R) -> R;
}

fn pause(round: &mut u32) {
    *round += 1;
    if *round < SPINS { hint::spin_loop() } else { thread::yield_now() }
}

/// One thread, or threads that take turns by other means: no protection.
#[derive(Default)]
pub struct Unlatched;

impl Access for Unlatched {
    #[inline(always)]
    fn read<R>(&self, node: &Node, look: impl Fn(&Node) -> R) -> R {
        look(node)
    }

    #[inline(always)]
    fn write<R>(&self, _id: NodeId, node: &Node, change: impl FnOnce(&Node) -> R) -> R {
        change(node)
    }
}

/// Many readers or one writer. The word counts readers; its top bit is the writer.
#[derive(Default)]
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
        // Pairs with the Acquire of the next thread that takes the latch. Readers that announced
        // themselves meanwhile take their announcement back, so it is a subtraction.
        self.0.fetch_sub(WRITER, Release);
    }
}

impl Access for Latch {
    #[inline(always)]
    fn read<R>(&self, node: &Node, look: impl Fn(&Node) -> R) -> R {
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
    fn write<R>(&self, _id: NodeId, node: &Node, change: impl FnOnce(&Node) -> R) -> R {
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

/// Writers exclude each other by the node's version; readers take nothing and look again if it
/// has changed. A sequence lock: Boehm, "Can seqlocks get along with programming language memory
/// models?", MSPC 2012; for trees Cha et al. (OLFIT), VLDB 2001.
#[derive(Default)]
pub struct Optimistic;

impl Access for Optimistic {
    #[inline(always)]
    fn read<R>(&self, node: &Node, look: impl Fn(&Node) -> R) -> R {
        if planted::is(planted::UNCHECKED_READ) {
            return look(node);
        }
        node.version.read(|| look(node))
    }

    #[inline(always)]
    fn write<R>(&self, _id: NodeId, node: &Node, change: impl FnOnce(&Node) -> R) -> R {
        let _held = node.version.lock();
        change(node)
    }
}

/// Writers run at the home worker of the node, one after the other; readers as in [`Optimistic`].
pub(crate) struct AtHome<'a> {
    pub homes: Homes,
    pub cx: &'a Context,
}

/// Which worker writes which node.
#[derive(Clone, Copy)]
pub(crate) struct Homes {
    pub workers: u16,
}

impl Homes {
    /// Neighbours in a level get ids of different times, and so different homes.
    #[inline(always)]
    pub fn of(self, id: NodeId) -> Resource {
        let spread = u64::from(id.0.wrapping_mul(0x9e37_79b1));
        let home = (spread * u64::from(self.workers)) >> 32;
        Resource::new(WorkerId(home as u16), Synchronisation::SchedulingWriters)
    }
}

impl Access for AtHome<'_> {
    #[inline(always)]
    fn read<R>(&self, node: &Node, look: impl Fn(&Node) -> R) -> R {
        Optimistic.read(node, look)
    }

    #[inline(always)]
    fn write<R>(&self, id: NodeId, node: &Node, change: impl FnOnce(&Node) -> R) -> R {
        let _held = node.version.write(self.homes.of(id), self.cx);
        change(node)
    }
}
