//! Everyday texts read in one pass: look-ups, simple writes and joins, as programs send them.
//!
//! The SQL parser takes some forty microseconds for such a text: it makes tokens with blanks and comments
//! among them, copies them, tries ways of reading one after the other, and walks its trees to see how
//! deep these are. The grammar here has no two ways of reading anything, no comments and no depth: what it
//! reads it reads from left to right, and what it does not know it leaves to the SQL parser. It gives the
//! trees of the SQL parser, so that everything behind it knows one kind of tree.
//!
//! A word is taken for a name only if it is no keyword of the SQL parser's, or one of `statements::NAMES`.
//!
//! Invariants, checked wherever tests parse a text (`crate::parse::parse`), and by the tests at the end:
//! 1. What is read here is what the SQL parser reads, places in the text included.
//! 2. No error comes from here: a text that has one is left to the SQL parser.
//!
//! Cost: two to five microseconds for a look-up or a write by key (2026-11-23, shared virtual machine, this
//! module optimised and the rest not), an allocation or two for each name and each expression. Trees have at most [`NESTING_MAX`] brackets and [`CHAIN_MAX`] operators in a
//! row, so that nothing that walks them needs to ask for stack.

mod exprs;
mod statements;
mod tokens;

use std::ops::Range;

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Span;

use tokens::{Kind, Lexeme};

/// Longer texts are left to the SQL parser, without a look.
const TEXT_BYTES_MAX: usize = 4096;
/// Brackets that may stand around a place.
const NESTING_MAX: usize = 8;
/// Operators of one kind that may stand in a row.
const CHAIN_MAX: usize = 32;

