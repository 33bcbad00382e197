//! Parameters that have more digits than the NUMERIC values beside them.
//!
//! A parameter without a type has that of what stands beside it. Of a NUMERIC(10, 2) (`price >= $1`) that would be two
//! places, and 1.50001 would look for 1.50: PostgreSQL's numbers have digits each, ours have them by type. A value that needs
//! more therefore has the statement planned for it ([`Session::with_digits_of`]); the plans stay in the cache, one per
//! number of places. Values that programs give unscaled ([`Value::Decimal`]) have the parameter's places by definition.

use halcyon_sql::coerce::arrays;
use halcyon_sql::error::Result;
use halcyon_sql::types::SqlType;
use halcyon_store::Value;
use halcyon_value::decimal::{self, DIGITS_MAX};

use crate::session::Session;
use crate::statement::Statement;

impl Session {
    /// The statement with types that hold these values, which are as clients send them: numbers as texts. `None` if
    /// the statement's own types do.
    ///
    /// Errors: those of planning the statement.
    pub fn with_digits_of(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Option<Statement>> {
        let wider = statement.types_for(values);
        wider.map(|types| self.prepare_passing(statement.text(), &types)).transpose()
    }
}

impl Statement {
    /// Types of parameters that hold these values; `None` if the statement's own do.
    fn types_for(&self, values: &[Value]) -> Option<Vec<Option<SqlType>>> {
        let prepared = self.prepared();
        let own = &prepared.params;
        let mut types = None;
        for (at, (value, ty)) in values.iter().zip(own).enumerate() {
            let Value::Text(text) = value else { continue };
            if let Some(wider) = type_for(text, *ty) {
                let types = types.get_or_insert_with(|| {
                    let mut types = self.types.clone();
                    types.resize(own.len(), None);
                    types
                });
                types[at] = Some(wider);
            }
        }
        types
    }
}

/// The NUMERIC type that holds the number in a text, or an array's numbers; `None` if type `ty` does, or none would.
pub(crate) fn type_for(text: &str, ty: SqlType) -> Option<SqlType> {
    match (ty, ty.element()) {
        (SqlType::Decimal { precision, scale }, _) => {
            let (whole, places) = decimal::digits(text)?;
            let own = (u32::from(precision).checked_add_signed(-i32::from(scale))?, scale);
            type_of(whole, places, own)
        }
        (_, Some(item @ SqlType::Decimal { .. })) => {
            let widened = |item, element: Option<String>| {
                element.and_then(|element| type_for(&element, item)).unwrap_or(item)
            };
            let wider = arrays::parse(text).ok()?.into_iter().fold(item, widened);
            (wider != item).then(|| wider.array_of())?
        }
        _ => None,
    }
}

/// The type with as many digits before and after the point; `own`: those that there are.
fn type_of(whole: u32, places: u32, own: (u32, i8)) -> Option<SqlType> {
    let most = u32::from(DIGITS_MAX);
    let (own_whole, scale) = (own.0, u32::try_from(own.1).unwrap_or(0));
    if whole <= own_whole && places <= scale {
        return None;
    }
    let room = most.checked_sub(whole)?;
    let scale = if places > room { return None } else { places.max(scale).min(room) };
    Some(SqlType::Decimal { precision: DIGITS_MAX, scale: i8::try_from(scale).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(precision: u8, scale: i8) -> SqlType {
        SqlType::Decimal { precision, scale }
    }

    #[test]
    fn a_type_holds_what_it_is_for() {
        for (text, own, expected) in [
            ("1.5", numeric(10, 2), None),
            ("1.50", numeric(10, 2), None),
            ("1.500", numeric(10, 2), None),
            ("12345678", numeric(10, 2), None),
            ("123456789", numeric(10, 2), Some(numeric(38, 2))),
            ("1.501", numeric(10, 2), Some(numeric(38, 3))),
            ("1.00000000001", numeric(10, 2), Some(numeric(38, 11))),
            ("1.00000000001", numeric(38, 10), Some(numeric(38, 11))),
            ("12345678901234567890123456789.5", numeric(10, 2), Some(numeric(38, 2))),
            // No type of ours has 41 digits.
            ("12345678901234567890123456789012345678.123", numeric(10, 2), None),
            ("NaN", numeric(10, 2), None),
            ("no number", numeric(10, 2), None),
            ("1.501", SqlType::Integer, None),
        ] {
            assert_eq!(type_for(text, own), expected, "{text}");
        }
        let array = |ty: SqlType| ty.array_of().unwrap();
        assert_eq!(type_for("{1.5,NULL}", array(numeric(10, 2))), None);
        let wider = Some(array(numeric(38, 11)));
        assert_eq!(type_for("{1.5,NULL,1.00000000001,2.501}", array(numeric(10, 2))), wider);
    }
}
