//! Tables and table functions of FROM.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, Query, Statement,
    TableAlias, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

use halcyon_sql::parse::parse_own_query;

use super::{arguments, function_name, number, parts};
use crate::{Context, table_names};

/// Names that WITH gives; they hide system tables.
pub(super) fn cte_names(statement: &Statement) -> Vec<String> {
    struct Names(Vec<String>);
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if let Some(with) = &query.with {
                let names = with.cte_tables.iter().map(|cte| cte.alias.name.value.to_lowercase());
                self.0.extend(names);
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(Vec::new());
    let _ = statement.visit(&mut names);
    names.0
}

/// `pg_class` means `pg_catalog.pg_class`: that schema is searched first.
pub(super) fn qualify(relation: &mut ObjectName, ctes: &[String]) {
    if let Some([name]) = parts(relation).as_deref()
        && name.starts_with("pg_")
        && !ctes.contains(name)
        && table_names("pg_catalog").contains(&name.as_str())
    {
        *relation = ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new(name.clone())]);
    }
}

/// Functions in FROM that read a table here, with its name.
const TABLES: &[(&str, &str)] = &[
    ("pg_get_keywords", "pg_get_keywords"),
    ("pg_show_all_settings", "pg_settings"),
    ("pg_cursor", "pg_cursors"),
    ("pg_timezone_names", "pg_timezone_names"),
    ("pg_timezone_abbrevs", "pg_timezone_abbrevs"),
];

/// `SELECT … FROM pg_get_keywords()`, and the like, reads a table here.
pub(super) fn keyword_table(query: &mut Query) {
    struct Keywords;
    impl VisitorMut for Keywords {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: args @ Some(_), alias, .. } = factor
                && let Some(function) = parts(name).and_then(|mut parts| parts.pop())
                && let Some((_, table)) = TABLES.iter().find(|(known, _)| *known == function)
            {
                *args = None;
                if function != *table {
                    *name = ObjectName::from(vec![Ident::new(*table)]);
                    alias.get_or_insert_with(|| table_alias(&function));
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(query, &mut Keywords);
}

/// Table functions lose their schema; bounds of `generate_series`, which DataFusion wants to know
/// when it plans, are computed where the session decides them.
pub(super) fn table_function(factor: &mut TableFactor, context: &Context) {
    if let Some(rows) = list_as_rows(factor) {
        *factor = rows;
        return;
    }
    let (name, args) = match factor {
        TableFactor::Table { name, args: Some(args), .. } => (name, &mut args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return,
    };
    if let Some([schema, _]) = parts(name).as_deref()
        && schema == "pg_catalog"
    {
        name.0.remove(0);
    }
    let series = matches!(name.0.last(),
        Some(ObjectNamePart::Identifier(ident)) if ident.value == "generate_series");
    for arg in args.iter_mut().filter(|_| series) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg
            && let Some(bound) = bound(expr, context)
        {
            *expr = number(bound);
        }
    }
}

/// Functions that give a list of rows here, and the columns of these.
const OF_ROWS: [(&str, &[&str]); 2] = [
    ("aclexplode", &["grantor", "grantee", "privilege_type", "is_grantable"]),
    ("_pg_expandarray", &["x", "n"]),
];

/// A call of one of [`OF_ROWS`] or of `pg_listening_channels` as a query that takes the rows of its list apart.
fn list_as_rows(factor: &TableFactor) -> Option<TableFactor> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &args.args, alias),
        TableFactor::Function { name, args, alias, .. } => (name, args, alias),
        _ => return None,
    };
    let name = parts(name)?.pop()?;
    let items = match (args.as_slice(), OF_ROWS.iter().find(|(own, _)| *own == name)) {
        ([FunctionArg::Unnamed(FunctionArgExpr::Expr(list))], Some((own, columns))) => {
            let columns =
                columns.iter().map(|column| format!("({own}({list})).{column} AS {column}"));
            columns.collect::<Vec<_>>().join(", ")
        }
        ([], None) if name == "pg_listening_channels" => {
            let own = Ident::new(name.clone());
            let column = alias.as_ref().map_or(&own, |alias| &alias.name);
            format!("{name}() AS {column}")
        }
        _ => return None,
    };
    let query = parse_own_query(&format!("SELECT {items}"));
    let own = || table_alias(&name);
    Some(TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query),
        alias: Some(alias.clone().unwrap_or_else(own)),
        sample: None,
    })
}

fn table_alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None }
}

/// `array_upper(current_schemas(…), 1)` and `array_lower` of the same.
fn bound(expr: &Expr, context: &Context) -> Option<i64> {
    let Expr::Function(function) = expr else { return None };
    let name = function_name(function)?;
    let [Expr::Function(inner), _] = arguments(function)[..] else { return None };
    if function_name(inner)? != "current_schemas" {
        return None;
    }
    let all = arguments(inner).first()?.to_string().eq_ignore_ascii_case("true");
    let count = context.current_schemas(all).count();
    match name.as_str() {
        "array_upper" => Some(count as i64),
        "array_lower" => Some(1),
        _ => None,
    }
}
