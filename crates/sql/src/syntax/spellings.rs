//! Spellings of PostgreSQL that the SQL parser does not know, brought to those that it does before it
//! sees the tokens. Each says nothing here that the other does not.
//!
//! Words that go become blanks, and what takes the place of a word has the word's place, so positions
//! in errors stay right. A word that becomes several shifts the numbers of the tokens behind it, which
//! nobody counts once the SQL parser has got that far.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, Insert};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

use super::constraint_words;
use super::elements::{self, Edits};
use super::identity_order;
use super::limits;
use super::merged_alias;
use super::other_forms;
use super::rows_from;
use super::search_cycle;
use super::table_forms;
use super::view_options;
use super::words::{is_word, replaced};
use crate::identifier::last;

/// The tokens of a statement in spellings that the SQL parser knows.
///
/// - Bounds of rows and locking clauses: see [`limits`]. Forms of CREATE TABLE: see [`table_forms`].
/// - `FOR NO KEY UPDATE` and `FOR KEY SHARE` lock what FOR UPDATE and FOR SHARE lock: partitions.
/// - `CREATE UNLOGGED TABLE` makes a table, which is logged all the same.
/// - `DROP INDEX CONCURRENTLY` waits for its locks as DROP INDEX does.
/// - `[NOT] DEFERRABLE` of a transaction: one that only reads takes no lock and never fails.
/// - `a integer ARRAY` is `a integer[]`.
/// - `EXPLAIN (SELECT …)` has no options.
/// - `trim(BOTH FROM x)` is `trim(BOTH ' ' FROM x)`.
/// - `FROM ONLY t` reads `t`, which no other table inherits from.
/// - `nextval('s'::regclass)`, and so `currval` and `setval`: these functions take names.
/// - `INSERT INTO t … OVERRIDING SYSTEM VALUE` is `INSERT OVERWRITE INTO t …`, and with USER VALUE
///   `INSERT OVERWRITE INTO TABLE t …`: see [`Overriding`].
/// - `x OPERATOR(pg_catalog.=) ANY (…)`, as pg_dump asks for tables by patterns, is `x = ANY (…)`.
/// - `ON CONFLICT (lower(a)) WHERE b` is `ON CONFLICT ("…")` with all of it in one name: see
///   [`crate::inference::Inference`].
/// - The options of an identity come in the order in which the SQL parser knows them.
/// - `ALTER a TYPE text COLLATE "x"` is two changes: see [`TYPE_COLLATION`].
/// - `TABLESPACE pg_default` names the only one.
/// - `(t).*` is `t.*`.
/// - The options of CREATE EXTENSION have WITH before them.
/// - `BETWEEN SYMMETRIC a AND b` is `BETWEEN "…" + a AND b`: see [`SYMMETRIC`].
/// - `RESET TIME ZONE` is `RESET timezone`.
/// - `f(a, VARIADIC b)` is `f(a, "…" => b)`: see [`VARIADIC`].
/// - `inet '10.0.0.1'` is `'10.0.0.1'::inet`, and so for every type that the SQL parser has no word for.
/// - `x = ANY (VALUES (1))` is `x = ANY (SELECT * FROM (VALUES (1)) AS "values")`.
/// - `x = ANY ((SELECT 1) UNION SELECT 2)` is `x = ANY (SELECT * FROM ((SELECT 1) UNION SELECT 2) AS "values")`.
/// - `SELECT` of nothing over nothing is `SELECT FROM (VALUES (1)) AS "one"`: one row without columns.
/// - `SUBSTRING (x SIMILAR p ESCAPE e)` is `SUBSTRING (x FROM "…" + (p) FOR e)`: see [`SIMILAR`].
/// - `DROP DATABASE d WITH (FORCE)` needs no force.
/// - `ORDER BY a USING >` is `ORDER BY a DESC`.
/// - `'1 day'::interval PRECEDING` is `INTERVAL '1 day' PRECEDING`.
/// - `ALL PROCEDURES IN SCHEMA` of GRANT and REVOKE is `ALL FUNCTIONS IN SCHEMA`, and DROP GROUP is DROP ROLE.
/// - `JOIN … USING (a) AS j` has the alias among the columns: see [`mod@merged_alias`].
/// - `ROWS FROM (f(), g())` is a call in FROM whose arguments are the calls: see [`mod@rows_from`].
/// - `e.* = f.*` and its like are `(e.*) = f.*`: a list would end before the operator.
/// - `SET a[2] = x` assigns a call to `a`: see [`elements`].
/// - SEARCH and CYCLE behind an entry of WITH end the entry's query: see [`search_cycle`].
/// - `TABLE t`, where a query may stand, is `SELECT * FROM t`.
/// - `WITH CHECK OPTION` behind a view's query is an option before it, and an option alone is on: see [`view_options`].
/// - In MERGE, `DO NOTHING`, `INSERT DEFAULT VALUES` and `OVERRIDING … VALUE` are columns that no table
///   has: see [`MERGE_NOTHING`], [`MERGE_DEFAULTS`], [`Overriding::of_word`].
pub(super) fn known_to_the_parser(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = limits::settled(table_forms::settled(constraint_words::settled(
        other_forms::settled(tokens),
    )));
    let words: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let is = |tokens: &[TokenWithSpan], at: usize, word: &str| {
        words.get(at).is_some_and(|at| is_word(&tokens[*at].token, word))
    };
    let begins =
        |tokens: &[TokenWithSpan], list: &[&str]| list.iter().any(|word| is(tokens, 0, word));
    let mut silent = Vec::new();
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    if is(&tokens, 0, "CREATE") && is(&tokens, 1, "UNLOGGED") {
        silent.push(1);
    }
    if is(&tokens, 0, "DROP") && is(&tokens, 1, "GROUP") {
        edits.push((words[1], words[1], "ROLE".to_owned()));
    }
    if begins(&tokens, &["GRANT", "REVOKE"]) {
        let procedures = (1..words.len()).find(|at| {
            is(&tokens, at - 1, "ALL")
                && (is(&tokens, *at, "PROCEDURES") || is(&tokens, *at, "ROUTINES"))
                && is(&tokens, at + 1, "IN")
        });
        edits.extend(procedures.map(|at| (words[at], words[at], "FUNCTIONS".to_owned())));
    }
    if is(&tokens, 0, "DROP") && is(&tokens, 1, "INDEX") && is(&tokens, 2, "CONCURRENTLY") {
        silent.push(2);
    }
    if is(&tokens, 0, "RESET") && is(&tokens, 1, "TIME") && is(&tokens, 2, "ZONE") {
        edits.push((words[1], words[2], "timezone".to_owned()));
    }
    if let Some((gone, options)) = view_options::known_options(&tokens, &words) {
        silent.extend(gone);
        edits.extend(options.into_iter().map(|(at, text)| (words[at], words[at], text)));
    }
    let opens = words.get(1).is_some_and(|at| tokens[*at].token == Token::LParen);
    let query_follows = || {
        let inner = words.get(2).is_some_and(|at| tokens[*at].token == Token::LParen);
        inner || ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| is(&tokens, 2, word))
    };
    if is(&tokens, 0, "EXPLAIN") && opens && query_follows() {
        edits.push((words[1], words[1], "(ANALYZE FALSE) (".to_owned()));
    }
    let of_transaction = begins(&tokens, &["BEGIN", "START", "SET"]);
    let takes_constants = begins(
        &tokens,
        &[
            "SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER",
            "EXPLAIN",
        ],
    ) || opens_query(&tokens, &words);
    let of_role =
        ["ROLE", "USER", "GROUP", "DATABASE", "WORKLOAD"].iter().any(|word| is(&tokens, 1, word));
    let has_with = (0..words.len()).any(|at| is(&tokens, at, "WITH"));
    let mut queries = Vec::new();
    let mut overriding = None;
    let mut closed = None;
    for at in 0..words.len() {
        let Token::Word(word) = &tokens[words[at]].token else { continue };
        match word.keyword {
            Keyword::FOR if is(&tokens, at + 1, "KEY") && is(&tokens, at + 2, "SHARE") => {
                silent.push(at + 1);
            }
            Keyword::FOR
                if is(&tokens, at + 1, "NO")
                    && is(&tokens, at + 2, "KEY")
                    && is(&tokens, at + 3, "UPDATE") =>
            {
                silent.extend([at + 1, at + 2]);
            }
            Keyword::DEFERRABLE if of_transaction => {
                silent.push(at);
                let before = at - usize::from(is(&tokens, at - 1, "NOT"));
                silent.extend(before..at);
                if before > 0 && tokens[words[before - 1]].token == Token::Comma {
                    silent.push(before - 1);
                }
            }
            // `integer ARRAY` as a type; `ARRAY[…]` is a value, and `AS array` a name.
            Keyword::ARRAY
                if at > 0
                    && word.quote_style.is_none()
                    && !is(&tokens, at - 1, "AS")
                    && matches!(tokens[words[at - 1]].token, Token::Word(_) | Token::RParen)
                    && !words.get(at + 1).is_some_and(|next| {
                        matches!(tokens[*next].token, Token::LBracket | Token::LParen | Token::Lt)
                    }) =>
            {
                edits.push((words[at], words[at], "[]".to_owned()));
            }
            Keyword::FROM
                if at > 2
                    && ["BOTH", "LEADING", "TRAILING"]
                        .iter()
                        .any(|side| is(&tokens, at - 1, side))
                    && is(&tokens, at - 3, "TRIM") =>
            {
                edits.push((words[at], words[at], "' ' FROM".to_owned()));
            }
            Keyword::VARIADIC
                if takes_constants
                    && at > 0
                    && (token_is(&tokens, &words, at - 1, &Token::LParen)
                        || token_is(&tokens, &words, at - 1, &Token::Comma)) =>
            {
                edits.push((words[at], words[at], format!("\"{VARIADIC}\" =>")));
            }
            Keyword::BETWEEN if is(&tokens, at + 1, "ASYMMETRIC") => silent.push(at + 1),
            Keyword::BETWEEN if is(&tokens, at + 1, "SYMMETRIC") => {
                edits.push((words[at + 1], words[at + 1], format!("\"{SYMMETRIC}\" +")));
            }
            Keyword::SET
                if begins(
                    &tokens,
                    &["UPDATE", "INSERT", "MERGE", "WITH", "EXPLAIN", "PREPARE"],
                ) =>
            {
                if let Some(Edits { made, gone }) = elements::known(&tokens, &words, at) {
                    edits.extend(made.into_iter().map(|(at, text)| (words[at], words[at], text)));
                    silent.extend(gone);
                }
            }
            // `x = ANY (VALUES (1), (2))`
            Keyword::VALUES
                if at > 1
                    && token_is(&tokens, &words, at - 1, &Token::LParen)
                    && ["ANY", "SOME", "ALL"].iter().any(|word| is(&tokens, at - 2, word)) =>
            {
                let closed = closed.get_or_insert_with(|| brackets(&tokens, &words));
                if let Some(&end) = closed.get(&(at - 1)) {
                    edits.push((words[at], words[at], "SELECT * FROM (VALUES".to_owned()));
                    edits.push((words[end], words[end], ") AS \"values\")".to_owned()));
                }
            }
            // `x = ANY ((SELECT 1) UNION SELECT 2)`
            Keyword::ANY | Keyword::SOME | Keyword::ALL
                if token_is(&tokens, &words, at + 1, &Token::LParen)
                    && token_is(&tokens, &words, at + 2, &Token::LParen) =>
            {
                let closed = closed.get_or_insert_with(|| brackets(&tokens, &words));
                if let (Some(&end), Some(&inner)) = (closed.get(&(at + 1)), closed.get(&(at + 2)))
                    && ["UNION", "INTERSECT", "EXCEPT"].iter().any(|op| is(&tokens, inner + 1, op))
                {
                    edits.push((words[at + 2], words[at + 2], "SELECT * FROM ((".to_owned()));
                    edits.push((words[end], words[end], ") AS \"values\")".to_owned()));
                }
            }
            Keyword::SELECT if is_bare(&tokens, &words, at) => {
                let text = "SELECT FROM (VALUES (1)) AS \"one\"".to_owned();
                edits.push((words[at], words[at], text));
            }
            Keyword::SUBSTRING => {
                if let Some((similar, escape)) = similar_parts(&tokens, &words, at) {
                    let text = format!("FROM \"{SIMILAR}\" + (");
                    edits.push((words[similar], words[similar], text));
                    edits.push((words[escape], words[escape], ") FOR".to_owned()));
                }
            }
            Keyword::FORCE
                if begins(&tokens, &["DROP"])
                    && is(&tokens, 1, "DATABASE")
                    && token_is(&tokens, &words, at - 1, &Token::LParen)
                    && token_is(&tokens, &words, at + 1, &Token::RParen) =>
            {
                let with = usize::from(is(&tokens, at - 2, "WITH"));
                silent.extend(at - 1 - with..=at + 1);
            }
            Keyword::USING if token_is(&tokens, &words, at + 1, &Token::Lt) => {
                edits.push((words[at], words[at + 1], "ASC".to_owned()));
            }
            Keyword::USING if token_is(&tokens, &words, at + 1, &Token::Gt) => {
                edits.push((words[at], words[at + 1], "DESC".to_owned()));
            }
            Keyword::PRECEDING | Keyword::FOLLOWING
                if at > 2
                    && is(&tokens, at - 1, "INTERVAL")
                    && token_is(&tokens, &words, at - 2, &Token::DoubleColon) =>
            {
                let quoted = &tokens[words[at - 3]].token;
                if matches!(quoted, Token::SingleQuotedString(_)) {
                    let text = format!("INTERVAL {quoted}");
                    edits.push((words[at - 3], words[at - 1], text));
                }
            }
            Keyword::USING => {
                if let Some((first, last, text)) = merged_alias::known(&tokens, &words, at) {
                    edits.push((words[first], words[last], text));
                }
            }
            Keyword::ROWS if rows_from::begins(&tokens, &words, at) => {
                edits.push((words[at], words[at + 1], rows_from::call()));
            }
            Keyword::SCHEMA | Keyword::VERSION | Keyword::CASCADE
                if is(&tokens, 0, "CREATE")
                    && is(&tokens, 1, "EXTENSION")
                    && !has_with
                    && edits.is_empty() =>
            {
                edits.push((words[at], words[at], format!("WITH {word}")));
            }
            // `(t).*` are the columns of `t`.
            Keyword::NoKeyword
                if at > 0
                    && token_is(&tokens, &words, at - 1, &Token::LParen)
                    && token_is(&tokens, &words, at + 1, &Token::RParen)
                    && token_is(&tokens, &words, at + 2, &Token::Period)
                    && token_is(&tokens, &words, at + 3, &Token::Mul)
                    && (at == 1
                        || !matches!(tokens[words[at - 2]].token, Token::Word(ref word) if word.keyword == Keyword::NoKeyword)) =>
            {
                silent.extend([at - 1, at + 1]);
            }
            // `e.* IS NULL`: the SQL parser takes what begins like that for the columns of `e`.
            Keyword::NoKeyword
                if token_is(&tokens, &words, at + 1, &Token::Period)
                    && token_is(&tokens, &words, at + 2, &Token::Mul)
                    && words.get(at + 3).is_some_and(|next| goes_on(&tokens[*next].token))
                    && !(at > 0 && token_is(&tokens, &words, at - 1, &Token::Period)) =>
            {
                edits.push((words[at], words[at + 2], format!("({word}.*)")));
            }
            // `inet '10.0.0.1'`: PostgreSQL takes a constant of any type so, the SQL parser of a few.
            Keyword::NoKeyword
                if takes_constants
                    && !of_role
                    && let Some(next) = words.get(at + 1)
                    && let Token::SingleQuotedString(text) = &tokens[*next].token
                    && !names_part(&tokens, &words, at)
                    && !is_option(&tokens, &words, at) =>
            {
                let text = Token::SingleQuotedString(text.clone());
                edits.push((words[at], words[at + 1], format!("{text}::{word}")));
            }
            _ if (is(&tokens, at, "SEARCH") || is(&tokens, at, "CYCLE"))
                && let Some((first, last, text)) = search_cycle::known(&tokens, &words, at) =>
            {
                edits.push((words[first], words[last], text));
            }
            _ if is(&tokens, at, "ONLY") && is_only(&tokens, &words, at) => silent.push(at),
            _ if is(&tokens, at, "OPERATOR") && compares_with_array(&tokens, &words, at) => {
                silent.extend([at, at + 1, at + 2, at + 3, at + 5]);
            }
            _ if is(&tokens, at, "REGCLASS") && names_sequence(&tokens, &words, at) => {
                silent.extend([at - 1, at]);
            }
            // The word is of Hive's, and only the one put in below means something.
            Keyword::OVERWRITE if at > 0 && is(&tokens, at - 1, "INSERT") => {
                let quoted = Token::make_word("OVERWRITE", Some('"'));
                tokens[words[at]].token = quoted;
            }
            _ if is(&tokens, at, "OVERRIDING") && is(&tokens, at + 2, "VALUE") => {
                let system = is(&tokens, at + 1, "SYSTEM");
                let insert = (0..at).rev().find(|at| is(&tokens, *at, "INSERT"));
                let of_merge = insert.is_some_and(|at| at > 0 && is(&tokens, at - 1, "THEN"));
                if let (true, Some(insert), true) =
                    (system || is(&tokens, at + 1, "USER"), insert, of_merge)
                {
                    let word = if system { OVERRIDING_SYSTEM } else { OVERRIDING_USER };
                    let has_list = tokens[words[insert + 1]].token == Token::LParen;
                    let (last, text) = match has_list {
                        true => (insert + 1, format!("INSERT (\"{word}\", ")),
                        false => (insert, format!("INSERT (\"{word}\")")),
                    };
                    edits.push((words[insert], words[last], text));
                    silent.extend(at..at + 3);
                } else if let (true, Some(insert)) = (system || is(&tokens, at + 1, "USER"), insert)
                {
                    overriding = Some((insert, system));
                    silent.extend(at..at + 3);
                }
            }
            Keyword::DO
                if is(&tokens, at + 1, "NOTHING") && at > 0 && is(&tokens, at - 1, "THEN") =>
            {
                let text = match of_matched(&tokens, &words, at) {
                    true => format!("UPDATE SET \"{MERGE_NOTHING}\" = 1"),
                    false => format!("INSERT (\"{MERGE_NOTHING}\") VALUES (1)"),
                };
                edits.push((words[at], words[at + 1], text));
            }
            Keyword::INSERT
                if at > 0
                    && is(&tokens, at - 1, "THEN")
                    && is(&tokens, at + 1, "DEFAULT")
                    && is(&tokens, at + 2, "VALUES") =>
            {
                let text = format!("INSERT (\"{MERGE_DEFAULTS}\") VALUES (1)");
                edits.push((words[at], words[at + 2], text));
            }
            Keyword::CONFLICT if at > 0 && is(&tokens, at - 1, "ON") => {
                inference_as_name(&mut tokens, &words, at + 1);
            }
            Keyword::IDENTITY
                if at > 0 && is(&tokens, at - 1, "AS") && !is_added(&tokens, &words, at) =>
            {
                if let Some((last, text)) = identity_order::in_order(&tokens, &words, at) {
                    edits.push((words[at], words[last], text));
                }
            }
            Keyword::COLLATE if is(&tokens, 0, "ALTER") && is(&tokens, 1, "TABLE") => {
                if let Some((alter, text, count)) = type_collation(&tokens, &words, at) {
                    edits.push((words[alter], words[alter], text));
                    silent.extend(at..at + count);
                }
            }
            // Of a column; the SQL parser reads what stands before a list of columns.
            Keyword::UNIQUE
                if is(&tokens, at + 1, "NULLS") && begins(&tokens, &["CREATE", "ALTER"]) =>
            {
                let not = is(&tokens, at + 2, "NOT");
                let last = at + if not { 3 } else { 2 };
                let has_list =
                    words.get(last + 1).is_some_and(|at| tokens[*at].token == Token::LParen);
                if is(&tokens, last, "DISTINCT") && !has_list {
                    let mark = format!(" CHARACTER SET \"{NULLS_NOT_DISTINCT}\"");
                    let text = format!("UNIQUE{}", if not { &mark } else { "" });
                    edits.push((words[at], words[last], text));
                }
            }
            Keyword::TABLESPACE
                if begins(&tokens, &["CREATE", "ALTER"]) && is(&tokens, at + 1, "PG_DEFAULT") =>
            {
                let of_index =
                    at > 1 && is(&tokens, at - 1, "INDEX") && is(&tokens, at - 2, "USING");
                silent.extend(at - if of_index { 2 } else { 0 }..at + 2);
            }
            Keyword::TABLE if word.quote_style.is_none() && is_query(&tokens, &words, at) => {
                queries.push(words[at]);
            }
            _ => {}
        }
    }
    for at in silent {
        tokens[words[at]].token = Token::Whitespace(Whitespace::Space);
    }
    if !edits.is_empty() {
        // A query that is `TABLE t` stands before the clauses of a MERGE.
        edits.sort_unstable_by_key(|(first, ..)| *first);
        let made = edits.into_iter().map(|(first, last, text)| {
            let made = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize();
            (first, last, made.expect("words and quoted names are tokens"))
        });
        tokens = replaced(tokens, made);
    }
    let select = [
        Token::make_keyword("SELECT"),
        Token::Mul,
        Token::Whitespace(Whitespace::Space),
        Token::make_keyword("FROM"),
    ];
    tokens = replaced(tokens, queries.iter().map(|at| (*at, *at, select.to_vec())));
    if let Some((insert, system)) = overriding {
        // Each query before INSERT has become four tokens. What follows INSERT is INTO.
        let shift = 3 * queries.iter().filter(|at| **at < words[insert]).count();
        let mut put = |at: usize, word: &str| {
            let at = words[at] + shift;
            let span = tokens[at].span;
            let blank = TokenWithSpan::new(Token::Whitespace(Whitespace::Space), span);
            let word = TokenWithSpan::new(Token::make_keyword(word), span);
            tokens.splice(at + 1..=at, [blank, word]);
        };
        if !system {
            put(insert + 1, "TABLE");
        }
        put(insert, "OVERWRITE");
    }
    tokens
}