/// The statement in a text, and where in the text it stands; `None` if the text is not of every day.
pub(crate) fn statement(text: &str) -> Option<(Statement, Range<usize>)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_tokens;

    /// Whether a text is read here, and as the SQL parser reads it.
    fn reads(text: &str) -> bool {
        let Some((statement, place)) = statement(text) else { return false };
        let Ok(parsed) = parse_tokens(text) else { return false };
        let [parsed] = &parsed[..] else { return false };
        let crate::syntax::Statement::Sql(slow) = &parsed.statement else { return false };
        format!("{slow:?}") == format!("{statement:?}")
            && parsed.text == &text[place.clone()]
            && parsed.offset as usize == place.start
    }

    #[test]
    fn keywords_are_names() {
        let words = exprs::NAMES.iter().map(|word| word.to_string().to_lowercase());
        let words = words.chain(["plainly", "\"Quoted\"", "_x1$"].map(str::to_owned));
        let wrong = |word: &String| {
            let texts = NAME_TEXTS.iter().map(|text| text.replace("«»", word));
            texts.filter(|text| !reads(text)).collect::<Vec<_>>()
        };
        let wrong: Vec<String> = words.flat_map(|word| wrong(&word)).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn everyday_texts_are_read_as_the_sql_parser_reads_them() {
        for text in TEXTS {
            assert!(reads(text), "{text}");
            assert!(reads(&format!("\n  {text} ;\n")), "{text}");
            assert!(reads(&text.replace(' ', "\n\t ")), "{text}");
            if !text.starts_with("EXPLAIN") {
                assert!(reads(&format!("EXPLAIN {text}")), "{text}");
                assert!(reads(&format!("EXPLAIN (SUMMARY) {text}")), "{text}");
                assert!(reads(&format!("EXPLAIN ANALYZE {text}")), "{text}");
            }
        }
    }

    /// What is cut off or put together differently has an error, or a meaning of its own that the SQL parser
    /// knows.
    #[test]
    fn damaged_texts_are_read_alike_or_left() {
        let mut left = 0;
        for (number, text) in TEXTS.iter().enumerate() {
            let words: Vec<&str> = text.split(' ').collect();
            let other: Vec<&str> = TEXTS[(number * 7 + 3) % TEXTS.len()].split(' ').collect();
            for at in 0..words.len() {
                let mut damaged = vec![words[..at].join(" ")];
                damaged.push([&words[..at], &words[at + 1..]].concat().join(" "));
                damaged.push([&words[..at], &other[at.min(other.len())..]].concat().join(" "));
                damaged.push([&words[..=at], &words[at..]].concat().join(" "));
                for text in damaged {
                    assert!(statement(&text).is_none() || reads(&text), "{text}");
                    left += usize::from(statement(&text).is_none());
                }
            }
        }
        assert!(left > 100, "the test damages nothing");
    }

    #[test]
    fn other_texts_are_left_to_the_sql_parser() {
        for text in [
            "",
            " ",
            ";",
            "SELECT 1; SELECT 2",
            "SELECT 1 -- why",
            "SELECT /* why */ 1",
            "SELECT a FROM t WHERE b = (SELECT 1)",
            "SELECT DISTINCT a FROM t",
            "SELECT a FROM t UNION SELECT b FROM t",
            "SELECT date '2020-01-01' + interval '1 day'",
            "SELECT a[1] FROM t",
            "SELECT E'a', U&'b', x'00'",
            "SELECT 'a' 'b'",
            "SELECT a->b FROM t",
            "SELECT 1e3, 1., .5",
            "SELECT \u{e4}rger FROM t",
            "EXPLAIN (TRIGGERS) SELECT 1",
            "EXPLAIN EXPLAIN SELECT 1",
            "TABLE t",
            "CREATE TABLE t (a INT)",
        ] {
            assert!(statement(text).is_none(), "{text}");
        }
        let deep = format!("SELECT {}1{}", "(".repeat(NESTING_MAX), ")".repeat(NESTING_MAX));
        let long = |terms: usize| format!("SELECT 1{}", " + 1".repeat(terms));
        assert!(reads(&deep) && reads(&long(CHAIN_MAX)));
        assert!(statement(&deep.replace('1', "(1)")).is_none());
        assert!(statement(&long(CHAIN_MAX + 1)).is_none());
        assert!(statement(&format!("SELECT '{}'", "a".repeat(TEXT_BYTES_MAX))).is_none());
    }

    const TEXTS: &[&str] = &[
        "SELECT name, amount, price FROM item WHERE id = 7",
        "SELECT * FROM item WHERE id = $1",
        "SELECT id, name FROM item WHERE id IN ( 1 , $2, -3 ) ORDER BY id",
        "SELECT t.*, u.a AS \"A_b\" FROM t AS t, public.users u WHERE t.id = u.id AND u.b <> 'it''s'",
        "SELECT count(*), sum(a), count(DISTINCT b), now() FROM t WHERE c NOT IN ('a', 'b') OR NOT_x IS NULL",
        "SELECT a FROM t WHERE (b = 1 OR c = 2) AND d BETWEEN 1 AND 2 AND e LIKE 'x%' AND f NOT LIKE 'y'",
        "SELECT a + 1 * 2 - b / 3 % 4, -a, - 1.50, (a + b) * 2 FROM t GROUP BY a, b ORDER BY a DESC NULLS LAST, 2 ASC",
        "SELECT o_id FROM orders WHERE o_w_id = $1 ORDER BY o_id DESC LIMIT 1 OFFSET $2 FOR UPDATE",
        "SELECT a FROM t FOR SHARE",
        "SELECT a FROM t FOR NO KEY UPDATE",
        "SELECT a.b FROM a JOIN b ON a.x = b.x INNER JOIN c AS d ON d.y = a.y LEFT JOIN e ON TRUE LEFT OUTER JOIN f ON e.z > f.z",
        "SELECT 'gr\u{fc}n', $1::int8, a::text, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05', \"x\".\"y\" FROM \"s\".\"x\" WHERE true IS NOT FALSE",
        "SELECT a FROM t WHERE id = ANY ($1) AND b = ANY ($2::text) OFFSET 3",
        "INSERT INTO item VALUES (1, 'a', NULL, DEFAULT, $1, -2.5)",
        "INSERT INTO public.item AS i (id, \"name\") VALUES (1, 'a'), (2, b + 1) RETURNING id, name AS n, *",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a, b) DO UPDATE SET c = excluded.c, d = t.d + 1 WHERE t.e > 2 RETURNING t.a",
        "UPDATE item SET amount = amount + $1, name = DEFAULT WHERE id = $2",
        "UPDATE public.item AS i SET a = NULL WHERE i.id = 3 RETURNING *",
        "DELETE FROM item WHERE id = $1",
        "DELETE FROM s.item x WHERE x.id >= 1 AND x.id != 2 RETURNING x.id",
        "EXPLAIN (SUMMARY, ANALYZE) SELECT 1 FROM t",
    ];

    /// Texts with names in all places where a name may stand.
    const NAME_TEXTS: &[&str] = &[
        "SELECT «» FROM t",
        "SELECT «»",
        "SELECT a.«», «», t.«» AS «» FROM t WHERE «» = 1 AND t.«» = 2",
        "SELECT «» + 1, 1 + «», - «», («») FROM s.«» AS «»",
        "SELECT «».* FROM «» JOIN «» AS x ON «».a = «» LEFT JOIN «» ON «» = 1",
        "SELECT a FROM «», «» WHERE «» IN («», 1) OR «» NOT IN (1, 2)",
        "SELECT a FROM «».t WHERE «» BETWEEN «» AND «» AND «» LIKE «» OR «» NOT LIKE 'x'",
        "SELECT a FROM t WHERE «» IS NULL OR «» IS NOT NULL OR «» IS TRUE",
        "SELECT a FROM t WHERE 1 = «» AND «» < «»",
        "SELECT count(«»), sum(DISTINCT «») FROM t GROUP BY «», «» ORDER BY «», «» DESC, «» NULLS FIRST LIMIT «» OFFSET «»",
        "SELECT a FROM t WHERE a = «» ORDER BY «» FOR UPDATE",
        "SELECT a FROM t WHERE a = «»::text AND a = ANY («»)",
        "SELECT a FROM t WHERE a = «» GROUP BY «» LIMIT 1",
        "SELECT a FROM t WHERE a = «» LIMIT 1",
        "SELECT a AS «» FROM t",
        "SELECT a FROM t AS «» WHERE a = 1",
        "SELECT a FROM «» x WHERE a = 1",
        "SELECT a FROM «»",
        "SELECT a FROM «» FOR UPDATE",
        "SELECT a FROM «» LIMIT 1",
        "SELECT a FROM «» ORDER BY 1",
        "INSERT INTO «» («», b, «») VALUES («», 1, «»), (- «», 2, «» + 1)",
        "INSERT INTO «» VALUES (1) ON CONFLICT («», a) DO UPDATE SET «» = excluded.«», a = «» WHERE «».a = «» RETURNING «», a AS «»",
        "INSERT INTO s.«» AS «» (a) VALUES (1) ON CONFLICT DO NOTHING RETURNING «».a",
        "UPDATE «» SET «» = «», b = «» + 1 WHERE «» = 1 RETURNING «»",
        "UPDATE «» AS «» SET a = 1 WHERE «».b = 2",
        "UPDATE «».t SET a = «»",
        "UPDATE t SET a = 1 WHERE b = «» RETURNING a",
        "DELETE FROM «»",
        "DELETE FROM «» WHERE «» = «» RETURNING «»",
        "DELETE FROM «» AS «» WHERE a = 1",
        "SELECT lower(«»), f(«», 1, «») FROM t",
    ];
}
