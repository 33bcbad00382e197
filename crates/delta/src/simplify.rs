//! Simplification of terms, before deltas are taken of them.
//!
//! Variables that a condition equates become one variable, so that joins are shared variables,
//! which a delta binds. Conditions are folded, and terms that can never have rows go. A disjunction
//! of comparisons between relations becomes a sum, because each comparison alone is a range.

use std::collections::{BTreeSet, HashMap};

use halcyon_view::program::{BinaryOp, CompareOp, Expr, Reg, Type};

use crate::calculus::{Term, Var, Variables};
use crate::expression::{
    binary, conjuncts, fold, is_null, is_truth, never_true, not, null_safe_sides, substitute,
    variables, within,
};

/// The term in normal form: no term if it is zero, several where a disjunction was split.
pub fn simplify(term: Term, vars: &mut Variables) -> Vec<Term> {
    let Some(term) = settle(term, vars) else { return Vec::new() };
    match split_disjunction(&term) {
        Some(parts) => parts.into_iter().flat_map(|part| simplify(part, vars)).collect(),
        None => vec![term],
    }
}

/// Folds conditions and unifies variables until nothing changes. `None`: the term is zero.
fn settle(mut term: Term, vars: &mut Variables) -> Option<Term> {
    loop {
        let conditions = std::mem::take(&mut term.conditions);
        let settled = |condition: Expr| conjuncts(without_case(condition, vars));
        for condition in conditions.into_iter().flat_map(conjuncts).flat_map(settled) {
            if never_true(&condition) {
                return None;
            }
            if condition != Expr::Int(1) && !term.conditions.contains(&condition) {
                term.conditions.push(condition);
            }
        }
        let bound = term.bound();
        let found = term.conditions.iter().position(|c| equal_variables(c, &bound).is_some());
        let Some(at) = found else { break };
        let condition = term.conditions.remove(at);
        let (a, b, null_safe) = equal_variables(&condition, &bound).expect("found above");
        if a != b {
            unify(&mut term, a, b, null_safe, vars);
        } else if !null_safe && vars.get(a).nullable {
            term.conditions.push(not(is_null(vars.get(a).ty, Expr::Reg(a))));
        }
    }
    for expr in term.keys.iter_mut().chain(&mut term.values) {
        *expr = fold(std::mem::replace(expr, Expr::Int(0)));
    }
    Some(term)
}

/// A condition that chooses between two constants, as the condition that makes the choice: of a NOT
/// IN this leaves the test that no value is NULL. The result is true for the same rows; false and
/// NULL may differ.
fn without_case(condition: Expr, vars: &Variables) -> Expr {
    let Expr::Case { when, otherwise, .. } = &condition else { return condition };
    let ([(chooses, value)], true) = (when.as_slice(), is_truth(otherwise)) else {
        return condition;
    };
    match (never_true(value), never_true(otherwise)) {
        _ if !is_truth(value) => condition,
        (true, true) => Expr::Int(0),
        (false, false) => Expr::Int(1),
        (false, true) => chooses.clone(),
        (true, false) if !vars.nullable(chooses) => not(chooses.clone()),
        (true, false) => condition,
    }
}

/// The two variables that a condition equates, and whether it takes NULL for equal to NULL.
fn equal_variables(condition: &Expr, bound: &BTreeSet<Var>) -> Option<(Var, Var, bool)> {
    let (a, b, null_safe) = match condition {
        Expr::Compare(CompareOp::Eq, _, a, b) => (&**a, &**b, false),
        other => null_safe_sides(other).map(|(a, b)| (a, b, true))?,
    };
    match (a, b) {
        (Expr::Reg(a), Expr::Reg(b)) if bound.contains(a) && bound.contains(b) => {
            Some((*a, *b, null_safe))
        }
        _ => None,
    }
}

