//! CREATE TABLE, in all its forms.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CreateTable, CreateTableOptions, Expr, GeneratedAs, SqlOption,
    TableConstraint,
};
use halcyon_base::ids::{PartitionId, TableId};
use halcyon_store::Partition;
use halcyon_txn::PartitionCell;

use super::columns::{self, new_sequence};
use super::constraint::{
    Judged, add_check, add_foreign_key, add_key, add_to_new, check_default, mirror,
};
use super::sequence::Wish;
use super::{
    DdlContext, Done, fold, identity_name, index, like, names, parts, row_schema, temporary,
};
use datafusion::logical_expr::ExprSchemable;
use halcyon_catalog::{Column, Identity, IndexConstraint, Partitioning, Relation, Sequence, Table};
use halcyon_derived::{Place, immutable};
use halcyon_exec::constraints::mentioned;
use halcyon_exec::dml::bulk;
use halcyon_plan::bind::Binder;
use halcyon_sql::coerce::assignable;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::parse_expr;
use halcyon_sql::syntax::{Like, is_mark_of_unique, is_without_data, named_sequence};
use halcyon_sql::type_names::serial;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of;

/// Most partitions of a table.
const PARTITIONS_MAX: u64 = 1024;

/// `CREATE TABLE [AS]`.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateTable) -> Result<Done> {
    refuse_clauses(create)?;
    let (schema, name) = cx.place_for(&parts(&create.name)?, create.temporary)?;
    if let Err(taken) = cx.catalog.refuse_taken(&schema, &name) {
        if !create.if_not_exists {
            return Err(taken);
        }
        cx.notice(taken.state(), format!("{}, skipping", taken.message()));
        return Ok(("CREATE TABLE", None));
    }
    let mut table = empty(cx, schema, name);
    table.on_commit = temporary::on_commit(&table, create)?;
    if let Some(query) = &create.query {
        return create_as(cx, create, table, query);
    }
    let mut sequences = Vec::new();
    let mut likes = Vec::new();
    for column in &create.columns {
        if let Some(like) = Like::of(column) {
            likes.push(like::columns(cx, &mut table, like, &mut sequences)?);
            continue;
        }
        let column = define_column(cx, &mut table, column, &mut sequences)?;
        columns::push(&mut table, column)?;
    }
    table.refresh_arrow();
    (0..table.columns.len()).try_for_each(|at| check_generated(&cx.binder(), &table, at))?;
    partition(&mut table, &create.table_options)?;
    for column in create.columns.iter().filter(|column| Like::of(column).is_none()) {
        column_constraints(cx, &mut table, column)?;
    }
    for constraint in &create.constraints {
        add_to_new(cx, &mut table, constraint)?;
    }
    likes.iter().try_for_each(|copied| like::rest(cx, &mut table, copied))?;
    let id = table.id;
    let keys = foreign_keys(cx, &mut table, create)?;
    finish(cx, table, sequences);
    keys.iter().for_each(|key| mirror(cx.catalog, id, key));
    Ok(("CREATE TABLE", None))
}

fn refuse_clauses(create: &CreateTable) -> Result<()> {
    let clause = if create.or_replace {
        "CREATE OR REPLACE TABLE"
    } else if create.external {
        "CREATE EXTERNAL TABLE"
    } else if create.partition_by.is_some() {
        return Err(SqlError::unsupported("PARTITION BY")
            .hint("Write WITH (partition_by = 'column', partitions = n)."));
    } else if create.partition_of.is_some() {
        return Err(SqlError::unsupported("PARTITION OF")
            .hint("A table has partitions by WITH (partition_by = 'column', partitions = n)."));
    } else if create.inherits.as_ref().is_some_and(|parents| !parents.is_empty()) {
        "INHERITS"
    } else if create.like.is_some() {
        "LIKE without brackets"
    } else if create.clone.is_some() {
        "CLONE"
    } else {
        return Ok(());
    };
    Err(SqlError::unsupported(clause))
}

pub(super) fn empty(cx: &DdlContext<'_>, schema: String, name: String) -> Table {
    let id = TableId(cx.catalog.ids.oid());
    Table::new(id, &schema, &name, cx.user(), Vec::new())
}

