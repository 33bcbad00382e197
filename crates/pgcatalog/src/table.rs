//! How a system table is told: columns with kinds, and a function that writes its rows.
//!
//! The rows are made when a plan runs, not when it is bound, so a prepared statement sees the
//! sessions and locks of the moment. What comes from the catalog is that of the plan's version.
//!
//! Invariant, checked by `rows_are_made_of_named_columns`: only the macros of [`mod@super::view`] call
//! [`Rows::push`], with one cell per column, of the column's kind.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListBuilder, RecordBatch,
    RecordBatchOptions, StringViewBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::Context;
use super::exported::{OID_ALIAS_KEY, oid_field};

pub(crate) use halcyon_sql::types::PG_TYPE_KEY;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CatalogType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// `text`, and what behaves like it.
    Text,
    /// `name`.
    Name,
    /// `"char"`: one letter.
    Char,
    Oid,
    /// `timestamp with time zone`, microseconds since 1970.
    Time,
    /// `interval` of microseconds alone.
    Span,
    Texts,
    /// `aclitem[]`, as its text.
    Acl,
    Int2s,
    /// `int2vector`: subscripts begin at 0.
    Int2Vector,
    /// `oidvector`.
    Oids,
    /// `oid[]`.
    OidArray,
    /// `bytea`.
    Bytes,
}

impl CatalogType {
    fn field(self, name: &str) -> Field {
        let tagged = |ty: DataType, tag: &str| {
            Field::new(name, ty, true).with_metadata([(PG_TYPE_KEY.into(), tag.into())].into())
        };
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        match self {
            CatalogType::Bool => Field::new(name, DataType::Boolean, true),
            CatalogType::Int2 => Field::new(name, DataType::Int16, true),
            CatalogType::Int4 => Field::new(name, DataType::Int32, true),
            CatalogType::Int8 => Field::new(name, DataType::Int64, true),
            CatalogType::Float4 => Field::new(name, DataType::Float32, true),
            CatalogType::Float8 => Field::new(name, DataType::Float64, true),
            CatalogType::Text => Field::new(name, DataType::Utf8View, true),
            CatalogType::Name => tagged(DataType::Utf8View, "name"),
            CatalogType::Char => tagged(DataType::Utf8View, "char"),
            CatalogType::Oid => oid_field(name, "oid", true),
            CatalogType::Time => Field::new(name, time_type(), true),
            CatalogType::Span => {
                Field::new(name, DataType::Interval(IntervalUnit::MonthDayNano), true)
            }
            CatalogType::Texts => Field::new(name, list(DataType::Utf8View), true),
            CatalogType::Acl => tagged(list(DataType::Utf8View), "aclitem[]"),
            CatalogType::Int2s => Field::new(name, list(DataType::Int16), true),
            CatalogType::Int2Vector => tagged(list(DataType::Int16), "int2vector"),
            CatalogType::Oids => tagged(list(DataType::Int32), "oidvector"),
            CatalogType::OidArray => tagged(list(DataType::Int32), "oid[]"),
            CatalogType::Bytes => Field::new(name, DataType::BinaryView, true),
        }
    }

    /// Object id of the type in `pg_type`.
    pub(crate) fn type_oid(self) -> u32 {
        match self {
            CatalogType::Bool => 16,
            CatalogType::Int2 => 21,
            CatalogType::Int4 => 23,
            CatalogType::Int8 => 20,
            CatalogType::Float4 => 700,
            CatalogType::Float8 => 701,
            CatalogType::Text => 25,
            CatalogType::Name => 19,
            CatalogType::Char => 18,
            CatalogType::Oid => 26,
            CatalogType::Time => 1184,
            CatalogType::Span => 1186,
            CatalogType::Texts => 1009,
            CatalogType::Acl => 1034,
            CatalogType::Int2s => 1005,
            CatalogType::Int2Vector => 22,
            CatalogType::Oids => 30,
            CatalogType::OidArray => 1028,
            CatalogType::Bytes => 17,
        }
    }
}

fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

/// The `pg_type` id of an Arrow field of a system table.
pub(crate) fn type_oid(field: &Field) -> u32 {
    match field.metadata().get(PG_TYPE_KEY).map(String::as_str) {
        Some("tid") => return 27,
        Some("regproc") => return 24,
        Some("name") => return CatalogType::Name.type_oid(),
        Some("char") => return CatalogType::Char.type_oid(),
        Some("aclitem[]") => return CatalogType::Acl.type_oid(),
        Some("oid[]") => return CatalogType::OidArray.type_oid(),
        Some("name[]") => return 1003,
        Some("char[]") => return 1002,
        Some("int2vector") => return CatalogType::Int2Vector.type_oid(),
        Some("oidvector") => return CatalogType::Oids.type_oid(),
        _ => {}
    }
    match field.metadata().get(OID_ALIAS_KEY).map(String::as_str) {
        Some("xid") => return 28,
        Some("cid") => return 29,
        Some(_) => return CatalogType::Oid.type_oid(),
        None => {}
    }
    match field.data_type() {
        DataType::Boolean => 16,
        DataType::Int16 => 21,
        DataType::Int32 => 23,
        DataType::Int64 => 20,
        DataType::Float32 => 700,
        DataType::Float64 => 701,
        DataType::Timestamp(_, _) => 1184,
        DataType::Interval(_) => 1186,
        DataType::Binary | DataType::BinaryView => 17,
        DataType::List(item) => match item.data_type() {
            DataType::Int16 => 1005,
            DataType::Int32 => 1007,
            _ => 1009,
        },
        _ => 25,
    }
}

/// The `pg_type` id of any field: as of a system table, or of the SQL type that it stands for.
pub(crate) fn type_of(field: &Field) -> u32 {
    let metadata = field.metadata();
    let is_system = metadata.contains_key(OID_ALIAS_KEY) || metadata.contains_key(PG_TYPE_KEY);
    match halcyon_sql::values::sql_type_of(field).filter(|_| !is_system) {
        Some(ty) => ty.oid(),
        None => type_oid(field),
    }
}

/// A system table whose rows are written from the catalog or from the engine's state.
pub(crate) struct Def {
    /// Name within its schema.
    pub(crate) name: &'static str,
    /// Columns in order.
    pub(crate) columns: &'static [(&'static str, CatalogType)],
    /// Writes the rows.
    pub(crate) fill: fn(&Context, &mut Rows),
}

impl Def {
    /// A table that never has rows: PostgreSQL has such objects, Halcyon has none.
    pub(crate) const fn empty(
        name: &'static str,
        columns: &'static [(&'static str, CatalogType)],
    ) -> Def {
        Def { name, columns, fill: |_, _| () }
    }

    /// The columns as Arrow sees them.
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields: Vec<_> = self.columns.iter().map(|(name, kind)| kind.field(name)).collect();
        Arc::new(Schema::new(fields))
    }

    /// Rows of the table now.
    pub(crate) fn rows(&self, context: &Context) -> RecordBatch {
        let mut rows = Rows { width: self.columns.len(), cells: Vec::new() };
        (self.fill)(context, &mut rows);
        let count = rows.cells.len() / rows.width.max(1);
        let arrays = (self.columns.iter().enumerate())
            .map(|(at, (name, kind))| rows.array(at, *kind, self.name, name))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema(), arrays, &options)
            .expect("arrays are built from the columns' kinds")
    }
}

/// Rows in the making.
pub(crate) struct Rows {
    width: usize,
    cells: Vec<Cell>,
}

impl Rows {
    /// Adds one row.
    pub(crate) fn push<const N: usize>(&mut self, row: [Cell; N]) {
        assert_eq!(N, self.width, "cells of a row of a system table");
        self.cells.extend(row);
    }

