//! Sorts beside DataFusion's, measured, a line of JSON for each shape; docs/testing.md has the command. Keys are compared.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::DataType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{StreamExt, TryStreamExt};
use halcyon_base::rng::Rng;

use crate::batches::BatchSortExec;

/// Rows of a batch.
const BATCH: usize = 8192;

/// A shape: its name, how its columns are made, of which the first so many are the key.
type Shape = (&'static str, fn(&mut Rng, usize) -> Vec<ArrayRef>, usize);

fn ints(rng: &mut Rng, rows: usize, below: u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.below(below) as i64)))
}

fn small(rng: &mut Rng, rows: usize, below: u64) -> ArrayRef {
    Arc::new(Int32Array::from_iter((0..rows).map(|_| Some(rng.below(below) as i32))))
}

fn decimals(rng: &mut Rng, rows: usize, digits: u8) -> ArrayRef {
    let values = (0..rows).map(|_| i128::from(rng.below(1_000_000_000)));
    let ty = DataType::Decimal128(digits, 2);
    Arc::new(Decimal128Array::from_iter_values(values).with_data_type(ty))
}

fn texts(rng: &mut Rng, rows: usize, prefix: &str, below: u64) -> ArrayRef {
    let text = |_| format!("{prefix}{:x}", rng.below(below).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Arc::new(StringViewArray::from_iter_values((0..rows).map(text)))
}

/// Strings of random letters at the front, as names are.
fn names(rng: &mut Rng, rows: usize, length: usize) -> ArrayRef {
    let mut name =
        |_| -> String { (0..length).map(|_| char::from(b'a' + rng.below(26) as u8)).collect() };
    Arc::new(StringViewArray::from_iter_values((0..rows).map(&mut name)))
}

const SHAPES: &[Shape] = &[
    ("bigint", |rng, rows| vec![ints(rng, rows, 1 << 60), small(rng, rows, 9)], 1),
    (
        "bigint in order",
        |rng, rows| {
            let first = rng.below(1) as i64;
            vec![
                Arc::new(Int64Array::from_iter_values(first..first + rows as i64)),
                small(rng, rows, 9),
            ]
        },
        1,
    ),
    ("bigint of 100 values", |rng, rows| vec![ints(rng, rows, 100), small(rng, rows, 9)], 1),
    ("integer, integer", |rng, rows| vec![small(rng, rows, 1000), small(rng, rows, 1 << 30)], 2),
    ("bigint, bigint", |rng, rows| vec![ints(rng, rows, 1000), ints(rng, rows, 1 << 60)], 2),
    ("numeric(12, 2)", |rng, rows| vec![decimals(rng, rows, 12), small(rng, rows, 9)], 1),
    ("numeric(38, 2)", |rng, rows| vec![decimals(rng, rows, 38), small(rng, rows, 9)], 1),
    ("text of 10", |rng, rows| vec![names(rng, rows, 10), small(rng, rows, 9)], 1),
    ("text of 30", |rng, rows| vec![names(rng, rows, 30), small(rng, rows, 9)], 1),
    (
        "text with one prefix",
        |rng, rows| vec![texts(rng, rows, "https://example.org/", 1 << 60), small(rng, rows, 9)],
        1,
    ),
    ("text of 1000 values", |rng, rows| vec![texts(rng, rows, "", 1000), small(rng, rows, 9)], 1),
    (
        "text of 1000 values, integer",
        |rng, rows| vec![texts(rng, rows, "", 1000), small(rng, rows, 1 << 30)],
        2,
    ),
    ("numeric(12, 2), text", |rng, rows| vec![decimals(rng, rows, 12), names(rng, rows, 20)], 2),
    (
        "bigint beside ten columns",
        |rng, rows| {
            let mut columns = vec![ints(rng, rows, 1 << 60)];
            columns.extend((0..5).map(|_| ints(rng, rows, 1 << 30)));
            columns.extend((0..5).map(|_| names(rng, rows, 20)));
            columns
        },
        1,
    ),
];

/// Seconds that a plan takes, of the best of several runs.
fn seconds(plan: &dyn Fn() -> Arc<dyn ExecutionPlan>) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let run = |_| {
        let plan = plan();
        let begun = Instant::now();
        runtime.block_on(async {
            let mut rows = execute_stream(plan, Arc::new(TaskContext::default())).expect("runs");
            while let Some(batch) = rows.next().await {
                std::hint::black_box(batch.expect("rows"));
            }
        });
        begun.elapsed().as_secs_f64()
    };
    (0..3).map(run).fold(f64::MAX, f64::min)
}

