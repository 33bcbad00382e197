//! Events of streams that come by a handle, without SQL.
//!
//! An event goes to the engines of the views that read the stream, and to nothing else: their rows
//! are brought up to date by whoever reads them next ([`bring_up_to_date`]). That is allowed while no
//! transaction owns any of these views, and where nobody has to see each change as it comes: a
//! guard, or a view over the view. Else the event is a transaction of its own, like an INSERT.
//!
//! *Packed* events have been verified and lie in the words of each view that reads the stream, one
//! view's after the other's, so that they go to the engines as they lie. They are good for as long
//! as the stream's CHECKs and the views that read it stay the same ([`Packing`]).
//!
//! A delete is the deletion of a whole tuple. Whether it was ever inserted nobody knows, since a
//! stream keeps nothing: a sum goes below zero then, and a row that is owed is not shown until it
//! has come (the ring of the calculus).

use std::ops::Range;
use std::sync::Arc;

use halcyon_base::clock;
use halcyon_base::ids::SessionId;
use halcyon_store::ValueRef;
use halcyon_txn::derived::{Beside, Derived, Keepers, Look, SettleError, settle_all};
use halcyon_txn::{Manager, Mode, Transaction, WaitLimits};
use smallvec::SmallVec;

use super::cell::{State, ViewCell};
use super::upkeep::{self, Fed};
use crate::bind::Binder;
use crate::catalog::{Catalog, Check, Privilege, Table};
use crate::coerce::Arena;
use crate::constraints::{check_violation, compile_check, holds, null_violation};
use crate::error::{Result, SqlError, SqlState};
use crate::exec::Env;
use crate::scalar::Program;
use crate::types::SqlType;

/// Of so many events one is timed, and the memory of the views is looked at.
const SAMPLED: u64 = 64;

/// What an event of a stream does, at one catalog version.
pub struct StreamPlan {
    stream: Arc<Table>,
    /// The catalog's version.
    pub version: u64,
    checks: Vec<(Check, Program)>,
    /// All views that follow from the stream.
    fed: Vec<Fed>,
    /// The views that read it, by ascending id, with the input that it is.
    direct: Vec<(Arc<ViewCell>, usize, Vec<u16>)>,
    /// Whether events may go to the engines alone.
    lone: bool,
    events: u64,
    packing: Arc<Packing>,
}

/// What packed events were packed for; its address tells one from another.
#[derive(Debug)]
struct Packing {
    /// By direct view: words of an event, and the number before them.
    inputs: Vec<(usize, usize)>,
    /// Words of an event for all of them.
    width: usize,
}

/// Events of a stream that have been verified, in the words of its views.
#[derive(Clone, Debug)]
pub struct PackedEvents {
    packing: Arc<Packing>,
    words: Vec<u64>,
    weights: Vec<i8>,
}

impl PackedEvents {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Forgets them; their memory stays.
    pub fn clear(&mut self) {
        self.words.clear();
        self.weights.clear();
    }
}

/// What has become of packed events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// All have met the views.
    Taken,
    /// None has: a transaction owns a view.
    Owned,
}

type Row<'v> = SmallVec<[ValueRef<'v>; 8]>;

impl StreamPlan {
    /// Binds a stream. Errors: 42P01, 42809, 42501.
    pub fn bind(binder: &Binder<'_>, name: &[String]) -> Result<StreamPlan> {
        let path: Vec<String> = binder.search_path().map(str::to_owned).collect();
        let stream = binder.catalog.find_table(name, &path)?;
        if !stream.is_stream() {
            return Err(crate::catalog::wrong_kind(&stream.name, "stream"));
        }
        binder.catalog.require_on_table(&binder.session.user, &stream, Privilege::Insert)?;
        let check = |check: &Check| Ok((check.clone(), compile_check(binder, &stream, check)?));
        let checks = stream.checks.iter().map(check).collect::<Result<Vec<_>>>()?;
        let fed = upkeep::bind(binder, [&stream])?;
        let mut direct = Vec::new();
        for view in &fed {
            for (at, input) in view.cell_of_view().inputs().iter().enumerate() {
                if input.table == stream.id {
                    direct.push((view.cell_of_view().clone(), at, input.columns.clone()));
                }
            }
        }
        let seen = |view: &Fed| view.is_guarded() || !view.table().feeds.is_empty();
        let twice = direct.windows(2).any(|pair| Arc::ptr_eq(&pair[0].0, &pair[1].0));
        let lone = !twice && !fed.iter().any(seen);
        let version = binder.catalog.version;
        let words = direct.iter().map(|(cell, input, _)| cell.inputs()[*input].words());
        let mut width = 0;
        let inputs = words.map(|words| {
            width += words;
            (words, width - words)
        });
        let inputs = inputs.collect();
        let packing = Arc::new(Packing { inputs, width });
        Ok(StreamPlan { stream, version, checks, fed, direct, lone, events: 0, packing })
    }

