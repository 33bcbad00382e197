//! Results as programs read them: row by row with typed columns, or as record batches.

use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanBuilder, Decimal128Builder,
    FixedSizeBinaryBuilder, LargeBinaryArray, PrimitiveBuilder, RecordBatch, RecordBatchOptions,
    StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use halcyon_base::memory::AccountId;
use halcyon_exec::analytic::BatchStream;
use halcyon_sql::coerce::nested::{is_nested, write_cell};
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of_arrow;
use halcyon_store::{Interval, Value, ValueRef};

use crate::activity::ResultWatch;
use crate::memory;
use crate::shared::Shared;
use crate::workload::InClass;
use halcyon_exec::deadline::Deadline;

/// The rows a statement returns.
///
/// Small results are complete from the start; large ones are computed as they are read, so that a
/// slow reader slows the statement down instead of filling memory. Dropping the rows ends the
/// statement.
pub struct Rows {
    columns: Arc<[ResultColumn]>,
    schema: Option<SchemaRef>,
    source: Source,
}

enum Source {
    Set { rows: RowSet, next: usize },
    Stream { batches: Box<Watched>, current: Option<Batch> },
}

/// Streamed rows, which are computed as they are read.
pub(crate) struct Streamed {
    pub batches: BatchStream,
    /// The deadline of the statement, if it has one.
    pub until: Option<Deadline>,
    /// The statement's membership in its workload class.
    pub in_class: Option<InClass>,
}

/// What a statement whose rows are still to be read is counted as.
pub(crate) struct CountedAs {
    pub shared: Arc<Shared>,
    pub text: Arc<str>,
    pub executor: &'static str,
}

/// What is told of a result while its rows are read.
pub(crate) struct Reader {
    /// The account of the statement.
    pub account: AccountId,
    pub watch: ResultWatch,
    pub counted: Option<CountedAs>,
}

/// A batch whose columns all have Arrow types that SQL knows, and the number of the next row.
struct Batch {
    columns: Vec<ArrayRef>,
    rows: usize,
    next: usize,
}

/// A row; its values live until the next one is read.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [ResultColumn],
    place: RowPlace<'a>,
}

