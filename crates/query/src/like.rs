//! `LIKE '%special%requests%'` as searches for substrings, one after the other.
//!
//! Arrow makes a regular expression of every pattern but `abc`, `abc%`, `%abc` and `%abc%`, and
//! compiles it again for each batch. Where `%` is the only wildcard, the parts between must occur
//! in order, and taking the first place of each leaves the most room for the next: a few
//! searches by SIMD do.
//!
//! Cost: O(bytes) per string. Figures: docs/experiments/tpch.md, query 13.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Like, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use memchr::memmem::Finder;

/// Replaces the conditions that are better searched for.
pub(crate) fn with_searches(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| {
                let Expr::Like(like) = &expr else { return Ok(Transformed::no(expr)) };
                let Some(pattern) = searched(like) else { return Ok(Transformed::no(expr)) };
                if like.expr.get_type(&schema)? != DataType::Utf8View {
                    return Ok(Transformed::no(expr));
                }
                let function = Arc::new(ScalarUDF::from(Search::new(pattern)));
                let args = vec![like.expr.as_ref().clone()];
                let found = Expr::ScalarFunction(ScalarFunction::new_udf(function, args));
                let negated = like.negated;
                Ok(Transformed::yes(if negated { Expr::Not(Box::new(found)) } else { found }))
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

/// The pattern, if Arrow would make a regular expression of it and searches do.
fn searched(like: &Like) -> Option<&str> {
    let Expr::Literal(ScalarValue::Utf8View(pattern) | ScalarValue::Utf8(pattern), _) =
        like.pattern.as_ref()
    else {
        return None;
    };
    let pattern = pattern.as_deref()?;
    let plain = !like.case_insensitive && like.escape_char.is_none();
    let parts = pattern.split('%').filter(|part| !part.is_empty()).count();
    (plain && parts >= 2 && !pattern.contains(['_', '\\'])).then_some(pattern)
}

/// `… LIKE pattern` for a pattern of at least two parts between `%`.
#[derive(Debug)]
struct Search {
    pattern: String,
    /// What the string must begin and end with; may be empty.
    prefix: String,
    suffix: String,
    between: Vec<Finder<'static>>,
    signature: Signature,
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for Search {}

impl Hash for Search {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pattern.hash(state);
    }
}

impl Search {
    fn new(pattern: &str) -> Self {
        let mut parts: Vec<&str> = pattern.split('%').collect();
        let suffix = parts.pop().unwrap_or_default().to_owned();
        let prefix = parts.remove(0).to_owned();
        parts.retain(|part| !part.is_empty());
        Search {
            pattern: pattern.to_owned(),
            prefix,
            suffix,
            between: parts.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    fn matches(&self, text: &str) -> bool {
        let Some(rest) = text.as_bytes().strip_prefix(self.prefix.as_bytes()) else { return false };
        let Some(mut rest) = rest.strip_suffix(self.suffix.as_bytes()) else { return false };
        for part in &self.between {
            let Some(at) = part.find(rest) else { return false };
            rest = &rest[at + part.needle().len()..];
        }
        true
    }
}

impl ScalarUDFImpl for Search {
    fn name(&self) -> &str {
        "like"
    }

    /// Different patterns over the same string must have different names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("{} LIKE {}", args[0].schema_name(), self.pattern))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(ScalarValue::Utf8View(text))] => {
                let found = text.as_deref().map(|text| self.matches(text));
                Ok(ColumnarValue::Scalar(ScalarValue::Boolean(found)))
            }
            [ColumnarValue::Array(texts)] if texts.data_type() == &DataType::Utf8View => {
                let texts = texts.as_string_view();
                let found = |row| texts.is_valid(row) && self.matches(texts.value(row));
                let found = BooleanBuffer::collect_bool(texts.len(), found);
                let found = BooleanArray::new(found, texts.nulls().cloned());
                Ok(ColumnarValue::Array(Arc::new(found) as ArrayRef))
            }
            _ => internal_err!("a search is planned for strings in views"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use arrow::compute::kernels::comparison::like;

    #[test]
    fn searches_agree_with_arrow() {
        let texts = [
            "",
            "a",
            "ab",
            "aba",
            "abba",
            "special requests",
            "the specialrequests.",
            "requests special",
            "aab",
            "baab",
            "ab ab",
            "xabyabz",
            "abab",
            "überall",
            "ü b ü",
        ];
        let patterns = [
            "%a%b%",
            "a%b",
            "a%b%",
            "%a%b",
            "%ab%ab%",
            "ab%ab",
            "a%a",
            "%special%requests%",
            "ü%ü",
        ];
        let array = StringViewArray::from_iter_values(texts);
        for pattern in patterns {
            let search = Search::new(pattern);
            let scalar = StringViewArray::new_scalar(pattern);
            let expected = like(&array, &scalar).unwrap();
            for (row, text) in texts.into_iter().enumerate() {
                assert_eq!(search.matches(text), expected.value(row), "{text:?} LIKE {pattern:?}");
            }
        }
    }
}
