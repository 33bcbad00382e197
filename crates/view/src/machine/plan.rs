//! A trigger before it becomes code: its statements put together.
//!
//! A program says each statement by itself, which is how it can be read and what the interpreter
//! does. Many statements of a trigger ask the same things first. A *plan* asks once: conditions on
//! the event's row that all statements share are its *guard*, which most events of a selective view
//! fail; further steps that statements have in common become one, with what is nested in it as the
//! branches of a tree. Two statements that only differ in a range of the same map are added up
//! before they go to their target.
//!
//! A weight that is known disappears: with 1 and −1 most products of a trigger are none.
//!
//! Nothing of that may be seen from outside: a statement comes before another one only where neither
//! reads what the other one changes, what is asked once cannot change in between, and nothing is
//! computed that could fail where the program would not have come to it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::guard::Guard;
use crate::program::{
    BinaryOp, CompareOp, Expr, MapId, NULL_INT, Program, Reg, Statement, Step, Trigger, Type,
};
use crate::walk::for_each_within;

/// What a trigger does.
#[derive(Debug)]
pub struct Plan {
    /// Types of all registers: those of the trigger, and some more.
    pub registers: Vec<Type>,
    /// Conditions on the row without which nothing is done. They cannot fail.
    pub guard: Vec<Expr>,
    /// What is done, in this order.
    pub body: Vec<Node>,
    /// What the nodes add.
    pub statements: Vec<Statement>,
}

/// A piece of a plan.
#[derive(Debug)]
pub enum Node {
    /// A step, and what is done for every binding that it makes.
    Step(Step, Vec<Node>),
    /// A statement's change of its target.
    Add(usize),
    /// Zeroes a map.
    Clear(MapId),
}

impl Node {
    /// Calls `each` for every register that is set within.
    pub fn for_each_set(&self, each: &mut dyn FnMut(Reg)) {
        for_each_step(self, &mut |step| step.for_each_set(each));
    }
}

/// The plan of a relation's trigger, for a weight if it is known.
pub fn plan(program: &Program, relation: usize, weight: Option<i64>) -> Plan {
    let trigger = &program.triggers[relation];
    let columns = program.relations[relation].columns.len();
    let mut registers = trigger.registers.clone();
    let mut statements = trigger.statements.clone();
    if sets_up_to(trigger, columns) || statements.iter().any(|one| one.replace) {
        return Plan { registers, guard: Vec::new(), body: apart(&statements), statements };
    }
    for statement in &mut statements {
        spread_conditions(statement);
    }
    let guard = take_guard(&mut statements, columns, &program.relations[relation].columns);
    if let Some(weight) = weight {
        let weight_reg = Reg(columns as u16);
        let mut known = |value: Expr| match value {
            Expr::Reg(reg) if reg == weight_reg => Expr::Int(weight),
            other => folded(other),
        };
        for statement in &mut statements {
            let mut each = |value: &Expr| value.rewritten(&mut known);
            for step in &mut statement.steps {
                *step = step.rewritten(&mut each, &mut |reg| reg);
            }
            for value in statement.key.iter_mut().chain(&mut statement.add) {
                *value = value.rewritten(&mut known);
            }
        }
    }
    let known = &program.relations[relation].never_null;
    let mut never_null: Vec<bool> = registers.iter().map(|_| false).collect();
    for (at, never) in known.iter().enumerate().take(columns) {
        never_null[at] = *never;
    }
    if let Some(weight) = never_null.get_mut(columns) {
        *weight = true;
    }
    let eager = eager(program);
    add_up(&mut statements, &mut registers, &never_null, &eager);
    let mut body = Vec::new();
    let all = All { statements: &statements, eager: &eager };
    for number in 0..statements.len() {
        insert(&mut body, &statements[number].steps, number, &all);
    }
    Plan { registers, guard, body, statements }
}

/// A trigger's statements, with what forbids to exchange them.
struct All<'a> {
    statements: &'a [Statement],
    eager: &'a [(MapId, MapId)],
}

/// Maps of derived relations that look something up, each with those in which they do: before a group
/// of the first changes its row is computed, so the others must be as they were.
fn eager(program: &Program) -> Vec<(MapId, MapId)> {
    let mut pairs = Vec::new();
    for derived in program.relations.iter().filter_map(|relation| relation.derived.as_ref()) {
        for step in &derived.steps {
            step.for_each_read(&mut |read| pairs.push((derived.map, read)));
        }
    }
    pairs
}

/// Whether a statement sets a register of the row or the weight.
pub fn sets_up_to(trigger: &Trigger, last: usize) -> bool {
    let mut sets = false;
    for step in trigger.statements.iter().flat_map(|statement| &statement.steps) {
        step.for_each_set(&mut |reg| sets |= usize::from(reg.0) <= last);
    }
    sets
}

