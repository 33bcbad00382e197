//! dbsp, which computes views incrementally by batches, in a process of its own:
//! `crates/lab/peers/dbsp`. That program is a separate workspace because of its more than 400
//! crates; cargo builds it when `--engine dbsp` is first used.
//!
//! The events go to the process packed, before its clock starts; a rate is by the processor time of
//! that whole process, whose other threads merge batches for the thread that takes events.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::bare::Answer;
use super::events::Events;
use super::measure::{Ask, Given, Pass};
use super::queries::Query;
use crate::peers;
use crate::{Failure, Result};

/// Sources of the program.
const SOURCES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("../../peers/dbsp/Cargo.toml")),
    ("Cargo.lock", include_str!("../../peers/dbsp/Cargo.lock")),
    ("src/main.rs", include_str!("../../peers/dbsp/src/main.rs")),
    ("src/circuit.rs", include_str!("../../peers/dbsp/src/circuit.rs")),
    ("src/finance.rs", include_str!("../../peers/dbsp/src/finance.rs")),
    ("src/request.rs", include_str!("../../peers/dbsp/src/request.rs")),
    ("src/tpch.rs", include_str!("../../peers/dbsp/src/tpch.rs")),
];

const PROGRAM: &str = "views-dbsp";

fn folder() -> PathBuf {
    peers::folder(PROGRAM, &SOURCES)
}

/// Path of the program once it has been built.
fn program() -> PathBuf {
    folder().join(PROGRAM)
}

/// Whether the program is built.
pub fn is_built() -> bool {
    program().exists()
}

/// Builds the program if it has not been built. Takes minutes, and needs a registry if the crates
/// are not here yet. Errors: with the command that builds it by hand.
pub fn build() -> Result<()> {
    if is_built() {
        return Ok(());
    }
    let folder = folder();
    peers::unpack(&folder, &SOURCES)?;
    // Crates stay built when the program's own sources change.
    let target = peers::cache().join("views-dbsp-target");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--target-dir"]).arg(&target);
    cargo.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    cargo.stdin(Stdio::null()).stdout(Stdio::null());
    if !peers::succeeds(&mut cargo) {
        return Err(Failure::Engine(format!("dbsp's arm cannot be built by {cargo:?}")));
    }
    std::fs::copy(target.join("release").join(PROGRAM), program())?;
    Ok(())
}

/// Feeds events in batches of this many.
pub fn ask(what: Ask, query: &Query, events: &Events, batch: usize) -> Result<Given> {
    let Ask::Rate(seconds_max) = what else {
        return Err(Failure::Engine("dbsp has no latency per event".into()));
    };
    let mut command = Command::new(program());
    command.arg(query.name).arg(batch.to_string()).arg(seconds_max.to_string());
    run(&mut command, events)
}

fn run(command: &mut Command, events: &Events) -> Result<Given> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| missing(command, &error))?;
    let mut input = BufWriter::new(child.stdin.take().expect("piped"));
    let written = write_request(&mut input, events).and_then(|()| input.flush());
    drop(input);
    let output = child.wait_with_output()?;
    match written {
        // The process has ended without reading its input: its own output says why.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ if !output.status.success() => {
            return Err(Failure::Engine(format!("dbsp's arm ended with {}", output.status)));
        }
        _ => {}
    }
    read_answer(&String::from_utf8_lossy(&output.stdout))
}

fn missing(command: &Command, error: &std::io::Error) -> Failure {
    let program = command.get_program().to_string_lossy();
    Failure::Engine(format!("{program}: {error}; `halcyon lab views --engine dbsp` builds it"))
}

/// Texts and events in the form that `peers/dbsp/src/request.rs` describes.
fn write_request(output: &mut impl Write, events: &Events) -> std::io::Result<()> {
    let mut word = |word: u64| output.write_all(&word.to_le_bytes());
    word(events.texts.len() as u64)?;
    for text in &events.texts {
        output.write_all(&(text.len() as u64).to_le_bytes())?;
        output.write_all(text.as_bytes())?;
    }
    let mut word = |word: u64| output.write_all(&word.to_le_bytes());
    word(events.relations.len() as u64)?;
    for relation in &events.relations {
        word(relation.columns.len() as u64)?;
    }
    word(events.len() as u64)?;
    for event in events.iter() {
        word(event.relation as u64 | (event.weight as i32 as u32 as u64) << 32)?;
        for &value in event.row {
            word(value)?;
        }
    }
    Ok(())
}

