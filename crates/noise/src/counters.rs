//! The kernel's counters of one thread, read behind each of its outliers.

use std::io;

use halcyon_machine::counters::{RunTimes, SchedStat, ThreadCounts};

/// Differences of counters since the outlier before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The tuple that was the outlier.
    pub tuple: usize,
    /// Time ready to run while something else had the processor, ns.
    pub waited_ns: u64,
    /// Number of times that the thread gave its processor away.
    pub slept: u64,
    /// Number of times that the thread's processor was taken away.
    pub preempted: u64,
    /// Page faults.
    pub faults: u64,
}

/// The counters of one thread, read behind each outlier.
#[derive(Debug)]
pub(crate) struct Counters {
    stat: SchedStat,
    last: (RunTimes, ThreadCounts),
    readings: Vec<Reading>,
}

/// Readings that have room without allocating.
const ROOM: usize = 1 << 16;

impl Counters {
    pub(crate) fn of_this_thread() -> io::Result<Counters> {
        let stat = SchedStat::of_this_thread()?;
        let last = (stat.read()?, ThreadCounts::now()?);
        Ok(Counters { stat, last, readings: Vec::with_capacity(ROOM) })
    }

    /// Reads the counters behind an outlier. A reading that fails is left out: the outlier is then unknown.
    pub(crate) fn read(&mut self, tuple: usize) {
        let (Ok(times), Ok(counts)) = (self.stat.read(), ThreadCounts::now()) else { return };
        let (times_before, before) = self.last;
        self.last = (times, counts);
        self.readings.push(Reading {
            tuple,
            waited_ns: times.waiting_ns - times_before.waiting_ns,
            slept: counts.voluntary_switches - before.voluntary_switches,
            preempted: counts.involuntary_switches - before.involuntary_switches,
            faults: counts.minor_faults + counts.major_faults
                - before.minor_faults
                - before.major_faults,
        });
    }

    pub(crate) fn clear(&mut self) {
        self.readings.clear();
        if let (Ok(times), Ok(counts)) = (self.stat.read(), ThreadCounts::now()) {
            self.last = (times, counts);
        }
    }

    pub(crate) fn readings(&self) -> &[Reading] {
        &self.readings
    }
}
