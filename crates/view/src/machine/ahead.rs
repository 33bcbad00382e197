//! Prefetches: hints to the memory about entries that coming events will look up, given while
//! earlier events are at work.
//!
//! Where an entry lies follows from the event's row alone if the entry's key consists of words of
//! that row. A prefetch has two steps, each as many events ahead as the step takes time: the first
//! asks for the place in a hash table; the second, in a map with slices, for the entry to which
//! that place leads. Neither step waits or has any effect but on caches. If the trigger adds to the
//! map of a derived relation whose rows consist of key columns alone, that relation's row is known, too,
//! and the look-ups of its trigger are prefetched as well.

use alloc::vec::Vec;
use core::ops::Range;

use super::code::{Code, Op, Site};
use super::maps::{MapStructure, Maps};
use crate::maps::any::HashMap;
use crate::program::{Expr, Program, Relation};

/// Maps of fewer entries stay in the processor's caches. (In tests the limit is low, so that most
/// maps are prefetched.)
const LEN_MIN: usize = if cfg!(test) { 16 } else { 1 << 15 };

/// A prefetch: one entry, or the entries of a slice, that a trigger looks up by words of the row.
#[derive(Debug)]
pub struct Ahead {
    map: u16,
    key: Range<usize>,
    slice: Option<u16>,
    /// Whether the trigger adds to the entry: it may come or go then, with its places in all
    /// slices.
    changes: bool,
    /// Whether the map is large enough now for prefetches to pay.
    is_large: bool,
}

/// Prefetch plans of all triggers, one list per relation. `codes`: the triggers' operations, in the
/// same order.
pub fn of(program: &Program, codes: &[&Code]) -> Vec<Vec<Ahead>> {
    let of_relation = |(relation, code): (usize, &&Code)| {
        let words = program.relations[relation].columns.iter().map(|ty| ty.words()).sum();
        let mut found = Vec::new();
        let whole: Vec<usize> = (0..words).collect();
        look(code, &whole, &mut found);
        let changes: Vec<(u16, Range<usize>)> =
            found.iter().filter(|one| one.changes).map(|one| (one.map, one.key.clone())).collect();
        for (map, key) in changes {
            for (derived, inner) in program.relations.iter().zip(codes) {
                if let Some(row) = row_of_key(program, derived, map) {
                    let row: Vec<usize> = row.into_iter().map(|word| key.start + word).collect();
                    look(inner, &row, &mut found);
                }
            }
        }
        found
    };
    codes.iter().enumerate().map(of_relation).collect()
}

/// Returns which words of the map's key make up the row of a derived relation; `None` if the row
/// has anything else in it.
fn row_of_key(program: &Program, relation: &Relation, map: u16) -> Option<Vec<usize>> {
    let derived = relation.derived.as_ref().filter(|derived| derived.map.0 == map)?;
    let key = &program.maps[usize::from(map)].key;
    let mut row = Vec::new();
    for value in &derived.row {
        let Expr::Reg(reg) = value else { return None };
        let column = usize::from(reg.0);
        let first: usize = key.get(..column)?.iter().map(|ty| ty.words()).sum();
        row.extend(first..first + key.get(column)?.words());
    }
    Some(row)
}

/// Adds the look-ups of a piece of code to `found`, each once. `row`: for each word of the
/// trigger's row, its position in the event's row.
fn look(code: &Code, row: &[usize], found: &mut Vec<Ahead>) {
    for op in &code.ops {
        let (Op::Get { site } | Op::Add { site } | Op::Start { site }) = op else { continue };
        let Site { map, key, key_words, slice, .. } = code.sites[usize::from(*site)];
        let changes = matches!(op, Op::Add { .. });
        let Some(words) = row.get(usize::from(key)..usize::from(key) + key_words) else { continue };
        let [first, ..] = words else { continue };
        let key = *first..*first + key_words;
        if !words.iter().copied().eq(key.clone()) {
            continue;
        }
        let known = found
            .iter_mut()
            .find(|known| known.map == map && known.key == key && known.slice == slice);
        match known {
            Some(known) => known.changes |= changes,
            None => found.push(Ahead { map, key, slice, changes, is_large: false }),
        }
    }
}

impl Ahead {
    /// Looks at the map's size anew; returns whether the map is large.
    pub fn measure(&mut self, maps: &Maps) -> bool {
        self.is_large = match &maps.all[usize::from(self.map)].structure {
            MapStructure::Hash(map) => map.len() >= LEN_MIN,
            MapStructure::Ordered(..) => false,
        };
        self.is_large
    }

    /// The first step: asks for the place in the hash table.
    #[inline(always)]
    pub fn ask_for_place(&self, row: &[u64], maps: &Maps) {
        if !self.is_large {
            return;
        }
        let key = &row[self.key.clone()];
        match (&maps.all[usize::from(self.map)].structure, self.slice) {
            (MapStructure::Hash(HashMap::Sliced(map)), None) => {
                map.ask_for_place(key, self.changes)
            }
            (MapStructure::Hash(HashMap::Sliced(map)), Some(slice)) => {
                map.ask_for_list(usize::from(slice), key);
            }
            (MapStructure::Hash(map), _) => map.ask_for_place(key),
            (MapStructure::Ordered(..), _) => {}
        }
    }

    /// The second step, once the place has come: asks for the entry.
    #[inline(always)]
    pub fn ask_for_entry(&self, row: &[u64], maps: &Maps) {
        if !self.is_large {
            return;
        }
        let MapStructure::Hash(HashMap::Sliced(map)) = &maps.all[usize::from(self.map)].structure
        else {
            return;
        };
        let key = &row[self.key.clone()];
        match self.slice {
            None => map.ask_for_entry(key),
            Some(slice) => map.ask_for_first(usize::from(slice), key),
        }
    }
}
