//! Subqueries in expressions, as sums over cases.
//!
//! A subquery stands in an expression as a variable v. What v is, is a signed sum of cases: of a
//! scalar subquery D(k, x) correlated by k,
//!
//! f(v) = f(default) + D(k, x)·f(x) − D(k, x)·f(default),
//!
//! where the default is the value over no row: NULL, or 0 of a COUNT. So it is a left outer join
//! with the subquery's relation. EXISTS is the same with 1 and the default 0. As most conditions are
//! never true of NULL, or of 0, most cases vanish when constants are folded: EXISTS leaves the join,
//! NOT EXISTS the row minus the join.

use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Expr as Sql, Operator, Subquery};
use halcyon_view::program::{CompareOp, Expr, Type};

use crate::builder::{Bag, Builder, Case, Group};
use crate::calculus::{Term, Var};
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::expression::{and, fold, is_null, never_true, not, variables};
use crate::scalar::compared;
use crate::simplify::replace;

impl Builder<'_> {
    fn variable(&mut self, cases: Vec<Case>, ty: Type) -> Expr {
        if let [case] = cases.as_slice()
            && case.term == Term::unit()
        {
            return case.value.clone();
        }
        let var = self.parts.vars.fresh("subquery", ty, true);
        self.subqueries.push((var, cases));
        Expr::Reg(var)
    }

    /// A condition of which only true counts.
    pub fn condition(&mut self, sql: &Sql) -> Result<Expr> {
        match sql {
            // Whether IN is false or NULL makes no difference here.
            Sql::InSubquery(InSubquery { expr, subquery, negated: false }) => {
                self.compared_with_any(expr, CompareOp::Eq, subquery)
            }
            Sql::SetComparison(comparison) => self.set_comparison(comparison),
            other => self.scalar(other).map(relaxed),
        }
    }

    pub fn scalar_subquery(&mut self, subquery: &Subquery) -> Result<Expr> {
        let seeks = std::mem::replace(&mut self.seeks_thresholds, false);
        let value = match seeks {
            true => match self.one_sided(subquery)? {
                Some(value) => value,
                None => self.any_scalar_subquery(subquery)?,
            },
            false => self.any_scalar_subquery(subquery)?,
        };
        self.seeks_thresholds = seeks;
        Ok(value)
    }

    fn any_scalar_subquery(&mut self, subquery: &Subquery) -> Result<Expr> {
        let plan = &subquery.subquery;
        let ty = Encoding::of(plan.schema().field(0).data_type())?.ty();
        let null = Expr::Null(ty);
        let rows = match self.bag(plan)? {
            Bag::Group(group) if group.defaults.is_some() => {
                let plain = group.row.conditions.is_empty() && group.having.is_empty();
                let column = matches!(group.row.keys[0], Expr::Reg(_));
                let total = (plain && column && !group.always).then(|| group.clone());
                let cases = self.aggregate_cases(group, null);
                let value = self.variable(cases, ty);
                if let (Some(total), Expr::Reg(var)) = (total, &value) {
                    self.totals.push((*var, total));
                }
                return Ok(value);
            }
            bag => self.rows_of(bag),
        };
        let [row] = rows.as_slice() else { return Err(several_rows()) };
        if !self.single_row(row) {
            return Err(several_rows());
        }
        let row = Term { keys: Vec::new(), ..row.clone() };
        let absent = Term { weight: -row.weight, ..row.clone() };
        let cases = vec![
            Case { term: Term::unit(), value: null.clone() },
            Case { term: row, value: rows[0].keys[0].clone() },
            Case { term: absent, value: null },
        ];
        Ok(self.variable(cases, ty))
    }

    /// Cases of an aggregate without GROUP BY, which always has one row unless HAVING says no.
    fn aggregate_cases(&mut self, group: Group, null: Expr) -> Vec<Case> {
        let defaults = group.defaults.as_ref().expect("asked for aggregates without GROUP BY");
        let having = and(group.having.clone());
        let value = group.row.keys[0].clone();
        let kept = !never_true(&replace(&having, defaults));
        let default = if kept { replace(&value, defaults) } else { null.clone() };
        let row = Term { keys: Vec::new(), ..group.row };
        let mut passing = row.clone();
        let has_having = having != Expr::Int(1);
        if has_having {
            passing.conditions.push(having);
        }
        let minus = |term: &Term| Term { weight: -term.weight, ..term.clone() };
        let mut cases = vec![Case { term: passing.clone(), value }];
        // Or else there is a group for every row that asks.
        if !group.always {
            cases.push(Case { term: Term::unit(), value: default.clone() });
            cases.push(Case { term: minus(&row), value: default });
        }
        if has_having {
            cases.push(Case { term: row, value: null.clone() });
            cases.push(Case { term: minus(&passing), value: null });
        }
        cases
    }

    /// 1 or 0.
    pub fn exists(&mut self, subquery: &Subquery) -> Result<Expr> {
        match self.bag(&subquery.subquery)? {
            Bag::Group(group) if group.defaults.is_some() && group.having.is_empty() => {
                Ok(Expr::Int(1))
            }
            bag => {
                let rows = self.rows_of(bag);
                self.exists_in(rows)
            }
        }
    }

    /// 1 or 0: whether there is any of the rows.
    pub fn exists_in(&mut self, rows: Vec<Term>) -> Result<Expr> {
        let rows: Vec<Term> = rows
            .into_iter()
            .flat_map(|row| crate::simplify::simplify(row, &mut self.parts.vars))
            .collect();
        if rows.is_empty() {
            return Ok(Expr::Int(0));
        }
        let single = matches!(rows.as_slice(), [row] if row.weight == 1 && self.single_row(row));
        let found = if single {
            Term { keys: Vec::new(), ..rows[0].clone() }
        } else {
            let group = self.presence(rows)?;
            Term { keys: Vec::new(), ..group.row }
        };
        let missing = Term { weight: -1, ..found.clone() };
        let cases = vec![
            Case { term: Term::unit(), value: Expr::Int(0) },
            Case { term: found, value: Expr::Int(1) },
            Case { term: missing, value: Expr::Int(0) },
        ];
        Ok(self.variable(cases, Type::Int))
    }

    /// Whether at most one row of the term has given values of the enclosing queries' columns.
    pub fn single_row(&self, row: &Term) -> bool {
        let outer = |var: &Var| self.parts.vars.get(*var).scope.is_some();
        let mut found: std::collections::BTreeSet<Var> = Default::default();
        loop {
            let before = found.len();
            for condition in &row.conditions {
                let (a, b) = match condition {
                    Expr::Compare(CompareOp::Eq, _, a, b) => (&**a, &**b),
                    other => match crate::expression::null_safe_sides(other) {
                        Some(sides) => sides,
                        None => continue,
                    },
                };
                for (var, value) in [(a, b), (b, a)] {
                    let given = variables(value).iter().all(|v| outer(v) || found.contains(v));
                    if let Expr::Reg(var) = var
                        && !outer(var)
                        && given
                    {
                        found.insert(*var);
                    }
                }
            }
            for atom in &row.atoms {
                let unique = &self.parts.relations[atom.relation].unique;
                if unique.iter().any(|key| key.iter().all(|c| found.contains(&atom.vars[*c]))) {
                    found.extend(atom.vars.iter().copied());
                }
            }
            if found.len() == before {
                break;
            }
        }
        row.atoms.iter().all(|atom| {
            let unique = &self.parts.relations[atom.relation].unique;
            unique.iter().any(|key| key.iter().all(|c| found.contains(&atom.vars[*c])))
        })
    }

    /// `expr IN (subquery)`: 1, 0 or NULL.
    pub fn in_subquery(&mut self, expr: &Sql, subquery: &Subquery) -> Result<Expr> {
        let found = self.compared_with_any(expr, CompareOp::Eq, subquery)?;
        let value = self.scalar(expr)?;
        let field = subquery.subquery.schema().field(0).clone();
        let item_type = Encoding::of(field.data_type())?.ty();
        let value_type = self.words(expr)?;
        let mut unknown = Vec::new();
        if self.parts.vars.nullable(&value) {
            let any = self.exists(subquery)?;
            unknown.push(and(vec![any, is_null(value_type, value)]));
        }
        if field.is_nullable() {
            let mut rows = self.rows(&subquery.subquery)?;
            for row in &mut rows {
                row.conditions.push(is_null(item_type, row.keys[0].clone()));
            }
            unknown.push(self.exists_in(rows)?);
        }
        if unknown.is_empty() {
            return Ok(found);
        }
        let when = vec![(found, Expr::Int(1)), (fold(Expr::Or(unknown)), Expr::Null(Type::Int))];
        Ok(fold(Expr::Case { ty: Type::Int, when, otherwise: Box::new(Expr::Int(0)) }))
    }

    /// 1 if the comparison is true with any row, else 0.
    fn compared_with_any(
        &mut self,
        expr: &Sql,
        op: CompareOp,
        subquery: &Subquery,
    ) -> Result<Expr> {
        self.rows_where(expr, subquery, |value, ty, item, item_type| {
            compared(op, value, ty, item, item_type)
        })
    }

    fn rows_where(
        &mut self,
        expr: &Sql,
        subquery: &Subquery,
        condition: impl Fn(
            Expr,
            &arrow::datatypes::DataType,
            Expr,
            &arrow::datatypes::DataType,
        ) -> Result<Expr>,
    ) -> Result<Expr> {
        let (value, ty) = (self.scalar(expr)?, self.type_of(expr)?);
        let item_type = subquery.subquery.schema().field(0).data_type().clone();
        let mut rows = self.rows(&subquery.subquery)?;
        for row in &mut rows {
            let item = row.keys[0].clone();
            row.conditions.push(condition(value.clone(), &ty, item, &item_type)?);
        }
        self.exists_in(rows)
    }

    /// ANY and ALL, where only true counts.
    fn set_comparison(&mut self, comparison: &SetComparison) -> Result<Expr> {
        let op = match comparison.op {
            Operator::Eq => CompareOp::Eq,
            Operator::NotEq => CompareOp::Ne,
            Operator::Lt => CompareOp::Lt,
            Operator::LtEq => CompareOp::Le,
            Operator::Gt => CompareOp::Gt,
            Operator::GtEq => CompareOp::Ge,
            other => return Err(Unsupported::new(format!("{other} ANY"))),
        };
        match comparison.quantifier {
            SetQuantifier::Any => {
                self.compared_with_any(&comparison.expr, op, &comparison.subquery)
            }
            SetQuantifier::All => {
                let counter = self.rows_where(
                    &comparison.expr,
                    &comparison.subquery,
                    |value, ty, item, item_type| {
                        let holds = compared(op, value, ty, item, item_type)?;
                        Ok(not(fold(Expr::Coalesce(Type::Int, vec![holds, Expr::Int(0)]))))
                    },
                )?;
                Ok(not(counter))
            }
        }
    }
}

fn several_rows() -> Unsupported {
    Unsupported::new("a scalar subquery that may return several rows")
        .hint("Use an aggregate, or compare all columns of a unique key.")
}

/// A condition of which only true counts, without what makes NULL false: as such it is recognised as
/// a comparison that joins.
fn relaxed(condition: Expr) -> Expr {
    match condition {
        Expr::And(all) => Expr::And(all.into_iter().map(relaxed).collect()),
        Expr::Coalesce(Type::Int, mut all) if matches!(all.as_slice(), [_, Expr::Int(0)]) => {
            relaxed(all.swap_remove(0))
        }
        other => other,
    }
}
