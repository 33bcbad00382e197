//! The memory of a tree: one long array of zeroed nodes, of which the kernel gives pages as they
//! are touched, huge ones where it can.
//!
//! Because the whole array is there from the start, a node's address is `base + id * size`: no
//! directory to look up, and every `NodeId` below the length is a node, whatever a torn read made
//! of it. So the only `unsafe` is in making and dropping the array. The safe twin (Miri, shuttle)
//! is a `Vec`.

use std::ops::Deref;

use crate::node::Node;

/// A fixed number of nodes.
pub struct Region(imp::Nodes);

impl Region {
    /// Address space for `nodes` zeroed nodes. Memory is taken as nodes are used.
    ///
    /// Panics: if the operating system refuses the address space.
    pub fn new(nodes: usize, huge_pages: bool) -> Self {
        Region(imp::Nodes::new(nodes, huge_pages))
    }
}

impl Deref for Region {
    type Target = [Node];
    #[inline(always)]
    fn deref(&self) -> &[Node] {
        &self.0
    }
}

#[cfg(any(shuttle, miri))]
mod imp {
    use super::*;

    pub struct Nodes(Vec<Node>);

    impl Nodes {
        pub fn new(nodes: usize, _huge_pages: bool) -> Self {
            Nodes((0..nodes).map(|_| Node::zeroed()).collect())
        }
    }

    impl Deref for Nodes {
        type Target = [Node];
        fn deref(&self) -> &[Node] {
            &self.0
        }
    }
}

#[cfg(not(any(shuttle, miri)))]
mod imp {
    use super::*;
    use std::ptr::NonNull;

    const HUGE_PAGE_BYTES: usize = 2 << 20;

    pub struct Nodes {
        first: NonNull<Node>,
        count: usize,
        mapping: *mut libc::c_void,
        mapping_bytes: usize,
    }

    // SAFETY: the fields are an address and lengths of memory that this value alone owns and that
    // is only handed out as `&[Node]`; a `Node` is made of atomics, so sharing it is sound.
    unsafe impl Send for Nodes {}
    // SAFETY: as above.
    unsafe impl Sync for Nodes {}

    impl Nodes {
        pub fn new(count: usize, huge_pages: bool) -> Self {
            assert!(count > 0, "a tree has at least its root");
            let bytes = count.checked_mul(size_of::<Node>()).expect("an address space's worth");
            let mapping_bytes = bytes + HUGE_PAGE_BYTES;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no
            // memory that exists.
            let mapping = unsafe {
                libc::mmap(std::ptr::null_mut(), mapping_bytes, protection, flags, -1, 0)
            };
            assert!(
                mapping != libc::MAP_FAILED,
                "no address space for {mapping_bytes} bytes of nodes: {}",
                std::io::Error::last_os_error()
            );
            let skipped = mapping.align_offset(HUGE_PAGE_BYTES);
            // SAFETY: `skipped < HUGE_PAGE_BYTES`, by which the mapping is longer than the nodes.
            let first = unsafe { mapping.byte_add(skipped) };
            let advice = if huge_pages { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // A kernel without huge pages refuses; small ones serve as well, only slower.
            // SAFETY: the range lies inside our mapping, and the advice changes no contents.
            let _ = unsafe { libc::madvise(first, bytes, advice) };
            let first = NonNull::new(first.cast::<Node>()).expect("mmap does not map address 0");
            Nodes { first, count, mapping, mapping_bytes }
        }
    }

    impl Deref for Nodes {
        type Target = [Node];
        #[inline(always)]
        fn deref(&self) -> &[Node] {
            // SAFETY: `first` is aligned to a huge page and followed by `count` nodes of mapped,
            // zeroed memory, which is a valid `Node` (atomics of 0); it lives until `drop`.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
        }
    }

    impl Drop for Nodes {
        fn drop(&mut self) {
            // SAFETY: our own mapping with the length it was made with; all borrows have ended.
            let result = unsafe { libc::munmap(self.mapping, self.mapping_bytes) };
            debug_assert_eq!(result, 0);
        }
    }
}

/// Asks for the lines of a node that a search reads, without waiting for them.
#[inline(always)]
pub fn prefetch(node: &Node) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(node).cast::<i8>();
        for line in 0..crate::node::NODE_BYTES / 64 {
            // SAFETY: the address lies inside `node`; a prefetch reads nothing architecturally.
            unsafe { _mm_prefetch(address.wrapping_add(line * 64), _MM_HINT_T0) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
    let _ = node;
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::node::{NONE, NodeId};

    #[test]
    fn nodes_of_a_region_are_distinct_and_zeroed() {
        let region = Region::new(100, true);
        assert_eq!(region.len(), 100);
        assert!(region.iter().all(|node| node.count() == 0 && node.high() == 0));
        for (at, node) in region.iter().enumerate() {
            node.initialise(0, at as u64, NodeId(at as u32));
            prefetch(node);
        }
        assert!(region.iter().enumerate().all(|(at, node)| node.high() == at as u64));
        assert_ne!(region[0].right(), NONE);
    }
}
