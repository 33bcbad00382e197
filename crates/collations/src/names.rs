//! The collations that always exist, under PostgreSQL's names and object ids.

use std::sync::LazyLock;

use crate::Collation;

/// The schema of the collations that always exist.
pub const BUILT_IN_SCHEMA: &str = "pg_catalog";

/// The locales of ICU, in the order in which PostgreSQL 15 lists them.
const LOCALES: &str = include_str!("locales.txt");

/// The object id of the first collation of a locale.
const FIRST_LOCALE_OID: u32 = 12342;

/// A collation that always exists.
#[derive(Clone, Debug)]
pub struct Builtin {
    /// Object id.
    pub oid: u32,
    /// Name and order.
    pub collation: Collation,
}

/// All of them, by ascending object id.
pub fn builtins() -> &'static [Builtin] {
    static ALL: LazyLock<Vec<Builtin>> = LazyLock::new(|| {
        let made = |oid: u32, name: &str, locale: Option<&str>| Builtin {
            oid,
            collation: Collation {
                schema: BUILT_IN_SCHEMA.to_owned(),
                name: name.to_owned(),
                locale: locale.map(str::to_owned),
            },
        };
        let by_bytes =
            [(100, "default"), (950, "C"), (951, "POSIX"), (12340, "ucs_basic"), (12341, "C.utf8")];
        let by_bytes = by_bytes.map(|(oid, name)| made(oid, name, None));
        let locales = (FIRST_LOCALE_OID..).zip(LOCALES.split_whitespace());
        let locales =
            locales.map(|(oid, locale)| made(oid, &format!("{locale}-x-icu"), Some(locale)));
        by_bytes.into_iter().chain(locales).collect()
    });
    &ALL
}

/// The one of this name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    builtins().iter().find(|found| found.collation.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Order;

    #[test]
    fn every_locale_has_an_order() {
        assert_eq!(builtins().len(), 811);
        for found in builtins() {
            if let Some(locale) = &found.collation.locale {
                assert!(Order::of(locale).is_ok(), "{locale}");
            }
            assert_eq!(
                Collation::of_spelled(&found.collation.spelled()).as_ref(),
                Some(&found.collation)
            );
        }
        assert_eq!(
            builtin("sv-x-icu").and_then(|found| found.collation.locale.as_deref()),
            Some("sv")
        );
        assert!(builtin("sv").is_none());
    }
}
