//! Values as sums of products, so that each factor can be summed where its variables are.
//!
//! Sum(a.volume − b.volume) over a join of a and b is Sum_a(volume)·Sum_b(1) − Sum_a(1)·Sum_b(volume)
//! [koch2014, §5.1: polynomial expansion]. A product with a NULL factor adds nothing, as in SQL; of a
//! sum with a NULL summand the other summands must not remain, so each gets a factor that says
//! whether the others are there.

use halcyon_value::decimal;
use halcyon_view::program::{BinaryOp, Expr, Type};
use std::collections::BTreeSet;

use crate::calculus::{Var, Variables};
use crate::expression::{cast, fold, is_null, mentions, not, operands, strict, variables, within};

use super::unit;

/// sign · ∏ factors; a factor may have any type.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    pub sign: i64,
    pub factors: Vec<Expr>,
}

impl Product {
    fn times(&self, other: &Product) -> Product {
        let factors = self.factors.iter().chain(&other.factors).cloned().collect();
        Product { sign: self.sign * other.sign, factors }
    }
}

/// Where a component's variables are: those its atoms bind, and which of them the statement does
/// not know yet.
pub struct Region<'a> {
    pub all: &'a BTreeSet<Var>,
    pub unbound: &'a BTreeSet<Var>,
}

impl Region<'_> {
    /// Over the component's variables alone, some of them unbound.
    pub fn holds(&self, expr: &Expr) -> bool {
        self.touches(expr) && within(expr, self.all)
    }

    /// Needs the component.
    pub fn touches(&self, expr: &Expr) -> bool {
        mentions(expr, self.unbound)
    }
}

/// Takes the factors of products apart until each is inside the component, outside it, or cannot be
/// taken apart.
pub fn refine(products: &[Product], region: &Region<'_>, vars: &Variables) -> Vec<Product> {
    let mut refined: Vec<Product> = Vec::new();
    for product in products {
        let mut all = vec![Product { sign: product.sign, factors: Vec::new() }];
        for factor in &product.factors {
            let parts = expand(factor, region, vars);
            all = all.iter().flat_map(|a| parts.iter().map(|b| a.times(b))).collect();
        }
        refined.extend(all);
    }
    refined.retain(|product| !product.factors.iter().any(is_zero));
    for product in &mut refined {
        product.factors.retain(|factor| !is_one(factor));
    }
    refined
}

/// Whether a factor makes its product add nothing.
pub fn is_zero(factor: &Expr) -> bool {
    matches!(factor, Expr::Int(0) | Expr::Wide(0) | Expr::Null(_)) || *factor == Expr::Float(0.0)
}

fn is_one(factor: &Expr) -> bool {
    matches!(factor, Expr::Int(1) | Expr::Wide(1)) || *factor == Expr::Float(1.0)
}

fn expand(expr: &Expr, region: &Region<'_>, vars: &Variables) -> Vec<Product> {
    let whole = || vec![Product { sign: 1, factors: vec![expr.clone()] }];
    if !region.touches(expr) || region.holds(expr) {
        return whole();
    }
    match expr {
        Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), _, a, b) => {
            let sign = if *op == BinaryOp::Sub { -1 } else { 1 };
            let mut sum = guarded(a, b, 1, region, vars);
            sum.extend(guarded(b, a, sign, region, vars));
            sum
        }
        Expr::Binary(BinaryOp::Mul, _, a, b) => {
            let (left, right) = (expand(a, region, vars), expand(b, region, vars));
            left.iter().flat_map(|l| right.iter().map(|r| l.times(r))).collect()
        }
        Expr::Neg(_, a) => {
            let mut negated = expand(a, region, vars);
            negated.iter_mut().for_each(|product| product.sign = -product.sign);
            negated
        }
        Expr::Cast { from, to, value } if *from == Type::Int || *to == Type::Float => {
            let mut all = expand(value, region, vars);
            for factor in all.iter_mut().flat_map(|product| &mut product.factors) {
                let ty = vars.type_of(factor);
                *factor = cast(factor.clone(), ty, *to);
            }
            all
        }
        Expr::Rescale { ty, by, value } if *by > 0 => {
            let Some(power) = power_of_ten(*ty, *by) else { return whole() };
            let mut all = expand(value, region, vars);
            all.iter_mut().for_each(|product| product.factors.push(power.clone()));
            all
        }
        Expr::Case { when, otherwise, .. } => {
            let simple = |e: &Expr| !region.touches(e) || region.holds(e);
            if !operands(expr).into_iter().all(simple) {
                return whole();
            }
            expand_case(when, otherwise)
        }
        _ => whole(),
    }
}

