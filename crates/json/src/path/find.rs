//! Following a path through a document.

use std::borrow::Cow;
use std::cmp::Ordering;

use halcyon_base::interrupt::Pace;

use super::{Arithmetic, Comparison, Condition, Expr, Method, Path, Step};
use crate::error::{JsonError, Result};
use crate::number::Number;
use crate::tree::Tree;

/// Says whether a text has a match of a pattern, with the flags of `like_regex`.
pub type Matcher<'a> = dyn Fn(&str, &str, &str) -> Result<bool> + 'a;

type Item<'a> = Cow<'a, Tree>;

/// The items that a path finds in a document, in order. `variables`: an object, or NULL for none.
///
/// Errors: 2203A and its like for what is not there in mode strict, 22038 and 22036 for items of another kind than
/// arithmetic and methods take, 42704 for a variable without a value, 57014.
pub fn find<'a>(
    path: &'a Path,
    document: &'a Tree,
    variables: &'a Tree,
    matches: &'a Matcher<'a>,
) -> Result<Vec<Cow<'a, Tree>>> {
    if !matches!(variables, Tree::Object(_) | Tree::Null) {
        let error = JsonError::invalid("\"vars\" argument is not an object");
        let detail = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
        return Err(error.detail(detail));
    }
    let finder =
        Finder { is_lax: path.is_lax, document, variables, matches, pace: Pace::default() };
    let mut found = Vec::new();
    finder.items(&path.expr, &Around { current: None, last: None }, &mut found)?;
    // Conditions take an error within for something unknown.
    finder.go_on().map(|()| found)
}

/// What a path that is a condition says of a document; `None`: unknown. Errors: 22038 for another path.
pub fn holds(found: &[Cow<'_, Tree>]) -> Result<Option<bool>> {
    match found {
        [item] => match item.as_ref() {
            Tree::Bool(value) => Ok(Some(*value)),
            Tree::Null => Ok(None),
            _ => Err(JsonError::new(b"22038", "single boolean result is expected")),
        },
        _ => Err(JsonError::new(b"22038", "single boolean result is expected")),
    }
}

struct Finder<'a> {
    is_lax: bool,
    document: &'a Tree,
    variables: &'a Tree,
    matches: &'a Matcher<'a>,
    pace: Pace,
}

/// What `@` and `last` stand for.
struct Around<'i, 'a> {
    current: Option<&'i Item<'a>>,
    last: Option<i64>,
}

impl<'a> Finder<'a> {
    /// Errors: 57014 if the statement is to end.
    fn go_on(&self) -> Result<()> {
        if self.pace.is_over() { Err(JsonError::interrupted()) } else { Ok(()) }
    }

