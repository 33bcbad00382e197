//! The builder of blocks: its state, and the values that its parts hand each other.
//!
//! [`Builder`] walks a logical plan. Its methods stand with their subjects: nodes of a plan in
//! [`crate::blocks`], expressions in [`crate::scalar`], groups in [`crate::aggregate`], subqueries
//! in [`crate::subquery`], thresholds in [`crate::threshold`].

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

/// A scope: the columns that expressions may name at one place of a plan.
pub(crate) struct Scope {
    /// Names and types.
    pub schema: DFSchemaRef,
    /// A variable per column.
    pub vars: Vec<Var>,
    /// Number of the scope, which its variables carry.
    pub id: u16,
    /// The rows that have these columns, for subqueries that need the rows for which they are
    /// evaluated.
    pub rows: Vec<Term>,
    /// Index of the scope's column that is the first column of the rows.
    pub offset: usize,
}

/// The result of a plan's node, as sums of terms.
pub(crate) enum Bag {
    /// Rows, whose keys are the node's columns.
    Rows(Vec<Term>),
    /// The groups of an aggregation, into which filters and projections above may still be merged.
    Group(Group),
}

/// The builder of blocks: the state of one compilation until the blocks are complete.
pub(crate) struct Builder<'f> {
    pub parts: Parts,
    pub facts: &'f dyn Facts,
    pub scopes: Vec<Scope>,
    /// Subqueries met so far: the variable that stands for each in expressions, and its cases.
    pub subqueries: Vec<(Var, Vec<Case>)>,
    /// Sums over one side of an order met so far, which may become thresholds.
    pub one_sided: Vec<OneSided>,
    /// Whether such sums are looked for: only within conditions.
    pub seeks_thresholds: bool,
    /// Aggregates without GROUP BY in the conditions around, with the variables that stand for
    /// them.
    pub totals: Vec<(Var, Group)>,
    pub next_scope: u16,
    /// Relations of base tables, by name.
    pub tables: HashMap<String, RelationIndex>,
}

/// The groups of an aggregation, as a derived relation.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The derived relation.
    pub relation: RelationIndex,
    /// The term of a row: the relation's atom, conditions that relate it to enclosing queries, and
    /// the columns of the bag.
    pub row: Term,
    /// Conditions on the row that are not in its term yet.
    pub having: Vec<Expr>,
    /// For an aggregation without GROUP BY: the values of its row over no input, by the atom's
    /// variables.
    pub defaults: Option<HashMap<Var, Expr>>,
    /// Whether the relation has a row for every combination of outer values for which it is
    /// evaluated.
    pub always: bool,
}

/// A case of a subquery: a signed term, and the subquery's value in the term's rows. All cases of a
/// subquery add up to one row ([`crate::subquery`]).
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Weight, atoms and conditions of the case.
    pub term: Term,
    /// The subquery's value in this case.
    pub value: Expr,
}

/// A sum over the rows of a subquery that lie on one side of a value of the enclosing query.
pub(crate) struct OneSided {
    /// The variable that stands for the subquery's value.
    pub var: Var,
    /// The subquery itself, which is translated as any other if the condition turns out to be no
    /// threshold.
    pub subquery: Subquery,
    /// The subquery's rows, without the condition on the order.
    pub row: Term,
    /// The summand.
    pub value: Expr,
    /// The condition on the order is `key op outer`.
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

/// The word type of a SQL type. If programs have no values of the SQL type: any word type, and the
/// SQL type.
pub(crate) fn words_of(ty: &DataType) -> (Type, Option<DataType>) {
    match Encoding::of(ty) {
        Ok(encoding) => (encoding.ty(), None),
        Err(_) => (Type::Int, Some(ty.clone())),
    }
}

/// The value of each variable of a scope in a row with these keys.
pub(crate) fn columns_of(vars: &[Var], keys: &[Expr]) -> HashMap<Var, Expr> {
    vars.iter().copied().zip(keys.iter().cloned()).collect()
}
