//! Catalogs, schemas, tables, columns and constraints, as the standard's nested result has them.

use std::collections::HashMap;
use std::sync::Arc;

use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA,
    OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA, USAGE_SCHEMA,
};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader, StringArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use halcyon::{Session, Value, arrays};

use crate::errors::Result;
use crate::tree::{self, Column as Made, integers, lists, shorts, structures, texts, truths};

type Batches = Box<dyn RecordBatchReader + Send + 'static>;

/// Types of tables: what the standard calls them, and `pg_class.relkind`.
const TYPES: [(&str, &str); 4] =
    [("table", "r"), ("view", "v"), ("materialized_view", "m"), ("foreign_table", "f")];

/// What is asked for; names are patterns of LIKE.
pub struct Filter<'a> {
    /// How deep the result goes.
    pub depth: ObjectDepth,
    /// Catalogs.
    pub catalog: Option<&'a str>,
    /// Schemas. System schemas are found by their own names alone.
    pub schema: Option<&'a str>,
    /// Tables.
    pub table: Option<&'a str>,
    /// Types of tables, exactly.
    pub types: Option<Vec<&'a str>>,
    /// Columns.
    pub column: Option<&'a str>,
}

/// A catalog; lists below are `None` where the result does not go so deep.
pub struct Catalog {
    name: String,
    schemas: Option<Vec<Schema>>,
}

struct Schema {
    name: String,
    tables: Option<Vec<Table>>,
}

struct Table {
    name: String,
    kind: &'static str,
    columns: Option<Vec<Column>>,
    constraints: Option<Vec<Constraint>>,
}

struct Column {
    name: String,
    ordinal: i32,
    remarks: Option<String>,
    /// Type as SQL spells it.
    ty: String,
    not_null: bool,
    default: Option<String>,
    identity: bool,
    generated: bool,
}

struct Constraint {
    name: String,
    kind: &'static str,
    columns: Vec<String>,
    usage: Option<Vec<Usage>>,
}

#[derive(Clone)]
struct Usage {
    schema: String,
    table: String,
    column: String,
}

fn pattern(wanted: Option<&str>) -> Value {
    Value::Text(wanted.unwrap_or("%").to_owned())
}

/// Rows of texts that a query gives.
fn rows(
    session: &mut Session,
    sql: &str,
    params: &[Value],
) -> halcyon::Result<Vec<Vec<Option<String>>>> {
    let mut rows = session.query(sql, params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let texts =
            (0..row.len()).map(|at| row.get::<Option<&str>>(at).map(|t| t.map(str::to_owned)));
        found.push(texts.collect::<halcyon::Result<_>>()?);
    }
    Ok(found)
}

/// A cell that is no NULL.
fn text(cell: &mut Option<String>) -> String {
    cell.take().unwrap_or_default()
}

/// Looks everything up that a filter asks for.
pub fn found(session: &mut Session, filter: &Filter<'_>) -> halcyon::Result<Vec<Catalog>> {
    let sql = "SELECT current_database() WHERE current_database() LIKE $1";
    let catalogs = rows(session, sql, &[pattern(filter.catalog)])?;
    let mut found = Vec::new();
    for mut row in catalogs {
        let schemas = match filter.depth {
            ObjectDepth::Catalogs => None,
            _ => Some(schemas(session, filter)?),
        };
        found.push(Catalog { name: text(&mut row[0]), schemas });
    }
    Ok(found)
}

fn schemas(session: &mut Session, filter: &Filter<'_>) -> halcyon::Result<Vec<Schema>> {
    let sql = "SELECT nspname FROM pg_catalog.pg_namespace \
               WHERE nspname LIKE $1 AND (nspname = $1 OR NOT (starts_with(nspname, 'pg_') \
               OR nspname IN ('information_schema', 'halcyon'))) ORDER BY nspname";
    let names = rows(session, sql, &[pattern(filter.schema)])?;
    let mut below = match filter.depth {
        ObjectDepth::Schemas => None,
        _ => Some(tables(session, filter)?),
    };
    let schema = |mut row: Vec<Option<String>>| {
        let name = text(&mut row[0]);
        let tables = below.as_mut().map(|below| below.remove(&name).unwrap_or_default());
        Schema { name, tables }
    };
    Ok(names.into_iter().map(schema).collect())
}

