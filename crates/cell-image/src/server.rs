//! The command loop: takes messages from the ring of commands, runs the `view` engine, and answers in
//! the ring of replies.
//!
//! The loop waits for nothing but room in the ring of replies, and then keeps its heartbeat. Memory is
//! taken by the engine and, once each, by the buffers here. A message that cannot be is refused and
//! changes nothing.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use halcyon_cell_abi::board::Board;
use halcyon_cell_abi::events::{self, Events};
use halcyon_cell_abi::message::{
    CellReport, Header, Refusal, Saved, command, pack, rejection, reply, unpack, unpack_text,
};
use halcyon_cell_abi::program;
use halcyon_cell_abi::ring::{Consumer, Producer, RingError};
use halcyon_view::{Engine, Executor, Options};

/// What the loop needs of the place where it runs.
pub trait Surroundings {
    /// Called again and again while the ring of replies has no room; false gives the reply up.
    fn wait(&mut self) -> bool;
    /// Bytes that the heap has given out so far, and its size.
    fn heap(&self) -> (u64, u64);
    /// Reads the byte at an address, wherever that leads.
    fn probe(&mut self, address: u64);
    /// The processor's counter now, in order with the instructions around.
    fn stamp(&self) -> u64;
}

mod stamped;

/// What a turn of the loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There was no message.
    Idle,
    /// A message has been worked off.
    Worked,
    /// The host has asked for the end.
    Stopped,
}

/// Messages with events after which the changes of rows that nobody asks for are forgotten.
const FORGET_AFTER: u32 = 64;
/// Groups with noted changes beyond which these are forgotten, and the host gets all rows.
const NOTED_GROUPS_MAX: usize = 1 << 16;
/// Words of rows, strings or entries in one reply, about.
const CHUNK_WORDS: usize = 2048;

/// The command loop of one cell.
pub struct Server<'a, S> {
    board: Board<'a>,
    commands: Consumer<'a>,
    out: Replies<'a, S>,
    payload: Vec<u64>,
    program: Vec<u8>,
    view: Option<View>,
    /// Number of the last message that has been worked off.
    sequence: u64,
    unforgotten: u32,
    stamped: stamped::Stamped,
}

/// The loaded view.
struct View {
    engine: Engine,
    row_words: Vec<usize>,
    /// For each map, the words of its keys and of its sums.
    entry_words: Vec<(usize, usize)>,
    map_bytes_max: u64,
    /// Events applied before the state was restored.
    events_before: u64,
    rejected: u64,
    /// The position up to which changes of rows have been told: later ones are noted. `None`: nobody
    /// asks for changes.
    told: Option<u64>,
}

impl View {
    /// Forgets noted changes now and then: soon where nobody asks for them, late where they would
    /// take more memory than the rows.
    fn forget(&mut self, unforgotten: &mut u32) {
        *unforgotten += 1;
        let is_due = match self.told {
            None => *unforgotten >= FORGET_AFTER,
            Some(_) => self.engine.noted_groups() > NOTED_GROUPS_MAX,
        };
        if is_due {
            *unforgotten = 0;
            self.engine.forget_changes();
            self.told = self.told.map(|_| u64::MAX);
        }
    }
}

/// The sending side, with what to do while there is no room.
struct Replies<'a, S> {
    board: Board<'a>,
    ring: Producer<'a>,
    surroundings: S,
    chunk: Vec<u64>,
}