/// The name to which the pattern of SUBSTRING … SIMILAR … ESCAPE is added.
pub const SIMILAR: &str = "\u{1}similar";

/// Where SIMILAR and ESCAPE stand in the brackets behind SUBSTRING; `None`: it is another SUBSTRING.
fn similar_parts(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> Option<(usize, usize)> {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let is = |at: usize, word| token(at).is_some_and(|token| is_word(token, word));
    if token(at + 1) != Some(&Token::LParen) {
        return None;
    }
    let (mut depth, mut similar) = (1, None);
    for at in at + 2..words.len() {
        match token(at)? {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return None,
            Token::RParen => depth -= 1,
            _ if depth > 1 => {}
            _ if is(at, "SIMILAR") && !is(at + 1, "TO") => similar = Some(at),
            _ if is(at, "ESCAPE") && similar.is_some() => return Some((similar?, at)),
            _ => {}
        }
    }
    None
}

/// Whether nothing stands behind the word SELECT at `words[at]` but the end, a bracket or a condition.
fn is_bare(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let Some(next) = words.get(at + 1).map(|at| &tokens[*at].token) else { return true };
    let ends = matches!(next, Token::RParen | Token::EOF | Token::SemiColon);
    ends || ["WHERE", "UNION"].iter().any(|word| is_word(next, word))
}

/// Whether a token behind `e.*` makes it a part of an expression.
fn goes_on(token: &Token) -> bool {
    let is_operator = matches!(
        token,
        Token::DoubleColon
            | Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::LtEq
            | Token::Gt
            | Token::GtEq
    );
    is_operator || is_word(token, "IS") || is_word(token, "ISNULL") || is_word(token, "NOTNULL")
}

/// Whether the word at `words[at]` stands in brackets behind WITH, where options are.
fn is_option(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let mut depth = 0usize;
    for at in (0..at).rev() {
        match tokens[words[at]].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => {
                return at > 0 && is_word(&tokens[words[at - 1]].token, "WITH");
            }
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    false
}

/// For the place of each opening bracket that of the one which closes it.
fn brackets(tokens: &[TokenWithSpan], words: &[usize]) -> HashMap<usize, usize> {
    let (mut open, mut closed) = (Vec::new(), HashMap::new());
    for (at, word) in words.iter().enumerate() {
        match tokens[*word].token {
            Token::LParen => open.push(at),
            Token::RParen => closed.extend(open.pop().map(|begin| (begin, at))),
            _ => {}
        }
    }
    closed
}

/// Whether the token at `words[at]` is this one.
fn token_is(tokens: &[TokenWithSpan], words: &[usize], at: usize, token: &Token) -> bool {
    words.get(at).is_some_and(|at| tokens[*at].token == *token)
}

/// Whether the statement begins with a bracket, as a query may.
fn opens_query(tokens: &[TokenWithSpan], words: &[usize]) -> bool {
    words.first().is_some_and(|at| tokens[*at].token == Token::LParen)
}

/// Whether the word at `words[at]` ends a name of several parts, or is one of a list or of an alias.
fn names_part(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[words[before]].token);
    before.is_some_and(|before| *before == Token::Period || is_word(before, "AS"))
}

/// The name of the argument that is an array of arguments: `VARIADIC a`.
pub const VARIADIC: &str = "\u{1}variadic";

/// The name to which the lower bound of BETWEEN SYMMETRIC is added.
pub const SYMMETRIC: &str = "\u{1}symmetric";

/// The column that an UPDATE or INSERT of MERGE names which stands for DO NOTHING.
pub const MERGE_NOTHING: &str = "\u{1}nothing";

/// The column that an INSERT of MERGE names which stands for DEFAULT VALUES.
pub const MERGE_DEFAULTS: &str = "\u{1}defaults";

/// The beginning of a name that stands for the conflict target of an INSERT.
pub(crate) const INFERENCE: &str = "\u{1}";

/// Puts a conflict target with an expression or a condition into one name. `at`: the word behind ON
/// CONFLICT. Lists of columns stay as they are.
fn inference_as_name(tokens: &mut [TokenWithSpan], words: &[usize], at: usize) {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    if token(at) != Some(&Token::LParen) {
        return;
    }
    let mut nesting = 0;
    let mut end_at = |from: usize, ends: &dyn Fn(&Token, usize) -> bool| {
        (from..words.len()).find(|at| {
            let token = &tokens[words[*at]].token;
            match token {
                Token::LParen => nesting += 1,
                Token::RParen => nesting -= 1,
                _ => {}
            }
            ends(token, nesting)
        })
    };
    let Some(close) = end_at(at, &|token, nesting| *token == Token::RParen && nesting == 0) else {
        return;
    };
    let has_condition = token(close + 1).is_some_and(|token| is_word(token, "WHERE"));
    let is_list =
        (at + 1..close).all(|at| matches!(token(at), Some(Token::Word(_) | Token::Comma)));
    let first = at + 1;
    if is_list && !has_condition || first == close {
        return;
    }
    let text = |from: usize, to: usize| -> String {
        tokens[words[from]..words[to]].iter().map(|token| token.token.to_string()).collect()
    };
    let mut query = format!("{INFERENCE}SELECT {}", text(first, close));
    let mut behind = close + 1;
    if has_condition {
        let ends = |token: &Token, nesting: usize| nesting == 0 && is_word(token, "DO");
        let Some(end) = end_at(close + 1, &ends) else { return };
        query.push_str(&format!(" {}", text(close + 1, end)));
        behind = end;
    }
    let bracket = tokens[words[close]].clone();
    for token in &mut tokens[words[first] + 1..=words[behind - 1]] {
        token.token = Token::Whitespace(Whitespace::Space);
    }
    tokens[words[close]] = bracket;
    tokens[words[first]].token = Token::make_word(&query, Some('"'));
}

/// Whether the action at `words[at]` is that of a clause WHEN MATCHED, not WHEN NOT MATCHED.
fn of_matched(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let is = |at: usize, word| words.get(at).is_some_and(|at| is_word(&tokens[*at].token, word));
    let begins = |at: &usize| {
        is(*at, "WHEN") && (is(at + 1, "MATCHED") || is(at + 1, "NOT") && is(at + 2, "MATCHED"))
    };
    (0..at).rev().find(begins).is_some_and(|when| is(when + 1, "MATCHED"))
}

/// The columns that an INSERT of MERGE names first which stand for OVERRIDING.
const OVERRIDING_SYSTEM: &str = "\u{1}system";
const OVERRIDING_USER: &str = "\u{1}user";

/// What an INSERT says about values for identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// Nothing: a value for a column GENERATED ALWAYS is an error.
    Nothing,
    /// OVERRIDING SYSTEM VALUE: values are taken.
    System,
    /// OVERRIDING USER VALUE: values are passed over, the columns' sequences give others.
    User,
}

