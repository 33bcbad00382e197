//! Work without the interpreter's lock, which Ctrl-C ends.
//!
//! Handlers of signals run on Python's main thread alone, and there only when it asks. While a statement of the main
//! thread runs, the work is therefore done by another thread, and the main thread asks every [`LOOK`]. Statements of
//! other threads run where they are.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Duration;

use halcyon::CancelHandle;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// How often the main thread asks for signals.
pub const LOOK: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce() + Send>;

/// Threads that wait for work. More than one if a handler of a signal runs a
/// statement while another one runs.
static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

static GET_IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static MAIN: PyOnceLock<u64> = PyOnceLock::new();

/// Wakes a thread that is parked.
pub struct Unpark(Thread);

impl Unpark {
    /// Wakes the thread that asks.
    pub fn this_thread() -> Arc<Self> {
        Arc::new(Unpark(thread::current()))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Whether this is the thread on which Python handles signals.
pub fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let main = MAIN.get_or_try_init(py, || {
        py.import("threading")?.call_method0("main_thread")?.getattr("ident")?.extract()
    })?;
    let own: u64 = GET_IDENT.import(py, "threading", "get_ident")?.call0()?.extract()?;
    Ok(own == *main)
}

/// Does `work` without the interpreter's lock. A signal's handler that raises an exception, as Ctrl-C's does, ends the
/// work by `cancel`, and the exception is returned once the work has ended.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    cancel: &CancelHandle,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if !is_main_thread(py)? {
        return Ok(py.detach(work));
    }
    let (tell, told) = channel();
    let worker = worker();
    let job = Box::new(move || drop(tell.send(work())));
    worker.send(job).expect("the thread waits for work");
    let done = wait(py, cancel, told);
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    done
}

fn worker() -> Sender<Job> {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    idle.unwrap_or_else(|| {
        let (give, work) = channel::<Job>();
        let thread = thread::Builder::new()
            .name("halcyon-python".to_owned())
            .stack_size(halcyon::STATEMENT_STACK_BYTES);
        thread.spawn(move || work.iter().for_each(|job| job())).expect("a thread");
        give
    })
}

fn wait<T: Send>(py: Python<'_>, cancel: &CancelHandle, mut told: Receiver<T>) -> PyResult<T> {
    let mut raised = None;
    loop {
        let found;
        (told, found) = py.detach(move || {
            let found = told.recv_timeout(LOOK);
            (told, found)
        });
        match found {
            Ok(done) => return raised.map_or(Ok(done), Err),
            Err(RecvTimeoutError::Disconnected) => panic!("the work panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        raised = raised.or_else(|| py.check_signals().err());
        // Again and again: the statement may only be about to begin.
        if raised.is_some() {
            cancel.cancel();
        }
    }
}
