//! Every function of the table through every executor: a row of `halcyon_value::functions` is all that
//! point plans, analytical plans and materialized views need to know.
//!
//! Strategy: for each row of the table and each list of types that it takes, calls over columns of
//! random rows, a quarter of them NULL. Invariant: a point plan, an analytical plan and a view over
//! the same row give the value that the table's own evaluation gives, or an error of its SQLSTATE.
//! `HALCYON_SEED=n` runs another seed.

use halcyon::{Database, Session, SqlState, SqlType, Value};
use halcyon_base::rng::Rng;
use halcyon_value::Type;
use halcyon_value::functions::{self, ArgumentKind, Call, Function};

/// Rows of the table of arguments.
const ROWS: i64 = 24;
/// Columns of each type.
const COLUMNS: usize = 3;

/// A type with its name in SQL, and values of it as SQL writes them.
type Column = (Type, &'static str, &'static [&'static str]);

const TYPES: &[Column] = &[
    (Type::Bool, "boolean", &["true", "false"]),
    (Type::Int16, "smallint", &["0", "-7", "3", "32767", "-32768"]),
    (Type::Int32, "integer", &["0", "1", "-2", "4", "2147483647"]),
    (Type::Int64, "bigint", &["0", "-1", "2", "1099511627776"]),
    (Type::Float32, "real", &["0", "1.5", "-2.5", "0.25"]),
    (
        Type::Float64,
        "double precision",
        &["0", "1", "-1", "0.5", "-2.5", "1e300", "4", "-1e-300", "712"],
    ),
    (
        Type::Decimal { precision: 12, scale: 2 },
        "numeric(12, 2)",
        &["0", "1.25", "-2.5", "999999999.99", "-0.01"],
    ),
    (
        Type::Decimal { precision: 30, scale: 6 },
        "numeric(30, 6)",
        &["0", "1.250001", "-2.5", "123456789012345678.654321"],
    ),
    (Type::Text, "text", &["''", "'a'", "'Abc'", "'äÖü'", "'  b a '", "'b'", "'%_!'", "'ab'"]),
    (Type::Bytes, "bytea", &["'\\x00'", "'\\xff01'"]),
    (Type::Date, "date", &["'2024-02-29'", "'1969-12-31'", "'1900-01-01'"]),
    (Type::Time, "time", &["'00:00'", "'12:34:56.789'"]),
    (Type::Timestamp, "timestamp", &["'2024-02-29 12:34:56.5'", "'1969-12-31 23:59:59'"]),
    (
        Type::TimestampTz,
        "timestamp with time zone",
        &["'2024-02-29 12:34:56.5+00'", "'1969-12-31 23:59:59+00'"],
    ),
    (Type::Interval, "interval", &["'1 month 2 days'", "'-3 hours'"]),
    (Type::Uuid, "uuid", &["'00000000-0000-0000-0000-000000000001'"]),
];

/// Whether a view may hold values of the type.
fn in_views(ty: Type) -> bool {
    !matches!(ty, Type::Bytes | Type::Time | Type::Interval | Type::Uuid)
}

fn column(ty: usize, number: usize) -> String {
    format!("c{ty}_{}", number % COLUMNS)
}

/// Types and numbers of all columns.
fn all() -> impl Iterator<Item = (usize, usize)> {
    (0..TYPES.len()).flat_map(|ty| (0..COLUMNS).map(move |number| (ty, number)))
}

/// The columns that views take.
fn columns_of_views() -> String {
    let columns = all().filter(|(ty, _)| in_views(TYPES[*ty].0));
    columns.map(|(ty, number)| column(ty, number)).collect::<Vec<_>>().join(", ")
}

/// The tables `t`, filled, and `u` with the columns that views take, empty.
fn fill(session: &mut Session, rng: &mut Rng) {
    let columns: Vec<String> =
        all().map(|(ty, number)| format!("{} {}", column(ty, number), TYPES[ty].1)).collect();
    let columns = columns.join(", ");
    session.batch(&format!("CREATE TABLE t (id integer PRIMARY KEY, {columns})")).unwrap();
    let some = columns_of_views();
    session.batch(&format!("CREATE TABLE u AS SELECT id, {some} FROM t")).unwrap();
    for id in 0..ROWS {
        let values = all().map(|(ty, _)| match rng.below(4) {
            0 => "NULL".to_owned(),
            _ => (*rng.pick(TYPES[ty].2)).to_owned(),
        });
        let values: Vec<String> = values.collect();
        session.batch(&format!("INSERT INTO t VALUES ({id}, {})", values.join(", "))).unwrap();
    }
}

/// The outcome of a query of one value; `None` without a row.
fn one(session: &mut Session, text: &str) -> Option<Result<Value, SqlState>> {
    let rows = session.query(text, &[]).and_then(|rows| rows.collect());
    match rows {
        Ok(rows) => rows.first().map(|row| Ok(row[0].clone())),
        Err(error) => Some(Err(error.state())),
    }
}

fn shown(outcome: &Result<Value, SqlState>) -> String {
    match outcome {
        // Views and PostgreSQL do not tell -0 from 0.
        Ok(Value::Float64(value)) => format!("{:?}", value + 0.0),
        Ok(Value::Float32(value)) => format!("{:?}", value + 0.0),
        other => format!("{other:?}"),
    }
}

/// The lists of types, by number in [`TYPES`], with which a function is tried.
fn argument_lists(function: &Function) -> Vec<Vec<usize>> {
    let taken = |kind: ArgumentKind| -> Vec<usize> {
        let fits = |(_, (ty, ..)): &(usize, &Column)| kind.brings(*ty) == Some(*ty);
        TYPES.iter().enumerate().filter(fits).map(|(at, _)| at).collect()
    };
    let most = function.takes.kinds.len();
    let counts =
        if function.takes.any_number { 2..=5 } else { most - function.takes.optional..=most };
    let mut lists = vec![];
    for count in counts.clone() {
        let kinds: Vec<Vec<usize>> = (0..count).map(|at| taken(function.takes.kind(at))).collect();
        let most = kinds.iter().map(Vec::len).max().expect("an argument");
        // Every type once, and the other counts of arguments with a few of them.
        let rounds = if count == *counts.start() { most } else { most.min(2) };
        for round in 0..rounds {
            lists.push(kinds.iter().map(|types| types[round % types.len()]).collect());
        }
    }
    lists
}

/// An argument: a column, or a constant where DataFusion's kernel takes no column.
fn argument(function: &Function, at: usize, ty: usize, rng: &mut Rng) -> String {
    let fields: &[&str] = match function.name() {
        "date_trunc" => &["'month'", "'day'", "'hour'"],
        "extract_whole" => &["'dow'", "'century'", "'isodow'", "'nonsense'"],
        "extract_fraction" => &["'second'", "'epoch'", "'dow'"],
        _ => return column(ty, at),
    };
    if at == 0 { (*rng.pick(fields)).to_owned() } else { column(ty, at) }
}

/// Whether PostgreSQL refuses EXTRACT of a field of [`argument`] from values of a type.
fn lacks(ty: Type, field: &str) -> bool {
    match field {
        "'second'" => ty == Type::Date,
        "'dow'" | "'isodow'" => matches!(ty, Type::Time | Type::Interval),
        "'century'" => ty == Type::Time,
        _ => false,
    }
}

/// Tries a function with arguments of these types on some rows; how many values and errors it met.
fn try_calls(
    session: &mut Session,
    rng: &mut Rng,
    function: &'static Function,
    types: &[usize],
    differences: &mut Vec<String>,
) -> [usize; 2] {
    let args: Vec<String> =
        types.iter().enumerate().map(|(at, ty)| argument(function, at, *ty, rng)).collect();
    let text = format!("{}({})", function.name(), args.join(", "));
    let given: Vec<Option<Type>> = types.iter().map(|ty| Some(TYPES[*ty].0)).collect();
    let call = Call::of(function, &given).unwrap_or_else(|| panic!("{text} of {given:?}"));
    if types.len() == 2 && lacks(TYPES[types[1]].0, &args[0]) {
        let moment = &args[1];
        let refused = one(session, &format!("SELECT {text} FROM t WHERE {moment} IS NOT NULL"));
        assert_eq!(refused, Some(Err(SqlState::FEATURE_NOT_SUPPORTED)), "{text}");
        let unknown = one(session, &format!("SELECT {text} FROM t WHERE {moment} IS NULL"));
        assert_eq!(unknown, Some(Ok(Value::Null)), "{text}");
        return [1, 1];
    }
    // A function of literals alone may be refused while it is planned, by every executor alike.
    let view = format!("CREATE MATERIALIZED VIEW v AS SELECT id, {text} AS x FROM u");
    let created = session.batch(&view);
    let has_view = call.args().iter().chain([&call.result()]).all(|ty| in_views(*ty));
    match &created {
        Ok(_) => assert!(has_view, "{view}"),
        Err(error) if has_view => {
            differences.push(format!("{view}: {error}"));
            return [0; 2];
        }
        Err(_) => {}
    }
    let mut met = [0; 2];
    for _ in 0..4 {
        let id = rng.below(ROWS as u64);
        let values: Vec<Value> = args
            .iter()
            .map(|arg| {
                let value = one(session, &format!("SELECT {arg} FROM t WHERE id = {id}"));
                value.expect("a row").expect("an argument")
            })
            .collect();
        let values: Vec<_> = values.iter().map(Value::as_ref).collect();
        let meant = call.value(&values).map_err(|error| SqlState::new(&error.state()));
        // A planner may keep fewer places of a rounded decimal.
        let meant = match (meant, function.name()) {
            (Ok(Value::Decimal(_)), "round" | "ceil" | "floor" | "trunc") => {
                let whole =
                    session.query(format!("SELECT {text} FROM t LIMIT 0").as_str(), &[]).unwrap();
                let Some(SqlType::Decimal { precision, scale }) = whole.columns()[0].ty else {
                    panic!("{text} is no decimal")
                };
                let given: Vec<Type> = call.args().to_vec();
                let result = Type::Decimal { precision, scale };
                let call = Call::exact(function.name(), &given, result).expect("places");
                call.value(&values).map_err(|error| SqlState::new(&error.state()))
            }
            // EXTRACT of some fields of a day has no places.
            (Ok(Value::Decimal(value)), "extract_fraction") => {
                let whole =
                    session.query(format!("SELECT {text} FROM t LIMIT 0").as_str(), &[]).unwrap();
                let (Some(SqlType::Decimal { scale, .. }), Type::Decimal { scale: full, .. }) =
                    (whole.columns()[0].ty, call.result())
                else {
                    panic!("{text} is no decimal")
                };
                let unit = 10_i128.pow((full - scale) as u32);
                assert_eq!(value % unit, 0, "{text}");
                Ok(Value::Decimal(value / unit))
            }
            (meant, _) => meant,
        };
        let meant = shown(&meant);
        let told = format!("{text} of {values:?} in row {id}");
        let mut compare = |found: Result<Value, SqlState>, by: &str| {
            let found = shown(&found);
            if found != meant {
                differences.push(format!("{told}\n  meant {meant}, {by} gives {found}"));
            }
        };
        let point = one(session, &format!("SELECT {text} FROM t WHERE id = {id}"));
        compare(point.expect("a row"), "a point plan");
        let whole = one(session, &format!("SELECT {text} FROM t WHERE id + 0 = {id}"));
        compare(whole.expect("a row"), "an analytical plan");
        if has_view {
            let put = session.batch(&format!(
                "INSERT INTO u SELECT id, {} FROM t WHERE id = {id}",
                columns_of_views()
            ));
            let kept = match put {
                Ok(_) => one(session, "SELECT x FROM v").expect("a row"),
                Err(error) => Err(error.state()),
            };
            compare(kept, "a view");
            session.batch("DELETE FROM u").unwrap();
            assert_eq!(one(session, "SELECT x FROM v"), None, "{told}, view after DELETE");
        }
        met[usize::from(meant.starts_with("Err"))] += 1;
    }
    if has_view {
        session.batch("DROP MATERIALIZED VIEW v").unwrap();
    }
    met
}

#[test]
fn a_row_of_the_table_serves_every_executor() {
    let seed = std::env::var("HALCYON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("HALCYON_SEED={seed}");
    let mut rng = Rng::new(seed);
    let database = Database::in_memory();
    let mut session = database.session();
    fill(&mut session, &mut rng);
    let explained = |session: &mut Session, condition: &str| {
        let plan = format!("EXPLAIN SELECT upper(c8_0) FROM t WHERE {condition}");
        let rows = session.query(plan.as_str(), &[]).and_then(|rows| rows.collect()).unwrap();
        format!("{rows:?}")
    };
    assert_ne!(explained(&mut session, "id = 1"), explained(&mut session, "id + 0 = 1"));
    let mut met = [0; 2];
    let mut differences = vec![];
    for function in functions::all() {
        for types in argument_lists(function) {
            let [values, errors] =
                try_calls(&mut session, &mut rng, function, &types, &mut differences);
            met[0] += values;
            met[1] += errors;
        }
    }
    assert!(differences.is_empty(), "{}: {}", differences.len(), differences.join("\n"));
    assert!(met[0] > 250 && met[1] > 15, "{met:?}");
}