/// Statements one after the other.
fn apart(statements: &[Statement]) -> Vec<Node> {
    let mut body = Vec::new();
    for (number, statement) in statements.iter().enumerate() {
        if statement.replace {
            body.push(Node::Clear(statement.target));
        }
        body.push(chain(&statement.steps, number));
    }
    body
}

/// Steps nested in each other, and a change in the innermost.
fn chain(steps: &[Step], number: usize) -> Node {
    steps.iter().rev().fold(Node::Add(number), |inner, step| Node::Step(step.clone(), vec![inner]))
}

/// Makes a step of each part of a condition.
fn spread_conditions(statement: &mut Statement) {
    let mut steps = Vec::new();
    for step in &statement.steps {
        match step {
            Step::If(Expr::And(all)) => steps.extend(all.iter().cloned().map(Step::If)),
            step => steps.push(step.clone()),
        }
    }
    statement.steps = steps;
}

/// Takes the conditions that all statements begin with out of them, in whatever order they have them.
/// The others at their beginning come in one order in all.
fn take_guard(statements: &mut [Statement], columns: usize, types: &[Type]) -> Vec<Expr> {
    let mut order: Vec<Expr> = Vec::new();
    let leading = |statement: &Statement| {
        let on_row = |step: &&Step| match step {
            Step::If(condition) => is_plain(condition, columns),
            _ => false,
        };
        statement.steps.iter().take_while(on_row).count()
    };
    let condition = |step: &Step| match step {
        Step::If(condition) => condition.clone(),
        _ => unreachable!("counted above"),
    };
    let counts: Vec<usize> = statements.iter().map(leading).collect();
    for (statement, count) in statements.iter().zip(&counts) {
        for step in &statement.steps[..*count] {
            let condition = condition(step);
            if !order.contains(&condition) {
                order.push(condition);
            }
        }
    }
    let of_all = |condition: &Expr| {
        let mut each = statements.iter().zip(&counts);
        each.all(|(statement, count)| {
            statement.steps[..*count].contains(&Step::If(condition.clone()))
        })
    };
    let guard: Vec<Expr> = order
        .iter()
        .filter(|condition| of_all(condition) && Guard::can_ask(condition, types))
        .cloned()
        .collect();
    for (statement, count) in statements.iter_mut().zip(counts) {
        let rest = statement.steps.split_off(count);
        let place = |step: &Step| order.iter().position(|other| *other == condition(step));
        statement.steps.retain(|step| !guard.contains(&condition(step)));
        statement.steps.sort_by_key(place);
        statement.steps.dedup();
        statement.steps.extend(rest);
    }
    guard
}

/// Whether an expression is of the row alone and cannot fail.
fn is_plain(value: &Expr, columns: usize) -> bool {
    let mut plain = true;
    for_each_within(value, &mut |part| {
        plain &= match part {
            Expr::Reg(reg) => usize::from(reg.0) < columns,
            Expr::Int(_)
            | Expr::Wide(_)
            | Expr::Float(_)
            | Expr::Text(_)
            | Expr::Null(_)
            | Expr::Compare(..)
            | Expr::CompareText(..)
            | Expr::IsNull(..)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::Like { .. } => true,
            _ => false,
        };
    });
    plain
}

/// Puts a statement into the tree: as a further branch of what it has in common with others.
fn insert(nodes: &mut Vec<Node>, steps: &[Step], number: usize, all: &All<'_>) {
    let Some((first, rest)) = steps.split_first() else {
        nodes.push(Node::Add(number));
        return;
    };
    for at in (0..nodes.len()).rev() {
        if let Node::Step(step, inner) = &mut nodes[at]
            && step == first
            && may_share(step, inner, number, all)
        {
            insert(inner, rest, number, all);
            return;
        }
        if conflicts(&nodes[at], number, all) {
            break;
        }
    }
    nodes.push(chain(steps, number));
}

/// Whether a statement may be nested in a step that others have begun.
fn may_share(step: &Step, inner: &[Node], number: usize, all: &All<'_>) -> bool {
    let mut sets = Vec::new();
    step.for_each_set(&mut |reg| sets.push(reg));
    let mut stays = true;
    for node in inner {
        node.for_each_set(&mut |reg| stays &= !sets.contains(&reg));
    }
    let is_loop = matches!(step, Step::Each { .. });
    stays && !(is_loop && inner.iter().any(|node| conflicts(node, number, all)))
}

fn for_each_step(node: &Node, each: &mut dyn FnMut(&Step)) {
    if let Node::Step(step, inner) = node {
        each(step);
        inner.iter().for_each(|node| for_each_step(node, each));
    }
}

