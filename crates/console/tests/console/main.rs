//! The console over real sockets: logins, rights, streams, limits, metrics and its end.

mod client;
mod logins;
mod metrics;
mod requests;
mod statements;
mod streams;
