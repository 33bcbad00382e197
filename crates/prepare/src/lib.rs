//! Statements ready to run: a text bound to what runs it, and the cache of such statements.
//!
//! **Invariant**, checked by `cargo xtask check layers`: a [`plan::Prepared`] holds for one version of
//! the catalog and may run any number of times; nothing here runs it.
#![forbid(unsafe_code)]

pub mod cache;
pub mod plan;
pub mod prepare;
