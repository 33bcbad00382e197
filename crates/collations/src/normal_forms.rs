//! Normal forms of Unicode: spellings of a text that say the same.
//!
//! Source: [UAX 15](https://www.unicode.org/reports/tr15/) by `icu_normalizer`.

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// A normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalForm {
    /// Canonical composition.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatible composition.
    Nfkc,
    /// Compatible decomposition.
    Nfkd,
}

impl NormalForm {
    /// The form of a name in upper or lower case.
    pub fn of_name(name: &str) -> Option<NormalForm> {
        Some(match name.to_ascii_lowercase().as_str() {
            "nfc" => NormalForm::Nfc,
            "nfd" => NormalForm::Nfd,
            "nfkc" => NormalForm::Nfkc,
            "nfkd" => NormalForm::Nfkd,
            _ => return None,
        })
    }

    /// The text in this form.
    pub fn of(self, text: &str) -> Cow<'_, str> {
        match self {
            NormalForm::Nfc => ComposingNormalizerBorrowed::new_nfc().normalize(text),
            NormalForm::Nfkc => ComposingNormalizerBorrowed::new_nfkc().normalize(text),
            NormalForm::Nfd => DecomposingNormalizerBorrowed::new_nfd().normalize(text),
            NormalForm::Nfkd => DecomposingNormalizerBorrowed::new_nfkd().normalize(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_those_of_unicode() {
        let all = ["nfc", "NFD", "Nfkc", "nfkd"].map(|name| NormalForm::of_name(name).expect(name));
        let text = "a\u{308}\u{24d1}c";
        let formed = all.map(|form| form.of(text).into_owned());
        assert_eq!(formed, ["\u{e4}\u{24d1}c", text, "\u{e4}bc", "a\u{308}bc"]);
        for form in all {
            assert_eq!(form.of("abc"), "abc");
        }
        assert_eq!(NormalForm::of_name("def"), None);
    }
}
