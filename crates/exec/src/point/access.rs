//! Access paths: which index, which part of it, which partition.

use std::sync::Arc;

use halcyon_base::IndexId;
use halcyon_store::{Direction, Type, Value, ValueRef};

use super::rel::{Scan, SortKey};
use halcyon_value::array;
use halcyon_value::calendar::{day_of, time_of};
use halcyon_value::decimal::power_of_ten;

use halcyon_catalog::{Index, IndexColumn, Table};
use halcyon_derived::{DerivedIndex, key_type, of_index, prove};
use halcyon_plan::env::Env;
use halcyon_plan::scalar::{Arena, Compare, Ir, Program};
use halcyon_sql::error::Result;
use halcyon_sql::rows::fixed;

/// Slots whose values are known when a row is read.
#[derive(Clone, Default)]
pub(super) struct BoundSlots(Vec<bool>);

impl BoundSlots {
    pub(super) fn contains(&self, slot: usize) -> bool {
        self.0.get(slot).copied().unwrap_or(false)
    }

    pub(super) fn add(&mut self, slot: usize) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, false);
        }
        self.0[slot] = true;
    }

    pub(super) fn with(&self, slots: &[usize]) -> BoundSlots {
        let mut bound = self.clone();
        slots.iter().for_each(|slot| bound.add(*slot));
        bound
    }
}

/// How a table is read.
pub(super) struct Access {
    pub(super) path: Path,
    /// Fixes the partition.
    pub(super) pin: Option<Probe>,
    /// The order in which rows of several partitions are merged, if order matters: column,
    /// descending, NULLs first.
    pub(super) merge: Vec<(u16, bool, bool)>,
}

pub(super) enum Path {
    /// Every row.
    Full,
    Index(IndexPath),
}

/// A part of an index.
pub(super) struct IndexPath {
    pub(super) index: IndexId,
    pub(super) name: String,
    /// Values of the first key columns.
    pub(super) prefix: Vec<Part>,
    /// The prefix is the whole key of a unique index.
    pub(super) unique: bool,
    pub(super) range: Option<Range>,
    pub(super) direction: Direction,
}

impl IndexPath {
    /// Whether the index is read from its end.
    pub(super) fn is_backward(&self) -> bool {
        self.direction == Direction::Backward
    }
}

/// What a key column must equal.
pub(super) enum Part {
    One(Probe),
    /// One of these.
    Many(Vec<Probe>),
    /// One of an array's elements.
    Any(Probe),
}

/// A range of the column after the prefix.
pub(super) struct Range {
    pub(super) low: Option<End>,
    pub(super) high: Option<End>,
    pub(super) column: IndexColumn,
    /// Whether the index has NULLs in the range, which are to be left out.
    pub(super) skip_nulls: bool,
}

/// An end of a range.
pub(super) struct End {
    pub(super) probe: Probe,
    pub(super) inclusive: bool,
}

/// A value that a key column is compared with.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) program: Arc<Program>,
    from: Type,
    to: Type,
    /// Reads no slot: its value is known before the plan runs.
    pub(super) known: bool,
}

/// The position of a probe's value among the values of the key column.
pub(super) enum Fit<'a> {
    /// NULL: equal to nothing.
    Null,
    /// Below all values.
    Below,
    /// Above all values.
    Above,
    /// The greatest value not above it, and whether it is that value.
    At(ValueRef<'a>, bool),
}

impl Probe {
    fn new(ir: &Ir, compared_as: Type, to: Type) -> Probe {
        let known = ir.reads_only(&|_| false);
        let from = ir.ty().unwrap_or(compared_as);
        Probe { program: Arc::new(Program::from_ir(ir)), from, to, known }
    }

    /// A probe for each element of an array of `item`s.
    fn of_array(ir: &Ir, item: Type, to: Type) -> Probe {
        Probe { from: item, ..Probe::new(ir, item, to) }
    }

