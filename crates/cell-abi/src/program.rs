//! Bytes of trigger programs: how a view's program gets into a cell.
//!
//! [`decode`] takes any bytes and returns a program or an error, never panics, and takes memory in
//! proportion to the bytes. What it returns is well-formed as data alone: [`Program::check`], which
//! [`halcyon_view::Engine::new`] calls, verifies that the program keeps its rules. Functions travel by
//! name with the types of their arguments and result, so both sides must have the function in their
//! table; a cell has no square roots and the like, for which there is no library.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use halcyon_value::Type as ValueType;
use halcyon_value::functions::Call;
use halcyon_view::program::{
    BinaryOp, Bound, CompareOp, Component, DatePart, Derived, Expr, MapDecl, MapId, NumberRange,
    Program, Reg, Relation, RelationId, SliceId, Statement, Step, Trigger, Type,
};

use crate::bytes::{Input, Output, Wire, choice, choices, newtype, structure};

pub use crate::bytes::{DEPTH_MAX, DecodeError};

/// The program's bytes.
///
/// Errors: [`DecodeError::Deep`], or [`DecodeError::Function`] if a call is not the one that its name
/// and types stand for.
pub fn encode(program: &Program) -> Result<Vec<u8>, DecodeError> {
    let mut out = Output::default();
    program.put(&mut out);
    if out.deepest > DEPTH_MAX {
        return Err(DecodeError::Deep);
    }
    // Reading it again is the shortest proof that the other side can.
    decode(&out.bytes)?;
    Ok(out.bytes)
}

/// The program that these bytes stand for.
///
/// Errors: see [`DecodeError`].
pub fn decode(bytes: &[u8]) -> Result<Program, DecodeError> {
    let mut input = Input::new(bytes);
    let program = Program::take(&mut input)?;
    if input.is_empty() { Ok(program) } else { Err(DecodeError::Long) }
}

newtype!(Reg, MapId, RelationId, SliceId);
choice!(Type { 0 Int, 1 Float, 2 Wide });
choice!(Component { 0 Int, 1 Wide, 2 Float });
choice!(CompareOp { 0 Eq, 1 Ne, 2 Lt, 3 Le, 4 Gt, 5 Ge });
choice!(BinaryOp { 0 Add, 1 Sub, 2 Mul, 3 Div, 4 DivRound, 5 Rem });
choice!(DatePart { 0 Year, 1 Month, 2 Day, 3 Quarter, 4 DayOfWeek, 5 DayOfYear });
choices!(NumberRange { 0 Bits(bits), 1 Digits(digits) });
structure!(Program { relations, maps, triggers, one_row, output, output_repeats });
structure!(Relation { name, columns, source_columns, never_null, derived });
structure!(Derived { map, registers, steps, exists, row });
structure!(MapDecl { name, definition, key, payload, ordered, slices });
structure!(Trigger { registers, statements });
structure!(Statement { comment, steps, target, key, add, replace });
choices!(Bound { 0 Open, 1 Included(value), 2 Excluded(value) });
choices!(Step {
    0 Let { reg, value },
    1 If(condition),
    2 Get { map, key, payload },
    3 Each { map, slice, prefix, key, payload },
    4 RangeSum { map, prefix, low, high, payload },
    5 Edge { map, prefix, last, skip_null, key },
    6 Search { map, prefix, descending, component, limit, key },
    7 Sum { steps, terms },
});
choices!(Expr {
    0 Reg(reg),
    1 Int(value),
    2 Float(value),
    3 Wide(value),
    4 Null(ty),
    5 Binary(op, ty, a, b),
    6 Neg(ty, a),
    7 Compare(op, ty, a, b),
    8 CompareText(op, a, b),
    9 IsNull(ty, a),
    10 And(list),
    11 Or(list),
    12 Not(a),
    13 Case { ty, when, otherwise },
    14 Coalesce(ty, list),
    15 Cast { from, to, value },
    16 Rescale { ty, by, value },
    17 Within { ty, range, value },
    18 DatePart(part, a),
    19 DateOf(a),
    20 Like { value, pattern, ignore_case, negated },
    21 Substring { value, start, length },
    22 Text(text),
    23 Call { call, args },
});

