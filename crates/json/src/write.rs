//! Strings between quotes, and documents with a line for each member.

use crate::binary::{Kind, Node};

/// Appends a string as JSON writes it.
pub fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{0}'..'\u{20}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The text with a line for each member, indented by four blanks, as `jsonb_pretty` gives it.
pub fn pretty(node: Node<'_>) -> String {
    let mut out = String::new();
    indented(node, 0, &mut out);
    out
}

fn indented(node: Node<'_>, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth));
    };
    match node.kind() {
        Kind::Array => {
            out.push('[');
            for (at, element) in node.elements().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(depth + 1, out);
                indented(element, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Kind::Object => {
            out.push('{');
            for (at, (key, value)) in node.pairs().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                line(depth + 1, out);
                quoted(key, out);
                out.push_str(": ");
                indented(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        _ => node.write(out),
    }
}
