//! The interpreter: the reference executor, which runs a program as it stands over plain sorted maps.
//!
//! Nothing here is clever: every loop over a map visits all its entries, sums are added up entry by
//! entry. The quick executor ([`crate::machine`]) is compared to this one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

use crate::error::{ApplyError, EvalError};
use crate::eval::{eval, is_true};
use crate::program::{
    Bound, Component, Derived, Expr, MapDecl, MapId, Program, Reg, RelationId, Statement, Step,
    Type,
};
use crate::scalar::{
    SUM_ZERO_BELOW, float_limit, float_to_sum, int_to_wide, sum_to_float, wide_to_int,
};
use crate::value::{Environment, Report, Value};

/// A key, its words in the order of [`Value::put_ordered`].
type Key = Vec<u64>;
/// Sums of the components, in the widest integer for all of them.
type Payload = Vec<i128>;
type Result<T = ()> = core::result::Result<T, ApplyError>;

/// The continuation of a loop: called for each binding.
type Then<'a> =
    dyn FnMut(&mut [Value], &mut Environment) -> core::result::Result<(), EvalError> + 'a;

/// A view under the interpreter: its maps, logs and journal.
pub struct Interpreter {
    maps: Vec<BTreeMap<Key, Payload>>,
    /// For sorted maps, by map and component: the sum of the absolute values of all entries. This
    /// sum must fit the component, so that the sum over any range does.
    magnitudes: Vec<Vec<u128>>,
    /// A log per relation; the logs of base relations stay empty.
    logs: Vec<Log>,
    /// Payloads that entries had before the event changed them, in the order of the changes.
    journal: Vec<(usize, Key, Payload)>,
    /// Steps that have run so far: see [`crate::Engine::operations`].
    operations: Cell<u64>,
}

/// The groups of a derived relation that events have touched since the last report.
#[derive(Default)]
struct Log {
    touched: BTreeSet<Key>,
    rows: Vec<(Key, Before)>,
}

/// A group as it was before it was touched.
enum Before {
    /// The group's payload, from which the row can be computed later.
    Payload(Payload),
    /// The group's row, computed at once because it depends on other maps as well.
    Row(Option<Vec<u64>>),
}

impl Interpreter {
    /// An interpreter with empty maps.
    pub fn new(program: &Program) -> Self {
        let log = |_| Log::default();
        Interpreter {
            maps: vec![BTreeMap::new(); program.maps.len()],
            magnitudes: program.maps.iter().map(|map| vec![0; map.payload.len()]).collect(),
            logs: program.relations.iter().map(log).collect(),
            journal: Vec::new(),
            operations: Cell::new(0),
        }
    }

    /// Steps that have run.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Applies one event, with all that derives from it. On an error nothing has changed.
    pub fn apply(
        &mut self,
        program: &Program,
        env: &mut Environment,
        relation: RelationId,
        row: &[u64],
        weight: i64,
    ) -> Result {
        let result = self.event(program, env, usize::from(relation.0), row, weight);
        if result.is_err() {
            while let Some((map, key, payload)) = self.journal.pop() {
                self.set(program, map, key, payload);
            }
            for (index, log) in self.logs.iter_mut().enumerate() {
                if index != usize::from(program.output.0) {
                    *log = Log::default();
                }
            }
        }
        self.journal.clear();
        result
    }

