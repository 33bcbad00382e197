//! What the lab asks: texts and events, as 64-bit words, little endian.
//!
//! ```text
//! texts:   count, then per text its bytes' count and the bytes
//! widths:  count of streams, then the columns of each
//! events:  count, then per event its head and a word per column
//! head:    index of the stream in the low 32 bits, weight (+1 or -1) in the high 32
//! ```

use std::io::Read;

use crate::Result;

/// Texts and events.
pub struct Request {
    /// The strings that text columns number.
    pub texts: Vec<String>,
    /// How many columns each stream has.
    pub widths: Vec<usize>,
    /// Heads and rows, one event after the other.
    words: Vec<u64>,
}

/// An insert or delete of one row.
pub struct Event<'a> {
    pub relation: usize,
    pub weight: i64,
    pub row: &'a [u64],
}

fn word(input: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn count(input: &mut impl Read) -> Result<usize> {
    Ok(usize::try_from(word(input)?)?)
}

/// Reads a request. Errors: it ends early, or an event is of a stream that there is not.
pub fn read(input: &mut impl Read) -> Result<Request> {
    let mut texts = Vec::new();
    for _ in 0..count(input)? {
        let mut bytes = vec![0; count(input)?];
        input.read_exact(&mut bytes)?;
        texts.push(String::from_utf8(bytes)?);
    }
    let mut widths = Vec::new();
    for _ in 0..count(input)? {
        widths.push(count(input)?);
    }
    let mut words = Vec::new();
    for _ in 0..count(input)? {
        let head = word(input)?;
        words.push(head);
        let width = widths.get(head as u32 as usize).ok_or("an event of an unknown stream")?;
        for _ in 0..*width {
            words.push(word(input)?);
        }
    }
    Ok(Request { texts, widths, words })
}

impl Request {
    /// The events in order.
    pub fn events(&self) -> impl Iterator<Item = Event<'_>> {
        let mut rest = self.words.as_slice();
        std::iter::from_fn(move || {
            let (&head, after) = rest.split_first()?;
            let relation = head as u32 as usize;
            let weight = i64::from((head >> 32) as i32);
            let row;
            (row, rest) = after.split_at(self.widths[relation]);
            Some(Event { relation, weight, row })
        })
    }
}
