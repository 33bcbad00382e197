//! Schema `halcyon`: what workload classes do to statements (P4 §2), with the names that SAP HANA gives the views
//! and columns that it has, and ours beside them.

use super::Context;
use super::view::{Moment, system_views};

system_views! {
    /// One row per session and limit that holds for its statements, for superusers and for the session's role; EXPLAIN
    /// WORKLOAD shows one session's.
    m_workload_effective: Effective from effective {
        /// Number of the session.
        connection_id: u32,
        /// Role that the session acts as.
        user_name: String,
        /// Workload class of its last statement.
        workload_class_name: String,
        /// Mapping that has led there; NULL if none matched.
        workload_mapping_name: Option<String>,
        /// Why it was this class.
        reason: String,
        /// Name of the limit, as in CREATE WORKLOAD CLASS.
        property: String,
        /// Value in force, with its unit; NULL where nothing is limited.
        value: Option<String>,
        /// Class whose definition has the value; NULL where it is the default.
        origin: Option<String>,
    }

    /// One row per workload class: what came to its gate.
    m_admission_control_statistics: Admission from admission {
        /// The class.
        workload_class_name: String,
        /// Statements that were let in, at once or later.
        admit_count: u64,
        /// Statements that were turned away when they came.
        reject_count: u64,
        /// Statements that had to wait.
        enqueue_count: u64,
        /// Statements that were let in after a wait.
        dequeue_count: u64,
        /// Statements whose wait became too long.
        timeout_count: u64,
        /// Statements that were cancelled while they waited.
        cancel_count: u64,
        /// Statements that wait now.
        current_queue_size: u64,
        /// Statements that are inside now.
        current_running: u64,
        /// Last wait that ended.
        last_wait_ms: f64,
        /// Mean wait.
        avg_wait_ms: f64,
        /// Longest wait.
        max_wait_ms: f64,
        /// Shortest wait.
        min_wait_ms: f64,
        /// All waits together.
        sum_wait_ms: f64,
    }

    /// One row per statement that waits to be let in, for superusers and for its role.
    m_admission_control_queues: Queued from queued {
        /// Session of the statement; pg_cancel_backend ends the wait.
        connection_id: u32,
        /// Class in whose queue it stands.
        workload_class_name: String,
        /// Role that the session acts as.
        user_name: String,
        /// When it came.
        enqueue_time: Moment,
        /// When its wait becomes too long.
        queue_timeout_time: Option<Moment>,
        /// Text of the statement, its first 4,096 bytes.
        statement_string: Option<String>,
    }

    /// One row per decision of the gate and of rules that held somebody up, the last 1,000, for superusers.
    m_admission_control_events: Event from events {
        /// When.
        event_time: Moment,
        /// What was decided, in one word.
        event_type: String,
        /// What the decision rests on.
        event_reason: String,
        /// Class of the statement.
        workload_class_name: String,
        /// Session of the statement; NULL for decisions about a class.
        connection_id: Option<u32>,
        /// How long the statement had waited.
        wait_ms: Option<f64>,
    }

    /// One row per workload class: its statements, and what they take.
    m_workload_class_statistics: Class from classes {
        /// The class.
        workload_class_name: String,
        /// Statements that run now.
        running_statements: u64,
        /// Statements that have ended: of look-ups one in 16, unless the class limits their number or has a target; in a
        /// database without classes of users, of writes too.
        statement_count: u64,
        /// Of these, statements that failed.
        error_count: u64,
        /// Time that workers have worked for the class.
        busy_ms: f64,
        /// 99th percentile of the time that its tasks were ready to run and waited for a worker.
        ready_wait_p99_ms: f64,
        /// Bytes that its running statements hold, where classes of users exist.
        used_memory: i64,
        /// Workers that its statements may use at once now; NULL: all.
        thread_limit: Option<u32>,
    }

    /// One row per workload class with statements in the last minute: how long they took, from the arrival of
    /// their bytes to the last byte of their answers, and without a client from their beginning to their last row.
    m_workload_class_latency: Latency from latency {
        /// The class.
        workload_class_name: String,
        /// Statements in the window.
        statement_count: u64,
        /// Length of the window in seconds: as short as the number of statements allows for its percentiles.
        window_s: u32,
        /// Median.
        p50_ms: f64,
        /// 95th percentile.
        p95_ms: f64,
        /// 99th percentile.
        p99_ms: f64,
        /// 99.9th percentile.
        p999_ms: f64,
        /// The strictest target, as P99 50ms; NULL without one.
        target: Option<String>,
        /// Share of the last minute's statements that were as quick as the target, in percent; NULL without one.
        attainment: Option<f64>,
    }

    /// One row per workload class with a latency target: what the controller sees and has done.
    m_workload_controller: Controller from controllers {
        /// The class with the target.
        workload_class_name: String,
        /// The quantile that has a target, as P99.
        quantile: String,
        /// What it should be.
        target_ms: f64,
        /// What it was when the controller looked last; NULL: too few statements.
        measured_ms: Option<f64>,
        /// One of KEPT, STEERING, TARGET_UNREACHABLE (taking workers from others does not help), TARGET_TOO_TIGHT (less
        /// than 1.25 times of what the class needs on an idle machine).
        state: &'static str,
        /// What the controller has done last for the class; NULL: nothing so far.
        last_action: Option<String>,
        /// Why.
        reason: Option<String>,
        /// Worker threads that lower classes have given up for the class now; a fraction is a share of the time.
        threads_given_up: f64,
    }
}

