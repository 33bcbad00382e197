//! Documents as they are stored: bytes that compare as PostgreSQL compares `jsonb`.
//!
//! A value is a tag and what follows it; tags ascend as kinds do (null, string, number, false, true,
//! array, object).
//!
//! | tag | what follows |
//! |---|---|
//! | `08` | nothing: an array without elements that is the whole document; it comes before all others |
//! | `10` | nothing: null |
//! | `20` | a string: its bytes, then `00` (no string holds that byte) |
//! | `30` | a number, see below |
//! | `40`, `50` | nothing: false, true |
//! | `60` | an array: the number of elements, then these |
//! | `70` | an object: the number of pairs, then key (as a string, without a tag) and value of each |
//!
//! A count is one byte up to 239, otherwise `f0` and four bytes. A number is a byte of sign and
//! exponent (`80` zero; positive: `a0` and four bytes of an exponent below 0, `a1` to `dd` the exponents 0
//! to 60, `de` and four bytes of larger ones), its digits in pairs, each one greater than its value so
//! that `00` ends them; of a negative number all these bytes are complemented. Then the digits behind the
//! point that are shown: one byte, or `ff` and two.
//!
//! Cost: finding a member reads the members before it, without allocating.

use crate::number::Number;
use crate::string::quoted;
use crate::tree::Tree;

const EMPTY: u8 = 0x08;
const NULL: u8 = 0x10;
const STRING: u8 = 0x20;
const NUMBER: u8 = 0x30;
const FALSE: u8 = 0x40;
const TRUE: u8 = 0x50;
const ARRAY: u8 = 0x60;
const OBJECT: u8 = 0x70;

/// The largest count of one byte.
const COUNT_MAX: usize = 239;

/// The largest exponent that is part of the first byte of a number.
const EXPONENT_MAX: i32 = 60;

impl Tree {
    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Tree::Array(elements) if elements.is_empty() => out.push(EMPTY),
            tree => put(tree, &mut out),
        }
        out
    }
}

