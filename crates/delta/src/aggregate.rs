//! Aggregations: a block ends below an aggregation, and a derived relation stands for the
//! aggregation in the block above.
//!
//! The map of the groups has a hidden count, which says whether a group exists, and a component per
//! sum. Values that are not linear (AVG, a sum that is NULL over no rows, expressions) are computed
//! when the row is read. MIN and MAX look up the edge of an ordered map; DISTINCT arguments become
//! a relation of their own.
//!
//! A subquery's block may mention columns of enclosing queries. If a condition equates such a
//! column with an expression of the block itself, that expression becomes a key of the groups, and
//! the equality moves above the aggregation (decorrelation by equality [koch2014, §5.2]). If the
//! block mentions outer columns in any other way, it is joined with their distinct values in the
//! enclosing query, which become the key.

use std::collections::{BTreeSet, HashMap};

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Aggregate, Expr as Sql, expr::AggregateFunction};
use halcyon_view::program::{BinaryOp, CompareOp, Component, Expr, MapId, Reg, Step, Type};

use crate::builder::{Builder, Group, columns_of};
use crate::calculus::{RelationIndex, Term, Var};
use crate::encoding::Encoding;
use crate::error::{Result, Unsupported};
use crate::expression::{
    and, cast, compare, fold, is_null, mentions, never_true, not, null_safe_eq, null_safe_sides,
    substitute, variables, within,
};
use crate::parts::{Column, Derived, Map, Rank};
use crate::scalar::{rescale, scale};
use crate::simplify::{isolate, replace, simplify};
use crate::viewlet::combined;

