//! From relations to nodes: an index for every table, an order for every join.

use datafusion::logical_expr::LogicalPlan;

use super::PointPlan;
use super::access::{self, BoundSlots, Choice, Path, Probe, RANK_UNIQUE, Range, Wanted};
use super::aggregate::{Function, Rule};
use super::node::{AggregateNode, AggregateStep, HashKey, HashNode, Node, NodeKind, ScanNode};
use super::rel::{Builder, JoinKind, JoinRel, Rel, Scan, SortKey};
use super::twin::Relations;
use super::unique::UniqueLookup;
use halcyon_base::IndexId;
use halcyon_plan::scalar::{Compare, Ir, Program};
use halcyon_sql::error::Result;
use halcyon_store::Type;

/// Compiles a plan; None if a table would have to be read as a whole. Errors: 0A000 if a part of it
/// cannot run in this executor.
pub(super) fn compile(plan: &LogicalPlan) -> Result<Option<PointPlan>> {
    let mut builder = Builder::default();
    let (rel, output) = builder.rel(plan)?;
    Ok(self::plan(builder, rel, output))
}

/// Plans a relation with its layout; None if a table would have to be read as a whole.
pub(super) fn plan(mut builder: Builder, rel: Rel, output: Vec<usize>) -> Option<PointPlan> {
    let relations = Relations::of(&builder, &rel, &output);
    let subqueries = std::mem::take(&mut builder.subqueries);
    let mut planner = Planner { builder: &builder, node_count: 0, state_count: 0 };
    let mut bound = BoundSlots::default();
    let none = Wanted { keys: &[], limited: false };
    let mut steps = vec![];
    for (rel, value, slot) in &subqueries {
        let planned = planner.plan(rel, vec![], &bound, none)?;
        steps.push((planned.node, *value, *slot));
        bound.add(*slot);
    }
    let planned = planner.plan(&rel, vec![], &bound, none)?;
    let (node_count, state_count) = (planner.node_count, planner.state_count);
    let fast = UniqueLookup::of(&planned.node, &output, steps.is_empty(), &builder.tables);
    let mut locks = vec![];
    steps.iter().for_each(|(node, _, _)| collect_locks(node, &mut locks));
    collect_locks(&planned.node, &mut locks);
    Some(PointPlan {
        slot_count: builder.slots.len(),
        tables: builder.tables,
        subqueries: steps,
        root: planned.node,
        output,
        node_count,
        state_count,
        locks,
        fast,
        relations,
    })
}

/// Notes the table of every scan, and what fixes its partition before the plan runs.
fn collect_locks(node: &Node, locks: &mut Vec<(usize, Option<Probe>)>) {
    if let NodeKind::Scan(scan) = &node.kind {
        let pin = scan.access.pin.clone().filter(|pin| pin.known);
        locks.push((scan.table, pin));
    }
    node.kind.inputs().into_iter().for_each(|input| collect_locks(input, locks));
}

struct Planner<'b> {
    builder: &'b Builder,
    node_count: usize,
    state_count: usize,
}

struct Planned {
    node: Node,
    /// The rows come in the wanted order.
    ordered: bool,
    /// There is at most one row.
    single: bool,
    rank: u32,
}

