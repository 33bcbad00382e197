//! Functions whose meaning depends on the session's time zone: `to_char` and `age` of TIMESTAMPTZ,
//! `to_timestamp` by a pattern, `make_timestamptz`.
//!
//! A call is planned without a zone; pass 5 of `semantics` (`plan`) puts the session's in. Views refuse
//! the functions: a view has no session.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::coerce::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::is_zoned_moment;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, shown_type, value_at};
use halcyon_store::{Interval, ValueRef};
use halcyon_value::ValueError;
use halcyon_value::calendar::shift;
use halcyon_value::functions::{age, make};
use halcyon_value::pattern::moment::{self, ShownZone};
use halcyon_value::pattern::reading;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    ToChar,
    Age,
    ToTimestamp,
    MakeTimestamp,
    Plus,
    Minus,
}

const KINDS: [Kind; 6] =
    [Kind::ToChar, Kind::Age, Kind::ToTimestamp, Kind::MakeTimestamp, Kind::Plus, Kind::Minus];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::ToChar => "to_char_zoned",
            Kind::Age => "age_zoned",
            Kind::ToTimestamp => "to_timestamp_by_pattern",
            Kind::MakeTimestamp => "make_timestamptz",
            Kind::Plus => "moment\u{1}plus",
            Kind::Minus => "moment\u{1}minus",
        }
    }

    /// The name by which statements call the function.
    fn called(self) -> &'static str {
        match self {
            Kind::ToChar => "to_char",
            Kind::Age => "age",
            Kind::ToTimestamp => "to_timestamp",
            Kind::MakeTimestamp => "make_timestamptz",
            Kind::Plus => "+",
            Kind::Minus => "-",
        }
    }

    fn purpose(self) -> &'static str {
        match self {
            Kind::ToChar => "The moment written by a pattern, in the session's zone.",
            Kind::Age => "From the second moment to the first, in years, months, days and a rest.",
            Kind::ToTimestamp => "The moment that a text says, read by a pattern.",
            Kind::MakeTimestamp => {
                "The moment of a year, month, day, hour, minute and second, and a zone."
            }
            Kind::Plus | Kind::Minus => "The moment moved by months, days and a rest.",
        }
    }

    fn types(self) -> Vec<DataType> {
        let (text, moment) = (SqlType::Text.arrow(), SqlType::TimestampTz.arrow());
        let (integer, double) = (SqlType::Integer.arrow(), SqlType::Double.arrow());
        match self {
            Kind::ToChar => vec![moment, text],
            Kind::Age => vec![moment.clone(), moment],
            Kind::Plus | Kind::Minus => vec![moment, SqlType::Interval.arrow()],
            Kind::ToTimestamp => vec![text.clone(), text],
            Kind::MakeTimestamp => {
                let mut types = vec![integer; 5];
                types.extend([double, text]);
                types
            }
        }
    }

    fn result(self) -> SqlType {
        match self {
            Kind::ToChar => SqlType::Text,
            Kind::Age => SqlType::Interval,
            Kind::ToTimestamp | Kind::MakeTimestamp | Kind::Plus | Kind::Minus => {
                SqlType::TimestampTz
            }
        }
    }
}

/// Name, arguments and purpose of each function that statements call by name, for the guide.
pub fn shown() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let called = KINDS.into_iter().filter(|kind| !matches!(kind, Kind::Plus | Kind::Minus));
    called.map(|kind| {
        let types: Vec<String> = kind.types().iter().map(shown_type).collect();
        (kind.called(), types.join(", "), kind.purpose())
    })
}

/// The functions without a zone, to be registered.
pub fn all() -> impl Iterator<Item = Arc<ScalarUDF>> {
    KINDS.into_iter().map(|kind| Arc::new(function(kind, None)))
}

fn function(kind: Kind, zone: Option<&str>) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(Zoned { kind, zone: zone.map(str::to_owned), signature })
}

/// A moment with a zone plus an interval, or minus, in a session's zone. `args`: the two.
pub fn plus(args: Vec<Expr>, subtract: bool, zone: &str) -> Expr {
    let kind = if subtract { Kind::Minus } else { Kind::Plus };
    function(kind, Some(zone)).call(args)
}

/// The types to which a call's arguments are converted. `None` if the function is none of these.
pub fn argument_types(name: &str, count: usize) -> Option<Vec<DataType>> {
    let kind = KINDS.into_iter().find(|kind| kind.name() == name)?;
    let mut types = kind.types();
    types.truncate(count);
    Some(types)
}