impl Overriding {
    /// The words of an INSERT, as [`known_to_the_parser`] brought them to the SQL parser.
    pub fn of(insert: &Insert) -> Overriding {
        match (insert.overwrite, insert.has_table_keyword) {
            (false, _) => Overriding::Nothing,
            (true, false) => Overriding::System,
            (true, true) => Overriding::User,
        }
    }

    /// What a first column of an INSERT of MERGE stands for; `None`: it is a column.
    pub fn of_word(name: &str) -> Option<Overriding> {
        match name {
            OVERRIDING_SYSTEM => Some(Overriding::System),
            OVERRIDING_USER => Some(Overriding::User),
            _ => None,
        }
    }

    /// Makes an INSERT say this.
    pub fn put(self, insert: &mut Insert) {
        (insert.overwrite, insert.has_table_keyword) = match self {
            Overriding::Nothing => (false, false),
            Overriding::System => (true, false),
            Overriding::User => (true, true),
        };
    }
}

/// Whether the word IDENTITY at `words[at]` is that of ALTER TABLE … ALTER … ADD GENERATED, which we read.
fn is_added(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let is = |back: usize, word| {
        at.checked_sub(back).is_some_and(|at| is_word(&tokens[words[at]].token, word))
    };
    is(3, "GENERATED") && is(4, "ADD") || is(4, "GENERATED") && is(5, "ADD")
}

