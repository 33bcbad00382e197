//! What a cell promises, in a thread of this process and, where there is KVM, in a machine.

use std::io::Write;
use std::time::Duration;

use halcyon_base::rng::Rng;
use halcyon_cell::abi::events::{Batch, Events, row_words};
use halcyon_cell::abi::samples::{self, Sample, checksum};
use halcyon_cell::{Builder, Cell, CellError, Fault, Place, QemuTcg, available};
use halcyon_cell_image::selftest;
use halcyon_view::program::{
    Component, Expr, MapDecl, MapId, Program, Reg, RelationId, Statement, Step, Trigger, Type,
};
use halcyon_view::{Engine, Executor, Options};

/// Says why a test does nothing, past the test harness.
fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

/// Runs a test at every place that there is.
fn at_every_place(test: impl Fn(Place)) {
    for place in [Place::Thread, Place::Machine] {
        match available(place) {
            Ok(()) => test(place),
            Err(why) => skipped("cells in machines", &why),
        }
    }
}

fn builder(place: Place) -> Builder {
    Cell::builder().place(place).memory(32 << 20)
}

/// An engine of this process that has had the same events.
fn native(program: Program, batches: &[Batch]) -> u64 {
    let options = Options { executor: Executor::Operations, ..Options::default() };
    let widths = row_words(&program);
    let mut engine = Engine::new(program, options).expect("a sound program");
    for (relation, row, weight) in
        batches.iter().flat_map(|batch| Events::new(batch.words(), &widths))
    {
        // An event that fails changes nothing, here as in a cell.
        let _ = engine.apply(relation, row, weight);
    }
    let mut rows = Vec::new();
    engine.for_each_row(|row| rows.push(row.to_vec())).expect("rows can be computed");
    checksum(rows.iter().map(|row| &row[..]))
}

fn sum(cell: &mut Cell) -> u64 {
    let rows = cell.read().expect("the cell answers");
    assert_eq!(rows.iter().count() as u64, rows.count);
    checksum(rows.iter())
}

#[test]
fn a_cell_computes_what_this_process_computes() {
    at_every_place(|place| {
        for sample in Sample::ALL {
            let batches = sample.batches(selftest::EVENTS, selftest::BATCH);
            let mut cell = builder(place).start().expect("a cell");
            cell.load(&sample.program()).expect("a sound program");
            let mut last = 0;
            for batch in &batches {
                last = cell.feed(batch).expect("events of the program");
            }
            let rows = cell.read().expect("the cell answers");
            assert_eq!(rows.sequence, last, "the copy has all that was accepted");
            let expected = native(sample.program(), &batches);
            assert_eq!(checksum(rows.iter()), expected, "{sample:?} {place:?}");
            assert_eq!(selftest::run(sample), Some(expected), "the self-test has the same events");
            let report = cell.report().expect("the cell answers");
            assert_eq!((report.applied, report.events), (last, selftest::EVENTS));
            assert_eq!((cell.restarts(), cell.fault()), (0, None));
            assert_eq!(cell.stop(), None);
        }
    });
}

#[test]
fn the_image_computes_the_same_on_an_emulated_machine() {
    let Some(emulator) = QemuTcg::find(Duration::from_secs(240)) else {
        return skipped("the image under QEMU", "there is no qemu-system-x86_64, or no image");
    };
    let found = emulator.run().expect("the self-test ends well");
    let sums = Sample::ALL.map(|sample| (sample, selftest::run(sample).expect("nothing refused")));
    assert_eq!(found.checksums, sums);
}

/// Breaks a cell in one of several ways.
fn break_somehow(cell: &mut Cell, place: Place, rng: &mut Rng) {
    match (rng.below(4), place) {
        (0, Place::Machine) => assert!(cell.break_code(), "a machine has code"),
        (1, _) => cell.probe(0x7fff_0000_0000).expect("the probe is sent"),
        (2, _) => cell.scribble_replies(0, &[u64::MAX / 2]),
        _ => cell.kill(),
    }
}

