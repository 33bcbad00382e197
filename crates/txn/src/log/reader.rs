//! Reads the log back: whole records in order, up to the end that a crash may have left ragged.
//!
//! Where the last file stops making sense, there are two cases. Either the crash came while that
//! batch was written: no commit from there on was acknowledged, and the tail is cut. Or bytes that
//! had been durable have changed since: starting would lose commits in silence, and is refused. The
//! frames behind tell the two apart: a frame that was appended when the log was durable beyond the
//! broken place proves that the place was whole once.

use super::Lsn;
use super::disk::{Storage, read_all};
use super::frame::{self, ALIGN, FILE_HEADER, FOLDER, FrameKind, file_path, first_of};
use std::fmt;
use std::io;

/// Reasons for which a database folder cannot be opened.
#[derive(Debug)]
pub enum Damage {
    /// The system refused.
    Io {
        /// The file.
        path: String,
        /// What it said.
        error: io::Error,
    },
    /// Bytes differ from those that were written.
    Corrupt {
        /// The file.
        path: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Something that must be there is not.
    Missing {
        /// What.
        what: String,
    },
}

impl Damage {
    pub(crate) fn io(path: &str) -> impl FnOnce(io::Error) -> Damage {
        move |error| Damage::Io { path: path.to_owned(), error }
    }

    pub(crate) fn corrupt(path: &str, offset: u64, what: impl Into<String>) -> Damage {
        Damage::Corrupt { path: path.to_owned(), offset, what: what.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Io { path, error } => write!(f, "{path}: {error}"),
            Damage::Corrupt { path, offset, what } => {
                write!(f, "{path} is damaged at byte {offset}: {what}")
            }
            Damage::Missing { what } => write!(f, "{what} is missing"),
        }
    }
}

impl std::error::Error for Damage {}

/// A record of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record<'a> {
    /// A commit's payload.
    Commit(&'a [u8]),
    /// A sequence's.
    Sequence(&'a [u8]),
}

/// Where a record stands, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace<'a> {
    pub(crate) path: &'a str,
    pub(crate) offset: u64,
}

/// The end of the log, as recovery found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Where new records go.
    pub end: Lsn,
    /// Bytes read before it.
    pub bytes: u64,
    /// Commits among the records read.
    pub commits: u64,
    /// Whether an unfinished write stood behind the end.
    pub torn: bool,
}

/// Tells all records from `from` on, in order.
///
/// Errors: [`Damage`]; also what `tell` returns.
pub(crate) fn read(
    storage: &dyn Storage,
    id: u128,
    from: Lsn,
    mut tell: impl FnMut(RecordPlace<'_>, Record<'_>) -> Result<(), Damage>,
) -> Result<LogEnd, Damage> {
    let names = storage.list(FOLDER).map_err(Damage::io(FOLDER))?;
    let firsts: Vec<Lsn> = names.iter().filter_map(|name| first_of(name)).collect();
    // The file that holds `from` is the last that begins before it, or there.
    let start = firsts.iter().rposition(|first| *first <= from);
    let (Some(start), Some(&last)) = (start, firsts.last()) else {
        return match firsts.first() {
            // The log was made, and lost its first file's name before anything was committed.
            None => Ok(LogEnd { end: from, ..LogEnd::default() }),
            Some(first) => Err(Damage::Missing {
                what: format!("the log from {from} to {first} (folder {FOLDER})"),
            }),
        };
    };
    let mut reading = Reading { end: LogEnd { end: from, ..LogEnd::default() }, gathered: None };
    for (position, &first) in firsts.iter().enumerate().skip(start) {
        let path = file_path(first);
        let bytes = read_all(storage, &path).map_err(Damage::io(&path))?;
        let (found_id, found_first) =
            frame::parse_file_header(&bytes).map_err(|what| Damage::corrupt(&path, 0, what))?;
        if found_id != id {
            return Err(Damage::corrupt(&path, 0, "it belongs to another database"));
        }
        if found_first != first {
            return Err(Damage::corrupt(&path, 0, "it begins elsewhere than its name says"));
        }
        let until = firsts.get(position + 1).copied();
        let file = File { path: &path, bytes: &bytes, first };
        reading.file(&file, until, &mut tell)?;
        debug_assert!(until.is_some() || first == last);
    }
    Ok(reading.end)
}

