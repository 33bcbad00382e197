//! Materialized views of random queries against the queries themselves.
//!
//! Strategy: random queries of the class that views take become views over three tables; random
//! statements go to a database with the views and to a twin that has only the tables. Values are few and
//! small, so that they meet each other, but for some near the ends of INTEGER.
//! Invariants, looked at after every statement:
//! 1. A view has the rows of its query, repetitions counted.
//! 2. A statement that leaves a view's query without an answer (22003, 22012, 21000) fails.
//! 3. A statement that fails leaves every view as it was.
//! 4. Once all rows are deleted, every map of every view has as many entries as at first.
//!
//! Fixed seeds; HALCYON_FUZZ_SECONDS goes on with others for that long, HALCYON_FUZZ_SEED runs one
//! alone. A failure names its seed.

use std::time::{Duration, Instant};

use halcyon::{Database, Session, SqlError, SqlState};
use halcyon_base::rng::Rng;

/// Tables that all have the same columns: `x`, `y` and `s` may be NULL, `g` is never NULL, `p` is of a
/// type that no view takes.
const TABLES: [&str; 3] = ["a", "b", "c"];

const COLUMNS: &str = "(x INTEGER, y INTEGER, g INTEGER NOT NULL, n NUMERIC(9,2), s TEXT, p UUID)";

/// Rows of a query as text, sorted.
fn rows(session: &mut Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut found = Vec::new();
    let mut rows = session.query(sql, &[])?;
    while let Some(row) = rows.next()? {
        let cells: Vec<String> =
            (0..row.len()).map(|column| format!("{:?}", row.value(column).to_owned())).collect();
        found.push(cells.join(" | "));
    }
    found.sort();
    Ok(found)
}

/// Writes queries. Every relation in FROM has an alias of its own.
struct Writer<'r> {
    rng: &'r mut Rng,
    aliases: usize,
}

