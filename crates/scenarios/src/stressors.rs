//! Six stressors of our own, in the place of stress-ng's: each is a process that works until its input ends and then
//! prints how many operations it did.

use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::{Args, ValueEnum};
use halcyon_base::rng::Rng;

use halcyon_gauge::Result;

/// Options of the hidden command that is one stressor.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// What it does
    #[arg(value_enum)]
    pub kind: Kind,
}

/// What a stressor does over and over; the names are stress-ng's.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Binary searches of all values of a sorted array of 64 Ki
    Bsearch,
    /// Products of matrices of 64 × 64
    Matrix,
    /// Matches of a compressor over 64 KiB of text
    Zlib,
    /// Writes all over 4 MiB
    Cache,
    /// Writes and reads of a file, with a sync for each
    Iomix,
    /// Short sleeps, so timers
    Timer,
}

impl Kind {
    /// All, in stress-ng's order of the paper.
    pub const ALL: [Kind; 6] =
        [Kind::Bsearch, Kind::Matrix, Kind::Zlib, Kind::Cache, Kind::Iomix, Kind::Timer];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bsearch => "bsearch",
            Kind::Matrix => "matrix",
            Kind::Zlib => "zlib",
            Kind::Cache => "cache",
            Kind::Iomix => "iomix",
            Kind::Timer => "timer",
        }
    }
}

/// Works until the input ends, which it does when the process that asked ends; then prints the number of operations.
pub fn run(options: &Options) -> Result<()> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The kernel's trace tells threads by these names.
        let thread = std::thread::Builder::new().name(format!("stress-{}", options.kind.name()));
        let worker = thread.spawn_scoped(scope, || work(options.kind, || over.load(Relaxed)))?;
        let mut sink = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut sink);
        over.store(true, Relaxed);
        println!("{}", worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        Ok(())
    })
}

/// Does operations until it is over; their number.
fn work(kind: Kind, is_over: impl Fn() -> bool) -> Result<u64> {
    let mut operation = operation(kind)?;
    let mut done = 0;
    while !is_over() {
        operation()?;
        done += 1;
    }
    Ok(done)
}

type Operation = Box<dyn FnMut() -> Result<()>>;

fn operation(kind: Kind) -> Result<Operation> {
    let mut rng = Rng::new(1);
    Ok(match kind {
        Kind::Bsearch => {
            let values: Vec<u64> = (0..1 << 16).map(|at| at * 3).collect();
            Box::new(move || {
                let found =
                    values.iter().filter(|value| values.binary_search(value).is_ok()).count();
                black_box(found);
                Ok(())
            })
        }
        Kind::Matrix => {
            let matrix: Vec<f64> = (0..64 * 64).map(|_| rng.below(100) as f64).collect();
            let mut product = vec![0.0; 64 * 64];
            Box::new(move || {
                for (at, sum) in product.iter_mut().enumerate() {
                    *sum =
                        (0..64).map(|k| matrix[at / 64 * 64 + k] * matrix[k * 64 + at % 64]).sum();
                }
                black_box(&product);
                Ok(())
            })
        }
        Kind::Zlib => {
            let text: Vec<u8> = (0..1 << 16).map(|_| b"abcdefgh"[rng.below(8) as usize]).collect();
            Box::new(move || {
                black_box(matches(&text));
                Ok(())
            })
        }
        Kind::Cache => {
            let mut memory = vec![0_u64; 1 << 19];
            Box::new(move || {
                for _ in 0..1 << 14 {
                    let at = rng.below(1 << 19) as usize;
                    memory[at] = memory[at].wrapping_mul(3) + 1;
                }
                black_box(&memory);
                Ok(())
            })
        }
        Kind::Iomix => {
            let path = std::env::temp_dir().join(format!("halcyon-noise-{}", std::process::id()));
            let mut file = std::fs::File::options()
                .create(true)
                .truncate(true)
                .read(true)
                .write(true)
                .open(&path)?;
            // The file goes away with the process, however that ends.
            std::fs::remove_file(&path)?;
            let mut block = vec![7; 1 << 16];
            Box::new(move || {
                file.seek(SeekFrom::Start(rng.below(64) << 16))?;
                file.write_all(&block)?;
                file.sync_data()?;
                file.seek(SeekFrom::Start(0))?;
                file.read_exact(&mut block[..1])?;
                Ok(())
            })
        }
        Kind::Timer => Box::new(|| {
            std::thread::sleep(Duration::from_micros(100));
            Ok(())
        }),
    })
}

/// Length of all matches that a compressor of the family LZ77 finds with a table of the last place of four bytes.
fn matches(text: &[u8]) -> usize {
    let mut last = vec![usize::MAX; 1 << 12];
    let (mut at, mut matched) = (0, 0);
    while at + 4 <= text.len() {
        let word = u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
        let place = (word.wrapping_mul(0x9e37_79b1) >> 20) as usize;
        let before = std::mem::replace(&mut last[place], at);
        let length = match before {
            usize::MAX => 0,
            from => text[at..].iter().zip(&text[from..at]).take_while(|(a, b)| a == b).count(),
        };
        matched += if length >= 4 { length } else { 0 };
        at += length.max(1);
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn every_stressor_counts_its_operations() {
        for kind in Kind::ALL {
            let left = Cell::new(4);
            let done = work(kind, || {
                left.set(left.get() - 1);
                left.get() == 0
            });
            assert_eq!(done.expect("a machine with files"), 3, "{kind:?}");
            let parsed =
                Kind::from_str(kind.name(), false).expect("the command line knows the name");
            assert_eq!(parsed, kind);
        }
    }

    #[test]
    fn repeated_text_matches_and_text_without_repetition_does_not() {
        assert_eq!(matches(b"abcdefghabcdefgh"), 8);
        assert_eq!(matches(b"abcdefghijklmnop"), 0);
        assert_eq!(matches(b"abc"), 0);
    }
}
