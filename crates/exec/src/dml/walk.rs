//! The loop of UPDATE and DELETE over the rows that their source has found.

use std::collections::HashSet;

use halcyon_base::ids::RowId;
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::RowSet;
use halcyon_store::ValueRef;

use super::{WriteContext, cancelled, split_row_id};

/// After so many rows memory is given back.
pub(super) const PAUSE_ROWS: usize = 256;

/// After so many rows a statement that lasts looks whether its turn is over.
pub(super) const LOOK_ROWS: usize = 8;

/// Calls `write` for each row of the target that the source names in its first column: with the row's
/// number within `rows`, and its partition and id. `repeats`: the source may name a row several times,
/// of which the first counts. Returns for how many rows it was called.
///
/// Errors: those of `write`; 57014.
#[inline]
pub(super) fn each_target_row<'c>(
    rows: &RowSet,
    repeats: bool,
    cx: &mut WriteContext<'c>,
    arena: &mut Arena,
    mut write: impl FnMut(&mut WriteContext<'c>, &mut Arena, usize, (u32, RowId)) -> Result<()>,
) -> Result<u64> {
    let mut seen = (repeats && rows.len() > 1).then(HashSet::new);
    let mut written = 0;
    for at in 0..rows.len() {
        let ValueRef::Int64(id) = rows.value(at, 0) else { panic!("a row id is an integer") };
        let place = split_row_id(id);
        if seen.as_mut().is_some_and(|seen| !seen.insert(id)) || cx.is_touched(place) {
            if cx.strict {
                return Err(changed_twice());
            }
            continue;
        }
        write(cx, arena, at, place)?;
        written += 1;
        if at % PAUSE_ROWS == PAUSE_ROWS - 1 {
            arena.reset();
            cx.lasts(PAUSE_ROWS, Some(rows.len()));
        }
        if at % LOOK_ROWS == LOOK_ROWS - 1 {
            cx.takes_turns();
        }
        // Rows may be large: a statement that is refused memory ends at once.
        if cx.env.cancel.is_cancelled() {
            return Err(cancelled());
        }
    }
    Ok(written)
}

/// 21000.
fn changed_twice() -> SqlError {
    SqlError::new(SqlState::CARDINALITY_VIOLATION, "MERGE command cannot affect row a second time")
        .hint("Ensure that not more than one source row matches any one target row.")
}
