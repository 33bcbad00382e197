//! The writer of finished programs: it leaves unused parts out and turns variables into registers.

use std::collections::{BTreeSet, HashMap};

use datafusion::common::DFSchema;
use halcyon_view::program::{
    BinaryOp, Derived, Expr, MapDecl, MapId, Program, Reg, Relation, RelationId, Statement, Step,
    Trigger, Type,
};

use crate::builder::{Bag, Builder, columns_of};
use crate::calculus::{RelationIndex, Term, Var};
use crate::certificate::Certificate;
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::expression::{binary, cast, collect_variables, substitute, variables};
use crate::parts::{self, Parts, Rank};
use crate::simplify::replace;
use crate::tidy::tidy;
use crate::{Compiled, Facts, Input, OutputColumn, viewlet};

/// The derived relation whose rows are the view.
pub(crate) struct Output {
    relation: RelationIndex,
    repeats: bool,
}

impl Builder<'_> {
    /// Makes the plan's rows a derived relation that nothing depends on.
    pub fn output(&mut self, bag: Bag) -> Result<Output> {
        match bag {
            Bag::Group(group) => {
                let is_outer = |var: &Var| self.parts.vars.get(*var).scope.is_some();
                if group.row.keys.iter().flat_map(variables).any(|var| is_outer(&var)) {
                    return Err(Unsupported::new("an outer column at this place"));
                }
                let everything = group.defaults.is_some();
                if everything {
                    let derived = self.parts.relations[group.relation].derived.as_mut();
                    derived.expect("a group is derived").exists = Expr::Int(1);
                }
                self.restrict(group.relation, &group.row, group.having.clone());
                self.set_row(group.relation, &group.row, None);
                Ok(Output { relation: group.relation, repeats: false })
            }
            Bag::Rows(rows) => {
                let group = self.distinct(rows)?;
                let derived = self.parts.relations[group.relation].derived.as_ref();
                let map = derived.expect("a group is derived").map;
                let count = Expr::Reg(Reg(self.parts.maps[map].key.len() as u16));
                self.set_row(group.relation, &group.row, Some(count));
                Ok(Output { relation: group.relation, repeats: true })
            }
        }
    }

    fn set_row(&mut self, relation: RelationIndex, row: &Term, count: Option<Expr>) {
        let derived = self.parts.relations[relation].derived.as_mut().expect("a group is derived");
        let by = columns_of(&row.atoms[0].vars, &derived.row);
        let mut values: Vec<Expr> = row.keys.iter().map(|key| replace(key, &by)).collect();
        values.extend(count);
        derived.row = values;
        self.parts.relations[relation].name = "view".to_owned();
    }
}

/// The relations and maps that the output needs, directly or not.
struct Live {
    relations: BTreeSet<usize>,
    maps: BTreeSet<usize>,
}

impl Live {
    fn of(parts: &Parts, output: RelationIndex) -> Live {
        let mut live = Live { relations: BTreeSet::new(), maps: BTreeSet::new() };
        live.relation(parts, output);
        live
    }

    fn relation(&mut self, parts: &Parts, relation: RelationIndex) {
        if !self.relations.insert(relation) {
            return;
        }
        if let Some(derived) = &parts.relations[relation].derived {
            self.map(parts, derived.map);
            for map in derived.steps.iter().filter_map(map_of) {
                self.map(parts, map);
            }
        }
    }

    fn map(&mut self, parts: &Parts, map: usize) {
        if self.maps.insert(map) {
            let atoms = parts.maps[map].terms.iter().flat_map(|term| &term.atoms);
            for relation in atoms.map(|atom| atom.relation).collect::<BTreeSet<_>>() {
                self.relation(parts, relation);
            }
        }
    }
}

fn map_of(step: &Step) -> Option<usize> {
    match step {
        Step::Get { map, .. }
        | Step::Each { map, .. }
        | Step::RangeSum { map, .. }
        | Step::Edge { map, .. }
        | Step::Search { map, .. } => Some(usize::from(map.0)),
        Step::Let { .. } | Step::If(_) | Step::Sum { .. } => None,
    }
}

