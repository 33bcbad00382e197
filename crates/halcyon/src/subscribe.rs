//! SUBSCRIBE: a materialized view's rows, and then every change, whole transactions at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_query::catalog::Table;
use halcyon_query::coerce::{self, TimeZone};
use halcyon_query::error::{Result, SqlError, SqlState};
use halcyon_query::views::{Batch, Follower, Found, RowDelta, bring_up_to_date};
use halcyon_store::{Value, ValueRef};
use halcyon_txn::{Isolation, Lsn, Mode, WaitLimits};

use crate::database::Database;
use crate::durable::log_error;
use crate::session::Session;

/// How long one look at a feed may wait; then it is looked whether somebody cancels.
const LOOK: Duration = Duration::from_millis(50);

/// After so long without a change the client is told that there was none.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Changes of a view, in the order of commits.
pub struct Subscription {
    session: Session,
    following: Following,
}

/// What a transaction has changed of a view, or the rows with which a subscription begins.
#[derive(Clone, Debug)]
pub struct Changes {
    /// A subscription that begins behind this position goes on after these changes.
    pub position: u64,
    /// Rows that came, went or became others.
    pub rows: Vec<RowDelta>,
}

/// A subscription without its session.
pub(crate) struct Following {
    view: Arc<Table>,
    follower: Follower,
    /// What the view was at the beginning.
    first: Option<Vec<RowDelta>>,
    zone: TimeZone,
    told: Instant,
}

impl Database {
    /// Follows a view as the first superuser: see [`Session::into_subscription`].
    pub fn subscribe(&self, view: &str, from: Option<u64>) -> Result<Subscription> {
        self.session().into_subscription(view, from)
    }
}

impl Session {
    /// Follows a materialized view. Without a position the first changes are the view's rows.
    ///
    /// Errors: 42P01, 42809, 42501; those of a lock.
    pub fn into_subscription(mut self, view: &str, from: Option<u64>) -> Result<Subscription> {
        let quoted: Vec<String> =
            view.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        let statement = self.prepare(&format!("SUBSCRIBE {}", quoted.join(".")))?;
        let view = statement.subscribes().expect("the text says so");
        let following = self.follow(&view, from)?;
        Ok(Subscription { session: self, following })
    }

    /// Begins to follow a view, which the caller has found to be readable.
    pub(crate) fn follow(&self, view: &Arc<Table>, from: Option<u64>) -> Result<Following> {
        let cell = &view.materialized().expect("the binder found a view").cell;
        let mut first = None;
        let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
        self.freshen([view], |_| false)?;
        let mut tx = self.shared.manager.begin(Isolation::ReadCommitted, self.slot());
        tx.begin_statement();
        // Under the lock nobody is between changing the view and telling of it.
        let locked = tx.lock(&view.cells[0], Mode::Shared, &limits);
        let handle = locked.map_err(halcyon_query::exec::lock_error)?;
        let last = cell.follow_from();
        if from.is_none() {
            let new = |row: halcyon_store::RowRef<'_>| -> RowDelta {
                let values = row.values().map(|value| value.to_owned()).collect();
                RowDelta { old: None, new: Some(values) }
            };
            first = Some(tx.read(handle).rows().map(new).collect());
        }
        tx.end_statement();
        let lsn: Lsn = tx.try_commit(None).map_err(log_error)?;
        self.make_durable(lsn)?;
        Ok(Following {
            view: view.clone(),
            follower: Follower::behind(from.unwrap_or(last)),
            first,
            zone: TimeZone::parse(&self.vars.time_zone).unwrap_or_default(),
            told: Instant::now(),
        })
    }
}

impl Subscription {
    /// The next transaction's changes, waiting for them up to `wait`; `None` if there were none.
    ///
    /// Errors: 53400 if the subscriber was so slow that they are not kept any more, 42P01 once the
    /// view is dropped.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Changes>> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let found = self.following.next(&self.session, left.min(LOOK))?;
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
        }
    }

    /// Position behind which [`Database::subscribe`] would go on.
    pub fn position(&self) -> u64 {
        self.following.follower.position()
    }
}

