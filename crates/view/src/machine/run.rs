//! The loop that runs [`Code`], and a function per operation on maps.

use alloc::vec::Vec;

use super::code::{Code, Limit, Op, Out, POSITION_WORDS, Registers, Site};
use super::maps::{MapStructure, Maps, RowMaker, load, load_zero};
use crate::error::{ApplyError, EvalError};
use crate::eval::{compare_text, substring_of};
use crate::maps::ordered::{Key, OrderedPosition};
use crate::maps::shape::is_zero;
use crate::maps::sliced::SlicePosition;
use crate::program::{BinaryOp, CompareOp, NULL_FLOAT_BITS, NULL_INT, NULL_WIDE, Type};
use crate::scalar::{
    binary, compare, date_of, date_part, float_limit, float_to_int, float_to_sum, float_to_wide,
    int_to_float, int_to_wide, key_float, negate, not, rescale, rescale_int, sum_to_float,
    wide_to_float, wide_to_int, within_int, within_wide,
};
use crate::value::{Environment, Value, halves, order_float, order_int, wide};

pub use crate::maps::ordered::KEY_WORDS_MAX as ORDERED_KEY_WORDS_MAX;

/// Runs code to its end.
///
/// Errors: the changes made before the error are in the journal, or in the registers
/// ([`Site::undo`]).
pub fn run(
    code: &Code,
    registers: &mut Registers,
    maps: &mut Maps,
    env: &mut Environment,
) -> Result<(), ApplyError> {
    // Operations on maps are calls, so that this loop's own state stays in processor registers.
    let ops = &code.ops[..];
    let mut rest = ops;
    loop {
        // The operation is matched in place: only the fields that it has are loaded.
        let Some((op, behind)) = rest.split_first() else { return Ok(()) };
        rest = behind;
        match *op {
            Op::AddInt { d, a, b } => {
                let value = binary(BinaryOp::Add, registers.int(a), registers.int(b))?;
                registers.set(d, value as u64);
            }
            Op::SubInt { d, a, b } => {
                let value = binary(BinaryOp::Sub, registers.int(a), registers.int(b))?;
                registers.set(d, value as u64);
            }
            Op::MulInt { d, a, b } => {
                let value = binary(BinaryOp::Mul, registers.int(a), registers.int(b))?;
                registers.set(d, value as u64);
            }
            Op::AddFloat { d, a, b } => {
                let value = binary(BinaryOp::Add, float(registers, a), float(registers, b))?;
                set_float(registers, d, value);
            }
            Op::SubFloat { d, a, b } => {
                let value = binary(BinaryOp::Sub, float(registers, a), float(registers, b))?;
                set_float(registers, d, value);
            }
            Op::MulFloat { d, a, b } => {
                let value = binary(BinaryOp::Mul, float(registers, a), float(registers, b))?;
                set_float(registers, d, value);
            }
            Op::ToSum { d, a } => {
                let value = float_to_sum(float(registers, a))?;
                set_wide(registers, d, value);
            }
            Op::KeyFloat { d } => {
                let value = key_float(float(registers, d));
                set_float(registers, d, value);
            }
            Op::Cast { from: Type::Int, to: Type::Float, d, a } => {
                let value = int_to_float(registers.int(a));
                set_float(registers, d, value);
            }
            Op::UnlessWithin { first, end, to } => {
                let ranges = &code.ranges[usize::from(first)..usize::from(end)];
                if !ranges.iter().all(|range| range.holds(registers.int(range.a))) {
                    rest = &ops[to as usize..];
                }
            }
            Op::UnlessInt { op, a, b, to } => {
                if compare(op, registers.int(a), registers.int(b)) != 1 {
                    rest = &ops[to as usize..];
                }
            }
            Op::UnlessCompare { op, ty, a, b, to } => {
                if compare_values(op, ty, registers, a, b) != 1 {
                    rest = &ops[to as usize..];
                }
            }
            Op::Unless { a, to } => {
                if matches!(registers.int(a), 0 | NULL_INT) {
                    rest = &ops[to as usize..];
                }
            }
            Op::Jump { to } => rest = &ops[to as usize..],
            Op::UnlessNull { ty, a, to } => {
                if !is_null(ty, registers, a) {
                    rest = &ops[to as usize..];
                }
            }
            Op::And { d, a, to } => match registers.int(a) {
                NULL_INT => registers.set(d, NULL_INT as u64),
                0 => {
                    registers.set(d, 0);
                    rest = &ops[to as usize..];
                }
                _ => {}
            },
            Op::Or { d, a, to } => match registers.int(a) {
                NULL_INT => registers.set(d, NULL_INT as u64),
                0 => {}
                _ => {
                    registers.set(d, 1);
                    rest = &ops[to as usize..];
                }
            },
            Op::Move { d, a } => registers.set(d, registers.get(a)),
            Op::MoveWide { d, a } => {
                let (low, high) = (registers.get(a), registers.get(a + 1));
                registers.set(d, low);
                registers.set(d + 1, high);
            }
            Op::Neg { ty: Type::Int, d, a } => {
                let value = negate(registers.int(a))?;
                registers.set(d, value as u64);
            }
            Op::Neg { ty: Type::Float, d, a } => {
                let value = negate(float(registers, a))?;
                set_float(registers, d, value);
            }
            Op::Neg { ty: Type::Wide, d, a } => {
                let value = negate(wide_at(registers, a))?;
                set_wide(registers, d, value);
            }
            Op::OrZero { d } => {
                if registers.int(d) == NULL_INT {
                    registers.set(d, 0);
                }
            }
            Op::Order { ty: Type::Int, d, a } => registers.set(d, order_int(registers.get(a))),
            Op::Order { ty: Type::Float, d, a } => {
                registers.set(d, order_float(registers.get(a)));
            }
            Op::Get { site } => get(&code.sites[usize::from(site)], registers, maps),
            Op::Start { site } => start(&code.sites[usize::from(site)], registers, maps),
            Op::Next { site, to } => {
                if !next(&code.sites[usize::from(site)], registers, maps) {
                    rest = &ops[to as usize..];
                }
            }
            Op::RangeSum { site } => range_sum(&code.sites[usize::from(site)], registers, maps),
            Op::Edge { site } => edge(&code.sites[usize::from(site)], registers, maps),
            Op::Search { site } => search(&code.sites[usize::from(site)], registers, maps),
            Op::Add { site } => add(&code.sites[usize::from(site)], registers, maps, env)?,
            Op::Clear { map } => clear(usize::from(map), maps, env)?,
            Op::WidenInt { d, a } => set_wide(registers, d, int_to_wide(registers.int(a))),
            Op::MulIntInt { d, a, b } => {
                // A product of 64-bit integers fits, and none is NULL.
                let (a, b) = (registers.int(a), registers.int(b));
                let product = i128::from(a) * i128::from(b);
                set_wide(
                    registers,
                    d,
                    if a == NULL_INT || b == NULL_INT { NULL_WIDE } else { product },
                );
            }
            Op::MulWideInt { d, a, b } => {
                let value = mul_wide(wide_at(registers, a), int_to_wide(registers.int(b)))?;
                set_wide(registers, d, value);
            }
            Op::MulWide { d, a, b } => {
                let value = mul_wide(wide_at(registers, a), wide_at(registers, b))?;
                set_wide(registers, d, value);
            }
            Op::AddWide { d, a, b } => {
                let value = binary(BinaryOp::Add, wide_at(registers, a), wide_at(registers, b))?;
                set_wide(registers, d, value);
            }
            Op::SubWide { d, a, b } => {
                let value = binary(BinaryOp::Sub, wide_at(registers, a), wide_at(registers, b))?;
                set_wide(registers, d, value);
            }
            Op::OrZeroWide { d } => {
                if wide_at(registers, d) == NULL_WIDE {
                    set_wide(registers, d, 0);
                }
            }
            Op::Halt => return Ok(()),
            other => scalar(other, code, registers, env)?,
        }
    }
}

