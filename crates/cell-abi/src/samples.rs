//! Two views with events of their own, for self-tests, tests and measurements: the same numbers come
//! out in a process, in a cell and in an emulated machine.
//!
//! [`q6`] is TPC-H's query 6 over rows like those of `lineitem`; [`axfinder`] compares the bids of an
//! order book with its asks, by sums over ranges of prices, which keeps two sorted maps.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use halcyon_view::program::{
    BinaryOp, Bound, CompareOp, Component, Derived, Expr, MapDecl, MapId, Program, Reg, Relation,
    RelationId, Statement, Step, Trigger, Type,
};

use crate::events::{Batch, row_words};

/// One of the two views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// [`q6`].
    Q6,
    /// [`axfinder`].
    Axfinder,
}

impl Sample {
    /// Both.
    pub const ALL: [Sample; 2] = [Sample::Q6, Sample::Axfinder];

    /// Name of the view.
    pub fn name(self) -> &'static str {
        match self {
            Sample::Q6 => "q6",
            Sample::Axfinder => "axfinder",
        }
    }

    /// The program of the view.
    pub fn program(self) -> Program {
        match self {
            Sample::Q6 => q6(),
            Sample::Axfinder => axfinder(),
        }
    }

    /// The events of numbers `0..count` of the view's sequence, in batches of `batch` events.
    pub fn batches(self, count: u64, batch: usize) -> Vec<Batch> {
        let program = self.program();
        let widths = row_words(&program);
        let mut random = Random(1);
        let mut batches: Vec<Batch> = Vec::new();
        let mut open: Vec<(u16, [u64; 3])> = Vec::new();
        for number in 0..count {
            let (relation, row, weight) = match self {
                Sample::Q6 => (0, line_item(&mut random), 1),
                Sample::Axfinder => order(number, &mut random, &mut open),
            };
            if batches.last().is_none_or(|last| last.len() == batch) {
                batches.push(Batch::default());
            }
            let last = batches.last_mut().expect("one has been pushed");
            let row = &row[..widths[usize::from(relation)]];
            last.push(&widths, RelationId(relation), row, weight).expect("an event of the program");
        }
        batches
    }
}

/// A checksum of rows that does not depend on their order.
pub fn checksum<'r>(rows: impl Iterator<Item = &'r [u64]>) -> u64 {
    let row = |row: &[u64]| {
        row.iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
            (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29)
        })
    };
    rows.map(row).fold(0, u64::wrapping_add)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// A row like those of `lineitem`: quantity, price, discount, tax, flag, status, date.
fn line_item(random: &mut Random) -> [u64; 7] {
    let quantity = random.below(50) + 1;
    let price = quantity * (90_000 + random.below(100_000));
    let [discount, tax] = [random.below(11), random.below(9)];
    let [flag, status] = [random.below(3), random.below(2)];
    [quantity * 100, price, discount, tax, flag, status, 8036 + random.below(2526)]
}

