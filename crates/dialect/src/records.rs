//! `jsonb_to_record` and its kin: documents as rows of the columns that the alias defines.
//!
//! `FROM jsonb_to_recordset(x) AS t (a int, b text)` becomes the subquery
//! `(SELECT (r.value ->> 'a')::int AS a, (r.value ->> 'b')::text AS b FROM jsonb_array_elements(x) AS r) AS t`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, SetExpr,
    TableAlias, TableAliasColumnDef, TableFactor, VisitMut, VisitorMut,
};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

/// Rewrites a call of these functions in FROM. Errors: 42601 without definitions of columns.
pub(crate) fn as_columns(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &args.args, alias),
        TableFactor::Function { name, args, alias, .. } => (name, &*args, alias),
        _ => return Ok(()),
    };
    let Some(own) = name.0.last().and_then(ObjectNamePart::as_ident).map(fold) else {
        return Ok(());
    };
    let elements = match own.as_str() {
        "json_to_recordset" => Some("json_array_elements"),
        "jsonb_to_recordset" => Some("jsonb_array_elements"),
        "json_to_record" | "jsonb_to_record" => None,
        _ => return Ok(()),
    };
    let ([FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))], Some(alias)) =
        (&args[..], alias.take())
    else {
        return Err(no_definitions());
    };
    let kind = if own.starts_with("jsonb") { "jsonb" } else { "json" };
    let items = alias.columns.iter().map(|column| item(column, kind));
    let items: Vec<String> = items.collect::<Result<_>>()?;
    if items.is_empty() {
        return Err(no_definitions());
    }
    let items = items.join(", ");
    let text = match elements {
        Some(elements) => format!("SELECT {items} FROM {elements}(NULL) AS r"),
        None => format!("SELECT {items}"),
    };
    let mut query = halcyon_sql::parse::parse_own_query(&text);
    match query.body.as_mut() {
        SetExpr::Select(select) if elements.is_some() => {
            if let TableFactor::Table { args: Some(args), .. } = &mut select.from[0].relation {
                args.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument.clone()))];
            }
        }
        body => {
            let ty = if kind == "json" { DataType::JSON } else { DataType::JSONB };
            let document = Expr::Cast {
                kind: CastKind::DoubleColon,
                expr: Box::new(argument.clone()),
                data_type: ty,
                array: false,
                format: None,
            };
            let _ = VisitMut::visit(body, &mut Documents { document });
        }
    }
    let alias = TableAlias { columns: Vec::new(), ..alias };
    *factor = TableFactor::Derived {
        lateral: true,
        subquery: Box::new(query),
        alias: Some(alias),
        sample: None,
    };
    Ok(())
}

/// Puts a document in the place of `r.value`.
struct Documents {
    document: Expr,
}

impl VisitorMut for Documents {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::CompoundIdentifier(_)) {
            *expr = self.document.clone();
        }
        ControlFlow::Continue(())
    }
}

/// A member of the document, which is of type `kind`, as a column. A column of arrays takes an array of the document, or
/// a text that writes one.
fn item(column: &TableAliasColumnDef, kind: &str) -> Result<String> {
    let Some(ty) = &column.data_type else { return Err(no_definitions()) };
    let name = fold(&column.name);
    let key = name.replace('\'', "''");
    let value = match ty {
        DataType::Array(_) => format!(
            "CASE {kind}_typeof(r.value -> '{key}') WHEN 'array' \
             THEN \"{kind}_array_elements_text\u{1}rows\"(r.value -> '{key}')::{ty} \
             ELSE (r.value ->> '{key}')::{ty} END"
        ),
        DataType::JSON | DataType::JSONB => {
            format!("CASE WHEN r.value ->> '{key}' IS NULL THEN NULL ELSE r.value -> '{key}' END")
        }
        _ => format!("r.value ->> '{key}'"),
    };
    Ok(format!("({value})::{ty} AS {}", Ident::with_quote('"', name)))
}

fn no_definitions() -> SqlError {
    let message = "a column definition list is required for functions returning \"record\"";
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}