/// Loads the payload under a key into registers.
#[inline(never)]
pub fn get(site: &Site, registers: &mut Registers, maps: &Maps) {
    let key = registers.words(site.key, site.key_words);
    match maps.all[usize::from(site.map)].payload(key) {
        Some(payload) => load(&site.outs, payload, registers),
        None => load_zero(&site.outs, registers),
    }
}

/// Adds to the entry of a map.
#[inline(never)]
pub fn add(
    site: &Site,
    registers: &Registers,
    maps: &mut Maps,
    env: &mut Environment,
) -> Result<(), ApplyError> {
    let map = usize::from(site.map);
    if maps.is_eager(map) {
        note_rows(site, registers, maps, env)?;
    }
    let words = maps.all[map].sums.words();
    let key = registers.words(site.key, site.key_words);
    maps.add(map, key, registers.words(site.value, words), site.journal)?;
    maps.done |= site.undo;
    Ok(())
}

/// Runs the less frequent operations on registers alone.
#[inline(never)]
pub fn scalar(
    op: Op,
    code: &Code,
    registers: &mut Registers,
    env: &mut Environment,
) -> Result<(), EvalError> {
    match op {
        Op::Binary { op, ty, d, a, b } => match ty {
            Type::Int => set_int(registers, d, binary(op, registers.int(a), registers.int(b))?),
            Type::Float => {
                set_float(registers, d, binary(op, float(registers, a), float(registers, b))?)
            }
            Type::Wide => {
                set_wide(registers, d, binary(op, wide_at(registers, a), wide_at(registers, b))?)
            }
        },
        Op::Compare { op, ty, d, a, b } => {
            set_int(registers, d, compare_values(op, ty, registers, a, b));
        }
        Op::CompareText { op, d, a, b } => {
            set_int(registers, d, compare_text(op, registers.int(a), registers.int(b), env));
        }
        Op::Not { d, a } => set_int(registers, d, not(registers.int(a))),
        Op::IsNull { ty, d, a } => {
            set_int(registers, d, i64::from(is_null(ty, registers, a)));
        }
        Op::Cast { from, to, d, a } => cast(from, to, registers, d, a)?,
        Op::Rescale { ty: Type::Wide, by, d, a } => {
            set_wide(registers, d, rescale(by, wide_at(registers, a))?);
        }
        Op::Rescale { by, d, a, .. } => set_int(registers, d, rescale_int(by, registers.int(a))?),
        Op::Within { ty: Type::Wide, range, d, a } => {
            set_wide(registers, d, within_wide(range, wide_at(registers, a))?);
        }
        Op::Within { range, d, a, .. } => {
            set_int(registers, d, within_int(range, registers.int(a))?);
        }
        Op::DatePart { part, d, a } => set_int(registers, d, date_part(part, registers.int(a))?),
        Op::DateOf { d, a } => set_int(registers, d, date_of(registers.int(a))),
        Op::Like { like, d, a } => {
            let like = &code.likes[usize::from(like)];
            let value = registers.int(a);
            set_int(
                registers,
                d,
                match value {
                    NULL_INT => NULL_INT,
                    value => {
                        i64::from(like.pattern.matches(env.dictionary.text(value))? != like.negated)
                    }
                },
            );
        }
        Op::Substring { substring, d, a } => {
            let (start, length) = code.substrings[usize::from(substring)];
            set_int(registers, d, substring_of(registers.int(a), start, length, env));
        }
        Op::Call { call, d, a } => {
            let called = &code.calls[usize::from(call)];
            let args = registers.words(a, called.arg_words);
            match crate::call::call(&called.call, args, env)? {
                Value::Int(value) => set_int(registers, d, value),
                Value::Float(value) => set_float(registers, d, value),
                Value::Wide(value) => set_wide(registers, d, value),
            }
        }
        Op::FromSum { d, a } => set_float(registers, d, sum_to_float(wide_at(registers, a))),
        Op::Accumulate { ty: Type::Wide, d, a } => {
            let sum = wide_at(registers, d).checked_add(wide_at(registers, a));
            set_wide(registers, d, sum.filter(|sum| *sum != NULL_WIDE).ok_or(EvalError::Overflow)?);
        }
        Op::Accumulate { d, a, .. } => {
            let sum = registers.int(d).checked_add(registers.int(a));
            set_int(registers, d, sum.filter(|sum| *sum != NULL_INT).ok_or(EvalError::Overflow)?);
        }
        Op::Order { ty, d, a } => match ty {
            Type::Int => registers.set(d, order_int(registers.get(a))),
            Type::Float => unreachable!("run by its caller"),
            Type::Wide => {
                let (low, high) = (registers.get(a), registers.get(a + 1));
                registers.set(d, order_int(high));
                registers.set(d + 1, low);
            }
        },
        other => unreachable!("{other:?} is run by its caller"),
    }
    Ok(())
}

