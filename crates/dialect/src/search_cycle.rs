//! SEARCH and CYCLE of recursive queries, rewritten as the standard says, with columns of arrays.
//!
//! The recursive query gets columns behind its own: for SEARCH DEPTH FIRST an array of each column's values on the way
//! to the row, for SEARCH BREADTH FIRST the row's depth, for CYCLE the mark and the path. Of the first two an entry of
//! WITH over that query makes the sequence: an array of rows, or a row.
//!
//! A path is an array of rows in PostgreSQL; here an array of these rows' texts, which are written in the same way.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr,
    SetOperator, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
};

use crate::made::quoted;
use crate::{recursive_types, shown_item_name};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::{parse_own_expr, parse_own_query};
use halcyon_sql::syntax::{Cycle, Search, search_and_cycle};

/// The rows of one side of the query, before columns are added.
const SIDE: &str = "side\u{1}";

/// Rewrites the entries of a query's WITH that have such clauses.
///
/// Errors: 42601 for queries that are not recursive and for columns that are none of theirs, 42701 and 42702 for names
/// that are used twice; 0A000 for sides that are no SELECT, and if columns are not named.
pub fn settle(query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut() else { return Ok(()) };
    let mut entries = Vec::with_capacity(with.cte_tables.len());
    for mut entry in std::mem::take(&mut with.cte_tables) {
        let (search, cycle) = search_and_cycle(&mut entry.query);
        if search.is_none() && cycle.is_none() {
            entries.push(entry);
            continue;
        }
        if !with.recursive {
            return Err(not_recursive());
        }
        let clauses = Clauses { columns: columns_of(&entry)?, search, cycle };
        clauses.check()?;
        entries.extend(clauses.entries(entry)?);
    }
    with.cte_tables = entries;
    Ok(())
}

fn not_recursive() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "WITH query is not recursive")
}

/// The names of an entry's columns.
fn columns_of(entry: &Cte) -> Result<Vec<String>> {
    let mut names: Vec<String> =
        entry.alias.columns.iter().map(|column| fold(&column.name)).collect();
    let SetExpr::SetOperation { op: SetOperator::Union, left, .. } = entry.query.body.as_ref()
    else {
        return Err(not_recursive());
    };
    let own: Option<Vec<String>> = match left.as_ref() {
        SetExpr::Select(first) => first.projection.iter().map(shown_item_name).collect(),
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            Some((1..=width).map(|at| format!("column{at}")).collect())
        }
        _ => return Err(no_select("left")),
    };
    match own {
        Some(own) => names.extend(own.into_iter().skip(names.len())),
        None if names.is_empty() => {
            return Err(SqlError::unsupported("SEARCH or CYCLE of a query with *")
                .hint("Name the columns behind the name of the WITH query."));
        }
        None => {}
    }
    Ok(names)
}

