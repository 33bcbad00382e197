//! Row-at-a-time plans against the analytical executor: the same rows, whatever the access path.
//!
//! Strategy: a world of small tables with indexes of every kind (unique or not, descending, with
//! NULLs, over one and four partitions); fixed cases that name the access path, and seeded random
//! queries. A failing random query is printed with its seed and text.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;
use halcyon_base::ids::{IndexId, PartitionId, TableId};
use halcyon_base::rng::Rng;
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{Catalog, Column, Index, IndexColumn, Partitioning, Relation, Table};
use halcyon_exec::analytic::AnalyticalPlan;
use halcyon_exec::point::short::ShortQuery;
use halcyon_exec::point::{PointPlan, Scratch};
use halcyon_plan::bind::Binder;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::{Clock, Env, Roots};
use halcyon_sql::error::Result;
use halcyon_sql::parse;
use halcyon_sql::rows::{RowSet, RowSink};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::value_at;
use halcyon_store::{IndexDef, KeyColumn, Partition, Value, ValueRef};
use halcyon_txn::{CancelToken, PartitionCell};

#[path = "../../txn/tests/counting/mod.rs"]
mod counting;
mod world;

use counting::allocations_of;

/// A query with all ways of planning it.
struct Bound {
    plan: LogicalPlan,
    short: Option<PointPlan>,
    brief: Option<LogicalPlan>,
    params: Vec<SqlType>,
}

/// Tables whose roots are kept by hand.
struct World {
    catalog: Arc<Catalog>,
    session: SessionVars,
    df: DataFusion,
    roots: HashMap<TableId, Vec<triomphe::Arc<Partition>>>,
    next_index: u32,
}

/// A column: name, type, NOT NULL.
type Def<'a> = (&'a str, SqlType, bool);

impl World {
    fn new() -> Self {
        let mut session = world::session();
        let catalog = Arc::new(Catalog::initial());
        session.user = catalog.roles.keys().next().expect("a superuser").clone();
        World {
            catalog,
            session,
            df: DataFusion::default(),
            roots: HashMap::new(),
            next_index: 1 << 20,
        }
    }

    /// Adds a table. An index is written as `u:a,b-` : unique, over a and b, b descending; `n:` is
    /// not unique. Partitioned by the first column if `partitions` is above one.
    fn table(
        &mut self,
        name: &str,
        columns: &[Def<'_>],
        indexes: &[&str],
        partitions: u32,
        rows: &[Vec<Value>],
    ) {
        let id = TableId(self.catalog.ids.oid());
        let columns: Vec<Column> = columns
            .iter()
            .map(|(name, ty, not_null)| Column { not_null: *not_null, ..Column::new(*name, *ty) })
            .collect();
        let indexes: Vec<Index> = indexes.iter().map(|text| self.index(text, &columns)).collect();
        let mut table = Table::new(id, "public", name, "halcyon", columns);
        table.indexes = indexes;
        if partitions > 1 {
            table.partitioning = Partitioning::Column { column: 0 };
        }
        let mut roots: Vec<Partition> =
            (0..partitions).map(|_| Partition::new(table.store_schema())).collect();
        for root in &mut roots {
            for index in &table.indexes {
                let columns = index.columns.iter().map(|key| KeyColumn {
                    column: key.column,
                    descending: key.descending,
                    nulls_first: key.nulls_first,
                });
                let (id, columns) = (index.id, columns.collect());
                let def = IndexDef {
                    id,
                    columns,
                    derivation: None,
                    unique: index.unique,
                    nulls_distinct: true,
                };
                root.add_index(def).expect("no rows yet");
            }
        }
        for row in rows {
            let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            let partition = halcyon_catalog::partition_of(values[0], partitions);
            // Random rows may repeat a unique key; they are left out.
            let _ = roots[partition as usize].insert(&values);
        }
        for (at, root) in roots.iter().enumerate() {
            let partition = PartitionId(id.0 * 100 + at as u32);
            table.cells.push(Arc::new(PartitionCell::new(partition, root.clone())));
        }
        self.roots.insert(id, roots.into_iter().map(triomphe::Arc::new).collect());
        let mut catalog = (*self.catalog).clone();
        catalog.put("public", name, Relation::Table(Arc::new(table)));
        self.catalog = Arc::new(catalog);
    }

    fn index(&mut self, text: &str, columns: &[Column]) -> Index {
        self.next_index += 1;
        let (kind, list) = text.split_once(':').expect("kind and columns");
        let keys = list.split(',').map(|name| {
            let descending = name.ends_with('-');
            let name = name.trim_end_matches('-');
            let column = columns.iter().position(|column| column.name == name).expect(name);
            IndexColumn { column: column as u16, descending, nulls_first: descending }
        });
        let name = format!("by_{}", list.replace([',', '-'], "_"));
        let index = Index::new(IndexId(self.next_index), name, keys.collect());
        Index { unique: kind == "u", ..index }
    }

    fn binder(&self) -> Binder<'_> {
        Binder::new(&self.catalog, &self.session, &self.df)
    }

    fn bind(&self, text: &str) -> Result<Bound> {
        let parsed = parse::parse(text)?.remove(0);
        let Some(query) = parsed.statement.into_query() else { panic!("{text} is no query") };
        let binder = self.binder();
        let short = ShortQuery::of(&binder, &query, &[]).map(|short| short.plan);
        let bound = binder.query_with(*query, None, &[], text)?;
        let brief = binder.optimize_briefly(&bound.plan)?;
        Ok(Bound { short, brief, plan: binder.optimize(bound.plan)?, params: bound.params })
    }