#[derive(Clone, Copy)]
enum RowPlace<'a> {
    Set(&'a RowSet, usize),
    Batch(&'a [ArrayRef], usize),
}

impl Rows {
    pub(crate) fn from_set(columns: Arc<[ResultColumn]>, rows: RowSet) -> Self {
        Rows { columns, schema: None, source: Source::Set { rows, next: 0 } }
    }

    pub(crate) fn from_stream(
        columns: Arc<[ResultColumn]>,
        streamed: Streamed,
        reader: Reader,
    ) -> Self {
        let Streamed { batches, until, in_class } = streamed;
        let batches = Box::new(Watched { batches, deadline: until, reader, in_class });
        let source = Source::Stream { batches, current: None };
        Rows { columns, schema: None, source }
    }

    /// Marks the result as set aside: the session shows as idle until the next row is asked for.
    pub fn set_aside(&mut self) {
        if let Source::Stream { batches, .. } = &mut self.source {
            batches.reader.watch.set_reading(false);
        }
    }

    /// The columns of the result.
    pub fn columns(&self) -> &Arc<[ResultColumn]> {
        &self.columns
    }

    /// The next row, or `None` after the last.
    ///
    /// Errors: an error of the statement, raised while its rows are computed.
    #[allow(clippy::should_implement_trait)] // rows are lent, which `Iterator` cannot say
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        if !self.advance()? {
            return Ok(None);
        }
        let place = match &self.source {
            Source::Set { rows, next } => RowPlace::Set(rows, next - 1),
            Source::Stream { current, .. } => {
                let batch = current.as_ref().expect("advance found a row");
                RowPlace::Batch(&batch.columns, batch.next - 1)
            }
        };
        Ok(Some(Row { columns: &self.columns, place }))
    }

    /// Moves to the next row; false after the last.
    fn advance(&mut self) -> Result<bool> {
        match &mut self.source {
            Source::Set { rows, next } => {
                let found = *next < rows.len();
                *next += usize::from(found);
                Ok(found)
            }
            Source::Stream { batches, current } => loop {
                if let Some(batch) = current.as_mut().filter(|batch| batch.next < batch.rows) {
                    batch.next += 1;
                    return Ok(true);
                }
                match batches.next()? {
                    Some(batch) => *current = Some(Batch::new(&batch, &self.columns)?),
                    None => return Ok(false),
                }
            },
        }
    }

    /// Ready once the next row or batch is there, or why there is none: reading on does not wait.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            Source::Set { .. } => Poll::Ready(()),
            Source::Stream { current: Some(batch), .. } if batch.next < batch.rows => {
                Poll::Ready(())
            }
            Source::Stream { batches, .. } => batches.poll_ready(context),
        }
    }

    /// Whether rows are computed as they are read, in batches; otherwise all rows are present.
    pub fn is_streamed(&self) -> bool {
        matches!(self.source, Source::Stream { .. })
    }

    /// The remaining rows as record batches of SQL's types, computed one by one.
    pub fn batches(mut self) -> impl Iterator<Item = Result<RecordBatch>> {
        std::iter::from_fn(move || self.next_batch().transpose())
    }

    /// The next record batch (first the rest of the one being read), or `None` after the last.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let schema = self.schema.get_or_insert_with(|| schema(&self.columns)).clone();
        match &mut self.source {
            Source::Set { rows, next } => {
                let range = *next..rows.len();
                *next = rows.len();
                if range.is_empty() {
                    return Ok(None);
                }
                batch_of_set(&schema, &self.columns, rows, range).map(Some)
            }
            Source::Stream { batches, current } => {
                let batch = match current.take().filter(|batch| batch.next < batch.rows) {
                    Some(batch) => batch,
                    None => match batches.next()? {
                        Some(batch) => Batch::new(&batch, &self.columns)?,
                        None => return Ok(None),
                    },
                };
                let rest = batch.rows - batch.next;
                let slice = |column: &ArrayRef| column.slice(batch.next, rest);
                let columns = batch.columns.iter().map(slice).collect();
                record_batch(&schema, columns, rest).map(Some)
            }
        }
    }

    /// The remaining rows, owned.
    pub fn collect(mut self) -> Result<Vec<Vec<Value>>> {
        let mut out = Vec::new();
        while let Some(row) = self.next()? {
            out.push((0..row.len()).map(|column| row.value(column).to_owned()).collect());
        }
        Ok(out)
    }
}

impl<'a> Row<'a> {
    /// Number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether the row has no column.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The value of a column. Panics if the row has no such column.
    pub fn value(&self, column: usize) -> ValueRef<'a> {
        match self.place {
            RowPlace::Set(rows, row) => rows.value(row, column),
            RowPlace::Batch(columns, row) => value_at(columns[column].as_ref(), row),
        }
    }

    /// The value of a column as a Rust type.
    ///
    /// Errors: 42703 if the row has no such column, 42804 if the column has another type, 22002 if
    /// the value is NULL and `T` is not an `Option`.
    pub fn get<T: FromValue<'a>>(&self, column: usize) -> Result<T> {
        let Some(described) = self.columns.get(column) else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("the row has {} columns, not {}", self.len(), column + 1),
            ));
        };
        T::from_value(self.value(column)).map_err(|error| error.column(described.name.clone()))
    }
}

/// A Rust type as which a column can be read.
pub trait FromValue<'a>: Sized {
    /// Converts without loss. Errors: 42804, or 22002 for NULL.
    fn from_value(value: ValueRef<'a>) -> Result<Self>;
}

