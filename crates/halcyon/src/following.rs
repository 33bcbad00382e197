//! A subscription to a view: first the view's rows, then every change.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use halcyon_base::ids::TableId;
use halcyon_catalog::Table;
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_store::{Value, ValueRef};
use halcyon_views::{FeedBatch, FeedNews, Follower, RowDelta};

use crate::stream_views::StreamViews;

/// The longest single wait for a feed, after which cancellation is checked.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// After this time without a change the client gets a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The changes that one transaction made to a view, or the rows with which a subscription begins.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Position of the changes: a subscription that begins behind this position continues after
    /// them.
    pub position: u64,
    /// The changed rows.
    pub rows: Vec<RowDelta>,
}

/// A subscription, apart from its session.
pub(crate) struct Following {
    view: Arc<Table>,
    follower: Follower,
    /// The view's rows at the beginning, until the client has got them.
    first: Option<Vec<RowDelta>>,
    zone: TimeZone,
    /// Time of the last line to the client.
    told: Instant,
    /// The version of the catalog at which the role was last seen to have the right to read the
    /// view; 0 before the first look.
    pub allowed_at: u64,
}

impl Following {
    /// Follows `view` from behind position `from`; `first` are the rows to be told before.
    pub fn new(view: Arc<Table>, from: u64, first: Option<Vec<RowDelta>>, time_zone: &str) -> Self {
        let maintained = view.materialized().expect("it is a view").maintained();
        let follower = Follower::behind(Arc::clone(maintained.feed()), from);
        Following {
            view,
            follower,
            first,
            zone: TimeZone::parse(time_zone).unwrap_or_default(),
            told: Instant::now(),
            allowed_at: 0,
        }
    }

    /// The view's number in the catalog.
    pub fn view_id(&self) -> TableId {
        self.view.id
    }

    /// Number of columns of the view.
    pub fn column_count(&self) -> usize {
        self.view.columns.len()
    }

    /// The position behind which a later subscription would continue.
    pub fn position(&self) -> u64 {
        self.follower.position()
    }

    /// The next transaction's changes, waiting for them up to `wait`; `None` if none came.
    ///
    /// Errors: 53400, 42P01; the errors of a wait for locks.
    pub fn next(&mut self, views: &StreamViews<'_>, wait: Duration) -> Result<Option<Changes>> {
        if let Some(rows) = self.first.take() {
            return Ok(Some(Changes { position: self.follower.position(), rows }));
        }
        views.settle_one(&self.view)?;
        match self.follower.next(wait) {
            Ok(FeedNews::Batch(batch)) => {
                let FeedBatch { position, rows } = &*batch;
                Ok(Some(Changes { position: *position, rows: rows.clone() }))
            }
            Ok(FeedNews::Nothing) => Ok(None),
            Ok(FeedNews::Gone) => Err(SqlError::new(
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

    /// Ready once [`Following::lines`] has a change to tell; else the next change wakes the task. A view over streams is
    /// not changed before somebody looks, nor does a task wake for a sign of life: [`LOOK`] is for both.
    pub fn poll_changes(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.first.is_some() {
            return Poll::Ready(());
        }
        self.follower.poll_news(context)
    }

    /// Gives the next lines for a client: the first rows, the changes of a transaction, or a sign
    /// of life after a long time without changes. A line is position, `+`, `-` or `=`, and the
    /// columns, as COPY writes text; `=` ends a group of lines that belong together. Gives no line
    /// if nothing has happened, and does not wait for changes.
    pub fn lines(&mut self, views: &StreamViews<'_>, mut line: impl FnMut(&[u8])) -> Result<()> {
        let mut text = String::new();
        if let Some(changes) = self.next(views, Duration::ZERO)? {
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
