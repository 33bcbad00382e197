//! The check of a program: every index lies within its list, every value has the type that its
//! place asks for, every register is set before it is read, and maps have the form that their uses
//! need.
//!
//! The executors rely on all this, so [`crate::Engine::new`] checks every program.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use halcyon_value::functions::Volatility;

use crate::error::ProgramError;
use crate::machine::ORDERED_KEY_WORDS_MAX;
use crate::program::{
    Bound, Derived, Expr, MapDecl, MapId, NumberRange, Program, Reg, RelationId, Statement, Step,
    Type,
};

/// Words that the registers of one trigger may take, and likewise a key, a payload, a row or the
/// arguments of a call.
pub const REGISTER_WORDS_MAX: usize = 3000;

type Check<T = ()> = Result<T, String>;

impl Program {
    /// Checks everything documented in [`crate::program`] that can be checked without running the
    /// program.
    ///
    /// Errors: names the first place that is wrong, and what is wrong with it.
    pub fn check(&self) -> Result<(), ProgramError> {
        let at = |place: String| move |problem| ProgramError { place, problem };
        self.check_relations().map_err(at("relations".to_string()))?;
        for map in &self.maps {
            check_map(map).map_err(at(format!("map {}", map.name)))?;
        }
        for (index, relation) in self.relations.iter().enumerate() {
            let name = &relation.name;
            check_width(&relation.columns).map_err(at(format!("relation {name}")))?;
            if let Some(derived) = &relation.derived {
                self.check_derived(index, derived, &relation.columns)
                    .map_err(at(format!("derived relation {}", relation.name)))?;
            }
        }
        for (index, trigger) in self.triggers.iter().enumerate() {
            let name = &self.relations[index].name;
            self.check_registers(index).map_err(at(format!("trigger of {name}")))?;
            for (number, statement) in trigger.statements.iter().enumerate() {
                let comment = &statement.comment;
                let place = format!("trigger of {name}, statement {} ({comment})", number + 1);
                self.check_statement(index, statement).map_err(at(place))?;
            }
        }
        Ok(())
    }

    fn check_relations(&self) -> Check {
        if self.triggers.len() != self.relations.len() {
            return Err("there must be one trigger per relation".to_string());
        }
        let output = self.relations.get(usize::from(self.output.0));
        let Some(output) = output.filter(|output| output.derived.is_some()) else {
            return Err("the output must be a derived relation".to_string());
        };
        if !self.triggers[usize::from(self.output.0)].statements.is_empty() {
            return Err("the output must trigger nothing".to_string());
        }
        if self.output_repeats && output.columns.last() != Some(&Type::Int) {
            return Err("the last column of the output must count repetitions".to_string());
        }
        if let Some(one_row) = self.one_row {
            let one_row = self.relations.get(usize::from(one_row.0));
            if one_row.is_none_or(|one| one.derived.is_some() || !one.columns.is_empty()) {
                return Err(
                    "the relation of one row must be a base one without columns".to_string()
                );
            }
        }
        let first_derived = self.relations.iter().position(|relation| relation.derived.is_some());
        let last_base = self.relations.iter().rposition(|relation| relation.derived.is_none());
        if last_base > first_derived {
            return Err("base relations must come before derived ones".to_string());
        }
        Ok(())
    }

    /// Checks that a trigger's registers start with the row and the weight.
    fn check_registers(&self, index: usize) -> Check {
        let columns = &self.relations[index].columns;
        let registers = &self.triggers[index].registers;
        if self.triggers[index].statements.is_empty() && registers.is_empty() {
            return Ok(());
        }
        if !registers.starts_with(columns) || registers.get(columns.len()) != Some(&Type::Int) {
            return Err("registers must start with the columns and the weight".to_string());
        }
        check_width(registers)
    }

