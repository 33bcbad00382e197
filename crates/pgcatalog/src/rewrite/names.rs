//! Names of output columns, as PostgreSQL derives them.

use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem};
use halcyon_dialect::shown_item_name;

/// Gives every computed output its name. DataFusion wants them unique, so a second column of a
/// name gets a number; nothing can refer to it anyway.
pub(super) fn name_outputs(select: &mut Select) {
    let mut taken: Vec<String> = Vec::new();
    for item in &mut select.projection {
        if matches!(item, SelectItem::UnnamedExpr(Expr::CompoundIdentifier(_))) {
            continue;
        }
        let Some(name) = shown_item_name(item) else { continue };
        let repeats = taken.iter().filter(|other| **other == name).count();
        if let SelectItem::UnnamedExpr(expr) = item
            && (repeats > 0 || !matches!(expr, Expr::Identifier(_)))
        {
            // What stands behind U+0001 is not shown (see `repeated::shown_name`).
            let shown = if repeats > 0 { format!("{name}\u{1}{repeats}") } else { name.clone() };
            let alias = Ident::with_quote('"', shown);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        taken.push(name);
    }
}