fn mismatch<T>(value: ValueRef<'_>) -> SqlError {
    let wanted = std::any::type_name::<T>();
    if matches!(value, ValueRef::Null) {
        return SqlError::new(
            SqlState::NULL_VALUE_NO_INDICATOR_PARAMETER,
            format!("the value is NULL, which {wanted} cannot hold"),
        )
        .hint("Read it as an Option.");
    }
    SqlError::new(SqlState::DATATYPE_MISMATCH, format!("{value:?} cannot be read as {wanted}"))
}

macro_rules! from_value {
    ($($rust:ty { $($pattern:pat => $value:expr),* $(,)? })*) => {
        $(impl<'a> FromValue<'a> for $rust {
            fn from_value(value: ValueRef<'a>) -> Result<Self> {
                match value {
                    $($pattern => Ok($value),)*
                    other => Err(mismatch::<$rust>(other)),
                }
            }
        })*
    };
}

from_value! {
    bool { ValueRef::Bool(v) => v }
    i16 { ValueRef::Int16(v) => v }
    i32 { ValueRef::Int16(v) => v.into(), ValueRef::Int32(v) | ValueRef::Date(v) => v }
    i64 {
        ValueRef::Int16(v) => v.into(), ValueRef::Int32(v) => v.into(), ValueRef::Int64(v) => v,
        ValueRef::Time(v) | ValueRef::Timestamp(v) | ValueRef::TimestampTz(v) => v,
    }
    i128 {
        ValueRef::Int16(v) => v.into(), ValueRef::Int32(v) => v.into(),
        ValueRef::Int64(v) => v.into(), ValueRef::Decimal(v) => v,
    }
    f32 { ValueRef::Float32(v) => v }
    f64 {
        ValueRef::Float32(v) => v.into(), ValueRef::Float64(v) => v,
        ValueRef::Int16(v) => v.into(), ValueRef::Int32(v) => v.into(),
    }
    &'a str { ValueRef::Text(v) => v }
    String { ValueRef::Text(v) => v.to_owned() }
    &'a [u8] { ValueRef::Bytes(v) => v }
    Vec<u8> { ValueRef::Bytes(v) => v.to_owned() }
    [u8; 16] { ValueRef::Uuid(v) => v }
    Interval { ValueRef::Interval(v) => v }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    fn from_value(value: ValueRef<'a>) -> Result<Self> {
        match value {
            ValueRef::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<'a> FromValue<'a> for ValueRef<'a> {
    fn from_value(value: ValueRef<'a>) -> Result<Self> {
        Ok(value)
    }
}

/// Batches, with the deadline that may end them, and whom an error among them is told.
struct Watched {
    batches: BatchStream,
    deadline: Option<Deadline>,
    reader: Reader,
    /// Ends with the rows.
    in_class: Option<InClass>,
}

impl Watched {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.reader.watch.set_reading(true);
        self.batches.poll_ready(context)
    }

    /// The next batch; an error names the deadline if that was the cause.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.reader.watch.set_reading(true);
        let _entered = self.reader.account.enter();
        match self.batches.next() {
            Some(Ok(batch)) => match memory::unless_refused(self.reader.account) {
                Ok(()) => {
                    self.reader.watch.add_rows(batch.num_rows());
                    Ok(Some(batch))
                }
                Err(error) => Err(self.fail(error)),
            },
            None => {
                self.reader.watch.set_reading(false);
                self.in_class = None;
                Ok(None)
            }
            Some(Err(error)) => Err(self.fail(error)),
        }
    }

    #[cold]
    fn fail(&mut self, error: SqlError) -> SqlError {
        self.reader.watch.fail();
        if let Some(in_class) = self.in_class.take() {
            in_class.fail();
        }
        if let Some(CountedAs { shared, text, executor }) = self.reader.counted.take() {
            shared.statements.count_late_error(&text, executor);
        }
        let error = memory::named(error, self.reader.account);
        let error = self.reader.watch.named(error);
        match &self.deadline {
            Some(deadline) if deadline.passed() => Deadline::name(error),
            _ => error,
        }
    }
}

