//! Partitions against a sorted map of rows.
//!
//! Strategy: a random schema of all types with small domains, so that keys meet; random indexes,
//! composite, unique or not, in either direction; random changes, of which some must conflict;
//! snapshots at random, each with its model. Schema changes and bulk loads take their turn.
//! Invariants: those of [`Partition::check`]; rows, answers of indexes and Arrow arrays agree with
//! the model, which knows nothing of encodings; a snapshot never changes; a refused change changes
//! nothing.

use crate::fuzz;
use crate::{
    AppendError, ArrowType, ColumnDef, Conflict, Direction, IndexDef, Interval, KeyBuf, KeyColumn,
    Partition, Schema, Type, Value, ValueRef,
};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Date32Array,
    Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, IntervalMonthDayNanoArray, LargeStringArray, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use halcyon_base::rng::Rng;
use halcyon_base::{IndexId, RowId};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

type ModelRow = Vec<Value>;
type Model = BTreeMap<u32, ModelRow>;

const TYPES: [Type; 16] = [
    Type::Bool,
    Type::Int16,
    Type::Int32,
    Type::Int64,
    Type::Float32,
    Type::Float64,
    Type::Decimal { precision: 12, scale: 2 },
    Type::Decimal { precision: 38, scale: 10 },
    Type::Text,
    Type::Bytes,
    Type::Date,
    Type::Time,
    Type::Timestamp,
    Type::TimestampTz,
    Type::Interval,
    Type::Uuid,
];

fn text(rng: &mut Rng, domain: u64) -> String {
    let number = rng.below(domain);
    match rng.below(10) {
        0 => String::new(),
        1 => "é".repeat(number as usize % 40),
        2..=5 => format!("key {number}"),
        6 => format!("a long string, the same in its first bytes: {number}"),
        7 => format!("{number} {}", "x".repeat(rng.below(300) as usize)),
        _ => number.to_string(),
    }
}

/// A value of one of `domain` (for most types), or NULL where that can be.
fn value(rng: &mut Rng, def: ColumnDef, domain: u64) -> Value {
    if def.nullable && rng.chance(1, 5) {
        return Value::Null;
    }
    let n = rng.below(domain) as i64 - domain as i64 / 2;
    let real = match rng.below(12) {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::NEG_INFINITY,
        _ => n as f64 / 4.0,
    };
    match def.ty {
        Type::Bool => Value::Bool(n % 2 == 0),
        Type::Int16 => Value::Int16(n as i16),
        Type::Int32 => Value::Int32(n as i32),
        Type::Int64 => Value::Int64(if n == 0 { i64::MAX } else { n << 33 }),
        Type::Float32 => Value::Float32(real as f32),
        Type::Float64 => Value::Float64(real),
        Type::Decimal { precision: 0..=18, .. } => Value::Decimal(n as i128),
        Type::Decimal { .. } => Value::Decimal((n as i128) << 70),
        Type::Text => Value::Text(text(rng, domain)),
        Type::Bytes => match rng.below(3) {
            0 => Value::Bytes(vec![0; rng.below(20) as usize]),
            1 => Value::Bytes(text(rng, domain).into_bytes()),
            _ => Value::Bytes(vec![*rng.pick(&[0, 1, 255]), *rng.pick(&[0, 1, 255])]),
        },
        Type::Date => Value::Date(n as i32),
        Type::Time => Value::Time(n),
        Type::Timestamp => Value::Timestamp(n),
        Type::TimestampTz => Value::TimestampTz(n),
        Type::Interval => {
            let (months, days) = (n as i32 % 3, 30 * (n as i32 / 7));
            Value::Interval(Interval { months, days, nanos: n % 2 })
        }
        Type::Uuid => Value::Uuid((n as i128).to_be_bytes()),
    }
}

fn row(rng: &mut Rng, schema: &Schema, domain: u64) -> ModelRow {
    schema.columns.iter().map(|&def| value(rng, def, domain)).collect()
}

fn refs(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

/// Equal bit for bit, so that a stored NaN or -0 must come back.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float32(a), Value::Float32(b)) => a.to_bits() == b.to_bits(),
        (Value::Float64(a), Value::Float64(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

fn order_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).expect("neither is a NaN"),
        (a, b) => a.cmp(&b),
    }
}

