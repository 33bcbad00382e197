//! The quick executor, called the machine: triggers compiled to small operations over maps of
//! bounded cost.
//!
//! Where to start: [`plan`] (a trigger's statements put together), [`code`] (the operations),
//! [`compile`] (from plans to operations), [`run`], [`maps`] (maps, watches, journal).

mod ahead;
mod code;
mod compile;
mod guard;
mod maps;
#[cfg(feature = "native")]
#[allow(unsafe_code, reason = "what Cranelift has made is called, and its memory given back")]
mod native;
#[cfg(not(feature = "native"))]
#[path = "no_native.rs"]
mod native;
mod plan;
mod run;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use self::ahead::Ahead;
use self::code::{Code, Registers};
use self::compile::TriggerCode;
use self::guard::Guard;
use self::maps::{ComponentBounds, Crossing, Map, MapStructure, Maps, RowMaker, Watch};
use self::native::{Function, Native};
use crate::error::{ApplyError, EvalError, ProgramError};
use crate::maps::hint::HELPS;
use crate::program::{
    CompareOp, Derived, Expr, NULL_INT, NULL_WIDE, Program, Relation, RelationId, Step, Type,
};
use crate::value::{Environment, Report, Value};
use crate::walk::for_each_within;

pub use self::run::ORDERED_KEY_WORDS_MAX;

/// The state of a view under compiled triggers.
pub struct Machine {
    triggers: Vec<Trigger>,
    maps: Maps,
    /// Watches of derived relations with triggers, in the order of the relations.
    inner: Vec<usize>,
    /// The watch of the output.
    output: usize,
    /// The machine code of the triggers, or the reason why they have none.
    native: Result<Native, String>,
}

struct Trigger {
    guard: Guard,
    /// The code for weight 1, for weight −1, and for any weight.
    by_weight: [Code; 3],
    /// Index of the code that ran last.
    ran: usize,
    registers: Registers,
    /// Words of a row; the weight lies behind them.
    row_words: usize,
    /// Prefetches for the trigger's look-ups whose keys follow from the row alone.
    ahead: Vec<Ahead>,
    /// Machine code for the weights 1 and −1.
    native: Option<[Function; 2]>,
}

impl Machine {
    /// Makes a machine with empty maps. `native`: make machine code for the triggers, where that is
    /// possible.
    ///
    /// Errors: a trigger needs too many registers.
    pub fn new(
        program: &Program,
        env: &mut Environment,
        native: bool,
    ) -> Result<Self, ProgramError> {
        let (mut triggers, mut all_constants) = (Vec::new(), Vec::new());
        let has_inner = program.relations.iter().enumerate().any(|(index, relation)| {
            relation.derived.is_some() && index != usize::from(program.output.0)
        });
        for (index, relation) in program.relations.iter().enumerate() {
            let TriggerCode { guard, by_weight, constants } =
                compile::trigger(program, env, index, has_inner)?;
            let registers = Registers::new(&constants);
            let row_words = relation.columns.iter().map(|ty| ty.words()).sum();
            triggers.push(Trigger {
                guard,
                by_weight,
                ran: 0,
                registers,
                row_words,
                ahead: Vec::new(),
                native: None,
            });
            all_constants.push(constants);
        }
        let codes: Vec<&Code> =
            triggers.iter().map(|trigger: &Trigger| &trigger.by_weight[0]).collect();
        let ahead = ahead::of(program, &codes);
        for (trigger, ahead) in triggers.iter_mut().zip(ahead) {
            trigger.ahead = ahead;
        }
        let mut of_map: Vec<Vec<usize>> = program.maps.iter().map(|_| Vec::new()).collect();
        let mut eager: Vec<bool> = program.maps.iter().map(|_| false).collect();
        let (mut watches, mut inner, mut output) = (Vec::new(), Vec::new(), 0);
        for (index, relation) in program.relations.iter().enumerate() {
            let Some(derived) = &relation.derived else { continue };
            let map = usize::from(derived.map.0);
            let code = compile::row(program, env, &relation.name, derived)?;
            let registers = Registers::new(&code.constants);
            let row = RowMaker { code, registers };
            let is_eager = !derived.steps.is_empty();
            let key_words = program.maps[map].key.iter().map(|ty| ty.words()).sum();
            let payload = crate::maps::sums::Sums::new(&program.maps[map].payload).words();
            let stamp = of_map[map].len();
            let watch = Watch::new(index, map, stamp, row, is_eager, key_words, payload);
            eager[map] |= is_eager;
            of_map[map].push(watches.len());
            if index == usize::from(program.output.0) {
                output = watches.len();
            } else {
                inner.push(watches.len());
            }
            watches.push(watch);
        }
        let prefixes = prefixes(program);
        let maps = program.maps.iter().zip(prefixes).zip(of_map).zip(eager);
        let maps = maps.map(|(((declared, prefix), watches), eager)| {
            Map::new(declared, prefix, watches, eager)
        });
        let mut maps = Maps::new(maps.collect(), watches);
        for watch in &inner {
            let derived = &program.relations[maps.watches[*watch].relation].derived;
            if let Some(crossing) = derived.as_ref().and_then(|one| crossing(program, one)) {
                maps.only_crossings(*watch, crossing);
            }
        }
        let mut machine =
            Machine { triggers, maps, inner, output, native: Err("not asked for".into()) };
        if native {
            machine.compile_triggers(program, &all_constants);
        }
        // Otherwise the first event would ask the allocator for a piece of memory per map and watch
        // and touch it, which takes several times as long as the event itself.
        (0..program.maps.len()).for_each(|map| machine.reserve(map, 1));
        Ok(machine)
    }

