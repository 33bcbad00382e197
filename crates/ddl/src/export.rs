//! The catalog as SQL text: what EXPORT DATABASE writes beside the rows.
//!
//! Four scripts, to be run in this order. `schema.sql` makes schemas, types, sequences, tables with their
//! keys, and views; `load.sql` copies the rows in; `finish.sql` has the statements that are best run over
//! loaded tables, and those that other systems do not know: other indexes, foreign keys with actions, in a circle or to
//! another schema, identities, where sequences stand, comments, streams and materialized views with
//! their assertions and the views over them, workload classes and mappings; `rights.sql` makes roles and gives owners and privileges. The first two
//! keep to syntax that DuckDB takes too, as far as functions allow; only partitioned tables have a
//! clause of Halcyon's own.
//! Every name carries its schema, so the scripts mean the same under any search path.
//! The superuser that every database has is not in `rights.sql`, nor are the objects that this role
//! owns: after an import the importing role owns them. Grantors are not written either: after an
//! import the importing role is the grantor.
//! Invariant, checked by `everything_about_tables_comes_back_and_is_in_force`: importing the
//! scripts into an empty database and exporting that gives the same text.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, VisitMut, VisitorMut,
};
use halcyon_base::ids::TableId;

use crate::workload_export;
use halcyon_catalog::materialized::MaterializedView;
use halcyon_catalog::{
    Action, Catalog, Deferral, DerivedKey, ForeignKey, Grant, Index, IndexColumn, IndexConstraint,
    PUBLIC, Partitioning, Privilege, Relation, Role, SCHEMAS, SUPERUSER, Schema, Sequence,
    SequenceOptions, Table, TableKind, TypeKind, UserType, View,
};
use halcyon_collations::Collation;
use halcyon_plan::stored_names::used_by;
use halcyon_sql::identifier::quote_ident;
use halcyon_sql::parse::parse_expr;
use halcyon_sql::types::SqlType;

/// Name of the script that makes everything.
pub const SCHEMA: &str = "schema.sql";
/// Name of the script that loads the rows.
pub const LOAD: &str = "load.sql";
/// Name of the script that does the rest for tables, views and sequences.
pub const FINISH: &str = "finish.sql";
/// Name of the script that makes roles and gives them what they own and may do.
pub const RIGHTS: &str = "rights.sql";

