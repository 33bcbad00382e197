//! The maps of a view under compiled triggers, with the watches that are told of their changes and the
//! journal that takes an event back.
//!
//! A *watch* is a derived relation's interest in its map. The first change of an entry since the
//! watch was last served is noted with the entry as it was; a stamp behind the payload says that it
//! has been noted, so that a further change costs one comparison. An entry that becomes zero stays,
//! with its
//! stamps, until all watches have been served.
//!
//! The *journal* holds what entries were before the event's changes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::code::{Out, OutKind, Registers};
use super::compile::RowCode;
use crate::error::EvalError;
use crate::maps::any::{HashMap, OrderedMap};
use crate::maps::hint::{ENTRIES_AHEAD, HELPS, PLACES_AHEAD};
use crate::maps::ordered::KEY_WORDS_MAX;
use crate::maps::shape::{Wide, is_zero, same};
use crate::maps::slab::Slab;
use crate::maps::sums::Sums;
use crate::maps::table::Table;
use crate::program::MapDecl;
use crate::scalar::sum_to_float;
use crate::value::{halves, order_int, unorder_float, wide};

/// Marks in the journal that what follows the key was added, instead of there before.
const DELTA: u64 = 1 << 63;

/// Prefetching begins at so many noted entries. (In tests at few.)
const NOTED_MIN: usize = if cfg!(test) { 4 } else { 1 << 10 };

/// All maps of a view, and what their changes leave behind.
pub struct Maps {
    /// The maps never move: machine code has their addresses, and the addresses of what lies in them.
    pub all: Box<[Map]>,
    /// The watches never move either: machine code has their addresses.
    pub watches: Box<[Watch]>,
    journal: Vec<u64>,
    /// Changes of the event's first trigger that can be taken back from its registers, one bit each
    /// ([`super::code::Code::undos`]).
    pub done: u64,
    /// The error with which machine code failed, if its status has no number for that error.
    #[cfg(feature = "native")]
    pub error: Option<crate::error::ApplyError>,
    /// The panic of a function that machine code has called.
    #[cfg(feature = "native")]
    pub panic: Option<Box<dyn core::any::Any + Send>>,
    /// Buffers for a key, a payload and a row, reused by all operations.
    pub scratch: Scratch,
}

/// A map with its sums and its watches.
pub struct Map {
    pub structure: MapStructure,
    pub sums: Sums,
    pub key_words: usize,
    /// Of a sorted map: the number of leading key words that choose a tree.
    pub prefix_words: usize,
    /// Indices of watches, in the order of their stamps.
    pub watches: Vec<usize>,
    /// Some watch needs the group's old row computed before an entry changes.
    pub eager: bool,
    /// Some watch has a [`Crossing`].
    crossed: bool,
}

/// The structure that holds the entries of a map.
#[expect(clippy::large_enum_variant, reason = "one per map, and every event goes through it")]
pub enum MapStructure {
    /// A map without order; the watches' stamps lie behind the payloads.
    Hash(HashMap),
    /// A sorted map; the watches' stamps lie in a table of their own, by key.
    Ordered(OrderedMap, Option<Table<Wide>>),
}

/// A watch: a derived relation's interest in the changes of its map.
pub struct Watch {
    pub relation: usize,
    pub map: usize,
    /// Position of this watch's stamp among the stamps of an entry.
    stamp: usize,
    /// The stamp that says: noted since the watch was last served.
    epoch: u64,
    /// Noted entries: the key, and behind it the old payload; if `eager`, 1 and the old row
    /// instead, or 0 if the group had no row.
    pub log: Slab,
    /// Computes a group's row. Taken out while it runs.
    pub row: Option<Box<RowMaker>>,
    /// The row depends on other maps as well, so the old row is computed before anything changes.
    pub eager: bool,
    /// Set if the row consists of key columns alone: then a change of the payload can only make the
    /// row come or go.
    crossing: Option<Crossing>,
}

/// A crossing test: decides from its payload whether a group has a row, which it has if all these
/// components lie within their bounds.
#[derive(Debug)]
pub struct Crossing(Vec<ComponentBounds>);

/// Bounds of one component of a payload.
#[derive(Clone, Copy, Debug)]
pub struct ComponentBounds {
    /// First word of the component; two words if wide.
    pub word: usize,
    pub wide: bool,
    pub low: i128,
    pub high: i128,
}

