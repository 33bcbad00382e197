//! Correlated subqueries against a slow twin: the same subquery run once for every outer row, with
//! the outer columns written down as constants.

use halcyon::{Database, Session, SqlState, SqlType, TextFormat};

const TABLES: &str = "
    CREATE TABLE o(a INT, b INT, s TEXT);
    CREATE TABLE i(x INT, y INT, s TEXT);
    CREATE TABLE e(x INT, y INT);
    INSERT INTO o VALUES (1, 1, 'p'), (2, 5, 'q'), (3, NULL, 'p'), (NULL, 4, NULL), (5, 0, 'r'),
        (2, 5, 'q'), (9, 9, 'z'), (NULL, NULL, 'z');
    INSERT INTO i VALUES (1, 4, 'a'), (2, 2, 'b'), (2, 7, 'c'), (3, NULL, 'd'), (NULL, 5, 'e'),
        (5, 1, NULL), (7, 9, 'q'), (4, 4, 'p')";

/// Expressions over `o` whose value is told row by row.
const EXPRESSIONS: &[&str] = &[
    // Aggregates over inequality, equality, both, none.
    "(SELECT count(*) FROM i WHERE i.x < o.a)",
    "(SELECT count(*) FROM i WHERE i.x = o.a)",
    "(SELECT count(y) + o.a FROM i WHERE i.x <> o.a)",
    "(SELECT sum(y) FROM i WHERE i.x < o.a AND i.y > o.b)",
    "(SELECT max(y) FROM i WHERE i.x = o.a AND i.y > 1)",
    "(SELECT avg(x) FROM i AS o2 WHERE o2.x >= o.a OR o2.y = o.b)",
    "(SELECT count(DISTINCT y) FROM i WHERE x >= o.a)",
    "(SELECT bool_and(x > o.b) FROM i)",
    "(SELECT count(*) FILTER (WHERE y > o.b) FROM i WHERE x > 1)",
    "(SELECT string_agg(s, ',' ORDER BY s) FROM i WHERE x > o.a)",
    "(SELECT count(*) FROM e WHERE e.x < o.a)",
    "(SELECT count(*) FROM i WHERE o.a = 2)",
    "(SELECT min(x) FROM i WHERE i.s = o.s)",
    "coalesce((SELECT sum(x) FROM i WHERE i.y < o.b), -1) * 2",
    // HAVING, GROUP BY, DISTINCT, windows, derived tables.
    "(SELECT count(*) FROM i WHERE x > o.a HAVING count(*) > 2)",
    "(SELECT sum(c) FROM (SELECT y % 2 AS p, count(*) AS c FROM i WHERE x > o.a GROUP BY y % 2 \
        HAVING count(*) > 1) g)",
    "(SELECT count(*) FROM (SELECT DISTINCT y FROM i WHERE x > o.a) d)",
    "(SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY x, y) AS r FROM i WHERE x > o.a) w)",
    "(SELECT count(*) FROM (SELECT x, count(*) AS n FROM i GROUP BY x) g WHERE g.n < o.a)",
    // Without FROM, VALUES, set operations.
    "(SELECT o.a + o.b)",
    "(SELECT max(v.q) FROM (VALUES (o.a), (o.b), (3)) v(q))",
    "(SELECT count(*) FROM (SELECT x FROM i WHERE x > o.a UNION SELECT y FROM i WHERE y < o.b) u)",
    "(SELECT count(*) FROM (SELECT x FROM i UNION ALL SELECT o.a) u)",
    "(SELECT count(*) FROM (SELECT x FROM i INTERSECT SELECT y FROM i WHERE x >= o.a) u)",
    "(SELECT count(*) FROM (SELECT x FROM i WHERE x > o.a EXCEPT SELECT y FROM i) u)",
    // Joins below.
    "(SELECT count(*) FROM i JOIN i k ON i.x = k.y AND k.x > o.a)",
    "(SELECT count(*) FROM i, e WHERE i.x = e.x AND e.y > o.a)",
    "(SELECT count(k.x) FROM i LEFT JOIN i k ON i.x = k.y AND k.x > o.a)",
    "(SELECT count(i.x) FROM i RIGHT JOIN (SELECT * FROM i WHERE y > o.b) k ON i.x = k.y)",
    "(SELECT count(*) FROM (SELECT * FROM i WHERE x > o.a) m FULL JOIN \
        (SELECT * FROM i WHERE y > o.b) k ON m.x = k.y)",
    "(SELECT count(*) FROM (SELECT * FROM i WHERE x > o.a) m JOIN \
        (SELECT * FROM i WHERE y > o.b) k ON m.x = k.y)",
    // ORDER BY and LIMIT.
    "(SELECT y FROM i WHERE x < o.a ORDER BY y DESC, x LIMIT 1)",
    "(SELECT y FROM i WHERE x < o.a ORDER BY y, x LIMIT 1 OFFSET 1)",
    "(SELECT s FROM i ORDER BY abs(x - o.a), x, y LIMIT 1)",
    "(SELECT sum(x) FROM (SELECT x FROM i WHERE y < o.b ORDER BY x LIMIT 2) t)",
    // Nested, the inner one naming the outermost row too.
    "(SELECT count(*) FROM i WHERE x > o.a AND EXISTS \
        (SELECT 1 FROM i k WHERE k.y < i.y AND k.x > o.b))",
    "(SELECT sum((SELECT count(*) FROM i k WHERE k.x < i.x AND k.y <> o.b)) FROM i WHERE x >= o.a)",
    "(SELECT count(*) FROM i WHERE x IN (SELECT y FROM i k WHERE k.x > o.a))",
    "(SELECT max(x) FROM i WHERE x < (SELECT max(k.y) FROM i k WHERE k.x = i.x AND k.y > o.b))",
    // EXISTS, IN, ANY, ALL as values: three truth values.
    "EXISTS (SELECT 1 FROM i WHERE i.x > o.a)",
    "NOT EXISTS (SELECT 1 FROM i WHERE i.x = o.a AND i.y < o.b)",
    "EXISTS (SELECT count(*) FROM i WHERE i.x = o.a HAVING count(*) > 1)",
    "EXISTS (SELECT x FROM i WHERE x > o.a LIMIT 1)",
    "EXISTS (SELECT 1 FROM e) OR EXISTS (SELECT 1 FROM i)",
    "o.a IN (SELECT x FROM i)",
    "o.a NOT IN (SELECT x FROM i)",
    "o.a NOT IN (SELECT x FROM i WHERE x IS NOT NULL)",
    "o.a NOT IN (SELECT x FROM e)",
    "o.a IN (SELECT x FROM i WHERE y < o.b)",
    "o.a NOT IN (SELECT x FROM i WHERE y < o.b)",
    "o.a + 1 IN (SELECT y FROM i WHERE i.s <> o.s)",
    "(SELECT max(x) FROM i WHERE x < o.a) IN (SELECT y FROM i)",
    "o.a > ALL (SELECT x FROM i WHERE y = o.b)",
    "o.a > ALL (SELECT x FROM e)",
    "o.a <= ANY (SELECT x FROM i WHERE y > o.b)",
    "o.a <> ALL (SELECT y FROM i)",
    "o.a = ANY (SELECT y FROM i WHERE x > 1)",
    "CASE WHEN EXISTS (SELECT 1 FROM i WHERE x = o.a) THEN 'y' ELSE 'n' END",
    "NOT (o.a IN (SELECT x FROM i) AND o.b NOT IN (SELECT y FROM i WHERE y IS NOT NULL))",
];

