//! The processor's counter: the same one that the host reads, since the machine has no offset of its own.

use core::arch::asm;

/// The counter now: every earlier instruction has ended, and no later one has begun.
#[inline(always)]
pub fn stamp() -> u64 {
    let (low, high): (u64, u64);
    // The image leaves the counter open to the lowest privilege (CR4.TSD is 0).
    // SAFETY: of every x86-64 processor; they write the two named registers alone, and no stack, flags or memory.
    unsafe {
        asm!(
            "lfence", "rdtsc", "lfence",
            out("rax") low, out("rdx") high,
            options(nostack, preserves_flags),
        );
    }
    high << 32 | low
}
