//! INSERT, UPDATE, DELETE.
//!
//! A write is a *source* (constants, parameters, or a query that yields row ids and new values) and
//! a *target* that converts, checks and stores. The source is read to its end before the target
//! changes, so that a statement never meets its own rows (the Halloween problem); INSERT of a
//! single row has nothing to read and goes straight in.
//!
//! A view as the target stands for the table behind it ([`named`]): what runs knows tables alone.
//!
//! Words: the *target* is the table written; a *cell* is one value of a row to be written; an
//! *effect* is what a foreign key makes of a change in another table.
//!
//! Invariants, checked by `random_writes_do_what_the_model_does` (1, 2 and 4) and
//! `random_statements_leave_views_as_recomputation_does` (3):
//! 1. Every row stored has passed conversion, NOT NULL, CHECK, unique keys and references; unique
//!    keys and references hold when the statement ends, not before.
//! 2. Everything a statement may touch is in [`WritePlan::needs`], cascades included.
//! 3. Materialized views that follow from what it writes are right when it ends.
//! 4. A failed statement leaves repair to its caller, who goes back to the savepoint before it.
//!
//! Cost: INSERT and UPDATE of one row by key allocate nothing once the scratch is warm, beyond what
//! storing takes.

mod assignments;
pub mod bulk;
pub mod compound;
mod delete;
mod effects;
mod found;
mod generated;
mod insert;
pub mod merge;
mod named;
mod query;
pub mod returned;
mod returning;
mod rows;
mod source;
mod target;
mod update;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Value as AstValue, Visit, VisitMut, Visitor, VisitorMut,
};
use halcyon_base::ids::{RowId, TableId};
use halcyon_base::progress::{self, Kind, Work};
use halcyon_store::{Partition, Value};
use halcyon_txn::{Mode, Transaction};

use self::named::{NamedTarget, Verb};
use crate::deferrable::DeferrableCheck;
use crate::point::{PointPlan, Scratch};
use crate::turns::Turns;
use crate::upkeep::{self, FedViews};
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{ForeignKey, Relation, Table, TableKind};
use halcyon_plan::bind::Binder;
use halcyon_plan::env::{Env, Locks, Need, Roots};
use halcyon_sql::coerce::TimeZone;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::rows::{ResultColumn, RowSink};
use halcyon_sql::types::SqlType;

pub use generated::Generated;
pub use query::{QuerySource, owned_roots, whole_roots};
pub use source::{Cell, Convert, default as default_cell};
pub use target::Target;

/// A bound INSERT, UPDATE or DELETE.
pub struct WritePlan {
    tables: Vec<Arc<Table>>,
    /// Tables locked as a whole: those of cascades and references, and those for which parameters
    /// do not choose partitions.
    whole: Vec<(usize, Mode)>,
    kind: WriteKind,
    /// Views to be brought up to date with what is written.
    views: FedViews,
    /// The target, if it is a stream.
    stream: Option<Arc<Table>>,
    /// DEFERRABLE constraints, which the session that runs the plan judges.
    deferrable: Vec<DeferrableCheck>,
}

/// The statement that a write plan carries out.
enum WriteKind {
    Insert(Box<insert::Insert>),
    Update(update::Update),
    Delete(delete::Delete),
    Compound(Box<compound::Compound>),
}

/// The values of one row, on the stack for tables of up to 16 columns.
type RowValues<'v> = smallvec::SmallVec<[halcyon_store::ValueRef<'v>; 16]>;

/// A bound write with the facts that the statement's description needs.
pub struct BoundWrite {
    /// The plan.
    pub plan: WritePlan,
    /// Types of `$1`, `$2`, ….
    pub params: Vec<SqlType>,
    /// Columns of RETURNING.
    pub columns: Arc<[ResultColumn]>,
    /// First words of the tag.
    pub tag: &'static str,
    /// Whether other sessions may run the plan, because it shows nothing of this one.
    pub shareable: bool,
}

