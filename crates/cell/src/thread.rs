//! A cell that is a thread of this process.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use halcyon_cell_abi::board::{self, Boot, CellState, Place as Span};
use halcyon_cell_abi::ring;
use halcyon_cell_image::server::{Server, Surroundings, Turn};
use halcyon_machine::{affinity, schedule};
use halcyon_noise::tsc;

use crate::breaker::Breakable;
use crate::fault::{Fault, MachineFault};
use crate::layout::SLOTS;
use crate::memory::{Ends, Memory};
use crate::place::{Counters, Running, Settings};

/// What the thread and the host tell each other beside the rings.
#[derive(Default)]
struct Control {
    end: AtomicBool,
    /// The kernel's number of the thread; 0 before it has begun.
    thread_id: AtomicU32,
    fault: Mutex<Option<Fault>>,
}

impl Control {
    fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_fault(&self, fault: Fault) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }
}

/// A running thread with the command loop.
pub struct ThreadCell {
    ends: Ends,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    outside: Arc<Outside>,
}

/// The surroundings of the loop: as much heap as a machine of the same memory would have, and probes
/// that end the thread as a fault would end a machine.
struct Inside {
    control: Arc<Control>,
    heap_bytes: u64,
}

impl Surroundings for Inside {
    fn wait(&mut self) -> bool {
        std::thread::yield_now();
        !self.control.end.load(Ordering::Relaxed)
    }

    fn heap(&self) -> (u64, u64) {
        (0, self.heap_bytes)
    }

    fn probe(&mut self, address: u64) {
        let fault = MachineFault { exception: 14, address, ..MachineFault::default() };
        self.control.set_fault(Fault::Machine(Box::new(fault)));
        self.control.end.store(true, Ordering::Relaxed);
    }

    #[inline(always)]
    fn stamp(&self) -> u64 {
        tsc::stamp()
    }
}

/// What breaks the thread's loop from outside.
struct Outside {
    control: Arc<Control>,
    thread: Thread,
    memory: Arc<Memory>,
    replies: Span,
}

impl Breakable for Outside {
    fn end(&self, why: Fault) {
        self.control.set_fault(why);
        self.control.end.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }

    fn crash(&self) -> bool {
        false
    }

    fn scribble(&self, words: &[u64]) {
        self.memory.scribble_at(self.replies, 0, words);
    }
}

impl ThreadCell {
    pub fn start(settings: &Settings) -> Result<ThreadCell, String> {
        let ring_bytes = (ring::words_of(SLOTS) * 8) as u64;
        let board = Span { address: 0, bytes: board::WORDS as u64 * 8 };
        let commands = Span { address: board.bytes, bytes: ring_bytes };
        let replies =
            Span { address: (board.bytes + ring_bytes).next_multiple_of(4096), bytes: ring_bytes };
        let bytes = replies.address + replies.bytes;
        let memory = Memory::new(bytes as usize).map_err(|error| format!("memory: {error}"))?;
        let memory = Arc::new(memory);
        let broken = |error: ring::RingError| error.to_string();
        let ends = Ends::new(&memory, board, commands, replies).map_err(broken)?;
        let theirs = Ends::new(&memory, board, replies, commands).map_err(broken)?;
        let idle_turns = settings.idle_turns;
        ends.board().write(&Boot { commands, replies, idle_turns, ..Boot::default() });
        let control = Arc::new(Control::default());
        let (inside, settings) = (Arc::clone(&control), settings.clone());
        let body = move || run(theirs, &inside, &settings);
        let thread = std::thread::Builder::new().name("halcyon-cell".to_owned()).spawn(body);
        let thread = thread.map_err(|error| format!("a thread: {error}"))?;
        let outside = Arc::new(Outside {
            control: Arc::clone(&control),
            thread: thread.thread().clone(),
            memory,
            replies,
        });
        Ok(ThreadCell { ends, control, thread: Some(thread), outside })
    }
}

fn run(ends: Ends, control: &Arc<Control>, settings: &Settings) {
    control.thread_id.store(affinity::this_thread(), Ordering::Release);
    if let Some(cpu) = settings.cpu {
        let _ = affinity::set(&[cpu]);
    }
    if let Some(priority) = settings.fifo {
        let _ = schedule::set(schedule::Policy::Fifo(priority));
    }
    let (board, producer, consumer, _memory) = ends.into_parts();
    let inside = Inside { control: Arc::clone(control), heap_bytes: settings.memory_bytes };
    let mut server = Server::new(board, consumer, producer, inside);
    board.set_state(CellState::Ready);
    let mut idle = 0_u64;
    while !control.end.load(Ordering::Relaxed) {
        match server.turn() {
            Ok(Turn::Worked) => idle = 0,
            Ok(Turn::Idle) => {
                board.beat();
                idle += 1;
                std::hint::spin_loop();
                if settings.idle_turns != 0 && idle >= settings.idle_turns {
                    std::thread::park_timeout(Duration::from_millis(2));
                    // A few looks, and asleep again if there is nothing.
                    idle = settings.idle_turns.saturating_sub(64);
                }
            }
            Ok(Turn::Stopped) => return board.set_state(CellState::Stopped),
            Err(error) => return control.set_fault(Fault::Panicked(error.to_string())),
        }
    }
}

impl Running for ThreadCell {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn fault(&self) -> Option<Fault> {
        self.control.fault().or_else(|| {
            let ended = self.has_ended() && self.ends.board().state() != CellState::Stopped;
            ended.then_some(Fault::Ended)
        })
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn wake(&self) {
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }

    fn end(&mut self, why: Fault) {
        if !self.has_ended() {
            self.control.set_fault(why);
        }
        self.control.end.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            self.control.set_fault(Fault::Panicked("the thread of the cell".to_owned()));
        }
    }

    fn counters(&self) -> Option<Counters> {
        None
    }

    fn thread(&self) -> Option<u32> {
        Some(self.control.thread_id.load(Ordering::Acquire)).filter(|thread| *thread > 0)
    }

    fn breakable(&self) -> Arc<dyn Breakable> {
        Arc::clone(&self.outside) as Arc<dyn Breakable>
    }

    fn code(&self) -> Option<(&Memory, Span)> {
        None
    }
}

impl Drop for ThreadCell {
    fn drop(&mut self) {
        self.end(Fault::Killed);
    }
}
