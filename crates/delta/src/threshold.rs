//! Conditions on sums over one side of an order, as thresholds that are searched for.
//!
//! `0.25 · (SELECT SUM(v) …) > COALESCE((SELECT SUM(v) FROM b WHERE b.x > o), 0)`: if no v is
//! negative, the inner sum S(o) never grows with o, so the condition holds from some threshold p
//! on, and the block becomes a join of one row p with the range `o ≥ p`. An event seldom moves p,
//! and finding p is a search in a map of the sums ordered by x [abeysinghe2022 has the idea of such
//! indexes].
//!
//! With T the sum over all rows, for `x > o`:
//!
//! | condition | search | holds for |
//! |---|---|---|
//! | S(o) < L | from below, the first x where the sum up to it exceeds T − L | o ≥ p |
//! | S(o) ≥ L | as for S(o) < L | o < p |
//! | S(o) ≤ L | from above, the first x where the sum down to it exceeds L | o ≥ p |
//! | S(o) > L | as for S(o) ≤ L | o < p |
//!
//! For `x ≥ o` the bound itself moves to the other side; for `x < o` everything is mirrored. Where
//! even the sum over no rows exceeds the limit, or no sum does, p is an end of the type's range or
//! NULL.

use std::collections::{BTreeSet, HashMap};

use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr as Sql, LogicalPlan, Subquery};
use halcyon_view::program::{BinaryOp, CompareOp, Component, Expr, MapId, Reg, Step, Type};

use crate::builder::{Builder, Case, Group, OneSided, columns_of};
use crate::calculus::{Term, Var};
use crate::error::Result;
use crate::expression::{
    cast, compare, fold, is_null, mentions, never_true, not, substitute, variables,
};
use crate::parts::{Column, Derived, Map, Rank};
use crate::simplify::{isolate, replace, simplify};
use crate::viewlet::{helper, shape};