/// Whether a statement reads what one within the node changes, or the other way round.
fn conflicts(node: &Node, number: usize, all: &All<'_>) -> bool {
    match node {
        Node::Step(_, inner) => inner.iter().any(|node| conflicts(node, number, all)),
        Node::Add(other) => {
            let (one, other) = (&all.statements[number], &all.statements[*other]);
            must_keep_order(one, other, all.eager)
        }
        Node::Clear(_) => true,
    }
}

fn must_keep_order(one: &Statement, other: &Statement, eager: &[(MapId, MapId)]) -> bool {
    reads(one, other.target)
        || reads(other, one.target)
        || eager.contains(&(one.target, other.target))
        || eager.contains(&(other.target, one.target))
}

fn reads(statement: &Statement, map: MapId) -> bool {
    let mut found = false;
    let mut look = |read: MapId| found |= read == map;
    statement.steps.iter().for_each(|step| step.for_each_read(&mut look));
    found
}

/// Adds statements that only look ranges up to earlier ones with the same target and key.
fn add_up(
    statements: &mut Vec<Statement>,
    registers: &mut Vec<Type>,
    never_null: &[bool],
    eager: &[(MapId, MapId)],
) {
    let mut at = 1;
    while at < statements.len() {
        let found = (0..at).find(|first| {
            let (one, other) = (&statements[*first], &statements[at]);
            let between = &statements[*first..at];
            let free = between.iter().all(|between| !must_keep_order(between, other, eager));
            one.target == other.target
                && one.key == other.key
                && free
                && is_sum_of_ranges(one, registers, never_null)
                && is_sum_of_ranges(other, registers, never_null)
                && conditions_before(one) == conditions_before(other)
        });
        let Some(first) = found else {
            at += 1;
            continue;
        };
        let other = statements.remove(at);
        let other = renamed(&other, registers);
        let one = &mut statements[first];
        one.steps.retain(|step| !is_about_zero(step));
        let lookups = other.steps.iter().filter(|step| matches!(step, Step::RangeSum { .. }));
        one.steps.extend(lookups.cloned());
        for (value, more) in one.add.iter_mut().zip(other.add) {
            let ty = ty(value, registers).expect("looked at before");
            let old = core::mem::replace(value, Expr::Int(0));
            *value = Expr::Binary(BinaryOp::Add, ty, Box::new(old), Box::new(more));
        }
    }
}

/// The conditions that a statement begins with.
fn conditions_before(statement: &Statement) -> &[Step] {
    let count = statement.steps.iter().take_while(|step| matches!(step, Step::If(_))).count();
    &statement.steps[..count]
}

/// Whether a condition only spares the adding of zero: some register is not zero.
fn is_about_zero(step: &Step) -> bool {
    let Step::If(condition) = step else { return false };
    let differs = |value: &Expr| {
        matches!(value, Expr::Compare(CompareOp::Ne, _, a, b)
            if matches!(**a, Expr::Reg(_)) && matches!(**b, Expr::Int(0) | Expr::Wide(0)))
    };
    match condition {
        Expr::Or(any) => any.iter().all(differs),
        one => differs(one),
    }
}

/// Whether a statement is range sums, perhaps with conditions on the row before and some about zero
/// behind, and what it adds is never NULL, and zero without failing if the sums are.
fn is_sum_of_ranges(statement: &Statement, registers: &[Type], never_null: &[bool]) -> bool {
    let rest = &statement.steps[conditions_before(statement).len()..];
    let is_range = |step: &&Step| matches!(step, Step::RangeSum { .. });
    let ranges = rest.iter().take_while(is_range).count();
    let mut sums = Vec::new();
    rest[..ranges].iter().for_each(|step| step.for_each_set(&mut |reg| sums.push(reg)));
    let mut zero = |value: Expr| match value {
        Expr::Reg(reg) if sums.contains(&reg) => match registers[usize::from(reg.0)] {
            Type::Wide => Expr::Wide(0),
            Type::Float => Expr::Float(0.0),
            Type::Int => Expr::Int(0),
        },
        other => vanished(folded(other)),
    };
    let is_there = |value: &Expr| {
        let mut there = true;
        for_each_within(value, &mut |part| {
            if let Expr::Reg(reg) = part {
                there &= sums.contains(reg)
                    || never_null.get(usize::from(reg.0)).is_some_and(|never| *never);
            }
        });
        there
    };
    ranges > 0
        && rest[ranges..].iter().all(is_about_zero)
        && statement.add.iter().all(|value| {
            ty(value, registers).is_some()
                && is_there(value)
                && is_zero(&value.rewritten(&mut zero))
        })
}

