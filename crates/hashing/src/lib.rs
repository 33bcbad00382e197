//! Operators over hash tables: joins ([`joins`]), and groups by integers ([`groups`]).
//!
//! Keys of any type that has a place in words of 64 bits ([`mod@layout`]) are hashed and compared as words. What has
//! none stays with DataFusion's operators.
//!
//! Bounded: a step lasts as long as a batch or a part of the table takes, since no batch of all rows of a join's side is
//! made.
//!
//! **Invariant**, checked by `pairs_are_those_of_the_slow_twin`, `groups_are_those_of_the_slow_twin`, and by `any_order_gives_the_same_rows` of crate `exec`: an
//! operator gives the rows of DataFusion's. Checked by `cargo xtask check claims`: knows no table and no transaction.
#![forbid(unsafe_code)]

pub mod groups;
mod hash;
pub mod joins;
mod keys;
mod layout;
