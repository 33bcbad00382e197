//! The way of this process's threads into the shielded processors, and out.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use halcyon_machine::affinity;

use crate::knobs::{Kernel, Knobs};
use crate::plan::{Entrance, Plan};
use crate::survey::SHIELD;

/// The way in; copies are one door.
#[derive(Clone, Debug)]
pub struct Door(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kernel: Kernel,
    entrance: Option<Entrance>,
    covered: Vec<u32>,
    is_shut: AtomicBool,
    /// The processors that threads inside want, by thread.
    inside: Mutex<BTreeMap<u32, Vec<u32>>>,
}

impl Door {
    pub(crate) fn new(kernel: Kernel, plan: &Plan) -> Door {
        Door(Arc::new(Inner {
            kernel,
            entrance: plan.entrance.clone(),
            covered: plan.covered.clone(),
            is_shut: AtomicBool::new(false),
            inside: Mutex::default(),
        }))
    }

    /// Prepares the calling thread for running on `cpus` alone: lets it in if they are shielded, out if none is.
    /// The affinity itself is the caller's.
    ///
    /// Errors: the kernel's; or the processors are shielded in part.
    pub fn pass(&self, cpus: &[u32]) -> io::Result<()> {
        let is_covered = |cpu: &u32| self.0.covered.contains(cpu);
        if self.0.is_shut.load(Ordering::Acquire) || cpus.is_empty() {
            return Ok(());
        }
        match (cpus.iter().all(is_covered), cpus.iter().any(is_covered)) {
            (true, _) => self.enter(cpus),
            (false, true) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            (false, false) => self.leave(),
        }
    }

    fn enter(&self, cpus: &[u32]) -> io::Result<()> {
        let Some(entrance) = &self.0.entrance else { return Ok(()) };
        let kernel = &self.0.kernel;
        if let Err(error) = kernel.write(&entrance.inside, "0") {
            let Some(process) = &entrance.process else { return Err(error) };
            // Threads join a threaded group from their process's own part of the hierarchy alone.
            kernel.write(process, &std::process::id().to_string())?;
            kernel.write(&entrance.inside, "0")?;
        }
        if let Some(thread) = own_thread() {
            self.inside().insert(thread, cpus.to_vec());
        }
        Ok(())
    }

    fn leave(&self) -> io::Result<()> {
        let Some(entrance) = &self.0.entrance else { return Ok(()) };
        // A thread is made where the thread that makes it is.
        let groups = self.0.kernel.read("/proc/thread-self/cgroup").unwrap_or_default();
        if !groups.lines().any(|line| line.ends_with(&format!("/{SHIELD}"))) {
            return Ok(());
        }
        if let Some(thread) = own_thread() {
            self.inside().remove(&thread);
        }
        self.0.kernel.write(&entrance.outside, "0")
    }

    fn inside(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Vec<u32>>> {
        self.0.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nobody pass any more.
    pub(crate) fn shut(&self) {
        self.0.is_shut.store(true, Ordering::Release);
    }

    /// Puts threads that were inside back on the processors that they want: moving them out has let them go.
    pub(crate) fn put_back(&self) {
        for (thread, cpus) in std::mem::take(&mut *self.inside()) {
            // Of a thread that has ended there is nothing to be put back.
            let _ = affinity::set_thread(thread, &cpus);
        }
    }
}

/// The calling thread's number.
fn own_thread() -> Option<u32> {
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}
