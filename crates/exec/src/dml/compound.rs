//! One statement of several parts: INSERT, UPDATE and DELETE within WITH, and queries of WITH that must run
//! once.
//!
//! Words: a *part* is an entry of WITH that runs by itself, or the statement behind WITH, which is the
//! last part. Other entries are no parts: they are planned wherever they are named. A part with a result is a *relation of
//! rows* to the others: a table that exists for the statement, in a schema that its binders search first
//! ([`ROWS_SCHEMA`]).
//! Meaning, PostgreSQL's: every part that writes runs once and to its end, whether or not its rows are
//! read. All parts read the tables as they were when the statement began; of the changes of another
//! part they see what it returns. A row that one part has changed is not changed by another. A part runs before those that
//! read its rows; of the others the statement behind WITH runs first, then the entries from the last to the first.
//! Foreign keys are judged, and materialized views brought up to date, when all parts have run; unique
//! keys row by row.
//!
//! Cost: all tables are locked as a whole; each part's rows are kept until the statement ends.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Query, Visit, Visitor};
use halcyon_base::ids::{RowId, TableId};
use halcyon_store::{Partition, ValueRef};
use halcyon_txn::{Mode, Savepoint, Transaction, WaitLimits};

use super::{
    BoundWrite, QuerySource, Scope, Write, WriteContext, WriteKind, WritePlan, whole_roots,
};
use crate::deferrable::DeferrableCheck;
use crate::point::Scratch;
use crate::upkeep::FedViews;
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::temporary::table_of_rows;
use halcyon_catalog::{Catalog, Column, Relation, SUPERUSER, Schema, Table};
use halcyon_dialect::volatile_ctes::{self, Names};
use halcyon_plan::bind::Binder;
use halcyon_plan::env::{Env, Locks, Roots};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::rows::{ResultColumn, RowSet, RowSink};
use halcyon_sql::types::SqlType;

/// The schema of relations of rows, which no statement can name.
pub(super) const ROWS_SCHEMA: &str = "pg_with";

/// A statement of several parts.
pub(super) struct Compound {
    parts: Vec<Part>,
    /// The first part of the statement behind WITH: a MERGE has several.
    last: usize,
    /// The parts in the order in which they run.
    order: Vec<usize>,
    /// Whether it is an error to change a row that the statement has changed; else such a row is passed over.
    refuses_second_changes: bool,
    /// Foreign keys to be judged when all have run.
    judged: Vec<DeferrableCheck>,
}

/// A part of a compound statement.
struct Part {
    name: String,
    action: Action,
    /// By table of the part's plan.
    inputs: Vec<Input>,
    /// The relation as which other parts read its rows, if it gives any.
    relation: Option<Arc<Table>>,
    /// Whether another part may have changed the table that it writes.
    overlaps: bool,
}

/// What a part does.
enum Action {
    /// A query, and its number of columns.
    Read(QuerySource, usize),
    Write(Box<WritePlan>),
}

/// Where a table of a part's plan comes from.
#[derive(Clone, Copy)]
enum Input {
    /// A table of the compound's list.
    Table(usize),
    /// The rows of a part.
    Rows(usize),
}

