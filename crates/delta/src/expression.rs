//! Scalar expressions of the calculus: the expressions of trigger programs ([`Expr`]), over variables
//! instead of registers.
//!
//! A variable is a [`Reg`] whose number is an index into [`crate::calculus::Variables`]; it becomes
//! a register only when a trigger is written. One language of expressions is enough in this way.

use std::collections::{BTreeSet, HashMap};

use halcyon_view::program::{BinaryOp, CompareOp, Expr, NumberRange, Reg, Type};
use halcyon_view::scalar;

/// The operands of an expression, from left to right.
pub fn operands(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Reg(_)
        | Expr::Int(_)
        | Expr::Float(_)
        | Expr::Wide(_)
        | Expr::Null(_)
        | Expr::Text(_) => Vec::new(),
        Expr::Binary(_, _, a, b) | Expr::Compare(_, _, a, b) | Expr::CompareText(_, a, b) => {
            vec![a, b]
        }
        Expr::Neg(_, a)
        | Expr::IsNull(_, a)
        | Expr::Not(a)
        | Expr::DatePart(_, a)
        | Expr::DateOf(a) => vec![a],
        Expr::And(all) | Expr::Or(all) | Expr::Coalesce(_, all) => all.iter().collect(),
        Expr::Case { when, otherwise, .. } => {
            let mut all: Vec<&Expr> = when.iter().flat_map(|(c, v)| [c, v]).collect();
            all.push(otherwise);
            all
        }
        Expr::Cast { value, .. }
        | Expr::Rescale { value, .. }
        | Expr::Within { value, .. }
        | Expr::Like { value, .. }
        | Expr::Substring { value, .. } => vec![value],
        Expr::Call { args, .. } => args.iter().collect(),
    }
}

/// Adds the variables that occur in an expression to `into`.
pub fn collect_variables(expr: &Expr, into: &mut BTreeSet<Reg>) {
    if let Expr::Reg(var) = expr {
        into.insert(*var);
    }
    for operand in operands(expr) {
        collect_variables(operand, into);
    }
}

/// The variables that occur in an expression.
pub fn variables(expr: &Expr) -> BTreeSet<Reg> {
    let mut found = BTreeSet::new();
    collect_variables(expr, &mut found);
    found
}

/// Whether any of the variables occurs in an expression.
pub fn mentions(expr: &Expr, vars: &BTreeSet<Reg>) -> bool {
    match expr {
        Expr::Reg(var) => vars.contains(var),
        other => operands(other).into_iter().any(|operand| mentions(operand, vars)),
    }
}

/// Whether no other variables than these occur in an expression.
pub fn within(expr: &Expr, vars: &BTreeSet<Reg>) -> bool {
    match expr {
        Expr::Reg(var) => vars.contains(var),
        other => operands(other).into_iter().all(|operand| within(operand, vars)),
    }
}

/// The expression with variables replaced by expressions; variables that `by` does not have stay.
pub fn substitute(expr: Expr, by: &HashMap<Reg, Expr>) -> Expr {
    match expr {
        Expr::Reg(var) => by.get(&var).cloned().unwrap_or(Expr::Reg(var)),
        other => other.map_operands(&mut |operand| substitute(operand, by)),
    }
}

/// The type of an expression; `of` gives the types of variables.
pub fn type_of(expr: &Expr, of: &dyn Fn(Reg) -> Type) -> Type {
    match expr {
        Expr::Reg(var) => of(*var),
        Expr::Float(_) => Type::Float,
        Expr::Wide(_) => Type::Wide,
        Expr::Null(ty)
        | Expr::Binary(_, ty, ..)
        | Expr::Neg(ty, _)
        | Expr::Case { ty, .. }
        | Expr::Coalesce(ty, _)
        | Expr::Rescale { ty, .. }
        | Expr::Within { ty, .. }
        | Expr::Cast { to: ty, .. } => *ty,
        Expr::Call { call, .. } => {
            Type::of(call.result()).expect("calls are made of types with words")
        }
        _ => Type::Int,
    }
}

