//! Words that must not stand in the repository: paths of one machine, hosts of package
//! registries. A checkout works anywhere, with whatever registry cargo, pip and Maven are told.

use super::Offence;
use crate::workspace::Workspace;

/// What is looked for, written in two halves so that this file passes its own rule, and what to
/// do instead.
const SHUT: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "write a path relative to the repository"),
    (concat!("/ho", "me/"), "write a path relative to the repository, or `~`"),
    (concat!("/ro", "ot/"), "write a path relative to the repository, or `~`"),
    (concat!("/Us", "ers/"), "write a path relative to the repository, or `~`"),
    (concat!("static.cra", "tes.io"), "name the crate; cargo knows the registry"),
    (concat!("index.cra", "tes.io"), "name the crate; cargo knows the registry"),
    (concat!("py", "pi.org"), "name the package; pip knows the registry"),
    (concat!("pythonhos", "ted.org"), "name the package; pip knows the registry"),
    (concat!("maven", ".org"), "name the artifact; Maven knows the registry"),
    (concat!("npm", "js.org"), "name the package; npm knows the registry"),
    (concat!("deb.deb", "ian.org"), "name the package; apt knows the registry"),
];

/// Looks at every text file. The lock file is cargo's own and names its index by design.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let files = workspace.files.iter().filter(|file| !file.ends_with("Cargo.lock"));
    let texts = files.filter_map(|file| Some((file, workspace.text(file)?)));
    texts.flat_map(|(file, text)| offences(file, &text)).collect()
}

fn offences(file: &str, text: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (word, instead) in SHUT.iter().filter(|(word, _)| line.contains(word)) {
            let place = format!("{file}:{}", number + 1);
            found.push(Offence::new(place, format!("{word:?} must not stand here; {instead}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shut_word_is_found_where_it_stands() {
        for (word, instead) in SHUT {
            let found = offences("a.md", &format!("fine\nsee {word}x"));
            let message = format!("{word:?} must not stand here; {instead}");
            assert_eq!(found, [Offence::new("a.md:2", message)]);
        }
    }

    #[test]
    fn ordinary_text_passes() {
        assert_eq!(offences("a.md", "workload and homework at ~/.cache\n"), []);
    }
}
