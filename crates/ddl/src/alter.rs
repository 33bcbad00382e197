//! ALTER TABLE, and moving relations (RENAME, OWNER, SET SCHEMA).

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, DataType, Expr,
    GeneratedAs, Ident, ObjectName, ObjectNamePart, RenameTableNameKind, SqlOption,
    TableConstraint, VisitMut, VisitorMut,
};
use halcyon_base::progress::{self, Kind, Phase, Unit, Work};
use halcyon_store::{ColumnDef as StoreColumn, Partition, RowRef, Value, ValueRef};

use super::constraint::{
    Judged, add_check, add_foreign_key, add_key, key_columns, mirror, verify_check,
    verify_foreign_key,
};
use super::dependents::{self, TableChange};
use super::feeds::{self, Before};
use super::remove::{drop_foreign_key, needed_by};
use super::sequence::Wish;
use super::{
    DdlContext, alter_key, alter_view, fold, identity, index, names, parts, renamed, role,
    row_schema, sequence, table, temporary, type_uses, using_index, view_uses,
};
use halcyon_catalog::{Index, IndexConstraint, Partitioning, Relation, Sequence, Table, TableKind};
use halcyon_exec::constraints::mentioned_in;
use halcyon_exec::dml::{Cell, Generated, default_cell};
use halcyon_functions::system_columns::queries as system_columns;
use halcyon_plan::scalar::Program;
use halcyon_sql::coerce::{self, Arena, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{last, quote_ident};
use halcyon_sql::parse::{parse_expr, parse_own_expr};
use halcyon_sql::syntax::{
    DROP_EXPRESSION, MoveTo, PASSED_OVER, RelationKind, TYPE_COLLATION, ViewChange,
};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::ArrayWriter;

/// ALTER TABLE: its operations one after the other.
pub(super) fn alter(cx: &mut DdlContext<'_>, alter: &AlterTable) -> Result<()> {
    let mut name = parts(&alter.name)?;
    if alter.if_exists && cx.catalog.resolve(&name, cx.search_path()).is_none() {
        let shown = name.join(".");
        cx.notice(
            SqlState::UNDEFINED_TABLE,
            format!("relation \"{shown}\" does not exist, skipping"),
        );
        return Ok(());
    }
    let (mut collation, mut work) = (None, None);
    let mut types: Vec<TypeChange<'_>> = Vec::new();
    for operation in &alter.operations {
        // What USING names is what the columns were before any of them has another type.
        if let AlterTableOperation::AlterColumn { column_name, op } = operation
            && let AlterColumnOperation::SetDataType { data_type, using, .. } = op
            && type_collation(operation).is_none()
            && dropped_expression(operation).is_none()
            && passed_over(operation).is_none()
        {
            let table = changeable(cx, &name)?;
            let column = fold(column_name);
            is_changeable(&table, &column, "alter")?;
            let at = table.require_column(&column)?;
            if types.iter().any(|change| change.at == at) {
                let message = format!("cannot alter type of column \"{column}\" twice");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            types.push(TypeChange {
                at,
                ty: data_type,
                collation: collation.take(),
                using: using.as_ref(),
            });
            continue;
        }
        if type_collation(operation).is_none() {
            set_types(cx, &name, &mut types, &mut work)?;
        }
        if let Some(name) = type_collation(operation) {
            collation = Some(name);
            continue;
        }
        if let AlterTableOperation::RenameTable { table_name } = operation {
            let (RenameTableNameKind::To(to) | RenameTableNameKind::As(to)) = table_name;
            let to = last(to)?;
            rename_relation(cx, &name, &to)?;
            *name.last_mut().expect("a name has parts") = to;
            continue;
        }
        if let AlterTableOperation::OwnerTo { new_owner } = operation {
            cx.owned(&name)?;
            let owner = role::owner_name(cx, new_owner)?;
            own_relation(cx, &name, &owner)?;
            continue;
        }
        if let Some(change) = of_view(cx, &name, operation)? {
            alter_view::alter(cx, &name, &change)?;
            continue;
        }
        let table = changeable(cx, &name)?;
        let work =
            work.get_or_insert_with(|| progress::begin(Kind::AlterTable, Some(table.shown())));
        let _within = work.enter();
        if let Some((column, if_exists)) = dropped_expression(operation) {
            drop_expression(cx, &table, &column, if_exists)?;
            continue;
        }
        if let Some(column) = passed_over(operation) {
            is_changeable(&table, &column, "alter")?;
            table.require_column(&column)?;
            continue;
        }
        apply(cx, table, operation)?;
    }
    set_types(cx, &name, &mut types, &mut work)
}

/// A change of a view that ALTER TABLE makes as ALTER VIEW does; `None` for what is no view, and for other changes.
fn of_view(
    cx: &DdlContext<'_>,
    name: &[String],
    operation: &AlterTableOperation,
) -> Result<Option<ViewChange>> {
    let found = cx.catalog.resolve(name, cx.search_path());
    if !found.is_some_and(|found| matches!(found.relation, Relation::View(_))) {
        return Ok(None);
    }
    Ok(match operation {
        AlterTableOperation::SetOptionsParens { options } => {
            Some(ViewChange::Set(alter_view::pairs(options)?))
        }
        AlterTableOperation::AlterColumn {
            column_name,
            op: AlterColumnOperation::SetDefault { value },
        } => Some(ViewChange::Default(column_name.clone(), Some(Box::new(value.clone())))),
        AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::DropDefault } => {
            Some(ViewChange::Default(column_name.clone(), None))
        }
        _ => None,
    })
}

/// Errors: 22023 for an option that is no storage parameter, 42704 for CLUSTER ON an index that is not the table's.
fn check_options(table: &Table, options: &[SqlOption]) -> Result<()> {
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::unsupported(format!("the table option {option}")));
        };
        let name = fold(key);
        if key.value == PASSED_OVER {
            let Expr::Identifier(index) = value else { continue };
            let index = fold(index);
            if table.indexes.iter().all(|own| own.name != index) {
                let message =
                    format!("index \"{index}\" for table \"{}\" does not exist", table.name);
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
        } else if !table::is_storage_parameter(&name) {
            let message = format!("unrecognized parameter \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(())
}

/// The column of a change that says nothing here ([`PASSED_OVER`]).
fn passed_over(operation: &AlterTableOperation) -> Option<String> {
    match operation {
        AlterTableOperation::AlterColumn {
            column_name,
            op: AlterColumnOperation::SetDataType { using: Some(Expr::Identifier(mark)), .. },
        } if mark.value == PASSED_OVER => Some(fold(column_name)),
        _ => None,
    }
}

/// The column of DROP EXPRESSION ([`DROP_EXPRESSION`]), and whether it says IF EXISTS.
fn dropped_expression(operation: &AlterTableOperation) -> Option<(String, bool)> {
    let AlterTableOperation::AlterColumn {
        column_name,
        op: AlterColumnOperation::SetDataType { using: Some(Expr::Identifier(mark)), .. },
    } = operation
    else {
        return None;
    };
    let suffix = mark.value.strip_prefix(DROP_EXPRESSION)?;
    Some((fold(column_name), !suffix.is_empty()))
}

/// Whether an expression is a cast of this column and nothing else.
fn is_cast_of(expr: &Expr, column: &str) -> bool {
    match expr {
        Expr::Cast { expr, .. } => is_cast_of(expr, column),
        Expr::Nested(expr) => is_cast_of(expr, column),
        Expr::Identifier(name) => fold(name) == column,
        _ => false,
    }
}

/// Makes a plain column of a generated one; its values stay. Errors: 42703; 55000 for other columns.
fn drop_expression(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    column: &str,
    if_exists: bool,
) -> Result<()> {
    is_changeable(table, column, "alter")?;
    let at = table.require_column(column)?;
    if table.columns[usize::from(at)].generated.is_some() {
        cx.catalog.change_table(table.id, |table| {
            table.columns[usize::from(at)].generated = None;
        });
        return Ok(());
    }
    let message = format!(
        "column \"{column}\" of relation \"{}\" is not a stored generated column",
        table.name
    );
    let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
    if if_exists {
        cx.notice(state, format!("{message}, skipping"));
        return Ok(());
    }
    Err(SqlError::new(state, message))
}

/// The collation that the next change of a column's type is to give it ([`TYPE_COLLATION`]).
fn type_collation(operation: &AlterTableOperation) -> Option<ObjectName> {
    let AlterTableOperation::AlterColumn { op, .. } = operation else { return None };
    let AlterColumnOperation::SetDataType { data_type: DataType::Custom(name, _), .. } = op else {
        return None;
    };
    let mut names = name.0.iter().filter_map(ObjectNamePart::as_ident);
    let is_mark = names.next().is_some_and(|first| first.value == TYPE_COLLATION);
    is_mark.then(|| ObjectName(name.0[1..].to_vec()))
}

/// The table of this name, if ALTER TABLE may change it. Errors: 42P01, 42809, 42501, 55006.
pub(super) fn changeable(cx: &DdlContext<'_>, name: &[String]) -> Result<Arc<Table>> {
    let table = cx.owned_table(name)?;
    if !matches!(table.kind, TableKind::Ordinary) {
        return Err(SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("ALTER TABLE cannot change {} \"{}\"", table.kind.name(), table.name),
        )
        .hint("Drop it and create it again; only its name, owner and schema can change."));
    }
    cx.refuse_pending(&table, "ALTER TABLE")?;
    Ok(table)
}

/// Carries out one change of ALTER TABLE. Errors: those of the change.
pub(super) fn apply(
    cx: &mut DdlContext<'_>,
    table: Arc<Table>,
    operation: &AlterTableOperation,
) -> Result<()> {
    use AlterTableOperation as Op;
    SqlError::unless_interrupted()?;
    match operation {
        Op::AddColumn { if_not_exists, column_def, .. } => {
            add_column(cx, &table, column_def, *if_not_exists)
        }
        Op::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            for name in column_names {
                let table = cx.catalog.table(table.id).clone();
                let cascade = is_cascade(drop_behavior);
                drop_column(cx, &table, &fold(name), *if_exists, cascade)?;
            }
            Ok(())
        }
        Op::RenameColumn { old_column_name, new_column_name } => {
            rename_column(cx, &table, &fold(old_column_name), &fold(new_column_name))
        }
        Op::AlterColumn { column_name, op } => alter_column(cx, &table, &fold(column_name), op),
        Op::AddConstraint { constraint: TableConstraint::ForeignKey(key), .. }
            if alter_key::is_meant(key) =>
        {
            alter_key::alter(cx, &table, key)
        }
        Op::AddConstraint { constraint, not_valid } => {
            let may_wait =
                matches!(constraint, TableConstraint::Check(_) | TableConstraint::ForeignKey(_));
            if *not_valid && !may_wait {
                let message = "only CHECK and FOREIGN KEY constraints can be NOT VALID";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            add_constraint(cx, &table, constraint, *not_valid)
        }
        Op::DropConstraint { if_exists, name, drop_behavior } => {
            drop_constraint(cx, &table, &fold(name), *if_exists, is_cascade(drop_behavior))
        }
        Op::RenameConstraint { old_name, new_name } => {
            rename_constraint(cx, &table, &fold(old_name), &fold(new_name))
        }
        Op::ValidateConstraint { name } => validate_constraint(cx, &table, &fold(name)),
        Op::SetOptionsParens { options } => check_options(&table, options),
        // There is no stream of changes to read rows' identities from.
        Op::ReplicaIdentity { .. } => Ok(()),
        other => Err(SqlError::unsupported(format!("ALTER TABLE … {other}"))),
    }
}

fn is_cascade(behavior: &Option<datafusion::sql::sqlparser::ast::DropBehavior>) -> bool {
    matches!(behavior, Some(datafusion::sql::sqlparser::ast::DropBehavior::Cascade))
}

// ------------------------------------------------------------------ columns

fn add_column(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    definition: &ColumnDef,
    if_not_exists: bool,
) -> Result<()> {
    let name = fold(&definition.name);
    super::columns::is_no_system_column(&name)?;
    if table.column(&name).is_some() {
        let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
        if if_not_exists {
            cx.notice(SqlState::DUPLICATE_COLUMN, format!("{message}, skipping"));
            return Ok(());
        }
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let mut draft = (**table).clone();
    let mut sequences: Vec<Arc<Sequence>> = Vec::new();
    let column = table::define_column(cx, &mut draft, definition, &mut sequences)?;
    let (ty, not_null) = (column.ty, column.not_null);
    let at = draft.columns.len() as u16;
    draft.columns.push(column);
    draft.refresh_arrow();
    table::check_generated(&cx.binder(), &draft, at as usize)?;
    let draft = Arc::new(draft);
    let before = Before::of(cx);
    for sequence in sequences {
        let name = sequence.name.clone();
        cx.catalog.put(&table.schema, &name, Relation::Sequence(sequence));
    }
    fill_column(cx, &draft, at, ty, not_null)?;
    cx.catalog.put(&table.schema, &table.name, Relation::Table(draft.clone()));
    type_uses::verify_column(cx, &draft, at)?;
    add_column_constraints(cx, &draft, definition)?;
    dependents::follow(cx, &before, table, TableChange::Added, "add column")
}

/// Adds the column to every partition, filled with its default.
fn fill_column(
    cx: &mut DdlContext<'_>,
    draft: &Arc<Table>,
    at: u16,
    ty: SqlType,
    not_null: bool,
) -> Result<()> {
    // The sequence of the column is in the new catalog only.
    let now = Arc::new(cx.catalog.clone());
    let mut cell = None;
    cx.binder_now(&now, |binder| {
        cell = Some(default_cell(binder, draft, at)?);
        Ok(())
    })?;
    let cell = cell.expect("the binder was asked");
    if draft.columns[at as usize].generated.is_some() {
        return fill_generated(cx, draft, at, ty, not_null);
    }
    let env = cx.env;
    let zone = TimeZone::parse(&env.session.time_zone).unwrap_or_default();
    let once = match &cell {
        Cell::Const(value) => Some(value.clone()),
        _ => None,
    };
    let storage = StoreColumn { ty: ty.storage(), nullable: true };
    cx.stage_over(draft, Phase::RewritingRows)?;
    cx.alter_all(draft, |root| {
        let told = progress::Rows::default();
        if not_null && once == Some(Value::Null) && root.row_count() > 0 {
            return Err(contains_null(draft, at));
        }
        match &once {
            Some(value) => {
                root.add_column(storage, value.as_ref());
                progress::rows(root.row_count());
            }
            None => {
                root.add_column(storage, ValueRef::Null);
                let rows: Vec<_> = root.rows().map(|row| row.id()).collect();
                let mut arena = Arena::new();
                for row in rows {
                    told.next();
                    {
                        let none = |_| unreachable!("a default has no source row");
                        let value = cell.value(env, &mut Some(zone), none, &[], ty, &arena)?;
                        root.update_unchecked(row, &[at], &[value]);
                    }
                    arena.reset();
                }
            }
        }
        if not_null {
            if root.rows().any(|row| row.value(at as usize).is_null()) {
                return Err(contains_null(draft, at));
            }
            root.set_nullable(at as usize, false);
        }
        Ok(())
    })
}

/// Adds a generated column to every partition.
fn fill_generated(
    cx: &mut DdlContext<'_>,
    draft: &Arc<Table>,
    at: u16,
    ty: SqlType,
    not_null: bool,
) -> Result<()> {
    let generated = Generated::bind(&cx.binder(), draft, Some(&[at]))?;
    let env = cx.env;
    let storage = StoreColumn { ty: ty.storage(), nullable: true };
    cx.stage_over(draft, Phase::RewritingRows)?;
    cx.alter_all(draft, |root| {
        root.add_column(storage, ValueRef::Null);
        let rows: Vec<_> = root.rows().map(|row| row.id()).collect();
        let told = progress::Rows::default();
        for row in rows {
            SqlError::unless_interrupted()?;
            told.next();
            let arena = Arena::new();
            let present = root.row(row).expect("it was just listed");
            let values: Vec<Value> = present.values().map(|value| value.to_owned()).collect();
            let mut values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            generated.fill(&mut values, env, &arena)?;
            root.update_unchecked(row, &[at], &[values[at as usize]]);
        }
        if not_null {
            if root.rows().any(|row| row.value(at as usize).is_null()) {
                return Err(contains_null(draft, at));
            }
            root.set_nullable(at as usize, false);
        }
        Ok(())
    })
}

/// Generated columns whose expressions mention a column.
fn generated_from(table: &Table, name: &str) -> Vec<String> {
    let reads = |column: &&halcyon_catalog::Column| {
        column.generated.as_ref().is_some_and(|text| mentioned_in(text).contains(name))
    };
    table.columns.iter().filter(reads).map(|column| column.name.clone()).collect()
}

fn contains_null(table: &Table, column: u16) -> SqlError {
    let name = &table.columns[column as usize].name;
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("column \"{name}\" of relation \"{}\" contains null values", table.name),
    )
    .table(&table.schema, &table.name)
    .column(name)
}

/// PRIMARY KEY, UNIQUE, CHECK and REFERENCES beside a column that was added.
fn add_column_constraints(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    definition: &ColumnDef,
) -> Result<()> {
    let column = table.require_column(&fold(&definition.name))?;
    for option in &definition.options {
        let table = cx.catalog.table(table.id).clone();
        let given = option.name.as_ref();
        match &option.option {
            ColumnOption::PrimaryKey(key) => {
                let how = Judged::primary(key)?;
                add_unique(cx, &table, IndexConstraint::PrimaryKey, given, &[column], how)?;
            }
            ColumnOption::Unique(key) => {
                let how = Judged::unique(key, Some(definition))?;
                add_unique(cx, &table, IndexConstraint::Unique, given, &[column], how)?;
            }
            ColumnOption::Check(check) => {
                let mut check = check.clone();
                check.name = check.name.or_else(|| given.cloned());
                add_constraint(cx, &table, &TableConstraint::Check(check), false)?;
            }
            ColumnOption::ForeignKey(key) => {
                let key = table::of_column(key, definition, given);
                add_constraint(cx, &table, &TableConstraint::ForeignKey(key), false)?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn drop_column(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    is_changeable(table, name, "drop")?;
    let at = match table.require_column(name) {
        Ok(at) => at,
        Err(missing) if if_exists => {
            cx.notice(missing.state(), format!("{}, skipping", missing.message()));
            return Ok(());
        }
        Err(missing) => return Err(missing),
    };
    if table.columns.len() == 1 {
        return Err(SqlError::unsupported("a table without columns"));
    }
    if table.partition_column() == Some(at) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!(
                "cannot drop column \"{name}\" because it is part of the partition key of relation \
                 \"{}\"",
                table.name
            ),
        ));
    }
    for column in generated_from(table, name) {
        if !cascade {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!(
                    "cannot drop column {name} of table {} because other objects depend on it",
                    table.name
                ),
            )
            .detail(format!(
                "column {column} of table {0} depends on column {name} of table {0}",
                table.name
            ))
            .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let now = cx.catalog.table(table.id).clone();
        drop_column(cx, &now, &column, false, true)?;
    }
    let table = &cx.catalog.table(table.id).clone();
    let at = table.require_column(name)?;
    let before = Before::of(cx);
    drop_dependents(cx, table, at, cascade)?;
    let table = cx.catalog.table(table.id).clone();
    cx.alter_all(&table, |root| {
        root.drop_column(at as usize);
        Ok(())
    })?;
    for sequence in sequence::of_table(cx, &table, Some(at)) {
        cx.catalog.remove(&table.schema, &sequence);
    }
    cx.catalog.change_table(table.id, |table| {
        table.columns.remove(at as usize);
        table
            .indexes
            .iter_mut()
            .flat_map(|i| &mut i.columns)
            .for_each(|c| shift(&mut c.column, at));
        table.indexes.iter_mut().flat_map(|i| &mut i.included).for_each(|c| shift(c, at));
        let bound = table.indexes.iter_mut().filter_map(|i| i.derived.as_mut()?.bound.as_mut());
        bound.flat_map(|bound| &mut bound.inputs).for_each(|c| shift(c, at));
        for key in &mut table.foreign_keys {
            let columns = key.columns.iter_mut().chain(&mut key.on_delete_columns);
            columns.for_each(|column| shift(column, at));
        }
        if let Partitioning::Column { column } = &mut table.partitioning {
            shift(column, at);
        }
        table.refresh_arrow();
    });
    shift_elsewhere(cx, &table, at);
    let change = TableChange::Dropped { at, cascade };
    let what = format!("drop column {name} of table {}", table.name);
    dependents::follow(cx, &before, &table, change, &what)
}

fn shift(column: &mut u16, dropped: u16) {
    *column -= (*column > dropped) as u16;
}

/// Indexes, CHECKs and foreign keys that name a column go with it.
fn drop_dependents(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    at: u16,
    cascade: bool,
) -> Result<()> {
    let name = table.columns[at as usize].name.clone();
    let over = |index: &&Index| {
        index.inputs().chain(index.included.iter().copied()).any(|column| column == at)
    };
    for index in table.indexes.iter().filter(over) {
        if let Some((other, key)) = needed_by(cx.catalog, table, index) {
            if !cascade {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop column {name} of table {} because other objects depend on it",
                        table.name
                    ),
                )
                .detail(format!("constraint {key} on table {other} depends on it"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            drop_references_to(cx, table, index);
        }
        let now = cx.catalog.table(table.id).clone();
        index::detach(cx, &now, index)?;
    }
    let keys = table.foreign_keys.iter().filter(|key| key.columns.contains(&at));
    for key in keys {
        drop_foreign_key(cx.catalog, table.id, &key.name);
    }
    cx.catalog.change_table(table.id, |table| {
        table.checks.retain(|check| !mentioned_in(&check.expr).contains(&name));
    });
    Ok(())
}

/// Drops the foreign keys that refer to the columns of a unique index.
fn drop_references_to(cx: &mut DdlContext<'_>, table: &Table, index: &Index) {
    for (referrer, name) in &table.referenced_by {
        let other = cx.catalog.table(*referrer);
        let concerned = other
            .foreign_keys
            .iter()
            .any(|key| key.name == *name && index.covers_exactly(&key.target_columns));
        if concerned {
            drop_foreign_key(cx.catalog, *referrer, name);
        }
    }
}

/// Positions that other objects keep of this table's columns.
fn shift_elsewhere(cx: &mut DdlContext<'_>, table: &Table, at: u16) {
    for (referrer, name) in &table.referenced_by {
        if !cx.catalog.tables.contains_key(referrer) {
            continue;
        }
        cx.catalog.change_table(*referrer, |other| {
            let keys = other.foreign_keys.iter_mut();
            for key in keys.filter(|key| key.name == *name && key.target == table.id) {
                key.target_columns.iter_mut().for_each(|column| shift(column, at));
            }
        });
    }
    for name in sequence::of_table(cx, table, None) {
        if let Some(Relation::Sequence(mut sequence)) = cx.catalog.remove(&table.schema, &name) {
            if let Some((_, column)) = &mut Arc::make_mut(&mut sequence).owned_by {
                shift(column, at);
            }
            cx.catalog.put(&table.schema, &name, Relation::Sequence(sequence));
        }
    }
}

/// Errors: 0A000 for a system column.
fn is_changeable(table: &Table, name: &str, verb: &str) -> Result<()> {
    if system_columns::is_one(name) && table.column(name).is_none() {
        let message = format!("cannot {verb} system column \"{name}\"");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

fn rename_column(cx: &mut DdlContext<'_>, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
    let at = table.require_column(from)?;
    super::columns::is_no_system_column(to)?;
    if table.column(to).is_some() {
        return Err(SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{to}\" of relation \"{}\" already exists", table.name),
        ));
    }
    let before = Before::of(cx);
    cx.catalog.change_table(table.id, |table| {
        table.columns[at as usize].name = to.to_owned();
        for check in &mut table.checks {
            check.expr = renamed(&check.expr, from, to);
        }
        for column in &mut table.columns {
            column.generated = column.generated.take().map(|text| renamed(&text, from, to));
        }
        for derived in table.indexes.iter_mut().filter_map(|index| index.derived.as_mut()) {
            for key in &mut derived.keys {
                key.expr = match key.stands_alone && key.expr == quote_ident(from) {
                    true => quote_ident(to),
                    false => renamed(&key.expr, from, to),
                };
            }
            derived.predicate = derived.predicate.take().map(|text| renamed(&text, from, to));
        }
        table.refresh_arrow();
    });
    let change = TableChange::Renamed { at, before: from };
    dependents::follow(cx, &before, table, change, &format!("rename column {from}"))
}

/// An expression's text with a column under another name.
fn renamed(text: &str, from: &str, to: &str) -> String {
    struct Rename<'a>(&'a str, &'a str);
    impl VisitorMut for Rename<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let name = match expr {
                Expr::Identifier(name) => name,
                Expr::CompoundIdentifier(names) => match names.last_mut() {
                    Some(name) => name,
                    None => return ControlFlow::Continue(()),
                },
                _ => return ControlFlow::Continue(()),
            };
            if fold(name) == self.0 {
                *name = Ident::with_quote('"', self.1);
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = parse_own_expr(text);
    let _ = VisitMut::visit(&mut expr, &mut Rename(from, to));
    expr.to_string()
}

fn alter_column(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    name: &str,
    operation: &AlterColumnOperation,
) -> Result<()> {
    is_changeable(table, name, "alter")?;
    let at = table.require_column(name)?;
    let column = &table.columns[at as usize];
    match operation {
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
            if column.generated.is_some() =>
        {
            Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("column \"{name}\" of relation \"{}\" is a generated column", table.name),
            ))
        }
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
            if column.identity.is_some() =>
        {
            Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("column \"{name}\" of relation \"{}\" is an identity column", table.name),
            ))
        }
        AlterColumnOperation::SetDefault { value } => {
            let default = table::default(cx, value, column)?;
            cx.catalog.change_table(table.id, |table| table.columns[at as usize].default = default);
            Ok(())
        }
        AlterColumnOperation::DropDefault => {
            cx.catalog.change_table(table.id, |table| table.columns[at as usize].default = None);
            Ok(())
        }
        AlterColumnOperation::SetNotNull => set_not_null(cx, table, at),
        AlterColumnOperation::DropNotNull => drop_not_null(cx, table, at),
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            let using = using.as_ref();
            change_types(cx, table, &[TypeChange { at, ty: data_type, collation: None, using }])
        }
        AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
            let wish = Wish::from_ast(None, sequence_options.as_deref().unwrap_or(&[]))?;
            let always = matches!(generated_as, Some(GeneratedAs::Always));
            identity::add(cx, table, name, always, &wish, None)
        }
    }
}

