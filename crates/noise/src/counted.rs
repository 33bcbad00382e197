//! What the kernel's counters of a thread tell of its outliers, where no trace can be had.
//!
//! Behind each outlier the thread reads `/proc/thread-self/schedstat` and `getrusage`, about a microsecond. The
//! differences say whether the thread waited for its processor, slept or faulted. Counters know no names of other
//! threads and no interrupts; the causes say so.

use crate::attribution::Attribution;
use crate::counters::Reading;
use crate::series::Series;
use crate::trace::join::{Bounds, OWN, is_own};
use crate::tsc::Tsc;

/// The outliers of a series by what counters told. `stamps`: the series' own; `why`: the reason why there is no trace.
pub fn attribute(
    series: &Series,
    stamps: &[u64],
    readings: &[Reading],
    bounds: Bounds<'_>,
    tsc: &Tsc,
    why: &str,
) -> Attribution {
    let bound_ticks = bounds.outlier_ticks;
    let asked = format!("counters of the thread, in place of a trace ({why})");
    let mut found = Attribution::new(asked, bound_ticks);
    let p50 = series.summary(bound_ticks).map_or(0, |summary| summary.p50);
    for (tuple, &gap) in series.ticks().iter().enumerate().filter(|(_, gap)| **gap > bound_ticks) {
        let at = readings.binary_search_by_key(&tuple, |reading| reading.tuple);
        let is_own = is_own(bounds.own_ticks, tuple, gap);
        let cause = at.ok().map(|at| name(&readings[at], tsc.us(gap) * 1000.0, is_own));
        found.add(cause, gap, gap.saturating_sub(p50), stamps[tuple + 1]);
    }
    found
}

/// The cause of an outlier of so many ns.
fn name(reading: &Reading, gap_ns: f64, is_own: bool) -> String {
    let waited = reading.waited_ns as f64 > gap_ns / 4.0;
    let name = match reading {
        _ if waited => "pre-empted, counters know not by whom",
        Reading { slept: 1.., .. } => "blocked",
        Reading { faults: 1.., .. } => "page fault",
        Reading { preempted: 1.., .. } => "pre-empted, counters know not by whom",
        _ if is_own => OWN,
        _ => "interrupt or below the kernel, counters know not which",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamps::Stamps;
    use std::time::Duration;

    fn bounds(outlier_ticks: u64) -> Bounds<'static> {
        Bounds { outlier_ticks, entry_ticks: 0, own_ticks: &[] }
    }

    #[test]
    fn an_outlier_that_was_watched_has_a_cause() {
        let tsc = Tsc::measure();
        let bound = tsc.ticks(2_000.0);
        let mut stamps = match Stamps::counting(100, bound) {
            Ok(stamps) => stamps,
            Err(error) => return eprintln!("skipped: no counters of a thread: {error}"),
        };
        stamps.begin();
        for tuple in 0..100 {
            if tuple == 40 {
                std::thread::sleep(Duration::from_millis(5));
            }
            stamps.stamp();
        }
        let series = Series::of(&stamps);
        let found = attribute(
            &series,
            stamps.all(),
            stamps.readings(),
            bounds(bound),
            &tsc,
            "a test needs none",
        );
        // On a busy machine the thread waits for its processor longer than it sleeps.
        let sleep = found.causes.values().any(|tally| tally.worst_ticks >= tsc.ticks(4_900.0));
        assert!(sleep, "{found:?}");
        assert_eq!(found.named_share(), 1.0, "{found:?}");
        assert!(found.asked.contains("in place of a trace (a test needs none)"));
    }

    #[test]
    fn causes_follow_from_what_was_counted() {
        let reading = |waited_ns, slept, preempted, faults| Reading {
            tuple: 0,
            waited_ns,
            slept,
            preempted,
            faults,
        };
        let cases = [
            (reading(900, 0, 1, 1), "pre-empted, counters know not by whom"),
            (reading(0, 1, 0, 0), "blocked"),
            (reading(10, 0, 0, 3), "page fault"),
            (reading(10, 0, 1, 0), "pre-empted, counters know not by whom"),
            (reading(0, 0, 0, 0), "interrupt or below the kernel, counters know not which"),
        ];
        for (reading, expected) in cases {
            assert_eq!(name(&reading, 1_000.0, false), expected);
        }
        assert_eq!(name(&reading(0, 0, 0, 0), 1_000.0, true), OWN);
    }

    #[test]
    fn an_outlier_without_a_reading_is_unknown() {
        let tsc = Tsc::measure();
        let series = Series::from_ticks(vec![1, 1, 50]);
        let found = attribute(&series, &[0, 1, 2, 52], &[], bounds(10), &tsc, "-");
        assert_eq!((found.unknown.count, found.unknown.last_at), (1, 52));
        assert_eq!(found.named_share(), 0.0);
    }
}
