//! The public door, used as a program uses it.

mod change_over;
mod concurrency;
mod early_locks;
mod figures;
mod functions;
mod messages;
mod rights;
mod statements;
mod temporary;
mod transactions;
mod written_views;

use halcyon::{Database, Result, Session, SqlState, Value};

/// A database with a table `item(id, name, stock)` of `rows` rows.
fn items(rows: i32) -> Database {
    let db = Database::in_memory();
    let mut session = db.session();
    session
        .batch("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stock BIGINT)")
        .expect("a new table");
    let insert = session.prepare("INSERT INTO item VALUES ($1, $2, $3)").expect("a plan");
    for id in 0..rows {
        let name = format!("item {id}");
        session.execute(&insert, halcyon::params![id, name, 10_i64]).expect("a new row");
    }
    db
}

/// Every row of a query, as text with NULL spelled out.
fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let show = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(text) => text.to_string(),
        Value::Int16(n) => n.to_string(),
        Value::Int32(n) => n.to_string(),
        Value::Int64(n) => n.to_string(),
        Value::Decimal(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        other => format!("{other:?}"),
    };
    let all = session.query(text, &[]).and_then(|rows| rows.collect()).expect(text);
    all.iter().map(|row| row.iter().map(show).collect::<Vec<_>>().join("|")).collect()
}

/// One value of a query.
fn one(session: &mut Session, text: &str) -> String {
    let mut rows = rows(session, text);
    assert_eq!(rows.len(), 1, "{text}");
    rows.remove(0)
}

/// The state a statement fails with.
fn state<T>(result: Result<T>) -> SqlState {
    match result {
        Ok(_) => panic!("the statement should fail"),
        Err(error) => error.state(),
    }
}
