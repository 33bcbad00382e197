//! The duties of the steward of workload classes: what it measures, what it tells the gate and the
//! controllers, and what becomes of statements that use more than their class's rules allow.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use halcyon_base::clock;
use halcyon_base::memory;
use halcyon_txn::TransactionState;
use halcyon_workload::{Action, Class, Rule, Snapshot, Usage, act};

use crate::activity::SessionEntry;
use crate::shared::Shared;
use crate::workload::steward::Duties;

/// Time between two looks at rules.
const RULES_EVERY: Duration = Duration::from_millis(100);
/// Time between two measurements of the processors.
const PROCESSORS_EVERY: Duration = Duration::from_secs(1);

/// Time between two looks at how long transactions have been open.
const LIFETIMES_EVERY: Duration = Duration::from_secs(1);

/// The steward's duties for one database.
pub(crate) struct Watch {
    shared: Weak<Shared>,
    processors: Processors,
    ruled: Instant,
    looked_at_lifetimes: Instant,
    /// By session: the statement to which a rule has come, by the moment it began, and how many rules have.
    acted: HashMap<u32, (u64, Vec<String>)>,
}

impl Watch {
    pub fn over(shared: &Arc<Shared>) -> Box<dyn Duties> {
        Box::new(Watch {
            shared: Arc::downgrade(shared),
            processors: Processors::default(),
            ruled: Instant::now(),
            looked_at_lifetimes: Instant::now(),
            acted: HashMap::new(),
        })
    }

    /// Looks whether running statements use more than rules allow.
    fn look_at_rules(&mut self, shared: &Shared, snapshot: &Snapshot) {
        if !snapshot.classes().any(|class| !class.rules.is_empty()) {
            return;
        }
        let sessions = shared.sessions.lock().clone();
        let transactions = shared.manager.transactions().into_iter();
        let waiting: HashSet<u32> = transactions
            .filter(|info| info.state == TransactionState::Waiting)
            .map(|info| info.session.0)
            .collect();
        self.acted.retain(|session, _| sessions.contains_key(session));
        for entry in sessions.values() {
            let Some(class) = entry.class().map(|shown| snapshot.class(shown.class)) else {
                continue;
            };
            if let (true, Some(usage)) =
                (!class.rules.is_empty(), usage(entry, waiting.contains(&entry.id)))
            {
                self.apply(shared, snapshot, entry, class, &usage);
            }
        }
    }

    fn apply(
        &mut self,
        shared: &Shared,
        snapshot: &Snapshot,
        entry: &Arc<SessionEntry>,
        class: &Class,
        usage: &Usage,
    ) {
        let began = entry.statement_began().map_or(0, |began| began.0);
        let acted = self.acted.entry(entry.id).or_default();
        if acted.0 != began {
            *acted = (began, Vec::new());
        }
        // Each rule comes to a statement once, the most severe of those that hold first.
        let rules: Vec<Rule> =
            class.rules.iter().filter(|rule| !acted.1.contains(&rule.name)).cloned().collect();
        let Some(rule) = act(&rules, usage) else { return };
        acted.1.push(rule.name.clone());
        let told = format!("rule \"{}\" of workload class \"{}\"", rule.name, class.name);
        let dry = if rule.dry_run { " (dry run)" } else { "" };
        tracing::info!(session = entry.id, "{told} has come to a statement{dry}");
        shared.workload.note_rule(
            entry.id,
            class.id,
            format!("{told}: {}{dry}", text_of(&rule.action)),
            usage,
        );
        if rule.dry_run {
            return;
        }
        match &rule.action {
            Action::Log => {}
            Action::Cancel => {
                entry.end_by_rule(began, format!("It was ended by {told}."));
                entry.signals.cancel.cancel();
            }
            Action::SwitchTo(name) => {
                if let Some(to) = snapshot.by_name(name) {
                    shared.workload.move_to(&shared.datafusion, snapshot, entry.id, to.id);
                }
            }
            Action::Throttle(percent) => {
                let (workload, df) = (&shared.workload, &shared.datafusion);
                workload.throttle(df, snapshot, entry.id, class.id, *percent);
            }
        }
    }
}

impl Duties for Watch {
    fn look(&mut self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let snapshot = shared.workload.snapshot();
        let cpu_percent = self.processors.percent();
        let limit = shared.memory.bytes();
        let memory_percent = memory::used().max(0) as f64 / limit.max(1) as f64 * 100.0;
        let is_busy = shared.workload.tick(&shared.datafusion, cpu_percent, memory_percent);
        if self.ruled.elapsed() >= RULES_EVERY {
            self.ruled = Instant::now();
            self.look_at_rules(&shared, &snapshot);
        }
        if self.looked_at_lifetimes.elapsed() >= LIFETIMES_EVERY {
            self.looked_at_lifetimes = Instant::now();
            end_old_transactions(&shared);
        }
        is_busy
    }
}

/// Ends sessions whose transactions have written and been open for longer than their class allows: they hold locks.
fn end_old_transactions(shared: &Shared) {
    let sessions = shared.sessions.lock().clone();
    for info in shared.manager.transactions() {
        let Some(entry) = sessions.get(&info.session.0) else { continue };
        let lifetime = entry.class().and_then(|shown| shown.limits.write_transaction_lifetime);
        if lifetime.is_some_and(|most| info.undo_records > 0 && info.age > most) {
            let class = entry.class().map(|shown| shown.class);
            tracing::warn!(
                session = entry.id,
                ?class,
                "a transaction has outlived its workload class's limit"
            );
            entry.signals.end();
        }
    }
}

/// An action as it is written in SQL.
fn text_of(action: &Action) -> String {
    match action {
        Action::Log => "LOG".to_owned(),
        Action::SwitchTo(class) => format!("SWITCH TO \"{class}\""),
        Action::Throttle(percent) => format!("THROTTLE {percent}%"),
        Action::Cancel => "CANCEL".to_owned(),
    }
}

/// What the running statement of a session has used; `None` if none runs.
fn usage(entry: &SessionEntry, is_waiting: bool) -> Option<Usage> {
    let (_, is_running) = entry.statement();
    let began = entry.statement_began().filter(|_| is_running)?;
    let elapsed = clock::now().since(began);
    let account = entry.signals.cancel.account();
    let (bytes, _) = account.bytes();
    // A statement without tasks computes on its connection's thread, unless it waits.
    let alone = if entry.is_computing() && !is_waiting { elapsed } else { Duration::ZERO };
    Some(Usage {
        cpu: account.busy() + alone,
        elapsed,
        memory: u64::try_from(bytes).unwrap_or(0),
        rows: entry.rows_read(),
    })
}

/// The share of the machine's processors that the process uses.
#[derive(Default)]
struct Processors {
    before: Option<(Instant, Duration)>,
    percent: f64,
}

impl Processors {
    /// Percent of all processors, in the last second or so.
    fn percent(&mut self) -> f64 {
        let is_due = self.before.is_none_or(|(at, _)| at.elapsed() >= PROCESSORS_EVERY);
        if let (true, Some(used)) = (is_due, halcyon_machine::limit::processor_time()) {
            let now = Instant::now();
            if let Some((at, before)) = self.before.replace((now, used)) {
                let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
                let share = used.saturating_sub(before).as_secs_f64() / (now - at).as_secs_f64();
                self.percent = (share / cores * 100.0).min(100.0);
            }
        }
        self.percent
    }
}
