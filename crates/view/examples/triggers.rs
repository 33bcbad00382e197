//! What triggers cost: hand-written programs over events prepared in memory, one JSON line each.
//!
//! `cargo run --release -p halcyon-view --example triggers -- [--orders FILE] [--only NAME]
//! [--executor compiled|operations|interpreted] [--scale S] [--passes N] [--batch N]`
//!
//! `events_per_s`: events per second of processor time (of time on the clock where the system does
//! not tell processor time), in the best of the passes; a pass takes all events and looks at no
//! clock in between.
//! `intrinsic_ns_*`: time of single events, for each event the least of all passes, each of which
//! begins with an empty view. That leaves out the machine's noise but includes the clock's own cost
//! (`clock_ns`). `page_faults`: minor page faults during the last pass (Linux; else absent), with
//! as much memory reserved beforehand as an earlier pass took.
//!
//! With the feature `maps`, axfinder and q6 are measured as hand-written Rust over the same maps,
//! too: the most that machine code for trigger programs could come to.
//!
//! Without `--orders` (messages `t,id,action,volume,price`) the order book's events are made up.

use std::hint::black_box;
use std::time::Instant;

use halcyon_machine::counters::thread_cpu_ns;
use halcyon_view::program::{
    BinaryOp, Bound, CompareOp, Component, Derived, Expr, MapDecl, MapId, Program, Reg, Relation,
    RelationId, SliceId, Statement, Step, Trigger, Type,
};
use halcyon_view::{Engine, Executor, Options};

/// An event: relation, weight, row.
type Event = (u16, i8, [u64; 7]);

struct Case {
    program: Program,
    events: Vec<Event>,
    /// How many times one pass takes all the events, without emptying the view in between.
    rounds: usize,
}

