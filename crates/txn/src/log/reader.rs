//! Reads the log back: whole records in order, up to the end that a crash may have left ragged.
//!
//! Where the last file stops making sense, there are two cases. Either the crash came while that
//! batch was written: no commit from there on was acknowledged, and the tail is cut. Or bytes that
//! had been durable have changed since: starting would lose commits in silence, and is refused. The
//! frames behind tell the two apart: a frame that was appended when the log was durable beyond the
//! broken place proves that the place was whole once, and so does the manifest, which knows up to
//! where the log was durable and which file is the newest.

use super::Lsn;
use super::damage::Damage;
use super::disk::{Storage, read_all};
use super::frame::{self, ALIGN, FILE_HEADER, FOLDER, FrameKind, file_path, first_of};
use super::manifest::{self, Known, Stage};
use std::io;

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

/// Tells all records from `from` on, in order. `known`: the manifest, if there is one.
///
/// Errors: [`Damage`]; also what `tell` returns.
pub(crate) fn read(
    storage: &dyn Storage,
    id: u128,
    from: Lsn,
    known: Option<&Known>,
    mut tell: impl FnMut(RecordPlace<'_>, Record<'_>) -> Result<(), Damage>,
) -> Result<LogEnd, Damage> {
    let mut reading = Reading::from(from);
    reading.files(storage, id, known, &mut tell)?;
    Ok(reading.end)
}

/// The place behind the last record that can be reached from `from`, and what is wrong behind it.
pub(crate) fn reachable(
    storage: &dyn Storage,
    id: u128,
    from: Lsn,
    known: Option<&Known>,
) -> (Lsn, Option<Damage>) {
    let mut reading = Reading::from(from);
    let read = reading.files(storage, id, known, &mut |_, _| Ok(()));
    (reading.end.end, read.err())
}

/// Number of commits whose records can be seen from `from` on, and the LSN behind the last frame.
pub(crate) fn seen_behind(storage: &dyn Storage, from: Lsn) -> io::Result<(u64, Lsn)> {
    let (mut commits, mut end) = (0, from);
    let firsts = list(storage)?;
    for (position, &first) in firsts.iter().enumerate() {
        let until = firsts.get(position + 1).copied().unwrap_or(Lsn(u64::MAX));
        if until <= from {
            continue;
        }
        let path = file_path(first);
        let bytes = read_all(storage, &path)?;
        let file = File { path: &path, bytes: &bytes, first };
        let mut at = from.max(first);
        while at < until && file.offset(at) < bytes.len() as u64 {
            at.0 += match file.frame(at) {
                // Bytes of a recycled file that say another place are no frame here.
                None => ALIGN as u64,
                Some(frame) => {
                    commits += u64::from(frame.kind == FrameKind::Commit);
                    let length = frame::frame_bytes(frame.payload.len()) as u64;
                    end = end.max(Lsn(at.0 + length));
                    length
                }
            };
        }
    }
    Ok((commits, end))
}

/// Where the log's files begin, in order.
pub(crate) fn list(storage: &dyn Storage) -> io::Result<Vec<Lsn>> {
    Ok(storage.list(FOLDER)?.iter().filter_map(|name| first_of(name)).collect())
}

/// A place that the log reaches at least, without a look into its files. `known`: the manifest, if there is one.
pub(crate) fn least_end(storage: &dyn Storage, known: Option<&Known>) -> io::Result<Lsn> {
    let last = list(storage)?.last().copied().unwrap_or_default();
    Ok(known.map_or(last, |known| last.max(known.durable)))
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

    /// `listed`: the database has a manifest.
    fn check_header(&self, id: u128, listed: bool) -> Result<(), Damage> {
        let corrupt = |what: &str| Err(Damage::corrupt(self.path, 0, what));
        let header = match frame::parse_file_header(self.bytes) {
            Ok(header) => header,
            Err(what) => return corrupt(what),
        };
        if header.id != id {
            return corrupt("it belongs to another database");
        }
        if header.first != self.first {
            return corrupt("it begins elsewhere than its name says");
        }
        if header.listed && !listed {
            return Err(Damage::Missing { what: format!("the file {}", manifest::PATH) });
        }
        let length = self.bytes.len() as u64;
        if length < header.bytes {
            let what = format!("it has {length} bytes of {}", header.bytes);
            return Err(Damage::corrupt(self.path, length, what));
        }
        Ok(())
    }

    fn frame(&self, lsn: Lsn) -> Option<frame::Frame<'_>> {
        let offset = usize::try_from(self.offset(lsn)).ok()?;
        frame::parse(self.bytes.get(offset..)?, lsn)
    }

    /// A whole frame behind `lsn` that was appended when the log was durable beyond it.
    fn witness_behind(&self, lsn: Lsn) -> Option<Lsn> {
        let behind = Lsn(lsn.0 + ALIGN as u64);
        let bytes =
            usize::try_from(self.offset(behind)).ok().and_then(|at| self.bytes.get(at..))?;
        let mut places = frame::whole_frames(bytes, behind);
        places.find(|(at, frame)| frame.durable > lsn && frame.durable <= *at).map(|(at, _)| at)
    }
}

struct Reading {
    end: LogEnd,
    /// Fragments of a commit, and where the first stands.
    gathered: Option<(Lsn, Vec<u8>)>,
}

impl Reading {
    fn from(from: Lsn) -> Reading {
        Reading { end: LogEnd { end: from, ..LogEnd::default() }, gathered: None }
    }

    /// Reads all files that have something from the present end on.
    fn files(
        &mut self,
        storage: &dyn Storage,
        id: u128,
        known: Option<&Known>,
        tell: &mut impl FnMut(RecordPlace<'_>, Record<'_>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let from = self.end.end;
        let firsts = list(storage).map_err(Damage::io(FOLDER))?;
        // The file that holds `from` is the last that begins before it, or there.
        let start = match firsts.iter().rposition(|first| *first <= from) {
            Some(start) => start,
            None if firsts.is_empty() => 0,
            None => {
                let what = format!("the log from {from} to {} (folder {FOLDER})", firsts[0]);
                return Err(Damage::Missing { what });
            }
        };
        for (position, &first) in firsts.iter().enumerate().skip(start) {
            let path = file_path(first);
            let bytes = read_all(storage, &path).map_err(Damage::io(&path))?;
            let file = File { path: &path, bytes: &bytes, first };
            file.check_header(id, known.is_some())?;
            self.file(&file, firsts.get(position + 1).copied(), tell)?;
        }
        known.map_or(Ok(()), |known| self.reaches(known, &firsts))
    }

    /// Compares what was read with what the manifest says.
    fn reaches(&self, known: &Known, firsts: &[Lsn]) -> Result<(), Damage> {
        let end = self.end.end;
        if let Some(newest) = known.newest.filter(|newest| !firsts.contains(newest)) {
            let what = format!(
                "the newest log file, {}, with the log from {newest} at least to {} (the last \
                 commit that is there ends at {end})",
                file_path(newest),
                known.durable
            );
            return Err(Damage::Missing { what });
        }
        if end >= known.durable {
            return Ok(());
        }
        let when = match known.stage {
            Stage::Closed => "when it was closed",
            Stage::Making | Stage::Copying | Stage::Open => "when its process ended",
        };
        let what = format!(
            "the log from {end} to {}, up to where it was durable {when} (the last commit that is \
             there ends at {end})",
            known.durable
        );
        Err(Damage::Missing { what })
    }

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