#[inline(always)]
fn float(registers: &Registers, a: u16) -> f64 {
    f64::from_bits(registers.get(a))
}

#[inline(always)]
fn wide_at(registers: &Registers, a: u16) -> i128 {
    wide(registers.get(a), registers.get(a + 1))
}

#[inline(always)]
fn set_int(registers: &mut Registers, d: u16, value: i64) {
    registers.set(d, value as u64);
}

#[inline(always)]
fn set_float(registers: &mut Registers, d: u16, value: f64) {
    registers.set(d, value.to_bits());
}

#[inline(always)]
fn set_wide(registers: &mut Registers, d: u16, value: i128) {
    let [low, high] = halves(value);
    registers.set(d, low);
    registers.set(d + 1, high);
}

/// Multiplies in 128 bits; small factors are tried first because a full multiplication is a call
/// that takes several times as long.
#[inline(never)]
fn mul_wide(a: i128, b: i128) -> Result<i128, EvalError> {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) => Ok(i128::from(a) * i128::from(b)),
        _ => binary(BinaryOp::Mul, a, b),
    }
}

#[inline(never)]
fn compare_values(op: CompareOp, ty: Type, registers: &Registers, a: u16, b: u16) -> i64 {
    match ty {
        Type::Int => compare(op, registers.int(a), registers.int(b)),
        Type::Float => compare(op, float(registers, a), float(registers, b)),
        Type::Wide => compare(op, wide_at(registers, a), wide_at(registers, b)),
    }
}

