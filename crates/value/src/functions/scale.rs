//! `scale` and `min_scale`: digits behind a decimal's point.

use super::ArgumentKind::Exact;
use super::{Answer, Function, Gives, takes};
use crate::types::Type;
use crate::value::ValueRef;

const INTEGER: Gives = Gives::Type(Type::Int32);

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["scale"],
        "How many digits the decimal's type has behind the point.",
        takes(&[Exact]),
        INTEGER,
        |args, _| Ok(Answer::Value(ValueRef::Int32(args.scale(0).max(0).into()))),
    ),
    Function::new(
        &["min_scale"],
        "How many digits behind the point the decimal needs.",
        takes(&[Exact]),
        INTEGER,
        |args, _| {
            let (mut value, mut scale) = (args.decimal(0)?, args.scale(0).max(0));
            while scale > 0 && value % 10 == 0 {
                (value, scale) = (value / 10, scale - 1);
            }
            Ok(Answer::Value(ValueRef::Int32(scale.into())))
        },
    ),
];
