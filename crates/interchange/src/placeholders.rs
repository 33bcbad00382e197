//! Placeholders of other drivers, Python's above all, as PostgreSQL's `$1`, `$2`, ….
//!
//! A text has one kind of placeholders: `$1` as it is, or else `%s` and `%(name)s`, or else `?`, or else `:name` and
//! `$name`. Nothing within quotes or comments is a placeholder; but beside `%s`, two percent signs are one everywhere,
//! as Python's drivers have it.

/// A text in PostgreSQL's form.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The text.
    pub text: String,
    /// Which of the caller's parameters the text's are.
    pub order: Order,
}

/// Which of the caller's parameters a text's `$1`, `$2`, … are.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    /// As they are numbered; also of a text without placeholders.
    Numbered,
    /// The caller's, from 0, in turn.
    Places(Vec<usize>),
    /// Those of these names.
    Names(Vec<String>),
}

/// A placeholder, or what looks like one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark<'t> {
    /// `$1`
    Number,
    /// `%s`
    Percent,
    /// `%(name)s`
    PercentName(&'t str),
    /// `%%`, which stands for a percent sign beside `%s`.
    TwoPercent,
    /// `?`
    Question,
    /// `:name` or `$name`
    Name(&'t str),
}

/// Rewrites a text's placeholders.
pub fn rewrite(text: &str) -> Rewritten {
    let marks = marks(text);
    let has = |wanted: fn(&Mark<'_>) -> bool| marks.iter().any(|(_, _, mark)| wanted(mark));
    let plain = |text: &str| Rewritten { text: text.to_owned(), order: Order::Numbered };
    if has(|mark| matches!(mark, Mark::Number)) {
        return plain(text);
    }
    let named = has(|mark| matches!(mark, Mark::PercentName(_)));
    let percent = named || has(|mark| matches!(mark, Mark::Percent));
    let question = !percent && has(|mark| matches!(mark, Mark::Question));
    let mut out = String::with_capacity(text.len() + 8);
    let (mut count, mut names, mut copied) = (0, Vec::<String>::new(), 0);
    for (start, end, mark) in marks {
        let number = match mark {
            Mark::TwoPercent if percent => {
                out.push_str(&text[copied..start]);
                out.push('%');
                copied = end;
                continue;
            }
            Mark::Percent if percent && !named => next(&mut count),
            Mark::Question if question => next(&mut count),
            Mark::PercentName(name) if named => place(&mut names, name),
            Mark::Name(name) if !percent && !question => place(&mut names, name),
            _ => continue,
        };
        out.push_str(&text[copied..start]);
        out.push_str(&format!("${number}"));
        copied = end;
    }
    out.push_str(&text[copied..]);
    let order = match (count, names.is_empty()) {
        (0, true) => Order::Numbered,
        (0, false) => Order::Names(names),
        (count, _) => Order::Places((0..count).collect()),
    };
    Rewritten { text: out, order }
}

/// The text with its question marks as `$1`, `$2`, …; `None` if it has none, or numbers already. Nothing else is a
/// placeholder.
pub fn questions(text: &str) -> Option<String> {
    let marks = marks(text);
    let is_numbered = marks.iter().any(|(_, _, mark)| *mark == Mark::Number);
    if is_numbered || !marks.iter().any(|(_, _, mark)| *mark == Mark::Question) {
        return None;
    }
    let (mut out, mut count, mut copied) = (String::with_capacity(text.len() + 8), 0, 0);
    for (start, end, _) in marks.into_iter().filter(|(_, _, mark)| *mark == Mark::Question) {
        out.push_str(&text[copied..start]);
        out.push_str(&format!("${}", next(&mut count)));
        copied = end;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// How many parameters a text with numbers has: the highest of `$1`, `$2`, ….
pub fn numbers(text: &str) -> usize {
    let numbers = marks(text).into_iter().filter(|(_, _, mark)| *mark == Mark::Number);
    numbers.filter_map(|(start, end, _)| text[start + 1..end].parse().ok()).max().unwrap_or(0)
}

fn next(count: &mut usize) -> usize {
    *count += 1;
    *count
}

/// The number of a name's parameter, from 1: the same for the same name.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    match names.iter().position(|known| known == name) {
        Some(at) => at + 1,
        None => {
            names.push(name.to_owned());
            names.len()
        }
    }
}

/// Everything outside of quotes and comments that may be a placeholder: (start, end, what).
fn marks(text: &str) -> Vec<(usize, usize, Mark<'_>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        match rest {
            [b'\'', ..] => {
                let escapes = at > 0
                    && matches!(bytes[at - 1], b'e' | b'E')
                    && !is_word_before(bytes, at - 1);
                at = push_percents(text, at, end_of_quoted(bytes, at, b'\'', escapes), &mut found);
            }
            [b'"', ..] => {
                at = push_percents(text, at, end_of_quoted(bytes, at, b'"', false), &mut found)
            }
            [b'-', b'-', ..] => {
                at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            [b'/', b'*', ..] => at = end_of_comment(bytes, at),
            [b'$', next, ..] if !is_word_before(bytes, at) => {
                if next.is_ascii_digit() {
                    let end = at + 1 + digits(&bytes[at + 1..]);
                    found.push((at, end, Mark::Number));
                    at = end;
                } else {
                    let end = at + 1 + word(&bytes[at + 1..]);
                    if bytes.get(end) == Some(&b'$') {
                        let tag = &bytes[at..=end];
                        let inner = end + 1;
                        let close =
                            bytes[inner..].windows(tag.len()).position(|window| window == tag);
                        let end = close.map_or(bytes.len(), |close| inner + close + tag.len());
                        at = push_percents(text, at, end, &mut found);
                    } else {
                        push_name(text, at, end, &mut found);
                        at = end;
                    }
                }
            }
            [b':', b':', ..] | [b':', b'=', ..] => at += 2,
            [b':', ..] if !is_word_before(bytes, at) => {
                let end = at + 1 + word(&bytes[at + 1..]);
                push_name(text, at, end, &mut found);
                at = end;
            }
            [b'%', b'%', ..] => {
                found.push((at, at + 2, Mark::TwoPercent));
                at += 2;
            }
            [b'%', b's', ..] => {
                found.push((at, at + 2, Mark::Percent));
                at += 2;
            }
            [b'%', b'(', ..] => {
                let close = text[at..].find(")s");
                let name = close.map(|close| &text[at + 2..at + close]);
                match name.filter(|name| !name.is_empty() && !name.contains(['(', ')', '\'', '\n']))
                {
                    Some(name) => {
                        let end = at + 2 + name.len() + 2;
                        found.push((at, end, Mark::PercentName(name)));
                        at = end;
                    }
                    None => at += 2,
                }
            }
            [b'?', ..] => {
                found.push((at, at + 1, Mark::Question));
                at += 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// Notes two percent signs between quotes. Returns the end.
fn push_percents<'t>(
    text: &'t str,
    start: usize,
    end: usize,
    found: &mut Vec<(usize, usize, Mark<'t>)>,
) -> usize {
    let end = end.min(text.len());
    let pairs = text[start..end].match_indices("%%");
    found.extend(pairs.map(|(at, _)| (start + at, start + at + 2, Mark::TwoPercent)));
    end
}

fn push_name<'t>(text: &'t str, at: usize, end: usize, found: &mut Vec<(usize, usize, Mark<'t>)>) {
    let begins = text.as_bytes().get(at + 1).is_some_and(|byte| !byte.is_ascii_digit());
    if end > at + 1 && begins {
        found.push((at, end, Mark::Name(&text[at + 1..end])));
    }
}

/// Whether the character before belongs to a name.
fn is_word_before(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || matches!(bytes[at - 1], b'_' | 0x80..))
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Bytes of a name of ASCII's letters, digits and underscores.
fn word(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}

/// The place behind the closing quote; the end of the text without one.
fn end_of_quoted(bytes: &[u8], start: usize, quote: u8, escapes: bool) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The place behind a comment, which may hold others; the end of the text without an end.
fn end_of_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}
