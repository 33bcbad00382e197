//! Planning one statement: a delta whose event is known becomes look-ups in maps.
//!
//! The rest of the delta falls into components: atoms that share variables which the event does not
//! give. A component becomes a map. The map's key has the values that the statement knows (to look
//! up), those that it needs afterwards (to go on with), and at most one column that is bounded by a
//! range; the payload has the factors of the values that lie within the component. The cheapest
//! access comes first: a look-up under a whole key, a sum over a range, a slice, everything.
//!
//! A component is split if it would combine rows that only the event relates: if the known
//! variables do not all follow from the row of one of its atoms, its map would have an entry per
//! pair. Then one atom, preferably one with a known unique key, is looked up alone, and the rest is
//! planned again. A total that every event changes is looked up alone, too, since a map of it and
//! other atoms would change as a whole.

use std::collections::{BTreeSet, HashMap};

use halcyon_view::program::{
    BinaryOp, Bound, CompareOp, Component, Expr, MapId, Reg, SliceId, Step, Type,
};

use super::factors::{Product, Region, is_zero, product, refine};
use super::{helper, unit};
use crate::calculus::{Atom, RelationIndex, Term, Var};
use crate::derivative::Delta;
use crate::expression::{
    collect_variables, compare, conjuncts, is_null, mentions, never_true, not, nullable,
    substitute, variables, within,
};
use crate::parts::{Parts, Statement};
use crate::simplify::isolate;

/// Plans the statement that adds a delta to a map; `None` if the delta is zero.
pub fn statement(
    parts: &mut Parts,
    target: usize,
    relation: RelationIndex,
    delta: Delta,
) -> Option<Statement> {
    let comment = parts.show(&delta.term);
    let event = &parts.relations[relation];
    let weight = event.weight;
    let known: BTreeSet<Var> = event.event.iter().copied().chain([weight]).collect();
    let Delta { term, power } = delta;
    let whole = |value: &Expr| match is_zero(value) {
        true => Vec::new(),
        false => vec![Product { sign: term.weight, factors: vec![value.clone()] }],
    };
    let mut plan = Plan {
        sums: term.values.iter().map(whole).collect(),
        known,
        atoms: term.atoms,
        conditions: term.conditions.into_iter().flat_map(conjuncts).collect(),
        keys: term.keys,
        steps: Vec::new(),
        parts,
    };
    loop {
        if !plan.settle_conditions() || plan.sums.iter().all(Vec::is_empty) {
            return None;
        }
        if plan.atoms.is_empty() {
            break;
        }
        let accesses = plan.components().into_iter().map(|members| plan.prepare(members));
        let accesses: Vec<Access> = accesses.collect();
        let cheapest = accesses.into_iter().min_by_key(|access| access.cost)?;
        plan.commit(cheapest);
    }
    assert!(plan.conditions.is_empty(), "atoms bind all variables of a map's terms");
    let Plan { steps, keys, sums, parts, .. } = plan;
    let payload = parts.maps[target].payload.clone();
    let times = vec![Expr::Reg(weight); power as usize];
    let add = sums.iter().zip(payload).map(|(sum, c)| total(parts, sum, &times, c.ty())).collect();
    Some(Statement { relation, target, steps, key: keys, add, comment })
}

/// The values of a term without keys, as products of sums over its unrelated parts: look-ups, and a
/// value per component of `payload`. `None` if all atoms are connected.
pub fn product_of_parts(
    parts: &mut Parts,
    term: &Term,
    payload: &[Component],
) -> Option<(Vec<Step>, Vec<Expr>)> {
    let whole = |value: &Expr| match is_zero(value) {
        true => Vec::new(),
        false => vec![Product { sign: term.weight, factors: vec![value.clone()] }],
    };
    let mut plan = Plan {
        sums: term.values.iter().map(whole).collect(),
        known: BTreeSet::new(),
        atoms: term.atoms.clone(),
        conditions: term.conditions.clone(),
        keys: Vec::new(),
        steps: Vec::new(),
        parts,
    };
    let before = plan.parts.clone();
    let totals = plan.look_up_totals();
    let mut is_apart = totals > 0 || plan.components().len() > 1;
    while let (true, Some(members)) = (is_apart, plan.components().into_iter().next()) {
        let access = plan.prepare(members);
        // Rows are computed without loops.
        is_apart = access.outs.is_empty() && access.not_null.is_empty();
        plan.commit(access);
    }
    let Plan { steps, sums, parts, conditions, .. } = plan;
    if !is_apart || !conditions.is_empty() {
        *parts = before;
        return None;
    }
    // A part that is zero saves no work here, so the tests for it go.
    let steps = steps.into_iter().filter(|step| !matches!(step, Step::If(_))).collect();
    let values = sums.iter().zip(payload).map(|(sum, c)| total(parts, sum, &[], c.ty()));
    Some((steps, values.collect()))
}