    /// Adds the items that an expression gives.
    fn items(
        &self,
        expr: &'a Expr,
        around: &Around<'_, 'a>,
        out: &mut Vec<Item<'a>>,
    ) -> Result<()> {
        match expr {
            Expr::Root => out.push(Cow::Borrowed(self.document)),
            Expr::Current => match around.current {
                Some(item) => out.push(item.clone()),
                None => return Err(syntax("@ is not allowed in root expressions")),
            },
            Expr::Last => match around.last {
                Some(last) => out.push(Cow::Owned(Tree::Number(Number::read(&last.to_string())?))),
                None => return Err(syntax("LAST is allowed only in array subscripts")),
            },
            Expr::Variable(name) => out.push(Cow::Borrowed(self.variable(name)?)),
            Expr::Constant(value) => out.push(Cow::Borrowed(value)),
            Expr::Steps(base, steps) => {
                let mut from = Vec::new();
                self.items(base, around, &mut from)?;
                for item in from {
                    self.follow(item, steps, around, self.is_lax, out)?;
                }
            }
            Expr::Binary(arithmetic, left, right) => {
                let left = self.one_number(left, around, "left", *arithmetic)?;
                let right = self.one_number(right, around, "right", *arithmetic)?;
                out.push(Cow::Owned(Tree::Number(calculated(*arithmetic, &left, &right)?)));
            }
            Expr::Signed(is_minus, of) => {
                for item in self.unwrapped(of, around)? {
                    let Tree::Number(number) = item.as_ref() else {
                        let sign = if *is_minus { "-" } else { "+" };
                        let message = format!(
                            "operand of unary jsonpath operator {sign} is not a numeric value"
                        );
                        return Err(JsonError::new(b"2203B", message));
                    };
                    out.push(match is_minus {
                        true => Cow::Owned(Tree::Number(number.negated())),
                        false => item,
                    });
                }
            }
            Expr::Condition(condition) => {
                let value = self.is_true(condition, around);
                out.push(Cow::Owned(value.map_or(Tree::Null, Tree::Bool)));
            }
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Result<&'a Tree> {
        let pairs = match self.variables {
            Tree::Object(pairs) => pairs.as_slice(),
            _ => &[],
        };
        let found = pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        let missing = || format!("could not find jsonpath variable \"{name}\"");
        found.ok_or_else(|| JsonError::new(b"42704", missing()))
    }

    /// The items of an expression; in mode lax the elements in the place of arrays.
    fn unwrapped(&self, expr: &'a Expr, around: &Around<'_, 'a>) -> Result<Vec<Item<'a>>> {
        let mut found = Vec::new();
        self.items(expr, around, &mut found)?;
        if !self.is_lax || !found.iter().any(|item| matches!(item.as_ref(), Tree::Array(_))) {
            return Ok(found);
        }
        let elements = |item: Item<'a>| elements(&item).unwrap_or_else(|| vec![item.clone()]);
        Ok(found.into_iter().flat_map(elements).collect())
    }

    fn one_number(
        &self,
        expr: &'a Expr,
        around: &Around<'_, 'a>,
        side: &str,
        arithmetic: Arithmetic,
    ) -> Result<Number> {
        match self.unwrapped(expr, around)?.as_slice() {
            [item] if let Tree::Number(number) = item.as_ref() => Ok(number.clone()),
            _ => {
                let sign = arithmetic.sign();
                let message = format!(
                    "{side} operand of jsonpath operator {sign} is not a single numeric value"
                );
                Err(JsonError::new(b"22038", message))
            }
        }
    }

    /// Adds what the steps lead to from an item. `unwraps`: whether the first step takes the elements of an array
    /// where it wants something else.
    fn follow(
        &self,
        item: Item<'a>,
        steps: &'a [Step],
        around: &Around<'_, 'a>,
        unwraps: bool,
        out: &mut Vec<Item<'a>>,
    ) -> Result<()> {
        self.go_on()?;
        let Some((step, rest)) = steps.split_first() else {
            out.push(item);
            return Ok(());
        };
        let wants_elements = match step {
            Step::Key(_) | Step::AnyKey | Step::Filter(_) => true,
            Step::Method(method) => !matches!(method, Method::Type | Method::Size),
            Step::AnyElement | Step::Elements(_) | Step::Within(..) => false,
        };
        if wants_elements
            && unwraps
            && let Some(elements) = elements(&item)
        {
            let mut elements = elements.into_iter();
            return elements.try_for_each(|own| self.follow(own, steps, around, false, out));
        }
        let mut go_on = |item: Item<'a>| self.follow(item, rest, around, self.is_lax, out);
        match step {
            Step::Key(key) => match member(&item, key) {
                Some(Some(value)) => go_on(value),
                Some(None) => self
                    .unless_lax(b"2203A", || format!("JSON object does not contain key \"{key}\"")),
                None => self.unless_lax(b"2203A", || {
                    "jsonpath member accessor can only be applied to an object".to_owned()
                }),
            },
            Step::AnyKey => match values(&item) {
                Some(values) => values.into_iter().try_for_each(go_on),
                None => self.unless_lax(b"2203C", || {
                    "jsonpath wildcard member accessor can only be applied to an object".to_owned()
                }),
            },
            Step::AnyElement => match elements(&item) {
                Some(elements) => elements.into_iter().try_for_each(go_on),
                None if self.is_lax => go_on(item),
                None => Err(JsonError::new(
                    b"22039",
                    "jsonpath wildcard array accessor can only be applied to an array",
                )),
            },
            Step::Elements(places) => {
                self.places(&item, places, around)?.into_iter().try_for_each(go_on)
            }
            Step::Within(from, to) => {
                let mut found = Vec::new();
                self.within(item, 0, *from, *to, &mut found)?;
                // What is not there below is no error, in mode strict neither.
                for item in found {
                    let mut below = Vec::new();
                    match self.follow(item, rest, around, self.is_lax, &mut below) {
                        Err(error) if !is_structural(&error) => return Err(error),
                        _ => out.append(&mut below),
                    }
                }
                Ok(())
            }
            Step::Filter(condition) => {
                let within = Around { current: Some(&item), last: around.last };
                match self.is_true(condition, &within) {
                    Some(true) => go_on(item),
                    _ => Ok(()),
                }
            }
            Step::Method(Method::Keyvalue) => self.pairs(&item)?.into_iter().try_for_each(go_on),
            Step::Method(method) => go_on(Cow::Owned(self.made(*method, &item)?)),
        }
    }

    fn unless_lax(&self, state: &[u8; 5], message: impl FnOnce() -> String) -> Result<()> {
        if self.is_lax { Ok(()) } else { Err(JsonError::new(state, message())) }
    }

    /// The elements at places; a value that is no array is one with one element in mode lax.
    fn places(
        &self,
        item: &Item<'a>,
        places: &'a [(Expr, Option<Expr>)],
        around: &Around<'_, 'a>,
    ) -> Result<Vec<Item<'a>>> {
        let all = match elements(item) {
            Some(elements) => elements,
            None if self.is_lax => vec![item.clone()],
            None => {
                let message = "jsonpath array accessor can only be applied to an array";
                return Err(JsonError::new(b"22039", message));
            }
        };
        let last = all.len() as i64 - 1;
        let around = Around { current: around.current, last: Some(last) };
        let place = |expr: &'a Expr| -> Result<i64> {
            let mut found = Vec::new();
            self.items(expr, &around, &mut found)?;
            match found.as_slice() {
                [item] if let Tree::Number(number) = item.as_ref() => {
                    let out_of_range = "jsonpath array subscript is out of integer range";
                    number
                        .truncated()
                        .filter(|place| i32::try_from(*place).is_ok())
                        .ok_or_else(|| JsonError::new(b"22033", out_of_range))
                }
                _ => Err(JsonError::new(
                    b"22033",
                    "jsonpath array subscript is not a single numeric value",
                )),
            }
        };
        let mut found = Vec::new();
        for (from, to) in places {
            let from = place(from)?;
            let to = to.as_ref().map_or(Ok(from), place)?;
            if !self.is_lax && (from < 0 || from > to || to > last) {
                return Err(JsonError::new(b"22033", "jsonpath array subscript is out of bounds"));
            }
            let (from, to) = (from.max(0), to.min(last));
            found.extend((from..=to).map(|at| all[at as usize].clone()));
        }
        Ok(found)
    }

