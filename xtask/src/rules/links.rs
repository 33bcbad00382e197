//! What documents point to is there: the file and heading of a relative link in Markdown; files and
//! folders in backticks, in Markdown and in the heads of modules, by any tail of their path; names
//! in backticks with two underscores or more, in Markdown; sections of docs/design.md, which
//! comments cite as "DESIGN §4".

use std::collections::HashSet;

use super::{Offence, claims};
use crate::workspace::Workspace;

/// Looks at every `*.md` and every module's head.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let exists = |path: &str| workspace.root.join(path).exists();
    let read = |path: &str| workspace.text(path);
    let is_document = |file: &&String| file.ends_with(".md");
    let mut found: Vec<Offence> = (workspace.files.iter().filter(is_document))
        .flat_map(|file| offences(file, &read(file).unwrap_or_default(), exists, read))
        .collect();
    let tails = Tails::new(&workspace.files);
    let mut sources = String::new();
    for file in workspace.files.iter().filter(|file| !is_document(file)) {
        let text = read(file).unwrap_or_default();
        if file.ends_with(".rs") {
            let head = text.lines().enumerate().filter(|(_, line)| line.starts_with("//!"));
            found.extend(paths(file, head.map(|(at, line)| (at + 1, line)), &tails));
        }
        sources.push_str(&text);
    }
    for file in workspace.files.iter().filter(is_document) {
        let text = read(file).unwrap_or_default();
        found.extend(paths(file, prose(&text), &tails));
        found.extend(names(file, &text, &sources));
    }
    let design = read(DESIGN).unwrap_or_default();
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs") || is_document(file)) {
        found.extend(sections(file, &read(file).unwrap_or_default(), &design));
    }
    found
}

/// The design that comments cite.
const DESIGN: &str = "docs/design.md";

/// Every tail of every path of the repository: `a/b/c.rs`, `b/c.rs`, `c.rs`; of folders as well,
/// with a slash at their end.
struct Tails(HashSet<String>);

impl Tails {
    fn new(files: &[String]) -> Tails {
        let mut tails = HashSet::new();
        for file in files {
            let parts: Vec<&str> = file.split('/').collect();
            for end in 1..=parts.len() {
                let slash = if end < parts.len() { "/" } else { "" };
                for start in 0..end {
                    tails.insert(parts[start..end].join("/") + slash);
                }
            }
        }
        Tails(tails)
    }

    fn has(&self, path: &str) -> bool {
        let path = path.trim_start_matches("./");
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.0.contains(path) || self.0.contains(&folder)
    }
}

/// Endings of files that documents speak of only if the repository has them.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".slt"];

/// First parts of paths that are ours.
const ROOTS: &[&str] = &["crates/", "docs/", "tests/", "xtask/", "scripts/", "fuzz/", "lab/"];

fn is_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let ours = ENDINGS.iter().any(|ending| span.ends_with(ending))
        || ROOTS.iter().any(|root| span.starts_with(root));
    ours && span.chars().all(plain) && !ENDINGS.contains(&span)
}

fn paths<'a>(
    file: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    tails: &Tails,
) -> Vec<Offence> {
    let mut found = Vec::new();
    for (number, line) in lines {
        for span in line.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
            if !tails.has(span) {
                let message = format!("there is no `{span}`; name a file or folder that exists");
                found.push(Offence::new(format!("{file}:{number}"), message));
            }
        }
    }
    found
}

/// Names of tests, functions and settings that stand in no source.
fn names(file: &str, text: &str, sources: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for (number, line) in prose(text).filter(|(_, line)| !line.starts_with('|')) {
        for span in line.split('`').skip(1).step_by(2) {
            let plain = span.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if plain && span.matches('_').count() >= 2 && !claims::has_word(sources, span) {
                let message = format!("nothing is called `{span}`; name what exists");
                found.push(Offence::new(format!("{file}:{number}"), message));
            }
        }
    }
    found
}

/// Citations of sections that the design does not have.
fn sections(file: &str, text: &str, design: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(concat!("DES", "IGN")) {
            let rest = line[at + 6..].trim_start_matches(".md").trim_start();
            let Some(rest) = rest.strip_prefix('§') else { continue };
            let section: String = rest.chars().take_while(char::is_ascii_digit).collect();
            if !design.contains(&format!("\n## {section}. ")) {
                let message = format!("{DESIGN} has no section {section}; cite one that it has");
                found.push(Offence::new(format!("{file}:{}", number + 1), message));
            }
        }
    }
    found
}