/// What is to be written.
pub struct Export {
    /// Name and text of each script, in the order in which they are run.
    pub scripts: [(&'static str, String); 4],
    /// The tables, in the order in which they are loaded.
    pub tables: Vec<ExportedTable>,
}

/// A table whose rows are to be written.
pub struct ExportedTable {
    /// Name of the table as SQL.
    pub name: String,
    /// Name of the file for its rows, of letters that every file system takes.
    pub file: String,
}

/// The catalog as scripts. Sequences stand where they do now.
pub fn export(catalog: &Catalog) -> Export {
    let order = LoadOrder::of(catalog);
    let tables = exported_tables(&order.tables);
    let scripts = [
        (SCHEMA, schema_script(catalog, &order)),
        (LOAD, load_script(&tables)),
        (FINISH, finish_script(catalog, &order)),
        (RIGHTS, rights_script(catalog)),
    ];
    Export { scripts, tables }
}

/// Words that DuckDB (1.5) reserves and PostgreSQL does not.
const RESERVED_ELSEWHERE: [&str; 17] = [
    "anti",
    "asof",
    "at",
    "by",
    "describe",
    "glob",
    "lambda",
    "pivot",
    "pivot_longer",
    "pivot_wider",
    "positional",
    "qualify",
    "semi",
    "show",
    "summarize",
    "unpack",
    "unpivot",
];

/// `name` as an identifier, in quotes where PostgreSQL or DuckDB needs them.
fn ident(name: &str) -> String {
    match RESERVED_ELSEWHERE.contains(&name) {
        true => format!("\"{name}\""),
        false => quote_ident(name),
    }
}

fn column_list(table: &Table, columns: &[u16]) -> String {
    let names = columns.iter().map(|column| ident(&table.columns[*column as usize].name));
    names.collect::<Vec<_>>().join(", ")
}

fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", ident(schema), ident(name))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Schemas that users may fill.
fn schemas(catalog: &Catalog) -> impl Iterator<Item = &Arc<Schema>> {
    let of_users = |name: &str| name == SCHEMAS[0] || !SCHEMAS.contains(&name);
    catalog.schemas.values().filter(move |schema| of_users(&schema.name))
}

fn relations(catalog: &Catalog) -> impl Iterator<Item = &Relation> {
    schemas(catalog).flat_map(|schema| schema.relations.values())
}

fn sequences(catalog: &Catalog) -> impl Iterator<Item = &Arc<Sequence>> {
    relations(catalog).filter_map(|relation| match relation {
        Relation::Sequence(sequence) => Some(sequence),
        _ => None,
    })
}

/// Schema and name of the sequences that an identity column makes.
fn identities(catalog: &Catalog) -> BTreeSet<(String, String)> {
    let of_table = |table: &Arc<Table>| {
        let columns = table.columns.iter().filter_map(|column| column.identity.as_ref());
        columns.map(|i| (table.schema.clone(), i.sequence.clone())).collect::<Vec<_>>()
    };
    catalog.tables.values().flat_map(of_table).collect()
}

// ------------------------------------------------------------------------------------ order

/// The tables in an order in which referenced tables come before referring ones, and the foreign keys
/// left to `finish.sql`: those of cycles, and those that other systems do not know.
struct LoadOrder {
    tables: Vec<Arc<Table>>,
    late: HashSet<(TableId, String)>,
}

impl LoadOrder {
    fn of(catalog: &Catalog) -> LoadOrder {
        let mut walk = Walk { catalog, state: BTreeMap::new(), late: HashSet::new(), done: vec![] };
        for relation in relations(catalog) {
            if let Relation::Table(table) = relation
                && matches!(table.kind, TableKind::Ordinary)
            {
                walk.visit(table);
            }
        }
        LoadOrder { tables: walk.done, late: walk.late }
    }

    fn is_late(&self, table: &Table, key: &ForeignKey) -> bool {
        self.late.contains(&(table.id, key.name.clone()))
    }
}

struct Walk<'a> {
    catalog: &'a Catalog,
    /// Whether a table that was met is done, or still waits for those it refers to.
    state: BTreeMap<TableId, bool>,
    late: HashSet<(TableId, String)>,
    done: Vec<Arc<Table>>,
}

impl Walk<'_> {
    /// False if the visit of the table is under way already: the referring table is in a cycle with it.
    fn visit(&mut self, table: &Arc<Table>) -> bool {
        if let Some(done) = self.state.get(&table.id) {
            return *done;
        }
        self.state.insert(table.id, false);
        for key in &table.foreign_keys {
            let known = |action| matches!(action, Action::NoAction | Action::Restrict);
            let target = self.catalog.table(key.target).clone();
            // A table that refers to itself is a cycle, too.
            let early = !key.not_valid
                && known(key.on_delete)
                && known(key.on_update)
                && target.schema == table.schema
                && self.visit(&target);
            if !early {
                self.late.insert((table.id, key.name.clone()));
            }
        }
        self.state.insert(table.id, true);
        self.done.push(table.clone());
        true
    }
}

/// Views, streams and materialized views, each after the relations that it uses; with each, whether it
/// can be created before any stream or materialized view exists.
fn derived(catalog: &Catalog) -> Vec<(Relation, bool)> {
    type Name = (String, String);
    fn visit(
        catalog: &Catalog,
        name: Name,
        seen: &mut BTreeMap<Name, bool>,
        done: &mut Vec<(Relation, bool)>,
    ) -> bool {
        if let Some(early) = seen.get(&name) {
            return *early;
        }
        let Some(relation) = catalog.schemas.get(&name.0).and_then(|s| s.relations.get(&name.1))
        else {
            return true;
        };
        let (used, own) = match relation {
            Relation::View(view) => (used_by(&view.query), true),
            Relation::Table(table) => match &table.kind {
                TableKind::Ordinary => return true,
                TableKind::Stream => (Vec::new(), false),
                TableKind::Materialized(view) => (used_by(&view.query), false),
            },
            _ => return true,
        };
        let mut early = own;
        for used in used {
            early &= visit(catalog, used, seen, done);
        }
        seen.insert(name, early);
        done.push((relation.clone(), early));
        early
    }
    let (mut seen, mut done) = (BTreeMap::new(), Vec::new());
    for schema in schemas(catalog) {
        for name in schema.relations.keys() {
            visit(catalog, (schema.name.clone(), name.clone()), &mut seen, &mut done);
        }
    }
    done
}

