//! Random rows, sorted here and by DataFusion's operator.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect_partitioned};
use datafusion::prelude::SessionConfig;
use halcyon_base::rng::Rng;
use halcyon_spill::{Spill, SpillFolder};
use halcyon_sql::diagnose::sql_error;
use halcyon_task::{Annotation, Config, Runtime};

use crate::batches::BatchSortExec;
use crate::key::Layout;
use crate::sorting::RunSortExec;
use crate::steps::UNITS;

/// Kinds of columns that [`column`] makes.
const KINDS: u64 = 13;

/// A column with NULLs: of few values or many, of both signs.
fn column(rng: &mut Rng, rows: usize, values: u64, kind: u64) -> ArrayRef {
    let nulls = *rng.pick(&[0, 1, 11]);
    let numbers = (0..rows).map(|_| {
        let is_null = rng.chance(nulls, 12);
        (!is_null).then(|| rng.below(values) as i64 - values as i64 / 2)
    });
    let text = |n: i64| format!("{}{n}", "long ".repeat((n.unsigned_abs() % 5) as usize));
    match kind {
        0 => Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        1 => Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n << 40)))),
        2 => Arc::new(StringViewArray::from_iter(numbers.map(|n| n.map(text)))),
        3 => Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        4 => {
            let values =
                numbers.map(|n| n.map(|n| i128::from(n) << if n % 3 == 0 { 100 } else { 60 }));
            let ty = DataType::Decimal128(38, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
        5 => {
            let values = numbers.map(|n| n.map(i128::from));
            let ty = DataType::Decimal128(12, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
        6 => Arc::new(BooleanArray::from_iter(numbers.map(|n| n.map(|n| n % 2 == 0)))),
        7 => Arc::new(Float64Array::from_iter(numbers.map(|n| n.map(|n| 1.0 / n as f64)))),
        8 => Arc::new(Float32Array::from_iter(numbers.map(|n| n.map(|n| 0.0 / n as f32)))),
        9 => Arc::new(TimestampMicrosecondArray::from_iter(numbers)),
        10 => Arc::new(Int16Array::from_iter(numbers.map(|n| n.map(|n| n as i16)))),
        11 => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
            numbers.map(|n| n.map(|n| vec![Some(n as i32); (n.unsigned_abs() % 3) as usize])),
        )),
        _ => Arc::new(StringArray::from_iter(numbers.map(|n| n.map(text)))),
    }
}

/// Batches of columns of these kinds, and the number of each row behind them.
fn batches(rng: &mut Rng, kinds: &[u64], values: u64, first: i32) -> Vec<RecordBatch> {
    let (mut all, mut first) = (Vec::new(), first);
    for _ in 0..rng.below(9) {
        let rows = rng.below(*rng.clone().pick(&[2, 90, 1_500])) as usize;
        all.push(batch(rng, kinds, values, rows, first));
        first += rows as i32;
    }
    all
}

fn batch(rng: &mut Rng, kinds: &[u64], values: u64, rows: usize, first: i32) -> RecordBatch {
    let mut columns: Vec<ArrayRef> =
        kinds.iter().map(|&kind| column(rng, rows, values, kind)).collect();
    columns.push(Arc::new(Int32Array::from_iter_values(first..first + rows as i32)));
    let fields = columns
        .iter()
        .enumerate()
        .map(|(number, values)| Field::new(format!("c{number}"), values.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns).expect("a batch")
}

fn source(schema: &SchemaRef, inputs: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    MemorySourceConfig::try_new_exec(inputs, Arc::clone(schema), None).expect("a source")
}

/// An order by the first columns.
fn order(rng: &mut Rng, keys: usize) -> LexOrdering {
    let key = |at: usize| {
        let options = SortOptions { descending: rng.chance(1, 2), nulls_first: rng.chance(1, 2) };
        PhysicalSortExpr::new(Arc::new(Column::new(&format!("c{at}"), at)), options)
    };
    LexOrdering::new((0..keys).map(key).collect::<Vec<_>>()).expect("a key")
}

fn context(batch_rows: usize) -> TaskContext {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    TaskContext::default().with_session_config(config)
}

fn outputs(plan: &Arc<dyn ExecutionPlan>, context: TaskContext) -> Result<Vec<RecordBatch>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let parts = runtime.block_on(collect_partitioned(Arc::clone(plan), Arc::new(context)))?;
    parts.iter().map(|batches| Ok(concat_batches(&plan.schema(), batches)?)).collect()
}

/// Rows as texts, each with its key and its number.
struct Shown {
    keys: Vec<OwnedRow>,
    numbers: Vec<i32>,
    rows: Vec<String>,
}

