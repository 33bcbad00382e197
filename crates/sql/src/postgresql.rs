//! PostgreSQL's dialect, mended where the SQL parser reads another tree out of a text than PostgreSQL.
//!
//! - `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`.
//! - `-2 ^ 2` is `(-2) ^ 2`.
//! - COLLATE stands behind casts and COLLATE, too.
//! - An element of ROLLUP, CUBE or GROUPING SETS may begin with a parenthesis and go on behind it.
//! - `a ISNULL` is `a IS NULL`; texts in quotes on lines of their own are one text.
//! - `a IN ((SELECT …), b)` has a list and not a subquery.
//! - `(VALUES (1))` is a subquery and no call of a function, and so is `((SELECT 1) UNION SELECT 2)`.
//! - `a JOIN b JOIN c ON … ON …` is `a JOIN (b JOIN c ON …) ON …`: see [`with_parentheses`].

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{Expr, Statement, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::stack::{DEPTH_MAX, go_on, stop_for_depth};

/// What is not written here is as the SQL parser has it.
#[derive(Debug)]
pub(crate) struct Postgresql;

const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! as_postgresql {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)+) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $result {
            go_on();
            POSTGRESQL.$name($($arg),*)
        })+
    };
}

/// Flags for which PostgreSQL's dialect has the default.
macro_rules! flags_of_postgresql {
    ($($name:ident)+) => {
        $(fn $name(&self) -> bool {
            go_on();
            POSTGRESQL.$name()
        })+
    };
}