impl Planner<'_> {
    fn node(&mut self, kind: NodeKind) -> Node {
        self.node_count += 1;
        Node { id: self.node_count - 1, kind }
    }

    fn state(&mut self) -> usize {
        self.state_count += 1;
        self.state_count - 1
    }

    /// Plans a relation such that all `conditions` hold, with `bound` slots known.
    fn plan(
        &mut self,
        rel: &Rel,
        conditions: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        match rel {
            Rel::Scan(scan) => self.scan(scan, conditions, bound, wanted),
            Rel::Filter { input, conditions: own } => {
                let all = own.iter().cloned().chain(conditions).collect();
                self.plan(input, all, bound, wanted)
            }
            Rel::Project { input, defs } => self.project(input, defs, conditions, bound, wanted),
            Rel::Join(join) if join.kind == JoinKind::Inner => {
                self.inner(rel, conditions, bound, wanted)
            }
            Rel::Join(join) => self.outer(join, conditions, bound, wanted),
            Rel::Rows { rows, slots } => {
                let compile = |row: &Vec<Ir>| row.iter().map(Program::from_ir).collect();
                let rows: Vec<Vec<Program>> = rows.iter().map(compile).collect();
                let (single, slots) = (rows.len() <= 1, slots.clone());
                let node = self.node(NodeKind::Rows { rows, slots });
                let ordered = single || wanted.keys.is_empty();
                let planned = Planned { node, ordered, single, rank: RANK_UNIQUE };
                Some(self.filtered(planned, conditions))
            }
            Rel::Aggregate { .. } => self.aggregate(rel, conditions, bound),
            Rel::Sort { input, keys, fetch, carry } => {
                let limited = fetch.is_some() || wanted.limited;
                let below = Wanted { keys, limited };
                // Rows must not be filtered before LIMIT counts them.
                let (inside, above) =
                    if fetch.is_some() { (vec![], conditions) } else { (conditions, vec![]) };
                let planned = self.sort(input, keys, *fetch, carry, inside, bound, below)?;
                let ordered = wanted.keys.is_empty() || keys.starts_with(wanted.keys);
                Some(self.filtered(Planned { ordered, ..planned }, above))
            }
            Rel::Limit { input, skip, fetch } => {
                let limited = fetch.is_some() || wanted.limited;
                let planned =
                    self.plan(input, vec![], bound, Wanted { keys: wanted.keys, limited })?;
                let program = |ir: &Option<Ir>| ir.as_ref().map(Program::from_ir);
                let (skip, fetch) = (program(skip), program(fetch));
                let node = self.node(NodeKind::Limit { input: planned.node.into(), skip, fetch });
                // An order wanted above a LIMIT must not change which rows the LIMIT takes.
                let ordered = planned.ordered && wanted.keys.is_empty() || planned.single;
                Some(self.filtered(Planned { node, ordered, ..planned }, conditions))
            }
            Rel::Distinct { input, slots } => {
                let planned =
                    self.plan(input, conditions, bound, Wanted { limited: false, ..wanted })?;
                let kind = NodeKind::Distinct {
                    input: planned.node.into(),
                    slots: slots.clone(),
                    state: self.state(),
                };
                Some(Planned { node: self.node(kind), ..planned })
            }
            Rel::Union { inputs, slots } => {
                let mut nodes = vec![];
                let none = Wanted { keys: &[], limited: wanted.limited && wanted.keys.is_empty() };
                for (input, layout) in inputs {
                    let planned = self.plan(input, vec![], bound, none)?;
                    nodes.push((planned.node, layout.clone()));
                }
                let node = self.node(NodeKind::Union { inputs: nodes, slots: slots.clone() });
                let ordered = wanted.keys.is_empty();
                let planned = Planned { node, ordered, single: false, rank: 20 };
                Some(self.filtered(planned, conditions))
            }
        }
    }

    fn filtered(&mut self, planned: Planned, conditions: Vec<Ir>) -> Planned {
        if conditions.is_empty() {
            return planned;
        }
        let conditions = conditions.iter().map(Program::from_ir).collect();
        let node = self.node(NodeKind::Filter { input: planned.node.into(), conditions });
        Planned { node, ..planned }
    }

    fn scan(
        &mut self,
        scan: &Scan,
        conditions: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let all: Vec<Ir> = scan.conditions.iter().cloned().chain(conditions).collect();
        let table = &self.builder.tables[scan.table];
        let Choice { access, residual, ordered, single, rank } =
            access::choose(table, scan, &all, bound, wanted)?;
        let mut read = BoundSlots::default();
        residual.iter().for_each(|at| all[*at].for_each_slot(&mut |slot| read.add(slot)));
        let (early, late) =
            scan.columns.iter().copied().partition(|(_, slot)| read.contains(*slot));
        let conditions = residual.iter().map(|at| Program::from_ir(&all[*at])).collect();
        let (table, row_id) = (scan.table, scan.row_id);
        let scan = ScanNode { table, access, early, conditions, late, row_id };
        Some(Planned { node: self.node(NodeKind::Scan(scan)), ordered, single, rank })
    }

    fn project(
        &mut self,
        input: &Rel,
        defs: &[(usize, Ir)],
        conditions: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let computed = |slot: usize| defs.iter().any(|(other, _)| *other == slot);
        // DataFusion computes an expression once for several conditions; an index wants to see through
        // that.
        let conditions = conditions.into_iter().map(|ir| see_through(ir, defs));
        let (below, above): (Vec<Ir>, Vec<Ir>) =
            conditions.partition(|ir| ir.reads_only(&|slot| !computed(slot)));
        let on_computed = wanted.keys.iter().any(|key| computed(key.slot));
        let inner = match on_computed || !above.is_empty() {
            true => Wanted { keys: if on_computed { &[] } else { wanted.keys }, limited: false },
            false => wanted,
        };
        let planned = self.plan(input, below, bound, inner)?;
        let ordered = planned.ordered && !on_computed || planned.single;
        let defs = defs.iter().map(|(slot, ir)| (*slot, Program::from_ir(ir))).collect();
        let node = self.node(NodeKind::Project { input: planned.node.into(), defs });
        Some(self.filtered(Planned { node, ordered, ..planned }, above))
    }

    /// Inner joins, in a greedy order: next comes a member of one row, which is to be found in any case, or else
    /// the one with the best access path, given the slots known by then.
    fn inner(
        &mut self,
        rel: &Rel,
        mut conditions: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let mut members = vec![];
        flatten(rel, &mut members, &mut conditions);
        let implied = implied(&members, conditions.iter());
        conditions.extend(implied);
        let (start, limited) = (bound, wanted.limited);
        let mut bound = bound.clone();
        let mut so_far: Option<Planned> = None;
        while !members.is_empty() {
            let first = so_far.is_none();
            // A join may reject rows, so a LIMIT above it needs more rows than it counts.
            let wanted = Wanted { keys: if first { wanted.keys } else { &[] }, limited: false };
            let mut best: Option<(usize, Planned)> = None;
            for (at, member) in members.iter().enumerate() {
                let known = bound.with(&provided(member));
                let applicable = |ir: &&Ir| ir.reads_only(&|slot| known.contains(slot));
                let usable: Vec<Ir> = conditions.iter().filter(applicable).cloned().collect();
                let Some(planned) = self.plan(member, usable, &bound, wanted) else { continue };
                let quality = |planned: &Planned| (!planned.single, planned.rank);
                if best.as_ref().is_none_or(|(_, best)| quality(&planned) < quality(best)) {
                    best = Some((at, planned));
                }
            }
            let (at, planned) = best?;
            let member = members.remove(at);
            bound = bound.with(&provided(member));
            let (usable, left): (Vec<Ir>, Vec<Ir>) =
                conditions.into_iter().partition(|ir| ir.reads_only(&|slot| bound.contains(slot)));
            conditions = left;
            so_far = Some(match so_far {
                None => planned,
                Some(outer) => {
                    let pair = Pair {
                        kind: JoinKind::Inner,
                        conditions: &usable,
                        inner: member,
                        inner_slots: &[],
                    };
                    self.paired(&pair, outer, planned, start, limited)
                }
            });
        }
        so_far
    }

    fn joined(
        &mut self,
        kind: JoinKind,
        outer: Planned,
        inner: Planned,
        inner_slots: Vec<usize>,
    ) -> Planned {
        let single =
            outer.single && (inner.single || kind != JoinKind::Inner && kind != JoinKind::Left);
        let ordered = single || outer.ordered && !outer.single;
        let rank = outer.rank.max(inner.rank);
        let (outer, inner) = (outer.node.into(), inner.node.into());
        let node = self.node(NodeKind::Loop { kind, outer, inner, inner_slots });
        Planned { node, ordered, single, rank }
    }

    /// Left, semi, anti and mark joins: the left side drives.
    fn outer(
        &mut self,
        join: &JoinRel,
        conditions: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let left = provided(&join.left);
        let known = bound.with(&left);
        let (below, above): (Vec<Ir>, Vec<Ir>) =
            conditions.into_iter().partition(|ir| ir.reads_only(&|slot| known.contains(slot)));
        let rejects = !matches!(join.kind, JoinKind::Left | JoinKind::Mark(_)) || !above.is_empty();
        let outer_wanted = Wanted { limited: wanted.limited && !rejects, ..wanted };
        let sides = [&join.left, &join.right];
        let implied = implied(&sides, join.conditions.iter().chain(&below));
        let (of_left, of_right): (Vec<Ir>, Vec<Ir>) =
            implied.into_iter().partition(|ir| ir.reads_only(&|slot| known.contains(slot)));
        let pairs: Vec<Ir> = join.conditions.iter().cloned().chain(of_right).collect();
        let by_left = self.by_left(join, &pairs, below.clone(), bound, outer_wanted);
        let by_right = match (&by_left, join.kind) {
            // Its order, or the few rows that are wanted of it, may be worth more than can be told here.
            (Some(by_left), _) if by_left.single || wanted.limited => None,
            (Some(by_left), _) if by_left.ordered && !wanted.keys.is_empty() => None,
            (_, JoinKind::Semi) => {
                let below = below.into_iter().chain(of_left).collect();
                self.by_right(join, &pairs, below, bound, wanted)
            }
            _ => None,
        };
        let planned = match (by_left, by_right) {
            (Some(left), Some(right)) if left.rank <= right.rank => left,
            (_, Some(right)) => right,
            (left, None) => left?,
        };
        Some(self.filtered(planned, above))
    }

    /// A left, semi, anti or mark join whose left side drives.
    fn by_left(
        &mut self,
        join: &JoinRel,
        pairs: &[Ir],
        below: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let outer = self.plan(&join.left, below, bound, wanted)?;
        let none = Wanted { keys: &[], limited: false };
        let known = bound.with(&provided(&join.left));
        let inner = self.plan(&join.right, pairs.to_vec(), &known, none)?;
        let pair = Pair {
            kind: join.kind,
            conditions: pairs,
            inner: &join.right,
            inner_slots: &join.right_slots,
        };
        Some(self.paired(&pair, outer, inner, bound, wanted.limited))
    }

    /// A semi join whose right side drives: each of its keys once, and the rows of the left side that have it.
    fn by_right(
        &mut self,
        join: &JoinRel,
        pairs: &[Ir],
        below: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let Split { own, keys, rest } = Split::of(pairs, bound, &join.right);
        if keys.is_empty() || !rest.is_empty() || keys.iter().any(|key| key.nulls_equal) {
            return None;
        }
        let none = Wanted { keys: &[], limited: false };
        let right = self.plan(&join.right, own, bound, none)?;
        let outer = match right.single {
            true => right,
            false => {
                let slots = keys.iter().map(|key| key.inner).collect();
                let (input, state) = (right.node.into(), self.state());
                let node = self.node(NodeKind::Distinct { input, slots, state });
                Planned { node, ..right }
            }
        };
        let known = bound.with(&provided(&join.right));
        let conditions = below.into_iter().chain(keys.into_iter().map(|key| key.condition));
        let inner = self.plan(&join.left, conditions.collect(), &known, none)?;
        let planned = self.joined(JoinKind::Inner, outer, inner, vec![]);
        let ordered = planned.single || wanted.keys.is_empty();
        Some(Planned { ordered, ..planned })
    }

    /// A join of two sides that have been planned. Its inner side is read once and matches are found by their keys, if
    /// the outer side has several rows and none of their values would help to find the inner rows in an
    /// index; else the inner side runs for every row of the outer one.
    fn paired(
        &mut self,
        pair: &Pair<'_>,
        outer: Planned,
        inner: Planned,
        bound: &BoundSlots,
        limited: bool,
    ) -> Planned {
        let Split { own, keys, rest } = Split::of(pair.conditions, bound, pair.inner);
        let alone = match outer.single || limited || keys.is_empty() {
            true => None,
            false => self.plan(pair.inner, own, bound, Wanted { keys: &[], limited: false }),
        };
        let Some(alone) = alone.filter(|alone| reads(&alone.node) == reads(&inner.node)) else {
            return self.joined(pair.kind, outer, inner, pair.inner_slots.to_vec());
        };
        let gives_pairs = matches!(pair.kind, JoinKind::Inner | JoinKind::Left);
        let carry = match gives_pairs || !rest.is_empty() {
            true => provided(pair.inner),
            false => vec![],
        };
        let keys = keys.into_iter().map(|key| HashKey {
            outer: Program::from_ir(&key.outer),
            inner: key.inner,
            nulls_equal: key.nulls_equal,
        });
        let (ordered, rank) = (outer.ordered, outer.rank.max(alone.rank));
        let node = NodeKind::Hash(HashNode {
            kind: pair.kind,
            outer: outer.node.into(),
            inner: alone.node.into(),
            keys: keys.collect(),
            carry,
            conditions: rest.iter().map(Program::from_ir).collect(),
            state: self.state(),
        });
        Planned { node: self.node(node), ordered, single: false, rank }
    }

    #[allow(clippy::too_many_arguments)]
    fn sort(
        &mut self,
        input: &Rel,
        keys: &[SortKey],
        fetch: Option<usize>,
        carry: &[usize],
        conditions: Vec<Ir>,
        bound: &BoundSlots,
        wanted: Wanted<'_>,
    ) -> Option<Planned> {
        let planned = self.plan(input, conditions, bound, wanted)?;
        if planned.ordered {
            let Some(fetch) = fetch else { return Some(planned) };
            let fetch = Some(Program::constant(halcyon_store::Value::Int64(fetch as i64)));
            let node = self.node(NodeKind::Limit { input: planned.node.into(), skip: None, fetch });
            return Some(Planned { node, ..planned });
        }
        let place = |slot: usize| carry.iter().position(|other| *other == slot);
        let keys = keys.iter().map(|key| Some((place(key.slot)?, *key))).collect::<Option<_>>()?;
        let (carry, state) = (carry.to_vec(), self.state());
        let node =
            self.node(NodeKind::Sort { input: planned.node.into(), keys, fetch, carry, state });
        Some(Planned { node, ordered: true, ..planned })
    }

    fn aggregate(&mut self, rel: &Rel, conditions: Vec<Ir>, bound: &BoundSlots) -> Option<Planned> {
        let Rel::Aggregate { input, groups, aggregates } = rel else { unreachable!("asked so") };
        let on_groups = |slot: usize| groups.contains(&slot) || bound.contains(slot);
        let (below, above): (Vec<Ir>, Vec<Ir>) =
            conditions.into_iter().partition(|ir| !groups.is_empty() && ir.reads_only(&on_groups));
        let (planned, first_only) = match self.extreme(rel, bound) {
            Some(planned) => (planned, true),
            None => {
                let none = Wanted { keys: &[], limited: false };
                (self.plan(input, below, bound, none)?, false)
            }
        };
        let steps = aggregates.iter().map(|aggregate| AggregateStep {
            rule: Rule::new(aggregate),
            arg: aggregate.arg.as_ref().map(Program::from_ir),
            filter: aggregate.filter.as_ref().map(Program::from_ir),
            distinct: aggregate.distinct,
            slot: aggregate.slot,
        });
        let kind = NodeKind::Aggregate(AggregateNode {
            input: planned.node.into(),
            groups: groups.clone(),
            aggregates: steps.collect(),
            first_only,
            state: self.state(),
        });
        let single = groups.is_empty();
        let planned =
            Planned { node: self.node(kind), ordered: single, single, rank: planned.rank };
        Some(self.filtered(planned, above))
    }

    /// MIN or MAX alone, over an index that has its argument in order.
    fn extreme(&mut self, rel: &Rel, bound: &BoundSlots) -> Option<Planned> {
        let Rel::Aggregate { input, groups, aggregates } = rel else { return None };
        let ([], [aggregate]) = (&groups[..], &aggregates[..]) else { return None };
        let (Some(Ir::Slot(slot, ty)), None) = (&aggregate.arg, &aggregate.filter) else {
            return None;
        };
        let descending = match aggregate.function {
            Function::Min => false,
            Function::Max => true,
            _ => return None,
        };
        let not_null = Ir::IsNull { of: Ir::Slot(*slot, *ty).into(), negated: true };
        let keys = [SortKey { slot: *slot, descending, nulls_first: false }];
        let wanted = Wanted { keys: &keys, limited: true };
        let planned = self.plan(input, vec![not_null], bound, wanted)?;
        (planned.ordered && !planned.single).then_some(planned)
    }
}

