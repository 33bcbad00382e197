//! The certificate of a view: how the cost of an event grows, by base relation.
//!
//! The certificate is read off the program. A step has a class; steps after an enumeration run once per
//! entry, so their classes are multiplied by the enumeration's; a statement has the largest product of its
//! steps. A statement that changes a map which another relation is derived from makes that relation's
//! events, one or two per changed entry: their class is multiplied by that of the statement's enumerations.
//! An event has the largest class of all statements that it may run.
//!
//! `crates/delta/tests/growth.rs` compares certificates with counted operations.

use std::fmt;

use halcyon_view::program::{
    Expr, MapId, Program, Reg, RelationId, Statement, Step, Trigger, Type,
};

/// The class of a cost: how it grows, as a product of enumerations; constant without any.
///
/// Classes are ordered by what grows fastest: entries of maps, then groups, then partners, then look-ups
/// in ordered maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CostClass {
    /// Number of nested enumerations of all entries of a map.
    entries: u8,
    /// Number of nested enumerations of all groups of the view.
    groups: u8,
    /// Number of nested enumerations of slices, which have as many entries as a row has join
    /// partners.
    partners: u8,
    /// Whether ordered maps are looked up.
    is_logarithmic: bool,
}

impl CostClass {
    /// The class of look-ups in hash maps.
    pub const CONSTANT: CostClass =
        CostClass { entries: 0, groups: 0, partners: 0, is_logarithmic: false };
    /// The class of look-ups in ordered maps.
    pub const LOGARITHMIC: CostClass = CostClass { is_logarithmic: true, ..CostClass::CONSTANT };
    /// The class of an enumeration of a slice: as many entries as rows share a join value.
    pub const FAN_OUT: CostClass = CostClass { partners: 1, ..CostClass::CONSTANT };
    /// The class of an enumeration of the view's groups, with look-ups for each.
    pub const GROUPS: CostClass = CostClass { groups: 1, ..CostClass::CONSTANT };
    /// The class of an enumeration of all entries of a map.
    pub const LINEAR: CostClass = CostClass { entries: 1, ..CostClass::CONSTANT };

    /// The class of a step within enumerations: their classes multiplied.
    fn times(self, other: CostClass) -> CostClass {
        CostClass {
            entries: self.entries.saturating_add(other.entries),
            groups: self.groups.saturating_add(other.groups),
            partners: self.partners.saturating_add(other.partners),
            is_logarithmic: self.is_logarithmic || other.is_logarithmic,
        }
    }

    /// The enumerations alone, without look-ups: how often the steps behind them run.
    fn loops(self) -> CostClass {
        CostClass { is_logarithmic: false, ..self }
    }
}

impl fmt::Display for CostClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut factors = Vec::new();
        for (name, power) in
            [("n", self.entries), ("groups", self.groups), ("fan-out", self.partners)]
        {
            match power {
                0 => {}
                1 => factors.push(name.to_owned()),
                2 => factors.push(format!("{name}²")),
                more => factors.push(format!("{name}^{more}")),
            }
        }
        if factors.is_empty() {
            factors.push(if self.is_logarithmic { "log n" } else { "1" }.to_owned());
        }
        f.pad(&format!("O({})", factors.join(" · ")))
    }
}

/// The cost of an event of one base relation.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCost {
    /// The relation's name.
    pub relation: String,
    /// The class of the cost.
    pub class: CostClass,
    /// Number of look-ups in maps if every slice and every changed group had one entry. A trigger
    /// of a derived relation counts twice: for the old row that goes and the new one that comes.
    pub probes: u32,
    /// The statement that has the largest class.
    pub because: String,
}

/// The memory of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct MapCost {
    /// The map's name.
    pub name: String,
    /// Bytes of an entry's key and payload, without the structure's overhead.
    pub bytes_per_entry: u32,
    /// The map's definition.
    pub definition: String,
}

/// The certificate of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificate {
    /// The costs of events, by base relation.
    pub events: Vec<EventCost>,
    /// The memory of the maps.
    pub maps: Vec<MapCost>,
}

