//! Fields of moments that EXTRACT and `date_part` are asked for, where the moment's type has none of the name.
//!
//! Source: PostgreSQL 15, "EXTRACT, date_part". A date has no hours and no zone, a time of day no days, a moment
//! without a zone none; `date_part` of a date, though, is that of the day's midnight.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable};
use halcyon_sql::enums::{is_moment, is_zoned_moment};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::shown_type;
use halcyon_value::calendar::{Field, OF_FUNCTION};

use super::table_functions;

/// The call with a field that the moment's type has; else a call that raises 0A000 for every moment but NULL. Other calls
/// are as they were.
pub fn settled(mut call: ScalarFunction, schema: &DFSchema) -> Result<ScalarFunction> {
    if !matches!(call.func.name(), "date_part" | "extract_whole" | "extract_fraction") {
        return Ok(call);
    }
    let [field, moment] = call.args.as_mut_slice() else { return Ok(call) };
    let Some(written) = quoted(field).map(str::to_owned) else { return Ok(call) };
    let name = written.trim_end_matches(OF_FUNCTION);
    let is_function = name.len() < written.len();
    if is_function {
        *field = text(name);
    }
    let ty = moment.get_type(schema)?;
    let Some(known) = Field::from_name(name).filter(|_| quoted(moment).is_none()) else {
        return Ok(call);
    };
    // DataFusion knows no quarters of spans.
    if known == Field::Quarter && matches!(ty, DataType::Interval(_)) {
        call.func = table_functions::of_name("extract_whole").expect("a function of the table");
        return Ok(call);
    }
    if has(&ty, known) {
        return Ok(call);
    }
    if is_function && ty == DataType::Date32 {
        let day = Box::new(std::mem::take(moment));
        *moment = Expr::Cast(Cast::new(day, SqlType::Timestamp.arrow()));
        return Ok(call);
    }
    let message = format!("unit \"{name}\" not supported for type {}", shown_type(&ty));
    let args = vec![text(&message), std::mem::take(moment)];
    let func = table_functions::of_name("extract_refused").expect("a function of the table");
    Ok(ScalarFunction { func, args })
}

/// The text of a constant in quotes.
fn quoted(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn text(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None)
}

/// Whether the values of a type have a field; of what is no moment nothing is said.
fn has(ty: &DataType, field: Field) -> bool {
    use Field::{
        DayOfWeek, DayOfYear, Epoch, Hour, IsoDayOfWeek, IsoYear, Julian, Microsecond, Millisecond,
        Minute, Second, Week, Zone,
    };
    match ty {
        DataType::Date32 => {
            !matches!(field, Hour | Minute | Second | Millisecond | Microsecond | Zone)
        }
        DataType::Time64(_) => {
            matches!(field, Hour | Minute | Second | Millisecond | Microsecond | Epoch)
        }
        DataType::Interval(_) => {
            !matches!(field, Week | DayOfWeek | IsoDayOfWeek | DayOfYear | IsoYear | Julian | Zone)
        }
        ty if is_moment(ty) && !is_zoned_moment(ty) => field != Zone,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_moments_has_the_fields_that_postgresql_gives_to_it() {
        let all = [
            "year",
            "quarter",
            "month",
            "week",
            "day",
            "hour",
            "minute",
            "second",
            "dow",
            "doy",
            "epoch",
            "millisecond",
            "microsecond",
            "julian",
            "isodow",
            "isoyear",
            "decade",
            "century",
            "millennium",
            "timezone",
        ];
        let lacks = |ty: SqlType| -> Vec<&str> {
            let field = |name: &&str| Field::from_name(name).expect("a field");
            all.into_iter().filter(|name| !has(&ty.arrow(), field(name))).collect()
        };
        let of_day = ["hour", "minute", "second", "millisecond", "microsecond", "timezone"];
        assert_eq!(lacks(SqlType::Date), of_day);
        assert_eq!(lacks(SqlType::Timestamp), ["timezone"]);
        assert!(lacks(SqlType::TimestampTz).is_empty());
        let of_span = ["week", "dow", "doy", "julian", "isodow", "isoyear", "timezone"];
        assert_eq!(lacks(SqlType::Interval), of_span);
        let time: Vec<_> = all
            .into_iter()
            .filter(|name| {
                !["hour", "minute", "second", "epoch", "millisecond", "microsecond"].contains(name)
            })
            .collect();
        assert_eq!(lacks(SqlType::Time), time);
    }
}