    /// Makes machine code of the triggers for weights 1 and −1. Where that is not possible, the
    /// operations remain. `constants`: per trigger.
    fn compile_triggers(&mut self, program: &Program, constants: &[Vec<(code::R, u64)>]) {
        let mut parts = Vec::new();
        let never_null: Vec<Vec<bool>> = program.relations.iter().map(never_null).collect();
        for ((trigger, constants), never_null) in
            self.triggers.iter().zip(constants).zip(&never_null)
        {
            for (code, weight) in trigger.by_weight.iter().zip([1, -1]) {
                parts.push(native::Trigger { code, constants, never_null, weight });
            }
        }
        let compiled = Native::new(&parts, &self.maps);
        self.native = compiled.map(|(native, functions)| {
            for (trigger, functions) in self.triggers.iter_mut().zip(functions.chunks_exact(2)) {
                trigger.native = Some([functions[0], functions[1]]);
            }
            native
        });
    }

    /// Bytes of the triggers' machine code; the error says why there is none.
    pub fn machine_code(&self) -> Result<usize, &str> {
        self.native.as_ref().map(Native::bytes).map_err(String::as_str)
    }

    /// Whether prefetching for events pays, at the maps' present sizes.
    pub fn looks_ahead(&mut self) -> bool {
        let all = self.triggers.iter_mut().flat_map(|trigger| &mut trigger.ahead);
        HELPS && all.fold(false, |any, one| one.measure(&self.maps) | any)
    }

    /// Prefetches the table places for an event's look-ups; see [`ahead`].
    #[inline(always)]
    pub fn ask_for_places(&self, relation: RelationId, row: &[u64]) {
        let Some(trigger) = self.triggers.get(usize::from(relation.0)) else { return };
        if !trigger.ahead.is_empty() && trigger.guard.holds(row) {
            trigger.ahead.iter().for_each(|one| one.ask_for_place(row, &self.maps));
        }
    }

    /// Prefetches the entries to which those places lead, once the places have come.
    #[inline(always)]
    pub fn ask_for_entries(&self, relation: RelationId, row: &[u64]) {
        let Some(trigger) = self.triggers.get(usize::from(relation.0)) else { return };
        if !trigger.ahead.is_empty() && trigger.guard.holds(row) {
            trigger.ahead.iter().for_each(|one| one.ask_for_entry(row, &self.maps));
        }
    }

