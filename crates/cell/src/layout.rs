//! The memory of a machine: what lies where, and the tables of pages that say so to the processor.
//!
//! Everything is at the same address for the host's bookkeeping (an offset into the region) and in the
//! cell. Mapped are, for the lowest privilege alone: the task segment (to be read), the board, the
//! image by its segments, the stack with an unmapped page on either side, the rings, and the heap. Not
//! mapped are page 0, the tables themselves, and everything else, so a stray access ends the cell.

use halcyon_cell_abi::board::Place;
use halcyon_cell_abi::ring;

use crate::image::{ADDRESS_MAX, Loadable};

const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 2 << 20;

/// The task segment, whose bitmap opens one port.
pub const TASK: u64 = 0x1000;
/// The root of the tables of pages.
pub const TABLES: u64 = 0x2000;
const SMALL_TABLES: u64 = 0x8000;
/// The board.
pub const BOARD: u64 = 0x20000;
const STACK_BYTES: u64 = 1 << 20;
/// Slots of each ring.
pub const SLOTS: usize = 1 << 15;

/// The greatest memory of a cell, bytes: what four tables of large pages map.
pub const BYTES_MAX: u64 = 4 << 30;
/// The least memory of a cell, bytes: the image, the rings, and some heap.
pub const BYTES_MIN: u64 = 32 << 20;

/// Bits of an entry of a table: present, writable, for the lowest privilege, accessed, changed.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const USER: u64 = 4;
const TOUCHED: u64 = 0x60;
const LARGE: u64 = 0x80;
const NO_EXECUTE: u64 = 1 << 63;

/// What lies where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of the memory.
    pub bytes: u64,
    /// The stack, which grows down from its end.
    pub stack: Place,
    /// The ring of commands.
    pub commands: Place,
    /// The ring of replies.
    pub replies: Place,
    /// The heap.
    pub heap: Place,
}

/// Bytes of a ring.
const RING_BYTES: u64 = (ring::words_of(SLOTS) * 8) as u64;

impl Layout {
    /// Where things lie for this image in a memory of `bytes`, which is brought within the limits and
    /// to whole large pages.
    pub fn new(image: &Loadable<'_>, bytes: u64) -> Layout {
        let bytes = bytes.clamp(BYTES_MIN, BYTES_MAX).next_multiple_of(LARGE_PAGE);
        let image_end = image.segments.iter().map(|part| part.address + part.bytes).max();
        let stack = image_end.unwrap_or(ADDRESS_MAX).next_multiple_of(PAGE) + PAGE;
        let rings = (stack + STACK_BYTES + PAGE).next_multiple_of(LARGE_PAGE);
        let replies = (rings + RING_BYTES).next_multiple_of(PAGE);
        let heap = (replies + RING_BYTES).next_multiple_of(LARGE_PAGE);
        Layout {
            bytes,
            stack: Place { address: stack, bytes: STACK_BYTES },
            commands: Place { address: rings, bytes: RING_BYTES },
            replies: Place { address: replies, bytes: RING_BYTES },
            heap: Place { address: heap, bytes: bytes - heap },
        }
    }

    /// The end of the stack.
    pub fn stack_end(&self) -> u64 {
        self.stack.address + self.stack.bytes
    }

    /// The tables of pages, as words from [`TABLES`] on.
    pub fn tables(&self, image: &Loadable<'_>) -> Vec<u64> {
        let entry = |table: u64, number: u64| ((table - TABLES) / 8 + number) as usize;
        let small_tables = (self.commands.address / LARGE_PAGE) as usize;
        let words = entry(SMALL_TABLES, 0) + small_tables * 512;
        let mut tables = vec![0; words];
        let down = PRESENT | WRITABLE | USER | TOUCHED;
        let (root, second, third) = (TABLES, TABLES + PAGE, TABLES + 2 * PAGE);
        tables[entry(root, 0)] = second | down;
        for gib in 0..4 {
            tables[entry(second, gib)] = (third + gib * PAGE) | down;
        }
        for large in 0..self.bytes / LARGE_PAGE {
            tables[entry(third, large)] = match (large as usize) < small_tables {
                true => (SMALL_TABLES + large * PAGE) | down,
                false => (large * LARGE_PAGE) | down | LARGE | NO_EXECUTE,
            };
        }
        let mut map = |from: u64, to: u64, flags: u64| {
            for page in (from..to).step_by(PAGE as usize) {
                tables[entry(SMALL_TABLES, page / PAGE)] = page | PRESENT | USER | TOUCHED | flags;
            }
        };
        map(TASK, TASK + PAGE, NO_EXECUTE);
        map(BOARD, BOARD + PAGE, WRITABLE | NO_EXECUTE);
        map(self.stack.address, self.stack_end(), WRITABLE | NO_EXECUTE);
        for part in &image.segments {
            let writable = if part.writable { WRITABLE } else { 0 };
            let executable = if part.executable { 0 } else { NO_EXECUTE };
            map(part.address, part.address + part.bytes, writable | executable);
        }
        tables
    }
}

