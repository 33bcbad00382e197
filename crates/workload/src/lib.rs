//! Workload classes, mappings, rules, admission and controllers, as pure functions of state and observation.
//!
//! Words (P4 §2): a *workload class* is a set of limits and promises for the statements that run in it; a
//! *mapping* says which statements do, by user, application and the like; a *rule* acts on a statement that
//! uses more than its class means it to. A [`Snapshot`] is what a set of [`Definitions`] means on one machine:
//! immutable, and replaced as a whole.
//!
//! No clock, thread or I/O is in here: the caller says what time it is and what was measured, and is told what
//! to do. A million simulated seconds therefore run in a test, and the server runs the same code.
//!
//! ```
//! use halcyon_workload::{Context, Definitions, Machine, Snapshot};
//!
//! let text = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
//!     pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
//! };
//! let mut definitions = Definitions::default();
//! definitions
//!     .create_class("WEB", None, &text(&[("PRIORITY", "8"), ("LATENCY TARGET P99", "50ms")]))
//!     .expect("both settings are known");
//! definitions
//!     .create_mapping("M1", "WEB", &text(&[("APPLICATION NAME", "shop%")]), Some('%'))
//!     .expect("the class exists");
//! let machine = Machine { threads: 16, memory_bytes: 64 << 30 };
//! let snapshot = Snapshot::new(&definitions, &machine, None).expect("the definitions were accepted");
//! let context = Context { application_name: Some("shop-eu"), ..Context::default() };
//! let resolution = snapshot.resolve(&context);
//! assert_eq!(snapshot.class(resolution.class).name, "WEB");
//! ```

#![forbid(unsafe_code)]

mod definition;
pub mod gate;
mod key;
pub mod latency;
mod limits;
mod mapping;
mod problem;
mod rules;
mod snapshot;
mod standing;
pub mod target;
mod value;

pub use definition::{
    Brake, ClassChange, ClassDefinition, Definitions, MappingChange, MappingDefinition,
};
pub use key::{Key, MappingKey};
pub use limits::{Band, CLASSES, ClassId, Limits, Machine, Quantile, band, weight};
pub use mapping::{Choice, Context, Object, Resolution};
pub use problem::{Problem, ProblemKind};
pub use rules::{Action, Condition, Measure, Rule, RuleDefinition, Usage, act};
pub use snapshot::{AUTO_CLASS_FROM, Class, Shares, Snapshot};
pub use standing::{band_number, is_gated, is_of_engine, quotas_of};
pub use value::CacheClass;