/// Materialises what the blocks need and writes the program.
pub(crate) fn emit(
    mut parts: Parts,
    output: Output,
    schema: &DFSchema,
    facts: &dyn Facts,
) -> Result<Compiled> {
    viewlet::take_apart(&mut parts, output.relation);
    let live = Live::of(&parts, output.relation);
    for (at, map) in parts.maps.iter_mut().enumerate() {
        if !live.maps.contains(&at) {
            map.terms.clear();
        }
    }
    viewlet::transform(&mut parts, facts)?;
    let is_helper = |map: &usize| parts.maps[*map].canonical.is_some();
    let kept = |map: &usize| live.maps.contains(map) || is_helper(map);
    let maps: Vec<usize> = (0..parts.maps.len()).filter(kept).collect();
    let (base, derived): (Vec<usize>, Vec<usize>) =
        live.relations.iter().partition(|relation| parts.relations[**relation].derived.is_none());
    let relations: Vec<usize> = base.into_iter().chain(derived).collect();
    let writer = Writer {
        map_ids: maps.iter().enumerate().map(|(id, map)| (*map, MapId(id as u16))).collect(),
        relation_ids: relations.iter().enumerate().map(|(id, r)| (*r, id)).collect(),
        parts: &parts,
        output: output.relation,
    };
    let mut program = Program {
        output: RelationId(writer.relation_ids[&output.relation] as u16),
        output_repeats: output.repeats,
        one_row: parts
            .one_row
            .and_then(|one_row| writer.relation_ids.get(&one_row))
            .map(|id| RelationId(*id as u16)),
        ..Program::default()
    };
    program.maps = maps.iter().map(|map| writer.map(*map)).collect();
    let mut inputs = Vec::new();
    for relation in &relations {
        let used = writer.used_columns(*relation);
        program.triggers.push(writer.trigger(*relation, &used));
        program.relations.push(writer.relation(*relation, &used));
        if let Some(table) = &parts.relations[*relation].table {
            let columns = &parts.relations[*relation].columns;
            inputs.push(Input {
                relation: RelationId(writer.relation_ids[relation] as u16),
                table: table.clone(),
                columns: used.iter().map(|at| (*at, columns[*at].encoding)).collect(),
            });
        }
    }
    let mut columns = Vec::new();
    for field in schema.fields() {
        columns.push(OutputColumn {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            encoding: Encoding::of(field.data_type())?,
            nullable: field.is_nullable(),
        });
    }
    tidy(&mut program);
    let certificate = Certificate::of(&program);
    Ok(Compiled { program, columns, inputs, certificate })
}

struct Writer<'p> {
    map_ids: HashMap<usize, MapId>,
    relation_ids: HashMap<usize, usize>,
    parts: &'p Parts,
    output: RelationIndex,
}

