//! What ARCHITECTURE.md says that crates do without is so: two of its tables are read here.
//!
//! - `crate | unsafe code in | never named`: every crate of ours has a row; its files with `unsafe`
//!   are those listed and no others; the code spans of the last cell stand nowhere in its code, but
//!   in the files that the cell lists too. Tests are not looked at.
//! - `outside crate | lowest of ours that names it`: no crate below names it as a dependency, and that
//!   one does.
//!
//! And `crates/base/src/sqlstate.rs` has only codes that some other file names.

use std::collections::BTreeSet;

use super::{Offence, layers};
use crate::workspace::Workspace;

const PAGE: &str = "ARCHITECTURE.md";
const STATES: &str = "crates/base/src/sqlstate.rs";

/// Looks at ARCHITECTURE.md, every `*.rs` of our crates, and their manifests.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let page = workspace.text(PAGE).unwrap_or_default();
    let sources: Vec<(String, String)> = (workspace.files.iter())
        .filter(|file| file.ends_with(".rs") && file.starts_with("crates/"))
        .filter_map(|file| Some((file.clone(), workspace.text(file)?)))
        .collect();
    let named: Vec<(&str, &[String])> = (workspace.own())
        .filter(|package| layers::height(layers::layer(&package.name)).is_some())
        .map(|package| (layers::layer(&package.name), package.dependencies.as_slice()))
        .collect();
    let mut found = absences(&page, &sources, named.iter().map(|(layer, _)| *layer));
    found.extend(lowest(&page, &named));
    found.extend(states(&sources));
    found
}

/// Rows of the table under `header`, as cells.
fn table<'a>(page: &'a str, header: &str) -> Option<Vec<Vec<&'a str>>> {
    let mut lines = page.lines().skip_while(|line| *line != header);
    lines.next()?;
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    Some(rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect())
}

fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Code of a file: no comments, and nothing behind the module of its tests.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.match_indices("#[cfg(").find(|(at, _)| {
        let mut lines = text[*at..].lines();
        let condition = lines.next().unwrap_or_default();
        condition.contains("test") && lines.next().is_some_and(|line| line.starts_with("mod "))
    });
    let lines = text[..tests.map_or(text.len(), |(at, _)| at)].lines().enumerate();
    lines.filter_map(|(at, line)| {
        let code = line.split("//").next().unwrap_or_default();
        (!code.trim().is_empty()).then_some((at + 1, code))
    })
}

/// Whether a line of code opens or declares something unsafe.
fn is_unsafe(code: &str) -> bool {
    let starts = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait"];
    starts.iter().any(|start| code.contains(start))
}

fn absences<'a>(
    page: &str,
    sources: &[(String, String)],
    crates: impl Iterator<Item = &'a str>,
) -> Vec<Offence> {
    let header = "| crate | unsafe code in | never named |";
    let Some(rows) = table(page, header) else {
        return vec![Offence::new(PAGE, format!("has no table {header:?}; put it back"))];
    };
    let mut found = Vec::new();
    for name in crates {
        let row = rows.iter().find(|row| spans(row[0]).contains(&name));
        let Some([_, files, never]) = row.and_then(|row| row.get(..3)) else {
            found.push(Offence::new(PAGE, format!("crate `{name}` has no row under {header:?}")));
            continue;
        };
        let folder = format!("crates/{name}/src/");
        let sources = sources.iter().filter_map(|(file, text)| {
            Some((file.strip_prefix(&folder)?, file.as_str(), text.as_str()))
        });
        let sources: Vec<_> = sources.filter(|(file, ..)| !file.ends_with("_fuzz.rs")).collect();
        found.extend(unsafe_files(name, &spans(files), &sources));
        found.extend(words(name, &spans(never), &sources));
    }
    found
}

/// A file of a crate: its path below `src`, its path in the repository, its text.
type Source<'a> = (&'a str, &'a str, &'a str);

