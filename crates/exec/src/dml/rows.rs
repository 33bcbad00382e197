//! The rows that an UPDATE or DELETE changes: the query that finds them, made of the statement's parts.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem};

use super::named::NamedTarget;
use super::query::{self, QuerySource};
use super::{Scope, ident};
use crate::point::short::{Item, Request, ShortQuery};
use halcyon_catalog::Privilege;
use halcyon_scan::provider::{ROW_ID, table_of};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::parts;
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::types::SqlType;

/// What an UPDATE or DELETE says of the rows that it changes.
pub(super) struct Rows<'q> {
    pub named: &'q NamedTarget,
    /// The target's name in the statement.
    pub alias: &'q str,
    /// The target as it stands in the statement.
    pub target: &'q ast::TableWithJoins,
    /// FROM of an UPDATE, USING of a DELETE.
    pub others: &'q [ast::TableWithJoins],
    pub condition: Option<&'q Expr>,
    /// New values of columns, as far as they are computed.
    pub values: Vec<(u16, &'q Expr)>,
    /// Whether RETURNING sees the columns of the other tables.
    pub shows_others: bool,
}

/// The query of an UPDATE or DELETE. Its columns are the row's id, the values, the columns of other tables.
pub(super) struct BoundRows {
    pub source: QuerySource,
    pub columns: Arc<[ResultColumn]>,
    /// Names and fields of the columns of other tables.
    pub others: Vec<(TableReference, FieldRef)>,
    /// Where these columns are.
    pub extra: Range<usize>,
}

/// Binds the query; its tables become the first of the plan's. Reading the target is a right of its own,
/// unless the query reads nothing of the target but the numbers of its rows.
///
/// Errors: those of binding and optimising, 42501.
pub(super) fn bind(scope: &mut Scope<'_>, rows: &Rows<'_>) -> Result<BoundRows> {
    let binder = scope.binder;
    let Some(short) = short(scope, rows) else { return bind_long(scope, rows) };
    debug_assert!(is_long_way(scope, rows, &short), "the long way fails");
    binder.df.count_planning();
    if short.reads_columns {
        rows.named.require(&binder, Privilege::Select)?;
    }
    scope.learn(short.known_params());
    scope.tables = short.plan.tables().to_vec();
    let extra = short.columns.len()..short.columns.len();
    let source = QuerySource::Point(Box::new(short.plan));
    Ok(BoundRows { source, columns: short.columns, others: Vec::new(), extra })
}

/// The query by the short way, which knows nothing of WITH.
fn short(scope: &Scope<'_>, rows: &Rows<'_>) -> Option<ShortQuery> {
    if rows.named.is_view()
        || scope.with.is_some()
        || scope.hides(&rows.named.table.name)
        || !rows.others.is_empty()
    {
        return None;
    }
    let mut items = vec![Item::RowId];
    let values = rows.values.iter();
    items.extend(values.map(|(column, expr)| Item::Value(expr, name_of_value(*column))));
    let request = Request::of_rows(rows.target, rows.condition, items)?;
    ShortQuery::new(&scope.binder, &request, &scope.params)
}

/// Whether the long way finds what the short one has found, which must differ in nothing; also if the
/// statement is to end, so that the long way finds nothing.
fn is_long_way(scope: &Scope<'_>, rows: &Rows<'_>, short: &ShortQuery) -> bool {
    let mut other = Scope::new(&scope.binder, scope.text, scope.params.clone());
    let long = select_rows(scope, rows)
        .and_then(|query| query::bind(&mut other, query, Some(rows.named.table.id)));
    match long {
        Ok((QuerySource::Point(plan), columns, logical)) => {
            let params: Vec<_> =
                other.params.iter().map(|ty| ty.unwrap_or(SqlType::Text)).collect();
            short.assert_same(&plan, &columns, &params);
            assert_eq!(short.reads_columns, reads(rows.named, rows.alias, &logical));
            other.shareable
        }
        Ok(_) => false,
        Err(_) => SqlError::unless_interrupted().is_err(),
    }
}

fn bind_long(scope: &mut Scope<'_>, rows: &Rows<'_>) -> Result<BoundRows> {
    let binder = scope.binder;
    let query = select_rows(scope, rows)?;
    // The rows of a view have the numbers by themselves.
    let target = (!rows.named.is_view()).then_some(rows.named.table.id);
    let (source, columns, plan) = query::bind(scope, query, target)?;
    if reads(rows.named, rows.alias, &plan) {
        rows.named.require(&binder, Privilege::Select)?;
    }
    let extra = 1 + rows.values.len()..columns.len();
    let others = extra_fields(&plan, &columns, extra.clone());
    Ok(BoundRows { source, columns, others, extra })
}

