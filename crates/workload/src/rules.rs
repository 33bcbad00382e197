//! Rules: what becomes of a statement that uses more than its class means it to.
//!
//! Grammar of a condition: `STATEMENT { CPU TIME | ELAPSED TIME | MEMORY | ROWS } { > | >= } value`, with the units of
//! the class's settings (seconds, gigabytes). Grammar of an action: `LOG`, `CANCEL`, `SWITCH TO "class"`,
//! `THROTTLE n%`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::problem::{Problem, ProblemKind};
use crate::value;

/// A rule as a user wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleDefinition {
    /// The name, unique in its class.
    pub name: String,
    /// When the rule acts, such as `STATEMENT CPU TIME > 30s`.
    pub condition: String,
    /// What the rule does: `LOG`, `CANCEL`, `SWITCH TO "class"` or `THROTTLE 50%`.
    pub action: String,
    /// Whether the rule only tells what it would do.
    pub dry_run: bool,
}

/// A rule of a class, ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The name, unique in its class.
    pub name: String,
    /// When the rule acts.
    pub condition: Condition,
    /// What the rule does.
    pub action: Action,
    /// Whether the rule only tells what it would do.
    pub dry_run: bool,
}

/// A limit of a statement's use of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What is measured.
    pub measure: Measure,
    /// Nanoseconds, bytes or rows.
    pub limit: u64,
    /// Whether the limit itself is too much already.
    pub is_inclusive: bool,
}

/// Something a statement uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Processor time of all threads together.
    CpuTime,
    /// Time since the statement was admitted.
    ElapsedTime,
    /// Bytes held.
    Memory,
    /// Rows read.
    Rows,
}

/// What a rule does to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes an event.
    Log,
    /// Goes on in another class.
    SwitchTo(String),
    /// Goes on with a share of the time, in percent from 1 to 99.
    Throttle(u8),
    /// Cancels the statement.
    Cancel,
}

/// What a statement has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all threads together.
    pub cpu: Duration,
    /// Time since the statement was admitted.
    pub elapsed: Duration,
    /// Bytes held now.
    pub memory: u64,
    /// Rows read.
    pub rows: u64,
}

/// The rule that acts on a statement: of those whose conditions hold, the one with the most severe action (CANCEL,
/// SWITCH TO, THROTTLE, LOG), and of several such the first. Rules that only tell (DRY RUN) act if no other does.
///
/// The caller remembers the name of the rule that acted last, so that a rule which goes on holding is told once.
pub fn act<'a>(rules: &'a [Rule], usage: &Usage) -> Option<&'a Rule> {
    let holds = rules.iter().filter(|rule| rule.condition.holds(usage));
    // The first of equal ones.
    holds.min_by_key(|rule| (rule.dry_run, rule.action.rank()))
}

impl Condition {
    /// Whether the statement has used too much.
    pub fn holds(&self, usage: &Usage) -> bool {
        let used = match self.measure {
            Measure::CpuTime => nanoseconds(usage.cpu),
            Measure::ElapsedTime => nanoseconds(usage.elapsed),
            Measure::Memory => usage.memory,
            Measure::Rows => usage.rows,
        };
        if self.is_inclusive { used >= self.limit } else { used > self.limit }
    }

