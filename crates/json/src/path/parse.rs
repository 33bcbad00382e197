//! Reading of paths.

use halcyon_base::interrupt::Pace;

use super::{Arithmetic, Comparison, Condition, Expr, Method, NESTING_MAX, Path, Step};
use crate::error::{JsonError, Result};
use crate::number::Number;
use crate::tree::Tree;

impl Path {
    /// Reads the text of a path. Errors: 42601 with the word that does not fit, 0A000.
    pub fn read(text: &str) -> Result<Path> {
        let mut reader = Reader { tokens: tokens(text)?, at: 0, depth: 0 };
        let is_lax = !reader.takes_word("strict");
        if is_lax {
            reader.takes_word("lax");
        }
        let expr = reader.any()?.into_expr();
        match reader.peek() {
            None => Ok(Path { is_lax, expr }),
            Some(_) => Err(reader.wrong()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name without quotes, or a keyword.
    Word(String),
    Quoted(String),
    Variable(String),
    Number(String),
    Sign(&'static str),
}

/// Signs, the longer ones first.
const SIGNS: [&str; 28] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "$", "@", ".", "*", "[", "]", "(", ")", "{",
    "}", "?", ",", "+", "-", "/", "%", "!", "<", ">", "=",
];

fn syntax(near: Option<&str>) -> JsonError {
    let message = match near {
        Some(near) => format!("syntax error at or near \"{near}\" of jsonpath input"),
        None => "syntax error at end of jsonpath input".to_owned(),
    };
    JsonError::new(b"42601", message)
}

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text;
    let pace = Pace::default();
    loop {
        if pace.is_over() {
            return Err(JsonError::interrupted());
        }
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| syntax(None))?;
            rest = &comment[end + 2..];
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let (token, after) = match first {
            '"' => {
                let (text, after) = quoted(rest)?;
                (Token::Quoted(text), after)
            }
            '$' if rest[1..].starts_with('"') => {
                let (name, after) = quoted(&rest[1..])?;
                (Token::Variable(name), after)
            }
            '$' if rest[1..].starts_with(is_of_word) => {
                let (name, after) = word(&rest[1..])?;
                (Token::Variable(name), after)
            }
            '0'..='9' => number(rest)?,
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => number(rest)?,
            first if is_of_word(first) || first == '\\' => {
                let (name, after) = word(rest)?;
                (Token::Word(name), after)
            }
            _ => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| syntax(Some(&first.to_string())))?;
                (Token::Sign(sign), &rest[sign.len()..])
            }
        };
        found.push(token);
        rest = after;
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || !letter.is_ascii()
}

fn word(text: &str) -> Result<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter == '\\' {
            rest = escaped(&rest[1..], &mut name)?;
        } else if is_of_word(letter) || letter == '$' {
            name.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            break;
        }
    }
    Ok((name, rest))
}

/// A text in quotes, and what follows it.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut out = String::new();
    let mut rest = &text[1..];
    loop {
        match rest.chars().next() {
            Some('"') => return Ok((out, &rest[1..])),
            Some('\\') => rest = escaped(&rest[1..], &mut out)?,
            Some(letter) => {
                out.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
            None => {
                return Err(JsonError::new(
                    b"42601",
                    "unterminated quoted string of jsonpath input",
                ));
            }
        }
    }
}

/// Adds the letter of an escape; the text begins behind the backslash. Gives what follows.
fn escaped<'t>(text: &'t str, out: &mut String) -> Result<&'t str> {
    let invalid = || JsonError::new(b"42601", "invalid escape sequence of jsonpath input");
    let letter = text.chars().next().ok_or_else(invalid)?;
    let rest = &text[letter.len_utf8()..];
    let hex = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| invalid());
    let (code, rest) = match letter {
        'b' => (8, rest),
        'f' => (12, rest),
        'n' => (10, rest),
        'r' => (13, rest),
        't' => (9, rest),
        'v' => (11, rest),
        'x' => (hex(rest.get(..2).ok_or_else(invalid)?)?, &rest[2..]),
        'u' => match rest.strip_prefix('{') {
            Some(rest) => {
                let (digits, after) = rest.split_once('}').ok_or_else(invalid)?;
                (hex(digits)?, after)
            }
            None => {
                let first = hex(rest.get(..4).ok_or_else(invalid)?)?;
                let after = &rest[4..];
                match (first, after.strip_prefix("\\u").and_then(|low| low.get(..4))) {
                    (0xd800..=0xdbff, Some(low)) => {
                        let low = hex(low)?.wrapping_sub(0xdc00);
                        (0x10000 + ((first - 0xd800) << 10) + (low & 0x3ff), &after[6..])
                    }
                    _ => (first, after),
                }
            }
        },
        other => (u32::from(other), rest),
    };
    out.push(char::from_u32(code).filter(|letter| *letter != '\0').ok_or_else(invalid)?);
    Ok(rest)
}

