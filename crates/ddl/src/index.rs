//! CREATE INDEX, and what changes indexes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, CreateIndex, Expr, IndexType, ObjectName, VisitMut, VisitorMut,
};
use halcyon_base::ids::IndexId;
use halcyon_base::progress::{self, Kind, Object};

use super::constraint::{
    KEY_COLUMNS_MAX, key_column, not_unique, refuse_key_without_partition_column,
};
use super::{DdlContext, fold, parts};
use halcyon_catalog::{Deferral, Derived, DerivedKey, Index, IndexColumn, Relation, Table};
use halcyon_collations::Collation;
use halcyon_functions::system_columns::queries as system_columns;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{last, quote_ident};
use halcyon_sql::types::SqlType;
use halcyon_store::{IndexDef, Partition, ValueRef};

/// `CREATE [UNIQUE] INDEX`.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateIndex) -> Result<()> {
    refuse_options(create)?;
    let table = cx.owned_table(&parts(&create.table_name)?)?;
    if table.is_stream() {
        return Err(halcyon_catalog::wrong_kind(&table.name, "table"));
    }
    let key = Key::of(cx, &table, create)?;
    let included = create.include.iter().map(|name| index_column(&table, &fold(name)));
    let included = included.collect::<Result<Vec<u16>>>()?;
    let operator_classes = operator_classes(create, &key.types(&table))?;
    let collations = collations(cx, &table, create, &key.types(&table))?;
    let name = match &create.name {
        Some(name) => {
            let name = last(name)?;
            if let (true, Err(taken)) =
                (create.if_not_exists, cx.catalog.refuse_taken(&table.schema, &name))
            {
                cx.notice(taken.state(), format!("{}, skipping", taken.message()));
                return Ok(());
            }
            cx.catalog.refuse_taken(&table.schema, &name)?;
            name
        }
        None => {
            let names = names(&create.columns).join("_");
            let stem = format!("{}_{names}_idx", table.name);
            cx.catalog.free_name(&table.schema, &stem, &[])
        }
    };
    if create.unique {
        refuse_key_without_partition_column(&table, &key.plain_columns(&table), "UNIQUE")?;
    }
    let (columns, derived) = match key {
        Key::Columns(columns) => (columns, None),
        Key::Derived(derived) => (Vec::new(), Some(derived)),
    };
    let index = Index {
        derived,
        // Rows of a view are written in any order, so that keys may meet before all of them are.
        unique: create.unique && table.materialized().is_none(),
        deferral: (create.unique && table.materialized().is_some()).then_some(Deferral::Immediate),
        nulls_not_distinct: create.nulls_distinct == Some(false),
        included,
        operator_classes,
        collations,
        ..Index::new(IndexId(cx.catalog.ids.oid()), name, columns)
    };
    let work = progress::begin(Kind::CreateIndex, Some(table.shown()));
    let _within = work.enter();
    build(cx, &table, &index)?;
    attach(cx, &table, index);
    Ok(())
}

fn refuse_options(create: &CreateIndex) -> Result<()> {
    match &create.using {
        None | Some(IndexType::BTree | IndexType::Hash) => {}
        Some(other) => {
            return Err(SqlError::unsupported(format!("access method {other}"))
                .hint("Indexes are B+trees; leave USING away."));
        }
    }
    Ok(())
}

/// What a new index is over.
enum Key {
    /// Columns, all rows.
    Columns(Vec<IndexColumn>),
    /// Expressions, or rows that satisfy a condition.
    Derived(Derived),
}

