//! Constraints of a table: how they are declared, named and verified against rows that exist.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    self, CheckConstraint, Expr, ForeignKeyConstraint, Ident, IndexColumn as AstKey,
    ReferentialAction, TableConstraint,
};
use halcyon_base::ids::{IndexId, TableId};
use halcyon_base::progress::{self, Phase};
use halcyon_store::{Conflict, Partition, ValueRef};

use super::{DdlContext, fold, parts, row_schema, temporary};
use halcyon_catalog::{
    Action, Catalog, Check, Column, Deferral, ForeignKey, Index, IndexColumn, IndexConstraint,
    Privilege, Table,
};
use halcyon_derived::{Place, of_one_row};
use halcyon_exec::constraints::{self, mentioned};
use halcyon_exec::key_types::may_refer;
use halcyon_plan::bind::Binder;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::{is_unique_with_null, set_on_delete};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of;

/// Most columns of an index.
pub(super) const KEY_COLUMNS_MAX: usize = 32;

/// A name given by the user, or `stem` with the suffix made free.
pub(super) fn constraint_name(table: &Table, given: Option<&Ident>, stem: &str) -> Result<String> {
    SqlError::unless_interrupted()?;
    let indexes = table.indexes.iter().map(|index| index.name.as_str());
    let checks = table.checks.iter().map(|check| check.name.as_str());
    let keys = table.foreign_keys.iter().map(|key| key.name.as_str());
    let names: HashSet<&str> = indexes.chain(checks).chain(keys).collect();
    let taken = |name: &str| names.contains(name);
    let Some(given) = given else {
        let numbered = (0..).map(|number| match number {
            0 => stem.to_owned(),
            number => format!("{stem}{number}"),
        });
        return Ok(numbered.into_iter().find(|name| !taken(name)).expect("numbers do not end"));
    };
    let name = fold(given);
    match taken(&name) {
        true => Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
        )),
        false => Ok(name),
    }
}

/// How a key is judged.
#[derive(Clone, Copy)]
pub(super) struct Judged {
    /// When, if it is DEFERRABLE.
    pub(super) deferral: Option<Deferral>,
    /// Whether NULL is equal to NULL.
    pub(super) nulls_not_distinct: bool,
}

impl Judged {
    /// Of a PRIMARY KEY. Errors: those of [`deferral`].
    pub(super) fn primary(key: &ast::PrimaryKeyConstraint) -> Result<Judged> {
        Ok(Judged { deferral: deferral(&key.characteristics)?, nulls_not_distinct: false })
    }

    /// Of a UNIQUE of a table, or of a column that is given. Errors: those of [`deferral`].
    pub(super) fn unique(
        key: &ast::UniqueConstraint,
        column: Option<&ast::ColumnDef>,
    ) -> Result<Judged> {
        let nulls_not_distinct = key.nulls_distinct == ast::NullsDistinctOption::NotDistinct
            || column.is_some_and(is_unique_with_null);
        Ok(Judged { deferral: deferral(&key.characteristics)?, nulls_not_distinct })
    }
}

/// Adds a PRIMARY KEY or UNIQUE constraint to the table's description; partitions are not touched.
pub(super) fn add_key(
    catalog: &Catalog,
    table: &mut Table,
    kind: IndexConstraint,
    name: Option<&Ident>,
    columns: &[u16],
    Judged { deferral, nulls_not_distinct }: Judged,
) -> Result<Index> {
    if kind == IndexConstraint::PrimaryKey && table.primary_key().is_some() {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("multiple primary keys for table \"{}\" are not allowed", table.name),
        ));
    }
    let stem = match kind {
        IndexConstraint::PrimaryKey => format!("{}_pkey", table.name),
        IndexConstraint::Unique => format!("{}_{}_key", table.name, column_names(table, columns)),
    };
    let mut name_of_index = constraint_name(table, name, &stem)?;
    match name {
        Some(_) => catalog.refuse_taken(&table.schema, &name_of_index)?,
        None => {
            let own: Vec<String> = table.indexes.iter().map(|index| index.name.clone()).collect();
            name_of_index = catalog.free_name(&table.schema, &name_of_index, &own);
        }
    }
    refuse_unpartitioned_key(table, columns, kind)?;
    if kind == IndexConstraint::PrimaryKey {
        columns.iter().for_each(|column| table.columns[*column as usize].not_null = true);
        table.refresh_arrow();
    }
    let key = |column: &u16| IndexColumn { column: *column, descending: false, nulls_first: false };
    let id = IndexId(catalog.ids.oid());
    let index = Index {
        unique: deferral.is_none(),
        nulls_not_distinct,
        constraint: Some(kind),
        deferral,
        ..Index::new(id, name_of_index, columns.iter().map(key).collect())
    };
    table.indexes.push(index.clone());
    Ok(index)
}

