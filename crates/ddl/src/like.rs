//! `LIKE` among the columns of a new table: what it takes over from another one.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Ident;
use halcyon_base::ids::IndexId;
use halcyon_catalog::{Derived, Identity, Index, IndexColumn, Privilege, Sequence, Table};
use halcyon_sql::error::Result;
use halcyon_sql::parse::parse_expr;
use halcyon_sql::syntax::Like;

use super::DdlContext;
use super::columns::{new_sequence, push};
use super::constraint::{Judged, add_key, constraint_name, refuse_key_without_partition_column};
use super::index::name_of;
use super::sequence::Wish;

/// A table that was named behind LIKE, and where its columns begin in the new one.
pub(super) struct Copied {
    like: Like,
    source: Arc<Table>,
    first: u16,
}

/// Adds the columns of a table: names, types, collations and NOT NULL, and of the rest what INCLUDING says.
///
/// Errors: 42P01, 42501, 42701.
pub(super) fn columns(
    cx: &DdlContext<'_>,
    table: &mut Table,
    like: Like,
    sequences: &mut Vec<Arc<Sequence>>,
) -> Result<Copied> {
    let source = cx.catalog.find_table(&like.of, cx.search_path())?;
    cx.catalog.require_on_table(cx.user(), &source, Privilege::Select)?;
    let first = table.columns.len() as u16;
    for column in &source.columns {
        let mut copy = column.clone();
        if !like.includes("comments") {
            copy.comment = None;
        }
        if !like.includes("generated") {
            copy.generated = None;
        }
        if !like.includes("defaults") {
            copy.default = None;
        }
        copy.identity = None;
        if let (Some(identity), true) = (&column.identity, like.includes("identity")) {
            let original = cx.catalog.sequence(&source.schema, &identity.sequence);
            let options = original.expect("an identity has its sequence").options;
            let wish = Wish {
                increment: Some(options.increment),
                start: Some(options.start),
                min: Some(Some(options.min)),
                max: Some(Some(options.max)),
                cycle: Some(options.cycle),
                ..Wish::default()
            };
            let owner = (table.id, table.columns.len() as u16);
            let name = new_sequence(cx, table, &column.name, &wish, column.ty, owner, sequences)?;
            copy.identity = Some(Identity { always: identity.always, sequence: name });
        }
        push(table, copy)?;
    }
    Ok(Copied { like, source, first })
}

/// Adds CHECKs and indexes, once all columns are there. Foreign keys are never taken over.
///
/// Errors: 42710, 42P16, and those of keys of partitioned tables.
pub(super) fn rest(cx: &DdlContext<'_>, table: &mut Table, copied: &Copied) -> Result<()> {
    let Copied { like, source, first } = copied;
    let comments = like.includes("comments");
    if like.includes("constraints") {
        for check in &source.checks {
            let mut check = check.clone();
            constraint_name(table, Some(&Ident::with_quote('"', &check.name)), "")?;
            if !comments {
                check.comment = None;
            }
            check.not_valid = false;
            table.checks.push(check);
        }
    }
    if like.includes("indexes") {
        for index in &source.indexes {
            let at = table.indexes.len();
            self::index(cx, table, source, index, *first)?;
            if comments {
                table.indexes[at].comment.clone_from(&index.comment);
                table.indexes[at].constraint_comment.clone_from(&index.constraint_comment);
            }
        }
    }
    super::index::rebind(cx, table)
}

/// Adds an index of another table under a name that is free.
fn index(
    cx: &DdlContext<'_>,
    table: &mut Table,
    source: &Table,
    index: &Index,
    first: u16,
) -> Result<()> {
    let moved: Vec<IndexColumn> = index
        .columns
        .iter()
        .map(|key| IndexColumn { column: key.column + first, ..*key })
        .collect();
    let columns: Vec<u16> = moved.iter().map(|key| key.column).collect();
    if let Some(kind) = index.constraint {
        let judged =
            Judged { deferral: index.deferral, nulls_not_distinct: index.nulls_not_distinct };
        add_key(cx.catalog, table, kind, None, &columns, judged)?;
        let made = table.indexes.last_mut().expect("it has just been added");
        made.included = index.included.iter().map(|column| column + first).collect();
        return Ok(());
    }
    if index.unique {
        let derived = index.derived.iter().flat_map(|derived| &derived.keys);
        let plain = derived.filter_map(|key| key.column(source)).map(|column| column + first);
        let key: Vec<u16> = columns.iter().copied().chain(plain).collect();
        refuse_key_without_partition_column(table, &key, "UNIQUE")?;
    }
    let names = match &index.derived {
        None => {
            let name = |column: &u16| table.columns[usize::from(*column)].name.clone();
            columns.iter().map(name).collect::<Vec<_>>()
        }
        Some(derived) => {
            let name = |expr: &String| parse_expr(expr).map(|expr| name_of(&expr));
            derived.keys.iter().map(|key| name(&key.expr)).collect::<Result<_>>()?
        }
    };
    let taken: Vec<String> = table.indexes.iter().map(|index| index.name.clone()).collect();
    let stem = format!("{}_{}_idx", table.name, names.join("_"));
    let name = cx.catalog.free_name(&table.schema, &stem, &taken);
    // Bound again for the new table's columns.
    let derived = index.derived.clone().map(|derived| Derived { bound: None, ..derived });
    table.indexes.push(Index {
        derived,
        unique: index.unique,
        nulls_not_distinct: index.nulls_not_distinct,
        included: index.included.iter().map(|column| column + first).collect(),
        operator_classes: index.operator_classes.clone(),
        collations: index.collations.clone(),
        ..Index::new(IndexId(cx.catalog.ids.oid()), name, moved)
    });
    Ok(())
}
