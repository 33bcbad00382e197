//! The clock of the stamps: the time-stamp counter, read in order with the instructions around it.
//!
//! `halcyon_machine::clock::ticks` reads the same counter without order: cheaper, and a few instructions early or late. A
//! stamp belongs to the end of one tuple and the start of the next, so here `lfence` stands before and behind the
//! reading. On processors other than x86-64 a tick is a nanosecond of the monotonic clock.

use halcyon_machine::clock::calibration;

/// The counter now, in order: every earlier instruction has ended, and no later one has begun.
#[inline(always)]
pub fn stamp() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let (low, high): (u64, u64);
        // SAFETY: the three instructions exist on every x86-64 processor, write the two named registers alone, use no
        // stack and leave flags and memory as they are; Linux leaves RDTSC enabled for user space.
        unsafe {
            core::arch::asm!(
                "lfence", "rdtsc", "lfence",
                out("rax") low, out("rdx") high,
                options(nostack, preserves_flags),
            );
        }
        high << 32 | low
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        halcyon_machine::clock::monotonic_ns()
    }
}

/// What the ticks of [`stamp`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The time-stamp counter. `invariant`: the processor says that its rate depends on no power state.
    Counter {
        /// Whether the rate is the same in every power state (CPUID leaf 0x80000007, EDX bit 8).
        invariant: bool,
    },
    /// Nanoseconds of the operating system's monotonic clock.
    Monotonic,
}

/// The clock of the stamps, measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tsc {
    /// What a tick is.
    pub source: Source,
    /// Ticks in a microsecond.
    pub ticks_per_us: f64,
    /// The step in which readings advance, ticks: every gap is a multiple.
    pub step_ticks: u64,
    /// What a stamp costs: the median of two in a row, ticks. Part of every gap.
    pub stamp_ticks: u64,
    /// How far two measurements of the rate were apart, parts per million.
    pub spread_ppm: f64,
}

impl Tsc {
    /// The clock of this machine; measured for about 20 ms.
    pub fn measure() -> Tsc {
        let rate = calibration();
        let readings: Vec<u64> = (0..4097).map(|_| stamp()).collect();
        let mut gaps: Vec<u64> =
            readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let step_ticks = gaps.iter().copied().fold(0, common_divisor).max(1);
        gaps.sort_unstable();
        Tsc {
            source: source(),
            ticks_per_us: rate.ticks_per_us,
            step_ticks,
            stamp_ticks: gaps[gaps.len() / 2],
            spread_ppm: rate.spread_ppm,
        }
    }

    /// Microseconds that `ticks` last.
    pub fn us(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_us
    }

    /// Ticks that so many microseconds last.
    pub fn ticks(&self, us: f64) -> u64 {
        (us * self.ticks_per_us) as u64
    }
}

/// The greatest number that divides both; the other one if one is zero.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn source() -> Source {
    use core::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    let has_power = __cpuid(0x8000_0000).eax >= POWER;
    Source::Counter { invariant: has_power && __cpuid(POWER).edx >> 8 & 1 == 1 }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn source() -> Source {
    Source::Monotonic
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn stamps_never_go_back_and_agree_with_the_rate() {
        let tsc = Tsc::measure();
        // Each stamp lies between two readings of the clock: being interrupted widens the bounds alone.
        let bracketed = || (Instant::now(), stamp(), Instant::now());
        let start = bracketed();
        let mut last = start.1;
        while start.0.elapsed().as_millis() < 20 {
            let now = stamp();
            assert!(now >= last);
            last = now;
        }
        let end = bracketed();
        let us = |from: Instant, to: Instant| to.duration_since(from).as_nanos() as f64 / 1e3;
        let (least, most) = (us(start.2, end.0), us(start.0, end.2));
        let stamped = tsc.us(end.1 - start.1);
        assert!((least * 0.95..=most * 1.05).contains(&stamped), "{least} {stamped} {most}");
        assert!(tsc.step_ticks >= 1 && tsc.stamp_ticks.is_multiple_of(tsc.step_ticks));
    }

    #[test]
    fn the_step_is_what_divides_all_gaps() {
        assert_eq!([52, 0, 78, 104].into_iter().fold(0, common_divisor), 26);
        assert_eq!([0, 0].into_iter().fold(0, common_divisor), 0);
    }
}
