//! `to_date`: a text read by a pattern.

use super::ArgumentKind::Text;
use super::{Answer, Function, Gives, takes};
use crate::error::{TextProblem, ValueError};
use crate::pattern::reading;
use crate::types::Type;
use crate::value::ValueRef;

pub(super) static FUNCTIONS: &[Function] = &[Function::new(
    &["to_date"],
    "The date that a text says, read by a pattern.",
    takes(&[Text, Text]),
    Gives::Type(Type::Date),
    |args, _| {
        let read = reading::read(args.text(0)?, args.text(1)?)?;
        let far =
            |_| ValueError::text(TextProblem::MomentRange, "date", args.text(0).unwrap_or(""));
        Ok(Answer::Value(ValueRef::Date(i32::try_from(read.day).map_err(far)?)))
    },
)];
