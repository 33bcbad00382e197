//! Tables that are the same in every database: types, functions, operators, …, as exported from
//! PostgreSQL (`exported`).
//!
//! `pg_proc` and `pg_operator` are cut down to what can be called here: known names over known
//! types. The functions of `pg_cast` stay, which psql's `\dC` shows by name; those that `pg_type`
//! mentions are names only.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, ListBuilder, RecordBatch, StringViewBuilder,
    new_null_array,
};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;

use super::exported::{Exported, ExportedTables};
use super::table::PG_TYPE_KEY;
use halcyon_sql::coerce::arrays;

/// Namespace of the rows of `pg_type`, `pg_proc` and their like.
pub(crate) const PG_CATALOG: u32 = 11;

fn all() -> &'static ExportedTables {
    static ALL: OnceLock<ExportedTables> = OnceLock::new();
    ALL.get_or_init(ExportedTables::read)
}

/// The fixed tables by name. `callable`: names of all functions that a query may call.
pub(crate) fn tables(callable: &HashSet<String>) -> Vec<(&'static str, Fixed)> {
    // Descriptions are a table of ours, with those of our own objects.
    let tables = all().all().into_iter().filter(|(name, _)| *name != "pg_description");
    let functions = |batch: &RecordBatch| can_be_called(batch, callable);
    let keep = |name: &str| -> Option<Keep<'_>> {
        match name {
            "pg_proc" => Some(&functions),
            "pg_operator" => Some(&can_be_applied),
            _ => None,
        }
    };
    tables.map(|(name, table)| (name, Fixed::of(table, keep(name)))).collect()
}

/// Marks the rows of a batch that stay.
type Keep<'a> = &'a dyn Fn(&RecordBatch) -> BooleanArray;

/// Types of values and columns, by name in `pg_type`.
#[rustfmt::skip]
const TYPES: &[&str] = &[
    "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar",
    "char", "name", "bytea", "date", "time", "timestamp", "timestamptz", "interval", "uuid", "oid",
    "json", "jsonb", "inet", "cidr", "macaddr",
    "any", "anyelement", "anynonarray", "anycompatible", "anycompatiblenonarray", "anyarray",
    "anycompatiblearray", "_text", "regclass", "regtype", "regnamespace", "regrole",
];

/// Names of functions that cannot be called like functions: used without parentheses, or refused.
const REFUSED: &[&str] = &["current_user", "session_user", "to_char", "to_date"];

/// Rows of `pg_proc` whose names are in `callable`, over known types.
fn can_be_called(batch: &RecordBatch, callable: &HashSet<String>) -> BooleanArray {
    let of_casts: HashSet<u32> =
        all().pg_cast.batches.iter().flat_map(|casts| integers(casts, "castfunc")).collect();
    let (oids, schemas) = (integers(batch, "oid"), integers(batch, "pronamespace"));
    let row = |(at, name): (usize, String)| {
        if of_casts.contains(&oids[at]) {
            return true;
        }
        let function = function(oids[at]).expect("made of the same rows");
        let known = |ty: &u32| has_type(*ty);
        schemas[at] == PG_CATALOG
            && callable.contains(&name)
            && !REFUSED.contains(&&*name)
            && known(&function.result)
            && function.arguments.iter().all(known)
    };
    texts(batch, "proname").into_iter().enumerate().map(row).map(Some).collect()
}

/// Rows of `pg_operator`.
fn can_be_applied(batch: &RecordBatch) -> BooleanArray {
    #[rustfmt::skip]
    const OPERATORS: &[&str] = &[
        "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "^", "&", "|", "#", "~", "<<",
        ">>", "||", "~~", "!~~", "~~*", "!~~*", "~*", "!~", "!~*",
    ];
    let [left, right, result] =
        ["oprleft", "oprright", "oprresult"].map(|name| integers(batch, name));
    let known = |ty: u32| ty == 0 || has_type(ty);
    let row = |(at, name): (usize, String)| {
        let is_bytes = |ty: u32| type_by_oid(ty).is_some_and(|ty| ty.name == "bytea");
        OPERATORS.contains(&&*name)
            && known(left[at])
            && known(right[at])
            && known(result[at])
            && !(name.ends_with("~~") && is_bytes(left[at]))
    };
    texts(batch, "oprname").into_iter().enumerate().map(row).map(Some).collect()
}