/// Tables by schema.
fn tables(
    session: &mut Session,
    filter: &Filter<'_>,
) -> halcyon::Result<HashMap<String, Vec<Table>>> {
    let sql = "SELECT n.nspname, c.relname, CAST(c.relkind AS text), CAST(c.oid AS text) \
               FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname LIKE $1 AND c.relname LIKE $2 AND c.relkind IN ('r', 'v', 'm', 'f', 'p') \
               ORDER BY n.nspname, c.relname";
    let found = rows(session, sql, &[pattern(filter.schema), pattern(filter.table)])?;
    let deep = !matches!(filter.depth, ObjectDepth::Tables);
    let (mut columns, mut constraints) = match deep {
        true => (columns(session, filter)?, constraints(session, filter)?),
        false => Default::default(),
    };
    let mut by_schema = HashMap::<String, Vec<Table>>::new();
    for mut row in found {
        let letter = text(&mut row[2]);
        let kind =
            TYPES.iter().find(|(_, known)| *known == letter).map_or("table", |(kind, _)| kind);
        if filter.types.as_ref().is_some_and(|types| !types.contains(&kind)) {
            continue;
        }
        let oid = text(&mut row[3]);
        let table = Table {
            name: text(&mut row[1]),
            kind,
            columns: deep.then(|| columns.remove(&oid).unwrap_or_default()),
            constraints: deep.then(|| constraints.remove(&oid).unwrap_or_default()),
        };
        by_schema.entry(text(&mut row[0])).or_default().push(table);
    }
    Ok(by_schema)
}

/// Columns by the table's object id.
fn columns(
    session: &mut Session,
    filter: &Filter<'_>,
) -> halcyon::Result<HashMap<String, Vec<Column>>> {
    let sql = "SELECT CAST(a.attrelid AS text), a.attname, CAST(a.attnum AS text), \
               format_type(a.atttypid, a.atttypmod), CAST(a.attnotnull AS text), \
               pg_get_expr(d.adbin, d.adrelid), CAST(a.attidentity AS text), CAST(a.attgenerated AS text), \
               col_description(a.attrelid, CAST(a.attnum AS integer)) \
               FROM pg_catalog.pg_attribute a \
               JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
               WHERE a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE $1 AND c.relname LIKE $2 \
               AND a.attname LIKE $3 ORDER BY a.attrelid, a.attnum";
    let params = [filter.schema, filter.table, filter.column].map(pattern);
    let mut by_table = HashMap::<String, Vec<Column>>::new();
    for mut row in rows(session, sql, &params)? {
        let is_set = |cell: &Option<String>| {
            cell.as_deref().is_some_and(|text| !text.is_empty() && text != "\0")
        };
        let column = Column {
            name: text(&mut row[1]),
            ordinal: text(&mut row[2]).parse().unwrap_or(0),
            ty: text(&mut row[3]),
            not_null: text(&mut row[4]) == "true",
            identity: is_set(&row[6]),
            generated: is_set(&row[7]),
            default: row[5].take(),
            remarks: row[8].take(),
        };
        by_table.entry(text(&mut row[0])).or_default().push(column);
    }
    Ok(by_table)
}

