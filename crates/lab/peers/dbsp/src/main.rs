//! dbsp on the events of `halcyon lab views`: a circuit per query, built by hand from dbsp's
//! operators, with one worker.
//!
//! `views-dbsp QUERY BATCH SECONDS < REQUEST` takes the events in batches, a transaction after each,
//! for at most so many seconds, and prints one line of JSON: `events` taken, `cpu_ns` of the process
//! and `circuit_cpu_ns` of the thread that feeds and steps (the rest merges batches), and the view
//! as `answer`. What the request looks like stands in `request.rs`.
//!
//! The circuit runs on the thread that feeds it: no hand-over between threads at a step.

mod circuit;
mod finance;
mod request;
mod tpch;

use std::error::Error;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use dbsp::circuit::CircuitConfig;
use dbsp::mimalloc::MiMalloc;
use dbsp::{RootCircuit, Runtime};
use serde_json::json;

use circuit::{Program, Row};
use request::Request;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The allocator of Halcyon's own binary.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, query, batch, seconds] = args.as_slice() else {
        return Err("usage: views-dbsp QUERY BATCH SECONDS < REQUEST".into());
    };
    let batch: usize = batch.parse()?;
    let seconds: f64 = seconds.parse()?;
    if batch == 0 {
        return Err("a batch has at least one event".into());
    }
    let program = finance::program(query).or_else(|| tpch::program(query));
    let program = program.ok_or_else(|| format!("there is no circuit of {query}"))?;
    let request = Arc::new(request::read(&mut std::io::stdin().lock())?);
    // Traces live in a runtime only; its worker is the thread that this closure runs on.
    let (sender, receiver) = mpsc::channel();
    let runtime = Runtime::run(CircuitConfig::with_workers(1), move |_parker| {
        let taken = take(program, &request, batch, seconds).map_err(|error| error.to_string());
        // The receiver has ended when this fails.
        let _ = sender.send(taken);
    })?;
    let taken = receiver.recv().map_err(|_| "the circuit's thread has panicked")??;
    println!(
        "{}",
        json!({
            "events": taken.event_count,
            "cpu_ns": taken.cpu_ns,
            "circuit_cpu_ns": taken.circuit_cpu_ns,
            "answer": taken.answer,
        })
    );
    runtime.kill().map_err(|_| "a thread of the runtime has panicked")?;
    Ok(())
}

/// What was done, and the view after it.
struct Taken {
    event_count: usize,
    cpu_ns: u64,
    circuit_cpu_ns: u64,
    answer: Vec<Row>,
}

fn take(program: Program, request: &Request, batch: usize, seconds: f64) -> Result<Taken> {
    let (circuit, (mut tables, mut view)) =
        RootCircuit::build(|circuit| Ok(program(circuit, &request.texts)))?;
    if tables.len() != request.widths.len() {
        return Err(format!("the query has {} streams", tables.len()).into());
    }
    // More seconds than a duration holds: no end.
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let start = Instant::now();
    let cpu_before = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let circuit_before = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut events = request.events();
    let mut event_count = 0;
    loop {
        let before = event_count;
        for event in events.by_ref().take(batch) {
            tables[event.relation].push(event.row, event.weight);
            event_count += 1;
        }
        if event_count == before {
            break;
        }
        tables.iter_mut().for_each(|table| table.flush());
        circuit.transaction()?;
        view.refresh();
        if start.elapsed() >= limit {
            break;
        }
    }
    let cpu_ns_now = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let circuit_cpu_ns = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) - circuit_before;
    let answer = view.rows();
    Ok(Taken { event_count, cpu_ns: cpu_ns_now - cpu_before, circuit_cpu_ns, answer })
}

fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`, which is ours and lives until the call returns.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "Linux has clocks of processor time");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
