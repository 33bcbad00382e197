//! Identifiers: folded as PostgreSQL folds them when they are read, quoted where they must be when
//! they are written.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use crate::error::{Result, SqlError, SqlState};

/// An identifier: as written if quoted, else in lower case.
pub fn fold(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a dotted name. Errors: 42602 for names computed by functions.
pub fn parts(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
        ObjectNamePart::Function(_) => {
            Err(SqlError::new(SqlState::INVALID_NAME, format!("\"{name}\" is not a name")))
        }
    };
    name.0.iter().map(part).collect()
}

/// The last part of a dotted name.
pub fn last(name: &ObjectName) -> Result<String> {
    let mut parts = parts(name)?;
    parts.pop().ok_or_else(|| SqlError::new(SqlState::INVALID_NAME, "a name is missing"))
}

/// `name` as an identifier of SQL, in quotes where they are needed.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A text as a constant in SQL, in quotes; one with backslashes as `E'…'`, as PostgreSQL writes it.
pub fn quote_literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Words that PostgreSQL quotes where they are names: all keywords but the unreserved ones.
fn is_reserved(name: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
        "authorization", "between", "bigint", "binary", "bit", "boolean", "both", "case", "cast",
        "char", "character", "check", "coalesce", "collate", "collation", "column", "concurrently",
        "constraint", "create", "cross", "current_catalog", "current_date", "current_role",
        "current_schema", "current_time", "current_timestamp", "current_user", "dec", "decimal",
        "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
        "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant",
        "greatest", "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout",
        "int", "integer", "intersect", "interval", "into", "is", "isnull", "join", "lateral",
        "leading", "least", "left", "like", "limit", "localtime", "localtimestamp", "national",
        "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif", "numeric",
        "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing",
        "position", "precision", "primary", "real", "references", "returning", "right", "row",
        "select", "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric",
        "table", "tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim",
        "true", "union", "unique", "user", "using", "values", "varchar", "variadic", "verbose",
        "when", "where", "window", "with", "xmlattributes", "xmlconcat", "xmlelement", "xmlexists",
        "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable",
    ];
    WORDS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold_unless_quoted() {
        assert_eq!(fold(&Ident::new("ABC")), "abc");
        assert_eq!(fold(&Ident::with_quote('"', "ABC")), "ABC");
    }

    #[test]
    fn identifiers_are_quoted_only_where_they_must() {
        for (name, text) in [
            ("a_1", "a_1"),
            ("a_1$", "\"a_1$\""),
            ("Order", "\"Order\""),
            ("user", "\"user\""),
            ("1a", "\"1a\""),
        ] {
            assert_eq!(quote_ident(name), text);
        }
        assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
    }
}
