//! The image of a cell, and where its parts go: a reader for the one kind of file that our linker
//! script makes, 64-bit ELF with segments at fixed addresses.

/// The image that the build of this crate has made; empty where there are no cells.
#[cfg(not(miri))]
pub static IMAGE: &[u8] = include_bytes!(env!("HALCYON_CELL_IMAGE_FILE"));
#[cfg(miri)]
pub static IMAGE: &[u8] = &[];

/// A part of the image that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'f> {
    /// Address in the cell, a multiple of 4 KiB.
    pub address: u64,
    /// Size in the cell, bytes; what the file does not have is zero.
    pub bytes: u64,
    /// Contents.
    pub contents: &'f [u8],
    /// Whether the cell may write there.
    pub writable: bool,
    /// Whether the cell may execute what is there.
    pub executable: bool,
}

/// The parts of an image, and the address of its first instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loadable<'f> {
    pub entry: u64,
    pub segments: Vec<Segment<'f>>,
}

/// Addresses below which, and from which on, nothing of an image may lie.
const ADDRESS_MIN: u64 = 1 << 20;
pub const ADDRESS_MAX: u64 = 12 << 20;

fn number<const N: usize>(file: &[u8], at: usize) -> Option<u64> {
    let bytes: [u8; N] = file.get(at..at.checked_add(N)?)?.try_into().ok()?;
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes);
    Some(u64::from_le_bytes(wide))
}

/// The parts of an image. `None`: the file is no image whose parts fit between
/// 1 MiB and 12 MiB on pages of their own.
pub fn parse(file: &[u8]) -> Option<Loadable<'_>> {
    const LOAD: u64 = 1;
    // 64 bits, little-endian, an executable for x86-64.
    if file.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] || number::<2>(file, 18)? != 62 {
        return None;
    }
    let entry = number::<8>(file, 24)?;
    let table = usize::try_from(number::<8>(file, 32)?).ok()?;
    let (size, count) = (number::<2>(file, 54)? as usize, number::<2>(file, 56)? as usize);
    let mut segments: Vec<Segment<'_>> = Vec::new();
    for at in (0..count).map(|number| number * size) {
        let at = table.checked_add(at)?;
        if number::<4>(file, at)? != LOAD {
            continue;
        }
        let flags = number::<4>(file, at.checked_add(4)?)?;
        let offset = usize::try_from(number::<8>(file, at + 8)?).ok()?;
        let address = number::<8>(file, at + 16)?;
        let file_bytes = usize::try_from(number::<8>(file, at + 32)?).ok()?;
        let bytes = number::<8>(file, at + 40)?;
        let contents = file.get(offset..offset.checked_add(file_bytes)?)?;
        let begin = segments.last().map_or(ADDRESS_MIN, |last| last.address + last.bytes);
        let fits = address.is_multiple_of(4096)
            && address >= begin
            && address.checked_add(bytes)? <= ADDRESS_MAX
            && contents.len() as u64 <= bytes;
        if !fits {
            return None;
        }
        let (executable, writable) = (flags & 1 != 0, flags & 2 != 0);
        segments.push(Segment { address, bytes, contents, writable, executable });
    }
    let within = |part: &Segment<'_>| (part.address..part.address + part.bytes).contains(&entry);
    segments
        .iter()
        .any(|part| part.executable && within(part))
        .then_some(Loadable { entry, segments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn the_image_has_code_that_cannot_be_written_and_data_that_cannot_be_executed() {
        if IMAGE.is_empty() {
            eprintln!("skipped: this target has no cells, so there is no image");
            return;
        }
        let image = parse(IMAGE).expect("the image that was built");
        assert!(image.segments.len() >= 3);
        assert!(image.segments.iter().all(|part| !(part.writable && part.executable)));
        assert!(image.segments.iter().any(|part| part.writable));
    }

    #[test]
    fn files_that_are_changed_or_cut_are_refused_or_stay_within_bounds() {
        let mut header = vec![0_u8; 400];
        header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        header[18] = 62;
        header[24..32].copy_from_slice(&0x10_0000_u64.to_le_bytes());
        header[32] = 64;
        (header[54], header[56]) = (56, 1);
        (header[64], header[68]) = (1, 5);
        header[80..88].copy_from_slice(&0x10_0000_u64.to_le_bytes());
        (header[96], header[104]) = (100, 200);
        assert_eq!(parse(&header).expect("a small image").segments[0].bytes, 200);
        let mut rng = Rng::new(5);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..50_000 {
            let mut file = header.clone();
            for _ in 0..1 + rng.below(3) {
                let at = [rng.below(400), 64 + rng.below(56)][rng.below(2) as usize];
                file[at as usize] = rng.next_u64() as u8;
            }
            file.truncate(400 - rng.below(2) as usize * rng.below(300) as usize);
            match parse(&file) {
                None => bad += 1,
                Some(image) => {
                    good += 1;
                    for part in &image.segments {
                        assert!(part.address >= ADDRESS_MIN);
                        assert!(part.address + part.bytes <= ADDRESS_MAX);
                    }
                }
            }
        }
        assert!(good > 1000 && bad > 1000, "{good} {bad}");
    }
}
