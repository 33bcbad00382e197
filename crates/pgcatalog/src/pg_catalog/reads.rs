//! Which columns of relations a view's query names.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::parse::ast::{
    Expr, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    Visit, Visitor,
};
use halcyon_sql::parse::parse_query;

/// A relation that a query names, and its columns that the query names. A name that several relations have
/// counts for each.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) schema: String,
    pub(crate) name: String,
    /// Positions, in ascending order.
    pub(crate) columns: Vec<usize>,
}

/// What a query reads. `columns_of`: the columns of a relation; `None` if it has none that can be named.
pub(crate) fn reads(
    query: &str,
    columns_of: impl Fn(&str, &str) -> Option<Vec<String>>,
) -> Vec<Read> {
    let Ok(query) = parse_query(query) else { return Vec::new() };
    let mut names = Names::default();
    let _ = query.visit(&mut names);
    let mut found: Vec<Read> = Vec::new();
    for (schema, name, alias) in &names.relations {
        let Some(columns) = columns_of(schema, name) else { continue };
        let all = names.all || names.all_of.contains(alias);
        let is_named = |column: &String| {
            all || names.bare.contains(column)
                || names.qualified.contains(&(alias.clone(), column.clone()))
        };
        let named = columns.iter().enumerate().filter(|(_, column)| is_named(column));
        let named = named.map(|(at, _)| at);
        match found.iter_mut().find(|read| read.schema == *schema && read.name == *name) {
            Some(read) => {
                let both: BTreeSet<usize> = named.chain(read.columns.iter().copied()).collect();
                read.columns = both.into_iter().collect();
            }
            None => {
                let (schema, name) = (schema.clone(), name.clone());
                found.push(Read { schema, name, columns: named.collect() });
            }
        }
    }
    found
}

/// Names in a query, as they are meant anywhere in it.
#[derive(Default)]
struct Names {
    /// Schema, name and the name that columns stand behind.
    relations: Vec<(String, String, String)>,
    bare: BTreeSet<String>,
    qualified: BTreeSet<(String, String)>,
    /// Whether all columns of all relations are named.
    all: bool,
    all_of: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let Ok([schema, name]) = parts(name).as_deref()
        {
            let alias = alias.as_ref().map_or_else(|| name.clone(), |alias| fold(&alias.name));
            self.relations.push((schema.clone(), name.clone(), alias));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => self.all = true,
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => self.all_of.extend(last(name)),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => drop(self.bare.insert(fold(name))),
            Expr::CompoundIdentifier(names) => {
                if let [.., relation, column] = names.as_slice() {
                    self.qualified.insert((fold(relation), fold(column)));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn last(name: &ObjectName) -> Option<String> {
    parts(name).ok()?.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_bare_behind_their_relation_and_all_together() {
        let columns_of = |_: &str, name: &str| {
            let columns: &[&str] = if name == "t" { &["a", "b"] } else { &["c", "d"] };
            Some(columns.iter().map(|column| (*column).to_owned()).collect())
        };
        let found = |query: &str| -> Vec<(String, Vec<usize>)> {
            let reads = reads(query, columns_of).into_iter();
            reads.map(|read| (read.name, read.columns)).collect()
        };
        let t = |columns: &[usize]| ("t".to_owned(), columns.to_vec());
        let u = |columns: &[usize]| ("u".to_owned(), columns.to_vec());
        assert_eq!(found("SELECT b FROM s.t"), [t(&[1])]);
        assert_eq!(found("SELECT x.a FROM s.t x JOIN s.u ON b = u.d"), [t(&[0, 1]), u(&[1])]);
        assert_eq!(found("SELECT x.*, c FROM s.t x, s.u"), [t(&[0, 1]), u(&[0])]);
        assert_eq!(found("SELECT count(*) FROM s.t"), [t(&[])]);
        assert_eq!(
            found("SELECT * FROM s.u WHERE EXISTS (SELECT 1 FROM s.t)"),
            [u(&[0, 1]), t(&[0, 1])]
        );
    }
}