    /// Applies one event, with all that derives from it. On an error nothing has changed.
    #[inline]
    pub fn apply(
        &mut self,
        env: &mut Environment,
        relation: RelationId,
        row: &[u64],
        weight: i64,
    ) -> Result<(), ApplyError> {
        let trigger = &mut self.triggers[usize::from(relation.0)];
        if !trigger.guard.holds(row) {
            return Ok(());
        }
        let native = self.native.as_ref().ok();
        let mut result = trigger.run(native, row, weight, &mut self.maps, env);
        if result.is_ok() && !self.inner.is_empty() {
            result = self.derive(env);
        }
        if result.is_err() {
            self.take_back(relation);
        }
        self.maps.forget();
        result
    }

    #[cold]
    fn take_back(&mut self, relation: RelationId) {
        self.maps.undo();
        let Trigger { by_weight, ran, registers, .. } = &self.triggers[usize::from(relation.0)];
        let code = &by_weight[*ran];
        for (bit, site) in code.undos.iter().enumerate().rev() {
            if self.maps.done >> bit & 1 == 1 {
                let site = &code.sites[usize::from(*site)];
                let map = usize::from(site.map);
                let key = registers.words(site.key, site.key_words);
                let words = self.maps.all[map].sums.words();
                self.maps.take_back(map, key, registers.words(site.value, words));
            }
        }
        for watch in &self.inner {
            self.maps.serve(*watch);
        }
    }

