//! `halcyon doctor` on this machine, on folders, on options and on a server that runs.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{Folder, HALCYON, halcyon};

/// The doctor's answer as JSON, with its exit status, which agrees with it.
fn doctor(arguments: &[&str]) -> Value {
    let output = halcyon(&[&["doctor", "--json"], arguments].concat());
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let status = match (answer["errors"].as_u64(), answer["warnings"].as_u64()) {
        (Some(0), Some(0)) => 0,
        (Some(0), _) => 1,
        _ => 2,
    };
    assert_eq!(output.status.code(), Some(status), "{answer:#}");
    answer
}

/// Severities of what was found about a thing; empty if it is as it should be.
fn about(answer: &Value, name: &str) -> Vec<String> {
    let findings = answer["findings"].as_array().expect("a list").iter();
    let found: Vec<String> = findings
        .filter(|finding| finding["about"] == name)
        .map(|finding| finding["severity"].as_str().expect("a text").to_owned())
        .collect();
    let fine = answer["fine"].as_array().expect("a list").iter().any(|fine| fine == name);
    assert!(fine || !found.is_empty(), "nothing about {name}: {answer:#}");
    found
}

struct Server(Child, String);

impl Server {
    fn start(folder: &Folder) -> Server {
        let mut child = Command::new(HALCYON)
            .args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--memory-limit", "256MB"])
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("UTF-8");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Server(child, format!("postgresql://halcyon@{address}/halcyon"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn this_machine_is_looked_at_and_every_finding_says_what_to_do() {
    let answer = doctor(&[]);
    for name in ["cores", "swap", "overcommit", "open files", "clock source", "memory", "governor"]
    {
        about(&answer, name);
    }
    assert_eq!(about(&answer, "options of the server"), ["not known"]);
    for finding in answer["findings"].as_array().expect("a list") {
        for part in ["what", "why", "do"] {
            assert!(finding[part].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
    }
    let text = String::from_utf8(halcyon(&["doctor"]).stdout).expect("UTF-8");
    assert!(text.lines().last().expect("a line").ends_with("as they should be"), "{text}");
}

#[test]
fn options_of_a_server_are_judged_before_it_starts() {
    let answer = doctor(&["--", "--listen", "0.0.0.0:5433", "--spill", "/dev/shm"]);
    assert_eq!(about(&answer, "address"), ["error"]);
    assert_eq!(about(&answer, "spill folder"), ["warning"]);
    let answer = doctor(&["--", "--lisen", "0.0.0.0:5433"]);
    assert_eq!(about(&answer, "options of the server"), ["error"]);
    let answer = doctor(&["--process", "1"]);
    assert_eq!(about(&answer, "options of the server"), ["error"], "process 1 is no server");
}

#[test]
fn a_running_server_is_asked() {
    let folder = Folder::new("doctor");
    let server = Server::start(&folder);
    let process = server.0.id().to_string();
    let answer = doctor(&["--process", &process, "--connect", &server.1]);
    assert_eq!(about(&answer, "superusers without a password"), ["warning"]);
    assert_eq!(about(&answer, "spill folder of the server"), ["note"]);
    let nothing: [&str; 0] = [];
    for name in [
        "options of the server",
        "running server",
        "log",
        "checkpoints",
        "memory in use",
        "admission",
        "latency targets",
        "processors of the workers",
        "open transactions",
        "memory limit",
        "modes of the data folder",
        "address",
        "statements refused for memory",
    ] {
        // The options are told only if something is wrong with them.
        if name != "options of the server" {
            assert_eq!(about(&answer, name), nothing, "{name}: {answer:#}");
        }
    }
    let findings = answer["findings"].as_array().expect("a list");
    assert!(
        findings.iter().all(|finding| finding["about"] != "options of the server"),
        "{answer:#}"
    );
    let output =
        halcyon(&["shell", "--connect", &server.1, "-c", "ALTER ROLE halcyon PASSWORD 'secret'"]);
    assert!(output.status.success(), "{output:?}");
    let answer = doctor(&["--connect", &server.1]);
    assert_eq!(about(&answer, "running server"), ["error"], "the URL has no password");
    let url = server.1.replace("halcyon@", "halcyon:secret@");
    assert_eq!(about(&doctor(&["--connect", &url]), "superusers without a password"), nothing);
}

#[test]
fn a_folder_that_others_may_read_is_an_error() {
    let folder = Folder::new("doctor-modes");
    drop(Server::start(&folder));
    let data = folder.path("data");
    let nothing: [&str; 0] = [];
    assert_eq!(about(&doctor(&[&data]), "modes of the data folder"), nothing);
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).expect("set");
    assert_eq!(about(&doctor(&[&data]), "modes of the data folder"), ["error"]);
}