    fn check_derived(&self, index: usize, derived: &Derived, columns: &[Type]) -> Check {
        let map = self.map(derived.map)?;
        let mut given = map.key.clone();
        given.extend(map.payload.iter().map(|component| component.ty()));
        if !derived.registers.starts_with(&given) {
            return Err("registers must start with the map's key and payload".to_string());
        }
        check_width(&derived.registers)?;
        self.check_order(index, derived.map)?;
        let mut scope = self.scope(&derived.registers, given.len());
        scope.fixed = 0;
        for step in &derived.steps {
            if matches!(step, Step::Each { .. }) {
                return Err("a group has one row, so loops stand within sums only".to_string());
            }
            for map in maps_read(step) {
                if map == derived.map {
                    return Err("its steps must not read its own map".to_string());
                }
                self.check_order(index, map)?;
            }
            scope.step(step)?;
        }
        scope.expect(&derived.exists, Type::Int)?;
        scope.expect_all(&derived.row, columns)
    }

    /// Checks that a derived relation comes after all relations whose events change the maps it is
    /// made of.
    fn check_order(&self, index: usize, map: MapId) -> Check {
        let changes = |relation: usize| {
            self.triggers[relation].statements.iter().any(|statement| statement.target == map)
        };
        match (index..self.relations.len()).find(|relation| changes(*relation)) {
            None => Ok(()),
            Some(relation) => {
                let name = &self.relations[relation].name;
                Err(format!("it depends on {name}, which does not come before it"))
            }
        }
    }

    fn check_statement(&self, index: usize, statement: &Statement) -> Check {
        let target = self.map(statement.target)?;
        let row = self.relations[index].columns.len() + 1;
        let mut scope = self.scope(&self.triggers[index].registers, row);
        for step in &statement.steps {
            if maps_read(step).contains(&statement.target) {
                return Err("the steps must not read the target".to_string());
            }
            scope.step(step)?;
        }
        scope.expect_all(&statement.key, &target.key)?;
        let payload: Vec<Type> = target.payload.iter().map(|component| component.ty()).collect();
        scope.expect_all(&statement.add, &payload)
    }

    fn map(&self, map: MapId) -> Check<&MapDecl> {
        self.maps.get(usize::from(map.0)).ok_or_else(|| format!("there is no map {}", map.0))
    }

    fn scope<'a>(&'a self, registers: &'a [Type], set: usize) -> Scope<'a> {
        let is_set = (0..registers.len()).map(|register| register < set).collect();
        Scope { program: self, registers, is_set, fixed: set }
    }

    /// Returns the relation of a name.
    pub fn relation(&self, name: &str) -> Option<RelationId> {
        let index = self.relations.iter().position(|relation| relation.name == name)?;
        u16::try_from(index).ok().map(RelationId)
    }
}

fn check_map(map: &MapDecl) -> Check {
    if map.payload.is_empty() {
        return Err("has no component".to_string());
    }
    if map.ordered && (map.key.is_empty() || !map.slices.is_empty()) {
        return Err("an ordered map needs a key, and no slices".to_string());
    }
    check_width(&map.key)?;
    if map.payload.len() > REGISTER_WORDS_MAX / 2 {
        return Err(format!("{} components are too many", map.payload.len()));
    }
    let words: usize = map.key.iter().map(|ty| ty.words()).sum();
    if map.ordered && words > ORDERED_KEY_WORDS_MAX {
        return Err(format!("an ordered key of {words} words is too long"));
    }
    for slice in &map.slices {
        let within = slice.last().is_some_and(|last| usize::from(*last) < map.key.len());
        let ascending = slice.windows(2).all(|pair| pair[0] < pair[1]);
        if !within || !ascending || slice.len() == map.key.len() {
            return Err(format!("{slice:?} is no slice of the key"));
        }
    }
    Ok(())
}

fn check_width(registers: &[Type]) -> Check {
    let words: usize = registers.iter().map(|ty| ty.words()).sum();
    if words > REGISTER_WORDS_MAX {
        return Err(format!("{words} words side by side are more than {REGISTER_WORDS_MAX}"));
    }
    Ok(())
}

/// Returns the maps that a step reads, its inner steps included.
pub fn maps_read(step: &Step) -> Vec<MapId> {
    match step {
        Step::Let { .. } | Step::If(_) => vec![],
        Step::Get { map, .. }
        | Step::Each { map, .. }
        | Step::RangeSum { map, .. }
        | Step::Edge { map, .. }
        | Step::Search { map, .. } => vec![*map],
        Step::Sum { steps, .. } => steps.iter().flat_map(maps_read).collect(),
    }
}

