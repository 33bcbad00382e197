//! Referential actions: the effects of deleted and changed rows on the rows whose foreign keys refer
//! to them (refusal, cascade, SET NULL, SET DEFAULT).
//!
//! Changes are worked through in *waves*. The rows that refer to the changed rows of a wave are all
//! found before any is changed, so that rows whose key moves from 1 to 2 are not mistaken for rows
//! whose key moves from 2 to 3. The referring rows so changed are the next wave. Rows only ever
//! leave the keys of a wave, so cycles of tables end. NO ACTION, which only forbids references to
//! missing rows, is checked after the last wave.

use std::collections::HashSet;
use std::sync::Arc;

use halcyon_base::ids::{RowId, TableId};
use halcyon_store::{KeyBuf, Value, ValueRef};
use halcyon_txn::Mode;

use super::generated::with_generated;
use super::source::{self, Cell};
use super::target::{LateRow, Target};
use super::walk::{LOOK_ROWS, PAUSE_ROWS};
use super::{Scope, WriteContext, owned};
use crate::constraints::still_referenced;
use crate::referrers::{Referrers, target_has};
use halcyon_catalog::{Action, Table};
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Waves of one statement; a chain of references this long is a cycle that does not settle.
const WAVES_MAX: usize = 1_000;

/// Tables that a statement may change, the first being its target.
pub(super) struct Effects {
    nodes: Vec<Node>,
}

struct Node {
    target: Target,
    incoming: Vec<Incoming>,
}

/// A foreign key that refers to a node.
struct Incoming {
    referrers: Referrers,
    /// Position of the referring table.
    at: usize,
    /// The referring table's node, if it may be changed.
    node: Option<usize>,
    /// Defaults of the key's columns, for SET DEFAULT.
    defaults: Vec<Cell>,
    /// Whether NO ACTION is judged here; else the statement's session or its other parts decide when.
    judged: bool,
}

/// A row that was deleted or changed.
pub(super) struct Changed {
    pub node: usize,
    pub before: Vec<Value>,
    /// `None`: deleted.
    pub after: Option<Vec<Value>>,
}

/// The changes of a table that a statement can make.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Expect {
    Delete,
    Update(Vec<u16>),
}

/// A key that no row has any more, its new value (None: its row was deleted), and the action of
/// the foreign key on referring rows.
type Gone = (Vec<Value>, Option<Vec<Value>>, Action);

/// A change to be made to a referring row.
struct Act {
    at: usize,
    node: usize,
    partition: u32,
    row: RowId,
    columns: Vec<u16>,
    /// `None`: delete it.
    values: Option<Vec<Value>>,
}

impl Effects {
    /// Follows the references to `target` as far as changes can go; asks for the locks.
    pub fn bind(
        scope: &mut Scope<'_>,
        target: Target,
        deletes: bool,
        updated: &[u16],
    ) -> Result<Effects> {
        let table = target.table.clone();
        let mut effects = Effects { nodes: vec![Node { target, incoming: Vec::new() }] };
        let mut open = Vec::new();
        if deletes {
            open.push((table.id, Expect::Delete));
        }
        if !updated.is_empty() {
            open.push((table.id, Expect::Update(updated.to_vec())));
        }
        let mut seen = HashSet::new();
        while let Some((table, expect)) = open.pop() {
            if seen.insert((table, expect.clone())) {
                effects.follow(scope, table, &expect, &mut open)?;
            }
        }
        let written: Vec<usize> = effects.nodes.iter().map(|node| node.target.at).collect();
        effects.nodes.iter_mut().for_each(|node| node.target.defer_references_to(&written));
        Ok(effects)
    }

