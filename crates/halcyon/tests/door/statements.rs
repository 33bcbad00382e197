//! Statements, parameters, results, settings.

use halcyon::{Database, Outcome, RowSet, SqlState, SqlType, Value, ValueRef, params};

use crate::{items, one, rows, state};

#[test]
fn typed_columns_are_read_and_mismatches_refused() {
    let db = items(3);
    let mut session = db.session();
    let by_id = session.prepare("SELECT name, stock, NULL::int FROM item WHERE id = $1").unwrap();
    let mut found = session.query(&by_id, params![2]).unwrap();
    let row = found.next().unwrap().expect("item 2");
    assert_eq!(row.get::<&str>(0).unwrap(), "item 2");
    assert_eq!(row.get::<i64>(1).unwrap(), 10);
    assert_eq!(row.get::<Option<i32>>(2).unwrap(), None);
    assert_eq!(state(row.get::<bool>(1)), SqlState::DATATYPE_MISMATCH);
    assert_eq!(state(row.get::<i32>(2)), SqlState::NULL_VALUE_NO_INDICATOR_PARAMETER);
    assert_eq!(state(row.get::<i32>(3)), SqlState::UNDEFINED_COLUMN);
    assert!(found.next().unwrap().is_none());
}

#[test]
fn parameters_are_counted_and_converted() {
    let db = items(3);
    let mut session = db.session();
    let by_id = session.prepare("SELECT name FROM item WHERE id = $1").unwrap();
    assert_eq!(session.query(&by_id, params![1_i64]).unwrap().collect().unwrap().len(), 1);
    assert_eq!(session.query(&by_id, params!["1"]).unwrap().collect().unwrap().len(), 1);
    assert_eq!(state(session.query(&by_id, params![])), SqlState::PROTOCOL_VIOLATION);
    let too_big = session.query(&by_id, params![1_i64 << 40]);
    assert_eq!(state(too_big), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    let not_a_number = session.query(&by_id, params!["x"]);
    assert_eq!(state(not_a_number), SqlState::INVALID_TEXT_REPRESENTATION);
}

#[test]
fn small_results_are_read_into_reused_memory() {
    let db = items(10);
    let mut session = db.session();
    let by_id = session.prepare("SELECT id, name FROM item WHERE id = $1").unwrap();
    let mut out = RowSet::default();
    for id in [3, 7, 11] {
        session.query_into(&by_id, params![id], &mut out).unwrap();
        assert_eq!(out.len(), usize::from(id < 10));
        if id < 10 {
            assert_eq!(out.value(0, 0), ValueRef::Int32(id));
            assert_eq!(out.value(0, 1), ValueRef::Text(&format!("item {id}")));
        }
    }
}

#[test]
fn analytical_results_arrive_as_batches() {
    let db = items(5000);
    let mut session = db.session();
    let found = session.query("SELECT id, name, stock + id AS s FROM item WHERE stock > 0", &[]);
    let total: usize = found.unwrap().batches().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(total, 5000);
    let sum = one(&mut session, "SELECT sum(stock + id)::bigint FROM item");
    assert_eq!(sum, (50_000 + 4999 * 2500).to_string());
}

#[test]
fn a_statement_outlives_changes_of_the_catalog() {
    let db = items(2);
    let mut session = db.session();
    let all = session.prepare("SELECT * FROM item WHERE id = 1").unwrap();
    session.execute(&all, &[]).unwrap();
    db.session().batch("ALTER TABLE item ADD COLUMN extra INTEGER DEFAULT 7").unwrap();
    let found = session.query(&all, &[]).unwrap();
    assert_eq!(found.columns().len(), 4);
    assert_eq!(rows(&mut session, "SELECT extra FROM item WHERE id = 1"), ["7"]);
    db.session().batch("DROP TABLE item").unwrap();
    assert_eq!(state(session.query(&all, &[])), SqlState::UNDEFINED_TABLE);
}

#[test]
fn the_second_execution_of_a_text_plans_nothing() {
    let db = items(2);
    let mut session = db.session();
    let text = "SELECT name FROM item WHERE id = $1";
    session.query(text, params![1]).unwrap();
    let planned = db.statements_planned();
    for id in 0..100 {
        session.query(text, params![id]).unwrap();
        db.session().query(text, params![id]).unwrap();
    }
    assert_eq!(db.statements_planned(), planned);
    session.query("SELECT name FROM item WHERE id = $1 ", params![1]).unwrap();
    assert_eq!(db.statements_planned(), planned + 1, "the counter counts");
}

/// What does not show anything of its session is kept, whatever names stand in it that no table has.
#[test]
fn texts_of_every_form_are_planned_once() {
    let db = items(2);
    let mut session = db.session();
    session.batch("CREATE VIEW cheap AS SELECT id, stock FROM item WHERE stock < 10").unwrap();
    for text in [
        "WITH x AS (SELECT id FROM item WHERE id = 1) SELECT * FROM x",
        "WITH x AS (SELECT id FROM item), y AS (SELECT id FROM x) SELECT count(*) FROM x JOIN y USING (id)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT sum(i) FROM n",
        "SELECT q.n FROM (SELECT count(*) AS n FROM item) q",
        "SELECT id FROM cheap c WHERE c.stock > 1",
        "SELECT i FROM generate_series(1, 3) AS s(i)",
        "SELECT v.a FROM (VALUES (1), (2)) AS v(a)",
        "SELECT a.id, b.id FROM item a, LATERAL (SELECT id FROM item b WHERE b.id > a.id ORDER BY id LIMIT 1) b",
        "SELECT id, rank() OVER (ORDER BY stock) FROM item WHERE id < 3",
        "SELECT (SELECT max(b.stock) FROM item b WHERE b.id < a.id) FROM item a",
        "SELECT upper(name), length(name), round(1.5) FROM item",
        "SELECT ctid, tableoid FROM item WHERE id = 1",
        "SELECT i FROM item i WHERE id = 1",
        "SELECT name COLLATE \"C\" FROM item ORDER BY name COLLATE \"sv-x-icu\"",
        "WITH x AS (SELECT 1 AS id) UPDATE item SET stock = stock FROM x WHERE item.id = x.id",
        "DELETE FROM item USING (SELECT 99 AS id) x WHERE item.id = x.id",
        "INSERT INTO item (id, name, stock) SELECT id + 1000, name, stock FROM item WHERE id < 0",
        "SELECT id FROM item UNION SELECT stock FROM cheap",
    ] {
        session.execute(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        let planned = db.statements_planned();
        session.execute(text, &[]).unwrap();
        db.session().execute(text, &[]).unwrap();
        assert_eq!(db.statements_planned(), planned, "planned again: {text}");
    }
}

#[test]
fn a_statement_about_its_session_is_kept_for_no_other() {
    let db = Database::in_memory();
    let (mut first, mut second) = (db.session(), db.session());
    for text in [
        "SELECT pg_backend_pid()",
        "SELECT current_setting('application_name')",
        "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    ] {
        first.batch("SET application_name = 'first'").unwrap();
        second.batch("SET application_name = 'second'").unwrap();
        let told = one(&mut first, text);
        assert_ne!(told, one(&mut second, text), "{text}");
        assert_eq!(told, one(&mut first, text), "{text}");
    }
}

#[test]
fn settings_are_shown_changed_and_refused() {
    let db = Database::in_memory();
    let mut session = db.session();
    assert_eq!(one(&mut session, "SHOW search_path"), "\"$user\", public");
    session.batch("SET search_path TO a, b; SET application_name = 'tour'").unwrap();
    assert_eq!(one(&mut session, "SHOW search_path"), "a, b");
    let told = session.take_changes();
    assert!(told.contains(&("application_name".into(), "tour".into())), "{told:?}");
    assert_eq!(state(session.batch("SET nonsense = 1")), SqlState::UNDEFINED_OBJECT);
    session.batch("RESET ALL").unwrap();
    assert_eq!(one(&mut session, "SHOW application_name"), "");
    assert!(rows(&mut session, "SHOW ALL").len() > 20);
}

#[test]
fn settings_have_units_and_tell_who_may_set_them() {
    let db = Database::in_memory();
    let mut session = db.session();
    assert_eq!(one(&mut session, "SHOW checkpoint_timeout"), "5min");
    assert_eq!(one(&mut session, "SHOW max_wal_size"), "1GB");
    session.batch("SET lock_timeout = 90000; SET halcyon.memory = '65536'").unwrap();
    assert_eq!(one(&mut session, "SHOW lock_timeout"), "90s");
    assert_eq!(one(&mut session, "SELECT current_setting('halcyon.memory')"), "64MB");
    let row = "SELECT setting || ' ' || unit || ' ' || context || ' ' || source || ' ' || boot_val
               || ' ' || min_val || ' ' || max_val || ' ' || vartype FROM pg_settings WHERE name = ";
    let mut shown = |name: &str| one(&mut session, &format!("{row}'{name}'"));
    assert_eq!(shown("lock_timeout"), "90000 ms user session 0 0 2147483647 integer");
    let wal = "1024 MB sighup default 1024 1 1099511627776 integer";
    assert_eq!(shown("max_wal_size"), wal);
    let words = "SELECT array_to_string(enumvals, ',') FROM pg_settings
                 WHERE name = 'synchronous_commit'";
    assert_eq!(one(&mut session, words), "on,off");
    let beyond =
        session.batch("SET lock_timeout = '30d'").expect_err("beyond PostgreSQL's greatest");
    assert!(
        beyond.fields().hint.as_deref().is_some_and(|hint| hint.contains("at most")),
        "{beyond}"
    );
}

#[test]
fn settings_are_those_of_the_moment_in_plans_made_before() {
    let db = Database::in_memory();
    let mut session = db.session();
    let statement =
        session.prepare("SELECT value FROM halcyon.settings WHERE name = 'lock_timeout'").unwrap();
    let value = |session: &mut halcyon::Session| {
        let mut rows = session.query(&statement, &[]).unwrap();
        let row = rows.next().unwrap().unwrap();
        row.get::<&str>(0).unwrap().to_owned()
    };
    assert_eq!(value(&mut session), "0");
    session.batch("SET lock_timeout = '3s'; SET my.own = 'x'").unwrap();
    assert_eq!(value(&mut session), "3s");
    assert_eq!(one(&mut session, "SELECT current_setting('my.own')"), "x");
    session.batch("BEGIN ISOLATION LEVEL READ COMMITTED").unwrap();
    assert_eq!(
        one(&mut session, "SELECT current_setting('transaction_isolation')"),
        "read committed"
    );
    assert_eq!(one(&mut session, "SHOW transaction_isolation"), "read committed");
    session.batch("COMMIT; SET default_transaction_read_only = on").unwrap();
    assert_eq!(one(&mut session, "SHOW transaction_read_only"), "on");
    assert_eq!(
        state(session.batch("SET transaction_read_only = maybe")),
        SqlState::INVALID_PARAMETER_VALUE
    );
    session.batch("RESET ALL").unwrap();
    let told = session.take_changes();
    assert!(told.contains(&("default_transaction_read_only".into(), "off".into())), "{told:?}");
    session.batch("CREATE ROLE clerk; SET ROLE clerk").unwrap();
    assert_eq!(one(&mut session, "SELECT current_setting('role')"), "clerk");
}

#[test]
fn set_local_ends_with_the_transaction_and_set_is_undone_by_rollback() {
    let db = Database::in_memory();
    let mut session = db.session();
    session.batch("BEGIN; SET LOCAL application_name = 'inner'").unwrap();
    assert_eq!(one(&mut session, "SHOW application_name"), "inner");
    session.batch("COMMIT").unwrap();
    assert_eq!(one(&mut session, "SHOW application_name"), "");
    session.batch("BEGIN; SET application_name = 'kept'; ROLLBACK").unwrap();
    assert_eq!(one(&mut session, "SHOW application_name"), "");
    session.batch("BEGIN; SET application_name = 'kept'; COMMIT").unwrap();
    assert_eq!(one(&mut session, "SHOW application_name"), "kept");
}

#[test]
fn prepare_execute_and_deallocate_in_sql() {
    let db = items(5);
    let mut session = db.session();
    session.batch("PREPARE by_id (integer) AS SELECT name FROM item WHERE id = $1").unwrap();
    assert_eq!(rows(&mut session, "EXECUTE by_id(1 + 2)"), ["item 3"]);
    let again = session.batch("PREPARE by_id AS SELECT 1");
    assert_eq!(state(again), SqlState::DUPLICATE_PREPARED_STATEMENT);
    session.batch("DEALLOCATE by_id").unwrap();
    assert_eq!(state(session.batch("EXECUTE by_id(1)")), SqlState::INVALID_SQL_STATEMENT_NAME);
}

#[test]
fn explain_names_executor_and_locks() {
    let db = items(5);
    let mut session = db.session();
    let plan = rows(&mut session, "EXPLAIN SELECT name FROM item WHERE id = 3").join("\n");
    assert!(plan.contains("Executor: point"), "{plan}");
    assert!(plan.contains("Lock: public.item partition 0 of 1, shared"), "{plan}");
    let plan = rows(&mut session, "EXPLAIN SELECT sum(stock) FROM item").join("\n");
    assert!(plan.contains("Executor: analytical"), "{plan}");
    let update = "EXPLAIN ANALYZE UPDATE item SET stock = 1 WHERE id = 3";
    let plan = rows(&mut session, update).join("\n");
    assert!(plan.contains("exclusive") && plan.contains("Rows: 1"), "{plan}");
    assert_eq!(one(&mut session, "SELECT stock FROM item WHERE id = 3"), "1");
}

#[test]
fn an_empty_text_does_nothing() {
    let mut session = Database::in_memory().session();
    let empty = session.prepare("  -- nothing\n").unwrap();
    assert!(empty.is_empty());
    assert!(matches!(session.run(&empty, &[]).unwrap(), Outcome::Done(_)));
    assert_eq!(state(session.prepare("SELECT 1; SELECT 2")), SqlState::SYNTAX_ERROR);
}

#[test]
fn statements_are_counted_for_the_system_view() {
    let db = items(3);
    let mut session = db.session();
    let text = "SELECT stock FROM item WHERE id = $1";
    let statement = session.prepare(text).unwrap();
    for id in 0..50 {
        session.query(&statement, params![id]).unwrap();
    }
    drop(session);
    let mut session = db.session();
    let calls = one(
        &mut session,
        "SELECT calls FROM halcyon.statements WHERE statement = 'SELECT stock FROM item WHERE id = $1'",
    );
    assert_eq!(calls, "50");
}

#[test]
fn a_moment_without_a_zone_is_one_of_the_sessions_zone() {
    let mut session = Database::in_memory().session();
    session.batch("SET timezone = 'Europe/Berlin'").unwrap();
    let moment = SqlType::TimestampTz;
    let types = [Some(moment), Some(moment), moment.array_of()];
    let statement = session.prepare_typed("SELECT $1, $2, $3", &types).unwrap();
    let given = params!["2024-01-01 00:00", Value::Timestamp(0), "{2024-01-01 00:00}"];
    let rows = session.query(&statement, given).unwrap().collect().unwrap();
    let hour_us = 3_600_000_000;
    let midnight = 1_704_067_200_000_000 - hour_us;
    assert_eq!(rows[0][..2], [Value::TimestampTz(midnight), Value::TimestampTz(-hour_us)]);
    assert_eq!(rows[0][2], Value::Text("{\"2023-12-31 23:00:00+00\"}".to_owned()));
}
