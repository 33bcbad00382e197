//! The conflict target of an INSERT: columns, expressions and a condition, by which an index is found.

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, SetExpr};

use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse_query;
use crate::syntax::INFERENCE;

/// The conflict target of an INSERT: what the arbiter index is over.
#[derive(Clone, Debug)]
pub struct Inference {
    /// Columns and expressions of the key.
    pub keys: Vec<Expr>,
    /// The condition, if the index may be a partial one.
    pub predicate: Option<Expr>,
}

impl Inference {
    /// The target of `ON CONFLICT (…)`, as `syntax::spellings` brought it to the SQL parser.
    pub fn of(names: &[Ident]) -> Result<Inference> {
        let text = names.first().and_then(|name| name.value.strip_prefix(INFERENCE));
        let Some(text) = text else {
            let keys = names.iter().cloned().map(Expr::Identifier).collect();
            return Ok(Inference { keys, predicate: None });
        };
        let wrong = || SqlError::new(SqlState::SYNTAX_ERROR, "a conflict target was expected");
        let SetExpr::Select(select) = *parse_query(text)?.body else { return Err(wrong()) };
        let key = |item: SelectItem| match item {
            SelectItem::UnnamedExpr(Expr::Nested(inner)) => Ok(*inner),
            SelectItem::UnnamedExpr(key) => Ok(key),
            _ => Err(wrong()),
        };
        let keys = select.projection.into_iter().map(key).collect::<Result<_>>()?;
        Ok(Inference { keys, predicate: select.selection })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{ConflictTarget, OnInsert, Statement as Sql};

    use super::*;
    use crate::parse::parse;
    use crate::syntax::Statement;

    fn inference(clause: &str) -> (Vec<String>, Option<String>) {
        let text = format!("INSERT INTO t VALUES (1) ON CONFLICT {clause} DO NOTHING");
        let Statement::Sql(found) = parse(&text).expect(clause).remove(0).statement else {
            panic!("{clause}")
        };
        let Sql::Insert(insert) = *found else { panic!("{clause}") };
        let Some(OnInsert::OnConflict(on)) = insert.on else { panic!("{clause}") };
        let Some(ConflictTarget::Columns(names)) = on.conflict_target else { panic!("{clause}") };
        let found = Inference::of(&names).expect(clause);
        let keys = found.keys.iter().map(ToString::to_string).collect();
        (keys, found.predicate.map(|predicate| predicate.to_string()))
    }

    #[test]
    fn targets_have_columns_expressions_and_conditions() {
        for (clause, keys, predicate) in [
            ("(a, b)", vec!["a", "b"], None),
            ("(lower(email))", vec!["lower(email)"], None),
            ("( lower(a) , \"B\", (c + 1) )", vec!["lower(a)", "\"B\"", "c + 1"], None),
            ("(a) WHERE b > 1 AND (c)", vec!["a"], Some("b > 1 AND (c)")),
            ("(lower(a)) WHERE d = 'do; it'", vec!["lower(a)"], Some("d = 'do; it'")),
        ] {
            let (found, condition) = inference(clause);
            assert_eq!(found, keys, "{clause}");
            assert_eq!(condition.as_deref(), predicate, "{clause}");
        }
    }
}
