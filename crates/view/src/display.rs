//! Programs as text, for EXPLAIN (TRIGGERS): relations, maps, then what each event does.
//!
//! Registers are `r0`, `r1`, …; in a trigger the first are the row's columns and the weight.

use core::fmt::{self, Display, Formatter};

use crate::program::{
    BinaryOp, Bound, CompareOp, Derived, Expr, MapDecl, MapId, NumberRange, Program, Reg, Relation,
    Statement, Step, Type,
};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for map in &self.maps {
            map_decl(f, map)?;
        }
        for (index, relation) in self.relations.iter().enumerate() {
            writeln!(f)?;
            self.relation_text(f, index, relation)?;
            if let Some(trigger) = self.triggers.get(index) {
                for statement in &trigger.statements {
                    self.statement(f, statement)?;
                }
            }
        }
        Ok(())
    }
}

impl Program {
    fn name(&self, map: MapId) -> &str {
        self.maps.get(usize::from(map.0)).map_or("?", |map| &map.name)
    }

    fn relation_text(
        &self,
        f: &mut Formatter<'_>,
        index: usize,
        relation: &Relation,
    ) -> fmt::Result {
        let name = &relation.name;
        let columns = relation.columns.len();
        match &relation.derived {
            None => write!(f, "on {name}(")?,
            Some(_) if index == usize::from(self.output.0) => write!(f, "view {name}(")?,
            Some(_) => write!(f, "on {name}(")?,
        }
        for (column, ty) in relation.columns.iter().enumerate() {
            let comma = if column > 0 { ", " } else { "" };
            write!(f, "{comma}r{column} {}", type_name(*ty))?;
        }
        write!(f, ") times r{columns}")?;
        match &relation.derived {
            None => writeln!(f),
            Some(derived) => self.derived(f, derived),
        }
    }

    fn derived(&self, f: &mut Formatter<'_>, derived: &Derived) -> fmt::Result {
        writeln!(f, ", a row per group of {}", self.name(derived.map))?;
        for step in &derived.steps {
            self.step(f, step, 1)?;
        }
        write!(f, "  row (")?;
        list(f, &derived.row)?;
        writeln!(f, ") if {}", derived.exists)
    }

    fn statement(&self, f: &mut Formatter<'_>, statement: &Statement) -> fmt::Result {
        if !statement.comment.is_empty() {
            writeln!(f, "  -- {}", statement.comment)?;
        }
        let mut depth = 1;
        if statement.replace {
            writeln!(f, "  clear {}", self.name(statement.target))?;
        }
        for step in &statement.steps {
            self.step(f, step, depth)?;
            depth += usize::from(matches!(step, Step::Each { .. } | Step::If(_)));
        }
        indent(f, depth)?;
        write!(f, "{}[", self.name(statement.target))?;
        list(f, &statement.key)?;
        write!(f, "] += ")?;
        list(f, &statement.add)?;
        writeln!(f)
    }

    fn step(&self, f: &mut Formatter<'_>, step: &Step, depth: usize) -> fmt::Result {
        indent(f, depth)?;
        match step {
            Step::Let { reg, value } => writeln!(f, "{reg} = {value}"),
            Step::If(condition) => writeln!(f, "if {condition}"),
            Step::Get { map, key, payload } => {
                registers(f, "", payload)?;
                write!(f, " = {}[", self.name(*map))?;
                list(f, key)?;
                writeln!(f, "]")
            }
            Step::Each { map, slice, prefix, key, payload } => {
                write!(f, "for each ")?;
                registers(f, "key", key)?;
                write!(f, " -> ")?;
                registers(f, "", payload)?;
                write!(f, " in {}", self.name(*map))?;
                if !prefix.is_empty() {
                    write!(f, " where ")?;
                    self.slice(f, *map, slice.map(|slice| slice.0), prefix)?;
                }
                writeln!(f)
            }
            Step::RangeSum { map, prefix, low, high, payload } => {
                registers(f, "", payload)?;
                write!(f, " = sum of {}[", self.name(*map))?;
                leading(f, prefix)?;
                match low {
                    Bound::Open => write!(f, "..")?,
                    Bound::Included(value) => write!(f, "from {value} ..")?,
                    Bound::Excluded(value) => write!(f, "above {value} ..")?,
                }
                match high {
                    Bound::Open => {}
                    Bound::Included(value) => write!(f, " to {value}")?,
                    Bound::Excluded(value) => write!(f, " below {value}")?,
                }
                writeln!(f, "]")
            }
            Step::Edge { map, prefix, last, skip_null, key } => {
                let which = if *last { "last" } else { "first" };
                let null = if *skip_null { " not null" } else { "" };
                write!(f, "{key} = {which}{null} of {}[", self.name(*map))?;
                list(f, prefix)?;
                writeln!(f, "]")
            }
            Step::Search { map, prefix, descending, component, limit, key } => {
                let way = if *descending { "descending" } else { "ascending" };
                write!(f, "{key} = first in {}[", self.name(*map))?;
                list(f, prefix)?;
                writeln!(f, "], {way}, where the sum of component {component} exceeds {limit}")
            }
            Step::Sum { steps, terms } => {
                writeln!(f, "sum")?;
                for step in steps {
                    self.step(f, step, depth + 1)?;
                }
                for (term, reg) in terms {
                    indent(f, depth + 1)?;
                    writeln!(f, "{reg} += {term}")?;
                }
                Ok(())
            }
        }
    }

