//! The stand-in for [`super::native`] where there is no machine code: nothing can be compiled.

use alloc::string::String;
use alloc::vec::Vec;

use super::code::{Code, R, Registers};
use super::maps::Maps;
use crate::error::ApplyError;
use crate::value::Environment;

/// A trigger to make machine code of, if there were any.
#[expect(dead_code, reason = "the same as where there is machine code")]
pub struct Trigger<'a> {
    pub code: &'a Code,
    pub constants: &'a [(R, u64)],
    pub never_null: &'a [bool],
    pub weight: i64,
}

/// A function of machine code, of which there are none.
#[derive(Clone, Copy)]
pub enum Function {}

/// The machine code of a view, of which there is none.
pub enum Native {}

impl Native {
    /// Fails: the error says why there is no machine code.
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