/// A limit of a session's class.
pub struct EffectiveRow {
    /// Session.
    pub session: u32,
    /// Class.
    pub class: String,
    /// Mapping.
    pub mapping: Option<String>,
    /// Explanation.
    pub reason: String,
    /// Name of the limit.
    pub property: String,
    /// Value in force.
    pub value: Option<String>,
    /// Class that it comes from.
    pub origin: Option<String>,
}

/// Counts of a class at the gate. Times are nanoseconds.
#[derive(Default)]
pub struct AdmissionRow {
    /// Class.
    pub class: String,
    /// Let in.
    pub admitted: u64,
    /// Turned away.
    pub rejected: u64,
    /// Waited.
    pub enqueued: u64,
    /// Let in after a wait.
    pub dequeued: u64,
    /// Waited too long.
    pub timeouts: u64,
    /// Cancelled while waiting.
    pub cancelled: u64,
    /// Waiting now.
    pub waiting: u64,
    /// Inside now.
    pub running: u64,
    /// The last wait, the sum, the longest and the shortest.
    pub waits_ns: [u64; 4],
}

/// A statement that waits at the gate. Moments are microseconds since 1970.
pub struct QueueRow {
    /// Session.
    pub session: u32,
    /// Class.
    pub class: String,
    /// When it came.
    pub since_us: i64,
    /// When it has waited too long.
    pub until_us: Option<i64>,
}

/// A decision of the gate.
pub struct EventRow {
    /// When, microseconds since 1970.
    pub at_us: i64,
    /// In one word.
    pub kind: String,
    /// What it rests on.
    pub reason: String,
    /// Class.
    pub class: String,
    /// Session.
    pub session: Option<u32>,
    /// Wait so far.
    pub wait_ns: Option<u64>,
}

/// What the statements of a class take.
#[derive(Default)]
pub struct ClassRow {
    /// Class.
    pub class: String,
    /// Statements that run.
    pub running: u64,
    /// Statements that have ended.
    pub statements: u64,
    /// Statements that failed.
    pub errors: u64,
    /// Time of workers.
    pub busy_ns: u64,
    /// 99th percentile of waits for a worker.
    pub ready_wait_ns: u64,
    /// Bytes held.
    pub memory: i64,
    /// Workers at once.
    pub threads: Option<u32>,
}

/// The latency of a class.
pub struct LatencyRow {
    /// Class.
    pub class: String,
    /// Statements of the window.
    pub count: u64,
    /// Seconds of the window.
    pub window_s: u32,
    /// P50, P95, P99, P999 in nanoseconds.
    pub quantiles_ns: [u64; 4],
    /// The strictest target.
    pub target: Option<String>,
    /// Percent of windows within the target.
    pub attainment: Option<f64>,
}

/// A class with a target, as its controller sees it.
pub struct ControllerRow {
    /// Class.
    pub class: String,
    /// Quantile.
    pub quantile: &'static str,
    /// Target.
    pub target_ns: u64,
    /// Measured.
    pub measured_ns: Option<u64>,
    /// Where the class stands.
    pub state: &'static str,
    /// Last action.
    pub action: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Threads that others have given up.
    pub given_up: f64,
}