/// A unique key of a partitioned table must contain the column that says where a row lives; only
/// then is it enough to look in one partition.
fn refuse_unpartitioned_key(table: &Table, columns: &[u16], kind: IndexConstraint) -> Result<()> {
    let word = match kind {
        IndexConstraint::PrimaryKey => "PRIMARY KEY",
        IndexConstraint::Unique => "UNIQUE",
    };
    refuse_key_without_partition_column(table, columns, word)
}

/// See [`refuse_unpartitioned_key`].
pub(super) fn refuse_key_without_partition_column(
    table: &Table,
    columns: &[u16],
    word: &str,
) -> Result<()> {
    let Some(partition_column) = table.partition_column() else { return Ok(()) };
    if columns.contains(&partition_column) {
        return Ok(());
    }
    let name = &table.columns[partition_column as usize].name;
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "unique constraint on partitioned table must include all partitioning columns",
    )
    .detail(format!(
        "{word} constraint on table \"{}\" lacks column \"{name}\" which is part of the partition \
         key.",
        table.name
    ))
    .hint(format!("Add \"{name}\" to the key, or do not partition the table by it.")))
}

fn column_names(table: &Table, columns: &[u16]) -> String {
    let names: Vec<&str> =
        columns.iter().map(|column| table.columns[*column as usize].name.as_str()).collect();
    names.join("_")
}

/// Positions of the columns of a key. Errors: 42703, 42701, 54011.
pub(super) fn key_columns(table: &Table, keys: &[AstKey]) -> Result<Vec<u16>> {
    let mut columns = Vec::new();
    for key in keys {
        let Expr::Identifier(name) = &key.column.expr else {
            return Err(SqlError::unsupported("an expression in a constraint's key"));
        };
        columns.push(key_column(table, &fold(name))?);
    }
    refuse_repeats(table, &columns)?;
    Ok(columns)
}

/// Position of a column named in a key. Errors: 42703.
pub(super) fn key_column(table: &Table, name: &str) -> Result<u16> {
    table.column(name).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" named in key does not exist"),
        )
    })
}

fn refuse_repeats(table: &Table, columns: &[u16]) -> Result<()> {
    let mut seen = HashSet::new();
    if let Some(twice) = columns.iter().find(|column| !seen.insert(**column)) {
        let name = &table.columns[*twice as usize].name;
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{name}\" appears twice in constraint"),
        ));
    }
    if columns.len() > KEY_COLUMNS_MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index"),
        ));
    }
    Ok(())
}

/// Adds a CHECK constraint to the table's description.
pub(super) fn add_check(
    binder: &Binder<'_>,
    table: &mut Table,
    check: &CheckConstraint,
    of_column: Option<&str>,
) -> Result<Check> {
    if check.enforced == Some(false) {
        return Err(SqlError::unsupported("CHECK … NOT ENFORCED"));
    }
    let mut condition = &*check.expr;
    // Brackets around all of it are added where it is shown.
    while let Expr::Nested(inner) = condition {
        condition = inner;
    }
    let expr = binder.stored_text(condition);
    check_condition(binder, &check.expr, &row_schema(table)?)?;
    let stem = match of_column.map(str::to_owned).or_else(|| only_column(&check.expr)) {
        Some(column) => format!("{}_{column}_check", table.name),
        None => format!("{}_check", table.name),
    };
    let name = constraint_name(table, check.name.as_ref(), &stem)?;
    let check = Check::new(name, expr);
    table.checks.push(check.clone());
    Ok(check)
}

/// The column's name, if the expression mentions just one.
fn only_column(expr: &Expr) -> Option<String> {
    let mut names: Vec<String> = mentioned(expr).into_iter().collect();
    if names.len() == 1 { names.pop() } else { None }
}

