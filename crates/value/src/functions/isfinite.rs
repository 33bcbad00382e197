//! `isfinite`: whether a moment is one, which all moments here are.

use super::ArgumentKind::Moment;
use super::{Answer, Function, Gives, takes};
use crate::types::Type;
use crate::value::ValueRef;

pub(super) static FUNCTIONS: &[Function] = &[Function::new(
    &["isfinite"],
    "True: no moment and no interval is infinite.",
    takes(&[Moment]),
    Gives::Type(Type::Bool),
    |_, _| Ok(Answer::Value(ValueRef::Bool(true))),
)];
