//! JSON as PostgreSQL has it: `json`, a text that is well formed, and `jsonb`, a value.
//!
//! [`parse`] reads text with PostgreSQL's errors; [`text`] finds the members of a `json` in its text;
//! [`Tree`] is a document in memory, [`Node`] one as it is stored; [`change`] has what operators and
//! functions make of documents, [`path`] the paths of `jsonpath`, [`Node::write`] and [`write`](mod@write) their text.
//!
//! Words: a *document* is a whole value; its *members* are the pairs of an object or the elements of an
//! array.
//! Invariants, checked by [`Tree::check`] and the tests of `binary`:
//! 1. Keys of an object are distinct, the shorter first, then by their bytes.
//! 2. Two stored documents compare by their bytes as PostgreSQL's `jsonb` does, except that numbers which
//!    differ in zeros at their end alone (`1.0`, `1.00`) are not equal as bytes; [`Node::key`] makes
//!    them so.
//! 3. No document is deeper than [`DEPTH_MAX`], so that recursion ends.
//!
//! Knows neither SQL nor Arrow; no dependencies, no unsafe code.

#![forbid(unsafe_code)]

pub mod binary;
pub mod change;
mod error;
pub mod number;
pub mod parse;
pub mod path;
pub mod string;
pub mod text;
mod tree;
pub mod write;

pub use binary::{Kind, Node};
pub use error::{JsonError, Result};
pub use tree::Tree;

/// How deep arrays and objects may lie within each other.
pub const DEPTH_MAX: usize = 1_000;