fn create_view(view: &View) -> String {
    let columns: Vec<_> = view.columns.iter().map(|(name, _)| ident(name)).collect();
    let name = qualified(&view.schema, &view.name);
    let options: Vec<String> =
        view.options.iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
    let with = match options.is_empty() {
        true => String::new(),
        false => format!(" WITH ({})", options.join(", ")),
    };
    let create = format!("CREATE VIEW {name} ({}){with} AS\n{}", columns.join(", "), view.query);
    let defaults = view.defaults.iter().map(|(column, value)| {
        format!(";\nALTER VIEW {name} ALTER COLUMN {} SET DEFAULT {value}", ident(column))
    });
    std::iter::once(create).chain(defaults).collect()
}

/// Statements for streams, materialized views, their assertions, and the views over them.
fn derive(catalog: &Catalog, order: &LoadOrder, line: &mut impl FnMut(String)) {
    for (relation, early) in derived(catalog) {
        match relation {
            Relation::View(view) if !early => line(create_view(&view)),
            Relation::Table(table) => match &table.kind {
                TableKind::Materialized(view) => create_materialized(&table, view, line),
                _ => line(create_table(catalog, order, &table)),
            },
            _ => {}
        }
    }
}

fn create_materialized(table: &Table, view: &MaterializedView, line: &mut impl FnMut(String)) {
    let columns: Vec<_> = table.columns.iter().map(|column| ident(&column.name)).collect();
    let name = qualified(&table.schema, &table.name);
    let restart = view.empty_on_restart.then(|| "on_restart = 'empty'".to_owned());
    let options: Vec<_> = restart.into_iter().chain(view.cell.options()).collect();
    let with = match options.is_empty() {
        true => String::new(),
        false => format!(" WITH ({})", options.join(", ")),
    };
    let columns = columns.join(", ");
    line(format!("CREATE MATERIALIZED VIEW {name} ({columns}){with} AS\n{}", view.query));
    table.indexes.iter().for_each(|index| line(create_index(table, index)));
    for guard in &view.guards {
        line(format!(
            "CREATE ASSERTION {} CHECK (NOT EXISTS (SELECT 1 FROM {name} WHERE {}))",
            qualified(&guard.schema, &guard.name),
            guard.condition
        ));
    }
}

// ----------------------------------------------------------------------------------- schema

fn schema_script(catalog: &Catalog, order: &LoadOrder) -> String {
    let mut text = "-- What EXPORT DATABASE found: schemas, types, sequences, tables, views.\n\
                    -- Run schema.sql, load.sql, finish.sql and rights.sql in this order, within \
                    this folder; IMPORT DATABASE does.\n\
                    -- DuckDB takes the first two.\n\n"
        .to_owned();
    let mut line = |statement: String| {
        text.push_str(&statement);
        text.push_str(";\n");
    };
    for schema in schemas(catalog) {
        let there = if schema.name == SCHEMAS[0] { "IF NOT EXISTS " } else { "" };
        line(format!("CREATE SCHEMA {there}{}", ident(&schema.name)));
    }
    create_collations(catalog).for_each(&mut line);
    types(catalog).filter_map(create_enum).for_each(&mut line);
    let identities = identities(catalog);
    for sequence in sequences(catalog) {
        if !identities.contains(&(sequence.schema.clone(), sequence.name.clone())) {
            let name = qualified(&sequence.schema, &sequence.name);
            line(format!("CREATE SEQUENCE {name} {}", sequence_options(&sequence.options)));
        }
    }
    types(catalog).filter_map(|own| create_domain(catalog, own)).for_each(&mut line);
    for table in &order.tables {
        line(create_table(catalog, order, table));
    }
    for (relation, early) in derived(catalog) {
        if let (Relation::View(view), true) = (relation, early) {
            line(create_view(&view));
        }
    }
    text
}

/// Types of users in the order of their schemas and names.
fn types(catalog: &Catalog) -> impl Iterator<Item = &UserType> {
    relations(catalog).filter_map(|relation| match relation {
        Relation::Type(own) => Some(own.as_ref()),
        _ => None,
    })
}

