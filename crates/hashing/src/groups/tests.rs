//! Random rows, grouped here and by DataFusion's operator, in one stage and in two.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::functions_aggregate::{average, count, min_max, sum};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use halcyon_base::rng::Rng;

use crate::groups::exec::HashAggregateExec;
use crate::groups::narrow_range;

/// A column to group by: values lie near each other or not, with NULLs or without.
fn keys(rng: &mut Rng, rows: usize, shape: &Shape) -> ArrayRef {
    let mut number = || -> Option<i64> {
        let is_null = shape.has_nulls && rng.chance(1, 10);
        let value = rng.below(shape.values) as i64 - shape.values as i64 / 2;
        (!is_null).then(|| value.wrapping_mul(shape.step))
    };
    let numbers = (0..rows).map(|_| number());
    match shape.kind {
        0 => Arc::new(Int16Array::from_iter(numbers.map(|n| n.map(|n| n as i16)))),
        1 => Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        2 => Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32 % 90_000)))),
        3 => {
            let values = numbers.map(|n| n.map(|n| i128::from(n as i32)));
            let ty = DataType::Decimal128(12, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
        4 => Arc::new(TimestampMicrosecondArray::from_iter(numbers)),
        _ => Arc::new(Int64Array::from_iter(numbers)),
    }
}

/// What keys are like.
struct Shape {
    kind: u64,
    has_nulls: bool,
    values: u64,
    step: i64,
}

impl Shape {
    fn new(rng: &mut Rng) -> Shape {
        Shape {
            kind: rng.below(7),
            has_nulls: rng.chance(1, 2),
            values: *rng.pick(&[1, 3, 900, 20_000, 1 << 40]),
            step: *rng.pick(&[1, 1, 7, 5_000]),
        }
    }
}

/// A column of numbers or texts, some of them NULL.
fn values(rng: &mut Rng, rows: usize, is_text: bool) -> ArrayRef {
    let numbers = (0..rows).map(|_| (!rng.chance(1, 10)).then(|| rng.below(1_000) as i64 - 500));
    if is_text {
        let text = |n: i64| format!("{}{n}", "long ".repeat((n.unsigned_abs() % 5) as usize));
        return Arc::new(StringViewArray::from_iter(numbers.map(|n| n.map(text))));
    }
    let ty = DataType::Decimal128(12, 2);
    let numbers = numbers.map(|n| n.map(i128::from));
    Arc::new(Decimal128Array::from_iter(numbers).with_data_type(ty))
}

/// Batches of one schema: `k` to group by, `n` to be added up, `t` to be compared and `b`.
fn input(rng: &mut Rng) -> (SchemaRef, Vec<RecordBatch>) {
    let shape = Shape::new(rng);
    let mut batches = Vec::new();
    for _ in 0..1 + rng.below(8) {
        let rows = rng.below(3_000) as usize;
        let mut columns = vec![("k".to_owned(), keys(rng, rows, &shape), shape.has_nulls)];
        columns.push(("n".to_owned(), values(rng, rows, false), true));
        columns.push(("t".to_owned(), values(rng, rows, true), true));
        let bits = (0..rows).map(|_| (!rng.chance(1, 9)).then(|| rng.chance(1, 2)));
        let bits: BooleanArray = bits.collect();
        columns.push(("b".to_owned(), Arc::new(bits), true));
        let field = |(name, values, nullable): &(String, ArrayRef, bool)| {
            Field::new(name, values.data_type().clone(), *nullable)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, values, _)| values).collect();
        batches.push(RecordBatch::try_new(schema, columns).expect("a batch"));
    }
    (batches[0].schema(), batches)
}

fn aggregate(
    schema: &SchemaRef,
    function: Arc<AggregateUDF>,
    of: &str,
) -> Arc<AggregateFunctionExpr> {
    let built = AggregateExprBuilder::new(function, vec![col(of, schema).expect("a column")])
        .schema(Arc::clone(schema))
        .alias(format!("a of {of}"))
        .build();
    Arc::new(built.expect("an aggregate"))
}

