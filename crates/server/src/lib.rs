//! The PostgreSQL wire server of Halcyon: [`serve`] a [`halcyon::Database`] as a [`ServerConfig`]
//! says.
//!
//! Protocol 3 with simple and extended query, text and binary values, portals with row limits,
//! COPY both ways, cancel requests, SCRAM-SHA-256 and TLS.
//! Map: [`mod@wire`] has bytes ↔ messages, [`mod@format`] bytes ↔ values, `startup` all up to the
//! login, `logins` the same for clients of other protocols, `connection` the messages of a session's client, `traced` what of them is recorded for traces, `server` the listener.
//! **Invariant**, checked by `cargo xtask check layers`: it reaches the engine through the crate
//! `halcyon` alone and knows nothing of storage or plans.
#![forbid(unsafe_code)]

mod antechamber;
mod attention;
mod cancel;
mod config;
mod connection;
mod farewell;
pub mod format;
mod lanes;
mod listener;
mod logins;
mod rows;
mod scram;
mod server;
mod shared;
mod socket;
mod startup;
mod tls;
mod traced;
pub mod wire;

pub use config::{ServerConfig, StartError, UnixSocket, is_loopback, refuse_exposure};
pub use logins::{Logins, Seat};
pub use server::{Server, serve};
pub use tls::{Tls, TlsError, TlsFiles, Validity};
