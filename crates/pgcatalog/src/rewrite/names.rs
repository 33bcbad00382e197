//! Names of output columns, as PostgreSQL derives them.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArguments, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr,
};

/// Gives every computed output its name. DataFusion wants them unique, so a second column of a
/// name gets a number; nothing can refer to it anyway.
pub(super) fn name_outputs(select: &mut Select) {
    let mut taken: Vec<String> = Vec::new();
    for item in &mut select.projection {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => ident.value.clone(),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(_)) => continue,
            SelectItem::UnnamedExpr(expr) => of(expr),
            _ => continue,
        };
        let repeats = taken.iter().filter(|other| **other == name).count();
        if let SelectItem::UnnamedExpr(expr) = item
            && (repeats > 0 || !matches!(expr, Expr::Identifier(_)))
        {
            // What stands behind U+0001 is not shown (see `dialect::shown_name`).
            let shown = if repeats > 0 { format!("{name}\u{1}{repeats}") } else { name.clone() };
            let alias = Ident::with_quote('"', shown);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        taken.push(name);
    }
}

/// The name of an output column without alias.
fn of(expr: &Expr) -> String {
    known(expr).unwrap_or_else(|| "?column?".to_owned())
}

fn known(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(idents) => idents.last()?.value.clone(),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return known(inner),
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.last()? {
            AccessExpr::Dot(Expr::Identifier(ident)) => ident.value.clone(),
            _ => return known(root),
        },
        Expr::Cast { expr, data_type, .. } => {
            known(expr).unwrap_or_else(|| type_name(&data_type.to_string()))
        }
        Expr::Function(function) => {
            if let FunctionArguments::Subquery(_) = function.args {
                return Some("array".to_owned());
            }
            match function.name.0.last()? {
                ObjectNamePart::Identifier(ident) => ident.value.to_lowercase(),
                ObjectNamePart::Function(_) => return None,
            }
        }
        Expr::Case { else_result, .. } => {
            let name = else_result.as_ref().and_then(|expr| match expr.as_ref() {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => known(expr),
                _ => None,
            });
            name.unwrap_or_else(|| "case".to_owned())
        }
        Expr::Exists { .. } => "exists".to_owned(),
        Expr::Subquery(query) => return of_query(query),
        Expr::Trim { trim_where, .. } => match trim_where.map(|w| w.to_string()).as_deref() {
            Some("TRAILING") => "rtrim".to_owned(),
            Some("LEADING") => "ltrim".to_owned(),
            _ => "btrim".to_owned(),
        },
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        _ => return None,
    })
}

fn of_query(query: &Query) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        SelectItem::UnnamedExpr(expr) => known(expr),
        _ => None,
    }
}

/// `pg_type`'s name of a type as written.
fn type_name(written: &str) -> String {
    let lower = written.to_lowercase();
    let short = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
    let short = short.split('(').next().unwrap_or(short);
    match short {
        "integer" | "int" => "int4".to_owned(),
        "bigint" => "int8".to_owned(),
        "smallint" => "int2".to_owned(),
        "boolean" => "bool".to_owned(),
        other => other.to_owned(),
    }
}
