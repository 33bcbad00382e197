//! Views over plain partitions, without SQL: statements of several changes, rolled back or not,
//! leave every view as recomputation does; a view gets no events that it does not need; every error
//! is raised.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use halcyon_base::ids::{PartitionId, RowId, SessionId, TableId};
use halcyon_base::rng::Rng;
use halcyon_store::{ColumnDef, Partition, Schema, Type as ColumnType, Value, ValueRef};
use halcyon_txn::{
    CancelToken, Isolation, LockHandle, Manager, Mode, PartitionCell, Transaction, WaitLimits,
};
use halcyon_view::Executor;
use halcyon_view::program::{
    BinaryOp, CompareOp, Component, Derived, Expr, MapDecl, MapId, Program, Reg, Relation,
    RelationId, Statement, Trigger, Type,
};
use halcyon_views::{
    CellChoice, CellPlace, MaintainedView, MaintenanceError, Refused, StreamViews, ViewBudget,
    ViewColumn, ViewError, ViewInput, ViewMaintenance, ViewProgram,
};

const TABLE: TableId = TableId(1);

fn register(number: u16) -> Expr {
    Expr::Reg(Reg(number))
}

/// `SELECT k, SUM(v), COUNT(*) FROM r(k, v) GROUP BY k`.
fn sums() -> Program {
    use Type::Int;
    let relation = |name: &str, columns: &[Type], derived: Option<Expr>| Relation {
        name: name.to_owned(),
        columns: columns.to_vec(),
        source_columns: if derived.is_none() { vec![0, 1] } else { vec![] },
        never_null: vec![],
        derived: derived.map(|exists| Derived {
            map: MapId(0),
            registers: vec![Int; 3],
            steps: vec![],
            exists,
            row: vec![register(0), register(1), register(2)],
        }),
    };
    let product = Expr::Binary(BinaryOp::Mul, Int, Box::new(register(1)), Box::new(register(2)));
    let exists = Expr::Compare(CompareOp::Gt, Int, Box::new(register(2)), Box::new(Expr::Int(0)));
    Program {
        relations: vec![relation("r", &[Int; 2], None), relation("out", &[Int; 3], Some(exists))],
        maps: vec![MapDecl {
            name: "sums".to_owned(),
            definition: String::new(),
            key: vec![Int],
            payload: vec![Component::Int, Component::Int],
            ordered: false,
            slices: vec![],
        }],
        triggers: vec![
            Trigger {
                registers: vec![Int; 3],
                statements: vec![Statement {
                    comment: String::new(),
                    steps: vec![],
                    target: MapId(0),
                    key: vec![register(0)],
                    add: vec![product, register(2)],
                    replace: false,
                }],
            },
            Trigger { registers: vec![Int; 4], statements: vec![] },
        ],
        one_row: None,
        output: RelationId(1),
        output_repeats: false,
    }
}

fn columns(types: [ColumnType; 3]) -> Arc<Schema> {
    Schema::new(types.map(|ty| ColumnDef { ty, nullable: true }).to_vec())
}

const PLAIN: [ColumnType; 3] = [ColumnType::Int64; 3];

/// [`sums`] over two columns of a table, with result columns of these types.
fn definition(table: TableId, read: [u16; 2], stored: [ColumnType; 3]) -> ViewProgram {
    let column = |word: usize| ViewColumn { ty: Type::Int, stored: stored[word], word };
    ViewProgram {
        program: sums(),
        executor: Executor::Compiled,
        cell: None,
        inputs: vec![ViewInput {
            table,
            relation: RelationId(0),
            columns: read.to_vec(),
            types: vec![Type::Int; 2],
        }],
        columns: (0..3).map(column).collect(),
    }
}

fn fill(
    id: u32,
    program: ViewProgram,
    stored: [ColumnType; 3],
    budget: &Arc<ViewBudget>,
) -> Result<Arc<MaintainedView>, ViewError> {
    let cell = |rows| Arc::new(PartitionCell::derived(PartitionId(id), rows));
    let rows = Partition::new(columns(stored));
    let cancel = CancelToken::new();
    program.fill(TableId(id), [], rows, cell, Arc::clone(budget), &cancel).map(Arc::new)
}

