//! Collations: their names, and the order of texts in each of them.
//!
//! A text has a *key* in a collation, and keys compare as bytes do ([`Order::key`]). So whatever sorts or compares
//! in a language does what it does for `bytea`, and no executor, index or file knows of collations.
//!
//! Words: a collation by *bytes* (`C`, `POSIX`, `default`, `ucs_basic`) needs no key; one of a *locale* has the
//! order that CLDR gives a language, as ICU has it.
//! Invariants, checked by `keys_hold_their_texts_and_tell_all_texts_apart`: two texts have the same key only if they
//! are the same bytes, and [`text_of_key`] gives the text of a key.
//! Cost: a key takes about a microsecond for a word; it is some three times as long as its text.
//! Source: [UTS 10](https://www.unicode.org/reports/tr10/) by `icu_collator`; PostgreSQL's names for the locales.

#![forbid(unsafe_code)]

pub mod casing;
mod keys;
mod locale;
mod names;
mod normal_forms;

pub use keys::text_of_key;
pub use names::{BUILT_IN_SCHEMA, Builtin, builtin, builtins};
pub use normal_forms::NormalForm;

use serde::{Deserialize, Serialize};

/// A collation under its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Collation {
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// The locale whose order it is; `None`: texts are ordered by their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
}

/// The key in the metadata of an Arrow field under which a column's collation stands, as [`Collation::spelled`] has
/// it. Columns of the default collation have none.
pub const FIELD_KEY: &str = "collation";

/// What separates the parts of [`Collation::spelled`].
const SEPARATOR: char = '\u{1f}';

impl Collation {
    /// All of it as one text.
    pub fn spelled(&self) -> String {
        let locale = self.locale.as_deref().unwrap_or_default();
        [&self.schema, &self.name, locale].join(&SEPARATOR.to_string())
    }

    /// A collation by what [`Collation::spelled`] made of it; `None` for other texts.
    pub fn of_spelled(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR).map(str::to_owned);
        let (schema, name, locale) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Collation { schema, name, locale: (!locale.is_empty()).then_some(locale) })
    }

    /// Whether texts are ordered by their bytes.
    pub fn is_by_bytes(&self) -> bool {
        self.locale.is_none()
    }
}

/// Why a locale has no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocaleError {
    /// The text names no locale.
    Malformed,
    /// The order is asked for with a setting that is not known here, which this is.
    Unsupported(String),
}

/// The order of a locale.
pub struct Order(icu_collator::CollatorBorrowed<'static>);

impl Order {
    /// The order of this locale: BCP 47 (`de-u-co-phonebk`) or ICU's older form (`de@collation=phonebook`).
    ///
    /// A language that is not known has the order of all languages together, as in ICU.
    pub fn of(locale: &str) -> Result<Order, LocaleError> {
        locale::collator(locale).map(Order)
    }

    /// The key of a text.
    pub fn key(&self, text: &str) -> Vec<u8> {
        keys::key(&self.0, text)
    }
}

/// Runs `work` with the order of a locale, which this thread keeps once it has been asked for it.
///
/// Errors: those of [`Order::of`].
pub fn with_order<T>(locale: &str, work: impl FnOnce(&Order) -> T) -> Result<T, LocaleError> {
    use std::cell::RefCell;
    use std::rc::Rc;
    thread_local! {
        /// The orders asked for last; a statement has one or two.
        static KNOWN: RefCell<Vec<(String, Rc<Order>)>> = const { RefCell::new(Vec::new()) };
    }
    const KNOWN_MAX: usize = 8;
    let known = KNOWN.with_borrow(|known| {
        known.iter().find(|(name, _)| name == locale).map(|(_, order)| Rc::clone(order))
    });
    let order = match known {
        Some(order) => order,
        None => {
            let order = Rc::new(Order::of(locale)?);
            KNOWN.with_borrow_mut(|known| {
                known.truncate(KNOWN_MAX - 1);
                known.insert(0, (locale.to_owned(), Rc::clone(&order)));
            });
            order
        }
    };
    Ok(work(&order))
}
