//! Queries as expressions over generalised multiset relations, in the normal form that deltas keep.
//!
//! An expression of the calculus [koch2014, §3] is a sum of products of relation atoms R(x, y),
//! comparisons and values, under a sum over all variables but the keys. Products distribute over
//! sums, so every expression without a nested aggregate is a sum of [`Term`]s, and the delta of a
//! term is again a sum of terms ([`crate::derivative`]). Nested aggregates are atoms:
//! relations that `blocks` derives, whose changes are events of their own.
//!
//! A relation maps a tuple to its multiplicity; a term maps a key to a vector of sums. A key
//! without any tuple has the zero vector.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use arrow::datatypes::DataType;
use halcyon_view::program::{BinaryOp, CompareOp, Expr, Reg, Type};

use crate::expression::{collect_variables, null_safe_sides, nullable, substitute, type_of};

/// A variable: an index into [`Variables`].
pub type Var = Reg;

/// A relation: an index into the relations of a compilation.
pub type RelationIndex = usize;

/// A variable of the compilation: its name, its type, and where its values come from.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Name of the variable, for people.
    pub name: String,
    /// Type of the variable.
    pub ty: Type,
    /// Whether the variable may be NULL.
    pub nullable: bool,
    /// For a variable that stands for a value of an enclosing query (a column, or the value of a
    /// subquery in that query's expressions): the number of that query's scope.
    pub scope: Option<u16>,
    /// The SQL type, if programs have no values of it: a term that mentions the variable is
    /// refused.
    pub foreign: Option<DataType>,
}

/// All variables of one compilation. No variable is used for two purposes.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    all: Vec<Variable>,
    exhausted: bool,
}

impl Variables {
    /// Adds a variable. Numbers have 16 bits: when they run out, the last one is given out again,
    /// and [`Variables::exhausted`] says that the compilation's result is void.
    pub fn fresh(&mut self, name: impl Into<String>, ty: Type, nullable: bool) -> Var {
        self.add(Variable { name: name.into(), ty, nullable, scope: None, foreign: None })
    }

    /// Adds a variable with all its properties; about numbers see [`Variables::fresh`].
    pub fn add(&mut self, variable: Variable) -> Var {
        if self.all.len() > usize::from(u16::MAX) {
            self.exhausted = true;
            return Reg(u16::MAX);
        }
        self.all.push(variable);
        Reg((self.all.len() - 1) as u16)
    }

    /// The variable of a number.
    pub fn get(&self, var: Var) -> &Variable {
        &self.all[usize::from(var.0)]
    }

    /// Whether the numbers of variables ran out.
    pub fn exhausted(&self) -> bool {
        self.exhausted
    }

    /// Type of an expression.
    pub fn type_of(&self, expr: &Expr) -> Type {
        type_of(expr, &|var| self.get(var).ty)
    }

    /// Whether an expression may be NULL.
    pub fn nullable(&self, expr: &Expr) -> bool {
        nullable(expr, &|var| self.get(var).nullable)
    }

    /// A short name for an expression's value.
    pub fn name_of(&self, expr: &Expr) -> String {
        match expr {
            Expr::Reg(var) => self.get(*var).name.clone(),
            _ => "value".to_owned(),
        }
    }

    /// An expression as text for people.
    pub fn show(&self, expr: &Expr) -> String {
        let mut text = String::new();
        self.write(expr, &mut text);
        text
    }

    fn list(&self, all: &[Expr], between: &str) -> String {
        all.iter().map(|e| self.show(e)).collect::<Vec<_>>().join(between)
    }

    fn write(&self, expr: &Expr, text: &mut String) {
        if let Some((a, b)) = null_safe_sides(expr) {
            let _ = write!(text, "{} is {}", self.show(a), self.show(b));
            return;
        }
        let _ = match expr {
            Expr::Reg(var) => write!(text, "{}", self.get(*var).name),
            Expr::Int(value) => write!(text, "{value}"),
            Expr::Wide(value) => write!(text, "{value}"),
            Expr::Float(value) => write!(text, "{value:?}"),
            Expr::Null(_) => write!(text, "NULL"),
            Expr::Text(value) => write!(text, "'{value}'"),
            Expr::Binary(op, _, a, b) => {
                let sign = match op {
                    BinaryOp::Add => "+",
                    BinaryOp::Sub => "-",
                    BinaryOp::Mul => "*",
                    BinaryOp::Div | BinaryOp::DivRound => "/",
                    BinaryOp::Rem => "%",
                };
                write!(text, "({} {sign} {})", self.show(a), self.show(b))
            }
            Expr::Compare(op, _, a, b) | Expr::CompareText(op, a, b) => {
                let sign = match op {
                    CompareOp::Eq => "=",
                    CompareOp::Ne => "<>",
                    CompareOp::Lt => "<",
                    CompareOp::Le => "<=",
                    CompareOp::Gt => ">",
                    CompareOp::Ge => ">=",
                };
                write!(text, "{} {sign} {}", self.show(a), self.show(b))
            }
            Expr::Neg(_, a) => write!(text, "-{}", self.show(a)),
            Expr::IsNull(_, a) => write!(text, "{} is NULL", self.show(a)),
            Expr::Not(a) => write!(text, "not ({})", self.show(a)),
            Expr::And(all) => write!(text, "({})", self.list(all, " and ")),
            Expr::Or(all) => write!(text, "({})", self.list(all, " or ")),
            Expr::Coalesce(_, all) => write!(text, "coalesce({})", self.list(all, ", ")),
            Expr::Case { when, otherwise, .. } => {
                text.push_str("case");
                for (condition, value) in when {
                    let _ = write!(text, " {} ? {} :", self.show(condition), self.show(value));
                }
                write!(text, " {}", self.show(otherwise))
            }
            Expr::Cast { value, .. } => write!(text, "{}", self.show(value)),
            Expr::Within { value, .. } => write!(text, "{}", self.show(value)),
            Expr::Rescale { by, value, .. } => write!(text, "{}e{by}", self.show(value)),
            Expr::DatePart(part, a) => {
                write!(text, "{}({})", format!("{part:?}").to_lowercase(), self.show(a))
            }
            Expr::DateOf(a) => write!(text, "date({})", self.show(a)),
            Expr::Like { value, pattern, negated, .. } => {
                let not = if *negated { "not " } else { "" };
                write!(text, "{} {not}like '{pattern}'", self.show(value))
            }
            Expr::Substring { value, start, length } => match length {
                Some(length) => write!(text, "substring({}, {start}, {length})", self.show(value)),
                None => write!(text, "substring({}, {start})", self.show(value)),
            },
            Expr::Call { call, args } => {
                write!(text, "{}({})", call.function().name(), self.list(args, ", "))
            }
        };
    }
}

