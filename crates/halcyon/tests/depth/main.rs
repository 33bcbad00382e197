//! No statement ends the process, and none runs past its time: see `docs/security.md`.
//!
//! The cases of [`texts`] nest and chain every production of the grammar. They run in a child
//! process, in a thread with a small stack, so that a stack that overflows and a statement that does
//! not end are seen, told with the text that did it, and do not end the test.

mod growth;
mod objects;
mod texts;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use halcyon::Database;
use texts::CASES;

/// Stack of the thread that the child's statements run on: smaller than that of any thread of the
/// server's, and a quarter of what `std` gives a thread.
pub(crate) const SMALL_STACK: usize = 512 << 10;

/// `statement_timeout` of the statements.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How long after its time a statement may answer: one core of a busy machine, without optimisation.
const GRACE: Duration = Duration::from_secs(60);

/// The state of a syntax error.
const SYNTAX_ERROR: &str = "42601";

/// Set in the child: the first case and the size of all.
const CHILD: &str = "HALCYON_DEPTH_CHILD";

/// What came of a case in the child.
#[derive(Debug)]
enum Failure {
    /// The process ended.
    Crash,
    /// No answer for so long.
    Hang,
    /// An answer that no statement may give.
    #[expect(dead_code, reason = "shown by Debug")]
    Wrong(String),
}

fn main_of_child(first: usize, size: usize) {
    let db = Database::in_memory();
    let work = move || {
        let mut session = db.session();
        for (number, case) in CASES.iter().enumerate().skip(first) {
            for kind in ["ASSERTION", "MATERIALIZED VIEW", "VIEW", "TABLE"] {
                let _ = session.batch(&format!("DROP {kind} deep CASCADE"));
                let _ = session.batch(&format!("DROP {kind} x CASCADE"));
            }
            session
                .batch(
                    "DROP TABLE IF EXISTS t CASCADE; DROP TABLE IF EXISTS u CASCADE; DROP TABLE IF EXISTS l CASCADE; \
                     CREATE TABLE t (a int PRIMARY KEY, b int, s text); \
                     CREATE TABLE u (a int, b int); CREATE TABLE l (a int[]); \
                     INSERT INTO t VALUES (1, 2, 'x'), (2, 3, 'y'); INSERT INTO u VALUES (1, 2)",
                )
                .expect("tables");
            println!("begin {number}");
            let text = case.text(size);
            let began = Instant::now();
            session
                .batch(&format!("SET statement_timeout = {}", TIMEOUT.as_millis()))
                .expect("set");
            let answer = session.batch(&text);
            let took = began.elapsed();
            let _ = session.batch("ROLLBACK");
            session.batch("SET statement_timeout = 0").expect("set");
            match answer {
                Ok(()) => println!("end {number} {} ok", took.as_millis()),
                Err(error) => {
                    let message: String = error.message().chars().take(100).collect();
                    let line = message.replace('\n', " ");
                    println!("end {number} {} {} {line}", took.as_millis(), error.state().as_str());
                }
            }
        }
        println!("done");
    };
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(work);
    thread.expect("a thread").join().expect("no panic outside of statements");
}

fn start(first: usize, size: usize) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{first} {size}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test runs itself")
}

/// What came of all cases at one size.
#[derive(Default)]
struct Outcome {
    /// What failed, by name.
    failures: Vec<(String, Failure)>,
    /// How each case was answered, by number: "ok" or a SQLSTATE.
    answers: BTreeMap<usize, String>,
}

/// Runs all cases at `size`.
fn outcome(size: usize) -> Outcome {
    let verbose = std::env::var_os("HALCYON_DEPTH_VERBOSE").is_some();
    let Outcome { mut failures, mut answers } = Outcome::default();
    let mut first =
        std::env::var("HALCYON_DEPTH_FIRST").map_or(0, |n| n.parse().expect("a number"));
    while first < CASES.len() {
        let mut child = start(first, size);
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok()
        });
        let mut running = first;
        let mut begun = false;
        let failure = loop {
            match lines.recv_timeout(TIMEOUT + GRACE) {
                Ok(line) if line == "done" => break None,
                Ok(line) => {
                    if let Some((_, number)) = line.split_once("begin ") {
                        running = number.parse().expect("a number");
                        begun = true;
                    } else if let Some(rest) = line.strip_prefix("end ") {
                        if verbose {
                            eprintln!("{size} {rest}: {}", CASES[running].name());
                        }
                        let answer = rest.split(' ').nth(2).expect("ok or a state");
                        if answer == "XX000" {
                            let name = CASES[running].name();
                            failures.push((name, Failure::Wrong(rest.to_owned())));
                        }
                        answers.insert(running, answer.to_owned());
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => break Some(Failure::Hang),
                Err(mpsc::RecvTimeoutError::Disconnected) => break Some(Failure::Crash),
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        let Some(failure) = failure else { break };
        assert!(begun, "the child does not even begin");
        if verbose {
            eprintln!("{size} {running} {failure:?}: {}", CASES[running].name());
        }
        failures.push((CASES[running].name(), failure));
        first = running + 1;
    }
    Outcome { failures, answers }
}

/// Runs all cases at sizes of which the first is small. A text that is no syntax error there is none
/// when it is longer.
fn check(sizes: &[usize]) {
    let mut small: Option<BTreeMap<usize, String>> = None;
    for size in sizes {
        let Outcome { mut failures, answers } = outcome(*size);
        for (number, answer) in &answers {
            let was_read = |small: &BTreeMap<_, String>| {
                small.get(number).is_some_and(|answer| answer != SYNTAX_ERROR)
            };
            if answer == SYNTAX_ERROR && small.as_ref().is_some_and(was_read) {
                failures.push((CASES[*number].name(), Failure::Wrong(answer.clone())));
            }
        }
        small.get_or_insert(answers);
        assert!(failures.is_empty(), "at size {size}: {failures:#?}");
    }
}

/// Not a test by itself: what the tests start as a process of its own.
#[test]
fn child() {
    let Ok(what) = std::env::var(CHILD) else { return };
    let (first, size) = what.split_once(' ').expect("two numbers");
    main_of_child(first.parse().expect("a number"), size.parse().expect("a number"));
}

#[test]
fn every_production_is_answered_however_deep_and_long() {
    check(&[7, 3_000]);
}

#[test]
#[ignore = "a long run of hours, listed in docs/testing.md"]
fn every_production_is_answered_at_a_million_tokens() {
    let sizes = std::env::var("HALCYON_DEPTH_SIZES");
    let sizes = sizes.unwrap_or_else(|_| "7 100 300 1000 30000 300000".into());
    let sizes: Vec<usize> = sizes.split(' ').map(|size| size.parse().expect("a number")).collect();
    check(&sizes);
}
