//! The time of planning grows as the text does: lists and chains without a limit of their own are planned at
//! two sizes, and the processor time of this thread is compared.
//!
//! Not here, because they have limits: chains of operators other than AND and OR (512 levels), select lists
//! (1,664 entries), whose planning has parts that grow with the square.

use halcyon::{Database, Session};
use halcyon_machine::counters::thread_cpu_ns;

/// Links of the shorter text.
const SHORT: usize = 120;

/// The longer text has so many times as many links.
const TIMES: usize = 5;

/// How many times as long planning the longer text may take: what grows with the square takes 25 times as long,
/// the hash tables and sorts of a linear planning a little more than [`TIMES`].
const RATIO_MAX: f64 = 12.0;

/// Statements in front of which EXPLAIN stands; `#` is the number of a link.
const GROWING: &[(&str, &str, &str, &str)] = &[
    ("SELECT a FROM t WHERE ", "b <> #", " AND ", ""),
    ("SELECT a FROM t WHERE ", "b = #", " OR ", ""),
    ("SELECT a FROM t WHERE ", "(a = # AND b = #)", " OR ", ""),
    ("SELECT x.a FROM t x JOIN u y ON x.b = y.b WHERE ", "y.a <> #", " AND ", ""),
    ("SELECT x.a FROM t x JOIN u y ON ", "x.b + y.b <> #", " AND ", ""),
    (
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND ",
        "u.b <> #",
        " AND ",
        ")",
    ),
    ("SELECT a FROM t WHERE b IN (", "#", ", ", ")"),
    ("SELECT a FROM t WHERE b NOT IN (", "a + #", ", ", ")"),
    ("SELECT a FROM t WHERE s IN (", "'#'", ", ", ")"),
    ("SELECT * FROM (VALUES ", "(#, 'x')", ", ", ") AS v (a, b)"),
    ("INSERT INTO u VALUES ", "(#, #)", ", ", ""),
    ("SELECT CASE ", "WHEN a = # THEN #", " ", " END FROM t"),
    ("SELECT CASE a ", "WHEN # THEN '#'", " ", " END FROM t"),
    ("SELECT ARRAY[", "#", ", ", "]"),
    ("SELECT coalesce(", "a + #", ", ", ") FROM t"),
    ("SELECT concat(", "a + #", ", ", ") FROM t"),
];

/// Nanoseconds that this thread has run, by a clock that counts between the ticks of the scheduler too
/// (`/proc/thread-self/schedstat` may stand still for milliseconds).
fn processor_ns() -> u64 {
    thread_cpu_ns().expect("Linux tells it")
}

/// How many times as long the planning of a long text takes as that of a short one: the least of some
/// measurements, ended by the first that is no more than [`RATIO_MAX`].
fn ratio(session: &mut Session, case: &(&str, &str, &str, &str)) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..4 {
        let (short, long) = (cost(session, case, SHORT), cost(session, case, TIMES * SHORT));
        least = least.min(long as f64 / short as f64);
        if std::env::var_os("HALCYON_DEPTH_VERBOSE").is_some() {
            let (short, long) = (short as f64 / 1e6, long as f64 / 1e6);
            eprintln!("{short:6.1} ms {long:6.1} ms {least:5.1} {}{}", case.0, case.1);
        }
        if least <= RATIO_MAX {
            break;
        }
    }
    least
}

/// The processor time of planning a text with so many links: the least of some runs.
fn cost(session: &mut Session, case: &(&str, &str, &str, &str), links: usize) -> u64 {
    let (head, link, between, tail) = case;
    let run = |session: &mut Session, run: usize| {
        // No text twice, since plans are kept.
        let links = (0..links).map(|number| link.replace('#', &format!("{}", number * 10 + run)));
        let text = format!("EXPLAIN {head}{}{tail}", links.collect::<Vec<_>>().join(between));
        let before = processor_ns();
        session.batch(&text).unwrap_or_else(|error| panic!("{head}{link}: {error}"));
        processor_ns() - before
    };
    (0..3).map(|number| run(session, number)).min().expect("some runs")
}

#[test]
fn planning_grows_as_its_text_does() {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch("CREATE TABLE t (a int PRIMARY KEY, b int, s text); CREATE TABLE u (a int, b int); CREATE TABLE l (a int[])")
        .expect("tables");
    let mut steep = Vec::new();
    for case in GROWING {
        let ratio = ratio(&mut session, case);
        if ratio > RATIO_MAX {
            steep.push((case.0, case.1, ratio));
        }
    }
    assert!(
        steep.is_empty(),
        "a text {TIMES} times as long takes so many times as long: {steep:?}"
    );
}

#[test]
fn a_chain_of_unions_is_planned_as_one_union() {
    let db = Database::in_memory();
    let mut session = db.session();
    let union = |arms: usize| {
        (0..arms).map(|arm| format!("SELECT {arm}")).collect::<Vec<_>>().join(" UNION ALL ")
    };
    let mut cost = |arms: usize| {
        let before = processor_ns();
        session.batch(&format!("EXPLAIN {}", union(arms))).expect("a union");
        processor_ns() - before
    };
    let short = cost(100).min(cost(101)).min(cost(102));
    let long = cost(600).min(cost(601));
    // The SQL planner asks each union where its text ends: a small part grows with the square.
    assert!(long < 30 * short, "six times as many arms take {short} and {long} ns");
}
