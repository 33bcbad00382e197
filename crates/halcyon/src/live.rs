//! The running engine as the system views show it: sessions, transactions, locks, the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_base::clock;
use halcyon_base::{duty, memory};
use halcyon_catalog::{Catalog, Table};
use halcyon_machine::topology::list_text;
use halcyon_pgcatalog::{
    Accounts, AdmissionRow, AdvisoryKey, AdvisoryRequest, AdvisoryRow, ClassRow, ControllerRow,
    CursorRow, EffectiveRow, Effects, EventRow, GroupRow, LatencyRow, Live, LockRow, LogRow,
    MatrixRow, QueueRow, SessionRow, SessionShare, SessionState, SettingRow, StatementRow,
    TasksRow, TransactionRow, WorkerRow,
};
use halcyon_plan::executions::Execution;
use halcyon_plan::lock_errors::cancelled;
use halcyon_prepare::shapes::MissReason;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::utility::{Modes, isolation_name, parse_isolation};
use halcyon_store::Partition;
use halcyon_task::{Activity, WorkerCounters, WorkerKind, WorkerView};
use halcyon_txn::advisory::Step;
use halcyon_txn::{CancelToken, Mode, TransactionState, WaitLimits, cut};

use crate::activity::{SessionEntry, StatementEntry};
use crate::advisory::advisory_error;
use crate::settings::{SERVER_VERSION, Surroundings, transaction_modes};
use crate::shared::Shared;
use crate::signals::{SettingWish, Wish};
use crate::workload_live;

/// Time that the system view of memory waits for a running write before it omits a table.
const ROOTS_WAIT_MAX: Duration = Duration::from_millis(200);

/// Time between two checks for cancellation of a sleeping statement.
const SLEEP_LOOK: Duration = Duration::from_millis(5);

/// The engine as the system views see it for one session.
pub(crate) struct View {
    pub shared: Arc<Shared>,
    /// The session that runs the query.
    pub entry: Arc<SessionEntry>,
}

impl Live for View {
    fn version(&self) -> String {
        format!("PostgreSQL {SERVER_VERSION}, an in-memory database")
    }

    fn started_us(&self) -> i64 {
        self.shared.started_us
    }

    fn spilled(&self) -> (i64, i64) {
        let counts = self.shared.options.spill.as_ref().map(|folder| folder.counts());
        let counts = counts.unwrap_or_default();
        let shown = |count| i64::try_from(count).unwrap_or(i64::MAX);
        (shown(counts.files_made), shown(counts.bytes_written))
    }

    fn sessions(&self) -> Vec<SessionRow> {
        let transactions = self.shared.manager.transactions();
        let (now, now_us) = (clock::now(), clock::wall_us());
        let row = |entry: &Arc<SessionEntry>| {
            let (text, running) = entry.statement();
            let own = transactions.iter().find(|info| info.session.0 == entry.id);
            let failed = own.is_some_and(|info| entry.is_block(info.id)) && entry.has_failed();
            let state = match (own.map(|info| info.state), running) {
                _ if entry.is_syncing() => SessionState::Syncing,
                (Some(TransactionState::Waiting), _) => SessionState::Waiting,
                (_, true) => SessionState::Active,
                (Some(_), false) if failed => SessionState::Failed,
                (Some(_), false) => SessionState::IdleInTransaction,
                (None, false) => SessionState::Idle,
            };
            SessionRow {
                id: entry.id,
                user: entry.role.clone(),
                role: entry.acting(),
                application: entry.application.lock().clone(),
                client: entry.client.clone(),
                state,
                statement: Some(text.to_string()).filter(|text| !text.is_empty()),
                started_us: entry.began_us,
                transaction_us: own.map(|info| now_us - info.age.as_micros() as i64),
                statement_us: entry
                    .statement_began()
                    .map(|began| now_us - now.since(began).as_micros() as i64),
                transaction: own.map(|info| info.id.0),
            }
        };
        self.shared.sessions.lock().values().map(row).collect()
    }

