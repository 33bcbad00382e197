//! Dependencies carry a licence that Apache-2.0 can live with.

use super::Offence;
use crate::workspace::{Package, Workspace};

/// Licences that ask for no more than a notice, and MPL-2.0, which asks for the source of its own
/// files only.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "bzip2-1.0.6",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages whose manifest states no SPDX expression, looked at by hand: name and what it is.
const READ_BY_HAND: &[(&str, &str)] = &[];

/// Looks at every package of the build that is not ours.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    offences(workspace.packages.iter().filter(|package| !package.ours))
}

fn offences<'a>(packages: impl Iterator<Item = &'a Package>) -> Vec<Offence> {
    let mut found = Vec::new();
    for package in packages {
        let place = format!("{} {}", package.name, package.version);
        match &package.licence {
            Some(expression) if allowed(expression) => {}
            Some(expression) => {
                let message = format!(
                    "licence {expression:?} is not on the list; take another crate, or add it to \
                     ALLOWED in xtask/src/rules/licences.rs after reading it"
                );
                found.push(Offence::new(place, message));
            }
            None if READ_BY_HAND.iter().any(|(name, _)| *name == package.name) => {}
            None => {
                let message = "states no licence; read its files, then name it in READ_BY_HAND";
                found.push(Offence::new(place, message));
            }
        }
    }
    found
}

/// Whether some choice that an SPDX expression offers is allowed in all its parts.
/// `AND` binds closer than `OR`; `/` is the old spelling of `OR`.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&words, &mut at) && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize) -> bool {
    let mut good = all_of(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        good |= all_of(words, at);
    }
    good
}

fn all_of(words: &[&str], at: &mut usize) -> bool {
    let mut good = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        good &= one(words, at);
    }
    good
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if *word == "(" {
        let good = any_of(words, at);
        *at += 1;
        return good;
    }
    let mut name = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1).copied().unwrap_or_default());
        *at += 2;
    }
    ALLOWED.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        let cases = [
            ("MIT", true),
            ("MIT OR GPL-3.0-only", true),
            ("MIT/Apache-2.0", true),
            ("(MIT OR GPL-2.0-only) AND Unicode-3.0", true),
            ("MIT AND GPL-2.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("AGPL-3.0-or-later", false),
            ("", false),
        ];
        for (expression, expected) in cases {
            assert_eq!(allowed(expression), expected, "{expression}");
        }
    }

    #[test]
    fn a_package_under_another_licence_is_named() {
        let bad = Package {
            name: "viral".to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("AGPL-3.0-only".to_owned()),
            ..Package::default()
        };
        let silent = Package { name: "silent".to_owned(), ..Package::default() };
        let found = offences([&bad, &silent].into_iter());
        assert_eq!(found.len(), 2);
        assert!(found[0].to_string().starts_with("viral 1.0.0: licence \"AGPL-3.0-only\""));
    }
}
