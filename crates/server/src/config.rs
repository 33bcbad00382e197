//! Configuration of a server, and the reasons why it may refuse to start.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::tls::{TlsError, TlsFiles};

/// Configuration of a server. The default serves this machine only and requires no password.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address to listen at; port 0 takes any free one.
    pub listen: SocketAddr,
    /// A Unix socket beside the address.
    pub unix_socket: Option<UnixSocket>,
    /// Certificate and key; without them TLS is not offered.
    pub tls: Option<TlsFiles>,
    /// Password given to the first superuser before the first connection.
    pub password: Option<String>,
    /// The most connections at once; one more is refused with 53300.
    pub connections_max: usize,
    /// The most bytes of a message with data (queries, parameters, COPY data).
    pub message_bytes_max: u32,
    /// How many of the connections are kept for superusers.
    pub superuser_reserved_connections: usize,
    /// Sockets at once whose client has not logged in; the oldest goes when one more comes.
    pub logins_max: usize,
    /// The time that a client has to log in.
    pub login_timeout: Duration,
    /// The time that running statements get when the server is shut down.
    pub shutdown_grace: Duration,
    /// Threads that serve the network; 0: one per core, at least two.
    pub threads: usize,
    /// Busy polling: how long a thread looks for the next message of a client that answers at once before it sleeps; zero: never.
    pub busy_poll: Duration,
    /// Where statements are sent as traces; `None`: nowhere.
    pub traces: Option<halcyon_traces::Config>,
}

/// A Unix socket: `.s.PGSQL.PORT` in a folder, where PostgreSQL's clients look for it if they are given the folder as
/// their host. Who may open it may log in as from this machine's own address.
#[derive(Clone, Debug)]
pub struct UnixSocket {
    /// The folder, which exists.
    pub folder: PathBuf,
    /// Mode of the socket's file: 0o700 is for this process's user alone.
    pub mode: u32,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5433)),
            unix_socket: None,
            tls: None,
            password: None,
            connections_max: 2_000,
            message_bytes_max: 0x3fff_ffff,
            superuser_reserved_connections: 3,
            logins_max: 256,
            login_timeout: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(10),
            threads: 0,
            busy_poll: Duration::from_micros(150),
            traces: None,
        }
    }
}

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address can be reached from other machines, which needs TLS and a password.
    Exposed {
        /// The address.
        listen: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// The certificate or the key cannot be used.
    Tls(TlsError),
    /// The password was refused.
    Password(halcyon::SqlError),
    /// Listening at the address failed.
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The Unix socket cannot be made.
    UnixSocket {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Traces cannot be sent.
    Traces(halcyon_traces::StartError),
    /// No threads could be made.
    Threads(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Exposed { listen, missing } => write!(
                f,
                "refusing to listen at {listen}, which other machines can reach, without \
                 {missing}: give a certificate (--tls-cert, --tls-key) and a password, or listen \
                 at 127.0.0.1"
            ),
            StartError::Tls(error) => write!(f, "TLS: {error}"),
            StartError::Password(error) => write!(f, "password: {}", error.message()),
            StartError::Listen { listen, error } => write!(f, "cannot listen at {listen}: {error}"),
            StartError::UnixSocket { folder, error } => {
                write!(f, "cannot make a Unix socket in {}: {error}", folder.display())
            }
            StartError::Traces(error) => write!(f, "{error}"),
            StartError::Threads(error) => write!(f, "cannot make threads: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl ServerConfig {
    /// Refuses a configuration that would let other machines in without TLS or without a password.
    ///
    /// `any_password` says whether a role of the database has one.
    pub(crate) fn check_exposure(&self, any_password: bool) -> Result<(), StartError> {
        refuse_exposure(self.listen, self.tls.is_some(), any_password)
    }
}

/// Refuses an address that other machines can reach, unless there is TLS and a role with a password.
pub fn refuse_exposure(
    listen: SocketAddr,
    has_tls: bool,
    any_password: bool,
) -> Result<(), StartError> {
    if is_loopback(listen.ip()) {
        return Ok(());
    }
    let missing = match (has_tls, any_password) {
        (true, true) => return Ok(()),
        (false, false) => "TLS and a password",
        (false, true) => "TLS",
        (true, false) => "a password",
    };
    Err(StartError::Exposed { listen, missing })
}

/// Whether the address can only be reached from this machine.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_needs_neither_tls_nor_password() {
        let config = |listen: &str, tls: bool| ServerConfig {
            listen: listen.parse().unwrap(),
            tls: tls.then(|| TlsFiles { certificate: "c".into(), key: "k".into() }),
            ..ServerConfig::default()
        };
        let missing = |listen, tls, password| match config(listen, tls).check_exposure(password) {
            Err(StartError::Exposed { missing, .. }) => missing,
            _ => "nothing",
        };
        assert_eq!(missing("127.0.0.1:0", false, false), "nothing");
        assert_eq!(missing("[::1]:0", false, false), "nothing");
        assert_eq!(missing("[::ffff:127.0.0.1]:0", false, false), "nothing");
        assert_eq!(missing("0.0.0.0:0", false, false), "TLS and a password");
        assert_eq!(missing("[::]:0", true, false), "a password");
        assert_eq!(missing("192.168.1.2:0", false, true), "TLS");
        assert_eq!(missing("0.0.0.0:0", true, true), "nothing");
    }
}
