//! The table of what a change costs in docs/contributing.md is true: each of its rows names something
//! that was added for that price, and the word stands in no other code than in the files that the row
//! lists.

use super::Offence;
use crate::workspace::Workspace;

const DOCUMENT: &str = "docs/contributing.md";
const HEADER: &str = "| to add | touch | as for |";

/// Looks at every row of the table, and for its word in the code of all crates. Tests are no price.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let is_code = |file: &&String| {
        file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs")
    };
    let files = workspace.files.iter().filter(is_code).filter(|file| !file.contains("tests"));
    let code: Vec<(String, String)> =
        files.map(|file| (file.clone(), workspace.text(file).unwrap_or_default())).collect();
    offences(&workspace.text(DOCUMENT).unwrap_or_default(), &code)
}

fn offences(document: &str, code: &[(String, String)]) -> Vec<Offence> {
    let lines = document.lines().enumerate().skip_while(|(_, line)| !line.starts_with(HEADER));
    let rows: Vec<_> = lines.skip(2).take_while(|(_, line)| line.starts_with('|')).collect();
    if rows.is_empty() {
        let message = format!("there is no table of prices; it begins with {HEADER:?}");
        return vec![Offence::new(DOCUMENT, message)];
    }
    rows.into_iter().flat_map(|(at, row)| of_row(at + 1, row, code)).collect()
}

fn of_row(line: usize, row: &str, code: &[(String, String)]) -> Vec<Offence> {
    let place = format!("{DOCUMENT}:{line}");
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let words = cells.get(3).map(|cell| spans(cell)).unwrap_or_default();
    let [word] = words[..] else {
        return vec![Offence::new(
            place,
            "\"as for\" names one thing that was added, in backticks",
        )];
    };
    let listed: Vec<&str> = cells.get(2).map(|cell| spans(cell)).unwrap_or_default();
    let holds = |text: &str| stands_in(without_tests(text), word);
    let found: Vec<&str> =
        code.iter().filter(|(_, text)| holds(text)).map(|(file, _)| file.as_str()).collect();
    let is_listed = |file: &&str| listed.iter().any(|path| file.starts_with(path));
    if !found.iter().any(is_listed) {
        let message = format!("{word} stands in none of the files that the row lists");
        return vec![Offence::new(place, message)];
    }
    let others = found.iter().filter(|file| !is_listed(file));
    let message = |file: &&str| format!("{word} stands in {file} too, which the row does not list");
    others.map(|file| Offence::new(place.clone(), message(file))).collect()
}

/// What stands in backticks and is a path or a word.
fn spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter(|span| !span.contains(' ')).collect()
}

fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

/// Whether `word` stands in code, not as a part of another word.
fn stands_in(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.match_indices(word).map(move |(at, _)| (line, at))).any(
        |(line, at)| {
            !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(row: &str) -> Vec<String> {
        let document =
            format!("{HEADER} what demands the rest |\n|---|---|---|---|\n{row}\nText.\n");
        let code = [
            ("crates/a/src/list.rs", "row(\"one\"), row(\"two\"), // three\n"),
            ("crates/a/src/use.rs", "    // \"one\"\nlet x = \"two\";\n"),
            ("crates/b/src/lib.rs", "other(\"one_more\");\n#[cfg(test)]\nmod tests { \"one\" }\n"),
        ];
        let code = code.map(|(file, text)| (file.to_owned(), text.to_owned()));
        offences(&document, &code).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_word_elsewhere_than_listed_is_named() {
        assert!(told("| a | `crates/a/src/list.rs`: a row | `\"one\"` | |").is_empty());
        assert!(told("| a | `crates/a/`: a row of `Kind` | `\"two\"` | |").is_empty());
        let found = told("| a | `crates/a/src/list.rs`: a row | `\"two\"` | |");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("\"two\" stands in crates/a/src/use.rs too"), "{found:?}");
    }

    #[test]
    fn a_row_without_a_word_and_a_word_that_is_nowhere_are_named() {
        let found = told("| a | `crates/a/src/list.rs` | | |");
        assert!(found[0].contains("names one thing"), "{found:?}");
        let found = told("| a | `crates/b/src/lib.rs` | `\"one\"` | |");
        assert!(found[0].contains("in none of the files"), "{found:?}");
        assert!(offences("# No table\n", &[])[0].to_string().contains("no table of prices"));
    }
}
