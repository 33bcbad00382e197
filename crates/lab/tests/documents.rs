//! Documents name experiments and options that `halcyon-lab --help` lists; the page of experiments has
//! every experiment; docs/design.md names figures that experiments print.

#[path = "../../cli/tests/documents/files.rs"]
mod files;
#[path = "../../cli/tests/documents/manual.rs"]
mod manual;
#[path = "../../cli/tests/documents/page.rs"]
#[expect(dead_code, reason = "crate cli's test of documents uses the rest")]
mod page;

use files::{read, relative_paths};
use manual::{Manual, subcommands};

fn manual() -> Manual {
    Manual::new(
        env!("CARGO_BIN_EXE_halcyon-lab"),
        &["halcyon-lab", "halcyon lab", "cargo run --release -p halcyon-lab --"],
    )
}

#[test]
fn command_lines_of_experiments_name_what_help_lists() {
    let mut manual = manual();
    let (mut checked, mut offences) = (0, Vec::new());
    for path in relative_paths() {
        let (count, found) = manual.check(&path, &read(&path));
        checked += count;
        offences.extend(found);
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    assert!(checked >= 30, "only {checked} command lines were found");
    let (_, planted) = manual.check("a.md", "`halcyon lab pint` `halcyon-lab point --row 5`");
    assert_eq!(planted.len(), 2, "{planted:?}");
}

#[test]
fn the_page_of_experiments_has_every_experiment() {
    let mut manual = manual();
    let names = subcommands(manual.help(&[]).expect("help"));
    assert!(names.contains("views"), "{names:?}");
    let page = read("docs/experiments/README.md");
    let lacking: Vec<&str> = (names.into_iter())
        .filter(|name| *name != "help" && !page.contains(&format!("- [{name}]")))
        .collect();
    assert!(lacking.is_empty(), "docs/experiments/README.md does not list {lacking:?}");
}

/// Names of figures in a cell, with `{a,b}` spelt out, and without remarks.
fn figures(cell: &str) -> Vec<String> {
    let mut found = Vec::new();
    let plain = cell.replace("per type ", "").replace("per arm and query: ", "");
    let plain = plain.replace("per query: ", "");
    let plain = plain.replace("; then ", ", ").replace(", and ", ", ");
    let mut rest = plain.as_str();
    while !rest.is_empty() {
        let end =
            rest.find(", ").filter(|end| !rest[..*end].contains('{') || rest[..*end].contains('}'));
        let (name, next) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 2..]));
        match name.split_once('{') {
            Some((start, list)) => {
                let list = list.trim_end_matches('}').split(',');
                found.extend(list.map(|part| format!("{start}{}", part.trim())));
            }
            None => found.push(name.split(" (").next().unwrap_or(name).to_owned()),
        }
        rest = next;
    }
    found
}

#[test]
fn the_design_names_figures_that_experiments_print() {
    let names = subcommands_of_the_design();
    assert!(names.len() >= 8, "{names:?}");
    let of = |folder: &str| sources(&files::root().join(folder));
    let sources = of("crates/lab/src") + &of("crates/scenarios/src") + &of("crates/neighbours/src");
    for (experiment, cell) in names {
        for figure in figures(&cell) {
            // Some names are put together: `{type}_latency_us_{quantile}`.
            let stem = figure.rsplit_once('_').map_or("", |(stem, _)| stem);
            let forms = [format!("{figure}\""), format!("{stem}_{{")];
            let known = forms.iter().any(|form| sources.contains(form));
            assert!(known, "docs/design.md §11: {experiment} prints no {figure:?}");
        }
    }
}

/// Experiments and figures of the design's table, without those that are planned.
fn subcommands_of_the_design() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for piece in page::pieces(&read("docs/design.md")) {
        if let page::Content::Table { header, rows, .. } = piece.content
            && header == ["experiment", "figures"]
        {
            let there = rows.into_iter().filter(|row| !row.cells[1].starts_with("**planned**"));
            found.extend(there.map(|row| (row.cells[0].clone(), row.cells[1].clone())));
        }
    }
    found
}

fn sources(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
    text
}
