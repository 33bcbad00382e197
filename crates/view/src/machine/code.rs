//! Code: the list of small operations, on registers of one word, that a trigger is compiled to.
//!
//! Constants lie in registers, too, set once when the code is loaded, so that every operation has
//! the same form. The operands of operations on maps ([`Site`]) are words side by side. Register
//! numbers are taken modulo the size of the register file, which makes every access valid without a
//! check of bounds.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use halcyon_value::functions::Call;
use halcyon_value::like::Pattern;

use crate::program::{BinaryOp, CompareOp, DatePart, NULL_INT, NumberRange, Type};

/// Registers of one piece of code, in words.
pub const REGISTERS: usize = 4096;

/// Words in which a loop over a map keeps its position.
pub const POSITION_WORDS: usize = 4;

/// A register: one word.
pub type R = u16;

/// A jump's target: a label while compiling, an index into [`Code::ops`] afterwards.
pub type Target = u32;

/// Values of the registers.
#[derive(Clone, Debug)]
pub struct Registers(Box<[u64; REGISTERS]>);

impl Registers {
    /// Makes a register file with the constants in their places.
    pub fn new(constants: &[(R, u64)]) -> Self {
        let words = vec![0; REGISTERS].into_boxed_slice();
        let mut registers = Registers(words.try_into().expect("of this length"));
        for (register, word) in constants {
            registers.set(*register, *word);
        }
        registers
    }

    /// Returns the word of a register.
    #[inline(always)]
    pub fn get(&self, register: R) -> u64 {
        self.0[usize::from(register) % REGISTERS]
    }

    /// Returns the word of a register as an integer.
    #[inline(always)]
    pub fn int(&self, register: R) -> i64 {
        self.get(register) as i64
    }

    /// Sets a word.
    #[inline(always)]
    pub fn set(&mut self, register: R, word: u64) {
        self.0[usize::from(register) % REGISTERS] = word;
    }

    /// All words of the register file.
    #[cfg(feature = "native")]
    #[inline(always)]
    pub fn file(&mut self) -> &mut [u64; REGISTERS] {
        &mut self.0
    }

    /// The words of `count` registers side by side.
    #[inline(always)]
    pub fn words(&self, first: R, count: usize) -> &[u64] {
        let first = usize::from(first);
        &self.0[first..first + count]
    }

    /// The words of `count` registers side by side, to be written.
    #[inline(always)]
    pub fn words_mut(&mut self, first: R, count: usize) -> &mut [u64] {
        let first = usize::from(first);
        &mut self.0[first..first + count]
    }
}

