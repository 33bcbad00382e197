//! Plans as they run against plans as DataFusion alone makes them: conditions within scans, joins in the order of
//! cost, scans that leave out what joins and TopKs have no use for.

mod world;

use halcyon_base::rng::Rng;
use halcyon_sql::types::SqlType;

use crate::world::World;

/// Tables `t0` to `t5`: few rows and many, keys that repeat, NULLs, and values of several types.
fn world(seed: u64) -> World {
    use SqlType::*;
    let mut rng = Rng::new(seed);
    let mut world = World::new();
    let money = Decimal { precision: 12, scale: 2 };
    for (number, rows) in [3_u64, 40, 300, 2_500, 5_000, 9_000].into_iter().enumerate() {
        let columns = [
            ("id", Integer),
            ("k", Integer),
            ("g", BigInt),
            ("t", Text),
            ("m", money),
            ("d", Date),
            ("f", Double),
        ];
        let values: Vec<[String; 7]> = (0..rows)
            .map(|row| {
                let or_null = |rng: &mut Rng, value: String| {
                    if rng.chance(1, 12) { String::new() } else { value }
                };
                let k = rng.below(1 + rows / 3).to_string();
                let g = rng.below(20).to_string();
                let t = format!("text {}", rng.below(50));
                let m = format!("{}.{:02}", rng.below(900), rng.below(100));
                let d = format!("2020-{:02}-{:02}", 1 + row * 12 / rows, 1 + rng.below(28));
                let f = format!("{}", rng.below(40) as f64 / 4.0 - 3.0);
                [
                    row.to_string(),
                    or_null(&mut rng, k),
                    or_null(&mut rng, g),
                    or_null(&mut rng, t),
                    or_null(&mut rng, m),
                    d,
                    or_null(&mut rng, f),
                ]
            })
            .collect();
        let rows: Vec<Vec<&str>> =
            values.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        world.table(&format!("t{number}"), &columns, &rows);
    }
    world
}

/// A condition over one table.
fn condition(rng: &mut Rng, table: &str) -> String {
    let small = rng.below(20);
    match rng.below(12) {
        0 => format!("{table}.g < {small}"),
        1 => format!("{table}.g IN ({small}, {}, 7)", rng.below(20)),
        2 => format!("{table}.t LIKE '%{}%'", rng.below(10)),
        3 => format!("{table}.d >= DATE '2020-{:02}-11'", 1 + rng.below(12)),
        4 => format!("{table}.m BETWEEN {} AND {}", rng.below(400), 300 + rng.below(500)),
        5 => format!("{table}.k IS NOT NULL"),
        6 => format!("({table}.g = {small} OR {table}.f > 2)"),
        7 => format!("{table}.id = {}", rng.below(50)),
        8 => format!("{table}.g + 1 > {small} AND {table}.f <> 0.25"),
        9 => format!("NOT ({table}.k > {small})"),
        10 => format!("CASE WHEN {table}.g > 9 THEN {table}.m > 100 ELSE {table}.t > 'text 3' END"),
        _ => format!("{table}.f < {}.5", rng.below(6)),
    }
}

/// An equality between two tables, or at times another comparison.
fn meeting(rng: &mut Rng, a: &str, b: &str) -> String {
    match rng.below(14) {
        0..=4 => format!("{a}.k = {b}.id"),
        5 | 6 => format!("{a}.id = {b}.k"),
        7 | 8 => format!("{a}.k = {b}.k AND {a}.g = {b}.g"),
        9 => format!("{a}.g = {b}.id"),
        10 => format!("{a}.t = {b}.t AND {a}.id = {b}.k"),
        11 => format!("{a}.d = {b}.d AND {a}.k = {b}.id"),
        12 => format!("{a}.m = {b}.m AND {a}.f = {b}.f"),
        _ => format!("{a}.id = {b}.k AND {a}.g <= {b}.g"),
    }
}

