//! What foreign keys make of changes to the rows they refer to: refusal, cascade, SET NULL,
//! SET DEFAULT.
//!
//! Changes are worked through in *waves*: the referring rows of all changes of a wave are found
//! first and changed then, so that a key that moves from 1 to 2 does not meet those that move from
//! 2 to 3. What is changed in a wave is the next one. Rows only ever leave the key that a wave is
//! about, so cycles of tables end.
//! What must merely not be (NO ACTION) is judged when all waves are over.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use halcyon_base::ids::{IndexId, RowId, TableId};
use halcyon_store::{KeyBuf, Value, ValueRef};
use halcyon_txn::Mode;

use super::source::{self, Cell};
use super::target::{LateRow, Target};
use super::{Scope, WriteContext, owned};
use halcyon_value::integer::widen;

use crate::constraints::still_referenced;
use halcyon_catalog::{Action, ForeignKey, Table};
use halcyon_sql::coerce::{Arena, fit_integer};
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
    key: ForeignKey,
    referrer: Arc<Table>,
    /// Position of the referring table.
    at: usize,
    /// The referring table's node, if it may be changed.
    node: Option<usize>,
    /// An index of the referring table whose first columns are those of the key, and their order.
    index: Option<(IndexId, Vec<usize>)>,
    /// Defaults of the key's columns, for SET DEFAULT.
    defaults: Vec<Cell>,
}

/// A row that was deleted or changed.
pub(super) struct Changed {
    pub node: usize,
    pub before: Vec<Value>,
    /// `None`: deleted.
    pub after: Option<Vec<Value>>,
}

/// What changes of a table are to be expected.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Expect {
    Delete,
    Update(Vec<u16>),
}

/// A key that is gone, what it became (None: its row was deleted), and what referrers are to do.
type Gone = (Vec<Value>, Option<Vec<Value>>, Action);

