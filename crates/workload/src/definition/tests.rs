//! Tests of changes of definitions.

use super::*;

fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn rule(name: &str, action: &str) -> RuleDefinition {
    RuleDefinition {
        name: name.to_owned(),
        condition: "STATEMENT CPU TIME > 30s".to_owned(),
        action: action.to_owned(),
        dry_run: false,
    }
}

/// Classes A, B below A, C below B.
fn tree() -> Definitions {
    let mut definitions = Definitions::default();
    definitions.create_class("A", None, &pairs(&[("priority", "2")])).unwrap();
    definitions.create_class("B", Some("A"), &[]).unwrap();
    definitions.create_class("C", Some("B"), &[]).unwrap();
    definitions
}

fn kind(result: Result<(), Problem>) -> Option<ProblemKind> {
    result.err().map(|problem| problem.kind)
}

#[test]
fn settings_are_stored_by_their_own_names_with_the_users_values() {
    let mut definitions = tree();
    definitions
        .alter_class("A", ClassChange::Set(&pairs(&[("statement  timeout", "50ms")])))
        .unwrap();
    let stored = &definitions.classes["A"].settings;
    let expected = pairs(&[("PRIORITY", "2"), ("STATEMENT TIMEOUT", "50ms")]);
    assert_eq!(stored.clone().into_iter().collect::<Vec<_>>(), expected);
    definitions.alter_class("A", ClassChange::Unset(&["PRIORITY".to_owned()])).unwrap();
    assert_eq!(definitions.classes["A"].settings.len(), 1);
}

#[test]
fn definitions_survive_being_stored() {
    let mut definitions = tree();
    definitions.alter_class("A", ClassChange::AddRule(rule("r", "SWITCH TO \"B\""))).unwrap();
    definitions.create_mapping("M", "C", &pairs(&[("CLIENT", "7*")]), Some('*')).unwrap();
    definitions.brake = Brake::Light;
    let text = serde_json::to_string(&definitions).unwrap();
    assert_eq!(serde_json::from_str::<Definitions>(&text).unwrap(), definitions);
}

#[test]
fn a_fourth_level_and_circles_are_refused() {
    let mut definitions = tree();
    let before = definitions.clone();
    assert_eq!(kind(definitions.create_class("D", Some("C"), &[])), Some(ProblemKind::TooDeep));
    assert_eq!(
        kind(definitions.alter_class("A", ClassChange::Parent(Some("C")))),
        Some(ProblemKind::Conflict)
    );
    assert_eq!(
        kind(definitions.alter_class("A", ClassChange::Parent(Some("A")))),
        Some(ProblemKind::Conflict)
    );
    definitions.create_class("D", None, &[]).unwrap();
    assert_eq!(
        kind(definitions.alter_class("A", ClassChange::Parent(Some("D")))),
        Some(ProblemKind::TooDeep)
    );
    assert_eq!(
        kind(definitions.create_class("E", Some("X"), &[])),
        Some(ProblemKind::UnknownClass)
    );
    assert_eq!(
        kind(definitions.create_class("E", Some("_DEFAULT"), &[])),
        Some(ProblemKind::Conflict)
    );
    definitions.drop_class("D").unwrap();
    assert_eq!(definitions, before);
}

#[test]
fn a_class_that_is_named_stays() {
    let mut definitions = tree();
    definitions.create_class("D", None, &pairs(&[("AUTO CLASS", "C")])).unwrap();
    definitions.alter_class("D", ClassChange::AddRule(rule("r", "SWITCH TO \"C\""))).unwrap();
    definitions.create_mapping("M", "C", &pairs(&[("CLIENT", "7")]), None).unwrap();
    let problem = definitions.drop_class("C").unwrap_err();
    assert_eq!(problem.kind, ProblemKind::InUse);
    let detail = "The class is named by workload mapping \"M\", workload class \"D\".";
    assert_eq!(problem.detail.as_deref(), Some(detail));
    definitions.alter_mapping("M", MappingChange::Class("A")).unwrap();
    definitions.alter_class("D", ClassChange::DropRule("r")).unwrap();
    assert_eq!(kind(definitions.drop_class("C")), Some(ProblemKind::InUse));
    definitions.alter_class("D", ClassChange::Set(&pairs(&[("AUTO CLASS", "off")]))).unwrap();
    definitions.drop_class("C").unwrap();
    assert_eq!(kind(definitions.drop_class("A")), Some(ProblemKind::InUse));
    assert_eq!(kind(definitions.drop_class("C")), Some(ProblemKind::Missing));
}

#[test]
fn names_exist_once_and_the_engines_are_reserved() {
    let mut definitions = tree();
    for (name, expected) in [
        ("A", ProblemKind::Exists),
        ("_ADMIN", ProblemKind::Exists),
        ("_sys_x", ProblemKind::Conflict),
        ("", ProblemKind::BadValue),
    ] {
        assert_eq!(kind(definitions.create_class(name, None, &[])), Some(expected), "{name:?}");
    }
    let client = pairs(&[("CLIENT", "1")]);
    definitions.create_mapping("M", "A", &client, None).unwrap();
    assert_eq!(
        kind(definitions.create_mapping("M", "A", &client, None)),
        Some(ProblemKind::Exists)
    );
    assert_eq!(
        kind(definitions.create_mapping("N", "X", &client, None)),
        Some(ProblemKind::UnknownClass)
    );
    assert_eq!(
        kind(definitions.create_mapping("N", "_SYS_CRITICAL", &client, None)),
        Some(ProblemKind::Conflict)
    );
    assert_eq!(
        kind(definitions.alter_mapping("X", MappingChange::Enable(true))),
        Some(ProblemKind::Missing)
    );
    assert_eq!(kind(definitions.drop_mapping("X")), Some(ProblemKind::Missing));
    definitions.create_mapping("N", "_ADMIN", &client, None).unwrap();
}

