//! A whole connection: the input is what a client sends after login. The server must go on
//! serving, and must never speak of a broken invariant (XX000).
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;

use halcyon::Database;
use halcyon_server::{Server, ServerConfig, serve};
use libfuzzer_sys::fuzz_target;

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let db = Database::in_memory();
    db.session().batch("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT)").expect("a table");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    serve(db, ServerConfig { listen, ..ServerConfig::default() }).expect("a server")
});

fuzz_target!(|input: &[u8]| {
    let mut stream = TcpStream::connect(SERVER.address()).expect("the server listens");
    let startup = b"\0\0\0\x16\0\x03\0\0user\0halcyon\0\0";
    let _ = stream.write_all(startup);
    let _ = stream.write_all(input);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let broken = answer.windows(7).any(|window| window == b"CXX000\0");
    assert!(!broken, "{}", String::from_utf8_lossy(&answer));
});
