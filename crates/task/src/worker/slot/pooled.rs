//! Slots from per-worker pools, and intrusive inboxes of them.
//!
//! A *slot* is two cache lines: link, type, header and 88 bytes for the task itself, so that a task
//! of up to 24 bytes is in one line. A *pool* is one worker's list of free slots; a worker that
//! ends a task of another's slot gives the slot back to the pool it came from (*returned*, a stack
//! that only the pool's owner empties, all at once, so that there is no ABA). Memory is freed with
//! the runtime.
//!
//! An *inbox* is Vyukov's intrusive queue of many producers and one consumer: one swap per push of
//! a chain, no allocation, first in first out. The slot that was consumed last stays in it as its
//! *dummy*, so the consumer never writes what producers swap; such a slot is given back only when
//! the next one is consumed, and a task that goes on elsewhere is moved out of it.
//!
//! Invariants, checked by the models `no_push_and_no_wake_is_lost` and
//! `tasks_wander_between_workers_in_their_slots` (1 and 3), and under Miri by
//! `captures_of_any_size_and_alignment_arrive_and_are_dropped_once` (2):
//! 1. A slot is in exactly one place: a free list, a chain, an inbox, or a [`TaskRef`].
//! 2. The body of a slot that a [`TaskRef`] names is initialised and of the type its table is for.
//! 3. `link` belongs to the list the slot is in: to an inbox also while the slot is its dummy.
//!
//! Safe twin: `checked`.
//! Gain over the twin: not measured yet.
//! Source: Vyukov, "Intrusive MPSC node-based queue"; here as a queue with a dummy (Michael and
//! Scott 1996), which saves the consumer's swap on the producers' line.

use super::Header;
use crate::annotation::{LINE_BYTES, WorkerId};
use crate::planted;
use crate::worker::Context;
use crate::worker::task::{Step, Task};
use halcyon_base::sync::atomic::{AtomicPtr, Ordering};
use halcyon_base::sync::{Arc, Mutex};
use std::any::type_name;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Bytes of a task that fit into a slot.
const BODY_BYTES: usize = 88;
/// Slots that a pool gets at once: 64 KiB.
const CHUNK_SLOTS: usize = 512;
/// Slots of another pool that a worker collects before it gives them back.
const RETURN_BATCH: u32 = 32;

/// The slot is the dummy of an inbox.
const DUMMY: u8 = 0x40;
/// The dummy's task has ended: the slot is given back with the next consumption.
const ENDED: u8 = 0x80;

#[repr(C, align(128))]
struct Slot {
    link: AtomicPtr<Slot>,
    table: &'static Table,
    header: Header,
    body: UnsafeCell<MaybeUninit<[u64; BODY_BYTES / 8]>>,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Slot>() == 128);

/// What the runtime needs to know of a task's type.
struct Table {
    /// Runs a step of the task at the address.
    run: unsafe fn(*mut u8, &mut Context) -> Step,
    /// Drops the task at the address.
    drop: Option<unsafe fn(*mut u8)>,
    /// A task that is done needs no drop.
    spent: bool,
    name: fn() -> &'static str,
}

struct TableOf<T>(T);

impl<T: Task> TableOf<T> {
    const TABLE: Table = Table {
        run: run_body::<T>,
        drop: if std::mem::needs_drop::<T>() { Some(drop_body::<T>) } else { None },
        spent: T::SPENT || !std::mem::needs_drop::<T>(),
        name: type_name::<T>,
    };
}

/// # Safety
/// `body` holds a `T`, which nobody else uses meanwhile.
unsafe fn run_body<T: Task>(body: *mut u8, cx: &mut Context) -> Step {
    // SAFETY: as the caller promises; bodies are aligned to 8, and `make` puts no `T` of a larger
    // alignment there.
    unsafe { (*body.cast::<T>()).run(cx) }
}

