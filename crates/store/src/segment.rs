//! A segment: up to 2,048 consecutive rows of a partition, one vector per column.
//!
//! Words: a *slot* is a row's place in the segment; it is *live* while a row is there. The slots
//! from `used` on are free, the one before it is live.
//! Invariants, checked by [`Segment::check`]:
//! 1. `live` has `live_count` bits set, the last of them at `used - 1`;
//!    `used <= capacity <= SEGMENT_ROWS`.
//! 2. Every vector has room for `capacity` rows, every validity bitmap for all that.
//! 3. A NULL is a cleared bit of its column's validity, above a zero word. A column without
//!    validity bitmap holds no NULL; a column that is not nullable has none.
//! 4. The heap's invariants hold over the views of live rows. Views in dead slots mean nothing.
//!
//! Cost: reading a value is four dependent loads from the segment on, all but the last in cache on
//! a hot table; writing one is that, and three uniqueness checks.

use crate::heap::Heap;
use crate::text;
use crate::value::{ColumnDef, Interval, Schema, Type, ValueRef, has_views};
use crate::vector::{self, Vector, Width, bit, end_of_bits, set_bit, set_bits};
use crate::zone::{Zone, has_zone};
use halcyon_base::ids::SEGMENT_ROWS;
use triomphe::Arc;

pub(crate) const LIVE_WORDS: usize = SEGMENT_ROWS / 64;

/// Sizes that a growing segment passes through: small tables stay small.
const CAPACITIES: [usize; 4] = [64, 256, 1024, SEGMENT_ROWS];

/// One column of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) words: Vector,
    /// Bit set: the value is not NULL. None: no value is NULL.
    pub(crate) validity: Option<Arc<[u64]>>,
    /// Between what values all others lie.
    pub(crate) zone: Zone,
}

/// Up to 2,048 rows.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    live: [u64; LIVE_WORDS],
    live_count: u32,
    used: u32,
    capacity: u32,
    columns: Box<[Column]>,
    heap: Heap,
}

pub(crate) fn width(ty: Type) -> Width {
    match ty {
        Type::Bool => Width::Bit,
        Type::Int16 => Width::W2,
        Type::Int32 | Type::Float32 | Type::Date => Width::W4,
        Type::Int64 | Type::Float64 | Type::Time | Type::Timestamp | Type::TimestampTz => Width::W8,
        Type::Decimal { .. } | Type::Text | Type::Bytes | Type::Interval | Type::Uuid => Width::W16,
    }
}

/// A bitmap for a segment of `capacity` rows in which nothing is NULL.
fn all_valid(capacity: usize) -> Arc<[u64]> {
    std::iter::repeat_n(u64::MAX, capacity.div_ceil(64)).collect()
}

impl Column {
    pub(crate) fn new(ty: Type, capacity: usize) -> Self {
        Column { words: Vector::new(width(ty), capacity), validity: None, zone: Zone::default() }
    }

    #[inline]
    pub(crate) fn is_null(&self, slot: usize) -> bool {
        self.validity.as_ref().is_some_and(|validity| !bit(validity, slot))
    }

    /// A value as a 64-bit number: integers, days, moments and times as they are, decimals unscaled if they are
    /// narrow.
    fn number(&self, ty: Type, slot: usize) -> Option<i64> {
        match ty {
            Type::Int16 => Some(i64::from(self.words.w2()[slot])),
            Type::Int32 | Type::Date => Some(i64::from(self.words.w4()[slot])),
            Type::Int64 | Type::Time | Type::Timestamp | Type::TimestampTz => {
                Some(self.words.w8()[slot])
            }
            Type::Decimal { .. } => i64::try_from(self.words.w16()[slot] as i128).ok(),
            _ => None,
        }
    }

    pub(crate) fn set_null(&mut self, slot: usize, null: bool) {
        if null && self.validity.is_none() {
            self.validity = Some(all_valid(self.words.capacity()));
        }
        if let Some(validity) = &mut self.validity
            && bit(validity, slot) == null
        {
            set_bit(vector::make_mut(validity), slot, !null);
        }
    }