impl Crossing {
    /// Makes the test of the bounds that components must lie within, all of them.
    pub fn new(bounds: Vec<ComponentBounds>) -> Self {
        Crossing(bounds)
    }

    /// The bounds of all components tested.
    #[cfg(feature = "native")]
    pub fn bounds(&self) -> &[ComponentBounds] {
        &self.0
    }

    /// Whether a group of this payload has a row.
    #[inline(always)]
    fn has_row(&self, payload: &[u64]) -> bool {
        self.0.iter().all(|bounds| {
            let value = match bounds.wide {
                false => i128::from(payload[bounds.word] as i64),
                true => wide(payload[bounds.word], payload[bounds.word + 1]),
            };
            bounds.low <= value && value <= bounds.high
        })
    }
}

/// The computation of a group's row: code with its registers.
pub struct RowMaker {
    pub code: RowCode,
    pub registers: Registers,
}

/// Buffers that are taken out while they are in use.
#[derive(Default)]
pub struct Scratch {
    pub row: Vec<u64>,
    pub sum: Vec<u64>,
    pub key: Vec<u64>,
}

impl Map {
    /// Makes an empty map. `prefix`: number of leading columns that every question to a sorted map
    /// gives.
    pub fn new(declared: &MapDecl, prefix: usize, watches: Vec<usize>, eager: bool) -> Self {
        let key_words = declared.key.iter().map(|ty| ty.words()).sum();
        let stamps = watches.len();
        let structure = if declared.ordered {
            let touched = Table::new(Wide { key: key_words, value: stamps });
            MapStructure::Ordered(
                OrderedMap::new(declared, prefix),
                (stamps > 0).then_some(touched),
            )
        } else {
            MapStructure::Hash(HashMap::new(declared, stamps))
        };
        let prefix_words = declared.key[..prefix].iter().map(|ty| ty.words()).sum();
        let sums = Sums::new(&declared.payload);
        Map { structure, sums, key_words, prefix_words, watches, eager, crossed: false }
    }

    /// The payload of a key, if there is an entry.
    #[inline(always)]
    pub fn payload(&self, key: &[u64]) -> Option<&[u64]> {
        match &self.structure {
            MapStructure::Hash(map) => map.get(key).map(|value| &value[..self.sums.words()]),
            MapStructure::Ordered(map, _) => map.get(key),
        }
    }

    /// Stamps of a key, if there is an entry.
    fn stamps(&self, key: &[u64]) -> Option<&[u64]> {
        match &self.structure {
            MapStructure::Hash(map) => map.get(key).map(|value| &value[self.sums.words()..]),
            MapStructure::Ordered(_, touched) => {
                touched.as_ref().and_then(|touched| touched.get(key))
            }
        }
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        match &self.structure {
            MapStructure::Hash(map) => map.bytes(),
            MapStructure::Ordered(map, touched) => {
                map.bytes() + touched.as_ref().map_or(0, Table::bytes)
            }
        }
    }
}

impl Watch {
    pub fn new(
        relation: usize,
        map: usize,
        stamp: usize,
        row: RowMaker,
        eager: bool,
        key_words: usize,
        payload_words: usize,
    ) -> Self {
        let rest = if eager { 1 + row.code.row_words } else { payload_words };
        let log = Slab::new((key_words + rest).max(1));
        let row = Some(Box::new(row));
        Watch { relation, map, stamp, epoch: 1, log, row, eager, crossing: None }
    }

    /// The watch's crossing test, if it has one.
    #[cfg(feature = "native")]
    pub fn crossing(&self) -> Option<&Crossing> {
        self.crossing.as_ref()
    }

    /// Position of this watch's stamp among the stamps of an entry.
    #[cfg(feature = "native")]
    pub fn stamp(&self) -> usize {
        self.stamp
    }

    /// The stamp that entries get when this watch notes them.
    #[cfg(feature = "native")]
    pub fn epoch(&self) -> &u64 {
        &self.epoch
    }

    /// Whether an entry has been noted since the watch was last served.
    #[inline(always)]
    fn has_noted(&self, stamps: &[u64]) -> bool {
        stamps[self.stamp] == self.epoch
    }

