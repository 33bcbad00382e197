//! Compiler of incremental views: it turns a bound query into the trigger program that maintains
//! its result.
//!
//! The stages of compilation, and the order to read in:
//! 1. `blocks`, `subquery`, `threshold`, `aggregate`: the logical plan becomes blocks, sums of terms
//!    over relations, with a derived relation at every border; `scalar` translates expressions.
//! 2. [`calculus`] defines terms, `simplify` makes them small.
//! 3. [`derivative`] takes the delta of a term, `viewlet` materialises deltas of deltas.
//! 4. `emit` writes the program, [`certificate`] states the cost of an event.
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

/// The compiler's questions to its caller: what the catalog knows about tables, and whether to go
/// on. Columns are numbered as in the table's schema.
pub trait Facts {
    /// Sets of NOT NULL columns in which no two rows agree, now and after every single event.
    fn unique_keys(&self, table: &TableReference) -> Vec<Vec<usize>> {
        let _ = table;
        Vec::new()
    }

    /// Whether a constraint keeps the column from being negative.
    fn never_negative(&self, table: &TableReference, column: usize) -> bool {
        let _ = (table, column);
        false
    }

    /// Whether the compilation is cancelled. The compiler then ends with an error, whose text does
    /// not matter, within the time that it takes to write one statement of the program.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Facts about no tables at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFacts;

impl Facts for NoFacts {}

/// A compiled view: its program, and how to feed the program and read its rows.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The trigger program, for [`halcyon_view::Engine`].
    pub program: Program,
    /// Columns of the view, in order. A row of the output has their words (and behind them the
    /// number of repetitions, if [`Program::output_repeats`]).
    pub columns: Vec<OutputColumn>,
    /// The base relations, from whose events the view follows.
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
    /// The encoding of its words.
    pub encoding: Encoding,
    /// Whether the column may be NULL.
    pub nullable: bool,
}

/// An input of a view: a base relation of its program.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Number of the relation in the program.
    pub relation: RelationId,
    /// The table, as the plan names it.
    pub table: TableReference,
    /// The table's columns that make up an event's row, with their encodings.
    pub columns: Vec<(usize, Encoding)>,
}

/// Compiles a query into the program that maintains its result.
///
/// `plan`: bound and coerced, not optimised; subqueries are expressions. Operators may be plain or
/// Halcyon's checked functions of two operands.
/// Errors: names the construct that cannot be maintained.
/// Errors: names what cannot be maintained.
pub fn compile(plan: &LogicalPlan, facts: &dyn Facts) -> Result<Compiled> {
    let mut builder = builder::Builder::new(facts);
    let bag = builder.bag(plan)?;
    let output = builder.output(bag)?;
    viewlet::within_limits(&builder.parts, facts)?;
    emit::emit(builder.parts, output, plan.schema(), facts)
}
