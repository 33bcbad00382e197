//! The listener: it accepts connections, counts them and ends them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use halcyon::Database;
use halcyon_traces::Tracer;
use tokio::net::TcpListener;

use crate::config::{ServerConfig, StartError, UnixSocket};
use crate::connection::Connection;
use crate::lanes::{LanePlace, Lanes, Roads};
use crate::listener::{Arrival, Listener, SocketFile};
use crate::logins::Logins;
use crate::shared::Shared;
use crate::startup;
use crate::tls::Tls;

/// Threads for statements beyond one per connection: of sessions that are ending.
const SURPLUS_THREADS: usize = 256;
/// How long the end waits for the collector of traces.
const TRACES_GRACE: Duration = Duration::from_secs(5);
/// How long a client that has closed its sending side is waited for: until then its statement may end and be answered.
const HALF_CLOSED: Duration = Duration::from_secs(3);
/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// A running server. Dropping it ends it as [`Server::shutdown`] does.
pub struct Server {
    address: SocketAddr,
    unix: Option<SocketFile>,
    shared: Arc<Shared>,
    lanes: Option<Lanes>,
}

/// Serves `db` as `config` says, on threads of its own.
///
/// Threads: a connection belongs to a lane ([`crate::lanes`]), and its statements run on the lane's
/// thread. Once a statement waits or lasts, the thread is relieved of the network
/// ([`halcyon_base::duty`]) and becomes one of the lane's pool, which has room for every connection.
pub fn serve(db: Database, config: ServerConfig) -> Result<Server, StartError> {
    if let Some(password) = &config.password {
        set_password(&db, password).map_err(StartError::Password)?;
    }
    config.check_exposure(db.has_passwords())?;
    let load = |files| Tls::load(files, "postgresql");
    let tls = config.tls.as_ref().map(load).transpose().map_err(StartError::Tls)?;
    let cores = || std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let threads = if config.threads == 0 { cores() } else { config.threads };
    let relieved_max = config.connections_max + SURPLUS_THREADS;
    let lanes =
        Lanes::start(threads, relieved_max, config.busy_poll).map_err(StartError::Threads)?;
    let listen = config.listen;
    let refused = |error| StartError::Listen { listen, error };
    let listener = lanes.first().block_on(TcpListener::bind(listen)).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let unix = match &config.unix_socket {
        None => None,
        Some(UnixSocket { folder, mode }) => {
            let opened =
                lanes.first().block_on(async { SocketFile::open(folder, address.port(), *mode) });
            let refused = |error| StartError::UnixSocket { folder: folder.clone(), error };
            Some(opened.map_err(refused)?)
        }
    };
    let tracer = config.traces.clone().map(Tracer::start).transpose();
    let tracer = tracer.map_err(StartError::Traces)?;
    let shared = Shared::new(db, config, tls, tracer);
    lanes.first().spawn(accept(shared.clone(), Listener::Tcp(listener), lanes.roads()));
    tracing::info!(%address, tls = shared.tls.is_some(), "listening");
    let unix = unix.map(|(file, listener)| {
        lanes.first().spawn(accept(shared.clone(), Listener::Unix(listener), lanes.roads()));
        tracing::info!(path = %file.path().display(), "listening");
        file
    });
    Ok(Server { address, unix, shared, lanes: Some(lanes) })
}

/// Gives the first superuser a password; the statement has only its verifier.
fn set_password(db: &Database, password: &str) -> halcyon::Result<()> {
    let mut session = db.session();
    let role = session.setting("session_authorization")?.replace('"', "\"\"");
    let password = password.replace('\'', "''");
    session.execute(format!("ALTER ROLE \"{role}\" PASSWORD '{password}'").as_str(), &[])?;
    Ok(())
}

impl Server {
    /// The address bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file of the Unix socket, if there is one.
    pub fn unix_socket(&self) -> Option<&Path> {
        self.unix.as_ref().map(SocketFile::path)
    }

    /// Connections that have logged in.
    pub fn connections(&self) -> usize {
        self.shared.places.taken()
    }

    /// Logins of clients that do not speak this protocol, with the same rules, limits and delays.
    pub fn logins(&self) -> Logins {
        Logins::new(Arc::clone(&self.shared))
    }

    /// Accepts no more connections, ends idle ones with 57P01, gives running statements the
    /// configured grace, then cancels them. Open transactions are rolled back.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        let Some(lanes) = self.lanes.take() else { return };
        self.unix = None;
        self.shared.stop();
        let grace = self.shared.config.shutdown_grace;
        lanes.first().block_on(async {
            if !self.all_gone(grace).await {
                self.shared.keys.cancel_all();
                self.all_gone(Duration::from_secs(1)).await;
            }
        });
        lanes.shutdown(Duration::from_secs(1));
        if let Some(tracer) = &self.shared.tracer {
            tracer.end(TRACES_GRACE);
        }
    }

    /// Waits until no connection is left; false if `limit` passes before.
    async fn all_gone(&self, limit: Duration) -> bool {
        let gone = async {
            while self.shared.sockets.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(limit, gone).await.is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A count of one open socket.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        // Pairs with the load in `all_gone`.
        self.0.sockets.fetch_sub(1, Ordering::Release);
    }
}

async fn accept(shared: Arc<Shared>, listener: Listener, lanes: Roads) {
    let mut stopping = shared.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok(arrival) => {
                shared.sockets.fetch_add(1, Ordering::Relaxed);
                let counted = Counted(shared.clone());
                lanes.bring(arrival, |arrival, place| handle(counted, place, arrival));
            }
            Err(error) => {
                // Out of file descriptors, most likely: others must close theirs first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn handle(counted: Counted, place: LanePlace, arrival: Arrival) {
    let shared = &counted.0;
    let (socket, peer) = match arrival.settle() {
        Ok(settled) => settled,
        Err(error) => return tracing::warn!(%error, "cannot serve a connection"),
    };
    let watch = socket.watch();
    let presence = shared.antechamber.enter(peer.address());
    let login = async {
        match socket.peek().await {
            Ok(Some(TLS_HANDSHAKE)) => startup::login_tls(shared, socket, peer).await,
            Ok(Some(_)) => startup::login(shared, socket, peer).await,
            Ok(None) | Err(_) => None,
        }
    };
    let mut stopping = shared.stopping.subscribe();
    let client = tokio::select! {
        client = tokio::time::timeout(shared.config.login_timeout, login) => client,
        () = presence.must_leave() => return,
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    drop(presence);
    let Ok(Some(client)) = client else { return };
    let canceller = client.session.canceller();
    let _watcher = AbortOnDrop(tokio::spawn(async move {
        watch.gone().await;
        // Who has closed the sending side alone still reads: an answer that is near is sent.
        let _ = tokio::time::timeout(HALF_CLOSED, watch.broken()).await;
        // Repeatedly, because a statement that begins later, from messages sent before, must end,
        // too.
        loop {
            canceller.cancel();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }));
    Connection::new(shared.clone(), client, place.attention()).run().await;
}

/// A task that ends together with this owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