/// Something to be done to a referring row.
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
                    (key.on_update, Expect::Update(key.columns.clone()))
                }
            };
            let at = scope.table(&referrer);
            let changes = match action {
                Action::NoAction | Action::Restrict => {
                    scope.need_whole(at, Mode::Shared);
                    None
                }
                Action::Cascade => Some(effect),
                Action::SetNull | Action::SetDefault => Some(Expect::Update(key.columns.clone())),
            };
            let mut changed_node = None;
            if let Some(changes) = changes {
                scope.need_whole(at, Mode::Exclusive);
                changed_node = Some(self.node(scope, &referrer)?);
                open.push((referrer.id, changes));
            }
            self.add_incoming(scope, node, referrer, key, at, changed_node)?;
        }
        Ok(())
    }

    fn add_incoming(
        &mut self,
        scope: &mut Scope<'_>,
        node: usize,
        referrer: Arc<Table>,
        key: ForeignKey,
        at: usize,
        changed_node: Option<usize>,
    ) -> Result<()> {
        let known = self.nodes[node]
            .incoming
            .iter_mut()
            .find(|known| known.key.name == key.name && known.referrer.id == referrer.id);
        if let Some(known) = known {
            known.node = known.node.or(changed_node);
            return Ok(());
        }
        let mut defaults = Vec::new();
        if [key.on_delete, key.on_update].contains(&Action::SetDefault) {
            for column in &key.columns {
                defaults.push(source::default(&scope.binder, &referrer, *column)?);
            }
        }
        self.nodes[node].incoming.push(Incoming {
            index: referring_index(&referrer, &key),
            key,
            referrer,
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

    /// Whether anybody refers to the target in a way that its changes may concern.
    pub fn has_incoming(&self) -> bool {
        !self.nodes[0].incoming.is_empty()
    }

    /// Carries out what follows from `changed` and judges what was left for the end.
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

    /// References that only the end can judge. Errors: 23503.
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

    /// What the foreign keys want done about the changes of a wave.
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
                        let columns = incoming.key.target_columns.iter();
                        columns.map(|column| row[*column as usize].clone()).collect()
                    };
                    let before = pick(&change.before);
                    let after = change.after.as_deref().map(pick);
                    if before.iter().any(Value::is_null) || after.as_ref() == Some(&before) {
                        continue;
                    }
                    let action = match after {
                        None => incoming.key.on_delete,
                        Some(_) => incoming.key.on_update,
                    };
                    match action {
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

    /// The referring rows of keys that are gone, and what becomes of each.
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
        for (which, partition, row) in incoming.referring(cx, &keys, key) {
            let (_, after, action) = &gone[which];
            let columns = &incoming.key.columns;
            let values = match (action, after) {
                (Action::Cascade, None) => None,
                (Action::Cascade, Some(after)) => Some(incoming.as_own(after)?),
                (Action::SetNull, _) => Some(vec![Value::Null; columns.len()]),
                _ => {
                    let mut values = Vec::new();
                    for (cell, column) in incoming.defaults.iter().zip(columns) {
                        let ty = incoming.referrer.columns[*column as usize].ty;
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
                columns: columns.clone(),
                values,
            });
        }
        Ok(())
    }

    /// Carries acts out; what they changed is the next wave.
    fn act(
        &self,
        cx: &mut WriteContext<'_>,
        acts: Vec<Act>,
        late: &mut Vec<LateRow>,
        key: &mut KeyBuf,
        arena: &Arena,
    ) -> Result<Vec<Changed>> {
        let mut changed = Vec::new();
        for act in acts {
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
            let row: Vec<ValueRef<'_>> = after.iter().map(Value::as_ref).collect();
            target.verify(&row, cx.env, arena)?;
            let partition = target.partition_of(&row);
            let place = if partition == act.partition {
                let new: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
                cx.tx.update(handle, act.row, &act.columns, &new).map(|()| act.row)
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

    /// 23503 if rows still refer to a key that is gone.
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
        let found = incoming.referring(cx, &[values], key);
        if found.is_empty() {
            return Ok(());
        }
        // Another row may have taken the key over.
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        if target_has(cx, target, &incoming.key.target_columns, &values, key) {
            return Ok(());
        }
        Err(still_referenced(&target.table, &incoming.key, &incoming.referrer, &values))
    }
}

/// Whether the table has a row with this key, by the unique index that the key refers to.
fn target_has(
    cx: &WriteContext<'_>,
    target: &Target,
    columns: &[u16],
    values: &[ValueRef<'_>],
    key: &mut KeyBuf,
) -> bool {
    let table = &target.table;
    let index = table
        .indexes
        .iter()
        .find(|index| index.unique && index.covers_exactly(columns))
        .expect("DDL keeps a unique index for every foreign key");
    let value_of = |column: u16| {
        values[columns.iter().position(|own| *own == column).expect("covers exactly")]
    };
    let ordered: Vec<ValueRef<'_>> =
        index.columns.iter().map(|column| value_of(column.column)).collect();
    let partition = match table.partition_column() {
        None => 0,
        Some(column) => table.partition_of(value_of(column)),
    };
    let partition = cx.tx.read(cx.lock(target.at, partition));
    let index = partition.index(index.id).expect("every partition has the index");
    index.encode(&ordered, key);
    index.get(key).is_some()
}

/// An index whose first columns are exactly those of the foreign key, in any order.
fn referring_index(referrer: &Table, key: &ForeignKey) -> Option<(IndexId, Vec<usize>)> {
    referrer.indexes.iter().find_map(|index| {
        let first = index.columns.get(..key.columns.len())?;
        let order: Option<Vec<usize>> = first
            .iter()
            .map(|column| key.columns.iter().position(|own| *own == column.column))
            .collect();
        let order = order?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (sorted.len() == key.columns.len()).then_some((index.id, order))
    })
}

impl Incoming {
    /// Rows that refer to one of `keys`: (which key, partition, row).
    fn referring(
        &self,
        cx: &WriteContext<'_>,
        keys: &[&[Value]],
        key: &mut KeyBuf,
    ) -> Vec<(usize, u32, RowId)> {
        let mut found = Vec::new();
        if keys.is_empty() {
            return found;
        }
        let partitions = 0..self.referrer.cells.len() as u32;
        if let Some((index, order)) = &self.index {
            for (which, values) in keys.iter().enumerate() {
                // A key that the referring columns cannot hold has no referrers.
                let Ok(own) = self.as_own(values) else { continue };
                let ordered: Vec<ValueRef<'_>> =
                    order.iter().map(|position| own[*position].as_ref()).collect();
                for partition in partitions.clone() {
                    let root = cx.tx.read(cx.lock(self.at, partition));
                    let index = root.index(*index).expect("every partition has the index");
                    index.encode(&ordered, key);
                    found.extend(index.prefix(key).map(|row| (which, partition, row)));
                }
            }
            return found;
        }
        let wanted: HashMap<Vec<u8>, usize> = keys
            .iter()
            .enumerate()
            .map(|(which, values)| (encode(values.iter().map(Value::as_ref)), which))
            .collect();
        for partition in partitions {
            for row in cx.tx.read(cx.lock(self.at, partition)).rows() {
                let values = self.key.columns.iter().map(|column| row.value(*column as usize));
                if let Some(which) = wanted.get(&encode(values)) {
                    found.push((*which, partition, row.id()));
                }
            }
        }
        found
    }

    /// Values of the columns referred to, as the referring columns have them. Errors: 22003.
    fn as_own(&self, values: &[Value]) -> Result<Vec<Value>> {
        let convert = |(column, value): (&u16, &Value)| {
            let ty = self.referrer.columns[*column as usize].ty;
            match widen(value.as_ref()) {
                None => Ok(value.clone()),
                Some(wide) => fit_integer(wide, ty).map(|v| v.to_owned()).ok_or_else(|| {
                    SqlError::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        format!("{ty} out of range"),
                    )
                }),
            }
        };
        self.key.columns.iter().zip(values).map(convert).collect()
    }
}

/// Bytes by which keys are compared; integers of all widths alike. NULL never equals a key.
fn encode<'v>(values: impl Iterator<Item = ValueRef<'v>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        if let Some(wide) = widen(value) {
            bytes.push(1);
            bytes.extend(wide.to_le_bytes());
            continue;
        }
        match value {
            ValueRef::Null => bytes.push(0),
            ValueRef::Text(text) => {
                bytes.push(2);
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            ValueRef::Bytes(text) => {
                bytes.push(3);
                bytes.extend((text.len() as u32).to_le_bytes());
                bytes.extend(text);
            }
            ValueRef::Uuid(uuid) => {
                bytes.push(4);
                bytes.extend(uuid);
            }
            ValueRef::Decimal(value) => {
                bytes.push(5);
                bytes.extend(value.to_le_bytes());
            }
            ValueRef::Float64(value) => {
                bytes.push(6);
                bytes.extend((value + 0.0).to_bits().to_le_bytes());
            }
            ValueRef::Float32(value) => {
                bytes.push(6);
                bytes.extend((value as f64 + 0.0).to_bits().to_le_bytes());
            }
            ValueRef::Bool(value) => bytes.extend([7, value as u8]),
            ValueRef::Date(value) => {
                bytes.push(8);
                bytes.extend(value.to_le_bytes());
            }
            ValueRef::Time(value) | ValueRef::Timestamp(value) | ValueRef::TimestampTz(value) => {
                bytes.push(9);
                bytes.extend(value.to_le_bytes());
            }
            ValueRef::Interval(value) => {
                bytes.push(10);
                bytes.extend(value.sort_key().to_le_bytes());
            }
            ValueRef::Int16(_) | ValueRef::Int32(_) | ValueRef::Int64(_) => {
                unreachable!("integers were taken above")
            }
        }
    }
    bytes
}
