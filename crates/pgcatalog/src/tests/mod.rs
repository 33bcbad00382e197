//! The system catalogs against what clients ask and what PostgreSQL answers.
//!
//! `clients.txt` holds queries recorded from psql 15 (`psql -E`) and from the JDBC driver 42.5,
//! with PostgreSQL 15's answers for the schema in `shop.sql`; [`shop`] builds the same catalog.
//! Object ids stand as `{schema.name}`. Where Halcyon answers otherwise, the record says so and
//! why, and both answers stand there.

mod function_guide;
mod shop;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use halcyon_txn::CancelToken;

use super::*;
use halcyon_plan::env::{Clock, Env};
use halcyon_plan::semantics::bind_late;

/// DataFusion with nothing but the system catalogs.
#[derive(Debug)]
struct SystemSchema(String, ContextHandle);

#[derive(Clone)]
struct ContextHandle(Arc<Context>);

impl std::fmt::Debug for ContextHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("context")
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        table_names(&self.0).into_iter().map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Ok(provider(&self.0, name, &self.1.0))
    }

    fn table_exist(&self, name: &str) -> bool {
        table_names(&self.0).contains(&name)
    }
}

#[derive(Debug)]
struct System(ContextHandle);

impl CatalogProvider for System {
    fn schema_names(&self) -> Vec<String> {
        SCHEMAS.iter().map(|name| (*name).to_owned()).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let known = SCHEMAS.contains(&name);
        known.then(|| Arc::new(SystemSchema(name.to_owned(), self.0.clone())) as _)
    }
}

fn datafusion(context: &Arc<Context>) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(1);
    let config = config.with_default_catalog_and_schema("db", "public");
    let session = SessionContext::new_with_config(config);
    session.register_catalog("db", Arc::new(System(ContextHandle(Arc::clone(context)))));
    for function in functions(context) {
        session.register_udf(function);
    }
    for function in halcyon_plan::functions::scalar_functions() {
        session.register_udf((*function).clone());
    }
    session
}

/// The query with the name of its table in the place of each `alias.tableoid`: system columns are
/// found when a query is bound, which is not this crate's business.
fn with_table_ids(sql: &str) -> String {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = sql.to_owned();
    for part in sql.split("pg_catalog.").skip(1) {
        let Some((table, rest)) = part.split_once(' ') else { continue };
        let alias = rest.split(|c| !name(c)).next().expect("a split has a first part");
        if table.starts_with("pg_") && table.chars().all(name) && !alias.is_empty() {
            let column = format!(" {alias}.tableoid");
            out = out.replace(&column, &format!(" '{table}'::regclass"));
        }
    }
    out
}

/// Answers of a query as text, one string per cell.
fn run(context: &Arc<Context>, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let sql = &with_table_ids(sql);
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|e| e.to_string())?;
    let [statement] = parsed.try_into().map_err(|_| "one statement is wanted".to_owned())?;
    let statement = rewrite(statement, context);
    let session = datafusion(context);
    let work = async {
        let statement = DfStatement::Statement(Box::new(statement));
        let state = session.state();
        let plan = state.statement_to_plan(statement).await?;
        let env = Env {
            catalog: &context.catalog,
            params: &[],
            session: &context.session,
            clock: Clock::default(),
            cancel: &CancelToken::new(),
            workers: None,
        };
        let plan =
            bind_late(plan, &env).map_err(|error| DataFusionError::External(error.into()))?;
        session.execute_logical_plan(plan).await?.collect().await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let batches = runtime.block_on(work).map_err(|e| e.to_string())?;
    Ok(batches.iter().flat_map(rows_of).collect())
}

fn rows_of(batch: &RecordBatch) -> Vec<Vec<String>> {
    let row = |at: usize| batch.columns().iter().map(|column| cell(column, at)).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// A value as PostgreSQL's text format has it, as far as the system catalogs need it.
fn cell(column: &dyn Array, at: usize) -> String {
    if column.is_null(at) {
        return "∅".to_owned();
    }
    match column.data_type() {
        DataType::Boolean if column.as_boolean().value(at) => "t".to_owned(),
        DataType::Boolean => "f".to_owned(),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(at);
            let items: Vec<String> = (0..items.len()).map(|at| cell(&items, at)).collect();
            format!("{{{}}}", items.join(","))
        }
        DataType::Null => "∅".to_owned(),
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(column, &options).unwrap();
            let text = formatter.value(at).to_string();
            // Whole floats are printed without fraction.
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned).replace('\n', "\\n")
        }
    }
}