    /// Applies the events of derived relations that follow from changed groups.
    fn derive(&mut self, env: &mut Environment) -> Result<(), ApplyError> {
        for watch in &self.inner {
            if self.maps.watches[*watch].log.live() == 0 {
                continue;
            }
            let trigger = &mut self.triggers[self.maps.watches[*watch].relation];
            let native = self.native.as_ref().ok();
            let mut fire = |maps: &mut Maps, env: &mut Environment, change: RowChange<'_>| {
                for (row, weight) in [(change.old, -1), (change.new, 1)] {
                    if let Some(row) = row
                        && trigger.guard.holds(row)
                    {
                        trigger.run(native, row, weight, maps, env)?;
                    }
                }
                Ok(())
            };
            for_each_change(*watch, &mut self.maps, env, &mut fire)?;
            self.maps.serve(*watch);
        }
        Ok(())
    }

    /// Whether some group of the output was touched since the last [`Machine::drain`].
    pub fn has_changes(&self) -> bool {
        self.maps.watches[self.output].log.live() > 0
    }

    /// See [`crate::Engine::noted_groups`].
    pub fn noted_groups(&self) -> usize {
        self.maps.watches[self.output].log.live()
    }

    /// See [`crate::Engine::drain_changes`].
    pub fn drain(
        &mut self,
        env: &mut Environment,
        each: &mut Report<'_>,
    ) -> Result<(), ApplyError> {
        let mut report = |_: &mut Maps, _: &mut Environment, change: RowChange<'_>| {
            each(change.key, change.old, change.new);
            Ok(())
        };
        for_each_change(self.output, &mut self.maps, env, &mut report)?;
        self.maps.serve(self.output);
        Ok(())
    }

    /// See [`crate::Engine::for_each_keyed_row`].
    pub fn for_each_row(
        &mut self,
        env: &mut Environment,
        each: &mut dyn FnMut(&[u64], &[u64]),
    ) -> Result<(), ApplyError> {
        let map = self.maps.watches[self.output].map;
        let key_words = self.maps.all[map].key_words;
        let (mut keys, mut made) = (Vec::new(), Vec::new());
        if key_words > 0 {
            self.maps.for_each_entry(map, &mut |key, _| keys.extend_from_slice(key));
        }
        // A map without a key always has one group.
        for number in 0..keys.len().checked_div(key_words).unwrap_or(1) {
            let key = &keys[number * key_words..][..key_words];
            let exists = run::with_row(self.output, key, None, &mut self.maps, env, |_, row| {
                copy(row, &mut made)
            })?;
            if exists {
                let maker = self.maps.watches[self.output].row.as_ref().expect("put back");
                each(maker.registers.words(0, key_words), &made);
            }
        }
        Ok(())
    }

    /// See [`crate::Engine::row`].
    pub fn row(
        &mut self,
        program: &Program,
        env: &mut Environment,
        key: &[u64],
        out: &mut Vec<u64>,
    ) -> Result<bool, ApplyError> {
        let map = self.maps.watches[self.output].map;
        let mut words = core::mem::take(&mut self.maps.scratch.key);
        words.clear();
        map_key(program, map, key, &mut words);
        let found = run::with_row(self.output, &words, None, &mut self.maps, env, |_, row| {
            out.extend(row.into_iter().flatten());
            row.is_some()
        });
        self.maps.scratch.key = words;
        found
    }

    /// Entries of a map, sorted: key words as the program has them, payload words.
    pub fn entries(&self, program: &Program, map: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
        let declared = &program.maps[map];
        let mut entries = Vec::new();
        self.maps.for_each_entry(map, &mut |key, payload| {
            let mut ordered = Vec::new();
            if declared.ordered {
                ordered.extend_from_slice(key);
            } else {
                let mut key = key;
                for ty in &declared.key {
                    Value::take(*ty, &mut key).put_ordered(&mut ordered);
                }
            }
            entries.push((ordered, payload.to_vec()));
        });
        entries.sort();
        for (key, _) in &mut entries {
            let mut plain = Vec::new();
            let mut words = &key[..];
            for ty in &declared.key {
                Value::take_ordered(*ty, &mut words).put(&mut plain);
            }
            *key = plain;
        }
        entries
    }

    /// See [`crate::Engine::for_each_entry`].
    pub fn for_each_stored(&self, map: usize, each: &mut dyn FnMut(&[u64], &[u64])) {
        self.maps.for_each_entry(map, each);
    }

    /// See [`crate::Engine::restore`].
    pub fn restore(&mut self, map: usize, key: &[u64], sums: &[u64]) -> Result<(), ApplyError> {
        let stored = self.maps.all.get(map);
        if stored.is_none_or(|map| (map.key_words, map.sums.words()) != (key.len(), sums.len())) {
            return Err(EvalError::OutOfRange.into());
        }
        self.maps.add(map, key, sums, false)?;
        Ok(())
    }

    /// See [`crate::Engine::forget_changes`].
    pub fn forget_changes(&mut self) {
        for watch in 0..self.maps.watches.len() {
            self.maps.serve(watch);
        }
    }

    /// Number of entries of a map; zero entries that are kept for a watch are counted, too.
    pub fn len(&self, map: usize) -> u64 {
        match &self.maps.all[map].structure {
            MapStructure::Hash(map) => map.len() as u64,
            MapStructure::Ordered(map, _) => map.len() as u64,
        }
    }

    /// Memory of a map, in bytes.
    pub fn bytes(&self, map: usize) -> u64 {
        self.maps.all[map].bytes()
    }

    /// How often a map began to grow into a larger table.
    pub fn growths(&self, map: usize) -> u64 {
        match &self.maps.all[map].structure {
            MapStructure::Hash(map) => map.growths(),
            MapStructure::Ordered(..) => 0,
        }
    }

    /// Memory of everything that grows with the data, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.maps.bytes()
    }

    /// Takes and touches memory for this number of entries of a map.
    pub fn reserve(&mut self, map: usize, entries: usize) {
        match &mut self.maps.all[map].structure {
            MapStructure::Hash(map) => map.reserve(entries),
            MapStructure::Ordered(map, _) => map.reserve(entries),
        }
        for watch in &mut self.maps.watches {
            if watch.map == map {
                watch.log.reserve(entries);
            }
        }
    }

    /// Panics unless all invariants of all maps hold.
    pub fn check(&self) {
        self.maps.check();
        for watch in &self.inner {
            assert_eq!(self.maps.watches[*watch].log.live(), 0);
        }
    }
}