impl<S: Surroundings> Replies<'_, S> {
    fn send(&mut self, kind: u16, number: u64, pieces: &[&[u64]]) -> Result<(), RingError> {
        while !self.ring.push(kind, number, pieces)? {
            self.board.beat();
            if !self.surroundings.wait() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn send_chunk(&mut self, kind: u16, number: u64) -> Result<(), RingError> {
        // A large view takes long to tell, and is no reason to be thought hung.
        self.board.beat();
        let chunk = core::mem::take(&mut self.chunk);
        let sent = self.send(kind, number, &[&chunk]);
        self.chunk = chunk;
        self.chunk.clear();
        sent
    }

    /// Sends the strings of an engine's dictionary behind the first `known` ones; returns how many
    /// there are in all.
    fn send_strings(&mut self, engine: &Engine, number: u64, known: u64) -> Result<u64, RingError> {
        let limit = CHUNK_WORDS.min(self.ring.payload_words_max() / 2);
        let strings = engine.dictionary().len() as u64;
        for at in known..strings {
            pack(engine.dictionary().text(at as i64).as_bytes(), &mut self.chunk);
            if self.chunk.len() > limit || at + 1 == strings {
                self.send_chunk(reply::STRINGS, number)?;
            }
        }
        Ok(strings)
    }

    fn refuse(&mut self, number: u64, why: Refusal, text: &str) -> Result<(), RingError> {
        let mut words = Vec::new();
        words.push(why.code());
        let mut end = text.len().min(1000);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        pack(&text.as_bytes()[..end], &mut words);
        self.send(reply::REFUSED, number, &[&words])
    }
}

/// Why a message is refused.
type Refused = (Refusal, String);

fn malformed() -> Refused {
    (Refusal::Malformed, String::new())
}

impl<'a, S: Surroundings> Server<'a, S> {
    /// A loop over empty rings.
    pub fn new(
        board: Board<'a>,
        commands: Consumer<'a>,
        replies: Producer<'a>,
        surroundings: S,
    ) -> Self {
        Server {
            board,
            commands,
            out: Replies { board, ring: replies, surroundings, chunk: Vec::new() },
            payload: Vec::new(),
            program: Vec::new(),
            view: None,
            sequence: 0,
            unforgotten: 0,
            stamped: stamped::Stamped::default(),
        }
    }

    /// Works off one message, if there is one.
    ///
    /// Errors: a ring is broken, which nothing repairs.
    #[inline]
    pub fn turn(&mut self) -> Result<Turn, RingError> {
        let mut payload = core::mem::take(&mut self.payload);
        let taken = self.commands.pop(&mut payload);
        let turn = match taken {
            Ok(Some(header)) => self.message(header, &payload),
            Ok(None) => Ok(Turn::Idle),
            Err(error) => Err(error),
        };
        self.payload = payload;
        turn
    }

    fn message(&mut self, header: Header, words: &[u64]) -> Result<Turn, RingError> {
        let Header { kind, number, .. } = header;
        self.board.beat();
        let result = match kind {
            command::EVENTS => self.events(number, words, true)?,
            command::TAKE_BACK => self.events(number, words, false)?,
            command::CHANGES => self.changes(number, words)?,
            command::ROW => self.row(number, words)?,
            command::STRINGS => self.strings(number, words)?,
            command::SETTLED => {
                if let Some(view) = &mut self.view {
                    view.engine.forget_changes();
                    view.told = Some(self.sequence);
                }
                Ok(())
            }
            command::LOAD => self.load(number, words),
            command::INTERN => self.intern(number, words),
            command::READ => self.read(number, words)?,
            command::SAVE => self.save(number)?,
            command::RESTORE => self.restore(words),
            command::RESTORED => self.restored(number, words),
            command::REPORT => {
                let report = self.report().encode();
                self.out.send(reply::REPORT, number, &[&report])?;
                Ok(())
            }
            command::PING => {
                self.out.send(reply::END, number, &[&[self.sequence]])?;
                Ok(())
            }
            command::PROBE => {
                self.out.surroundings.probe(words.first().copied().unwrap_or(0));
                Ok(())
            }
            command::HOLD => self.hold(number, words)?,
            command::RUN => self.run(number, words)?,
            command::WORK => self.work(number, words)?,
            command::STAMPS => self.stamps(number)?,
            command::STOP => return Ok(Turn::Stopped),
            _ => Err(malformed()),
        };
        if let Err((why, text)) = result {
            self.out.refuse(number, why, &text)?;
        }
        Ok(Turn::Worked)
    }

    /// Ends a message that has changed the view.
    fn done(&mut self, number: u64) {
        self.sequence = number;
        self.board.set_applied(number);
    }

    /// The view, if the message follows the one before.
    fn next(&mut self, number: u64) -> Result<&mut View, Refused> {
        let follows = self.sequence.checked_add(1) == Some(number);
        match &mut self.view {
            None => Err((Refusal::NoProgram, String::new())),
            Some(_) if !follows => Err((Refusal::OutOfOrder, String::new())),
            Some(view) => Ok(view),
        }
    }

    fn load(&mut self, number: u64, words: &[u64]) -> Result<(), Refused> {
        let (&flags, mut rest) = words.split_first().ok_or_else(malformed)?;
        self.program.extend(unpack(&mut rest).ok_or_else(malformed)?);
        if flags & command::LOAD_LAST == 0 {
            return Ok(());
        }
        let bytes = core::mem::take(&mut self.program);
        let broken = |text: String| (Refusal::Program, text);
        let program = program::decode(&bytes).map_err(|error| broken(error.to_string()))?;
        let row_words = events::row_words(&program);
        let options = Options { executor: Executor::Operations, ..Options::default() };
        let mut engine =
            Engine::new(program, options).map_err(|error| broken(error.to_string()))?;
        if flags & command::LOAD_RESTORES == 0 {
            engine.begin().map_err(|error| broken(error.to_string()))?;
        }
        let maps = &engine.program().maps;
        let sum_words = |map: &halcyon_view::program::MapDecl| {
            map.payload.iter().map(|part| part.sum_words()).sum::<usize>()
        };
        let key_words = |map: &halcyon_view::program::MapDecl| {
            map.key.iter().map(|ty| ty.words()).sum::<usize>()
        };
        let entry_words = maps.iter().map(|map| (key_words(map), sum_words(map))).collect();
        let (_, heap_bytes) = self.out.surroundings.heap();
        // A table that grows has the old one beside the new one, of twice its size, and the heap
        // keeps blocks of former sizes.
        let map_bytes_max = heap_bytes / 4;
        self.stamped = stamped::Stamped::default();
        self.view = Some(View {
            engine,
            row_words,
            entry_words,
            map_bytes_max,
            events_before: 0,
            rejected: 0,
            told: None,
        });
        self.done(number);
        Ok(())
    }

    fn intern(&mut self, number: u64, mut words: &[u64]) -> Result<(), Refused> {
        let view = self.next(number)?;
        while !words.is_empty() {
            let text = unpack_text(&mut words).ok_or_else(malformed)?;
            view.engine.intern(&text);
        }
        self.done(number);
        Ok(())
    }

    /// Applies events; `limited`: unless the maps have reached their memory.
    fn events(
        &mut self,
        number: u64,
        words: &[u64],
        limited: bool,
    ) -> Result<Result<(), Refused>, RingError> {
        let follows = self.sequence.checked_add(1) == Some(number);
        let Some(view) = &mut self.view else {
            return Ok(Err((Refusal::NoProgram, String::new())));
        };
        if !follows {
            return Ok(Err((Refusal::OutOfOrder, String::new())));
        }
        if events::check(words, &view.row_words).is_none() {
            return Ok(Err(malformed()));
        }
        if limited && view.engine.memory_bytes() > view.map_bytes_max {
            // The number counts as seen all the same, so that what follows has its place; a host that
            // waits for it finds the refusal before.
            self.out.refuse(number, Refusal::Memory, "")?;
            self.done(number);
            return Ok(Ok(()));
        }
        let mut events = Events::new(words, &view.row_words);
        let mut index = 0;
        while let Err((met, error)) = view.engine.apply_all(events.clone().map(Some)) {
            events.nth(met);
            index += met as u64 + 1;
            view.rejected += 1;
            let words = [index - 1, rejection::code(&error)];
            self.out.send(reply::REJECTED, number, &[&words])?;
        }
        view.forget(&mut self.unforgotten);
        self.board.beat();
        self.done(number);
        Ok(Ok(()))
    }

    fn read(&mut self, number: u64, words: &[u64]) -> Result<Result<(), Refused>, RingError> {
        let Some(view) = &mut self.view else {
            return Ok(Err((Refusal::NoProgram, String::new())));
        };
        let (out, mut broken) = (&mut self.out, Ok(()));
        let (mut rows, mut limit) = (0_u64, CHUNK_WORDS);
        limit = limit.min(out.ring.payload_words_max() / 2);
        out.chunk.clear();
        out.chunk.push(0);
        let read = view.engine.for_each_row(|row| {
            if out.chunk.len() + row.len() > limit && rows > 0 && broken.is_ok() {
                out.chunk[0] = rows;
                broken = out.send_chunk(reply::ROWS, number);
                rows = 0;
                out.chunk.push(0);
            }
            out.chunk.extend_from_slice(row);
            rows += 1;
        });
        broken?;
        if let Err(error) = read {
            out.chunk.clear();
            return Ok(Err((Refusal::Rows, error.to_string())));
        }
        out.chunk[0] = rows;
        out.send_chunk(reply::ROWS, number)?;
        // A row whose texts are to be shown may have strings that the host has not seen.
        out.send_strings(&view.engine, number, words.first().copied().unwrap_or(0))?;
        out.send(reply::END, number, &[&[self.sequence]])?;
        Ok(Ok(()))
    }

    /// Tells the changes of rows since a position, or all rows where other changes are noted.
    fn changes(&mut self, number: u64, words: &[u64]) -> Result<Result<(), Refused>, RingError> {
        let Some(view) = &mut self.view else {
            return Ok(Err((Refusal::NoProgram, String::new())));
        };
        let Some(&[since, known]) = words.first_chunk::<2>() else { return Ok(Err(malformed())) };
        let (out, mut broken) = (&mut self.out, Ok(()));
        let limit = CHUNK_WORDS.min(out.ring.payload_words_max() / 2);
        let is_all = view.told != Some(since);
        out.chunk.clear();
        out.chunk.push(0);
        let mut tell = |key: &[u64], old: Option<&[u64]>, new: Option<&[u64]>| {
            let words = 1 + key.len() + old.map_or(0, <[u64]>::len) + new.map_or(0, <[u64]>::len);
            if out.chunk[0] > 0 && out.chunk.len() + words > limit && broken.is_ok() {
                broken = out.send_chunk(reply::CHANGED, number);
                out.chunk.push(0);
            }
            let flag = |row: Option<&[u64]>, flag| row.map_or(0, |_| flag);
            out.chunk.push(flag(old, reply::CHANGED_OLD) | flag(new, reply::CHANGED_NEW));
            out.chunk.extend_from_slice(key);
            out.chunk.extend_from_slice(old.unwrap_or_default());
            out.chunk.extend_from_slice(new.unwrap_or_default());
            out.chunk[0] += 1;
        };
        let read = match is_all {
            true => view.engine.for_each_keyed_row(|key, row| tell(key, None, Some(row))),
            false => view.engine.drain_changes(|change| tell(change.key, change.old, change.new)),
        };
        broken?;
        if let Err(error) = read {
            out.chunk.clear();
            return Ok(Err((Refusal::Rows, error.to_string())));
        }
        out.send_chunk(reply::CHANGED, number)?;
        view.engine.forget_changes();
        view.told = Some(self.sequence);
        let strings = out.send_strings(&view.engine, number, known)?;
        out.send(reply::END, number, &[&[self.sequence, strings, u64::from(is_all)]])?;
        Ok(Ok(()))
    }

    fn row(&mut self, number: u64, words: &[u64]) -> Result<Result<(), Refused>, RingError> {
        let Some(view) = &mut self.view else {
            return Ok(Err((Refusal::NoProgram, String::new())));
        };
        let program = view.engine.program();
        let derived = program.relations[usize::from(program.output.0)].derived.as_ref();
        let map = derived.and_then(|derived| view.entry_words.get(usize::from(derived.map.0)));
        let Some((&known, key)) = words.split_first() else { return Ok(Err(malformed())) };
        if map.map(|(key_words, _)| *key_words) != Some(key.len()) {
            return Ok(Err(malformed()));
        }
        let mut row = Vec::new();
        match view.engine.row(key, &mut row) {
            Ok(true) => self.out.send(reply::ROWS, number, &[&[1], &row])?,
            Ok(false) => self.out.send(reply::ROWS, number, &[&[0]])?,
            Err(error) => return Ok(Err((Refusal::Rows, error.to_string()))),
        }
        self.out.send_strings(&view.engine, number, known)?;
        self.out.send(reply::END, number, &[&[self.sequence]])?;
        Ok(Ok(()))
    }

    fn strings(&mut self, number: u64, words: &[u64]) -> Result<Result<(), Refused>, RingError> {
        let Some(view) = &mut self.view else {
            return Ok(Err((Refusal::NoProgram, String::new())));
        };
        self.out.send_strings(&view.engine, number, words.first().copied().unwrap_or(0))?;
        self.out.send(reply::END, number, &[&[self.sequence]])?;
        Ok(Ok(()))
    }

    fn save(&mut self, number: u64) -> Result<Result<(), Refused>, RingError> {
        let Some(view) = &mut self.view else {
            return Ok(Err((Refusal::NoProgram, String::new())));
        };
        let (out, mut broken) = (&mut self.out, Ok(()));
        let limit = CHUNK_WORDS.min(out.ring.payload_words_max() / 2);
        let strings = view.engine.dictionary().len();
        out.chunk.clear();
        for at in 0..strings {
            if out.chunk.is_empty() {
                out.chunk.push(Saved::Strings.encode());
            }
            pack(view.engine.dictionary().text(at as i64).as_bytes(), &mut out.chunk);
            if out.chunk.len() > limit || at + 1 == strings {
                out.send_chunk(reply::SAVED, number)?;
            }
        }
        for map in 0..view.entry_words.len() {
            view.engine.for_each_entry(map, &mut |key, sums| {
                if out.chunk.is_empty() {
                    // Programs number their maps with 16 bits.
                    out.chunk.push(Saved::Map(map as u16).encode());
                }
                out.chunk.extend_from_slice(key);
                out.chunk.extend_from_slice(sums);
                if out.chunk.len() > limit && broken.is_ok() {
                    broken = out.send_chunk(reply::SAVED, number);
                }
            });
            if !out.chunk.is_empty() {
                out.send_chunk(reply::SAVED, number)?;
            }
        }
        broken?;
        for part in self.stamped.rest().chunks(limit) {
            out.chunk.push(Saved::Held.encode());
            out.chunk.extend_from_slice(part);
            out.send_chunk(reply::SAVED, number)?;
        }
        let events = view.events_before + view.engine.statistics().events;
        out.send(reply::END, number, &[&[self.sequence, events, view.rejected]])?;
        Ok(Ok(()))
    }

    fn restore(&mut self, words: &[u64]) -> Result<(), Refused> {
        let view = self.view.as_mut().ok_or((Refusal::NoProgram, String::new()))?;
        let (&first, mut rest) = words.split_first().ok_or_else(malformed)?;
        match Saved::decode(first).ok_or_else(malformed)? {
            Saved::Strings => {
                while !rest.is_empty() {
                    let text = unpack_text(&mut rest).ok_or_else(malformed)?;
                    view.engine.intern(&text);
                }
            }
            Saved::Held => self.stamped.hold(rest),
            Saved::Map(map) => {
                let map = usize::from(map);
                let &(key, sums) = view.entry_words.get(map).ok_or_else(malformed)?;
                if !rest.len().is_multiple_of(key + sums) {
                    return Err(malformed());
                }
                for entry in rest.chunks_exact(key + sums) {
                    let (key, sums) = entry.split_at(key);
                    view.engine.restore(map, key, sums).map_err(|_| malformed())?;
                }
            }
        }
        Ok(())
    }

    fn restored(&mut self, number: u64, words: &[u64]) -> Result<(), Refused> {
        let view = self.view.as_mut().ok_or((Refusal::NoProgram, String::new()))?;
        let [events, rejected] = *words.first_chunk::<2>().ok_or_else(malformed)?;
        view.engine.forget_changes();
        (view.events_before, view.rejected) = (events, rejected);
        self.done(number);
        Ok(())
    }

    fn report(&self) -> CellReport {
        let (heap_bytes, heap_bytes_max) = self.out.surroundings.heap();
        let mut report = CellReport {
            applied: self.sequence,
            heap_bytes,
            heap_bytes_max,
            ..CellReport::default()
        };
        if let Some(view) = &self.view {
            report.events = view.events_before + view.engine.statistics().events;
            report.rejected = view.rejected;
            report.entries = view.engine.entry_count();
            report.map_bytes = view.engine.memory_bytes();
        }
        report
    }
}
