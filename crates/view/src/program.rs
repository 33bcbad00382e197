//! Trigger programs: the maintenance of a view under inserted and deleted rows, as data.
//!
//! The compiler (crate `delta`) makes a program, an executor runs it, `Display` prints it, and
//! [`Program::check`] says whether it is well-formed. DBToaster calls this form M3: per event,
//! statements over maps [koch2014, §3].
//!
//! Words: a *map* goes from a key to a *payload*, a product of counts and sums (an element of the
//! ring of [koch2014, §3.1], one component per aggregate); a key without an entry has the payload
//! zero. An *event* is one row of a relation with a weight, +1 for an insert and −1 for a delete. A
//! *derived relation* has a row per group of a map, so it changes when the map does: the old row
//! goes, the new one comes, and these are events for a trigger of its own. Everything that is not
//! linear (nested aggregates, EXISTS, DISTINCT, outer joins, MIN and MAX) is kept in this way:
//! where the calculus has a lift, a program has the border between a map and a derived relation.
//!
//! Order of one event of a base relation: its trigger's statements, one after the other; then, for
//! every derived relation in order, for every group whose row differs from before the event, the
//! trigger of that relation with the old row and −1, then with the new row and +1. The rows of
//! [`Program::output`] are the view; they trigger nothing, and the engine reports their changes.
//!
//! Values: a value is one or two 64-bit words ([`Type`]). NULL is the smallest value of its type
//! ([`NULL_INT`], [`NULL_WIDE`]) or one particular NaN ([`NULL_FLOAT_BITS`]); it compares to NULL in
//! [`Expr::Compare`], equals itself in keys, and sorts first in ordered maps. Strings are numbers
//! given out by the dictionary, decimals integers of a scale that only the
//! compiler knows, dates days and timestamps microseconds since 1970-01-01, booleans 0 and 1.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use halcyon_value::calendar::Field;
use halcyon_value::compare::Compare;
use halcyon_value::functions::Call;

/// NULL of type [`Type::Int`].
pub const NULL_INT: i64 = i64::MIN;
/// NULL of type [`Type::Wide`].
pub const NULL_WIDE: i128 = i128::MIN;
/// The bits of NULL of type [`Type::Float`]: a quiet NaN that no operation makes.
pub const NULL_FLOAT_BITS: u64 = 0x7ff8_4841_4c43_594f;

/// Digits of a decimal that fit one word.
pub const DIGITS_OF_A_WORD: u8 = 18;

/// Type of a register, of a column of a relation, or of a key column of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// 64-bit integer, one word: integers, decimals of up to 18 digits, dates, timestamps, booleans,
    /// numbers of strings.
    Int,
    /// 64-bit floating point, one word. −0 is stored as 0 in keys.
    Float,
    /// 128-bit integer, two words, the lower one first: sums, decimals of more than 18 digits.
    Wide,
}

impl Type {
    /// The type of the words that hold a value. `None`: programs have no values of that type.
    pub fn of(ty: halcyon_value::Type) -> Option<Type> {
        use halcyon_value::Type as V;
        Some(match ty {
            V::Bool | V::Int16 | V::Int32 | V::Int64 => Self::Int,
            V::Date | V::Time | V::Timestamp | V::TimestampTz | V::Text => Self::Int,
            V::Float32 | V::Float64 => Self::Float,
            V::Decimal { precision, .. } if precision > DIGITS_OF_A_WORD => Self::Wide,
            V::Decimal { .. } => Self::Int,
            V::Bytes | V::Interval | V::Uuid => return None,
        })
    }

    /// Number of 64-bit words of a value.
    pub const fn words(self) -> usize {
        match self {
            Self::Int | Self::Float => 1,
            Self::Wide => 2,
        }
    }
}