/// 42804 unless the expression binds to BOOLEAN.
fn check_condition(binder: &Binder<'_>, expr: &Expr, schema: &DFSchema) -> Result<()> {
    use datafusion::logical_expr::ExprSchemable;
    let bound = binder.expr(expr, schema)?;
    of_one_row(expr, &bound, Place::Check)?;
    let ty = bound.get_type(schema).map_err(|error| halcyon_sql::diagnose::sql_error(error, ""))?;
    match ty {
        arrow::datatypes::DataType::Boolean | arrow::datatypes::DataType::Null => Ok(()),
        _ => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("argument of CHECK must be type boolean, not type {}", shown_type(&ty)),
        )),
    }
}

fn shown_type(ty: &arrow::datatypes::DataType) -> String {
    sql_type_of(&arrow::datatypes::Field::new("", ty.clone(), true))
        .map_or_else(|| ty.to_string(), |ty| ty.to_string())
}

/// Validates a DEFAULT: binds without columns, and to a type the column takes.
pub(super) fn check_default(
    binder: &Binder<'_>,
    expr: &Expr,
    column: &str,
    ty: SqlType,
) -> Result<()> {
    use datafusion::logical_expr::ExprSchemable;
    if !mentioned(expr).is_empty() {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot use column reference in DEFAULT expression",
        ));
    }
    let schema = DFSchema::empty();
    let bound = binder.expr(expr, &schema)?;
    of_one_row(expr, &bound, Place::Default)?;
    if let datafusion::logical_expr::Expr::Literal(value, _) = &bound {
        // A literal must already be a value of the column.
        return constraints::literal_value(value, ty, column).map(|_| ());
    }
    let given =
        bound.get_type(&schema).map_err(|error| halcyon_sql::diagnose::sql_error(error, ""))?;
    let given = sql_type_of(&arrow::datatypes::Field::new("", given, true));
    match given {
        Some(given) if halcyon_sql::coerce::assignable(given, ty) => Ok(()),
        given => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "column \"{column}\" is of type {ty} but default expression is of type {}",
                given.map_or_else(|| "unknown".to_owned(), |given| given.to_string())
            ),
        )
        .hint("You will need to rewrite or cast the expression.")),
    }
}

/// Adds a FOREIGN KEY to the table's description; the caller mirrors it in the target.
pub(super) fn add_foreign_key(
    cx: &DdlContext<'_>,
    table: &mut Table,
    key: &ForeignKeyConstraint,
) -> Result<ForeignKey> {
    let deferral = deferral(&key.characteristics)?;
    use ast::ConstraintReferenceMatchKind as Matching;
    if let Some(Matching::Partial) = key.match_kind {
        return Err(SqlError::unsupported("MATCH PARTIAL"));
    }
    let full = matches!(key.match_kind, Some(Matching::Full));
    let columns = key.columns.iter().map(|name| {
        table.column(&fold(name)).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "column \"{}\" referenced in foreign key constraint does not exist",
                    fold(name)
                ),
            )
        })
    });
    let columns = columns.collect::<Result<Vec<u16>>>()?;
    let on_delete_columns = columns_of_delete(table, key, &columns)?;
    let target_name = parts(&key.foreign_table)?;
    let refers_to_itself = target_name.last() == Some(&table.name)
        && (target_name.len() == 1 || target_name[target_name.len() - 2] == table.schema)
        && cx.catalog.resolve(&target_name, cx.search_path()).is_none();
    let found = match refers_to_itself {
        true => None,
        false => Some(cx.catalog.find_table(&target_name, cx.search_path())?),
    };
    // A table that refers to itself is looked at as it is being made.
    let found = found.filter(|found| found.id != table.id);
    if let Some(target) = &found {
        cx.catalog.require_on_table(cx.user(), target, Privilege::References)?;
    }
    let target: &Table = found.as_deref().unwrap_or(table);
    temporary::refuse_reference(table, target)?;
    let target_columns = target_columns(target, &key.referred_columns)?;
    let stem = format!("{}_{}_fkey", table.name, column_names(table, &columns));
    let name = constraint_name(table, key.name.as_ref(), &stem)?;
    if columns.len() != target_columns.len() {
        return Err(SqlError::new(
            SqlState::INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree",
        ));
    }
    for (column, target_column) in columns.iter().zip(&target_columns) {
        refuse_incompatible(
            &name,
            &table.columns[*column as usize],
            &target.columns[*target_column as usize],
        )?;
    }
    let covers = |index: &&Index| index.covers_exactly(&target_columns);
    if !target.indexes.iter().filter(covers).any(|index| index.unique) {
        if target.indexes.iter().filter(covers).any(Index::says_unique) {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "cannot use a deferrable unique constraint for referenced table \"{}\"",
                    target.name
                ),
            ));
        }
        return Err(SqlError::new(
            SqlState::INVALID_FOREIGN_KEY,
            format!(
                "there is no unique constraint matching given keys for referenced table \"{}\"",
                target.name
            ),
        ));
    }
    let key = ForeignKey {
        name,
        columns,
        target: target.id,
        target_columns,
        on_delete: action(key.on_delete.as_ref()),
        on_delete_columns,
        on_update: action(key.on_update.as_ref()),
        deferral,
        full,
        not_valid: false,
        comment: None,
    };
    table.foreign_keys.push(key.clone());
    Ok(key)
}

