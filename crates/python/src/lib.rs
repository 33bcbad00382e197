//! The module `halcyon._halcyon` of Python: databases, sessions, results and their Arrow, subscriptions and streams.
//!
//! The package `halcyon` (../python/halcyon) stands on it and is what programs import: connections, cursors and
//! exceptions of PEP 249, data frames. This module has what needs Rust. Its interface is `_halcyon.pyi` beside the
//! package and may change with any version.
//!
//! Invariants: a statement runs without the interpreter's lock, and the engine is reached through the crate `halcyon`
//! alone (checked by `cargo xtask check layers`). `unsafe` is in `capsules` alone.
#![deny(unsafe_code)]
// `#[pymodule]` and `#[pyclass]` write functions of their own.
#![allow(missing_docs)]

mod capsules;
mod errors;
mod frames;
mod habits;
mod interrupt;
mod params;
mod results;
mod sessions;
mod streams;
mod subscriptions;
mod values;

/// The library's own memory is counted, without which the limits of memory hold for nobody; Python's is not.
#[global_allocator]
static ALLOCATOR: halcyon::Counted<halcyon::Mapped<std::alloc::System>> =
    halcyon::Counted(halcyon::Mapped(std::alloc::System));

/// The module.
#[pyo3::pymodule(gil_used = true)]
mod _halcyon {
    #[pymodule_export]
    use crate::results::{Result, Table};
    #[pymodule_export]
    use crate::sessions::{Database, Session};
    #[pymodule_export]
    use crate::streams::Stream;
    #[pymodule_export]
    use crate::subscriptions::Subscription;

    /// The text with placeholders as `$1`, `$2`, …, and which parameters these are: numbers from 0, or names.
    #[pyo3::pyfunction]
    fn placeholders(text: &str) -> (String, Option<Vec<usize>>, Option<Vec<String>>) {
        use halcyon_interchange::placeholders::{Order, rewrite};
        let rewritten = rewrite(text);
        match rewritten.order {
            Order::Numbered => (rewritten.text, None, None),
            Order::Places(places) => (rewritten.text, Some(places), None),
            Order::Names(names) => (rewritten.text, None, Some(names)),
        }
    }
}