/// A query over two to six tables, whose result no order of joins may change.
fn query(rng: &mut Rng) -> String {
    let count = 2 + rng.below(4) as usize;
    let names: Vec<String> = (0..count).map(|number| format!("r{number}")).collect();
    // Large tables meet small ones first, or a product would be too much for a test.
    let mut tables: Vec<u64> = (0..count).map(|_| rng.below(6)).collect();
    tables[0] = rng.below(4);
    let of = |number: usize| format!("t{} {}", tables[number], names[number]);
    let mut from = of(0);
    let mut conditions = Vec::new();
    for number in 1..count {
        let other = rng.below(number as u64) as usize;
        let meets = meeting(rng, &names[number], &names[other]);
        match rng.below(5) {
            0 | 1 => from.push_str(&format!(" JOIN {} ON {meets}", of(number))),
            2 => from.push_str(&format!(" LEFT JOIN {} ON {meets}", of(number))),
            _ => {
                from = format!("{}, {from}", of(number));
                conditions.push(meets);
            }
        }
    }
    for name in &names {
        if rng.chance(1, 2) {
            conditions.push(condition(rng, name));
        }
    }
    if rng.chance(1, 3) {
        let outer = &names[rng.below(count as u64) as usize];
        let meets = meeting(rng, "s", outer);
        let inner = condition(rng, "s");
        let not = if rng.chance(1, 2) { "NOT " } else { "" };
        let table = rng.below(6);
        conditions.push(match rng.below(3) {
            0 => format!("{not}EXISTS (SELECT 1 FROM t{table} s WHERE {meets} AND {inner})"),
            1 => format!("{outer}.k IN (SELECT s.k FROM t{table} s WHERE {inner})"),
            _ => format!(
                "{outer}.m >= (SELECT min(s.m) FROM t{table} s WHERE s.g = {outer}.g AND {inner})"
            ),
        });
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", conditions.join(" AND ")),
    };
    // FROM lists join before JOIN … ON sees their names, so ON names its own tables alone.
    let (first, last) = (&names[0], &names[count - 1]);
    match rng.below(9) {
        6 => format!(
            "WITH q AS (SELECT {first}.k, count(*) AS n, sum({last}.m) AS s FROM {from}{filter} GROUP BY 1) \
             SELECT a.k, b.n, a.s FROM q a LEFT JOIN q b ON a.n = b.k WHERE a.s >= (SELECT avg(s) FROM q) OR b.n > 1"
        ),
        7 => format!(
            "SELECT {first}.k, {last}.t, {first}.d, count(*), avg({last}.m), count(DISTINCT {first}.g) \
             FROM {from}{filter} GROUP BY 1, 2, 3"
        ),
        8 => format!(
            "WITH q AS (SELECT DISTINCT {first}.g, {last}.t FROM {from}{filter}) \
             SELECT a.g, b.t FROM q a, q b WHERE a.g = b.g AND a.t < b.t UNION ALL SELECT g, t FROM q"
        ),
        3 => format!("SELECT count(*) FROM t{0} r0 WHERE {1}", tables[0], condition(rng, "r0")),
        4 => format!(
            "SELECT count({2}) FROM (SELECT r0.d FROM t{0} r0 WHERE {1} LIMIT {3}) q",
            tables[0],
            condition(rng, "r0"),
            if rng.chance(1, 2) { "*" } else { "q.d" },
            1 + rng.below(400)
        ),
        0 => format!(
            "SELECT {first}.g, count(*), sum({last}.m), min({first}.t) FROM {from}{filter} GROUP BY 1"
        ),
        1 => {
            let way = if rng.chance(1, 2) { " DESC" } else { "" };
            format!(
                "SELECT {last}.d, {first}.id, {last}.id FROM {from}{filter} ORDER BY 1{way}, 2, 3 LIMIT 7"
            )
        }
        2 => format!("SELECT count(*), max({last}.k), sum({first}.id) FROM {from}{filter}"),
        _ => format!(
            "SELECT {first}.id, {last}.t, q.n FROM {from} LEFT JOIN (SELECT g, count(*) AS n FROM t3 GROUP BY g) q \
             ON q.g = {last}.g{filter}"
        ),
    }
}

/// Rows that a plan may give before it is left out of the comparison.
const ROWS_MOST: usize = 200_000;

