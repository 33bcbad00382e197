//! Every function, operator, cast and aggregate, with odd and extreme arguments: see
//! `docs/testing.md`.
//!
//! Strategy: what can be called is listed by the engine itself (`callables`). A case is one call with
//! random arguments (`cases`) over values at the ends of their types (`values`), in statements that
//! reach every evaluator: constants that are folded, parameters, a point plan, the vectorised operators
//! over one row and over all, a materialized view; and as a key, a condition, a window's order or frame.
//! Invariants: no answer is an internal error (XX000); the process does not end; every statement ends
//! soon after its `statement_timeout`, and takes no more memory than [`MEMORY`]; evaluators that give a
//! value give the same, and none gives one where another has an error.
//! Cases run in a child process, so that a crash and a hang are told with the statement.
//! `HALCYON_FUZZ_SECONDS` is for how long (without it: so many cases), `HALCYON_FUZZ_SEED` the seed,
//! `HALCYON_FUZZ_CASE` the one case to run; `HALCYON_FUZZ_VERBOSE` shows every statement, and
//! `HALCYON_FUZZ_REPORT` names a file for what was found.

mod callables;
mod cases;
mod values;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use callables::Callable;
use cases::Call;
use halcyon::{Database, Session, SqlState, SqlType, Value};
use halcyon_base::rng::Rng;
use halcyon_plan::callables::Called;
use values::Values;

/// `statement_timeout` of the statements.
const TIMEOUT: Duration = Duration::from_millis(1_000);

/// How long after its time a statement may answer: one core of a busy machine, without optimisation.
const GRACE: Duration = Duration::from_secs(30);

/// Bytes that the statements of a case may take.
const MEMORY: u64 = 1 << 30;

/// Cases of a run that is not told for how long.
const CASES: u64 = 600;

/// Set in the child: seed, first case and end of cases.
const CHILD: &str = "HALCYON_CALLS_CHILD";

/// What a statement answered: its rows as text, or an error.
type Answer = Result<Vec<String>, (SqlState, String)>;

/// The statements of a child.
struct World {
    db: Database,
    session: Session,
    values: Values,
}

impl World {
    fn new(seed: u64) -> (Self, Vec<Callable>) {
        let db = Database::in_memory();
        let mut session = db.session();
        let values = Values::fill(&mut session, &mut Rng::new(seed));
        session.batch("CREATE SEQUENCE s").expect("a sequence");
        let callables = callables::all(&mut session);
        (World { db, session, values }, callables)
    }

    /// Runs a statement. Tells the parent of it first.
    fn ask(&mut self, text: &str, params: &[Value]) -> Answer {
        println!("ask {}", line(text));
        let began = Instant::now();
        let answer = self.rows(text, params);
        let took = began.elapsed();
        if took > TIMEOUT + GRACE {
            tell("late", text, &format!("{} ms", took.as_millis()));
        }
        if let Err((SqlState::INTERNAL_ERROR, message)) = &answer {
            tell("internal", text, message);
        }
        answer
    }

    fn rows(&mut self, text: &str, params: &[Value]) -> Answer {
        let told = |error: halcyon::SqlError| (error.state(), error.message().to_owned());
        let mut rows = match self.session.query(text, params) {
            Err(error) if error.state() == SqlState::NO_DATA => return Ok(Vec::new()),
            other => other.map_err(told)?,
        };
        let format = self.session.text_format();
        let types: Vec<SqlType> =
            rows.columns().iter().map(|column| column.ty.unwrap_or(SqlType::Text)).collect();
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(told)? {
            let cell = |(at, ty): (usize, &SqlType)| match row.value(at) {
                value if value.is_null() => "NULL".to_owned(),
                value => format.text(value, *ty),
            };
            all.push(types.iter().enumerate().map(cell).collect::<Vec<_>>().join("\u{1f}"));
        }
        Ok(all)
    }
}

