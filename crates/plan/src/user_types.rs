//! Types of users by their names, in queries and expressions.
//!
//! What reads a statement knows the types that are always there. So the names of others are settled before
//! anything looks at them: that of an enumeration becomes a name that only this process knows
//! ([`halcyon_sql::type_names::name_of`]), that of a domain the name of its base type, and a cast to a domain
//! that asks for something goes through a function that looks at its values ([`crate::domains`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut,
};
use halcyon_catalog::UserType;
use halcyon_dialect::made::{call, number};
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::{parts, quote_ident};
use halcyon_sql::parse::{parse_own_expr, parse_query};
use halcyon_sql::type_names::name_of;

use crate::domains;

/// What finds the type of a user by its name.
pub type Find<'a> = &'a dyn Fn(&[String]) -> Option<Arc<UserType>>;

/// Settles the names of types in a query or an expression. Errors: 0A000 for arrays of domains.
pub fn settle(node: &mut impl VisitMut, find: Find<'_>) -> Result<()> {
    match node.visit(&mut Settle { find }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Settle<'a> {
    find: Find<'a>,
}

impl VisitorMut for Settle<'_> {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Cast { data_type, .. } = expr else { return ControlFlow::Continue(()) };
        match settle_type(data_type, self.find) {
            Err(error) => return ControlFlow::Break(error),
            Ok(Some(domain)) if domains::asks_for_something(&domain) => {
                let cast = std::mem::replace(expr, number("0"));
                *expr = call(&domains::function_name(&domain), vec![cast]);
            }
            Ok(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. } => alias,
            _ => return ControlFlow::Continue(()),
        };
        let columns = alias.iter_mut().flat_map(|alias| &mut alias.columns);
        for ty in columns.filter_map(|column| column.data_type.as_mut()) {
            if let Err(error) = settle_type(ty, self.find) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Settles one name; the domain that it was, if it was one. Errors: 0A000 for arrays of domains.
pub fn settle_type(ty: &mut DataType, find: Find<'_>) -> Result<Option<Arc<UserType>>> {
    match ty {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => {
            match settle_type(item, find)? {
                Some(domain) => Err(SqlError::unsupported(format!("an array of {}", domain.name))),
                None => Ok(None),
            }
        }
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let Some(found) = parts(name).ok().and_then(|name| find(&name)) else {
                return Ok(None);
            };
            *ty = name_of(found.ty());
            Ok(found.domain().is_some().then_some(found))
        }
        _ => Ok(None),
    }
}

/// Writes the schema before the names of users' types, so that they mean the same under any search path.
pub(crate) fn qualify(node: &mut impl VisitMut, find: Find<'_>) {
    rename(node, &|name| {
        let found = find(name)?;
        Some((found.schema.clone(), found.name.clone()))
    });
}

/// Gives types in a stored expression another name. `None`: the text does not name them.
pub fn renamed(text: &str, from: (&str, &str), to: (&str, &str)) -> Option<String> {
    if !types_of(text).contains(&(from.0.to_owned(), from.1.to_owned())) {
        return None;
    }
    let mut expr = parse_own_expr(text);
    rename_one(&mut expr, from, to);
    Some(expr.to_string())
}

/// Gives types in a stored query another name, as [`renamed`] does in an expression.
pub fn renamed_in_query(text: &str, from: (&str, &str), to: (&str, &str)) -> Option<String> {
    let mut query = parse_query(text).ok()?;
    if !named_in(&query).contains(&(from.0.to_owned(), from.1.to_owned())) {
        return None;
    }
    rename_one(&mut query, from, to);
    Some(query.to_string())
}

fn rename_one(node: &mut impl VisitMut, from: (&str, &str), to: (&str, &str)) {
    rename(node, &|name| {
        let is_it = matches!(name, [schema, name] if (schema.as_str(), name.as_str()) == from);
        is_it.then(|| (to.0.to_owned(), to.1.to_owned()))
    });
}

/// A stored expression with the schemas of users' types before their names.
pub fn qualified(expr: &Expr, find: Find<'_>) -> Expr {
    let mut expr = expr.clone();
    qualify(&mut expr, find);
    expr
}

/// The schema and name that a type's name of one or two parts is written with, or nothing if the name stays.
type NewName<'a> = &'a dyn Fn(&[String]) -> Option<(String, String)>;

fn rename(node: &mut impl VisitMut, to: NewName<'_>) {
    struct Rename<'a>(NewName<'a>);
    impl VisitorMut for Rename<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { data_type, .. } = expr
                && let Some(name) = custom_mut(data_type)
                && let Some((schema, own)) = parts(name).ok().and_then(|name| (self.0)(&name))
            {
                *name = ObjectName::from(vec![ident(&schema), ident(&own)]);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = node.visit(&mut Rename(to));
}

/// An identifier, between quotes only where it needs them.
fn ident(name: &str) -> Ident {
    match quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}

fn custom_mut(ty: &mut DataType) -> Option<&mut ObjectName> {
    match ty {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => Some(name),
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => custom_mut(item),
        _ => None,
    }
}

/// Types that casts of a stored expression or query name with a schema.
pub(crate) fn named_in(node: &impl Visit) -> Vec<(String, String)> {
    struct Types(Vec<(String, String)>);
    impl Visitor for Types {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Cast { data_type, .. } = expr
                && let Some(name) = custom_mut(&mut data_type.clone())
                && let Ok([schema, own]) = parts(name).as_deref()
            {
                self.0.push((schema.clone(), own.clone()));
            }
            ControlFlow::Continue(())
        }
    }
    let mut types = Types(Vec::new());
    let _ = node.visit(&mut types);
    types.0
}

/// Types that a stored expression names.
pub fn types_of(text: &str) -> Vec<(String, String)> {
    // Most texts have no cast, and no dot in one.
    if !text.contains('.') {
        return Vec::new();
    }
    named_in(&parse_own_expr(text))
}