/// The columns that ON DELETE SET NULL or SET DEFAULT names. Errors: 42703; 42P10 for columns beside the key.
fn columns_of_delete(table: &Table, key: &ForeignKeyConstraint, own: &[u16]) -> Result<Vec<u16>> {
    let mut columns = Vec::new();
    for name in set_on_delete(key)? {
        let name = fold(&name);
        let missing = || {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        };
        let column = table.column(&name).ok_or_else(missing)?;
        if !own.contains(&column) {
            let message = format!(
                "column \"{name}\" referenced in ON DELETE SET action must be part of foreign key"
            );
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    Ok(columns)
}

fn target_columns(target: &Table, named: &[Ident]) -> Result<Vec<u16>> {
    if !named.is_empty() {
        return named
            .iter()
            .map(|name| {
                target.column(&fold(name)).ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_COLUMN,
                        format!(
                            "column \"{}\" referenced in foreign key constraint does not exist",
                            fold(name)
                        ),
                    )
                })
            })
            .collect();
    }
    let primary = target.primary_key().ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("there is no primary key for referenced table \"{}\"", target.name),
        )
    })?;
    Ok(primary.columns.iter().map(|key| key.column).collect())
}

/// Errors: 42804 unless the types are the same, or numbers of which the first becomes the second.
fn refuse_incompatible(name: &str, own: &Column, target: &Column) -> Result<()> {
    if may_refer(own.ty, target.ty) {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!("foreign key constraint \"{name}\" cannot be implemented"),
    )
    .detail(format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        own.name, target.name, own.ty, target.ty
    )))
}

fn action(action: Option<&ReferentialAction>) -> Action {
    match action {
        None | Some(ReferentialAction::NoAction) => Action::NoAction,
        Some(ReferentialAction::Restrict) => Action::Restrict,
        Some(ReferentialAction::Cascade) => Action::Cascade,
        Some(ReferentialAction::SetNull) => Action::SetNull,
        Some(ReferentialAction::SetDefault) => Action::SetDefault,
    }
}

/// Notes in the target that `table` refers to it.
pub(super) fn mirror(catalog: &mut Catalog, table: TableId, key: &ForeignKey) {
    catalog.change_table(key.target, |target| {
        target.referenced_by.push((table, key.name.clone()));
    });
}

/// Takes the note of [`mirror`] away.
pub(super) fn unmirror(catalog: &mut Catalog, table: TableId, key: &ForeignKey) {
    if catalog.tables.contains_key(&key.target) {
        catalog.change_table(key.target, |target| {
            target.referenced_by.retain(|note| *note != (table, key.name.clone()));
        });
    }
}