/// # Safety
/// `body` holds a `T`, which nobody uses from now on.
unsafe fn drop_body<T>(body: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { body.cast::<T>().drop_in_place() }
}

struct Nothing;

impl Task for Nothing {
    fn run(&mut self, _cx: &mut Context) -> Step {
        Step::Done
    }
}

/// A task too large for a slot.
struct Heap<T>(Box<T>);

impl<T: Task> Task for Heap<T> {
    fn run(&mut self, cx: &mut Context) -> Step {
        self.0.run(cx)
    }
}

/// The type of a task.
#[derive(Clone, Copy)]
pub(crate) struct TaskType(&'static Table);

impl Default for TaskType {
    fn default() -> TaskType {
        TaskType(&TableOf::<Nothing>::TABLE)
    }
}

impl TaskType {
    pub(crate) fn name(self) -> &'static str {
        (self.0.name)()
    }
}

/// A task that waits or runs: the one reference to its slot. Dropping it drops nothing; it goes
/// back to a pool.
#[must_use]
pub(crate) struct TaskRef(NonNull<Slot>);

// SAFETY: a `TaskRef` is the only way to its slot (invariant 1), and what is in the slot is `Send`,
// as `Task` demands it.
unsafe impl Send for TaskRef {}

impl TaskRef {
    #[inline(always)]
    fn slot(&self) -> *mut Slot {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the slot is ours alone (invariant 1) but for `link`, which is another field.
        unsafe { &(*self.slot()).header }
    }

    #[inline(always)]
    pub(crate) fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as in `header`, and `self` is borrowed exclusively.
        unsafe { &mut (*self.slot()).header }
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> TaskType {
        // SAFETY: the slot is ours alone (invariant 1) but for `link`; `table` is another field.
        TaskType(unsafe { (*self.slot()).table })
    }

    /// Fetches the slot ahead.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        fetch(self.slot());
    }
}

#[inline(always)]
fn fetch(slot: *mut Slot) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetches neither fault nor change what memory holds, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(slot.cast());
        _mm_prefetch::<_MM_HINT_T0>(slot.cast::<i8>().wrapping_add(LINE_BYTES));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (slot, LINE_BYTES);
}

/// Runs one step of the task that `cx.running` holds.
#[inline(always)]
pub(crate) fn run(cx: &mut Context) -> Step {
    let slot = cx.running.as_ref().expect("a worker runs what it has put here").slot();
    // SAFETY: `cx.running` keeps the slot ours during the step: tasks cannot reach it, and the
    // runtime takes it back only after this returned or unwound. Its body is of the table's type
    // (invariant 2), and is reached through this pointer alone.
    unsafe { ((*slot).table.run)((*slot).body.get().cast(), cx) }
}

/// The slots of a runtime: who owns which, and those on their way back.
pub(crate) struct Arena {
    /// Made by `Box`; raw, as a box that moves would claim its slots for itself.
    chunks: Mutex<Vec<*mut [MaybeUninit<Slot>]>>,
    returned: Box<[Returned]>,
}

/// Slots that others give back to a pool, linked.
#[repr(align(128))]
struct Returned(AtomicPtr<Slot>);

