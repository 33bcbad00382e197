//! Tidying of finished programs: superfluous maps, rows, columns and conditions are taken out.
//!
//! The viewlet transform makes every map and every derived relation separately, which keeps it
//! simple. In the whole program two maps may turn out to be the same, and a derived relation may
//! have rows that none of its statements uses.

use halcyon_view::program::{
    CompareOp, Derived, Expr, MapId, Program, Reg, SliceId, Statement, Step, Type,
};

use crate::expression::and;

/// Makes the program smaller, with the same view as its result.
pub(crate) fn tidy(program: &mut Program) {
    for relation in 0..program.relations.len() {
        let is_output = relation == usize::from(program.output.0);
        if program.relations[relation].derived.is_some() && !is_output {
            narrow_to_used_rows(program, relation);
            drop_unread_columns(program, relation);
        }
    }
    while let Some((one, other)) = twins(program) {
        unite(program, one, other);
    }
    let presence =
        |program: &Program| (0..program.maps.len()).find_map(|map| mirrored_relation(program, map));
    while let Some((relation, map)) = presence(program) {
        look_up_groups(program, relation, map);
        remove(program, map);
    }
}

/// Returns the derived relation whose groups with a row are the entries of this map, together with
/// the relation's own map, if readers of this map can read those groups instead: the two agree at
/// every read.
fn mirrored_relation(program: &Program, map: usize) -> Option<(usize, usize)> {
    let id = MapId(map as u16);
    let mut changes = program.triggers.iter().enumerate().flat_map(|(relation, trigger)| {
        let of = trigger.statements.iter().filter(move |statement| statement.target == id);
        of.map(move |statement| (relation, statement))
    });
    let (Some((relation, change)), None) = (changes.next(), changes.next()) else { return None };
    let derived = program.relations[relation].derived.as_ref()?;
    let groups = &program.maps[usize::from(derived.map.0)];
    let key: Vec<Expr> = (0..groups.key.len()).map(|at| Expr::Reg(Reg(at as u16))).collect();
    let weight = Expr::Reg(Reg(key.len() as u16));
    let is_presence = change.steps.is_empty()
        && change.key == key
        && change.add == [weight]
        && derived.row == key
        && derived.steps.is_empty()
        && derived.map != id;
    let counts = |condition: &Expr| match condition {
        Expr::Compare(CompareOp::Gt, Type::Int, a, b) => {
            let of_payload = matches!(**a, Expr::Reg(reg) if usize::from(reg.0) >= key.len());
            of_payload && matches!(**b, Expr::Int(least) if least >= 0)
        }
        _ => false,
    };
    let needs_entries = match &derived.exists {
        Expr::And(all) => all.iter().any(counts),
        one => counts(one),
    };
    let is_free = |derived: &Derived| {
        let mut free = derived.map != id;
        derived.steps.iter().for_each(|step| step.for_each_read(&mut |read| free &= read != id));
        free
    };
    let all_free = program.relations.iter().filter_map(|one| one.derived.as_ref()).all(is_free);
    let seen_alike = program.triggers.iter().enumerate().all(|(other, trigger)| {
        // The relation's own statements read the map between their changes; relations derived
        // earlier read the map as it was before the event.
        let later = program.relations[other].derived.is_none() || other > relation;
        let mut changed = false;
        trigger.statements.iter().all(|statement| {
            let mut by_get = true;
            let mut reads = false;
            for step in &statement.steps {
                let mut within = false;
                step.for_each_read(&mut |read| within |= read == id);
                by_get &= !within || matches!(step, Step::Get { .. });
                reads |= within;
            }
            let alike = !reads || (by_get && later && !changed);
            changed |= statement.target == derived.map;
            alike
        })
    });
    (is_presence && needs_entries && all_free && seen_alike).then_some((relation, map))
}