/// A write as its syntax tree.
#[derive(Clone, Copy)]
pub enum Write<'a> {
    /// INSERT.
    Insert(&'a ast::Insert),
    /// UPDATE.
    Update(&'a ast::Update),
    /// DELETE.
    Delete(&'a ast::Delete),
}

impl<'a> Write<'a> {
    /// The name of the table that the statement writes.
    fn target(self) -> Option<&'a ast::ObjectName> {
        match self {
            Write::Insert(insert) => match &insert.table {
                ast::TableObject::TableName(target) => Some(target),
                _ => None,
            },
            Write::Update(update) => relation_of(&update.table),
            Write::Delete(delete) => match &delete.from {
                ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from) => {
                    from.first().and_then(relation_of)
                }
            },
        }
    }

    fn bind(self, scope: &mut Scope<'_>) -> Result<BoundKind> {
        Ok(match self {
            Write::Insert(insert) => {
                let (insert, columns) = insert::bind(scope, insert)?;
                (WriteKind::Insert(Box::new(insert)), columns, self.tag())
            }
            Write::Update(update) => {
                let (update, columns) = update::bind(scope, update)?;
                (WriteKind::Update(update), columns, self.tag())
            }
            Write::Delete(delete) => {
                let (delete, columns) = delete::bind(scope, delete)?;
                (WriteKind::Delete(delete), columns, self.tag())
            }
        })
    }

    /// First word of the tag.
    pub fn tag(self) -> &'static str {
        match self {
            Write::Insert(_) => "INSERT",
            Write::Update(_) => "UPDATE",
            Write::Delete(_) => "DELETE",
        }
    }

    /// How often the statement names its target by this name alone: once or never.
    fn names_target(self, name: &str) -> usize {
        usize::from(self.target().is_some_and(|target| is_named(target, name)))
    }

    /// The highest `$n` in the statement.
    fn highest_parameter(self) -> usize {
        match self {
            Write::Insert(insert) => highest_parameter(insert),
            Write::Update(update) => highest_parameter(update),
            Write::Delete(delete) => highest_parameter(delete),
        }
    }
}

