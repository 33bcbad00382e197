//! Typed programs against DataFusion's evaluation of the same expressions, and both against the
//! meanings of `halcyon_value` ([`reference`]).
//!
//! Strategy: random expressions as SQL text over one row of every type, bound as queries are, then
//! evaluated by [`Program::compile`], its slow twin (which is the vectorised side on a batch of one
//! row) and the reference over rows of ordinary, extreme and NULL values. Invariant: the same value,
//! or errors of the same SQLSTATE. Where evaluation order decides whether an error is met at all
//! (AND, OR, CASE, COALESCE, …), an error on one side alone passes.
//! `HALCYON_SEED=n` runs another seed.

mod reference;
mod world;

use std::sync::Arc;

use datafusion::common::DFSchema;
use halcyon_base::rng::Rng;
use halcyon_catalog::Catalog;
use halcyon_plan::bind::Binder;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::{Clock, Env};
use halcyon_plan::scalar::{Arena, Program};
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::parse::{self, ast};
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;
use halcyon_txn::CancelToken;
use reference::{Reference, Refused};

const COLUMNS: [(&str, SqlType); 10] = [
    ("s", SqlType::SmallInt),
    ("i", SqlType::Integer),
    ("l", SqlType::BigInt),
    ("d", SqlType::Double),
    ("n", SqlType::Decimal { precision: 9, scale: 2 }),
    ("t", SqlType::Text),
    ("u", SqlType::Text),
    ("b", SqlType::Boolean),
    ("da", SqlType::Date),
    ("ts", SqlType::Timestamp),
];

