//! Workload classes and mappings as SQL text, for EXPORT DATABASE.
//!
//! A class stands behind its parent; what names other classes (rules, AUTO CLASS) comes when all are there.

use halcyon_catalog::Catalog;
use halcyon_sql::identifier::quote_ident;
use halcyon_workload::{
    Brake, ClassDefinition, Definitions, Key, MappingDefinition, RuleDefinition,
};

/// Statements that make all classes and mappings of a catalog, and put the brake where it is.
pub(super) fn define(catalog: &Catalog, line: &mut impl FnMut(String)) {
    let definitions = &catalog.workload;
    let level = |class: &ClassDefinition| {
        let above = |name: &String| definitions.classes.get(name)?.parent.clone();
        std::iter::successors(class.parent.clone(), above).count()
    };
    let mut classes: Vec<&ClassDefinition> = definitions.classes.values().collect();
    classes.sort_by_key(|class| level(class));
    classes.iter().for_each(|class| begin_class(class, line));
    classes.iter().for_each(|class| finish_class(class, line));
    definitions.mappings.values().for_each(|mapping| define_mapping(mapping, line));
    match definitions.brake {
        Brake::Off => {}
        Brake::Light => line("ALTER SYSTEM SET WORKLOAD BRAKE = LIGHT".into()),
        Brake::Full => line("ALTER SYSTEM SET WORKLOAD BRAKE = FULL".into()),
    }
}

fn begin_class(class: &ClassDefinition, line: &mut impl FnMut(String)) {
    let (name, late) = (quote_ident(&class.name), Key::AutoClass.name());
    let settings = class.settings.iter().filter(|(key, _)| *key != late);
    let settings = set(settings).unwrap_or_default();
    let is_built_in = Definitions::default().has_class(&class.name);
    if is_built_in {
        if !settings.is_empty() {
            line(format!("ALTER WORKLOAD CLASS {name}{settings}"));
        }
        return;
    }
    let parent = class.parent.as_ref().map(|parent| format!(" PARENT {}", quote_ident(parent)));
    line(format!("CREATE WORKLOAD CLASS {name}{}{settings}", parent.unwrap_or_default()));
}

fn finish_class(class: &ClassDefinition, line: &mut impl FnMut(String)) {
    let name = quote_ident(&class.name);
    let late = class.settings.iter().filter(|(key, _)| *key == Key::AutoClass.name());
    if let Some(settings) = set(late) {
        line(format!("ALTER WORKLOAD CLASS {name}{settings}"));
    }
    class.rules.iter().for_each(|rule| line(add_rule(&name, rule)));
    if !class.enabled {
        line(format!("ALTER WORKLOAD CLASS {name} DISABLE"));
    }
}

fn add_rule(class: &str, rule: &RuleDefinition) -> String {
    let sign = rule.condition.rfind(['>', '=']).expect("a condition has a sign");
    let (measure, value) = rule.condition.split_at(sign + 1);
    format!(
        "ALTER WORKLOAD CLASS {class} ADD RULE {} WHEN {measure} {} THEN {}{}",
        quote_ident(&rule.name),
        quoted(value.trim()),
        rule.action,
        if rule.dry_run { " DRY RUN" } else { "" }
    )
}

fn define_mapping(mapping: &MappingDefinition, line: &mut impl FnMut(String)) {
    let name = quote_ident(&mapping.name);
    let settings = set(mapping.settings.iter()).unwrap_or_default();
    let wildcard = mapping.wildcard.map(|c| format!(" WITH WILDCARD {}", quoted(&c.to_string())));
    line(format!(
        "CREATE WORKLOAD MAPPING {name} WORKLOAD CLASS {}{settings}{}",
        quote_ident(&mapping.class),
        wildcard.unwrap_or_default()
    ));
    if !mapping.enabled {
        line(format!("ALTER WORKLOAD MAPPING {name} DISABLE"));
    }
}

/// SET with a blank before it; `None` for no settings.
fn set<'a>(settings: impl Iterator<Item = (&'a String, &'a String)>) -> Option<String> {
    let one = |(key, value): (&String, &String)| format!("{} = {}", quoted(key), quoted(value));
    let settings: Vec<String> = settings.map(one).collect();
    (!settings.is_empty()).then(|| format!(" SET {}", settings.join(", ")))
}

/// A text in quotes; backslashes stand for themselves.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