    /// Notes an entry with its old payload, unless it has been noted.
    #[inline(always)]
    fn note(&mut self, key: &[u64], value: &mut [u64], payload_words: usize) {
        if self.crossing.is_some() {
            return;
        }
        let (payload, stamps) = value.split_at_mut(payload_words);
        if self.has_noted(stamps) {
            return;
        }
        stamps[self.stamp] = self.epoch;
        if !self.eager {
            self.log_payload(key, payload);
        }
    }

    fn log_payload(&mut self, key: &[u64], payload: &[u64]) {
        let number = self.log.allocate();
        let (log_key, rest) = self.log.piece_mut(number).split_at_mut(key.len());
        log_key.copy_from_slice(key);
        rest[..payload.len()].copy_from_slice(payload);
    }

    /// Forgets all noted entries, once their rows have been dealt with.
    fn serve(&mut self) {
        self.epoch += 1;
        self.log.clear();
    }
}

/// Returns which of the map's watches with a crossing test have a row for this payload now: one bit
/// per watch.
#[inline(always)]
fn have_rows(of_map: &[usize], watches: &[Watch], value: &[u64]) -> u64 {
    let mut rows = 0;
    for (bit, watch) in of_map.iter().enumerate() {
        let crossing = watches[*watch].crossing.as_ref();
        rows |= u64::from(crossing.is_some_and(|crossing| crossing.has_row(value))) << bit;
    }
    rows
}

/// Notes an entry that has been added to, for those watches with a crossing test whose row has come
/// or gone by it. `before`: what [`have_rows`] returned before the addition.
fn note_crossed(
    (of_map, sums): (&[usize], &Sums),
    watches: &mut [Watch],
    before: u64,
    (key, value, delta): (&[u64], &mut [u64], &[u64]),
) {
    let words = sums.words();
    let crossed = before ^ have_rows(of_map, watches, value);
    for (bit, watch) in of_map.iter().enumerate() {
        let watch = &mut watches[*watch];
        let (payload, stamps) = value.split_at_mut(words);
        if crossed >> bit & 1 == 0 || watch.has_noted(stamps) {
            continue;
        }
        stamps[watch.stamp] = watch.epoch;
        watch.log_payload(key, payload);
        let number = watch.log.live() - 1;
        let logged = &mut watch.log.piece_mut(number)[key.len()..][..words];
        sums.deduct(logged, &delta[..words]);
    }
    // An entry that is zero again and noted by no watch is gone: no watch has to be told.
    let (payload, stamps) = value.split_at_mut(words);
    if is_zero(payload) && !of_map.iter().any(|watch| watches[*watch].has_noted(stamps)) {
        stamps.fill(0);
    }
}

impl Maps {
    /// Adds to an entry and notes it for the watches. `journal`: the event may still fail after
    /// this.
    ///
    /// Errors: nothing has changed in this map then.
    #[inline(always)]
    pub fn add(
        &mut self,
        index: usize,
        key: &[u64],
        delta: &[u64],
        journal: bool,
    ) -> Result<(), EvalError> {
        let map = &mut self.all[index];
        let payload_words = map.sums.words();
        let (sums, watches) = (&map.sums, &mut self.watches);
        match &mut map.structure {
            MapStructure::Hash(hash) => hash.change(key, |value| {
                if is_zero(delta) {
                    return Ok(());
                }
                for watch in &map.watches {
                    watches[*watch].note(key, value, payload_words);
                }
                if journal {
                    self.journal.extend_from_slice(key);
                    self.journal.extend_from_slice(&value[..payload_words]);
                    self.journal.push(index as u64);
                }
                let before = match map.crossed {
                    true => have_rows(&map.watches, watches, value),
                    false => 0,
                };
                let added = sums.add(&mut value[..payload_words], delta);
                if added.is_err() && journal {
                    let words = self.journal.len() - key.len() - payload_words - 1;
                    self.journal.truncate(words);
                }
                if added.is_ok() && map.crossed {
                    note_crossed((&map.watches, sums), watches, before, (key, value, delta));
                }
                added
            }),
            MapStructure::Ordered(tree, touched) => {
                if is_zero(delta) {
                    return Ok(());
                }
                if let Some(touched) = touched {
                    let old = &mut self.scratch.sum;
                    old.clear();
                    match tree.get(key) {
                        Some(payload) => old.extend_from_slice(payload),
                        None => old.resize(payload_words, 0),
                    }
                    let Ok(()) = touched.change(key, |stamps| {
                        for watch in &map.watches {
                            let watch = &mut watches[*watch];
                            if stamps[watch.stamp] != watch.epoch {
                                stamps[watch.stamp] = watch.epoch;
                                if !watch.eager {
                                    watch.log_payload(key, old);
                                }
                            }
                        }
                        Ok::<(), core::convert::Infallible>(())
                    });
                }
                if journal && sums.rounds() {
                    let at = self.journal.len();
                    self.journal.extend_from_slice(key);
                    match tree.get(key) {
                        Some(payload) => self.journal.extend_from_slice(payload),
                        None => self.journal.resize(at + key.len() + payload_words, 0),
                    }
                    self.journal.push(index as u64);
                    let added = tree.add(key, delta);
                    if added.is_err() {
                        self.journal.truncate(at);
                    }
                    return added;
                }
                tree.add(key, delta)?;
                if journal {
                    self.journal.extend_from_slice(key);
                    self.journal.extend_from_slice(delta);
                    self.journal.push(index as u64 | DELTA);
                }
                Ok(())
            }
        }
    }

