//! The part of DataFusion that planning and running share: its state, its options, the workers that run its
//! operators as tasks.
//! [`mod@crate::setup`] puts functions and rules in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::set_join_set_tracer;
use datafusion::execution::SessionState;
use halcyon_scan::sample::Samples;
use halcyon_spill::SpillFolder;
use halcyon_task::{Runtime, Shares};

use crate::accounts::Accounts;
use crate::brief::Brief;
use crate::executions::Executions;
use crate::quotas::Quotas;
use crate::system_names::SystemSchemas;
use crate::workers::{Crew, Workers};

/// DataFusion as all statements share it: functions, rules, workers. Clones share one instance.
#[derive(Clone)]
pub struct DataFusion(Arc<Shared>);

struct Shared {
    /// The system schemas without a running engine.
    system: Box<dyn SystemSchemas>,
    crew: Crew,
    state: SessionState,
    /// A state without functions, cheap to copy, for physical planning, which looks up none.
    bare: SessionState,
    /// The rules of the short way of optimising.
    brief: Brief,
    plannings: AtomicU64,
    executions: Executions,
    quotas: Quotas,
    samples: Arc<Samples>,
    /// The folder for what statements cannot hold; empty: they fail instead.
    spill: OnceLock<Arc<SpillFolder>>,
}

impl DataFusion {
    /// No thread is started before a statement needs it. `bare`: a state without functions.
    pub(crate) fn of(
        state: SessionState,
        bare: SessionState,
        system: Box<dyn SystemSchemas>,
        workers: Workers,
    ) -> Self {
        // A program that uses DataFusion besides and has a tracer keeps that: what operators spawn counts
        // as nobody's then.
        let _ = set_join_set_tracer(&Accounts);
        DataFusion(Arc::new(Shared {
            system,
            crew: Crew::new(workers),
            brief: Brief::of(&state.optimizer().rules),
            state,
            bare,
            plannings: AtomicU64::new(0),
            executions: Executions::default(),
            quotas: Quotas::default(),
            samples: Arc::default(),
            spill: OnceLock::new(),
        }))
    }

    /// Functions, planners and rules.
    pub fn state(&self) -> &SessionState {
        &self.0.state
    }

    /// Options of all planning.
    pub fn options(&self) -> &Arc<ConfigOptions> {
        self.0.state.config_options()
    }

    /// A state without functions, cheap to copy, for physical planning, which looks up none.
    pub fn bare(&self) -> &SessionState {
        &self.0.bare
    }

    /// The few rules that plain plans need.
    pub(crate) fn brief(&self) -> &Brief {
        &self.0.brief
    }

    /// The system schemas without a running engine.
    pub fn system(&self) -> &dyn SystemSchemas {
        self.0.system.as_ref()
    }

    /// How many plans were made, logical or physical. For tests and statistics.
    pub fn plannings(&self) -> u64 {
        self.0.plannings.load(Ordering::Relaxed)
    }

    /// Counts one planning.
    pub fn count_planning(&self) {
        self.0.plannings.fetch_add(1, Ordering::Relaxed);
    }

    /// What was said of the workers.
    pub fn workers(&self) -> &Workers {
        self.0.crew.workers()
    }

    /// The workers that operators run on, started if they are not.
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.0.crew.runtime()
    }

    /// The workers while the database runs: their limits, and the caches that they fill.
    pub fn crew(&self) -> &Crew {
        &self.0.crew
    }

    /// Divides the workers' time among workload classes.
    pub fn set_shares(&self, shares: Shares) {
        self.0.crew.set_shares(shares);
    }

    /// The statements that run on the workers.
    pub fn executions(&self) -> &Executions {
        &self.0.executions
    }

    /// The workers that workload classes may use.
    pub fn quotas(&self) -> &Quotas {
        &self.0.quotas
    }

    /// Samples of the database's tables.
    pub fn samples(&self) -> &Arc<Samples> {
        &self.0.samples
    }

    /// Says where statements spill what they cannot hold. The first folder stays.
    pub fn spill_into(&self, folder: &Arc<SpillFolder>) {
        let _ = self.0.spill.set(Arc::clone(folder));
    }

    /// The folder for what statements cannot hold.
    pub fn spill(&self) -> Option<&Arc<SpillFolder>> {
        self.0.spill.get()
    }

    /// The workers that operators run on, if a statement has needed them so far.
    pub fn started_runtime(&self) -> Option<&Arc<Runtime>> {
        self.0.crew.started()
    }
}