/// An operation. Register `d` is set, `a` and `b` are read. Conditional jumps jump unless their
/// condition is true.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    AddInt {
        d: R,
        a: R,
        b: R,
    },
    SubInt {
        d: R,
        a: R,
        b: R,
    },
    MulInt {
        d: R,
        a: R,
        b: R,
    },
    AddFloat {
        d: R,
        a: R,
        b: R,
    },
    SubFloat {
        d: R,
        a: R,
        b: R,
    },
    MulFloat {
        d: R,
        a: R,
        b: R,
    },
    Binary {
        op: BinaryOp,
        ty: Type,
        d: R,
        a: R,
        b: R,
    },
    Neg {
        ty: Type,
        d: R,
        a: R,
    },
    Compare {
        op: CompareOp,
        ty: Type,
        d: R,
        a: R,
        b: R,
    },
    CompareText {
        op: CompareOp,
        d: R,
        a: R,
        b: R,
    },
    /// Jumps unless the comparison holds.
    UnlessInt {
        op: CompareOp,
        a: R,
        b: R,
        to: Target,
    },
    UnlessCompare {
        op: CompareOp,
        ty: Type,
        a: R,
        b: R,
        to: Target,
    },
    /// Jumps unless all of a run of [`Code::ranges`] hold.
    UnlessWithin {
        first: u16,
        end: u16,
        to: Target,
    },
    /// Jumps unless `a` is true.
    Unless {
        a: R,
        to: Target,
    },
    Jump {
        to: Target,
    },
    /// Jumps unless `a` is NULL.
    UnlessNull {
        ty: Type,
        a: R,
        to: Target,
    },
    /// A step of AND: false decides, NULL is remembered.
    And {
        d: R,
        a: R,
        to: Target,
    },
    /// A step of OR: true decides, NULL is remembered.
    Or {
        d: R,
        a: R,
        to: Target,
    },
    Not {
        d: R,
        a: R,
    },
    IsNull {
        ty: Type,
        d: R,
        a: R,
    },
    Move {
        d: R,
        a: R,
    },
    MoveWide {
        d: R,
        a: R,
    },
    Cast {
        from: Type,
        to: Type,
        d: R,
        a: R,
    },
    Rescale {
        ty: Type,
        by: i8,
        d: R,
        a: R,
    },
    Within {
        ty: Type,
        range: NumberRange,
        d: R,
        a: R,
    },
    DatePart {
        part: DatePart,
        d: R,
        a: R,
    },
    DateOf {
        d: R,
        a: R,
    },
    Like {
        like: u16,
        d: R,
        a: R,
    },
    Substring {
        substring: u16,
        d: R,
        a: R,
    },
    Call {
        call: u16,
        d: R,
        a: R,
    },
    /// Turns NULL into zero, because NULL adds nothing to a sum.
    OrZero {
        d: R,
    },
    OrZeroWide {
        d: R,
    },
    WidenInt {
        d: R,
        a: R,
    },
    AddWide {
        d: R,
        a: R,
        b: R,
    },
    SubWide {
        d: R,
        a: R,
        b: R,
    },
    MulWide {
        d: R,
        a: R,
        b: R,
    },
    /// Product of an integer of 128 bits and one of 64.
    MulWideInt {
        d: R,
        a: R,
        b: R,
    },
    /// Product in 128 bits of two integers of 64.
    MulIntInt {
        d: R,
        a: R,
        b: R,
    },
    /// Turns a floating-point addend into the two words of an exact sum.
    ToSum {
        d: R,
        a: R,
    },
    /// Turns the two words of an exact sum into a floating-point number.
    FromSum {
        d: R,
        a: R,
    },
    /// Adds to a sum in registers; `ty` is the type of the sum's words.
    Accumulate {
        ty: Type,
        d: R,
        a: R,
    },
    /// Turns a floating-point number into the form by which keys compare.
    KeyFloat {
        d: R,
    },
    /// Turns a key's column into words that compare as unsigned numbers.
    Order {
        ty: Type,
        d: R,
        a: R,
    },
    /// Loads the payload under a key.
    Get {
        site: u16,
    },
    /// Begins a loop over a map's entries.
    Start {
        site: u16,
    },
    /// Goes to the next entry of the slice; jumps if there is none.
    Next {
        site: u16,
        to: Target,
    },
    RangeSum {
        site: u16,
    },
    Edge {
        site: u16,
    },
    Search {
        site: u16,
    },
    /// Adds to the entry of a map.
    Add {
        site: u16,
    },
    /// Zeroes all entries of a map.
    Clear {
        map: u16,
    },
    Halt,
}

