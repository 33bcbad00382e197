//! PostgreSQL's dialect with joins whose conditions come late: `a JOIN b JOIN c ON … ON …`.
//!
//! The parser knows them only for dialects in which `a NATURAL JOIN b JOIN c ON …` would be read
//! from the right as well, so [`crate::syntax`]'s reader asks this one only where PostgreSQL's fails.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// Everything but joins is PostgreSQL's.
#[derive(Debug)]
pub(crate) struct LateConditions;

const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

macro_rules! as_postgresql {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $result:ty;)+) => {
        $(fn $name(&self $(, $arg: $ty)*) -> $result {
            POSTGRESQL.$name($($arg),*)
        })+
    };
}

impl Dialect for LateConditions {
    fn dialect(&self) -> TypeId {
        POSTGRESQL.dialect()
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        false
    }

    as_postgresql! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        get_next_precedence(parser: &Parser<'_>) -> Option<Result<u8, ParserError>>;
        prec_value(precedence: Precedence) -> u8;
        supports_unicode_string_literal() -> bool;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
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
    }
}
