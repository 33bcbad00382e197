//! Cores with clocks that share a cache and a memory.
//!
//! Time of a step: the processor's own work, and for every touch that misses the core's private
//! cache the time of the shared cache or of memory, divided by how many loads are in flight. Memory is a
//! fluid queue: lines wait while more are asked for than the bandwidth carries. The cores advance by quanta,
//! so that their touches of the shared cache mix. Private caches replace the least recently used line, the
//! shared one by its policy. With translation a page that a core's buffer does not know costs a walk: its
//! entry is fetched through the same caches.
//!
//! A core that has two jobs runs each for a millisecond in turn.

use std::ops::Range;

use super::cache::{Cache, Found};
use super::patterns::{LINE_BYTES, Pattern, Touch};
use super::policy::Policy;
use super::translation::Translation;
use crate::mask::Mask;

/// Length of a quantum, ns.
const QUANTUM_NS: f64 = 50.0;
/// Time that a job has a core before the core's other job has it, ns.
const SLICE_NS: f64 = 1e6;

/// Sizes and times of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Hardware {
    /// Bytes of the shared cache.
    pub cache_bytes: u64,
    /// Ways of the shared cache.
    pub ways: u32,
    /// How the shared cache chooses the line that gives its place.
    pub policy: Policy,
    /// Translation of addresses; without, it costs nothing.
    pub translation: Option<Translation>,
    /// Whether a line that leaves the shared cache leaves the cores' caches too.
    pub inclusive: bool,
    /// Bytes of each core's private cache.
    pub private_bytes: u64,
    /// Ways of the private cache.
    pub private_ways: u32,
    /// Time of a load from the shared cache, ns.
    pub cache_ns: f64,
    /// Time of a load from memory that is not busy, ns.
    pub memory_ns: f64,
    /// Bandwidth of memory, bytes per ns.
    pub bytes_per_ns: f64,
    /// Loads of lines anywhere that a core has in flight.
    pub loads_in_flight: f64,
    /// Lines of columns that a core has in flight, prefetched.
    pub lines_in_flight: f64,
}

impl Hardware {
    /// The machine of P4: Xeon E5-2699 v4, 55 MB and 20 ways, without translation.
    ///
    /// Sizes are the processor's; times, bandwidth and loads in flight are assumed, of the order that
    /// such processors show: none was measured. The policy is what was inferred of client processors of the
    /// generation ([`Policy::QuadAge`]).
    pub fn broadwell() -> Hardware {
        Hardware {
            cache_bytes: 55 << 20,
            ways: 20,
            policy: Policy::QuadAge,
            translation: None,
            inclusive: true,
            private_bytes: 256 << 10,
            private_ways: 8,
            cache_ns: 20.0,
            memory_ns: 90.0,
            bytes_per_ns: 64.0,
            loads_in_flight: 4.0,
            lines_in_flight: 10.0,
        }
    }
}

/// What a worker does, for ever.
pub struct Job {
    /// The addresses it touches.
    pub pattern: Pattern,
    /// Ways that it fills.
    pub mask: Mask,
    /// Time of a step without memory, ns.
    pub step_ns: f64,
    /// Number of the job's kind: rates are told by kind.
    pub kind: usize,
    /// Core that the job runs on; two at most may share one.
    pub core: usize,
}

/// What the jobs of a kind have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Steps in a microsecond, of all jobs of the kind.
    pub steps_per_us: f64,
    /// Share of the touches that missed the private caches and hit the shared one.
    pub hit_share: f64,
    /// Bytes that the jobs had from memory, per ns.
    pub bytes_per_ns: f64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    steps: u64,
    hits: u64,
    misses: u64,
}

struct Core {
    jobs: Vec<usize>,
    /// Time that the core's job has reached, ns.
    clock: f64,
    private: Cache,
    /// The buffer of translated pages.
    pages: Option<Cache>,
}