fn has_type(oid: u32) -> bool {
    type_by_oid(oid).is_some_and(|ty| TYPES.contains(&&*ty.name))
}

/// PostgreSQL's type of an exported column that came as text: names, letters, functions.
fn told_type(column: &str) -> Option<&'static str> {
    Some(match column {
        "typname" | "proname" | "oprname" | "collname" | "amname" | "opcname" | "opfname"
        | "lanname" | "cfgname" | "dictname" | "prsname" | "tmplname" | "conname" | "spcname"
        | "datname" | "nspname" => "name",
        "typtype" | "typcategory" | "typdelim" | "typalign" | "typstorage" | "prokind"
        | "provolatile" | "proparallel" | "oprkind" | "castcontext" | "castmethod"
        | "collprovider" | "amtype" | "amoppurpose" | "aggkind" | "aggfinalmodify"
        | "aggmfinalmodify" => "char",
        "typinput" | "typoutput" | "typreceive" | "typsend" | "typmodin" | "typmodout"
        | "typanalyze" | "typsubscript" | "oprcode" | "oprrest" | "oprjoin" | "prosupport"
        | "amhandler" | "prsstart" | "prstoken" | "prsend" | "prsheadline" | "prslextype"
        | "tmplinit" | "tmpllexize" | "aggfnoid" | "aggtransfn" | "aggfinalfn" | "aggcombinefn"
        | "aggserialfn" | "aggdeserialfn" | "aggmtransfn" | "aggminvtransfn" | "aggmfinalfn"
        | "conproc" | "rngcanonical" | "rngsubdiff" | "amproc" => "regproc",
        "proargtypes" => "oidvector",
        _ => return None,
    })
}

/// Elements of an exported column that came as texts of arrays, and PostgreSQL's type of the array if Arrow
/// cannot tell it.
fn array_type(column: &str) -> Option<(DataType, Option<&'static str>)> {
    Some(match column {
        "proargnames" => (DataType::Utf8View, None),
        "proargmodes" => (DataType::Utf8View, Some("char[]")),
        "proallargtypes" | "protrftypes" => (DataType::Int32, Some("oid[]")),
        "proconfig" => (DataType::Utf8View, None),
        _ => return None,
    })
}

/// Lists of the elements that texts of arrays have.
fn lists(column: &ArrayRef, field: &Field) -> ArrayRef {
    let texts = cast(column, &DataType::Utf8).expect("arrays were exported as texts");
    let rows = texts.as_string::<i32>().iter().map(|text| text.and_then(|t| arrays::parse(t).ok()));
    let rows: Vec<Option<Vec<Option<String>>>> = rows.collect();
    match array_type(field.name()) {
        Some((DataType::Int32, _)) => {
            let of = |row: Vec<Option<String>>| row.into_iter().map(|id| id?.parse::<i32>().ok());
            let rows = rows.into_iter().map(|row| row.map(|row| of(row).collect::<Vec<_>>()));
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
        }
        _ => {
            let mut builder = ListBuilder::new(StringViewBuilder::new());
            rows.into_iter().for_each(|row| builder.append_option(row));
            Arc::new(builder.finish())
        }
    }
}

/// Whether a column of this name holds functions (`regproc`).
pub(crate) fn is_function_column(column: &str) -> bool {
    told_type(column) == Some("regproc")
}

/// A table that never changes.
#[derive(Clone)]
pub(crate) struct Fixed {
    pub(crate) schema: SchemaRef,
    pub(crate) rows: Arc<Vec<RecordBatch>>,
}