// Every question that the parser asks while it reads is answered here, those with defaults, too: a recursion
// that asks only such a question (DESCRIBE DESCRIBE …) would not be stopped. `supports_trailing_commas` is asked
// when a parser is made, which nobody stops.
impl Dialect for Postgresql {
    fn dialect(&self) -> TypeId {
        go_on();
        POSTGRESQL.dialect()
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        go_on();
        if let Some(sets) = grouping_sets(parser) {
            return Some(sets);
        }
        let op = match parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            Token::LParen if is_values(parser) || begins_in_brackets(parser) => {
                return Some(subquery(parser));
            }
            Token::LParen if is_no_key(parser) => {
                parser.next_token();
                parser.next_token();
                return Some(Ok(Expr::Tuple(Vec::new())));
            }
            _ => return POSTGRESQL.parse_prefix(parser),
        };
        parser.next_token();
        let signed = parser.parse_subexpr(self.prec_value(Precedence::AtTz));
        Some(signed.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{COLLATE, DISTINCT, FROM, IS, NOT};
        go_on();
        if is_isnull(parser) {
            if is_long_chain(expr) {
                stop_for_depth();
            }
            parser.next_token();
            return Some(Ok(Expr::IsNull(Box::new(expr.clone()))));
        }
        if let Some(list) = list_of_subqueries(parser, expr) {
            return Some(Ok(list));
        }
        if parser.parse_keyword(COLLATE) {
            if is_long_chain(expr) {
                stop_for_depth();
            }
            let name = parser.parse_object_name(false);
            let expr = Box::new(expr.clone());
            return Some(name.map(|collation| Expr::Collate { expr, collation }));
        }
        let not = parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]);
        if !not && !parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            return None;
        }
        if is_long_chain(expr) {
            stop_for_depth();
        }
        Some(parser.parse_subexpr(precedence).map(|other| {
            let (left, right) = (Box::new(expr.clone()), Box::new(other));
            match not {
                true => Expr::IsNotDistinctFrom(left, right),
                false => Expr::IsDistinctFrom(left, right),
            }
        }))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        go_on();
        if is_isnull(parser) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        POSTGRESQL.get_next_precedence(parser)
    }

    /// Words that go on with a statement whose list ends it: `INSERT INTO t SELECT 1 ON CONFLICT …`, `SELECT 1 FOR UPDATE`.
    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        go_on();
        !matches!(keyword, Keyword::ON | Keyword::FOR | Keyword::WINDOW)
            && POSTGRESQL.is_column_alias(keyword, parser)
    }

    fn is_select_item_alias(
        &self,
        explicit: bool,
        word: &Keyword,
        parser: &mut Parser<'_>,
    ) -> bool {
        go_on();
        explicit || self.is_column_alias(word, parser)
    }

    /// Sets of keys are read by [`grouping_sets`].
    fn supports_group_by_expr(&self) -> bool {
        go_on();
        false
    }

    /// Texts in quotes with a new line between them are one.
    fn supports_string_literal_concatenation_with_newline(&self) -> bool {
        go_on();
        true
    }

    as_postgresql! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        prec_value(precedence: Precedence) -> u8;
        supports_unicode_string_literal() -> bool;
        supports_filter_during_aggregation() -> bool;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_named_fn_args_with_expr_name() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_comment_optimizer_hint() -> bool;
        is_nested_delimited_identifier_start(ch: char) -> bool;
        parse_statement(parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>>;
        prec_unknown() -> u8;
        is_table_factor(keyword: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_table_alias(keyword: &Keyword, parser: &mut Parser<'_>) -> bool;
        is_table_factor_alias(explicit: bool, keyword: &Keyword, parser: &mut Parser<'_>) -> bool;
    }

    flags_of_postgresql! {
        supports_string_literal_backslash_escape ignores_wildcard_escapes
        supports_window_clause_named_window_reference supports_within_after_array_aggregation
        supports_partition_by_after_order_by supports_array_join_syntax
        supports_group_by_with_modifier supports_left_associative_joins_without_parens
        supports_outer_join_operator supports_cross_join_constraint supports_connect_by
        supports_execute_immediate supports_match_recognize supports_in_empty_list
        supports_start_transaction_modifier supports_end_transaction_modifier
        supports_named_fn_args_with_eq_operator supports_named_fn_args_with_assignment_operator
        supports_named_fn_args_with_rarrow_operator supports_numeric_prefix
        supports_window_function_null_treatment_arg supports_dictionary_syntax
        support_map_literal_syntax supports_lambda_functions supports_parenthesized_set_variables
        supports_comma_separated_set_assignments supports_update_order_by
        supports_select_wildcard_except convert_type_before_value supports_triple_quoted_string
        supports_limit_comma supports_string_literal_concatenation
        supports_projection_trailing_commas
        supports_from_trailing_commas supports_column_definition_trailing_commas
        supports_object_name_double_dot_notation supports_struct_literal supports_select_expr_star
        supports_from_first_select supports_from_first_insert supports_pipe_operator
        supports_user_host_grantee supports_match_against supports_select_wildcard_exclude
        supports_select_exclude supports_create_table_multi_schema_info_sources
        supports_select_modifiers describe_requires_table_keyword supports_extract_comma_syntax
        supports_subquery_as_function_arg supports_create_view_comment_syntax
        supports_array_typedef_without_element_type supports_parens_around_table_factor
        supports_values_as_table_factor supports_dollar_placeholder supports_dollar_as_money_prefix
        require_interval_qualifier supports_asc_desc_in_column_definition
        supports_multiline_comment_hints supports_eq_alias_assignment supports_try_convert
        supports_bang_not_operator supports_load_data supports_top_before_distinct
        supports_boolean_literals supports_show_like_before_in supports_create_table_select
        supports_partiql supports_constraint_keyword_without_name supports_key_column_option
        supports_table_sample_before_alias supports_insert_set supports_insert_table_function
        supports_insert_table_query supports_insert_format supports_set_stmt_without_operator
        supports_table_versioning supports_table_hints requires_single_line_comment_whitespace
        supports_order_by_all supports_space_separated_column_options
        supports_comma_separated_drop_column_list supports_data_type_signed_suffix
        supports_semantic_view_table_factor supports_quote_delimited_string
        supports_double_ampersand_operator supports_binary_kw_as_cast
        supports_select_wildcard_replace supports_select_wildcard_ilike
        supports_select_wildcard_rename supports_optimize_table supports_install supports_detach
        supports_prewhere supports_with_fill supports_limit_by supports_interpolate
        supports_settings supports_select_format supports_cte_without_as
        supports_select_item_multi_column_alias supports_create_table_using
        supports_long_type_as_bigint supports_map_literal_with_angle_brackets
    }
}

/// Whether an operand is a chain of tests that is longer than any tree may be deep. Each test in it
/// would be copied once more.
fn is_long_chain(mut expr: &Expr) -> bool {
    for _ in 0..DEPTH_MAX {
        expr = match expr {
            Expr::IsDistinctFrom(left, _)
            | Expr::IsNotDistinctFrom(left, _)
            | Expr::BinaryOp { left, .. }
            | Expr::Collate { expr: left, .. }
            | Expr::IsNull(left)
            | Expr::IsNotNull(left)
            | Expr::IsTrue(left)
            | Expr::IsNotTrue(left)
            | Expr::IsFalse(left)
            | Expr::IsNotFalse(left)
            | Expr::IsUnknown(left)
            | Expr::IsNotUnknown(left) => left,
            Expr::InList { expr, .. } | Expr::Between { expr, .. } | Expr::Like { expr, .. } => {
                expr
            }
            _ => return false,
        };
    }
    true
}

/// Whether `()` comes next, where keys of GROUP BY stand.
fn is_no_key(parser: &Parser<'_>) -> bool {
    let is_close = matches!(parser.peek_nth_token_ref(1).token, Token::RParen);
    is_close
        && match &parser.get_current_token().token {
            Token::Comma => true,
            Token::Word(word) => word.keyword == Keyword::BY,
            _ => false,
        }
}

/// ROLLUP, CUBE or GROUPING SETS, if one of them comes next: sets of keys, each a key or several in parentheses.
fn grouping_sets(parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
    let is_word = |at: usize, word: Keyword| {
        matches!(&parser.peek_nth_token_ref(at).token,
            Token::Word(next) if next.quote_style.is_none() && next.keyword == word)
    };
    let is_open = |at: usize| matches!(parser.peek_nth_token_ref(at).token, Token::LParen);
    type Made = fn(Vec<Vec<Expr>>) -> Expr;
    let made: Made = match () {
        () if is_word(0, Keyword::ROLLUP) && is_open(1) => Expr::Rollup,
        () if is_word(0, Keyword::CUBE) && is_open(1) => Expr::Cube,
        () if is_word(0, Keyword::GROUPING) && is_word(1, Keyword::SETS) => {
            parser.advance_token();
            Expr::GroupingSets
        }
        () => return None,
    };
    parser.advance_token();
    let set = |parser: &mut Parser<'_>| {
        if parser.consume_tokens(&[Token::LParen, Token::RParen]) {
            return Ok(Vec::new());
        }
        Ok(match parser.parse_expr()? {
            Expr::Tuple(keys) => keys,
            Expr::Nested(key) => vec![*key],
            key => vec![key],
        })
    };
    let sets = parser
        .expect_token(&Token::LParen)
        .and_then(|_| parser.parse_comma_separated(set))
        .and_then(|sets| parser.expect_token(&Token::RParen).map(|_| sets));
    Some(sets.map(made))
}

/// Whether the word ISNULL comes next.
fn is_isnull(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_token_ref().token,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"))
}

/// Whether `(VALUES (` comes next.
fn is_values(parser: &Parser<'_>) -> bool {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    matches!(token(1), Token::Word(word) if word.keyword == Keyword::VALUES)
        && *token(2) == Token::LParen
}

/// Whether `((SELECT …) UNION …` or its like comes next, which the SQL parser takes for an expression in brackets.
///
/// Cost: O(tokens up to the bracket that the second one opens).
fn begins_in_brackets(parser: &Parser<'_>) -> bool {
    use Keyword::{EXCEPT, INTERSECT, SELECT, UNION, VALUES, WITH};
    let is_one = |token: &Token, list: &[Keyword]| matches!(token, Token::Word(word) if list.contains(&word.keyword));
    let mut tokens = (0..)
        .map(|at| parser.peek_nth_token_no_skip(at).token)
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut depth = 0usize;
    for token in tokens.by_ref() {
        match token {
            Token::LParen => depth += 1,
            token if depth > 1 && is_one(&token, &[SELECT, VALUES, WITH]) => break,
            _ => return false,
        }
    }
    while let Some(token) = tokens.next() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 2 => {
                return tokens
                    .next()
                    .is_some_and(|next| is_one(&next, &[UNION, INTERSECT, EXCEPT]));
            }
            Token::RParen => depth -= 1,
            Token::EOF | Token::SemiColon => return false,
            _ => {}
        }
    }
    false
}

