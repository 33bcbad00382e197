//! Execution: every node pushes its rows to the next by calling it.
//!
//! A call returns whether the caller should go on pushing rows. A node that needs no more (LIMIT, the
//! inner side of a semi join) stops only its own input.

use halcyon_base::SqlState;
use halcyon_store::{Cursor, KeyBuf, Partition, RowRef, ValueRef};
use halcyon_txn::Mode;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use super::PointPlan;
use super::access::{Fit, IndexPath, Part, Path, Range};
use super::aggregate::more_than_one_row;
use super::node::{AggregateNode, HashNode, Node, NodeKind, ScanNode};
use super::rel::{JoinKind, SortKey};
use super::state::{Accumulator, NO_ROW, NodeState, Scratch, recycle};
use super::unique::row_id;
use crate::turns::Turns;
use halcyon_catalog::{Table, partition_of};
use halcyon_plan::env::{Env, Need, Roots};
use halcyon_plan::scalar::{Arena, Program, compare_values};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::rows::RowSink;

/// Rows between two looks at whether the statement is cancelled.
const POLL_ROWS: u64 = 1_024;

/// Visits of rows after which a plan lasts: some hundred microseconds.
const LONG_VISITS: u64 = 4 * POLL_ROWS;

/// The state of a running plan.
pub(super) struct Cx<'a> {
    pub(super) env: &'a Env<'a>,
    pub(super) arena: &'a Arena,
    pub(super) slots: Vec<ValueRef<'a>>,
    tables: &'a [Arc<Table>],
    roots: Roots<'a>,
    temp: Arena,
    keys: [KeyBuf; 2],
    /// Values of lists, and of the key being encoded; a stack.
    values: Vec<ValueRef<'a>>,
    /// The row given to the sink.
    row: Vec<ValueRef<'a>>,
    states: Vec<NodeState<'a>>,
    counts: Vec<u64>,
    polled: u64,
    /// Visits at which the plan looks up from its work next.
    look_at: u64,
    /// Visits beyond which the plan stops.
    visits_max: u64,
    /// Whether the plan has stopped there.
    is_exhausted: bool,
    turns: Turns,
}

type Next<'n, 'a> = &'n mut dyn FnMut(&mut Cx<'a>) -> Result<bool>;

/// Adds what an execution locks.
pub(super) fn needs(plan: &PointPlan, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
    let mut add = |need: Need| {
        let covered = needs.iter().any(|other| {
            other.table == need.table
                && other.mode == need.mode
                && (other.partition.is_none() || other.partition == need.partition)
        });
        if !covered {
            needs.push(need);
        }
    };
    if let Some(fast) = &plan.fast {
        return fast.needs(&plan.tables, env, add);
    }
    let arena = Arena::new();
    for (table, pin) in &plan.locks {
        let count = plan.tables[*table].cells.len() as u32;
        let partition = match pin {
            _ if count == 1 => Some(0),
            None => None,
            Some(pin) => match pin.exact(&[], env, &arena)? {
                Some(value) => Some(partition_of(value, count)),
                // The value equals no key: no row is read.
                None => continue,
            },
        };
        add(Need { table: *table, partition, mode: Mode::Shared });
    }
    Ok(())
}

/// See [`PointPlan::run`].
pub(super) fn run(
    plan: &PointPlan,
    env: &Env<'_>,
    roots: Roots<'_>,
    sink: &mut dyn RowSink,
    scratch: &mut Scratch,
) -> Result<()> {
    run_within(plan, u32::MAX, env, roots, sink, scratch).map(|_| ())
}

