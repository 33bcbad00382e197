//! Random list-append transactions from eight threads, judged by [`crate::check`].
//!
//! Strategy: a few lists at a time, spread over tables, so that transactions collide all the time;
//! one to five reads and appends each; some roll back, some go back to a savepoint, some are
//! READ ONLY, and some read lists and then append to the same ones, which makes plans lock early and sessions
//! lose against each other. After a while the window moves on to other lists, which keeps lists short.
//! What must hold: SERIALIZABLE and REPEATABLE READ histories, snapshots of READ ONLY transactions
//! included, have no anomaly at all; READ COMMITTED has none that it forbids.
//! The canary: READ COMMITTED keeps no read locks beyond its statement, so its histories, judged
//! as if they were serializable, must show cycles. That proves that this test sees them.
//!
//! Two seconds each by default, `HALCYON_FUZZ_SECONDS` sets how long; longer where a busy machine has
//! not committed enough by then to show anything.

use crate::check::{Anomaly, AnomalyKind, Element, Key, Op, Txn, check};
use halcyon::{Access, Database, Isolation, Result, Session, SqlState, Statement, params};
use halcyon_base::rng::Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 8;
const TABLES: Key = 3;
const LISTS_PER_TABLE: Key = 2000;
/// Lists in use at a time.
const WINDOW: Key = 6;
/// Transactions after which the window moves by one list.
const TXNS_PER_STEP: u64 = 40;

fn duration() -> Duration {
    let set = std::env::var("HALCYON_FUZZ_SECONDS").ok();
    Duration::from_secs(set.map_or(2, |text| text.parse().expect("a number of seconds")))
}

/// List `key` is row `key / TABLES` of table `key % TABLES`.
struct Statements {
    read: Vec<Statement>,
    append: Vec<Statement>,
}

impl Statements {
    fn prepare(session: &mut Session) -> Result<Self> {
        let each = |session: &mut Session, text: &str| {
            let texts = (0..TABLES).map(|table| text.replace("{}", &table.to_string()));
            texts.map(|text| session.prepare(&text)).collect::<Result<Vec<_>>>()
        };
        Ok(Statements {
            read: each(session, "SELECT elements FROM list{} WHERE id = $1")?,
            append: each(session, "UPDATE list{} SET elements = elements || $1 WHERE id = $2")?,
        })
    }

    fn read(&self, session: &mut Session, key: Key) -> Result<Op> {
        let statement = &self.read[(key % TABLES) as usize];
        let rows = session.query(statement, params![(key / TABLES) as i32])?.collect()?;
        let text = match &rows[0][0] {
            halcyon::Value::Text(text) => text.clone(),
            other => panic!("{other:?} is no list"),
        };
        let elements = text.split_terminator(',').map(|e| e.parse().expect("elements are numbers"));
        Ok(Op::Read(key, elements.collect()))
    }

    fn append(&self, session: &mut Session, key: Key, element: Element) -> Result<()> {
        let statement = &self.append[(key % TABLES) as usize];
        let appended = params![format!("{element},"), (key / TABLES) as i32];
        assert_eq!(session.execute(statement, appended)?, 1, "list {key} has its row");
        Ok(())
    }
}

/// Transactions that must have been committed before a history can be judged.
const COMMITTED_MIN: u64 = 1000;

/// Transactions that have begun and been committed so far, and whether to stop.
struct Clock {
    begun: AtomicU64,
    committed: AtomicU64,
    stop: AtomicBool,
}

/// One thread: a session, its random numbers and what it has done.
struct Client<'a> {
    session: Session,
    statements: Statements,
    rng: Rng,
    next_element: Element,
    isolation: Isolation,
    clock: &'a Clock,
    history: Vec<Txn>,
}