/// What a write is bound to, its columns and the first words of its tag.
type BoundKind = (WriteKind, Arc<[ResultColumn]>, &'static str);

/// Whether a name is this one, without a schema.
fn is_named(found: &ast::ObjectName, name: &str) -> bool {
    matches!(parts(found).as_deref(), Ok([only]) if only == name)
}

/// The name of a table in FROM.
fn relation_of(from: &ast::TableWithJoins) -> Option<&ast::ObjectName> {
    match &from.relation {
        ast::TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

/// Whether the table that a statement writes has nothing beside columns, keys and plain indexes: no stored
/// expression, which may be as deep as a statement, has to be bound then.
pub fn is_into_plain_table(binder: &Binder<'_>, write: Write<'_>) -> bool {
    write.target().and_then(|name| binder.table_named(name)).is_some_and(|table| {
        table.checks.is_empty()
            && table.feeds.is_empty()
            && table.foreign_keys.is_empty()
            && table.referenced_by.is_empty()
            && table.indexes.iter().all(|index| index.derived.is_none())
            && table
                .columns
                .iter()
                .all(|c| c.default.is_none() && c.generated.is_none() && c.domain.is_none())
    })
}

/// Binds INSERT, UPDATE or DELETE. `with` stands before it; `text` is the statement's, for positions
/// in errors.
pub fn bind(
    binder: &Binder<'_>,
    write: Write<'_>,
    with: Option<&ast::With>,
    text: &str,
    param_types: &[Option<SqlType>],
) -> Result<BoundWrite> {
    let mut given = param_types.to_vec();
    let in_with = with.map_or(0, highest_parameter);
    given.resize(given.len().max(write.highest_parameter()).max(in_with), None);
    let mut scope = Scope::new(binder, text, given);
    scope.with = with;
    let (kind, columns, tag) = write.bind(&mut scope)?;
    let params = scope.params.iter().map(|ty| ty.unwrap_or(SqlType::Text)).collect();
    let target = scope.tables[kind.target()].clone();
    let views = scope.feed(&target)?;
    let stream = target.is_stream().then_some(target);
    let shareable = scope.shareable;
    let (tables, whole, deferrable) = scope.into_parts();
    let plan = WritePlan { tables, whole, kind, views, stream, deferrable };
    Ok(BoundWrite { plan, params, columns, tag, shareable })
}

/// The state of binding a write: tables, locks, parameter types.
pub struct Scope<'a> {
    binder: Binder<'a>,
    text: &'a str,
    tables: Vec<Arc<Table>>,
    whole: Vec<(usize, Mode)>,
    params: Vec<Option<SqlType>>,
    /// DEFERRABLE constraints, which the session that runs the plan judges.
    deferrable: Vec<DeferrableCheck>,
    /// The WITH before the statement, which its query sees.
    with: Option<&'a ast::With>,
    /// Whether the plan may run in any session.
    shareable: bool,
    /// Whether the statement goes on behind this write, so that foreign keys are judged later.
    puts_off: bool,
    /// Foreign keys that are to be judged when the whole statement has run.
    put_off: Vec<DeferrableCheck>,
}

impl<'a> Scope<'a> {
    /// The scope of a statement with this text, and with what is known of its parameters.
    pub fn new(binder: &Binder<'a>, text: &'a str, params: Vec<Option<SqlType>>) -> Self {
        let (tables, whole) = (Vec::new(), Vec::new());
        let (deferrable, with, put_off) = (Vec::new(), None, Vec::new());
        let (shareable, puts_off) = (true, false);
        let binder = *binder;
        Scope {
            binder,
            text,
            tables,
            whole,
            params,
            deferrable,
            with,
            shareable,
            puts_off,
            put_off,
        }
    }

    /// Whether this write judges a foreign key by itself. If not, the check is noted. `written`: the
    /// key's owner or the table that it refers to, whichever is written.
    pub fn judges(&mut self, written: TableId, owner: &Table, key: &ForeignKey) -> bool {
        if key.deferral.is_some() {
            self.leave(DeferrableCheck::of_key(written, owner, key));
            return false;
        }
        if self.puts_off {
            let check = DeferrableCheck::of_statement(written, owner, key);
            if !self.put_off.contains(&check) {
                self.put_off.push(check);
            }
        }
        !self.puts_off
    }

    /// Notes a constraint that the plan does not judge, if there is one.
    pub fn leave(&mut self, check: Option<DeferrableCheck>) {
        if let Some(check) = check.filter(|check| !self.deferrable.contains(check)) {
            self.deferrable.push(check);
        }
    }

    /// Whether an entry of WITH has this name.
    fn hides(&self, name: &str) -> bool {
        let mut entries = self.with.iter().flat_map(|with| &with.cte_tables);
        let rows = self.binder.catalog.schemas.get(compound::ROWS_SCHEMA);
        entries.any(|cte| fold(&cte.alias.name) == name)
            || rows.is_some_and(|rows| rows.relations.contains_key(name))
    }

    /// Position of the table in the plan's list, added if need be.
    fn table(&mut self, table: &Arc<Table>) -> usize {
        match self.tables.iter().position(|known| known.id == table.id) {
            Some(at) => at,
            None => {
                self.tables.push(table.clone());
                self.tables.len() - 1
            }
        }
    }

    /// Asks for a lock on every partition of a table; of two requests the stronger wins.
    pub fn need_whole(&mut self, table: usize, mode: Mode) {
        match self.whole.iter_mut().find(|(known, _)| *known == table) {
            Some((_, known)) => *known = (*known).max(mode),
            None => self.whole.push((table, mode)),
        }
    }

    /// The views over the target and over the other tables locked to be written. The views are
    /// locked too.
    pub fn feed(&mut self, target: &Arc<Table>) -> Result<FedViews> {
        let exclusive = self.whole.iter().filter(|(_, mode)| *mode == Mode::Exclusive);
        let mut written: Vec<Arc<Table>> =
            exclusive.map(|(table, _)| self.tables[*table].clone()).collect();
        written.push(target.clone());
        let views = FedViews::bind(&self.binder, &written)?;
        for view in views.tables() {
            let at = self.table(view);
            self.need_whole(at, Mode::Exclusive);
        }
        Ok(views)
    }

    /// The tables in the order of needs, those that are locked as a whole, and the constraints that
    /// the session that runs the plan judges.
    pub fn into_parts(self) -> (Vec<Arc<Table>>, WholeLocks, Vec<DeferrableCheck>) {
        (self.tables, self.whole, self.deferrable)
    }

    /// Position of a parameter `$n` that stands where a value of the given type is wanted.
    fn param(&mut self, name: &str, ty: SqlType) -> Result<(usize, SqlType)> {
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let at = number.filter(|n| *n > 0).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"))
        })? - 1;
        let known = &mut self.params[at];
        Ok((at, *known.get_or_insert(ty)))
    }

    /// Takes over the types that binding a query has found for the parameters in it, by their places from 0.
    fn learn(&mut self, found: impl IntoIterator<Item = (usize, SqlType)>) {
        for (at, ty) in found {
            self.params[at].get_or_insert(ty);
        }
    }
}

