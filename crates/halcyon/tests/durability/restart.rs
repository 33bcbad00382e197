//! A database after a restart is the one before: rows and their ids, catalog, sequences, roles.

use std::time::Duration;

use halcyon::{Database, DatabaseOptions, SqlState, testing};

use crate::world::{Folder, fingerprint, one, run};

/// Runs `work` on a database in a folder, and sees that it is the same when opened anew: once by
/// its log, once by a checkpoint, once by both.
fn survives(name: &str, work: &[&str]) {
    let folder = Folder::new(name);
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, work);
    let before = fingerprint(&database);
    drop((session, database));

    let database = Database::open(folder.path()).expect("its log is done again");
    assert_eq!(fingerprint(&database), before, "after the log");
    database.checkpoint().expect("a checkpoint");
    drop(database);

    let database = Database::open(folder.path()).expect("the checkpoint is read");
    assert_eq!(database.opened().expect("it is on disk").commits, 0);
    assert_eq!(fingerprint(&database), before, "after the checkpoint");
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE afterwards (id INT PRIMARY KEY)"]);
    run(&mut session, &["INSERT INTO afterwards SELECT n FROM generate_series(1, 100) n"]);
    let before = fingerprint(&database);
    drop((session, database));

    let database = Database::open(folder.path()).expect("checkpoint and log");
    assert_eq!(fingerprint(&database), before, "after checkpoint and log");
    drop(database);
    let checked = Database::check(folder.path(), &|_| ()).expect("nothing is wrong with it");
    assert_eq!(checked.commits, 2);
}

#[test]
fn rows_survive() {
    survives(
        "rows",
        &[
            "CREATE TABLE item (id INT PRIMARY KEY, name TEXT, price NUMERIC(9,2), at TIMESTAMPTZ)",
            "CREATE INDEX ON item (name)",
            "INSERT INTO item VALUES (1, 'tea', 4.20, now()), (2, 'a name longer than a view', NULL, NULL)",
            "INSERT INTO item SELECT n, 'item ' || n, n / 7.0, now() FROM generate_series(3, 5000) n",
            "UPDATE item SET price = price + 1, name = 'changed' WHERE id % 7 = 0",
            "DELETE FROM item WHERE id % 11 = 0",
            "INSERT INTO item VALUES (11, 'again', 0, NULL)",
            "UPDATE item SET id = -id WHERE id < 100",
        ],
    );
}

#[test]
fn every_type_survives() {
    survives(
        "types",
        &[
            "CREATE TABLE t (a BOOLEAN, b SMALLINT, c INTEGER, d BIGINT, e REAL, f DOUBLE PRECISION,
             g DECIMAL(38,4), h CHAR(3), i VARCHAR(9), j TEXT, k BYTEA, l DATE, m TIME, n TIMESTAMP,
             o TIMESTAMPTZ, p INTERVAL, q UUID, s JSON, t JSONB,
             u TEXT[], v INTEGER[] NOT NULL DEFAULT '{}', w NUMERIC(5,2)[], x INTERVAL[], y JSONB[], z BYTEA[])",
            "INSERT INTO t VALUES (true, -1, 2147483647, -9223372036854775808, 'NaN', '-Infinity',
             -12345678901234567890.1234, 'ab', 'ü', 'text that does not fit into a view',
             '\\x00ff10', '1969-12-31', '23:59:59.999999', '2000-01-01 00:00:00.000001',
             '1900-01-01 00:00+02', '1 year -3 days 00:00:01.5',
             '00112233-4455-6677-8899-aabbccddeeff', '{\"b\" : 1.50}', '{\"b\": [1.50, null], \"a\": \"\\u00e9\"}',
             '{\"a \\\"b\\\"\",NULL,\"\",\"x,y\"}', '{1,NULL,-2147483648}', '{1.5,-0.25}', '{1 mon,30 days}',
             '{\"{\\\"a\\\": 1}\",NULL}', '{\"\\\\x00ff\",\"\"}')",
            "INSERT INTO t DEFAULT VALUES",
        ],
    );
}