/// Adds a table constraint to a table that is being created; foreign keys are left to the caller,
/// who has all keys by then.
pub(super) fn add_to_new(
    cx: &DdlContext<'_>,
    table: &mut Table,
    constraint: &TableConstraint,
) -> Result<()> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let how = Judged::primary(key)?;
            let columns = key_columns(table, &key.columns)?;
            let name = key.name.as_ref().or(key.index_name.as_ref());
            add_key(cx.catalog, table, IndexConstraint::PrimaryKey, name, &columns, how)?;
        }
        TableConstraint::Unique(key) => {
            let how = Judged::unique(key, None)?;
            let columns = key_columns(table, &key.columns)?;
            let name = key.name.as_ref().or(key.index_name.as_ref());
            add_key(cx.catalog, table, IndexConstraint::Unique, name, &columns, how)?;
        }
        TableConstraint::Check(check) => {
            add_check(&cx.binder(), table, check, None)?;
        }
        TableConstraint::ForeignKey(_) => {}
        other => return Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
    Ok(())
}

/// What DEFERRABLE and INITIALLY say of a constraint. Errors: 42601, 0A000.
pub(super) fn deferral(how: &Option<ast::ConstraintCharacteristics>) -> Result<Option<Deferral>> {
    let Some(how) = how else { return Ok(None) };
    if how.enforced == Some(false) {
        return Err(SqlError::unsupported("a constraint NOT ENFORCED"));
    }
    let waits = how.initially == Some(ast::DeferrableInitial::Deferred);
    match how.deferrable {
        Some(false) if waits => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "constraint declared INITIALLY DEFERRED must be DEFERRABLE",
        )),
        _ if waits => Ok(Some(Deferral::Deferred)),
        Some(true) => Ok(Some(Deferral::Immediate)),
        _ => Ok(None),
    }
}

/// 23505 for an index that could not be built.
pub(super) fn not_unique(
    table: &Table,
    index: &Index,
    root: &Partition,
    conflict: Conflict,
) -> SqlError {
    let detail = root.row(conflict.row).map(|row| {
        let values: Vec<ValueRef<'_>> =
            index.columns.iter().map(|key| row.value(key.column as usize)).collect();
        constraints::key_text(table, index, &values)
    });
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("could not create unique index \"{}\"", index.name),
    )
    .detail(format!("Key {} is duplicated.", detail.unwrap_or_default()))
    .table(&table.schema, &table.name)
    .constraint(&index.name)
}

/// 23514 if a row of the table breaks the CHECK.
pub(super) fn verify_check(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    check: &Check,
) -> Result<()> {
    let program = constraints::compile_check(&cx.binder(), table, check)?;
    cx.stage_over(table, Phase::CheckingRows)?;
    let (env, mut arena) = (cx.env, halcyon_sql::coerce::Arena::new());
    cx.see_rows(table, |values| {
        if !constraints::holds(&program, values, env, &arena)? {
            return Err(SqlError::new(
                SqlState::CHECK_VIOLATION,
                format!(
                    "check constraint \"{}\" of relation \"{}\" is violated by some row",
                    check.name, table.name
                ),
            )
            .table(&table.schema, &table.name)
            .constraint(&check.name));
        }
        arena.reset();
        Ok(ControlFlow::Continue(()))
    })
}

/// 23503 if a row of the table refers to nothing.
pub(super) fn verify_foreign_key(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    key: &ForeignKey,
) -> Result<()> {
    let target = cx.catalog.table(key.target).clone();
    cx.stage_over(table, Phase::CheckingRows)?;
    let own = cx.lock(table)?;
    let theirs = cx.lock_cells(&target.cells, halcyon_txn::Mode::Shared)?;
    let lookup = constraints::KeyLookup::new(table, key, &target);
    let mut buffer = halcyon_store::KeyBuf::new();
    let told = progress::Rows::default();
    let roots = |handles: Vec<_>| -> Vec<_> {
        handles.into_iter().map(|handle| cx.tx.root(handle)).collect()
    };
    let (own, theirs) = (roots(own), roots(theirs));
    cx.tx.resting(|| {
        for row in own.iter().flat_map(|root| root.rows()) {
            told.next();
            let values: Vec<ValueRef<'_>> =
                key.columns.iter().map(|column| row.value(*column as usize)).collect();
            if constraints::refers_to_nothing(table, key, &values)? {
                continue;
            }
            let found = lookup.find(&values, &mut buffer, |partition| &theirs[partition as usize]);
            if found.is_none() {
                return Err(constraints::missing_reference(table, key, &target, &values));
            }
        }
        Ok(())
    })
}