impl Key {
    fn of(cx: &DdlContext<'_>, table: &Table, create: &CreateIndex) -> Result<Key> {
        if create.columns.len() > KEY_COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index"),
            ));
        }
        let is_column =
            |key: &ast::IndexColumn| matches!(bare(&key.column.expr), Expr::Identifier(_));
        if create.predicate.is_none() && create.columns.iter().all(is_column) {
            return columns(table, create).map(Key::Columns);
        }
        if table.materialized().is_some() {
            return Err(SqlError::unsupported(
                "a partial index, or one over expressions, on a materialized view",
            )
            .hint("Put the condition or the expression into the view's query."));
        }
        let normal = |expr: &Expr| without_table(bare(expr).clone(), table);
        let exprs: Vec<Expr> = create.columns.iter().map(|key| normal(&key.column.expr)).collect();
        let predicate = create.predicate.as_ref().map(normal);
        let binder = cx.binder();
        let bound = halcyon_derived::bind(
            &binder,
            table,
            &exprs.iter().collect::<Vec<_>>(),
            predicate.as_ref(),
        )?;
        let keys = exprs.iter().zip(&create.columns).zip(bound.types).map(|((expr, key), ty)| {
            let descending = key.column.options.asc == Some(false);
            let (text, stands_alone) = match expr {
                Expr::Identifier(name) => (quote_ident(&fold(name)), true),
                expr => (binder.stored_text(expr), matches!(expr, Expr::Function(_))),
            };
            DerivedKey {
                expr: text,
                stands_alone,
                ty,
                descending,
                nulls_first: key.column.options.nulls_first.unwrap_or(descending),
            }
        });
        Ok(Key::Derived(Derived {
            keys: keys.collect(),
            predicate: predicate.map(|predicate| binder.stored_text(&predicate)),
            bound: Some(bound.derivation),
        }))
    }

    /// Types of the key's parts.
    fn types(&self, table: &Table) -> Vec<SqlType> {
        match self {
            Key::Columns(columns) => {
                columns.iter().map(|key| table.columns[key.column as usize].ty).collect()
            }
            Key::Derived(derived) => derived.keys.iter().map(|key| key.ty).collect(),
        }
    }

    /// Columns whose values stand in the key as they are.
    fn plain_columns(&self, table: &Table) -> Vec<u16> {
        match self {
            Key::Columns(columns) => columns.iter().map(|key| key.column).collect(),
            Key::Derived(derived) => {
                derived.keys.iter().filter_map(|key| key.column(table)).collect()
            }
        }
    }
}

/// An expression without brackets around all of it, and without its collation.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        Expr::Collate { expr, .. } => bare(expr),
        expr => expr,
    }
}

/// COLLATE of an index's key, which [`bare`] leaves out.
fn collation_of(expr: &Expr) -> Option<&ObjectName> {
    match expr {
        Expr::Nested(inner) => collation_of(inner),
        Expr::Collate { collation, .. } => Some(collation),
        _ => None,
    }
}

/// The collations that a statement gives the key's parts of these types, where they are other ones than theirs.
///
/// Errors: 42704, 42804.
fn collations(
    cx: &DdlContext<'_>,
    table: &Table,
    create: &CreateIndex,
    types: &[SqlType],
) -> Result<BTreeMap<u16, Collation>> {
    let mut found = BTreeMap::new();
    for (at, (key, ty)) in (0..).zip(create.columns.iter().zip(types)) {
        let Some(name) = collation_of(&key.column.expr) else { continue };
        let own = cx.column_collation(name, *ty)?;
        let of_column = match bare(&key.column.expr) {
            Expr::Identifier(name) => {
                let at = table.column(&fold(name));
                at.and_then(|at| table.columns[usize::from(at)].collation.clone())
            }
            _ => None,
        };
        if own != of_column {
            let default = || halcyon_collations::builtins()[0].collation.clone();
            found.insert(at, own.unwrap_or_else(default));
        }
    }
    Ok(found)
}