/// Makes a case from the order book's events.
type FromOrders = fn(&[Event]) -> Case;
/// Makes a case of a given scale.
type FromScale = fn(f64) -> Case;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, default: f64| {
        option(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let scale = number("--scale", 1.0);
    let passes = number("--passes", 5.0) as usize;
    let batch = number("--batch", 1.0) as usize;
    let executor = match option("--executor").as_deref() {
        Some("operations") => Executor::Operations,
        Some("interpreted") => Executor::Interpreted,
        _ => Executor::Compiled,
    };
    let orders = match option("--orders") {
        Some(file) => book(&std::fs::read_to_string(file).expect("readable orders")),
        None => book(&made_up_orders((5000.0 * scale) as u64)),
    };
    let only = option("--only");
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let books: [(&str, FromOrders); 3] =
        [("axfinder", axfinder), ("pricespread", price_spread), ("vwap", vwap)];
    for (name, make) in books.into_iter().filter(|(name, _)| wanted(name)) {
        measure(name, make(&orders), executor, (passes, batch));
    }
    let scaled: [(&str, FromScale); 4] =
        [("q1", q1), ("q6", q6), ("q11a", q11a), ("growth", growth)];
    for (name, make) in scaled.into_iter().filter(|(name, _)| wanted(name)) {
        measure(name, make(scale), executor, (passes, batch));
    }
}

fn measure(name: &str, case: Case, executor: Executor, (passes, batch): (usize, usize)) {
    #[cfg(feature = "maps")]
    by_hand::measure(name, &case, passes);
    let words: Vec<usize> =
        case.program.relations.iter().map(|relation| relation.columns.len()).collect();
    let run = |engine: &mut Engine, (relation, weight, row): &Event| {
        let row = &row[..words[usize::from(*relation)]];
        engine.apply(RelationId(*relation), row, i64::from(*weight)).expect("sums fit");
    };
    let fresh = |like: Option<&Engine>| {
        let options = Options { executor, ..Options::default() };
        let mut engine = Engine::new(case.program.clone(), options).expect("a sound program");
        if let Some(like) = like {
            for (map, statistics) in like.statistics().maps.iter().enumerate() {
                engine.reserve(map, statistics.entries as usize);
            }
        }
        engine
    };
    let total = case.events.len() * case.rounds;
    let mut best = f64::INFINITY;
    let mut last: Option<Engine> = None;
    for _ in 0..passes {
        let mut engine = fresh(last.as_ref());
        let (start, cpu_start) = (Instant::now(), processor_s());
        for _ in 0..case.rounds {
            if batch == 1 {
                case.events.iter().for_each(|event| run(&mut engine, event));
                continue;
            }
            for events in case.events.chunks(batch) {
                let events = events.iter().map(|(relation, weight, row)| {
                    let row = &row[..words[usize::from(*relation)]];
                    Some((RelationId(*relation), row, i64::from(*weight)))
                });
                engine.apply_all(events).expect("sums fit");
            }
        }
        let took = start.elapsed().as_secs_f64();
        best = best.min(processor_s().zip(cpu_start).map_or(took, |(end, start)| end - start));
        last = Some(engine);
    }
    let mut least = vec![u32::MAX; total];
    let mut faults = None;
    for _ in 0..passes {
        let mut engine = fresh(last.as_ref());
        let before = minor_faults();
        for round in 0..case.rounds {
            for (index, event) in case.events.iter().enumerate() {
                let start = Instant::now();
                run(&mut engine, event);
                let took = start.elapsed().as_nanos() as u32;
                let least = &mut least[round * case.events.len() + index];
                *least = took.min(*least);
            }
        }
        faults = before.zip(minor_faults()).map(|(before, after)| after - before);
    }
    let worst = least.iter().enumerate().max_by_key(|(_, took)| **took).map_or(0, |(at, _)| at);
    least.sort_unstable();
    let at = |share: f64| least[((total - 1) as f64 * share) as usize];
    let mut engine = last.expect("at least one pass");
    let mut rows = 0;
    let mut sum = 0_u64;
    engine
        .for_each_row(|row| {
            rows += 1;
            sum = row.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
        })
        .expect("a row's expressions work");
    let entries: u64 = engine.statistics().maps.iter().map(|map| map.entries).sum();
    let faults = faults.map_or(String::new(), |faults| format!(", \"page_faults\": {faults}"));
    println!(
        "{{\"experiment\": \"triggers\", \"query\": \"{}\", \"executor\": \"{executor:?}\", \
         \"events\": {total}, \"events_per_s\": {:.0}, \"ns_per_event\": {:.1}, \"clock_ns\": {}, \
         \"intrinsic_ns_p50\": {}, \"intrinsic_ns_p99\": {}, \"intrinsic_ns_p999\": {}, \
         \"intrinsic_ns_p9999\": {}, \"intrinsic_ns_max\": {}, \"worst_event\": {worst}, \
         \"rows\": {rows}, \"sum\": {}, \"entries\": {entries}, \"bytes\": {}{faults}}}",
        name,
        total as f64 / best,
        best * 1e9 / total as f64,
        clock_ns(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(1.0),
        sum as i64,
        engine.memory_bytes(),
    );
}

/// The shortest time that the clock shows between two readings.
fn clock_ns() -> u128 {
    (0..1000).map(|_| black_box(Instant::now()).elapsed().as_nanos()).min().unwrap_or(0)
}

/// Processor time of this thread so far, in seconds.
fn processor_s() -> Option<f64> {
    thread_cpu_ns().map(|ns| ns as f64 / 1e9)
}

/// Minor page faults of this process so far.
fn minor_faults() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name in parentheses: state is the 3rd field, minor faults the 10th.
    stat.rsplit(')').next()?.split_whitespace().nth(7)?.parse().ok()
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Messages of an order book: four in five add an order, the rest take one away.
fn made_up_orders(messages: u64) -> String {
    let mut state = 7;
    let mut text = String::new();
    for id in 1..=messages {
        let (action, id) = match random(&mut state) % 10 {
            0..=3 => ("B", id),
            4..=7 => ("S", id),
            _ => ("D", random(&mut state) % id),
        };
        let volume = (random(&mut state) % 40 + 1) * 100;
        let price = 2_400_000 + (random(&mut state) % 700) * 100;
        text += &format!("{id},{id},{action},{volume},{price}\n");
    }
    text
}

/// Events of an order book: rows are (broker, volume, price), relation 0 bids, 1 asks.
fn book(text: &str) -> Vec<Event> {
    let mut orders = std::collections::HashMap::new();
    let mut events = Vec::new();
    for line in text.lines() {
        let fields: Vec<i64> = line.split(',').map(|field| field.parse().unwrap_or(0)).collect();
        let (id, volume, price) = (fields[1], fields[3], fields[4]);
        let row = |volume: i64, price| [(id % 10) as u64, volume as u64, price, 0, 0, 0, 0];
        match line.split(',').nth(2) {
            Some(action @ ("B" | "S")) => {
                let side = u16::from(action == "S");
                orders.insert(id, (side, volume, price as u64));
                events.push((side, 1, row(volume, price as u64)));
            }
            Some(action @ ("E" | "D" | "F")) => {
                let Some((side, old, price)) = orders.remove(&id) else { continue };
                events.push((side, -1, row(old, price)));
                if action == "E" && old > volume {
                    orders.insert(id, (side, old - volume, price));
                    events.push((side, 1, row(old - volume, price)));
                }
            }
            _ => {}
        }
    }
    events
}

fn r(register: u16) -> Expr {
    Expr::Reg(Reg(register))
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Type::Int, Box::new(a), Box::new(b))
}

fn add(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Add, a, b)
}