/// A column as declared, but for its keys and CHECKs. Sequences that it needs are added to
/// `sequences`, under names that are free.
pub(super) fn define_column(
    cx: &DdlContext<'_>,
    table: &mut Table,
    definition: &ast::ColumnDef,
    sequences: &mut Vec<Arc<Sequence>>,
) -> Result<Column> {
    let name = fold(&definition.name);
    if name.len() > super::NAME_BYTES_MAX {
        return Err(SqlError::new(SqlState::NAME_TOO_LONG, "a column's name is too long"));
    }
    let serial = serial(&definition.data_type);
    let (ty, domain);
    match serial {
        Some(integer) => (ty, domain) = (integer, None),
        None => (ty, domain) = cx.column_type(&definition.data_type)?,
    };
    let mut column = Column::new(name, ty);
    column.domain = domain;
    column.collation = domain
        .and_then(|id| cx.catalog.type_numbered(id)?.domain())
        .and_then(|domain| domain.collation.clone());
    let at = (table.id, table.columns.len() as u16);
    if serial.is_some() {
        let name = new_sequence(cx, table, &column.name, &Wish::default(), ty, at, sequences)?;
        let qualified = format!("{}.{}", names::quoted(&table.schema), names::quoted(&name));
        column.default = Some(format!("nextval('{}')", qualified.replace('\'', "''")));
        column.not_null = true;
    }
    nulls_agree(definition, serial.is_some(), &table.name)?;
    for option in &definition.options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => column.not_null = true,
            ColumnOption::Default(_) if column.default.is_some() => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!(
                        "multiple default values specified for column \"{}\" of table \"{}\"",
                        column.name, table.name
                    ),
                ));
            }
            ColumnOption::Default(expr) => column.default = default(cx, expr, &column)?,
            ColumnOption::Generated { generated_as, sequence_options, generation_expr, .. } => {
                let twice = match generation_expr {
                    Some(_) => column.generated.as_ref().map(|_| "generation clauses specified"),
                    None => column.identity.as_ref().map(|_| "identity specifications"),
                };
                if let Some(twice) = twice {
                    let (column, table) = (&column.name, &table.name);
                    let message =
                        format!("multiple {twice} for column \"{column}\" of table \"{table}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                if let Some(expr) = generation_expr {
                    // Bound once all columns are there.
                    let expr = index::without_table(index::bare(expr).clone(), table);
                    column.generated = Some(cx.binder().stored_text(&expr));
                    continue;
                }
                let wish = Wish::from_ast(None, sequence_options.as_deref().unwrap_or(&[]))?;
                let mut sequence = new_sequence(cx, table, &column.name, &wish, ty, at, sequences)?;
                if let Some(given) = given_name(definition) {
                    sequence = identity_name::named(cx, table, &parts(&given)?, sequences)?;
                }
                let always = matches!(generated_as, GeneratedAs::Always);
                column.identity = Some(Identity { always, sequence });
                column.not_null = true;
            }
            ColumnOption::PrimaryKey(_)
            | ColumnOption::Unique(_)
            | ColumnOption::ForeignKey(_)
            | ColumnOption::Check(_) => {}
            ColumnOption::Comment(comment) => column.comment = Some(comment.clone()),
            ColumnOption::Collation(name) => column.collation = cx.column_collation(name, ty)?,
            ColumnOption::CharacterSet(name) if named_sequence(name).is_some() => {}
            mark if is_mark_of_unique(mark) => {}
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    if column.generated.is_some() && (column.identity.is_some() || column.default.is_some()) {
        let other = if column.identity.is_some() { "identity" } else { "default" };
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!(
                "both {other} and generation expression specified for column \"{}\" of table \"{}\"",
                column.name, table.name
            ),
        ));
    }
    if column.identity.is_some() && column.default.is_some() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!(
                "both default and identity specified for column \"{}\" of table \"{}\"",
                column.name, table.name
            ),
        ));
    }
    Ok(column)
}

/// Errors: 42601 for NULL beside NOT NULL, an identity or a serial type.
fn nulls_agree(definition: &ast::ColumnDef, is_serial: bool, table: &str) -> Result<()> {
    let mut said = is_serial.then_some(false);
    for option in &definition.options {
        let says = match &option.option {
            ColumnOption::Null => true,
            ColumnOption::NotNull | ColumnOption::Generated { generation_expr: None, .. } => false,
            _ => continue,
        };
        if said.replace(says).is_some_and(|said| said != says) {
            let column = fold(&definition.name);
            let message = format!(
                "conflicting NULL/NOT NULL declarations for column \"{column}\" of table \"{table}\""
            );
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    Ok(())
}

/// SEQUENCE NAME of a column's identity.
fn given_name(definition: &ast::ColumnDef) -> Option<ast::ObjectName> {
    definition.options.iter().find_map(|option| match &option.option {
        ColumnOption::CharacterSet(name) => named_sequence(name),
        _ => None,
    })
}

/// Validates the expression of a generated column: immutable, over columns that are not generated, of a
/// type that the column takes. Does nothing for other columns.
pub(super) fn check_generated(binder: &Binder<'_>, table: &Table, at: usize) -> Result<()> {
    let column = &table.columns[at];
    let Some(text) = &column.generated else { return Ok(()) };
    let (expr, schema) = (parse_expr(text)?, row_schema(table)?);
    let mentioned = mentioned(&expr);
    let other = table.columns.iter().find(|c| c.generated.is_some() && mentioned.contains(&c.name));
    if let Some(other) = other {
        return Err(SqlError::new(
            SqlState::INVALID_OBJECT_DEFINITION,
            format!(
                "cannot use generated column \"{}\" in column generation expression",
                other.name
            ),
        )
        .detail("A generated column cannot reference another generated column."));
    }
    let bound = immutable(binder, &expr, &schema, Place::Generation)?;
    let field = bound.to_field(&schema).map_err(|e| halcyon_sql::diagnose::sql_error(e, ""))?.1;
    if field.data_type().is_null() {
        return Ok(());
    }
    match sql_type_of(&field) {
        Some(found) if assignable(found, column.ty) => Ok(()),
        found => {
            let found = found.map_or_else(|| "unknown".to_owned(), |found| found.to_string());
            Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" is of type {} but generation expression is of type {found}",
                    column.name, column.ty
                ),
            )
            .hint("You will need to rewrite or cast the expression."))
        }
    }
}

