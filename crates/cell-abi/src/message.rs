//! Messages: what stands in the rings.
//!
//! Messages that change a cell (a program, strings, events, a saved state) are numbered by the host,
//! one after the other from the one that loads the program; the cell refuses any other order. So the
//! host can send the same messages again to a cell that has been started anew, and the cell ends up
//! as the first one was: everything that it does follows from these messages alone. Questions
//! (read, save, report) carry a number of their own, which the answers repeat.

use alloc::string::String;
use alloc::vec::Vec;

/// Kinds of messages from the host to the cell.
pub mod command {
    /// A program, in parts: a word of flags, then bytes of [`crate::program::encode`], framed by
    /// [`super::pack`]. The number of its last part is the first of the sequence.
    pub const LOAD: u16 = 1;
    /// Flag of [`LOAD`]: the program's last part.
    pub const LOAD_LAST: u64 = 1;
    /// Flag of [`LOAD`]: a saved state follows, so the engine is not begun.
    pub const LOAD_RESTORES: u64 = 2;
    /// Strings that shall have numbers, framed by [`super::pack`] one after the other.
    pub const INTERN: u16 = 2;
    /// Events: [`crate::events`].
    pub const EVENTS: u16 = 3;
    /// Asks for all rows of the view.
    pub const READ: u16 = 4;
    /// Asks for everything that the cell knows.
    pub const SAVE: u16 = 5;
    /// A piece of what another cell with the same program has saved: the payload of one
    /// [`super::reply::SAVED`].
    pub const RESTORE: u16 = 6;
    /// The end of restoring; its number is the last one that the saved state had seen.
    pub const RESTORED: u16 = 7;
    /// Asks for a [`super::CellReport`].
    pub const REPORT: u16 = 8;
    /// Ends the cell.
    pub const STOP: u16 = 9;
    /// Reads the byte at an address, for tests of what a host tells of a fault.
    pub const PROBE: u16 = 10;
    /// Asks for an empty answer, to measure how long that takes.
    pub const PING: u16 = 11;
    /// Asks for the changes of rows since a position, or for all rows where the cell has not kept these:
    /// position, number of strings that the host knows.
    pub const CHANGES: u16 = 12;
    /// Events that take others back, as [`EVENTS`]; applied whatever memory the maps have.
    pub const TAKE_BACK: u16 = 13;
    /// Says that the host's rows are what the cell's are: changes noted so far are forgotten.
    pub const SETTLED: u16 = 14;
    /// Asks for the row of one group: number of strings that the host knows, words of the key.
    pub const ROW: u16 = 15;
    /// Asks for the strings behind those that the host knows, whose number is the payload.
    pub const STRINGS: u16 = 16;
    /// Events that the cell keeps and does not apply before a [`RUN`].
    pub const HOLD: u16 = 17;
    /// Applies events that are held, one after the other, with a reading of the counter at the end of each; payload:
    /// their number at most.
    pub const RUN: u16 = 18;
    /// Works through tuples of a workload without a program, with a reading of the counter at the end of each: number of the
    /// workload ([`super::work`]), number of tuples. Answered by an end with the workload's checksum.
    pub const WORK: u16 = 19;
    /// Asks for the readings of the last [`RUN`] or [`WORK`].
    pub const STAMPS: u16 = 20;
}

/// Kinds of messages from the cell to the host.
pub mod reply {
    /// The message of this number has been refused: code ([`super::Refusal`]), text.
    pub const REFUSED: u16 = 1;
    /// An event of the message of this number has been rejected: index, code, and nothing else has
    /// changed ([`super::rejection`]).
    pub const REJECTED: u16 = 2;
    /// Rows of the view: words of rows, one after the other.
    pub const ROWS: u16 = 3;
    /// Strings of the dictionary in the order of their numbers, framed by [`super::pack`].
    pub const STRINGS: u16 = 4;
    /// A piece of the saved state ([`crate::message::Saved`]).
    pub const SAVED: u16 = 5;
    /// The end of an answer; payload: the sequence number up to which the answer holds. Of an answer
    /// to [`super::command::CHANGES`] behind it: number of the cell's strings, 1 if the answer has all
    /// rows and not changes.
    pub const END: u16 = 6;
    /// A [`super::CellReport`].
    pub const REPORT: u16 = 7;
    /// Changed rows: their number, then for each flags, key, old row, new row.
    pub const CHANGED: u16 = 8;
    /// Readings of the counter, in order. The end of the answer has their number behind the sequence number.
    pub const STAMPS: u16 = 9;
    /// Flag of a changed row: there was one.
    pub const CHANGED_OLD: u64 = 1;
    /// Flag of a changed row: there is one.
    pub const CHANGED_NEW: u64 = 2;
}

