//! The textbook anomalies one by one: which level lets which one happen.
//!
//! A scenario is a script of statements of two or three sessions over two rows, and a question:
//! did the anomaly happen? Each session runs on a thread of its own. The script
//! goes on when each session has done its steps or waits for a lock; a session that waits does its later
//! steps once it can. A transaction that fails is rolled back.
//! Each scenario runs with both rows in one table (one lock) and in two (two locks).
//! Source: Kleppmann's Hermitage, 2014; the anomalies are Adya's, 1999.

use Step::{Begin, Commit, Rollback, Run};
use halcyon::{Access, Database, Isolation, Result, Session, SqlState, Value};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest time that a step may take without waiting for a lock.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a session does next. `{1}` and `{2}` in a text stand for the tables of rows 1 and 2.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Run(&'static str),
    Commit,
    Rollback,
}

const READ_1: Step = Run("SELECT value FROM {1} WHERE id = 1");
const READ_2: Step = Run("SELECT value FROM {2} WHERE id = 2");
const THIRDS: Step = Run("SELECT value FROM {1} WHERE value % 3 = 0");

/// What a step came to: the values of its rows, or the state it failed with.
type Seen = std::result::Result<Vec<i32>, SqlState>;

struct Scenario {
    name: &'static str,
    script: &'static [(usize, Step)],
    /// The session that only reads, if one does.
    reader: Option<usize>,
    /// Given what each step came to and the final values of rows 1 and 2.
    happened: fn(&[Seen], &[i32]) -> bool,
    /// Whether READ COMMITTED lets it happen. No level above does.
    read_committed: bool,
}

fn saw(seen: &Seen, value: i32) -> bool {
    seen.as_ref().is_ok_and(|values| values.contains(&value))
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "G0: writes in opposite orders",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, Run("UPDATE {1} SET value = 11 WHERE id = 1")),
            (2, Run("UPDATE {1} SET value = 12 WHERE id = 1")),
            (1, Run("UPDATE {2} SET value = 21 WHERE id = 2")),
            (1, Commit),
            (2, Run("UPDATE {2} SET value = 22 WHERE id = 2")),
            (2, Commit),
        ],
        reader: None,
        happened: |_, end| end[0] % 10 != end[1] % 10,
        read_committed: false,
    },
    Scenario {
        name: "G1a: read of a write that is rolled back",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, Run("UPDATE {1} SET value = 101 WHERE id = 1")),
            (2, READ_1),
            (1, Rollback),
            (2, READ_1),
            (2, Commit),
        ],
        reader: Some(2),
        happened: |seen, _| saw(&seen[3], 101) || saw(&seen[5], 101),
        read_committed: false,
    },
    Scenario {
        name: "G1b: read of a write that is overwritten",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, Run("UPDATE {1} SET value = 101 WHERE id = 1")),
            (2, READ_1),
            (1, Run("UPDATE {1} SET value = 11 WHERE id = 1")),
            (1, Commit),
            (2, READ_1),
            (2, Commit),
        ],
        reader: Some(2),
        happened: |seen, _| saw(&seen[3], 101) || saw(&seen[6], 101),
        read_committed: false,
    },
    Scenario {
        name: "G1c: each reads what the other wrote",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, Run("UPDATE {1} SET value = 11 WHERE id = 1")),
            (2, Run("UPDATE {2} SET value = 22 WHERE id = 2")),
            (1, READ_2),
            (2, READ_1),
            (1, Commit),
            (2, Commit),
        ],
        reader: None,
        happened: |seen, _| saw(&seen[4], 22) && saw(&seen[5], 11),
        read_committed: false,
    },
    Scenario {
        name: "OTV: an observed transaction vanishes",
        script: &[
            (1, Begin),
            (2, Begin),
            (3, Begin),
            (1, Run("UPDATE {1} SET value = 11 WHERE id = 1")),
            (1, Run("UPDATE {2} SET value = 19 WHERE id = 2")),
            (2, Run("UPDATE {1} SET value = 12 WHERE id = 1")),
            (1, Commit),
            (3, READ_1),
            (2, Run("UPDATE {2} SET value = 18 WHERE id = 2")),
            (3, READ_2),
            (2, Commit),
            (3, READ_2),
            (3, READ_1),
            (3, Commit),
        ],
        reader: Some(3),
        happened: |seen, _| {
            saw(&seen[7], 12) && (saw(&seen[9], 19) || saw(&seen[11], 19) || saw(&seen[12], 11))
        },
        read_committed: false,
    },
    Scenario {
        name: "PMP: a row appears that a predicate matches",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, Run("SELECT value FROM {1} WHERE value = 30")),
            (2, Run("INSERT INTO {1} VALUES (3, 30)")),
            (2, Commit),
            (1, THIRDS),
            (1, Commit),
        ],
        reader: Some(1),
        happened: |seen, _| saw(&seen[5], 30),
        read_committed: true,
    },
    Scenario {
        name: "P4: lost update",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, READ_1),
            (2, READ_1),
            (1, Run("UPDATE {1} SET value = 11 WHERE id = 1")),
            (2, Run("UPDATE {1} SET value = 12 WHERE id = 1")),
            (1, Commit),
            (2, Commit),
        ],
        reader: None,
        happened: |seen, _| {
            saw(&seen[2], 10) && saw(&seen[3], 10) && seen[6].is_ok() && seen[7].is_ok()
        },
        read_committed: true,
    },
    Scenario {
        name: "G-single: reads before and after one transaction",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, READ_1),
            (2, READ_1),
            (2, READ_2),
            (2, Run("UPDATE {1} SET value = 12 WHERE id = 1")),
            (2, Run("UPDATE {2} SET value = 18 WHERE id = 2")),
            (2, Commit),
            (1, READ_2),
            (1, Commit),
        ],
        reader: Some(1),
        happened: |seen, _| saw(&seen[2], 10) && saw(&seen[8], 18) && seen[9].is_ok(),
        read_committed: true,
    },
    Scenario {
        name: "G2-item: write skew",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, READ_1),
            (1, READ_2),
            (2, READ_1),
            (2, READ_2),
            (1, Run("UPDATE {1} SET value = 11 WHERE id = 1")),
            (2, Run("UPDATE {2} SET value = 21 WHERE id = 2")),
            (1, Commit),
            (2, Commit),
        ],
        reader: None,
        happened: |seen, _| {
            saw(&seen[3], 20) && saw(&seen[4], 10) && seen[8].is_ok() && seen[9].is_ok()
        },
        read_committed: true,
    },
    Scenario {
        name: "G2: write skew on a predicate",
        script: &[
            (1, Begin),
            (2, Begin),
            (1, THIRDS),
            (2, THIRDS),
            (1, Run("INSERT INTO {1} VALUES (3, 30)")),
            (2, Run("INSERT INTO {1} VALUES (4, 42)")),
            (1, Commit),
            (2, Commit),
        ],
        reader: None,
        happened: |seen, _| {
            let empty = |seen: &Seen| seen.as_ref().is_ok_and(Vec::is_empty);
            empty(&seen[2]) && empty(&seen[3]) && seen[6].is_ok() && seen[7].is_ok()
        },
        read_committed: true,
    },
    Scenario {
        name: "G2: a third transaction only reads, and sees the skew",
        script: &[
            (1, Begin),
            (1, READ_1),
            (1, READ_2),
            (2, Begin),
            (2, Run("UPDATE {2} SET value = 25 WHERE id = 2")),
            (2, Commit),
            (3, Begin),
            (3, READ_1),
            (3, READ_2),
            (3, Commit),
            (1, Run("UPDATE {1} SET value = 0 WHERE id = 1")),
            (1, Commit),
        ],
        reader: Some(3),
        happened: |seen, _| {
            let skew = saw(&seen[7], 10) && saw(&seen[8], 25) && saw(&seen[2], 20);
            skew && seen[5].is_ok() && seen[9].is_ok() && seen[11].is_ok()
        },
        read_committed: true,
    },
];

