//! Expressions, innermost first: each with its collation, and with keys where its meaning depends on an order.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, ScalarFunction, SetComparison, Sort, WindowFunction,
    WindowFunctionDefinition,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, Subquery};
use halcyon_collations::casing;
use halcyon_functions::{collation, of_name};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

use crate::Find;
use crate::columns::{key, states_of_fields, text, with_keys};
use crate::marker::{constant, is_allowed, is_collatable, parts};
use crate::strength::State;

/// What PostgreSQL calls a comparison of texts in errors.
const COMPARISON: &str = "string comparison";

/// Columns that expressions may name, with their collations.
pub(crate) struct Scope {
    pub schema: DFSchema,
    pub states: Vec<State>,
}

impl Scope {
    fn of(&self, column: &Column) -> Option<State> {
        self.states.get(self.schema.maybe_index_of_column(column)?).cloned()
    }
}

/// The pass over a plan.
pub(crate) struct Pass<'a> {
    find: Find<'a>,
    /// Scopes from without; the last one is that of the node at hand.
    pub scopes: Vec<Scope>,
    /// Columns of the work tables of recursive queries around.
    pub work_tables: HashMap<String, Vec<State>>,
    /// Whether an order of texts is that of a locale.
    pub orders: bool,
    /// Whether the value of the aggregate or window function last seen is a key.
    pub gives_key: bool,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(find: Find<'a>) -> Self {
        let (scopes, work_tables) = (Vec::new(), HashMap::new());
        Pass { find, scopes, work_tables, orders: false, gives_key: false }
    }

    /// Rewrites an expression over the columns of a schema, whose fields tell their collations.
    pub(crate) fn over(&mut self, schema: &DFSchema, expr: Expr) -> Result<(Expr, State)> {
        let states = states_of_fields(schema.fields());
        self.scopes.push(Scope { schema: schema.clone(), states });
        let made = self.expr(expr);
        self.scopes.pop();
        made
    }

    /// Rewrites an expression of the node at hand.
    pub(crate) fn expr(&mut self, expr: Expr) -> Result<(Expr, State)> {
        halcyon_sql::parse::with_stack(|| {
            SqlError::unless_interrupted().map_err(external)?;
            self.rewritten(expr)
        })
    }

    fn rewritten(&mut self, expr: Expr) -> Result<(Expr, State)> {
        match expr {
            Expr::Column(column) => {
                let state = self.scopes.last().and_then(|scope| scope.of(&column));
                let state = state.unwrap_or(State::Implicit(None));
                Ok((Expr::Column(column), state))
            }
            Expr::OuterReferenceColumn(field, column) => {
                let outer = self.scopes.iter().rev().skip(1);
                let state = outer.filter_map(|scope| scope.of(&column)).next();
                let state = state.unwrap_or(State::Implicit(None));
                Ok((Expr::OuterReferenceColumn(field, column), state))
            }
            Expr::ScalarFunction(call) => self.call(call),
            Expr::AggregateFunction(call) => self.aggregate(call),
            Expr::WindowFunction(call) => self.window(*call),
            Expr::Between(between) => self.between(between),
            Expr::BinaryExpr(compared) => self.binary(compared),
            Expr::ScalarSubquery(subquery) => {
                let (subquery, states) = self.subquery(subquery)?;
                let state = states.into_iter().next().unwrap_or(State::None);
                Ok((Expr::ScalarSubquery(subquery), state))
            }
            Expr::SetComparison(compared) => self.set_comparison(compared),
            Expr::InSubquery(mut within) => {
                within.subquery = self.subquery(within.subquery)?.0;
                within.expr = Box::new(self.expr(*within.expr)?.0);
                Ok((Expr::InSubquery(within), State::None))
            }
            Expr::Exists(mut exists) => {
                exists.subquery = self.subquery(exists.subquery)?.0;
                Ok((Expr::Exists(exists), State::None))
            }
            Expr::Case(mut case) => {
                if let Some(of) = case.expr.take() {
                    case.expr = Some(Box::new(self.expr(*of)?.0));
                }
                let mut state = State::None;
                for (when, then) in &mut case.when_then_expr {
                    **when = self.expr(std::mem::take(&mut **when))?.0;
                    let (made, of) = self.expr(std::mem::take(&mut **then))?;
                    (**then, state) = (made, state.with(of)?);
                }
                if let Some(otherwise) = case.else_expr.take() {
                    let (made, of) = self.expr(*otherwise)?;
                    (case.else_expr, state) = (Some(Box::new(made)), state.with(of)?);
                }
                self.typed(Expr::Case(case), state)
            }
            other => {
                let (made, states) = self.children(other)?;
                let state = State::of_all(states)?;
                match made {
                    Expr::Alias(_) => Ok((made, state)),
                    _ => self.typed(made, state),
                }
            }
        }
    }

    /// An expression with its operands rewritten, and their collations.
    fn children(&mut self, expr: Expr) -> Result<(Expr, Vec<State>)> {
        let mut states = Vec::new();
        let made = expr.map_children(|child| {
            let (made, state) = self.expr(child)?;
            states.push(state);
            Ok(Transformed::yes(made))
        })?;
        Ok((made.data, states))
    }

    fn all(&mut self, exprs: &mut [Expr]) -> Result<State> {
        let mut state = State::None;
        for expr in exprs {
            let (made, of) = self.expr(std::mem::take(expr))?;
            (*expr, state) = (made, state.with(of)?);
        }
        Ok(state)
    }

    fn type_of(&self, expr: &Expr) -> Result<DataType> {
        match self.scopes.last() {
            Some(scope) => expr.get_type(&scope.schema),
            None => expr.get_type(&DFSchema::empty()),
        }
    }

    /// The expression with its collation, which follows from those of its operands if it is a text.
    fn typed(&self, expr: Expr, state: State) -> Result<(Expr, State)> {
        let state = match (is_collatable(&self.type_of(&expr)?), state) {
            (false, _) => State::None,
            (true, State::None) => State::Implicit(None),
            (true, state) => state,
        };
        Ok((expr, state))
    }

    /// The locale by whose order values of these types are compared; `None`: by bytes.
    fn locale(&mut self, state: &State, ty: &DataType, what: &str) -> Result<Option<String>> {
        if !is_collatable(ty) {
            return Ok(None);
        }
        let locale = state.locale(what)?;
        if locale.is_some() {
            self.orders = true;
            if matches!(ty, DataType::List(_)) {
                let what = "an order of arrays of texts by a collation other than C";
                return Err(external(SqlError::unsupported(what)));
            }
        }
        Ok(locale)
    }

    /// What an expression of this collation is sorted by.
    pub(crate) fn sorted(&mut self, expr: Expr, state: &State) -> Result<Expr> {
        let ty = self.type_of(&expr)?;
        state.is_no_conflict()?;
        let locale = self.locale(state, &ty, COMPARISON)?;
        Ok(key(expr, locale.as_deref()))
    }

    fn order(&mut self, order: &mut [Sort]) -> Result<bool> {
        let mut changed = false;
        for by in order {
            let (made, state) = self.expr(std::mem::take(&mut by.expr))?;
            let orders = std::mem::replace(&mut self.orders, false);
            by.expr = self.sorted(made, &state)?;
            changed |= self.orders;
            self.orders |= orders;
        }
        Ok(changed)
    }

    fn call(&mut self, mut call: ScalarFunction) -> Result<(Expr, State)> {
        let whole = Expr::ScalarFunction(call);
        if let Some((operand, name)) = parts(&whole) {
            is_allowed(&self.type_of(operand)?)?;
            let found = (self.find)(&name).map_err(external)?;
            let operand = self.expr(operand.clone())?.0;
            return Ok((operand, State::Explicit(found)));
        }
        let Expr::ScalarFunction(own) = whole else { unreachable!("it was made above") };
        call = own;
        let state = self.all(&mut call.args)?;
        match call.name() {
            "greatest" | "least" => {
                let whole = Expr::ScalarFunction(call);
                let ty = self.type_of(&whole)?;
                let Some(locale) = self.locale(&state, &ty, COMPARISON)? else {
                    return self.typed(whole, state);
                };
                let Expr::ScalarFunction(mut call) = whole else { unreachable!("made above") };
                call.args = call.args.into_iter().map(|arg| key(arg, Some(&locale))).collect();
                Ok((text(Expr::ScalarFunction(call)), state))
            }
            name @ ("lower" | "upper") => {
                let own = if name == "lower" { collation::LOWER } else { collation::UPPER };
                let what = format!("{name}() function");
                let locale = match state == State::None {
                    true => None,
                    false => state.locale(&what)?,
                };
                match locale.filter(|locale| casing::is_special(locale)) {
                    Some(locale) => {
                        call.args.push(constant(&locale));
                        let made = of_name(own).expect("a function").call(call.args);
                        self.typed(made, state)
                    }
                    None => self.typed(Expr::ScalarFunction(call), state),
                }
            }
            _ => self.typed(Expr::ScalarFunction(call), state),
        }
    }

    fn aggregate(&mut self, mut call: AggregateFunction) -> Result<(Expr, State)> {
        self.gives_key = false;
        let params = &mut call.params;
        let within_group = call.func.supports_within_group_clause();
        let state = self.all(&mut params.args)?;
        let ordered = self.order(&mut params.order_by)?;
        if ordered && (params.distinct || within_group) {
            let what = format!(
                "{}{} in the order of a collation other than C",
                call.func.name(),
                if within_group { " WITHIN GROUP" } else { " of DISTINCT values" }
            );
            return Err(external(SqlError::unsupported(what)));
        }
        if let Some(filter) = params.filter.take() {
            params.filter = Some(Box::new(self.expr(*filter)?.0));
        }
        let extreme = self.extreme(call.func.name(), &mut call.params.args, &state)?;
        let made = Expr::AggregateFunction(call);
        self.gives_key = extreme;
        if extreme { Ok((made, state)) } else { self.typed(made, state) }
    }

    fn window(&mut self, mut call: WindowFunction) -> Result<(Expr, State)> {
        self.gives_key = false;
        let params = &mut call.params;
        let state = self.all(&mut params.args)?;
        self.all_apart(&mut params.partition_by)?;
        self.order(&mut params.order_by)?;
        if let Some(filter) = params.filter.take() {
            params.filter = Some(Box::new(self.expr(*filter)?.0));
        }
        let extreme = match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function) => {
                let name = function.name().to_owned();
                self.extreme(&name, &mut call.params.args, &state)?
            }
            WindowFunctionDefinition::WindowUDF(_) => false,
        };
        let made = Expr::WindowFunction(Box::new(call));
        self.gives_key = extreme;
        if extreme { Ok((made, state)) } else { self.typed(made, state) }
    }

    fn all_apart(&mut self, exprs: &mut [Expr]) -> Result<()> {
        for expr in exprs {
            *expr = self.expr(std::mem::take(expr))?.0;
        }
        Ok(())
    }

    /// Gives `min` and `max` keys for texts; whether it has, so that the value is a key.
    fn extreme(&mut self, name: &str, args: &mut [Expr], state: &State) -> Result<bool> {
        let [arg] = args else { return Ok(false) };
        if !matches!(name, "min" | "max") {
            return Ok(false);
        }
        let ty = self.type_of(arg)?;
        let Some(locale) = self.locale(state, &ty, COMPARISON)? else { return Ok(false) };
        *arg = key(std::mem::take(arg), Some(&locale));
        Ok(true)
    }

    fn binary(&mut self, mut compared: BinaryExpr) -> Result<(Expr, State)> {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        let (left, of_left) = self.expr(*compared.left)?;
        let (right, of_right) = self.expr(*compared.right)?;
        let mut sides = [left, right];
        let state = of_left.with(of_right)?;
        let is_order = matches!(compared.op, Lt | LtEq | Gt | GtEq);
        let is_equality = matches!(compared.op, Eq | NotEq | IsDistinctFrom | IsNotDistinctFrom);
        if is_order || is_equality {
            let ty = self.type_of(&sides[0])?;
            if is_order {
                let locale = self.locale(&state, &ty, COMPARISON)?;
                sides = sides.map(|side| key(side, locale.as_deref()));
            } else if is_collatable(&ty) {
                state.locale(COMPARISON)?;
            }
        }
        [*compared.left, *compared.right] = sides.map(|side| side);
        let made = Expr::BinaryExpr(compared);
        if is_order || is_equality { Ok((made, State::None)) } else { self.typed(made, state) }
    }

    fn between(&mut self, between: Between) -> Result<(Expr, State)> {
        let (of, state) = self.expr(*between.expr)?;
        let (low, of_low) = self.expr(*between.low)?;
        let (high, of_high) = self.expr(*between.high)?;
        let ty = self.type_of(&of)?;
        let low_locale = self.locale(&state.clone().with(of_low)?, &ty, COMPARISON)?;
        let high_locale = self.locale(&state.with(of_high)?, &ty, COMPARISON)?;
        let made = if low_locale == high_locale {
            let locale = low_locale.as_deref();
            let of = Box::new(key(of, locale));
            let (low, high) = (Box::new(key(low, locale)), Box::new(key(high, locale)));
            Expr::Between(Between { expr: of, negated: between.negated, low, high })
        } else {
            let (low_locale, high_locale) = (low_locale.as_deref(), high_locale.as_deref());
            let above = key(of.clone(), low_locale).gt_eq(key(low, low_locale));
            let below = key(of, high_locale).lt_eq(key(high, high_locale));
            let both = above.and(below);
            if between.negated { Expr::Not(Box::new(both)) } else { both }
        };
        Ok((made, State::None))
    }

    /// A subquery of an expression of the node at hand.
    fn subquery(&mut self, subquery: Subquery) -> Result<(Subquery, Vec<State>)> {
        let plan = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
        let (plan, states) = self.plan(plan)?;
        Ok((subquery.with_plan(Arc::new(plan)), states))
    }

    fn set_comparison(&mut self, compared: SetComparison) -> Result<(Expr, State)> {
        let SetComparison { expr, subquery, op, quantifier } = compared;
        let (of, state) = self.expr(*expr)?;
        let (mut subquery, states) = self.subquery(subquery)?;
        let state = state.with(states.into_iter().next().unwrap_or(State::None))?;
        let ty = self.type_of(&of)?;
        let mut of = of;
        let is_order = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
        if is_order && let Some(locale) = self.locale(&state, &ty, COMPARISON)? {
            of = key(of, Some(&locale));
            let plan = with_keys(Arc::clone(&subquery.subquery), &locale)?;
            subquery = subquery.with_plan(Arc::new(plan));
        }
        let expr = Box::new(of);
        Ok((Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }), State::None))
    }
}
