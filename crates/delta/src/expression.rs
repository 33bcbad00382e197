//! Scalar expressions of the calculus: those of trigger programs, over variables instead of
//! registers.
//!
//! A variable is a [`Reg`] whose number is an index into [`crate::calculus::Variables`]; it becomes
//! a register only when a trigger is written. So no second language of expressions is needed.

use std::collections::{BTreeSet, HashMap};

use halcyon_view::program::{BinaryOp, CompareOp, Expr, Reg, Type};

/// Operands, from left to right.
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
        | Expr::Like { value, .. }
        | Expr::Substring { value, .. } => vec![value],
        Expr::Call { args, .. } => args.iter().collect(),
    }
}

/// Adds the variables that occur.
pub fn collect_variables(expr: &Expr, into: &mut BTreeSet<Reg>) {
    if let Expr::Reg(var) = expr {
        into.insert(*var);
    }
    for operand in operands(expr) {
        collect_variables(operand, into);
    }
}

/// The variables that occur.
pub fn variables(expr: &Expr) -> BTreeSet<Reg> {
    let mut found = BTreeSet::new();
    collect_variables(expr, &mut found);
    found
}

/// Whether any of the variables occurs.
pub fn mentions(expr: &Expr, vars: &BTreeSet<Reg>) -> bool {
    match expr {
        Expr::Reg(var) => vars.contains(var),
        other => operands(other).into_iter().any(|operand| mentions(operand, vars)),
    }
}

/// Whether only these variables occur.
pub fn within(expr: &Expr, vars: &BTreeSet<Reg>) -> bool {
    match expr {
        Expr::Reg(var) => vars.contains(var),
        other => operands(other).into_iter().all(|operand| within(operand, vars)),
    }
}

/// Variables replaced by expressions; others stay.
pub fn substitute(expr: Expr, by: &HashMap<Reg, Expr>) -> Expr {
    match expr {
        Expr::Reg(var) => by.get(&var).cloned().unwrap_or(Expr::Reg(var)),
        other => other.map_operands(&mut |operand| substitute(operand, by)),
    }
}

/// Type of an expression whose variables have types.
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
        | Expr::Cast { to: ty, .. } => *ty,
        _ => Type::Int,
    }
}

/// Whether an expression may be NULL if these variables may.
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

/// Conversion, if one is needed.
pub fn cast(expr: Expr, from: Type, to: Type) -> Expr {
    if from == to { expr } else { fold(Expr::Cast { from, to, value: Box::new(expr) }) }
}

/// `a op b`, with constants folded.
pub fn binary(op: BinaryOp, ty: Type, a: Expr, b: Expr) -> Expr {
    fold_node(Expr::Binary(op, ty, Box::new(a), Box::new(b)))
}

/// `a op b` as a condition.
pub fn compare(op: CompareOp, ty: Type, a: Expr, b: Expr) -> Expr {
    fold_node(Expr::Compare(op, ty, Box::new(a), Box::new(b)))
}

/// All of the conditions.
pub fn and(all: Vec<Expr>) -> Expr {
    fold_node(Expr::And(all))
}

/// SQL's NOT.
pub fn not(expr: Expr) -> Expr {
    fold_node(Expr::Not(Box::new(expr)))
}

/// `expr IS NULL`.
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

/// The sides of a comparison that [`null_safe_eq`] made.
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

/// The operator with its sides exchanged.
pub fn swapped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        same => same,
    }
}

fn opposite(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Le => CompareOp::Gt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Ge => CompareOp::Lt,
    }
}

/// A constant of one of the numeric types; `None` in it is NULL.
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

/// Whether an expression is true, false or NULL once and for all.
pub fn is_truth(expr: &Expr) -> bool {
    matches!(expr, Expr::Int(_) | Expr::Null(_))
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
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
}

/// Constants folded, from the leaves up. What would fail when run is left to fail then.
pub fn fold(expr: Expr) -> Expr {
    fold_node(expr.map_operands(&mut fold))
}