    /// Zeroes the value of a map without a key; returns false if the map has a key.
    #[inline(always)]
    pub fn clear_single(&mut self, index: usize) -> bool {
        let map = &mut self.all[index];
        let words = map.sums.words();
        let MapStructure::Hash(HashMap::Single(value)) = &mut map.structure else { return false };
        if !is_zero(&value[..words]) {
            for watch in &map.watches {
                self.watches[*watch].note(&[], value, words);
            }
            self.journal.extend_from_slice(&value[..words]);
            self.journal.push(index as u64);
            value[..words].fill(0);
        }
        true
    }

    /// Whether some watch needs old rows computed before an entry of this map changes.
    #[inline(always)]
    pub fn is_eager(&self, index: usize) -> bool {
        self.all[index].eager
    }

    /// Watches that must compute the old row of a key before it changes.
    pub fn eager_watches(&self, index: usize, key: &[u64]) -> Vec<usize> {
        let map = &self.all[index];
        let stamps = map.stamps(key);
        let waits = |watch: &usize| {
            let watch = &self.watches[*watch];
            watch.eager && stamps.is_none_or(|stamps| stamps[watch.stamp] != watch.epoch)
        };
        map.watches.iter().copied().filter(waits).collect()
    }

    /// Prefetches the entries that were noted some positions behind entry `number`; see
    /// [`super::ahead`].
    #[inline(always)]
    pub fn ask_for_noted(&self, watch: usize, number: usize) {
        let Watch { log, map, .. } = &self.watches[watch];
        let Map { structure: MapStructure::Hash(hash), key_words, .. } = &self.all[*map] else {
            return;
        };
        if !HELPS || log.live() < NOTED_MIN {
            return;
        }
        if number + PLACES_AHEAD < log.live() {
            hash.ask_for_place(&log.piece(number + PLACES_AHEAD)[..*key_words]);
        }
        if number + ENTRIES_AHEAD < log.live() {
            hash.ask_for_entry(&log.piece(number + ENTRIES_AHEAD)[..*key_words]);
        }
    }

    /// For watches with a crossing test: whether the group had a row when the watch noted it, and
    /// whether it has a row now. `None` for watches without one.
    pub fn crossed(&self, watch: usize, key: &[u64], before: &[u64]) -> Option<[bool; 2]> {
        let watch = &self.watches[watch];
        let crossing = watch.crossing.as_ref()?;
        let now = self.all[watch.map].payload(key);
        // An absent entry has the payload zero, which gives no row: groups that have a row from the
        // start get no crossing test.
        Some([crossing.has_row(before), now.is_some_and(|now| crossing.has_row(now))])
    }

    /// Whether an entry's payload is what it was when a watch noted it.
    pub fn is_as_before(&self, watch: usize, key: &[u64], before: &[u64]) -> bool {
        let now = self.all[self.watches[watch].map].payload(key);
        now.map_or(is_zero(before), |payload| same(payload, before, before.len()))
    }

