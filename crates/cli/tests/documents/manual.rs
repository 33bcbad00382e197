//! Command lines in documents, compared with the `--help` of a binary.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::page::{Content, code_spans, pieces};

/// Words behind a binary's name that are no subcommand: arms of experiments (`halcyon sync`), and
/// experiments, which have a manual of their own.
const OTHERS: &[&str] = &["sync", "async", "off", "lab"];

/// The help texts of a binary and its subcommands, each fetched once.
pub struct Manual {
    binary: &'static str,
    /// The words by which documents start the binary.
    starts: &'static [&'static str],
    known: BTreeMap<Vec<String>, Option<String>>,
}

impl Manual {
    /// The manual of `binary`, which command lines in documents begin by one of `starts`.
    pub fn new(binary: &'static str, starts: &'static [&'static str]) -> Manual {
        Manual { binary, starts, known: BTreeMap::new() }
    }

    /// The output of `WORDS --help`; `None` if there is no such subcommand.
    pub fn help(&mut self, words: &[String]) -> Option<&str> {
        let binary = self.binary;
        let ask = || {
            let output = Command::new(binary).args(words).arg("--help").output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            output.status.success().then_some(text)
        };
        self.known.entry(words.to_vec()).or_insert_with(ask).as_deref()
    }

    /// How many command lines of a document start this binary, and the offences among them.
    pub fn check(&mut self, path: &str, document: &str) -> (usize, Vec<String>) {
        let lines = command_lines(document);
        let lines = lines.iter().filter_map(|(line, text)| Some((line, self.arguments(text)?)));
        let lines: Vec<_> = lines.collect();
        let offences = lines.iter().filter_map(|(line, words)| {
            self.offence(words).map(|offence| format!("{path}:{line}: {offence}"))
        });
        let offences = offences.collect();
        (lines.len(), offences)
    }

    /// Words behind the binary's name, if `line` starts it. A comment, what precedes a pipe, and a
    /// second command are cut.
    fn arguments<'l>(&self, line: &'l str) -> Option<Vec<&'l str>> {
        let line = line.split(" #").next().unwrap_or(line);
        let line = line.split(" && ").next().unwrap_or(line).split(';').next().unwrap_or(line);
        let line = line.rsplit("| ").next().unwrap_or(line).trim();
        let rest = self.starts.iter().find_map(|start| line.strip_prefix(start))?;
        if !rest.is_empty() && !rest.starts_with(' ') {
            return None;
        }
        let words: Vec<&str> = rest.split_whitespace().filter(|word| *word != "…").collect();
        (!words.first().is_some_and(|word| OTHERS.contains(word))).then_some(words)
    }

    /// The offence of a command line whose words behind the binary's name are `words`.
    fn offence(&mut self, words: &[&str]) -> Option<String> {
        let name = self.starts[0];
        let commands: Vec<String> = (words.iter())
            .take_while(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
            .map(|word| (*word).to_owned())
            .collect();
        // The last plain word may be an argument: `halcyon export shop`.
        let mut depth = commands.len();
        while depth > 0 && !self.has_subcommand(&commands[..depth]) {
            depth -= 1;
        }
        if depth == 0 && !commands.is_empty() {
            return Some(format!("there is no `{name} {}`", commands[0]));
        }
        let options = options(self.help(&commands[..depth])?);
        let named = words.iter().filter(|word| word.starts_with('-') && word.len() > 1);
        let unknown = named
            .map(|word| word.split('=').next().unwrap_or(word))
            .find(|word| !options.contains(*word))?;
        Some(format!("`{name} {}` has no option {unknown}", commands[..depth].join(" ")))
    }

    /// Whether the help of all words but the last lists the last.
    fn has_subcommand(&mut self, words: &[String]) -> bool {
        let Some((last, before)) = words.split_last() else { return true };
        self.help(before).is_some_and(|help| subcommands(help).contains(last.as_str()))
    }
}

/// Options that a help text lists.
pub fn options(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with('-') && word.len() > 1).map(str::to_owned).collect()
}

/// Subcommands that a help text lists.
pub fn subcommands(help: &str) -> BTreeSet<&str> {
    let Some((_, list)) = help.split_once("Commands:\n") else { return BTreeSet::new() };
    let list = list.split("\n\n").next().unwrap_or_default();
    list.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

/// Command lines of a document, with the line that each stands in.
fn command_lines(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for piece in pieces(document) {
        if let Content::Block { language, text, .. } = &piece.content
            && language == "sh"
        {
            found.extend(text.lines().map(|line| (piece.line, line.to_owned())));
        }
    }
    for (number, line) in document.lines().enumerate() {
        found.extend(code_spans(line).into_iter().map(|span| (number + 1, span.to_owned())));
    }
    found
}