/// A term that gives rows to be grouped.
struct Input {
    term: Term,
    keys: Vec<Expr>,
    args: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

/// A call of an aggregate function. Argument and filter are indexes into [`Input::args`].
struct Call {
    function: Function,
    /// The argument; `None` for `count(*)`.
    arg: Option<usize>,
    filter: Option<usize>,
    distinct: bool,
    arg_type: DataType,
    result: DataType,
    name: String,
}

/// The conditions of an input, split: conditions over the input's own variables, conditions over values of
/// enclosing queries alone, and equalities between the two, each with whether NULL equals NULL.
type Split = (Vec<Expr>, Vec<Expr>, Vec<(Expr, Expr, bool)>);

/// The relation between the rows to be grouped and the enclosing queries.
struct Correlation {
    /// Outer values that the first keys must equal, each with whether NULL equals NULL there.
    outer: Vec<(Expr, bool)>,
    /// Conditions on values of enclosing queries alone.
    floating: Vec<Expr>,
    /// The relation of the distinct outer values for which the subquery is evaluated, with the
    /// variables that hold them.
    domain: Option<(RelationIndex, Vec<Var>)>,
}

impl Builder<'_> {
    pub fn aggregate(&mut self, rows: Vec<Term>, aggregate: &Aggregate) -> Result<Group> {
        let schema = aggregate.input.schema().clone();
        self.push_scope(schema, rows.clone(), 0);
        // An expression that GROUP BY names twice is one column of the aggregation's schema.
        let mut keys: Vec<&Sql> = Vec::new();
        for key in &aggregate.group_expr {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut exprs = Vec::new();
        for key in keys {
            exprs.push(self.scalar(key)?);
        }
        let key_count = exprs.len();
        let mut calls = Vec::new();
        for (at, call) in aggregate.aggr_expr.iter().enumerate() {
            let field = aggregate.schema.field(key_count + at);
            calls.push(self.call_of(
                call,
                field.data_type(),
                field.name(),
                key_count,
                &mut exprs,
            )?);
        }
        let scope = self.pop_scope();
        let mut inputs = Vec::new();
        for row in &rows {
            let by = columns_of(&scope.vars, &row.keys);
            for (term, mut keys) in self.expand(row, &by, &exprs) {
                let args = keys.split_off(key_count);
                inputs.push(Input { term, keys, args });
            }
        }
        let names: Vec<String> =
            aggregate.schema.fields().iter().take(key_count).map(|f| f.name().clone()).collect();
        self.group(inputs, &names, &calls, aggregate.group_expr.is_empty())
    }

    /// Groups the rows by all their columns, which takes duplicates out.
    pub fn distinct(&mut self, rows: Vec<Term>) -> Result<Group> {
        let width = rows.first().map_or(0, |row| row.keys.len());
        let names: Vec<String> =
            (0..width).map(|at| self.parts.vars.name_of(&rows[0].keys[at])).collect();
        let inputs = rows
            .into_iter()
            .map(|term| Input { keys: term.keys.clone(), term, args: Vec::new() })
            .collect();
        self.group(inputs, &names, &[], false)
    }

    /// A group that exists if there are rows, for each combination of outer values.
    pub fn presence(&mut self, rows: Vec<Term>) -> Result<Group> {
        let inputs = rows.into_iter().map(|term| Input { term, keys: vec![], args: vec![] });
        self.group(inputs.collect(), &[], &[], false)
    }

    fn call_of(
        &mut self,
        call: &Sql,
        result: &DataType,
        name: &str,
        key_count: usize,
        exprs: &mut Vec<Expr>,
    ) -> Result<Call> {
        let call = match call {
            Sql::Alias(alias) => &alias.expr,
            other => other,
        };
        let Sql::AggregateFunction(AggregateFunction { func, params }) = call else {
            return Err(Unsupported::new(format!("the aggregate {call}")));
        };
        let function = match func.name() {
            "count" => Function::Count,
            "sum" => Function::Sum,
            "avg" => Function::Avg,
            "min" | "bool_and" => Function::Min,
            "max" | "bool_or" => Function::Max,
            other => {
                return Err(Unsupported::new(format!("the aggregate {other}"))
                    .hint("COUNT, SUM, AVG, MIN and MAX can be maintained."));
            }
        };
        let [arg] = params.args.as_slice() else {
            return Err(Unsupported::new("an aggregate of several arguments"));
        };
        let arg_type = self.type_of(arg)?;
        let value = self.scalar(arg)?;
        let everything =
            function == Function::Count && !params.distinct && !self.parts.vars.nullable(&value);
        let arg = (!everything).then(|| {
            exprs.push(value);
            exprs.len() - 1 - key_count
        });
        let filter = match &params.filter {
            Some(filter) => {
                let condition = self.scalar(filter)?;
                exprs.push(condition);
                Some(exprs.len() - 1 - key_count)
            }
            None => None,
        };
        let distinct = params.distinct && !matches!(function, Function::Min | Function::Max);
        let (result, name) = (result.clone(), name.to_owned());
        Ok(Call { function, arg, filter, distinct, arg_type, result, name })
    }

    fn group(
        &mut self,
        mut inputs: Vec<Input>,
        names: &[String],
        calls: &[Call],
        global: bool,
    ) -> Result<Group> {
        let correlation = self.correlate(&mut inputs)?;
        let pairs = correlation.outer.len();
        let mut layout = Layout::new(inputs);
        let mut results = Vec::new();
        for call in calls {
            results.push(self.result(call, &mut layout)?);
        }
        let always = global && correlation.domain.is_some();
        let mut present = 0;
        if let (true, Some((domain, vars))) = (always, &correlation.domain) {
            present = self.domain_presence(*domain, vars.len(), &mut layout);
        }
        let map = self.group_map(&layout, calls)?;
        let keys = self.parts.maps[map].key.clone();
        let count = Expr::Reg(Reg((keys.len() + present) as u16));
        let exists = compare(CompareOp::Gt, Type::Int, count, Expr::Int(0));
        let shift = keys.len() as u16;
        let mut steps = Vec::new();
        let mut step_registers = Vec::new();
        let components = layout.components.len() as u16;
        let mut columns = Vec::new();
        let mut row = Vec::new();
        for (at, ty) in keys.iter().enumerate() {
            let name = match at.checked_sub(pairs) {
                Some(at) => names.get(at).cloned().unwrap_or_else(|| format!("key{at}")),
                None => format!("for{at}"),
            };
            let nullable = layout.main().any(|term| self.parts.vars.nullable(&term.keys[at]));
            columns.push(column(name, *ty, nullable));
            row.push(Expr::Reg(Reg(at as u16)));
        }
        for (call, result) in calls.iter().zip(results) {
            let value = match result {
                Computed::OfSums(value) => shifted(&value, shift),
                Computed::Edge { map, last, ty } => {
                    let reg = Reg(shift + components + step_registers.len() as u16);
                    step_registers.push(ty);
                    let prefix = (0..shift).map(|at| Expr::Reg(Reg(at))).collect();
                    let map = MapId(map as u16);
                    steps.push(Step::Edge { map, prefix, last, skip_null: true, key: reg });
                    Expr::Reg(reg)
                }
            };
            let nullable = call.function != Function::Count;
            columns.push(column(call.name.clone(), Encoding::of(&call.result)?.ty(), nullable));
            row.push(value);
        }
        let unique = vec![(0..keys.len()).collect()];
        let derived = Derived { map, step_registers, steps, exists, row };
        let name = format!("d{}", self.parts.maps[map].name);
        let relation = self.parts.relation(name, columns, unique, None, Some(derived));
        Ok(self.group_of(relation, correlation, keys.len(), global, always))
    }

    /// The group as the block above uses it: its atom, the conditions that relate it to enclosing
    /// queries, and the row that it has over no input rows.
    fn group_of(
        &mut self,
        relation: RelationIndex,
        correlation: Correlation,
        key_count: usize,
        global: bool,
        always: bool,
    ) -> Group {
        let atom = self.parts.atom(relation);
        let vars = atom.vars.clone();
        let mut conditions = correlation.floating;
        let pairs = correlation.outer.len();
        for ((outer, null_safe), var) in correlation.outer.into_iter().zip(&vars) {
            let ty = self.parts.vars.get(*var).ty;
            let key = Expr::Reg(*var);
            conditions.push(match null_safe {
                true => null_safe_eq(ty, key, outer),
                false => compare(CompareOp::Eq, ty, key, outer),
            });
        }
        let keys = vars[pairs..].iter().map(|var| Expr::Reg(*var)).collect();
        let defaults = global.then(|| {
            let derived = self.parts.relations[relation].derived.as_ref().expect("just derived");
            let map = &self.parts.maps[derived.map];
            let mut zero: HashMap<Var, Expr> = HashMap::new();
            for (at, component) in map.payload.iter().enumerate() {
                let value = cast(Expr::Int(0), Type::Int, component.ty());
                zero.insert(Reg((key_count + at) as u16), value);
            }
            for (at, ty) in derived.step_registers.iter().enumerate() {
                let reg = Reg((key_count + map.payload.len() + at) as u16);
                zero.insert(reg, Expr::Null(*ty));
            }
            let values = derived.row.iter().map(|value| replace(value, &zero));
            vars.iter().copied().zip(values).skip(key_count).collect()
        });
        let row = Term { atoms: vec![atom], conditions, keys, ..Term::unit() };
        Group { relation, row, having: Vec::new(), defaults, always }
    }

    /// The rows of a group as terms, for a group that is an operand of a join, a union or the like.
    pub fn group_rows(&mut self, group: Group) -> Vec<Term> {
        let Group { relation, row, having, defaults, always } = group;
        if let Some(defaults) = defaults.filter(|_| !always) {
            let over_nothing: Vec<Expr> =
                having.iter().map(|condition| replace(condition, &defaults)).collect();
            if !over_nothing.iter().any(never_true) {
                let mut present = row.clone();
                present.conditions.extend(having);
                let keys = row.keys.iter().map(|key| replace(key, &defaults)).collect();
                let mut absent = Term { keys, weight: -1, ..row };
                absent.conditions.extend(over_nothing.iter().cloned());
                let keys = absent.keys.clone();
                let unit = Term { keys, conditions: over_nothing, ..Term::unit() };
                return vec![unit, present, absent];
            }
        }
        let is_outer = |var: &Var| self.parts.vars.get(*var).scope.is_some();
        let (asked, own): (Vec<Expr>, Vec<Expr>) =
            having.into_iter().partition(|condition| variables(condition).iter().any(is_outer));
        self.restrict(relation, &row, own);
        let mut row = row;
        row.conditions.extend(asked);
        vec![row]
    }

    /// Adds conditions on a derived relation's row to the condition under which the row exists.
    pub fn restrict(&mut self, relation: RelationIndex, row: &Term, having: Vec<Expr>) {
        let derived = self.parts.relations[relation].derived.as_mut().expect("a group is derived");
        let by = columns_of(&row.atoms[0].vars, &derived.row);
        let mut all = vec![derived.exists.clone()];
        all.extend(having.iter().map(|condition| replace(condition, &by)));
        derived.exists = and(all);
    }

    /// Takes the conditions that relate rows to enclosing queries out of the inputs. The inputs'
    /// sides of these conditions become the first keys of the groups.
    fn correlate(&mut self, inputs: &mut [Input]) -> Result<Correlation> {
        let vars = &self.parts.vars;
        let is_outer = |var: &Var| vars.get(*var).scope.is_some();
        let outer_of = |exprs: &[Expr]| -> BTreeSet<Var> {
            exprs.iter().flat_map(variables).filter(is_outer).collect()
        };
        let mut splits = Vec::new();
        let mut is_complex = false;
        for input in inputs.iter() {
            let own = input.term.bound();
            let (mut kept, mut floating, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
            let used = outer_of(&input.term.conditions);
            is_complex |= !outer_of(&input.keys).is_empty() || !outer_of(&input.args).is_empty();
            for condition in &input.term.conditions {
                if !mentions(condition, &used) {
                    kept.push(condition.clone());
                } else if within(condition, &used) {
                    floating.push(condition.clone());
                } else if let Some(pair) = equality(condition, &own, &used) {
                    pairs.push(pair);
                } else {
                    is_complex = true;
                }
            }
            pairs.sort_by_key(|(_, outer, _)| format!("{outer:?}"));
            splits.push((kept, floating, pairs));
        }
        let outer_side = |split: &Split| {
            let outer: Vec<(Expr, bool)> =
                split.2.iter().map(|(_, outer, safe)| (outer.clone(), *safe)).collect();
            (outer, split.1.clone())
        };
        let same = splits.windows(2).all(|w| outer_side(&w[0]) == outer_side(&w[1]));
        if is_complex || !same {
            return self.correlate_by_domain(inputs);
        }
        let (outer, floating) = splits.first().map(outer_side).unwrap_or_default();
        for (input, (kept, _, pairs)) in inputs.iter_mut().zip(splits) {
            input.term.conditions = kept;
            input.keys.splice(0..0, pairs.into_iter().map(|(inner, ..)| inner));
        }
        Ok(Correlation { outer, floating, domain: None })
    }

    /// Joins the inputs with the distinct outer values for which the enclosing query evaluates the
    /// subquery.
    fn correlate_by_domain(&mut self, inputs: &mut [Input]) -> Result<Correlation> {
        let mut asked: BTreeSet<Var> = BTreeSet::new();
        for input in inputs.iter() {
            let all = input.term.conditions.iter().chain(&input.keys).chain(&input.args);
            asked.extend(all.flat_map(variables));
        }
        asked.retain(|var| self.parts.vars.get(*var).scope.is_some());
        let asked: Vec<Var> = asked.into_iter().collect();
        let names: Vec<String> =
            asked.iter().map(|var| self.parts.vars.get(*var).name.clone()).collect();
        let domain_rows = self.asking_rows(&asked)?;
        let inputs_of = domain_rows
            .into_iter()
            .map(|term| Input { keys: term.keys.clone(), term, args: Vec::new() })
            .collect();
        let domain = self.group(inputs_of, &names, &[], false)?.relation;
        for input in inputs.iter_mut() {
            let atom = self.parts.atom(domain);
            let by: HashMap<Var, Expr> =
                asked.iter().copied().zip(atom.vars.iter().map(|var| Expr::Reg(*var))).collect();
            let replaced = |list: &[Expr]| list.iter().map(|e| replace(e, &by)).collect();
            input.term.conditions = replaced(&input.term.conditions);
            input.keys = replaced(&input.keys);
            input.args = replaced(&input.args);
            let keys = atom.vars.iter().map(|var| Expr::Reg(*var));
            input.keys.splice(0..0, keys);
            input.term.atoms.push(atom);
        }
        Ok(Correlation {
            outer: asked.iter().map(|var| (Expr::Reg(*var), true)).collect(),
            floating: Vec::new(),
            domain: Some((domain, asked)),
        })
    }

    /// Rows whose keys include every value that the variables take in rows of the enclosing
    /// queries. The rows of several queries nested in each other are joined.
    fn asking_rows(&self, asked: &[Var]) -> Result<Vec<Term>> {
        let scope_of = |var: &Var| self.parts.vars.get(*var).scope;
        let values: Vec<Expr> = asked.iter().map(|var| Expr::Reg(*var)).collect();
        let mut open = vec![(Term::unit(), values)];
        for scope in self.scopes.iter().rev() {
            let mut next = Vec::new();
            for (term, values) in open {
                let all = values.iter().chain(&term.conditions);
                if !all.flat_map(variables).any(|var| scope_of(&var) == Some(scope.id)) {
                    next.push((term, values));
                    continue;
                }
                let columns = scope.vars.get(scope.offset..).unwrap_or_default();
                for row in &scope.rows {
                    let by = columns_of(columns, &row.keys);
                    let row = row.times(&term.clone().substitute(&by));
                    next.extend(self.expand(&row, &by, &values));
                }
            }
            open = next;
        }
        let is_open = |row: &Term| {
            let all = row.keys.iter().chain(&row.conditions);
            all.flat_map(variables).any(|var| scope_of(&var).is_some())
        };
        let rows: Vec<Term> = open.into_iter().map(|(row, keys)| needed(&row, keys)).collect();
        match rows.iter().any(is_open) {
            true => Err(Unsupported::new("a subquery correlated at this place")
                .hint("Correlate by equality, or join the relations instead.")),
            false => Ok(rows),
        }
    }

    /// Adds a component that counts the outer values themselves.
    fn domain_presence(
        &mut self,
        domain: RelationIndex,
        width: usize,
        layout: &mut Layout,
    ) -> usize {
        let atom = self.parts.atom(domain);
        let keys = atom.vars.iter().take(width).map(|var| Expr::Reg(*var)).collect();
        let at = layout.add_term(Term { atoms: vec![atom], keys, ..Term::unit() });
        layout.component(Component::Int, |index, _| Expr::Int(i64::from(index == at)))
    }

    fn group_map(&mut self, layout: &Layout, calls: &[Call]) -> Result<usize> {
        let is_edge = |call: &&Call| matches!(call.function, Function::Min | Function::Max);
        let mut terms = Vec::new();
        for (at, term) in layout.terms.iter().enumerate() {
            let mut values: Vec<Expr> =
                layout.components.iter().map(|(_, values)| values[at].clone()).collect();
            // The argument of MIN or MAX is no component. But its row is looked at only when its
            // group changes, so terms may cancel out only if they agree in these arguments, too.
            let args = layout.args(at);
            if args.is_main {
                values.extend(calls.iter().filter(is_edge).map(|call| args.value(call)));
            }
            let term = self.parts.grounded(Term { values, ..term.clone() });
            terms.extend(simplify(term, &mut self.parts.vars));
        }
        let mut terms = combined(terms);
        terms.iter_mut().for_each(|term| term.values.truncate(layout.components.len()));
        let key = layout.terms[0].keys.iter().map(|key| self.parts.vars.type_of(key)).collect();
        self.parts.maps.push(Map {
            name: format!("g{}", self.parts.maps.len()),
            terms,
            key,
            payload: layout.components.iter().map(|(component, _)| *component).collect(),
            ordered: false,
            slices: Vec::new(),
            rank: Rank::Groups,
            canonical: None,
        });
        Ok(self.parts.maps.len() - 1)
    }

    /// Adds the components that an aggregate needs; returns its value over them.
    fn result(&mut self, call: &Call, layout: &mut Layout) -> Result<Computed> {
        let of = |reg: usize| Expr::Reg(Reg(reg as u16));
        if matches!(call.function, Function::Min | Function::Max) {
            return self.edge(call, layout);
        }
        let term = if call.distinct { Some(self.distinct_argument(call, layout)?) } else { None };
        let vars = &self.parts.vars;
        // The argument in a row of an input, NULL where the row does not count.
        let value = |index: usize, input: &TermArgs| -> Expr {
            match term {
                Some((at, var)) if index == at => Expr::Reg(var),
                None if input.is_main => input.value(call),
                _ => Expr::Null(Type::Int),
            }
        };
        let counted = |index: usize, input: &TermArgs| -> Expr {
            let value = value(index, input);
            let ty = vars.type_of(&value);
            match not(is_null(ty, value.clone())) {
                _ if !vars.nullable(&value) => Expr::Int(1),
                present @ (Expr::Int(_) | Expr::Null(_)) => present,
                present => fold(Expr::Case {
                    ty: Type::Int,
                    when: vec![(present, Expr::Int(1))],
                    otherwise: Box::new(Expr::Int(0)),
                }),
            }
        };
        let count = layout.component(Component::Int, counted);
        if call.function == Function::Count {
            return Ok(Computed::OfSums(of(count)));
        }
        let arg_words = Encoding::of(&call.arg_type)?.ty();
        let result = Encoding::of(&call.result)?.ty();
        let sum_type = match (call.function, result) {
            (Function::Avg, Type::Int) => Type::Wide,
            (_, ty) => ty,
        };
        let component = match sum_type {
            Type::Int => Component::Int,
            Type::Wide => Component::Wide,
            Type::Float => Component::Float,
        };
        let arg_type = call.arg_type.clone();
        let sum = layout.component(component, |index, input| {
            let value = value(index, input);
            if matches!(value, Expr::Null(_)) {
                return Expr::Null(sum_type);
            }
            match (&arg_type, sum_type) {
                (DataType::Decimal128(..), Type::Float) => {
                    crate::scalar::convert(value, &arg_type, &DataType::Float64)
                        .unwrap_or(Expr::Null(Type::Float))
                }
                _ => cast(value, arg_words, sum_type),
            }
        });
        let over = |value: Expr, ty: Type| {
            let none = compare(CompareOp::Eq, Type::Int, of(count), Expr::Int(0));
            let when = vec![(none, Expr::Null(ty))];
            Computed::OfSums(Expr::Case { ty, when, otherwise: Box::new(value) })
        };
        if call.function == Function::Sum {
            return Ok(over(of(sum), result));
        }
        let number = cast(of(count), Type::Int, sum_type);
        let places = scale(&call.result) - scale(&call.arg_type);
        let average = match sum_type {
            Type::Float => {
                Expr::Binary(BinaryOp::Div, Type::Float, Box::new(of(sum)), Box::new(number))
            }
            ty => {
                let sum = rescale(of(sum), ty, places);
                Expr::Binary(BinaryOp::DivRound, ty, Box::new(sum), Box::new(number))
            }
        };
        Ok(over(cast(average, sum_type, result), result))
    }

    /// Adds an ordered map of the argument's values by group, and the look-up of its first or last
    /// value.
    fn edge(&mut self, call: &Call, layout: &Layout) -> Result<Computed> {
        if Encoding::of(&call.arg_type)? == Encoding::Text {
            return Err(Unsupported::new("MIN or MAX of text")
                .hint("Strings are kept by number; order by a number or a date instead."));
        }
        let ty = Encoding::of(&call.arg_type)?.ty();
        let mut terms = Vec::new();
        for (index, term) in layout.terms.iter().enumerate() {
            let input = layout.args(index);
            if !input.is_main {
                continue;
            }
            let mut term = Term { values: vec![Expr::Int(1)], ..term.clone() };
            term.keys.push(input.value(call));
            let term = self.parts.grounded(term);
            terms.extend(simplify(term, &mut self.parts.vars));
        }
        let mut key: Vec<Type> =
            layout.terms[0].keys.iter().map(|key| self.parts.vars.type_of(key)).collect();
        key.push(ty);
        let map = self.parts.maps.len();
        self.parts.maps.push(Map {
            name: format!("o{map}"),
            terms: combined(terms),
            key,
            payload: vec![Component::Int],
            ordered: true,
            slices: Vec::new(),
            rank: Rank::LookedUp,
            canonical: None,
        });
        Ok(Computed::Edge { map, last: call.function == Function::Max, ty })
    }

    /// Adds a term over the distinct values of an argument; returns it with the variable that holds
    /// these values.
    fn distinct_argument(&mut self, call: &Call, layout: &mut Layout) -> Result<(usize, Var)> {
        let mut inputs = Vec::new();
        for (index, term) in layout.terms.iter().enumerate() {
            let args = layout.args(index);
            if args.is_main {
                let mut keys = term.keys.clone();
                keys.push(args.value(call));
                inputs.push(Input { term: term.clone(), keys, args: Vec::new() });
            }
        }
        let group = self.group(inputs, &[], &[], false)?;
        let vars = group.row.atoms[0].vars.clone();
        let (value, keys) = vars.split_last().expect("the argument is a key");
        let keys = keys.iter().map(|var| Expr::Reg(*var)).collect();
        let term = Term { keys, ..group.row };
        Ok((layout.add_term(term), *value))
    }
}

/// The value of an aggregate: an expression over components (numbered from zero), or a look-up.
enum Computed {
    OfSums(Expr),
    Edge { map: usize, last: bool, ty: Type },
}

/// The terms and components of a group's map while it is being laid out.
struct Layout {
    terms: Vec<Term>,
    args: Vec<TermArgs>,
    /// The components, each with its value in every term.
    components: Vec<(Component, Vec<Expr>)>,
}

/// The arguments that a term's rows give to the aggregates.
struct TermArgs {
    is_main: bool,
    args: Vec<Expr>,
}

impl TermArgs {
    /// The argument of a call, NULL where its filter does not hold; 1 for `count(*)`.
    fn value(&self, call: &Call) -> Expr {
        let value = call.arg.map_or(Expr::Int(1), |at| self.args[at].clone());
        match call.filter {
            Some(filter) => {
                let ty = match (call.arg, Encoding::of(&call.arg_type)) {
                    (Some(_), Ok(encoding)) => encoding.ty(),
                    _ => Type::Int,
                };
                let when = vec![(self.args[filter].clone(), value)];
                fold(Expr::Case { ty, when, otherwise: Box::new(Expr::Null(ty)) })
            }
            None => value,
        }
    }
}

impl Layout {
    /// Begins a layout with the inputs as terms and the hidden count as its component.
    fn new(inputs: Vec<Input>) -> Layout {
        let mut layout = Layout { terms: Vec::new(), args: Vec::new(), components: Vec::new() };
        for Input { term, keys, args } in inputs {
            layout.terms.push(Term { keys, ..term });
            layout.args.push(TermArgs { is_main: true, args });
        }
        layout.component(Component::Int, |_, _| Expr::Int(1));
        layout
    }

    fn main(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().zip(&self.args).filter(|(_, args)| args.is_main).map(|(term, _)| term)
    }

    fn args(&self, index: usize) -> &TermArgs {
        &self.args[index]
    }

    /// Adds a term, which adds nothing to the components so far.
    fn add_term(&mut self, term: Term) -> usize {
        self.terms.push(term);
        self.args.push(TermArgs { is_main: false, args: Vec::new() });
        for (component, values) in &mut self.components {
            values.push(cast(Expr::Int(0), Type::Int, component.ty()));
        }
        self.terms.len() - 1
    }

    /// Returns the component with these values, one per term; it is added unless there is an equal
    /// one.
    fn component(
        &mut self,
        component: Component,
        value: impl Fn(usize, &TermArgs) -> Expr,
    ) -> usize {
        let zero = cast(Expr::Int(0), Type::Int, component.ty());
        let values = self.args.iter().enumerate().map(|(index, args)| match value(index, args) {
            Expr::Null(_) => zero.clone(),
            value => value,
        });
        let new = (component, values.collect());
        match self.components.iter().position(|known| *known == new) {
            Some(known) => known,
            None => {
                self.components.push(new);
                self.components.len() - 1
            }
        }
    }
}

fn column(name: String, ty: Type, nullable: bool) -> Column {
    let encoding = Encoding::Int;
    Column { name, encoding, ty, foreign: None, nullable, never_negative: false }
}

/// Adds `by` to the number of every register in an expression.
fn shifted(expr: &Expr, by: u16) -> Expr {
    let moved = variables(expr).into_iter().map(|reg| (reg, Expr::Reg(Reg(reg.0 + by)))).collect();
    substitute(expr.clone(), &moved)
}

/// The sides of `inner = outer`, if the condition is of that form.
fn equality(
    condition: &Expr,
    own: &BTreeSet<Var>,
    outer: &BTreeSet<Var>,
) -> Option<(Expr, Expr, bool)> {
    if let Some((a, b)) = null_safe_sides(condition) {
        return match (within(a, own), within(b, outer), within(b, own), within(a, outer)) {
            (true, true, ..) => Some((a.clone(), b.clone(), true)),
            (_, _, true, true) => Some((b.clone(), a.clone(), true)),
            _ => None,
        };
    }
    match isolate(condition, own, outer) {
        Some((inner, CompareOp::Eq, _, value)) => Some((inner, value, false)),
        _ => None,
    }
}

/// The part of a row that determines the keys: the atoms that bind the keys' variables, and
/// conditions on these atoms alone. It gives at least the keys that the row gives, and maybe more.
fn needed(row: &Term, keys: Vec<Expr>) -> Term {
    let used: BTreeSet<Var> = keys.iter().flat_map(variables).collect();
    let atoms: Vec<_> =
        row.atoms.iter().filter(|atom| atom.vars.iter().any(|v| used.contains(v))).collect();
    // If all keys are constants, the only thing to know is whether there is a row: all atoms
    // matter.
    let atoms = if atoms.is_empty() { row.atoms.iter().collect() } else { atoms };
    let bound: BTreeSet<Var> = atoms.iter().flat_map(|atom| atom.vars.iter().copied()).collect();
    let conditions = row.conditions.iter().filter(|c| within(c, &bound)).cloned().collect();
    Term {
        weight: 1,
        atoms: atoms.into_iter().cloned().collect(),
        conditions,
        keys,
        values: Vec::new(),
    }
}
