//! The viewlet transform: it chooses which maps to keep, so that every delta takes a few look-ups.
//!
//! For every map and every relation in its definition, the transform takes the delta
//! ([`crate::derivative`]). What remains of the delta once the event's variables are bound is
//! materialised itself: each connected component becomes a map (`plan`), which is maintained in the
//! same way [koch2014, §4]. Every such map has fewer atoms, so the process ends, with maps of
//! single relations.
//!
//! A statement reads only maps of lower degree, as they were before the event; so the statements of
//! a trigger are ordered by falling degree of their targets.

mod factors;
mod plan;

use std::collections::{BTreeSet, HashMap};

use halcyon_view::program::{Component, Expr, Reg, Step, Type};

use crate::Facts;
use crate::calculus::{RelationIndex, Term, Var};
use crate::derivative::{OCCURRENCES_MAX, delta};
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::expression::substitute;
use crate::parts::{Derived, Map, Parts, Rank, renamed};

/// The most maps of one view.
pub const MAPS_MAX: usize = 400;
/// The most atoms of one term.
pub const ATOMS_MAX: usize = 24;

/// Makes the statements that maintain all maps, and the further maps that the statements need.
///
/// Errors: the view would need too many maps or statements.
pub fn transform(parts: &mut Parts, facts: &dyn Facts) -> Result<()> {
    let mut done = vec![false; parts.maps.len()];
    loop {
        done.resize(parts.maps.len(), false);
        let open = (0..parts.maps.len()).filter(|map| !done[*map]);
        let Some(next) = open.max_by_key(|map| (parts.maps[*map].degree(), usize::MAX - map))
        else {
            return Ok(());
        };
        done[next] = true;
        maintain(parts, next, facts)?;
    }
}

/// Errors: the view needs too many maps or variables, or its compilation is cancelled.
pub fn within_limits(parts: &Parts, facts: &dyn Facts) -> Result<()> {
    if facts.is_cancelled() {
        return Err(Unsupported::new("a query whose compilation was cancelled"));
    }
    if parts.maps.len() > MAPS_MAX || parts.vars.exhausted() {
        return Err(Unsupported::new("a query of so many joins and subqueries")
            .hint("Split it into several views."));
    }
    Ok(())
}

/// Splits a relation of one row whose sums are products of sums over unrelated parts: the parts'
/// sums are kept, and the products are computed when the row is read. Events of one part then leave
/// the others alone.
///
/// The row is then derived from a count of all events, which notices every change.
pub fn take_apart(parts: &mut Parts, relation: RelationIndex) {
    let Some(derived) = parts.relations[relation].derived.clone() else { return };
    let map = parts.maps[derived.map].clone();
    let ([term], [], []) = (map.terms.as_slice(), map.key.as_slice(), derived.steps.as_slice())
    else {
        return;
    };
    let base = base_relations(parts, derived.map);
    let Some((steps, values)) = plan::product_of_parts(parts, term, &map.payload) else { return };
    let terms: Vec<Term> = base
        .into_iter()
        .map(|relation| {
            let atoms = vec![parts.atom(relation)];
            Term { atoms, values: vec![Expr::Int(1)], ..Term::unit() }
        })
        .collect();
    parts.maps.push(Map {
        name: format!("t{}", parts.maps.len()),
        terms,
        key: Vec::new(),
        payload: vec![Component::Int],
        ordered: false,
        slices: Vec::new(),
        rank: Rank::Everything,
        canonical: None,
    });
    // Register 0 is the count of events.
    let mut registers = Vec::new();
    let mut by: HashMap<Var, Expr> = HashMap::new();
    let mut written = Vec::new();
    for step in &steps {
        let vars = &parts.vars;
        let step = step.rewritten(&mut |expr| expr.clone(), &mut |var| {
            registers.push(vars.get(var).ty);
            let reg = Reg(registers.len() as u16);
            by.insert(var, Expr::Reg(reg));
            reg
        });
        let read = &mut |expr: &Expr| substitute(expr.clone(), &by);
        written.push(step.rewritten(read, &mut |reg| reg));
    }
    let mut components: HashMap<Var, Expr> = HashMap::new();
    for (at, (value, component)) in values.into_iter().zip(&map.payload).enumerate() {
        registers.push(component.ty());
        let reg = Reg(registers.len() as u16);
        written.push(Step::Let { reg, value: substitute(value, &by) });
        components.insert(Reg(at as u16), Expr::Reg(reg));
    }
    parts.relations[relation].derived = Some(Derived {
        map: parts.maps.len() - 1,
        step_registers: registers,
        steps: written,
        exists: substitute(derived.exists, &components),
        row: derived.row.into_iter().map(|value| substitute(value, &components)).collect(),
    });
}