impl Builder<'_> {
    /// Translates a subquery as a sum over one side of an order, if it has that form.
    pub fn one_sided(&mut self, subquery: &Subquery) -> Result<Option<Expr>> {
        let LogicalPlan::Projection(projection) = subquery.subquery.as_ref() else {
            return Ok(None);
        };
        let ([shown], LogicalPlan::Aggregate(aggregate)) =
            (projection.expr.as_slice(), projection.input.as_ref())
        else {
            return Ok(None);
        };
        // PostgreSQL's name of a column appears as an alias here.
        if !matches!(shown.clone().unalias(), Sql::Column(_)) {
            return Ok(None);
        }
        let ([], [Sql::AggregateFunction(AggregateFunction { func, params })]) =
            (aggregate.group_expr.as_slice(), aggregate.aggr_expr.as_slice())
        else {
            return Ok(None);
        };
        let ("sum", false, None, [arg]) =
            (func.name(), params.distinct, &params.filter, params.args.as_slice())
        else {
            return Ok(None);
        };
        let rows = self.rows(&aggregate.input)?;
        let [row] = rows.as_slice() else { return Ok(None) };
        let schema = aggregate.input.schema().clone();
        self.push_scope(schema, rows.clone(), 0);
        let value = self.scalar(arg);
        let by = columns_of(&self.pop_scope().vars, &row.keys);
        let value = replace(&value?, &by);
        let own = row.bound();
        let is_outer = |var: &Var| self.parts.vars.get(*var).scope.is_some();
        let asked: BTreeSet<Var> =
            row.conditions.iter().flat_map(variables).filter(is_outer).collect();
        let (about, rest): (Vec<Expr>, Vec<Expr>) =
            row.conditions.iter().cloned().partition(|c| mentions(c, &asked));
        let [about] = about.as_slice() else { return Ok(None) };
        let Some((key, op, ty, outer)) = isolate(about, &own, &asked) else { return Ok(None) };
        // NULL adds nothing here: the sum is only used in functions for which NULL and zero are the
        // same (`linear`).
        let is_plain = variables(&value).is_subset(&own)
            && !matches!(op, CompareOp::Eq | CompareOp::Ne)
            && row.weight == 1;
        if !is_plain || !self.never_negative(&value, row) {
            return Ok(None);
        }
        let result = aggregate.schema.field(0).data_type();
        let value_type = self.parts.vars.type_of(&value);
        let value = cast(value, value_type, crate::Encoding::of(result)?.ty());
        let mut row = Term { conditions: rest, keys: Vec::new(), ..row.clone() };
        if self.parts.vars.nullable(&key) {
            row.conditions.push(not(is_null(ty, key.clone())));
        }
        let var = self.parts.vars.fresh("sum", self.parts.vars.type_of(&value), true);
        let subquery = subquery.clone();
        self.one_sided.push(OneSided { var, subquery, row, value, key, op, outer, ty });
        Ok(Some(Expr::Reg(var)))
    }

    /// Whether facts say that an expression over a row's variables is never negative.
    fn never_negative(&self, expr: &Expr, row: &Term) -> bool {
        match expr {
            Expr::Reg(var) => row.atoms.iter().any(|atom| {
                let columns = &self.parts.relations[atom.relation].columns;
                atom.vars.iter().zip(columns).any(|(v, column)| v == var && column.never_negative)
            }),
            Expr::Int(value) => *value >= 0,
            Expr::Wide(value) => *value >= 0,
            Expr::Float(value) => *value >= 0.0,
            Expr::Binary(BinaryOp::Add | BinaryOp::Mul, _, a, b) => {
                self.never_negative(a, row) && self.never_negative(b, row)
            }
            Expr::Cast { value, .. } | Expr::Rescale { value, .. } | Expr::Within { value, .. } => {
                self.never_negative(value, row)
            }
            _ => false,
        }
    }

    /// The condition with its sums over one side of an order turned into thresholds, or else into
    /// ordinary subqueries.
    pub fn settle_one_sided(&mut self, condition: Expr) -> Result<Expr> {
        let mut condition = condition;
        while let Some(at) =
            self.one_sided.iter().position(|pending| mentions(&condition, &[pending.var].into()))
        {
            let pending = self.one_sided.swap_remove(at);
            if let Some(threshold) = self.threshold(&condition, &pending)? {
                return self.settle_one_sided(threshold);
            }
            let value = self.scalar_subquery(&pending.subquery)?;
            condition = replace(&condition, &HashMap::from([(pending.var, value)]));
        }
        Ok(condition)
    }

    /// `limit op sum` as a case over the threshold's row; `None` if no threshold applies.
    fn threshold(&mut self, condition: &Expr, pending: &OneSided) -> Result<Option<Expr>> {
        let used = [pending.var].into();
        let Expr::Compare(op, ty, a, b) = condition else { return Ok(None) };
        let (sum, op, limit) = match (mentions(a, &used), mentions(b, &used)) {
            (true, false) => (a, *op, b),
            (false, true) => (b, op.mirrored(), a),
            _ => return Ok(None),
        };
        let Some(value) = linear(sum, pending.var, &pending.value) else { return Ok(None) };
        if matches!(op, CompareOp::Eq | CompareOp::Ne) || self.parts.vars.type_of(&value) != *ty {
            return Ok(None);
        }
        let mut totals = Vec::new();
        for var in variables(limit) {
            match self.totals.iter().find(|(own, _)| *own == var) {
                Some((_, group)) => totals.push((var, group.clone())),
                None => return Ok(None),
            }
        }
        // Over no rows at all, the limit is that of totals over nothing and the sum is zero.
        let zero = HashMap::from([(pending.var, Expr::Null(self.parts.vars.get(pending.var).ty))]);
        let empty: HashMap<Var, Expr> = totals
            .iter()
            .map(|(var, group)| {
                let defaults = group.defaults.as_ref().expect("totals have no GROUP BY");
                (*var, replace(&group.row.keys[0], defaults))
            })
            .collect();
        let at_nothing = replace(&replace(condition, &zero), &empty);
        let at_nothing = Expr::Int(i64::from(!never_true(&at_nothing)));
        // Rows compared with NULL lie on no side.
        let on_no_side =
            fold(Expr::Coalesce(Type::Int, vec![replace(condition, &zero), Expr::Int(0)]));
        let row = self.threshold_row(pending, op, *ty, &value, limit, &totals, on_no_side)?;
        let (point, on_no_side) = (row.keys[0].clone(), row.keys[1].clone());
        // In the mirrored case, o ≥ p becomes o ≤ p.
        let from_above = matches!(pending.op, CompareOp::Gt | CompareOp::Ge);
        let strict = matches!(pending.op, CompareOp::Gt | CompareOp::Lt);
        let side = match (matches!(op, CompareOp::Lt | CompareOp::Le), strict) {
            (true, true) => CompareOp::Ge,
            (true, false) => CompareOp::Gt,
            (false, true) => CompareOp::Lt,
            (false, false) => CompareOp::Le,
        };
        let side = if from_above { side } else { side.mirrored() };
        let holds = compare(side, pending.ty, pending.outer.clone(), point);
        let row = Term { keys: Vec::new(), ..row };
        let mut cases = vec![
            Case { term: Term::unit(), value: at_nothing.clone() },
            Case { term: Term { weight: -1, ..row.clone() }, value: at_nothing },
            Case { term: row.clone(), value: holds },
        ];
        if self.parts.vars.nullable(&pending.outer) {
            let absent = is_null(pending.ty, pending.outer.clone());
            let counts = compare(CompareOp::Eq, Type::Int, on_no_side, Expr::Int(1));
            cases.push(Case { term: row, value: Expr::And(vec![absent, counts]) });
        }
        Ok(Some(self.variable(cases, Type::Int)))
    }

    /// Makes the relation whose only row has the threshold and whether rows that lie on no side
    /// count.
    #[allow(clippy::too_many_arguments)]
    fn threshold_row(
        &mut self,
        pending: &OneSided,
        op: CompareOp,
        ty: Type,
        value: &Expr,
        limit: &Expr,
        totals: &[(Var, Group)],
        on_no_side: Expr,
    ) -> Result<Term> {
        let component = match ty {
            Type::Int => Component::Int,
            Type::Wide => Component::Wide,
            Type::Float => Component::Float,
        };
        let zero = cast(Expr::Int(0), Type::Int, ty);
        // The map notices all changes on which the threshold depends: it counts their rows, and has
        // the sum.
        let own = Term { values: vec![Expr::Int(1), value.clone()], ..pending.row.clone() };
        let mut terms = simplify(own, &mut self.parts.vars);
        let sums = Term { keys: vec![pending.key.clone()], ..pending.row.clone() };
        let sums = Term { values: vec![value.clone()], ..sums };
        let sums = simplify(sums, &mut self.parts.vars);
        for (_, group) in totals {
            let derived = self.derived(group).clone();
            for term in &self.parts.maps[derived.map].terms {
                // The sum's own rows cover this term already.
                if terms.iter().any(|own| shape(own) == shape(term)) {
                    continue;
                }
                terms.push(Term { values: vec![Expr::Int(1), zero.clone()], ..term.clone() });
            }
        }
        let payload = vec![Component::Int, component];
        let map = self.add_map("t", terms, Vec::new(), payload, false, Rank::Thresholds);
        // A helper map may be shared with statements.
        let (ordered, summed) = match sums.as_slice() {
            [sums] => {
                let (ordered, _, components) = helper(&mut self.parts, sums, true);
                (ordered, components[0])
            }
            _ => {
                let key = vec![pending.ty];
                (self.add_map("o", sums, key, vec![component], true, Rank::LookedUp), 0)
            }
        };

        // Registers: the count, the sum over all rows, then the values looked up.
        let mut look_up = LookUp { next: 2, registers: Vec::new(), steps: Vec::new() };
        let everything = Expr::Reg(Reg(1));
        let mut by = HashMap::new();
        for (var, group) in totals {
            let value = self.total(group, &mut look_up);
            by.insert(*var, value);
        }
        let on_no_side = substitute(on_no_side, &by);
        let limit = look_up.set(substitute(limit.clone(), &by), ty);
        // The search is from the side of the sum itself, or from the other side for the rest.
        let of_rest = matches!(op, CompareOp::Lt | CompareOp::Ge);
        let searched = match of_rest {
            true => Expr::Binary(BinaryOp::Sub, ty, Box::new(everything), Box::new(limit.clone())),
            false => limit.clone(),
        };
        let searched = look_up.set(searched, ty);
        let from_above = matches!(pending.op, CompareOp::Gt | CompareOp::Ge);
        let found = look_up.register(pending.ty);
        look_up.steps.push(Step::Search {
            map: MapId(ordered as u16),
            prefix: Vec::new(),
            descending: from_above != of_rest,
            component: summed,
            limit: searched.clone(),
            key: found,
        });
        let below_zero = Expr::Compare(CompareOp::Lt, ty, Box::new(searched), Box::new(zero));
        let point = ends(pending, op, of_rest, from_above, found, below_zero, &limit, ty);
        let exists = compare(CompareOp::Gt, Type::Int, Expr::Reg(Reg(0)), Expr::Int(0));
        let column = |name: &str, ty: Type, nullable: bool| Column {
            name: name.to_owned(),
            encoding: crate::Encoding::Int,
            ty,
            foreign: None,
            nullable,
            never_negative: false,
        };
        let columns =
            vec![column("threshold", pending.ty, true), column("without", Type::Int, false)];
        let derived = Derived {
            map,
            step_registers: look_up.registers,
            steps: look_up.steps,
            exists,
            row: vec![point, on_no_side],
        };
        let name = format!("dt{map}");
        let relation = self.parts.relation(name, columns, vec![vec![]], None, Some(derived));
        // Most events leave the threshold as it is.
        self.parts.relations[relation].restless = false;
        let atom = self.parts.atom(relation);
        let keys = atom.vars.iter().map(|var| Expr::Reg(*var)).collect();
        Ok(Term { atoms: vec![atom], keys, ..Term::unit() })
    }

    fn derived(&self, group: &Group) -> &Derived {
        self.parts.relations[group.relation].derived.as_ref().expect("a group is derived")
    }

    /// Steps that look up an aggregate without GROUP BY in its map.
    fn total(&self, group: &Group, look_up: &mut LookUp) -> Expr {
        let derived = self.derived(group);
        let map = &self.parts.maps[derived.map];
        let mut payload = Vec::new();
        let mut by: HashMap<Var, Expr> = HashMap::new();
        for (at, component) in map.payload.iter().enumerate() {
            let reg = look_up.register(component.ty());
            payload.push((at as u16, reg));
            by.insert(Reg(at as u16), Expr::Reg(reg));
        }
        look_up.steps.push(Step::Get { map: MapId(derived.map as u16), key: Vec::new(), payload });
        let Expr::Reg(column) = &group.row.keys[0] else {
            unreachable!("totals are plain columns")
        };
        let vars = &group.row.atoms[0].vars;
        let at = vars.iter().position(|var| var == column).expect("a column of its atom");
        substitute(derived.row[at].clone(), &by)
    }

    fn add_map(
        &mut self,
        letter: &str,
        terms: Vec<Term>,
        key: Vec<Type>,
        payload: Vec<Component>,
        ordered: bool,
        rank: Rank,
    ) -> usize {
        let name = format!("{letter}{}", self.parts.maps.len());
        let (slices, canonical) = (Vec::new(), None);
        self.parts.maps.push(Map { name, terms, key, payload, ordered, slices, rank, canonical });
        self.parts.maps.len() - 1
    }
}

