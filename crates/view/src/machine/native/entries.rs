//! Operations on maps: instructions for the common case, calls for all others.
//!
//! The common change of an entry is small: the entry exists, its watches have noted it, the sums
//! fit and do not become zero. Instructions for that are emitted here; they test all conditions
//! before they write anything. All other changes call the operation itself ([`super::calls::add`]).
//!
//! The instructions contain addresses of maps, of parts of maps and of watches: none of these moves
//! once a machine is built.

use alloc::vec::Vec;
use core::ptr::from_ref;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::super::code::{Limit, OutKind, Site};
use super::super::maps::{ComponentBounds, Crossing, Map, MapStructure};
use super::calls::{self, SUM_WORDS, Words};
use super::emit::{Emitter, Flag, Parameters, TRUSTED, words_of};
use crate::maps::any::{HashMap, OrderedMap, trees};
use crate::maps::ordered::Ordered;
use crate::maps::shape::Shape;
use crate::maps::sliced::Sliced;
use crate::maps::table::Table;
use crate::maps::tables::{Tables, tables};
use crate::program::{BinaryOp, Component, Type};
use crate::value::halves;

/// The place of the value of a key.
enum EntryPlace {
    /// Always at this address.
    Fixed(usize),
    /// At the address that this function returns for this map.
    Found { function: usize, map: usize },
}

/// Functions of a sorted map: its address and those of [`super::calls`].
pub struct Tree {
    map: usize,
    from: usize,
    between: usize,
    add: usize,
    prefix_words: usize,
}

fn place(map: &HashMap) -> EntryPlace {
    match map {
        HashMap::Single(value) => EntryPlace::Fixed(value.as_ptr() as usize),
        HashMap::Table(any) => tables!(any, table => in_table(table)),
        HashMap::Sliced(map) => in_sliced(map),
    }
}

fn in_table<S: Shape>(table: &Table<S>) -> EntryPlace {
    let function = calls::find::<S> as extern "C" fn(&Table<S>, &Words, usize) -> *const u64;
    EntryPlace::Found { function: function as *const () as usize, map: from_ref(table) as usize }
}

fn in_sliced<S: Shape>(map: &Sliced<S>) -> EntryPlace {
    let function =
        calls::find_sliced::<S> as extern "C" fn(&Sliced<S>, &Words, usize) -> *const u64;
    EntryPlace::Found { function: function as *const () as usize, map: from_ref(map) as usize }
}

/// Functions of a map with slices.
struct Slices {
    map: usize,
    start: usize,
    next: usize,
}

fn slices<S: Shape>(map: &Sliced<S>) -> Slices {
    let start =
        calls::start_slice::<S> as extern "C" fn(&Sliced<S>, usize, &mut Words, usize, usize);
    let next = calls::next_of_slice::<S>
        as extern "C" fn(&Sliced<S>, &mut Words, usize, usize) -> *const u64;
    Slices {
        map: from_ref(map) as usize,
        start: start as *const () as usize,
        next: next as *const () as usize,
    }
}

fn tree<S: Shape>(tree: &Ordered<S>) -> Tree {
    type Sums = [u64; SUM_WORDS];
    let from = calls::sum_from::<S> as extern "C" fn(&Ordered<S>, u64, u64, &mut Sums);
    let between = calls::sum_between::<S> as extern "C" fn(&Ordered<S>, u64, u64, u64, &mut Sums);
    let add = calls::tree_add::<S> as extern "C" fn(&mut Ordered<S>, &Words, usize, usize) -> u32;
    Tree {
        map: from_ref(tree) as usize,
        from: from as *const () as usize,
        between: between as *const () as usize,
        add: add as *const () as usize,
        prefix_words: tree.prefix_words(),
    }
}

