//! The console's sockets: how it starts, takes connections, speaks TLS and ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use halcyon::{Database, STATEMENT_STACK_BYTES};
use halcyon_server::{Logins, Tls, refuse_exposure};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::config::{ConsoleConfig, ConsoleError};
use crate::guard::Peer;
use crate::routes;

/// Threads that serve the network.
const THREADS: usize = 2;
/// Threads for blocking work beside those of statements: feeds, followers, logins, scrapes.
const OTHER_BLOCKING: usize = 32;
/// How often logins and sessions that are over are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The time that answers under way get when the console ends.
const GRACE: Duration = Duration::from_secs(2);

/// A running console. Dropping it ends it as [`Console::shutdown`] does.
pub struct Console {
    address: SocketAddr,
    app: Arc<App>,
    runtime: Option<Runtime>,
}

impl Console {
    /// Binds the address and answers `/health`; everything else is 503 until [`Console::open`].
    ///
    /// Errors: the address can be reached from other machines and there is no TLS; it is in use; the
    /// certificate is none.
    pub fn listen(config: ConsoleConfig) -> Result<Self, ConsoleError> {
        let listen = config.listen;
        // Whether there is a password is known once the database is open.
        refuse_exposure(listen, config.tls.is_some(), true).map_err(ConsoleError::Exposed)?;
        let load = |files| Tls::load(files, "http/1.1");
        let tls = config.tls.as_ref().map(load).transpose().map_err(ConsoleError::Tls)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(2 * config.statements_max + OTHER_BLOCKING)
            .thread_name_fn(name_of_thread)
            .thread_stack_size(STATEMENT_STACK_BYTES)
            .enable_all()
            .build()
            .map_err(ConsoleError::Threads)?;
        let refused = |error| ConsoleError::Listen { listen, error };
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let app = App::new(config, address.port());
        runtime.spawn(accept(Arc::clone(&app), listener, tls));
        tracing::info!(%address, tls = app.is_tls(), "the console listens");
        Ok(Console { address, app, runtime: Some(runtime) })
    }

    /// Serves a database, whose server judges logins. Called once.
    ///
    /// Errors: the address can be reached from other machines and no role has a password.
    pub fn open(&self, database: Database, logins: Logins) -> Result<(), ConsoleError> {
        let any_password = database.has_passwords();
        refuse_exposure(self.app.config.listen, self.app.is_tls(), any_password)
            .map_err(ConsoleError::Exposed)?;
        self.app.open(database, logins);
        let runtime = self.runtime.as_ref().expect("it ends with the console");
        runtime.spawn(sweep(Arc::clone(&self.app)));
        Ok(())
    }

    /// The address bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a browser takes it.
    pub fn url(&self) -> String {
        let scheme = if self.app.is_tls() { "https" } else { "http" };
        match self.address.ip() {
            ip if ip.is_unspecified() => format!("{scheme}://localhost:{}/", self.address.port()),
            _ => format!("{scheme}://{}/", self.address),
        }
    }

    /// People who are logged in.
    pub fn viewers(&self) -> usize {
        self.app.viewers.count()
    }

    /// Queries that were run for panels so far.
    pub fn panel_queries(&self) -> u64 {
        self.app.feeds.queries()
    }

    /// Ends streams, cancels statements, rolls back what pages have not committed, and closes all sockets.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.app.stopping.send_replace(true);
        self.app.viewers.end();
        runtime.shutdown_timeout(GRACE);
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.stop();
    }
}

fn name_of_thread() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("halcyon-http-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Ends what is over, once a second.
async fn sweep(app: Arc<App>) {
    let mut stopping = app.stopping.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP_EVERY) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        let app = Arc::clone(&app);
        // Ends sessions, which may have to roll back.
        let swept = tokio::task::spawn_blocking(move || {
            if let Ok(engine) = app.engine() {
                app.viewers.sweep(&engine.database);
                app.feeds.sweep();
            }
        });
        if swept.await.is_err() {
            return;
        }
    }
}

async fn accept(app: Arc<App>, listener: TcpListener, tls: Option<Tls>) {
    let mut stopping = app.stopping.subscribe();
    let places = Arc::new(Semaphore::new(app.config.sockets_max));
    loop {
        // Sockets beyond the limit wait in the system's queue.
        let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes it");
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                tokio::spawn(handle(Arc::clone(&app), stream, Peer(peer), tls.clone(), place));
            }
            Err(error) => {
                // Out of file descriptors, most likely: others must close theirs first.
                tracing::warn!(%error, "the console cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn handle(
    app: Arc<App>,
    stream: TcpStream,
    peer: Peer,
    tls: Option<Tls>,
    _place: OwnedSemaphorePermit,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve(app, stream, peer).await };
    let handshake = tls.acceptor.accept(stream);
    if let Ok(Ok(stream)) = tokio::time::timeout(app.config.request_timeout, handshake).await {
        serve(app, stream, peer).await;
    }
}

async fn serve<S>(app: Arc<App>, stream: S, peer: Peer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = routes::router(&app).layer(Extension(peer));
    let service = TowerToHyperService::new(router);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.request_timeout)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let mut stopping = app.stopping.subscribe();
    let mut served = std::pin::pin!(served);
    tokio::select! {
        // What breaks a connection concerns its client alone.
        _ = served.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, served).await;
}