/// The highest `$n` in a tree.
fn highest_parameter(tree: &impl Visit) -> usize {
    parameters(tree).last().map_or(0, |last| last + 1)
}

/// The parameters in a tree: `$1` is 0.
fn parameters(tree: &impl Visit) -> BTreeSet<usize> {
    struct Parameters(BTreeSet<usize>);
    impl Visitor for Parameters {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> std::ops::ControlFlow<()> {
            if let Some(name) = placeholder(expr) {
                let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
                self.0.extend(number.and_then(|number| number.checked_sub(1)));
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut parameters = Parameters(BTreeSet::new());
    let _ = tree.visit(&mut parameters);
    parameters.0
}

/// The name of a parameter, if the expression is nothing else.
fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            AstValue::Placeholder(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

impl WriteKind {
    /// Position of the table that the statement names.
    fn target(&self) -> usize {
        match self {
            WriteKind::Insert(insert) => insert.target(),
            WriteKind::Update(update) => update.target(),
            WriteKind::Delete(delete) => delete.target(),
            WriteKind::Compound(_) => unreachable!("a compound statement has several targets"),
        }
    }
}

impl WritePlan {
    /// The tables that the write locks, in the order that its needs refer to.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// DEFERRABLE constraints that the plan may break: the session that runs the plan judges them.
    pub fn deferrable(&self) -> &[DeferrableCheck] {
        &self.deferrable
    }

    /// What it has to lock with these parameters.
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        match &self.kind {
            WriteKind::Insert(insert) => insert.needs(env, needs)?,
            WriteKind::Update(update) => update.needs(env, needs)?,
            WriteKind::Delete(delete) => delete.needs(env, needs)?,
            WriteKind::Compound(_) => {}
        }
        needs.extend(self.whole.iter().map(|(table, mode)| Need {
            table: *table,
            partition: None,
            mode: *mode,
        }));
        Ok(())
    }

    /// Runs it under its locks; rows of RETURNING go to `returning`. Returns the rows written.
    pub fn run(
        &self,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
        scratch: &mut Scratch,
        returning: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        let since = match self.stream {
            Some(_) => Some(tx.savepoint()),
            None => self.views.begin(tx),
        };
        let written = match &self.kind {
            WriteKind::Compound(compound) => {
                let ground = compound::Ground::Locks(tx, locks);
                compound.run(&self.tables, env, ground, scratch, returning)?
            }
            _ => self.run_kind(&mut WriteContext::new(env, tx, locks), scratch, returning)?,
        };
        if let Some(since) = since {
            self.views.end(&since, env, tx)?;
            if let Some(stream) = &self.stream {
                upkeep::empty_stream(stream, tx);
            }
        }
        Ok(written)
    }

    /// Runs a single INSERT, UPDATE or DELETE, without views.
    fn run_kind<'c>(
        &'c self,
        cx: &mut WriteContext<'c>,
        scratch: &mut Scratch,
        returning: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        // Boxed, so that taking it out and putting it back moves a word, not the buffers' heads.
        let mut own = scratch.write.take().unwrap_or_default();
        let kind = match &self.kind {
            WriteKind::Insert(_) | WriteKind::Compound(_) => Kind::Insert,
            WriteKind::Update(_) => Kind::Update,
            WriteKind::Delete(_) => Kind::Delete,
        };
        cx.shown = Some((kind, &self.tables[self.kind.target()]));
        let written = match &self.kind {
            WriteKind::Insert(insert) => insert.run(cx, scratch, &mut own, returning),
            WriteKind::Update(update) => update.run(cx, scratch, &mut own, returning),
            WriteKind::Delete(delete) => delete.run(cx, scratch, &mut own, returning),
            WriteKind::Compound(_) => unreachable!("parts are single writes"),
        };
        own.arena.reset();
        scratch.write = Some(own);
        written
    }

    /// Runs a statement that does not write on a snapshot: its parts are queries that run once.
    ///
    /// Panics: if it writes.
    pub fn read(
        &self,
        env: &Env<'_>,
        roots: &[Vec<triomphe::Arc<Partition>>],
        scratch: &mut Scratch,
        returning: &mut dyn RowSink,
    ) -> Result<u64> {
        let WriteKind::Compound(compound) = &self.kind else { panic!("it writes") };
        compound.run(&self.tables, env, compound::Ground::Snapshot(roots), scratch, Some(returning))
    }

    /// Whether it writes nothing.
    pub fn reads_only(&self) -> bool {
        matches!(&self.kind, WriteKind::Compound(compound) if compound.reads_only())
    }

    /// Tables that it may change.
    fn written(&self) -> impl Iterator<Item = &Arc<Table>> {
        let cascades = self.whole.iter().filter(|(_, mode)| *mode == Mode::Exclusive);
        let all = cascades.map(|(at, _)| *at).chain([self.kind.target()]);
        all.map(|at| &self.tables[at])
    }

    /// Whether rows are found one at a time, if any have to be found: no part is vectorised.
    pub fn is_row_at_a_time(&self) -> bool {
        !matches!(self.kind, WriteKind::Compound(_))
            && self.source().is_none_or(|source| source.point().is_some())
    }

    /// The point plan that finds the rows, if there is one.
    pub fn point_source(&self) -> Option<&PointPlan> {
        self.source()?.point()
    }

    fn source(&self) -> Option<&QuerySource> {
        match &self.kind {
            WriteKind::Insert(insert) => insert.source(),
            WriteKind::Update(update) => Some(update.source()),
            WriteKind::Delete(delete) => Some(delete.source()),
            WriteKind::Compound(_) => None,
        }
    }

    /// The plan as text, for EXPLAIN, one line per step.
    pub fn explain(&self) -> Vec<String> {
        let mut lines = match &self.kind {
            WriteKind::Insert(insert) => insert.explain(),
            WriteKind::Update(update) => update.explain(),
            WriteKind::Delete(delete) => delete.explain(),
            WriteKind::Compound(compound) => return compound.explain(),
        };
        for (table, mode) in &self.whole {
            let word = if *mode == Mode::Exclusive { "exclusive" } else { "shared" };
            lines.push(format!("  also locks {} ({word})", self.tables[*table].name));
        }
        lines
    }
}

/// The context of a running write: environment, transaction, locks.
pub struct WriteContext<'a> {
    /// Parameters, clock and session.
    pub env: &'a Env<'a>,
    /// The transaction that writes.
    pub tx: &'a mut Transaction,
    /// The locks that the statement holds.
    pub locks: &'a Locks,
    /// The session's time zone, read when first needed.
    pub zone: Option<TimeZone>,
    /// What the source reads instead of the locked partitions: these as they were when the statement
    /// began, and the rows of other parts.
    snapshot: Option<&'a [Vec<triomphe::Arc<Partition>>]>,
    /// Rows of the target that other parts of the statement have changed.
    skip: Option<&'a compound::Touched>,
    /// Whether a second change of a row is an error; else it is passed over.
    strict: bool,
    /// The turns that the statement takes with the workers once it has lasted.
    turns: Turns,
    /// What others see of the statement once it has lasted, if they are to.
    pub shown: Option<(Kind, &'a Table)>,
    work: Option<Work>,
}

impl<'a> WriteContext<'a> {
    /// What a write under `locks` sees.
    pub fn new(env: &'a Env<'a>, tx: &'a mut Transaction, locks: &'a Locks) -> Self {
        WriteContext {
            env,
            tx,
            locks,
            zone: None,
            snapshot: None,
            skip: None,
            strict: false,
            turns: Turns::Short,
            shown: None,
            work: None,
        }
    }

    /// What a later part of a long write sees, with the turns that the earlier one has left.
    pub fn going_on(mut self, turns: Turns) -> Self {
        self.turns = turns;
        self
    }

    /// The turns for the next part of a long write, which waits for its data.
    pub fn rests(mut self) -> Turns {
        self.turns.rest();
        self.turns
    }

    /// Says that the statement is about to wait for rows.
    fn waits_for_rows(&mut self) {
        self.turns.rest();
    }

    /// Says that the statement has lasted, has written so many rows more, and writes so many in all.
    #[inline]
    fn lasts(&mut self, more: usize, all: Option<usize>) {
        self.turns.lasts(self.env, all.unwrap_or(more));
        if let Some((kind, table)) = self.shown {
            let begin = || progress::begin_writing(kind, table.shown(), all);
            self.work.get_or_insert_with(begin).rows(more as u64);
        }
    }

    /// Waits between two changes of rows if others have their turn. Cuts find the transaction at rest meanwhile.
    #[inline]
    pub fn takes_turns(&mut self) {
        if self.turns.is_due() {
            let (turns, env) = (&mut self.turns, self.env);
            self.tx.resting(|| turns.pause(env));
        }
    }

    /// What the source reads.
    fn roots(&self) -> Roots<'_> {
        match self.snapshot {
            Some(roots) => Roots::Snapshot(roots),
            None => Roots::Locked(self.tx, self.locks),
        }
    }

    /// Whether another part of the statement has changed this row of the target.
    #[inline]
    fn is_touched(&self, place: (u32, RowId)) -> bool {
        self.skip.is_some_and(|skip| skip.contains(&place))
    }

    /// The session's time zone.
    fn zone(&mut self) -> TimeZone {
        let name = &self.env.session.time_zone;
        *self.zone.get_or_insert_with(|| TimeZone::parse(name).unwrap_or_default())
    }

    /// The lock on a partition. Panics if the plan did not declare it.
    pub fn lock(&self, table: usize, partition: u32) -> halcyon_txn::LockHandle {
        self.locks.get(table, partition).expect("the plan declared this need")
    }
}

/// Splits a row id of the query executors: partition number, row.
fn split_row_id(id: i64) -> (u32, halcyon_base::ids::RowId) {
    ((id >> 32) as u32, halcyon_base::ids::RowId(id as u32))
}

/// Rows of the source as values of their own, for places that outlive the row set.
fn owned(values: &[halcyon_store::ValueRef<'_>]) -> Vec<Value> {
    values.iter().map(|value| value.to_owned()).collect()
}

/// 57014.
fn cancelled() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")
}

/// 42601.
fn assigned_twice(table: &Table, column: u16) -> SqlError {
    let name = &table.columns[column as usize].name;
    SqlError::new(SqlState::SYNTAX_ERROR, format!("multiple assignments to same column \"{name}\""))
}

/// The table that a statement writes which knows nothing of views. Errors: 42P01, 42809 with what was wanted.
pub fn find_target(binder: &Binder<'_>, name: &ast::ObjectName, doing: &str) -> Result<Arc<Table>> {
    match find_relation(binder, name)? {
        (Relation::Table(table), _) => writable(&table, doing),
        (other, reference) => Err(wrong_target(&other, &reference, doing)),
    }
}

/// 42809: nothing that can be written.
fn wrong_target(relation: &Relation, name: &TableReference, doing: &str) -> SqlError {
    let message = format!("cannot {doing} {} \"{}\"", relation.kind(), name.table());
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    match relation {
        Relation::View(_) if doing == "copy to" => {
            error.hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger.")
        }
        _ => error,
    }
}

/// The relation that a statement names as what it writes. Errors: 42P01.
fn find_relation(
    binder: &Binder<'_>,
    name: &ast::ObjectName,
) -> Result<(Relation, TableReference)> {
    let name = parts(name)?;
    // A target is a table, whatever WITH calls its entries.
    let tables;
    let binder = match binder.session.search_path.split_first() {
        Some((first, path)) if first == compound::ROWS_SCHEMA => {
            tables = SessionVars { search_path: path.to_vec(), ..binder.session.clone() };
            &Binder { session: &tables, ..*binder }
        }
        _ => binder,
    };
    let reference = match name.as_slice() {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [.., database, schema, table] => {
            TableReference::full(database.as_str(), schema.as_str(), table.as_str())
        }
        [] => return Err(SqlError::new(SqlState::INVALID_NAME, "a name is missing")),
    };
    let (relation, _) = binder.relation(&reference)?;
    Ok((relation.clone(), reference))
}

/// The table, if it can be written by INSERT, UPDATE or DELETE. Errors: 42809.
fn writable(table: &Arc<Table>, doing: &str) -> Result<Arc<Table>> {
    match &table.kind {
        TableKind::Ordinary => Ok(table.clone()),
        TableKind::Stream if matches!(doing, "insert into" | "copy to") => Ok(table.clone()),
        TableKind::Stream => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot {doing} stream \"{}\"", table.name),
        )
        .detail("A stream keeps no rows that could be found.")
        .hint("Programs delete a tuple of a stream by its handle, which names the whole tuple.")),
        TableKind::Materialized(_) => Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot change materialized view \"{}\"", table.name),
        )
        .detail("Its rows follow from what it reads.")
        .hint("Change the tables or streams that it reads.")),
    }
}

