//! The layout of records in log files; docs/log-format.md describes the bytes.
//!
//! Words: the log is one stream of *frames*, each a header and a payload; a frame's place in the
//! stream is its LSN. A *file* holds a run of the stream behind a header of its own.
//! Invariant, checked by `a_frame_is_read_back_and_no_flipped_bit_passes`: a frame's checksum
//! covers its LSN, so bytes left over in a recycled file, or a frame that was written to a wrong
//! place, are never taken for the frame that belongs there.
//! Every frame also says up to where the log was durable when it was appended: a reader that finds
//! a broken frame and a later whole one knows from that whether the broken one was ever promised.

use super::Lsn;
use halcyon_base::crc32c;

/// Bytes of a frame before its payload.
pub(crate) const FRAME_HEADER: usize = 32;
/// Frames begin at multiples of this.
pub(crate) const ALIGN: usize = 8;
/// Bytes of a file before its first frame.
pub(crate) const FILE_HEADER: usize = 64;
/// Longest payload of one frame; a longer commit is several fragments.
pub(crate) const PAYLOAD_MAX: usize = 1 << 28;

const MAGIC: [u8; 8] = *b"HALCLOG\n";
/// Files of version 1 do not say how long they are, and had no manifest.
const VERSION: u32 = 2;

/// Folder of the log's files.
pub(crate) const FOLDER: &str = "log";

/// Name of the file that begins at `first`.
pub(crate) fn file_path(first: Lsn) -> String {
    format!("{FOLDER}/{:016x}.log", first.0)
}

/// The LSN that a file's name says it begins at; `None` for other files.
pub(crate) fn first_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(Lsn)
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A commit, or the last fragment of one.
    Commit,
    /// A part of a commit that the next frame goes on with.
    Fragment,
    /// The least value from which a sequence will go on.
    Sequence,
    /// Nothing but the durable LSN in its header.
    Mark,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        [
            None,
            Some(FrameKind::Commit),
            Some(FrameKind::Fragment),
            Some(FrameKind::Sequence),
            Some(FrameKind::Mark),
        ]
        .get(byte as usize)
        .copied()
        .flatten()
    }

    fn byte(self) -> u8 {
        match self {
            FrameKind::Commit => 1,
            FrameKind::Fragment => 2,
            FrameKind::Sequence => 3,
            FrameKind::Mark => 4,
        }
    }
}

/// Bytes that a frame with this payload takes.
pub(crate) fn frame_bytes(payload: usize) -> usize {
    FRAME_HEADER + payload.next_multiple_of(ALIGN)
}

/// Appends a frame to `out`. `payload_sum` is the payload's checksum, made before the LSN was known.
pub(crate) fn write(
    out: &mut Vec<u8>,
    kind: FrameKind,
    lsn: Lsn,
    durable: Lsn,
    payload: &[u8],
    payload_sum: u32,
) {
    debug_assert!(payload.len() <= PAYLOAD_MAX);
    let mut header = [0; FRAME_HEADER];
    header[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&lsn.0.to_le_bytes());
    header[16..24].copy_from_slice(&durable.0.to_le_bytes());
    header[24] = kind.byte();
    let sum = crc32c::append(payload_sum, &header[4..]);
    header[..4].copy_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    out.resize(out.len() + frame_bytes(payload.len()) - FRAME_HEADER - payload.len(), 0);
}

/// A frame that was found whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: FrameKind,
    /// LSN up to which the log was durable when the frame was appended.
    pub(crate) durable: Lsn,
    pub(crate) payload: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The frame at the start of `bytes`, if it is whole and belongs at `lsn`. Total: takes any bytes.
pub(crate) fn parse(bytes: &[u8], lsn: Lsn) -> Option<Frame<'_>> {
    let header = bytes.get(..FRAME_HEADER)?;
    // A cheap test that passes over nearly all bytes that are no frame.
    if u64_at(header, 8) != lsn.0 {
        return None;
    }
    let length = u32_at(header, 4) as usize;
    let payload = bytes.get(FRAME_HEADER..FRAME_HEADER.checked_add(length)?)?;
    let sum = crc32c::append(crc32c::crc32c(payload), &header[4..]);
    if length > PAYLOAD_MAX || sum != u32_at(header, 0) {
        return None;
    }
    let durable = Lsn(u64_at(header, 16));
    Some(Frame { kind: FrameKind::from_byte(header[24])?, durable, payload })
}

