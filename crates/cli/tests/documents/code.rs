//! Rust in documents compiles and runs: each block stands, line by line, in an example of crate
//! `halcyon`, and the examples run here; or in that of crate `adbc`, which compiles and wants an installed library.

#[path = "../../../halcyon/examples/embedded.rs"]
mod embedded;
#[path = "../../../halcyon/examples/guide.rs"]
mod guide;

use crate::files::{read, relative_paths};
use crate::page::{Content, pieces};

/// Sources of the examples above.
const EXAMPLES: [&str; 3] = [
    include_str!("../../../halcyon/examples/embedded.rs"),
    include_str!("../../../halcyon/examples/guide.rs"),
    include_str!("../../../adbc/examples/manager.rs"),
];

/// The code without white space: a block may be indented differently, and its lines may be broken
/// elsewhere.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

fn stands_in(block: &str, example: &str) -> bool {
    squeezed(example).contains(&squeezed(block))
}

#[test]
fn every_block_of_rust_stands_in_an_example() {
    let mut blocks = 0;
    for path in relative_paths() {
        for piece in pieces(&read(&path)) {
            let Content::Block { language, text, .. } = &piece.content else { continue };
            if language == "rust" {
                blocks += 1;
                let found = EXAMPLES.iter().any(|example| stands_in(text, example));
                assert!(found, "{path}:{}: no example has these lines", piece.line);
            }
        }
    }
    assert!(blocks >= 5, "only {blocks} blocks of Rust were found");
    assert!(!stands_in("let planted = 1;\nlet offence = 2;", EXAMPLES[0]));
}

#[test]
fn the_embedded_example_runs() {
    embedded::main().expect("the README's example");
}

#[test]
fn the_guide_s_example_runs() {
    guide::main().expect("the guide's example");
}