    fn statements(&self) -> Vec<StatementRow> {
        let row = |(text, entry): (Arc<str>, StatementEntry)| StatementRow {
            text: text.to_string(),
            executor: entry.executor,
            calls: entry.calls,
            total_ns: entry.total_ns,
            max_ns: entry.max_ns,
            rows: entry.rows,
            errors: entry.errors,
            plan_hits: entry.plan_hits,
            plan_misses: entry.plan_misses,
            last_miss: entry.last_miss.map(MissReason::name),
        };
        self.shared.statements.all().into_iter().map(row).collect()
    }

    fn locks(&self) -> Vec<LockRow> {
        let catalog = self.shared.catalog();
        let temporary = self.shared.temporary.lock().clone();
        let temporary = temporary.values().flat_map(|schema| schema.tables());
        let tables = catalog.tables.values().chain(temporary);
        let cells = tables.flat_map(|table| table.cells.iter());
        let row = |info: halcyon_txn::LockInfo| LockRow {
            partition: info.partition.0,
            transaction: info.txn.0,
            session: info.session.0,
            exclusive: info.mode == Mode::Exclusive,
            granted: info.waiting.is_none(),
        };
        self.shared.manager.locks(cells).into_iter().map(row).collect()
    }

    fn advisory_locks(&self) -> Vec<AdvisoryRow> {
        self.shared.advisory.all()
    }

    fn transactions(&self) -> Vec<TransactionRow> {
        let now_us = clock::wall_us();
        let sessions = self.shared.sessions.lock().clone();
        let row = |info: halcyon_txn::TransactionInfo| TransactionRow {
            id: info.id.0,
            session: info.session.0,
            isolation: isolation_name(info.isolation),
            read_only: sessions
                .get(&info.session.0)
                .is_some_and(|session| session.is_read_only(info.id)),
            started_us: now_us - info.age.as_micros() as i64,
            undo_records: info.undo_records,
            locks: info.lock_count as u64,
        };
        self.shared.manager.transactions().into_iter().map(row).collect()
    }

    fn cursors(&self) -> Vec<CursorRow> {
        self.entry.cursors.lock().clone()
    }

    fn log(&self) -> Option<LogRow> {
        let durable = self.shared.durable.as_ref()?;
        let done = durable.log.statistics();
        let last = *durable.last.lock();
        Some(LogRow {
            database: durable.id,
            end: done.end.to_string(),
            durable: done.durable.to_string(),
            checkpoint: last.lsn.to_string(),
            bytes: done.end.0.saturating_sub(last.lsn.0),
            files: done.files,
            commits: done.commits,
            syncs: done.batches,
            sync_ms: done.writing.as_secs_f64() * 1e3,
            checkpoint_us: last.wall_us,
            error: durable.log.failure().map(|error| error.to_string()),
        })
    }

    fn accounts(&self) -> Accounts {
        let count = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let limit = |bytes: i64| u64::try_from(bytes).ok().filter(|_| bytes < i64::MAX);
        let undo: HashMap<u32, u64> = (self.shared.manager.transactions().iter())
            .map(|info| (info.session.0, info.undo_bytes))
            .collect();
        let share = |entry: &Arc<SessionEntry>| {
            let account = entry.signals.cancel.account();
            let (statement, transaction) = account.bytes();
            SessionShare {
                session: entry.id,
                account: account.number(),
                user: entry.role.clone(),
                statement,
                transaction,
                undo: undo.get(&entry.id).map_or(0, |bytes| count(*bytes)),
                is_planning: account.is_planning(),
                statement_limit: limit(account.statement_limit()),
            }
        };
        Accounts {
            sessions: self.shared.sessions.lock().values().map(share).collect(),
            plans: memory::plans(),
            log: self
                .shared
                .durable
                .as_ref()
                .map_or(0, |durable| count(durable.log.statistics().buffer_bytes)),
            total: memory::used(),
            limit: limit(self.shared.memory.bytes()),
            refusals: memory::refusals(),
        }
    }

    fn settings(&self) -> Vec<SettingRow> {
        let catalog = self.shared.catalog();
        let own = self.transactions().into_iter().find(|row| row.session == self.entry.id);
        let modes = own.map(|own| Modes {
            isolation: parse_isolation(own.isolation),
            read_only: Some(own.read_only),
        });
        let around = Surroundings { system: self.shared.chosen(&catalog), transaction: modes };
        self.entry.settings().rows(&around)
    }

