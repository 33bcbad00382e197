//! Results: columns, rows one at a time, batches.

use arrow::datatypes::FieldRef;
use halcyon_store::ValueRef;

use crate::client_types::ClientType;
use crate::error::{Result, SqlError, SqlState};
use crate::types::{SqlType, TYPE_KEY};

/// Buffers from this size on ask for memory before they grow.
const LARGE_BYTES: usize = 4 << 20;

/// A column of a result.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Name shown.
    pub name: String,
    /// Arrow field of the column.
    pub field: FieldRef,
    /// SQL type; `None` for types only Arrow has (lists, structs), which are shown as text.
    pub ty: Option<SqlType>,
    /// Table and column (counted from 1) it comes from unchanged, for the wire's description.
    pub origin: Option<(u32, u16)>,
}

impl ResultColumn {
    /// Whether the column says its type by itself, as those of tables and casts do; a calculated number has one that
    /// nobody chose.
    pub fn names_its_type(&self) -> bool {
        self.origin.is_some() || self.field.metadata().contains_key(TYPE_KEY)
    }

    /// The column's type as clients are told it.
    pub fn client_type(&self) -> ClientType {
        ClientType::of(&self.field, self.ty)
    }
}

/// Receives the rows of a row-at-a-time plan.
pub trait RowSink {
    /// Takes one row; the values live for this call only. `Ok(false)` ends the statement early.
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<bool>;
}

/// Rows of a small result, kept in two allocations: cells, and the bytes of strings.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    width: usize,
    rows: usize,
    cells: Vec<Cell>,
    bytes: Vec<u8>,
}

/// A value, strings as a place in the row set's bytes.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Fixed(ValueRef<'static>),
    Text { start: usize, len: u32 },
    Bytes { start: usize, len: u32 },
}

impl RowSet {
    /// An empty set of rows with `width` columns.
    pub fn new(width: usize) -> Self {
        RowSet { width, ..RowSet::default() }
    }

    /// Empties it, keeping its memory, for rows with `width` columns.
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.rows = 0;
        self.cells.clear();
        self.bytes.clear();
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A value. Panics if out of range.
    pub fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        assert!(row < self.rows && column < self.width, "row {row}, column {column}");
        match self.cells[row * self.width + column] {
            Cell::Fixed(value) => value,
            Cell::Text { start, len } => {
                let bytes = &self.bytes[start..start + len as usize];
                ValueRef::Text(std::str::from_utf8(bytes).expect("stored from a str"))
            }
            Cell::Bytes { start, len } => ValueRef::Bytes(&self.bytes[start..start + len as usize]),
        }
    }

    /// Adds a row of as many values as there are columns.
    ///
    /// Errors: 53200 if the statement that the thread works for may not have the memory; 54000 for a value
    /// of more than 4 GB.
    pub fn push_row<'a>(&mut self, values: impl Iterator<Item = ValueRef<'a>>) -> Result<()> {
        self.require_room_for_cells()?;
        for value in values {
            self.push(value)?;
        }
        self.rows += 1;
        debug_assert_eq!(self.cells.len(), self.rows * self.width);
        Ok(())
    }

    /// Asks for the memory of more cells, where these are many and their buffer is full.
    #[inline]
    fn require_room_for_cells(&mut self) -> Result<()> {
        let is_full = self.cells.len() + self.width > self.cells.capacity();
        if is_full && self.cells.len() > LARGE_BYTES / size_of::<Cell>() {
            SqlError::unless_refused(2 * (self.cells.len() * size_of::<Cell>()) as u64)?;
        }
        Ok(())
    }

    /// Adds bytes of a value, and asks for their memory where it is much. Returns the length.
    #[inline]
    fn push_bytes(&mut self, bytes: &[u8]) -> Result<u32> {
        let needed = self.bytes.len() + bytes.len();
        if needed > self.bytes.capacity() && needed > LARGE_BYTES {
            SqlError::unless_refused(needed.max(2 * self.bytes.capacity()) as u64)?;
        }
        let len = u32::try_from(bytes.len()).map_err(|_| too_long(bytes.len()))?;
        self.bytes.extend_from_slice(bytes);
        Ok(len)
    }

    #[inline]
    fn push(&mut self, value: ValueRef<'_>) -> Result<()> {
        let start = self.bytes.len();
        let cell = match value {
            ValueRef::Text(text) => Cell::Text { start, len: self.push_bytes(text.as_bytes())? },
            ValueRef::Bytes(bytes) => Cell::Bytes { start, len: self.push_bytes(bytes)? },
            other => Cell::Fixed(fixed(other).expect("neither text nor bytes")),
        };
        self.cells.push(cell);
        Ok(())
    }
}

#[cold]
fn too_long(bytes: usize) -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("a value has {bytes} bytes"))
        .detail("A result takes values of less than 4 GB.")
}

impl RowSink for RowSet {
    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<bool> {
        debug_assert_eq!(values.len(), self.width);
        self.push_row(values.iter().copied())?;
        Ok(true)
    }
}

/// The value without its lifetime, if it lends nothing.
#[inline]
pub fn fixed(value: ValueRef<'_>) -> Option<ValueRef<'static>> {
    Some(match value {
        ValueRef::Null => ValueRef::Null,
        ValueRef::Bool(value) => ValueRef::Bool(value),
        ValueRef::Int16(value) => ValueRef::Int16(value),
        ValueRef::Int32(value) => ValueRef::Int32(value),
        ValueRef::Int64(value) => ValueRef::Int64(value),
        ValueRef::Float32(value) => ValueRef::Float32(value),
        ValueRef::Float64(value) => ValueRef::Float64(value),
        ValueRef::Decimal(value) => ValueRef::Decimal(value),
        ValueRef::Date(value) => ValueRef::Date(value),
        ValueRef::Time(value) => ValueRef::Time(value),
        ValueRef::Timestamp(value) => ValueRef::Timestamp(value),
        ValueRef::TimestampTz(value) => ValueRef::TimestampTz(value),
        ValueRef::Interval(value) => ValueRef::Interval(value),
        ValueRef::Uuid(value) => ValueRef::Uuid(value),
        ValueRef::Text(_) | ValueRef::Bytes(_) => return None,
    })
}
