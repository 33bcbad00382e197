//! Random programs under random events: machine code and operations are compared with the
//! interpreter.
//!
//! Programs have all steps and expressions that [`crate::program`] has, over two base relations, a
//! derived one with a trigger of its own, and the output. Values are from small domains with NULLs,
//! so that keys collide, groups vanish and divisions by zero happen. After every event the
//! executors must agree in the outcome, in the entries of all maps, in rows and changes, and all
//! invariants must hold.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use halcyon_value::functions::Call;

use crate::program::{
    BinaryOp, Bound, CompareOp, Component, DatePart, Derived, Expr, MapDecl, MapId, NumberRange,
    Program, Reg, Relation, RelationId, SliceId, Statement, Step, Trigger, Type,
};
use crate::random::Random;
use crate::value::Value;
use crate::{Engine, Executor, Options};

struct Generator {
    random: Random,
    maps: Vec<MapDecl>,
    registers: Vec<Type>,
    /// Registers that have a value at this point.
    set: Vec<Reg>,
    /// Whether loops are allowed here.
    loops: bool,
    /// Whether the result must not depend on the order in which events come.
    in_any_order: bool,
}

impl Generator {
    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn ty(&mut self) -> Type {
        [Type::Int, Type::Int, Type::Int, Type::Float, Type::Wide][self.below(5)]
    }

    fn map(&mut self, number: usize) -> MapDecl {
        let columns = self.below(4);
        let key: Vec<Type> = (0..columns).map(|_| self.ty()).collect();
        let mut payload = Vec::new();
        for _ in 0..1 + self.below(3) {
            let kinds = [Component::Int, Component::Int, Component::Wide, Component::Float];
            payload.push(kinds[self.below(4)]);
        }
        let ordered = columns > 0 && self.one_in(2);
        let mut slices = Vec::new();
        if !ordered && columns > 1 {
            for mask in 1..(1_u16 << columns) - 1 {
                if self.one_in(4) {
                    slices.push((0..columns as u16).filter(|bit| mask >> bit & 1 == 1).collect());
                }
            }
        }
        let definition = String::new();
        MapDecl { name: alloc::format!("m{number}"), definition, key, payload, ordered, slices }
    }

    fn new_reg(&mut self, ty: Type) -> Reg {
        self.registers.push(ty);
        Reg(self.registers.len() as u16 - 1)
    }

    fn constant(&mut self, ty: Type) -> Expr {
        if self.one_in(6) {
            return Expr::Null(ty);
        }
        match ty {
            Type::Int => Expr::Int(self.below(7) as i64 - 3),
            Type::Float => Expr::Float(FLOATS[self.below(FLOATS.len())]),
            Type::Wide => Expr::Wide((self.below(7) as i128 - 3) << (self.below(2) * 66)),
        }
    }

    fn expr(&mut self, ty: Type, depth: usize) -> Expr {
        let known: Vec<Reg> = self
            .set
            .iter()
            .copied()
            .filter(|reg| self.registers[usize::from(reg.0)] == ty)
            .collect();
        if !known.is_empty() && (depth == 0 || self.one_in(3)) {
            return Expr::Reg(known[self.below(known.len())]);
        }
        if depth == 0 || self.one_in(6) {
            return self.constant(ty);
        }
        let inner = |generator: &mut Self, ty| Box::new(generator.expr(ty, depth - 1));
        let choices = if ty == Type::Int { 19 } else { 9 };
        match self.below(choices) {
            0..=2 => {
                use BinaryOp::{Add, Div, DivRound, Mul, Rem, Sub};
                let op = [Add, Add, Sub, Mul, Mul, Div, DivRound, Rem][self.below(8)];
                Expr::Binary(op, ty, inner(self, ty), inner(self, ty))
            }
            3 => Expr::Neg(ty, inner(self, ty)),
            4 => Expr::Case {
                ty,
                when: (0..self.below(3))
                    .map(|_| (self.condition(depth - 1), self.expr(ty, depth - 1)))
                    .collect(),
                otherwise: inner(self, ty),
            },
            5 => Expr::Coalesce(ty, (0..self.below(4)).map(|_| self.expr(ty, depth - 1)).collect()),
            6 => {
                let from = self.ty();
                Expr::Cast { from, to: ty, value: inner(self, from) }
            }
            7 if ty == Type::Float => self.constant(ty),
            7 => Expr::Rescale { ty, by: self.below(5) as i8 - 2, value: inner(self, ty) },
            8 if ty == Type::Float => self.constant(ty),
            8 => {
                let (bits, digits) = ([8, 32, 64][self.below(3)], [1, 9, 20, 38][self.below(4)]);
                let bits = NumberRange::Bits(bits);
                let range = if self.one_in(2) { bits } else { NumberRange::Digits(digits) };
                Expr::Within { ty, range, value: inner(self, ty) }
            }
            9 => Expr::DatePart(
                [DatePart::Year, DatePart::Month, DatePart::DayOfWeek][self.below(3)],
                inner(self, Type::Int),
            ),
            10 => Expr::DateOf(inner(self, Type::Int)),
            11 => self.call(depth),
            _ => self.condition(depth - 1),
        }
    }