/// The base relations that a map depends on.
fn base_relations(parts: &Parts, map: usize) -> BTreeSet<RelationIndex> {
    let mut found = BTreeSet::new();
    let mut open = vec![map];
    while let Some(map) = open.pop() {
        for atom in parts.maps[map].terms.iter().flat_map(|term| &term.atoms) {
            match &parts.relations[atom.relation].derived {
                None => {
                    found.insert(atom.relation);
                }
                Some(derived) => open.push(derived.map),
            }
        }
    }
    found
}

fn maintain(parts: &mut Parts, map: usize, facts: &dyn Facts) -> Result<()> {
    for term in parts.maps[map].terms.clone() {
        // A condition on a variable that no atom binds could never be tested.
        let mentioned = term.mentioned();
        if !mentioned.is_subset(&term.bound()) {
            return Err(Unsupported::new("a reference to an enclosing query at this place"));
        }
        if let Some(ty) = mentioned.iter().find_map(|var| parts.vars.get(*var).foreign.as_ref()) {
            let told = Encoding::of(ty).err();
            return Err(told.unwrap_or_else(|| Unsupported::new(format!("type {ty}"))));
        }
        if term.atoms.len() > ATOMS_MAX {
            return Err(Unsupported::new(format!("a join of more than {ATOMS_MAX} relations")));
        }
        let mut relations: Vec<RelationIndex> = term.atoms.iter().map(|a| a.relation).collect();
        relations.sort_unstable();
        for chunk in relations.chunk_by(|a, b| a == b) {
            if chunk.len() > OCCURRENCES_MAX {
                let name = &parts.relations[chunk[0]].name;
                return Err(Unsupported::new(format!(
                    "a join of \"{name}\" with itself more than {OCCURRENCES_MAX} times"
                )));
            }
            let event = parts.relations[chunk[0]].event.clone();
            for delta in delta(&term, chunk[0], &event, &parts.vars) {
                if let Some(statement) = plan::statement(parts, map, chunk[0], delta) {
                    parts.statements.push(statement);
                }
                within_limits(parts, facts)?;
            }
        }
    }
    Ok(())
}

/// Returns a map with `term`'s rows that has the wanted values as components: an equal one if it
/// exists, with components added, otherwise a new one. Returns with it the column of each of the
/// term's keys, and the component of each value. Ordered maps keep the order of the keys.
pub(crate) fn helper(parts: &mut Parts, term: &Term, ordered: bool) -> (usize, Vec<u16>, Vec<u16>) {
    let form = canonical(term, ordered);
    let known = parts.maps.iter().position(|map| map.canonical.as_ref() == Some(&form.text));
    let index = known.unwrap_or_else(|| {
        let key = form.term.keys.iter().map(|key| parts.vars.type_of(key)).collect();
        // The map's own deltas need variables that no event uses.
        let own = renamed(&Term { values: Vec::new(), ..form.term.clone() }, &mut parts.vars);
        parts.maps.push(Map {
            name: name(parts, &form.term),
            terms: vec![own],
            key,
            payload: Vec::new(),
            ordered,
            slices: Vec::new(),
            rank: Rank::Helper,
            canonical: Some(form.text.clone()),
        });
        parts.maps.len() - 1
    });
    // The same map was wanted with other variables before: the values are renamed to the map's
    // variables.
    let own = parts.maps[index].terms[0].clone();
    let by = positional(&form.term, &own);
    let mut components = Vec::new();
    for value in &form.term.values {
        let value = substitute(value.clone(), &by);
        let place = parts.maps[index].terms[0].values.iter().position(|v| *v == value);
        let place = place.unwrap_or_else(|| {
            let component = parts.component(&value);
            parts.maps[index].terms[0].values.push(value);
            parts.maps[index].payload.push(component);
            parts.maps[index].payload.len() - 1
        });
        components.push(place as u16);
    }
    (index, form.columns, components)
}

/// For each variable of one term, the variable at the same place of an equal term.
fn positional(from: &Term, to: &Term) -> HashMap<Var, Expr> {
    let vars = |term: &Term| -> Vec<Var> {
        term.atoms.iter().flat_map(|atom| atom.vars.iter().copied()).collect()
    };
    vars(from).into_iter().zip(vars(to)).map(|(a, b)| (a, Expr::Reg(b))).collect()
}

fn name(parts: &Parts, term: &Term) -> String {
    let relations: Vec<&str> =
        term.atoms.iter().map(|atom| parts.relations[atom.relation].name.as_str()).collect();
    format!("m{}_{}", parts.maps.len(), relations.join("_"))
}

/// A text that is the same for all terms over the same rows, whatever their keys and values.
pub(crate) fn shape(term: &Term) -> String {
    canonical(&Term { keys: Vec::new(), values: Vec::new(), ..term.clone() }, false).text
}

