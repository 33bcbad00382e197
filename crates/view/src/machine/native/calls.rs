//! The functions that machine code calls, by C's conventions: operations on maps and scalars.
//!
//! All of this is safe code. Where a map's declaration fixes its widths, the functions for that map
//! know them: each function has an instance for every structure in [`crate::maps::any`].

use std::panic::AssertUnwindSafe;

use super::super::code::{Code, REGISTERS, Registers};
use super::super::maps::Maps;
use super::super::run;
use crate::error::{ApplyError, EvalError};
use crate::maps::ordered::Ordered;
use crate::maps::shape::{Shape, is_zero};
use crate::maps::sliced::{SlicePosition, Sliced};
use crate::maps::table::Table;
use crate::program::{BinaryOp, CompareOp};
use crate::scalar::{binary, compare, float_to_sum, key_float, sum_to_float};
use crate::value::{Environment, halves, order_float, wide};

/// The outcome of a trigger, or of a function that it calls, as a number.
pub mod status {
    /// Everything has been done.
    pub const DONE: u32 = 0;
    /// [`super::EvalError::Overflow`]
    pub const OVERFLOW: u32 = 1;
    /// [`super::EvalError::OutOfRange`]
    pub const OUT_OF_RANGE: u32 = 2;
    /// [`super::EvalError::DivisionByZero`]
    pub const DIVISION_BY_ZERO: u32 = 3;
    /// The error lies in [`super::Maps::error`].
    pub const ELSEWHERE: u32 = 4;
    /// A panic, which lies in [`super::Maps::panic`].
    pub const PANICKED: u32 = 5;
}

/// The register file as machine code has it: bare words.
pub type Words = [u64; REGISTERS];

/// Payloads of at most this many words are summed up in memory that the caller names.
pub const SUM_WORDS: usize = 8;

/// Runs `f` and returns its outcome as a status; an error without a number of its own is left in
/// the maps. Nothing may unwind through machine code, so a panic is caught here and left in the
/// maps, too.
fn status_of(maps: &mut Maps, f: impl FnOnce(&mut Maps) -> Result<(), ApplyError>) -> u32 {
    let done = std::panic::catch_unwind(AssertUnwindSafe(|| f(maps)));
    match done {
        Ok(Ok(())) => status::DONE,
        Ok(Err(ApplyError::Eval(error))) => eval_status(error, maps),
        Ok(Err(error)) => {
            maps.error = Some(error);
            status::ELSEWHERE
        }
        Err(panic) => {
            maps.panic = Some(panic);
            status::PANICKED
        }
    }
}

fn eval_status(error: EvalError, maps: &mut Maps) -> u32 {
    match error {
        EvalError::Overflow => status::OVERFLOW,
        EvalError::OutOfRange => status::OUT_OF_RANGE,
        EvalError::DivisionByZero => status::DIVISION_BY_ZERO,
        error => {
            maps.error = Some(error.into());
            status::ELSEWHERE
        }
    }
}

/// Returns the error that a status stands for.
///
/// Panics: if the status says that a function panicked; that panic goes on from here.
#[cold]
pub fn error_of(status: u32, maps: &mut Maps) -> ApplyError {
    match status {
        status::PANICKED => {
            std::panic::resume_unwind(maps.panic.take().expect("left there by what panicked"))
        }
        status::OVERFLOW => EvalError::Overflow.into(),
        status::OUT_OF_RANGE => EvalError::OutOfRange.into(),
        status::DIVISION_BY_ZERO => EvalError::DivisionByZero.into(),
        _ => maps.error.take().expect("left there by what failed"),
    }
}

// Operations as [`run`] does them, for everything that has no quicker function below.

pub extern "C" fn get(code: &Code, site: usize, registers: &mut Registers, maps: &Maps) {
    run::get(&code.sites[site], registers, maps);
}

pub extern "C" fn start(code: &Code, site: usize, registers: &mut Registers, maps: &Maps) {
    run::start(&code.sites[site], registers, maps);
}

