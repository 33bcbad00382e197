//! Bytes to rows: text, CSV and binary, in pieces of any size.

use arrow::array::{Array, ArrayRef, RecordBatch};
use halcyon_base::progress::{self, Kind, Phase, Unit, Work};
use halcyon_store::{Value, ValueRef};
use halcyon_txn::{Savepoint, Transaction};

use crate::binary;
use crate::orderbook::OrdersIn;
use crate::parquet;
use crate::{CopyKind, CopyPlan, DataPlace, Format, From, Header, Options};
use halcyon_exec::dml::WriteContext;
use halcyon_exec::dml::bulk::Late;
use halcyon_exec::turns::Turns;
use halcyon_plan::env::{Env, Locks};
use halcyon_sql::coerce::{self, Arena, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::values::ArrayWriter;

/// Rows that become one batch.
const BATCH_ROWS: usize = 8192;

/// After so many rows a COPY that lasts looks whether its turn is over.
const LOOK_ROWS: usize = 64;

/// Longest line, so that a quote that is never closed does not take all memory.
const LINE_BYTES_MAX: usize = 1 << 30;

/// The receiving end of COPY FROM.
pub struct CopyIn {
    incoming: Incoming,
    work: Work,
}

enum Incoming {
    Rows(Box<RowsIn>),
    Orders(OrdersIn),
}

impl CopyIn {
    /// The end of a COPY of so many bytes, if that is known. Panics: if the plan is a COPY TO.
    pub(super) fn new(plan: &CopyPlan, bytes: Option<u64>) -> CopyIn {
        let (incoming, table) = match &plan.kind {
            CopyKind::From(from) => {
                let rows = RowsIn::new(from, &plan.options);
                (Incoming::Rows(Box::new(rows)), Some(from.writer.table().shown()))
            }
            CopyKind::Orders(_) => (Incoming::Orders(OrdersIn::default()), None),
            CopyKind::To { .. } => panic!("COPY TO takes no data"),
        };
        let kind = match plan.place {
            DataPlace::Client => Kind::CopyFromClient,
            DataPlace::File(_) => Kind::CopyFromFile,
        };
        let work = progress::begin(kind, table);
        work.stage(Phase::Copying, Unit::Bytes, bytes);
        CopyIn { incoming, work }
    }

    /// Rows or messages taken so far, and rows that the condition has left out.
    fn taken(&self) -> (u64, u64) {
        match &self.incoming {
            Incoming::Rows(rows) => (rows.taken(), rows.excluded),
            Incoming::Orders(orders) => (orders.messages(), 0),
        }
    }

    /// Takes bytes. Errors: whatever a row of them is refused for, with its line.
    pub fn push(
        &mut self,
        plan: &CopyPlan,
        bytes: &[u8],
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<()> {
        let before = self.taken();
        match (&mut self.incoming, &plan.kind) {
            (Incoming::Rows(rows), CopyKind::From(from)) => {
                rows.push(from, &plan.options, bytes, env, tx, locks)?;
            }
            (Incoming::Orders(incoming), CopyKind::Orders(orders)) => {
                incoming.push(orders, bytes)?;
            }
            _ => panic!("the data of another COPY"),
        }
        let (rows, excluded) = self.taken();
        self.work.rows(rows - before.0);
        self.work.excluded(excluded - before.1);
        self.work.bytes(bytes.len() as u64);
        Ok(())
    }

    /// Takes a record batch, whose columns are found by name, or by position if no name fits.
    ///
    /// Errors: whatever one of the rows is refused for; 22P04 without a column, 0A000 for a type that SQL does not know
    /// and for COPY of an order book's messages.
    pub fn push_batch(
        &mut self,
        plan: &CopyPlan,
        batch: &RecordBatch,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<()> {
        let before = self.taken();
        match (&mut self.incoming, &plan.kind) {
            (Incoming::Rows(rows), CopyKind::From(from)) => {
                rows.push_batch(from, batch, env, tx, locks)?;
            }
            _ => {
                let what = "a record batch as an order book's messages";
                return Err(SqlError::unsupported(what));
            }
        }
        let stored = self.taken().0 - before.0;
        self.work.rows(stored);
        self.work.excluded((batch.num_rows() as u64).saturating_sub(stored));
        Ok(())
    }

    /// Ends the data. Returns the rows or events stored.
    pub fn finish(
        self,
        plan: &CopyPlan,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<u64> {
        match (self.incoming, &plan.kind) {
            (Incoming::Rows(rows), CopyKind::From(from)) => {
                rows.finish(from, &plan.options, env, tx, locks)
            }
            (Incoming::Orders(incoming), CopyKind::Orders(orders)) => {
                incoming.finish(orders, env, tx, locks)
            }
            _ => panic!("the data of another COPY"),
        }
    }
}

/// The receiving end of COPY FROM for lines and tuples that are rows.
struct RowsIn {
    pending: Vec<u8>,
    /// Bytes of `pending` already looked at for the end of a line.
    scanned: usize,
    quoted: bool,
    escaped: bool,
    line: u64,
    header: Header,
    ended: bool,
    begun: bool,
    writers: Vec<ArrayWriter>,
    batch_rows: usize,
    is_filtered: bool,
    rows: u64,
    /// Rows that the condition has left out.
    excluded: u64,
    late: Late,
    /// The savepoint before the statement, if views have to be brought up to date.
    since: Option<Savepoint>,
    fields: Vec<Field>,
    text: String,
    arena: Arena,
    /// The turns that the statement takes with the workers.
    turns: Turns,
}

/// A field of a line: a range of the unescaped text; `None` is NULL.
type Field = Option<std::ops::Range<usize>>;

impl RowsIn {
    fn new(from: &From, options: &Options) -> RowsIn {
        RowsIn {
            pending: Vec::new(),
            scanned: 0,
            quoted: false,
            escaped: false,
            line: 0,
            header: options.header,
            ended: false,
            begun: false,
            writers: writers(from),
            batch_rows: 0,
            is_filtered: from.condition.is_some(),
            rows: 0,
            excluded: 0,
            late: Late::new(),
            since: None,
            fields: Vec::new(),
            text: String::new(),
            arena: Arena::new(),
            turns: Turns::default(),
        }
    }

    /// Rows that were taken so far to be stored; of a batch that is not full none, if a condition will leave some out.
    fn taken(&self) -> u64 {
        self.rows + if self.is_filtered { 0 } else { self.batch_rows as u64 }
    }

    /// Takes bytes. Errors: whatever a row of them is refused for, with its line.
    fn push(
        &mut self,
        from: &From,
        options: &Options,
        bytes: &[u8],
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.since.is_none() && from.is_followed() {
            self.since = Some(tx.savepoint());
        }
        let turns = std::mem::take(&mut self.turns);
        let mut cx = WriteContext::new(env, tx, locks).going_on(turns);
        let taken = match options.format {
            Format::Binary => self.take_tuples(from, &mut cx),
            _ => self.take_lines(from, options, &mut cx, false),
        };
        self.turns = cx.rests();
        taken
    }

    /// Takes a record batch.
    fn push_batch(
        &mut self,
        from: &From,
        batch: &RecordBatch,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<()> {
        if self.since.is_none() && from.is_followed() {
            self.since = Some(tx.savepoint());
        }
        let turns = std::mem::take(&mut self.turns);
        let mut cx = WriteContext::new(env, tx, locks).going_on(turns);
        let stored = parquet::store(from, batch, &mut cx, &mut self.late);
        self.turns = cx.rests();
        self.rows += stored?;
        Ok(())
    }

    /// Ends the data. Returns the rows stored.
    fn finish(
        mut self,
        from: &From,
        options: &Options,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<u64> {
        let turns = std::mem::take(&mut self.turns);
        let mut cx = WriteContext::new(env, tx, locks).going_on(turns);
        if options.format == Format::Binary {
            self.take_tuples(from, &mut cx)?;
            // The end marker may be missing, as in PostgreSQL, but not half a tuple or the header.
            if !self.begun || (!self.ended && !self.pending.is_empty()) {
                return Err(malformed("unexpected EOF in COPY data"));
            }
        } else {
            self.take_lines(from, options, &mut cx, true)?;
        }
        self.flush(from, &mut cx)?;
        from.writer.finish(&cx, std::mem::take(&mut self.late))?;
        if let Some(since) = &self.since {
            from.end(since, env, tx)?;
        }
        Ok(self.rows)
    }

    // ------------------------------------------------------------------ lines

    fn take_lines(
        &mut self,
        from: &From,
        options: &Options,
        cx: &mut WriteContext<'_>,
        last: bool,
    ) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut start = 0;
        let mut at = self.scanned;
        while !self.ended {
            match self.end_of_line(&pending, at, options) {
                Some(end) => {
                    self.take_line(from, options, &pending[start..end], cx)?;
                    start = end + 1;
                    at = start;
                }
                None if last && start < pending.len() => {
                    if self.quoted {
                        self.line += 1;
                        return Err(malformed("unterminated CSV quoted field")
                            .context(self.context(from, None)));
                    }
                    self.take_line(from, options, &pending[start..], cx)?;
                    start = pending.len();
                    at = start;
                    break;
                }
                None => {
                    at = pending.len();
                    break;
                }
            }
        }
        pending.drain(..start.min(pending.len()));
        if pending.len() > LINE_BYTES_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "a line of COPY data is too long",
            )
            .context(self.context(from, None)));
        }
        self.scanned = at.saturating_sub(start);
        self.pending = pending;
        Ok(())
    }

    /// The end of the line whose bytes from `at` on have not been searched yet.
    fn end_of_line(&mut self, bytes: &[u8], at: usize, options: &Options) -> Option<usize> {
        let csv = options.format == Format::Csv;
        for (offset, byte) in bytes[at..].iter().enumerate() {
            if self.escaped {
                self.escaped = false;
                continue;
            }
            match *byte {
                b'\\' if !csv => self.escaped = true,
                byte if csv && byte == options.escape && options.escape != options.quote => {
                    self.escaped = self.quoted;
                }
                byte if csv && byte == options.quote => self.quoted = !self.quoted,
                b'\n' if !self.quoted => return Some(at + offset),
                _ => {}
            }
        }
        None
    }

    fn take_line(
        &mut self,
        from: &From,
        options: &Options,
        line: &[u8],
        cx: &mut WriteContext<'_>,
    ) -> Result<()> {
        self.line += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let header = std::mem::take(&mut self.header);
        if header == Header::Present {
            return Ok(());
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        let line = std::str::from_utf8(line).map_err(|error| {
            let bad = &line[error.valid_up_to()..];
            let shown: Vec<String> = bad.iter().take(4).map(|b| format!("0x{b:02x}")).collect();
            SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
            )
            .context(self.context(from, None))
        })?;
        if line.contains('\0') {
            return Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\": 0x00",
            )
            .context(self.context(from, None)));
        }
        self.fields.clear();
        self.text.clear();
        match options.format {
            Format::Csv => self.split_csv(from, options, line)?,
            _ => self.split_text(from, options, line)?,
        }
        if header == Header::Match {
            return self.match_names(from, options);
        }
        self.store_fields(from, line, cx)
    }

    /// Compares the fields of the first line with the columns' names. Errors: 22P04.
    fn match_names(&self, from: &From, options: &Options) -> Result<()> {
        let refused = |message: String| {
            let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
            Err(error.context(self.context(from, None)))
        };
        let (count, wanted) = (self.fields.len(), from.columns.len());
        if count != wanted {
            return refused(format!(
                "wrong number of fields in header line: field count is {count}, expected {wanted}"
            ));
        }
        for (number, (field, column)) in self.fields.iter().zip(&from.columns).enumerate() {
            let name = &from.writer.table().columns[usize::from(*column)].name;
            let got = match field {
                Some(field) if self.text[field.clone()] == **name => continue,
                Some(field) => format!("\"{}\"", &self.text[field.clone()]),
                None => format!("null value (\"{}\")", options.null),
            };
            return refused(format!(
                "column name mismatch in header line field {}: got {got}, expected \"{name}\"",
                number + 1
            ));
        }
        Ok(())
    }

    fn split_csv(&mut self, from: &From, options: &Options, line: &str) -> Result<()> {
        let bytes = line.as_bytes();
        let mut at = 0;
        loop {
            let start = self.text.len();
            let mut was_quoted = false;
            let mut in_quotes = false;
            while at < bytes.len() {
                let byte = bytes[at];
                if in_quotes {
                    let next = bytes.get(at + 1).copied();
                    if byte == options.escape
                        && (next == Some(options.quote) || next == Some(options.escape))
                    {
                        self.text.push(next.expect("it was compared") as char);
                        at += 2;
                        continue;
                    }
                    if byte == options.quote {
                        in_quotes = false;
                        at += 1;
                        continue;
                    }
                } else if byte == options.quote {
                    (in_quotes, was_quoted) = (true, true);
                    at += 1;
                    continue;
                } else if byte == options.delimiter {
                    break;
                }
                // Copy up to the next byte that means something; those are all ASCII.
                let special =
                    |b: &u8| *b == options.quote || *b == options.escape || *b == options.delimiter;
                let run = bytes[at + 1..].iter().position(special);
                let end = run.map_or(bytes.len(), |run| at + 1 + run);
                self.text.push_str(&line[at..end]);
                at = end;
            }
            let field = &self.text[start..];
            let column = from
                .columns
                .get(self.fields.len())
                .map(|column| from.writer.table().columns[*column as usize].name.as_str());
            let listed = |list: &[String]| {
                column.is_some_and(|name| list.iter().any(|own| own == name || own == "*"))
            };
            let null = match was_quoted {
                false => field == options.null && !listed(&options.force_not_null),
                true => field == options.null && listed(&options.force_null),
            };
            self.fields.push((!null).then_some(start..self.text.len()));
            if at >= bytes.len() {
                return Ok(());
            }
            at += 1; // the delimiter
        }
    }

    fn split_text(&mut self, from: &From, options: &Options, line: &str) -> Result<()> {
        let bytes = line.as_bytes();
        let mut at = 0;
        loop {
            let (start, raw_start) = (self.text.len(), at);
            while at < bytes.len() && bytes[at] != options.delimiter {
                if bytes[at] == b'\\' {
                    at = self.unescape(from, bytes, at + 1)?;
                    continue;
                }
                let special = |b: &u8| *b == b'\\' || *b == options.delimiter;
                let run = bytes[at..].iter().position(special);
                let end = run.map_or(bytes.len(), |run| at + run);
                self.text.push_str(&line[at..end]);
                at = end;
            }
            let null = line[raw_start..at] == options.null;
            if null {
                self.text.truncate(start);
            }
            self.fields.push((!null).then_some(start..self.text.len()));
            if at >= bytes.len() {
                return Ok(());
            }
            at += 1;
        }
    }

    /// Reads what follows a backslash; returns where the text goes on.
    fn unescape(&mut self, from: &From, bytes: &[u8], at: usize) -> Result<usize> {
        let Some(byte) = bytes.get(at) else {
            self.text.push('\\');
            return Ok(at);
        };
        let simple = match byte {
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\x0b',
            b'x' if bytes.get(at + 1).is_some_and(u8::is_ascii_hexdigit) => {
                let digits = bytes[at + 1..].iter().take(2).take_while(|b| b.is_ascii_hexdigit());
                let count = digits.count();
                let value = digits_value(&bytes[at + 1..at + 1 + count], 16);
                return self.push_byte(from, value).map(|()| at + 1 + count);
            }
            b'0'..=b'7' => {
                let digits = bytes[at..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(b));
                let count = digits.count();
                let value = digits_value(&bytes[at..at + count], 8);
                return self.push_byte(from, value).map(|()| at + count);
            }
            _ => {
                // Any other character stands for itself.
                let rest = std::str::from_utf8(&bytes[at..]).expect("the line is UTF-8");
                let c = rest.chars().next().expect("there is a byte");
                self.text.push(c);
                return Ok(at + c.len_utf8());
            }
        };
        self.text.push(simple);
        Ok(at + 1)
    }

    fn push_byte(&mut self, from: &From, value: u32) -> Result<()> {
        match u8::try_from(value).ok().filter(|byte| byte.is_ascii() && *byte != 0) {
            Some(byte) => {
                self.text.push(byte as char);
                Ok(())
            }
            None => Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                format!("invalid byte sequence for encoding \"UTF8\": 0x{value:02x}"),
            )
            .context(self.context(from, None))),
        }
    }

    fn store_fields(&mut self, from: &From, line: &str, cx: &mut WriteContext<'_>) -> Result<()> {
        let table = from.writer.table();
        if self.fields.len() > from.columns.len() {
            return Err(malformed("extra data after last expected column")
                .context(self.context(from, Some(line))));
        }
        if let Some(missing) = from.columns.get(self.fields.len()) {
            let name = &table.columns[*missing as usize].name;
            return Err(malformed(&format!("missing data for column \"{name}\""))
                .context(self.context(from, Some(line))));
        }
        let zone = zone(cx);
        for (field, column) in self.fields.iter().zip(&from.columns) {
            let definition = &table.columns[*column as usize];
            let writer = &mut self.writers[*column as usize];
            let stored = match field {
                None => writer.push(ValueRef::Null),
                Some(range) => {
                    coerce::parse(&self.text[range.clone()], definition.ty, &zone, &self.arena)
                        .and_then(|value| writer.push(value))
                }
            };
            if let Err(error) = stored {
                let text = field.as_ref().map(|range| &self.text[range.clone()]);
                let shown = text.map_or_else(String::new, |text| format!(": \"{}\"", short(text)));
                return Err(error.context(format!(
                    "COPY {}, line {}, column {}{shown}",
                    table.name, self.line, definition.name
                )));
            }
        }
        self.row_done(from, cx)
    }

    // ------------------------------------------------------------------ rows

    /// Fills the columns that the data lacks, and stores a batch when it is full.
    fn row_done(&mut self, from: &From, cx: &mut WriteContext<'_>) -> Result<()> {
        let table = from.writer.table().clone();
        for (column, cell) in from.defaults.iter().enumerate() {
            if let Some(cell) = cell {
                let none = |_| unreachable!("a default has no source row");
                let (env, ty) = (cx.env, table.columns[column].ty);
                let value = cell.value(env, cx.zone_cell(), none, &[], ty, &self.arena)?;
                self.writers[column].push(value)?;
            }
        }
        self.batch_rows += 1;
        if self.batch_rows.is_multiple_of(LOOK_ROWS) {
            cx.takes_turns();
        }
        if self.batch_rows == BATCH_ROWS {
            self.flush(from, cx)?;
        }
        Ok(())
    }

    fn flush(&mut self, from: &From, cx: &mut WriteContext<'_>) -> Result<()> {
        if self.batch_rows == 0 {
            return Ok(());
        }
        if cx.env.cancel.is_cancelled() {
            return Err(SqlError::new(
                SqlState::QUERY_CANCELED,
                "canceling statement due to user request",
            ));
        }
        let full = std::mem::replace(&mut self.writers, writers(from));
        let mut columns: Vec<ArrayRef> =
            full.into_iter().map(|mut writer| writer.finish()).collect();
        if let Some(condition) = &from.condition {
            let first = self.line.saturating_sub(self.batch_rows as u64) + 1;
            let table = &from.writer.table().name;
            let place = |row| Some(format!("COPY {table}, line {}", first + row as u64));
            columns = condition.filtered(columns, cx.env, place)?;
            let kept = columns.first().map_or(0, |column| column.len());
            self.excluded += (self.batch_rows - kept) as u64;
        }
        let handles: Vec<_> = (0..from.writer.table().cells.len() as u32)
            .map(|partition| cx.lock(from.at, partition))
            .collect();
        let stored = from.writer.append(cx, &handles, columns, &mut self.late);
        self.rows += stored.map_err(|error| {
            let (first, last) = (self.line.saturating_sub(self.batch_rows as u64) + 1, self.line);
            let table = &from.writer.table().name;
            match self.line {
                0 => error,
                _ => error.context(format!("COPY {table}, lines {first} to {last}")),
            }
        })?;
        self.batch_rows = 0;
        self.arena.reset();
        Ok(())
    }

    fn context(&self, from: &From, line: Option<&str>) -> String {
        let table = &from.writer.table().name;
        match line {
            None => format!("COPY {table}, line {}", self.line),
            Some(line) => format!("COPY {table}, line {}: \"{}\"", self.line, short(line)),
        }
    }

    // ------------------------------------------------------------------ binary

    fn take_tuples(&mut self, from: &From, cx: &mut WriteContext<'_>) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        if !self.begun {
            match binary::header(rest)? {
                None => {
                    self.pending = pending;
                    return Ok(());
                }
                Some(after) => {
                    rest = after;
                    self.begun = true;
                }
            }
        }
        while !self.ended {
            match binary::tuple(rest)? {
                binary::Tuple::Incomplete => break,
                binary::Tuple::End => self.ended = true,
                binary::Tuple::Fields(fields, after) => {
                    rest = after;
                    self.line += 1;
                    self.store_binary(from, &fields, cx)?;
                }
            }
        }
        self.pending = if self.ended { Vec::new() } else { rest.to_vec() };
        Ok(())
    }

    fn store_binary(
        &mut self,
        from: &From,
        fields: &[Option<&[u8]>],
        cx: &mut WriteContext<'_>,
    ) -> Result<()> {
        let table = from.writer.table();
        if fields.len() != from.columns.len() {
            return Err(malformed(&format!(
                "row field count is {}, expected {}",
                fields.len(),
                from.columns.len()
            ))
            .context(self.context(from, None)));
        }
        for (field, column) in fields.iter().zip(&from.columns) {
            let definition = &table.columns[*column as usize];
            let value = match field {
                None => Ok(Value::Null),
                Some(bytes) => binary::decode(bytes, definition.ty),
            };
            value.and_then(|value| self.writers[*column as usize].push(value.as_ref())).map_err(
                |error| {
                    error.context(format!(
                        "COPY {}, line {}, column {}",
                        table.name, self.line, definition.name
                    ))
                },
            )?;
        }
        self.row_done(from, cx)
    }
}

fn writers(from: &From) -> Vec<ArrayWriter> {
    let columns = from.writer.table().columns.iter();
    columns.map(|column| ArrayWriter::for_storage(column.ty, BATCH_ROWS)).collect()
}

fn zone(cx: &mut WriteContext<'_>) -> TimeZone {
    let name = &cx.env.session.time_zone;
    *cx.zone_cell().get_or_insert_with(|| TimeZone::parse(name).unwrap_or_default())
}

fn digits_value(digits: &[u8], radix: u32) -> u32 {
    digits.iter().fold(0, |value, digit| {
        value * radix + (*digit as char).to_digit(radix).expect("they were looked at")
    })
}

/// 22P04.
fn malformed(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// The first characters of a text, for messages.
fn short(text: &str) -> String {
    const CHARACTERS: usize = 100;
    match text.char_indices().nth(CHARACTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