#[test]
fn transactions_leave_what_they_committed() {
    survives(
        "transactions",
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
            "INSERT INTO t SELECT n, 0 FROM generate_series(1, 20) n",
            "BEGIN",
            "INSERT INTO t VALUES (100, 1)",
            "DELETE FROM t WHERE id = 3",
            "UPDATE t SET v = 1 WHERE id = 4",
            "SAVEPOINT s",
            "INSERT INTO t VALUES (101, 2)",
            "UPDATE t SET v = 2 WHERE id = 4",
            "DELETE FROM t WHERE id = 100",
            "ROLLBACK TO SAVEPOINT s",
            "UPDATE t SET v = v + 1 WHERE id IN (4, 100)",
            "COMMIT",
            "BEGIN",
            "INSERT INTO t VALUES (102, 3)",
            "CREATE TABLE gone (id INT)",
            "ROLLBACK",
            "BEGIN",
            "CREATE TABLE brief (id INT)",
            "INSERT INTO brief VALUES (1)",
            "INSERT INTO t VALUES (200, 1)",
            "DROP TABLE brief",
            "COMMIT",
            "BEGIN",
            // The slot of a row that this transaction deleted is used again.
            "DELETE FROM t WHERE id = 5",
            "INSERT INTO t VALUES (103, 4)",
            "UPDATE t SET v = 5 WHERE id = 103",
            "COMMIT",
        ],
    );
}

#[test]
fn tables_and_all_about_them_survive() {
    survives(
        "catalog",
        &[
            "CREATE SCHEMA shop",
            "CREATE TABLE shop.customer (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
             name TEXT NOT NULL DEFAULT 'nobody', CHECK (name <> ''))",
            "CREATE TABLE shop.sale (id BIGSERIAL, customer INT REFERENCES shop.customer
             ON DELETE CASCADE, amount NUMERIC(9,2) UNIQUE)",
            "INSERT INTO shop.customer (name) VALUES ('a'), ('b'), (DEFAULT)",
            "INSERT INTO shop.sale (customer, amount) VALUES (1, 1), (2, 2)",
            "CREATE VIEW shop.big AS SELECT amount FROM shop.sale WHERE amount > 1 WITH CHECK OPTION",
            "ALTER VIEW shop.big SET (security_invoker = true)",
            "ALTER VIEW shop.big ALTER COLUMN amount SET DEFAULT 2",
            "CREATE SEQUENCE counter INCREMENT BY -2 MINVALUE -100 MAXVALUE 5 START WITH 5 CYCLE",
            "SELECT nextval('counter')",
            "COMMENT ON TABLE shop.sale IS 'what was sold'",
            "CREATE ROLE clerk LOGIN PASSWORD 'secret'",
            "CREATE ROLE staff",
            "GRANT staff TO clerk",
            "GRANT SELECT, INSERT ON shop.sale TO staff",
            "ALTER TABLE shop.customer ADD COLUMN since DATE DEFAULT '2020-01-01'",
            "ALTER TABLE shop.customer ALTER COLUMN name TYPE VARCHAR(20)",
            "ALTER TABLE shop.sale RENAME COLUMN customer TO buyer",
            "CREATE TABLE dropped (id INT)",
            "INSERT INTO dropped VALUES (1)",
            "DROP TABLE dropped",
            "CREATE UNIQUE INDEX by_name ON shop.customer (name DESC, id)",
            "INSERT INTO shop.customer (name) VALUES ('c')",
            "ALTER TABLE shop.customer DROP COLUMN since",
            "DELETE FROM shop.customer WHERE id = 1",
            "CREATE TABLE waits (id INT UNIQUE DEFERRABLE, up INT REFERENCES shop.customer
             DEFERRABLE INITIALLY DEFERRED)",
            "INSERT INTO waits VALUES (1, 2), (2, NULL)",
        ],
    );
}