/// Whether an expression may be NULL; `of` says which variables may.
pub fn nullable(expr: &Expr, of: &dyn Fn(Reg) -> bool) -> bool {
    match expr {
        Expr::Reg(var) => of(*var),
        Expr::Null(_) | Expr::Call { .. } => true,
        Expr::IsNull(..) => false,
        Expr::Coalesce(_, all) => all.iter().all(|operand| nullable(operand, of)),
        Expr::Case { when, otherwise, .. } => {
            nullable(otherwise, of) || when.iter().any(|(_, value)| nullable(value, of))
        }
        other => operands(other).into_iter().any(|operand| nullable(operand, of)),
    }
}

/// Whether an expression is NULL exactly if one of its variables is.
pub fn strict(expr: &Expr) -> bool {
    match expr {
        Expr::IsNull(..)
        | Expr::Coalesce(..)
        | Expr::Case { .. }
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Null(_)
        | Expr::Call { .. } => false,
        other => operands(other).into_iter().all(strict),
    }
}

/// The expression converted to a type, if it has another one.
pub fn cast(expr: Expr, from: Type, to: Type) -> Expr {
    if from == to { expr } else { fold(Expr::Cast { from, to, value: Box::new(expr) }) }
}

/// `a op b`, with constants folded.
pub fn binary(op: BinaryOp, ty: Type, a: Expr, b: Expr) -> Expr {
    fold_node(Expr::Binary(op, ty, Box::new(a), Box::new(b)))
}

/// `a op b` as a condition, with constants folded.
pub fn compare(op: CompareOp, ty: Type, a: Expr, b: Expr) -> Expr {
    fold_node(Expr::Compare(op, ty, Box::new(a), Box::new(b)))
}

/// The value, if a narrower SQL type has it; elsewhere the event fails.
pub fn within_range(ty: Type, range: NumberRange, value: Expr) -> Expr {
    fold_node(Expr::Within { ty, range, value: Box::new(value) })
}

/// The AND of conditions.
pub fn and(all: Vec<Expr>) -> Expr {
    fold_node(Expr::And(all))
}

/// SQL's NOT.
pub fn not(expr: Expr) -> Expr {
    fold_node(Expr::Not(Box::new(expr)))
}

/// `expr IS NULL`, with constants folded.
pub fn is_null(ty: Type, expr: Expr) -> Expr {
    fold_node(Expr::IsNull(ty, Box::new(expr)))
}

/// `a IS NOT DISTINCT FROM b`; [`null_safe_sides`] recognises it.
pub fn null_safe_eq(ty: Type, a: Expr, b: Expr) -> Expr {
    let both = Expr::And(vec![
        Expr::IsNull(ty, Box::new(a.clone())),
        Expr::IsNull(ty, Box::new(b.clone())),
    ]);
    Expr::Or(vec![both, Expr::Compare(CompareOp::Eq, ty, Box::new(a), Box::new(b))])
}

/// The sides of a comparison made by [`null_safe_eq`].
pub fn null_safe_sides(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Or(all) = expr else { return None };
    let [Expr::And(nulls), Expr::Compare(CompareOp::Eq, _, a, b)] = all.as_slice() else {
        return None;
    };
    let [Expr::IsNull(_, left), Expr::IsNull(_, right)] = nulls.as_slice() else { return None };
    (left == a && right == b).then_some((a, b))
}

/// Whether a condition is known never to be true.
pub fn never_true(expr: &Expr) -> bool {
    match expr {
        Expr::Int(0) | Expr::Null(_) => true,
        Expr::Compare(CompareOp::Lt | CompareOp::Gt | CompareOp::Ne, _, a, b) => a == b,
        Expr::And(all) => all.iter().any(never_true),
        Expr::Or(all) => all.iter().all(never_true),
        _ => false,
    }
}

