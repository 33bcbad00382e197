//! Operators over hash tables: aggregation ([`groups`]) and joins ([`joins`]).
//!
//! Keys of any type that has a place in words of 64 bits ([`mod@layout`]) are hashed and compared as words. What has
//! none stays with DataFusion's operators.
//!
//! Bounded: a step lasts as long as a batch, a part's rows or a part's results take, since no table of all groups is
//! made, grown or given out, and no batch of all rows of a join's side.
//!
//! **Invariant**, checked by `groups_are_those_of_the_slow_twin` and `pairs_are_those_of_the_slow_twin`, and by
//! `any_order_gives_the_same_rows` of crate `exec`: an operator gives the rows of DataFusion's; groups come in another
//! order. Checked by `cargo xtask check claims`: knows no table and no transaction.
#![forbid(unsafe_code)]

pub mod groups;
mod hash;
pub mod joins;
mod keys;
mod layout;