    fn follow(
        &mut self,
        scope: &mut Scope<'_>,
        table: TableId,
        expect: &Expect,
        open: &mut Vec<(TableId, Expect)>,
    ) -> Result<()> {
        let table = scope.binder.catalog.table(table).clone();
        let node = self.node(scope, &table)?;
        for (referrer, name) in &table.referenced_by {
            let referrer = scope.binder.catalog.table(*referrer).clone();
            let key = referrer.foreign_keys.iter().find(|key| key.name == *name);
            let key = key.expect("references are mirrored").clone();
            let (action, effect) = match expect {
                Expect::Delete => (key.on_delete, Expect::Delete),
                Expect::Update(columns) => {
                    if !key.target_columns.iter().any(|column| columns.contains(column)) {
                        continue;
                    }
                    (key.on_update, Expect::Update(with_generated(&referrer, &key.columns)))
                }
            };
            let at = scope.table(&referrer);
            let changes = match action {
                // Locked now although it is read later: in the order of all other locks.
                Action::NoAction if !scope.judges(table.id, &referrer, &key) => {
                    scope.need_whole(at, Mode::Shared);
                    continue;
                }
                Action::NoAction | Action::Restrict => {
                    scope.need_whole(at, Mode::Shared);
                    None
                }
                Action::Cascade => Some(effect),
                Action::SetNull | Action::SetDefault => {
                    let columns = key.set_columns(*expect == Expect::Delete);
                    Some(Expect::Update(with_generated(&referrer, columns)))
                }
            };
            let mut changed_node = None;
            if let Some(changes) = changes {
                scope.need_whole(at, Mode::Exclusive);
                changed_node = Some(self.node(scope, &referrer)?);
                open.push((referrer.id, changes));
            }
            self.add_incoming(
                scope,
                node,
                Referrers::new(referrer, key, &table),
                at,
                changed_node,
            )?;
        }
        Ok(())
    }

    fn add_incoming(
        &mut self,
        scope: &mut Scope<'_>,
        node: usize,
        referrers: Referrers,
        at: usize,
        changed_node: Option<usize>,
    ) -> Result<()> {
        let Referrers { key, table: referrer, .. } = &referrers;
        let known = self.nodes[node].incoming.iter_mut().find(|known| {
            known.referrers.key.name == key.name && known.referrers.table.id == referrer.id
        });
        if let Some(known) = known {
            known.node = known.node.or(changed_node);
            return Ok(());
        }
        let mut defaults = Vec::new();
        if [key.on_delete, key.on_update].contains(&Action::SetDefault) {
            for column in &key.columns {
                defaults.push(source::default(&scope.binder, referrer, *column)?);
            }
        }
        self.nodes[node].incoming.push(Incoming {
            judged: key.deferral.is_none() && !scope.puts_off,
            referrers,
            at,
            node: changed_node,
            defaults,
        });
        Ok(())
    }

    /// The node of a table, added if need be.
    fn node(&mut self, scope: &mut Scope<'_>, table: &Arc<Table>) -> Result<usize> {
        if let Some(at) = self.nodes.iter().position(|node| node.target.table.id == table.id) {
            return Ok(at);
        }
        let target = Target::bind(scope, table, None)?;
        self.nodes.push(Node { target, incoming: Vec::new() });
        Ok(self.nodes.len() - 1)
    }

    /// The table that the statement names.
    pub fn target(&self) -> &Target {
        &self.nodes[0].target
    }

    /// Whether a foreign key refers to the target so that the statement's changes may concern it.
    pub fn has_incoming(&self) -> bool {
        !self.nodes[0].incoming.is_empty()
    }

