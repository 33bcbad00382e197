//! A module head that claims an invariant says what checks it, and that exists.
//!
//! Tests are left out: what they claim is what they assert. A *claim* is a line of a head that begins with "Invariant" or "Invariants"; it extends to the next
//! empty line or the next label ("Cost:", "Threads:", …). Somewhere in it stands a word that begins
//! with "check" and behind that, in backticks, who checks: a function or test (`Log::check`,
//! `a_test_by_name`), a module of tests, a file (`tests/models.rs`), a constant that is an assertion,
//! or a step of this program (`cargo xtask check layers`).

use std::collections::HashSet;

use super::Offence;
use crate::workspace::Workspace;

/// Looks at every Rust file.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let rust = workspace.files.iter().filter(|file| file.ends_with(".rs"));
    let texts: Vec<(&str, String)> =
        rust.filter_map(|file| Some((file.as_str(), workspace.text(file)?))).collect();
    let names = Names::of(&texts, &workspace.files);
    let own = texts.iter().filter(|(file, _)| !is_test(file));
    own.filter_map(|(file, text)| offence(file, text, &names)).collect()
}

/// Files of tests alone.
fn is_test(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("fuzz.rs") || file.starts_with("fuzz/")
}

/// What a claim may name.
struct Names<'a> {
    files: &'a [String],
    /// Names of functions, modules and constants, and `Type::function`.
    declared: HashSet<String>,
}

impl<'a> Names<'a> {
    fn of(texts: &[(&str, String)], files: &'a [String]) -> Self {
        let mut declared = HashSet::new();
        for (_, text) in texts {
            declare(text, &mut declared);
        }
        Names { files, declared }
    }

    fn has(&self, name: &str, file: &str) -> bool {
        if let Some(step) = name.strip_prefix("cargo xtask check ") {
            return self.declared.contains(step);
        }
        if name.ends_with(".rs") {
            let mut folders = file.match_indices('/').map(|(at, _)| &file[..=at]);
            let beside = |folder: &str| self.files.contains(&format!("{folder}{name}"));
            return self.files.iter().any(|file| file == name) || folders.any(beside);
        }
        let name = name.trim_end_matches("()");
        let mut parts = name.rsplit("::");
        let (last, owner) = (parts.next().unwrap_or_default(), parts.next());
        match owner.filter(|owner| owner.starts_with(char::is_uppercase)) {
            Some(owner) => self.declared.contains(&format!("{owner}::{last}")),
            None => self.declared.contains(last),
        }
    }
}

/// Adds what `text` declares: functions (those of an `impl` or `trait` also with its type before
/// them), modules, constants.
fn declare(text: &str, declared: &mut HashSet<String>) {
    let mut owner: Option<&str> = None;
    for line in text.lines() {
        if line.starts_with('}') {
            owner = None;
        }
        if line.starts_with("impl") || line.contains("trait ") && !line.starts_with([' ', '/']) {
            owner = owner_of(line);
        }
        for word in ["fn ", "mod ", "const "] {
            let Some(name) = name_behind(line, word) else { continue };
            declared.insert(name.to_owned());
            if let Some(owner) = owner {
                declared.insert(format!("{owner}::{name}"));
            }
        }
    }
}

/// The type that an `impl` line is about, or the name of a trait.
fn owner_of(line: &str) -> Option<&str> {
    let line = line.split(" where ").next()?.trim_end_matches(['{', ' ']);
    let subject = match line.rsplit_once(" for ") {
        Some((_, subject)) => subject,
        None => line.rsplit_once("trait ").map_or_else(|| behind_generics(line), |(_, name)| name),
    };
    let subject = subject.split(['<', ':', ' ']).find(|part| !part.is_empty())?;
    (!subject.is_empty()).then_some(subject)
}

/// `Type<…>` in `impl<…> Type<…>`.
fn behind_generics(line: &str) -> &str {
    let mut depth = 0;
    let rest = line.trim_start_matches("impl");
    for (at, letter) in rest.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest[at..].trim_start_matches(['>', ' ']);
        }
    }
    rest
}

fn name_behind<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let code = line.trim_start();
    if code.starts_with("//") {
        return None;
    }
    let at = code.find(word)?;
    let is_word = at == 0 || code.as_bytes()[at - 1] == b' ';
    let name = code[at + word.len()..].split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_word && !name.is_empty()).then_some(name)
}

