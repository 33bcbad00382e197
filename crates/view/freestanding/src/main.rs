//! Counts rows per group in a view, without std, without a C library, with memory of its own.
//!
//! Exit status 0 if the view is right. Everything that the run time needs from outside is in this
//! file: an allocator and four functions on bytes.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec;
use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use halcyon_view::program::{
    CompareOp, Component, Derived, Expr, MapDecl, MapId, Program, Reg, Relation, RelationId,
    Statement, Trigger, Type,
};
use halcyon_view::{Engine, Options};

const GROUPS: u64 = 5000;
const HEAP_BYTES: usize = 16 << 20;

global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {run}", "ud2", run = sym run);

extern "C" fn run() -> ! {
    exit(if is_right() { 0 } else { 1 })
}

/// Inserts two rows for every group, deletes one of the two again for every second group, and
/// compares the view with what is left.
fn is_right() -> bool {
    let Ok(mut engine) = Engine::new(counts(), Options::default()) else { return false };
    let events = (0..3 * GROUPS).map(|number| (number % GROUPS, number < 2 * GROUPS));
    for (group, is_insert) in events {
        if is_insert || group % 2 == 0 {
            let weight = if is_insert { 1 } else { -1 };
            if engine.apply(RelationId(0), &[group], weight).is_err() {
                return false;
            }
        }
    }
    engine.check();
    let (mut rows, mut sum) = (0, 0);
    let mut changes = 0;
    let read = engine.for_each_row(|row| (rows, sum) = (rows + 1, sum + row[1]));
    let drained = engine.drain_changes(|_| changes += 1);
    read.is_ok() && drained.is_ok() && (rows, sum, changes) == (GROUPS, GROUPS * 3 / 2, GROUPS)
}

/// `SELECT k, count(*) FROM r GROUP BY k`
fn counts() -> Program {
    let register = |number| Expr::Reg(Reg(number));
    let is_there = Expr::Compare(
        CompareOp::Gt,
        Type::Int,
        alloc::boxed::Box::new(register(1)),
        alloc::boxed::Box::new(Expr::Int(0)),
    );
    let relation = |name: &str, columns, derived| Relation {
        name: name.into(),
        columns,
        source_columns: vec![0],
        never_null: vec![],
        derived,
    };
    let derived = Derived {
        map: MapId(0),
        registers: vec![Type::Int; 2],
        steps: vec![],
        exists: is_there,
        row: vec![register(0), register(1)],
    };
    let statement = Statement {
        comment: "".into(),
        steps: vec![],
        target: MapId(0),
        key: vec![register(0)],
        add: vec![register(1)],
        replace: false,
    };
    let map = MapDecl {
        name: "counts".into(),
        definition: "".into(),
        key: vec![Type::Int],
        payload: vec![Component::Int],
        ordered: false,
        slices: vec![],
    };
    let trigger = Trigger { registers: vec![Type::Int; 2], statements: vec![statement] };
    Program {
        relations: vec![
            relation("r", vec![Type::Int], None),
            relation("view", vec![Type::Int; 2], Some(derived)),
        ],
        maps: vec![map],
        triggers: vec![trigger, Trigger::default()],
        output: RelationId(1),
        ..Program::default()
    }
}

fn exit(status: i32) -> ! {
    // SAFETY: system call 60 of Linux on x86-64 ends the process; it touches no memory.
    unsafe { asm!("syscall", in("rax") 60, in("rdi") status, options(noreturn)) }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(101)
}

/// An allocator that gives memory out from front to back and never takes it back.
struct Heap {
    memory: UnsafeCell<[u8; HEAP_BYTES]>,
    used: AtomicUsize,
}

// SAFETY: every byte is given out once, by the atomic counter.
unsafe impl Sync for Heap {}

// SAFETY: blocks are within `memory`, aligned, and never overlap.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.memory.get() as usize;
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let start = (base + used).next_multiple_of(layout.align()) - base;
            let end = start + layout.size();
            if end > HEAP_BYTES {
                return core::ptr::null_mut();
            }
            match self.used.compare_exchange(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: `start` is within `memory`.
                Ok(_) => return unsafe { self.memory.get().cast::<u8>().add(start) },
                Err(now) => used = now,
            }
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: Heap =
    Heap { memory: UnsafeCell::new([0; HEAP_BYTES]), used: AtomicUsize::new(0) };

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's pointers are good for so many bytes; the instruction copies them.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _);
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= bytes {
        // SAFETY: nothing that is still to be read is written, going forwards.
        return unsafe { memcpy(to, from, bytes) };
    }
    let mut left = bytes;
    while left > 0 {
        left -= 1;
        // SAFETY: within the caller's bytes; backwards, as `to` lies behind `from`.
        unsafe { to.add(left).write_volatile(from.add(left).read()) };
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's pointer is good for so many bytes; the instruction fills them.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8);
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    for at in 0..bytes {
        // SAFETY: within the caller's bytes.
        let (a, b) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, bytes) }
}

/// The compiled crate `alloc` names this function, although nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Panics end the process, so nothing is ever unwound.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(102)
}
