//! Numbers of strings: equal strings have equal numbers, from 0 in the order of first use.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The strings that a view has met. Only grows: a string stays when the rows that held it go.
#[derive(Debug, Default)]
pub struct Dictionary {
    texts: Vec<Arc<str>>,
    numbers: BTreeMap<Arc<str>, i64>,
    bytes: u64,
}
impl Dictionary {
    /// The string with a number that this dictionary gave out.
    ///
    /// Panics: on any other number.
    pub fn text(&self, number: i64) -> &str {
        &self.texts[usize::try_from(number).expect("numbers of strings are not negative")]
    }

    /// The number of a string that was met before.
    pub fn number(&self, text: &str) -> Option<i64> {
        self.numbers.get(text).copied()
    }

    /// The number of a string, a new one if need be.
    pub fn intern(&mut self, text: &str) -> i64 {
        if let Some(number) = self.number(text) {
            return number;
        }
        let text: Arc<str> = text.into();
        let number = self.texts.len() as i64;
        self.bytes += text.len() as u64 + 64;
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Memory of strings and tables, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }
}
