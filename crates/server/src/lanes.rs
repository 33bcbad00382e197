//! The threads that serve the network, in lanes.
//!
//! A *lane* is one thread with an event queue of the kernel's, and the pool of threads that take its
//! place while it runs a statement that waits or lasts. A connection stays in the lane with the fewest
//! connections at its beginning, so that one thread reads a message, runs it and answers. Threads that share one queue
//! hand nearly every message from the thread that waits at the queue to another: with 16 clients on 16
//! cores four cores' worth of work came of that.
//!
//! Invariant, checked by `sockets_go_where_fewest_are`: a lane's count is the number of its living places.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use halcyon::STATEMENT_STACK_BYTES;
use halcyon_base::memory::{self, Waking};
use halcyon_machine::schedule;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::attention::{Attention, Doings};

/// How long the operating system lets a lane's thread run before others: as short as it can be, so that a thread that has read
/// a message does not wait for the end of a worker's turn, which is at least ten times as long.
const TURN: Duration = Duration::from_micros(100);

/// Threads that serve the network, each with its own connections.
pub(crate) struct Lanes {
    runtimes: Vec<Runtime>,
    roads: Arc<[Road]>,
    doings: Arc<Doings>,
    /// Wakes lanes that sleep when memory is to be given back.
    _waking: Arc<Waking>,
}

/// A lane as seen by who brings it a connection.
#[derive(Clone)]
struct Road {
    handle: Handle,
    sockets: Arc<AtomicUsize>,
}

/// The lanes as seen by who brings them connections.
#[derive(Clone)]
pub(crate) struct Roads {
    roads: Arc<[Road]>,
    doings: Arc<Doings>,
}

/// A connection's place in a lane.
pub(crate) struct LanePlace {
    sockets: Arc<AtomicUsize>,
    doings: Arc<Doings>,
    lane: usize,
}

impl LanePlace {
    /// How the connection waits for its client.
    pub fn attention(&self) -> Attention {
        Attention::new(&self.doings, self.lane)
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        self.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lanes {
    /// Starts `count` lanes, at least one; each may have `relieved_max` threads besides its own. `looks`: how long a
    /// thread looks for a client's message before it sleeps.
    ///
    /// Errors: the system gives no threads or no event queues.
    pub fn start(count: usize, relieved_max: usize, looks: Duration) -> io::Result<Self> {
        let lane = |number: usize| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(relieved_max)
                .thread_name(format!("halcyon-lane-{number}"))
                .thread_stack_size(STATEMENT_STACK_BYTES)
                .on_thread_start(|| {
                    // Refused or ignored: clients wait for their turn as everybody does.
                    let _ = schedule::set_slice(TURN);
                })
                .on_thread_park(memory::at_rest)
                .enable_all()
                .build()
        };
        let runtimes = (0..count.max(1)).map(lane).collect::<io::Result<Vec<Runtime>>>()?;
        let road = |runtime: &Runtime| Road {
            handle: runtime.handle().clone(),
            sockets: Arc::new(AtomicUsize::new(0)),
        };
        let roads: Arc<[Road]> = runtimes.iter().map(road).collect();
        let handles: Vec<Handle> = runtimes.iter().map(|lane| lane.handle().clone()).collect();
        let waking: Arc<Waking> = Arc::new(move || {
            handles.iter().for_each(|lane| drop(lane.spawn(async { memory::at_rest() })));
        });
        memory::wake_for_collections(&waking);
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let doings = Doings::new(roads.len(), processors, looks);
        Ok(Lanes { runtimes, roads, doings, _waking: waking })
    }

    /// The lane that accepts connections for all.
    pub fn first(&self) -> &Runtime {
        &self.runtimes[0]
    }

    /// The lanes for who brings them connections.
    pub fn roads(&self) -> Roads {
        Roads { roads: Arc::clone(&self.roads), doings: Arc::clone(&self.doings) }
    }

    /// Ends all lanes; what still runs is given until `limit` from now.
    pub fn shutdown(self, limit: Duration) {
        let end = Instant::now() + limit;
        for runtime in self.runtimes {
            runtime.shutdown_timeout(end.saturating_duration_since(Instant::now()));
        }
    }
}

impl Roads {
    /// Brings a socket to the lane with the fewest, where `serve` makes a task of it.
    pub fn bring<S, T>(&self, socket: S, serve: impl FnOnce(S, LanePlace) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        let fewest = |(_, road): &(usize, &Road)| road.sockets.load(Ordering::Relaxed);
        let roads = self.roads.iter().enumerate();
        let (lane, road) = roads.min_by_key(fewest).expect("there is a lane");
        road.sockets.fetch_add(1, Ordering::Relaxed);
        let (sockets, doings) = (Arc::clone(&road.sockets), Arc::clone(&self.doings));
        let place = LanePlace { sockets, doings, lane };
        road.handle.spawn(serve(socket, place));
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    use super::*;

    fn counts(lanes: &Lanes) -> Vec<usize> {
        lanes.roads.iter().map(|road| road.sockets.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn sockets_go_where_fewest_are() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let lanes = Lanes::start(3, 4, Duration::ZERO).expect("threads");
        let (told, places) = mpsc::channel();
        let roads = lanes.roads();
        for _ in 0..7 {
            let stream = TcpStream::connect(address).expect("a connection");
            let told = told.clone();
            roads.bring(stream, move |stream, place| async move {
                let thread = std::thread::current().name().map(str::to_owned);
                told.send((thread, stream, place)).expect("the test listens");
            });
        }
        assert_eq!(counts(&lanes), [3, 2, 2]);
        let mut brought: Vec<_> = (0..7).map(|_| places.recv().expect("served")).collect();
        let mut threads: Vec<_> = brought.iter().filter_map(|(name, ..)| name.clone()).collect();
        threads.sort();
        threads.dedup();
        assert_eq!(threads, ["halcyon-lane-0", "halcyon-lane-1", "halcyon-lane-2"]);
        brought.retain(|(name, ..)| name.as_deref() != Some("halcyon-lane-1"));
        assert_eq!(counts(&lanes), [3, 0, 2]);
        roads.bring(TcpStream::connect(address).expect("a connection"), |_, place| async {
            drop(place);
        });
        drop(brought);
        lanes.shutdown(Duration::from_secs(5));
    }
}