fn sub(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Sub, a, b)
}

fn mul(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Mul, a, b)
}

fn wide(value: Expr) -> Expr {
    Expr::Cast { from: Type::Int, to: Type::Wide, value: Box::new(value) }
}

fn wide_mul(a: Expr, b: Expr) -> Expr {
    Expr::Binary(BinaryOp::Mul, Type::Wide, Box::new(a), Box::new(b))
}

fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    Expr::Compare(op, Type::Int, Box::new(a), Box::new(b))
}

fn map(name: &str, key: usize, payload: &[Component], ordered: bool) -> MapDecl {
    MapDecl {
        name: name.into(),
        definition: String::new(),
        key: vec![Type::Int; key],
        payload: payload.to_vec(),
        ordered,
        slices: vec![],
    }
}

fn base(name: &str, columns: usize) -> Relation {
    Relation {
        name: name.into(),
        columns: vec![Type::Int; columns],
        source_columns: (0..columns as u16).collect(),
        never_null: vec![true; columns],
        derived: None,
    }
}

/// The output relation: a row for each group of map 0 whose last component, the count, is above
/// zero; the row has all columns but the count.
fn output(map: &MapDecl) -> Relation {
    let mut registers = map.key.clone();
    registers.extend(map.payload.iter().map(|component| component.ty()));
    let count = registers.len() as u16 - 1;
    let derived = Derived {
        map: MapId(0),
        steps: vec![],
        exists: compare(CompareOp::Gt, r(count), Expr::Int(0)),
        row: (0..count).map(r).collect(),
        registers: registers.clone(),
    };
    registers.pop();
    Relation {
        name: "view".into(),
        columns: registers,
        source_columns: vec![],
        never_null: vec![],
        derived: Some(derived),
    }
}

fn statement(steps: Vec<Step>, target: u16, key: Vec<Expr>, add: Vec<Expr>) -> Statement {
    let comment = String::new();
    Statement { comment, steps, target: MapId(target), key, add, replace: false }
}

fn program(maps: Vec<MapDecl>, base: Vec<Relation>, triggers: Vec<Trigger>) -> Program {
    let output_relation = RelationId(base.len() as u16);
    let mut relations = base;
    relations.push(output(&maps[0]));
    let mut triggers = triggers;
    triggers.push(Trigger::default());
    Program { relations, maps, triggers, output: output_relation, ..Program::default() }
}

fn range(map: u16, prefix: Vec<Expr>, low: Bound, high: Bound, to: &[u16]) -> Step {
    let payload = to.iter().enumerate().map(|(at, reg)| (at as u16, Reg(*reg))).collect();
    Step::RangeSum { map: MapId(map), prefix, low, high, payload }
}

