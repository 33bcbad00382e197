//! Forms of CREATE TABLE and ALTER TABLE that the SQL parser lacks, brought to such as it has.
//!
//! - `LIKE t INCLUDING …` among the columns becomes a column with a name that no table has: see [`Like`].
//! - The names in `CREATE TABLE t (a, b) AS …` get a type, which nobody reads.
//! - `ALTER COLUMN a DROP EXPRESSION` becomes a change of type, too: see [`DROP_EXPRESSION`].
//! - `ALTER COLUMN a SET STATISTICS 100`, SET STORAGE and SET COMPRESSION become a change of type that changes
//!   nothing: see [`PASSED_OVER`].
//! - `ALTER CONSTRAINT a DEFERRABLE` adds a foreign key to a table that is none: see [`ALTERED_KEY`].
//! - CLUSTER ON, SET LOGGED, SET WITHOUT OIDS, RESET (…) and their kin of a table become options of that name.
//! - `AS EXECUTE p (1)` becomes `AS SELECT * FROM "…".p (1)`, which no table is: see [`executed`].
//! - `AS … WITH NO DATA` asks for no row of its query, and WITH DATA says nothing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, Expr, FunctionArg, Ident, Query, SetExpr, TableFactor,
    TableWithJoins, Value, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::words::{is_word, replaced};

/// Name of the column that stands for LIKE. Its default is a text: the table's name and the options.
const LIKE: &str = "\u{1}like";

/// Stands between them, and between the parts of the name.
const BETWEEN: char = '\u{1f}';
const BETWEEN_PARTS: char = '\u{1e}';

/// What LIKE may take over besides names, types, collations and NOT NULL.
const OPTIONS: &str =
    "comments compression constraints defaults generated identity indexes statistics storage";

/// The column by which a type is changed that stands for what a column says about its place on disk and its
/// statistics, both of which are none here.
pub const PASSED_OVER: &str = "\u{1}passed over";

/// The column by which a type is changed that stands for DROP EXPRESSION; with IF EXISTS more follows.
pub const DROP_EXPRESSION: &str = "\u{1}drop expression";

/// The table of a foreign key that ALTER TABLE adds which stands for ALTER CONSTRAINT of the key's name.
pub const ALTERED_KEY: &str = "\u{1}altered key";

/// Words of SET STORAGE.
const STORAGES: [&str; 5] = ["PLAIN", "EXTERNAL", "EXTENDED", "MAIN", "DEFAULT"];

/// LIKE among the columns of a new table.
#[derive(Debug)]
pub struct Like {
    /// The name of the table whose columns are taken over, part by part.
    pub of: Vec<String>,
    including: Vec<String>,
}

impl Like {
    /// What a column of CREATE TABLE stands for; `None`: it is a column.
    pub fn of(column: &ColumnDef) -> Option<Like> {
        if column.name.value != LIKE {
            return None;
        }
        let text = column.options.iter().find_map(|option| match &option.option {
            ColumnOption::Default(Expr::Value(value)) => match &value.value {
                Value::SingleQuotedString(text) => Some(text.as_str()),
                _ => None,
            },
            _ => None,
        });
        let (name, options) = text?.split_once(BETWEEN)?;
        let list = |text: &str, between| text.split(between).map(str::to_owned).collect();
        Some(Like { of: list(name, BETWEEN_PARTS), including: list(options, BETWEEN) })
    }

    /// Whether the table's `option`, one of those that PostgreSQL names, is taken over.
    pub fn includes(&self, option: &str) -> bool {
        debug_assert!(OPTIONS.split(' ').any(|own| own == option), "{option}");
        self.including.iter().any(|own| own == option)
    }
}

/// The schema of the function in FROM that stands for EXECUTE.
const EXECUTE: &str = "\u{1}execute";