/// How the tables below a node are read: index, columns of its key that are fixed, ends of a range.
fn reads(node: &Node) -> Vec<Option<(IndexId, usize, bool, bool)>> {
    let own = match &node.kind {
        NodeKind::Scan(scan) => Some(match &scan.access.path {
            Path::Full => None,
            Path::Index(path) => {
                let has = |end: fn(&Range) -> bool| path.range.as_ref().is_some_and(end);
                let ends = (has(|range| range.low.is_some()), has(|range| range.high.is_some()));
                Some((path.index, path.prefix.len(), ends.0, ends.1))
            }
        }),
        _ => None,
    };
    own.into_iter().chain(node.kind.inputs().into_iter().flat_map(reads)).collect()
}

/// Two sides of a join, of which the inner one is planned.
struct Pair<'r> {
    kind: JoinKind,
    /// What holds for pairs that match.
    conditions: &'r [Ir],
    inner: &'r Rel,
    /// The inner side's layout, if rows without a match are given.
    inner_slots: &'r [usize],
}

/// The conditions of a join, by what can be done with them when the inner side is read by itself.
struct Split {
    /// Conditions about the inner side alone.
    own: Vec<Ir>,
    /// Equalities of a value of the outer side and a slot of the inner one.
    keys: Vec<Key>,
    rest: Vec<Ir>,
}

