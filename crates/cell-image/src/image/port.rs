//! Ports: the way in which a cell tells its host, or an emulator, something.

use core::arch::asm;

use halcyon_cell_abi::board::{EXIT_PORT, SERIAL_PORT};

/// Writes a byte to a port.
fn out(port: u16, byte: u8) {
    // SAFETY: the instruction touches no memory. The host lets the image write to the two ports used
    // here; to any other port, it would fault.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack)) }
}

/// Tells the host why the cell cannot or need not go on.
pub fn tell(why: u8) {
    out(EXIT_PORT, why);
}

/// The serial line of an emulated machine.
pub struct Serial;

impl core::fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(|byte| out(SERIAL_PORT, byte));
        Ok(())
    }
}
