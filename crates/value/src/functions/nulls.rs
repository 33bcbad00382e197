//! `num_nulls` and `num_nonnulls`: how many arguments are NULL.

use super::ArgumentKind::Each;
use super::{Answer, Args, Function, Gives, any_number};
use crate::error::Result;
use crate::types::Type;
use crate::value::ValueRef;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["num_nulls"],
        "How many arguments are NULL.",
        any_number(&[Each]),
        Gives::Type(Type::Int32),
        |args, _| count(args, true),
    )
    .of_null(),
    Function::new(
        &["num_nonnulls"],
        "How many arguments are not NULL.",
        any_number(&[Each]),
        Gives::Type(Type::Int32),
        |args, _| count(args, false),
    )
    .of_null(),
];

fn count<'a>(args: &Args<'_, 'a>, nulls: bool) -> Result<Answer<'a>> {
    let count = args.values().iter().filter(|value| value.is_null() == nulls).count();
    Ok(Answer::Value(ValueRef::Int32(count as i32)))
}