/// COLLATE of a column or a domain, with a blank before it; nothing for the default collation.
fn collate(collation: Option<&Collation>) -> String {
    let named = collation.map(|own| format!(" COLLATE {}", qualified(&own.schema, &own.name)));
    named.unwrap_or_default()
}

/// CREATE COLLATION of all that users have made.
fn create_collations(catalog: &Catalog) -> impl Iterator<Item = String> {
    let own = catalog.schemas.values().flat_map(|schema| schema.collations.values());
    own.map(|own| {
        let name = qualified(&own.collation.schema, &own.collation.name);
        match &own.collation.locale {
            Some(locale) => {
                format!("CREATE COLLATION {name} (provider = icu, locale = {})", quoted(locale))
            }
            None => format!("CREATE COLLATION {name} FROM \"C\""),
        }
    })
}

/// CREATE TYPE; `None` for a domain.
fn create_enum(own: &UserType) -> Option<String> {
    let TypeKind::Enum { labels, .. } = &own.kind else { return None };
    let labels: Vec<String> = labels.iter().map(|label| quoted(&label.text)).collect();
    let name = qualified(&own.schema, &own.name);
    Some(format!("CREATE TYPE {name} AS ENUM ({})", labels.join(", ")))
}

/// CREATE DOMAIN; `None` for an enumeration.
fn create_domain(catalog: &Catalog, own: &UserType) -> Option<String> {
    let domain = own.domain()?;
    let base = type_name(catalog, domain.base, None);
    let mut text = format!("CREATE DOMAIN {} AS {base}", qualified(&own.schema, &own.name));
    text.push_str(&collate(domain.collation.as_ref()));
    if let Some(default) = &domain.default {
        let _ = write!(text, " DEFAULT {default}");
    }
    if domain.not_null {
        text.push_str(" NOT NULL");
    }
    for check in &domain.checks {
        let _ = write!(text, " CONSTRAINT {} CHECK ({})", ident(&check.name), check.expr);
    }
    Some(text)
}

/// The type of a column, under any search path. `domain`: the number of the domain that the column is of.
fn type_name(catalog: &Catalog, ty: SqlType, domain: Option<u32>) -> String {
    let domain = domain.and_then(|domain| catalog.type_numbered(domain));
    if let Some(domain) = domain {
        return qualified(&domain.schema, &domain.name);
    }
    let Some(enumeration) = ty.enumeration() else { return ty.name_with_digits() };
    let definition = enumeration.definition();
    let brackets = if matches!(ty, SqlType::Array(_)) { "[]" } else { "" };
    format!("{}{brackets}", qualified(&definition.schema, &definition.name))
}

/// Options in the order that the SQL parser wants them in.
fn sequence_options(options: &SequenceOptions) -> String {
    let SequenceOptions { start, increment, min, max, cycle } = options;
    let cycle = if *cycle { "CYCLE" } else { "NO CYCLE" };
    format!("INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start} {cycle}")
}

fn create_table(catalog: &Catalog, order: &LoadOrder, table: &Table) -> String {
    let mut parts = Vec::new();
    for column in &table.columns {
        let ty = type_name(catalog, column.ty, column.domain);
        let mut part = format!("{} {ty}", ident(&column.name));
        part.push_str(&collate(column.collation.as_ref()));
        if let Some(default) = &column.default {
            let _ = write!(part, " DEFAULT {}", with_schemas(catalog, table, default));
        }
        if let Some(expr) = &column.generated {
            let _ = write!(part, " GENERATED ALWAYS AS ({expr}) STORED");
        }
        if column.not_null {
            part.push_str(" NOT NULL");
        }
        parts.push(part);
    }
    for index in &table.indexes {
        if let Some(key) = key_constraint(table, index) {
            parts.push(format!("CONSTRAINT {} {key}", ident(&index.name)));
        }
    }
    for check in table.checks.iter().filter(|check| !check.not_valid) {
        parts.push(format!("CONSTRAINT {} CHECK ({})", ident(&check.name), check.expr));
    }
    for key in table.foreign_keys.iter().filter(|key| !order.is_late(table, key)) {
        parts.push(foreign_key(catalog, table, key));
    }
    let name = qualified(&table.schema, &table.name);
    let word = if table.is_stream() { "STREAM" } else { "TABLE" };
    let mut text = format!("CREATE {word} {name} (\n    {}\n)", parts.join(",\n    "));
    if let Partitioning::Column { column } = table.partitioning {
        let by = quoted(&table.columns[column as usize].name);
        let count = table.cells.len();
        let _ = write!(text, " WITH (partition_by = {by}, partitions = {count})");
    }
    text
}