fn aggregates(rng: &mut Rng, schema: &SchemaRef) -> Vec<Arc<AggregateFunctionExpr>> {
    let one = |function, of| aggregate(schema, function, of);
    let all = [
        one(sum::sum_udaf(), "n"),
        one(count::count_udaf(), "t"),
        one(min_max::min_udaf(), "t"),
        one(min_max::max_udaf(), "n"),
        one(average::avg_udaf(), "n"),
    ];
    all.into_iter().filter(|_| rng.chance(1, 2)).collect()
}

/// A plan in one stage or two.
fn plan(
    is_ours: bool,
    is_split: bool,
    batches: &[RecordBatch],
    aggregates: &[Arc<AggregateFunctionExpr>],
    filters: &[Option<Arc<dyn PhysicalExpr>>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = batches[0].schema();
    let input = MemorySourceConfig::try_new_exec(&[batches.to_vec()], Arc::clone(&schema), None)?;
    let ours = |node: AggregateExec| -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match is_ours {
            true => Arc::new(HashAggregateExec::in_place_of(&node, 30_000)?.expect("is done here")),
            false => Arc::new(node),
        })
    };
    let groups = |schema: &SchemaRef| -> Result<PhysicalGroupBy> {
        Ok(PhysicalGroupBy::new_single(vec![(col("k", schema)?, "k".to_owned())]))
    };
    let node = |mode, input: Arc<dyn ExecutionPlan>| {
        let groups = groups(&input.schema())?;
        let filters = filters.to_vec();
        let aggregates = aggregates.to_vec();
        AggregateExec::try_new(mode, groups, aggregates, filters, input, Arc::clone(&schema))
    };
    match is_split {
        true => ours(node(AggregateMode::Final, ours(node(AggregateMode::Partial, input)?)?)?),
        false => ours(node(AggregateMode::Single, input)?),
    }
}

/// The rows as texts, sorted: the order of groups is not told.
fn rows(plan: Arc<dyn ExecutionPlan>, batch_rows: usize, bytes: usize) -> Result<Vec<String>> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc()?;
    let context = TaskContext::default().with_session_config(config).with_runtime(runtime);
    let schema = plan.schema();
    // Files are written on tokio's threads.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let batches = runtime.block_on(collect(plan, Arc::new(context)))?;
    assert!(batches.iter().all(|batch| batch.num_rows() <= batch_rows));
    let all = concat_batches(&schema, &batches)?;
    let row = |row: usize| {
        let cells = all.columns().iter().map(|column| match column.is_null(row) {
            true => Ok("∅".to_owned()),
            false => array_value_to_string(column, row),
        });
        Ok(cells.collect::<Result<Vec<_>, _>>()?.join(" | "))
    };
    let mut rows: Vec<String> = (0..all.num_rows()).map(row).collect::<Result<_>>()?;
    rows.sort();
    Ok(rows)
}

fn counted(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let metrics = plan.metrics().expect("metrics");
    metrics.sum_by_name(name).map_or(0, |sum| sum.as_usize())
}

