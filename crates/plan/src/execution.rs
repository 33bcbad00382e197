//! Functions of the execution: their values are known when a statement runs, not when it is
//! planned.
//!
//! [`FUNCTIONS`] has one row per function; to add one, add a row. During planning these functions
//! are known by name and refuse to be evaluated, so that nothing folds them into a plan that
//! outlives the statement. At run time, [`bind_call`] puts in the value, or a function that carries
//! the session: in analytical plans before they are made physical, in point plans per call,
//! functions of the clock without a call (`reading`). Views refuse them, because their value
//! changes while no row does.
//!
//! The guide's page docs/guide/functions.md lists them from this table.

use std::sync::Arc;

use arrow::array::Int64Array;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use halcyon_store::ValueRef;
use halcyon_value::calendar::{day_of, time_of};

use crate::env::{Clock, Env};
use halcyon_catalog::{Privilege, Relation, Sequence, temporary};
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{shown_type, to_scalar, value_at};

/// A function of the execution.
pub struct Function {
    /// Names of the function.
    pub names: &'static [&'static str],
    /// The type of its result.
    pub gives: SqlType,
    /// Purpose of the function: one sentence, for the guide.
    pub purpose: &'static str,
    /// Source of its value.
    pub answer: Answer,
}

/// The source of a function's value.
#[derive(Clone, Copy)]
pub enum Answer {
    /// A clock, shown in the function's type in the session's zone.
    Clock(Reading),
    /// The session and the catalog.
    Session(fn(&Env<'_>) -> ScalarValue),
    /// A sequence: each call has a value and effects of its own.
    Sequence(Step),
}

/// Functions that wait: for time to pass, or for other sessions.
const WAITING: [&str; 5] = [
    "pg_sleep",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
];

/// Functions that measure tables. A task may not wait for the writers of a table, so an execution takes the tables as
/// they are when it begins ([`crate::system_names::SystemSchemas::measuring_now`]).
const MEASURING: [&str; 6] = [
    "pg_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_total_relation_size",
    "pg_database_size",
    "pg_tablespace_size",
];

/// Whether a function waits: no task may call it.
pub fn waits(name: &str) -> bool {
    WAITING.contains(&name)
}

/// Whether a function measures tables.
pub fn measures(name: &str) -> bool {
    MEASURING.contains(&name)
}

/// The effect of a function of sequences on its arguments.
pub type Step = fn(&BoundSequence, &[ValueRef<'_>]) -> halcyon_sql::error::Result<Option<i64>>;

/// The moment that a function of the clock returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Begin of the transaction.
    Transaction,
    /// Begin of the statement.
    Statement,
    /// The time at which the call is evaluated.
    Now,
}

impl Reading {
    /// The moment, in microseconds since 1970-01-01 UTC.
    pub fn us(self, clock: &Clock) -> i64 {
        match self {
            Reading::Transaction => clock.transaction_us(),
            Reading::Statement => clock.statement_us(),
            Reading::Now => halcyon_base::clock::wall_us(),
        }
    }

    /// The name of the function in EXPLAIN.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Transaction => "now",
            Reading::Statement => "statement_timestamp",
            Reading::Now => "clock_timestamp",
        }
    }
}

/// All functions of the execution.
pub static FUNCTIONS: &[Function] = &[
    Function {
        names: &["now", "current_timestamp", "transaction_timestamp"],
        gives: SqlType::TimestampTz,
        purpose: "When the transaction began.",
        answer: Answer::Clock(Reading::Transaction),
    },
    Function {
        names: &["statement_timestamp"],
        gives: SqlType::TimestampTz,
        purpose: "When the statement began.",
        answer: Answer::Clock(Reading::Statement),
    },
    Function {
        names: &["clock_timestamp"],
        gives: SqlType::TimestampTz,
        purpose: "The moment of the call.",
        answer: Answer::Clock(Reading::Now),
    },
    Function {
        names: &["localtimestamp"],
        gives: SqlType::Timestamp,
        purpose: "When the transaction began, in the session's zone.",
        answer: Answer::Clock(Reading::Transaction),
    },
    Function {
        names: &["current_date", "today"],
        gives: SqlType::Date,
        purpose: "The day on which the transaction began, in the session's zone.",
        answer: Answer::Clock(Reading::Transaction),
    },
    Function {
        names: &["current_time", "localtime"],
        gives: SqlType::Time,
        purpose: "The time of day at which the transaction began, in the session's zone.",
        answer: Answer::Clock(Reading::Transaction),
    },
    Function {
        names: &["current_user", "user", "current_role"],
        gives: SqlType::Text,
        purpose: "The role that the session acts for, which SET ROLE changes.",
        answer: Answer::Session(|env| text(&env.session.user)),
    },
    Function {
        names: &["session_user"],
        gives: SqlType::Text,
        purpose: "The role that the session was begun for.",
        answer: Answer::Session(|env| text(&env.session.session_user)),
    },
    Function {
        names: &["current_database", "current_catalog"],
        gives: SqlType::Text,
        purpose: "The name of the database.",
        answer: Answer::Session(|env| text(&env.session.database)),
    },
    Function {
        names: &["current_schema"],
        gives: SqlType::Text,
        purpose: "The first schema of the search path that exists.",
        answer: Answer::Session(|env| {
            let session = &env.session;
            let takes_objects = |schema: &&String| {
                env.catalog.schemas.contains_key(*schema)
                    && (session.names_temporary || !temporary::is_temporary(schema))
            };
            ScalarValue::Utf8View(session.search_path.iter().find(takes_objects).cloned())
        }),
    },
    Function {
        names: &["pg_backend_pid"],
        gives: SqlType::Integer,
        purpose: "The number of the session, as `halcyon.sessions` has it.",
        answer: Answer::Session(|env| ScalarValue::Int32(Some(env.session.session_id as i32))),
    },
    Function {
        names: &["nextval"],
        gives: SqlType::BigInt,
        purpose: "The next value of the sequence of this name.",
        answer: Answer::Sequence(BoundSequence::next),
    },
    Function {
        names: &["currval"],
        gives: SqlType::BigInt,
        purpose: "The value that `nextval` gave for this sequence last, in this session.",
        answer: Answer::Sequence(BoundSequence::current),
    },
    Function {
        names: &["setval"],
        gives: SqlType::BigInt,
        purpose: "Sets a sequence to this value; with false as third argument it comes next.",
        answer: Answer::Sequence(BoundSequence::set),
    },
    Function {
        names: &["lastval"],
        gives: SqlType::BigInt,
        purpose: "The value that `nextval` gave last, of any sequence, in this session.",
        answer: Answer::Sequence(BoundSequence::last),
    },
];

fn text(text: &str) -> ScalarValue {
    ScalarValue::Utf8View(Some(text.to_owned()))
}

fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.names.contains(&name))
}

