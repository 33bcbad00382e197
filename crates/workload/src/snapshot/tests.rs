//! Tests of what definitions mean.

use halcyon_base::rng::Rng;

use super::*;
use crate::definition::{ClassChange, MappingChange};
use crate::rules::RuleDefinition;
use crate::value::CacheClass;

const MACHINE: Machine = Machine { threads: 16, memory_bytes: 64 << 30 };

fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn class(
    definitions: &mut Definitions,
    name: &str,
    parent: Option<&str>,
    settings: &[(&str, &str)],
) {
    definitions.create_class(name, parent, &pairs(settings)).unwrap();
}

fn snapshot(definitions: &Definitions, before: Option<&Snapshot>) -> Snapshot {
    let snapshot = Snapshot::new(definitions, &MACHINE, before).unwrap();
    snapshot.check();
    snapshot
}

#[test]
fn built_in_classes_are_always_there() {
    let plain = Snapshot::builtin(&MACHINE);
    plain.check();
    assert!(plain.is_plain());
    let resolution = plain.resolve(&Context { user: Some("ann"), ..Context::default() });
    assert_eq!((resolution.class, resolution.mapping), (ClassId::DEFAULT, None));
    assert_eq!(plain.class(ClassId::DEFAULT).limits.auto_class, Some(ClassId::DEFAULT_BATCH));
    assert_eq!(plain.class(ClassId::DEFAULT_BATCH).limits.priority, 3);
    assert_eq!(plain.class(ClassId(63)).id, ClassId::DEFAULT);
    let bands = [ClassId::CRITICAL, ClassId::BACKGROUND, ClassId::ADMIN]
        .map(|id| band(plain.class(id).limits.priority));
    assert_eq!(bands, [Band::Urgent, Band::Low, Band::Urgent]);
}

#[test]
fn every_setting_reaches_the_limits_and_tells_its_class() {
    let mut definitions = Definitions::default();
    let all = [
        ("PRIORITY", "8"),
        ("STATEMENT TIMEOUT", "2"),
        ("WRITE TRANSACTION LIFETIME", "3"),
        ("IDLE CURSOR LIFETIME", "4s"),
        ("STATEMENT MEMORY LIMIT", "5"),
        ("TOTAL STATEMENT MEMORY LIMIT", "50%"),
        ("STATEMENT THREAD LIMIT", "2"),
        ("TOTAL STATEMENT THREAD LIMIT", "75%"),
        ("ADMISSION CONTROL REJECT CPU THRESHOLD", "99"),
        ("ADMISSION CONTROL QUEUE CPU THRESHOLD", "90%"),
        ("ADMISSION CONTROL REJECT MEMORY THRESHOLD", "100"),
        ("ADMISSION CONTROL QUEUE MEMORY THRESHOLD", "0"),
        ("LATENCY TARGET P50", "10"),
        ("LATENCY TARGET P95", "20ms"),
        ("LATENCY TARGET P99", "50ms"),
        ("LATENCY TARGET P999", "1s"),
        ("CONCURRENCY LIMIT", "7"),
        ("QUEUE LIMIT", "0"),
        ("QUEUE TIMEOUT", "10min"),
        ("CACHE CLASS", "polluting"),
        ("FLOOR", "5%"),
        ("AUTO CLASS", "_DEFAULT_BATCH"),
        ("CONNECTION LIMIT", "9"),
    ];
    assert_eq!(all.len(), Key::ALL.len());
    class(&mut definitions, "WEB", None, &all);
    let snapshot = snapshot(&definitions, None);
    let ms = Duration::from_millis;
    let limits = &snapshot.by_name("WEB").unwrap().limits;
    let expected = Limits {
        priority: 8,
        statement_timeout: Some(ms(2_000)),
        write_transaction_lifetime: Some(ms(180_000)),
        idle_cursor_lifetime: Some(ms(4_000)),
        statement_memory: Some(5 << 30),
        total_memory: Some(32 << 30),
        statement_threads: Some(2),
        total_threads: Some(12),
        reject_cpu: Some(99),
        queue_cpu: Some(90),
        reject_memory: None,
        queue_memory: Some(0),
        targets: [Some(ms(10)), Some(ms(20)), Some(ms(50)), Some(ms(1_000))],
        concurrency: Some(7),
        queue_limit: 0,
        queue_timeout: ms(600_000),
        cache: CacheClass::Polluting,
        floor_per_mille: 50,
        auto_class: Some(ClassId::DEFAULT_BATCH),
        connections: Some(9),
        origins: limits.origins.clone(),
    };
    assert_eq!(*limits, expected);
    assert!(Key::ALL.into_iter().all(|key| limits.origin(key) == Some("WEB")));
    assert_eq!(limits.text(Key::StatementTimeout).as_deref(), Some("2s"));
    assert_eq!(limits.text(Key::Floor).as_deref(), Some("5%"));
}

