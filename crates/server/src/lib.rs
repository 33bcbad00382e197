//! The PostgreSQL wire server of Halcyon: [`serve`] a [`halcyon::Database`] as a [`ServerConfig`]
//! says.
//!
//! Protocol 3 with simple and extended query, text and binary values, portals with row limits,
//! COPY both ways, cancel requests, SCRAM-SHA-256 and TLS.
//! Map: [`mod@wire`] is bytes ↔ messages, [`mod@format`] bytes ↔ values, `startup` the way to a
//! session, `connection` what a session's client may say, `server` the listener.
//! **Invariant**, checked by `cargo xtask check layers`: it enters by the door `halcyon` alone and
//! knows nothing of storage or plans.
#![forbid(unsafe_code)]

mod antechamber;
mod cancel;
mod config;
mod connection;
mod farewell;
pub mod format;
mod rows;
mod scram;
mod server;
mod shared;
mod socket;
mod startup;
mod tls;
pub mod wire;

pub use config::{ServerConfig, StartError};
pub use server::{Server, serve};
pub use tls::{TlsError, TlsFiles};
