//! Just enough of PostgreSQL's protocol 3 to answer lookups by key in `account`.
//!
//! Words: a *message* is a letter, a length and a body; a *dialogue* is what one connection has said and been
//! told. Answers have the bytes of those of a database with the same table: the row of account `id` is its branch, a
//! balance of zero and the text `row <id>`, in text or binary as asked. Whatever else a client says ends the
//! dialogue with an error.
//! Checked by `lab/tests/bare.rs` with the driver of the experiment, and by the experiment itself at each row.

use std::io::Write;

/// What a text must contain before its key.
const LOOKUP: &str = " FROM account WHERE id = ";

/// Types of the columns and their lengths: INTEGER, INTEGER, TEXT.
const TYPES: [(u32, i16); 3] = [(23, 4), (23, 4), (25, -1)];
const NAMES: [&str; 3] = ["branch", "balance", "filler"];

/// Codes in the place of a version: requests of TLS and of Kerberos.
const REQUESTS: [u32; 2] = [80_877_103, 80_877_104];
const VERSION_3: u32 = 3 << 16;

/// Names and values of what a client is told at the start.
const PARAMETERS: [(&str, &str); 5] = [
    ("server_version", "15.0"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("standard_conforming_strings", "on"),
    ("integer_datetimes", "on"),
];

/// What one connection has said and been told.
pub(super) struct Dialogue {
    rows: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    has_begun: bool,
    /// What the unnamed portal looks up.
    bound: Option<Lookup>,
}

/// A row asked for.
#[derive(Clone, Copy)]
struct Lookup {
    id: u32,
    is_binary: bool,
}

/// Branches of a bank with so many accounts, as TPC-B has them.
pub fn branches(rows: u32) -> u32 {
    rows.div_ceil(100_000)
}

/// A message that this server does not understand.
struct NotUnderstood;

type Understood<T> = Result<T, NotUnderstood>;

impl Dialogue {
    pub(super) fn new(rows: u32) -> Self {
        Dialogue { rows, input: Vec::new(), output: Vec::new(), has_begun: false, bound: None }
    }

    /// Takes bytes of the client, and makes the answers to all messages that are whole; whether the dialogue goes on.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> bool {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut left = input.as_slice();
        let mut goes_on = true;
        while goes_on && let Some((message, rest)) = split_message(left, self.has_begun) {
            left = rest;
            goes_on = match message.kind {
                b'X' => false,
                _ => self.reply(message).unwrap_or_else(|NotUnderstood| {
                    refuse(&mut self.output);
                    false
                }),
            };
        }
        let heard = input.len() - left.len();
        self.input = input;
        self.input.drain(..heard);
        goes_on
    }

    /// What is to be sent.
    pub(super) fn answer(&self) -> &[u8] {
        &self.output
    }

    /// Notes that all was sent.
    pub(super) fn answered(&mut self) {
        self.output.clear();
    }

    /// Answers a message; whether the dialogue goes on.
    fn reply(&mut self, message: Message<'_>) -> Understood<bool> {
        let (out, mut body) = (&mut self.output, Body(message.body));
        match message.kind {
            START => match body.u32()? {
                code if REQUESTS.contains(&code) => out.push(b'N'),
                VERSION_3 => {
                    self.has_begun = true;
                    welcome(out);
                }
                _ => return Err(NotUnderstood),
            },
            b'Q' => {
                let text = body.text()?;
                let id = key(text)?.parse().map_err(|_| NotUnderstood)?;
                describe_row(out, names(text)?);
                self.row(Lookup { id, is_binary: false });
                ready(&mut self.output);
            }
            b'P' => {
                body.text()?;
                key(body.text()?)?;
                send(out, b'1', |_| {});
            }
            b'D' => {
                if body.u8()? == b'S' {
                    send(out, b't', |out| {
                        out.extend(1_u16.to_be_bytes());
                        out.extend(TYPES[0].0.to_be_bytes());
                    });
                }
                describe_row(out, NAMES.into_iter());
            }
            b'B' => {
                self.bound = Some(body.lookup()?);
                send(out, b'2', |_| {});
            }
            b'E' => {
                let lookup = self.bound.ok_or(NotUnderstood)?;
                self.row(lookup);
            }
            b'C' => send(out, b'3', |_| {}),
            b'S' => ready(out),
            b'H' => {}
            _ => return Err(NotUnderstood),
        }
        Ok(true)
    }

    /// The row, if there is such an account, and the end of the statement.
    fn row(&mut self, lookup: Lookup) {
        let Lookup { id, is_binary } = lookup;
        let out = &mut self.output;
        let count = usize::from((1..=self.rows).contains(&id));
        if count == 1 {
            let number = |out: &mut Vec<u8>, number: u32| match is_binary {
                true => value(out, |out| out.extend(number.to_be_bytes())),
                false => value(out, |out| write(out, number)),
            };
            send(out, b'D', |out| {
                out.extend(3_u16.to_be_bytes());
                number(out, 1 + id % branches(self.rows));
                number(out, 0);
                value(out, |out| write(out, format_args!("row {id}")));
            });
        }
        send(out, b'C', |out| write(out, format_args!("SELECT {count}\0")));
    }
}

