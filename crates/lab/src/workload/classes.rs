//! Workload classes and mappings of each arm, as SQL.

use clap::ValueEnum;

use crate::Result;
use crate::programs::Program;

/// The arms of *figure1* on Halcyon.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
#[value(rename_all = "snake_case")]
pub enum ClassArm {
    /// A class per application: web before the others, all writers together on one thread
    Classes,
    /// Everything in one class: without this arm's latency rising five-fold the run says nothing
    Control,
    /// As `classes`, with a latency target for web
    Target,
    /// As the paper has it: a thread per analytical statement and per write, no priorities
    Limits,
    /// No class is defined: what the server does by itself
    Defaults,
    /// `classes` once more: what differs is chance
    Again,
}

impl ClassArm {
    /// The arm's name in options and reports.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no variant is skipped").get_name().to_owned()
    }

    /// The definitions, a statement each.
    pub fn definitions(self) -> Vec<String> {
        let own = ["web", "report", "etl"];
        let settings = match self {
            ClassArm::Classes | ClassArm::Target | ClassArm::Again => [
                "'PRIORITY' = '8'",
                "'PRIORITY' = '2'",
                "'PRIORITY' = '2', 'TOTAL STATEMENT THREAD LIMIT' = '1'",
            ],
            ClassArm::Limits => [
                "'PRIORITY' = '5'",
                "'PRIORITY' = '5', 'STATEMENT THREAD LIMIT' = '1'",
                "'PRIORITY' = '5', 'STATEMENT THREAD LIMIT' = '1'",
            ],
            ClassArm::Control => {
                let class = class("everything", "'PRIORITY' = '5'");
                return vec![class, mapping("everything", "everything", "%")];
            }
            ClassArm::Defaults => return Vec::new(),
        };
        let both = own.into_iter().zip(settings);
        let classes = both.map(|(name, settings)| class(name, settings));
        classes.chain(own.map(|name| mapping(name, name, &format!("{name}%")))).collect()
    }
}

/// A statement that makes a class.
fn class(name: &str, settings: &str) -> String {
    format!("CREATE WORKLOAD CLASS \"{name}\" SET {settings}")
}

/// A statement that maps applications to a class by a pattern with `%`.
fn mapping(name: &str, class: &str, pattern: &str) -> String {
    format!(
        "CREATE WORKLOAD MAPPING \"{name}\" WORKLOAD CLASS \"{class}\" \
         SET 'APPLICATION NAME' = '{pattern}' WITH WILDCARD"
    )
}

/// The statement that promises a latency, in ms, to the class `web`.
pub fn target(ms: f64) -> String {
    let us = (ms * 1e3).round();
    format!("ALTER WORKLOAD CLASS \"web\" SET 'LATENCY TARGET P99' = '{us}us'")
}

/// The definitions of *overload*: one class, without a target yet.
pub fn overload() -> Vec<String> {
    vec![class("web", "'PRIORITY' = '5'"), mapping("web", "web", "web%")]
}

/// The number of classes and mappings of *tax*.
pub const TAX: (usize, usize) = (20, 50);

/// Classes and mappings of *tax*: statements of the application `lab` are matched by one of the mappings, by a
/// wildcard, and no class limits anything.
pub fn tax() -> Vec<String> {
    let (classes, mappings) = TAX;
    let mut all: Vec<String> =
        (0..classes).map(|number| class(&format!("class{number}"), "'PRIORITY' = '5'")).collect();
    all.extend((0..mappings).map(|number| {
        let pattern =
            if number + 1 == mappings { "la%".to_owned() } else { format!("app{number}%") };
        mapping(&format!("mapping{number}"), &format!("class{}", number % classes), &pattern)
    }));
    all
}

/// Runs definitions on a server.
pub fn define(program: &Program, definitions: &[String]) -> Result<()> {
    let (runtime, client) = program.connect()?;
    definitions.iter().try_for_each(|text| Ok(runtime.block_on(client.batch_execute(text))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_have_the_classes_that_their_applications_are_mapped_to() {
        for (arm, count) in [
            (ClassArm::Classes, 6),
            (ClassArm::Target, 6),
            (ClassArm::Limits, 6),
            (ClassArm::Control, 2),
            (ClassArm::Defaults, 0),
        ] {
            let all = arm.definitions();
            assert_eq!(all.len(), count, "{all:?}");
            let mapped = all.iter().filter_map(|text| {
                let words = text.split_once("WORKLOAD MAPPING")?.1;
                Some(words.split_once("WORKLOAD CLASS ")?.1.split_once(" SET")?.0.to_owned())
            });
            for class in mapped {
                assert!(
                    all.iter()
                        .any(|text| text.starts_with(&format!("CREATE WORKLOAD CLASS {class}")))
                );
            }
        }
        assert_eq!(ClassArm::Again.definitions(), ClassArm::Classes.definitions());
        assert!(target(1.5).ends_with("= '1500us'"));
    }

    #[test]
    fn the_tax_has_its_classes_and_one_mapping_of_the_lab() {
        let all = tax();
        assert_eq!(all.len(), TAX.0 + TAX.1);
        assert_eq!(all.iter().filter(|text| text.contains("'la%'")).count(), 1);
    }
}