/// A DEFAULT as it is stored; DEFAULT NULL is none.
pub(super) fn default(cx: &DdlContext<'_>, expr: &Expr, column: &Column) -> Result<Option<String>> {
    if let Expr::Value(value) = expr
        && value.value == ast::Value::Null
    {
        // That of a domain would hold otherwise.
        return Ok(column.domain.map(|_| "NULL".to_owned()));
    }
    check_default(&cx.binder(), expr, &column.name, column.ty)?;
    Ok(Some(cx.binder().stored_text(expr)))
}

/// PRIMARY KEY, UNIQUE and CHECK beside a column.
pub(super) fn column_constraints(
    cx: &DdlContext<'_>,
    table: &mut Table,
    definition: &ast::ColumnDef,
) -> Result<()> {
    let name = fold(&definition.name);
    let column = table.require_column(&name)?;
    for option in &definition.options {
        let given = option.name.as_ref();
        match &option.option {
            ColumnOption::PrimaryKey(key) => {
                let (kind, how) = (IndexConstraint::PrimaryKey, Judged::primary(key)?);
                add_key(cx.catalog, table, kind, given, &[column], how)?;
            }
            ColumnOption::Unique(key) => {
                let (kind, how) = (IndexConstraint::Unique, Judged::unique(key, Some(definition))?);
                add_key(cx.catalog, table, kind, given, &[column], how)?;
            }
            ColumnOption::Check(check) => {
                let mut check = check.clone();
                check.name = check.name.or_else(|| given.cloned());
                add_check(&cx.binder(), table, &check, Some(&name))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Foreign keys beside columns and of the table, once all keys are there.
fn foreign_keys(
    cx: &DdlContext<'_>,
    table: &mut Table,
    create: &CreateTable,
) -> Result<Vec<halcyon_catalog::ForeignKey>> {
    let mut keys = Vec::new();
    for definition in &create.columns {
        for option in &definition.options {
            if let ColumnOption::ForeignKey(key) = &option.option {
                let key = of_column(key, definition, option.name.as_ref());
                keys.push(add_foreign_key(cx, table, &key)?);
            }
        }
    }
    for constraint in &create.constraints {
        if let TableConstraint::ForeignKey(key) = constraint {
            keys.push(add_foreign_key(cx, table, key)?);
        }
    }
    Ok(keys)
}

/// REFERENCES beside a column as the table constraint it stands for.
pub(super) fn of_column(
    key: &ast::ForeignKeyConstraint,
    definition: &ast::ColumnDef,
    name: Option<&ast::Ident>,
) -> ast::ForeignKeyConstraint {
    let mut key = key.clone();
    key.columns = vec![definition.name.clone()];
    key.name = key.name.or_else(|| name.cloned());
    key
}

/// Whether PostgreSQL has a storage parameter of this name. None says anything here.
pub(super) fn is_storage_parameter(name: &str) -> bool {
    const OTHERS: [&str; 4] =
        ["fillfactor", "parallel_workers", "toast_tuple_target", "user_catalog_table"];
    OTHERS.contains(&name) || name.starts_with("autovacuum_")
}

/// Reads WITH (partition_by = 'column', partitions = n).
fn partition(table: &mut Table, options: &CreateTableOptions) -> Result<()> {
    let options = match options {
        CreateTableOptions::None => &[],
        CreateTableOptions::With(options)
        | CreateTableOptions::Options(options)
        | CreateTableOptions::Plain(options)
        | CreateTableOptions::TableProperties(options) => options.as_slice(),
    };
    let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let (mut by, mut count) = (None, None);
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::unsupported(format!("the table option {option}")));
        };
        let text = value.to_string();
        let text = text.trim_matches('\'');
        match fold(key).as_str() {
            "partition_by" => by = Some(text.to_owned()),
            "partitions" => {
                let number = text.parse::<u64>().ok().filter(|n| (1..=PARTITIONS_MAX).contains(n));
                count = Some(number.ok_or_else(|| {
                    bad(format!("partitions must be between 1 and {PARTITIONS_MAX}"))
                })?);
            }
            name if is_storage_parameter(name) => {}
            other => return Err(bad(format!("unrecognized parameter \"{other}\""))),
        }
    }
    let count = match (by, count) {
        (None, None | Some(1)) => 1,
        (None, Some(_)) => {
            return Err(
                bad("partitions need a column".to_owned()).hint("Add partition_by = 'column'.")
            );
        }
        (Some(name), count) => {
            let column = table.require_column(&name)?;
            refuse_partition_type(&table.columns[column as usize])?;
            if table.columns[column as usize].generated.is_some() {
                return Err(SqlError::new(
                    SqlState::INVALID_OBJECT_DEFINITION,
                    "cannot use generated column in partition key",
                )
                .detail(format!("Column \"{name}\" is a generated column.")));
            }
            let count = count.unwrap_or_else(default_partitions);
            if count > 1 {
                table.partitioning = Partitioning::Column { column };
            }
            count
        }
    };
    // The cells are made when indexes and nullability are known; until then their number counts.
    let unbuilt = Arc::new(PartitionCell::unbuilt(PartitionId(0)));
    table.cells = vec![unbuilt; count as usize];
    Ok(())
}

/// One partition per core, unless the statement says how many.
fn default_partitions() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64).min(64)
}

