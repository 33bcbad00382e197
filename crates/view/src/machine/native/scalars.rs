//! Operations on registers alone, as instructions.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};

use super::super::code::{Op, R, Range};
use super::calls::{self, comparison_number, operator_number, status};
use super::emit::{Emitter, Flag};
use crate::program::{BinaryOp, CompareOp, NULL_FLOAT_BITS, NULL_INT, Type};

/// Cranelift's name of a comparison.
fn condition(op: CompareOp) -> IntCC {
    match op {
        CompareOp::Eq => IntCC::Equal,
        CompareOp::Ne => IntCC::NotEqual,
        CompareOp::Lt => IntCC::SignedLessThan,
        CompareOp::Le => IntCC::SignedLessThanOrEqual,
        CompareOp::Gt => IntCC::SignedGreaterThan,
        CompareOp::Ge => IntCC::SignedGreaterThanOrEqual,
    }
}

impl Emitter<'_, '_> {
    /// Emits an operation; returns false if calling the operation is best.
    pub fn scalar(&mut self, op: &Op) -> bool {
        match *op {
            Op::AddInt { d, a, b } => self.int_binary(BinaryOp::Add, d, a, b),
            Op::SubInt { d, a, b } => self.int_binary(BinaryOp::Sub, d, a, b),
            Op::MulInt { d, a, b } => self.int_binary(BinaryOp::Mul, d, a, b),
            Op::AddFloat { d, a, b } => self.float_binary(BinaryOp::Add, d, a, b),
            Op::SubFloat { d, a, b } => self.float_binary(BinaryOp::Sub, d, a, b),
            Op::MulFloat { d, a, b } => self.float_binary(BinaryOp::Mul, d, a, b),
            Op::AddWide { d, a, b } => self.wide_binary(BinaryOp::Add, d, a, b),
            Op::SubWide { d, a, b } => self.wide_binary(BinaryOp::Sub, d, a, b),
            Op::MulWide { d, a, b } => {
                let (a, b) = (self.get_wide(a), self.get_wide(b));
                self.wide_mul(d, a, b);
            }
            Op::MulWideInt { d, a, b } => {
                let a = self.get_wide(a);
                let b = self.get(b);
                let b = self.widen(b);
                self.wide_mul(d, a, b);
            }
            Op::MulIntInt { d, a, b } => {
                let (a, b) = (self.get(a), self.get(b));
                let low = self.to.ins().imul(a, b);
                let high = self.to.ins().smulhi(a, b);
                let null = self.any_null(a, b);
                let product = self.null_if(null, [low, high]);
                self.set_wide(d, product);
            }
            Op::Accumulate { ty: Type::Wide, d, a } => {
                let (sum, added) = (self.get_wide(d), self.get_wide(a));
                let (sum, overflows) = self.wide_sum(BinaryOp::Add, sum, added);
                self.fail_if(overflows, status::OVERFLOW);
                self.never_null.two.insert(sum[1]);
                self.set_wide(d, sum);
            }
            Op::Accumulate { d, a, .. } => {
                let (sum, added) = (self.get(d), self.get(a));
                let (sum, overflows) = self.int_sum(BinaryOp::Add, sum, added);
                self.fail_if(overflows, status::OVERFLOW);
                self.never_null.one.insert(sum);
                self.set(d, sum);
            }
            Op::Move { d, a } => {
                let value = self.get(a);
                self.set(d, value);
            }
            Op::MoveWide { d, a } => {
                let value = self.get_wide(a);
                self.set_wide(d, value);
            }
            // The mark of NULL is its own negation.
            Op::Neg { ty: Type::Int, d, a } => {
                let a = self.get(a);
                let value = self.to.ins().ineg(a);
                if self.never_null.one.contains(&a) {
                    self.never_null.one.insert(value);
                }
                self.set(d, value);
            }
            Op::Neg { ty: Type::Wide, d, a } => {
                let [low, high] = self.get_wide(a);
                let whole = self.to.ins().iconcat(low, high);
                let zero = self.to.ins().iconst(I64, 0);
                let zero = self.to.ins().iconcat(zero, zero);
                let value = self.to.ins().isub(zero, whole);
                let (low, negated) = self.to.ins().isplit(value);
                if self.is_known_wide(high) {
                    self.never_null.two.insert(negated);
                }
                self.set_wide(d, [low, negated]);
            }
            Op::Neg { ty: Type::Float, d, a } => {
                let bits = self.get(a);
                let value = self.to.ins().bitcast(F64, MemFlagsData::new(), bits);
                let negated = self.to.ins().fneg(value);
                let negated = self.to.ins().bitcast(I64, MemFlagsData::new(), negated);
                let nan = self.to.ins().fcmp(FloatCC::Unordered, value, value);
                let one_nan = self.to.ins().iconst(I64, f64::NAN.to_bits() as i64);
                let value = self.to.ins().select(nan, one_nan, negated);
                let null = self.is(bits, NULL_FLOAT_BITS as i64);
                let value = self.to.ins().select(null, bits, value);
                self.set(d, value);
            }
            Op::Compare { op, ty: Type::Float, d, a, b } => {
                let value = self.float_compare(op, a, b);
                self.set(d, value);
            }
            Op::Compare { op, ty, d, a, b } => {
                let (flag, null) = self.compare(op, ty, a, b);
                let value = self.truth(flag);
                let value = match null {
                    None => value,
                    Some(null) => {
                        let mark = self.int(NULL_INT);
                        self.to.ins().select(null, mark, value)
                    }
                };
                if null.is_none() {
                    self.never_null.one.insert(value);
                }
                self.set(d, value);
            }
            Op::Not { d, a } => {
                let a = self.get(a);
                let flag = self.is(a, 0);
                let mut value = self.truth(flag);
                match self.is_null_int(a) {
                    None => drop(self.never_null.one.insert(value)),
                    Some(null) => value = self.to.ins().select(null, a, value),
                }
                self.set(d, value);
            }
            Op::IsNull { ty, d, a } => {
                let flag = self.is_null(ty, a);
                let value = self.truth(flag);
                self.never_null.one.insert(value);
                self.set(d, value);
            }
            Op::OrZero { d } => {
                let value = self.get(d);
                if let Some(null) = self.is_null_int(value) {
                    let zero = self.int(0);
                    let value = self.to.ins().select(null, zero, value);
                    self.never_null.one.insert(value);
                    self.set(d, value);
                }
            }
            Op::OrZeroWide { d } => {
                let [low, high] = self.get_wide(d);
                if let Some(null) = self.is_null_wide([low, high]) {
                    let zero = self.int(0);
                    let low = self.to.ins().select(null, zero, low);
                    let high = self.to.ins().select(null, zero, high);
                    self.never_null.two.insert(high);
                    self.set_wide(d, [low, high]);
                }
            }
            Op::WidenInt { d, a } => {
                let a = self.get(a);
                let wide = self.widen(a);
                self.set_wide(d, wide);
            }
            Op::Cast { from: Type::Int, to: Type::Float, d, a } => {
                let a = self.get(a);
                let value = self.to.ins().fcvt_from_sint(F64, a);
                let mut value = self.to.ins().bitcast(I64, MemFlagsData::new(), value);
                if let Some(null) = self.is_null_int(a) {
                    let mark = self.to.ins().iconst(I64, NULL_FLOAT_BITS as i64);
                    value = self.to.ins().select(null, mark, value);
                }
                self.set(d, value);
            }
            Op::ToSum { d, a } => {
                let (a, at) = (self.get(a), self.scratch());
                let status = self.call(address!(calls::to_sum), &[a, at], Some(I32));
                self.fail_with(status.expect("has a result"));
                let sum = [self.scratch_word(0), self.scratch_word(1)];
                self.never_null.two.insert(sum[1]);
                self.set_wide(d, sum);
            }
            Op::FromSum { d, a } => {
                let sum = self.get_wide(a);
                let value = self.call(address!(calls::from_sum), &sum, Some(I64));
                self.set(d, value.expect("has a result"));
            }
            Op::KeyFloat { d } => {
                let value = self.get(d);
                let value = self.call(address!(calls::float_key), &[value], Some(I64));
                self.set(d, value.expect("has a result"));
            }
            Op::Order { ty: Type::Int, d, a } => {
                let a = self.get(a);
                let value = self.ordered(a);
                self.set(d, value);
            }
            Op::Order { ty: Type::Float, d, a } => {
                let a = self.get(a);
                let value = self.call(address!(calls::float_order), &[a], Some(I64));
                self.set(d, value.expect("has a result"));
            }
            Op::Order { ty: Type::Wide, d, a } => {
                let [low, high] = self.get_wide(a);
                let first = self.ordered(high);
                self.set_wide(d, [first, low]);
            }
            _ => return false,
        }
        true
    }