pub extern "C" fn next(code: &Code, site: usize, registers: &mut Registers, maps: &Maps) -> u32 {
    u32::from(run::next(&code.sites[site], registers, maps))
}

pub extern "C" fn range_sum(code: &Code, site: usize, registers: &mut Registers, maps: &mut Maps) {
    run::range_sum(&code.sites[site], registers, maps);
}

pub extern "C" fn edge(code: &Code, site: usize, registers: &mut Registers, maps: &Maps) {
    run::edge(&code.sites[site], registers, maps);
}

pub extern "C" fn search(code: &Code, site: usize, registers: &mut Registers, maps: &Maps) {
    run::search(&code.sites[site], registers, maps);
}

pub extern "C" fn add(
    code: &Code,
    site: usize,
    registers: &mut Registers,
    maps: &mut Maps,
    env: &mut Environment,
) -> u32 {
    status_of(maps, |maps| run::add(&code.sites[site], registers, maps, env))
}

pub extern "C" fn clear(map: usize, maps: &mut Maps, env: &mut Environment) -> u32 {
    status_of(maps, |maps| run::clear(map, maps, env))
}

/// Runs operation number `op`, one that does not jump.
pub extern "C" fn scalar(
    code: &Code,
    op: usize,
    registers: &mut Registers,
    maps: &mut Maps,
    env: &mut Environment,
) -> u32 {
    status_of(maps, |_| run::scalar(code.ops[op], code, registers, env).map_err(ApplyError::from))
}

// Scalars.

/// Floating-point arithmetic, called only if the result is not finite. `op`: see
/// [`operator_number`].
pub extern "C" fn float_binary(op: usize, a: u64, b: u64, to: &mut u64) -> u32 {
    match binary(OPERATORS[op], f64::from_bits(a), f64::from_bits(b)) {
        Ok(value) => {
            *to = value.to_bits();
            status::DONE
        }
        Err(EvalError::DivisionByZero) => status::DIVISION_BY_ZERO,
        Err(_) => status::OUT_OF_RANGE,
    }
}

/// A product of 128 bits.
pub extern "C" fn wide_mul(low: u64, high: u64, b: u64, b_high: u64, to: &mut [u64; 2]) -> u32 {
    match binary(BinaryOp::Mul, wide(low, high), wide(b, b_high)) {
        Ok(value) => {
            *to = halves(value);
            status::DONE
        }
        Err(_) => status::OVERFLOW,
    }
}

/// A comparison of floating-point numbers: 0, 1 or NULL. `op`: see [`comparison_number`].
pub extern "C" fn float_compare(op: usize, a: u64, b: u64) -> i64 {
    compare(COMPARISONS[op], f64::from_bits(a), f64::from_bits(b))
}

/// Turns a floating-point addend into the two words of an exact sum.
pub extern "C" fn to_sum(a: u64, to: &mut [u64; 2]) -> u32 {
    match float_to_sum(f64::from_bits(a)) {
        Ok(value) => {
            *to = halves(value);
            status::DONE
        }
        Err(_) => status::OUT_OF_RANGE,
    }
}

/// Turns the two words of an exact sum into a floating-point number.
pub extern "C" fn from_sum(low: u64, high: u64) -> u64 {
    sum_to_float(wide(low, high)).to_bits()
}

/// Turns a floating-point number into the form by which keys compare.
pub extern "C" fn float_key(a: u64) -> u64 {
    key_float(f64::from_bits(a)).to_bits()
}

/// Turns a floating-point key into a word that compares as an unsigned number.
pub extern "C" fn float_order(a: u64) -> u64 {
    order_float(a)
}

const OPERATORS: [BinaryOp; 6] =
    [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::DivRound, BinaryOp::Rem];

const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

/// The number by which machine code names an operator.
pub fn operator_number(op: BinaryOp) -> usize {
    OPERATORS.iter().position(|other| *other == op).expect("all are there")
}

/// The number by which machine code names a comparison.
pub fn comparison_number(op: CompareOp) -> usize {
    COMPARISONS.iter().position(|other| *other == op).expect("all are there")
}

// Maps.

