//! The parts of a program under construction: relations, maps and statements, still over variables.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::TableReference;
use halcyon_view::program::{Component, Expr, Step, Type};

use crate::calculus::{Atom, RelationIndex, Term, Var, Variable, Variables};
use crate::encoding::Encoding;

/// A column of a relation.
#[derive(Clone, Debug)]
pub struct Column {
    /// For people.
    pub name: String,
    /// How its values are kept.
    pub encoding: Encoding,
    /// Type of the words; of a derived column not always the encoding's.
    pub ty: Type,
    /// The SQL type, if no program can hold its values: the column is there, but cannot be used.
    pub foreign: Option<DataType>,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Known never to be negative.
    pub never_negative: bool,
}

/// A relation of the compilation: a table or stream, a relation derived from a map, or that of one row.
#[derive(Clone, Debug)]
pub struct Relation {
    /// For people.
    pub name: String,
    /// Columns. Columns that nothing uses are left out of the finished program.
    pub columns: Vec<Column>,
    /// Sets of columns that no two rows agree on.
    pub unique: Vec<Vec<usize>>,
    /// Variables of an event's row.
    pub event: Vec<Var>,
    /// Variable of an event's weight.
    pub weight: Var,
    /// The table, for base relations.
    pub table: Option<TableReference>,
    /// For derived relations.
    pub derived: Option<Derived>,
    /// Whether the relation is a total: one row, which most events replace, so that everything joined
    /// with the total changes as a whole.
    pub restless: bool,
}

/// The derivation of a relation's rows from the groups of a map, as in [`halcyon_view::program::Derived`].
/// Registers are numbered from zero: the key's columns first, then the payload's components, then the
/// registers that the steps set.
#[derive(Clone, Debug)]
pub struct Derived {
    /// Index of the map.
    pub map: usize,
    /// Types of the steps' registers.
    pub step_registers: Vec<Type>,
    /// Look-ups; maps are numbered as in [`Parts::maps`].
    pub steps: Vec<Step>,
    /// Whether the group has a row.
    pub exists: Expr,
    /// The row.
    pub row: Vec<Expr>,
}

/// A map of the program, with its definition and the ways in which statements ask it.
#[derive(Clone, Debug)]
pub struct Map {
    /// For people.
    pub name: String,
    /// The definition: a sum of terms whose keys and values have the same types.
    pub terms: Vec<Term>,
    /// Types of the key.
    pub key: Vec<Type>,
    /// Components of the payload.
    pub payload: Vec<Component>,
    /// Sorted by the key.
    pub ordered: bool,
    /// Sets of key columns by which it is enumerated.
    pub slices: Vec<Vec<u16>>,
    /// Statements on maps of one degree come in this order.
    pub rank: Rank,
    /// For helper maps: the text that definitions of the same meaning share.
    pub canonical: Option<String>,
}

/// Maps of derived relations change before what their rows look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Notices that anything changes; the view's row looks all of it up.
    Everything,
    /// Notices that a threshold may have moved; its row looks other groups up.
    Thresholds,
    /// The groups of a derived relation.
    Groups,
    /// Serves statements.
    Helper,
    /// Serves the rows of derived relations.
    LookedUp,
}

impl Map {
    /// Atoms of its largest term.
    pub fn degree(&self) -> usize {
        self.terms.iter().map(|term| term.atoms.len()).max().unwrap_or(0)
    }
}

/// A statement of the trigger of `relation`.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The relation whose events run the statement.
    pub relation: RelationIndex,
    /// The map that the statement adds to.
    pub target: usize,
    /// Bindings; registers are variables, maps are numbered as in [`Parts::maps`].
    pub steps: Vec<Step>,
    /// Key of the entry that changes, a value per key column.
    pub key: Vec<Expr>,
    /// What the entry is changed by, a value per component.
    pub add: Vec<Expr>,
    /// The delta that the statement computes, for people.
    pub comment: String,
}

/// All parts of a program under construction.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Variables of all terms.
    pub vars: Variables,
    /// Base and derived relations, each after the relations that it depends on.
    pub relations: Vec<Relation>,
    /// Maps.
    pub maps: Vec<Map>,
    /// Statements.
    pub statements: Vec<Statement>,
    /// The relation of one row, if some term is there without any table.
    pub one_row: Option<RelationIndex>,
}

impl Parts {
    /// Adds a relation and makes its event's variables.
    pub fn relation(
        &mut self,
        name: String,
        columns: Vec<Column>,
        unique: Vec<Vec<usize>>,
        table: Option<TableReference>,
        derived: Option<Derived>,
    ) -> RelationIndex {
        let event = columns
            .iter()
            .map(|column| self.vars.fresh(format!("@{}", column.name), column.ty, column.nullable))
            .collect();
        let weight = self.vars.fresh("@w", Type::Int, false);
        let restless = derived.is_some() && unique.iter().any(Vec::is_empty);
        self.relations.push(Relation {
            name,
            columns,
            unique,
            event,
            weight,
            table,
            derived,
            restless,
        });
        self.relations.len() - 1
    }

    /// A new atom of a relation.
    pub fn atom(&mut self, relation: RelationIndex) -> Atom {
        let columns = &self.relations[relation].columns;
        let fresh = |column: &Column| Variable {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable,
            scope: None,
            foreign: column.foreign.clone(),
        };
        let vars = columns.iter().map(fresh).collect::<Vec<_>>();
        Atom { relation, vars: vars.into_iter().map(|var| self.vars.add(var)).collect() }
    }

    /// The term, with an atom of the relation of one row if it has no atom: maps are kept by events, and
    /// this row's is what brings a row of constants.
    pub fn grounded(&mut self, mut term: Term) -> Term {
        if term.atoms.is_empty() {
            let one_row = self.one_row.unwrap_or_else(|| {
                let name = "one_row".to_owned();
                self.relation(name, Vec::new(), vec![Vec::new()], None, None)
            });
            self.one_row = Some(one_row);
            let atom = self.atom(one_row);
            term.atoms.push(atom);
        }
        term
    }

    /// A term as people read it.
    pub fn show(&self, term: &Term) -> String {
        term.show(&self.vars, &|relation| self.relations[relation].name.clone())
    }

    /// Component that sums an expression.
    pub fn component(&self, value: &Expr) -> Component {
        match self.vars.type_of(value) {
            Type::Int => Component::Int,
            Type::Wide => Component::Wide,
            Type::Float => Component::Float,
        }
    }
}

/// Renames the variables of a term, each to a new one of the same kind.
pub fn renamed(term: &Term, vars: &mut Variables) -> Term {
    let mut by: HashMap<Var, Expr> = HashMap::new();
    let mut atoms = term.atoms.clone();
    for var in atoms.iter_mut().flat_map(|atom| &mut atom.vars) {
        let new = by.entry(*var).or_insert_with(|| {
            let old = vars.get(*var).clone();
            let name = old.name.trim_start_matches('@').to_owned();
            Expr::Reg(vars.add(Variable { name, scope: None, ..old }))
        });
        if let Expr::Reg(new) = new {
            *var = *new;
        }
    }
    Term { atoms, ..term.clone() }.substitute(&by)
}