impl Batch {
    fn new(batch: &RecordBatch, columns: &[ResultColumn]) -> Result<Self> {
        let convert = |(array, column): (&ArrayRef, &ResultColumn)| to_sql_type(array, column);
        let arrays = batch.columns().iter().zip(columns).map(convert).collect::<Result<_>>()?;
        Ok(Batch { columns: arrays, rows: batch.num_rows(), next: 0 })
    }
}

/// The schema of a result in SQL's types.
pub(crate) fn schema(columns: &[ResultColumn]) -> SchemaRef {
    let field = |column: &ResultColumn| {
        let ty = column.ty.unwrap_or(SqlType::Text);
        ty.field(&column.name, column.field.is_nullable()).with_data_type(ty.shown_arrow())
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Converts an array to the Arrow type of its SQL type; types unknown to SQL become text.
fn to_sql_type(array: &ArrayRef, column: &ResultColumn) -> Result<ArrayRef> {
    let arrow_error = |error: arrow::error::ArrowError| {
        SqlError::new(SqlState::DATATYPE_MISMATCH, error.to_string()).column(column.name.clone())
    };
    match column.ty {
        Some(SqlType::Jsonb) if *array.data_type() == DataType::LargeBinary => {
            Ok(documents_as_text(array.as_binary()))
        }
        Some(ty) if matches!(ty, SqlType::Array(_) | SqlType::Enum(_)) || ty.is_address() => {
            as_text(array).map_err(arrow_error)
        }
        Some(ty) if *array.data_type() == ty.shown_arrow() => Ok(array.clone()),
        Some(ty) => cast(array, &ty.shown_arrow()).map_err(arrow_error),
        None => as_text(array).map_err(arrow_error),
    }
}

/// Stored documents as their texts.
fn documents_as_text(documents: &LargeBinaryArray) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(documents.len());
    let mut text = String::new();
    for document in documents {
        text.clear();
        if let Some(document) = document {
            coerce::write(ValueRef::Bytes(document), SqlType::Jsonb, &TimeZone::UTC, &mut text);
        }
        builder.append_option(document.map(|_| text.as_str()));
    }
    Arc::new(builder.finish())
}

/// Any array as text; lists and structs in PostgreSQL's notation, labels as they are.
fn as_text(array: &ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let is_address = sql_type_of_arrow(array.data_type()).is_some_and(SqlType::is_address);
    let is_label = matches!(sql_type_of_arrow(array.data_type()), Some(SqlType::Enum(_)));
    if is_label || is_nested(array.data_type()) || is_address {
        let (zone, mut text) = (TimeZone::default(), String::new());
        for row in 0..array.len() {
            text.clear();
            write_cell(array, row, &zone, &mut text);
            builder.append_option(array.is_valid(row).then_some(text.as_str()));
        }
    } else {
        let options = FormatOptions::default().with_null("NULL");
        let values = ArrayFormatter::try_new(array, &options)?;
        for row in 0..array.len() {
            builder.append_option((!array.is_null(row)).then(|| values.value(row).to_string()));
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// A value of an array in one of SQL's Arrow types.
fn value_at(array: &dyn Array, row: usize) -> ValueRef<'_> {
    if array.is_null(row) {
        return ValueRef::Null;
    }
    match array.data_type() {
        DataType::Boolean => ValueRef::Bool(array.as_boolean().value(row)),
        DataType::Int16 => ValueRef::Int16(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => ValueRef::Int32(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => ValueRef::Int64(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => ValueRef::Float32(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => ValueRef::Float64(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => {
            ValueRef::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        DataType::Utf8View => ValueRef::Text(array.as_string_view().value(row)),
        DataType::BinaryView => ValueRef::Bytes(array.as_binary_view().value(row)),
        DataType::Date32 => ValueRef::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(_) => {
            ValueRef::Time(array.as_primitive::<Time64MicrosecondType>().value(row))
        }
        DataType::Timestamp(_, None) => {
            ValueRef::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Timestamp(_, Some(_)) => {
            ValueRef::TimestampTz(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            ValueRef::Interval(Interval {
                months: value.months,
                days: value.days,
                nanos: value.nanoseconds,
            })
        }
        DataType::FixedSizeBinary(16) => {
            let bytes = array.as_fixed_size_binary().value(row);
            ValueRef::Uuid(bytes.try_into().expect("sixteen bytes"))
        }
        DataType::Null => ValueRef::Null,
        other => unreachable!("{other} was brought to a type of SQL's"),
    }
}

fn record_batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// Rows of a row set as a batch.
fn batch_of_set(
    schema: &SchemaRef,
    columns: &[ResultColumn],
    rows: &RowSet,
    range: std::ops::Range<usize>,
) -> Result<RecordBatch> {
    let build = |(at, column): (usize, &ResultColumn)| {
        let values = range.clone().map(|row| rows.value(row, at));
        array_of(column.ty.unwrap_or(SqlType::Text), values)
    };
    record_batch(schema, columns.iter().enumerate().map(build).collect(), range.len())
}

macro_rules! primitive {
    ($arrow:ty, $values:expr, $($pattern:pat => $value:expr),+) => {{
        let mut builder = PrimitiveBuilder::<$arrow>::new();
        for value in $values {
            builder.append_option(match value { $($pattern => Some($value),)+ _ => None });
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

/// An array of `ty` from values of that type.
fn array_of<'a>(ty: SqlType, values: impl Iterator<Item = ValueRef<'a>>) -> ArrayRef {
    match ty {
        SqlType::Boolean => {
            let mut builder = BooleanBuilder::new();
            for value in values {
                builder.append_option(match value {
                    ValueRef::Bool(v) => Some(v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        SqlType::SmallInt => primitive!(Int16Type, values, ValueRef::Int16(v) => v),
        SqlType::Integer | SqlType::Oid => primitive!(Int32Type, values, ValueRef::Int32(v) => v),
        SqlType::BigInt => primitive!(Int64Type, values, ValueRef::Int64(v) => v),
        SqlType::Real => primitive!(Float32Type, values, ValueRef::Float32(v) => v),
        SqlType::Double => primitive!(Float64Type, values, ValueRef::Float64(v) => v),
        SqlType::Decimal { .. } => {
            let mut builder = Decimal128Builder::new().with_data_type(ty.arrow());
            for value in values {
                builder.append_option(match value {
                    ValueRef::Decimal(v) => Some(v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Text
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Array(_)
        | SqlType::Inet
        | SqlType::Cidr
        | SqlType::MacAddr
        | SqlType::Enum(_) => {
            let mut builder = StringViewBuilder::new();
            for value in values {
                builder.append_option(match value {
                    ValueRef::Text(v) => Some(v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        SqlType::Bytea => {
            let mut builder = BinaryViewBuilder::new();
            for value in values {
                builder.append_option(match value {
                    ValueRef::Bytes(v) => Some(v),
                    _ => None,
                });
            }
            Arc::new(builder.finish())
        }
        SqlType::Date => primitive!(Date32Type, values, ValueRef::Date(v) => v),
        SqlType::Time => primitive!(Time64MicrosecondType, values, ValueRef::Time(v) => v),
        SqlType::Timestamp => {
            primitive!(TimestampMicrosecondType, values, ValueRef::Timestamp(v) => v)
        }
        SqlType::TimestampTz => {
            let array = primitive!(TimestampMicrosecondType, values, ValueRef::TimestampTz(v) => v);
            Arc::new(
                array.as_primitive::<TimestampMicrosecondType>().clone().with_timezone("+00:00"),
            )
        }
        SqlType::Interval => primitive!(IntervalMonthDayNanoType, values,
            ValueRef::Interval(v) => IntervalMonthDayNano::new(v.months, v.days, v.nanos)),
        SqlType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            for value in values {
                match value {
                    ValueRef::Uuid(v) => builder.append_value(v).expect("sixteen bytes"),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}