    fn grow(&mut self, capacity: usize) {
        self.words.grow(capacity);
        if let Some(validity) = &mut self.validity {
            let more = capacity.div_ceil(64) - validity.len();
            *validity =
                validity.iter().copied().chain(std::iter::repeat_n(u64::MAX, more)).collect();
        }
    }
}

impl Segment {
    /// An empty segment with room for at least `rows`.
    pub(crate) fn new(schema: &Schema, rows: usize) -> Self {
        let capacity = capacity_for(rows);
        let columns = schema.columns.iter().map(|column| Column::new(column.ty, capacity));
        Segment {
            live: [0; LIVE_WORDS],
            live_count: 0,
            used: 0,
            capacity: capacity as u32,
            columns: columns.collect(),
            heap: Heap::default(),
        }
    }

    #[inline]
    pub(crate) fn is_live(&self, slot: usize) -> bool {
        bit(&self.live, slot)
    }

    pub(crate) fn live(&self) -> &[u64; LIVE_WORDS] {
        &self.live
    }

    #[inline]
    pub(crate) fn live_count(&self) -> usize {
        self.live_count as usize
    }

    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used as usize
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The value in `column` of a live slot. `ty` is the column's.
    #[inline]
    pub(crate) fn value(&self, ty: Type, column: usize, slot: usize) -> ValueRef<'_> {
        let column = &self.columns[column];
        if column.is_null(slot) {
            return ValueRef::Null;
        }
        let words = &column.words;
        match ty {
            Type::Bool => ValueRef::Bool(bit(words.bits(), slot)),
            Type::Int16 => ValueRef::Int16(words.w2()[slot]),
            Type::Int32 => ValueRef::Int32(words.w4()[slot]),
            Type::Int64 => ValueRef::Int64(words.w8()[slot]),
            Type::Float32 => ValueRef::Float32(f32::from_bits(words.w4()[slot] as u32)),
            Type::Float64 => ValueRef::Float64(f64::from_bits(words.w8()[slot] as u64)),
            Type::Decimal { .. } => ValueRef::Decimal(words.w16()[slot] as i128),
            Type::Text => ValueRef::Text(self.text(column, slot)),
            Type::Bytes => ValueRef::Bytes(self.heap.bytes(&words.w16()[slot])),
            Type::Date => ValueRef::Date(words.w4()[slot]),
            Type::Time => ValueRef::Time(words.w8()[slot]),
            Type::Timestamp => ValueRef::Timestamp(words.w8()[slot]),
            Type::TimestampTz => ValueRef::TimestampTz(words.w8()[slot]),
            Type::Interval => ValueRef::Interval(Interval::from_word(words.w16()[slot])),
            Type::Uuid => ValueRef::Uuid(words.w16()[slot].to_le_bytes()),
        }
    }

    #[inline]
    #[allow(unsafe_code)]
    fn text<'a>(&'a self, column: &'a Column, slot: usize) -> &'a str {
        debug_assert!(self.is_live(slot));
        let bytes = self.heap.bytes(&column.words.w16()[slot]);
        // SAFETY: the caller passes a text column; `write` and `load` fill those from `&str` alone,
        // and the heap never changes what it has stored.
        unsafe { text::stored_str(bytes) }
    }

    /// Writes `value` over whatever is in `column` of `slot`. The caller has released the string
    /// that was there.
    #[inline]
    fn write(&mut self, def: ColumnDef, column_idx: usize, slot: usize, value: ValueRef<'_>) {
        let column = &mut self.columns[column_idx];
        column.zone.forget();
        if column.validity.is_some() || value.is_null() {
            assert!(
                def.nullable || !value.is_null(),
                "NULL in column {column_idx}, which is not nullable"
            );
            column.set_null(slot, value.is_null());
        }
        let words = &mut column.words;
        match (def.ty, value) {
            (Type::Bool, ValueRef::Bool(value)) => set_bit(words.bits_mut(), slot, value),
            (Type::Int16, ValueRef::Int16(value)) => words.w2_mut()[slot] = value,
            (Type::Int32, ValueRef::Int32(value)) | (Type::Date, ValueRef::Date(value)) => {
                words.w4_mut()[slot] = value;
            }
            (Type::Int64, ValueRef::Int64(value))
            | (Type::Time, ValueRef::Time(value))
            | (Type::Timestamp, ValueRef::Timestamp(value))
            | (Type::TimestampTz, ValueRef::TimestampTz(value)) => words.w8_mut()[slot] = value,
            (Type::Float32, ValueRef::Float32(value)) => {
                words.w4_mut()[slot] = value.to_bits() as i32;
            }
            (Type::Float64, ValueRef::Float64(value)) => {
                words.w8_mut()[slot] = value.to_bits() as i64;
            }
            (Type::Decimal { .. }, ValueRef::Decimal(value)) => {
                words.w16_mut()[slot] = value as u128;
            }
            (Type::Text, ValueRef::Text(value)) => {
                words.w16_mut()[slot] = self.heap.store(value.as_bytes());
            }
            (Type::Bytes, ValueRef::Bytes(value)) => words.w16_mut()[slot] = self.heap.store(value),
            (Type::Interval, ValueRef::Interval(value)) => words.w16_mut()[slot] = value.to_word(),
            (Type::Uuid, ValueRef::Uuid(value)) => {
                words.w16_mut()[slot] = u128::from_le_bytes(value);
            }
            (ty, ValueRef::Null) => clear_word(words, ty, slot),
            (ty, value) => panic!("{value:?} in column {column_idx} of type {ty}"),
        }
    }

    /// Between what values those of a column lie that are not NULL, as 64-bit numbers ([`Column::number`]). The first
    /// is greater than the second where there is none.
    pub(crate) fn zone(&self, ty: Type, column: usize) -> Option<(i64, i64)> {
        if !has_zone(ty) {
            return None;
        }
        let column = &self.columns[column];
        column.zone.get(|| {
            let (mut least, mut greatest) = (i64::MAX, i64::MIN);
            for slot in set_bits(&self.live).filter(|&slot| !column.is_null(slot)) {
                let value = column.number(ty, slot)?;
                least = least.min(value);
                greatest = greatest.max(value);
            }
            Some((least, greatest))
        })
    }

    /// The lowest free slot. None if the segment is full.
    pub(crate) fn free_slot(&self) -> Option<usize> {
        if self.live_count == self.used {
            return (self.used() < SEGMENT_ROWS).then_some(self.used());
        }
        let word_idx = self.live.iter().position(|&word| word != u64::MAX)?;
        Some(word_idx * 64 + self.live[word_idx].trailing_ones() as usize)
    }

    /// Puts a row into a free slot.
    ///
    /// Panics: if the slot is live, or a value is of another type than its column.
    #[inline]
    pub(crate) fn insert(&mut self, schema: &Schema, slot: usize, values: &[ValueRef<'_>]) {
        assert!(!self.is_live(slot), "slot {slot} holds a row");
        assert_eq!(values.len(), schema.columns.len(), "a row has a value per column");
        if slot >= self.capacity as usize {
            self.grow(slot + 1);
        }
        for (column_idx, (&def, &value)) in schema.columns.iter().zip(values).enumerate() {
            self.write(def, column_idx, slot, value);
        }
        set_bit(&mut self.live, slot, true);
        self.live_count += 1;
        self.used = self.used.max(slot as u32 + 1);
        self.compact_if_wasteful(schema);
    }

    /// Overwrites some values of a live row.
    ///
    /// Panics: if the slot is not live, or a value is of another type than its column.
    #[inline]
    pub(crate) fn update(
        &mut self,
        schema: &Schema,
        slot: usize,
        columns: &[u16],
        values: &[ValueRef<'_>],
    ) {
        assert!(self.is_live(slot), "slot {slot} holds no row");
        for (&column, &value) in columns.iter().zip(values) {
            let column_idx = column as usize;
            let def = schema.columns[column_idx];
            if has_views(def.ty) {
                self.heap.release(self.columns[column_idx].words.w16()[slot]);
            }
            self.write(def, column_idx, slot, value);
        }
        // No effect where no string has changed: nothing is wasted then.
        self.compact_if_wasteful(schema);
    }

    /// Frees a live slot.
    ///
    /// Panics: if the slot is not live.
    pub(crate) fn delete(&mut self, schema: &Schema, slot: usize) {
        assert!(self.is_live(slot), "slot {slot} holds no row");
        for (column_idx, def) in schema.columns.iter().enumerate() {
            if has_views(def.ty) {
                self.heap.release(self.columns[column_idx].words.w16()[slot]);
            }
        }
        set_bit(&mut self.live, slot, false);
        self.live_count -= 1;
        if self.live_count == 0 {
            self.start_over(schema);
            return;
        }
        if slot + 1 == self.used() {
            self.used = end_of_bits(&self.live) as u32;
        }
        self.compact_if_wasteful(schema);
    }

    /// An empty segment gives its memory back; if it is small, it keeps its vectors.
    fn start_over(&mut self, schema: &Schema) {
        if self.capacity as usize > CAPACITIES[0] {
            *self = Segment::new(schema, 1);
            return;
        }
        self.used = 0;
        self.heap = Heap::default();
        for column in &mut self.columns {
            column.validity = None;
            column.zone.forget();
        }
    }

    fn grow(&mut self, rows: usize) {
        let capacity = capacity_for(rows);
        for column in &mut self.columns {
            column.grow(capacity);
        }
        self.capacity = capacity as u32;
    }

    #[inline]
    fn compact_if_wasteful(&mut self, schema: &Schema) {
        if self.heap.wants_compaction() {
            self.compact(schema);
        }
    }

    /// Copies the strings of live rows into a new heap.
    #[cold]
    fn compact(&mut self, schema: &Schema) {
        let mut heap = self.heap.for_compaction();
        for (column, def) in self.columns.iter_mut().zip(&schema.columns) {
            if has_views(def.ty) {
                let views = column.words.w16_mut();
                for slot in set_bits(&self.live) {
                    views[slot] = heap.store(self.heap.bytes(&views[slot]));
                }
            }
        }
        self.heap = heap;
    }

    /// Room for a bulk load of `rows` from `used` on; returns the columns and the heap to fill.
    /// [`Segment::finish_load`] must follow.
    pub(crate) fn begin_load(&mut self, rows: usize) -> (&mut [Column], &mut Heap) {
        let needed = self.used() + rows;
        assert!(needed <= SEGMENT_ROWS, "a segment has {SEGMENT_ROWS} rows");
        if needed > self.capacity as usize {
            self.grow(needed);
        }
        self.columns.iter_mut().for_each(|column| column.zone.forget());
        (&mut self.columns, &mut self.heap)
    }

    /// Makes the `rows` slots from `used` on live.
    pub(crate) fn finish_load(&mut self, rows: usize) {
        for slot in self.used()..self.used() + rows {
            set_bit(&mut self.live, slot, true);
        }
        self.live_count += rows as u32;
        self.used += rows as u32;
    }

    /// Moves rows that were loaded without holes to the slots given, which ascend.
    pub(crate) fn spread(&mut self, slots: &[usize]) {
        debug_assert!(slots.len() == self.live_count() && self.live_count() == self.used());
        let used = slots.last().map_or(0, |last| last + 1);
        if used == slots.len() {
            return;
        }
        if used > self.capacity as usize {
            self.grow(used);
        }
        for column in &mut self.columns {
            column.words.spread(slots);
            if let Some(validity) = &mut column.validity {
                // From the last on: a row's new place is never before its old one.
                let words = vector::make_mut(validity);
                for (from, &to) in slots.iter().enumerate().rev() {
                    let valid = bit(words, from);
                    set_bit(words, to, valid);
                }
            }
        }
        self.live = [0; LIVE_WORDS];
        slots.iter().for_each(|&slot| set_bit(&mut self.live, slot, true));
        self.used = used as u32;
    }

    /// The same rows with a column more at the end, the same value in all.
    pub(crate) fn with_column(&self, def: ColumnDef, value: ValueRef<'_>) -> Segment {
        let mut wider = self.clone();
        let mut columns = std::mem::take(&mut wider.columns).into_vec();
        columns.push(Column::new(def.ty, self.capacity as usize));
        wider.columns = columns.into_boxed_slice();
        let column_idx = wider.columns.len() - 1;
        for slot in set_bits(&self.live) {
            wider.write(def, column_idx, slot, value);
        }
        wider
    }

    /// The same rows without one of the columns, which is of type `ty`.
    pub(crate) fn without_column(&self, ty: Type, column_idx: usize) -> Segment {
        let mut narrower = self.clone();
        let mut columns = std::mem::take(&mut narrower.columns).into_vec();
        let column = columns.remove(column_idx);
        narrower.columns = columns.into_boxed_slice();
        if has_views(ty) {
            for slot in set_bits(&self.live) {
                narrower.heap.release(column.words.w16()[slot]);
            }
        }
        narrower
    }

    /// Memory held, in bytes. What snapshots share is counted by each of them.
    pub(crate) fn bytes(&self) -> u64 {
        let columns = self.columns.iter().map(|column| {
            column.words.bytes() + column.validity.as_ref().map_or(0, |words| words.len() * 8)
        });
        let columns: usize = columns.sum();
        (size_of::<Segment>() + size_of::<Column>() * self.columns.len() + columns) as u64
            + self.heap.memory_bytes()
    }

    /// Panics unless the invariants hold. O(values).
    pub(crate) fn check(&self, schema: &Schema) {
        let live: Vec<usize> = set_bits(&self.live).collect();
        assert_eq!(live.len(), self.live_count());
        assert_eq!(live.last().map_or(0, |slot| slot + 1), self.used());
        assert!(self.used <= self.capacity && self.capacity as usize <= SEGMENT_ROWS);
        assert_eq!(self.columns.len(), schema.columns.len());
        for (column_idx, (column, def)) in self.columns.iter().zip(&schema.columns).enumerate() {
            if let Some(Some((least, greatest))) = column.zone.known() {
                for &slot in live.iter().filter(|&&slot| !column.is_null(slot)) {
                    let value = column.number(def.ty, slot).expect("a narrow value");
                    assert!((least..=greatest).contains(&value), "a value outside its zone");
                }
            }
            // Known from here on, so that the next check sees whether a writer has forgotten it.
            self.zone(def.ty, column_idx);
            assert_eq!(column.words.width(), width(def.ty));
            assert!(column.words.capacity() >= self.capacity as usize);
            let Some(validity) = &column.validity else {
                continue;
            };
            assert!(validity.len() * 64 >= self.capacity as usize);
            for &slot in live.iter().filter(|&&slot| column.is_null(slot)) {
                assert!(def.nullable, "NULL in a column that is not nullable");
                assert!(word_is_zero(&column.words, slot), "a NULL lies above a zero word");
            }
        }
        let views = self.columns.iter().zip(&schema.columns).filter(|(_, def)| has_views(def.ty));
        self.heap
            .check(views.flat_map(|(column, _)| live.iter().map(|&slot| column.words.w16()[slot])));
    }

    /// Where each column's words lie: an address differs exactly if its vector was copied.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.words.address()).collect()
    }
}

fn capacity_for(rows: usize) -> usize {
    let fitting = CAPACITIES.iter().find(|&&capacity| capacity >= rows);
    *fitting.expect("no segment has more than SEGMENT_ROWS rows")
}

pub(crate) fn clear_word(words: &mut Vector, ty: Type, slot: usize) {
    match width(ty) {
        Width::Bit => set_bit(words.bits_mut(), slot, false),
        Width::W2 => words.w2_mut()[slot] = 0,
        Width::W4 => words.w4_mut()[slot] = 0,
        Width::W8 => words.w8_mut()[slot] = 0,
        Width::W16 => words.w16_mut()[slot] = 0,
    }
}

fn word_is_zero(words: &Vector, slot: usize) -> bool {
    match words {
        Vector::Bits(words) => !bit(words, slot),
        Vector::W2(words) => words[slot] == 0,
        Vector::W4(words) => words[slot] == 0,
        Vector::W8(words) => words[slot] == 0,
        Vector::W16(words) => words[slot] == 0,
    }
}