/// A table of two partitions with columns (key, value, note), and views that follow from it.
struct Warehouse {
    manager: Manager,
    cells: Vec<Arc<PartitionCell>>,
    views: Vec<Arc<MaintainedView>>,
    maintenance: ViewMaintenance,
    budget: Arc<ViewBudget>,
    cancel: CancelToken,
}

impl Warehouse {
    /// The views of (table, columns) with ids from 10 on; they may read each other.
    fn new(reads: &[(TableId, [u16; 2])], stored: [ColumnType; 3]) -> Self {
        Self::placed(reads, stored, None)
    }

    /// As [`Warehouse::new`], with the views' programs in cells.
    fn placed(
        reads: &[(TableId, [u16; 2])],
        stored: [ColumnType; 3],
        place: Option<CellPlace>,
    ) -> Self {
        let choice = |place| CellChoice { place, memory_bytes: None, cpu: None, later: false };
        let budget = Arc::<ViewBudget>::default();
        let cell =
            |id| Arc::new(PartitionCell::derived(PartitionId(id), Partition::new(columns(PLAIN))));
        let cells: Vec<_> = [1, 2].map(cell).to_vec();
        let view = |((table, read), id): (&(TableId, [u16; 2]), u32)| {
            let program =
                ViewProgram { cell: place.map(choice), ..definition(*table, *read, stored) };
            fill(id, program, stored, &budget).expect("nothing to fail at")
        };
        let views: Vec<_> = reads.iter().zip(10..).map(view).collect();
        let maintenance = ViewMaintenance::new(views.clone(), |table| {
            let view = views.iter().find(|view| view.id() == table);
            match view {
                Some(view) => vec![Arc::clone(view.rows())],
                None => cells.clone(),
            }
        });
        let (manager, cancel) = (Manager::new(), CancelToken::new());
        Warehouse { manager, cells, views, maintenance, budget, cancel }
    }

    /// A transaction that has locked everything.
    fn begin(&self) -> (Transaction, Vec<LockHandle>) {
        let mut tx = self.manager.begin(Isolation::Serializable, SessionId(1));
        tx.begin_statement();
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let all = self.cells.iter().chain(self.views.iter().map(|view| view.rows()));
        let handles = all.map(|cell| tx.lock(cell, Mode::Exclusive, &limits).expect("alone"));
        let handles = handles.collect();
        (tx, handles)
    }

    /// Runs a statement whose view rows are all approved; its changes are undone if a view fails.
    fn run(
        &self,
        tx: &mut Transaction,
        statement: impl FnOnce(&mut Transaction),
    ) -> Result<(), ViewError> {
        let since = tx.savepoint();
        statement(tx);
        let done =
            self.maintenance.run(tx, &since, None, &self.cancel, &mut |_, _| Ok::<_, ()>(()));
        done.map_err(|MaintenanceError { refused, .. }| {
            tx.rollback_to(since);
            match refused {
                Refused::View(error) => error,
                Refused::Judge(()) => unreachable!("nobody judges"),
            }
        })
    }

    /// Panics unless every view equals its recomputation over its inputs.
    fn compare(&self, tx: &Transaction) {
        let root =
            |cell: &Arc<PartitionCell>| tx.read(tx.held_exclusively(cell).expect("locked")).clone();
        for view in &self.views {
            view.check();
            let [input] = view.inputs() else { unreachable!("each reads one table") };
            let source = self.views.iter().find(|view| view.id() == input.table);
            let roots: Vec<Partition> = match source {
                Some(view) => vec![root(view.rows())],
                None => self.cells.iter().map(root).collect(),
            };
            let mut expected: BTreeMap<i64, [i64; 2]> = BTreeMap::new();
            for row in roots.iter().flat_map(|root| root.rows()) {
                let [key, value] = [0, 1].map(|at| int(row.value(usize::from(input.columns[at]))));
                let group = expected.entry(key).or_default();
                *group = [group[0] + value, group[1] + 1];
            }
            let rows = root(view.rows());
            let found: BTreeMap<i64, [i64; 2]> = rows
                .rows()
                .map(|row| (int(row.value(0)), [int(row.value(1)), int(row.value(2))]))
                .collect();
            assert_eq!(found, expected, "view {:?}", view.id());
        }
    }
}