/// A component of a payload: one sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// A sum of integers in 64 bits; counts. Overflow fails the event.
    Int,
    /// A sum of integers in 128 bits. Overflow fails the event.
    Wide,
    /// A sum of floating-point numbers, kept as a 128-bit multiple of 2⁻⁴⁰: every addend is rounded
    /// by itself, so that deleting what was inserted restores the sum exactly, in any order. Reads
    /// as [`Type::Float`]; error at most 2⁻⁴¹ per addend; beyond ±2⁸⁶, NaN or infinite fails the event.
    Float,
}

impl Component {
    /// Number of 64-bit words of the sum itself, as a map stores it.
    pub const fn sum_words(self) -> usize {
        match self {
            Self::Int => 1,
            Self::Wide | Self::Float => 2,
        }
    }

    /// Type of the register that reads the component, and of the expression added to it.
    pub const fn ty(self) -> Type {
        match self {
            Self::Int => Type::Int,
            Self::Wide => Type::Wide,
            Self::Float => Type::Float,
        }
    }
}

/// A register of a trigger: an index into [`Trigger::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u16);

/// A map: an index into [`Program::maps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u16);

/// A relation: an index into [`Program::relations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationId(pub u16);

/// A slice: an index into [`MapDecl::slices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId(pub u16);

/// The program of a view: its relations, maps and triggers.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Base relations first, then derived ones, each after those that it depends on.
    pub relations: Vec<Relation>,
    /// The maps that the triggers keep.
    pub maps: Vec<MapDecl>,
    /// One per relation, at the same index; the output's is empty.
    pub triggers: Vec<Trigger>,
    /// The base relation without columns that has one row from the beginning, if the program has
    /// such a relation: view rows that do not depend on any table follow from that row
    /// ([`crate::Engine::begin`]).
    pub one_row: Option<RelationId>,
    /// The derived relation whose rows are the view.
    pub output: RelationId,
    /// Whether the last column of the output ([`Type::Int`]) is no column of the view but says how
    /// many times the view has the row; for views that keep duplicates.
    /// row is there: for views that keep duplicates.
    pub output_repeats: bool,
}

/// A relation: the source of a trigger's events.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Name of the relation, for people. For base relations: the table's or stream's name.
    pub name: String,
    /// Types of the columns of a row. A base relation has only the columns that the view needs, in
    /// the order of the table.
    pub columns: Vec<Type>,
    /// For base relations: the table's column for each of the columns.
    pub source_columns: Vec<u16>,
    /// For each column, whether it is never NULL, as the source of the events promises; further
    /// columns may be NULL.
    pub never_null: Vec<bool>,
    /// How the relation's rows follow from a map; `None` for base relations.
    pub derived: Option<Derived>,
}

/// The way in which a derived relation's rows follow from the groups of a map.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The map whose entries are the groups. Every change of an entry is noticed. Within a trigger,
    /// statements on this map stand before those on maps that `steps` read.
    pub map: MapId,
    /// Types of the registers that the expressions here use: key columns first, then the components
    /// of the payload, then the registers of `steps`.
    /// those of `steps`.
    pub registers: Vec<Type>,
    /// Look-ups beyond the group itself, for instance of the smallest key of a sorted map.
    pub steps: Vec<Step>,
    /// Whether a group has a row. Also asked of a payload of zero: a constant true gives a relation
    /// that has a row for every key (an aggregate without GROUP BY, a scalar subquery).
    pub exists: Expr,
    /// The values of the row.
    pub row: Vec<Expr>,
}

/// The declaration of a map: key, payload, and the ways in which it is asked.
#[derive(Clone, Debug)]
pub struct MapDecl {
    /// Name of the map, for people.
    pub name: String,
    /// The query in the calculus that the map materialises, for people and tests.
    pub definition: String,
    /// Types of the key's columns; none for a single value.
    pub key: Vec<Type>,
    /// The components. An entry goes when all of them are zero ([`Component::Float`]: below 2⁻²⁰).
    pub payload: Vec<Component>,
    /// Whether the map is sorted by its key, with sums over ranges: for [`Step::RangeSum`],
    /// [`Step::Edge`],
    /// [`Step::Search`] and [`Step::Each`] over leading columns.
    pub ordered: bool,
    /// Sets of key columns by whose values entries can be enumerated ([`Step::Each`]); for unordered
    /// maps. Ascending, none empty or whole.
    pub slices: Vec<Vec<u16>>,
}