/// A query with PostgreSQL's answer and, if it differs, Halcyon's.
struct Record {
    title: String,
    query: String,
    answer: Vec<Vec<String>>,
    /// Whether `answer` holds some of the rows only.
    among_others: bool,
    ours: Option<Vec<Vec<String>>>,
}

/// `# title`, the query, `---- PostgreSQL` (with `, among others` if not all rows are kept), rows
/// with tabs between cells, and if Halcyon differs `---- Halcyon: reason` and its rows.
fn records() -> Vec<Record> {
    let text = include_str!("clients.txt");
    let blocks = text.split("\n# ").filter(|block| block.contains("---- PostgreSQL"));
    blocks.map(record).collect()
}

fn record(block: &str) -> Record {
    let (head, answers) = block.split_once("---- PostgreSQL").expect("a record has an answer");
    let (mark, answers) = answers.split_once('\n').expect("the mark is a line");
    let among_others = mark == ", among others";
    let (title, query) = head.split_once('\n').expect("the title is a line");
    let rows = |text: &str| {
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect::<Vec<Vec<_>>>()
    };
    let (theirs, ours) = match answers.split_once("---- Halcyon: ") {
        Some((theirs, ours)) => {
            let (_, ours) = ours.split_once('\n').expect("the reason is a line");
            (theirs, Some(rows(ours)))
        }
        None => (answers, None),
    };
    let (title, query) = (title.to_owned(), query.trim().to_owned());
    Record { title, query, answer: rows(theirs), among_others, ours }
}

#[test]
fn clients_get_the_answers_that_postgresql_gives() {
    let context = shop::context("halcyon");
    let differing: Vec<String> =
        records().iter().filter_map(|record| difference(&context, record)).collect();
    let count = differing.len();
    assert!(differing.is_empty(), "{count} records differ:\n{}", differing.join("\n"));
}

/// What is wrong with the answer to a record's query.
fn difference(context: &Arc<Context>, record: &Record) -> Option<String> {
    let title = &record.title;
    let rows = match run(context, &shop::with_ids(context, &record.query)) {
        Ok(rows) => rows,
        Err(error) => return Some(format!("== {title}\nERROR {error}")),
    };
    let named = |row: &Vec<String>| -> Vec<String> {
        row.iter().map(|cell| shop::with_names(context, cell)).collect()
    };
    let got: Vec<Vec<String>> = rows.iter().map(named).collect();
    let got = sorted(&record.query, &got);
    let wanted = sorted(&record.query, record.ours.as_ref().unwrap_or(&record.answer));
    let same = match record.among_others {
        true => !wanted.is_empty() && wanted.iter().all(|row| got.contains(row)),
        false => got == wanted,
    };
    let lines =
        |rows: &[Vec<String>]| rows.iter().map(|row| row.join("\t")).collect::<Vec<_>>().join("\n");
    (!same).then(|| format!("== {title}\ngot\n{}\nwanted\n{}\n", lines(&got), lines(&wanted)))
}

/// Rows in any order where the query leaves it open.
fn sorted(query: &str, rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut rows = rows.to_vec();
    if !query.to_uppercase().contains("ORDER BY") {
        rows.sort();
    }
    rows
}

#[test]
fn every_system_table_can_be_read() {
    let context = shop::context("halcyon");
    for schema in SCHEMAS {
        let names = table_names(schema);
        assert!(!names.is_empty(), "{schema}");
        for name in names {
            let rows = run(&context, &format!("SELECT * FROM {schema}.\"{name}\""));
            let rows = rows.unwrap_or_else(|error| panic!("{schema}.{name}: {error}"));
            if *schema == "pg_catalog" && pg_catalog::is_always_empty(name) {
                assert!(rows.is_empty(), "{name} is listed as always empty");
            }
        }
    }
}

/// Rust files of this crate by their paths within `src`.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut folders = vec![root.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).expect("within src").display().to_string();
                files.push((name, std::fs::read_to_string(&path).expect("a text")));
            }
        }
    }
    files
}