fn compared(seed: u64, queries: usize) -> usize {
    let mut world = world(seed);
    let mut rng = Rng::new(seed);
    let mut compared = 0;
    for number in 0..queries {
        let text = query(&mut rng);
        let count = format!("SELECT count(*) FROM ({}) q", text);
        world.session.threads = 1 + number % 3;
        let Ok((counting, _)) = world.plan(&count) else { continue };
        let Ok(counted) = world.run(&counting.plain(), &[]) else { continue };
        if counted[0][0].parse::<usize>().expect("a count") > ROWS_MOST {
            continue;
        }
        let (plain, _) = world.plan(&text).expect("planned a moment ago");
        let (quick, _) = world.plan(&text).expect("planned a moment ago");
        let sorted = |rows: halcyon_sql::error::Result<Vec<Vec<String>>>| {
            let mut rows = rows.map_err(|error| error.state().as_str().to_owned())?;
            rows.sort_unstable();
            Ok::<_, String>(rows)
        };
        let expected = sorted(world.run(&plain.plain(), &[]));
        // A kept plan finds its rows anew.
        for run in 0..2 {
            let got = sorted(world.run(&quick, &[]));
            assert_eq!(got, expected, "seed {seed}, query {number}, run {run}: {text}");
        }
        compared += 1;
    }
    compared
}

#[test]
fn any_order_gives_the_same_rows() {
    let seeds = std::env::var("HALCYON_SEEDS").ok().and_then(|count| count.parse().ok());
    let mut total = 0;
    for seed in 0..seeds.unwrap_or(2) {
        total += compared(seed, 60);
    }
    println!("{total} queries compared");
    assert!(total >= 60, "{total} queries were compared");
}

/// Hash tables that are split among workers: what each part finds counts for its own keys.
#[test]
fn findings_of_split_hash_tables_leave_the_rows_alone() {
    use SqlType::*;
    let mut world = World::new();
    let columns = [("id", Integer), ("k", Integer), ("t", Text), ("n", BigInt)];
    for (name, rows) in [("build", 90_000_u64), ("probe", 100_000)] {
        let mut rng = Rng::new(rows);
        let values: Vec<[String; 4]> = (0..rows)
            .map(|row| {
                let null = rng.chance(1, 20);
                let k = if null { String::new() } else { (rng.below(rows) * 2).to_string() };
                [row.to_string(), k, format!("{}", row * 3 % 70_000), rng.below(500).to_string()]
            })
            .collect();
        let rows: Vec<Vec<&str>> =
            values.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        world.table(name, &columns, &rows);
    }
    for text in [
        "SELECT count(*), sum(p.n), min(b.t) FROM build b, probe p WHERE b.id = p.k",
        "SELECT count(*), sum(p.n) FROM build b, probe p WHERE b.k = p.k AND b.n = p.n",
        "SELECT count(*), sum(p.n) FROM build b, probe p WHERE b.t = p.t AND b.id = p.id",
        "SELECT count(*), sum(b.n) FROM build b WHERE EXISTS (SELECT 1 FROM probe p WHERE p.k = b.id)",
        "SELECT count(*), sum(b.n) FROM build b WHERE NOT EXISTS (SELECT 1 FROM probe p WHERE p.k = b.k)",
        "SELECT count(*), count(p.id) FROM build b LEFT JOIN probe p ON p.k = b.k",
        "SELECT count(*), sum(q.c) FROM build b, (SELECT k, count(*) AS c FROM probe GROUP BY k) q WHERE q.k = b.id",
    ] {
        for threads in [3, 4] {
            world.session.threads = threads;
            let (plain, _) = world.plan(text).expect("planned");
            let (quick, _) = world.plan(text).expect("planned");
            let expected = world.run(&plain.plain(), &[]).expect("run");
            for _ in 0..2 {
                assert_eq!(world.run(&quick, &[]).expect("run"), expected, "{text}");
            }
            let shown = quick.explain().expect("kept");
            assert!(shown.contains("mode=Partitioned"), "{shown}");
        }
    }
}