    fn event(
        &mut self,
        program: &Program,
        env: &mut Environment,
        relation: usize,
        row: &[u64],
        weight: i64,
    ) -> Result {
        self.trigger(program, env, relation, row, weight)?;
        for (index, declared) in program.relations.iter().enumerate() {
            let Some(derived) = &declared.derived else { continue };
            if index == usize::from(program.output.0) {
                continue;
            }
            for (key, before) in core::mem::take(&mut self.logs[index]).rows {
                if self.is_as_before(program, derived, &key, &before) {
                    continue;
                }
                let old = self.row_before(program, env, derived, &key, &before)?;
                let new = self.row(program, env, derived, &key)?;
                if old == new {
                    continue;
                }
                for (row, weight) in [(old, -1), (new, 1)] {
                    if let Some(row) = row {
                        self.trigger(program, env, index, &row, weight)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs the statements of one relation's trigger.
    fn trigger(
        &mut self,
        program: &Program,
        env: &mut Environment,
        relation: usize,
        mut row: &[u64],
        weight: i64,
    ) -> Result {
        let trigger = &program.triggers[relation];
        let mut registers: Vec<Value> =
            trigger.registers.iter().map(|ty| Value::null(*ty)).collect();
        if registers.is_empty() {
            return Ok(());
        }
        let columns = &program.relations[relation].columns;
        for (register, ty) in registers.iter_mut().zip(columns) {
            *register = Value::take(*ty, &mut row);
        }
        registers[columns.len()] = Value::Int(weight);
        for statement in &trigger.statements {
            self.statement(program, env, statement, &mut registers)?;
        }
        Ok(())
    }

    /// Runs one statement. Its steps never read the target, so all bindings are found before the
    /// first addition.
    fn statement(
        &mut self,
        program: &Program,
        env: &mut Environment,
        statement: &Statement,
        registers: &mut [Value],
    ) -> Result {
        let target = usize::from(statement.target.0);
        let components = &program.maps[target].payload;
        let mut adds = Vec::new();
        let mut bound = |registers: &mut [Value], env: &mut Environment| {
            let key = ordered_key(&statement.key, registers, env)?;
            let add = statement.add.iter().map(|add| addend(eval(add, registers, env)?));
            adds.push((key, add.collect::<core::result::Result<Payload, _>>()?));
            Ok(())
        };
        self.steps(program, env, &statement.steps, registers, &mut bound)?;
        if statement.replace {
            let keys: Vec<Key> = self.maps[target].keys().cloned().collect();
            for key in keys {
                self.change(program, env, target, key, vec![0; components.len()])?;
            }
        }
        for (key, add) in adds {
            if add.iter().all(|add| *add == 0) {
                continue;
            }
            let mut payload = self.payload(program, target, &key);
            for ((sum, add), component) in payload.iter_mut().zip(add).zip(components) {
                let value = sum.checked_add(add).ok_or(EvalError::Overflow)?;
                if *component == Component::Int {
                    wide_to_int(value)?;
                }
                *sum = value;
            }
            self.change(program, env, target, key, payload)?;
        }
        Ok(())
    }

    fn steps(
        &self,
        program: &Program,
        env: &mut Environment,
        steps: &[Step],
        registers: &mut [Value],
        bound: &mut Then<'_>,
    ) -> core::result::Result<(), EvalError> {
        self.operations.set(self.operations.get() + 1);
        let Some((step, rest)) = steps.split_first() else { return bound(registers, env) };
        let set = |registers: &mut [Value], reg: &Reg, value| registers[usize::from(reg.0)] = value;
        match step {
            Step::Let { reg, value } => {
                let value = eval(value, registers, env)?;
                set(registers, reg, value);
            }
            Step::If(condition) => {
                if !is_true(condition, registers, env)? {
                    return Ok(());
                }
            }
            Step::Get { map, key, payload } => {
                let key = ordered_key(key, registers, env)?;
                let found = self.payload(program, usize::from(map.0), &key);
                set_payload(registers, decl(program, *map), payload, &found);
            }
            Step::Each { map, slice, prefix, key, payload } => {
                let declared = decl(program, *map);
                let columns: Vec<u16> = match slice {
                    Some(slice) => declared.slices[usize::from(slice.0)].clone(),
                    None => (0..prefix.len() as u16).collect(),
                };
                let given = ordered_key(prefix, registers, env)?;
                for (entry, found) in &self.maps[usize::from(map.0)] {
                    if columns_of(declared, entry, &columns) != given {
                        continue;
                    }
                    for (column, reg) in key {
                        let words = columns_of(declared, entry, &[*column]);
                        let ty = declared.key[usize::from(*column)];
                        set(registers, reg, Value::take_ordered(ty, &mut &words[..]));
                    }
                    set_payload(registers, declared, payload, found);
                    self.steps(program, env, rest, registers, bound)?;
                }
                return Ok(());
            }
            Step::RangeSum { map, prefix, low, high, payload } => {
                let declared = decl(program, *map);
                let prefix = ordered_key(prefix, registers, env)?;
                let low = bound_words(low, registers, env)?;
                let high = bound_words(high, registers, env)?;
                let mut sums = vec![0; declared.payload.len()];
                for (entry, found) in self.within(*map, &prefix) {
                    let next = next_column(declared, entry, &prefix);
                    if is_null_key(next) || !low.above(next) || !high.below(next) {
                        continue;
                    }
                    for (sum, found) in sums.iter_mut().zip(found) {
                        *sum += found;
                    }
                }
                for (sum, component) in sums.iter().zip(&declared.payload) {
                    if *component == Component::Int {
                        wide_to_int(*sum)?;
                    }
                }
                set_payload(registers, declared, payload, &sums);
            }
            Step::Edge { map, prefix, last, skip_null, key } => {
                let declared = decl(program, *map);
                let column = declared.key[prefix.len()];
                let prefix = ordered_key(prefix, registers, env)?;
                let entries = self.within(*map, &prefix).map(|(entry, _)| entry);
                let mut found = entries
                    .map(|entry| next_column(declared, entry, &prefix))
                    .filter(|next| !(*skip_null && is_null_key(next)));
                let found = if *last { found.last() } else { found.next() };
                set(registers, key, key_value(column, found));
            }
            Step::Search { map, prefix, descending, component, limit, key } => {
                let declared = decl(program, *map);
                let column = declared.key[prefix.len()];
                let prefix = ordered_key(prefix, registers, env)?;
                let limit = eval(limit, registers, env)?;
                let mut entries: Vec<_> = self.within(*map, &prefix).collect();
                if *descending {
                    entries.reverse();
                }
                let mut sum = 0;
                let found = entries.iter().find(|(_, found)| {
                    sum += found[usize::from(*component)];
                    exceeds(sum, limit)
                });
                let found = found.map(|(entry, _)| next_column(declared, entry, &prefix));
                set(registers, key, key_value(column, found));
            }
            Step::Sum { steps, terms } => {
                let mut sums = vec![0_i128; terms.len()];
                let mut inner = |registers: &mut [Value], env: &mut Environment| {
                    for (sum, (term, _)) in sums.iter_mut().zip(terms) {
                        let add = addend(eval(term, registers, env)?)?;
                        *sum = sum.checked_add(add).ok_or(EvalError::Overflow)?;
                    }
                    Ok(())
                };
                self.steps(program, env, steps, registers, &mut inner)?;
                for (sum, (_, reg)) in sums.iter().zip(terms) {
                    let value = match registers[usize::from(reg.0)] {
                        Value::Int(_) => Value::Int(wide_to_int(*sum)?),
                        Value::Float(_) => Value::Float(sum_to_float(*sum)),
                        Value::Wide(_) => Value::Wide(*sum),
                    };
                    set(registers, reg, value);
                }
            }
        }
        self.steps(program, env, rest, registers, bound)
    }

    /// Entries of a map whose keys start with a prefix.
    fn within<'a>(
        &'a self,
        map: MapId,
        prefix: &'a [u64],
    ) -> impl Iterator<Item = (&'a Key, &'a Payload)> {
        self.maps[usize::from(map.0)].iter().filter(move |(entry, _)| entry.starts_with(prefix))
    }

    fn payload(&self, program: &Program, map: usize, key: &Key) -> Payload {
        let zero = || vec![0; program.maps[map].payload.len()];
        self.maps[map].get(key).cloned().unwrap_or_else(zero)
    }

    /// Sets an entry, having noted the old payload for its watches and for the journal.
    fn change(
        &mut self,
        program: &Program,
        env: &mut Environment,
        map: usize,
        key: Key,
        payload: Payload,
    ) -> Result {
        for (index, relation) in program.relations.iter().enumerate() {
            let Some(derived) = &relation.derived else { continue };
            if usize::from(derived.map.0) == map && !self.logs[index].touched.contains(&key) {
                let before = if derived.steps.is_empty() {
                    Before::Payload(self.payload(program, map, &key))
                } else {
                    Before::Row(self.row(program, env, derived, &key)?)
                };
                self.logs[index].touched.insert(key.clone());
                self.logs[index].rows.push((key.clone(), before));
            }
        }
        let old = self.payload(program, map, &key);
        if program.maps[map].ordered {
            let declared = &program.maps[map];
            let each = self.magnitudes[map].iter().zip(&old).zip(&payload).zip(&declared.payload);
            for (((magnitude, old), new), component) in each {
                let sum = (magnitude - old.unsigned_abs()).saturating_add(new.unsigned_abs());
                let limit = match component {
                    Component::Int => i64::MAX as u128,
                    Component::Wide | Component::Float => i128::MAX as u128,
                };
                if sum > limit {
                    return Err(EvalError::Overflow.into());
                }
            }
        }
        self.journal.push((map, key.clone(), old));
        self.set(program, map, key, payload);
        Ok(())
    }

    fn set(&mut self, program: &Program, map: usize, key: Key, mut payload: Payload) {
        let zero = |(sum, component): (&i128, &Component)| match component {
            Component::Float => sum.unsigned_abs() < SUM_ZERO_BELOW,
            Component::Int | Component::Wide => *sum == 0,
        };
        let is_zero = payload.iter().zip(&program.maps[map].payload).all(zero);
        if is_zero {
            payload.fill(0);
        }
        if program.maps[map].ordered {
            let old = self.payload(program, map, &key);
            for ((magnitude, old), new) in self.magnitudes[map].iter_mut().zip(old).zip(&payload) {
                *magnitude = *magnitude - old.unsigned_abs() + new.unsigned_abs();
            }
        }
        if is_zero {
            self.maps[map].remove(&key);
        } else {
            self.maps[map].insert(key, payload);
        }
    }

    /// Returns the row of a group, if the group has one.
    fn row(
        &self,
        program: &Program,
        env: &mut Environment,
        derived: &Derived,
        key: &Key,
    ) -> core::result::Result<Option<Vec<u64>>, EvalError> {
        let payload = self.payload(program, usize::from(derived.map.0), key);
        self.row_of(program, env, derived, key, &payload)
    }

    /// Returns the row that a group had before it was touched.
    fn row_before(
        &self,
        program: &Program,
        env: &mut Environment,
        derived: &Derived,
        key: &Key,
        before: &Before,
    ) -> core::result::Result<Option<Vec<u64>>, EvalError> {
        match before {
            Before::Row(row) => Ok(row.clone()),
            Before::Payload(payload) => self.row_of(program, env, derived, key, payload),
        }
    }

    /// Whether a group's payload is back to what it was: then its row need not be computed.
    fn is_as_before(
        &self,
        program: &Program,
        derived: &Derived,
        key: &Key,
        before: &Before,
    ) -> bool {
        match before {
            Before::Row(_) => false,
            Before::Payload(payload) => {
                *payload == self.payload(program, usize::from(derived.map.0), key)
            }
        }
    }

    fn row_of(
        &self,
        program: &Program,
        env: &mut Environment,
        derived: &Derived,
        key: &Key,
        payload: &Payload,
    ) -> core::result::Result<Option<Vec<u64>>, EvalError> {
        let mut registers: Vec<Value> =
            derived.registers.iter().map(|ty| Value::null(*ty)).collect();
        let declared = decl(program, derived.map);
        let mut words = &key[..];
        for (register, ty) in registers.iter_mut().zip(&declared.key) {
            *register = Value::take_ordered(*ty, &mut words);
        }
        let columns = declared.key.len() as u16;
        let all: Vec<(u16, Reg)> =
            (0..payload.len() as u16).map(|index| (index, Reg(columns + index))).collect();
        set_payload(&mut registers, declared, &all, payload);
        let mut row = None;
        let mut bound = |registers: &mut [Value], env: &mut Environment| {
            if is_true(&derived.exists, registers, env)? {
                let mut words = Vec::new();
                for value in &derived.row {
                    eval(value, registers, env)?.put(&mut words);
                }
                row = Some(words);
            }
            Ok(())
        };
        self.steps(program, env, &derived.steps, &mut registers, &mut bound)?;
        Ok(row)
    }

    /// Whether some group of the output was touched since the last [`Interpreter::drain`].
    pub fn has_changes(&self, program: &Program) -> bool {
        !self.logs[usize::from(program.output.0)].rows.is_empty()
    }

    /// See [`crate::Engine::noted_groups`].
    pub fn noted_groups(&self, program: &Program) -> usize {
        self.logs[usize::from(program.output.0)].rows.len()
    }

    /// See [`crate::Engine::drain_changes`].
    pub fn drain(
        &mut self,
        program: &Program,
        env: &mut Environment,
        each: &mut Report<'_>,
    ) -> Result {
        let output = usize::from(program.output.0);
        let derived = output_of(program);
        let declared = decl(program, derived.map);
        for (key, before) in &self.logs[output].rows {
            if self.is_as_before(program, derived, key, before) {
                continue;
            }
            let old = self.row_before(program, env, derived, key, before)?;
            let new = self.row(program, env, derived, key)?;
            if old != new {
                each(&plain_key(declared, key), old.as_deref(), new.as_deref());
            }
        }
        self.logs[output] = Log::default();
        Ok(())
    }

    /// See [`crate::Engine::for_each_keyed_row`].
    pub fn for_each_row(
        &self,
        program: &Program,
        env: &mut Environment,
        each: &mut dyn FnMut(&[u64], &[u64]),
    ) -> Result {
        let derived = output_of(program);
        let declared = decl(program, derived.map);
        let entries = &self.maps[usize::from(derived.map.0)];
        let mut keys: Vec<&Key> = entries.keys().collect();
        let none = Vec::new();
        if keys.is_empty() && declared.key.is_empty() {
            keys.push(&none);
        }
        for key in keys {
            if let Some(row) = self.row(program, env, derived, key)? {
                each(&plain_key(declared, key), &row);
            }
        }
        Ok(())
    }

    /// See [`crate::Engine::row`].
    pub fn output_row(
        &self,
        program: &Program,
        env: &mut Environment,
        mut key: &[u64],
    ) -> Result<Option<Vec<u64>>> {
        let derived = output_of(program);
        let mut words = Vec::new();
        for ty in &decl(program, derived.map).key {
            Value::take(*ty, &mut key).put_ordered(&mut words);
        }
        Ok(self.row(program, env, derived, &words)?)
    }

    /// See [`crate::Engine::for_each_entry`].
    pub fn for_each_stored(
        &self,
        program: &Program,
        map: usize,
        each: &mut dyn FnMut(&[u64], &[u64]),
    ) {
        for (key, payload) in &self.maps[map] {
            each(key, &payload_words(&program.maps[map], payload));
        }
    }

    /// See [`crate::Engine::restore`].
    pub fn restore(&mut self, program: &Program, map: usize, key: &[u64], sums: &[u64]) -> Result {
        let Some(declared) = program.maps.get(map) else {
            return Err(EvalError::OutOfRange.into());
        };
        let words: usize = declared.key.iter().map(|ty| ty.words()).sum();
        let (mut payload, mut rest) = (Vec::new(), sums);
        for component in &declared.payload {
            let ty = if *component == Component::Int { Type::Int } else { Type::Wide };
            if rest.len() < ty.words() {
                return Err(EvalError::OutOfRange.into());
            }
            payload.push(match Value::take(ty, &mut rest) {
                Value::Wide(sum) => sum,
                Value::Int(sum) => sum.into(),
                Value::Float(_) => unreachable!("sums are integers"),
            });
        }
        if key.len() != words || !rest.is_empty() {
            return Err(EvalError::OutOfRange.into());
        }
        self.set(program, map, key.to_vec(), payload);
        Ok(())
    }

    /// See [`crate::Engine::forget_changes`].
    pub fn forget_changes(&mut self) {
        self.logs.iter_mut().for_each(|log| *log = Log::default());
    }

    /// Entries of a map, each with the words of its key and of its payload.
    pub fn entries(&self, program: &Program, map: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
        let declared = &program.maps[map];
        let words = |(key, payload): (&Key, &Payload)| {
            (plain_key(declared, key), payload_words(declared, payload))
        };
        self.maps[map].iter().map(words).collect()
    }

    /// Number of entries of a map.
    pub fn len(&self, map: usize) -> u64 {
        self.maps[map].len() as u64
    }

    /// Memory of a map, estimated: nodes of the standard library's sorted map are taken to be two
    /// thirds full.
    pub fn bytes(&self, program: &Program, map: usize) -> u64 {
        let declared = &program.maps[map];
        let words: usize = declared.key.iter().map(|ty| ty.words()).sum();
        self.len(map) * (3 * (48 + 16) / 2 + 8 * words + 16 * declared.payload.len()) as u64
    }

    /// Panics unless no entry is zero, all keys have their width, and no group of an inner relation
    /// is touched.
    pub fn check(&self, program: &Program) {
        for (map, declared) in self.maps.iter().zip(&program.maps) {
            let words: usize = declared.key.iter().map(|ty| ty.words()).sum();
            for (key, payload) in map {
                assert_eq!(key.len(), words);
                assert!(payload.iter().any(|sum| *sum != 0));
            }
        }
        for (index, log) in self.logs.iter().enumerate() {
            assert_eq!(log.touched.len(), log.rows.len());
            assert!(index == usize::from(program.output.0) || log.rows.is_empty());
        }
        assert!(self.journal.is_empty());
    }
}

fn decl(program: &Program, map: MapId) -> &MapDecl {
    &program.maps[usize::from(map.0)]
}

/// The words of an entry's sums, two for components of 128 bits.
fn payload_words(declared: &MapDecl, payload: &Payload) -> Vec<u64> {
    let mut sums = Vec::new();
    for (sum, component) in payload.iter().zip(&declared.payload) {
        match component {
            Component::Int => sums.push(*sum as u64),
            _ => Value::Wide(*sum).put(&mut sums),
        }
    }
    sums
}

fn output_of(program: &Program) -> &Derived {
    let output = &program.relations[usize::from(program.output.0)];
    output.derived.as_ref().expect("the output is derived (Program::check)")
}

fn ordered_key(
    key: &[Expr],
    registers: &[Value],
    env: &mut Environment,
) -> core::result::Result<Key, EvalError> {
    let mut words = Vec::new();
    for value in key {
        eval(value, registers, env)?.put_ordered(&mut words);
    }
    Ok(words)
}

fn plain_key(declared: &MapDecl, mut key: &[u64]) -> Vec<u64> {
    let mut words = Vec::new();
    for ty in &declared.key {
        Value::take_ordered(*ty, &mut key).put(&mut words);
    }
    words
}

/// The amount by which a value changes a sum: the value as an integer, or zero for NULL.
fn addend(value: Value) -> core::result::Result<i128, EvalError> {
    Ok(match value {
        value if value.is_null() => 0,
        Value::Int(value) => int_to_wide(value),
        Value::Wide(value) => value,
        Value::Float(value) => float_to_sum(value)?,
    })
}

fn set_payload(registers: &mut [Value], map: &MapDecl, list: &[(u16, Reg)], payload: &Payload) {
    for (component, reg) in list {
        let sum = payload[usize::from(*component)];
        registers[usize::from(reg.0)] = match map.payload[usize::from(*component)] {
            Component::Int => Value::Int(sum as i64),
            Component::Wide => Value::Wide(sum),
            Component::Float => Value::Float(sum_to_float(sum)),
        };
    }
}

/// Returns the words of some columns of a key.
fn columns_of(declared: &MapDecl, key: &[u64], columns: &[u16]) -> Vec<u64> {
    let mut words = Vec::new();
    let mut at = 0;
    for (column, ty) in declared.key.iter().enumerate() {
        if columns.contains(&(column as u16)) {
            words.extend(&key[at..at + ty.words()]);
        }
        at += ty.words();
    }
    words
}

/// Returns the words of the key column behind a prefix.
fn next_column<'a>(declared: &MapDecl, key: &'a [u64], prefix: &[u64]) -> &'a [u64] {
    let mut words = 0;
    let column = declared.key.iter().find(|ty| {
        let found = words == prefix.len();
        words += if found { 0 } else { ty.words() };
        found
    });
    &key[words..words + column.map_or(0, |ty| ty.words())]
}

fn is_null_key(words: &[u64]) -> bool {
    words.iter().all(|word| *word == 0)
}

fn key_value(ty: Type, words: Option<&[u64]>) -> Value {
    words.map_or(Value::null(ty), |mut words| Value::take_ordered(ty, &mut words))
}

fn exceeds(sum: i128, limit: Value) -> bool {
    match limit {
        limit if limit.is_null() => false,
        Value::Int(limit) => sum > i128::from(limit),
        Value::Wide(limit) => sum > limit,
        Value::Float(limit) => sum > float_limit(limit),
    }
}

/// A bound of a range, in words.
enum Words {
    Open,
    Nothing,
    Included(Key),
    Excluded(Key),
}

impl Words {
    fn above(&self, key: &[u64]) -> bool {
        match self {
            Self::Open => true,
            Self::Nothing => false,
            Self::Included(low) => key >= &low[..],
            Self::Excluded(low) => key > &low[..],
        }
    }

    fn below(&self, key: &[u64]) -> bool {
        match self {
            Self::Open => true,
            Self::Nothing => false,
            Self::Included(high) => key <= &high[..],
            Self::Excluded(high) => key < &high[..],
        }
    }
}

fn bound_words(
    bound: &Bound,
    registers: &[Value],
    env: &mut Environment,
) -> core::result::Result<Words, EvalError> {
    Ok(match bound {
        Bound::Open => Words::Open,
        Bound::Included(value) | Bound::Excluded(value) => {
            let value = eval(value, registers, env)?;
            let mut words = Vec::new();
            value.put_ordered(&mut words);
            match bound {
                _ if value.is_null() => Words::Nothing,
                Bound::Included(_) => Words::Included(words),
                _ => Words::Excluded(words),
            }
        }
    })
}
