//! Roles with rights, and the statements that are tried with them.

/// The objects, made anew for every scenario by a superuser. `maker` owns schema `s` and all in it,
/// `ana` owns schema `own`.
pub const OBJECTS: &[&str] = &[
    "CREATE SCHEMA s AUTHORIZATION maker",
    "CREATE SCHEMA own AUTHORIZATION ana",
    "GRANT USAGE ON SCHEMA s TO PUBLIC",
    "SET ROLE maker",
    "CREATE TABLE s.t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)",
    "INSERT INTO s.t VALUES (1, 1, 'one'), (2, 2, 'two')",
    "CREATE TABLE s.numbered (id SERIAL PRIMARY KEY, a INTEGER)",
    "CREATE TABLE s.child (id INTEGER PRIMARY KEY, t INTEGER REFERENCES s.t)",
    "CREATE TABLE s.open (x INTEGER)",
    "INSERT INTO s.open VALUES (11)",
    "GRANT ALL ON s.open TO PUBLIC",
    "CREATE VIEW s.v AS SELECT id, a FROM s.t",
    "CREATE MATERIALIZED VIEW s.m AS SELECT a, count(*) AS n FROM s.t GROUP BY a",
    "CREATE SEQUENCE s.q",
    "SET ROLE ana",
    "CREATE TABLE own.mine (x INTEGER)",
    "INSERT INTO own.mine VALUES (1)",
    "RESET ROLE",
];

/// What a scenario leaves is dropped: roles keep nothing.
pub const CLEANUP: &[&str] = &[
    "DROP SCHEMA IF EXISTS s CASCADE",
    "DROP SCHEMA IF EXISTS own CASCADE",
    "REVOKE maker FROM ana",
    "REVOKE crew FROM ana",
    "ALTER ROLE ana NOCREATEROLE",
];

/// Roles of all scenarios.
pub const ROLES: &[&str] = &["maker", "ana", "bob", "crew"];

/// A role and how it came by its rights.
pub struct Scenario {
    pub name: &'static str,
    /// Statements of a superuser after [`OBJECTS`]. `$RELS` stands for all tables and views but
    /// `s.open`.
    pub grants: &'static [&'static str],
    /// Statements in a cell's block before its statement.
    pub becomes: &'static [&'static str],
}

/// What `$RELS` stands for.
pub const RELS: &str = "s.t, s.numbered, s.child, s.v, s.m";

const ANA: &[&str] = &["SET LOCAL ROLE ana"];