fn offence(file: &str, text: &str, names: &Names) -> Option<Offence> {
    let head: Vec<&str> =
        text.lines().skip_while(|line| !line.starts_with("//!")).map_while(head_line).collect();
    let first = text.lines().position(|line| line.starts_with("//!"))?;
    let at = head.iter().position(|line| is_claim(line))?;
    let claim = claim(&head[at..]);
    let place = format!("{file}:{}", first + at + 1);
    let checkers = checkers(&claim);
    if checkers.is_empty() {
        let message = "claims an invariant and does not say what checks it; write a function or test \
                       that does, and name it here: \"Invariants, checked by [`Thing::check`]:\"";
        return Some(Offence::new(place, message));
    }
    let missing = checkers.iter().find(|name| !names.has(name, file))?;
    let message = format!(
        "says that `{missing}` checks its invariant, and nothing in the tree is called that; name the \
         function, test or model that does"
    );
    Some(Offence::new(place, message))
}

fn head_line(line: &str) -> Option<&str> {
    line.strip_prefix("//!").map(|line| line.strip_prefix(' ').unwrap_or(line))
}

fn is_claim(line: &str) -> bool {
    line.trim_start_matches('*').starts_with("Invariant")
}

/// The lines of the claim that `lines` begin with, as one text.
fn claim(lines: &[&str]) -> String {
    let is_label = |line: &str| {
        let label = line.split_once(':').map_or("", |(label, _)| label);
        line.starts_with(char::is_uppercase) && !label.is_empty() && !label.contains([' ', '`'])
    };
    let ends = |line: &&&str| line.trim().is_empty() || is_label(line);
    let count = 1 + lines[1..].iter().take_while(|line| !ends(line)).count();
    lines[..count].join(" ")
}

/// Names in backticks behind the first word of a claim that begins with "check": one, or a list.
fn checkers(claim: &str) -> Vec<&str> {
    let lower = claim.to_ascii_lowercase();
    let mut words = lower.match_indices("check").map(|(at, _)| at);
    let begins_word = |at: &usize| *at == 0 || !claim.as_bytes()[at - 1].is_ascii_alphabetic();
    let outside_code = |at: &usize| claim[..*at].matches('`').count().is_multiple_of(2);
    let Some(at) = words.find(|at| begins_word(at) && outside_code(at)) else { return Vec::new() };
    let mut pieces = claim[at..].split('`').skip(1);
    let mut names = Vec::new();
    while let Some(name) = pieces.next() {
        names.push(name);
        let between = pieces.next().unwrap_or_default();
        let goes_on =
            between.split([' ', ',', '[', ']']).all(|word| word.is_empty() || word == "and");
        if !goes_on {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "impl<T: Ord> Log<T> {\n    pub fn check(&self) {}\n}\n\
                        const SIZES: () = assert!(true);\nmod models {\n    fn a_test() {}\n}\n";

    fn check(head: &str) -> Option<String> {
        let files = ["crates/x/tests/models.rs".to_owned()];
        let names = Names::of(&[("crates/x/src/log.rs", TREE.to_owned())], &files);
        offence("crates/x/src/log.rs", head, &names).map(|offence| offence.to_string())
    }

    #[test]
    fn a_claim_that_names_no_check_is_refused() {
        let found =
            check("//! A log.\n//!\n//! Invariants:\n//! 1. `a_test` is a name.\n").unwrap();
        assert!(found.starts_with("crates/x/src/log.rs:3: claims an invariant"), "{found}");
        assert!(found.contains("name it here"), "{found}");
    }

    #[test]
    fn a_check_that_does_not_exist_is_refused() {
        for name in ["Log::verify", "Tree::check", "a_test` and `another_test", "tests/none.rs"] {
            let found =
                check(&format!("//! Invariants, checked by `{name}`:\n//! 1. One.")).unwrap();
            assert!(found.contains("nothing in the tree is called that"), "{found}");
        }
    }

    #[test]
    fn functions_tests_modules_constants_files_and_steps_may_be_named() {
        for name in ["Log::check", "a_test", "models", "SIZES", "tests/models.rs"] {
            assert_eq!(
                check(&format!("//! **Invariant:** sorted.\n//! Checked by [`{name}`].")),
                None
            );
        }
        let step = "//! Invariant, checked by `cargo xtask check models` and [`Log::check`]: `low` is low.";
        assert_eq!(check(step), None);
    }

    #[test]
    fn a_check_named_under_another_label_is_not_the_claim_s() {
        let head = "//! Invariant: sorted.\n//! Cost: a check (`a_test`) is O(n).\n";
        assert!(check(head).is_some());
        assert_eq!(check("//! It keeps the invariants of others.\n"), None, "no claim");
    }
}
