//! Plans: triggers whose statements have been merged, before they become code.
//!
//! A program states each statement by itself, which is how a reader and the interpreter take it.
//! But many statements of a trigger begin with the same tests and look-ups. A *plan* does these
//! once: conditions on the event's row that all statements share become its *guard*, which most
//! events of a selective view fail; further leading steps that statements have in common become one
//! node of a tree, with the rest of each statement as a branch below. Two statements that differ
//! only in the range of a map that they sum are added up before their target changes.
//!
//! Where the weight is known, its products disappear: for 1 and −1 most multiplications of a
//! trigger go.
//!
//! A plan has the same effect as its program: a statement is moved before another one only where
//! neither reads what the other changes, a shared test has the same answer for all its statements,
//! and no expression that could fail is computed where the program would not have computed it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::guard::Guard;
use crate::program::{
    BinaryOp, Expr, MapId, NULL_INT, Program, Reg, Statement, Step, Trigger, Type,
};
use crate::walk::for_each_within;

/// The plan of a trigger.
#[derive(Debug)]
pub struct Plan {
    /// Types of all registers: the trigger's own, and the plan's behind them.
    pub registers: Vec<Type>,
    /// Conditions on the row without which the trigger does nothing. They cannot fail.
    pub guard: Vec<Expr>,
    /// The tree of steps and changes, run in this order.
    pub body: Vec<Node>,
    /// The changes that the nodes of the body refer to by number.
    pub changes: Vec<Change>,
}

/// An addition to a map: one statement, or several with the same target and key.
#[derive(Clone, Debug)]
pub struct Change {
    /// The map that changes.
    pub target: MapId,
    /// The entry's key, a value per column.
    pub key: Vec<Expr>,
    /// The addends, one per statement that was merged into this change.
    pub addends: Vec<Addend>,
    /// Steps before the addition.
    steps: Vec<Step>,
    /// Whether the target is zeroed first.
    pub replace: bool,
}

/// The part of a change that one statement adds.
#[derive(Clone, Debug)]
pub struct Addend {
    /// Condition without which the addend counts as zero.
    pub condition: Option<Expr>,
    /// A value per component.
    pub values: Vec<Expr>,
}

impl Change {
    fn of(statement: &Statement) -> Change {
        Change {
            target: statement.target,
            key: statement.key.clone(),
            addends: vec![Addend { condition: None, values: statement.add.clone() }],
            steps: statement.steps.clone(),
            replace: statement.replace,
        }
    }
}

/// A piece of a plan.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few, while a program is compiled")]
pub enum Node {
    /// A step, and the nodes that are run for every binding that it makes.
    Step(Step, Vec<Node>),
    /// The change of this number (see [`Plan::changes`]).
    Add(usize),
    /// Zeroes a map.
    Clear(MapId),
}

impl Node {
    /// Calls `each` for every register that the node's steps set.
    pub fn for_each_set(&self, each: &mut dyn FnMut(Reg)) {
        for_each_step(self, &mut |step| step.for_each_set(each));
    }
}

/// Makes the plan of a relation's trigger, for a weight if the weight is known.
pub fn plan(program: &Program, relation: usize, weight: Option<i64>) -> Plan {
    let trigger = &program.triggers[relation];
    let columns = program.relations[relation].columns.len();
    let mut registers = trigger.registers.clone();
    let mut changes: Vec<Change> = trigger.statements.iter().map(Change::of).collect();
    if sets_up_to(trigger, columns) || changes.iter().any(|one| one.replace) {
        return Plan { registers, guard: Vec::new(), body: apart(&changes), changes };
    }
    for change in &mut changes {
        spread_conditions(change);
    }
    let guard = take_guard(&mut changes, columns, &program.relations[relation].columns);
    if let Some(weight) = weight {
        let weight_reg = Reg(columns as u16);
        changes.iter_mut().for_each(|change| {
            rewrite(change, &mut |reg| reg, &mut |value| match value {
                Expr::Reg(reg) if reg == weight_reg => Expr::Int(weight),
                other => folded(other),
            });
        });
    }
    let eager = eager(program);
    add_up(&mut changes, &mut registers, &eager);
    let mut body = Vec::new();
    let all = All { changes: &changes, eager: &eager };
    for (number, change) in changes.iter().enumerate() {
        insert(&mut body, &change.steps, number, &all);
    }
    Plan { registers, guard, body, changes }
}

