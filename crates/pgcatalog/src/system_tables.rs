//! The list of all system tables: it joins the modules that make them, and none of those knows it.
//!
//! System tables have fixed object ids below 16384, where the catalog's begin; where PostgreSQL
//! fixes one (`pg_class` is 1259) it is used, because clients know them.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::objects::{System, SystemTable};
use super::table::Def;
use super::{
    class_state, functions, halcyon_views, information_schema, pg_catalog, progress, statics,
    workload_views,
};

/// All system tables with their ids, in the order of schema and name.
pub(crate) fn all() -> &'static [SystemTable] {
    static TABLES: OnceLock<Vec<SystemTable>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = of_all_schemas();
        tables.sort_by_key(|(schema, name, _)| (*schema, *name));
        let with_id = |(at, (schema, name, system))| {
            let oid = well_known(name).unwrap_or_else(|| first_oid(schema) + at as u32);
            SystemTable { schema, name, oid, system }
        };
        let mut tables: Vec<SystemTable> = tables.into_iter().enumerate().map(with_id).collect();
        tables.dedup_by_key(|table| (table.schema, table.name));
        tables
    })
}

/// The table `name` of a system schema.
pub(crate) fn named(schema: &str, name: &str) -> Option<&'static SystemTable> {
    let tables = all();
    let at = tables.binary_search_by_key(&(schema, name), |table| (table.schema, table.name));
    Some(&tables[at.ok()?])
}

/// Schema, name and rows of the tables, schema by schema.
fn of_all_schemas() -> Vec<(&'static str, &'static str, System)> {
    let mut tables = Vec::new();
    let written = |schema: &'static str, defs: &'static [Def]| {
        defs.iter().map(move |def| (schema, def.name, System::Written(def)))
    };
    for defs in pg_catalog::tables() {
        tables.extend(written("pg_catalog", defs));
    }
    let fixed = statics::tables(&callable()).into_iter();
    tables.extend(fixed.map(|(name, table)| ("pg_catalog", name, System::Fixed(table))));
    for defs in information_schema::tables() {
        tables.extend(written("information_schema", defs));
    }
    let views = halcyon_views::VIEWS.iter().chain(progress::VIEWS);
    let views = views.chain(workload_views::VIEWS).chain(class_state::VIEWS);
    tables.extend(views.map(|view| ("halcyon", view.def.name, System::View(view))));
    tables
}

/// Names of all functions that a query may call.
fn callable() -> HashSet<String> {
    let of_tools = functions::names().map(str::to_owned);
    halcyon_plan::setup::function_names().chain(of_tools).collect()
}

/// Where the ids of a schema's tables begin.
fn first_oid(schema: &str) -> u32 {
    match schema {
        "pg_catalog" => 12000,
        "information_schema" => 13000,
        _ => 14000,
    }
}

/// Ids that PostgreSQL fixes for its own tables.
fn well_known(name: &str) -> Option<u32> {
    Some(match name {
        "pg_type" => 1247,
        "pg_attribute" => 1249,
        "pg_proc" => 1255,
        "pg_class" => 1259,
        "pg_authid" => 1260,
        "pg_auth_members" => 1261,
        "pg_database" => 1262,
        "pg_tablespace" => 1213,
        "pg_attrdef" => 2604,
        "pg_constraint" => 2606,
        "pg_depend" => 2608,
        "pg_description" => 2609,
        "pg_index" => 2610,
        "pg_language" => 2612,
        "pg_namespace" => 2615,
        "pg_collation" => 3456,
        "pg_operator" => 2617,
        "pg_rewrite" => 2618,
        "pg_trigger" => 2620,
        "pg_sequence" => 2224,
        _ => return None,
    })
}
