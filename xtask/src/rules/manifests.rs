//! Every crate inherits the workspace's lints, and forbids `unsafe` unless it needs it.

use super::Offence;
use crate::workspace::Workspace;

/// Looks at manifests and at library and binary roots.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut found = Vec::new();
    for package in workspace.own() {
        let folder = workspace.relative(&package.folder);
        let manifest = format!("{folder}/Cargo.toml");
        found.extend(lints(&manifest, &workspace.text(&manifest).unwrap_or_default()));
        let source = format!("{folder}/src/");
        let texts: Vec<(&String, String)> = workspace
            .files
            .iter()
            .filter(|file| file.starts_with(&source) && file.ends_with(".rs"))
            .filter_map(|file| Some((file, workspace.text(file)?)))
            .collect();
        found.extend(unsafety(&texts));
    }
    found
}

fn lints(manifest: &str, text: &str) -> Option<Offence> {
    (!text.contains("[lints]\nworkspace = true")).then(|| {
        Offence::new(manifest, "does not use the workspace's lints; add `[lints] workspace = true`")
    })
}

/// A crate without `unsafe` must say so, so that the first one is a decision.
fn unsafety(files: &[(&String, String)]) -> Vec<Offence> {
    let words = [concat!("unsa", "fe {"), concat!("unsa", "fe fn"), concat!("unsa", "fe impl")];
    if files.iter().any(|(_, text)| words.iter().any(|word| text.contains(word))) {
        return Vec::new();
    }
    let is_root = |file: &str| file.ends_with("/src/lib.rs") || file.ends_with("/src/main.rs");
    let roots = files.iter().filter(|(file, _)| is_root(file));
    let lax = roots.filter(|(_, text)| !text.contains("#![forbid(unsafe_code)]"));
    let message = "has no unsafe code; say `#![forbid(unsafe_code)]`";
    lax.map(|(file, _)| Offence::new(file.as_str(), message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_leaves_the_lints_out_is_named() {
        assert!(lints("x/Cargo.toml", "[package]\n").is_some());
        assert!(lints("x/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n").is_none());
    }

    #[test]
    fn a_crate_without_unsafe_must_forbid_it() {
        let file = "crates/x/src/lib.rs".to_owned();
        let check = |text: &str| unsafety(&[(&file, text.to_owned())]).len();
        assert_eq!(check("fn f() {}"), 1);
        assert_eq!(check("#![forbid(unsafe_code)]\nfn f() {}"), 0);
        assert_eq!(check(concat!("fn f() { unsa", "fe { g() } }")), 0);
    }
}
