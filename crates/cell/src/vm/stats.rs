//! KVM's counters of a processor: a file that the kernel describes itself.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use kvm_ioctls::VcpuFd;

use crate::place::Counters;

/// `KVM_GET_STATS_FD`, which has no arguments.
const GET_STATS: libc::c_ulong = 0xaece;

/// The counters' file. It must be opened before the machine runs, since that call waits until the
/// processor leaves the machine; reading does not wait.
pub struct Stats {
    file: File,
    /// Name and place of each counter.
    counters: Vec<(String, u64)>,
}

impl Stats {
    /// Opens the counters of a processor. `None`: this kernel has none.
    pub fn open(processor: &VcpuFd) -> Option<Stats> {
        // SAFETY: the call takes no pointers, and gives a new descriptor or −1.
        let descriptor = unsafe { libc::ioctl(processor.as_raw_fd(), GET_STATS) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, so nobody else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let mut header = [0; 24];
        file.read_exact_at(&mut header, 0).ok()?;
        let word = |at: usize| u32_at(&header, at);
        let (name_bytes, count) = (word(4)? as usize, word(8)? as usize);
        let (described, data) = (u64::from(word(16)?), u64::from(word(20)?));
        if name_bytes > 256 || count > 4096 {
            return None;
        }
        let mut bytes = vec![0; count * (16 + name_bytes)];
        file.read_exact_at(&mut bytes, described).ok()?;
        Some(Stats { file, counters: parse(&bytes, name_bytes, data) })
    }

    /// The counters now. `None`: the file cannot be read.
    pub fn read(&self) -> Option<Counters> {
        let mut counters = Counters::default();
        for (name, at) in &self.counters {
            let mut value = [0; 8];
            self.file.read_exact_at(&mut value, *at).ok()?;
            counters.0.insert(name.clone(), u64::from_le_bytes(value));
        }
        Some(counters)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Names and places of the counters of one number each, out of the kernel's descriptions.
fn parse(bytes: &[u8], name_bytes: usize, data: u64) -> Vec<(String, u64)> {
    let one = |description: &[u8]| {
        // Flags (4 bytes), exponent (2), number of values (2), place (4), size of buckets (4), name.
        let values = u16::from_le_bytes(*description.get(6..)?.first_chunk()?);
        let place = u64::from(u32_at(description, 8)?);
        let name = description.get(16..)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        (values == 1).then(|| (name, data + place))
    };
    bytes.chunks(16 + name_bytes).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_and_cut_ones_are_left_out() {
        let mut one = vec![0; 16 + 8];
        (one[6], one[8]) = (1, 40);
        one[16..21].copy_from_slice(b"exits");
        let mut histogram = one.clone();
        histogram[6] = 20;
        let bytes = [&one[..], &histogram[..], &one[..10]].concat();
        assert_eq!(parse(&bytes, 8, 1000), [("exits".to_owned(), 1040)]);
    }
}