fn set_not_null(cx: &mut DdlContext<'_>, table: &Arc<Table>, at: u16) -> Result<()> {
    if table.columns[at as usize].not_null {
        return Ok(());
    }
    cx.stage_over(table, Phase::CheckingRows)?;
    cx.alter_all(table, |root| {
        let told = progress::Rows::default();
        let is_null = |row: RowRef<'_>| {
            told.next();
            row.value(at as usize).is_null()
        };
        if root.rows().any(is_null) {
            return Err(contains_null(table, at));
        }
        root.set_nullable(at as usize, false);
        Ok(())
    })?;
    cx.catalog.change_table(table.id, |table| {
        table.columns[at as usize].not_null = true;
        table.refresh_arrow();
    });
    Ok(())
}

fn drop_not_null(cx: &mut DdlContext<'_>, table: &Arc<Table>, at: u16) -> Result<()> {
    let column = &table.columns[at as usize];
    let name = &column.name;
    if !column.not_null {
        return Ok(());
    }
    if table.primary_key().is_some_and(|key| key.columns.iter().any(|key| key.column == at)) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("column \"{name}\" is in a primary key"),
        ));
    }
    if column.identity.is_some() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("column \"{name}\" of relation \"{}\" is an identity column", table.name),
        ));
    }
    cx.alter_all(table, |root| {
        root.set_nullable(at as usize, true);
        Ok(())
    })?;
    let before = Before::of(cx);
    cx.catalog.change_table(table.id, |table| {
        table.columns[at as usize].not_null = false;
        table.refresh_arrow();
    });
    feeds::rely_on_less(cx, &before, table.id, &format!("drop NOT NULL of column {name}"))
}

