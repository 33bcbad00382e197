//! The view in Halcyon, fed through the handles of its streams.

use std::ops::Range;

use halcyon::{Database, PackedEvents, Streams, ValueRef, ViewReader};
use halcyon_scenarios::in_cell::Script;

use super::bare::Answer;
use super::events::{Column, Event, Events};
use super::measure::{Ask, Given, Taker, ask as ask_taker};
use super::queries::Query;
use super::recompute::answer;
use crate::{Failure, Result};

/// A database with one view.
pub struct Maintained<'a> {
    db: Database,
    streams: Streams,
    packed: PackedEvents,
    /// Number of events given at once.
    batch: usize,
    /// Reads the view's one row after every batch, for views that do some of their work then.
    reader: Option<ViewReader>,
    query: &'a Query,
}

impl<'a> Maintained<'a> {
    /// An empty view; `read` reads a view of one row after every batch.
    pub fn new(query: &'a Query, events: &'a Events, how: How, read: bool) -> Result<Self> {
        let How { executor, batch } = how;
        let db = Database::in_memory();
        let mut session = db.session();
        for relation in &events.relations {
            session.batch(&format!("CREATE STREAM {}", relation.sql()))?;
        }
        session.batch(&format!(
            "CREATE MATERIALIZED VIEW view ({}) WITH (executor = '{executor}') AS {}",
            query.columns().join(", "),
            query.sql
        ))?;
        let names: Vec<_> = events.relations.iter().map(|relation| relation.name).collect();
        let mut streams = db.streams(&names)?;
        let mut packed = streams.packed();
        for event in events.iter() {
            let (values, width) = row(events, event);
            streams.pack(event.relation, &values[..width], event.weight as i8, &mut packed)?;
        }
        let read = read && query.key_columns == 0;
        let reader = read.then(|| db.view("view")).transpose()?;
        Ok(Self { db, streams, packed, batch, reader, query })
    }
}

/// Most columns of a stream.
const COLUMNS_MAX: usize = 8;

/// The row as the handle takes it.
fn row<'a>(events: &'a Events, event: Event<'_>) -> ([ValueRef<'a>; COLUMNS_MAX], usize) {
    let mut values = [ValueRef::Null; COLUMNS_MAX];
    let columns = &events.relations[event.relation].columns;
    for ((value, &(_, column)), &word) in values.iter_mut().zip(columns).zip(event.row) {
        *value = match column {
            Column::Int => ValueRef::Int64(word as i64),
            Column::Double => ValueRef::Float64(f64::from_bits(word)),
            Column::Money => ValueRef::Decimal(i128::from(word)),
            Column::Date => ValueRef::Date(word as i32),
            Column::Text => ValueRef::Text(&events.texts[word as usize]),
        };
    }
    (values, columns.len())
}

impl Maintained<'_> {
    /// The view's program and all its events, for a cell.
    pub fn script(&self) -> Result<Script> {
        let script = self.db.view("view")?.script(&self.packed);
        script.ok_or_else(|| Failure::Engine("other views read the streams too".into()))
    }

    /// A number that follows from the view's rows, here and in a cell.
    pub fn checksum(&self) -> Result<u64> {
        Ok(self.db.view("view")?.checksum()?)
    }

    #[inline]
    fn give(&mut self, run: Range<usize>) -> Result<()> {
        self.streams.take(&self.packed, run)?;
        if let Some(reader) = &mut self.reader {
            std::hint::black_box(reader.row(&[])?);
        }
        Ok(())
    }
}

impl Taker for Maintained<'_> {
    #[inline]
    fn take(&mut self, index: usize) -> Result<()> {
        self.give(index..index + 1)
    }

    #[inline]
    fn take_run(&mut self, run: Range<usize>) -> Result<()> {
        let Range { start, end } = run;
        (start..end)
            .step_by(self.batch)
            .try_for_each(|first| self.give(first..end.min(first + self.batch)))
    }

    fn answer(&mut self) -> Result<Answer> {
        answer(&mut self.db.session(), self.query, &self.query.answer_sql("view"))
    }
}

/// The executor of the triggers, and how many events it gets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Name of the executor in SQL.
    pub executor: &'static str,
    /// Events of a batch, for rates.
    pub batch: usize,
}

/// Asks a view; `read` reads a view of one row after every batch.
pub fn ask(what: Ask, query: &Query, events: &Events, how: How, read: bool) -> Result<Given> {
    ask_taker(what, events.len(), || Maintained::new(query, events, how, read))
}
