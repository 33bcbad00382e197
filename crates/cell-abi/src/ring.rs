//! A ring of messages in shared memory: one producer, one consumer, neither of which trusts the
//! other.
//!
//! Layout in words: `tail` (words published so far) at 0, `head` (words consumed so far) at 16, slots
//! from 32 on, a power of two of them. The two counts lie 128 bytes apart, since processors fetch
//! cache lines in pairs. A message is a [`Header`] of two words and its payload, and never more than
//! half of the slots.
//!
//! Invariants, checked by the models of `tests/models.rs` and `agrees_with_its_twin`:
//! 1. Each side keeps its own count to itself and only publishes it: whatever happens to the shared
//!    copy, that side goes on correctly.
//! 2. The other side's count is believed only if it has not gone back and leaves `tail - head`
//!    between 0 and the number of slots; anything else is [`RingError::Counts`], for good.
//! 3. A message's words are copied out of the ring once, and only the copy is looked at.
//! 4. `tail` is stored (release) after a whole message has been written, and loaded (acquire) before
//!    a message is read; `head` is stored (release) after a message has been copied out, and loaded
//!    (acquire) before its slots are written again.
//!
//! Cost: per message, one store to a shared line on each side; the other side's count is loaded only
//! when the own copy of it no longer suffices. Tested: `tests/models.rs` under shuttle, with planted
//! bugs; `agrees_with_its_twin` against a queue behind a lock; random words in place of counts and
//! slots.

use alloc::vec::Vec;
use core::fmt;

use crate::message::Header;
use crate::planted;
use crate::sync::{AtomicU64, Ordering};

/// Words before the slots.
pub const HEADER_WORDS: usize = 32;
const TAIL: usize = 0;
const HEAD: usize = 16;

/// Why a ring cannot be used, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingError {
    /// The number of slots is no power of two, or less than 16.
    Size,
    /// The other side's count cannot be one.
    Counts,
    /// A message claims to be longer than what has been published, or than messages may be.
    Length,
    /// The message to be sent is longer than half of the ring.
    TooLong,
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "the ring's size is no power of two, or too small",
            Self::Counts => "the other side's count of words cannot be one",
            Self::Length => "a message is longer than what was published",
            Self::TooLong => "the message is longer than half of the ring",
        })
    }
}

impl core::error::Error for RingError {}

/// The words of a ring with so many slots.
pub const fn words_of(slots: usize) -> usize {
    HEADER_WORDS + slots
}

/// Whether the two published counts of a ring differ. Anybody may ask; a hint for those who wake or
/// sleep, since either side may write anything.
pub fn has_unread(words: &[AtomicU64]) -> bool {
    words[TAIL].load(Ordering::Acquire) != words[HEAD].load(Ordering::Acquire)
}

fn parts(words: &[AtomicU64]) -> Result<(&AtomicU64, &AtomicU64, &[AtomicU64]), RingError> {
    let slots = words.get(HEADER_WORDS..).ok_or(RingError::Size)?;
    if !slots.len().is_power_of_two() || slots.len() < 16 {
        return Err(RingError::Size);
    }
    Ok((&words[TAIL], &words[HEAD], slots))
}

/// The side of a ring that sends messages.
pub struct Producer<'a> {
    tail: &'a AtomicU64,
    head: &'a AtomicU64,
    slots: &'a [AtomicU64],
    sent: u64,
    /// The last count of the consumer that was believed.
    taken: u64,
}

/// The side of a ring that receives messages.
pub struct Consumer<'a> {
    tail: &'a AtomicU64,
    head: &'a AtomicU64,
    slots: &'a [AtomicU64],
    taken: u64,
    /// The last count of the producer that was believed.
    sent: u64,
}

impl<'a> Producer<'a> {
    /// The sending side of an empty ring: both counts must be zero.
    ///
    /// Errors: [`RingError::Size`].
    pub fn over(words: &'a [AtomicU64]) -> Result<Self, RingError> {
        let (tail, head, slots) = parts(words)?;
        Ok(Producer { tail, head, slots, sent: 0, taken: 0 })
    }

    /// Words that a message's payload may have.
    pub fn payload_words_max(&self) -> usize {
        self.slots.len() / 2 - Header::WORDS
    }