    fn env<'a>(&'a self, params: &'a [Value], cancel: &'a CancelToken) -> Env<'a> {
        let clock = Clock::since(1_700_000_000_000_000);
        Env { catalog: &self.catalog, params, session: &self.session, clock, cancel, workers: None }
    }

    fn snapshot(&self, tables: &[Arc<Table>]) -> Vec<Vec<triomphe::Arc<Partition>>> {
        tables.iter().map(|table| self.roots[&table.id].clone()).collect()
    }

    fn point(&self, plan: &PointPlan, params: &[Value]) -> Result<Vec<String>> {
        let cancel = CancelToken::new();
        let (env, roots) = (self.env(params, &cancel), self.snapshot(plan.tables()));
        let mut needs = vec![];
        plan.needs(&env, &mut needs)?;
        let mut rows = RowSet::new(plan.width());
        plan.run(&env, Roots::Snapshot(&roots), &mut rows, &mut Scratch::default())?;
        Ok((0..rows.len())
            .map(|row| {
                let values = (0..rows.width()).map(|column| show(rows.value(row, column)));
                values.collect::<Vec<_>>().join("|")
            })
            .collect())
    }

    fn analytical(&self, bound: &Bound, params: &[Value]) -> Result<Vec<String>> {
        self.run_analytical(AnalyticalPlan::new(bound.plan.clone(), &self.df), params)
    }

    fn run_analytical(&self, plan: AnalyticalPlan, params: &[Value]) -> Result<Vec<String>> {
        let cancel = CancelToken::new();
        let roots = self.snapshot(plan.tables());
        let mut rows = vec![];
        for batch in plan.start(&self.env(params, &cancel), roots)? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let values = batch
                    .columns()
                    .iter()
                    .map(|column| show(value_at(column.as_ref(), row).expect("a type of ours")));
                rows.push(values.collect::<Vec<_>>().join("|"));
            }
        }
        Ok(rows)
    }

    /// Runs a query in both executors and compares. Returns the plan's text.
    fn same(&self, text: &str, params: &[Value]) -> Option<String> {
        let bound = self.bind(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let plan = PointPlan::compile(&bound.plan)?;
        let brief = bound.brief.as_ref().and_then(PointPlan::compile);
        for quick in bound.short.iter().chain(&brief) {
            let (short, long) = (self.point(quick, params), self.point(&plan, params));
            match (short, long) {
                (Ok(mut short), Ok(mut long)) => {
                    if !text.contains("ORDER BY") {
                        short.sort();
                        long.sort();
                    }
                    assert_eq!(short, long, "{text}\n{params:?}\n{}", quick.explain());
                }
                (Err(short), Err(long)) => assert_eq!(short.state(), long.state(), "{text}"),
                (short, long) => panic!("{text}\nshort: {short:?}\nlong: {long:?}"),
            }
        }
        let (point, slow) = (self.point(&plan, params), self.analytical(&bound, params));
        let explained = plan.explain();
        match (point, slow) {
            (Ok(mut point), Ok(mut slow)) => {
                if !text.contains("ORDER BY") {
                    point.sort();
                    slow.sort();
                }
                assert_eq!(point, slow, "{text}\n{params:?}\n{explained}");
            }
            (Err(point), Err(slow)) => {
                assert_eq!(point.state(), slow.state(), "{text}: {point} / {slow}");
            }
            (point, slow) => panic!("{text}\n{explained}\npoint: {point:?}\nslow: {slow:?}"),
        }
        Some(explained)
    }

    /// The query is a point plan whose text contains `expected`, and gives the right rows.
    fn check(&self, text: &str, params: &[Value], expected: &str) {
        let Some(explained) = self.same(text, params) else {
            let bound = self.bind(text).expect("bound before");
            panic!("no point plan for {text}:\n{}", bound.plan.display_indent());
        };
        assert!(explained.contains(expected), "{text} is not by {expected}:\n{explained}");
    }

    fn is_point(&self, text: &str) -> bool {
        let bound = self.bind(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        PointPlan::compile(&bound.plan).is_some()
    }
}

fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        // Sums of floats may be added in another order.
        ValueRef::Float64(value) => format!("{value:.6}"),
        other => format!("{other:?}"),
    }
}

fn int(value: i32) -> Value {
    Value::Int32(value)
}

/// The bytes of an array.
fn array(items: &[Value]) -> Value {
    let mut bytes = vec![];
    items.iter().for_each(|item| halcyon_value::array::push(&mut bytes, item.as_ref()));
    Value::Bytes(bytes)
}

/// Items with every kind of index, in one table and in one of four partitions.
fn items() -> World {
    use SqlType::{BigInt, Date, Double, Integer, Text};
    let money = SqlType::Decimal { precision: 9, scale: 2 };
    let columns: [Def<'_>; 7] = [
        ("id", Integer, true),
        ("grp", Integer, false),
        ("big", BigInt, false),
        ("name", Text, false),
        ("price", money, false),
        ("day", Date, false),
        ("score", Double, false),
    ];
    let mut rng = Rng::new(42);
    let mut below = |bound: u64| rng.next_u64() % bound;
    let rows: Vec<Vec<Value>> = (0..400)
        .map(|id| {
            let mut maybe = |value: Value| if below(8) == 0 { Value::Null } else { value };
            let (a, b) = (id * 7 % 13, id * 11 % 29);
            vec![
                int(id),
                maybe(int(a)),
                maybe(Value::Int64(b as i64 * 1_000_000_000)),
                maybe(Value::Text(format!("item {}", id % 37))),
                maybe(Value::Decimal(b as i128 * 25)),
                maybe(Value::Date(18_000 + a)),
                maybe(Value::Float64(b as f64 / 4.0)),
            ]
        })
        .collect();
    let mut world = World::new();
    let indexes = ["u:id", "n:grp,day-", "n:name,id", "n:big", "n:price-,id"];
    world.table("item", &columns, &indexes, 1, &rows);
    world.table("spread", &columns, &indexes, 4, &rows);
    world
}