const PAIR: [Component; 2] = [Component::Int, Component::Int];

/// The query axfinder: per broker, volume of asks less volume of bids over all pairs of an ask and
/// a bid that are far enough apart in price.
fn axfinder(orders: &[Event]) -> Case {
    let side = |own: u16, other: u16, is_bid: bool| {
        // Row: r0 broker, r1 volume, r2 price, r3 weight.
        let steps = vec![
            range(
                other,
                vec![r(0)],
                Bound::Excluded(add(r(2), Expr::Int(1000))),
                Bound::Open,
                &[4, 5],
            ),
            range(
                other,
                vec![r(0)],
                Bound::Open,
                Bound::Excluded(sub(r(2), Expr::Int(1000))),
                &[6, 7],
            ),
        ];
        let (volumes, count) = (add(r(4), r(6)), add(r(5), r(7)));
        let own_volumes = mul(r(1), count.clone());
        let sum = if is_bid { sub(volumes, own_volumes) } else { sub(own_volumes, volumes) };
        Trigger {
            registers: vec![Type::Int; 8],
            statements: vec![
                statement(steps, 0, vec![r(0)], vec![mul(r(3), sum), mul(r(3), count)]),
                statement(vec![], own, vec![r(0), r(2)], vec![mul(r(3), r(1)), r(3)]),
            ],
        }
    };
    let maps =
        vec![map("axf", 1, &PAIR, false), map("bids", 2, &PAIR, true), map("asks", 2, &PAIR, true)];
    let triggers = vec![side(1, 2, true), side(2, 1, false)];
    let program = program(maps, vec![base("bids", 3), base("asks", 3)], triggers);
    Case { program, events: orders.to_vec(), rounds: 100 }
}

/// The query pricespread: price differences over all pairs of an ask and a bid that are not small
/// beside the total of their side.
fn price_spread(orders: &[Event]) -> Case {
    let side = |own: u16, own_total: u16| {
        let get = |map: u16, to: u16| Step::Get {
            map: MapId(map),
            key: vec![],
            payload: vec![(0, Reg(to))],
        };
        let above =
            |total: u16| Bound::Excluded(binary(BinaryOp::Div, r(total), Expr::Int(10_000)));
        let steps = vec![
            get(3, 4),
            get(4, 5),
            range(1, vec![], above(4), Bound::Open, &[6, 7]),
            range(2, vec![], above(5), Bound::Open, &[8, 9]),
        ];
        let spread = sub(mul(r(7), r(8)), mul(r(9), r(6)));
        let mut replace = statement(steps, 0, vec![], vec![spread, mul(r(7), r(9))]);
        replace.replace = true;
        Trigger {
            registers: vec![Type::Int; 10],
            statements: vec![
                statement(vec![], own_total, vec![], vec![mul(r(3), r(1))]),
                statement(vec![], own, vec![r(1)], vec![mul(r(3), r(2)), r(3)]),
                replace,
            ],
        }
    };
    let maps = vec![
        map("psp", 0, &PAIR, false),
        map("bids", 1, &PAIR, true),
        map("asks", 1, &PAIR, true),
        map("bids_volume", 0, &[Component::Int], false),
        map("asks_volume", 0, &[Component::Int], false),
    ];
    let program =
        program(maps, vec![base("bids", 3), base("asks", 3)], vec![side(1, 3), side(2, 4)]);
    Case { program, events: orders.to_vec(), rounds: 100 }
}

