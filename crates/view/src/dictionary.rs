//! Numbers of strings: equal strings have equal numbers, from 0 in the order of first use.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Strings per chunk: the list of strings grows by whole chunks and never moves what it has, so
/// that no event pays for the strings of earlier events.
const CHUNK: usize = 4096;

/// The strings that a view has met. Only grows: a string stays when the rows that held it go.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// Chunks of strings by number; all but the last are full.
    chunks: Vec<Vec<Arc<str>>>,
    numbers: BTreeMap<Arc<str>, i64>,
    bytes: u64,
}
impl Dictionary {
    /// The string with a number that this dictionary gave out.
    ///
    /// Panics: on any other number.
    pub fn text(&self, number: i64) -> &str {
        let at = usize::try_from(number).expect("numbers of strings are not negative");
        &self.chunks[at / CHUNK][at % CHUNK]
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
        let number = self.len() as i64;
        self.bytes += text.len() as u64 + 64;
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(Arc::clone(&text)),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(Arc::clone(&text));
                self.chunks.push(chunk);
            }
        }
        self.numbers.insert(text, number);
        number
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Memory of strings and tables, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn numbers_go_on_from_chunk_to_chunk() {
        let mut dictionary = Dictionary::default();
        assert!(dictionary.is_empty());
        for round in 0..2 {
            for number in 0..3 * CHUNK as i64 {
                assert_eq!(dictionary.intern(&format!("s{number}")), number, "round {round}");
            }
        }
        assert_eq!(dictionary.len(), 3 * CHUNK);
        for number in [0, CHUNK as i64 - 1, CHUNK as i64, 3 * CHUNK as i64 - 1] {
            assert_eq!(dictionary.text(number), format!("s{number}"));
        }
        assert_eq!(dictionary.number("another"), None);
    }
}
