//! A document in memory.

use crate::number::Number;

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Tree>),
    /// Pairs as invariant 1 of the crate orders them; made by [`Tree::object`].
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// An object of pairs in any order; of those with the same key the last one holds.
    pub fn object(mut pairs: Vec<(String, Tree)>) -> Tree {
        let order = |a: &str, b: &str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
        // The sort is stable: of equal keys the last one stays the last.
        pairs.sort_by(|(a, _), (b, _)| order(a, b));
        let mut kept: Vec<(String, Tree)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            match kept.last_mut() {
                Some(last) if last.0 == key => last.1 = value,
                _ => kept.push((key, value)),
            }
        }
        Tree::Object(kept)
    }

    /// Whether it is neither an array nor an object.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Tree::Array(_) | Tree::Object(_))
    }

    /// Panics unless invariant 1 of the crate holds, for tests. O(size).
    pub fn check(&self) {
        match self {
            Tree::Array(elements) => elements.iter().for_each(Tree::check),
            Tree::Object(pairs) => {
                let order =
                    |a: &(String, Tree), b: &(String, Tree)| (a.0.len(), &a.0) < (b.0.len(), &b.0);
                assert!(pairs.is_sorted_by(order), "keys are sorted and distinct");
                pairs.iter().for_each(|(_, value)| value.check());
            }
            _ => {}
        }
    }
}
