//! Random writes compared with a plain model.
//!
//! Strategy: small keys, so that nearly every statement meets rows of others: INSERT, upsert,
//! UPDATE of values, of keys and of the partition column, DELETE, and a second table that refers
//! to the first with ON UPDATE CASCADE and ON DELETE SET NULL; in transactions that are committed
//! or rolled back, with a savepoint before each statement.
//! Invariants: a statement fails exactly when the model says so, and then changes nothing; after
//! every few statements both tables are those of the model. With one partition and with four.

use std::collections::{BTreeMap, BTreeSet};

use halcyon::{Database, Session, Value};
use halcyon_base::rng::Rng;

/// Rows of `m` by (w, id): code and n.
type Rows = BTreeMap<(i32, i32), (Option<i32>, i32)>;

#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    rows: Rows,
    /// Rows of `kid` by k: what they refer to.
    kids: BTreeMap<i32, Option<(i32, i32)>>,
}

/// A row's key before and after, and the row.
type Change = ((i32, i32), (i32, i32), (Option<i32>, i32));

impl Model {
    /// Whether keys are unique and checks hold; `count` rows went in.
    fn holds(rows: &Rows, count: usize) -> bool {
        let mut codes = BTreeSet::new();
        rows.len() == count
            && rows.iter().all(|((w, _), (code, n))| {
                *n >= 0 && code.is_none_or(|code| codes.insert((*w, code)))
            })
    }

    /// Takes rows over if they hold; keys that moved take their referrers along.
    fn take(&mut self, changed: Vec<Change>) -> bool {
        let mut rows = self.rows.clone();
        let count = rows.len();
        for (from, ..) in &changed {
            rows.remove(from);
        }
        for (_, to, row) in &changed {
            rows.insert(*to, *row);
        }
        if !Self::holds(&rows, count) {
            return false;
        }
        self.rows = rows;
        for kid in self.kids.values_mut().filter_map(Option::as_mut) {
            if let Some((_, to, _)) = changed.iter().find(|(from, ..)| from == kid) {
                *kid = *to;
            }
        }
        true
    }

    fn insert(&mut self, key: (i32, i32), row: (Option<i32>, i32)) -> bool {
        let mut rows = self.rows.clone();
        let count = rows.len() + 1;
        rows.insert(key, row);
        let holds = Self::holds(&rows, count);
        if holds {
            self.rows = rows;
        }
        holds
    }
}

