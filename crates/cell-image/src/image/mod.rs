//! The image: what a cell is from its first instruction on.
//!
//! One thread, one address space, no interrupts, no system calls: whatever goes wrong ends in a fault
//! that the host sees, or in a panic that is written on the board first.

mod boot;
mod bytes;
mod clock;
mod port;

use core::fmt::Write;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use halcyon_cell_abi::board::{
    self, Board, Boot, CellState, EXIT_IDLE, EXIT_PANICKED, EXIT_STOPPED, Place,
};
use halcyon_cell_abi::ring::{Consumer, Producer};
use halcyon_cell_abi::samples::Sample;
use halcyon_cell_abi::{AtomicU64, shared};
use halcyon_cell_image::heap::Heap;
use halcyon_cell_image::selftest;
use halcyon_cell_image::server::{Server, Surroundings, Turn};

#[global_allocator]
static HEAP: Heap = Heap::new();

/// Address of the board, for panics; 0 in a self-test.
static BOARD: AtomicUsize = AtomicUsize::new(0);

/// First address of the image (`cell.ld`).
const IMAGE_START: u64 = 0x10_0000;

/// Memory of a self-test: this much behind the image, which an emulator must have.
const SELFTEST_HEAP_BYTES: usize = 96 << 20;

/// The start of the image, on a stack, at the lowest privilege. `board`: its address, or 0 if there is
/// no host.
pub extern "C" fn cell_main(board: usize, image_end: usize) -> ! {
    if board == 0 {
        selftest_main(image_end);
    }
    BOARD.store(board, Ordering::Relaxed);
    let board = Board::over(words(Place { address: board as u64, bytes: 4096 }));
    let boot = board.read().expect("the host has written a board of this version");
    // The image's segments follow one another without a gap (`cell.ld`).
    let image = Place { address: IMAGE_START, bytes: image_end as u64 - IMAGE_START };
    for place in [image, boot.stack, boot.commands, boot.replies] {
        look_at(place);
    }
    serve(board, &boot)
}

/// The words of a region of which the host has told.
fn words(place: Place) -> &'static [AtomicU64] {
    // SAFETY: the host, which made this machine, has mapped the region for both sides, aligned to
    // pages, and it is no part of the heap, the stack or the image.
    unsafe { shared::words(place.address as *mut u8, place.bytes as usize / 8) }
}

fn serve(board: Board<'static>, boot: &Boot) -> ! {
    let heap = boot.heap;
    prefault(heap);
    // SAFETY: the host has mapped the region for the heap alone; there is one thread; this is the
    // first use of the heap.
    unsafe { HEAP.set(heap.address as *mut u8, heap.bytes as usize) };
    let commands = Consumer::over(words(boot.commands)).expect("the host's ring has a size");
    let replies = Producer::over(words(boot.replies)).expect("the host's ring has a size");
    let mut server = Server::new(board, commands, replies, Machine);
    board.set_state(CellState::Ready);
    let mut idle = 0_u64;
    loop {
        match server.turn().expect("the host keeps the rules of the ring") {
            Turn::Worked => idle = 0,
            Turn::Idle => {
                board.beat();
                idle += 1;
                core::hint::spin_loop();
                if boot.idle_turns != 0 && idle >= boot.idle_turns {
                    port::tell(EXIT_IDLE);
                    idle = 0;
                }
            }
            Turn::Stopped => break,
        }
    }
    board.set_state(CellState::Stopped);
    end(EXIT_STOPPED)
}

/// Reads a word of every page of a region, so that its page is there from now on.
fn look_at(place: Place) {
    for page in (place.address..place.address + place.bytes).step_by(4096) {
        // SAFETY: the region is mapped; the value is not used.
        unsafe { (page as *const u64).read_volatile() };
    }
}

/// Writes to every page of a region, so that no page fault happens later.
fn prefault(place: Place) {
    for page in (place.address..place.address + place.bytes).step_by(4096) {
        // SAFETY: the region is mapped, and nobody uses it yet.
        unsafe { (page as *mut u8).write_volatile(0) };
    }
}

/// The surroundings of the command loop: a machine of its own.
struct Machine;

impl Surroundings for Machine {
    fn wait(&mut self) -> bool {
        core::hint::spin_loop();
        true
    }

    fn heap(&self) -> (u64, u64) {
        HEAP.used()
    }

    fn probe(&mut self, address: u64) {
        // SAFETY: none is needed by anything here: the value is not used, and a fault is what the host
        // asked for.
        unsafe { (address as *const u8).read_volatile() };
    }

    #[inline(always)]
    fn stamp(&self) -> u64 {
        clock::stamp()
    }
}

fn selftest_main(image_end: usize) -> ! {
    // SAFETY: an emulator with enough memory has nothing behind the image; there is one thread; this is
    // the first use of the heap.
    unsafe { HEAP.set(image_end as *mut u8, SELFTEST_HEAP_BYTES) };
    for sample in Sample::ALL {
        let sum = selftest::run(sample).expect("nothing is refused");
        let _ = writeln!(port::Serial, "halcyon-cell {} {sum:#018x}", sample.name());
    }
    end(EXIT_STOPPED)
}

fn end(why: u8) -> ! {
    loop {
        port::tell(why);
    }
}

/// Text of a panic, in memory of its own.
struct Message {
    bytes: [u8; 512],
    used: usize,
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            if let Some(place) = self.bytes.get_mut(self.used) {
                *place = byte;
                self.used += 1;
            }
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut message = Message { bytes: [0; 512], used: 0 };
    let _ = write!(message, "{info}");
    match BOARD.load(Ordering::Relaxed) {
        0 => {
            let _ = writeln!(port::Serial, "halcyon-cell panicked: {info}");
        }
        address => {
            let bytes = board::WORDS as u64 * 8;
            let board = Board::over(words(Place { address: address as u64, bytes }));
            board.set_message(&message.bytes[..message.used]);
            board.set_state(CellState::Panicked);
        }
    }
    end(EXIT_PANICKED)
}

/// The compiled crates `core` and `alloc` name this function, although nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Panics end the cell, so nothing is ever unwound.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    end(EXIT_PANICKED)
}