fn is_null(ty: Type, registers: &Registers, a: u16) -> bool {
    match ty {
        Type::Int => registers.int(a) == NULL_INT,
        Type::Float => registers.get(a) == NULL_FLOAT_BITS,
        Type::Wide => wide_at(registers, a) == NULL_WIDE,
    }
}

fn cast(from: Type, to: Type, registers: &mut Registers, d: u16, a: u16) -> Result<(), EvalError> {
    match (from, to) {
        (Type::Int, Type::Wide) => set_wide(registers, d, int_to_wide(registers.int(a))),
        (Type::Int, Type::Float) => set_float(registers, d, int_to_float(registers.int(a))),
        (Type::Wide, Type::Int) => set_int(registers, d, wide_to_int(wide_at(registers, a))?),
        (Type::Wide, Type::Float) => set_float(registers, d, wide_to_float(wide_at(registers, a))),
        (Type::Float, Type::Int) => set_int(registers, d, float_to_int(float(registers, a))?),
        (Type::Float, Type::Wide) => set_wide(registers, d, float_to_wide(float(registers, a))?),
        (Type::Wide, Type::Wide) => set_wide(registers, d, wide_at(registers, a)),
        (Type::Int, Type::Int) | (Type::Float, Type::Float) => registers.set(d, registers.get(a)),
    }
    Ok(())
}

/// A range of the rests of a sorted map's keys.
struct Bounds {
    low: Key,
    high: Key,
    /// Whether `high` bounds the range.
    is_bounded: bool,
}