fn refuse_partition_type(column: &Column) -> Result<()> {
    match column.ty {
        SqlType::Real | SqlType::Double | SqlType::Interval => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("cannot partition by column \"{}\" of type {}", column.name, column.ty),
        )),
        _ => Ok(()),
    }
}

/// Makes the partitions and puts table, indexes and sequences into the catalog.
fn finish(cx: &mut DdlContext<'_>, mut table: Table, sequences: Vec<Arc<Sequence>>) -> Arc<Table> {
    table.refresh_arrow();
    let schema = table.store_schema();
    let count = table.cells.len().max(1);
    table.cells = (0..count)
        .map(|_| {
            let mut root = Partition::new(schema.clone()).latched(cx.catalog.latches);
            for index in &table.indexes {
                root.add_index(index.def()).expect("an empty partition has no duplicates");
            }
            let id = cx.catalog.ids.partition();
            Arc::new(match table.is_temporary() {
                true => PartitionCell::derived(id, root),
                false => PartitionCell::new(id, root),
            })
        })
        .collect();
    let table = Arc::new(table);
    cx.catalog.put(&table.schema, &table.name, Relation::Table(table.clone()));
    for index in &table.indexes {
        let relation = Relation::Index { table: table.id, index: index.id };
        cx.catalog.put(&table.schema, &index.name, relation);
    }
    for sequence in sequences {
        let name = sequence.name.clone();
        cx.catalog.put(&table.schema, &name, Relation::Sequence(sequence));
    }
    table
}

/// CREATE TABLE … AS: the table has the query's columns; rows come in batches.
fn create_as(
    cx: &mut DdlContext<'_>,
    create: &CreateTable,
    mut table: Table,
    query: &ast::Query,
) -> Result<Done> {
    let source = bulk::Source::bind(&cx.binder(), query)?;
    let mut names: Vec<String> =
        source.columns().iter().map(|column| column.name.clone()).collect();
    if create.columns.len() > names.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    for (name, given) in names.iter_mut().zip(&create.columns) {
        *name = fold(&given.name);
    }
    let mut seen = HashSet::new();
    for (name, column) in names.iter().zip(source.columns()) {
        if !seen.insert(name.as_str()) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        let ty = column.ty.ok_or_else(|| {
            SqlError::unsupported(format!("a column of type {}", column.field.data_type()))
        })?;
        columns::push(&mut table, Column::of_result(name.clone(), ty, &column.field))?;
    }
    table.refresh_arrow();
    partition(&mut table, &create.table_options)?;
    let table = finish(cx, table, Vec::new());
    let handles = cx.lock(&table)?;
    let (env, df) = (cx.env, cx.datafusion);
    let binder = Binder::new(env.catalog, env.session, df);
    let rows = source.run_into(&binder, env, cx.tx, &cx.limits, &table, &handles)?;
    Ok(match is_without_data(query) {
        true => ("CREATE TABLE AS", None),
        false => ("SELECT", Some(rows)),
    })
}