/// Whether a function's value belongs to one execution and must not be kept in a plan.
pub fn belongs_to_execution(name: &str) -> bool {
    find(name).is_some()
}

/// Whether a function returns something about the session: such functions may be called without
/// parentheses, too.
pub fn is_of_session(name: &str) -> bool {
    find(name).is_some_and(|function| matches!(function.answer, Answer::Session(_)))
}

/// The clock that a function of type TIMESTAMPTZ reads, if it does nothing else.
pub(crate) fn reading(name: &str) -> Option<Reading> {
    match find(name)? {
        Function { gives: SqlType::TimestampTz, answer: Answer::Clock(reading), .. } => {
            Some(*reading)
        }
        _ => None,
    }
}

/// Functions to be registered for planning: one for each name.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let of = |function: &'static Function| {
        let unbound = |name: &&'static str| Unbound::new(name, function);
        function.names.iter().map(unbound)
    };
    let all = FUNCTIONS.iter().flat_map(of);
    all.map(|unbound| Arc::new(ScalarUDF::new_from_impl(unbound))).collect()
}

/// A function of the execution during planning, when it has no value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unbound {
    name: &'static str,
    ty: SqlType,
    purpose: &'static str,
    signature: Signature,
}

/// As many arguments, of any types, as a function takes. A moment may have a number of digits.
fn arguments_of(name: &str, volatility: Volatility) -> Signature {
    let counts: &[usize] = match name {
        "current_timestamp" | "localtimestamp" | "current_time" | "localtime" => &[0, 1],
        "nextval" | "currval" => &[1],
        "setval" => &[2, 3],
        _ => &[0],
    };
    let one = |count: &usize| match count {
        0 => TypeSignature::Nullary,
        count => TypeSignature::Any(*count),
    };
    Signature::one_of(counts.iter().map(one).collect(), volatility)
}