    /// Binds the stream again, at another catalog version. What was packed stays good if neither
    /// CHECKs nor views have changed. Errors: as those of [`StreamPlan::bind`].
    pub fn rebind(&mut self, binder: &Binder<'_>, name: &[String]) -> Result<()> {
        let mut plan = Self::bind(binder, name)?;
        let views = |plan: &Self| -> Vec<_> {
            plan.direct.iter().map(|(cell, input, _)| (Arc::as_ptr(cell), *input)).collect()
        };
        let rules = |plan: &Self| -> (Vec<_>, Vec<_>) {
            let columns = plan.stream.columns.iter();
            let columns: Vec<_> = columns.map(|column| (column.ty, column.not_null)).collect();
            (columns, plan.checks.iter().map(|(check, _)| check.expr.clone()).collect())
        };
        if views(self) == views(&plan) && rules(self) == rules(&plan) {
            plan.packing = self.packing.clone();
        }
        *self = plan;
        Ok(())
    }

    /// No events, to be packed.
    pub fn packed(&self) -> PackedEvents {
        let packing = self.packing.clone();
        PackedEvents { packing, words: Vec::new(), weights: Vec::new() }
    }

    /// Errors: 0A000 where every event has to be a transaction; 55000 for events that were packed
    /// for other views or CHECKs.
    fn require_packable(&self, events: &PackedEvents) -> Result<()> {
        if !self.lone {
            return Err(SqlError::unsupported(
                "packed events of a stream whose views have guards, or views that read them",
            ));
        }
        if !Arc::ptr_eq(&events.packing, &self.packing) {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("events of stream \"{}\" were packed for other views", self.stream.name),
            )
            .hint("Pack them again."));
        }
        Ok(())
    }

    /// Adds an event to packed ones, with weight 1 or −1.
    ///
    /// Errors: those of [`StreamPlan::verify`], 0A000 and 55000 as said of packed events.
    pub fn pack(
        &self,
        row: &[ValueRef<'_>],
        weight: i8,
        env: &Env<'_>,
        events: &mut PackedEvents,
    ) -> Result<()> {
        self.require_packable(events)?;
        self.verify(row, env)?;
        let words = events.words.len();
        for (cell, input, columns) in &self.direct {
            let projected: Row<'_> = columns.iter().map(|at| row[usize::from(*at)]).collect();
            let mut state = cell.derived().lock();
            let packed = state.running().pack(*input, &projected, &mut events.words);
            if let Err(error) = packed {
                events.words.truncate(words);
                return Err(error);
            }
        }
        events.weights.push(weight);
        Ok(())
    }

    /// Gives the engines packed events, one after the other, at one moment.
    ///
    /// Errors: what an event can fail at, 0A000, 55000; no view has met any of them then.
    #[inline]
    pub fn take_packed(&mut self, events: &PackedEvents, range: Range<usize>) -> Result<Packed> {
        if !self.lone || !Arc::ptr_eq(&events.packing, &self.packing) {
            self.require_packable(events)?;
        }
        let before = self.events;
        self.events += range.len() as u64;
        let sampled = before / SAMPLED != self.events / SAMPLED;
        let all = self.direct.iter().map(|(cell, ..)| &**cell.derived());
        let Some(mut states) = Derived::lock_open(all) else { return Ok(Packed::Owned) };
        let began = sampled.then(clock::now);
        let (width, inputs) = (self.packing.width, &self.packing.inputs);
        // Events outside, views inside: an event is complete before the next one begins.
        let mut failed = None;
        'events: for at in range.clone() {
            let row = &events.words[at * width..][..width];
            let weight = i64::from(events.weights[at]);
            for (view, state) in states.iter_mut().enumerate() {
                let (words, before) = inputs[view];
                let input = self.direct[view].1;
                let applied =
                    state.running().apply_packed(input, &row[before..before + words], weight);
                if let Err(error) = applied {
                    failed = Some((at, view, error));
                    break 'events;
                }
            }
        }
        self.direct.iter().for_each(|(cell, ..)| cell.derived().set_stale());
        let mut error = None;
        if let Some((at, view, why)) = failed {
            self.take_back(events, range.start..at, (at, view), &mut states);
            error = Some(why);
        } else if let Some(began) = began {
            let each_ns = clock::now().since(began).as_nanos() as u64 / range.len().max(1) as u64;
            let views = self.direct.iter().zip(&mut states);
            let accounted = views.map(|((cell, ..), state)| {
                let running = state.running();
                running.tally.note(each_ns, 1);
                cell.account(running.engine.memory_bytes(), running.engine.entry_count())
            });
            if let Some(why) = accounted.filter_map(Result::err).last() {
                self.take_back(events, range.clone(), (range.end, 0), &mut states);
                error = Some(why);
            }
        }
        error.map_or(Ok(Packed::Taken), Err)
    }

    /// Takes whole events back, and one that only the first views have met.
    #[cold]
    fn take_back(
        &self,
        events: &PackedEvents,
        whole: Range<usize>,
        (part, views): (usize, usize),
        states: &mut Keepers<'_, State>,
    ) {
        let whole = whole.map(|at| (at, states.len()));
        let all: Vec<_> = whole.chain((views > 0).then_some((part, views))).collect();
        for (at, views) in all.into_iter().rev() {
            let row = &events.words[at * self.packing.width..][..self.packing.width];
            let weight = -i64::from(events.weights[at]);
            for (view, state) in states.iter_mut().enumerate().take(views) {
                let (words, before) = self.packing.inputs[view];
                let input = self.direct[view].1;
                let row = &row[before..before + words];
                let undone = state.running().apply_packed(input, row, weight);
                undone.expect("sums that were there before fit");
            }
        }
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<Table> {
        &self.stream
    }

    /// Types, NOT NULL and CHECK. Errors: 42601 for another number of columns, 42804, 23502, 23514.
    pub fn verify(&self, row: &[ValueRef<'_>], env: &Env<'_>) -> Result<()> {
        let columns = &self.stream.columns;
        if row.len() != columns.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!(
                    "stream \"{}\" has {} columns, the row has {}",
                    self.stream.name,
                    columns.len(),
                    row.len()
                ),
            ));
        }
        for (at, (column, value)) in columns.iter().zip(row).enumerate() {
            match value {
                ValueRef::Null if column.not_null => {
                    return Err(null_violation(&self.stream, at as u16, row));
                }
                ValueRef::Null => {}
                value if fits(*value, column.ty) => {}
                _ => {
                    return Err(SqlError::new(
                        SqlState::DATATYPE_MISMATCH,
                        format!("column \"{}\" is of type {}", column.name, column.ty),
                    ));
                }
            }
        }
        for (check, program) in &self.checks {
            if !holds(program, row, env, &Arena::new())? {
                return Err(check_violation(&self.stream, check, row));
            }
        }
        Ok(())
    }

    /// Gives the engines one event: a row that was verified, with weight 1 or −1. False if it has to
    /// be a transaction.
    ///
    /// Errors: what an event can fail at; no view has met it then.
    #[inline]
    pub fn event(&mut self, row: &[ValueRef<'_>], weight: i8) -> Result<bool> {
        if !self.lone {
            return Ok(false);
        }
        self.events += 1;
        let sampled = self.events.is_multiple_of(SAMPLED);
        let all = self.direct.iter().map(|(cell, ..)| &**cell.derived());
        let Some(mut states) = Derived::lock_open(all) else { return Ok(false) };
        let mut done = Ok(());
        let mut met = 0;
        for ((cell, input, columns), state) in self.direct.iter().zip(&mut states) {
            let projected: Row<'_> = columns.iter().map(|at| row[usize::from(*at)]).collect();
            let began = sampled.then(clock::now);
            let running = state.running();
            done = running.event(*input, &projected, weight);
            if done.is_err() {
                break;
            }
            met += 1;
            cell.derived().set_stale();
            if let Some(began) = began {
                running.tally.note(clock::now().since(began).as_nanos() as u64, 1);
                done = cell.account(running.engine.memory_bytes(), running.engine.entry_count());
                if done.is_err() {
                    break;
                }
            }
        }
        if let Err(error) = done {
            for ((_, input, columns), state) in self.direct.iter().zip(&mut states).take(met) {
                let projected: Row<'_> = columns.iter().map(|at| row[usize::from(*at)]).collect();
                let undone = state.running().event(*input, &projected, -weight);
                undone.expect("sums that were there before fit");
            }
            return Err(error);
        }
        Ok(true)
    }

    /// Locks what events touch, for a transaction that holds nothing of it yet. Errors: those of
    /// locks.
    pub fn lock(&self, tx: &mut Transaction, limits: &WaitLimits<'_>) -> Result<()> {
        let mut cells: Vec<_> =
            self.fed.iter().map(Fed::table).chain([&self.stream]).flat_map(|t| &t.cells).collect();
        cells.sort_by_key(|cell| cell.id);
        for cell in cells {
            tx.lock(cell, Mode::Exclusive, limits).map_err(crate::ddl::lock_error)?;
        }
        Ok(())
    }

    /// Events as part of a transaction that has locked what they touch, and of the catalog that
    /// the plan was made for.
    ///
    /// Errors: those of events; the caller takes the transaction back.
    pub fn events_in(
        &self,
        events: &[(Vec<ValueRef<'_>>, i8)],
        tx: &mut Transaction,
        env: &Env<'_>,
    ) -> Result<()> {
        let since = tx.savepoint();
        upkeep::end_with(&self.fed, &since, Some((self.stream.id, events)), env, tx)
    }
}

/// Whether a value is one of a column of this type as it is.
fn fits(value: ValueRef<'_>, ty: SqlType) -> bool {
    matches!(
        (value, ty),
        (ValueRef::Bool(_), SqlType::Boolean)
            | (ValueRef::Int16(_), SqlType::SmallInt)
            | (ValueRef::Int32(_), SqlType::Integer)
            | (ValueRef::Int64(_), SqlType::BigInt)
            | (ValueRef::Float32(_), SqlType::Real)
            | (ValueRef::Float64(_), SqlType::Double)
            | (ValueRef::Decimal(_), SqlType::Decimal { .. })
            | (ValueRef::Text(_), SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_))
            | (ValueRef::Bytes(_), SqlType::Bytea)
            | (ValueRef::Date(_), SqlType::Date)
            | (ValueRef::Time(_), SqlType::Time)
            | (ValueRef::Timestamp(_), SqlType::Timestamp)
            | (ValueRef::TimestampTz(_), SqlType::TimestampTz)
            | (ValueRef::Interval(_), SqlType::Interval)
            | (ValueRef::Uuid(_), SqlType::Uuid)
    )
}

/// Views whose rows lack events of streams' handles.
pub fn stale_views(catalog: &Catalog) -> Vec<Arc<Table>> {
    let stale = |table: &&Arc<Table>| table.materialized().is_some_and(|view| view.cell.is_stale());
    catalog.tables.values().filter(stale).cloned().collect()
}

/// Views that read a stream.
fn streamed_views(catalog: &Catalog) -> Vec<Arc<Table>> {
    let reads_stream = |table: &&Arc<Table>| is_streamed(catalog, table);
    catalog.tables.values().filter(reads_stream).cloned().collect()
}

/// Whether a table is a view that reads a stream.
pub fn is_streamed(catalog: &Catalog, table: &Table) -> bool {
    let view = table.materialized();
    view.is_some_and(|view| view.reads.iter().any(|read| catalog.table(*read).is_stream()))
}

/// Makes a transaction that holds a view's partition exclusively its owner: from now on its rows
/// hold every event that has been accepted, and no other event comes until the transaction ends.
pub fn own(table: &Table, tx: &mut Transaction) {
    let Some(view) = table.materialized() else { return };
    if let Some(handle) = tx.held_exclusively(&table.cells[0]) {
        view.cell.own(tx, handle);
    }
}

/// Brings the rows of all views up to date with the events that streams' handles have given so
/// far, at one moment, as a transaction of its own.
///
/// `held` says which views the caller has locked itself; they are left as they are. Errors: those of
/// locks.
pub fn bring_up_to_date(
    manager: &Manager,
    session: SessionId,
    catalog: &Catalog,
    held: impl Fn(&Table) -> bool,
    limits: &WaitLimits<'_>,
) -> Result<()> {
    let look = |which: Look| {
        let views = match which {
            Look::Stale => stale_views(catalog),
            Look::All => streamed_views(catalog),
        };
        let beside = |view: &Arc<Table>| Beside {
            order: u64::from(view.id.0),
            rows: view.cells[0].clone(),
            derived: view.materialized().expect("views alone").cell.derived().clone(),
        };
        views.iter().filter(|view| !held(view)).map(beside).collect()
    };
    settle_all(manager, session, limits, look).map_err(|error| match error {
        SettleError::Lock(error) => crate::ddl::lock_error(error),
        SettleError::Log(error) => SqlError::new(error.sql_state(), error.to_string()),
    })
}