#[test]
fn children_inherit_totals_and_priority_and_restrict_them() {
    let mut definitions = Definitions::default();
    let batch =
        [("PRIORITY", "2"), ("TOTAL STATEMENT THREAD LIMIT", "8"), ("STATEMENT TIMEOUT", "9")];
    class(&mut definitions, "BATCH", None, &batch);
    class(&mut definitions, "ETL", Some("BATCH"), &[("TOTAL STATEMENT THREAD LIMIT", "4")]);
    class(
        &mut definitions,
        "WIDE",
        Some("ETL"),
        &[("TOTAL STATEMENT THREAD LIMIT", "12"), ("PRIORITY", "3")],
    );
    let whole = snapshot(&definitions, None);
    let limits = |name: &str| &whole.by_name(name).unwrap().limits;
    assert_eq!((limits("ETL").priority, limits("WIDE").priority), (2, 3));
    assert_eq!((limits("ETL").total_threads, limits("WIDE").total_threads), (Some(4), Some(4)));
    assert_eq!(limits("WIDE").origin(Key::TotalStatementThreadLimit), Some("ETL"));
    assert_eq!(limits("ETL").origin(Key::Priority), Some("BATCH"));
    assert_eq!(limits("ETL").statement_timeout, None);

    definitions.alter_class("ETL", ClassChange::Enable(false)).unwrap();
    let without = snapshot(&definitions, Some(&whole));
    let wide = without.by_name("WIDE").unwrap();
    assert_eq!(wide.parent, without.by_name("BATCH").map(|class| class.id));
    assert_eq!(wide.limits.total_threads, Some(8));
}

#[test]
fn a_class_keeps_its_id_and_that_of_a_dropped_one_comes_back_late() {
    let mut definitions = Definitions::default();
    class(&mut definitions, "B", None, &[]);
    class(&mut definitions, "C", None, &[]);
    let first = snapshot(&definitions, None);
    let b = first.by_name("B").unwrap().id;
    definitions.drop_class("C").unwrap();
    class(&mut definitions, "A", None, &[]);
    let second = snapshot(&definitions, Some(&first));
    assert_eq!(second.by_name("B").unwrap().id, b);
    assert_ne!(second.by_name("A").unwrap().id, first.by_name("C").unwrap().id);
    let ids: BTreeSet<u8> = second.classes().map(|class| class.id.0).collect();
    assert_eq!(ids.len(), 7);
}

#[test]
fn ids_go_round_without_meeting() {
    let mut definitions = Definitions::default();
    class(&mut definitions, "STAYS", None, &[]);
    let mut last = snapshot(&definitions, None);
    let stays = last.by_name("STAYS").unwrap().id;
    for round in 0..200 {
        let name = format!("C{round}");
        class(&mut definitions, &name, None, &[]);
        last = snapshot(&definitions, Some(&last));
        assert_eq!(last.by_name("STAYS").unwrap().id, stays);
        assert_ne!(last.by_name(&name).unwrap().id, stays);
        definitions.drop_class(&name).unwrap();
    }
}

#[test]
fn disabled_mappings_and_classes_lead_nowhere() {
    let mut definitions = Definitions::default();
    class(&mut definitions, "WEB", None, &[]);
    definitions.create_mapping("M", "WEB", &pairs(&[("CLIENT", "7")]), None).unwrap();
    let context = Context { client: Some("7"), ..Context::default() };
    let is_web = |definitions: &Definitions| {
        let snapshot = snapshot(definitions, None);
        let class = snapshot.resolve(&context).class;
        snapshot.class(class).name == "WEB"
    };
    assert!(is_web(&definitions));
    definitions.alter_class("WEB", ClassChange::Enable(false)).unwrap();
    assert!(!is_web(&definitions));
    definitions.alter_class("WEB", ClassChange::Enable(true)).unwrap();
    definitions.alter_mapping("M", MappingChange::Enable(false)).unwrap();
    assert!(!is_web(&definitions));
}