impl Writer<'_> {
    fn map(&self, map: usize) -> MapDecl {
        let map = &self.parts.maps[map];
        let terms: Vec<String> = map.terms.iter().map(|term| self.parts.show(term)).collect();
        MapDecl {
            name: map.name.clone(),
            definition: terms.join(" + "),
            key: map.key.clone(),
            payload: map.payload.clone(),
            ordered: map.ordered,
            slices: map.slices.clone(),
        }
    }

    fn statements(&self, relation: usize) -> Vec<&parts::Statement> {
        let of_relation = |s: &&parts::Statement| s.relation == relation;
        let mut all: Vec<_> = self.parts.statements.iter().filter(of_relation).collect();
        let place = |statement: &parts::Statement| {
            let map = &self.parts.maps[statement.target];
            // Maps that only notice changes are changed before all others.
            let notices = matches!(map.rank, Rank::Everything | Rank::Thresholds);
            let first = if notices { Some(map.rank) } else { None };
            (first.is_none(), first, usize::MAX - map.degree(), map.rank, statement.target)
        };
        all.sort_by_key(|statement| place(statement));
        all
    }

    /// The columns of a relation that its trigger or the view's reader reads.
    fn used_columns(&self, relation: usize) -> Vec<usize> {
        let own = &self.parts.relations[relation];
        if relation == self.output {
            let row = &own.derived.as_ref().expect("the output is derived").row;
            return (0..row.len()).collect();
        }
        let mut used = BTreeSet::new();
        for statement in self.statements(relation) {
            for expr in statement.key.iter().chain(&statement.add) {
                collect_variables(expr, &mut used);
            }
            for step in &statement.steps {
                step.rewritten(
                    &mut |expr| {
                        collect_variables(expr, &mut used);
                        expr.clone()
                    },
                    &mut |reg| reg,
                );
            }
        }
        let columns = own.event.iter().enumerate();
        columns.filter(|(_, var)| used.contains(var)).map(|(at, _)| at).collect()
    }

    fn relation(&self, relation: usize, used: &[usize]) -> Relation {
        let own = &self.parts.relations[relation];
        let name = own.table.as_ref().map_or(own.name.clone(), |table| table.to_string());
        let Some(derived) = &own.derived else {
            return Relation {
                name,
                columns: used.iter().map(|at| own.columns[*at].ty).collect(),
                source_columns: used.iter().map(|at| *at as u16).collect(),
                never_null: used.iter().map(|at| !own.columns[*at].nullable).collect(),
                derived: None,
            };
        };
        let map = &self.parts.maps[derived.map];
        let mut registers = map.key.clone();
        registers.extend(map.payload.iter().map(|component| component.ty()));
        registers.extend(&derived.step_registers);
        let type_of = |reg: Reg| registers[usize::from(reg.0)];
        let row: Vec<Expr> = used.iter().map(|at| derived.row[*at].clone()).collect();
        let mut step = |step: &Step| {
            let renamed = step.rewritten(&mut |expr| expr.clone(), &mut |reg| reg);
            self.with_map_id(renamed)
        };
        Relation {
            name,
            columns: row.iter().map(|value| crate::expression::type_of(value, &type_of)).collect(),
            source_columns: Vec::new(),
            never_null: Vec::new(),
            derived: Some(Derived {
                map: self.map_ids[&derived.map],
                steps: derived.steps.iter().map(&mut step).collect(),
                exists: derived.exists.clone(),
                row,
                registers,
            }),
        }
    }

    fn with_map_id(&self, mut step: Step) -> Step {
        match &mut step {
            Step::Get { map, .. }
            | Step::Each { map, .. }
            | Step::RangeSum { map, .. }
            | Step::Edge { map, .. }
            | Step::Search { map, .. } => *map = self.map_ids[&usize::from(map.0)],
            Step::Sum { steps, .. } => {
                *steps = std::mem::take(steps).into_iter().map(|s| self.with_map_id(s)).collect();
            }
            Step::Let { .. } | Step::If(_) => {}
        }
        step
    }

    /// Types of the values that a statement adds.
    fn parts_of(&self, statement: &Statement) -> Vec<Type> {
        let map = self.map_ids.iter().find(|(_, id)| **id == statement.target);
        let (map, _) = map.expect("statements are on maps of the program");
        self.parts.maps[*map].payload.iter().map(|component| component.ty()).collect()
    }

    fn trigger(&self, relation: usize, used: &[usize]) -> Trigger {
        let own = &self.parts.relations[relation];
        let statements = self.statements(relation);
        if statements.is_empty() {
            return Trigger::default();
        }
        let mut registers = Registers::default();
        for at in used {
            registers.fixed(own.event[*at], own.columns[*at].ty);
        }
        registers.fixed(own.weight, Type::Int);
        let mut written = Vec::new();
        for statement in statements {
            registers.start();
            let vars = &self.parts.vars;
            let steps = statement
                .steps
                .iter()
                .map(|step| {
                    // A step's values are read before the step sets its registers.
                    let step = step.rewritten(&mut |expr| expr.clone(), &mut |reg| {
                        registers.set(reg, vars.get(reg).ty)
                    });
                    let step = rename_exprs(&step, &registers);
                    self.with_map_id(step)
                })
                .collect();
            let target = &self.parts.maps[statement.target];
            let statement = Statement {
                comment: format!("{} += d {}", target.name, statement.comment),
                steps,
                target: self.map_ids[&statement.target],
                key: statement.key.iter().map(|expr| registers.expr(expr)).collect(),
                add: statement.add.iter().map(|expr| registers.expr(expr)).collect(),
                replace: false,
            };
            match written.iter_mut().find(|(known, _)| adds_the_same(known, &statement)) {
                Some((_, times)) => *times += 1,
                None => written.push((statement, 1)),
            }
        }
        let statements = written
            .into_iter()
            .map(|(mut statement, times)| {
                let types = self.parts_of(&statement);
                for (value, ty) in statement.add.iter_mut().zip(types) {
                    let factor = cast(Expr::Int(times), Type::Int, ty);
                    let own = std::mem::replace(value, Expr::Int(0));
                    *value = binary(BinaryOp::Mul, ty, factor, own);
                }
                statement
            })
            .collect();
        Trigger { registers: registers.types, statements }
    }
}

/// Whether two statements do the same, as statements of symmetric deltas of a self-join do.
fn adds_the_same(a: &Statement, b: &Statement) -> bool {
    a.target == b.target && a.key == b.key && a.add == b.add && a.steps == b.steps
}

fn rename_exprs(step: &Step, registers: &Registers) -> Step {
    step.rewritten(&mut |expr| registers.expr(expr), &mut |reg| reg)
}

/// The registers of a trigger: the event's registers first, behind them registers that all
/// statements share.
#[derive(Default)]
struct Registers {
    types: Vec<Type>,
    event: HashMap<Var, Reg>,
    own: HashMap<Var, Reg>,
    taken: BTreeSet<u16>,
}

impl Registers {
    fn fixed(&mut self, var: Var, ty: Type) {
        self.event.insert(var, Reg(self.types.len() as u16));
        self.types.push(ty);
    }

    /// Begins a statement: the registers of the one before are free again.
    fn start(&mut self) {
        self.own.clear();
        self.taken = self.event.values().map(|reg| reg.0).collect();
    }

    fn set(&mut self, var: Var, ty: Type) -> Reg {
        let free = (0..self.types.len() as u16)
            .find(|reg| !self.taken.contains(reg) && self.types[usize::from(*reg)] == ty);
        let reg = free.unwrap_or_else(|| {
            self.types.push(ty);
            (self.types.len() - 1) as u16
        });
        self.taken.insert(reg);
        self.own.insert(var, Reg(reg));
        Reg(reg)
    }

    fn expr(&self, expr: &Expr) -> Expr {
        let by = variables(expr)
            .into_iter()
            .filter_map(|var| {
                let reg = self.own.get(&var).or_else(|| self.event.get(&var))?;
                Some((var, Expr::Reg(*reg)))
            })
            .collect();
        substitute(expr.clone(), &by)
    }
}
