//! In place of [`super::native`] where there is no machine code: nothing can be compiled.

use alloc::string::String;
use alloc::vec::Vec;

use super::code::{Code, R, Registers};
use super::world::World;
use crate::error::ApplyError;
use crate::value::Environment;

/// What machine code would be made of.
#[expect(dead_code, reason = "the same as where there is machine code")]
pub struct Trigger<'a> {
    pub code: &'a Code,
    pub constants: &'a [(R, u64)],
    pub never_null: &'a [bool],
    pub weight: i64,
}

/// There is none.
#[derive(Clone, Copy)]
pub enum Function {}

/// The same.
pub enum Native {}

impl Native {
    /// Says why not.
    pub fn new(_: &[Trigger<'_>], _: &World) -> Result<(Native, Vec<Function>), String> {
        Err("built without it".into())
    }

    #[inline(always)]
    pub fn run(
        &self,
        _: Function,
        _: &[u64],
        _: &mut Registers,
        _: &Code,
        _: &mut World,
        _: &mut Environment,
    ) -> Result<(), ApplyError> {
        match *self {}
    }

    pub fn bytes(&self) -> usize {
        match *self {}
    }
}