const fn of_ana(name: &'static str, grants: &'static [&'static str]) -> Scenario {
    Scenario { name, grants, becomes: ANA }
}

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "superuser", grants: &[], becomes: &[] },
    Scenario {
        name: "superuser-again",
        grants: &[],
        becomes: &["SET LOCAL ROLE bob", "RESET ROLE"],
    },
    Scenario { name: "owner", grants: &[], becomes: &["SET LOCAL ROLE maker"] },
    of_ana("member-of-owner", &["GRANT maker TO ana"]),
    of_ana("nobody", &[]),
    of_ana("createrole", &["ALTER ROLE ana CREATEROLE"]),
    of_ana("select", &["GRANT SELECT ON $RELS TO ana"]),
    of_ana("insert", &["GRANT INSERT ON $RELS TO ana"]),
    of_ana("update", &["GRANT UPDATE ON $RELS TO ana"]),
    of_ana("delete", &["GRANT DELETE ON $RELS TO ana"]),
    of_ana("truncate", &["GRANT TRUNCATE ON $RELS TO ana"]),
    of_ana("references", &["GRANT REFERENCES ON $RELS TO ana"]),
    of_ana("all", &["GRANT ALL ON $RELS TO ana"]),
    of_ana("select-insert", &["GRANT SELECT, INSERT ON $RELS TO ana"]),
    of_ana("select-update", &["GRANT SELECT, UPDATE ON $RELS TO ana"]),
    of_ana("select-delete", &["GRANT SELECT, DELETE ON $RELS TO ana"]),
    of_ana("select-references", &["GRANT SELECT, REFERENCES ON $RELS TO ana"]),
    of_ana("insert-update", &["GRANT INSERT, UPDATE ON $RELS TO ana"]),
    of_ana("select-insert-update", &["GRANT SELECT, INSERT, UPDATE ON $RELS TO ana"]),
    of_ana("public-select", &["GRANT SELECT ON $RELS TO PUBLIC"]),
    of_ana("public-all", &["GRANT ALL ON $RELS TO PUBLIC"]),
    of_ana("group-select", &["GRANT SELECT ON $RELS TO crew", "GRANT crew TO ana"]),
    of_ana("group-all", &["GRANT ALL ON $RELS TO crew", "GRANT crew TO ana"]),
    of_ana(
        "group-left",
        &["GRANT ALL ON $RELS TO crew", "GRANT crew TO ana", "REVOKE crew FROM ana"],
    ),
    of_ana("select-grantable", &["GRANT SELECT ON $RELS TO ana WITH GRANT OPTION"]),
    of_ana("all-grantable", &["GRANT ALL ON $RELS TO ana WITH GRANT OPTION"]),
    of_ana("select-revoked", &["GRANT ALL ON $RELS TO ana", "REVOKE SELECT ON $RELS FROM ana"]),
    of_ana("all-revoked", &["GRANT ALL ON $RELS TO ana", "REVOKE ALL ON $RELS FROM ana"]),
    of_ana(
        "revoked-but-public",
        &["GRANT SELECT ON $RELS TO ana, PUBLIC", "REVOKE SELECT ON $RELS FROM ana"],
    ),
    of_ana(
        "all-without-schema",
        &["GRANT ALL ON $RELS TO ana", "REVOKE USAGE ON SCHEMA s FROM PUBLIC"],
    ),
    of_ana("schema-create", &["GRANT CREATE ON SCHEMA s TO ana"]),
    of_ana("schema-all-grantable", &["GRANT ALL ON SCHEMA s TO ana WITH GRANT OPTION"]),
    of_ana("views-alone", &["GRANT ALL ON s.v, s.m TO ana"]),
    of_ana("tables-alone", &["GRANT ALL ON s.t, s.numbered, s.child TO ana"]),
    of_ana(
        "sequence-usage",
        &[
            "GRANT USAGE ON SEQUENCE s.q, s.numbered_id_seq TO ana",
            "GRANT INSERT ON s.numbered TO ana",
        ],
    ),
    of_ana(
        "sequence-select",
        &[
            "GRANT SELECT ON SEQUENCE s.q, s.numbered_id_seq TO ana",
            "GRANT INSERT ON s.numbered TO ana",
        ],
    ),
    of_ana(
        "sequence-update",
        &[
            "GRANT UPDATE ON SEQUENCE s.q, s.numbered_id_seq TO ana",
            "GRANT INSERT ON s.numbered TO ana",
        ],
    ),
    of_ana("sequence-all", &["GRANT ALL ON SEQUENCE s.q, s.numbered_id_seq TO ana"]),
    of_ana(
        "sequence-without-schema",
        &["GRANT ALL ON SEQUENCE s.q TO ana", "REVOKE USAGE ON SCHEMA s FROM PUBLIC"],
    ),
    of_ana(
        "view-without-schema",
        &["GRANT ALL ON s.v, s.m TO ana", "REVOKE USAGE ON SCHEMA s FROM PUBLIC"],
    ),
    of_ana("sequence-grantable", &["GRANT ALL ON SEQUENCE s.q TO ana WITH GRANT OPTION"]),
];