/// The statement behind WITH.
#[derive(Clone, Copy)]
pub enum Last<'a> {
    /// A query, whose own WITH is the statement's.
    Query(&'a Query),
    /// INSERT, UPDATE or DELETE.
    Write(Write<'a>),
    /// MERGE.
    Merge(&'a ast::Merge),
}

/// Whether a WITH has entries that run by themselves, so that the statement is a compound one.
///
/// Errors: 0A000 for an entry that writes and does not stand in the statement's own WITH.
pub fn is_compound(with: Option<&ast::With>, last: Last<'_>) -> Result<bool> {
    refuse_writes_below(with, last)?;
    let Some(with) = with else { return Ok(false) };
    let writes = with.cte_tables.iter().any(|cte| written_by(&cte.query).is_some());
    Ok(writes || runs_once(with, last).contains(&true))
}

impl Last<'_> {
    fn visit<V: Visitor>(self, visitor: &mut V) -> ControlFlow<V::Break> {
        match self {
            // The WITH itself is looked at apart.
            Last::Query(query) => {
                query.body.visit(visitor)?;
                query.order_by.visit(visitor)?;
                query.limit_clause.visit(visitor)?;
                query.fetch.visit(visitor)
            }
            Last::Merge(merge) => merge.visit(visitor),
            Last::Write(Write::Insert(insert)) => insert.visit(visitor),
            Last::Write(Write::Update(update)) => update.visit(visitor),
            Last::Write(Write::Delete(delete)) => delete.visit(visitor),
        }
    }
}

/// By entry of the WITH: whether it must run by itself, though it does not write.
fn runs_once(with: &ast::With, last: Last<'_>) -> Vec<bool> {
    volatile_ctes::run_once(with, |names| {
        let _ = last.visit(names);
    })
}

impl Last<'_> {
    /// How often the statement names its target by this name alone.
    fn names_target(self, name: &str) -> usize {
        match self {
            Last::Write(write) => write.names_target(name),
            Last::Query(_) => 0,
            Last::Merge(merge) => match &merge.table {
                ast::TableFactor::Table { name: target, .. } => {
                    usize::from(super::is_named(target, name))
                }
                _ => 0,
            },
        }
    }

    fn highest_parameter(self) -> usize {
        match self {
            Last::Query(query) => super::highest_parameter(query),
            Last::Write(write) => write.highest_parameter(),
            Last::Merge(merge) => super::highest_parameter(merge),
        }
    }
}

/// The write that an entry of WITH is.
fn written_by(query: &Query) -> Option<Write<'_>> {
    match query.body.as_ref() {
        ast::SetExpr::Insert(ast::Statement::Insert(insert)) => Some(Write::Insert(insert)),
        ast::SetExpr::Update(ast::Statement::Update(update)) => Some(Write::Update(update)),
        ast::SetExpr::Delete(ast::Statement::Delete(delete)) => Some(Write::Delete(delete)),
        _ => None,
    }
}

/// 0A000 for a query that only reads and has a write in its WITH. `what`: what takes such queries alone.
pub fn refuse_writes(query: &Query, what: &str) -> Result<()> {
    let mut entries = query.with.iter().flat_map(|with| &with.cte_tables);
    match entries.any(|cte| written_by(&cte.query).is_some()) {
        true => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{what} must not contain data-modifying statements in WITH"),
        )),
        false => Ok(()),
    }
}