/// The name of the prepared statement and its arguments, if a FROM item stands for EXECUTE.
pub fn executed(factor: &TableFactor) -> Option<(&Ident, &[FunctionArg])> {
    let TableFactor::Table { name, args: Some(args), .. } = factor else { return None };
    let [mark, own] = &name.0[..] else { return None };
    (mark.as_ident()?.value == EXECUTE).then(|| Some((own.as_ident()?, &args.args[..])))?
}

/// Whether CREATE TABLE has EXECUTE behind AS.
pub fn is_executed(create: &CreateTable) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            match executed(factor) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
    }
    // The item stands at the top, or within what WITH NO DATA has put around it.
    let Some(query) = &create.query else { return false };
    matches!(query.body.as_ref(), SetExpr::Select(select) if select.from.len() == 1)
        && query.visit(&mut Search).is_break()
}

/// Whether the query of CREATE TABLE … AS is one WITH NO DATA.
pub fn is_without_data(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [TableWithJoins { relation: TableFactor::Derived { alias: Some(alias), .. }, .. }] =
        select.from.as_slice()
    else {
        return false;
    };
    alias.name.value == LIKE
}

/// The tokens of a statement, in which CREATE TABLE has forms that the SQL parser knows.
pub(super) fn settled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let text = Text { tokens: &tokens, words: &words };
    let Some(edits) = text.edits() else { return tokens };
    let made = edits.into_iter().map(|(first, last, text)| {
        let made = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize();
        (words[first], words[last], made.expect("words and quoted texts are tokens"))
    });
    let made: Vec<_> = made.collect();
    replaced(tokens, made.into_iter())
}

/// The words of a statement, by their number.
struct Text<'t> {
    tokens: &'t [TokenWithSpan],
    words: &'t [usize],
}

