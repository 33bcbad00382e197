//! A cell in a virtual machine: one processor at the lowest privilege, one address space, no
//! interrupts, no devices but one port.
//!
//! The lowest privilege costs nothing and makes cells possible where KVM runs without support of the
//! processor, which interprets the highest one. The processor gets no table of interrupts, so each
//! fault is the last one: KVM gives the machine back, and its registers say what happened.
//! Threads: one runs the machine, one watches its heartbeat; both end with the value.

mod kick;
mod setup;
mod stats;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use halcyon_cell_abi::board::{
    self, Board, Boot, CellState, EXIT_IDLE, EXIT_PANICKED, EXIT_PORT, EXIT_STOPPED, Place as Span,
};
use halcyon_machine::counters::ThreadClock;
use halcyon_machine::{affinity, schedule};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::breaker::Breakable;
use crate::fault::Fault;
use crate::image::{self, IMAGE};
use crate::layout::{self, BOARD, Layout};
use crate::memory::{Ends, Memory, has_unread};
use crate::place::{Counters, NO_INSTRUCTION, Running, Settings};

use self::stats::Stats;

/// The board's place in the machine.
const BOARD_PLACE: Span = Span { address: BOARD, bytes: board::WORDS as u64 * 8 };
/// How often the heartbeat is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Whether machines can be had; the error says why not.
pub fn available() -> Result<(), String> {
    let kvm = Kvm::new().map_err(|error| format!("/dev/kvm cannot be opened: {error}"))?;
    match kvm.get_api_version() {
        12 => Ok(()),
        other => Err(format!("KVM speaks version {other} of its interface, not 12")),
    }
}

/// What the machine's thread, its watch and the host tell each other beside the rings.
#[derive(Default)]
struct Control {
    end: AtomicBool,
    ended: AtomicBool,
    sleeping: AtomicBool,
    /// The machine's thread, for signals; 0 before it has begun.
    thread_id: AtomicI32,
    clock: OnceLock<ThreadClock>,
    fault: Mutex<Option<Fault>>,
}

