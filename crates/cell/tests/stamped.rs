//! Stamped runs: tuples that a cell works through with a reading of the counter at the end of each.

use std::io::Write;

use halcyon_cell::abi::events::{Batch, Events, row_words};
use halcyon_cell::abi::message::{Refusal, work};
use halcyon_cell::abi::samples::{self, Sample, checksum};
use halcyon_cell::{Cell, CellError, Place, Run, available};
use halcyon_view::program::{Program, RelationId};
use halcyon_view::{Engine, Executor, Options};

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

fn native(program: Program, batches: &[Batch]) -> u64 {
    let options = Options { executor: Executor::Operations, ..Options::default() };
    let widths = row_words(&program);
    let mut engine = Engine::new(program, options).expect("a sound program");
    for batch in batches {
        for (relation, row, weight) in Events::new(batch.words(), &widths) {
            engine.apply(relation, row, weight).expect("sums fit");
        }
    }
    let mut rows = Vec::new();
    engine.for_each_row(|row| rows.push(row.to_vec())).expect("rows can be computed");
    checksum(rows.iter().map(|row| &row[..]))
}

fn sum(cell: &mut Cell) -> u64 {
    checksum(cell.read().expect("the cell answers").iter())
}

fn tuples(run: &Run) -> usize {
    assert!(run.stamps.is_sorted());
    assert!(run.shares_counter(), "{:?} within {:?}", run.stamps.first(), run.host);
    run.stamps.len() - 1
}

#[test]
fn held_events_outlive_the_cell_and_are_applied_once() {
    at_every_place(|place| {
        let batches = Sample::Axfinder.batches(3000, 100);
        let (fed, held) = batches.split_at(10);
        let mut cell = cell(place, &samples::axfinder());
        for batch in fed {
            cell.feed(batch).expect("accepted");
        }
        for batch in held {
            cell.hold(batch).expect("accepted");
        }
        assert_eq!(sum(&mut cell), native(samples::axfinder(), fed), "none is applied yet");
        assert_eq!(tuples(&cell.run_held(700).expect("it runs")), 700);
        cell.kill();
        assert_eq!(tuples(&cell.run_held(300).expect("another cell goes on")), 300);
        assert_eq!(sum(&mut cell), native(samples::axfinder(), &batches[..20]));
        cell.save().expect("the cell answers");
        cell.kill();
        assert_eq!(tuples(&cell.run_held(usize::MAX).expect("the rest")), 1000);
        assert_eq!(sum(&mut cell), native(samples::axfinder(), &batches));
        assert_eq!(cell.report().expect("the cell answers").events, 3000);
        assert_eq!(tuples(&cell.run_held(5).expect("there is none")), 0);
        // What is held is fed with what comes behind.
        cell.hold(&fed[0]).expect("accepted");
        assert_eq!(tuples(&cell.run_held(5).expect("it runs")), 5);
    });
}

#[test]
fn a_held_event_that_cannot_be_applied_is_told_and_the_others_are_applied() {
    at_every_place(|place| {
        let mut cell = cell(place, &samples::q6());
        let mut batch = Batch::default();
        for price in [7, 1 << 62, 5] {
            let row = [1000, price, 6, 0, 0, 0, 8800];
            batch.push(cell.row_words(), RelationId(0), &row, 1).expect("an event");
        }
        cell.hold(&batch).expect("accepted");
        assert_eq!(tuples(&cell.run_held(3).expect("it runs")), 3);
        let told = cell.rejections();
        assert_eq!(told.iter().map(|one| one.event).collect::<Vec<_>>(), [Some(1)]);
        assert_eq!(cell.read().expect("the cell answers").words[0], 6 * (7 + 5));
    });
}

#[test]
fn workloads_without_a_program_go_on_where_they_ended_and_others_are_refused() {
    at_every_place(|place| {
        let start = || Cell::builder().place(place).memory(32 << 20).start().expect("a cell");
        for which in [work::LOOP, work::MAP] {
            let (mut parts, mut whole) = (start(), start());
            let first = parts.run_work(which, 300).expect("it runs");
            let second = parts.run_work(which, 200).expect("it runs");
            assert_eq!((tuples(&first), tuples(&second)), (300, 200));
            let all = whole.run_work(which, 500).expect("it runs");
            assert_eq!((all.checksum, tuples(&all)), (second.checksum, 500));
            assert_ne!(all.checksum, first.checksum);
        }
        let mut cell = start();
        let refused = |error| match error {
            Err(CellError::Refused(why, _)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(cell.run_work(9, 1)), Refusal::Malformed);
        assert_eq!(refused(cell.run_work(work::LOOP, usize::MAX)), Refusal::Memory);
        assert_eq!(cell.run_held(1).err(), Some(CellError::NoProgram));
        assert_eq!(cell.restarts(), 0);
    });
}

#[test]
fn nothing_leaves_the_machine_within_a_stamped_run_but_interrupts() {
    if let Err(why) = available(Place::Machine) {
        let _ = writeln!(std::io::stderr(), "skipped: counters of KVM: {why}");
        return;
    }
    // The kernel may move the memory of any process to larger pages, which costs the cell a fault that it has not caused:
    // one clean run of three is proof.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let builder = Cell::builder().memory(64 << 20).idle_after(0);
        let mut cell = builder.start().expect("a cell");
        cell.load(&samples::q6()).expect("a sound program");
        for batch in Sample::Q6.batches(100_000, 512) {
            cell.hold(&batch).expect("accepted");
        }
        let run = cell.run_held(100_000).expect("it runs");
        assert_eq!(tuples(&run), 100_000);
        let Some(interrupts) = run.counted("irq_exits") else {
            let _ = writeln!(std::io::stderr(), "skipped: this kernel counts no exits");
            return;
        };
        let own = run.counted("exits").expect("counted") - interrupts;
        let faults = run.counted("pf_taken").expect("counted");
        if own <= 1 && faults == 0 {
            return;
        }
        seen.push((own, interrupts, faults));
    }
    panic!("exits of its own, for interrupts, page faults: {seen:?}");
}
