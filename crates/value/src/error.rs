//! Errors of values: why an operation or a text gives no value.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// Result of computing or reading a value.
pub type Result<T, E = ValueError> = core::result::Result<T, E>;

/// Why an operation or a text gives no value. [`fmt::Display`] is PostgreSQL's message,
/// [`ValueError::state`] its SQLSTATE.
///
/// The size is three words: `Result<i64, ValueError>` is returned in memory, but arithmetic is
/// inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// The divisor is zero.
    DivisionByZero,
    /// A number does not fit the type of this name.
    OutOfRange(&'static str),
    /// A floating-point result is infinite although no operand was.
    FloatOverflow,
    /// A date or timestamp does not fit the type of this name.
    MomentOutOfRange(&'static str),
    /// A decimal has more digits before the point than its type.
    DecimalField {
        /// Number of digits.
        precision: u8,
        /// Number of digits after the point.
        scale: i8,
    },
    /// A length below zero was given to SUBSTRING.
    NegativeLength,
    /// The escape of LIKE or SIMILAR TO is longer than one character.
    EscapeLength,
    /// Values of these types do not have this operation: the plan is broken.
    Mismatch(&'static str),
    /// A text cannot be read as the type, or its value does not fit.
    Text(Box<TextError>),
    /// The function has no value for these arguments, as its row in the table says.
    Refused(&'static Refusal),
    /// An error whose message names a part of the arguments.
    Worded(Box<Worded>),
}

/// An error with a message of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worded {
    /// SQLSTATE of the error.
    pub state: [u8; 5],
    /// PostgreSQL's message.
    pub message: String,
    /// The detail line, if there is one.
    pub detail: Option<String>,
    /// The hint line, if there is one.
    pub hint: Option<String>,
}

/// An error that only some functions have; it stands beside their rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE of the error.
    pub state: [u8; 5],
    /// PostgreSQL's message.
    pub message: &'static str,
}

/// An error about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The problem.
    pub problem: TextProblem,
    /// PostgreSQL's name of the type to be read.
    pub ty: &'static str,
    /// The text, or the part of it that is wrong.
    pub text: String,
}

/// Problems of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextProblem {
    /// The text is no value of the type.
    Syntax,
    /// The text is no date, time, timestamp or interval.
    MomentSyntax,
    /// An integer is out of the type's range.
    IntegerRange,
    /// A floating-point number is out of the type's range.
    FloatRange,
    /// A number is NaN or infinite, which a decimal cannot be.
    NotFinite {
        /// Number of digits.
        precision: u8,
        /// Number of digits after the point.
        scale: i8,
    },
    /// A field of a date or time is out of its range, such as a 13th month.
    FieldRange,
    /// A date or timestamp is out of the type's range.
    MomentRange,
    /// A field of an interval is too large.
    IntervalRange,
    /// A date or timestamp is infinite, which the types here cannot be.
    Infinite,
    /// The number of hexadecimal digits is odd.
    OddHex,
    /// A character is no hexadecimal digit.
    HexDigit,
    /// The type has no field of this name.
    Field,
}

impl ValueError {
    /// An error with a message of its own.
    #[cold]
    pub fn worded(state: &[u8; 5], message: String) -> Self {
        ValueError::Worded(Box::new(Worded { state: *state, message, detail: None, hint: None }))
    }

    /// The error of a text.
    #[cold]
    pub fn text(problem: TextProblem, ty: &'static str, text: &str) -> Self {
        ValueError::Text(Box::new(TextError { problem, ty, text: text.into() }))
    }

    /// SQLSTATE of the error.
    pub fn state(&self) -> [u8; 5] {
        *match self {
            ValueError::DivisionByZero => b"22012",
            ValueError::OutOfRange("interval") => b"22008",
            ValueError::OutOfRange(_)
            | ValueError::FloatOverflow
            | ValueError::DecimalField { .. } => b"22003",
            ValueError::MomentOutOfRange(_) => b"22008",
            ValueError::NegativeLength => b"22011",
            ValueError::EscapeLength => b"22025",
            ValueError::Mismatch(_) => b"42883",
            ValueError::Text(text) => text.problem.state(),
            ValueError::Refused(refusal) => &refusal.state,
            ValueError::Worded(error) => &error.state,
        }
    }

