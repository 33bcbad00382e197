//! Models of concurrency protocols under shuttle: many schedules of one piece of code, in a build
//! with `--cfg shuttle`.
//!
//! Every run takes the same schedules, so that a test which passes goes on passing, and one that
//! fails can be run again; `HALCYON_MODEL_SEED` chooses others, `HALCYON_MODEL_SCHEDULES` says how
//! many (docs/testing.md). A failing schedule is printed by shuttle; `shuttle::replay` repeats it.
//!
//! A *canary* is a model that must fail with a bug planted ([`crate::planted`]): it shows that the
//! model can see. It stops at the first failure, so it may look at many more schedules.

use crate::planted::{self, Bug};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How many times the schedules of a check a canary may take to see its bug.
const CANARY_PATIENCE: usize = 100;
const STACK_BYTES: usize = 1 << 20;
/// How many events a rare order consists of (the depth of probabilistic concurrency testing).
const RARE_DEPTH: usize = 3;

/// The settings by which a model is run.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    schedule_count: usize,
    step_limit: Option<usize>,
    seed: u64,
}

impl Check {
    /// Each kind of schedule `schedule_count` times, unless the environment says otherwise.
    pub fn new(schedule_count: usize) -> Self {
        Self {
            schedule_count: variable("HALCYON_MODEL_SCHEDULES").unwrap_or(schedule_count),
            step_limit: None,
            seed: variable("HALCYON_MODEL_SEED").unwrap_or(1) as u64,
        }
    }

    /// Calls a random schedule of more than `steps` steps a failure. For workers that look for
    /// work again and again: a strict order of priorities never lets the others run, and such a
    /// schedule is given up after a tenth of that.
    pub fn step_limit(mut self, steps: usize) -> Self {
        self.step_limit = Some(steps);
        self
    }

    /// Runs `model` under random schedules, and under ones that look for rare orders of few events.
    ///
    /// Panics: if the model does, or if its threads wait for one another for ever.
    pub fn run(self, model: impl Fn() + Send + Sync + 'static) {
        self.run_shared(&Arc::new(model));
    }

    /// Runs `model` with `bug` planted, which must fail.
    pub fn canary(self, bug: Bug, model: impl Fn() + Send + Sync + 'static) {
        let model = Arc::new(model);
        planted::plant(Some(bug));
        let seen = (0..CANARY_PATIENCE as u64).any(|attempt| {
            let check = Self { seed: self.seed + attempt, ..self };
            catch_unwind(AssertUnwindSafe(|| check.run_shared(&model))).is_err()
        });
        planted::plant(None);
        assert!(seen, "planted and not found: {bug:?}");
    }

    fn run_shared(self, model: &Arc<impl Fn() + Send + Sync + 'static>) {
        let random = RandomScheduler::new_from_seed(self.seed, self.schedule_count);
        let long = self.step_limit.map(MaxSteps::FailAfter);
        let run = Arc::clone(model);
        Runner::new(random, config(long)).run(move || run());
        let rare = PctScheduler::new_from_seed(self.seed, RARE_DEPTH, self.schedule_count);
        let long = self.step_limit.map(|steps| MaxSteps::ContinueAfter(steps / 10));
        let run = Arc::clone(model);
        Runner::new(rare, config(long)).run(move || run());
    }
}

fn config(max_steps: Option<MaxSteps>) -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    if let Some(max_steps) = max_steps {
        config.max_steps = max_steps;
    }
    config
}

fn variable(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}