    /// A call of a function of the table: with arguments and results of one word and of two, texts,
    /// and errors.
    fn call(&mut self, depth: usize) -> Expr {
        use halcyon_value::Type as V;
        let wide = V::Decimal { precision: 30, scale: 2 };
        let (name, args, result): (_, &[V], _) = match self.below(5) {
            0 => ("bitwise_not", &[V::Int64], V::Int64),
            1 => ("abs", &[V::Int32], V::Int32),
            2 => ("length", &[V::Text], V::Int32),
            3 => ("strpos", &[V::Text, V::Text], V::Int32),
            _ => ("coalesce", &[V::Int64; 6], V::Int64),
        };
        let call = Call::exact(name, args, result).expect(name);
        let args = args.iter().map(|ty| match ty {
            V::Text => self.text(depth - 1),
            // A decimal of two words, on its way to a decimal of one word.
            V::Int32 if self.one_in(3) => Expr::Cast {
                from: Type::Wide,
                to: Type::Int,
                value: Box::new(Expr::Call {
                    call: Call::exact("abs", &[wide], wide).expect("abs").into(),
                    args: vec![self.expr(Type::Wide, depth - 1)],
                }),
            },
            _ => self.expr(Type::Int, depth - 1),
        });
        Expr::Call { args: args.collect(), call: call.into() }
    }

