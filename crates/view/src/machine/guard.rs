//! Guards: conditions on an event's row that are tested before anything else of a trigger.

use alloc::vec::Vec;

use super::code::Range;
use crate::program::{CompareOp, Expr, Type};
use crate::scalar::compare;

/// A guard: conditions on the integers of a row, all of which must hold.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    ranges: Vec<Range>,
    others: Vec<Test>,
}

#[derive(Clone, Debug)]
enum Test {
    Within(Range),
    /// Compares two words of the row.
    Compare(CompareOp, u16, u16),
    /// At least one of these tests holds.
    Any(Vec<Test>),
}

impl Test {
    #[inline(always)]
    fn holds(&self, row: &[u64]) -> bool {
        match self {
            Test::Within(range) => range.holds(row[usize::from(range.a)] as i64),
            Test::Compare(op, a, b) => {
                compare(*op, row[usize::from(*a)] as i64, row[usize::from(*b)] as i64) == 1
            }
            Test::Any(tests) => Test::any_holds(tests, row),
        }
    }

    fn any_holds(tests: &[Test], row: &[u64]) -> bool {
        tests.iter().any(|test| test.holds(row))
    }
}

impl Guard {
    /// Makes a guard of conditions that [`Guard::can_ask`] accepts. `word`: the word of the row
    /// where a register lies; `number`: the number of a string.
    pub fn new(
        conditions: &[Expr],
        word: &dyn Fn(u16) -> u16,
        number: &mut dyn FnMut(&str) -> i64,
    ) -> Guard {
        let mut guard = Guard::default();
        for condition in conditions {
            match test(condition, word, number) {
                Test::Within(range) => guard.narrow(range),
                other => guard.others.push(other),
            }
        }
        guard
    }

    /// Adds a range. Two ranges of the same word become one, their intersection, unless that is
    /// empty.
    fn narrow(&mut self, range: Range) {
        for known in self.ranges.iter_mut().filter(|known| known.a == range.a) {
            let low = known.low.max(range.low);
            let high = known.high().min(range.high());
            if low <= high {
                *known = Range::between(range.a, low, high);
                return;
            }
        }
        self.ranges.push(range);
    }

    /// Whether all conditions hold for a row.
    #[inline(always)]
    pub fn holds(&self, row: &[u64]) -> bool {
        self.ranges.iter().all(|range| range.holds(row[usize::from(range.a)] as i64))
            && self.others.iter().all(|test| test.holds(row))
    }

    /// Whether a guard can test a condition on rows of these types. It can if the condition
    /// compares integers with constants or with each other, or is an OR of such comparisons.
    pub fn can_ask(condition: &Expr, types: &[Type]) -> bool {
        match condition {
            Expr::Compare(op, Type::Int, a, b) => {
                let is_column = |value: &Expr| match value {
                    Expr::Reg(reg) => types.get(usize::from(reg.0)) == Some(&Type::Int),
                    _ => false,
                };
                let is_constant = |value: &Expr| match value {
                    // Whether this gives a range does not depend on the string's number, so any
                    // number will do.
                    Expr::Text(_) => Range::of(0, *op, 1).is_some(),
                    Expr::Int(constant) => {
                        Range::of(0, *op, *constant).is_some()
                            && Range::of(0, op.mirrored(), *constant).is_some()
                    }
                    _ => false,
                };
                (is_column(a) && (is_column(b) || is_constant(b)))
                    || (is_constant(a) && is_column(b))
            }
            Expr::Or(any) => any.iter().all(|each| Guard::can_ask(each, types)),
            _ => false,
        }
    }
}

fn test(condition: &Expr, word: &dyn Fn(u16) -> u16, number: &mut dyn FnMut(&str) -> i64) -> Test {
    match condition {
        Expr::Or(any) => Test::Any(any.iter().map(|each| test(each, word, number)).collect()),
        Expr::Compare(op, _, a, b) => {
            let mut constant = |value: &Expr| match value {
                Expr::Int(constant) => Some(*constant),
                Expr::Text(text) => Some(number(text)),
                _ => None,
            };
            let range = |reg: u16, op: CompareOp, constant: i64| {
                Test::Within(Range::of(word(reg), op, constant).expect("looked at by can_ask"))
            };
            match (&**a, &**b) {
                (Expr::Reg(a), Expr::Reg(b)) => Test::Compare(*op, word(a.0), word(b.0)),
                (Expr::Reg(reg), other) => {
                    range(reg.0, *op, constant(other).expect("looked at by can_ask"))
                }
                (other, Expr::Reg(reg)) => {
                    range(reg.0, op.mirrored(), constant(other).expect("looked at by can_ask"))
                }
                _ => unreachable!("looked at by can_ask"),
            }
        }
        other => unreachable!("{other:?}: looked at by can_ask"),
    }
}
