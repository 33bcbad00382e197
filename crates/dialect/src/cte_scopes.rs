//! The entries of WITH that are visible where a visitor of a statement's tree stands, so that a name of a relation is
//! not taken for that of an entry, nor the other way round.
//!
//! An entry is visible behind its query, to the entries after it and to the query that has the WITH; with RECURSIVE,
//! within its own query and to all entries, too.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, TableObject, Visit, Visitor};

use halcyon_sql::identifier::{fold, parts};

/// What a visitor keeps while it is on its way: call [`CteScopes::enter`] and [`CteScopes::leave`] at each query.
#[derive(Debug, Default)]
pub struct CteScopes(Vec<Scope>);

/// The WITH of a query that the visitor is in.
#[derive(Debug, Default)]
struct Scope {
    visible: Vec<String>,
    /// Entries whose queries have not been left, by the addresses of these.
    to_come: Vec<(*const Query, String)>,
}

impl CteScopes {
    /// The visitor goes into a query.
    pub fn enter(&mut self, query: &Query) {
        let mut scope = Scope::default();
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                let name = fold(&cte.alias.name);
                match with.recursive {
                    true => scope.visible.push(name),
                    false => scope.to_come.push((std::ptr::from_ref(&*cte.query), name)),
                }
            }
        }
        self.0.push(scope);
    }

    /// The visitor has gone through a query.
    pub fn leave(&mut self, query: &Query) {
        self.0.pop();
        let Some(scope) = self.0.last_mut() else { return };
        let own = std::ptr::from_ref(query);
        if let Some(at) = scope.to_come.iter().position(|(query, _)| *query == own) {
            scope.visible.push(scope.to_come.swap_remove(at).1);
        }
    }

    /// Whether a name without a schema is that of an entry here.
    pub fn is_entry(&self, name: &str) -> bool {
        self.0.iter().any(|scope| scope.visible.iter().any(|entry| entry == name))
    }
}

/// The names of relations in a statement that are not those of entries of WITH, as they are written; some more than
/// once.
pub fn relations_of(statement: &Statement) -> Vec<ObjectName> {
    #[derive(Default)]
    struct Relations {
        scopes: CteScopes,
        names: Vec<ObjectName>,
    }
    impl Visitor for Relations {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.scopes.enter(query);
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.scopes.leave(query);
            ControlFlow::Continue(())
        }
        fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
            // A target is a table, whatever WITH calls its entries.
            if let Statement::Insert(insert) = statement
                && let TableObject::TableName(target) = &insert.table
            {
                self.names.push(target.clone());
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            let is_entry = match parts(name).as_deref() {
                Ok([own]) => self.scopes.is_entry(own),
                _ => false,
            };
            if !is_entry {
                self.names.push(name.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut relations = Relations::default();
    let _ = statement.visit(&mut relations);
    relations.names
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_sql::parse::parse_query;

    fn names(query: &str) -> Vec<String> {
        let query = parse_query(query).expect("a query");
        let names = relations_of(&Statement::Query(Box::new(query)));
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_entry_is_visible_behind_its_query() {
        assert_eq!(names("WITH t AS (SELECT * FROM t) SELECT * FROM t"), ["t"]);
        assert_eq!(names("WITH t AS (SELECT 1 FROM u), u AS (SELECT 1 FROM t) TABLE u"), ["u"]);
        assert_eq!(names("WITH RECURSIVE t AS (SELECT 1 UNION SELECT 2 FROM t) TABLE t"), [""; 0]);
        assert_eq!(
            names("SELECT (WITH t AS (SELECT 1) SELECT 1 FROM t), 2 FROM t, s.t AS x"),
            ["t", "s.t"]
        );
        assert_eq!(
            names("WITH t AS (SELECT 1) SELECT 1 WHERE EXISTS (SELECT 1 FROM \"T\", T)"),
            ["\"T\""]
        );
    }
}