/// Returns the address of a key's value in a hash table; null if the key has no entry.
pub extern "C" fn find<S: Shape>(table: &Table<S>, words: &Words, key: usize) -> *const u64 {
    let found = if S::KNOWN && table.shape().key() <= KEY_WORDS {
        let mut words_of_key = [0; KEY_WORDS];
        for (word, value) in words_of_key[..table.shape().key()].iter_mut().enumerate() {
            *value = words[(key + word) % REGISTERS];
        }
        table.get(&words_of_key)
    } else {
        table.get(&words[key..key + table.shape().key()])
    };
    found.map_or(core::ptr::null(), <[u64]>::as_ptr)
}

/// The longest key, in words, for which [`crate::maps::tables::Tables`] has a structure of fixed
/// width.
const KEY_WORDS: usize = 3;

/// Returns the address of a key's value in a map with slices; null if the key has no entry.
pub extern "C" fn find_sliced<S: Shape>(map: &Sliced<S>, words: &Words, key: usize) -> *const u64 {
    let found = map.get(&words[key..key + map.shape().key()]);
    found.map_or(core::ptr::null(), <[u64]>::as_ptr)
}

/// Begins an enumeration of a slice; the slice's values and the position lie in registers.
pub extern "C" fn start_slice<S: Shape>(
    map: &Sliced<S>,
    slice: usize,
    words: &mut Words,
    values: usize,
    position: usize,
) {
    let values = &words[values..values + map.slice_words(slice)];
    let start = map.start(slice, values).words();
    words[position..position + start.len()].copy_from_slice(&start);
}

/// Returns the address of the next entry of an enumeration, skipping entries whose payload (the
/// first `payload` words of a value) is zero; null at the end.
pub extern "C" fn next_of_slice<S: Shape>(
    map: &Sliced<S>,
    words: &mut Words,
    position: usize,
    payload: usize,
) -> *const u64 {
    let at = &mut words[position..position + 2];
    let mut next = SlicePosition::of([at[0], at[1]]);
    let found = loop {
        match map.step(&mut next) {
            None => break core::ptr::null(),
            Some((_, value)) if is_zero(&value[..payload]) => {}
            // An entry's value lies behind its key.
            Some((key, _)) => break key.as_ptr(),
        }
    };
    at.copy_from_slice(&next.words());
    found
}

/// Sums the payloads behind a prefix of at most one word, from a key of one word on.
pub extern "C" fn sum_from<S: Shape>(
    tree: &Ordered<S>,
    prefix: u64,
    low: u64,
    sums: &mut [u64; SUM_WORDS],
) {
    sum(tree, prefix, low, None, sums);
}

/// Sums the payloads between two keys: the first included, the second not.
pub extern "C" fn sum_between<S: Shape>(
    tree: &Ordered<S>,
    prefix: u64,
    low: u64,
    high: u64,
    sums: &mut [u64; SUM_WORDS],
) {
    sum(tree, prefix, low, Some(&[high]), sums);
}

#[inline(always)]
fn sum<S: Shape>(
    tree: &Ordered<S>,
    prefix: u64,
    low: u64,
    high: Option<&[u64]>,
    sums: &mut [u64; SUM_WORDS],
) {
    let prefix = &[prefix][..tree.prefix_words().min(1)];
    let words = tree.shape().value();
    let mut row = tree.shape().zero();
    tree.range_sum_here(prefix, &[low], high, row.as_mut());
    sums[..words].copy_from_slice(row.as_mut());
}

/// Adds to the payload of a key. The words of key and addend lie side by side.
pub extern "C" fn tree_add<S: Shape>(
    tree: &mut Ordered<S>,
    words: &Words,
    key: usize,
    value: usize,
) -> u32 {
    let shape = tree.shape();
    let delta = &words[value..value + shape.value()];
    if is_zero(delta) {
        return status::DONE;
    }
    let key = &words[key..key + tree.prefix_words() + shape.key()];
    match tree.add(key, delta) {
        Ok(()) => status::DONE,
        Err(_) => status::OVERFLOW,
    }
}