/// The first columns of all rows that a plan gives.
fn keys_of(plan: &Arc<dyn ExecutionPlan>, keys: usize) -> RecordBatch {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let rows = runtime.block_on(async {
        let rows = execute_stream(Arc::clone(plan), Arc::new(TaskContext::default()));
        rows.expect("runs").try_collect::<Vec<_>>().await.expect("rows")
    });
    let rows = concat_batches(&plan.schema(), &rows).expect("one schema");
    rows.project(&(0..keys).collect::<Vec<_>>()).expect("columns")
}

#[test]
#[ignore = "a measurement of minutes; docs/testing.md has the command"]
fn sorts_beside_those_of_the_slow_twin() {
    let rows: usize = std::env::var("ROWS").map_or(1 << 21, |rows| rows.parse().expect("a number"));
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, columns, keys) in SHAPES.iter().filter(|shape| shape.0.contains(&only)) {
        let mut rng = Rng::new(1);
        let columns = columns(&mut rng, rows);
        let names = columns.into_iter().enumerate().map(|(at, column)| (format!("c{at}"), column));
        let whole = RecordBatch::try_from_iter(names).expect("a batch");
        let order = (0..*keys).map(|at| {
            PhysicalSortExpr::new(
                Arc::new(Column::new(&format!("c{at}"), at)),
                SortOptions::default(),
            )
        });
        let order = LexOrdering::new(order.collect::<Vec<_>>()).expect("a key");
        let batches: Vec<_> = (0..rows.div_ceil(BATCH))
            .map(|at| whole.slice(at * BATCH, BATCH.min(rows - at * BATCH)))
            .collect();
        let halves =
            batches.chunks(batches.len().div_ceil(2)).map(<[_]>::to_vec).collect::<Vec<_>>();
        let sort = |inputs: &[Vec<RecordBatch>]| {
            let input = MemorySourceConfig::try_new_exec(inputs, whole.schema(), None);
            let sort = SortExec::new(order.clone(), input.expect("a source"));
            Arc::new(sort.with_preserve_partitioning(true))
        };
        let one = [batches];
        let theirs = || sort(&one) as Arc<dyn ExecutionPlan>;
        let ours = || crate::sorts(sort(&one), true).expect("a plan");
        let (a, b) = (seconds(&ours), seconds(&theirs));
        let batches = || {
            let ours = BatchSortExec::in_place_of(&sort(&one), None).expect("a plan");
            Arc::new(ours.expect("is done here")) as Arc<dyn ExecutionPlan>
        };
        let by_batches = seconds(&batches);
        assert_eq!(keys_of(&batches(), *keys), keys_of(&theirs(), *keys), "{name}");
        let merged = || {
            Arc::new(SortPreservingMergeExec::new(order.clone(), sort(&halves)))
                as Arc<dyn ExecutionPlan>
        };
        let ours = || crate::sorts(merged(), true).expect("a plan");
        let (c, d) = (seconds(&ours), seconds(&merged));
        // Rows with equal keys may lie in another order there.
        assert_eq!(keys_of(&ours(), *keys), keys_of(&merged(), *keys), "{name}");
        println!(
            "{{\"shape\":\"{name}\",\"rows\":{rows},\"sort_s\":{a:.3},\"sort_by_batches_s\":{by_batches:.3},\"sort_datafusion_s\":{b:.3},\
             \"merged_s\":{c:.3},\"merged_datafusion_s\":{d:.3}}}"
        );
    }
}
