//! Names of relations and types in stored queries, written with their schemas, so that they mean the same
//! under any search path.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Visit, VisitMut, Visitor, VisitorMut,
};

use halcyon_catalog::{Catalog, temporary};
use halcyon_sql::identifier::{fold, parts, quote_ident};
use halcyon_sql::parse::{parse_expr, parse_query};

use crate::user_types;
use halcyon_dialect::cte_scopes::CteScopes;

/// Writes the schema before the name of every relation that the catalog knows.
pub fn qualify(catalog: &Catalog, search_path: &[String], query: &mut Query) {
    struct Qualify<'a> {
        catalog: &'a Catalog,
        search_path: &'a [String],
        scopes: CteScopes,
    }
    impl VisitorMut for Qualify<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.scopes.enter(query);
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.scopes.leave(query);
            ControlFlow::Continue(())
        }
        fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
            let Ok(names) = parts(name) else { return ControlFlow::Continue(()) };
            let looked_up = match names.as_slice() {
                [only] => !self.scopes.is_entry(only),
                [schema, _] => schema == temporary::ALIAS,
                _ => false,
            };
            if looked_up && let Some(found) = self.catalog.resolve(&names, self.search_path) {
                *name = ObjectName::from(vec![ident(&found.schema.name), ident(found.name)]);
            }
            ControlFlow::Continue(())
        }
    }
    let mut visitor = Qualify { catalog, search_path, scopes: CteScopes::default() };
    let _ = VisitMut::visit(query, &mut visitor);
    user_types::qualify(query, &|name| catalog.user_type(name, search_path).cloned());
}

/// An identifier, between quotes only where it needs them: psql shows them.
fn ident(name: &str) -> Ident {
    match quote_ident(name) == name {
        true => Ident::new(name),
        false => Ident::with_quote('"', name),
    }
}

/// Relations, and types of users, that a stored query names with their schema.
pub fn relations_of(query: &Query) -> Vec<(String, String)> {
    struct Relations(Vec<(String, String)>);
    impl Visitor for Relations {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            if let Ok([.., schema, name]) = parts(name).as_deref() {
                self.0.push((schema.clone(), name.clone()));
            }
            ControlFlow::Continue(())
        }
    }
    let mut relations = Relations(Vec::new());
    let _ = query.visit(&mut relations);
    relations.0.extend(user_types::named_in(query));
    relations.0
}

/// Relations and types that a view of this text uses directly.
pub fn used_by(query: &str) -> Vec<(String, String)> {
    parse_query(query).map(|query| relations_of(&query)).unwrap_or_default()
}

/// Names of columns that an expression mentions.
pub fn mentioned(expr: &Expr) -> HashSet<String> {
    struct Names(HashSet<String>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) if !is_keyword(name) => {
                    self.0.insert(fold(name));
                }
                Expr::CompoundIdentifier(names) => {
                    self.0.extend(names.last().map(fold));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    let _ = expr.visit(&mut names);
    names.0
}

/// Words that the parser takes for identifiers although they are values.
fn is_keyword(name: &Ident) -> bool {
    let words =
        ["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"];
    let users = ["current_user", "session_user", "user", "current_role", "current_schema"];
    name.quote_style.is_none()
        && words.iter().chain(&users).any(|word| name.value.eq_ignore_ascii_case(word))
}

/// Names of columns that a stored expression mentions.
pub fn mentioned_in(text: &str) -> HashSet<String> {
    parse_expr(text).map(|expr| mentioned(&expr)).unwrap_or_default()
}
