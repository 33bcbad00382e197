//! Expressions over one row: a DataFusion `Expr` compiled to typed closures.
//!
//! Words: a *slot* is a place of the row that an expression reads; a *program* is a compiled
//! expression; a *foreign* node is evaluated by DataFusion on a batch of one row, because it has no
//! typed form.
//!
//! A program is made in two steps: `lower` turns the expression into [`Ir`], a typed tree with
//! columns resolved to slots, which the planner of point plans also reasons about; `code` turns
//! that into closures that return `i64`, `f64`, `i128`, `bool`, `&str`, ….
//!
//! Invariants:
//! 1. A program agrees with DataFusion's evaluation of the same expression, in value or in
//!    SQLSTATE; where PostgreSQL differs from DataFusion's own kernels (overflow, division by zero)
//!    both follow PostgreSQL. Checked on random expressions by
//!    `programs_agree_with_their_slow_twins_and_with_the_meaning_of_values` in
//!    `exec/tests/scalar_twin.rs`, where `a_planted_fault_is_seen`.
//! 2. Evaluation allocates nothing but room in the arena, and that only for text it makes. Checked by
//!    `executions_allocate_nothing_once_warm` in `exec/tests/point.rs`, in plans that hold programs.
//!
//! Cost: one indirect call per node; types are examined only where a slot is read.
//! Tried: bytecode over a register file of `ValueRef`s; every step then writes and reads 32 bytes and
//! matches on the tag of a value whose type was known when the statement was bound.

mod arith;
mod code;
mod ir;
mod lower;
mod scalars;
mod text;

use std::fmt;

use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use halcyon_store::{Type, Value, ValueRef};

use crate::env::Env;
use halcyon_sql::error::Result;

pub use ir::{Arith, Compare, Function, Ir, storage_type};
pub use lower::{Columns, arithmetic, lower};

pub use halcyon_value::compare::values as compare_values;
pub use ir::{conjuncts, fit_type};

/// An arena for the text that expressions make, freed as a whole.
pub use bumpalo::Bump as Arena;

/// The data that a program reads.
pub(crate) struct Frame<'s, 'a> {
    /// The slots.
    row: &'s [ValueRef<'a>],
    /// Parameters, clock and session.
    env: &'a Env<'a>,
    /// The arena for new text.
    arena: &'a Arena,
    /// Constants of the program that runs.
    consts: &'a [Value],
}

/// An expression, ready to be evaluated on any number of rows.
pub struct Program {
    code: code::Code,
    consts: Vec<Value>,
    makes_text: bool,
    /// Text for EXPLAIN.
    shown: String,
}

impl Program {
    /// Compiles an expression whose columns are those of `schema`; slots are the columns'
    /// positions.
    ///
    /// The expression is analysed (types coerced, no wildcards). Errors: 0A000 if the result has no
    /// type of ours, or a subquery, aggregate or window function stands in it.
    pub fn compile(expr: &Expr, schema: &DFSchema) -> Result<Program> {
        Ok(Program::from_ir(&lower(expr, &Columns::by_position(schema))?))
    }

    /// Compiles as [`Program::compile`] does, but DataFusion evaluates everything: the twin that
    /// tests compare with.
    pub fn compile_slow(expr: &Expr, schema: &DFSchema) -> Result<Program> {
        Ok(Program::from_ir(&lower::slow(expr, &Columns::by_position(schema))?))
    }

    /// Compiles a lowered expression.
    pub fn from_ir(ir: &Ir) -> Program {
        let mut pool = code::Pool::default();
        let code = code::compile(ir, &mut pool);
        let shown = ir.to_string();
        Program { code, consts: pool.consts, makes_text: pool.makes_text, shown }
    }

    /// The value for a row. New text lives in the arena.
    #[inline]
    pub fn eval<'a>(
        &'a self,
        row: &[ValueRef<'a>],
        env: &'a Env<'a>,
        arena: &'a Arena,
    ) -> Result<ValueRef<'a>> {
        self.code.eval(&Frame { row, env, arena, consts: &self.consts })
    }

    /// Whether a row passes: true, and neither false nor NULL. Panics if the type is not BOOLEAN.
    #[inline]
    pub fn passes(&self, row: &[ValueRef<'_>], env: &Env<'_>, arena: &Arena) -> Result<bool> {
        let frame = Frame { row, env, arena, consts: &self.consts };
        Ok(self.code.bool(&frame)? == Some(true))
    }

    /// Whether evaluation may take room in the arena.
    pub fn makes_text(&self) -> bool {
        self.makes_text
    }

    /// The slot, if the program only reads one.
    pub fn as_slot(&self) -> Option<usize> {
        match self.code {
            code::Code::Slot(slot) => Some(slot),
            _ => None,
        }
    }

    /// A program that is a constant.
    pub fn constant(value: Value) -> Program {
        let shown = format!("{value:?}");
        Program { code: code::Code::Const(0), consts: vec![value], makes_text: false, shown }
    }

    /// The parameter, counted from 0, if the program only reads one.
    pub fn as_param(&self) -> Option<usize> {
        match self.code {
            code::Code::Param(index) => Some(index),
            _ => None,
        }
    }

    /// The value, if the program is a constant.
    pub fn as_constant(&self) -> Option<&Value> {
        match self.code {
            code::Code::Const(index) => Some(&self.consts[index]),
            _ => None,
        }
    }

    /// The type of the result if it is computed; None if a stored value is returned.
    pub fn ty(&self) -> Option<Type> {
        self.code.ty()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.shown)
    }
}