    /// Turns an integer into a word of a sorted key, or such a word into the integer.
    pub fn ordered(&mut self, value: Value) -> Value {
        let sign = self.to.ins().iconst(I64, i64::MIN);
        self.to.ins().bxor(value, sign)
    }

    /// Emits the test whether an integer lies in a range.
    pub fn within(&mut self, range: &Range, value: Value) -> Flag {
        if range.span == 0 {
            return self.is(value, range.low);
        }
        let low = self.to.ins().iconst(I64, range.low);
        let above = self.to.ins().isub(value, low);
        let span = self.to.ins().iconst(I64, range.span as i64);
        self.to.ins().icmp(IntCC::UnsignedLessThanOrEqual, above, span)
    }

    /// Turns a flag into 0 or 1.
    fn truth(&mut self, flag: Flag) -> Value {
        self.to.ins().uextend(I64, flag)
    }

    fn both(&mut self, a: Flag, b: Flag) -> Flag {
        self.to.ins().band(a, b)
    }

    /// The OR of two flags, of which either may be absent.
    pub fn either(&mut self, a: Option<Flag>, b: Option<Flag>) -> Option<Flag> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.to.ins().bor(a, b)),
            (one, other) => one.or(other),
        }
    }

    // NULL.

    /// Emits the test whether an integer is NULL; `None`: it cannot be.
    pub fn is_null_int(&mut self, value: Value) -> Option<Flag> {
        (!self.never_null.one.contains(&value)).then(|| self.is(value, NULL_INT))
    }

    /// Whether a wide integer with this upper word is known never to be NULL.
    fn is_known_wide(&self, high: Value) -> bool {
        self.never_null.two.contains(&high) || self.never_null.one.contains(&high)
    }

    fn is_null_wide(&mut self, [low, high]: [Value; 2]) -> Option<Flag> {
        if self.is_known_wide(high) {
            return None;
        }
        Some(self.is_mark([low, high]))
    }

    /// Emits the test whether two words are the mark of NULL.
    fn is_mark(&mut self, [low, high]: [Value; 2]) -> Flag {
        let upper = self.ordered(high);
        let any = self.to.ins().bor(low, upper);
        self.is(any, 0)
    }

    pub fn is_null(&mut self, ty: Type, a: R) -> Flag {
        let null = match ty {
            Type::Int => {
                let a = self.get(a);
                self.is_null_int(a)
            }
            Type::Float => {
                let a = self.get(a);
                Some(self.is(a, NULL_FLOAT_BITS as i64))
            }
            Type::Wide => {
                let a = self.get_wide(a);
                self.is_null_wide(a)
            }
        };
        null.unwrap_or_else(|| {
            let zero = self.to.ins().iconst(I64, 0);
            self.is_not(zero, 0)
        })
    }

    fn any_null(&mut self, a: Value, b: Value) -> Option<Flag> {
        let (a, b) = (self.is_null_int(a), self.is_null_int(b));
        self.either(a, b)
    }

    /// A wide value that becomes NULL where a flag is true. Without a flag the value stays.
    fn null_if(&mut self, null: Option<Flag>, [low, high]: [Value; 2]) -> [Value; 2] {
        let Some(null) = null else {
            self.never_null.two.insert(high);
            return [low, high];
        };
        let (zero, mark) = (self.to.ins().iconst(I64, 0), self.to.ins().iconst(I64, i64::MIN));
        [self.to.ins().select(null, zero, low), self.to.ins().select(null, mark, high)]
    }

    fn widen(&mut self, a: Value) -> [Value; 2] {
        let shift = self.to.ins().iconst(I64, 63);
        let high = self.to.ins().sshr(a, shift);
        let null = self.is_null_int(a);
        self.null_if(null, [a, high])
    }

    // Arithmetic.

    /// Emits a sum, difference or product of integers, and the test whether the result does not
    /// fit.
    pub fn int_sum(&mut self, op: BinaryOp, a: Value, b: Value) -> (Value, Flag) {
        let (value, overflows) = match op {
            BinaryOp::Add => self.to.ins().sadd_overflow(a, b),
            BinaryOp::Sub => self.to.ins().ssub_overflow(a, b),
            _ => self.to.ins().smul_overflow(a, b),
        };
        let mark = self.is(value, NULL_INT);
        (value, self.to.ins().bor(overflows, mark))
    }

    fn int_binary(&mut self, op: BinaryOp, d: R, a: R, b: R) {
        let (a, b) = (self.get(a), self.get(b));
        let null = self.any_null(a, b);
        let (value, overflows) = self.int_sum(op, a, b);
        let value = match null {
            None => {
                self.fail_if(overflows, status::OVERFLOW);
                self.never_null.one.insert(value);
                value
            }
            Some(null) => {
                let not_null = self.not(null);
                let fails = self.both(overflows, not_null);
                self.fail_if(fails, status::OVERFLOW);
                let mark = self.to.ins().iconst(I64, NULL_INT);
                self.to.ins().select(null, mark, value)
            }
        };
        self.set(d, value);
    }

    /// Emits a sum or difference of wide integers, and the test whether the result does not fit.
    pub fn wide_sum(
        &mut self,
        op: BinaryOp,
        [a_low, a_high]: [Value; 2],
        [b_low, b_high]: [Value; 2],
    ) -> ([Value; 2], Flag) {
        let a = self.to.ins().iconcat(a_low, a_high);
        let b = self.to.ins().iconcat(b_low, b_high);
        let sum = match op {
            BinaryOp::Add => self.to.ins().iadd(a, b),
            _ => self.to.ins().isub(a, b),
        };
        let (low, high) = self.to.ins().isplit(sum);
        // A sum overflows if its sign differs from that of both addends; a difference, if its sign
        // differs from the minuend's and the signs of minuend and subtrahend differ.
        let from_a = self.to.ins().bxor(a_high, high);
        let other = match op {
            BinaryOp::Add => self.to.ins().bxor(b_high, high),
            _ => self.to.ins().bxor(a_high, b_high),
        };
        let signs = self.to.ins().band(from_a, other);
        let zero = self.to.ins().iconst(I64, 0);
        let overflows = self.to.ins().icmp(IntCC::SignedLessThan, signs, zero);
        let mark = self.is_mark([low, high]);
        ([low, high], self.to.ins().bor(overflows, mark))
    }

    fn wide_binary(&mut self, op: BinaryOp, d: R, a: R, b: R) {
        let (a, b) = (self.get_wide(a), self.get_wide(b));
        let (a_null, b_null) = (self.is_null_wide(a), self.is_null_wide(b));
        let null = self.either(a_null, b_null);
        let (value, mut fails) = self.wide_sum(op, a, b);
        if let Some(null) = null {
            let not_null = self.not(null);
            fails = self.both(fails, not_null);
        }
        self.fail_if(fails, status::OVERFLOW);
        let value = self.null_if(null, value);
        self.set_wide(d, value);
    }

    /// Emits a product of wide integers. Factors that fit 64 bits are multiplied by instructions;
    /// NULL never fits, and all other factors go to a call.
    fn wide_mul(&mut self, d: R, a: [Value; 2], b: [Value; 2]) {
        let (few, many) = (self.to.create_block(), self.to.create_block());
        let after = self.to.create_block();
        self.to.append_block_param(after, I64);
        self.to.append_block_param(after, I64);
        self.to.set_cold_block(many);
        let shift = self.to.ins().iconst(I64, 63);
        let [a_sign, b_sign] = [a, b].map(|value| self.to.ins().sshr(value[0], shift));
        let a_rest = self.to.ins().bxor(a_sign, a[1]);
        let b_rest = self.to.ins().bxor(b_sign, b[1]);
        let rest = self.to.ins().bor(a_rest, b_rest);
        self.to.ins().brif(rest, many, &[], few, &[]);
        self.enter(few);
        let low = self.to.ins().imul(a[0], b[0]);
        let high = self.to.ins().smulhi(a[0], b[0]);
        self.to.ins().jump(after, &[low.into(), high.into()]);
        self.enter(many);
        let at = self.scratch();
        let function = address!(calls::wide_mul);
        let status = self.call(function, &[a[0], a[1], b[0], b[1], at], Some(I32));
        self.fail_with(status.expect("has a result"));
        let (low, high) = (self.scratch_word(0), self.scratch_word(1));
        self.to.ins().jump(after, &[low.into(), high.into()]);
        self.enter(after);
        let &[low, high] = self.to.block_params(after) else { unreachable!("two were appended") };
        if self.is_known_wide(a[1]) && self.is_known_wide(b[1]) {
            self.never_null.two.insert(high);
        }
        self.set_wide(d, [low, high]);
    }

    /// Emits floating-point arithmetic. A finite result has finite operands, so neither of them was
    /// NULL.
    fn float_binary(&mut self, op: BinaryOp, d: R, a: R, b: R) {
        let (a, b) = (self.get(a), self.get(b));
        let x = self.to.ins().bitcast(F64, MemFlagsData::new(), a);
        let y = self.to.ins().bitcast(F64, MemFlagsData::new(), b);
        let value = match op {
            BinaryOp::Add => self.to.ins().fadd(x, y),
            BinaryOp::Sub => self.to.ins().fsub(x, y),
            _ => self.to.ins().fmul(x, y),
        };
        let absolute = self.to.ins().fabs(value);
        let infinity = self.to.ins().f64const(f64::INFINITY);
        let finite = self.to.ins().fcmp(FloatCC::LessThan, absolute, infinity);
        let bits = self.to.ins().bitcast(I64, MemFlagsData::new(), value);
        let (other, after) = (self.to.create_block(), self.to.create_block());
        self.to.set_cold_block(other);
        self.to.append_block_param(after, I64);
        self.to.ins().brif(finite, after, &[bits.into()], other, &[]);
        self.enter(other);
        let (number, at) = (self.word(operator_number(op)), self.scratch());
        let status = self.call(address!(calls::float_binary), &[number, a, b, at], Some(I32));
        self.fail_with(status.expect("has a result"));
        let value = self.scratch_word(0);
        self.to.ins().jump(after, &[value.into()]);
        self.enter(after);
        let value = self.to.block_params(after)[0];
        self.set(d, value);
    }

    // Comparisons.

    fn float_compare(&mut self, op: CompareOp, a: R, b: R) -> Value {
        let (a, b) = (self.get(a), self.get(b));
        let number = self.word(comparison_number(op));
        let value = self.call(address!(calls::float_compare), &[number, a, b], Some(I64));
        value.expect("has a result")
    }

    /// Emits the test whether integers compare so; false if one of them is NULL.
    pub fn int_holds(&mut self, op: CompareOp, a: Value, b: Value) -> Flag {
        let flag = self.to.ins().icmp(condition(op), a, b);
        match self.any_null(a, b) {
            None => flag,
            Some(null) => {
                let not_null = self.not(null);
                self.both(flag, not_null)
            }
        }
    }

    /// Emits the comparison of integers of one or two words, and the test whether one of them is
    /// NULL.
    fn compare(&mut self, op: CompareOp, ty: Type, a: R, b: R) -> (Flag, Option<Flag>) {
        if ty == Type::Int {
            let (a, b) = (self.get(a), self.get(b));
            let flag = self.to.ins().icmp(condition(op), a, b);
            return (flag, self.any_null(a, b));
        }
        let (a, b) = (self.get_wide(a), self.get_wide(b));
        let (a_null, b_null) = (self.is_null_wide(a), self.is_null_wide(b));
        let x = self.to.ins().iconcat(a[0], a[1]);
        let y = self.to.ins().iconcat(b[0], b[1]);
        let flag = self.to.ins().icmp(condition(op), x, y);
        (flag, self.either(a_null, b_null))
    }

    /// Emits the test whether two registers compare so; false if one of them is NULL.
    pub fn holds(&mut self, op: CompareOp, ty: Type, a: R, b: R) -> Flag {
        if ty == Type::Float {
            let value = self.float_compare(op, a, b);
            return self.is(value, 1);
        }
        let (flag, null) = self.compare(op, ty, a, b);
        match null {
            None => flag,
            Some(null) => {
                let not_null = self.not(null);
                self.both(flag, not_null)
            }
        }
    }
}