struct Key {
    condition: Ir,
    outer: Ir,
    inner: usize,
    nulls_equal: bool,
}

impl Split {
    /// Splits conditions; `bound` are the slots known before either side is read.
    fn of(conditions: &[Ir], bound: &BoundSlots, inner: &Rel) -> Split {
        let inner = provided(inner);
        let mut split = Split { own: vec![], keys: vec![], rest: vec![] };
        for condition in conditions {
            let is_own = |slot| bound.contains(slot) || inner.contains(&slot);
            match Key::of(condition, &inner) {
                _ if condition.reads_only(&is_own) => split.own.push(condition.clone()),
                Some(key) => split.keys.push(key),
                None => split.rest.push(condition.clone()),
            }
        }
        split
    }
}

impl Key {
    fn of(condition: &Ir, inner: &[usize]) -> Option<Key> {
        let (left, right, nulls_equal) = match condition {
            Ir::Compare { op: Compare::Eq, left, right } => (&**left, &**right, false),
            Ir::Distinct { left, right, negated: true } => (&**left, &**right, true),
            _ => return None,
        };
        let key = |outer: &Ir, of: &Ir| match of {
            Ir::Slot(slot, ty)
                if inner.contains(slot)
                    && outer.reads_only(&|slot| !inner.contains(&slot))
                    && outer.ty().is_some_and(|outer| hash_alike(outer, *ty)) =>
            {
                let (condition, outer) = (condition.clone(), outer.clone());
                Some(Key { condition, outer, inner: *slot, nulls_equal })
            }
            _ => None,
        };
        key(left, right).or_else(|| key(right, left))
    }
}