/// The function for a call of `to_char` or `age` with a TIMESTAMPTZ.
pub fn instead_of(name: &str, args: &[DataType]) -> Option<ScalarUDF> {
    let has_zone = args.iter().any(is_zoned_moment);
    let kind = [Kind::ToChar, Kind::Age].into_iter().find(|kind| kind.called() == name)?;
    has_zone.then(|| function(kind, None))
}

/// Whether a function of this name takes TIMESTAMPTZ too.
pub fn has_twin(name: &str) -> bool {
    matches!(name, "to_char" | "age")
}

/// A call with the session's zone.
pub fn with_zone(call: ScalarFunction, zone: &str) -> Expr {
    let kind = KINDS.into_iter().find(|kind| kind.name() == call.func.name());
    match kind {
        Some(kind) => function(kind, Some(zone)).call(call.args),
        None => Expr::ScalarFunction(call),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Zoned {
    kind: Kind,
    /// The session's zone.
    zone: Option<String>,
    signature: Signature,
}

impl ScalarUDFImpl for Zoned {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        let mut types = self.kind.types();
        let least = if self.kind == Kind::MakeTimestamp { 6 } else { types.len() };
        if args.len() < least || args.len() > types.len() {
            let shown: Vec<String> = args.iter().map(shown_type).collect();
            let message =
                format!("function {}({}) does not exist", self.kind.called(), shown.join(", "));
            return Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)));
        }
        types.truncate(args.len());
        Ok(types)
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.kind.result().arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let zone = TimeZone::parse(self.zone.as_deref().unwrap_or("UTC")).map_err(external)?;
        let rows = arrays[0].len();
        let mut writer = ArrayWriter::new(self.kind.result(), rows);
        for row in 0..rows {
            let values: Vec<ValueRef<'_>> = (arrays.iter())
                .map(|array| value_at(array.as_ref(), row).unwrap_or(ValueRef::Null))
                .collect();
            let pushed = match values.iter().any(ValueRef::is_null) {
                true => writer.push(ValueRef::Null),
                false => self.push(&values, &zone, &mut writer),
            };
            pushed.map_err(external)?;
        }
        let array = writer.finish();
        if is_scalar {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

impl Zoned {
    /// Evaluates one call.
    fn push(&self, args: &[ValueRef<'_>], zone: &TimeZone, out: &mut ArrayWriter) -> Result<()> {
        let far = || SqlError::from(ValueError::MomentOutOfRange("timestamp"));
        let to_utc = |zone: &TimeZone, us| zone.to_utc(us).ok_or_else(far);
        match (self.kind, args) {
            (Kind::ToChar, [ValueRef::TimestampTz(us), ValueRef::Text(pattern)]) => {
                let local = zone.to_local(*us).ok_or_else(far)?;
                let name = zone.abbreviation_at(*us);
                let shown = ShownZone { name: &name, offset: zone.offset_at(*us) };
                let mut text = String::new();
                let written = moment::write_timestamp(local, shown, pattern, &mut text)?;
                out.push(if written { ValueRef::Text(&text) } else { ValueRef::Null })
            }
            (Kind::Age, [ValueRef::TimestampTz(left), ValueRef::TimestampTz(right)]) => {
                let local = |us| zone.to_local(us).ok_or_else(far);
                out.push(ValueRef::Interval(age::between(local(*left)?, local(*right)?)?))
            }
            (
                kind @ (Kind::Plus | Kind::Minus),
                [ValueRef::TimestampTz(us), ValueRef::Interval(by)],
            ) => {
                let subtract = kind == Kind::Minus;
                let Interval { months, days, nanos } = *by;
                let mut us = *us;
                if months != 0 || days != 0 {
                    let local = zone.to_local(us).ok_or_else(far)?;
                    let on_clock = Interval { months, days, nanos: 0 };
                    us = to_utc(zone, shift(local, on_clock, subtract)?)?;
                }
                let rest = Interval { months: 0, days: 0, nanos };
                out.push(ValueRef::TimestampTz(shift(us, rest, subtract)?))
            }
            (Kind::ToTimestamp, [ValueRef::Text(text), ValueRef::Text(pattern)]) => {
                let read = reading::read(text, pattern)?;
                let own = read.offset.map(TimeZone::Fixed);
                let us = to_utc(own.as_ref().unwrap_or(zone), read.local_us()?)?;
                out.push(ValueRef::TimestampTz(us))
            }
            (Kind::MakeTimestamp, args) => {
                let own = match args.get(6) {
                    Some(ValueRef::Text(zone)) => Some(TimeZone::parse(zone)?),
                    _ => None,
                };
                let local = make::timestamp_of(&args[..6])?;
                out.push(ValueRef::TimestampTz(to_utc(own.as_ref().unwrap_or(zone), local)?))
            }
            _ => out.push(ValueRef::Null),
        }
    }
}