/// An expression whose columns do not name their table, so that the table may get another name.
pub(super) fn without_table(mut expr: Expr, table: &Table) -> Expr {
    struct Strip<'a>(&'a str);
    impl VisitorMut for Strip<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(names) = expr
                && let [.., table, column] = &names[..]
                && fold(table) == self.0
            {
                *expr = Expr::Identifier(column.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(&mut expr, &mut Strip(&table.name));
    expr
}

/// The names that PostgreSQL gives the columns of an index: of columns and functions, else `expr`.
pub(super) fn names(keys: &[ast::IndexColumn]) -> Vec<String> {
    keys.iter().map(|key| name_of(&key.column.expr)).collect()
}

/// The name of one of them.
pub(super) fn name_of(key: &Expr) -> String {
    match bare(key) {
        Expr::Identifier(name) => fold(name),
        Expr::CompoundIdentifier(names) => names.last().map(fold).unwrap_or_default(),
        Expr::Function(call) => last(&call.name).unwrap_or_default(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Trim { .. } => "btrim".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Case { .. } => "case".to_owned(),
        _ => "expr".to_owned(),
    }
}

/// Position of a column that an index is to have. Errors: 42703.
fn index_column(table: &Table, name: &str) -> Result<u16> {
    key_column(table, name).map_err(|_| {
        if system_columns::is_one(name) {
            let message = "index creation on system columns is not supported";
            return SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        }
        let message = format!("column \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// Operator classes of B+trees that are no type's own, and whether they are of `char(n)`, else of the other
/// types of texts. Texts are ordered by their bytes, so that each orders as its type does.
const OPERATOR_CLASSES: &[(&str, bool)] = &[
    ("varchar_ops", false),
    ("text_pattern_ops", false),
    ("varchar_pattern_ops", false),
    ("bpchar_pattern_ops", true),
];

/// Operator classes that are the types' own.
const CLASSES_OF_TYPES: &[&str] = &[
    "array_ops",
    "bool_ops",
    "bpchar_ops",
    "bytea_ops",
    "date_ops",
    "enum_ops",
    "float4_ops",
    "float8_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "interval_ops",
    "jsonb_ops",
    "numeric_ops",
    "text_ops",
    "time_ops",
    "timestamp_ops",
    "timestamptz_ops",
    "uuid_ops",
];

/// The operator class of a type.
fn own_class(ty: SqlType) -> &'static str {
    match ty {
        SqlType::Boolean => "bool_ops",
        SqlType::SmallInt => "int2_ops",
        SqlType::Integer => "int4_ops",
        SqlType::Oid => "oid_ops",
        SqlType::BigInt => "int8_ops",
        SqlType::Real => "float4_ops",
        SqlType::Double => "float8_ops",
        SqlType::Decimal { .. } => "numeric_ops",
        SqlType::Char(_) => "bpchar_ops",
        SqlType::Varchar(_) | SqlType::Text | SqlType::Json => "text_ops",
        SqlType::Bytea => "bytea_ops",
        SqlType::Date => "date_ops",
        SqlType::Time => "time_ops",
        SqlType::Timestamp => "timestamp_ops",
        SqlType::TimestampTz => "timestamptz_ops",
        SqlType::Interval => "interval_ops",
        SqlType::Uuid => "uuid_ops",
        SqlType::Jsonb => "jsonb_ops",
        SqlType::Inet => "inet_ops",
        SqlType::Cidr => "cidr_ops",
        SqlType::MacAddr => "macaddr_ops",
        SqlType::Array(_) => "array_ops",
        SqlType::Enum(_) => "enum_ops",
    }
}

/// The operator classes that a statement gives the key's parts of these types, but for the types' own.
///
/// Errors: 42704, 42804.
fn operator_classes(create: &CreateIndex, types: &[SqlType]) -> Result<BTreeMap<u16, String>> {
    let mut found = BTreeMap::new();
    for (at, (key, ty)) in (0..).zip(create.columns.iter().zip(types)) {
        let Some(class) = &key.operator_class else { continue };
        let class = last(class)?;
        let fits = match OPERATOR_CLASSES.iter().find(|(name, _)| *name == class) {
            Some((_, true)) => matches!(ty, SqlType::Char(_)),
            Some((_, false)) => matches!(ty, SqlType::Text | SqlType::Varchar(_)),
            None if own_class(*ty) == class => continue,
            None if CLASSES_OF_TYPES.contains(&class.as_str()) => false,
            None => {
                let message = format!(
                    "operator class \"{class}\" does not exist for access method \"btree\""
                );
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        };
        if !fits {
            let message = format!("operator class \"{class}\" does not accept data type {ty}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        found.insert(at, class);
    }
    Ok(found)
}

fn columns(table: &Table, create: &CreateIndex) -> Result<Vec<IndexColumn>> {
    let mut columns: Vec<IndexColumn> = Vec::new();
    for key in &create.columns {
        let Expr::Identifier(name) = bare(&key.column.expr) else {
            unreachable!("only keys of columns come here");
        };
        let descending = key.column.options.asc == Some(false);
        let column = index_column(table, &fold(name))?;
        if columns.iter().any(|other| other.column == column) {
            return Err(SqlError::unsupported("a column twice in an index"));
        }
        let nulls_first = key.column.options.nulls_first.unwrap_or(descending);
        columns.push(IndexColumn { column, descending, nulls_first });
    }
    Ok(columns)
}

/// Adds the index to every partition. Errors: 23505.
pub(super) fn build(cx: &mut DdlContext<'_>, table: &Arc<Table>, index: &Index) -> Result<()> {
    let rows = cx.count_rows(table)?;
    let object = Object::new(&table.schema, &index.name, index.id.0);
    progress::stage_of_index(object, rows * visits(index));
    cx.alter_all(table, |root| add(root, table, index))
}

/// How often [`add`] visits each row.
pub(super) fn visits(index: &Index) -> u64 {
    1 + u64::from(index.derived.is_some()) + u64::from(index.says_unique() && !index.unique)
}

/// Adds the index to a partition. Errors: 23505, also for keys that the index does not watch itself.
pub(super) fn add(root: &mut Partition, table: &Table, index: &Index) -> Result<()> {
    if index.derived.is_some() {
        // The store computes keys without a way to fail, so each row is tried before.
        let told = progress::Rows::default();
        for row in root.rows() {
            SqlError::unless_interrupted()?;
            told.next();
            let values: Vec<ValueRef<'_>> = row.values().collect();
            halcyon_derived::key_of(index, &values)?;
        }
    }
    let before = root.clone();
    let told = |conflict| not_unique(table, index, &before, conflict);
    if index.says_unique() && !index.unique {
        let watched = IndexDef { unique: true, ..index.def() };
        root.clone().add_index(watched).map_err(told)?;
    }
    root.add_index(index.def()).map_err(told)
}

/// Notes the index in the catalog.
pub(super) fn attach(cx: &mut DdlContext<'_>, table: &Table, index: Index) {
    let relation = Relation::Index { table: table.id, index: index.id };
    let name = index.name.clone();
    cx.catalog.change_table(table.id, |table| {
        if !table.indexes.iter().any(|own| own.id == index.id) {
            table.indexes.push(index);
        }
    });
    cx.catalog.put(&table.schema, &name, relation);
}

/// Takes an index out of catalog and partitions.
pub(super) fn detach(cx: &mut DdlContext<'_>, table: &Table, index: &Index) -> Result<()> {
    cx.alter_all(table, |root| {
        root.drop_index(index.id);
        Ok(())
    })?;
    cx.catalog.remove(&table.schema, &index.name);
    cx.catalog.change_table(table.id, |table| table.indexes.retain(|own| own.id != index.id));
    Ok(())
}

/// Binds the derived indexes of a table again, whose columns have changed.
///
/// Errors: an expression that the columns do not fit any more.
pub(super) fn rebind(cx: &DdlContext<'_>, table: &mut Table) -> Result<()> {
    if table.indexes.iter().all(|index| index.derived.is_none()) {
        return Ok(());
    }
    let as_it_is = table.clone();
    for derived in table.indexes.iter_mut().filter_map(|index| index.derived.as_mut()) {
        let bound = halcyon_derived::rebind(&cx.binder(), &as_it_is, derived)?;
        derived.keys.iter_mut().zip(bound.types).for_each(|(key, ty)| key.ty = ty);
        derived.bound = Some(bound.derivation);
    }
    Ok(())
}

/// Gives an index another name. Errors: 42P07.
pub(super) fn rename(
    cx: &mut DdlContext<'_>,
    table: halcyon_base::ids::TableId,
    index: IndexId,
    to: &str,
) -> Result<()> {
    let schema = cx.catalog.table(table).schema.clone();
    cx.catalog.refuse_taken(&schema, to)?;
    let from = cx.catalog.change_table(table, |table| {
        let own = table.indexes.iter_mut().find(|own| own.id == index);
        std::mem::replace(&mut own.expect("a named index is its table's").name, to.to_owned())
    });
    let relation = cx.catalog.remove(&schema, &from).expect("it was found by name");
    cx.catalog.put(&schema, to, relation);
    Ok(())
}