/// 0A000 for a write within a WITH that is not the statement's own, and for MERGE within any.
fn refuse_writes_below(with: Option<&ast::With>, last: Last<'_>) -> Result<()> {
    struct Below(Option<SqlError>);
    impl Visitor for Below {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let entries = query.with.iter().flat_map(|with| &with.cte_tables);
            for cte in entries {
                if written_by(&cte.query).is_some() {
                    let message = "WITH clause containing a data-modifying statement must be at the top level";
                    self.0 = Some(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut below = Below(None);
    for cte in with.iter().flat_map(|with| &with.cte_tables) {
        if matches!(cte.query.body.as_ref(), ast::SetExpr::Merge(_)) {
            let message = "MERGE not supported in WITH query";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let _ = cte.query.visit(&mut below);
    }
    let _ = last.visit(&mut below);
    below.0.map_or(Ok(()), Err)
}

/// The state of binding a compound statement.
pub(super) struct Binding<'a> {
    binder: Binder<'a>,
    text: &'a str,
    params: Vec<Option<SqlType>>,
    shareable: bool,
    /// The catalog with the relations of rows so far, and the session that finds them.
    catalog: Arc<Catalog>,
    session: SessionVars,
    tables: Vec<Arc<Table>>,
    modes: Vec<Mode>,
    parts: Vec<Part>,
    /// The first part of the statement behind WITH.
    last: usize,
    refuses_second_changes: bool,
    judged: Vec<DeferrableCheck>,
    deferrable: Vec<DeferrableCheck>,
}

/// Binds a statement whose WITH has entries that run by themselves ([`is_compound`]).
pub fn bind(
    binder: &Binder<'_>,
    with: &ast::With,
    last: Last<'_>,
    text: &str,
    param_types: &[Option<SqlType>],
) -> Result<BoundWrite> {
    let mut binding = Binding::new(binder, Some(with), last, text, param_types);
    let plain = binding.entries(with, last)?;
    let (columns, tag) = match last {
        Last::Query(query) => {
            let query = Query { with: plain, ..query.clone() };
            (binding.read("", binding.rewritten(query)?)?, "SELECT")
        }
        Last::Write(write) => binding.write("", write, plain.as_ref())?,
        Last::Merge(_) => unreachable!("MERGE has a way of its own"),
    };
    binding.finish(columns, tag)
}

/// A WITH of the statement's plain entries so far and a part's own.
fn joined(with: &ast::With, plain: &[ast::Cte], own: Option<&ast::With>) -> Option<ast::With> {
    let own_entries = own.into_iter().flat_map(|own| own.cte_tables.iter());
    let cte_tables: Vec<_> = plain.iter().chain(own_entries).cloned().collect();
    let recursive = with.recursive || own.is_some_and(|own| own.recursive);
    let made = ast::With { cte_tables, recursive, ..with.clone() };
    (!made.cte_tables.is_empty()).then_some(made)
}

/// 0A000 if what follows reads a part that returns nothing.
fn refuse_without_rows(name: &str, rest: &[ast::Cte], last: Last<'_>) -> Result<()> {
    let count = |show: &dyn Fn(&mut Names<'_>)| {
        let mut names = Names::of(name);
        show(&mut names);
        names.found()
    };
    // Targets of writes are tables, whatever WITH calls its entries.
    let mut named = rest.iter().any(|cte| {
        let own = written_by(&cte.query).map_or(0, |write| write.names_target(name));
        count(&|names| {
            let _ = cte.query.visit(names);
        }) > own
    });
    named |= count(&|names| {
        let _ = last.visit(names);
    }) > last.names_target(name);
    match named {
        true => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("WITH query \"{name}\" does not have a RETURNING clause"),
        )),
        false => Ok(()),
    }
}

impl<'a> Binding<'a> {
    /// Nothing bound yet.
    pub fn new(
        binder: &Binder<'a>,
        with: Option<&ast::With>,
        last: Last<'_>,
        text: &'a str,
        param_types: &[Option<SqlType>],
    ) -> Self {
        let highest = with.map_or(0, super::highest_parameter).max(last.highest_parameter());
        let mut params = param_types.to_vec();
        params.resize(params.len().max(highest), None);
        let schema = Schema {
            oid: u32::MAX,
            name: ROWS_SCHEMA.to_owned(),
            owner: SUPERUSER.to_owned(),
            relations: Default::default(),
            collations: Default::default(),
            grants: Vec::new(),
            comment: None,
        };
        let mut session = binder.session.clone();
        session.search_path.insert(0, ROWS_SCHEMA.to_owned());
        Binding {
            catalog: Arc::new(Catalog::clone(binder.catalog).with_schemas([&Arc::new(schema)])),
            binder: *binder,
            text,
            params,
            shareable: true,
            session,
            tables: Vec::new(),
            modes: Vec::new(),
            parts: Vec::new(),
            last: 0,
            refuses_second_changes: false,
            judged: Vec::new(),
            deferrable: Vec::new(),
        }
    }

    /// Adds the entries of the statement's WITH that run by themselves; the others are returned.
    pub fn entries(&mut self, with: &ast::With, last: Last<'_>) -> Result<Option<ast::With>> {
        let once = runs_once(with, last);
        let mut plain: Vec<ast::Cte> = Vec::new();
        for (at, (cte, once)) in with.cte_tables.iter().zip(once).enumerate() {
            let write = written_by(&cte.query);
            if write.is_none() && !once {
                plain.push(cte.clone());
                continue;
            }
            let own = joined(with, &plain, cte.query.with.as_ref());
            let name = fold(&cte.alias.name);
            let columns = match write {
                Some(write) => self.write(&name, write, own.as_ref())?.0,
                None => {
                    let query = Query { with: own, ..(*cte.query).clone() };
                    self.read(&name, query)?
                }
            };
            match columns.is_empty() {
                false => self.relate(cte, &columns)?,
                true => refuse_without_rows(&name, &with.cte_tables[at + 1..], last)?,
            }
        }
        self.last = self.parts.len();
        Ok(joined(with, &plain, None))
    }

    /// Binds a query for its errors alone.
    pub fn validate(&self, query: Query) -> Result<()> {
        self.within().query_with(query, None, &self.params, self.text).map(|_| ())
    }

    /// Makes it an error if a row is changed twice by the statement.
    pub fn refuse_second_changes(&mut self) {
        self.refuses_second_changes = true;
    }

    /// A binder that finds the relations of rows.
    fn within(&self) -> Binder<'_> {
        Binder { catalog: &self.catalog, session: &self.session, ..self.binder }
    }

    /// The query behind WITH as the system schemas are asked for.
    fn rewritten(&self, query: Query) -> Result<Query> {
        let statement = ast::Statement::Query(Box::new(query));
        let Binder { catalog, session, system, .. } = self.within();
        match system.rewrite(statement, catalog, session) {
            ast::Statement::Query(query) => Ok(*query),
            _ => Err(SqlError::unsupported("this form of query")),
        }
    }

    /// Adds a part that reads; its columns.
    fn read(&mut self, name: &str, query: Query) -> Result<Arc<[ResultColumn]>> {
        let asked = super::parameters(&query);
        let mode = if query.locks.is_empty() { Mode::Shared } else { Mode::Exclusive };
        let binder = self.within();
        let bound = binder.query_with(query, None, &self.params, self.text)?;
        let columns: Arc<[ResultColumn]> = bound.columns().into();
        let source = QuerySource::new(bound.plan, &binder)?;
        for (at, found) in bound.params.iter().enumerate().filter(|(at, _)| asked.contains(at)) {
            self.params[at].get_or_insert(*found);
        }
        self.shareable &= bound.shareable;
        let inputs = self.inputs(source.tables(), |_| mode);
        self.add(name, Action::Read(source, columns.len()), inputs);
        Ok(columns)
    }

    /// Adds a part that writes; its columns and the first words of its tag.
    pub fn write(
        &mut self,
        name: &str,
        write: Write<'_>,
        with: Option<&ast::With>,
    ) -> Result<(Arc<[ResultColumn]>, &'static str)> {
        let (catalog, session) = (Arc::clone(&self.catalog), self.session.clone());
        let binder = Binder { catalog: &catalog, session: &session, ..self.binder };
        let mut scope = Scope::new(&binder, self.text, std::mem::take(&mut self.params));
        scope.with = with;
        scope.puts_off = true;
        let (kind, columns, tag) = write.bind(&mut scope)?;
        let target = scope.tables[kind.target()].clone();
        if target.is_stream() {
            return Err(SqlError::unsupported("a stream as the target beside other parts of WITH"));
        }
        let params = std::mem::take(&mut scope.params);
        let (shareable, put_off) = (scope.shareable, std::mem::take(&mut scope.put_off));
        let (tables, whole, deferrable) = scope.into_parts();
        let at = kind.target();
        let mode = |table: usize| {
            let asked = whole.iter().find(|(other, _)| *other == table).map(|(_, mode)| *mode);
            let own = if table == at { Mode::Exclusive } else { Mode::Shared };
            asked.map_or(own, |asked| asked.max(own))
        };
        let inputs = self.inputs(&tables, mode);
        self.params = params;
        self.shareable &= shareable;
        add_new(&mut self.judged, put_off);
        add_new(&mut self.deferrable, deferrable);
        let views = FedViews::bind(&self.binder, [])?;
        let plan = WritePlan { tables, whole, kind, views, stream: None, deferrable: Vec::new() };
        self.add(name, Action::Write(Box::new(plan)), inputs);
        Ok((columns, tag))
    }

    fn add(&mut self, name: &str, action: Action, inputs: Vec<Input>) {
        let (name, relation, overlaps) = (name.to_owned(), None, false);
        self.parts.push(Part { name, action, inputs, relation, overlaps });
    }

    /// Where the tables of a part's plan come from; `mode` says how each is locked.
    fn inputs(&mut self, tables: &[Arc<Table>], mode: impl Fn(usize) -> Mode) -> Vec<Input> {
        let of_part = |table: &Arc<Table>| {
            let is_it = |part: &Part| part.relation.as_ref().is_some_and(|own| own.id == table.id);
            self.parts.iter().position(is_it)
        };
        let found: Vec<Option<usize>> = tables.iter().map(of_part).collect();
        let mut inputs = Vec::new();
        for (local, (table, part)) in tables.iter().zip(found).enumerate() {
            inputs.push(match part {
                Some(part) => Input::Rows(part),
                None => Input::Table(self.table(table, mode(local))),
            });
        }
        inputs
    }

    /// Position of a table in the compound's list; of two modes the stronger wins.
    fn table(&mut self, table: &Arc<Table>, mode: Mode) -> usize {
        match self.tables.iter().position(|known| known.id == table.id) {
            Some(at) => {
                self.modes[at] = self.modes[at].max(mode);
                at
            }
            None => {
                self.tables.push(Arc::clone(table));
                self.modes.push(mode);
                self.tables.len() - 1
            }
        }
    }

    /// Makes the last part's rows a relation under the name of its entry. Errors: 42P10, 42701, 0A000.
    fn relate(&mut self, cte: &ast::Cte, columns: &[ResultColumn]) -> Result<()> {
        let name = fold(&cte.alias.name);
        let given = &cte.alias.columns;
        if given.len() > columns.len() {
            let (there, asked) = (columns.len(), given.len());
            return Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!(
                    "WITH query \"{name}\" has {there} columns available but {asked} columns \
                     specified"
                ),
            ));
        }
        let mut made: Vec<Column> = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let name = given.get(at).map_or_else(|| column.name.clone(), |given| fold(&given.name));
            let ty = column.ty.ok_or_else(|| {
                SqlError::unsupported(format!("a column of type {}", column.field.data_type()))
            })?;
            if made.iter().any(|known| known.name == name) {
                let what =
                    format!("the column name \"{name}\" twice in a query of WITH that writes");
                return Err(
                    SqlError::unsupported(what).hint("Name the columns behind the query's name.")
                );
            }
            made.push(Column::of_result(name, ty, &column.field));
        }
        let number = self.parts.len() as u32;
        let table = table_of_rows(number, ROWS_SCHEMA, &name, &self.session.user, made);
        let table = Arc::new(table);
        let catalog = Arc::make_mut(&mut self.catalog);
        catalog.put(ROWS_SCHEMA, &name, Relation::Table(Arc::clone(&table)));
        self.parts.last_mut().expect("just added").relation = Some(table);
        Ok(())
    }

    /// The statement of all parts. `columns`: those of its result.
    pub fn finish(mut self, columns: Arc<[ResultColumn]>, tag: &'static str) -> Result<BoundWrite> {
        let written = self.tables.iter().zip(&self.modes);
        let written: Vec<Arc<Table>> = written
            .filter(|(_, mode)| **mode == Mode::Exclusive)
            .map(|(table, _)| Arc::clone(table))
            .collect();
        let views = FedViews::bind(&self.binder, &written)?;
        for view in views.tables() {
            self.table(view, Mode::Exclusive);
        }
        let order = self.order();
        let mut changed: HashSet<TableId> = HashSet::new();
        for at in &order {
            let part = &mut self.parts[*at];
            if let Action::Write(plan) = &part.action {
                part.overlaps = changed.contains(&plan.tables[plan.kind.target()].id);
                changed.extend(plan.written().map(|table| table.id));
            }
        }
        let whole = self.modes.iter().copied().enumerate().collect();
        let compound = Compound {
            parts: self.parts,
            last: self.last,
            order,
            refuses_second_changes: self.refuses_second_changes,
            judged: self.judged,
        };
        let plan = WritePlan {
            tables: self.tables,
            whole,
            kind: WriteKind::Compound(Box::new(compound)),
            views,
            stream: None,
            deferrable: self.deferrable,
        };
        let params = self.params.into_iter().map(|ty| ty.unwrap_or(SqlType::Text)).collect();
        let shareable = self.shareable;
        Ok(BoundWrite { plan, params, columns, tag, shareable })
    }

    /// The parts in the order in which they run.
    fn order(&self) -> Vec<usize> {
        fn visit(parts: &[Part], at: usize, order: &mut Vec<usize>) {
            if order.contains(&at) {
                return;
            }
            for input in &parts[at].inputs {
                if let Input::Rows(read) = input {
                    visit(parts, *read, order);
                }
            }
            order.push(at);
        }
        let mut order = Vec::new();
        let first = self.last..self.parts.len();
        first.chain((0..self.last).rev()).for_each(|at| visit(&self.parts, at, &mut order));
        order
    }
}

