//! A cell with its supervisor: keeps what the cell has accepted, and starts a new one in its place when
//! it breaks.
//!
//! Invariants, checked by `a_cell_that_is_killed_or_crashes_loses_no_accepted_event` (1, 2) and
//! `strings_keep_their_numbers_when_the_cell_is_started_anew` (3):
//! 1. `log` holds every message that changes the cell, from the one after `saved` (or after the load)
//!    to `sequence`, in order.
//! 2. A message is in `log` before it is sent, so a cell that breaks at any moment loses none.
//! 3. The numbers that a new cell sees are those that the old one saw, so everything that the host has
//!    been told (numbers of strings, rejected events) stays true.
//!
//! Threads: one owner; a cell that breaks while nobody talks to it is started anew at the next call.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halcyon_cell_abi::events::{self, Batch};
use halcyon_cell_abi::message::{self, CellReport, Refusal, command, pack, reply, unpack_text};
use halcyon_cell_abi::program::{self, DecodeError};
use halcyon_view::program::Program;

use crate::breaker::Breaker;
use crate::fault::Fault;
use crate::link::{Answer, Link, QUESTION, Told, rejection_text};
use crate::place::{Counters, Place, Settings};
use crate::start;

mod follow;
mod stamped;

pub use follow::{GiveUp, RowChanges};
pub use stamped::Run;

/// How often a new cell is tried in place of a broken one, for one call.
const ATTEMPTS: u32 = 3;
/// How long a cell may take to stop when asked.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// The number of a program that is loaded for a saved state.
const RESTORING: u64 = 0;
/// Bytes of a part of a program.
const PART_BYTES: usize = 32 << 10;
/// Words that a message may have.
pub const WORDS_MAX: usize = crate::layout::SLOTS / 2 - 2;
/// Memory of a cell, bytes, if nothing else is asked for.
const MEMORY_BYTES: u64 = 64 << 20;
/// Faults that are remembered.
const FAULTS_KEPT: usize = 64;

/// Why a call to a cell has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CellError {
    /// No cell can be had here, for this reason.
    Unavailable(String),
    /// No program has been loaded.
    NoProgram,
    /// The program cannot be sent to a cell.
    Program(DecodeError),
    /// The cell has refused the program or the question.
    Refused(Refusal, String),
    /// The batch is none of this program's events.
    NoEvents,
    /// The batch has more words than a message may have.
    TooLarge {
        /// Words that a batch may have.
        words_max: usize,
    },
    /// The cell has broken again and again; the last time for this reason. What was accepted is kept.
    Down(Fault),
    /// The caller did not want to wait any longer.
    GivenUp,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(reason) => write!(f, "no cell can be had: {reason}"),
            Self::NoProgram => f.write_str("the cell has no program"),
            Self::Program(error) => write!(f, "the program cannot be sent to a cell: {error}"),
            Self::Refused(why, text) => write!(f, "the cell refused: {why:?} {text}"),
            Self::NoEvents => f.write_str("the batch has no events of the cell's program"),
            Self::TooLarge { words_max } => write!(f, "a batch may have {words_max} words"),
            Self::Down(fault) => write!(f, "the cell cannot be kept running: {fault}"),
            Self::GivenUp => f.write_str("the wait for the cell was given up"),
        }
    }
}

impl std::error::Error for CellError {}

/// An event that a cell has not applied, or a whole message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The number of the message, as [`Cell::feed`] has returned it.
    pub sequence: u64,
    /// The event's index in the batch; `None`: all of the batch.
    pub event: Option<u64>,
    /// The reason, for people.
    pub reason: String,
}

/// A consistent copy of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The number of the last message that the copy includes.
    pub sequence: u64,
    /// Words of a row.
    pub row_words: usize,
    /// Words of all rows, one after the other, in no order.
    pub words: Vec<u64>,
    /// Number of rows.
    pub count: u64,
}

impl Rows {
    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = &[u64]> {
        self.words.chunks(self.row_words.max(1))
    }
}

/// Choices for a cell.
#[derive(Clone, Debug)]
pub struct Builder {
    settings: Settings,
    log_bytes_max: u64,
}