/// Joins of so many tables that their order is that of the text, in parts.
#[test]
fn joins_of_many_tables_are_planned() {
    let world = world(3);
    for count in [63, 64, 65, 90] {
        let tables: Vec<String> = (0..count).map(|number| format!("t0 r{number}")).collect();
        let keys: Vec<String> =
            (1..count).map(|number| format!("r{number}.id = r{}.id", number - 1)).collect();
        let text =
            format!("SELECT count(*) FROM {} WHERE {}", tables.join(", "), keys.join(" AND "));
        let (plan, _) = world.plan(&text).expect("planned");
        assert_eq!(world.run(&plan, &[]).expect("run"), [["3"]], "{count} tables");
    }
}

/// Parts that a query has several times run once, and each place has all their rows.
#[test]
fn places_read_the_same_rows() {
    let mut world = world(5);
    let part = "WITH q AS (SELECT k, count(*) AS n, sum(m) AS s FROM t5 GROUP BY k)";
    for (text, runs_once) in [
        ("SELECT count(*), sum(s) FROM q WHERE s = (SELECT max(s) FROM q)", true),
        ("SELECT count(*), sum(a.s + b.n), sum(b.s - a.n) FROM q a JOIN q b ON a.k = b.n", true),
        ("SELECT count(*), sum(a.n) FROM q a, q b, q c WHERE a.k = b.n AND b.k = c.n", true),
        ("SELECT count(*) FROM (SELECT * FROM q UNION ALL SELECT * FROM q LIMIT 700) u", true),
        ("SELECT count(*) FROM q a LEFT JOIN q b ON a.n < b.n AND a.k = b.k + 1", true),
        ("SELECT a.n, b.n FROM q a, q b WHERE a.k = b.k ORDER BY 1 DESC, 2 LIMIT 3", true),
        ("SELECT count(*) FROM q a, q b WHERE a.k = b.n AND a.k < 5", false),
    ] {
        let text = format!("{part} {text}");
        for threads in [1, 2, 3] {
            world.session.threads = threads;
            let (plain, _) = world.plan(&text).expect("planned");
            let (quick, _) = world.plan(&text).expect("planned");
            let expected = world.run(&plain.plain(), &[]).expect("run");
            for _ in 0..3 {
                assert_eq!(world.run(&quick, &[]).expect("run"), expected, "{text}");
            }
            let shown = quick.explain().expect("a plan");
            let is_kept = !shown.contains("TableScan");
            assert!(!is_kept || shown.contains("SharedExec") == runs_once, "{text}\n{shown}");
        }
    }
}

/// Groups by integers near each other are ours, by what lies far apart or is none DataFusion's.
#[test]
fn many_groups_are_those_of_the_slow_twin() {
    use SqlType::*;
    let mut world = World::new();
    let columns = [("id", Integer), ("a", BigInt), ("far", BigInt), ("t", Text), ("n", BigInt)];
    let mut rng = Rng::new(8);
    let values: Vec<[String; 5]> = (0..60_000)
        .map(|row: u64| {
            let null = rng.chance(1, 20);
            let a = if null { String::new() } else { rng.below(30_000).to_string() };
            let far = (rng.below(5_000) << 40).to_string();
            let t = format!("a text of some length {}", rng.below(9_000));
            [(row / 3).to_string(), a, far, t, rng.below(500).to_string()]
        })
        .collect();
    let rows: Vec<Vec<&str>> =
        values.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    world.table("facts", &columns, &rows);
    for (keys, is_ours) in
        [("id", true), ("a", true), ("n", true), ("far", false), ("t", false), ("a, n", false)]
    {
        let text = format!(
            "SELECT count(*), sum(c), sum(s), min(least), max(x) FROM (SELECT {keys}, count(*) AS c, sum(n) AS s, \
             min(t) AS least, avg(n) AS x FROM facts GROUP BY {keys}) q"
        );
        for threads in [1, 2, 3] {
            world.session.threads = threads;
            let (plain, _) = world.plan(&text).expect("planned");
            let (quick, _) = world.plan(&text).expect("planned");
            let expected = world.run(&plain.plain(), &[]).expect("run");
            assert_eq!(world.run(&quick, &[]).expect("run"), expected, "{text}");
            let shown = quick.explain().expect("kept");
            assert_eq!(shown.contains("HashAggregateExec"), is_ours, "{keys}: {shown}");
        }
    }
}
