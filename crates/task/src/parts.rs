//! Parts of a shared cache, and which workers fill which part.
//!
//! A runtime can be *divided* ([`crate::Runtime::divide`]): each worker then belongs to a [`Part`] of its island's cache, since the
//! processors that it is bound to fill only that part (a mask of the cache's ways, set elsewhere). Groups of tasks say how
//! they use the cache ([`crate::Group::cache`]), and run on workers of the part that suits them.
//!
//! An island is *contested* while groups that live from its cache and groups that pollute it are both there. On a contested
//! island the former run on workers of the sensitive part only, and the latter on those of the polluting part; no worker with
//! nothing to do takes work of the other kind, since that would fill the others' ways with what they do not want, or leave a
//! step that lives from the cache a tenth of it, for which its whole statement waits. On an island that is not
//! contested there is nobody to be hurt, and every worker runs everything. Groups that are neither ([`CacheUse::Adaptive`]) run
//! everywhere at all times. A step that runs when an island becomes contested ends where it is.
//!
//! Invariant, checked by `a_contested_island_keeps_both_kinds_apart_and_an_uncontested_one_uses_all_workers`: a step of a group
//! begins on a worker that suits it, if the group's island has one, unless the island became contested within that step's turn.
//! Pulled tasks and tasks placed on one worker by name stay there.

use crate::annotation::CacheUse;
use halcyon_base::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The part of a cache that a worker's processors fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// All of the cache.
    #[default]
    Whole = 0,
    /// The ways for work that lives from the cache.
    Sensitive = 1,
    /// The ways for work that pollutes the cache.
    Polluting = 2,
}

impl Part {
    /// The part's name.
    pub fn name(self) -> &'static str {
        match self {
            Part::Whole => "whole",
            Part::Sensitive => "sensitive",
            Part::Polluting => "polluting",
        }
    }

    /// Whether work of this use belongs on a worker of the part while the island is contested.
    pub(crate) fn suits(self, cache: CacheUse) -> bool {
        !matches!(
            (self, cache),
            (Part::Sensitive, CacheUse::Polluting) | (Part::Polluting, CacheUse::Sensitive)
        )
    }
}

/// What a worker is told when a runtime is divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPart {
    /// The part of the cache that the processors fill.
    pub part: Part,
    /// The processors that the worker is bound to; empty: those that it has.
    pub cpus: Vec<u32>,
}

/// The parts of all workers.
pub(crate) struct Parts {
    is_on: AtomicBool,
    of: Box<[AtomicU8]>,
}

impl Parts {
    pub(crate) fn new(workers: usize) -> Parts {
        Parts {
            is_on: AtomicBool::new(false),
            of: (0..workers).map(|_| AtomicU8::new(Part::Whole as u8)).collect(),
        }
    }

    /// Whether the runtime is divided.
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn of(&self, worker: usize) -> Part {
        match self.of[worker].load(Ordering::Relaxed) {
            1 => Part::Sensitive,
            2 => Part::Polluting,
            _ => Part::Whole,
        }
    }

    /// Gives every worker its part; none without parts.
    pub(crate) fn set(&self, parts: Option<&[WorkerPart]>) {
        for (number, of) in self.of.iter().enumerate() {
            let part = parts.map_or(Part::Whole, |parts| parts[number].part);
            of.store(part as u8, Ordering::SeqCst);
        }
        self.is_on.store(parts.is_some(), Ordering::SeqCst);
    }
}
