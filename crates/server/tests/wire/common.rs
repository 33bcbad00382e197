//! A server per test, and a client that sends and receives bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use halcyon::Database;
use halcyon_server::{Server, ServerConfig, serve};

/// The longest that an operation may take before its test fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port of this machine.
pub fn server() -> Server {
    server_with(ServerConfig::default())
}

/// A server set up as `config` says, but on a free port.
pub fn server_with(config: ServerConfig) -> Server {
    server_of(Database::in_memory(), config)
}

/// A server of a database, set up as `config` says, but on a free port.
pub fn server_of(database: Database, config: ServerConfig) -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = ServerConfig { listen, shutdown_grace: Duration::from_millis(300), ..config };
    serve(database, config).expect("a server on loopback starts")
}

/// Name of the first superuser.
pub fn superuser() -> String {
    let session = Database::in_memory().session();
    session.setting("session_authorization").expect("it exists")
}

/// A message as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.kind as char, String::from_utf8_lossy(&self.body))
    }
}

impl Frame {
    /// The field `code` of an error or notice.
    pub fn field(&self, code: u8) -> Option<&str> {
        let mut fields = self.body.split(|byte| *byte == 0);
        let field = fields.find(|field| field.first() == Some(&code))?;
        std::str::from_utf8(&field[1..]).ok()
    }
}

/// A client that sends and receives bytes.
pub struct Raw {
    pub stream: TcpStream,
}

impl Raw {
    /// Connects and sends nothing.
    pub fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Raw { stream }
    }

    /// Connects and logs in without a password.
    pub fn connect(address: SocketAddr) -> Self {
        let mut raw = Raw::silent(address);
        raw.send(&startup(&superuser()));
        let frames = raw.until(b'Z');
        assert_eq!(frames[0].kind, b'R', "{frames:?}");
        raw
    }

    /// Sends bytes; a server that has closed already is found by the next read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next message; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 5];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server is silent")
            }
            Err(_) => return None,
        }
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("a whole message");
        Some(Frame { kind: head[0], body })
    }

    /// Messages up to one of type `kind`, or the end of the stream.
    pub fn until(&mut self, kind: u8) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next() {
            let found = frame.kind == kind;
            frames.push(frame);
            if found {
                break;
            }
        }
        frames
    }

    /// Sends a Query and returns the answer, ReadyForQuery included.
    pub fn query(&mut self, text: &str) -> Vec<Frame> {
        self.send(&query(text));
        self.until(b'Z')
    }

    /// Sends a Query that must not fail.
    pub fn ok(&mut self, text: &str) -> Vec<Frame> {
        let frames = self.query(text);
        let failed = frames.iter().any(|frame| frame.kind == b'E');
        assert!(!failed && frames.last().is_some_and(|f| f.kind == b'Z'), "{text}: {frames:?}");
        frames
    }

    /// The first value of a Query's first row.
    pub fn value(&mut self, text: &str) -> Vec<u8> {
        self.ok(text)[1].body[6..].to_vec()
    }

    /// The number that a Query gives.
    pub fn count(&mut self, text: &str) -> usize {
        String::from_utf8_lossy(&self.value(text)).parse().expect("a number")
    }
}

/// The SQLSTATE of the error in an answer.
pub fn state_of(answer: &[Frame]) -> Option<&str> {
    answer.iter().find(|frame| frame.kind == b'E')?.field(b'C')
}

/// The message types of an answer.
pub fn kinds(frames: &[Frame]) -> String {
    frames.iter().map(|frame| frame.kind as char).collect()
}

/// A message.
pub fn message(kind: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut out = vec![kind];
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
    out
}

/// A startup packet of protocol 3.0.
pub fn startup(user: &str) -> Vec<u8> {
    let body = [&196_608u32.to_be_bytes()[..], b"user\0", user.as_bytes(), b"\0\0"].concat();
    let mut out = (body.len() as u32 + 4).to_be_bytes().to_vec();
    out.extend(body);
    out
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"])
}

pub fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"])
}

/// Bind without formats, to text parameters.
pub fn bind(portal: &str, statement: &str, params: &[&str]) -> Vec<u8> {
    let mut values = (params.len() as u16).to_be_bytes().to_vec();
    for param in params {
        values.extend((param.len() as u32).to_be_bytes());
        values.extend(param.as_bytes());
    }
    message(b'B', &[portal.as_bytes(), b"\0", statement.as_bytes(), b"\0\0\0", &values, b"\0\0"])
}

pub fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &rows_max.to_be_bytes()])
}

pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[kind], name.as_bytes(), b"\0"])
}

pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// Waits until `condition` holds; fails after [`PATIENCE`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
