//! The host's way of talking to a running cell: sends messages, takes replies, and believes none of
//! them before it has looked.

use std::collections::BTreeMap;
use std::time::Duration;

use halcyon_cell_abi::board::CellState;
use halcyon_cell_abi::message::{Header, Refusal, rejection, reply, unpack_text};

use crate::fault::Fault;
use crate::place::Running;

/// Marks a number as that of a question, not of a message that changes the cell.
pub const QUESTION: u64 = 1 << 63;

/// A reply to the question that is being waited for.
#[derive(Debug)]
pub struct Answer {
    pub kind: u16,
    pub words: Vec<u64>,
}

/// What a cell has told.
#[derive(Default)]
pub struct Told {
    /// Number of the question that is being waited for; replies to others are dropped.
    pub waiting: u64,
    /// The replies to that question.
    pub answers: Vec<Answer>,
    /// Words of all these replies.
    answer_words: u64,
    /// The most that these may be.
    answer_words_max: u64,
    /// Why the message or question of this number was refused.
    pub refused: BTreeMap<u64, (Refusal, String)>,
    /// Rejected events: number of the message and index within it, and the code of the error.
    pub rejected: BTreeMap<(u64, u64), u64>,
}

impl Told {
    /// Nothing told yet. `answer_words_max`: the most words that an answer may have.
    pub fn new(answer_words_max: u64) -> Told {
        Told { answer_words_max, ..Told::default() }
    }

    /// Begins to wait for the answer to a question.
    pub fn wait_for(&mut self, number: u64) {
        self.waiting = number;
        self.answers.clear();
        self.answer_words = 0;
    }

    /// Takes a reply. The error says what is wrong with it.
    fn take(&mut self, header: Header, words: &[u64]) -> Result<(), String> {
        let Header { kind, number, .. } = header;
        match kind {
            reply::REJECTED => {
                let [index, code] = *words.first_chunk::<2>().ok_or("a rejection without event")?;
                self.rejected.insert((number, index), code);
            }
            reply::REFUSED => {
                let (code, mut rest) = words.split_first().ok_or("a refusal without reason")?;
                let text = unpack_text(&mut rest).ok_or("a refusal without text")?;
                self.refused.insert(number, (Refusal::of(*code), text));
            }
            reply::ROWS
            | reply::CHANGED
            | reply::STRINGS
            | reply::SAVED
            | reply::STAMPS
            | reply::END
            | reply::REPORT => {
                if number == self.waiting {
                    self.answer_words += words.len() as u64 + 1;
                    if self.answer_words > self.answer_words_max {
                        return Err("an answer without end".to_owned());
                    }
                    self.answers.push(Answer { kind, words: words.to_vec() });
                }
            }
            other => return Err(format!("a reply of kind {other}")),
        }
        Ok(())
    }

    /// Whether the answer that is being waited for has come, or will not come.
    pub fn is_answered(&self) -> bool {
        let last = self.answers.last().map(|answer| answer.kind);
        matches!(last, Some(reply::END | reply::REPORT)) || self.refused.contains_key(&self.waiting)
    }
}

/// The text of a rejection's code.
pub fn rejection_text(code: u64) -> &'static str {
    rejection::text(code)
}

/// A running cell, with the buffer for its replies.
pub struct Link {
    pub running: Box<dyn Running>,
    payload: Vec<u64>,
}

/// Looks without success after which a wait gives the processor away, and after which it sleeps.
const SPINS: u32 = 200;
const YIELDS: u32 = 2000;

/// Waits a little, the longer the more often it was in vain.
fn pause(turn: u32) {
    match turn {
        0..SPINS => std::hint::spin_loop(),
        SPINS..YIELDS => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

impl Link {
    /// Takes over a cell that has been started, and waits until it is ready.
    ///
    /// Errors: the cell has ended before.
    pub fn new(running: Box<dyn Running>) -> Result<Link, Fault> {
        let mut link = Link { running, payload: Vec::new() };
        let mut turn = 0;
        while link.running.ends().board().state() != CellState::Ready {
            link.alive()?;
            pause(turn);
            turn += 1;
        }
        Ok(link)
    }

    /// Errors: the cell has ended.
    fn alive(&mut self) -> Result<(), Fault> {
        match self.running.fault() {
            None if self.running.has_ended() => Err(Fault::Ended),
            None => Ok(()),
            Some(fault) => Err(fault),
        }
    }

    /// Ends a cell that has broken the agreement.
    fn broken(&mut self, problem: String) -> Fault {
        self.running.end(Fault::Protocol(problem.clone()));
        self.running.fault().unwrap_or(Fault::Protocol(problem))
    }

    /// Takes all replies that are there.
    ///
    /// Errors: a reply cannot be; the cell is ended then.
    pub fn take(&mut self, told: &mut Told) -> Result<(), Fault> {
        loop {
            let popped = self.running.ends().consumer().pop(&mut self.payload);
            let taken = match popped {
                Ok(None) => return Ok(()),
                Ok(Some(header)) => told.take(header, &self.payload),
                Err(error) => Err(error.to_string()),
            };
            if let Err(problem) = taken {
                return Err(self.broken(problem));
            }
        }
    }

    /// Sends a message, as soon as there is room.
    ///
    /// Errors: the cell has ended.
    pub fn send(
        &mut self,
        told: &mut Told,
        kind: u16,
        number: u64,
        pieces: &[&[u64]],
    ) -> Result<(), Fault> {
        let mut turn = 0;
        loop {
            match self.running.ends().producer().push(kind, number, pieces) {
                Ok(true) => {
                    self.running.wake();
                    return Ok(());
                }
                Ok(false) => {
                    self.take(told)?;
                    self.alive()?;
                    pause(turn);
                    turn += 1;
                }
                Err(error) => return Err(self.broken(error.to_string())),
            }
        }
    }

    /// Takes replies until `done`.
    ///
    /// Errors: the cell has ended.
    pub fn wait(
        &mut self,
        told: &mut Told,
        mut done: impl FnMut(&mut Self, &Told) -> bool,
    ) -> Result<(), Fault> {
        let mut turn = 0;
        loop {
            self.take(told)?;
            if done(self, told) {
                return Ok(());
            }
            self.alive()?;
            pause(turn);
            turn += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn random_replies_are_taken_or_refused_and_bounded() {
        let mut rng = Rng::new(8);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..20_000 {
            let mut told = Told { waiting: 3, answer_words_max: 50, ..Told::default() };
            for _ in 0..8 {
                let words: Vec<u64> = (0..rng.below(20)).map(|_| rng.below(9)).collect();
                let kind = rng.below(9) as u16;
                let header = Header { kind, words: words.len() as u32, number: rng.below(5) };
                match told.take(header, &words) {
                    Ok(()) => good += 1,
                    Err(_) => bad += 1,
                }
                assert!(
                    told.answers.iter().map(|answer| answer.words.len()).sum::<usize>() <= 50 + 20
                );
            }
        }
        assert!(good > 1000 && bad > 1000, "{good} {bad}");
    }
}
