//! The bytes of a record's payload; docs/log-format.md describes them.
//!
//! Numbers are LEB128 varints, signed ones in zigzag: most are small.

use super::Malformed;
use halcyon_base::memory;
use halcyon_base::{PartitionId, RowId};
use halcyon_store::{ColumnDef, Interval, Partition, Schema, Type, ValueRef};
use std::sync::Arc;

type Result<T> = std::result::Result<T, Malformed>;

/// The byte behind the id of a partition.
const CHANGED: u8 = 0;
const DEFINED: u8 = 1;
const DROPPED: u8 = 2;

/// The kinds of row entries.
const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;

/// Bytes of the length of a partition's rows, which is known last.
const LENGTH: usize = 6;

/// Bytes of a record between two looks whether its session was refused memory.
const LOOK_BYTES: usize = 1 << 20;

/// Columns that a table can have at most, many times over: bounds what a decoder allocates.
const COLUMNS_MAX: u64 = 1 << 16;

/// Makes a payload.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    open: Option<Open>,
    partitions: bool,
    /// The length at which the encoder looks whether its session was refused memory.
    look_at: usize,
    /// Whether it was: what is left of the record is not made.
    is_refused: bool,
}

/// A partition whose rows are being written.
struct Open {
    /// Where it begins.
    start: usize,
    /// Where its rows begin.
    rows: usize,
    /// Whether the partition has an entry so far.
    matters: bool,
}

impl Encoder {
    /// Begins a record; `catalog` is the commit's change of the catalog, if there is one.
    pub(crate) fn begin(&mut self, catalog: Option<&[u8]>) {
        self.bytes.clear();
        self.open = None;
        self.partitions = false;
        self.look_at = LOOK_BYTES;
        self.is_refused = false;
        match catalog {
            None => self.bytes.push(0),
            Some(catalog) => {
                self.bytes.push(1);
                put(&mut self.bytes, catalog.len() as u64);
                self.bytes.extend_from_slice(catalog);
            }
        }
    }

    /// Whether the session was refused memory while the record was made, which is not whole then; or
    /// may not have the copies that are made of it on its way to the disk.
    pub(crate) fn is_refused(&self) -> bool {
        const COPIES: u64 = 2;
        let large = self.bytes.len() > LOOK_BYTES;
        self.is_refused || (large && memory::request(COPIES * self.bytes.len() as u64).is_err())
    }

    /// Whether more rows may be added.
    fn takes_more(&mut self) -> bool {
        if self.bytes.len() >= self.look_at {
            self.look_at = self.bytes.len() + LOOK_BYTES;
            self.is_refused |= memory::current().is_refused();
        }
        !self.is_refused
    }

    /// The record, if there is anything in it.
    pub(crate) fn finish(&mut self) -> Option<&[u8]> {
        assert!(self.open.is_none());
        (self.partitions || self.bytes[0] == 1).then_some(&self.bytes)
    }

    /// Gives a large buffer back to the allocator.
    pub(crate) fn forget(&mut self, kept_bytes: usize) {
        if self.bytes.capacity() > kept_bytes {
            self.bytes = Vec::new();
        }
    }

    /// Begins the changed rows of a partition with these columns. Its other rows stay.
    pub(crate) fn change(&mut self, partition: PartitionId, schema: &Schema) {
        let start = self.bytes.len();
        put(&mut self.bytes, partition.0.into());
        self.bytes.push(CHANGED);
        put(&mut self.bytes, schema.columns.len() as u64);
        self.begin_rows(start, false);
    }

    fn begin_rows(&mut self, start: usize, matters: bool) {
        self.bytes.extend_from_slice(&[0; LENGTH]);
        self.open = Some(Open { start, rows: self.bytes.len(), matters });
    }

    /// Begins the rows of a partition that is new, or that begins anew.
    pub(crate) fn define(&mut self, partition: PartitionId, schema: &Schema) {
        let start = self.bytes.len();
        put(&mut self.bytes, partition.0.into());
        self.bytes.push(DEFINED);
        put(&mut self.bytes, schema.columns.len() as u64);
        for column in &schema.columns {
            put_type(&mut self.bytes, column.ty);
            self.bytes.push(column.nullable.into());
        }
        self.begin_rows(start, true);
    }

