//! Random rows, joined here and by DataFusion's operator.

use std::cell::Cell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, collect_partitioned, displayable};
use datafusion::prelude::SessionConfig;
use halcyon_base::interrupt::watching;
use halcyon_base::rng::Rng;
use halcyon_scan::lazy::and;
use halcyon_sql::diagnose::sql_error;

use crate::{RangeJoinExec, range_joins};

const KINDS: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::LeftMark,
    JoinType::RightSemi,
    JoinType::RightAnti,
    JoinType::RightMark,
];

/// Columns to be compared, of one kind.
const COLUMNS: usize = 3;

fn column(rng: &mut Rng, rows: usize, values: u64, kind: u64) -> ArrayRef {
    let numbers = (0..rows).map(|_| {
        let is_null = rng.chance(1, 12);
        (!is_null).then(|| rng.below(values) as i64 - values as i64 / 2)
    });
    let text = |n: i64| match n % 7 {
        0 => String::new(),
        1 => format!("with a beginning of many {n}"),
        2 => format!("{n}\0"),
        _ => n.to_string(),
    };
    let float = |n: i64| match n % 11 {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        3 => -f64::NAN,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        _ => n as f64 / 2.0,
    };
    match kind {
        0 => Arc::new(Int16Array::from_iter(numbers.map(|n| n.map(|n| n as i16)))),
        1 => Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        2 => Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n << 40)))),
        3 => Arc::new(StringViewArray::from_iter(numbers.map(|n| n.map(text)))),
        4 => Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        5 => Arc::new(TimestampMicrosecondArray::from_iter(numbers)),
        6 => Arc::new(Float64Array::from_iter(numbers.map(|n| n.map(float)))),
        _ => {
            let values = numbers.map(|n| n.map(|n| i128::from(n) << 80));
            let ty = DataType::Decimal128(38, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
    }
}

/// Batches: columns of one kind, a row's number, and a divisor.
fn side(rng: &mut Rng, kind: u64, values: u64, batches: u64) -> (SchemaRef, Vec<RecordBatch>) {
    let mut all = Vec::new();
    let mut first = 0;
    for _ in 0..batches {
        let rows = rng.below(80) as usize;
        let mut columns: Vec<ArrayRef> =
            (0..COLUMNS).map(|_| column(rng, rows, values, kind)).collect();
        columns.push(Arc::new(Int32Array::from_iter_values(first..first + rows as i32)));
        columns.push(column(rng, rows, 20, 1));
        first += rows as i32;
        let field = |(number, values): (usize, &ArrayRef)| {
            Field::new(format!("c{number}"), values.data_type().clone(), true)
        };
        let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
        all.push(RecordBatch::try_new(Arc::new(schema), columns).expect("a batch"));
    }
    (all[0].schema(), all)
}

fn source((schema, batches): &(SchemaRef, Vec<RecordBatch>)) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(std::slice::from_ref(batches), Arc::clone(schema), None)
        .expect("rows")
}

/// The rows of a plan, without their order.
fn rows(plan: &Arc<dyn ExecutionPlan>, context: TaskContext) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let parts = runtime.block_on(collect_partitioned(Arc::clone(plan), Arc::new(context)))?;
    let batches: Vec<RecordBatch> = parts.into_iter().flatten().collect();
    let all = concat_batches(&plan.schema(), &batches).expect("of one schema");
    let row = |row: usize| {
        let cells = all.columns().iter().map(|column| match column.is_null(row) {
            true => "∅".to_owned(),
            false => array_value_to_string(column, row).expect("shown"),
        });
        cells.collect::<Vec<_>>().join(" | ")
    };
    let mut rows: Vec<String> = (0..all.num_rows()).map(row).collect();
    rows.sort();
    Ok(rows)
}

fn context(batch_rows: usize) -> TaskContext {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    TaskContext::default().with_session_config(config)
}

type Expr = Arc<dyn PhysicalExpr>;

/// A filter over all columns of two sides with these schemas; `expr` is over the left ones and then the right ones.
fn filter(left: &Schema, right: &Schema, expr: Expr) -> JoinFilter {
    let of = |schema: &Schema, side| {
        let columns = 0..schema.fields().len();
        columns.map(move |index| ColumnIndex { index, side }).collect::<Vec<_>>()
    };
    let indices = [of(left, JoinSide::Left), of(right, JoinSide::Right)].concat();
    let fields: Vec<_> = left.fields().iter().chain(right.fields()).cloned().collect();
    JoinFilter::new(expr, indices, Arc::new(Schema::new(fields)))
}

