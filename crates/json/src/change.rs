//! What operators and functions make of stored documents: parts, comparisons, changed copies.

use crate::binary::{Kind, Node};
use crate::error::{JsonError, Result};
use crate::text;
use crate::tree::Tree;

/// Whether `@>`: the document holds all of the other. An array may hold a scalar as an element.
pub fn contains(document: Node<'_>, part: Node<'_>) -> bool {
    match (document.kind(), part.kind()) {
        (Kind::Array, kind) if !matches!(kind, Kind::Array | Kind::Object) => {
            document.elements().any(|element| element.same_scalar(part))
        }
        _ => holds(document, part),
    }
}

fn holds(document: Node<'_>, part: Node<'_>) -> bool {
    match (document.kind(), part.kind()) {
        (Kind::Object, Kind::Object) => {
            let has = |(key, value)| document.get(key).is_some_and(|own| holds(own, value));
            part.pairs().all(has)
        }
        (Kind::Array, Kind::Array) => {
            part.elements().all(|wanted| document.elements().any(|own| holds(own, wanted)))
        }
        _ => document.same_scalar(part),
    }
}

/// Whether `?`: a key of the object, an element of the array, or the string itself.
pub fn has_key(document: Node<'_>, key: &str) -> bool {
    match document.kind() {
        Kind::Object => document.get(key).is_some(),
        Kind::Array => document.elements().any(|element| element.string() == Some(key)),
        _ => document.string() == Some(key),
    }
}

/// The number that a step of a path stands for in an array.
pub fn index(step: &str) -> Option<i64> {
    let digits = step.trim_start_matches([' ', '\t', '\n', '\r']);
    digits.parse::<i32>().ok().map(i64::from)
}

/// The value at the end of a path; NULL among its steps leads nowhere.
pub fn at_path<'a>(document: Node<'a>, path: &[Option<String>]) -> Option<Node<'a>> {
    path.iter().try_fold(document, |node, step| {
        let step = step.as_deref()?;
        match node.kind() {
            Kind::Object => node.get(step),
            _ => node.at(index(step)?),
        }
    })
}

/// The text of the value at the end of a path in a `json`. Errors: 22P05 for a key that is no text.
pub fn text_at_path<'a>(json: &'a str, path: &[Option<String>]) -> Result<Option<&'a str>> {
    let mut found = json;
    for step in path {
        let Some(step) = step else { return Ok(None) };
        let next = match (text::kind(found), index(step)) {
            (Kind::Object, _) => text::get(found, step)?,
            (Kind::Array, Some(index)) => text::at(found, index)?,
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        found = next;
    }
    Ok(Some(found))
}

/// `||`: objects merged, arrays one after the other; anything else is an array of one element first.
pub fn concatenated(left: Tree, right: Tree) -> Tree {
    let elements = |tree| match tree {
        Tree::Array(elements) => elements,
        other => vec![other],
    };
    match (left, right) {
        (Tree::Object(mut pairs), Tree::Object(more)) => {
            pairs.extend(more);
            Tree::object(pairs)
        }
        (left, right) => {
            let mut all = elements(left);
            all.extend(elements(right));
            Tree::Array(all)
        }
    }
}

/// `- text` and `- text[]`: without these keys, or elements that are these strings. Errors: 22023.
pub fn without_keys(document: Tree, keys: &[&str]) -> Result<Tree> {
    match document {
        Tree::Object(mut pairs) => {
            pairs.retain(|(key, _)| !keys.contains(&key.as_str()));
            Ok(Tree::Object(pairs))
        }
        Tree::Array(mut elements) => {
            elements.retain(|element| match element {
                Tree::String(text) => !keys.contains(&text.as_str()),
                _ => true,
            });
            Ok(Tree::Array(elements))
        }
        _ => Err(JsonError::invalid("cannot delete from scalar")),
    }
}

/// `- integer`: without an element. Errors: 22023 for what is no array.
pub fn without_element(document: Tree, index: i64) -> Result<Tree> {
    match document {
        Tree::Array(mut elements) => {
            if let Some(at) = place(index, elements.len()) {
                elements.remove(at);
            }
            Ok(Tree::Array(elements))
        }
        Tree::Object(_) => Err(JsonError::invalid("cannot delete from object using integer index")),
        _ => Err(JsonError::invalid("cannot delete from scalar")),
    }
}

/// Where an index lies among so many elements; below zero counted from their end.
fn place(index: i64, count: usize) -> Option<usize> {
    let index = if index < 0 { index + count as i64 } else { index };
    usize::try_from(index).ok().filter(|at| *at < count)
}