#[test]
fn default_classes_are_altered_and_go_back() {
    let mut definitions = Definitions::default();
    definitions.alter_class("_DEFAULT", ClassChange::Set(&pairs(&[("QUEUE LIMIT", "5")]))).unwrap();
    assert_eq!(definitions.classes["_DEFAULT"].settings["QUEUE LIMIT"], "5");
    definitions.alter_class("_DEFAULT", ClassChange::Unset(&["queue limit".to_owned()])).unwrap();
    assert_eq!(definitions, Definitions::default());
    for change in [ClassChange::Enable(false), ClassChange::Parent(None)] {
        assert_eq!(kind(definitions.alter_class("_DEFAULT", change)), Some(ProblemKind::Conflict));
    }
    assert_eq!(
        kind(definitions.alter_class("_ADMIN", ClassChange::Set(&[]))),
        Some(ProblemKind::Conflict)
    );
    assert_eq!(kind(definitions.drop_class("_ADMIN")), Some(ProblemKind::Conflict));
    assert_eq!(
        kind(definitions.alter_class("X", ClassChange::Enable(true))),
        Some(ProblemKind::Missing)
    );
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let mut definitions = Definitions::default();
    let mut create = |name: &str, settings: &[(&str, &str)]| {
        kind(definitions.create_class(name, None, &pairs(settings)))
    };
    let twice = [("PRIORITY", "1"), ("priority", "2")];
    assert_eq!(create("A", &twice), Some(ProblemKind::Conflict));
    let crossed = [("LATENCY TARGET P50", "2s"), ("LATENCY TARGET P99", "1s")];
    assert_eq!(create("A", &crossed), Some(ProblemKind::Conflict));
    assert_eq!(create("A", &[("AUTO CLASS", "A")]), Some(ProblemKind::Conflict));
    assert_eq!(create("A", &[("AUTO CLASS", "B")]), Some(ProblemKind::UnknownClass));
    assert_eq!(create("A", &[("PRIORTY", "1")]), Some(ProblemKind::UnknownKey));
    assert_eq!(create("A", &[("PRIORITY", "x")]), Some(ProblemKind::BadValue));
    assert_eq!(create("A", &[("FLOOR", "30%")]), None);
    assert_eq!(create("B", &[("FLOOR", "201")]), Some(ProblemKind::Conflict));
    assert_eq!(create("B", &[("FLOOR", "200")]), None);
}

#[test]
fn rules_are_checked_when_they_are_added() {
    let mut definitions = tree();
    let mut add = |name: &str, action: &str| {
        kind(definitions.alter_class("A", ClassChange::AddRule(rule(name, action))))
    };
    assert_eq!(add("r", "KILL"), Some(ProblemKind::Syntax));
    assert_eq!(add("r", "SWITCH TO X"), Some(ProblemKind::UnknownClass));
    assert_eq!(add("r", "SWITCH TO A"), Some(ProblemKind::Conflict));
    assert_eq!(add("r", "CANCEL"), None);
    assert_eq!(add("r", "LOG"), Some(ProblemKind::Exists));
    for number in 1..RULES_MAX {
        assert_eq!(add(&format!("r{number}"), "LOG"), None);
    }
    assert_eq!(add("more", "LOG"), Some(ProblemKind::Limit));
    assert_eq!(
        kind(definitions.alter_class("A", ClassChange::DropRule("none"))),
        Some(ProblemKind::Missing)
    );
}

#[test]
fn classes_are_as_many_as_the_runtime_tells_apart() {
    let mut definitions = Definitions::default();
    for number in BUILT_IN.len()..CLASSES {
        definitions.create_class(&format!("C{number}"), None, &[]).unwrap();
    }
    assert_eq!(kind(definitions.create_class("ONE MORE", None, &[])), Some(ProblemKind::Limit));
    definitions.alter_class("_DEFAULT", ClassChange::Set(&pairs(&[("PRIORITY", "4")]))).unwrap();
}

#[test]
fn all_are_enabled_and_disabled_but_the_engines_own() {
    let mut definitions = tree();
    definitions.alter_class("_DEFAULT", ClassChange::Set(&pairs(&[("PRIORITY", "4")]))).unwrap();
    definitions.create_mapping("M", "C", &pairs(&[("CLIENT", "7")]), None).unwrap();
    definitions.enable_all_classes(false);
    definitions.enable_all_mappings(false);
    assert!(definitions.mappings.values().all(|mapping| !mapping.enabled));
    let enabled: Vec<&str> = definitions
        .classes
        .values()
        .filter(|class| class.enabled)
        .map(|class| class.name.as_str())
        .collect();
    assert_eq!(enabled, ["_DEFAULT"]);
}