    fn made(&self, method: Method, item: &Tree) -> Result<Tree> {
        let whole = |count: usize| Number::read(&count.to_string()).map(Tree::Number);
        let wrong = |wants: &str| {
            let name = method.name();
            format!("jsonpath item method .{name}() can only be applied to {wants}")
        };
        match (method, item) {
            (Method::Type, item) => Ok(Tree::String(kind(item).to_owned())),
            (Method::Size, Tree::Array(elements)) => whole(elements.len()),
            (Method::Size, _) if self.is_lax => whole(1),
            (Method::Size, _) => Err(JsonError::new(b"22039", wrong("an array"))),
            (Method::Double, Tree::Number(number)) => double(&number.to_string()),
            (Method::Double, Tree::String(text)) => double(text),
            (Method::Double, _) => {
                Err(JsonError::new(b"22036", wrong("a string or numeric value")))
            }
            (Method::Abs, Tree::Number(number)) => {
                Ok(Tree::Number(if number.is_negative { number.negated() } else { number.clone() }))
            }
            (Method::Floor, Tree::Number(number)) => Ok(Tree::Number(number.rounded(true)?)),
            (Method::Ceiling, Tree::Number(number)) => Ok(Tree::Number(number.rounded(false)?)),
            _ => Err(JsonError::new(b"22036", wrong("a numeric value"))),
        }
    }