    fn text(&mut self, depth: usize) -> Expr {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Expr::Null(Type::Int),
            number @ 1..=4 => Expr::Text(["", "abc", "aé%", "b_"][number - 1].into()),
            5 => Expr::Substring {
                value: Box::new(self.text(depth - 1)),
                start: self.below(4) as i64 - 1,
                length: if self.one_in(2) { None } else { Some(self.below(3) as i64) },
            },
            6 => {
                use halcyon_value::Type::Text;
                let name = ["upper", "btrim", "textcat"][self.below(3)];
                let count = if name == "textcat" { 2 } else { 1 };
                let call = Call::exact(name, &[Text, Text][..count], Text).expect(name);
                let args = (0..count).map(|_| self.text(depth - 1)).collect();
                Expr::Call { call: call.into(), args }
            }
            _ => Expr::Case {
                ty: Type::Int,
                when: vec![(self.condition(depth - 1), self.text(depth - 1))],
                otherwise: Box::new(self.text(depth - 1)),
            },
        }
    }

    fn condition(&mut self, depth: usize) -> Expr {
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        let op = [Eq, Ne, Lt, Le, Gt, Ge][self.below(6)];
        let list = |generator: &mut Self| {
            (0..generator.below(4)).map(|_| generator.condition(depth.saturating_sub(1))).collect()
        };
        match self.below(if depth == 0 { 5 } else { 11 }) {
            0..=2 => {
                let ty = self.ty();
                let (a, b) = (self.expr(ty, depth.min(1)), self.expr(ty, depth.min(1)));
                Expr::Compare(op, ty, Box::new(a), Box::new(b))
            }
            3 => {
                let a = Box::new(self.expr(Type::Int, 0));
                Expr::Compare(op, Type::Int, a, Box::new(Expr::Int(self.below(5) as i64 - 2)))
            }
            4 => {
                let ty = self.ty();
                Expr::IsNull(ty, Box::new(self.expr(ty, depth.min(1))))
            }
            5 => Expr::And(list(self)),
            6 => Expr::Or(list(self)),
            7 => Expr::Not(Box::new(self.condition(depth - 1))),
            8 => Expr::CompareText(op, Box::new(self.text(1)), Box::new(self.text(1))),
            9 => Expr::Like {
                value: Box::new(self.text(1)),
                pattern: ["%", "a%", "_b%", "A\\%"][self.below(4)].into(),
                ignore_case: self.one_in(2),
                negated: self.one_in(2),
            },
            _ => self.expr(Type::Int, depth - 1),
        }
    }

    fn exprs(&mut self, types: &[Type]) -> Vec<Expr> {
        types.iter().map(|ty| self.expr(*ty, 1)).collect()
    }

    /// Registers for some of a list's columns or components.
    fn outs(&mut self, types: &[Type], set: &mut Vec<Reg>) -> Vec<(u16, Reg)> {
        let mut outs = Vec::new();
        for (index, ty) in types.iter().enumerate() {
            if !self.one_in(3) {
                let reg = self.new_reg(*ty);
                set.push(reg);
                outs.push((index as u16, reg));
            }
        }
        outs
    }

    fn steps(&mut self, readable: &[usize], depth: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.below(4) {
            let mut set = Vec::new();
            let step = match self.below(if depth == 0 { 7 } else { 8 }) {
                0 => {
                    let ty = self.ty();
                    let value = self.expr(ty, 2);
                    let reg = self.new_reg(ty);
                    set.push(reg);
                    Some(Step::Let { reg, value })
                }
                1 => Some(Step::If(self.condition(2))),
                7 => {
                    let outside = self.set.clone();
                    let loops = core::mem::replace(&mut self.loops, true);
                    let inner = self.steps(readable, depth - 1);
                    self.loops = loops;
                    let mut terms = Vec::new();
                    for _ in 0..1 + self.below(2) {
                        let ty = self.ty();
                        let term = self.expr(ty, 1);
                        terms.push((term, ty));
                    }
                    self.set = outside;
                    let terms = terms.into_iter().map(|(term, ty)| {
                        let reg = self.new_reg(ty);
                        set.push(reg);
                        (term, reg)
                    });
                    Some(Step::Sum { steps: inner, terms: terms.collect() })
                }
                _ if readable.is_empty() => None,
                _ => {
                    let number = readable[self.below(readable.len())];
                    self.map_step(number, &mut set)
                }
            };
            steps.extend(step);
            self.set.extend(set);
        }
        steps
    }

    fn map_step(&mut self, number: usize, set: &mut Vec<Reg>) -> Option<Step> {
        let declared = self.maps[number].clone();
        let map = MapId(number as u16);
        let payload_types: Vec<Type> = declared.payload.iter().map(|each| each.ty()).collect();
        if self.one_in(3) {
            let key = self.exprs(&declared.key);
            return Some(Step::Get { map, key, payload: self.outs(&payload_types, set) });
        }
        if !declared.ordered && !self.loops {
            return None;
        }
        if !declared.ordered {
            let slice = self.below(declared.slices.len() + 1).checked_sub(1);
            let types: Vec<Type> = slice.map_or(vec![], |slice| {
                declared.slices[slice].iter().map(|c| declared.key[usize::from(*c)]).collect()
            });
            let prefix = self.exprs(&types);
            let key = self.outs(&declared.key, set);
            let payload = self.outs(&payload_types, set);
            let slice = slice.map(|slice| SliceId(slice as u16));
            return Some(Step::Each { map, slice, prefix, key, payload });
        }
        let leading = self.below(declared.key.len());
        let prefix = self.exprs(&declared.key[..leading]);
        let column = declared.key[leading];
        let key = self.new_reg(column);
        Some(match self.below(4) {
            0 if self.loops => {
                let key = self.outs(&declared.key, set);
                let payload = self.outs(&payload_types, set);
                Step::Each { map, slice: None, prefix, key, payload }
            }
            1 => {
                let bound = |generator: &mut Self| match generator.below(3) {
                    0 => Bound::Open,
                    1 => Bound::Included(generator.bound(column)),
                    _ => Bound::Excluded(generator.bound(column)),
                };
                let (low, high) = (bound(self), bound(self));
                let payload = self.outs(&payload_types, set);
                Step::RangeSum { map, prefix, low, high, payload }
            }
            2 => {
                set.push(key);
                let (last, skip_null) = (self.one_in(2), self.one_in(2));
                Step::Edge { map, prefix, last, skip_null, key }
            }
            // A search needs sums that are nowhere negative, which random programs do not promise.
            _ => return None,
        })
    }

    /// A bound of a range; now and then the first or the last of all keys.
    fn bound(&mut self, column: Type) -> Expr {
        if column == Type::Int && self.one_in(6) {
            return Expr::Int([i64::MAX, -i64::MAX][self.below(2)]);
        }
        self.expr(column, 1)
    }

    /// The steps that statements of a trigger share: conditions on the row, and the first steps of
    /// an earlier statement.
    fn beginning(&mut self, target: usize, before: &[Statement], on_row: &[Step]) -> Vec<Step> {
        let mut steps = on_row.to_vec();
        if on_row.len() > 1 && self.one_in(2) {
            steps.reverse();
        }
        let Some(other) = before.get(self.below(before.len() + 1)) else { return steps };
        let usable = |step: &Step| {
            let mut reads_target = false;
            step.for_each_read(&mut |map| reads_target |= usize::from(map.0) == target);
            let loops = matches!(step, Step::Each { .. });
            !(reads_target || target == INNER_MAP && loops)
        };
        let usable = other.steps.iter().take_while(|step| usable(step)).count();
        steps = other.steps[..self.below(usable + 1)].to_vec();
        steps
    }

    /// A statement whose steps are a sum over a range of a sorted map, if there is such a map:
    /// plans may merge two of them.
    fn range_statement(&mut self, target: usize, columns: &[Type]) -> Option<Statement> {
        self.set = (0..=columns.len() as u16).map(Reg).collect();
        let ordered = (0..self.maps.len())
            .find(|map| *map != target && *map != INNER_MAP && self.maps[*map].ordered)?;
        let (map, declared) = (MapId(ordered as u16), self.maps[ordered].clone());
        let column = declared.key[0];
        let (low, high) = match self.one_in(2) {
            true => (Bound::Open, Bound::Excluded(self.bound(column))),
            false => (Bound::Included(self.bound(column)), Bound::Open),
        };
        let types: Vec<Type> = declared.payload.iter().map(|component| component.ty()).collect();
        let regs: Vec<Reg> = types.iter().map(|ty| self.new_reg(*ty)).collect();
        let payload = regs.iter().enumerate().map(|(at, reg)| (at as u16, *reg)).collect();
        let mut steps = vec![Step::RangeSum { map, prefix: vec![], low, high, payload }];
        let int = types.iter().position(|ty| *ty == Type::Int)?;
        let sum = || Box::new(Expr::Reg(regs[int]));
        if self.one_in(2) {
            let zero = Box::new(Expr::Int(0));
            steps.push(Step::If(Expr::Compare(CompareOp::Ne, Type::Int, sum(), zero)));
        }
        let weight = Box::new(Expr::Reg(Reg(columns.len() as u16)));
        let declared = self.maps[target].clone();
        let value = Expr::Binary(BinaryOp::Mul, Type::Int, weight, sum());
        let add = declared.payload.iter().map(|component| match component {
            Component::Int => value.clone(),
            Component::Wide => {
                Expr::Cast { from: Type::Int, to: Type::Wide, value: Box::new(value.clone()) }
            }
            Component::Float => Expr::Float(0.0),
        });
        let add = add.collect();
        let key = declared.key.iter().map(|ty| match ty {
            Type::Int => Expr::Int(1),
            Type::Wide => Expr::Wide(1),
            Type::Float => Expr::Float(1.0),
        });
        let key = key.collect();
        let comment = String::new();
        Some(Statement { comment, steps, target: MapId(target as u16), key, add, replace: false })
    }

    fn statement(
        &mut self,
        target: usize,
        readable: &[usize],
        columns: &[Type],
        begun: Vec<Step>,
    ) -> Statement {
        self.set = (0..=columns.len() as u16).map(Reg).collect();
        for step in &begun {
            match step {
                // Registers set within a sum are not visible outside it.
                Step::Sum { terms, .. } => self.set.extend(terms.iter().map(|(_, reg)| *reg)),
                step => step.for_each_set(&mut |reg| self.set.push(reg)),
            }
        }
        let declared = self.maps[target].clone();
        let readable: Vec<usize> = readable.iter().copied().filter(|map| *map != target).collect();
        // The order in which a loop or a clearing changes groups is the executor's own, and random
        // programs would show it through the order of the inner relation's events.
        let in_order = target == INNER_MAP;
        self.loops = !in_order;
        let mut steps = begun;
        steps.extend(self.steps(&readable, 1));
        self.loops = true;
        let key = self.exprs(&declared.key);
        let mut add = Vec::new();
        for component in &declared.payload {
            // Mostly sums that return to zero when the row is deleted.
            let weight = Expr::Reg(Reg(columns.len() as u16));
            add.push(match component {
                Component::Int if !self.one_in(4) => weight,
                component => self.expr(component.ty(), 2),
            });
        }
        let replace = !in_order && !self.in_any_order && self.one_in(8);
        let comment = String::new();
        Statement { comment, steps, target: MapId(target as u16), key, add, replace }
    }

    fn trigger(&mut self, columns: &[Type], targets: &[usize], readable: &[usize]) -> Trigger {
        self.registers = columns.to_vec();
        self.registers.push(Type::Int);
        let mut statements = Vec::new();
        self.set = (0..columns.len() as u16).map(Reg).collect();
        let on_row = if self.one_in(3) { 1 + self.below(2) } else { 0 };
        let on_row: Vec<Step> = (0..on_row).map(|_| Step::If(self.condition(1))).collect();
        for _ in 0..1 + self.below(4) {
            let target = targets[self.below(targets.len())];
            if self.one_in(4)
                && let Some(statement) = self.range_statement(target, columns)
            {
                statements.push(statement);
                continue;
            }
            let begun = self.beginning(target, &statements, &on_row);
            statements.push(self.statement(target, readable, columns, begun));
        }
        Trigger { registers: core::mem::take(&mut self.registers), statements }
    }

    /// A condition that bounds some of a map's exact sums.
    fn limits(&mut self, declared: &MapDecl) -> Expr {
        use CompareOp::{Ge, Gt, Lt};
        let mut all = Vec::new();
        for (at, component) in declared.payload.iter().enumerate() {
            let sum = Box::new(Expr::Reg(Reg((declared.key.len() + at) as u16)));
            let number = self.below(3) as i64;
            let (ty, limit) = match component {
                Component::Int => (Type::Int, Expr::Int(number)),
                Component::Wide => (Type::Wide, Expr::Wide(number.into())),
                Component::Float => continue,
            };
            if all.is_empty() || self.one_in(2) {
                let op = if all.is_empty() { Gt } else { [Gt, Ge, Lt][self.below(3)] };
                all.push(Expr::Compare(op, ty, sum, Box::new(limit)));
            }
        }
        if all.len() == 1 { all.remove(0) } else { Expr::And(all) }
    }

    fn derived(&mut self, map: usize, readable: &[usize]) -> (Derived, Vec<Type>) {
        let declared = self.maps[map].clone();
        self.registers = declared.key.clone();
        self.registers.extend(declared.payload.iter().map(|component| component.ty()));
        self.set = (0..self.registers.len() as u16).map(Reg).collect();
        let readable: Vec<usize> = readable.iter().copied().filter(|other| *other != map).collect();
        self.loops = false;
        let steps = if self.one_in(2) { self.steps(&readable, 1) } else { vec![] };
        self.loops = true;
        let exists = match self.below(3) {
            0 => Expr::Int(1),
            _ => self.condition(1),
        };
        let columns: Vec<Type> = (0..1 + self.below(3)).map(|_| self.ty()).collect();
        let is_of_key = self.one_in(2);
        if is_of_key {
            self.set = (0..declared.key.len() as u16).map(Reg).collect();
        }
        let row = self.exprs(&columns);
        let exact = |component: &Component| *component != Component::Float;
        let (steps, exists) = match declared.payload.iter().position(exact) {
            Some(_) if is_of_key => (vec![], self.limits(&declared)),
            _ => (steps, exists),
        };
        let registers = core::mem::take(&mut self.registers);
        (Derived { map: MapId(map as u16), registers, steps, exists, row }, columns)
    }

    fn program(&mut self) -> Program {
        self.maps = (0..5).map(|number| self.map(number)).collect();
        let mut program = Program { output: RelationId(3), ..Program::default() };
        for name in ["a", "b"] {
            let columns: Vec<Type> = (0..1 + self.below(3)).map(|_| self.ty()).collect();
            program.triggers.push(self.trigger(&columns, &[0, 1, 2], &[0, 1, 2]));
            program.relations.push(Relation {
                name: name.into(),
                source_columns: (0..columns.len() as u16).collect(),
                never_null: vec![],
                columns,
                derived: None,
            });
        }
        let (derived, columns) = self.derived(INNER_MAP, &[1, 2]);
        // The compiled executor notes only crossings of a relation whose row consists of key
        // columns alone, so its groups come in another order.
        self.in_any_order = derived.steps.is_empty();
        let readable: &[usize] = if self.in_any_order { &[1, 2] } else { &[1, 2, 3, 4] };
        program.triggers.push(self.trigger(&columns, &[3, 4], readable));
        self.in_any_order = false;
        let relation = |name: &str, columns, derived| Relation {
            name: name.into(),
            columns,
            source_columns: vec![],
            never_null: vec![],
            derived: Some(derived),
        };
        program.relations.push(relation("inner", columns, derived));
        let map = [0, 1, 3, 4][self.below(4)];
        let (derived, columns) = self.derived(map, &[2, 3, 4]);
        program.relations.push(relation("view", columns, derived));
        program.triggers.push(Trigger::default());
        program.maps = self.maps.clone();
        program
    }
}