fn key_constraint(table: &Table, index: &Index) -> Option<String> {
    let word = match index.constraint? {
        IndexConstraint::PrimaryKey => "PRIMARY KEY",
        IndexConstraint::Unique => "UNIQUE",
    };
    let columns: Vec<_> = index.columns.iter().map(|key| key.column).collect();
    let deferral = Deferral::words(index.deferral);
    let nulls = index.nulls_words();
    Some(format!("{word}{nulls} ({}){deferral}", column_list(table, &columns)))
}

fn foreign_key(catalog: &Catalog, table: &Table, key: &ForeignKey) -> String {
    let target = catalog.table(key.target);
    let mut text = format!(
        "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({})",
        ident(&key.name),
        column_list(table, &key.columns),
        qualified(&target.schema, &target.name),
        column_list(target, &key.target_columns),
    );
    text.push_str(if key.full { " MATCH FULL" } else { "" });
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != Action::NoAction {
            let _ = write!(text, " ON {event} {}", action.name());
        }
        if event == "DELETE" && !key.on_delete_columns.is_empty() {
            let _ = write!(text, " ({})", column_list(table, &key.on_delete_columns));
        }
    }
    text.push_str(Deferral::words(key.deferral));
    text
}

/// A default whose sequences are named with their schemas: an unqualified name is resolved by the
/// search path of the session that inserts, and the importing session has another one.
fn with_schemas(catalog: &Catalog, table: &Table, default: &str) -> String {
    struct Qualify<'a>(&'a Catalog, &'a Table);
    impl VisitorMut for Qualify<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && function.name.to_string().eq_ignore_ascii_case("nextval")
                && let FunctionArguments::List(list) = &mut function.args
                && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(argument)))] =
                    list.args.as_mut_slice()
                && let ast::Value::SingleQuotedString(name) = &mut argument.value
                && let Some(found) = self.find(name)
            {
                *name = found;
            }
            ControlFlow::Continue(())
        }
    }
    impl Qualify<'_> {
        fn find(&self, name: &str) -> Option<String> {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.chars().all(plain) {
                return None;
            }
            let name = name.to_lowercase();
            let own = [SCHEMAS[0], self.1.schema.as_str()].into_iter();
            let mut places = own.chain(self.0.schemas.keys().map(String::as_str));
            places
                .find(|schema| self.0.sequence(schema, &name).is_some())
                .map(|schema| qualified(schema, &name))
        }
    }
    match parse_expr(default) {
        Ok(mut expr) => {
            let _ = VisitMut::visit(&mut expr, &mut Qualify(catalog, table));
            expr.to_string()
        }
        Err(_) => default.to_owned(),
    }
}

// ------------------------------------------------------------------------------------- load

fn exported_tables(tables: &[Arc<Table>]) -> Vec<ExportedTable> {
    let mut taken = HashSet::new();
    let mut exported = Vec::new();
    for table in tables {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
        let part = |name: &str| -> String { name.chars().map(plain).take(80).collect() };
        let stem = format!("{}.{}", part(&table.schema), part(&table.name));
        let numbered = (1..).map(|number| match number {
            1 => format!("{stem}.parquet"),
            number => format!("{stem}.{number}.parquet"),
        });
        // Some file systems do not tell `A` from `a`.
        let mut free = numbered.filter(|file| taken.insert(file.to_lowercase()));
        let file = free.next().expect("numbers do not end");
        exported.push(ExportedTable { name: qualified(&table.schema, &table.name), file });
    }
    exported
}

/// Nothing but COPY: DuckDB's import takes no other statement here.
fn load_script(exported: &[ExportedTable]) -> String {
    let copy = |ExportedTable { name, file }: &ExportedTable| {
        format!("COPY {name} FROM '{file}' (FORMAT parquet);\n")
    };
    exported.iter().map(copy).collect()
}

