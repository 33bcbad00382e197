//! Temporary tables as several sessions meet them.

use halcyon::{Database, SqlState, Value};

use super::{one, rows, state};

#[test]
fn each_session_has_its_own_table_of_a_name() {
    let db = Database::in_memory();
    let (mut a, mut b) = (db.session(), db.session());
    a.batch("CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('of all')").expect("a table");
    let look = b.prepare("SELECT v FROM t").expect("a plan");
    a.batch("CREATE TEMP TABLE t (v TEXT); INSERT INTO t VALUES ('of a')").expect("a's own");
    assert_eq!(one(&mut b, "SELECT v FROM t"), "of all");
    b.batch("CREATE TEMP TABLE t (v TEXT); INSERT INTO t VALUES ('of b')").expect("b's own");
    assert_eq!(one(&mut a, "SELECT v FROM t"), "of a");
    assert_eq!(one(&mut b, "SELECT v FROM t"), "of b");
    assert_eq!(rows(&mut db.session(), "SELECT v FROM t"), ["of all"]);
    let found = b.query(&look, &[]).and_then(|rows| rows.collect());
    let found = found.expect("it runs on what its name means now");
    assert_eq!(found[0][0], Value::Text("of b".into()));
    b.batch("DROP TABLE t").expect("b's own goes first");
    assert_eq!(one(&mut b, "SELECT v FROM t"), "of all");
}

#[test]
fn another_session_finds_it_in_the_catalog_and_not_by_name() {
    let db = Database::in_memory();
    let (mut a, mut b) = (db.session(), db.session());
    a.batch("CREATE TEMP TABLE passing (id SERIAL PRIMARY KEY)").expect("a table");
    let schema = format!("pg_temp_{}", a.id());
    let named = "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                 WHERE relname = 'passing'";
    assert_eq!(one(&mut b, named), schema);
    let about = "SELECT relpersistence, pg_table_is_visible(oid), \
                 pg_is_other_temp_schema(relnamespace) FROM pg_class WHERE relname = 'passing'";
    assert_eq!(one(&mut b, about), "t|false|true");
    assert_eq!(one(&mut a, about), "t|true|false");
    let standard = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'passing'";
    assert_eq!((one(&mut a, standard), one(&mut b, standard)), ("1".into(), "0".into()));
    assert_eq!(one(&mut b, "SELECT pg_my_temp_schema()"), "0");
    for name in ["passing", &format!("{schema}.passing"), "pg_temp.passing"] {
        let selected = b.query(format!("SELECT * FROM {name}").as_str(), &[]);
        assert_eq!(state(selected), SqlState::UNDEFINED_TABLE, "{name}");
    }
    let into_other = format!("CREATE TABLE {schema}.intruder (a INTEGER)");
    assert_eq!(state(b.batch(&into_other)), SqlState::INVALID_SCHEMA_NAME);
    drop(a);
    assert_eq!(rows(&mut b, named), [""; 0]);
}

#[test]
fn changes_of_temporary_tables_wait_for_no_change_of_the_catalog() {
    let db = Database::in_memory();
    let (mut a, mut b) = (db.session(), db.session());
    a.batch("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)").expect("a table");
    a.batch("BEGIN; CREATE TABLE held (a INTEGER)").expect("the right to change the catalog");
    b.batch("SET lock_timeout = '50ms'").expect("a setting");
    assert_eq!(state(b.batch("CREATE TABLE other (a INTEGER)")), SqlState::LOCK_NOT_AVAILABLE);
    b.batch(
        "BEGIN; CREATE TEMP TABLE passing (id SERIAL, v INTEGER CHECK (v > 0));
         CREATE INDEX ON passing (v); ALTER TABLE passing ADD COLUMN w TEXT DEFAULT 'x';
         CREATE TEMP VIEW seen AS SELECT v, w FROM passing; INSERT INTO passing (v) VALUES (5);
         TRUNCATE passing; INSERT INTO passing (v) VALUES (6)",
    )
    .expect("nothing of others is changed");
    // The other transaction commits meanwhile; the block goes on with the new catalog.
    a.batch("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7; COMMIT").expect("a change");
    assert_eq!(one(&mut b, "SELECT v, w, a, b FROM seen, t"), "6|x|1|7");
    b.batch("INSERT INTO held VALUES (1); COMMIT").expect("it is there");
    assert_eq!(one(&mut b, "SELECT v FROM seen"), "6");
    a.batch("ALTER TABLE t DROP COLUMN b").expect("a change");
    assert_eq!(one(&mut b, "SELECT v, t.* FROM seen, t"), "6|1");
    b.batch("BEGIN; DROP VIEW seen; DROP TABLE passing").expect("nothing of others is changed");
    a.batch("CREATE TABLE third (a INTEGER)").expect("nobody holds the right");
    b.batch("ROLLBACK").expect("undone");
    assert_eq!(one(&mut b, "SELECT v FROM seen"), "6");
}

