//! Cells whose rows the host has too: changes, events that are taken back, batches that are withdrawn.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use halcyon_base::rng::Rng;
use halcyon_cell::abi::events::{Batch, Events};
use halcyon_cell::abi::samples::{self, Sample};
use halcyon_cell::{Cell, CellError, Fault, Place, available};
use halcyon_view::program::{
    Component, Expr, MapDecl, MapId, Program, Reg, RelationId, Statement, Step, Trigger, Type,
};

/// Runs a test at every place that there is.
fn at_every_place(test: impl Fn(Place)) {
    for place in [Place::Thread, Place::Machine] {
        match available(place) {
            Ok(()) => test(place),
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "skipped: cells in machines: {why}");
            }
        }
    }
}

fn cell(place: Place, program: &Program) -> Cell {
    let mut cell = Cell::builder().place(place).memory(32 << 20).start().expect("a cell");
    cell.load(program).expect("a sound program");
    cell
}

fn never() -> bool {
    false
}

/// All rows, sorted.
fn read(cell: &mut Cell) -> Vec<Vec<u64>> {
    let rows = cell.read().expect("the cell answers");
    let mut rows: Vec<_> = rows.iter().map(<[u64]>::to_vec).collect();
    rows.sort();
    rows
}

/// The rows of a view as the host has them, by key.
#[derive(Default)]
struct Mirror {
    rows: BTreeMap<Vec<u64>, Vec<u64>>,
    position: u64,
    /// How often the cell has told all rows.
    wholes: usize,
}

impl Mirror {
    fn follow(&mut self, cell: &mut Cell) {
        let changes = cell.changes(self.position, &never).expect("the cell answers");
        self.position = changes.sequence;
        if changes.is_all {
            self.wholes += 1;
            self.rows.clear();
        }
        for change in changes.iter() {
            let before = match change.new {
                Some(row) => self.rows.insert(change.key.to_vec(), row.to_vec()),
                None => self.rows.remove(change.key),
            };
            assert_eq!(before.as_deref(), change.old, "the host had the row before");
        }
    }

    fn compare(&self, cell: &mut Cell) {
        let mut rows: Vec<_> = self.rows.values().cloned().collect();
        rows.sort();
        assert_eq!(rows, read(cell));
    }
}

#[test]
fn changes_since_a_position_make_the_rows_that_the_cell_has() {
    at_every_place(|place| {
        for sample in Sample::ALL {
            let mut rng = Rng::new(4);
            let batches = sample.batches(6000, 40);
            let mut cell = cell(place, &sample.program());
            let mut mirror = Mirror::default();
            for batch in &batches {
                let sequence = cell.feed(batch).expect("accepted");
                match rng.below(8) {
                    0 => cell.kill(),
                    1 => cell.confirm(sequence, &never).expect("the cell answers"),
                    2 => {
                        cell.save().expect("the cell answers");
                    }
                    3..6 => mirror.follow(&mut cell),
                    _ => {}
                }
            }
            mirror.follow(&mut cell);
            mirror.compare(&mut cell);
            assert!(mirror.wholes > 1, "{place:?} {sample:?}: once at first, and after restarts");
            assert!(mirror.wholes < batches.len() / 4, "changes are known most of the time");
        }
    });
}

#[test]
fn events_that_are_taken_back_leave_the_rows_as_they_were() {
    at_every_place(|place| {
        let batches = Sample::Axfinder.batches(4000, 100);
        let mut cell = cell(place, &samples::axfinder());
        let mut mirror = Mirror::default();
        let (kept, taken) = batches.split_at(20);
        for batch in kept {
            cell.feed(batch).expect("accepted");
        }
        mirror.follow(&mut cell);
        for batch in taken {
            cell.feed(batch).expect("accepted");
        }
        let widths = cell.row_words().to_vec();
        for (at, batch) in taken.iter().enumerate().rev() {
            if at == 7 {
                cell.kill();
            }
            let events: Vec<_> = Events::new(batch.words(), &widths).collect();
            let mut inverses = Batch::default();
            for (relation, row, weight) in events.into_iter().rev() {
                inverses.push(&widths, relation, row, -weight).expect("an event");
            }
            cell.take_back(&inverses).expect("accepted");
        }
        let position = cell.settled();
        mirror.compare(&mut cell);
        mirror.position = position;
        mirror.follow(&mut cell);
        mirror.compare(&mut cell);
    });
}

