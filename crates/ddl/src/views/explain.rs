//! EXPLAIN (TRIGGERS) and EXPLAIN MAINTENANCE: what a view does about an event, and what it costs.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;

use super::define::define;
use halcyon_catalog::{Relation, Table, wrong_kind};
use halcyon_plan::bind::Binder;
use halcyon_plan::stored_names::qualify;
use halcyon_sql::error::Result;
use halcyon_sql::parse::parse_query;
use halcyon_txn::CancelToken;

/// Lines of the trigger program of a query, or of a view's if the query is nothing but its name.
pub fn triggers(binder: &Binder<'_>, query: &ast::Query, text: &str) -> Result<Vec<String>> {
    let mut query = query.clone();
    let path: Vec<String> = binder.search_path().map(str::to_owned).collect();
    qualify(binder.catalog, &path, &mut query);
    let definition = define(binder, &query, text, &CancelToken::new())?;
    Ok(lines(&definition.program.to_string()))
}

/// Lines of a view's certificate, and what its maps hold now.
pub fn maintenance(binder: &Binder<'_>, name: &[String]) -> Result<Vec<String>> {
    let table = view_of(binder, name)?;
    let view = table.materialized().expect("looked for above");
    let definition = define(binder, &parse_query(&view.query)?, "", &CancelToken::new())?;
    let mut told = lines(&definition.certificate.to_string());
    told.push(match view.maintained().machine_code() {
        Ok(bytes) => format!("Machine code: {bytes} bytes"),
        Err(why) => format!("Machine code: none ({why})"),
    });
    for (name, entries, bytes) in view.maintained().maps() {
        told.push(format!("Map {name}: {entries} entries, {bytes} bytes"));
    }
    Ok(told)
}

/// The query of a materialized view of this name.
pub fn query_of(binder: &Binder<'_>, name: &[String]) -> Result<ast::Query> {
    let table = view_of(binder, name)?;
    parse_query(&table.materialized().expect("looked for above").query)
}

/// The materialized view of this name. Errors: 42P01, 42809.
pub fn view_of(binder: &Binder<'_>, name: &[String]) -> Result<Arc<Table>> {
    let path: Vec<String> = binder.search_path().map(str::to_owned).collect();
    let found = binder.catalog.require(name, &path)?;
    match found.relation {
        Relation::Table(table) if table.materialized().is_some() => Ok(table.clone()),
        _ => Err(wrong_kind(found.name, "materialized view")),
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