/// As [`fold`], for a node whose operands are folded.
fn fold_node(expr: Expr) -> Expr {
    match expr {
        Expr::Binary(op, ty, a, b) => fold_binary(op, ty, a, b),
        Expr::Neg(ty, a) => match constant(&a) {
            Some(None) => Expr::Null(ty),
            Some(Some(Constant::Int(value))) => Expr::Int(-value),
            Some(Some(Constant::Wide(value))) => Expr::Wide(-value),
            Some(Some(Constant::Float(value))) => Expr::Float(-value),
            None => Expr::Neg(ty, a),
        },
        Expr::Compare(op, ty, a, b) => match (constant(&a), constant(&b)) {
            (Some(None), _) | (_, Some(None)) => Expr::Null(Type::Int),
            (Some(Some(x)), Some(Some(y))) => match x.partial_cmp(&y) {
                Some(order) => {
                    let holds = match op {
                        CompareOp::Eq => order.is_eq(),
                        CompareOp::Ne => order.is_ne(),
                        CompareOp::Lt => order.is_lt(),
                        CompareOp::Le => order.is_le(),
                        CompareOp::Gt => order.is_gt(),
                        CompareOp::Ge => order.is_ge(),
                    };
                    Expr::Int(i64::from(holds))
                }
                None => Expr::Compare(op, ty, a, b),
            },
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
        Expr::Rescale { ty, by, value } => {
            let power = |by: i8| 10_i128.checked_pow(u32::try_from(by).ok()?);
            let scaled = |value: i128| value.checked_mul(power(by)?);
            match constant(&value) {
                Some(None) => Expr::Null(ty),
                Some(Some(Constant::Int(x))) => {
                    match scaled(x.into()).and_then(|x| i64::try_from(x).ok()) {
                        Some(x) => Expr::Int(x),
                        None => Expr::Rescale { ty, by, value },
                    }
                }
                Some(Some(Constant::Wide(x))) => match scaled(x) {
                    Some(x) => Expr::Wide(x),
                    None => Expr::Rescale { ty, by, value },
                },
                _ => Expr::Rescale { ty, by, value },
            }
        }
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

fn calculate(op: BinaryOp, a: Constant, b: Constant) -> Option<Constant> {
    Some(match (a, b) {
        (Constant::Int(a), Constant::Int(b)) => Constant::Int(match op {
            BinaryOp::Add => a.checked_add(b)?,
            BinaryOp::Sub => a.checked_sub(b)?,
            BinaryOp::Mul => a.checked_mul(b)?,
            _ => return None,
        }),
        (Constant::Wide(a), Constant::Wide(b)) => Constant::Wide(match op {
            BinaryOp::Add => a.checked_add(b)?,
            BinaryOp::Sub => a.checked_sub(b)?,
            BinaryOp::Mul => a.checked_mul(b)?,
            _ => return None,
        }),
        (Constant::Float(a), Constant::Float(b)) => Constant::Float(match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            _ => return None,
        }),
        _ => return None,
    })
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
        Expr::Compare(op, ty, a, b) => Expr::Compare(opposite(op), ty, a, b),
        Expr::CompareText(op, a, b) => Expr::CompareText(opposite(op), a, b),
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
    match (constant(&value), to) {
        _ if from == to => *value,
        (Some(None), _) => Expr::Null(to),
        (Some(Some(Constant::Int(x))), Type::Wide) => Expr::Wide(x.into()),
        (Some(Some(Constant::Int(x))), Type::Float) => Expr::Float(x as f64),
        (Some(Some(Constant::Wide(x))), Type::Float) => Expr::Float(x as f64),
        (Some(Some(Constant::Wide(x))), Type::Int) if i64::try_from(x).is_ok() => {
            Expr::Int(x as i64)
        }
        _ => Expr::Cast { from, to, value },
    }
}

/// The conditions that must all hold, with what all branches of an OR have in common taken out of
/// it: `(a AND b) OR (a AND c)` gives `a` and `b OR c`.
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