/// Adds what is not there yet.
fn add_new(all: &mut Vec<DeferrableCheck>, more: Vec<DeferrableCheck>) {
    for check in more {
        if !all.contains(&check) {
            all.push(check);
        }
    }
}

/// The roots that a compound statement reads, by table and partition number.
type TableRoots = Vec<Vec<triomphe::Arc<Partition>>>;

/// The ground on which a compound statement runs.
pub(super) enum Ground<'g> {
    /// Locks of the transaction.
    Locks(&'g mut Transaction, &'g Locks),
    /// A snapshot, in which nothing can be written.
    Snapshot(&'g [Vec<triomphe::Arc<Partition>>]),
}

impl Compound {
    /// Whether no part writes.
    pub fn reads_only(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.action, Action::Read(..)))
    }

    /// Runs all parts. The rows of the last go to `returning`; the number of rows that it has written, or
    /// read if it writes none.
    pub fn run(
        &self,
        tables: &[Arc<Table>],
        env: &Env<'_>,
        mut ground: Ground<'_>,
        scratch: &mut Scratch,
        mut returning: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        let roots: TableRoots = match &ground {
            Ground::Locks(tx, locks) => whole_roots(tables, Roots::Locked(tx, locks)),
            Ground::Snapshot(roots) => roots.to_vec(),
        };
        let since = match &mut ground {
            Ground::Locks(tx, _) => Some(tx.savepoint()),
            Ground::Snapshot(_) => None,
        };
        let mut results: Vec<Option<triomphe::Arc<Partition>>> = vec![None; self.parts.len()];
        let mut done = 0;
        for at in &self.order {
            let part = &self.parts[*at];
            let read: TableRoots =
                part.inputs.iter().map(|input| input.roots(&roots, &results)).collect();
            let run = Run {
                env,
                read: &read,
                since: since.as_ref(),
                strict: self.refuses_second_changes,
            };
            if *at >= self.last {
                done += part.run(run, &mut ground, scratch, returning.take())?;
                continue;
            }
            let width = part.relation.as_ref().map_or(0, |table| table.columns.len());
            let mut rows = RowSet::new(width);
            let sink: Option<&mut dyn RowSink> = match part.relation {
                Some(_) => Some(&mut rows),
                None => None,
            };
            part.run(run, &mut ground, scratch, sink)?;
            if let Some(relation) = &part.relation {
                results[*at] = Some(triomphe::Arc::new(stored(relation, &rows)));
            }
        }
        if let (Ground::Locks(tx, _), Some(since)) = (&mut ground, since) {
            let limits = WaitLimits { timeout: None, cancel: env.cancel };
            for check in &self.judged {
                check.judge(env.catalog, tx, &since, &limits)?;
            }
        }
        Ok(done)
    }

    /// For EXPLAIN.
    pub fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for at in &self.order {
            let part = &self.parts[*at];
            if !part.name.is_empty() {
                lines.push(format!("Once, as {}:", part.name));
            }
            lines.extend(match &part.action {
                Action::Read(source, _) => source.explain(),
                Action::Write(plan) => plan.explain(),
            });
        }
        lines
    }
}

