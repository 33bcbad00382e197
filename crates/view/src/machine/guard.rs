//! Guards: conditions on an event's row that are asked before anything else.

use alloc::vec::Vec;

use super::code::Range;
use crate::program::{CompareOp, Expr, Type};
use crate::scalar::compare;

/// Conditions of which all must hold. Each is of integers of the row.
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
    /// One of them holds.
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
    /// Of conditions as [`Guard::can_ask`] says. `word`: where a register of the row is; `number`:
    /// that of a string.
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

    /// Adds a range; two of the same word become one if that is one again.
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

    /// Whether all hold.
    #[inline(always)]
    pub fn holds(&self, row: &[u64]) -> bool {
        self.ranges.iter().all(|range| range.holds(row[usize::from(range.a)] as i64))
            && self.others.iter().all(|test| test.holds(row))
    }

    /// Whether it can ask this, of a row of these types: comparisons of integers with constants or
    /// with each other, or whether one of several holds.
    pub fn can_ask(condition: &Expr, types: &[Type]) -> bool {
        match condition {
            Expr::Compare(op, Type::Int, a, b) => {
                let is_column = |value: &Expr| match value {
                    Expr::Reg(reg) => types.get(usize::from(reg.0)) == Some(&Type::Int),
                    _ => false,
                };
                let is_constant = |value: &Expr| match value {
                    // Any number of a string will do.
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
