//! The shield: keeps everything else off some processors while a program that must not be late runs there.
//!
//! [`Survey`] has what the kernel has, [`plan()`] decides what is changed (pure), [`journal`] has how things
//! were, [`change`] makes the changes and undoes them. Everything that is touched is a file behind [`Knobs`].
//!
//! Rules, each of which an accident has taught: one lock for a shield's whole life, which the guardian inherits,
//! so that nobody starts before restoring has ended; old values are on stable storage before the first change;
//! the guardian runs before the first change, and restores when its owner goes away or stops to beat; a knob that
//! somebody else changed meanwhile is left to them; every knob is read once more at the end, and what did not come
//! back is said. A shield is never raised unasked.
//!
//! Knows neither tasks nor tables; nothing here runs unless somebody asked for a shield.

pub mod change;
pub mod command;
mod door;
pub mod fake;
pub mod form;
pub mod guard;
pub mod journal;
mod knobs;
mod load;
mod plan;
pub mod process;
mod survey;

pub use door::Door;
pub use knobs::{Kernel, Knobs};
pub use plan::{BootSetting, BootState, Entrance, Need, Plan, Refusal, Request, Step, plan};
pub use survey::{Cpusets, Knob, REST, SHIELD, Survey};