/// An expression of a kind: `i`nteger, `d`ouble, `n`umeric, `t`ext, `b`oolean, `a` date or timestamp.
fn random(rng: &mut Rng, kind: char, depth: u32) -> String {
    let leaf = depth == 0 || rng.below(4) == 0;
    let sub = |rng: &mut Rng, kind| random(rng, kind, depth.saturating_sub(1));
    match kind {
        'i' if leaf => (*rng.pick(&["s", "i", "l", "1", "7", "-3", "2147483647", "0"])).into(),
        'd' if leaf => (*rng.pick(&["d", "1.5::double precision", "l::double precision"])).into(),
        'n' if leaf => (*rng.pick(&["n", "1.25", "0.5", "i::numeric(12,2)"])).into(),
        't' if leaf => (*rng.pick(&["t", "u", "'ab'", "'Äö%'", "''"])).into(),
        'b' if leaf => (*rng.pick(&["b", "true", "false", "NULL::boolean"])).into(),
        'a' if leaf => (*rng.pick(&["ts", "TIMESTAMP '2024-02-29 12:34:56'"])).into(),
        'i' => {
            let (a, b) = (sub(rng, 'i'), sub(rng, 'i'));
            let fields = ["year", "quarter", "month", "day", "hour", "minute", "dow", "doy"];
            let rare = ["isodow", "decade", "century", "isoyear", "millennium"];
            match rng.below(15) {
                0..5 => format!("({a} {} {b})", rng.pick(&["+", "-", "*", "/", "%"])),
                5 => format!("abs({a})"),
                6 => format!("length({})", sub(rng, 't')),
                7 => format!("strpos({}, {})", sub(rng, 't'), sub(rng, 't')),
                8 => format!("extract({} from {})", rng.pick(&fields), sub(rng, 'a')),
                9 => format!("extract({} from {})", rng.pick(&rare), sub(rng, 'a')),
                10 => format!("({})::integer", sub(rng, 'n')),
                11 => format!("({})::bigint", sub(rng, 'd')),
                12 => format!("nullif({a}, {b})"),
                13 => format!("greatest({a}, {b})"),
                _ => format!("CASE WHEN {} THEN {a} ELSE {b} END", sub(rng, 'b')),
            }
        }
        'd' => {
            let (a, b) = (sub(rng, 'd'), sub(rng, 'd'));
            let of_one = ["sqrt", "exp", "ln", "cos", "atan", "round", "trunc", "degrees", "asin"];
            match rng.below(6) {
                3 => format!("{}({a})", rng.pick(&of_one)),
                4 => format!("{}({a}, {b})", rng.pick(&["power", "atan2", "log"])),
                5 => format!("sqrt({})", sub(rng, 'i')),
                0 => format!("floor({a})"),
                1 => format!("coalesce({a}, {b})"),
                _ => format!("({a} {} {b})", rng.pick(&["+", "-", "*", "/"])),
            }
        }
        'n' => {
            let (a, b) = (sub(rng, 'n'), sub(rng, 'n'));
            match rng.below(9) {
                7 => format!("round({a}, {})", rng.below(3)),
                8 => format!("trunc({a}, 1)"),
                0 => format!("abs({a})"),
                1 => format!("({a})::numeric(12,1)"),
                2 => format!("({a} / {b})::numeric(20,3)"),
                3 => format!("({})::numeric(18,4)", sub(rng, 'd')),
                4 => format!("extract(second from {})", sub(rng, 'a')),
                _ => format!("({a} {} {b})", rng.pick(&["+", "-", "*"])),
            }
        }
        't' => {
            let (a, b) = (sub(rng, 't'), sub(rng, 't'));
            let n = rng.below(4);
            match rng.below(9) {
                8 => format!("({})::text", sub(rng, 'i')),
                0 => format!("lower({a})"),
                1 => format!("upper({a})"),
                2 => format!("({a} || {b})"),
                3 => format!("substr({a}, {n}, 2)"),
                4 => format!("left({a}, {n})"),
                5 => format!("right({a}, {n})"),
                6 => format!("replace({a}, 'a', {b})"),
                _ => format!("btrim({a})"),
            }
        }
        'a' => {
            let of = sub(rng, 'a');
            if rng.below(4) == 0 {
                let field = rng.pick(&["year", "quarter", "month", "day", "hour", "second"]);
                return format!("date_trunc('{field}', {of})");
            }
            let unit = rng.pick(&["1 month", "3 days", "2 hours", "1 year"]);
            format!("({of} {} INTERVAL '{unit}')", rng.pick(&["+", "-"]))
        }
        _ => {
            let kind = *rng.pick(&['i', 'd', 'n', 't', 'a', 'b']);
            let (a, b) = (sub(rng, kind), sub(rng, kind));
            let op = rng.pick(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]);
            match rng.below(9) {
                0 => format!("({} AND {})", sub(rng, 'b'), sub(rng, 'b')),
                1 => format!("({} OR {})", sub(rng, 'b'), sub(rng, 'b')),
                2 => format!("(NOT {})", sub(rng, 'b')),
                3 => format!("({a} IS NULL)"),
                4 => {
                    let like = rng.pick(&["LIKE", "ILIKE", "NOT LIKE", "NOT ILIKE"]);
                    let patterns = ["%a_%", "%a%", "a%", "%a%a%", "Äö\\%", "%Ö%", "_B%", ""];
                    format!("({} {like} '{}')", sub(rng, 't'), rng.pick(&patterns))
                }
                5 => format!("({a} IN ({b}, {}))", sub(rng, kind)),
                6 => format!("({a} = ANY (ARRAY[{b}, {}]))", sub(rng, kind)),
                _ => format!("({a} {op} {b})"),
            }
        }
    }
}

/// A row of values, a third of them NULL or extreme.
fn row(rng: &mut Rng) -> [ValueRef<'static>; 10] {
    let days = rng.range(-20_000..20_000);
    let mut values = [
        ValueRef::Int16(*rng.pick(&[0, 1, -7, i16::MAX, i16::MIN])),
        ValueRef::Int32(*rng.pick(&[0, 3, -2, 100, i32::MAX, i32::MIN])),
        ValueRef::Int64(*rng.pick(&[0, 5, -1, 1 << 40, i64::MAX, i64::MIN])),
        ValueRef::Float64(*rng.pick(&[0.0, 1.5, -2.25, 1e300, 3.0])),
        ValueRef::Decimal(*rng.pick(&[0, 125, -50, 999_999_999])),
        ValueRef::Text(rng.pick::<&str>(&["", "a", "Abc", "äÖü ", "  banana"])),
        ValueRef::Text(rng.pick::<&str>(&["a", "an", "%", "Z"])),
        ValueRef::Bool(rng.below(2) == 0),
        ValueRef::Date(days as i32),
        ValueRef::Timestamp(days * 86_400_000_000 + 12_345),
    ];
    for value in &mut values {
        if rng.below(6) == 0 {
            *value = ValueRef::Null;
        }
    }
    values
}

/// What a run saw.
#[derive(Default)]
struct Tally {
    values: usize,
    errors: usize,
    /// Evaluations that the reference does not know.
    unknown: usize,
    /// What the reference says otherwise.
    differences: Vec<String>,
}

