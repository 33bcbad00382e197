//! System columns: `ctid`, `xmin` and their like. What they hold; their names, and the queries that use them, are in
//! [`queries`].
//!
//! - `tableoid`: the table's object id.
//! - `ctid`: where the row lies. The block is its segment (the number of its partition in the upper 11 bits), the
//!   offset its slot, counted from 1 as PostgreSQL counts. It stays while the row does, an UPDATE that leaves the row
//!   in its partition included, and is given to another row after that.
//! - `xmin`: rows have no versions here and carry no number of the transaction that wrote them. What clients use
//!   `xmin` for is to tell whether a row is still what they have read, so it is a number made of the row's values:
//!   equal rows have equal numbers, and of two different ones one in two billion pairs has.
//! - `xmax`, `cmin`, `cmax`: 0, as of a row that nobody is changing. RETURNING gives the number of the transaction as
//!   `xmax` of a row that is deleted, and of one that an INSERT has updated instead, by which statements tell the one
//!   from the other.
//!
//! Rows of system tables are made when they are read: they have no place, and the version of the catalog as `xmin`.

pub mod queries;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use halcyon_base::RowId;
use halcyon_sql::types::{OID_ALIAS_KEY, PG_TYPE_KEY};

/// What the system columns of a table are made of.
pub struct Origin {
    /// The table's object id.
    pub oid: u32,
    /// The number of a row as the binder has it: its partition in the upper half; `None`: rows have no place.
    pub place: Option<Expr>,
    /// What changes when the row does.
    pub version: Version,
    /// Who has changed the row; `None`: nobody.
    pub changed_by: Option<Expr>,
}

/// What changes when a row does.
pub enum Version {
    /// The row's values.
    Values(Vec<Expr>),
    /// A number that all rows have.
    Number(u64),
}

/// The system column `name` of a row.
pub fn value(name: &str, origin: &Origin) -> Expr {
    match name {
        "tableoid" => number(origin.oid as i32, "oid"),
        "ctid" => match &origin.place {
            Some(place) => function(Function::Place).call(vec![place.clone()]),
            None => literal(ScalarValue::Utf8View(Some("(0,1)".to_owned())), PG_TYPE_KEY, "tid"),
        },
        "xmin" => match &origin.version {
            Version::Values(values) => function(Function::Version).call(values.clone()),
            Version::Number(version) => number(positive(*version), "xid"),
        },
        "xmax" => origin.changed_by.clone().unwrap_or_else(|| number(0, "xid")),
        _ => number(0, "cid"),
    }
}

/// The field of a column that has the number of a transaction.
pub fn transaction_field(name: &str) -> Field {
    told(name, DataType::Int32, OID_ALIAS_KEY, "xid")
}

/// The number by which clients are told a transaction: never 0, which stands for none.
pub fn transaction_number(id: u64) -> i32 {
    positive(id)
}

fn number(value: i32, ty: &str) -> Expr {
    literal(ScalarValue::Int32(Some(value)), OID_ALIAS_KEY, ty)
}

fn literal(value: ScalarValue, key: &str, ty: &str) -> Expr {
    let metadata = FieldMetadata::new([(key.to_owned(), ty.to_owned())].into());
    Expr::Literal(value, Some(metadata))
}

fn told(name: &str, data_type: DataType, key: &str, ty: &str) -> Field {
    Field::new(name, data_type, false).with_metadata([(key.to_owned(), ty.to_owned())].into())
}

/// From 1 to 2^31 - 1, which every client's type for numbers of transactions holds.
fn positive(number: u64) -> i32 {
    (number % (i32::MAX as u64)) as i32 + 1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Function {
    /// From the number of a row to its place as text.
    Place,
    /// From the values of a row to its version.
    Version,
}

fn function(function: Function) -> ScalarUDF {
    let signature = match function {
        Function::Place => Signature::exact(vec![DataType::Int64], Volatility::Immutable),
        Function::Version => Signature::variadic_any(Volatility::Immutable),
    };
    ScalarUDF::new_from_impl(OfRow { function, signature })
}

/// A function of a row. No statement can name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfRow {
    function: Function,
    signature: Signature,
}

impl ScalarUDFImpl for OfRow {
    fn name(&self) -> &str {
        match self.function {
            Function::Place => "__ctid",
            Function::Version => "__xmin",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.function {
            Function::Place => DataType::Utf8View,
            Function::Version => DataType::Int32,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(match self.function {
            Function::Place => told(self.name(), DataType::Utf8View, PG_TYPE_KEY, "tid"),
            Function::Version => transaction_field(self.name()),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values: ArrayRef = match self.function {
            Function::Place => {
                let rows = columns[0].as_primitive::<Int64Type>();
                Arc::new(rows.iter().map(|row| row.map(place)).collect::<StringViewArray>())
            }
            Function::Version => Arc::new(versions(&columns, rows)?),
        };
        match is_scalar {
            true => ScalarValue::try_from_array(&values, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

/// Bits of a block's number that tell the segment.
const SEGMENT_BITS: u32 = 21;

fn place(number: i64) -> String {
    let (partition, row) = ((number >> 32) as u32, RowId(number as u32));
    let block = (partition << SEGMENT_BITS) | row.segment_idx() as u32;
    format!("({block},{})", row.slot() + 1)
}

fn versions(columns: &[ArrayRef], rows: usize) -> Result<Int32Array> {
    if columns.is_empty() {
        return Ok(std::iter::repeat_n(Some(positive(0)), rows).collect());
    }
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect())?;
    let keys = converter.convert_columns(columns)?;
    Ok(keys.iter().map(|row| positive(hash(row.as_ref()))).collect::<Vec<_>>().into())
}

/// FNV-1a, its halves folded, because the lower bits of neighbours differ little.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    #[test]
    fn a_place_tells_partition_segment_and_slot() {
        assert_eq!(place(0), "(0,1)");
        assert_eq!(place(2047), "(0,2048)");
        assert_eq!(place(2048), "(1,1)");
        assert_eq!(place((3 << 32) | 5), "(6291456,6)");
    }

    #[test]
    fn equal_rows_have_equal_versions_and_a_null_is_no_text() {
        let names: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            Some("b"),
            Some("a"),
            None,
            Some(""),
            None,
        ]));
        let others: ArrayRef =
            Arc::new(StringArray::from(vec![None, None, None, Some("a"), Some("a"), Some("a")]));
        let all = versions(&[names, others], 6).unwrap();
        let of = |row| all.value(row);
        assert_eq!((of(0), of(3)), (of(2), of(5)));
        let different = [of(0), of(1), of(3), of(4)];
        assert!(different.iter().all(|version| *version > 0));
        assert!((0..4).all(|at| !different[..at].contains(&different[at])), "{different:?}");
    }

    #[test]
    fn a_transaction_is_never_told_as_none() {
        assert_eq!(transaction_number(0), 1);
        assert_eq!(transaction_number(i32::MAX as u64), 1);
        assert_eq!(transaction_number(41), 42);
    }
}