#[test]
fn usage_is_needed_to_go_up_and_not_to_go_down() {
    let mut definitions = Definitions::default();
    class(&mut definitions, "UP", None, &[("PRIORITY", "8")]);
    class(&mut definitions, "DOWN", None, &[("PRIORITY", "2")]);
    definitions.create_mapping("U", "UP", &pairs(&[("APPLICATION NAME", "up")]), None).unwrap();
    definitions.create_mapping("D", "DOWN", &pairs(&[("APPLICATION NAME", "down")]), None).unwrap();
    let snapshot = snapshot(&definitions, None);
    let name = |application: &'static str, usage: bool| {
        let context = Context { application_name: Some(application), ..Context::default() };
        let class = snapshot.resolve_for(&context, |_| usage).class;
        snapshot.class(class).name.clone()
    };
    assert_eq!((name("up", false), name("up", true)), ("_DEFAULT".to_owned(), "UP".to_owned()));
    assert_eq!(name("down", false), "DOWN");
}

#[test]
fn rules_are_in_the_class() {
    let mut definitions = Definitions::default();
    class(&mut definitions, "B", None, &[]);
    let text = |text: &str| text.to_owned();
    let rule = RuleDefinition {
        name: text("r"),
        condition: text("STATEMENT ROWS > 5"),
        action: text("CANCEL"),
        dry_run: true,
    };
    definitions.alter_class("B", ClassChange::AddRule(rule)).unwrap();
    let snapshot = snapshot(&definitions, None);
    assert!(!snapshot.is_plain());
    assert_eq!(snapshot.by_name("B").unwrap().rules.len(), 1);
}

#[test]
fn statements_that_are_estimated_to_be_long_go_elsewhere() {
    let plain = Snapshot::builtin(&MACHINE);
    let class = |ms: u64| plain.automatic(ClassId::DEFAULT, Duration::from_millis(ms));
    assert_eq!((class(99), class(100)), (ClassId::DEFAULT, ClassId::DEFAULT_BATCH));
    assert_eq!(
        plain.automatic(ClassId::DEFAULT_BATCH, Duration::from_secs(9)),
        ClassId::DEFAULT_BATCH
    );
    let limits = &plain.class(ClassId::DEFAULT).limits;
    assert_eq!(plain.text(limits, Key::AutoClass).as_deref(), Some("_DEFAULT_BATCH"));
    assert_eq!(plain.text(limits, Key::StatementTimeout), None);
}

/// Random changes: what is accepted always means something, and what is refused changes nothing.
#[test]
fn definitions_that_were_accepted_always_have_a_meaning() {
    let mut rng = Rng::new(23);
    let mut definitions = Definitions::default();
    let mut last = Snapshot::builtin(&MACHINE);
    let mut accepted = 0;
    for _ in 0..3_000 {
        let before = definitions.clone();
        match random_change(&mut rng, &mut definitions) {
            Ok(()) => accepted += 1,
            Err(problem) => {
                assert_eq!(definitions, before, "{problem}");
                assert!(!problem.message.is_empty());
            }
        }
        let next = snapshot(&definitions, Some(&last));
        for class in next.classes() {
            let kept = last.by_name(&class.name).is_none_or(|before| before.id == class.id);
            assert!(kept, "{} has another id", class.name);
        }
        last = next;
    }
    assert!(accepted > 1_000, "{accepted}");
}