impl Bounds {
    /// The range of the keys that begin with the given words. Copied word by word: the processor
    /// would stall on words that are read one by one right after they were written as a block, or
    /// the other way round.
    #[inline(always)]
    fn within(given: &[u64]) -> Self {
        let (low, high) = ([0; ORDERED_KEY_WORDS_MAX], [0; ORDERED_KEY_WORDS_MAX]);
        let mut bounds = Bounds { low, high, is_bounded: false };
        for (word, value) in given.iter().enumerate() {
            bounds.low[word] = *value;
            bounds.high[word] = *value;
        }
        bounds.is_bounded = step_behind(&mut bounds.high, given.len());
        bounds
    }

    #[inline(always)]
    fn high(&self) -> Option<&[u64]> {
        if self.is_bounded { Some(&self.high) } else { None }
    }
}

/// Makes a key the first one behind all keys that begin with its first `words` words; false if
/// there is none.
#[inline(always)]
fn step_behind(key: &mut Key, words: usize) -> bool {
    for word in (0..words).rev() {
        let (sum, carries) = key[word].overflowing_add(1);
        key[word] = sum;
        if !carries {
            return true;
        }
    }
    false
}

/// Narrows the keys that begin with `given` to the bounds of a range sum; false if no key can lie
/// between the bounds.
#[inline(always)]
fn narrow(bounds: &mut Bounds, given: &[u64], site: &Site, registers: &Registers) -> bool {
    let end = given.len() + site.column_words;
    match site.low {
        // NULL is zero in all words, so a lower bound of 1 leaves it out.
        Limit::Open => bounds.low[end - 1] = 1,
        Limit::Included(value) | Limit::Excluded(value) => {
            let value = registers.words(value, site.column_words);
            if is_zero(value) {
                return false;
            }
            for (word, value) in value.iter().enumerate() {
                bounds.low[given.len() + word] = *value;
            }
            if matches!(site.low, Limit::Excluded(_)) && !step_behind(&mut bounds.low, end) {
                return false;
            }
        }
    }
    if let Limit::Included(value) | Limit::Excluded(value) = site.high {
        let value = registers.words(value, site.column_words);
        if is_zero(value) {
            return false;
        }
        for (word, value) in given.iter().chain(value).enumerate() {
            bounds.high[word] = *value;
        }
        bounds.is_bounded =
            matches!(site.high, Limit::Excluded(_)) || step_behind(&mut bounds.high, end);
    }
    true
}

/// The bounds of [`narrow`], for a key whose prefix is followed by one column of one word.
#[inline(always)]
fn one_word(site: &Site, registers: &Registers) -> Option<(u64, Option<u64>)> {
    // NULL is zero: bounds of NULL hold nothing, and without a bound NULL is left out.
    let value = |register: u16| Some(registers.get(register)).filter(|word| *word != 0);
    let low = match site.low {
        Limit::Open => 1,
        Limit::Included(register) => value(register)?,
        Limit::Excluded(register) => value(register)?.checked_add(1)?,
    };
    let high = match site.high {
        Limit::Open => None,
        Limit::Included(register) => value(register)?.checked_add(1),
        Limit::Excluded(register) => Some(value(register)?),
    };
    Some((low, high))
}

/// Words of a payload up to which its sum is computed on the stack.
const SUM_WORDS: usize = 8;

#[inline(never)]
pub fn range_sum(site: &Site, registers: &mut Registers, maps: &mut Maps) {
    let map = &maps.all[usize::from(site.map)];
    let MapStructure::Ordered(tree, _) = &map.structure else {
        unreachable!("sorted (Program::check)")
    };
    let words = map.sums.words();
    let mut few = [0; SUM_WORDS];
    let sum = if words <= SUM_WORDS {
        &mut few[..words]
    } else {
        let sum = &mut maps.scratch.sum;
        sum.clear();
        sum.resize(words, 0);
        &mut sum[..]
    };
    let key = registers.words(site.key, site.key_words);
    let (prefix, given) = key.split_at(map.prefix_words);
    if site.column_words == 1 && given.is_empty() && map.key_words == prefix.len() + 1 {
        if let Some((low, high)) = one_word(site, registers) {
            let high = high.as_ref().map(core::slice::from_ref);
            tree.range_sum(prefix, &[low], high, sum);
        }
    } else {
        let mut bounds = Bounds::within(given);
        if narrow(&mut bounds, given, site, registers) {
            tree.range_sum(prefix, &bounds.low, bounds.high(), sum);
        }
    }
    load(&site.outs, sum, registers);
}

