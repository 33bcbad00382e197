//! Shapes: what texts have in common that differ only in their literals.
//!
//! A client without prepared statements sends a new text for every key that it looks up. Its texts
//! have one [`Shape`]: a literal is a parameter of it wherever the statement means the same with a
//! parameter in that place. So a shape is planned once, and each of its texts runs with its own
//! literals for parameters.
//!
//! Words: a literal *varies* if it became a parameter, and is *fixed* if it stays part of the shape.
//! Fixed are literals that say what a statement is rather than what it is about: positions in ORDER BY
//! and GROUP BY, LIMIT and OFFSET (they choose between sorting and taking the first rows), patterns of
//! LIKE, arguments of functions (types of results depend on some, as on the digits of `round`),
//! modifiers of types, `INTERVAL '1 day'` and its relatives, whatever stands within brackets.
//!
//! A varying number is *typed* by its digits where an operator computes with it (`a + 1` is an integer's
//! sum whatever `a` is), and takes the type of its place where it is compared or stored, as a literal
//! does in the end.
//!
//! Invariants, checked by the tests below and by `a_shape_with_its_literals_is_its_text`:
//! 1. A shape with its literals put back has the tokens of its text.
//! 2. Two texts of one shape differ in varying literals, blanks and comments alone.
//! 3. A text that this scanner does not know its way in (dollar quotes, `E''`, parameters, two
//!    statements) has no shape.

use std::fmt::Write;
use std::ops::Range;

use halcyon_sql::types::SqlType;

/// Texts beyond these bounds have no shape: they are loads, not statements that come again.
const TEXT_BYTES_MAX: usize = 16 << 10;
const LITERALS_MAX: usize = 256;

/// Greatest width of `BETWEEN a AND b` over integers that counts as narrow: what an index range of
/// constants may have for a point plan, so that texts on either side have shapes of their own.
pub const NARROW_RANGE: i128 = 4_096;

/// Begins a varying literal in a key; no text that has a shape contains it.
const MARK: char = '\u{1}';

/// What texts have in common that differ only in literals.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The text with its blanks made one and its varying literals replaced by their kinds.
    pub key: String,
    /// The varying literals in the order of their parameters.
    pub literals: Vec<Literal>,
    /// Where parameters stand in the text: bytes of the literal, and which of `literals` it is.
    places: Vec<(Range<usize>, usize)>,
}

/// A varying literal of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// What kind of constant.
    pub kind: LiteralKind,
    /// Its bytes in the text, sign and quotes included.
    pub span: Range<usize>,
}

/// Kinds of varying literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralKind {
    /// Digits that take the type of their place.
    Integer,
    /// Digits that are of this type.
    TypedInteger(SqlType),
    /// Digits with a point that take the type of their place.
    Decimal,
    /// Digits with a point that are of this type.
    TypedDecimal(SqlType),
    /// Text in quotes, of unknown type as PostgreSQL says.
    Text,
}

impl LiteralKind {
    /// The type that the parameter has whatever its place; `None` if its place decides.
    pub fn declared(self) -> Option<SqlType> {
        match self {
            LiteralKind::TypedInteger(ty) | LiteralKind::TypedDecimal(ty) => Some(ty),
            LiteralKind::Integer | LiteralKind::Decimal | LiteralKind::Text => None,
        }
    }

    fn write(self, key: &mut String) {
        key.push(MARK);
        let written = match self {
            LiteralKind::Integer => key.write_str("n"),
            LiteralKind::TypedInteger(ty) => write!(key, "n:{ty}"),
            LiteralKind::Decimal => key.write_str("d"),
            LiteralKind::TypedDecimal(ty) => write!(key, "d:{ty}"),
            LiteralKind::Text => key.write_str("s"),
        };
        written.expect("a string takes everything");
    }
}