    fn cache(&self) -> Vec<GroupRow> {
        self.shared.datafusion.crew().cache_groups()
    }

    fn interference(&self) -> Vec<MatrixRow> {
        self.shared.datafusion.crew().interference()
    }

    fn workers(&self) -> Vec<WorkerRow> {
        let Some(runtime) = self.shared.datafusion.started_runtime() else { return Vec::new() };
        let executions = self.shared.datafusion.executions().under_way();
        let session_of = |group: u32| {
            let found = executions.iter().find(|execution| execution.group.number() == group);
            found.map(|execution| execution.session)
        };
        let counters = runtime.counters().workers.into_iter();
        let row = |(number, (worker, counts)): (usize, (WorkerView, WorkerCounters))| WorkerRow {
            number: number as u32,
            is_dedicated: worker.config.kind == WorkerKind::Dedicated,
            island: u32::from(worker.config.island.0),
            processors: list_text(&worker.config.cpus),
            state: match worker.activity {
                Activity::Busy => "busy",
                Activity::Spinning => "spinning",
                Activity::Parked => "sleeping",
                Activity::Absent => "absent",
            },
            session: worker.group.and_then(session_of),
            tasks: counts.finished,
            suspensions: counts.classes.values().map(|class| class.suspensions).sum(),
            busy_ns: counts.busy_ns,
            run_delay_ns: counts.run_delay_ns,
            longest_ns: counts.classes.values().map(|class| class.longest_ns).max().unwrap_or(0),
            sleeps: counts.parks,
        };
        runtime.workers().into_iter().zip(counters).enumerate().map(row).collect()
    }

    fn tasks(&self) -> Vec<TasksRow> {
        let Some(runtime) = self.shared.datafusion.started_runtime() else { return Vec::new() };
        let (workers, snapshot) = (runtime.workers(), self.shared.workload.snapshot());
        let row = |execution: Execution| {
            let group = execution.group.number();
            let place = *execution.place.lock();
            TasksRow {
                session: execution.session,
                began_us: execution.began_us,
                tasks: execution.group.live(),
                running: workers.iter().filter(|worker| worker.group == Some(group)).count() as u64,
                workers: execution.workers as u64,
                class: snapshot.class(halcyon_workload::ClassId(place.class)).name.to_string(),
                band: place.name(),
                cache_use: execution.cache.name(),
            }
        };
        self.shared.datafusion.executions().under_way().into_iter().map(row).collect()
    }

    fn workload_effective(&self) -> Vec<EffectiveRow> {
        workload_live::effective(&self.shared)
    }

    fn workload_admission(&self) -> Vec<AdmissionRow> {
        workload_live::admission(&self.shared)
    }

    fn workload_queue(&self) -> Vec<QueueRow> {
        workload_live::queue(&self.shared)
    }

    fn workload_events(&self) -> Vec<EventRow> {
        workload_live::events(&self.shared)
    }

    fn workload_classes(&self) -> Vec<ClassRow> {
        workload_live::classes(&self.shared)
    }

    fn workload_latency(&self) -> Vec<LatencyRow> {
        workload_live::latency(&self.shared)
    }

    fn workload_controllers(&self) -> Vec<ControllerRow> {
        workload_live::controllers(&self.shared)
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn newest(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        let published = self.shared.catalog();
        if published.version > catalog.version { published } else { Arc::clone(catalog) }
    }

    fn with_all_temporary(&self, catalog: &Arc<Catalog>) -> Arc<Catalog> {
        let temporary = self.shared.temporary.lock();
        let others = || temporary.iter().filter(|(id, _)| **id != self.entry.id);
        if others().next().is_none() {
            return Arc::clone(catalog);
        }
        let others = others().map(|(_, schema)| schema);
        Arc::new(Catalog::clone(catalog).with_schemas(others))
    }

    fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>> {
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: Some(ROOTS_WAIT_MAX), cancel: &cancel };
        cut(&self.shared.manager, &table.cells, &limits).unwrap_or_default()
    }
}

