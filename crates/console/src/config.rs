//! Configuration of the console, and the reasons why it may refuse to start.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use halcyon_server::{StartError, TlsError, TlsFiles};

/// Configuration of a console. The default serves this machine only.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    /// Address to listen at; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Certificate and key; without them the console speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The most sockets at once.
    pub sockets_max: usize,
    /// The most logins at once; each takes one of the server's places for connections too.
    pub viewers_max: usize,
    /// The time without a request or an open page after which a login ends.
    pub idle_max: Duration,
    /// The time after which a login ends in any case.
    pub login_max: Duration,
    /// The most statements of SQL pages that run at once.
    pub statements_max: usize,
    /// The most bytes of a request's body.
    pub body_bytes_max: usize,
    /// The time that a client has to send the headers of a request, and again for its body.
    pub request_timeout: Duration,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        ConsoleConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8433)),
            tls: None,
            sockets_max: 512,
            viewers_max: 128,
            idle_max: Duration::from_secs(30 * 60),
            login_max: Duration::from_secs(12 * 60 * 60),
            statements_max: 16,
            body_bytes_max: 1 << 20,
            request_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a console did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The address can be reached from other machines, which needs TLS and a password.
    Exposed(StartError),
    /// The certificate or the key cannot be used.
    Tls(TlsError),
    /// Listening at the address failed.
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// No threads could be made.
    Threads(io::Error),
}

impl fmt::Display for ConsoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConsoleError::Exposed(error) => write!(f, "console: {error}"),
            ConsoleError::Tls(error) => write!(f, "console: TLS: {error}"),
            ConsoleError::Listen { listen, error } => {
                write!(f, "console: cannot listen at {listen}: {error}")
            }
            ConsoleError::Threads(error) => write!(f, "console: cannot make threads: {error}"),
        }
    }
}

impl std::error::Error for ConsoleError {}