    /// Sends a message, given in pieces; false if there is no room for it now.
    ///
    /// Errors: [`RingError::TooLong`]; [`RingError::Counts`], after which the ring is of no use.
    pub fn push(&mut self, kind: u16, number: u64, pieces: &[&[u64]]) -> Result<bool, RingError> {
        let payload: usize = pieces.iter().map(|piece| piece.len()).sum();
        if payload > self.payload_words_max() {
            return Err(RingError::TooLong);
        }
        let words = (payload + Header::WORDS) as u64;
        let slots = self.slots.len() as u64;
        if slots - self.sent.wrapping_sub(self.taken) < words {
            self.look()?;
            if slots - self.sent.wrapping_sub(self.taken) < words {
                return Ok(false);
            }
        }
        let header = Header { kind, words: payload as u32, number }.encode();
        if planted::is(planted::EARLY_TAIL) {
            self.tail.store(self.sent.wrapping_add(words), Ordering::Release);
        }
        self.write(&header);
        for piece in pieces {
            self.write(piece);
        }
        // Pairs with the load in `Consumer::pop`.
        self.tail.store(self.sent, Ordering::Release);
        Ok(true)
    }

    /// Whether the consumer has taken everything.
    ///
    /// Errors: [`RingError::Counts`].
    pub fn is_drained(&mut self) -> Result<bool, RingError> {
        self.look()?;
        Ok(self.taken == self.sent)
    }

    fn look(&mut self) -> Result<(), RingError> {
        // Pairs with the store in `Consumer::pop`.
        let head = self.head.load(Ordering::Acquire);
        let more = head.wrapping_sub(self.taken);
        if more > self.sent.wrapping_sub(self.taken) {
            return Err(RingError::Counts);
        }
        self.taken = head;
        Ok(())
    }

    #[inline(always)]
    fn write(&mut self, words: &[u64]) {
        let at = self.sent as usize & (self.slots.len() - 1);
        let (first, rest) = words.split_at(words.len().min(self.slots.len() - at));
        for (slot, word) in self.slots[at..].iter().zip(first) {
            slot.store(*word, Ordering::Relaxed);
        }
        for (slot, word) in self.slots.iter().zip(rest) {
            slot.store(*word, Ordering::Relaxed);
        }
        self.sent = self.sent.wrapping_add(words.len() as u64);
    }
}

impl<'a> Consumer<'a> {
    /// The receiving side of an empty ring: both counts must be zero.
    ///
    /// Errors: [`RingError::Size`].
    pub fn over(words: &'a [AtomicU64]) -> Result<Self, RingError> {
        let (tail, head, slots) = parts(words)?;
        Ok(Consumer { tail, head, slots, taken: 0, sent: 0 })
    }