/// A relation atom R(x, y, …): binds a variable per column. A variable that occurs twice requires
/// equal values, where NULL equals NULL.
#[derive(Clone, Debug, PartialEq)]
pub struct Atom {
    /// The relation.
    pub relation: RelationIndex,
    /// A variable per column of the relation.
    pub vars: Vec<Var>,
}

/// A term: weight · Sum_keys( ∏ atoms · ∏ [condition is true] · values ).
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// A factor; −1 for a term that is subtracted.
    pub weight: i64,
    /// Relation atoms.
    pub atoms: Vec<Atom>,
    /// Conditions; a row counts where all of them are true.
    pub conditions: Vec<Expr>,
    /// Keys of the sum; for a bag of rows, its columns.
    pub keys: Vec<Expr>,
    /// The summands, one per component of the sum; NULL adds nothing. Empty for a bag of rows.
    pub values: Vec<Expr>,
}

impl Term {
    /// The term without atoms, conditions and keys: one row without columns.
    pub fn unit() -> Term {
        Term {
            weight: 1,
            atoms: Vec::new(),
            conditions: Vec::new(),
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// All variables that atoms bind.
    pub fn bound(&self) -> BTreeSet<Var> {
        self.atoms.iter().flat_map(|atom| atom.vars.iter().copied()).collect()
    }

    /// The product of two terms, with the keys and values of the left one.
    pub fn times(&self, other: &Term) -> Term {
        let mut product = self.clone();
        product.weight *= other.weight;
        product.atoms.extend(other.atoms.iter().cloned());
        product.conditions.extend(other.conditions.iter().cloned());
        product
    }

    /// The term with variables replaced in its conditions, keys and values.
    pub fn substitute(mut self, by: &HashMap<Var, Expr>) -> Term {
        for list in [&mut self.conditions, &mut self.keys, &mut self.values] {
            for expr in list.iter_mut() {
                *expr = substitute(std::mem::replace(expr, Expr::Int(0)), by);
            }
        }
        self
    }

    /// The variables in conditions, keys and values.
    pub fn mentioned(&self) -> BTreeSet<Var> {
        let mut found = BTreeSet::new();
        for expr in self.conditions.iter().chain(&self.keys).chain(&self.values) {
            collect_variables(expr, &mut found);
        }
        found
    }

    /// The term as text for people; `name` gives the names of relations.
    pub fn show(&self, vars: &Variables, name: &dyn Fn(RelationIndex) -> String) -> String {
        let mut counts: HashMap<Var, usize> = HashMap::new();
        for var in self.atoms.iter().flat_map(|atom| &atom.vars) {
            *counts.entry(*var).or_default() += 1;
        }
        let mentioned = self.mentioned();
        let shown = |var: &Var| mentioned.contains(var) || counts[var] > 1;
        let mut factors: Vec<String> = Vec::new();
        if self.weight != 1 {
            factors.push(self.weight.to_string());
        }
        for atom in &self.atoms {
            let columns: Vec<&str> = atom
                .vars
                .iter()
                .map(|v| if shown(v) { vars.get(*v).name.as_str() } else { "_" })
                .collect();
            factors.push(format!("{}({})", name(atom.relation), columns.join(", ")));
        }
        factors.extend(self.conditions.iter().map(|c| format!("{{{}}}", vars.show(c))));
        match self.values.as_slice() {
            [] | [Expr::Int(1)] => {}
            values => factors.push(format!("<{}>", vars.list(values, ", "))),
        }
        let keys = vars.list(&self.keys, ", ");
        format!("Sum[{keys}]({})", factors.join(" * "))
    }
}