fn int(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Int64(value) => value,
        other => panic!("{other:?} is no BIGINT"),
    }
}

fn row(values: [i64; 3]) -> [ValueRef<'static>; 3] {
    values.map(ValueRef::Int64)
}

fn change_randomly(tx: &mut Transaction, handles: &[LockHandle], rng: &mut Rng) {
    let handle = handles[rng.below(2) as usize];
    let id = RowId(rng.below(12) as u32);
    let values = [rng.below(4) as i64, rng.below(100) as i64, rng.below(2) as i64];
    match rng.below(5) {
        0 => assert!(matches!(tx.delete(handle, id), true | false)),
        1 | 2 => drop(tx.insert(handle, &row(values)).expect("no index")),
        _ if tx.read(handle).row(id).is_none() => {}
        _ => {
            let column = rng.below(3) as u16;
            let value = [ValueRef::Int64(values[usize::from(column)])];
            tx.update(handle, id, &[column], &value).expect("no index");
        }
    }
}

#[test]
fn statements_leave_views_as_recomputation_does() {
    run_random_statements(None, 40);
}

#[test]
fn a_cell_that_breaks_now_and_then_leaves_views_as_recomputation_does() {
    run_random_statements(Some(CellPlace::Thread), 8);
    match halcyon_cell::available(CellPlace::Machine) {
        Ok(()) => run_random_statements(Some(CellPlace::Machine), 2),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "skipped: views in machines: {why}");
        }
    }
}

fn run_random_statements(place: Option<CellPlace>, seeds: u64) {
    let (sums, by_note) = ((TABLE, [0, 1]), (TABLE, [2, 1]));
    // The third view reads the first, the fourth reads the third.
    let reads = [sums, by_note, (TableId(10), [2, 1]), (TableId(12), [0, 2])];
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let warehouse = Warehouse::placed(&reads, PLAIN, place);
        for _ in 0..12 {
            let (mut tx, handles) = warehouse.begin();
            for _ in 0..rng.below(4) {
                let savepoint = tx.savepoint();
                let count = 1 + rng.below(6);
                if place.is_some() && rng.below(3) == 0 {
                    warehouse.views[rng.below(4) as usize].break_cell();
                }
                let changed = warehouse.run(&mut tx, |tx| {
                    (0..count).for_each(|_| change_randomly(tx, &handles, &mut rng));
                    if rng.below(8) == 0 {
                        let emptied = tx.alter(handles[0], |root| {
                            root.truncate();
                            Ok::<_, std::convert::Infallible>(())
                        });
                        emptied.expect("nothing can fail");
                    }
                });
                changed.expect("sums fit");
                warehouse.compare(&tx);
                if rng.below(4) == 0 {
                    if place.is_some() && rng.below(2) == 0 {
                        warehouse.views[rng.below(4) as usize].break_cell();
                    }
                    tx.rollback_to(savepoint);
                    warehouse.compare(&tx);
                }
            }
            match rng.below(3) {
                0 => tx.rollback(),
                _ => tx.commit(),
            }
            let (tx, _) = warehouse.begin();
            warehouse.compare(&tx);
            tx.rollback();
        }
    }
}