fn sql(value: Option<i32>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// One statement, and whether the model lets it pass (and has carried it out then).
fn statement(rng: &mut Rng, model: &mut Model) -> (String, bool) {
    let mut small = |bound: u64| rng.below(bound) as i32;
    let (w, id, n) = (small(3), small(6), small(8) - 1);
    let code = Some(small(8)).filter(|code| *code < 6);
    match small(9) {
        0 | 1 => {
            let text = format!("INSERT INTO m VALUES ({w}, {id}, {}, {n})", sql(code));
            (text, model.insert((w, id), (code, n)))
        }
        2 => {
            let text = format!(
                "INSERT INTO m VALUES ({w}, {id}, {}, {n}) \
                 ON CONFLICT (w, id) DO UPDATE SET n = m.n + excluded.n - 2",
                sql(code)
            );
            if n < 0 {
                return (text, false);
            }
            let passes = match model.rows.get(&(w, id)).copied() {
                Some((code, old)) => model.take(vec![((w, id), (w, id), (code, old + n - 2))]),
                None => model.insert((w, id), (code, n)),
            };
            (text, passes)
        }
        3 => {
            let by = n - 3;
            let text = format!("UPDATE m SET n = n + {by} WHERE w = {w}");
            let of = model.rows.iter().filter(|((own, _), _)| *own == w);
            let changed = of.map(|(key, (code, n))| (*key, *key, (*code, n + by))).collect();
            (text, model.take(changed))
        }
        4 => {
            let by = if n > 3 { 1 } else { -1 };
            let text = format!("UPDATE m SET id = id + {by} WHERE w = {w} AND id >= {id}");
            let of = model.rows.iter().filter(|((own, key), _)| *own == w && *key >= id);
            let changed = of.map(|((w, id), row)| ((*w, *id), (*w, *id + by), *row)).collect();
            (text, model.take(changed))
        }
        5 => {
            let text = format!("UPDATE m SET w = (w + 1) % 3 WHERE id = {id}");
            let of = model.rows.iter().filter(|((_, key), _)| *key == id);
            let changed = of.map(|((w, id), row)| ((*w, *id), ((*w + 1) % 3, *id), *row)).collect();
            (text, model.take(changed))
        }
        6 => {
            let text = format!("DELETE FROM m WHERE w = {w} AND id <= {id}");
            let gone: Vec<(i32, i32)> =
                model.rows.keys().filter(|key| key.0 == w && key.1 <= id).copied().collect();
            for key in gone {
                model.rows.remove(&key);
                for kid in model.kids.values_mut() {
                    *kid = kid.filter(|refers| *refers != key);
                }
            }
            (text, true)
        }
        _ => {
            let k = small(10);
            let refers = code.map(|_| (w, id));
            let (rw, rid) = (sql(refers.map(|r| r.0)), sql(refers.map(|r| r.1)));
            let text = format!("INSERT INTO kid VALUES ({k}, {rw}, {rid})");
            let passes = !model.kids.contains_key(&k)
                && refers.is_none_or(|key| model.rows.contains_key(&key));
            if passes {
                model.kids.insert(k, refers);
            }
            (text, passes)
        }
    }
}

fn number(value: &Value) -> Option<i32> {
    match value {
        Value::Int32(value) => Some(*value),
        Value::Null => None,
        other => panic!("{other:?} is no INTEGER"),
    }
}

fn stored(session: &mut Session) -> Model {
    let mut all = |text: &str| {
        let rows = session.query(text, &[]).and_then(|rows| rows.collect()).expect(text);
        rows.iter().map(|row| row.iter().map(number).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let key = |row: &[Option<i32>], at: usize| Some((row[at]?, row[at + 1]?));
    let rows = all("SELECT w, id, code, n FROM m");
    let kids = all("SELECT k, w, id FROM kid");
    let of = |row: &Vec<Option<i32>>| (key(row, 0).expect("a key"), (row[2], row[3].expect("n")));
    Model {
        rows: rows.iter().map(of).collect(),
        kids: kids.iter().map(|row| (row[0].expect("k"), key(row, 1))).collect(),
    }
}

fn run(seed: u64, partitions: u32, steps: usize) {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch(&format!(
            "CREATE TABLE m (w INTEGER, id INTEGER, code INTEGER, n INTEGER NOT NULL CHECK (n >= 0),
                PRIMARY KEY (w, id), UNIQUE (code, w))
                WITH (partition_by = 'w', partitions = {partitions});
             CREATE TABLE kid (k INTEGER PRIMARY KEY, w INTEGER, id INTEGER,
                FOREIGN KEY (w, id) REFERENCES m ON UPDATE CASCADE ON DELETE SET NULL)"
        ))
        .expect("two new tables");
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    let mut before: Option<Model> = None;
    for step in 0..steps {
        let place = format!("seed {seed}, {partitions} partitions, step {step}");
        match (before.is_some(), rng.below(12)) {
            (false, 0) => {
                session.batch("BEGIN").expect("a transaction");
                before = Some(model.clone());
            }
            (true, 0) => {
                session.batch("COMMIT").expect("a commit");
                before = None;
            }
            (true, 1) => {
                session.batch("ROLLBACK").expect("a rollback");
                model = before.take().expect("in a transaction");
            }
            _ => {}
        }
        let in_transaction = before.is_some();
        if in_transaction {
            session.batch("SAVEPOINT s").expect("a savepoint");
        }
        let saved = model.clone();
        let (text, passes) = statement(&mut rng, &mut model);
        let ran = session.batch(&text);
        match &ran {
            Ok(()) => assert!(passes, "{place}: {text} should fail"),
            Err(error) => {
                assert!(!passes, "{place}: {text}: {error}");
                assert_eq!(error.state().class(), *b"23", "{place}: {text}: {error}");
            }
        }
        if in_transaction && (ran.is_err() || rng.below(6) == 0) {
            session.batch("ROLLBACK TO s").expect("the savepoint");
            model = saved;
        }
        if step % 8 == 0 || ran.is_err() {
            assert_eq!(stored(&mut session), model, "{place}: after {text}");
        }
    }
    if before.is_some() {
        session.batch("COMMIT").expect("a commit");
    }
    assert_eq!(stored(&mut session), model, "seed {seed}: at the end");
}

#[test]
fn random_writes_do_what_the_model_does() {
    let seeds = std::env::var("HALCYON_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seeds.map_or(0..6, |seed: u64| seed..seed + 1) {
        run(seed, 1, 400);
        run(seed, 4, 400);
    }
}
