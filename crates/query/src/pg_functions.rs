//! PostgreSQL's functions of strings, numbers and dates that DataFusion lacks.
//!
//! They work value by value: none of them stands in the inner loop of a benchmark. NULL in any
//! argument gives NULL.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_store::ValueRef;
use halcyon_value::calendar::{Field, Moment, midnight};
use halcyon_value::{TextProblem, ValueError, like};

use crate::coerce::zone::TimeZone;
use crate::diagnose::external;
use crate::error::{Result, SqlError, SqlState};
use crate::types::SqlType;
use crate::values::{ArrayWriter, value_at};

/// All of them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    DEFINITIONS
        .iter()
        .map(|definition| Arc::new(ScalarUDF::new_from_impl(PgFunction::new(definition))))
        .collect()
}

/// What an argument is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Takes {
    Text,
    BigInt,
    /// DATE, TIME, TIMESTAMP, TIMESTAMPTZ or INTERVAL, as it is.
    Moment,
}

/// The type of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gives {
    Fixed(SqlType),
    /// TIMESTAMPTZ for TIMESTAMP as second argument, and the other way round.
    OtherZone,
}

type Eval = fn(&[ValueRef<'_>], &mut ArrayWriter) -> Result<()>;

/// A function: adding a row here is all that it takes for point plans and analytics; a view takes
/// calls whose arguments are constants.
#[derive(Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it gives: one sentence, for the guide.
    pub purpose: &'static str,
    takes: &'static [Takes],
    /// Arguments that may be left out.
    optional: usize,
    gives: Gives,
    eval: Eval,
}

const FRACTION: SqlType = SqlType::Decimal { precision: 24, scale: 6 };

/// All of them.
pub const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "like_escape",
        purpose: "The pattern of LIKE with backslash in place of another escape character.",
        takes: &[Takes::Text, Takes::Text],
        optional: 0,
        gives: Gives::Fixed(SqlType::Text),
        eval: like_escape,
    },
    Definition {
        name: "similar_to_escape",
        purpose: "The regular expression for a pattern of SIMILAR TO.",
        takes: &[Takes::Text, Takes::Text],
        optional: 1,
        gives: Gives::Fixed(SqlType::Text),
        eval: similar_to_escape,
    },
    Definition {
        name: "extract_fraction",
        purpose: "A field of a moment that has decimals: second, millisecond, microsecond, epoch, julian.",
        takes: &[Takes::Text, Takes::Moment],
        optional: 0,
        gives: Gives::Fixed(FRACTION),
        eval: extract_fraction,
    },
    Definition {
        name: "extract_whole",
        purpose: "A field of a moment that is whole: dow, doy, decade, century and the like.",
        takes: &[Takes::Text, Takes::Moment],
        optional: 0,
        gives: Gives::Fixed(SqlType::Integer),
        eval: extract_whole,
    },
    Definition {
        name: "timezone",
        purpose: "A moment in a time zone, as AT TIME ZONE.",
        takes: &[Takes::Text, Takes::Moment],
        optional: 0,
        gives: Gives::OtherZone,
        eval: timezone,
    },
    Definition {
        name: "bitwise_not",
        purpose: "The bits of an integer inverted, as `~`.",
        takes: &[Takes::BigInt],
        optional: 0,
        gives: Gives::Fixed(SqlType::BigInt),
        eval: bitwise_not,
    },
];

#[derive(Debug)]
struct PgFunction {
    definition: &'static Definition,
    signature: Signature,
}

impl PartialEq for PgFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for PgFunction {}