    /// Ends the rows of a partition; forgets it if nothing of it has changed.
    pub(crate) fn end(&mut self) {
        let Open { start, rows, matters } = self.open.take().expect("a partition was begun");
        if !matters {
            return self.bytes.truncate(start);
        }
        let length = ((self.bytes.len() - rows) as u64).to_le_bytes();
        self.bytes[rows - LENGTH..rows].copy_from_slice(&length[..LENGTH]);
        self.partitions = true;
    }

    /// The partition does not exist any more.
    pub(crate) fn drop(&mut self, partition: PartitionId) {
        put(&mut self.bytes, partition.0.into());
        self.bytes.push(DROPPED);
        self.partitions = true;
    }

    fn row(&mut self, what: u8, row: RowId) {
        self.open.as_mut().expect("a partition was begun").matters = true;
        self.bytes.push(what);
        put(&mut self.bytes, row.0.into());
    }

    pub(crate) fn insert<'a>(&mut self, row: RowId, values: impl Iterator<Item = ValueRef<'a>>) {
        if !self.takes_more() {
            return;
        }
        self.row(INSERT, row);
        values.for_each(|value| put_value(&mut self.bytes, value));
    }

    pub(crate) fn delete(&mut self, row: RowId) {
        self.row(DELETE, row);
    }

    /// The values that `columns` of a row have now.
    pub(crate) fn update(&mut self, row: RowId, columns: &[u16], root: &Partition) {
        if !self.takes_more() {
            return;
        }
        let values = root.row(row).expect("an updated row is there");
        self.row(UPDATE, row);
        put(&mut self.bytes, columns.len() as u64);
        for &column in columns {
            put(&mut self.bytes, column.into());
            put_value(&mut self.bytes, values.value(column.into()));
        }
    }
}

/// The payload that says where a sequence goes on.
pub fn sequence_payload(id: u32, last: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, id.into());
    put(&mut bytes, zigzag(last));
    bytes
}

/// Reads [`sequence_payload`].
pub(crate) fn decode_sequence(bytes: &[u8]) -> Result<(u32, i64)> {
    let mut input = Input(bytes);
    let id = u32::try_from(input.number()?)
        .map_err(|_| Malformed("a sequence's number is too large"))?;
    let last = unzigzag(input.number()?);
    input.must_end()?;
    Ok((id, last))
}

/// A partition's part of a record.
#[derive(Debug)]
pub(crate) enum PartitionPart<'a> {
    /// Rows of a partition that is there.
    Changed(PartitionId, Rows<'a>),
    /// A partition that begins empty, and its rows.
    Defined(PartitionId, Arc<Schema>, Rows<'a>),
    /// A partition that is gone.
    Dropped(PartitionId),
}

/// Row entries as bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) columns: usize,
}

/// One row entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RowEntry<'v, 'a> {
    /// All values of a row that was not there.
    Insert(RowId, &'v [ValueRef<'a>]),
    /// New values of some columns.
    Update(RowId, &'v [u16], &'v [ValueRef<'a>]),
    /// The row is gone.
    Delete(RowId),
}

/// Takes a commit's payload apart: the catalog, if it changed, and each partition's part.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Option<&[u8]>, Vec<PartitionPart<'_>>)> {
    let mut input = Input(bytes);
    let catalog = match input.byte()? {
        0 => None,
        1 => {
            let length = input.number()?;
            Some(input.bytes(length)?)
        }
        _ => return Err(Malformed("neither with nor without a catalog")),
    };
    let mut parts = Vec::new();
    while !input.0.is_empty() {
        parts.push(input.part()?);
    }
    Ok((catalog, parts))
}

/// Decodes a payload to its end and forgets it: for fuzzing.
pub fn decode_any(bytes: &[u8]) -> Result<()> {
    let _ = decode_sequence(bytes);
    for part in decode(bytes)?.1 {
        match part {
            PartitionPart::Changed(_, rows) | PartitionPart::Defined(_, _, rows) => {
                rows.each(|_| Ok(()))?;
            }
            PartitionPart::Dropped(_) => {}
        }
    }
    Ok(())
}

