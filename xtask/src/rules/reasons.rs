//! Every entry of `[workspace.dependencies]` says in a comment above it why it is there, and
//! every dependency of a crate comes from that table.

use super::Offence;
use crate::workspace::Workspace;

/// Looks at the root manifest and at those of the crates.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let mut found = unexplained(&workspace.text("Cargo.toml").unwrap_or_default());
    for package in workspace.own() {
        let manifest = workspace.relative(&package.folder.join("Cargo.toml"));
        found.extend(local(&manifest, &workspace.text(&manifest).unwrap_or_default()));
    }
    found
}

/// Entries with no comment directly above. Our own crates need none.
fn unexplained(manifest: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    let mut within = false;
    let mut explained = false;
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            within = line.trim() == "[workspace.dependencies]";
        }
        if !within || !line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            explained = line.starts_with('#') || (explained && line.starts_with([' ', ']']));
            continue;
        }
        let name = line.split([' ', '=', '.']).next().unwrap_or_default();
        if !explained && !line.contains("path =") {
            let message = format!(
                "`{name}` states no reason; write above it what it is for and what it replaces"
            );
            found.push(Offence::new(format!("Cargo.toml:{}", number + 1), message));
        }
        explained = false;
    }
    found
}

/// Dependencies of a crate that state a version of their own.
fn local(manifest: &str, text: &str) -> Vec<Offence> {
    let mut within = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            within = line.trim_end_matches(']').ends_with("dependencies");
        } else if within
            && line.contains('=')
            && !line.contains("workspace = true")
            // The crate itself, with a feature that its tests have.
            && !line.contains("path = \".\"")
            && !line.starts_with('#')
        {
            let message = "versions stand in the root manifest; write `name.workspace = true` here";
            found.push(Offence::new(format!("{manifest}:{}", number + 1), message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_a_comment_above_is_named() {
        let manifest = "[workspace.dependencies]\nown = { path = \"own\" }\n# why\ngood = \"1\"\n\
                        bad = \"1\"\n# why\nlong = { version = \"1\", features = [\n    \"x\",\n] }\n\
                        worse = \"2\"\n[profile.dev]\ndebug = 0\n";
        let found = unexplained(manifest);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].to_string().starts_with("Cargo.toml:5: `bad` states no reason"));
        assert!(found[1].to_string().starts_with("Cargo.toml:10: `worse`"));
    }

    #[test]
    fn a_version_in_a_crate_is_named() {
        let text = "[package]\nversion = \"1\"\n[dev-dependencies]\na.workspace = true\nb = \"1\"\n\
             x = { path = \".\", features = [\"testing\"] }\n";
        let found = local("crates/x/Cargo.toml", text);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("crates/x/Cargo.toml:5: versions stand"));
    }
}