/// The target of UPDATE or DELETE with the name it goes by in the statement.
fn target_factor(
    binder: &Binder<'_>,
    target: &ast::TableWithJoins,
    verb: Verb,
) -> Result<(NamedTarget, String)> {
    let ast::TableFactor::Table { name, alias, .. } = &target.relation else {
        return Err(SqlError::unsupported("writing anything but a table"));
    };
    if !target.joins.is_empty() {
        return Err(SqlError::unsupported("a join as the target of a write")
            .hint("Use UPDATE … FROM or DELETE … USING."));
    }
    let named = NamedTarget::find(binder, name, verb)?;
    let alias = match alias {
        Some(alias) => fold(&alias.name),
        None => named.name().to_owned(),
    };
    Ok((named, alias))
}

fn ident(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

/// `SELECT items`, to be completed.
fn select(items: Vec<ast::SelectItem>) -> ast::Query {
    let mut query = halcyon_sql::parse::parse_own_query("SELECT 1");
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
    }
    query
}

/// `CAST(expr AS ty)`.
fn cast_to(expr: Expr, ty: SqlType) -> Result<Expr> {
    let mut cast = halcyon_sql::parse::parse_expr(&format!("CAST(NULL AS {ty})"))?;
    if let Expr::Cast { expr: inner, .. } = &mut cast {
        **inner = expr;
    }
    Ok(cast)
}

