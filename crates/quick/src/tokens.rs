//! The tokens of everyday texts.

use std::borrow::Cow;

use datafusion::sql::sqlparser::keywords::{ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword};
use datafusion::sql::sqlparser::tokenizer::{Location, Span};

/// Longest keyword that is looked for: a longer word is none.
const KEYWORD_BYTES_MAX: usize = 32;
/// Characters that operators are made of. Two of them side by side are an operator of their own, or begin
/// a comment; a few pairs are known.
const OPERATOR: &[u8] = b"+-*/<>=~!@#%^&|`?:";

/// A token and its place.
pub(super) struct Lexeme<'t> {
    pub kind: Kind<'t>,
    pub span: Span,
    /// Where the token ends in the text, in bytes.
    pub end: usize,
}

/// A token.
#[derive(Debug, PartialEq)]
pub(super) enum Kind<'t> {
    /// A word without quotes, and what keyword it is, if any.
    Word(&'t str, Keyword),
    /// A word in double quotes.
    Quoted(&'t str),
    /// Digits, perhaps with a point among them.
    Number(&'t str),
    /// A text in single quotes.
    Text(Cow<'t, str>),
    /// `$n`, with the sign.
    Parameter(&'t str),
    /// A comma, a bracket, an operator.
    Symbol(&'static str),
}

/// The tokens of a text that begins with one; `None` if something in the text is not of every day.
pub(super) fn tokens(text: &str) -> Option<Vec<Lexeme<'_>>> {
    let mut lexer = Lexer { text, at: 0, line: 1, line_start: 0, continued: 0 };
    let mut found = Vec::with_capacity(text.len() / 4 + 4);
    while lexer.blanks()? {
        found.push(lexer.next()?);
    }
    Some(found)
}

/// A place in a text.
struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u64,
    /// Where the line begins, in bytes.
    line_start: usize,
    /// Bytes of the line up to here that begin no character.
    continued: usize,
}

impl<'t> Lexer<'t> {
    fn here(&self) -> Location {
        let column = self.at - self.line_start - self.continued + 1;
        Location { line: self.line, column: column as u64 }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Passes over blanks; whether anything follows.
    fn blanks(&mut self) -> Option<bool> {
        loop {
            match self.byte(0) {
                b' ' | b'\t' => self.at += 1,
                b'\n' => self.new_line(),
                0 => return (self.at == self.text.len()).then_some(false),
                _ => return Some(true),
            }
        }
    }

    /// Passes over the end of a line.
    fn new_line(&mut self) {
        self.at += 1;
        (self.line, self.line_start, self.continued) = (self.line + 1, self.at, 0);
    }

    fn next(&mut self) -> Option<Lexeme<'t>> {
        let start = self.here();
        let kind = match self.byte(0) {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word()?,
            b'0'..=b'9' => self.number()?,
            b'\'' => self.quoted_text()?,
            b'"' => self.quoted_word()?,
            b'$' => self.parameter()?,
            _ => self.symbol()?,
        };
        Some(Lexeme { kind, span: Span { start, end: self.here() }, end: self.at })
    }

    /// Passes over bytes that satisfy `belongs`, from `skip` on; all that was passed.
    fn run(&mut self, skip: usize, belongs: impl Fn(u8) -> bool) -> &'t str {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        self.at += skip;
        while self.at < bytes.len() && belongs(bytes[self.at]) {
            self.at += 1;
        }
        &self.text[begin..self.at]
    }

    fn word(&mut self) -> Option<Kind<'t>> {
        let word = self.run(1, is_of_word);
        // A letter of another alphabet; or the prefix of a constant in quotes.
        let ends = self.byte(0).is_ascii() && !matches!(self.byte(0), b'\'' | b'"' | b'&');
        ends.then(|| Kind::Word(word, keyword(word)))
    }

    fn number(&mut self) -> Option<Kind<'t>> {
        let begin = self.at;
        self.run(1, |byte| byte.is_ascii_digit());
        if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
            self.run(2, |byte| byte.is_ascii_digit());
        }
        let ends = !is_of_word(self.byte(0)) && self.byte(0) != b'.' && self.byte(0).is_ascii();
        ends.then(|| Kind::Number(&self.text[begin..self.at]))
    }

    fn parameter(&mut self) -> Option<Kind<'t>> {
        let found = self.run(1, |byte| byte.is_ascii_digit());
        let ends = !is_of_word(self.byte(0)) && self.byte(0).is_ascii();
        let is_one = found[1..].parse::<u16>().is_ok_and(|number| number > 0);
        (is_one && ends).then_some(Kind::Parameter(found))
    }

    fn quoted_word(&mut self) -> Option<Kind<'t>> {
        self.at += 1;
        let found = self.run(0, |byte| byte != b'"' && byte != b'\n' && byte.is_ascii());
        self.closes(b'"').then_some(Kind::Quoted(found)).filter(|_| !found.is_empty())
    }

    /// Passes over a closing quote that is not doubled; false if there is none.
    fn closes(&mut self, quote: u8) -> bool {
        let closes = self.byte(0) == quote && self.byte(1) != quote;
        self.at += usize::from(closes);
        closes
    }

    fn quoted_text(&mut self) -> Option<Kind<'t>> {
        let begin = self.at + 1;
        let mut doubled = false;
        self.at += 1;
        loop {
            match self.byte(0) {
                b'\'' if self.byte(1) == b'\'' => {
                    doubled = true;
                    self.at += 2;
                }
                b'\'' => break,
                b'\n' => self.new_line(),
                // A byte of 0 is the end, or something that no text may have.
                0 | b'\r' => return None,
                byte => {
                    self.continued += usize::from(byte & 0xc0 == 0x80);
                    self.at += 1;
                }
            }
        }
        let content = &self.text[begin..self.at];
        self.at += 1;
        Some(Kind::Text(match doubled {
            true => content.replace("''", "'").into(),
            false => content.into(),
        }))
    }

    fn symbol(&mut self) -> Option<Kind<'t>> {
        let symbol = match (self.byte(0), self.byte(1)) {
            (b'<', b'>') => "<>",
            (b'!', b'=') => "!=",
            (b'<', b'=') => "<=",
            (b'>', b'=') => ">=",
            (b':', b':') => "::",
            (b'<', _) => "<",
            (b'>', _) => ">",
            (b'=', _) => "=",
            (b'+', _) => "+",
            (b'-', _) => "-",
            (b'*', _) => "*",
            (b'/', _) => "/",
            (b'%', _) => "%",
            (b'(', _) => "(",
            (b')', _) => ")",
            (b',', _) => ",",
            (b'.', next) if !next.is_ascii_digit() => ".",
            (b';', _) => ";",
            _ => return None,
        };
        self.at += symbol.len();
        let is_operator = |byte: u8| OPERATOR.contains(&byte);
        let runs_on = is_operator(symbol.as_bytes()[0]) && is_operator(self.byte(0));
        (!runs_on).then_some(Kind::Symbol(symbol))
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// The keyword that a word is for the SQL parser.
fn keyword(word: &str) -> Keyword {
    let mut upper = [0; KEYWORD_BYTES_MAX];
    let Some(upper) = upper.get_mut(..word.len()) else { return Keyword::NoKeyword };
    upper.copy_from_slice(word.as_bytes());
    upper.make_ascii_uppercase();
    match ALL_KEYWORDS.binary_search_by(|known| known.as_bytes().cmp(upper)) {
        Ok(at) => ALL_KEYWORDS_INDEX[at],
        Err(_) => Keyword::NoKeyword,
    }
}
