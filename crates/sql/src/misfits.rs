//! Calls and operators that take no values of such types, told as PostgreSQL tells them: by the names of SQL's
//! types, and with the place in the statement.
//!
//! DataFusion names Arrow's types and its own functions, and says no place: [`told`] translates its messages, and
//! [`placed`] looks a call or an operator up in the statement's text. Constants have their types from there too:
//! a small number is an `integer`, and a text in quotes has the type `unknown` until it stands beside something.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::{SqlError, SqlState};
use crate::syntax::position_of;
use crate::values::shown_type;

/// What PostgreSQL advises where no function takes the arguments.
const FUNCTION_HINT: &str = "No function matches the given name and argument types. You might need to add explicit type casts.";

/// What PostgreSQL advises where no operator takes the operands.
const OPERATOR_HINT: &str = "No operator matches the given name and argument types. You might need to add explicit type casts.";

/// What PostgreSQL advises where several operators take the operands.
const CHOICE_HINT: &str =
    "Could not choose a best candidate operator. You might need to add explicit type casts.";

/// The longest text in which a place is looked for.
const TEXT_MAX: usize = 1 << 20;

/// Functions that have another name here than in texts: the name here, the word in the text, PostgreSQL's name.
#[rustfmt::skip] // one in a line
const WRITTEN: &[(&str, &str, &str)] = &[
    ("date_part", "extract", "pg_catalog.extract"),
    ("extract_whole", "extract", "pg_catalog.extract"),
    ("extract_fraction", "extract", "pg_catalog.extract"),
    ("substr", "substring", "pg_catalog.substring"),
    ("strpos", "position", "pg_catalog.position"),
    ("overlay", "overlay", "pg_catalog.overlay"),
    ("btrim", "trim", "pg_catalog.btrim"),
    ("trim", "trim", "pg_catalog.btrim"),
    ("ltrim", "trim", "pg_catalog.ltrim"),
    ("rtrim", "trim", "pg_catalog.rtrim"),
    ("character_length", "char_length", "char_length"),
    ("character_length", "length", "length"),
];

/// Words between the arguments of functions of the standard.
const BETWEEN: [&str; 4] = ["from", "for", "in", "placing"];

/// Functions whose first argument is an array of any type.
const TAKES_ARRAY: [&str; 8] = [
    "array_length",
    "array_lower",
    "array_ndims",
    "array_to_string",
    "array_upper",
    "cardinality",
    "trim_array",
    "unnest",
];

/// 42883: no function of this name takes arguments of these types, named as in SQL.
pub fn no_function(name: &str, types: &[String]) -> SqlError {
    let message = format!("function {name}({}) does not exist", types.join(", "));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(FUNCTION_HINT)
}

/// 42883: no function has this name; the types of its arguments are not known.
pub fn no_such_function(name: &str) -> SqlError {
    let message = format!("function {name} does not exist");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(FUNCTION_HINT)
}

/// 42883: no operator of this name takes operands of these types, named as in SQL.
pub fn no_operator(left: &str, op: &str, right: &str) -> SqlError {
    let message = format!("operator does not exist: {left} {op} {right}");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(OPERATOR_HINT)
}

/// 42883: no operator of this name stands before an operand of this type, named as in SQL.
pub fn no_prefix_operator(op: &str, operand: &str) -> SqlError {
    let message = format!("operator does not exist: {op} {operand}");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
        "No operator matches the given name and argument type. You might need to add an explicit type cast.",
    )
}

