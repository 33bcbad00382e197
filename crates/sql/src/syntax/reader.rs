//! The tokens of one statement, read from the left: by our grammar word by word, by the SQL parser
//! where a query, an expression, a type or a whole statement of its own begins.
//!
//! Both read the same list of tokens and share one place in it, so nothing is tokenized or parsed
//! twice, and every position refers to the statement's own text.

use std::hash::Hash;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, VisitMut};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use super::depth::{balanced, caught, walkable};
use super::errors::{Lines, from_parser, near};
use super::spellings;
pub(crate) use super::words::is_word;
use crate::error::{Result, SqlError, SqlState};
use crate::postgresql::{Postgresql, with_parentheses};

/// One statement and the place up to which it has been read.
pub(crate) struct Reader<'a> {
    /// The statement's own text.
    text: &'a str,
    /// The statement's tokens, blanks included; their spans refer to the text that it is part of.
    tokens: &'a [TokenWithSpan],
    /// How many of `tokens` the SQL parser was not given: it begins behind them.
    skipped: usize,
    /// Where the parser was given a parenthesis that is not among `tokens`.
    inserted: Vec<usize>,
    /// Holds the place. Its spans refer to `text`.
    parser: Parser<'static>,
}

impl<'a> Reader<'a> {
    /// Panics: if there are no tokens.
    pub fn new(text: &'a str, tokens: &'a [TokenWithSpan]) -> Self {
        assert!(!tokens.is_empty(), "a statement has tokens");
        let parser = parser(tokens, tokens[0].span.start);
        Reader { text, tokens, skipped: 0, inserted: Vec::new(), parser }
    }

    // ---------------------------------------------------------------- looking ahead

    /// The tokens that have not been read, without blanks.
    pub fn ahead(&self) -> impl Iterator<Item = &'a Token> + use<'a> {
        let tokens = self.tokens[self.place()..].iter().map(|token| &token.token);
        tokens.filter(|token| !matches!(token, Token::Whitespace(_)))
    }

    /// How many of `tokens` have been read.
    fn place(&self) -> usize {
        // The parser tells the token it read last, and the same when it has read none.
        let last = self.parser.get_current_index();
        let next = self.parser.peek_token_no_skip().span.start;
        let begins = self.skipped == 0 && next == Location { line: 1, column: 1 };
        let inserted = self.inserted.iter().filter(|place| **place <= last).count();
        if begins { 0 } else { (self.skipped + last + 1 - inserted).min(self.tokens.len()) }
    }

    /// Whether the next token is this word, in any case but without quotes.
    pub fn is(&self, word: &str) -> bool {
        is_word(&self.parser.peek_token_ref().token, word)
    }

    /// Reads the next token, whatever it is.
    pub fn skip(&mut self) {
        self.parser.advance_token();
    }

    /// Whether everything has been read.
    pub fn is_at_end(&self) -> bool {
        is_at_end(&self.parser)
    }