struct Machine {
    hardware: Hardware,
    shared: Cache,
    cores: Vec<Core>,
    jobs: Vec<Job>,
    counts: Vec<Count>,
    /// Bytes asked for and not carried yet.
    backlog: f64,
    now: f64,
}

/// Runs jobs, whose tables are in the cache as far as they fit, for `warm_ns` and then for `measured_ns`; rates of the second part by kind (`kinds` of them).
///
/// Panics: if there are more than 64 cores.
pub fn run(
    hardware: Hardware,
    cores: usize,
    jobs: Vec<Job>,
    kinds: usize,
    warm_ns: f64,
    measured_ns: f64,
) -> Vec<Rate> {
    assert!(cores <= 64, "a line has a bit for each core");
    let core = |number| Core {
        jobs: (0..jobs.len()).filter(|&job| jobs[job].core == number).collect(),
        clock: 0.0,
        private: Cache::new(hardware.private_bytes, hardware.private_ways, LINE_BYTES),
        pages: hardware.translation.map(Translation::buffer),
    };
    let mut machine = Machine {
        hardware,
        shared: Cache::by(hardware.policy, hardware.cache_bytes, hardware.ways, LINE_BYTES),
        cores: (0..cores).map(core).collect(),
        jobs,
        counts: vec![Count::default(); kinds],
        backlog: 0.0,
        now: 0.0,
    };
    machine.fill();
    machine.run_until(warm_ns);
    machine.counts.fill(Count::default());
    machine.run_until(warm_ns + measured_ns);
    let rate = |count: &Count| Rate {
        steps_per_us: count.steps as f64 * 1e3 / measured_ns,
        hit_share: count.hits as f64 / (count.hits + count.misses).max(1) as f64,
        bytes_per_ns: (count.misses * LINE_BYTES) as f64 / measured_ns,
    };
    machine.counts.iter().map(rate).collect()
}

impl Machine {
    /// Fetches the lines of all tables once; a table that several jobs share, once in all. Kinds take turns, by how many
    /// lines they have, so that no kind finds the cache full of what another one has.
    fn fill(&mut self) {
        let mut filled = std::collections::HashSet::new();
        let mut tables = vec![Vec::new(); self.counts.len()];
        for (number, job) in self.jobs.iter().enumerate() {
            for lines in job.pattern.tables().filter(|lines| filled.insert(lines.start)) {
                tables[job.kind].push((number, lines));
            }
        }
        let count = |tables: &Vec<(usize, Range<u64>)>| -> u64 {
            tables.iter().map(|(_, lines)| lines.end - lines.start).sum()
        };
        let counts: Vec<u64> = tables.iter().map(count).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let mut kinds: Vec<_> = tables
            .into_iter()
            .map(|tables| {
                tables.into_iter().flat_map(|(job, lines)| lines.map(move |line| (job, line)))
            })
            .collect();
        for turn in 0..most {
            for (kind, &count) in kinds.iter_mut().zip(&counts) {
                let lines = (turn + 1) * count / most - turn * count / most;
                if lines == 1 {
                    let (job, line) = kind.next().expect("as many turns as lines");
                    let Job { mask, core, .. } = self.jobs[job];
                    self.shared.touch(line, mask, core as u32);
                }
            }
        }
    }

    fn run_until(&mut self, end: f64) {
        let mut touches = Vec::new();
        while self.now < end {
            self.now += QUANTUM_NS;
            let mut lines = 0;
            for number in 0..self.cores.len() {
                lines += self.run_core(number, &mut touches);
            }
            let asked = (lines * LINE_BYTES) as f64;
            let carried = self.hardware.bytes_per_ns * QUANTUM_NS;
            self.backlog = (self.backlog + asked - carried).max(0.0);
        }
    }

