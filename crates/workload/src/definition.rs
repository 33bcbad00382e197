//! Definitions: what users wrote about classes and mappings, as the catalog stores them.
//!
//! A change is made on a copy, which is checked as a whole ([`Definitions::check`]) and takes the place of the
//! definitions only if nothing is wrong with the result.
//!
//! The tree of classes has at most three levels. Children inherit PRIORITY and the two TOTAL limits, which count a
//! class's statements and those of all classes below it; a child's own TOTAL limits hold beside its parent's. HANA
//! demands that a class with a parent or children sets all three; here what is not set is inherited.
//!
//! `_DEFAULT` and `_DEFAULT_BATCH` may be altered like classes of users, and cannot be dropped, disabled or put into a
//! tree. The classes of the engine itself and the administrator's lane cannot be altered: a mistake there would lock
//! out the administrator who is to mend the mistake.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::key::{FLOORS_MAX, Key, MappingKey, Value};
use crate::limits::CLASSES;
use crate::mapping;
use crate::problem::{Problem, ProblemKind};
use crate::rules::{Action, Rule, RuleDefinition};

/// Names of the built-in classes, by id.
pub(crate) const BUILT_IN: [&str; 5] =
    ["_SYS_CRITICAL", "_SYS_BACKGROUND", "_ADMIN", "_DEFAULT", "_DEFAULT_BATCH"];
/// Built-in classes that users may alter.
const ALTERABLE: [&str; 2] = ["_DEFAULT", "_DEFAULT_BATCH"];
/// Built-in classes to which mappings may lead.
const MAPPABLE: [&str; 3] = ["_ADMIN", "_DEFAULT", "_DEFAULT_BATCH"];
/// Levels of the tree of classes.
const LEVELS_MAX: usize = 3;
/// The most mappings: each is looked at when a session's class is looked for.
const MAPPINGS_MAX: usize = 1_000;
/// The most rules of a class: each is looked at while a statement runs.
const RULES_MAX: usize = 16;
/// The longest name, in bytes.
const NAME_MAX: usize = 127;

/// A workload class as a user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassDefinition {
    /// The name.
    pub name: String,
    /// The class above in the tree.
    pub parent: Option<String>,
    /// Whether mappings and hints lead to the class, and its limits hold for its children.
    pub enabled: bool,
    /// Values by setting, as texts.
    pub settings: BTreeMap<String, String>,
    /// Rules, in the order in which they were added.
    pub rules: Vec<RuleDefinition>,
}

/// A workload mapping as a user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingDefinition {
    /// The name.
    pub name: String,
    /// The class to which the mapping leads.
    pub class: String,
    /// Whether the mapping is looked at.
    pub enabled: bool,
    /// Values by setting.
    pub settings: BTreeMap<String, String>,
    /// The character that ends a value of which only the beginning counts.
    pub wildcard: Option<char>,
}

/// How much of the work is held back, whatever its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Brake {
    /// Nothing is held back.
    #[default]
    Off,
    /// New statements of a priority below the default wait.
    Light,
    /// Only the administrator's lane and the engine itself go on.
    Full,
}

/// All classes and mappings, by name, and the brake.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Definitions {
    /// Classes of users, and built-in ones that were altered.
    pub classes: BTreeMap<String, ClassDefinition>,
    /// Mappings.
    pub mappings: BTreeMap<String, MappingDefinition>,
    /// The brake.
    pub brake: Brake,
}

