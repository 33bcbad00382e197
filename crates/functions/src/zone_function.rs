//! `timezone`, the function of AT TIME ZONE: the one function of its arguments that is not in the
//! table of `halcyon_value`, which knows no time zones.

use arrow::array::Array;
use arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::coerce::zone::{TimeZone, posix_offset};
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::is_day_or_moment;
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::misfits::no_function;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, shown_type, value_at};
use halcyon_store::ValueRef;
use halcyon_value::ValueError;
use halcyon_value::abbreviations;

/// The function's name.
pub const NAME: &str = "timezone";
/// Kinds of the arguments, for the guide.
pub const TAKES: &str = "text, date or timestamp";
/// Purpose of the function, for the guide.
pub const PURPOSE: &str = "A moment in a time zone, as AT TIME ZONE.";

/// The function, to be registered.
pub fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(ZoneFunction {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ZoneFunction {
    signature: Signature,
}

/// TIMESTAMPTZ for a moment without a zone, and the other way round. A day is a moment with one before it is moved.
fn result(moment: &DataType) -> SqlType {
    match moment {
        DataType::Timestamp(_, Some(_)) | DataType::Date32 => SqlType::Timestamp,
        _ => SqlType::TimestampTz,
    }
}

fn does_not_exist(args: &[DataType]) -> SqlError {
    no_function(NAME, &args.iter().map(shown_type).collect::<Vec<_>>())
}

impl ScalarUDFImpl for ZoneFunction {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, args: &[DataType]) -> DfResult<Vec<DataType>> {
        match args {
            [zone, moment] if zone.is_string() || zone.is_null() => {
                let moment = match moment {
                    ty if ty.is_null() => SqlType::Timestamp.arrow(),
                    ty if is_day_or_moment(ty) => moment.clone(),
                    _ => return Err(external(does_not_exist(args))),
                };
                Ok(vec![DataType::Utf8View, moment])
            }
            _ => Err(external(does_not_exist(args))),
        }
    }

    fn return_type(&self, args: &[DataType]) -> DfResult<DataType> {
        Ok(result(&args[1]).arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [zones, moments] = &arrays[..] else { return Err(external(does_not_exist(&[]))) };
        let mut writer = ArrayWriter::new(result(moments.data_type()), zones.len());
        // Mostly all rows have one zone.
        let mut last: Option<(&str, TimeZone)> = None;
        for row in 0..zones.len() {
            let moment = value_at(moments, row).unwrap_or(ValueRef::Null);
            let Some(ValueRef::Text(name)) = value_at(zones, row) else {
                writer.push(ValueRef::Null).map_err(external)?;
                continue;
            };
            let zone = match last.take() {
                Some((known, zone)) if known == name => zone,
                _ => zone_of(name).map_err(external)?,
            };
            let moved = in_zone(&zone, moment).and_then(|moved| writer.push(moved));
            moved.map_err(external)?;
            last = Some((name, zone));
        }
        let array = writer.finish();
        if is_scalar {
            return ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// What begins the name of a zone whose offset, if the name is one, is counted to the east.
pub const EASTWARDS: char = '\u{1}';

/// The zone that AT TIME ZONE names: an offset, with or without letters before it, is one to the west, as POSIX
/// has it; an abbreviation stands for one offset. Errors: 22023.
fn zone_of(name: &str) -> Result<TimeZone> {
    if let Some(name) = name.strip_prefix(EASTWARDS) {
        return TimeZone::parse(name);
    }
    let seconds_east =
        abbreviations::offset_of(name).or_else(|| posix_offset(name).map(|west| -west));
    seconds_east.map(TimeZone::Fixed).map_or_else(|| TimeZone::parse(name), Ok)
}

/// `moment AT TIME ZONE zone`; NULL if the moment is.
fn in_zone(zone: &TimeZone, moment: ValueRef<'_>) -> Result<ValueRef<'static>> {
    let far = || SqlError::from(ValueError::MomentOutOfRange("timestamp"));
    let to_utc = |us| zone.to_utc(us).ok_or_else(far).map(ValueRef::TimestampTz);
    match moment {
        ValueRef::TimestampTz(us) => zone.to_local(us).ok_or_else(far).map(ValueRef::Timestamp),
        ValueRef::Timestamp(us) => to_utc(us),
        _ => Ok(ValueRef::Null),
    }
}