struct File<'a> {
    path: &'a str,
    bytes: &'a [u8],
    first: Lsn,
}

impl File<'_> {
    fn offset(&self, lsn: Lsn) -> u64 {
        FILE_HEADER as u64 + (lsn.0 - self.first.0)
    }

    fn frame(&self, lsn: Lsn) -> Option<frame::Frame<'_>> {
        let offset = usize::try_from(self.offset(lsn)).ok()?;
        frame::parse(self.bytes.get(offset..)?, lsn)
    }

    /// A whole frame behind `lsn` that was appended when the log was durable beyond it.
    fn witness_behind(&self, lsn: Lsn) -> Option<Lsn> {
        let room = (self.bytes.len() as u64).saturating_sub(self.offset(lsn));
        let places = (1..room / ALIGN as u64).map(|step| Lsn(lsn.0 + step * ALIGN as u64));
        places.into_iter().find(|&place| {
            self.frame(place).is_some_and(|frame| frame.durable > lsn && frame.durable <= place)
        })
    }
}

struct Reading {
    end: LogEnd,
    /// Fragments of a commit, and where the first stands.
    gathered: Option<(Lsn, Vec<u8>)>,
}

impl Reading {
    fn file(
        &mut self,
        file: &File<'_>,
        until: Option<Lsn>,
        tell: &mut impl FnMut(RecordPlace<'_>, Record<'_>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        // A checkpoint names the end of a record, so `from` is one in its file.
        let mut at = self.end.end.max(file.first);
        while until != Some(at) {
            let Some(frame) = file.frame(at) else {
                return self.stop(file, until, at);
            };
            if until.is_some_and(|until| until < at) {
                let what = "a record reaches into the next file";
                return Err(Damage::corrupt(file.path, file.offset(at), what));
            }
            let place = RecordPlace { path: file.path, offset: file.offset(at) };
            match frame.kind {
                FrameKind::Fragment => {
                    let (_, bytes) = self.gathered.get_or_insert_with(|| (at, Vec::new()));
                    bytes.extend_from_slice(frame.payload);
                }
                FrameKind::Commit => {
                    self.end.commits += 1;
                    match self.gathered.take() {
                        None => tell(place, Record::Commit(frame.payload))?,
                        Some((_, mut bytes)) => {
                            bytes.extend_from_slice(frame.payload);
                            tell(place, Record::Commit(&bytes))?;
                        }
                    }
                }
                FrameKind::Sequence => tell(place, Record::Sequence(frame.payload))?,
                FrameKind::Mark => {}
            }
            let length = frame::frame_bytes(frame.payload.len()) as u64;
            self.end.bytes += length;
            at = Lsn(at.0 + length);
            if self.gathered.is_none() {
                self.end.end = at;
            }
        }
        Ok(())
    }

    /// No frame is at `at`: the end of the log, or damage.
    fn stop(&mut self, file: &File<'_>, until: Option<Lsn>, at: Lsn) -> Result<(), Damage> {
        if let Some(until) = until {
            let what = format!("no record at {at}, and the next file begins at {until}");
            return Err(Damage::corrupt(file.path, file.offset(at), what));
        }
        if let Some(witness) = file.witness_behind(at) {
            let what =
                format!("the record at {at} was durable when the one at {witness} was written");
            return Err(Damage::corrupt(file.path, file.offset(at), what));
        }
        let offset = (file.offset(at) as usize).min(file.bytes.len());
        let header = &file.bytes[offset..file.bytes.len().min(offset + frame::FRAME_HEADER)];
        self.end.torn = self.gathered.is_some() || header.iter().any(|byte| *byte != 0);
        Ok(())
    }
}
