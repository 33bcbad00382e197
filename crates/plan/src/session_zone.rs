//! Moments with a time zone in the session's zone: fields and truncation are those of the clock that the session
//! sees, and days and months are counted on it.
//!
//! DataFusion reckons in UTC. In other zones `date_trunc` and EXTRACT get the local moment, and sums with intervals
//! become a function that knows the zone ([`zoned::plus`]). In UTC plans stay as they are.
//! Source: PostgreSQL, "Date/Time Functions and Operators".

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use arrow::datatypes::DataType;
use halcyon_functions::{nested, zoned};
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::enums::is_zoned_moment;

use halcyon_functions::zone_function;

/// Fields of a moment that are the same in every zone.
const ABSOLUTE: [&str; 4] = ["epoch", "timezone", "timezone_hour", "timezone_minute"];

fn is_utc(zone: &str) -> Result<bool> {
    TimeZone::parse(zone).map(|zone| zone == TimeZone::UTC).map_err(external)
}

/// `moment AT TIME ZONE zone`, for the session's zone.
fn in_zone(moment: Expr, zone: &str) -> Expr {
    let zone = format!("{}{zone}", zone_function::EASTWARDS);
    let zone = Expr::Literal(ScalarValue::Utf8View(Some(zone)), None);
    zone_function::function().call(vec![zone, moment])
}

/// A call in the session's zone.
pub(crate) fn call(mut call: ScalarFunction, schema: &DFSchema, zone: &str) -> Result<Expr> {
    if call.func.name() == "array_to_string"
        && let Some(list) = call.args.first_mut()
    {
        let ty = list.get_type(schema)?;
        *list = nested::with_texts(std::mem::take(list), &ty, zone);
    }
    let truncates = call.func.name() == "date_trunc";
    let takes_apart =
        matches!(call.func.name(), "date_part" | "extract_whole" | "extract_fraction");
    let is_of_moment = (truncates || takes_apart) && call.args.len() == 2;
    if !is_of_moment || !is_zoned_moment(&call.args[1].get_type(schema)?) || is_utc(zone)? {
        return Ok(zoned::with_zone(call, zone));
    }
    let is_absolute = match &call.args[0] {
        Expr::Literal(field, _) => field
            .try_as_str()
            .flatten()
            .is_some_and(|field| ABSOLUTE.iter().any(|name| name.eq_ignore_ascii_case(field))),
        _ => false,
    };
    if is_absolute {
        return Ok(Expr::ScalarFunction(call));
    }
    call.args[1] = in_zone(std::mem::take(&mut call.args[1]), zone);
    let local = Expr::ScalarFunction(call);
    Ok(if truncates { in_zone(local, zone) } else { local })
}

/// A sum or difference of a moment and an interval in the session's zone; `None` for other operators and types.
pub(crate) fn sum(binary: &BinaryExpr, schema: &DFSchema, zone: &str) -> Result<Option<Expr>> {
    let subtract = match binary.op {
        Operator::Plus => false,
        Operator::Minus => true,
        _ => return Ok(None),
    };
    let (left, right) = (binary.left.get_type(schema)?, binary.right.get_type(schema)?);
    let is_sum = is_zoned_moment(&left) && matches!(right, DataType::Interval(_));
    if !is_sum || is_utc(zone)? {
        return Ok(None);
    }
    let args = vec![binary.left.as_ref().clone(), binary.right.as_ref().clone()];
    Ok(Some(zoned::plus(args, subtract, zone)))
}