/// Whether equal values of both types have one hash.
fn hash_alike(a: Type, b: Type) -> bool {
    let whole = |ty| matches!(ty, Type::Int16 | Type::Int32 | Type::Int64);
    a == b || whole(a) && whole(b)
}

/// A condition in which slots that are computed without DataFusion are replaced by what computes them.
fn see_through(condition: Ir, defs: &[(usize, Ir)]) -> Ir {
    let replaced = |ir: Box<Ir>| -> Box<Ir> {
        let Ir::Slot(slot, _) = *ir else { return ir };
        let def = defs.iter().find(|(other, def)| *other == slot && is_cheap(def));
        def.map_or(ir, |(_, def)| def.clone().into())
    };
    match condition {
        Ir::Compare { op, left, right } => {
            Ir::Compare { op, left: replaced(left), right: replaced(right) }
        }
        Ir::InList { of, list, negated } => Ir::InList { of: replaced(of), list, negated },
        Ir::Member { of, array, item } => Ir::Member { of: replaced(of), array, item },
        other => other,
    }
}

/// Whether an expression may as well be computed again for a condition: an index may have it.
fn is_cheap(def: &Ir) -> bool {
    match def {
        Ir::Cast { of, .. } => matches!(**of, Ir::Slot(..)),
        Ir::Call { .. } | Ir::TableCall { .. } | Ir::Arith { .. } | Ir::Neg(..) => true,
        _ => false,
    }
}