impl<'a> Rows<'a> {
    /// Calls `tell` with every entry, in order.
    pub(crate) fn each(&self, mut tell: impl FnMut(RowEntry<'_, 'a>) -> Result<()>) -> Result<()> {
        let mut input = Input(self.bytes);
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        while !input.0.is_empty() {
            input.entry(self.columns, &mut columns, &mut values, &mut tell)?;
        }
        Ok(())
    }
}

/// What is left to decode.
struct Input<'a>(&'a [u8]);

const SHORT: Malformed = Malformed("it ends too early");

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8> {
        let (&first, rest) = self.0.split_first().ok_or(SHORT)?;
        self.0 = rest;
        Ok(first)
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8]> {
        let length = usize::try_from(length).map_err(|_| SHORT)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("a number does not end"))
    }

    fn must_end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("it goes on behind its end")) }
    }

    fn id(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| Malformed("an id is too large"))
    }

    fn signed(&mut self) -> Result<i64> {
        self.number().map(unzigzag)
    }

    fn small<T: TryFrom<i64>>(&mut self) -> Result<T> {
        T::try_from(self.signed()?).map_err(|_| Malformed("a value is out of its type's range"))
    }

    fn part(&mut self) -> Result<PartitionPart<'a>> {
        let partition = PartitionId(self.id()?);
        match self.byte()? {
            DROPPED => Ok(PartitionPart::Dropped(partition)),
            CHANGED => {
                let columns = self.columns()?;
                Ok(PartitionPart::Changed(partition, self.rows(columns)?))
            }
            DEFINED => {
                let count = self.columns()?;
                let column = |_| {
                    let ty = self.ty()?;
                    Ok(ColumnDef { ty, nullable: self.byte()? != 0 })
                };
                let columns = (0..count).map(column).collect::<Result<Vec<_>>>()?;
                let rows = self.rows(count)?;
                Ok(PartitionPart::Defined(partition, Schema::new(columns), rows))
            }
            _ => Err(Malformed("an unknown kind of change")),
        }
    }

    fn columns(&mut self) -> Result<usize> {
        let count = self.number()?;
        match count <= COLUMNS_MAX {
            true => Ok(count as usize),
            false => Err(Malformed("a table has not so many columns")),
        }
    }

    fn rows(&mut self, columns: usize) -> Result<Rows<'a>> {
        let mut length = [0; 8];
        length[..LENGTH].copy_from_slice(&self.array::<LENGTH>()?);
        let bytes = self.bytes(u64::from_le_bytes(length))?;
        Ok(Rows { bytes, columns })
    }

    fn entry(
        &mut self,
        column_count: usize,
        columns: &mut Vec<u16>,
        values: &mut Vec<ValueRef<'a>>,
        tell: &mut impl FnMut(RowEntry<'_, 'a>) -> Result<()>,
    ) -> Result<()> {
        let what = self.byte()?;
        let row = RowId(self.id()?);
        values.clear();
        match what {
            INSERT => {
                for _ in 0..column_count {
                    values.push(self.value()?);
                }
                tell(RowEntry::Insert(row, values))
            }
            UPDATE => {
                columns.clear();
                for _ in 0..self.columns()? {
                    let column = u16::try_from(self.number()?).ok();
                    let column = column.filter(|column| usize::from(*column) < column_count);
                    columns.push(column.ok_or(Malformed("there is no such column"))?);
                    values.push(self.value()?);
                }
                tell(RowEntry::Update(row, columns, values))
            }
            DELETE => tell(RowEntry::Delete(row)),
            _ => Err(Malformed("an unknown kind of row change")),
        }
    }

    fn ty(&mut self) -> Result<Type> {
        Ok(match self.byte()? {
            1 => Type::Bool,
            2 => Type::Int16,
            3 => Type::Int32,
            4 => Type::Int64,
            5 => Type::Float32,
            6 => Type::Float64,
            7 => {
                let (precision, scale) = (self.byte()?, self.byte()? as i8);
                if !(1..=38).contains(&precision) || scale.unsigned_abs() > 38 {
                    return Err(Malformed("a decimal has at most 38 digits"));
                }
                Type::Decimal { precision, scale }
            }
            8 => Type::Text,
            9 => Type::Bytes,
            10 => Type::Date,
            11 => Type::Time,
            12 => Type::Timestamp,
            13 => Type::TimestampTz,
            14 => Type::Interval,
            15 => Type::Uuid,
            _ => return Err(Malformed("an unknown type")),
        })
    }

    fn value(&mut self) -> Result<ValueRef<'a>> {
        Ok(match self.byte()? {
            0 => ValueRef::Null,
            1 => ValueRef::Bool(self.byte()? != 0),
            2 => ValueRef::Int16(self.small()?),
            3 => ValueRef::Int32(self.small()?),
            4 => ValueRef::Int64(self.signed()?),
            5 => ValueRef::Float32(f32::from_le_bytes(self.array()?)),
            6 => ValueRef::Float64(f64::from_le_bytes(self.array()?)),
            7 => ValueRef::Decimal(i128::from_le_bytes(self.array()?)),
            8 => {
                let length = self.number()?;
                let text = std::str::from_utf8(self.bytes(length)?);
                ValueRef::Text(text.map_err(|_| Malformed("a text is not UTF-8"))?)
            }
            9 => {
                let length = self.number()?;
                ValueRef::Bytes(self.bytes(length)?)
            }
            10 => ValueRef::Date(self.small()?),
            11 => ValueRef::Time(self.signed()?),
            12 => ValueRef::Timestamp(self.signed()?),
            13 => ValueRef::TimestampTz(self.signed()?),
            14 => {
                let (months, days) = (self.small()?, self.small()?);
                ValueRef::Interval(Interval { months, days, nanos: self.signed()? })
            }
            15 => ValueRef::Uuid(self.array()?),
            _ => return Err(Malformed("an unknown type of value")),
        })
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