/// The statements that an event of one relation runs. Registers `0..n` hold the row, register `n` the weight
/// ([`Type::Int`]).
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    /// Types of all registers, the row's and the weight included.
    pub registers: Vec<Type>,
    /// Statements in the order in which they run; each sees what those before it have done.
    pub statements: Vec<Statement>,
}

/// A statement: for every binding that its steps make, it adds to one entry of its target.
///
/// The steps never read the target itself, not even with `replace` set.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What the statement computes, in the calculus; for people.
    pub comment: String,
    /// Steps that make the bindings, nested from left to right.
    pub steps: Vec<Step>,
    /// The map that changes.
    pub target: MapId,
    /// The entry's key: a value per key column.
    pub key: Vec<Expr>,
    /// The addends, a value per component. NULL adds nothing.
    pub add: Vec<Expr>,
    /// Whether every entry of the target is set to zero first, so that the statement evaluates its
    /// map anew.
    pub replace: bool,
}

/// One step of a nested loop: binds registers for the steps after it, or ends the binding.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Gives a register a value.
    Let {
        /// The register.
        reg: Reg,
        /// Value of the register.
        value: Expr,
    },
    /// Goes on only if the condition is true (neither false nor NULL).
    If(Expr),
    /// The payload under one key; zero if there is no entry.
    Get {
        /// The map.
        map: MapId,
        /// A value per key column.
        key: Vec<Expr>,
        /// Registers for some components.
        payload: Vec<(u16, Reg)>,
    },
    /// Every entry whose columns of the slice have the given values; once per entry.
    Each {
        /// The map.
        map: MapId,
        /// The slice whose columns are given. `None`: leading columns of a sorted map, or none at
        /// all.
        slice: Option<SliceId>,
        /// A value per column given.
        prefix: Vec<Expr>,
        /// Registers for some of the key's columns.
        key: Vec<(u16, Reg)>,
        /// Registers for some components.
        payload: Vec<(u16, Reg)>,
    },
    /// Sums over the entries of a sorted map whose leading columns equal `prefix` and whose next
    /// column lies between the bounds. O(log n).
    RangeSum {
        /// The map.
        map: MapId,
        /// Values of the leading columns.
        prefix: Vec<Expr>,
        /// Lower bound of the next column.
        low: Bound,
        /// Upper bound of the next column.
        high: Bound,
        /// Registers for some components' sums.
        payload: Vec<(u16, Reg)>,
    },
    /// The first or last entry of a sorted map with the given leading columns. O(log n).
    Edge {
        /// The map.
        map: MapId,
        /// Values of the leading columns.
        prefix: Vec<Expr>,
        /// The last instead of the first.
        last: bool,
        /// The entry's next column must not be NULL (MIN and MAX ignore NULLs).
        skip_null: bool,
        /// Register for the next column; NULL if there is no such entry.
        key: Reg,
    },
    /// In a sorted map, among the entries with the given leading columns, in ascending (or
    /// descending) order of the next column: the first at which the sum of `component` over all
    /// entries up to and including it exceeds `limit`; the component must be nowhere negative.
    /// O(log n).
    Search {
        /// The map.
        map: MapId,
        /// Values of the leading columns.
        prefix: Vec<Expr>,
        /// From the last entry to the first.
        descending: bool,
        /// The component that is summed.
        component: u16,
        /// The sum to exceed, of the component's type.
        limit: Expr,
        /// Register for the next column there; NULL if the sum never exceeds the limit.
        key: Reg,
    },
    /// Sums over all bindings of inner steps: a nested aggregate evaluated on the spot. NULLs add
    /// nothing; the sum over no binding is zero. Floating-point terms are summed exactly, as in
    /// [`Component::Float`], so that the order of the bindings does not matter.
    Sum {
        /// Inner steps; their registers are not visible outside.
        steps: Vec<Step>,
        /// The summands, and the registers for their sums.
        terms: Vec<(Expr, Reg)>,
    },
}

