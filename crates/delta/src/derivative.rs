//! Delta rules: how a term changes when one tuple is added to a relation.
//!
//! For the event ±R(t): Δ(a·b) = Δa·b + a·Δb + Δa·Δb, ΔR(x) = ±[x = t], Δ of conditions, values and
//! other relations is zero, Δ Sum q = Sum Δq [koch2014, §3.4]. The delta of a product of atoms is
//! therefore a sum over the non-empty subsets of the atoms of R: the atoms of the subset become the
//! event, the other atoms stay as they were before it. Each delta has fewer atoms than its term, so
//! taking deltas of deltas ends.

use std::collections::HashMap;

use halcyon_view::program::Expr;

use crate::calculus::{Atom, RelationIndex, Term, Var, Variables};
use crate::expression::null_safe_eq;

/// The most atoms of one relation in one term: the number of deltas is exponential in it.
pub const OCCURRENCES_MAX: usize = 5;

/// One summand of the delta of a term.
#[derive(Clone, Debug)]
pub struct Delta {
    /// The term with the event's variables in place of the atoms that became the event.
    pub term: Term,
    /// Number of atoms that became the event: the power of the event's weight.
    pub power: u32,
}

/// The delta of a term for an event of `relation` whose columns are the variables `event`.
pub fn delta(term: &Term, relation: RelationIndex, event: &[Var], vars: &Variables) -> Vec<Delta> {
    let of_relation = |(at, atom): (usize, &Atom)| (atom.relation == relation).then_some(at);
    let places: Vec<usize> = term.atoms.iter().enumerate().filter_map(of_relation).collect();
    (1_u32..1 << places.len())
        .map(|set| {
            let chosen = places.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
            let chosen: Vec<usize> = chosen.map(|(_, place)| *place).collect();
            Delta { term: bind(term, &chosen, event, vars), power: set.count_ones() }
        })
        .collect()
}

/// The term with some of its atoms bound to the event.
fn bind(term: &Term, places: &[usize], event: &[Var], vars: &Variables) -> Term {
    let mut by: HashMap<Var, Expr> = HashMap::new();
    let mut equal = Vec::new();
    for place in places {
        for (var, column) in term.atoms[*place].vars.iter().zip(event) {
            match by.get(var) {
                Some(Expr::Reg(other)) if other == column => {}
                Some(other) => {
                    let ty = vars.get(*var).ty;
                    equal.push(null_safe_eq(ty, other.clone(), Expr::Reg(*column)));
                }
                None => {
                    by.insert(*var, Expr::Reg(*column));
                }
            }
        }
    }
    let mut bound = term.clone().substitute(&by);
    bound.conditions.extend(equal);
    let mut place = 0;
    bound.atoms.retain(|_| {
        place += 1;
        !places.contains(&(place - 1))
    });
    for var in bound.atoms.iter_mut().flat_map(|atom| &mut atom.vars) {
        if let Some(Expr::Reg(column)) = by.get(var) {
            *var = *column;
        }
    }
    bound
}