/// Workloads that need no program.
pub mod work {
    /// A few steps of a generator of numbers in registers.
    pub const LOOP: u64 = 1;
    /// An update of a hash map.
    pub const MAP: u64 = 2;
}

/// The header of a message: two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message's kind: see [`command`] and [`reply`].
    pub kind: u16,
    /// Words of the payload.
    pub words: u32,
    /// Sequence number, or number of a question.
    pub number: u64,
}

impl Header {
    /// Words of a header.
    pub const WORDS: usize = 2;

    /// The header as words.
    pub fn encode(self) -> [u64; 2] {
        [u64::from(self.kind) | u64::from(self.words) << 32, self.number]
    }

    /// The header in these words; every word is one.
    pub fn decode(words: [u64; 2]) -> Header {
        Header { kind: words[0] as u16, words: (words[0] >> 32) as u32, number: words[1] }
    }
}

/// Why a cell refuses a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The message's kind is unknown, or its payload no such message.
    Malformed,
    /// The message does not follow the one before.
    OutOfOrder,
    /// There is no program yet.
    NoProgram,
    /// The program cannot be read, or breaks a rule; the text says where.
    Program,
    /// The view's maps have reached the limit of memory: the events have not been applied.
    Memory,
    /// An expression of the view failed while rows were made.
    Rows,
    /// A code that this version does not know.
    Unknown(u64),
}

impl Refusal {
    /// The code that stands in a message.
    pub fn code(self) -> u64 {
        match self {
            Self::Malformed => 1,
            Self::OutOfOrder => 2,
            Self::NoProgram => 3,
            Self::Program => 4,
            Self::Memory => 5,
            Self::Rows => 6,
            Self::Unknown(code) => code,
        }
    }

    /// The refusal of a code.
    pub fn of(code: u64) -> Refusal {
        match code {
            1 => Self::Malformed,
            2 => Self::OutOfOrder,
            3 => Self::NoProgram,
            4 => Self::Program,
            5 => Self::Memory,
            6 => Self::Rows,
            other => Self::Unknown(other),
        }
    }
}

/// Codes of errors for which a cell rejects a single event.
pub mod rejection {
    use halcyon_view::{ApplyError, EvalError};

    /// The code of an error.
    pub fn code(error: &ApplyError) -> u64 {
        match error {
            ApplyError::Eval(EvalError::Overflow) => 1,
            ApplyError::Eval(EvalError::OutOfRange) => 2,
            ApplyError::Eval(EvalError::DivisionByZero) => 3,
            ApplyError::MemoryBudget { .. } => 4,
            _ => 5,
        }
    }

    /// The error of a code, for people.
    pub fn text(code: u64) -> &'static str {
        match code {
            1 => "integer out of range",
            2 => "floating-point value out of range",
            3 => "division by zero",
            4 => "the view's maps would exceed their memory",
            _ => "a function of the view's program failed",
        }
    }
}

/// What a cell says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellReport {
    /// Sequence number of the last message that has been worked off.
    pub applied: u64,
    /// Events that have been applied.
    pub events: u64,
    /// Events that have been rejected.
    pub rejected: u64,
    /// Entries of all maps.
    pub entries: u64,
    /// Memory of maps and strings, bytes.
    pub map_bytes: u64,
    /// Memory that the cell's heap has given out so far, bytes.
    pub heap_bytes: u64,
    /// Memory of the cell's heap, bytes.
    pub heap_bytes_max: u64,
}