/// The value of a numeric constant; the inner `None` is NULL.
fn constant(expr: &Expr) -> Option<Option<Constant>> {
    match expr {
        Expr::Int(value) => Some(Some(Constant::Int(*value))),
        Expr::Wide(value) => Some(Some(Constant::Wide(*value))),
        Expr::Float(value) => Some(Some(Constant::Float(*value))),
        Expr::Null(_) => Some(None),
        _ => None,
    }
}

/// Whether an expression is a constant.
pub fn is_constant(expr: &Expr) -> bool {
    constant(expr).is_some() || matches!(expr, Expr::Text(_))
}

/// Whether a condition is the constant true, false or NULL.
pub fn is_truth(expr: &Expr) -> bool {
    matches!(expr, Expr::Int(_) | Expr::Null(_))
}

/// A number that is not NULL.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Constant {
    Int(i64),
    Wide(i128),
    Float(f64),
}

impl Constant {
    fn expr(self) -> Expr {
        match self {
            Constant::Int(value) => Expr::Int(value),
            Constant::Wide(value) => Expr::Wide(value),
            Constant::Float(value) => Expr::Float(value),
        }
    }

    /// The number in another type, if the conversion would succeed at run time.
    fn cast(self, to: Type) -> Option<Constant> {
        Some(match (self, to) {
            (Constant::Int(value), Type::Wide) => Constant::Wide(scalar::int_to_wide(value)),
            (Constant::Int(value), Type::Float) => Constant::Float(scalar::int_to_float(value)),
            (Constant::Wide(value), Type::Int) => Constant::Int(scalar::wide_to_int(value).ok()?),
            (Constant::Wide(value), Type::Float) => Constant::Float(scalar::wide_to_float(value)),
            (Constant::Float(value), Type::Int) => Constant::Int(scalar::float_to_int(value).ok()?),
            (Constant::Float(value), Type::Wide) => {
                Constant::Wide(scalar::float_to_wide(value).ok()?)
            }
            (same, _) => same,
        })
    }

    /// The number with the decimal point shifted, if that would succeed at run time.
    fn rescale(self, by: i8) -> Option<Constant> {
        Some(match self {
            Constant::Int(value) => Constant::Int(scalar::rescale_int(by, value).ok()?),
            Constant::Wide(value) => Constant::Wide(scalar::rescale(by, value).ok()?),
            Constant::Float(_) => return None,
        })
    }

    /// Whether a narrower SQL type has this number.
    fn lies_within(self, range: NumberRange) -> bool {
        match self {
            Constant::Int(value) => scalar::within_int(range, value).is_ok(),
            Constant::Wide(value) => scalar::within_wide(range, value).is_ok(),
            Constant::Float(_) => false,
        }
    }

    /// The negated number, if the negation would succeed at run time.
    fn negate(self) -> Option<Constant> {
        Some(match self {
            Constant::Int(value) => Constant::Int(scalar::negate(value).ok()?),
            Constant::Wide(value) => Constant::Wide(scalar::negate(value).ok()?),
            Constant::Float(value) => Constant::Float(scalar::negate(value).ok()?),
        })
    }
}

/// `a op b`, if the operation would succeed at run time.
fn calculate(op: BinaryOp, a: Constant, b: Constant) -> Option<Constant> {
    Some(match (a, b) {
        (Constant::Int(a), Constant::Int(b)) => Constant::Int(scalar::binary(op, a, b).ok()?),
        (Constant::Wide(a), Constant::Wide(b)) => Constant::Wide(scalar::binary(op, a, b).ok()?),
        (Constant::Float(a), Constant::Float(b)) => Constant::Float(scalar::binary(op, a, b).ok()?),
        _ => return None,
    })
}

