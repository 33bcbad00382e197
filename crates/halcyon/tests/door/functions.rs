//! Functions of the execution: one value in point plans and in analytical ones, PostgreSQL's, and none
//! in a view.

use halcyon::{Database, Session, SqlState};

use crate::{one, state};

/// The value of an expression as text, which both executors agree on.
fn both(session: &mut Session, expression: &str) -> String {
    let point = format!("SELECT ({expression})::text FROM item WHERE id = 1");
    let value = one(session, &point);
    session.set("halcyon.point_plans", "off").expect("a switch");
    assert_eq!(one(session, &point), value, "{expression}, point and analytical");
    let filter = format!("SELECT count(*) FROM item WHERE ({expression})::text = '{value}'");
    assert_eq!(one(session, &filter), "1", "{expression} as a condition");
    session.set("halcyon.point_plans", "on").expect("a switch");
    value
}

/// A database with roles, schemas and a table of one row.
fn database() -> (Database, Session) {
    let database = Database::in_memory();
    let mut session = database.session();
    let setup =
        "CREATE ROLE clerk LOGIN; CREATE ROLE boss; GRANT boss TO clerk; CREATE SCHEMA shop;
                 CREATE TABLE item (id INT PRIMARY KEY); INSERT INTO item VALUES (1);
                 GRANT SELECT ON item TO PUBLIC; GRANT SELECT ON item TO boss";
    session.batch(setup).expect("a small world");
    let clerk = database.session_as("clerk").expect("it may log in");
    (database, clerk)
}

#[test]
fn functions_of_the_session_tell_who_asks() {
    let (_database, mut session) = database();
    for name in ["current_user", "current_role", "session_user"] {
        assert_eq!(both(&mut session, name), "clerk", "{name}");
    }
    session.batch("SET ROLE boss").expect("a member");
    for (name, role) in
        [("current_user", "boss"), ("current_role", "boss"), ("session_user", "clerk")]
    {
        assert_eq!(both(&mut session, name), role, "{name}");
    }
    assert_eq!(one(&mut session, "SELECT user"), "boss");
    let number = session.id().to_string();
    assert_eq!(both(&mut session, "pg_backend_pid()"), number);
    assert_eq!(both(&mut session, "pg_catalog.pg_backend_pid()"), number);
}

#[test]
fn functions_of_the_session_tell_where_it_is() {
    let (_database, mut session) = database();
    for name in ["current_database()", "current_catalog"] {
        assert_eq!(both(&mut session, name), "halcyon", "{name}");
    }
    assert_eq!(both(&mut session, "current_schema()"), "public");
    session.batch("SET search_path = nowhere, shop, public").expect("any names");
    assert_eq!(both(&mut session, "current_schema"), "shop", "the first that exists");
    session.batch("SET search_path = nowhere").expect("any names");
    assert_eq!(one(&mut session, "SELECT current_schema() IS NULL"), "true");
    assert_eq!(one(&mut session, "SELECT 1 FROM public.item WHERE current_schema() IS NULL"), "1");
}

#[test]
fn functions_of_the_clock_stand_still_as_long_as_postgresqls_do() {
    let (_database, mut session) = database();
    session.batch("SET timezone = 'Europe/Berlin'").expect("a zone");
    session.batch("BEGIN").expect("no transaction yet");
    for pair in [
        "now() = current_timestamp",
        "now() = transaction_timestamp()",
        "localtimestamp = now()::timestamp",
        "current_date = now()::date",
        "localtime = now()::time",
        "statement_timestamp() >= now()",
        "statement_timestamp() <= clock_timestamp()",
    ] {
        assert_eq!(both(&mut session, pair), "true", "{pair}");
    }
    let first = both(&mut session, "now()");
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(both(&mut session, "now()"), first);
    assert_eq!(one(&mut session, &format!("SELECT statement_timestamp() > '{first}'")), "true");
    session.batch("COMMIT").expect("nothing to refuse");
}

/// A statement began before it waited for locks, not when its time is first asked for.
#[test]
fn a_statement_that_waits_began_before_it_waited() {
    let (database, _clerk) = database();
    let (mut session, mut holder) = (database.session(), database.session());
    holder.batch("BEGIN; UPDATE item SET id = id").expect("nobody holds it");
    let asks = "UPDATE item SET id = id RETURNING
                clock_timestamp() - statement_timestamp() >= INTERVAL '30 milliseconds',
                now() = statement_timestamp()";
    let rows = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.query(asks, &[]).and_then(|rows| rows.collect()));
        // However long it is until it has been planned.
        let mut watcher = database.session();
        let waits = "SELECT count(*) > 0 FROM halcyon.locks WHERE NOT granted";
        while one(&mut watcher, waits) != "true" {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::thread::sleep(std::time::Duration::from_millis(60));
        holder.batch("COMMIT").expect("nothing to refuse");
        waiting.join().expect("no panic").expect("the lock is free")
    });
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row, [halcyon::Value::Bool(true), halcyon::Value::Bool(true)]);
    }
}

#[test]
fn views_refuse_functions_of_the_execution() {
    let (database, _) = database();
    let mut session = database.session();
    for call in ["now()", "current_user", "current_date", "pg_backend_pid()", "clock_timestamp()"] {
        let text = format!("CREATE MATERIALIZED VIEW v AS SELECT id, {call} AS c FROM item");
        assert_eq!(state(session.batch(&text)), SqlState::FEATURE_NOT_SUPPORTED, "{call}");
    }
}