fn unify(term: &mut Term, a: Var, b: Var, null_safe: bool, vars: &mut Variables) {
    let (left, right) = (vars.get(a).clone(), vars.get(b).clone());
    let both_nullable = left.nullable && right.nullable;
    let merged = vars.fresh(left.name, left.ty, both_nullable);
    for var in term.atoms.iter_mut().flat_map(|atom| &mut atom.vars) {
        if *var == a || *var == b {
            *var = merged;
        }
    }
    let by = HashMap::from([(a, Expr::Reg(merged)), (b, Expr::Reg(merged))]);
    let new = std::mem::replace(term, Term::unit()).substitute(&by);
    *term = new;
    if both_nullable && !null_safe {
        term.conditions.push(not(is_null(left.ty, Expr::Reg(merged))));
    }
}

/// `[a or b] = [a] + [b] − [a][b]`, for comparisons that are ranges across several atoms.
fn split_disjunction(term: &Term) -> Option<Vec<Term>> {
    for (at, condition) in term.conditions.iter().enumerate() {
        let Expr::Or(all) = condition else { continue };
        let [left, right] = all.as_slice() else { continue };
        let spans = |expr: &Expr| {
            let used = variables(expr);
            let touches = |vars: &[Reg]| vars.iter().any(|var| used.contains(var));
            term.atoms.iter().filter(|atom| touches(&atom.vars)).count() > 1
        };
        let is_range = |expr: &Expr| matches!(expr, Expr::Compare(op, ..) if !matches!(op, CompareOp::Eq | CompareOp::Ne));
        if ![left, right].into_iter().all(|side| spans(side) && is_range(side)) {
            continue;
        }
        let with = |conditions: Vec<Expr>, weight: i64| {
            let mut part = term.clone();
            part.weight *= weight;
            part.conditions.splice(at..=at, conditions);
            part
        };
        let mut parts = vec![with(vec![left.clone()], 1), with(vec![right.clone()], 1)];
        if !disjoint(left, right) {
            parts.push(with(vec![left.clone(), right.clone()], -1));
        }
        return Some(parts);
    }
    None
}

/// Whether two comparisons are bounds of one difference that visibly exclude each other.
fn disjoint(left: &Expr, right: &Expr) -> bool {
    let (Some((form, low)), Some((other, high))) = (lower_bound(left), lower_bound(right)) else {
        return false;
    };
    // form > low and −form > high, that is form < −high.
    let negated = form.iter().map(|(var, factor)| (*var, -factor)).collect::<HashMap<_, _>>();
    negated == other && low >= -high
}

/// `sum of variables > constant` (or ≥), if the comparison is of that form.
fn lower_bound(expr: &Expr) -> Option<(HashMap<Var, i64>, f64)> {
    let Expr::Compare(op, ty, a, b) = expr else { return None };
    let (a, b) = match op {
        CompareOp::Gt => (a, b),
        CompareOp::Lt => (b, a),
        _ => return None,
    };
    let mut terms = Vec::new();
    summands(a, *ty, 1, &mut terms);
    summands(b, *ty, -1, &mut terms);
    let (mut form, mut bound) = (HashMap::new(), 0.0);
    for (sign, summand) in terms {
        match summand {
            Expr::Reg(var) => *form.entry(var).or_insert(0) += sign,
            Expr::Int(value) => bound -= (sign * value) as f64,
            Expr::Wide(value) => bound -= (i128::from(sign) * value) as f64,
            Expr::Float(value) => bound -= sign as f64 * value,
            _ => return None,
        }
    }
    Some((form, bound))
}

