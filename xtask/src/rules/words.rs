//! Words that must not stand in the repository: paths of one machine, hosts of package
//! registries. A checkout works anywhere, with whatever registry cargo, pip and Maven are told.
//!
//! And prose that leaves its nouns out, as far as a program can tell: a doc comment that says no more
//! than "The same.", or whose first word is a pronoun; "whoever". A reader opens one file, at one
//! item, and has nothing that a pronoun could stand for.

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
    let texts: Vec<_> = files.filter_map(|file| Some((file, workspace.text(file)?))).collect();
    let mut found: Vec<Offence> =
        texts.iter().flat_map(|(file, text)| offences(file, text)).collect();
    let done = |file: &str| DONE.iter().any(|folder| file.starts_with(folder));
    let sources = texts.iter().filter(|(file, _)| file.ends_with(".rs") && done(file));
    found.extend(sources.flat_map(|(file, text)| nounless(file, text)));
    found
}

/// Folders whose prose has been read for this; a folder comes in with the commit that mends it.
const DONE: &[&str] = &[
    "xtask/",
    "fuzz/",
    "crates/base/",
    "crates/machine/",
    "crates/cache/",
    "crates/task/",
    "crates/tree/",
    "crates/store/",
    "crates/txn/",
    "crates/value/",
    "crates/view/",
    "crates/cell-abi/",
    "crates/cell-image/",
    "crates/cell/",
    "crates/delta/",
    "crates/workload/",
    "crates/views/",
    "crates/plan/",
    "crates/exec/",
    "crates/ddl/",
    "crates/pgcatalog/",
    "crates/halcyon/",
    "crates/server/",
    "crates/console/",
    "crates/tpch/",
    "crates/graphs/",
    "crates/neighbours/",
    "crates/lab/",
    "crates/cli/",
];

/// First words of a doc comment that stand for something said elsewhere.
const PRONOUNS: &[&str] =
    &["It", "Its", "They", "Their", "Theirs", "Those", "These", "This", "That", "Whoever", "He"];

/// Comments that refer to what the reader does not see.
fn nounless(file: &str, text: &str) -> Vec<Offence> {
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let mut tell = |message: String| {
            found.push(Offence::new(format!("{file}:{}", number + 1), message));
        };
        if let Some(comment) = comment(line) {
            if has_whoever(comment) {
                tell("\"whoever\" names nobody; write which task, thread, caller or reader".into());
            }
            let first = !is_doc(before) && is_doc(line);
            let word = comment.split([' ', ',', '.']).next().unwrap_or_default();
            if first && comment.trim_end_matches('.') == SAME {
                tell("this says nothing by itself; write the sentence again".into());
            } else if first && PRONOUNS.contains(&word) {
                tell(format!("{word:?} begins a doc comment; begin with the noun"));
            }
        }
        before = line;
    }
    found
}

const SAME: &str = concat!("The ", "same");

fn is_doc(line: &str) -> bool {
    line.starts_with("///") || line.starts_with("//!")
}

/// Text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim())
}

/// Whether the word stands there as such; in quotes it is spoken of.
fn has_whoever(comment: &str) -> bool {
    let words = comment.split(|c: char| c.is_whitespace() || ",.;:()".contains(c));
    let mut words = words.map(str::to_lowercase);
    words.any(|word| concat!("who", "ever,who", "soever").split(',').any(|shut| word == shut))
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
    fn prose_without_its_nouns_is_found() {
        let offence = |text: &str| {
            let found = nounless("a.rs", text);
            found.iter().map(Offence::to_string).collect::<Vec<_>>().join("\n")
        };
        assert!(offence(&format!("/// {SAME}.\nfn a() {{}}")).starts_with("a.rs:1: this says"));
        assert!(offence("/// It is full.").contains("\"It\" begins"));
        assert!(offence("//! Those of all triggers.").contains("\"Those\" begins"));
        assert!(offence(&format!("    // Who{} comes next.", "ever")).contains("names nobody"));
        let fine =
            "/// A queue.\n/// It is full at 8.\n/// Itself a queue.\nlet x = 1; // It is.\n";
        assert_eq!(offence(&fine.replace("/// Itself", "///\n/// Itself")), "");
    }

    #[test]
    fn ordinary_text_passes() {
        assert_eq!(offences("a.md", "workload and homework at ~/.cache\n"), []);
    }
}