/// An event of an order book whose rows are (broker, volume, price): bids are relation 0, asks 1; one
/// event in three takes an order away once there are 2,000.
fn order(
    number: u64,
    random: &mut Random,
    open: &mut Vec<(u16, [u64; 3])>,
) -> (u16, [u64; 7], i64) {
    let whole = |[broker, volume, price]: [u64; 3]| [broker, volume, price, 0, 0, 0, 0];
    if open.len() > 2000 || (open.len() > 1000 && random.below(3) == 0) {
        let at = random.below(open.len() as u64) as usize;
        let (side, row) = open.swap_remove(at);
        return (side, whole(row), -1);
    }
    let side = random.below(2) as u16;
    let volume = (random.below(40) + 1) * 100;
    let row = [number % 10, volume, 2_400_000 + random.below(700) * 100];
    open.push((side, row));
    (side, whole(row), 1)
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

/// Per broker, volume of asks less volume of bids over all pairs of an ask and a bid that are far
/// enough apart in price.
pub fn axfinder() -> Program {
    const PAIR: [Component; 2] = [Component::Int, Component::Int];
    let range = |map: u16, low: Bound, high: Bound, to: [u16; 2]| Step::RangeSum {
        map: MapId(map),
        prefix: vec![r(0)],
        low,
        high,
        payload: vec![(0, Reg(to[0])), (1, Reg(to[1]))],
    };
    let side = |own: u16, other: u16, is_bid: bool| {
        // Row: r0 broker, r1 volume, r2 price, r3 weight.
        let above = Bound::Excluded(add(r(2), Expr::Int(1000)));
        let below = Bound::Excluded(sub(r(2), Expr::Int(1000)));
        let steps = vec![
            range(other, above, Bound::Open, [4, 5]),
            range(other, Bound::Open, below, [6, 7]),
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
    program(maps, vec![base("bids", 3), base("asks", 3)], triggers)
}

/// TPC-H's query 6: revenue that would have been without certain discounts in 1994.
pub fn q6() -> Program {
    let within = Expr::And(vec![
        compare(CompareOp::Ge, r(6), Expr::Int(8766)),
        compare(CompareOp::Lt, r(6), Expr::Int(9131)),
        compare(CompareOp::Ge, r(2), Expr::Int(5)),
        compare(CompareOp::Le, r(2), Expr::Int(7)),
        compare(CompareOp::Lt, r(0), Expr::Int(2400)),
    ]);
    let product = mul(r(7), mul(r(1), r(2)));
    let revenue = Expr::Cast { from: Type::Int, to: Type::Wide, value: Box::new(product) };
    let statements = vec![statement(vec![Step::If(within)], 0, vec![], vec![revenue, r(7)])];
    let trigger = Trigger { registers: vec![Type::Int; 8], statements };
    let payload = [Component::Wide, Component::Int];
    program(vec![map("q6", 0, &payload, false)], vec![base("lineitem", 7)], vec![trigger])
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::events::Events;
    use halcyon_view::{Engine, Executor, Options};
    use std::collections::HashMap;

    fn rows(sample: Sample, batches: &[Batch]) -> Vec<Vec<u64>> {
        let options = Options { executor: Executor::Operations, ..Options::default() };
        let mut engine = Engine::new(sample.program(), options).expect("a sound program");
        let widths = row_words(&sample.program());
        for (relation, row, weight) in
            batches.iter().flat_map(|batch| Events::new(batch.words(), &widths))
        {
            engine.apply(relation, row, weight).expect("sums fit");
        }
        let mut rows = Vec::new();
        engine.for_each_row(|row| rows.push(row.to_vec())).expect("rows can be computed");
        rows.sort();
        rows
    }

    #[test]
    fn q6_is_the_sum_over_its_rows() {
        let batches = Sample::Q6.batches(20_000, 64);
        let widths = [7];
        let events = batches.iter().flat_map(|batch| Events::new(batch.words(), &widths));
        let kept = events.map(|(_, row, _)| row).filter(|row| {
            (8766..9131).contains(&row[6]) && (5..=7).contains(&row[2]) && row[0] < 2400
        });
        let revenue: u64 = kept.map(|row| row[1] * row[2]).sum();
        assert!(revenue > 0);
        assert_eq!(rows(Sample::Q6, &batches), [[revenue, 0]]);
    }

    #[test]
    fn axfinder_is_the_sum_over_its_pairs() {
        let batches = Sample::Axfinder.batches(6_000, 100);
        let widths = [3, 3];
        let mut sides: [HashMap<Vec<u64>, i64>; 2] = [HashMap::new(), HashMap::new()];
        for (side, row, weight) in
            batches.iter().flat_map(|batch| Events::new(batch.words(), &widths))
        {
            *sides[usize::from(side.0)].entry(row.to_vec()).or_default() += weight;
        }
        let mut expected: HashMap<u64, i64> = HashMap::new();
        for (bid, bids) in &sides[0] {
            for (ask, asks) in &sides[1] {
                if bid[0] == ask[0] && bid[2].abs_diff(ask[2]) > 1000 {
                    let volume = ask[1] as i64 - bid[1] as i64;
                    *expected.entry(bid[0]).or_default() += bids * asks * volume;
                }
            }
        }
        let mut expected: Vec<Vec<u64>> =
            expected.into_iter().map(|(broker, sum)| vec![broker, sum as u64]).collect();
        expected.sort();
        assert_eq!(rows(Sample::Axfinder, &batches), expected);
    }

    #[test]
    fn checksums_tell_rows_apart_and_not_their_order() {
        let sum = |rows: &[&[u64]]| checksum(rows.iter().copied());
        assert_eq!(sum(&[&[1, 2], &[3, 4]]), sum(&[&[3, 4], &[1, 2]]));
        assert_ne!(sum(&[&[1, 2], &[3, 4]]), sum(&[&[1, 2], &[4, 3]]));
        assert_ne!(sum(&[&[1, 2]]), sum(&[&[1, 2], &[1, 2]]));
    }
}
