//! The counting allocator gives what the allocator within gives, and counts what was asked for.

use std::alloc::System;

use halcyon_base::memory;
use halcyon_base::rng::Rng;
use halcyon_machine::Counted;

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

#[test]
fn counts_are_the_sizes_that_were_asked_for() {
    let account = memory::Account::new();
    let mut random = Rng::new(7);
    let mut held: Vec<Vec<u8>> = Vec::with_capacity(4096);
    let mut expected = 0_usize;
    {
        let _entered = account.id().enter();
        for _ in 0..4096 {
            let bytes = usize::try_from(random.below(100_000)).expect("small");
            match random.below(4) {
                0 if !held.is_empty() => {
                    let at = usize::try_from(random.below(held.len() as u64)).expect("small");
                    let mut grown = held.swap_remove(at);
                    let before = grown.capacity();
                    grown.reserve_exact(bytes + 1);
                    expected = expected - before + grown.capacity();
                    held.push(grown);
                }
                1 if !held.is_empty() => {
                    let at = usize::try_from(random.below(held.len() as u64)).expect("small");
                    expected -= held.swap_remove(at).capacity();
                }
                2 => {
                    held.push(vec![0; bytes]);
                    expected += bytes;
                }
                _ => {
                    held.push(Vec::with_capacity(bytes));
                    expected += bytes;
                }
            }
        }
    }
    let counted = account.id().bytes().0;
    let expected = i64::try_from(expected).expect("small");
    assert!((counted - expected).abs() <= memory::DRIFT_MAX, "{counted} of {expected}");
    assert!(memory::counted() >= counted);
}