fn create_index(table: &Table, index: &Index) -> String {
    let unique = if index.says_unique() { "UNIQUE " } else { "" };
    let class = |at: usize| {
        let at = u16::try_from(at).ok();
        let class = at.and_then(|at| index.operator_classes.get(&at));
        let class = class.map(|class| format!(" {class}")).unwrap_or_default();
        format!("{}{class}", collate(at.and_then(|at| index.collations.get(&at))))
    };
    let columns = index.columns.iter().enumerate();
    let mut keys: Vec<String> =
        columns.map(|(at, key)| index_key(table, key, &class(at))).collect();
    let mut condition = String::new();
    if let Some(derived) = &index.derived {
        let key = |(at, key): (usize, &DerivedKey)| {
            let order = key_order(key.descending, key.nulls_first);
            format!("{}{}{order}", key.shown(), class(at))
        };
        keys.extend(derived.keys.iter().enumerate().map(key));
        condition = derived.predicate.iter().map(|text| format!(" WHERE {text}")).collect();
    }
    let mut rest = match index.included.as_slice() {
        [] => String::new(),
        included => format!(" INCLUDE ({})", column_list(table, included)),
    };
    rest.push_str(index.nulls_words());
    format!(
        "CREATE {unique}INDEX {} ON {} ({}){rest}{condition}",
        ident(&index.name),
        qualified(&table.schema, &table.name),
        keys.join(", ")
    )
}

fn index_key(table: &Table, key: &IndexColumn, class: &str) -> String {
    let order = key_order(key.descending, key.nulls_first);
    format!("{}{class}{order}", ident(&table.columns[key.column as usize].name))
}

