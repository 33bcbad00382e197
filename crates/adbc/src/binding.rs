//! Parameters of statements out of Arrow's batches, each row those of one run.

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, SchemaRef};
use halcyon::{SqlError, SqlState, SqlType, Value};
use halcyon_interchange::cells::{cell, push_item};
use halcyon_interchange::inputs::{self, Target};

/// Batches that a program has given.
pub type Given = Box<dyn RecordBatchReader + Send>;

/// Rows of parameters.
pub struct Params {
    given: Given,
    /// The schema in the engine's types.
    schema: SchemaRef,
    /// SQL types, `None` where the statement decides.
    types: Vec<Option<SqlType>>,
    current: Option<(RecordBatch, usize)>,
}

impl Params {
    /// The rows of batches. Errors: 0A000 for a column of a type that SQL has no other for.
    pub fn new(given: Given) -> halcyon::Result<Self> {
        let targets = inputs::targets(&given.schema())?;
        let types = targets.iter().map(sql_type).collect();
        Ok(Params { given, schema: inputs::schema(&targets), types, current: None })
    }

    /// The parameters' types.
    pub fn types(&self) -> &[Option<SqlType>] {
        &self.types
    }

    /// The next row. Errors: 22000 for a value that does not fit, and for an error of the program's stream.
    pub fn next_row(&mut self) -> halcyon::Result<Option<Vec<Value>>> {
        loop {
            if let Some((batch, row)) = &mut self.current
                && *row < batch.num_rows()
            {
                let at = *row;
                *row += 1;
                let values = batch.columns().iter().zip(&self.types);
                return Ok(Some(values.map(|(array, ty)| value(array, at, *ty)).collect()));
            }
            self.current = match self.given.next() {
                None => return Ok(None),
                Some(Err(error)) => {
                    return Err(SqlError::new(SqlState::DATA_EXCEPTION, error.to_string()));
                }
                Some(Ok(batch)) => Some((inputs::convert(&self.schema, &batch)?, 0)),
            };
        }
    }
}

/// A cell as a parameter: of an array its text.
fn value(array: &dyn Array, row: usize, ty: Option<SqlType>) -> Value {
    if !matches!(array.data_type(), DataType::List(_)) {
        return cell(array, row).to_owned();
    }
    if array.is_null(row) {
        return Value::Null;
    }
    let items = array.as_list::<i32>().value(row);
    let item = ty.and_then(SqlType::element);
    let mut text = String::from("{");
    for at in 0..items.len() {
        if at > 0 {
            text.push(',');
        }
        push_item(&mut text, cell(items.as_ref(), at), item);
    }
    text.push('}');
    Value::Text(text)
}

/// The SQL type of a parameter for a column; `None`: a text stands for whatever the statement wants.
fn sql_type(target: &Target) -> Option<SqlType> {
    match &target.arrow {
        DataType::List(item) => {
            let sql = target.sql.trim_end_matches("[]");
            plain_type(item.data_type(), sql).unwrap_or(SqlType::Text).array_of()
        }
        plain => plain_type(plain, &target.sql),
    }
}

fn plain_type(arrow: &DataType, sql: &str) -> Option<SqlType> {
    Some(match arrow {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int16 => SqlType::SmallInt,
        DataType::Int32 => SqlType::Integer,
        DataType::Int64 => SqlType::BigInt,
        DataType::Float32 => SqlType::Real,
        DataType::Float64 => SqlType::Double,
        DataType::Decimal128(precision, scale) => {
            SqlType::Decimal { precision: *precision, scale: *scale }
        }
        DataType::Utf8View if sql == "JSONB" => SqlType::Jsonb,
        DataType::BinaryView => SqlType::Bytea,
        DataType::Date32 => SqlType::Date,
        DataType::Time64(_) => SqlType::Time,
        DataType::Timestamp(_, None) => SqlType::Timestamp,
        DataType::Timestamp(_, Some(_)) => SqlType::TimestampTz,
        DataType::Interval(_) => SqlType::Interval,
        DataType::FixedSizeBinary(_) => SqlType::Uuid,
        _ => return None,
    })
}

/// The types of the parameters that batches of a schema give. Errors: as [`Params::new`].
pub fn types(schema: &SchemaRef) -> halcyon::Result<Vec<Option<SqlType>>> {
    Ok(inputs::targets(schema)?.iter().map(sql_type).collect())
}
