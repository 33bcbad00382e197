//! A server that does no work: what sockets and the client's own pace leave to any server.
//!
//! It answers lookups by key in `account` out of the key alone, with the bytes that a database would send
//! (`bare/protocol.rs`), so that the same client checks the same rows. It has Halcyon's shape (`server/src/lanes.rs`): a
//! *lane* per processor, each a thread with an event queue of the kernel's and the connections it was dealt. A message is
//! read, answered and written by three calls of the kernel, the wait among them, and several connections may share
//! a wait. With `--look` the thread of the only connection looks for the next message for a while before it sleeps,
//! as Halcyon's does (`--busy-poll`): asleep the server takes least of the processors, awake it answers soonest.
//! What Halcyon or PostgreSQL takes beyond this arm is what it does for its statement.
//! Not here: logins, TLS, cancellation, and clients that do not read their answers, for which a lane waits.

mod protocol;

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use mio::event::Source;
use mio::{Events, Interest, Poll, Token, Waker};

use self::protocol::Dialogue;
pub use self::protocol::branches;
use crate::Result;

/// The token of new connections; those of connections count from 1.
const ARRIVALS: Token = Token(0);

/// What stands before the address on the line that says where the server listens.
pub(crate) const LISTENS: &str = "listening at ";

/// Options of the server that does no work.
#[derive(Args, Debug, Clone)]
pub struct Options {
    /// Where to listen: an address of TCP, or the path of a Unix socket, which has a slash
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Accounts
    #[arg(long, default_value_t = 100_000)]
    pub rows: u32,
    /// How long the thread of the only connection looks for its next message before it sleeps, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    pub look: u64,
}

/// A connection's socket.
trait Socket: Read + Write + Source + Send {}
impl<S: Read + Write + Source + Send> Socket for S {}

/// A lane as seen by who brings it connections.
struct Road {
    arrivals: Sender<Box<dyn Socket>>,
    waker: Waker,
}

/// A thread with its event queue and connections.
struct Lane {
    queue: Poll,
    arrivals: Receiver<Box<dyn Socket>>,
    connections: HashMap<Token, Connection>,
    next_token: usize,
    /// Connections of all lanes.
    open: Arc<AtomicUsize>,
    rows: u32,
    look: Duration,
}

struct Connection {
    socket: Box<dyn Socket>,
    dialogue: Dialogue,
}

/// Serves until the process is ended.
pub fn serve(options: &Options) -> Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let count = thread::available_parallelism().map_or(1, usize::from);
    let start = |_| Lane::start(options, &open);
    let roads = (0..count).map(start).collect::<io::Result<Vec<_>>>()?;
    let mut deal = roads.iter().cycle();
    let mut bring = |socket: Box<dyn Socket>| -> io::Result<()> {
        open.fetch_add(1, Ordering::Relaxed);
        let road = deal.next().expect("at least one lane");
        road.arrivals.send(socket).expect("lanes never end");
        road.waker.wake()
    };
    if options.listen.contains('/') {
        let listener = UnixListener::bind(&options.listen)?;
        say(&options.listen)?;
        loop {
            let (socket, _) = listener.accept()?;
            socket.set_nonblocking(true)?;
            bring(Box::new(mio::net::UnixStream::from_std(socket)))?;
        }
    }
    let listener = TcpListener::bind(&options.listen)?;
    say(&listener.local_addr()?.to_string())?;
    loop {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        bring(Box::new(mio::net::TcpStream::from_std(socket)))?;
    }
}

fn say(address: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{LISTENS}{address}")?;
    out.flush()
}

impl Lane {
    fn start(options: &Options, open: &Arc<AtomicUsize>) -> io::Result<Road> {
        let queue = Poll::new()?;
        let waker = Waker::new(queue.registry(), ARRIVALS)?;
        let (sender, arrivals) = mpsc::channel();
        let lane = Lane {
            queue,
            arrivals,
            connections: HashMap::new(),
            next_token: 1,
            open: Arc::clone(open),
            rows: options.rows,
            look: Duration::from_micros(options.look),
        };
        thread::spawn(move || lane.run().expect("the kernel's event queue works"));
        Ok(Road { arrivals: sender, waker })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut looks_until = None;
        loop {
            let timeout = looks_until.map(|_| Duration::ZERO);
            match self.queue.poll(&mut events, timeout) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                done => done?,
            }
            if events.is_empty() {
                looks_until = looks_until.filter(|until| Instant::now() < *until);
                continue;
            }
            for event in &events {
                match event.token() {
                    ARRIVALS => self.take_arrivals()?,
                    token => self.serve(token),
                }
            }
            let is_alone = self.connections.len() == 1 && self.open.load(Ordering::Relaxed) == 1;
            let looks = is_alone && !self.look.is_zero();
            looks_until = looks.then(|| Instant::now() + self.look);
        }
    }

    fn take_arrivals(&mut self) -> io::Result<()> {
        for mut socket in self.arrivals.try_iter() {
            let token = Token(self.next_token);
            self.next_token += 1;
            self.queue.registry().register(&mut socket, token, Interest::READABLE)?;
            let dialogue = Dialogue::new(self.rows);
            self.connections.insert(token, Connection { socket, dialogue });
        }
        Ok(())
    }

    /// Answers what a connection has sent, or forgets the connection if it is over.
    fn serve(&mut self, token: Token) {
        let goes_on = self.connections.get_mut(&token).map(Connection::answer);
        if let Some(Ok(false) | Err(_)) = goes_on {
            self.connections.remove(&token);
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Connection {
    /// Reads all there is, and answers it; whether the connection goes on.
    fn answer(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 8192];
        let mut goes_on = true;
        while goes_on {
            match self.socket.read(&mut bytes) {
                Ok(count) => {
                    goes_on = count > 0 && self.dialogue.hear(&bytes[..count]);
                    // A stream that gives less than it was asked for has no more; the queue tells of what comes later.
                    if count < bytes.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut answer = self.dialogue.answer();
        while !answer.is_empty() {
            match self.socket.write(answer) {
                Ok(count) => answer = &answer[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.dialogue.answered();
        Ok(goes_on)
    }
}