/// The schema of a type that stands for the collation of the type that the next ALTER … TYPE gives a column.
pub const TYPE_COLLATION: &str = "\u{1}collation";

/// Where ALTER … TYPE …, whose COLLATE is at `words[at]`, begins, the same with [`TYPE_COLLATION`] before it, and how
/// many words COLLATE and the name are; `None`: it is another COLLATE.
fn type_collation(
    tokens: &[TokenWithSpan],
    words: &[usize],
    at: usize,
) -> Option<(usize, String, usize)> {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
    let mut of_type = at.checked_sub(1)?;
    while !is(of_type, "TYPE") {
        if is(of_type, "USING") || is(of_type, "ADD") || is(of_type, "DEFAULT") {
            return None;
        }
        of_type = of_type.checked_sub(1)?;
    }
    let of_name = of_type - if is(of_type - 1, "DATA") { 3 } else { 1 };
    let alter = of_name - if is(of_name - 1, "COLUMN") { 2 } else { 1 };
    let mut parts = vec![token(at + 1)?.to_string()];
    while token(at + 2 * parts.len()) == Some(&Token::Period) {
        parts.push(token(at + 2 * parts.len() + 1)?.to_string());
    }
    let (name, collation) = (token(of_name)?, parts.join("."));
    let text = format!("ALTER {name} TYPE \"{TYPE_COLLATION}\".{collation}, ALTER");
    is(alter, "ALTER").then_some((alter, text, 2 * parts.len()))
}