/// SQL's order of two values that are not NULL.
fn order(a: &Value, b: &Value) -> Ordering {
    use Value::*;
    match (a, b) {
        (Bool(a), Bool(b)) => a.cmp(b),
        (Int16(a), Int16(b)) => a.cmp(b),
        (Int32(a), Int32(b)) | (Date(a), Date(b)) => a.cmp(b),
        (Int64(a), Int64(b))
        | (Time(a), Time(b))
        | (Timestamp(a), Timestamp(b))
        | (TimestampTz(a), TimestampTz(b)) => a.cmp(b),
        (Float32(a), Float32(b)) => order_floats(*a as f64, *b as f64),
        (Float64(a), Float64(b)) => order_floats(*a, *b),
        (Decimal(a), Decimal(b)) => a.cmp(b),
        (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Interval(a), Interval(b)) => a.sort_key().cmp(&b.sort_key()),
        (Uuid(a), Uuid(b)) => a.cmp(b),
        (a, b) => panic!("{a:?} and {b:?} are of two types"),
    }
}

/// The order of two key columns in the index.
fn order_column(column: KeyColumn, a: &Value, b: &Value) -> Ordering {
    let nulls = if column.nulls_first { Ordering::Less } else { Ordering::Greater };
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => nulls,
        (false, true) => nulls.reverse(),
        (false, false) if column.descending => order(b, a),
        (false, false) => order(a, b),
    }
}