impl Op {
    /// The target of the operation's jump, if the operation may jump.
    pub fn target_mut(&mut self) -> Option<&mut Target> {
        match self {
            Op::UnlessInt { to, .. }
            | Op::UnlessCompare { to, .. }
            | Op::UnlessWithin { to, .. }
            | Op::Unless { to, .. }
            | Op::Jump { to }
            | Op::UnlessNull { to, .. }
            | Op::And { to, .. }
            | Op::Or { to, .. }
            | Op::Next { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The target of a jump, to be read.
    #[cfg(feature = "native")]
    pub fn target(mut self) -> Option<Target> {
        self.target_mut().copied()
    }
}

/// A range of integers: `value − low`, as unsigned, must be at most `span`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub a: R,
    pub low: i64,
    pub span: u64,
}

impl Range {
    /// The range from `low` to `high`; `high` must not be below `low`.
    pub fn between(a: R, low: i64, high: i64) -> Range {
        Range { a, low, span: high.wrapping_sub(low) as u64 }
    }

    /// The range of the values that compare so with a constant, NULL left out. `None` if these
    /// values are not one range or are none.
    pub fn of(a: R, op: CompareOp, constant: i64) -> Option<Range> {
        let (low, high) = match op {
            _ if constant == NULL_INT => return None,
            CompareOp::Eq => (constant, constant),
            CompareOp::Ne => return None,
            CompareOp::Lt => (-i64::MAX, constant - 1),
            CompareOp::Le => (-i64::MAX, constant),
            CompareOp::Gt => (constant.checked_add(1)?, i64::MAX),
            CompareOp::Ge => (constant, i64::MAX),
        };
        (low <= high).then(|| Range::between(a, low, high))
    }

    /// The last integer of the range.
    pub fn high(&self) -> i64 {
        self.low.wrapping_add(self.span as i64)
    }

    /// Whether the range holds an integer.
    #[inline(always)]
    pub fn holds(&self, value: i64) -> bool {
        value.wrapping_sub(self.low) as u64 <= self.span
    }
}

/// A transfer of an entry's words into registers.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// First word within the key or payload.
    pub from: u16,
    /// First register.
    pub to: R,
    pub kind: OutKind,
}

/// The form in which a transfer reads an entry's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutKind {
    One,
    Two,
    /// The two words of a sum of floating-point numbers.
    Sum,
    /// A column of a sorted map's key.
    Ordered(Type),
}

/// A bound of a range of keys, its words in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Open,
    Included(R),
    Excluded(R),
}

/// The operands of an operation on a map.
#[derive(Clone, Debug)]
pub struct Site {
    pub map: u16,
    /// First word of the key, the prefix or the slice's values, and the number of words.
    pub key: R,
    pub key_words: usize,
    /// Number of words of the key column behind the prefix.
    pub column_words: usize,
    pub low: Limit,
    pub high: Limit,
    /// Where a loop keeps its position, of [`POSITION_WORDS`] words.
    pub position: R,
    pub slice: Option<u16>,
    /// [`Op::Add`]: first word of the addend. [`Op::Search`]: first word of the limit.
    pub value: R,
    /// [`Op::Search`]: the component to sum, and the limit's type.
    pub component: u16,
    pub limit_type: Type,
    /// [`Op::Search`]: in descending order. [`Op::Edge`]: the last entry.
    pub backwards: bool,
    pub skip_null: bool,
    /// [`Op::Add`]: something may fail after this addition within the event, so the journal takes
    /// the entry down.
    pub journal: bool,
    /// [`Op::Add`]: something may fail after this addition within the event, and the registers hold
    /// enough to take it back; this is its bit of [`super::maps::Maps::done`]. Zero: needs no bit.
    pub undo: u64,
    pub keys: Vec<Out>,
    pub outs: Vec<Out>,
}

impl Site {
    /// Makes the operands of an operation on a map, all but the map itself still to be set.
    pub fn new(map: u16) -> Self {
        Site {
            map,
            key: 0,
            key_words: 0,
            column_words: 0,
            low: Limit::Open,
            high: Limit::Open,
            position: 0,
            slice: None,
            value: 0,
            component: 0,
            limit_type: Type::Int,
            backwards: false,
            skip_null: false,
            journal: true,
            undo: 0,
            keys: Vec::new(),
            outs: Vec::new(),
        }
    }
}

/// A LIKE. Its results are kept by the string's number, so that each string is matched once.
#[derive(Clone, Debug)]
pub struct Like {
    pub pattern: Pattern,
    pub negated: bool,
}

/// A call of a function.
#[derive(Clone, Debug)]
pub struct Called {
    pub call: Arc<Call>,
    pub arg_words: usize,
    #[cfg_attr(not(feature = "native"), expect(dead_code, reason = "machine code asks"))]
    pub result_words: usize,
}

/// The code of a trigger, or of a derived relation's row.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub ops: Vec<Op>,
    pub sites: Vec<Site>,
    pub ranges: Vec<Range>,
    pub likes: Vec<Like>,
    pub substrings: Vec<(i64, Option<i64>)>,
    pub calls: Vec<Called>,
    /// The site of each bit of [`Site::undo`].
    pub undos: Vec<u16>,
}

// An operation takes at most half a cache line.
const _: () = assert!(size_of::<Op>() <= 16);
