//! Text that expressions make, in the arena. Functions that only take a part of a text are in
//! `halcyon_value::text`.

use bumpalo::collections::String as ArenaString;

use halcyon_sql::error::{Result, SqlError};

use super::Arena;

/// Texts from this size on are asked for before they are made.
const LARGE_BYTES: usize = 1 << 20;

/// Errors: 53200 if the statement may not have a text of so many bytes.
#[inline]
pub(super) fn require_room(bytes: usize) -> Result<()> {
    match bytes < LARGE_BYTES {
        true => Ok(()),
        false => SqlError::unless_value_refused(bytes as u64),
    }
}

/// The most bytes that a text has with every `from` replaced by `to`; of large ones, the bytes.
#[inline]
pub(super) fn replaced_most(text: &str, from: &str, to: &str) -> usize {
    let with = |found: usize| text.len().saturating_add(found.saturating_mul(to.len()));
    let most = with(text.len().checked_div(from.len()).unwrap_or(0));
    if most < 64 * LARGE_BYTES { most } else { with(text.matches(from).count()) }
}

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