/// How the key of a row compares with a prefix.
fn order_prefix(def: &IndexDef, row: &[Value], prefix: &[Value]) -> Ordering {
    let columns = def.columns.iter().zip(prefix);
    let mut orders =
        columns.map(|(&key, value)| order_column(key, &row[key.column as usize], value));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The index's order of two rows, but for their ids.
fn order_rows(def: &IndexDef, a: &[Value], b: &[Value]) -> Ordering {
    let mut orders = def
        .columns
        .iter()
        .map(|&key| order_column(key, &a[key.column as usize], &b[key.column as usize]));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn key_of(def: &IndexDef, row: &[Value]) -> ModelRow {
    def.columns.iter().map(|key| row[key.column as usize].clone()).collect()
}

/// A row of the model that a row of these values cannot be stored beside.
fn conflict(defs: &[IndexDef], model: &Model, values: &[Value], own: Option<u32>) -> bool {
    defs.iter().filter(|def| def.unique).any(|def| {
        let key = key_of(def, values);
        let binding = !(def.nulls_distinct && key.iter().any(Value::is_null));
        let equal = |row: &ModelRow| order_prefix(def, row, &key) == Ordering::Equal;
        binding && model.iter().any(|(&id, row)| Some(id) != own && equal(row))
    })
}

/// The conflict is one: the row has that key.
fn check_conflict(found: Conflict, defs: &[IndexDef], model: &Model, values: &[Value]) {
    let def = defs.iter().find(|def| def.id == found.index).expect("an index that exists");
    assert!(def.unique);
    let holder = &model[&found.row.0];
    assert_eq!(order_prefix(def, holder, &key_of(def, values)), Ordering::Equal);
}

/// One case's state: the partition, and what it should be.
struct Twin {
    partition: Partition,
    model: Model,
    indexes: Vec<IndexDef>,
    next_index: u32,
    domain: u64,
}

impl Twin {
    fn new(rng: &mut Rng) -> Self {
        let column =
            |rng: &mut Rng| ColumnDef { ty: *rng.pick(&TYPES), nullable: rng.chance(1, 2) };
        let columns = (0..1 + rng.below(8)).map(|_| column(rng)).collect();
        Twin {
            partition: Partition::new(Schema::new(columns)),
            model: Model::new(),
            indexes: vec![],
            next_index: 0,
            domain: *rng.pick(&[2, 10, 100, 10_000]),
        }
    }

    fn schema(&self) -> Arc<Schema> {
        Arc::clone(self.partition.schema())
    }

    fn row(&self, rng: &mut Rng) -> ModelRow {
        row(rng, &self.schema(), self.domain)
    }

    fn some_id(&self, rng: &mut Rng) -> Option<u32> {
        let last = *self.model.last_key_value()?.0;
        let near = rng.below(last as u64 + 1) as u32;
        self.model.range(near..).next().map(|(&id, _)| id)
    }

    fn insert(&mut self, rng: &mut Rng) {
        let values = self.row(rng);
        let expected = conflict(&self.indexes, &self.model, &values, None);
        match self.partition.insert(&refs(&values)) {
            Ok(id) => {
                assert!(!expected, "a repeated key was stored");
                assert!(self.model.insert(id.0, values).is_none(), "the id was free");
            }
            Err(found) => {
                assert!(expected, "{found:?} without reason");
                check_conflict(found, &self.indexes, &self.model, &values);
            }
        }
    }

    fn change(&self, rng: &mut Rng) -> (Vec<u16>, ModelRow) {
        let schema = self.schema();
        let mut columns: Vec<u16> = (0..schema.columns.len() as u16).collect();
        rng.shuffle(&mut columns);
        columns.truncate(1 + rng.below(columns.len() as u64) as usize);
        let defs = columns.iter().map(|&column| schema.columns[column as usize]);
        let values = defs.map(|def| value(rng, def, self.domain)).collect();
        (columns, values)
    }

    fn changed(&self, id: u32, columns: &[u16], values: &[Value]) -> ModelRow {
        let mut row = self.model[&id].clone();
        for (&column, value) in columns.iter().zip(values) {
            row[column as usize] = value.clone();
        }
        row
    }

    fn update(&mut self, rng: &mut Rng) {
        let Some(id) = self.some_id(rng) else { return };
        let (columns, values) = self.change(rng);
        let after = self.changed(id, &columns, &values);
        let expected = conflict(&self.indexes, &self.model, &after, Some(id));
        match self.partition.update(RowId(id), &columns, &refs(&values)) {
            Ok(()) => {
                assert!(!expected, "a repeated key was stored");
                self.model.insert(id, after);
            }
            Err(found) => {
                assert!(expected, "{found:?} without reason");
                check_conflict(found, &self.indexes, &self.model, &after);
            }
        }
    }

    /// A statement: several changes without checks, the check, and undo if that fails.
    fn update_statement(&mut self, rng: &mut Rng) {
        let mut undo = vec![];
        let before = self.model.clone();
        for _ in 0..rng.below(6) {
            let Some(id) = self.some_id(rng) else { return };
            let (columns, values) = self.change(rng);
            undo.push((id, columns.clone(), self.model[&id].clone()));
            self.partition.update_unchecked(RowId(id), &columns, &refs(&values));
            let after = self.changed(id, &columns, &values);
            self.model.insert(id, after);
        }
        // Before the statement no key repeated, so only touched rows can be in a conflict.
        let clash = |id: u32| conflict(&self.indexes, &self.model, &self.model[&id], Some(id));
        let expected = undo.iter().any(|(id, ..)| clash(*id));
        let touched = undo.iter().map(|(id, ..)| RowId(*id));
        assert_eq!(self.partition.check_unique(touched).is_err(), expected);
        if expected {
            for (id, columns, row) in undo.iter().rev() {
                let old: ModelRow =
                    columns.iter().map(|&column| row[column as usize].clone()).collect();
                self.partition.update_unchecked(RowId(*id), columns, &refs(&old));
            }
            self.model = before;
        }
    }

    fn delete(&mut self, rng: &mut Rng) {
        let Some(id) = self.some_id(rng) else { return };
        assert!(self.partition.delete(RowId(id)));
        assert!(!self.partition.delete(RowId(id)), "the row is gone");
        let row = self.model.remove(&id).expect("chosen from the model");
        if rng.chance(1, 3) {
            self.partition.insert_at(RowId(id), &refs(&row));
            self.model.insert(id, row);
        }
    }

    fn delete_most(&mut self, rng: &mut Rng) {
        let ids: Vec<u32> = self.model.keys().copied().collect();
        for id in ids.into_iter().filter(|_| rng.chance(9, 10)).collect::<Vec<_>>() {
            assert!(self.partition.delete(RowId(id)));
            self.model.remove(&id);
        }
    }

    fn append(&mut self, rng: &mut Rng) {
        // The model checks a unique key row by row, so loads into unique indexes stay small.
        let is_unique = self.indexes.iter().any(|def| def.unique);
        let most = if is_unique { 60 } else { *rng.pick(&[2, 50, 3000]) };
        let count = rng.below(most) as usize;
        let schema = self.schema();
        let mut rows: Vec<ModelRow> = (0..count).map(|_| self.row(rng)).collect();
        if rng.chance(2, 3) {
            // Mostly rows that can be stored, or unique indexes would refuse every load.
            let mut seen = self.model.clone();
            let unique: Vec<_> = self.indexes.iter().filter(|def| def.unique).cloned().collect();
            let mut at = u32::MAX;
            rows.retain(|row| {
                let fits = !conflict(&unique, &seen, row, None);
                at -= 1;
                seen.insert(at, row.clone());
                fits
            });
        }
        let columns: Vec<ArrayRef> = schema
            .columns
            .iter()
            .enumerate()
            .map(|(column, def)| {
                let values: Vec<&Value> = rows.iter().map(|row| &row[column]).collect();
                to_arrow(rng, def.ty, &values)
            })
            .collect();
        let mut after = self.model.clone();
        let clash = rows.iter().enumerate().any(|(at, row)| {
            let clash = conflict(&self.indexes, &after, row, None);
            after.insert(u32::MAX - at as u32, row.clone());
            clash
        });
        match self.partition.append(&columns) {
            Ok(ids) => {
                assert!(!clash, "a repeated key was stored");
                assert_eq!(ids.len(), rows.len());
                for (id, row) in ids.zip(rows) {
                    assert!(self.model.insert(id, row).is_none(), "the id was free");
                }
            }
            Err(AppendError::Conflict(_)) => assert!(clash, "a conflict without reason"),
            Err(error) => panic!("{error}"),
        }
    }

    fn add_index(&mut self, rng: &mut Rng) {
        let mut columns: Vec<u16> = (0..self.schema().columns.len() as u16).collect();
        rng.shuffle(&mut columns);
        columns.truncate(1 + rng.below(3) as usize);
        let key = |column| KeyColumn {
            column,
            descending: rng.chance(1, 2),
            nulls_first: rng.chance(1, 2),
        };
        let def = IndexDef {
            id: IndexId(self.next_index),
            columns: columns.into_iter().map(key).collect(),
            derivation: None,
            unique: rng.chance(1, 2),
            nulls_distinct: rng.chance(3, 4),
        };
        self.next_index += 1;
        let defs = [def.clone()];
        let clash = |(&id, row): (&u32, &ModelRow)| conflict(&defs, &self.model, row, Some(id));
        // Quadratic, so only on small models; the other way round `check` decides.
        let expected = self.model.len() < 300 && self.model.iter().any(clash);
        match self.partition.add_index(def.clone()) {
            Ok(()) => {
                assert!(!expected, "a unique index over repeated keys");
                self.indexes.push(def);
            }
            Err(found) => assert!(def.unique && found.index == def.id),
        }
    }

    fn drop_index(&mut self, rng: &mut Rng) {
        if !self.indexes.is_empty() {
            let at = rng.below(self.indexes.len() as u64) as usize;
            assert!(self.partition.drop_index(self.indexes.remove(at).id));
            assert!(!self.partition.drop_index(IndexId(u32::MAX)));
        }
    }

    fn alter(&mut self, rng: &mut Rng) {
        let column = rng.below(self.schema().columns.len() as u64) as usize;
        let in_key = |def: &IndexDef| def.columns.iter().any(|key| key.column as usize == column);
        match rng.below(3) {
            0 => {
                let def = ColumnDef { ty: *rng.pick(&TYPES), nullable: rng.chance(1, 2) };
                let value = value(rng, def, self.domain);
                self.partition.add_column(def, value.as_ref());
                self.model.values_mut().for_each(|row| row.push(value.clone()));
            }
            1 if self.schema().columns.len() > 1 && !self.indexes.iter().any(in_key) => {
                self.partition.drop_column(column);
                self.model.values_mut().for_each(|row| _ = row.remove(column));
                let keys = self.indexes.iter_mut().flat_map(|def| &mut def.columns);
                for key in keys.filter(|key| key.column as usize > column) {
                    key.column -= 1;
                }
            }
            _ => {
                let nullable = self.model.values().any(|row| row[column].is_null());
                self.partition.set_nullable(column, nullable || rng.chance(1, 2));
            }
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(1000) {
            0..=399 => self.insert(rng),
            400..=649 => self.update(rng),
            650..=899 => self.delete(rng),
            900..=949 => self.update_statement(rng),
            950..=969 => self.append(rng),
            970..=979 => self.add_index(rng),
            980..=985 => self.drop_index(rng),
            986..=993 => self.alter(rng),
            994..=997 => self.delete_most(rng),
            998 => {
                self.partition.truncate();
                self.model.clear();
            }
            _ => self.check_ranges(rng),
        }
    }

    /// Index lookups and ranges against the model.
    fn check_ranges(&self, rng: &mut Rng) {
        let mut buffers = [KeyBuf::new(), KeyBuf::new()];
        for def in &self.indexes {
            let index = self.partition.index(def.id).expect("the index exists");
            assert_eq!((index.def(), index.len()), (def, self.model.len() as u64));
            let mut sorted: Vec<(u32, &ModelRow)> =
                self.model.iter().map(|(&id, row)| (id, row)).collect();
            sorted.sort_by(|a, b| order_rows(def, a.1, b.1).then(a.0.cmp(&b.0)));
            for _ in 0..8 {
                let bound = |rng: &mut Rng, buffer: &mut KeyBuf| {
                    let row = match self.some_id(rng) {
                        Some(id) if rng.chance(1, 2) => self.model[&id].clone(),
                        _ => self.row(rng),
                    };
                    let mut key = key_of(def, &row);
                    key.truncate(rng.below(key.len() as u64 + 1) as usize);
                    index.encode(&refs(&key), buffer);
                    let kind = rng.below(3);
                    (key, kind)
                };
                let [lower, upper] = &mut buffers;
                let (from, from_kind) = bound(rng, lower);
                let (to, to_kind) = bound(rng, upper);
                let inside = |row: &ModelRow| {
                    let (low, high) = (order_prefix(def, row, &from), order_prefix(def, row, &to));
                    let low = match from_kind {
                        0 => true,
                        1 => low != Ordering::Less,
                        _ => low == Ordering::Greater,
                    };
                    let high = match to_kind {
                        0 => true,
                        1 => high != Ordering::Greater,
                        _ => high == Ordering::Less,
                    };
                    low && high
                };
                let expected: Vec<u32> =
                    sorted.iter().filter(|(_, row)| inside(row)).map(|&(id, _)| id).collect();
                let bounds = (as_bound(lower, from_kind), as_bound(upper, to_kind));
                let forward = index.range(bounds.0, bounds.1, Direction::Forward);
                assert_eq!(forward.map(|row| row.0).collect::<Vec<_>>(), expected);
                let backward = index.range(bounds.0, bounds.1, Direction::Backward);
                let mut backward: Vec<u32> = backward.map(|row| row.0).collect();
                backward.reverse();
                assert_eq!(backward, expected);
                let equal = |row: &ModelRow| order_prefix(def, row, &from) == Ordering::Equal;
                let matching = sorted.iter().filter(|(_, row)| equal(row)).map(|&(id, _)| id);
                let matching: Vec<u32> = matching.collect();
                assert_eq!(index.prefix(lower).map(|row| row.0).collect::<Vec<_>>(), matching);
                if from.len() == def.columns.len() {
                    assert_eq!(index.get(lower).map(|row| row.0), matching.first().copied());
                    assert_eq!(lower.has_null(), from.iter().any(Value::is_null));
                }
            }
        }
    }

    /// Rows and Arrow arrays against the model.
    fn check_rows(&self) {
        self.partition.check();
        assert_eq!(self.partition.row_count(), self.model.len() as u64);
        let mut expected = self.model.iter();
        for row in self.partition.rows() {
            let (&id, values) = expected.next().expect("a row that the model has");
            assert_eq!(row.id().0, id);
            let found: ModelRow = row.values().map(|value| value.to_owned()).collect();
            assert!(found.iter().zip(values).all(|(a, b)| same(a, b)), "{found:?} is {values:?}");
        }
        assert!(expected.next().is_none(), "the model has a row more");
        let schema = self.schema();
        let projection: Vec<usize> = (0..schema.columns.len()).rev().collect();
        let mut expected = self.model.iter();
        for segment in self.partition.segments() {
            let (ids, batch) = (segment.row_ids(), segment.batch(&projection));
            assert_eq!((ids.len(), batch.row_count), (segment.row_count(), segment.row_count()));
            for at in 0..batch.row_count {
                let (&id, values) = expected.next().expect("a row that the model has");
                assert_eq!(ids.value(at), id);
                for (array, &column) in batch.columns.iter().zip(&projection) {
                    assert_eq!(*array.data_type(), schema.columns[column].ty.arrow());
                    let found = from_arrow(schema.columns[column].ty, array, at);
                    assert!(same(&found, &values[column]), "{found:?} is {:?}", values[column]);
                }
            }
        }
        assert!(expected.next().is_none(), "the model has a row more");
    }
}

fn as_bound(key: &KeyBuf, kind: u64) -> Bound<&KeyBuf> {
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

macro_rules! pick {
    ($values:expr, $variant:ident) => {
        $values.iter().map(|value| match value {
            Value::$variant(value) => Some(value.clone()),
            Value::Null => None,
            other => panic!("{other:?} in a column of another type"),
        })
    };
}

/// An Arrow array of values, in one of the layouts that a load takes.
fn to_arrow(rng: &mut Rng, ty: Type, values: &[&Value]) -> ArrayRef {
    match ty {
        Type::Bool => Arc::new(BooleanArray::from_iter(pick!(values, Bool))),
        Type::Int16 => Arc::new(Int16Array::from_iter(pick!(values, Int16))),
        Type::Int32 => Arc::new(Int32Array::from_iter(pick!(values, Int32))),
        Type::Int64 => Arc::new(Int64Array::from_iter(pick!(values, Int64))),
        Type::Float32 => Arc::new(Float32Array::from_iter(pick!(values, Float32))),
        Type::Float64 => Arc::new(Float64Array::from_iter(pick!(values, Float64))),
        Type::Decimal { precision, scale } => {
            let array = Decimal128Array::from_iter(pick!(values, Decimal));
            Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
        }
        Type::Text => match rng.below(3) {
            0 => Arc::new(StringArray::from_iter(pick!(values, Text))),
            1 => Arc::new(LargeStringArray::from_iter(pick!(values, Text))),
            _ => Arc::new(StringViewArray::from_iter(pick!(values, Text))),
        },
        Type::Bytes => match rng.below(2) {
            0 => Arc::new(BinaryArray::from_iter(pick!(values, Bytes))),
            _ => Arc::new(BinaryViewArray::from_iter(pick!(values, Bytes))),
        },
        Type::Date => Arc::new(Date32Array::from_iter(pick!(values, Date))),
        Type::Time => Arc::new(Time64MicrosecondArray::from_iter(pick!(values, Time))),
        Type::Timestamp => Arc::new(TimestampMicrosecondArray::from_iter(pick!(values, Timestamp))),
        Type::TimestampTz => {
            let array = TimestampMicrosecondArray::from_iter(pick!(values, TimestampTz));
            Arc::new(array.with_timezone(*rng.pick(&["+00:00", "UTC"])))
        }
        Type::Interval => {
            let parts =
                |part: Interval| IntervalMonthDayNano::new(part.months, part.days, part.nanos);
            let values = pick!(values, Interval).map(|value| value.map(parts));
            Arc::new(IntervalMonthDayNanoArray::from_iter(values))
        }
        Type::Uuid => {
            let values = pick!(values, Uuid);
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16).unwrap())
        }
    }
}

fn from_arrow(ty: Type, array: &ArrayRef, at: usize) -> Value {
    if array.is_null(at) {
        return Value::Null;
    }
    match ty {
        Type::Bool => Value::Bool(array.as_boolean().value(at)),
        Type::Int16 => Value::Int16(array.as_primitive::<Int16Type>().value(at)),
        Type::Int32 => Value::Int32(array.as_primitive::<Int32Type>().value(at)),
        Type::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(at)),
        Type::Float32 => Value::Float32(array.as_primitive::<Float32Type>().value(at)),
        Type::Float64 => Value::Float64(array.as_primitive::<Float64Type>().value(at)),
        Type::Decimal { .. } => Value::Decimal(array.as_primitive::<Decimal128Type>().value(at)),
        Type::Text => Value::Text(array.as_string_view().value(at).into()),
        Type::Bytes => Value::Bytes(array.as_binary_view().value(at).into()),
        Type::Date => Value::Date(array.as_primitive::<Date32Type>().value(at)),
        Type::Time => Value::Time(array.as_primitive::<Time64MicrosecondType>().value(at)),
        Type::Timestamp => {
            Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(at))
        }
        Type::TimestampTz => {
            Value::TimestampTz(array.as_primitive::<TimestampMicrosecondType>().value(at))
        }
        Type::Interval => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(at);
            let (months, days, nanos) = (value.months, value.days, value.nanoseconds);
            Value::Interval(Interval { months, days, nanos })
        }
        Type::Uuid => Value::Uuid(array.as_fixed_size_binary().value(at).try_into().unwrap()),
    }
}