impl Writer<'_> {
    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    /// A table under an alias: the text for FROM, and the alias.
    fn table(&mut self) -> (String, String) {
        let (table, alias) = (self.pick(&TABLES), self.alias());
        match self.rng.below(20) {
            0 => (format!("(VALUES (1, 2, 0), (2, 2, 3)) AS {alias} (x, y, g)"), alias),
            1 => {
                (format!("(SELECT COUNT(*) AS x, MAX(y) AS y, 1 AS g FROM {table}) {alias}"), alias)
            }
            _ => (format!("{table} {alias}"), alias),
        }
    }

    fn column(&mut self, of: &[String]) -> String {
        let alias = of[self.rng.below(of.len() as u64) as usize].clone();
        format!("{alias}.{}", self.pick(&["x", "y", "g", "x", "y"]))
    }

    fn comparison_sign(&mut self) -> &'static str {
        self.pick(&["=", "=", "<>", "<", "<=", ">", ">="])
    }

    /// An integer over columns of these aliases.
    fn integer(&mut self, of: &[String], depth: u32) -> String {
        match self.rng.below(if depth == 0 { 4 } else { 11 }) {
            0..=2 => self.column(of),
            3 => self.rng.below(4).to_string(),
            4 => {
                let sign = self.pick(&["+", "-", "*"]);
                format!("({} {sign} {})", self.integer(of, 0), self.integer(of, 0))
            }
            5 => format!("COALESCE({}, {})", self.column(of), self.rng.below(3)),
            6 => {
                let condition = self.condition(of, depth - 1);
                let (a, b) = (self.integer(of, 0), self.integer(of, 0));
                format!("CASE WHEN {condition} THEN {a} ELSE {b} END")
            }
            _ => self.aggregate_subquery(of, depth - 1),
        }
    }

    /// A subquery of one row and one column, whether or not it names the outer row.
    fn aggregate_subquery(&mut self, outer: &[String], depth: u32) -> String {
        let (from, own) = self.table();
        let own = [own];
        let argument = self.integer(&own, 0);
        let call = match self.rng.below(5) {
            0 | 1 => "COUNT(*)".to_owned(),
            2 => format!("MAX({argument})"),
            3 => format!("MIN({argument})"),
            _ => format!("COUNT({argument})"),
        };
        let filter = self.inner_filter(outer, &own, depth);
        match self.rng.below(4) {
            // The condition is above the aggregate, and may name the outer row.
            0 => {
                let alias = self.alias();
                let sign = self.comparison_sign();
                let outer = self.integer(outer, 0);
                format!(
                    "(SELECT {alias}.m FROM (SELECT {call} AS m FROM {from}{filter}) {alias} \
                     WHERE {alias}.m {sign} {outer})"
                )
            }
            1 => {
                let (sign, outer) = (self.comparison_sign(), self.integer(outer, 0));
                format!("(SELECT {call} FROM {from}{filter} HAVING COUNT(*) {sign} {outer})")
            }
            _ => format!("(SELECT {call} FROM {from}{filter})"),
        }
    }

    fn inner_filter(&mut self, outer: &[String], own: &[String], depth: u32) -> String {
        let mut all = Vec::new();
        if self.chance(45) {
            let sign = if self.chance(70) { "=" } else { self.comparison_sign() };
            all.push(format!("{} {sign} {}", self.column(own), self.column(outer)));
        }
        if self.chance(40) {
            all.push(self.condition(own, depth));
        }
        match all.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", all.join(" AND ")),
        }
    }

    /// A subquery of one column and any number of rows.
    fn list(&mut self, outer: &[String], depth: u32) -> String {
        let (from, own) = self.table();
        let own = [own];
        let filter = self.inner_filter(outer, &own, depth);
        format!("SELECT {} FROM {from}{filter}", self.column(&own))
    }

    fn condition(&mut self, of: &[String], depth: u32) -> String {
        if depth == 0 {
            return match self.rng.below(5) {
                0 => format!("{} IS NULL", self.column(of)),
                1 => format!("{} IN (0, 2)", self.column(of)),
                _ => {
                    let sign = self.comparison_sign();
                    format!("{} {sign} {}", self.integer(of, 0), self.integer(of, 0))
                }
            };
        }
        match self.rng.below(11) {
            0 | 1 => {
                let sign = self.comparison_sign();
                format!("{} {sign} {}", self.integer(of, depth), self.integer(of, 0))
            }
            2 => format!("({} OR {})", self.condition(of, 0), self.condition(of, depth - 1)),
            3 => format!("NOT ({})", self.condition(of, depth - 1)),
            4..=6 => {
                let not = if self.chance(40) { "NOT " } else { "" };
                let operand = self.integer(of, depth);
                format!("{operand} {not}IN ({})", self.list(of, depth - 1))
            }
            7 => {
                let (sign, any) = (self.comparison_sign(), self.pick(&["ANY", "ALL"]));
                let operand = self.integer(of, depth);
                format!("{operand} {sign} {any} ({})", self.list(of, depth - 1))
            }
            8 => {
                let not = if self.chance(40) { "NOT " } else { "" };
                format!("{not}EXISTS ({})", self.list(of, depth - 1))
            }
            _ => {
                let not = if self.chance(40) { "NOT " } else { "" };
                let (from, own) = self.table();
                let filter = self.inner_filter(of, &[own], 0);
                let (alias, sign) = (self.alias(), self.comparison_sign());
                let outer = self.integer(of, 0);
                format!(
                    "{not}EXISTS (SELECT 1 FROM (SELECT COUNT(*) AS m FROM {from}{filter}) {alias} \
                     WHERE {alias}.m {sign} {outer})"
                )
            }
        }
    }

    fn aggregate(&mut self, of: &[String]) -> String {
        let value = self.integer(of, 1);
        match self.rng.below(9) {
            0 => "COUNT(*)".to_owned(),
            1 => format!("COUNT({value})"),
            2..=4 => format!("SUM({value})"),
            5 => format!("MIN({value})"),
            6 => format!("MAX({value})"),
            7 => format!("AVG({value})"),
            _ => format!("COUNT(DISTINCT {value})"),
        }
    }

    fn query(&mut self) -> String {
        let (mut from, first) = self.table();
        let mut of = vec![first];
        if self.chance(40) {
            let (table, alias) = self.table();
            let on =
                format!("{} = {}", self.column(&of), self.column(std::slice::from_ref(&alias)));
            let kind = self.pick(&["JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"]);
            from = format!("{from} {kind} {table} ON {on}");
            of.push(alias);
        }
        let filter = match self.chance(75) {
            true => format!(" WHERE {}", self.condition(&of, 2)),
            false => String::new(),
        };
        let (k, l) = (self.column(&of), self.column(&of));
        match self.rng.below(10) {
            0 => format!("SELECT {}.* FROM {from}{filter}", of[0]).replace(".*", ".x"),
            1 | 2 => format!("SELECT {k} AS k, {} AS v FROM {from}{filter}", self.integer(&of, 2)),
            3 => format!(
                "SELECT DISTINCT {k} AS k, {} AS v FROM {from}{filter}",
                self.integer(&of, 1)
            ),
            4 => format!(
                "SELECT {} AS m, {} AS n FROM {from}{filter}",
                self.aggregate(&of),
                self.aggregate(&of)
            ),
            5 => format!(
                "SELECT {k} AS k, {} AS m FROM {from}{filter} GROUP BY {k}, {l}, {k}",
                self.aggregate(&of)
            ),
            6 => {
                let list = self.list(&of[..1], 0).replace(&format!("{}.", of[0]), "0 + 0 * 1 + ");
                let operand = self.aggregate(&of);
                format!(
                    "SELECT {k} AS k, {} AS m FROM {from}{filter} GROUP BY {k} HAVING {operand} IN ({})",
                    self.aggregate(&of),
                    if list.contains("0 * 1") { "SELECT x FROM c".to_owned() } else { list }
                )
            }
            7 => {
                let set = self.pick(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
                format!("SELECT {k} AS k FROM {from}{filter} {set} SELECT x FROM c")
            }
            _ => format!(
                "SELECT {k} AS k, {} AS m, {} AS n FROM {from}{filter} GROUP BY {k}",
                self.aggregate(&of),
                self.aggregate(&of)
            ),
        }
    }
}