/// A change of a class.
#[derive(Clone, Debug)]
pub enum ClassChange<'a> {
    /// Sets settings; those that are not named stay.
    Set(&'a [(String, String)]),
    /// Takes settings back to their defaults.
    Unset(&'a [String]),
    /// Enables or disables the class.
    Enable(bool),
    /// Adds a rule.
    AddRule(RuleDefinition),
    /// Drops a rule by name.
    DropRule(&'a str),
    /// Moves the class below another, or to the top.
    Parent(Option<&'a str>),
}

/// A change of a mapping.
#[derive(Clone, Debug)]
pub enum MappingChange<'a> {
    /// Sets settings; those that are not named stay.
    Set(&'a [(String, String)]),
    /// Takes settings away.
    Unset(&'a [String]),
    /// Enables or disables the mapping.
    Enable(bool),
    /// Leads to another class.
    Class(&'a str),
    /// Changes the wildcard, or takes it away.
    Wildcard(Option<char>),
}

impl Definitions {
    /// Adds a class.
    ///
    /// Errors: [`ProblemKind::Exists`], and what [`Definitions::check`] finds.
    pub fn create_class(
        &mut self,
        name: &str,
        parent: Option<&str>,
        settings: &[(String, String)],
    ) -> Result<(), Problem> {
        if self.has_class(name) {
            return Err(Problem::new(
                ProblemKind::Exists,
                format!("workload class {name:?} already exists"),
            ));
        }
        if is_reserved(name) {
            let message = format!("workload class name {name:?} is reserved");
            return Err(Problem::new(ProblemKind::Conflict, message)
                .detail("Names that begin with \"_SYS_\" or \"_DEFAULT\", and \"_ADMIN\", are the engine's."));
        }
        let class = ClassDefinition {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            enabled: true,
            settings: canonical_settings(settings, class_key)?,
            rules: Vec::new(),
        };
        self.change(|definitions| {
            definitions.classes.insert(name.to_owned(), class);
            Ok(())
        })
    }

    /// Changes a class.
    ///
    /// Errors: [`ProblemKind::Missing`] for the class or the rule, [`ProblemKind::Exists`] for a rule,
    /// [`ProblemKind::Conflict`] for a built-in class, and what [`Definitions::check`] finds.
    pub fn alter_class(&mut self, name: &str, change: ClassChange<'_>) -> Result<(), Problem> {
        let is_built_in = BUILT_IN.contains(&name);
        if !self.has_class(name) {
            return Err(missing("workload class", name));
        }
        let moves = matches!(change, ClassChange::Enable(_) | ClassChange::Parent(_));
        if is_built_in && (moves || !ALTERABLE.contains(&name)) {
            return Err(built_in(name, "be altered so"));
        }
        self.change(|definitions| {
            let new = || ClassDefinition {
                name: name.to_owned(),
                enabled: true,
                ..ClassDefinition::default()
            };
            let class = definitions.classes.entry(name.to_owned()).or_insert_with(new);
            class.apply(change)?;
            if is_built_in && class.settings.is_empty() && class.rules.is_empty() {
                definitions.classes.remove(name);
            }
            Ok(())
        })
    }

    /// Removes a class.
    ///
    /// Errors: [`ProblemKind::Missing`]; [`ProblemKind::InUse`] while a mapping, a child, a rule or the AUTO CLASS of
    /// another class names the class; [`ProblemKind::Conflict`] for a built-in class.
    pub fn drop_class(&mut self, name: &str) -> Result<(), Problem> {
        if BUILT_IN.contains(&name) {
            return Err(built_in(name, "be dropped"));
        }
        if !self.classes.contains_key(name) {
            return Err(missing("workload class", name));
        }
        let users = self.users(name);
        if !users.is_empty() {
            let message = format!(
                "cannot drop workload class {name:?} because other definitions name the class"
            );
            return Err(Problem::new(ProblemKind::InUse, message)
                .detail(format!("The class is named by {}.", users.join(", ")))
                .hint("Alter or drop them first."));
        }
        self.classes.remove(name);
        Ok(())
    }

    /// Definitions that name the class.
    fn users(&self, name: &str) -> Vec<String> {
        let mut users = Vec::new();
        for mapping in self.mappings.values().filter(|mapping| mapping.class == name) {
            users.push(format!("workload mapping {:?}", mapping.name));
        }
        for class in self.classes.values().filter(|class| class.name != name) {
            let is_named = class.parent.as_deref() == Some(name)
                || class.auto_class().is_some_and(|auto| auto == name)
                || class.switches().any(|to| to == name);
            if is_named {
                users.push(format!("workload class {:?}", class.name));
            }
        }
        users
    }

    /// Adds a mapping.
    ///
    /// Errors: [`ProblemKind::Exists`], and what [`Definitions::check`] finds.
    pub fn create_mapping(
        &mut self,
        name: &str,
        class: &str,
        settings: &[(String, String)],
        wildcard: Option<char>,
    ) -> Result<(), Problem> {
        if self.mappings.contains_key(name) {
            let message = format!("workload mapping {name:?} already exists");
            return Err(Problem::new(ProblemKind::Exists, message));
        }
        let mapping = MappingDefinition {
            name: name.to_owned(),
            class: class.to_owned(),
            enabled: true,
            settings: canonical_settings(settings, mapping_key)?,
            wildcard,
        };
        self.change(|definitions| {
            definitions.mappings.insert(name.to_owned(), mapping);
            Ok(())
        })
    }

    /// Changes a mapping.
    ///
    /// Errors: [`ProblemKind::Missing`], and what [`Definitions::check`] finds.
    pub fn alter_mapping(&mut self, name: &str, change: MappingChange<'_>) -> Result<(), Problem> {
        self.change(|definitions| {
            let mapping = definitions.mappings.get_mut(name);
            mapping.ok_or_else(|| missing("workload mapping", name))?.apply(change)
        })
    }

    /// Removes a mapping.
    ///
    /// Errors: [`ProblemKind::Missing`].
    pub fn drop_mapping(&mut self, name: &str) -> Result<(), Problem> {
        let gone = self.mappings.remove(name);
        gone.map(|_| ()).ok_or_else(|| missing("workload mapping", name))
    }

    /// Enables or disables all classes of users.
    pub fn enable_all_classes(&mut self, enabled: bool) {
        let own =
            self.classes.values_mut().filter(|class| !BUILT_IN.contains(&class.name.as_str()));
        own.for_each(|class| class.enabled = enabled);
    }

    /// Enables or disables all mappings.
    pub fn enable_all_mappings(&mut self, enabled: bool) {
        self.mappings.values_mut().for_each(|mapping| mapping.enabled = enabled);
    }

    /// Whether there is a class of the name, built-in ones among them.
    pub fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name) || BUILT_IN.contains(&name)
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut Definitions) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut changed = self.clone();
        change(&mut changed)?;
        changed.check()?;
        *self = changed;
        Ok(())
    }

    /// Whether every definition means something, alone and with the others.
    ///
    /// Errors: the first problem found, of any kind but [`ProblemKind::Exists`], [`ProblemKind::Missing`] and
    /// [`ProblemKind::InUse`].
    pub fn check(&self) -> Result<(), Problem> {
        for class in self.classes.values() {
            self.check_class(class)?;
        }
        let own = self.classes.keys().filter(|name| !BUILT_IN.contains(&name.as_str()));
        at_most("workload classes", own.count(), CLASSES - BUILT_IN.len())?;
        at_most("workload mappings", self.mappings.len(), MAPPINGS_MAX)?;
        self.check_floors()?;
        for mapping in self.mappings.values() {
            check_name("workload mapping", &mapping.name)?;
            mapping::patterns(&mapping.settings, mapping.wildcard)?;
            let is_system = BUILT_IN.contains(&mapping.class.as_str())
                && !MAPPABLE.contains(&mapping.class.as_str());
            if is_system {
                return Err(built_in(&mapping.class, "be mapped to"));
            }
            self.expect_class(&mapping.class)?;
        }
        Ok(())
    }

    fn check_class(&self, class: &ClassDefinition) -> Result<(), Problem> {
        check_name("workload class", &class.name)?;
        for (key, value) in &class.settings {
            Key::parse(key)?.read(value)?;
        }
        class.check_targets()?;
        self.check_parents(class)?;
        at_most("rules of a workload class", class.rules.len(), RULES_MAX)?;
        let auto = class.auto_class();
        let rules = class.rules.iter().map(Rule::parse).collect::<Result<Vec<_>, _>>()?;
        let switches = rules.iter().filter_map(|rule| match &rule.action {
            Action::SwitchTo(name) => Some(name),
            _ => None,
        });
        for name in switches.chain(&auto) {
            self.expect_class(name)?;
            if *name == class.name {
                let message = format!("workload class {name:?} sends statements to itself");
                return Err(Problem::new(ProblemKind::Conflict, message));
            }
        }
        Ok(())
    }

    fn check_parents(&self, class: &ClassDefinition) -> Result<(), Problem> {
        let mut level = 1;
        let mut parent = class.parent.as_deref();
        while let Some(name) = parent {
            if BUILT_IN.contains(&name) {
                return Err(built_in(name, "have children"));
            }
            self.expect_class(name)?;
            if name == class.name {
                let message = format!("workload class {name:?} would be above itself");
                return Err(Problem::new(ProblemKind::Conflict, message));
            }
            level += 1;
            if level > LEVELS_MAX {
                let message = format!(
                    "workload class {:?} would be on level {level} of the tree",
                    class.name
                );
                return Err(Problem::new(ProblemKind::TooDeep, message).detail(format!(
                    "The tree of workload classes has at most {LEVELS_MAX} levels."
                )));
            }
            parent = self.classes.get(name).and_then(|class| class.parent.as_deref());
        }
        Ok(())
    }

    fn check_floors(&self) -> Result<(), Problem> {
        let floors = self.classes.values().filter_map(|class| match class.value(Key::Floor) {
            Some(Value::Number(floor)) => Some(floor),
            _ => None,
        });
        let sum: u32 = floors.sum();
        if sum <= FLOORS_MAX {
            return Ok(());
        }
        let message =
            format!("the floors of all workload classes would be {sum} per mille together");
        Err(Problem::new(ProblemKind::Conflict, message)
            .detail(format!("At most {FLOORS_MAX} per mille of the time may be kept for floors.")))
    }

    fn expect_class(&self, name: &str) -> Result<(), Problem> {
        if self.has_class(name) {
            return Ok(());
        }
        Err(Problem::new(
            ProblemKind::UnknownClass,
            format!("workload class {name:?} does not exist"),
        ))
    }
}

impl ClassDefinition {
    /// What a setting's text means, if the class sets it and the text is a value.
    pub(crate) fn value(&self, key: Key) -> Option<Value> {
        self.settings.get(key.name()).and_then(|text| key.read(text).ok())
    }

    fn auto_class(&self) -> Option<String> {
        match self.value(Key::AutoClass) {
            Some(Value::Class(class)) => class,
            _ => None,
        }
    }

    fn switches(&self) -> impl Iterator<Item = String> {
        self.rules.iter().filter_map(|rule| match Rule::parse(rule).ok()?.action {
            Action::SwitchTo(name) => Some(name),
            _ => None,
        })
    }

    fn check_targets(&self) -> Result<(), Problem> {
        let keys = [
            Key::LatencyTargetP50,
            Key::LatencyTargetP95,
            Key::LatencyTargetP99,
            Key::LatencyTargetP999,
        ];
        let mut last = None;
        for key in keys {
            let Some(Value::Time(target)) = self.value(key) else { continue };
            if let Some((lower, _)) = last.filter(|(_, time)| *time > target) {
                let lower: Key = lower;
                let message = format!(
                    "{:?} of workload class {:?} is below {:?}",
                    key.name(),
                    self.name,
                    lower.name()
                );
                return Err(Problem::new(ProblemKind::Conflict, message));
            }
            last = Some((key, target));
        }
        Ok(())
    }

    fn apply(&mut self, change: ClassChange<'_>) -> Result<(), Problem> {
        match change {
            ClassChange::Set(settings) => {
                self.settings.extend(canonical_settings(settings, class_key)?)
            }
            ClassChange::Unset(keys) => unset(&mut self.settings, keys, class_key)?,
            ClassChange::Enable(enabled) => self.enabled = enabled,
            ClassChange::Parent(parent) => self.parent = parent.map(str::to_owned),
            ClassChange::AddRule(rule) => {
                if self.rules.iter().any(|other| other.name == rule.name) {
                    let message = format!(
                        "rule {:?} of workload class {:?} already exists",
                        rule.name, self.name
                    );
                    return Err(Problem::new(ProblemKind::Exists, message));
                }
                check_name("rule of a workload class", &rule.name)?;
                self.rules.push(rule);
            }
            ClassChange::DropRule(name) => {
                let at = self.rules.iter().position(|rule| rule.name == name);
                let missing = || missing(&format!("rule of workload class {:?}", self.name), name);
                self.rules.remove(at.ok_or_else(missing)?);
            }
        }
        Ok(())
    }
}

impl MappingDefinition {
    fn apply(&mut self, change: MappingChange<'_>) -> Result<(), Problem> {
        match change {
            MappingChange::Set(settings) => {
                self.settings.extend(canonical_settings(settings, mapping_key)?)
            }
            MappingChange::Unset(keys) => unset(&mut self.settings, keys, mapping_key)?,
            MappingChange::Enable(enabled) => self.enabled = enabled,
            MappingChange::Class(class) => self.class = class.to_owned(),
            MappingChange::Wildcard(wildcard) => self.wildcard = wildcard,
        }
        Ok(())
    }
}

/// The stored name of a setting.
type StoredName = fn(&str) -> Result<&'static str, Problem>;

fn class_key(text: &str) -> Result<&'static str, Problem> {
    Key::parse(text).map(Key::name)
}

fn mapping_key(text: &str) -> Result<&'static str, Problem> {
    MappingKey::parse(text).map(MappingKey::name)
}

