//! The model beside valgrind's cachegrind, on real address traces of small operators, and the patterns
//! beside the operators that they stand for.
//!
//! Skipped where there is no valgrind. The traces are of programs of a page (`examples/traced.rs`),
//! not of the engine's operators.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use halcyon_cache::model::grind::{Counts, Hierarchy, Shape};
use halcyon_cache::model::patterns::{Pattern, table_bytes};
use halcyon_cache::model::trace::{Kind, Reference};

const INSTRUCTIONS: Shape = Shape { bytes: 16 << 10, ways: 8, line_bytes: 64 };
const DATA: Shape = Shape { bytes: 4 << 10, ways: 8, line_bytes: 64 };

fn last(bytes: u64) -> Shape {
    Shape { bytes, ways: 16, line_bytes: 64 }
}

/// The program of operators, which cargo builds beside tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let folder = test.parent().and_then(|folder| folder.parent()).expect("target/PROFILE/deps");
    folder.join("examples/traced")
}

fn has_valgrind() -> bool {
    let asked = Command::new("valgrind").arg("--version").output();
    let there = asked.is_ok_and(|output| output.status.success()) && program().exists();
    if !there {
        eprintln!("skipped: there is no valgrind, or no examples/traced (cargo build --examples)");
    }
    there
}

/// What the model counts of a program's trace.
fn modelled(words: &[&str], last: Shape) -> Counts {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--log-fd=1"])
        .arg(program())
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("valgrind runs");
    let mut caches = Hierarchy::new(INSTRUCTIONS, DATA, last);
    let mut lines = BufReader::with_capacity(1 << 20, child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while lines.read_line(&mut line).expect("traces are text") > 0 {
        if let Some(reference) = Reference::parse(&line) {
            caches.refer(reference);
        }
        line.clear();
    }
    assert!(child.wait().expect("it ends").success());
    caches.counts
}

/// What cachegrind counts of a program.
fn counted(words: &[&str], last: Shape) -> Counts {
    let shape = |cache: Shape| format!("{},{},{}", cache.bytes, cache.ways, cache.line_bytes);
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args([format!("--I1={}", shape(INSTRUCTIONS)), format!("--D1={}", shape(DATA))])
        .arg(format!("--LL={}", shape(last)))
        .arg(program())
        .args(words)
        .output()
        .expect("valgrind runs");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let number = |label: &str| -> u64 {
        let line = text.lines().find(|line| line.contains(label)).expect("cachegrind tells it");
        let value = line.split(label).nth(1).expect("behind the label");
        let value = value.trim().split(' ').next().expect("a number");
        value.replace(',', "").parse().expect("a number")
    };
    Counts {
        data: number("D   refs:"),
        first_misses: number("D1  misses:"),
        last_misses: number("LLd misses:"),
    }
}

fn apart(one: u64, other: u64) -> f64 {
    (one as f64 - other as f64).abs() / (other as f64).max(1.0)
}

#[test]
fn the_model_counts_misses_as_cachegrind_does_within_two_percent() {
    if !has_valgrind() {
        return;
    }
    compare(&["join", "4000", "2000"], 64 << 10);
}

#[test]
#[ignore = "takes a minute; docs/testing.md has the command"]
fn the_model_counts_misses_of_all_operators_as_cachegrind_does() {
    if !has_valgrind() {
        return;
    }
    for words in [
        &["scan", "131072"][..],
        &["aggregate", "12000", "8192", "500"],
        &["join", "15000", "2000"],
    ] {
        for bytes in [64 << 10, 256 << 10] {
            compare(words, bytes);
        }
    }
}

fn compare(words: &[&str], bytes: u64) {
    let (ours, theirs) = (modelled(words, last(bytes)), counted(words, last(bytes)));
    eprintln!("{words:?} {} KiB: model {ours:?}, cachegrind {theirs:?}", bytes >> 10);
    assert!(theirs.last_misses > 1000, "nothing to compare");
    assert!(apart(ours.data, theirs.data) <= 0.02);
    assert!(apart(ours.first_misses, theirs.first_misses) <= 0.02);
    assert!(apart(ours.last_misses, theirs.last_misses) <= 0.02);
}

/// Misses of a pattern's steps, after the structures were touched once in order, as building them does.
fn missed(mut pattern: Pattern, steps: u64, last: Shape) -> f64 {
    let mut caches = Hierarchy::new(INSTRUCTIONS, DATA, last);
    let mut refer = |line: u64| {
        let reference = Reference { kind: Kind::Load, address: line * 64, bytes: 8 };
        caches.refer(reference);
        caches.counts.last_misses
    };
    let mut before = 0;
    for line in pattern.tables().flatten().collect::<Vec<_>>() {
        before = refer(line);
    }
    let (mut after, mut touches) = (before, Vec::new());
    for _ in 0..steps {
        pattern.step(&mut touches);
        for touch in &touches {
            after = refer(touch.line());
        }
    }
    (after - before) as f64
}

/// Misses that a program makes for the rows by which two runs of it differ, all but those of making the
/// columns: these are written once more than they are read.
fn more_misses(
    words: impl Fn(u64) -> Vec<String>,
    rows: [u64; 2],
    columns: u64,
    last: Shape,
) -> f64 {
    let of = |rows| {
        let words = words(rows);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        modelled(&words, last).last_misses as f64
    };
    let made = (rows[1] - rows[0]) * columns * 4 / 64;
    of(rows[1]) - of(rows[0]) - made as f64
}

#[test]
#[ignore = "takes two minutes; docs/testing.md has the command"]
fn patterns_miss_the_cache_as_the_operators_do_that_they_stand_for() {
    if !has_valgrind() {
        return;
    }
    // Columns that do not fit in the cache, so that they are fetched again when they are read.
    let rows = [30_000_u64, 50_000];
    let more = rows[1] - rows[0];
    // (entries of the dictionary, groups): in the cache, as large as it, larger.
    for (entries, groups) in [(1_024, 50), (4_096, 120), (16_384, 250)] {
        let words = |rows: u64| {
            vec!["aggregate".to_owned(), rows.to_string(), entries.to_string(), groups.to_string()]
        };
        let operator = more_misses(words, rows, 2, last(64 << 10));
        let pattern = Pattern::aggregate(1 << 30, rows[1], 1 << 32, entries, groups, 5);
        let pattern = missed(pattern, more, last(64 << 10));
        eprintln!("aggregate {entries} {groups}: operator {operator}, pattern {pattern}");
        assert!((operator - pattern).abs() <= 0.10 * operator, "{operator} {pattern}");
    }
    for keys in [500, 2_000, 8_000] {
        let words = |rows: u64| vec!["join".to_owned(), rows.to_string(), keys.to_string()];
        let operator = more_misses(words, rows, 1, last(64 << 10));
        let table = table_bytes(keys) >> 10;
        let pattern =
            missed(Pattern::probe(1 << 30, rows[1], 1 << 32, keys, 5), more, last(64 << 10));
        eprintln!("join {keys} ({table} KiB): operator {operator}, pattern {pattern}");
        assert!((operator - pattern).abs() <= 0.10 * operator, "{operator} {pattern}");
    }
}