/// Rows as a partition of the relation's columns.
fn stored(relation: &Table, rows: &RowSet) -> Partition {
    let mut partition = Partition::new(relation.store_schema());
    for row in 0..rows.len() {
        let values: Vec<ValueRef<'_>> =
            (0..rows.width()).map(|column| rows.value(row, column)).collect();
        partition.insert(&values).expect("there is no index");
    }
    partition
}

impl Input {
    fn roots(
        self,
        tables: &TableRoots,
        results: &[Option<triomphe::Arc<Partition>>],
    ) -> Vec<triomphe::Arc<Partition>> {
        match self {
            Input::Table(at) => tables[at].clone(),
            Input::Rows(part) => vec![results[part].clone().expect("it ran before")],
        }
    }
}

/// What a part runs with.
#[derive(Clone, Copy)]
struct Run<'r> {
    env: &'r Env<'r>,
    /// Roots of the tables of the part's plan.
    read: &'r TableRoots,
    /// Where the statement began.
    since: Option<&'r Savepoint>,
    strict: bool,
}

impl Part {
    fn run(
        &self,
        Run { env, read, since, strict }: Run<'_>,
        ground: &mut Ground<'_>,
        scratch: &mut Scratch,
        sink: Option<&mut dyn RowSink>,
    ) -> Result<u64> {
        let plan = match &self.action {
            Action::Write(plan) => plan,
            Action::Read(source, width) => {
                let mut rows = RowSet::new(*width);
                let mut read = || source.collect(env, Roots::Snapshot(read), scratch, &mut rows);
                match ground {
                    Ground::Locks(tx, _) => tx.resting(read)?,
                    Ground::Snapshot(_) => read()?,
                }
                if let Some(sink) = sink {
                    for row in 0..rows.len() {
                        let values: Vec<_> = (0..*width).map(|at| rows.value(row, at)).collect();
                        sink.row(&values)?;
                    }
                }
                return Ok(rows.len() as u64);
            }
        };
        let Ground::Locks(tx, locks) = ground else {
            unreachable!("a statement that writes is not run on a snapshot")
        };
        let since = since.expect("locks have a beginning");
        let mut own = Locks::default();
        own.reset(&plan.tables);
        for (local, input) in self.inputs.iter().enumerate() {
            let Input::Table(global) = input else { continue };
            for partition in 0..plan.tables[local].cells.len() as u32 {
                let handle = locks.get(*global, partition).expect("locked as a whole");
                own.set(local, partition, handle);
            }
        }
        let target = plan.kind.target();
        let mut skip = HashSet::new();
        if self.overlaps {
            for partition in 0..plan.tables[target].cells.len() as u32 {
                let handle = own.get(target, partition).expect("locked as a whole");
                let changed = tx.changed_rows_in(&[handle], since);
                let rows = tx.changed_rows_of(&changed, handle).row_ids();
                skip.extend(rows.map(|row| (partition, row)));
            }
        }
        let mut cx = WriteContext::new(env, tx, &own);
        (cx.snapshot, cx.skip, cx.strict) = (Some(read.as_slice()), Some(&skip), strict);
        plan.run_kind(&mut cx, scratch, sink)
    }
}

/// Rows of a table that another part of the statement has changed: partition and row.
pub(super) type Touched = HashSet<(u32, RowId)>;