    /// Where the value stands among those of the column.
    #[inline]
    pub(super) fn fit<'a>(
        &'a self,
        slots: &[ValueRef<'a>],
        env: &'a Env<'a>,
        arena: &'a Arena,
    ) -> Result<Fit<'a>> {
        let value = self.program.eval(slots, env, arena)?;
        Ok(fit(value, self.from, self.to))
    }

    /// The constant compared with a key of whole numbers, without its fraction.
    fn whole_constant(&self) -> Option<i128> {
        matches!(self.to, Type::Int16 | Type::Int32 | Type::Int64).then_some(())?;
        match (self.program.as_constant()?, self.from) {
            (Value::Int16(value), _) => Some(*value as i128),
            (Value::Int32(value), _) => Some(*value as i128),
            (Value::Int64(value), _) => Some(*value as i128),
            (Value::Decimal(value), Type::Decimal { scale: scale @ 0.., .. }) => {
                Some(value / power_of_ten(scale as u32)?)
            }
            _ => None,
        }
    }

    /// The parameter that the probe is, if the column has its type.
    pub(super) fn as_param(&self) -> Option<usize> {
        self.program.as_param().filter(|_| self.from == self.to)
    }

    /// The value as one of the column, if there is one that equals it.
    #[inline]
    pub(super) fn exact<'a>(
        &'a self,
        slots: &[ValueRef<'a>],
        env: &'a Env<'a>,
        arena: &'a Arena,
    ) -> Result<Option<ValueRef<'a>>> {
        Ok(self.equal(self.program.eval(slots, env, arena)?))
    }

    /// Gives `each` those of the array's elements that equal a value of the column, as such.
    pub(super) fn elements<'a>(
        &'a self,
        slots: &[ValueRef<'a>],
        env: &'a Env<'a>,
        arena: &'a Arena,
        mut each: impl FnMut(ValueRef<'a>) -> Result<()>,
    ) -> Result<()> {
        let ValueRef::Bytes(array) = self.program.eval(slots, env, arena)? else { return Ok(()) };
        array::each(array, self.from, |element| {
            let kept = match element {
                ValueRef::Text(text) => ValueRef::Text(arena.alloc_str(text)),
                ValueRef::Bytes(bytes) => ValueRef::Bytes(arena.alloc_slice_copy(bytes)),
                other => fixed(other).expect("neither text nor bytes"),
            };
            self.equal(kept).map_or(Ok(()), &mut each)
        })
    }

    /// The value of the column that equals a value of the probe's type.
    #[inline]
    fn equal<'a>(&self, value: ValueRef<'a>) -> Option<ValueRef<'a>> {
        if self.from == self.to {
            return Some(value).filter(|value| !value.is_null());
        }
        match fit(value, self.from, self.to) {
            Fit::At(value, true) => Some(value),
            _ => None,
        }
    }
}

/// Places a value of type `from` among those of type `to`.
fn fit(value: ValueRef<'_>, from: Type, to: Type) -> Fit<'_> {
    if value.is_null() {
        return Fit::Null;
    }
    let scaled = |value: i128, from: i8, to: i8| -> (Option<i128>, bool) {
        match power_of_ten(from.abs_diff(to) as u32) {
            Some(factor) if to >= from => (value.checked_mul(factor), true),
            Some(factor) => (Some(value.div_euclid(factor)), value.rem_euclid(factor) == 0),
            None if to >= from => (None, true),
            None => (Some(if value < 0 { -1 } else { 0 }), value == 0),
        }
    };
    match (value, to) {
        (ValueRef::Decimal(value), Type::Decimal { scale, .. }) => {
            let Type::Decimal { scale: from, .. } = from else { unreachable!("a decimal") };
            match scaled(value, from, scale) {
                (Some(floor), exact) => Fit::At(ValueRef::Decimal(floor), exact),
                (None, _) if value < 0 => Fit::Below,
                (None, _) => Fit::Above,
            }
        }
        (ValueRef::Decimal(value), to) => {
            let Type::Decimal { scale: from, .. } = from else { unreachable!("a decimal") };
            match scaled(value, from, 0) {
                (Some(floor), exact) => integer(floor, to, exact),
                (None, _) if value < 0 => Fit::Below,
                (None, _) => Fit::Above,
            }
        }
        (ValueRef::Int16(value), to) => integer(value as i128, to, true),
        (ValueRef::Int32(value), to) => integer(value as i128, to, true),
        (ValueRef::Int64(value), to) => integer(value as i128, to, true),
        (ValueRef::Timestamp(value), Type::Date) => {
            let day = day_of(value) as i32;
            Fit::At(ValueRef::Date(day), time_of(value) == 0)
        }
        (ValueRef::Float32(value), Type::Float64) => Fit::At(ValueRef::Float64(value as f64), true),
        (ValueRef::Float64(value), Type::Float32) => {
            let near = value as f32;
            match near as f64 == value || value.is_nan() {
                true => Fit::At(ValueRef::Float32(near), true),
                false if near as f64 > value => Fit::At(ValueRef::Float32(near.next_down()), false),
                false => Fit::At(ValueRef::Float32(near), false),
            }
        }
        (value, _) => Fit::At(value, true),
    }
}

fn integer(value: i128, to: Type, exact: bool) -> Fit<'static> {
    let (min, max) = match to {
        Type::Int16 => (i16::MIN as i128, i16::MAX as i128),
        Type::Int32 => (i32::MIN as i128, i32::MAX as i128),
        _ => (i64::MIN as i128, i64::MAX as i128),
    };
    match to {
        _ if value < min => Fit::Below,
        _ if value > max => Fit::Above,
        Type::Int16 => Fit::At(ValueRef::Int16(value as i16), exact),
        Type::Int32 => Fit::At(ValueRef::Int32(value as i32), exact),
        _ => Fit::At(ValueRef::Int64(value as i64), exact),
    }
}

