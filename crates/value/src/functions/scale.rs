//! `scale` and `min_scale`: digits behind a decimal's point.

use super::ArgumentKind::Exact;
use super::{Answer, Function, Gives, takes};
use crate::decimal;
use crate::types::Type;
use crate::value::ValueRef;

const INTEGER: Gives = Gives::Type(Type::Int32);

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["scale"],
        "How many digits behind the point the decimal is shown with.",
        takes(&[Exact]),
        INTEGER,
        |args, _| {
            let (_, scale) = decimal::shown(args.decimal(0)?, args.precision(0), args.scale(0));
            Ok(Answer::Value(ValueRef::Int32(scale.max(0).into())))
        },
    ),
    Function::new(
        &["min_scale"],
        "How many digits behind the point the decimal needs.",
        takes(&[Exact]),
        INTEGER,
        |args, _| {
            let (_, scale) = decimal::without_zeros(args.decimal(0)?, args.scale(0).max(0));
            Ok(Answer::Value(ValueRef::Int32(scale.into())))
        },
    ),
];