/// Whether `a op b` holds: 0 or 1.
fn compared(op: CompareOp, a: Constant, b: Constant) -> Option<i64> {
    Some(match (a, b) {
        (Constant::Int(a), Constant::Int(b)) => scalar::compare(op, a, b),
        (Constant::Wide(a), Constant::Wide(b)) => scalar::compare(op, a, b),
        (Constant::Float(a), Constant::Float(b)) => scalar::compare(op, a, b),
        _ => return None,
    })
}

/// The expression with constants folded, from the leaves up. An operation that would fail stays and
/// fails at run time.
pub fn fold(expr: Expr) -> Expr {
    fold_node(expr.map_operands(&mut fold))
}

/// Folds a node whose operands are folded: see [`fold`].
fn fold_node(expr: Expr) -> Expr {
    match expr {
        Expr::Binary(op, ty, a, b) => fold_binary(op, ty, a, b),
        Expr::Neg(ty, a) => match constant(&a) {
            Some(None) => Expr::Null(ty),
            Some(Some(value)) => value.negate().map_or(Expr::Neg(ty, a), Constant::expr),
            None => Expr::Neg(ty, a),
        },
        Expr::Compare(op, ty, a, b) => match (constant(&a), constant(&b)) {
            (Some(None), _) | (_, Some(None)) => Expr::Null(Type::Int),
            (Some(Some(x)), Some(Some(y))) => {
                compared(op, x, y).map_or(Expr::Compare(op, ty, a, b), Expr::Int)
            }
            _ => Expr::Compare(op, ty, a, b),
        },
        Expr::CompareText(op, a, b) => match (&*a, &*b) {
            (Expr::Null(_), _) | (_, Expr::Null(_)) => Expr::Null(Type::Int),
            _ => Expr::CompareText(op, a, b),
        },
        Expr::IsNull(ty, a) => match constant(&a) {
            Some(value) => Expr::Int(i64::from(value.is_none())),
            None if matches!(*a, Expr::Text(_)) => Expr::Int(0),
            None => Expr::IsNull(ty, a),
        },
        Expr::And(all) => fold_and(all),
        Expr::Or(all) => fold_or(all),
        Expr::Not(a) => fold_not(*a),
        Expr::Case { ty, when, otherwise } => fold_case(ty, when, otherwise),
        Expr::Coalesce(ty, all) => fold_coalesce(ty, all),
        Expr::Cast { from, to, value } => fold_cast(from, to, value),
        Expr::Rescale { by: 0, value, .. } => *value,
        Expr::Rescale { ty, by, value } => match constant(&value) {
            Some(None) => Expr::Null(ty),
            Some(Some(x)) => x.rescale(by).map_or(Expr::Rescale { ty, by, value }, Constant::expr),
            None => Expr::Rescale { ty, by, value },
        },
        Expr::Within { range, ref value, .. } => match constant(value) {
            Some(None) => (**value).clone(),
            Some(Some(x)) if x.lies_within(range) => (**value).clone(),
            _ => expr,
        },
        Expr::DatePart(..) | Expr::DateOf(_) | Expr::Like { .. } | Expr::Substring { .. }
            if matches!(operands(&expr)[0], Expr::Null(_)) =>
        {
            Expr::Null(Type::Int)
        }
        other => other,
    }
}

fn fold_binary(op: BinaryOp, ty: Type, a: Box<Expr>, b: Box<Expr>) -> Expr {
    let one = |e: &Expr| matches!(e, Expr::Int(1) | Expr::Wide(1)) || *e == Expr::Float(1.0);
    let zero = |e: &Expr| matches!(e, Expr::Int(0) | Expr::Wide(0));
    match (constant(&a), constant(&b)) {
        (Some(None), _) | (_, Some(None)) => return Expr::Null(ty),
        (Some(Some(x)), Some(Some(y))) => {
            if let Some(value) = calculate(op, x, y) {
                return value.expr();
            }
        }
        _ => {}
    }
    match op {
        BinaryOp::Mul if one(&a) => *b,
        BinaryOp::Mul | BinaryOp::Div if one(&b) => *a,
        BinaryOp::Add if zero(&a) => *b,
        BinaryOp::Add | BinaryOp::Sub if zero(&b) => *a,
        _ => Expr::Binary(op, ty, a, b),
    }
}