fn number(text: &str) -> Result<(Token, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(text);
    if text[end..].starts_with('.') {
        end += 1 + digits(&text[end + 1..]);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let power = digits(&text[end + 1 + sign..]);
        end += if power > 0 { 1 + sign + power } else { 0 };
    }
    if text[end..].starts_with(is_of_word) {
        let message = "trailing junk after numeric literal at or near";
        let junk: String = text[..end].chars().chain(text[end..].chars().take(1)).collect();
        return Err(JsonError::new(b"42601", format!("{message} \"{junk}\" of jsonpath input")));
    }
    Ok((Token::Number(text[..end].to_owned()), &text[end..]))
}

/// What parentheses may hold: items, or a condition.
enum Any {
    Items(Expr),
    Truth(Condition),
}

impl Any {
    fn into_expr(self) -> Expr {
        match self {
            Any::Items(expr) => expr,
            Any::Truth(condition) => Expr::Condition(Box::new(condition)),
        }
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn wrong(&self) -> JsonError {
        match self.peek() {
            None => syntax(None),
            Some(Token::Word(near) | Token::Quoted(near) | Token::Number(near)) => {
                syntax(Some(near))
            }
            Some(Token::Variable(name)) => syntax(Some(&format!("${name}"))),
            Some(Token::Sign(sign)) => syntax(Some(sign)),
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(own)) if *own == sign);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(own)) if own == word);
        self.at += usize::from(found);
        found
    }

    fn wants(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.wrong()) }
    }

    fn wants_word(&mut self, word: &str) -> Result<()> {
        if self.takes_word(word) { Ok(()) } else { Err(self.wrong()) }
    }

    /// Alternatives, the weakest of all operators.
    fn any(&mut self) -> Result<Any> {
        let mut left = self.all()?;
        while self.takes("||") {
            let (one, other) = (self.truth(left)?, self.all()?);
            left = Any::Truth(Condition::Or(Box::new(one), Box::new(self.truth(other)?)));
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Any> {
        let mut left = self.comparison()?;
        while self.takes("&&") {
            let (one, other) = (self.truth(left)?, self.comparison()?);
            left = Any::Truth(Condition::And(Box::new(one), Box::new(self.truth(other)?)));
        }
        Ok(left)
    }

    fn truth(&self, any: Any) -> Result<Condition> {
        match any {
            Any::Truth(condition) => Ok(condition),
            Any::Items(Expr::Condition(condition)) => Ok(*condition),
            Any::Items(_) => Err(self.wrong()),
        }
    }

    fn comparison(&mut self) -> Result<Any> {
        if self.takes("!") {
            // PostgreSQL wants parentheses, or `exists`, behind it.
            let of = self.primary()?;
            return Ok(Any::Truth(Condition::Not(Box::new(self.truth(of)?))));
        }
        let left = match self.sum()? {
            Any::Items(left) => left,
            truth => return Ok(truth),
        };
        let signs = [
            ("==", Comparison::Equal),
            ("=", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<>", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        for (sign, comparison) in signs {
            if self.takes(sign) {
                let right = self.items()?;
                return Ok(Any::Truth(Condition::Compare(comparison, left, right)));
            }
        }
        if self.takes_word("starts") {
            self.wants_word("with")?;
            let start = match self.peek() {
                Some(Token::Quoted(text)) => Expr::Constant(Tree::String(text.clone())),
                Some(Token::Variable(name)) => Expr::Variable(name.clone()),
                _ => return Err(self.wrong()),
            };
            self.at += 1;
            return Ok(Any::Truth(Condition::StartsWith(left, start)));
        }
        if self.takes_word("like_regex") {
            let pattern = self.text()?;
            let flags = if self.takes_word("flag") { self.text()? } else { String::new() };
            if let Some(other) = flags.chars().find(|flag| !"ismxq".contains(*flag)) {
                let error = JsonError::new(b"42601", "invalid input syntax for type jsonpath");
                let detail =
                    format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                return Err(error.detail(detail));
            }
            return Ok(Any::Truth(Condition::LikeRegex(left, pattern, flags)));
        }
        Ok(Any::Items(left))
    }

    fn text(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Quoted(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.wrong()),
        }
    }

    fn items(&mut self) -> Result<Expr> {
        match self.sum()? {
            Any::Items(expr) => Ok(expr),
            Any::Truth(_) => Err(self.wrong()),
        }
    }

    fn sum(&mut self) -> Result<Any> {
        self.chain(&[("+", Arithmetic::Plus), ("-", Arithmetic::Minus)], Self::product)
    }

    fn product(&mut self) -> Result<Any> {
        let signs =
            [("*", Arithmetic::Times), ("/", Arithmetic::Divide), ("%", Arithmetic::Modulo)];
        self.chain(&signs, Self::signed)
    }

    fn chain(
        &mut self,
        signs: &[(&str, Arithmetic)],
        operand: fn(&mut Self) -> Result<Any>,
    ) -> Result<Any> {
        let mut left = operand(self)?;
        while let Some((_, arithmetic)) = signs.iter().find(|(sign, _)| self.takes(sign)) {
            let (one, other) = match (left, operand(self)?) {
                (Any::Items(one), Any::Items(other)) => (one, other),
                _ => return Err(self.wrong()),
            };
            if *arithmetic == Arithmetic::Divide {
                return Err(JsonError::new(b"0A000", "division in a jsonpath is not supported"));
            }
            left = Any::Items(Expr::Binary(*arithmetic, Box::new(one), Box::new(other)));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Any> {
        let is_minus = match self.peek() {
            Some(Token::Sign("-")) => true,
            Some(Token::Sign("+")) => false,
            _ => return self.primary(),
        };
        self.at += 1;
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(JsonError::new(b"54001", "the jsonpath is nested too deep"));
        }
        let of = self.signed()?;
        self.depth -= 1;
        match of {
            Any::Items(expr) => Ok(Any::Items(Expr::Signed(is_minus, Box::new(expr)))),
            Any::Truth(_) => Err(self.wrong()),
        }
    }

    /// What every nesting passes: parentheses, filters, subscripts and `exists`. Errors: 54001 for what is nested too
    /// deep.
    fn primary(&mut self) -> Result<Any> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(JsonError::new(b"54001", "the jsonpath is nested too deep"));
        }
        let found = self.operand();
        self.depth -= 1;
        found
    }

    /// A beginning and the steps behind it, or what stands in parentheses.
    fn operand(&mut self) -> Result<Any> {
        let token = self.peek().cloned().ok_or_else(|| syntax(None))?;
        let base = match token {
            Token::Sign("$") => Expr::Root,
            Token::Sign("@") => Expr::Current,
            Token::Word(word) if word == "last" => Expr::Last,
            Token::Word(word) if word == "null" => Expr::Constant(Tree::Null),
            Token::Word(word) if word == "true" => Expr::Constant(Tree::Bool(true)),
            Token::Word(word) if word == "false" => Expr::Constant(Tree::Bool(false)),
            Token::Word(word) if word == "exists" => {
                self.at += 1;
                self.wants("(")?;
                let of = self.items()?;
                self.wants(")")?;
                return Ok(Any::Truth(Condition::Exists(of)));
            }
            Token::Variable(name) => Expr::Variable(name),
            Token::Quoted(text) => Expr::Constant(Tree::String(text)),
            Token::Number(text) => Expr::Constant(Tree::Number(Number::read(&whole(&text))?)),
            Token::Sign("(") => {
                self.at += 1;
                let within = self.any()?;
                self.wants(")")?;
                if let Any::Truth(condition) = within {
                    if self.takes_word("is") {
                        self.wants_word("unknown")?;
                        return Ok(Any::Truth(Condition::IsUnknown(Box::new(condition))));
                    }
                    if !self.is_step() {
                        return Ok(Any::Truth(condition));
                    }
                    return self.steps(Expr::Condition(Box::new(condition)));
                }
                return self.steps(within.into_expr());
            }
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        self.steps(base)
    }

    fn is_step(&self) -> bool {
        matches!(self.peek(), Some(Token::Sign("." | "[" | "?")))
    }

    fn steps(&mut self, base: Expr) -> Result<Any> {
        let mut steps = Vec::new();
        while self.is_step() {
            steps.push(self.step()?);
        }
        Ok(Any::Items(match steps.is_empty() {
            true => base,
            false => Expr::Steps(Box::new(base), steps),
        }))
    }

    fn step(&mut self) -> Result<Step> {
        if self.takes("?") {
            self.wants("(")?;
            let condition = self.any()?;
            let condition = self.truth(condition)?;
            self.wants(")")?;
            return Ok(Step::Filter(condition));
        }
        if self.takes("[") {
            if self.takes("*") {
                self.wants("]")?;
                return Ok(Step::AnyElement);
            }
            let mut elements = Vec::new();
            loop {
                let from = self.items()?;
                let to = if self.takes_word("to") { Some(self.items()?) } else { None };
                elements.push((from, to));
                if !self.takes(",") {
                    break;
                }
            }
            self.wants("]")?;
            return Ok(Step::Elements(elements));
        }
        self.wants(".")?;
        if self.takes("*") {
            return Ok(Step::AnyKey);
        }
        if self.takes("**") {
            return self.within();
        }
        let token = self.peek().cloned().ok_or_else(|| syntax(None))?;
        match token {
            Token::Quoted(key) => {
                self.at += 1;
                Ok(Step::Key(key))
            }
            Token::Word(name) => {
                self.at += 1;
                if !self.takes("(") {
                    return Ok(Step::Key(name));
                }
                if name == "datetime" {
                    return Err(JsonError::new(
                        b"0A000",
                        "datetime() in a jsonpath is not supported",
                    ));
                }
                self.wants(")")?;
                let method = Method::ALL.iter().find(|(own, _)| *own == name);
                method.map(|(_, method)| Step::Method(*method)).ok_or_else(|| syntax(Some(&name)))
            }
            _ => Err(self.wrong()),
        }
    }

    fn within(&mut self) -> Result<Step> {
        if !self.takes("{") {
            return Ok(Step::Within(0, u32::MAX));
        }
        let from = self.level()?;
        let to = if self.takes_word("to") { self.level()? } else { from };
        self.wants("}")?;
        Ok(Step::Within(from, to))
    }

    fn level(&mut self) -> Result<u32> {
        let level = match self.peek() {
            Some(Token::Word(word)) if word == "last" => Some(u32::MAX),
            Some(Token::Number(text)) => text.parse().ok(),
            _ => None,
        };
        let level = level.ok_or_else(|| self.wrong())?;
        self.at += 1;
        Ok(level)
    }
}

/// A number with digits on both sides of its point, as JSON has it.
fn whole(text: &str) -> String {
    let text = text.replace(".e", ".0e").replace(".E", ".0e");
    match (text.strip_prefix('.'), text.strip_suffix('.')) {
        (Some(places), _) => format!("0.{places}"),
        (_, Some(digits)) => digits.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_path_is_told_with_the_word_that_does_not_fit() {
        for (text, message) in [
            ("", "syntax error at end of jsonpath input"),
            ("$.", "syntax error at end of jsonpath input"),
            ("$.a b", "syntax error at or near \"b\" of jsonpath input"),
            ("$ ? (@.a)", "syntax error at or near \")\" of jsonpath input"),
            ("$.nothing()", "syntax error at or near \"nothing\" of jsonpath input"),
            ("1x", "trailing junk after numeric literal at or near \"1x\" of jsonpath input"),
            ("$.\"a", "unterminated quoted string of jsonpath input"),
            ("$ / 2", "division in a jsonpath is not supported"),
            ("$.datetime()", "datetime() in a jsonpath is not supported"),
        ] {
            let error = Path::read(text).expect_err(text);
            assert_eq!(error.told().message, message, "{text}");
        }
        for open in ["(", "-", "$[", "$ ? (@ == ", "$ ? (exists(", "$ ? (!(", "$[0 to "] {
            let deep = format!("{}$", open.repeat(NESTING_MAX + 1));
            assert_eq!(Path::read(&deep).expect_err("deep").told().state, *b"54001", "{open}");
            // None is read by recursion that nobody counts.
            let deepest = format!("{}$", open.repeat(100_000));
            assert_eq!(Path::read(&deepest).expect_err("deep").told().state, *b"54001", "{open}");
        }
    }
}