#[test]
fn views_over_altered_tables_survive() {
    survives(
        "altered",
        &[
            "CREATE TABLE sale (spare TEXT, g TEXT, id INT PRIMARY KEY, amount INT NOT NULL)",
            "CREATE MATERIALIZED VIEW totals AS SELECT g, sum(amount) AS total FROM sale GROUP BY g",
            "CREATE MATERIALIZED VIEW all_of_it AS SELECT s.id, amount FROM sale AS s WHERE s.g <> 'x'",
            "CREATE VIEW seen AS SELECT id, g FROM sale",
            "CREATE TABLE wide (a INT, b TEXT)",
            "CREATE MATERIALIZED VIEW starred AS SELECT * FROM wide WHERE a > 0",
            "ALTER TABLE wide ADD COLUMN c INT DEFAULT 7",
            "INSERT INTO wide VALUES (1, 'x', 2), (1, 'x', 3)",
            "INSERT INTO sale VALUES ('s', 'a', 1, 10), ('s', 'b', 2, 20), ('s', 'a', 3, 30)",
            "ALTER TABLE sale DROP COLUMN spare",
            "INSERT INTO sale VALUES ('b', 4, 40)",
            "ALTER TABLE sale RENAME COLUMN g TO region",
            "ALTER TABLE sale RENAME COLUMN amount TO g",
            "ALTER TABLE sale ALTER COLUMN g DROP NOT NULL",
            "ALTER TABLE sale ADD COLUMN amount INT DEFAULT 3",
            "INSERT INTO sale VALUES ('b', 5, NULL, 1)",
            "ALTER MATERIALIZED VIEW totals RENAME COLUMN total TO whole",
            "ALTER TABLE sale RENAME TO sold",
            "ALTER VIEW seen RENAME COLUMN g TO place",
        ],
    );
}

#[test]
fn unique_indexes_of_materialized_views_survive() {
    let folder = Folder::new("unique_views");
    let database = Database::open(folder.path()).expect("a new database");
    run(
        &mut database.session(),
        &[
            "CREATE TABLE sale (id INT PRIMARY KEY, g INT, amount INT)",
            "INSERT INTO sale VALUES (1, 1, 10), (2, 2, 20)",
            "CREATE MATERIALIZED VIEW totals AS SELECT g, sum(amount) AS total FROM sale GROUP BY g",
            "CREATE UNIQUE INDEX ON totals (total)",
        ],
    );
    drop(database);
    for checkpoint in [true, false] {
        let database = Database::open(folder.path()).expect("it is on disk");
        let mut session = database.session();
        let twice = session.batch("UPDATE sale SET amount = 20 WHERE id = 1");
        assert_eq!(twice.expect_err("the key is there").state(), SqlState::UNIQUE_VIOLATION);
        run(&mut session, &["UPDATE sale SET g = 3 - g"]);
        if checkpoint {
            database.checkpoint().expect("a checkpoint");
        }
    }
}

#[test]
fn workload_classes_and_mappings_survive() {
    survives(
        "workload",
        &[
            "CREATE ROLE shop",
            "CREATE WORKLOAD CLASS web SET 'PRIORITY' = 8, 'STATEMENT TIMEOUT' = '2s'",
            "CREATE WORKLOAD CLASS small PARENT web",
            "ALTER WORKLOAD CLASS small ADD RULE r WHEN STATEMENT ROWS > 5 THEN SWITCH TO web DRY RUN",
            "CREATE TABLE between_changes (id INT)",
            "CREATE WORKLOAD MAPPING m WORKLOAD CLASS small SET 'APPLICATION NAME' = 'a%' WITH WILDCARD",
            "GRANT USAGE ON WORKLOAD CLASS web TO shop",
            "ALTER SYSTEM SET WORKLOAD BRAKE = LIGHT",
            "CREATE WORKLOAD CLASS dropped",
            "GRANT USAGE ON WORKLOAD CLASS dropped TO shop",
            "DROP WORKLOAD CLASS dropped",
            "BEGIN",
            "ALTER WORKLOAD MAPPING m DISABLE",
            "SAVEPOINT s",
            "DROP WORKLOAD MAPPING m",
            "ROLLBACK TO s",
            "COMMIT",
        ],
    );
}