/// The query vwap: price times volume over those bids above which there is less than a quarter of
/// all volume.
fn vwap(orders: &[Event]) -> Case {
    let all = range(1, vec![], Bound::Open, Bound::Open, &[4]);
    let quarter = binary(BinaryOp::Div, sub(r(4), Expr::Int(1)), Expr::Int(4));
    let search = Step::Search {
        map: MapId(1),
        prefix: vec![],
        descending: true,
        component: 0,
        limit: quarter,
        key: Reg(5),
    };
    let mut replace = statement(
        vec![all, search, range(1, vec![], Bound::Included(r(5)), Bound::Open, &[7, 6])],
        0,
        vec![],
        vec![r(6), r(7)],
    );
    replace.replace = true;
    let statements = vec![
        statement(vec![], 1, vec![r(2)], vec![mul(r(3), r(1)), mul(mul(r(3), r(1)), r(2))]),
        replace,
    ];
    let maps = vec![map("vwap", 0, &PAIR, false), map("bids", 1, &PAIR, true)];
    let trigger = Trigger { registers: vec![Type::Int; 8], statements };
    let program = program(maps, vec![base("bids", 3)], vec![trigger]);
    let bids = orders.iter().filter(|(relation, ..)| *relation == 0).copied().collect();
    Case { program, events: bids, rounds: 100 }
}

/// Rows like those of `lineitem`: quantity, price, discount, tax, flag, status, date.
fn line_items(scale: f64) -> Vec<Event> {
    let mut state = 1;
    let mut below = |limit: u64| random(&mut state) % limit;
    let event = |_| {
        let quantity = below(50) + 1;
        let row = [
            quantity * 100,
            quantity * (90_000 + below(100_000)),
            below(11),
            below(9),
            below(3),
            below(2),
            8036 + below(2526),
        ];
        (0, 1, row)
    };
    (0..(2_000_000.0 * scale) as u64).map(event).collect()
}

fn q1(scale: f64) -> Case {
    let disc_price = || wide_mul(wide(r(1)), wide(sub(Expr::Int(100), r(2))));
    let charge = wide_mul(disc_price(), wide(add(Expr::Int(100), r(3))));
    let weighted = |value: Expr| wide_mul(wide(r(7)), value);
    let shipped = Step::If(compare(CompareOp::Le, r(6), Expr::Int(10_105)));
    let sums = vec![
        weighted(wide(r(0))),
        weighted(wide(r(1))),
        weighted(disc_price()),
        weighted(charge),
        weighted(wide(r(2))),
        r(7),
    ];
    let statements = vec![statement(vec![shipped], 0, vec![r(4), r(5)], sums)];
    let mut payload = vec![Component::Wide; 5];
    payload.push(Component::Int);
    let trigger = Trigger { registers: vec![Type::Int; 8], statements };
    let program =
        program(vec![map("q1", 2, &payload, false)], vec![base("lineitem", 7)], vec![trigger]);
    Case { program, events: line_items(scale), rounds: 1 }
}

fn q6(scale: f64) -> Case {
    let within = Expr::And(vec![
        compare(CompareOp::Ge, r(6), Expr::Int(8766)),
        compare(CompareOp::Lt, r(6), Expr::Int(9131)),
        compare(CompareOp::Ge, r(2), Expr::Int(5)),
        compare(CompareOp::Le, r(2), Expr::Int(7)),
        compare(CompareOp::Lt, r(0), Expr::Int(2400)),
    ]);
    let revenue = wide(mul(r(7), mul(r(1), r(2))));
    let statements = vec![statement(vec![Step::If(within)], 0, vec![], vec![revenue, r(7)])];
    let trigger = Trigger { registers: vec![Type::Int; 8], statements };
    let payload = [Component::Wide, Component::Int];
    let program =
        program(vec![map("q6", 0, &payload, false)], vec![base("lineitem", 7)], vec![trigger]);
    Case { program, events: line_items(scale), rounds: 1 }
}

