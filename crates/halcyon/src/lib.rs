//! Halcyon.