impl Shape {
    /// The shape of `text`, which holds one statement; `None` if it has none.
    pub fn of(text: &str) -> Option<Shape> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let scanned = Scanner::new(text, false).run()?;
        match scanned.compares_expressions {
            // What is grouped by and what is selected must be the same expression: one literal, one
            // parameter.
            true => Some(Scanner::new(text, true).run()?.shape),
            false => Some(scanned.shape),
        }
    }

    /// The text with parameters `$1`, `$2`, … for its varying literals.
    pub fn with_parameters(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (span, literal) in &self.places {
            out.push_str(&text[copied..span.start]);
            // `AND'x'` and `a-1` are two tokens, and so must be the word or operator and the parameter.
            let joins = |byte: &u8| is_word_byte(*byte) || b"<>=+-*/%".contains(byte);
            if out.as_bytes().last().is_some_and(joins) {
                out.push(' ');
            }
            write!(out, "${}", literal + 1).expect("a string takes everything");
            if text.as_bytes().get(span.end).is_some_and(|byte| is_word_byte(*byte)) {
                out.push(' ');
            }
            copied = span.end;
        }
        out.push_str(&text[copied..]);
        out
    }

    /// The types of its parameters as far as literals say.
    pub fn declared(&self) -> Vec<Option<SqlType>> {
        self.literals.iter().map(|literal| literal.kind.declared()).collect()
    }
}

impl Literal {
    /// The text that a quoted literal stands for, in `text`; of a number its digits.
    pub fn content<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        let written = &text[self.span.clone()];
        match self.kind {
            LiteralKind::Text => {
                let inner = &written[1..written.len() - 1];
                match inner.contains('\'') {
                    true => inner.replace("''", "'").into(),
                    false => inner.into(),
                }
            }
            _ => written.into(),
        }
    }
}

/// The token before, as far as the meaning of a literal depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Nothing.
    Start,
    /// A word behind which an expression begins.
    Expression,
    /// AND, which may be the second word of BETWEEN.
    And,
    /// VALUES.
    Values,
    /// IN.
    In,
    /// The name of a type.
    Type,
    /// Any other word: a name, a function, a word behind which literals are fixed.
    Name,
    /// `=`, `<`, `>` and their combinations.
    Comparison,
    /// `+`, `-`, `*`, `/`, `%`.
    Arithmetic,
    /// An operator that takes a member of a document: its literals say which, as a column's name does.
    Member,
    /// Any other operator.
    Operator,
    Open,
    Close,
    Comma,
    Literal,
}

/// What encloses a place: the text as a whole, or a pair of brackets.
#[derive(Clone, Copy)]
struct Level {
    /// Literals are fixed: arguments of a function, modifiers of a type, frames of windows.
    is_fixed: bool,
    /// Literals are compared or stored one by one: rows of VALUES, lists of IN.
    is_list: bool,
    /// VALUES was the last word.
    in_values: bool,
    /// Between GROUP BY, ORDER BY or PARTITION BY and the next clause.
    in_positions: bool,
    /// The lower end of a BETWEEN, if that is an integer.
    between: Option<i128>,
    /// The last word was BETWEEN, or its lower end was the last literal.
    in_between: bool,
}

impl Level {
    const OUTERMOST: Level = Level {
        is_fixed: false,
        is_list: false,
        in_values: false,
        in_positions: false,
        between: None,
        in_between: false,
    };
}