/// A text in a line.
fn line(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

fn tell(kind: &str, text: &str, detail: &str) {
    println!("fail {kind}\t{}\t{}", line(text), line(detail));
}

/// How an evaluator is asked for the value of one row.
struct Asked {
    by: &'static str,
    text: String,
    answer: Answer,
}

/// The row of `id` in an answer with ids in front.
fn of_row(answer: Answer, row: usize) -> Option<Answer> {
    let id = row.to_string();
    let cell = |text: &String| {
        let (found, rest) = text.split_once('\u{1f}')?;
        (found == id).then(|| rest.to_owned())
    };
    answer.ok().map(|rows| Ok(rows.iter().filter_map(cell).collect()))
}

/// Asks every evaluator for the call's value in a row.
fn evaluators(world: &mut World, call: &Call, row: usize) -> Vec<Asked> {
    let of_columns = call.of_columns();
    let mut asked = Vec::new();
    let mut ask = |world: &mut World, by, text: String| {
        let answer = world.ask(&text, &[]);
        asked.push(Asked { by, text, answer });
    };
    if call.called == Called::Over {
        return asked;
    }
    ask(world, "constants", format!("SELECT {}", call.of_constants(&world.values, row)));
    ask(world, "a point plan", format!("SELECT {of_columns} FROM t WHERE id = {row}"));
    ask(world, "the vectorised side", format!("SELECT {of_columns} FROM t WHERE id + 0 = {row}"));
    let of_all = match call.called {
        Called::PerRow => format!("SELECT id, {of_columns} FROM t"),
        _ => format!("SELECT id, {of_columns} FROM t GROUP BY id"),
    };
    let answer = world.ask(&of_all, &[]);
    if let Some(answer) = of_row(answer, row) {
        asked.push(Asked { by: "the vectorised side over all rows", text: of_all, answer });
    }
    let (of_parameters, columns) = call.of_parameters(row);
    if !columns.is_empty() {
        let text = format!("SELECT {} FROM t WHERE id = {row}", columns.join(", "));
        let cells = world.session.query(text.as_str(), &[]).and_then(|rows| rows.collect());
        let cells = cells.expect("columns of a row");
        let text = format!("SELECT {of_parameters}");
        let answer = world.ask(&text, &cells[0]);
        asked.push(Asked { by: "parameters", text, answer });
    }
    asked.extend(of_view(world, call, row));
    asked
}

/// The value that a view keeps of a row, if there may be such a view.
fn of_view(world: &mut World, call: &Call, row: usize) -> Option<Asked> {
    let expression = call.of_columns();
    let view = match call.called {
        Called::PerRow => {
            format!("CREATE MATERIALIZED VIEW v AS SELECT id, {expression} AS x FROM u")
        }
        _ => {
            format!("CREATE MATERIALIZED VIEW v AS SELECT id, {expression} AS x FROM u GROUP BY id")
        }
    };
    world.ask(&view, &[]).ok()?;
    let columns = world.values.viewed();
    let put = format!("INSERT INTO u (id, {columns}) SELECT id, {columns} FROM t WHERE id = {row}");
    let answer = world.ask(&put, &[]).and_then(|_| world.ask("SELECT x FROM v", &[]));
    world.ask("DELETE FROM u", &[]).unwrap_or_default();
    world.ask("DROP MATERIALIZED VIEW v", &[]).unwrap_or_default();
    Some(Asked { by: "a view", text: view, answer })
}

/// An answer as it is compared: all errors are alike, and so are 0 and -0, which neither views nor
/// PostgreSQL's comparison tell apart, and sums within 2⁻⁴⁰ of 0, which views keep no more exactly. A NUMERIC has the
/// digits of its type, which follow from a constant number of digits alone.
fn comparable(answer: &Answer) -> Option<Vec<String>> {
    let plain = |cell: &String| match cell.parse::<f64>() {
        Ok(number) if number.abs() < 1e-12 => "0".to_owned(),
        Ok(_) if cell.contains('.') && !cell.contains('e') => {
            cell.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => cell.clone(),
    };
    answer.as_ref().ok().map(|rows| rows.iter().map(plain).collect())
}

/// Whether an answer says nothing about the value: not offered in this place, out of time, or the
/// integer, or the sum of floating-point numbers, that views do not hold (docs/guide/views.md).
fn is_silent(answer: &Answer) -> bool {
    match answer {
        Err((SqlState::FEATURE_NOT_SUPPORTED | SqlState::QUERY_CANCELED, _)) => true,
        Err((_, message)) => {
            message.ends_with("in a materialized view")
                || message == "floating-point value out of range"
        }
        Ok(_) => false,
    }
}

/// Whether a subquery that stands for a value stands where rows are meant.
fn is_of_rows(text: &str) -> bool {
    text.contains("ANY ((SELECT") || text.contains("ALL ((SELECT")
}

/// Tells the parent of evaluators that disagree.
fn compare(world: &mut World, asked: &[Asked]) {
    let tells = |asked: &&Asked| !is_silent(&asked.answer) && !is_of_rows(&asked.text);
    let telling: Vec<&Asked> = asked.iter().filter(tells).collect();
    let Some((first, others)) = telling.split_first() else { return };
    let meant = comparable(&first.answer);
    let Some(other) = others.iter().find(|other| comparable(&other.answer) != meant) else {
        return;
    };
    let params: &[Value] = &[];
    if comparable(&world.ask(&first.text, params)) != meant {
        // The value is another at every call.
        return;
    }
    let detail = format!(
        "{} gives {:?}\t{} gives {:?}: {}",
        first.by, first.answer, other.by, other.answer, other.text
    );
    tell("disagreement", &first.text, &detail);
}

/// Tells the parent of the plainest call that is an internal error as well.
fn shrink(world: &mut World, mut call: Call, statement: impl Fn(&mut World, &Call) -> String) {
    let is_internal = |world: &mut World, call: &Call| {
        let text = statement(world, call);
        matches!(world.rows(&text, &[]), Err((SqlState::INTERNAL_ERROR, _)))
    };
    while let Some(plainer) = call.plainer().into_iter().find(|call| is_internal(world, call)) {
        call = plainer;
    }
    println!("minimal {}", line(&statement(world, &call)));
}

fn run_case(world: &mut World, callable: &Callable, rng: &mut Rng) {
    world.session = world.db.session();
    let set = format!("SET statement_timeout = {}", TIMEOUT.as_millis());
    world.session.batch(&set).expect("a setting");
    let call = cases::call(callable, rng);
    let row = cases::row(rng);
    let is_internal = |answer: &Answer| matches!(answer, Err((SqlState::INTERNAL_ERROR, _)));
    let asked = evaluators(world, &call, row);
    if asked.iter().any(|asked| is_internal(&asked.answer)) {
        shrink(world, call.clone(), |world, call| match call.called {
            Called::PerRow => format!("SELECT {}", call.of_constants(&world.values, row)),
            _ => format!("SELECT {} FROM t", call.of_columns()),
        });
    } else if callable.is_of_values() {
        compare(world, &asked);
    }
    let literals = format!("SELECT {}", call.of_literals(&world.values, row));
    if is_internal(&world.ask(&literals, &[])) {
        let text = |world: &mut World, call: &Call| {
            format!("SELECT {}", call.of_literals(&world.values, row))
        };
        shrink(world, call.clone(), text);
    }
    for _ in 0..2 {
        let seed = rng.next_u64();
        let place = |_: &mut World, call: &Call| cases::place(call, &mut Rng::new(seed));
        let text = place(world, &call);
        if is_internal(&world.ask(&text, &[])) {
            shrink(world, call.clone(), place);
        }
    }
    let _ = world.session.batch("ROLLBACK");
    let _ = world.session.batch("DROP TABLE IF EXISTS scratch");
    let _ = world.session.batch("DELETE FROM u");
}

/// Bytes of a field of `/proc/self/status`; 0 where there is none.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn main_of_child(seed: u64, first: u64, end: u64) {
    let (mut world, callables) = World::new(seed);
    let mut order: Vec<usize> = (0..callables.len()).collect();
    Rng::new(seed).shuffle(&mut order);
    println!("callables {}", callables.len());
    for number in first..end {
        let callable = &callables[order[(number % order.len() as u64) as usize]];
        println!("begin {number} {}", line(&callable.name));
        // What the most memory is counted from now on.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let before = memory("VmRSS");
        let mut rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
        run_case(&mut world, callable, &mut rng);
        let taken = memory("VmHWM").saturating_sub(before);
        if taken > MEMORY {
            tell("memory", &callable.name, &format!("{} MiB", taken >> 20));
        }
    }
    println!("done");
}

fn start(seed: u64, first: u64, end: u64) -> Child {
    // What goes beyond the bound by far ends the child, not the machine.
    let test = std::env::current_exe().expect("this test");
    Command::new("sh")
        .arg("-c")
        .arg("ulimit -v 25165824; exec \"$@\"")
        .arg("sh")
        .arg(test)
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{seed} {first} {end}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test runs itself")
}

/// What cases found, by kind of failure and what was called.
#[derive(Default)]
struct Found {
    failures: BTreeMap<(String, String), (u64, String)>,
    cases: u64,
}

impl Found {
    fn add(&mut self, kind: &str, callable: &str, case: &str, told: String) {
        let key = (kind.to_owned(), callable.to_owned());
        let entry = self.failures.entry(key).or_insert((0, format!("case {case}: {told}")));
        entry.0 += 1;
    }
}

/// Runs cases of a seed for `time`, which begins with the first case: a child fills its tables for
/// seconds before.
fn run_seed(seed: u64, cases: std::ops::Range<u64>, time: Duration, found: &mut Found) {
    let verbose = std::env::var_os("HALCYON_FUZZ_VERBOSE").is_some();
    let mut until = None;
    let mut first = cases.start;
    while first < cases.end {
        let mut child = start(seed, first, cases.end);
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok()
        });
        let (mut running, mut callable, mut asked) = (None, String::new(), String::new());
        let ended = loop {
            match lines.recv_timeout(TIMEOUT + GRACE * 2) {
                Ok(line) if line == "done" => break None,
                Ok(line) => {
                    if verbose {
                        eprintln!("{line}");
                    }
                    let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
                    match word {
                        "begin" if until.is_some_and(|until| Instant::now() > until) => break None,
                        "begin" => {
                            until.get_or_insert_with(|| Instant::now() + time);
                            let (number, name) = rest.split_once(' ').unwrap_or((rest, ""));
                            running = number.parse().ok();
                            callable = name.to_owned();
                            found.cases += 1;
                        }
                        "ask" => asked = rest.to_owned(),
                        "fail" => {
                            let (kind, told) = rest.split_once('\t').unwrap_or((rest, ""));
                            let case = format!("{seed}:{}", running.unwrap_or(0));
                            found.add(kind, &callable, &case, told.replace('\t', "\n    "));
                        }
                        "minimal" => {
                            let key = ("internal".to_owned(), callable.clone());
                            if let Some((1, told)) = found.failures.get_mut(&key) {
                                told.push_str(&format!("\n    minimal: {rest}"));
                            }
                        }
                        _ => {}
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => break Some("hang"),
                Err(mpsc::RecvTimeoutError::Disconnected) => break Some("crash"),
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        let Some(kind) = ended else { break };
        let number: u64 = running.expect("the child begins a case");
        found.add(kind, &callable, &format!("{seed}:{number}"), asked);
        first = number + 1;
    }
}

fn check(found: &Found) {
    let mut told = String::new();
    for ((kind, callable), (count, example)) in &found.failures {
        told.push_str(&format!("\n{kind} of {callable}, {count} times: {example}"));
    }
    if let Some(file) = std::env::var_os("HALCYON_FUZZ_REPORT") {
        std::fs::write(file, &told).expect("the report is written");
    }
    println!("{} cases", found.cases);
    assert!(found.failures.is_empty(), "{} kinds of failure:{told}", found.failures.len());
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Not a test by itself: what the tests start as a process of its own.
#[test]
fn child() {
    let Ok(what) = std::env::var(CHILD) else { return };
    let numbers: Vec<u64> = what.split(' ').map(|word| word.parse().expect("a number")).collect();
    main_of_child(numbers[0], numbers[1], numbers[2]);
}

#[test]
fn every_call_is_answered_alike_by_all_fuzz() {
    let seed = number("HALCYON_FUZZ_SEED").unwrap_or(1);
    let seconds = number("HALCYON_FUZZ_SECONDS");
    let time = Duration::from_secs(seconds.unwrap_or(24 * 3600));
    let cases = match (number("HALCYON_FUZZ_CASE"), seconds) {
        (Some(case), _) => case..case + 1,
        (None, Some(_)) => 0..u64::MAX,
        (None, None) => 0..CASES,
    };
    let mut found = Found::default();
    run_seed(seed, cases, time, &mut found);
    assert!(found.cases > 0, "the child does not even begin");
    check(&found);
}
