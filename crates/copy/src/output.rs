//! Rows to bytes: text, CSV and binary.

use arrow::array::{ArrayRef, RecordBatch};
use halcyon_base::progress::Work;
use halcyon_store::ValueRef;

use crate::{Format, Header, Options, binary};
use halcyon_exec::analytic::BatchStream;
use halcyon_exec::dml::bulk::cell_of;
use halcyon_exec::dml::{QuerySource, whole_roots};
use halcyon_exec::point::Scratch;
use halcyon_plan::env::{Env, Roots};
use halcyon_sql::coerce::{self, TimeZone};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::rows::{ResultColumn, RowSet};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{ArrayWriter, stored};

/// Bytes from which on a chunk is given out.
const CHUNK_BYTES: usize = 1 << 16;

/// The giving end of COPY TO.
pub struct CopyOut {
    source: Source,
    pub(super) columns: Vec<ResultColumn>,
    types: Vec<SqlType>,
    quoted: Vec<bool>,
    options: Options,
    zone: TimeZone,
    begun: bool,
    ended: bool,
    rows: u64,
    row_ends: Vec<usize>,
    text: String,
    work: Work,
}

enum Source {
    Batches { stream: BatchStream, batch: Option<RecordBatch>, at: usize },
    Rows { rows: RowSet, at: usize },
}

impl CopyOut {
    pub(super) fn new(
        source: &QuerySource,
        columns: &[ResultColumn],
        options: &Options,
        env: &Env<'_>,
        roots: Roots<'_>,
        scratch: &mut Scratch,
        work: Work,
    ) -> Result<CopyOut> {
        let source = match source {
            QuerySource::Point(plan) => {
                let mut rows = RowSet::new(columns.len());
                plan.run(env, roots, &mut rows, scratch)?;
                Source::Rows { rows, at: 0 }
            }
            QuerySource::Analytical(plan) => {
                let stream = plan.start(env, whole_roots(source.tables(), roots))?;
                Source::Batches { stream, batch: None, at: 0 }
            }
        };
        let types = columns.iter().map(|column| {
            column.ty.ok_or_else(|| {
                SqlError::unsupported(format!("COPY of type {}", column.field.data_type()))
            })
        });
        let forced = |column: &ResultColumn| {
            options.force_quote.iter().any(|name| *name == column.name || name == "*")
        };
        Ok(CopyOut {
            source,
            types: types.collect::<Result<_>>()?,
            quoted: columns.iter().map(forced).collect(),
            columns: columns.to_vec(),
            options: options.clone(),
            zone: TimeZone::parse(&env.session.time_zone).unwrap_or_default(),
            begun: false,
            ended: false,
            rows: 0,
            row_ends: Vec::new(),
            text: String::new(),
            work,
        })
    }

    /// Rows given out so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Where the messages of the last chunk end: one per row, the binary header with the first
    /// row, a line of names and the binary trailer by themselves. Drivers read a row per message.
    pub fn row_ends(&self) -> &[usize] {
        &self.row_ends
    }

