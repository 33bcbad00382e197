//! The compilation of a query's blocks: its state, and the values that its parts hand each other.
//!
//! [`Builder`] goes through a plan. Its methods are where their subject is: nodes of a plan in
//! [`crate::blocks`], expressions in [`crate::scalar`], groups in [`crate::aggregate`], subqueries in
//! [`crate::subquery`], thresholds in [`crate::threshold`].

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::logical_expr::Subquery;
use halcyon_view::program::{CompareOp, Expr, Type};

use crate::Facts;
use crate::calculus::{RelationIndex, Term, Var, Variable};
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::parts::Parts;

/// Columns that expressions may name at some place of a plan.
pub(crate) struct Scope {
    /// Names and types.
    pub schema: DFSchemaRef,
    /// A variable per column.
    pub vars: Vec<Var>,
    /// Number, by which its variables are known.
    pub id: u16,
    /// The rows that the columns are of, for subqueries that need to know for which.
    pub rows: Vec<Term>,
    /// Column of the scope that is the first of the rows.
    pub offset: usize,
}

/// The rows that a node of a plan gives, as sums of terms.
pub(crate) enum Bag {
    /// Rows: the keys are the columns.
    Rows(Vec<Term>),
    /// The groups of an aggregation, which filters and projections above still may become part of.
    Group(Group),
}

/// The builder of blocks.
pub(crate) struct Builder<'f> {
    pub parts: Parts,
    pub facts: &'f dyn Facts,
    pub scopes: Vec<Scope>,
    /// Values of subqueries, by the variables that stand for them.
    pub subqueries: Vec<(Var, Vec<Case>)>,
    /// Sums over one side of an order that may become thresholds.
    pub one_sided: Vec<OneSided>,
    /// Whether they are looked for: only in conditions.
    pub seeks_thresholds: bool,
    /// Aggregates without GROUP BY of enclosing conditions, by the variables that stand for them.
    pub totals: Vec<(Var, Group)>,
    pub next_scope: u16,
    /// Relations of base tables, by name.
    pub tables: HashMap<String, RelationIndex>,
}

/// The groups of an aggregation, as a relation.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The derived relation.
    pub relation: RelationIndex,
    /// Term of a row: its atom, conditions that relate it to enclosing queries, and the columns of
    /// the bag.
    pub row: Term,
    /// Conditions on the row.
    pub having: Vec<Expr>,
    /// Without GROUP BY: the row over nothing, by the atom's variables.
    pub defaults: Option<HashMap<Var, Expr>>,
    /// The relation has a row for everything that the enclosing query asks for.
    pub always: bool,
}

/// A case of a subquery: a signed term, and the subquery's value where the term's rows are. All cases of a
/// subquery add up to one row ([`crate::subquery`]).
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Weight, atoms and conditions.
    pub term: Term,
    /// The subquery's value in this case.
    pub value: Expr,
}

/// A sum over the rows of a subquery on one side of a value of the enclosing query.
pub(crate) struct OneSided {
    /// The variable that stands for the subquery's value.
    pub var: Var,
    /// The subquery, for where the condition turns out to be no threshold.
    pub subquery: Subquery,
    /// Rows of the subquery, without the condition on the order.
    pub row: Term,
    /// The summand.
    pub value: Expr,
    /// `key op outer`.
    pub key: Expr,
    pub op: CompareOp,
    pub outer: Expr,
    pub ty: Type,
}

impl<'f> Builder<'f> {
    pub fn new(facts: &'f dyn Facts) -> Self {
        Builder {
            parts: Parts::default(),
            facts,
            scopes: Vec::new(),
            subqueries: Vec::new(),
            one_sided: Vec::new(),
            seeks_thresholds: false,
            totals: Vec::new(),
            next_scope: 0,
            tables: HashMap::new(),
        }
    }

    pub fn scope(&self) -> &Scope {
        self.scopes.last().expect("expressions are translated within a scope")
    }

    pub fn schema(&self) -> &DFSchema {
        &self.scope().schema
    }

    /// A column of an enclosing query.
    pub fn outer_column(&self, column: &datafusion::common::Column) -> Result<Expr> {
        let enclosing = self.scopes.iter().rev().skip(1);
        for scope in enclosing {
            if let Ok(at) = scope.schema.index_of_column(column) {
                return Ok(Expr::Reg(scope.vars[at]));
            }
        }
        Err(Unsupported::new(format!("the outer column {column} at this place")))
    }

    pub fn push_scope(&mut self, schema: DFSchemaRef, rows: Vec<Term>, offset: usize) {
        let id = self.next_scope;
        self.next_scope += 1;
        let mut vars = Vec::new();
        for field in schema.fields() {
            let (ty, foreign) = words_of(field.data_type());
            let (name, nullable, scope) = (field.name().clone(), field.is_nullable(), Some(id));
            vars.push(self.parts.vars.add(Variable { name, ty, nullable, scope, foreign }));
        }
        self.scopes.push(Scope { schema, vars, id, rows, offset });
    }

    pub fn pop_scope(&mut self) -> Scope {
        self.scopes.pop().expect("as many as were pushed")
    }
}

/// Type of the words of a SQL type; of a type that no program can hold, any, and the type itself.
pub(crate) fn words_of(ty: &DataType) -> (Type, Option<DataType>) {
    match Encoding::of(ty) {
        Ok(encoding) => (encoding.ty(), None),
        Err(_) => (Type::Int, Some(ty.clone())),
    }
}

/// The columns of a scope by what they are in a row.
pub(crate) fn columns_of(vars: &[Var], keys: &[Expr]) -> HashMap<Var, Expr> {
    vars.iter().copied().zip(keys.iter().cloned()).collect()
}