// SAFETY: chunks are only allocated and freed through the mutex; the slots in them are reached
// through `TaskRef`s and lists (invariant 1), not through the arena.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena for `pools` pools.
    pub(crate) fn new(pools: usize) -> Arc<Arena> {
        let returned = (0..pools).map(|_| Returned(AtomicPtr::new(ptr::null_mut()))).collect();
        Arc::new(Arena { chunks: Mutex::default(), returned })
    }

    /// `count` free slots of a pool, linked: the first one.
    fn chunk(&self, owner: u16, count: usize) -> *mut Slot {
        let chunk: *mut [MaybeUninit<Slot>] = Box::into_raw(Box::new_uninit_slice(count));
        let mut next = ptr::null_mut();
        let first = chunk.cast::<Slot>();
        for number in (0..count).rev() {
            let mut header = Header::OUTSIDE;
            header.set_owner(owner);
            let slot = Slot {
                link: AtomicPtr::new(next),
                table: &TableOf::<Nothing>::TABLE,
                header,
                body: UnsafeCell::new(MaybeUninit::uninit()),
            };
            // SAFETY: `number < count` slots were allocated at `first`, and the chunk stays where
            // it is until the arena is dropped.
            next = unsafe {
                let place = first.add(number);
                place.write(slot);
                place
            };
        }
        self.chunks.lock().push(chunk);
        next
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().drain(..) {
            // SAFETY: `chunk` was made by `Box::into_raw`, and is freed here alone. Every holder of
            // slots holds the arena too, or the runtime that does, so the slots are not used any
            // more; slots themselves need no drop.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }
}

/// Makes tasks and takes their slots back.
pub(crate) struct Pool {
    owner: u16,
    free: *mut Slot,
    arena: Arc<Arena>,
    /// Slots of other pools, by owner: first and last of a list, and how many.
    foreign: Box<[(*mut Slot, *mut Slot, u32)]>,
    foreign_count: u32,
}

// SAFETY: the lists of a pool are its own (invariant 1); no other thread reaches their slots.
unsafe impl Send for Pool {}

impl Pool {
    pub(crate) fn new(owner: WorkerId, arena: &Arc<Arena>) -> Pool {
        let nothing = (ptr::null_mut(), ptr::null_mut(), 0);
        Pool {
            owner: owner.0,
            free: ptr::null_mut(),
            arena: Arc::clone(arena),
            foreign: vec![nothing; arena.returned.len()].into_boxed_slice(),
            foreign_count: 0,
        }
    }

    /// A task in a slot; one that is too large gets a box.
    #[inline]
    pub(crate) fn make<T: Task>(&mut self, header: Header, task: T) -> TaskRef {
        if size_of::<T>() <= BODY_BYTES && align_of::<T>() <= align_of::<u64>() {
            // SAFETY: it fits, by size and alignment.
            unsafe { self.put(header, task) }
        } else {
            // SAFETY: a box fits.
            unsafe { self.put(header, Heap(Box::new(task))) }
        }
    }

    /// # Safety
    /// `T` is at most [`BODY_BYTES`] large and aligned to at most 8.
    #[inline(always)]
    unsafe fn put<T: Task>(&mut self, mut header: Header, task: T) -> TaskRef {
        let slot = self.take();
        header.set_owner(self.owner);
        // SAFETY: `take` gives a slot that nobody else has; the body is large and aligned enough,
        // as the caller promises. This makes invariant 2 true.
        unsafe {
            (*slot).table = &TableOf::<T>::TABLE;
            (*slot).header = header;
            (*slot).body.get().cast::<T>().write(task);
            TaskRef(NonNull::new_unchecked(slot))
        }
    }

    /// A free slot.
    #[inline(always)]
    fn take(&mut self) -> *mut Slot {
        if self.free.is_null() {
            self.refill();
        }
        let slot = self.free;
        // SAFETY: `refill` leaves at least one slot; those in the free list are ours alone.
        self.free = unsafe { (*slot).link.load(Ordering::Relaxed) };
        slot
    }

    #[cold]
    fn refill(&mut self) {
        // Pairs with the release in `return_list`: the slots' last users are done with them.
        let returned = &self.arena.returned[usize::from(self.owner)].0;
        self.free = returned.swap(ptr::null_mut(), Ordering::Acquire);
        if self.free.is_null() {
            self.free = self.arena.chunk(self.owner, CHUNK_SLOTS);
        }
    }

    /// Takes back a task that has not run, or panicked: it is dropped.
    pub(crate) fn release(&mut self, task: TaskRef) {
        let slot = task.slot();
        // SAFETY: `task` was the one reference; its body is initialised (invariant 2), and is not
        // used again. If the drop panics the slot is lost to the pool, and nothing else.
        unsafe {
            if let Some(drop) = (*slot).table.drop {
                drop((*slot).body.get().cast());
            }
        }
        self.free_slot(slot);
    }

    /// Takes back a task that is done.
    #[inline(always)]
    pub(crate) fn finish(&mut self, task: TaskRef) {
        // SAFETY: the slot is ours (invariant 1).
        if unsafe { (*task.slot()).table.spent } {
            self.free_slot(task.slot());
        } else {
            self.release(task);
        }
    }

    #[inline(always)]
    fn free_slot(&mut self, slot: *mut Slot) {
        // SAFETY: the slot is ours, and has no task; `link` is ours too unless it is a dummy.
        unsafe {
            if (*slot).header.has(DUMMY) {
                (*slot).header.set(ENDED);
            } else if (*slot).header.owner() == self.owner {
                (*slot).link.store(self.free, Ordering::Relaxed);
                self.free = slot;
            } else {
                self.collect_foreign(slot);
            }
        }
    }

    /// # Safety
    /// The slot is ours, and in no list.
    unsafe fn collect_foreign(&mut self, slot: *mut Slot) {
        // SAFETY: the caller gives a slot that is ours alone, so nobody else touches its header.
        let owner = unsafe { (*slot).header.owner() };
        let list = &mut self.foreign[usize::from(owner)];
        // SAFETY: as the caller promises.
        unsafe { (*slot).link.store(list.0, Ordering::Relaxed) };
        *list = if list.2 == 0 { (slot, slot, 1) } else { (slot, list.1, list.2 + 1) };
        self.foreign_count += 1;
        if list.2 >= RETURN_BATCH {
            self.return_list(usize::from(owner));
        }
    }

    /// Gives slots of other pools back.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.foreign_count > 0 {
            (0..self.foreign.len()).for_each(|owner| self.return_list(owner));
        }
    }

    fn return_list(&mut self, owner: usize) {
        let nothing = (ptr::null_mut(), ptr::null_mut(), 0);
        let (first, last, count) = std::mem::replace(&mut self.foreign[owner], nothing);
        if count == 0 {
            return;
        }
        self.foreign_count -= count;
        let returned = &self.arena.returned[owner].0;
        let mut head = returned.load(Ordering::Relaxed);
        loop {
            // SAFETY: the list is ours until the exchange succeeds.
            unsafe { (*last).link.store(head, Ordering::Relaxed) };
            let exchanged =
                returned.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// The same task in a slot that may be linked: moved, if its slot is the dummy of an inbox.
    #[inline]
    pub(crate) fn detach(&mut self, task: TaskRef) -> TaskRef {
        if !task.header().has(DUMMY) || planted::is(planted::LINKED_DUMMY) {
            return task;
        }
        let (from, to) = (task.slot(), self.take());
        // SAFETY: both slots are ours; the body is moved bytewise, as moves of Rust values are,
        // and the old slot is not used as a task again: it is marked as ended.
        unsafe {
            (*to).table = (*from).table;
            (*to).header = (*from).header;
            (*to).header.set_owner(self.owner);
            (*to).header.clear(DUMMY | ENDED);
            ptr::copy_nonoverlapping((*from).body.get(), (*to).body.get(), 1);
            (*from).header.set(ENDED);
            TaskRef(NonNull::new_unchecked(to))
        }
    }
}

/// Tasks on their way to one inbox, oldest first. None of their slots is a dummy.
pub(crate) struct Chain {
    first: *mut Slot,
    last: *mut Slot,
    count: usize,
}

// SAFETY: the slots of a chain are its own (invariant 1).
unsafe impl Send for Chain {}

impl Default for Chain {
    fn default() -> Chain {
        Chain { first: ptr::null_mut(), last: ptr::null_mut(), count: 0 }
    }
}

impl Chain {
    /// Appends a task that [`Pool::detach`] has seen, or that comes straight from a pool.
    #[inline]
    pub(crate) fn push(&mut self, task: TaskRef) {
        debug_assert!(!task.header().has(DUMMY), "the link of a dummy is its inbox's");
        let slot = task.slot();
        // SAFETY: the slot is ours, and so is its link, as it is no dummy; so is `last`.
        unsafe {
            (*slot).link.store(ptr::null_mut(), Ordering::Relaxed);
            if self.count == 0 {
                self.first = slot;
            } else {
                (*self.last).link.store(slot, Ordering::Relaxed);
            }
        }
        self.last = slot;
        self.count += 1;
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// The producers' side of an inbox: its youngest slot.
pub(crate) struct Inbox(AtomicPtr<Slot>);

impl Inbox {
    /// An empty inbox; its first dummy comes from the arena, for `owner`'s pool.
    pub(crate) fn new(owner: WorkerId, arena: &Arena) -> Inbox {
        let dummy = arena.chunk(owner.0, 1);
        // SAFETY: the arena made the slot just now and keeps it; no inbox or pool has it before us.
        unsafe { (*dummy).header.set(DUMMY | ENDED) };
        Inbox(AtomicPtr::new(dummy))
    }

    /// Appends the chain's tasks in their order, and empties the chain.
    #[inline]
    pub(crate) fn push(&self, chain: &mut Chain) {
        let chain = std::mem::take(chain);
        if chain.count == 0 {
            return;
        }
        // Sequentially consistent: a worker that says it parks looks here afterwards, and who
        // pushes looks at what the worker says afterwards. Acquire: `before` is initialised.
        let before = self.0.swap(chain.last, Ordering::SeqCst);
        let release = if planted::is(planted::LOST_LINK) { return } else { Ordering::Release };
        // SAFETY: `before` stays a slot of this arena, in this inbox, until the consumer has seen
        // the link that is stored here: it is the dummy or a task before us. Nobody else stores
        // this link: each slot is returned by one swap only. Release: who reads the link sees the
        // tasks.
        unsafe { (*before).link.store(chain.first, release) };
    }
}

/// The consumer's side of an inbox: its dummy.
pub(crate) struct Receiver(*mut Slot);

// SAFETY: the dummy but for its link is the receiver's (invariant 3).
unsafe impl Send for Receiver {}

impl Receiver {
    /// The one receiver of an inbox that nobody has pushed to yet.
    pub(crate) fn new(inbox: &Inbox) -> Receiver {
        Receiver(inbox.0.load(Ordering::SeqCst))
    }

    /// Whether [`Receiver::pop`] would give a task. Reads what a push writes once, and nothing else.
    #[inline(always)]
    pub(crate) fn has_task(&self, _inbox: &Inbox) -> bool {
        // SAFETY: the dummy stays ours until `pop` has taken its successor.
        unsafe { !(*self.0).link.load(Ordering::Relaxed).is_null() }
    }

    /// Whether no push has begun that was not consumed; one that has begun may not be visible to
    /// [`Receiver::has_task`] yet.
    pub(crate) fn is_quiet(&self, inbox: &Inbox) -> bool {
        inbox.0.load(Ordering::SeqCst) == self.0
    }

    /// The oldest task.
    #[inline]
    pub(crate) fn pop(&mut self, _inbox: &Inbox, pool: &mut Pool) -> Option<TaskRef> {
        let dummy = self.0;
        // SAFETY: the dummy is ours. Acquire pairs with the link's release in `push`: the next slot
        // is initialised, and becomes ours: the dummy was the only reference to it.
        unsafe {
            let next = NonNull::new((*dummy).link.load(Ordering::Acquire))?;
            fetch(next.as_ptr());
            self.0 = next.as_ptr();
            (*self.0).header.set(DUMMY);
            let ended = (*dummy).header.has(ENDED);
            (*dummy).header.clear(DUMMY | ENDED);
            if ended {
                pool.free_slot(dummy);
            }
            Some(TaskRef(next))
        }
    }
}