/// The whole frames in `bytes`, which begin at `from`, with their places: at any place where a frame may begin,
/// whether or not the frames before lead to it.
pub(crate) fn whole_frames(bytes: &[u8], from: Lsn) -> impl Iterator<Item = (Lsn, Frame<'_>)> {
    (0..bytes.len()).step_by(ALIGN).filter_map(move |offset| {
        let lsn = Lsn(from.0 + offset as u64);
        parse(&bytes[offset..], lsn).map(|frame| (lsn, frame))
    })
}

/// What a file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// The database's id.
    pub(crate) id: u128,
    /// LSN of the first frame.
    pub(crate) first: Lsn,
    /// Length of the file; 0 in files of version 1, which do not say it.
    pub(crate) bytes: u64,
    /// Whether the database has a manifest.
    pub(crate) listed: bool,
}

/// The header of a file of `bytes` that begins at `first`.
pub(crate) fn file_header(id: u128, first: Lsn, bytes: u64) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..32].copy_from_slice(&id.to_le_bytes());
    header[32..40].copy_from_slice(&first.0.to_le_bytes());
    header[40..48].copy_from_slice(&bytes.to_le_bytes());
    let sum = crc32c::crc32c(&header);
    header[12..16].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Reads a file's header. Errors: what is wrong with it.
pub(crate) fn parse_file_header(bytes: &[u8]) -> Result<FileHeader, &'static str> {
    let header = bytes.get(..FILE_HEADER).ok_or("it is shorter than its header")?;
    if header[..8] != MAGIC {
        return Err("it is no log file");
    }
    let version = u32_at(header, 8);
    if !(1..=VERSION).contains(&version) {
        return Err("it was written by another version");
    }
    let mut zeroed: [u8; FILE_HEADER] = header.try_into().expect("just cut");
    zeroed[12..16].fill(0);
    if crc32c::crc32c(&zeroed) != u32_at(header, 12) {
        return Err("the checksum of its header is wrong");
    }
    let id = u128::from_le_bytes(header[16..32].try_into().expect("sixteen bytes"));
    let listed = version > 1;
    Ok(FileHeader { id, first: Lsn(u64_at(header, 32)), bytes: u64_at(header, 40), listed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, FrameKind::Commit, Lsn(72), Lsn(64), payload, crc32c::crc32c(payload));
        out
    }

    #[test]
    fn a_frame_is_read_back_and_no_flipped_bit_passes() {
        for length in [0, 1, 8, 100] {
            let payload: Vec<u8> = (0..length).collect();
            let whole = frame(&payload);
            assert_eq!(whole.len(), frame_bytes(payload.len()));
            let expected = Frame { kind: FrameKind::Commit, durable: Lsn(64), payload: &payload };
            assert_eq!(parse(&whole, Lsn(72)), Some(expected));
            assert_eq!(parse(&whole, Lsn(80)), None);
            for bit in 0..(FRAME_HEADER + payload.len()) * 8 {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(parse(&flipped, Lsn(72)), None, "bit {bit}");
            }
            for cut in 0..FRAME_HEADER + payload.len() {
                assert_eq!(parse(&whole[..cut], Lsn(72)), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_file_header_is_read_back_and_no_flipped_bit_passes() {
        let header = file_header(u128::MAX - 5, Lsn(4096), 8192);
        let id = u128::MAX - 5;
        let expected = FileHeader { id, first: Lsn(4096), bytes: 8192, listed: true };
        assert_eq!(parse_file_header(&header), Ok(expected));
        for bit in 0..FILE_HEADER * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse_file_header(&flipped).is_err(), "bit {bit}");
        }
    }
}