/// A query in brackets as an expression.
fn subquery(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let query = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Subquery(query))
}

/// `IN` and a list of at least two items that begins with a subquery. Any other `IN` is left.
fn list_of_subqueries(parser: &mut Parser<'_>, expr: &Expr) -> Option<Expr> {
    let mut ahead = (0..4).map(|at| parser.peek_nth_token_ref(at).token.clone());
    let word = |token: &Token, wanted: Keyword| matches!(token, Token::Word(word) if word.keyword == wanted);
    let first = ahead.next()?;
    let negated = word(&first, Keyword::NOT);
    let is_in = if negated { ahead.next()? } else { first };
    let opens = |token: Option<Token>| token == Some(Token::LParen);
    if !word(&is_in, Keyword::IN) || !opens(ahead.next()) || !opens(ahead.next()) {
        return None;
    }
    let list = |parser: &mut Parser<'_>| {
        let _ = parser.parse_keyword(Keyword::NOT);
        parser.expect_keyword_is(Keyword::IN)?;
        parser.expect_token(&Token::LParen)?;
        let list = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        match list.len() {
            1 => Err(ParserError::ParserError("one item".to_owned())),
            _ => Ok(Expr::InList { expr: Box::new(expr.clone()), list, negated }),
        }
    };
    parser.maybe_parse(list).ok().flatten()
}