/// A bound of a range.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// No bound; a lower side without a bound still leaves NULLs out.
    Open,
    /// The value is the last one of the range. A NULL value makes the range empty.
    Included(Expr),
    /// The range ends before the value. A NULL value makes the range empty.
    Excluded(Expr),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// =
    Eq,
    /// <>
    Ne,
    /// <
    Lt,
    /// <=
    Le,
    /// >
    Gt,
    /// >=
    Ge,
}

impl CompareOp {
    /// The operator with its operands exchanged.
    pub fn mirrored(self) -> CompareOp {
        Compare::from(self).flipped().into()
    }

    /// The operator that is true where this one is false.
    pub fn opposite(self) -> CompareOp {
        Compare::from(self).opposite().into()
    }

    /// The operator between days, given that midnights compare so with a moment; see
    /// [`Compare::of_days`].
    pub fn of_days(self, is_midnight: bool) -> Option<CompareOp> {
        Compare::from(self).of_days(is_midnight).map(CompareOp::from)
    }
}

impl From<CompareOp> for Compare {
    #[inline(always)]
    fn from(op: CompareOp) -> Compare {
        match op {
            CompareOp::Eq => Compare::Eq,
            CompareOp::Ne => Compare::NotEq,
            CompareOp::Lt => Compare::Lt,
            CompareOp::Le => Compare::LtEq,
            CompareOp::Gt => Compare::Gt,
            CompareOp::Ge => Compare::GtEq,
        }
    }
}

impl From<Compare> for CompareOp {
    fn from(op: Compare) -> CompareOp {
        match op {
            Compare::Eq => CompareOp::Eq,
            Compare::NotEq => CompareOp::Ne,
            Compare::Lt => CompareOp::Lt,
            Compare::LtEq => CompareOp::Le,
            Compare::Gt => CompareOp::Gt,
            Compare::GtEq => CompareOp::Ge,
        }
    }
}

/// A binary operation on two values of one type, with a result of that type. NULL if either is
/// NULL.
/// Overflow, and division by zero, fail the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// +
    Add,
    /// −
    Sub,
    /// ×
    Mul,
    /// Division; of integers towards zero.
    Div,
    /// Division of integers, rounded half away from zero (decimals).
    DivRound,
    /// Remainder, with the dividend's sign.
    Rem,
}

/// The values of a narrower SQL type, whose words could hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberRange {
    /// Signed integers of this many bits, 1 to 64.
    Bits(u8),
    /// Decimals of this many digits, 1 to 38, at any scale.
    Digits(u8),
}

/// A part of a date (days) or of a timestamp (microseconds); proleptic Gregorian, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatePart {
    /// The year.
    Year,
    /// The month, 1 to 12.
    Month,
    /// The day of the month, 1 to 31.
    Day,
    /// The quarter, 1 to 4.
    Quarter,
    /// The day of the week; Sunday is 0.
    DayOfWeek,
    /// The day of the year, from 1.
    DayOfYear,
}

impl From<DatePart> for Field {
    #[inline]
    fn from(part: DatePart) -> Field {
        match part {
            DatePart::Year => Field::Year,
            DatePart::Month => Field::Month,
            DatePart::Day => Field::Day,
            DatePart::Quarter => Field::Quarter,
            DatePart::DayOfWeek => Field::DayOfWeek,
            DatePart::DayOfYear => Field::DayOfYear,
        }
    }
}