#[test]
fn partitioned_tables_bulk_loads_and_truncation_survive() {
    survives(
        "bulk",
        &[
            "CREATE TABLE p (id INT PRIMARY KEY, v TEXT) WITH (partition_by = 'id', partitions = 4)",
            "INSERT INTO p SELECT n, 'value number ' || n FROM generate_series(1, 30000) n",
            "CREATE TABLE q AS SELECT id, v FROM p WHERE id % 3 = 0",
            "TRUNCATE p",
            "INSERT INTO p SELECT n, NULL FROM generate_series(1, 10) n",
            "BEGIN",
            "TRUNCATE q",
            "INSERT INTO q SELECT n, 'new' FROM generate_series(1, 9000) n",
            "SAVEPOINT s",
            "UPDATE q SET v = 'newer'",
            "DELETE FROM q WHERE id % 2 = 0",
            "COMMIT",
            "BEGIN",
            "CREATE TABLE r (id INT)",
            "INSERT INTO r SELECT n FROM generate_series(1, 5000) n",
            "ALTER TABLE r ADD COLUMN w INT DEFAULT 7",
            "COMMIT",
        ],
    );
}

#[test]
fn sequences_never_repeat_a_value() {
    let folder = Folder::new("sequences");
    let mut last = 0;
    for round in 0..4 {
        let database = Database::open(folder.path()).expect("it opens");
        let mut session = database.session();
        if round == 0 {
            run(&mut session, &["CREATE SEQUENCE s", "CREATE TABLE t (id SERIAL, v INT)"]);
        }
        for _ in 0..round * 20 + 1 {
            let value: i64 = one(&mut session, "nextval('s')").parse().expect("a number");
            assert!(value > last, "{value} after {last}");
            last = value;
        }
        if round == 2 {
            database.checkpoint().expect("a checkpoint");
            last = last.max(one(&mut session, "nextval('s')").parse().expect("a number"));
        }
        run(&mut session, &["INSERT INTO t (v) VALUES (1), (2)"]);
    }
    let database = Database::open(folder.path()).expect("it opens");
    let mut session = database.session();
    assert_eq!(one(&mut session, "SELECT count(DISTINCT id) FROM t"), "8");
    run(&mut session, &["SELECT setval('s', 7)", "BEGIN", "ALTER SEQUENCE s RESTART WITH 3"]);
    run(&mut session, &["ROLLBACK"]);
    drop((session, database));
    let mut session = Database::open(folder.path()).expect("it opens").session();
    assert_eq!(one(&mut session, "nextval('s')"), "8");
    run(&mut session, &["ALTER SEQUENCE s RESTART WITH 3"]);
    drop(session);
    let mut session = Database::open(folder.path()).expect("it opens").session();
    assert_eq!(one(&mut session, "nextval('s')"), "3");
}

/// A sequence that was undone leaves its number in the log; no other sequence takes it over.
#[test]
fn what_an_undone_sequence_wrote_touches_no_other() {
    let folder = Folder::new("undone");
    let mut session = Database::open(folder.path()).expect("a new database").session();
    run(&mut session, &["BEGIN", "CREATE SEQUENCE a", "SELECT setval('a', 500)", "ROLLBACK"]);
    drop(session);
    let mut session = Database::open(folder.path()).expect("it opens").session();
    for name in ["b", "c", "d"] {
        run(&mut session, &[&format!("CREATE SEQUENCE {name}")]);
    }
    drop(session);
    let mut session = Database::open(folder.path()).expect("it opens").session();
    for name in ["b", "c", "d"] {
        assert_eq!(one(&mut session, &format!("nextval('{name}')")), "1");
    }
}

