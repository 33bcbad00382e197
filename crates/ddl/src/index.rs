//! CREATE INDEX, and what changes indexes.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexType};
use halcyon_base::ids::IndexId;

use super::constraint::{
    KEY_COLUMNS_MAX, key_column, not_unique, refuse_key_without_partition_column,
};
use super::{DdlContext, fold, parts};
use halcyon_catalog::{Index, IndexColumn, Relation, Table, TableKind};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::last;
use halcyon_store::{IndexDef, Partition};

/// `CREATE [UNIQUE] INDEX`.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateIndex) -> Result<()> {
    refuse_options(create)?;
    let table = cx.owned_table(&parts(&create.table_name)?)?;
    match &table.kind {
        TableKind::Stream => return Err(halcyon_catalog::wrong_kind(&table.name, "table")),
        TableKind::Materialized(_) if create.unique => {
            return Err(SqlError::unsupported("a unique index on a materialized view")
                .hint("Create an index that is not unique: groups are unique as they are."));
        }
        _ => {}
    }
    let columns = columns(&table, create)?;
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
            let column = |key: &IndexColumn| table.columns[key.column as usize].name.clone();
            let names: Vec<String> = columns.iter().map(column).collect();
            let stem = format!("{}_{}_idx", table.name, names.join("_"));
            cx.catalog.free_name(&table.schema, &stem, &[])
        }
    };
    if create.unique {
        let keys: Vec<u16> = columns.iter().map(|key| key.column).collect();
        refuse_key_without_partition_column(&table, &keys, "UNIQUE")?;
    }
    let index = Index {
        id: IndexId(cx.catalog.ids.oid()),
        name,
        columns,
        unique: create.unique,
        constraint: None,
        deferral: None,
        comment: None,
    };
    build(cx, &table, &index)?;
    attach(cx, &table, index);
    Ok(())
}

fn refuse_options(create: &CreateIndex) -> Result<()> {
    match &create.using {
        None | Some(IndexType::BTree) => {}
        Some(other) => {
            return Err(SqlError::unsupported(format!("access method {other}"))
                .hint("Indexes are B+trees; leave USING away."));
        }
    }
    if create.predicate.is_some() {
        return Err(SqlError::unsupported("a partial index"));
    }
    if !create.include.is_empty() {
        return Err(SqlError::unsupported("INCLUDE")
            .hint("Rows are in memory beside the index; nothing is gained by it."));
    }
    if create.nulls_distinct == Some(false) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
    }
    Ok(())
}

fn columns(table: &Table, create: &CreateIndex) -> Result<Vec<IndexColumn>> {
    let mut columns: Vec<IndexColumn> = Vec::new();
    for key in &create.columns {
        let Expr::Identifier(name) = &key.column.expr else {
            return Err(SqlError::unsupported("an expression in an index"));
        };
        let descending = key.column.options.asc == Some(false);
        let column = key_column(table, &fold(name)).map_err(|_| {
            let message = format!("column \"{}\" does not exist", fold(name));
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if columns.iter().any(|other| other.column == column) {
            return Err(SqlError::unsupported("a column twice in an index"));
        }
        let nulls_first = key.column.options.nulls_first.unwrap_or(descending);
        columns.push(IndexColumn { column, descending, nulls_first });
    }
    if columns.len() > KEY_COLUMNS_MAX {
        return Err(SqlError::new(
            SqlState::TOO_MANY_COLUMNS,
            format!("cannot use more than {KEY_COLUMNS_MAX} columns in an index"),
        ));
    }
    Ok(columns)
}

/// Adds the index to every partition. Errors: 23505.
pub(super) fn build(cx: &mut DdlContext<'_>, table: &Arc<Table>, index: &Index) -> Result<()> {
    cx.alter_all(table, |root| add(root, table, index))
}

/// Adds the index to a partition. Errors: 23505, also for keys that the index does not watch itself.
pub(super) fn add(root: &mut Partition, table: &Table, index: &Index) -> Result<()> {
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
