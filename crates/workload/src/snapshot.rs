//! What the definitions mean on one machine: immutable, and replaced as a whole.
//!
//! Invariants, all checked by [`Snapshot::check`]:
//! 1. Classes are sorted by id, ids are distinct and below [`CLASSES`], and the built-in ones have their own.
//! 2. A parent is an enabled class of the snapshot; following parents ends after at most two steps.
//! 3. No class has a TOTAL limit above its parent's.
//! 4. Mappings and AUTO CLASS lead to enabled classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::definition::{BUILT_IN, Brake, ClassDefinition, Definitions};
use crate::key::{Key, Value};
use crate::limits::{Band, CLASSES, ClassId, FLOOR_DEFAULT, Limits, Machine, band, weight};
use crate::mapping::{self, Context, Mapping, Object, Resolution};
use crate::problem::{Problem, ProblemKind};
use crate::rules::Rule;

/// Estimated processor time from which a statement is long: AUTO CLASS sends it elsewhere.
pub const AUTO_CLASS_FROM: Duration = Duration::from_millis(100);

/// A workload class in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The number by which statements, tasks and accounts name the class.
    pub id: ClassId,
    /// The name.
    pub name: String,
    /// The enabled class above in the tree, whose TOTAL limits hold for this class too.
    pub parent: Option<ClassId>,
    /// Whether mappings and hints lead here.
    pub enabled: bool,
    /// Whether the class is the engine's.
    pub is_builtin: bool,
    /// The limits in force.
    pub limits: Limits,
    /// The rules in force.
    pub rules: Vec<Rule>,
}

/// Shares of the workers' time in the shape that the task runtime takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Weight of each class within its band, by id.
    pub weights: [u32; CLASSES],
    /// Floors of the bands High, Normal and Low, per mille; at least 1 each and at most 500 together.
    pub floors: [u32; 3],
}

/// All classes and mappings in force.
#[derive(Clone, Debug)]
pub struct Snapshot {
    classes: Vec<Class>,
    /// Place in `classes` by id.
    places: [Option<u8>; CLASSES],
    mappings: Vec<Arc<Mapping>>,
    brake: Brake,
    machine: Machine,
    is_plain: bool,
    /// Where the search for a free id begins, so that the id of a dropped class comes back late.
    next_id: u8,
}

impl Snapshot {
    /// What the definitions mean on the machine. Classes that `before` has by name keep their ids.
    ///
    /// Errors: what [`Definitions::check`] finds.
    pub fn new(
        definitions: &Definitions,
        machine: &Machine,
        before: Option<&Snapshot>,
    ) -> Result<Snapshot, Problem> {
        definitions.check()?;
        let mut ids = Ids::new(definitions, before);
        let mut builder =
            Builder { definitions, machine, ids: BTreeMap::new(), done: BTreeMap::new() };
        for name in BUILT_IN.into_iter().chain(definitions.classes.keys().map(String::as_str)) {
            builder.ids.insert(name, ids.of(name)?);
        }
        let names: Vec<&str> = builder.ids.keys().copied().collect();
        for name in names {
            builder.class(name)?;
        }
        let mappings = builder.mappings()?;
        let is_plain = definitions.classes.is_empty()
            && definitions.mappings.is_empty()
            && definitions.brake == Brake::Off;
        let mut classes: Vec<Class> = builder.done.into_values().collect();
        classes.sort_by_key(|class| class.id);
        let mut places = [None; CLASSES];
        for (place, class) in classes.iter().enumerate() {
            places[class.id.index()] = u8::try_from(place).ok();
        }
        let brake = definitions.brake;
        Ok(Snapshot {
            classes,
            places,
            mappings,
            brake,
            machine: *machine,
            is_plain,
            next_id: ids.next,
        })
    }

    /// The built-in classes alone.
    pub fn builtin(machine: &Machine) -> Snapshot {
        Snapshot::new(&Definitions::default(), machine, None).expect("no definition is wrong")
    }

    /// A class. An id that no class has any more stands for the default class.
    pub fn class(&self, id: ClassId) -> &Class {
        self.find(id)
            .unwrap_or_else(|| self.find(ClassId::DEFAULT).expect("the default class is built in"))
    }

    /// The class of the id, if there is one.
    pub(crate) fn find(&self, id: ClassId) -> Option<&Class> {
        self.places[id.index()].map(|place| &self.classes[usize::from(place)])
    }

