//! What the owner of a session may ask of its statements, to tell others: a server's traces are made of it.

use std::sync::Arc;
use std::time::Duration;

use halcyon_base::clock;
use halcyon_plan::phases::Phase;
use halcyon_prepare::cache::Lookup;

use crate::session::Session;
use crate::statement::Statement;

/// What a statement that has given its thread back waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// The statement's workload class, which lets others run first.
    Admission,
    /// A function of the statement: a time, or an advisory lock.
    Function,
    /// A lock that others hold.
    Lock,
}

impl Session {
    /// What the statement waits for that [`Session::run_or_queue`] has left in a queue.
    pub fn waits_for(&self) -> WaitsFor {
        match (self.at_gate.is_some(), self.entry.awaiting.lock().is_waiting()) {
            (true, _) => WaitsFor::Admission,
            (false, true) => WaitsFor::Function,
            (false, false) => WaitsFor::Lock,
        }
    }

    /// Calls `wait`, and adds the time to [`Session::take_disk_time`].
    pub(crate) fn timed_at_disk<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = clock::now();
        let waited = wait();
        self.at_disk.set(self.at_disk.get() + clock::now().since(began));
        waited
    }

    /// How long the session's thread has waited for the disk since the last call, or written to it.
    pub fn take_disk_time(&self) -> Duration {
        self.at_disk.take()
    }

    /// Time of workers for the statement, and the bytes that it holds now.
    pub fn statement_usage(&self) -> (Duration, u64) {
        let account = self.account.id();
        (account.busy(), u64::try_from(account.bytes().0).unwrap_or(0))
    }

    /// Name of the workload class of the session's last statement.
    pub fn class_name(&self) -> String {
        self.shared.workload.snapshot().class(self.class.class).name.clone()
    }

    /// Name of the database.
    pub fn database_name(&self) -> &str {
        &self.vars.database
    }

    /// Role whose rights the session has.
    pub fn role(&self) -> &str {
        &self.vars.user
    }

    /// Address of the client, if the session serves one over a network.
    pub fn client(&self) -> Option<&str> {
        self.entry.client.as_deref()
    }

    /// The setting `application_name`.
    pub fn application(&self) -> &str {
        &self.in_force.application
    }

    /// The setting `halcyon.traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.in_force.traceparent
    }
}

impl Statement {
    /// The text under which the statement is counted in `halcyon.statements`.
    pub fn counted_text(&self) -> Arc<str> {
        self.counted_as.borrow().clone()
    }

    /// Name of the executor, as in `halcyon.statements`.
    pub fn executor(&self) -> &'static str {
        self.prepared().plan.executor()
    }

    /// Name of the statement's table, if it names one alone.
    pub fn only_table(&self) -> Option<String> {
        match self.prepared().plan.tables() {
            [table] => Some(table.name.clone()),
            _ => None,
        }
    }

    /// How long parsing took, and parsing and planning together, if the statement was planned since it ran last.
    pub fn planning(&self) -> Option<(Duration, Duration)> {
        let is_new = matches!(self.lookup.get(), Some(Lookup::Miss(_)));
        let planning = self.prepared().planning;
        is_new.then(|| (planning.of(Phase::Parse), planning.total))
    }
}
