//! Whether masks have an effect: a chase of pointers through half of the cache must become slower on a
//! processor that may fill a tenth of it.
//!
//! A kernel that takes a mask and gives it back has still said nothing about the cache. The chase is
//! trusted only if it can see the cache at all: half of the cache must answer within 40 % of the
//! time of memory, and the same within 5 % when it is asked again; else the effect is unclear.
//!
//! Lines that are in the cache are hit wherever they lie, so the cache is filled with other lines before
//! the chase under the mask.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use halcyon_base::rng::Rng;
use halcyon_machine::{Topology, affinity};

/// The slowest that half of the cache may be, as a share of memory's time.
const CACHE_SHARE_MAX: f64 = 0.4;
/// How far two chases of one kind may be apart.
const REPEAT_MAX: f64 = 0.05;
/// How much slower a chase under a mask is at least, if the mask works.
const EFFECT_MIN: f64 = 1.2;
/// Most bytes that stand for memory.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
const LINE_BYTES: u64 = 64;
/// Loads that are timed in a chase.
const LOADS: u64 = 400_000;

/// The effect of a mask, as a chase shows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The chase was slower under the mask.
    Seen {
        /// ns per load with the whole cache.
        whole_ns: f64,
        /// ns per load under the mask.
        masked_ns: f64,
    },
    /// The chase could see the cache, and was as fast under the mask.
    NotSeen {
        /// ns per load with the whole cache.
        whole_ns: f64,
        /// ns per load under the mask.
        masked_ns: f64,
    },
    /// The machine was too busy, or the cache cannot be told from memory.
    Unclear(String),
}

/// A chase through memory.
pub trait Chase {
    /// Size of the last-level cache of a processor, bytes.
    fn cache_bytes(&self, cpu: u32) -> io::Result<u64>;

    /// Time of a load, ns, where each load's address comes from the one before, on this processor, through
    /// this much memory, once the memory has been visited. `slot` tells buffers apart; the same slot is the same memory.
    fn load_ns(&mut self, cpu: u32, slot: usize, bytes: u64) -> io::Result<f64>;
}

/// What the chase shows on a processor that `mask` puts under the mask.
///
/// Errors: what `mask` says. A chase that fails makes the effect unclear.
pub fn effect_of<E>(
    chase: &mut dyn Chase,
    cpu: u32,
    mask: impl FnOnce() -> Result<(), E>,
) -> Result<Effect, E> {
    let unclear = |error: io::Error| Effect::Unclear(format!("the chase failed: {error}"));
    let (half, whole_ns) = match before(chase, cpu) {
        Ok(Ok(measured)) => measured,
        Ok(Err(why)) => return mask().map(|()| Effect::Unclear(why)),
        Err(error) => return mask().map(|()| unclear(error)),
    };
    mask()?;
    Ok(match chase.load_ns(cpu, 0, half) {
        Ok(masked_ns) if masked_ns >= whole_ns * EFFECT_MIN => Effect::Seen { whole_ns, masked_ns },
        Ok(masked_ns) => Effect::NotSeen { whole_ns, masked_ns },
        Err(error) => unclear(error),
    })
}

/// Bytes that are half of the cache and the time of a load in them, or why that cannot be told; the
/// cache is full of other lines afterwards.
fn before(chase: &mut dyn Chase, cpu: u32) -> io::Result<Result<(u64, f64), String>> {
    let cache = chase.cache_bytes(cpu)?;
    let half = cache / 2;
    let first = chase.load_ns(cpu, 0, half)?;
    let second = chase.load_ns(cpu, 0, half)?;
    let memory = chase.load_ns(cpu, 1, (cache * 4).min(MEMORY_BYTES_MAX).max(cache))?;
    let apart = (first - second).abs() / first.min(second).max(f64::MIN_POSITIVE);
    let whole = first.min(second);
    Ok(if whole > memory * CACHE_SHARE_MAX {
        Err(format!("half of the cache answers in {whole:.1} ns and memory in {memory:.1}"))
    } else if apart > REPEAT_MAX {
        Err(format!("two chases were {:.0} % apart", apart * 100.0))
    } else {
        Ok((half, whole))
    })
}

/// A chase on this machine, on threads of its own.
pub struct OnThisMachine {
    topology: Topology,
    buffers: [Vec<Line>; 2],
}

/// A line of the cache, which has the number of the next one.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(u32);

impl OnThisMachine {
    /// A chase that has touched no memory yet.
    pub fn new() -> OnThisMachine {
        OnThisMachine { topology: Topology::of_this_machine_or_flat(), buffers: [vec![], vec![]] }
    }
}

