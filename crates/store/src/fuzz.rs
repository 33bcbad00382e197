//! The loop of this crate's fuzzers: cases from seeds, for a set time.
//!
//! `HALCYON_FUZZ_SECONDS` sets the time (2 without it), `HALCYON_FUZZ_SEED` repeats one case.

use halcyon_base::clock;
use halcyon_base::rng::Rng;
use std::time::Duration;

const SECONDS: u64 = 2;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

/// Says on the way out of a panic how to repeat the case.
struct Repeat<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for Repeat<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Repeat { test, seed } = self;
            eprintln!("repeat with: HALCYON_FUZZ_SEED={seed} cargo test -p halcyon-store {test}");
        }
    }
}

/// Runs `case` with generators of ever new seeds until the time is over, at least once.
pub(crate) fn run(test: &str, case: impl Fn(&mut Rng)) {
    let one = |seed| {
        let repeat = Repeat { test, seed };
        case(&mut Rng::new(seed));
        drop(repeat);
    };
    if let Some(seed) = number("HALCYON_FUZZ_SEED") {
        return one(seed);
    }
    let seconds = number("HALCYON_FUZZ_SECONDS").unwrap_or(SECONDS);
    let end = clock::now().plus(Duration::from_secs(seconds));
    // Fixed seeds first, so that a run without time to spare is the same run every time.
    for seed in 0.. {
        one(seed);
        if clock::now() >= end {
            return;
        }
    }
}