    fn parse(text: &str) -> Result<Condition, Problem> {
        let syntax = || {
            let message = format!("syntax error in the condition {text:?} of a workload rule");
            Problem::new(ProblemKind::Syntax, message).hint(
                "A condition is STATEMENT CPU TIME, STATEMENT ELAPSED TIME, STATEMENT MEMORY or STATEMENT ROWS, \
                 then > or >=, then a number with a unit.",
            )
        };
        let (left, right) = text.split_once('>').ok_or_else(syntax)?;
        let (is_inclusive, right) = match right.strip_prefix('=') {
            Some(right) => (true, right),
            None => (false, right),
        };
        let words: Vec<String> = left.split_whitespace().map(str::to_ascii_uppercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let measure = match words[..] {
            ["STATEMENT", "CPU", "TIME"] => Measure::CpuTime,
            ["STATEMENT", "ELAPSED", "TIME"] => Measure::ElapsedTime,
            ["STATEMENT", "MEMORY"] => Measure::Memory,
            ["STATEMENT", "ROWS"] => Measure::Rows,
            _ => return Err(syntax()),
        };
        let limit = match measure {
            Measure::CpuTime | Measure::ElapsedTime => value::time(right, "s").map(nanoseconds),
            Measure::Memory => value::bytes(right),
            Measure::Rows => value::whole(right),
        };
        let bad = || {
            let message =
                format!("invalid limit {:?} in the condition of a workload rule", right.trim());
            Problem::new(ProblemKind::BadValue, message).hint(
                "Times are in seconds without a unit (us, ms, s, min, h, d), memory in gigabytes (B, kB, MB, GB, TB), \
                 rows a whole number.",
            )
        };
        Ok(Condition { measure, limit: limit.ok_or_else(bad)?, is_inclusive })
    }
}

impl Action {
    fn rank(&self) -> u8 {
        match self {
            Action::Cancel => 0,
            Action::SwitchTo(_) => 1,
            Action::Throttle(_) => 2,
            Action::Log => 3,
        }
    }

    fn parse(text: &str) -> Result<Action, Problem> {
        Action::of(text).ok_or_else(|| {
            let message = format!("syntax error in the action {text:?} of a workload rule");
            Problem::new(ProblemKind::Syntax, message)
                .hint("An action is LOG, CANCEL, SWITCH TO \"class\", or THROTTLE 1% to 99%.")
        })
    }