    /// The pairs of an object as objects with key, value and the object's number.
    fn pairs(&self, item: &Item<'a>) -> Result<Vec<Item<'a>>> {
        let Tree::Object(pairs) = item.as_ref() else {
            let message = "jsonpath item method .keyvalue() can only be applied to an object";
            return Err(JsonError::new(b"2203C", message));
        };
        let pair = |(key, value): &(String, Tree)| {
            Ok(Cow::Owned(Tree::object(vec![
                ("key".to_owned(), Tree::String(key.clone())),
                ("value".to_owned(), value.clone()),
                ("id".to_owned(), Tree::Number(Number::read("0")?)),
            ])))
        };
        pairs.iter().map(pair).collect()
    }

    /// Adds an item and what lies in it from one depth to another; `u32::MAX`: what has nothing in it.
    fn within(
        &self,
        item: Item<'a>,
        level: u32,
        from: u32,
        to: u32,
        out: &mut Vec<Item<'a>>,
    ) -> Result<()> {
        self.go_on()?;
        let parts = elements(&item).or_else(|| values(&item)).unwrap_or_default();
        let is_deepest = from == u32::MAX && parts.is_empty();
        if is_deepest || level >= from && level <= to {
            out.push(item);
        }
        if level < to {
            parts.into_iter().try_for_each(|part| self.within(part, level + 1, from, to, out))?;
        }
        Ok(())
    }

    /// Whether a condition is true; `None`: unknown, as after every error within.
    fn is_true(&self, condition: &'a Condition, around: &Around<'_, 'a>) -> Option<bool> {
        match condition {
            Condition::And(left, right) => match self.is_true(left, around) {
                Some(false) => Some(false),
                left => match self.is_true(right, around) {
                    Some(true) => left,
                    right => right,
                },
            },
            Condition::Or(left, right) => match self.is_true(left, around) {
                Some(true) => Some(true),
                left => match self.is_true(right, around) {
                    Some(false) => left,
                    right => right,
                },
            },
            Condition::Not(of) => self.is_true(of, around).map(|value| !value),
            Condition::IsUnknown(of) => Some(self.is_true(of, around).is_none()),
            Condition::Exists(of) => {
                let mut found = Vec::new();
                self.items(of, around, &mut found).ok()?;
                Some(!found.is_empty())
            }
            Condition::Compare(comparison, left, right) => {
                let left = self.unwrapped(left, around).ok()?;
                let right = self.unwrapped(right, around).ok()?;
                let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
                self.any(pairs, |(a, b)| compared(*comparison, a, b))
            }
            Condition::StartsWith(of, start) => {
                let left = self.unwrapped(of, around).ok()?;
                let mut start_items = Vec::new();
                self.items(start, around, &mut start_items).ok()?;
                let pairs = left.iter().flat_map(|a| start_items.iter().map(move |b| (a, b)));
                self.any(pairs, |(a, b)| match (a.as_ref(), b.as_ref()) {
                    (Tree::String(a), Tree::String(b)) => Some(a.starts_with(b.as_str())),
                    _ => None,
                })
            }
            Condition::LikeRegex(of, pattern, flags) => {
                let left = self.unwrapped(of, around).ok()?;
                self.any(left.iter(), |item| match item.as_ref() {
                    Tree::String(text) => (self.matches)(pattern, flags, text).ok(),
                    _ => None,
                })
            }
        }
    }

    /// Whether a test is true for one item; in mode strict unknown if it is so for any.
    fn any<T>(
        &self,
        items: impl Iterator<Item = T>,
        test: impl Fn(T) -> Option<bool>,
    ) -> Option<bool> {
        let (mut is_unknown, mut found) = (false, false);
        for item in items {
            self.go_on().ok()?;
            match test(item) {
                Some(true) if self.is_lax => return Some(true),
                Some(true) => found = true,
                Some(false) => {}
                None if !self.is_lax => return None,
                None => is_unknown = true,
            }
        }
        match (found, is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    }
}

fn syntax(message: &str) -> JsonError {
    JsonError::new(b"42601", message)
}

/// Whether an error says that something is not there.
fn is_structural(error: &JsonError) -> bool {
    matches!(&error.told().state, b"2203A" | b"2203C" | b"22039" | b"22033")
}

/// The elements of an array.
fn elements<'a>(item: &Item<'a>) -> Option<Vec<Item<'a>>> {
    match item {
        Cow::Borrowed(Tree::Array(elements)) => Some(elements.iter().map(Cow::Borrowed).collect()),
        Cow::Owned(Tree::Array(elements)) => {
            Some(elements.iter().cloned().map(Cow::Owned).collect())
        }
        _ => None,
    }
}