/// ALTER COLUMN … TYPE of one column.
struct TypeChange<'a> {
    at: u16,
    ty: &'a DataType,
    collation: Option<ObjectName>,
    using: Option<&'a Expr>,
}

/// What becomes of the values of a column whose type changes.
struct Converted {
    at: u16,
    from: SqlType,
    to: SqlType,
    not_null: bool,
    /// USING over the row as it was, and the type that it gives.
    using: Option<(Program, SqlType)>,
}

/// Makes the changes that have been gathered, all at once.
fn set_types(
    cx: &mut DdlContext<'_>,
    name: &[String],
    changes: &mut Vec<TypeChange<'_>>,
    work: &mut Option<Work>,
) -> Result<()> {
    let changes = std::mem::take(changes);
    if changes.is_empty() {
        return Ok(());
    }
    let table = changeable(cx, name)?;
    let work = work.get_or_insert_with(|| progress::begin(Kind::AlterTable, Some(table.shown())));
    let _within = work.enter();
    change_types(cx, &table, &changes)
}

/// Gives a column of the draft its other type. `table`: as it was before. Errors: those of the change.
fn converted(
    cx: &mut DdlContext<'_>,
    table: &Table,
    draft: &mut Table,
    change: &TypeChange<'_>,
) -> Result<Converted> {
    let TypeChange { at, ty, ref collation, using } = *change;
    let (to, domain) = cx.column_type(ty)?;
    let of_domain = domain.and_then(|id| cx.catalog.type_numbered(id)?.domain());
    let collation = match collation {
        Some(name) => cx.column_collation(name, to)?,
        None => of_domain.and_then(|domain| domain.collation.clone()),
    };
    let column = table.columns[at as usize].clone();
    let refuse = |message: String| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    if table.partition_column() == Some(at) {
        return refuse(format!("cannot alter column \"{}\" of the partition key", column.name));
    }
    if let Some(other) = generated_from(table, &column.name).first() {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot alter type of a column used by a generated column",
        )
        .detail(format!("Column \"{}\" is used by generated column \"{other}\".", column.name)));
    }
    let keys = table.foreign_keys.iter().any(|key| key.columns.contains(&at));
    let referenced = table.referenced_by.iter().any(|(referrer, name)| {
        let keys = &cx.catalog.table(*referrer).foreign_keys;
        keys.iter().any(|key| key.name == *name && key.target_columns.contains(&at))
    });
    // Keys of integers match whatever their widths are.
    let is_integer = |ty| matches!(ty, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt);
    let widens = is_integer(column.ty)
        && is_integer(to)
        && using.is_none_or(|using| is_cast_of(using, &column.name));
    if (keys || referenced) && column.ty.storage() != to.storage() && !widens {
        return refuse(format!(
            "cannot alter type of column \"{}\" used by a foreign key",
            column.name
        ));
    }
    let using = match using {
        None if coerce::assignable(column.ty, to) => None,
        None => {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("column \"{}\" cannot be cast automatically to type {to}", column.name),
            )
            .hint(format!("You might need to specify \"USING {}::{to}\".", column.name)));
        }
        Some(expr) => {
            let schema = row_schema(table)?;
            let bound = cx.binder().expr(expr, &schema)?;
            use datafusion::logical_expr::ExprSchemable;
            let field =
                bound.to_field(&schema).map_err(|e| halcyon_sql::diagnose::sql_error(e, ""))?.1;
            let from = halcyon_sql::values::sql_type_of(&field).unwrap_or(to);
            Some((Program::compile(&bound, &schema)?, from))
        }
    };
    let own = &mut draft.columns[at as usize];
    (own.ty, own.domain, own.collation) = (to, domain, collation);
    if let Some(text) = &column.default {
        super::constraint::check_default(&cx.binder(), &parse_expr(text)?, &column.name, to)?;
    }
    Ok(Converted { at, from: column.ty, to, not_null: column.not_null, using })
}