/// The character set of a column that stands for NULLS NOT DISTINCT of its UNIQUE.
const NULLS_NOT_DISTINCT: &str = "\u{1}nulls not distinct";

/// Whether a column is said to be UNIQUE NULLS NOT DISTINCT.
pub fn is_unique_with_null(column: &ColumnDef) -> bool {
    column.options.iter().any(|option| is_mark_of_unique(&option.option))
}

/// Whether an option of a column is that of its UNIQUE.
pub fn is_mark_of_unique(option: &ColumnOption) -> bool {
    matches!(option, ColumnOption::CharacterSet(name)
        if last(name).is_ok_and(|name| name == NULLS_NOT_DISTINCT))
}

/// Whether the word ONLY at `words[at]` stands before the name of a table in FROM.
fn is_only(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let token = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let before = at.checked_sub(1).and_then(token);
    let begins = |word| before.is_some_and(|token| is_word(token, word));
    let is_qualified = matches!(token(at + 2), Some(Token::Period));
    let is_name = |name: &Token| match name {
        Token::Word(word) => {
            is_qualified || word.quote_style.is_some() || word.keyword == Keyword::NoKeyword
        }
        _ => false,
    };
    (begins("FROM") || begins("JOIN") || begins("UPDATE")) && token(at + 1).is_some_and(is_name)
}

