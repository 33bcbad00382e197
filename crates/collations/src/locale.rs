//! Names of locales, with the settings of an order that they may carry.

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use crate::LocaleError;

/// The collator of a locale.
pub(crate) fn collator(name: &str) -> Result<CollatorBorrowed<'static>, LocaleError> {
    let locale = parsed(name)?;
    let mut options = CollatorOptions::default();
    for (key, value) in locale.extensions.unicode.keywords.iter() {
        set(&mut options, key.as_str(), &value.to_string())?;
    }
    let preferences = CollatorPreferences::from(&locale);
    icu_collator::Collator::try_new(preferences, options).map_err(|_| LocaleError::Malformed)
}

/// Takes over a setting that the library does not take from a locale itself.
fn set(options: &mut CollatorOptions, key: &str, value: &str) -> Result<(), LocaleError> {
    let unsupported = || LocaleError::Unsupported(format!("{key}-{value}"));
    match (key, value) {
        ("ks", "level1") => options.strength = Some(Strength::Primary),
        ("ks", "level2") => options.strength = Some(Strength::Secondary),
        ("ks", "level3") => options.strength = Some(Strength::Tertiary),
        ("ks", "level4") => options.strength = Some(Strength::Quaternary),
        ("ks", "identic") => options.strength = Some(Strength::Identical),
        ("ka", "noignore") => options.alternate_handling = Some(AlternateHandling::NonIgnorable),
        ("ka", "shifted") => options.alternate_handling = Some(AlternateHandling::Shifted),
        ("kc", "" | "true") => options.case_level = Some(CaseLevel::On),
        ("kc", "false") => options.case_level = Some(CaseLevel::Off),
        ("kv", "space") => options.max_variable = Some(MaxVariable::Space),
        ("kv", "punct") => options.max_variable = Some(MaxVariable::Punctuation),
        ("kv", "symbol") => options.max_variable = Some(MaxVariable::Symbol),
        ("kv", "currency") => options.max_variable = Some(MaxVariable::Currency),
        // Texts are compared in their normal forms anyhow.
        ("kk", _) | ("kb", "false") => {}
        ("kb" | "kr" | "kh" | "vt" | "ks" | "ka" | "kc" | "kv", _) => return Err(unsupported()),
        // Those that the library takes, and those of other things than orders.
        _ => {}
    }
    Ok(())
}

/// A locale's name in either form.
fn parsed(name: &str) -> Result<Locale, LocaleError> {
    let (base, keywords) = name.split_once('@').unwrap_or((name, ""));
    let base = base.split('.').next().unwrap_or_default().replace('_', "-");
    let mut tag = match base.as_str() {
        "" | "root" => "und".to_owned(),
        _ => base,
    };
    let keywords = keywords.split(';').filter(|keyword| !keyword.is_empty());
    for (at, keyword) in keywords.enumerate() {
        if at == 0 {
            tag.push_str("-u");
        }
        tag.push_str(&subtag(keyword)?);
    }
    Locale::try_from_str(&tag).map_err(|_| LocaleError::Malformed)
}

/// The subtag of BCP 47 for a keyword of ICU's older form, with a hyphen before it.
fn subtag(keyword: &str) -> Result<String, LocaleError> {
    let unsupported = || LocaleError::Unsupported(keyword.to_owned());
    let (key, value) = keyword.split_once('=').ok_or_else(unsupported)?;
    let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_ascii_lowercase());
    let (key, value) = match (key.as_str(), value.as_str()) {
        ("collation", "dictionary") => ("co", "dict"),
        ("collation", "gb2312han") => ("co", "gb2312"),
        ("collation", "phonebook") => ("co", "phonebk"),
        ("collation", "traditional") => ("co", "trad"),
        ("collation", other) => ("co", other),
        ("colnumeric", "yes") => ("kn", "true"),
        ("colnumeric", "no") => ("kn", "false"),
        ("colcasefirst", "no") => ("kf", "false"),
        ("colcasefirst", other) => ("kf", other),
        ("colcaselevel", "yes") => ("kc", "true"),
        ("colcaselevel", "no") => ("kc", "false"),
        ("colalternate", "shifted") => ("ka", "shifted"),
        ("colalternate", "non-ignorable") => ("ka", "noignore"),
        ("colstrength", "primary" | "1") => ("ks", "level1"),
        ("colstrength", "secondary" | "2") => ("ks", "level2"),
        ("colstrength", "tertiary" | "3") => ("ks", "level3"),
        ("colstrength", "quaternary" | "4") => ("ks", "level4"),
        ("colstrength", "identical" | "i") => ("ks", "identic"),
        _ => return Err(unsupported()),
    };
    Ok(format!("-{key}-{value}"))
}

#[cfg(test)]
mod tests {
    use crate::{LocaleError, Order};

    #[test]
    fn settings_of_an_order_are_taken_from_its_name() {
        let is_less = |locale: &str, left: &str, right: &str| {
            let order = Order::of(locale).unwrap_or_else(|error| panic!("{locale}: {error:?}"));
            order.key(left) < order.key(right)
        };
        assert!(is_less("und", "a10", "a2") && is_less("und-u-kn", "a2", "a10"));
        assert!(is_less("en@colNumeric=yes", "a2", "a10"));
        assert!(is_less("und", "a", "A") && is_less("und-u-kf-upper", "A", "a"));
        assert!(is_less("de", "ä", "ad") && is_less("de@collation=phonebook", "ad", "ä"));
        assert!(is_less("de_DE.UTF-8", "ä", "z") && is_less("zz-unknown", "ä", "z"));
        assert!(is_less("und-u-ka-shifted", "ab", "a c") && is_less("und", "a c", "ab"));
        assert_eq!(
            Order::of("en-u-kr-latn").err(),
            Some(LocaleError::Unsupported("kr-latn".into()))
        );
        assert!(matches!(Order::of("en@nonsense=1"), Err(LocaleError::Unsupported(_))));
        assert_eq!(Order::of("?!").err(), Some(LocaleError::Malformed));
    }
}