#[test]
fn keys_prefixes_ranges_and_lists_give_the_rows_of_a_scan() {
    let world = items();
    for table in ["item", "spread"] {
        let check = |text: &str, params: &[Value], expected: &str| {
            world.check(&text.replace("item", table), params, &expected.replace("item", table));
        };
        check(
            "SELECT id, name, price FROM item WHERE id = $1",
            &[int(7)],
            "Lookup in item by by_id",
        );
        check("SELECT id, name, price FROM item WHERE id = $1", &[Value::Null], "Lookup");
        check("SELECT * FROM item WHERE id = 399", &[], "Lookup");
        check("SELECT id FROM item WHERE id IN (3, 5, 5, 900, $1)", &[int(3)], "id IN");
        check("SELECT id FROM item WHERE id = 3 OR id = 5", &[], "id IN");
        let pairs = "SELECT id FROM item WHERE (id, grp) IN ((3, 8), (5, 9), (4, 3), ($1, 0))";
        check(pairs, &[int(0)], "id IN (3, 5, 4, $1)");
        check(
            "SELECT id FROM item WHERE id = 3 AND grp = 8 OR id IN (5, 6)",
            &[],
            "id IN (3, 5, 6)",
        );
        check("SELECT id FROM item WHERE id = 3 AND big > 0 OR id = 5 AND grp > 1", &[], "id IN");
        let some = [int(3), Value::Null, int(5), int(3), int(-1), int(1_000)];
        check("SELECT id FROM item WHERE id = ANY ($1)", &[array(&some)], "id = ANY ($1)");
        check("SELECT id FROM item WHERE id = ANY ($1)", &[array(&[])], "id = ANY ($1)");
        check("SELECT id FROM item WHERE id = ANY ($1)", &[Value::Null], "id = ANY ($1)");
        let names = [3, 4, 99].map(|at| Value::Text(format!("item {at}")));
        check("SELECT id FROM item WHERE name = ANY ($1)", &[array(&names)], "name = ANY ($1)");
        let days = [Value::Date(18_003), Value::Date(18_004)];
        let text = "SELECT id FROM item WHERE grp = ANY ($1) AND day = $2 ORDER BY id";
        check(text, &[array(&some), days[0].clone()], "grp = ANY ($1) AND day = $2");
        let text = "SELECT id FROM item WHERE grp = $2 AND day = ANY ($1) AND id <> ALL ($3)";
        let not = [int(9), int(22)];
        check(text, &[array(&days), int(4), array(&not)], "grp = $2 AND day = ANY ($1)");
        check("SELECT id FROM item WHERE grp = $1", &[int(4)], "grp = $1");
        check("SELECT id FROM item WHERE grp = 4 AND day > DATE '2019-04-18'", &[], "day >");
        check("SELECT id FROM item WHERE grp = 4 AND day <= DATE '2019-04-18'", &[], "day <=");
        check("SELECT id FROM item WHERE id BETWEEN 10 AND 20", &[], "id >= 10");
        check("SELECT id FROM item WHERE id > $1 AND id < $2", &[int(5), int(9)], "id >");
        check("SELECT id FROM item WHERE big = $1", &[Value::Int64(3_000_000_000)], "big = $1");
        check("SELECT id FROM item WHERE name = 'item 7' AND id > 100", &[], "by_name_id");
        check("SELECT id, grp FROM item WHERE grp = 4 AND score > 3", &[], "filter");
        check("SELECT upper(name) || '!' FROM item WHERE id = 9", &[], "Lookup");
        check("SELECT id FROM item WHERE id = 9 AND name LIKE 'item%'", &[], "Lookup");
    }
}

#[test]
fn values_that_the_key_cannot_have_match_nothing() {
    let world = items();
    let big = [Value::Int64(1 << 40)];
    world.check("SELECT id FROM item WHERE id = $1::bigint", &big, "Lookup");
    world.check("SELECT id FROM item WHERE id = 5.5", &[], "");
    world.check("SELECT id FROM item WHERE id = 5.0", &[], "");
    world.check("SELECT id FROM item WHERE id > 5.5 AND id < 8.5", &[], "");
    world.check("SELECT id FROM item WHERE price = 1.255", &[], "");
    world.check("SELECT id FROM item WHERE price = 1.25", &[], "");
}

#[test]
fn orders_limits_and_extremes_come_from_the_index() {
    let world = items();
    for table in ["item", "spread"] {
        let check = |text: &str, expected: &str| {
            world.check(&text.replace("item", table), &[], &expected.replace("item", table));
        };
        check("SELECT min(id) FROM item", "first row decides");
        check("SELECT max(id) FROM item", "backwards");
        check("SELECT max(day) FROM item WHERE grp = 3", "first row decides");
        check("SELECT id FROM item ORDER BY id LIMIT 5", "Limit");
        check("SELECT id FROM item ORDER BY id DESC LIMIT 5", "backwards");
        check("SELECT id, price FROM item WHERE grp = 2 ORDER BY price, id", "Sort");
        check(
            "SELECT name, id FROM item WHERE name = 'item 3' ORDER BY id DESC LIMIT 2",
            "backwards",
        );
        check("SELECT big FROM item WHERE big > 5000000000 ORDER BY big LIMIT 7", "by_big");
    }
    assert!(!world.is_point("SELECT id FROM item"));
    assert!(!world.is_point("SELECT id FROM item WHERE id > 5"));
    assert!(!world.is_point("SELECT id FROM item WHERE score = 1"));
    assert!(!world.is_point("SELECT id FROM item WHERE score = 1 ORDER BY id LIMIT 1"));
}

#[test]
fn joins_aggregates_and_subqueries_agree_with_the_analytical_executor() {
    let world = items();
    let check = |text: &str, expected: &str| world.check(text, &[], expected);
    check("SELECT a.id, b.id FROM item a JOIN spread b ON b.id = a.grp WHERE a.id = 6", "Nested");
    check(
        "SELECT a.id, b.name FROM item a LEFT JOIN spread b ON b.id = a.grp WHERE a.grp = 3 OR a.grp = 5",
        "left",
    );
    check(
        "SELECT a.id FROM item a WHERE a.grp = 3 AND EXISTS (SELECT 1 FROM spread b WHERE b.id = a.id AND b.score > 2)",
        "first match",
    );
    check(
        "SELECT a.id FROM item a WHERE a.grp = 3 AND NOT EXISTS (SELECT 1 FROM spread b WHERE b.id = a.id AND b.score > 2)",
        "no match",
    );
    check(
        "SELECT count(*), count(price), sum(price), avg(price), min(name), sum(grp), sum(big) FROM item WHERE grp = 3",
        "Aggregate",
    );
    check("SELECT count(*), sum(price), max(day) FROM item WHERE grp = 99", "Aggregate");
    check("SELECT name, count(*), sum(score) FROM item WHERE grp IN (1, 2) GROUP BY name", "by #");
    check("SELECT count(DISTINCT name) FROM item WHERE grp = 5", "");
    check("SELECT DISTINCT name FROM item WHERE grp = 5", "");
    check(
        "SELECT name, count(*) FROM item WHERE grp = 5 GROUP BY name HAVING count(*) > 1",
        "Filter",
    );
    check("SELECT id FROM item WHERE id = (SELECT max(id) FROM spread)", "");
    check("SELECT id FROM item WHERE id = 1 UNION ALL SELECT id FROM spread WHERE id = 2", "Union");
    check("SELECT 1 + 1, 'x'", "Row");
    check("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(x, y)", "Rows");
    check(
        "SELECT id, CASE WHEN grp > 5 THEN 'high' ELSE 'low' END FROM item WHERE id = 5",
        "Lookup",
    );
    check(
        "SELECT a.id FROM item a, spread b WHERE a.id = b.id AND b.grp = 2 AND a.price > 1 ORDER BY a.id DESC LIMIT 3",
        "Nested",
    );
}

