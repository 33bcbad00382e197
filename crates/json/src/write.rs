//! Documents with a line for each member.

use crate::binary::{Kind, Node};
use crate::string::quoted;

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
