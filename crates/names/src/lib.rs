//! What names in a query stand for, decided on the syntax tree before the planner binds them.
//!
//! DataFusion's planner gives some names another meaning than PostgreSQL does, or none: columns that a join has
//! merged, rows named by their tables ([`merged_columns`]), lists of names shorter than the rows
//! ([`short_aliases`]). Both passes write a query in which every name means the same to either. The columns of
//! tables are asked of whoever has the catalog.

#![forbid(unsafe_code)]

pub mod merged_columns;
pub mod short_aliases;