impl<'a> Emitter<'a, '_> {
    fn site(&self, number: usize) -> (&'a Site, &'a Map) {
        let site = &self.code.sites[number];
        (site, &self.maps.all[usize::from(site.map)])
    }

    // Look-ups.

    /// The payload under a key.
    pub fn get_entry(&mut self, number: usize) {
        let (site, map) = self.site(number);
        let MapStructure::Hash(map) = &map.structure else {
            self.call_site(address!(calls::get), number);
            self.load_outs(number);
            return;
        };
        let found = match place(map) {
            EntryPlace::Fixed(address) => {
                let value = self.word(address);
                self.load_payload(site, value);
                return;
            }
            EntryPlace::Found { function, map } => self.find(function, map, site),
        };
        let (there, not, after) =
            (self.to.create_block(), self.to.create_block(), self.to.create_block());
        self.to.ins().brif(found, there, &[], not, &[]);
        self.enter(there);
        self.load_payload(site, found);
        self.to.ins().jump(after, &[]);
        self.enter(not);
        self.load_zero(site);
        self.to.ins().jump(after, &[]);
        self.enter(after);
        self.know_sums(site);
    }

    /// Notes that a site's sums are never NULL, however they were loaded.
    fn know_sums(&mut self, site: &Site) {
        for out in &site.outs {
            match out.kind {
                OutKind::One => {
                    let sum = self.get(out.to);
                    self.never_null.one.insert(sum);
                }
                OutKind::Two => {
                    let high = self.get(out.to + 1);
                    self.never_null.two.insert(high);
                }
                OutKind::Sum | OutKind::Ordered(_) => {}
            }
        }
    }

    fn find(&mut self, function: usize, map: usize, site: &Site) -> Value {
        let words = self.parameters.words;
        let (map, key) = (self.word(map), self.word(usize::from(site.key)));
        self.call(function, &[map, words, key], Some(I64)).expect("has a result")
    }

    /// Loads the registers of a payload from its address.
    fn load_payload(&mut self, site: &Site, at: Value) {
        for out in &site.outs {
            let words: Vec<Value> = (0..words_of_sum(out.kind))
                .map(|word| {
                    let offset = 8 * i32::from(out.from + word);
                    self.to.ins().load(I64, TRUSTED, at, offset)
                })
                .collect();
            self.set_out(out.to, out.kind, &words);
        }
    }

    /// Loads the registers of an absent payload.
    fn load_zero(&mut self, site: &Site) {
        for out in &site.outs {
            let zero = self.int(0);
            for word in 0..words_of(out) {
                self.set(out.to + word as u16, zero);
            }
        }
    }

    /// Sets the register of a sum, which is never NULL.
    fn set_out(&mut self, to: u16, kind: OutKind, words: &[Value]) {
        match (kind, words) {
            (OutKind::One, [word]) => {
                self.never_null.one.insert(*word);
                self.set(to, *word);
            }
            (OutKind::Two, [low, high]) => {
                self.never_null.two.insert(*high);
                self.set_wide(to, [*low, *high]);
            }
            (OutKind::Sum, sum) => {
                let value = self.call(address!(calls::from_sum), sum, Some(I64));
                self.set(to, value.expect("has a result"));
            }
            (kind, _) => unreachable!("{kind:?} is not of a payload"),
        }
    }

    /// The tree of a site that asks for sums between keys of one word, behind a prefix of at most
    /// one.
    pub fn tree_of_one_word(&self, site: &Site) -> Option<Tree> {
        let map = &self.maps.all[usize::from(site.map)];
        let MapStructure::Ordered(ordered, _) = &map.structure else { return None };
        let tree = trees!(ordered, one => tree(one));
        let fits = tree.prefix_words <= 1
            && site.key_words == tree.prefix_words
            && site.column_words == 1
            && map.key_words == site.key_words + 1
            && map.sums.words() <= SUM_WORDS;
        fits.then_some(tree)
    }

    /// Sums between two keys.
    pub fn range_sum(&mut self, number: usize) {
        let (site, _) = self.site(number);
        let Some(tree) = self.tree_of_one_word(site) else {
            self.call_site(address!(calls::range_sum), number);
            self.load_outs(number);
            return;
        };
        let (nothing, after) = (self.to.create_block(), self.to.create_block());
        let low = match site.low {
            // NULL is zero, so an open lower bound is 1; a bound of NULL makes the range empty.
            Limit::Open => self.word(1),
            Limit::Included(register) => self.bound(register, nothing),
            Limit::Excluded(register) => {
                let bound = self.bound(register, nothing);
                self.next_key(bound, nothing)
            }
        };
        let high = match site.high {
            Limit::Open => None,
            Limit::Excluded(register) => Some((self.bound(register, nothing), false)),
            Limit::Included(register) => {
                let bound = self.bound(register, nothing);
                let one = self.word(1);
                Some((self.to.ins().iadd(bound, one), true))
            }
        };
        let prefix = match tree.prefix_words {
            0 => self.word(0),
            _ => self.get(site.key),
        };
        let (map, sums) = (self.word(tree.map), self.scratch());
        let summed = self.to.create_block();
        if let Some((high, may_wrap)) = high {
            let open = self.to.create_block();
            if may_wrap {
                // No key lies behind the highest one: the range has no end then.
                let bounded = self.to.create_block();
                self.to.ins().brif(high, bounded, &[], open, &[]);
                self.enter(bounded);
            }
            self.call(tree.between, &[map, prefix, low, high, sums], None);
            self.to.ins().jump(summed, &[]);
            if may_wrap {
                self.to.set_cold_block(open);
                self.enter(open);
            }
        }
        if high.is_none_or(|(_, may_wrap)| may_wrap) {
            self.call(tree.from, &[map, prefix, low, sums], None);
            self.to.ins().jump(summed, &[]);
        }
        self.enter(summed);
        for out in &site.outs {
            let words: Vec<Value> = (0..words_of_sum(out.kind))
                .map(|word| self.scratch_word(usize::from(out.from + word)))
                .collect();
            self.set_out(out.to, out.kind, &words);
        }
        self.to.ins().jump(after, &[]);
        self.enter(nothing);
        self.to.set_cold_block(nothing);
        self.load_zero(site);
        self.to.ins().jump(after, &[]);
        self.enter(after);
        self.know_sums(site);
    }

    /// Loads a bound; jumps to `nothing` if it is NULL.
    fn bound(&mut self, register: u16, nothing: cranelift_codegen::ir::Block) -> Value {
        let value = self.get(register);
        let next = self.to.create_block();
        self.to.ins().brif(value, next, &[], nothing, &[]);
        self.enter(next);
        value
    }

    /// The key after another one; jumps to `nothing` if the other is the highest.
    fn next_key(&mut self, key: Value, nothing: cranelift_codegen::ir::Block) -> Value {
        let one = self.word(1);
        let next_key = self.to.ins().iadd(key, one);
        let next = self.to.create_block();
        self.to.ins().brif(next_key, next, &[], nothing, &[]);
        self.enter(next);
        next_key
    }

    // Loops.

    /// The map with slices that a site's loop enumerates by a slice, and which slice that is.
    fn sliced(&self, site: &Site) -> Option<(Slices, usize)> {
        let map = &self.maps.all[usize::from(site.map)];
        match (&map.structure, site.slice) {
            (MapStructure::Hash(HashMap::Sliced(map)), Some(slice)) => {
                Some((slices(map), usize::from(slice)))
            }
            _ => None,
        }
    }

    /// Begins a loop.
    pub fn start(&mut self, number: usize) {
        let (site, _) = self.site(number);
        let Some((slices, slice)) = self.sliced(site) else {
            self.call_site(address!(calls::start), number);
            return;
        };
        let words = self.parameters.words;
        let at = [site.key, site.position].map(|first| self.word(usize::from(first)));
        let (map, slice) = (self.word(slices.map), self.word(slice));
        self.call(slices.start, &[map, slice, words, at[0], at[1]], None);
    }

    /// Goes to the next entry of the slice; jumps to `to` if there is none.
    pub fn next(&mut self, number: usize, to: u32) {
        let (site, map) = self.site(number);
        let Parameters { code, registers, maps, words, .. } = self.parameters;
        let Some((slices, _)) = self.sliced(site) else {
            let at = self.word(number);
            let next = address!(calls::next);
            let found = self.call(next, &[code, at, registers, maps], Some(I32));
            let found = self.to.ins().ireduce(I8, found.expect("has a result"));
            self.unless(found, to);
            self.load_outs(number);
            return;
        };
        let position = self.word(usize::from(site.position));
        let (sliced, payload) = (self.word(slices.map), self.word(map.sums.words()));
        let found = self.call(slices.next, &[sliced, words, position, payload], Some(I64));
        let found = found.expect("has a result");
        let there = self.is_not(found, 0);
        self.unless(there, to);
        for out in &site.keys {
            for word in 0..words_of(out) as u16 {
                let offset = 8 * i32::from(out.from + word);
                let value = self.to.ins().load(I64, TRUSTED, found, offset);
                self.set(out.to + word, value);
            }
        }
        let behind_key = self.word(8 * map.key_words);
        let payload = self.to.ins().iadd(found, behind_key);
        self.load_payload(site, payload);
    }

    // Changes.

    /// Adds to the entry of a map.
    pub fn add_entry(&mut self, number: usize) {
        let (site, map) = self.site(number);
        let after = self.to.create_block();
        match &map.structure {
            _ if site.journal || map.eager => self.add_by_operation(number),
            MapStructure::Hash(hash) => {
                let slow = self.to.create_block();
                self.to.set_cold_block(slow);
                if self.change(site, map, &place(hash), slow) {
                    self.to.ins().jump(after, &[]);
                } else {
                    self.to.ins().jump(slow, &[]);
                }
                self.enter(slow);
                self.add_by_operation(number);
            }
            MapStructure::Ordered(ordered, None) => {
                let tree = trees!(ordered, one => tree(one));
                let words = self.parameters.words;
                let at = [site.key, site.value].map(|first| self.word(usize::from(first)));
                let map = self.word(tree.map);
                let status = self.call(tree.add, &[map, words, at[0], at[1]], Some(I32));
                self.fail_with(status.expect("has a result"));
            }
            MapStructure::Ordered(_, Some(_)) => self.add_by_operation(number),
        }
        self.to.ins().jump(after, &[]);
        self.enter(after);
        if site.undo != 0 {
            let done = self.to.use_var(self.done);
            let bit = self.word(site.undo as usize);
            let done = self.to.ins().bor(done, bit);
            self.to.def_var(self.done, done);
        }
    }

    fn add_by_operation(&mut self, number: usize) {
        let Parameters { code, registers, maps, env, .. } = self.parameters;
        let site = self.word(number);
        let function = address!(calls::add);
        let status = self.call(function, &[code, site, registers, maps, env], Some(I32));
        self.fail_with(status.expect("has a result"));
    }

    /// Emits the change of an entry in place, for changes from which nothing else follows. All
    /// others jump to `slow` before anything is written. Returns false, having emitted nothing, if
    /// every change of the map needs the operation.
    fn change(
        &mut self,
        site: &Site,
        map: &Map,
        place: &EntryPlace,
        slow: cranelift_codegen::ir::Block,
    ) -> bool {
        let watches = || map.watches.iter().map(|watch| &self.maps.watches[*watch]);
        let crossings: Vec<&Crossing> = watches().filter_map(|watch| watch.crossing()).collect();
        if crossings.iter().any(|crossing| crossing.bounds().iter().any(is_beyond)) {
            return false;
        }
        let noting: Vec<(usize, usize)> = watches()
            .filter(|watch| watch.crossing().is_none())
            .map(|watch| (watch.stamp(), from_ref(watch.epoch()) as usize))
            .collect();
        let at = match place {
            EntryPlace::Fixed(address) => self.word(*address),
            EntryPlace::Found { function, map } => {
                let found = self.find(*function, *map, site);
                let there = self.to.create_block();
                self.to.ins().brif(found, there, &[], slow, &[]);
                self.enter(there);
                found
            }
        };
        let payload_words = map.sums.words();
        let mut differs = None;
        for (stamp, epoch) in noting {
            let offset = 8 * (payload_words + stamp) as i32;
            let stamp = self.to.ins().load(I64, TRUSTED, at, offset);
            let epoch = self.word(epoch);
            let epoch = self.to.ins().load(I64, TRUSTED, epoch, 0);
            let other = self.to.ins().icmp(IntCC::NotEqual, stamp, epoch);
            differs = self.either(differs, Some(other));
        }
        let old: Vec<Value> = (0..payload_words)
            .map(|word| self.to.ins().load(I64, TRUSTED, at, 8 * word as i32))
            .collect();
        let (new, fails) = self.added(site, map.sums.components(), &old);
        let mut otherwise = self.either(differs, Some(fails));
        for crossing in crossings {
            let (before, now) = (self.has_row(crossing, &old), self.has_row(crossing, &new));
            if let (Some(before), Some(now)) = (before, now) {
                let crosses = self.to.ins().bxor(before, now);
                otherwise = self.either(otherwise, Some(crosses));
            }
        }
        let store = self.to.create_block();
        let otherwise = otherwise.expect("whether it fails");
        self.to.ins().brif(otherwise, slow, &[], store, &[]);
        self.enter(store);
        for (word, value) in new.iter().enumerate() {
            self.to.ins().store(TRUSTED, *value, at, 8 * word as i32);
        }
        true
    }

    /// Emits the addition to a payload; returns the new payload, and whether it overflows or counts
    /// as zero.
    fn added(
        &mut self,
        site: &Site,
        components: &[Component],
        old: &[Value],
    ) -> (Vec<Value>, Flag) {
        let (mut new, mut fails, mut any) = (Vec::new(), None, self.word(0));
        for component in components {
            let word = new.len();
            let added = site.value + word as u16;
            if *component == Component::Int {
                let added = self.get(added);
                let (sum, overflows) = self.int_sum(BinaryOp::Add, old[word], added);
                fails = self.either(fails, Some(overflows));
                any = self.to.ins().bor(any, sum);
                new.push(sum);
                continue;
            }
            let added = self.get_wide(added);
            let before = [old[word], old[word + 1]];
            let ([low, high], overflows) = self.wide_sum(BinaryOp::Add, before, added);
            fails = self.either(fails, Some(overflows));
            new.extend([low, high]);
            if *component == Component::Wide {
                any = self.to.ins().bor(any, low);
                any = self.to.ins().bor(any, high);
            } else {
                // Sums next to zero count as zero; these bounds enclose all of them.
                let zero = self.word(0);
                let [middle, width] = [1 << 32, 1 << 33].map(|word| self.word(word));
                let shift = self.to.ins().iconcat(middle, zero);
                let sum = self.to.ins().iconcat(low, high);
                let shifted = self.to.ins().iadd(sum, shift);
                let bound = self.to.ins().iconcat(width, zero);
                let far = self.to.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, shifted, bound);
                let far = self.to.ins().uextend(I64, far);
                any = self.to.ins().bor(any, far);
            }
        }
        let zero = self.is(any, 0);
        let fails = self.either(fails, Some(zero)).expect("one of both");
        (new, fails)
    }

    /// Emits the test whether a group of this payload has a row; `None`: it always has.
    fn has_row(&mut self, crossing: &Crossing, payload: &[Value]) -> Option<Flag> {
        let mut all: Option<Flag> = None;
        for bounds in crossing.bounds() {
            let (least, most) = match bounds.wide {
                true => (i128::MIN, i128::MAX),
                false => (i64::MIN.into(), i64::MAX.into()),
            };
            let value = match bounds.wide {
                true => {
                    let [low, high] = [payload[bounds.word], payload[bounds.word + 1]];
                    self.to.ins().iconcat(low, high)
                }
                false => payload[bounds.word],
            };
            let limits = [
                (IntCC::SignedGreaterThanOrEqual, bounds.low, bounds.low <= least),
                (IntCC::SignedLessThanOrEqual, bounds.high, bounds.high >= most),
            ];
            for (condition, limit, is_open) in limits {
                if is_open {
                    continue;
                }
                let [low, high] = halves(limit).map(|word| self.word(word as usize));
                let limit = if bounds.wide { self.to.ins().iconcat(low, high) } else { low };
                let holds = self.to.ins().icmp(condition, value, limit);
                all = Some(match all {
                    None => holds,
                    Some(all) => self.to.ins().band(all, holds),
                });
            }
        }
        all
    }
}

/// Words that a sum takes in a payload.
fn words_of_sum(kind: OutKind) -> u16 {
    match kind {
        OutKind::One => 1,
        OutKind::Two | OutKind::Sum | OutKind::Ordered(Type::Wide) => 2,
        OutKind::Ordered(_) => 1,
    }
}

/// Whether a bound of a one-word component lies beyond all integers, so that no value meets it.
fn is_beyond(bounds: &ComponentBounds) -> bool {
    !bounds.wide && (bounds.low > i64::MAX.into() || bounds.high < i64::MIN.into())
}