fn fold_and(all: Vec<Expr>) -> Expr {
    let mut kept: Vec<Expr> = Vec::new();
    for condition in all {
        match condition {
            Expr::Int(0) => return Expr::Int(0),
            Expr::Int(_) => {}
            Expr::And(inner) => kept.extend(inner),
            other if kept.contains(&other) => {}
            other => kept.push(other),
        }
    }
    match kept.len() {
        0 => Expr::Int(1),
        1 => kept.remove(0),
        _ => Expr::And(kept),
    }
}

fn fold_or(all: Vec<Expr>) -> Expr {
    let mut kept: Vec<Expr> = Vec::new();
    for condition in all {
        match condition {
            Expr::Int(0) => {}
            Expr::Int(_) => return Expr::Int(1),
            Expr::Or(inner) => kept.extend(inner),
            other if kept.contains(&other) => {}
            other => kept.push(other),
        }
    }
    match kept.len() {
        0 => Expr::Int(0),
        1 => kept.remove(0),
        _ => Expr::Or(kept),
    }
}

fn fold_not(expr: Expr) -> Expr {
    match expr {
        Expr::Int(value) => Expr::Int(i64::from(value == 0)),
        Expr::Null(ty) => Expr::Null(ty),
        Expr::Not(inner) => *inner,
        Expr::Compare(op, ty, a, b) => Expr::Compare(op.opposite(), ty, a, b),
        Expr::CompareText(op, a, b) => Expr::CompareText(op.opposite(), a, b),
        Expr::And(all) => fold_or(all.into_iter().map(fold_not).collect()),
        Expr::Or(all) => fold_and(all.into_iter().map(fold_not).collect()),
        Expr::Like { value, pattern, ignore_case, negated } => {
            Expr::Like { value, pattern, ignore_case, negated: !negated }
        }
        Expr::Case { ty: Type::Int, when, otherwise }
            if when.iter().all(|(_, value)| is_truth(value)) && is_truth(&otherwise) =>
        {
            let negated = |(condition, value)| (condition, fold_not(value));
            let when = when.into_iter().map(negated).collect();
            Expr::Case { ty: Type::Int, when, otherwise: Box::new(fold_not(*otherwise)) }
        }
        other => Expr::Not(Box::new(other)),
    }
}

fn fold_case(ty: Type, when: Vec<(Expr, Expr)>, otherwise: Box<Expr>) -> Expr {
    let mut kept = Vec::new();
    let mut otherwise = otherwise;
    for (condition, value) in when {
        match condition {
            Expr::Int(0) | Expr::Null(_) => {}
            Expr::Int(_) => {
                otherwise = Box::new(value);
                break;
            }
            condition => kept.push((condition, value)),
        }
    }
    if kept.is_empty() { *otherwise } else { Expr::Case { ty, when: kept, otherwise } }
}

fn fold_coalesce(ty: Type, all: Vec<Expr>) -> Expr {
    let mut kept = Vec::new();
    for value in all {
        if matches!(value, Expr::Null(_)) {
            continue;
        }
        let last = is_constant(&value);
        kept.push(value);
        if last {
            break;
        }
    }
    match kept.len() {
        0 => Expr::Null(ty),
        1 => kept.remove(0),
        _ => Expr::Coalesce(ty, kept),
    }
}

fn fold_cast(from: Type, to: Type, value: Box<Expr>) -> Expr {
    match constant(&value) {
        _ if from == to => *value,
        Some(None) => Expr::Null(to),
        Some(Some(x)) => x.cast(to).map_or(Expr::Cast { from, to, value }, Constant::expr),
        None => Expr::Cast { from, to, value },
    }
}

