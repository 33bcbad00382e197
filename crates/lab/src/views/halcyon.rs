//! The view in Halcyon, fed through the handles of its streams.

use halcyon::{Database, PackedEvents, Stream, ValueRef, ViewReader};

use super::bare::Answer;
use super::events::{Column, Event, Events};
use super::measure::{Ask, Given, Taker, ask as ask_taker};
use super::queries::Query;
use super::recompute::answer;
use crate::Result;

/// A database with one view.
struct Maintained<'a> {
    db: Database,
    /// With their events, packed.
    streams: Vec<(Stream, PackedEvents)>,
    /// By event, where it is among those of its stream.
    places: Vec<u32>,
    /// Reads the view's one row after every event.
    reader: Option<ViewReader>,
    query: &'a Query,
    events: &'a Events,
}

impl<'a> Maintained<'a> {
    fn new(query: &'a Query, events: &'a Events, executor: &str, read: bool) -> Result<Self> {
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
        let stream = |relation: &super::events::Relation| db.stream(relation.name);
        let mut streams = Vec::new();
        for relation in &events.relations {
            let stream = stream(relation)?;
            let packed = stream.packed();
            streams.push((stream, packed));
        }
        let mut places = Vec::with_capacity(events.len());
        for event in events.iter() {
            let (stream, packed) = &mut streams[event.relation];
            let (values, width) = row(events, event);
            places.push(packed.len() as u32);
            stream.pack(&values[..width], event.weight as i8, packed)?;
        }
        let read = read && query.key_columns == 0;
        let reader = read.then(|| db.view("view")).transpose()?;
        Ok(Self { db, streams, places, reader, query, events })
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

impl Taker for Maintained<'_> {
    #[inline]
    fn take(&mut self, index: usize) -> Result<()> {
        let (stream, packed) = &mut self.streams[self.events.relation(index)];
        let place = self.places[index] as usize;
        stream.take(packed, place..place + 1)?;
        if let Some(reader) = &mut self.reader {
            std::hint::black_box(reader.row(&[])?);
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<Answer> {
        answer(&mut self.db.session(), self.query, &self.query.answer_sql("view"))
    }
}

/// Asks a view with this executor; `read` reads a view of one row after every event.
pub fn ask(what: Ask, query: &Query, events: &Events, executor: &str, read: bool) -> Result<Given> {
    ask_taker(what, events.len(), || Maintained::new(query, events, executor, read))
}