/// 0A000.
fn no_select(side: &str) -> SqlError {
    let message =
        format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// The clauses of an entry, and the entry's columns.
struct Clauses {
    columns: Vec<String>,
    search: Option<Search>,
    cycle: Option<Cycle>,
}

/// A column that the recursive query gets.
struct Added {
    name: String,
    /// The value in the first part.
    first: String,
    /// The value in a row of the recursive part, of which the column holds the value of the row before.
    next: String,
}

impl Clauses {
    fn check(&self) -> Result<()> {
        let refused = |state, message: String| Err(SqlError::new(state, message));
        let list = |what: &str, of: &[String]| {
            for (at, column) in of.iter().enumerate() {
                if !self.columns.contains(column) {
                    let message =
                        format!("{what} column \"{column}\" not in WITH query column list");
                    return refused(SqlState::SYNTAX_ERROR, message);
                }
                if of[..at].contains(column) {
                    let message = format!("{what} column \"{column}\" specified more than once");
                    return refused(SqlState::DUPLICATE_COLUMN, message);
                }
            }
            Ok(())
        };
        let mut made: Vec<&String> = Vec::new();
        if let Some(search) = &self.search {
            list("search", &search.columns)?;
            made.push(&search.sequence);
        }
        if let Some(cycle) = &self.cycle {
            list("cycle", &cycle.columns)?;
            made.extend([&cycle.mark, &cycle.path]);
        }
        for (at, name) in made.iter().enumerate() {
            if self.columns.contains(name) {
                let message = format!("column reference \"{name}\" is ambiguous");
                return refused(SqlState::AMBIGUOUS_COLUMN, message);
            }
            if made[..at].contains(name) {
                let message =
                    format!("column \"{name}\" of SEARCH and CYCLE specified more than once");
                return refused(SqlState::SYNTAX_ERROR, message);
            }
        }
        Ok(())
    }

    /// The columns that the recursive query gets.
    fn added(&self) -> Vec<Added> {
        let mut added = Vec::new();
        match &self.search {
            Some(search) if search.depth => {
                let way = |(at, column): (usize, &String)| {
                    let (name, value) = (way(at), of_side(column));
                    let next = format!("{} || ARRAY[{value}]", of_side(&name));
                    Added { name, first: format!("ARRAY[{value}]"), next }
                };
                added.extend(search.columns.iter().enumerate().map(way));
            }
            Some(_) => {
                let name = way(0);
                let next = format!("{} + CAST(1 AS BIGINT)", of_side(&name));
                added.push(Added { name, first: "CAST(0 AS BIGINT)".to_owned(), next });
            }
            None => {}
        }
        if let Some(cycle) = &self.cycle {
            let fields: Vec<String> = cycle.columns.iter().map(|name| of_side(name)).collect();
            let row = format!("CAST(ROW({}) AS TEXT)", fields.join(", "));
            let [met, other] = &cycle.values;
            let path = of_side(&cycle.path);
            added.push(Added {
                name: cycle.mark.clone(),
                first: other.to_string(),
                next: match (is_true(met), is_true(other)) {
                    (Some(true), Some(false)) => format!("{row} = ANY ({path})"),
                    // Without ELSE, so that the planner takes the column for one that may be NULL, as the
                    // executor does.
                    _ => format!(
                        "CASE WHEN {row} = ANY ({path}) THEN {met} WHEN {row} <> ALL ({path}) THEN {other} END"
                    ),
                },
            });
            added.push(Added {
                name: cycle.path.clone(),
                first: format!("ARRAY[{row}]"),
                next: format!("{path} || ARRAY[{row}]"),
            });
        }
        added
    }

    /// The entries that take the place of an entry.
    fn entries(&self, entry: Cte) -> Result<Vec<Cte>> {
        let added = self.added();
        let name = fold(&entry.alias.name);
        let recursive = match self.search {
            Some(_) => format!("{name}\u{1}search"),
            None => name.clone(),
        };
        let mut inner = entry.clone();
        inner.query =
            Box::new(self.with_columns(*entry.query.clone(), &name, &recursive, &added)?);
        inner.alias =
            alias(&recursive, self.columns.iter().chain(added.iter().map(|own| &own.name)));
        let Some(search) = &self.search else { return Ok(vec![inner]) };
        let sequence = match search.depth {
            true => sequence_of_ways(search.columns.len()),
            false => {
                let depth = way(0);
                let fields = std::iter::once(&depth).chain(&search.columns);
                let fields = fields.map(|name| shown(name));
                format!("ROW({})", fields.collect::<Vec<_>>().join(", "))
            }
        };
        let own = self.columns.iter().map(|name| shown(name));
        let marks = self.cycle.iter().flat_map(|cycle| [&cycle.mark, &cycle.path]);
        let items = own
            .chain([format!("{sequence} AS {}", shown(&search.sequence))])
            .chain(marks.map(|name| shown(name)));
        let items = items.collect::<Vec<_>>().join(", ");
        let text = format!("SELECT {items} FROM {}", shown(&recursive));
        let mut outer = entry;
        outer.query = Box::new(parse_own_query(&text));
        outer.alias.columns.clear();
        Ok(vec![inner, outer])
    }

    /// The recursive query with further columns. `name`: the query's name; `recursive`: the one that it gets.
    fn with_columns(
        &self,
        mut query: Query,
        name: &str,
        recursive: &str,
        added: &[Added],
    ) -> Result<Query> {
        let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, mut left, mut right } =
            *query.body
        else {
            return Err(not_recursive());
        };
        recursive_types::body(&mut left);
        let SetExpr::Select(step) = right.as_mut() else { return Err(no_select("right")) };
        let Some(alias) = reference(&mut step.from, name, recursive) else {
            let message = "with a SEARCH or CYCLE clause, the recursive reference must be an item of the right side's FROM";
            return Err(SqlError::unsupported(message));
        };
        for own in added {
            let path = vec![alias.clone(), quoted(own.name.clone())];
            let (expr, alias) = (Expr::CompoundIdentifier(path), quoted(own.name.clone()));
            step.projection.push(SelectItem::ExprWithAlias { expr, alias });
        }
        if let Some(cycle) = &self.cycle {
            let text = format!("{alias}.{} <> {}", shown(&cycle.mark), cycle.values[0]);
            let open = Expr::Nested(Box::new(parse_own_expr(&text)));
            step.selection = Some(match step.selection.take() {
                Some(other) => {
                    crate::made::binary(Expr::Nested(Box::new(other)), BinaryOperator::And, open)
                }
                None => open,
            });
        }
        let own: Vec<String> = self.columns.iter().map(|name| of_side(name)).collect();
        let side = |body: Box<SetExpr>, values: Vec<String>, names: Vec<&String>| {
            let items = own.iter().cloned().chain(values).collect::<Vec<_>>().join(", ");
            let names = names.into_iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
            let text = format!("SELECT {items} FROM (SELECT NULL) AS \"{SIDE}\" ({names})");
            let mut made = parse_own_query(&text);
            if let SetExpr::Select(select) = made.body.as_mut()
                && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
            {
                subquery.body = body;
            }
            made.body
        };
        let names: Vec<&String> = self.columns.iter().collect();
        let all = names.iter().copied().chain(added.iter().map(|own| &own.name)).collect();
        let named = |own: &Added, value: &str| format!("{value} AS {}", shown(&own.name));
        let firsts = added.iter().map(|own| named(own, &own.first)).collect();
        let nexts = added.iter().map(|own| named(own, &own.next)).collect();
        let mut first = side(left, firsts, names);
        recursive_types::body(&mut first);
        query.body = Box::new(SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier,
            left: first,
            right: side(right, nexts, all),
        });
        Ok(query)
    }
}

