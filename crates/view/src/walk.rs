//! Visitors of a program's expressions and steps.

use alloc::boxed::Box;

use crate::program::{Bound, Expr, MapId, Program, Reg, Step};

impl Program {
    /// Calls `each` for every expression, inner ones included.
    pub fn for_each_expr(&self, each: &mut dyn FnMut(&Expr)) {
        for derived in self.relations.iter().filter_map(|relation| relation.derived.as_ref()) {
            steps(&derived.steps, each);
            expr(&derived.exists, each);
            list(&derived.row, each);
        }
        for statement in self.triggers.iter().flat_map(|trigger| &trigger.statements) {
            steps(&statement.steps, each);
            list(&statement.key, each);
            list(&statement.add, each);
        }
    }

    /// Calls `each` for every step, inner ones included.
    pub fn for_each_step(&self, each: &mut dyn FnMut(&Step)) {
        for derived in self.relations.iter().filter_map(|relation| relation.derived.as_ref()) {
            inner_steps(&derived.steps, each);
        }
        for statement in self.triggers.iter().flat_map(|trigger| &trigger.statements) {
            inner_steps(&statement.steps, each);
        }
    }
}

fn inner_steps(all: &[Step], each: &mut dyn FnMut(&Step)) {
    for step in all {
        each(step);
        if let Step::Sum { steps, .. } = step {
            inner_steps(steps, each);
        }
    }
}

fn list(exprs: &[Expr], each: &mut dyn FnMut(&Expr)) {
    exprs.iter().for_each(|value| expr(value, each));
}

fn steps(all: &[Step], each: &mut dyn FnMut(&Expr)) {
    for step in all {
        match step {
            Step::Let { value, .. } => expr(value, each),
            Step::If(condition) => expr(condition, each),
            Step::Get { key, .. } => list(key, each),
            Step::Each { prefix, .. } | Step::Edge { prefix, .. } => list(prefix, each),
            Step::RangeSum { prefix, low, high, .. } => {
                list(prefix, each);
                for bound in [low, high] {
                    if let Bound::Included(value) | Bound::Excluded(value) = bound {
                        expr(value, each);
                    }
                }
            }
            Step::Search { prefix, limit, .. } => {
                list(prefix, each);
                expr(limit, each);
            }
            Step::Sum { steps: inner, terms } => {
                steps(inner, each);
                terms.iter().for_each(|(term, _)| expr(term, each));
            }
        }
    }
}

/// Calls `each` for an expression and all expressions within it.
pub fn for_each_within(value: &Expr, each: &mut dyn FnMut(&Expr)) {
    expr(value, each);
}

fn expr(value: &Expr, each: &mut dyn FnMut(&Expr)) {
    each(value);
    match value {
        Expr::Reg(_)
        | Expr::Int(_)
        | Expr::Float(_)
        | Expr::Wide(_)
        | Expr::Null(_)
        | Expr::Text(_) => {}
        Expr::Binary(_, _, a, b) | Expr::Compare(_, _, a, b) | Expr::CompareText(_, a, b) => {
            expr(a, each);
            expr(b, each);
        }
        Expr::Neg(_, a)
        | Expr::IsNull(_, a)
        | Expr::Not(a)
        | Expr::DatePart(_, a)
        | Expr::DateOf(a) => expr(a, each),
        Expr::Cast { value, .. }
        | Expr::Rescale { value, .. }
        | Expr::Within { value, .. }
        | Expr::Like { value, .. }
        | Expr::Substring { value, .. } => expr(value, each),
        Expr::And(values)
        | Expr::Or(values)
        | Expr::Coalesce(_, values)
        | Expr::Call { args: values, .. } => list(values, each),
        Expr::Case { when, otherwise, .. } => {
            for (condition, value) in when {
                expr(condition, each);
                expr(value, each);
            }
            expr(otherwise, each);
        }
    }
}

impl Expr {
    /// The expression with every operand replaced by what `f` makes of it.
    pub fn map_operands(self, f: &mut dyn FnMut(Expr) -> Expr) -> Expr {
        let mut boxed = |value: Box<Expr>| Box::new(f(*value));
        match self {
            Expr::Binary(op, ty, a, b) => {
                let a = boxed(a);
                Expr::Binary(op, ty, a, boxed(b))
            }
            Expr::Compare(op, ty, a, b) => {
                let a = boxed(a);
                Expr::Compare(op, ty, a, boxed(b))
            }
            Expr::CompareText(op, a, b) => {
                let a = boxed(a);
                Expr::CompareText(op, a, boxed(b))
            }
            Expr::Neg(ty, a) => Expr::Neg(ty, boxed(a)),
            Expr::IsNull(ty, a) => Expr::IsNull(ty, boxed(a)),
            Expr::Not(a) => Expr::Not(boxed(a)),
            Expr::DatePart(part, a) => Expr::DatePart(part, boxed(a)),
            Expr::DateOf(a) => Expr::DateOf(boxed(a)),
            Expr::And(all) => Expr::And(all.into_iter().map(f).collect()),
            Expr::Or(all) => Expr::Or(all.into_iter().map(f).collect()),
            Expr::Coalesce(ty, all) => Expr::Coalesce(ty, all.into_iter().map(f).collect()),
            Expr::Case { ty, when, otherwise } => {
                let when = when.into_iter().map(|(c, v)| (f(c), f(v))).collect();
                Expr::Case { ty, when, otherwise: Box::new(f(*otherwise)) }
            }
            Expr::Cast { from, to, value } => Expr::Cast { from, to, value: boxed(value) },
            Expr::Rescale { ty, by, value } => Expr::Rescale { ty, by, value: boxed(value) },
            Expr::Within { ty, range, value } => Expr::Within { ty, range, value: boxed(value) },
            Expr::Like { value, pattern, ignore_case, negated } => {
                Expr::Like { value: boxed(value), pattern, ignore_case, negated }
            }
            Expr::Substring { value, start, length } => {
                Expr::Substring { value: boxed(value), start, length }
            }
            Expr::Call { call, args } => {
                Expr::Call { call, args: args.into_iter().map(f).collect() }
            }
            leaf => leaf,
        }
    }

