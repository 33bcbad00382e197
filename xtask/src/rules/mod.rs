//! The repository's own rules. Each module has `check(&Workspace)`, which reads files, and a pure
//! function under it, which its test feeds with a planted offence.

pub mod circles;
pub mod claims;
pub mod dead_files;
pub mod excuses;
pub mod invariants;
pub mod layers;
pub mod licences;
pub mod links;
pub mod manifests;
pub mod prices;
pub mod reasons;
pub mod sizes;
pub mod words;

use std::fmt;

/// One breach of a rule: where, and what to do instead.
#[derive(Debug, PartialEq, Eq)]
pub struct Offence {
    place: String,
    message: String,
}

impl Offence {
    /// A breach at `place` (a file, `file:line`, or a package).
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Offence { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