/// Finds the item of FROM that a recursive query names itself by, gives it the query's new name, and tells its alias.
fn reference(from: &mut [TableWithJoins], name: &str, recursive: &str) -> Option<Ident> {
    for tables in from {
        let relations = std::iter::once(&mut tables.relation)
            .chain(tables.joins.iter_mut().map(|join| &mut join.relation));
        for relation in relations {
            match relation {
                TableFactor::Table { name: own, alias: given, args: None, .. } => {
                    let [part] = &own.0[..] else { continue };
                    if part.as_ident().map(fold).as_deref() != Some(name) {
                        continue;
                    }
                    *own =
                        ObjectName(vec![ObjectNamePart::Identifier(quoted(recursive.to_owned()))]);
                    let given = given.get_or_insert_with(|| alias(name, std::iter::empty()));
                    return Some(given.name.clone());
                }
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    let within = std::slice::from_mut(table_with_joins.as_mut());
                    if let Some(found) = reference(within, name, recursive) {
                        return Some(found);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

fn alias<'n>(name: &str, columns: impl Iterator<Item = &'n String>) -> TableAlias {
    let column =
        |name: &String| TableAliasColumnDef { name: quoted(name.clone()), data_type: None };
    TableAlias {
        explicit: true,
        name: quoted(name.to_owned()),
        columns: columns.map(column).collect(),
        at: None,
    }
}

/// Which truth value a constant is, if it is one.
fn is_true(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Value(value) => match value.value {
            Value::Boolean(value) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// The column that holds the values of a SEARCH's column on the way to a row, or the row's depth.
fn way(at: usize) -> String {
    format!("way\u{1}{at}")
}

/// An array of rows of the arrays' elements.
fn sequence_of_ways(count: usize) -> String {
    let list = |name: &dyn Fn(usize) -> String| (0..count).map(name).collect::<Vec<_>>().join(", ");
    let ways = list(&|at| shown(&way(at)));
    let (fields, names) = (list(&|at| format!("u.x{at}")), list(&|at| format!("x{at}")));
    format!(
        "ARRAY(SELECT ROW({fields}) FROM unnest({ways}) WITH ORDINALITY AS u ({names}, n) ORDER BY u.n)"
    )
}

fn shown(name: &str) -> String {
    quoted(name.to_owned()).to_string()
}

fn of_side(name: &str) -> String {
    format!("\"{SIDE}\".{}", shown(name))
}