impl Certificate {
    /// Reads the certificate off a program.
    pub fn of(program: &Program) -> Certificate {
        // The relation of one row has only its first event, so it has no cost per event.
        let is_fed = |at: usize| program.one_row.is_none_or(|one_row| usize::from(one_row.0) != at);
        let base = program.relations.iter().enumerate();
        let base = base.filter(|(at, relation)| relation.derived.is_none() && is_fed(*at));
        let events = base
            .map(|(index, relation)| {
                let mut cost = EventCost {
                    relation: relation.name.clone(),
                    class: CostClass::CONSTANT,
                    probes: 0,
                    because: String::new(),
                };
                let mut met = vec![None; program.relations.len()];
                let runs = Runs { probes: 1, class: CostClass::CONSTANT };
                add_trigger(program, index, runs, &mut cost, &mut met);
                cost
            })
            .collect();
        let maps = program.maps.iter().map(|map| {
            let words: usize = map.key.iter().map(|ty| ty.words()).sum();
            let sums = map.payload.iter().map(|component| match component.ty() {
                Type::Int => 1,
                _ => 2,
            });
            let words = words + sums.sum::<usize>();
            MapCost {
                name: map.name.clone(),
                bytes_per_entry: 8 * words as u32,
                definition: map.definition.clone(),
            }
        });
        Certificate { events, maps: maps.collect() }
    }

    /// The largest class of all events.
    pub fn class(&self) -> CostClass {
        self.events.iter().map(|event| event.class).max().unwrap_or_default()
    }
}

/// How often a relation's trigger runs for one event of a base relation.
#[derive(Clone, Copy)]
struct Runs {
    /// The number of runs if every slice and every changed group had one entry.
    probes: u32,
    /// The class of the number of runs.
    class: CostClass,
}

/// Adds the cost of a relation's trigger. `met`: by relation, the largest class for which its
/// trigger has been counted.
fn add_trigger(
    program: &Program,
    relation: usize,
    runs: Runs,
    cost: &mut EventCost,
    met: &mut [Option<CostClass>],
) {
    let is_new = met[relation].is_none();
    if met[relation].is_some_and(|before| before >= runs.class) {
        return;
    }
    met[relation] = Some(runs.class);
    for statement in &program.triggers[relation].statements {
        let (class, loops) = class_of(program, statement);
        let class = runs.class.times(class);
        if class > cost.class || cost.because.is_empty() {
            cost.class = cost.class.max(class);
            cost.because = statement.comment.clone();
        }
        if is_new {
            let steps = statement.steps.iter().map(probes).sum::<u32>();
            cost.probes = cost.probes.saturating_add(runs.probes * (1 + steps));
        }
        for (index, derived) in program.relations.iter().enumerate() {
            let Some(own) = &derived.derived else { continue };
            if own.map != statement.target {
                continue;
            }
            let changed = runs.class.times(loops);
            let read = changed.times(class_of_steps(program, &own.steps).0);
            if read > cost.class {
                cost.class = read;
                cost.because = format!("the rows of {}", derived.name);
            }
            if is_new {
                let steps = own.steps.iter().map(probes).sum::<u32>();
                cost.probes = cost.probes.saturating_add(runs.probes * steps);
            }
            let runs = Runs { probes: runs.probes.saturating_mul(2), class: changed };
            add_trigger(program, index, runs, cost, met);
        }
    }
}

/// The class of a statement, and the class of its enumerations alone.
fn class_of(program: &Program, statement: &Statement) -> (CostClass, CostClass) {
    let steps = &statement.steps;
    let (mut class, loops) = classes(program, steps, &|at| of_groups(program, statement, at));
    class = class.max(loops.times(map_class(program, statement.target)));
    (class, loops)
}

/// The class of steps, and the class of their enumerations alone.
fn class_of_steps(program: &Program, steps: &[Step]) -> (CostClass, CostClass) {
    classes(program, steps, &|_| false)
}

/// The classes of [`class_of_steps`]; `is_by_group` says whether a step enumerates the groups of
/// the view.
fn classes(
    program: &Program,
    steps: &[Step],
    is_by_group: &dyn Fn(usize) -> bool,
) -> (CostClass, CostClass) {
    let (mut class, mut loops) = (CostClass::CONSTANT, CostClass::CONSTANT);
    for (at, step) in steps.iter().enumerate() {
        let own = match step_class(program, step) {
            CostClass::LINEAR if is_by_group(at) => CostClass::GROUPS,
            own => own,
        };
        class = class.max(loops.times(own));
        if matches!(step, Step::Each { .. }) {
            loops = loops.times(own.loops());
        }
    }
    (class, loops)
}

/// Whether a step enumerates groups of the view, each of which is then changed. That is so if the
/// target's entries are groups of the view, the enumerated map's whole key is part of the target's
/// key, and a binding ends early only where a sum is zero.
fn of_groups(program: &Program, statement: &Statement, at: usize) -> bool {
    let Step::Each { map, key, .. } = &statement.steps[at] else { return false };
    if !has_groups(program, statement.target, &mut Vec::new()) {
        return false;
    }
    let whole = key.len() == program.maps[usize::from(map.0)].key.len();
    let in_key = |reg: &Reg| statement.key.contains(&Expr::Reg(*reg));
    let rest = &statement.steps[at + 1..];
    let summed = rest.iter().enumerate().all(|(next, step)| match step {
        Step::If(_) => next > 0 && !matches!(rest[next - 1], Step::If(_)),
        _ => true,
    });
    whole && key.iter().all(|(_, reg)| in_key(reg)) && summed
}