/// Adds up terms that are equal but for their weights. Cases that make no difference in the end
/// cancel out in this way.
pub(crate) fn combined(terms: Vec<Term>) -> Vec<Term> {
    let relations = |term: &Term| {
        let mut all: Vec<RelationIndex> = term.atoms.iter().map(|atom| atom.relation).collect();
        all.sort_unstable();
        all
    };
    let written = |term: &Term| {
        let keys = term.keys.iter().chain(&term.values).cloned().collect();
        canonical(&Term { keys, values: Vec::new(), ..term.clone() }, true).text
    };
    let mut times: HashMap<Vec<RelationIndex>, usize> = HashMap::new();
    terms.iter().for_each(|term| *times.entry(relations(term)).or_default() += 1);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Term> = Vec::new();
    for term in terms {
        let alone = times[&relations(&term)] == 1;
        let place =
            if alone { kept.len() } else { *places.entry(written(&term)).or_insert(kept.len()) };
        match kept.get_mut(place) {
            Some(known) => known.weight += term.weight,
            None => kept.push(term),
        }
    }
    kept.retain(|term| term.weight != 0);
    kept
}

/// A term in canonical form: an order of atoms, conditions and keys that is the same for all equal
/// terms.
struct Canonical {
    text: String,
    term: Term,
    /// For each key of the original term, its column.
    columns: Vec<u16>,
}

fn canonical(term: &Term, ordered: bool) -> Canonical {
    let mut order: Vec<usize> = (0..term.atoms.len()).collect();
    order.sort_by_key(|at| term.atoms[*at].relation);
    let mut best: Option<Canonical> = None;
    let mut left = ORDERS_MAX;
    permute(&mut order, 0, &mut left, &|at| term.atoms[at].relation, &mut |order| {
        let form = written(term, order, ordered);
        if best.as_ref().is_none_or(|best| form.text < best.text) {
            best = Some(form);
        }
    });
    best.expect("there is at least one order")
}

/// The most orders of atoms that are tried. Equal terms with more orders may not be recognised as
/// equal.
const ORDERS_MAX: usize = 1000;

/// Tries the orders of the atoms in which atoms of one relation change places, until none are
/// `left`.
fn permute(
    order: &mut [usize],
    from: usize,
    left: &mut usize,
    group: &dyn Fn(usize) -> usize,
    visit: &mut dyn FnMut(&[usize]),
) {
    if *left == 0 {
        return;
    }
    if from == order.len() {
        *left -= 1;
        return visit(order);
    }
    for with in from..order.len() {
        if group(order[with]) == group(order[from]) {
            order.swap(from, with);
            permute(order, from + 1, left, group, visit);
            order.swap(from, with);
        }
    }
}

fn written(term: &Term, order: &[usize], ordered: bool) -> Canonical {
    // Numbering variables by their first occurrence makes the text independent of their names.
    let mut numbers: HashMap<Var, Expr> = HashMap::new();
    let atoms: Vec<_> = order.iter().map(|at| term.atoms[*at].clone()).collect();
    for var in atoms.iter().flat_map(|atom| &atom.vars) {
        let next = numbers.len() as u16;
        numbers.entry(*var).or_insert(Expr::Reg(Reg(next)));
    }
    let text_of = |expr: &Expr| format!("{:?}", substitute(expr.clone(), &numbers));
    let shape: Vec<String> = atoms
        .iter()
        .map(|atom| {
            let vars: Vec<String> = atom.vars.iter().map(|var| text_of(&Expr::Reg(*var))).collect();
            format!("{}({})", atom.relation, vars.join(","))
        })
        .collect();
    let mut conditions: Vec<(String, Expr)> =
        term.conditions.iter().map(|c| (text_of(c), c.clone())).collect();
    conditions.sort_by(|a, b| a.0.cmp(&b.0));
    let mut keys: Vec<(String, usize)> =
        term.keys.iter().enumerate().map(|(at, key)| (text_of(key), at)).collect();
    if !ordered {
        keys.sort();
    }
    let mut columns = vec![0; keys.len()];
    for (column, (_, at)) in keys.iter().enumerate() {
        columns[*at] = column as u16;
    }
    let key_texts: Vec<&str> = keys.iter().map(|(text, _)| text.as_str()).collect();
    let condition_texts: Vec<&str> = conditions.iter().map(|(text, _)| text.as_str()).collect();
    let text = format!("{ordered} {shape:?} {condition_texts:?} {key_texts:?}");
    Canonical {
        text,
        term: Term {
            weight: 1,
            atoms,
            conditions: conditions.into_iter().map(|(_, c)| c).collect(),
            keys: keys.iter().map(|(_, at)| term.keys[*at].clone()).collect(),
            values: term.values.clone(),
        },
        columns,
    }
}

/// The number 0 or 1 in a type.
fn unit(ty: Type, value: i64) -> Expr {
    match ty {
        Type::Int => Expr::Int(value),
        Type::Wide => Expr::Wide(value.into()),
        Type::Float => Expr::Float(value as f64),
    }
}