fn put_signed(bytes: &mut Vec<u8>, tag: u8, number: i64) {
    bytes.push(tag);
    put(bytes, zigzag(number));
}

fn put_type(bytes: &mut Vec<u8>, ty: Type) {
    bytes.push(match ty {
        Type::Bool => 1,
        Type::Int16 => 2,
        Type::Int32 => 3,
        Type::Int64 => 4,
        Type::Float32 => 5,
        Type::Float64 => 6,
        Type::Decimal { .. } => 7,
        Type::Text => 8,
        Type::Bytes => 9,
        Type::Date => 10,
        Type::Time => 11,
        Type::Timestamp => 12,
        Type::TimestampTz => 13,
        Type::Interval => 14,
        Type::Uuid => 15,
    });
    if let Type::Decimal { precision, scale } = ty {
        bytes.extend_from_slice(&[precision, scale as u8]);
    }
}

#[inline]
fn put_value(bytes: &mut Vec<u8>, value: ValueRef<'_>) {
    let with = |bytes: &mut Vec<u8>, tag: u8, raw: &[u8]| {
        bytes.push(tag);
        bytes.extend_from_slice(raw);
    };
    match value {
        ValueRef::Null => bytes.push(0),
        ValueRef::Bool(value) => bytes.extend_from_slice(&[1, value.into()]),
        ValueRef::Int16(value) => put_signed(bytes, 2, value.into()),
        ValueRef::Int32(value) => put_signed(bytes, 3, value.into()),
        ValueRef::Int64(value) => put_signed(bytes, 4, value),
        ValueRef::Float32(value) => with(bytes, 5, &value.to_le_bytes()),
        ValueRef::Float64(value) => with(bytes, 6, &value.to_le_bytes()),
        ValueRef::Decimal(value) => with(bytes, 7, &value.to_le_bytes()),
        ValueRef::Text(value) => {
            bytes.push(8);
            put(bytes, value.len() as u64);
            bytes.extend_from_slice(value.as_bytes());
        }
        ValueRef::Bytes(value) => {
            bytes.push(9);
            put(bytes, value.len() as u64);
            bytes.extend_from_slice(value);
        }
        ValueRef::Date(value) => put_signed(bytes, 10, value.into()),
        ValueRef::Time(value) => put_signed(bytes, 11, value),
        ValueRef::Timestamp(value) => put_signed(bytes, 12, value),
        ValueRef::TimestampTz(value) => put_signed(bytes, 13, value),
        ValueRef::Interval(Interval { months, days, nanos }) => {
            put_signed(bytes, 14, months.into());
            put(bytes, zigzag(days.into()));
            put(bytes, zigzag(nanos));
        }
        ValueRef::Uuid(value) => with(bytes, 15, &value),
    }
}