impl View {
    /// Sends a signal to a session, if the asking session has the right to. Errors: 42501.
    fn signal(&self, session: u32, send: impl FnOnce(&SessionEntry)) -> Result<bool> {
        let Some(entry) = self.shared.sessions.lock().get(&session).cloned() else {
            return Ok(false);
        };
        let catalog = self.shared.catalog();
        let own = self.entry.acting();
        let permitted = match catalog.is_superuser(&entry.role) {
            true => catalog.is_superuser(&own),
            false => catalog.is_superuser(&own) || catalog.acts_for(&own, &entry.role),
        };
        if !permitted {
            let message = "permission denied to signal this session";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .detail("Only its own role and superusers may."));
        }
        send(&entry);
        Ok(true)
    }
}

/// The error of a statement that gives its thread back while its function waits; nobody sees it.
fn runs_again() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the statement is run again once its wait is over")
}

impl Effects for View {
    fn listening(&self) -> Vec<String> {
        self.shared.channels.of(self.entry.id)
    }
    fn set_config(&self, name: &str, value: &str, local: bool) -> Result<String> {
        let name = name.to_ascii_lowercase();
        if name == "role" && value != "none" {
            self.shared.catalog().may_become(&self.entry.role, value)?;
        } else if name != "role" && transaction_modes(&name, Some(value))?.is_none() {
            let mut settings = self.entry.settings();
            settings.set(&name, Some(value))?;
            let shown = settings.changed(&name).unwrap_or(value).to_owned();
            self.entry.set_settings(&settings);
            self.entry.signals.wish_setting(SettingWish { name, value: shown.clone(), local });
            return Ok(shown);
        }
        let value = if name == "role" { value.to_owned() } else { value.to_ascii_lowercase() };
        self.entry.signals.wish_setting(SettingWish { name, value: value.clone(), local });
        Ok(value)
    }

    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        let (channel, payload) = (channel.to_owned(), payload.to_owned());
        self.shared.memory.require_room_to_keep()?;
        self.entry.signals.wish(Wish::Notify { channel, payload })
    }

    fn cancel(&self, session: u32) -> Result<bool> {
        self.signal(session, |entry| entry.signals.cancel.cancel())
    }

    fn end(&self, session: u32) -> Result<bool> {
        self.signal(session, |entry| entry.signals.end())
    }

    fn sleep(&self, time: Duration) -> Result<()> {
        match self.entry.awaiting.lock().sleep(time, &self.entry.signals.cancel) {
            Step::Over => return Ok(()),
            Step::Suspends => return Err(runs_again()),
            Step::Blocks => {}
        }
        let until = Instant::now().checked_add(time);
        duty::relieved(|| {
            loop {
                if self.entry.signals.cancel.is_cancelled() {
                    return Err(cancelled());
                }
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                match left.unwrap_or(SLEEP_LOOK) {
                    Duration::ZERO => return Ok(()),
                    left => std::thread::sleep(left.min(SLEEP_LOOK)),
                }
            }
        })
    }

    fn lock(&self, request: AdvisoryRequest, waits: bool) -> Result<bool> {
        let (locks, session) = (&self.shared.advisory, self.entry.id);
        self.shared.memory.require_room_to_keep()?;
        let has = locks.try_lock(session, request);
        if has || !waits {
            return Ok(has);
        }
        let timeout = self.entry.settings().duration("lock_timeout");
        let cancel = &self.entry.signals.cancel;
        let step = self.entry.awaiting.lock().lock(locks, session, request, cancel, timeout);
        match step.map_err(advisory_error)? {
            Step::Over => return Ok(true),
            Step::Suspends => return Err(runs_again()),
            Step::Blocks => {}
        }
        let waited = duty::relieved(|| locks.lock(session, request, cancel, timeout));
        waited.map_err(advisory_error).map(|()| true)
    }

    fn unlock(&self, key: AdvisoryKey, shared: bool) -> bool {
        self.shared.advisory.unlock(self.entry.id, key, shared)
    }

    fn unlock_all(&self) {
        self.shared.advisory.unlock_all(self.entry.id);
    }
}