impl Unbound {
    fn new(name: &'static str, function: &Function) -> Self {
        // Stable functions may be pushed down; the optimizer does not fold them, because evaluating
        // them fails during planning.
        let volatility = match function.answer {
            Answer::Clock(_) | Answer::Session(_) => Volatility::Stable,
            Answer::Sequence(_) => Volatility::Volatile,
        };
        let (ty, purpose) = (function.gives, function.purpose);
        Unbound { name, ty, purpose, signature: arguments_of(name, volatility) }
    }
}

impl ScalarUDFImpl for Unbound {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        // Of a sequence: its name or number, a value, and whether the value is one that was given out.
        let fits = types.iter().enumerate().all(|(at, ty)| match at {
            _ if ty.is_null() || matches!(ty, DataType::Utf8 | DataType::Utf8View) => true,
            0 | 1 => ty.is_integer(),
            _ => *ty == DataType::Boolean,
        });
        if !fits
            && find(self.name)
                .is_some_and(|function| matches!(function.answer, Answer::Sequence(_)))
        {
            let given: Vec<String> = types.iter().map(shown_type).collect();
            let message = format!("function {}({}) does not exist", self.name, given.join(", "));
            return Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)));
        }
        Ok(self.ty.arrow())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(external(
            SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{}() cannot be used where nothing is executed", self.name),
            )
            .detail(format!("It gives: {}", self.purpose)),
        ))
    }
}

/// Puts values of the execution into a call. Calls of other functions stay as they are.
pub fn bind_call(call: ScalarFunction, env: &Env<'_>) -> halcyon_sql::error::Result<Expr> {
    let Some(function) = find(call.name()) else { return Ok(Expr::ScalarFunction(call)) };
    let value = match function.answer {
        Answer::Clock(reading) => moment(reading.us(&env.clock), function.gives, env)?,
        Answer::Session(value) => value(env),
        Answer::Sequence(step) => return Ok(sequence_call(call, step, env)),
    };
    Ok(Expr::Literal(value, None))
}

/// A moment in the type of a function of the clock.
fn moment(us: i64, ty: SqlType, env: &Env<'_>) -> halcyon_sql::error::Result<ScalarValue> {
    let zone = TimeZone::parse(&env.session.time_zone)?;
    let local = zone.to_local(us).unwrap_or(us);
    let value = match ty {
        SqlType::Timestamp => ValueRef::Timestamp(local),
        SqlType::Date => ValueRef::Date(day_of(local) as i32),
        SqlType::Time => ValueRef::Time(time_of(local)),
        _ => ValueRef::TimestampTz(us),
    };
    Ok(to_scalar(value, ty))
}

/// A sequence function with its session.
pub struct BoundSequence {
    name: String,
    step: Step,
    catalog: Arc<halcyon_catalog::Catalog>,
    /// The role whose rights count.
    user: String,
    search_path: Vec<String>,
    values: Arc<parking_lot::Mutex<Vec<(u32, i64)>>>,
    read_only: bool,
    signature: Signature,
}

impl std::fmt::Debug for BoundSequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for BoundSequence {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.values, &other.values)
    }
}

impl Eq for BoundSequence {}

impl std::hash::Hash for BoundSequence {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        Arc::as_ptr(&self.values).hash(state);
    }
}

fn sequence_call(call: ScalarFunction, step: Step, env: &Env<'_>) -> Expr {
    let function = BoundSequence {
        name: call.name().to_owned(),
        step,
        catalog: Arc::clone(env.catalog),
        user: env.session.user.clone(),
        search_path: env.session.search_path.clone(),
        values: Arc::clone(&env.session.sequence_values),
        read_only: env.session.read_only,
        signature: arguments_of(call.name(), Volatility::Volatile),
    };
    ScalarUDF::new_from_impl(function).call(call.args)
}

impl ScalarUDFImpl for BoundSequence {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = (0..rows).map(|row| {
            let cells: Vec<ValueRef<'_>> = arrays
                .iter()
                .map(|array| value_at(array.as_ref(), row).unwrap_or(ValueRef::Null))
                .collect();
            (self.step)(self, &cells).map_err(external)
        });
        let array: Int64Array = values.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(array)))
    }
}