/// The map whose groups are the rows of the inner relation.
const INNER_MAP: usize = 0;

const FLOATS: [f64; 7] = [0.0, -0.0, 1.5, -2.25, 0.001, 1e30, f64::INFINITY];

/// The executors that are compared with the interpreter.
const QUICK: [Executor; 2] = [Executor::Compiled, Executor::Operations];

fn engine(program: &Program, executor: Executor) -> Engine {
    let options = Options { executor, ..Options::default() };
    Engine::new(program.clone(), options).unwrap_or_else(|error| panic!("{error}\n{program}"))
}

type Changes = BTreeMap<Vec<u64>, (Option<Vec<u64>>, Option<Vec<u64>>)>;

fn drain(engine: &mut Engine) -> Option<Changes> {
    let mut changes = Changes::new();
    let drained = engine.drain_changes(|change| {
        let value = (change.old.map(<[u64]>::to_vec), change.new.map(<[u64]>::to_vec));
        assert_ne!(value.0, value.1);
        assert!(changes.insert(change.key.to_vec(), value).is_none());
    });
    drained.is_ok().then_some(changes)
}

fn rows(engine: &mut Engine) -> Option<Vec<Vec<u64>>> {
    let mut rows = Vec::new();
    let done = engine.for_each_keyed_row(|key, row| rows.push([key, row].concat()));
    rows.sort();
    done.is_ok().then_some(rows)
}