/// Σ sign · weights · ∏ factors. A NULL product adds nothing and must not make the others NULL.
fn total(parts: &Parts, products: &[Product], weights: &[Expr], ty: Type) -> Expr {
    let mut sum: Option<Expr> = None;
    for one in products {
        let mut factors = weights.to_vec();
        if one.sign.abs() != 1 {
            factors.push(Expr::Int(one.sign.abs()));
        }
        factors.extend(one.factors.iter().cloned());
        let mut value = product(&factors, ty, &parts.vars);
        if products.len() > 1 && parts.vars.nullable(&value) {
            value = Expr::Coalesce(ty, vec![value, unit(ty, 0)]);
        }
        let op = if one.sign < 0 { BinaryOp::Sub } else { BinaryOp::Add };
        sum = Some(match sum {
            None if one.sign < 0 => Expr::Neg(ty, Box::new(value)),
            None => value,
            Some(sum) => Expr::Binary(op, ty, Box::new(sum), Box::new(value)),
        });
    }
    sum.unwrap_or_else(|| unit(ty, 0))
}

/// The ways to access a component, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    Get,
    Range,
    Slice,
    RangePerEntry,
    All,
}

struct Plan<'p> {
    parts: &'p mut Parts,
    /// Variables that have values at this point.
    known: BTreeSet<Var>,
    atoms: Vec<Atom>,
    conditions: Vec<Expr>,
    keys: Vec<Expr>,
    sums: Vec<Vec<Product>>,
    steps: Vec<Step>,
}

struct Range {
    key: Expr,
    low: Bound,
    high: Bound,
}

/// A component and one way to access it, with the rest of the statement as it would be afterwards.
struct Access {
    cost: Cost,
    members: Vec<usize>,
    inner: Vec<Expr>,
    /// Key columns whose values are known.
    given: Vec<(Expr, Expr)>,
    /// Values that must not be NULL, or they equal nothing.
    not_null: Vec<Expr>,
    /// Key columns that are enumerated.
    outs: Vec<(Expr, Var)>,
    range: Option<Range>,
    /// Whether at most one row has the given key, so that values that would be enumerated can be
    /// payload.
    single: bool,
    payload: Vec<(Expr, Var)>,
    conditions: Vec<Expr>,
    keys: Vec<Expr>,
    sums: Vec<Vec<Product>>,
}

