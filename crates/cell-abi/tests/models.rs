//! The ring under the model checker: a producer and a consumer over eight small messages.
//!
//! ```sh
//! RUSTFLAGS='--cfg shuttle' cargo test -p halcyon-cell-abi --test models --target-dir target/shuttle
//! ```
//!
//! The ring holds two messages, so both sides wait for one another again and again. Canaries: with a
//! bug planted (`halcyon_cell_abi::planted`) the same model must fail. Shuttle runs all atomics in one
//! order; that the orderings are strong enough stands in the ring's head as pairs of stores and loads.

#![cfg(shuttle)]

use std::sync::Arc;

use halcyon_base::model::Check;
use halcyon_base::sync::thread;
use halcyon_cell_abi::ring::{Consumer, Producer, words_of};
use halcyon_cell_abi::{AtomicU64, planted};

const MESSAGES: u64 = 8;

/// The payload of a message: its number, some times over. The lengths are such that a message is
/// written over the payload of one that is being copied, if it can be.
fn payload(number: u64) -> Vec<u64> {
    vec![number; 1 + number as usize * 5 % 6]
}

/// Every message arrives once, whole and in order.
fn messages_arrive_whole_and_in_order() {
    let words: Arc<Vec<AtomicU64>> =
        Arc::new((0..words_of(16)).map(|_| AtomicU64::new(0)).collect());
    let theirs = Arc::clone(&words);
    let sender = thread::spawn(move || {
        let mut producer = Producer::over(&theirs).expect("a sound ring");
        for number in 0..MESSAGES {
            while !producer.push(3, number, &[&payload(number)]).expect("sound counts") {
                thread::yield_now();
            }
        }
    });
    let mut consumer = Consumer::over(&words).expect("a sound ring");
    let mut found = Vec::new();
    for number in 0..MESSAGES {
        let header = loop {
            match consumer.pop(&mut found).expect("sound counts and lengths") {
                Some(header) => break header,
                None => thread::yield_now(),
            }
        };
        assert_eq!((header.kind, header.number), (3, number));
        assert_eq!(found, payload(number));
    }
    sender.join().expect("the sender ends");
    assert_eq!(consumer.pop(&mut found), Ok(None));
}

fn check() -> Check {
    Check::new(300).step_limit(20_000)
}

#[test]
fn messages_arrive_whole_and_in_order_under_every_schedule() {
    check().run(messages_arrive_whole_and_in_order);
}

#[test]
fn a_message_that_is_published_too_early_is_seen() {
    check().canary(planted::EARLY_TAIL, messages_arrive_whole_and_in_order);
}

#[test]
fn slots_that_are_given_back_too_early_are_seen() {
    check().canary(planted::EARLY_HEAD, messages_arrive_whole_and_in_order);
}
