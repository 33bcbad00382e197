//! The server as its clients see it: raw bytes, and the driver tokio-postgres.

#[path = "wire/classes.rs"]
mod classes;
#[allow(dead_code)] // a test of crates/traces asks for the rest
#[path = "../../traces/tests/delivery/collector.rs"]
mod collector;
#[path = "wire/common.rs"]
mod common;
#[path = "wire/driver.rs"]
mod driver;
#[path = "wire/fuzz.rs"]
mod fuzz;
#[path = "wire/load.rs"]
mod load;
#[path = "wire/protocol.rs"]
mod protocol;
#[path = "wire/security.rs"]
mod security;
#[path = "wire/subscribe.rs"]
mod subscribe;
#[path = "wire/tools.rs"]
mod tools;
#[path = "wire/traces.rs"]
mod traces;
#[path = "wire/unix_socket.rs"]
mod unix_socket;
#[path = "wire/vanishing.rs"]
mod vanishing;
