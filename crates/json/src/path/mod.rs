//! `jsonpath`: paths into documents, with filters, arithmetic and methods.
//!
//! [`Path::read`] reads the text of a path, [`find()`] follows it. Words: an *item* is what a step takes and gives;
//! a *step* is what stands behind a `$`: `.key`, `[0]`, `? (…)`, `.size()`. In mode *lax* a step over an array
//! that wants its elements takes them, and what is not there is no error; in *strict* it is.
//! Not offered, errors 0A000: `datetime()`, and division, whose digits are those of `numeric`.
//! Invariant, checked by `what_is_no_path_is_told_with_the_word_that_does_not_fit`: expressions lie within each other
//! no deeper than `NESTING_MAX`, so that recursion ends.

mod find;
mod parse;

pub use find::{Matcher, find, holds};

use crate::tree::Tree;

/// How deep expressions may lie within each other.
const NESTING_MAX: usize = 50;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    is_lax: bool,
    expr: Expr,
}

/// What gives items.
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    Variable(String),
    Constant(Tree),
    Steps(Box<Expr>, Vec<Step>),
    Binary(Arithmetic, Box<Expr>, Box<Expr>),
    /// A sign: whether it is `-`.
    Signed(bool, Box<Expr>),
    Condition(Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

impl Arithmetic {
    fn sign(self) -> &'static str {
        match self {
            Arithmetic::Plus => "+",
            Arithmetic::Minus => "-",
            Arithmetic::Times => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyElement,
    /// `[1, 2 to last]`
    Elements(Vec<(Expr, Option<Expr>)>),
    /// `.**{1 to 3}`: how deep, from and to.
    Within(u32, u32),
    Filter(Condition),
    Method(Method),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    Keyvalue,
}

impl Method {
    const ALL: [(&'static str, Method); 7] = [
        ("type", Method::Type),
        ("size", Method::Size),
        ("double", Method::Double),
        ("ceiling", Method::Ceiling),
        ("floor", Method::Floor),
        ("abs", Method::Abs),
        ("keyvalue", Method::Keyvalue),
    ];

    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, method)| *method == self);
        named.expect("the table has all methods").0
    }
}

/// What is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    IsUnknown(Box<Condition>),
    Exists(Expr),
    Compare(Comparison, Expr, Expr),
    StartsWith(Expr, Expr),
    /// The item, the pattern and its flags.
    LikeRegex(Expr, String, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