/// Constraints by the table's object id.
fn constraints(
    session: &mut Session,
    filter: &Filter<'_>,
) -> halcyon::Result<HashMap<String, Vec<Constraint>>> {
    let sql = "SELECT CAST(k.conrelid AS text), k.conname, CAST(k.contype AS text), CAST(k.conkey AS text), \
               CAST(k.confrelid AS text), CAST(k.confkey AS text), fn.nspname, f.relname \
               FROM pg_catalog.pg_constraint k \
               JOIN pg_catalog.pg_class c ON c.oid = k.conrelid \
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               LEFT JOIN pg_catalog.pg_class f ON f.oid = k.confrelid \
               LEFT JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace \
               WHERE n.nspname LIKE $1 AND c.relname LIKE $2 AND k.contype IN ('c', 'f', 'p', 'u') \
               ORDER BY k.conrelid, k.conname";
    let found = rows(session, sql, &[pattern(filter.schema), pattern(filter.table)])?;
    if found.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT CAST(attrelid AS text), CAST(attnum AS text), attname \
               FROM pg_catalog.pg_attribute WHERE attnum > 0";
    let names = rows(session, sql, &[])?
        .into_iter()
        .map(|mut row| ((text(&mut row[0]), text(&mut row[1])), text(&mut row[2])));
    let names: HashMap<(String, String), String> = names.collect();
    let named = |table: &str, numbers: &Option<String>| -> halcyon::Result<Vec<String>> {
        let numbers = numbers.as_deref().map_or(Ok(Vec::new()), arrays::parse)?;
        let name = |number| names.get(&(table.to_owned(), number)).cloned().unwrap_or_default();
        Ok(numbers.into_iter().flatten().map(name).collect())
    };
    let mut by_table = HashMap::<String, Vec<Constraint>>::new();
    for mut row in found {
        let (table, other) = (text(&mut row[0]), text(&mut row[4]));
        let letter = text(&mut row[2]);
        let kind = match letter.as_str() {
            "c" => "CHECK",
            "f" => "FOREIGN KEY",
            "p" => "PRIMARY KEY",
            _ => "UNIQUE",
        };
        let columns = named(&table, &row[3])?;
        let usage = match kind {
            "FOREIGN KEY" => {
                let (schema, of) = (text(&mut row[6]), text(&mut row[7]));
                let usage = named(&other, &row[5])?.into_iter().map(|column| Usage {
                    schema: schema.clone(),
                    table: of.clone(),
                    column,
                });
                Some(usage.collect())
            }
            _ => None,
        };
        let constraint = Constraint { name: text(&mut row[1]), kind, columns, usage };
        by_table.entry(table).or_default().push(constraint);
    }
    Ok(by_table)
}

/// The result of a search as a stream.
pub fn reader(found: Vec<Catalog>) -> Result<Batches> {
    tree::reader(batch(found))
}

fn batch(found: Vec<Catalog>) -> std::result::Result<RecordBatch, ArrowError> {
    let names = texts(found.iter().map(|catalog| Some(catalog.name.as_str())));
    let below = found.into_iter().map(|catalog| catalog.schemas).collect();
    let schemas = lists(below, &OBJECTS_DB_SCHEMA_SCHEMA, |schemas: Vec<Schema>| {
        let names = texts(schemas.iter().map(|schema| Some(schema.name.as_str())));
        let below = schemas.into_iter().map(|schema| schema.tables).collect();
        let tables = lists(below, &TABLE_SCHEMA, of_tables)?;
        structures(&OBJECTS_DB_SCHEMA_SCHEMA, vec![names, tables])
    })?;
    RecordBatch::try_new(GET_OBJECTS_SCHEMA.clone(), vec![names, schemas])
}

fn of_tables(tables: Vec<Table>) -> Made {
    let names = texts(tables.iter().map(|table| Some(table.name.as_str())));
    let kinds = texts(tables.iter().map(|table| Some(table.kind)));
    let (columns, constraints) =
        tables.into_iter().map(|table| (table.columns, table.constraints)).unzip();
    let columns = lists(columns, &COLUMN_SCHEMA, of_columns)?;
    let constraints = lists(constraints, &CONSTRAINT_SCHEMA, of_constraints)?;
    structures(&TABLE_SCHEMA, vec![names, kinds, columns, constraints])
}

/// The fields of the standard's COLUMN_SCHEMA. Codes of types are those of ODBC (ISO/IEC 9075-3, CLI).
fn of_columns(columns: Vec<Column>) -> Made {
    let each = || columns.iter();
    let none_text = || texts(each().map(|_| None));
    let codes: Vec<_> = each().map(|column| code(&column.ty)).collect();
    let not_null = |column: &Column| if column.not_null { 0 } else { 1 };
    let is_nullable = |column: &Column| if column.not_null { "NO" } else { "YES" };
    let fields: Vec<ArrayRef> = vec![
        texts(each().map(|column| Some(column.name.as_str()))),
        integers(each().map(|column| Some(column.ordinal))),
        texts(each().map(|column| column.remarks.as_deref())),
        shorts(codes.iter().map(|code| code.data_type)),
        texts(each().map(|column| Some(column.ty.as_str()))),
        integers(codes.iter().map(|code| code.size)),
        shorts(codes.iter().map(|code| code.digits)),
        shorts(codes.iter().map(|code| code.radix)),
        shorts(each().map(|column| Some(not_null(column)))),
        texts(each().map(|column| column.default.as_deref())),
        shorts(codes.iter().map(|code| code.data_type.map(|ty| if ty > 90 { 9 } else { ty }))),
        shorts(codes.iter().map(|code| code.data_type.filter(|ty| *ty > 90).map(|ty| ty - 90))),
        integers(each().map(|_| None)),
        texts(each().map(|column| Some(is_nullable(column)))),
        none_text(),
        none_text(),
        none_text(),
        truths(each().map(|column| {
            let serial = column.default.as_deref().is_some_and(|text| text.starts_with("nextval("));
            Some(column.identity || serial)
        })),
        truths(each().map(|column| Some(column.generated))),
    ];
    structures(&COLUMN_SCHEMA, fields)
}

