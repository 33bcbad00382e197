//! A machine's processor: its registers at the start, and what they say at the end.

use std::os::fd::AsRawFd;

use kvm_bindings::{
    KVM_CAP_X86_DISABLE_EXITS, KVM_MAX_CPUID_ENTRIES, KVM_X86_DISABLE_EXITS_HLT,
    KVM_X86_DISABLE_EXITS_PAUSE, kvm_device_attr, kvm_enable_cap, kvm_regs, kvm_segment,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuFd};

use crate::fault::{Fault, MachineFault};
use crate::layout::{BOARD, TABLES, TASK};
use crate::memory::Memory;

type Result<T> = std::result::Result<T, kvm_ioctls::Error>;

/// A segment at the lowest privilege that spans everything.
fn segment(selector: u16, kind: u8, is_code: bool) -> kvm_segment {
    kvm_segment {
        limit: u32::MAX,
        selector,
        type_: kind,
        present: 1,
        dpl: 3,
        db: u8::from(!is_code),
        s: 1,
        l: u8::from(is_code),
        g: 1,
        ..kvm_segment::default()
    }
}

/// A machine with this memory, and its processor before the first instruction.
pub fn processor(memory: &Memory, entry: u64, stack_end: u64) -> Result<VcpuFd> {
    let kvm = Kvm::new()?;
    let machine = kvm.create_vm()?;
    // Loops that wait shall not leave the machine. Kernels that cannot do so refuse, and then a wait
    // may cost an exit.
    let wanted = KVM_X86_DISABLE_EXITS_HLT | KVM_X86_DISABLE_EXITS_PAUSE;
    let can = machine.check_extension_raw(KVM_CAP_X86_DISABLE_EXITS.into());
    let exits = u64::from(wanted) & u64::try_from(can).unwrap_or(0);
    if exits != 0 {
        let cap = KVM_CAP_X86_DISABLE_EXITS;
        let _ = machine.enable_cap(&kvm_enable_cap {
            cap,
            args: [exits, 0, 0, 0],
            ..Default::default()
        });
    }
    let (userspace_addr, memory_size) = memory.span();
    let region = kvm_userspace_memory_region { userspace_addr, memory_size, ..Default::default() };
    // SAFETY: the memory lives longer than the machine, since the machine's thread, which owns the
    // processor and with it the machine, keeps a handle; no other region overlaps.
    unsafe { machine.set_user_memory_region(region)? };
    let processor = machine.create_vcpu(0)?;
    processor.set_cpuid2(&kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?)?;
    share_counter(&processor);
    let mut special = processor.get_sregs()?;
    special.cs = segment(0x13, 11, true);
    let data = segment(0x1b, 3, false);
    (special.ds, special.es, special.ss) = (data, data, data);
    (special.fs, special.gs) = (data, data);
    // The task segment, for its bitmap of ports alone: an instruction for a port at this privilege is
    // allowed by nothing else on every kind of KVM.
    special.tr = kvm_segment {
        base: TASK,
        limit: 232,
        selector: 0x20,
        type_: 11,
        present: 1,
        ..kvm_segment::default()
    };
    (special.gdt.base, special.gdt.limit) = (0, 0);
    (special.idt.base, special.idt.limit) = (0, 0);
    special.cr3 = TABLES;
    // Protected mode, paging, write protection, SSE; EFER: long mode, on, and pages without execution.
    (special.cr0, special.cr4) = (0x8001_0033, 0x620);
    special.efer = 0x100 | 0x400 | 0x800;
    processor.set_sregs(&special)?;
    processor.set_regs(&kvm_regs {
        rip: entry,
        rsp: stack_end,
        rdi: BOARD,
        rflags: 2,
        ..kvm_regs::default()
    })?;
    Ok(processor)
}

/// `KVM_SET_DEVICE_ATTR`, which the interface's crate offers for other processors alone.
const SET_ATTRIBUTE: libc::c_ulong = 0x4018_aee1;
/// The group and the attribute of the counter's offset (`KVM_VCPU_TSC_CTRL`, `KVM_VCPU_TSC_OFFSET`).
const COUNTER_OFFSET: (u32, u64) = (0, 0);

/// Makes the counter that the cell reads the host's, so that readings of both can be compared. A kernel that cannot do so
/// leaves the machine a counter of its own, which readings of the host on either side of a run show.
fn share_counter(processor: &VcpuFd) {
    let offset = 0_u64;
    let (group, attr) = COUNTER_OFFSET;
    let addr = std::ptr::from_ref(&offset).expose_provenance() as u64;
    let attribute = kvm_device_attr { flags: 0, group, attr, addr };
    // SAFETY: the kernel reads the attribute and the number that it points to, both of which live until the call returns.
    unsafe { libc::ioctl(processor.as_raw_fd(), SET_ATTRIBUTE, std::ptr::from_ref(&attribute)) };
}

/// What the registers say of a processor that has stopped.
pub fn fault(processor: &VcpuFd) -> Fault {
    let state = || -> Result<MachineFault> {
        let (regs, special) = (processor.get_regs()?, processor.get_sregs()?);
        let events = processor.get_vcpu_events()?;
        Ok(MachineFault {
            exception: events.exception.nr,
            address: special.cr2,
            instruction: regs.rip,
            stack: regs.rsp,
            registers: [
                regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp, regs.r8,
                regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
            ],
        })
    };
    match state() {
        Ok(state) => Fault::Machine(Box::new(state)),
        Err(error) => Fault::Exit(format!("its registers cannot be read: {error}")),
    }
}