/// 42804: values that shall have one type have none in common.
fn no_common_type(word: &str, types: &[String]) -> SqlError {
    let first = types.first().map_or("unknown", String::as_str);
    let of_first = family(first);
    let other = types.iter().find(|ty| family(ty) != of_first).or(types.last());
    let other = other.map_or("unknown", String::as_str);
    let message = format!("{word} types {first} and {other} cannot be matched");
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

/// A word for the types of which one becomes another by itself.
fn family(ty: &str) -> &str {
    match ty {
        "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision" => "numbers",
        "date" | "timestamp without time zone" | "timestamp with time zone" => "moments",
        "text" | "character varying" | "character" | "name" => "texts",
        other => other,
    }
}

/// DataFusion's message about types that do not fit, as PostgreSQL says it; `None` for other messages.
pub(crate) fn told(message: &str) -> Option<SqlError> {
    if let Some((name, types)) = mismatched_call(message) {
        return Some(of_call(name, &types));
    }
    for words in [
        "comparison operation ",
        "for bitwise operation ",
        "for string concat operation ",
        "coerce arithmetic expression ",
    ] {
        let Some((_, rest)) = message.split_once(words) else { continue };
        let end = rest.find(" to valid types").or_else(|| rest.find('\n')).unwrap_or(rest.len());
        let (left, op, right) = operation(&rest[..end])?;
        return Some(no_operator(&left, op, &right));
    }
    if let Some((_, rest)) = (message.split_once("result type for temporal operation "))
        .or_else(|| message.split_once("result type for arithmetic operation "))
    {
        let (left, op, right) = operation(rest.split(": Invalid").next().unwrap_or(rest))?;
        return Some(no_operator(&left, op, &right));
    }
    if let Some((_, rest)) = message.split_once("'NOT' requires a boolean expression, got ") {
        return Some(no_condition("NOT", &shown(first_line(rest))));
    }
    if let Some((_, rest)) = message.split_once("non-boolean predicate ") {
        let (_, ty) = rest.rsplit_once("' returning ")?;
        return Some(no_condition("WHERE", &shown(first_line(ty))));
    }
    if let Some((_, rest)) = message.split_once("Join condition must be boolean type, but got ") {
        return Some(no_condition("JOIN/ON", &shown(first_line(rest))));
    }
    if message.contains("Too many columns! The subquery should only return one column") {
        let message = "subquery must return only one column";
        return Some(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if let Some((_, rest)) = message.split_once("Failed to coerce case (") {
        let (operand, rest) = rest.split_once(") and when (")?;
        let (when, _) = rest.split_once(") to common types")?;
        let when = split_types(when).into_iter().next()?;
        return Some(no_operator(&shown(operand), "=", &shown(when)));
    }
    if let Some((_, rest)) = message.split_once("Failed to coerce then (") {
        let (then, rest) = rest.split_once(") and else (")?;
        let (other, _) = rest.split_once(") to common types")?;
        return Some(no_common_type("CASE", &[shown(other), shown(then)]));
    }
    if let Some((_, rest)) = message.split_once("an not find compatible types to compare ") {
        let (left, list) = rest.split_once(" with [")?;
        let list = first_line(list).trim_end_matches(']');
        return Some(no_operator(&shown(left), "=", &shown(split_types(list).first()?)));
    }
    if let Some((_, rest)) = message.split_once("Inconsistent data type across values list") {
        let (was, found) = rest.split_once(". Was ")?.1.split_once(" but found ")?;
        return Some(no_common_type("VALUES", &[shown(was), shown(first_line(found))]));
    }
    None
}

/// 42804: what is to be a condition is none.
fn no_condition(word: &str, ty: &str) -> SqlError {
    let message = format!("argument of {word} must be type boolean, not type {ty}");
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

/// The function that DataFusion names and the types of its arguments, as SQL names them.
fn mismatched_call(message: &str) -> Option<(&str, Vec<String>)> {
    let (_, rest) = message.split_once("given name and argument types '")?;
    let end = rest.find("'. You might need")?;
    let (name, types) = rest[..end].split_once('(')?;
    let types = types.strip_suffix(')')?;
    Some((name, split_types(types).into_iter().map(shown).collect()))
}

fn of_call(name: &str, types: &[String]) -> SqlError {
    match (name, types) {
        ("make_array", _) => no_common_type("ARRAY", types),
        ("coalesce" | "greatest" | "least", _) if !types.is_empty() => {
            no_common_type(&name.to_uppercase(), types)
        }
        ("nullif", [left, right]) => no_operator(left, "=", right),
        ("array_has", _) => SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            "op ANY/ALL (array) requires array on right side",
        ),
        ("array_element" | "array_slice", [of, ..]) => SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("cannot subscript type {of} because it does not support subscripting"),
        ),
        ("bitwise_not", [operand]) => no_prefix_operator("~", operand),
        _ => no_function(name, types),
    }
}

/// The parts of `Int64 = Boolean`.
fn operation(text: &str) -> Option<(String, &str, String)> {
    let (left, rest) = text.split_at(end_of_type(text));
    let (op, right) = rest.trim_start().split_once(' ')?;
    Some((shown(left), op, shown(right)))
}

/// Where the type ends with which a text begins: at the first blank outside of brackets and quotes.
fn end_of_type(text: &str) -> usize {
    let (mut depth, mut quoted) = (0_i32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '<' if !quoted => depth += 1,
            ')' | '>' if !quoted => depth -= 1,
            ' ' if !quoted && depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The types of a list with commas between.
fn split_types(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from) = (0_i32, false, 0);
    let mut types = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                types.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    types.push(text[from..].trim());
    types.retain(|ty| !ty.is_empty());
    types
}

/// SQL's name of a type that Arrow has written.
fn shown(arrow: &str) -> String {
    let arrow = arrow.trim();
    match arrow.parse::<DataType>() {
        Ok(ty) => shown_type(&ty),
        Err(_) if arrow.starts_with("List(") => "anyarray".to_owned(),
        Err(_) if arrow.starts_with("Struct(") => "record".to_owned(),
        Err(_) => arrow.to_lowercase(),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end_matches('.')
}

/// An error about a call, an operator or a name, with the place of the first that it may mean in the statement's text,
/// and with the types that constants have there.
pub fn placed(error: SqlError, text: &str) -> SqlError {
    if text.len() > TEXT_MAX {
        return error;
    }
    let Some(found) = find(error.message(), text) else { return error };
    let state = found.state.unwrap_or(error.state());
    let error = match state {
        state if state == error.state() => error,
        SqlState::AMBIGUOUS_FUNCTION => SqlError::new(state, "").hint(CHOICE_HINT),
        state => SqlError::new(state, ""),
    };
    let error = match &found.message {
        Some(message) => error.with_message(message.as_str()),
        None => error,
    };
    // The planner's place of an operation is that of its first column.
    let is_better = found.message.is_some() || error.fields().position.is_none();
    match found.place {
        Some(place) if is_better => error.position(place),
        _ => error,
    }
}

/// What a statement's text says about an error.
#[derive(Default)]
struct Found {
    /// Another SQLSTATE, if the error is another one for the client.
    state: Option<SqlState>,
    /// The message with the types that constants have in the text.
    message: Option<String>,
    /// Character of the text, from 1.
    place: Option<u32>,
}

fn find(message: &str, text: &str) -> Option<Found> {
    let place_of = |token: &TokenWithSpan| position_of(text, token.span.start);
    if let Some(operation) = message.strip_prefix("operator does not exist: ") {
        let tokens = tokens(text)?;
        return Meant::operator(operation)?.find(&tokens, place_of);
    }
    if let Some(call) = message.strip_prefix("function ") {
        let meant = Meant::call(call.strip_suffix(" does not exist")?)?;
        return meant.find(&tokens(text)?, place_of);
    }
    if let Some((word, types)) = message.split_once(" types ")
        && types.ends_with(" cannot be matched")
    {
        let is_small = has_small(&tokens(text)?, word);
        let message = is_small.then(|| message.replacen("bigint", "integer", 1));
        return Some(Found { message, ..Found::default() });
    }
    if let Some(rest) = message.strip_prefix("argument of ")
        && let Some((word, ty)) = rest.split_once(" must be type boolean, not type ")
    {
        return no_condition_in(&tokens(text)?, word, ty, place_of);
    }
    if message.starts_with("count(*) must be used") {
        let tokens = tokens(text)?;
        let is_call = |pair: &&[TokenWithSpan]| {
            is_word(&pair[0], "count")
                && pair[1].token == Token::LParen
                && pair[2].token == Token::RParen
        };
        let place = tokens.windows(3).find(is_call).and_then(|call| place_of(&call[0]));
        return Some(Found { place, ..Found::default() });
    }
    if message.starts_with("cannot cast type ") {
        let tokens = tokens(text)?;
        let is_cast =
            |token: &&TokenWithSpan| token.token == Token::DoubleColon || is_word(token, "cast");
        let mut casts = tokens.iter().filter(is_cast);
        let only = casts.next().filter(|_| casts.next().is_none());
        return Some(Found { place: only.and_then(place_of), ..Found::default() });
    }
    // Names and constants that no rule of the planner gives a place.
    let quoted = message.strip_suffix(" does not exist").unwrap_or(message);
    let quoted = quoted.split(" of relation ").next().unwrap_or(quoted);
    let is_name = ["column \"", "relation \"", "type \""].iter().any(|is| quoted.starts_with(is));
    let is_value = message.starts_with("invalid input syntax for type ");
    if !is_name && !is_value {
        return None;
    }
    let (_, value) = quoted.strip_suffix('"')?.split_once('"')?;
    let is_it = |token: &&TokenWithSpan| match &token.token {
        Token::Word(word) => is_name && word.value.eq_ignore_ascii_case(value),
        Token::SingleQuotedString(text) => is_value && text == value,
        _ => false,
    };
    Some(Found { place: tokens(text)?.iter().find(is_it).and_then(place_of), ..Found::default() })
}

/// What the text says of an operand of type `ty` that is no condition, beside or behind a word.
fn no_condition_in(
    tokens: &[TokenWithSpan],
    word: &str,
    ty: &str,
    place_of: impl Fn(&TokenWithSpan) -> Option<u32>,
) -> Option<Found> {
    let at = |word: &str| tokens.iter().position(|token| is_word(token, word));
    // The planner takes the condition of HAVING for one of WHERE.
    let (said, at) = match word {
        "WHERE" => match at("where") {
            Some(at) => ("WHERE", at),
            None => ("HAVING", at("having")?),
        },
        "JOIN/ON" => (word, at("on")?),
        word => (word, at(word)?),
    };
    let before = operand_before(&tokens[..at]);
    let is_before = matches!(word, "AND" | "OR") && before == Kind::Integer;
    let is_small = is_before || operand_behind(&tokens[at + 1..]) == Kind::Integer;
    let ty = if is_small && ty == "bigint" { "integer" } else { ty };
    let place = match word {
        "AND" | "OR" if !is_before => None,
        "AND" | "OR" => place_of(&tokens[at - 1]),
        _ => tokens.get(at + 1).and_then(place_of),
    };
    let message = Some(format!("argument of {said} must be type boolean, not type {ty}"));
    Some(Found { message, place, state: None })
}

/// Whether one of the values that stand behind a word is a small number.
fn has_small(tokens: &[TokenWithSpan], word: &str) -> bool {
    let Some(at) = tokens.iter().position(|token| is_word(token, word)) else { return false };
    let (mut depth, brackets) =
        (0_i32, matches!(word, "ARRAY" | "COALESCE" | "GREATEST" | "LEAST"));
    for token in &tokens[at + 1..] {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            _ if kind_of(std::slice::from_ref(token)) == Kind::Integer => return true,
            _ => {}
        }
        if brackets && depth <= 0 {
            return false;
        }
    }
    false
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.value.eq_ignore_ascii_case(word))
}

fn tokens(text: &str) -> Option<Vec<TokenWithSpan>> {
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    Some(tokens)
}

/// What an operand is in the text, as far as its type goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Integer,
    Unknown,
    Other,
}

impl Kind {
    /// The type's name where the operand is of this kind; `None` if it cannot be.
    fn name(self, ty: &str) -> Option<&str> {
        match (self, ty) {
            (Kind::Integer, "bigint" | "integer") => Some("integer"),
            (Kind::Unknown, "text" | "unknown") => Some("unknown"),
            (Kind::Integer | Kind::Unknown, _) => None,
            (Kind::Other, ty) => Some(ty),
        }
    }
}

fn kind_of(tokens: &[TokenWithSpan]) -> Kind {
    let number = match tokens {
        [one] => &one.token,
        [sign, one] if matches!(sign.token, Token::Minus | Token::Plus) => &one.token,
        _ => return Kind::Other,
    };
    match number {
        Token::Number(digits, _) if digits.parse::<i32>().is_ok() => Kind::Integer,
        Token::SingleQuotedString(_) | Token::Placeholder(_) if tokens.len() == 1 => Kind::Unknown,
        Token::Word(word) if tokens.len() == 1 && word.value.eq_ignore_ascii_case("null") => {
            Kind::Unknown
        }
        _ => Kind::Other,
    }
}

/// The call or the operator that an error is about.
#[derive(Debug)]
enum Meant<'m> {
    Call { name: &'m str, types: Option<Vec<&'m str>> },
    Operator { left: &'m str, op: &'m str, right: &'m str },
}

impl<'m> Meant<'m> {
    /// Of `sum(text)`, or of a name alone.
    fn call(shown: &'m str) -> Option<Self> {
        let name = |name: &'m str| name.rsplit('.').next().unwrap_or(name);
        Some(match shown.split_once('(') {
            Some((called, types)) => {
                let types = split_types(types.strip_suffix(')')?);
                Meant::Call { name: name(called), types: Some(types) }
            }
            None => Meant::Call { name: name(shown), types: None },
        })
    }

    /// Of `double precision = text`.
    fn operator(shown: &'m str) -> Option<Self> {
        let is_operator = |word: &&str| word.chars().all(|c| "+-*/<>=~!@#%^&|?".contains(c));
        let op = shown.split(' ').find(is_operator)?;
        let (left, right) = shown.split_once(&format!(" {op} "))?;
        Some(Meant::Operator { left, op, right })
    }

    /// The first call or operator in the text that may be meant.
    fn find(
        &self,
        tokens: &[TokenWithSpan],
        place_of: impl Fn(&TokenWithSpan) -> Option<u32>,
    ) -> Option<Found> {
        match self {
            Meant::Call { name, types } => (0..tokens.len()).find_map(|at| {
                let found = call_at(tokens, at, name, types.as_deref())?;
                // A type that is not settled has no place in PostgreSQL's message.
                let place = if found.state.is_some() { None } else { place_of(&tokens[at]) };
                Some(Found { place, ..found })
            }),
            Meant::Operator { left, op, right } => (1..tokens.len().saturating_sub(1))
                .filter(|&at| match *op {
                    "~~" | "!~~" => is_word(&tokens[at], "like"),
                    "~~*" | "!~~*" => is_word(&tokens[at], "ilike"),
                    op => tokens[at].token.to_string() == *op,
                })
                .find_map(|at| {
                    let left = operand_before(&tokens[..at]).name(left)?;
                    let right = operand_behind(&tokens[at + 1..]).name(right)?;
                    let (state, says) = match (left, right) {
                        ("unknown", "unknown") => {
                            (Some(SqlState::AMBIGUOUS_FUNCTION), "operator is not unique")
                        }
                        _ => (None, "operator does not exist"),
                    };
                    let message = Some(format!("{says}: {left} {op} {right}"));
                    Some(Found { state, message, place: place_of(&tokens[at]) })
                }),
        }
    }
}

/// What a call that stands at a token says, if it may be that of this name and these types.
fn call_at(
    tokens: &[TokenWithSpan],
    at: usize,
    name: &str,
    types: Option<&[&str]>,
) -> Option<Found> {
    let Token::Word(word) = &tokens[at].token else { return None };
    if tokens.get(at + 1)?.token != Token::LParen {
        return None;
    }
    let is_written = |written: &str| word.value.eq_ignore_ascii_case(written);
    let row = WRITTEN.iter().find(|(here, written, _)| *here == name && is_written(written));
    if row.is_none() && !is_written(name) {
        return None;
    }
    let (args, has_words) = arguments(&tokens[at + 2..]);
    // Of what the standard writes with words among the arguments, PostgreSQL tells the schema.
    let told = match row {
        Some((_, "extract" | "trim", told)) => told,
        Some((_, _, told)) if has_words => told,
        Some((_, written, _)) => written,
        None => name,
    };
    if TAKES_ARRAY.contains(&name) && args.first() == Some(&Kind::Unknown) {
        let message = "could not determine polymorphic type because input has type unknown";
        let state = Some(SqlState::DATATYPE_MISMATCH);
        return Some(Found { state, message: Some(message.to_owned()), place: None });
    }
    let types = match (types, told) {
        // The field's name is a constant there.
        (Some([_, moment]), "pg_catalog.extract") => {
            let moment = args.last().and_then(|kind| kind.name(moment)).unwrap_or(moment);
            Some(vec!["unknown", moment])
        }
        (Some(types), _) if has_words => Some(types.to_vec()),
        (Some(types), _) => {
            if args.len() != types.len() {
                return None;
            }
            let names = types.iter().zip(&args).map(|(ty, kind)| kind.name(ty));
            Some(names.collect::<Option<Vec<_>>>()?)
        }
        (None, _) => {
            let known = args.iter().map(|kind| match kind {
                Kind::Integer => Some("integer"),
                Kind::Unknown => Some("unknown"),
                Kind::Other => None,
            });
            known.collect()
        }
    };
    let message = match types {
        Some(types) => format!("function {told}({}) does not exist", types.join(", ")),
        None => format!("function {told} does not exist"),
    };
    Some(Found { message: Some(message), ..Found::default() })
}

/// The kinds of a call's arguments, and whether words stand between them (`FROM`); `tokens` begin behind the bracket.
fn arguments(tokens: &[TokenWithSpan]) -> (Vec<Kind>, bool) {
    let (mut depth, mut from, mut has_words) = (0, 0, false);
    let mut kinds = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen if depth == 0 => {
                if at > from || !kinds.is_empty() {
                    kinds.push(kind_of(&tokens[from..at]));
                }
                break;
            }
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 0 => {
                kinds.push(kind_of(&tokens[from..at]));
                from = at + 1;
            }
            _ if depth == 0 && BETWEEN.iter().any(|word| is_word(token, word)) => {
                has_words = true;
                kinds.push(kind_of(&tokens[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    (kinds, has_words)
}

/// Whether a token ends an operand that stands before it, or begins one behind.
fn bounds(token: Option<&TokenWithSpan>) -> bool {
    let Some(token) = token else { return true };
    match &token.token {
        Token::LParen | Token::RParen | Token::Comma | Token::SemiColon | Token::EOF => true,
        Token::Word(word) => !word.value.eq_ignore_ascii_case("interval"),
        _ => false,
    }
}

fn operand_before(tokens: &[TokenWithSpan]) -> Kind {
    let Some((last, before)) = tokens.split_last() else { return Kind::Other };
    match kind_of(std::slice::from_ref(last)) {
        kind if bounds(before.last()) => kind,
        _ => Kind::Other,
    }
}

fn operand_behind(tokens: &[TokenWithSpan]) -> Kind {
    let Some((first, behind)) = tokens.split_first() else { return Kind::Other };
    match kind_of(std::slice::from_ref(first)) {
        kind if bounds(behind.first()) => kind,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_planner_become_postgresql_s() {
        for (message, state, expected) in [
            (
                "Function 'sum' user-defined coercion failed with: External error: 42883: x. No function \
                 matches the given name and argument types 'sum(Utf8View)'. You might need to add explicit \
                 type casts.\n\tCandidate functions:\n\tsum(UserDefined)",
                "42883",
                "function sum(text) does not exist",
            ),
            (
                "Function 'round' failed:\nx. No function matches the given name and argument types \
                 'round(Timestamp(µs, \"+00:00\"), Decimal128(38, 2))'. You might need to add explicit",
                "42883",
                "function round(timestamp with time zone, numeric) does not exist",
            ),
            (
                "x No function matches the given name and argument types 'make_array(Int64, Boolean)'. You \
                 might need",
                "42804",
                "ARRAY types bigint and boolean cannot be matched",
            ),
            (
                "x No function matches the given name and argument types 'coalesce(Interval(MonthDayNano), \
                 Timestamp(µs))'. You might need",
                "42804",
                "COALESCE types interval and timestamp without time zone cannot be matched",
            ),
            (
                "Cannot infer common argument type for comparison operation Int64 = Boolean",
                "42883",
                "operator does not exist: bigint = boolean",
            ),
            (
                "Cannot coerce arithmetic expression Timestamp(µs, \"+00:00\") + Int64 to valid types",
                "42883",
                "operator does not exist: timestamp with time zone + bigint",
            ),
            (
                "Cannot get result type for temporal operation Interval(MonthDayNano) * Interval(MonthDayNano): \
                 Invalid argument error: x",
                "42883",
                "operator does not exist: interval * interval",
            ),
            (
                "Failed to coerce case (Int32) and when (Boolean) to common types in CASE WHEN expression",
                "42883",
                "operator does not exist: integer = boolean",
            ),
            (
                "Inconsistent data type across values list at row 1 column 0. Was Int64 but found Boolean",
                "42804",
                "VALUES types bigint and boolean cannot be matched",
            ),
            (
                "Cannot create filter with non-boolean predicate 'r.d' returning Int32",
                "42804",
                "argument of WHERE must be type boolean, not type integer",
            ),
        ] {
            let error = told(message).expect(message);
            assert_eq!((error.state().as_str(), error.message()), (state, expected), "{message}");
        }
        assert!(told("table not found").is_none());
    }

    #[test]
    fn calls_and_operators_have_their_place_in_the_text() {
        for (message, text, expected, position) in [
            (
                "function sum(text) does not exist",
                "SELECT  sum(name)",
                "function sum(text) does not exist",
                Some(9),
            ),
            (
                "function lower(bigint) does not exist",
                "SELECT lower('A'), lower(b, c), LOWER ( 1 )",
                "function lower(integer) does not exist",
                Some(33),
            ),
            (
                "function date_part(text, bigint) does not exist",
                "SELECT EXTRACT(year FROM 1)",
                "function pg_catalog.extract(unknown, integer) does not exist",
                Some(8),
            ),
            (
                "function nosuch does not exist",
                "SELECT nosuch(1, 'a')",
                "function nosuch(integer, unknown) does not exist",
                Some(8),
            ),
            (
                "function substr(bigint, bigint) does not exist",
                "SELECT substring(1, 2)",
                "function substring(integer, integer) does not exist",
                Some(8),
            ),
            (
                "function array_length(text, bigint) does not exist",
                "SELECT array_length('{}', 1)",
                "could not determine polymorphic type because input has type unknown",
                None,
            ),
            (
                "operator does not exist: text & text",
                "SELECT '1' & $1",
                "operator is not unique: unknown & unknown",
                Some(12),
            ),
            (
                "argument of AND must be type boolean, not type bigint",
                "SELECT 1 AND true",
                "argument of AND must be type boolean, not type integer",
                Some(8),
            ),
            (
                "argument of WHERE must be type boolean, not type text",
                "SELECT 1 FROM t GROUP BY a HAVING name",
                "argument of HAVING must be type boolean, not type text",
                Some(35),
            ),
            (
                "cannot cast type integer to date",
                "SELECT 1::date",
                "cannot cast type integer to date",
                Some(9),
            ),
            (
                "invalid input syntax for type integer: \"a b\"",
                "SELECT 'a', 'a b'::int",
                "invalid input syntax for type integer: \"a b\"",
                Some(13),
            ),
            (
                "function nosuch does not exist",
                "SELECT nosuch(a)",
                "function nosuch does not exist",
                Some(8),
            ),
            (
                "operator does not exist: bigint = boolean",
                "SELECT a = 1, 'x=1', 1 = true",
                "operator does not exist: integer = boolean",
                Some(24),
            ),
            (
                "operator does not exist: double precision + text",
                "SELECT d\n + t",
                "operator does not exist: double precision + text",
                Some(11),
            ),
            (
                "function sum(text) does not exist",
                "SELECT total(x)",
                "function sum(text) does not exist",
                None,
            ),
            (
                "ARRAY types bigint and boolean cannot be matched",
                "SELECT ARRAY[1, true]",
                "ARRAY types integer and boolean cannot be matched",
                None,
            ),
        ] {
            let error = placed(SqlError::new(SqlState::UNDEFINED_FUNCTION, message), text);
            assert_eq!((error.message(), error.fields().position), (expected, position), "{text}");
        }
    }
}
