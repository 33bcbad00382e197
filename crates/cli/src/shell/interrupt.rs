//! Ctrl-C: ends the statement that runs, not the shell.
//!
//! While a line is being edited the terminal gives Ctrl-C as a key, so a signal arrives only while
//! a statement runs or no terminal is there. Without a running statement, a signal ends a script;
//! at a terminal it came too late for its statement, and does nothing.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

type Canceller = Arc<dyn Fn() + Send + Sync>;

/// The reaction to a signal at present.
#[derive(Clone, Default)]
pub struct Interrupt {
    running: Arc<Mutex<Option<Canceller>>>,
    at_terminal: Arc<AtomicBool>,
}

/// A guard: a statement runs while this exists.
pub struct Running(Interrupt);

impl Interrupt {
    /// Begins to listen, on a thread of its own.
    pub fn listen() -> std::io::Result<Self> {
        let interrupt = Interrupt::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let heard = interrupt.clone();
        std::thread::Builder::new().name("interrupt".into()).spawn(move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    heard.raise();
                }
            });
        })?;
        Ok(interrupt)
    }

    /// From now until the guard is dropped, a signal calls `cancel`.
    pub fn running(&self, cancel: Canceller) -> Running {
        *self.running.lock().expect("nobody panics with it") = Some(cancel);
        Running(self.clone())
    }

    /// From now on a user edits lines: a signal no longer ends the process.
    pub fn at_terminal(&self) {
        self.at_terminal.store(true, Relaxed);
    }

    fn raise(&self) {
        let running = self.running.lock().expect("nobody panics with it").clone();
        match running {
            Some(cancel) => cancel(),
            None if self.at_terminal.load(Relaxed) => {}
            None => std::process::exit(130),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock().expect("nobody panics with it") = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_signal_cancels_the_statement_that_runs() {
        let interrupt = Interrupt::default();
        let cancelled = Arc::new(AtomicU32::new(0));
        let counter = cancelled.clone();
        let cancel = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let running = interrupt.running(cancel);
        interrupt.raise();
        assert_eq!(cancelled.load(Ordering::Relaxed), 1);
        drop(running);
        assert!(interrupt.running.lock().unwrap().is_none());
        interrupt.at_terminal();
        interrupt.raise();
        assert_eq!(cancelled.load(Ordering::Relaxed), 1, "nothing runs: nothing is cancelled");
    }
}