#[test]
fn locks_are_asked_for_one_partition_if_its_column_is_fixed() {
    let world = items();
    let needs = |text: &str, params: &[Value]| {
        let bound = world.bind(text).expect(text);
        let plan = PointPlan::compile(&bound.plan).expect(text);
        let cancel = CancelToken::new();
        let mut needs = vec![];
        plan.needs(&world.env(params, &cancel), &mut needs).expect("no error");
        needs.iter().map(|need| need.partition).collect::<Vec<_>>()
    };
    assert_eq!(needs("SELECT name FROM spread WHERE id = $1", &[int(6)]), [Some(2)]);
    assert_eq!(needs("SELECT name FROM spread WHERE id = $1", &[Value::Null]), []);
    assert_eq!(needs("SELECT name FROM spread WHERE id = 7 AND grp = 1", &[]), [Some(3)]);
    assert_eq!(needs("SELECT name FROM spread WHERE grp = 1", &[]), [None]);
    assert_eq!(needs("SELECT name FROM item WHERE id = 1", &[]), [Some(0)]);
}

/// Counts rows and looks at nothing.
struct Count(usize);

impl RowSink for Count {
    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<bool> {
        self.0 += 1;
        Ok(true)
    }
}

#[test]
fn executions_allocate_nothing_once_warm() {
    let world = items();
    let mut failed = vec![];
    for text in [
        "SELECT id, name, price FROM item WHERE id = $1",
        "SELECT id, name FROM spread WHERE id = $1 AND name LIKE 'item%'",
        "SELECT id, name FROM item WHERE grp = $1 ORDER BY name, id",
        "SELECT count(*), sum(price) FROM item WHERE grp = $1",
        "SELECT name, count(*) FROM item WHERE grp = $1 GROUP BY name",
        "SELECT a.id, upper(b.name) FROM item a JOIN spread b ON b.id = a.id WHERE a.grp = $1",
    ] {
        let bound = world.bind(text).expect(text);
        let plan = PointPlan::compile(&bound.plan).expect(text);
        let (cancel, roots) = (CancelToken::new(), world.snapshot(plan.tables()));
        let params = [int(7)];
        let env = world.env(&params, &cancel);
        let (mut scratch, mut sink) = (Scratch::default(), Count(0));
        let mut needs = Vec::with_capacity(8);
        let mut run = || {
            allocations_of(|| {
                needs.clear();
                plan.needs(&env, &mut needs).expect("no error");
                plan.run(&env, Roots::Snapshot(&roots), &mut sink, &mut scratch).expect("no error");
            })
        };
        run();
        run();
        failed.extend((run() > 0).then_some(text));
        assert!(sink.0 > 0);
    }
    assert!(failed.is_empty(), "these allocate: {failed:#?}");
}