/// Takes inner joins apart.
fn flatten<'r>(rel: &'r Rel, members: &mut Vec<&'r Rel>, conditions: &mut Vec<Ir>) {
    match rel {
        Rel::Join(join) if join.kind == JoinKind::Inner => {
            conditions.extend(join.conditions.iter().cloned());
            flatten(&join.left, members, conditions);
            flatten(&join.right, members, conditions);
        }
        Rel::Filter { input, conditions: own } if is_inner(input) => {
            conditions.extend(own.iter().cloned());
            flatten(input, members, conditions);
        }
        other => members.push(other),
    }
}

/// `b = 1` where `a = b` and `a = 1` hold: it finds rows of b's table, and fixes its partition beforehand.
fn implied<'i>(members: &[&'i Rel], conditions: impl Iterator<Item = &'i Ir> + Clone) -> Vec<Ir> {
    let mut known: Vec<(usize, Type, Ir)> = vec![];
    let own = members.iter().filter_map(|member| match member {
        Rel::Scan(scan) => Some(&scan.conditions),
        _ => None,
    });
    for condition in conditions.clone().chain(own.flatten()) {
        let Ir::Compare { op: Compare::Eq, left, right } = condition else { continue };
        match (&**left, &**right) {
            (Ir::Slot(slot, ty), value) | (value, Ir::Slot(slot, ty)) if is_constant(value) => {
                known.push((*slot, *ty, value.clone()));
            }
            _ => {}
        }
    }
    let mut implied = vec![];
    for condition in conditions {
        let Ir::Compare { op: Compare::Eq, left, right } = condition else { continue };
        let (Ir::Slot(a, a_ty), Ir::Slot(b, b_ty)) = (&**left, &**right) else { continue };
        let value = |slot: usize| known.iter().find(|(known, ..)| *known == slot);
        let (slot, ty, (_, compared_as, value)) = match (value(*a), value(*b)) {
            (Some(known), None) => (*b, *b_ty, known),
            (None, Some(known)) => (*a, *a_ty, known),
            _ => continue,
        };
        // The same comparison, whatever type the value is given in.
        if *compared_as == ty {
            let (left, right) = (Ir::Slot(slot, ty).into(), value.clone().into());
            implied.push(Ir::Compare { op: Compare::Eq, left, right });
        }
    }
    implied
}

