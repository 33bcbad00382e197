//! Functions with a typed form.

use halcyon_value::calendar::Field as Part;

use crate::execution::Reading;

/// A function with a typed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Function {
    /// `||`: NULL if either side is.
    Concat,
    /// `concat`: NULLs left out.
    ConcatSkip,
    Lower,
    Upper,
    /// Length in characters.
    Length,
    OctetLength,
    Substr,
    Left,
    Right,
    Trim,
    TrimStart,
    TrimEnd,
    Replace,
    Position,
    StartsWith,
    Abs,
    Floor,
    Ceil,
    Greatest,
    Least,
    Coalesce,
    NullIf,
    /// A function of the clock.
    Clock(Reading),
    /// `date_part`, EXTRACT.
    Extract(Part),
    /// `date_trunc`.
    Truncate(Part),
}

impl Function {
    /// The name shown by EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            Function::Concat => "textcat",
            Function::ConcatSkip => "concat",
            Function::Lower => "lower",
            Function::Upper => "upper",
            Function::Length => "length",
            Function::OctetLength => "octet_length",
            Function::Substr => "substr",
            Function::Left => "left",
            Function::Right => "right",
            Function::Trim => "btrim",
            Function::TrimStart => "ltrim",
            Function::TrimEnd => "rtrim",
            Function::Replace => "replace",
            Function::Position => "strpos",
            Function::StartsWith => "starts_with",
            Function::Abs => "abs",
            Function::Floor => "floor",
            Function::Ceil => "ceil",
            Function::Greatest => "greatest",
            Function::Least => "least",
            Function::Coalesce => "coalesce",
            Function::NullIf => "nullif",
            Function::Clock(reading) => reading.name(),
            Function::Extract(_) => "date_part",
            Function::Truncate(_) => "date_trunc",
        }
    }
}