fn shown(batch: &RecordBatch, order: &LexOrdering) -> Shown {
    let fields = order.iter().map(|key| {
        let ty = key.expr.data_type(batch.schema_ref()).expect("a type");
        SortField::new_with_options(ty, key.options)
    });
    let converter = RowConverter::new(fields.collect()).expect("keys");
    let columns: Vec<ArrayRef> = order
        .iter()
        .map(|key| key.expr.evaluate(batch)?.into_array(batch.num_rows()))
        .collect::<Result<_>>()
        .expect("columns");
    let keys = converter.convert_columns(&columns).expect("keys");
    let cell = |column: &ArrayRef, row: usize| match column.is_null(row) {
        true => "∅".to_owned(),
        false => array_value_to_string(column, row).expect("shown"),
    };
    let row = |row: usize| {
        batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" | ")
    };
    let numbers = batch.columns().last().expect("a number");
    let numbers = arrow::array::AsArray::as_primitive::<Int32Type>(numbers);
    Shown {
        keys: keys.iter().map(|key| key.owned()).collect(),
        numbers: numbers.values().to_vec(),
        rows: (0..batch.num_rows()).map(row).collect(),
    }
}

/// A pool in which an operator that can spill has so many bytes, and all others have all that they ask for.
#[derive(Debug)]
struct Tight {
    bytes: usize,
    all: UnboundedMemoryPool,
}

impl fmt::Display for Tight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

impl MemoryPool for Tight {
    fn name(&self) -> &str {
        "tight"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let is_limited = reservation.consumer().can_spill();
        match is_limited && reservation.size() + additional > self.bytes {
            true => Err(DataFusionError::ResourcesExhausted("tight".to_owned())),
            false => self.all.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes)
    }
}

/// A folder of a test's own, and contexts of statements that may hold few bytes and spill there.
struct Disk {
    folder: Arc<SpillFolder>,
    path: PathBuf,
}

