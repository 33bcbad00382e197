//! Random rows, grouped here and by DataFusion's operator, in one stage and in two.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::{array_agg, average, count, min_max, sum};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use futures::executor::block_on;
use halcyon_base::rng::Rng;

use crate::groups::exec::HashAggregateExec;
use crate::groups::{back, front};

/// Columns to group by: each has few or many values, with NULLs or without.
fn key(rng: &mut Rng, rows: usize, values: u64, kind: u64, has_nulls: bool) -> ArrayRef {
    let mut number = || -> Option<i64> {
        let is_null = has_nulls && rng.chance(1, 10);
        (!is_null).then(|| rng.below(values) as i64 - values as i64 / 2)
    };
    let mut numbers = (0..rows).map(|_| number());
    // Texts of all lengths about the twelve bytes that a view holds.
    let text = |n: i64| format!("{}{n}", "long ".repeat((n.unsigned_abs() % 5) as usize));
    match kind {
        0 => Arc::new(Int16Array::from_iter(numbers.map(|n| n.map(|n| n as i16)))),
        1 => Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        2 => Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n << 40)))),
        3 => Arc::new(BooleanArray::from_iter(numbers.map(|n| n.map(|n| n % 2 == 0)))),
        4 => Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        5 => Arc::new(StringViewArray::from_iter(numbers.map(|n| n.map(text)))),
        6 => Arc::new(BinaryViewArray::from_iter(numbers.map(|n| n.map(text)))),
        7 => {
            let values = numbers.map(|n| n.map(|n| i128::from(n) << 70));
            let ty = DataType::Decimal128(38, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
        8 => {
            let values = numbers.map(|n| n.map(i128::from));
            let ty = DataType::Decimal128(12, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
        _ => {
            let values: Vec<Option<i64>> = numbers.by_ref().collect();
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
        }
    }
}

/// Batches of one schema: keys, then `n` to be added up and `t` to be compared.
fn input(rng: &mut Rng) -> (SchemaRef, Vec<RecordBatch>, usize) {
    let key_count = 1 + rng.below(4) as usize;
    let values = *rng.pick(&[1, 3, 40, 900, 1 << 40]);
    let keys: Vec<(u64, bool)> =
        (0..key_count).map(|_| (rng.below(10), rng.chance(1, 2))).collect();
    let mut batches = Vec::new();
    for _ in 0..1 + rng.below(8) {
        let rows = rng.below(700) as usize;
        let mut columns: Vec<(String, ArrayRef, bool)> = keys
            .iter()
            .enumerate()
            .map(|(number, &(kind, has_nulls))| {
                (format!("k{number}"), key(rng, rows, values, kind, has_nulls), has_nulls)
            })
            .collect();
        columns.push(("n".to_owned(), key(rng, rows, 1_000, 8, true), true));
        columns.push(("t".to_owned(), key(rng, rows, 50, 5, true), true));
        columns.push(("b".to_owned(), key(rng, rows, 50, 3, true), true));
        let field = |(name, values, nullable): &(String, ArrayRef, bool)| {
            Field::new(name, values.data_type().clone(), *nullable)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let columns = columns.into_iter().map(|(_, values, _)| values).collect();
        batches.push(RecordBatch::try_new(schema, columns).expect("a batch"));
    }
    (batches[0].schema(), batches, key_count)
}

fn aggregates(rng: &mut Rng, schema: &SchemaRef) -> Vec<Arc<AggregateFunctionExpr>> {
    let column = |name: &str| col(name, schema).expect("a column");
    let one = |function: Arc<AggregateUDF>, of: &str, is_distinct: bool| {
        let built = AggregateExprBuilder::new(function, vec![column(of)])
            .schema(Arc::clone(schema))
            .alias(format!("a of {of}"))
            .with_distinct(is_distinct)
            .build();
        Arc::new(built.expect("an aggregate"))
    };
    let all = [
        one(sum::sum_udaf(), "n", false),
        one(count::count_udaf(), "t", false),
        one(min_max::min_udaf(), "t", false),
        one(min_max::max_udaf(), "n", false),
        one(average::avg_udaf(), "n", false),
        one(count::count_udaf(), "t", true),
        one(array_agg::array_agg_udaf(), "n", false),
    ];
    all.into_iter().filter(|_| rng.chance(1, 2)).collect()
}

/// A plan in one stage or two; ours with tables of few groups.
fn plan(
    is_ours: bool,
    is_split: bool,
    bounds: (front::Bounds, back::Bounds),
    batches: &[RecordBatch],
    keys: usize,
    aggregates: &[Arc<AggregateFunctionExpr>],
    filters: &[Option<Arc<dyn PhysicalExpr>>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = batches[0].schema();
    let input = MemorySourceConfig::try_new_exec(&[batches.to_vec()], Arc::clone(&schema), None)?;
    let ours = |node: AggregateExec| -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match is_ours {
            true => {
                let ours = HashAggregateExec::in_place_of(&node)?.expect("is done here");
                Arc::new(ours.bounded(bounds.0, bounds.1))
            }
            false => Arc::new(node),
        })
    };
    let groups = |schema: &SchemaRef| -> Result<PhysicalGroupBy> {
        let columns = (0..keys).map(|number| format!("k{number}"));
        let columns = columns.map(|name| Ok((col(&name, schema)?, name)));
        Ok(PhysicalGroupBy::new_single(columns.collect::<Result<_>>()?))
    };
    let node = |mode, input: Arc<dyn ExecutionPlan>| {
        let groups = groups(&input.schema())?;
        let filters = filters.to_vec();
        AggregateExec::try_new(
            mode,
            groups,
            aggregates.to_vec(),
            filters,
            input,
            Arc::clone(&schema),
        )
    };
    match is_split {
        true => ours(node(AggregateMode::Final, ours(node(AggregateMode::Partial, input)?)?)?),
        false => ours(node(AggregateMode::Single, input)?),
    }
}

/// The rows as texts, sorted: the order of groups is not told.
fn rows(plan: Arc<dyn ExecutionPlan>, batch_rows: usize) -> Result<Vec<String>> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let schema = plan.schema();
    let batches = block_on(collect(plan, context))?;
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

#[test]
fn groups_are_those_of_the_slow_twin() {
    let (mut emptied, mut parted, mut passed) = (0, 0, 0);
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let (schema, batches, keys) = input(&mut rng);
        let aggregates = aggregates(&mut rng, &schema);
        let filter = |rng: &mut Rng| rng.chance(1, 4).then(|| col("b", &schema).expect("a column"));
        let filters: Vec<_> = aggregates.iter().map(|_| filter(&mut rng)).collect();
        let small = 1 + rng.below(60) as usize;
        let bounds = (
            front::Bounds { small, large: small * 6, whole: small * 8, passing: 900 },
            back::Bounds { groups: rng.below(200) as usize, rows: 1 + rng.below(600) as usize },
        );
        let is_split = rng.chance(1, 2);
        let plan = |is_ours| plan(is_ours, is_split, bounds, &batches, keys, &aggregates, &filters);
        let ours = plan(true).expect("a plan");
        let found = rows(Arc::clone(&ours), 1 + rng.below(300) as usize).expect("rows");
        let expected = rows(plan(false).expect("a plan"), 8192).expect("rows");
        assert_eq!(found, expected, "seed {seed}");
        let counted = |name: &str| {
            let of = |plan: &Arc<dyn ExecutionPlan>| {
                let metrics = plan.metrics().expect("metrics");
                metrics.sum_by_name(name).map_or(0, |sum| sum.as_usize())
            };
            of(&ours) + ours.children().first().map_or(0, |&child| of(child))
        };
        emptied += usize::from(counted("emptied") > 0);
        parted += usize::from(counted("parts") > 0);
        passed += usize::from(counted("emptied") > 6);
    }
    assert!(emptied > 30 && parted > 30 && passed > 5, "{emptied} {parted} {passed}");
}

#[test]
fn long_texts_of_one_hash_are_told_apart() {
    use crate::hash::Hasher;
    use crate::keys::{Keys, Long, Rows};
    use crate::layout::{Layout, Nulls};

    let schema = Schema::new(vec![Field::new("t", DataType::Utf8View, true)]);
    let layout = Arc::new(Layout::of(&schema, Nulls::Equal).expect("a layout"));
    let mut keys = Keys::<2>::new(Arc::clone(&layout), Hasher::new());
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![
        "the same first letters, and one end",
        "the same first letters, and two end",
        "the same first letters, and one end",
    ]));
    let mut rows = Rows::new();
    rows.set(&layout, std::slice::from_ref(&texts), &Hasher::new());
    // As if both hashes had met.
    rows.keys.iter_mut().for_each(|key| key[1] = 7);
    rows.hashes.fill(9);
    let mut groups = Vec::new();
    keys.find(&rows, &vec![Long::of(&texts)], &mut groups);
    assert_eq!(groups, [0, 1, 0]);
}

#[test]
fn what_is_not_done_here_stays() {
    let of = |ty: DataType| {
        let schema = Schema::new(vec![Field::new("k", ty, true)]);
        crate::layout::Layout::of(&schema, crate::layout::Nulls::Equal).is_some()
    };
    assert!(of(DataType::Int64) && of(DataType::Utf8View));
    assert!(!of(DataType::Float64) && !of(DataType::new_list(DataType::Int32, true)));
}