impl Plan<'_> {
    /// Turns conditions over known variables into steps. False: no binding passes.
    fn settle_conditions(&mut self) -> bool {
        let (ready, rest): (Vec<Expr>, Vec<Expr>) =
            self.conditions.drain(..).partition(|c| within(c, &self.known));
        self.conditions = rest;
        for condition in ready {
            if never_true(&condition) {
                return false;
            }
            if condition != Expr::Int(1) {
                self.steps.push(Step::If(condition));
            }
        }
        true
    }

    fn unknown(&self, atom: &Atom) -> BTreeSet<Var> {
        atom.vars.iter().copied().filter(|var| !self.known.contains(var)).collect()
    }

    /// Groups of atoms that are looked up together.
    fn components(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Vec<usize>, BTreeSet<Var>)> = Vec::new();
        let mut join = |members: Vec<usize>, vars: BTreeSet<Var>| {
            let (mut members, mut vars) = (members, vars);
            let mut at = 0;
            while at < groups.len() {
                if groups[at].1.is_disjoint(&vars) {
                    at += 1;
                    continue;
                }
                let (other, more) = groups.swap_remove(at);
                members.extend(other);
                vars.extend(more);
                at = 0;
            }
            groups.push((members, vars));
        };
        for (index, atom) in self.atoms.iter().enumerate() {
            join(vec![index], self.unknown(atom));
        }
        for condition in &self.conditions {
            let used = variables(condition);
            // A condition that mentions a known variable is tested by the statement, so it connects
            // no atoms.
            if used.is_disjoint(&self.known) {
                join(Vec::new(), used);
            }
        }
        groups.retain(|(members, _)| !members.is_empty());
        let mut components: Vec<Vec<usize>> = groups
            .into_iter()
            .map(|(mut members, _)| {
                members.sort_unstable();
                self.coherent(members)
            })
            .collect();
        components.sort();
        components
    }

    /// The component itself, or one atom of it that is to be looked up alone.
    fn coherent(&self, members: Vec<usize>) -> Vec<usize> {
        let bound: BTreeSet<Var> = members
            .iter()
            .flat_map(|at| self.atoms[*at].vars.iter().copied())
            .filter(|var| self.known.contains(var))
            .collect();
        if let Some(total) = self.restless(&members, &bound) {
            return vec![total];
        }
        let has_anchor = |at: &usize| {
            let start = self.atoms[*at].vars.iter().copied().collect();
            self.determined(start, &members).is_superset(&bound)
        };
        if members.len() < 2 || bound.is_empty() || members.iter().any(has_anchor) {
            return members;
        }
        let known_of = |at: usize| {
            let atom = &self.atoms[at];
            atom.vars.iter().filter(|var| self.known.contains(var)).count()
        };
        let by_key = |at: usize| self.has_key(&self.atoms[at], &self.known);
        let best =
            members.iter().copied().max_by_key(|at| (by_key(*at), known_of(*at), usize::MAX - at));
        vec![best.expect("a component has atoms")]
    }

    /// A total among the members, if a map of all members would have many entries that change with
    /// the total.
    fn restless(&self, members: &[usize], bound: &BTreeSet<Var>) -> Option<usize> {
        let is_total = |at: &usize| self.parts.relations[self.atoms[*at].relation].restless;
        let total = members.iter().copied().find(is_total)?;
        let others = members.iter().filter(|at| **at != total);
        let mut unknown = others.flat_map(|at| self.unknown(&self.atoms[*at])).peekable();
        unknown.peek()?;
        let unknown: BTreeSet<Var> = unknown.collect();
        let many = !bound.is_empty() || self.keys.iter().any(|key| mentions(key, &unknown));
        many.then_some(total)
    }

    /// Replaces the atoms of totals by look-ups of the totals at the time when the steps run; for a
    /// view's row, which is computed when it is read. Returns how many totals there were.
    fn look_up_totals(&mut self) -> usize {
        let mut count = 0;
        let mut at = 0;
        while at < self.atoms.len() {
            let relation = &self.parts.relations[self.atoms[at].relation];
            let one_row = relation.unique.iter().any(Vec::is_empty);
            let derived = match &relation.derived {
                Some(derived) if one_row => derived.clone(),
                _ => {
                    at += 1;
                    continue;
                }
            };
            let atom = self.atoms.remove(at);
            count += 1;
            let mut payload = Vec::new();
            let components = self.parts.maps[derived.map].payload.clone();
            let types = components.iter().map(|component| component.ty());
            let by: Vec<Var> = types
                .chain(derived.step_registers.iter().copied())
                .map(|ty| self.parts.vars.fresh("total", ty, true))
                .collect();
            payload.extend((0..components.len() as u16).zip(by.iter().copied()));
            let map = MapId(derived.map as u16);
            self.steps.push(Step::Get { map, key: Vec::new(), payload });
            let named: HashMap<Var, Expr> =
                (0..).map(Reg).zip(by.iter().map(|var| Expr::Reg(*var))).collect();
            let read = |expr: &Expr| substitute(expr.clone(), &named);
            for step in &derived.steps {
                let set = &mut |reg: Reg| by[usize::from(reg.0)];
                self.steps.push(step.rewritten(&mut |expr| read(expr), set));
            }
            for (var, value) in atom.vars.iter().zip(&derived.row) {
                self.steps.push(Step::Let { reg: *var, value: read(value) });
            }
            let by = named;
            self.known.extend(atom.vars);
            self.multiply(&substitute(derived.exists, &by));
        }
        let (ready, rest): (Vec<Expr>, Vec<Expr>) =
            self.conditions.drain(..).partition(|c| within(c, &self.known));
        self.conditions = rest;
        ready.iter().for_each(|condition| self.multiply(condition));
        count
    }

    /// Multiplies all sums by 1 where a condition holds and 0 elsewhere.
    fn multiply(&mut self, condition: &Expr) {
        let holds = Expr::Case {
            ty: Type::Int,
            when: vec![(condition.clone(), Expr::Int(1))],
            otherwise: Box::new(Expr::Int(0)),
        };
        for product in self.sums.iter_mut().flatten() {
            product.factors.push(holds.clone());
        }
    }

    /// Whether a unique key of the atom's relation is among the variables.
    fn has_key(&self, atom: &Atom, vars: &BTreeSet<Var>) -> bool {
        let unique = &self.parts.relations[atom.relation].unique;
        unique.iter().any(|key| key.iter().all(|column| vars.contains(&atom.vars[*column])))
    }

    /// The variables whose values follow from those of `start` by unique keys of the members.
    fn determined(&self, start: BTreeSet<Var>, members: &[usize]) -> BTreeSet<Var> {
        let mut found = start;
        loop {
            let before = found.len();
            for at in members {
                if self.has_key(&self.atoms[*at], &found) {
                    found.extend(self.atoms[*at].vars.iter().copied());
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    fn prepare(&mut self, members: Vec<usize>) -> Access {
        let all: BTreeSet<Var> =
            members.iter().flat_map(|at| self.atoms[*at].vars.iter().copied()).collect();
        let unbound: BTreeSet<Var> = all.difference(&self.known).copied().collect();
        let region = Region { all: &all, unbound: &unbound };
        let others = (0..self.atoms.len()).filter(|at| !members.contains(at));
        let shared: BTreeSet<Var> = others
            .flat_map(|at| self.atoms[at].vars.iter().copied())
            .filter(|var| unbound.contains(var))
            .collect();
        let mut outs: Vec<(Expr, Var)> =
            shared.into_iter().map(|var| (Expr::Reg(var), var)).collect();

        let known_inside = all.intersection(&self.known);
        let mut given: Vec<(Expr, Expr)> =
            known_inside.map(|var| (Expr::Reg(*var), Expr::Reg(*var))).collect();
        let mut not_null = Vec::new();
        let (mut inner, mut outer, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for condition in &self.conditions {
            if !region.touches(condition) {
                outer.push(condition.clone());
            } else if region.holds(condition) {
                inner.push(condition.clone());
            } else {
                match isolate(condition, &unbound, &self.known) {
                    Some((key, CompareOp::Eq, ty, value)) => {
                        if self.parts.vars.nullable(&value) {
                            not_null.push(not(is_null(ty, value.clone())));
                        }
                        given.push((key, value));
                    }
                    Some((key, op, _, value)) if op != CompareOp::Ne => {
                        ranges.push((key, op, value, condition.clone()));
                    }
                    _ => outer.push(condition.clone()),
                }
            }
        }

        let one_row = self.one_row(&members, &given);
        if one_row {
            // There is nothing to sum over a range.
            outer.extend(ranges.drain(..).map(|(.., condition)| condition));
        }
        let sums: Vec<Vec<Product>> =
            self.sums.iter().map(|sum| refine(sum, &region, &self.parts.vars)).collect();
        let mut needs = Needs { region: &region, outs: &mut outs, parts: &mut *self.parts };
        let outer: Vec<Expr> = outer.iter().map(|c| needs.expose(c)).collect();
        let sums = needs.mixed_factors(sums);
        let for_values = needs.outs.len();
        let keys: Vec<Expr> = self.keys.iter().map(|key| needs.expose(key)).collect();
        let (range, late) = choose_range(ranges, &mut needs, for_values);
        let mut conditions = outer;
        conditions.extend(late);
        let (payload, sums) = needs.payload(sums);
        // The sum over one row is its value, if a sum can hold it exactly.
        let exact = outs.iter().all(|(_, out)| self.parts.vars.get(*out).ty != Type::Float);
        let single = one_row && !outs.is_empty() && exact;
        let cost = match (&range, outs.is_empty(), given.is_empty()) {
            _ if single => Cost::Get,
            (_, false, _) if one_row => Cost::Range,
            (None, true, _) => Cost::Get,
            (Some(_), true, _) => Cost::Range,
            (Some(_), false, _) => Cost::RangePerEntry,
            (None, false, false) => Cost::Slice,
            (None, false, true) => Cost::All,
        };
        Access {
            cost,
            members,
            inner,
            given,
            not_null,
            outs,
            range,
            single,
            payload,
            conditions,
            keys,
            sums,
        }
    }

    /// Whether unique keys leave at most one row of the members for the given values.
    fn one_row(&self, members: &[usize], given: &[(Expr, Expr)]) -> bool {
        let start = given.iter().filter_map(|(key, _)| match key {
            Expr::Reg(var) => Some(*var),
            _ => None,
        });
        let found = self.determined(start.collect(), members);
        members.iter().all(|at| self.has_key(&self.atoms[*at], &found))
    }

    /// Adds steps that look up the only row with a key.
    fn look_up_row(&mut self, term: Term, given: Vec<Expr>, outs: &[(Expr, Var)], sums: &[Var]) {
        let mut term = term;
        let mut set = sums.to_vec();
        let mut later = Vec::new();
        // A variable that is not NULL because of a join may be NULL in this part of the join alone.
        let mut columns = BTreeSet::new();
        for atom in &term.atoms {
            let own = &self.parts.relations[atom.relation].columns;
            columns.extend(atom.vars.iter().zip(own).filter(|(_, c)| c.nullable).map(|(v, _)| *v));
        }
        let vars = &mut self.parts.vars;
        let count = match term.values.iter().position(|value| *value == Expr::Int(1)) {
            Some(at) => sums[at],
            None => {
                term.values.push(Expr::Int(1));
                set.push(vars.fresh("rows", Type::Int, false));
                set[set.len() - 1]
            }
        };
        for (expr, out) in outs {
            let ty = vars.get(*out).ty;
            term.values.push(expr.clone());
            if !nullable(expr, &|var| columns.contains(&var)) {
                set.push(*out);
                continue;
            }
            let present = not(is_null(ty, expr.clone()));
            term.values.push(Expr::Case {
                ty: Type::Int,
                when: vec![(present, Expr::Int(1))],
                otherwise: Box::new(Expr::Int(0)),
            });
            let value = vars.fresh("value", ty, false);
            let present = vars.fresh("present", Type::Int, false);
            set.extend([value, present]);
            let absent = compare(CompareOp::Eq, Type::Int, Expr::Reg(present), Expr::Int(0));
            let when = vec![(absent, Expr::Null(ty))];
            let otherwise = Box::new(Expr::Reg(value));
            later.push(Step::Let { reg: *out, value: Expr::Case { ty, when, otherwise } });
        }
        self.look_up(&term, given, &[], &set);
        let there = compare(CompareOp::Ne, Type::Int, Expr::Reg(count), Expr::Int(0));
        self.steps.push(Step::If(there));
        self.steps.extend(later);
    }

    fn commit(&mut self, access: Access) {
        let mut place = 0;
        let mut atoms = Vec::new();
        self.atoms.retain(|atom| {
            let taken = access.members.contains(&place);
            place += 1;
            if taken {
                atoms.push(atom.clone());
            }
            !taken
        });
        let (given_keys, given): (Vec<Expr>, Vec<Expr>) = access.given.into_iter().unzip();
        let columns = access.outs.clone();
        let (out_keys, outs): (Vec<Expr>, Vec<Var>) = access.outs.into_iter().unzip();
        let (values, sums): (Vec<Expr>, Vec<Var>) = access.payload.into_iter().unzip();
        let mut keys = given_keys;
        if !access.single {
            keys.extend(out_keys);
        }
        let mut term = Term { weight: 1, atoms, conditions: access.inner, keys, values };
        self.steps.extend(access.not_null.into_iter().map(Step::If));
        match access.range {
            None if access.single => self.look_up_row(term, given, &columns, &sums),
            None => self.look_up(&term, given, &outs, &sums),
            Some(range) => {
                let mut prefix = given.clone();
                if !outs.is_empty() {
                    let entries = Term { values: vec![Expr::Int(1)], ..term.clone() };
                    self.look_up(&entries, given, &outs, &[]);
                    prefix.extend(outs.iter().map(|var| Expr::Reg(*var)));
                }
                term.keys.push(range.key);
                let (map, _, components) = helper(self.parts, &term, true);
                let payload = components.into_iter().zip(sums.iter().copied()).collect();
                let map = MapId(map as u16);
                let (low, high) = (range.low, range.high);
                self.steps.push(Step::RangeSum { map, prefix, low, high, payload });
            }
        }
        self.known.extend(outs);
        self.known.extend(sums.iter().copied());
        if !sums.is_empty() {
            let nonzero = sums.iter().map(|var| {
                let ty = self.parts.vars.get(*var).ty;
                compare(CompareOp::Ne, ty, Expr::Reg(*var), unit(ty, 0))
            });
            let nonzero: Vec<Expr> = nonzero.collect();
            let last = self.steps.last();
            if matches!(last, Some(Step::Get { .. } | Step::RangeSum { .. })) {
                self.steps.push(Step::If(match nonzero.len() {
                    1 => nonzero.into_iter().next().expect("one"),
                    _ => Expr::Or(nonzero),
                }));
            }
        }
        self.conditions = access.conditions;
        self.keys = access.keys;
        self.sums = access.sums;
    }

    /// Adds a look-up by a whole key, or an enumeration by part of the key.
    fn look_up(&mut self, term: &Term, given: Vec<Expr>, outs: &[Var], sums: &[Var]) {
        let (index, columns, components) = helper(self.parts, term, false);
        let map = MapId(index as u16);
        let payload = components.into_iter().zip(sums.iter().copied()).collect();
        let (given_columns, out_columns) = columns.split_at(given.len());
        let mut by_column: Vec<(u16, Expr)> = given_columns.iter().copied().zip(given).collect();
        by_column.sort_by_key(|(column, _)| *column);
        let (slice, prefix): (Vec<u16>, Vec<Expr>) = by_column.into_iter().unzip();
        if outs.is_empty() {
            self.steps.push(Step::Get { map, key: prefix, payload });
            return;
        }
        let key = out_columns.iter().copied().zip(outs.iter().copied()).collect();
        let slice = (!slice.is_empty()).then(|| {
            let slices = &mut self.parts.maps[index].slices;
            let known = slices.iter().position(|own| *own == slice);
            SliceId(known.unwrap_or_else(|| {
                slices.push(slice);
                slices.len() - 1
            }) as u16)
        });
        self.steps.push(Step::Each { map, slice, prefix, key, payload });
    }
}

/// The columns that a statement needs of a component besides sums, while they are being collected.
struct Needs<'n> {
    region: &'n Region<'n>,
    outs: &'n mut Vec<(Expr, Var)>,
    parts: &'n mut Parts,
}

impl Needs<'_> {
    fn is_raw(&self, var: &Var) -> bool {
        self.outs.iter().any(|(expr, out)| out == var && *expr == Expr::Reg(*var))
    }

    /// Whether an expression can be computed from the columns enumerated so far.
    fn computable(&self, expr: &Expr) -> bool {
        let mut used = BTreeSet::new();
        collect_variables(expr, &mut used);
        used.iter().all(|var| !self.region.unbound.contains(var) || self.is_raw(var))
    }

    /// The expression with its parts over the component's variables alone replaced by columns of
    /// the map's key.
    fn expose(&mut self, expr: &Expr) -> Expr {
        if !self.region.touches(expr) || self.computable(expr) {
            return expr.clone();
        }
        if let Expr::Reg(var) = expr {
            self.outs.push((expr.clone(), *var));
            return expr.clone();
        }
        if !self.region.holds(expr) {
            return expr.clone().map_operands(&mut |operand| self.expose(&operand));
        }
        if let Some((_, out)) = self.outs.iter().find(|(own, _)| own == expr) {
            return Expr::Reg(*out);
        }
        let vars = &mut self.parts.vars;
        let (ty, nullable) = (vars.type_of(expr), vars.nullable(expr));
        let out = vars.fresh(vars.name_of(expr), ty, nullable);
        self.outs.push((expr.clone(), out));
        Expr::Reg(out)
    }

    fn mixed_factors(&mut self, sums: Vec<Vec<Product>>) -> Vec<Vec<Product>> {
        let mut sums = sums;
        for factor in sums.iter_mut().flatten().flat_map(|product| &mut product.factors) {
            if self.region.touches(factor) && !self.region.holds(factor) {
                *factor = self.expose(factor);
            }
        }
        sums
    }

    /// Turns the factors inside the component into components of the map's payload.
    fn payload(&mut self, sums: Vec<Vec<Product>>) -> (Vec<(Expr, Var)>, Vec<Vec<Product>>) {
        let mut payload: Vec<(Expr, Var)> = Vec::new();
        let mut sums = sums;
        for one in sums.iter_mut().flatten() {
            let (inside, mut rest): (Vec<Expr>, Vec<Expr>) = one
                .factors
                .drain(..)
                .partition(|factor| self.region.holds(factor) && !self.computable(factor));
            let widest = inside.iter().map(|f| self.parts.vars.type_of(f));
            let ty = widest.max_by_key(|ty| match ty {
                Type::Int => 0,
                Type::Wide => 1,
                Type::Float => 2,
            });
            let ty = ty.unwrap_or(Type::Int);
            let value = product(&inside, ty, &self.parts.vars);
            let known = payload.iter().find(|(own, _)| *own == value).map(|(_, var)| *var);
            let var = known.unwrap_or_else(|| {
                let var = self.parts.vars.fresh("sum", ty, false);
                payload.push((value, var));
                var
            });
            rest.push(Expr::Reg(var));
            one.factors = rest;
        }
        (payload, sums)
    }
}

type RangeCondition = (Expr, CompareOp, Expr, Expr);

/// Chooses the key column that is bounded by a range; conditions on other columns are tested entry
/// by entry. If columns are enumerated, a range pays only if they make no more entries than the
/// groups asked for.
fn choose_range(
    ranges: Vec<RangeCondition>,
    needs: &mut Needs<'_>,
    for_values: usize,
) -> (Option<Range>, Vec<Expr>) {
    let mut late = Vec::new();
    let mut chosen: Option<Range> = None;
    let enumerated = needs.outs.len();
    for (key, op, value, condition) in ranges {
        let possible = !needs.computable(&key)
            && for_values == 0
            && needs.outs.len() == enumerated
            && chosen.as_ref().is_none_or(|range| range.key == key);
        let unused = |bound: &Bound| matches!(bound, Bound::Open);
        let range =
            chosen.get_or_insert(Range { key: key.clone(), low: Bound::Open, high: Bound::Open });
        let bound = match op {
            CompareOp::Lt | CompareOp::Gt => Bound::Excluded(value),
            _ => Bound::Included(value),
        };
        let side = match op {
            CompareOp::Lt | CompareOp::Le => &mut range.high,
            _ => &mut range.low,
        };
        if possible && unused(side) {
            *side = bound;
            continue;
        }
        if unused(&range.low) && unused(&range.high) {
            chosen = None;
        }
        late.push(condition);
    }
    let late: Vec<Expr> = late.iter().map(|condition| needs.expose(condition)).collect();
    // A condition that is tested entry by entry needs the range's column, too.
    if needs.outs.len() > enumerated
        && let Some(range) = chosen.take()
    {
        let mut back = late;
        let ty = needs.parts.vars.type_of(&range.key);
        let key = needs.expose(&range.key);
        for (bound, open, closed) in
            [(range.low, CompareOp::Gt, CompareOp::Ge), (range.high, CompareOp::Lt, CompareOp::Le)]
        {
            match bound {
                Bound::Open => {}
                Bound::Excluded(value) => back.push(compare(open, ty, key.clone(), value)),
                Bound::Included(value) => back.push(compare(closed, ty, key.clone(), value)),
            }
        }
        return (None, back);
    }
    (chosen, late)
}
