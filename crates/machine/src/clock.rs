//! The time-stamp counter: the cheapest clock there is (about 9 ns a reading in a guest).
//!
//! Words: a *tick* is one step of the counter. Ticks become nanoseconds by a rate that is measured
//! once per process against the monotonic clock ([`calibration`]).
//! On processors other than x86-64 a tick is a nanosecond of the monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The counter now. Not serialising: the processor may read it a few instructions early or late.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSC reads a register, has no operands and touches no memory; every x86-64
    // processor has it, and Linux leaves it enabled for user space.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        monotonic_ns()
    }
}

/// Nanoseconds of the monotonic clock since this process first asked.
pub fn monotonic_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// How ticks relate to time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Ticks in a microsecond.
    pub ticks_per_us: f64,
    /// Smallest difference other than zero of two readings in a row, ticks.
    pub step_ticks: u64,
    /// Usual (median) difference of two readings in a row: what a reading costs, ticks.
    pub read_ticks: u64,
    /// How far two independent measurements of the rate were apart, parts per million.
    pub spread_ppm: f64,
}

impl Calibration {
    /// Nanoseconds that `ticks` last.
    pub fn ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * 1000.0 / self.ticks_per_us) as u64
    }

    /// Ticks that `duration` lasts.
    pub fn ticks(&self, duration: Duration) -> u64 {
        (duration.as_nanos() as f64 * self.ticks_per_us / 1000.0) as u64
    }
}

/// The rate of [`ticks`], measured for about 20 ms on the first call and kept.
pub fn calibration() -> &'static Calibration {
    static MEASURED: OnceLock<Calibration> = OnceLock::new();
    MEASURED.get_or_init(calibrate)
}

fn calibrate() -> Calibration {
    let (first, second) = (rate(), rate());
    let mut differences: Vec<u64> = (0..1001)
        .map(|_| {
            let before = ticks();
            ticks().saturating_sub(before)
        })
        .collect();
    differences.sort_unstable();
    Calibration {
        ticks_per_us: (first + second) / 2.0,
        step_ticks: differences.iter().copied().find(|&d| d > 0).unwrap_or(1),
        read_ticks: differences[differences.len() / 2],
        spread_ppm: ((first - second) / first).abs() * 1e6,
    }
}

/// Ticks per microsecond over 10 ms. Each end is the tightest of several pairs of readings, so
/// that being interrupted between the two clocks does not count.
fn rate() -> f64 {
    fn pair() -> (u64, Instant) {
        let mut best = (u64::MAX, 0, Instant::now());
        for _ in 0..16 {
            let before = ticks();
            let at = Instant::now();
            let after = ticks();
            let width = after.saturating_sub(before);
            if width < best.0 {
                best = (width, before + width / 2, at);
            }
        }
        (best.1, best.2)
    }
    let (start_ticks, start) = pair();
    std::thread::sleep(Duration::from_millis(10));
    let (end_ticks, end) = pair();
    let elapsed_us = end.duration_since(start).as_nanos() as f64 / 1000.0;
    end_ticks.saturating_sub(start_ticks).max(1) as f64 / elapsed_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_agree_with_the_monotonic_clock() {
        let rate = calibration();
        let (start, start_ticks) = (Instant::now(), ticks());
        std::thread::sleep(Duration::from_millis(30));
        let (ticks, elapsed) = (ticks() - start_ticks, start.elapsed().as_nanos() as f64);
        let off = (rate.ns(ticks) as f64 - elapsed).abs() / elapsed;
        assert!(off < 0.05, "{} ns by ticks, {elapsed} ns by the clock", rate.ns(ticks));
        let second = Duration::from_secs(1);
        assert!((rate.ns(rate.ticks(second)) as i64 - 1_000_000_000).abs() < 1000);
        assert!(rate.step_ticks >= 1);
    }
}
