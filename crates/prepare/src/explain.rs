//! What EXPLAIN is asked for.

use datafusion::sql::sqlparser::ast::{AnalyzeFormatKind, Expr, UtilityOption, Value};

use halcyon_sql::error::{Result, SqlError, SqlState};

/// What EXPLAIN does beside showing the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explaining {
    /// The statement runs.
    pub analyze: bool,
    /// The time of planning is shown: with ANALYZE unless it is turned off, without if it is asked for.
    pub summary: bool,
    /// The plan is shown as a document, not as lines of text.
    pub json: bool,
}

/// What EXPLAIN is asked for by its options.
///
/// Errors: 0A000 for formats other than text and JSON, and for what no plan shows here; 42601 for options that
/// nobody knows; 22023 for TIMING without ANALYZE.
pub(crate) fn asked(
    analyze: bool,
    format: Option<&AnalyzeFormatKind>,
    options: Option<&[UtilityOption]>,
) -> Result<Explaining> {
    let mut json = false;
    if let Some(AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format)) = format
    {
        json = is_json(&format.to_string())?;
    }
    let options = options.unwrap_or_default();
    let mut analyze = analyze;
    let (mut timing, mut summary) = (false, None);
    for UtilityOption { name, arg } in options {
        let name = name.value.to_lowercase();
        match name.as_str() {
            "analyze" => analyze = is_on(&name, arg.as_ref())?,
            "timing" => timing = is_on(&name, arg.as_ref())?,
            "format" => {
                json = is_json(&arg.as_ref().map(ToString::to_string).unwrap_or_default())?;
            }
            // There are no costs to show, and a plan is always shown whole.
            "summary" => summary = Some(is_on(&name, arg.as_ref())?),
            "verbose" | "costs" => {
                is_on(&name, arg.as_ref())?;
            }
            "buffers" | "wal" | "settings" => {
                if is_on(&name, arg.as_ref())? {
                    let what = format!("EXPLAIN ({})", name.to_uppercase());
                    return Err(SqlError::unsupported(what)
                        .hint("EXPLAIN ANALYZE shows rows and the time of the whole statement."));
                }
            }
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    if timing && !analyze {
        let message = "EXPLAIN option TIMING requires ANALYZE";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Explaining { analyze, summary: summary.unwrap_or(analyze), json })
}

/// Whether a format is JSON; text is the other one.
fn is_json(format: &str) -> Result<bool> {
    let format = format.trim_matches(['\'', '"']).to_uppercase();
    if matches!(format.as_str(), "XML" | "YAML") {
        return Err(SqlError::unsupported(format!("EXPLAIN (FORMAT {format})"))
            .hint("Plans are shown as text or JSON."));
    }
    if !matches!(format.as_str(), "TEXT" | "JSON") {
        let shown = format.to_lowercase();
        let message = format!("unrecognized value for EXPLAIN option \"format\": \"{shown}\"");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(format == "JSON")
}

/// Whether an option is on: by itself, or by the word or number behind its name. Errors: 42601.
fn is_on(name: &str, value: Option<&Expr>) -> Result<bool> {
    let text = match value {
        None => return Ok(true),
        Some(Expr::Value(value)) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Some(other) => other.to_string(),
    };
    match text.to_lowercase().as_str() {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => {
            let message = format!("{name} requires a Boolean value");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// The text that an EXPLAIN explains.
pub fn explained_text(text: &str) -> &str {
    let word = |text: &str, word: &str| {
        let head = text.get(..word.len())?;
        let rest = &text[word.len()..];
        let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        (ends && head.eq_ignore_ascii_case(word)).then(|| rest.trim_start().len())
    };
    let mut rest = text.trim_start();
    for skipped in ["explain", "analyze", "verbose"] {
        if let Some(left) = word(rest, skipped) {
            rest = &rest[rest.len() - left..];
        }
    }
    if let Some(options) = rest.strip_prefix('(')
        && word(text.trim_start(), "explain").is_some()
        && let Some((options, of)) = options.split_once(')')
        && !options.to_ascii_lowercase().contains("select")
    {
        return of.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn explained(options: &str) -> Result<(bool, bool), String> {
        let text = format!("EXPLAIN {options} SELECT 1");
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text).expect(&text).pop();
        let Some(Statement::Explain { analyze, format, options, .. }) = parsed else {
            panic!("{text} is no EXPLAIN")
        };
        asked(analyze, format.as_ref(), options.as_deref())
            .map(|asked| (asked.analyze, asked.summary))
            .map_err(|error| error.state().to_string())
    }

    #[test]
    fn options_are_done_or_refused() {
        let refused = |state: &str| Err(state.to_owned());
        assert_eq!(explained(""), Ok((false, false)));
        assert_eq!(explained("ANALYZE"), Ok((true, true)));
        assert_eq!(explained("(ANALYZE)"), Ok((true, true)));
        assert_eq!(explained("(ANALYZE OFF, VERBOSE)"), Ok((false, false)));
        assert_eq!(explained("(ANALYZE TRUE, TIMING OFF, COSTS OFF)"), Ok((true, true)));
        assert_eq!(explained("(BUFFERS OFF, FORMAT TEXT)"), Ok((false, false)));
        assert_eq!(explained("(SUMMARY)"), Ok((false, true)));
        assert_eq!(explained("(ANALYZE, SUMMARY off)"), Ok((true, false)));
        assert_eq!(explained("(ANALYZE, BUFFERS)"), refused("0A000"));
        assert_eq!(explained("(FORMAT JSON)"), Ok((false, false)));
        assert_eq!(explained("(FORMAT XML)"), refused("0A000"));
        assert_eq!(explained("(FORMAT poem)"), refused("22023"));
        assert_eq!(explained("(TIMING)"), refused("22023"));
        assert_eq!(explained("(ANALYZE 7)"), refused("42601"));
        assert_eq!(explained("(NOPE)"), refused("42601"));
    }

    #[test]
    fn explain_and_its_options_are_no_part_of_the_text() {
        for text in [
            "SELECT 1",
            "EXPLAIN SELECT 1",
            " explain analyze verbose SELECT 1",
            "EXPLAIN (ANALYZE, COSTS off) SELECT 1",
        ] {
            assert_eq!(explained_text(text), "SELECT 1", "{text}");
        }
        assert_eq!(explained_text("EXPLAIN (SELECT 1)"), "(SELECT 1)");
        assert_eq!(explained_text("explained"), "explained");
    }
}