fn session(point_plans: bool) -> Session {
    let database = Database::in_memory();
    let mut session = database.session();
    session.set("halcyon.point_plans", if point_plans { "on" } else { "off" }).expect("a setting");
    for statement in TABLES.split(';') {
        session.execute(statement, &[]).expect(statement);
    }
    session
}

fn rows(session: &mut Session, sql: &str) -> Result<Vec<Vec<String>>, halcyon::SqlError> {
    let mut rows = session.query(sql, &[])?;
    let types: Vec<SqlType> =
        rows.columns().iter().map(|column| column.ty.unwrap_or(SqlType::Text)).collect();
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = types.iter().enumerate().map(|(at, ty)| match row.value(at) {
            value if value.is_null() => "NULL".to_owned(),
            value => TextFormat::default().text(value, *ty),
        });
        all.push(cells.collect());
    }
    Ok(all)
}

/// The expression for one outer row.
fn told(expression: &str, row: &[String]) -> String {
    let number = |text: &str| format!("({text}::int)");
    let text = match row[2].as_str() {
        "NULL" => "(NULL::text)".to_owned(),
        text => format!("('{text}'::text)"),
    };
    let told = expression.replace("o.a", &number(&row[0])).replace("o.b", &number(&row[1]));
    told.replace("o.s", &text)
}