/// The conditions that an expression requires together. Conditions common to all branches of an OR
/// are taken out: `(a AND b) OR (a AND c)` gives `a` and `b OR c`.
pub fn conjuncts(expr: Expr) -> Vec<Expr> {
    let mut found = Vec::new();
    let all = match fold(expr) {
        Expr::And(all) => all,
        other => vec![other],
    };
    for condition in all {
        match condition {
            Expr::Or(branches) if null_safe_sides(&Expr::Or(branches.clone())).is_none() => {
                found.extend(without_common_factors(branches));
            }
            other => found.push(other),
        }
    }
    found
}

fn without_common_factors(branches: Vec<Expr>) -> Vec<Expr> {
    let parts = |branch: &Expr| match branch {
        Expr::And(all) => all.clone(),
        other => vec![other.clone()],
    };
    let mut split: Vec<Vec<Expr>> = branches.iter().map(parts).collect();
    let in_all = |part: &&Expr| split.iter().all(|other| other.contains(part));
    let mut found: Vec<Expr> = split[0].iter().filter(in_all).cloned().collect();
    for branch in &mut split {
        branch.retain(|part| !found.contains(part));
    }
    let rest = fold_or(split.into_iter().map(fold_and).collect());
    if rest != Expr::Int(1) {
        found.push(rest);
    }
    found
}