/// Whether `OPERATOR(pg_catalog.=)`, or another operator so, stands at `words[at]` before ANY or ALL.
fn compares_with_array(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let token = |ahead: usize| words.get(at + ahead).map(|at| &tokens[*at].token);
    let is = |ahead, word| token(ahead).is_some_and(|token| is_word(token, word));
    token(1) == Some(&Token::LParen)
        && is(2, "PG_CATALOG")
        && token(3) == Some(&Token::Period)
        && token(5) == Some(&Token::RParen)
        && (is(6, "ANY") || is(6, "ALL") || is(6, "SOME"))
}

/// Whether the word REGCLASS at `words[at]` says of what type a text is that stands as the first argument
/// of a function of sequences.
fn names_sequence(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|at| &tokens[words[at]].token);
    let functions = ["NEXTVAL", "CURRVAL", "SETVAL"];
    matches!(before(1), Some(Token::DoubleColon))
        && matches!(before(2), Some(Token::SingleQuotedString(_)))
        && matches!(before(3), Some(Token::LParen))
        && before(4).is_some_and(|name| functions.iter().any(|function| is_word(name, function)))
}

/// Whether the word TABLE at `words[at]` begins a query: a name follows, and before it stands what a
/// query may follow.
fn is_query(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let names = match words.get(at + 1).map(|next| &tokens[*next].token) {
        Some(Token::Word(name)) => name.quote_style.is_some() || name.keyword != Keyword::FROM,
        _ => false,
    };
    let follows = match at.checked_sub(1).map(|before| &tokens[words[before]].token) {
        None | Some(Token::LParen) => true,
        Some(Token::Word(word)) => matches!(
            word.keyword,
            Keyword::AS
                | Keyword::FOR
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::ALL
                | Keyword::EXPLAIN
        ),
        _ => false,
    };
    names && follows
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn spellings_that_the_parser_lacks_mean_what_others_mean() {
        for (text, same) in [
            ("SELECT a FROM t FOR NO KEY UPDATE", "SELECT a FROM t FOR UPDATE"),
            ("SELECT a FROM t FOR KEY SHARE SKIP LOCKED", "SELECT a FROM t FOR SHARE SKIP LOCKED"),
            ("CREATE UNLOGGED TABLE t (a INT)", "CREATE TABLE t (a INT)"),
            ("DROP INDEX CONCURRENTLY IF EXISTS i", "DROP INDEX IF EXISTS i"),
            ("DROP GROUP IF EXISTS g, h", "DROP ROLE IF EXISTS g, h"),
            (
                "REVOKE ALL ON ALL ROUTINES IN SCHEMA s FROM a",
                "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA s FROM a",
            ),
            (
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
            ),
            ("START TRANSACTION READ ONLY, NOT DEFERRABLE", "START TRANSACTION READ ONLY"),
            (
                "SELECT a FROM ONLY b.t JOIN ONLY \"u\" ON true",
                "SELECT a FROM b.t JOIN \"u\" ON true",
            ),
            ("SELECT a FROM only", "SELECT a FROM only"),
            ("SELECT", "SELECT FROM (VALUES (1)) AS \"one\""),
            (
                "SELECT 1 WHERE EXISTS (SELECT WHERE a)",
                "SELECT 1 WHERE EXISTS (SELECT FROM (VALUES (1)) AS \"one\" WHERE a)",
            ),
            (
                "SELECT a = ANY ((SELECT 1) UNION SELECT 2), b = ALL ((SELECT 3))",
                "SELECT a = ANY (SELECT * FROM ((SELECT 1) UNION SELECT 2) AS \"values\"), \
                 b = ALL ((SELECT 3))",
            ),
            (
                "SELECT substring(f(a SIMILAR TO b) SIMILAR c || d ESCAPE '#')",
                "SELECT substring(f(a SIMILAR TO b) FROM \"\u{1}similar\" + (c || d) FOR '#')",
            ),
            ("DROP DATABASE IF EXISTS d WITH (FORCE)", "DROP DATABASE IF EXISTS d"),
            ("DROP DATABASE force (force)", "DROP DATABASE force"),
            ("SELECT nextval('a.s'::regclass)", "SELECT nextval('a.s')"),
            ("SELECT setval ( 's' :: regclass, 7, true)", "SELECT setval('s', 7, true)"),
            ("TABLE t", "SELECT * FROM t"),
            (
                "MERGE INTO t USING s ON a = b WHEN NOT MATCHED AND CASE WHEN c THEN d END \
                 THEN DO NOTHING WHEN MATCHED THEN DO NOTHING",
                "MERGE INTO t USING s ON a = b WHEN NOT MATCHED AND CASE WHEN c THEN d END \
                 THEN INSERT (\"\u{1}nothing\") VALUES (1) \
                 WHEN MATCHED THEN UPDATE SET \"\u{1}nothing\" = 1",
            ),
            (
                "MERGE INTO t USING s ON a = b WHEN NOT MATCHED AND c THEN INSERT (d) OVERRIDING \
                 USER VALUE VALUES (1) WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
                "MERGE INTO t USING s ON a = b WHEN NOT MATCHED AND c THEN \
                 INSERT (\"\u{1}user\", d) VALUES (1) \
                 WHEN NOT MATCHED THEN INSERT (\"\u{1}defaults\") VALUES (1)",
            ),
            ("table \"T\" ORDER BY 1 LIMIT 2", "SELECT * FROM \"T\" ORDER BY 1 LIMIT 2"),
            ("TABLE a.t UNION ALL TABLE u", "SELECT * FROM a.t UNION ALL SELECT * FROM u"),
            ("WITH x AS (TABLE t) SELECT 1", "WITH x AS (SELECT * FROM t) SELECT 1"),
            ("CREATE TABLE u AS TABLE t", "CREATE TABLE u AS SELECT * FROM t"),
            ("SELECT a AS table FROM t", "SELECT a AS table FROM t"),
        ] {
            let parsed = |text: &str| match parse(text) {
                Ok(mut found) => found.remove(0).statement.to_string(),
                Err(error) => panic!("{text}: {error:?}"),
            };
            assert_eq!(parsed(text), parsed(same), "{text}");
        }
    }

    #[test]
    fn a_table_that_is_no_query_stays() {
        for text in ["CREATE TABLE t (a INT)", "DROP TABLE t", "TRUNCATE TABLE t"] {
            assert!(parse(text).expect(text).remove(0).statement.to_string().contains("TABLE t"));
        }
        let error = parse("TABLE t ORDER BY )").expect_err("no expression");
        assert_eq!(error.fields().position, Some(18), "{error:?}");
    }
}
