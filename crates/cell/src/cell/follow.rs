//! Cells whose rows the host has too: changes of rows since the host has last asked, events that are
//! waited for, and events that are taken back.

use std::sync::Arc;

use halcyon_cell_abi::events::Batch;
use halcyon_cell_abi::message::{command, reply};
use halcyon_view::Change;

use super::{Cell, CellError};
use crate::fault::Fault;
use crate::link::{Answer, QUESTION};

/// Says whether a wait for a cell shall be given up.
pub type GiveUp<'a> = &'a dyn Fn() -> bool;

/// Changed rows of a view, or all of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowChanges {
    /// The number of the last message whose changes are here: the position to ask from next.
    pub sequence: u64,
    /// Whether these are all rows: a row that is not here is gone, and no change has an old row.
    pub is_all: bool,
    key_words: usize,
    row_words: usize,
    /// The changes as [`reply::CHANGED`] has them, without counts.
    words: Vec<u64>,
}

impl RowChanges {
    /// The changes, in no order; each group once.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut rest = &self.words[..];
        std::iter::from_fn(move || {
            let (change, behind) = split_change(rest, self.key_words, self.row_words)?;
            rest = behind;
            Some(change)
        })
    }

    /// Takes one reply's changes. `None`: they are none of this view.
    fn take(&mut self, words: &[u64]) -> Option<()> {
        let (&count, words) = words.split_first()?;
        let mut rest = words;
        for _ in 0..count {
            rest = split_change(rest, self.key_words, self.row_words)?.1;
        }
        self.words.extend_from_slice(words);
        rest.is_empty().then_some(())
    }
}

/// The first change in words, with the words behind it.
fn split_change(words: &[u64], key: usize, row: usize) -> Option<(Change<'_>, &[u64])> {
    let (&flags, rest) = words.split_first()?;
    let (key, rest) = rest.split_at_checked(key)?;
    let words_if = |flag| if flags & flag == 0 { 0 } else { row };
    let (old, rest) = rest.split_at_checked(words_if(reply::CHANGED_OLD))?;
    let (new, rest) = rest.split_at_checked(words_if(reply::CHANGED_NEW))?;
    let old = (flags & reply::CHANGED_OLD != 0).then_some(old);
    let new = (flags & reply::CHANGED_NEW != 0).then_some(new);
    Some((Change { key, old, new }, rest))
}

impl Cell {
    /// Waits until the cell has worked off the message of this number.
    ///
    /// Errors: [`CellError::Down`]; [`CellError::GivenUp`].
    pub fn confirm(&mut self, sequence: u64, give_up: GiveUp<'_>) -> Result<(), CellError> {
        let mut given_up = false;
        self.retry(|cell, link| {
            link.wait(&mut cell.told, |link, _| {
                let is_applied = link.running.ends().board().applied() >= sequence;
                given_up = !is_applied && give_up();
                is_applied || given_up
            })?;
            // A reply is there before the number is told, so all replies to the message are taken now.
            link.take(&mut cell.told)
        })?;
        if given_up { Err(CellError::GivenUp) } else { Ok(()) }
    }

    /// The changes of rows behind the position `since`, or all rows where the cell does not know the
    /// changes from there: at first (position 0), after a restart, and after very many changes. The
    /// answer has every event that was accepted before.
    ///
    /// Errors: [`CellError::NoProgram`], [`CellError::Refused`] if an expression of the view fails,
    /// [`CellError::Down`], [`CellError::GivenUp`]; the host's position stays what it was then.
    pub fn changes(&mut self, since: u64, give_up: GiveUp<'_>) -> Result<RowChanges, CellError> {
        let loaded = self.loaded.as_ref().ok_or(CellError::NoProgram)?;
        let (key_words, row_words) = (loaded.key_words, loaded.output_words);
        let mut found = RowChanges { key_words, row_words, ..RowChanges::default() };
        let known = self.strings.len() as u64;
        let answers = self.ask_unless(command::CHANGES, &[since, known], give_up)?;
        for Answer { kind, words } in answers {
            let sound = match kind {
                reply::CHANGED => found.take(&words).is_some(),
                reply::STRINGS => self.learn(&words),
                reply::END => match words.first_chunk::<3>() {
                    Some(&[sequence, strings, is_all]) => {
                        (found.sequence, found.is_all) = (sequence, is_all != 0);
                        strings == self.strings.len() as u64 && sequence == self.sequence
                    }
                    None => false,
                },
                _ => false,
            };
            if !sound {
                return Err(self.distrust("changes that are none of this view"));
            }
        }
        Ok(found)
    }

    /// The row of a group: the words of its key in, those of the row out. It has every event that was
    /// accepted before.
    ///
    /// Errors: as [`Cell::changes`].
    pub fn row(&mut self, key: &[u64], give_up: GiveUp<'_>) -> Result<Option<Vec<u64>>, CellError> {
        let row_words = self.loaded.as_ref().ok_or(CellError::NoProgram)?.output_words;
        let mut question = vec![self.strings.len() as u64];
        question.extend_from_slice(key);
        let (mut found, mut sound) = (None, true);
        for Answer { kind, words } in self.ask_unless(command::ROW, &question, give_up)? {
            match (kind, words.split_first()) {
                (reply::ROWS, Some((0, []))) | (reply::END, _) => {}
                (reply::ROWS, Some((1, row))) if row.len() == row_words => {
                    found = Some(row.to_vec());
                }
                (reply::STRINGS, _) => sound &= self.learn(&words),
                _ => sound = false,
            }
        }
        if sound { Ok(found) } else { Err(self.distrust("a row that is none of this view")) }
    }