fn key_order(descending: bool, nulls_first: bool) -> &'static str {
    match (descending, nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

// ----------------------------------------------------------------------------------- finish

fn finish_script(catalog: &Catalog, order: &LoadOrder) -> String {
    let mut text = String::new();
    let mut line = |statement: String| {
        text.push_str(&statement);
        text.push_str(";\n");
    };
    for table in &order.tables {
        for index in table.indexes.iter().filter(|index| index.constraint.is_none()) {
            line(create_index(table, index));
        }
    }
    for table in &order.tables {
        let name = qualified(&table.schema, &table.name);
        for key in table.foreign_keys.iter().filter(|key| order.is_late(table, key)) {
            let not_valid = if key.not_valid { " NOT VALID" } else { "" };
            line(format!("ALTER TABLE {name} ADD {}{not_valid}", foreign_key(catalog, table, key)));
        }
        for check in table.checks.iter().filter(|check| check.not_valid) {
            let (constraint, expr) = (ident(&check.name), &check.expr);
            line(format!(
                "ALTER TABLE {name} ADD CONSTRAINT {constraint} CHECK ({expr}) NOT VALID"
            ));
        }
    }
    add_identities(catalog, order, &mut line);
    for sequence in sequences(catalog) {
        finish_sequence(catalog, sequence, &mut line);
    }
    derive(catalog, order, &mut line);
    workload_export::define(catalog, &mut line);
    comments(catalog, &mut line);
    text
}

/// Gives columns their identities. The name of such a sequence cannot be chosen, so it is renamed if
/// it is not the one that ALTER TABLE will choose.
fn add_identities(catalog: &Catalog, order: &LoadOrder, line: &mut impl FnMut(String)) {
    let made_later = identities(catalog);
    let mut taken: HashSet<(String, String)> = HashSet::new();
    for schema in schemas(catalog) {
        taken.extend(schema.relations.keys().map(|name| (schema.name.clone(), name.clone())));
    }
    taken.retain(|name| !made_later.contains(name));
    for table in &order.tables {
        for column in &table.columns {
            let Some(identity) = &column.identity else { continue };
            let Some(sequence) = catalog.sequence(&table.schema, &identity.sequence) else {
                continue;
            };
            let kind = if identity.always { "ALWAYS" } else { "BY DEFAULT" };
            line(format!(
                "ALTER TABLE {} ALTER COLUMN {} ADD GENERATED {kind} AS IDENTITY ({})",
                qualified(&table.schema, &table.name),
                ident(&column.name),
                sequence_options(&sequence.options)
            ));
            let is_taken = |name: &String| taken.contains(&(table.schema.clone(), name.clone()));
            let stem = format!("{}_{}_seq", table.name, column.name);
            let chosen = match is_taken(&stem) {
                false => stem,
                true => (1..)
                    .map(|number| format!("{stem}{number}"))
                    .find(|name| !is_taken(name))
                    .expect("numbers do not end"),
            };
            if chosen != identity.sequence {
                line(format!(
                    "ALTER SEQUENCE {} RENAME TO {}",
                    qualified(&table.schema, &chosen),
                    ident(&identity.sequence)
                ));
            }
            taken.insert((table.schema.clone(), identity.sequence.clone()));
        }
    }
}

/// Statements for the owner column and the present value of a sequence.
fn finish_sequence(catalog: &Catalog, sequence: &Sequence, line: &mut impl FnMut(String)) {
    let name = qualified(&sequence.schema, &sequence.name);
    let identity = (sequence.schema.clone(), sequence.name.clone());
    if let Some((table, column)) = sequence.owned_by
        && let Some(table) = catalog.tables.get(&table)
        && !identities(catalog).contains(&identity)
    {
        let owner = qualified(&table.schema, &table.name);
        let column = ident(&table.columns[column as usize].name);
        line(format!("ALTER SEQUENCE {name} OWNED BY {owner}.{column}"));
    }
    let SequenceOptions { min, max, increment, .. } = sequence.options;
    let last = sequence.position.last();
    if sequence.is_called() {
        // What setval(…, false) left may stand one step before the bounds.
        let (value, called) = match (min..=max).contains(&last) {
            true => (last, true),
            false => (last.wrapping_add(increment), false),
        };
        line(format!("SELECT setval({}, {value}, {called})", quoted(&name)));
    }
}

fn comments(catalog: &Catalog, line: &mut impl FnMut(String)) {
    let mut note = |kind: &str, name: String, comment: &Option<String>| {
        if let Some(comment) = comment {
            line(format!("COMMENT ON {kind} {name} IS {}", quoted(comment)));
        }
    };
    for schema in schemas(catalog) {
        note("SCHEMA", ident(&schema.name), &schema.comment);
    }
    for relation in relations(catalog) {
        match relation {
            Relation::Table(table) => {
                let name = qualified(&table.schema, &table.name);
                note(&table.kind.name().to_uppercase(), name.clone(), &table.comment);
                for column in &table.columns {
                    let column_name = format!("{name}.{}", ident(&column.name));
                    note("COLUMN", column_name, &column.comment);
                }
                for index in &table.indexes {
                    note("INDEX", qualified(&table.schema, &index.name), &index.comment);
                }
                for (constraint, comment) in table.constraint_comments() {
                    let constraint = format!("{} ON {name}", ident(constraint));
                    note("CONSTRAINT", constraint, &Some(comment.clone()));
                }
            }
            Relation::View(view) => {
                note("VIEW", qualified(&view.schema, &view.name), &view.comment)
            }
            Relation::Sequence(sequence) => {
                let name = qualified(&sequence.schema, &sequence.name);
                note("SEQUENCE", name, &sequence.comment);
            }
            Relation::Type(own) => {
                let kind = own.kind_name().to_uppercase();
                let name = qualified(&own.schema, &own.name);
                note(&kind, name.clone(), &own.comment);
                for check in own.domain().into_iter().flat_map(|domain| &domain.checks) {
                    let constraint = format!("{} ON DOMAIN {name}", ident(&check.name));
                    note("CONSTRAINT", constraint, &check.comment);
                }
            }
            Relation::Index { .. } => {}
        }
    }
}

// ----------------------------------------------------------------------------------- rights

/// Roles, memberships, owners and grants. A role that is there already stays as it is, its password
/// too; it gets the memberships, objects and privileges of its namesake here.
fn rights_script(catalog: &Catalog) -> String {
    let mut text = String::new();
    let mut line = |statement: String| {
        text.push_str(&statement);
        text.push_str(";\n");
    };
    let roles = || catalog.roles.values().filter(|role| role.name != SUPERUSER);
    roles().for_each(|role| line(create_role(role)));
    for role in roles() {
        if let Some(comment) = &role.comment {
            line(format!("COMMENT ON ROLE {} IS {}", ident(&role.name), quoted(comment)));
        }
    }
    for role in roles() {
        let groups: BTreeSet<&String> = role.member_of.iter().collect();
        for group in groups {
            line(format!("GRANT {} TO {}", ident(group), ident(&role.name)));
        }
    }
    for schema in schemas(catalog) {
        let name = ident(&schema.name);
        if schema.owner != SUPERUSER {
            line(format!("ALTER SCHEMA {name} OWNER TO {}", ident(&schema.owner)));
        }
        let mut granted = schema.grants.clone();
        if schema.name == SCHEMAS[0] {
            // Every database has this one, with a grant of its own.
            let own = |grant: &Grant| {
                grant.grantee == PUBLIC && grant.privilege == Privilege::Usage && !grant.grantable
            };
            match granted.iter().position(own) {
                Some(position) => drop(granted.remove(position)),
                None => line(format!("REVOKE USAGE ON SCHEMA {name} FROM PUBLIC")),
            }
        }
        grant("SCHEMA", &name, &granted, &mut line);
    }
    for relation in relations(catalog) {
        match relation {
            Relation::Table(table) => {
                let name = qualified(&table.schema, &table.name);
                rights("TABLE", &name, (&table.owner, SUPERUSER), &table.grants, &mut line);
            }
            Relation::View(view) => {
                let name = qualified(&view.schema, &view.name);
                rights("TABLE", &name, (&view.owner, SUPERUSER), &view.grants, &mut line);
            }
            Relation::Type(own) if own.owner != SUPERUSER => {
                let (kind, name) =
                    (own.kind_name().to_uppercase(), qualified(&own.schema, &own.name));
                line(format!("ALTER {kind} {name} OWNER TO {}", ident(&own.owner)));
            }
            Relation::Sequence(_) | Relation::Type(_) | Relation::Index { .. } => {}
        }
    }
    // After the tables: a sequence that belongs to one got its owner with it.
    for sequence in sequences(catalog) {
        let name = qualified(&sequence.schema, &sequence.name);
        let table = sequence.owned_by.and_then(|(table, _)| catalog.tables.get(&table));
        let expected = table.map_or(SUPERUSER, |table| &table.owner);
        rights("SEQUENCE", &name, (&sequence.owner, expected), &sequence.grants, &mut line);
    }
    // At the end: what the script makes has the rights that it says.
    for role in catalog.roles.values() {
        for known in &role.defaults {
            let schema = known.schema.as_ref();
            let place = schema.map_or(String::new(), |own| format!(" IN SCHEMA {}", ident(own)));
            let head = format!("ALTER DEFAULT PRIVILEGES FOR ROLE {}{place} ", ident(&role.name));
            grant(known.on.name(), "", &known.grants, &mut |text| line(format!("{head}{text}")));
        }
    }
    for (class, grants) in &catalog.workload_grants {
        grant("WORKLOAD CLASS", &ident(class), grants, &mut line);
    }
    text
}

fn create_role(role: &Role) -> String {
    let mut text = format!("CREATE ROLE IF NOT EXISTS {} WITH", ident(&role.name));
    for (word, set) in [
        ("LOGIN", role.login),
        ("SUPERUSER", role.superuser),
        ("CREATEROLE", role.create_role),
        ("CREATEDB", role.create_db),
    ] {
        let no = if set { "" } else { "NO" };
        let _ = write!(text, " {no}{word}");
    }
    if let Some(verifier) = &role.verifier {
        let _ = write!(text, " PASSWORD {}", quoted(verifier));
    }
    text
}

/// Owner of a relation, if it is not the one that is `expected`, and what was granted on it.
fn rights(
    kind: &str,
    name: &str,
    (owner, expected): (&str, &str),
    grants: &[Grant],
    line: &mut impl FnMut(String),
) {
    if owner != expected {
        line(format!("ALTER {kind} {name} OWNER TO {}", ident(owner)));
    }
    grant(kind, name, grants, line);
}

/// A statement per grantee, those that may be passed on apart.
fn grant(kind: &str, name: &str, grants: &[Grant], line: &mut impl FnMut(String)) {
    let mut by_grantee: BTreeMap<(&str, bool), BTreeSet<Privilege>> = BTreeMap::new();
    for grant in grants {
        let key = (grant.grantee.as_str(), grant.grantable);
        by_grantee.entry(key).or_default().insert(grant.privilege);
    }
    for ((grantee, grantable), privileges) in by_grantee {
        let privileges: Vec<&str> = privileges.into_iter().map(Privilege::name).collect();
        let grantee = if grantee == PUBLIC { "PUBLIC".to_owned() } else { ident(grantee) };
        let option = if grantable { " WITH GRANT OPTION" } else { "" };
        let privileges = privileges.join(", ");
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        line(format!("GRANT {privileges} ON {kind}{name} TO {grantee}{option}"));
    }
}