fn random_change(rng: &mut Rng, definitions: &mut Definitions) -> Result<(), Problem> {
    let names = ["A", "B", "C", "D", "E", "_DEFAULT", "_ADMIN"];
    let mut name = || names[rng.below(7) as usize];
    let (class, other) = (name(), name());
    let settings = [
        ("PRIORITY", "7"),
        ("TOTAL STATEMENT THREAD LIMIT", "3"),
        ("TOTAL STATEMENT THREAD LIMIT", "50%"),
        ("TOTAL STATEMENT MEMORY LIMIT", "2GB"),
        ("AUTO CLASS", other),
        ("FLOOR", "30%"),
        ("LATENCY TARGET P99", "5ms"),
        ("LATENCY TARGET P50", "7ms"),
    ];
    let setting = pairs(&[settings[rng.below(8) as usize]]);
    let parent = (rng.below(3) > 0).then_some(other);
    let rule = RuleDefinition {
        name: "r".to_owned(),
        condition: "STATEMENT ROWS > 5".to_owned(),
        action: format!("SWITCH TO {other}"),
        dry_run: false,
    };
    let client = pairs(&[("CLIENT", "7")]);
    match rng.below(12) {
        0 | 1 => definitions.create_class(class, parent, &setting),
        2 | 3 => definitions.alter_class(class, ClassChange::Set(&setting)),
        4 => definitions.alter_class(class, ClassChange::Unset(&[setting[0].0.clone()])),
        5 => definitions.alter_class(class, ClassChange::Parent(parent)),
        6 => definitions.alter_class(class, ClassChange::Enable(rng.below(2) > 0)),
        7 => definitions.alter_class(class, ClassChange::AddRule(rule)),
        8 => definitions.alter_class(class, ClassChange::DropRule("r")),
        9 => definitions.create_mapping(other, class, &client, None),
        10 => definitions.drop_mapping(other),
        _ => definitions.drop_class(class),
    }
}

#[test]
fn shares_are_always_what_the_runtime_takes() {
    let mut rng = Rng::new(7);
    for _ in 0..300 {
        let mut definitions = Definitions::default();
        for number in 0..rng.below(20) {
            let floor = rng.below(120).to_string();
            let priority = rng.below(10).to_string();
            let settings = pairs(&[("FLOOR", &floor), ("PRIORITY", &priority)]);
            // A floor too many is refused, and the class is left out.
            let _ = definitions.create_class(&format!("C{number}"), None, &settings);
        }
        let shares = snapshot(&definitions, None).shares();
        assert!(shares.weights.iter().all(|weight| (1..=65_536).contains(weight)));
        assert!(shares.floors.iter().all(|floor| *floor >= 1));
        assert!(shares.floors.iter().sum::<u32>() <= 500, "{:?}", shares.floors);
    }
    assert_eq!(Snapshot::builtin(&MACHINE).shares().floors, [20; 3]);
}

#[test]
fn every_context_has_one_class_whatever_the_order_of_definitions() {
    let mut rng = Rng::new(11);
    for _ in 0..200 {
        let mut definitions = Definitions::default();
        ["A", "B", "C", "D"].iter().for_each(|name| class(&mut definitions, name, None, &[]));
        for number in 0..rng.below(12) {
            random_mapping(&mut rng, &mut definitions, number);
        }
        let one = snapshot(&definitions, None);
        let other = snapshot(&definitions, Some(&one));
        let groups = [letter(&mut rng)];
        let values: [String; 4] = std::array::from_fn(|_| letter(&mut rng));
        let context = Context {
            user: Some(&values[0]),
            groups: &groups,
            application_name: Some(&values[1]),
            client: Some(&values[2]),
            tenant: Some(&values[3]),
            ..Context::default()
        };
        let (first, second) = (one.resolve(&context), other.resolve(&context));
        assert_eq!(first, second);
        assert!(!first.why.to_string().is_empty());
        assert!(one.class(first.class).enabled);
        if let Some(name) = &first.mapping {
            let definition = &definitions.mappings[&**name];
            assert_eq!(definition.class, one.class(first.class).name);
        }
    }
}

fn letter(rng: &mut Rng) -> String {
    ["a", "ab", "b"][rng.below(3) as usize].to_owned()
}

fn random_mapping(rng: &mut Rng, definitions: &mut Definitions, number: u64) {
    let keys =
        ["USER NAME", "USERGROUP NAME", "APPLICATION NAME", "CLIENT", "APPLICATION TENANT NAME"];
    let mut settings = Vec::new();
    for key in keys {
        if rng.below(3) == 0 {
            let star = if rng.below(2) == 0 && !key.starts_with("USER") { "*" } else { "" };
            settings.push((key.to_owned(), letter(rng) + star));
        }
    }
    let class = ["A", "B", "C", "D"][rng.below(4) as usize];
    // A mapping without a setting, or with user and group, is refused.
    let _ = definitions.create_mapping(&format!("M{number}"), class, &settings, Some('*'));
}
