//! Times of planning, phase by phase, for EXPLAIN ANALYZE and for the lab.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A phase of planning a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Text to tokens to a statement.
    Parse,
    /// Names and types: the statement to a logical plan.
    Bind,
    /// PostgreSQL's meaning: types of literals and parameters, checked arithmetic, subqueries to joins.
    Meaning,
    /// Optimising, and the choice of an executor.
    Optimize,
}

impl Phase {
    /// All phases in their order.
    pub const ALL: [Phase; 4] = [Phase::Parse, Phase::Bind, Phase::Meaning, Phase::Optimize];

    /// The phase's name in EXPLAIN ANALYZE.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Parse => "parse",
            Phase::Bind => "bind",
            Phase::Meaning => "meaning",
            Phase::Optimize => "optimize",
        }
    }
}

/// A clock for one statement: the time that each phase of its planning takes.
#[derive(Default)]
pub struct PhaseClock([Cell<Duration>; Phase::ALL.len()]);

impl PhaseClock {
    /// Runs a piece of work and adds its time to a phase.
    pub fn time<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let cell = &self.0[phase as usize];
        cell.set(cell.get() + began.elapsed());
        done
    }

    /// The measured times, together with a total measured elsewhere.
    pub fn times(&self, total: Duration) -> PlanningTimes {
        PlanningTimes { total, phases: std::array::from_fn(|phase| self.0[phase].get()) }
    }
}

/// The times of planning a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanningTimes {
    /// From the text to the plan.
    pub total: Duration,
    phases: [Duration; Phase::ALL.len()],
}

impl PlanningTimes {
    /// Time of one phase; a statement may go through a phase several times, or not at all.
    pub fn of(&self, phase: Phase) -> Duration {
        self.phases[phase as usize]
    }
}

impl std::fmt::Display for PlanningTimes {
    /// As in EXPLAIN ANALYZE: `0.123 ms (parse 0.010, bind 0.050, meaning 0.040, optimize 0.020)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "{:.3} ms (", ms(self.total))?;
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {:.3}", phase.name(), ms(self.of(phase)))?;
        }
        f.write_str(")")
    }
}