    /// All classes, by id.
    pub fn classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter()
    }

    /// The class of the name.
    pub fn by_name(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// Whether users defined nothing and the brake is off, so that every statement is in the default class.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The brake.
    pub fn brake(&self) -> Brake {
        self.brake
    }

    /// What percentages are of.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The tables and views that mappings ask for.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        self.mappings.iter().filter_map(|mapping| mapping.object())
    }

    /// The class of a statement, by all mappings that are enabled. Cost: a look at each until two match.
    pub fn resolve(&self, context: &Context<'_>) -> Resolution {
        mapping::resolve(&self.mappings, context, |_, _| true)
    }

    /// The class of a statement of a role that may not use every class.
    ///
    /// Values that a client chooses (an application's name, say) lead to a class of a priority above the one to which
    /// the role, its groups and the database lead only if the role has USAGE of the class. Lowering needs no right.
    pub fn resolve_for(
        &self,
        context: &Context<'_>,
        has_usage: impl Fn(ClassId) -> bool,
    ) -> Resolution {
        let priority = |class: ClassId| self.class(class).limits.priority;
        mapping::resolve(&self.mappings, context, |class, base| {
            priority(class) <= priority(base) || has_usage(class)
        })
    }

    /// The limits of a statement of class `base` with a hint that names `hint`: of each the more restrictive.
    pub fn restrict(&self, base: ClassId, hint: ClassId) -> Limits {
        self.class(base).limits.restricted(&self.class(hint).limits)
    }

    /// The class in which a statement runs that is estimated to take so much processor time: that of AUTO CLASS, if the
    /// statement's class has one and the estimate is [`AUTO_CLASS_FROM`] or more.
    pub fn automatic(&self, class: ClassId, estimated: Duration) -> ClassId {
        let auto = self.class(class).limits.auto_class;
        auto.filter(|_| estimated >= AUTO_CLASS_FROM).unwrap_or(class)
    }

    /// A value in force as text, with its unit; `None` where nothing is limited.
    pub fn text(&self, limits: &Limits, key: Key) -> Option<String> {
        match key {
            Key::AutoClass => limits.auto_class.map(|class| self.class(class).name.clone()),
            _ => limits.text(key),
        }
    }

    /// Weights of the classes, and floors of the bands: the sum of the floors that their classes ask for.
    pub fn shares(&self) -> Shares {
        let mut shares = Shares { weights: [1; CLASSES], floors: [0; 3] };
        for class in &self.classes {
            shares.weights[class.id.index()] = weight(class.limits.priority);
            let asked = class.limits.origin(Key::Floor).map_or(0, |_| class.limits.floor_per_mille);
            match band(class.limits.priority) {
                Band::Urgent => {}
                Band::High => shares.floors[0] += asked,
                Band::Normal => shares.floors[1] += asked,
                Band::Low => shares.floors[2] += asked,
            }
        }
        // What classes ask for is at most 500 together; a band of which nobody asks gets what is left, up to 20.
        let asked: u32 = shares.floors.iter().sum();
        let silent = shares.floors.iter().filter(|floor| **floor == 0).count();
        let left = u32::try_from(silent)
            .map_or(0, |silent| 500_u32.saturating_sub(asked).checked_div(silent).unwrap_or(0));
        for floor in shares.floors.iter_mut().filter(|floor| **floor == 0) {
            *floor = left.clamp(1, FLOOR_DEFAULT);
        }
        while shares.floors.iter().sum::<u32>() > 500 {
            let largest = shares.floors.iter_mut().max().expect("there are three bands");
            *largest -= 1;
        }
        shares
    }

    /// The class and the classes above, which all count its statements.
    pub(crate) fn chain(&self, id: ClassId) -> impl Iterator<Item = &Class> {
        std::iter::successors(self.find(id), |class| {
            class.parent.and_then(|parent| self.find(parent))
        })
    }

    /// Panics unless the invariants hold. For tests and fuzzing; O(classes and mappings).
    pub fn check(&self) {
        assert!(self.classes.is_sorted_by(|a, b| a.id < b.id));
        for (place, name) in BUILT_IN.iter().enumerate() {
            assert_eq!(self.classes[place].name, *name);
            assert_eq!(self.classes[place].id.index(), place);
        }
        let enabled = |id: ClassId| self.find(id).is_some_and(|class| class.enabled);
        for class in &self.classes {
            assert!(class.id.index() == usize::from(class.id.0));
            assert!(self.chain(class.id).take(5).count() <= 3);
            assert!(class.limits.auto_class.is_none_or(enabled));
            let Some(parent) = class.parent else { continue };
            assert!(enabled(parent));
            let parent = &self.class(parent).limits;
            let within = |own: Option<u64>, above: Option<u64>| {
                above.is_none_or(|above| own.is_some_and(|own| own <= above))
            };
            assert!(within(class.limits.total_memory, parent.total_memory));
            assert!(within(
                class.limits.total_threads.map(u64::from),
                parent.total_threads.map(u64::from)
            ));
        }
        assert!(self.mappings.iter().all(|mapping| enabled(mapping.class)));
    }
}