#[test]
fn partition_behaves_as_a_map_of_rows_and_snapshots_stay() {
    fuzz::run("partition_behaves", |rng| {
        let mut twin = Twin::new(rng);
        let mut snapshots = vec![];
        for _ in 0..rng.below(3) {
            twin.add_index(rng);
        }
        for _ in 0..rng.below(800) {
            twin.step(rng);
            if rng.chance(1, 40) {
                snapshots.push((twin.partition.clone(), twin.model.clone()));
            }
            if rng.chance(1, 60) && !snapshots.is_empty() {
                snapshots.swap_remove(rng.below(snapshots.len() as u64) as usize);
            }
            if rng.chance(1, 50) {
                twin.partition.check();
            }
        }
        twin.check_ranges(rng);
        twin.check_rows();
        for (partition, model) in snapshots {
            let (indexes, next_index, domain) = (vec![], 0, 1);
            Twin { partition, model, indexes, next_index, domain }.check_rows();
        }
    });
}

#[test]
fn wrong_loads_are_refused_with_the_reason_and_change_nothing() {
    let int = |nullable| ColumnDef { ty: Type::Int32, nullable };
    let mut partition = Partition::new(Schema::new(vec![int(false), int(true)]));
    let key = KeyColumn { column: 0, descending: false, nulls_first: false };
    let id = IndexId(7);
    partition
        .add_index(IndexDef {
            id,
            columns: vec![key],
            derivation: None,
            unique: true,
            nulls_distinct: true,
        })
        .unwrap();
    let array = |values: &[Option<i32>]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    let (one, two) = (array(&[Some(1)]), array(&[Some(1), Some(2)]));
    assert_eq!(partition.append(&[two.clone(), two.clone()]), Ok(0..2));
    let mut check = |columns: &[ArrayRef], expected: AppendError| {
        assert_eq!(partition.append(columns), Err(expected.clone()));
        assert!(!expected.to_string().is_empty());
        assert_eq!(partition.row_count(), 2);
        partition.check();
    };
    check(std::slice::from_ref(&one), AppendError::ColumnCount { expected: 2, found: 1 });
    check(&[one.clone(), two.clone()], AppendError::Length { column: 1 });
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let (expected, found) = (DataType::Int32, DataType::Utf8);
    check(&[one.clone(), text], AppendError::Type { column: 1, expected, found });
    let null = array(&[Some(9), None]);
    check(&[null.clone(), null.clone()], AppendError::Null { column: 0, row: 1 });
    let taken = Conflict { index: id, row: RowId(0) };
    check(&[one.clone(), one], AppendError::Conflict(taken));
    let twice = array(&[Some(5), Some(5)]);
    let within = Conflict { index: id, row: RowId(2) };
    check(&[twice, two], AppendError::Conflict(within));
    let fits = array(&[Some(10), Some(11)]);
    assert!(partition.append(&[fits.clone(), null]).is_ok());
    assert_eq!(partition.row_count(), 4);
}