/// The values of an object.
fn values<'a>(item: &Item<'a>) -> Option<Vec<Item<'a>>> {
    match item {
        Cow::Borrowed(Tree::Object(pairs)) => {
            Some(pairs.iter().map(|(_, value)| Cow::Borrowed(value)).collect())
        }
        Cow::Owned(Tree::Object(pairs)) => {
            Some(pairs.iter().map(|(_, value)| Cow::Owned(value.clone())).collect())
        }
        _ => None,
    }
}

/// The value of a key, `None` within if the object has none; `None` for what is no object.
fn member<'a>(item: &Item<'a>, key: &str) -> Option<Option<Item<'a>>> {
    match item {
        Cow::Borrowed(Tree::Object(pairs)) => {
            let found = pairs.iter().find(|(own, _)| own == key);
            Some(found.map(|(_, value)| Cow::Borrowed(value)))
        }
        Cow::Owned(Tree::Object(pairs)) => {
            let found = pairs.iter().find(|(own, _)| own == key);
            Some(found.map(|(_, value)| Cow::Owned(value.clone())))
        }
        _ => None,
    }
}

fn kind(item: &Tree) -> &'static str {
    match item {
        Tree::Null => "null",
        Tree::Bool(_) => "boolean",
        Tree::Number(_) => "number",
        Tree::String(_) => "string",
        Tree::Array(_) => "array",
        Tree::Object(_) => "object",
    }
}

fn double(text: &str) -> Result<Tree> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let value = value.ok_or_else(|| {
        let message =
            "string argument of jsonpath item method .double() is not a valid representation of a double precision number";
        JsonError::new(b"22036", message)
    })?;
    Number::read(&value.to_string()).map(Tree::Number)
}

