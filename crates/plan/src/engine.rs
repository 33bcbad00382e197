//! The part of DataFusion that planning and running share: its state, its options, the workers that run its
//! operators as tasks.
//! [`mod@crate::setup`] puts functions and rules in.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::set_join_set_tracer;
use datafusion::execution::SessionState;
use halcyon_base::memory;
use halcyon_scan::sample::Samples;
use halcyon_spill::SpillFolder;
use halcyon_task::{Runtime, Shares};
use parking_lot::Mutex;

use crate::accounts::Accounts;
use crate::brief::Brief;
use crate::executions::Executions;
use crate::quotas::Quotas;
use crate::system_names::SystemSchemas;
use crate::workers::{self, Workers};

/// DataFusion as all statements share it: functions, rules, workers. Clones share one instance.
#[derive(Clone)]
pub struct DataFusion(Arc<Shared>);

struct Shared {
    /// The system schemas without a running engine.
    system: Box<dyn SystemSchemas>,
    workers: Workers,
    /// Started by the first statement that needs workers.
    runtime: OnceLock<Arc<Runtime>>,
    /// Wakes workers that sleep when memory is to be given back.
    waking: OnceLock<Arc<memory::Waking>>,
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
    /// How workload classes share the workers' time, once somebody has said so.
    shares: Mutex<Option<Shares>>,
    /// Workers of an island that may run statements which pollute the cache; 0: all.
    polluters: AtomicUsize,
}

fn share(runtime: &Runtime, shares: Shares) {
    if let Err(refused) = runtime.set_shares(shares) {
        tracing::warn!("workload classes share the workers as before: {refused}");
    }
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
            workers,
            runtime: OnceLock::new(),
            waking: OnceLock::new(),
            brief: Brief::of(&state.optimizer().rules),
            state,
            bare,
            plannings: AtomicU64::new(0),
            executions: Executions::default(),
            quotas: Quotas::default(),
            samples: Arc::default(),
            spill: OnceLock::new(),
            shares: Mutex::default(),
            polluters: AtomicUsize::new(0),
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
        &self.0.workers
    }

    /// The workers that operators run on, started if they are not.
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.0.runtime.get_or_init(|| {
            let runtime = Arc::new(workers::start(&self.0.workers));
            let waking = workers::waking(&runtime);
            memory::wake_for_collections(&waking);
            let _ = self.0.waking.set(waking);
            if let Some(shares) = self.0.shares.lock().clone() {
                share(&runtime, shares);
            }
            runtime.limit_all_polluters(self.0.polluters.load(Ordering::SeqCst));
            runtime
        })
    }

    /// Lets statements that pollute the shared cache run on so many workers of each island at once; 0 for all.
    pub fn limit_polluters(&self, workers: usize) {
        self.0.polluters.store(workers, Ordering::SeqCst);
        self.started_runtime().inspect(|runtime| runtime.limit_all_polluters(workers));
    }

    /// Divides the workers' time among workload classes.
    pub fn set_shares(&self, shares: Shares) {
        *self.0.shares.lock() = Some(shares.clone());
        if let Some(runtime) = self.started_runtime() {
            share(runtime, shares);
        }
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
        self.0.runtime.get()
    }
}