/// The query q11a: value of the parts in stock, per part, of those suppliers that are known.
fn q11a(scale: f64) -> Case {
    // Row: r0 part, r1 supplier, r2 cost, r3 quantity, r4 weight.
    let get = Step::Get { map: MapId(2), key: vec![r(1)], payload: vec![(0, Reg(5))] };
    let value = || mul(mul(r(4), r(2)), r(3));
    let part_supplier = Trigger {
        registers: vec![Type::Int; 6],
        statements: vec![
            statement(vec![get], 0, vec![r(0)], vec![mul(r(5), value()), mul(r(5), r(4))]),
            statement(vec![], 1, vec![r(0), r(1)], vec![value(), r(4)]),
        ],
    };
    // Row: r0 supplier, r1 weight.
    let each = Step::Each {
        map: MapId(1),
        slice: Some(SliceId(0)),
        prefix: vec![r(0)],
        key: vec![(0, Reg(2))],
        payload: vec![(0, Reg(3)), (1, Reg(4))],
    };
    let supplier = Trigger {
        registers: vec![Type::Int; 5],
        statements: vec![
            statement(vec![each], 0, vec![r(2)], vec![mul(r(1), r(3)), mul(r(1), r(4))]),
            statement(vec![], 2, vec![r(0)], vec![r(1)]),
        ],
    };
    let mut stock = map("stock", 2, &PAIR, false);
    stock.slices = vec![vec![1]];
    let maps =
        vec![map("q11a", 1, &PAIR, false), stock, map("suppliers", 1, &[Component::Int], false)];
    let program = program(
        maps,
        vec![base("partsupp", 4), base("supplier", 1)],
        vec![part_supplier, supplier],
    );
    let mut state = 5;
    let suppliers = (10_000.0 * scale) as u64;
    let mut events: Vec<Event> = Vec::new();
    for number in 0..(800_000.0 * scale) as u64 {
        // Begins with one supplier for every part, because streams are merged in turn.
        if number < suppliers {
            events.push((1, 1, [number, 0, 0, 0, 0, 0, 0]));
        }
        let (part, supplier) = (number / 4, (number / 4 + number % 4 * 2503) % suppliers);
        let (cost, quantity) = (random(&mut state) % 100_000, random(&mut state) % 10_000);
        events.push((0, 1, [part, supplier, cost, quantity, 0, 0, 0]));
    }
    Case { program, events, rounds: 1 }
}

/// A program whose one map only grows.
fn growth(scale: f64) -> Case {
    let statements = vec![statement(vec![], 0, vec![r(0)], vec![r(1), r(2)])];
    let trigger = Trigger { registers: vec![Type::Int; 3], statements };
    let program =
        program(vec![map("groups", 1, &PAIR, false)], vec![base("rows", 2)], vec![trigger]);
    let mut state = 3;
    let event = |_| (0, 1, [random(&mut state) >> 1, 1, 0, 0, 0, 0, 0]);
    Case { program, events: (0..(1_000_000.0 * scale) as u64).map(event).collect(), rounds: 1 }
}

/// Triggers written by hand over the maps that programs use.
#[cfg(feature = "maps")]
mod by_hand {
    use std::time::Instant;

    use halcyon_view::maps::ordered::Ordered;
    use halcyon_view::maps::shape::Fixed;
    use halcyon_view::maps::table::Table;
    use halcyon_view::{Engine, Options};

    use super::{Case, Event, PAIR, processor_s};

    /// A view written by hand.
    trait View: Default {
        fn event(&mut self, event: &Event);
        /// Groups of the view, each with its key and sums, sorted.
        fn rows(&self) -> Vec<Vec<u64>>;
    }

    /// Makes a word of a sorted map's key from an integer's word.
    fn ordered(word: u64) -> u64 {
        word ^ 1 << 63
    }

    struct Axfinder {
        view: Table<Fixed<1, 2>>,
        sides: [Ordered<Fixed<1, 2>>; 2],
    }

    impl Default for Axfinder {
        fn default() -> Self {
            let side = || Ordered::new(1, Fixed, &PAIR);
            Axfinder { view: Table::new(Fixed), sides: [side(), side()] }
        }
    }

