//! Values as sums of products, so that each factor can be summed where its variables are.
//!
//! Sum(a.volume − b.volume) over a join of a and b is Sum_a(volume)·Sum_b(1) −
//! Sum_a(1)·Sum_b(volume) [koch2014, §5.1: polynomial expansion]. A product with a NULL factor adds
//! nothing, as in SQL. A sum with a NULL summand is NULL, so its other summands must not count
//! either: each gets a factor that says whether the others are not NULL.

use halcyon_value::decimal;
use halcyon_view::program::{BinaryOp, Expr, Type};
use std::collections::{BTreeSet, HashMap};

use crate::calculus::{Var, Variables};
use crate::expression::{binary, cast, fold, is_null, mentions, not, strict, variables, within};

use super::unit;

/// The most products that one value is expanded into. More products would make a statement of as
/// many summands for each relation; from there on it is cheaper to compute a factor entry by entry.
const PRODUCTS_MAX: usize = 40;

/// A product: sign · ∏ factors. Factors may have any type. Products that occur several times have a
/// sign other than ±1.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    pub sign: i64,
    pub factors: Vec<Expr>,
}

impl Product {
    fn of(factor: Expr) -> Product {
        Product { sign: 1, factors: vec![factor] }
    }

    fn times(&self, other: &Product) -> Product {
        let mut factors = self.factors.clone();
        for factor in &other.factors {
            if !(is_indicator(factor) && factors.contains(factor)) {
                factors.push(factor.clone());
            }
        }
        Product { sign: self.sign * other.sign, factors }
    }

    /// A form that products of the same factors share, whatever their order and sign.
    fn form(&self) -> Vec<String> {
        let mut form: Vec<String> = self.factors.iter().map(|f| format!("{f:?}")).collect();
        form.sort_unstable();
        form
    }
}

/// Whether a factor is 0 or 1, so that its square is the factor.
fn is_indicator(factor: &Expr) -> bool {
    match factor {
        Expr::Not(inner) => matches!(**inner, Expr::IsNull(..)),
        Expr::Case { when, otherwise, .. } => {
            **otherwise == Expr::Int(0) && when.iter().all(|(_, value)| *value == Expr::Int(1))
        }
        _ => false,
    }
}

/// The variables of a component: those that its atoms bind, and which of these the statement does
/// not know yet.
pub struct Region<'a> {
    pub all: &'a BTreeSet<Var>,
    pub unbound: &'a BTreeSet<Var>,
}

impl Region<'_> {
    /// Whether an expression is over the component's variables alone, some of them unknown.
    pub fn holds(&self, expr: &Expr) -> bool {
        self.touches(expr) && within(expr, self.all)
    }

    /// Whether an expression can be a factor as it stands: over the component's variables alone, or
    /// without unknown ones.
    pub fn is_simple(&self, expr: &Expr) -> bool {
        !self.touches(expr) || self.holds(expr)
    }

    /// Whether an expression needs unknown variables of the component.
    pub fn touches(&self, expr: &Expr) -> bool {
        mentions(expr, self.unbound)
    }
}

/// Expands the factors of products until each factor is inside the component, outside it, or cannot
/// be expanded.
pub fn refine(products: &[Product], region: &Region<'_>, vars: &Variables) -> Vec<Product> {
    let mut refined: Vec<Product> = Vec::new();
    for product in products {
        let mut all = vec![Product { sign: product.sign, factors: Vec::new() }];
        for factor in &product.factors {
            let mut parts = expand(factor, region, vars);
            if refined.len() + all.len() * parts.len() > PRODUCTS_MAX {
                parts = vec![Product::of(factor.clone())];
            }
            all = all.iter().flat_map(|a| parts.iter().map(|b| a.times(b))).collect();
            all = merged(all);
        }
        refined.extend(all);
    }
    refined.retain(|product| !product.factors.iter().any(is_zero));
    for product in &mut refined {
        product.factors.retain(|factor| !is_one(factor));
    }
    merged(refined)
}

/// Adds up products of the same factors.
fn merged(products: Vec<Product>) -> Vec<Product> {
    if products.len() < 2 {
        return products;
    }
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    let mut kept: Vec<Product> = Vec::new();
    for product in products {
        let place = *places.entry(product.form()).or_insert(kept.len());
        match kept.get_mut(place) {
            Some(known) => known.sign += product.sign,
            None => kept.push(product),
        }
    }
    kept.retain(|product| product.sign != 0);
    kept
}

/// Whether a factor makes its product add nothing.
pub fn is_zero(factor: &Expr) -> bool {
    matches!(factor, Expr::Int(0) | Expr::Wide(0) | Expr::Null(_)) || *factor == Expr::Float(0.0)
}

fn is_one(factor: &Expr) -> bool {
    matches!(factor, Expr::Int(1) | Expr::Wide(1)) || *factor == Expr::Float(1.0)
}

fn expand(expr: &Expr, region: &Region<'_>, vars: &Variables) -> Vec<Product> {
    let whole = || vec![Product::of(expr.clone())];
    if region.is_simple(expr) {
        return whole();
    }
    match expr {
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ty, ..) | Expr::Neg(ty, _) => {
            expand_sum(expr, *ty, region, vars)
        }
        Expr::Binary(BinaryOp::Mul, _, a, b) => {
            let (left, right) = (expand(a, region, vars), expand(b, region, vars));
            if left.len() * right.len() > PRODUCTS_MAX {
                return whole();
            }
            merged(left.iter().flat_map(|l| right.iter().map(|r| l.times(r))).collect())
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
            expand_case(when, otherwise, region, vars).unwrap_or_else(whole)
        }
        _ => whole(),
    }
}