#[test]
fn changes_of_columns_that_a_view_does_not_read_are_no_events() {
    let warehouse = Warehouse::new(&[(TABLE, [0, 1]), (TABLE, [0, 2])], PLAIN);
    let (mut tx, handles) = warehouse.begin();
    let insert = |tx: &mut Transaction| {
        tx.insert(handles[0], &row([1, 10, 5])).expect("no index");
        tx.insert(handles[1], &row([1, 20, 6])).expect("no index");
    };
    warehouse.run(&mut tx, insert).expect("it fits");
    let events = || warehouse.views.iter().map(|view| view.figures().events).collect::<Vec<_>>();
    assert_eq!(events(), [2, 2]);
    let note = [ValueRef::Int64(7)];
    let update = |tx: &mut Transaction| {
        tx.update(handles[0], RowId(0), &[2], &note).expect("no index");
    };
    warehouse.run(&mut tx, update).expect("it fits");
    assert_eq!(events(), [2, 4], "an old and a new row for the view that reads the column");
    let gone = |tx: &mut Transaction| {
        let id = tx.insert(handles[0], &row([9, 9, 9])).expect("no index");
        assert!(tx.delete(handles[0], id));
    };
    warehouse.run(&mut tx, gone).expect("it fits");
    assert_eq!(events(), [2, 4], "a row that came and went in one statement");
    warehouse.compare(&tx);
    tx.commit();
}

#[test]
fn old_rows_are_told_before_new_ones() {
    let warehouse = Warehouse::new(&[(TABLE, [0, 1])], PLAIN);
    let (mut tx, handles) = warehouse.begin();
    let insert = |tx: &mut Transaction| {
        tx.insert(handles[0], &row([1, 0, 0])).expect("no index");
        tx.insert(handles[1], &row([1, i64::MAX, 0])).expect("no index");
    };
    warehouse.run(&mut tx, insert).expect("it fits");
    // If the first row's new value came before the second row's old one went, the sum would not
    // fit.
    let exchange = |tx: &mut Transaction| {
        tx.update(handles[0], RowId(0), &[1], &[ValueRef::Int64(i64::MAX)]).expect("no index");
        tx.update(handles[1], RowId(0), &[1], &[ValueRef::Int64(0)]).expect("no index");
    };
    assert_eq!(warehouse.run(&mut tx, exchange), Ok(()));
    warehouse.compare(&tx);
    tx.commit();
}

#[test]
fn a_cancelled_statement_is_taken_back_and_fills_nothing() {
    let warehouse = Warehouse::new(&[(TABLE, [0, 1])], PLAIN);
    let (mut tx, handles) = warehouse.begin();
    let insert = |tx: &mut Transaction| {
        tx.insert(handles[0], &row([1, 10, 5])).expect("no index");
    };
    warehouse.run(&mut tx, insert).expect("it fits");
    warehouse.cancel.cancel();
    assert_eq!(warehouse.run(&mut tx, insert), Err(ViewError::Cancelled));
    warehouse.compare(&tx);
    let program = definition(TABLE, [0, 1], PLAIN);
    let cell = |rows| Arc::new(PartitionCell::derived(PartitionId(99), rows));
    let (id, budget, rows) = (TableId(99), Arc::default(), Partition::new(columns(PLAIN)));
    let tables = [(TABLE, tx.read(handles[0]))];
    let filled = program.fill(id, tables, rows, cell, budget, &warehouse.cancel);
    assert_eq!(filled.err(), Some(ViewError::Cancelled));
    warehouse.cancel.reset();
    assert_eq!(warehouse.run(&mut tx, insert), Ok(()));
    warehouse.compare(&tx);
    tx.commit();
}

#[test]
fn a_judge_sees_new_rows_by_view_and_its_refusal_takes_nothing_along() {
    let warehouse = Warehouse::new(&[(TABLE, [0, 1]), (TABLE, [2, 1])], PLAIN);
    let (mut tx, handles) = warehouse.begin();
    let seen = RefCell::new(Vec::new());
    let mut judge = |view: usize, row: &[ValueRef<'_>]| {
        seen.borrow_mut().push((view, int(row[1])));
        if view == 1 { Err("not this") } else { Ok(()) }
    };
    let since = tx.savepoint();
    tx.insert(handles[0], &row([1, 10, 5])).expect("no index");
    let refused = warehouse
        .maintenance
        .run(&mut tx, &since, None, &warehouse.cancel, &mut judge)
        .unwrap_err();
    assert_eq!((refused.view, refused.refused), (1, Refused::Judge("not this")));
    assert_eq!(seen.into_inner(), [(0, 10), (1, 10)]);
    tx.rollback_to(since);
    warehouse.compare(&tx);
    tx.commit();
}