/// Rewrites every expression of a change, inner ones first, and renames the registers that its
/// steps set.
fn rewrite(change: &mut Change, name: &mut dyn FnMut(Reg) -> Reg, f: &mut dyn FnMut(Expr) -> Expr) {
    for step in &mut change.steps {
        *step = step.rewritten(&mut |value| value.rewritten(f), name);
    }
    let addends = change
        .addends
        .iter_mut()
        .flat_map(|addend| addend.condition.iter_mut().chain(&mut addend.values));
    for value in change.key.iter_mut().chain(addends) {
        *value = value.rewritten(f);
    }
}

/// A trigger's statements, with the dependencies that fix their order.
struct All<'a> {
    changes: &'a [Change],
    eager: &'a [(MapId, MapId)],
}

/// Pairs of a derived relation's map and a map that the relation's steps look up. Before a group of
/// the first map changes, its row is computed, so the second map must still be as it was.
fn eager(program: &Program) -> Vec<(MapId, MapId)> {
    let mut pairs = Vec::new();
    for derived in program.relations.iter().filter_map(|relation| relation.derived.as_ref()) {
        for step in &derived.steps {
            step.for_each_read(&mut |read| pairs.push((derived.map, read)));
        }
    }
    pairs
}

/// Whether some statement sets a register of the row or the weight: those up to `last`.
pub fn sets_up_to(trigger: &Trigger, last: usize) -> bool {
    let mut sets = false;
    for step in trigger.statements.iter().flat_map(|statement| &statement.steps) {
        step.for_each_set(&mut |reg| sets |= usize::from(reg.0) <= last);
    }
    sets
}

/// The plan of statements one after the other, with nothing merged.
fn apart(changes: &[Change]) -> Vec<Node> {
    let mut body = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        if change.replace {
            body.push(Node::Clear(change.target));
        }
        body.push(chain(&change.steps, number));
    }
    body
}

/// Nests steps in each other, with a change in the innermost.
fn chain(steps: &[Step], number: usize) -> Node {
    steps.iter().rev().fold(Node::Add(number), |inner, step| Node::Step(step.clone(), vec![inner]))
}

/// Makes a step of each operand of an AND.
fn spread_conditions(statement: &mut Change) {
    let mut steps = Vec::new();
    for step in &statement.steps {
        match step {
            Step::If(Expr::And(all)) => steps.extend(all.iter().cloned().map(Step::If)),
            step => steps.push(step.clone()),
        }
    }
    statement.steps = steps;
}