impl Text<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.words.get(at).map(|at| &self.tokens[*at].token)
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.token(at).is_some_and(|token| is_word(token, word))
    }

    /// What stands in the place of the words from one to another, in order; `None` for other statements.
    fn edits(&self) -> Option<Vec<(usize, usize, String)>> {
        if self.is(0, "ALTER") && self.is(1, "TABLE") {
            return Some(self.passed_over()).filter(|edits| !edits.is_empty());
        }
        let table = (1..4).find(|at| self.is(*at, "TABLE")).filter(|_| self.is(0, "CREATE"))?;
        let mut at = table + 1;
        if self.is(at, "IF") && self.is(at + 1, "NOT") && self.is(at + 2, "EXISTS") {
            at += 3;
        }
        at = self.behind_name(at)?;
        let mut edits = Vec::new();
        let mut names = Vec::new();
        if self.token(at) == Some(&Token::LParen) {
            let elements = self.elements(at)?;
            let end = elements.last()?.1;
            let are_names = elements.iter().all(|(first, behind)| {
                behind - first == 1 && matches!(self.token(*first), Some(Token::Word(_)))
            });
            for (first, behind) in elements {
                if are_names {
                    let name = self.token(first)?;
                    names.push((first, first, format!("{name} TEXT")));
                } else if self.is(first, "LIKE") {
                    edits.push((first, behind - 1, self.like(first + 1, behind)?));
                }
            }
            at = end + 1;
        }
        if let Some(query) = self.query(at) {
            edits.append(&mut names);
            if self.is(query, "EXECUTE")
                && let Some(Token::Word(name)) = self.token(query + 1)
            {
                let has_list = self.token(query + 2) == Some(&Token::LParen);
                let list = if has_list { "" } else { "()" };
                let text = format!("SELECT * FROM \"{EXECUTE}\".{name}{list}");
                edits.push((query, query + 1, text));
            }
            edits.extend(self.without_data(query));
            edits.sort_unstable_by_key(|(first, ..)| *first);
        }
        (!edits.is_empty()).then_some(edits)
    }

    /// What ALTER TABLE says about places on disk and statistics, of the table and of columns.
    fn passed_over(&self) -> Vec<(usize, usize, String)> {
        let mut edits = self.of_columns();
        let actions = self.actions().unwrap_or_default();
        edits.extend(actions.into_iter().filter_map(|(first, behind)| {
            let count = behind - first;
            let sets = |word: &str| self.is(first, "SET") && self.is(first + 1, word);
            if self.is(first, "ALTER") && self.is(first + 1, "CONSTRAINT") && count > 2 {
                let name = self.token(first + 2)?;
                let key = format!("FOREIGN KEY (a) REFERENCES \"{ALTERED_KEY}\"");
                return Some((first, first + 2, format!("ADD CONSTRAINT {name} {key}")));
            }
            let value = if self.is(first, "CLUSTER") && self.is(first + 1, "ON") && count == 3 {
                self.token(first + 2)?.to_string()
            } else if (sets("LOGGED") || sets("UNLOGGED")) && count == 2
                || sets("WITHOUT")
                    && count == 3
                    && (self.is(first + 2, "CLUSTER") || self.is(first + 2, "OIDS"))
                || self.is(first, "RESET") && self.is_list(first + 1, behind)
            {
                "1".to_owned()
            } else {
                return None;
            };
            Some((first, behind - 1, format!("SET (\"{PASSED_OVER}\" = {value})")))
        }));
        edits.sort_unstable_by_key(|(first, ..)| *first);
        edits
    }

    /// Whether the words from one to before another are names in brackets.
    fn is_list(&self, open: usize, behind: usize) -> bool {
        self.token(open) == Some(&Token::LParen)
            && self.elements(open).is_some_and(|elements| {
                let is_name =
                    |(first, end): &(usize, usize)| self.behind_name(*first) == Some(*end);
                elements.iter().all(is_name)
                    && elements.last().is_some_and(|last| last.1 + 1 == behind)
            })
    }

    /// The actions of ALTER TABLE, each as its first word and the one behind its last.
    fn actions(&self) -> Option<Vec<(usize, usize)>> {
        let mut at = 2;
        if self.is(at, "IF") && self.is(at + 1, "EXISTS") {
            at += 2;
        }
        at = self.behind_name(at + usize::from(self.is(at, "ONLY")))?;
        let (mut actions, mut first, mut depth) = (Vec::new(), at, 0usize);
        for at in at.. {
            match self.token(at) {
                None | Some(Token::SemiColon | Token::EOF) => {
                    actions.push((first, at));
                    return Some(actions);
                }
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.checked_sub(1)?,
                Some(Token::Comma) if depth == 0 => {
                    actions.push((first, at));
                    first = at + 1;
                }
                _ => {}
            }
        }
        None
    }

    /// SET STATISTICS, STORAGE and COMPRESSION of columns.
    fn of_columns(&self) -> Vec<(usize, usize, String)> {
        let end = |at: usize, is_number: bool| {
            // A number may be negative.
            let behind = at + usize::from(is_number && self.token(at) == Some(&Token::Minus));
            let fits = match self.token(behind) {
                Some(Token::Number(..)) => is_number,
                Some(Token::Word(_)) => !is_number,
                _ => false,
            };
            fits.then_some(behind)
        };
        let change = |at: usize| {
            if self.is(at, "DROP") && self.is(at + 1, "EXPRESSION") {
                let if_exists = self.is(at + 2, "IF") && self.is(at + 3, "EXISTS");
                let (end, more) = if if_exists { (at + 3, " if exists") } else { (at + 1, "") };
                return Some((at, end, format!("TYPE BOOLEAN USING \"{DROP_EXPRESSION}{more}\"")));
            }
            let end = if self.is(at + 1, "STATISTICS") {
                end(at + 2, true)?
            } else if self.is(at + 1, "STORAGE") {
                STORAGES.iter().any(|word| self.is(at + 2, word)).then_some(at + 2)?
            } else if self.is(at + 1, "COMPRESSION") {
                end(at + 2, false)?
            } else {
                return None;
            };
            self.is(at, "SET").then(|| (at, end, format!("TYPE BOOLEAN USING \"{PASSED_OVER}\"")))
        };
        (2..self.words.len()).filter_map(change).collect()
    }

    /// What follows a name with or without a schema.
    fn behind_name(&self, mut at: usize) -> Option<usize> {
        loop {
            matches!(self.token(at), Some(Token::Word(_))).then_some(())?;
            match self.token(at + 1) {
                Some(Token::Period) => at += 2,
                _ => return Some(at + 1),
            }
        }
    }

    /// The elements of a list in brackets, each as its first word and the one behind its last.
    fn elements(&self, open: usize) -> Option<Vec<(usize, usize)>> {
        let (mut elements, mut first, mut depth) = (Vec::new(), open + 1, 0usize);
        for at in open + 1.. {
            match self.token(at)? {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen if depth == 0 => {
                    elements.push((first, at));
                    return Some(elements);
                }
                Token::RParen | Token::RBracket => depth = depth.checked_sub(1)?,
                Token::Comma if depth == 0 => {
                    elements.push((first, at));
                    first = at + 1;
                }
                _ => {}
            }
        }
        None
    }

    /// The column for the name and the options of LIKE; `None` for what PostgreSQL does not know.
    fn like(&self, at: usize, end: usize) -> Option<String> {
        let behind = self.behind_name(at).filter(|behind| *behind <= end)?;
        let parts = (at..behind).step_by(2).filter_map(|at| match self.token(at)? {
            Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
            Token::Word(word) => Some(word.value.to_lowercase()),
            _ => None,
        });
        let mut text = parts.collect::<Vec<_>>().join(&BETWEEN_PARTS.to_string());
        let mut including: Vec<&str> = Vec::new();
        for at in (behind..end).step_by(2) {
            let Token::Word(word) = self.token(at + 1).filter(|_| at + 1 < end)? else {
                return None;
            };
            let name = word.value.to_ascii_lowercase();
            let meant: Vec<&str> =
                OPTIONS.split(' ').filter(|own| name == "all" || *own == name).collect();
            let known = !meant.is_empty();
            including.retain(|own| !meant.contains(own));
            match (known, self.is(at, "INCLUDING"), self.is(at, "EXCLUDING")) {
                (true, true, _) => including.extend(meant),
                (true, _, true) => {}
                _ => return None,
            }
        }
        text.push(BETWEEN);
        text.push_str(&including.join(&BETWEEN.to_string()));
        Some(format!("\"{LIKE}\" BOOLEAN DEFAULT {}", Token::SingleQuotedString(text)))
    }

    /// The first word of the query behind AS.
    fn query(&self, from: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in from.. {
            match self.token(at)? {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.checked_sub(1)?,
                _ if depth == 0 && self.is(at, "AS") => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    /// WITH DATA or WITH NO DATA at the end of a query.
    fn without_data(&self, query: usize) -> Vec<(usize, usize, String)> {
        let ends =
            |token: Option<&Token>| matches!(token, None | Some(Token::SemiColon | Token::EOF));
        let end = (query..).find(|at| ends(self.token(*at))).expect("texts end");
        if end < query + 3 || !self.is(end - 1, "DATA") {
            return Vec::new();
        }
        if self.is(end - 2, "WITH") {
            return vec![(end - 2, end - 1, " ".to_owned())];
        }
        if !self.is(end - 2, "NO") || !self.is(end - 3, "WITH") {
            return Vec::new();
        }
        let as_word = query - 1;
        vec![
            (as_word, as_word, "AS SELECT * FROM (".to_owned()),
            (end - 3, end - 1, format!(") \"{LIKE}\" LIMIT 0")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::syntax::Statement;
    use crate::syntax::tests::shown;
    use datafusion::sql::sqlparser::ast;

    #[test]
    fn names_before_a_query_need_no_types() {
        for (text, same) in [
            (
                "CREATE TABLE t (a, \"B\") AS SELECT 1, 2",
                "CREATE TABLE t (a TEXT, \"B\" TEXT) AS SELECT 1, 2",
            ),
            (
                "CREATE TEMP TABLE IF NOT EXISTS s.t (a) ON COMMIT DROP AS VALUES (1) WITH DATA",
                "CREATE TEMP TABLE IF NOT EXISTS s.t (a TEXT) ON COMMIT DROP AS VALUES (1)",
            ),
            (
                "CREATE TABLE t AS WITH x AS (SELECT 1 AS a) SELECT a FROM x ORDER BY 1 WITH NO DATA;",
                "CREATE TABLE t AS SELECT * FROM (WITH x AS (SELECT 1 AS a) SELECT a FROM x ORDER BY 1) \
                 \"\u{1}like\" LIMIT 0",
            ),
            ("CREATE TABLE t AS SELECT data FROM x", "CREATE TABLE t AS SELECT data FROM x"),
        ] {
            assert_eq!(shown(text), shown(same), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_here_changes_no_column() {
        let text = "ALTER TABLE t ALTER COLUMN a SET STATISTICS -1, ALTER b SET STORAGE external, \
                    ALTER c SET COMPRESSION lz4, ADD COLUMN storage INT";
        let same = "ALTER TABLE t ALTER a TYPE BOOLEAN USING \"\u{1}passed over\", \
                    ALTER b TYPE BOOLEAN USING \"\u{1}passed over\", \
                    ALTER c TYPE BOOLEAN USING \"\u{1}passed over\", ADD COLUMN storage INT";
        assert_eq!(shown(text), shown(same));
        assert_eq!(
            shown("ALTER TABLE t ALTER a DROP EXPRESSION, ALTER b DROP EXPRESSION IF EXISTS"),
            shown(&format!(
                "ALTER TABLE t ALTER a TYPE BOOLEAN USING \"{DROP_EXPRESSION}\", \
                 ALTER b TYPE BOOLEAN USING \"{DROP_EXPRESSION} if exists\""
            ))
        );
        for wrong in ["SET STORAGE fast", "SET STATISTICS x", "SET STATISTICS"] {
            assert!(parse(&format!("ALTER TABLE t ALTER COLUMN a {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_says_nothing_here_of_a_table_becomes_an_option() {
        let text = "ALTER TABLE ONLY s.t CLUSTER ON i, SET LOGGED, SET WITHOUT OIDS, RESET (a, b), ADD set INT";
        let mark = "\"\u{1}passed over\"";
        let same = format!(
            "ALTER TABLE ONLY s.t SET ({mark} = i), SET ({mark} = 1), SET ({mark} = 1), SET ({mark} = 1), \
             ADD set INT"
        );
        assert_eq!(shown(text), shown(&same));
        for wrong in [
            "CLUSTER ON",
            "SET LOGGED x",
            "RESET a",
            "RESET (",
            "RESET ()",
            "RESET (a) b",
            "RESET (a = 1)",
            "SET WITHOUT x",
        ] {
            assert!(parse(&format!("ALTER TABLE t {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn like_says_what_is_taken_over() {
        let text = "CREATE TABLE t (a INT, LIKE s.\"B\" INCLUDING ALL EXCLUDING INDEXES EXCLUDING comments, \
                    LIKE u, b INT)";
        let found = parse(text).expect(text).remove(0).statement;
        let Statement::Sql(sql) = found else { panic!("{text}") };
        let ast::Statement::CreateTable(create) = *sql else { panic!("{text}") };
        let likes: Vec<Option<Like>> = create.columns.iter().map(Like::of).collect();
        let [None, Some(first), Some(second), None] = likes.as_slice() else { panic!("{likes:?}") };
        assert_eq!((first.of.join(".").as_str(), second.of.join(".").as_str()), ("s.B", "u"));
        assert!(first.includes("identity") && first.includes("constraints"));
        assert!(!first.includes("indexes") && !first.includes("comments"));
        assert!(!second.includes("defaults"));
        for wrong in ["LIKE t INCLUDING x", "LIKE t INCLUDING", "LIKE", "LIKE t ALL"] {
            assert!(parse(&format!("CREATE TABLE t ({wrong})")).is_err(), "{wrong}");
        }
    }
}
