//! The negative control: a real-time policy without a shield, beside a thread of the ordinary policy that never rests.
//!
//! The kernel keeps some of every second for ordinary threads (the fair server since Linux 6.12, throttling of real-time
//! threads before), so a measured thread that wants all of its processor for longer than a second must show gaps of tens
//! of milliseconds. An instrument that does not show them measures nothing.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use halcyon_cell_image::plain::{Loop, Plain};
use halcyon_machine::{affinity, schedule};
use halcyon_noise::{Series, Stamps, Tsc};

use crate::measured::PRIORITY;
use halcyon_gauge::Result;

/// Steps of a tuple: some 4 µs, so that seconds fit into memory.
const STEPS: u32 = 2_000;
const CHUNK: usize = 10_000;

/// Runs for so many seconds with a hog on the same processor; the gaps.
pub fn run(cpu: u32, seconds: f64, tsc: &Tsc) -> Result<Series> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| hog(cpu, &over));
        let measured = scope.spawn(|| on_this_thread(cpu, seconds, tsc));
        let series = measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        over.store(true, Relaxed);
        series
    })
}

fn hog(cpu: u32, over: &AtomicBool) {
    if affinity::set(&[cpu]).is_ok() {
        while !over.load(Relaxed) {
            std::hint::spin_loop();
        }
    }
}

fn on_this_thread(cpu: u32, seconds: f64, tsc: &Tsc) -> Result<Series> {
    affinity::set(&[cpu])?;
    // No tuple is quicker than half a microsecond; memory that is not needed is not touched twice.
    let mut stamps = Stamps::new((seconds * 1e6) as usize + CHUNK);
    let mut work = Plain::Loop(Loop::new(STEPS));
    let end = tsc.ticks(seconds * 1e6);
    schedule::set(schedule::Policy::Fifo(PRIORITY))?;
    stamps.begin();
    while stamps.total_ticks() < end && stamps.room() >= CHUNK {
        work.run(CHUNK, || stamps.stamp());
    }
    schedule::set(schedule::Policy::Fair)?;
    Ok(Series::of(&stamps))
}