/// Ids of classes: the ones that they had, or free ones.
struct Ids<'a> {
    before: Option<&'a Snapshot>,
    taken: BTreeSet<u8>,
    next: u8,
}

impl<'a> Ids<'a> {
    fn new(definitions: &Definitions, before: Option<&'a Snapshot>) -> Self {
        let built_in = u8::try_from(BUILT_IN.len()).expect("there are five built-in classes");
        let kept = before.into_iter().flat_map(|before| &before.classes);
        let kept = kept.filter(|class| definitions.classes.contains_key(&class.name));
        let taken = (0..built_in).chain(kept.map(|class| class.id.0)).collect();
        Ids { before, taken, next: before.map_or(built_in, |before| before.next_id) }
    }

    fn of(&mut self, name: &str) -> Result<ClassId, Problem> {
        if let Some(place) = BUILT_IN.iter().position(|built_in| *built_in == name) {
            return Ok(ClassId(u8::try_from(place).expect("there are five built-in classes")));
        }
        if let Some(class) = self.before.and_then(|before| before.by_name(name)) {
            return Ok(class.id);
        }
        let all = u8::try_from(CLASSES).expect("there are 64 classes");
        let free =
            (0..all).map(|step| (self.next + step) % all).find(|id| !self.taken.contains(id));
        let id =
            free.ok_or_else(|| Problem::new(ProblemKind::Limit, "too many workload classes"))?;
        self.taken.insert(id);
        self.next = (id + 1) % all;
        Ok(ClassId(id))
    }
}

/// Makes classes of definitions, parents before children.
struct Builder<'a> {
    definitions: &'a Definitions,
    machine: &'a Machine,
    ids: BTreeMap<&'a str, ClassId>,
    done: BTreeMap<&'a str, Class>,
}

impl<'a> Builder<'a> {
    fn class(&mut self, name: &'a str) -> Result<(), Problem> {
        if self.done.contains_key(name) {
            return Ok(());
        }
        let definition = self.definitions.classes.get(name);
        let parent = definition.and_then(|class| class.parent.as_deref());
        if let Some(parent) = parent {
            self.class(parent)?;
        }
        let parent = parent.and_then(|parent| self.done.get(parent));
        // A disabled class limits nothing, and its children are below the class above, if there is one.
        let parent_id =
            parent.and_then(|parent| if parent.enabled { Some(parent.id) } else { parent.parent });
        let above = parent_id.and_then(|id| self.done.values().find(|class| class.id == id));
        let mut limits = built_in_limits(name, self.auto(Some("_DEFAULT_BATCH")));
        if let Some(above) = above {
            inherit(&mut limits, &above.limits);
        }
        let mut rules = Vec::new();
        if let Some(definition) = definition {
            self.set(&mut limits, definition)?;
            rules = definition.rules.iter().map(Rule::parse).collect::<Result<_, _>>()?;
        }
        if let Some(above) = above {
            total(&mut limits, &above.limits);
        }
        let class = Class {
            id: self.ids[name],
            name: name.to_owned(),
            parent: parent_id,
            enabled: definition.is_none_or(|class| class.enabled),
            is_builtin: BUILT_IN.contains(&name),
            limits,
            rules,
        };
        self.done.insert(name, class);
        Ok(())
    }

    /// The id of an enabled class.
    fn auto(&self, name: Option<&str>) -> Option<ClassId> {
        let name = name?;
        let enabled = self.definitions.classes.get(name).is_none_or(|class| class.enabled);
        self.ids.get(name).copied().filter(|_| enabled)
    }

    fn mappings(&self) -> Result<Vec<Arc<Mapping>>, Problem> {
        let mut mappings = Vec::new();
        for definition in self.definitions.mappings.values().filter(|mapping| mapping.enabled) {
            let Some(class) = self.auto(Some(&definition.class)) else { continue };
            let patterns = mapping::patterns(&definition.settings, definition.wildcard)?;
            mappings.push(Arc::new(Mapping::new(&definition.name, class, patterns)));
        }
        mapping::sort(&mut mappings);
        Ok(mappings)
    }

    fn set(&self, limits: &mut Limits, definition: &ClassDefinition) -> Result<(), Problem> {
        let name: Arc<str> = Arc::from(definition.name.as_str());
        for (key, text) in &definition.settings {
            let key = Key::parse(key)?;
            self.set_one(limits, key, key.read(text)?);
            limits.origins.insert(key, Arc::clone(&name));
        }
        Ok(())
    }

