//! The web console of Halcyon: pages, live data and metrics over HTTP, served from the binary.
//!
//! [`Console::listen`] binds the address before the database is open, so that `/health` answers while a log
//! is read; [`Console::open`] hands the database over, and from then on everything is served. Every query of
//! a viewer runs in a [`halcyon::Session`] of the viewer's role: the console has no rights of its own, and
//! what it shows it reads from system views.
//!
//! Map: `listener` has sockets, TLS and the end, `routes` which path is whose, `guard` the rules that hold for
//! every request, `viewers` who has logged in, `panels` the SQL of each panel, `feeds` one query a second for
//! all viewers of a role, `live` and `follow` the streams to browsers, `editors`, `run` and `statements` the SQL
//! page, `metrics` what Prometheus reads, `assets` the files of the pages.
//!
//! **Invariant**, checked by `cargo xtask check layers`: the engine is reached through the crate `halcyon`
//! alone, and logins through `halcyon-server`.
//! Threads: a small runtime of tokio's (`halcyon-http-…`). Statements run on its threads for blocking work;
//! their number is bounded, and no thread of the network ever waits for one.
#![forbid(unsafe_code)]

mod answer;
mod app;
mod assets;
mod catalog;
mod config;
mod editors;
mod feeds;
mod follow;
mod guard;
mod json;
mod listener;
mod live;
mod login;
mod metrics;
mod panels;
mod process;
mod routes;
mod run;
mod statements;
mod viewers;

pub use config::{ConsoleConfig, ConsoleError};
pub use listener::Console;
