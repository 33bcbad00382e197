//! `halcyon serve` as a child process, for tests of what it does with its memory.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use tokio_postgres::{Client, NoTls};

/// The binary: `HALCYON_MEMORY_BINARY`, or the one of this build.
pub fn binary() -> String {
    let built = env!("CARGO_BIN_EXE_halcyon").to_owned();
    std::env::var("HALCYON_MEMORY_BINARY").unwrap_or(built)
}

/// A server, which ends when it is dropped.
pub struct Server {
    child: Child,
    /// Host and port.
    pub address: String,
    /// A reader of the server's output until it ends.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// A server by a command that becomes `halcyon`, to which what it is to do is added. `limit_mb`: its
    /// `memory_limit`, if not the default.
    pub fn start(command: &mut Command, limit_mb: Option<u64>) -> Server {
        if command.get_args().all(|argument| argument != "serve") {
            command.arg("serve");
        }
        command.args(["--listen", "127.0.0.1:0"]);
        if let Some(megabytes) = limit_mb {
            command.args(["--memory-limit", &format!("{megabytes}MB")]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the server speaks");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Server { child, address, _output: output }
    }

    pub async fn connect(&self) -> Client {
        let (host, port) = self.address.rsplit_once(':').expect("host and port");
        let config = format!("host={host} port={port} user=halcyon dbname=halcyon");
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.expect("a server");
        tokio::spawn(async move {
            // The task ends with the client.
            let _ = connection.await;
        });
        client
    }

    /// Bytes of the server that only memory has.
    #[allow(dead_code)] // some tests look from other threads
    pub fn resident(&self) -> u64 {
        resident(self.child.id())
    }

    /// The number of the process.
    #[allow(dead_code)] // some tests look from other threads
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has not ended.
    #[allow(dead_code)] // some tests ask the server itself
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already, which the test has told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of a process that only memory has.
pub fn resident(process: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: Vec<u64> =
        statm.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    (pages.get(1).unwrap_or(&0) - pages.get(2).unwrap_or(&0)) * 4096
}
