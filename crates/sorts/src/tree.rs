//! A tree of losers: the least head of several sources.
//!
//! Invariant, checked by `rows_are_those_of_the_slow_twin`: the winner is less than the heads of all other sources.
//!
//! Cost: one comparison for each level when the winner's head is replaced.

use std::cmp::Ordering;

/// The head of a source without rows, behind all others: no row has its place.
pub(crate) const EXHAUSTED: u128 = u128::MAX;

/// The order of heads.
pub(crate) trait Order {
    /// How two heads that are rows' compare.
    fn compare(&self, a: u128, b: u128) -> Ordering;

    /// Whether a head comes before another one.
    fn is_less(&self, a: u128, b: u128) -> bool;
}

/// The order of heads that hold their keys as a whole.
pub(crate) struct Whole;

impl Order for Whole {
    #[inline(always)]
    fn compare(&self, a: u128, b: u128) -> Ordering {
        a.cmp(&b)
    }

    #[inline(always)]
    fn is_less(&self, a: u128, b: u128) -> bool {
        a < b
    }
}

/// No source yet.
const NONE: u32 = u32::MAX;

/// Sources by their heads.
pub(crate) struct Tree {
    heads: Vec<u128>,
    /// The winner, then the loser of each inner node.
    losers: Vec<u32>,
}

impl Tree {
    /// The tree of sources with these heads, of which there is one at least.
    pub(crate) fn new(heads: Vec<u128>, order: &impl Order) -> Self {
        let count = u32::try_from(heads.len()).expect("a source has a place of 32 bits");
        assert!(count > 0, "a tree has a source");
        let mut tree = Tree { losers: vec![NONE; heads.len()], heads };
        for source in 0..count {
            tree.begin(source, order);
        }
        tree
    }

    /// Lets a source win until it meets a node that nobody has come to.
    fn begin(&mut self, source: u32, order: &impl Order) {
        let mut winner = source;
        let mut node = (source as usize + self.heads.len()) / 2;
        while node != 0 && self.losers[node] != NONE {
            winner = self.play(node, winner, order);
            node /= 2;
        }
        self.losers[node] = winner;
    }

    /// The winner of a node's loser and a source; the node keeps the other.
    #[inline(always)]
    fn play(&mut self, node: usize, source: u32, order: &impl Order) -> u32 {
        let other = self.losers[node];
        match order.is_less(self.heads[other as usize], self.heads[source as usize]) {
            true => std::mem::replace(&mut self.losers[node], source),
            false => source,
        }
    }

    /// The source with the least head.
    #[inline(always)]
    pub(crate) fn winner(&self) -> usize {
        self.losers[0] as usize
    }

    /// The least head; [`EXHAUSTED`] if no source has rows.
    #[inline(always)]
    pub(crate) fn head(&self) -> u128 {
        self.heads[self.winner()]
    }

    /// Gives the winner its next head, which is not before the one that it had.
    #[inline(always)]
    pub(crate) fn replace(&mut self, head: u128, order: &impl Order) {
        let mut winner = self.losers[0];
        self.heads[winner as usize] = head;
        let mut node = (winner as usize + self.heads.len()) / 2;
        while node != 0 {
            winner = self.play(node, winner, order);
            node /= 2;
        }
        self.losers[0] = winner;
    }
}