/// Takes the conditions that every statement begins with, in any order, out of the statements and
/// returns them. The other leading conditions are brought into one order for all statements, so
/// that common ones come first together.
fn take_guard(statements: &mut [Change], columns: usize, types: &[Type]) -> Vec<Expr> {
    let mut order: Vec<Expr> = Vec::new();
    let leading = |statement: &Change| {
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

/// Whether an expression reads the row alone and cannot fail.
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

/// Puts a statement into the tree, as a branch below the steps that it has in common with earlier
/// ones.
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

/// Whether a statement may become a branch below a step of earlier statements.
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

/// Whether a statement and those within the node must keep their order.
fn conflicts(node: &Node, number: usize, all: &All<'_>) -> bool {
    match node {
        Node::Step(_, inner) => inner.iter().any(|node| conflicts(node, number, all)),
        Node::Add(other) => {
            let (one, other) = (&all.changes[number], &all.changes[*other]);
            must_keep_order(one, other, all.eager)
        }
        Node::Clear(_) => true,
    }
}

fn must_keep_order(one: &Change, other: &Change, eager: &[(MapId, MapId)]) -> bool {
    // The groups of a map are noted in the order in which they change, so that order must stay.
    one.target == other.target
        || reads(one, other.target)
        || reads(other, one.target)
        || eager.contains(&(one.target, other.target))
        || eager.contains(&(other.target, one.target))
}

fn reads(change: &Change, map: MapId) -> bool {
    let mut found = false;
    let mut look = |read: MapId| found |= read == map;
    change.steps.iter().for_each(|step| step.for_each_read(&mut look));
    found
}

/// Merges each change that consists of range sums into an earlier one with the same target and key.
fn add_up(changes: &mut Vec<Change>, registers: &mut Vec<Type>, eager: &[(MapId, MapId)]) {
    // Numbers of the changes that later ones may be merged into, ascending.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < changes.len() {
        let other = &changes[at];
        if !is_sum_of_ranges(other) {
            at += 1;
            continue;
        }
        let found = open.iter().copied().find(|first| {
            let one = &changes[*first];
            let mut between = changes[*first + 1..at].iter();
            one.target == other.target
                && one.key == other.key
                && conditions_before(one) == conditions_before(other)
                && between.all(|between| !must_keep_order(between, other, eager))
        });
        let Some(first) = found else {
            open.push(at);
            at += 1;
            continue;
        };
        let mut other = changes.remove(at);
        rename(&mut other, registers);
        conditions_to_addends(&mut other);
        let one = &mut changes[first];
        conditions_to_addends(one);
        let ranges = other.steps.into_iter().filter(|step| matches!(step, Step::RangeSum { .. }));
        one.steps.extend(ranges);
        one.addends.append(&mut other.addends);
    }
}

/// The conditions at the beginning of a change.
fn conditions_before(change: &Change) -> &[Step] {
    let count = change.steps.iter().take_while(|step| matches!(step, Step::If(_))).count();
    &change.steps[..count]
}

/// Whether a change consists of range sums, perhaps with conditions before and behind them.
fn is_sum_of_ranges(change: &Change) -> bool {
    let rest = &change.steps[conditions_before(change).len()..];
    let is_range = |step: &&Step| matches!(step, Step::RangeSum { .. });
    let ranges = rest.iter().take_while(is_range).count();
    ranges > 0 && rest[ranges..].iter().all(|step| matches!(step, Step::If(_)))
}

/// Turns the conditions behind a change's look-ups into conditions of its addends.
fn conditions_to_addends(change: &mut Change) {
    let before = conditions_before(change).len();
    let mut behind = Vec::new();
    let mut at = 0..;
    change.steps.retain(|step| match step {
        Step::If(condition) if at.next().is_some_and(|at| at >= before) => {
            behind.push(condition.clone());
            false
        }
        _ => true,
    });
    if behind.is_empty() {
        return;
    }
    for addend in &mut change.addends {
        let all = addend.condition.take().into_iter().chain(behind.iter().cloned());
        addend.condition = Some(Expr::And(all.collect()));
    }
}

/// Gives the registers that a change sets new numbers, which nothing else uses.
fn rename(change: &mut Change, registers: &mut Vec<Type>) {
    let mut old: Vec<Reg> = Vec::new();
    for step in &change.steps {
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
    rewrite(change, &mut |reg| name(reg), &mut |value| match value {
        Expr::Reg(reg) => Expr::Reg(name(reg)),
        other => other,
    });
}

/// Simplifies an expression whose operands have been simplified: products with 1 and −1 go. The
/// result fails for the same values as the expression.
fn folded(value: Expr) -> Expr {
    use BinaryOp::{Add, Mul, Sub};
    use Expr::{Binary, Cast, Float, Int, Neg, Wide};
    let is = |value: &Expr, number: i64| match value {
        Int(constant) => *constant == number,
        Wide(constant) => *constant == i128::from(number),
        Float(constant) => *constant == number as f64,
        _ => false,
    };
    let boxed = Box::new;
    match value {
        Cast { from: Type::Int, to, value } if to != Type::Int => match (*value, to) {
            (Int(number), Type::Wide) if number != NULL_INT => Wide(number.into()),
            (Int(number @ (-1 | 1)), Type::Float) => Float(number as f64),
            // Negation and widening may be exchanged because both are exact. Not so for floating
            // point: an integer zero becomes +0, and its negation would be −0.
            (Neg(Type::Int, inner), Type::Wide) => {
                Neg(to, boxed(Cast { from: Type::Int, to, value: inner }))
            }
            (inner, to) => Cast { from: Type::Int, to, value: boxed(inner) },
        },
        Neg(ty, inner) => match *inner {
            Neg(_, inner) => *inner,
            inner => Neg(ty, boxed(inner)),
        },
        Binary(Mul, ty, a, b) => match (*a, *b) {
            (one, other) | (other, one) if is(&one, 1) => other,
            (one, other) | (other, one) if is(&one, -1) => folded(Neg(ty, boxed(other))),
            (Neg(_, a), Neg(_, b)) => folded(Binary(Mul, ty, a, b)),
            (Neg(_, a), b) | (b, Neg(_, a)) => {
                folded(Neg(ty, boxed(folded(Binary(Mul, ty, a, boxed(b))))))
            }
            (a, b) => Binary(Mul, ty, boxed(a), boxed(b)),
        },
        Binary(Add, ty, a, b) => match (*a, *b) {
            (a, Neg(_, b)) => Binary(Sub, ty, boxed(a), b),
            (Neg(_, a), b) => Binary(Sub, ty, boxed(b), a),
            (a, b) => Binary(Add, ty, boxed(a), boxed(b)),
        },
        Binary(Sub, ty, a, b) => match (*a, *b) {
            (a, Neg(_, b)) => Binary(Add, ty, boxed(a), b),
            (a, b) => Binary(Sub, ty, boxed(a), boxed(b)),
        },
        other => other,
    }
}