/// ALTER COLUMN … TYPE: builds every partition anew, the other columns as the vectors they are.
fn change_types(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    changes: &[TypeChange<'_>],
) -> Result<()> {
    let mut draft = (**table).clone();
    let made = changes.iter().map(|change| converted(cx, table, &mut draft, change));
    let made = made.collect::<Result<Vec<_>>>()?;
    draft.refresh_arrow();
    index::rebind(cx, &mut draft)?;
    let (env, schema) = (cx.env, draft.store_schema());
    let zone = TimeZone::parse(&env.session.time_zone).unwrap_or_default();
    let all: Vec<usize> = (0..table.columns.len()).collect();
    let visits = 1 + draft.indexes.iter().map(index::visits).sum::<u64>();
    let rows = cx.count_rows(table)? * visits;
    progress::stage(Phase::RewritingRows, Unit::Rows, Some(rows));
    cx.alter_all(table, |root| {
        let told = progress::Rows::default();
        let mut fresh = Partition::new(schema.clone()).latched(root.is_latched());
        for segment in root.segments() {
            let mut columns: Vec<ArrayRef> = segment.batch(&all).columns;
            let rows = columns[0].len();
            let mut writers: Vec<ArrayWriter> =
                made.iter().map(|change| ArrayWriter::for_storage(change.to, rows)).collect();
            let mut arena = Arena::new();
            for row in segment.rows() {
                told.next();
                let values: Vec<ValueRef<'_>> = row.values().collect();
                for (change, writer) in made.iter().zip(&mut writers) {
                    let (value, from) = match &change.using {
                        None => (values[change.at as usize], change.from),
                        Some((program, from)) => (program.eval(&values, env, &arena)?, *from),
                    };
                    let value = coerce::assign(value, from, change.to, &zone, &arena)?;
                    if value.is_null() && change.not_null {
                        return Err(contains_null(table, change.at));
                    }
                    writer.push(value)?;
                }
            }
            arena.reset();
            for (change, mut writer) in made.iter().zip(writers) {
                columns[change.at as usize] = writer.finish();
            }
            fresh.append(&columns).expect("columns of a segment fit a partition");
        }
        drop(told);
        for index in &draft.indexes {
            index::add(&mut fresh, &draft, index)?;
        }
        *root = fresh;
        Ok(())
    })?;
    let draft = Arc::new(draft);
    let before = Before::of(cx);
    cx.catalog.put(&table.schema, &table.name, Relation::Table(draft.clone()));
    for check in &draft.checks {
        verify_check(cx, &draft, check)?;
    }
    for change in changes {
        type_uses::verify_column(cx, &draft, change.at)?;
    }
    let columns: Vec<u16> = changes.iter().map(|change| change.at).collect();
    let change = TableChange::Retyped(&columns);
    dependents::follow(cx, &before, table, change, "alter type of a column")
}

// ------------------------------------------------------------------ constraints

fn add_unique(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    kind: IndexConstraint,
    name: Option<&Ident>,
    columns: &[u16],
    how: Judged,
) -> Result<()> {
    if kind == IndexConstraint::PrimaryKey {
        for column in columns {
            let now = cx.catalog.table(table.id).clone();
            set_not_null(cx, &now, *column)?;
        }
    }
    let mut draft = (**cx.catalog.table(table.id)).clone();
    let index = add_key(cx.catalog, &mut draft, kind, name, columns, how)?;
    let draft = Arc::new(draft);
    index::build(cx, &draft, &index)?;
    index::attach(cx, &draft, index);
    Ok(())
}

fn add_constraint(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    constraint: &TableConstraint,
    not_valid: bool,
) -> Result<()> {
    let mut draft = (**table).clone();
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let how = Judged::primary(key)?;
            let columns = key_columns(table, &key.columns)?;
            let name = key.name.as_ref().or(key.index_name.as_ref());
            add_unique(cx, table, IndexConstraint::PrimaryKey, name, &columns, how)
        }
        TableConstraint::Unique(key) => {
            let how = Judged::unique(key, None)?;
            let columns = key_columns(table, &key.columns)?;
            let name = key.name.as_ref().or(key.index_name.as_ref());
            add_unique(cx, table, IndexConstraint::Unique, name, &columns, how)
        }
        TableConstraint::Check(check) => {
            let mut check = add_check(&cx.binder(), &mut draft, check, None)?;
            check.not_valid = not_valid;
            if !not_valid {
                verify_check(cx, &Arc::new(draft), &check)?;
            }
            cx.catalog.change_table(table.id, |table| table.checks.push(check));
            Ok(())
        }
        TableConstraint::ForeignKey(key) => {
            let mut key = add_foreign_key(cx, &mut draft, key)?;
            key.not_valid = not_valid;
            if !not_valid {
                verify_foreign_key(cx, &Arc::new(draft), &key)?;
            }
            cx.catalog.change_table(table.id, |table| table.foreign_keys.push(key.clone()));
            mirror(cx.catalog, table.id, &key);
            Ok(())
        }
        TableConstraint::PrimaryKeyUsingIndex(given) => {
            let kind = IndexConstraint::PrimaryKey;
            let columns = using_index::columns(table, kind, given)?;
            for column in columns {
                let now = cx.catalog.table(table.id).clone();
                set_not_null(cx, &now, column)?;
            }
            using_index::attach(cx, table, kind, given)
        }
        TableConstraint::UniqueUsingIndex(given) => {
            let kind = IndexConstraint::Unique;
            using_index::columns(table, kind, given)?;
            using_index::attach(cx, table, kind, given)
        }
        other => Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
}