#[test]
fn a_cell_that_is_killed_or_crashes_loses_no_accepted_event() {
    at_every_place(|place| {
        let mut rng = Rng::new(20);
        for attempt in 0..50 {
            let sample = Sample::ALL[attempt % 2];
            let batches = sample.batches(3000 + rng.below(3000), 1 + rng.below(200) as usize);
            let mut cell = builder(place).log_bytes(40_000).start().expect("a cell");
            cell.load(&sample.program()).expect("a sound program");
            let mut breaks = Vec::new();
            for _ in 0..1 + rng.below(3) {
                breaks.push(rng.below(batches.len() as u64) as usize);
            }
            for (at, batch) in batches.iter().enumerate() {
                if breaks.contains(&at) {
                    break_somehow(&mut cell, place, &mut rng);
                }
                cell.feed(batch).expect("accepted");
            }
            let found = sum(&mut cell);
            assert_eq!(found, native(sample.program(), &batches), "{attempt} {place:?} {breaks:?}");
            assert!(cell.restarts() > 0, "{attempt} {place:?} {breaks:?}");
            let events: usize = batches.iter().map(Batch::len).sum();
            let report = cell.report().expect("the cell answers");
            assert_eq!(report.events, events as u64, "{attempt}: each event once");
            assert!(cell.log_bytes() < 80_000, "saving empties the log");
        }
    });
}

#[test]
fn a_fault_is_told_with_its_registers() {
    at_every_place(|place| {
        let mut cell = builder(place).start().expect("a cell");
        cell.load(&samples::q6()).expect("a sound program");
        cell.probe(0x1234_5678).expect("the probe is sent");
        cell.ping().expect("another cell answers");
        let Some(Fault::Machine(fault)) = cell.fault() else {
            panic!("no fault of a machine: {:?}", cell.fault());
        };
        assert_eq!((fault.exception, fault.address), (14, 0x1234_5678), "{fault:x?}");
        if place == Place::Machine {
            assert!((0x10_0000..0x80_0000).contains(&fault.instruction), "{fault:x?}");
            assert!(fault.stack > fault.instruction, "{fault:x?}");
        }
        assert_eq!(cell.restarts(), 1);
    });
}

#[test]
fn code_cannot_be_written_and_page_zero_is_not_there() {
    if let Err(why) = available(Place::Machine) {
        return skipped("rights of a machine's memory", &why);
    }
    for address in [0, 0x2000, 0x9000] {
        let mut cell = builder(Place::Machine).start().expect("a cell");
        cell.probe(address).expect("the probe is sent");
        cell.ping().expect("another cell answers");
        let fault = cell.fault();
        assert!(
            matches!(&fault, Some(Fault::Machine(fault)) if fault.address == address),
            "{fault:?}"
        );
    }
}

#[test]
fn a_panic_of_the_image_is_told_with_its_message() {
    if let Err(why) = available(Place::Machine) {
        return skipped("panics of the image", &why);
    }
    let mut cell = builder(Place::Machine).start().expect("a cell");
    // A number that is no string's: a comparison looks the string up.
    let mut program = samples::q6();
    let text = |text: &str| Box::new(Expr::Text(text.into()));
    let compared = Expr::CompareText(
        halcyon_view::program::CompareOp::Lt,
        Box::new(Expr::Reg(Reg(0))),
        text("a"),
    );
    program.triggers[0].statements[0].steps.push(Step::If(compared));
    cell.load(&program).expect("a sound program");
    let mut batch = Batch::default();
    let row = [1000, 1, 6, 0, 0, 0, 8800];
    batch.push(cell.row_words(), RelationId(0), &row, 1).expect("an event of the program");
    cell.feed(&batch).expect("accepted");
    let error = cell.read().expect_err("the event is in the way of every cell");
    assert!(
        matches!(&error, CellError::Down(Fault::Panicked(text)) if text.contains("panicked at")),
        "{error}"
    );
    // Another program makes the cell good again.
    cell.load(&samples::q6()).expect("a sound program");
    cell.feed(&batch).expect("accepted");
    assert_eq!(sum(&mut cell), native(samples::q6(), &[batch]));
}

/// What KVM has counted while a cell took events.
struct Counted {
    /// All counters that have changed.
    changed: Vec<(String, u64)>,
    /// Exits that were no interrupts of the host.
    exits: u64,
    page_faults: u64,
}