fn value(rng: &mut Rng) -> String {
    match rng.below(20) {
        0..=2 => "NULL".to_owned(),
        3 => ["2147483647", "-2147483648", "50000"][rng.below(3) as usize].to_owned(),
        _ => rng.below(4).to_string(),
    }
}

fn statement(rng: &mut Rng) -> String {
    let table = TABLES[rng.below(3) as usize];
    match rng.below(10) {
        0..6 => {
            let count = 1 + rng.below(3);
            let rows = (0..count).map(|_| {
                let text = ["'p'", "'q'", "NULL"][rng.below(3) as usize];
                let (x, y, g) = (value(rng), value(rng), rng.below(4));
                format!("({x}, {y}, {g}, {}, {text}, NULL)", value(rng).replace("2147483", "1"))
            });
            format!("INSERT INTO {table} VALUES {}", rows.collect::<Vec<_>>().join(", "))
        }
        6 => format!("UPDATE {table} SET x = {} WHERE g = {}", value(rng), rng.below(4)),
        7 => format!("UPDATE {table} SET y = x, g = {} WHERE x = {}", rng.below(4), rng.below(4)),
        8 => format!("DELETE FROM {table} WHERE g = {}", rng.below(4)),
        _ => format!("DELETE FROM {table} WHERE x IS NULL OR y > {}", rng.below(4)),
    }
}

/// What became of a seed: views that were compared, and constructs that were refused.
#[derive(Default)]
struct Seen {
    views: usize,
    compared: usize,
    failed: usize,
    refused: Vec<String>,
}

fn is_fault(error: &SqlError) -> bool {
    [
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        SqlState::DIVISION_BY_ZERO,
        SqlState::CARDINALITY_VIOLATION,
    ]
    .contains(&error.state())
}

