//! The stand-in for [`super::native`] where there is no machine code: nothing can be compiled.

use alloc::string::String;
use alloc::vec::Vec;

use super::code::{Code, R, Registers};
use super::maps::Maps;
use crate::error::ApplyError;
use crate::value::Environment;

/// A trigger as the source of a function, if there were machine code.
#[expect(dead_code, reason = "the same as where there is machine code")]
pub struct Trigger<'a> {
    pub code: &'a Code,
    pub constants: &'a [(R, u64)],
    pub never_null: &'a [bool],
    pub weight: i64,
}

/// A function of machine code: there is none.
#[derive(Clone, Copy)]
pub enum Function {}

/// Machine code of a view: there is none.
pub enum Native {}

impl Native {
    /// Says why not.
    pub fn new(_: &[Trigger<'_>], _: &Maps) -> Result<(Native, Vec<Function>), String> {
        Err("built without it".into())
    }

    #[inline(always)]
    pub fn run(
        &self,
        _: Function,
        _: &[u64],
        _: &mut Registers,
        _: &Code,
        _: &mut Maps,
        _: &mut Environment,
    ) -> Result<(), ApplyError> {
        match *self {}
    }

    pub fn bytes(&self) -> usize {
        match *self {}
    }
}
