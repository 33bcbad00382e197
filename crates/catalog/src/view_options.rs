//! The options of a view: what stands in `WITH (…)` before its query, and WITH CHECK OPTION behind it.

use halcyon_sql::error::{Result, SqlError, SqlState};
use serde::{Deserialize, Serialize};

/// Options of a view as `pg_class.reloptions` shows them, in the order in which they were given: names, which are those
/// of PostgreSQL, with valid values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ViewOptions(Vec<(String, String)>);

/// WITH CHECK OPTION: which conditions a row has to satisfy that is written through a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// The view's own.
    Local,
    /// The view's, and those of all views that it stands on.
    Cascaded,
}

impl CheckOption {
    /// The word for it, in capitals.
    pub fn word(self) -> &'static str {
        match self {
            CheckOption::Local => "LOCAL",
            CheckOption::Cascaded => "CASCADED",
        }
    }
}

impl ViewOptions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// WITH CHECK OPTION, if the view has it.
    pub fn check_option(&self) -> Option<CheckOption> {
        match self.value("check_option")? {
            "local" => Some(CheckOption::Local),
            _ => Some(CheckOption::Cascaded),
        }
    }

    /// Whether what the view reads and writes is read and written with the rights of the one who asks, not of the
    /// view's owner.
    pub fn is_security_invoker(&self) -> bool {
        self.value("security_invoker").and_then(boolean) == Some(true)
    }

    /// Gives an option a value, or another one.
    ///
    /// Errors: 22023 for a name that no option has, and for a value that the option cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let value = match name {
            "check_option" => {
                let small = value.to_lowercase();
                if small != "local" && small != "cascaded" {
                    let message = format!("invalid value for enum option \"{name}\": {value}");
                    return Err(bad(message).detail("Valid values are \"local\" and \"cascaded\"."));
                }
                small
            }
            "security_barrier" | "security_invoker" => match boolean(value) {
                Some(_) => value.to_lowercase(),
                None => {
                    return Err(bad(format!(
                        "invalid value for boolean option \"{name}\": {value}"
                    )));
                }
            },
            _ => return Err(bad(format!("unrecognized parameter \"{name}\""))),
        };
        // An option that is set again stands last, as in PostgreSQL.
        self.reset(name);
        self.0.push((name.to_owned(), value));
        Ok(())
    }

    /// Takes an option away, if it is there.
    pub fn reset(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// A truth value as PostgreSQL reads it: any beginning of these words that means one of them alone.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_names_and_values_of_postgresql() {
        let mut options = ViewOptions::default();
        options.set("check_option", "LOCAL").unwrap();
        options.set("security_invoker", "Yes").unwrap();
        options.set("check_option", "cascaded").unwrap();
        let all: Vec<_> = options.iter().collect();
        assert_eq!(all, [("security_invoker", "yes"), ("check_option", "cascaded")]);
        assert_eq!(options.check_option(), Some(CheckOption::Cascaded));
        assert!(options.is_security_invoker());
        options.reset("security_invoker");
        assert!(!options.is_security_invoker());
        for (name, value) in [("check_option", "x"), ("security_barrier", "3"), ("other", "on")] {
            let error = options.set(name, value).unwrap_err();
            assert_eq!(error.state(), SqlState::INVALID_PARAMETER_VALUE);
        }
    }
}