/// Whether an expression is a parameter or a constant, perhaps converted.
fn is_constant(ir: &Ir) -> bool {
    match ir {
        Ir::Param(..) | Ir::Const(..) => true,
        Ir::Cast { of, .. } => is_constant(of),
        _ => false,
    }
}

fn is_inner(rel: &Rel) -> bool {
    match rel {
        Rel::Join(join) => join.kind == JoinKind::Inner,
        Rel::Filter { input, .. } => is_inner(input),
        _ => false,
    }
}

/// Every slot that gets its value within a relation.
fn provided(rel: &Rel) -> Vec<usize> {
    let mut slots = vec![];
    collect(rel, &mut slots);
    slots
}

fn collect(rel: &Rel, slots: &mut Vec<usize>) {
    match rel {
        Rel::Rows { slots: own, .. } => slots.extend(own),
        Rel::Scan(scan) => {
            slots.extend(scan.columns.iter().map(|(_, slot)| *slot));
            slots.extend(scan.row_id);
        }
        Rel::Filter { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Limit { input, .. }
        | Rel::Distinct { input, .. } => collect(input, slots),
        Rel::Project { input, defs } => {
            slots.extend(defs.iter().map(|(slot, _)| *slot));
            collect(input, slots);
        }
        Rel::Join(join) => {
            collect(&join.left, slots);
            collect(&join.right, slots);
            if let JoinKind::Mark(slot) = join.kind {
                slots.push(slot);
            }
        }
        Rel::Aggregate { input, aggregates, .. } => {
            slots.extend(aggregates.iter().map(|aggregate| aggregate.slot));
            collect(input, slots);
        }
        Rel::Union { inputs, slots: own } => {
            slots.extend(own);
            inputs.iter().for_each(|(input, _)| collect(input, slots));
        }
    }
}
