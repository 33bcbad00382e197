//! SEARCH and CYCLE behind an entry of WITH RECURSIVE.
//!
//! The SQL parser knows neither. A recursive query has no ORDER BY, so what the clauses say becomes one at the end of
//! the entry's query: calls of functions that nobody can write, whose arguments are names and constants.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByKind, Query,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_word;
use crate::identifier::fold;

const DEPTH: &str = "\u{1}search depth";
const BREADTH: &str = "\u{1}search breadth";
const CYCLE: &str = "\u{1}cycle";

/// SEARCH: the order of the rows in a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// DEPTH FIRST, else BREADTH FIRST.
    pub depth: bool,
    /// The columns by which siblings are ordered.
    pub columns: Vec<String>,
    /// The column of the result that orders it.
    pub sequence: String,
}

/// CYCLE: rows that have been met on their own path have no descendants.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// The columns that tell whether a row was met.
    pub columns: Vec<String>,
    /// The column that says so.
    pub mark: String,
    /// The column of the path.
    pub path: String,
    /// The mark of a row that was met, and of any other.
    pub values: [Expr; 2],
}

/// Takes what stands for SEARCH and CYCLE out of the query of an entry of WITH.
pub fn search_and_cycle(query: &mut Query) -> (Option<Search>, Option<Cycle>) {
    let (mut search, mut cycle) = (None, None);
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|by| &by.kind) else {
        return (None, None);
    };
    for by in order {
        let Some((name, mut args)) = call(&by.expr) else { return (None, None) };
        let text = |expr: Option<Expr>| match expr {
            Some(Expr::Identifier(name)) => fold(&name),
            _ => String::new(),
        };
        if name == CYCLE {
            let (path, mark) = (text(args.pop()), text(args.pop()));
            let (other, met) = (args.pop(), args.pop());
            let (Some(other), Some(met)) = (other, met) else { return (None, None) };
            let columns = args.into_iter().map(|arg| text(Some(arg))).collect();
            cycle = Some(Cycle { columns, mark, path, values: [met, other] });
        } else {
            let sequence = text(args.pop());
            let columns = args.into_iter().map(|arg| text(Some(arg))).collect();
            search = Some(Search { depth: name == DEPTH, columns, sequence });
        }
    }
    query.order_by = None;
    (search, cycle)
}

/// The name and the arguments of a call that stands for a clause.
fn call(expr: &Expr) -> Option<(&str, Vec<Expr>)> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
        return None;
    };
    let [name] = &name.0[..] else { return None };
    let name = name.as_ident()?.value.as_str();
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    [DEPTH, BREADTH, CYCLE].contains(&name).then_some(())?;
    Some((name, list.args.iter().map(arg).collect::<Option<_>>()?))
}

/// What stands in the place of the words from the bracket that ends an entry's query to the end of both clauses, if
/// the word at `words[at]` begins them: the first and the last of these among `words`, and a text.
pub(super) fn known(
    tokens: &[TokenWithSpan],
    words: &[usize],
    at: usize,
) -> Option<(usize, usize, String)> {
    let mut clauses = Clauses { tokens, words, at };
    let before = at.checked_sub(1)?;
    if tokens[words[before]].token != Token::RParen {
        return None;
    }
    let search = match clauses.eats("SEARCH") {
        true => Some(clauses.search()?),
        false => None,
    };
    let cycle = match clauses.eats("CYCLE") {
        true => Some(clauses.cycle()?),
        false => None,
    };
    let calls: Vec<String> = search.into_iter().chain(cycle).collect();
    let text = format!(" ORDER BY {})", calls.join(", "));
    (!calls.is_empty()).then_some((before, clauses.at - 1, text))
}

/// Both clauses, read word by word.
struct Clauses<'t> {
    tokens: &'t [TokenWithSpan],
    words: &'t [usize],
    at: usize,
}

impl Clauses<'_> {
    fn token(&self) -> Option<&Token> {
        self.words.get(self.at).map(|at| &self.tokens[*at].token)
    }

    fn eats(&mut self, word: &str) -> bool {
        let found = self.token().is_some_and(|token| is_word(token, word));
        self.at += usize::from(found);
        found
    }

    fn search(&mut self) -> Option<String> {
        let name = if self.eats("DEPTH") { DEPTH } else { BREADTH };
        if name == BREADTH && !self.eats("BREADTH") || !self.eats("FIRST") || !self.eats("BY") {
            return None;
        }
        let columns = self.names()?;
        self.eats("SET").then_some(())?;
        Some(format!("\"{name}\"({columns}, {})", self.name()?))
    }

    fn cycle(&mut self) -> Option<String> {
        let columns = self.names()?;
        self.eats("SET").then_some(())?;
        let mark = self.name()?;
        let values = match self.eats("TO") {
            true => {
                let met = self.up_to("DEFAULT")?;
                format!("{met}, {}", self.up_to("USING")?)
            }
            false => self.eats("USING").then(|| "TRUE, FALSE".to_owned())?,
        };
        Some(format!("\"{CYCLE}\"({columns}, {values}, {mark}, {})", self.name()?))
    }

    fn name(&mut self) -> Option<String> {
        let Token::Word(word) = self.token()? else { return None };
        let name = word.to_string();
        self.at += 1;
        Some(name)
    }

    fn names(&mut self) -> Option<String> {
        let mut names = vec![self.name()?];
        while self.token() == Some(&Token::Comma) {
            self.at += 1;
            names.push(self.name()?);
        }
        Some(names.join(", "))
    }

    /// A constant, which ends before a word.
    fn up_to(&mut self, word: &str) -> Option<String> {
        let mut text = String::new();
        while !self.eats(word) {
            if matches!(self.token()?, Token::SemiColon | Token::EOF) {
                return None;
            }
            text.push_str(&format!("{} ", self.token()?));
            self.at += 1;
        }
        Some(text)
    }
}