/// Statements, one cell per scenario each; with `;` between parts, of which the first that fails
/// counts.
#[rustfmt::skip]
pub const STATEMENTS: &[&str] = &[
    // Reading.
    "SELECT a FROM s.t", "SELECT count(*) FROM s.t", "SELECT 1 FROM s.t", "SELECT t FROM s.t", "TABLE s.t",
    "SELECT a FROM s.t WHERE id = 1", "SELECT x FROM s.open WHERE x IN (SELECT a FROM s.t)",
    "SELECT x FROM s.open WHERE EXISTS (SELECT 1 FROM s.t)", "SELECT (SELECT max(a) FROM s.t)",
    "SELECT x FROM s.open JOIN s.t ON x = a", "WITH w AS (SELECT a FROM s.t) SELECT * FROM w",
    "SELECT x FROM s.open UNION SELECT a FROM s.t", "SELECT a FROM s.t WHERE false", "SELECT a FROM s.t LIMIT 0",
    "SELECT a FROM s.v", "SELECT n FROM s.m", "SELECT count(*) FROM s.v", "SELECT v.a FROM s.v JOIN s.t USING (id)",
    "SELECT last_value FROM s.q",
    "SELECT a FROM s.t FOR UPDATE", "SELECT a FROM s.t FOR SHARE", "SELECT a FROM s.t FOR NO KEY UPDATE",
    "SELECT a FROM s.t FOR KEY SHARE", "SELECT a FROM s.t, s.open FOR UPDATE OF open", "SELECT a FROM s.v FOR UPDATE",
    "EXPLAIN SELECT a FROM s.t", "DECLARE c CURSOR FOR SELECT a FROM s.t; FETCH c",
    "PREPARE p AS SELECT a FROM s.t; EXECUTE p; DEALLOCATE p", "COPY s.t TO STDOUT", "COPY s.t (id) TO STDOUT",
    "COPY (SELECT a FROM s.t) TO STDOUT",
    // Inserting.
    "INSERT INTO s.t VALUES (3, 3, 'three')", "INSERT INTO s.t (id) VALUES (3)", "INSERT INTO s.t VALUES (3) RETURNING id",
    "INSERT INTO s.t VALUES (3) RETURNING 1", "INSERT INTO s.t SELECT x, x FROM s.open",
    "INSERT INTO s.t SELECT id + 10, a FROM s.t", "INSERT INTO own.mine SELECT a FROM s.t",
    "INSERT INTO s.t VALUES (1) ON CONFLICT DO NOTHING", "INSERT INTO s.t VALUES (1) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO s.t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 7",
    "INSERT INTO s.t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = excluded.a",
    "INSERT INTO s.t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = t.a + 1",
    "INSERT INTO s.t VALUES (9) ON CONFLICT (id) DO UPDATE SET a = 7 WHERE t.a > 1",
    "INSERT INTO s.numbered (a) VALUES (1)", "INSERT INTO s.numbered DEFAULT VALUES", "INSERT INTO s.numbered VALUES (7, 7)",
    "INSERT INTO s.child VALUES (1, 1)", "INSERT INTO s.child VALUES (1, 99)", "INSERT INTO s.m VALUES (1, 1)",
    "EXPLAIN INSERT INTO s.t VALUES (3)", "PREPARE p AS INSERT INTO s.t VALUES (3); EXECUTE p; DEALLOCATE p",
    "WITH w AS (INSERT INTO s.t VALUES (3) RETURNING id) SELECT * FROM w", "COPY s.t FROM STDIN",
    // Updating.
    "UPDATE s.t SET a = 1", "UPDATE s.t SET a = 1 WHERE id = 1", "UPDATE s.t SET a = 1 WHERE true", "UPDATE s.t SET a = a + 1",
    "UPDATE s.t SET a = 1 RETURNING id", "UPDATE s.t SET a = 1 RETURNING 1", "UPDATE s.t SET a = (SELECT max(x) FROM s.open)",
    "UPDATE s.t SET a = x FROM s.open", "UPDATE s.t SET a = x FROM s.open WHERE id = x",
    "UPDATE own.mine SET x = (SELECT max(a) FROM s.t)", "UPDATE own.mine SET x = a FROM s.t WHERE id = x", "UPDATE s.t SET b = DEFAULT",
    "UPDATE s.t SET a = 1 WHERE id IN (SELECT x FROM s.open)", "UPDATE s.m SET n = 1",
    "EXPLAIN UPDATE s.t SET a = 1", "PREPARE p AS UPDATE s.t SET a = 1; EXECUTE p; DEALLOCATE p",
    // Deleting.
    "DELETE FROM s.child", "DELETE FROM s.child WHERE id = 1", "DELETE FROM s.child WHERE false", "DELETE FROM s.child RETURNING id",
    "DELETE FROM s.child RETURNING 1", "DELETE FROM s.child USING s.open WHERE id = x", "DELETE FROM s.t WHERE id IN (SELECT x FROM s.open)",
    "DELETE FROM s.t WHERE id = 2", "DELETE FROM own.mine USING s.t WHERE id = x", "DELETE FROM own.mine WHERE x IN (SELECT a FROM s.t)",
    "DELETE FROM s.m", "EXPLAIN DELETE FROM s.child", "TRUNCATE s.child", "TRUNCATE s.numbered RESTART IDENTITY", "TRUNCATE s.t CASCADE",
    "TRUNCATE s.m",
    // Locking.
    "LOCK TABLE s.t IN ACCESS SHARE MODE", "LOCK TABLE s.t IN ROW SHARE MODE", "LOCK TABLE s.t IN ROW EXCLUSIVE MODE",
    "LOCK TABLE s.t IN SHARE UPDATE EXCLUSIVE MODE", "LOCK TABLE s.t IN SHARE MODE", "LOCK TABLE s.t IN SHARE ROW EXCLUSIVE MODE",
    "LOCK TABLE s.t IN EXCLUSIVE MODE", "LOCK TABLE s.t", "LOCK TABLE s.open, s.t IN ACCESS SHARE MODE",
    // Sequences.
    "SELECT nextval('s.q')", "SELECT currval('s.q')", "SELECT lastval()", "SELECT setval('s.q', 5)", "SELECT setval('s.q', 5, false)",
    "SELECT nextval('s.numbered_id_seq')", "ALTER SEQUENCE s.q RESTART", "ALTER SEQUENCE s.q RENAME TO p", "DROP SEQUENCE s.q",
    // Definitions.
    "CREATE TABLE s.new (x INTEGER)", "CREATE TABLE own.new (x INTEGER)", "CREATE TABLE s.new AS SELECT 1 AS x",
    "CREATE TABLE own.new AS SELECT a FROM s.t", "CREATE SEQUENCE s.new", "CREATE VIEW s.new AS SELECT 1 AS x",
    "CREATE VIEW own.w AS SELECT a FROM s.t", "CREATE VIEW own.w AS SELECT a FROM s.t; SELECT * FROM own.w",
    "CREATE MATERIALIZED VIEW own.w AS SELECT sum(x) AS x FROM s.open", "CREATE OR REPLACE VIEW s.v AS SELECT id, a FROM s.t",
    "CREATE MATERIALIZED VIEW own.w AS SELECT sum(a) AS a FROM s.t", "CREATE MATERIALIZED VIEW own.w AS SELECT sum(a) AS a FROM s.v",
    "CREATE TABLE own.f (x INTEGER REFERENCES s.t)", "ALTER TABLE own.mine ADD FOREIGN KEY (x) REFERENCES s.t",
    "CREATE TABLE s.new (LIKE s.t)", "CREATE TABLE own.new (LIKE s.t)", "CREATE INDEX ON s.t (a)", "CREATE INDEX ON own.mine (x)", "DROP INDEX s.t_pkey",
    "DROP TABLE s.child", "DROP TABLE s.t CASCADE", "DROP TABLE own.mine", "DROP VIEW s.v", "DROP MATERIALIZED VIEW s.m", "DROP SCHEMA s CASCADE",
    "ALTER TABLE s.t ADD COLUMN c INTEGER", "ALTER TABLE s.t DROP COLUMN b CASCADE", "ALTER TABLE s.t RENAME TO u", "ALTER TABLE s.t RENAME COLUMN b TO c",
    "ALTER TABLE s.t OWNER TO maker", "ALTER TABLE own.mine OWNER TO ana", "ALTER TABLE own.mine OWNER TO bob", "ALTER TABLE own.mine RENAME TO yours",
    "ALTER TABLE s.t ALTER COLUMN a SET DEFAULT 1", "ALTER TABLE s.t ADD CHECK (a < 100)",
    "ALTER VIEW s.v RENAME TO w", "CREATE SCHEMA fresh", "ALTER SCHEMA s RENAME TO z", "COMMENT ON TABLE s.t IS 'x'", "COMMENT ON COLUMN s.t.a IS 'x'",
    "COMMENT ON VIEW s.v IS 'x'", "COMMENT ON SEQUENCE s.q IS 'x'", "COMMENT ON SCHEMA s IS 'x'",
    // Rights.
    "GRANT SELECT ON s.t TO bob", "GRANT INSERT ON s.t TO bob", "GRANT ALL ON s.t TO bob", "GRANT SELECT ON s.t TO bob WITH GRANT OPTION",
    "GRANT SELECT ON s.v TO bob", "GRANT SELECT ON s.m TO bob", "GRANT USAGE ON SEQUENCE s.q TO bob", "GRANT USAGE ON SCHEMA s TO bob",
    "GRANT CREATE ON SCHEMA s TO bob", "GRANT SELECT ON own.mine TO bob", "REVOKE SELECT ON s.t FROM bob", "REVOKE ALL ON s.t FROM bob",
    "REVOKE USAGE ON SCHEMA s FROM bob", "GRANT maker TO bob", "GRANT crew TO bob", "GRANT ana TO bob", "REVOKE crew FROM bob",
    "CREATE ROLE fresh", "DROP ROLE bob", "ALTER ROLE bob PASSWORD 'x'", "ALTER ROLE ana PASSWORD 'x'", "ALTER ROLE bob SUPERUSER",
    "ALTER ROLE bob CREATEROLE", "ALTER ROLE bob RENAME TO bert",
];