/// 42704 unless a table has a constraint.
/// VALIDATE CONSTRAINT. Errors: 42704; 42809 for a key; 23514 and 23503 if a row does not satisfy it.
fn validate_constraint(cx: &mut DdlContext<'_>, table: &Arc<Table>, name: &str) -> Result<()> {
    if let Some(check) = table.checks.iter().find(|check| check.name == name) {
        if check.not_valid {
            verify_check(cx, table, check)?;
            cx.catalog.change_table(table.id, |table| {
                let own = table.checks.iter_mut().filter(|check| check.name == name);
                own.for_each(|check| check.not_valid = false);
            });
        }
        return Ok(());
    }
    if let Some(key) = table.foreign_keys.iter().find(|key| key.name == name) {
        if key.not_valid {
            verify_foreign_key(cx, table, key)?;
            cx.catalog.change_table(table.id, |table| {
                let own = table.foreign_keys.iter_mut().filter(|key| key.name == name);
                own.for_each(|key| key.not_valid = false);
            });
        }
        return Ok(());
    }
    let message =
        |what: &str| format!("constraint \"{name}\" of relation \"{}\" {what}", table.name);
    let is_key = |index: &Index| index.name == name && index.constraint.is_some();
    Err(match table.indexes.iter().any(is_key) {
        true => {
            let message = message("is not a foreign key or check constraint");
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        }
        false => SqlError::new(SqlState::UNDEFINED_OBJECT, message("does not exist")),
    })
}