    /// Takes the next message, if there is one: its header, and its payload in place of what is in
    /// `payload`.
    ///
    /// Errors: [`RingError::Counts`], [`RingError::Length`]; the ring is of no use then.
    pub fn pop(&mut self, payload: &mut Vec<u64>) -> Result<Option<Header>, RingError> {
        if self.sent == self.taken {
            // Pairs with the store in `Producer::push`.
            let tail = self.tail.load(Ordering::Acquire);
            let more = tail.wrapping_sub(self.sent);
            if more > self.slots.len() as u64 {
                return Err(RingError::Counts);
            }
            if more == 0 {
                return Ok(None);
            }
            self.sent = tail;
        }
        let published = self.sent.wrapping_sub(self.taken);
        if published < Header::WORDS as u64 {
            return Err(RingError::Length);
        }
        let mask = self.slots.len() - 1;
        let at = self.taken as usize;
        let word = |at: usize| self.slots[at & mask].load(Ordering::Relaxed);
        let header = Header::decode([word(at), word(at.wrapping_add(1))]);
        let words = header.words as usize + Header::WORDS;
        if words as u64 > published || words > self.slots.len() / 2 {
            return Err(RingError::Length);
        }
        if planted::is(planted::EARLY_HEAD) {
            self.head.store(self.taken.wrapping_add(words as u64), Ordering::Release);
        }
        payload.clear();
        let at = at.wrapping_add(Header::WORDS) & mask;
        let first = (header.words as usize).min(self.slots.len() - at);
        let load = |slot: &AtomicU64| slot.load(Ordering::Relaxed);
        payload.extend(self.slots[at..at + first].iter().map(load));
        payload.extend(self.slots[..header.words as usize - first].iter().map(load));
        self.taken = self.taken.wrapping_add(words as u64);
        // Pairs with the load in `Producer::look`.
        self.head.store(self.taken, Ordering::Release);
        Ok(Some(header))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec;
    use halcyon_base::rng::Rng;

    fn ring(slots: usize) -> Vec<AtomicU64> {
        (0..words_of(slots)).map(|_| AtomicU64::new(0)).collect()
    }

    /// The twin: messages in a queue, and the words that they take.
    struct Twin {
        messages: VecDeque<(u16, u64, Vec<u64>)>,
        words: usize,
        slots: usize,
    }

    impl Twin {
        fn push(&mut self, kind: u16, number: u64, payload: Vec<u64>) -> bool {
            let words = payload.len() + Header::WORDS;
            let fits = self.words + words <= self.slots;
            if fits {
                self.words += words;
                self.messages.push_back((kind, number, payload));
            }
            fits
        }

        fn pop(&mut self) -> Option<(u16, u64, Vec<u64>)> {
            let message = self.messages.pop_front()?;
            self.words -= message.2.len() + Header::WORDS;
            Some(message)
        }
    }

    #[test]
    fn agrees_with_its_twin() {
        for (seed, slots) in [(1, 16), (2, 64), (3, 256)] {
            let words = ring(slots);
            let mut producer = Producer::over(&words).expect("a sound ring");
            let mut consumer = Consumer::over(&words).expect("a sound ring");
            let mut twin = Twin { messages: VecDeque::new(), words: 0, slots };
            let (mut rng, mut payload) = (Rng::new(seed), vec![]);
            let (mut sent, mut full) = (0, 0);
            for number in 0..20_000 {
                if rng.below(2) == 0 {
                    let length = rng.below(producer.payload_words_max() as u64 + 1);
                    let message: Vec<u64> = (0..length).map(|_| rng.next_u64()).collect();
                    let (a, b) = message.split_at(length as usize / 3);
                    let pushed = producer.push(5, number, &[a, b]).expect("sound counts");
                    assert_eq!(pushed, twin.push(5, number, message), "{seed} {number}");
                    sent += usize::from(pushed);
                    full += usize::from(!pushed);
                } else {
                    let popped = consumer.pop(&mut payload).expect("sound counts");
                    let popped = popped.map(|head| (head.kind, head.number, payload.clone()));
                    assert_eq!(popped, twin.pop(), "{seed} {number}");
                }
                let drained = producer.is_drained().expect("sound counts");
                assert_eq!(drained, twin.messages.is_empty());
            }
            assert!(sent > 1000 && full > 100, "{sent} {full}");
        }
    }

    #[test]
    fn only_sizes_that_are_powers_of_two_make_a_ring() {
        for words in [0, 31, 32, 40, HEADER_WORDS + 15, HEADER_WORDS + 48] {
            let words: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
            assert_eq!(Producer::over(&words).err(), Some(RingError::Size));
            assert_eq!(Consumer::over(&words).err(), Some(RingError::Size));
        }
    }

    #[test]
    fn a_message_of_more_than_half_of_the_ring_is_refused() {
        let words = ring(16);
        let mut producer = Producer::over(&words).expect("a sound ring");
        assert_eq!(producer.push(1, 1, &[&[0; 7]]), Err(RingError::TooLong));
        assert_eq!(producer.push(1, 1, &[&[0; 6]]), Ok(true));
    }

    #[test]
    fn counts_that_cannot_be_are_told_and_never_followed() {
        let words = ring(16);
        let mut producer = Producer::over(&words).expect("a sound ring");
        let mut consumer = Consumer::over(&words).expect("a sound ring");
        while producer.push(1, 1, &[&[7; 6]]).expect("sound counts") {}
        // The consumer's count runs ahead of what was sent, or goes back.
        for head in [17, u64::MAX, 1 << 63] {
            words[HEAD].store(head, Ordering::Relaxed);
            assert_eq!(producer.push(1, 1, &[&[7; 6]]), Err(RingError::Counts), "{head}");
        }
        for tail in [17, u64::MAX, 1 << 40] {
            words[TAIL].store(tail, Ordering::Relaxed);
            assert_eq!(consumer.pop(&mut vec![]), Err(RingError::Counts), "{tail}");
        }
        words[TAIL].store(1, Ordering::Relaxed);
        assert_eq!(consumer.pop(&mut vec![]), Err(RingError::Length));
    }

    #[test]
    fn random_words_in_the_ring_end_in_an_error_or_in_a_message() {
        let mut rng = Rng::new(9);
        let (mut messages, mut errors) = (0, 0);
        for _ in 0..20_000 {
            let words = ring(64);
            let mut producer = Producer::over(&words).expect("a sound ring");
            let mut consumer = Consumer::over(&words).expect("a sound ring");
            let mut payload = vec![];
            for _ in 0..4 {
                let _ = producer.push(1, 1, &[&[1; 9]]);
                let at = rng.below(words.len() as u64) as usize;
                let value = [rng.next_u64(), rng.below(100), rng.below(16) << 32];
                words[at].store(value[rng.below(3) as usize], Ordering::Relaxed);
                words[HEADER_WORDS].store(rng.next_u64() & 0x3f_ffff_ffff, Ordering::Relaxed);
                match consumer.pop(&mut payload) {
                    Ok(_) => messages += 1,
                    Err(_) => errors += 1,
                }
                assert!(payload.len() <= 32);
            }
        }
        assert!(messages > 1000 && errors > 1000, "{messages} {errors}");
    }
}
