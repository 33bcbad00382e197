//! Memory that writes keep from one statement of a session to the next.

use halcyon_store::KeyBuf;

use halcyon_sql::coerce::Arena;
use halcyon_sql::rows::RowSet;

/// Buffers of a running write: rows to be written, a key, texts.
#[derive(Default)]
pub struct WriteScratch {
    pub(crate) rows: RowSet,
    pub(crate) key: KeyBuf,
    pub(crate) arena: Arena,
}