/// A session on its own thread: steps in, what they came to out.
struct Remote {
    steps: Sender<(usize, Step)>,
    seen: Receiver<(usize, Seen)>,
    open: usize,
}

fn values(session: &mut Session, text: &str) -> Result<Vec<i32>> {
    if !text.starts_with("SELECT") {
        return session.execute(text, &[]).map(|_| Vec::new());
    }
    let rows = session.query(text, &[])?.collect()?;
    let value = |row: Vec<Value>| match row[0] {
        Value::Int32(value) => value,
        ref other => panic!("{other:?} is no INTEGER"),
    };
    Ok(rows.into_iter().map(value).collect())
}

fn step(
    session: &mut Session,
    step: Step,
    mode: (Isolation, Access),
    tables: [&str; 2],
) -> Result<Vec<i32>> {
    match step {
        Begin => session.begin(mode.0, mode.1).map(|()| Vec::new()),
        Commit => session.commit().map(|()| Vec::new()),
        Rollback => session.rollback().map(|()| Vec::new()),
        Run(text) => values(session, &text.replace("{1}", tables[0]).replace("{2}", tables[1])),
    }
}

impl Remote {
    fn start<'s>(
        scope: &'s thread::Scope<'s, '_>,
        db: &'s Database,
        mode: (Isolation, Access),
        tables: [&'static str; 2],
    ) -> Self {
        let (steps, to_do) = channel::<(usize, Step)>();
        let (done, seen) = channel();
        scope.spawn(move || {
            let mut session = db.session();
            for (number, next) in to_do {
                let result = step(&mut session, next, mode, tables);
                if matches!(&result, Err(error) if error.state() == SqlState::DEADLOCK_DETECTED) {
                    // The victim gives way at once; its later steps fail.
                    session.rollback().expect("a failed transaction can be rolled back");
                    session.begin(mode.0, mode.1).expect("the one before has ended");
                    session.execute("SELECT 1 / 0", &[]).expect_err("later steps must fail");
                }
                let seen = result.map_err(|error| error.state());
                done.send((number, seen)).expect("the script listens to the end");
            }
        });
        Remote { steps, seen, open: 0 }
    }
}

