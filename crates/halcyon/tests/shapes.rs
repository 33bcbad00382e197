//! Texts that differ in literals alone, answered by the plan of their shape and each by its own.
//!
//! Strategy: two databases with the same rows, one with a cache of statements and one without, so that
//! every text there is planned by itself. Templates of statements are filled with random literals, at
//! home in their place and not (too large, of another type, malformed, NULL), and both databases must
//! give the same columns, rows, tags and errors; then both tables are compared.

use halcyon::{Database, DatabaseOptions, Outcome, Session, SqlState, Statement, testing};
use halcyon_base::rng::Rng;

const SCHEMA: &str = "
    CREATE TABLE item (id INTEGER PRIMARY KEY, code VARCHAR(8) UNIQUE, tag CHAR(4), small SMALLINT,
        big BIGINT, price NUMERIC(8, 2), weight DOUBLE PRECISION, height REAL, day DATE,
        seen TIMESTAMP, told TIMESTAMPTZ, live BOOLEAN, note TEXT);
    CREATE INDEX item_small ON item (small);
    CREATE INDEX item_big ON item (big, id);
    CREATE INDEX item_day ON item (day);
    CREATE TABLE part (item INTEGER, n SMALLINT, price NUMERIC(8, 2), PRIMARY KEY (item, n))";

/// Statements; `{}` stands for a literal.
const TEMPLATES: &[&str] = &[
    "SELECT * FROM item WHERE id = {}",
    "SELECT id FROM item WHERE id = {} AND big > {}",
    "SELECT id, price + {} AS p, small + {}, big * {} FROM item WHERE id = {}",
    "SELECT id FROM item WHERE code = {}",
    "SELECT id, tag FROM item WHERE id = {} AND tag = {}",
    "SELECT id FROM item WHERE small = {} ORDER BY 1",
    "SELECT id FROM item WHERE small + {} > {} AND small = {} ORDER BY id",
    "SELECT id FROM item WHERE id IN ({}, {}, {}) ORDER BY id",
    "SELECT id FROM item WHERE id BETWEEN {} AND {} ORDER BY id",
    "SELECT id FROM item WHERE id >= {} AND id < {} ORDER BY id",
    "SELECT count(*), sum(price) FROM item WHERE id = {}",
    "SELECT small, count(*) FROM item WHERE id = {} GROUP BY small",
    "SELECT small + {}, count(*) FROM item WHERE id = {} GROUP BY small + {}",
    "SELECT DISTINCT live, {} FROM item WHERE id = {}",
    "SELECT {}, 'a' || note, {} FROM item WHERE id = {}",
    "SELECT CASE WHEN small > {} THEN {} ELSE {} END FROM item WHERE id = {}",
    "SELECT CASE live WHEN {} THEN 1 END FROM item WHERE id = {}",
    "SELECT id FROM item WHERE id = {} AND price > {} AND weight < {}",
    "SELECT id FROM item WHERE id = {} AND height = {}",
    "SELECT id FROM item WHERE day = {} ORDER BY id LIMIT 3",
    "SELECT id FROM item WHERE id = {} AND seen > {} AND told < {}",
    "SELECT i.id, p.n FROM item i JOIN part p ON p.item = i.id WHERE i.id = {} AND p.n = {}",
    "SELECT id FROM item i WHERE i.id = {} AND EXISTS (SELECT 1 FROM part p WHERE p.item = i.id AND p.n > {})",
    "SELECT id FROM item WHERE id = (SELECT max(item) FROM part WHERE item = {} AND n = {})",
    "SELECT id FROM item WHERE id = {} AND note LIKE {} AND length(note) > {}",
    "SELECT id FROM item WHERE id = {} AND (note, code) = ({}, {})",
    "SELECT max(id) FROM item WHERE big = {} AND id < {}",
    "SELECT id FROM item WHERE big = {} ORDER BY id DESC LIMIT {}",
    "SELECT -{}, {} - {}, {}::int FROM item WHERE id = {}",
    "SELECT id FROM item WHERE {} = id AND {} < price",
    "SELECT id FROM item WHERE id IS NOT DISTINCT FROM {}",
    "SELECT id FROM item WHERE id = {} AND day > DATE '2020-01-01' + {}",
    "SELECT note FROM item WHERE id = {} UNION ALL SELECT {}",
    "INSERT INTO item (id, code, small, price, day, note) VALUES ({}, {}, {}, {}, {}, {})",
    "INSERT INTO item (id, big, weight, height, live, told) VALUES ({}, {}, {}, {}, {}, {}), ({}, 1, 2, 3, true, now())",
    "INSERT INTO item (id, tag, seen) VALUES ({}, {}, {}) ON CONFLICT (id) DO UPDATE SET tag = {}",
    "INSERT INTO part (item, n, price) SELECT id, {}, {} FROM item WHERE id = {}",
    "UPDATE item SET small = {}, price = {} WHERE id = {}",
    "UPDATE item SET price = price + {}, big = big - {}, note = {} WHERE id = {} RETURNING price, big, note",
    "UPDATE item SET day = {}, seen = {}, told = {} WHERE id = {} RETURNING day, seen, told",
    "UPDATE item SET note = note || {} WHERE code = {}",
    "UPDATE part SET price = {} WHERE item = {} AND n = {}",
    "DELETE FROM item WHERE id = {}",
    "DELETE FROM part WHERE item = {} AND n BETWEEN {} AND {}",
];

