//! The columns of a partition, and the Arrow types of their vectors. Types and single values are
//! `halcyon_value`'s.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use std::sync::Arc;

pub use halcyon_value::{Interval, Type, Value, ValueRef};

/// The time zone that Arrow is told for TIMESTAMP WITH TIME ZONE.
const UTC: &str = "+00:00";

/// The Arrow side of a [`Type`].
pub trait ArrowType: Sized {
    /// The Arrow type of a vector of such values.
    fn arrow(&self) -> DataType;

    /// The type whose vectors are of this Arrow type; the inverse of [`ArrowType::arrow`].
    fn from_arrow(arrow: &DataType) -> Option<Self>;
}

impl ArrowType for Type {
    fn arrow(&self) -> DataType {
        match *self {
            Type::Bool => DataType::Boolean,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float32 => DataType::Float32,
            Type::Float64 => DataType::Float64,
            Type::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Type::Text => DataType::Utf8View,
            Type::Bytes => DataType::BinaryView,
            Type::Date => DataType::Date32,
            Type::Time => DataType::Time64(TimeUnit::Microsecond),
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Type::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
            Type::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Type::Uuid => DataType::FixedSizeBinary(16),
        }
    }

    fn from_arrow(arrow: &DataType) -> Option<Type> {
        use Type::*;
        let plain = [
            Bool,
            Int16,
            Int32,
            Int64,
            Float32,
            Float64,
            Text,
            Bytes,
            Date,
            Time,
            Timestamp,
            TimestampTz,
            Interval,
            Uuid,
        ];
        match *arrow {
            DataType::Decimal128(precision, scale) => Some(Decimal { precision, scale }),
            ref other => plain.into_iter().find(|ty| ty.arrow() == *other),
        }
    }
}

/// True if values of any length are kept beside the vector, in the segment's heap.
pub(crate) fn has_views(ty: Type) -> bool {
    matches!(ty, Type::Text | Type::Bytes)
}

/// A column of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnDef {
    /// How its values are stored.
    pub ty: Type,
    /// Whether NULL can be stored. Storing NULL elsewhere is a fault of the caller.
    pub nullable: bool,
}

/// The columns of a partition, in order. Names live in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// The columns.
    pub columns: Vec<ColumnDef>,
}

impl Schema {
    /// A schema of these columns, ready to be shared by the table's partitions.
    pub fn new(columns: Vec<ColumnDef>) -> Arc<Self> {
        Arc::new(Schema { columns })
    }
}