    /// Runs a core up to now; lines that it had from memory.
    fn run_core(&mut self, number: usize, touches: &mut Vec<Touch>) -> u64 {
        let Core { jobs, .. } = &self.cores[number];
        if jobs.is_empty() {
            return 0;
        }
        let slice = (self.now / SLICE_NS) as usize;
        let job = jobs[slice % jobs.len()];
        let mut lines = 0;
        while self.cores[number].clock < self.now {
            self.jobs[job].pattern.step(touches);
            let mut time = self.jobs[job].step_ns;
            for &touch in touches.iter() {
                let line = touch.line();
                let in_flight = match touch {
                    Touch::Next(_) => self.hardware.lines_in_flight,
                    Touch::Anywhere(_) => self.hardware.loads_in_flight,
                    Touch::After(_) => 1.0,
                };
                for (ns, from_memory) in
                    [self.translate(number, job, line), self.load(number, job, line, in_flight)]
                {
                    time += ns;
                    lines += u64::from(from_memory);
                }
            }
            self.counts[self.jobs[job].kind].steps += 1;
            self.cores[number].clock += time.max(0.1);
        }
        lines
    }

    /// Time of a line's translation, ns, and whether the page's entry came from memory.
    fn translate(&mut self, number: usize, job: usize, line: u64) -> (f64, bool) {
        let (Some(translation), Some(pages)) =
            (self.hardware.translation, &mut self.cores[number].pages)
        else {
            return (0.0, false);
        };
        let Some(entry) = translation.walk(pages, line) else {
            return (0.0, false);
        };
        let in_flight = translation.walks_in_flight;
        let (ns, from_memory) = self.load(number, job, entry, in_flight);
        (ns + translation.walk_ns / in_flight, from_memory)
    }