impl BoundSequence {
    /// 42883: there is a function of this name, but not with these arguments.
    fn wrong(&self) -> SqlError {
        SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {} does not take these arguments", self.name),
        )
    }

    /// `nextval('name')`.
    fn next(&self, cells: &[ValueRef<'_>]) -> halcyon_sql::error::Result<Option<i64>> {
        let name = match cells {
            [ValueRef::Null, ..] => return Ok(None),
            [ValueRef::Text(name)] => name,
            _ => return Err(self.wrong()),
        };
        let sequence = self.find(name)?;
        self.require(&sequence, &[Privilege::Usage, Privilege::Update])?;
        let value = halcyon_catalog::sequence::next(&sequence, self.read_only)?;
        self.note(sequence.oid, value);
        Ok(Some(value))
    }

    /// `currval('name')`. Errors: 55000 if the session has none.
    fn current(&self, cells: &[ValueRef<'_>]) -> halcyon_sql::error::Result<Option<i64>> {
        let name = match cells {
            [ValueRef::Null, ..] => return Ok(None),
            [ValueRef::Text(name)] => name,
            _ => return Err(self.wrong()),
        };
        let sequence = self.find(name)?;
        self.require(&sequence, &[Privilege::Usage, Privilege::Select])?;
        let values = self.values.lock();
        let found = values.iter().find(|(oid, _)| *oid == sequence.oid);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "currval of sequence \"{}\" is not yet defined in this session",
                    sequence.name
                ),
            )
        })
    }

    /// `setval('name', value)`, `setval('name', value, called)`.
    fn set(&self, cells: &[ValueRef<'_>]) -> halcyon_sql::error::Result<Option<i64>> {
        let (name, value, called) = match cells {
            [ValueRef::Null, ..] | [_, ValueRef::Null, ..] => return Ok(None),
            [ValueRef::Text(name), value] => (name, value, true),
            [ValueRef::Text(name), value, ValueRef::Bool(called)] => (name, value, *called),
            _ => return Err(self.wrong()),
        };
        let value = match value {
            ValueRef::Int64(value) => *value,
            ValueRef::Int32(value) => i64::from(*value),
            _ => return Err(self.wrong()),
        };
        let sequence = self.find(name)?;
        self.require(&sequence, &[Privilege::Update])?;
        halcyon_catalog::sequence::set(&sequence, value, called, self.read_only)?;
        if called {
            self.note(sequence.oid, value);
        }
        Ok(Some(value))
    }

    /// `lastval()`. Errors: 55000 if the session has none.
    fn last(&self, cells: &[ValueRef<'_>]) -> halcyon_sql::error::Result<Option<i64>> {
        if !cells.is_empty() {
            return Err(self.wrong());
        }
        let last = self.values.lock().last().copied();
        let sequence = |oid: u32| {
            let mut relations = self.catalog.schemas.values().flat_map(|s| s.relations.values());
            relations.find_map(|relation| match relation {
                Relation::Sequence(sequence) if sequence.oid == oid => Some(sequence),
                _ => None,
            })
        };
        let Some((sequence, value)) = last.and_then(|(oid, value)| Some((sequence(oid)?, value)))
        else {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "lastval is not yet defined in this session",
            ));
        };
        self.require(sequence, &[Privilege::Usage, Privilege::Select])?;
        Ok(Some(value))
    }

    /// 42501 unless the role has one of these rights.
    fn require(&self, sequence: &Sequence, any: &[Privilege]) -> halcyon_sql::error::Result<()> {
        self.catalog.require_any_on_sequence(&self.user, sequence, any)
    }

    fn note(&self, oid: u32, value: i64) {
        let mut values = self.values.lock();
        values.retain(|(known, _)| *known != oid);
        values.push((oid, value));
    }

    fn find(&self, text: &str) -> halcyon_sql::error::Result<Arc<halcyon_catalog::Sequence>> {
        let (schema, name) = split_name(text);
        let schemas: Vec<&str> = match &schema {
            Some(schema) => vec![temporary::meant(schema, &self.search_path)],
            None => self.search_path.iter().map(String::as_str).collect(),
        };
        let found = schemas
            .into_iter()
            .find_map(|schema| self.catalog.schemas.get(schema)?.relations.get(name.as_str()));
        match found {
            Some(halcyon_catalog::Relation::Sequence(sequence)) => Ok(Arc::clone(sequence)),
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a sequence"),
            )),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{text}\" does not exist"),
            )),
        }
    }
}

/// `schema.name` in a string, with quotes where a name has them.
fn split_name(text: &str) -> (Option<String>, String) {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for c in text.chars() {
        match c {
            '"' => inside = !inside,
            '.' if !inside => parts.push(String::new()),
            c => {
                let part = parts.last_mut().expect("never empty");
                if inside { part.push(c) } else { part.extend(c.to_lowercase()) }
            }
        }
    }
    let name = parts.pop().expect("never empty");
    (parts.pop(), name)
}