fn power_of_ten(ty: Type, by: i8) -> Option<Expr> {
    let power = decimal::power_of_ten(u32::try_from(by).ok()?)?;
    match ty {
        Type::Int => i64::try_from(power).ok().map(Expr::Int),
        Type::Wide => Some(Expr::Wide(power)),
        Type::Float => None,
    }
}

/// `[c]·a + b − [c]·b`, for every condition.
fn expand_case(when: &[(Expr, Expr)], otherwise: &Expr) -> Vec<Product> {
    let Some(((condition, value), rest)) = when.split_first() else {
        return vec![Product { sign: 1, factors: vec![otherwise.clone()] }];
    };
    let holds = fold(Expr::Case {
        ty: Type::Int,
        when: vec![(condition.clone(), Expr::Int(1))],
        otherwise: Box::new(Expr::Int(0)),
    });
    let mut all = vec![Product { sign: 1, factors: vec![holds.clone(), value.clone()] }];
    for product in expand_case(rest, otherwise) {
        let mut taken = product.clone();
        taken.sign = -taken.sign;
        taken.factors.push(holds.clone());
        all.push(product);
        all.push(taken);
    }
    all
}

/// Products of `expr`, where `other` is not NULL.
fn guarded(
    expr: &Expr,
    other: &Expr,
    sign: i64,
    region: &Region<'_>,
    vars: &Variables,
) -> Vec<Product> {
    let guard = Product { sign, factors: presence(other, vars) };
    expand(expr, region, vars).iter().map(|product| product.times(&guard)).collect()
}

/// Factors whose product is 1 if an expression is not NULL, else 0.
pub fn presence(expr: &Expr, vars: &Variables) -> Vec<Expr> {
    if !vars.nullable(expr) {
        return Vec::new();
    }
    if strict(expr) {
        let nullable = variables(expr).into_iter().filter(|var| vars.get(*var).nullable);
        return nullable.map(|var| not(is_null(vars.get(var).ty, Expr::Reg(var)))).collect();
    }
    vec![not(is_null(vars.type_of(expr), expr.clone()))]
}

/// The product of factors in a type; of no factors, one.
pub fn product(factors: &[Expr], ty: Type, vars: &Variables) -> Expr {
    // Integers first, so that counts are multiplied before they are widened.
    let (small, large): (Vec<&Expr>, Vec<&Expr>) =
        factors.iter().partition(|f| vars.type_of(f) == Type::Int);
    let multiply = |ty: Type, a: Expr, b: Expr| crate::expression::binary(BinaryOp::Mul, ty, a, b);
    let small = small.into_iter().cloned().reduce(|a, b| multiply(Type::Int, a, b));
    let large = large.into_iter().cloned().map(|f| {
        let from = vars.type_of(&f);
        cast(f, from, ty)
    });
    let large = large.reduce(|a, b| multiply(ty, a, b));
    match (small, large) {
        (None, None) => unit(ty, 1),
        (Some(small), None) => cast(small, Type::Int, ty),
        (None, Some(large)) => large,
        (Some(small), Some(large)) => multiply(ty, cast(small, Type::Int, ty), large),
    }
}
