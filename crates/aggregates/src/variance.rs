//! Variances and deviations: `var_pop`, `var_samp`, `variance`, `stddev_pop`, `stddev_samp`, `stddev`.
//!
//! Over floats they are DOUBLE PRECISION, by the recurrence of Youngs and Cramer, as in PostgreSQL;
//! over integers and decimals NUMERIC with sixteen places (or the argument's, if it has more), from
//! exact sums in 256 bits. A value that is not finite makes the result NaN.
//!
//! Source: [Youngs & Cramer 1971], "Some results relevant to choice of sum and sum-of-product
//! algorithms", as PostgreSQL's `float8_accum` applies it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Float64Type, Int64Type, i256,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use halcyon_value::{ValueError, decimal};

use crate::sums::no_aggregate;
use halcyon_sql::diagnose::{external, out_of_range};

/// All of these functions.
pub fn all() -> impl Iterator<Item = Arc<AggregateUDF>> {
    const FUNCTIONS: [(&str, bool, bool); 6] = [
        ("var_pop", false, false),
        ("var_samp", true, false),
        ("variance", true, false),
        ("stddev_pop", false, true),
        ("stddev_samp", true, true),
        ("stddev", true, true),
    ];
    FUNCTIONS.into_iter().map(|(name, of_sample, root)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        let spread = Spread { name, of_sample, root };
        Arc::new(AggregateUDF::new_from_impl(Variance { spread, signature }))
    })
}

/// One of the functions: a measure of spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spread {
    name: &'static str,
    /// Whether the values are a sample: the divisor is one less than their number.
    of_sample: bool,
    /// Whether the result is a deviation: the root of the variance.
    root: bool,
}

impl Spread {
    /// The divisor of the sum of squares; `None` if there are too few values.
    fn divisor(self, count: i64) -> Option<i64> {
        let divisor = if self.of_sample { count - 1 } else { count };
        (divisor > 0).then_some(divisor)
    }
}

/// Places of a result, unless its argument has more.
const PLACES: i8 = 16;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Variance {
    spread: Spread,
    signature: Signature,
}