/// Zero for a product with zero that nothing can make fail. NULL is left out of account.
fn vanished(value: Expr) -> Expr {
    let Expr::Binary(BinaryOp::Mul, _, a, b) = &value else { return value };
    match (&**a, &**b) {
        (zero, other) | (other, zero) if is_zero(zero) && never_fails(other) => zero.clone(),
        _ => value,
    }
}

fn is_zero(value: &Expr) -> bool {
    matches!(value, Expr::Int(0) | Expr::Wide(0))
}

/// The type of an expression that [`folded`] can make zero of.
fn ty(value: &Expr, registers: &[Type]) -> Option<Type> {
    match value {
        Expr::Reg(reg) => registers.get(usize::from(reg.0)).copied(),
        Expr::Int(_) => Some(Type::Int),
        Expr::Wide(_) => Some(Type::Wide),
        Expr::Binary(_, ty, ..) | Expr::Neg(ty, _) | Expr::Cast { to: ty, .. } => Some(*ty),
        _ => None,
    }
    .filter(|ty| *ty != Type::Float)
}

/// The same statement, setting registers that nothing else uses.
fn renamed(statement: &Statement, registers: &mut Vec<Type>) -> Statement {
    let mut old: Vec<Reg> = Vec::new();
    for step in &statement.steps {
        step.for_each_set(&mut |reg| old.push(reg));
    }
    let first = registers.len() as u16;
    for reg in &old {
        registers.push(registers[usize::from(reg.0)]);
    }
    let name = |reg: Reg| match old.iter().position(|other| *other == reg) {
        Some(at) => Reg(first + at as u16),
        None => reg,
    };
    let mut rename = |value: Expr| match value {
        Expr::Reg(reg) => Expr::Reg(name(reg)),
        other => other,
    };
    let mut each = |value: &Expr| value.rewritten(&mut rename);
    let step = |step: &Step| step.rewritten(&mut each, &mut |reg| name(reg));
    let steps = statement.steps.iter().map(step).collect();
    let add = statement.add.iter().map(|value| value.rewritten(&mut rename)).collect();
    Statement { steps, add, ..statement.clone() }
}

/// An expression whose parts have been folded, without products of one and minus one.
fn folded(value: Expr) -> Expr {
    use Expr::{Binary, Cast, Int, Neg, Wide};
    match value {
        Cast { from: Type::Int, to: Type::Wide, value } => match *value {
            Int(number) if number != NULL_INT => Wide(number.into()),
            Neg(Type::Int, inner) => {
                // The other way round nothing can fail either, and constants meet.
                let inner = Cast { from: Type::Int, to: Type::Wide, value: inner };
                Neg(Type::Wide, Box::new(inner))
            }
            inner => Cast { from: Type::Int, to: Type::Wide, value: Box::new(inner) },
        },
        Neg(ty, inner) => match *inner {
            Neg(_, inner) => *inner,
            Int(0) => Int(0),
            Wide(0) => Wide(0),
            inner => Neg(ty, Box::new(inner)),
        },
        Binary(BinaryOp::Mul, ty, a, b) if ty != Type::Float => match (*a, *b) {
            (Int(1) | Wide(1), other) | (other, Int(1) | Wide(1)) => other,
            (Int(-1) | Wide(-1), other) | (other, Int(-1) | Wide(-1)) => {
                folded(Neg(ty, Box::new(other)))
            }
            (Neg(_, a), Neg(_, b)) => folded(Binary(BinaryOp::Mul, ty, a, b)),
            (Neg(_, a), b) | (b, Neg(_, a)) => {
                folded(Neg(ty, Box::new(folded(Binary(BinaryOp::Mul, ty, a, Box::new(b))))))
            }
            (a, b) => Binary(BinaryOp::Mul, ty, Box::new(a), Box::new(b)),
        },
        Binary(op @ (BinaryOp::Add | BinaryOp::Sub), ty, a, b) if ty != Type::Float => {
            match (*a, *b) {
                (other, zero) if is_zero(&zero) => other,
                (zero, other) if is_zero(&zero) && op == BinaryOp::Add => other,
                (a, b) => Binary(op, ty, Box::new(a), Box::new(b)),
            }
        }
        other => other,
    }
}

/// Whether computing an expression cannot fail, whatever the registers hold.
fn never_fails(value: &Expr) -> bool {
    match value {
        Expr::Reg(_) | Expr::Int(_) | Expr::Wide(_) => true,
        Expr::Neg(_, value) | Expr::Cast { from: Type::Int, to: Type::Wide, value } => {
            never_fails(value)
        }
        Expr::Binary(BinaryOp::Mul, Type::Wide, a, b) => {
            let is_narrow = |value: &Expr| {
                matches!(value, Expr::Cast { from: Type::Int, to: Type::Wide, value }
                    if never_fails(value))
            };
            is_narrow(a) && is_narrow(b)
        }
        _ => false,
    }
}