impl Control {
    fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_fault(&self, fault: Fault) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// Ends the machine, and returns when it has ended. A signal that comes before the thread is in
    /// the machine is lost, so signals are sent until the thread has seen that it shall end.
    fn force(&self, why: Fault, thread: &Thread) {
        if !self.ended.load(Ordering::Acquire) {
            self.set_fault(why);
        }
        self.end.store(true, Ordering::Release);
        while !self.ended.load(Ordering::Acquire) {
            kick::kick(self.thread_id.load(Ordering::Acquire));
            thread.unpark();
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// What breaks a machine from outside.
struct Outside {
    control: Arc<Control>,
    thread: Thread,
    memory: Arc<Memory>,
    code: Span,
    replies: Span,
}

impl Breakable for Outside {
    fn end(&self, why: Fault) {
        self.control.force(why, &self.thread);
    }

    fn crash(&self) -> bool {
        self.memory.scribble(self.code, NO_INSTRUCTION);
        true
    }

    fn scribble(&self, words: &[u64]) {
        self.memory.scribble_at(self.replies, 0, words);
    }
}

/// A running machine.
pub struct MachineCell {
    ends: Ends,
    memory: Arc<Memory>,
    control: Arc<Control>,
    stats: Option<Stats>,
    code: Span,
    machine: Option<JoinHandle<()>>,
    watch: Option<JoinHandle<()>>,
    outside: Arc<Outside>,
}

impl MachineCell {
    pub fn start(settings: &Settings) -> Result<MachineCell, String> {
        let image = image::parse(IMAGE).ok_or("the image of this build is broken")?;
        let layout = Layout::new(&image, settings.memory_bytes);
        let mut memory =
            Memory::new(layout.bytes as usize).map_err(|error| format!("memory: {error}"))?;
        for part in &image.segments {
            memory.write(part.address, part.contents);
        }
        memory.write(layout::TASK, &layout::task_segment(EXIT_PORT));
        let tables: Vec<u8> =
            layout.tables(&image).iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(layout::TABLES, &tables);
        let memory = Arc::new(memory);
        let ends = Ends::new(&memory, BOARD_PLACE, layout.commands, layout.replies)
            .map_err(|error| error.to_string())?;
        let Layout { commands, replies, heap, stack, .. } = layout;
        let idle_turns = settings.idle_turns;
        ends.board().write(&Boot { commands, replies, heap, stack, idle_turns });
        let processor = setup::processor(&memory, image.entry, layout.stack_end())
            .map_err(|error| format!("KVM: {error}"))?;
        // Before the machine runs: the kernel's call for it waits for the machine's processor.
        let stats = Stats::open(&processor);
        kick::prepare().map_err(|error| format!("a signal: {error}"))?;
        let code = image.segments.iter().find(|part| part.executable);
        let code = code.map(|part| Span { address: part.address, bytes: part.bytes & !7 });
        let control = Arc::new(Control::default());
        let begun = Begun {
            control: Arc::clone(&control),
            memory: Arc::clone(&memory),
            commands,
            settings: settings.clone(),
        };
        let machine = std::thread::Builder::new()
            .name("halcyon-cell".to_owned())
            .spawn(move || begun.run(processor))
            .map_err(|error| format!("a thread: {error}"))?;
        let code = code.unwrap_or_default();
        let outside = Arc::new(Outside {
            control: Arc::clone(&control),
            thread: machine.thread().clone(),
            memory: Arc::clone(&memory),
            code,
            replies,
        });
        let (machine, watch) = (Some(machine), None);
        let mut cell = MachineCell { ends, memory, control, stats, code, machine, watch, outside };
        cell.watch = Some(cell.watch(settings.hung_ns)?);
        Ok(cell)
    }

    /// Starts the thread that ends a machine whose heart does not beat although it has its processor.
    fn watch(&self, hung_ns: u64) -> Result<JoinHandle<()>, String> {
        let (control, memory) = (Arc::clone(&self.control), Arc::clone(&self.memory));
        let machine = self.machine.as_ref().map(|machine| machine.thread().clone());
        let machine = machine.ok_or("the machine has no thread")?;
        let body = move || {
            let mut last = (0, 0);
            while !control.ended.load(Ordering::Acquire) {
                std::thread::park_timeout(WATCH_EVERY);
                let beat = memory.board(BOARD_PLACE).heartbeat();
                let used = control.clock.get().and_then(|clock| clock.ns()).unwrap_or(last.1);
                if beat != last.0 || control.sleeping.load(Ordering::Relaxed) {
                    last = (beat, used);
                } else if used.saturating_sub(last.1) > hung_ns {
                    control.force(Fault::Hung, &machine);
                }
            }
        };
        let thread = std::thread::Builder::new().name("halcyon-cell-watch".to_owned());
        thread.spawn(body).map_err(|error| format!("a thread: {error}"))
    }
}

/// What the thread of a machine has.
struct Begun {
    control: Arc<Control>,
    memory: Arc<Memory>,
    commands: Span,
    settings: Settings,
}

impl Begun {
    fn run(self, mut processor: VcpuFd) {
        if let Some(cpu) = self.settings.cpu {
            let _ = affinity::set(&[cpu]);
        }
        if let Some(priority) = self.settings.fifo {
            let _ = schedule::set(schedule::Policy::Fifo(priority));
        }
        let _ = self.control.clock.set(ThreadClock::of_this_thread());
        let thread = i32::try_from(affinity::this_thread()).unwrap_or(0);
        self.control.thread_id.store(thread, Ordering::Release);
        while !self.control.end.load(Ordering::Acquire) {
            if let Some(fault) = self.turn(&mut processor) {
                fault.into_iter().for_each(|fault| self.control.set_fault(fault));
                break;
            }
        }
        self.control.ended.store(true, Ordering::Release);
    }

    /// Runs the machine until it wants something. `Some`: it has ended, with a fault or as asked.
    fn turn(&self, processor: &mut VcpuFd) -> Option<Option<Fault>> {
        const AGAIN: [i32; 2] = [libc::EINTR, libc::EAGAIN];
        let fault = match processor.run() {
            Ok(VcpuExit::IoOut(EXIT_PORT, &[EXIT_IDLE])) => {
                self.sleep();
                return None;
            }
            Ok(VcpuExit::IoOut(EXIT_PORT, &[EXIT_STOPPED])) => return Some(None),
            Ok(VcpuExit::IoOut(EXIT_PORT, &[EXIT_PANICKED])) => {
                Fault::Panicked(self.memory.board(BOARD_PLACE).message())
            }
            Ok(VcpuExit::Intr) => return None,
            Err(error) if AGAIN.contains(&error.errno()) => return None,
            Err(error) => Fault::Exit(error.to_string()),
            Ok(VcpuExit::Shutdown) => setup::fault(processor),
            Ok(other) => {
                let exit = format!("{other:?}");
                let Fault::Machine(state) = setup::fault(processor) else {
                    return Some(Some(Fault::Exit(exit)));
                };
                Fault::Exit(format!("{exit} at instruction {:#x}", state.instruction))
            }
        };
        Some(Some(fault))
    }

    /// Waits until there is a command. The host writes a command, then looks whether the machine
    /// sleeps; here it is the other way round, so one of both sees the other.
    fn sleep(&self) {
        self.control.sleeping.store(true, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        while !has_unread(&self.memory, self.commands) && !self.control.end.load(Ordering::Acquire)
        {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        self.control.sleeping.store(false, Ordering::SeqCst);
    }
}

impl Running for MachineCell {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    fn fault(&self) -> Option<Fault> {
        let ended = self.has_ended() && self.ends.board().state() != CellState::Stopped;
        self.control.fault().or(ended.then_some(Fault::Ended))
    }

    fn has_ended(&self) -> bool {
        self.control.ended.load(Ordering::Acquire)
    }

    #[inline]
    fn wake(&self) {
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.control.sleeping.load(Ordering::SeqCst) {
            self.machine.iter().for_each(|machine| machine.thread().unpark());
        }
    }

    fn end(&mut self, why: Fault) {
        if let Some(machine) = self.machine.take() {
            self.control.force(why, machine.thread());
            // The thread's body catches nothing and panics nowhere; either way it is over.
            let _ = machine.join();
        }
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            let _ = watch.join();
        }
    }

    fn counters(&self) -> Option<Counters> {
        self.stats.as_ref().and_then(Stats::read)
    }

    fn thread(&self) -> Option<u32> {
        u32::try_from(self.control.thread_id.load(Ordering::Acquire)).ok().filter(|id| *id > 0)
    }

    fn breakable(&self) -> Arc<dyn Breakable> {
        Arc::clone(&self.outside) as Arc<dyn Breakable>
    }

    fn code(&self) -> Option<(&Memory, Span)> {
        Some((&self.memory, self.code))
    }
}

impl Drop for MachineCell {
    fn drop(&mut self) {
        self.end(Fault::Killed);
    }
}

impl Memory {
    /// The board at a place.
    fn board(&self, place: Span) -> Board<'_> {
        Board::over(self.words(place))
    }
}