/// Replaces look-ups in a map that mirrors a derived relation by look-ups of the relation's groups.
fn look_up_groups(program: &mut Program, relation: usize, map: usize) {
    let derived = program.relations[relation].derived.clone().expect("it is derived");
    let groups = &program.maps[usize::from(derived.map.0)];
    let (columns, types) = (groups.key.len(), groups.payload.clone());
    for trigger in &mut program.triggers {
        let registers = &mut trigger.registers;
        for statement in &mut trigger.statements {
            let mut steps = Vec::new();
            for step in statement.steps.drain(..) {
                let Step::Get { map: asked, key, payload } = &step else {
                    steps.push(step);
                    continue;
                };
                if usize::from(asked.0) != map {
                    steps.push(step);
                    continue;
                }
                let first = registers.len() as u16;
                registers.extend(types.iter().map(|component| component.ty()));
                let outs = (0..types.len() as u16).map(|at| (at, Reg(first + at))).collect();
                steps.push(Step::Get { map: derived.map, key: key.clone(), payload: outs });
                let exists = derived.exists.rewritten(&mut |part| match part {
                    Expr::Reg(reg) => match usize::from(reg.0).checked_sub(columns) {
                        Some(component) => Expr::Reg(Reg(first + component as u16)),
                        None => key[usize::from(reg.0)].clone(),
                    },
                    other => other,
                });
                for (_, reg) in payload {
                    let (when, otherwise) = (vec![(exists.clone(), Expr::Int(1))], Expr::Int(0));
                    let otherwise = Box::new(otherwise);
                    let value = Expr::Case { ty: Type::Int, when, otherwise };
                    steps.push(Step::Let { reg: *reg, value });
                }
            }
            statement.steps = steps;
        }
    }
}

/// Moves conditions with which all statements of a derived relation begin into the relation itself:
/// rows that fail them are no longer rows, and changes of such rows cause no events.
fn narrow_to_used_rows(program: &mut Program, relation: usize) {
    let statements = &mut program.triggers[relation].statements;
    let own = &mut program.relations[relation];
    let Some(derived) = &mut own.derived else { return };
    let columns = own.columns.len();
    if statements.iter().any(|statement| statement.replace) {
        return;
    }
    let mut split: Vec<(Vec<Expr>, Vec<Step>)> =
        statements.iter().map(|statement| leading(statement, columns)).collect();
    let Some((first, _)) = split.first() else { return };
    let in_all = |one: &&Expr| split.iter().all(|(conditions, _)| conditions.contains(one));
    let common: Vec<Expr> = first.iter().filter(in_all).cloned().collect();
    if common.is_empty() {
        return;
    }
    let facts = match &derived.exists {
        Expr::And(all) => all.clone(),
        one => vec![one.clone()],
    };
    let mut wanted = facts.clone();
    for condition in &common {
        let of_group = condition.rewritten(&mut |part| match part {
            Expr::Reg(reg) => derived.row[usize::from(reg.0)].clone(),
            other => other,
        });
        wanted.push(of_group.rewritten(&mut |part| given(part, &facts)));
    }
    derived.exists = and(wanted);
    for (statement, (conditions, rest)) in statements.iter_mut().zip(&mut split) {
        conditions.retain(|condition| !common.contains(condition));
        statement.steps = conditions.drain(..).map(Step::If).chain(rest.drain(..)).collect();
    }
}

