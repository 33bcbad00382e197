//! Transactions: atomicity, savepoints, modes, DDL.

use halcyon::{Access, Isolation, SessionState, SqlError, SqlState, params};

use crate::{items, one, rows, state};

const TOTAL: &str = "SELECT sum(stock)::bigint FROM item";

#[test]
fn a_failed_statement_leaves_no_trace_and_fails_the_block() {
    let db = items(3);
    let mut session = db.session();
    session.batch("BEGIN; UPDATE item SET stock = 1 WHERE id = 0").unwrap();
    let duplicate = "INSERT INTO item SELECT id + 1, name, 99 FROM item WHERE id < 2";
    assert_eq!(state(session.batch(duplicate)), SqlState::UNIQUE_VIOLATION);
    assert_eq!(session.state(), SessionState::Failed);
    assert_eq!(state(session.batch("SELECT 1")), SqlState::IN_FAILED_SQL_TRANSACTION);
    session.batch("ROLLBACK").unwrap();
    assert_eq!(session.state(), SessionState::Idle);
    assert_eq!(one(&mut session, TOTAL), "30");
}

#[test]
fn commit_of_a_failed_block_rolls_back() {
    let db = items(1);
    let mut session = db.session();
    session.batch("BEGIN; UPDATE item SET stock = 1").unwrap();
    assert_eq!(state(session.batch("SELECT 1/0 FROM item")), SqlState::DIVISION_BY_ZERO);
    session.batch("COMMIT").unwrap();
    assert_eq!(one(&mut session, TOTAL), "10");
}

