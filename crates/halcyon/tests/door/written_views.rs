//! Writes through views: what errors say, and what stays of a view. `tests/sql/view_writes.slt` and `view_rights.slt`
//! have the statements.

use halcyon::{Database, Session, SqlState};

use crate::{one, rows, state};

const BASE: &str = "
    CREATE TABLE base (id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
    CREATE VIEW v AS SELECT id, a AS x, a + 1 AS next FROM base WHERE a > 0;
    CREATE VIEW c AS SELECT id, x FROM v WHERE x < 100 WITH CHECK OPTION;
    CREATE VIEW g AS SELECT a FROM base GROUP BY a;
    CREATE VIEW p AS SELECT a + 1 AS p FROM base;
    INSERT INTO base VALUES (1, 1, 'x')";

fn opened() -> (Database, Session) {
    let database = Database::in_memory();
    let mut session = database.session();
    session.batch(BASE).expect("tables and views");
    (database, session)
}

/// State, message, detail and hint of the error that a statement ends with.
fn told(session: &mut Session, text: &str) -> [String; 4] {
    let error = session.batch(text).expect_err(text);
    let fields = error.fields();
    let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
    let (detail, hint) = (or_empty(&fields.detail), or_empty(&fields.hint));
    [error.state().to_string(), error.message().to_owned(), detail, hint]
}

#[test]
fn errors_about_views_say_what_postgresql_says() {
    let (_database, mut session) = opened();
    let read_only = "View columns that are not columns of their base relation are not updatable.";
    let grouped = "Views containing GROUP BY are not automatically updatable.";
    let none = "Views that have no updatable columns are not automatically updatable.";
    let hint = |doing: &str, word: &str| {
        format!(
            "To enable {doing} the view, provide an INSTEAD OF {word} trigger or an unconditional \
             ON {word} DO INSTEAD rule."
        )
    };
    let inserting = hint("inserting into", "INSERT");
    let updating = hint("updating", "UPDATE");
    let deleting = hint("deleting from", "DELETE");
    let copying = "To enable copying to a view, provide an INSTEAD OF INSERT trigger.";
    let only = "WITH CHECK OPTION is supported only on automatically updatable views";
    let row = "Failing row contains (2, -1, null).";
    for (text, expected) in [
        (
            "INSERT INTO v (next) VALUES (1)",
            ["0A000", "cannot insert into column \"next\" of view \"v\"", read_only, ""],
        ),
        (
            "UPDATE v SET next = 1",
            ["0A000", "cannot update column \"next\" of view \"v\"", read_only, ""],
        ),
        (
            "INSERT INTO g VALUES (1)",
            ["55000", "cannot insert into view \"g\"", grouped, &inserting],
        ),
        ("UPDATE g SET a = 1", ["55000", "cannot update view \"g\"", grouped, &updating]),
        ("DELETE FROM g", ["55000", "cannot delete from view \"g\"", grouped, &deleting]),
        ("UPDATE p SET p = 1", ["55000", "cannot update view \"p\"", none, &updating]),
        (
            "INSERT INTO c VALUES (2, -1)",
            ["44000", "new row violates check option for view \"v\"", row, ""],
        ),
        (
            "UPDATE c SET x = 100",
            [
                "44000",
                "new row violates check option for view \"c\"",
                "Failing row contains (1, 100, x).",
                "",
            ],
        ),
        ("TRUNCATE v", ["42809", "\"v\" is not a table", "", ""]),
        ("COPY v FROM STDIN", ["42809", "cannot copy to view \"v\"", "", copying]),
        ("CREATE VIEW x AS SELECT 1 AS a WITH CHECK OPTION", ["0A000", only, "", ""]),
        (
            "CREATE VIEW x AS SELECT a FROM base GROUP BY a WITH CHECK OPTION",
            ["0A000", only, "", grouped],
        ),
        (
            "CREATE VIEW x WITH (check_option = x) AS SELECT a FROM base",
            [
                "22023",
                "invalid value for enum option \"check_option\": x",
                "Valid values are \"local\" and \"cascaded\".",
                "",
            ],
        ),
    ] {
        let found = told(&mut session, text);
        // The reason why a query without FROM is none.
        if text.contains("SELECT 1 AS a") {
            assert!(found[3].starts_with("Views that do not select from a single table"));
            assert_eq!(found[..3], expected[..3], "{text}");
            continue;
        }
        assert_eq!(found, expected, "{text}");
    }
    assert_eq!(rows(&mut session, "SELECT * FROM base"), ["1|1|x"]);
}

#[test]
fn a_write_through_a_view_finds_its_rows_by_the_tables_key() {
    let (_database, mut session) = opened();
    for text in ["UPDATE c SET x = 5 WHERE id = 1", "DELETE FROM c WHERE id = 1"] {
        let plan = rows(&mut session, &format!("EXPLAIN {text}")).join("\n");
        assert!(plan.contains("Lookup in base by base_pkey: id = 1"), "{plan}");
    }
}

#[test]
fn a_detail_shows_the_row_to_those_who_may_read_the_table() {
    let (database, mut session) = opened();
    session.batch("CREATE ROLE ana LOGIN; GRANT INSERT ON c TO ana").expect("a role");
    let mut ana = database.session_as("ana").expect("she may log in");
    assert_eq!(told(&mut ana, "INSERT INTO c VALUES (2, -1)")[2], "");
    session.batch("GRANT SELECT ON base TO ana").expect("a right");
    assert_ne!(told(&mut ana, "INSERT INTO c VALUES (2, -1)")[2], "");
}

#[test]
fn a_prepared_write_follows_the_options_of_its_view() {
    let (_database, mut session) = opened();
    let insert = session.prepare("INSERT INTO c VALUES ($1, $2)").expect("a plan");
    let refused =
        |session: &mut Session, id: i32| state(session.execute(&insert, halcyon::params![id, -1]));
    assert_eq!(refused(&mut session, 2), SqlState::WITH_CHECK_OPTION_VIOLATION);
    session.batch("ALTER VIEW c RESET (check_option)").expect("an option less");
    session.execute(&insert, halcyon::params![2, -1]).expect("nothing is asked of the row");
    session.batch("ALTER VIEW v SET (check_option = local)").expect("an option more");
    assert_eq!(refused(&mut session, 3), SqlState::WITH_CHECK_OPTION_VIOLATION);
    assert_eq!(one(&mut session, "SELECT count(*) FROM base"), "2");
}