    /// `column 1 = x and column 3 = y`
    fn slice(
        &self,
        f: &mut Formatter<'_>,
        map: MapId,
        slice: Option<u16>,
        prefix: &[Expr],
    ) -> fmt::Result {
        let columns = slice
            .and_then(|slice| self.maps.get(usize::from(map.0))?.slices.get(usize::from(slice)));
        for (at, value) in prefix.iter().enumerate() {
            let and = if at > 0 { " and " } else { "" };
            let column =
                columns.and_then(|columns| columns.get(at)).map_or(at, |c| usize::from(*c));
            write!(f, "{and}column {column} = {value}")?;
        }
        Ok(())
    }
}

fn map_decl(f: &mut Formatter<'_>, map: &MapDecl) -> fmt::Result {
    let kind = if map.ordered { "ordered map" } else { "map" };
    write!(f, "{kind} {}[", map.name)?;
    for (at, ty) in map.key.iter().enumerate() {
        write!(f, "{}{}", if at > 0 { ", " } else { "" }, type_name(*ty))?;
    }
    write!(f, "] ->")?;
    for component in &map.payload {
        write!(f, " {component:?}")?;
    }
    for slice in &map.slices {
        write!(f, ", by columns {slice:?}")?;
    }
    writeln!(f)?;
    if map.definition.is_empty() { Ok(()) } else { writeln!(f, "  -- {}", map.definition) }
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Int => "int",
        Type::Float => "float",
        Type::Wide => "wide",
    }
}

fn indent(f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    (0..depth).try_for_each(|_| f.write_str("  "))
}

fn list(f: &mut Formatter<'_>, values: &[Expr]) -> fmt::Result {
    for (at, value) in values.iter().enumerate() {
        write!(f, "{}{value}", if at > 0 { ", " } else { "" })?;
    }
    Ok(())
}

/// Values with a comma behind each.
fn leading(f: &mut Formatter<'_>, values: &[Expr]) -> fmt::Result {
    values.iter().try_for_each(|value| write!(f, "{value}, "))
}

/// `(r7 of 0, r8 of 2)`: registers with the columns or components they take.
fn registers(f: &mut Formatter<'_>, what: &str, list: &[(u16, Reg)]) -> fmt::Result {
    write!(f, "{what}(")?;
    for (at, (index, reg)) in list.iter().enumerate() {
        write!(f, "{}{reg} of {index}", if at > 0 { ", " } else { "" })?;
    }
    write!(f, ")")
}

impl Display for Reg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "=",
            Self::Ne => "<>",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        })
    }
}

impl Display for BinaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::DivRound => "/~",
            Self::Rem => "%",
        })
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(reg) => reg.fmt(f),
            Self::Int(i64::MIN) | Self::Wide(i128::MIN) | Self::Null(_) => f.write_str("null"),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Wide(value) => value.fmt(f),
            Self::Binary(op, _, a, b) => write!(f, "({a} {op} {b})"),
            Self::Neg(_, a) => write!(f, "-{a}"),
            Self::Compare(op, _, a, b) => write!(f, "({a} {op} {b})"),
            Self::CompareText(op, a, b) => write!(f, "(text {a} {op} text {b})"),
            Self::IsNull(_, a) => write!(f, "({a} is null)"),
            Self::And(list) => joined(f, list, " and ", "true"),
            Self::Or(list) => joined(f, list, " or ", "false"),
            Self::Not(a) => write!(f, "not {a}"),
            Self::Case { when, otherwise, .. } => {
                write!(f, "case")?;
                for (condition, value) in when {
                    write!(f, " when {condition} then {value}")?;
                }
                write!(f, " else {otherwise} end")
            }
            Self::Coalesce(_, values) => call(f, "coalesce", values),
            Self::Cast { to, value, .. } => write!(f, "{}({value})", type_name(*to)),
            Self::Within { range: NumberRange::Bits(bits), value, .. } => {
                write!(f, "int{bits}({value})")
            }
            Self::Within { range: NumberRange::Digits(digits), value, .. } => {
                write!(f, "numeric{digits}({value})")
            }
            Self::Rescale { by, value, .. } => write!(f, "({value} * 1e{by})"),
            Self::DatePart(part, a) => write!(f, "{part:?}({a})"),
            Self::DateOf(a) => write!(f, "date({a})"),
            Self::Like { value, pattern, ignore_case, negated } => {
                let not = if *negated { "not " } else { "" };
                let like = if *ignore_case { "ilike" } else { "like" };
                write!(f, "({value} {not}{like} {pattern:?})")
            }
            Self::Substring { value, start, length: None } => {
                write!(f, "substring({value} from {start})")
            }
            Self::Substring { value, start, length: Some(length) } => {
                write!(f, "substring({value} from {start} for {length})")
            }
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Call { call: called, args } => call(f, called.function().name(), args),
        }
    }
}

fn call(f: &mut Formatter<'_>, name: &str, values: &[Expr]) -> fmt::Result {
    write!(f, "{name}(")?;
    list(f, values)?;
    write!(f, ")")
}

fn joined(f: &mut Formatter<'_>, values: &[Expr], word: &str, empty: &str) -> fmt::Result {
    if values.is_empty() {
        return f.write_str(empty);
    }
    write!(f, "(")?;
    for (at, value) in values.iter().enumerate() {
        write!(f, "{}{value}", if at > 0 { word } else { "" })?;
    }
    write!(f, ")")
}