const MS: f64 = 1e6;

fn effective(context: &Context) -> Vec<Effective> {
    let sessions = context.live.sessions();
    let row = |own: EffectiveRow| {
        let session = sessions.iter().find(|session| session.id == own.session)?;
        let is_visible = context.is_superuser() || session.user == context.session.user;
        is_visible.then(|| Effective {
            connection_id: own.session,
            user_name: session.role.clone(),
            workload_class_name: own.class,
            workload_mapping_name: own.mapping,
            reason: own.reason,
            property: own.property,
            value: own.value,
            origin: own.origin,
        })
    };
    context.live.workload_effective().into_iter().filter_map(row).collect()
}

fn admission(context: &Context) -> Vec<Admission> {
    let row = |own: AdmissionRow| {
        let [last, sum, max, min] = own.waits_ns.map(|ns| ns as f64 / MS);
        let waits = own.dequeued + own.timeouts + own.cancelled;
        Admission {
            workload_class_name: own.class,
            admit_count: own.admitted,
            reject_count: own.rejected,
            enqueue_count: own.enqueued,
            dequeue_count: own.dequeued,
            timeout_count: own.timeouts,
            cancel_count: own.cancelled,
            current_queue_size: own.waiting,
            current_running: own.running,
            last_wait_ms: last,
            avg_wait_ms: if waits == 0 { 0.0 } else { sum / waits as f64 },
            max_wait_ms: max,
            min_wait_ms: min,
            sum_wait_ms: sum,
        }
    };
    context.live.workload_admission().into_iter().map(row).collect()
}

fn queued(context: &Context) -> Vec<Queued> {
    let sessions = context.live.sessions();
    let row = |own: QueueRow| {
        let session = sessions.iter().find(|session| session.id == own.session)?;
        let is_visible = context.is_superuser() || session.user == context.session.user;
        is_visible.then(|| Queued {
            connection_id: own.session,
            workload_class_name: own.class,
            user_name: session.role.clone(),
            enqueue_time: Moment(own.since_us),
            queue_timeout_time: own.until_us.map(Moment),
            statement_string: session.statement.clone(),
        })
    };
    context.live.workload_queue().into_iter().filter_map(row).collect()
}

fn events(context: &Context) -> Vec<Event> {
    if !context.is_superuser() {
        return Vec::new();
    }
    let row = |own: EventRow| Event {
        event_time: Moment(own.at_us),
        event_type: own.kind,
        event_reason: own.reason,
        workload_class_name: own.class,
        connection_id: own.session,
        wait_ms: own.wait_ns.map(|ns| ns as f64 / MS),
    };
    context.live.workload_events().into_iter().map(row).collect()
}

fn classes(context: &Context) -> Vec<Class> {
    let row = |own: ClassRow| Class {
        workload_class_name: own.class,
        running_statements: own.running,
        statement_count: own.statements,
        error_count: own.errors,
        busy_ms: own.busy_ns as f64 / MS,
        ready_wait_p99_ms: own.ready_wait_ns as f64 / MS,
        used_memory: own.memory,
        thread_limit: own.threads,
    };
    context.live.workload_classes().into_iter().map(row).collect()
}

fn latency(context: &Context) -> Vec<Latency> {
    let row = |own: LatencyRow| {
        let [p50, p95, p99, p999] = own.quantiles_ns.map(|ns| ns as f64 / MS);
        Latency {
            workload_class_name: own.class,
            statement_count: own.count,
            window_s: own.window_s,
            p50_ms: p50,
            p95_ms: p95,
            p99_ms: p99,
            p999_ms: p999,
            target: own.target,
            attainment: own.attainment,
        }
    };
    context.live.workload_latency().into_iter().map(row).collect()
}

fn controllers(context: &Context) -> Vec<Controller> {
    let row = |own: ControllerRow| Controller {
        workload_class_name: own.class,
        quantile: own.quantile.to_owned(),
        target_ms: own.target_ns as f64 / MS,
        measured_ms: own.measured_ns.map(|ns| ns as f64 / MS),
        state: own.state,
        last_action: own.action,
        reason: own.reason,
        threads_given_up: own.given_up,
    };
    context.live.workload_controllers().into_iter().map(row).collect()
}