fn drop_constraint(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    if table.checks.iter().any(|check| check.name == name) {
        let before = Before::of(cx);
        cx.catalog.change_table(table.id, |table| table.checks.retain(|check| check.name != name));
        return feeds::rely_on_less(cx, &before, table.id, &format!("drop constraint {name}"));
    }
    if table.foreign_keys.iter().any(|key| key.name == name) {
        drop_foreign_key(cx.catalog, table.id, name);
        return Ok(());
    }
    let own = table.indexes.iter().find(|i| i.name == name && i.constraint.is_some());
    if let Some(index) = own {
        if let Some((other, key)) = needed_by(cx.catalog, table, index) {
            if !cascade {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop constraint {name} on table {} because other objects depend \
                         on it",
                        table.name
                    ),
                )
                .detail(format!("constraint {key} on table {other} depends on index {name}"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            drop_references_to(cx, table, index);
        }
        let is_key = index.constraint == Some(IndexConstraint::PrimaryKey);
        let (before, now) = (Before::of(cx), cx.catalog.table(table.id).clone());
        index::detach(cx, &now, index)?;
        let what = format!("drop constraint {name}");
        // A query may give columns that it groups by in the key alone.
        return match is_key {
            true => dependents::follow(cx, &before, table, TableChange::Unkeyed { cascade }, &what),
            false => feeds::rely_on_less(cx, &before, table.id, &what),
        };
    }
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    if if_exists {
        cx.notice(SqlState::UNDEFINED_OBJECT, format!("{message}, skipping"));
        return Ok(());
    }
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
}

fn rename_constraint(
    cx: &mut DdlContext<'_>,
    table: &Arc<Table>,
    from: &str,
    to: &str,
) -> Result<()> {
    if let Some(index) = table.indexes.iter().find(|i| i.name == from && i.constraint.is_some()) {
        return index::rename(cx, table.id, index.id, to);
    }
    let taken = table.checks.iter().any(|check| check.name == to)
        || table.foreign_keys.iter().any(|key| key.name == to);
    if taken {
        return Err(SqlError::new(
            SqlState::DUPLICATE_OBJECT,
            format!("constraint \"{to}\" for relation \"{}\" already exists", table.name),
        ));
    }
    let key = table.foreign_keys.iter().find(|key| key.name == from).cloned();
    let check = table.checks.iter().any(|check| check.name == from);
    if key.is_none() && !check {
        return Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("constraint \"{from}\" for table \"{}\" does not exist", table.name),
        ));
    }
    cx.catalog.change_table(table.id, |table| {
        table.checks.iter_mut().filter(|c| c.name == from).for_each(|c| c.name = to.to_owned());
        table
            .foreign_keys
            .iter_mut()
            .filter(|k| k.name == from)
            .for_each(|k| k.name = to.to_owned());
    });
    if let Some(key) = key {
        cx.catalog.change_table(key.target, |target| {
            for (referrer, name) in &mut target.referenced_by {
                if *referrer == table.id && name == from {
                    *name = to.to_owned();
                }
            }
        });
    }
    Ok(())
}