/// A partition of 10,000 rows (id, number, text) with a primary key.
fn small_table() -> Partition {
    let column = |ty| ColumnDef { ty, nullable: false };
    let types = [Type::Int64, Type::Int64, Type::Text];
    let mut partition = Partition::new(Schema::new(types.map(column).to_vec()));
    let key = KeyColumn { column: 0, descending: false, nulls_first: false };
    let columns = vec![key];
    partition
        .add_index(IndexDef {
            id: IndexId(1),
            columns,
            derivation: None,
            unique: true,
            nulls_distinct: true,
        })
        .unwrap();
    for id in 0..10_000 {
        let text = format!("row number {id} in the table");
        let values = [ValueRef::Int64(id), ValueRef::Int64(0), ValueRef::Text(&text)];
        partition.insert(&values).unwrap();
    }
    partition
}

fn vectors(partition: &Partition) -> BTreeSet<(usize, usize, usize)> {
    let segments = partition.directory.segments();
    let places = segments.flat_map(|(segment_idx, segment)| {
        let columns = segment.addresses().into_iter().enumerate();
        columns.map(move |(column, address)| (segment_idx, column, address))
    });
    places.collect()
}

#[test]
fn snapshot_shares_everything_and_an_update_copies_one_vector() {
    let mut partition = small_table();
    let before = vectors(&partition);
    partition.update(RowId(5000), &[1], &[ValueRef::Int64(1)]).unwrap();
    assert_eq!(vectors(&partition), before, "a sole owner changes in place");

    let snapshot = partition.clone();
    assert!(triomphe::Arc::ptr_eq(&snapshot.directory, &partition.directory));
    for (number, row) in [(2, 5000), (3, 5001), (4, 5000)] {
        partition.update(RowId(row), &[1], &[ValueRef::Int64(number)]).unwrap();
    }
    let after = vectors(&partition);
    let copied: Vec<_> =
        after.difference(&before).map(|&(segment, column, _)| (segment, column)).collect();
    assert_eq!(copied, [(2, 1)], "the touched vector is copied, once");
    assert_eq!(vectors(&snapshot), before);
    assert_eq!(snapshot.row(RowId(5000)).unwrap().value(1), ValueRef::Int64(1));
    assert_eq!(partition.row(RowId(5000)).unwrap().value(1), ValueRef::Int64(4));

    drop(snapshot);
    partition.update(RowId(9000), &[1], &[ValueRef::Int64(1)]).unwrap();
    assert_eq!(vectors(&partition), after, "without snapshot nothing is copied again");
}