#[test]
fn groups_are_those_of_the_slow_twin() {
    let (mut emptied, mut handed, mut refused) = (0, 0, 0);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let (schema, batches) = input(&mut rng);
        let aggregates = aggregates(&mut rng, &schema);
        let filter = |rng: &mut Rng| rng.chance(1, 4).then(|| col("b", &schema).expect("a column"));
        let filters: Vec<_> = aggregates.iter().map(|_| filter(&mut rng)).collect();
        let is_split = rng.chance(1, 2);
        let plan = |is_ours| plan(is_ours, is_split, &batches, &aggregates, &filters);
        let ours = plan(true).expect("a plan");
        let bytes =
            if rng.chance(1, 2) { usize::MAX } else { 200_000 + rng.below(400_000) as usize };
        let found = match rows(Arc::clone(&ours), 100 + rng.below(300) as usize, bytes) {
            Ok(found) => found,
            Err(error) => {
                // DataFusion's operator, too, needs some.
                assert!(error.to_string().contains("Resources exhausted"), "seed {seed}: {error}");
                assert!(bytes < usize::MAX);
                refused += 1;
                continue;
            }
        };
        let expected = rows(plan(false).expect("a plan"), 8192, usize::MAX).expect("rows");
        assert_eq!(found, expected, "seed {seed}");
        let below = ours.children()[0];
        let of_partial = if is_split { counted(below, "emptied") } else { 0 };
        emptied += usize::from(of_partial > 0);
        handed += usize::from(counted(&ours, "handed_over") > 0);
    }
    assert!(emptied > 5 && handed > 5 && refused < 20, "{emptied} {handed} {refused}");
}

#[test]
fn rows_of_a_group_each_pass_as_states() {
    let mut rng = Rng::new(1);
    let column = Int64Array::from_iter_values((0..300_000).map(|_| rng.next_u64() as i64));
    let values = Decimal128Array::from_iter_values(0..300_000);
    let texts = StringViewArray::from_iter_values((0..300_000).map(|n: i32| n.to_string()));
    let columns: [(&str, ArrayRef); 3] =
        [("k", Arc::new(column)), ("n", Arc::new(values)), ("t", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let batches: Vec<_> = (0..30).map(|at| batch.slice(at * 10_000, 10_000)).collect();
    let aggregates = [
        aggregate(&batch.schema(), sum::sum_udaf(), "n"),
        aggregate(&batch.schema(), count::count_udaf(), "t"),
    ];
    let filters = [None, None];
    let ours = plan(true, true, &batches, &aggregates, &filters).expect("a plan");
    let found = rows(Arc::clone(&ours), 8192, usize::MAX).expect("rows");
    let theirs = plan(false, true, &batches, &aggregates, &filters).expect("a plan");
    assert_eq!(found, rows(theirs, 8192, usize::MAX).expect("rows"));
    assert_eq!(counted(ours.children()[0], "emptied"), 1);
}

#[test]
fn keys_near_each_other_are_told_by_their_range() {
    let near = |least: ScalarValue, greatest: ScalarValue, distinct: Option<usize>, rows: usize| {
        let column = ColumnStatistics {
            min_value: Precision::Inexact(least),
            max_value: Precision::Inexact(greatest),
            distinct_count: distinct.map_or(Precision::Absent, Precision::Inexact),
            ..ColumnStatistics::new_unknown()
        };
        let known = Statistics {
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(), column],
        };
        assert_eq!(narrow_range(&known, 0), None);
        narrow_range(&known, 1)
    };
    let integer = |value: i64| ScalarValue::Int64(Some(value));
    assert_eq!(near(integer(1), integer(6_000_000), Some(1_500_000), 6_000_000), Some(6_000_000));
    assert_eq!(near(integer(1), integer(6_000_000), None, 1_000_000), Some(6_000_000));
    assert_eq!(near(integer(1), integer(6_000_000), Some(10_000), 6_000_000), None);
    assert_eq!(near(integer(i64::MIN), integer(i64::MAX), Some(1 << 40), 1 << 41), None);
    assert_eq!(near(integer(-5_000), integer(5_000), Some(3), 1_000), Some(10_001));
    let day = |value: i32| ScalarValue::Date32(Some(value));
    assert_eq!(near(day(8_000), day(10_500), Some(2_500), 1 << 20), Some(2_501));
    let moment = |value: i64| ScalarValue::TimestampMicrosecond(Some(value), None);
    assert_eq!(near(moment(0), moment(1 << 50), Some(1 << 20), 1 << 20), None);
    assert_eq!(near(ScalarValue::Utf8(None), ScalarValue::Utf8(None), None, 9), None);
}
