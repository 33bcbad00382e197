//! What a statement asks of one table: the parts of its tree, and these parts bound.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, ObjectName, OffsetRows, OrderBy, OrderByExpr, OrderByKind,
    Query, Select, SelectFlavor, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
    Value,
};

use halcyon_catalog::Table;
use halcyon_dialect::shown_item_name;
use halcyon_plan::scalar::Ir;
use halcyon_scan::provider::ROW_ID;
use halcyon_sql::identifier::fold;
use halcyon_sql::repeated::repeated_name;
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of;
use halcyon_store::{Type, Value as StoredValue};

use super::aggregates;
use super::exprs::{Exprs, Operand};
use super::items::{BoundItem, BoundValue};

/// What a statement asks of one table.
pub(crate) struct Request<'q> {
    pub items: Vec<Item<'q>>,
    pub table: &'q ObjectName,
    pub alias: Option<&'q TableAlias>,
    pub condition: Option<&'q Expr>,
    pub order: &'q [OrderByExpr],
    pub limit: Option<&'q Expr>,
    pub offset: Option<&'q Expr>,
    /// Whether the rows are to be changed, so that the hidden column with their ids is there.
    pub with_row_ids: bool,
    /// FOR UPDATE or FOR SHARE.
    pub locks_rows: bool,
}

/// What is asked of each row.
pub(crate) enum Item<'q> {
    /// The row's id.
    RowId,
    /// All columns.
    All,
    /// A value, under a name.
    Value(&'q Expr, String),
}

impl<'q> Request<'q> {
    /// What a query asks, if that is of one table and simple.
    pub fn of(query: &'q Query) -> Option<Request<'q>> {
        let Query {
            with: None,
            body,
            order_by,
            limit_clause,
            fetch: None,
            locks,
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators,
        } = query
        else {
            return None;
        };
        let SetExpr::Select(select) = body.as_ref() else { return None };
        let (items, from, condition) = parts(select)?;
        let (table, alias) = table(from)?;
        let order = match order_by {
            None => &[][..],
            Some(OrderBy { kind: OrderByKind::Expressions(order), interpolate: None }) => order,
            Some(_) => return None,
        };
        let (limit, offset) = match limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                let offset = match offset {
                    Some(offset) if offset.rows != OffsetRows::None => return None,
                    offset => offset.as_ref().map(|offset| &offset.value),
                };
                (limit.as_ref(), offset)
            }
            Some(_) => return None,
        };
        let plain = |lock: &datafusion::sql::sqlparser::ast::LockClause| {
            lock.of.is_none() && lock.nonblock.is_none()
        };
        (pipe_operators.is_empty() && locks.iter().all(plain)).then_some(Request {
            items: items.iter().map(item).collect::<Option<_>>()?,
            table,
            alias,
            condition,
            order,
            limit,
            offset,
            with_row_ids: false,
            locks_rows: !locks.is_empty(),
        })
    }

    /// The rows of a table that satisfy a condition, to be changed.
    pub fn of_rows(
        target: &'q TableWithJoins,
        condition: Option<&'q Expr>,
        items: Vec<Item<'q>>,
    ) -> Option<Request<'q>> {
        let (table, alias) = table(std::slice::from_ref(target))?;
        Some(Request {
            items,
            table,
            alias,
            condition,
            order: &[],
            limit: None,
            offset: None,
            with_row_ids: true,
            locks_rows: false,
        })
    }

    /// Whether the order and the number of rows do not matter.
    fn is_unordered(&self) -> bool {
        self.order.is_empty() && self.limit.is_none() && self.offset.is_none() && !self.locks_rows
    }

    /// The name by which columns are qualified.
    pub fn name(&self, table: &Table) -> String {
        match self.alias {
            Some(alias) => fold(&alias.name),
            None => table.name.clone(),
        }
    }
}

/// List, FROM and WHERE of a SELECT that has nothing else.
fn parts(select: &Select) -> Option<(&[SelectItem], &[TableWithJoins], Option<&Expr>)> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: _,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views,
        prewhere: None,
        selection,
        connect_by,
        group_by: GroupByExpr::Expressions(grouped, modifiers),
        cluster_by,
        distribute_by,
        sort_by,
        having: None,
        named_window,
        qualify: None,
        window_before_qualify: _,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    } = select
    else {
        return None;
    };
    let has_no_more = optimizer_hints.is_empty()
        && lateral_views.is_empty()
        && connect_by.is_empty()
        && grouped.is_empty()
        && modifiers.is_empty()
        && cluster_by.is_empty()
        && distribute_by.is_empty()
        && sort_by.is_empty()
        && named_window.is_empty();
    has_no_more.then_some((projection, from, selection.as_ref()))
}

