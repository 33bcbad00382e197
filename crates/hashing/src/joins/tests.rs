//! Random rows, joined here and by DataFusion's operator.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, JoinSide, JoinType, NullEquality, Result, ScalarValue};
use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::execution::TaskContext;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, lit};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, collect_partitioned,
};
use datafusion::prelude::SessionConfig;
use halcyon_base::interrupt::watching;
use halcyon_base::rng::Rng;
use halcyon_spill::{Spill, SpillFolder};
use halcyon_sql::diagnose::sql_error;

use crate::joins::exec::JoinExec;

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

fn column(rng: &mut Rng, rows: usize, values: u64, kind: u64) -> ArrayRef {
    let numbers = (0..rows).map(|_| {
        let is_null = rng.chance(1, 12);
        (!is_null).then(|| rng.below(values) as i64 - values as i64 / 2)
    });
    let text = |n: i64| format!("{}{n}", "long ".repeat((n.unsigned_abs() % 5) as usize));
    match kind {
        0 => Arc::new(Int32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        1 => Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n << 40)))),
        2 => Arc::new(StringViewArray::from_iter(numbers.map(|n| n.map(text)))),
        3 => Arc::new(Date32Array::from_iter(numbers.map(|n| n.map(|n| n as i32)))),
        _ => {
            let values = numbers.map(|n| n.map(|n| i128::from(n) << 60));
            let ty = DataType::Decimal128(38, 2);
            Arc::new(Decimal128Array::from_iter(values).with_data_type(ty))
        }
    }
}

/// Batches: keys of these kinds, a row's number, and a number to be compared.
fn side(rng: &mut Rng, kinds: &[u64], values: u64, batches: u64) -> (SchemaRef, Vec<RecordBatch>) {
    let mut all = Vec::new();
    let mut first = 0;
    for _ in 0..batches {
        let rows = rng.below(300) as usize;
        let mut columns: Vec<ArrayRef> =
            kinds.iter().map(|&kind| column(rng, rows, values, kind)).collect();
        columns.push(Arc::new(Int32Array::from_iter_values(first..first + rows as i32)));
        columns.push(column(rng, rows, 20, 0));
        first += rows as i32;
        let field = |(number, values): (usize, &ArrayRef)| {
            Field::new(format!("c{number}"), values.data_type().clone(), true)
        };
        let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
        all.push(RecordBatch::try_new(Arc::new(schema), columns).expect("a batch"));
    }
    (all[0].schema(), all)
}

fn source((schema, batches): &(SchemaRef, Vec<RecordBatch>)) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(MemorySourceConfig::try_new_exec(std::slice::from_ref(batches), Arc::clone(schema), None)?)
}

fn keys(count: usize) -> Vec<Arc<dyn PhysicalExpr>> {
    (0..count).map(|at| Arc::new(Column::new(&format!("c{at}"), at)) as _).collect()
}

fn rows(plan: &Arc<dyn ExecutionPlan>, batch_rows: usize) -> Vec<String> {
    let config = SessionConfig::new().with_batch_size(batch_rows);
    let context = TaskContext::default().with_session_config(config);
    rows_in(plan, context).expect("rows")
}

fn rows_in(plan: &Arc<dyn ExecutionPlan>, context: TaskContext) -> Result<Vec<String>> {
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
    Ok((0..all.num_rows()).map(row).collect())
}

/// A pool that gives a join so many bytes, and all that it asks for once it cannot split any more, unless it
/// `refuses_all`.
#[derive(Debug)]
struct Tight {
    bytes: usize,
    refuses_all: bool,
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
        let consumer = reservation.consumer();
        let is_limited =
            consumer.name().starts_with("JoinExec") && (self.refuses_all || consumer.can_spill());
        match is_limited && reservation.size() + additional > self.bytes {
            true => Err(DataFusionError::ResourcesExhausted("tight".to_owned())),
            false => self.all.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }
}

/// A folder of a test's own, and contexts of statements that may hold few bytes and spill there.
struct Disk {
    folder: Arc<SpillFolder>,
    path: PathBuf,
}