/// The program's output.
#[derive(Deserialize)]
struct Printed {
    events: usize,
    cpu_ns: u64,
    circuit_cpu_ns: u64,
    answer: Vec<(Vec<String>, Vec<f64>)>,
}

fn read_answer(text: &str) -> Result<Given> {
    let printed: Printed = serde_json::from_str(text)
        .map_err(|error| Failure::Engine(format!("dbsp's arm printed no answer: {error}")))?;
    let pass = Pass {
        cpu_ns: printed.cpu_ns,
        helpers_cpu_ns: printed.cpu_ns.saturating_sub(printed.circuit_cpu_ns),
        page_faults: 0,
        event_count: printed.events,
    };
    let row_count = printed.answer.len();
    let answer: Answer = printed.answer.into_iter().collect();
    if answer.len() < row_count {
        return Err(Failure::WrongAnswer("dbsp's view has several rows of a group".into()));
    }
    Ok(Given::Rate(pass, answer))
}

#[cfg(test)]
mod tests {
    use super::super::events::{Column, Relation};
    use super::*;

    fn events() -> Events {
        let columns = vec![("a", Column::Int), ("b", Column::Text)];
        let mut events = Events::new(vec![
            Relation { name: "r", columns },
            Relation { name: "s", columns: vec![("a", Column::Int)] },
        ]);
        let text = events.text("xyz");
        events.push(0, 1, &[7, text]);
        events.push(1, -1, &[9]);
        events
    }

    #[test]
    fn requests_are_words_of_texts_widths_and_events() {
        let mut bytes = Vec::new();
        write_request(&mut bytes, &events()).expect("memory takes all");
        let mut expected = Vec::new();
        let words = |expected: &mut Vec<u8>, words: &[u64]| {
            words.iter().for_each(|word| expected.extend(word.to_le_bytes()));
        };
        words(&mut expected, &[1, 3]);
        expected.extend(b"xyz");
        words(&mut expected, &[2, 2, 1]);
        words(&mut expected, &[2, 1 << 32, 7, 0, 0xffff_ffff_0000_0001, 9]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn answers_have_events_times_and_groups() {
        let text = r#"{"events":5,"cpu_ns":900,"circuit_cpu_ns":700,
                       "answer":[[["1","x"],[2.5,3]],[["2","y"],[0.0,-1]]]}"#;
        let Ok(Given::Rate(pass, answer)) = read_answer(text) else { panic!("it is an answer") };
        assert_eq!((pass.event_count, pass.cpu_ns, pass.helpers_cpu_ns), (5, 900, 200));
        let key = |key: &[&str]| key.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let expected =
            Answer::from([(key(&["1", "x"]), vec![2.5, 3.0]), (key(&["2", "y"]), vec![0.0, -1.0])]);
        assert_eq!(answer, expected);
    }

    #[test]
    fn a_program_that_prints_no_answer_is_told() {
        let error = |text: &str| read_answer(text).err().expect("no answer").to_string();
        assert!(error("").starts_with("engine: dbsp's arm printed no answer"));
        let twice = r#"{"events":1,"cpu_ns":1,"circuit_cpu_ns":1,"answer":[[[],[1]],[[],[2]]]}"#;
        assert_eq!(error(twice), "wrong answer: dbsp's view has several rows of a group");
    }

    #[test]
    fn a_program_that_is_missing_or_fails_is_told() {
        let error = |program: &str| {
            run(&mut Command::new(program), &events()).err().expect("it fails").to_string()
        };
        let missing = error("/no/such/program");
        assert!(missing.contains("`halcyon lab views --engine dbsp` builds it"), "{missing}");
        assert!(error("false").contains("dbsp's arm ended with exit status: 1"));
    }
}
