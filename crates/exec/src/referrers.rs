//! Rows that refer to others: where a foreign key's referrers are found, and whether what they refer
//! to is there.
//!
//! Cost: a look-up per key where an index of the referring table begins with the key's columns, else
//! one pass over that table for all keys.

use std::collections::HashMap;
use std::sync::Arc;

use crate::key_types;
use halcyon_base::ids::{IndexId, RowId};
use halcyon_catalog::{ForeignKey, Table};
use halcyon_sql::error::Result;
use halcyon_sql::types::SqlType;
use halcyon_store::{KeyBuf, Partition, Value, ValueRef};
use halcyon_value::integer::widen;

/// The table of a foreign key, to be searched for rows that refer to a key.
pub(crate) struct Referrers {
    /// The constraint.
    pub key: ForeignKey,
    /// The table that has it.
    pub table: Arc<Table>,
    /// An index of that table whose first columns are those of the key, and their order.
    index: Option<(IndexId, Vec<usize>)>,
    /// Types by position in the key's list: its own column's and those of the columns referred to.
    types: Vec<(SqlType, SqlType)>,
}

/// Whether the table that `key` refers to has a row with these `values` of the columns referred to.
/// Panics: if the table has no unique index of these columns; DDL keeps one.
pub(crate) fn target_has<'p>(
    table: &Table,
    key: &ForeignKey,
    values: &[ValueRef<'_>],
    buffer: &mut KeyBuf,
    partition: impl Fn(u32) -> &'p Partition,
) -> bool {
    let columns = &key.target_columns;
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
    let number = match table.partition_column() {
        None => 0,
        Some(column) => table.partition_of(value_of(column)),
    };
    let index = partition(number).index(index.id).expect("every partition has the index");
    index.encode(&ordered, buffer);
    index.get(buffer).is_some()
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

impl Referrers {
    /// The referrers of `key`, a constraint of `table`, to `target`.
    pub fn new(table: Arc<Table>, key: ForeignKey, target: &Table) -> Self {
        let types = key_types::types(&table, &key, target);
        Referrers { index: referring_index(&table, &key), key, table, types }
    }

    /// Rows that refer to one of `keys`: (which key, partition, row).
    pub fn find<'p>(
        &self,
        keys: &[&[Value]],
        key: &mut KeyBuf,
        partition: impl Fn(u32) -> &'p Partition,
    ) -> Vec<(usize, u32, RowId)> {
        let mut found = Vec::new();
        if keys.is_empty() {
            return found;
        }
        let partitions = 0..self.table.cells.len() as u32;
        if let Some((index, order)) = &self.index {
            for (which, values) in keys.iter().enumerate() {
                let Some(own) = self.exactly(values) else { continue };
                let ordered: Vec<ValueRef<'_>> =
                    order.iter().map(|position| own[*position]).collect();
                for number in partitions.clone() {
                    let index = partition(number).index(*index);
                    let index = index.expect("every partition has the index");
                    index.encode(&ordered, key);
                    found.extend(index.prefix(key).map(|row| (which, number, row)));
                }
            }
            return found;
        }
        let wanted: HashMap<Vec<u8>, usize> = keys
            .iter()
            .enumerate()
            .filter_map(|(which, values)| Some((encode(self.exactly(values)?.into_iter()), which)))
            .collect();
        for number in partitions {
            for row in partition(number).rows() {
                let values = self.key.columns.iter().map(|column| row.value(*column as usize));
                if let Some(which) = wanted.get(&encode(values)) {
                    found.push((*which, number, row.id()));
                }
            }
        }
        found
    }

    /// Values of the columns referred to, as the referring columns hold them; `None` if these cannot hold them, so that
    /// nothing refers to the key.
    fn exactly<'v>(&self, values: &'v [Value]) -> Option<Vec<ValueRef<'v>>> {
        let own = self.types.iter().zip(values);
        own.map(|((own, theirs), value)| key_types::exactly(value.as_ref(), *theirs, *own))
            .collect()
    }

    /// Values of the columns referred to, as the referring columns get them. Errors: 22003.
    pub fn as_own(&self, values: &[Value]) -> Result<Vec<Value>> {
        let own = self.types.iter().zip(values);
        own.map(|((own, theirs), value)| key_types::assigned(value, *theirs, *own)).collect()
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
