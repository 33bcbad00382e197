//! Text that expressions make, in the arena. Functions that only take a part of a text are in
//! `halcyon_value::text`.

use bumpalo::collections::String as ArenaString;

use super::Arena;

/// The text in lower case, in the arena.
pub(super) fn lower<'a>(text: &'a str, arena: &'a Arena) -> &'a str {
    if text.is_ascii() {
        let made = arena.alloc_str(text);
        made.make_ascii_lowercase();
        return made;
    }
    arena.alloc_str(&text.to_lowercase())
}

/// The text in upper case, in the arena.
pub(super) fn upper<'a>(text: &'a str, arena: &'a Arena) -> &'a str {
    if text.is_ascii() {
        let made = arena.alloc_str(text);
        made.make_ascii_uppercase();
        return made;
    }
    arena.alloc_str(&text.to_uppercase())
}

/// The text with every `from` replaced by `to`, in the arena.
pub(super) fn replace<'a>(text: &'a str, from: &str, to: &str, arena: &'a Arena) -> &'a str {
    if from.is_empty() || !text.contains(from) {
        return text;
    }
    let mut made = ArenaString::with_capacity_in(text.len(), arena);
    for (piece_idx, piece) in text.split(from).enumerate() {
        if piece_idx > 0 {
            made.push_str(to);
        }
        made.push_str(piece);
    }
    made.into_bump_str()
}

/// An empty string that grows in the arena.
pub(super) fn builder(arena: &Arena) -> ArenaString<'_> {
    ArenaString::new_in(arena)
}