impl Builder {
    /// The cell's memory in bytes, fixed from the start: image, rings and heap. Brought between 32 MiB
    /// and 4 GiB; 64 MiB if not given. Maps may take a quarter of the heap.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.settings.memory_bytes = bytes;
        self
    }

    /// The memory in bytes that a cell has for which [`Builder::memory`] is called with this, or is
    /// not called.
    pub fn memory_of(bytes: Option<u64>) -> u64 {
        let bytes = bytes.unwrap_or(MEMORY_BYTES);
        bytes.clamp(crate::layout::BYTES_MIN, crate::layout::BYTES_MAX)
    }

    /// The processor to which the cell's thread is bound.
    pub fn cpu(mut self, cpu: u32) -> Self {
        self.settings.cpu = Some(cpu);
        self
    }

    /// Real-time priority for the cell's thread (1 to 99). A cell never sleeps then unless
    /// [`Builder::idle_after`] says so, and everything else on its processor stands still: for
    /// measurements, and for processors that have been set apart.
    pub fn fifo(mut self, priority: u8) -> Self {
        self.settings.fifo = Some(priority);
        self
    }

    /// Where the cell runs.
    pub fn place(mut self, place: Place) -> Self {
        self.settings.place = place;
        self
    }

    /// Turns without work after which the cell sleeps until there is some; 0: it never sleeps, and no
    /// message waits for a thread to wake up. 20,000 if not given, which is about a millisecond.
    pub fn idle_after(mut self, turns: u64) -> Self {
        self.settings.idle_turns = turns;
        self
    }

    /// Processor time without a heartbeat after which the cell is ended. A second if not given.
    pub fn hung_after(mut self, time: Duration) -> Self {
        self.settings.hung_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Size of the log of accepted messages beyond which the cell's state is saved, which empties
    /// the log; bytes. 32 MiB if not given.
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes_max = bytes;
        self
    }

    /// Starts the cell.
    ///
    /// Errors: [`CellError::Unavailable`], [`CellError::Down`].
    pub fn start(self) -> Result<Cell, CellError> {
        let answer_words_max = self.settings.memory_bytes.max(1 << 20);
        let mut cell = Cell {
            settings: self.settings,
            log_bytes_max: self.log_bytes_max,
            link: None,
            told: Told::new(answer_words_max),
            loaded: None,
            saved: None,
            log: VecDeque::new(),
            log_words: 0,
            sequence: 0,
            questions: QUESTION,
            strings: Vec::new(),
            numbers: HashMap::new(),
            starts: 0,
            faults: Vec::new(),
            breaker: Breaker::default(),
        };
        cell.restart()?;
        Ok(cell)
    }
}

/// A message that changes the cell.
struct Logged {
    sequence: u64,
    kind: u16,
    words: Arc<[u64]>,
    /// Whether its events were withdrawn: strings that they have made keep their numbers.
    is_withdrawn: bool,
}

/// The program in the cell.
struct Loaded {
    /// The number of the message that has loaded it.
    sequence: u64,
    bytes: Vec<u8>,
    row_words: Vec<usize>,
    output_words: usize,
    /// Words of the key of a group of the output.
    key_words: usize,
}

/// What a cell has saved.
struct Saved {
    sequence: u64,
    pieces: Vec<Vec<u64>>,
    counts: [u64; 2],
}

/// Gives a new cell strings in the order of their numbers.
fn send_strings(link: &mut Link, told: &mut Told, strings: &[String]) -> Result<(), Fault> {
    let mut words = vec![message::Saved::Strings.encode()];
    for (at, text) in strings.iter().enumerate() {
        pack(text.as_bytes(), &mut words);
        // A text may have half of what a message may have: see `accept_text`.
        let is_full = words.len() > PART_BYTES / 8 || at + 1 == strings.len();
        if is_full {
            link.send(told, command::RESTORE, QUESTION, &[&words])?;
            words.truncate(1);
        }
    }
    Ok(())
}

/// A view in a cell.
pub struct Cell {
    settings: Settings,
    log_bytes_max: u64,
    link: Option<Link>,
    told: Told,
    loaded: Option<Loaded>,
    saved: Option<Saved>,
    log: VecDeque<Logged>,
    log_words: u64,
    sequence: u64,
    questions: u64,
    /// Strings of the cell's dictionary, as far as the host knows them.
    strings: Vec<String>,
    numbers: HashMap<String, i64>,
    starts: u64,
    faults: Vec<Fault>,
    breaker: Breaker,
}