/// The tokens with parentheses around joins that stand on the right of a join whose condition comes
/// after theirs, and where in the result these parentheses are; `None` if there are no such joins.
///
/// As in PostgreSQL's grammar, a join that wants a condition takes in all joins before that condition:
/// `a LEFT JOIN b CROSS JOIN c ON …` is `a LEFT JOIN (b CROSS JOIN c) ON …`.
pub(crate) fn with_parentheses(
    tokens: &[TokenWithSpan],
) -> Option<(Vec<TokenWithSpan>, Vec<usize>)> {
    /// A join without its condition so far.
    struct Open {
        /// Where its right side begins.
        right: usize,
        has_joins: bool,
    }
    // Joins that are open, for each parenthesis around the place.
    let mut levels: Vec<Vec<Open>> = vec![Vec::new()];
    let mut inserted: Vec<(usize, Token)> = Vec::new();
    let mut bare = false;
    for (at, token) in tokens.iter().enumerate() {
        let keyword = match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => {
                levels.push(Vec::new());
                continue;
            }
            Token::RParen => {
                levels.pop();
                if levels.is_empty() {
                    return None;
                }
                continue;
            }
            Token::Word(word) => word.keyword,
            _ => continue,
        };
        let open = levels.last_mut().expect("one level at least");
        match keyword {
            // These joins want no condition; types of joins may stand between.
            Keyword::CROSS | Keyword::NATURAL => bare = true,
            Keyword::JOIN => {
                if let Some(around) = open.last_mut() {
                    around.has_joins = true;
                }
                if !std::mem::take(&mut bare) {
                    open.push(Open { right: at + 1, has_joins: false });
                }
            }
            Keyword::ON | Keyword::USING => {
                if let Some(Open { right, has_joins: true }) = open.pop() {
                    inserted.push((right, Token::LParen));
                    inserted.push((at, Token::RParen));
                }
            }
            Keyword::SELECT | Keyword::WHERE => open.clear(),
            _ => {}
        }
    }
    if inserted.is_empty() {
        return None;
    }
    inserted.sort_by_key(|(at, _)| *at);
    let (mut all, mut places) = (Vec::with_capacity(tokens.len() + inserted.len()), Vec::new());
    let mut next = inserted.into_iter().peekable();
    for (at, token) in tokens.iter().enumerate() {
        while let Some((_, parenthesis)) = next.next_if(|(before, _)| *before == at) {
            places.push(all.len());
            all.push(TokenWithSpan::new(parenthesis, token.span));
        }
        all.push(token.clone());
    }
    Some((all, places))
}