impl Default for OnThisMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl Chase for OnThisMachine {
    fn cache_bytes(&self, cpu: u32) -> io::Result<u64> {
        let last = self.topology.caches.iter().filter(|cache| cache.cpus.contains(&cpu));
        let last = last.max_by_key(|cache| cache.level).filter(|cache| cache.level >= 3);
        last.map(|cache| cache.bytes).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn load_ns(&mut self, cpu: u32, slot: usize, bytes: u64) -> io::Result<f64> {
        let lines = usize::try_from(bytes / LINE_BYTES).unwrap_or(usize::MAX);
        let buffer = &mut self.buffers[slot];
        if buffer.len() != lines {
            *buffer = circle(lines);
        }
        let timed = || -> io::Result<f64> {
            affinity::set(&[cpu])?;
            let warm = follow(buffer, 0, lines as u64);
            let began = Instant::now();
            black_box(follow(buffer, warm, LOADS));
            Ok(began.elapsed().as_nanos() as f64 / LOADS as f64)
        };
        std::thread::scope(|scope| scope.spawn(timed).join())
            .unwrap_or_else(|_| Err(io::Error::other("the thread of the chase panicked")))
    }
}

/// Lines in one circle that visits all of them in an order that no prefetcher foresees (Sattolo).
fn circle(count: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = (0..u32::try_from(count).unwrap_or(u32::MAX)).map(Line).collect();
    let mut random = Rng::new(1);
    for at in (1..lines.len()).rev() {
        let other = random.below(at as u64) as usize;
        lines.swap(at, other);
    }
    lines
}

fn follow(lines: &[Line], from: u32, loads: u64) -> u32 {
    let mut at = from;
    if !lines.is_empty() {
        for _ in 0..loads {
            at = lines[at as usize].0;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_visits_every_line_once_before_it_repeats() {
        for count in [1, 2, 3, 1000] {
            let lines = circle(count);
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                assert!(!std::mem::replace(&mut seen[at as usize], true), "{count}");
                at = follow(&lines, at, 1);
            }
            assert_eq!(at, 0);
        }
        assert_eq!(follow(&circle(0), 0, 9), 0);
    }

    #[test]
    fn a_chase_runs_on_this_machine() {
        let cpu = affinity::get().expect("affinity can be asked for")[0];
        let mut chase = OnThisMachine::new();
        let first = chase.load_ns(cpu, 0, 64 << 10).expect("an allowed processor");
        assert!(first > 0.0);
        assert!(chase.load_ns(4095, 0, 64 << 10).is_err(), "there is no such processor");
    }

    /// Times by slot and turn.
    struct Told {
        half: Vec<f64>,
        memory: f64,
    }

    impl Chase for Told {
        fn cache_bytes(&self, _: u32) -> io::Result<u64> {
            Ok(1 << 20)
        }

        fn load_ns(&mut self, _: u32, slot: usize, bytes: u64) -> io::Result<f64> {
            assert_eq!(bytes, [1 << 19, 1 << 22][slot]);
            match slot {
                0 if self.half.is_empty() => Err(io::ErrorKind::Other.into()),
                0 => Ok(self.half.remove(0)),
                _ => Ok(self.memory),
            }
        }
    }

    fn effect(half: &[f64], memory: f64) -> Effect {
        let mut chase = Told { half: half.to_vec(), memory };
        effect_of(&mut chase, 0, || Ok::<(), ()>(())).expect("the mask is taken")
    }

    #[test]
    fn an_effect_is_believed_only_where_the_cache_can_be_seen() {
        let seen = Effect::Seen { whole_ns: 20.0, masked_ns: 70.0 };
        assert_eq!(effect(&[20.0, 20.5, 70.0], 90.0), seen);
        let not_seen = Effect::NotSeen { whole_ns: 20.0, masked_ns: 21.0 };
        assert_eq!(effect(&[20.0, 20.5, 21.0], 90.0), not_seen);
        for (half, memory) in [
            (&[50.0, 50.0, 80.0][..], 90.0),
            (&[20.0, 30.0, 80.0], 90.0),
            (&[20.0, 20.0], 90.0),
            (&[], 90.0),
        ] {
            assert!(matches!(effect(half, memory), Effect::Unclear(_)), "{half:?}");
        }
    }

    #[test]
    fn a_mask_that_is_refused_ends_the_check() {
        let mut chase = Told { half: vec![20.0, 20.0], memory: 90.0 };
        assert_eq!(effect_of(&mut chase, 0, || Err("refused")), Err("refused"));
    }
}