#[test]
fn passwords_and_rights_survive() {
    let folder = Folder::new("roles");
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(
        &mut session,
        &["CREATE TABLE t (id INT)", "CREATE ROLE reader LOGIN", "GRANT SELECT ON t TO reader"],
    );
    drop((session, database));
    let database = Database::open(folder.path()).expect("it opens");
    let mut session = database.session_as("reader").expect("the role is there");
    run(&mut session, &["SELECT * FROM t"]);
    let refused = session.execute("INSERT INTO t VALUES (1)", &[]).expect_err("it may only read");
    assert_eq!(refused.state(), SqlState::INSUFFICIENT_PRIVILEGE);
}

#[test]
fn commits_that_are_not_waited_for_are_there_after_closing() {
    let folder = Folder::new("async");
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE t (id INT)", "SET synchronous_commit = off"]);
    for _ in 0..100 {
        run(&mut session, &["INSERT INTO t VALUES (1)"]);
    }
    run(&mut session, &["SET synchronous_commit = remote_apply"]);
    assert_eq!(session.setting("synchronous_commit").expect("a setting"), "on");
    drop((session, database));
    let database = Database::open(folder.path()).expect("it opens");
    assert_eq!(one(&mut database.session(), "SELECT count(*) FROM t"), "100");
    assert!(!database.opened().expect("it is on disk").torn);
}

#[test]
fn nobody_else_opens_it_meanwhile() {
    let folder = Folder::new("lock");
    let database = Database::open(folder.path()).expect("a new database");
    let refused = Database::open(folder.path()).err().expect("it is open");
    assert_eq!(refused.state(), SqlState::OBJECT_IN_USE);
    assert!(refused.message().contains("open in another process"), "{refused}");
    drop(database);
    Database::open(folder.path()).expect("it is free again");
}

#[test]
fn the_log_is_kept_short_and_shown() {
    let folder = Folder::new("short");
    let options = DatabaseOptions { checkpoint_bytes_per_s: 0, ..DatabaseOptions::default() };
    let options = options.with("max_wal_size", "4MB").expect("a size");
    let options = options.with("checkpoint_timeout", "1h").expect("a time");
    let database = Database::open_with(folder.path(), options, &|_| ()).expect("a new database");
    let mut session = database.session();
    assert_eq!(session.setting("max_wal_size").expect("a setting"), "4MB");
    run(&mut session, &["CREATE TABLE t (id INT, v TEXT)"]);
    let checkpoint = "SELECT checkpoint_lsn FROM halcyon.log";
    let first = one(&mut session, checkpoint);
    let mut rows = 0;
    while one(&mut session, checkpoint) == first {
        run(
            &mut session,
            &["INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 5000) n"],
        );
        rows += 5000;
        assert!(rows < 10_000_000, "no checkpoint came");
    }
    assert_eq!(one(&mut session, "SELECT error IS NULL FROM halcyon.log"), "true");
    let before = fingerprint(&database);
    drop((session, database));
    let database = Database::open(folder.path()).expect("it opens");
    assert_eq!(fingerprint(&database), before);
}

#[test]
fn a_backup_is_a_database_of_its_own() {
    let (folder, copy) = (Folder::new("original"), Folder::new("backup"));
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE t (id SERIAL PRIMARY KEY, v TEXT)"]);
    run(&mut session, &["INSERT INTO t (v) VALUES ('a'), ('b')", "CHECKPOINT"]);
    run(&mut session, &["DELETE FROM t WHERE id = 1"]);
    let at_backup = fingerprint(&database);
    run(&mut session, &[&format!("BACKUP TO '{}'", copy.path().display())]);
    run(&mut session, &["INSERT INTO t (v) VALUES ('later')"]);
    let refused = session.execute(format!("BACKUP TO '{}'", copy.path().display()).as_str(), &[]);
    assert_eq!(refused.expect_err("something is there").state(), SqlState::DUPLICATE_FILE);
    let backup = Database::open(copy.path()).expect("a backup opens");
    assert_eq!(fingerprint(&backup), at_backup);
    run(&mut session, &["BEGIN"]);
    let refused = session.execute("CHECKPOINT", &[]).expect_err("a transaction runs");
    assert_eq!(refused.state(), SqlState::ACTIVE_SQL_TRANSACTION);
    let mut memory = Database::in_memory().session();
    run(&mut memory, &["CHECKPOINT"]);
    let refused = memory.execute("BACKUP TO 'somewhere'", &[]).expect_err("there is nothing");
    assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED);
}