/// See [`PointPlan::run_within`].
pub(super) fn run_within(
    plan: &PointPlan,
    visits_max: u32,
    env: &Env<'_>,
    roots: Roots<'_>,
    sink: &mut dyn RowSink,
    scratch: &mut Scratch,
) -> Result<bool> {
    let visits_max = if visits_max == u32::MAX { u64::MAX } else { visits_max.into() };
    scratch.arena.reset();
    let Scratch { arena, temp, slots, key_values, row, keys, states, counts, .. } = scratch;
    counts.clear();
    counts.resize(plan.node_count, 0);
    if let Some(fast) = &plan.fast {
        return fast.run(plan, env, roots, arena, &mut keys[0], sink, counts).map(|()| true);
    }
    states.resize_with(plan.state_count.max(states.len()), NodeState::default);
    // A plan whose nodes keep no state leaves the states of other plans where they are: to move one
    // costs up to four cache lines.
    let own_states = match plan.state_count {
        0 => Vec::new(),
        _ => recycle_states(std::mem::take(states)),
    };
    let mut cx = Cx {
        env,
        arena,
        slots: recycle(std::mem::take(slots)),
        tables: &plan.tables,
        roots,
        temp: std::mem::take(temp),
        keys: std::mem::take(keys),
        values: recycle(std::mem::take(key_values)),
        row: recycle(std::mem::take(row)),
        states: own_states,
        counts: std::mem::take(counts),
        polled: 0,
        look_at: POLL_ROWS.min(visits_max.saturating_add(1)),
        visits_max,
        is_exhausted: false,
        turns: Turns::Short,
    };
    cx.slots.resize(plan.slot_count, ValueRef::Null);
    let result = match cx.run(plan, sink) {
        // Rows that were not all read may lead to errors of their own.
        _ if cx.is_exhausted => Ok(false),
        result => result.map(|()| true),
    };
    *slots = recycle(cx.slots);
    *temp = cx.temp;
    *keys = cx.keys;
    *key_values = recycle(cx.values);
    *row = recycle(cx.row);
    if plan.state_count > 0 {
        *states = recycle_states(cx.states);
    }
    *counts = cx.counts;
    result
}

/// States for another execution, in the same memory.
fn recycle_states<'b>(states: Vec<NodeState<'_>>) -> Vec<NodeState<'b>> {
    states.into_iter().map(NodeState::recycled).collect()
}

impl<'a> Cx<'a> {
    fn run(&mut self, plan: &'a PointPlan, sink: &mut dyn RowSink) -> Result<()> {
        for (node, value, slot) in &plan.subqueries {
            self.subquery(node, *value, *slot)?;
        }
        let output = &plan.output[..];
        let first = output.first().copied().unwrap_or(0);
        let in_a_row = output.iter().enumerate().all(|(at, slot)| *slot == first + at);
        if in_a_row {
            let range = first..first + output.len();
            self.node(&plan.root, &mut |cx| sink.row(&cx.slots[range.clone()]))?;
            return Ok(());
        }
        let mut row = std::mem::take(&mut self.row);
        let result = self.node(&plan.root, &mut |cx| {
            row.clear();
            row.extend(output.iter().map(|slot| cx.slots[*slot]));
            sink.row(&row)
        });
        self.row = row;
        result.map(|_| ())
    }

    fn subquery(&mut self, node: &'a Node, value: usize, slot: usize) -> Result<()> {
        let mut found = None;
        self.node(node, &mut |cx| match found.replace(cx.slots[value]) {
            None => Ok(true),
            Some(_) => Err(more_than_one_row()),
        })?;
        self.slots[slot] = found.unwrap_or(ValueRef::Null);
        Ok(())
    }

