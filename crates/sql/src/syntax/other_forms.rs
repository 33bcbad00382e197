//! Forms of MERGE and CREATE VIEW that the SQL parser lacks, brought to such as it has.
//!
//! - `MERGE INTO t USING a JOIN b ON … ON …` has brackets around the join.
//! - `CREATE RECURSIVE VIEW v (a) AS query` is `CREATE VIEW v (a) AS WITH RECURSIVE v (a) AS (query) SELECT a FROM v`.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::words::{is_word, replaced};

/// The tokens of a statement in which such forms are ones that the SQL parser knows.
pub(super) fn settled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let text = Text { tokens: &tokens, words: &words };
    let Some(edits) = text.merge().or_else(|| text.recursive_view()) else { return tokens };
    let made = edits.into_iter().map(|(first, last, text)| {
        let made = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize();
        (words[first], words[last], made.expect("the words of a statement are tokens"))
    });
    let made: Vec<_> = made.collect();
    replaced(tokens, made.into_iter())
}

/// The words of a statement, by their number.
struct Text<'t> {
    tokens: &'t [TokenWithSpan],
    words: &'t [usize],
}

/// What stands in the place of the words from one to another, in order.
type Edits = Vec<(usize, usize, String)>;

impl Text<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.words.get(at).map(|at| &self.tokens[*at].token)
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.token(at).is_some_and(|token| is_word(token, word))
    }

    /// The words from one on that stand in no brackets opened behind it.
    fn outside(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        let mut depth = 0_usize;
        (from..self.words.len()).filter(move |at| {
            match self.token(*at) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
    }

    /// Brackets around the joins that MERGE reads; `None` for other statements, and for one table.
    fn merge(&self) -> Option<Edits> {
        if !["MERGE", "WITH", "EXPLAIN", "PREPARE"].iter().any(|word| self.is(0, word)) {
            return None;
        }
        let merge = self.outside(0).find(|at| self.is(*at, "MERGE") && self.is(at + 1, "INTO"))?;
        let using = self.outside(merge).find(|at| self.is(*at, "USING"))?;
        let is_end = |at: &usize| {
            let behind = at + 1 + usize::from(self.is(at + 1, "NOT"));
            self.is(*at, "WHEN") && self.is(behind, "MATCHED")
        };
        let end = self.outside(using).find(is_end)?;
        let source = || self.outside(using + 1).take_while(|at| *at < end);
        source().find(|at| self.is(*at, "JOIN"))?;
        let on = source().filter(|at| self.is(*at, "ON")).last()?;
        Some(vec![(using, using, "USING (".to_owned()), (on, on, ") ON".to_owned())])
    }

    /// The query of a recursive view as one of WITH; `None` for other statements.
    fn recursive_view(&self) -> Option<Edits> {
        let view = (2..6).find(|at| self.is(*at, "VIEW")).filter(|_| self.is(0, "CREATE"))?;
        if !self.is(view - 1, "RECURSIVE") {
            return None;
        }
        let mut name = view + 1;
        while self.token(name + 1) == Some(&Token::Period) {
            name += 2;
        }
        let own = self.token(name)?.to_string();
        let is_name = |at: &usize| matches!(self.token(*at), Some(Token::Word(_) | Token::Comma));
        let close = (name + 2..self.words.len()).find(|at| !is_name(at))?;
        let as_word = close + 1;
        let has_list = self.token(name + 1) == Some(&Token::LParen)
            && self.token(close) == Some(&Token::RParen)
            && self.is(as_word, "AS");
        if !has_list {
            return None;
        }
        let names = (name + 2..close).filter_map(|at| Some(self.token(at)?.to_string()));
        let names = names.collect::<Vec<_>>().join(" ");
        let ends =
            |at: &usize| matches!(self.token(*at), None | Some(Token::SemiColon | Token::EOF));
        let last = (as_word..).find(ends)? - 1;
        let before = format!("AS WITH RECURSIVE {own} ({names}) AS (");
        let behind = format!("{} ) SELECT {names} FROM {own}", self.token(last)?);
        Some(vec![
            (view - 1, view, "VIEW".to_owned()),
            (as_word, as_word, before),
            (last, last, behind),
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;
    use crate::syntax::tests::shown;

    #[test]
    fn merge_reads_joins() {
        for (text, same) in [
            (
                "MERGE INTO t USING a x JOIN b ON x.i = b.i AND CASE WHEN x.j THEN true END \
                 ON t.i = x.i WHEN NOT MATCHED THEN DO NOTHING",
                "MERGE INTO t USING (a x JOIN b ON x.i = b.i AND CASE WHEN x.j THEN true END) \
                 ON t.i = x.i WHEN NOT MATCHED THEN DO NOTHING",
            ),
            (
                "WITH c AS (SELECT 1) MERGE INTO t USING (SELECT 1 AS i) q CROSS JOIN c ON t.i = q.i \
                 WHEN MATCHED THEN DELETE",
                "WITH c AS (SELECT 1) MERGE INTO t USING ((SELECT 1 AS i) q CROSS JOIN c) ON t.i = q.i \
                 WHEN MATCHED THEN DELETE",
            ),
            (
                "MERGE INTO t USING (SELECT 1 AS i FROM a JOIN b ON true) q ON t.i = q.i \
                 WHEN MATCHED THEN DELETE",
                "MERGE INTO t USING (SELECT 1 AS i FROM a JOIN b ON true) q ON t.i = q.i \
                 WHEN MATCHED THEN DELETE",
            ),
        ] {
            assert_eq!(shown(text), shown(same), "{text}");
        }
    }

    #[test]
    fn a_recursive_view_is_a_view_with_a_recursive_query() {
        let query = "VALUES (1) UNION ALL SELECT n + 1 FROM \"Nums\" WHERE n < (5)";
        assert_eq!(
            shown(&format!("CREATE OR REPLACE TEMP RECURSIVE VIEW s.\"Nums\" (n, M) AS {query};")),
            shown(&format!(
                "CREATE OR REPLACE TEMP VIEW s.\"Nums\" (n, M) AS \
                 WITH RECURSIVE \"Nums\" (n, M) AS ({query}) SELECT n, M FROM \"Nums\""
            ))
        );
        assert!(parse("CREATE RECURSIVE VIEW v AS SELECT 1").is_err());
    }
}