fn of_column(place: usize) -> Expr {
    Arc::new(Column::new("c", place))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

/// A condition of several comparisons, of which one at least is a bound.
fn condition(rng: &mut Rng, width: usize) -> Expr {
    use Operator::{And, Divide, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let compared = |rng: &mut Rng| {
        let (left, right) = (rng.below(COLUMNS as u64), rng.below(COLUMNS as u64));
        let (left, right) = (of_column(left as usize), of_column(width + right as usize));
        let op = *rng.pick(&[Lt, LtEq, Gt, GtEq, Lt, LtEq, Gt, GtEq, Eq]);
        match rng.chance(1, 2) {
            true => binary(left, op, right),
            false => binary(right, op, left),
        }
    };
    let mut all = compared(rng);
    for _ in 0..rng.below(4) {
        let next = match rng.below(8) {
            0 => {
                let (one, other) = (compared(rng), compared(rng));
                binary(one, Or, other)
            }
            1 => binary(of_column(COLUMNS), NotEq, of_column(width + COLUMNS)),
            _ => compared(rng),
        };
        all = match rng.chance(1, 2) {
            true => binary(all, And, next),
            false => and(all, next),
        };
    }
    if rng.chance(1, 6) {
        // An expression with an error for some rows, which the condition before it keeps away.
        let side = rng.below(2) as usize * width;
        let divisor = side + COLUMNS + 1;
        let other = width - side + COLUMNS + 1;
        let is_none = binary(of_column(divisor), NotEq, lit(0_i32));
        let quotient = binary(lit(20_i32), Divide, of_column(divisor));
        let guarded = and(is_none, binary(quotient, Lt, of_column(other)));
        all = if rng.chance(1, 2) { and(guarded, all) } else { and(all, guarded) };
    }
    all
}

#[test]
fn pairs_are_those_of_the_slow_twin() {
    let (mut given, mut with_keys) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let kind = KINDS[seed as usize % KINDS.len()];
        let (ty, values) = (rng.below(8), *rng.pick(&[2, 30, 400]));
        let (lefts, rights) = (1 + rng.below(3), 1 + rng.below(3));
        let (left, right) = (side(&mut rng, ty, values, lefts), side(&mut rng, ty, values, rights));
        let expr = condition(&mut rng, left.0.fields().len());
        let filter = filter(&left.0, &right.0, Arc::clone(&expr));
        let outputs = 1 + rng.below(3) as usize;
        let plan = || {
            let by_turns = Partitioning::RoundRobinBatch(outputs);
            let right = RepartitionExec::try_new(source(&right), by_turns).expect("a plan");
            let right = Arc::new(right);
            NestedLoopJoinExec::try_new(source(&left), right, Some(filter.clone()), &kind, None)
                .expect("a plan")
        };
        let width = plan().schema().fields().len();
        let chosen: Vec<usize> = (0..width).filter(|_| rng.chance(2, 3)).collect();
        let chosen = (!chosen.is_empty() && rng.chance(1, 2)).then_some(chosen);
        // Keys that are equal besides: the twin is DataFusion's hash join.
        let keys: Vec<usize> = match ty == 6 || rng.chance(1, 2) {
            true => Vec::new(),
            false => (0..1 + rng.below(2) as usize).collect(),
        };
        let mode = *rng.pick(&[PartitionMode::CollectLeft, PartitionMode::Partitioned]);
        let plan = || -> Arc<dyn ExecutionPlan> {
            if keys.is_empty() {
                return Arc::new(plan().with_projection(chosen.clone()).expect("of its columns"));
            }
            let key = |&key: &usize| -> Expr { Arc::new(Column::new(&format!("c{key}"), key)) };
            let split = |side: &(SchemaRef, Vec<RecordBatch>)| -> Arc<dyn ExecutionPlan> {
                let by = Partitioning::Hash(keys.iter().map(key).collect(), outputs);
                Arc::new(RepartitionExec::try_new(source(side), by).expect("a plan"))
            };
            let of_left = match mode {
                PartitionMode::Partitioned => split(&left),
                _ => source(&left),
            };
            let node = HashJoinExec::try_new(
                of_left,
                split(&right),
                keys.iter().map(|at| (key(at), key(at))).collect(),
                Some(filter.clone()),
                &kind,
                None,
                mode,
                NullEquality::NullEqualsNothing,
                false,
            );
            let node = node.and_then(|node| node.with_projection(chosen.clone()));
            Arc::new(node.expect("a plan"))
        };
        let ours = RangeJoinExec::in_place_of(&plan()).expect("a plan");
        let ours: Arc<dyn ExecutionPlan> = Arc::new(ours.expect("has a bound"));
        let batch_rows = 1 + rng.below(200) as usize;
        let found = rows(&ours, context(batch_rows)).expect("rows");
        let expected = rows(&plan(), context(8192)).expect("rows");
        assert_eq!(found, expected, "seed {seed}: {kind}, {keys:?}, {expr}");
        with_keys += usize::from(!keys.is_empty() && !found.is_empty());
        // A plan that is kept runs again.
        let again = datafusion::physical_plan::execution_plan::reset_plan_states(ours);
        let found = rows(&again.expect("a plan"), context(8192)).expect("rows");
        assert_eq!(found, expected, "seed {seed}, again");
        given += found.len();
    }
    assert!(given > 20_000 && with_keys > 30, "{given} rows, {with_keys} joins with keys");
}

/// Two sides of so many rows: their numbers, as they come and by steps of seven.
fn long_sides(left: i32, right: i32) -> [(SchemaRef, Vec<RecordBatch>); 2] {
    [(left, 1_i64), (right, 7)].map(|(rows, step)| {
        let field = Field::new("n", DataType::Int32, true);
        let schema = Arc::new(Schema::new(vec![field]));
        let number = |row: i32| (i64::from(row) * step * 7_919 % i64::from(rows)) as i32;
        let batches = (0..rows).collect::<Vec<_>>();
        let batches = batches.chunks(8_192).map(|rows| {
            let values = Int32Array::from_iter_values(rows.iter().map(|&row| number(row)));
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).expect("a batch")
        });
        (Arc::clone(&schema), batches.collect())
    })
}

