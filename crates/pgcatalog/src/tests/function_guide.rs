//! The registries of functions together: no name twice, and the guide's page.

use std::collections::BTreeSet;

use halcyon_functions as by_value;
use halcyon_functions::zone_function;
use halcyon_functions::zoned;
use halcyon_plan::engine::DataFusion;
use halcyon_plan::execution;
use halcyon_value::functions as table;

use crate::functions;

const HEAD: &str = "# Functions

Made from the registries of functions by a test, which fails where they differ;
`HALCYON_BLESS=1 cargo test -p halcyon-pgcatalog the_guide_lists` writes this page. What is not here is
DataFusion's function of that name, with PostgreSQL's meaning where the two differ ([SQL](sql.md)).

";

fn execution_functions() -> String {
    let row = |function: &execution::Function| {
        let names: Vec<String> = function.names.iter().map(|name| format!("`{name}`")).collect();
        let of = match function.answer {
            execution::Answer::Clock(_) => "the clock",
            execution::Answer::Session(_) => "the session",
            execution::Answer::Sequence(_) => "sequences",
        };
        let gives = function.gives.to_string().to_uppercase();
        format!("| {} | {gives} | {of} | {} |\n", names.join(", "), function.purpose)
    };
    execution::FUNCTIONS.iter().map(row).collect()
}

fn functions_of_arguments() -> String {
    let row = |names: &[&str], takes: &str, purpose: &str| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("| {} | {takes} | {purpose} |\n", names.join(", "))
    };
    let of_table = |function: &table::Function| {
        let kinds = function.takes.kinds.iter().map(|kind| kind.name());
        let mut kinds: Vec<String> = kinds.map(str::to_owned).collect();
        let required = kinds.len() - function.takes.optional;
        kinds[required..].iter_mut().for_each(|kind| *kind = format!("[{kind}]"));
        let more = if function.takes.any_number { ", …" } else { "" };
        row(function.names, &format!("{}{more}", kinds.join(", ")), function.purpose)
    };
    let mut all: String = table::all().map(of_table).collect();
    all.push_str(&row(&[zone_function::NAME], zone_function::TAKES, zone_function::PURPOSE));
    for (name, takes, purpose) in zoned::shown() {
        all.push_str(&row(&[name], &takes, purpose));
    }
    all
}

fn functions_by_value() -> String {
    let row = |(name, takes, purpose): (&str, String, &str)| {
        format!("| `{}` | {takes} | {purpose} |\n", name.replace('|', "\\|"))
    };
    by_value::shown().map(row).collect()
}

fn page() -> String {
    let pure: String = functions_of_arguments();
    let tools: BTreeSet<&str> = functions::names().collect();
    let tools: Vec<String> = tools.into_iter().map(|name| format!("`{name}`")).collect();
    format!(
        "{HEAD}## Of the execution\nKnown when a statement runs. Views refuse them: their value changes \
         while no row does.\n\n| function | gives | reads | |\n|---|---|---|---|\n{}\n\
         ## Of their arguments\nThe same in point plans, analytical plans and materialized views (but \
         those with a time zone, which views do not take). Operators and casts become some of them.\n\n\
         | function | takes | gives |\n|---|---|---|\n{pure}\n\
         ## Over arrays, patterns and names\nIn point plans and analytical plans; views refuse them.\n\n\
         | function | takes | gives |\n|---|---|---|\n{}\n\
         ## Of the system catalogs\nAs PostgreSQL's tools call them: {}.\n",
        execution_functions(),
        functions_by_value(),
        tools.join(", ")
    )
}

#[test]
fn the_guide_lists_the_functions_of_ours() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/functions.md");
    if std::env::var_os("HALCYON_BLESS").is_some() {
        std::fs::write(path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).expect("the page is there");
    assert!(written == page(), "docs/guide/functions.md is old: see its head for how to write it");
}

/// A name in two registries means that one of the two is never called. DataFusion's functions stand
/// below ours, so a function of the system catalogs that DataFusion has too would be shadowed.
#[test]
fn no_function_is_defined_twice() {
    let execution = execution::FUNCTIONS.iter().flat_map(|row| row.names.iter().copied());
    // Rows of the table may share a name, which then differ in the arguments that they take.
    let pure: BTreeSet<&str> = table::all().flat_map(|row| row.names).copied().collect();
    let by_value: BTreeSet<&str> = by_value::shown().map(|(name, ..)| name).collect();
    let pure = pure.into_iter().chain(by_value).chain([zone_function::NAME]);
    let mut seen = BTreeSet::new();
    for name in execution.chain(pure).chain(functions::names()) {
        assert!(seen.insert(name), "{name} is defined twice");
    }
    let df = DataFusion::default();
    let shadowed: Vec<&str> = functions::names()
        .filter(|name| df.state().scalar_functions().contains_key(*name))
        .collect();
    // `version()` tells DataFusion's version there; binding passes it over.
    assert_eq!(shadowed, ["version"]);
}