/// A condition that an index can help with: a value of a key against values known before the row is
/// read.
struct Sarg<'c> {
    /// The column, or the expression: see [`Keys`].
    column: u16,
    test: Test<'c>,
    /// Position among the conditions.
    condition: usize,
    /// Whether the test says all that the condition says.
    covers: bool,
}

enum Test<'c> {
    Compare(Compare, &'c Ir, Type),
    In(Vec<&'c Ir>, Type),
    /// Equal to an element of an array of such items.
    Among(&'c Ir, Type),
    NotNull,
}

/// A chosen access path, and how good it is.
pub(super) struct Choice {
    pub(super) access: Access,
    /// Which conditions the access leaves to be checked.
    pub(super) residual: Vec<usize>,
    pub(super) ordered: bool,
    /// At most one row.
    pub(super) single: bool,
    /// Lower is better.
    pub(super) rank: u32,
}

/// An order of rows that would save a sort, and whether only the first few rows are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'o> {
    pub(super) keys: &'o [SortKey],
    pub(super) limited: bool,
}

pub(super) const RANK_UNIQUE: u32 = 0;
const RANK_PREFIX: u32 = 10;
const RANK_RANGE: u32 = 30;
const RANK_ORDER: u32 = 50;
const RANK_FULL: u32 = 100;

/// The widest range of integer constants that counts as small.
const SMALL_RANGE: i128 = 4_096;

/// What keys of a table's indexes have in them: its columns, by their positions, and behind them the
/// expressions of its derived indexes, each by a number of its own.
struct Keys<'t> {
    table: &'t Table,
    /// Derived indexes, with the number of the first expression of each.
    derived: Vec<(IndexId, u16, &'t [u16], Arc<DerivedIndex>)>,
}

impl<'t> Keys<'t> {
    fn of(table: &'t Table) -> Keys<'t> {
        let mut next = table.columns.len() as u16;
        let mut derived = vec![];
        for index in table.indexes.iter().filter(|index| index.derived.is_some()) {
            let (derivation, function) = of_index(index);
            let first = next;
            next += function.keys().len() as u16;
            derived.push((index.id, first, &derivation.inputs[..], function));
        }
        Keys { table, derived }
    }

    /// The columns of an index's key.
    fn of_index(&self, index: &Index) -> Vec<IndexColumn> {
        let Some(derived) = &index.derived else { return index.columns.clone() };
        let (_, first, inputs, function) = self.derived(index.id).expect("it was put in");
        let columns = function.keys().iter().zip(&derived.keys).zip(*first..);
        let column = |((ir, key), number): ((&Ir, &halcyon_catalog::DerivedKey), u16)| {
            let column = match ir {
                Ir::Slot(input, _) => inputs[*input],
                _ => number,
            };
            IndexColumn { column, descending: key.descending, nulls_first: key.nulls_first }
        };
        columns.map(column).collect()
    }

    fn derived(&self, index: IndexId) -> Option<&(IndexId, u16, &'t [u16], Arc<DerivedIndex>)> {
        self.derived.iter().find(|(id, ..)| *id == index)
    }

    /// The type of a value of a key, and whether it is never NULL.
    fn value(&self, column: u16) -> (Type, bool) {
        if let Some(column) = self.table.columns.get(column as usize) {
            return (column.ty.storage(), column.not_null);
        }
        let (_, first, _, function) = self
            .derived
            .iter()
            .rfind(|(_, first, ..)| *first <= column)
            .expect("an expression of an index");
        (key_type(&function.keys()[(column - first) as usize]), false)
    }

    fn is_expression(&self, column: u16) -> bool {
        column as usize >= self.table.columns.len()
    }

    /// The expressions of indexes that an expression of the statement is.
    fn expressions(&self, scan: &Scan, ir: &Ir) -> Vec<u16> {
        let mut found = vec![];
        for (_, first, inputs, function) in &self.derived {
            for (number, key) in (*first..).zip(function.keys()) {
                let same = || ir.is_same(key, &|slot| input(scan, inputs, slot));
                if !matches!(key, Ir::Slot(..)) && same() {
                    found.push(number);
                }
            }
        }
        found
    }

    /// The positions of conditions that need no look because all rows of the index satisfy them; `None`
    /// if the index may lack rows that satisfy the conditions.
    fn covers(&self, index: &Index, scan: &Scan, conditions: &[Ir]) -> Option<Vec<usize>> {
        let Some((_, _, inputs, function)) = self.derived(index.id) else { return Some(vec![]) };
        let slots = |slot| input(scan, inputs, slot);
        prove(conditions, function.predicate(), &slots).map(|proof| proof.repeated)
    }
}

/// The place among an index's inputs of the column that a slot of the plan holds.
fn input(scan: &Scan, inputs: &[u16], slot: usize) -> Option<usize> {
    let (column, _) = scan.columns.iter().find(|(_, other)| *other == slot)?;
    inputs.iter().position(|input| input == column)
}

/// Chooses how to read a table; None if all of it would have to be read and the caller does not
/// allow that.
pub(super) fn choose(
    table: &Table,
    scan: &Scan,
    conditions: &[Ir],
    bound: &BoundSlots,
    wanted: Wanted<'_>,
) -> Option<Choice> {
    let keys = Keys::of(table);
    let sargs = sargs(&keys, scan, conditions, bound);
    let by_index = table
        .indexes
        .iter()
        .filter_map(|index| by_index(&keys, index, scan, conditions, &sargs, wanted));
    let full = full(table, scan, conditions, wanted);
    let mut best = by_index.chain(full).min_by_key(|choice| {
        let unordered = !wanted.keys.is_empty() && !choice.ordered;
        (choice.rank * 2 + unordered as u32, choice.residual.len())
    })?;
    best.access.pin = pin(table, &sargs);
    if let (Path::Index(path), None) = (&best.access.path, &best.access.pin)
        && table.cells.len() > 1
        && best.ordered
        && !best.single
    {
        let index = table.indexes.iter().find(|index| index.id == path.index)?;
        let backward = path.direction == Direction::Backward;
        let columns = keys.of_index(index);
        if !columns.iter().any(|key| keys.is_expression(key.column)) {
            best.access.merge = columns
                .iter()
                .map(|key| (key.column, key.descending != backward, key.nulls_first != backward))
                .collect();
        }
    }
    Some(best)
}

/// The whole table: for targets of writes, and where a LIMIT takes the first rows of any order.
fn full(table: &Table, scan: &Scan, conditions: &[Ir], wanted: Wanted<'_>) -> Option<Choice> {
    let any_rows = wanted.limited && wanted.keys.is_empty() && conditions.is_empty();
    if !scan.is_target && !any_rows {
        return None;
    }
    let _ = table;
    Some(Choice {
        access: Access { path: Path::Full, pin: None, merge: vec![] },
        residual: (0..conditions.len()).collect(),
        ordered: wanted.keys.is_empty(),
        single: false,
        rank: RANK_FULL,
    })
}

fn by_index(
    keys: &Keys<'_>,
    index: &Index,
    scan: &Scan,
    conditions: &[Ir],
    sargs: &[Sarg<'_>],
    wanted: Wanted<'_>,
) -> Option<Choice> {
    let mut used = keys.covers(index, scan, conditions)?;
    let columns = keys.of_index(index);
    let (prefix, has_list) = prefix(keys, &columns, sargs, &mut used);
    let whole = prefix.len() == columns.len();
    let single = whole && index.unique && !has_list;
    let range = match columns.get(prefix.len()) {
        Some(column) => range(keys, column, sargs, &mut used),
        None => None,
    };
    let merges = keys.table.cells.len() > 1;
    let cannot_merge = || columns.iter().any(|key| keys.is_expression(key.column));
    let (unique, range_found, wanted_keys) = (index.unique, range.as_ref(), wanted.keys);
    let direction =
        match order(keys, (&columns, unique), scan, prefix.len(), range_found, wanted_keys) {
            _ if wanted.keys.is_empty() => Some(Direction::Forward),
            _ if !single && merges && cannot_merge() => None,
            _ if single => Some(Direction::Forward),
            _ if has_list => None,
            found => found,
        };
    let residual: Vec<usize> =
        (0..conditions.len()).filter(|condition| !used.contains(condition)).collect();
    let ends = range
        .as_ref()
        .map_or(0, |range| range.low.is_some() as usize + range.high.is_some() as usize);
    let cut_off = wanted.limited && direction.is_some() && residual.is_empty();
    let target = scan.is_target;
    let is_partial = index.derived.as_ref().is_some_and(|derived| derived.predicate.is_some());
    let rank = match (prefix.len(), ends) {
        (0, 2) if target || cut_off || is_small(range.as_ref()?) => RANK_RANGE,
        (0, 1) if target || cut_off => RANK_RANGE + 5,
        (0, 0) if cut_off && !wanted.keys.is_empty() => RANK_ORDER,
        // The rows of a partial index are fewer than the table's.
        (0, 0) if is_partial && (target || cut_off) => RANK_ORDER,
        (0, _) => return None,
        _ if single => RANK_UNIQUE,
        (columns, ends) => RANK_PREFIX + 16 - 2 * columns.min(7) as u32 - ends.min(1) as u32,
    };
    let path = IndexPath {
        index: index.id,
        name: index.name.clone(),
        prefix,
        unique: whole && index.unique,
        range,
        direction: direction.unwrap_or(Direction::Forward),
    };
    Some(Choice {
        access: Access { path: Path::Index(path), pin: None, merge: vec![] },
        residual,
        ordered: direction.is_some(),
        single,
        rank,
    })
}

/// The values that the first key columns must equal, and whether there is a list among them.
fn prefix(
    keys: &Keys<'_>,
    columns: &[IndexColumn],
    sargs: &[Sarg<'_>],
    used: &mut Vec<usize>,
) -> (Vec<Part>, bool) {
    let (mut parts, mut has_list) = (vec![], false);
    for key in columns {
        let (to, _) = keys.value(key.column);
        let of_column = || sargs.iter().filter(|sarg| sarg.column == key.column);
        let equal = of_column().find_map(|sarg| match sarg.test {
            Test::Compare(Compare::Eq, ir, ty) => {
                Some((Some(sarg.condition), Part::One(Probe::new(ir, ty, to))))
            }
            _ => None,
        });
        let found = equal.or_else(|| {
            of_column().filter(|_| !has_list).find_map(|sarg| match &sarg.test {
                Test::In(list, ty) => {
                    let probes = list.iter().map(|ir| Probe::new(ir, *ty, to)).collect();
                    Some((sarg.covers.then_some(sarg.condition), Part::Many(probes)))
                }
                Test::Among(array, item) => {
                    Some((Some(sarg.condition), Part::Any(Probe::of_array(array, *item, to))))
                }
                _ => None,
            })
        });
        let Some((condition, part)) = found else { break };
        has_list |= !matches!(part, Part::One(_));
        used.extend(condition);
        parts.push(part);
    }
    (parts, has_list)
}

/// The range that conditions leave of a key column; None if they say nothing of it.
fn range(
    keys: &Keys<'_>,
    key: &IndexColumn,
    sargs: &[Sarg<'_>],
    used: &mut Vec<usize>,
) -> Option<Range> {
    let (to, never_null) = keys.value(key.column);
    let (mut low, mut high, mut not_null) = (None, None, false);
    for sarg in sargs.iter().filter(|sarg| sarg.column == key.column) {
        let taken = match sarg.test {
            Test::NotNull => {
                not_null = true;
                true
            }
            Test::Compare(op, ir, ty) => {
                let end = match op {
                    Compare::Gt | Compare::GtEq => &mut low,
                    Compare::Lt | Compare::LtEq => &mut high,
                    _ => continue,
                };
                let free = end.is_none();
                if free {
                    let inclusive = matches!(op, Compare::GtEq | Compare::LtEq);
                    *end = Some(End { probe: Probe::new(ir, ty, to), inclusive });
                }
                free
            }
            Test::In(..) | Test::Among(..) => false,
        };
        if taken {
            used.push(sarg.condition);
        }
    }
    let tested = low.is_some() || high.is_some() || not_null;
    tested.then(|| Range { low, high, column: *key, skip_nulls: !never_null })
}

/// Whether a range with two ends reads few keys, as far as can be known.
fn is_small(range: &Range) -> bool {
    let (Some(low), Some(high)) = (&range.low, &range.high) else { return false };
    match (low.probe.program.as_constant(), high.probe.program.as_constant()) {
        (None, None) => true,
        _ => match (low.probe.whole_constant(), high.probe.whole_constant()) {
            (Some(low), Some(high)) => high.saturating_sub(low) <= SMALL_RANGE,
            _ => false,
        },
    }
}

/// The direction in which the index gives the wanted order, if one does.
fn order(
    own: &Keys<'_>,
    (columns, unique): (&[IndexColumn], bool),
    scan: &Scan,
    prefix: usize,
    range: Option<&Range>,
    keys: &[SortKey],
) -> Option<Direction> {
    let fixed = |column: u16| columns[..prefix].iter().any(|key| key.column == column);
    let mut rest = columns[prefix..].iter();
    let mut direction = None;
    for wanted in keys {
        let (column, _) = scan.columns.iter().find(|(_, slot)| *slot == wanted.slot)?;
        if fixed(*column) {
            continue;
        }
        let key = rest.next()?;
        if key.column != *column {
            return None;
        }
        let backward = key.descending != wanted.descending;
        let no_nulls =
            own.value(*column).1 || range.is_some_and(|range| range.column.column == *column);
        if !no_nulls && (key.nulls_first != backward) != wanted.nulls_first {
            return None;
        }
        let found = if backward { Direction::Backward } else { Direction::Forward };
        if direction.is_some_and(|direction| direction != found) {
            return None;
        }
        direction = Some(found);
        let last_of_unique = unique && prefix == 0 && rest.as_slice().is_empty();
        if last_of_unique {
            break;
        }
    }
    Some(direction.unwrap_or(Direction::Forward))
}

/// What fixes the partition column by equality.
fn pin(table: &Table, sargs: &[Sarg<'_>]) -> Option<Probe> {
    let column = table.partition_column().filter(|_| table.cells.len() > 1)?;
    let to = table.columns[column as usize].ty.storage();
    let equal = |sarg: &&Sarg<'_>| {
        sarg.column == column && matches!(sarg.test, Test::Compare(Compare::Eq, ..))
    };
    // A value that is known before the plan runs saves locks, too.
    let candidates = sargs.iter().filter(equal);
    let probes = candidates.filter_map(|sarg| match sarg.test {
        Test::Compare(_, ir, ty) => Some(Probe::new(ir, ty, to)),
        _ => None,
    });
    probes.min_by_key(|probe| !probe.known)
}

fn sargs<'c>(
    keys: &Keys<'_>,
    scan: &Scan,
    conditions: &'c [Ir],
    bound: &BoundSlots,
) -> Vec<Sarg<'c>> {
    let mut found = vec![];
    for (condition, ir) in conditions.iter().enumerate() {
        if !keys.derived.is_empty() {
            expression_sargs(keys, scan, (condition, ir), bound, &mut found);
        }
        let mut push = |column, test| found.push(Sarg { column, test, condition, covers: true });
        match ir {
            Ir::Compare { op, left, right } => {
                let known = |ir: &Ir| ir.reads_only(&|slot| bound.contains(slot));
                if let Some((column, ty)) = key_column(scan, left)
                    && known(right)
                {
                    push(column, Test::Compare(*op, right, ty));
                } else if let Some((column, ty)) = key_column(scan, right)
                    && known(left)
                {
                    push(column, Test::Compare(op.flipped(), left, ty));
                }
            }
            Ir::InList { of, list, negated: false } => {
                let known = list.iter().all(|ir| ir.reads_only(&|slot| bound.contains(slot)));
                if let (Some((column, ty)), true) = (key_column(scan, of), known) {
                    push(column, Test::In(list.iter().collect(), ty));
                }
            }
            Ir::Or(parts) => {
                let covers = !parts.iter().any(|part| matches!(part, Ir::And(_)));
                for (column, ty, list) in alternatives(scan, parts, bound) {
                    let test = Test::In(list, ty);
                    found.push(Sarg { column, test, condition, covers });
                }
            }
            Ir::Member { of, array, item } => {
                let known = array.reads_only(&|slot| bound.contains(slot));
                if let (Some((column, _)), true) = (key_column(scan, of), known) {
                    push(column, Test::Among(array, *item));
                }
            }
            Ir::IsNull { of, negated: true } => {
                if let Some((column, _)) = key_column(scan, of) {
                    push(column, Test::NotNull);
                }
            }
            _ => {}
        }
    }
    found
}

/// As [`sargs`] of one condition, for expressions of derived indexes in the place of columns.
fn expression_sargs<'c>(
    keys: &Keys<'_>,
    scan: &Scan,
    (condition, ir): (usize, &'c Ir),
    bound: &BoundSlots,
    found: &mut Vec<Sarg<'c>>,
) {
    let known = |ir: &Ir| ir.reads_only(&|slot| bound.contains(slot));
    let mut push = |column, test| found.push(Sarg { column, test, condition, covers: true });
    let key = |ir: &Ir| ir.ty().map(|ty| (keys.expressions(scan, ir), ty));
    match ir {
        Ir::Compare { op, left, right } => {
            for (op, of, value) in [(*op, left, right), (op.flipped(), right, left)] {
                if let (Some((numbers, ty)), true) = (key(of), known(value)) {
                    numbers
                        .into_iter()
                        .for_each(|number| push(number, Test::Compare(op, value, ty)));
                }
            }
        }
        Ir::InList { of, list, negated: false } => {
            if let (Some((numbers, ty)), true) = (key(of), list.iter().all(known)) {
                numbers
                    .into_iter()
                    .for_each(|number| push(number, Test::In(list.iter().collect(), ty)));
            }
        }
        Ir::Or(parts) => {
            let equal = |part: &'c Ir| match part {
                Ir::Compare { op: Compare::Eq, left, right } if known(right) => {
                    Some((&**left, &**right))
                }
                Ir::Compare { op: Compare::Eq, left, right } if known(left) => {
                    Some((&**right, &**left))
                }
                _ => None,
            };
            let Some(equal) = parts.iter().map(equal).collect::<Option<Vec<_>>>() else { return };
            let [(first, _), rest @ ..] = &equal[..] else { return };
            if rest.iter().all(|(of, _)| of.is_same(first, &Some))
                && let Some((numbers, ty)) = key(first)
            {
                let list: Vec<&Ir> = equal.iter().map(|(_, value)| *value).collect();
                numbers.into_iter().for_each(|number| push(number, Test::In(list.clone(), ty)));
            }
        }
        Ir::Member { of, array, item } if known(array) => {
            let numbers = key(of).map_or(vec![], |(numbers, _)| numbers);
            numbers.into_iter().for_each(|number| push(number, Test::Among(array, *item)));
        }
        Ir::IsNull { of, negated: true } => {
            if let Some((numbers, _)) = key(of) {
                numbers.into_iter().for_each(|number| push(number, Test::NotNull));
            }
        }
        _ => {}
    }
}

/// `a = 1 OR a = 2 AND b = 3 OR a IN (4, 5)`: the columns that equal one of some values in each part, with their values.
fn alternatives<'c>(
    scan: &Scan,
    parts: &'c [Ir],
    bound: &BoundSlots,
) -> Vec<(u16, Type, Vec<&'c Ir>)> {
    let known = |ir: &Ir| ir.reads_only(&|slot| bound.contains(slot));
    let equal = |ir: &'c Ir| -> Option<((u16, Type), &'c [Ir])> {
        let (of, list) = match ir {
            Ir::Compare { op: Compare::Eq, left, right } if key_column(scan, left).is_some() => {
                (left, std::slice::from_ref(&**right))
            }
            Ir::Compare { op: Compare::Eq, left, right } => (right, std::slice::from_ref(&**left)),
            Ir::InList { of, list, negated: false } => (of, &list[..]),
            _ => return None,
        };
        Some((key_column(scan, of)?, list)).filter(|(_, list)| list.iter().all(known))
    };
    let conjuncts = |part: &'c Ir| match part {
        Ir::And(conjuncts) => &conjuncts[..],
        part => std::slice::from_ref(part),
    };
    let Some(first) = parts.first() else { return vec![] };
    let columns = conjuncts(first).iter().filter_map(equal).map(|(key, _)| key);
    let values = |key: (u16, Type)| {
        let mut values = vec![];
        for part in parts {
            let mut lists = conjuncts(part).iter().filter_map(equal);
            values.extend(lists.find(|(other, _)| *other == key)?.1);
        }
        Some((key.0, key.1, values))
    };
    columns.filter_map(values).collect()
}

