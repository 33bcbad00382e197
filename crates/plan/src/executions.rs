//! The analytical statements under way: whose they are, and the groups of their tasks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use halcyon_task::{Annotation, CacheUse, ClassId, Priority, RunningGroup};
use parking_lot::Mutex;

/// An analytical statement that runs on the workers.
#[derive(Clone)]
pub struct Execution {
    /// Session of the statement.
    pub session: u32,
    /// When its tasks began, in microseconds since 1970.
    pub began_us: i64,
    /// Workers that may run its tasks at once.
    pub workers: usize,
    /// The statement's tasks.
    pub group: RunningGroup,
    /// How the tasks use the cache.
    pub cache: CacheUse,
    /// The place of the tasks now; clones have one.
    pub place: Arc<Mutex<Place>>,
}

/// The class of a statement's tasks and their band, 0 (urgent) to 3 (low).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the workload class.
    pub class: u8,
    /// Number of the band.
    pub band: u8,
}

impl Place {
    fn priority(self) -> Priority {
        use Priority::{High, Low, Normal, Urgent};
        [Urgent, High, Normal, Low][usize::from(self.band.min(3))]
    }

    /// The place in this band, if that is higher.
    fn raised(self, band: u8) -> Self {
        Place { band: self.band.min(band), ..self }
    }

    /// The name of the band.
    pub fn name(self) -> &'static str {
        ["urgent", "high", "normal", "low"][usize::from(self.band.min(3))]
    }

    /// What the task runtime is told of tasks that have this place.
    pub fn annotation(self) -> Annotation {
        Annotation::new().class(ClassId(self.class)).priority(self.priority())
    }
}

impl Execution {
    /// Has the statement's tasks go on at the place that `choose` makes of the present one.
    pub fn go_on_at(&self, choose: impl FnOnce(Place) -> Place) {
        let mut place = self.place.lock();
        let next = choose(*place);
        if next != *place {
            *place = next;
            self.group.move_to(next.priority(), ClassId(next.class));
        }
    }
}

/// The executions of a database. One that has ended is forgotten when the next one begins.
#[derive(Default)]
pub struct Executions {
    under_way: Mutex<Vec<Execution>>,
    /// Bands that waiters have lent to sessions whose locks they wait for.
    lent: Mutex<HashMap<u32, u8>>,
    /// How many bands are lent: looked at before every statement.
    lent_count: AtomicUsize,
}

impl Executions {
    /// Notes an execution that has begun.
    pub fn note(&self, execution: Execution) {
        {
            let mut all = self.under_way.lock();
            all.retain(|execution| !execution.group.is_done());
            all.push(execution.clone());
        }
        // Behind the entry: who lends a band meanwhile sees the execution, or the execution sees the band.
        if let Some(band) = self.lent_to(execution.session) {
            execution.go_on_at(|place| place.raised(band));
        }
    }

    /// Executions that have not ended.
    pub fn under_way(&self) -> Vec<Execution> {
        let mut all = self.under_way.lock();
        all.retain(|execution| !execution.group.is_done());
        all.clone()
    }

    /// Classes with statements under way that pollute the shared cache.
    pub fn polluting_classes(&self) -> HashSet<u8> {
        let all = self.under_way().into_iter();
        let polluting = all.filter(|execution| execution.cache == CacheUse::Polluting);
        polluting.map(|execution| execution.place.lock().class).collect()
    }

    /// Has the statements of a session, those to come as well, run in this band at least, until the band is taken back.
    pub fn lend(&self, session: u32, band: u8) {
        {
            let mut lent = self.lent.lock();
            let own = lent.entry(session).or_insert(band);
            *own = band.min(*own);
            self.lent_count.store(lent.len(), Ordering::SeqCst);
        }
        let of_session = |execution: &Execution| execution.session == session;
        for execution in self.under_way().into_iter().filter(of_session) {
            execution.go_on_at(|place| place.raised(band));
        }
    }

    /// The band that is lent to a session.
    #[inline]
    pub fn lent_to(&self, session: u32) -> Option<u8> {
        match self.lent_count.load(Ordering::SeqCst) {
            0 => None,
            _ => self.lent.lock().get(&session).copied(),
        }
    }

    /// Takes back what was lent to a session, whose transaction has ended.
    #[inline]
    pub fn take_back(&self, session: u32) {
        if self.lent_count.load(Ordering::Relaxed) > 0 {
            let mut lent = self.lent.lock();
            lent.remove(&session);
            self.lent_count.store(lent.len(), Ordering::SeqCst);
        }
    }
}