struct Scanned {
    shape: Shape,
    /// Whether expressions of the statement must equal each other.
    compares_expressions: bool,
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    shape: Shape,
    level: Level,
    enclosing: Vec<Level>,
    before: Before,
    /// Equal literals become one parameter.
    unites: bool,
    compares_expressions: bool,
    /// A blank is due before the next token of the key.
    blank: bool,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str, unites: bool) -> Self {
        let key = String::with_capacity(text.len() + 16);
        Scanner {
            text,
            at: 0,
            shape: Shape { key, literals: Vec::new(), places: Vec::new() },
            level: Level::OUTERMOST,
            enclosing: Vec::new(),
            before: Before::Start,
            unites,
            compares_expressions: false,
            blank: false,
        }
    }

    fn run(mut self) -> Option<Scanned> {
        loop {
            self.skip_blanks()?;
            let Some(byte) = self.peek(0) else { break };
            if self.before == Before::Start && !self.begins_statement() {
                return None;
            }
            match byte {
                b'\'' => self.quoted()?,
                b'0'..=b'9' => self.number(self.at)?,
                b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => {
                    self.number(self.at)?;
                }
                b'-' if self.is_sign() => self.number(self.at)?,
                b'"' => self.quoted_name()?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.word()?,
                b'(' => self.open(),
                b')' => self.close()?,
                b'[' => self.bracket(),
                b']' => self.close()?,
                b',' => self.token(1, Before::Comma),
                b'.' => self.token(1, Before::Name),
                b':' if self.peek(1) == Some(b':') => self.token(2, Before::Operator),
                b';' => {
                    self.at += 1;
                    self.skip_blanks()?;
                    if self.at < self.text.len() {
                        return None;
                    }
                }
                _ => self.operator()?,
            }
        }
        let complete = self.enclosing.is_empty() && self.before != Before::Start;
        let (shape, compares_expressions) = (self.shape, self.compares_expressions);
        complete.then_some(Scanned { shape, compares_expressions })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Goes on to the next token.
    fn skip_blanks(&mut self) -> Option<()> {
        let begin = self.at;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            match rest {
                [b' ' | b'\t' | b'\n' | b'\r' | b'\x0c', ..] => self.at += 1,
                [b'-', b'-', ..] => {
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                [b'/', b'*', ..] => self.at += comment_length(rest)?,
                _ => break,
            }
        }
        self.blank |= self.at > begin;
        Some(())
    }

    fn begins_statement(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let begins = |word: &str| {
            let (Some(start), after) = (rest.get(..word.len()), rest.get(word.len())) else {
                return false;
            };
            start.eq_ignore_ascii_case(word.as_bytes())
                && after.is_none_or(|byte| !is_word_byte(*byte))
        };
        ["SELECT", "INSERT", "UPDATE", "DELETE"].into_iter().any(begins)
    }

    /// Adds the next `length` bytes to the key as they are.
    fn token(&mut self, length: usize, kind: Before) {
        self.separate();
        self.shape.key.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
        self.before = kind;
    }

    fn separate(&mut self) {
        if std::mem::take(&mut self.blank) && !self.shape.key.is_empty() {
            self.shape.key.push(' ');
        }
    }

    fn word(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(rest.len());
        let word = &self.text[self.at..self.at + length];
        // E'', B'', X'', N'', U&'': strings of their own rules.
        if length <= 2 && matches!(rest.get(length), Some(b'\'' | b'&')) {
            return None;
        }
        let kind = self.take_in(word);
        self.token(length, kind);
        Some(())
    }

    /// What a word says of what follows.
    fn take_in(&mut self, word: &str) -> Before {
        let mut upper = [0; 12];
        let Some(upper) = upper.get_mut(..word.len()) else { return Before::Name };
        upper.copy_from_slice(word.as_bytes());
        upper.make_ascii_uppercase();
        let level = &mut self.level;
        level.in_values = false;
        match &*upper {
            b"AND" => {
                level.in_between &= self.before == Before::Literal;
                return Before::And;
            }
            b"BETWEEN" => {
                (level.in_between, level.between) = (true, None);
                return Before::Expression;
            }
            _ => level.in_between = false,
        }
        match &*upper {
            b"SELECT" => {
                *level = Level { is_fixed: false, is_list: false, ..*level };
                level.in_positions = false;
                Before::Expression
            }
            b"BY" => {
                level.in_positions = true;
                self.compares_expressions = true;
                Before::Name
            }
            b"DISTINCT" | b"HAVING" => {
                self.compares_expressions = true;
                level.in_positions = false;
                Before::Expression
            }
            b"WHERE" | b"ON" | b"RETURNING" | b"SET" => {
                level.in_positions = false;
                Before::Expression
            }
            b"LIMIT" | b"OFFSET" | b"FETCH" | b"FOR" | b"UNION" | b"EXCEPT" | b"INTERSECT"
            | b"WINDOW" => {
                level.in_positions = false;
                Before::Name
            }
            b"VALUES" => {
                level.in_values = true;
                Before::Values
            }
            b"IN" => Before::In,
            b"OR" | b"NOT" | b"WHEN" | b"THEN" | b"ELSE" | b"CASE" | b"ALL" | b"ANY" | b"SOME"
            | b"EXISTS" => Before::Expression,
            b"AS" | b"FROM" | b"JOIN" | b"USING" | b"LATERAL" | b"CAST" => Before::Operator,
            b"NUMERIC" | b"DECIMAL" | b"DEC" | b"VARCHAR" | b"CHAR" | b"CHARACTER" | b"VARYING"
            | b"BIT" | b"FLOAT" | b"TIME" | b"TIMESTAMP" | b"TIMESTAMPTZ" | b"INTERVAL"
            | b"BPCHAR" => Before::Type,
            _ => Before::Name,
        }
    }

    fn open(&mut self) {
        let inherits = self.level.is_fixed || self.level.in_positions;
        let (is_fixed, is_list) = match self.before {
            // A call, the columns of an INSERT, or a word that this scanner has no notion of.
            Before::Name | Before::Type | Before::Close => (true, false),
            Before::In | Before::Values => (inherits, true),
            Before::Comma if self.level.in_values => (inherits, true),
            _ => (inherits, self.level.is_list),
        };
        self.enclosing.push(self.level);
        self.level = Level { is_fixed, is_list, ..Level::OUTERMOST };
        self.token(1, Before::Open);
    }

    fn bracket(&mut self) {
        self.enclosing.push(self.level);
        self.level = Level { is_fixed: true, ..Level::OUTERMOST };
        self.token(1, Before::Open);
    }

    fn close(&mut self) -> Option<()> {
        self.level = self.enclosing.pop()?;
        self.token(1, Before::Close);
        Some(())
    }

    fn operator(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = match rest {
            [b'<', b'=' | b'>', ..] | [b'>', b'=', ..] | [b'!', b'=', ..] => 2,
            _ => 1,
        };
        let begins_comment = |at: usize| matches!(&rest[at..], [b'/', b'*', ..] | [b'-', b'-', ..]);
        let continues =
            |(at, byte): &(usize, &u8)| b"<>=+-*/%~!@#^&|?".contains(byte) && !begins_comment(*at);
        let run = rest.iter().enumerate().take_while(continues).count();
        if begins_comment(run.min(rest.len())) {
            return None;
        }
        let other = rest[..run].iter().any(|byte| b"~!@#^&|?".contains(byte))
            || rest.starts_with(b"->")
            || rest.starts_with(b"=>");
        if other && !(length == 2 && run == 2) {
            let takes_member = matches!(rest, [b'-', b'>', ..] | [b'#', ..]);
            self.token(run, if takes_member { Before::Member } else { Before::Operator });
            return Some(());
        }
        // `<>-1`: where one operator ends is for the parser to say.
        if length == 2 && run > 2 {
            return None;
        }
        let kind = match rest[0] {
            b'<' | b'=' | b'>' | b'!'
                if matches!((rest[0], rest.get(1)), (b'<', Some(b'<')) | (b'>', Some(b'>'))) =>
            {
                return None;
            }
            b'<' | b'=' | b'>' | b'!' => Before::Comparison,
            b'+' | b'-' | b'*' | b'/' | b'%' => Before::Arithmetic,
            // Parameters, dollar quotes, slices, braces, control characters.
            _ => return None,
        };
        self.token(length, kind);
        Some(())
    }

    fn quoted_name(&mut self) -> Option<()> {
        let length = quoted_length(&self.text.as_bytes()[self.at..], b'"')?;
        if self.text[self.at..self.at + length].contains(MARK) {
            return None;
        }
        self.token(length, Before::Name);
        Some(())
    }

    fn quoted(&mut self) -> Option<()> {
        let length = quoted_length(&self.text.as_bytes()[self.at..], b'\'')?;
        let content = &self.text[self.at..self.at + length];
        if self.before == Before::Literal || content.contains(MARK) {
            return None;
        }
        let is_fixed =
            self.is_fixed() || matches!(self.before, Before::Arithmetic | Before::Member);
        let span = self.at..self.at + length;
        self.at = span.end;
        let next = self.next_byte();
        self.at = span.start;
        let computes = next.is_some_and(|byte| b"+-*/%|~^#&@".contains(&byte));
        match is_fixed || computes {
            true => self.token(length, Before::Literal),
            false => self.vary(LiteralKind::Text, span),
        }
        Some(())
    }

    /// Whether a minus here is the sign of the number behind it.
    fn is_sign(&self) -> bool {
        let number = match self.peek(1) {
            Some(b'.') => self.peek(2).is_some_and(|byte| byte.is_ascii_digit()),
            next => next.is_some_and(|byte| byte.is_ascii_digit()),
        };
        number
            && matches!(
                self.before,
                Before::Expression
                    | Before::And
                    | Before::Comparison
                    | Before::Arithmetic
                    | Before::Open
                    | Before::Comma
            )
    }

    fn number(&mut self, start: usize) -> Option<()> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let first = start + usize::from(bytes[start] == b'-');
        let mut end = digits(first);
        let mut has_point = false;
        if bytes.get(end) == Some(&b'.') {
            has_point = true;
            end = digits(end + 1);
        }
        let has_exponent = matches!(bytes.get(end), Some(b'e' | b'E'));
        if has_exponent {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let after = digits(end + 1 + sign);
            if after == end + 1 + sign {
                return None;
            }
            end = after;
        }
        // `1a`, `1_000`, `1.2.3`, `0x1f`: let the parser say what they are.
        if bytes.get(end).is_some_and(|byte| is_word_byte(*byte) || *byte == b'.')
            || self.before == Before::Literal
        {
            return None;
        }
        let span = start..end;
        let kind = match has_exponent {
            true => None,
            false => self.kind_of_number(&span, has_point),
        };
        match kind {
            Some(kind) => self.vary(kind, span),
            None => {
                self.level.in_between = false;
                self.token(end - start, Before::Literal);
            }
        }
        Some(())
    }

    /// How a number varies; `None` if it is fixed.
    fn kind_of_number(&mut self, span: &Range<usize>, has_point: bool) -> Option<LiteralKind> {
        if self.is_fixed() {
            return None;
        }
        let at = std::mem::replace(&mut self.at, span.end);
        let next = (self.next_byte(), self.peek_after_blanks(1));
        self.at = at;
        let (next, second) = next;
        if next == Some(b':')
            || next.is_some_and(|byte| b"~!@#^&|?[".contains(&byte)) && second != Some(b'=')
        {
            return None;
        }
        let digits = &self.text[span.clone()];
        let is_computed =
            self.before == Before::Arithmetic || next.is_some_and(|byte| b"+-*/%".contains(&byte));
        let is_compared = matches!(self.before, Before::Comparison | Before::And)
            || self.level.in_between
            || next.is_some_and(|byte| b"=<>!".contains(&byte))
            || self.level.is_list;
        if is_compared && !is_computed {
            let kind = if has_point { LiteralKind::Decimal } else { LiteralKind::Integer };
            return Some(kind);
        }
        match has_point {
            true => decimal_type(digits).map(LiteralKind::TypedDecimal),
            false => {
                let value: i64 = digits.parse().ok()?;
                // The sign is an operator of its own to PostgreSQL: -2147483648 is a BIGINT.
                let ty = match i32::try_from(value.unsigned_abs()) {
                    Ok(_) => SqlType::Integer,
                    Err(_) => SqlType::BigInt,
                };
                Some(LiteralKind::TypedInteger(ty))
            }
        }
    }

    /// Whether literals of this place say what the statement is.
    fn is_fixed(&self) -> bool {
        self.level.is_fixed
            || self.level.in_positions
            || self.shape.literals.len() >= LITERALS_MAX
            || matches!(
                self.before,
                Before::Name | Before::Type | Before::Operator | Before::Close | Before::Start
            )
    }

    /// The first byte of the next token.
    fn next_byte(&self) -> Option<u8> {
        self.peek_after_blanks(0)
    }

    fn peek_after_blanks(&self, ahead: usize) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        rest.get(blanks + ahead).copied()
    }

    fn vary(&mut self, kind: LiteralKind, span: Range<usize>) {
        let literal = Literal { kind, span: span.clone() };
        let same = |known: &Literal| {
            known.kind == kind && self.text[known.span.clone()] == self.text[span.clone()]
        };
        let known = match self.unites {
            true => self.shape.literals.iter().position(same),
            false => None,
        };
        self.separate();
        kind.write(&mut self.shape.key);
        if let Some(known) = known {
            write!(self.shape.key, "={known}").expect("a string takes everything");
        }
        if self.level.in_between {
            self.between(kind, &span);
        }
        let at = known.unwrap_or_else(|| {
            self.shape.literals.push(literal);
            self.shape.literals.len() - 1
        });
        self.shape.places.push((span.clone(), at));
        self.at = span.end;
        self.before = Before::Literal;
    }

    /// Notes an end of a BETWEEN; behind the upper one, whether the range is narrow.
    fn between(&mut self, kind: LiteralKind, span: &Range<usize>) {
        let value: Option<i128> = match kind {
            LiteralKind::Integer => self.text[span.clone()].parse().ok(),
            _ => None,
        };
        if self.before != Before::And {
            self.level.between = value;
            return;
        }
        self.level.in_between = false;
        if let (Some(low), Some(high)) = (self.level.between.take(), value) {
            self.shape.key.push(if high - low > NARROW_RANGE { 'w' } else { 'r' });
        }
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Bytes of a comment that `rest` begins with; `None` if it does not end.
fn comment_length(rest: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        match rest.get(at..at + 2)? {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

/// Bytes of a quoted token that `rest` begins with, in which a doubled quote stands for one; `None`
/// if it does not end.
fn quoted_length(rest: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        at += rest.get(at..)?.iter().position(|byte| *byte == quote)? + 1;
        if rest.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// The type that digits with a point have by themselves.
fn decimal_type(digits: &str) -> Option<SqlType> {
    let unsigned = digits.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.')?;
    let scale = fraction.len();
    let significant = match whole.trim_start_matches('0') {
        "" => fraction.trim_start_matches('0').len(),
        whole => whole.len() + scale,
    };
    let precision = significant.max(scale).max(1);
    (precision <= 38).then_some(SqlType::Decimal { precision: precision as u8, scale: scale as i8 })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
    use halcyon_base::rng::Rng;

    use super::*;

    fn shown(text: &str) -> String {
        match Shape::of(text) {
            Some(shape) => shape.with_parameters(text),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn literals_of_values_vary_and_others_are_fixed() {
        for (text, parameters) in [
            ("SELECT * FROM t WHERE id = 5", "SELECT * FROM t WHERE id = $1"),
            ("SELECT * FROM t WHERE id=-5;", "SELECT * FROM t WHERE id= $1;"),
            (
                "select a-5 from t where b = 'it''s' and c <> .5",
                "select a- $1 from t where b = $2 and c <> $3",
            ),
            (
                "UPDATE t SET a = a + 1, b = 'x' WHERE id = 3",
                "UPDATE t SET a = a + $1, b = $2 WHERE id = $3",
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, 'x'), (-2, NULL)",
                "INSERT INTO t (a, b) VALUES ($1, $2), ($3, NULL)",
            ),
            (
                "DELETE FROM t WHERE a IN (1, 2) AND b BETWEEN 3 AND 4",
                "DELETE FROM t WHERE a IN ($1, $2) AND b BETWEEN $3 AND $4",
            ),
            (
                "SELECT a FROM t WHERE a = 1 ORDER BY 1 LIMIT 10 OFFSET 5",
                "SELECT a FROM t WHERE a = $1 ORDER BY 1 LIMIT 10 OFFSET 5",
            ),
            (
                "SELECT round(a, 2) FROM t WHERE a LIKE 'x%'",
                "SELECT round(a, 2) FROM t WHERE a LIKE 'x%'",
            ),
            (
                "SELECT a::numeric(10, 2) FROM t WHERE d > DATE '2020-01-01'",
                "SELECT a::numeric(10, 2) FROM t WHERE d > DATE '2020-01-01'",
            ),
            (
                "SELECT a FROM t WHERE f((SELECT 1 FROM u WHERE x = 2)) = 3",
                "SELECT a FROM t WHERE f((SELECT $1 FROM u WHERE x = $2)) = $3",
            ),
            (
                "SELECT a + 1, a + 2 FROM t GROUP BY a + 1, 2",
                "SELECT a + $1, a + $2 FROM t GROUP BY a + 1, 2",
            ),
            (
                "SELECT a /* 5 */ FROM t -- 6\n WHERE a = 7",
                "SELECT a /* 5 */ FROM t -- 6\n WHERE a = $1",
            ),
            (
                "SELECT CASE WHEN a = 1 THEN 2 ELSE 3 END FROM t",
                "SELECT CASE WHEN a = $1 THEN $2 ELSE $3 END FROM t",
            ),
            (
                "SELECT a[1], ARRAY[1, 2] FROM t WHERE a = 1e3",
                "SELECT a[1], ARRAY[1, 2] FROM t WHERE a = 1e3",
            ),
            (
                "SELECT 1 FROM t WHERE j -> 'a' = 'b' AND x || 'c' = 'd'",
                "SELECT $1 FROM t WHERE j -> 'a' = $2 AND x || 'c' = $3",
            ),
        ] {
            assert_eq!(shown(text), parameters);
        }
    }

    #[test]
    fn what_the_scanner_does_not_know_has_no_shape() {
        for text in [
            "",
            "BEGIN",
            "SELECTED",
            "EXPLAIN SELECT 1",
            "SELECT $1",
            "SELECT $$a$$",
            "SELECT E'a'",
            "SELECT U&'a'",
            "SELECT 1; SELECT 2",
            "SELECT 'a",
            "SELECT (1",
            "SELECT 1)",
            "SELECT /* 1",
            "SELECT 1_000",
            "SELECT 0x1f",
            "SELECT 'a' 'b'",
            "SELECT a[1:2]",
            "SELECT \"a\u{1}\"",
            "SELECT '\u{1}'",
            "SELECT 1 << 2",
        ] {
            assert_eq!(Shape::of(text), None, "{text}");
        }
    }

    #[test]
    fn one_shape_has_one_key() {
        let key = |text: &str| Shape::of(text).expect("a shape").key;
        let base = key("SELECT a FROM t WHERE id = 5");
        for same in
            ["SELECT a FROM t WHERE id = -123456789012", " SELECT\ta  FROM t WHERE id = 7 ; "]
        {
            assert_eq!(key(same), base);
        }
        for other in [
            "SELECT a FROM t WHERE id = 5.5",
            "SELECT a FROM t WHERE id = '5'",
            "SELECT b FROM t WHERE id = 5",
            "SELECT a FROM t WHERE id > 5",
            "SELECT a FROM t WHERE id = 5 LIMIT 1",
            "SELECT a FROM t WHERE id = 5 + 1",
        ] {
            assert_ne!(key(other), base, "{other}");
        }
        assert_ne!(
            key("SELECT a + 1 FROM t"),
            key("SELECT a + 3000000000 FROM t"),
            "typed by digits"
        );
        assert_ne!(
            key("SELECT a FROM t WHERE a BETWEEN 1 AND 9"),
            key("SELECT a FROM t WHERE a BETWEEN 1 AND 90000"),
            "narrow and wide ranges"
        );
        assert_ne!(
            key("SELECT DISTINCT a + 1, b + 1 FROM t"),
            key("SELECT DISTINCT a + 1, b + 2 FROM t"),
            "equal expressions are equal in one"
        );
    }

    /// Random texts of SQL's pieces: with its literals put back, a shape has the tokens that the parser
    /// finds in its text.
    #[test]
    fn a_shape_with_its_literals_is_its_text() {
        let pieces = [
            "SELECT", "a", "\"b c\"", "1", "-1", "2.50", "'x'", "'it''s'", "=", "<>", "-", "+",
            "(", ")", ",", "IN", "VALUES", "BETWEEN", "AND", "GROUP BY", "ORDER BY", "LIMIT",
            "/* 3 */", "-- 4\n", "CASE", "END", "DATE", "round", "[", "]", "::", "numeric", "E'x'",
            "||", "->", "é", "1e5", ".", "*",
        ];
        let tokens = |text: &str| {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
            let tokens = tokens.unwrap_or_else(|error| panic!("{text:?} has no tokens: {error}"));
            tokens
                .into_iter()
                .filter(|token| !matches!(token, Token::Whitespace(_)))
                .collect::<Vec<_>>()
        };
        let mut rng = Rng::new(11);
        let mut shapes = 0;
        for _ in 0..40_000 {
            let mut text = "SELECT ".to_owned();
            for _ in 0..1 + rng.below(12) {
                text.push_str(rng.pick::<&str>(&pieces));
                text.push_str(rng.pick::<&str>(&["", " ", " "]));
            }
            let Some(shape) = Shape::of(&text) else { continue };
            shapes += usize::from(!shape.literals.is_empty());
            let mut whole = shape.with_parameters(&text);
            for (at, literal) in shape.literals.iter().enumerate().rev() {
                whole = whole.replace(&format!("${}", at + 1), &text[literal.span.clone()]);
            }
            assert_eq!(tokens(&whole), tokens(&text), "{:?}", shape.with_parameters(&text));
        }
        assert!(shapes > 1_000, "{shapes}");
    }
}