#[cfg(feature = "latches")]
#[test]
fn tables_that_were_recovered_are_latched_if_that_is_asked_for() {
    let folder = Folder::new("latched");
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE old (id INT PRIMARY KEY, v TEXT)", "CHECKPOINT"]);
    run(&mut session, &["CREATE TABLE logged (id INT PRIMARY KEY, v TEXT)"]);
    run(&mut session, &["INSERT INTO old VALUES (1, 'a')", "INSERT INTO logged VALUES (1, 'b')"]);
    assert!(!testing::is_latched(&database));
    drop((session, database));
    let options = DatabaseOptions { latches: true, ..DatabaseOptions::default() };
    let database = Database::open_with(folder.path(), options, &|_| ()).expect("it opens");
    assert!(testing::is_latched(&database));
    let mut session = database.session();
    run(&mut session, &["CREATE INDEX ON old (v)", "ALTER TABLE old ALTER v TYPE VARCHAR(9)"]);
    run(&mut session, &["TRUNCATE logged", "INSERT INTO logged VALUES (2, 'c')"]);
    assert!(testing::is_latched(&database));
    assert_eq!(one(&mut session, "SELECT v FROM old WHERE id = 1"), "a");
}

#[test]
fn settings_of_the_whole_database_can_be_altered_and_survive() {
    let folder = Folder::new("system");
    let database = Database::open(folder.path()).expect("a new database");
    let (mut session, mut other) = (database.session(), database.session());
    let all = "SELECT string_agg(setting || unit, ' ' ORDER BY name) FROM pg_settings
               WHERE name IN ('checkpoint_timeout', 'max_wal_size', 'wal_writer_delay')";
    assert_eq!(one(&mut other, all), "300s 1024MB 200ms");
    run(
        &mut session,
        &[
            "ALTER SYSTEM SET max_wal_size = '4MB'",
            "ALTER SYSTEM SET checkpoint_timeout TO 3600",
            "alter system set wal_writer_delay = 10",
        ],
    );
    assert_eq!(one(&mut other, all), "3600s 4MB 10ms");
    assert_eq!(other.setting("max_wal_size").expect("a setting"), "4MB");
    for (text, state) in [
        ("ALTER SYSTEM SET max_wal_size = 'much'", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER SYSTEM SET lock_timeout = 1", SqlState::CANT_CHANGE_RUNTIME_PARAM),
        ("ALTER SYSTEM SET nonsense = 1", SqlState::UNDEFINED_OBJECT),
        ("SET max_wal_size = '8MB'", SqlState::CANT_CHANGE_RUNTIME_PARAM),
    ] {
        let refused = session.execute(text, &[]).expect_err(text);
        assert_eq!(refused.state(), state, "{text}: {refused}");
    }
    run(&mut session, &["CREATE ROLE clerk", "SET ROLE clerk"]);
    let refused = session.execute("ALTER SYSTEM RESET ALL", &[]).expect_err("no superuser");
    assert_eq!(refused.state(), SqlState::INSUFFICIENT_PRIVILEGE);
    run(&mut session, &["RESET ROLE", "BEGIN"]);
    let refused = session.execute("ALTER SYSTEM RESET ALL", &[]).expect_err("in a block");
    assert_eq!(refused.state(), SqlState::ACTIVE_SQL_TRANSACTION);
    let before = fingerprint(&database);
    drop((session, other, database));

    // What is given when it is opened stands above it.
    let mut options = DatabaseOptions::default();
    options.set("max_wal_size", "2GB").expect("a size");
    let database = Database::open_with(folder.path(), options, &|_| ()).expect("it opens");
    assert_eq!(fingerprint(&database), before);
    let mut session = database.session();
    assert_eq!(one(&mut session, all), "3600s 2048MB 10ms");
    run(&mut session, &["ALTER SYSTEM SET max_wal_size = '8MB'"]);
    assert!(session.take_notices()[0].message().contains("stands above ALTER SYSTEM"));
    assert_eq!(one(&mut session, all), "3600s 2048MB 10ms");
    run(&mut session, &["ALTER SYSTEM RESET wal_writer_delay", "CHECKPOINT"]);
    drop((session, database));
    let database = Database::open(folder.path()).expect("it opens");
    let mut session = database.session();
    assert_eq!(one(&mut session, all), "3600s 8MB 200ms");
    // The present size of the log is beyond this one at once, and a checkpoint makes it short.
    let checkpoint = "SELECT checkpoint_lsn FROM halcyon.log";
    let first = one(&mut session, checkpoint);
    run(&mut session, &["CREATE TABLE t (v TEXT)"]);
    run(&mut session, &["INSERT INTO t SELECT repeat('x', 100) FROM generate_series(1, 20000) n"]);
    assert_eq!(one(&mut session, checkpoint), first);
    run(&mut session, &["ALTER SYSTEM SET max_wal_size = '1MB'"]);
    while one(&mut session, checkpoint) == first {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A statement that changes one table writes that one to the log, however many others there are.
#[test]
fn a_change_of_the_catalog_is_as_long_as_what_it_changes() {
    let folder = Folder::new("many");
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, &["BEGIN"]);
    for number in 0..200 {
        let text = format!("CREATE TABLE t{number} (id INT PRIMARY KEY, v TEXT DEFAULT 'x')");
        run(&mut session, &[&text]);
    }
    run(&mut session, &["COMMIT"]);
    let bytes = "SELECT bytes FROM halcyon.log";
    let mut length_of = |work: &[&str]| {
        let before: i64 = one(&mut session, bytes).parse().expect("a number");
        run(&mut session, work);
        one(&mut session, bytes).parse::<i64>().expect("a number") - before
    };
    for work in [
        &["ALTER TABLE t7 ADD COLUMN w INT"][..],
        &["CREATE INDEX ON t8 (v)"],
        &["DROP TABLE t9"],
        &["CREATE ROLE clerk"],
        &["GRANT SELECT ON t10 TO clerk"],
        &["CREATE VIEW t9 AS SELECT id FROM t7"],
        &["ALTER TABLE t11 RENAME TO elsewhere"],
        &["CREATE SCHEMA other", "ALTER TABLE t12 SET SCHEMA other"],
        &["DROP SCHEMA other CASCADE", "DROP INDEX t8_v_idx", "DROP ROLE IF EXISTS nobody"],
        &["COMMENT ON TABLE t13 IS 'unlucky'", "ALTER SYSTEM SET wal_writer_delay = 20"],
        &["BEGIN", "CREATE TABLE brief (id SERIAL)", "DROP TABLE brief", "COMMIT"],
    ] {
        let length = length_of(work);
        assert!((1..4096).contains(&length), "{work:?}: {length}");
    }
    let before = fingerprint(&database);
    drop((session, database));
    let database = Database::open(folder.path()).expect("it opens");
    assert_eq!(fingerprint(&database), before);
}

/// A commit that does not fit into a log file in which nothing was written yet gets a longer one in its place.
#[test]
fn a_checkpoint_is_written_behind_a_first_commit_of_a_log_file_longer_than_that() {
    let folder = Folder::new("long-commit");
    let database = Database::open(folder.path()).expect("a new database");
    run(&mut database.session(), &["CREATE TABLE long (a TEXT)"]);
    // The log behind the checkpoint is empty, and so is the file that the next start begins.
    database.checkpoint().expect("a checkpoint");
    drop(database);
    for log in std::fs::read_dir(folder.path().join("log")).expect("a folder") {
        std::fs::remove_file(log.expect("an entry").path()).expect("it can be removed");
    }
    let repaired = Database::repair_accepting_loss(folder.path())
        .expect("it can be")
        .expect("the log is missing");
    assert_eq!(repaired.commits, 0);

    let database = Database::open(folder.path()).expect("it has a log");
    let mut session = database.session();
    run(
        &mut session,
        &["INSERT INTO long SELECT repeat(md5(n::text), 32768) FROM generate_series(1, 20) n"],
    );
    for _ in 0..2 {
        database.checkpoint().expect("no log file is missing");
    }
    run(&mut session, &["INSERT INTO long VALUES ('short')"]);
    drop((session, database));
    let database = Database::open(folder.path()).expect("checkpoint and log");
    assert_eq!(one(&mut database.session(), "SELECT count(*) FROM long"), "21");
}

#[test]
fn temporary_tables_are_neither_logged_nor_found_again() {
    let folder = Folder::new("temporary");
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE kept (id INT PRIMARY KEY)"]);
    let end = |session: &mut halcyon::Session| one(session, "SELECT end_lsn FROM halcyon.log");
    // A log that rests says so, once, by a mark: what follows is to be told from that.
    let written = end(&mut session);
    for _ in 0..40 {
        if end(&mut session) != written {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = end(&mut session);
    run(
        &mut session,
        &[
            "CREATE TEMP TABLE passing (id SERIAL PRIMARY KEY, v TEXT)",
            "INSERT INTO passing (v) SELECT 'text' FROM generate_series(1, 1000)",
            "CREATE INDEX ON passing (v)",
            "UPDATE passing SET v = 'changed' WHERE id % 3 = 0",
            "CREATE TEMP TABLE copied AS SELECT * FROM passing",
            "CREATE TEMP VIEW seen AS SELECT id FROM passing",
            "ALTER TABLE passing ADD COLUMN w INT DEFAULT 1",
            "TRUNCATE copied RESTART IDENTITY",
            "DROP TABLE copied",
            "BEGIN",
            "CREATE TEMP TABLE brief (a INT) ON COMMIT DROP",
            "CREATE TEMP TABLE emptied (a INT) ON COMMIT DELETE ROWS",
            "INSERT INTO emptied VALUES (1)",
            "COMMIT",
        ],
    );
    assert_eq!(end(&mut session), before, "nothing of it is in the log");
    run(&mut session, &["BEGIN", "INSERT INTO passing (v) VALUES ('a')"]);
    run(&mut session, &["INSERT INTO kept SELECT max(id) FROM passing", "COMMIT"]);
    assert_ne!(end(&mut session), before, "the permanent table's row is");
    database.checkpoint().expect("a checkpoint");
    run(&mut session, &["INSERT INTO passing (v) VALUES ('b')", "INSERT INTO kept VALUES (1)"]);
    let copy = Folder::new("temporary-copy");
    std::fs::remove_dir(copy.path()).expect("an empty folder");
    database.backup(copy.path()).expect("a copy");
    let exported = Folder::new("temporary-export");
    let name = exported.path().join("all").display().to_string();
    run(&mut session, &[&format!("EXPORT DATABASE TO '{name}'")]);
    let script = std::fs::read_to_string(exported.path().join("all/schema.sql")).expect("text");
    assert!(script.contains("kept") && !script.contains("passing") && !script.contains("pg_temp"));
    let kept = fingerprint(&database);
    assert!(!kept.contains("pg_temp"));
    drop((session, database));
    // The copy was made while the session lived: it is what a crash leaves.
    for folder in [folder.path(), copy.path()] {
        let database = Database::open(folder).expect("it opens");
        assert_eq!(fingerprint(&database), kept);
        let mut session = database.session();
        assert_eq!(one(&mut session, "SELECT sum(id) FROM kept"), "1002");
        let left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
        assert_eq!(one(&mut session, left), "0");
        let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'pg\\_temp%'";
        assert_eq!(one(&mut session, left), "0");
        run(&mut session, &["CREATE TEMP TABLE passing (a INT)", "INSERT INTO passing VALUES (1)"]);
    }
    Database::check(copy.path(), &|_| ()).expect("nothing is wrong with it");
}
