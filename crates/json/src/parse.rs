//! Reading JSON, with PostgreSQL's errors: which token is wrong, and the line up to it.
//!
//! One parser serves `jsonb`, which makes a [`Tree`] and so reads the escapes of strings, and `json`,
//! which only has to be well formed. What is made of a text is for a [`Build`] to say.

use halcyon_base::interrupt::Pace;

use crate::DEPTH_MAX;
use crate::error::{JsonError, Result};
use crate::number::Number;
use crate::tree::Tree;

/// What is made of the parts of a text.
pub(crate) trait Build {
    /// A value.
    type Value;
    /// A string.
    type Text;
    /// Whether strings are read: their escapes have to stand for characters then.
    const READS_STRINGS: bool;

    fn text(read: String) -> Self::Text;
    fn null() -> Self::Value;
    fn boolean(value: bool) -> Self::Value;
    fn number(digits: &str) -> Result<Self::Value>;
    fn string(text: Self::Text) -> Self::Value;
    fn array(elements: Vec<Self::Value>) -> Self::Value;
    fn object(pairs: Vec<(Self::Text, Self::Value)>) -> Result<Self::Value>;
}

/// Makes a [`Tree`].
pub(crate) struct Trees;

impl Build for Trees {
    type Value = Tree;
    type Text = String;
    const READS_STRINGS: bool = true;

    fn text(read: String) -> String {
        read
    }
    fn null() -> Tree {
        Tree::Null
    }
    fn boolean(value: bool) -> Tree {
        Tree::Bool(value)
    }
    fn number(digits: &str) -> Result<Tree> {
        Number::read(digits).map(Tree::Number)
    }
    fn string(text: String) -> Tree {
        Tree::String(text)
    }
    fn array(elements: Vec<Tree>) -> Tree {
        Tree::Array(elements)
    }
    fn object(pairs: Vec<(String, Tree)>) -> Result<Tree> {
        Ok(Tree::object(pairs))
    }
}

/// Makes nothing.
pub(crate) struct Nothing;

impl Build for Nothing {
    type Value = ();
    type Text = ();
    const READS_STRINGS: bool = false;

    fn text(_: String) {}
    fn null() {}
    fn boolean(_: bool) {}
    fn number(_: &str) -> Result<()> {
        Ok(())
    }
    fn string((): ()) {}
    fn array(_: Vec<()>) {}
    fn object(_: Vec<((), ())>) -> Result<()> {
        Ok(())
    }
}

/// The document that a text stands for. Errors: 22P02, 22P05, 22003, 54001.
pub fn tree(text: &str) -> Result<Tree> {
    let mut parser = Parser::new(text);
    let tree = parser.value::<Trees>()?;
    parser.end()?;
    Ok(tree)
}

/// Errors: as [`tree`], if the text is not well formed. Escapes may stand for what no text has.
pub fn check(text: &str) -> Result<()> {
    let mut parser = Parser::new(text);
    parser.value::<Nothing>()?;
    parser.end()
}

/// A token, whose place the parser has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// One of `{}[],:`.
    Sign(u8),
    String,
    Number,
    True,
    False,
    Null,
    End,
}