/// A message's letter, and what follows its length.
struct Message<'a> {
    kind: u8,
    body: &'a [u8],
}

/// Stands for the letter of a client's first messages, which have none.
const START: u8 = 0;

/// The first message and what follows it, if it is whole.
fn split_message(bytes: &[u8], has_begun: bool) -> Option<(Message<'_>, &[u8])> {
    let (kind, bytes) = match has_begun {
        true => bytes.split_first()?,
        false => (&START, bytes),
    };
    let length = u32::from_be_bytes(*bytes.first_chunk()?);
    let (message, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    // A length that does not count itself gives an empty body, which nobody understands.
    Some((Message { kind: *kind, body: message.get(4..).unwrap_or_default() }, rest))
}

/// What is left of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Understood<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(NotUnderstood)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Understood<u8> {
        self.take().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Understood<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Understood<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Understood<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(NotUnderstood)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        std::str::from_utf8(text).map_err(|_| NotUnderstood)
    }

    /// Of a Bind to the unnamed portal, with the key as its only parameter.
    fn lookup(&mut self) -> Understood<Lookup> {
        let portal = self.text()?;
        self.text()?;
        let mut format = 0;
        for _ in 0..self.u16()? {
            format = self.u16()?;
        }
        if !portal.is_empty() || self.u16()? != 1 {
            return Err(NotUnderstood);
        }
        let length = usize::try_from(self.u32()?).map_err(|_| NotUnderstood)?;
        let (key, rest) = self.0.split_at_checked(length).ok_or(NotUnderstood)?;
        self.0 = rest;
        let id = match format {
            0 => std::str::from_utf8(key).ok().and_then(|key| key.parse().ok()),
            _ => key.try_into().ok().map(u32::from_be_bytes),
        };
        let is_binary = self.u16()? > 0 && self.u16()? == 1;
        Ok(Lookup { id: id.ok_or(NotUnderstood)?, is_binary })
    }
}

/// The key of a lookup, as it is written.
fn key(text: &str) -> Understood<&str> {
    text.split_once(LOOKUP).map(|(_, key)| key).ok_or(NotUnderstood)
}

/// Names of a lookup's columns.
fn names(text: &str) -> Understood<impl Iterator<Item = &str>> {
    let list = text.strip_prefix("SELECT ").and_then(|text| text.split_once(LOOKUP));
    let (list, _) = list.ok_or(NotUnderstood)?;
    Ok(list.split(", ").map(|column| column.rsplit(' ').next().unwrap_or(column)))
}

/// Adds a message whose length is known once its body is written.
fn send(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    counted(out, 4, body);
}

/// Adds a value of a row.
fn value(out: &mut Vec<u8>, bytes: impl FnOnce(&mut Vec<u8>)) {
    counted(out, 0, bytes);
}

/// Adds a length and what it counts; `itself`: what the length adds for its own bytes.
fn counted(out: &mut Vec<u8>, itself: usize, bytes: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    bytes(out);
    let length = u32::try_from(out.len() - at - 4 + itself).expect("answers are short");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn write(out: &mut Vec<u8>, what: impl std::fmt::Display) {
    write!(out, "{what}").expect("memory takes all");
}

fn welcome(out: &mut Vec<u8>) {
    send(out, b'R', |out| out.extend(0_u32.to_be_bytes()));
    for (name, value) in PARAMETERS {
        send(out, b'S', |out| write(out, format_args!("{name}\0{value}\0")));
    }
    send(out, b'K', |out| out.extend([0; 8]));
    ready(out);
}

fn ready(out: &mut Vec<u8>) {
    send(out, b'Z', |out| out.push(b'I'));
}

fn describe_row<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a str>) {
    send(out, b'T', |out| {
        out.extend(3_u16.to_be_bytes());
        for ((name, (oid, length)), number) in names.zip(TYPES).zip(1_u16..) {
            write(out, format_args!("{name}\0"));
            out.extend(0_u32.to_be_bytes());
            out.extend(number.to_be_bytes());
            out.extend(oid.to_be_bytes());
            out.extend(length.to_be_bytes());
            out.extend((-1_i32).to_be_bytes());
            out.extend(0_u16.to_be_bytes());
        }
    });
}

fn refuse(out: &mut Vec<u8>) {
    send(out, b'E', |out| {
        let what = "SELECT branch, balance, filler FROM account WHERE id = $1";
        write(out, format_args!("SFATAL\0VFATAL\0C0A000\0Mthe server knows only {what}\0\0"));
    });
}