fn scale_of(ty: &DataType) -> i8 {
    match ty {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

impl AggregateUDFImpl for Variance {
    fn name(&self) -> &str {
        self.spread.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let ty = match types {
            [ty] => ty,
            _ => return Err(external(no_aggregate(self.name(), &DataType::Null))),
        };
        Ok(vec![match ty {
            DataType::UInt64 => DataType::Decimal128(20, 0),
            ty if ty.is_integer() => DataType::Int64,
            DataType::Decimal128(..) => ty.clone(),
            DataType::Decimal256(_, scale) => DataType::Decimal128(38, *scale),
            ty if ty.is_floating() || ty.is_null() => DataType::Float64,
            other => return Err(external(no_aggregate(self.name(), other))),
        }])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match &types[0] {
            DataType::Float64 => DataType::Float64,
            exact => DataType::Decimal128(38, PLACES.max(scale_of(exact))),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = args.expr_fields[0].data_type();
        if args.is_distinct {
            let message = format!("{}(DISTINCT …)", self.name());
            return Err(external(halcyon_sql::error::SqlError::unsupported(message)));
        }
        Ok(match ty {
            DataType::Float64 => Box::new(OfFloats { spread: self.spread, ..OfFloats::default() }),
            exact => Box::new(OfNumbers {
                spread: self.spread,
                scale: scale_of(exact),
                count: 0,
                sum: i256::ZERO,
                squares: i256::ZERO,
            }),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name, ty| Arc::new(Field::new(format_state_name(args.name, name), ty, false));
        let of = match args.input_fields[0].data_type() {
            DataType::Float64 => DataType::Float64,
            _ => DataType::Decimal256(76, 0),
        };
        let count = || field("count", DataType::Int64);
        let mut fields = vec![count(), field("sum", of.clone()), field("squares", of.clone())];
        if of == DataType::Float64 {
            fields.push(field("not finite", DataType::Int64));
        }
        Ok(fields)
    }
}

impl Default for Spread {
    fn default() -> Self {
        Spread { name: "var_pop", of_sample: false, root: false }
    }
}

/// The state over floats: their sum, and the sum of the squares of their distances from the mean.
#[derive(Debug, Default)]
struct OfFloats {
    spread: Spread,
    /// Number of finite values.
    count: i64,
    sum: f64,
    squares: f64,
    /// Number of infinities and NaNs.
    special: i64,
}

impl OfFloats {
    fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.special += 1;
            return;
        }
        self.count += 1;
        self.sum += value;
        if self.count > 1 {
            let (now, before) = (self.count as f64, (self.count - 1) as f64);
            let distance = value * now - self.sum;
            self.squares += distance * distance / (now * before);
        }
    }

    fn take_back(&mut self, value: f64) {
        if !value.is_finite() {
            self.special -= 1;
            return;
        }
        if self.count == 1 {
            (self.count, self.sum, self.squares) = (0, 0.0, 0.0);
            return;
        }
        let (now, after) = (self.count as f64, (self.count - 1) as f64);
        let distance = value * now - self.sum;
        self.squares = (self.squares - distance * distance / (now * after)).max(0.0);
        self.sum -= value;
        self.count -= 1;
    }

    fn merge(&mut self, count: i64, sum: f64, squares: f64) {
        if self.count > 0 && count > 0 {
            let (a, b) = (self.count as f64, count as f64);
            let distance = self.sum / a - sum / b;
            self.squares += squares + a * b * distance * distance / (a + b);
        } else {
            self.squares += squares;
        }
        self.count += count;
        self.sum += sum;
    }
}

impl Accumulator for OfFloats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().for_each(|value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.take_back(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [counts, specials] = [0, 3].map(|at| states[at].as_primitive::<Int64Type>());
        let [sums, squares] = [1, 2].map(|at| states[at].as_primitive::<Float64Type>());
        for row in 0..counts.len() {
            self.merge(counts.value(row), sums.value(row), squares.value(row));
            self.special += specials.value(row);
        }
        Ok(())
    }

    /// Errors: 22003 if the squares are too large.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(divisor) = self.spread.divisor(self.count + self.special) else {
            return Ok(ScalarValue::Float64(None));
        };
        if self.special > 0 {
            return Ok(ScalarValue::Float64(Some(f64::NAN)));
        }
        if !self.squares.is_finite() {
            return Err(external(ValueError::FloatOverflow.into()));
        }
        let variance = self.squares / divisor as f64;
        let value = if self.spread.root { variance.sqrt() } else { variance };
        Ok(ScalarValue::Float64(Some(value)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.count)),
            ScalarValue::Float64(Some(self.sum)),
            ScalarValue::Float64(Some(self.squares)),
            ScalarValue::Int64(Some(self.special)),
        ])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Sums of exact numbers and of their squares, unscaled.
#[derive(Debug)]
struct OfNumbers {
    spread: Spread,
    scale: i8,
    count: i64,
    sum: i256,
    squares: i256,
}

impl OfNumbers {
    fn change(&mut self, values: &ArrayRef, sign: i64) -> Result<()> {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = match values.data_type() {
                DataType::Int64 => i128::from(values.as_primitive::<Int64Type>().value(row)),
                _ => values.as_primitive::<Decimal128Type>().value(row),
            };
            let value = i256::from_i128(value);
            let (square, sign_wide) = (value.wrapping_mul(value), i256::from(sign));
            self.add(sign, value.wrapping_mul(sign_wide), square.wrapping_mul(sign_wide))?;
        }
        Ok(())
    }

    fn add(&mut self, count: i64, sum: i256, squares: i256) -> Result<()> {
        let far = || external(out_of_range("numeric"));
        self.count += count;
        self.sum = self.sum.checked_add(sum).ok_or_else(far)?;
        self.squares = self.squares.checked_add(squares).ok_or_else(far)?;
        Ok(())
    }

    /// The result with `places` digits behind the point. `None` if it does not fit.
    fn value(&self, divisor: i64, places: i8) -> Option<i128> {
        let count = i256::from(self.count);
        let spread =
            count.checked_mul(self.squares)?.checked_sub(self.sum.checked_mul(self.sum)?)?;
        let spread = if spread.is_negative() { i256::ZERO } else { spread };
        let by = count.checked_mul(i256::from(divisor))?;
        if !self.spread.root {
            return shifted(spread, i32::from(places) - 2 * i32::from(self.scale), by)?.to_i128();
        }
        // One digit more than needed, since the root is truncated.
        let digits = i32::from(places) + 1 - i32::from(self.scale);
        let square = shifted(spread, 2 * digits, by)?;
        let root = square_root(square).to_i128()?;
        Some((root + 5) / 10)
    }
}