fn counted(batches: &[Batch]) -> Option<Counted> {
    let mut cell = builder(Place::Machine).idle_after(0).start().expect("a cell");
    cell.load(&samples::q6()).expect("a sound program");
    // The first batches touch the buffers and the map.
    for batch in &batches[..8] {
        cell.feed(batch).expect("accepted");
    }
    cell.ping().expect("the cell answers");
    let before = cell.counters()?;
    for batch in &batches[8..] {
        cell.feed(batch).expect("accepted");
    }
    cell.ping().expect("the cell answers");
    let after = cell.counters()?;
    assert_eq!(sum(&mut cell), native(samples::q6(), batches));
    let more = |name: &str| after.get(name) - before.get(name);
    let changed = after.0.keys().map(|name| (name.clone(), more(name)));
    let changed = changed.filter(|(_, count)| *count > 0).collect();
    let exits = more("exits") - more("irq_exits");
    Some(Counted { changed, exits, page_faults: more("pf_taken") })
}

#[test]
fn nothing_leaves_the_machine_but_interrupts_and_no_page_faults() {
    if let Err(why) = available(Place::Machine) {
        return skipped("counters of KVM", &why);
    }
    let batches = Sample::Q6.batches(400_000, 512);
    // The kernel may move the memory of any process to larger pages while it runs, which costs the cell
    // a fault that it has not caused: one clean run of three is proof.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let Some(Counted { changed, exits, page_faults }) = counted(&batches) else {
            return skipped("counters of KVM", "this kernel has none");
        };
        if exits <= 1 && page_faults == 0 {
            return;
        }
        seen.push(changed);
    }
    panic!("exits that are no interrupts, or page faults: {seen:?}");
}

#[test]
fn random_words_in_the_ring_never_crash_the_host() {
    at_every_place(|place| {
        let mut rng = Rng::new(6);
        let batches = Sample::Axfinder.batches(2000, 100);
        let (mut broken, rounds) = (0, 40);
        for _ in 0..rounds {
            let mut cell = builder(place).start().expect("a cell");
            cell.load(&samples::axfinder()).expect("a sound program");
            for batch in &batches {
                if rng.below(4) == 0 {
                    let at = [0, 16, 32][rng.below(3) as usize] + rng.below(4) as usize;
                    let words =
                        [rng.next_u64(), rng.below(200), rng.below(12) << 32 | rng.below(9)];
                    cell.scribble_replies(at, &words[rng.below(3) as usize..]);
                }
                match cell.feed(batch) {
                    Ok(_) | Err(CellError::Down(_)) => {}
                    Err(other) => panic!("{other}"),
                }
                let _ = cell.read();
            }
            broken += cell.restarts();
        }
        assert!(broken > 10, "{broken}");
    });
}

#[test]
fn events_that_cannot_be_applied_are_told_once_and_change_nothing() {
    at_every_place(|place| {
        let mut cell = builder(place).start().expect("a cell");
        cell.load(&samples::q6()).expect("a sound program");
        let good = [1000, 7, 6, 0, 0, 0, 8800];
        let bad = [1000, 1 << 62, 7, 0, 0, 0, 8800];
        let mut batch = Batch::default();
        for row in [good, bad, good, bad] {
            batch.push(cell.row_words(), RelationId(0), &row, 1).expect("an event");
        }
        let sequence = cell.feed(&batch).expect("accepted");
        cell.ping().expect("the cell answers");
        cell.kill();
        assert_eq!(cell.read().expect("another cell answers").words[0], 84);
        let told: Vec<_> = cell.rejections();
        let told: Vec<_> = told.iter().map(|one| (one.sequence, one.event, &*one.reason)).collect();
        let reason = "integer out of range";
        assert_eq!(told, [(sequence, Some(1), reason), (sequence, Some(3), reason)]);
        assert_eq!(cell.report().expect("the cell answers").rejected, 2);
    });
}

#[test]
fn strings_keep_their_numbers_when_the_cell_is_started_anew() {
    at_every_place(|place| {
        let mut cell = builder(place).start().expect("a cell");
        cell.load(&samples::q6()).expect("a sound program");
        let first = cell.intern(&["north", "south", "north"]).expect("numbers");
        assert_eq!(first, [0, 1, 0]);
        cell.save().expect("the cell answers");
        assert_eq!(cell.intern(&["west"]).expect("numbers"), [2]);
        cell.kill();
        assert_eq!(cell.intern(&["east", "south", "west"]).expect("numbers"), [3, 1, 2]);
        assert_eq!(["north", "east"].map(|text| cell.intern(&[text]).expect("numbers")[0]), [0, 3]);
        assert_eq!((cell.text(3), cell.text(4)), (Some("east"), None));
    });
}