/// Cells, which have positions instead of names, are known to the declaring macros alone; a table
/// with rows is declared by them.
#[test]
fn rows_are_made_of_named_columns() {
    let sources = sources();
    let with = |word: &str| -> BTreeSet<&str> {
        let files = sources.iter().filter(|(name, _)| !name.starts_with("tests/"));
        files.filter(|(_, text)| text.contains(word)).map(|(name, _)| &**name).collect()
    };
    assert_eq!(with("Cell::"), BTreeSet::from(["table.rs", "view.rs"]));
    assert_eq!(with("Def {"), BTreeSet::from(["table.rs", "view.rs"]));
    let declared = BTreeSet::from([
        "information_schema/collations.rs",
        "information_schema/columns.rs",
        "information_schema/constraints.rs",
        "information_schema/domains.rs",
        "information_schema/relations.rs",
        "information_schema/rights.rs",
        "pg_catalog/activity.rs",
        "pg_catalog/attributes.rs",
        "pg_catalog/collations.rs",
        "pg_catalog/constraints.rs",
        "pg_catalog/descriptions.rs",
        "pg_catalog/extensions.rs",
        "pg_catalog/progress.rs",
        "pg_catalog/relations.rs",
        "pg_catalog/roles.rs",
        "pg_catalog/types.rs",
        "pg_catalog/zones.rs",
    ]);
    assert_eq!(with("system_tables! {"), declared);
}

/// A column that is the same in all rows stands in its place among those that are not.
#[test]
fn columns_of_a_declaration_keep_their_order_and_kind() {
    let table = system_tables::named("pg_catalog", "pg_auth_members").expect("declared");
    let fields = table.system.schema();
    let names: Vec<_> = fields.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["roleid", "member", "grantor", "admin_option"]);
    let types: Vec<u32> = fields.fields().iter().map(|field| table::type_oid(field)).collect();
    assert_eq!(types, [26, 26, 26, 16]);
    check(
        "halcyon",
        "SELECT roleid::regrole, member::regrole, grantor, admin_option FROM pg_auth_members",
        "reporting|ana|10|f",
    );
}

#[test]
fn object_ids_are_unique_and_the_same_in_the_next_version() {
    let context = shop::context("halcyon");
    let ids = |context: &Arc<Context>| -> Vec<(u32, String)> {
        let relations = context.objects().relations.iter();
        relations.map(|(oid, object)| (*oid, object.name.clone())).collect()
    };
    let tables = system_tables::all();
    let distinct: BTreeSet<u32> = tables.iter().map(|table| table.oid).collect();
    assert_eq!(distinct.len(), tables.len(), "system tables share an id");
    let mut next = (*context.catalog).clone();
    next.version += 1;
    let next = Context::new(Arc::new(next), context.session.clone(), Arc::clone(&context.live));
    assert_eq!(ids(&context), ids(&next));
    let constraints = "SELECT conname, oid FROM pg_catalog.pg_constraint ORDER BY 1";
    assert_eq!(run(&context, constraints), run(&next, constraints));
    let oids = run(&context, "SELECT count(*), count(DISTINCT oid) FROM pg_constraint").unwrap();
    assert_eq!(oids[0][0], oids[0][1]);
}

