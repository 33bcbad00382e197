//! How deep the SQL parser's trees may be, and how that is found out.
//!
//! Words: a *level* of a tree is an expression, a table in FROM or a part of a set operation; a query
//! is several ([`QUERY_LEVELS`]). Chains of AND and OR are no levels, since they are balanced.
//! Invariants, checked by `depth_is_bounded_whatever_makes_it` and by the test `depth` of crate `halcyon`:
//! 1. No tree leaves the parser that has more than [`DEPTH_MAX`] levels, or whose walk, in the kinds of
//!    nodes that are no levels (types, patterns, options), takes more than [`WALK_BYTES_MAX`] of stack.
//! 2. Nothing that the parser is given overflows its stack: its dialect stops it before (`crate::stack::go_on`).

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, TableFactor, VisitMut, VisitorMut};

use super::balance;
use super::errors::{DEPTH_MAX, too_deep};
use crate::error::{Result, SqlError};
use crate::stack::{self, Stop};

/// Levels that a query within another counts for: its planning takes so much more.
const QUERY_LEVELS: usize = 2;

/// Levels that `f(…) WITHIN GROUP (…)` counts for: DataFusion's planner binds its ORDER BY twice, and what
/// is within that twice as often again.
const WITHIN_GROUP_LEVELS: usize = 60;

/// Set operations in a row that count for one level.
const SET_OPERATIONS_PER_LEVEL: usize = 2;

/// Stack that a walk over a tree may use: a tree of so many bytes a level is dropped, copied and
/// compared without a thought of stacks.
const WALK_BYTES_MAX: usize = 4 << 20;

/// What `parse` reads, bounded. Errors: 54001, 57014 if [`stack::go_on`] ended it; those of `parse`.
pub(crate) fn caught<T>(parse: impl FnOnce() -> Result<T>) -> Result<T> {
    // What the parser holds is dropped with the statement.
    match catch_unwind(AssertUnwindSafe(parse)) {
        Ok(parsed) => parsed,
        Err(panic) => Err(stopped(panic)),
    }
}

fn stopped(panic: Box<dyn Any + Send>) -> SqlError {
    match panic.downcast_ref::<Stop>() {
        Some(Stop::Depth) => too_deep(),
        Some(Stop::Interrupt) => SqlError::cancelled(),
        None => resume_unwind(panic),
    }
}

/// Errors: 54001 if a walk over the tree uses more than [`WALK_BYTES_MAX`] of stack.
pub(crate) fn walkable<T: Hash>(tree: T) -> Result<T> {
    let mut walk = Walk { base: stack::here(), deepest: 0 };
    tree.hash(&mut walk);
    match walk.deepest > WALK_BYTES_MAX {
        true => Err(too_deep()),
        false => Ok(tree),
    }
}

/// Sees how far down the stack the leaves of a tree are visited. Computes no hash: that every field of
/// every node is visited is what hashing is used for.
struct Walk {
    base: usize,
    deepest: usize,
}

impl Hasher for Walk {
    fn finish(&self) -> u64 {
        0
    }

    fn write(&mut self, _: &[u8]) {
        self.deepest = self.deepest.max(stack::bytes_since(self.base));
    }
}

/// The tree with its chains of AND and OR balanced. Errors: 54001 if it has more than [`DEPTH_MAX`]
/// levels.
pub(crate) fn balanced<T: VisitMut>(mut tree: T) -> Result<T> {
    match VisitMut::visit(&mut tree, &mut Levels::default()) {
        ControlFlow::Continue(()) => Ok(tree),
        ControlFlow::Break(()) => Err(too_deep()),
    }
}

/// Counts levels on the way down, and balances chains before it walks them.
#[derive(Default)]
struct Levels {
    now: usize,
}

impl Levels {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.now += levels;
        match self.now > DEPTH_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn leave(&mut self, levels: usize) -> ControlFlow<()> {
        self.now -= levels;
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Levels {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        balance::balance(expr);
        self.enter(levels_of(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.leave(levels_of(expr))
    }

    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<()> {
        self.leave(1)
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.enter(QUERY_LEVELS)?;
        match self.now + set_operations(&query.body) / SET_OPERATIONS_PER_LEVEL > DEPTH_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.leave(QUERY_LEVELS)
    }
}

fn levels_of(expr: &Expr) -> usize {
    match expr {
        Expr::Function(function) if !function.within_group.is_empty() => WITHIN_GROUP_LEVELS,
        // Each is a call around those before.
        Expr::CompoundFieldAccess { access_chain, .. } => 1 + access_chain.len(),
        _ => 1,
    }
}

/// How deep set operations stand within each other without parentheses.
fn set_operations(body: &SetExpr) -> usize {
    let (mut deepest, mut open) = (0, vec![(body, 0)]);
    while let Some((body, depth)) = open.pop() {
        deepest = deepest.max(depth);
        if let SetExpr::SetOperation { left, right, .. } = body {
            open.push((left, depth + 1));
            open.push((right, depth + 1));
        }
    }
    deepest
}