#[test]
fn a_view_that_has_reached_its_memory_refuses_more_and_can_still_be_read() {
    at_every_place(|place| {
        let mut cell = builder(place).start().expect("a cell");
        cell.load(&samples::axfinder()).expect("a sound program");
        let widths = cell.row_words().to_vec();
        let (mut applied, mut number) = (Vec::new(), 0);
        let mut rng = Rng::new(2);
        while cell.rejections().is_empty() {
            let mut batch = Batch::default();
            for _ in 0..2000 {
                number += 1;
                let row = [number % 10, 100, rng.below(1 << 40)];
                batch.push(&widths, RelationId(0), &row, 1).expect("an event of the program");
            }
            cell.feed(&batch).expect("accepted");
            cell.ping().expect("the cell answers");
            applied.push(batch);
            assert!(applied.len() < 500, "the memory has an end");
        }
        let refused = applied.pop().expect("the last one");
        let report = cell.report().expect("the cell answers");
        assert!(report.heap_bytes <= report.heap_bytes_max && report.map_bytes > 1 << 20);
        assert_eq!(sum(&mut cell), native(samples::axfinder(), &applied));
        assert_eq!((refused.len(), cell.restarts()), (2000, 0));
        // What was told as refused is not applied by the next cell either, whatever room that has.
        cell.kill();
        assert_eq!(sum(&mut cell), native(samples::axfinder(), &applied));
        assert_eq!((cell.rejections().len(), cell.restarts()), (1, 1));
    });
}

/// A view whose event takes time in the third power of the rows of another relation.
fn slow() -> Program {
    let mut program = samples::q6();
    let count = |key: Vec<Type>| MapDecl {
        name: "counts".into(),
        definition: String::new(),
        key,
        payload: vec![Component::Int],
        ordered: false,
        slices: vec![],
    };
    program.maps.push(count(vec![Type::Int]));
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
    let trigger = Trigger { registers: vec![Type::Int; 2], statements: vec![statement] };
    program.triggers.insert(1, trigger);
    program
}

#[test]
fn a_cell_whose_heart_stands_still_is_ended() {
    if let Err(why) = available(Place::Machine) {
        return skipped("a cell that hangs", &why);
    }
    let cell = builder(Place::Machine).hung_after(Duration::from_millis(30));
    let mut cell = cell.start().expect("a cell");
    cell.load(&slow()).expect("a sound program");
    let mut batch = Batch::default();
    for number in 0..4000 {
        batch.push(cell.row_words(), RelationId(1), &[number], 1).expect("an event");
    }
    cell.feed(&batch).expect("accepted");
    cell.ping().expect("the cell answers");
    batch.clear();
    batch.push(cell.row_words(), RelationId(0), &[1; 7], 1).expect("an event");
    let fed = cell.feed(&batch);
    let error = match fed {
        Ok(_) => cell.read().expect_err("the event takes hours"),
        Err(error) => error,
    };
    assert_eq!(error, CellError::Down(Fault::Hung));
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let mut cell = builder(Place::Thread).start().expect("a cell");
    let batch = Sample::Q6.batches(10, 10).remove(0);
    assert_eq!(cell.feed(&batch), Err(CellError::NoProgram));
    assert_eq!(cell.read().err(), Some(CellError::NoProgram));
    assert_eq!(cell.save().err(), Some(CellError::NoProgram));
    let mut broken = samples::q6();
    broken.output = RelationId(9);
    assert!(matches!(cell.load(&broken), Err(CellError::Refused(..))));
    assert_eq!(cell.feed(&batch), Err(CellError::NoProgram));
    cell.load(&samples::axfinder()).expect("a sound program");
    assert_eq!(cell.feed(&batch), Err(CellError::NoEvents));
    let large = Sample::Axfinder.batches(9000, 9000).remove(0);
    assert!(matches!(cell.feed(&large), Err(CellError::TooLarge { .. })));
    assert_eq!(cell.stop(), None);
}
