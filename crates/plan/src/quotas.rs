//! The workers that workload classes may use: quotas on the task runtime, which change while statements run.

use std::collections::HashMap;

use halcyon_task::{Quota, Runtime};
use parking_lot::Mutex;

/// The quotas of workload classes, by number of the class. A class without a quota may use all workers.
#[derive(Default)]
pub struct Quotas(Mutex<HashMap<u8, ClassQuota>>);

/// The quota of a class.
struct ClassQuota {
    workers: usize,
    /// Made by the first statement that runs under the quota: before it no thread need be started.
    quota: Option<Quota>,
}

impl Quotas {
    /// Lets at most `workers` workers, at least one, run statements of a class at once; `None`: all. Statements
    /// that run now follow.
    pub fn set(&self, class: u8, workers: Option<usize>) {
        let mut quotas = self.0.lock();
        let Some(workers) = workers.map(|workers| workers.max(1)) else {
            quotas.remove(&class);
            return;
        };
        let own = quotas.entry(class).or_insert(ClassQuota { workers, quota: None });
        own.workers = workers;
        if let Some(quota) = &own.quota {
            quota.set(workers);
        }
    }

    /// Lets a class with a quota use fewer workers than that for a while, 0 among them; `None`: as many again. The
    /// caller goes on to change that: nothing of a class with 0 runs meanwhile.
    pub fn hold(&self, class: u8, workers: Option<usize>) {
        if let Some(own) = self.0.lock().get(&class)
            && let Some(quota) = &own.quota
        {
            quota.set(workers.map_or(own.workers, |workers| workers.min(own.workers)));
        }
    }

    /// The workers that a class may use at once; `None`: all.
    pub fn of(&self, class: u8) -> Option<usize> {
        self.0.lock().get(&class).map(|own| own.workers)
    }

    /// The quotas that hold for a statement of these classes.
    pub fn under(&self, classes: &[u8], runtime: &Runtime) -> Vec<Quota> {
        if classes.is_empty() {
            return Vec::new();
        }
        let mut quotas = self.0.lock();
        let own = classes.iter().filter_map(|class| {
            let own = quotas.get_mut(class)?;
            Some(own.quota.get_or_insert_with(|| runtime.quota(own.workers)).clone())
        });
        own.collect()
    }
}