impl Wire for Arc<Call> {
    fn put(&self, out: &mut Output) {
        self.function().name().to_string().put(out);
        self.args().to_vec().put(out);
        self.result().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let name = String::take(input)?;
        let (args, result) = (Vec::<ValueType>::take(input)?, ValueType::take(input)?);
        match Call::exact(&name, &args, result) {
            Some(call) => Ok(Arc::new(call)),
            None => Err(DecodeError::Function(name)),
        }
    }
}

impl Wire for ValueType {
    fn put(&self, out: &mut Output) {
        let number: u8 = match self {
            ValueType::Bool => 0,
            ValueType::Int16 => 1,
            ValueType::Int32 => 2,
            ValueType::Int64 => 3,
            ValueType::Float32 => 4,
            ValueType::Float64 => 5,
            ValueType::Decimal { .. } => 6,
            ValueType::Text => 7,
            ValueType::Bytes => 8,
            ValueType::Date => 9,
            ValueType::Time => 10,
            ValueType::Timestamp => 11,
            ValueType::TimestampTz => 12,
            ValueType::Interval => 13,
            ValueType::Uuid => 14,
        };
        number.put(out);
        if let ValueType::Decimal { precision, scale } = self {
            precision.put(out);
            scale.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(match u8::take(input)? {
            0 => ValueType::Bool,
            1 => ValueType::Int16,
            2 => ValueType::Int32,
            3 => ValueType::Int64,
            4 => ValueType::Float32,
            5 => ValueType::Float64,
            6 => {
                let (precision, scale) = (u8::take(input)?, i8::take(input)?);
                if !(1..=38).contains(&precision) {
                    return Err(DecodeError::Choice("precision"));
                }
                ValueType::Decimal { precision, scale }
            }
            7 => ValueType::Text,
            8 => ValueType::Bytes,
            9 => ValueType::Date,
            10 => ValueType::Time,
            11 => ValueType::Timestamp,
            12 => ValueType::TimestampTz,
            13 => ValueType::Interval,
            14 => ValueType::Uuid,
            _ => return Err(DecodeError::Choice("type")),
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::samples;
    use alloc::boxed::Box;
    use alloc::format;
    use alloc::vec;
    use halcyon_base::rng::Rng;
    use halcyon_view::{Engine, Executor, Options};

    /// A program with every step and every expression, which need not keep any rule.
    fn everything() -> Program {
        let reg = || Box::new(Expr::Reg(Reg(3)));
        let text = ValueType::Text;
        let call = Call::exact("upper", &[text], text).expect("upper is in the table");
        let exprs = vec![
            Expr::Int(-7),
            Expr::Float(f64::NAN),
            Expr::Wide(i128::MIN + 5),
            Expr::Null(Type::Wide),
            Expr::Binary(BinaryOp::DivRound, Type::Float, reg(), reg()),
            Expr::Neg(Type::Int, reg()),
            Expr::Compare(CompareOp::Ge, Type::Wide, reg(), reg()),
            Expr::CompareText(CompareOp::Ne, reg(), reg()),
            Expr::IsNull(Type::Int, reg()),
            Expr::And(vec![*reg()]),
            Expr::Or(vec![]),
            Expr::Not(reg()),
            Expr::Case { ty: Type::Int, when: vec![(*reg(), *reg())], otherwise: reg() },
            Expr::Coalesce(Type::Float, vec![*reg()]),
            Expr::Cast { from: Type::Int, to: Type::Wide, value: reg() },
            Expr::Rescale { ty: Type::Int, by: -3, value: reg() },
            Expr::Within { ty: Type::Int, range: NumberRange::Digits(9), value: reg() },
            Expr::DatePart(DatePart::Quarter, reg()),
            Expr::DateOf(reg()),
            Expr::Like { value: reg(), pattern: "a%".into(), ignore_case: true, negated: false },
            Expr::Substring { value: reg(), start: -2, length: Some(4) },
            Expr::Text("grüße".into()),
            Expr::Call { call: Arc::new(call), args: vec![*reg()] },
        ];
        let (map, prefix) = (MapId(1), vec![*reg()]);
        let key = Reg(4);
        let steps = vec![
            Step::Let { reg: key, value: *reg() },
            Step::If(Expr::And(exprs.clone())),
            Step::Get { map, key: exprs, payload: vec![(0, key)] },
            Step::Each {
                map,
                slice: Some(SliceId(2)),
                prefix: prefix.clone(),
                key: vec![(1, key)],
                payload: vec![],
            },
            Step::RangeSum {
                map,
                prefix: prefix.clone(),
                low: Bound::Open,
                high: Bound::Excluded(*reg()),
                payload: vec![],
            },
            Step::Edge { map, prefix: prefix.clone(), last: true, skip_null: false, key },
            Step::Search { map, prefix, descending: true, component: 3, limit: *reg(), key },
            Step::Sum { steps: vec![Step::If(*reg())], terms: vec![(*reg(), key)] },
        ];
        let mut program = samples::axfinder();
        program.triggers[0].statements[0].steps = steps;
        program.one_row = Some(RelationId(1));
        program
    }

    #[test]
    fn programs_survive_their_bytes() {
        for program in [samples::q6(), samples::axfinder(), everything(), Program::default()] {
            let bytes = encode(&program).expect("not deep");
            let again = decode(&bytes).expect("bytes of a program");
            assert_eq!(format!("{program:?}"), format!("{again:?}"));
        }
    }

    #[test]
    fn a_program_that_ends_early_or_late_is_refused() {
        let bytes = encode(&everything()).expect("not deep");
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err(), "{end}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()).err(), Some(DecodeError::Long));
    }

    #[test]
    fn deep_programs_are_refused_on_both_sides() {
        let mut deep = Expr::Int(0);
        for _ in 0..DEPTH_MAX + 10 {
            deep = Expr::Not(Box::new(deep));
        }
        let mut program = samples::q6();
        program.triggers[0].statements[0].steps = vec![Step::If(deep)];
        assert_eq!(encode(&program).err(), Some(DecodeError::Deep));
        let mut out = Output::default();
        program.put(&mut out);
        assert_eq!(decode(&out.bytes).err(), Some(DecodeError::Deep));
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let bytes = encode(&everything()).expect("not deep");
        let at = bytes.windows(5).position(|word| word == b"upper").expect("its name is there");
        let mut other = bytes.clone();
        other[at..at + 5].copy_from_slice(b"lupus");
        let error = decode(&other).expect_err("no such function");
        assert_eq!(error.to_string(), "cells have no function lupus");
    }

    /// Bytes of programs with some of them changed, and bytes without any sense: each is refused by
    /// [`decode`], refused by the check, or a program that runs.
    #[test]
    fn random_bytes_never_panic() {
        let mut rng = Rng::new(11);
        let good = [samples::q6(), samples::axfinder(), everything()]
            .map(|program| encode(&program).expect("not deep"));
        let (mut decoded, mut sound) = (0, 0);
        for round in 0..30_000 {
            let mut bytes = good[round % 3].clone();
            if round % 50 == 0 {
                bytes = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
            }
            for _ in 0..1 + rng.below(3) {
                if bytes.is_empty() {
                    continue;
                }
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = [rng.next_u64() as u8, rng.below(8) as u8][rng.below(2) as usize];
            }
            let Ok(program) = decode(&bytes) else { continue };
            decoded += 1;
            let executor = Executor::Operations;
            let options = Options { executor, ..Options::default() };
            let Ok(mut engine) = Engine::new(program.clone(), options) else { continue };
            sound += 1;
            let row_words = crate::events::row_words(&program);
            for (relation, words) in row_words.iter().enumerate() {
                let row: Vec<u64> = (0..*words).map(|_| rng.below(5)).collect();
                let _ = engine.apply(RelationId(relation as u16), &row, 1);
            }
            let _ = engine.for_each_row(|_| {});
        }
        assert!(decoded > 1000 && sound > 500, "{decoded} {sound}");
    }
}
