//! Compiler of incremental views: a bound query in, the trigger program that maintains it out.
//!
//! The way of a query, and the order to read in:
//! 1. `blocks`, `subquery`, `threshold`, `aggregate`: the logical plan becomes blocks, sums of terms
//!    over relations, with a derived relation at every border; `scalar` translates expressions.
//! 2. [`calculus`] says what a term is, `simplify` makes it small.
//! 3. [`derivative`] is the delta of a term, `viewlet` materialises deltas of deltas.
//! 4. `emit` writes the program, [`certificate`] says what an event costs.
//!
//! Method: \[koch2014\], stratified; the form of programs is [`halcyon_view::program`].

#![forbid(unsafe_code)]

mod aggregate;
mod blocks;
mod builder;
pub mod calculus;
pub mod certificate;
pub mod derivative;
mod emit;
mod encoding;
mod error;
mod expression;
#[cfg(test)]
mod naive;
mod parts;
mod scalar;
mod simplify;
mod subquery;
mod threshold;
mod tidy;
mod viewlet;

use arrow::datatypes::DataType;
use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;
use halcyon_view::program::{Program, RelationId};

pub use crate::certificate::Certificate;
pub use crate::encoding::Encoding;
pub use crate::error::{Result, Unsupported};

/// What the compiler asks its caller: the catalog's knowledge about tables, and whether to go on. Columns
/// are numbered as in the table's schema.
pub trait Facts {
    /// Sets of NOT NULL columns that no two rows agree on, now and after every single event.
    fn unique_keys(&self, table: &TableReference) -> Vec<Vec<usize>> {
        let _ = table;
        Vec::new()
    }

    /// Whether a constraint keeps the column from being negative.
    fn never_negative(&self, table: &TableReference, column: usize) -> bool {
        let _ = (table, column);
        false
    }

    /// Whether nobody waits for the program any more: the compiler then ends with an error, whatever it
    /// says, within the time that a statement of the program takes to write.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A catalog that knows nothing about its tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl Facts for NoFacts {}

/// A view's program and how to feed and read it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The trigger program, for [`halcyon_view::Engine`].
    pub program: Program,
    /// Columns of the view, in order; the output's row has their words (and the number of
    /// repetitions, if [`Program::output_repeats`]).
    pub columns: Vec<OutputColumn>,
    /// The base relations, whose events the view is fed with.
    pub inputs: Vec<Input>,
    /// The cost of an event, by base relation.
    pub certificate: Certificate,
}

/// A column of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column in the plan.
    pub data_type: DataType,
    /// How its words are read.
    pub encoding: Encoding,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// A base relation.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Number of the relation in the program.
    pub relation: RelationId,
    /// The table, as the plan names it.
    pub table: TableReference,
    /// Columns of the table that make an event's row, and how.
    pub columns: Vec<(usize, Encoding)>,
}

/// Compiles a query to the program that maintains its result.
///
/// `plan`: bound and coerced, not optimised; subqueries are expressions. Operators may be plain or
/// Halcyon's checked functions of two operands.
///
/// Errors: names what cannot be maintained.
pub fn compile(plan: &LogicalPlan, facts: &dyn Facts) -> Result<Compiled> {
    let mut builder = builder::Builder::new(facts);
    let bag = builder.bag(plan)?;
    let output = builder.output(bag)?;
    viewlet::within_limits(&builder.parts, facts)?;
    emit::emit(builder.parts, output, plan.schema(), facts)
}
