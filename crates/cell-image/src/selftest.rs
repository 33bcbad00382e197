//! The self-test: both sample views through rings and the command loop, on one thread.
//!
//! An image that is started without a host runs it and prints the results; a process gets the same
//! numbers from the same function.

use alloc::vec;
use alloc::vec::Vec;

use halcyon_cell_abi::AtomicU64;
use halcyon_cell_abi::board::{self, Board};
use halcyon_cell_abi::events::Batch;
use halcyon_cell_abi::message::{command, pack, reply};
use halcyon_cell_abi::program;
use halcyon_cell_abi::ring::{Consumer, Producer, words_of};
use halcyon_cell_abi::samples::{Sample, checksum};
use halcyon_view::program::Program;

use crate::server::{Server, Surroundings, Turn};

/// Events of each view.
pub const EVENTS: u64 = 20_000;
/// Events of a message.
pub const BATCH: usize = 256;
/// Slots of the ring of commands, of which half are the longest message.
const COMMAND_SLOTS: usize = 1 << 13;
const REPLY_SLOTS: usize = 1 << 13;

/// The surroundings of a loop whose replies always have room.
struct Alone;

impl Surroundings for Alone {
    fn wait(&mut self) -> bool {
        false
    }

    fn heap(&self) -> (u64, u64) {
        (0, 1 << 30)
    }

    fn probe(&mut self, _: u64) {}

    fn stamp(&self) -> u64 {
        0
    }
}

fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The checksum of a view's rows after its first [`EVENTS`] events, having gone through rings and the
/// command loop. `None`: something was refused.
pub fn run(sample: Sample) -> Option<u64> {
    let (page, to, from) =
        (words(board::WORDS), words(words_of(COMMAND_SLOTS)), words(words_of(REPLY_SLOTS)));
    let mut commands = Producer::over(&to).ok()?;
    let mut replies = Consumer::over(&from).ok()?;
    let mut server = Server::new(
        Board::over(&page),
        Consumer::over(&to).ok()?,
        Producer::over(&from).ok()?,
        Alone,
    );
    let mut send = |kind: u16, number: u64, pieces: &[&[u64]]| {
        let sent = commands.push(kind, number, pieces) == Ok(true);
        (sent && server.turn() == Ok(Turn::Worked)).then_some(())
    };
    send(command::LOAD, 1, &[&load(&sample.program())?])?;
    let batches = sample.batches(EVENTS, BATCH);
    let mut number = 1;
    for batch in &batches {
        number += 1;
        send(command::EVENTS, number, &[Batch::words(batch)])?;
    }
    send(command::READ, 1, &[])?;
    let (mut payload, mut rows) = (vec![], Vec::new());
    loop {
        let header = replies.pop(&mut payload).ok()??;
        match header.kind {
            reply::ROWS => {
                let (count, words) = (payload[0] as usize, &payload[1..]);
                let width = words.len().checked_div(count).unwrap_or(1).max(1);
                rows.extend(words.chunks(width).map(<[u64]>::to_vec));
            }
            reply::END if payload == [number] => break,
            _ => return None,
        }
    }
    Some(checksum(rows.iter().map(|row| &row[..])))
}

/// The payload of a message that loads a whole program.
fn load(program: &Program) -> Option<Vec<u64>> {
    let mut payload = vec![command::LOAD_LAST];
    pack(&program::encode(program).ok()?, &mut payload);
    Some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_cell_abi::events::{Events, row_words};
    use halcyon_view::{Engine, Executor, Options};

    #[test]
    fn the_way_through_rings_changes_no_row() {
        for sample in Sample::ALL {
            let executor = Executor::Interpreted;
            let options = Options { executor, ..Options::default() };
            let mut engine = Engine::new(sample.program(), options).expect("a sound program");
            let widths = row_words(&sample.program());
            // The interpreter's sums over ranges visit every entry, so this takes fewer events.
            let few = 1500;
            for batch in sample.batches(few, BATCH) {
                for (relation, row, weight) in Events::new(batch.words(), &widths) {
                    engine.apply(relation, row, weight).expect("sums fit");
                }
            }
            let mut rows = Vec::new();
            engine.for_each_row(|row| rows.push(row.to_vec())).expect("rows can be computed");
            assert!(!rows.is_empty());
            let executor = Executor::Operations;
            let options = Options { executor, ..Options::default() };
            let mut engine = Engine::new(sample.program(), options).expect("a sound program");
            for (at, batch) in sample.batches(EVENTS, BATCH).iter().enumerate() {
                for (number, (relation, row, weight)) in
                    Events::new(batch.words(), &widths).enumerate()
                {
                    if at * BATCH + number == few as usize {
                        let mut again = Vec::new();
                        engine.for_each_row(|row| again.push(row.to_vec())).expect("as before");
                        assert_eq!(
                            checksum(rows.iter().map(|row| &row[..])),
                            checksum(again.iter().map(|row| &row[..])),
                        );
                    }
                    engine.apply(relation, row, weight).expect("sums fit");
                }
            }
            let mut all = Vec::new();
            engine.for_each_row(|row| all.push(row.to_vec())).expect("rows can be computed");
            assert_eq!(run(sample), Some(checksum(all.iter().map(|row| &row[..]))));
        }
    }
}
