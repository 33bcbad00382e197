//! Partial indexes and indexes over expressions under random writes, beside a plain model.
//!
//! Strategy: a table with a unique index over `(w, lower(email))` of the active rows, one over `100 / n`,
//! which some rows have no value of, and one over `n` of the rows with an email. INSERT of several rows,
//! upserts by inference, UPDATE of one row and of many, DELETE, COPY, in transactions with savepoints
//! that are committed or rolled back; between them the database is checkpointed or opened again.
//! Invariants: a statement fails exactly when the model says so, and changes nothing then; look-ups by
//! each index find the model's rows; the indexes hold an entry for each row that they should and no
//! other (`Partition::check`). With one partition and with three.

use std::collections::BTreeMap;
use std::path::PathBuf;

use halcyon::{Database, Session, Value};
use halcyon_base::rng::Rng;

#[derive(Clone, Debug, PartialEq)]
struct Row {
    w: i32,
    email: Option<String>,
    n: Option<i32>,
    active: Option<bool>,
}

/// Rows by id.
type Model = BTreeMap<i32, Row>;

/// The key in the unique index, if the row is in it and the key may not repeat.
fn key(row: &Row) -> Option<(i32, String)> {
    let email = row.email.as_ref().filter(|_| row.active == Some(true))?;
    Some((row.w, email.to_lowercase()))
}

fn holds(model: &Model) -> bool {
    let keys: Vec<_> = model.values().filter_map(key).collect();
    let mut once = keys.clone();
    once.sort();
    once.dedup();
    once.len() == keys.len() && model.values().all(|row| row.n != Some(0))
}

fn random_row(rng: &mut Rng) -> Row {
    let emails = ["a@x", "A@x", "b@x", "B@X", "c@x"];
    Row {
        w: rng.below(3) as i32,
        email: rng.chance(7, 8).then(|| rng.pick(&emails).to_string()),
        n: rng.chance(7, 8).then(|| rng.below(9) as i32 - i32::from(rng.chance(1, 12))),
        active: rng.chance(7, 8).then(|| rng.chance(1, 2)),
    }
}