    /// The number of a string, a new one if need be, if no event makes strings of its own: then
    /// numbers follow from the order in which the host asks for them, and nothing is waited for.
    ///
    /// Errors: as [`Cell::feed`].
    pub fn intern_unasked(&mut self, text: &str) -> Result<i64, CellError> {
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        self.accept_text(text)?;
        let number = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        Ok(number)
    }

    /// Takes events back: the events in the batch, which are the inverses of events that were applied,
    /// are accepted whatever memory the view has.
    ///
    /// Errors: as [`Cell::feed`].
    pub fn take_back(&mut self, inverses: &Batch) -> Result<u64, CellError> {
        self.check_batch(inverses.words())?;
        self.accept(command::TAKE_BACK, inverses.words().into())
    }

    /// Says that the host's rows are those that the view has after all that was accepted, so that the
    /// next changes begin here. The position of that comes back.
    pub fn settled(&mut self) -> u64 {
        if let Some(link) = &mut self.link {
            // A cell that has broken tells all rows when it is asked next.
            let _ = link.send(&mut self.told, command::SETTLED, QUESTION, &[]);
        }
        self.sequence
    }

    /// Withdraws messages with events that no cell can apply. They keep their numbers, and whatever
    /// cell there is now is replaced by one that has never seen them. Returns those that a saved
    /// state includes already, which cannot be withdrawn.
    pub fn withdraw(&mut self, sequences: &[u64]) -> Vec<u64> {
        let mut included = Vec::new();
        for sequence in sequences {
            let place = self.log.binary_search_by_key(sequence, |message| message.sequence);
            match place {
                Ok(at) => {
                    let message = &mut self.log[at];
                    (message.words, message.is_withdrawn) = (Arc::default(), true);
                }
                Err(_) => included.push(*sequence),
            }
        }
        if included.len() < sequences.len() {
            self.kill();
            self.link = None;
        }
        included
    }

    /// Events that were rejected and batches that were refused, of messages from this number on: the
    /// number of the message, the event's index (`None`: the whole batch), and the code of the error
    /// ([`halcyon_cell_abi::message::rejection`]; 4 for a batch, whose maps have reached their memory).
    pub fn rejected_from(&self, sequence: u64) -> Vec<(u64, Option<u64>, u64)> {
        let events = self.told.rejected.range((sequence, 0)..);
        let events = events.map(|(&(number, event), code)| (number, Some(event), *code));
        let batches =
            self.told.refused.range(sequence..QUESTION).map(|(number, _)| (*number, None, 4));
        events.chain(batches).collect()
    }

    /// Forgets which events were rejected, and batches that were refused as far as a saved state
    /// includes their numbers: the others must be known, since a new cell must not apply them.
    pub fn forget_rejections(&mut self) {
        self.told.rejected.clear();
        let saved = self.saved.as_ref().map_or(0, |saved| saved.sequence);
        self.told.refused.retain(|number, _| *number > saved);
    }

    /// The number of the last message that was accepted.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The heartbeat of the running cell; `None` if none runs.
    pub fn heartbeat(&mut self) -> Option<u64> {
        let link = self.link.as_mut()?;
        link.running.fault().is_none().then(|| link.running.ends().board().heartbeat())
    }

    /// Asks as [`Cell::ask`] does, unless that is given up.
    fn ask_unless(
        &mut self,
        kind: u16,
        words: &[u64],
        give_up: GiveUp<'_>,
    ) -> Result<Vec<Answer>, CellError> {
        self.questions += 1;
        let (number, mut given_up) = (self.questions, false);
        self.retry(|cell, link| {
            cell.told.wait_for(number);
            link.send(&mut cell.told, kind, number, &[words])?;
            link.wait(&mut cell.told, |_, told| {
                given_up = !told.is_answered() && give_up();
                told.is_answered() || given_up
            })
        })?;
        if given_up {
            return Err(CellError::GivenUp);
        }
        match self.told.refused.remove(&number) {
            Some((why, text)) => Err(CellError::Refused(why, text)),
            None => Ok(std::mem::take(&mut self.told.answers)),
        }
    }
}

/// A fault for what the agreement rules out.
pub(super) fn no_number() -> CellError {
    CellError::Down(Fault::Protocol("a string has no number".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn random_words_are_changes_or_refused_and_never_panic() {
        let mut rng = Rng::new(3);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..20_000 {
            let (key_words, row_words) = (rng.below(3) as usize, rng.below(3) as usize);
            let mut changes = RowChanges { key_words, row_words, ..RowChanges::default() };
            let words: Vec<u64> = (0..rng.below(14)).map(|_| rng.below(5)).collect();
            match changes.take(&words) {
                Some(()) => {
                    good += 1;
                    assert_eq!(changes.iter().count() as u64, words[0]);
                }
                None => bad += 1,
            }
        }
        assert!(good > 300 && bad > 1000, "{good} {bad}");
    }
}