impl Cell {
    /// Choices for a cell.
    pub fn builder() -> Builder {
        let settings = Settings {
            place: Place::Machine,
            memory_bytes: MEMORY_BYTES,
            cpu: None,
            fifo: None,
            idle_turns: 20_000,
            hung_ns: 1_000_000_000,
        };
        Builder { settings, log_bytes_max: 32 << 20 }
    }

    /// Loads a program, in place of what the cell had.
    ///
    /// Errors: [`CellError::Program`], [`CellError::Refused`], [`CellError::Down`].
    pub fn load(&mut self, program: &Program) -> Result<(), CellError> {
        let bytes = program::encode(program).map_err(CellError::Program)?;
        let output = program.relations.get(usize::from(program.output.0));
        let output_words =
            output.map_or(0, |output| output.columns.iter().map(|ty| ty.words()).sum());
        let derived = output.and_then(|output| output.derived.as_ref());
        let map = derived.and_then(|derived| program.maps.get(usize::from(derived.map.0)));
        let key_words = map.map_or(0, |map| map.key.iter().map(|ty| ty.words()).sum());
        let (sequence, row_words) = (self.sequence + 1, events::row_words(program));
        self.loaded = Some(Loaded { sequence, bytes, row_words, output_words, key_words });
        (self.saved, self.log_words, self.sequence) = (None, 0, sequence);
        self.log.clear();
        self.strings.clear();
        self.numbers.clear();
        let loaded = self.retry(|cell, link| {
            cell.send_program(link, sequence, 0)?;
            let arrived = |link: &mut Link, told: &Told| {
                let applied = link.running.ends().board().applied();
                applied >= sequence || told.refused.contains_key(&sequence)
            };
            link.wait(&mut cell.told, arrived)
        });
        let refused = self.told.refused.remove(&sequence);
        if loaded.is_err() || refused.is_some() {
            self.loaded = None;
        }
        loaded?;
        refused.map_or(Ok(()), |(why, text)| Err(CellError::Refused(why, text)))
    }

    /// The words that an event's row has, by base relation of the program: for [`Batch::push`].
    pub fn row_words(&self) -> &[usize] {
        self.loaded.as_ref().map_or(&[], |loaded| &loaded.row_words)
    }

    /// Accepts events. The number of the message comes back as soon as the host has kept the events;
    /// from then on no crash of the cell loses them. Events that the view's program cannot apply are
    /// told by [`Cell::rejections`].
    ///
    /// Errors: [`CellError::NoProgram`], [`CellError::NoEvents`] and [`CellError::TooLarge`]: nothing
    /// was accepted. [`CellError::Down`]: accepted, but no cell can be kept running.
    pub fn feed(&mut self, batch: &Batch) -> Result<u64, CellError> {
        self.feed_words(batch.words().into())
    }

    /// Accepts events as [`Cell::feed`] does, given as the words of a batch: the cell's log shares them
    /// with the caller.
    ///
    /// Errors: as [`Cell::feed`].
    pub fn feed_words(&mut self, words: Arc<[u64]>) -> Result<u64, CellError> {
        self.check_batch(&words)?;
        let sequence = self.accept(command::EVENTS, words)?;
        if self.log_words * 8 > self.log_bytes_max {
            self.save()?;
        }
        Ok(sequence)
    }

    /// Errors: [`CellError::NoProgram`], [`CellError::NoEvents`] and [`CellError::TooLarge`].
    fn check_batch(&self, words: &[u64]) -> Result<(), CellError> {
        let loaded = self.loaded.as_ref().ok_or(CellError::NoProgram)?;
        if words.len() > WORDS_MAX {
            return Err(CellError::TooLarge { words_max: WORDS_MAX });
        }
        match events::check(words, &loaded.row_words) {
            Some(_) => Ok(()),
            None => Err(CellError::NoEvents),
        }
    }

    /// The numbers of strings, by which they stand in rows.
    ///
    /// Errors: as [`Cell::feed`].
    pub fn intern(&mut self, texts: &[&str]) -> Result<Vec<i64>, CellError> {
        self.loaded.as_ref().ok_or(CellError::NoProgram)?;
        let mut new: Vec<&str> =
            texts.iter().copied().filter(|text| !self.numbers.contains_key(*text)).collect();
        new.sort_unstable();
        new.dedup();
        for text in new {
            self.accept_text(text)?;
        }
        if texts.iter().any(|text| !self.numbers.contains_key(*text)) {
            let known = [self.strings.len() as u64];
            for Answer { kind, words } in self.ask(command::STRINGS, &known)? {
                if kind == reply::STRINGS && !self.learn(&words) {
                    return Err(self.distrust("strings that are none"));
                }
            }
        }
        let number = |text: &&str| self.numbers.get(*text).copied();
        let numbers: Option<Vec<i64>> = texts.iter().map(number).collect();
        numbers.ok_or_else(follow::no_number)
    }