    fn of(text: &str) -> Option<Action> {
        let (word, rest) = word(text);
        match word.as_str() {
            "LOG" if rest.is_empty() => Some(Action::Log),
            "CANCEL" if rest.is_empty() => Some(Action::Cancel),
            "THROTTLE" => {
                let percent = value::threshold(rest)?;
                (1..=99).contains(&percent).then_some(Action::Throttle(percent))
            }
            "SWITCH" => {
                let (to, rest) = self::word(rest);
                if to == "TO" { class_name(rest).map(Action::SwitchTo) } else { None }
            }
            _ => None,
        }
    }
}

/// The first word in upper case, and what follows.
fn word(text: &str) -> (String, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(text.len());
    (text[..end].to_ascii_uppercase(), text[end..].trim())
}

/// A name as written in SQL: quoted as it stands, else one word as it stands.
fn class_name(text: &str) -> Option<String> {
    match text.strip_prefix('"') {
        Some(quoted) => {
            let inner = quoted.strip_suffix('"')?.replace("\"\"", "\u{0}");
            let is_whole = !inner.contains('"') && !inner.is_empty();
            is_whole.then(|| inner.replace('\u{0}', "\""))
        }
        None => {
            let is_word =
                !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"');
            is_word.then(|| text.to_owned())
        }
    }
}

impl Rule {
    /// The rule that a definition describes.
    ///
    /// Errors: [`ProblemKind::Syntax`], [`ProblemKind::BadValue`].
    pub fn parse(definition: &RuleDefinition) -> Result<Rule, Problem> {
        Ok(Rule {
            name: definition.name.clone(),
            condition: Condition::parse(&definition.condition)?,
            action: Action::parse(&definition.action)?,
            dry_run: definition.dry_run,
        })
    }
}

/// Nanoseconds of a time; 584 years at most.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(name: &str, condition: &str, action: &str, dry_run: bool) -> Result<Rule, Problem> {
        let text = |text: &str| text.to_owned();
        Rule::parse(&RuleDefinition {
            name: text(name),
            condition: text(condition),
            action: text(action),
            dry_run,
        })
    }

    #[test]
    fn conditions_and_actions_are_read() {
        let read =
            |condition: &str, action: &str| rule("r", condition, action, false).expect("is a rule");
        let cpu = read("statement cpu  time>30s", "cancel");
        assert_eq!(
            (cpu.condition.measure, cpu.condition.limit),
            (Measure::CpuTime, 30_000_000_000)
        );
        assert!(!cpu.condition.is_inclusive);
        assert_eq!(cpu.action, Action::Cancel);
        assert_eq!(read("STATEMENT ROWS >= 1000", "THROTTLE 50%").action, Action::Throttle(50));
        assert_eq!(read("STATEMENT MEMORY > 2", "LOG").condition.limit, 2 << 30);
        let switch = |text: &str| read("STATEMENT ELAPSED TIME > 1min", text).action;
        assert_eq!(switch("SWITCH TO \"Sl\"\"ow er\""), Action::SwitchTo("Sl\"ow er".to_owned()));
        assert_eq!(switch("switch to SLOW"), Action::SwitchTo("SLOW".to_owned()));
        assert_eq!(switch("SWITCH TO\"S\""), Action::SwitchTo("S".to_owned()));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        let kind = |condition: &str, action: &str| {
            rule("r", condition, action, false).map_err(|problem| problem.kind)
        };
        let fine = "STATEMENT ROWS > 1";
        for condition in
            ["", "STATEMENT ROWS", "STATEMENT ROWS < 1", "ROWS > 1", "STATEMENT CPU > 1", "> 1"]
        {
            assert_eq!(kind(condition, "LOG"), Err(ProblemKind::Syntax), "{condition:?}");
        }
        for condition in [
            "STATEMENT ROWS > x",
            "STATEMENT ROWS >",
            "STATEMENT CPU TIME > 5GB",
            "STATEMENT ROWS >> 1",
        ] {
            assert_eq!(kind(condition, "LOG"), Err(ProblemKind::BadValue), "{condition:?}");
        }
        for action in [
            "",
            "KILL",
            "LOG IT",
            "SWITCH TO",
            "SWITCH A",
            "THROTTLE",
            "THROTTLE 0%",
            "THROTTLE 100%",
            "SWITCH TO \"\"",
            "SWITCH TO a b",
        ] {
            assert_eq!(kind(fine, action), Err(ProblemKind::Syntax), "{action:?}");
        }
    }

    #[test]
    fn the_most_severe_of_the_rules_that_hold_acts() {
        let rules = [
            rule("log", "STATEMENT ROWS > 10", "LOG", false).unwrap(),
            rule("never", "STATEMENT ROWS > 10", "CANCEL", true).unwrap(),
            rule("slow", "STATEMENT CPU TIME >= 1s", "THROTTLE 20%", false).unwrap(),
            rule("end", "STATEMENT CPU TIME > 2s", "CANCEL", false).unwrap(),
        ];
        let acts = |rows: u64, cpu_ms: u64| {
            let usage = Usage { rows, cpu: Duration::from_millis(cpu_ms), ..Usage::default() };
            act(&rules, &usage).map(|rule| rule.name.as_str())
        };
        assert_eq!(acts(10, 999), None);
        assert_eq!(acts(11, 999), Some("log"));
        assert_eq!(acts(11, 1_000), Some("slow"));
        assert_eq!(acts(11, 2_000), Some("slow"));
        assert_eq!(acts(0, 2_001), Some("end"));
        assert_eq!(
            act(&rules[1..2], &Usage { rows: 11, ..Usage::default() }).map(|rule| rule.dry_run),
            Some(true)
        );
    }

    #[test]
    fn every_measure_is_compared() {
        let usage = Usage { elapsed: Duration::from_secs(3), memory: 5 << 30, ..Usage::default() };
        let holds = |condition: &str| Condition::parse(condition).unwrap().holds(&usage);
        assert!(holds("STATEMENT ELAPSED TIME > 2") && !holds("STATEMENT ELAPSED TIME > 3"));
        assert!(holds("STATEMENT MEMORY >= 5GB") && !holds("STATEMENT MEMORY > 5GB"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(condition in ".{0,40}", action in ".{0,30}") {
            let _ = (Condition::parse(&condition), Action::parse(&action));
        }

        #[test]
        fn nearly_rules_are_read_or_refused(
            condition in "(STATEMENT|statement) (CPU TIME|ROWS|MEMORY) ?>=? ?[0-9.]{0,5}(s|GB|%|)",
            action in "(LOG|SWITCH TO|THROTTLE|CANCEL) ?[\"a0-9%]{0,4}",
        ) {
            let _ = (Condition::parse(&condition), Action::parse(&action));
        }
    }
}
