//! The README's tour and its embedded example are true: each `sql` block, run through the shell,
//! prints the `text` block that follows it.

use std::io::Write;
use std::process::{Command, Stdio};

#[path = "../../halcyon/examples/embedded.rs"]
mod embedded;

const README: &str = include_str!("../../../README.md");
const EMBEDDED: &str = include_str!("../../halcyon/examples/embedded.rs");

/// Printed by the shell between two blocks.
const MARK: &str = "--- next block ---";

/// Fenced blocks: language and text.
fn blocks(document: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: String = lines
                .by_ref()
                .take_while(|line| *line != "```")
                .map(|line| format!("{line}\n"))
                .collect();
            found.push((language, body));
        }
    }
    found
}

/// Lines without blanks at their ends, which no reader of a document sees.
fn visible(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(str::trim_end).collect()
}

#[test]
fn every_block_of_the_tour_prints_what_the_readme_shows() {
    let blocks = blocks(README);
    let mut tour = blocks.iter().filter(|(language, _)| ["sql", "text"].contains(language));
    let (mut script, mut expected) = (String::new(), Vec::new());
    while let (Some((left, sql)), Some((right, text))) = (tour.next(), tour.next()) {
        assert_eq!((*left, *right), ("sql", "text"), "blocks come in pairs");
        script.push_str(&format!("{sql}\n\\echo {MARK}\n"));
        expected.push(text);
    }
    assert!(expected.len() >= 4, "the tour has {} steps", expected.len());
    // One stream, as a terminal shows it.
    let mut shell = Command::new("sh")
        .args(["-c", "exec \"$0\" shell --keep-going -f - 2>&1", env!("CARGO_BIN_EXE_halcyon")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
    let printed: Vec<&str> = output.split(&format!("{MARK}\n")).collect();
    for (step, (text, printed)) in expected.iter().zip(&printed).enumerate() {
        assert_eq!(visible(text), visible(printed), "step {} of the tour", step + 1);
    }
    assert_eq!(printed.len(), expected.len() + 1);
}

#[test]
fn the_embedded_example_is_the_one_that_compiles_and_it_runs() {
    let blocks = blocks(README);
    let (_, shown) = blocks.iter().find(|(language, _)| *language == "rust").unwrap();
    assert!(EMBEDDED.contains(shown), "README and example differ");
    embedded::main().unwrap();
}
