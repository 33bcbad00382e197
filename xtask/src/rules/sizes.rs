//! No crate outgrows what one person can keep in view.

use super::Offence;
use super::excuses::{self, Excuse};
use crate::workspace::Workspace;

/// Lines of Rust below `src` that a crate may have, tests among them.
const LINES_MAX: usize = 15_000;

/// Crates that are larger and being divided. A crate that fits again must go from here.
const EXCUSED: &[Excuse] = &[];

/// Counts the lines of every own crate.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let per_crate = workspace.own().map(|package| {
        let source = format!("{}/src/", workspace.relative(&package.folder));
        let is_rust = |file: &&String| file.starts_with(&source) && file.ends_with(".rs");
        let texts = workspace.files.iter().filter(is_rust).filter_map(|file| workspace.text(file));
        let lines = texts.map(|text| text.lines().count()).sum();
        (package.name.as_str(), offence(&package.name, lines).into_iter().collect())
    });
    excuses::apply(EXCUSED, file!(), per_crate)
}

fn offence(name: &str, lines: usize) -> Option<Offence> {
    (lines > LINES_MAX).then(|| {
        let message = format!(
            "has {lines} lines below src, and {LINES_MAX} are the most; give a part that has a \
             purpose of its own a crate of its own, which the rest sits on or which sits on the rest"
        );
        Offence::new(name, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_over_the_limit_is_refused_and_the_message_says_what_to_do() {
        let found = offence("halcyon-all", 15_001).expect("it is too large").to_string();
        assert!(found.starts_with("halcyon-all: has 15001 lines below src"), "{found}");
        assert!(found.contains("a crate of its own"), "{found}");
        assert_eq!(offence("halcyon-all", 15_000), None);
    }
}
