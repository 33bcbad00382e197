//! The board: the page of shared memory at which a cell starts, with what the host tells it, and the
//! words in which the cell says how it is.
//!
//! The host writes its words before the cell runs, and never reads them again. The cell's words lie on
//! cache lines of their own; each has one writer. Everything that the host reads here is a report, on
//! which no access to memory depends.

use alloc::string::String;
use alloc::vec::Vec;

use crate::sync::{AtomicU64, Ordering};

/// Marks a page as a board: `HALCELL1`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HALCELL1");
/// The version of everything in this crate: host and image must have the same.
pub const VERSION: u64 = 3;
/// Words of a board: a page of 4 KiB.
pub const WORDS: usize = 512;

/// Port that a cell writes a byte to when it wants the host (or an emulator) to do something.
pub const EXIT_PORT: u16 = 0xf4;
/// Port of a serial line, on which an image without a host prints the results of its self-test.
pub const SERIAL_PORT: u16 = 0x3f8;

/// Byte at [`EXIT_PORT`]: the cell has stopped as asked. (QEMU's exit status is then 33.)
pub const EXIT_STOPPED: u8 = 0x10;
/// Byte at [`EXIT_PORT`]: the cell has panicked; the board has the message. (QEMU: 35.)
pub const EXIT_PANICKED: u8 = 0x11;
/// Byte at [`EXIT_PORT`]: the cell has nothing to do and sleeps until its host lets it run on.
pub const EXIT_IDLE: u8 = 0x12;

/// A region of a cell's memory, by its address in the cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// What the host tells a cell at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// The ring of commands, from the host to the cell.
    pub commands: Place,
    /// The ring of replies, from the cell to the host.
    pub replies: Place,
    /// Memory for the cell's heap.
    pub heap: Place,
    /// The stack on which the cell starts.
    pub stack: Place,
    /// Turns of the command loop without work after which the cell sleeps ([`EXIT_IDLE`]); 0: never.
    pub idle_turns: u64,
}

/// The state of a cell, as the cell tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// The cell has not come to its command loop yet.
    Starting,
    /// The cell is in its command loop.
    Ready,
    /// The cell has left its command loop as asked.
    Stopped,
    /// The cell has panicked.
    Panicked,
    /// The word has another value: the cell's memory has been destroyed.
    Unknown(u64),
}

const IDLE_TURNS: usize = 10;
const STATE: usize = 64;
const HEARTBEAT: usize = 80;
const APPLIED: usize = 96;
const MESSAGE: usize = 128;
const MESSAGE_BYTES_MAX: usize = 512;

/// A board in shared memory.
#[derive(Clone, Copy)]
pub struct Board<'a>(&'a [AtomicU64]);

impl<'a> Board<'a> {
    /// The board in these words. Panics: if they are fewer than [`WORDS`].
    pub fn over(words: &'a [AtomicU64]) -> Self {
        Board(&words[..WORDS])
    }

    fn get(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    fn put(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }

    /// Writes what the host tells; the magic word comes last.
    pub fn write(&self, boot: &Boot) {
        let Boot { commands, replies, heap, stack, idle_turns } = *boot;
        self.put(1, VERSION);
        for (at, place) in [commands, replies, heap, stack].iter().enumerate() {
            self.put(2 + 2 * at, place.address);
            self.put(3 + 2 * at, place.bytes);
        }
        self.put(IDLE_TURNS, idle_turns);
        self.put(STATE, 0);
        self.put(HEARTBEAT, 0);
        self.put(APPLIED, 0);
        self.put(0, MAGIC);
    }

    /// What the host has told. `None`: this is no board, or one of another version.
    pub fn read(&self) -> Option<Boot> {
        if (self.get(0), self.get(1)) != (MAGIC, VERSION) {
            return None;
        }
        let place =
            |at: usize| Place { address: self.get(2 + 2 * at), bytes: self.get(3 + 2 * at) };
        let idle_turns = self.get(IDLE_TURNS);
        let [commands, replies, heap, stack] = [0, 1, 2, 3].map(place);
        Some(Boot { commands, replies, heap, stack, idle_turns })
    }

    /// The cell's state.
    pub fn state(&self) -> CellState {
        match self.get(STATE) {
            0 => CellState::Starting,
            1 => CellState::Ready,
            2 => CellState::Stopped,
            3 => CellState::Panicked,
            other => CellState::Unknown(other),
        }
    }

    /// Tells the cell's state.
    pub fn set_state(&self, state: CellState) {
        self.put(
            STATE,
            match state {
                CellState::Starting => 0,
                CellState::Ready => 1,
                CellState::Stopped => 2,
                CellState::Panicked => 3,
                CellState::Unknown(other) => other,
            },
        );
    }

    /// The heartbeat: a count that a cell which lives keeps raising.
    pub fn heartbeat(&self) -> u64 {
        self.0[HEARTBEAT].load(Ordering::Relaxed)
    }

    /// Raises the heartbeat. Only the cell may.
    #[inline(always)]
    pub fn beat(&self) {
        let beat = &self.0[HEARTBEAT];
        beat.store(beat.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Sequence number of the last message that changed the cell and has been worked off.
    pub fn applied(&self) -> u64 {
        self.get(APPLIED)
    }

    /// Tells the sequence number of the last message that has been worked off.
    pub fn set_applied(&self, sequence: u64) {
        self.put(APPLIED, sequence);
    }

    /// Leaves the message of a panic, cut to 512 bytes.
    pub fn set_message(&self, message: &[u8]) {
        let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        for (at, part) in message.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.put(MESSAGE + 1 + at, u64::from_le_bytes(word));
        }
        self.put(MESSAGE, message.len() as u64);
    }

    /// The message of a panic; empty if there is none. Bytes that are no UTF-8 are replaced.
    pub fn message(&self) -> String {
        let bytes = usize::try_from(self.get(MESSAGE)).unwrap_or(0).min(MESSAGE_BYTES_MAX);
        let words = (0..bytes.div_ceil(8)).map(|at| self.get(MESSAGE + 1 + at).to_le_bytes());
        let text: Vec<u8> = words.flatten().take(bytes).collect();
        String::from_utf8_lossy(&text).into_owned()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn page() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn what_the_host_writes_is_what_the_cell_reads() {
        let page = page();
        let board = Board::over(&page);
        assert_eq!(board.read(), None);
        let place = |address| Place { address, bytes: address * 2 };
        let boot = Boot {
            commands: place(1),
            replies: place(2),
            heap: place(3),
            stack: place(4),
            idle_turns: 7,
        };
        board.write(&boot);
        assert_eq!(board.read(), Some(boot));
        page[1].store(VERSION + 1, Ordering::Relaxed);
        assert_eq!(board.read(), None);
    }

    #[test]
    fn states_and_messages_arrive_and_rubbish_is_told_as_such() {
        let page = page();
        let board = Board::over(&page);
        for state in [CellState::Ready, CellState::Stopped, CellState::Panicked] {
            board.set_state(state);
            assert_eq!(board.state(), state);
        }
        board.set_message("grüße".as_bytes());
        assert_eq!(board.message(), "grüße");
        board.set_message(&[b'x'; 2000]);
        assert_eq!(board.message().len(), MESSAGE_BYTES_MAX);
        page.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        assert_eq!(board.state(), CellState::Unknown(u64::MAX));
        assert_eq!(board.message().chars().next(), Some('\u{fffd}'));
        assert_eq!(board.read(), None);
    }
}