/// One query, one answer: rows separated by `;`, cells by `|`.
fn check(user: &str, query: &str, expected: &str) {
    let context = shop::context(user);
    let rows = run(&context, query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let rows: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
    assert_eq!(rows.join(";"), expected, "{query}");
}

#[test]
fn privileges_follow_grants_memberships_and_ownership() {
    let has = |user: &str, what: &str, expected: &str| {
        check(user, &format!("SELECT {what}"), expected);
    };
    has("ana", "has_table_privilege('customer', 'SELECT')", "t");
    has("ana", "has_table_privilege('customer', 'INSERT')", "t"); // by membership
    has("ana", "has_table_privilege('customer', 'INSERT WITH GRANT OPTION')", "f");
    has("ana", "has_table_privilege('rich', 'select with grant option')", "t");
    has("ana", "has_table_privilege('customer', 'DELETE')", "f");
    has("ana", "has_table_privilege('customer', 'DELETE, SELECT')", "t");
    has("reporting", "has_table_privilege('ana', 'rich', 'SELECT')", "t");
    has("halcyon", "has_table_privilege('shop.orders', 'TRUNCATE')", "t");
    has("halcyon", "has_table_privilege('reporting', 'shop.orders', 'SELECT')", "f");
    has("ana", "has_column_privilege('customer', 'name', 'SELECT')", "t");
    has("ana", "has_schema_privilege('public', 'USAGE')", "t");
    has("ana", "has_schema_privilege('shop', 'CREATE')", "f");
    has("ana", "has_database_privilege('halcyon', 'CONNECT')", "t");
    has("ana", "pg_has_role('reporting', 'MEMBER')", "t");
    has("reporting", "pg_has_role('ana', 'USAGE')", "f");
    has("ana", "has_table_privilege(NULL, 'SELECT')", "∅");
}

#[test]
fn wrong_names_are_errors_with_postgresqls_words() {
    let context = shop::context("halcyon");
    for (query, message) in [
        ("SELECT 'nothing'::regclass", "relation \"nothing\" does not exist"),
        ("SELECT 'nothing'::regtype", "type \"nothing\" does not exist"),
        ("SELECT 'nothing'::regnamespace", "schema \"nothing\" does not exist"),
        ("SELECT 'nothing'::regrole", "role \"nothing\" does not exist"),
        ("SELECT has_table_privilege('customer', 'EAT')", "unrecognized privilege type: \"EAT\""),
        ("SELECT has_table_privilege('bob', 'customer', 'SELECT')", "role \"bob\" does not exist"),
        ("SELECT has_schema_privilege('nowhere', 'USAGE')", "schema \"nowhere\" does not exist"),
        ("SELECT current_setting('no.such')", "unrecognized configuration parameter \"no.such\""),
        (
            "SELECT pg_get_serial_sequence('customer', 'x')",
            "column \"x\" of relation \"customer\" does not exist",
        ),
    ] {
        let error = run(&context, query).expect_err(query);
        assert!(error.contains(message), "{query}: {error}");
    }
}

#[test]
fn casts_to_reg_types_know_the_search_path() {
    check("halcyon", "SELECT 'customer'::regclass", "customer");
    check(
        "halcyon",
        "SELECT 'shop.orders'::regclass, 'Shop.Orders'::regclass::text",
        "shop.orders|shop.orders",
    );
    check("halcyon", "SELECT 'pg_class'::regclass::oid, 1259::regclass", "1259|pg_class");
    check("halcyon", "SELECT 'integer'::regtype, 'int4'::regtype::oid", "integer|23");
    check("halcyon", "SELECT 'public'::regnamespace, 'ana'::regrole", "public|ana");
    check("halcyon", "SELECT to_regclass('nothing'), to_regclass('public.customer')", "∅|customer");
    check("halcyon", "SELECT count(*) FROM pg_class WHERE oid = 'customer'::regclass", "1");
}

#[test]
fn session_functions_tell_the_session() {
    check("ana", "SELECT current_user, session_user, current_schema", "ana|ana|public");
    check(
        "ana",
        "SELECT current_database(), pg_backend_pid(), version()",
        "halcyon|7|Halcyon test",
    );
    check("ana", "SELECT current_schemas(true)", "{pg_catalog,public}");
    check("ana", "SELECT pg_get_serial_sequence('customer', 'id')", "public.customer_id_seq");
    check("ana", "SELECT current_setting('work_mem'), current_setting('x', true)", "4MB|∅");
}

#[test]
fn sizes_are_those_of_the_partitions() {
    let context = shop::context("halcyon");
    let table = &context.catalog.tables[&shop::CUSTOMER];
    let size = memory::of_table(&context.live.roots(table));
    assert_eq!(size.rows, 3);
    assert!(size.row_bytes > 0 && size.index_bytes > 0);
    let query = "SELECT pg_relation_size('customer'), pg_indexes_size('customer'),
                        pg_total_relation_size('customer')";
    let total = size.row_bytes + size.index_bytes;
    check("halcyon", query, &format!("{}|{}|{total}", size.row_bytes, size.index_bytes));
    check(
        "halcyon",
        "SELECT sum(bytes), sum(rows) FILTER (WHERE index IS NULL) FROM halcyon.memory
         WHERE relation = 'customer'",
        &format!("{total}|3"),
    );
}

#[test]
fn texts_of_statements_are_for_their_owners_and_superusers() {
    let statements = "SELECT statement FROM halcyon.sessions ORDER BY session";
    check("halcyon", statements, "SELECT 1;UPDATE customer");
    check("ana", statements, "SELECT 1;∅");
    check("halcyon", "SELECT statement, calls, mean_ms FROM halcyon.statements", "SELECT 1|4|0.5");
    check("ana", "SELECT count(*) FROM halcyon.statements", "0");
    check(
        "halcyon",
        "SELECT relation, partition, mode, granted FROM halcyon.locks",
        "customer|0|exclusive|t",
    );
    check(
        "ana",
        "SELECT relation::regclass, mode, pid FROM pg_locks WHERE relation = 'customer'::regclass",
        "customer|AccessExclusiveLock|8",
    );
}

#[test]
fn information_schema_tells_keys_and_rights() {
    check(
        "halcyon",
        "SELECT constraint_name, constraint_type FROM information_schema.table_constraints
         WHERE constraint_name NOT LIKE '%not_null' ORDER BY 1",
        "customer_balance_check|CHECK;customer_email_key|UNIQUE;customer_pkey|PRIMARY KEY;\
         orders_customer_id_fkey|FOREIGN KEY;orders_pkey|PRIMARY KEY",
    );
    check(
        "halcyon",
        "SELECT unique_constraint_name, update_rule, delete_rule
         FROM information_schema.referential_constraints",
        "customer_pkey|CASCADE|SET NULL",
    );
    check(
        "halcyon",
        "SELECT column_name, data_type, character_maximum_length, is_nullable, is_identity
         FROM information_schema.columns WHERE table_name = 'customer' AND ordinal_position < 3",
        "id|integer|∅|NO|YES;name|character varying|40|NO|NO",
    );
    check(
        "ana",
        "SELECT table_name FROM information_schema.tables
         WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'halcyon') ORDER BY 1",
        "customer;rich",
    );
}