/// What is done at the end of a path.
#[derive(Clone, Debug)]
pub enum Edit {
    /// The value goes.
    Delete,
    /// The value is replaced; with `creates`, made where there is none.
    Set {
        /// The new value.
        value: Tree,
        /// Whether there need not be a value.
        creates: bool,
    },
    /// A value is put into an array before or after an element, or into an object.
    Insert {
        /// The new value.
        value: Tree,
        /// Behind the element rather than before it.
        after: bool,
    },
}

/// The document with an edit at the end of a path (`#-`, `jsonb_set`, `jsonb_insert`).
///
/// Errors: 22023 for a scalar and for a key that is there already; 22004 for NULL in the path; 22P02
/// for a step into an array that is no number.
pub fn edited(mut document: Tree, path: &[Option<String>], edit: &Edit) -> Result<Tree> {
    if document.is_scalar() {
        return Err(JsonError::invalid(match edit {
            Edit::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        }));
    }
    let creates = matches!(edit, Edit::Set { creates: true, .. } | Edit::Insert { .. });
    let is_empty = match &document {
        Tree::Array(elements) => elements.is_empty(),
        Tree::Object(pairs) => pairs.is_empty(),
        _ => false,
    };
    if !path.is_empty() && (creates || !is_empty) {
        edit_at(&mut document, path, 0, edit)?;
    }
    Ok(document)
}