/// Another engine that knows what this one knows.
fn restored(from: &Engine, executor: Executor) -> Engine {
    let mut to = engine(from.program(), executor);
    for number in 0..from.dictionary().len() as i64 {
        assert_eq!(to.intern(from.dictionary().text(number)), number);
    }
    for map in 0..from.program().maps.len() {
        from.for_each_entry(map, &mut |key, sums| {
            to.restore(map, key, sums).expect("sums that were there fit");
            assert!(to.restore(map, &[key, &[0]].concat(), sums).is_err());
            assert!(to.restore(map, key, &sums[1..]).is_err());
        });
    }
    to.forget_changes();
    to
}

#[derive(Default)]
struct Seen {
    applied: usize,
    refused: usize,
    changes: usize,
    entries: usize,
}

fn compare(seed: u64, executor: Executor, seen: &mut Seen) {
    let random = Random::new(seed);
    let mut generator = Generator {
        random,
        maps: vec![],
        registers: vec![],
        set: vec![],
        loops: true,
        in_any_order: false,
    };
    let program = generator.program();
    let mut slow = engine(&program, Executor::Interpreted);
    let mut fast = engine(&program, executor);
    let is_native = executor == Executor::Compiled && cfg!(feature = "native");
    assert_eq!(fast.machine_code().is_ok(), is_native, "{:?}", fast.machine_code());
    let mut history: Vec<(RelationId, Vec<u64>)> = Vec::new();
    for step in 0..60 {
        let place = || alloc::format!("seed {seed}, {executor:?}, event {step}\n{program}");
        let (relation, row, weight) = if !history.is_empty() && generator.one_in(3) {
            let (relation, row) = history.swap_remove(generator.below(history.len()));
            (relation, row, -1)
        } else {
            let relation = RelationId(generator.below(2) as u16);
            let mut row = Vec::new();
            for ty in &program.relations[usize::from(relation.0)].columns {
                let value = match generator.constant(*ty) {
                    Expr::Int(value) => Value::Int(value),
                    Expr::Float(value) => Value::Float(value),
                    Expr::Wide(value) => Value::Wide(value),
                    _ => Value::null(*ty),
                };
                value.put(&mut row);
            }
            (relation, row, 1)
        };
        let before: Vec<_> = (0..5).map(|map| fast.entries(map)).collect();
        let expected = slow.apply(relation, &row, weight);
        let found = fast.apply_all(core::iter::once(Some((relation, &row[..], weight))));
        let found = found.map_err(|(met, error)| (assert_eq!(met, 0), error).1);
        assert_eq!(found.is_ok(), expected.is_ok(), "{expected:?} {found:?} {}", place());
        fast.check();
        slow.check();
        match found {
            Ok(()) if weight == 1 => history.push((relation, row)),
            Ok(()) => {}
            Err(_) => {
                let after: Vec<_> = (0..5).map(|map| fast.entries(map)).collect();
                assert_eq!(after, before, "{}", place());
            }
        }
        seen.applied += usize::from(found.is_ok());
        seen.refused += usize::from(found.is_err());
        for map in 0..5 {
            let entries = fast.entries(map);
            assert_eq!(entries, slow.entries(map), "map {map} {}", place());
            seen.entries += entries.len();
        }
        assert_eq!(rows(&mut fast), rows(&mut slow), "{}", place());
        // Machine code is made anew for it, so not often.
        if step == 30 && seed.is_multiple_of(8) {
            let changes = (drain(&mut fast), drain(&mut slow));
            assert_eq!(changes.0, changes.1, "{}", place());
            if changes.0.is_some() {
                (fast, slow) = (restored(&fast, executor), restored(&slow, Executor::Interpreted));
                assert!(drain(&mut fast).is_some_and(|changes| changes.is_empty()), "{}", place());
                seen.changes += changes.0.map_or(0, |changes| changes.len());
            }
            fast.check();
            slow.check();
        }
        if generator.one_in(4) {
            let changes = drain(&mut fast);
            assert_eq!(changes, drain(&mut slow), "{}", place());
            seen.changes += changes.map_or(0, |changes| changes.len());
            fast.check();
        }
    }
}

/// `HALCYON_VIEW_SEED=n` runs seed `n` alone; `HALCYON_FUZZ_SECONDS` sets how long to go on.
#[test]
fn fuzz_compiled_programs_do_what_interpreted_ones_do() {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let mut seen = Seen::default();
    if let Some(seed) = number("HALCYON_VIEW_SEED") {
        return QUICK.into_iter().for_each(|executor| compare(seed, executor, &mut seen));
    }
    for seed in 0..1500 {
        QUICK.into_iter().for_each(|executor| compare(seed, executor, &mut seen));
    }
    // Guards against programs that do nothing.
    assert!(seen.applied > 40_000 && seen.refused > 4_000, "{} {}", seen.applied, seen.refused);
    assert!(seen.changes > 1_900 && seen.entries > 200_000, "{} {}", seen.changes, seen.entries);
    let start = std::time::Instant::now();
    let seconds = number("HALCYON_FUZZ_SECONDS").unwrap_or(0);
    for seed in (1500..).take_while(|_| start.elapsed().as_secs() < seconds) {
        QUICK.into_iter().for_each(|executor| compare(seed, executor, &mut seen));
    }
}