    /// The expression with every expression in it replaced by what `f` makes of it, inner ones
    /// first.
    pub fn rewritten(&self, f: &mut dyn FnMut(Expr) -> Expr) -> Expr {
        let operands = self.clone().map_operands(&mut |operand| operand.rewritten(f));
        f(operands)
    }
}

impl Step {
    /// The step with its expressions and the registers that it sets replaced.
    pub fn rewritten(
        &self,
        expr: &mut dyn FnMut(&Expr) -> Expr,
        reg: &mut dyn FnMut(Reg) -> Reg,
    ) -> Step {
        let mut outs = |list: &[(u16, Reg)]| list.iter().map(|(at, r)| (*at, reg(*r))).collect();
        match self {
            Step::Let { reg: r, value } => {
                let value = expr(value);
                Step::Let { reg: reg(*r), value }
            }
            Step::If(condition) => Step::If(expr(condition)),
            Step::Get { map, key, payload } => {
                let key = key.iter().map(expr).collect();
                Step::Get { map: *map, key, payload: outs(payload) }
            }
            Step::Each { map, slice, prefix, key, payload } => {
                let prefix = prefix.iter().map(expr).collect();
                let key = outs(key);
                Step::Each { map: *map, slice: *slice, prefix, key, payload: outs(payload) }
            }
            Step::RangeSum { map, prefix, low, high, payload } => {
                let prefix = prefix.iter().map(&mut *expr).collect();
                let mut bound = |bound: &Bound| match bound {
                    Bound::Open => Bound::Open,
                    Bound::Included(value) => Bound::Included(expr(value)),
                    Bound::Excluded(value) => Bound::Excluded(expr(value)),
                };
                let (low, high) = (bound(low), bound(high));
                Step::RangeSum { map: *map, prefix, low, high, payload: outs(payload) }
            }
            Step::Edge { map, prefix, last, skip_null, key } => {
                let prefix = prefix.iter().map(expr).collect();
                let key = reg(*key);
                Step::Edge { map: *map, prefix, last: *last, skip_null: *skip_null, key }
            }
            Step::Search { map, prefix, descending, component, limit, key } => {
                let prefix = prefix.iter().map(&mut *expr).collect();
                let limit = expr(limit);
                Step::Search {
                    map: *map,
                    prefix,
                    descending: *descending,
                    component: *component,
                    limit,
                    key: reg(*key),
                }
            }
            Step::Sum { steps, terms } => {
                let steps = steps.iter().map(|step| step.rewritten(expr, reg)).collect();
                let terms = terms.iter().map(|(value, r)| (expr(value), reg(*r))).collect();
                Step::Sum { steps, terms }
            }
        }
    }

    /// Calls `each` for every register that the step sets; inner steps' registers are included.
    pub fn for_each_set(&self, each: &mut dyn FnMut(Reg)) {
        let mut list = |list: &[(u16, Reg)]| list.iter().for_each(|(_, reg)| each(*reg));
        match self {
            Step::If(_) => {}
            Step::Let { reg, .. } => each(*reg),
            Step::Get { payload, .. } | Step::RangeSum { payload, .. } => list(payload),
            Step::Each { key, payload, .. } => {
                list(key);
                list(payload);
            }
            Step::Edge { key, .. } | Step::Search { key, .. } => each(*key),
            Step::Sum { steps, terms } => {
                terms.iter().for_each(|(_, reg)| each(*reg));
                steps.iter().for_each(|step| step.for_each_set(each));
            }
        }
    }

    /// Calls `each` for every map that the step reads; inner steps' maps are included.
    pub fn for_each_read(&self, each: &mut dyn FnMut(MapId)) {
        match self {
            Step::If(_) | Step::Let { .. } => {}
            Step::Get { map, .. }
            | Step::RangeSum { map, .. }
            | Step::Each { map, .. }
            | Step::Edge { map, .. }
            | Step::Search { map, .. } => each(*map),
            Step::Sum { steps, .. } => steps.iter().for_each(|step| step.for_each_read(each)),
        }
    }
}