/// Splits a statement's steps into the leading conditions on the row alone, and the other steps.
fn leading(statement: &Statement, columns: usize) -> (Vec<Expr>, Vec<Step>) {
    let mut conditions = Vec::new();
    let mut steps = statement.steps.iter();
    for step in steps.by_ref() {
        let Step::If(condition) = step else {
            let rest = std::iter::once(step).chain(steps).cloned();
            return (conditions, rest.collect());
        };
        let all = match condition {
            Expr::And(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        if !all.iter().all(|one| is_test(one, columns)) {
            let rest = std::iter::once(step).chain(steps).cloned();
            return (conditions, rest.collect());
        }
        conditions.extend(all.iter().cloned());
    }
    (conditions, Vec::new())
}

/// Whether a condition compares columns of the row with each other or with constants, so that its
/// evaluation cannot fail.
fn is_test(condition: &Expr, columns: usize) -> bool {
    let is_operand = |value: &Expr| match value {
        Expr::Reg(reg) => usize::from(reg.0) < columns,
        Expr::Cast { from: Type::Int, to: Type::Wide, value } => matches!(**value, Expr::Int(_)),
        value => matches!(value, Expr::Int(_) | Expr::Wide(_) | Expr::Float(_) | Expr::Text(_)),
    };
    match condition {
        Expr::Compare(_, _, a, b) => is_operand(a) && is_operand(b),
        Expr::Or(any) => any.iter().all(|one| is_test(one, columns)),
        _ => false,
    }
}

/// Simplifies an expression where `facts` hold: for instance, a CASE for a count of zero disappears
/// if the count is known to be positive.
fn given(value: Expr, facts: &[Expr]) -> Expr {
    let Expr::Case { ty, when, otherwise } = value else { return value };
    let is_void = |condition: &Expr| match condition {
        Expr::Compare(CompareOp::Eq, ty, a, b) if **b == Expr::Int(0) => {
            facts.contains(&Expr::Compare(CompareOp::Gt, *ty, a.clone(), b.clone()))
        }
        _ => false,
    };
    let when: Vec<_> = when.into_iter().filter(|(condition, _)| !is_void(condition)).collect();
    match when.is_empty() {
        true => *otherwise,
        false => Expr::Case { ty, when, otherwise },
    }
}

/// Removes the columns of a derived relation that no statement reads. Changes of these columns
/// alone then cause no events.
fn drop_unread_columns(program: &mut Program, relation: usize) {
    let trigger = &mut program.triggers[relation];
    if trigger.statements.is_empty() {
        return;
    }
    let own = &mut program.relations[relation];
    let columns = own.columns.len();
    let mut read = vec![false; columns];
    for statement in &mut trigger.statements {
        rewrite(statement, &mut |part| {
            if let Expr::Reg(reg) = &part
                && let Some(read) = read.get_mut(usize::from(reg.0))
            {
                *read = true;
            }
            part
        });
    }
    let place = |reg: Reg| {
        let before = usize::from(reg.0).min(columns);
        Reg(reg.0 - read[..before].iter().filter(|read| !**read).count() as u16)
    };
    for statement in &mut trigger.statements {
        rewrite(statement, &mut |part| match part {
            Expr::Reg(reg) => Expr::Reg(place(reg)),
            other => other,
        });
        for step in &mut statement.steps {
            *step = step.rewritten(&mut |value| value.clone(), &mut |reg| place(reg));
        }
    }
    let is_read = |at: usize| read.get(at).copied().unwrap_or(true);
    let mut at = 0..;
    trigger.registers.retain(|_| at.next().is_some_and(is_read));
    let mut at = 0..;
    own.columns.retain(|_| at.next().is_some_and(is_read));
    if let Some(derived) = &mut own.derived {
        let mut at = 0..;
        derived.row.retain(|_| at.next().is_some_and(is_read));
    }
}

/// Rewrites all expressions of a statement, inner ones first.
fn rewrite(statement: &mut Statement, f: &mut dyn FnMut(Expr) -> Expr) {
    for step in &mut statement.steps {
        *step = step.rewritten(&mut |value| value.rewritten(f), &mut |reg| reg);
    }
    for value in statement.key.iter_mut().chain(&mut statement.add) {
        *value = value.rewritten(f);
    }
}

/// Returns two maps that the same statements change, if no reader can tell that one of them changes
/// before the other.
fn twins(program: &Program) -> Option<(usize, usize)> {
    let looked_up: Vec<MapId> = program
        .relations
        .iter()
        .filter_map(|relation| relation.derived.as_ref())
        .filter(|derived| !derived.steps.is_empty())
        .flat_map(|derived| {
            let mut maps = vec![derived.map];
            derived.steps.iter().for_each(|step| step.for_each_read(&mut |map| maps.push(map)));
            maps
        })
        .collect();
    let is_free = |map: &usize| !looked_up.contains(&MapId(*map as u16));
    let free: Vec<usize> = (0..program.maps.len()).filter(is_free).collect();
    for (at, one) in free.iter().enumerate() {
        for other in &free[at + 1..] {
            if are_twins(program, *one, *other) {
                return Some((*one, *other));
            }
        }
    }
    None
}

fn are_twins(program: &Program, one: usize, other: usize) -> bool {
    let (a, b) = (&program.maps[one], &program.maps[other]);
    let (one, other) = (MapId(one as u16), MapId(other as u16));
    let is_changed = |statement: &Statement| statement.target == one;
    a.key == b.key
        && a.payload == b.payload
        && a.ordered == b.ordered
        && program.triggers.iter().any(|trigger| trigger.statements.iter().any(is_changed))
        && program.triggers.iter().all(|trigger| {
            let of = |map: MapId| trigger.statements.iter().filter(move |one| one.target == map);
            let same = of(one).count() == of(other).count()
                && of(one).zip(of(other)).all(|(a, b)| {
                    a.steps == b.steps && a.key == b.key && a.add == b.add && a.replace == b.replace
                });
            let either = |statement: &Statement| [one, other].contains(&statement.target);
            let first = trigger.statements.iter().position(either);
            let last = trigger.statements.iter().rposition(either);
            let (Some(first), Some(last)) = (first, last) else { return same };
            let mut sees = false;
            for step in trigger.statements[first..=last].iter().flat_map(|one| &one.steps) {
                step.for_each_read(&mut |map| sees |= [one, other].contains(&map));
            }
            same && !sees
        })
}

/// Redirects all readers of map `other` to map `one`, and removes `other`.
fn unite(program: &mut Program, one: usize, other: usize) {
    let mut places = Vec::new();
    for slice in program.maps[other].slices.clone() {
        let own = &mut program.maps[one].slices;
        let known = own.iter().position(|known| *known == slice);
        places.push(SliceId(known.unwrap_or(own.len()) as u16));
        if known.is_none() {
            own.push(slice);
        }
    }
    let gone = MapId(other as u16);
    for_each_reader(program, &mut |map, slice| {
        if *map == gone {
            *map = MapId(one as u16);
            if let Some(slice) = slice {
                *slice = places[usize::from(slice.0)];
            }
        }
    });
    remove(program, other);
}

/// Removes a map without readers, with the statements that change it.
fn remove(program: &mut Program, map: usize) {
    program.maps.remove(map);
    let gone = MapId(map as u16);
    let renamed = |map: MapId| MapId(map.0 - u16::from(map > gone));
    for trigger in &mut program.triggers {
        trigger.statements.retain(|statement| statement.target != gone);
        for statement in &mut trigger.statements {
            statement.target = renamed(statement.target);
        }
    }
    for_each_reader(program, &mut |map, _| *map = renamed(*map));
}

/// Calls `each` for every place that reads a map, with the slice by which it reads.
fn for_each_reader(program: &mut Program, each: &mut dyn FnMut(&mut MapId, Option<&mut SliceId>)) {
    fn ask(step: &mut Step, each: &mut dyn FnMut(&mut MapId, Option<&mut SliceId>)) {
        match step {
            Step::Each { map, slice, .. } => each(map, slice.as_mut()),
            Step::Get { map, .. }
            | Step::RangeSum { map, .. }
            | Step::Edge { map, .. }
            | Step::Search { map, .. } => each(map, None),
            Step::Sum { steps, .. } => steps.iter_mut().for_each(|step| ask(step, each)),
            Step::If(_) | Step::Let { .. } => {}
        }
    }
    for derived in program.relations.iter_mut().filter_map(|relation| relation.derived.as_mut()) {
        each(&mut derived.map, None);
        derived.steps.iter_mut().for_each(|step| ask(step, each));
    }
    for statement in program.triggers.iter_mut().flat_map(|trigger| &mut trigger.statements) {
        statement.steps.iter_mut().for_each(|step| ask(step, each));
    }
}
