//! What transactions see of each other: the textbook anomalies one by one, and random histories.

mod check;
mod hermitage;
mod lookups;
mod random;
mod waits;
