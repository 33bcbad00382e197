//! Upper and lower case where a language has its own: Turkish and Azerbaijani, whose `i` keeps its dot.
//!
//! Lithuanian, which keeps dots below accents, is written as other languages are here.

/// Whether the language of a locale has letters with cases of their own.
pub fn is_special(locale: &str) -> bool {
    let language = locale.split(['-', '_', '@']).next().unwrap_or_default();
    ["tr", "az"].iter().any(|special| language.eq_ignore_ascii_case(special))
}

/// The text in lower case, as a locale writes it.
pub fn lower(text: &str, locale: &str) -> String {
    match is_special(locale) {
        // `I` with a dot above, in one character or two, is the one with a dot.
        true => text
            .replace("I\u{307}", "i")
            .replace('\u{130}', "i")
            .replace('I', "\u{131}")
            .to_lowercase(),
        false => text.to_lowercase(),
    }
}

/// The text in upper case, as a locale writes it.
pub fn upper(text: &str, locale: &str) -> String {
    match is_special(locale) {
        true => text.replace('i', "\u{130}").to_uppercase(),
        false => text.to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turkish_i_keeps_its_dot() {
        assert_eq!(lower("DIŞ İL", "tr"), "dış il");
        assert_eq!(upper("ısı iyi", "az-Latn"), "ISI İYİ");
        assert_eq!((lower("DIŞ", "sv"), upper("iß", "de")), ("diş".to_owned(), "ISS".to_owned()));
    }
}