fn edit_at(node: &mut Tree, path: &[Option<String>], level: usize, edit: &Edit) -> Result<()> {
    if node.is_scalar() {
        return Ok(());
    }
    let Some(step) = &path[level] else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(JsonError::new(b"22004", message));
    };
    let is_last = level + 1 == path.len();
    match node {
        Tree::Object(pairs) => {
            let own = pairs.iter().position(|(key, _)| key == step);
            match (own, is_last, edit) {
                (Some(at), false, _) => edit_at(&mut pairs[at].1, path, level + 1, edit)?,
                (Some(at), true, Edit::Delete) => {
                    pairs.remove(at);
                }
                (Some(at), true, Edit::Set { value, .. }) => pairs[at].1 = value.clone(),
                (Some(_), true, Edit::Insert { .. }) => {
                    let hint = "Try using the function jsonb_set to replace key value.";
                    return Err(JsonError::invalid("cannot replace existing key").hint(hint));
                }
                (None, true, Edit::Set { value, creates: true } | Edit::Insert { value, .. }) => {
                    let mut all = std::mem::take(pairs);
                    all.push((step.clone(), value.clone()));
                    *node = Tree::object(all);
                }
                (None, ..) => {}
            }
        }
        Tree::Array(elements) => {
            let Some(index) = index(step) else {
                let message =
                    format!("path element at position {} is not an integer: \"{step}\"", level + 1);
                return Err(JsonError::new(b"22P02", message));
            };
            match (place(index, elements.len()), is_last, edit) {
                (Some(at), false, _) => edit_at(&mut elements[at], path, level + 1, edit)?,
                (Some(at), true, Edit::Delete) => {
                    elements.remove(at);
                }
                (Some(at), true, Edit::Set { value, .. }) => elements[at] = value.clone(),
                (Some(at), true, Edit::Insert { value, after }) => {
                    elements.insert(at + usize::from(*after), value.clone());
                }
                (None, true, Edit::Set { value, creates: true } | Edit::Insert { value, .. }) => {
                    let at = if index < 0 { 0 } else { elements.len() };
                    elements.insert(at, value.clone());
                }
                (None, ..) => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// The most elements of an array that an assignment to one beyond its end makes.
const ELEMENTS_MAX: usize = 1 << 20;

/// The document with a value under a subscript, as `SET document[step] = value` has it: in an object a pair; in an array an
/// element, with nulls before it if it lies beyond the end. NULL is an empty array if the subscript is a number, else an
/// empty object.
///
/// Errors: 22023 for a scalar and for a place before the first element; 22P02 for a step into an array that is no number;
/// 54000 for a place far beyond the end.
pub fn assigned(document: Option<Tree>, step: &str, is_number: bool, value: Tree) -> Result<Tree> {
    let empty = if is_number { Tree::Array(Vec::new()) } else { Tree::object(Vec::new()) };
    Ok(match document.unwrap_or(empty) {
        Tree::Object(mut pairs) => {
            pairs.push((step.to_owned(), value));
            Tree::object(pairs)
        }
        Tree::Array(mut elements) => {
            let Some(index) = index(step) else {
                let message = format!("path element at position 1 is not an integer: \"{step}\"");
                return Err(JsonError::new(b"22P02", message));
            };
            let from = if index < 0 { elements.len() as i64 } else { 0 };
            let Ok(at) = usize::try_from(from + index) else {
                let message = format!("path element at position 1 is out of range: {index}");
                return Err(JsonError::new(b"22023", message));
            };
            if at >= elements.len() {
                if at >= ELEMENTS_MAX {
                    let message =
                        format!("an array of more than {ELEMENTS_MAX} elements by assignment");
                    return Err(JsonError::new(b"54000", message));
                }
                elements.resize(at + 1, Tree::Null);
            }
            elements[at] = value;
            Tree::Array(elements)
        }
        _ => return Err(JsonError::invalid("cannot replace existing key")),
    })
}

/// The document without the pairs of objects whose value is null.
pub fn without_nulls(tree: Tree) -> Tree {
    match tree {
        Tree::Object(pairs) => {
            let kept = pairs.into_iter().filter(|(_, value)| *value != Tree::Null);
            Tree::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Tree::Array(elements) => Tree::Array(elements.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn path(steps: &[&str]) -> Vec<Option<String>> {
        steps.iter().map(|step| Some((*step).to_owned())).collect()
    }

    fn shown(tree: &Tree) -> String {
        Node::new(&tree.encode()).text()
    }

    #[test]
    fn containment_is_postgresqls() {
        for (document, part, expected) in [
            (r#"{"a":1,"b":{"c":[1,2,{"d":null}]}}"#, r#"{"b":{"c":[{"d":null}]}}"#, true),
            (r#"{"a":1}"#, r#"{"a":1.0}"#, true),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"["a","b"]"#, r#""b""#, true),
            (r#""b""#, r#"["b"]"#, false),
            (r#"[["a"]]"#, r#"["a"]"#, false),
            ("[1,2,2]", "[2,1,1]", true),
            ("[[1,2]]", "[[1]]", true),
            ("[]", "[]", true),
            ("{}", "[]", false),
            ("[1]", "{}", false),
        ] {
            let [document, wanted] = [document, part].map(|t| parse::tree(t).unwrap().encode());
            let found = contains(Node::new(&document), Node::new(&wanted));
            assert_eq!(found, expected, "{part}");
        }
    }

    #[test]
    fn edits_reach_the_end_of_their_path() {
        let set = |value: &str, creates| Edit::Set { value: parse::tree(value).unwrap(), creates };
        let insert =
            |value: &str, after| Edit::Insert { value: parse::tree(value).unwrap(), after };
        for (document, steps, edit, expected) in [
            (r#"{"a":[1,2]}"#, &["a", "-1"][..], set("9", false), r#"{"a": [1, 9]}"#),
            (r#"{"a":[1,2]}"#, &["a", "7"], set("9", true), r#"{"a": [1, 2, 9]}"#),
            (r#"{"a":[1,2]}"#, &["a", "-7"], set("9", true), r#"{"a": [9, 1, 2]}"#),
            (r#"{"a":[1,2]}"#, &["a", "7"], set("9", false), r#"{"a": [1, 2]}"#),
            (r#"{"a":1}"#, &["b"], set("9", true), r#"{"a": 1, "b": 9}"#),
            (r#"{"a":1}"#, &["b", "c"], set("9", true), r#"{"a": 1}"#),
            (r#"{"a":1}"#, &["a", "c"], set("9", true), r#"{"a": 1}"#),
            ("[1,2]", &["0"], insert("9", true), "[1, 9, 2]"),
            ("[1,2]", &["0"], insert("9", false), "[9, 1, 2]"),
            (r#"{"a":{"b":1,"c":2}}"#, &["a", "b"], Edit::Delete, r#"{"a": {"c": 2}}"#),
            ("[1,2]", &["5"], Edit::Delete, "[1, 2]"),
        ] {
            let tree = parse::tree(document).unwrap();
            assert_eq!(shown(&edited(tree, &path(steps), &edit).unwrap()), expected);
        }
        for (document, steps, edit, state) in [
            ("1", path(&["a"]), Edit::Delete, b"22023"),
            ("[1]", path(&["a"]), Edit::Delete, b"22P02"),
            ("[1]", vec![None], Edit::Delete, b"22004"),
            (r#"{"a":1}"#, path(&["a"]), insert("9", true), b"22023"),
        ] {
            let tree = parse::tree(document).unwrap();
            let error = edited(tree, &steps, &edit).expect_err(document);
            assert_eq!(&error.told().state, state);
        }
    }
}
