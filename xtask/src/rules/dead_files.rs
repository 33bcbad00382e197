//! Every Rust file of a crate is reached from one of its targets through `mod` lines, and nothing lies at the top of the
//! repository that nobody put there: a folder that a run left behind is not committed.
//!
//! Follows `mod name;`, `#[path = "…"]` and `include!("…")`. Modules written inline whose children
//! lie in files of their own are not followed: nobody here writes them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::Offence;
use crate::workspace::Workspace;

/// What lies at the top of the repository.
const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "crates",
    "docs",
    "fuzz",
    "lab",
    "packaging",
    "run",
    "rustfmt.toml",
    "scripts",
    "test",
    "tests",
    "xtask",
];

/// Looks at `src`, `tests`, `examples` and `benches` of every own crate.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut found = Vec::new();
    for package in workspace.own() {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let reached = reach(&package.target_roots, read);
        let prefix = format!("{}/", workspace.relative(&package.folder));
        let files = workspace.files.iter().filter(|file| {
            file.ends_with(".rs") && file.starts_with(&prefix) && !is_foreign(&file[prefix.len()..])
        });
        found.extend(dead(&workspace.root, files.map(String::as_str), &reached));
    }
    found.extend(strays(workspace.committed.iter().map(String::as_str)));
    found
}

/// Files beneath what is not among [`TOP`].
fn strays<'a>(files: impl Iterator<Item = &'a str>) -> Vec<Offence> {
    let strays = files.filter(|file| !TOP.contains(&file.split('/').next().unwrap_or_default()));
    let message =
        "nothing of this name lies at the top of the repository; delete it, or name it in TOP";
    strays.map(|file| Offence::new(file, message)).collect()
}

/// Packages of their own inside a crate's folder (peers, fuzz targets).
fn is_foreign(inside: &str) -> bool {
    !["src/", "tests/", "examples/", "benches/"].iter().any(|folder| inside.starts_with(folder))
}

fn dead<'a>(
    root: &Path,
    files: impl Iterator<Item = &'a str>,
    reached: &HashSet<PathBuf>,
) -> Vec<Offence> {
    let dead = files.filter(|file| !reached.contains(&root.join(file)));
    let message = "no target reaches this file; declare it with `mod`, or delete it";
    dead.map(|file| Offence::new(file, message)).collect()
}

/// Files reachable from `roots`.
fn reach(roots: &[PathBuf], read: impl Fn(&Path) -> Option<String>) -> HashSet<PathBuf> {
    let mut reached = HashSet::new();
    let mut open: Vec<(PathBuf, bool)> = roots.iter().map(|root| (root.clone(), true)).collect();
    while let Some((file, is_root)) = open.pop() {
        let Some(text) = read(&file) else { continue };
        if !reached.insert(file.clone()) {
            continue;
        }
        open.extend(children(&file, is_root, &text).into_iter().map(|child| (child, false)));
    }
    reached
}

/// Files that `file` may mean by its `mod` lines; those that do not exist are dropped by `reach`.
fn children(file: &Path, is_root: bool, text: &str) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().unwrap_or_default();
    let owns_folder = is_root || stem == "mod";
    let home = if owns_folder { folder.to_path_buf() } else { folder.join(stem) };
    let mut found = Vec::new();
    let mut path_attribute = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = quoted(line, "#[path = \"") {
            path_attribute = Some(folder.join(path));
        }
        if let Some(path) = quoted(line, "include!(\"") {
            found.push(folder.join(path));
        }
        if let Some(name) = module(line) {
            match path_attribute.take() {
                Some(path) => found.push(path),
                None => {
                    found.push(home.join(format!("{name}.rs")));
                    found.push(home.join(name).join("mod.rs"));
                }
            }
        }
    }
    found
}

fn quoted<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    let rest = &line[line.find(start)? + start.len()..];
    rest.split('"').next()
}

/// The name in `mod name;`, with any visibility and attributes before it on the line.
fn module(line: &str) -> Option<&str> {
    let declaration = line.strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once("mod ")?;
    let fits = before.is_empty() || before.ends_with(' ');
    (fits && !before.starts_with("//") && name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_the_top_without_being_named_is_found() {
        let files = ["Cargo.toml", "crates/a/src/lib.rs", "q/01.sql", "notes.txt"];
        let found: Vec<_> =
            strays(files.into_iter()).into_iter().map(|offence| offence.to_string()).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("q/01.sql") && found[1].contains("notes.txt"), "{found:?}");
    }

    fn tree() -> Vec<(&'static str, &'static str)> {
        vec![
            ("/c/src/lib.rs", "pub mod a;\npub(crate) mod b;\n#[path = \"odd.rs\"]\nmod c;\n"),
            ("/c/src/a.rs", "mod deep;\n"),
            ("/c/src/a/deep.rs", "include!(\"table.rs\");"),
            ("/c/src/a/table.rs", ""),
            ("/c/src/b/mod.rs", "mod leaf;"),
            ("/c/src/b/leaf.rs", "// mod orphan;"),
            ("/c/src/odd.rs", ""),
            ("/c/src/orphan.rs", ""),
        ]
    }

    #[test]
    fn only_the_file_that_nothing_declares_is_dead() {
        let tree = tree();
        let read = |path: &Path| {
            let file = tree.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        let reached = reach(&[PathBuf::from("/c/src/lib.rs")], read);
        let files = tree.iter().map(|(name, _)| name.trim_start_matches('/'));
        let found = dead(Path::new("/"), files, &reached);
        let message = "no target reaches this file; declare it with `mod`, or delete it";
        assert_eq!(found, [Offence::new("c/src/orphan.rs", message)]);
    }
}