fn run(seed: u64, seen: &mut Seen) {
    let mut rng = Rng::new(seed);
    let (kept, plain) = (Database::in_memory(), Database::in_memory());
    let (mut kept, mut plain) = (kept.session(), plain.session());
    let mut views: Vec<(String, String)> = Vec::new();
    for table in TABLES {
        for session in [&mut kept, &mut plain] {
            session.execute(format!("CREATE TABLE {table} {COLUMNS}").as_str(), &[]).unwrap();
        }
    }
    for at in 0..5 {
        let sql = Writer { rng: &mut rng, aliases: 0 }.query();
        let name = format!("v{at}");
        let create = format!("CREATE MATERIALIZED VIEW {name} AS {sql}");
        match kept.execute(create.as_str(), &[]) {
            Ok(_) => views.push((name, sql)),
            Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
                seen.refused.push(format!("{}\n    {sql}", error.message()));
            }
            // What cannot be read cannot be a view.
            Err(error) => match rows(&mut plain, &sql) {
                Err(own) if own.state() == error.state() => {}
                other => panic!("HALCYON_FUZZ_SEED={seed}\n{sql}\n{error:?}\nbut {other:?}"),
            },
        }
    }
    seen.views += views.len();
    let empty: Vec<_> = views.iter().map(|(name, _)| entries(&mut kept, name)).collect();
    let mut all: Vec<String> = (0..14).map(|_| statement(&mut rng)).collect();
    all.extend(TABLES.map(|table| format!("DELETE FROM {table}")));
    for (step, statement) in all.iter().enumerate() {
        let told =
            |what: &str| format!("HALCYON_FUZZ_SEED={seed}, step {step}: {statement}\n{what}");
        let done = kept.execute(statement.as_str(), &[]);
        plain.execute("BEGIN", &[]).unwrap();
        plain.execute(statement.as_str(), &[]).unwrap();
        let mut answers = Vec::new();
        for (_, sql) in &views {
            // A failed query would end the transaction.
            plain.execute("SAVEPOINT s", &[]).unwrap();
            answers.push(rows(&mut plain, sql));
            plain.execute("ROLLBACK TO s", &[]).unwrap();
        }
        match done {
            Ok(_) => {
                plain.execute("COMMIT", &[]).unwrap();
            }
            Err(error) if is_fault(&error) => {
                plain.execute("ROLLBACK", &[]).unwrap();
                seen.failed += 1;
                answers = views.iter().map(|(_, sql)| rows(&mut plain, sql)).collect();
            }
            Err(error) => panic!("{}", told(&format!("{error:?}"))),
        }
        for ((name, sql), answer) in views.iter().zip(answers) {
            let found = rows(&mut kept, &format!("SELECT * FROM {name}")).unwrap();
            match answer {
                Ok(answer) => {
                    seen.compared += 1;
                    assert_eq!(found, answer, "{}", told(sql));
                }
                Err(error) if is_fault(&error) => {
                    panic!("{}", told(&format!("{sql}\nhas {found:?}, its query fails: {error:?}")))
                }
                Err(error) => panic!("{}", told(&format!("{sql}\n{error:?}"))),
            }
        }
    }
    for ((name, sql), empty) in views.iter().zip(empty) {
        assert_eq!(entries(&mut kept, name), empty, "HALCYON_FUZZ_SEED={seed}\n{sql}");
    }
}

/// What the maps of a view hold: `Map name: n entries`.
fn entries(session: &mut Session, view: &str) -> Vec<String> {
    let told = rows(session, &format!("EXPLAIN MAINTENANCE {view}")).unwrap();
    let maps = told.iter().filter(|line| line.contains("Map "));
    maps.map(|line| line.split(',').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn views_of_random_queries_are_their_queries() {
    let mut seen = Seen::default();
    if let Ok(seed) = std::env::var("HALCYON_FUZZ_SEED") {
        run(seed.parse().expect("a number"), &mut seen);
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(number("HALCYON_FUZZ_SECONDS").unwrap_or(0));
    let first = number("HALCYON_FUZZ_FROM").unwrap_or(0);
    let mut seed = first;
    while seed < first + 10 || Instant::now() < end {
        run(seed, &mut seen);
        seed += 1;
    }
    if std::env::var("HALCYON_FUZZ_PASSED").is_ok() {
        println!("{}", seen.refused.join("\n"));
    }
    println!(
        "{} views of {} seeds, {} comparisons, {} statements failed as they must, {} refused",
        seen.views,
        seed - first,
        seen.compared,
        seen.failed,
        seen.refused.len()
    );
    assert!(seen.views > 3 * seen.refused.len(), "too few queries become views");
}