/// Registers, and which of them have a value.
struct Scope<'a> {
    program: &'a Program,
    registers: &'a [Type],
    is_set: Vec<bool>,
    /// The first registers, which must not be set: the row and the weight.
    fixed: usize,
}

impl<'a> Scope<'a> {
    /// Returns an ordered map's declaration, and the type of the key column behind the prefix.
    fn ordered(&self, map: MapId, prefix: &[Expr]) -> Check<(&'a MapDecl, Type)> {
        let program: &'a Program = self.program;
        let map = program.map(map)?;
        if !map.ordered {
            return Err(format!("map {} is not ordered", map.name));
        }
        self.expect_all(prefix, &leading(map, prefix.len())?)?;
        let column = map.key.get(prefix.len()).ok_or("the prefix leaves no column")?;
        Ok((map, *column))
    }

    fn set(&mut self, register: Reg, ty: Type) -> Check {
        let index = usize::from(register.0);
        match self.registers.get(index) {
            None => Err(format!("there is no register {index}")),
            Some(_) if index < self.fixed => {
                Err(format!("register {index} is the event's, it cannot be set"))
            }
            Some(declared) if *declared != ty => {
                Err(format!("register {index} is {declared:?}, it cannot hold {ty:?}"))
            }
            Some(_) => {
                self.is_set[index] = true;
                Ok(())
            }
        }
    }

    fn step(&mut self, step: &Step) -> Check {
        match step {
            Step::Let { reg, value } => {
                let ty = self.ty(value)?;
                self.set(*reg, ty)
            }
            Step::If(condition) => self.expect(condition, Type::Int),
            Step::Get { map, key, payload } => {
                let program = self.program;
                let map = program.map(*map)?;
                self.expect_all(key, &map.key)?;
                self.set_payload(map, payload)
            }
            Step::Each { map, slice, prefix, key, payload } => {
                let program = self.program;
                let map = program.map(*map)?;
                let given = match slice {
                    None if map.ordered || prefix.is_empty() => leading(map, prefix.len())?,
                    None => return Err("a prefix needs a slice or an ordered map".to_string()),
                    Some(slice) => {
                        let columns = map.slices.get(usize::from(slice.0));
                        let columns = columns.ok_or("there is no such slice")?;
                        columns.iter().map(|column| map.key[usize::from(*column)]).collect()
                    }
                };
                self.expect_all(prefix, &given)?;
                for (column, reg) in key {
                    let ty = map.key.get(usize::from(*column)).ok_or("no such key column")?;
                    self.set(*reg, *ty)?;
                }
                self.set_payload(map, payload)
            }
            Step::RangeSum { map, prefix, low, high, payload } => {
                let (map, column) = self.ordered(*map, prefix)?;
                for bound in [low, high] {
                    if let Bound::Included(value) | Bound::Excluded(value) = bound {
                        self.expect(value, column)?;
                    }
                }
                self.set_payload(map, payload)
            }
            Step::Edge { map, prefix, key, .. } => {
                let (_, column) = self.ordered(*map, prefix)?;
                self.set(*key, column)
            }
            Step::Search { map, prefix, component, limit, key, .. } => {
                let (map, column) = self.ordered(*map, prefix)?;
                let component = map.payload.get(usize::from(*component));
                let component = component.ok_or("there is no such component")?;
                self.expect(limit, component.ty())?;
                self.set(*key, column)
            }
            Step::Sum { steps, terms } => {
                let outside = self.is_set.clone();
                for step in steps {
                    self.step(step)?;
                }
                let types: Check<Vec<Type>> = terms.iter().map(|(term, _)| self.ty(term)).collect();
                self.is_set = outside;
                for ((_, reg), ty) in terms.iter().zip(types?) {
                    self.set(*reg, ty)?;
                }
                Ok(())
            }
        }
    }

    fn set_payload(&mut self, map: &MapDecl, payload: &[(u16, Reg)]) -> Check {
        for (component, reg) in payload {
            let component = map.payload.get(usize::from(*component));
            self.set(*reg, component.ok_or("there is no such component")?.ty())?;
        }
        Ok(())
    }

    fn expect(&self, value: &Expr, ty: Type) -> Check {
        let found = self.ty(value)?;
        if found == ty { Ok(()) } else { Err(format!("{value} is {found:?}, not {ty:?}")) }
    }