/// A literal: mostly a small integer, since most places are keys.
fn literal(rng: &mut Rng) -> String {
    match rng.below(24) {
        0 => format!("-{}", rng.below(9)),
        1 => ["32767", "32768", "-32769", "70000"][rng.below(4) as usize].into(),
        2 => ["2147483647", "2147483648", "-2147483648", "9223372036854775807"]
            [rng.below(4) as usize]
            .into(),
        3 => "99999999999999999999".into(),
        4 | 5 => format!("{}.{}", rng.below(12), rng.below(100)),
        6 => ["0.125", ".5", "-1.50", "1e2", "123456789.5"][rng.below(5) as usize].into(),
        7 | 8 => format!("'c{}'", rng.below(12)),
        9 => ["'it''s'", "''", "'a very long text'", "' 7'", "'x%'", "'ab  '", "'Ünï'"]
            [rng.below(7) as usize]
            .into(),
        10 | 11 => format!("'2020-01-{:02}'", 1 + rng.below(9)),
        12 => ["'2020-01-03 10:00'", "'2020-13-01'", "'yes'", "'t'", "'12'", "'1.5'", "'1e1'"]
            [rng.below(7) as usize]
            .into(),
        13 => ["NULL", "true", "DEFAULT", "(1)", "id"][rng.below(5) as usize].into(),
        _ => rng.below(12).to_string(),
    }
}

fn filled(template: &str, rng: &mut Rng) -> String {
    let mut parts = template.split("{}");
    let mut text = parts.next().expect("a first part").to_owned();
    for part in parts {
        text.push_str(&literal(rng));
        text.push_str(part);
    }
    text
}

/// What a text comes to, as far as a client can see.
fn told(session: &mut Session, text: &str) -> String {
    let ran = session.prepare_passing(text, &[]).and_then(|statement| {
        assert!(statement.params().is_empty(), "{text} has no parameters of its own");
        session.run(&statement, &[])
    });
    match ran {
        Ok(Outcome::Rows { rows, tag, .. }) => {
            let columns: Vec<_> = rows
                .columns()
                .iter()
                .map(|column| format!("{} {:?}", column.name, column.ty))
                .collect();
            match rows.collect() {
                Ok(rows) => format!("{tag} {columns:?} {rows:?}"),
                Err(error) => format!("{} {}", error.state().as_str(), error.message()),
            }
        }
        Ok(Outcome::Done(tag)) => tag.to_string(),
        Ok(_) => panic!("{text} is no COPY"),
        Err(error) => {
            assert_ne!(error.state(), SqlState::INTERNAL_ERROR, "{text}: {error}");
            let fields = error.fields();
            format!("{} {} {:?}", error.state().as_str(), error.message(), fields.position)
        }
    }
}

fn database(cached_statements: usize) -> Database {
    let options = DatabaseOptions { cached_statements, ..DatabaseOptions::default() };
    let database = Database::with_options(options);
    let mut session = database.session();
    session.batch(SCHEMA).expect("a schema");
    for id in 0..12 {
        session
            .batch(&format!(
                "INSERT INTO item VALUES ({id}, 'c{id}', 't{id}', {}, {}, {id}.25, {id}.5, {id}.5,
                     '2020-01-0{}', '2020-01-03 10:00', '2020-01-03 10:00+01', {}, 'note {id}');
                 INSERT INTO part VALUES ({id}, 1, 1.5), ({id}, 2, 2.5)",
                id % 3,
                id % 4,
                1 + id % 9,
                id % 2 == 0,
            ))
            .expect("a row");
    }
    database
}