#[test]
fn statements_without_system_catalogs_are_left_alone() {
    let context = shop::context("halcyon");
    for text in [
        "SELECT a, (SELECT b FROM u WHERE u.id = t.id) FROM t WHERE x = ANY (ARRAY[1, 2])",
        "SELECT 'x'::text, a COLLATE \"C\" FROM t",
        "INSERT INTO t VALUES (1)",
    ] {
        let statement = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap().remove(0);
        assert_eq!(rewrite(statement.clone(), &context), statement);
    }
}

/// The guide's sections on the views of schema `halcyon`, made from their declarations.
fn sections() -> String {
    let type_name = |kind: table::CatalogType| match kind {
        table::CatalogType::Bool => "BOOLEAN",
        table::CatalogType::Int4 => "INTEGER",
        table::CatalogType::Int8 => "BIGINT",
        table::CatalogType::Float8 => "DOUBLE PRECISION",
        table::CatalogType::Text => "TEXT",
        table::CatalogType::Name => "NAME",
        table::CatalogType::Time => "TIMESTAMPTZ",
        other => panic!("no view of schema halcyon has a column of type {other:?}"),
    };
    let section = |view: &view::View| {
        let head = format!("## halcyon.{}\n{}\n\n", view.def.name, view.about.trim());
        let columns = view.def.columns.iter().zip(view.meanings);
        let rows = columns.map(|((name, kind), meaning)| {
            format!("| `{name}` | {} | {} |\n", type_name(*kind), meaning.trim())
        });
        format!("{head}| column | type | meaning |\n|---|---|---|\n{}\n", rows.collect::<String>())
    };
    let views = halcyon_views::VIEWS.iter().chain(progress::VIEWS);
    let views = views.chain(workload_views::VIEWS).chain(class_state::VIEWS);
    views.map(section).collect()
}

#[test]
fn the_guide_lists_the_columns_of_schema_halcyon() {
    const BEGIN: &str = "<!-- made from crates/pgcatalog/src/{halcyon_views,progress,workload_views,class_state}.rs; to write it anew: \
                         HALCYON_BLESS=1 cargo test -p halcyon-pgcatalog the_guide_lists -->\n";
    const END: &str = "<!-- end of what is made -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/system-views.md");
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let (before, rest) = guide.split_once(BEGIN).expect("the guide marks what is made");
    let (made, after) = rest.split_once(END).expect("the guide marks its end");
    if std::env::var_os("HALCYON_BLESS").is_some() {
        let page = format!("{before}{BEGIN}{}{END}{after}", sections());
        return std::fs::write(path, page).expect("the guide can be written");
    }
    assert!(made == sections(), "docs/guide/system-views.md is old: its mark says how to write it");
}