#[test]
fn a_failed_statement_outside_a_block_is_undone_whole() {
    let db = items(3);
    let mut session = db.session();
    let overflow = "UPDATE item SET stock = stock + 9223372036854775800 - id * 5";
    assert_eq!(state(session.batch(overflow)), SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    assert_eq!(one(&mut session, TOTAL), "30");
    assert_eq!(session.state(), SessionState::Idle);
}

#[test]
fn savepoints_nest_and_heal_a_failed_block() {
    let db = items(2);
    let mut session = db.session();
    session.batch("BEGIN; UPDATE item SET stock = 1 WHERE id = 0; SAVEPOINT a").unwrap();
    session.batch("UPDATE item SET stock = 2 WHERE id = 0; SAVEPOINT b").unwrap();
    session.batch("DELETE FROM item WHERE id = 1").unwrap();
    assert_eq!(state(session.batch("SELECT nothing")), SqlState::UNDEFINED_COLUMN);
    session.batch("ROLLBACK TO b").unwrap();
    assert_eq!(rows(&mut session, "SELECT stock FROM item ORDER BY id"), ["2", "10"]);
    session.batch("ROLLBACK TO a").unwrap();
    assert_eq!(rows(&mut session, "SELECT stock FROM item ORDER BY id"), ["1", "10"]);
    let gone = session.batch("ROLLBACK TO b");
    assert_eq!(state(gone), SqlState::INVALID_SAVEPOINT_SPECIFICATION);
    session.batch("ROLLBACK TO a; RELEASE a; COMMIT").unwrap();
    assert_eq!(one(&mut session, TOTAL), "11");
    assert_eq!(state(session.batch("SAVEPOINT a")), SqlState::NO_ACTIVE_SQL_TRANSACTION);
}

#[test]
fn catalog_changes_are_seen_when_they_commit_and_undone_when_not() {
    let db = items(2);
    let (mut one_session, mut other) = (db.session(), db.session());
    one_session
        .batch("BEGIN; CREATE TABLE extra (x INTEGER); INSERT INTO extra VALUES (1)")
        .unwrap();
    assert_eq!(state(other.batch("SELECT * FROM extra")), SqlState::UNDEFINED_TABLE);
    assert_eq!(one(&mut one_session, "SELECT x FROM extra"), "1");
    one_session.batch("SAVEPOINT s; DROP TABLE item").unwrap();
    assert_eq!(state(one_session.batch("SELECT * FROM item")), SqlState::UNDEFINED_TABLE);
    one_session.batch("ROLLBACK TO s").unwrap();
    assert_eq!(one(&mut one_session, TOTAL), "20");
    one_session.batch("COMMIT").unwrap();
    assert_eq!(one(&mut other, "SELECT x FROM extra"), "1");
    other.batch("BEGIN; DROP TABLE extra; CREATE INDEX by_name ON item (name); ROLLBACK").unwrap();
    assert_eq!(one(&mut one_session, "SELECT x FROM extra"), "1");
    other.batch("CREATE INDEX by_name ON item (name)").unwrap();
}

#[test]
fn a_read_only_transaction_reads_one_cut_and_writes_nothing() {
    let db = items(2);
    let (mut reader, mut writer) = (db.session(), db.session());
    reader.begin(Isolation::Serializable, Access::ReadOnly).unwrap();
    assert_eq!(one(&mut reader, TOTAL), "20");
    writer.batch("UPDATE item SET stock = 0; CREATE TABLE later (x INTEGER)").unwrap();
    assert_eq!(one(&mut reader, TOTAL), "20");
    assert_eq!(one(&mut reader, "SELECT stock FROM item WHERE id = 1"), "10");
    assert_eq!(state(reader.batch("SELECT * FROM later")), SqlState::UNDEFINED_TABLE);
    reader.batch("ROLLBACK; BEGIN READ ONLY").unwrap();
    assert_eq!(one(&mut reader, TOTAL), "0");
    let write = reader.batch("DELETE FROM item");
    assert_eq!(state(write), SqlState::READ_ONLY_SQL_TRANSACTION);
    reader.batch("ROLLBACK").unwrap();
}

#[test]
fn modes_are_set_before_the_first_statement_only() {
    let db = items(1);
    let mut session = db.session();
    session.batch("BEGIN; SET TRANSACTION ISOLATION LEVEL READ COMMITTED").unwrap();
    assert_eq!(one(&mut session, "SHOW transaction_isolation"), "read committed");
    session.batch("SELECT * FROM item").unwrap();
    let late = session.batch("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(state(late), SqlState::ACTIVE_SQL_TRANSACTION);
    session.batch("ROLLBACK").unwrap();
    session.batch("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").unwrap();
    let write = session.batch("DELETE FROM item");
    assert_eq!(state(write), SqlState::READ_ONLY_SQL_TRANSACTION);
}

#[test]
fn a_transaction_program_commits_once_or_not_at_all() {
    let db = items(2);
    let mut session = db.session();
    let moved = session.transaction(|tx| {
        tx.execute("UPDATE item SET stock = stock - 3 WHERE id = 0", &[])?;
        tx.execute("UPDATE item SET stock = stock + 3 WHERE id = 1", &[])?;
        Ok(3)
    });
    assert_eq!(moved.unwrap(), 3);
    let failed: Result<(), SqlError> = session.transaction(|tx| {
        tx.execute("DELETE FROM item", &[])?;
        Err(SqlError::new(SqlState::DATA_EXCEPTION, "changed my mind"))
    });
    assert_eq!(state(failed), SqlState::DATA_EXCEPTION);
    assert_eq!(rows(&mut session, "SELECT stock FROM item ORDER BY id"), ["7", "13"]);
}

#[test]
fn and_chain_begins_again_with_the_same_modes() {
    let db = items(1);
    let mut session = db.session();
    session
        .batch("BEGIN ISOLATION LEVEL READ COMMITTED; DELETE FROM item; ROLLBACK AND CHAIN")
        .unwrap();
    assert_eq!(session.state(), SessionState::InTransaction);
    assert_eq!(one(&mut session, "SHOW transaction_isolation"), "read committed");
    session.batch("COMMIT").unwrap();
    assert_eq!(session.execute("SELECT * FROM item WHERE id = $1", params![0]).unwrap(), 1);
}

#[test]
fn a_dropped_session_is_rolled_back() {
    let db = items(1);
    let mut session = db.session();
    session.batch("BEGIN; DELETE FROM item").unwrap();
    drop(session);
    assert_eq!(one(&mut db.session(), TOTAL), "10");
}
