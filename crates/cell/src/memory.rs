//! Memory that a cell and its host share.

use std::io;
use std::sync::Arc;

use halcyon_cell_abi::board::{Board, Place};
use halcyon_cell_abi::ring::{self, Consumer, Producer, RingError};
use halcyon_cell_abi::{AtomicU64, shared};
use halcyon_machine::memory::{Region, Wanted};

/// A region of memory that is not the host's alone once the cell runs.
pub struct Memory {
    start: *mut u8,
    bytes: usize,
    /// Keeps the memory; never borrowed again after `new`.
    _region: Region,
}

// SAFETY: the pointer is to memory that the region owns, and is only used through atomic words once
// the value is shared (`Memory::write` takes it exclusively).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed memory, pre-faulted and on huge pages where there are some; locked if that is allowed.
    pub fn new(bytes: usize) -> io::Result<Memory> {
        let wanted = Wanted { huge: true, prefaulted: true, locked: true, node: None };
        let mut region = Region::new(bytes, wanted)?;
        Ok(Memory { start: region.as_mut_ptr(), bytes: region.len(), _region: region })
    }

    /// Address and size, for a machine that gets the memory.
    pub fn span(&self) -> (u64, u64) {
        (self.start as u64, self.bytes as u64)
    }

    /// Writes bytes before anybody else sees the memory. Panics: if they do not fit.
    pub fn write(&mut self, offset: u64, contents: &[u8]) {
        let offset = usize::try_from(offset).expect("offsets lie within the memory");
        let end = offset.checked_add(contents.len()).expect("offsets lie within the memory");
        assert!(end <= self.bytes, "contents fit the memory");
        // SAFETY: the range lies within the memory, which is this value's alone while it is borrowed
        // exclusively, and does not overlap the contents.
        unsafe {
            std::ptr::copy_nonoverlapping(
                contents.as_ptr(),
                self.start.add(offset),
                contents.len(),
            );
        }
    }

    /// The words at a place. Panics: if it does not lie within the memory, on whole words.
    pub fn words(&self, place: Place) -> &[AtomicU64] {
        let offset = usize::try_from(place.address).expect("places lie within the memory");
        let bytes = usize::try_from(place.bytes).expect("places lie within the memory");
        assert!(offset.is_multiple_of(8) && bytes.is_multiple_of(8), "places are whole words");
        let end = offset.checked_add(bytes).expect("places lie within the memory");
        assert!(end <= self.bytes, "places lie within the memory");
        // SAFETY: aligned and within the memory, which lives as long as this value; everything in this
        // program reads and writes it through atomic words from the first of these calls on.
        unsafe { shared::words(self.start.add(offset), bytes / 8) }
    }

    /// Overwrites bytes of a cell that runs, word by word: for tests of what a broken cell does.
    pub fn scribble(&self, place: Place, word: u64) {
        for at in self.words(place) {
            at.store(word, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Overwrites some words of a place: for tests of what a host makes of a broken cell.
    pub fn scribble_at(&self, place: Place, at: usize, words: &[u64]) {
        for (slot, word) in self.words(place).iter().skip(at).zip(words) {
            slot.store(*word, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The words at a place, for as long as something else keeps the memory.
    ///
    /// # Safety
    /// The caller keeps a handle of the memory for as long as it uses the words.
    unsafe fn words_kept(&self, place: Place) -> &'static [AtomicU64] {
        let words = self.words(place);
        // SAFETY: the caller keeps the memory; see above for the rest.
        unsafe { shared::words(words.as_ptr() as *mut u8, words.len()) }
    }
}

/// One side of the agreement: the board, a ring to write, and a ring to read.
pub struct Ends {
    board: Board<'static>,
    producer: Producer<'static>,
    consumer: Consumer<'static>,
    back: Place,
    /// Keeps what the others refer to; last, so that it goes last.
    memory: Arc<Memory>,
}

impl Ends {
    /// The side that writes to `out` and reads from `back`.
    ///
    /// Errors: a place has no size that a ring can have.
    pub fn new(
        memory: &Arc<Memory>,
        board: Place,
        out: Place,
        back: Place,
    ) -> Result<Ends, RingError> {
        let places = [board, out, back];
        // SAFETY: the value keeps a handle of the memory, and lends words only while it is borrowed.
        let words = unsafe { places.map(|place| memory.words_kept(place)) };
        let [board, out, theirs] = words;
        Ok(Ends {
            board: Board::over(board),
            producer: Producer::over(out)?,
            consumer: Consumer::over(theirs)?,
            back,
            memory: Arc::clone(memory),
        })
    }

    /// The board.
    pub fn board(&self) -> &Board<'_> {
        &self.board
    }

    /// The ring to write.
    pub fn producer(&mut self) -> &mut Producer<'static> {
        &mut self.producer
    }

    /// The ring to read.
    pub fn consumer(&mut self) -> &mut Consumer<'static> {
        &mut self.consumer
    }

    /// The place of the ring to read, and the memory.
    pub fn back(&self) -> (&Memory, Place) {
        (&self.memory, self.back)
    }

    /// The parts for the command loop, with what keeps them.
    pub fn into_parts(self) -> (Board<'static>, Producer<'static>, Consumer<'static>, Arc<Memory>) {
        (self.board, self.producer, self.consumer, self.memory)
    }
}

/// Asks whether a ring in the memory has something to read.
pub fn has_unread(memory: &Memory, place: Place) -> bool {
    ring::has_unread(memory.words(place))
}
