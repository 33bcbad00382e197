//! How quiet a machine is for one thread, event by event, and what made an event late.
//!
//! Words: a *tuple* is one unit of work of a measured thread. A *stamp* is a reading of the clock; the stamps of a
//! series are gapless: the end of one tuple is the start of the next, so nothing hides between tuples. A *gap* is the
//! time between two neighbouring stamps. An *outlier* is a gap above a bound; its *excess* is what lies above the
//! series' median. A *cause* is the name of what took that time.
//!
//! Where to start: [`Stamps`], into which a [`Runner`] stamps; [`Series`], the gaps and their figures; [`trace`], which
//! asks the kernel what happened within the outliers.
//! Source: Mauerer et al., "Silentium! Run-Analyse-Eradicate the Noise out of the DB/OS Stack", BTW 2021: scenarios
//! (§2.2), figures 3 to 6. We differ: nothing is cut from a series, and percentiles and running means belong to one
//! series, not to all scenarios of a query.

pub mod attribution;
pub mod counted;
mod counters;
pub mod figures;
pub mod runner;
pub mod series;
pub mod stamps;
pub mod trace;
pub mod tsc;
pub mod watch;

pub use attribution::{Attribution, Tally};
pub use counters::Reading;
pub use runner::{Exits, Place, Runner, Scenario, Shield};
pub use series::{Series, Summary};
pub use stamps::Stamps;
pub use tsc::Tsc;