/// Sessions that wait for a lock.
fn waiting(session: &mut Session) -> usize {
    let text = "SELECT count(DISTINCT session) FROM halcyon.locks WHERE NOT granted";
    let mut rows = session.query(text, &[]).expect("a system view");
    let row = rows.next().expect("a count").expect("a row");
    usize::try_from(row.get::<i64>(0).expect("a BIGINT")).expect("a count")
}

/// Runs the script and returns what its steps came to, and the final values of rows 1 and 2.
fn play(
    scenario: &Scenario,
    mode: impl Fn(usize) -> (Isolation, Access),
    tables: [&'static str; 2],
) -> (Vec<Seen>, Vec<i32>) {
    let db = Database::in_memory();
    let mut session = db.session();
    for (row, table) in [(1, tables[0]), (2, tables[1])] {
        let create = format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, value INTEGER)");
        if row == 1 || tables[0] != tables[1] {
            session.batch(&create).expect("a new table");
        }
        session.batch(&format!("INSERT INTO {table} VALUES ({row}, {row}0)")).expect("a new row");
    }
    let mut seen: Vec<Option<Seen>> = vec![None; scenario.script.len()];
    thread::scope(|scope| {
        let start = |number| Remote::start(scope, &db, mode(number), tables);
        let mut sessions: Vec<Remote> = (1..=3).map(start).collect();
        for (number, &(who, next)) in scenario.script.iter().enumerate() {
            let remote = &mut sessions[who - 1];
            remote.steps.send((number, next)).expect("the session runs");
            remote.open += 1;
            // Not only this one may have been let go on by the step.
            let sent = Instant::now();
            loop {
                for remote in &mut sessions {
                    while let Ok((number, result)) = remote.seen.try_recv() {
                        seen[number] = Some(result);
                        remote.open -= 1;
                    }
                }
                let open = sessions.iter().filter(|remote| remote.open > 0).count();
                if open == 0 || waiting(&mut session) == open {
                    break;
                }
                assert!(sent.elapsed() < PATIENCE, "{}: a step hangs", scenario.name);
                thread::sleep(Duration::from_micros(500));
            }
        }
        for Remote { steps, seen: rest, .. } in sessions {
            drop(steps);
            rest.iter().for_each(|(number, result)| seen[number] = Some(result));
        }
    });
    let read = |session: &mut Session, row: usize| {
        let text = format!("SELECT value FROM {} WHERE id = {row}", tables[row - 1]);
        values(session, &text).expect("nobody holds a lock")[0]
    };
    let end = (1..=2).map(|row| read(&mut session, row)).collect();
    let seen = seen.into_iter().map(|seen| seen.expect("every step ends"));
    (seen.collect(), end)
}

fn expect(
    level: &str,
    mode: impl Fn(&Scenario, usize) -> (Isolation, Access),
    allowed: fn(&Scenario) -> bool,
) {
    for scenario in SCENARIOS {
        for tables in [["test", "test"], ["test1", "test2"]] {
            let (seen, end) = play(scenario, |number| mode(scenario, number), tables);
            let happened = (scenario.happened)(&seen, &end);
            let name = scenario.name;
            assert_eq!(
                happened,
                allowed(scenario),
                "{level}, {name}, tables {tables:?}: steps {seen:?}, end {end:?}"
            );
        }
    }
}

#[test]
fn read_committed_allows_what_the_standard_allows() {
    let mode = |_: &Scenario, _| (Isolation::ReadCommitted, Access::ReadWrite);
    expect("READ COMMITTED", mode, |scenario| scenario.read_committed);
}

#[test]
fn read_uncommitted_is_read_committed() {
    let mode = |_: &Scenario, _| (Isolation::ReadUncommitted, Access::ReadWrite);
    expect("READ UNCOMMITTED", mode, |scenario| scenario.read_committed);
}

#[test]
fn repeatable_read_allows_no_anomaly() {
    let mode = |_: &Scenario, _| (Isolation::RepeatableRead, Access::ReadWrite);
    expect("REPEATABLE READ", mode, |_| false);
}

#[test]
fn serializable_allows_no_anomaly() {
    let mode = |_: &Scenario, _| (Isolation::Serializable, Access::ReadWrite);
    expect("SERIALIZABLE", mode, |_| false);
}

#[test]
fn read_only_transactions_see_no_anomaly_whatever_the_writers_do() {
    let beside = |writers: Isolation| {
        move |scenario: &Scenario, number: usize| {
            let reads = scenario.reader == Some(number);
            let access = if reads { Access::ReadOnly } else { Access::ReadWrite };
            (if reads { Isolation::Serializable } else { writers }, access)
        }
    };
    expect("READ ONLY beside SERIALIZABLE", beside(Isolation::Serializable), |_| false);
}