    impl View for Axfinder {
        fn event(&mut self, (side, weight, row): &Event) {
            let (side, weight) = (usize::from(*side), i64::from(*weight));
            let [broker, volume, price, ..] = row.map(|word| word as i64);
            let prefix = [ordered(broker as u64)];
            let other = &self.sides[1 - side];
            let (mut above, mut below) = ([0; 2], [0; 2]);
            other.range_sum(&prefix, &[ordered((price + 1000) as u64) + 1], None, &mut above);
            other.range_sum(&prefix, &[1], Some(&[ordered((price - 1000) as u64)]), &mut below);
            let [volumes, count] =
                [0, 1].map(|at: usize| (above[at] as i64).checked_add(below[at] as i64));
            let (volumes, count) = (volumes.expect("fits"), count.expect("fits"));
            let own = volume.checked_mul(count).expect("fits");
            let sum = if side == 0 { volumes - own } else { own - volumes };
            let changed = self.view.change(&[broker as u64], |sums| {
                for (sum, add) in sums.iter_mut().zip([weight * sum, weight * count]) {
                    *sum = (*sum as i64).checked_add(add).ok_or(())? as u64;
                }
                Ok::<(), ()>(())
            });
            changed.expect("fits");
            let delta = [(weight * volume) as u64, weight as u64];
            let key = [prefix[0], ordered(price as u64)];
            self.sides[side].add(&key, &delta).expect("fits");
        }

        fn rows(&self) -> Vec<Vec<u64>> {
            let mut rows = Vec::new();
            let mut position = 0;
            while let Some((next, key, sums)) = self.view.next(position) {
                position = next;
                rows.push(vec![key[0], sums[0]]);
            }
            rows.sort();
            rows
        }
    }

    #[derive(Default)]
    struct Q6 {
        revenue: i128,
        count: i64,
    }

    impl View for Q6 {
        fn event(&mut self, (_, weight, row): &Event) {
            let row = row.map(|word| word as i64);
            let within =
                (8766..9131).contains(&row[6]) && (5..=7).contains(&row[2]) && row[0] < 2400;
            if within {
                let weight = i64::from(*weight);
                let revenue = row[1].checked_mul(row[2]).expect("fits");
                let sum = self.revenue.checked_add(i128::from(weight * revenue));
                self.revenue = sum.expect("fits");
                self.count += weight;
            }
        }

        fn rows(&self) -> Vec<Vec<u64>> {
            vec![vec![self.revenue as u64, (self.revenue >> 64) as u64]]
        }
    }

    /// Compares a case's hand-written view with the engine, then measures the hand-written view.
    pub fn measure(name: &str, case: &Case, passes: usize) {
        match name {
            "axfinder" => run::<Axfinder>(name, case, passes),
            "q6" => run::<Q6>(name, case, passes),
            _ => {}
        }
    }

    fn run<V: View>(name: &str, case: &Case, passes: usize) {
        let words: Vec<usize> =
            case.program.relations.iter().map(|relation| relation.columns.len()).collect();
        let mut engine =
            Engine::new(case.program.clone(), Options::default()).expect("a sound program");
        for (relation, weight, row) in (0..case.rounds).flat_map(|_| &case.events) {
            let row = &row[..words[usize::from(*relation)]];
            let relation = halcyon_view::program::RelationId(*relation);
            engine.apply(relation, row, i64::from(*weight)).expect("sums fit");
        }
        let mut expected = Vec::new();
        engine.for_each_row(|row| expected.push(row.to_vec())).expect("rows can be computed");
        expected.sort();
        let total = case.events.len() * case.rounds;
        let mut best = f64::INFINITY;
        for _ in 0..passes {
            let mut view = V::default();
            let (start, cpu_start) = (Instant::now(), processor_s());
            for event in (0..case.rounds).flat_map(|_| &case.events) {
                view.event(event);
            }
            let took = start.elapsed().as_secs_f64();
            best = best.min(processor_s().zip(cpu_start).map_or(took, |(end, start)| end - start));
            assert_eq!(view.rows(), expected, "{name} by hand");
        }
        println!(
            "{{\"experiment\": \"triggers\", \"query\": \"{name}\", \"executor\": \"ByHand\", \
             \"events\": {total}, \"events_per_s\": {:.0}, \"ns_per_event\": {:.1}}}",
            total as f64 / best,
            best * 1e9 / total as f64,
        );
    }
}