impl Disk {
    fn new(name: &str) -> Disk {
        let name = format!("halcyon-sorts-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        Disk { folder: SpillFolder::open(&path).expect("a folder"), path }
    }

    fn context(&self, pool: Arc<dyn MemoryPool>, batch_rows: usize) -> TaskContext {
        let spill = Spill::new(&self.folder, None, None);
        let files = DiskManagerBuilder::default().with_temp_file_factory(spill.factory());
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .with_disk_manager_builder(files)
            .build_arc()
            .expect("an environment");
        let config = SessionConfig::new().with_batch_size(batch_rows).with_extension(spill);
        TaskContext::default().with_session_config(config).with_runtime(runtime)
    }

    fn tight(&self, bytes: usize, batch_rows: usize) -> TaskContext {
        self.context(Arc::new(Tight { bytes, all: UnboundedMemoryPool::default() }), batch_rows)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[test]
fn rows_are_those_of_the_slow_twin() {
    let (rows, packed) = compare(0..200, &mut |_, batch_rows| context(batch_rows));
    assert!(rows > 100_000 && packed > 25, "{rows} rows, {packed} of packed keys");
}

#[test]
fn rows_out_of_files_are_those_of_the_slow_twin() {
    let disk = Disk::new("twin");
    let (rows, _) = compare(1_000..1_120, &mut |rng, batch_rows| {
        disk.tight(*rng.pick(&[1, 20_000, 90_000, 300_000]), batch_rows)
    });
    let counts = disk.folder.counts();
    assert!(rows > 50_000 && counts.files_made > 150, "{rows} rows, {counts:?}");
    assert_eq!((counts.files, counts.bytes), (0, 0), "files go with their statements");
}

/// Sorts random inputs, each by itself and all together, and compares. Returns how many rows there were, and how many
/// sorts had packed keys.
fn compare(
    seeds: Range<u64>,
    context_of: &mut dyn FnMut(&mut Rng, usize) -> TaskContext,
) -> (usize, usize) {
    let (mut rows, mut packed) = (0, 0);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let kinds: Vec<u64> = (0..1 + rng.below(4)).map(|_| rng.below(KINDS)).collect();
        let keys = 1 + rng.below(kinds.len() as u64) as usize;
        let values = *rng.pick(&[1, 2, 30, 40_000]);
        let schema = batch(&mut rng, &kinds, values, 0, 0).schema();
        let count = 1 + rng.below(4) as i32;
        let inputs: Vec<_> =
            (0..count).map(|input| batches(&mut rng, &kinds, values, input * 1_000_000)).collect();
        let order = order(&mut rng, keys);
        let batch_rows = 60 + rng.below(2_000) as usize;
        let fetch = rng.chance(1, 3).then(|| rng.below(2_000) as usize);
        let sort = SortExec::new(order.clone(), source(&schema, &inputs));
        let sort = Arc::new(sort.with_preserve_partitioning(true));
        let twin = outputs(&(sort.clone() as _), context(8192)).expect("rows");
        let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
        let ours: Arc<dyn ExecutionPlan> = Arc::new(ours);
        let given = outputs(&ours, context_of(&mut rng, batch_rows)).expect("rows");
        assert_eq!(given.len(), twin.len());
        for (given, twin) in given.iter().zip(&twin) {
            let (given, twin) = (shown(given, &order), shown(twin, &order));
            assert!(given.keys == twin.keys, "seed {seed}: the order of keys");
            let by_key = |a: usize| (&given.keys[a], given.numbers[a]);
            let is_stable = (1..given.rows.len()).all(|row| by_key(row - 1) < by_key(row));
            assert!(is_stable, "seed {seed}: the order of rows with equal keys");
            let sorted = |mut rows: Vec<String>| {
                rows.sort();
                rows
            };
            rows += given.rows.len();
            assert!(sorted(given.rows) == sorted(twin.rows), "seed {seed}: rows");
        }
        // Batch by batch.
        let runs = RunSortExec::in_place_of(&sort).expect("a plan");
        let ours = BatchSortExec::in_place_of(&sort, runs).expect("a plan").expect("is done here");
        let ours: Arc<dyn ExecutionPlan> = Arc::new(ours);
        let again = Arc::clone(&ours).reset_state().expect("a plan");
        let sorted = |batch: &RecordBatch| {
            let Shown { keys, mut rows, .. } = shown(batch, &order);
            rows.sort();
            (keys, rows)
        };
        let twin: Vec<_> = twin.iter().map(sorted).collect();
        for ours in [ours, again] {
            let given = outputs(&ours, context_of(&mut rng, batch_rows)).expect("rows");
            let given: Vec<_> = given.iter().map(sorted).collect();
            assert!(given == twin, "seed {seed}: rows, batch by batch");
        }
        packed += usize::from(
            Layout::of(&order, &schema).expect("a layout").is_some_and(|l| l.is_packed()),
        );
        // All together.
        let merge = SortPreservingMergeExec::new(order.clone(), sort).with_fetch(fetch);
        let twin = outputs(&(Arc::new(merge.clone()) as _), context(8192)).expect("rows");
        let ours = crate::sorts(Arc::new(merge), true).expect("a plan");
        assert_eq!(ours.name() == "RunMergeExec", count > 1);
        let given = outputs(&ours, context_of(&mut rng, batch_rows)).expect("rows");
        let (given, twin) = (shown(&given[0], &order), shown(&twin[0], &order));
        assert!(given.keys == twin.keys, "seed {seed}: the order of merged keys");
        let by_key = |a: usize| (&given.keys[a], given.numbers[a]);
        let is_stable = (1..given.rows.len()).all(|row| by_key(row - 1) < by_key(row));
        assert!(is_stable, "seed {seed}: the order of merged rows with equal keys");
        let again = Arc::clone(&ours).reset_state().expect("a plan");
        let again = outputs(&again, context_of(&mut rng, batch_rows)).expect("rows");
        assert!(shown(&again[0], &order).rows == given.rows, "seed {seed}: the second time");
    }
    (rows, packed)
}

/// Sorts a million rows and counts what the longest step does.
#[test]
fn a_million_rows_are_sorted_in_bounded_steps() {
    for kinds in [&[1, 2][..], &[2, 1]] {
        let mut rng = Rng::new(1);
        let rows = 1 << 20;
        // One batch of all rows is split.
        let input = vec![vec![batch(&mut rng, kinds, 1 << 20, rows, 0)]];
        let order = order(&mut rng, 1);
        let sort = SortExec::new(order, source(&input[0][0].schema(), &input));
        let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
        let steps = ours.steps.clone();
        let given = outputs(&(Arc::new(ours) as _), context(8192)).expect("rows");
        assert_eq!(given[0].num_rows(), rows);
        assert!(steps.longest() <= UNITS, "{} units in one step", steps.longest());
        assert!(steps.all() > rows * 20, "{} units in all", steps.all());
    }
}

/// Sorts a million rows in DataFusion's way, and counts what the longest step does.
#[test]
fn a_million_rows_are_sorted_batch_by_batch_in_bounded_steps() {
    for keys in [1, 2] {
        let mut rng = Rng::new(1);
        let rows = 1 << 20;
        let input = vec![vec![batch(&mut rng, &[2, 1], 1 << 20, rows, 0)]];
        let sort = SortExec::new(order(&mut rng, keys), source(&input[0][0].schema(), &input));
        let ours = BatchSortExec::in_place_of(&sort, None).expect("a plan").expect("is done here");
        let steps = ours.steps.clone();
        let given = outputs(&(Arc::new(ours) as _), context(8192)).expect("rows");
        assert_eq!(given[0].num_rows(), rows);
        assert!(steps.longest() <= UNITS, "{} units in one step", steps.longest());
        assert!(steps.all() > rows * 10, "{} units in all", steps.all());
    }
}

/// On workers whose steps have no time, each sorted batch is given in a step of its own, and all are given.
#[test]
fn sorted_batches_are_merged_over_several_steps() {
    let mut rng = Rng::new(6);
    let pieces: Vec<_> = (0..50).map(|at| batch(&mut rng, &[2, 1], 9, 300, at * 300)).collect();
    let order = order(&mut rng, 2);
    let sort = SortExec::new(order.clone(), source(&pieces[0].schema(), &[pieces]));
    let ours = BatchSortExec::in_place_of(&sort, None).expect("a plan").expect("is done here");
    let mut rows = ours.execute(0, Arc::new(context(300))).expect("runs");
    let mut config = Config::shared(1);
    config.slice = Duration::ZERO;
    let runtime = Runtime::new(config).expect("a runtime");
    let (mut steps, mut all) = (0, Vec::new());
    let collected = std::future::poll_fn(move |polled| {
        steps += 1;
        loop {
            match ready!(rows.as_mut().poll_next(polled)) {
                Some(batch) => all.push(batch.expect("rows")),
                None => return Poll::Ready((steps, std::mem::take(&mut all))),
            }
        }
    });
    let (steps, all) = runtime
        .spawn_future(Annotation::default(), collected)
        .expect("a credit")
        .wait()
        .expect("runs");
    let given = shown(&concat_batches(&all[0].schema(), &all).expect("one schema"), &order);
    assert!(given.keys.is_sorted() && given.keys.len() == 15_000);
    // Fifty were sorted, and fifty given to be merged.
    assert!(steps >= 100, "{steps} steps");
}

/// Rows that come in order are one source of the merge: each is compared once then.
#[test]
fn rows_that_come_in_order_are_not_merged() {
    let units = |numbers: &mut dyn Iterator<Item = i64>| {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        let batch = RecordBatch::try_from_iter([("c0", column)]).expect("a batch");
        let order = order(&mut Rng::new(0), 1);
        let order = LexOrdering::from([PhysicalSortExpr::new_default(Arc::clone(&order[0].expr))]);
        let sort = SortExec::new(order, source(&batch.schema(), &[vec![batch]]));
        let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
        let steps = ours.steps.clone();
        let given = outputs(&(Arc::new(ours) as _), context(8192)).expect("rows");
        assert_eq!(given[0].num_rows(), 400_000);
        steps.all()
    };
    let (up, down) = (units(&mut (0..400_000)), units(&mut (0..400_000).rev()));
    assert!(down - up >= 3 * 400_000, "{up} units of rows in order, {down} of others");
}

/// Batches whose texts are those of one large batch hold these once.
#[test]
fn texts_that_batches_share_count_once() {
    let mut rng = Rng::new(5);
    let whole = batch(&mut rng, &[2, 2], 1 << 30, 40_000, 0);
    let pieces: Vec<_> = (0..40).map(|at| whole.slice(at * 1_000, 1_000)).collect();
    let bytes = whole.get_array_memory_size();
    let order = order(&mut rng, 1);
    let sort = SortExec::new(order, source(&whole.schema(), &[pieces]));
    let pool = || Arc::new(GreedyMemoryPool::new(bytes * 4)) as Arc<dyn MemoryPool>;
    let limited = |pool| {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc();
        context(8192).with_runtime(runtime.expect("an environment"))
    };
    let twin = outputs(&(Arc::new(sort.clone()) as _), limited(pool()));
    assert!(twin.is_err(), "the slow twin counts them with each piece");
    let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
    let given = outputs(&(Arc::new(ours) as _), limited(pool())).expect("has memory");
    assert_eq!(given[0].num_rows(), 40_000);
}

/// Runs of which two fit into memory are merged in several passes, and equal keys keep their order.
#[test]
fn runs_beyond_the_memory_of_a_merge_are_merged_in_passes() {
    let disk = Disk::new("passes");
    let mut rng = Rng::new(2);
    let pieces: Vec<_> = (0..60).map(|at| batch(&mut rng, &[0, 2], 40, 600, at * 600)).collect();
    let order = order(&mut rng, 1);
    let sort = SortExec::new(order.clone(), source(&pieces[0].schema(), &[pieces]));
    let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
    let ours: Arc<dyn ExecutionPlan> = Arc::new(ours);
    let given = outputs(&ours, disk.tight(1, 512)).expect("rows");
    let told = ours.metrics().expect("metrics");
    assert!(told.spill_count() >= Some(6), "{:?} files", told.spill_count());
    assert!(told.spilled_rows() >= Some(5 * 36_000), "{:?} rows", told.spilled_rows());
    let given = shown(&given[0], &order);
    let by_key = |a: usize| (&given.keys[a], given.numbers[a]);
    assert!(given.rows.len() == 36_000 && (1..36_000).all(|row| by_key(row - 1) < by_key(row)));
}

/// What is denied without a folder, or written to a full disk, fails with its reason, and nothing stays.
#[test]
fn what_cannot_be_held_or_written_fails_with_its_reason() {
    let disk = Disk::new("refused");
    let mut rng = Rng::new(3);
    let pieces: Vec<_> = (0..9).map(|at| batch(&mut rng, &[2], 4_000, 600, at * 600)).collect();
    let order = order(&mut rng, 1);
    let sort = SortExec::new(order, source(&pieces[0].schema(), &[pieces]));
    let failed = |context: TaskContext| {
        let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
        let failed = outputs(&(Arc::new(ours) as _), context).expect_err("is refused");
        let counts = disk.folder.counts();
        assert_eq!((counts.files, counts.bytes), (0, 0));
        sql_error(failed, "").state().as_str().to_owned()
    };
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(9_000)));
    let without = context(512).with_runtime(runtime.build_arc().expect("an environment"));
    assert_eq!(failed(without), "53200");
    disk.folder.plant_full_disk(2_000);
    assert_eq!(failed(disk.tight(1, 512)), "53100");
}