impl CellReport {
    /// The report as words.
    pub fn encode(&self) -> [u64; 7] {
        let CellReport {
            applied,
            events,
            rejected,
            entries,
            map_bytes,
            heap_bytes,
            heap_bytes_max,
        } = *self;
        [applied, events, rejected, entries, map_bytes, heap_bytes, heap_bytes_max]
    }

    /// The report in these words; `None`: they are too few.
    pub fn decode(words: &[u64]) -> Option<CellReport> {
        let [applied, events, rejected, entries, map_bytes, heap_bytes, heap_bytes_max] =
            *words.first_chunk::<7>()?;
        let report = CellReport {
            applied,
            events,
            rejected,
            entries,
            map_bytes,
            heap_bytes,
            heap_bytes_max,
        };
        Some(report)
    }
}

/// A piece of a saved state: its payload begins with one of these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Strings follow, framed by [`pack`], in the order of their numbers.
    Strings,
    /// Entries of this map follow: words of the key, words of the sums, one entry after the other.
    Map(u16),
    /// Events follow that are held and were not run yet.
    Held,
}

/// The word at which a piece of held events begins: none that stands for a map.
const HELD: u64 = 1 << 32;

impl Saved {
    /// The word at which the piece begins.
    pub fn encode(self) -> u64 {
        match self {
            Self::Strings => 0,
            Self::Map(map) => 1 + u64::from(map),
            Self::Held => HELD,
        }
    }

    /// The piece that begins with a word.
    pub fn decode(word: u64) -> Option<Saved> {
        match word {
            0 => Some(Self::Strings),
            HELD => Some(Self::Held),
            map => u16::try_from(map - 1).ok().map(Self::Map),
        }
    }
}

/// Appends bytes to words: their number, then eight to a word.
pub fn pack(bytes: &[u8], words: &mut Vec<u64>) {
    words.push(bytes.len() as u64);
    words.extend(bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    }));
}

/// Takes bytes that [`pack`] has put there from the front of words. `None`: there are not so many.
pub fn unpack(words: &mut &[u64]) -> Option<Vec<u8>> {
    let (&bytes, rest) = words.split_first()?;
    let bytes = usize::try_from(bytes).ok()?;
    let packed = rest.get(..bytes.div_ceil(8))?;
    *words = &rest[packed.len()..];
    let mut found: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).collect();
    found.truncate(bytes);
    Some(found)
}

/// Takes a string. `None`: there is none, or it is no UTF-8.
pub fn unpack_text(words: &mut &[u64]) -> Option<String> {
    String::from_utf8(unpack(words)?).ok()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use alloc::vec;
    use halcyon_base::rng::Rng;

    #[test]
    fn headers_refusals_reports_and_saved_pieces_survive_their_words() {
        let header = Header { kind: 513, words: 77, number: u64::MAX };
        assert_eq!(Header::decode(header.encode()), header);
        for code in 0..9 {
            assert_eq!(Refusal::of(code).code(), code);
        }
        let report =
            CellReport { applied: 1, events: 2, heap_bytes_max: 9, ..CellReport::default() };
        assert_eq!(CellReport::decode(&report.encode()), Some(report));
        assert_eq!(CellReport::decode(&report.encode()[1..]), None);
        for piece in [Saved::Strings, Saved::Map(0), Saved::Map(u16::MAX), Saved::Held] {
            assert_eq!(Saved::decode(piece.encode()), Some(piece));
        }
        assert_eq!(Saved::decode(u64::MAX), None);
    }

    #[test]
    fn bytes_survive_their_words_and_random_words_do_no_harm() {
        let mut words = vec![];
        let texts = ["", "a", "12345678", "grüße und mehr"];
        texts.iter().for_each(|text| pack(text.as_bytes(), &mut words));
        let mut rest = &words[..];
        for text in texts {
            assert_eq!(unpack_text(&mut rest).as_deref(), Some(text));
        }
        assert_eq!(unpack(&mut rest), None);
        let mut rng = Rng::new(4);
        for _ in 0..1000 {
            let words = [rng.next_u64() >> (8 * rng.below(8)), rng.next_u64(), rng.next_u64()];
            let _ = unpack_text(&mut &words[..]);
        }
    }
}