    #[inline]
    fn eval(&self, program: &'a Program) -> Result<ValueRef<'a>> {
        program.eval(&self.slots, self.env, self.arena)
    }

    /// Whether a row passes; text made on the way is thrown away.
    #[inline]
    fn passes(&mut self, program: &Program) -> Result<bool> {
        if !program.makes_text() {
            return program.passes(&self.slots, self.env, &self.temp);
        }
        let passes = program.passes(&self.slots, self.env, &self.temp);
        self.temp.reset();
        passes
    }

    #[inline]
    fn all_pass(&mut self, programs: &[Program]) -> Result<bool> {
        for program in programs {
            if !self.passes(program)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[inline]
    fn poll(&mut self) -> Result<()> {
        self.polled += 1;
        if self.polled >= self.look_at { self.look_up() } else { Ok(()) }
    }

    /// Looks up from the work: whether the plan is to stop, to let others go first, or to end.
    #[cold]
    fn look_up(&mut self) -> Result<()> {
        self.is_exhausted = self.polled > self.visits_max;
        self.look_at = self.polled + POLL_ROWS;
        if !self.is_exhausted {
            self.look_at = self.look_at.min(self.visits_max.saturating_add(1));
        }
        if self.polled >= LONG_VISITS {
            self.turns.lasts(self.env, 0);
            // Cuts do not find the transaction of locked rows at rest.
            if self.turns.is_due() && matches!(self.roots, Roots::Snapshot(_)) {
                self.turns.pause(self.env);
            }
        }
        if self.env.cancel.is_cancelled() {
            return Err(SqlError::new(
                SqlState::QUERY_CANCELED,
                "canceling statement due to user request",
            ));
        }
        Ok(())
    }

    /// Gives a row to the next node.
    #[inline]
    fn emit(&mut self, id: usize, next: Next<'_, 'a>) -> Result<bool> {
        self.counts[id] += 1;
        next(self)
    }

    fn node(&mut self, node: &'a Node, next: Next<'_, 'a>) -> Result<bool> {
        let id = node.id;
        match &node.kind {
            NodeKind::Scan(scan) => self.scan(scan, id, next),
            NodeKind::Rows { rows, slots } => {
                for row in rows {
                    for (slot, program) in slots.iter().zip(row) {
                        self.slots[*slot] = self.eval(program)?;
                    }
                    if !self.emit(id, next)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            NodeKind::Filter { input, conditions } => self.node(input, &mut |cx| {
                if cx.all_pass(conditions)? { cx.emit(id, next) } else { Ok(true) }
            }),
            NodeKind::Project { input, defs } => self.node(input, &mut |cx| {
                for (slot, program) in defs {
                    cx.slots[*slot] = cx.eval(program)?;
                }
                cx.emit(id, next)
            }),
            NodeKind::Loop { kind, outer, inner, inner_slots } => {
                self.join(*kind, outer, inner, inner_slots, id, next)
            }
            NodeKind::Hash(hash) => self.hash_join(hash, id, next),
            NodeKind::Aggregate(aggregate) => self.aggregate(aggregate, id, next),
            NodeKind::Sort { input, keys, fetch, carry, state } => {
                self.sort(input, keys, *fetch, carry, *state, id, next)
            }
            NodeKind::Limit { input, skip, fetch } => {
                self.limit(input, skip.as_ref(), fetch.as_ref(), id, next)
            }
            NodeKind::Distinct { input, slots, state } => {
                self.states[*state].clear();
                self.node(input, &mut |cx| {
                    let key = slots.iter().map(|slot| cx.slots[*slot]);
                    let (_, new) = cx.states[*state].keys.insert(slots.len(), key);
                    if new { cx.emit(id, next) } else { Ok(true) }
                })
            }
            NodeKind::Union { inputs, slots } => {
                for (input, layout) in inputs {
                    let more = self.node(input, &mut |cx| {
                        for (to, from) in slots.iter().zip(layout) {
                            cx.slots[*to] = cx.slots[*from];
                        }
                        cx.emit(id, next)
                    })?;
                    if !more {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn join(
        &mut self,
        kind: JoinKind,
        outer: &'a Node,
        inner: &'a Node,
        inner_slots: &'a [usize],
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        self.node(outer, &mut |cx| match kind {
            JoinKind::Inner => cx.node(inner, &mut |cx| cx.emit(id, next)),
            JoinKind::Left => {
                let mut matched = false;
                let more = cx.node(inner, &mut |cx| {
                    matched = true;
                    cx.emit(id, next)
                })?;
                if matched {
                    return Ok(more);
                }
                inner_slots.iter().for_each(|slot| cx.slots[*slot] = ValueRef::Null);
                cx.emit(id, next)
            }
            JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => {
                let mut matched = false;
                cx.node(inner, &mut |_| {
                    matched = true;
                    Ok(false)
                })?;
                match kind {
                    JoinKind::Mark(slot) => cx.slots[slot] = ValueRef::Bool(matched),
                    JoinKind::Semi if !matched => return Ok(true),
                    JoinKind::Anti if matched => return Ok(true),
                    _ => {}
                }
                cx.emit(id, next)
            }
        })
    }

    /// A join whose inner side is read once, when the outer side gives its first row.
    fn hash_join(&mut self, hash: &'a HashNode, id: usize, next: Next<'_, 'a>) -> Result<bool> {
        let mut kept: Option<NodeState<'a>> = None;
        let more = self.node(&hash.outer, &mut |cx| {
            let kept = match &kept {
                Some(kept) => kept,
                None => kept.insert(cx.keep_by_key(hash)?),
            };
            let key: Option<SmallVec<[ValueRef<'a>; 4]>> = hash
                .keys
                .iter()
                .map(|key| match cx.eval(&key.outer) {
                    Ok(ValueRef::Null) if !key.nulls_equal => None,
                    value => Some(value),
                })
                .collect::<Option<Result<_>>>()
                .transpose()?;
            let found = key.and_then(|key| kept.keys.find(&key));
            cx.give_matches(hash, kept, found, id, next)
        })?;
        if let Some(kept) = kept {
            self.states[hash.state] = kept;
        }
        Ok(more)
    }

    /// Reads the inner side of a join and keeps its rows by their keys.
    fn keep_by_key(&mut self, hash: &'a HashNode) -> Result<NodeState<'a>> {
        self.states[hash.state].clear();
        self.node(&hash.inner, &mut |cx| {
            let Cx { states, slots, .. } = cx;
            let key = hash.keys.iter().map(|key| (slots[key.inner], key.nulls_equal));
            if key.clone().any(|(value, nulls_equal)| value.is_null() && !nulls_equal) {
                return Ok(true);
            }
            let state = &mut states[hash.state];
            let key = key.map(|(value, _)| value);
            match hash.carry.is_empty() {
                true => drop(state.keys.insert(hash.keys.len(), key)),
                false => {
                    state.rows.extend(hash.carry.iter().map(|slot| slots[*slot]));
                    state.keep(hash.keys.len(), key);
                }
            }
            Ok(true)
        })?;
        Ok(std::mem::take(&mut self.states[hash.state]))
    }

    /// Gives on what a row of the outer side comes to, whose key is that of number `found`.
    fn give_matches(
        &mut self,
        hash: &'a HashNode,
        kept: &NodeState<'a>,
        found: Option<usize>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        let gives_pairs = matches!(hash.kind, JoinKind::Inner | JoinKind::Left);
        let mut matched = found.is_some() && hash.carry.is_empty();
        let mut row = match found {
            Some(number) if !hash.carry.is_empty() => kept.ends[number].0,
            _ => NO_ROW,
        };
        while row != NO_ROW {
            self.poll()?;
            if self.is_exhausted {
                return Ok(false);
            }
            let width = hash.carry.len();
            let values = &kept.rows[row as usize * width..][..width];
            for (slot, value) in hash.carry.iter().zip(values) {
                self.slots[*slot] = *value;
            }
            if self.all_pass(&hash.conditions)? {
                matched = true;
                if !gives_pairs {
                    break;
                }
                if !self.emit(id, next)? {
                    return Ok(false);
                }
            }
            row = kept.order[row as usize];
        }
        match hash.kind {
            JoinKind::Inner => return Ok(true),
            JoinKind::Left if matched => return Ok(true),
            JoinKind::Left => {
                hash.carry.iter().for_each(|slot| self.slots[*slot] = ValueRef::Null);
            }
            JoinKind::Semi if !matched => return Ok(true),
            JoinKind::Anti if matched => return Ok(true),
            JoinKind::Semi | JoinKind::Anti => {}
            JoinKind::Mark(slot) => self.slots[slot] = ValueRef::Bool(matched),
        }
        self.emit(id, next)
    }

    fn limit(
        &mut self,
        input: &'a Node,
        skip: Option<&'a Program>,
        fetch: Option<&'a Program>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        let skip_state = SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE;
        let mut to_skip = self.row_count(skip, "OFFSET", skip_state)?.unwrap_or(0);
        let fetch_state = SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE;
        let mut to_fetch = self.row_count(fetch, "LIMIT", fetch_state)?.unwrap_or(u64::MAX);
        if to_fetch == 0 {
            return Ok(true);
        }
        let mut more = true;
        self.node(input, &mut |cx| {
            if to_skip > 0 {
                to_skip -= 1;
                return Ok(true);
            }
            to_fetch -= 1;
            more = cx.emit(id, next)?;
            Ok(more && to_fetch > 0)
        })?;
        Ok(more)
    }

    /// The value of LIMIT or OFFSET; None if there is none, or it is NULL.
    fn row_count(
        &mut self,
        program: Option<&'a Program>,
        word: &str,
        state: SqlState,
    ) -> Result<Option<u64>> {
        let Some(program) = program else { return Ok(None) };
        let count = match self.eval(program)? {
            ValueRef::Int16(count) => count as i64,
            ValueRef::Int32(count) => count as i64,
            ValueRef::Int64(count) => count,
            _ => return Ok(None),
        };
        match u64::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(SqlError::new(state, format!("{word} must not be negative"))),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn sort(
        &mut self,
        input: &'a Node,
        keys: &'a [(usize, SortKey)],
        fetch: Option<usize>,
        carry: &'a [usize],
        state: usize,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        self.states[state].clear();
        self.node(input, &mut |cx| {
            let Cx { states, slots, .. } = cx;
            states[state].rows.extend(carry.iter().map(|slot| slots[*slot]));
            let number = states[state].order.len() as u32;
            states[state].order.push(number);
            Ok(true)
        })?;
        let mut own = std::mem::take(&mut self.states[state]);
        let width = carry.len();
        let rows = &own.rows;
        own.order.sort_unstable_by(|a, b| {
            let row = |number: u32| &rows[number as usize * width..][..width];
            let (left, right) = (row(*a), row(*b));
            let by_keys = keys.iter().map(|(place, key)| {
                compare(left[*place], right[*place], key.descending, key.nulls_first)
            });
            by_keys.fold(Ordering::Equal, Ordering::then).then(a.cmp(b))
        });
        let mut more = true;
        for number in own.order.iter().take(fetch.unwrap_or(usize::MAX)) {
            let row = &own.rows[*number as usize * width..][..width];
            for (slot, value) in carry.iter().zip(row) {
                self.slots[*slot] = *value;
            }
            more = self.emit(id, next)?;
            if !more {
                break;
            }
        }
        self.states[state] = own;
        Ok(more)
    }

    fn aggregate(&mut self, of: &'a AggregateNode, id: usize, next: Next<'_, 'a>) -> Result<bool> {
        let state = of.state;
        self.states[state].clear();
        if of.groups.is_empty() {
            self.states[state].accumulators.resize(of.aggregates.len(), Accumulator::EMPTY);
        }
        self.node(&of.input, &mut |cx| {
            cx.take_in(of)?;
            Ok(!of.first_only)
        })?;
        let own = std::mem::take(&mut self.states[state]);
        let groups = if of.groups.is_empty() { 1 } else { own.keys.len() };
        let mut more = true;
        for group in 0..groups {
            if !of.groups.is_empty() {
                for (slot, value) in of.groups.iter().zip(own.keys.key(group)) {
                    self.slots[*slot] = *value;
                }
            }
            let first = group * of.aggregates.len();
            for (at, step) in of.aggregates.iter().enumerate() {
                self.slots[step.slot] = step.rule.finish(&own.accumulators[first + at])?;
            }
            more = self.emit(id, next)?;
            if !more {
                break;
            }
        }
        self.states[state] = own;
        Ok(more)
    }

    /// Adds the row in the slots to its group.
    fn take_in(&mut self, of: &'a AggregateNode) -> Result<()> {
        let width = of.aggregates.len();
        let mut group = 0;
        if !of.groups.is_empty() {
            let Cx { states, slots, .. } = self;
            let state = &mut states[of.state];
            let key = of.groups.iter().map(|slot| slots[*slot]);
            let (number, new) = state.keys.insert(of.groups.len(), key);
            if new {
                let count = state.accumulators.len() + width;
                state.accumulators.resize(count, Accumulator::EMPTY);
            }
            group = number;
        }
        for (at, step) in of.aggregates.iter().enumerate() {
            if let Some(filter) = &step.filter
                && !self.passes(filter)?
            {
                continue;
            }
            let value = match &step.arg {
                None => ValueRef::Bool(true),
                Some(arg) => self.eval(arg)?,
            };
            if value.is_null() && !step.rule.takes_null() {
                continue;
            }
            let place = group * width + at;
            let state = &mut self.states[of.state];
            if step.distinct {
                let key = [ValueRef::Int64(place as i64), value];
                if !state.seen.insert(2, key.into_iter()).1 {
                    continue;
                }
            }
            step.rule.add(&mut state.accumulators[place], value)?;
        }
        Ok(())
    }

    fn scan(&mut self, scan: &'a ScanNode, id: usize, next: Next<'_, 'a>) -> Result<bool> {
        let count = self.tables[scan.table].cells.len() as u32;
        let partitions = match &scan.access.pin {
            Some(pin) => match pin.exact(&self.slots, self.env, self.arena)? {
                Some(value) => {
                    let partition = partition_of(value, count);
                    partition..partition + 1
                }
                None => return Ok(true),
            },
            None => 0..count,
        };
        match &scan.access.path {
            Path::Full => {
                for partition in partitions {
                    for row in self.partition(scan, partition).rows() {
                        if !self.visit(scan, partition, row, id, next)? {
                            return Ok(false);
                        }
                    }
                }
                Ok(true)
            }
            Path::Index(path) => {
                let base = self.values.len();
                let more = self.prefix(scan, path, 0, base, partitions, id, next);
                self.values.truncate(base);
                more
            }
        }
    }

    #[inline]
    fn partition(&self, scan: &ScanNode, partition: u32) -> &'a Partition {
        self.roots.partition(scan.table, partition)
    }

    /// Pushes the value of prefix column `at` and goes on with the next; lists one value at a time.
    #[allow(clippy::too_many_arguments)]
    fn prefix(
        &mut self,
        scan: &'a ScanNode,
        path: &'a IndexPath,
        at: usize,
        base: usize,
        partitions: std::ops::Range<u32>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        match path.prefix.get(at) {
            None if path.unique => self.lookup(scan, path, base, partitions, id, next),
            None => self.range(scan, path, base, partitions, id, next),
            Some(Part::One(probe)) => match probe.exact(&self.slots, self.env, self.arena)? {
                None => Ok(true),
                Some(value) => {
                    self.values.push(value);
                    let more = self.prefix(scan, path, at + 1, base, partitions, id, next);
                    self.values.truncate(base + at);
                    more
                }
            },
            Some(part @ (Part::Many(_) | Part::Any(_))) => {
                for (_, value) in self.distinct(part)? {
                    self.values.push(value);
                    let more = self.prefix(scan, path, at + 1, base, partitions.clone(), id, next);
                    self.values.truncate(base + at);
                    if !more? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// The values of a list or an array without repetitions, each with its place there, in that order.
    /// O(n log n); allocates for long ones and arrays of texts alone.
    fn distinct(&mut self, part: &'a Part) -> Result<SmallVec<[(usize, ValueRef<'a>); 8]>> {
        let mut found = SmallVec::<[(usize, ValueRef<'a>); 8]>::new();
        let mut push = |value: Option<ValueRef<'a>>| {
            let at = found.len();
            found.extend(value.map(|value| (at, value)));
        };
        let (slots, env, arena) = (&self.slots, self.env, self.arena);
        match part {
            Part::One(probe) => push(probe.exact(slots, env, arena)?),
            Part::Many(probes) => {
                for probe in probes {
                    push(probe.exact(slots, env, arena)?);
                }
            }
            Part::Any(array) => {
                array.elements(slots, env, arena, |value| {
                    push(Some(value));
                    Ok(())
                })?;
                // Each is a visit: an array that a join meets again and again counts as the rows do.
                (0..found.len()).try_for_each(|_| self.poll())?;
            }
        }
        found.sort_unstable_by(|(one, a), (other, b)| compare_values(*a, *b).then(one.cmp(other)));
        found.dedup_by(|(_, later), (_, earlier)| compare_values(*later, *earlier).is_eq());
        found.sort_unstable_by_key(|(position, _)| *position);
        Ok(found)
    }

    fn lookup(
        &mut self,
        scan: &'a ScanNode,
        path: &'a IndexPath,
        base: usize,
        partitions: std::ops::Range<u32>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        for number in partitions {
            let partition = self.partition(scan, number);
            let index = partition.index(path.index).expect("the catalog's indexes exist");
            index.encode(&self.values[base..], &mut self.keys[0]);
            if let Some(row) = index.get(&self.keys[0]) {
                let row = partition.row(row).expect("an index names rows that exist");
                if !self.visit(scan, number, row, id, next)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn range(
        &mut self,
        scan: &'a ScanNode,
        path: &'a IndexPath,
        base: usize,
        partitions: std::ops::Range<u32>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        let Some(ends) = self.ends(path.range.as_ref())? else { return Ok(true) };
        if partitions.len() > 1 && !scan.access.merge.is_empty() {
            return self.merge(scan, path, ends, base, partitions, id, next);
        }
        for number in partitions {
            let partition = self.partition(scan, number);
            for row in self.cursor(partition, path, ends, base) {
                let row = partition.row(row).expect("an index names rows that exist");
                if !self.visit(scan, number, row, id, next)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Rows of several partitions in the index's order.
    #[allow(clippy::too_many_arguments)]
    fn merge(
        &mut self,
        scan: &'a ScanNode,
        path: &'a IndexPath,
        ends: Ends<'a>,
        base: usize,
        partitions: std::ops::Range<u32>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        // One allocation per execution, of one entry per partition.
        let mut heads: Vec<Head<'a>> = Vec::with_capacity(partitions.len());
        for number in partitions {
            let partition = self.partition(scan, number);
            let mut cursor = self.cursor(partition, path, ends, base);
            if let Some(row) = next_row(partition, &mut cursor) {
                heads.push(Head { partition, number, cursor, row });
            }
        }
        let order = |a: &Head<'a>, b: &Head<'a>| {
            let keys = scan.access.merge.iter().map(|(column, descending, nulls_first)| {
                let column = *column as usize;
                compare(a.row.value(column), b.row.value(column), *descending, *nulls_first)
            });
            keys.fold(Ordering::Equal, Ordering::then).then(a.number.cmp(&b.number))
        };
        loop {
            let Some(first) = (0..heads.len()).min_by(|a, b| order(&heads[*a], &heads[*b])) else {
                return Ok(true);
            };
            let head = &mut heads[first];
            let (number, row) = (head.number, head.row);
            match next_row(head.partition, &mut head.cursor) {
                Some(row) => head.row = row,
                None => drop(heads.swap_remove(first)),
            }
            if !self.visit(scan, number, row, id, next)? {
                return Ok(false);
            }
        }
    }

    /// The ends of a range as values of the key column, in its order; None if nothing can match.
    fn ends(&self, range: Option<&'a Range>) -> Result<Option<Ends<'a>>> {
        let Some(range) = range else { return Ok(Some(Ends::default())) };
        let mut ends = Ends::default();
        if let Some(low) = &range.low {
            match low.probe.fit(&self.slots, self.env, self.arena)? {
                Fit::Null | Fit::Above => return Ok(None),
                Fit::Below => {}
                Fit::At(value, exact) => ends.lower = Some((value, exact && low.inclusive)),
            }
        }
        if let Some(high) = &range.high {
            match high.probe.fit(&self.slots, self.env, self.arena)? {
                Fit::Null | Fit::Below => return Ok(None),
                Fit::Above => {}
                Fit::At(value, exact) => ends.upper = Some((value, !exact || high.inclusive)),
            }
        }
        if range.column.descending {
            std::mem::swap(&mut ends.lower, &mut ends.upper);
        }
        if range.skip_nulls {
            let end = if range.column.nulls_first { &mut ends.lower } else { &mut ends.upper };
            end.get_or_insert((ValueRef::Null, false));
        }
        Ok(Some(ends))
    }

    fn cursor(
        &mut self,
        partition: &'a Partition,
        path: &IndexPath,
        ends: Ends<'a>,
        base: usize,
    ) -> Cursor<'a> {
        let index = partition.index(path.index).expect("the catalog's indexes exist");
        let [lower_key, upper_key] = &mut self.keys;
        let values = &mut self.values;
        let has_prefix = values.len() > base;
        let mut bound = |end: Option<(ValueRef<'a>, bool)>, key: &mut KeyBuf| {
            if let Some((value, _)) = end {
                values.push(value);
            }
            index.encode(&values[base..], key);
            if end.is_some() {
                values.pop();
            }
        };
        bound(ends.lower, lower_key);
        bound(ends.upper, upper_key);
        let lower = as_bound(ends.lower, has_prefix, lower_key);
        let upper = as_bound(ends.upper, has_prefix, upper_key);
        index.range(lower, upper, path.direction)
    }

    /// A row found: checked, read and given on.
    #[inline]
    fn visit(
        &mut self,
        scan: &'a ScanNode,
        partition: u32,
        row: RowRef<'a>,
        id: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool> {
        self.poll()?;
        if self.is_exhausted {
            return Ok(false);
        }
        if let Some(slot) = scan.row_id {
            self.slots[slot] = row_id(partition, row.id());
        }
        for (column, slot) in &scan.early {
            self.slots[*slot] = row.value(*column as usize);
        }
        if !self.all_pass(&scan.conditions)? {
            return Ok(true);
        }
        for (column, slot) in &scan.late {
            self.slots[*slot] = row.value(*column as usize);
        }
        self.emit(id, next)
    }
}

/// The ends of a range in the index's order, and whether they belong to it.
#[derive(Clone, Copy, Default)]
struct Ends<'a> {
    lower: Option<(ValueRef<'a>, bool)>,
    upper: Option<(ValueRef<'a>, bool)>,
}

fn as_bound<'k>(
    end: Option<(ValueRef<'_>, bool)>,
    has_prefix: bool,
    key: &'k KeyBuf,
) -> Bound<&'k KeyBuf> {
    match end {
        Some((_, true)) => Bound::Included(key),
        Some((_, false)) => Bound::Excluded(key),
        None if has_prefix => Bound::Included(key),
        None => Bound::Unbounded,
    }
}

/// The next row of one partition, while several are merged.
struct Head<'a> {
    partition: &'a Partition,
    number: u32,
    cursor: Cursor<'a>,
    row: RowRef<'a>,
}

fn next_row<'a>(partition: &'a Partition, cursor: &mut Cursor<'a>) -> Option<RowRef<'a>> {
    let row = cursor.next()?;
    Some(partition.row(row).expect("an index names rows that exist"))
}

/// The order of two values, NULLs included.
fn compare(
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    descending: bool,
    nulls_first: bool,
) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if descending => compare_values(right, left),
        (false, false) => compare_values(left, right),
    }
}
