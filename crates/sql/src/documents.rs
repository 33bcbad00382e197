//! Which functions make documents, and which take them: lists for the planner.
//!
//! `json` and `jsonb` have the Arrow types `LargeUtf8` and `LargeBinary`, which nothing else has.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::Expr;

use crate::identifier::fold;

/// Whether values are documents.
pub fn is_document(ty: &DataType) -> bool {
    matches!(ty, DataType::LargeUtf8 | DataType::LargeBinary)
}

/// Whether a function makes documents of values of any type.
pub fn keeps_values(function: &str) -> bool {
    matches!(
        function,
        "to_json"
            | "to_jsonb"
            | "json_build_array"
            | "jsonb_build_array"
            | "json_build_object"
            | "jsonb_build_object"
            | "json\u{1}value"
            | "json\u{1}pair"
            | "jsonb\u{1}pair"
    )
}

/// The type of documents or arrays that stand beside texts, which are constants of that type then;
/// `None` if the types are others.
pub fn met(types: &[DataType]) -> Option<DataType> {
    let mut kept = types
        .iter()
        .filter(|ty| !ty.is_null() && !matches!(ty, DataType::Utf8 | DataType::Utf8View));
    let first = kept.next()?;
    let is_kept = is_document(first) || matches!(first, DataType::List(_));
    let others =
        types.iter().any(|ty| matches!(ty, DataType::Utf8 | DataType::Utf8View) || is_document(ty));
    (is_kept && others && kept.all(|ty| ty == first)).then(|| first.clone())
}

/// Whether the expression is a call of a function that makes a document of any value.
pub fn makes_document(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
    matches!(
        name.as_deref(),
        Some(
            "row_to_json"
                | "to_json"
                | "to_jsonb"
                | "json_agg"
                | "jsonb_agg"
                | "json_build_object"
                | "jsonb_build_object"
                | "json_build_array"
                | "jsonb_build_array"
                | "json_object_agg"
                | "jsonb_object_agg"
        )
    )
}
