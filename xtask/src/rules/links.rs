//! Relative links in Markdown lead to a file that exists, and to a heading that stands in it.

use std::collections::HashSet;

use super::Offence;
use crate::workspace::Workspace;

/// Looks at every `*.md` of the repository.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let documents = workspace.files.iter().filter(|file| file.ends_with(".md"));
    let exists = |path: &str| workspace.root.join(path).exists();
    let read = |path: &str| workspace.text(path);
    documents
        .flat_map(|file| offences(file, &read(file).unwrap_or_default(), exists, read))
        .collect()
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
    fn a_heading_that_is_not_there_is_named() {
        assert!(check("[b](b.md#three)")[0].contains("has no heading #three"));
    }
}
