//! The part of DataFusion that planning and running share: its state, its options, its worker
//! threads.
//! [`mod@crate::setup`] puts functions and rules in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::set_join_set_tracer;
use datafusion::execution::SessionState;
use halcyon_base::{duty, memory};
use halcyon_sql::stack::THREAD_BYTES;
use tokio::runtime::Runtime;

use crate::accounts::Accounts;
use crate::brief::Brief;
use crate::system_names::SystemSchemas;

/// DataFusion as all statements share it: functions, rules, worker threads. Clones share one
/// instance.
#[derive(Clone)]
pub struct DataFusion(Arc<Shared>);

struct Shared {
    /// The system schemas without a running engine.
    system: Box<dyn SystemSchemas>,
    runtime: Option<Runtime>,
    state: SessionState,
    /// A state without functions, cheap to copy, for physical planning, which looks up none.
    bare: SessionState,
    /// The rules of the short way of optimising.
    brief: Brief,
    plannings: AtomicU64,
}

impl DataFusion {
    /// Starts the workers, one per core. `bare`: a state without functions.
    pub(crate) fn start(
        state: SessionState,
        bare: SessionState,
        system: Box<dyn SystemSchemas>,
    ) -> Self {
        // A program that uses DataFusion besides and has a tracer keeps that: what operators spawn counts
        // as nobody's then.
        let _ = set_join_set_tracer(&Accounts);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("halcyon-query")
            .thread_stack_size(THREAD_BYTES)
            .enable_time()
            // Operators call functions that wait: pg_sleep, advisory locks.
            .on_thread_start(|| {
                duty::stay_on_duty(|work| tokio::task::block_in_place(work));
                memory::join_pool();
            })
            .on_thread_park(memory::at_rest)
            .build()
            .expect("the system gives threads");
        DataFusion(Arc::new(Shared {
            system,
            runtime: Some(runtime),
            brief: Brief::of(&state.optimizer().rules),
            state,
            bare,
            plannings: AtomicU64::new(0),
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

    /// The threads that operators run on.
    pub fn runtime(&self) -> &Runtime {
        self.0.runtime.as_ref().expect("taken only by drop")
    }
}

impl Drop for Shared {
    /// Does not wait, because the last owner may be a thread that must not block.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