/// What ODBC says of a type.
#[derive(Default)]
struct Code {
    data_type: Option<i16>,
    size: Option<i32>,
    digits: Option<i16>,
    radix: Option<i16>,
}

/// The code of a type as SQL spells it, with its length or digits.
fn code(ty: &str) -> Code {
    let (name, rest) = ty.split_once('(').unwrap_or((ty, ""));
    let inner = rest.split_once(')').map_or("", |(inner, _)| inner);
    let mut numbers = inner.split(',').map(|number| number.trim().parse::<i32>().ok());
    let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
    let bits = |data_type, size| Code {
        data_type: Some(data_type),
        size: Some(size),
        digits: Some(0),
        radix: Some(2),
    };
    let of_length = |data_type| Code { data_type: Some(data_type), size: first, ..Code::default() };
    if ty.ends_with("[]") {
        return Code::default();
    }
    match name.trim() {
        "boolean" => of_length(-7),
        "smallint" => bits(5, 16),
        "integer" => bits(4, 32),
        "bigint" => bits(-5, 64),
        "real" => Code { digits: None, ..bits(7, 24) },
        "double precision" => Code { digits: None, ..bits(8, 53) },
        "numeric" => Code {
            data_type: Some(2),
            size: first,
            digits: second.or(first.map(|_| 0)).and_then(|digits| i16::try_from(digits).ok()),
            radix: Some(10),
        },
        "character" => of_length(1),
        "character varying" => of_length(12),
        "text" => of_length(-1),
        "bytea" => of_length(-3),
        "date" => of_length(91),
        _ if ty.starts_with("timestamp") => of_length(93),
        _ if ty.starts_with("time") => of_length(92),
        "uuid" => of_length(-11),
        _ => Code::default(),
    }
}

fn of_constraints(constraints: Vec<Constraint>) -> Made {
    let names = texts(constraints.iter().map(|constraint| Some(constraint.name.as_str())));
    let kinds = texts(constraints.iter().map(|constraint| Some(constraint.kind)));
    let (columns, usage): (Vec<_>, Vec<_>) =
        constraints.into_iter().map(|found| (Some(found.columns), found.usage)).unzip();
    let columns = lists(columns, &DataType::Utf8, |names| {
        Ok(texts(names.iter().map(|name| Some(name.as_str()))))
    })?;
    let usage = lists(usage, &USAGE_SCHEMA, |usage: Vec<Usage>| {
        let fields = vec![
            texts(usage.iter().map(|_| None)),
            texts(usage.iter().map(|of| Some(of.schema.as_str()))),
            texts(usage.iter().map(|of| Some(of.table.as_str()))),
            texts(usage.iter().map(|of| Some(of.column.as_str()))),
        ];
        structures(&USAGE_SCHEMA, fields)
    })?;
    structures(&CONSTRAINT_SCHEMA, vec![names, kinds, columns, usage])
}

/// The types of tables.
pub fn table_types() -> Result<Batches> {
    let names: StringArray = TYPES.iter().map(|(name, _)| Some(*name)).collect();
    let schema = GET_TABLE_TYPES_SCHEMA.clone();
    tree::reader(RecordBatch::try_new(schema, vec![Arc::new(names)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_codes_of_odbc() {
        for (ty, data_type, size, digits) in [
            ("integer", Some(4), Some(32), Some(0)),
            ("numeric(9,2)", Some(2), Some(9), Some(2)),
            ("character varying(20)", Some(12), Some(20), None),
            ("timestamp(6) with time zone", Some(93), Some(6), None),
            ("time without time zone", Some(92), None, None),
            ("integer[]", None, None, None),
            ("jsonb", None, None, None),
        ] {
            let code = code(ty);
            assert_eq!((code.data_type, code.size, code.digits), (data_type, size, digits), "{ty}");
        }
    }
}
