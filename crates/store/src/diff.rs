//! The difference of two values of one partition, row by row. The redo log gets it for changes that
//! were not noted row by row.
//!
//! Copy-on-write makes this cheap: a segment that both values hold is the same memory, and so is a
//! vector that has not been written. Cost: O(segments) plus O(values) of the vectors that differ.

use crate::partition::Partition;
use crate::row::RowRef;
use crate::segment::{Column, LIVE_WORDS, Segment};
use crate::value::ValueRef;
use crate::vector::set_bits;
use halcyon_base::RowId;

/// One row that differs.
#[derive(Clone, Copy)]
pub enum RowChange<'a> {
    /// A row that is new.
    Inserted(RowRef<'a>),
    /// A row with other values in these columns.
    Updated(RowRef<'a>, &'a [u16]),
    /// A row that is gone.
    Deleted(RowId),
}

impl Partition {
    /// Calls `tell` with the changes that make `self` out of `before`, by ascending row id; each
    /// row once. False, and nothing told, if the two have different columns.
    ///
    /// Values are compared by their bits: a NaN equals itself, and -0.0 is not 0.0. Indexes are not
    /// looked at.
    pub fn changes_since(&self, before: &Partition, mut tell: impl FnMut(RowChange<'_>)) -> bool {
        if self.schema != before.schema {
            return false;
        }
        let count = self.segment_count().max(before.segment_count());
        for segment_idx in 0..count {
            let old = before.directory.segment(segment_idx);
            let new = self.directory.segment(segment_idx);
            match (old, new) {
                (Some(old), Some(new)) if std::ptr::eq(old, new) => {}
                _ => self.segment_changes(segment_idx, old, new, &mut tell),
            }
        }
        true
    }

    fn segment_changes(
        &self,
        segment_idx: usize,
        old: Option<&Segment>,
        new: Option<&Segment>,
        tell: &mut impl FnMut(RowChange<'_>),
    ) {
        let none = [0; LIVE_WORDS];
        let old_live = old.map_or(&none, Segment::live);
        let new_live = new.map_or(&none, Segment::live);
        let mut either = none;
        for (word, both) in either.iter_mut().zip(old_live.iter().zip(new_live)) {
            *word = both.0 | both.1;
        }
        let written = written_columns(old, new);
        let mut changed = Vec::new();
        for slot in set_bits(&either) {
            let id = RowId::at(segment_idx, slot);
            let row = |of: &'_ Segment| of.is_live(slot);
            match (old.filter(|old| row(old)), new.filter(|new| row(new))) {
                (None, Some(new)) => {
                    tell(RowChange::Inserted(RowRef::new(&self.schema, new, id)));
                }
                (Some(_), None) => tell(RowChange::Deleted(id)),
                (Some(old), Some(new)) => {
                    let (was, is) =
                        (RowRef::new(&self.schema, old, id), RowRef::new(&self.schema, new, id));
                    let differs = |column: &&u16| {
                        !same(was.value(**column as usize), is.value(**column as usize))
                    };
                    changed.clear();
                    changed.extend(written.iter().filter(differs));
                    if !changed.is_empty() {
                        tell(RowChange::Updated(is, &changed));
                    }
                }
                (None, None) => unreachable!("the slot is live in one of the two"),
            }
        }
    }
}

/// Columns whose vectors are not the same memory.
fn written_columns(old: Option<&Segment>, new: Option<&Segment>) -> Vec<u16> {
    let (Some(old), Some(new)) = (old, new) else {
        return Vec::new();
    };
    let shared = |old: &Column, new: &Column| {
        let validity = |column: &Column| column.validity.as_ref().map(|words| words.as_ptr());
        old.words.address() == new.words.address() && validity(old) == validity(new)
    };
    let pairs = old.columns().iter().zip(new.columns()).enumerate();
    let written = pairs.filter(|(_, (old, new))| !shared(old, new));
    written.map(|(column, _)| column as u16).collect()
}

fn same(one: ValueRef<'_>, other: ValueRef<'_>) -> bool {
    match (one, other) {
        (ValueRef::Float32(one), ValueRef::Float32(other)) => one.to_bits() == other.to_bits(),
        (ValueRef::Float64(one), ValueRef::Float64(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{ColumnDef, Schema, Type, Value};
    use std::collections::BTreeMap;

    fn partition(rows: i64) -> Partition {
        let def = |ty, nullable| ColumnDef { ty, nullable };
        let schema = Schema::new(vec![
            def(Type::Int64, false),
            def(Type::Text, true),
            def(Type::Float64, false),
        ]);
        let mut partition = Partition::new(schema);
        for n in 0..rows {
            let text = format!("a text that lies in the heap, {n}");
            let row = [ValueRef::Int64(n), ValueRef::Text(&text), ValueRef::Float64(0.0)];
            partition.insert(&row).expect("there is no index");
        }
        partition
    }

    fn told(after: &Partition, before: &Partition) -> Vec<String> {
        let mut told = Vec::new();
        let alike = after.changes_since(before, |change| {
            told.push(match change {
                RowChange::Inserted(row) => format!("+{}", row.id()),
                RowChange::Updated(row, columns) => format!("{}{columns:?}", row.id()),
                RowChange::Deleted(id) => format!("-{id}"),
            });
        });
        assert!(alike);
        told
    }

    #[test]
    fn only_what_differs_is_told() {
        let before = partition(5000);
        assert!(told(&before.clone(), &before).is_empty());
        let mut after = before.clone();
        after.update(RowId(3), &[0, 2], &[ValueRef::Int64(3), ValueRef::Float64(-0.0)]).unwrap();
        after.update(RowId(4), &[1], &[ValueRef::Null]).unwrap();
        assert!(after.delete(RowId(2048)));
        after.insert_at(RowId(9000), &[ValueRef::Int64(1), ValueRef::Null, ValueRef::Float64(0.0)]);
        assert_eq!(told(&after, &before), ["3[2]", "4[1]", "-2048", "+9000"]);
        assert_eq!(told(&before, &after), ["3[2]", "4[1]", "+2048", "-9000"]);
        let mut emptied = before.clone();
        emptied.truncate();
        assert_eq!(told(&emptied, &before).len(), 5000);
        let mut wider = before.clone();
        wider.add_column(ColumnDef { ty: Type::Bool, nullable: true }, ValueRef::Null);
        assert!(!wider.changes_since(&before, |_| panic!("nothing is told")));
    }

    /// What is told, carried out on `before`, gives `after`, whatever happened between.
    #[test]
    fn changes_lead_from_one_to_the_other() {
        let mut rng = halcyon_base::rng::Rng::new(7);
        for _ in 0..20 {
            let before = partition(rng.below(6000) as i64);
            let mut after = before.clone();
            for _ in 0..rng.below(400) {
                let ids: Vec<RowId> = after.rows().map(|row| row.id()).collect();
                let text = format!("another text for the heap {}", rng.next_u32());
                match rng.below(3) {
                    0 => {
                        let values =
                            [ValueRef::Int64(-1), ValueRef::Text(&text), ValueRef::Float64(1.0)];
                        after.insert(&values).unwrap();
                    }
                    1 if !ids.is_empty() => {
                        after.update(*rng.pick(&ids), &[1], &[ValueRef::Text(&text)]).unwrap();
                    }
                    2 if !ids.is_empty() => assert!(after.delete(*rng.pick(&ids))),
                    _ => {}
                }
            }
            let mut made = before.clone();
            after.changes_since(&before, |change| match change {
                RowChange::Inserted(row) => {
                    made.insert_at(row.id(), &row.values().collect::<Vec<_>>());
                }
                RowChange::Updated(row, columns) => {
                    let values: Vec<_> =
                        columns.iter().map(|&column| row.value(column as usize)).collect();
                    made.update(row.id(), columns, &values).unwrap();
                }
                RowChange::Deleted(id) => assert!(made.delete(id)),
            });
            assert_eq!(contents(&made), contents(&after));
            made.check();
        }
    }

    #[test]
    fn rows_are_restored_under_their_ids() {
        let mut rng = halcyon_base::rng::Rng::new(11);
        for round in 0..8 {
            let mut before = partition(2048 * 3 + 7);
            let ids: Vec<RowId> = before.rows().map(|row| row.id()).collect();
            for id in ids {
                if rng.below(8) < round || id.segment_idx() == 1 {
                    assert!(before.delete(id));
                } else if rng.chance(1, 3) {
                    before.update(id, &[1], &[ValueRef::Null]).unwrap();
                }
            }
            let mut after = Partition::new(before.schema().clone());
            for segment in before.segments() {
                let ids: Vec<RowId> = segment.rows().map(|row| row.id()).collect();
                after.restore(&ids, &segment.batch(&[0, 1, 2]).columns).unwrap();
            }
            after.check();
            assert_eq!(contents(&after), contents(&before));
            // Free slots are free: new rows find room.
            for n in 0..3000 {
                after
                    .insert(&[ValueRef::Int64(n), ValueRef::Null, ValueRef::Float64(0.0)])
                    .unwrap();
            }
            after.check();
        }
    }

    fn contents(partition: &Partition) -> BTreeMap<RowId, Vec<Value>> {
        let row =
            |row: RowRef<'_>| (row.id(), row.values().map(|value| value.to_owned()).collect());
        partition.rows().map(row).collect()
    }
}
