//! RETURNING: expressions over the rows written.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable};
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SelectItemQualifiedWildcardKind};
use halcyon_dialect::many_rows::forbid_in;
use halcyon_store::ValueRef;

use super::Scope;
use super::named::NamedTarget;
use crate::point::{row_id, short};
use halcyon_base::{RowId, TxnId};
use halcyon_catalog::{Privilege, Table};
use halcyon_collated::with_collation;
use halcyon_functions::system_columns::{self, Origin, Version, queries};
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_plan::scalar::Program;
use halcyon_scan::provider::ROW_ID;
use halcyon_sql::coerce::Arena;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::rows::{ResultColumn, RowSink};
use halcyon_sql::values::sql_type_of;

/// What RETURNING computes of each row.
pub(crate) struct Returning {
    items: Vec<Item>,
    /// Whether an item is made of [`Written`].
    reads_written: bool,
}

/// What a statement tells of a row that it has written, beside the row's values.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    /// Where the row lies: partition and row.
    pub place: (u32, RowId),
    /// The transaction, if it has deleted the row, or met it in an INSERT and updated it: in PostgreSQL the latter
    /// leaves a lock of the transaction on the row.
    pub ended_by: Option<TxnId>,
}

enum Item {
    Slot(usize),
    Program(Box<Program>),
}

impl Item {
    /// The value of an expression over a row.
    fn of(expr: &PlanExpr, schema: &DFSchema) -> Result<Self> {
        let program = Program::compile(expr, schema)?;
        Ok(match program.as_slot() {
            Some(slot) => Item::Slot(slot),
            None => Item::Program(Box::new(program)),
        })
    }
}