impl Client<'_> {
    fn run(mut self) -> Vec<Txn> {
        while !self.clock.stop.load(Ordering::Relaxed) {
            self.transaction();
        }
        self.history
    }

    fn key(&mut self, step: u64) -> Key {
        (step as Key + self.rng.below(u64::from(WINDOW)) as Key) % (TABLES * LISTS_PER_TABLE)
    }

    /// Runs a transaction; what it did before it failed counts as aborted.
    fn transaction(&mut self) {
        let step = self.clock.begun.fetch_add(1, Ordering::Relaxed) / TXNS_PER_STEP;
        let read_only = self.rng.below(4) == 0;
        let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        self.session.begin(self.isolation, access).expect("the one before has ended");
        let mut ops = Vec::new();
        let done = self.ops(step, read_only, &mut ops);
        let ended = match done {
            Ok(()) if self.rng.below(8) > 0 => self.session.commit().map(|()| true),
            Ok(()) => self.session.rollback().map(|()| false),
            Err(error) => {
                self.session.rollback().expect("a failed transaction can be rolled back");
                Err(error)
            }
        };
        let committed = ended.unwrap_or_else(|error| {
            assert_eq!(error.state(), SqlState::DEADLOCK_DETECTED, "{error}");
            false
        });
        self.clock.committed.fetch_add(u64::from(committed), Ordering::Relaxed);
        self.history.push(Txn { ops, committed });
    }

    fn ops(&mut self, step: u64, read_only: bool, ops: &mut Vec<Op>) -> Result<()> {
        if !read_only && self.rng.below(3) == 0 {
            return self.read_then_write(step, ops);
        }
        for _ in 0..1 + self.rng.below(5) {
            let key = self.key(step);
            if read_only || self.rng.below(2) == 0 {
                ops.push(self.statements.read(&mut self.session, key)?);
            } else if self.rng.below(6) == 0 {
                self.session.execute("SAVEPOINT detour", &[])?;
                let element = self.append(key, ops)?;
                self.session.execute("ROLLBACK TO SAVEPOINT detour", &[])?;
                ops.pop();
                ops.push(Op::Undone(key, element));
            } else {
                self.append(key, ops)?;
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Reads one or two lists, and then appends to them.
    fn read_then_write(&mut self, step: u64, ops: &mut Vec<Op>) -> Result<()> {
        let keys: Vec<Key> = (0..1 + self.rng.below(2)).map(|_| self.key(step)).collect();
        for &key in &keys {
            ops.push(self.statements.read(&mut self.session, key)?);
            thread::yield_now();
        }
        for key in keys {
            self.append(key, ops)?;
        }
        Ok(())
    }

    fn append(&mut self, key: Key, ops: &mut Vec<Op>) -> Result<Element> {
        let element = self.next_element;
        self.next_element += 1;
        // Noted first: an append that fails may not be seen either.
        ops.push(Op::Append(key, element));
        self.statements.append(&mut self.session, key, element)?;
        Ok(element)
    }
}

fn tables(db: &Database) -> Result<()> {
    let mut session = db.session();
    for table in 0..TABLES {
        session.batch(&format!(
            "CREATE TABLE list{table} (id INTEGER PRIMARY KEY, elements TEXT NOT NULL)"
        ))?;
        let insert = session.prepare(&format!("INSERT INTO list{table} VALUES ($1, '')"))?;
        session.begin(Isolation::Serializable, Access::ReadWrite)?;
        for id in 0..LISTS_PER_TABLE {
            session.execute(&insert, params![id as i32])?;
        }
        session.commit()?;
    }
    Ok(())
}

/// Runs random transactions at `isolation`, then reads every list once.
fn history(isolation: Isolation) -> Vec<Txn> {
    let db = Database::in_memory();
    tables(&db).expect("new tables");
    let clock = Clock {
        begun: AtomicU64::new(0),
        committed: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let client = |number: u64| {
        let mut session = db.session();
        Client {
            statements: Statements::prepare(&mut session).expect("the tables are there"),
            session,
            rng: Rng::new(number),
            next_element: 1 + (number << 32),
            isolation,
            clock: &clock,
            history: Vec::new(),
        }
    };
    let mut history = thread::scope(|scope| {
        let clients: Vec<_> = (0..THREADS).map(client).map(|c| scope.spawn(|| c.run())).collect();
        thread::sleep(duration());
        while clock.committed.load(Ordering::Relaxed) < COMMITTED_MIN
            && !clients.iter().any(thread::ScopedJoinHandle::is_finished)
        {
            thread::sleep(Duration::from_millis(20));
        }
        clock.stop.store(true, Ordering::Relaxed);
        let histories = clients.into_iter().map(|client| client.join().expect("no client panics"));
        histories.flatten().collect::<Vec<_>>()
    });
    let mut session = db.session();
    let statements = Statements::prepare(&mut session).expect("the tables are there");
    let last = (0..TABLES * LISTS_PER_TABLE).map(|key| statements.read(&mut session, key));
    history.push(Txn { ops: last.collect::<Result<_>>().expect("reads"), committed: true });
    history
}

fn expect_clean(isolation: Isolation) {
    let history = history(isolation);
    let committed = history.iter().filter(|txn| txn.committed).count();
    eprintln!("{isolation:?}: {committed} of {} transactions committed", history.len());
    show(&check(&history));
}

fn show(anomalies: &[Anomaly]) {
    let shown: Vec<String> = anomalies.iter().take(5).map(Anomaly::to_string).collect();
    assert!(anomalies.is_empty(), "{} anomalies, such as\n{}", anomalies.len(), shown.join("\n"));
}

#[test]
fn serializable_histories_have_no_cycle() {
    expect_clean(Isolation::Serializable);
}

#[test]
fn repeatable_read_histories_have_no_cycle() {
    expect_clean(Isolation::RepeatableRead);
}

#[test]
fn read_committed_shows_what_it_may_and_nothing_else() {
    let anomalies = check(&history(Isolation::ReadCommitted));
    let (allowed, forbidden): (Vec<_>, Vec<_>) = anomalies.into_iter().partition(|anomaly| {
        matches!(anomaly.kind, AnomalyKind::Internal | AnomalyKind::GSingle | AnomalyKind::G2Item)
    });
    show(&forbidden);
    let cycles = allowed.iter().filter(|anomaly| anomaly.kind != AnomalyKind::Internal).count();
    assert!(cycles > 0, "canary: without kept read locks there must be cycles to see");
}
