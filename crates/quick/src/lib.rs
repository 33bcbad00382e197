//! Everyday texts read in one pass: look-ups, simple writes and joins, as programs send them.
//!
//! The SQL parser takes some forty microseconds for such a text: it makes tokens with blanks and comments
//! among them, copies them, tries ways of reading one after the other, and walks its trees to see how
//! deep these are. The grammar here has no two ways of reading anything, no comments and no depth: what it
//! reads it reads from left to right, and what it does not know it leaves to the SQL parser. It gives the
//! trees of the SQL parser, so that everything behind it knows one kind of tree.
//!
//! A word is taken for a name only if it is no keyword of the SQL parser's, or one of [`names`].
//!
//! Invariants, checked wherever tests parse a text (`sql/src/parse.rs`), and by `sql/tests/everyday.rs`:
//! 1. What is read here is what the SQL parser reads, places in the text included.
//! 2. No error comes from here: a text that has one is left to the SQL parser.
//!
//! Cost: two to five microseconds for a look-up or a write by key (2026-11-23, shared virtual machine, this
//! crate optimised and the rest not), an allocation or two for each name and each expression. Trees have at
//! most [`NESTING_MAX`] brackets and [`CHAIN_MAX`] operators in a row, so that nothing that walks them needs to
//! ask for stack.
#![forbid(unsafe_code)]

mod exprs;
pub mod frames;
pub mod plain_words;
mod statements;
mod tokens;

use std::ops::Range;

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Span;

use tokens::{Kind, Lexeme};

/// Longer texts are left to the SQL parser, without a look.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Brackets that may stand around a place.
pub const NESTING_MAX: usize = 8;
/// Operators of one kind that may stand in a row.
pub const CHAIN_MAX: usize = 32;

/// The keywords that are taken for names.
pub fn names() -> &'static [Keyword] {
    exprs::NAMES
}

/// The statement in a text, and where in the text it stands; `None` if the text is not of every day.
pub fn statement(text: &str) -> Option<(Statement, Range<usize>)> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let start = text.len() - text.trim_start_matches([' ', '\t', '\n']).len();
    let tokens = tokens::tokens(&text[start..])?;
    let mut reader = Reader { tokens: &tokens, at: 0, nesting: 0 };
    let statement = reader.statement()?;
    let end = start + tokens[reader.at - 1].end;
    reader.eats(";");
    (reader.at == tokens.len()).then_some((statement, start..end))
}

/// A place among the tokens of a text. Its methods read something and give `None` where it does not stand.
struct Reader<'t> {
    tokens: &'t [Lexeme<'t>],
    at: usize,
    /// Brackets around the place.
    nesting: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self, ahead: usize) -> Option<&'t Kind<'t>> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn next(&mut self) -> Option<&'t Lexeme<'t>> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    /// The place of the token that was read last.
    fn last(&self) -> Span {
        self.tokens[self.at - 1].span
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(0), Some(Kind::Symbol(found)) if *found == symbol)
    }

    /// Reads a symbol if it is the next token.
    fn eats(&mut self, symbol: &str) -> bool {
        let eats = self.is(symbol);
        self.at += usize::from(eats);
        eats
    }

    fn symbol(&mut self, symbol: &str) -> Option<()> {
        self.eats(symbol).then_some(())
    }

    /// The keyword that the next token is.
    fn keyword(&self) -> Keyword {
        match self.peek(0) {
            Some(Kind::Word(_, keyword)) => *keyword,
            _ => Keyword::NoKeyword,
        }
    }

    /// Reads keywords if they are the next tokens; else reads nothing.
    fn eats_words(&mut self, words: &[Keyword]) -> bool {
        let is = |(ahead, word): (usize, &Keyword)| matches!(self.peek(ahead), Some(Kind::Word(_, found)) if found == word);
        let eats = words.iter().enumerate().all(is);
        self.at += if eats { words.len() } else { 0 };
        eats
    }

    fn eats_word(&mut self, word: Keyword) -> bool {
        self.eats_words(&[word])
    }

    fn word(&mut self, word: Keyword) -> Option<()> {
        self.eats_word(word).then_some(())
    }

    /// Reads one thing or several with commas between them.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.eats(",") {
            all.push(one(self)?);
        }
        Some(all)
    }

    /// Reads something in brackets, one level deeper.
    fn within<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.symbol("(")?;
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return None;
        }
        let found = inner(self)?;
        self.nesting -= 1;
        self.symbol(")")?;
        Some(found)
    }
}