fn canonical_settings(
    settings: &[(String, String)],
    name: StoredName,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut stored = BTreeMap::new();
    for (key, value) in settings {
        let key = name(key)?;
        if stored.insert(key.to_owned(), value.clone()).is_some() {
            let message = format!("workload setting {key:?} is given more than once");
            return Err(Problem::new(ProblemKind::Conflict, message));
        }
    }
    Ok(stored)
}

fn unset(
    settings: &mut BTreeMap<String, String>,
    keys: &[String],
    name: StoredName,
) -> Result<(), Problem> {
    for key in keys {
        settings.remove(name(key)?);
    }
    Ok(())
}

fn is_reserved(name: &str) -> bool {
    let upper = name.to_uppercase();
    upper.starts_with("_SYS_") || upper.starts_with("_DEFAULT") || upper == "_ADMIN"
}

fn check_name(of: &str, name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
        let message = format!("invalid name {name:?} of a {of}");
        return Err(Problem::new(ProblemKind::BadValue, message)
            .hint(format!("A name has 1 to {NAME_MAX} bytes.")));
    }
    Ok(())
}

fn at_most(of: &str, count: usize, max: usize) -> Result<(), Problem> {
    if count <= max {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::Limit, format!("too many {of}"))
        .detail(format!("There may be {max}.")))
}

fn missing(of: &str, name: &str) -> Problem {
    Problem::new(ProblemKind::Missing, format!("{of} {name:?} does not exist"))
}

fn built_in(name: &str, what: &str) -> Problem {
    Problem::new(ProblemKind::Conflict, format!("built-in workload class {name:?} cannot {what}"))
}

#[cfg(test)]
mod tests;