    /// Accepts a string.
    fn accept_text(&mut self, text: &str) -> Result<u64, CellError> {
        let mut words = Vec::new();
        pack(text.as_bytes(), &mut words);
        if words.len() > WORDS_MAX / 2 {
            return Err(CellError::TooLarge { words_max: WORDS_MAX / 2 });
        }
        self.accept(command::INTERN, words.into())
    }

    /// A string by its number, as of the last [`Cell::read`].
    pub fn text(&self, number: i64) -> Option<&str> {
        self.strings.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// A copy of all rows, after all events that have been accepted.
    ///
    /// Errors: [`CellError::NoProgram`], [`CellError::Refused`] if an expression of the view fails,
    /// [`CellError::Down`].
    pub fn read(&mut self) -> Result<Rows, CellError> {
        let loaded = self.loaded.as_ref().ok_or(CellError::NoProgram)?;
        let row_words = loaded.output_words;
        let known = [self.strings.len() as u64];
        let answers = self.ask(command::READ, &known)?;
        let mut rows = Rows { row_words, ..Rows::default() };
        for Answer { kind, words } in answers {
            let sound = match (kind, words.split_first()) {
                (reply::ROWS, Some((count, words))) => {
                    rows.count += count;
                    rows.words.extend_from_slice(words);
                    count.checked_mul(row_words as u64) == Some(words.len() as u64)
                }
                (reply::STRINGS, Some(_)) => self.learn(&words),
                (reply::END, Some((sequence, _))) => {
                    rows.sequence = *sequence;
                    true
                }
                _ => false,
            };
            if !sound {
                return Err(self.distrust("rows that are none of this view"));
            }
        }
        Ok(rows)
    }

    /// Saves the cell's state at the host, and forgets the messages that the state includes. The number
    /// of the last one of these comes back.
    ///
    /// Errors: [`CellError::NoProgram`], [`CellError::Down`].
    pub fn save(&mut self) -> Result<u64, CellError> {
        self.loaded.as_ref().ok_or(CellError::NoProgram)?;
        let answers = self.ask(command::SAVE, &[])?;
        let (mut pieces, mut end) = (Vec::new(), None);
        for Answer { kind, words } in answers {
            match kind {
                reply::SAVED => pieces.push(words),
                _ => end = words.first_chunk::<3>().copied(),
            }
        }
        let Some([sequence, events, rejected]) = end.filter(|[last, ..]| *last == self.sequence)
        else {
            return Err(self.distrust("a saved state of another time"));
        };
        self.saved = Some(Saved { sequence, pieces, counts: [events, rejected] });
        self.log.clear();
        self.log_words = 0;
        Ok(sequence)
    }

    /// What the cell says of itself, after all that has been accepted.
    ///
    /// Errors: [`CellError::Down`].
    pub fn report(&mut self) -> Result<CellReport, CellError> {
        let answers = self.ask(command::REPORT, &[])?;
        let report = answers.first().and_then(|answer| CellReport::decode(&answer.words));
        report.ok_or_else(|| self.distrust("a report without numbers"))
    }

    /// Sends a question with an empty answer, and waits for it.
    ///
    /// Errors: [`CellError::Down`].
    pub fn ping(&mut self) -> Result<(), CellError> {
        self.ask(command::PING, &[]).map(|_| ())
    }

    /// Events and batches that the cell has not applied, in the order of their numbers.
    pub fn rejections(&self) -> Vec<Rejection> {
        let of_events = self.told.rejected.iter().map(|((sequence, event), code)| {
            let reason = rejection_text(*code).to_owned();
            Rejection { sequence: *sequence, event: Some(*event), reason }
        });
        let of_batches = self.told.refused.iter().map(|(sequence, (why, text))| {
            let reason = match why {
                Refusal::Memory => "the view's maps have reached their memory".to_owned(),
                other => format!("{other:?} {text}"),
            };
            Rejection { sequence: *sequence, event: None, reason }
        });
        let mut all: Vec<Rejection> = of_events.chain(of_batches).collect();
        all.sort_by_key(|rejection| (rejection.sequence, rejection.event));
        all
    }

    /// Ends the cell as agreed; what was accepted has been applied before.
    pub fn stop(mut self) -> Option<Fault> {
        let mut link = self.link.take()?;
        let asked = link.send(&mut self.told, command::STOP, QUESTION, &[]);
        let begin = Instant::now();
        while asked.is_ok() && !link.running.has_ended() && begin.elapsed() < STOP_WITHIN {
            if link.take(&mut self.told).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        let fault = link.running.fault();
        link.running.end(Fault::Killed);
        fault.or(asked.err())
    }

    /// The last fault. The cell has been started anew since, unless nobody has called it.
    pub fn fault(&self) -> Option<Fault> {
        let now = self.link.as_ref().and_then(|link| link.running.fault());
        now.or_else(|| self.faults.last().cloned())
    }

    /// Number of cells that have been started for this one in place of broken ones.
    pub fn restarts(&self) -> u64 {
        self.starts.saturating_sub(1)
    }

    /// Bytes of accepted messages that no saved state includes.
    pub fn log_bytes(&self) -> u64 {
        self.log_words * 8
    }

    /// KVM's counters of the running machine. `None`: the cell is no machine, or the kernel counts
    /// nothing.
    pub fn counters(&self) -> Option<Counters> {
        self.link.as_ref().and_then(|link| link.running.counters())
    }

    /// Ends the running cell by force; the next call starts another one with all that was accepted.
    pub fn kill(&mut self) {
        self.link.iter_mut().for_each(|link| link.running.end(Fault::Killed));
    }

    /// What breaks the running cell, and those that are started in its place, from any thread and at any moment. For tests.
    pub fn breaker(&self) -> Breaker {
        self.breaker.clone()
    }

    /// Makes the cell read the byte at an address: a fault, if nothing is mapped there. For tests of
    /// [`Cell::fault`]. Not waited for.
    pub fn probe(&mut self, address: u64) -> Result<(), CellError> {
        self.retry(|cell, link| link.send(&mut cell.told, command::PROBE, QUESTION, &[&[address]]))
    }

    /// Overwrites the image's code in the running cell with an instruction that there is not; false if
    /// the cell is no machine. For tests.
    #[doc(hidden)]
    pub fn break_code(&mut self) -> bool {
        let code = self.link.as_ref().and_then(|link| link.running.code());
        code.map(|(memory, place)| memory.scribble(place, crate::place::NO_INSTRUCTION)).is_some()
    }

    /// Overwrites words of the ring in which the cell answers. For tests.
    #[doc(hidden)]
    pub fn scribble_replies(&mut self, at: usize, words: &[u64]) {
        if let Some(link) = &mut self.link {
            let (memory, place) = link.running.ends().back();
            memory.scribble_at(place, at, words);
        }
    }

    /// Keeps a message and sends it.
    fn accept(&mut self, kind: u16, words: Arc<[u64]>) -> Result<u64, CellError> {
        self.sequence += 1;
        let sequence = self.sequence;
        self.log_words += words.len() as u64 + 2;
        self.log.push_back(Logged { sequence, kind, words, is_withdrawn: false });
        // A new cell gets the whole log, this message included.
        let fault = match &mut self.link {
            None => None,
            Some(link) => {
                let last = self.log.back().map_or(&[][..], |last| &last.words[..]);
                match link.send(&mut self.told, kind, sequence, &[last]) {
                    Ok(()) => return Ok(sequence),
                    Err(fault) => Some(fault),
                }
            }
        };
        fault.into_iter().for_each(|fault| self.note(fault));
        self.restart()?;
        Ok(sequence)
    }

    /// Asks a question until a cell has answered it.
    fn ask(&mut self, kind: u16, words: &[u64]) -> Result<Vec<Answer>, CellError> {
        self.questions += 1;
        let number = self.questions;
        self.retry(|cell, link| {
            cell.told.wait_for(number);
            link.send(&mut cell.told, kind, number, &[words])?;
            link.wait(&mut cell.told, |_, told| told.is_answered())
        })?;
        match self.told.refused.remove(&number) {
            Some((why, text)) => Err(CellError::Refused(why, text)),
            None => Ok(std::mem::take(&mut self.told.answers)),
        }
    }

    /// Does something with a running cell, and with another one if that breaks.
    fn retry(
        &mut self,
        mut work: impl FnMut(&mut Cell, &mut Link) -> Result<(), Fault>,
    ) -> Result<(), CellError> {
        for attempt in 0.. {
            if self.link.is_none() {
                self.restart()?;
            }
            let Some(mut link) = self.link.take() else { continue };
            match work(self, &mut link) {
                Ok(()) => {
                    self.link = Some(link);
                    break;
                }
                Err(fault) => {
                    self.note(fault.clone());
                    if attempt + 1 >= ATTEMPTS {
                        return Err(CellError::Down(fault));
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts a cell and sends it everything that the one before had.
    fn restart(&mut self) -> Result<(), CellError> {
        let mut last = Fault::Killed;
        for _ in 0..ATTEMPTS {
            self.link = None;
            let running = start::start(&self.settings).map_err(CellError::Unavailable)?;
            self.starts += 1;
            self.breaker.set(&running.breakable());
            let replayed = Link::new(running).and_then(|mut link| {
                self.replay(&mut link)?;
                Ok(link)
            });
            match replayed {
                Ok(link) => {
                    self.link = Some(link);
                    return Ok(());
                }
                Err(fault) => {
                    self.note(fault.clone());
                    last = fault;
                }
            }
        }
        Err(CellError::Down(last))
    }

    fn replay(&mut self, link: &mut Link) -> Result<(), Fault> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        match self.saved.take() {
            None => self.send_program(link, loaded.sequence, 0)?,
            Some(saved) => {
                let sent = self.send_saved(link, &saved);
                self.saved = Some(saved);
                sent?;
            }
        }
        for Logged { sequence, kind, words, is_withdrawn } in &self.log {
            if *is_withdrawn {
                send_strings(link, &mut self.told, &self.strings)?;
            }
            // What was told as refused must not be applied now; its number keeps its place.
            let is_refused = self.told.refused.contains_key(sequence);
            let words = if is_refused { &[][..] } else { &words[..] };
            link.send(&mut self.told, *kind, *sequence, &[words])?;
        }
        Ok(())
    }

    fn send_saved(&mut self, link: &mut Link, saved: &Saved) -> Result<(), Fault> {
        self.send_program(link, RESTORING, command::LOAD_RESTORES)?;
        for piece in &saved.pieces {
            link.send(&mut self.told, command::RESTORE, QUESTION, &[piece])?;
        }
        link.send(&mut self.told, command::RESTORED, saved.sequence, &[&saved.counts])?;
        let refused = |told: &Told| {
            [RESTORING, QUESTION].into_iter().find(|number| told.refused.contains_key(number))
        };
        let settled = |link: &mut Link, told: &Told| {
            link.running.ends().board().applied() >= saved.sequence || refused(told).is_some()
        };
        link.wait(&mut self.told, settled)?;
        let Some((why, text)) = refused(&self.told).and_then(|of| self.told.refused.remove(&of))
        else {
            return Ok(());
        };
        // The cell that has saved the state was broken: only a program that is loaded anew helps.
        let fault = Fault::Protocol(format!("its own saved state was refused: {why:?} {text}"));
        link.running.end(fault.clone());
        Err(fault)
    }

    fn send_program(&mut self, link: &mut Link, number: u64, flags: u64) -> Result<(), Fault> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let parts = loaded.bytes.chunks(PART_BYTES);
        let last = parts.len().saturating_sub(1);
        for (at, part) in parts.enumerate() {
            let mut words = vec![flags | if at == last { command::LOAD_LAST } else { 0 }];
            pack(part, &mut words);
            link.send(&mut self.told, command::LOAD, number, &[&words])?;
        }
        Ok(())
    }

    /// Takes strings that the cell has told; false if they are none.
    fn learn(&mut self, mut words: &[u64]) -> bool {
        while !words.is_empty() {
            let Some(text) = unpack_text(&mut words) else { return false };
            self.numbers.insert(text.clone(), self.strings.len() as i64);
            self.strings.push(text);
        }
        true
    }

    /// Ends a cell that has answered what cannot be.
    fn distrust(&mut self, problem: &str) -> CellError {
        let fault = Fault::Protocol(problem.to_owned());
        self.link.iter_mut().for_each(|link| link.running.end(fault.clone()));
        CellError::Down(fault)
    }

    fn note(&mut self, fault: Fault) {
        if self.faults.len() == FAULTS_KEPT {
            self.faults.remove(0);
        }
        self.faults.push(fault);
    }
}