/// An expression that fails ends the sort, and a decimal beyond its type is told, not put in the wrong place.
#[test]
fn keys_that_fail_end_the_sort() {
    let digits: ArrayRef = Arc::new(
        Decimal128Array::from(vec![1, 10_i128.pow(20)]).with_data_type(DataType::Decimal128(12, 2)),
    );
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![1, 0]));
    let batch = RecordBatch::try_from_iter([("c0", digits), ("c1", zeros)]).expect("a batch");
    let failed = |key: Arc<dyn PhysicalExpr>| {
        let order = LexOrdering::from([PhysicalSortExpr::new_default(key)]);
        let sort = SortExec::new(order, source(&batch.schema(), &[vec![batch.clone()]]));
        let ours = RunSortExec::in_place_of(&sort).expect("a plan").expect("is done here");
        let failed = outputs(&(Arc::new(ours) as _), context(8192)).expect_err("fails");
        sql_error(failed, "").state().as_str().to_owned()
    };
    assert_eq!(failed(Arc::new(Column::new("c0", 0))), "22003");
    let one_over = BinaryExpr::new(lit(1_i64), Operator::Divide, Arc::new(Column::new("c1", 1)));
    assert_eq!(failed(Arc::new(one_over)), "22012");
}

/// Sorts that stay DataFusion's: few rows, inputs in order, and rows that files cannot hold.
#[test]
fn sorts_that_are_not_done_here_stay() {
    let values =
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8, 2]].into_iter()).expect("two bytes"));
    let batch = RecordBatch::try_from_iter([("c0", values as ArrayRef)]).expect("a batch");
    let order = order(&mut Rng::new(0), 1);
    let input = || source(&batch.schema(), &[vec![batch.clone()]]);
    let plan =
        |plan: SortExec| crate::sorts(Arc::new(plan), true).expect("a plan").name().to_owned();
    assert_eq!(plan(SortExec::new(order.clone(), input())), "RunSortExec");
    let without_files = crate::sorts(Arc::new(SortExec::new(order.clone(), input())), false);
    assert_eq!(without_files.expect("a plan").name(), "BatchSortExec", "keys are bytes");
    let few = SortExec::new(order.clone(), input()).with_fetch(Some(3));
    assert_eq!(plan(few), "SortExec(TopK)");
    let rows = MemorySourceConfig::try_new(&[vec![batch.clone()]], batch.schema(), None);
    let rows = rows.and_then(|rows| rows.try_with_sort_information(vec![order.clone()]));
    let in_order: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(rows.expect("rows"));
    assert!(in_order.output_ordering().is_some());
    assert_eq!(plan(SortExec::new(order, in_order)), "SortExec");
}
