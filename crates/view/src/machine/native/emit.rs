//! The translation of [`Code`] into Cranelift's form: registers become values, operations instructions.
//!
//! A register lies in the register file in memory only if a called function reads or writes it; all
//! other registers live in the processor's registers alone. A value that cannot be NULL is never
//! tested for NULL.

use alloc::vec;
use alloc::vec::Vec;
use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlagsData, SigRef, Signature, StackSlot, StackSlotData,
    StackSlotKind, Type as IrType, Value,
};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, Variable};

use super::super::code::{Code, Op, Out, OutKind, R, REGISTERS};
use super::super::maps::Maps;
use super::calls::{self, SUM_WORDS, status};
use crate::program::Type;

/// Parameters of a trigger's function ([`super::Entry`]).
pub const PARAMETERS: usize = 6;

/// Flags of accesses to memory that stays in place as long as a trigger runs.
pub const TRUSTED: MemFlagsData = MemFlagsData::trusted();

/// A trigger, given as the source of a function.
pub struct Trigger<'a> {
    /// The operations.
    pub code: &'a Code,
    /// Registers that never change, with their words.
    pub constants: &'a [(R, u64)],
    /// For each word of the row, whether it is never NULL.
    pub never_null: &'a [bool],
    /// The weight; its register lies behind the row.
    pub weight: i64,
}

/// Emits a trigger's instructions into a function.
pub fn trigger(
    to: FunctionBuilder<'_>,
    config: TargetFrontendConfig,
    trigger: &Trigger<'_>,
    maps: &Maps,
) {
    let mut emitter = Emitter::new(to, config, trigger, maps);
    emitter.begin(trigger);
    emitter.operations();
    emitter.end();
}

/// A truth value, of one byte.
pub type Flag = Value;

/// Values that cannot be NULL: values of one word, and the upper words of values of two.
#[derive(Default)]
pub struct NeverNull {
    pub one: HashSet<Value>,
    pub two: HashSet<Value>,
}

/// Parameters of a trigger's function, all of them addresses.
#[derive(Clone, Copy)]
pub struct Parameters {
    /// Words of the row.
    pub row: Value,
    /// Words of the register file.
    pub words: Value,
    /// The register file as the type that operations take.
    pub registers: Value,
    pub code: Value,
    pub maps: Value,
    pub env: Value,
}

pub struct Emitter<'a, 'f> {
    pub to: FunctionBuilder<'f>,
    config: TargetFrontendConfig,
    pub code: &'a Code,
    pub maps: &'a Maps,
    constants: HashMap<R, u64>,
    variables: Vec<Option<Variable>>,
    /// For each register, whether a called function may read or write it.
    in_memory: Vec<bool>,
    pub never_null: NeverNull,
    pub parameters: Parameters,
    /// A bit for each change so far that registers can take back.
    pub done: Variable,
    /// The block that begins at an operation which something jumps to, by the operation's number.
    blocks: HashMap<usize, Block>,
    /// Numbers of the operations that something jumps back to.
    loops: HashSet<usize>,
    /// Ends with an error, whose status is its parameter.
    failed: Block,
    /// Signatures of called functions, by number of parameters and type of the result.
    signatures: HashMap<(usize, Option<IrType>), SigRef>,
    /// Memory on the stack that called functions fill.
    scratch: StackSlot,
}