/// The task segment: 104 bytes, then a bit for each port, set for those that are shut.
pub fn task_segment(open: u16) -> [u8; 233] {
    let mut segment = [0; 233];
    segment[102..104].copy_from_slice(&104_u16.to_le_bytes());
    segment[104..].fill(0xff);
    segment[104 + usize::from(open / 8)] &= !(1 << (open % 8));
    segment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Segment;

    fn image() -> Loadable<'static> {
        let part = |address, bytes, writable, executable| Segment {
            address,
            bytes,
            contents: &[],
            writable,
            executable,
        };
        let segments = vec![
            part(0x10_0000, 0x16_2000, false, true),
            part(0x26_3000, 0x18_000, false, false),
            part(0x27_c000, 0x10_6000, true, false),
        ];
        Loadable { entry: 0x10_0020, segments }
    }

    /// What a processor finds at an address: the entry of the last table.
    fn walk(tables: &[u64], address: u64) -> Option<u64> {
        let at = |table: u64, number: u64| {
            let entry = *tables.get(((table - TABLES) / 8 + number) as usize)?;
            (entry & PRESENT != 0).then_some(entry)
        };
        let next = |entry: u64| entry & 0x000f_ffff_ffff_f000;
        let second = at(TABLES, address >> 39 & 511)?;
        let third = at(next(second), address >> 30 & 511)?;
        let entry = at(next(third), address >> 21 & 511)?;
        match entry & LARGE {
            0 => at(next(entry), address >> 12 & 511),
            _ => Some(entry),
        }
    }

    #[test]
    fn every_part_is_mapped_with_its_rights_and_nothing_else_is() {
        let image = image();
        let layout = Layout::new(&image, 64 << 20);
        let tables = layout.tables(&image);
        assert!(TABLES + tables.len() as u64 * 8 <= BOARD);
        let rights = |address: u64| {
            let entry = walk(&tables, address)?;
            assert_eq!(entry & USER, USER);
            assert_eq!(
                entry & 0x000f_ffff_ffff_f000,
                address & !(if entry & LARGE != 0 { LARGE_PAGE - 1 } else { PAGE - 1 })
            );
            Some((entry & WRITABLE != 0, entry & NO_EXECUTE == 0))
        };
        let expected = [
            (0, None),
            (TASK, Some((false, false))),
            (TABLES, None),
            (BOARD, Some((true, false))),
            (BOARD + PAGE, None),
            (0x10_0020, Some((false, true))),
            (0x26_3000, Some((false, false))),
            (0x27_c000, Some((true, false))),
            (layout.stack_end() - 8, Some((true, false))),
            (layout.stack_end(), None),
            (layout.stack_end() - STACK_BYTES - 8, None),
            (layout.commands.address, Some((true, false))),
            (layout.replies.address + RING_BYTES - 8, Some((true, false))),
            (layout.heap.address, Some((true, false))),
            (layout.bytes - 8, Some((true, false))),
            (layout.bytes, None),
            (BYTES_MAX, None),
        ];
        for (address, expected) in expected {
            assert_eq!(rights(address), expected, "{address:#x}");
        }
    }

    #[test]
    fn places_do_not_overlap_and_memory_stays_within_its_limits() {
        for (asked, given) in
            [(0, BYTES_MIN), (33 << 20, 34 << 20), (u64::MAX / 2, BYTES_MAX), (1 << 30, 1 << 30)]
        {
            let layout = Layout::new(&image(), asked);
            assert_eq!(layout.bytes, given);
            assert!(layout.stack_end() < layout.commands.address);
            assert!(layout.commands.address + layout.commands.bytes <= layout.replies.address);
            assert!(layout.replies.address + layout.replies.bytes <= layout.heap.address);
            assert_eq!(layout.heap.address + layout.heap.bytes, layout.bytes);
            assert!(layout.heap.bytes >= 16 << 20);
        }
    }

    #[test]
    fn the_task_segment_opens_one_port() {
        let segment = task_segment(0xf4);
        let is_open = |port: usize| segment[104 + port / 8] >> (port % 8) & 1 == 0;
        let open: Vec<usize> = (0..1024).filter(|port| is_open(*port)).collect();
        assert_eq!(open, [0xf4]);
        assert_eq!(segment[232], 0xff);
    }
}