impl std::hash::Hash for PgFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl PgFunction {
    fn new(definition: &'static Definition) -> Self {
        PgFunction { definition, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn does_not_exist(&self, args: &[DataType]) -> SqlError {
        let shown = |ty: &DataType| {
            crate::values::sql_type_of_arrow(ty).map_or_else(|| ty.to_string(), |ty| ty.to_string())
        };
        let args: Vec<String> = args.iter().map(shown).collect();
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {}({}) does not exist", self.definition.name, args.join(", ")),
        )
        .detail(format!("{} gives: {}", self.definition.name, self.definition.purpose))
    }
}

impl ScalarUDFImpl for PgFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        let takes = self.definition.takes;
        if args.len() > takes.len() || args.len() + self.definition.optional < takes.len() {
            return Err(external(self.does_not_exist(args)));
        }
        args.iter()
            .zip(takes)
            .map(|(ty, takes)| match takes {
                Takes::Text if ty.is_string() || ty.is_null() => Ok(DataType::Utf8View),
                Takes::BigInt if ty.is_integer() || ty.is_null() => Ok(DataType::Int64),
                Takes::Moment if ty.is_temporal() => Ok(ty.clone()),
                Takes::Moment if ty.is_null() => Ok(SqlType::Timestamp.arrow()),
                _ => Err(external(self.does_not_exist(args))),
            })
            .collect()
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(self.result(args).arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().map_or(args.number_rows, |array| array.len());
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let mut writer = ArrayWriter::new(self.result(&types), rows);
        for row in 0..rows {
            let cells: Option<Vec<ValueRef<'_>>> = arrays
                .iter()
                .map(|array| value_at(array.as_ref(), row).filter(|cell| !cell.is_null()))
                .collect();
            match cells {
                Some(cells) => (self.definition.eval)(&cells, &mut writer),
                None => writer.push(ValueRef::Null),
            }
            .map_err(external)?;
        }
        let array = writer.finish();
        if is_scalar {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

impl PgFunction {
    fn result(&self, args: &[DataType]) -> SqlType {
        match (self.definition.gives, args.get(1)) {
            (Gives::Fixed(ty), _) => ty,
            (Gives::OtherZone, Some(DataType::Timestamp(_, Some(_)))) => SqlType::Timestamp,
            (Gives::OtherZone, _) => SqlType::TimestampTz,
        }
    }
}

fn escape_of(cell: Option<&ValueRef<'_>>) -> Result<Option<char>> {
    let Some(ValueRef::Text(text)) = cell else { return Ok(Some('\\')) };
    Ok(like::escape_of(text)?)
}

/// The pattern with backslash in place of another escape character.
fn like_escape(cells: &[ValueRef<'_>], out: &mut ArrayWriter) -> Result<()> {
    let ValueRef::Text(pattern) = cells[0] else { return out.push(ValueRef::Null) };
    let escape = escape_of(cells.get(1))?;
    out.push(ValueRef::Text(&like::with_backslashes(pattern, escape)))
}

/// A regular expression for a pattern of SIMILAR TO.
fn similar_to_escape(cells: &[ValueRef<'_>], out: &mut ArrayWriter) -> Result<()> {
    let ValueRef::Text(pattern) = cells[0] else { return out.push(ValueRef::Null) };
    let escape = escape_of(cells.get(1))?;
    out.push(ValueRef::Text(&like::similar_to(pattern, escape)))
}

fn no_unit(field: &str) -> SqlError {
    ValueError::text(TextProblem::Field, "timestamp", field).into()
}

/// Seconds, their parts, and the epoch, in millionths.
fn extract_fraction(cells: &[ValueRef<'_>], out: &mut ArrayWriter) -> Result<()> {
    let ValueRef::Text(name) = cells[0] else { return out.push(ValueRef::Null) };
    let fields = Field::from_name(name).zip(Moment::of(cells[1]));
    let value = fields.and_then(|(field, moment)| moment.fraction(field));
    out.push(ValueRef::Decimal(value.ok_or_else(|| no_unit(name))?))
}

fn extract_whole(cells: &[ValueRef<'_>], out: &mut ArrayWriter) -> Result<()> {
    let ValueRef::Text(name) = cells[0] else { return out.push(ValueRef::Null) };
    let fields = Field::from_name(name).zip(Moment::of(cells[1]));
    let value = fields.and_then(|(field, moment)| moment.whole(field));
    out.push(ValueRef::Int32(value.ok_or_else(|| no_unit(name))? as i32))
}

/// `timestamp AT TIME ZONE zone`.
fn timezone(cells: &[ValueRef<'_>], out: &mut ArrayWriter) -> Result<()> {
    let ValueRef::Text(zone) = cells[0] else { return out.push(ValueRef::Null) };
    let zone = TimeZone::parse(zone)?;
    let far = || SqlError::from(ValueError::MomentOutOfRange("timestamp"));
    let value = match cells[1] {
        ValueRef::TimestampTz(us) => ValueRef::Timestamp(zone.to_local(us).ok_or_else(far)?),
        ValueRef::Timestamp(us) => ValueRef::TimestampTz(zone.to_utc(us).ok_or_else(far)?),
        ValueRef::Date(day) => {
            ValueRef::TimestampTz(zone.to_utc(midnight(day.into())?).ok_or_else(far)?)
        }
        _ => return Err(no_unit("timezone")),
    };
    out.push(value)
}

fn bitwise_not(cells: &[ValueRef<'_>], out: &mut ArrayWriter) -> Result<()> {
    match cells[0] {
        ValueRef::Int64(value) => out.push(ValueRef::Int64(!value)),
        _ => out.push(ValueRef::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(eval: Eval, cells: &[ValueRef<'_>]) -> Result<String> {
        let mut out = ArrayWriter::new(SqlType::Text, 1);
        eval(cells, &mut out)?;
        let array = out.finish();
        match value_at(array.as_ref(), 0) {
            Some(ValueRef::Text(text)) => Ok(text.to_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn patterns_are_translated() {
        let two = |a, b| text(like_escape, &[ValueRef::Text(a), ValueRef::Text(b)]);
        assert_eq!(two("a!%\\", "!").expect("one character"), "a\\%\\\\");
        assert_eq!(two("a%", "").expect("no escape"), "a%");
        assert!(two("a", "xy").is_err());
        let similar = |a| text(similar_to_escape, &[ValueRef::Text(a)]).expect("a pattern");
        assert_eq!(similar("(a|b)%_.[^.]\\%"), "^(?:(a|b)(?s:.*)(?s:.)\\.[^.]\\%)$");
    }

    #[test]
    fn fields_of_moments() {
        let whole = |field, days| {
            let mut out = ArrayWriter::new(SqlType::Integer, 1);
            extract_whole(&[ValueRef::Text(field), ValueRef::Date(days)], &mut out).expect(field);
            match value_at(out.finish().as_ref(), 0) {
                Some(ValueRef::Int32(value)) => value,
                other => panic!("{other:?}"),
            }
        };
        // 1970-01-01 was a Thursday.
        assert_eq!((whole("dow", 0), whole("isodow", 3), whole("isoyear", -1)), (4, 7, 1970));
        assert_eq!((whole("century", 0), whole("decade", 0), whole("millennium", 0)), (20, 197, 2));
        assert_eq!(whole("doy", 31), 32);
    }
}
