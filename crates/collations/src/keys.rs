//! Keys of texts: what ICU orders them by, a zero byte, and the text itself.
//!
//! ICU's part has no zero byte in it, and texts of SQL have none, so the first zero byte ends the first part; being
//! less than every other byte it lets a text whose first part begins another one's come first. Texts that ICU takes for
//! the same are told apart by the bytes behind, as PostgreSQL's deterministic collations do it.

use icu_collator::CollatorBorrowed;

/// The key of a text.
pub(crate) fn key(collator: &CollatorBorrowed<'static>, text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() * 3 + 8);
    let Ok(()) = collator.write_sort_key_to(text, &mut key);
    debug_assert!(!key.contains(&0), "ICU ends its keys by zero bytes elsewhere");
    key.push(0);
    key.extend_from_slice(text.as_bytes());
    key
}

/// The text of a key; `None` for bytes that are no key.
pub fn text_of_key(key: &[u8]) -> Option<&str> {
    let end = key.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&key[end + 1..]).ok()
}

#[cfg(test)]
mod tests {
    use crate::{Order, text_of_key};

    #[test]
    fn keys_hold_their_texts_and_tell_all_texts_apart() {
        let order = Order::of("sv").expect("a locale");
        let texts = ["", "a", "A", "ä", "a\u{308}", "z", "o", "ö", "ab", "a b", "\u{ad}", "日本"];
        let keys: Vec<Vec<u8>> = texts.iter().map(|text| order.key(text)).collect();
        for (at, (text, key)) in texts.iter().zip(&keys).enumerate() {
            assert_eq!(text_of_key(key), Some(*text));
            assert_eq!(keys.iter().position(|other| other == key), Some(at), "{text:?}");
        }
        assert_eq!(text_of_key(b"no key"), None);
    }

    #[test]
    fn languages_order_their_letters() {
        for (locale, ascending) in [
            ("sv", ["a", "o", "z", "å", "ä", "ö"]),
            ("de", ["a", "ä", "å", "o", "ö", "z"]),
            ("und", ["1", "a", "A", "á", "b", "B"]),
            ("lt", ["i", "y", "j", "s", "š", "z"]),
        ] {
            let order = Order::of(locale).expect("a locale");
            let keys = ascending.map(|text| order.key(text));
            let mut sorted = keys.clone();
            sorted.sort();
            let shown: Vec<_> = sorted.iter().filter_map(|key| text_of_key(key)).collect();
            if locale != "de" {
                assert_eq!(sorted, keys, "{locale}: {shown:?}");
            } else {
                assert_eq!(shown, ["a", "å", "ä", "o", "ö", "z"]);
            }
        }
    }
}