#[test]
fn a_correlated_subquery_is_its_value_for_each_outer_row() {
    let mut wrong = Vec::new();
    for point_plans in [true, false] {
        let mut session = session(point_plans);
        let outer = rows(&mut session, "SELECT a, b, s FROM o").expect("rows");
        for expression in EXPRESSIONS {
            let mut expected: Vec<Vec<String>> = Vec::new();
            for row in &outer {
                let value = rows(&mut session, &format!("SELECT {}", told(expression, row)))
                    .unwrap_or_else(|error| panic!("{expression} for {row:?}: {error}"));
                expected.push([&row[..], &value[0]].concat());
            }
            expected.sort();
            let mut check = |sql: String, expected: &[Vec<String>]| {
                let mut found = rows(&mut session, &sql);
                if let Ok(found) = &mut found {
                    found.sort();
                }
                if found.as_deref().ok() != Some(expected) {
                    wrong.push(format!("{sql}\n  {found:?}\n  {expected:?}"));
                }
            };
            check(format!("SELECT a, b, s, {expression} FROM o"), &expected);
            let alike = format!("SELECT a, b, s FROM o WHERE ({expression}) IS NOT DISTINCT FROM ");
            let value = expected[3][3].clone();
            let same: Vec<Vec<String>> = expected
                .iter()
                .filter(|row| row[3] == value)
                .map(|row| row[..3].to_vec())
                .collect();
            let quoted = if value == "NULL" { value } else { format!("'{value}'") };
            check(format!("{alike}{quoted}"), &same);
            if expected.iter().all(|row| matches!(row[3].as_str(), "t" | "f" | "NULL")) {
                let holds = |value: &'static str| {
                    let rows = expected.iter().filter(move |row| row[3] == value);
                    rows.map(|row| row[..3].to_vec()).collect::<Vec<_>>()
                };
                check(format!("SELECT a, b, s FROM o WHERE {expression}"), &holds("t"));
                check(format!("SELECT a, b, s FROM o WHERE NOT ({expression})"), &holds("f"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn two_rows_where_one_may_be_are_21000() {
    let mut session = session(true);
    for sql in [
        "SELECT (SELECT y FROM i WHERE i.x = o.a) FROM o",
        "SELECT (SELECT y FROM i WHERE i.x > o.a) FROM o",
        "SELECT a FROM o WHERE b = (SELECT y FROM i WHERE i.x < o.a)",
        "SELECT (SELECT y FROM i) FROM o",
    ] {
        let error = rows(&mut session, sql).expect_err(sql);
        assert_eq!(error.state(), SqlState::CARDINALITY_VIOLATION, "{sql}: {error}");
    }
    let one = "SELECT a, (SELECT y FROM i WHERE i.x = o.a) FROM o WHERE a IN (1, 3, 9) ORDER BY 1";
    let found = rows(&mut session, one).expect("one row at most");
    assert_eq!(found, [["1", "4"], ["3", "NULL"], ["9", "NULL"]]);
}

#[test]
fn subqueries_stand_wherever_an_expression_may() {
    let mut session = session(true);
    for (sql, expected) in [
        (
            "SELECT sum((SELECT count(*) FROM i WHERE x < o.a)) FROM o GROUP BY s ORDER BY 1",
            &[&["0"][..], &["2"], &["3"], &["5"], &["7"]][..],
        ),
        (
            "SELECT (SELECT count(*) FROM i WHERE x < o.a) AS n, count(*) FROM o GROUP BY 1 ORDER BY 1",
            &[&["0", "3"], &["1", "2"], &["3", "1"], &["5", "1"], &["7", "1"]],
        ),
        (
            "SELECT a FROM o WHERE a IS NOT NULL ORDER BY (SELECT count(*) FROM i WHERE x > o.a), a",
            &[&["9"], &["5"], &["3"], &["2"], &["2"], &["1"]],
        ),
        (
            "SELECT s, count(*) FROM o GROUP BY s HAVING count(*) < \
                (SELECT count(*) FROM i WHERE i.s > o.s) ORDER BY 1",
            &[],
        ),
        (
            "SELECT o.a, k.x FROM o JOIN i k ON k.x = o.a AND EXISTS \
                (SELECT 1 FROM i WHERE i.y < k.y AND i.x > o.a) ORDER BY 1, 2",
            &[&["1", "1"], &["2", "2"], &["2", "2"], &["2", "2"], &["2", "2"]],
        ),
    ] {
        let found = rows(&mut session, sql).expect(sql);
        assert_eq!(found, expected, "{sql}");
    }
    session
        .execute("UPDATE o SET b = (SELECT count(*) FROM i WHERE i.x < o.a) WHERE a > 2", &[])
        .expect("an update");
    session
        .execute("DELETE FROM o WHERE NOT EXISTS (SELECT 1 FROM i WHERE i.x > o.a)", &[])
        .expect("a delete");
    let left = rows(&mut session, "SELECT a, b FROM o ORDER BY a").expect("rows");
    assert_eq!(left, [["1", "1"], ["2", "5"], ["2", "5"], ["3", "3"], ["5", "5"]]);
}