impl Disk {
    fn new(name: &str) -> Disk {
        let name = format!("halcyon-joins-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        Disk { folder: SpillFolder::open(&path).expect("a folder"), path }
    }

    fn context(&self, bytes: usize, refuses_all: bool, batch_rows: usize) -> TaskContext {
        let spill = Spill::new(&self.folder, None, None);
        let files = DiskManagerBuilder::default().with_temp_file_factory(spill.factory());
        let pool = Tight { bytes, refuses_all, all: UnboundedMemoryPool::default() };
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(files)
            .build_arc()
            .expect("an environment");
        let config = SessionConfig::new().with_batch_size(batch_rows).with_extension(spill);
        TaskContext::default().with_session_config(config).with_runtime(runtime)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[test]
fn pairs_are_those_of_the_slow_twin() {
    let (given, direct) = compare(0..300, &mut |_, batch_rows| {
        let config = SessionConfig::new().with_batch_size(batch_rows);
        TaskContext::default().with_session_config(config)
    });
    assert!(given > 100_000 && direct > 20, "{given} rows, {direct} tables with places");
}

/// Every kind of join, with conditions, NULLs, few keys and many, whose left side may hold nothing, little, or half.
#[test]
fn pairs_out_of_files_are_those_of_the_slow_twin() {
    let disk = Disk::new("pairs");
    let (given, _) = compare(1000..1300, &mut |rng, batch_rows| {
        disk.context(*rng.pick(&[1, 4_000, 12_000, 60_000]), false, batch_rows)
    });
    let counts = disk.folder.counts();
    assert!(given > 100_000 && counts.files_made > 1_000, "{given} rows, {counts:?}");
    assert_eq!((counts.files, counts.bytes), (0, 0), "files go with their statements");
}

/// Compares random joins. Returns how many rows they gave, and how many of them may have places for their keys.
fn compare(
    seeds: Range<u64>,
    context: &mut dyn FnMut(&mut Rng, usize) -> TaskContext,
) -> (usize, usize) {
    let (mut given, mut direct) = (0, 0);
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let kind = KINDS[seed as usize % KINDS.len()];
        let kinds: Vec<u64> = (0..1 + rng.below(3)).map(|_| rng.below(5)).collect();
        let values = *rng.pick(&[2, 30, 400]);
        let (lefts, rights) = (1 + rng.below(4), 1 + rng.below(4));
        let left = side(&mut rng, &kinds, values, lefts);
        let right = side(&mut rng, &kinds, values, rights);
        let last = kinds.len() + 1;
        let residual = rng.chance(1, 2).then(|| {
            let schema = Schema::new(vec![
                Field::new("l", DataType::Int32, true),
                Field::new("r", DataType::Int32, true),
            ]);
            let condition = BinaryExpr::new(
                Arc::new(Column::new("l", 0)),
                *rng.pick(&[Operator::Lt, Operator::NotEq]),
                Arc::new(Column::new("r", 1)),
            );
            let columns = [JoinSide::Left, JoinSide::Right];
            let columns = columns.map(|side| ColumnIndex { index: last, side });
            JoinFilter::new(Arc::new(condition), columns.to_vec(), Arc::new(schema))
        });
        let equality = *rng.pick(&[NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull]);
        let outputs = 1 + rng.below(3) as usize;
        let mode = *rng.pick(&[PartitionMode::CollectLeft, PartitionMode::Partitioned]);
        let split = |plan: Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
            let hash = Partitioning::Hash(keys(kinds.len()), outputs);
            Ok(Arc::new(RepartitionExec::try_new(plan, hash)?))
        };
        let plan = |_: ()| -> Result<HashJoinExec> {
            let (mut of_left, of_right) = (source(&left)?, split(source(&right)?)?);
            if mode == PartitionMode::Partitioned {
                of_left = split(of_left)?;
            }
            let on = keys(kinds.len()).into_iter().zip(keys(kinds.len())).collect();
            HashJoinExec::try_new(
                of_left,
                of_right,
                on,
                residual.clone(),
                &kind,
                None,
                mode,
                equality,
                false,
            )
        };
        let node = plan(()).expect("a plan");
        let width = node.schema().fields().len();
        let chosen: Vec<usize> = (0..width).filter(|_| rng.chance(2, 3)).collect();
        let chosen = (!chosen.is_empty() && rng.chance(1, 2)).then_some(chosen);
        // A node runs once.
        let twin = plan(()).and_then(|twin| twin.with_projection(chosen.clone()));
        let twin: Arc<dyn ExecutionPlan> = Arc::new(twin.expect("a plan"));
        let node = node.with_projection(chosen).expect("of its columns");
        let ours = JoinExec::in_place_of(&node).expect("a plan").expect("is done here");
        let ours: Arc<dyn ExecutionPlan> = Arc::new(ours);
        let batch_rows = 1 + rng.below(200) as usize;
        let sorted = |mut rows: Vec<String>| {
            rows.sort();
            rows
        };
        let context = context(&mut rng, batch_rows);
        let found = sorted(rows_in(&ours, context).expect("rows"));
        let expected = sorted(rows(&twin, 8192));
        assert_eq!(found, expected, "seed {seed}: {kind}, {mode:?}, {equality:?}");
        given += found.len();
        direct += usize::from(kinds.len() == 1 && matches!(kinds[0], 0 | 3));
    }
    (given, direct)
}

/// A left side of one key cannot be split, and a full disk takes nothing: the statement is told why, and nothing stays.
#[test]
fn what_cannot_be_split_or_written_fails_with_its_reason() {
    let disk = Disk::new("refused");
    let join = |values| {
        let mut rng = Rng::new(7);
        let (left, right) = (side(&mut rng, &[0], values, 4), side(&mut rng, &[0], values, 2));
        let on = keys(1).into_iter().zip(keys(1)).collect();
        let (left, right) = (source(&left).expect("rows"), source(&right).expect("rows"));
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let kind = JoinType::Inner;
        let node = HashJoinExec::try_new(left, right, on, None, &kind, None, mode, nulls, false);
        let ours = JoinExec::in_place_of(&node.expect("a plan")).expect("a plan");
        Arc::new(ours.expect("is done here")) as Arc<dyn ExecutionPlan>
    };
    let failed = |plan: Arc<dyn ExecutionPlan>| {
        let failed = rows_in(&plan, disk.context(3_000, true, 100)).expect_err("is refused");
        drop(plan);
        let counts = disk.folder.counts();
        assert_eq!((counts.files, counts.bytes), (0, 0));
        sql_error(failed, "")
    };
    let told = failed(join(1));
    assert_eq!(told.state().as_str(), "53200");
    let detail = told.fields().detail.clone().unwrap_or_default();
    assert!(detail.contains("have one key"), "{detail}");
    disk.folder.plant_full_disk(2_000);
    let told = failed(join(400));
    assert_eq!(told.state().as_str(), "53100");
    assert!(told.message().contains(&disk.folder.path().display().to_string()), "{told}");
}

/// An operator that keeps its right side's order keeps it, though parts of it lie in files.
#[test]
fn rows_out_of_files_come_in_the_order_of_the_right_side() {
    let disk = Disk::new("order");
    for (number, kind) in KINDS.into_iter().enumerate() {
        let mut rng = Rng::new(number as u64);
        let (left, right) = (side(&mut rng, &[0], 30, 3), side(&mut rng, &[0], 40, 4));
        let on = keys(1).into_iter().zip(keys(1)).collect();
        let (schema, batches) = &right;
        let by_number = PhysicalSortExpr::new_default(Arc::new(Column::new("c1", 1)));
        let ordered =
            MemorySourceConfig::try_new(std::slice::from_ref(batches), Arc::clone(schema), None);
        let ordered = ordered
            .and_then(|rows| rows.try_with_sort_information(vec![LexOrdering::from([by_number])]));
        let ordered = DataSourceExec::from_data_source(ordered.expect("rows"));
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let left = source(&left).expect("rows");
        let node = HashJoinExec::try_new(left, ordered, on, None, &kind, None, mode, nulls, false);
        let ours = JoinExec::in_place_of(&node.expect("a plan")).expect("a plan");
        let ours: Arc<dyn ExecutionPlan> = Arc::new(ours.expect("is done here"));
        if ours.output_ordering().is_none() {
            continue;
        }
        let place = if ours.schema().fields().len() > 4 { 4 } else { 1 };
        let given = rows_in(&ours, disk.context(2_000, false, 7)).expect("rows");
        let numbers = given.into_iter().map(|row| {
            row.split(" | ").nth(place).and_then(|n| n.parse::<i64>().ok()).expect("a number")
        });
        let numbers: Vec<i64> = numbers.collect();
        assert!(numbers.len() > 100 && numbers.is_sorted(), "{kind}");
        let files = ours.metrics().and_then(|told| told.spill_count());
        assert!(files >= Some(2), "{kind}: {files:?}");
    }
    assert!(disk.folder.counts().files_made > 4);
}

/// An operator that keeps its right side's order keeps it.
#[test]
fn rows_come_in_the_order_of_the_right_side() {
    for (number, kind) in KINDS.into_iter().enumerate() {
        let mut rng = Rng::new(number as u64);
        let (left, right) = (side(&mut rng, &[0], 30, 3), side(&mut rng, &[0], 40, 4));
        let on = keys(1).into_iter().zip(keys(1)).collect();
        let (left, right) = (source(&left).expect("rows"), source(&right).expect("rows"));
        let mode = PartitionMode::CollectLeft;
        let nulls = NullEquality::NullEqualsNothing;
        let node = HashJoinExec::try_new(left, right, on, None, &kind, None, mode, nulls, false);
        let ours = JoinExec::in_place_of(&node.expect("a plan")).expect("a plan");
        let ours: Arc<dyn ExecutionPlan> = Arc::new(ours.expect("is done here"));
        if !ours.maintains_input_order()[1] {
            continue;
        }
        let place = if ours.schema().fields().len() > 4 { 4 } else { 1 };
        let numbers = rows(&ours, 7).into_iter().map(|row| {
            row.split(" | ").nth(place).and_then(|n| n.parse::<i64>().ok()).expect("a number")
        });
        let numbers: Vec<i64> = numbers.collect();
        assert!(numbers.len() > 100 && numbers.is_sorted(), "{kind}");
    }
}

/// What scans are told leaves out no key of the table, and most others.
#[test]
fn no_key_in_the_table_is_left_out() {
    for (seed, kinds) in [[0_u64; 2], [1, 1], [2, 2], [3, 0], [4, 2]].into_iter().enumerate() {
        for count in [1, 2] {
            for outputs in [1, 3] {
                let mut rng = Rng::new(seed as u64);
                let kinds = &kinds[..count];
                let (left, right) =
                    (side(&mut rng, kinds, 500, 2), side(&mut rng, kinds, 100_000, 3));
                let split = |plan| -> Arc<dyn ExecutionPlan> {
                    let hash = Partitioning::Hash(keys(count), outputs);
                    Arc::new(RepartitionExec::try_new(plan, hash).expect("a plan"))
                };
                let on = keys(count).into_iter().zip(keys(count)).collect();
                let node = HashJoinExec::try_new(
                    split(source(&left).expect("rows")),
                    split(source(&right).expect("rows")),
                    on,
                    None,
                    &JoinType::Inner,
                    None,
                    PartitionMode::Partitioned,
                    NullEquality::NullEqualsNothing,
                    false,
                );
                let node = node.expect("a plan");
                let finding = Arc::new(DynamicFilterPhysicalExpr::new(keys(count), lit(true)));
                let ours = JoinExec::in_place_of(&node).expect("a plan").expect("is done here");
                let ours = ours.finding(&finding, Arc::clone(node.right())).expect("a plan");
                rows(&(Arc::new(ours) as _), 100);
                let told = finding.current().expect("told");
                let held = |batches: &[RecordBatch]| -> (usize, usize) {
                    let mut counts = (0, 0);
                    for batch in batches {
                        let held = told.evaluate(batch).expect("evaluated");
                        let held = held.into_array(batch.num_rows()).expect("an array");
                        let held = arrow::array::AsArray::as_boolean(&held).true_count();
                        counts = (counts.0 + held, counts.1 + batch.num_rows());
                    }
                    counts
                };
                let whole = |batch: &RecordBatch| -> usize {
                    let is_whole =
                        |row: &usize| (0..count).all(|at| batch.column(at).is_valid(*row));
                    (0..batch.num_rows()).filter(is_whole).count()
                };
                let (kept, _) = held(&left.1);
                assert_eq!(kept, left.1.iter().map(whole).sum::<usize>(), "{told}");
                let (kept, all) = held(&right.1);
                assert!(kept * 10 < all, "{kept} of {all} rows are kept: {told}");
            }
        }
    }
}

/// Outputs wait until all tables are there, or until one is given up.
#[test]
fn no_output_waits_for_a_table_that_will_not_come() {
    use crate::joins::found::Findings;
    use crate::joins::plan::Join;
    use std::sync::mpsc;
    use std::time::Duration;

    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let (left, right) = (side(&mut rng, &[0], 30, 1), side(&mut rng, &[0], 30, 1));
        let on = keys(1).into_iter().zip(keys(1)).collect();
        let (of_left, of_right) = (source(&left).expect("rows"), source(&right).expect("rows"));
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let kind = JoinType::Inner;
        let node =
            HashJoinExec::try_new(of_left, of_right, on, None, &kind, None, mode, nulls, false);
        let join = Join::of(&node.expect("a plan")).expect("a plan").expect("is done here");
        let finding = Arc::new(DynamicFilterPhysicalExpr::new(keys(1), lit(true)));
        let tables = 1 + rng.below(4) as usize;
        let findings = Findings::new(&Arc::new(join), &finding, tables);
        let given_up = rng.chance(1, 2).then(|| rng.below(tables as u64) as usize);
        let (sender, receiver) = mpsc::channel();
        for table in 0..tables {
            let (findings, sender) = (Arc::clone(&findings), sender.clone());
            std::thread::spawn(move || {
                let told = match given_up == Some(table) {
                    true => {
                        findings.give_up();
                        Ok(())
                    }
                    false => futures::executor::block_on(findings.bring(Arc::new(Few(table)))),
                };
                sender.send(told.is_ok()).expect("the test waits");
            });
        }
        for _ in 0..tables {
            let told = receiver.recv_timeout(Duration::from_secs(30));
            assert!(told.expect("no output waits for ever"), "seed {seed}");
        }
        let told = finding.current().expect("told");
        let is_told = told.to_string() != "true";
        assert_eq!(is_told, given_up.is_none(), "seed {seed}: {told}");
    }
}

