//! The README's tour: each `sql` block prints the `text` block that follows it, all of them in one
//! shell on an empty database in memory.

use crate::files::read;
use crate::page::{Content, agrees, pieces};
use crate::server;

/// Printed by the shell between two blocks.
const MARK: &str = "--- next block ---";

#[test]
fn every_block_of_the_tour_prints_what_the_readme_shows() {
    let (mut script, mut expected) = (String::new(), Vec::new());
    for piece in pieces(&read("README.md")) {
        if let Content::Block { language, text, expected: Some(printed) } = piece.content {
            assert_eq!(language, "sql", "README.md:{}", piece.line);
            script.push_str(&format!("{text}\n\\echo {MARK}\n"));
            expected.push((piece.line, printed));
        }
    }
    assert!(expected.len() >= 6, "the tour has {} steps", expected.len());
    let folder = server::Folder::new("tour");
    let output = server::shell(folder.path(), None, &script);
    let printed: Vec<&str> = output.split(&format!("{MARK}\n")).collect();
    for ((line, expected), printed) in expected.iter().zip(&printed) {
        assert!(agrees(expected, printed), "README.md:{line} prints\n{printed}");
    }
    assert_eq!(printed.len(), expected.len() + 1);
}
