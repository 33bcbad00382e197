//! The binary as a page uses it: a server in a folder of its own, shells and scripts beside it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The binary under test.
pub const HALCYON: &str = env!("CARGO_BIN_EXE_halcyon");

/// The address by which pages name the server; scripts get the real one in its place.
const WRITTEN_ADDRESS: &str = "127.0.0.1:5433";

/// A running `halcyon serve`; dropping it ends the process.
pub struct Server {
    child: Child,
    address: String,
    /// Held so that the server can go on printing.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server with `flags`, whose paths are relative to `folder`.
    pub fn start(folder: &Path, flags: &str) -> Server {
        let mut child = Command::new(HALCYON)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(flags.split_whitespace())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the server speaks");
        assert!(line.starts_with("ready after"), "halcyon serve {flags} says {line:?}");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Server { child, address, _output: output }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself; nothing can be done about an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An empty folder that is removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder for the page called `name`.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("halcyon-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for what the page makes");
        Folder(path)
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of the shell for `script`, with errors in their place as on a terminal. `address`
/// names a server; without one the shell runs on an empty database.
pub fn shell(folder: &Path, address: Option<&str>, script: &str) -> String {
    let connect = address.map_or(String::new(), |address| {
        format!("--connect postgresql://halcyon@{address}/halcyon")
    });
    let command = format!("exec \"$0\" shell {connect} --keep-going -f - 2>&1");
    output(Command::new("sh").args(["-c", &command, HALCYON]).current_dir(folder), script)
}

/// The output of `sh` for `script`, in which `halcyon` is the binary under test.
pub fn sh(folder: &Path, address: &str, script: &str) -> String {
    let binaries = Path::new(HALCYON).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut sh = Command::new("sh");
    sh.args(["-c", "exec sh 2>&1"])
        .env("PATH", format!("{}:{path}", binaries.display()))
        .current_dir(folder);
    output(&mut sh, &script.replace(WRITTEN_ADDRESS, address))
}

fn output(command: &mut Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    String::from_utf8(child.wait_with_output().expect("it ends").stdout).expect("UTF-8")
}