impl Following {
    /// Columns of the view.
    pub(crate) fn column_count(&self) -> usize {
        self.view.columns.len()
    }

    fn next(&mut self, session: &Session, wait: Duration) -> Result<Option<Changes>> {
        if let Some(rows) = self.first.take() {
            return Ok(Some(Changes { position: self.follower.position(), rows }));
        }
        let cell = &self.view.materialized().expect("it is a view").cell;
        session.freshen([&self.view], |_| false)?;
        match self.follower.next(cell.feed(), wait) {
            Ok(Found::Batch(batch)) => {
                let Batch { position, rows } = &*batch;
                Ok(Some(Changes { position: *position, rows: rows.clone() }))
            }
            Ok(Found::Nothing) => Ok(None),
            Ok(Found::Gone) => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("materialized view \"{}\" has been dropped", self.view.name),
            )),
            Err(lagging) => Err(SqlError::new(
                SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                "the subscription fell behind and has ended",
            )
            .detail(format!(
                "It wants change {} of view \"{}\"; the oldest that is kept is {}.",
                lagging.wanted, self.view.name, lagging.oldest
            ))
            .hint("Subscribe again without a position, and begin with the view's rows.")),
        }
    }

    /// The next lines for a client: of the first rows, of a transaction, or of nothing for long.
    /// A line is position, `+`, `-` or `=`, and the columns, as COPY writes text; `=` ends what
    /// belongs together. No line if nothing has happened.
    pub(crate) fn lines(&mut self, session: &Session, mut line: impl FnMut(&[u8])) -> Result<()> {
        let mut text = String::new();
        if let Some(changes) = self.next(session, LOOK)? {
            for row in &changes.rows {
                for (sign, values) in [('-', &row.old), ('+', &row.new)] {
                    if let Some(values) = values {
                        self.write(&mut text, changes.position, sign, values);
                        line(text.as_bytes());
                    }
                }
            }
            self.told = Instant::now() - HEARTBEAT;
        }
        if self.told.elapsed() >= HEARTBEAT {
            self.write(&mut text, self.follower.position(), '=', &[]);
            line(text.as_bytes());
            self.told = Instant::now();
        }
        Ok(())
    }

    fn write(&self, text: &mut String, position: u64, sign: char, values: &[Value]) {
        text.clear();
        text.push_str(&format!("{position}\t{sign}"));
        let mut plain = String::new();
        for (value, column) in values.iter().zip(&self.view.columns) {
            text.push('\t');
            if matches!(value.as_ref(), ValueRef::Null) {
                text.push_str("\\N");
                continue;
            }
            plain.clear();
            coerce::write(value.as_ref(), column.ty, &self.zone, &mut plain);
            for c in plain.chars() {
                match c {
                    '\\' => text.push_str("\\\\"),
                    '\n' => text.push_str("\\n"),
                    '\r' => text.push_str("\\r"),
                    '\t' => text.push_str("\\t"),
                    c => text.push(c),
                }
            }
        }
        text.push('\n');
    }
}

impl Session {
    /// Brings the rows of these views up to date with events of streams' handles; with them those of
    /// all others, but for those that the caller holds.
    pub(crate) fn freshen<'t>(
        &self,
        tables: impl IntoIterator<Item = &'t Arc<Table>>,
        held: impl Fn(&Table) -> bool,
    ) -> Result<()> {
        let stale = |table: &&Arc<Table>| {
            table.materialized().is_some_and(|view| view.cell.is_stale()) && !held(table)
        };
        if tables.into_iter().find(stale).is_none() {
            return Ok(());
        }
        let limits = WaitLimits { timeout: self.lock_timeout, cancel: &self.cancel };
        let (shared, catalog) = (&self.shared, self.shared.catalog());
        bring_up_to_date(&shared.manager, self.slot(), &catalog, &held, &limits)
    }
}