fn offences(
    file: &str,
    text: &str,
    exists: impl Fn(&str) -> bool,
    read: impl Fn(&str) -> Option<String>,
) -> Vec<Offence> {
    let mut found = Vec::new();
    for (line, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.to_owned() } else { resolve(file, path) };
        let place = format!("{file}:{line}");
        if !exists(&path) {
            let message = format!("link to {target:?} leads nowhere; mend or drop it");
            found.push(Offence::new(place, message));
        } else if !anchor.is_empty() && path.ends_with(".md") {
            let slugs = headings(&read(&path).unwrap_or_default());
            if !slugs.contains(anchor) {
                let message =
                    format!("{path} has no heading #{anchor}; name one that stands there");
                found.push(Offence::new(place, message));
            }
        }
    }
    found
}

/// Targets of inline links and of reference definitions, with their lines; code is skipped.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            if let Some(end) = rest.find(')') {
                found.push((number, rest[..end].split(' ').next().unwrap_or_default()));
            }
        }
        if let Some((label, target)) = line.split_once("]: ")
            && label.starts_with('[')
        {
            found.push((number, target.trim()));
        }
    }
    found
}

/// Lines outside fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((at + 1, line))
    })
}

/// Anchors of a document's headings, as the usual renderers make them.
fn headings(text: &str) -> HashSet<String> {
    let titles = prose(text).filter(|(_, line)| line.starts_with('#'));
    titles.map(|(_, line)| slug(line.trim_start_matches('#').trim())).collect()
}

fn slug(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// `target` as seen from the folder of `file`.
fn resolve(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        let files = [("docs/a.md", text), ("docs/b.md", "# Two words, here\n"), ("README.md", "")];
        let exists = |path: &str| files.iter().any(|(name, _)| *name == path);
        let read = |path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        };
        offences("docs/a.md", text, exists, read).iter().map(Offence::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[b](b.md) [b](./b.md#two-words-here) [r](../README.md) [w](https://x.org/y)\n\
                    ```\n[not a link](nowhere.md)\n```\n# Here\n[self](#here)\n[b]: b.md\n";
        assert_eq!(check(text), [""; 0]);
    }

    #[test]
    fn a_dead_link_is_named_with_its_line() {
        assert_eq!(
            check("text\n[gone](gone.md)"),
            ["docs/a.md:2: link to \"gone.md\" leads nowhere; mend or drop it"]
        );
        assert_eq!(check("[gone]: ../gone.md").len(), 1);
    }

    #[test]
    fn a_path_that_is_not_there_is_named() {
        let tails = Tails::new(&["crates/store/src/point/mod.rs".to_owned()]);
        let lines = |text: &'static str| {
            let found = paths("a.md", std::iter::once((7, text)), &tails);
            found.iter().map(Offence::to_string).collect::<Vec<_>>()
        };
        let fine = "`store/src/point/mod.rs` `point/` `mod.rs` `crates/store` `.rs` `<LSN>.md`";
        assert_eq!(lines(fine), [""; 0]);
        assert_eq!(
            lines("see `store/point.rs`"),
            ["a.md:7: there is no `store/point.rs`; name a file or folder that exists"]
        );
        assert_eq!(lines("`crates/stone/`").len(), 1);
        assert_eq!(lines("`oint/mod.rs`").len(), 1);
    }

    #[test]
    fn a_name_that_nothing_has_is_named() {
        let sources = "fn a_name_of_a_test() {}";
        assert_eq!(names("a.md", "`a_name_of_a_test` `two_words` `A_B_C`", sources), []);
        let found = names("a.md", "fine\n`a_name_of_a`", sources);
        assert_eq!(
            found[0].to_string(),
            "a.md:2: nothing is called `a_name_of_a`; name what exists"
        );
    }

    #[test]
    fn a_section_that_the_design_lacks_is_named() {
        let design = "# D\n\n## 4. Storage\n";
        let cite = |section: &str| format!("//! x (DES{}IGN.md §{section}).", "");
        assert_eq!(sections("a.rs", &cite("4"), design), []);
        assert_eq!(sections("a.rs", &cite("5"), design).len(), 1);
    }

    #[test]
    fn a_heading_that_is_not_there_is_named() {
        assert!(check("[b](b.md#three)")[0].contains("has no heading #three"));
    }
}
