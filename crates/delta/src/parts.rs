//! The parts of a program under construction: relations, maps and statements, with variables for
//! registers.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::TableReference;
use halcyon_view::program::{Component, Expr, Step, Type};

use crate::calculus::{Atom, RelationIndex, Term, Var, Variable, Variables};
use crate::encoding::Encoding;

/// A column of a relation.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name of the column, for people.
    pub name: String,
    /// Encoding of the column's values.
    pub encoding: Encoding,
    /// Type of the column's words, which for derived columns need not be that of the encoding.
    pub ty: Type,
    /// The SQL type, if programs have no values of it: the column exists but cannot be used.
    pub foreign: Option<DataType>,
    /// Whether the column may be NULL.
    pub nullable: bool,
    /// Whether the column is known never to be negative.
    pub never_negative: bool,
}

/// A relation of the compilation: a table or stream, a relation derived from a map, or that of one row.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Name of the relation, for people.
    pub name: String,
    /// Columns; those that nothing uses are left out of the finished program.
    pub columns: Vec<Column>,
    /// Sets of columns in which no two rows agree.
    pub unique: Vec<Vec<usize>>,
    /// Variables that hold an event's row.
    pub event: Vec<Var>,
    /// Variable that holds an event's weight.
    pub weight: Var,
    /// The table, for base relations.
    pub table: Option<TableReference>,
    /// How the rows follow from a map; `None` for base relations.
    pub derived: Option<Derived>,
    /// Whether the relation is a total: it has one row, which most events replace, and then all
    /// rows joined with it change.
    pub restless: bool,
}

/// The way in which a derived relation's rows follow from a map, as in
/// [`halcyon_view::program::Derived`]. Registers are numbered from zero: the key's columns first,
/// then the payload's components, then the registers that the steps set.
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
    /// The values of the row.
    pub row: Vec<Expr>,
}

/// A map of the program, with its definition and the access paths that statements need.
#[derive(Clone, Debug)]
pub struct Map {
    /// Name of the map, for people.
    pub name: String,
    /// The definition: a sum of terms whose keys and values have the same types.
    pub terms: Vec<Term>,
    /// Types of the key.
    pub key: Vec<Type>,
    /// Components of the payload.
    pub payload: Vec<Component>,
    /// Whether the map is sorted by its key.
    pub ordered: bool,
    /// Sets of key columns by which statements enumerate entries.
    pub slices: Vec<Vec<u16>>,
    /// The map's rank: orders statements on maps of one degree.
    pub rank: Rank,
    /// For helper maps: the canonical text of the definition, equal for definitions with the same
    /// meaning.
    pub canonical: Option<String>,
}

/// Ranks of maps, in the order of changes: the maps of derived relations change before the maps
/// that these relations' rows look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A map that notices any change; the view's row looks everything up.
    Everything,
    /// A map that notices when a threshold may have moved; its relation's row looks up other
    /// groups.
    Thresholds,
    /// A map of the groups of a derived relation.
    Groups,
    /// A map that statements look up.
    Helper,
    /// A map that rows of derived relations look up.
    LookedUp,
}

impl Map {
    /// The number of atoms of the map's largest term.
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
    /// Steps that make the bindings; registers are variables, maps are numbered as in
    /// [`Parts::maps`].
    pub steps: Vec<Step>,
    /// Key of the entry that changes, a value per key column.
    pub key: Vec<Expr>,
    /// The addends, a value per component.
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
    /// The maps.
    pub maps: Vec<Map>,
    /// The statements.
    pub statements: Vec<Statement>,
    /// The relation of one row, if some term has rows without any table.
    pub one_row: Option<RelationIndex>,
}

impl Parts {
    /// Adds a relation and the variables of its events.
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

    /// A new atom of a relation, with variables of its own.
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

    /// The term as it is, or with an atom of the relation of one row if the term has no atom: maps
    /// change by events alone, and the event of this one row brings a row of constants about.
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

    /// A term as text for people.
    pub fn show(&self, term: &Term) -> String {
        term.show(&self.vars, &|relation| self.relations[relation].name.clone())
    }

    /// The component that sums an expression.
    pub fn component(&self, value: &Expr) -> Component {
        match self.vars.type_of(value) {
            Type::Int => Component::Int,
            Type::Wide => Component::Wide,
            Type::Float => Component::Float,
        }
    }
}

/// The term with each variable renamed to a new one with the same properties.
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