/// Strategy: random expressions over ordinary and extreme constants. Invariant: the folded
/// expression means what `halcyon_value` says of the original one.
#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;
    use halcyon_value::compare::Compare;
    use halcyon_value::integer::{Whole, divide, divide_rounded, remainder};
    use halcyon_value::{Arith, decimal, float};

    /// The value of an expression: the inner `None` is NULL, the outer one an error.
    type Meaning = Option<Option<Constant>>;

    fn whole<T: Whole>(
        op: BinaryOp,
        a: T,
        b: T,
        [add, sub, mul]: [Option<T>; 3],
        mark: T,
    ) -> Option<T> {
        let value = match op {
            BinaryOp::Add => add,
            BinaryOp::Sub => sub,
            BinaryOp::Mul => mul,
            BinaryOp::Div => divide(a, b).ok()?,
            BinaryOp::DivRound => divide_rounded(a, b).ok()?,
            BinaryOp::Rem => Some(remainder(a, b).ok()?),
        };
        value.filter(|value| *value != mark)
    }

    fn calculated(op: BinaryOp, a: Constant, b: Constant) -> Option<Constant> {
        Some(match (a, b) {
            (Constant::Int(a), Constant::Int(b)) => {
                let results = [a.checked_add(b), a.checked_sub(b), a.checked_mul(b)];
                Constant::Int(whole(op, a, b, results, i64::MIN)?)
            }
            (Constant::Wide(a), Constant::Wide(b)) => {
                let results = [a.checked_add(b), a.checked_sub(b), a.checked_mul(b)];
                Constant::Wide(whole(op, a, b, results, i128::MIN)?)
            }
            (Constant::Float(a), Constant::Float(b)) => {
                let op = match op {
                    BinaryOp::Add => Arith::Add,
                    BinaryOp::Sub => Arith::Sub,
                    BinaryOp::Mul => Arith::Mul,
                    BinaryOp::Div | BinaryOp::DivRound => Arith::Div,
                    BinaryOp::Rem => Arith::Rem,
                };
                Constant::Float(float::calculate(op, a, b).ok()?)
            }
            _ => panic!("{a:?} {op:?} {b:?}"),
        })
    }

    fn order(a: Constant, b: Constant) -> std::cmp::Ordering {
        match (a, b) {
            (Constant::Int(a), Constant::Int(b)) => a.cmp(&b),
            (Constant::Wide(a), Constant::Wide(b)) => a.cmp(&b),
            (Constant::Float(a), Constant::Float(b)) => float::compare(a, b),
            _ => panic!("{a:?} beside {b:?}"),
        }
    }

    fn converted(value: Constant, to: Type) -> Option<Constant> {
        Some(match (value, to) {
            (Constant::Int(value), Type::Wide) => Constant::Wide(value.into()),
            (Constant::Int(value), Type::Float) => Constant::Float(value as f64),
            (Constant::Wide(value), Type::Float) => Constant::Float(value as f64),
            (Constant::Wide(value), Type::Int) => {
                Constant::Int(i64::try_from(value).ok().filter(|value| *value != i64::MIN)?)
            }
            (Constant::Float(value), Type::Int) => {
                let whole = float::to_integer(value, i64::MIN, i64::MAX)?;
                Constant::Int(Some(whole).filter(|value| *value != i64::MIN)?)
            }
            (Constant::Float(value), Type::Wide) => {
                let near = value.is_finite() && value.abs() < 1e30;
                Constant::Wide(near.then(|| float::round_even(value) as i128)?)
            }
            (same, _) => same,
        })
    }

    fn shifted(value: Constant, by: i8) -> Option<Constant> {
        let shift = |value: i128| decimal::rescale(value, 0, by);
        Some(match value {
            Constant::Int(value) => converted(Constant::Wide(shift(value.into())?), Type::Int)?,
            Constant::Wide(value) => Constant::Wide(shift(value)?),
            Constant::Float(_) => panic!("floats have no scale"),
        })
    }

    fn meaning(expr: &Expr) -> Meaning {
        let both = |a: &Expr, b: &Expr| -> Option<Option<(Constant, Constant)>> {
            let (a, b) = (meaning(a)?, meaning(b)?);
            Some(a.zip(b))
        };
        Some(match expr {
            Expr::Binary(op, _, a, b) => match both(a, b)? {
                Some((a, b)) => Some(calculated(*op, a, b)?),
                None => None,
            },
            Expr::Compare(op, _, a, b) => both(a, b)?
                .map(|(a, b)| Constant::Int(Compare::from(*op).accepts(order(a, b)).into())),
            Expr::Neg(_, a) => meaning(a)?.map(|value| match value {
                Constant::Int(value) => Constant::Int(-value),
                Constant::Wide(value) => Constant::Wide(-value),
                Constant::Float(value) => Constant::Float(-value),
            }),
            Expr::Not(a) => {
                meaning(a)?.map(|value| Constant::Int((value == Constant::Int(0)).into()))
            }
            Expr::IsNull(_, a) => Some(Constant::Int(meaning(a)?.is_none().into())),
            Expr::Cast { to, value, .. } => match meaning(value)? {
                Some(value) => Some(converted(value, *to)?),
                None => None,
            },
            Expr::Rescale { by, value, .. } => match meaning(value)? {
                Some(value) => Some(shifted(value, *by)?),
                None => None,
            },
            Expr::Coalesce(_, all) => {
                for value in all {
                    if let Some(value) = meaning(value)? {
                        return Some(Some(value));
                    }
                }
                None
            }
            Expr::Case { when, otherwise, .. } => {
                for (condition, value) in when {
                    if !matches!(meaning(condition)?, None | Some(Constant::Int(0))) {
                        return meaning(value);
                    }
                }
                meaning(otherwise)?
            }
            constants => constant(constants).expect("a constant"),
        })
    }

    fn random(rng: &mut Rng, ty: Type, depth: u32) -> Expr {
        const FLOATS: [f64; 8] = [0.0, 1.0, -2.5, 0.5, 1e308, -1e308, 3.75e18, f64::INFINITY];
        if depth == 0 || rng.chance(1, 5) {
            if rng.chance(1, 8) {
                return Expr::Null(ty);
            }
            return match ty {
                Type::Int => Expr::Int(*rng.pick(&[0, 1, -1, 7, -15, i64::MAX, -i64::MAX])),
                Type::Wide => Expr::Wide(*rng.pick(&[0, 1, -5, 1 << 70, i128::MAX, -i128::MAX])),
                Type::Float => Expr::Float(*rng.pick(&FLOATS)),
            };
        }
        let sub = |rng: &mut Rng, ty| Box::new(random(rng, ty, depth - 1));
        let any = *rng.pick(&[Type::Int, Type::Wide, Type::Float]);
        use BinaryOp::{Add, Div, DivRound, Mul, Rem, Sub};
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        match rng.below(if ty == Type::Int { 11 } else { 8 }) {
            0..=3 => {
                let op = *rng.pick(&[Add, Sub, Mul, Div, DivRound, Rem]);
                Expr::Binary(op, ty, sub(rng, ty), sub(rng, ty))
            }
            4 => Expr::Neg(ty, sub(rng, ty)),
            5 => Expr::Cast { from: any, to: ty, value: sub(rng, any) },
            6 if ty != Type::Float => {
                Expr::Rescale { ty, by: rng.below(7) as i8 - 3, value: sub(rng, ty) }
            }
            6 => Expr::Coalesce(ty, vec![*sub(rng, ty), *sub(rng, ty)]),
            7 => Expr::Case {
                ty,
                when: vec![(*sub(rng, Type::Int), *sub(rng, ty))],
                otherwise: sub(rng, ty),
            },
            8 => {
                let op = *rng.pick(&[Eq, Ne, Lt, Le, Gt, Ge]);
                Expr::Compare(op, any, sub(rng, any), sub(rng, any))
            }
            9 => Expr::IsNull(any, sub(rng, any)),
            _ => Expr::Not(sub(rng, Type::Int)),
        }
    }

    #[test]
    fn what_is_folded_means_what_it_meant() {
        let mut rng = Rng::new(1);
        let (mut folded, mut refused) = (0, 0);
        for round in 0..20_000 {
            let ty = *rng.pick(&[Type::Int, Type::Wide, Type::Float]);
            let expr = random(&mut rng, ty, 3);
            let (before, after) = (meaning(&expr), fold(expr.clone()));
            let told = || format!("round {round}\n{expr:?}\nfolded {after:?}");
            match before {
                // All NaN count as one value.
                Some(Some(Constant::Float(value))) if value.is_nan() => {}
                Some(value) => assert_eq!(meaning(&after), Some(value), "{}", told()),
                // An operation that fails may stand in a branch that turns out not to be taken once
                // constants are known.
                None => refused += 1,
            }
            folded += usize::from(constant(&after).is_some());
        }
        assert!(folded > 10_000 && refused > 1_000, "{folded} folded, {refused} refused");
    }

    #[test]
    fn what_fails_when_run_is_left_to_fail() {
        let int = |value| Box::new(Expr::Int(value));
        let float = |value| Box::new(Expr::Float(value));
        for expr in [
            Expr::Binary(BinaryOp::Add, Type::Int, int(i64::MAX), int(1)),
            // The result would be the mark of NULL.
            Expr::Binary(BinaryOp::Sub, Type::Int, int(-i64::MAX), int(1)),
            Expr::Binary(BinaryOp::Div, Type::Int, int(1), int(0)),
            Expr::Binary(BinaryOp::Mul, Type::Float, float(1e308), float(10.0)),
            Expr::Cast { from: Type::Float, to: Type::Int, value: float(1e19) },
            Expr::Rescale { ty: Type::Int, by: 3, value: int(i64::MAX) },
        ] {
            assert_eq!(fold(expr.clone()), expr);
        }
        let nan = || Box::new(Expr::Float(f64::NAN));
        let equal = Expr::Compare(CompareOp::Eq, Type::Float, nan(), nan());
        assert_eq!(fold(equal), Expr::Int(1));
    }
}