#[test]
fn random_queries_agree_with_the_analytical_executor() {
    let world = items();
    let seed = std::env::var("HALCYON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut rng = Rng::new(seed);
    let mut points = 0;
    for round in 0..150 {
        let text = random_query(&mut |bound| (rng.next_u64() % bound as u64) as usize);
        eprintln!("HALCYON_SEED={seed} round {round}: {text}");
        points += world.same(&text, &[]).is_some() as usize;
    }
    assert!(points > 60, "only {points} queries were point plans");
}

#[test]
fn random_pairs_of_tables_agree_with_the_analytical_executor() {
    let world = items();
    let seed = std::env::var("HALCYON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("HALCYON_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(250);
    let mut rng = Rng::new(seed);
    let (mut points, mut hashed, mut by_right) = (0, 0, 0);
    for round in 0..rounds {
        let text = random_pair(&mut |bound| (rng.next_u64() % bound as u64) as usize);
        eprintln!("HALCYON_SEED={seed} round {round}: {text}");
        if let Some(explained) = world.same(&text, &[]) {
            points += 1;
            hashed += usize::from(explained.contains("Hash join"));
            by_right += usize::from(explained.contains("Distinct"));
        }
    }
    assert!(
        points > rounds / 3 && hashed > rounds / 25 && by_right > rounds / 25,
        "{points} queries were point plans, {hashed} kept rows by key, {by_right} were driven by keys"
    );
}

#[test]
fn joins_keep_rows_by_key_where_no_index_helps() {
    let world = items();
    let check = |text: &str, expected: &str| world.check(text, &[], expected);
    check(
        "SELECT a.id, b.id FROM item a JOIN spread b ON b.price = a.price WHERE a.grp = 3 AND b.grp = 5",
        "Hash join:",
    );
    check(
        "SELECT a.id, b.id FROM item a LEFT JOIN (SELECT * FROM spread WHERE grp = 5) b ON b.score = a.score AND b.id > a.id WHERE a.grp = 3",
        "Hash join, left",
    );
    check(
        "SELECT a.id FROM item a WHERE a.grp = 3 AND NOT EXISTS (SELECT 1 FROM spread b WHERE b.grp = 5 AND b.price = a.price)",
        "Hash join, no match",
    );
    check(
        "SELECT price FROM item WHERE grp = 3 INTERSECT SELECT price FROM spread WHERE grp = 5",
        "IS NOT DISTINCT FROM",
    );
    check(
        "SELECT price FROM item WHERE grp = 3 EXCEPT SELECT price FROM spread WHERE grp = 5",
        "Hash join, no match",
    );
    // An index finds the rows of each outer row, though another one finds all that may match.
    check(
        "SELECT a.id, b.id FROM item a JOIN spread b ON b.grp = a.grp WHERE a.price = 1.25 AND b.name = 'item 3'",
        "by_grp_day_: grp = #",
    );
    // One row of the outer side: nothing is worth keeping.
    check(
        "SELECT a.id, b.id FROM item a JOIN spread b ON b.price = a.price WHERE a.id = 3 AND b.grp = 5",
        "Nested loop",
    );
}

#[test]
fn semi_joins_are_driven_by_the_side_with_the_better_index() {
    let world = items();
    let check = |text: &str, expected: &str| world.check(text, &[], expected);
    check(
        "SELECT id, name FROM item WHERE id IN (SELECT grp FROM spread WHERE grp = 5)",
        "Distinct",
    );
    check(
        "SELECT a.id FROM item a WHERE a.big > 0 AND EXISTS (SELECT 1 FROM spread b WHERE b.grp = 5 AND b.id = a.id)",
        "Distinct",
    );
    check(
        "SELECT a.name FROM item a WHERE (a.grp, a.id) IN (SELECT b.grp, b.id FROM spread b WHERE b.name = 'item 3')",
        "Distinct",
    );
    // What is known of one side is known of the other.
    check(
        "SELECT a.id FROM item a WHERE a.id = 7 AND EXISTS (SELECT 1 FROM spread b WHERE b.id = a.id AND b.score > 2)",
        "id = 7",
    );
}

#[test]
fn correlated_scalar_subqueries_are_lookups() {
    let world = items();
    let check = |text: &str, expected: &str| world.check(text, &[], expected);
    check(
        "SELECT id, (SELECT b.name FROM spread b WHERE b.id = a.grp) FROM item a WHERE a.grp = 3",
        "only(",
    );
    // Several rows for one: 21000 from both executors.
    check(
        "SELECT id, (SELECT b.name FROM spread b WHERE b.grp = a.grp) FROM item a WHERE a.grp = 3",
        "only(",
    );
    check(
        "SELECT id FROM item a WHERE grp = 3 AND (SELECT b.grp FROM spread b WHERE b.id = a.id) > 2",
        "only(",
    );
}

/// A plan of the analytical executor gives the same rows whether its parts are looked up or scanned.
#[test]
fn parts_by_index_give_the_rows_of_scans() {
    use SqlType::{Integer, Text};
    let columns: [Def<'_>; 4] = [
        ("id", Integer, true),
        ("grp", Integer, false),
        ("part", Integer, false),
        ("name", Text, false),
    ];
    let rows: Vec<Vec<Value>> = (0..20_000)
        .map(|id| {
            let part = if id % 17 == 0 { Value::Null } else { int(id % 13) };
            vec![int(id), int(id % 1_000), part, Value::Text(format!("row {}", id % 7))]
        })
        .collect();
    let mut world = World::new();
    world.table("big", &columns, &["u:id", "n:grp,id", "n:part"], 1, &rows);
    let looked_up = "Rows looked up first";
    for (text, is_looked_up) in [
        ("SELECT id, row_number() OVER (ORDER BY id DESC) FROM big WHERE grp = 7", true),
        (
            "SELECT a.id, sum(b.id) OVER (PARTITION BY a.part) FROM big a JOIN big b ON b.id = a.grp WHERE a.grp = 8",
            true,
        ),
        ("SELECT string_agg(name, ',' ORDER BY id) FROM big WHERE grp = 9", true),
        (
            "SELECT DISTINCT ON (part) part, id FROM big WHERE grp IN (1, 2) ORDER BY part, id DESC",
            true,
        ),
        (
            "SELECT a.name, lag(a.id) OVER (ORDER BY a.id), b.n FROM big a JOIN (SELECT part, count(*) AS n FROM big GROUP BY part) b ON b.part = a.part WHERE a.grp = 5",
            true,
        ),
        (
            "SELECT x.id, rank() OVER (ORDER BY x.name) FROM big x, big y WHERE x.id = 5 AND y.id = 6 AND x.name <> y.name",
            true,
        ),
        // More rows than may be visited, of few that were read.
        (
            "SELECT count(*), max(n) FROM (SELECT row_number() OVER (ORDER BY a.id, b.id) AS n FROM big a JOIN big b ON b.name = a.name WHERE a.part = 3 AND b.part = 4) AS t",
            true,
        ),
        // No rows.
        ("SELECT id, rank() OVER (ORDER BY id) FROM big WHERE grp = 5000", true),
        // More rows than a lookup may visit.
        (
            "SELECT count(*), max(n) FROM (SELECT row_number() OVER (ORDER BY id) AS n FROM big WHERE part >= 0 AND part <= 12) AS t",
            false,
        ),
        ("SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY id) AS n FROM big) AS t", false),
    ] {
        let bound = world.bind(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(PointPlan::compile(&bound.plan).is_none(), "{text} is a point plan");
        let plan = AnalyticalPlan::new(bound.plan.clone(), &world.df);
        let explained = plan.explain().expect("shown");
        assert!(explained.contains(looked_up) || !is_looked_up, "{text}:\n{explained}");
        let fast = world.run_analytical(plan, &[]);
        let slow = world.run_analytical(AnalyticalPlan::new(bound.plan, &world.df).scanning(), &[]);
        let (mut fast, mut slow) = (fast.expect("runs"), slow.expect("runs"));
        fast.sort();
        slow.sort();
        assert_eq!(fast, slow, "{text}");
    }
}

/// The tables of TPC-C that its statements read, with their keys; few columns, no rows.
fn tpcc(partitions: u32) -> World {
    use SqlType::{Char, Integer, SmallInt, Timestamp, Varchar};
    let money = SqlType::Decimal { precision: 12, scale: 2 };
    let (id, name) = (Integer, Varchar(Some(24)));
    let mut world = World::new();
    let mut table = |table: &str, columns: &[(&str, SqlType)], indexes: &[&str], partitions| {
        let columns: Vec<Def<'_>> = columns.iter().map(|(name, ty)| (*name, *ty, true)).collect();
        world.table(table, &columns, indexes, partitions, &[]);
    };
    table(
        "warehouse",
        &[("w_id", id), ("w_name", name), ("w_tax", money), ("w_ytd", money)],
        &["u:w_id"],
        partitions,
    );
    table(
        "district",
        &[
            ("d_w_id", id),
            ("d_id", id),
            ("d_name", name),
            ("d_tax", money),
            ("d_ytd", money),
            ("d_next_o_id", id),
        ],
        &["u:d_w_id,d_id"],
        partitions,
    );
    table(
        "customer",
        &[
            ("c_w_id", id),
            ("c_d_id", id),
            ("c_id", id),
            ("c_first", name),
            ("c_middle", Char(Some(2))),
            ("c_last", name),
            ("c_credit", Char(Some(2))),
            ("c_discount", money),
            ("c_balance", money),
            ("c_data", SqlType::Text),
        ],
        &["u:c_w_id,c_d_id,c_id", "n:c_w_id,c_d_id,c_last,c_first"],
        partitions,
    );
    table(
        "orders",
        &[
            ("o_w_id", id),
            ("o_d_id", id),
            ("o_id", id),
            ("o_c_id", id),
            ("o_entry_d", Timestamp),
            ("o_carrier_id", id),
            ("o_ol_cnt", SmallInt),
        ],
        &["u:o_w_id,o_d_id,o_id", "u:o_w_id,o_d_id,o_c_id,o_id"],
        partitions,
    );
    table(
        "new_order",
        &[("no_w_id", id), ("no_d_id", id), ("no_o_id", id)],
        &["u:no_w_id,no_d_id,no_o_id"],
        partitions,
    );
    table(
        "order_line",
        &[
            ("ol_w_id", id),
            ("ol_d_id", id),
            ("ol_o_id", id),
            ("ol_number", SmallInt),
            ("ol_i_id", id),
            ("ol_supply_w_id", id),
            ("ol_quantity", SmallInt),
            ("ol_amount", money),
            ("ol_delivery_d", Timestamp),
        ],
        &["u:ol_w_id,ol_d_id,ol_o_id,ol_number"],
        partitions,
    );
    table(
        "stock",
        &[
            ("s_w_id", id),
            ("s_i_id", id),
            ("s_quantity", SmallInt),
            ("s_ytd", id),
            ("s_dist_01", name),
            ("s_data", name),
        ],
        &["u:s_w_id,s_i_id"],
        partitions,
    );
    table(
        "item",
        &[("i_id", id), ("i_name", name), ("i_price", money), ("i_data", name)],
        &["u:i_id"],
        1,
    );
    world
}

/// What TPC-C asks, clause 2, in the words that clients use.
const TPCC: &[(&str, &str)] = &[
    // New-Order
    (
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
        "Lookup",
    ),
    ("SELECT w_tax FROM warehouse WHERE w_id = $1", "Lookup"),
    ("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2", "Lookup"),
    (
        "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE",
        "Lookup",
    ),
    ("SELECT i_price, i_name, i_data FROM item WHERE i_id = $1", "Lookup"),
    ("SELECT s_quantity, s_data, s_dist_01 FROM stock WHERE s_i_id = $1 AND s_w_id = $2", "Lookup"),
    (
        "SELECT c_discount, w_tax FROM customer, warehouse WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3",
        "Nested loop",
    ),
    // Payment
    ("SELECT count(c_id) FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3", "Range"),
    (
        "SELECT c_id, c_first, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first",
        "Range",
    ),
    ("SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3", "Lookup"),
    // Order-Status
    (
        "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
        "backwards",
    ),
    (
        "SELECT max(o_id) FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3",
        "first row decides",
    ),
    (
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
        "Range",
    ),
    // Delivery
    (
        "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1",
        "Limit",
    ),
    ("SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2", "first row decides"),
    ("SELECT o_c_id FROM orders WHERE o_id = $1 AND o_d_id = $2 AND o_w_id = $3", "Lookup"),
    (
        "SELECT sum(ol_amount) FROM order_line WHERE ol_o_id = $1 AND ol_d_id = $2 AND ol_w_id = $3",
        "Aggregate",
    ),
    // Stock-Level
    (
        "SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $3 - 20 AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $4",
        "Nested loop",
    ),
    (
        "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id BETWEEN $3 - 20 AND $3 - 1 AND s_quantity < $4",
        "Nested loop",
    ),
];

#[test]
fn what_needs_no_optimizer_goes_the_short_way() {
    let world = tpcc(1);
    let is_short = |text: &str| world.bind(text).expect(text).short.is_some();
    for text in [
        "SELECT w_tax FROM warehouse WHERE w_id = 3",
        "SELECT * FROM public.warehouse WHERE w_id = $1",
        "SELECT w.\"w_tax\" AS \"tax\", (w_id) FROM \"warehouse\" w WHERE (w.w_id = 3 AND w_name > 'x')",
        "SELECT d_id, d_next_o_id + 1 AS next FROM district WHERE d_w_id = 1 AND d_id IN (1, $1, 3)",
        "SELECT d_id FROM district WHERE d_w_id = 1 AND d_id BETWEEN 1 AND 3 ORDER BY d_id DESC LIMIT $1",
        "SELECT d_id FROM district WHERE d_w_id = 1 AND (d_tax IS NOT NULL OR d_id = 2) ORDER BY d_next_o_id, d_id",
        "SELECT d_id FROM district WHERE d_w_id = 1 AND d_id = 2 FOR UPDATE",
        "SELECT count(*), max(d_next_o_id), count(DISTINCT d_tax) FROM district WHERE d_w_id = 1",
    ] {
        assert!(is_short(text), "{text}");
    }
    for text in [
        "SELECT upper(w_name) FROM warehouse WHERE w_id = 3",
        "SELECT w_tax, w_tax FROM warehouse WHERE w_id = 3 ORDER BY w_tax",
        "SELECT *, w_tax FROM warehouse WHERE w_id = 3",
        "SELECT w_tax FROM warehouse WHERE w_id = 3.5",
        "SELECT w_tax FROM warehouse WHERE w_id = 3 AND NULL",
        "SELECT w_id FROM warehouse WHERE w_id = (SELECT 1)",
        "SELECT DISTINCT w_id FROM warehouse WHERE w_id = 3",
        "SELECT w_id, count(*) FROM warehouse WHERE w_id = 3 GROUP BY w_id",
        "SELECT w_id FROM warehouse, district WHERE w_id = 3 AND d_id = 1",
        "SELECT 1",
        // Every warehouse would have to be read.
        "SELECT w_id FROM warehouse WHERE w_tax IS NULL",
    ] {
        assert!(!is_short(text), "{text}");
    }
}

#[test]
fn every_query_of_tpcc_is_a_point_plan_that_locks_one_partition() {
    for partitions in [1, 4] {
        let world = tpcc(partitions);
        for (text, expected) in TPCC {
            let bound = world.bind(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let Some(plan) = PointPlan::compile(&bound.plan) else {
                panic!("no point plan for {text}:\n{}", bound.plan.display_indent());
            };
            // Neither of them needs the whole optimizer, nor those over one table any.
            let tables = text.split(" FROM ").nth(1).and_then(|rest| rest.split(" WHERE ").next());
            let is_joined =
                tables.is_none_or(|tables| tables.contains(", ") || tables.contains("JOIN"));
            assert_eq!(bound.short.is_none(), is_joined, "{text}");
            let brief = bound.brief.as_ref().and_then(PointPlan::compile).expect(text);
            let explained = brief.explain();
            assert!(explained.contains(expected), "{text} is not by {expected}:\n{explained}");
            let explained = plan.explain();
            assert!(explained.contains(expected), "{text} is not by {expected}:\n{explained}");
            let params: Vec<Value> = bound
                .params
                .iter()
                .map(|ty| match ty {
                    SqlType::Integer => Value::Int32(1),
                    SqlType::SmallInt => Value::Int16(1),
                    SqlType::BigInt => Value::Int64(1),
                    _ => Value::Text("x".into()),
                })
                .collect();
            world.point(&plan, &params).unwrap_or_else(|error| panic!("{text}: {error}"));
            let (cancel, mut needs) = (CancelToken::new(), vec![]);
            plan.needs(&world.env(&params, &cancel), &mut needs).expect(text);
            assert!(needs.iter().all(|need| need.partition.is_some()), "{text}:\n{explained}");
        }
    }
}

/// Stock-Level in the spellings that people choose: the few lines of the last orders are read first, and
/// stock is looked up, whatever the order of the tables.
#[test]
fn the_few_rows_of_a_range_are_read_before_the_many_of_a_prefix() {
    let world = tpcc(1);
    let lines = "ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4";
    let stock = "s_w_id = $5 AND s_quantity < $6";
    for text in [
        format!(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id WHERE {lines} AND {stock}"
        ),
        format!(
            "SELECT COUNT(DISTINCT s_i_id) FROM stock JOIN order_line ON s_i_id = ol_i_id WHERE {stock} AND {lines}"
        ),
        format!(
            "SELECT COUNT(DISTINCT s_i_id) FROM stock, order_line WHERE s_i_id = ol_i_id AND {stock} AND {lines}"
        ),
        format!(
            "SELECT COUNT(DISTINCT ol_i_id) FROM order_line, stock WHERE {lines} AND {stock} AND ol_i_id = s_i_id"
        ),
    ] {
        let bound = world.bind(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let plan = bound.brief.as_ref().and_then(PointPlan::compile).expect(&text);
        let explained = plan.explain();
        let place =
            |what: &str| explained.find(what).unwrap_or_else(|| panic!("no {what}:\n{explained}"));
        assert!(place("Range in order_line") < place("Lookup in stock"), "{text}\n{explained}");
    }
}

/// How long a lookup takes; run with `--ignored --nocapture` on a release build.
#[test]
#[ignore = "a measurement"]
fn lookup_time() {
    let mut world = World::new();
    let columns: [Def<'_>; 4] = [
        ("id", SqlType::Integer, true),
        ("a", SqlType::Integer, false),
        ("b", SqlType::BigInt, false),
        ("name", SqlType::Text, false),
    ];
    const ROWS: i32 = 1_000_000;
    let rows: Vec<Vec<Value>> = (0..ROWS)
        .map(|id| {
            vec![int(id), int(id / 2), Value::Int64(id as i64), Value::Text(format!("n{id}"))]
        })
        .collect();
    world.table("t", &columns, &["u:id"], 1, &rows);
    let bound = world.bind("SELECT a, b, name FROM t WHERE id = $1").expect("bound");
    let plan = PointPlan::compile(&bound.plan).expect("a point plan");
    let general = world.bind("SELECT a, b, name FROM t WHERE id = $1 AND a >= 0").expect("bound");
    let general = PointPlan::compile(&general.plan).expect("a point plan");
    let (cancel, roots) = (CancelToken::new(), world.snapshot(plan.tables()));
    let root = &roots[0][0];
    let index = root.indexes().next().expect("one index");
    let (mut scratch, mut rows, mut key) = (Scratch::default(), RowSet::new(3), Default::default());
    let mut rng = Rng::new(3);
    let ids: Vec<i32> = (0..1 << 20).map(|_| rng.range(0..ROWS as i64) as i32).collect();
    for round in 0..3 {
        let time = |name: &str, each: &mut dyn FnMut(i32)| {
            let start = std::time::Instant::now();
            ids.iter().for_each(|id| each(*id));
            println!(
                "{round} {name}: {:.1} ns",
                start.elapsed().as_nanos() as f64 / ids.len() as f64
            );
        };
        time("descent and three values", &mut |id| {
            index.encode(&[ValueRef::Int32(id)], &mut key);
            let row = root.row(index.get(&key).expect("there")).expect("there");
            std::hint::black_box([row.value(1), row.value(2), row.value(3)]);
        });
        for (name, plan) in [("unique lookup", &plan), ("with a condition", &general)] {
            time(name, &mut |id| {
                let params = [int(id)];
                let env = world.env(&params, &cancel);
                rows.reset(3);
                plan.run(&env, Roots::Snapshot(&roots), &mut rows, &mut scratch).expect("runs");
                std::hint::black_box(rows.len());
            });
        }
    }
}

/// A statement over two tables: both sides restricted so that an index may help, compared by columns with and
/// without an index, in one of the ways in which SQL says that rows belong together.
fn random_pair(below: &mut dyn FnMut(usize) -> usize) -> String {
    let tables = ["item", "spread"];
    let (left, right) = (tables[below(2)], tables[below(2)]);
    let restriction = |below: &mut dyn FnMut(usize) -> usize, of: &str| match below(7) {
        0 => format!("{of}.id = {}", below(420)),
        1 | 2 => format!("{of}.grp = {}", below(14)),
        3 => format!("{of}.name = 'item {}'", below(40)),
        4 => format!("{of}.grp IN ({}, {})", below(14), below(14)),
        5 => format!("{of}.price = {}.{:02}", below(8), below(4) * 25),
        _ => format!("{of}.id BETWEEN {} AND {}", below(200), 200 + below(200)),
    };
    let columns = ["id", "grp", "big", "name", "price", "day", "score"];
    // A comparison of different widths, or of one column with another.
    let pair = |below: &mut dyn FnMut(usize) -> usize| match below(6) {
        0 => ("id", "grp"),
        1 => ("grp", "id"),
        2 => ("grp", "big"),
        _ => {
            let column = columns[below(columns.len())];
            (column, column)
        }
    };
    let a = restriction(below, "a");
    let b = restriction(below, "b");
    let keys: Vec<(&str, &str)> = (0..1 + below(2)).map(|_| pair(below)).collect();
    let mut on: Vec<String> = keys.iter().map(|(x, y)| format!("a.{x} = b.{y}")).collect();
    if below(4) == 0 {
        on.push(["a.id < b.id", "a.score + b.score > 5", "a.name <> b.name"][below(3)].to_owned());
    }
    let on = on.join(" AND ");
    match below(9) {
        0 => format!(
            "SELECT a.id, b.id, b.name FROM {left} a JOIN {right} b ON {on} WHERE {a} AND {b}"
        ),
        1 => format!(
            "SELECT a.id, b.id, b.name FROM {left} a LEFT JOIN (SELECT * FROM {right} b WHERE {b}) b ON {on} WHERE {a}"
        ),
        2 => format!(
            "SELECT a.id FROM {left} a WHERE {a} AND EXISTS (SELECT 1 FROM {right} b WHERE {b} AND {on})"
        ),
        3 => format!(
            "SELECT a.id FROM {left} a WHERE {a} AND NOT EXISTS (SELECT 1 FROM {right} b WHERE {b} AND {on})"
        ),
        4 => {
            let (x, y) = keys[0];
            format!(
                "SELECT a.id FROM {left} a WHERE {a} AND a.{x} IN (SELECT b.{y} FROM {right} b WHERE {b})"
            )
        }
        5 => {
            let column = columns[below(columns.len())];
            let how = ["INTERSECT", "EXCEPT"][below(2)];
            format!(
                "SELECT a.{column}, a.grp FROM {left} a WHERE {a} {how} SELECT b.{column}, b.grp FROM {right} b WHERE {b}"
            )
        }
        6 => format!(
            "SELECT a.id, (SELECT max(b.price) FROM {right} b WHERE {b} AND {on}) FROM {left} a WHERE {a}"
        ),
        7 => format!(
            "SELECT DISTINCT a.grp, a.name FROM {left} a JOIN {right} b ON {on} WHERE {a} AND {b}"
        ),
        _ => format!(
            "SELECT a.id FROM {left} a WHERE EXISTS (SELECT 1 FROM {right} b WHERE {b} AND {on})"
        ),
    }
}

fn random_query(below: &mut dyn FnMut(usize) -> usize) -> String {
    let table = ["item", "spread"][below(2)];
    let condition = |below: &mut dyn FnMut(usize) -> usize, alias: &str| {
        let op = ["=", "<", "<=", ">", ">=", "<>"][below(6)];
        match below(9) {
            0 => format!("{alias}.id = {}", below(420)),
            1 => format!("{alias}.grp = {}", below(14)),
            2 => format!("{alias}.grp {op} {}", below(14)),
            3 => format!("{alias}.name = 'item {}'", below(40)),
            4 => format!("{alias}.day {op} DATE '2019-04-{:02}'", 10 + below(16)),
            5 => format!("{alias}.price {op} {}.{:02}", below(8), below(100)),
            6 => format!("{alias}.grp IN ({}, {}, {})", below(14), below(14), below(14)),
            7 => format!("{alias}.price IS {}NULL", ["", "NOT "][below(2)]),
            _ => format!("{alias}.id BETWEEN {} AND {}", below(200), 200 + below(200)),
        }
    };
    let mut conditions: Vec<String> = vec![];
    for _ in 0..1 + below(3) {
        let next = condition(below, "a");
        conditions.push(if below(6) == 0 {
            format!("({next} OR {})", condition(below, "a"))
        } else {
            next
        });
    }
    let mut from = format!("{table} a");
    if below(4) == 0 {
        let key = ["a.grp", "a.id"][below(2)];
        let kind = ["JOIN", "LEFT JOIN"][below(2)];
        from = format!("{from} {kind} item b ON b.id = {key}");
    }
    let filter = conditions.join(" AND ");
    match below(5) {
        0 => format!(
            "SELECT count(*), sum(a.price), min(a.day), max(a.name) FROM {from} WHERE {filter}"
        ),
        1 => {
            format!("SELECT a.grp, count(*), sum(a.big) FROM {from} WHERE {filter} GROUP BY a.grp")
        }
        2 => {
            let key = ["a.price", "a.name DESC", "a.day", "a.grp DESC, a.day"][below(4)];
            format!(
                "SELECT a.id, a.price FROM {from} WHERE {filter} ORDER BY {key}, a.id LIMIT {}",
                1 + below(9)
            )
        }
        3 => format!("SELECT DISTINCT a.name, a.grp FROM {from} WHERE {filter}"),
        _ => format!("SELECT a.id, a.name, a.price * 2, a.grp + 1 FROM {from} WHERE {filter}"),
    }
}