    fn expect_all(&self, values: &[Expr], types: &[Type]) -> Check {
        if values.len() != types.len() {
            return Err(format!("{} values where {} belong", values.len(), types.len()));
        }
        values.iter().zip(types).try_for_each(|(value, ty)| self.expect(value, *ty))
    }

    /// Returns the type of an expression, having checked all expressions within it.
    fn ty(&self, expr: &Expr) -> Check<Type> {
        Ok(match expr {
            Expr::Reg(Reg(index)) => {
                let index = usize::from(*index);
                let ty = self.registers.get(index).ok_or_else(|| format!("no register {index}"))?;
                if !self.is_set[index] {
                    return Err(format!("register {index} is read before it is set"));
                }
                *ty
            }
            Expr::Int(_) | Expr::Text(_) => Type::Int,
            Expr::Float(_) => Type::Float,
            Expr::Wide(_) => Type::Wide,
            Expr::Null(ty) => *ty,
            Expr::Binary(_, ty, a, b) => {
                self.expect(a, *ty)?;
                self.expect(b, *ty)?;
                *ty
            }
            Expr::Neg(ty, a) => {
                self.expect(a, *ty)?;
                *ty
            }
            Expr::Compare(_, ty, a, b) => {
                self.expect(a, *ty)?;
                self.expect(b, *ty)?;
                Type::Int
            }
            Expr::CompareText(_, a, b) => {
                self.expect(a, Type::Int)?;
                self.expect(b, Type::Int)?;
                Type::Int
            }
            Expr::IsNull(ty, a) => {
                self.expect(a, *ty)?;
                Type::Int
            }
            Expr::And(list) | Expr::Or(list) => {
                list.iter().try_for_each(|each| self.expect(each, Type::Int))?;
                Type::Int
            }
            Expr::Not(a) | Expr::DatePart(_, a) | Expr::DateOf(a) => {
                self.expect(a, Type::Int)?;
                Type::Int
            }
            Expr::Case { ty, when, otherwise } => {
                for (condition, value) in when {
                    self.expect(condition, Type::Int)?;
                    self.expect(value, *ty)?;
                }
                self.expect(otherwise, *ty)?;
                *ty
            }
            Expr::Coalesce(ty, list) => {
                list.iter().try_for_each(|each| self.expect(each, *ty))?;
                *ty
            }
            Expr::Cast { from, to, value } => {
                self.expect(value, *from)?;
                *to
            }
            Expr::Rescale { ty, by, value } => {
                self.expect(value, *ty)?;
                if *ty == Type::Float || by.unsigned_abs() > 38 {
                    return Err(format!("{value} cannot be rescaled by {by} digits"));
                }
                *ty
            }
            Expr::Within { ty, range, value } => {
                self.expect(value, *ty)?;
                let exists = match range {
                    NumberRange::Bits(bits) => (1..=64).contains(bits),
                    NumberRange::Digits(digits) => (1..=38).contains(digits),
                };
                if *ty == Type::Float || !exists {
                    return Err(format!("{value} cannot be held against {range:?}"));
                }
                *ty
            }
            Expr::Like { value, .. } => {
                self.expect(value, Type::Int)?;
                Type::Int
            }
            Expr::Substring { value, length, .. } => {
                self.expect(value, Type::Int)?;
                if length.is_some_and(|length| length < 0) {
                    return Err("a substring has no negative length".to_string());
                }
                Type::Int
            }
            Expr::Call { call, args } => {
                let name = call.function().name();
                if call.function().volatility != Volatility::Immutable {
                    return Err(format!("{name} may give another value the next time"));
                }
                let words = |ty: &halcyon_value::Type| {
                    Type::of(*ty)
                        .ok_or_else(|| format!("{name}: no words hold a value of type {ty}"))
                };
                let types = call.args().iter().map(words).collect::<Check<Vec<Type>>>()?;
                check_width(&types)?;
                self.expect_all(args, &types)?;
                words(&call.result())?
            }
        })
    }
}

/// Types of the first columns of a map's key.
fn leading(map: &MapDecl, count: usize) -> Check<Vec<Type>> {
    map.key.get(..count).map(<[Type]>::to_vec).ok_or_else(|| "the prefix is too long".to_string())
}
