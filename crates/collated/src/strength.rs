//! Which collation an expression has, and how strongly.

use std::sync::Arc;

use datafusion::common::Result;
use halcyon_collations::{BUILT_IN_SCHEMA, Collation};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

/// The collation of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is no text, or a text whose collation was lost below.
    None,
    /// From a column or a type; `None` is the default.
    Implicit(Option<Arc<Collation>>),
    /// Two of columns that exclude each other: an error where an order is asked for.
    Conflict(Arc<Collation>, Arc<Collation>),
    /// From COLLATE.
    Explicit(Arc<Collation>),
}

impl State {
    /// The collation of an expression of two others. Errors: 42P21 for two of COLLATE.
    pub(crate) fn with(self, other: State) -> Result<State> {
        use State::{Conflict, Explicit, Implicit};
        Ok(match (self, other) {
            (Explicit(left), Explicit(right)) if left != right => {
                return Err(external(mismatch("explicit", &left, &right)));
            }
            (own @ Explicit(_), _) | (_, own @ Explicit(_)) => own,
            (own @ Conflict(..), _) | (_, own @ Conflict(..)) => own,
            (State::None, other) | (other, State::None) => other,
            (Implicit(None), other) | (other, Implicit(None)) => other,
            (Implicit(Some(left)), Implicit(Some(right))) => match left == right {
                true => Implicit(Some(left)),
                false => Conflict(left, right),
            },
        })
    }

    /// The collation of an expression of several others.
    pub(crate) fn of_all(states: impl IntoIterator<Item = State>) -> Result<State> {
        states.into_iter().try_fold(State::None, State::with)
    }

    /// The collation of a column of a query whose expression this is.
    pub(crate) fn of_output(self) -> State {
        match self {
            State::Explicit(own) => State::Implicit(plain(own)),
            State::Conflict(..) => State::None,
            other => other,
        }
    }

    /// The locale whose order texts have; `None`: that of bytes. `what` is what asks, as an error tells it.
    ///
    /// Errors: 42P22 if there is no telling.
    pub(crate) fn locale(&self, what: &str) -> Result<Option<String>> {
        match self {
            State::Implicit(None) => Ok(None),
            State::Implicit(Some(own)) | State::Explicit(own) => Ok(own.locale.clone()),
            State::None | State::Conflict(..) => {
                let message = format!("could not determine which collation to use for {what}");
                Err(external(
                    SqlError::new(SqlState::INDETERMINATE_COLLATION, message)
                        .hint("Use the COLLATE clause to set the collation explicitly."),
                ))
            }
        }
    }

    /// Errors: 42P21 for what a query is sorted by, if there is no telling.
    pub(crate) fn is_no_conflict(&self) -> Result<()> {
        match self {
            State::Conflict(left, right) => {
                let hint = "You can choose the collation by applying the COLLATE clause to one or \
                            both expressions.";
                Err(external(mismatch("implicit", left, right).hint(hint)))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn into_column(self) -> Option<Arc<Collation>> {
        match self {
            State::Implicit(own) => own,
            State::Explicit(own) => plain(own),
            State::None | State::Conflict(..) => None,
        }
    }
}

/// A collation of COLLATE as that of a column; `None` for the default one.
fn plain(own: Arc<Collation>) -> Option<Arc<Collation>> {
    let is_default = own.schema == BUILT_IN_SCHEMA && own.name == "default";
    (!is_default).then_some(own)
}

/// 42P21 with PostgreSQL's words.
fn mismatch(kind: &str, left: &Collation, right: &Collation) -> SqlError {
    SqlError::new(
        SqlState::COLLATION_MISMATCH,
        format!(
            "collation mismatch between {kind} collations \"{}\" and \"{}\"",
            left.name, right.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arc<Collation> {
        let (schema, name) = (BUILT_IN_SCHEMA.to_owned(), name.to_owned());
        let locale = name.strip_suffix("-x-icu").map(str::to_owned);
        Arc::new(Collation { schema, name, locale })
    }

    #[test]
    fn the_stronger_collation_holds_and_equals_exclude_each_other() {
        let (sv, de) = (named("sv-x-icu"), named("de-x-icu"));
        let column = |own: &Arc<Collation>| State::Implicit(Some(Arc::clone(own)));
        let plain = State::Implicit(None);
        let of = |left: &State, right: &State| left.clone().with(right.clone());
        assert_eq!(of(&plain, &column(&sv)).unwrap(), column(&sv));
        assert_eq!(of(&State::None, &plain).unwrap(), plain);
        let conflict = of(&column(&sv), &column(&de)).unwrap();
        assert!(conflict.locale("string comparison").is_err());
        let explicit = State::Explicit(Arc::clone(&de));
        assert_eq!(of(&conflict, &explicit).unwrap(), explicit);
        assert_eq!(explicit.locale("").unwrap().as_deref(), Some("de"));
        assert!(of(&explicit, &State::Explicit(sv)).is_err());
        assert_eq!(State::Explicit(named("default")).of_output(), plain);
    }
}
