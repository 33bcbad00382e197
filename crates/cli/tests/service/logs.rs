//! The log as JSON, and what the service manager is told meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{Folder, HALCYON};

/// A server that ends with the test.
struct Server(Child);

impl Server {
    /// Sends SIGTERM, and waits for the end.
    fn end(&mut self) {
        let kill = Command::new("kill").arg(self.0.id().to_string()).status().expect("kill runs");
        assert!(kill.success());
        assert!(self.0.wait().expect("a child").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(folder: &Folder, options: &[&str], level: &str) -> Server {
    let child = Command::new(HALCYON)
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
        .args(options)
        .env("HALCYON_LOG", level)
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    Server(child)
}

/// A line of the log, whose members are those of every line.
fn event(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let members: Vec<&str> =
        event.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, ["timestamp", "level", "target", "message", "fields"], "{line}");
    let timestamp = event["timestamp"].as_str().expect("a text");
    assert!(
        timestamp.len() == 27 && &timestamp[10..11] == "T" && timestamp.ends_with('Z'),
        "{line}"
    );
    event
}

#[test]
fn every_line_of_the_log_is_an_object_and_the_manager_is_told() {
    let folder = Folder::new("logs");
    let manager = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let told = || {
        let mut bytes = [0; 200];
        let length = manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let data = folder.path("data");
    let mut server = serve(&folder, &["--data", &data], "debug");
    let mut log = BufReader::new(server.0.stderr.take().expect("piped"));
    let mut events = Vec::new();
    let ready = loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).expect("UTF-8") > 0, "the log ends: {events:?}");
        let event = event(&line);
        if event["message"] == "ready" {
            break event;
        }
        events.push(event);
    };
    assert_eq!(told(), "STATUS=opening the database");
    let address = ready["fields"]["address"].as_str().expect("an address");
    assert_eq!(told(), format!("READY=1\nSTATUS=listening at {address}"));
    assert_eq!((&ready["level"], ready["fields"]["seconds"].is_number()), (&"INFO".into(), true));
    let opened = |event: &&Value| event["message"] == "database opened";
    assert!(events.iter().find(opened).is_some(), "{events:?}");
    server.end();
    assert_eq!(told(), "STOPPING=1\nSTATUS=ending");
    let mut rest = String::new();
    log.read_to_string(&mut rest).expect("UTF-8");
    assert!(rest.lines().map(event).any(|event| event["message"] == "ending"), "{rest}");
    let mut output = String::new();
    server.0.stdout.take().expect("piped").read_to_string(&mut output).expect("UTF-8");
    assert_eq!(output, "", "standard output is for people");
}

#[test]
fn a_start_that_fails_says_so_in_the_log() {
    let folder = Folder::new("logs-failed");
    let listen = ["--listen", "0.0.0.0:0", "--log-format", "json"];
    let output = Command::new(HALCYON).arg("serve").args(listen).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let last = event(text.lines().last().expect("a line"));
    assert_eq!(last["level"], "ERROR");
    let message = last["message"].as_str().expect("a text");
    assert!(message.starts_with("refusing to listen at 0.0.0.0:0"), "{message}");
    // The detail of an error stands in the same event.
    std::fs::write(folder.path("file"), "").expect("written");
    let data = folder.path("file");
    let mut server = serve(&folder, &["--data", &data], "error");
    assert_eq!(server.0.wait().expect("a child").code(), Some(1));
    let mut text = String::new();
    server.0.stderr.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    assert!(
        !text.is_empty() && text.lines().map(event).all(|event| event["level"] == "ERROR"),
        "{text}"
    );
}
