//! What writers copy because somebody else holds what they are about to change: the price of snapshots, counted.
//!
//! Somebody else is a snapshot, a checkpoint, an undo note that keeps a whole table's root, or Arrow arrays that a query
//! has handed out. Counts are the process's, of all its partitions, and only grow. Nobody decides anything by them.
//! Cost: two additions to words of the process beside a copy of some kilobytes; nothing where nothing is copied.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use triomphe::Arc;

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Copies that writers have made of what others held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    /// Vectors, segments' heads, lists of segments and nodes of indexes that were copied.
    pub count: u64,
    /// Bytes of the copies. What a copied node or head refers to is shared until a change reaches it, and not in here.
    pub bytes: u64,
}

/// The copies of this process so far.
pub fn copies() -> Copies {
    Copies { count: COUNT.load(Relaxed), bytes: BYTES.load(Relaxed) }
}

/// Counts a copy.
pub(crate) fn note(bytes: usize) {
    COUNT.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
}

/// The value for writing: itself if there is no other holder, else a copy.
#[inline]
pub(crate) fn own<T: Clone>(value: &mut Arc<T>) -> &mut T {
    if !value.is_unique() {
        copy(value);
    }
    Arc::get_mut(value).expect("nobody else can hold a value just copied")
}

#[cold]
#[inline(never)]
fn copy<T: Clone>(value: &mut Arc<T>) {
    note(size_of::<T>());
    *value = Arc::new(T::clone(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_somebody_else_holds_is_copied_and_counted() {
        // Other tests of this process copy too, so counts are compared by size alone.
        let mut value = Arc::new([7_u8; 1 << 20]);
        own(&mut value)[0] = 8;
        let (before, held) = (copies(), value.clone());
        own(&mut value)[0] = 9;
        let after = copies();
        assert_eq!((held[0], value[0]), (8, 9));
        assert!(after.count > before.count && after.bytes >= before.bytes + (1 << 20));
    }
}