/// The summands of sums and differences of one type, with their signs; overflow of partial sums is
/// ignored.
pub fn summands(expr: &Expr, ty: Type, sign: i64, into: &mut Vec<(i64, Expr)>) {
    match expr {
        Expr::Binary(BinaryOp::Add, t, a, b) if *t == ty => {
            summands(a, ty, sign, into);
            summands(b, ty, sign, into);
        }
        Expr::Binary(BinaryOp::Sub, t, a, b) if *t == ty => {
            summands(a, ty, sign, into);
            summands(b, ty, -sign, into);
        }
        Expr::Neg(t, a) if *t == ty => summands(a, ty, -sign, into),
        Expr::Within { ty: t, value, .. } if *t == ty && is_sum(value) => {
            summands(value, ty, sign, into);
        }
        Expr::Binary(BinaryOp::Mul, t, a, b)
            if *t == ty && (is_minus_one(a) || is_minus_one(b)) =>
        {
            summands(if is_minus_one(a) { b } else { a }, ty, -sign, into);
        }
        other => into.push((sign, other.clone())),
    }
}

/// Whether an expression is a sum, a difference or a negation.
fn is_sum(expr: &Expr) -> bool {
    matches!(expr, Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..) | Expr::Neg(..))
}

fn is_minus_one(expr: &Expr) -> bool {
    matches!(expr, Expr::Int(-1) | Expr::Wide(-1)) || *expr == Expr::Float(-1.0)
}

/// A comparison with everything over `inner` variables on the left, and the rest, over `outer`
/// variables, on the right. Sums are rearranged as if they were exact and unbounded. So where only
/// the rounding of a floating-point difference decides, the answer may differ from the original's,
/// and where a sum of integers would overflow, the comparison is decided instead of failing.
pub fn isolate(
    condition: &Expr,
    inner: &BTreeSet<Var>,
    outer: &BTreeSet<Var>,
) -> Option<(Expr, CompareOp, Type, Expr)> {
    let Expr::Compare(op, ty, a, b) = condition else { return None };
    let is_inner = |e: &Expr| within(e, inner) && !variables(e).is_empty();
    if is_inner(a) && within(b, outer) {
        return Some(((**a).clone(), *op, *ty, (**b).clone()));
    }
    if is_inner(b) && within(a, outer) {
        return Some(((**b).clone(), op.mirrored(), *ty, (**a).clone()));
    }
    if *ty == Type::Float && matches!(op, CompareOp::Eq | CompareOp::Ne) {
        return None;
    }
    let mut terms = Vec::new();
    summands(a, *ty, 1, &mut terms);
    summands(b, *ty, -1, &mut terms);
    let (mine, theirs): (Vec<_>, Vec<_>) = terms.into_iter().partition(|(_, e)| is_inner(e));
    let (first, _) = *mine.first().map(|(sign, e)| (*sign, e)).as_ref()?;
    if !theirs.iter().all(|(_, e)| within(e, outer)) {
        return None;
    }
    let left = sum_of(&mine, first, *ty);
    let right = sum_of(&theirs, -first, *ty);
    Some((left, if first < 0 { op.mirrored() } else { *op }, *ty, right))
}

fn sum_of(terms: &[(i64, Expr)], sign: i64, ty: Type) -> Expr {
    let zero = match ty {
        Type::Int => Expr::Int(0),
        Type::Wide => Expr::Wide(0),
        Type::Float => Expr::Float(0.0),
    };
    let mut sum: Option<Expr> = None;
    // Positive terms come first, so that no negation is needed.
    let (plus, minus): (Vec<_>, Vec<_>) = terms.iter().partition(|(own, _)| own * sign > 0);
    for (_, term) in plus {
        sum = Some(match sum {
            Some(sum) => binary(BinaryOp::Add, ty, sum, term.clone()),
            None => term.clone(),
        });
    }
    for (_, term) in minus {
        let sum_so_far = sum.take().unwrap_or_else(|| zero.clone());
        sum = Some(binary(BinaryOp::Sub, ty, sum_so_far, term.clone()));
    }
    sum.unwrap_or(zero)
}

/// The expression with variables replaced and constants folded.
pub fn replace(expr: &Expr, by: &HashMap<Var, Expr>) -> Expr {
    fold(substitute(expr.clone(), by))
}