    /// The text that has not been read.
    pub fn rest(&self) -> &'a str {
        let next = self.parser.peek_token_ref();
        match next.token {
            Token::SemiColon | Token::EOF => "",
            _ => &self.text[Lines::of(self.text).place(next.span.start).0..],
        }
    }

    // ---------------------------------------------------------------- our grammar

    /// Reads these words if they are the next ones; else reads nothing.
    pub fn eats(&mut self, words: &str) -> bool {
        let mut ahead = self.ahead();
        if !words.split(' ').all(|word| ahead.next().is_some_and(|token| is_word(token, word))) {
            return false;
        }
        words.split(' ').for_each(|_| self.parser.advance_token());
        true
    }

    /// Reads these words. Errors: 42601 unless they are next.
    pub fn expect(&mut self, words: &str) -> Result<()> {
        for word in words.split(' ') {
            if !self.eats(word) {
                return Err(self.unexpected(word));
            }
        }
        Ok(())
    }

    /// Reads one of these words and tells which. Errors: 42601 unless one of them is next.
    pub fn expect_one_of(&mut self, words: &[&'static str]) -> Result<&'static str> {
        match words.iter().find(|word| self.eats(word)) {
            Some(word) => Ok(word),
            None => Err(self.unexpected(&words.join(", "))),
        }
    }

    /// Reads a token if it is the next one.
    pub fn eats_token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    /// Reads a token. Errors: 42601 unless it is next.
    pub fn expect_token(&mut self, token: &Token) -> Result<()> {
        match self.eats_token(token) {
            true => Ok(()),
            false => Err(self.unexpected(&token.to_string())),
        }
    }

    /// Errors: 42601 unless everything has been read.
    pub fn expect_end(&self) -> Result<()> {
        match self.is_at_end() {
            true => Ok(()),
            false => Err(self.unexpected("end of statement")),
        }
    }

    /// 42601: the next token is not what must stand here.
    pub fn unexpected(&self, expected: &str) -> SqlError {
        near(self.parser.peek_token_ref(), expected, self.text)
    }

    /// Reads IF EXISTS, if it is there.
    pub fn if_exists(&mut self) -> bool {
        self.eats("IF EXISTS")
    }

    // ---------------------------------------------------------------- names and constants

    /// Reads a name with or without a schema.
    pub fn name(&mut self) -> Result<ObjectName> {
        self.sql(|parser| parser.parse_object_name(false))
    }

    /// Reads a name without a schema.
    pub fn ident(&mut self) -> Result<Ident> {
        self.sql(Parser::parse_identifier)
    }

    /// Reads names without schemas, with commas between them.
    pub fn idents(&mut self) -> Result<Vec<Ident>> {
        let mut idents = vec![self.ident()?];
        while self.eats_token(&Token::Comma) {
            idents.push(self.ident()?);
        }
        Ok(idents)
    }

    /// Whether a text comes next that [`Reader::string`] reads.
    pub fn is_at_text(&self) -> bool {
        let next = &self.parser.peek_token_ref().token;
        matches!(next, Token::SingleQuotedString(_) | Token::DollarQuotedString(_))
    }

    /// Reads a text in quotes, or between dollars.
    pub fn string(&mut self) -> Result<String> {
        let text = match &self.parser.peek_token_ref().token {
            Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::UnicodeStringLiteral(text) => text.clone(),
            Token::DollarQuotedString(text) => text.value.clone(),
            _ => return Err(self.unexpected("a text in quotes")),
        };
        self.parser.advance_token();
        Ok(text)
    }

    /// Reads a number of digits alone. Errors: 42601, 22003.
    pub fn unsigned(&mut self) -> Result<u64> {
        self.integer("")
    }

    /// Reads a whole number that may have a sign. Errors: 42601, 22003.
    pub fn signed(&mut self) -> Result<i64> {
        let negative = self.eats_token(&Token::Minus);
        let _ = !negative && self.eats_token(&Token::Plus);
        self.integer(if negative { "-" } else { "" })
    }

    /// Whether a number comes next that [`Reader::signed`] reads.
    pub fn is_at_number(&self) -> bool {
        let next = &self.parser.peek_token_ref().token;
        matches!(next, Token::Number(..) | Token::Minus | Token::Plus)
    }

    fn integer<N: std::str::FromStr>(&mut self, sign: &str) -> Result<N> {
        let next = self.parser.peek_token_ref();
        let Token::Number(digits, _) = &next.token else {
            return Err(self.unexpected("a whole number"));
        };
        if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(self.unexpected("a whole number"));
        }
        let text = format!("{sign}{digits}");
        let Ok(number) = text.parse() else {
            let message = format!("value \"{text}\" is out of range for type bigint");
            let error = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
            return Err(super::errors::at(error, Some(next.span.start), self.text));
        };
        self.parser.advance_token();
        Ok(number)
    }

    // ---------------------------------------------------------------- the SQL parser's grammar

    /// Lets the SQL parser read on from here.
    ///
    /// Errors: 54001 if what it reads is too deep, 57014.
    pub fn sql<T: Hash>(
        &mut self,
        read: impl Fn(&mut Parser<'static>) -> SqlResult<T>,
    ) -> Result<T> {
        let (parser, text) = (&mut self.parser, self.text);
        caught(|| read(parser).map_err(|error| from_parser(error, text))).and_then(walkable)
    }

    /// Lets the SQL parser read something from here that may have joins.
    ///
    /// The parser does not know joins whose conditions come late, so what it refuses is read a second
    /// time with parentheses around such joins, if there are any ([`with_parentheses`]). This is the
    /// only place where anything is tried twice. The error is that of the first time.
    ///
    /// Chains of AND and OR are balanced. Errors: 54001 if what it reads is too deep, 57014.
    pub fn sql_with_joins<T: VisitMut + Hash>(
        &mut self,
        read: impl Fn(&mut Parser<'static>) -> SqlResult<T>,
    ) -> Result<T> {
        let begin = self.place();
        let found = caught(|| match read(&mut self.parser) {
            Ok(found) => Ok(found),
            Err(error) => match self.with_late_conditions(begin, read) {
                Some(found) => Ok(found),
                None => Err(from_parser(error, self.text)),
            },
        })?;
        balanced(found).and_then(walkable)
    }

    fn with_late_conditions<T>(
        &mut self,
        begin: usize,
        read: impl Fn(&mut Parser<'static>) -> SqlResult<T>,
    ) -> Option<T> {
        let (tokens, inserted) = with_parentheses(&self.tokens[begin..])?;
        let mut parser = parser(&tokens, self.tokens[0].span.start);
        let found = read(&mut parser).ok()?;
        (self.parser, self.skipped, self.inserted) = (parser, begin, inserted);
        Some(found)
    }
}

/// What a method of the SQL parser gives.
pub(crate) type SqlResult<T> = std::result::Result<T, ParserError>;

/// For methods that read to the end: whether they did.
pub(crate) fn is_at_end(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF)
}

fn parser(tokens: &[TokenWithSpan], origin: Location) -> Parser<'static> {
    let own = |token: &TokenWithSpan| {
        TokenWithSpan::new(token.token.clone(), relative(token.span, origin))
    };
    // COPY … FROM STDIN is parsed with the data that would follow; there is none.
    let end = TokenWithSpan::wrap(Token::SemiColon);
    let tokens = spellings::known_to_the_parser(tokens.iter().map(own).chain([end]).collect());
    // The parser counts levels too, but where it tries two ways of reading it takes its own refusal for a
    // sign that the first way is wrong, and ends with a syntax error. `crate::stack::go_on` bounds it.
    Parser::new(&Postgresql).with_recursion_limit(usize::MAX).with_tokens_with_locations(tokens)
}

/// A span as seen from a place before it.
fn relative(span: Span, origin: Location) -> Span {
    let shift = |place: Location| Location {
        line: place.line.saturating_sub(origin.line) + 1,
        column: if place.line == origin.line {
            place.column.saturating_sub(origin.column) + 1
        } else {
            place.column
        },
    };
    Span { start: shift(span.start), end: shift(span.end) }
}