    fn array(&self, column: usize, kind: CatalogType, table: &str, name: &str) -> ArrayRef {
        let cells = || self.cells.iter().skip(column).step_by(self.width);
        let wrong = |cell: &Cell| -> ! { panic!("{table}.{name}: {cell:?} is no {kind:?}") };
        macro_rules! build {
            ($builder:expr, $($pattern:pat => $value:expr),+) => {{
                let mut builder = $builder;
                for cell in cells() {
                    match cell {
                        Cell::Null => builder.append_null(),
                        $($pattern => builder.append_value($value),)+
                        other => wrong(other),
                    }
                }
                Arc::new(builder.finish())
            }};
        }
        macro_rules! lists {
            ($item:expr, $pattern:pat => $values:expr) => {{
                let mut builder = ListBuilder::new($item);
                for cell in cells() {
                    match cell {
                        Cell::Null => builder.append_null(),
                        $pattern => {
                            $values.for_each(|value| builder.values().append_value(value));
                            builder.append(true);
                        }
                        other => wrong(other),
                    }
                }
                Arc::new(builder.finish())
            }};
        }
        match kind {
            CatalogType::Bool => build!(BooleanBuilder::new(), Cell::Bool(v) => *v),
            CatalogType::Int2 => build!(Int16Builder::new(), Cell::Int(v) => *v as i16),
            CatalogType::Int4 | CatalogType::Oid => {
                build!(Int32Builder::new(), Cell::Int(v) => *v as i32)
            }
            CatalogType::Int8 => build!(Int64Builder::new(), Cell::Int(v) => *v),
            CatalogType::Float4 => build!(Float32Builder::new(), Cell::Float(v) => *v as f32),
            CatalogType::Float8 => build!(Float64Builder::new(), Cell::Float(v) => *v),
            CatalogType::Text | CatalogType::Name | CatalogType::Char => {
                build!(StringViewBuilder::new(), Cell::Str(v) => v, Cell::Text(v) => v)
            }
            CatalogType::Bytes => {
                build!(BinaryViewBuilder::new(), Cell::Str(v) => v, Cell::Text(v) => v)
            }
            CatalogType::Time => build!(
                TimestampMicrosecondBuilder::new().with_data_type(time_type()),
                Cell::Int(v) => *v
            ),
            CatalogType::Span => build!(
                IntervalMonthDayNanoBuilder::new(),
                Cell::Int(v) => IntervalMonthDayNano::new(0, 0, *v * 1000)
            ),
            CatalogType::Texts | CatalogType::Acl => {
                lists!(StringViewBuilder::new(), Cell::Texts(v) => v.iter())
            }
            CatalogType::Int2s | CatalogType::Int2Vector => {
                lists!(Int16Builder::new(), Cell::Ints(v) => v.iter().map(|v| *v as i16))
            }
            CatalogType::Oids | CatalogType::OidArray => {
                lists!(Int32Builder::new(), Cell::Ints(v) => v.iter().map(|v| *v as i32))
            }
        }
    }
}

/// One value of a row.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    /// Integers, object ids, and times and spans in microseconds.
    Int(i64),
    Float(f64),
    Str(&'static str),
    Text(String),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

/// The table as DataFusion reads it.
pub(crate) fn provider(def: &'static Def, context: &Arc<Context>) -> Arc<dyn TableProvider> {
    Arc::new(Written { def, context: Arc::clone(context), schema: def.schema() })
}

/// A table whose rows are written when a plan over it becomes physical, which is once for each execution.
///
/// The thread that begins the execution writes them, since it may wait: some tables count the rows of others,
/// whose writers it waits for. Operators find a table in memory, and wait for nothing.
struct Written {
    def: &'static Def,
    context: Arc<Context>,
    schema: SchemaRef,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system table {}", self.def.name)
    }
}

#[async_trait]
impl TableProvider for Written {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.def.rows(&self.context);
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![vec![rows]])?;
        table.scan(state, projection, filters, limit).await
    }
}
