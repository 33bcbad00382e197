//! Subqueries in expressions, as sums over cases.
//!
//! A subquery in an expression is represented by a variable v, whose value is given by a signed sum
//! of cases. For a scalar subquery D(k, x) correlated by k,
//!
//! f(v) = f(default) + D(k, x)·f(x) − D(k, x)·f(default),
//!
//! where the default is the value over no row: NULL, or 0 for a COUNT. That is a left outer join
//! with the subquery's relation. EXISTS has the same form with the value 1 and the default 0. Most
//! conditions are never true for NULL or for 0, so most cases vanish when constants are folded:
//! EXISTS leaves the join, NOT EXISTS the row minus the join.

use arrow::datatypes::DataType;
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Expr as Sql, Subquery};
use halcyon_view::program::{CompareOp, Expr, Type};

use crate::builder::{Bag, Builder, Case, Group};
use crate::calculus::{Term, Var, Variable};
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::expression::{and, fold, is_null, not, variables};
use crate::scalar::compared;
use crate::simplify::replace;

impl Builder<'_> {
    /// Makes a variable that stands for a subquery with these cases. The variable belongs to the
    /// query in whose expression the subquery stands. Another subquery of the same expression (say
    /// an IN with this one in its operand) sees it as a value of an enclosing query, like a column.
    /// [`Builder::expand`] replaces it by the cases.
    pub fn variable(&mut self, cases: Vec<Case>, ty: Type) -> Expr {
        if let [case] = cases.as_slice()
            && case.term == Term::unit()
        {
            return case.value.clone();
        }
        let (name, scope) = ("subquery".to_owned(), Some(self.scope().id));
        let var = self.parts.vars.add(Variable { name, ty, nullable: true, scope, foreign: None });
        self.subqueries.push((var, cases));
        Expr::Reg(var)
    }

    /// Translates a condition for which NULL and false are the same.
    pub fn condition(&mut self, sql: &Sql) -> Result<Expr> {
        match sql {
            // For such a condition it makes no difference whether IN and ANY are false or NULL.
            Sql::InSubquery(InSubquery { expr, subquery, negated: false }) => {
                let operand = self.operand(expr)?;
                self.equals_any(&operand, CompareOp::Eq, subquery)
            }
            Sql::SetComparison(comparison) => self.true_set_comparison(comparison),
            other => self.scalar(other).map(relaxed),
        }
    }

    /// The left operand of IN, ANY or ALL, translated once, since each subquery in it has its own
    /// cases.
    fn operand(&mut self, expr: &Sql) -> Result<Operand> {
        let seeks = std::mem::replace(&mut self.seeks_thresholds, false);
        let value = self.scalar(expr);
        self.seeks_thresholds = seeks;
        Ok(Operand { value: value?, ty: self.type_of(expr)?, words: self.words(expr)? })
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
        if row.weight == 1 && row.atoms.is_empty() && row.conditions.is_empty() {
            return Ok(row.keys[0].clone());
        }
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

    /// The cases of an aggregate without GROUP BY, which always has one row unless HAVING excludes
    /// it.
    fn aggregate_cases(&mut self, group: Group, null: Expr) -> Vec<Case> {
        let defaults = group.defaults.as_ref().expect("asked for aggregates without GROUP BY");
        let having = and(group.having.clone());
        let value = group.row.keys[0].clone();
        let kept = replace(&having, defaults);
        let ty = self.parts.vars.type_of(&null);
        let when = vec![(kept, replace(&value, defaults))];
        let default = fold(Expr::Case { ty, when, otherwise: Box::new(null.clone()) });
        let row = Term { keys: Vec::new(), ..group.row };
        let mut passing = row.clone();
        let has_having = having != Expr::Int(1);
        if has_having {
            passing.conditions.push(having);
        }
        let minus = |term: &Term| Term { weight: -term.weight, ..term.clone() };
        let mut cases = vec![Case { term: passing.clone(), value }];
        // Otherwise there is a group for every combination of outer values.
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

    /// EXISTS: 1 or 0.
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

    /// Whether there are rows: 1 or 0.
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

    /// Whether the term has at most one row for given values of the enclosing queries' columns.
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

    /// `expr op ANY (subquery)`: 1, 0 or NULL. `expr IN (subquery)` is `expr = ANY (subquery)`.
    pub fn any_of(&mut self, expr: &Sql, op: CompareOp, subquery: &Subquery) -> Result<Expr> {
        let operand = self.operand(expr)?;
        let found = self.equals_any(&operand, op, subquery)?;
        let field = subquery.subquery.schema().field(0).clone();
        let item_type = Encoding::of(field.data_type())?.ty();
        let mut unknown = Vec::new();
        if self.parts.vars.nullable(&operand.value) {
            let any = self.exists(subquery)?;
            unknown.push(and(vec![any, is_null(operand.words, operand.value)]));
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

    /// Whether the comparison is true with some row: 1 or 0.
    fn equals_any(
        &mut self,
        operand: &Operand,
        op: CompareOp,
        subquery: &Subquery,
    ) -> Result<Expr> {
        self.any_row(operand, subquery, |value, ty, item, item_type| {
            compared(op, value, ty, item, item_type)
        })
    }

    /// Whether a condition on the operand and a row's value is true for some row: 1 or 0.
    fn any_row(
        &mut self,
        operand: &Operand,
        subquery: &Subquery,
        condition: impl Fn(Expr, &DataType, Expr, &DataType) -> Result<Expr>,
    ) -> Result<Expr> {
        let item_type = subquery.subquery.schema().field(0).data_type().clone();
        let mut rows = self.rows(&subquery.subquery)?;
        for row in &mut rows {
            let item = row.keys[0].clone();
            row.conditions.push(condition(operand.value.clone(), &operand.ty, item, &item_type)?);
        }
        self.exists_in(rows)
    }

    /// A comparison with ANY or ALL: 1, 0 or NULL.
    pub fn set_comparison(&mut self, comparison: &SetComparison) -> Result<Expr> {
        let op = comparison_of(comparison)?;
        let SetComparison { expr, subquery, .. } = comparison;
        Ok(match comparison.quantifier {
            SetQuantifier::Any => self.any_of(expr, op, subquery)?,
            // A comparison holds for all rows if its opposite holds for none.
            SetQuantifier::All => not(self.any_of(expr, op.opposite(), subquery)?),
        })
    }

    /// A comparison with ANY or ALL where NULL and false are the same.
    fn true_set_comparison(&mut self, comparison: &SetComparison) -> Result<Expr> {
        let op = comparison_of(comparison)?;
        let operand = self.operand(&comparison.expr)?;
        let subquery = &comparison.subquery;
        match comparison.quantifier {
            SetQuantifier::Any => self.equals_any(&operand, op, subquery),
            SetQuantifier::All => {
                let counter = self.any_row(&operand, subquery, |value, ty, item, item_type| {
                    let holds = compared(op, value, ty, item, item_type)?;
                    Ok(not(fold(Expr::Coalesce(Type::Int, vec![holds, Expr::Int(0)]))))
                })?;
                Ok(not(counter))
            }
        }
    }
}

/// The left operand of a comparison with the rows of a subquery.
struct Operand {
    value: Expr,
    /// SQL type of the value.
    ty: DataType,
    /// Type of the value's words.
    words: Type,
}

fn comparison_of(comparison: &SetComparison) -> Result<CompareOp> {
    crate::scalar::comparison(comparison.op)
        .ok_or_else(|| Unsupported::new(format!("{} {}", comparison.op, comparison.quantifier)))
}

fn several_rows() -> Unsupported {
    Unsupported::new("a scalar subquery that may return several rows")
        .hint("Use an aggregate, or compare all columns of a unique key.")
}

/// A condition for which NULL and false are the same, without the part that turns NULL into false:
/// only in this form is it recognised as a comparison that joins.
fn relaxed(condition: Expr) -> Expr {
    match condition {
        Expr::And(all) => Expr::And(all.into_iter().map(relaxed).collect()),
        Expr::Coalesce(Type::Int, mut all) if matches!(all.as_slice(), [_, Expr::Int(0)]) => {
            relaxed(all.swap_remove(0))
        }
        other => other,
    }
}
