//! Placeholders of other drivers.

use halcyon_interchange::placeholders::{Order, numbers, questions, rewrite};

fn rewritten(text: &str) -> (String, Order) {
    let made = rewrite(text);
    (made.text, made.order)
}

#[test]
fn each_kind_becomes_numbers() {
    let places = |count| Order::Places((0..count).collect());
    let names =
        |names: &[&str]| Order::Names(names.iter().map(|name| (*name).to_owned()).collect());
    for (text, expected, order) in [
        ("SELECT 1", "SELECT 1", Order::Numbered),
        ("SELECT $2, $1", "SELECT $2, $1", Order::Numbered),
        ("SELECT %s, %s", "SELECT $1, $2", places(2)),
        ("SELECT 7 %% %s", "SELECT 7 % $1", places(1)),
        ("SELECT 'a%%s ?', %s", "SELECT 'a%s ?', $1", places(1)),
        ("SELECT 'a%%s'", "SELECT 'a%%s'", Order::Numbered),
        ("SELECT 7 % 3", "SELECT 7 % 3", Order::Numbered),
        ("SELECT 7 %% 3", "SELECT 7 %% 3", Order::Numbered),
        ("SELECT %(a)s, %(b)s, %(a)s", "SELECT $1, $2, $1", names(&["a", "b"])),
        ("SELECT ?, ?", "SELECT $1, $2", places(2)),
        (
            "SELECT d ? 'a' FROM t WHERE i = $1",
            "SELECT d ? 'a' FROM t WHERE i = $1",
            Order::Numbered,
        ),
        ("SELECT d ? 'a' FROM t WHERE i = %s", "SELECT d ? 'a' FROM t WHERE i = $1", places(1)),
        ("SELECT :a::int, a[1:2]", "SELECT $1::int, a[1:2]", names(&["a"])),
        ("SELECT $a, $b", "SELECT $1, $2", names(&["a", "b"])),
    ] {
        assert_eq!(rewritten(text), (expected.to_owned(), order), "{text}");
    }
}

#[test]
fn nothing_within_quotes_or_comments_is_one() {
    for text in [
        "SELECT '%s ? :a', \"?%s\"",
        "SELECT 'it''s %s'",
        r"SELECT E'it\'s %s'",
        "SELECT $$ %s ? $$, $x$ :a $$ ? $x$",
        "SELECT 1 -- %s ?",
        "SELECT 1 /* %s /* ? */ :a */",
        "SELECT 'not closed %s",
        "SELECT x$1, b::text",
    ] {
        assert_eq!(rewritten(text), (text.to_owned(), Order::Numbered), "{text}");
    }
}

#[test]
fn no_text_breaks_it() {
    let pieces = [
        "'", "\"", "$", "$$", "$1", "$a$", "%", "%%", "%s", "%(", "%(a)s", ")s", "?", ":", "::",
        ":a", "--", "\n", "/*", "*/", "\\", "E'", "e", "é", "…", " ", "1", "(", "a",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(pieces[(state % pieces.len() as u64) as usize]);
        }
        let made = rewrite(&text);
        // A rewritten text has numbers alone, and stays as it is.
        if let Order::Places(places) = &made.order {
            assert!(made.text.contains(&format!("${}", places.len())), "{text}");
        }
    }
}

#[test]
fn question_marks_alone_become_numbers_where_no_other_kind_counts() {
    for (text, expected) in [
        ("SELECT ?, '?', ?", Some("SELECT $1, '?', $2")),
        ("SELECT a %s, ? -- ?", Some("SELECT a %s, $1 -- ?")),
        ("SELECT :a", None),
        ("SELECT $1, d ? 'a'", None),
        ("SELECT \"?\"", None),
    ] {
        assert_eq!(questions(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn the_highest_number_says_how_many_parameters_a_text_has() {
    for (text, expected) in
        [("SELECT 1", 0), ("SELECT $2, $1, '$9', $$ $7 $$", 2), ("SELECT $10 -- $11", 10)]
    {
        assert_eq!(numbers(text), expected, "{text}");
    }
}