// ------------------------------------------------------------------ moving

/// RENAME TO, OWNER TO, SET SCHEMA of a relation of this kind; TABLE takes every kind, as
/// PostgreSQL's does. Errors: 42P01, 42501, 42809, and those of the change.
pub(super) fn relocate(
    cx: &mut DdlContext<'_>,
    kind: RelationKind,
    name: &[String],
    to: &MoveTo,
) -> Result<()> {
    let found = cx.owned(name)?;
    if kind != RelationKind::Table && found.relation.kind() != kind.name() {
        return Err(halcyon_catalog::wrong_kind(found.name, kind.name()));
    }
    match to {
        MoveTo::Owner(owner) => own_relation(cx, name, &fold(owner)),
        MoveTo::Name(new) => rename_relation(cx, name, &fold(new)),
        MoveTo::Column(from, to) => rename_view_column(cx, name, &fold(from), &fold(to)),
        MoveTo::Schema(new) => {
            let (schema, name, relation) = owned(cx, name)?;
            set_schema(cx, &schema, &name, relation, &fold(new))
        }
    }
}

/// RENAME COLUMN of a view of either kind. Errors: 42809 for a table, and those of the change.
fn rename_view_column(
    cx: &mut DdlContext<'_>,
    name: &[String],
    from: &str,
    to: &str,
) -> Result<()> {
    let found = cx.owned(name)?;
    match found.relation {
        Relation::Table(view) if view.materialized().is_some() => {
            let view = view.clone();
            rename_column(cx, &view, from, to)?;
            cx.catalog.change_table(view.id, |view| {
                let TableKind::Materialized(own) = &mut view.kind else { return };
                for guard in &mut Arc::make_mut(own).guards {
                    guard.condition = renamed(&guard.condition, from, to);
                }
            });
            Ok(())
        }
        _ => dependents::rename_view_column(cx, name, from, to),
    }
}

/// Schema, name and description of the relation of this name, if its owner is asking.
fn owned(cx: &DdlContext<'_>, name: &[String]) -> Result<(String, String, Relation)> {
    let found = cx.owned(name)?;
    Ok((found.schema.name.clone(), found.name.to_owned(), found.relation.clone()))
}

fn own_relation(cx: &mut DdlContext<'_>, name: &[String], owner: &str) -> Result<()> {
    let (schema, name, relation) = owned(cx, name)?;
    role::check_new_owner(cx, owner)?;
    set_owner(cx, &schema, &name, relation, owner)
}