/// A value or the state of an error, for comparison.
fn outcome(result: Result<ValueRef<'_>, SqlError>) -> Result<String, SqlState> {
    result.map(show).map_err(|error| error.state())
}

/// Whether two evaluations say the same of an expression.
fn agree(text: &str, left: &Result<String, SqlState>, right: &Result<String, SqlState>) -> bool {
    let lazy = [" AND ", " OR ", "CASE", "coalesce", " IN ", "IS DISTINCT", "nullif", "greatest"];
    match (left, right) {
        (Ok(left), Ok(right)) => left == right,
        (Err(left), Err(right)) => left == right,
        _ => lazy.iter().any(|word| text.contains(word)),
    }
}

fn run(seed: u64, rounds: usize, planted: bool) -> Tally {
    let catalog = Arc::new(Catalog::initial());
    let session = world::session();
    let df = DataFusion::default();
    let binder = Binder::new(&catalog, &session, &df);
    let fields: Vec<_> = COLUMNS.iter().map(|(name, ty)| ty.field(name, true)).collect();
    let schema = DFSchema::try_from(arrow::datatypes::Schema::new(fields)).expect("distinct");
    let cancel = CancelToken::new();
    let env = Env {
        catalog: &catalog,
        params: &[],
        session: &session,
        clock: Clock::since(1_700_000_000_000_000),
        cancel: &cancel,
        workers: None,
    };
    let reference = Reference { schema: &schema, planted };
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    for round in 0..rounds {
        let kind = *rng.pick(&['i', 'd', 'n', 't', 'b', 'a']);
        let text = random(&mut rng, kind, 3);
        let query = format!("SELECT {text}");
        let parsed = parse::parse(&query).expect("well formed").remove(0);
        let Some(query) = parsed.statement.into_query() else { panic!("a query") };
        let ast::SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        let ast::SelectItem::UnnamedExpr(tree) = &select.projection[0] else { panic!("one item") };
        // A constant that overflows is refused while it is bound.
        let Ok(expr) = binder.expr(tree, &schema) else { continue };
        let (Ok(fast), Ok(slow)) =
            (Program::compile(&expr, &schema), Program::compile_slow(&expr, &schema))
        else {
            panic!("{text} does not compile")
        };
        for _ in 0..12 {
            let row = row(&mut rng);
            let (arena, slow_arena) = (Arena::new(), Arena::new());
            let got = outcome(fast.eval(&row, &env, &arena));
            let wanted = outcome(slow.eval(&row, &env, &slow_arena));
            let told = format!("HALCYON_SEED={seed} round {round}: {text}\n{expr}\n{row:?}");
            assert!(agree(&text, &got, &wanted), "{told}\ntyped: {got:?}\nslow: {wanted:?}");
            let meant = match reference.eval(&expr, &row) {
                Ok(value) => Ok(show(value.as_ref())),
                Err(Refused::Value(error)) => Err(SqlError::from(error).state()),
                Err(Refused::Unknown) => {
                    tally.unknown += 1;
                    continue;
                }
            };
            if !agree(&text, &got, &meant) {
                let difference = format!("{told}\ntyped: {got:?}\nreference: {meant:?}");
                tally.differences.push(difference);
            }
            match got {
                Ok(_) => tally.values += 1,
                Err(_) => tally.errors += 1,
            }
        }
    }
    tally
}

#[test]
fn programs_agree_with_their_slow_twins_and_with_the_meaning_of_values() {
    let seed = std::env::var("HALCYON_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let Tally { values, errors, unknown, differences } = run(seed, 1_000, false);
    assert!(differences.is_empty(), "{} of them, {}", differences.len(), differences[0]);
    assert!(values > 6_000 && errors > 200, "{values} values, {errors} errors");
    assert!(unknown * 10 < values, "{unknown} evaluations are unknown to the reference");
}

/// The comparison with the reference can fail.
#[test]
fn a_planted_fault_is_seen() {
    let found = run(1, 300, true).differences;
    assert!(!found.is_empty() && found.iter().all(|difference| difference.contains('+')));
}

fn show(value: ValueRef<'_>) -> String {
    match value {
        // DataFusion tells -0 from 0, PostgreSQL does not.
        ValueRef::Float64(value) => format!("{}", value + 0.0),
        other => format!("{other:?}"),
    }
}
