//! Run time of incremental views: trigger programs, their maps, and what runs them.
//!
//! `no_std + alloc`, without dependencies: the same code runs inside the database and in a cell.
//!
//! Where to start: [`program`], the form in which a view's maintenance comes from the compiler.

#![no_std]

extern crate alloc;

pub mod program;