#[test]
fn arrow_arrays_share_the_segment_s_memory() {
    let partition = small_table();
    let vectors = vectors(&partition);
    for (segment_idx, batch) in partition.scan(&[1, 2]).enumerate() {
        let numbers = batch.columns[0].as_primitive::<Int64Type>().values().as_ptr() as usize;
        let texts = batch.columns[1].as_string_view().views().as_ptr() as usize;
        assert!(vectors.contains(&(segment_idx, 1, numbers)));
        assert!(vectors.contains(&(segment_idx, 2, texts)));
    }
}

#[test]
fn freed_slots_are_used_again_and_memory_stays() {
    let mut partition = small_table();
    let (bytes, segments) = (partition.bytes(), partition.segment_count());
    for round in 1..20 {
        for id in 0..10_000i64 {
            let text = format!("row number {id} in round {round}");
            let values = [ValueRef::Int64(id), ValueRef::Int64(0), ValueRef::Text(&text)];
            let mut key = KeyBuf::new();
            let index = partition.index(IndexId(1)).unwrap();
            index.encode(&values[..1], &mut key);
            let row = index.get(&key).unwrap();
            assert!(partition.delete(row));
            partition.insert(&values).unwrap();
        }
    }
    partition.check();
    assert_eq!(partition.segment_count(), segments);
    assert!(partition.bytes() < 3 * bytes, "{} is far more than {bytes}", partition.bytes());
}

