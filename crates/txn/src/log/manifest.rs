//! What a database knows of its own files, so that none can be missing in silence.
//!
//! `MANIFEST` has two copies of a few lines of text, of which the whole one of the higher edition
//! counts; docs/log-format.md has the bytes. The lines say how far the log is known to be durable,
//! and which log file is the newest. Recovery refuses a log that ends before, or lacks the file.
//! Invariant, checked by `nothing_acknowledged_is_lost_in_a_crash` and
//! `no_damage_makes_commits_disappear`: what a manifest says is durable was synced before it was
//! said, so no crash makes recovery refuse; and it is said before a commit is acknowledged, so no
//! acknowledged commit can be missing after the process was killed.
//! Cost: a batch overwrites one copy and does not sync it, so the place that is known lags behind
//! after a loss of power, and only then. A new log file, opening and closing sync both copies.

use super::Lsn;
use super::damage::Damage;
use super::disk::{File, Storage, read_all};
use halcyon_base::crc32c::crc32c;
use std::io;

/// Path of the file.
pub(crate) const PATH: &str = "MANIFEST";
const NEW: &str = "MANIFEST.new";
const TITLE: &str = "halcyon database 2";

/// Bytes of a copy: a sector, which disks write wholly or not at all.
const COPY_BYTES: usize = 512;
/// Where the copies are: in pages of their own.
const COPIES: [u64; 2] = [0, 4096];

/// How far a database's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A new database is being made; nobody was told of anything in it.
    Making,
    /// A backup is being written.
    Copying,
    /// The log is open, or was when its process ended.
    Open,
    /// The log was closed in order, and ends where the manifest says.
    Closed,
}

const STAGES: [(Stage, &str); 4] = [
    (Stage::Making, "making"),
    (Stage::Copying, "copying"),
    (Stage::Open, "open"),
    (Stage::Closed, "closed"),
];

impl Stage {
    fn name(self) -> &'static str {
        STAGES.iter().find(|(stage, _)| *stage == self).expect("all are in the table").1
    }

    fn of(name: &str) -> Option<Stage> {
        STAGES.iter().find(|(_, other)| *other == name).map(|(stage, _)| *stage)
    }
}

/// The content of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: u128,
    pub(crate) stage: Stage,
    /// Where the newest log file begins; `None` while there is no log file.
    pub(crate) newest: Option<Lsn>,
    /// The log is durable at least up to here.
    pub(crate) durable: Lsn,
    edition: u64,
}

impl Known {
    pub(crate) fn new(id: u128, stage: Stage, newest: Option<Lsn>, durable: Lsn) -> Known {
        Known { id, stage, newest, durable, edition: 0 }
    }

    fn to_bytes(self) -> Vec<u8> {
        let newest = self.newest.unwrap_or_default().0;
        let mut text = format!(
            "{TITLE}\nid {:032x}\nstage {}\nnewest {newest:016x}\ndurable {:016x}\nedition {:016x}\n",
            self.id,
            self.stage.name(),
            self.durable.0,
            self.edition,
        );
        text += &format!("sum {:08x}\n", crc32c(text.as_bytes()));
        let mut bytes = text.into_bytes();
        bytes.resize(COPY_BYTES, 0);
        bytes
    }

    /// The content of a copy. Total: takes any bytes. Errors: what is wrong with them.
    fn parse(bytes: &[u8]) -> Result<Known, &'static str> {
        const BROKEN: &str = "neither of its two copies is as it was written";
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| BROKEN)?;
        let (body, sum) = text.rsplit_once("sum ").ok_or(BROKEN)?;
        if sum != format!("{:08x}\n", crc32c(body.as_bytes())) {
            return Err(BROKEN);
        }
        let mut lines = body.lines();
        if lines.next() != Some(TITLE) {
            return Err("it was written by another version");
        }
        let mut word = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let id = word("id").and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let stage = word("stage").and_then(Stage::of);
        let mut number = |name| word(name).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let (newest, durable, edition) = (number("newest"), number("durable"), number("edition"));
        let known = || {
            let newest = Some(Lsn(newest?)).filter(|newest| *newest > Lsn(0));
            Some(Known {
                id: id?,
                stage: stage?,
                newest,
                durable: Lsn(durable?),
                edition: edition?,
            })
        };
        known().ok_or(BROKEN)
    }
}

/// Reads the manifest; `None` if there is none.
///
/// Errors: [`Damage`] if it cannot be read, or neither copy is whole.
pub(crate) fn load(storage: &dyn Storage) -> Result<Option<Known>, Damage> {
    let names = storage.list("").map_err(Damage::io("."))?;
    if !names.iter().any(|name| name == PATH) {
        return Ok(None);
    }
    let bytes = read_all(storage, PATH).map_err(Damage::io(PATH))?;
    let copy = |at: &u64| {
        let rest = bytes.get(*at as usize..).unwrap_or_default();
        Known::parse(&rest[..rest.len().min(COPY_BYTES)])
    };
    let copies = COPIES.iter().map(copy);
    let best = copies.reduce(|one, other| match (one, other) {
        (Ok(one), Ok(other)) if one.edition > other.edition => Ok(one),
        (_, Ok(other)) => Ok(other),
        (one, Err(_)) => one,
    });
    let best = best.expect("there are two copies");
    best.map(Some).map_err(|what| Damage::corrupt(PATH, 0, what))
}

/// A manifest that is written to.
pub(crate) struct Manifest {
    file: Box<dyn File>,
    known: Known,
}

impl Manifest {
    /// Writes a manifest in the place of the one that is there, durably and at once.
    pub(crate) fn create(storage: &dyn Storage, known: Known) -> io::Result<Manifest> {
        let mut manifest = Manifest { file: storage.create(NEW)?, known };
        manifest.settle(known.stage, known.newest, known.durable)?;
        storage.rename(NEW, PATH)?;
        storage.sync_folder("")?;
        Ok(manifest)
    }

    /// Notes up to where the log is durable. Not synced: after a loss of power an earlier note
    /// counts, so a note that cannot be written does no harm either.
    pub(crate) fn note(&mut self, durable: Lsn) {
        self.known.durable = durable;
        let _ = self.overwrite();
    }

    /// Replaces both copies, durably.
    pub(crate) fn settle(
        &mut self,
        stage: Stage,
        newest: Option<Lsn>,
        durable: Lsn,
    ) -> io::Result<()> {
        (self.known.stage, self.known.newest, self.known.durable) = (stage, newest, durable);
        self.overwrite()?;
        self.overwrite()?;
        self.file.sync()
    }

    /// Goes on with the log file that begins at `first`, where the log is durable.
    pub(crate) fn begin_file(&mut self, first: Lsn) -> io::Result<()> {
        self.settle(Stage::Open, Some(first), first)
    }

    /// Notes that the log was closed in order and ends at `end`.
    pub(crate) fn close(&mut self, end: Lsn) -> io::Result<()> {
        self.settle(Stage::Closed, self.known.newest, end)
    }

    /// Overwrites the older copy.
    fn overwrite(&mut self) -> io::Result<()> {
        self.known.edition += 1;
        let at = COPIES[(self.known.edition % 2) as usize];
        self.file.write_at(at, &self.known.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_read_back_and_no_flipped_bit_passes() {
        let known = Known::new(u128::MAX - 3, Stage::Copying, Some(Lsn(64)), Lsn(4096));
        let bytes = known.to_bytes();
        assert_eq!(Known::parse(&bytes), Ok(known));
        let length = bytes.iter().position(|byte| *byte == 0).expect("it is padded");
        for bit in 0..length * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Known::parse(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..length {
            assert!(Known::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