fn rename_relation(cx: &mut DdlContext<'_>, name: &[String], to: &str) -> Result<()> {
    let (schema, name, relation) = owned(cx, name)?;
    rename(cx, &schema, &name, relation, to)
}

fn set_owner(
    cx: &mut DdlContext<'_>,
    schema: &str,
    name: &str,
    relation: Relation,
    owner: &str,
) -> Result<()> {
    match relation {
        Relation::Table(table) => {
            cx.catalog.change_table(table.id, |table| table.owner = owner.to_owned());
            for sequence in sequence::of_table(cx, &table, None) {
                let relation = cx.catalog.schemas[schema].relations[&sequence].clone();
                set_owner(cx, schema, &sequence, relation, owner)?;
            }
        }
        Relation::View(mut view) => {
            Arc::make_mut(&mut view).owner = owner.to_owned();
            cx.catalog.put(schema, name, Relation::View(view));
        }
        Relation::Sequence(mut sequence) => {
            Arc::make_mut(&mut sequence).owner = owner.to_owned();
            cx.catalog.put(schema, name, Relation::Sequence(sequence));
        }
        Relation::Type(mut own) => {
            Arc::make_mut(&mut own).owner = owner.to_owned();
            cx.catalog.put(schema, name, Relation::Type(own));
        }
        Relation::Index { .. } => {
            return Err(halcyon_catalog::wrong_kind(name, "table")
                .hint("Change the ownership of the index's table instead."));
        }
    }
    Ok(())
}

fn rename(
    cx: &mut DdlContext<'_>,
    schema: &str,
    name: &str,
    relation: Relation,
    to: &str,
) -> Result<()> {
    if let Relation::Index { table, index } = relation {
        return index::rename(cx, table, index, to);
    }
    cx.catalog.refuse_taken(schema, to)?;
    let users = view_uses::users_of(cx.catalog, schema, name);
    move_relation(cx, schema, name, relation, schema, to)?;
    renamed::follow(cx, &users, (schema, name), (schema, to))
}

fn set_schema(
    cx: &mut DdlContext<'_>,
    schema: &str,
    name: &str,
    relation: Relation,
    to: &str,
) -> Result<()> {
    if schema == to {
        return Ok(());
    }
    temporary::refuse_move(schema, to)?;
    let (to, _) = cx.place(&[to.to_owned(), name.to_owned()])?;
    cx.catalog.refuse_taken(&to, name)?;
    let users = view_uses::users_of(cx.catalog, schema, name);
    if let Relation::Table(table) = &relation {
        let sequences = sequence::of_table(cx, table, None);
        let own = table.indexes.iter().map(|index| index.name.clone()).chain(sequences);
        for owned in own.collect::<Vec<_>>() {
            cx.catalog.refuse_taken(&to, &owned)?;
            let relation = cx.catalog.schemas[schema].relations[&owned].clone();
            move_relation(cx, schema, &owned, relation, &to, &owned)?;
        }
    }
    let relation = cx.catalog.schemas[schema].relations[name].clone();
    move_relation(cx, schema, name, relation, &to, name)?;
    renamed::follow(cx, &users, (schema, name), (&to, name))
}

fn move_relation(
    cx: &mut DdlContext<'_>,
    schema: &str,
    name: &str,
    relation: Relation,
    to_schema: &str,
    to_name: &str,
) -> Result<()> {
    cx.catalog.remove(schema, name);
    let moved = match relation {
        Relation::Table(mut table) => {
            let own = Arc::make_mut(&mut table);
            // Constraints may name the table before a column.
            for check in &mut own.checks {
                check.expr = unqualified(&check.expr, name, to_name);
            }
            (own.schema, own.name) = (to_schema.to_owned(), to_name.to_owned());
            Relation::Table(table)
        }
        Relation::View(mut view) => {
            let own = Arc::make_mut(&mut view);
            (own.schema, own.name) = (to_schema.to_owned(), to_name.to_owned());
            Relation::View(view)
        }
        Relation::Sequence(mut sequence) => {
            let own = Arc::make_mut(&mut sequence);
            (own.schema, own.name) = (to_schema.to_owned(), to_name.to_owned());
            let owner = own.owned_by;
            follow_sequence(cx, (schema, name), (to_schema, to_name), owner);
            Relation::Sequence(sequence)
        }
        Relation::Type(mut own) => {
            let changed = Arc::make_mut(&mut own);
            (changed.schema, changed.name) = (to_schema.to_owned(), to_name.to_owned());
            cx.catalog.put(to_schema, to_name, Relation::Type(own));
            type_uses::has_moved(cx, (schema, name), (to_schema, to_name));
            return Ok(());
        }
        index @ Relation::Index { .. } => index,
    };
    cx.catalog.put(to_schema, to_name, moved);
    Ok(())
}

/// An expression's text with another table name before its columns.
fn unqualified(text: &str, from: &str, to: &str) -> String {
    struct Rename<'a>(&'a str, &'a str);
    impl VisitorMut for Rename<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(names) = expr
                && names.len() == 2
                && fold(&names[0]) == self.0
            {
                names[0] = Ident::with_quote('"', self.1);
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = parse_own_expr(text);
    let _ = VisitMut::visit(&mut expr, &mut Rename(from, to));
    expr.to_string()
}

/// Defaults and identities follow the sequence that they ask.
fn follow_sequence(
    cx: &mut DdlContext<'_>,
    from: (&str, &str),
    to: (&str, &str),
    owner: Option<(halcyon_base::ids::TableId, u16)>,
) {
    let quoted = |(schema, name): (&str, &str)| {
        format!("'{}.{}'", names::quoted(schema), names::quoted(name))
    };
    let tables: Vec<_> = cx.catalog.tables.keys().copied().collect();
    for id in tables {
        let asks = |text: &String| text.contains(&quoted(from));
        if cx.catalog.table(id).columns.iter().any(|c| c.default.as_ref().is_some_and(asks)) {
            cx.catalog.change_table(id, |table| {
                for column in &mut table.columns {
                    column.default =
                        column.default.take().map(|text| text.replace(&quoted(from), &quoted(to)));
                }
            });
        }
    }
    if let Some((table, column)) = owner
        && cx.catalog.tables.contains_key(&table)
    {
        cx.catalog.change_table(table, |table| {
            if let Some(identity) = &mut table.columns[column as usize].identity
                && identity.sequence == from.1
            {
                identity.sequence = to.1.to_owned();
            }
        });
    }
}
