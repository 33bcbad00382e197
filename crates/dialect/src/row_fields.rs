//! `(ROW(1, 2)).f1`: a field of a row that is written where the field is taken, which is that item of the row. And
//! `jsonb_each(x)` in a SELECT list: rows of a key and a value, of which `(jsonb_each(x)).key` is one.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName,
    ObjectNamePart,
};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::repeated::TAIL;

use crate::made::{call, nested, quoted};

/// Puts the item in the place of the field. Errors: 42703 for a name that is none of the row's.
pub(crate) fn settle(expr: &mut Expr) -> Result<()> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(()) };
    let Some(AccessExpr::Dot(Expr::Identifier(field))) = access_chain.first() else {
        return Ok(());
    };
    let name = fold(field);
    if let (Some(pairs), 1) = (pairs(root), access_chain.len()) {
        *expr = match name.as_str() {
            "key" | "value" => rows_of(pairs, &name),
            _ => {
                let message = format!("column \"{name}\" not found in data type record");
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
            }
        };
        return Ok(());
    }
    let Some(items) = items(root) else { return Ok(()) };
    let number = name.strip_prefix('f').and_then(|number| number.parse::<usize>().ok());
    let item = number.and_then(|number| items.get(number.checked_sub(1)?));
    // `f01` is the name of no field.
    let Some(item) = item.filter(|_| !name.starts_with("f0") && !name.starts_with("f+")) else {
        let message = format!("could not identify column \"{name}\" in record data type");
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    let item = nested((*item).clone());
    if access_chain.len() == 1 {
        *expr = item;
    } else {
        **root = item;
        access_chain.remove(0);
    }
    Ok(())
}

/// A call of a function that gives the pairs of a document, within brackets.
fn pairs(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Nested(inner) => pairs(inner),
        Expr::Function(function) => {
            let name = fold(function.name.0.last()?.as_ident()?);
            OF_PAIRS.contains(&name.as_str()).then_some(function)
        }
        _ => None,
    }
}

/// Functions that give the pairs of a document.
pub(crate) const OF_PAIRS: [&str; 4] =
    ["json_each", "json_each_text", "jsonb_each", "jsonb_each_text"];

/// A call of one of [`OF_PAIRS`] in a SELECT list as rows of both columns.
pub(crate) fn row_of_pair(function: &Function) -> Expr {
    call("row", vec![rows_of(function, "key"), rows_of(function, "value")])
}

/// The rows of one column of a call of one of [`OF_PAIRS`].
fn rows_of(function: &Function, column: &str) -> Expr {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let list = format!("{}{TAIL}{column}", name.unwrap_or_default());
    let list = Function { name: ObjectName::from(vec![quoted(list)]), ..function.clone() };
    call("unnest", vec![Expr::Function(list)])
}

/// The items of a row constructor within brackets; `None` for anything else, and for a row with the columns of a table.
fn items(expr: &Expr) -> Option<Vec<&Expr>> {
    let Expr::Nested(inner) = expr else { return None };
    match inner.as_ref() {
        Expr::Nested(_) => items(inner),
        Expr::Tuple(items) => Some(items.iter().collect()),
        Expr::Function(function) => {
            let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
                return None;
            };
            let FunctionArguments::List(list) = &function.args else { return None };
            if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("row") {
                return None;
            }
            let item = |argument| match argument {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref item)) => Some(item),
                _ => None,
            };
            list.args.iter().map(item).collect()
        }
        _ => None,
    }
}
