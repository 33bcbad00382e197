//! One thread, several descents in flight: while one waits for its next node's cache lines, the
//! others are worked on.
//!
//! Each visit of a node runs to its end, so a node needs no protection; but between two visits of
//! one operation other operations may split nodes, which the right links take care of.
//! Source: Kocberber, Falsafi and Grot, "Asynchronous memory access chaining", VLDB 2015.

use crate::latch::Access;
use crate::node::{NodeId, Step};
use crate::region::prefetch;
use crate::{Core, Operation, Outcome};

/// An operation on its way down.
#[derive(Clone, Copy)]
struct Descent {
    operation: Operation,
    at: NodeId,
    leaf: bool,
    ticket: usize,
}

impl Core {
    /// Runs `operations` with up to `WIDTH` of them in flight, and calls `done` with each one's
    /// place in the sequence and outcome, in the order in which they end.
    ///
    /// Operations on the same key in one call may take effect in any order.
    pub(crate) fn interleave<const WIDTH: usize>(
        &self,
        by: &impl Access,
        operations: impl IntoIterator<Item = Operation>,
        mut done: impl FnMut(usize, Outcome),
    ) {
        let mut operations = operations.into_iter().enumerate();
        let mut start = || {
            let (ticket, operation) = operations.next()?;
            let (at, level) = self.root();
            Some(Descent { operation, at, leaf: level == 0, ticket })
        };
        let mut flights: [Option<Descent>; WIDTH] = std::array::from_fn(|_| start());
        let mut running = true;
        while running {
            running = false;
            for slot in &mut flights {
                let Some(descent) = slot else { continue };
                running = true;
                if let Some(outcome) = self.advance(by, descent) {
                    done(descent.ticket, outcome);
                    *slot = start();
                }
            }
        }
    }

    /// One visit; the outcome if it was the last.
    #[inline(always)]
    fn advance(&self, by: &impl Access, descent: &mut Descent) -> Option<Outcome> {
        if descent.leaf {
            return Some(self.apply(by, descent.at, descent.operation));
        }
        match self.visit(by, descent.at, descent.operation.key(), 0) {
            // A root that was a leaf has been split since, and its neighbour is one.
            Step::Here => return Some(self.apply(by, descent.at, descent.operation)),
            Step::Right(next) | Step::Down(next) => descent.at = next,
        }
        prefetch(self.node(descent.at));
        None
    }
}