    /// The detail line of the error, if it has one.
    pub fn detail(&self) -> Option<String> {
        let (precision, scale) = match self {
            ValueError::DecimalField { precision, scale } => (precision, scale),
            ValueError::Worded(error) => return error.detail.clone(),
            _ => return None,
        };
        let digits = i32::from(*precision) - i32::from(*scale);
        let limit = match digits {
            0 => "1".into(),
            digits => alloc::format!("10^{digits}"),
        };
        Some(alloc::format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less \
             than {limit}."
        ))
    }

    /// The hint line of the error, if it has one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            ValueError::EscapeLength => Some("Escape string must be empty or one character."),
            ValueError::Worded(error) => error.hint.as_deref(),
            _ => None,
        }
    }
}

impl TextProblem {
    fn state(self) -> &'static [u8; 5] {
        match self {
            TextProblem::Syntax => b"22P02",
            TextProblem::MomentSyntax => b"22007",
            TextProblem::IntegerRange | TextProblem::FloatRange | TextProblem::NotFinite { .. } => {
                b"22003"
            }
            TextProblem::FieldRange | TextProblem::MomentRange => b"22008",
            TextProblem::IntervalRange => b"22015",
            TextProblem::Infinite => b"0A000",
            TextProblem::OddHex | TextProblem::HexDigit | TextProblem::Field => b"22023",
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::DivisionByZero => f.write_str("division by zero"),
            ValueError::OutOfRange(ty) | ValueError::MomentOutOfRange(ty) => {
                write!(f, "{ty} out of range")
            }
            ValueError::FloatOverflow => f.write_str("value out of range: overflow"),
            ValueError::DecimalField { .. } => f.write_str("numeric field overflow"),
            ValueError::NegativeLength => f.write_str("negative substring length not allowed"),
            ValueError::EscapeLength => f.write_str("invalid escape string"),
            ValueError::Mismatch(what) => write!(f, "{what} does not take these arguments"),
            ValueError::Text(error) => error.fmt(f),
            ValueError::Refused(refusal) => f.write_str(refusal.message),
            ValueError::Worded(error) => f.write_str(&error.message),
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextError { problem, ty, text } = self;
        match problem {
            TextProblem::Syntax | TextProblem::MomentSyntax => {
                write!(f, "invalid input syntax for type {ty}: \"{text}\"")
            }
            TextProblem::IntegerRange => {
                write!(f, "value \"{text}\" is out of range for type {ty}")
            }
            TextProblem::FloatRange => write!(f, "\"{text}\" is out of range for type {ty}"),
            TextProblem::NotFinite { precision, scale } => {
                write!(f, "numeric({precision},{scale}) cannot hold \"{text}\"")
            }
            TextProblem::FieldRange => {
                write!(f, "date/time field value out of range: \"{text}\"")
            }
            TextProblem::MomentRange => write!(f, "{ty} out of range: \"{text}\""),
            TextProblem::IntervalRange => {
                write!(f, "interval field value out of range: \"{text}\"")
            }
            TextProblem::Infinite => write!(f, "an infinite {ty} is not supported"),
            TextProblem::OddHex => f.write_str("invalid hexadecimal data: odd number of digits"),
            TextProblem::HexDigit => write!(f, "invalid hexadecimal digit: \"{text}\""),
            TextProblem::Field => {
                write!(f, "unit \"{text}\" not recognized or not possible for this type")
            }
        }
    }
}

impl core::error::Error for ValueError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn messages_are_those_of_postgresql() {
        let field = ValueError::DecimalField { precision: 4, scale: 2 };
        assert_eq!(field.to_string(), "numeric field overflow");
        let detail =
            "A field with precision 4, scale 2 must round to an absolute value less than 10^2.";
        assert_eq!(field.detail().as_deref(), Some(detail));
        let all_behind = ValueError::DecimalField { precision: 2, scale: 2 };
        assert!(all_behind.detail().is_some_and(|detail| detail.ends_with("less than 1.")));
        assert_eq!(ValueError::OutOfRange("bigint").to_string(), "bigint out of range");
        let date = ValueError::text(TextProblem::MomentSyntax, "date", "x");
        assert_eq!(date.to_string(), "invalid input syntax for type date: \"x\"");
        assert!(ValueError::EscapeLength.hint().is_some() && date.hint().is_none());
    }
}