/// The only table of a FROM.
fn table(from: &[TableWithJoins]) -> Option<(&ObjectName, Option<&TableAlias>)> {
    let [TableWithJoins { relation, joins }] = from else { return None };
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return None;
    };
    let is_plain = joins.is_empty()
        && with_hints.is_empty()
        && partitions.is_empty()
        && index_hints.is_empty()
        && alias.as_ref().is_none_or(|alias| alias.columns.is_empty() && alias.at.is_none());
    is_plain.then_some((name, alias.as_ref()))
}

fn item(item: &SelectItem) -> Option<Item<'_>> {
    match item {
        SelectItem::Wildcard(options) => {
            let is_plain = options.opt_ilike.is_none()
                && options.opt_exclude.is_none()
                && options.opt_except.is_none()
                && options.opt_replace.is_none()
                && options.opt_rename.is_none()
                && options.opt_alias.is_none();
            is_plain.then_some(Item::All)
        }
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(Item::Value(expr, shown_item_name(item)?))
        }
        _ => None,
    }
}

/// A request with names and types resolved. Columns stand for slots, by their numbers in the table.
pub(super) struct Bound {
    pub exprs: Exprs,
    pub items: Vec<BoundItem>,
    pub condition: Option<Ir>,
    pub keys: Vec<Key>,
    pub skip: Option<Ir>,
    pub fetch: Option<Ir>,
}

/// A key of ORDER BY.
pub(super) struct Key {
    pub of: KeyOf,
    pub descending: bool,
    pub nulls_first: bool,
}

/// What a key of ORDER BY is.
#[derive(Clone, Copy)]
pub(super) enum KeyOf {
    /// An item of the list.
    Output(usize),
    /// A column of the table that is not in the list.
    Column(u16),
}

impl Bound {
    /// Binds a request.
    pub fn of(request: &Request<'_>, mut exprs: Exprs) -> Option<Bound> {
        let condition = match request.condition {
            Some(condition) => Some(exprs.condition(condition)?),
            None => None,
        };
        let mut items = Vec::with_capacity(request.items.len());
        for item in &request.items {
            match item {
                Item::RowId => items.push(row_id()),
                Item::All => {
                    for column in 0..exprs.table.columns.len() {
                        let column = u16::try_from(column).ok()?;
                        let name = exprs.table.columns[usize::from(column)].name.clone();
                        items.push(column_item(&mut exprs, column, name));
                    }
                }
                Item::Value(expr, name) => items.push(value_item(&mut exprs, expr, name)?),
            }
        }
        // Beside a star, DataFusion's planner is given other names.
        let is_star = |item: &Item<'_>| matches!(item, Item::All);
        if request.items.len() > 1 && request.items.iter().any(is_star) {
            return None;
        }
        if !request.with_row_ids && rename_repeated(&mut items) && !request.order.is_empty() {
            return None;
        }
        let is_aggregate = |item: &BoundItem| matches!(item.value, BoundValue::Aggregate(_));
        if items.iter().any(is_aggregate) {
            let is_plain = items.iter().all(is_aggregate)
                && request.is_unordered()
                && condition.as_ref().is_none_or(aggregates::is_settled);
            if !is_plain {
                return None;
            }
        }
        let keys = request.order.iter().map(|by| key(&mut exprs, &items, by));
        let keys = keys.collect::<Option<Vec<Key>>>()?;
        let is_collated = |key: &Key| match key.of {
            KeyOf::Column(column) => exprs.table.columns[usize::from(column)].collation.is_some(),
            KeyOf::Output(at) => match &items[at].value {
                BoundValue::OfRow(ir) => exprs.is_collated(ir),
                BoundValue::RowId | BoundValue::Aggregate(_) => false,
            },
        };
        if keys.iter().any(is_collated) {
            return None;
        }
        // The long way computes values before it sorts by what is not in the list, and types them otherwise.
        let sorts_by_others = keys.iter().any(|key| matches!(key.of, KeyOf::Column(_)));
        let is_computed =
            |item: &BoundItem| matches!(item.value, BoundValue::OfRow(Ir::Arith { .. }));
        if sorts_by_others && items.iter().any(is_computed) {
            return None;
        }
        let (skip, fetch) = (bound(&mut exprs, request.offset)?, bound(&mut exprs, request.limit)?);
        Some(Bound { exprs, items, condition, keys, skip, fetch })
    }
}

