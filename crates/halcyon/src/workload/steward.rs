//! The steward: a thread that ticks the gate and the controllers, and looks whether statements have come to rules.
//!
//! There is none in a database without workload classes of users. It sleeps a tenth of a second between two looks, and
//! a hundredth while statements wait at the gate or a class has a latency target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Time between two looks, when somebody waits and otherwise.
const QUICK: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(100);

/// The thread that watches, and how it is told.
#[derive(Default)]
pub(crate) struct Steward {
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_running: bool,
    is_stopped: bool,
    is_roused: bool,
}

/// What the steward does at a look.
pub(crate) trait Duties: Send + 'static {
    /// Looks once. Whether the next look should come soon.
    fn look(&mut self) -> bool;
}

impl Steward {
    /// Starts the thread, if there is none.
    pub fn start(&self, duties: impl FnOnce() -> Box<dyn Duties>) {
        let mut state = self.state.0.lock();
        if state.is_running || state.is_stopped {
            return;
        }
        let (shared, duties) = (Arc::clone(&self.state), duties());
        let thread = std::thread::Builder::new().name("halcyon-workload".into());
        match thread.spawn(move || watch(&shared, duties)) {
            Ok(_) => state.is_running = true,
            Err(error) => tracing::error!("no thread watches over workload classes: {error}"),
        }
    }

    /// Has the thread look now.
    pub fn rouse(&self) {
        self.state.0.lock().is_roused = true;
        self.state.1.notify_one();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state.0.lock().is_stopped = true;
        self.state.1.notify_one();
    }
}

fn watch(shared: &(Mutex<State>, Condvar), mut duties: Box<dyn Duties>) {
    loop {
        // Classes that are held back for the moment would be so for ever without the next look.
        let is_busy = catch_unwind(AssertUnwindSafe(|| duties.look())).unwrap_or_else(|_| {
            tracing::error!("a look at the workload classes has failed");
            true
        });
        let pause = if is_busy { QUICK } else { SLOW };
        let mut state = shared.0.lock();
        let end = Instant::now() + pause;
        while !state.is_roused && !state.is_stopped {
            if shared.1.wait_until(&mut state, end).timed_out() {
                break;
            }
        }
        if state.is_stopped {
            return;
        }
        state.is_roused = false;
    }
}