fn long_join(
    kind: JoinType,
    [left, right]: &[(SchemaRef, Vec<RecordBatch>); 2],
    expr: Expr,
) -> Arc<dyn ExecutionPlan> {
    let filter = filter(&left.0, &right.0, expr);
    let node = NestedLoopJoinExec::try_new(source(left), source(right), Some(filter), &kind, None);
    range_joins(Arc::new(node.expect("a plan"))).expect("a plan")
}

/// Of 40,000 and 40,000 rows, whose pairs would take minutes.
#[test]
fn long_sides_are_joined_without_looking_at_all_pairs() {
    use Operator::{And, Gt, GtEq, LtEq, Minus};
    let sides = long_sides(40_000, 40_000);
    let near = binary(
        binary(of_column(0), LtEq, of_column(1)),
        And,
        binary(of_column(0), GtEq, binary(of_column(1), Minus, lit(1_i32))),
    );
    let count = |kind, expr| rows(&long_join(kind, &sides, expr), context(8_192)).map(|r| r.len());
    assert_eq!(count(JoinType::Inner, Arc::clone(&near)).expect("rows"), 79_999);
    // Ends of intervals that begin before: the second expression's bound.
    let around = binary(
        binary(of_column(0), LtEq, of_column(1)),
        And,
        binary(binary(of_column(0), Operator::Plus, lit(1_i32)), GtEq, of_column(1)),
    );
    assert_eq!(count(JoinType::Inner, around).expect("rows"), 79_999);
    let greater = binary(of_column(0), Gt, of_column(1));
    for (kind, expected) in [
        (JoinType::LeftSemi, 39_999),
        (JoinType::LeftAnti, 1),
        (JoinType::RightSemi, 39_999),
        (JoinType::RightAnti, 1),
    ] {
        assert_eq!(count(kind, Arc::clone(&greater)).expect("rows"), expected, "{kind}");
    }
    assert_eq!(count(JoinType::LeftAnti, near).expect("rows"), 0);
}

#[test]
fn a_side_beyond_the_statements_memory_and_a_cancelled_statement_end() {
    let sides = long_sides(100_000, 1_000);
    let greater = || binary(of_column(0), Operator::Gt, of_column(1));
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build_arc();
    let small = context(8_192).with_runtime(runtime.expect("an environment"));
    let refused = rows(&long_join(JoinType::Inner, &sides, greater()), small);
    assert_eq!(sql_error(refused.expect_err("is refused"), "").state().as_str(), "53200");
    let looks = Cell::new(0);
    let ended = watching(
        move || {
            looks.set(looks.get() + 1);
            looks.get() > 40
        },
        || rows(&long_join(JoinType::Inner, &sides, greater()), context(8_192)),
    );
    assert_eq!(sql_error(ended.expect_err("is cancelled"), "").state().as_str(), "57014");
}

#[test]
fn only_comparisons_of_both_sides_put_rows_in_order() {
    let sides = long_sides(10, 10);
    let plan = |expr| {
        displayable(long_join(JoinType::Inner, &sides, expr).as_ref()).one_line().to_string()
    };
    let is_ours = |expr| plan(expr).starts_with("RangeJoinExec");
    assert!(is_ours(binary(of_column(0), Operator::LtEq, of_column(1))));
    let sum = || binary(of_column(0), Operator::Plus, of_column(1));
    assert!(!is_ours(binary(sum(), Operator::LtEq, lit(3_i32))));
    assert!(!is_ours(binary(of_column(0), Operator::NotEq, of_column(1))));
    let told = plan(binary(of_column(1), Operator::Gt, of_column(0)));
    assert!(told.contains("sorted=[c@0], join_type=Inner, filter=c@1 > c@0"), "{told}");
    let node = long_join(JoinType::Inner, &sides, binary(sum(), Operator::Gt, lit(3_i32)));
    assert!(RangeJoinExec::in_place_of(&node).expect("a plan").is_none());
}