fn unsafe_files(name: &str, listed: &[&str], sources: &[Source<'_>]) -> Vec<Offence> {
    let holds = |text: &str| code(text).any(|(_, line)| is_unsafe(line));
    let listed: BTreeSet<&str> = listed.iter().copied().collect();
    let actual: BTreeSet<&str> =
        sources.iter().filter(|(.., text)| holds(text)).map(|(file, ..)| *file).collect();
    let lists = listed.symmetric_difference(&actual).map(|file| {
        let message = match actual.contains(file) {
            true => format!("`{name}`: {file} has unsafe code; move it, or list the file"),
            false => format!("`{name}`: {file} has no unsafe code; take it off the list"),
        };
        Offence::new(PAGE, message)
    });
    lists.collect()
}

fn words(name: &str, spans: &[&str], sources: &[Source<'_>]) -> Vec<Offence> {
    let (exempt, never): (Vec<&str>, Vec<&str>) =
        spans.iter().partition(|span| span.ends_with(".rs"));
    let mut found = Vec::new();
    for (file, path, text) in sources.iter().filter(|(file, ..)| !exempt.contains(file)) {
        for (line, code) in code(text) {
            for word in never.iter().filter(|word| code.contains(**word)) {
                let message = format!(
                    "`{name}` does without {word:?} ({PAGE}); find another way, or say there why \
                     {file} may"
                );
                found.push(Offence::new(format!("{path}:{line}"), message));
            }
        }
    }
    found
}

fn lowest(page: &str, named: &[(&str, &[String])]) -> Vec<Offence> {
    let header = "| outside crate | lowest of ours that names it |";
    let Some(rows) = table(page, header) else {
        return vec![Offence::new(PAGE, format!("has no table {header:?}; put it back"))];
    };
    let mut found = Vec::new();
    for row in rows {
        let (Some(outside), Some(claimed)) = (spans(row[0]).first().copied(), row.get(1)) else {
            continue;
        };
        let claimed = spans(claimed).first().copied().unwrap_or_default();
        let users = named.iter().filter(|(_, names)| names.iter().any(|name| name == outside));
        let actual = users.map(|(layer, _)| *layer).min_by_key(|layer| layers::height(layer));
        if actual != Some(claimed) {
            let message = format!(
                "`{outside}` is first named by {actual:?}, the page says `{claimed}`; take the \
                 dependency out, or mend the page"
            );
            found.push(Offence::new(PAGE, message));
        }
    }
    found
}

/// Codes that nothing names.
fn states(sources: &[(String, String)]) -> Vec<Offence> {
    let Some((_, list)) = sources.iter().find(|(file, _)| file == STATES) else {
        return Vec::new();
    };
    let codes = list.lines().enumerate().filter_map(|(at, line)| {
        let (name, rest) = line.trim().split_once(" = b\"")?;
        rest.contains("\", \"").then_some((at + 1, name))
    });
    let used = |name: &str| {
        let others = sources.iter().filter(|(file, _)| file != STATES);
        others.map(|(_, text)| text).any(|text| has_word(text, name))
    };
    let unused = codes.filter(|(_, name)| !used(name));
    unused
        .map(|(line, name)| {
            let message =
                format!("nothing raises {name}; take it out, also of docs/guide/errors.md");
            Offence::new(format!("{STATES}:{line}"), message)
        })
        .collect()
}

/// Whether `word` stands in `text` with no letter, digit or underscore beside it.
pub fn has_word(text: &str, word: &str) -> bool {
    let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| crate | unsafe code in | never named |\n|---|---|---|\n\
                         | `store` | `text.rs`, `gone.rs` | `Mutex`, but in `latch.rs` |\n";

    fn source(file: &str, text: &str) -> (String, String) {
        (file.to_owned(), text.to_owned())
    }

    #[test]
    fn a_crate_that_does_what_the_page_denies_is_named() {
        let sources = [
            source("crates/store/src/text.rs", "fn a() { unsafe { b() } }"),
            source("crates/store/src/batch.rs", "// unsafe { }\nunsafe fn c() {}\n"),
            source("crates/store/src/latch.rs", "use Mutex;"),
            source(
                "crates/store/src/lib.rs",
                "//! No Mutex.\nuse Mutex;\n#[cfg(test)]\nmod t { Mutex }",
            ),
        ];
        let found = absences(TABLE, &sources, ["store", "txn"].into_iter());
        let found: Vec<String> = found.iter().map(Offence::to_string).collect();
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found[0].contains("batch.rs has unsafe code"));
        assert!(found[1].contains("gone.rs has no unsafe code"));
        assert!(found[2].starts_with("crates/store/src/lib.rs:2: `store` does without \"Mutex\""));
        assert!(found[3].contains("crate `txn` has no row"));
        assert_eq!(absences("", &sources, ["store"].into_iter()).len(), 1);
    }

    #[test]
    fn a_dependency_below_where_the_page_has_it_is_named() {
        let page = "| outside crate | lowest of ours that names it |\n|---|---|\n\
                    | `datafusion` | `plan` |\n| `parking_lot` | `base` |\n";
        let (delta, base) = (["datafusion".to_owned()], ["parking_lot".to_owned()]);
        let found = lowest(page, &[("base", &base), ("delta", &delta), ("plan", &delta)]);
        let found: Vec<String> = found.iter().map(Offence::to_string).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`datafusion` is first named by Some(\"delta\")"));
    }

    #[test]
    fn a_code_that_nothing_raises_is_named() {
        let list = "    USED = b\"00000\", \"Used.\";\n    UNUSED = b\"00001\", \"Not.\";\n";
        let sources = [source(STATES, list), source("crates/a/src/lib.rs", "SqlState::USED")];
        let found = states(&sources);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains(":2: nothing raises UNUSED"));
    }
}