    /// Takes back all changes since the journal was emptied.
    pub fn undo(&mut self) {
        while let Some(index) = self.journal.pop() {
            let map = &mut self.all[(index & !DELTA) as usize];
            let payload = self.journal.len() - map.sums.words();
            let key = payload - map.key_words;
            let entry = self.journal.split_off(key);
            if index & DELTA == 0 {
                map.set(&entry);
            } else {
                let (key, added) = entry.split_at(map.key_words);
                map.deduct(key, added);
            }
        }
    }

    /// Empties the journal, once the event is complete.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.journal.clear();
        self.done = 0;
    }

    /// Takes back an addition to an entry, for maps whose sums are exact.
    pub fn take_back(&mut self, index: usize, key: &[u64], added: &[u64]) {
        let map = &mut self.all[index];
        let words = map.sums.words();
        match &mut map.structure {
            MapStructure::Hash(hash) => {
                let Ok(()) = hash.change(key, |value| {
                    map.sums.deduct(&mut value[..words], added);
                    Ok::<(), core::convert::Infallible>(())
                });
            }
            MapStructure::Ordered(..) => map.deduct(key, added),
        }
    }

    /// Ends a watch's turn. Noted entries that have become zero are removed, unless another watch
    /// has noted them too.
    pub fn serve(&mut self, watch: usize) {
        let served = &self.watches[watch];
        let (count, index) = (served.log.live(), served.map);
        self.watches[watch].epoch += 1;
        let words = self.all[index].sums.words();
        for number in 0..count {
            self.ask_for_noted(watch, number);
            let map = &mut self.all[index];
            let key = &self.watches[watch].log.piece(number)[..map.key_words];
            let waits = |stamps: &[u64]| {
                let mut watches = map.watches.iter().zip(stamps);
                watches.any(|(watch, stamp)| self.watches[*watch].epoch == *stamp)
            };
            match &mut map.structure {
                MapStructure::Hash(HashMap::Single(_)) => {}
                MapStructure::Hash(hash) => {
                    let is_dead =
                        |value: &[u64]| is_zero(&value[..words]) && !waits(&value[words..]);
                    if hash.get(key).is_some_and(is_dead) {
                        let Ok(()) = hash.change(key, |value| {
                            value.fill(0);
                            Ok::<(), core::convert::Infallible>(())
                        });
                    }
                }
                MapStructure::Ordered(_, Some(touched)) => {
                    if touched.get(key).is_some_and(|stamps| !waits(stamps)) {
                        let Ok(()) = touched.change(key, |stamps| {
                            stamps.fill(0);
                            Ok::<(), core::convert::Infallible>(())
                        });
                    }
                }
                MapStructure::Ordered(_, None) => unreachable!("a watched map notes"),
            }
        }
        self.watches[watch].epoch -= 1;
        self.watches[watch].serve();
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let maps: u64 = self.all.iter().map(Map::bytes).sum();
        maps + self.watches.iter().map(|watch| watch.log.bytes()).sum::<u64>()
    }

    /// Gives a watch a crossing test, where its map allows it: the map must not be sorted, and its
    /// sums must be exact, so that the old payload follows from the new one.
    pub fn only_crossings(&mut self, watch: usize, crossing: Crossing) {
        let map = &mut self.all[self.watches[watch].map];
        if matches!(map.structure, MapStructure::Hash(_))
            && !map.sums.rounds()
            && map.watches.len() <= 64
        {
            map.crossed = true;
            self.watches[watch].crossing = Some(crossing);
        }
    }

    /// Puts maps and their watches together, with an empty journal.
    pub fn new(maps: Vec<Map>, watches: Vec<Watch>) -> Self {
        Maps {
            all: maps.into_boxed_slice(),
            watches: watches.into_boxed_slice(),
            journal: Vec::new(),
            done: 0,
            #[cfg(feature = "native")]
            error: None,
            #[cfg(feature = "native")]
            panic: None,
            scratch: Scratch::default(),
        }
    }

    /// Notes the old row of a key for an eager watch.
    pub fn log_row(&mut self, watch: usize, key: &[u64], row: Option<&[u64]>) {
        let log = &mut self.watches[watch].log;
        let number = log.allocate();
        let (log_key, rest) = log.piece_mut(number).split_at_mut(key.len());
        log_key.copy_from_slice(key);
        rest[0] = u64::from(row.is_some());
        if let Some(row) = row {
            rest[1..=row.len()].copy_from_slice(row);
        }
    }

    /// Calls `each` for every entry of a map whose payload is not zero: key, in the form in which
    /// the map stores it, and payload.
    pub fn for_each_entry(&self, index: usize, each: &mut dyn FnMut(&[u64], &[u64])) {
        let map = &self.all[index];
        let words = map.sums.words();
        match &map.structure {
            MapStructure::Hash(hash) => {
                let mut position = 0;
                while let Some((next, key, value)) = hash.next(position) {
                    position = next;
                    if !is_zero(&value[..words]) {
                        each(key, &value[..words]);
                    }
                }
            }
            MapStructure::Ordered(tree, _) => {
                let mut position = tree.start(&[], &[0; KEY_WORDS_MAX]);
                let mut key = [0; KEY_WORDS_MAX];
                while let Some(payload) = tree.step(&mut position, &mut key) {
                    each(&key[..map.key_words], payload);
                }
            }
        }
    }

    /// Panics unless all invariants of all maps hold.
    pub fn check(&self) {
        assert!(self.journal.is_empty());
        for map in &self.all {
            match &map.structure {
                MapStructure::Hash(hash) => hash.check(),
                MapStructure::Ordered(tree, touched) => {
                    tree.check();
                    touched.iter().for_each(Table::check);
                }
            }
        }
        for watch in &self.watches {
            assert!(watch.row.is_some());
            for number in 0..watch.log.live() {
                let map = &self.all[watch.map];
                let key = &watch.log.piece(number)[..map.key_words];
                let stamps = map.stamps(key).expect("noted entries stay");
                assert_eq!(stamps[watch.stamp], watch.epoch);
            }
        }
    }
}

