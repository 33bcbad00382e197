//! The compiler from programs to [`Code`].

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use halcyon_value::like::Pattern;

use super::code::{
    Called, Code, Like, Limit, Op, Out, OutKind, POSITION_WORDS, R, REGISTERS, Range, Site, Target,
};
use super::guard::Guard;
use super::plan::{self, Addend, Change, Node, Plan};
use crate::error::ProgramError;
use crate::maps::sums::{Sums, words_of};
use crate::program::{
    BinaryOp, Bound, Component, Derived, Expr, MapDecl, MapId, NULL_FLOAT_BITS, NULL_INT,
    NULL_WIDE, Program, Reg, Relation, Step, Type,
};
use crate::value::{Environment, halves};
use crate::walk::for_each_within;

/// The most sites, or other things that operations name by number: these numbers have 16 bits.
const NUMBERED_MAX: usize = 1 << 16;

/// A trigger's code, for all weights.
#[derive(Debug)]
pub struct TriggerCode {
    /// Conditions on the row without which the trigger does nothing.
    pub guard: Guard,
    /// The code for weight 1, for weight −1, and for any weight. The three share their registers.
    pub by_weight: [Code; 3],
    /// Registers that never change, with their words.
    pub constants: Vec<(R, u64)>,
}

/// Compiles the trigger of a relation.
///
/// `fails_later`: whether something may fail after the trigger, within the same event.
pub fn trigger(
    program: &Program,
    env: &mut Environment,
    relation: usize,
    fails_later: bool,
) -> Result<TriggerCode, ProgramError> {
    let declared = &program.triggers[relation].registers;
    let Relation { columns, never_null, derived, .. } = &program.relations[relation];
    let mut compiler = Compiler::new(program, env, declared);
    if derived.is_none() && !plan::sets_up_to(&program.triggers[relation], columns.len()) {
        compiler.row_words = compiler.places.get(columns.len()).map(|weight| usize::from(*weight));
    }
    let mut guard = Guard::default();
    let mut by_weight: [Code; 3] = Default::default();
    for (code, weight) in by_weight.iter_mut().zip([Some(1), Some(-1), None]) {
        let plan = plan::plan(program, relation, weight);
        compiler.types.truncate(declared.len());
        compiler.places.truncate(declared.len());
        for ty in &plan.registers[declared.len()..] {
            let place = (compiler.words.take(ty.words()) % REGISTERS) as R;
            compiler.places.push(place);
            compiler.types.push(*ty);
        }
        compiler.never_null = vec![false; compiler.types.len()];
        for (known, never) in compiler.never_null.iter_mut().zip(never_null) {
            *known = *never;
        }
        if let Some(weight) = compiler.never_null.get_mut(columns.len()) {
            *weight = true;
        }
        compiler.plan(&plan, fails_later);
        *code = compiler.finish(&program.relations[relation].name)?;
        let places = &compiler.places;
        let word = |reg: u16| places[usize::from(reg)];
        guard = Guard::new(&plan.guard, &word, &mut |text| compiler.env.dictionary.intern(text));
    }
    Ok(TriggerCode { guard, by_weight, constants: compiler.constants })
}

/// The code that computes a group's row. Key and payload are in the first registers, as declared.
#[derive(Clone, Debug)]
pub struct RowCode {
    pub code: Code,
    /// Registers that never change, with their words.
    pub constants: Vec<(R, u64)>,
    /// Register that the code sets to 1 if the group has a row.
    pub exists: R,
    /// First register of the row's words.
    pub row: R,
    pub row_words: usize,
    /// How key and payload get into the first registers from the form in which the map has them.
    pub keys: Vec<Out>,
    pub payload: Vec<Out>,
}

/// Compiles the row of a derived relation.
pub fn row(
    program: &Program,
    env: &mut Environment,
    name: &str,
    derived: &Derived,
) -> Result<RowCode, ProgramError> {
    let mut compiler = Compiler::new(program, env, &derived.registers);
    let map = &program.maps[usize::from(derived.map.0)];
    let columns = map.key.len();
    let all = |first: usize, count: usize| -> Vec<(u16, Reg)> {
        (0..count).map(|index| (index as u16, Reg((first + index) as u16))).collect()
    };
    let keys = compiler.key_outs(map, &all(0, columns));
    let payload = compiler.outs(map, &all(columns, map.payload.len()));
    let exists = compiler.block(1);
    let row_words = derived.row.iter().map(|value| compiler.ty(value).words()).sum();
    let row = compiler.block(row_words);
    let (no, yes) = (compiler.constant(0), compiler.constant(1));
    compiler.emit(Op::Move { d: exists, a: no });
    let exit = compiler.label();
    let next = compiler.steps(&derived.steps, exit);
    compiler.unless(&derived.exists, next);
    compiler.all_into(&derived.row, row);
    compiler.emit(Op::Move { d: exists, a: yes });
    compiler.jump_back(next, exit);
    compiler.place(exit);
    let code = compiler.finish(name)?;
    let constants = compiler.constants;
    Ok(RowCode { code, constants, exists, row, row_words, keys, payload })
}