/// `value · 10^digits / by`, halves rounded up; `value` must not be negative. `None` if the result
/// does not fit.
fn shifted(value: i256, digits: i32, by: i256) -> Option<i256> {
    let power = i256::from(10).checked_pow(digits.unsigned_abs())?;
    let (value, by) = match digits >= 0 {
        true => (value.checked_mul(power)?, by),
        false => (value, by.checked_mul(power)?),
    };
    value.checked_add(by.checked_div(i256::from(2))?)?.checked_div(by)
}

/// The root of a number that is not negative, truncated: Newton's method from above.
fn square_root(value: i256) -> i256 {
    if value <= i256::ONE {
        return value;
    }
    let bits = 256 - value.leading_zeros();
    let mut root = i256::ONE << (bits.div_ceil(2) as u8);
    loop {
        let quotient = value.checked_div(root).expect("roots are positive");
        let next = (root + quotient) >> 1;
        if next >= root {
            return root;
        }
        root = next;
    }
}

impl Accumulator for OfNumbers {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<Int64Type>();
        let [sums, squares] = [1, 2].map(|at| states[at].as_primitive::<Decimal256Type>());
        (0..counts.len())
            .try_for_each(|row| self.add(counts.value(row), sums.value(row), squares.value(row)))
    }

    /// Errors: 22003.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let places = PLACES.max(self.scale);
        let Some(divisor) = self.spread.divisor(self.count) else {
            return Ok(ScalarValue::Decimal128(None, 38, places));
        };
        let value = self.value(divisor, places);
        match value.filter(|value| decimal::fits(*value, decimal::DIGITS_MAX)) {
            Some(value) => Ok(ScalarValue::Decimal128(Some(value), 38, places)),
            None => Err(external(out_of_range("numeric"))),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.count)),
            ScalarValue::Decimal256(Some(self.sum), 76, 0),
            ScalarValue::Decimal256(Some(self.squares), 76, 0),
        ])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(name: &'static str, of_sample: bool, root: bool) -> Spread {
        Spread { name, of_sample, root }
    }

    fn exact(spread: Spread, values: &[i128]) -> Option<i128> {
        let (sum, squares) = (i256::ZERO, i256::ZERO);
        let mut of = OfNumbers { spread, scale: 0, count: 0, sum, squares };
        for value in values {
            of.add(1, i256::from_i128(*value), i256::from_i128(value * value)).expect("fits");
        }
        of.spread.divisor(of.count).map(|divisor| of.value(divisor, PLACES).expect("fits"))
    }

    #[test]
    fn exact_numbers_have_exact_spreads() {
        let values = [1, 2, 4];
        assert_eq!(exact(spread("var_pop", false, false), &values), Some(15_555_555_555_555_556));
        assert_eq!(exact(spread("var_samp", true, false), &values), Some(23_333_333_333_333_333));
        assert_eq!(exact(spread("stddev_pop", false, true), &values), Some(12_472_191_289_246_471));
        assert_eq!(exact(spread("stddev", true, true), &values), Some(15_275_252_316_519_467));
        assert_eq!(exact(spread("var_samp", true, false), &[7]), None);
        assert_eq!(exact(spread("var_pop", false, false), &[7]), Some(0));
    }

    #[test]
    fn roots_are_cut_off() {
        for value in [0, 1, 2, 3, 4, 8, 9, 15, 16, 17, 1_000_000, u64::MAX as i128] {
            let root = square_root(i256::from_i128(value)).to_i128().expect("small");
            assert!(root * root <= value && (root + 1) * (root + 1) > value, "{value}: {root}");
        }
    }

    #[test]
    fn floats_that_leave_a_window_are_forgotten() {
        let mut of = OfFloats { spread: spread("var_pop", false, false), ..OfFloats::default() };
        [1.0, f64::NAN, 2.0, 4.0].into_iter().for_each(|value| of.add(value));
        let shown = |of: &mut OfFloats| of.evaluate().expect("fits").to_string();
        assert_eq!(shown(&mut of), "NaN");
        of.take_back(f64::NAN);
        assert_eq!(shown(&mut of), "1.5555555555555556");
        let mut other = OfFloats { spread: spread("var_pop", false, false), ..OfFloats::default() };
        other.add(10.0);
        of.merge(other.count, other.sum, other.squares);
        of.take_back(10.0);
        assert!((of.squares / 3.0 - 14.0 / 9.0).abs() < 1e-12);
    }
}