/// A view whose event takes time in the third power of the rows of another relation.
fn slow() -> Program {
    let mut program = samples::q6();
    program.maps.push(MapDecl {
        name: "counts".into(),
        definition: String::new(),
        key: vec![Type::Int],
        payload: vec![Component::Int],
        ordered: false,
        slices: vec![],
    });
    let mut other = program.relations[0].clone();
    (other.name, other.columns) = ("others".into(), vec![Type::Int]);
    program.relations.insert(1, other);
    program.output = RelationId(2);
    let each = |reg| Step::Each {
        map: MapId(1),
        slice: None,
        prefix: vec![],
        key: vec![(0, Reg(reg))],
        payload: vec![],
    };
    program.triggers[0].registers.extend([Type::Int; 4]);
    let sum =
        Step::Sum { steps: vec![each(8), each(9), each(10)], terms: vec![(Expr::Int(1), Reg(11))] };
    program.triggers[0].statements[0].steps = vec![sum];
    let statement = Statement {
        comment: String::new(),
        steps: vec![],
        target: MapId(1),
        key: vec![Expr::Reg(Reg(0))],
        add: vec![Expr::Reg(Reg(1))],
        replace: false,
    };
    program
        .triggers
        .insert(1, Trigger { registers: vec![Type::Int; 2], statements: vec![statement] });
    program
}

#[test]
fn a_batch_that_no_cell_gets_over_can_be_withdrawn() {
    if let Err(why) = available(Place::Machine) {
        let _ = writeln!(std::io::stderr(), "skipped: a cell that hangs: {why}");
        return;
    }
    let builder = Cell::builder().memory(32 << 20).hung_after(Duration::from_millis(30));
    let mut cell = builder.start().expect("a cell");
    cell.load(&slow()).expect("a sound program");
    assert_eq!(cell.intern(&["north"]).expect("a number"), [0]);
    let mut batch = Batch::default();
    for number in 0..4000 {
        batch.push(cell.row_words(), RelationId(1), &[number], 1).expect("an event");
    }
    let fed = cell.feed(&batch).expect("accepted");
    cell.confirm(fed, &never).expect("these are quick");
    let before = read(&mut cell);
    batch.clear();
    batch.push(cell.row_words(), RelationId(0), &[1; 7], 1).expect("an event");
    let fed = match cell.feed(&batch) {
        Ok(fed) => fed,
        Err(CellError::Down(_)) => cell.sequence(),
        Err(other) => panic!("{other}"),
    };
    // The wait can be given up at any moment, and in the end no cell is left.
    let begun = Instant::now();
    let given_up = cell.confirm(fed, &|| begun.elapsed() > Duration::from_millis(5));
    assert!(matches!(given_up, Err(CellError::GivenUp | CellError::Down(_))), "{given_up:?}");
    let error = cell.confirm(fed, &never).expect_err("the event takes hours");
    assert_eq!(error, CellError::Down(Fault::Hung));
    assert_eq!(cell.intern_unasked("south"), Ok(1));
    assert_eq!(cell.withdraw(&[fed]), [0; 0]);
    assert_eq!(read(&mut cell), before);
    assert_eq!(cell.intern(&["south", "north", "east"]).expect("numbers"), [1, 0, 2]);
    cell.kill();
    assert_eq!(read(&mut cell), before, "the next cell does not get it either");
    // What a saved state includes is not withdrawn.
    let saved = cell.save().expect("the cell answers");
    assert_eq!(cell.withdraw(&[saved]), [saved]);
}

#[test]
fn a_row_is_found_by_its_key() {
    at_every_place(|place| {
        let mut cell = cell(place, &samples::axfinder());
        for batch in &Sample::Axfinder.batches(2000, 200) {
            cell.feed(batch).expect("accepted");
        }
        let mut mirror = Mirror::default();
        mirror.follow(&mut cell);
        assert!(!mirror.rows.is_empty());
        for (key, row) in &mirror.rows {
            assert_eq!(cell.row(key, &never).expect("the cell answers").as_ref(), Some(row));
        }
        assert_eq!(cell.row(&[77_777], &never), Ok(None));
        assert!(matches!(cell.row(&[1, 2], &never), Err(CellError::Refused(..))));
        assert!(cell.heartbeat().is_some());
    });
}
