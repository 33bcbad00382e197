//! Events as words: for each event the relation with the weight, then the row.
//!
//! The first word has the relation's number in its lowest 16 bits and the weight, a signed integer of
//! 48 bits, above. How many words a row has follows from the relation, so both sides must have the
//! same program.

use alloc::vec::Vec;

use halcyon_view::program::{Program, RelationId};

/// Words of a row, by base relation of a program.
pub fn row_words(program: &Program) -> Vec<usize> {
    let base = program.relations.iter().take_while(|relation| relation.derived.is_none());
    base.map(|relation| relation.columns.iter().map(|ty| ty.words()).sum()).collect()
}

/// The words of events, to be sent.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Words of all events, one after the other.
    words: Vec<u64>,
    count: usize,
}

/// The event cannot be written: its relation, its row or its weight is none that a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEvent;

impl core::fmt::Display for NoEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no base relation has such a row, or the weight exceeds 48 bits")
    }
}

impl core::error::Error for NoEvent {}

impl Batch {
    /// Appends an event. `row_words`: what [`row_words`] gives for the program.
    ///
    /// Errors: [`NoEvent`]; the batch is as before then.
    pub fn push(
        &mut self,
        row_words: &[usize],
        relation: RelationId,
        row: &[u64],
        weight: i64,
    ) -> Result<(), NoEvent> {
        let fits = weight << 16 >> 16 == weight;
        if row_words.get(usize::from(relation.0)) != Some(&row.len()) || !fits {
            return Err(NoEvent);
        }
        self.words.push(u64::from(relation.0) | (weight << 16) as u64);
        self.words.extend_from_slice(row);
        self.count += 1;
        Ok(())
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Empties the batch; its memory stays.
    pub fn clear(&mut self) {
        self.words.clear();
        self.count = 0;
    }
}

/// Checks words that somebody has sent: the number of events in them. `None`: some event is none of
/// this program.
pub fn check(words: &[u64], row_words: &[usize]) -> Option<usize> {
    let (mut at, mut count) = (0, 0);
    while let Some(first) = words.get(at) {
        at += 1 + row_words.get(usize::from(*first as u16))?;
        count += 1;
    }
    (at == words.len()).then_some(count)
}

/// The events in words that [`check`] has accepted; others end the iteration early.
#[derive(Clone)]
pub struct Events<'w> {
    words: &'w [u64],
    row_words: &'w [usize],
}

impl<'w> Events<'w> {
    /// The events in these words.
    pub fn new(words: &'w [u64], row_words: &'w [usize]) -> Self {
        Events { words, row_words }
    }

    /// The words of the events that have not been taken yet.
    pub fn rest(&self) -> &'w [u64] {
        self.words
    }
}

impl<'w> Iterator for Events<'w> {
    type Item = (RelationId, &'w [u64], i64);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (&first, rest) = self.words.split_first()?;
        let relation = RelationId(first as u16);
        let (row, rest) = rest.split_at_checked(*self.row_words.get(usize::from(relation.0))?)?;
        self.words = rest;
        Some((relation, row, first as i64 >> 16))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    const WIDTHS: [usize; 3] = [2, 0, 5];

    #[test]
    fn events_survive_their_words() {
        let mut batch = Batch::default();
        let sent: [(RelationId, &[u64], i64); 4] = [
            (RelationId(0), &[1, u64::MAX], 1),
            (RelationId(1), &[], -1),
            (RelationId(2), &[5; 5], -(1 << 47)),
            (RelationId(0), &[0, 0], (1 << 47) - 1),
        ];
        for (relation, row, weight) in sent {
            batch.push(&WIDTHS, relation, row, weight).expect("an event of the program");
        }
        assert_eq!(check(batch.words(), &WIDTHS), Some(4));
        let found: Vec<_> = Events::new(batch.words(), &WIDTHS).collect();
        assert_eq!(found, sent);
        assert_eq!((batch.len(), batch.is_empty()), (4, false));
    }

    #[test]
    fn what_is_no_event_of_the_program_is_not_written() {
        let mut batch = Batch::default();
        for (relation, row, weight) in [
            (RelationId(3), &[1, 2][..], 1),
            (RelationId(0), &[1][..], 1),
            (RelationId(0), &[1, 2][..], 1 << 47),
            (RelationId(0), &[1, 2][..], i64::MIN),
        ] {
            assert_eq!(batch.push(&WIDTHS, relation, row, weight), Err(NoEvent));
        }
        assert!(batch.is_empty() && batch.words().is_empty());
    }

    #[test]
    fn random_words_are_checked_before_they_are_events() {
        let mut rng = Rng::new(3);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..10_000 {
            let words: Vec<u64> = (0..rng.below(12)).map(|_| rng.next_u64() & !0xfffc).collect();
            let events = Events::new(&words, &WIDTHS).count();
            match check(&words, &WIDTHS) {
                Some(count) => (assert_eq!(count, events), good += 1).1,
                None => bad += 1,
            }
        }
        assert!(good > 500 && bad > 500, "{good} {bad}");
    }
}