#[test]
fn texts_of_one_shape_answer_as_each_alone() {
    let rounds = std::env::var("HALCYON_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let (cached, alone) = (database(4096), database(0));
    let (mut cached_session, mut alone_session) = (cached.session(), alone.session());
    for session in [&mut cached_session, &mut alone_session] {
        session.batch("SET TimeZone = 'Asia/Tokyo'").expect("a time zone");
    }
    let mut rng = Rng::new(7);
    let planned = cached.statements_planned();
    let mut ran = 0;
    for round in 0..rounds {
        for template in TEMPLATES {
            let text = filled(template, &mut rng);
            assert_eq!(told(&mut cached_session, &text), told(&mut alone_session, &text), "{text}");
            ran += 1;
        }
        if round % 5 == 4 {
            for table in ["item", "part"] {
                let all = format!("SELECT * FROM {table} ORDER BY 1, 2");
                assert_eq!(told(&mut cached_session, &all), told(&mut alone_session, &all));
            }
        }
    }
    let planned = cached.statements_planned() - planned;
    assert!(planned * 10 < ran * 9, "shapes serve: {planned} of {ran} texts were planned");
}

#[test]
fn a_shape_is_planned_with_its_second_text_and_never_again() {
    let database = database(4096);
    let mut session = database.session();
    for (template, own) in [
        ("SELECT note FROM item WHERE id = {}", 2),
        ("SELECT id FROM item WHERE small = {} AND big = {} ORDER BY id LIMIT 2", 2),
        ("UPDATE item SET price = price + {}, note = 'x' WHERE id = {}", 2),
        ("INSERT INTO part (item, n, price) VALUES ({}, {}, 1.25)", 2),
        ("DELETE FROM part WHERE item = {} AND n = {}", 2),
        (
            "SELECT i.note FROM item i JOIN part p ON p.item = i.id WHERE p.item = {} AND p.n = {}",
            2,
        ),
        ("SELECT id FROM item WHERE id BETWEEN {} AND 5", 2),
    ] {
        let before = database.statements_planned();
        for value in 100..130 {
            let text = template.replace("{}", &value.to_string());
            session.execute(text.as_str(), &[]).expect(&text);
        }
        assert_eq!(database.statements_planned() - before, own, "{template}");
    }
}

#[test]
fn a_hint_is_part_of_a_text_of_its_shape_and_of_what_is_explained() {
    let database = database(4096);
    let mut session = database.session();
    let text = |key: i32, class: &str| {
        format!("SELECT note FROM item WHERE id = {key} WITH HINT(WORKLOAD_CLASS({class}))")
    };
    let mut prepare = |text: &str| -> Statement { session.prepare(text).expect(text) };
    for key in 1..5 {
        for class in ["web", "\"Batch\"", "'x y'"] {
            let statement = prepare(&text(key, class));
            let hinted = testing::workload_class(&statement);
            assert_eq!(hinted.as_deref(), Some(class.trim_matches(['"', '\''])), "{class}");
            let explained = prepare(&format!("EXPLAIN {}", text(key, class)));
            assert_eq!(testing::workload_class(&explained), hinted);
        }
        let plain = prepare(&format!("SELECT note FROM item WHERE id = {key}"));
        assert_eq!(testing::workload_class(&plain), None);
    }
    assert!(testing::share_a_plan(&prepare(&text(7, "web")), &prepare(&text(8, "web"))));
    let write = "UPDATE item SET note = 'x' WHERE id = $1 WITH HINT(WORKLOAD_CLASS(web))";
    assert_eq!(testing::workload_class(&prepare(write)).as_deref(), Some("web"));
}

#[test]
fn a_hint_that_nobody_knows_is_a_warning() {
    let database = database(4096);
    let mut session = database.session();
    let text = "SELECT 1 WITH HINT(NO_USE_OLAP_PLAN, WORKLOAD_CLASS(\"_DEFAULT\"), ignore(a, 'b'))";
    for _ in 0..2 {
        session.execute(text, &[]).expect("hints do not matter");
        let told = session.take_notices();
        let told: Vec<_> = told.iter().map(|n| (n.state(), n.message().to_owned())).collect();
        let warning =
            |name| (SqlState::WARNING, format!("hint \"{name}\" is not known and is passed over"));
        assert_eq!(told, [warning("NO_USE_OLAP_PLAN"), warning("IGNORE")]);
    }
}

#[test]
fn plans_outlive_changes_of_workload_classes_alone() {
    let database = database(4096);
    let (mut session, mut other) = (database.session(), database.session());
    let text = "SELECT note FROM item WHERE id = 1";
    let plan = session.prepare(text).expect(text);
    let mut kept = |change: &str| {
        other.batch(change).unwrap_or_else(|error| panic!("{change}: {error}"));
        testing::share_a_plan(&plan, &session.prepare(text).expect(text))
    };
    assert!(kept("CREATE WORKLOAD CLASS web"));
    assert!(kept(
        "BEGIN; ALTER WORKLOAD CLASS web SET 'PRIORITY' = 7; DROP WORKLOAD CLASS web; COMMIT"
    ));
    assert!(kept("BEGIN; CREATE WORKLOAD CLASS web; ROLLBACK"));
    assert!(!kept("CREATE TABLE more (a INT)"), "whatever else changes, plans are made anew");
    let plan = session.prepare(text).expect(text);
    other.batch("BEGIN; DROP TABLE more; CREATE WORKLOAD CLASS web; COMMIT").expect("two changes");
    assert!(!testing::share_a_plan(&plan, &session.prepare(text).expect(text)));
    // Plans of a session with temporary tables are its own.
    let plan = session.prepare(text).expect(text);
    other
        .batch("CREATE TEMPORARY TABLE own (a INT); DROP WORKLOAD CLASS web")
        .expect("two changes");
    assert!(!testing::share_a_plan(&plan, &session.prepare(text).expect(text)));
    assert!(session.prepare("SELECT * FROM own").is_err());
}