/// The query as a tree.
fn select_rows(scope: &Scope<'_>, rows: &Rows<'_>) -> Result<ast::Query> {
    let mut items = vec![row_id_item(rows.alias)];
    items.extend(rows.values.iter().map(|(column, expr)| SelectItem::ExprWithAlias {
        expr: (*expr).clone(),
        alias: ast::Ident::new(name_of_value(*column)),
    }));
    if rows.shows_others {
        items.extend(all_of(rows.others)?);
    }
    let mut query = super::select(items);
    set_from(scope, &mut query, rows);
    Ok(query)
}

/// The name of the query's column with a column's new value.
fn name_of_value(column: u16) -> String {
    format!("new_{column}")
}

/// `alias._rowid`.
fn row_id_item(alias: &str) -> ast::SelectItem {
    ast::SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![ident(alias), ident("_rowid")]))
}

/// `alias.*` for every table that a FROM names.
fn all_of(from: &[ast::TableWithJoins]) -> Result<Vec<ast::SelectItem>> {
    let mut items = Vec::new();
    let factors = from.iter().flat_map(|item| {
        std::iter::once(&item.relation).chain(item.joins.iter().map(|j| &j.relation))
    });
    for factor in factors {
        let name = match factor {
            ast::TableFactor::Table { alias: Some(alias), .. }
            | ast::TableFactor::Derived { alias: Some(alias), .. } => alias.name.clone(),
            ast::TableFactor::Table { name, .. } => ident(&parts(name)?.pop().unwrap_or_default()),
            _ => return Err(SqlError::unsupported("RETURNING beside this kind of FROM")),
        };
        let name = ast::ObjectName::from(vec![name]);
        items.push(ast::SelectItem::QualifiedWildcard(
            ast::SelectItemQualifiedWildcardKind::ObjectName(name),
            ast::WildcardAdditionalOptions::default(),
        ));
    }
    Ok(items)
}

/// Completes the query by FROM and WHERE. The target is a table, whatever WITH calls its entries.
fn set_from(scope: &Scope<'_>, query: &mut ast::Query, rows: &Rows<'_>) {
    let ast::SetExpr::Select(select) = query.body.as_mut() else { return };
    let target = rows.named.in_query(rows.target, rows.alias).into_owned();
    select.from = std::iter::once(target).chain(rows.others.iter().cloned()).collect();
    if let ast::TableFactor::Table { name, .. } = &mut select.from[0].relation
        && !rows.named.is_view()
        && scope.hides(&rows.named.table.name)
    {
        let full = vec![ident(&rows.named.table.schema), ident(&rows.named.table.name)];
        *name = ast::ObjectName::from(full);
    }
    select.selection = rows.condition.cloned();
}

/// Whether the query behind an UPDATE or DELETE reads more of the target than the numbers of its rows. Rights on other
/// instances of a table are asked for here, too; those beside a view are the planner's business.
fn reads(named: &NamedTarget, alias: &str, query: &LogicalPlan) -> bool {
    let (mut scans, mut reads) = (0, false);
    let walked = query.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let found = table_of(&scan.source);
            scans += u32::from(found.is_some_and(|found| found.id == named.table.id));
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let (PlanExpr::Column(column) | PlanExpr::OuterReferenceColumn(_, column)) = expr
                else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                let relation = column.relation.as_ref();
                reads |= column.name != ROW_ID
                    && relation.is_some_and(|relation| relation.table() == alias);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.expect("the closures do not fail");
    reads || scans > 1 && !named.is_view()
}

/// Name and field of some columns of a plan, for expressions over its rows.
fn extra_fields(
    plan: &LogicalPlan,
    columns: &[ResultColumn],
    extra: std::ops::Range<usize>,
) -> Vec<(TableReference, FieldRef)> {
    let field = |at: usize| {
        let (qualifier, _) = plan.schema().qualified_field(at);
        let qualifier = qualifier.cloned().unwrap_or_else(|| TableReference::bare("?"));
        let name = plan.schema().field(at).name();
        (qualifier, Arc::new(columns[at].field.as_ref().clone().with_name(name)))
    };
    extra.map(field).collect()
}