#[test]
fn empty_segments_give_their_memory_back() {
    let mut partition = small_table();
    let bytes = partition.bytes();
    for id in 0..10_000 {
        assert!(partition.delete(RowId(id)));
    }
    partition.check();
    assert!(partition.bytes() < bytes / 10, "{} of {bytes} bytes", partition.bytes());
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(|_| "x")));
    assert_eq!(partition.append(&[ids.clone(), ids, texts]), Ok(0..3000));
    assert_eq!(partition.segment_count(), 5, "a load fills empty segments first");
}

#[test]
fn check_sees_an_index_that_disagrees_with_its_rows() {
    // The canary: the row changes behind the index's back.
    let mut partition = small_table();
    let schema = Arc::clone(partition.schema());
    let directory = triomphe::Arc::make_mut(&mut partition.directory);
    directory.update(&schema, RowId(3), &[0], &[ValueRef::Int64(-1)]);
    assert!(std::panic::catch_unwind(|| partition.check()).is_err());
}

#[test]
fn statement_may_pass_through_repeated_keys() {
    let mut partition = small_table();
    for id in 0..10_000 {
        partition.update_unchecked(RowId(id), &[0], &[ValueRef::Int64(id as i64 + 1)]);
    }
    assert_eq!(partition.check_unique((0..10_000).map(RowId)), Ok(()));
    partition.check();
    partition.update_unchecked(RowId(0), &[0], &[ValueRef::Int64(500)]);
    let clash = Conflict { index: IndexId(1), row: RowId(499) };
    assert_eq!(partition.check_unique([RowId(0)]), Err(clash));
}