/// Bare names of the target's columns with the target's alias before them, and whole rows as lists of columns.
fn qualify(expr: &Expr, target: &NamedTarget, alias: &str) -> Expr {
    // The last: queries around the place.
    struct Qualify<'a>(&'a NamedTarget, &'a str, usize);
    impl Qualify<'_> {
        /// The table whose row is meant: `t`, `t.*` or `(t.*)`, of the target and of `excluded`.
        fn whole_row(&self, expr: &Expr) -> Option<ast::Ident> {
            let name = match expr {
                Expr::Identifier(name) if !self.0.has_column(&fold(name)) => name,
                Expr::Nested(inner) if matches!(**inner, Expr::QualifiedWildcard(..)) => {
                    return self.whole_row(inner);
                }
                Expr::QualifiedWildcard(name, _) => match name.0.as_slice() {
                    [name] => name.as_ident()?,
                    _ => return None,
                },
                _ => return None,
            };
            let folded = fold(name);
            (folded == self.1 || folded == "excluded").then(|| ident(&folded))
        }
    }
    impl VisitorMut for Qualify<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &mut ast::Query) -> std::ops::ControlFlow<()> {
            self.2 += 1;
            std::ops::ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut ast::Query) -> std::ops::ControlFlow<()> {
            self.2 -= 1;
            std::ops::ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
            // The SQL parser reads `t.a[1]` as a chain that begins with `t`.
            if let Expr::CompoundFieldAccess { root, access_chain } = expr
                && let Expr::Identifier(table) = root.as_ref()
                && let Some(ast::AccessExpr::Dot(Expr::Identifier(column))) = access_chain.first()
            {
                **root = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
                access_chain.remove(0);
            }
            if self.2 == 0
                && let Some(table) = self.whole_row(expr)
            {
                let columns = self.0.column_names();
                let column = |name| Expr::CompoundIdentifier(vec![table.clone(), ident(name)]);
                *expr = Expr::Tuple(columns.into_iter().map(column).collect());
            }
            if let Expr::Identifier(name) = expr
                && self.0.has_column(&fold(name))
            {
                *expr = Expr::CompoundIdentifier(vec![ident(self.1), name.clone()]);
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = VisitMut::visit(&mut expr, &mut Qualify(target, alias, 0));
    expr
}

/// Needs of an UPDATE or DELETE: what the source reads, exclusively in the target, where it
/// becomes all partitions if rows may move.
fn write_needs(
    source: &QuerySource,
    target: usize,
    moves: bool,
    env: &Env<'_>,
    needs: &mut Vec<Need>,
) -> Result<()> {
    let first = needs.len();
    source.needs(env, needs)?;
    for need in needs[first..].iter_mut().filter(|need| need.table == target) {
        need.mode = Mode::Exclusive;
    }
    if moves {
        needs.push(Need { table: target, partition: None, mode: Mode::Exclusive });
    }
    Ok(())
}

/// Tables that are locked as a whole, by their position in a plan's list.
type WholeLocks = Vec<(usize, Mode)>;