impl Trigger {
    #[inline(always)]
    fn run(
        &mut self,
        native: Option<&Native>,
        row: &[u64],
        weight: i64,
        maps: &mut Maps,
        env: &mut Environment,
    ) -> Result<(), ApplyError> {
        let row = &row[..self.row_words];
        if let (Some(native), Some(functions), -1 | 1) = (native, self.native, weight) {
            self.ran = usize::from(weight == -1);
            let (function, code) = (functions[self.ran], &self.by_weight[self.ran]);
            return native.run(function, row, &mut self.registers, code, maps, env);
        }
        for (register, word) in self.registers.words_mut(0, self.row_words).iter_mut().zip(row) {
            *register = *word;
        }
        self.registers.set(self.row_words as u16, weight as u64);
        self.ran = match weight {
            1 => 0,
            -1 => 1,
            _ => 2,
        };
        run::run(&self.by_weight[self.ran], &mut self.registers, maps, env)
    }
}

/// For each word of a relation's rows, whether its column is never NULL.
fn never_null(relation: &Relation) -> Vec<bool> {
    let known = relation.never_null.iter().copied().chain(core::iter::repeat(false));
    let columns = relation.columns.iter().zip(known);
    columns.flat_map(|(ty, known)| core::iter::repeat_n(known, ty.words())).collect()
}

/// For each map, how many leading key columns choose a tree of a sorted map: those that every sum
/// and search gives, and that every enumeration gives, too, unless it gives none.
fn prefixes(program: &Program) -> Vec<usize> {
    let mut summed = vec![false; program.maps.len()];
    let mut given: Vec<usize> = program.maps.iter().map(|map| map.key.len()).collect();
    program.for_each_step(&mut |step| {
        let (map, prefix, sums) = match step {
            Step::RangeSum { map, prefix, .. } | Step::Search { map, prefix, .. } => {
                (map, prefix, true)
            }
            Step::Edge { map, prefix, .. } => (map, prefix, false),
            Step::Each { map, slice: None, prefix, .. } if !prefix.is_empty() => {
                (map, prefix, false)
            }
            _ => return,
        };
        let map = usize::from(map.0);
        given[map] = given[map].min(prefix.len());
        summed[map] |= sums;
    });
    // Every tree takes a leaf at least. A map that is asked only for least or greatest keys gets
    // one tree for all groups, which is smaller.
    summed.iter().zip(given).map(|(summed, given)| if *summed { given } else { 0 }).collect()
}

/// The crossing test of a derived relation, if its row consists of key columns alone and its
/// conditions compare components with constants.
fn crossing(program: &Program, derived: &Derived) -> Option<Crossing> {
    let map = &program.maps[usize::from(derived.map.0)];
    let sums = crate::maps::sums::Sums::new(&map.payload);
    let is_of_key = |value: &Expr| {
        let mut of_key = true;
        for_each_within(value, &mut |part| {
            of_key &= !matches!(part, Expr::Reg(reg) if usize::from(reg.0) >= map.key.len());
        });
        of_key
    };
    if !derived.steps.is_empty() || !derived.row.iter().all(is_of_key) {
        return None;
    }
    let conditions = match &derived.exists {
        Expr::And(all) => all.as_slice(),
        one => core::slice::from_ref(one),
    };
    let bounds = conditions.iter().map(|condition| {
        let Expr::Compare(op, ty, a, b) = condition else { return None };
        let (op, reg, constant) = match (&**a, &**b) {
            (Expr::Reg(reg), constant) => (*op, reg, constant),
            (constant, Expr::Reg(reg)) => (op.mirrored(), reg, constant),
            _ => return None,
        };
        let constant = match constant {
            Expr::Int(constant) if *constant != NULL_INT => i128::from(*constant),
            Expr::Wide(constant) if *constant != NULL_WIDE => *constant,
            Expr::Cast { from: Type::Int, to: Type::Wide, value } => match **value {
                Expr::Int(constant) if constant != NULL_INT => i128::from(constant),
                _ => return None,
            },
            _ => return None,
        };
        let (low, high) = match op {
            CompareOp::Eq => (constant, constant),
            CompareOp::Ne => return None,
            CompareOp::Lt => (i128::MIN, constant.checked_sub(1)?),
            CompareOp::Le => (i128::MIN, constant),
            CompareOp::Gt => (constant.checked_add(1)?, i128::MAX),
            CompareOp::Ge => (constant, i128::MAX),
        };
        let component = usize::from(reg.0).checked_sub(map.key.len())?;
        let word = sums.offset(component);
        Some(ComponentBounds { word, wide: *ty == Type::Wide, low, high })
    });
    let bounds = bounds.collect::<Option<Vec<_>>>()?;
    // If groups had a row from the start, their row's expressions might fail, and then every change
    // of such a group must fail: noting crossings alone would not see that.
    let from_the_start = bounds.iter().all(|bounds| bounds.low <= 0 && 0 <= bounds.high);
    (!from_the_start).then(|| Crossing::new(bounds))
}

