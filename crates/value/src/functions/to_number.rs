//! `to_number`: a text read by a pattern.

use super::ArgumentKind::Text;
use super::{Answer, Function, Gives, takes};
use crate::pattern::number;
use crate::types::Type;
use crate::value::ValueRef;

/// Places of the result. Where the pattern is a constant, the planner keeps those of the pattern.
pub(super) const PLACES: i8 = 18;

pub(super) static FUNCTIONS: &[Function] = &[Function::new(
    &["to_number"],
    "The number that a text says, read by a pattern.",
    takes(&[Text, Text]),
    Gives::Type(Type::Decimal { precision: 38, scale: PLACES }),
    |args, _| {
        let read = number::read(args.text(0)?, args.text(1)?, PLACES)?;
        Ok(Answer::Value(read.map_or(ValueRef::Null, ValueRef::Decimal)))
    },
)];
