//! The certificate of a view: the cost of an event.
//!
//! It is read off the program: every step has a class, a statement the largest of its steps, an
//! event the largest of its statements, those of the derived relations included that it may change.

use std::fmt;

use halcyon_view::program::{Expr, MapId, Program, Reg, Statement, Step, Trigger, Type};

/// How the cost of an event grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostClass {
    /// Look-ups in hash maps.
    Constant,
    /// Look-ups in ordered maps, too.
    Logarithmic,
    /// Every entry of a slice: as many as rows have a partner in common.
    FanOut,
    /// Every group of the view, each with look-ups.
    Groups,
    /// Every entry of a map.
    Linear,
}

impl fmt::Display for CostClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CostClass::Constant => "O(1)",
            CostClass::Logarithmic => "O(log n)",
            CostClass::FanOut => "O(fan-out)",
            CostClass::Groups => "O(groups)",
            CostClass::Linear => "O(n)",
        })
    }
}

/// What an event of one base relation costs.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCost {
    /// The relation's name.
    pub relation: String,
    /// How the cost grows.
    pub class: CostClass,
    /// Look-ups in maps, if every slice and every changed group is one entry. A derived relation
    /// counts twice: its old row goes, the new one comes.
    pub probes: u32,
    /// The statement that decides the class.
    pub because: String,
}

/// A map's share of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MapCost {
    /// The map's name.
    pub name: String,
    /// Bytes of key and payload of an entry, without what the structure adds.
    pub bytes_per_entry: u32,
    /// What it holds.
    pub definition: String,
}

/// The certificate of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificate {
    /// Per base relation.
    pub events: Vec<EventCost>,
    /// Per map.
    pub maps: Vec<MapCost>,
}

impl Certificate {
    /// Reads it off a program.
    pub fn of(program: &Program) -> Certificate {
        let base = program.relations.iter().enumerate().filter(|(_, r)| r.derived.is_none());
        let events = base
            .map(|(index, relation)| {
                let mut cost = EventCost {
                    relation: relation.name.clone(),
                    class: CostClass::Constant,
                    probes: 0,
                    because: String::new(),
                };
                let mut seen = vec![false; program.relations.len()];
                add_trigger(program, index, 1, &mut cost, &mut seen);
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
        self.events.iter().map(|event| event.class).max().unwrap_or(CostClass::Constant)
    }
}

fn add_trigger(
    program: &Program,
    relation: usize,
    times: u32,
    cost: &mut EventCost,
    seen: &mut [bool],
) {
    if std::mem::replace(&mut seen[relation], true) {
        return;
    }
    for statement in &program.triggers[relation].statements {
        let class = class_of(program, statement);
        if class > cost.class || cost.because.is_empty() {
            cost.class = cost.class.max(class);
            cost.because = statement.comment.clone();
        }
        cost.probes += times * (1 + statement.steps.iter().map(probes).sum::<u32>());
        for (index, derived) in program.relations.iter().enumerate() {
            let Some(own) = &derived.derived else { continue };
            if own.map == statement.target {
                cost.probes += times * own.steps.iter().map(probes).sum::<u32>();
                add_trigger(program, index, 2 * times, cost, seen);
            }
        }
    }
}

fn class_of(program: &Program, statement: &Statement) -> CostClass {
    let class = |(at, step): (usize, &Step)| match step_class(program, step) {
        CostClass::Linear if of_groups(program, statement, at) => CostClass::Groups,
        class => class,
    };
    let steps = statement.steps.iter().enumerate().map(class).max();
    steps.unwrap_or(CostClass::Constant).max(map_class(program, statement.target))
}

/// Whether a step enumerates groups of the target, and every entry goes on to a sum: the map's whole
/// key is part of the target's key, and nothing but that a sum is zero ends a binding.
fn of_groups(program: &Program, statement: &Statement, at: usize) -> bool {
    let Step::Each { map, key, .. } = &statement.steps[at] else { return false };
    let whole = key.len() == program.maps[usize::from(map.0)].key.len();
    let in_key = |reg: &Reg| statement.key.contains(&Expr::Reg(*reg));
    let rest = &statement.steps[at + 1..];
    let summed = rest.iter().enumerate().all(|(next, step)| match step {
        Step::If(_) => next > 0 && !matches!(rest[next - 1], Step::If(_)),
        _ => true,
    });
    whole && key.iter().all(|(_, reg)| in_key(reg)) && summed
}

fn map_class(program: &Program, map: MapId) -> CostClass {
    match program.maps[usize::from(map.0)].ordered {
        true => CostClass::Logarithmic,
        false => CostClass::Constant,
    }
}

fn step_class(program: &Program, step: &Step) -> CostClass {
    match step {
        Step::Let { .. } | Step::If(_) => CostClass::Constant,
        Step::Get { map, .. } => map_class(program, *map),
        Step::Each { map, .. } if single_entry(program, *map) => CostClass::Constant,
        Step::Each { prefix, .. } if prefix.is_empty() => CostClass::Linear,
        Step::Each { .. } => CostClass::FanOut,
        Step::RangeSum { .. } | Step::Edge { .. } | Step::Search { .. } => CostClass::Logarithmic,
        Step::Sum { steps, .. } => {
            steps.iter().map(|s| step_class(program, s)).max().unwrap_or(CostClass::Constant)
        }
    }
}

/// Whether a map has an entry at most: no key, or one for the only row of a derived relation.
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
