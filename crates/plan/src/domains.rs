//! Domains: conditions on values of a type, looked at where a value becomes one of a domain.
//!
//! A column of a domain has the domain's base type, and the conditions are conditions on its rows
//! ([`conditions`]). A cast to a domain is a cast to its base type, whose values a function looks at
//! ([`function`]).

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::sql::sqlparser::ast::{self, VisitMut, VisitorMut};
use halcyon_catalog::{Check, Column, Domain, UserType};
use halcyon_sql::coerce::Arena;
use halcyon_sql::diagnose::{external, sql_error};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, quote_ident};
use halcyon_sql::parse::{parse_expr, parse_own_expr};
use halcyon_sql::values::{stored, value_at};
use halcyon_store::ValueRef;

use crate::env::{Env, without_session};
use crate::scalar::Program;

/// What stands between a domain's name, by which clients know columns of its values, and its number in the name
/// of the function that looks at its values.
const FUNCTION: &str = "\u{1}domain";

/// The name by which conditions speak of the value.
const VALUE: &str = "value";

/// A condition on a value of a domain.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The constraint and its condition. The name of NOT NULL is empty.
    pub check: Check,
    /// Name of the domain.
    pub domain: String,
}

/// A condition that is looked at by the value alone.
struct Compiled {
    condition: Condition,
    program: Program,
}

/// The function that looks at values of one domain.
struct DomainFunction {
    name: String,
    conditions: Vec<Compiled>,
    signature: Signature,
}

/// Whether a domain asks for more than its base type does.
pub fn asks_for_something(own: &UserType) -> bool {
    own.domain().is_some_and(|domain| domain.not_null || !domain.checks.is_empty())
}

/// The name of the function that looks at values of a domain.
pub(crate) fn function_name(own: &UserType) -> String {
    format!("{}{FUNCTION}{}", own.name, own.id)
}

/// The number in the catalog of the domain that a function of this name looks at.
pub(crate) fn domain_of(function: &str) -> Option<u32> {
    function.rsplit_once(FUNCTION)?.1.parse().ok()
}

/// A domain's conditions, which speak of [`VALUE`].
fn own_conditions(name: &str, domain: &Domain) -> Vec<Condition> {
    let not_null =
        domain.not_null.then(|| Check::new(String::new(), format!("{VALUE} IS NOT NULL")));
    let checks = not_null.into_iter().chain(domain.checks.iter().cloned());
    checks.map(|check| Condition { check, domain: name.to_owned() }).collect()
}

/// The conditions of the domain that a column is of, as conditions on rows.
pub fn conditions(own: &UserType, column: &Column) -> Vec<Condition> {
    let Some(domain) = own.domain() else { return Vec::new() };
    let mut conditions = own_conditions(&own.name, domain);
    for condition in &mut conditions {
        let column = ast::Ident::with_quote('"', &column.name);
        condition.check.expr = with_value(&condition.check.expr, &column);
    }
    conditions
}

/// A condition that speaks of a column, or of the value by another name, in the place of the value.
pub fn with_value(text: &str, column: &ast::Ident) -> String {
    struct Replace<'a>(&'a ast::Ident);
    impl VisitorMut for Replace<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> std::ops::ControlFlow<()> {
            if let ast::Expr::Identifier(name) = expr
                && fold(name) == VALUE
            {
                *name = self.0.clone();
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut expr = parse_own_expr(text);
    let _ = expr.visit(&mut Replace(column));
    expr.to_string()
}

/// The columns that conditions of a domain with this base type see: the value.
///
/// Panics: never.
pub fn schema(base: halcyon_sql::types::SqlType) -> DFSchema {
    let field = base.field(VALUE, true);
    let schema = DFSchema::from_unqualified_fields(vec![field].into(), Default::default());
    schema.expect("one column has no name twice")
}

/// What binds an expression over the columns of a schema.
pub type Bind<'a> = &'a dyn Fn(&ast::Expr, &DFSchema) -> Result<Expr>;

fn compile(bind: Bind<'_>, own: &UserType) -> Result<Vec<Compiled>> {
    let Some(domain) = own.domain() else { return Ok(Vec::new()) };
    let schema = schema(domain.base);
    let compiled = own_conditions(&own.name, domain).into_iter().map(|condition| {
        let bound = bind(&parse_expr(&condition.check.expr)?, &schema)?;
        Ok(Compiled { program: Program::compile(&bound, &schema)?, condition })
    });
    compiled.collect()
}

/// The function that looks at values of a domain. Errors: those of its conditions.
pub(crate) fn function(bind: Bind<'_>, own: &UserType) -> Result<ScalarUDF> {
    Ok(ScalarUDF::new_from_impl(DomainFunction {
        name: function_name(own),
        conditions: compile(bind, own)?,
        signature: Signature::any(1, Volatility::Immutable),
    }))
}

/// 23502, 23514: a value is none of the domain.
pub fn violation(condition: &Condition) -> SqlError {
    let Condition { check, domain } = condition;
    let shown = quote_ident(domain);
    if check.name.is_empty() {
        let message = format!("domain {shown} does not allow null values");
        return SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
    }
    let message = format!("value for domain {shown} violates check constraint \"{}\"", check.name);
    SqlError::new(SqlState::CHECK_VIOLATION, message).constraint(&check.name)
}

impl DomainFunction {
    fn look(&self, value: ValueRef<'_>, env: &Env<'_>, arena: &Arena) -> Result<()> {
        for Compiled { condition, program } in &self.conditions {
            if program.eval(&[value], env, arena)? == ValueRef::Bool(false) {
                return Err(violation(condition));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for DomainFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for DomainFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for DomainFunction {}

impl Hash for DomainFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for DomainFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let value: &Field = &args.arg_fields[0];
        Ok(Arc::new(value.clone().with_name(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let values = stored(&args.args[0].to_array(1)?);
        let mut arena = Arena::new();
        without_session(|env| {
            for row in 0..values.len() {
                let value = value_at(values.as_ref(), row).unwrap_or(ValueRef::Null);
                self.look(value, env, &arena)?;
                arena.reset();
            }
            Ok(())
        })
        .map_err(external)?;
        Ok(args.args.into_iter().next().expect("one argument"))
    }
}

/// Errors of binding a condition, as those of the statement that asks for it.
pub fn bound(
    bind: Bind<'_>,
    condition: &ast::Expr,
    base: halcyon_sql::types::SqlType,
) -> Result<DataType> {
    use datafusion::logical_expr::ExprSchemable;
    let schema = schema(base);
    let bound = bind(condition, &schema)?;
    Program::compile(&bound, &schema)?;
    bound.get_type(&schema).map_err(|error| sql_error(error, ""))
}
