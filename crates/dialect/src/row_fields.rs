//! `(ROW(1, 2)).f1`: a field of a row that is written where the field is taken, which is that item of the row.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart,
};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

use crate::made::nested;

/// Puts the item in the place of the field. Errors: 42703 for a name that is none of the row's.
pub(crate) fn settle(expr: &mut Expr) -> Result<()> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(()) };
    let Some(AccessExpr::Dot(Expr::Identifier(field))) = access_chain.first() else {
        return Ok(());
    };
    let Some(items) = items(root) else { return Ok(()) };
    let name = fold(field);
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
