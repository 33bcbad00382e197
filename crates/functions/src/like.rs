//! `LIKE '%special%requests%'` as searches for substrings, one after the other; and ILIKE.
//!
//! Arrow makes a regular expression of every pattern except `abc`, `abc%`, `%abc` and `%abc%`, and
//! compiles it again for each batch. Where `%` is the only wildcard, a few SIMD searches are enough
//! (`halcyon_value::like`, with `Substring`). ILIKE is handled here, too: a case-insensitive
//! regular expression takes more letters for the same than PostgreSQL's lower case does (`ſ` for
//! `s`). And so are patterns with many wildcards, and those that are no constants: a match of a regular expression
//! cannot be ended, and takes time up to the product of the lengths of pattern and text.
//!
//! Cost: O(bytes) per string. Figures: docs/experiments/tpch.md, query 13.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Like, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;
use halcyon_value::{ValueError, like};
use memchr::memmem::Finder;

use super::go_on;

/// A pattern whose parts are found by SIMD.
pub type Pattern = like::Pattern<Substring>;

/// The search for a substring by SIMD.
#[derive(Debug)]
pub struct Substring(Finder<'static>);

impl like::Search for Substring {
    fn new(part: &str) -> Self {
        Substring(Finder::new(part).into_owned())
    }

    #[inline]
    fn find(&self, text: &str) -> Option<usize> {
        self.0.find(text.as_bytes())
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.needle().len()
    }
}

/// Replaces the conditions for which searches are better.
pub fn with_searches(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        go_on()?;
        let names = NamePreserver::new(&node);
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let new = expr.transform_up(|expr| {
                let Expr::Like(like) = &expr else { return Ok(Transformed::no(expr)) };
                if like.escape_char.is_some() || !(searches(like) || taken(like)) {
                    return Ok(Transformed::no(expr));
                }
                let sides = [like.expr.get_type(&schema)?, like.pattern.get_type(&schema)?];
                let (text, pattern) = (like.expr.as_ref().clone(), literal(like));
                let found = match (&sides, pattern) {
                    ([DataType::Utf8View, _], Some(pattern)) => {
                        let search = Search::new(pattern, like.case_insensitive);
                        ScalarUDF::from(search).call(vec![text])
                    }
                    ([DataType::Utf8View, DataType::Utf8View], None) => {
                        matching(like.case_insensitive, vec![text, like.pattern.as_ref().clone()])
                    }
                    _ => return Ok(Transformed::no(expr)),
                };
                let negated = like.negated;
                Ok(Transformed::yes(if negated { Expr::Not(Box::new(found)) } else { found }))
            })?;
            Ok(new.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

/// Turns ILIKE, and LIKE with a pattern that is better not made a regular expression, into a function, so that
/// DataFusion folds constants by PostgreSQL's rules and not by its own.
pub fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Like(like) if like.escape_char.is_none() && taken(&like) => {
            let Like { negated, expr, pattern, case_insensitive, .. } = like;
            let view = |side: Expr| side.cast_to(&DataType::Utf8View, schema);
            let found = matching(case_insensitive, vec![view(*expr)?, view(*pattern)?]);
            Ok(Transformed::yes(if negated { Expr::Not(Box::new(found)) } else { found }))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Undoes [`check`].
pub fn uncheck(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call)
            if [Matching::LIKE, Matching::ILIKE].contains(&call.func.name()) =>
        {
            let ignore_case = call.func.name() == Matching::ILIKE;
            let mut sides = call.args.into_iter().map(Box::new);
            let (text, pattern) = (sides.next(), sides.next());
            let side = |side: Option<Box<Expr>>| side.expect("a text and a pattern");
            Transformed::yes(Expr::Like(Like::new(
                false,
                side(text),
                side(pattern),
                None,
                ignore_case,
            )))
        }
        other => Transformed::no(other),
    }
}

/// The pattern, if it is a constant and not NULL.
fn literal(like: &Like) -> Option<&str> {
    let Expr::Literal(ScalarValue::Utf8View(pattern) | ScalarValue::Utf8(pattern), _) =
        like.pattern.as_ref()
    else {
        return None;
    };
    pattern.as_deref()
}

/// Whether searches are better than the regular expression that Arrow would make of the pattern.
fn searches(like: &Like) -> bool {
    literal(like).is_some_and(|pattern| {
        let parts = pattern.split('%').filter(|part| !part.is_empty()).count();
        parts >= 2 && !pattern.contains(['_', '\\'])
    })
}

/// Wildcards of a pattern from which on no regular expression is made of it.
const WILDCARDS_MANY: usize = 8;

/// Whether Arrow's kernels are not asked: the match ignores case, or the pattern has many wildcards, is no constant, or
/// ends with an escape, which Arrow takes for a backslash.
fn taken(like: &Like) -> bool {
    let many = |pattern: &str| pattern.matches(['%', '_']).count() >= WILDCARDS_MANY;
    let dangles =
        |pattern: &str| pattern.bytes().rev().take_while(|c| *c == b'\\').count() % 2 == 1;
    let ours = |pattern: &str| many(pattern) || dangles(pattern);
    let is_constant = matches!(like.pattern.as_ref(), Expr::Literal(..));
    like.case_insensitive || !is_constant || literal(like).is_some_and(ours)
}

/// A match of the text and the pattern that are `sides`.
fn matching(ignore_case: bool, sides: Vec<Expr>) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::from(Matching { ignore_case, signature }).call(sides)
}

/// `… LIKE pattern` or `… ILIKE pattern`, where the pattern may be another one in each row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Matching {
    ignore_case: bool,
    signature: Signature,
}