/// Expands a sum by where its summands' variables are: the summands inside the component stay one
/// factor, and so do those outside. Each of the two counts only where the other summands are not
/// NULL.
fn expand_sum(expr: &Expr, ty: Type, region: &Region<'_>, vars: &Variables) -> Vec<Product> {
    let mut all = Vec::new();
    operands_of_sum(expr, ty, 1, &mut all);
    let (simple, mixed): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, summand)| region.is_simple(summand));
    let (inside, outside): (Vec<_>, Vec<_>) =
        simple.into_iter().partition(|(_, summand)| region.touches(summand));
    let parts: Vec<(i64, Expr)> =
        [joined(inside, ty), joined(outside, ty)].into_iter().flatten().chain(mixed).collect();
    let mut products = Vec::new();
    for (at, (sign, part)) in parts.iter().enumerate() {
        let mut guard = Product { sign: *sign, factors: Vec::new() };
        for (_, other) in parts[..at].iter().chain(&parts[at + 1..]) {
            guard = guard.times(&Product { sign: 1, factors: presence(other, vars) });
        }
        products.extend(expand(part, region, vars).iter().map(|product| product.times(&guard)));
    }
    products
}

/// The operands of sums, differences and negations of one type, with their signs.
fn operands_of_sum(expr: &Expr, ty: Type, sign: i64, into: &mut Vec<(i64, Expr)>) {
    match expr {
        Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), own, a, b) if *own == ty => {
            operands_of_sum(a, ty, sign, into);
            operands_of_sum(b, ty, if *op == BinaryOp::Sub { -sign } else { sign }, into);
        }
        Expr::Neg(own, a) if *own == ty => operands_of_sum(a, ty, -sign, into),
        other => into.push((sign, other.clone())),
    }
}

/// The sum of summands as one expression, with its sign; `None` for no summands.
fn joined(summands: Vec<(i64, Expr)>, ty: Type) -> Option<(i64, Expr)> {
    let mut summands = summands.into_iter();
    let (first, mut sum) = summands.next()?;
    for (sign, summand) in summands {
        let op = if sign == first { BinaryOp::Add } else { BinaryOp::Sub };
        sum = binary(op, ty, sum, summand);
    }
    Some((first, sum))
}

fn power_of_ten(ty: Type, by: i8) -> Option<Expr> {
    let power = decimal::power_of_ten(u32::try_from(by).ok()?)?;
    match ty {
        Type::Int => i64::try_from(power).ok().map(Expr::Int),
        Type::Wide => Some(Expr::Wide(power)),
        Type::Float => None,
    }
}

/// `[c]·a + b − [c]·b`, for every condition; `None` if a condition cannot be expanded.
fn expand_case(
    when: &[(Expr, Expr)],
    otherwise: &Expr,
    region: &Region<'_>,
    vars: &Variables,
) -> Option<Vec<Product>> {
    let Some(((condition, value), rest)) = when.split_first() else {
        return Some(expand(otherwise, region, vars));
    };
    let holds = Product { sign: 1, factors: indicators(condition, region, vars)? };
    let values = expand(value, region, vars);
    let mut all: Vec<Product> = values.iter().map(|value| holds.times(value)).collect();
    for product in expand_case(rest, otherwise, region, vars)? {
        let mut taken = holds.times(&product);
        taken.sign = -taken.sign;
        all.push(product);
        all.push(taken);
    }
    all.retain(|product| !product.factors.iter().any(is_zero));
    (all.len() <= PRODUCTS_MAX).then_some(all)
}

/// Factors, each inside the component or outside, whose product is 1 where a condition is true and
/// 0 elsewhere.
fn indicators(condition: &Expr, region: &Region<'_>, vars: &Variables) -> Option<Vec<Expr>> {
    if region.is_simple(condition) {
        return Some(vec![fold(Expr::Case {
            ty: Type::Int,
            when: vec![(condition.clone(), Expr::Int(1))],
            otherwise: Box::new(Expr::Int(0)),
        })]);
    }
    match condition {
        Expr::And(all) => {
            let each = all.iter().map(|one| indicators(one, region, vars));
            Some(each.collect::<Option<Vec<_>>>()?.concat())
        }
        Expr::Not(inner) => match &**inner {
            Expr::IsNull(_, value) if strict(value) => Some(presence(value, vars)),
            _ => None,
        },
        _ => None,
    }
}

/// Factors whose product is 1 if an expression is not NULL, and 0 otherwise.
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

/// The product of factors, in a type; 1 for no factors.
pub fn product(factors: &[Expr], ty: Type, vars: &Variables) -> Expr {
    // Integers are multiplied first, so that counts are multiplied before they are widened.
    let (small, large): (Vec<&Expr>, Vec<&Expr>) =
        factors.iter().partition(|f| vars.type_of(f) == Type::Int);
    let multiply = |ty: Type, a: Expr, b: Expr| binary(BinaryOp::Mul, ty, a, b);
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