/// Whether the entries of a map are groups of the view: the map is the one of the view's groups, or
/// all its readers add to such a map, under keys that contain the map's whole key.
fn has_groups(program: &Program, map: MapId, asked: &mut Vec<MapId>) -> bool {
    let RelationId(output) = program.output;
    let derived = program.relations.iter().enumerate();
    let mut derived = derived.filter_map(|(at, relation)| Some((at, relation.derived.as_ref()?)));
    if derived.any(|(at, derived)| at == usize::from(output) && derived.map == map) {
        return true;
    }
    if asked.contains(&map) {
        return true;
    }
    asked.push(map);
    let is_derived_from =
        program.relations.iter().filter_map(|one| one.derived.as_ref()).any(|own| {
            let mut is_read = own.map == map;
            own.steps
                .iter()
                .for_each(|step| step.for_each_read(&mut |read| is_read |= read == map));
            is_read
        });
    let width = program.maps[usize::from(map.0)].key.len();
    let mut is_read = false;
    let mut add_to_groups = true;
    for statement in program.triggers.iter().flat_map(|trigger| &trigger.statements) {
        for step in &statement.steps {
            let mut reads = false;
            step.for_each_read(&mut |read| reads |= read == map);
            if !reads {
                continue;
            }
            is_read = true;
            add_to_groups &= match step {
                Step::Get { key, .. } => key.iter().all(|part| statement.key.contains(part)),
                Step::Each { prefix, key, .. } => {
                    let is_part = |reg: &Reg| statement.key.contains(&Expr::Reg(*reg));
                    key.iter().all(|(_, reg)| is_part(reg))
                        && prefix.iter().all(|part| statement.key.contains(part))
                        && key.len() + prefix.len() == width
                }
                _ => false,
            } && has_groups(program, statement.target, asked);
        }
    }
    is_read && add_to_groups && !is_derived_from
}

fn map_class(program: &Program, map: MapId) -> CostClass {
    match program.maps[usize::from(map.0)].ordered {
        true => CostClass::LOGARITHMIC,
        false => CostClass::CONSTANT,
    }
}

fn step_class(program: &Program, step: &Step) -> CostClass {
    match step {
        Step::Let { .. } | Step::If(_) => CostClass::CONSTANT,
        Step::Get { map, .. } => map_class(program, *map),
        Step::Each { map, .. } if single_entry(program, *map) => CostClass::CONSTANT,
        Step::Each { prefix, .. } if prefix.is_empty() => CostClass::LINEAR,
        Step::Each { .. } => CostClass::FAN_OUT,
        Step::RangeSum { .. } | Step::Edge { .. } | Step::Search { .. } => CostClass::LOGARITHMIC,
        Step::Sum { steps, .. } => {
            steps.iter().map(|s| step_class(program, s)).max().unwrap_or_default()
        }
    }
}

/// Whether a map has at most one entry: it has no key, or its key is that of a derived relation's
/// only row.
fn single_entry(program: &Program, map: MapId) -> bool {
    let keyless = |map: MapId| program.maps[usize::from(map.0)].key.is_empty();
    let feeds = |(relation, trigger): (usize, &Trigger)| {
        let mut on_map = trigger.statements.iter().filter(|s| s.target == map).peekable();
        if on_map.peek().is_none() {
            return true;
        }
        let derived = program.relations[relation].derived.as_ref();
        let enumerates = |step: &Step| matches!(step, Step::Each { .. });
        derived.is_some_and(|derived| keyless(derived.map))
            && on_map.all(|statement| !statement.steps.iter().any(enumerates))
    };
    keyless(map) || program.triggers.iter().enumerate().all(feeds)
}

fn probes(step: &Step) -> u32 {
    match step {
        Step::Let { .. } | Step::If(_) => 0,
        Step::Sum { steps, .. } => steps.iter().map(probes).sum(),
        _ => 1,
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.events {
            let EventCost { relation, class, probes, because } = event;
            writeln!(f, "event of {relation}: {class}, {probes} probes")?;
            writeln!(f, "  because of {because}")?;
        }
        for map in &self.maps {
            let MapCost { name, bytes_per_entry, definition } = map;
            writeln!(f, "map {name}: {bytes_per_entry} bytes per entry, {definition}")?;
        }
        Ok(())
    }
}
