//! Which functions make documents, and which take them: lists for the planner.
//!
//! `json` and `jsonb` have the Arrow types `LargeUtf8` and `LargeBinary`, which nothing else has.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::Expr;

use halcyon_sql::identifier::fold;

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
            | "json_build_array\u{1}absent"
            | "jsonb_build_array\u{1}absent"
            | "json_build_object\u{1}absent"
            | "jsonb_build_object\u{1}absent"
            | "json\u{1}value"
            | "json\u{1}pair"
            | "jsonb\u{1}pair"
    )
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
