//! What names in a query stand for, and by which names of types clients are told of its columns.
//!
//! DataFusion's planner gives some names another meaning than PostgreSQL does, or none: columns that a join has
//! merged, rows named by their tables ([`merged_columns`]), lists of names shorter than the rows
//! ([`short_aliases`]), functions in FROM that give one value, and ROWS FROM ([`function_tables`]), tables of outer queries
//! that are named as a column is ([`outer_names`]), expressions that differ in casts alone ([`told_casts`]), forms that are
//! read otherwise ([`plain_forms`]). [`query_facts`] are told of the tree alone. These passes write, on the syntax tree, a
//! query in which every name means the same to both; they ask
//! their caller for the columns of tables. Of a plan, [`told_types`] tells which columns have types that only
//! system tables have, and [`blanks`] are written where an expression of CHARACTER is a result.

#![forbid(unsafe_code)]

pub mod blanks;
pub mod documents;
pub mod function_tables;
pub mod merged_columns;
pub mod outer_names;
pub mod plain_forms;
pub mod query_facts;
mod rows_from;
pub mod short_aliases;
pub mod told_casts;
pub mod told_types;