#[inline(never)]
pub fn edge(site: &Site, registers: &mut Registers, maps: &Maps) {
    let map = &maps.all[usize::from(site.map)];
    let MapStructure::Ordered(tree, _) = &map.structure else {
        unreachable!("sorted (Program::check)")
    };
    let key = registers.words(site.key, site.key_words);
    let (prefix, given) = key.split_at(map.prefix_words);
    let mut bounds = Bounds::within(given);
    let end = given.len() + site.column_words;
    if site.skip_null {
        bounds.low[end - 1] = 1;
    }
    let high = bounds.high();
    let words = map.key_words - prefix.len();
    let low = &bounds.low[..words];
    let found = if site.backwards {
        tree.last_below(prefix, high).filter(|rest| *rest >= low)
    } else {
        let first = tree.first_from(prefix, low);
        first.filter(|rest| high.is_none_or(|high| *rest < &high[..words]))
    };
    load_column(site, found, prefix.len(), registers);
}

#[inline(never)]
pub fn search(site: &Site, registers: &mut Registers, maps: &Maps) {
    let map = &maps.all[usize::from(site.map)];
    let MapStructure::Ordered(tree, _) = &map.structure else {
        unreachable!("sorted (Program::check)")
    };
    let key = registers.words(site.key, site.key_words);
    let (prefix, given) = key.split_at(map.prefix_words);
    let bounds = Bounds::within(given);
    let limit = match site.limit_type {
        _ if is_null(site.limit_type, registers, site.value) => None,
        Type::Int => Some(i128::from(registers.int(site.value))),
        Type::Wide => Some(wide_at(registers, site.value)),
        Type::Float => Some(float_limit(float(registers, site.value))),
    };
    let component = usize::from(site.component);
    let range = (&bounds.low[..], bounds.high());
    let found =
        limit.and_then(|limit| tree.search(prefix, range, component, limit, site.backwards));
    load_column(site, found, prefix.len(), registers);
}

/// Loads the column that the operation is to give: in a key's rest, it lies behind the words given.
fn load_column(site: &Site, rest: Option<&[u64]>, prefix: usize, registers: &mut Registers) {
    let Some(rest) = rest else { return load_zero(&site.keys, registers) };
    for out in &site.keys {
        let out = Out { from: out.from - prefix as u16, ..*out };
        load(&[out], rest, registers);
    }
}

/// Begins a loop over the entries of a map or a slice.
#[inline(never)]
pub fn start(site: &Site, registers: &mut Registers, maps: &Maps) {
    let map = &maps.all[usize::from(site.map)];
    let given = registers.words(site.key, site.key_words);
    let position = match (&map.structure, site.slice) {
        (MapStructure::Hash(hash), Some(slice)) => {
            let [chunk, left] = hash.start(usize::from(slice), given).words();
            [chunk, left, 0, 0]
        }
        (MapStructure::Hash(_), None) => [0; 4],
        (MapStructure::Ordered(tree, _), _) => {
            let (prefix, given) = given.split_at(map.prefix_words.min(given.len()));
            tree.start(prefix, &Bounds::within(given).low).words()
        }
    };
    registers.words_mut(site.position, POSITION_WORDS).copy_from_slice(&position);
}

