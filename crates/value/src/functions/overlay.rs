//! `overlay`: a part of a text replaced.

use super::ArgumentKind::{BigInt, Text};
use super::{Answer, Function, Gives, at_least, put};
use crate::error::ValueError;
use crate::text;
use crate::types::Type;

pub(super) static FUNCTIONS: &[Function] = &[Function::new(
    &["overlay"],
    "The text with so many characters from one on replaced by another text.",
    at_least(1, &[Text, Text, BigInt, BigInt]),
    Gives::Type(Type::Text),
    |args, out| {
        let (whole, part, start) = (args.text(0)?, args.text(1)?, args.integer(2)?);
        let count = if args.has(3) { args.integer(3)? } else { text::length(part) };
        if start <= 0 {
            return Err(ValueError::NegativeLength);
        }
        let rest = start.checked_add(count).ok_or(ValueError::OutOfRange("integer"))?;
        put(out, text::substr(whole, 1, Some(start - 1))?);
        put(out, part);
        put(out, text::substr(whole, rest, None)?);
        Ok(Answer::Written)
    },
)];