/// The part of a plan that is not compiled yet.
struct Rest {
    /// Number of statements of the whole plan that change each map.
    changes: Vec<u32>,
    /// Number of statements that have not been compiled.
    adds: usize,
    /// Whether something may fail after the trigger.
    fails_later: bool,
}

struct Compiler<'a> {
    program: &'a Program,
    env: &'a mut Environment,
    types: Vec<Type>,
    /// First word of each declared register.
    places: Vec<R>,
    never_null: Vec<bool>,
    code: Code,
    /// Registers that never change, with their words.
    constants: Vec<(R, u64)>,
    /// The index of each label's operation; `u32::MAX` until the label is placed.
    labels: Vec<u32>,
    words: Words,
    /// Expressions whose value has been computed on every path to the present operation, and the
    /// register that has it.
    known: Vec<(Expr, R)>,
    /// Number of words of the event's row, if the row stays in its registers until the next event
    /// and its trigger's changes may be taken back from registers.
    row_words: Option<usize>,
}

/// Owners of the words of the register file. Of the words behind the declared registers, each
/// belongs to a constant for good, or to a statement until the statement's end.
struct Words {
    /// The first word that has never had an owner.
    top: usize,
    /// Runs of words that earlier statements have given back: first word, and number of words.
    free: Vec<(usize, usize)>,
    /// Runs of words lent to the statement that is being compiled.
    lent: Vec<(usize, usize)>,
}

impl Words {
    /// Takes words side by side that no other owner gets, before or after.
    fn take(&mut self, words: usize) -> usize {
        self.top += words;
        self.top - words
    }

    /// Lends words side by side to the present statement, until it ends.
    fn lend(&mut self, words: usize) -> usize {
        let first = match self.free.iter().position(|(_, free)| *free >= words) {
            None => self.take(words),
            Some(at) => {
                let (first, free) = self.free[at];
                match free == words {
                    true => drop(self.free.remove(at)),
                    false => self.free[at] = (first + words, free - words),
                }
                first
            }
        };
        self.lent.push((first, words));
        first
    }

    /// Keeps the run that was lent from `first` on until the next event: later statements do not
    /// get it.
    fn keep(&mut self, first: R) {
        self.lent.retain(|(lent, _)| *lent != usize::from(first));
    }

    /// Takes back all words lent to the statement, which ends.
    fn give_back(&mut self) {
        self.free.append(&mut self.lent);
        self.free.sort_unstable();
        self.free.dedup_by(|next, free| {
            let joins = free.0 + free.1 == next.0;
            free.1 += if joins { next.1 } else { 0 };
            joins
        });
    }
}

impl<'a> Compiler<'a> {
    fn new(program: &'a Program, env: &'a mut Environment, types: &[Type]) -> Self {
        let mut places = Vec::new();
        let mut top = 0;
        for ty in types {
            places.push(top as R);
            top += ty.words();
        }
        let never_null = vec![false; types.len()];
        let (code, labels) = (Code::default(), Vec::new());
        let words = Words { top, free: Vec::new(), lent: Vec::new() };
        let (known, row_words) = (Vec::new(), None);
        Compiler {
            program,
            env,
            types: types.to_vec(),
            places,
            never_null,
            code,
            constants: Vec::new(),
            labels,
            words,
            known,
            row_words,
        }
    }

    /// Returns the finished code if it can be run, and begins a new one with the same constants.
    fn finish(&mut self, name: &str) -> Result<Code, ProgramError> {
        self.emit(Op::Halt);
        let Code { sites, ranges, likes, substrings, calls, .. } = &self.code;
        let numbered = [sites.len(), ranges.len(), likes.len(), substrings.len(), calls.len()];
        let problem = match (self.words.top, numbered.into_iter().max()) {
            (words, _) if words > REGISTERS => {
                Some(format!("needs {words} words of registers, of which there are {REGISTERS}"))
            }
            (_, Some(count)) if count > NUMBERED_MAX => Some(format!(
                "has {count} look-ups of a kind, of which {NUMBERED_MAX} can be numbered"
            )),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(ProgramError { place: name.to_string(), problem });
        }
        let labels = core::mem::take(&mut self.labels);
        for op in &mut self.code.ops {
            if let Some(to) = op.target_mut() {
                *to = labels[*to as usize];
            }
        }
        Ok(core::mem::take(&mut self.code))
    }

    fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
    }

    fn label(&mut self) -> Target {
        self.labels.push(u32::MAX);
        self.labels.len() as u32 - 1
    }

    fn place(&mut self, label: Target) {
        self.labels[label as usize] = self.code.ops.len() as u32;
    }

    /// Lends words side by side to the present statement.
    fn block(&mut self, words: usize) -> R {
        // The run may lie beyond the file; `finish` refuses such code, so it never runs.
        (self.words.lend(words) % REGISTERS) as R
    }

    fn constant(&mut self, word: u64) -> R {
        if let Some((register, _)) = self.constants.iter().find(|(_, other)| *other == word) {
            return *register;
        }
        let register = (self.words.take(1) % REGISTERS) as R;
        self.constants.push((register, word));
        register
    }

    fn wide_constant(&mut self, value: i128) -> R {
        let words = halves(value);
        let constants = &self.constants;
        let found = constants
            .iter()
            .zip(constants.iter().skip(1))
            .find(|((a, low), (b, high))| [*low, *high] == words && *a + 1 == *b);
        if let Some(((register, _), _)) = found {
            return *register;
        }
        let register = (self.words.take(2) % REGISTERS) as R;
        self.constants.push((register, words[0]));
        self.constants.push((register + 1, words[1]));
        register
    }

    fn map(&self, map: MapId) -> &'a MapDecl {
        &self.program.maps[usize::from(map.0)]
    }

    fn plan(&mut self, plan: &Plan, fails_later: bool) {
        let mut changes = vec![0_u32; self.program.maps.len()];
        for statement in &plan.changes {
            changes[usize::from(statement.target.0)] += 1;
        }
        let mut rest = Rest { changes, adds: plan.changes.len(), fails_later };
        for node in &plan.body {
            let exit = self.label();
            self.node(node, exit, false, plan, &mut rest);
            self.place(exit);
            self.words.give_back();
            self.known.clear();
        }
    }

    /// Compiles a node of a plan. Control goes on at `exit` afterwards.
    fn node(&mut self, node: &Node, exit: Target, looped: bool, plan: &Plan, rest: &mut Rest) {
        match node {
            Node::Clear(map) => self.emit(Op::Clear { map: map.0 }),
            Node::Add(number) => {
                rest.adds -= 1;
                self.add(&plan.changes[*number], looped, rest);
            }
            Node::Step(step, inner) => {
                let known = self.known.clone();
                let next = self.step(step, exit);
                let looped = looped || next != exit;
                // From here on the registers that the step sets may have other values.
                let mut sets = Vec::new();
                node.for_each_set(&mut |reg| sets.push(reg));
                self.known.retain(|(value, _)| !sets.iter().any(|reg| mentions(value, *reg)));
                for (at, inner_node) in inner.iter().enumerate() {
                    let end = if at + 1 < inner.len() { self.label() } else { next };
                    self.node(inner_node, end, looped, plan, rest);
                    if at + 1 < inner.len() {
                        self.place(end);
                    }
                }
                self.jump_back(next, exit);
                self.known = known;
            }
        }
    }

    /// Compiles a statement's change of its target.
    fn add(&mut self, statement: &Change, looped: bool, rest: &Rest) {
        let map = self.map(statement.target);
        let mut site = Site::new(statement.target.0);
        (site.key, site.key_words) = self.key(map, &statement.key);
        site.value = self.addends(&map.payload, &statement.addends);
        site.journal = rest.fails_later || looped || rest.adds > 0;
        let alone = rest.changes[usize::from(statement.target.0)] == 1;
        if site.journal && !looped && alone && !statement.replace && self.may_undo(map, &site) {
            (site.journal, site.undo) = (false, 1 << self.code.undos.len());
            self.code.undos.push(self.code.sites.len() as u16);
            self.words.keep(site.key);
            self.words.keep(site.value);
        }
        let site = self.site(site);
        self.emit(Op::Add { site });
    }

    /// Whether an addition can be taken back from registers instead of the journal. That takes an
    /// addition that runs once per event, on a map that nothing else in the trigger changes: its
    /// key and addend stay in their registers until the next event, and changes that come later in
    /// the event are taken back first. Additions in loops and to payloads that round need the
    /// journal.
    fn may_undo(&self, map: &MapDecl, site: &Site) -> bool {
        let Some(row_words) = self.row_words else { return false };
        let declared_words: usize = self.types.iter().map(|ty| ty.words()).sum();
        let key = usize::from(site.key);
        let key_stays = key >= declared_words || key + site.key_words <= row_words;
        let exact = !map.payload.contains(&Component::Float);
        exact && key_stays && self.code.undos.len() < 64
    }

    fn site(&mut self, site: Site) -> u16 {
        self.code.sites.push(site);
        (self.code.sites.len() - 1) as u16
    }

    /// Ends the body of the innermost loop, if there is a loop.
    fn jump_back(&mut self, next: Target, exit: Target) {
        if next != exit {
            self.emit(Op::Jump { to: next });
        }
    }

    /// Compiles steps; returns where control goes when the steps behind them have ended or do not
    /// apply: to the next round of the innermost loop, or to `exit`.
    fn steps(&mut self, steps: &[Step], exit: Target) -> Target {
        let mut next = exit;
        for step in steps {
            next = self.step(step, next);
            // From here on registers may have other values.
            if !matches!(step, Step::If(_)) {
                self.known.clear();
            }
        }
        next
    }

    /// Compiles a step; returns where control goes when what follows the step has ended or does not
    /// apply.
    fn step(&mut self, step: &Step, exit: Target) -> Target {
        match step {
            Step::Let { reg, value } => {
                let never_null = self.is_never_null(value);
                let place = self.places[usize::from(reg.0)];
                if mentions(value, *reg) {
                    let a = self.expr(value);
                    self.copy(self.ty(value), place, a);
                } else {
                    self.into(value, place);
                }
                self.never_null[usize::from(reg.0)] = never_null;
            }
            Step::If(condition) => self.unless(condition, exit),
            Step::Get { map, key, payload } => {
                let mut site = Site::new(map.0);
                let map = self.map(*map);
                (site.key, site.key_words) = self.key(map, key);
                site.outs = self.outs(map, payload);
                let site = self.site(site);
                self.emit(Op::Get { site });
            }
            Step::Each { map, slice, prefix, key, payload } => {
                return self.each(*map, slice.map(|slice| slice.0), prefix, key, payload, exit);
            }
            Step::RangeSum { map, prefix, low, high, payload } => {
                let mut site = self.ordered(*map, prefix);
                let map = self.map(*map);
                let column = map.key[prefix.len()];
                site.low = self.limit(low, column);
                site.high = self.limit(high, column);
                site.outs = self.outs(map, payload);
                let site = self.site(site);
                self.emit(Op::RangeSum { site });
            }
            Step::Edge { map, prefix, last, skip_null, key } => {
                let mut site = self.ordered(*map, prefix);
                (site.backwards, site.skip_null) = (*last, *skip_null);
                site.keys = vec![self.column_out(*map, prefix.len(), *key)];
                let site = self.site(site);
                self.emit(Op::Edge { site });
            }
            Step::Search { map, prefix, descending, component, limit, key } => {
                let mut site = self.ordered(*map, prefix);
                site.backwards = *descending;
                site.component = *component;
                site.limit_type = self.ty(limit);
                site.value = self.expr(limit);
                site.keys = vec![self.column_out(*map, prefix.len(), *key)];
                let site = self.site(site);
                self.emit(Op::Search { site });
            }
            Step::Sum { steps, terms } => self.sum(steps, terms),
        }
        exit
    }

    /// Compiles a loop over entries; returns where its next round begins.
    fn each(
        &mut self,
        map: MapId,
        slice: Option<u16>,
        prefix: &[Expr],
        key: &[(u16, Reg)],
        payload: &[(u16, Reg)],
        exit: Target,
    ) -> Target {
        let declared = self.map(map);
        let mut site = Site::new(map.0);
        let types: Vec<Type> = match slice {
            None => declared.key[..prefix.len()].to_vec(),
            Some(slice) => {
                let columns = declared.slices[usize::from(slice)].iter();
                columns.map(|column| declared.key[usize::from(*column)]).collect()
            }
        };
        (site.key, site.key_words) = self.key_of(declared.ordered, &types, prefix);
        site.slice = slice;
        site.position = self.block(POSITION_WORDS);
        site.keys = self.key_outs(declared, key);
        site.outs = self.outs(declared, payload);
        let site = self.site(site);
        self.emit(Op::Start { site });
        let next = self.label();
        self.place(next);
        self.emit(Op::Next { site, to: exit });
        next
    }

    /// Compiles a nested aggregate: sums in words of their own, which are read once the loops have
    /// ended.
    fn sum(&mut self, steps: &[Step], terms: &[(Expr, Reg)]) {
        let types: Vec<Type> =
            terms.iter().map(|(_, reg)| self.types[usize::from(reg.0)]).collect();
        let sum_type = |ty: Type| if ty == Type::Float { Type::Wide } else { ty };
        let zero = self.wide_constant(0);
        let sums: Vec<R> = types.iter().map(|ty| self.block(sum_type(*ty).words())).collect();
        for (ty, sum) in types.iter().zip(&sums) {
            self.copy(sum_type(*ty), *sum, zero);
        }
        // Expressions computed within the loop are not known behind it: the loop may have run for
        // no binding.
        let known = core::mem::take(&mut self.known);
        let exit = self.label();
        let next = self.steps(steps, exit);
        for (((term, _), ty), sum) in terms.iter().zip(&types).zip(&sums) {
            let addend = self.addend(*ty, term);
            self.emit(Op::Accumulate { ty: sum_type(*ty), d: *sum, a: addend });
        }
        self.jump_back(next, exit);
        self.place(exit);
        self.known = known;
        for (((_, reg), ty), sum) in terms.iter().zip(&types).zip(&sums) {
            let place = self.places[usize::from(reg.0)];
            match ty {
                Type::Float => self.emit(Op::FromSum { d: place, a: *sum }),
                ty => self.copy(*ty, place, *sum),
            }
            self.never_null[usize::from(reg.0)] = true;
        }
    }

    /// Compiles the total of several addends, each of which counts only under its own condition.
    fn addends(&mut self, components: &[Component], addends: &[Addend]) -> R {
        let [Addend { condition: None, values }] = addends else {
            let words: usize = components.iter().map(|component| words_of(*component)).sum();
            let mut sum = None;
            for Addend { condition, values } in addends {
                let (no, end) = (self.label(), self.label());
                let known = self.known.clone();
                if let Some(condition) = condition {
                    self.unless(condition, no);
                }
                let addend = self.payload(components, values);
                if condition.is_some() {
                    self.emit(Op::Jump { to: end });
                    self.known = known;
                    self.place(no);
                    let zero = self.constant(0);
                    for word in addend..addend + words as R {
                        self.emit(Op::Move { d: word, a: zero });
                    }
                }
                if condition.is_none() {
                    self.place(no);
                }
                self.place(end);
                match sum {
                    None => sum = Some(addend),
                    Some(sum) => self.add_to(components, sum, addend),
                }
            }
            return sum.expect("at least one");
        };
        self.payload(components, values)
    }

    /// Adds components to other components, side by side, as integers.
    fn add_to(&mut self, components: &[Component], sum: R, addend: R) {
        let mut at = 0;
        for component in components {
            let (d, b) = (sum + at, addend + at);
            self.emit(match component {
                Component::Int => Op::AddInt { d, a: d, b },
                _ => Op::AddWide { d, a: d, b },
            });
            at += words_of(*component) as R;
        }
    }

    /// Compiles a value in the form in which it is added to a sum, into words of its own.
    fn addend(&mut self, ty: Type, value: &Expr) -> R {
        let component = match ty {
            Type::Int => Component::Int,
            Type::Wide => Component::Wide,
            Type::Float => Component::Float,
        };
        self.payload(&[component], core::slice::from_ref(value))
    }

    /// Compiles the addend of a payload: its components side by side.
    fn payload(&mut self, components: &[Component], values: &[Expr]) -> R {
        let words = components.iter().map(|component| words_of(*component)).sum();
        let first = self.block(words);
        let mut at = first;
        for (component, value) in components.iter().zip(values) {
            if *component == Component::Float {
                let a = self.expr(value);
                self.emit(Op::ToSum { d: at, a });
            } else {
                self.into(value, at);
                if !self.is_never_null(value) {
                    self.emit(match component {
                        Component::Int => Op::OrZero { d: at },
                        _ => Op::OrZeroWide { d: at },
                    });
                }
            }
            at += words_of(*component) as R;
        }
        first
    }

    fn key(&mut self, map: &MapDecl, values: &[Expr]) -> (R, usize) {
        self.key_of(map.ordered, &map.key, values)
    }

    /// Compiles a key, or some columns of a key, side by side and in the form of the map.
    fn key_of(&mut self, ordered: bool, types: &[Type], values: &[Expr]) -> (R, usize) {
        let words = types.iter().map(|ty| ty.words()).sum();
        // Values that stand side by side already are used where they are.
        if !ordered && !types.contains(&Type::Float) {
            let in_place = |value: &Expr| match value {
                Expr::Reg(reg) => Some(self.places[usize::from(reg.0)]),
                _ => None,
            };
            let places: Option<Vec<R>> = values.iter().map(in_place).collect();
            if let Some(places) = places.filter(|places| !places.is_empty())
                && (1..places.len())
                    .all(|at| places[at] == places[at - 1] + types[at - 1].words() as R)
            {
                return (places[0], words);
            }
        }
        let first = self.block(words);
        let mut at = first;
        for (ty, value) in types.iter().zip(values) {
            if ordered && *ty != Type::Float {
                let a = self.expr(value);
                self.emit(Op::Order { ty: *ty, d: at, a });
            } else {
                self.into(value, at);
            }
            if *ty == Type::Float {
                self.emit(Op::KeyFloat { d: at });
                if ordered {
                    self.emit(Op::Order { ty: *ty, d: at, a: at });
                }
            }
            at += ty.words() as R;
        }
        (first, words)
    }

    fn ordered(&mut self, map: MapId, prefix: &[Expr]) -> Site {
        let declared = self.map(map);
        let mut site = Site::new(map.0);
        (site.key, site.key_words) = self.key_of(true, &declared.key[..prefix.len()], prefix);
        site.column_words = declared.key[prefix.len()].words();
        site
    }

    fn limit(&mut self, bound: &Bound, column: Type) -> Limit {
        match bound {
            Bound::Open => Limit::Open,
            Bound::Included(value) => {
                Limit::Included(self.key_of(true, &[column], core::slice::from_ref(value)).0)
            }
            Bound::Excluded(value) => {
                Limit::Excluded(self.key_of(true, &[column], core::slice::from_ref(value)).0)
            }
        }
    }

    /// The transfer of the column behind a prefix, as [`Op::Edge`] and [`Op::Search`] give it.
    fn column_out(&mut self, map: MapId, column: usize, reg: Reg) -> Out {
        self.never_null[usize::from(reg.0)] = false;
        self.key_outs(self.map(map), &[(column as u16, reg)])[0]
    }

    fn key_outs(&mut self, map: &MapDecl, list: &[(u16, Reg)]) -> Vec<Out> {
        let mut outs = Vec::new();
        for (column, reg) in list {
            let column = usize::from(*column);
            let from = map.key[..column].iter().map(|ty| ty.words()).sum::<usize>() as u16;
            let kind = match map.key[column] {
                ty if map.ordered => OutKind::Ordered(ty),
                Type::Wide => OutKind::Two,
                _ => OutKind::One,
            };
            self.never_null[usize::from(reg.0)] = false;
            outs.push(Out { from, to: self.places[usize::from(reg.0)], kind });
        }
        outs
    }

    fn outs(&mut self, map: &MapDecl, list: &[(u16, Reg)]) -> Vec<Out> {
        let sums = Sums::new(&map.payload);
        let mut outs = Vec::new();
        for (component, reg) in list {
            let kind = match map.payload[usize::from(*component)] {
                Component::Int => OutKind::One,
                Component::Wide => OutKind::Two,
                Component::Float => OutKind::Sum,
            };
            let from = sums.offset(usize::from(*component)) as u16;
            self.never_null[usize::from(reg.0)] = true;
            outs.push(Out { from, to: self.places[usize::from(reg.0)], kind });
        }
        outs
    }

    fn ty(&self, expr: &Expr) -> Type {
        match expr {
            Expr::Reg(reg) => self.types[usize::from(reg.0)],
            Expr::Float(_) => Type::Float,
            Expr::Wide(_) => Type::Wide,
            Expr::Null(ty)
            | Expr::Binary(_, ty, ..)
            | Expr::Neg(ty, _)
            | Expr::Case { ty, .. }
            | Expr::Coalesce(ty, _)
            | Expr::Cast { to: ty, .. }
            | Expr::Rescale { ty, .. }
            | Expr::Within { ty, .. } => *ty,
            Expr::Call { call, .. } => Type::of(call.result()).expect("words (Program::check)"),
            _ => Type::Int,
        }
    }

    /// Whether an expression's form alone shows that its value is never NULL.
    fn is_never_null(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Reg(reg) => self.never_null[usize::from(reg.0)],
            Expr::Int(value) => *value != NULL_INT,
            Expr::Float(value) => value.to_bits() != NULL_FLOAT_BITS,
            Expr::Wide(value) => *value != NULL_WIDE,
            Expr::Binary(_, _, a, b) => self.is_never_null(a) && self.is_never_null(b),
            Expr::Neg(_, a)
            | Expr::Cast { value: a, .. }
            | Expr::Rescale { value: a, .. }
            | Expr::Within { value: a, .. } => self.is_never_null(a),
            Expr::IsNull(..) | Expr::Text(_) => true,
            _ => false,
        }
    }

    fn copy(&mut self, ty: Type, d: R, a: R) {
        if d != a {
            self.emit(if ty == Type::Wide { Op::MoveWide { d, a } } else { Op::Move { d, a } });
        }
    }

    fn all_into(&mut self, values: &[Expr], first: R) {
        let mut at = first;
        for value in values {
            self.into(value, at);
            at += self.ty(value).words() as R;
        }
    }

    /// Returns the register of an expression's value, computing the value if need be.
    fn expr(&mut self, expr: &Expr) -> R {
        match expr {
            Expr::Reg(reg) => self.places[usize::from(reg.0)],
            Expr::Int(value) => self.constant(*value as u64),
            Expr::Float(value) => self.constant(value.to_bits()),
            Expr::Wide(value) => self.wide_constant(*value),
            Expr::Null(Type::Int) => self.constant(NULL_INT as u64),
            Expr::Null(Type::Float) => self.constant(NULL_FLOAT_BITS),
            Expr::Null(Type::Wide) => self.wide_constant(NULL_WIDE),
            Expr::Text(text) => {
                let number = self.env.dictionary.intern(text);
                self.constant(number as u64)
            }
            expr => {
                if let Some((_, place)) = self.known.iter().find(|(known, _)| known == expr) {
                    return *place;
                }
                let d = self.block(self.ty(expr).words());
                self.into(expr, d);
                self.known.push((expr.clone(), d));
                d
            }
        }
    }

    /// Computes an expression into a register that the expression does not read.
    fn into(&mut self, expr: &Expr, d: R) {
        match expr {
            Expr::Reg(_)
            | Expr::Int(_)
            | Expr::Float(_)
            | Expr::Wide(_)
            | Expr::Null(_)
            | Expr::Text(_) => {
                let a = self.expr(expr);
                self.copy(self.ty(expr), d, a);
            }
            Expr::Binary(BinaryOp::Mul, Type::Wide, a, b)
                if widened(a).is_some() || widened(b).is_some() =>
            {
                let op = match (widened(a), widened(b)) {
                    (Some(a), Some(b)) => {
                        let (a, b) = (self.expr(a), self.expr(b));
                        Op::MulIntInt { d, a, b }
                    }
                    (Some(int), None) => {
                        let (b, a) = (self.expr(int), self.expr(b));
                        Op::MulWideInt { d, a, b }
                    }
                    (None, int) => {
                        let (a, b) = (self.expr(a), self.expr(int.unwrap_or(b)));
                        Op::MulWideInt { d, a, b }
                    }
                };
                self.emit(op);
            }
            Expr::Binary(op, ty, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.emit(match (op, ty) {
                    (BinaryOp::Add, Type::Wide) => Op::AddWide { d, a, b },
                    (BinaryOp::Sub, Type::Wide) => Op::SubWide { d, a, b },
                    (BinaryOp::Mul, Type::Wide) => Op::MulWide { d, a, b },
                    (BinaryOp::Add, Type::Float) => Op::AddFloat { d, a, b },
                    (BinaryOp::Sub, Type::Float) => Op::SubFloat { d, a, b },
                    (BinaryOp::Mul, Type::Float) => Op::MulFloat { d, a, b },
                    (BinaryOp::Add, Type::Int) => Op::AddInt { d, a, b },
                    (BinaryOp::Sub, Type::Int) => Op::SubInt { d, a, b },
                    (BinaryOp::Mul, Type::Int) => Op::MulInt { d, a, b },
                    (op, ty) => Op::Binary { op: *op, ty: *ty, d, a, b },
                });
            }
            Expr::Neg(ty, a) => {
                let a = self.expr(a);
                self.emit(Op::Neg { ty: *ty, d, a });
            }
            Expr::Compare(op, ty, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.emit(Op::Compare { op: *op, ty: *ty, d, a, b });
            }
            Expr::CompareText(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.emit(Op::CompareText { op: *op, d, a, b });
            }
            Expr::IsNull(ty, a) => {
                let a = self.expr(a);
                self.emit(Op::IsNull { ty: *ty, d, a });
            }
            Expr::And(list) | Expr::Or(list) => {
                let is_and = matches!(expr, Expr::And(_));
                let start = self.constant(u64::from(is_and));
                let end = self.label();
                let known = self.known.len();
                self.copy(Type::Int, d, start);
                for each in list {
                    let a = self.expr(each);
                    self.emit(match is_and {
                        true => Op::And { d, a, to: end },
                        false => Op::Or { d, a, to: end },
                    });
                }
                self.place(end);
                self.known.truncate(known);
            }
            Expr::Not(a) => {
                let a = self.expr(a);
                self.emit(Op::Not { d, a });
            }
            Expr::Case { when, otherwise, .. } => {
                let end = self.label();
                let known = self.known.len();
                for (condition, value) in when {
                    let next = self.label();
                    self.unless(condition, next);
                    self.into(value, d);
                    self.emit(Op::Jump { to: end });
                    self.place(next);
                    self.known.truncate(known);
                }
                self.into(otherwise, d);
                self.place(end);
                self.known.truncate(known);
            }
            Expr::Coalesce(ty, list) => {
                let end = self.label();
                let known = self.known.len();
                for each in list {
                    self.into(each, d);
                    self.emit(Op::UnlessNull { ty: *ty, a: d, to: end });
                }
                self.into(&Expr::Null(*ty), d);
                self.place(end);
                self.known.truncate(known);
            }
            Expr::Cast { from: Type::Int, to: Type::Wide, value } => {
                let a = self.expr(value);
                self.emit(Op::WidenInt { d, a });
            }
            Expr::Cast { from, to, value } => {
                let a = self.expr(value);
                self.emit(Op::Cast { from: *from, to: *to, d, a });
            }
            Expr::Rescale { ty, by, value } => {
                let a = self.expr(value);
                self.emit(Op::Rescale { ty: *ty, by: *by, d, a });
            }
            Expr::Within { ty, range, value } => {
                let a = self.expr(value);
                self.emit(Op::Within { ty: *ty, range: *range, d, a });
            }
            Expr::DatePart(part, a) => {
                let a = self.expr(a);
                self.emit(Op::DatePart { part: *part, d, a });
            }
            Expr::DateOf(a) => {
                let a = self.expr(a);
                self.emit(Op::DateOf { d, a });
            }
            Expr::Like { value, pattern, ignore_case, negated } => {
                let a = self.expr(value);
                let pattern = Pattern::new(pattern, Some('\\'), *ignore_case);
                self.code.likes.push(Like { pattern, negated: *negated });
                self.emit(Op::Like { like: (self.code.likes.len() - 1) as u16, d, a });
            }
            Expr::Substring { value, start, length } => {
                let a = self.expr(value);
                self.code.substrings.push((*start, *length));
                let substring = (self.code.substrings.len() - 1) as u16;
                self.emit(Op::Substring { substring, d, a });
            }
            Expr::Call { call, args } => {
                let arg_words = args.iter().map(|arg| self.ty(arg).words()).sum();
                let a = self.block(arg_words);
                self.all_into(args, a);
                let result_words = self.ty(expr).words();
                self.code.calls.push(Called { call: Arc::clone(call), arg_words, result_words });
                self.emit(Op::Call { call: (self.code.calls.len() - 1) as u16, d, a });
            }
        }
    }

    /// Compiles a jump that is taken unless a condition is true.
    fn unless(&mut self, condition: &Expr, to: Target) {
        if let Some(range) = self.range(condition) {
            self.unless_within(range, to);
            return;
        }
        match condition {
            Expr::And(list) => list.iter().for_each(|each| self.unless(each, to)),
            Expr::Or(list) => {
                let yes = self.label();
                let known = self.known.len();
                for each in list {
                    let no = self.label();
                    self.unless(each, no);
                    self.emit(Op::Jump { to: yes });
                    self.place(no);
                    self.known.truncate(known);
                }
                self.emit(Op::Jump { to });
                self.place(yes);
            }
            Expr::Compare(op, ty, a, b) => {
                let (op, a, b) = (*op, self.expr(a), self.expr(b));
                self.emit(match ty {
                    Type::Int => Op::UnlessInt { op, a, b, to },
                    ty => Op::UnlessCompare { op, ty: *ty, a, b, to },
                });
            }
            condition => {
                let a = self.expr(condition);
                self.emit(Op::Unless { a, to });
            }
        }
    }

    /// Adds a range to those tested just before, if they jump to the same target; otherwise begins
    /// a new test.
    fn unless_within(&mut self, range: Range, to: Target) {
        let count = self.code.ranges.len() as u16;
        self.code.ranges.push(range);
        let here = self.code.ops.len() as u32;
        if let Some(Op::UnlessWithin { end, to: other, .. }) = self.code.ops.last_mut()
            && *end == count
            && *other == to
            && !self.labels.contains(&here)
        {
            *end = end.wrapping_add(1);
            return;
        }
        self.emit(Op::UnlessWithin { first: count, end: count.wrapping_add(1), to });
    }

    /// The range that a comparison of a register with a constant stands for; a range never holds
    /// NULL.
    fn range(&self, condition: &Expr) -> Option<Range> {
        let Expr::Compare(op, Type::Int, a, b) = condition else { return None };
        let (op, reg, constant) = match (&**a, &**b) {
            (Expr::Reg(reg), Expr::Int(constant)) => (*op, reg, *constant),
            (Expr::Int(constant), Expr::Reg(reg)) => (op.mirrored(), reg, *constant),
            _ => return None,
        };
        Range::of(self.places[usize::from(reg.0)], op, constant)
    }
}

/// The 64-bit integer that an expression does nothing but widen.
fn widened(value: &Expr) -> Option<&Expr> {
    match value {
        Expr::Cast { from: Type::Int, to: Type::Wide, value } => Some(value),
        _ => None,
    }
}

/// Whether an expression reads a register.
fn mentions(value: &Expr, reg: Reg) -> bool {
    let mut found = false;
    for_each_within(value, &mut |each| found |= *each == Expr::Reg(reg));
    found
}