/// The column that an expression is, perhaps widened without loss, and the type it is compared in.
fn key_column(scan: &Scan, ir: &Ir) -> Option<(u16, Type)> {
    let column = |slot: usize| {
        let found = scan.columns.iter().find(|(_, other)| *other == slot);
        found.map(|(column, _)| *column)
    };
    match ir {
        Ir::Slot(slot, ty) => Some((column(*slot)?, *ty)),
        Ir::Cast { of, ty } => match **of {
            Ir::Slot(slot, from) if widens(from, *ty) => Some((column(slot)?, *ty)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a cast keeps every value and the order of values, and cannot fail.
fn widens(from: Type, to: Type) -> bool {
    use Type::{Date, Decimal, Float32, Float64, Int16, Int32, Int64, Timestamp};
    let digits = |ty| match ty {
        Int16 => 5,
        Int32 => 10,
        _ => 19,
    };
    match (from, to) {
        (Int16, Int32 | Int64) | (Int32, Int64) | (Float32, Float64) | (Date, Timestamp) => true,
        (Int16 | Int32 | Int64, Decimal { precision, scale }) => {
            scale >= 0 && precision as i32 - scale as i32 >= digits(from)
        }
        (Decimal { precision: p, scale: s }, Decimal { precision, scale }) => {
            scale >= s && precision as i32 - scale as i32 >= p as i32 - s as i32
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_placed_among_the_values_of_the_key() {
        let numeric = |scale| Type::Decimal { precision: 20, scale };
        let at = |value, exact| format!("{value:?} {exact}");
        let place = |value, from, to| match fit(value, from, to) {
            Fit::Null => "null".to_owned(),
            Fit::Below => "below".to_owned(),
            Fit::Above => "above".to_owned(),
            Fit::At(value, exact) => at(value, exact),
        };
        use ValueRef::{Date, Decimal, Float32, Float64, Int32, Int64, Null, Timestamp};
        assert_eq!(place(Int64(1 << 40), Type::Int64, Type::Int32), "above");
        assert_eq!(place(Int64(-1 << 40), Type::Int64, Type::Int32), "below");
        assert_eq!(place(Int64(7), Type::Int64, Type::Int32), at(Int32(7), true));
        assert_eq!(place(Decimal(-15), numeric(1), Type::Int32), at(Int32(-2), false));
        assert_eq!(place(Decimal(-20), numeric(1), Type::Int32), at(Int32(-2), true));
        assert_eq!(place(Decimal(15), numeric(1), numeric(0)), at(Decimal(1), false));
        assert_eq!(place(Decimal(15), numeric(1), numeric(3)), at(Decimal(1500), true));
        assert_eq!(place(Float64(0.5), Type::Float64, Type::Float32), at(Float32(0.5), true));
        assert_eq!(place(Timestamp(-1), Type::Timestamp, Type::Date), at(Date(-1), false));
        assert_eq!(place(Null, Type::Int64, Type::Int32), "null");
        let Fit::At(Float32(below), false) = fit(Float64(0.1), Type::Float64, Type::Float32) else {
            panic!("0.1 is no REAL")
        };
        assert!((below as f64) < 0.1 && below.next_up() as f64 > 0.1);
    }
}