fn put(tree: &Tree, out: &mut Vec<u8>) {
    match tree {
        Tree::Null => out.push(NULL),
        Tree::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
        Tree::String(text) => {
            out.push(STRING);
            put_text(text, out);
        }
        Tree::Number(number) => {
            out.push(NUMBER);
            put_number(number, out);
        }
        Tree::Array(elements) => {
            out.push(ARRAY);
            put_count(elements.len(), out);
            elements.iter().for_each(|element| put(element, out));
        }
        Tree::Object(pairs) => {
            out.push(OBJECT);
            put_count(pairs.len(), out);
            for (key, value) in pairs {
                put_text(key, out);
                put(value, out);
            }
        }
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    debug_assert!(!text.contains('\0'), "no string of a document holds a zero byte");
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    if count <= COUNT_MAX {
        out.push(count as u8);
    } else {
        out.push(COUNT_MAX as u8 + 1);
        let count = u32::try_from(count).expect("a document has less than 4 G of members");
        out.extend_from_slice(&count.to_be_bytes());
    }
}

fn put_number(number: &Number, out: &mut Vec<u8>) {
    let from = out.len();
    if number.digits.is_empty() {
        out.push(0x80);
    } else {
        // Flipping the sign bit makes signed numbers compare as bytes.
        let wide = (number.exponent as u32 ^ 0x8000_0000).to_be_bytes();
        match number.exponent {
            ..0 => {
                out.push(0xa0);
                out.extend_from_slice(&wide);
            }
            exponent @ 0..=EXPONENT_MAX => out.push(0xa1 + exponent as u8),
            _ => {
                out.push(0xde);
                out.extend_from_slice(&wide);
            }
        }
        for pair in number.digits.chunks(2) {
            out.push(pair[0] * 10 + pair.get(1).copied().unwrap_or(0) + 1);
        }
        out.push(0);
        if number.is_negative {
            out[from..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    match number.scale {
        scale @ 0..255 => out.push(scale as u8),
        scale => {
            out.push(255);
            out.extend_from_slice(&scale.to_be_bytes());
        }
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Null,
    String,
    Number,
    Bool,
    Array,
    Object,
}

impl Kind {
    /// As `jsonb_typeof` names it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::String => "string",
            Kind::Number => "number",
            Kind::Bool => "boolean",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// A value within a stored document: the bytes from its tag to its end.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    bytes: &'a [u8],
}

impl<'a> Node<'a> {
    /// The document of its bytes, which [`Tree::encode`] has made.
    pub fn new(bytes: &'a [u8]) -> Self {
        Node { bytes }
    }

    /// The kind of the value.
    pub fn kind(self) -> Kind {
        match self.bytes[0] {
            NULL => Kind::Null,
            STRING => Kind::String,
            NUMBER => Kind::Number,
            FALSE | TRUE => Kind::Bool,
            EMPTY | ARRAY => Kind::Array,
            OBJECT => Kind::Object,
            other => panic!("no value begins with {other:#x}"),
        }
    }

    /// Whether it is neither an array nor an object.
    pub fn is_scalar(self) -> bool {
        !matches!(self.kind(), Kind::Array | Kind::Object)
    }

    /// The value as a document of its own.
    pub fn document(self) -> Vec<u8> {
        match self.bytes {
            [ARRAY, 0] => vec![EMPTY],
            bytes => bytes.to_vec(),
        }
    }

    /// The text of a string.
    pub fn string(self) -> Option<&'a str> {
        (self.bytes[0] == STRING).then(|| text(&self.bytes[1..]))
    }

    /// TRUE or FALSE.
    pub fn boolean(self) -> Option<bool> {
        match self.bytes[0] {
            TRUE => Some(true),
            FALSE => Some(false),
            _ => None,
        }
    }

    /// The number.
    pub fn number(self) -> Option<Number> {
        (self.bytes[0] == NUMBER).then(|| number(&self.bytes[1..]))
    }

    /// Elements of an array or pairs of an object.
    pub fn len(self) -> usize {
        match self.kind() {
            Kind::Array | Kind::Object => self.count().0,
            _ => 0,
        }
    }

    /// Whether there is no member.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number of members, and where the first one is.
    fn count(self) -> (usize, usize) {
        match self.bytes {
            [EMPTY] => (0, 1),
            bytes => {
                let (count, width) = count(&bytes[1..]);
                (count, 1 + width)
            }
        }
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> impl Iterator<Item = Node<'a>> {
        let (mut left, mut at) = match self.kind() {
            Kind::Array => self.count(),
            _ => (0, 0),
        };
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let bytes = &self.bytes[at..];
            let length = length(bytes);
            at += length;
            Some(Node { bytes: &bytes[..length] })
        })
    }

    /// The pairs of an object; none of anything else.
    pub fn pairs(self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        let (mut left, mut at) = match self.kind() {
            Kind::Object => self.count(),
            _ => (0, 0),
        };
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let key = text(&self.bytes[at..]);
            at += key.len() + 1;
            let bytes = &self.bytes[at..];
            let length = length(bytes);
            at += length;
            Some((key, Node { bytes: &bytes[..length] }))
        })
    }

    /// The value of a key of an object.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        let is_before = |own: &str| (own.len(), own.as_bytes()) < (key.len(), key.as_bytes());
        let found = self.pairs().find(|(own, _)| !is_before(own))?;
        (found.0 == key).then_some(found.1)
    }

    /// The element of an array; below zero counted from its end.
    pub fn at(self, index: i64) -> Option<Node<'a>> {
        if self.kind() != Kind::Array {
            return None;
        }
        let index = if index < 0 { index + self.len() as i64 } else { index };
        self.elements().nth(usize::try_from(index).ok()?)
    }

    /// The value in memory.
    pub fn tree(self) -> Tree {
        match self.kind() {
            Kind::Null => Tree::Null,
            Kind::Bool => Tree::Bool(self.bytes[0] == TRUE),
            Kind::Number => Tree::Number(number(&self.bytes[1..])),
            Kind::String => Tree::String(text(&self.bytes[1..]).to_owned()),
            Kind::Array => Tree::Array(self.elements().map(Node::tree).collect()),
            Kind::Object => Tree::Object(
                self.pairs().map(|(key, value)| (key.to_owned(), value.tree())).collect(),
            ),
        }
    }

    /// Appends the value's text as `jsonb` is written: `{"a": 1, "b": [true, null]}`.
    pub fn write(self, out: &mut String) {
        match self.kind() {
            Kind::Null => out.push_str("null"),
            Kind::Bool => out.push_str(if self.bytes[0] == TRUE { "true" } else { "false" }),
            Kind::Number => out.push_str(&number(&self.bytes[1..]).to_string()),
            Kind::String => quoted(text(&self.bytes[1..]), out),
            Kind::Array => {
                out.push('[');
                for (at, element) in self.elements().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    element.write(out);
                }
                out.push(']');
            }
            Kind::Object => {
                out.push('{');
                for (at, (key, value)) in self.pairs().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    quoted(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The value's text.
    pub fn text(self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// The bytes of the document without the zeros at the end of its numbers: equal documents have
    /// equal keys, and keys compare as documents do.
    pub fn key(self) -> Vec<u8> {
        fn trimmed(tree: &mut Tree) {
            match tree {
                Tree::Number(number) => number.scale = 0,
                Tree::Array(elements) => elements.iter_mut().for_each(trimmed),
                Tree::Object(pairs) => pairs.iter_mut().for_each(|(_, value)| trimmed(value)),
                _ => {}
            }
        }
        let mut tree = self.tree();
        trimmed(&mut tree);
        tree.encode()
    }

    /// Whether two scalars are equal.
    pub fn same_scalar(self, other: Node<'_>) -> bool {
        match (self.number(), other.number()) {
            (Some(a), Some(b)) => a.cmp(&b).is_eq(),
            (None, None) => self.bytes == other.bytes,
            _ => false,
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    let length = bytes.iter().position(|byte| *byte == 0).expect("a string ends");
    std::str::from_utf8(&bytes[..length]).expect("strings of documents are UTF-8")
}

/// A count and its width.
fn count(bytes: &[u8]) -> (usize, usize) {
    match usize::from(bytes[0]) {
        count @ 0..=COUNT_MAX => (count, 1),
        _ => (u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes")) as usize, 5),
    }
}

/// Bytes of the value that begins here.
fn length(bytes: &[u8]) -> usize {
    match bytes[0] {
        STRING => 1 + text_length(&bytes[1..]),
        NUMBER => 1 + number_length(&bytes[1..]),
        tag @ (ARRAY | OBJECT) => {
            let (count, width) = count(&bytes[1..]);
            let mut at = 1 + width;
            for _ in 0..count {
                if tag == OBJECT {
                    at += text_length(&bytes[at..]);
                }
                at += length(&bytes[at..]);
            }
            at
        }
        _ => 1,
    }
}

fn text_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == 0).expect("a string ends") + 1
}

/// Bytes of sign, exponent and digits.
fn magnitude_length(bytes: &[u8]) -> usize {
    let (first, end) = match bytes[0] {
        0x80 => return 1,
        first @ 0x81.. => (first, 0x00),
        first => (!first, 0xff),
    };
    let digits = if matches!(first, 0xa0 | 0xde) { 5 } else { 1 };
    digits + bytes[digits..].iter().position(|byte| *byte == end).expect("digits end") + 1
}

fn number_length(bytes: &[u8]) -> usize {
    let magnitude = magnitude_length(bytes);
    magnitude + if bytes[magnitude] == 255 { 3 } else { 1 }
}

fn number(bytes: &[u8]) -> Number {
    let length = magnitude_length(bytes);
    let scale = match bytes[length] {
        255 => u16::from_be_bytes(bytes[length + 1..length + 3].try_into().expect("two bytes")),
        scale => u16::from(scale),
    };
    if bytes[0] == 0x80 {
        return Number { is_negative: false, digits: Vec::new(), exponent: 0, scale };
    }
    let is_negative = bytes[0] < 0x80;
    let plain = |byte: u8| if is_negative { !byte } else { byte };
    let (exponent, from) = match plain(bytes[0]) {
        0xa0 | 0xde => {
            let wide: [u8; 4] = bytes[1..5].try_into().expect("four bytes");
            ((u32::from_be_bytes(wide.map(plain)) ^ 0x8000_0000) as i32, 5)
        }
        first => (i32::from(first - 0xa1), 1),
    };
    let pairs = bytes[from..length - 1].iter().map(|byte| plain(*byte) - 1);
    let mut digits: Vec<u8> = pairs.flat_map(|pair| [pair / 10, pair % 10]).collect();
    if digits.last() == Some(&0) {
        digits.pop();
    }
    Number { is_negative, digits, exponent, scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use halcyon_base::rng::Rng;
    use std::cmp::Ordering;

    /// A random document.
    fn any(rng: &mut Rng, depth: usize) -> Tree {
        match rng.below(if depth == 0 { 5 } else { 8 }) {
            0 => Tree::Null,
            1 => Tree::Bool(rng.below(2) == 0),
            2 | 3 => {
                let digits = rng.below(1000).to_string();
                let sign = if rng.below(2) == 0 { "-" } else { "" };
                let point = ["", ".5", ".50", "00", "e70", "e-5", ".123456789012345678901"];
                let text = format!("{sign}{digits}{}", point[rng.below(7) as usize]);
                Tree::Number(Number::read(&text).expect(&text))
            }
            4 => Tree::String(["", "a", "aa", "b", "é\"\\\n"][rng.below(5) as usize].to_owned()),
            5 => Tree::Array((0..rng.below(4)).map(|_| any(rng, depth - 1)).collect()),
            _ => {
                let key = |rng: &mut Rng| ["", "a", "b", "aa", "z"][rng.below(5) as usize];
                let pairs = (0..rng.below(4)).map(|_| (key(rng).to_owned(), any(rng, depth - 1)));
                Tree::object(pairs.collect())
            }
        }
    }

    /// PostgreSQL's order (`compareJsonbContainers`) said plainly.
    fn order(a: &Tree, b: &Tree, is_whole: bool) -> Ordering {
        let rank = |tree: &Tree| match tree {
            Tree::Array(elements) if is_whole && elements.is_empty() => 0,
            Tree::Null => 1,
            Tree::String(_) => 2,
            Tree::Number(_) => 3,
            Tree::Bool(_) => 4,
            Tree::Array(_) => 5,
            Tree::Object(_) => 6,
        };
        rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
            (Tree::String(a), Tree::String(b)) => a.cmp(b),
            (Tree::Number(a), Tree::Number(b)) => a.cmp(b),
            (Tree::Bool(a), Tree::Bool(b)) => a.cmp(b),
            (Tree::Array(a), Tree::Array(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b).map(|(a, b)| order(a, b, false));
                pairs.fold(Ordering::Equal, Ordering::then)
            }),
            (Tree::Object(a), Tree::Object(b)) => a.len().cmp(&b.len()).then_with(|| {
                let pairs = a.iter().zip(b);
                let pairs = pairs.map(|(a, b)| a.0.cmp(&b.0).then(order(&a.1, &b.1, false)));
                pairs.fold(Ordering::Equal, Ordering::then)
            }),
            _ => Ordering::Equal,
        })
    }

    /// Strategy: random documents of few distinct parts; invariants 1 and 2 of the crate, and each is
    /// read back from its bytes and from its text.
    #[test]
    fn stored_documents_compare_as_postgresql_compares_them() {
        let mut rng = Rng::new(11);
        for _ in 0..20_000 {
            let (a, b) = (any(&mut rng, 3), any(&mut rng, 3));
            a.check();
            let bytes = a.encode();
            let node = Node::new(&bytes);
            assert_eq!(node.tree(), a);
            assert_eq!(length(&bytes), bytes.len());
            assert_eq!(parse::tree(&node.text()).expect("its text"), a);
            let other = b.encode();
            let by_key = node.key().cmp(&Node::new(&other).key());
            assert_eq!(by_key, order(&a, &b, true), "{a:?} {b:?}");
            if by_key.is_ne() {
                assert_eq!(bytes.cmp(&other), by_key, "{a:?} {b:?}");
            }
            for (index, element) in node.elements().enumerate() {
                let own = element.document();
                assert_eq!(Node::new(&own).tree(), element.tree());
                assert_eq!(node.at(index as i64).map(Node::tree), Some(element.tree()));
            }
            for (key, value) in node.pairs() {
                assert_eq!(node.get(key).map(Node::tree), Some(value.tree()));
            }
            assert!(node.get("absent").is_none());
        }
        let many = Tree::Array(vec![Tree::Null; 300]);
        assert_eq!(Node::new(&many.encode()).tree(), many);
    }
}