/// A scalar expression over registers. Types are as stated; [`Program::check`] verifies them.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A register.
    Reg(Reg),
    /// A constant [`Type::Int`]; [`NULL_INT`] is NULL.
    Int(i64),
    /// A constant [`Type::Float`].
    Float(f64),
    /// A constant [`Type::Wide`]; [`NULL_WIDE`] is NULL.
    Wide(i128),
    /// NULL of the given type.
    Null(Type),
    /// Two operands of the given type.
    Binary(BinaryOp, Type, Box<Expr>, Box<Expr>),
    /// −x of the given type.
    Neg(Type, Box<Expr>),
    /// Compares two values of the given type as SQL does; 0, 1 or NULL.
    Compare(CompareOp, Type, Box<Expr>, Box<Expr>),
    /// Compares two strings, by their bytes; 0, 1 or NULL.
    CompareText(CompareOp, Box<Expr>, Box<Expr>),
    /// Whether a value of the given type is NULL: 0 or 1.
    IsNull(Type, Box<Expr>),
    /// SQL's AND over conditions ([`Type::Int`]). Stops at the first that is false; in
    /// [`Step::If`], at the first that is not true.
    And(Vec<Expr>),
    /// SQL's OR over conditions. Stops at the first that is true.
    Or(Vec<Expr>),
    /// SQL's NOT.
    Not(Box<Expr>),
    /// The value of the first condition that is true, otherwise `otherwise`; values of the given
    /// type.
    Case {
        /// Type of the values.
        ty: Type,
        /// Conditions and values.
        when: Vec<(Expr, Expr)>,
        /// The value if no condition is true.
        otherwise: Box<Expr>,
    },
    /// The first value that is not NULL.
    Coalesce(Type, Vec<Expr>),
    /// Converts between types: `Int` to `Wide` and back (fails the event if it does not fit), either
    /// to `Float`, `Float` to either (rounded half to even; fails if it does not fit).
    Cast {
        /// Type of the operand.
        from: Type,
        /// Type of the result.
        to: Type,
        /// The operand.
        value: Box<Expr>,
    },
    /// Multiplies an `Int` or `Wide` by 10^`by`; if `by` is negative, divides, rounding half away
    /// from zero.
    Rescale {
        /// Type of operand and result.
        ty: Type,
        /// The power of ten.
        by: i8,
        /// The operand.
        value: Box<Expr>,
    },
    /// The operand, if it is a value of a narrower SQL type; otherwise the event fails.
    Within {
        /// Type of operand and result: `Int` or `Wide`.
        ty: Type,
        /// The values of the narrower type.
        range: NumberRange,
        /// The operand.
        value: Box<Expr>,
    },
    /// A part of a date (days).
    DatePart(DatePart, Box<Expr>),
    /// Days of a timestamp (microseconds), rounded down.
    DateOf(Box<Expr>),
    /// Whether a string matches a pattern of SQL's LIKE; escape `\`.
    Like {
        /// The string's number.
        value: Box<Expr>,
        /// The pattern.
        pattern: String,
        /// ILIKE: ASCII letters match in either case.
        ignore_case: bool,
        /// NOT LIKE.
        negated: bool,
    },
    /// A part of a string, as a string (SQL SUBSTRING; characters are Unicode scalar values).
    Substring {
        /// The string's number.
        value: Box<Expr>,
        /// First character, from 1.
        start: i64,
        /// Number of characters; `None`: to the end.
        length: Option<i64>,
    },
    /// A constant string; its number is determined when the program is loaded.
    Text(String),
    /// An immutable function of the table ([`halcyon_value::functions`]): the general operation,
    /// for functions that have no expression of their own above.
    Call {
        /// The function with the types of its arguments and of its result, all of which words can
        /// hold.
        call: Arc<Call>,
        /// Operands, in words of the arguments' types.
        args: Vec<Expr>,
    },
}