/// The threshold, also where the search finds nothing or the limit makes a search pointless.
#[allow(clippy::too_many_arguments)]
fn ends(
    pending: &OneSided,
    op: CompareOp,
    of_rest: bool,
    from_above: bool,
    found: Reg,
    below_zero: Expr,
    limit: &Expr,
    ty: Type,
) -> Expr {
    let none = Expr::Null(pending.ty);
    // S < L and S <= L hold beyond p, the other two before it; for `x < o` it is the other way
    // round.
    let beyond = matches!(op, CompareOp::Lt | CompareOp::Le);
    let all = end_of(pending.ty, beyond != from_above);
    let (at_zero, nothing_found) = match (of_rest, beyond) {
        // Even the sum over no rows leaves less than L: the condition holds everywhere, or nowhere.
        (true, true) | (false, false) => (all, none.clone()),
        (true, false) | (false, true) => (none.clone(), all),
    };
    let is_null = |expr: Expr, ty: Type| Expr::IsNull(ty, Box::new(expr));
    Expr::Case {
        ty: pending.ty,
        when: vec![
            (is_null(limit.clone(), ty), none),
            (below_zero, at_zero),
            (is_null(Expr::Reg(found), pending.ty), nothing_found),
        ],
        otherwise: Box::new(Expr::Reg(found)),
    }
}