    /// Time of a load of a line, ns, and whether the line came from memory.
    fn load(&mut self, number: usize, job: usize, line: u64, in_flight: f64) -> (f64, bool) {
        let private = &mut self.cores[number].private;
        let whole = private.full();
        if private.touch(line, whole, 0) == Found::Hit {
            return (0.0, false);
        }
        let Job { mask, kind, .. } = self.jobs[job];
        let found = self.shared.touch(line, mask, number as u32);
        let count = &mut self.counts[kind];
        let Found::Miss { evicted } = found else {
            count.hits += 1;
            return (self.hardware.cache_ns / in_flight, false);
        };
        count.misses += 1;
        if let Some((line, mut cores)) = evicted.filter(|_| self.hardware.inclusive) {
            while cores != 0 {
                self.cores[cores.trailing_zeros() as usize].private.drop_line(line);
                cores &= cores - 1;
            }
        }
        let wait = self.backlog / self.hardware.bytes_per_ns;
        ((self.hardware.memory_ns + wait) / in_flight, true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::structures::{Choice, Part, Rows};
    use super::*;

    fn hardware() -> Hardware {
        Hardware {
            cache_bytes: 1 << 20,
            ways: 16,
            policy: Policy::Lru,
            private_bytes: 16 << 10,
            bytes_per_ns: 16.0,
            ..Hardware::broadwell()
        }
    }

    fn scan(core: usize) -> Job {
        let pattern = Pattern::scan((core as u64 + 1) << 32, 64 << 20);
        Job { pattern, mask: Mask::lowest(16), step_ns: 2.0, kind: 0, core }
    }

    fn probe(core: usize, keys: u64) -> Job {
        let pattern = Pattern::probe((core as u64 + 1) << 32, 1 << 20, 0, keys, core as u64);
        Job { pattern, mask: Mask::lowest(16), step_ns: 5.0, kind: 1, core }
    }

    #[test]
    fn scans_share_the_bandwidth_and_no_more() {
        let rates =
            |cores: usize| run(hardware(), cores, (0..cores).map(scan).collect(), 1, 1e5, 1e6)[0];
        let (one, many) = (rates(1), rates(8));
        // 2 ns of work and 9 ns of memory for each line of 64 bytes.
        assert!((one.bytes_per_ns - 64.0 / 11.0).abs() < 0.1, "{one:?}");
        assert!((many.bytes_per_ns - 16.0).abs() < 0.5, "{many:?}");
        assert_eq!(many.hit_share, 0.0);
    }

    #[test]
    fn a_table_in_the_cache_is_hit_and_a_large_one_mostly_missed() {
        let share = |keys| run(hardware(), 1, vec![probe(0, keys)], 2, 4e6, 1e6)[1].hit_share;
        assert!(share(16_000) > 0.9, "{}", share(16_000));
        assert!(share(1_000_000) < 0.1, "{}", share(1_000_000));
    }

    #[test]
    fn loads_that_wait_for_each_other_take_the_time_of_each() {
        // A leaf's two lines and a value behind it, from the shared cache: a job that knows no other rows.
        let rows = Rows::keyed(0, 1 << 20, 1, Choice::Uniform);
        let pattern = Pattern::of(vec![Part::Rows(rows)], 1);
        let job = Job { pattern, mask: Mask::lowest(16), step_ns: 0.0, kind: 0, core: 0 };
        let hardware = Hardware { cache_bytes: 256 << 20, ..hardware() };
        let rate = run(hardware, 1, vec![job], 1, 1e5, 1e6)[0];
        assert!(rate.hit_share > 0.999, "{rate:?}");
        // Of the path's twelve lines some lie in the private cache; the leaf's and the value do not.
        let step_ns = 1e3 / rate.steps_per_us;
        assert!(step_ns > 3.0 * 19.0 && step_ns < 12.0 * 20.0, "{step_ns}");
    }

    #[test]
    fn a_mask_for_a_scan_saves_the_probe_beside_it() {
        let beside = |mask: Mask| {
            let jobs = vec![Job { mask, ..scan(0) }, probe(1, 16_000)];
            run(hardware(), 2, jobs, 2, 4e6, 2e6)[1]
        };
        let alone = run(hardware(), 2, vec![probe(1, 16_000)], 2, 4e6, 2e6)[1];
        let (polluted, masked) = (beside(Mask::lowest(16)), beside(Mask::lowest(2)));
        assert!(polluted.steps_per_us < 0.9 * alone.steps_per_us, "{polluted:?} {alone:?}");
        assert!(masked.steps_per_us > 1.1 * polluted.steps_per_us, "{masked:?} {polluted:?}");
    }

    #[test]
    fn pages_that_no_buffer_knows_take_time_and_pages_that_it_knows_take_none() {
        let rate = |keys, translation| {
            let hardware = Hardware { translation, ..hardware() };
            run(hardware, 1, vec![probe(0, keys)], 2, 2e6, 1e6)[1].steps_per_us
        };
        let slower = |keys| rate(keys, None) / rate(keys, Some(Translation::broadwell()));
        // 256 pages, and 16,384.
        assert!(slower(30_000) < 1.01, "{}", slower(30_000));
        assert!(slower(2_000_000) > 1.05, "{}", slower(2_000_000));
    }

    #[test]
    fn a_policy_that_protects_lines_saves_the_probe_beside_a_scan() {
        let share = |policy| {
            let hardware = Hardware { policy, ..hardware() };
            run(hardware, 2, vec![scan(0), probe(1, 8_000)], 2, 4e6, 2e6)[1].hit_share
        };
        let (lru, drrip) = (share(Policy::Lru), share(Policy::Drrip));
        assert!(drrip > lru, "{lru} {drrip}");
    }

    #[test]
    fn two_jobs_of_one_core_have_half_of_it_each() {
        let jobs = vec![scan(0), Job { core: 0, ..probe(1, 100) }];
        let both = run(hardware(), 1, jobs, 2, 2e6, 8e6);
        let scan = run(hardware(), 1, vec![scan(0)], 2, 2e6, 8e6)[0];
        let half = both[0].steps_per_us / scan.steps_per_us;
        assert!((half - 0.5).abs() < 0.02, "{half}");
        assert!(both[1].steps_per_us > 0.0);
    }
}