/// A table of one key.
#[derive(Debug)]
struct Few(usize);

impl crate::joins::found::Table for Few {
    fn len(&self) -> usize {
        1
    }

    fn ranges(
        &self,
    ) -> Vec<Option<(datafusion::common::ScalarValue, datafusion::common::ScalarValue)>> {
        vec![Some(((self.0 as i32).into(), (self.0 as i32).into()))]
    }

    fn integers(&self) -> Option<(i64, i64)> {
        Some((self.0 as i64, self.0 as i64))
    }

    fn put(&self, _: usize, _: &mut crate::joins::found::Filter) -> Option<usize> {
        None
    }
}

/// A condition that holds for no pair, and counts how often it is asked.
#[derive(Debug, Default)]
struct Never(Arc<AtomicUsize>);

impl PartialEq for Never {
    fn eq(&self, _: &Never) -> bool {
        true
    }
}

impl Eq for Never {}

impl Hash for Never {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("never")
    }
}

impl PhysicalExpr for Never {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, _: &RecordBatch) -> Result<ColumnarValue> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(false))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Pairs that the condition drops are looked at piece by piece, between which the statement may end and others run.
#[test]
fn a_join_that_gives_no_rows_can_be_cancelled_between_its_pieces() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut rng = Rng::new(3);
    let (left, right) = (side(&mut rng, &[0], 1, 9), side(&mut rng, &[0], 1, 9));
    let schema = Schema::new(vec![Field::new("l", DataType::Int32, true)]);
    let columns = vec![ColumnIndex { index: 1, side: JoinSide::Left }];
    let filter = JoinFilter::new(Arc::new(Never(Arc::clone(&asked))), columns, Arc::new(schema));
    for kind in KINDS {
        let (left, right) = (source(&left).expect("rows"), source(&right).expect("rows"));
        let on = keys(1).into_iter().zip(keys(1)).collect();
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let filter = Some(filter.clone());
        let node = HashJoinExec::try_new(left, right, on, filter, &kind, None, mode, nulls, false);
        let ours = JoinExec::in_place_of(&node.expect("a plan")).expect("a plan");
        let ours = Arc::new(ours.expect("is done here")) as Arc<dyn ExecutionPlan>;
        asked.store(0, Ordering::Relaxed);
        let (stops, config) = (Arc::clone(&asked), SessionConfig::new().with_batch_size(10));
        let context = TaskContext::default().with_session_config(config);
        let ended = watching(move || stops.load(Ordering::Relaxed) > 0, || rows_in(&ours, context));
        assert_eq!(sql_error(ended.expect_err("is cancelled"), "").state().as_str(), "57014");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "pieces of {kind} behind the cancellation");
    }
}