#[test]
fn events_of_a_stream_reach_engines_first_and_rows_with_the_next_owner() {
    let warehouse = Warehouse::new(&[(TABLE, [0, 1])], PLAIN);
    let view = &warehouse.views[0];
    let mut stream = StreamViews::new(TABLE, &warehouse.views);
    assert!(!stream.repeat());
    assert_eq!(stream.event(&row([3, 40, 0]), 1), Ok(true));
    assert!(view.is_stale());
    let in_group = |sum| Some([3, sum, 1].map(Value::Int64).to_vec());
    assert_eq!(view.row_if_open(&[ValueRef::Int64(3)]), Ok(Some(in_group(40))));
    let (mut tx, handles) = warehouse.begin();
    assert_eq!(tx.read(handles[2]).row_count(), 0);
    view.own(&mut tx);
    assert_eq!(tx.read(handles[2]).row_count(), 1);
    assert!(!view.is_stale());
    assert_eq!(stream.event(&row([3, 1, 0]), 1), Ok(false), "a transaction owns the view");
    assert_eq!(view.row_if_open(&[ValueRef::Int64(3)]), Ok(None));
    tx.rollback();
    assert_eq!(view.row(&[ValueRef::Int64(3)]), Ok(in_group(40)));
}

#[test]
fn each_error_is_raised_and_changes_nothing() {
    use ColumnType::{Int16, Int64};
    let narrow = Warehouse::new(&[(TABLE, [0, 1])], [Int64, Int16, Int64]);
    let view = &narrow.views[0];
    let key = [ValueRef::Int64(1), ValueRef::Int64(2)];
    assert_eq!(view.row(&key), Err(ViewError::KeyWidth { expected: 1, given: 2 }));
    let (mut tx, handles) = narrow.begin();
    let insert = |tx: &mut Transaction, value: i64| {
        tx.insert(handles[0], &row([1, value, 0])).expect("no index");
    };
    assert_eq!(narrow.run(&mut tx, |tx| insert(tx, 40_000)), Err(ViewError::OutOfRange));
    let overflow = narrow.run(&mut tx, |tx| {
        insert(tx, i64::MAX);
        insert(tx, i64::MAX);
    });
    assert!(matches!(overflow, Err(ViewError::Engine(_))), "{overflow:?}");
    narrow.budget.set_max(1);
    let full = narrow.run(&mut tx, |tx| insert(tx, 4));
    assert!(matches!(full, Err(ViewError::OutOfMemory { max: 1, .. })), "{full:?}");
    narrow.budget.set_max(0);
    assert_eq!(tx.read(handles[2]).row_count(), 0);
    assert_eq!(view.row(&[ValueRef::Int64(1)]), Ok(None));
    narrow.run(&mut tx, |tx| insert(tx, 4)).expect("it fits");
    tx.commit();

    let mut stream = StreamViews::new(TABLE, &narrow.views);
    let bytes = [ValueRef::Bytes(b"x"), ValueRef::Int64(1), ValueRef::Null];
    assert_eq!(stream.event(&bytes, 1), Err(ViewError::UnsupportedType));

    let mut large = definition(TABLE, [0, 1], PLAIN);
    large.program.triggers[0].registers = vec![Type::Int; 1 << 13];
    let refused = fill(20, large, PLAIN, &Arc::default()).map(drop).unwrap_err();
    assert!(matches!(refused, ViewError::ProgramTooLarge(_)), "{refused:?}");
    assert_eq!(refused.sql_state().to_string(), "0A000");
}