impl<'a, 'f> Emitter<'a, 'f> {
    fn new(
        mut to: FunctionBuilder<'f>,
        config: TargetFrontendConfig,
        trigger: &Trigger<'a>,
        maps: &'a Maps,
    ) -> Self {
        let entry = to.create_block();
        to.append_block_params_for_function_params(entry);
        to.switch_to_block(entry);
        to.seal_block(entry);
        let &[row, words, registers, code, maps_at, env] = to.block_params(entry) else {
            unreachable!("{PARAMETERS} parameters")
        };
        let parameters = Parameters { row, words, registers, code, maps: maps_at, env };
        let done = to.declare_var(I64);
        let failed = to.create_block();
        to.append_block_param(failed, I32);
        to.set_cold_block(failed);
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, SUM_WORDS as u32 * 8, 3);
        let scratch = to.create_sized_stack_slot(slot);
        Emitter {
            to,
            config,
            code: trigger.code,
            maps,
            constants: trigger.constants.iter().copied().collect(),
            variables: vec![None; REGISTERS],
            in_memory: vec![false; REGISTERS],
            never_null: NeverNull::default(),
            parameters,
            done,
            blocks: HashMap::new(),
            loops: HashSet::new(),
            failed,
            signatures: HashMap::new(),
            scratch,
        }
    }

    /// Loads the row and the weight into their registers.
    fn begin(&mut self, trigger: &Trigger<'_>) {
        for (number, op) in self.code.ops.iter().enumerate() {
            for (first, words) in self.looked_at(op) {
                for word in 0..words {
                    self.in_memory[usize::from(first) + word] = true;
                }
            }
            if let Some(target) = op.target() {
                let to = &mut self.to;
                self.blocks.entry(target as usize).or_insert_with(|| to.create_block());
                if target as usize <= number {
                    self.loops.insert(target as usize);
                }
            }
        }
        let row = (0..trigger.never_null.len()).map(|word| {
            let flags = TRUSTED.with_readonly().with_can_move();
            self.to.ins().load(I64, flags, self.parameters.row, 8 * word as i32)
        });
        let row: Vec<Value> = row.collect();
        for (word, (value, never_null)) in row.iter().zip(trigger.never_null).enumerate() {
            if *never_null {
                self.never_null.one.insert(*value);
            }
            self.set(word as R, *value);
        }
        let weight = self.int(trigger.weight);
        self.set(row.len() as R, weight);
        let none = self.to.ins().iconst(I64, 0);
        self.to.def_var(self.done, none);
    }

    fn operations(&mut self) {
        let mut reached = true;
        for (number, op) in self.code.ops.iter().enumerate() {
            if let Some(block) = self.blocks.get(&number).copied() {
                if reached {
                    self.to.ins().jump(block, &[]);
                }
                // A block at the head of a loop has a jump back that is emitted later.
                match self.loops.contains(&number) {
                    true => self.to.switch_to_block(block),
                    false => self.enter(block),
                }
                reached = true;
            }
            if reached {
                reached = self.operation(number, op);
            }
        }
        if reached {
            self.finish();
        }
    }

    /// Emits one operation; returns whether control can reach the next one.
    fn operation(&mut self, number: usize, op: &Op) -> bool {
        match *op {
            Op::Jump { to } => {
                let block = self.blocks[&(to as usize)];
                self.to.ins().jump(block, &[]);
                return false;
            }
            Op::Halt => {
                self.finish();
                return false;
            }
            Op::UnlessWithin { first, end, to } => {
                let code = self.code;
                for range in &code.ranges[usize::from(first)..usize::from(end)] {
                    let value = self.get(range.a);
                    let holds = self.within(range, value);
                    self.unless(holds, to);
                }
            }
            Op::UnlessInt { op, a, b, to } => {
                let (a, b) = (self.get(a), self.get(b));
                let holds = self.int_holds(op, a, b);
                self.unless(holds, to);
            }
            Op::UnlessCompare { op, ty, a, b, to } => {
                let holds = self.holds(op, ty, a, b);
                self.unless(holds, to);
            }
            Op::Unless { a, to } => {
                let a = self.get(a);
                let mut holds = self.is_not(a, 0);
                if let Some(null) = self.is_null_int(a) {
                    let not_null = self.not(null);
                    holds = self.to.ins().band(holds, not_null);
                }
                self.unless(holds, to);
            }
            Op::UnlessNull { ty, a, to } => {
                let null = self.is_null(ty, a);
                self.unless(null, to);
            }
            Op::And { d, a, to } => self.connect(d, a, to, false),
            Op::Or { d, a, to } => self.connect(d, a, to, true),
            Op::Get { site } => self.get_entry(usize::from(site)),
            Op::RangeSum { site } => self.range_sum(usize::from(site)),
            Op::Add { site } => self.add_entry(usize::from(site)),
            Op::Start { site } => self.start(usize::from(site)),
            Op::Edge { site } => {
                self.call_site(address!(calls::edge), usize::from(site));
                self.load_outs(usize::from(site));
            }
            Op::Search { site } => {
                self.call_site(address!(calls::search), usize::from(site));
                self.load_outs(usize::from(site));
            }
            Op::Next { site, to } => self.next(usize::from(site), to),
            Op::Clear { map } => {
                let Parameters { maps, env, .. } = self.parameters;
                let map = self.word(usize::from(map));
                let status = self.call(address!(calls::clear), &[map, maps, env], Some(I32));
                self.fail_with(status.expect("has a result"));
            }
            _ => {
                if !self.scalar(op) {
                    self.by_operation(number, op);
                }
            }
        }
        true
    }

    /// Emits a call of the operation itself, on registers in memory.
    fn by_operation(&mut self, number: usize, op: &Op) {
        let Parameters { code, registers, maps, env, .. } = self.parameters;
        let at = self.word(number);
        let function = address!(calls::scalar);
        let status = self.call(function, &[code, at, registers, maps, env], Some(I32));
        self.fail_with(status.expect("has a result"));
        if let Some((first, words)) = self.result(op) {
            for register in first..first + words as R {
                self.reload(register);
            }
        }
    }

    /// Emits a step of AND, or of OR if `decisive` is true: a value equal to `decisive` decides,
    /// NULL is remembered.
    fn connect(&mut self, d: R, a: R, to: u32, decisive: bool) {
        let (before, value) = (self.get(d), self.get(a));
        let decided = match decisive {
            false => self.is(value, 0),
            true => {
                let not_zero = self.is_not(value, 0);
                match self.is_null_int(value) {
                    None => not_zero,
                    Some(null) => {
                        let not_null = self.not(null);
                        self.to.ins().band(not_zero, not_null)
                    }
                }
            }
        };
        let mut next = before;
        if let Some(null) = self.is_null_int(value) {
            let mark = self.int(crate::program::NULL_INT);
            next = self.to.ins().select(null, mark, before);
        }
        let result = self.int(i64::from(decisive));
        let next = self.to.ins().select(decided, result, next);
        self.set(d, next);
        let go_on = self.not(decided);
        self.unless(go_on, to);
    }

    /// Goes on emitting in a block that no further jump will target.
    pub fn enter(&mut self, block: Block) {
        self.to.switch_to_block(block);
        self.to.seal_block(block);
    }

    /// Jumps unless a flag is true.
    pub fn unless(&mut self, flag: Flag, to: u32) {
        let block = self.blocks[&(to as usize)];
        let next = self.to.create_block();
        self.to.ins().brif(flag, next, &[], block, &[]);
        self.enter(next);
    }

    /// Ends with this error if a flag is true.
    pub fn fail_if(&mut self, flag: Flag, status: u32) {
        let status = self.to.ins().iconst(I32, i64::from(status));
        let next = self.to.create_block();
        self.to.ins().brif(flag, self.failed, &[status.into()], next, &[]);
        self.enter(next);
    }

    /// Returns from the trigger with a status, unless the status says that everything has been
    /// done.
    pub fn fail_with(&mut self, status: Value) {
        let next = self.to.create_block();
        self.to.ins().brif(status, self.failed, &[status.into()], next, &[]);
        self.enter(next);
    }

    fn finish(&mut self) {
        let done = self.to.ins().iconst(I32, i64::from(status::DONE));
        self.leave(done);
    }

    /// Stores which changes can be taken back, and returns from the trigger.
    fn leave(&mut self, status: Value) {
        if !self.code.undos.is_empty() {
            let done = self.to.use_var(self.done);
            let at = core::mem::offset_of!(Maps, done) as i32;
            self.to.ins().store(TRUSTED, done, self.parameters.maps, at);
        }
        self.to.ins().return_(&[status]);
    }

    fn end(mut self) {
        self.enter(self.failed);
        let status = self.to.block_params(self.failed)[0];
        self.leave(status);
        // Seals the heads of loops, too, whose jumps back have all been emitted now.
        self.to.seal_all_blocks();
        self.to.finalize(self.config);
    }

    // Registers.

    fn variable(&mut self, register: R) -> Variable {
        let to = &mut self.to;
        *self.variables[usize::from(register)].get_or_insert_with(|| to.declare_var(I64))
    }

    /// The value of a register.
    pub fn get(&mut self, register: R) -> Value {
        match self.constants.get(&register) {
            Some(word) => self.int(*word as i64),
            None => {
                let variable = self.variable(register);
                self.to.use_var(variable)
            }
        }
    }

    /// Gives a register a value.
    pub fn set(&mut self, register: R, value: Value) {
        let variable = self.variable(register);
        self.to.def_var(variable, value);
        if self.in_memory[usize::from(register)] {
            let at = 8 * i32::from(register);
            self.to.ins().store(TRUSTED, value, self.parameters.words, at);
        }
    }

    pub fn get_wide(&mut self, register: R) -> [Value; 2] {
        [self.get(register), self.get(register + 1)]
    }

    pub fn set_wide(&mut self, register: R, [low, high]: [Value; 2]) {
        self.set(register, low);
        self.set(register + 1, high);
    }

    /// Loads the value that a called function has given to a register.
    fn reload(&mut self, register: R) {
        let at = 8 * i32::from(register);
        let value = self.to.ins().load(I64, TRUSTED, self.parameters.words, at);
        let variable = self.variable(register);
        self.to.def_var(variable, value);
    }

    /// Loads the registers that an operation on a map has set.
    pub fn load_outs(&mut self, site: usize) {
        let code = self.code;
        let site = &code.sites[site];
        for out in site.keys.iter().chain(&site.outs) {
            for word in 0..words_of(out) {
                self.reload(out.to + word as R);
            }
        }
    }

    /// An integer.
    pub fn int(&mut self, value: i64) -> Value {
        let constant = self.to.ins().iconst(I64, value);
        if value != crate::program::NULL_INT {
            self.never_null.one.insert(constant);
        }
        constant
    }

    /// An integer constant: a number of something, or an address.
    pub fn word(&mut self, value: usize) -> Value {
        self.to.ins().iconst(I64, value as i64)
    }

    pub fn is(&mut self, value: Value, other: i64) -> Flag {
        let other = self.to.ins().iconst(I64, other);
        self.to.ins().icmp(IntCC::Equal, value, other)
    }

    pub fn is_not(&mut self, value: Value, other: i64) -> Flag {
        let other = self.to.ins().iconst(I64, other);
        self.to.ins().icmp(IntCC::NotEqual, value, other)
    }

    pub fn not(&mut self, flag: Flag) -> Flag {
        let one = self.to.ins().iconst(I8, 1);
        self.to.ins().bxor(flag, one)
    }

    // Calls.

    /// Emits a call of a function that takes these words.
    pub fn call(
        &mut self,
        function: usize,
        with: &[Value],
        gives: Option<IrType>,
    ) -> Option<Value> {
        let (to, config) = (&mut self.to, self.config);
        let signature = *self.signatures.entry((with.len(), gives)).or_insert_with(|| {
            let mut signature = Signature::new(config.default_call_conv);
            signature.params.extend(with.iter().map(|_| AbiParam::new(I64)));
            signature.returns.extend(gives.map(AbiParam::new));
            to.import_signature(signature)
        });
        let address = self.to.ins().iconst(I64, function as i64);
        let call = self.to.ins().call_indirect(signature, address, with);
        gives.map(|_| self.to.inst_results(call)[0])
    }

    /// Emits a call of a function that takes code, site, registers and maps.
    pub fn call_site(&mut self, function: usize, site: usize) {
        let Parameters { code, registers, maps, .. } = self.parameters;
        let site = self.word(site);
        self.call(function, &[code, site, registers, maps], None);
    }

    /// The address at which called functions leave words.
    pub fn scratch(&mut self) -> Value {
        self.to.ins().stack_addr(I64, self.scratch, 0)
    }

    /// Loads a word that a called function has left.
    pub fn scratch_word(&mut self, word: usize) -> Value {
        let at = self.scratch();
        self.to.ins().load(I64, TRUSTED, at, 8 * word as i32)
    }

    // The registers below are those that called functions read or write.

    /// Runs of registers that an operation reads from memory or writes there: the first, and their
    /// number.
    fn looked_at(&self, op: &Op) -> Vec<(R, usize)> {
        let mut all = Vec::new();
        match *op {
            Op::Start { site } | Op::Next { site, .. } | Op::Get { site } | Op::Add { site } => {
                let site = &self.code.sites[usize::from(site)];
                all.push((site.key, site.key_words));
                if matches!(op, Op::Add { .. }) {
                    let words = self.maps.all[usize::from(site.map)].sums.words();
                    all.push((site.value, words));
                }
            }
            Op::RangeSum { site } | Op::Edge { site } | Op::Search { site } => {
                let site = &self.code.sites[usize::from(site)];
                if !matches!(op, Op::RangeSum { .. }) || self.tree_of_one_word(site).is_none() {
                    use super::super::code::Limit::{Excluded, Included};
                    all.push((site.key, site.key_words));
                    for limit in [site.low, site.high] {
                        if let Included(first) | Excluded(first) = limit {
                            all.push((first, site.column_words));
                        }
                    }
                    if matches!(op, Op::Search { .. }) {
                        all.push((site.value, site.limit_type.words()));
                    }
                }
            }
            Op::Binary { ty, a, b, .. } => all.extend([(a, ty.words()), (b, ty.words())]),
            Op::CompareText { a, b, .. } => all.extend([(a, 1), (b, 1)]),
            Op::Cast { from, a, .. } => all.push((a, from.words())),
            Op::Rescale { ty, a, .. } | Op::Within { ty, a, .. } => all.push((a, ty.words())),
            Op::DatePart { a, .. }
            | Op::DateOf { a, .. }
            | Op::Like { a, .. }
            | Op::Substring { a, .. } => all.push((a, 1)),
            Op::Call { call, a, .. } => {
                all.push((a, self.code.calls[usize::from(call)].arg_words));
            }
            _ => {}
        }
        all
    }

    /// The registers that an operation sets if [`calls::scalar`] runs it.
    fn result(&self, op: &Op) -> Option<(R, usize)> {
        match *op {
            Op::Binary { ty, d, .. } | Op::Rescale { ty, d, .. } | Op::Within { ty, d, .. } => {
                Some((d, ty.words()))
            }
            Op::Cast { to, d, .. } => Some((d, to.words())),
            Op::Call { call, d, .. } => Some((d, self.code.calls[usize::from(call)].result_words)),
            Op::CompareText { d, .. }
            | Op::DatePart { d, .. }
            | Op::DateOf { d, .. }
            | Op::Like { d, .. }
            | Op::Substring { d, .. } => Some((d, 1)),
            _ => None,
        }
    }
}

/// Registers that a transfer from an entry fills.
pub fn words_of(out: &Out) -> usize {
    match out.kind {
        OutKind::Two | OutKind::Ordered(Type::Wide) => 2,
        OutKind::One | OutKind::Sum | OutKind::Ordered(_) => 1,
    }
}