/// Loads the loop's next entry; false at the end.
#[inline(never)]
pub fn next(site: &Site, registers: &mut Registers, maps: &Maps) -> bool {
    let map = &maps.all[usize::from(site.map)];
    let at = |word: u16| registers.get(site.position + word);
    let mut ordered_key = [0; ORDERED_KEY_WORDS_MAX];
    let mut words = [at(0), at(1), at(2), at(3)];
    let (key, payload) = loop {
        let entry = match (&map.structure, site.slice) {
            (MapStructure::Hash(hash), Some(_)) => {
                let mut position = SlicePosition::of([words[0], words[1]]);
                let entry = hash.step(&mut position);
                [words[0], words[1]] = position.words();
                entry
            }
            (MapStructure::Hash(hash), None) => {
                hash.next(words[0] as usize).map(|(position, key, value)| {
                    words[0] = position as u64;
                    (key, value)
                })
            }
            (MapStructure::Ordered(tree, _), _) => {
                let mut position = OrderedPosition::of(words);
                let payload = tree.step(&mut position, &mut ordered_key);
                words = position.words();
                let prefix = registers.words(site.key, site.key_words);
                let Some(payload) = payload else { return false };
                if ordered_key[..site.key_words] != *prefix {
                    return false;
                }
                // Entries of sorted maps are never zero: the stamps lie elsewhere.
                break (&ordered_key[..], payload);
            }
        };
        let Some((key, payload)) = entry else { return false };
        // Zero entries are skipped: they are kept for a watch, or belong to a map without a key.
        if !is_zero(&payload[..map.sums.words()]) {
            break (key, payload);
        }
    };
    registers.words_mut(site.position, POSITION_WORDS).copy_from_slice(&words);
    load(&site.keys, key, registers);
    load(&site.outs, payload, registers);
    true
}

/// Notes the rows of a group before it changes, for watches whose rows depend on other maps as
/// well.
#[cold]
fn note_rows(
    site: &Site,
    registers: &Registers,
    maps: &mut Maps,
    env: &mut Environment,
) -> Result<(), ApplyError> {
    let map = usize::from(site.map);
    let words = maps.all[map].sums.words();
    if is_zero(registers.words(site.value, words)) {
        return Ok(());
    }
    note_rows_of(map, registers.words(site.key, site.key_words), maps, env)
}

fn note_rows_of(
    map: usize,
    key: &[u64],
    maps: &mut Maps,
    env: &mut Environment,
) -> Result<(), ApplyError> {
    for watch in maps.eager_watches(map, key) {
        let row = with_row(watch, key, None, maps, env, |maps, row| {
            maps.log_row(watch, key, row);
        });
        row?;
    }
    Ok(())
}

/// Computes the row of a group, with the payload given or else the present one, and hands it to
/// `then`.
pub fn with_row<T>(
    watch: usize,
    key: &[u64],
    payload: Option<&[u64]>,
    maps: &mut Maps,
    env: &mut Environment,
    then: impl FnOnce(&mut Maps, Option<&[u64]>) -> T,
) -> Result<T, ApplyError> {
    let mut row = maps.watches[watch].row.take().expect("rows do not need themselves");
    let RowMaker { code, registers } = &mut *row;
    load(&code.keys, key, registers);
    match payload.or_else(|| maps.all[maps.watches[watch].map].payload(key)) {
        Some(payload) => load(&code.payload, payload, registers),
        None => load_zero(&code.payload, registers),
    }
    let result = run(&code.code, registers, maps, env).map(|()| {
        let exists = registers.get(code.exists) == 1;
        then(maps, exists.then(|| registers.words(code.row, code.row_words)))
    });
    maps.watches[watch].row = Some(row);
    result
}

/// Zeroes all entries of a map; each change is journalled and noted for the watches.
#[inline(never)]
pub fn clear(map: usize, maps: &mut Maps, env: &mut Environment) -> Result<(), ApplyError> {
    if !maps.is_eager(map) && maps.clear_single(map) {
        return Ok(());
    }
    let mut entries: Vec<(Vec<u64>, Vec<u64>)> = Vec::new();
    let sums = maps.all[map].sums.clone();
    maps.for_each_entry(map, &mut |key, payload| {
        let mut delta = payload.to_vec();
        delta.fill(0);
        sums.deduct(&mut delta, payload);
        entries.push((key.to_vec(), delta));
    });
    for (key, delta) in entries {
        if maps.is_eager(map) {
            note_rows_of(map, &key, maps, env)?;
        }
        maps.add(map, &key, &delta, true)?;
    }
    Ok(())
}