impl Matching {
    const LIKE: &str = "like_of";
    const ILIKE: &str = "ilike";
}

impl ScalarUDFImpl for Matching {
    fn name(&self) -> &str {
        if self.ignore_case { Self::ILIKE } else { Self::LIKE }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // A rule that asks what a condition says of a NULL gives one without a type.
        if args.args.iter().any(|arg| arg.data_type() == DataType::Null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (texts, patterns) = (arrays[0].as_string_view(), arrays[1].as_string_view());
        let found = texts.iter().zip(patterns).map(|(text, pattern)| {
            let Some((text, pattern)) = text.zip(pattern) else { return Ok(None) };
            let found = like::matches_while(text, pattern, Some('\\'), self.ignore_case, goes_on);
            let found = found.map_err(refused)?;
            if found.is_none() {
                go_on()?;
            }
            Ok(found)
        });
        let found = found.collect::<Result<BooleanArray>>()?;
        if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            return ScalarValue::try_from_array(&found, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

/// `… LIKE pattern` or `… ILIKE pattern`.
#[derive(Debug)]
struct Search {
    text: String,
    ignore_case: bool,
    pattern: Pattern,
    signature: Signature,
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.ignore_case) == (&other.text, other.ignore_case)
    }
}

impl Eq for Search {}

impl Hash for Search {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.text, self.ignore_case).hash(state);
    }
}

impl Search {
    fn new(pattern: &str, ignore_case: bool) -> Self {
        Search {
            text: pattern.to_owned(),
            ignore_case,
            pattern: Pattern::new(pattern, Some('\\'), ignore_case),
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// Errors: 57014 or 53200 if the statement was ended meanwhile, 22025 for an escape at the end.
    #[inline]
    fn matches(&self, text: &str) -> Result<bool> {
        match self.pattern.matches_while(text, goes_on).map_err(refused)? {
            Some(found) => Ok(found),
            None => go_on().map(|()| false),
        }
    }
}

fn refused(error: ValueError) -> DataFusionError {
    external(SqlError::from(error))
}

/// Whether the statement for which this thread works may go on.
fn goes_on() -> bool {
    go_on().is_ok()
}

impl ScalarUDFImpl for Search {
    fn name(&self) -> &str {
        "like"
    }

    /// Different patterns over the same string must have different names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let word = if self.ignore_case { "ILIKE" } else { "LIKE" };
        Ok(format!("{} {word} {}", args[0].schema_name(), self.text))
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
                let found = text.as_deref().map(|text| self.matches(text)).transpose()?;
                Ok(ColumnarValue::Scalar(ScalarValue::Boolean(found)))
            }
            [ColumnarValue::Array(texts)] if texts.data_type() == &DataType::Utf8View => {
                let texts = texts.as_string_view();
                let mut ended = Ok(());
                let found = |row| {
                    texts.is_valid(row)
                        && self.matches(texts.value(row)).unwrap_or_else(|error| {
                            ended = Err(error);
                            false
                        })
                };
                let found = BooleanBuffer::collect_bool(texts.len(), found);
                ended?;
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
            let search = Search::new(pattern, false);
            let scalar = StringViewArray::new_scalar(pattern);
            let expected = like(&array, &scalar).unwrap();
            for (row, text) in texts.into_iter().enumerate() {
                let found = search.matches(text).expect("nothing ends it");
                assert_eq!(found, expected.value(row), "{text:?} LIKE {pattern:?}");
            }
        }
    }
}
