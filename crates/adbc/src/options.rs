//! Values of options.

use adbc_core::error::{Error, Status};
use adbc_core::options::OptionValue;
use halcyon::SqlState;

use crate::errors::{Result, invalid, own};

/// An option's text. Errors: invalid arguments for bytes and fractions.
pub fn text(name: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        OptionValue::Int(number) => Ok(number.to_string()),
        _ => Err(invalid(format!("invalid value for \"{name}\": a text is expected"))),
    }
}

/// An option that is `true` or `false`.
pub fn truth(name: &str, value: OptionValue) -> Result<bool> {
    let text = text(name, value)?;
    match text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(format!("invalid value for \"{name}\": \"{text}\""))),
    }
}

/// `true` or `false`.
pub fn truth_text(value: bool) -> String {
    if value { "true" } else { "false" }.to_owned()
}

/// The error for an option that cannot be set.
pub fn unknown(name: &str) -> Error {
    own(
        Status::NotImplemented,
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unknown option \"{name}\""),
    )
}

/// The error for an option that has no value, or none of the type asked for.
pub fn not_found(name: &str) -> Error {
    let message = format!("option \"{name}\" has no such value");
    Error::with_message_and_status(message, Status::NotFound)
}

/// The functions of `Optionable` besides the one for texts: a number is read from the text, bytes are the text's.
macro_rules! other_getters {
    ($option:ty) => {
        fn get_option_bytes(&self, key: $option) -> crate::errors::Result<Vec<u8>> {
            self.get_option_string(key).map(String::into_bytes)
        }

        fn get_option_int(&self, key: $option) -> crate::errors::Result<i64> {
            let name = key.as_ref().to_owned();
            self.get_option_string(key)?.parse().map_err(|_| crate::options::not_found(&name))
        }

        fn get_option_double(&self, key: $option) -> crate::errors::Result<f64> {
            let name = key.as_ref().to_owned();
            self.get_option_string(key)?.parse().map_err(|_| crate::options::not_found(&name))
        }
    };
}
pub(crate) use other_getters;
