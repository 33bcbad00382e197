//! Statements ready to run: a text bound to what runs it, and the cache of such statements.
//!
//! The crate lies above all that runs, because a [`plan::Prepared`] names executors, writes, COPY and
//! DDL alike.
//!
//! Invariants:
//! 1. A [`plan::Prepared`] holds for one version of the catalog and may run any number of times: checked
//!    by `a_statement_outlives_changes_of_the_catalog` and
//!    `the_second_execution_of_a_text_plans_nothing`.
//! 2. Nothing here runs it: checked by `cargo xtask check claims` (no transaction, no partition is named).
#![forbid(unsafe_code)]

pub mod block_locks;
pub mod cache;
pub mod change_over;
pub mod companions;
pub mod early;
pub mod explain;
pub mod explain_json;
pub mod explanation;
pub mod plan;
pub mod prepare;
pub mod shape;
pub mod shapes;
pub mod stretch;