fn row_id() -> BoundItem {
    let field = Arc::new(Field::new(ROW_ID, DataType::Int64, false));
    let (name, ty) = (ROW_ID.to_owned(), Some(SqlType::BigInt));
    BoundItem { value: BoundValue::RowId, column: ResultColumn { name, field, ty, origin: None } }
}

/// A column of the table under a name.
fn column_item(exprs: &mut Exprs, column: u16, name: String) -> BoundItem {
    let field = &exprs.table.arrow.fields()[usize::from(column)];
    let field = match *field.name() == name {
        true => Arc::clone(field),
        false => Arc::new(field.as_ref().clone().with_name(&name)),
    };
    let origin = Some((exprs.table.id.0, column + 1));
    let ty = sql_type_of(&field);
    let value = BoundValue::OfRow(exprs.column(column));
    BoundItem { value, column: ResultColumn { name, field, ty, origin } }
}

fn value_item(exprs: &mut Exprs, expr: &Expr, name: &str) -> Option<BoundItem> {
    if let Expr::Function(call) = expr {
        return aggregates::item(exprs, call, name);
    }
    let Operand::Value(ir, ty) = exprs.operand(expr)? else { return None };
    match ir {
        Ir::Slot(column, _) => {
            let column = u16::try_from(column).ok()?;
            Some(column_item(exprs, column, name.to_owned()))
        }
        Ir::Arith { .. } => {
            let field = Arc::new(Field::new(name, ty.arrow(), exprs.is_nullable(&ir)));
            let ty = sql_type_of(&field);
            let (name, origin) = (name.to_owned(), None);
            let value = BoundValue::OfRow(ir);
            Some(BoundItem { value, column: ResultColumn { name, field, ty, origin } })
        }
        _ => None,
    }
}

/// Gives the fields of columns that repeat a name the names under which DataFusion knows them; whether there
/// are any.
fn rename_repeated(items: &mut [BoundItem]) -> bool {
    let mut repeats = 0;
    for at in 0..items.len() {
        let (before, rest) = items.split_at_mut(at);
        let column = &mut rest[0].column;
        if before.iter().any(|item| item.column.name == column.name) {
            repeats += 1;
            let name = repeated_name(&column.name, repeats);
            column.field = Arc::new(column.field.as_ref().clone().with_name(name));
        }
    }
    repeats > 0
}

fn key(exprs: &mut Exprs, items: &[BoundItem], by: &OrderByExpr) -> Option<Key> {
    if by.with_fill.is_some() {
        return None;
    }
    let descending = by.options.asc == Some(false);
    let nulls_first = by.options.nulls_first.unwrap_or(descending);
    let output = |name: &str| items.iter().position(|item| item.column.name == name);
    let of = match &by.expr {
        // A name is one of the list first.
        Expr::Identifier(name) if let Some(at) = output(&fold(name)) => {
            let ty = items[at].column.ty?;
            (!ty.is_document()).then_some(KeyOf::Output(at))?
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            let column = exprs.resolve(&by.expr)?;
            if exprs.type_of(column).is_document() {
                return None;
            }
            match items.iter().position(|item| item.value.is_column(column)) {
                Some(at) => KeyOf::Output(at),
                // Both of one name: DataFusion's planner would have to tell them apart.
                None if output(&exprs.table.columns[usize::from(column)].name).is_some() => {
                    return None;
                }
                None => {
                    exprs.column(column);
                    KeyOf::Column(column)
                }
            }
        }
        _ => return None,
    };
    Some(Key { of, descending, nulls_first })
}

/// A bound of LIMIT or OFFSET: a whole number or a parameter.
fn bound(exprs: &mut Exprs, expr: Option<&Expr>) -> Option<Option<Ir>> {
    let Some(expr) = expr else { return Some(None) };
    let Expr::Value(value) = expr else { return None };
    let ir = match &value.value {
        Value::Number(digits, false) => {
            Ir::Const(StoredValue::Int64(digits.parse().ok()?), Some(Type::Int64))
        }
        Value::Placeholder(name) => exprs.parameter(name, SqlType::BigInt)?,
        _ => return None,
    };
    Some(Some(ir))
}