impl Map {
    /// Takes back an addition to a sorted map whose sums are exact.
    fn deduct(&mut self, key: &[u64], added: &[u64]) {
        let mut delta = vec![0; added.len()];
        self.sums.deduct(&mut delta, added);
        if let MapStructure::Ordered(map, _) = &mut self.structure {
            map.add(key, &delta).expect("a payload that was there fits");
        }
    }

    /// Sets an entry to its old payload; its watches have noted it already.
    fn set(&mut self, entry: &[u64]) {
        let (key, old) = entry.split_at(self.key_words);
        let words = self.sums.words();
        match &mut self.structure {
            MapStructure::Hash(map) => {
                let Ok(()) = map.change(key, |value| {
                    value[..words].copy_from_slice(old);
                    Ok::<(), core::convert::Infallible>(())
                });
            }
            MapStructure::Ordered(map, _) => {
                let mut delta = old.to_vec();
                if let Some(now) = map.get(key) {
                    self.sums.deduct(&mut delta, now);
                }
                map.add(key, &delta).expect("a payload that was there fits");
            }
        }
    }
}

/// Puts words of an entry into registers.
#[inline(always)]
pub fn load(outs: &[Out], entry: &[u64], registers: &mut Registers) {
    for out in outs {
        let from = usize::from(out.from);
        match out.kind {
            OutKind::One => registers.set(out.to, entry[from]),
            kind => load_other(kind, &entry[from..], out.to, registers),
        }
    }
}

fn load_other(kind: OutKind, words: &[u64], to: u16, registers: &mut Registers) {
    use crate::program::Type;
    match kind {
        OutKind::One => registers.set(to, words[0]),
        OutKind::Two => {
            registers.set(to, words[0]);
            registers.set(to + 1, words[1]);
        }
        OutKind::Sum => registers.set(to, sum_to_float(wide(words[0], words[1])).to_bits()),
        OutKind::Ordered(Type::Int) => registers.set(to, order_int(words[0])),
        OutKind::Ordered(Type::Float) => registers.set(to, unorder_float(words[0])),
        OutKind::Ordered(Type::Wide) => {
            let [low, high] = halves(wide(words[1], order_int(words[0])));
            registers.set(to, low);
            registers.set(to + 1, high);
        }
    }
}

/// Loads the registers of an absent entry: sums of zero, keys that read as NULL.
pub fn load_zero(outs: &[Out], registers: &mut Registers) {
    for out in outs {
        load(&[Out { from: 0, ..*out }], &[0; 2], registers);
    }
}