/// A group of a derived relation whose row differs from the one before the event.
struct RowChange<'a> {
    key: &'a [u64],
    old: Option<&'a [u64]>,
    new: Option<&'a [u64]>,
}

/// A listener to changed rows.
type Each<'a> =
    dyn FnMut(&mut Maps, &mut Environment, RowChange<'_>) -> Result<(), ApplyError> + 'a;

/// Calls `each` for every noted group whose row has changed.
fn for_each_change(
    watch: usize,
    maps: &mut Maps,
    env: &mut Environment,
    each: &mut Each<'_>,
) -> Result<(), ApplyError> {
    let mut record = core::mem::take(&mut maps.scratch.key);
    let mut old = core::mem::take(&mut maps.scratch.row);
    let mut new = Vec::new();
    let mut plain = Vec::new();
    let count = maps.watches[watch].log.live();
    let map = &maps.all[maps.watches[watch].map];
    let (key_words, eager) = (map.key_words, maps.watches[watch].eager);
    let mut result = Ok(());
    for number in 0..count {
        maps.ask_for_noted(watch, number);
        record.clear();
        record.extend_from_slice(maps.watches[watch].log.piece(number));
        let (key, before) = record.split_at(key_words);
        old.clear();
        let (existed, exists) = match maps.crossed(watch, key, before) {
            Some([true, true] | [false, false]) => continue,
            Some([existed, exists]) => {
                let (payload, row) =
                    if exists { (None, &mut new) } else { (Some(before), &mut old) };
                match run::with_row(watch, key, payload, maps, env, |_, made| copy(made, row)) {
                    Ok(made) => (Ok(made && existed), Ok(made && exists)),
                    Err(error) => (Err(error), Ok(false)),
                }
            }
            None if !eager && maps.is_as_before(watch, key, before) => continue,
            None => {
                let existed = if eager {
                    old.extend_from_slice(&before[1..]);
                    Ok(before[0] == 1)
                } else {
                    run::with_row(watch, key, Some(before), maps, env, |_, row| copy(row, &mut old))
                };
                let exists =
                    run::with_row(watch, key, None, maps, env, |_, row| copy(row, &mut new));
                (existed, exists)
            }
        };
        result = match (existed, exists) {
            (Ok(existed), Ok(exists)) => {
                if existed == exists && (!exists || old == new) {
                    continue;
                }
                let row = maps.watches[watch].row.as_ref().expect("put back");
                plain.clear();
                plain.extend_from_slice(row.registers.words(0, key_words));
                let change = RowChange {
                    key: &plain,
                    old: existed.then_some(&old[..]),
                    new: exists.then_some(&new[..]),
                };
                each(maps, env, change)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if result.is_err() {
            break;
        }
    }
    (maps.scratch.key, maps.scratch.row) = (record, old);
    result
}

fn copy(row: Option<&[u64]>, to: &mut Vec<u64>) -> bool {
    to.clear();
    to.extend(row.into_iter().flatten());
    row.is_some()
}

/// Puts a key into `out` in the form in which its map has it.
fn map_key(program: &Program, map: usize, mut key: &[u64], out: &mut Vec<u64>) {
    let declared = &program.maps[map];
    for ty in &declared.key {
        let value = Value::take(*ty, &mut key);
        match (declared.ordered, *ty) {
            (true, _) => value.put_ordered(out),
            (false, Type::Float) => {
                if let Value::Float(value) = value {
                    out.push(crate::scalar::key_float(value).to_bits());
                }
            }
            (false, _) => value.put(out),
        }
    }
}
