//! The workers while the database runs: started once, shared by classes, limited and divided at any time.

use std::sync::{Arc, OnceLock};

use halcyon_base::memory;
use halcyon_cache::GroupRow;
use halcyon_task::{Runtime, Shares};
use parking_lot::Mutex;

use crate::config::{self, Workers};
use crate::masks::Masks;
use crate::matrix::MatrixRow;

/// The workers of a database, and all that is said of them while it runs.
pub struct Crew {
    workers: Workers,
    /// Started by the first statement that needs workers.
    runtime: OnceLock<Arc<Runtime>>,
    /// Wakes workers that sleep when memory is to be given back.
    waking: OnceLock<Arc<memory::Waking>>,
    /// How workload classes share the workers' time, once somebody has said so.
    shares: Mutex<Option<Shares>>,
    polluters: Mutex<Polluters>,
    masks: Masks,
}

/// Workers of an island that may run statements which pollute the cache.
#[derive(Clone, Copy, Debug, Default)]
struct Polluters {
    /// As the setting says; 0: all.
    set: usize,
    /// As a controller says for the moment.
    held: Option<usize>,
}

impl Polluters {
    /// The limit that is in force; 0: none.
    fn limit(self) -> usize {
        match (self.set, self.held) {
            (set, None) => set,
            (0, Some(held)) => held.max(1),
            (set, Some(held)) => set.min(held.max(1)),
        }
    }
}

fn share(runtime: &Runtime, shares: Shares) {
    if let Err(refused) = runtime.set_shares(shares) {
        tracing::warn!("workload classes share the workers as before: {refused}");
    }
}

impl Crew {
    /// No thread is started before a statement needs it.
    pub fn new(workers: Workers) -> Crew {
        Crew {
            masks: Masks::new(workers.place()),
            workers,
            runtime: OnceLock::new(),
            waking: OnceLock::new(),
            shares: Mutex::default(),
            polluters: Mutex::default(),
        }
    }

    /// What was said of the workers.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The task runtime, started if it is not.
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.runtime.get_or_init(|| {
            let runtime = Arc::new(config::start(&self.workers));
            let waking = config::waking(&runtime);
            memory::wake_for_collections(&waking);
            let _ = self.waking.set(waking);
            if let Some(shares) = self.shares.lock().clone() {
                share(&runtime, shares);
            }
            runtime.limit_all_polluters(self.polluters.lock().limit());
            self.use_matrix(&runtime);
            log(self.masks.started(&runtime));
            runtime
        })
    }

    /// The task runtime, if a statement has needed it so far.
    pub fn started(&self) -> Option<&Arc<Runtime>> {
        self.runtime.get()
    }

    /// Divides the workers' time among workload classes.
    pub fn set_shares(&self, shares: Shares) {
        *self.shares.lock() = Some(shares.clone());
        if let Some(runtime) = self.started() {
            share(runtime, shares);
        }
    }

    /// Lets statements that pollute the shared cache run on so many workers of each island at once; 0 for all.
    pub fn limit_polluters(&self, workers: usize) {
        self.change_polluters(|polluters| polluters.set = workers);
    }

    /// Lets them run on fewer workers for a while, one at least; `None`: on as many as the setting says.
    pub fn hold_polluters(&self, workers: Option<usize>) {
        self.change_polluters(|polluters| polluters.held = workers);
    }

    fn change_polluters(&self, change: impl FnOnce(&mut Polluters)) {
        let mut polluters = self.polluters.lock();
        let before = polluters.limit();
        change(&mut polluters);
        let limit = polluters.limit();
        if limit != before {
            self.started().inspect(|runtime| runtime.limit_all_polluters(limit));
        }
    }

    /// Workers of an island that statements which pollute the cache may use by the setting, all of them if it does not
    /// say, and the islands' number.
    pub fn polluters(&self) -> (usize, usize) {
        let (workers, islands) = self
            .started()
            .map_or((1, 1), |runtime| (runtime.worker_count(), runtime.island_count().max(1)));
        let most = workers.div_ceil(islands);
        let set = self.polluters.lock().set;
        (if set == 0 { most } else { set.min(most) }, islands)
    }

    /// Has the caches of the workers' processors divided, or not (setting `cache_partitioning`). Whatever stands against it is
    /// logged once, and told by [`Crew::cache_groups`]; the workers go on with whole caches then.
    ///
    /// `polluting`: the setting `polluting_workers`.
    pub fn divide_caches(&self, is_on: bool, polluting: usize) {
        log(self.masks.switch(is_on, polluting, &self.workers, self.started().map(|of| &**of)));
    }

    /// Gives the caches back for good: the database is closed.
    pub fn close(&self) {
        log(self.masks.close(self.started().map(|runtime| &**runtime)));
    }

    /// The groups of processors that fill parts of the caches, or why there are none.
    pub fn cache_groups(&self) -> Vec<GroupRow> {
        self.masks.rows()
    }

    /// What operators cost each other, if that was measured.
    pub fn interference(&self) -> Vec<MatrixRow> {
        self.workers.matrix.as_ref().map_or_else(Vec::new, |matrix| matrix.rows())
    }

    /// Has the runtime place statements by what they were measured to cost each other, and tells what the measurements say of
    /// annotations.
    fn use_matrix(&self, runtime: &Runtime) {
        let Some(matrix) = &self.workers.matrix else { return };
        let processors = self.workers.topology().processors.len();
        match matrix.costs(processors) {
            Ok(costs) => runtime.set_neighbour_costs(costs),
            Err(why) => tracing::warn!("the slowdown matrix decides about no island: {why}"),
        }
        for row in matrix.rows().into_iter().filter(|row| row.is_contradicted == Some(true)) {
            tracing::warn!(
                "the slowdown matrix contradicts an annotation: {} is {} and takes {:.2} times as long beside {}",
                row.operator,
                row.cache_use,
                row.slowdown,
                row.partner
            );
        }
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Logs what was told: warnings, one each.
fn log(told: Vec<String>) {
    for line in told {
        tracing::warn!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_holds_polluters_below_the_setting_and_lets_go_again() {
        let limit = |set, held| Polluters { set, held }.limit();
        assert_eq!([limit(0, None), limit(3, None)], [0, 3]);
        assert_eq!([limit(0, Some(2)), limit(3, Some(2)), limit(1, Some(2))], [2, 2, 1]);
        assert_eq!(limit(0, Some(0)), 1, "0 is no limit to the runtime");
        let crew = Crew::new(Workers { count: 3, ..Workers::default() });
        assert_eq!(crew.polluters(), (1, 1), "nobody has needed workers");
        crew.limit_polluters(9);
        crew.runtime();
        assert_eq!(crew.polluters().0, 3usize.div_ceil(crew.polluters().1));
        crew.hold_polluters(Some(1));
        assert_eq!(crew.polluters.lock().limit(), 1);
        crew.hold_polluters(None);
        assert_eq!(crew.polluters.lock().limit(), 9);
    }
}