impl Returning {
    /// Gives one row out.
    pub fn emit(
        &self,
        row: &[ValueRef<'_>],
        written: Written,
        env: &Env<'_>,
        arena: &Arena,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let whole: smallvec::SmallVec<[ValueRef<'_>; 16]>;
        let row = match self.reads_written {
            true => {
                whole = row.iter().copied().chain(written.values()).collect();
                &whole[..]
            }
            false => row,
        };
        let mut out = smallvec::SmallVec::<[ValueRef<'_>; 16]>::new();
        for item in &self.items {
            out.push(match item {
                Item::Slot(slot) => row[*slot],
                Item::Program(program) => program.eval(row, env, arena)?,
            });
        }
        sink.row(&out).map(|_| ())
    }
}

impl Written {
    /// The values behind a row's own that [`with_written`] names.
    fn values(self) -> [ValueRef<'static>; 2] {
        let ended_by = self.ended_by.map_or(0, |id| system_columns::transaction_number(id.0));
        [row_id(self.place.0, self.place.1), ValueRef::Int32(ended_by)]
    }
}

/// A row's schema with the values of [`Written`] behind it, and then the system columns that are made of both.
fn with_written(
    table: &Table,
    alias: &str,
    schema: &DFSchema,
) -> Result<(DFSchema, Vec<PlanExpr>)> {
    let own = |name: &str| PlanExpr::Column(Column::new(Some(alias), name));
    let origin = Origin {
        oid: table.id.0,
        place: Some(own(ROW_ID)),
        version: Version::Values(table.columns.iter().map(|column| own(&column.name)).collect()),
        changed_by: None,
    };
    let written =
        [Field::new(ROW_ID, DataType::Int64, false), system_columns::transaction_field("xmax")];
    let qualified = |field| (Some(TableReference::bare(alias)), Arc::new(field));
    let mut fields: Vec<(Option<TableReference>, FieldRef)> =
        schema.iter().map(|(name, field)| (name.cloned(), Arc::clone(field))).collect();
    fields.extend(written.map(qualified));
    let whole = |fields: &[_]| {
        DFSchema::new_with_metadata(fields.to_vec(), Default::default())
            .map_err(|error| sql_error(error, ""))
    };
    let below = whole(&fields)?;
    let mut made = Vec::new();
    for (name, _) in queries::ALL.iter().filter(|(name, _)| *name != "xmax") {
        let value = system_columns::value(name, &origin);
        let (_, field) = value.to_field(&below).map_err(|error| sql_error(error, ""))?;
        fields.push(qualified(field.as_ref().clone().with_name(*name)));
        made.push(value);
    }
    Ok((whole(&fields)?, made))
}

/// An expression over the schema of [`with_written`], in which the system columns are what they are made of.
fn in_place(expr: PlanExpr, schema: &DFSchema, made: &[PlanExpr]) -> Result<PlanExpr> {
    let first = schema.fields().len() - made.len();
    let value = |expr: PlanExpr| {
        let PlanExpr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let at = schema.index_of_column(column)?;
        Ok(match at.checked_sub(first) {
            Some(at) => Transformed::yes(made[at].clone()),
            None => Transformed::no(expr),
        })
    };
    // Their own columns come before them, so what is put in has none to replace.
    expr.transform_up(value).data().map_err(|error| sql_error(error, ""))
}

/// The schema of what RETURNING and ON CONFLICT see: the table under its alias, then others.
pub(super) fn row_schema(
    table: &Table,
    alias: &str,
    others: &[(TableReference, FieldRef)],
) -> Result<DFSchema> {
    let own =
        table.arrow.fields().iter().map(|field| (Some(TableReference::bare(alias)), field.clone()));
    let others = others.iter().map(|(name, field)| (Some(name.clone()), field.clone()));
    DFSchema::new_with_metadata(own.chain(others).collect(), Default::default())
        .map_err(|error| sql_error(error, ""))
}

/// Binds RETURNING over the rows of a target, which goes by `alias`, with the columns `others` behind its own.
pub(super) fn bind(
    scope: &mut Scope<'_>,
    target: &NamedTarget,
    alias: &str,
    others: &[(TableReference, FieldRef)],
    items: Option<&[SelectItem]>,
) -> Result<(Option<Returning>, Arc<[ResultColumn]>)> {
    let Some(items) = items else { return Ok((None, Arc::new([]))) };
    items.iter().try_for_each(|item| forbid_in(item, "RETURNING"))?;
    let binder = scope.binder;
    target.require(&binder, Privilege::Select)?;
    let table = &target.table;
    let shown = target.shown(&binder)?;
    let mut returning = Returning { items: Vec::new(), reads_written: false };
    let mut columns = Vec::new();
    let is_view = target.is_view();
    let origin = |slot: usize| {
        (slot < table.columns.len() && !is_view).then(|| (table.id.0, slot as u16 + 1))
    };
    let all = |returning: &mut Returning, columns: &mut Vec<ResultColumn>, of: Option<&str>| {
        let before = columns.len();
        let mut show = |qualifier: &str, field: &FieldRef, item: &dyn Fn() -> Result<Item>| {
            // Another instance of the target gives the numbers of its rows too, which nobody asked for.
            if field.name() != ROW_ID && of.is_none_or(|of| qualifier == of) {
                let item = item()?;
                let origin = match item {
                    Item::Slot(slot) => origin(slot),
                    Item::Program(_) => None,
                };
                returning.items.push(item);
                columns.push(ResultColumn {
                    name: halcyon_sql::repeated::shown_name(field.name()).to_owned(),
                    field: field.clone(),
                    ty: sql_type_of(field),
                    origin,
                });
            }
            Ok::<(), SqlError>(())
        };
        match &shown {
            None => {
                for (slot, field) in table.arrow.fields().iter().enumerate() {
                    show(alias, field, &|| Ok(Item::Slot(slot)))?;
                }
            }
            Some(shown) => {
                let schema = shown.schema(table, alias, others)?;
                for (at, field) in shown.fields.iter().enumerate() {
                    show(alias, field, &|| Item::of(&shown.value_at(at)?, &schema))?;
                }
            }
        }
        for (at, (name, field)) in others.iter().enumerate() {
            show(name.table(), field, &|| Ok(Item::Slot(table.columns.len() + at)))?;
        }
        Ok::<bool, SqlError>(columns.len() > before)
    };
    for item in items {
        let (expr, alias_of_item) = match item {
            SelectItem::Wildcard(_) => {
                all(&mut returning, &mut columns, None)?;
                continue;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = parts(name)?.pop().unwrap_or_default();
                if !all(&mut returning, &mut columns, Some(&name))? {
                    return Err(SqlError::new(
                        SqlState::UNDEFINED_TABLE,
                        format!("missing FROM-clause entry for table \"{name}\""),
                    ));
                }
                continue;
            }
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(fold(alias))),
            other => return Err(SqlError::unsupported(format!("{other} in RETURNING"))),
        };
        let name = alias_of_item.unwrap_or_else(|| name_of(expr));
        if let Some(slot) =
            short::column_of_row(table, alias, expr).filter(|_| others.is_empty() && !is_view)
        {
            let field = Arc::clone(&table.arrow.fields()[slot]);
            debug_assert!(is_field(&binder, expr, &row_schema(table, alias, others)?, &field));
            let (ty, origin) = (sql_type_of(&field), origin(slot));
            columns.push(ResultColumn { name, ty, field, origin });
            returning.items.push(Item::Slot(slot));
            continue;
        }
        let mut schema = match &shown {
            None => row_schema(table, alias, others)?,
            Some(shown) => shown.schema(table, alias, others)?,
        };
        let has_own = || table.columns.iter().any(|column| queries::is_one(&column.name));
        let mut made = Vec::new();
        if queries::is_named(expr) && !is_view && !has_own() {
            (schema, made) = with_written(table, alias, &schema)?;
            returning.reads_written = true;
        }
        let schema = &schema;
        let (bound, collation) = binder.collated_expr(expr, schema, &scope.params)?;
        scope.learn_from(&bound);
        let (_, field) = bound.to_field(schema).map_err(|error| sql_error(error, ""))?;
        let field = with_collation(&field, collation.as_deref());
        let bound = match &shown {
            None => in_place(bound, schema, &made)?,
            Some(shown) => shown.over_row(bound, schema)?,
        };
        let item = Item::of(&bound, schema)?;
        let origin = match item {
            Item::Slot(slot) => origin(slot),
            Item::Program(_) => None,
        };
        columns.push(ResultColumn { name, ty: sql_type_of(&field), field, origin });
        returning.items.push(item);
    }
    Ok((Some(returning), columns.into()))
}

/// Whether the long way finds a field for an expression; also if the statement is to end.
fn is_field(binder: &Binder<'_>, expr: &Expr, schema: &DFSchema, field: &FieldRef) -> bool {
    match binder.expr(expr, schema).map(|bound| bound.to_field(schema)) {
        Ok(found) => found.is_ok_and(|(_, found)| found == *field),
        Err(_) => SqlError::unless_interrupted().is_err(),
    }
}

/// The name that PostgreSQL gives to an expression without one.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => fold(name),
        Expr::CompoundIdentifier(names) => names.last().map(fold).unwrap_or_default(),
        Expr::Function(call) => {
            parts(&call.name).ok().and_then(|mut name| name.pop()).unwrap_or_default()
        }
        Expr::Case { .. } => "case".to_owned(),
        Expr::Cast { expr, data_type, .. } => match name_of(expr) {
            name if name == "?column?" => data_type.to_string().to_lowercase(),
            name => name,
        },
        Expr::Nested(inner) => name_of(inner),
        _ => "?column?".to_owned(),
    }
}

impl Scope<'_> {
    /// Takes over the types that an expression's parameters were given.
    pub(super) fn learn_from(&mut self, expr: &datafusion::logical_expr::Expr) {
        use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
        let _ = expr.apply(|node| {
            if let datafusion::logical_expr::Expr::Placeholder(placeholder) = node
                && let Some(number) =
                    placeholder.id.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
                && let Some(ty) = placeholder.field.as_ref().and_then(|field| sql_type_of(field))
                && let Some(known) = self.params.get_mut(number.wrapping_sub(1))
            {
                known.get_or_insert(ty);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
}