impl Fixed {
    /// The exported table, but text has the Arrow type that it has in all tables here, and rights,
    /// which were exported as text, are lists without entries. If `keep` is given, only the rows
    /// that it marks.
    fn of(table: &Exported, keep: Option<Keep<'_>>) -> Fixed {
        let fields = table.schema.fields().iter().map(|field| match field.data_type() {
            DataType::Utf8 if field.name().ends_with("acl") => {
                let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
                let field = Field::new(field.name(), DataType::List(item), true);
                let told = (PG_TYPE_KEY.to_owned(), "aclitem[]".to_owned());
                Arc::new(field.with_metadata([told].into()))
            }
            _ if array_type(field.name()).is_some() => {
                let (item, told) = array_type(field.name()).expect("just looked at");
                let item = Arc::new(Field::new_list_field(item, true));
                let field = Field::new(field.name(), DataType::List(item), true);
                let told = told.map(|told| (PG_TYPE_KEY.to_owned(), told.to_owned()));
                Arc::new(field.with_metadata(told.into_iter().collect()))
            }
            _ => {
                let mut field = field.as_ref().clone();
                if *field.data_type() == DataType::Utf8 {
                    field.set_data_type(DataType::Utf8View);
                }
                if let Some(told) = told_type(field.name()) {
                    field.metadata_mut().insert(PG_TYPE_KEY.to_owned(), told.to_owned());
                }
                Arc::new(field)
            }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let convert = |batch: &RecordBatch| {
            let columns = batch.columns().iter().zip(schema.fields());
            let columns =
                columns.map(|(column, field)| match field.data_type() == column.data_type() {
                    true => Arc::clone(column),
                    false if *field.data_type() == DataType::Utf8View => {
                        cast(column, field.data_type()).expect("text stays text")
                    }
                    false if array_type(field.name()).is_some() => lists(column, field),
                    false => new_null_array(field.data_type(), column.len()),
                });
            let rows = RecordBatch::try_new(Arc::clone(&schema), columns.collect())
                .expect("columns have the fields' types");
            match keep {
                Some(keep) => filter_record_batch(&rows, &keep(batch)).expect("one mark per row"),
                None => rows,
            }
        };
        let rows = Arc::new(table.batches.iter().map(convert).collect());
        Fixed { schema, rows }
    }

    /// The table as DataFusion reads it, with more rows.
    pub(crate) fn provider(&self, more: Option<RecordBatch>) -> Arc<dyn TableProvider> {
        let rows = vec![self.rows.iter().cloned().chain(more).collect()];
        let table = MemTable::try_new(Arc::clone(&self.schema), rows);
        Arc::new(table.expect("batches have the schema"))
    }
}

/// Descriptions of built-in objects: (object, catalog, text).
pub(crate) fn descriptions() -> &'static [(u32, u32, String)] {
    static ALL: OnceLock<Vec<(u32, u32, String)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut rows = Vec::new();
        for batch in &all().pg_description.batches {
            let (objects, classes) = (integers(batch, "objoid"), integers(batch, "classoid"));
            for (at, text) in texts(batch, "description").into_iter().enumerate() {
                // Tables and schemas are Halcyon's own.
                if !matches!(classes[at], 1259 | 2615) {
                    rows.push((objects[at], classes[at], text));
                }
            }
        }
        rows
    })
}

/// A row of `pg_type`, as far as names need it.
pub(crate) struct TypeRow {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// The element's type, of arrays.
    pub(crate) element: Option<u32>,
    /// Bytes of a fixed width, −1 of others.
    pub(crate) length: i16,
}

fn types() -> &'static HashMap<u32, TypeRow> {
    static TYPES: OnceLock<HashMap<u32, TypeRow>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let mut types = HashMap::new();
        for batch in &all().pg_type.batches {
            let (oids, elements) = (integers(batch, "oid"), integers(batch, "typelem"));
            let lengths = integers(batch, "typlen");
            for (at, name) in texts(batch, "typname").into_iter().enumerate() {
                let element = Some(elements[at]).filter(|e| *e != 0);
                let length = lengths[at] as i16;
                types.insert(oids[at], TypeRow { oid: oids[at], name, element, length });
            }
        }
        types
    })
}