/// Reads a text from its begin to its end.
pub(crate) struct Parser<'a> {
    text: &'a str,
    /// Where the next token is looked for.
    at: usize,
    /// Where the last token begins.
    start: usize,
    /// The last string, if strings are read.
    string: String,
    line: usize,
    line_start: usize,
    depth: usize,
    pace: Pace,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let string = String::new();
        let pace = Pace::default();
        Parser { text, at: 0, start: 0, string, line: 1, line_start: 0, depth: 0, pace }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Where the next value begins, blanks left out.
    pub(crate) fn place(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    /// Where the last token ends.
    pub(crate) fn after(&self) -> usize {
        self.at
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.byte(self.at) {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.line_start = self.at + 1;
                }
                b' ' | b'\t' | b'\r' => {}
                _ => break,
            }
            self.at += 1;
        }
    }

    /// Takes the next token in. `reads`: whether a string is kept. Errors: 57014 and those of a text.
    pub(crate) fn token(&mut self, reads: bool) -> Result<Token> {
        if self.pace.is_over() {
            return Err(JsonError::interrupted());
        }
        self.skip_blanks();
        self.start = self.at;
        let Some(first) = self.byte(self.at) else { return Ok(Token::End) };
        match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => {
                self.at += 1;
                Ok(Token::Sign(first))
            }
            b'"' => self.string_token(reads).map(|()| Token::String),
            b'-' | b'0'..=b'9' => self.number_token().map(|()| Token::Number),
            _ => {
                let length = self.text.as_bytes()[self.at..]
                    .iter()
                    .position(|byte| !is_word(*byte))
                    .unwrap_or(self.text.len() - self.at);
                let word = &self.text[self.at..self.at + length];
                self.at += length.max(1);
                match word {
                    "true" => Ok(Token::True),
                    "false" => Ok(Token::False),
                    "null" => Ok(Token::Null),
                    _ => Err(self.invalid_token(self.at)),
                }
            }
        }
    }

    fn number_token(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut at = self.at + usize::from(bytes[self.at] == b'-');
        let mut is_wrong = false;
        match bytes.get(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = digits(at),
            _ => is_wrong = true,
        }
        if bytes.get(at) == Some(&b'.') {
            let end = digits(at + 1);
            is_wrong |= end == at + 1;
            at = end;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            let end = digits(at);
            is_wrong |= end == at;
            at = end;
        }
        while bytes.get(at).copied().is_some_and(is_word) {
            at += 1;
            is_wrong = true;
        }
        self.at = at;
        if is_wrong { Err(self.invalid_token(at)) } else { Ok(()) }
    }

    fn string_token(&mut self, reads: bool) -> Result<()> {
        let bytes = self.text.as_bytes();
        self.string.clear();
        let mut high: Option<u32> = None;
        let mut at = self.at + 1;
        loop {
            let run = at;
            while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..32)) {
                at += 1;
            }
            if at > run {
                if high.is_some() {
                    return Err(self.surrogate("low", "follow", run));
                }
                if reads {
                    self.string.push_str(&self.text[run..at]);
                }
            }
            match bytes.get(at) {
                None => return Err(self.invalid_token(at)),
                Some(b'"') => {
                    if high.is_some() {
                        return Err(self.surrogate("low", "follow", at + 1));
                    }
                    self.at = at + 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    let escaped = self.escape(at + 1, reads, &mut high)?;
                    at = escaped;
                }
                Some(control) => {
                    let detail = format!("Character with value 0x{control:02x} must be escaped.");
                    return Err(self.wrong(detail, at));
                }
            }
        }
    }

    /// Reads an escape behind its backslash. Returns where it ends.
    fn escape(&mut self, at: usize, reads: bool, high: &mut Option<u32>) -> Result<usize> {
        let Some(letter) = self.byte(at) else { return Err(self.invalid_token(at)) };
        let plain = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(at + 1, reads, high),
            _ => {
                if reads && high.is_some() {
                    return Err(self.surrogate("low", "follow", at));
                }
                let end = at + self.char_length(at);
                let shown = &self.text[at..end];
                return Err(self.wrong(format!("Escape sequence \"\\{shown}\" is invalid."), end));
            }
        };
        if reads {
            if high.is_some() {
                return Err(self.surrogate("low", "follow", at));
            }
            self.string.push(plain);
        }
        Ok(at + 1)
    }

    fn code_point(&mut self, at: usize, reads: bool, high: &mut Option<u32>) -> Result<usize> {
        let mut code = 0;
        for place in at..at + 4 {
            let Some(byte) = self.byte(place) else { return Err(self.invalid_token(place)) };
            let Some(digit) = char::from(byte).to_digit(16) else {
                let end = place + self.char_length(place);
                let detail = "\"\\u\" must be followed by four hexadecimal digits.";
                return Err(self.wrong(detail.to_owned(), end));
            };
            code = code * 16 + digit;
        }
        let end = at + 4;
        if !reads {
            return Ok(end);
        }
        match (code, high.take()) {
            (0xd800..0xdc00, Some(_)) => Err(self.surrogate("high", "not follow", end)),
            (0xd800..0xdc00, None) => {
                *high = Some(code);
                Ok(end)
            }
            (0xdc00..0xe000, Some(first)) => {
                let point = 0x10000 + ((first & 0x3ff) << 10) + (code & 0x3ff);
                self.string.push(char::from_u32(point).expect("a pair of surrogates"));
                Ok(end)
            }
            (0xdc00..0xe000, None) | (_, Some(_)) => Err(self.surrogate("low", "follow", end)),
            (0, None) => {
                let error = JsonError::new(b"22P05", "unsupported Unicode escape sequence");
                let error = error.detail("\\u0000 cannot be converted to text.");
                Err(self.placed(error, end))
            }
            (code, None) => {
                self.string.push(char::from_u32(code).expect("no surrogate"));
                Ok(end)
            }
        }
    }

    fn char_length(&self, at: usize) -> usize {
        self.text[at..].chars().next().map_or(0, char::len_utf8)
    }

    /// The next value. Errors: those of [`tree`].
    pub(crate) fn value<B: Build>(&mut self) -> Result<B::Value> {
        let token = self.token(B::READS_STRINGS)?;
        self.value_of::<B>(token, "Expected JSON value, but found")
    }

    fn value_of<B: Build>(&mut self, token: Token, expected: &str) -> Result<B::Value> {
        match token {
            Token::Null => Ok(B::null()),
            Token::True => Ok(B::boolean(true)),
            Token::False => Ok(B::boolean(false)),
            Token::Number => B::number(&self.text[self.start..self.at]),
            Token::String => Ok(B::string(B::text(std::mem::take(&mut self.string)))),
            Token::Sign(b'[') => self.deeper(Self::array::<B>),
            Token::Sign(b'{') => self.deeper(Self::object::<B>),
            token => Err(self.expected(expected, token)),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let detail = format!("Arrays and objects may lie {DEPTH_MAX} deep.");
            return Err(JsonError::new(b"54001", "stack depth limit exceeded").detail(detail));
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn array<B: Build>(&mut self) -> Result<B::Value> {
        let mut elements = Vec::new();
        let mut token = self.token(B::READS_STRINGS)?;
        if token == Token::Sign(b']') {
            return Ok(B::array(elements));
        }
        loop {
            elements.push(self.value_of::<B>(
                token,
                match elements.is_empty() {
                    true => "Expected array element or \"]\", but found",
                    false => "Expected JSON value, but found",
                },
            )?);
            match self.token(false)? {
                Token::Sign(b',') => token = self.token(B::READS_STRINGS)?,
                Token::Sign(b']') => return Ok(B::array(elements)),
                other => return Err(self.expected("Expected \",\" or \"]\", but found", other)),
            }
        }
    }

    fn object<B: Build>(&mut self) -> Result<B::Value> {
        let mut pairs = Vec::new();
        while self.key(B::READS_STRINGS, pairs.is_empty())? {
            let key = B::text(std::mem::take(&mut self.string));
            self.colon()?;
            pairs.push((key, self.value::<B>()?));
            if !self.goes_on()? {
                break;
            }
        }
        B::object(pairs)
    }

    /// Takes in a key; `false` at the end of an object without pairs.
    pub(crate) fn key(&mut self, reads: bool, is_first: bool) -> Result<bool> {
        match (self.token(reads)?, is_first) {
            (Token::String, _) => Ok(true),
            (Token::Sign(b'}'), true) => Ok(false),
            (other, true) => Err(self.expected("Expected string or \"}\", but found", other)),
            (other, false) => Err(self.expected("Expected string, but found", other)),
        }
    }

    /// The key that was read last.
    pub(crate) fn take_string(&mut self) -> String {
        std::mem::take(&mut self.string)
    }

    pub(crate) fn colon(&mut self) -> Result<()> {
        match self.token(false)? {
            Token::Sign(b':') => Ok(()),
            other => Err(self.expected("Expected \":\", but found", other)),
        }
    }

    /// Takes in a comma, or the end of the object.
    pub(crate) fn goes_on(&mut self) -> Result<bool> {
        match self.token(false)? {
            Token::Sign(b',') => Ok(true),
            Token::Sign(b'}') => Ok(false),
            other => Err(self.expected("Expected \",\" or \"}\", but found", other)),
        }
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        match self.token(false)? {
            Token::End => Ok(()),
            other => Err(self.expected("Expected end of input, but found", other)),
        }
    }

    fn expected(&self, expected: &str, found: Token) -> JsonError {
        let detail = match found {
            Token::End => "The input string ended unexpectedly.".to_owned(),
            _ => format!("{expected} \"{}\".", &self.text[self.start..self.at]),
        };
        self.wrong(detail, self.at)
    }

    fn invalid_token(&self, end: usize) -> JsonError {
        let end = (end..=self.text.len()).find(|end| self.text.is_char_boundary(*end));
        let end = end.unwrap_or(self.text.len());
        self.wrong(format!("Token \"{}\" is invalid.", &self.text[self.start..end]), end)
    }

    fn surrogate(&self, which: &str, how: &str, end: usize) -> JsonError {
        self.wrong(format!("Unicode {which} surrogate must {how} a high surrogate."), end)
    }

    fn wrong(&self, detail: String, end: usize) -> JsonError {
        let error = JsonError::new(b"22P02", "invalid input syntax for type json");
        self.placed(error.detail(detail), end)
    }

    /// Names the line up to `end`, of a long one the last 50 bytes.
    fn placed(&self, error: JsonError, end: usize) -> JsonError {
        let line = self.line_start;
        let near = (line..end).find(|at| end - at < 50 && self.text.is_char_boundary(*at));
        let start = near.filter(|near| near - line > 3).unwrap_or(line);
        let before = if start > line { "..." } else { "" };
        let after = match self.byte(end) {
            None | Some(b'\n' | b'\r') => "",
            Some(_) => "...",
        };
        let shown = &self.text[start..end];
        error.context(format!("JSON data, line {}: {before}{shown}{after}", self.line))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_read_no_further_than_its_interrupt() {
        use halcyon_base::interrupt::watching;
        let pairs: Vec<String> = (0..10_000).map(|at| format!("\"k{at}\": [{at}]")).collect();
        let text = format!("{{{}}}", pairs.join(","));
        assert!(tree(&text).is_ok() && check(&text).is_ok());
        let ends = |error: Option<JsonError>| error.is_some_and(|error| error.is_interrupt());
        assert!(ends(watching(|| true, || tree(&text)).err()));
        assert!(ends(watching(|| true, || check(&text)).err()));
    }

    /// What PostgreSQL 15 says of each.
    #[test]
    fn a_text_that_is_no_json_is_refused_with_the_place() {
        for (text, detail, context) in [
            ("", "The input string ended unexpectedly.", ""),
            ("nul", "Token \"nul\" is invalid.", "nul"),
            ("{a", "Token \"a\" is invalid.", "{a"),
            ("{\"a\":", "The input string ended unexpectedly.", "{\"a\":"),
            ("{\"a\":1,}", "Expected string, but found \"}\".", "{\"a\":1,}"),
            ("[1 2", "Expected \",\" or \"]\", but found \"2\".", "[1 2"),
            ("[}", "Expected array element or \"]\", but found \"}\".", "[}"),
            ("[1,]", "Expected JSON value, but found \"]\".", "[1,]"),
            ("1 2", "Expected end of input, but found \"2\".", "1 2"),
            ("\"abc", "Token \"\"abc\" is invalid.", "\"abc"),
            ("\"\\x\"", "Escape sequence \"\\x\" is invalid.", "\"\\x..."),
            ("\"\\u00zz\"", "\"\\u\" must be followed by four hexadecimal digits.", "\"\\u00z..."),
            ("01", "Token \"01\" is invalid.", "01"),
            ("-", "Token \"-\" is invalid.", "-"),
            ("{\"a\" 1}", "Expected \":\", but found \"1\".", "{\"a\" 1..."),
            ("\"\\ud800\"", "Unicode low surrogate must follow a high surrogate.", "\"\\ud800\""),
            ("\"a\tb\"", "Character with value 0x09 must be escaped.", "\"a..."),
        ] {
            let error = tree(text).expect_err(text);
            assert_eq!(&error.told().state, b"22P02", "{text}");
            assert_eq!(error.told().detail.as_deref(), Some(detail), "{text}");
            let context = format!("JSON data, line 1: {context}");
            assert_eq!(error.told().context, Some(context), "{text}");
        }
        let zero = tree("\"\\u0000\"").expect_err("no text has it");
        assert_eq!(&zero.told().state, b"22P05");
        assert!(check("\"\\u0000\\ud800\"").is_ok(), "a json keeps escapes as they are");
        let deep = "[".repeat(DEPTH_MAX + 1);
        assert_eq!(&tree(&deep).expect_err("deep").told().state, b"54001");
        let long = format!("[\n  {}x", "1, ".repeat(40));
        let context = tree(&long).expect_err("a word").told().context.clone().expect("a place");
        assert!(context.starts_with("JSON data, line 2: ...") && context.ends_with(" 1, x"));
    }
}
