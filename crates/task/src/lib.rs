//! Tasks: small pieces of work that run to completion on known workers.
//!
//! Words (P3 §5, P4 §4.2; DESIGN §7): a *task* runs to its end and never waits; its *annotation*
//! says what it touches, how urgent it is and where it may run; a *resource* is data whose
//! accesses are kept apart by the order of tasks instead of by latches; a *group* (P3: ptask) is
//! tasks that are placed together, awaited together and aborted together; a *worker* is a thread,
//! an *island* the workers that share a last-level cache; the *control plane* is workers that
//! share their cores with the rest of the system, the *compute plane* workers that own them.
//!
//! ```
//! use halcyon_task::{Annotation, Config, Locality, Runtime, Shutdown};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! let runtime = Runtime::new(Config::shared(2)).expect("two threads can be started");
//! let sum = Arc::new(AtomicU64::new(0));
//! let mut group = runtime.group();
//! for number in 1..=10 {
//!     let sum = Arc::clone(&sum);
//!     group.task(Annotation::new(), move |cx: &mut halcyon_task::Context| {
//!         cx.spawn(Annotation::new(), move |_: &mut halcyon_task::Context| {
//!             sum.fetch_add(number, Ordering::Relaxed);
//!         });
//!     });
//! }
//! group.enqueue(Locality::OneIsland).expect("there is an island").wait().expect("no task panics");
//! assert_eq!(sum.load(Ordering::Relaxed), 55);
//! runtime.shutdown(Shutdown::Drain);
//! ```

mod admission;
mod annotation;
mod block;
mod blocking;
mod clock;
mod config;
mod counters;
mod credit;
mod epoch;
mod future;
mod group;
mod group_table;
mod guard;
mod guest;
#[cfg(not(shuttle))]
pub mod measure;
mod morsel;
mod offload;
mod parts;
#[doc(hidden)]
pub mod planted;
mod reply;
mod resource;
mod runtime;
mod shares;
mod sleep;
mod timers;
mod wheel;
mod worker;

pub use admission::{Admission, Closed, Credit};
pub use annotation::{
    Access, Annotation, BANDS, CLASSES, CacheUse, ClassId, Frequency, IslandId, Plane, Priority,
    Resource, Synchronisation, TaskPlace, WorkerId,
};
pub use blocking::Blocking;
pub use config::{Config, StartError, Withheld, WorkerConfig, WorkerKind};
pub use counters::{
    Activity, ClassCounters, Counters, LongTask, Waits, WorkerCounters, WorkerView,
};
pub use credit::Busy;
pub use future::{FutureHandle, spawn_beside};
pub use group::{Group, Locality, Quota, RunningGroup};
pub use group_table::{EnqueueError, GroupError};
pub use guard::Guard;
pub use guest::Guest;
pub use morsel::{Morsels, Pull};
pub use parts::{Part, WorkerPart};
pub use reply::{Reply, TaskError};
pub use resource::{Changed, Latch, Owned, OwnedGuard, Version, WriteGuard};
pub use runtime::{AbsenceError, Runtime, Shutdown};
pub use shares::{Shares, SharesError, WEIGHT_MAX};
pub use sleep::{Deadline, Elapsed, Sleep, Timer, Within};
pub use wheel::Precision;
pub use worker::Context;
pub use worker::sleeper::{poll_proceed, proceed, step};
pub use worker::task::{Step, Task};