    /// The next piece of data, whole rows; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>> {
        if self.ended {
            return Ok(None);
        }
        let (mut out, before) = (Vec::new(), self.rows);
        self.row_ends.clear();
        if !std::mem::replace(&mut self.begun, true) {
            match self.options.format {
                Format::Binary => binary::write_header(&mut out),
                _ if self.options.header != Header::Absent => {
                    self.write_names(&mut out);
                    self.row_ends.push(out.len());
                }
                _ => {}
            }
        }
        while out.len() < CHUNK_BYTES {
            if !self.write_row(&mut out)? {
                self.ended = true;
                if self.options.format == Format::Binary {
                    binary::write_end(&mut out);
                    self.row_ends.push(out.len());
                }
                break;
            }
            self.rows += 1;
            self.row_ends.push(out.len());
        }
        self.work.rows(self.rows - before);
        self.work.bytes(out.len() as u64);
        Ok((!out.is_empty()).then_some(out))
    }

    /// The rest of the rows as batches, for Parquet.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match &mut self.source {
            Source::Batches { stream, .. } => {
                let batch = stream.next().transpose()?;
                let more = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
                self.rows += more;
                self.work.rows(more);
                Ok(batch)
            }
            Source::Rows { rows, at } => {
                if *at > 0 || rows.is_empty() {
                    return Ok(None);
                }
                *at = rows.len();
                self.rows += rows.len() as u64;
                self.work.rows(rows.len() as u64);
                let column = |column: usize| -> Result<ArrayRef> {
                    let mut writer = ArrayWriter::new(self.types[column], rows.len());
                    (0..rows.len()).try_for_each(|row| writer.push(rows.value(row, column)))?;
                    Ok(writer.finish())
                };
                let arrays = (0..self.types.len()).map(column).collect::<Result<Vec<_>>>()?;
                let names = self.columns.iter().map(|column| column.name.as_str());
                let batch = RecordBatch::try_from_iter_with_nullable(
                    names.zip(arrays).map(|(name, array)| (name, array, true)),
                );
                batch.map(Some).map_err(|error| halcyon_sql::diagnose::sql_error(error.into(), ""))
            }
        }
    }

    fn write_names(&mut self, out: &mut Vec<u8>) {
        for at in 0..self.columns.len() {
            if at > 0 {
                out.push(self.options.delimiter);
            }
            let name = std::mem::take(&mut self.columns[at].name);
            self.write_field(&name, false, out);
            self.columns[at].name = name;
        }
        out.push(b'\n');
    }

    /// Writes one row; false at the end.
    fn write_row(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        if let Source::Batches { stream, batch, at } = &mut self.source {
            while batch.as_ref().is_none_or(|batch| *at >= batch.num_rows()) {
                match stream.next().transpose()? {
                    None => return Ok(false),
                    Some(next) => (*batch, *at) = (Some(with_stored(next)?), 0),
                }
            }
        }
        // The source is taken out while its values are written.
        let mut source =
            std::mem::replace(&mut self.source, Source::Rows { rows: RowSet::default(), at: 0 });
        let written = match &mut source {
            Source::Rows { rows, at } if *at >= rows.len() => Ok(false),
            Source::Rows { rows, at } => {
                *at += 1;
                let row = *at - 1;
                self.write_values(|column| Ok(rows.value(row, column)), out).map(|()| true)
            }
            Source::Batches { batch, at, .. } => {
                *at += 1;
                let (batch, row) = (batch.as_ref().expect("there is a row"), *at - 1);
                self.write_values(|column| cell_of(batch.column(column), row), out).map(|()| true)
            }
        };
        self.source = source;
        written
    }

    fn write_values<'v>(
        &mut self,
        value: impl Fn(usize) -> Result<ValueRef<'v>>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.options.format == Format::Binary {
            out.extend((self.types.len() as i16).to_be_bytes());
            for (at, ty) in self.types.iter().enumerate() {
                binary::encode(value(at)?, *ty, out);
            }
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.text);
        for at in 0..self.types.len() {
            if at > 0 {
                out.push(self.options.delimiter);
            }
            let value = value(at)?;
            if value.is_null() {
                out.extend(self.options.null.as_bytes());
                continue;
            }
            text.clear();
            coerce::write(value, self.types[at], &self.zone, &mut text);
            self.write_field(&text, self.quoted[at], out);
        }
        self.text = text;
        out.push(b'\n');
        Ok(())
    }

    fn write_field(&self, text: &str, force: bool, out: &mut Vec<u8>) {
        match self.options.format {
            Format::Csv => self.write_csv(text, force, out),
            _ => self.write_text(text, out),
        }
    }

    fn write_csv(&self, text: &str, force: bool, out: &mut Vec<u8>) {
        let Options { delimiter, quote, escape, .. } = self.options;
        let special =
            |byte: u8| byte == delimiter || byte == quote || byte == b'\n' || byte == b'\r';
        let only = text == "\\." && self.types.len() == 1;
        if !force && !only && text != self.options.null && !text.bytes().any(special) {
            return out.extend(text.as_bytes());
        }
        out.push(quote);
        for byte in text.bytes() {
            if byte == quote || byte == escape {
                out.push(escape);
            }
            out.push(byte);
        }
        out.push(quote);
    }

    fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        for byte in text.bytes() {
            let escaped = match byte {
                b'\\' => b'\\',
                b'\x08' => b'b',
                b'\x0c' => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                b'\x0b' => b'v',
                byte if byte == self.options.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend([b'\\', escaped]);
        }
    }
}

/// The batch with arrays as columns store them.
fn with_stored(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let columns = batch.columns().iter().map(stored);
    let batch = RecordBatch::try_from_iter_with_nullable(
        names.zip(columns).map(|(name, column)| (name, column, true)),
    );
    batch.map_err(|error| halcyon_sql::diagnose::sql_error(error.into(), ""))
}