    /// Carries out the referential actions that follow from `changed`, then the checks left for the end.
    pub fn settle(
        &self,
        cx: &mut WriteContext<'_>,
        mut changed: Vec<Changed>,
        mut late: Vec<LateRow>,
        key: &mut KeyBuf,
        arena: &Arena,
    ) -> Result<()> {
        let mut refusals = Vec::new();
        for wave in 0.. {
            if changed.is_empty() {
                break;
            }
            if wave == WAVES_MAX {
                return Err(SqlError::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!("foreign keys cascade more than {WAVES_MAX} times"),
                ));
            }
            if cx.env.cancel.is_cancelled() {
                return Err(SqlError::new(
                    SqlState::QUERY_CANCELED,
                    "canceling statement due to user request",
                ));
            }
            let acts = self.acts(cx, &changed, &mut refusals, key, arena)?;
            changed = self.act(cx, acts, &mut late, key, arena)?;
        }
        for (node, incoming, values) in refusals {
            self.refuse_referenced(cx, node, incoming, &values, key)?;
        }
        self.judge_late(cx, &late, key)
    }

    /// Checks the references that can be checked only at the end. Errors: 23503.
    fn judge_late(&self, cx: &WriteContext<'_>, late: &[LateRow], key: &mut KeyBuf) -> Result<()> {
        for LateRow { node, partition, row } in late {
            let target = &self.nodes[*node].target;
            let partition = cx.tx.read(cx.lock(target.at, *partition));
            if let Some(row) = partition.row(*row) {
                let values: Vec<ValueRef<'_>> = row.values().collect();
                target.verify_references(cx, &values, key, true)?;
            }
        }
        Ok(())
    }

    /// The changes to referring rows that the foreign keys demand for a wave.
    fn acts(
        &self,
        cx: &mut WriteContext<'_>,
        changed: &[Changed],
        refusals: &mut Vec<(usize, usize, Vec<Value>)>,
        key: &mut KeyBuf,
        arena: &Arena,
    ) -> Result<Vec<Act>> {
        let mut acts = Vec::new();
        for node in 0..self.nodes.len() {
            for at in 0..self.nodes[node].incoming.len() {
                let incoming = &self.nodes[node].incoming[at];
                let mut gone: Vec<Gone> = Vec::new();
                for change in changed.iter().filter(|change| change.node == node) {
                    let pick = |row: &[Value]| -> Vec<Value> {
                        let columns = incoming.referrers.key.target_columns.iter();
                        columns.map(|column| row[*column as usize].clone()).collect()
                    };
                    let before = pick(&change.before);
                    let after = change.after.as_deref().map(pick);
                    if before.iter().any(Value::is_null) || after.as_ref() == Some(&before) {
                        continue;
                    }
                    let action = match after {
                        None => incoming.referrers.key.on_delete,
                        Some(_) => incoming.referrers.key.on_update,
                    };
                    match action {
                        Action::NoAction if !incoming.judged => {}
                        Action::NoAction => refusals.push((node, at, before)),
                        Action::Restrict => {
                            self.refuse_referenced(cx, node, at, &before, key)?;
                        }
                        _ => gone.push((before, after, action)),
                    }
                }
                self.acts_on(cx, incoming, &gone, &mut acts, key, arena)?;
            }
        }
        Ok(acts)
    }

    /// The rows that refer to keys that no row has any more, with the change for each.
    fn acts_on(
        &self,
        cx: &mut WriteContext<'_>,
        incoming: &Incoming,
        gone: &[Gone],
        acts: &mut Vec<Act>,
        key: &mut KeyBuf,
        arena: &Arena,
    ) -> Result<()> {
        let keys: Vec<&[Value]> = gone.iter().map(|(before, ..)| before.as_slice()).collect();
        for (which, partition, row) in incoming.find(cx, &keys, key) {
            let (_, after, action) = &gone[which];
            let own = &incoming.referrers.key;
            let columns = match action {
                Action::Cascade => own.columns.as_slice(),
                _ => own.set_columns(after.is_none()),
            };
            let values = match (action, after) {
                (Action::Cascade, None) => None,
                (Action::Cascade, Some(after)) => Some(incoming.referrers.as_own(after)?),
                (Action::SetNull, _) => Some(vec![Value::Null; columns.len()]),
                _ => {
                    let mut values = Vec::new();
                    let defaults = incoming.defaults.iter().zip(&own.columns);
                    for (cell, column) in defaults.filter(|(_, column)| columns.contains(column)) {
                        let ty = incoming.referrers.table.columns[*column as usize].ty;
                        let env = cx.env;
                        let none = |_| unreachable!("a default has no source row");
                        let value = cell.value(env, cx.zone_cell(), none, &[], ty, arena)?;
                        values.push(value.to_owned());
                    }
                    Some(values)
                }
            };
            acts.push(Act {
                at: incoming.at,
                node: incoming.node.expect("an acting reference has a node"),
                partition,
                row,
                columns: columns.to_vec(),
                values,
            });
        }
        Ok(())
    }

    /// Makes the changes to referring rows; returns the next wave.
    fn act(
        &self,
        cx: &mut WriteContext<'_>,
        acts: Vec<Act>,
        late: &mut Vec<LateRow>,
        key: &mut KeyBuf,
        arena: &Arena,
    ) -> Result<Vec<Changed>> {
        let mut changed = Vec::new();
        let count = acts.len();
        for (number, act) in acts.into_iter().enumerate() {
            if number % PAUSE_ROWS == PAUSE_ROWS - 1 {
                cx.lasts(PAUSE_ROWS, Some(count));
            }
            if number % LOOK_ROWS == LOOK_ROWS - 1 {
                cx.takes_turns();
            }
            let target = &self.nodes[act.node].target;
            let handle = cx.lock(act.at, act.partition);
            // Two keys of one table may lead to the same row.
            let Some(row) = cx.tx.read(handle).row(act.row) else { continue };
            let before: Vec<Value> = row.values().map(|value| value.to_owned()).collect();
            let Some(values) = act.values else {
                cx.tx.delete(handle, act.row);
                changed.push(Changed { node: act.node, before, after: None });
                continue;
            };
            let mut after = before.clone();
            for (column, value) in act.columns.iter().zip(&values) {
                after[*column as usize] = value.clone();
            }
            let mut row: Vec<ValueRef<'_>> = after.iter().map(Value::as_ref).collect();
            target.complete(&mut row, cx.env, arena)?;
            target.verify(&row, cx.env, arena)?;
            let partition = target.partition_of(&row);
            let place = if partition == act.partition {
                let columns = with_generated(&target.table, &act.columns);
                let new: Vec<_> = columns.iter().map(|column| row[*column as usize]).collect();
                cx.tx.update(handle, act.row, &columns, &new).map(|()| act.row)
            } else {
                cx.tx.delete(handle, act.row);
                cx.tx.insert(cx.lock(act.at, partition), &row)
            };
            let place = place.map_err(|conflict| target.conflict(conflict, &row))?;
            target.verify_references(cx, &row, key, false)?;
            if target.has_references() {
                late.push(LateRow { node: act.node, partition, row: place });
            }
            changed.push(Changed { node: act.node, before, after: Some(owned(&row)) });
        }
        Ok(changed)
    }

    /// 23503 if rows still refer to a key that no row has any more.
    fn refuse_referenced(
        &self,
        cx: &WriteContext<'_>,
        node: usize,
        at: usize,
        values: &[Value],
        key: &mut KeyBuf,
    ) -> Result<()> {
        let target = &self.nodes[node].target;
        let incoming = &self.nodes[node].incoming[at];
        let found = incoming.find(cx, &[values], key);
        if found.is_empty() {
            return Ok(());
        }
        // Another row may have taken the key over.
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        let partition = |partition| cx.tx.read(cx.lock(target.at, partition));
        if target_has(&target.table, &incoming.referrers.key, &values, key, partition) {
            return Ok(());
        }
        let Referrers { key, table, .. } = &incoming.referrers;
        Err(still_referenced(&target.table, key, table, &values))
    }
}

impl Incoming {
    /// Rows that refer to one of `keys`: (which key, partition, row).
    fn find(
        &self,
        cx: &WriteContext<'_>,
        keys: &[&[Value]],
        key: &mut KeyBuf,
    ) -> Vec<(usize, u32, RowId)> {
        self.referrers.find(keys, key, |partition| cx.tx.read(cx.lock(self.at, partition)))
    }
}