#[test]
fn both_kinds_may_be_changed_in_one_transaction() {
    let db = Database::in_memory();
    let (mut a, mut b) = (db.session(), db.session());
    a.batch(
        "BEGIN; CREATE TEMP TABLE passing AS SELECT 1 AS a; CREATE TABLE lasting (a INTEGER);
         INSERT INTO lasting SELECT a FROM passing; CREATE TEMP TABLE second (a INTEGER)
         ON COMMIT DROP; COMMIT",
    )
    .expect("both");
    assert_eq!(one(&mut b, "SELECT a FROM lasting"), "1");
    assert_eq!(state(b.query("SELECT a FROM passing", &[])), SqlState::UNDEFINED_TABLE);
    assert_eq!(one(&mut a, "SELECT p.a FROM passing p JOIN lasting USING (a)"), "1");
    assert_eq!(state(a.query("SELECT a FROM second", &[])), SqlState::UNDEFINED_TABLE);
    a.batch("BEGIN; DROP TABLE lasting; DROP TABLE passing; COMMIT").expect("both");
    assert_eq!(state(b.query("SELECT a FROM lasting", &[])), SqlState::UNDEFINED_TABLE);
}

#[test]
fn a_role_sees_its_own_and_what_it_is_granted() {
    let db = Database::in_memory();
    let mut a = db.session();
    a.batch("CREATE ROLE ana LOGIN; CREATE TEMP TABLE passing AS SELECT 1 AS a").expect("both");
    a.batch("SET ROLE ana").expect("a role");
    assert_eq!(state(a.query("SELECT a FROM passing", &[])), SqlState::INSUFFICIENT_PRIVILEGE);
    a.batch("CREATE TEMP TABLE ana_s AS SELECT 2 AS a").expect("a role may have its own");
    assert_eq!(one(&mut a, "SELECT a FROM ana_s"), "2");
    assert_eq!(state(a.batch("DROP TABLE passing")), SqlState::INSUFFICIENT_PRIVILEGE);
    a.batch("RESET ROLE; GRANT SELECT ON passing TO ana; SET ROLE ana").expect("a grant");
    assert_eq!(one(&mut a, "SELECT a FROM passing"), "1");
}

#[test]
fn a_session_without_temporary_objects_shares_plans_again() {
    let db = Database::in_memory();
    let (mut a, mut b) = (db.session(), db.session());
    a.batch("CREATE TABLE t (a INTEGER PRIMARY KEY)").expect("a table");
    let planned = |session: &mut halcyon::Session| {
        let before = db.statements_planned();
        rows(session, "SELECT a FROM t WHERE a = 1");
        db.statements_planned() - before
    };
    assert_eq!((planned(&mut a), planned(&mut b)), (1, 0));
    a.batch("CREATE TEMP TABLE passing (a INTEGER)").expect("a table");
    assert_eq!((planned(&mut a), planned(&mut b)), (1, 0));
    a.batch("DISCARD TEMP").expect("dropped");
    assert_eq!((planned(&mut a), planned(&mut b)), (0, 0));
}