fn quoted(text: &Option<String>) -> String {
    text.as_ref().map_or_else(|| "NULL".to_owned(), |text| format!("'{text}'"))
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

fn values(id: i32, row: &Row) -> String {
    let (n, active) = (shown(row.n), shown(row.active));
    format!("({id}, {}, {}, {n}, {active})", row.w, quoted(&row.email))
}

/// Changes the model if it still holds then.
fn change(model: &mut Model, by: impl FnOnce(&mut Model)) -> bool {
    let mut changed = model.clone();
    by(&mut changed);
    let allowed = holds(&changed);
    if allowed {
        *model = changed;
    }
    allowed
}

/// One statement, and whether the model lets it pass (and has carried it out then).
fn statement(rng: &mut Rng, model: &mut Model, next: &mut i32) -> (String, bool) {
    let mut fresh = |rng: &mut Rng| {
        *next += 1;
        (*next, random_row(rng))
    };
    match rng.below(7) {
        0 | 1 => {
            let rows: Vec<_> = (0..1 + rng.below(3)).map(|_| fresh(rng)).collect();
            let texts: Vec<String> = rows.iter().map(|(id, row)| values(*id, row)).collect();
            let text = format!("INSERT INTO t VALUES {}", texts.join(", "));
            (text, change(model, |model| model.extend(rows)))
        }
        2 => {
            let (id, row) = fresh(rng);
            let updates = rng.chance(1, 2);
            let action = if updates { "UPDATE SET n = excluded.n" } else { "NOTHING" };
            let text = format!(
                "INSERT INTO t VALUES {} ON CONFLICT (w, lower(email)) WHERE active DO {action}",
                values(id, &row)
            );
            // A row that cannot be stored is refused before its key is looked for.
            if row.n == Some(0) {
                return (text, false);
            }
            let met = key(&row).and_then(|wanted| {
                model.iter().find(|(_, other)| key(other).as_ref() == Some(&wanted)).map(|m| *m.0)
            });
            let allowed = change(model, |model| match met {
                None => _ = model.insert(id, row.clone()),
                Some(met) if updates => model.get_mut(&met).expect("it was met").n = row.n,
                Some(_) => {}
            });
            (text, allowed)
        }
        3 => {
            let (w, active) = (rng.below(3) as i32, rng.chance(1, 2));
            let text = format!("UPDATE t SET active = {active} WHERE w = {w}");
            let allowed = change(model, |model| {
                model.values_mut().filter(|row| row.w == w).for_each(|r| r.active = Some(active));
            });
            (text, allowed)
        }
        4 => {
            // Keys may repeat between the first and the last row.
            let text = "UPDATE t SET email = CASE WHEN upper(email) = 'A@X' THEN 'b@x' \
                        WHEN upper(email) = 'B@X' THEN 'a@x' ELSE email END WHERE active"
                .to_owned();
            let allowed = change(model, |model| {
                for row in model.values_mut().filter(|row| row.active == Some(true)) {
                    row.email = row.email.take().map(|email| match email.as_str() {
                        "a@x" | "A@x" => "b@x".to_owned(),
                        "b@x" | "B@X" => "a@x".to_owned(),
                        _ => email,
                    });
                }
            });
            (text, allowed)
        }
        5 => {
            let Some(id) = model.keys().nth(rng.below(8) as usize).copied() else {
                return ("DELETE FROM t WHERE active AND lower(email) = 'nobody'".to_owned(), true);
            };
            let row = random_row(rng);
            let text = format!(
                "UPDATE t SET w = {}, email = {}, n = {}, active = {} WHERE id = {id}",
                row.w,
                quoted(&row.email),
                shown(row.n),
                shown(row.active)
            );
            (text, change(model, |model| _ = model.insert(id, row)))
        }
        _ => {
            let (w, email) = (rng.below(3) as i32, *rng.pick(&["a@x", "b@x", "c@x"]));
            let text =
                format!("DELETE FROM t WHERE active AND w = {w} AND lower(email) = '{email}'");
            model.retain(|_, row| key(row) != Some((w, email.to_owned())));
            (text, true)
        }
    }
}

fn ids(session: &mut Session, sql: &str) -> Vec<i32> {
    let rows = session.query(sql, &[]).and_then(|rows| rows.collect());
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let id = |row: Vec<Value>| match row[0] {
        Value::Int32(id) => id,
        _ => panic!("{sql}: {row:?}"),
    };
    let mut ids: Vec<i32> = rows.into_iter().map(id).collect();
    ids.sort_unstable();
    ids
}

fn look_up(session: &mut Session, model: &Model, rng: &mut Rng) {
    let expect = |wanted: &dyn Fn(&Row) -> bool| -> Vec<i32> {
        model.iter().filter(|(_, row)| wanted(row)).map(|(id, _)| *id).collect()
    };
    let (w, email) = (rng.below(3) as i32, *rng.pick(&["a@x", "b@x", "c@x"]));
    let sql = format!("SELECT id FROM t WHERE active AND w = {w} AND lower(email) = '{email}'");
    let wanted = Some((w, email.to_owned()));
    assert_eq!(ids(session, &sql), expect(&|row| key(row) == wanted), "{sql}");
    let quotient = rng.below(101) as i32;
    let sql = format!("SELECT id FROM t WHERE 100 / n = {quotient}");
    let found = expect(&|row| row.n.is_some_and(|n| 100 / n == quotient));
    assert_eq!(ids(session, &sql), found, "{sql}");
    let low = rng.below(9) as i32;
    let sql = format!("SELECT id FROM t WHERE n = {low} AND email LIKE '%@%'");
    let found = expect(&|row| row.n == Some(low) && row.email.is_some());
    assert_eq!(ids(session, &sql), found, "{sql}");
    let sql = format!("SELECT id FROM t WHERE n = {low}");
    assert_eq!(ids(session, &sql), expect(&|row| row.n == Some(low)), "{sql}");
}

fn check_all(database: &Database, model: &Model) {
    for table in halcyon::testing::catalog(database).tables.values() {
        table.cells.iter().for_each(|cell| cell.check());
    }
    let mut session = database.session();
    assert_eq!(ids(&mut session, "SELECT id FROM t"), model.keys().copied().collect::<Vec<_>>());
    for (id, row) in model {
        let sql = format!(
            "SELECT id FROM t WHERE id = {id} AND w = {} AND email IS NOT DISTINCT FROM {} \
             AND n IS NOT DISTINCT FROM {} AND active IS NOT DISTINCT FROM {}",
            row.w,
            quoted(&row.email),
            shown(row.n),
            shown(row.active)
        );
        assert_eq!(ids(&mut session, &sql), [*id], "{row:?}");
    }
}

fn copy(session: &mut Session, rng: &mut Rng, model: &mut Model, next: &mut i32) {
    let mut data = String::new();
    let mut rows = Vec::new();
    for _ in 0..3 {
        *next += 1;
        let row = random_row(rng);
        let null = || "\\N".to_owned();
        let email = row.email.clone().unwrap_or_else(null);
        let n = row.n.map_or_else(null, |n| n.to_string());
        let active = row.active.map_or_else(null, |active| active.to_string());
        data.push_str(&format!("{next}\t{}\t{email}\t{n}\t{active}\n", row.w));
        rows.push((*next, row));
    }
    let allowed = change(model, |model| model.extend(rows));
    let statement = session.prepare("COPY t FROM STDIN").expect("a statement");
    session.run(&statement, &[]).expect("COPY begins");
    let done = session.copy_data(data.as_bytes()).and_then(|()| session.copy_end());
    assert_eq!(done.is_ok(), allowed, "COPY of\n{data}: {:?}", done.err());
}

fn run(seed: u64, partitions: u32) {
    let mut rng = Rng::new(seed);
    let folder: PathBuf = std::env::temp_dir()
        .join(format!("halcyon-derived-{}-{seed}-{partitions}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let mut database = Database::open(&folder).expect("a folder");
    let mut session = database.session();
    let with = match partitions {
        1 => String::new(),
        count => format!(" WITH (partition_by = 'w', partitions = {count})"),
    };
    session
        .batch(&format!(
            "CREATE TABLE t (id INTEGER NOT NULL, w INTEGER NOT NULL, email TEXT, n INTEGER, \
             active BOOLEAN){with}; \
             CREATE INDEX by_id ON t (id)"
        ))
        .expect("a table");
    let (mut model, mut next) = (Model::new(), 0);
    let definitions = [
        "CREATE UNIQUE INDEX one ON t (w, lower(email)) WHERE active",
        "CREATE INDEX parts ON t ((100 / n))",
        "CREATE INDEX mailed ON t (n DESC) WHERE email IS NOT NULL",
    ];
    definitions.iter().for_each(|sql| session.batch(sql).expect(sql));
    for round in 0..40 {
        let before = model.clone();
        let commits = rng.chance(2, 3);
        session.batch("BEGIN").expect("a transaction");
        for _ in 0..1 + rng.below(6) {
            let (sql, allowed) = statement(&mut rng, &mut model, &mut next);
            session.batch("SAVEPOINT s").expect("a savepoint");
            let done = session.batch(&sql);
            assert_eq!(done.is_ok(), allowed, "seed {seed}: {sql}: {:?}", done.err());
            if done.is_err() {
                session.batch("ROLLBACK TO s").expect("a savepoint");
            }
            look_up(&mut session, &model, &mut rng);
        }
        session.batch(if commits { "COMMIT" } else { "ROLLBACK" }).expect("the end");
        if !commits {
            model = before;
        }
        copy(&mut session, &mut rng, &mut model, &mut next);
        match round % 8 {
            2 => {
                session.batch("DROP INDEX mailed").expect("an index");
                session.batch(definitions[2]).expect("an index over rows that are there");
            }
            4 => database.checkpoint().expect("a checkpoint"),
            6 => {
                drop(session);
                database.close();
                drop(database);
                database = Database::open(&folder).expect("what was closed opens");
                session = database.session();
            }
            _ => {}
        }
        check_all(&database, &model);
    }
    drop(session);
    drop(database);
    Database::check(&folder, &|_| ()).expect("a sound database");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn random_writes_leave_derived_indexes_as_the_model_says() {
    for seed in 1..4 {
        run(seed, 1);
        run(seed, 3);
    }
}
