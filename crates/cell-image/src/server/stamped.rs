//! Stamped runs: tuples one after the other, each ended by a reading of the processor's counter, for measurements of how
//! late a single one can be.
//!
//! Everything that a run needs lies in the cell before its first reading: the events ([`command::HOLD`]), and room for the
//! readings, whose memory has been written to. Readings are gapless: the end of one tuple is the start of the next.
//!
//! [`command::HOLD`]: halcyon_cell_abi::message::command::HOLD

use alloc::vec::Vec;

use halcyon_cell_abi::events::{self, Events};
use halcyon_cell_abi::message::{Refusal, rejection, reply};
use halcyon_cell_abi::ring::RingError;

use super::{CHUNK_WORDS, Refused, Server, Surroundings, View, malformed};
use crate::plain::Plain;

/// Events that are held, and readings of the last run.
#[derive(Default)]
pub(super) struct Stamped {
    /// Words of events.
    held: Vec<u64>,
    /// Words that have been run.
    done: usize,
    stamps: Vec<u64>,
    plain: Option<Plain>,
}

impl Stamped {
    /// Words of events that were not run yet.
    pub(super) fn rest(&self) -> &[u64] {
        &self.held[self.done..]
    }

    /// Keeps the words of events.
    pub(super) fn hold(&mut self, words: &[u64]) {
        if self.done == self.held.len() {
            self.held.clear();
            self.done = 0;
        }
        self.held.extend_from_slice(words);
    }

    /// Room for so many readings, in memory that has been written to.
    fn make_room(&mut self, readings: usize) {
        self.stamps.clear();
        self.stamps.resize(readings, u64::MAX);
        self.stamps.clear();
    }
}

/// Why there is no view that a message could change.
fn unready(view: &Option<View>, follows: bool) -> Option<Refused> {
    let why = match view {
        None => Refusal::NoProgram,
        Some(_) if !follows => Refusal::OutOfOrder,
        Some(_) => return None,
    };
    Some((why, Default::default()))
}

impl<S: Surroundings> Server<'_, S> {
    fn follows(&self, number: u64) -> bool {
        self.sequence.checked_add(1) == Some(number)
    }

    /// Whether so many words more are too many beside what the cell has to do.
    fn is_too_much(&self, words: usize) -> bool {
        let (_, heap_bytes) = self.out.surroundings.heap();
        words as u64 > heap_bytes / 8 / 4
    }

    /// Keeps events for a later run.
    pub(super) fn hold(
        &mut self,
        number: u64,
        words: &[u64],
    ) -> Result<Result<(), Refused>, RingError> {
        if let Some(refused) = unready(&self.view, self.follows(number)) {
            return Ok(Err(refused));
        }
        let widths = self.view.as_ref().map_or(&[][..], |view| &view.row_words);
        if events::check(words, widths).is_none() {
            return Ok(Err(malformed()));
        }
        match self.is_too_much(self.stamped.held.len() + words.len()) {
            // The number counts as seen, as that of a batch that is refused.
            true => self.out.refuse(number, Refusal::Memory, "")?,
            false => self.stamped.hold(words),
        }
        self.done(number);
        Ok(Ok(()))
    }

    /// Applies held events, with a reading behind each.
    pub(super) fn run(
        &mut self,
        number: u64,
        words: &[u64],
    ) -> Result<Result<(), Refused>, RingError> {
        if let Some(refused) = unready(&self.view, self.follows(number)) {
            return Ok(Err(refused));
        }
        let (Some(view), Some(&most)) = (&mut self.view, words.first()) else {
            return Ok(Err(malformed()));
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let count = Events::new(self.stamped.rest(), &view.row_words).take(most).count();
        self.stamped.make_room(count + 1);
        // Groups whose changes are noted already are noted no more often.
        view.engine.forget_changes();
        view.told = view.told.map(|_| u64::MAX);
        let (mut rejected, mut stamps) = (Vec::new(), core::mem::take(&mut self.stamped.stamps));
        let (board, surroundings) = (self.board, &self.out.surroundings);
        let mut events = Events::new(self.stamped.rest(), &view.row_words);
        stamps.push(surroundings.stamp());
        for (index, (relation, row, weight)) in events.by_ref().take(count).enumerate() {
            if let Err(error) = view.engine.apply(relation, row, weight) {
                rejected.push([index as u64, rejection::code(&error)]);
            }
            board.beat();
            stamps.push(surroundings.stamp());
        }
        let left = events.rest().len();
        self.stamped.done = self.stamped.held.len() - left;
        self.stamped.stamps = stamps;
        view.rejected += rejected.len() as u64;
        for words in &rejected {
            self.out.send(reply::REJECTED, number, &[words])?;
        }
        view.forget(&mut self.unforgotten);
        self.done(number);
        Ok(Ok(()))
    }

    /// Works through tuples of a workload without a program, with a reading behind each.
    pub(super) fn work(
        &mut self,
        number: u64,
        words: &[u64],
    ) -> Result<Result<(), Refused>, RingError> {
        let Some(&[which, tuples]) = words.first_chunk::<2>() else { return Ok(Err(malformed())) };
        let tuples = usize::try_from(tuples).unwrap_or(usize::MAX);
        if self.is_too_much(tuples) {
            return Ok(Err((Refusal::Memory, Default::default())));
        }
        let plain = self.stamped.plain.take().filter(|plain| plain.number() == which);
        let Some(mut plain) = plain.or_else(|| Plain::of(which)) else {
            return Ok(Err(malformed()));
        };
        self.stamped.make_room(tuples + 1);
        let (board, surroundings) = (self.board, &self.out.surroundings);
        let stamps = &mut self.stamped.stamps;
        stamps.push(surroundings.stamp());
        plain.run(tuples, || {
            board.beat();
            stamps.push(surroundings.stamp());
        });
        let checksum = plain.checksum();
        self.stamped.plain = Some(plain);
        self.out.send(reply::END, number, &[&[self.sequence, checksum]])?;
        Ok(Ok(()))
    }

    /// Tells the readings of the last run.
    pub(super) fn stamps(&mut self, number: u64) -> Result<Result<(), Refused>, RingError> {
        let limit = CHUNK_WORDS.min(self.out.ring.payload_words_max());
        for part in self.stamped.stamps.chunks(limit) {
            self.board.beat();
            self.out.send(reply::STAMPS, number, &[part])?;
        }
        let count = self.stamped.stamps.len() as u64;
        self.out.send(reply::END, number, &[&[self.sequence, count]])?;
        Ok(Ok(()))
    }
}
