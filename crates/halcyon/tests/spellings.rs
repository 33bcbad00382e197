//! Spellings of one question go one way: whichever words a statement about TPC-C's tables is written in (either
//! order of a join, a subquery or a join, IN, EXISTS, DISTINCT, comparisons of rows, windows, WITH, LATERAL), its
//! rows are found by indexes, and its answer is that of all other spellings and of scans.
//!
//! `lab/spellings.py` measures the same statements beside PostgreSQL.

use halcyon::{Database, Session};

const STATEMENTS: &str = include_str!("../../../tests/data/spellings.sql");

/// Districts have as many orders as the statements' constants want; everything else is small.
const TABLES: &[&str] = &[
    "CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_tax NUMERIC(4,4))",
    "CREATE TABLE district (d_id INTEGER, d_w_id INTEGER, d_next_o_id INTEGER, PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE customer (c_id INTEGER, c_d_id INTEGER, c_w_id INTEGER, c_first VARCHAR(16), c_last VARCHAR(16), c_balance NUMERIC(12,2), PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_name VARCHAR(24))",
    "CREATE TABLE stock (s_i_id INTEGER, s_w_id INTEGER, s_quantity INTEGER, PRIMARY KEY (s_w_id, s_i_id))",
    "CREATE TABLE orders (o_id INTEGER, o_d_id INTEGER, o_w_id INTEGER, o_c_id INTEGER, o_carrier_id INTEGER, PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
    "CREATE TABLE new_order (no_o_id INTEGER, no_d_id INTEGER, no_w_id INTEGER, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE order_line (ol_o_id INTEGER, ol_d_id INTEGER, ol_w_id INTEGER, ol_number INTEGER, ol_i_id INTEGER, ol_supply_w_id INTEGER, ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount NUMERIC(6,2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "INSERT INTO warehouse SELECT w, 0.1 FROM generate_series(1, 2) AS w",
    "INSERT INTO district SELECT d, w, 3001 FROM generate_series(1, 2) AS w, generate_series(1, 3) AS d",
    "INSERT INTO customer SELECT c, d, 1, 'first' || c % 97, CASE WHEN c % 9 = 0 THEN 'BARBARPRES' ELSE 'last' || c % 50 END, 0 FROM generate_series(1, 3) AS d, generate_series(1, 1000) AS c",
    "INSERT INTO item SELECT i, 'item' || i FROM generate_series(1, 3000) AS i",
    "INSERT INTO stock SELECT i, w, i * 7 % 90 FROM generate_series(1, 2) AS w, generate_series(1, 3000) AS i",
    "INSERT INTO orders SELECT o, d, 1, o * 7 % 1000 + 1, CASE WHEN o < 2101 THEN 1 END FROM generate_series(1, 3) AS d, generate_series(1, 3000) AS o",
    "INSERT INTO new_order SELECT o, d, 1 FROM generate_series(1, 3) AS d, generate_series(2101, 3000) AS o",
    "INSERT INTO order_line SELECT o, d, 1, l, (o * 13 + l * 101) % 3000 + 1, 1, NULL, 5, l FROM generate_series(1, 3) AS d, generate_series(1, 3000) AS o, generate_series(1, 3) AS l",
];

/// Statements that say the same, with their constants in them.
struct Group {
    name: String,
    writes: bool,
    statements: Vec<String>,
}

fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut constants: Vec<(String, String)> = Vec::new();
    for line in STATEMENTS.lines() {
        if let Some((name, values)) =
            line.strip_prefix("-- ").and_then(|head| head.split_once(": "))
        {
            let value = |pair: &str| {
                let (name, value) = pair.split_once('=').expect("name=value");
                let quoted = format!("'{value}'");
                let value = if value.parse::<i64>().is_ok() { value.to_owned() } else { quoted };
                (format!(":{name}"), value)
            };
            constants = values.split(", ").map(value).collect();
            // `:o1` before `:o`.
            constants.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
            let (name, writes) = match name.strip_prefix("write ") {
                Some(name) => (name, true),
                None => (name, false),
            };
            groups.push(Group { name: name.to_owned(), writes, statements: Vec::new() });
        } else if let Some(text) = line.strip_suffix(';') {
            let text = text.replace("::", "\u{0}");
            let text = constants.iter().fold(text, |text, (name, value)| text.replace(name, value));
            let group = groups.last_mut().expect("a name stands before");
            group.statements.push(text.replace('\u{0}', "::"));
        }
    }
    groups
}

fn database() -> Database {
    let database = Database::in_memory();
    let mut session = database.session();
    for text in TABLES {
        session.execute(*text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    drop(session);
    database
}

fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let rows = session.query(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = rows.collect().unwrap_or_else(|error| panic!("{text}: {error}"));
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// What a statement gives: its rows, or the number of rows that it writes, which is undone.
fn answer(session: &mut Session, group: &Group, text: &str) -> Vec<String> {
    if !group.writes {
        return rows(session, text);
    }
    session.execute("BEGIN", &[]).expect("begins");
    let outcome = session.execute(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    session.execute("ROLLBACK", &[]).expect("is undone");
    vec![format!("{outcome:?}")]
}

#[test]
fn spellings_of_one_question_have_one_answer() {
    let database = database();
    let mut session = database.session();
    let groups = groups();
    assert!(groups.len() >= 15 && groups.iter().all(|group| group.statements.len() > 3));
    for group in &groups {
        let expected = answer(&mut session, group, &group.statements[0]);
        assert!(!expected.is_empty(), "{} has no answer", group.name);
        for text in &group.statements {
            assert_eq!(answer(&mut session, group, text), expected, "{text}");
            session.execute("SET halcyon.point_plans = off", &[]).expect("a setting");
            assert_eq!(answer(&mut session, group, text), expected, "by scans: {text}");
            session.execute("RESET halcyon.point_plans", &[]).expect("a setting");
        }
    }
}

#[test]
fn spellings_of_one_question_find_their_rows_by_index() {
    let database = database();
    let mut session = database.session();
    for text in groups().iter().flat_map(|group| &group.statements) {
        let plan = rows(&mut session, &format!("EXPLAIN {text}")).join("\n");
        let by_index = ["Executor: point", "Executor: write", "Rows looked up first"];
        assert!(by_index.iter().any(|way| plan.contains(way)), "{text}\n{plan}");
        // A vectorised plan or source scans what no part of it looks up.
        let scans = plan.matches("TableScan").count();
        let looked_up = plan.contains("Rows looked up first");
        assert!(scans == 0 || looked_up, "{text}\n{plan}");
        assert!(!plan.contains("Scan of"), "{text}\n{plan}");
    }
}
