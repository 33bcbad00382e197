//! Options of the sequences of identities in CREATE TABLE, which the SQL parser wants in one order and without
//! a name.

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_word;

/// The beginning of the character set of a column that stands for the name of its identity's sequence.
const NAMED: &str = "\u{1}sequence";

/// The name that [`in_order`] put into the character set of a column.
pub fn named_sequence(character_set: &ObjectName) -> Option<ObjectName> {
    let ([ObjectNamePart::Identifier(first)], name) = character_set.0.split_at_checked(1)? else {
        return None;
    };
    (first.value == NAMED).then(|| ObjectName(name.to_vec()))
}

/// The options behind IDENTITY at `words[at]`, in the order in which the SQL parser knows them: the last
/// of their words and the text that takes their place. A name of the sequence becomes the column's
/// character set. `None`: they are no options, and the SQL parser tells what is wrong.
pub(super) fn in_order(
    tokens: &[TokenWithSpan],
    words: &[usize],
    at: usize,
) -> Option<(usize, String)> {
    let mut options = Options { tokens, words, at: at + 1 };
    options.expect(&Token::LParen)?;
    let mut slots: [Option<String>; 6] = [const { None }; 6];
    let mut name = None;
    while options.expect(&Token::RParen).is_none() {
        if options.eats("SEQUENCE") {
            let (true, None) = (options.eats("NAME"), &name) else { return None };
            name = Some(options.name()?);
            continue;
        }
        let (slot, text) = options.option()?;
        if slots[slot].replace(text).is_some() {
            return None;
        }
    }
    let slots: Vec<String> = slots.into_iter().flatten().collect();
    let mut text = format!("IDENTITY ({})", slots.join(" "));
    if let Some(name) = name {
        text.push_str(&format!(" CHARACTER SET \"{NAMED}\".{name}"));
    }
    Some((options.at - 1, text))
}

/// Words of options that have not been read.
struct Options<'a> {
    tokens: &'a [TokenWithSpan],
    words: &'a [usize],
    at: usize,
}

impl<'a> Options<'a> {
    fn next(&self) -> Option<&'a Token> {
        self.words.get(self.at).map(|at| &self.tokens[*at].token)
    }

    fn expect(&mut self, token: &Token) -> Option<()> {
        (self.next()? == token).then(|| self.at += 1)
    }

    fn eats(&mut self, word: &str) -> bool {
        let found = self.next().is_some_and(|token| is_word(token, word));
        self.at += usize::from(found);
        found
    }

    /// Place of an option among those of the SQL parser, and its text.
    fn option(&mut self) -> Option<(usize, String)> {
        let no = self.eats("NO");
        let bounds = [(1, "MINVALUE"), (2, "MAXVALUE")];
        if let Some((slot, word)) = bounds.into_iter().find(|(_, word)| self.eats(word)) {
            let text = if no { format!("NO {word}") } else { format!("{word} {}", self.number()?) };
            return Some((slot, text));
        }
        if self.eats("CYCLE") {
            return Some((5, if no { "NO CYCLE" } else { "CYCLE" }.to_owned()));
        }
        if no {
            return None;
        }
        if self.eats("INCREMENT") {
            self.eats("BY");
            return Some((0, format!("INCREMENT BY {}", self.number()?)));
        }
        if self.eats("START") {
            self.eats("WITH");
            return Some((3, format!("START WITH {}", self.number()?)));
        }
        match self.eats("CACHE") {
            true => Some((4, format!("CACHE {}", self.number()?))),
            false => None,
        }
    }

    fn number(&mut self) -> Option<String> {
        let sign = match self.expect(&Token::Minus) {
            Some(()) => "-",
            None => {
                self.expect(&Token::Plus);
                ""
            }
        };
        let Token::Number(digits, _) = self.next()? else { return None };
        self.at += 1;
        Some(format!("{sign}{digits}"))
    }

    fn name(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let Token::Word(word) = self.next()? else { return None };
            text.push_str(&word.to_string());
            self.at += 1;
            if self.expect(&Token::Period).is_none() {
                return Some(text);
            }
            text.push('.');
        }
    }
}