/// The largest or smallest value of a type.
fn end_of(ty: Type, largest: bool) -> Expr {
    match (ty, largest) {
        (Type::Int, true) => Expr::Int(i64::MAX),
        (Type::Int, false) => Expr::Int(i64::MIN + 1),
        (Type::Wide, true) => Expr::Wide(i128::MAX),
        (Type::Wide, false) => Expr::Wide(i128::MIN + 1),
        (Type::Float, true) => Expr::Float(f64::INFINITY),
        (Type::Float, false) => Expr::Float(f64::NEG_INFINITY),
    }
}

/// The look-ups of a derived relation while they are being written.
struct LookUp {
    next: u16,
    registers: Vec<Type>,
    steps: Vec<Step>,
}

impl LookUp {
    fn register(&mut self, ty: Type) -> Reg {
        self.registers.push(ty);
        self.next += 1;
        Reg(self.next - 1)
    }

    fn set(&mut self, value: Expr, ty: Type) -> Expr {
        let reg = self.register(ty);
        self.steps.push(Step::Let { reg, value });
        Expr::Reg(reg)
    }
}

/// A function of a sum, applied to each summand; only for functions for which a sum over no rows or
/// only NULLs is the same as zero.
fn linear(sum: &Expr, var: Var, value: &Expr) -> Option<Expr> {
    let coalesced = |expr: &Expr| match expr {
        Expr::Coalesce(_, all) => {
            matches!(all.as_slice(), [Expr::Reg(own), Expr::Int(0) | Expr::Wide(0)] if *own == var)
                || matches!(all.as_slice(), [Expr::Reg(own), Expr::Float(zero)]
                    if *own == var && *zero == 0.0)
        }
        _ => false,
    };
    match sum {
        expr if coalesced(expr) => Some(value.clone()),
        Expr::Cast { from: Type::Int, to, value: inner } => {
            Some(cast(linear(inner, var, value)?, Type::Int, *to))
        }
        Expr::Rescale { ty, by, value: inner } if *by > 0 => {
            let value = Box::new(linear(inner, var, value)?);
            Some(fold(Expr::Rescale { ty: *ty, by: *by, value }))
        }
        _ => None,
    }
}
