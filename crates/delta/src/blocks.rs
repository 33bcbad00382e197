//! Blocks: sums of terms, which the nodes of a logical plan become.
//!
//! A *bag* is the result of a plan's node: a sum of [`Term`]s whose keys are the node's columns.
//! Scans, filters, projections, joins and unions stay within one block: they multiply and add
//! terms. Every operator that is not linear ends a block ([`crate::aggregate`]): its map is derived
//! into a relation, which is an atom of the block above.
//!
//! Subqueries ([`crate::subquery`]) and outer joins are sums as well: the rows without a partner
//! are all rows minus the rows that have one.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, JoinType, NullEquality, TableReference};
use datafusion::logical_expr::{
    Distinct, Expr as Sql, Join, LogicalPlan, TableScan, Values, utils,
};
use halcyon_view::program::{CompareOp, Expr, Type};

use crate::builder::{Bag, Builder, Group, columns_of, words_of};
use crate::calculus::{RelationIndex, Term, Var};
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::expression::{conjuncts, mentions, never_true, null_safe_eq};
use crate::parts::Column;
use crate::scalar::compared;
use crate::simplify::replace;

/// The most terms of one bag: every OR of subqueries multiplies them.
const TERMS_MAX: usize = 200;

impl Builder<'_> {
    /// The rows of a plan's node, as a sum of terms or as groups.
    pub fn bag(&mut self, plan: &LogicalPlan) -> Result<Bag> {
        let seeks = std::mem::replace(&mut self.seeks_thresholds, false);
        let bag = self.node(plan);
        self.seeks_thresholds = seeks;
        bag
    }

    fn node(&mut self, plan: &LogicalPlan) -> Result<Bag> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.bag(&alias.input),
            LogicalPlan::Subquery(subquery) => self.bag(&subquery.subquery),
            LogicalPlan::Filter(filter) => {
                let input = self.bag(&filter.input)?;
                self.filter(input, filter.input.schema(), &filter.predicate)
            }
            LogicalPlan::Projection(projection) => {
                let input = self.bag(&projection.input)?;
                self.project(input, projection.input.schema(), &projection.expr)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let input = self.rows(&aggregate.input)?;
                self.aggregate(input, aggregate).map(Bag::Group)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let rows = self.rows(input)?;
                self.distinct(rows).map(Bag::Group)
            }
            LogicalPlan::Distinct(Distinct::On(_)) => Err(Unsupported::new("DISTINCT ON")),
            LogicalPlan::Union(union) => {
                let mut rows = Vec::new();
                for input in &union.inputs {
                    let schemas = (input.schema().fields(), union.schema.fields());
                    let same = schemas.0.iter().zip(schemas.1);
                    let casts: Vec<_> =
                        same.map(|(a, b)| (a.data_type().clone(), b.data_type().clone())).collect();
                    for mut row in self.rows(input)? {
                        for (key, (from, to)) in row.keys.iter_mut().zip(&casts) {
                            *key = crate::scalar::convert(key.clone(), from, to)?;
                        }
                        rows.push(row);
                    }
                }
                Ok(Bag::Rows(rows))
            }
            LogicalPlan::Join(join) => self.join(join).map(Bag::Rows),
            // A view has no order.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.bag(&sort.input),
            LogicalPlan::EmptyRelation(empty) => {
                let keys = empty.schema.fields().iter();
                let nulls = keys.map(|field| Ok(Expr::Null(Encoding::of(field.data_type())?.ty())));
                let keys = nulls.collect::<Result<_>>()?;
                // There is always a term, because its columns tell types: for no rows one whose
                // condition is false.
                let conditions = if empty.produce_one_row { vec![] } else { vec![Expr::Int(0)] };
                Ok(Bag::Rows(vec![Term { keys, conditions, ..Term::unit() }]))
            }
            LogicalPlan::Values(values) => self.values(values).map(Bag::Rows),
            LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => Err(Unsupported::new("LIMIT")
                .hint("Leave ORDER BY and LIMIT to the query that reads the view.")),
            LogicalPlan::Window(_) => Err(Unsupported::new("a window function")),
            LogicalPlan::RecursiveQuery(_) => Err(Unsupported::new("WITH RECURSIVE")),
            LogicalPlan::Unnest(_) => Err(Unsupported::new("unnest")),
            other => Err(Unsupported::new(other.display().to_string())),
        }
    }

    /// The rows of a plan, as a sum of terms.
    pub fn rows(&mut self, plan: &LogicalPlan) -> Result<Vec<Term>> {
        let bag = self.bag(plan)?;
        let rows = self.rows_of(bag);
        if rows.len() > TERMS_MAX {
            return Err(Unsupported::new("a query of so many alternatives")
                .hint("Subqueries under OR multiply the work; split the view."));
        }
        Ok(rows)
    }

    pub fn rows_of(&mut self, bag: Bag) -> Vec<Term> {
        match bag {
            Bag::Rows(rows) => rows,
            Bag::Group(group) => self.group_rows(group),
        }
    }

    /// The rows of VALUES, whose expressions may mention columns of enclosing queries.
    fn values(&mut self, values: &Values) -> Result<Vec<Term>> {
        let types: Vec<_> = values.schema.fields().iter().map(|f| f.data_type().clone()).collect();
        // VALUES has no columns of its own that its expressions could mention.
        self.push_scope(Arc::new(DFSchema::empty()), Vec::new(), 0);
        let mut row = |row: &Vec<Sql>| {
            let keys = row.iter().zip(&types).map(|(value, ty)| self.converted(value, ty));
            Ok(Term { keys: keys.collect::<Result<_>>()?, ..Term::unit() })
        };
        let rows = values.values.iter().map(&mut row).collect();
        self.pop_scope();
        rows
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Bag> {
        if scan.fetch.is_some() {
            return Err(Unsupported::new("LIMIT"));
        }
        let relation = self.table(scan)?;
        let atom = self.parts.atom(relation);
        let columns = match &scan.projection {
            Some(columns) => columns.clone(),
            None => (0..atom.vars.len()).collect(),
        };
        let keys = columns.iter().map(|column| Expr::Reg(atom.vars[*column])).collect();
        let row = Term { atoms: vec![atom], keys, ..Term::unit() };
        let mut bag = Bag::Rows(vec![row]);
        for filter in &scan.filters {
            bag = self.filter(bag, &scan.projected_schema, filter)?;
        }
        Ok(bag)
    }

    fn table(&mut self, scan: &TableScan) -> Result<RelationIndex> {
        let name = scan.table_name.to_string();
        if let Some(known) = self.tables.get(&name) {
            return Ok(*known);
        }
        let mut columns = Vec::new();
        for (at, field) in scan.source.schema().fields().iter().enumerate() {
            let (ty, foreign) = words_of(field.data_type());
            columns.push(Column {
                name: field.name().clone(),
                encoding: Encoding::of(field.data_type()).unwrap_or(Encoding::Int),
                ty,
                foreign,
                nullable: field.is_nullable(),
                never_negative: self.facts.never_negative(&scan.table_name, at),
            });
        }
        let unique = self.facts.unique_keys(&scan.table_name);
        let table: TableReference = scan.table_name.clone();
        let shown = table.table().to_owned();
        let relation = self.parts.relation(shown, columns, unique, Some(table), None);
        self.tables.insert(name, relation);
        Ok(relation)
    }

    /// Rows for which the predicate is true.
    pub fn filter(&mut self, bag: Bag, schema: &DFSchemaRef, predicate: &Sql) -> Result<Bag> {
        let all: Vec<Sql> = utils::split_conjunction(predicate).into_iter().cloned().collect();
        // Conditions without subqueries come first: a subquery may need the rows for which it is
        // evaluated.
        let (nested, plain): (Vec<Sql>, Vec<Sql>) = all.into_iter().partition(has_subquery);
        let mut bag = bag;
        for condition in plain.iter().chain(&nested) {
            bag = match bag {
                Bag::Group(group) if !has_subquery(condition) => {
                    self.filter_group(group, schema, condition)?
                }
                bag => {
                    let rows = self.rows_of(bag);
                    Bag::Rows(self.filter_rows(rows, schema, condition)?)
                }
            };
        }
        Ok(bag)
    }

    fn filter_group(
        &mut self,
        mut group: Group,
        schema: &DFSchemaRef,
        condition: &Sql,
    ) -> Result<Bag> {
        self.push_scope(schema.clone(), Vec::new(), 0);
        let condition = self.scalar(condition)?;
        let by = columns_of(&self.pop_scope().vars, &group.row.keys);
        let condition = replace(&condition, &by);
        group.having.push(condition);
        Ok(Bag::Group(group))
    }

    fn filter_rows(
        &mut self,
        rows: Vec<Term>,
        schema: &DFSchemaRef,
        condition: &Sql,
    ) -> Result<Vec<Term>> {
        self.push_scope(schema.clone(), rows.clone(), 0);
        self.seeks_thresholds = is_comparison(condition);
        let condition = self.condition(condition);
        self.seeks_thresholds = false;
        let condition = self.settle_one_sided(condition?)?;
        let scope = self.pop_scope();
        let mut kept = Vec::new();
        for row in rows {
            for part in conjuncts(condition.clone()).into_iter().fold(vec![row], |rows, part| {
                rows.iter().flat_map(|row| self.restricted(row, &scope.vars, &part)).collect()
            }) {
                kept.push(part);
            }
        }
        Ok(kept)
    }

    /// The terms of a row where a condition over the scope's columns is true. There is always a
    /// term, because its columns tell types.
    fn restricted(&self, row: &Term, vars: &[Var], condition: &Expr) -> Vec<Term> {
        let by = columns_of(vars, &row.keys);
        let cases = self.expand(row, &by, std::slice::from_ref(condition));
        let mut kept: Vec<Term> = cases
            .into_iter()
            .filter_map(|(mut row, mut condition)| {
                let condition = condition.remove(0);
                if never_true(&condition) {
                    return None;
                }
                row.conditions.push(condition);
                Some(row)
            })
            .collect();
        if kept.is_empty() {
            let mut none = row.clone();
            none.conditions.push(Expr::Int(0));
            kept.push(none);
        }
        kept
    }

    /// The terms that a row and some expressions become: one for every case of the subqueries in
    /// the expressions, with the scope's columns replaced.
    pub fn expand(
        &self,
        row: &Term,
        by: &HashMap<Var, Expr>,
        exprs: &[Expr],
    ) -> Vec<(Term, Vec<Expr>)> {
        let mut open: Vec<(Term, Vec<Expr>)> = vec![(row.clone(), exprs.to_vec())];
        // A case may mention subqueries that were translated before it, such as the operand of an
        // IN.
        for (var, cases) in self.subqueries.iter().rev() {
            let used = [*var].into();
            let speaks = |row: &Term, exprs: &[Expr]| {
                exprs.iter().chain(&row.conditions).any(|expr| mentions(expr, &used))
            };
            let mut split = Vec::new();
            for (row, exprs) in open {
                if !speaks(&row, &exprs) {
                    split.push((row, exprs));
                    continue;
                }
                for case in cases {
                    let term = Term { keys: Vec::new(), ..case.term.clone() }.substitute(by);
                    let value = HashMap::from([(*var, replace(&case.value, by))]);
                    let put = |all: &[Expr]| all.iter().map(|e| replace(e, &value)).collect();
                    let mut product = row.times(&term);
                    product.conditions = put(&product.conditions);
                    split.push((product, put(&exprs)));
                }
            }
            open = split;
        }
        open.into_iter()
            .map(|(row, exprs)| {
                let exprs = exprs.iter().map(|e| replace(e, by)).collect();
                (row, exprs)
            })
            .collect()
    }

    fn project(&mut self, bag: Bag, schema: &DFSchemaRef, exprs: &[Sql]) -> Result<Bag> {
        let nested = exprs.iter().any(has_subquery);
        let (rows, group) = match bag {
            Bag::Group(group) if !nested => (vec![group.row.clone()], Some(group)),
            bag => (self.rows_of(bag), None),
        };
        self.push_scope(schema.clone(), rows.clone(), 0);
        let exprs: Vec<Expr> = exprs.iter().map(|expr| self.scalar(expr)).collect::<Result<_>>()?;
        let scope = self.pop_scope();
        let mut projected = Vec::new();
        for row in rows {
            let by = columns_of(&scope.vars, &row.keys);
            for (mut row, keys) in self.expand(&row, &by, &exprs) {
                row.keys = keys;
                projected.push(row);
            }
        }
        Ok(match group {
            Some(group) => Bag::Group(Group { row: projected.remove(0), ..group }),
            None => Bag::Rows(projected),
        })
    }

    fn join(&mut self, join: &Join) -> Result<Vec<Term>> {
        let left = self.rows(&join.left)?;
        let right = self.rows(&join.right)?;
        let both = join.left.schema().join(join.right.schema())?;
        let left_width = join.left.schema().fields().len();
        // Subqueries in an ON condition would have to know the rows of both sides.
        let nested = join.filter.as_ref().is_some_and(has_subquery);
        if nested && join.join_type != JoinType::Inner {
            return Err(Unsupported::new("a subquery in the ON of an outer join"));
        }
        if join.null_aware {
            return Err(Unsupported::new("an anti-join that knows NULLs"));
        }
        let inner = product(&left, &right);
        let keep_left = matches!(
            join.join_type,
            JoinType::Left
                | JoinType::Full
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::LeftMark
        );
        let scope_rows = match join.join_type {
            JoinType::Inner => inner.clone(),
            _ if keep_left => left.clone(),
            _ => right.clone(),
        };
        let offset = if keep_left || join.join_type == JoinType::Inner { 0 } else { left_width };
        self.push_scope(both.clone().into(), scope_rows, offset);
        let condition = self.join_condition(join)?;
        let matched = |builder: &Self, vars: &[Var]| -> Vec<Term> {
            let rows = inner.iter();
            rows.flat_map(|row| {
                condition.iter().fold(vec![row.clone()], |rows, part| {
                    rows.iter().flat_map(|row| builder.restricted(row, vars, part)).collect()
                })
            })
            .collect()
        };
        let vars = self.scope().vars.clone();
        let (left_vars, right_vars) = vars.split_at(left_width);
        let nulls = |vars: &[Var], builder: &Self| -> Vec<Expr> {
            vars.iter().map(|var| Expr::Null(builder.parts.vars.get(*var).ty)).collect()
        };
        let rows = match join.join_type {
            JoinType::Inner => matched(self, &vars),
            JoinType::Left | JoinType::Full => {
                let mut rows = matched(self, &vars);
                let empty = nulls(right_vars, self);
                for mut row in
                    self.partnered(&left, left_vars, &right, right_vars, &condition, 0)?
                {
                    row.keys.extend(empty.iter().cloned());
                    rows.push(row);
                }
                if join.join_type == JoinType::Full {
                    let scope = self.scopes.last_mut().expect("pushed above");
                    (scope.rows, scope.offset) = (right.clone(), left_width);
                    let empty = nulls(left_vars, self);
                    let alone =
                        self.partnered(&right, right_vars, &left, left_vars, &condition, 0)?;
                    for mut row in alone {
                        row.keys.splice(0..0, empty.iter().cloned());
                        rows.push(row);
                    }
                }
                rows
            }
            JoinType::Right => {
                let mut rows = matched(self, &vars);
                let empty = nulls(left_vars, self);
                for mut row in
                    self.partnered(&right, right_vars, &left, left_vars, &condition, 0)?
                {
                    row.keys.splice(0..0, empty.iter().cloned());
                    rows.push(row);
                }
                rows
            }
            JoinType::LeftSemi => {
                self.partnered(&left, left_vars, &right, right_vars, &condition, 1)?
            }
            JoinType::LeftAnti => {
                self.partnered(&left, left_vars, &right, right_vars, &condition, 0)?
            }
            JoinType::RightSemi => {
                self.partnered(&right, right_vars, &left, left_vars, &condition, 1)?
            }
            JoinType::RightAnti => {
                self.partnered(&right, right_vars, &left, left_vars, &condition, 0)?
            }
            JoinType::LeftMark | JoinType::RightMark => {
                return Err(Unsupported::new("a mark join"));
            }
        };
        self.pop_scope();
        Ok(rows)
    }

    fn join_condition(&mut self, join: &Join) -> Result<Vec<Expr>> {
        let mut all = Vec::new();
        for (left, right) in &join.on {
            let (lt, rt) = (self.type_of(left)?, self.type_of(right)?);
            let (a, b) = (self.scalar(left)?, self.scalar(right)?);
            all.push(match join.null_equality {
                NullEquality::NullEqualsNothing => compared(CompareOp::Eq, a, &lt, b, &rt)?,
                NullEquality::NullEqualsNull => null_safe_eq(Encoding::of(&lt)?.ty(), a, b),
            });
        }
        if let Some(filter) = &join.filter {
            for part in utils::split_conjunction(filter) {
                all.push(self.condition(part)?);
            }
        }
        Ok(all.into_iter().flat_map(conjuncts).collect())
    }

    /// The rows of one side that have a partner on the other (`wanted` 1) or have none (0).
    fn partnered(
        &mut self,
        rows: &[Term],
        vars: &[Var],
        others: &[Term],
        other_vars: &[Var],
        condition: &[Expr],
        wanted: i64,
    ) -> Result<Vec<Term>> {
        let mut partners = Vec::new();
        for other in others {
            let by = columns_of(other_vars, &other.keys);
            let mut partner = other.clone();
            partner.conditions.extend(condition.iter().map(|c| replace(c, &by)));
            partners.push(partner);
        }
        let found = self.exists_in(partners)?;
        let wanted =
            Expr::Compare(CompareOp::Eq, Type::Int, Box::new(found), Box::new(Expr::Int(wanted)));
        Ok(rows.iter().flat_map(|row| self.restricted(row, vars, &wanted)).collect())
    }
}

fn product(left: &[Term], right: &[Term]) -> Vec<Term> {
    let mut all = Vec::new();
    for l in left {
        for r in right {
            let mut row = l.times(r);
            row.keys.extend(r.keys.iter().cloned());
            all.push(row);
        }
    }
    all
}

/// Whether an expression is a comparison, which at the top of a condition may be a threshold.
fn is_comparison(expr: &Sql) -> bool {
    matches!(expr, Sql::BinaryExpr(binary) if crate::scalar::comparison(binary.op).is_some())
}

fn has_subquery(expr: &Sql) -> bool {
    use datafusion::common::tree_node::TreeNode;
    expr.exists(|node| {
        Ok(matches!(
            node,
            Sql::ScalarSubquery(_) | Sql::Exists(_) | Sql::InSubquery(_) | Sql::SetComparison(_)
        ))
    })
    .unwrap_or(true)
}