    fn set_one(&self, limits: &mut Limits, key: Key, value: Value) {
        let memory = self.machine.memory_bytes;
        let threads = u64::from(self.machine.threads);
        match value {
            Value::Number(number) => set_number(limits, key, number),
            Value::Time(time) => set_time(limits, key, time),
            Value::Cache(cache) => limits.cache = cache,
            Value::Class(class) => limits.auto_class = self.auto(class.as_deref()),
            Value::Amount(amount) => match key {
                Key::StatementMemoryLimit => {
                    limits.statement_memory = above_zero(amount.of(memory))
                }
                Key::TotalStatementMemoryLimit => {
                    limits.total_memory = above_zero(amount.of(memory))
                }
                Key::StatementThreadLimit => {
                    limits.statement_threads = thread_count(amount.of(threads))
                }
                _ => limits.total_threads = thread_count(amount.of(threads)),
            },
        }
    }
}

/// What a class has before its definition is looked at.
fn built_in_limits(name: &str, batch: Option<ClassId>) -> Limits {
    let unfenced = |priority: u8| Limits {
        priority,
        queue_memory: None,
        reject_memory: None,
        ..Limits::default()
    };
    match name {
        "_SYS_CRITICAL" | "_ADMIN" => unfenced(9),
        "_SYS_BACKGROUND" => unfenced(1),
        "_DEFAULT" => Limits { auto_class: batch, ..Limits::default() },
        "_DEFAULT_BATCH" => Limits { priority: 3, ..Limits::default() },
        _ => Limits::default(),
    }
}

/// What a child has of its parent's, unless it says something else.
fn inherit(limits: &mut Limits, parent: &Limits) {
    limits.priority = parent.priority;
    if let Some(name) = parent.origins.get(&Key::Priority) {
        limits.origins.insert(Key::Priority, Arc::clone(name));
    }
}

/// A child's TOTAL limits are at most its parent's.
fn total(limits: &mut Limits, parent: &Limits) {
    let threads = limits.total_threads;
    if parent.total_threads.is_some_and(|above| threads.is_none_or(|own| above < own)) {
        limits.total_threads = parent.total_threads;
        take_origin(limits, parent, Key::TotalStatementThreadLimit);
    }
    let memory = limits.total_memory;
    if parent.total_memory.is_some_and(|above| memory.is_none_or(|own| above < own)) {
        limits.total_memory = parent.total_memory;
        take_origin(limits, parent, Key::TotalStatementMemoryLimit);
    }
}

fn take_origin(limits: &mut Limits, parent: &Limits, key: Key) {
    if let Some(name) = parent.origins.get(&key) {
        limits.origins.insert(key, Arc::clone(name));
    }
}

fn set_number(limits: &mut Limits, key: Key, number: u32) {
    let small = u8::try_from(number).unwrap_or(u8::MAX);
    // A threshold of 100 is never reached (HANA).
    let threshold = (small < 100).then_some(small);
    match key {
        Key::Priority => limits.priority = small,
        Key::ConcurrencyLimit => limits.concurrency = (number > 0).then_some(number),
        Key::ConnectionLimit => limits.connections = (number > 0).then_some(number),
        Key::QueueLimit => limits.queue_limit = number,
        Key::Floor => limits.floor_per_mille = number,
        Key::RejectCpuThreshold => limits.reject_cpu = threshold,
        Key::QueueCpuThreshold => limits.queue_cpu = threshold,
        Key::RejectMemoryThreshold => limits.reject_memory = threshold,
        Key::QueueMemoryThreshold => limits.queue_memory = threshold,
        _ => unreachable!("{key:?} is no number"),
    }
}

fn set_time(limits: &mut Limits, key: Key, time: Duration) {
    let limit = (!time.is_zero()).then_some(time);
    match key {
        Key::StatementTimeout => limits.statement_timeout = limit,
        Key::WriteTransactionLifetime => limits.write_transaction_lifetime = limit,
        Key::IdleCursorLifetime => limits.idle_cursor_lifetime = limit,
        Key::QueueTimeout => limits.queue_timeout = time,
        Key::LatencyTargetP50 => limits.targets[0] = limit,
        Key::LatencyTargetP95 => limits.targets[1] = limit,
        Key::LatencyTargetP99 => limits.targets[2] = limit,
        Key::LatencyTargetP999 => limits.targets[3] = limit,
        _ => unreachable!("{key:?} is no time"),
    }
}

fn above_zero(amount: u64) -> Option<u64> {
    (amount > 0).then_some(amount)
}

fn thread_count(amount: u64) -> Option<u32> {
    above_zero(amount).map(|amount| u32::try_from(amount).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