fn compared(comparison: Comparison, left: &Tree, right: &Tree) -> Option<bool> {
    let order = match (left, right) {
        (Tree::Null, Tree::Null) => Ordering::Equal,
        (Tree::Null, _) | (_, Tree::Null) => return Some(comparison == Comparison::NotEqual),
        (Tree::Bool(a), Tree::Bool(b)) => a.cmp(b),
        (Tree::Number(a), Tree::Number(b)) => a.cmp(b),
        (Tree::String(a), Tree::String(b)) => a.cmp(b),
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}

/// Sums, products and remainders of numbers. Errors: 22012, 22003 for more digits than 38.
fn calculated(arithmetic: Arithmetic, left: &Number, right: &Number) -> Result<Number> {
    let overflows = || JsonError::new(b"22003", "value overflows numeric format");
    let scale = left.scale.max(right.scale);
    let (a, b) = (left.scaled(scale), right.scaled(scale));
    let (Some(a), Some(b)) = (a, b) else { return Err(overflows()) };
    let (value, scale) = match arithmetic {
        Arithmetic::Plus => (a.checked_add(b), scale),
        Arithmetic::Minus => (a.checked_sub(b), scale),
        Arithmetic::Times => {
            let (a, b) = (left.scaled(left.scale), right.scaled(right.scale));
            (a.zip(b).and_then(|(a, b)| a.checked_mul(b)), left.scale + right.scale)
        }
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => {
            return Err(JsonError::new(b"22012", "division by zero"));
        }
        Arithmetic::Modulo => (a.checked_rem(b), scale),
        Arithmetic::Divide => (None, scale),
    };
    Number::of_scaled(value.ok_or_else(overflows)?, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// What a path finds, one item after another; an error as its state.
    fn found(path: &str, document: &str) -> String {
        let path = Path::read(path).expect(path);
        let document = parse::tree(document).expect(document);
        let variables = parse::tree(r#"{"x": 2, "s": "a"}"#).unwrap();
        let matches = |pattern: &str, _: &str, text: &str| Ok(text.contains(pattern));
        match find(&path, &document, &variables, &matches) {
            Ok(items) => {
                let shown = |item: &Cow<'_, Tree>| crate::Node::new(&item.encode()).text();
                items.iter().map(shown).collect::<Vec<_>>().join(" ")
            }
            Err(error) => String::from_utf8_lossy(&error.told().state).into_owned(),
        }
    }

    /// Each `.**` multiplies what the last has found, and each comparison takes all pairs of its items.
    #[test]
    fn a_path_is_followed_no_further_than_its_interrupt() {
        let ends = |path: &str, document: &str| {
            let interrupted = || found(path, document);
            assert_eq!(halcyon_base::interrupt::watching(|| true, interrupted), "57014", "{path}");
        };
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        ends(&format!("${}", ".**".repeat(60)), &deep);
        ends(&format!("$ ? (@{} == 1)", ".**".repeat(60)), &deep);
        let wide = format!("[0{}]", ",0".repeat(1000));
        ends("$[*] ? ($[*] == 1)", &wide);
        ends("strict $ ? (@[*] == @[*])", &wide);
        assert_eq!(found("$.size()", &wide), "1001");
    }

    #[test]
    fn paths_find_what_postgresql_finds() {
        let document = r#"{"a": [1, 2, {"b": "x"}], "c": {"d": null, "e": true}, "n": -1.50}"#;
        for (path, items) in [
            ("$.a[1]", "2"),
            ("$.a[0 to last]", "1 2 {\"b\": \"x\"}"),
            ("$.a[last, 0]", "{\"b\": \"x\"} 1"),
            ("$.a.b", "\"x\""),
            ("strict $.a.b", "2203A"),
            ("strict $.a[*].b", "2203A"),
            ("strict $.nothing", "2203A"),
            ("$.nothing", ""),
            ("$.c.*", "null true"),
            ("$.**.b", "\"x\" \"x\""),
            ("strict $.**.b", "\"x\""),
            ("$.a[*] ? (@ > 1)", "2"),
            ("$.a[*] ? (@ >= $x || @.b starts with \"x\")", "2 {\"b\": \"x\"}"),
            ("$.a[*] ? (@.b like_regex \"x\" flag \"i\").b", "\"x\""),
            ("$.a ? (exists(@.b)).b", "\"x\""),
            ("$.a.size()", "3"),
            ("$.n.abs() + $x * 3", "7.50"),
            ("-$.n.ceiling()", "1"),
            ("$.n.floor() % 3", "-2"),
            ("$.a[2].b.type()", "\"string\""),
            ("$.a[*].type()", "\"number\" \"number\" \"object\""),
            ("$.a + 1", "22038"),
            ("$.a[0] + 1 == 2", "true"),
            ("$.c.d == 1", "false"),
            ("$.c.e > \"x\"", "null"),
            ("($.c.e > \"x\") is unknown", "true"),
            ("!($.a[0] == 1) && true == true", "false"),
            ("$.n[0]", "-1.50"),
            ("strict $.n[0]", "22039"),
            ("strict $.a[9]", "22033"),
            ("$.a[9]", ""),
            ("$nobody", "42704"),
            ("$.n.double()", "-1.5"),
            ("$.c.keyvalue().key", "\"d\" \"e\""),
            ("$.\"a\"[0]", "1"),
            ("\"\\u0041\\x42\"", "\"AB\""),
            ("5 % 0", "22012"),
        ] {
            assert_eq!(found(path, document), items, "{path}");
        }
    }
}