/// What a column of texts of `pg_type` says of a type.
pub(crate) fn type_cell(oid: u32, wanted: &str) -> Option<String> {
    all().pg_type.batches.iter().find_map(|batch| {
        let at = integers(batch, "oid").into_iter().position(|found| found == oid)?;
        Some(texts(batch, wanted).swap_remove(at))
    })
}

/// A type by id.
pub(crate) fn type_by_oid(oid: u32) -> Option<&'static TypeRow> {
    types().get(&oid)
}

/// A type by the name in `pg_type`.
pub(crate) fn type_by_name(name: &str) -> Option<&'static TypeRow> {
    types().values().find(|ty| ty.name == name)
}

/// A function of `pg_proc`, as far as descriptions need it.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) result: u32,
    pub(crate) returns_set: bool,
    pub(crate) arguments: Vec<u32>,
}

/// A function by id.
pub(crate) fn function(oid: u32) -> Option<&'static Function> {
    static FUNCTIONS: OnceLock<HashMap<u32, Function>> = OnceLock::new();
    FUNCTIONS.get_or_init(read_functions).get(&oid)
}

fn read_functions() -> HashMap<u32, Function> {
    let mut functions = HashMap::new();
    for batch in &all().pg_proc.batches {
        let (oids, results) = (integers(batch, "oid"), integers(batch, "prorettype"));
        let sets = column(batch, "proretset", &DataType::Boolean);
        let arguments = batch.column_by_name("proargtypes");
        for (at, name) in texts(batch, "proname").into_iter().enumerate() {
            let returns_set = sets.as_ref().is_some_and(|sets| sets.as_boolean().value(at));
            let arguments = arguments.map(|a| oid_vector(a, at)).unwrap_or_default();
            let function = Function { name, result: results[at], returns_set, arguments };
            functions.insert(oids[at], function);
        }
    }
    functions
}

/// An `oidvector`, exported as a list or as text with blanks.
fn oid_vector(array: &arrow::array::ArrayRef, at: usize) -> Vec<u32> {
    if let Some(list) = array.as_list_opt::<i32>() {
        let values = cast(&list.value(at), &DataType::Int32).expect("ids are integers");
        return values.as_primitive::<Int32Type>().values().iter().map(|v| *v as u32).collect();
    }
    let text = cast(&array.slice(at, 1), &DataType::Utf8).expect("anything is text");
    let text = text.as_string::<i32>().value(0).to_owned();
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// A row of `pg_operator`, as far as names need it.
pub(crate) struct OperatorRow {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// Types of the operands; 0 on the left of what stands before its operand.
    pub(crate) operands: [u32; 2],
}

/// All operators.
pub(crate) fn operators() -> &'static [OperatorRow] {
    static OPERATORS: OnceLock<Vec<OperatorRow>> = OnceLock::new();
    OPERATORS.get_or_init(|| {
        let mut rows = Vec::new();
        for batch in &all().pg_operator.batches {
            let [oids, left, right] =
                ["oid", "oprleft", "oprright"].map(|name| integers(batch, name));
            for (at, name) in texts(batch, "oprname").into_iter().enumerate() {
                rows.push(OperatorRow { oid: oids[at], name, operands: [left[at], right[at]] });
            }
        }
        rows
    })
}

/// Functions of a name, for `'name'::regproc`.
pub(crate) fn function_oid(name: &str) -> Option<u32> {
    for batch in &all().pg_proc.batches {
        let at = texts(batch, "proname").iter().position(|n| n == name);
        if let Some(at) = at {
            return Some(integers(batch, "oid")[at]);
        }
    }
    None
}

fn column(batch: &RecordBatch, name: &str, ty: &DataType) -> Option<arrow::array::ArrayRef> {
    cast(batch.column_by_name(name)?, ty).ok()
}

fn integers(batch: &RecordBatch, name: &str) -> Vec<u32> {
    let array = column(batch, name, &DataType::Int32).expect("the export has the column");
    let array = array.as_primitive::<Int32Type>();
    (0..array.len()).map(|at| if array.is_null(at) { 0 } else { array.value(at) as u32 }).collect()
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let array = column(batch, name, &DataType::Utf8).expect("the export has the column");
    array.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()).collect()
}
