//! Rights, looked at when a statement runs; `tests/sql/rights.slt` has the statements.

use std::time::Duration;

use halcyon::{Database, Session, SqlState, params};

use crate::{items, state};

/// A database with `item`, and a session of the role `ana`, who may do nothing yet.
fn with_ana() -> (Database, Session, Session) {
    let db = items(3);
    let mut owner = db.session();
    owner.batch("CREATE ROLE ana LOGIN").expect("a role");
    let ana = db.session_as("ana").expect("she may log in");
    (db, owner, ana)
}

#[test]
fn a_prepared_statement_has_the_rights_of_the_moment() {
    let (_db, mut owner, mut ana) = with_ana();
    let text = "SELECT name FROM item WHERE id = $1";
    let by_owner = owner.prepare(text).unwrap();
    owner.query(&by_owner, params![1]).unwrap();
    // The same statement, in the same session, for another role.
    owner.batch("SET ROLE ana").unwrap();
    assert_eq!(state(owner.query(&by_owner, params![1])), SqlState::INSUFFICIENT_PRIVILEGE);
    owner.batch("RESET ROLE; GRANT SELECT ON item TO ana").unwrap();
    owner.query(&by_owner, params![1]).unwrap();
    // A grant and its revocation reach the statements that a session has prepared.
    let by_ana = ana.prepare(text).unwrap();
    ana.query(&by_ana, params![1]).unwrap();
    owner.batch("REVOKE SELECT ON item FROM ana").unwrap();
    assert_eq!(state(ana.query(&by_ana, params![1])), SqlState::INSUFFICIENT_PRIVILEGE);
    // A membership, too.
    owner
        .batch("CREATE ROLE readers; GRANT SELECT ON item TO readers; GRANT readers TO ana")
        .unwrap();
    ana.query(&by_ana, params![1]).unwrap();
    owner.batch("REVOKE readers FROM ana").unwrap();
    assert_eq!(state(ana.query(&by_ana, params![1])), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn details_show_rows_to_those_who_may_read_them() {
    let (_db, mut owner, mut ana) = with_ana();
    owner
        .batch(
            "CREATE TABLE part (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES item,
                 secret INTEGER DEFAULT 42 CHECK (secret > 0),
                 late INTEGER CONSTRAINT late REFERENCES item DEFERRABLE INITIALLY DEFERRED);
             INSERT INTO part VALUES (1, 1, 7, 1);
             CREATE MATERIALIZED VIEW load AS SELECT sum(secret) AS s FROM part;
             CREATE ASSERTION light CHECK (NOT EXISTS (SELECT 1 FROM load WHERE s > 100));
             GRANT INSERT, UPDATE, DELETE ON part TO ana; GRANT DELETE ON item TO ana",
        )
        .unwrap();
    let failing = [
        "INSERT INTO part (id, item) VALUES (1, 1)",
        "INSERT INTO part (id) VALUES (2)",
        "INSERT INTO part (id, item) VALUES (2, 99)",
        "INSERT INTO part (id, item, secret) VALUES (2, 1, -1)",
        "INSERT INTO part (id, item, secret) VALUES (2, 1, 95)",
        "INSERT INTO part (id, item, late) VALUES (2, 1, 99)",
        "UPDATE part SET secret = -1",
        "DELETE FROM item",
    ];
    let detail = |session: &mut Session, text: &str| {
        let error = session.execute(text, &[]).expect_err(text);
        assert_eq!(&error.state().as_str()[..2], "23", "{text}: {error}");
        error.fields().detail.clone()
    };
    for text in failing {
        assert!(detail(&mut owner, text).is_some(), "{text}");
        assert_eq!(detail(&mut ana, text), None, "{text}");
    }
    // At the end of a block, as well.
    ana.batch("BEGIN; INSERT INTO part (id, item, late) VALUES (2, 1, 99)").unwrap();
    assert_eq!(detail(&mut ana, "COMMIT"), None);
    owner.batch("GRANT SELECT ON part, load, item TO ana").unwrap();
    for text in failing {
        assert!(detail(&mut ana, text).is_some(), "{text}");
    }
}

#[test]
fn a_subscription_ends_when_its_right_does() {
    let (db, mut owner, _) = with_ana();
    owner
        .batch(
            "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM item; GRANT SELECT ON n TO ana",
        )
        .unwrap();
    let ana = db.session_as("ana").unwrap();
    let mut following = ana.into_subscription("n", None).unwrap();
    let wait = Duration::from_secs(5);
    assert!(following.next(wait).unwrap().is_some());
    owner.batch("INSERT INTO item VALUES (7, 'seven', 7)").unwrap();
    assert!(following.next(wait).unwrap().is_some());
    owner.batch("INSERT INTO item VALUES (8, 'eight', 8); REVOKE SELECT ON n FROM ana").unwrap();
    assert_eq!(state(following.next(wait)), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn there_is_always_a_superuser_who_may_log_in() {
    let db = Database::in_memory();
    let mut session = db.session();
    let last = session.execute("ALTER ROLE halcyon NOSUPERUSER", &[]);
    assert_eq!(state(last), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    session.batch("CREATE ROLE second SUPERUSER LOGIN; ALTER ROLE halcyon NOLOGIN").unwrap();
    // The embedding program's own sessions are those of a superuser who may.
    let mut second = db.session();
    assert_eq!(crate::one(&mut second, "SELECT current_user"), "second");
    let last = second.execute("ALTER ROLE second NOSUPERUSER", &[]);
    assert_eq!(state(last), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
}

#[test]
fn a_panic_in_a_block_undoes_set_role() {
    let (_db, mut owner, _ana) = with_ana();
    owner.batch("BEGIN; SET LOCAL ROLE ana; SET LOCAL TimeZone = 'Asia/Tokyo'").unwrap();
    halcyon::testing::panic_in_next_statement();
    let answer = owner.query("SELECT 1", &[]);
    assert_eq!(state(answer), SqlState::INTERNAL_ERROR);
    assert_eq!(crate::one(&mut owner, "SELECT current_user"), "halcyon");
    assert_eq!(crate::one(&mut owner, "SHOW TimeZone"), "UTC");
    owner.batch("BEGIN; DELETE FROM item; ROLLBACK").unwrap();
}
