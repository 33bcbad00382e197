//! `information_schema`: the SQL standard's view of tables, columns, constraints and rights.
//!
//! As in PostgreSQL, relations that the asking role has no right on are left out.

// Lists of columns, several to a line.
#[rustfmt::skip]
mod columns;
#[rustfmt::skip]
mod empty;

use halcyon_catalog::{Column, IndexConstraint, Privilege, Table};
use halcyon_sql::identifier::quote_ident;
use halcyon_sql::types::SqlType;

use super::objects::{Object, What};
use super::pg_catalog::unique_index;
use super::table::{Def, Rows, nothing, row, type_oid};
use super::{Context, describe, statics};

/// The views, by whether they ever have rows.
pub(crate) fn tables() -> [&'static [Def]; 2] {
    [TABLES, empty::TABLES]
}

const TABLES: &[Def] = &[
    Def { name: "tables", columns: columns::TABLE_COLUMNS, fill: table_rows },
    Def { name: "columns", columns: columns::COLUMNS, fill: column_rows },
    Def { name: "schemata", columns: columns::SCHEMATA, fill: schemata },
    Def { name: "views", columns: columns::VIEWS, fill: views },
    Def { name: "sequences", columns: columns::SEQUENCES, fill: sequences },
    Def { name: "table_constraints", columns: columns::TABLE_CONSTRAINTS, fill: table_constraints },
    Def { name: "key_column_usage", columns: columns::KEY_COLUMN_USAGE, fill: key_column_usage },
    Def {
        name: "referential_constraints",
        columns: columns::REFERENTIAL_CONSTRAINTS,
        fill: referential_constraints,
    },
    Def {
        name: "constraint_column_usage",
        columns: columns::CONSTRAINT_COLUMN_USAGE,
        fill: constraint_column_usage,
    },
    Def {
        name: "constraint_table_usage",
        columns: columns::CONSTRAINT_TABLE_USAGE,
        fill: constraint_table_usage,
    },
    Def { name: "check_constraints", columns: columns::CHECK_CONSTRAINTS, fill: check_constraints },
    Def { name: "table_privileges", columns: columns::TABLE_PRIVILEGES, fill: table_privileges },
    Def { name: "role_table_grants", columns: columns::ROLE_TABLE_GRANTS, fill: role_table_grants },
    Def { name: "column_privileges", columns: columns::COLUMN_PRIVILEGES, fill: column_privileges },
    Def { name: "usage_privileges", columns: columns::USAGE_PRIVILEGES, fill: nothing },
    Def { name: "applicable_roles", columns: columns::APPLICABLE_ROLES, fill: applicable_roles },
    Def { name: "enabled_roles", columns: columns::ENABLED_ROLES, fill: enabled_roles },
    Def {
        name: "information_schema_catalog_name",
        columns: columns::INFORMATION_SCHEMA_CATALOG_NAME,
        fill: catalog_name,
    },
    Def { name: "character_sets", columns: columns::CHARACTER_SETS, fill: character_sets },
];

/// Yes or no, in the standard's letters.
fn yes(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

const TABLE_PRIVILEGE_LIST: &[Privilege] = &[
    Privilege::Insert,
    Privilege::Select,
    Privilege::Update,
    Privilege::Delete,
    Privilege::Truncate,
    Privilege::References,
];

/// Whether the asking role may do anything with the relation.
fn is_known(context: &Context, object: &Object) -> bool {
    let may = |privilege: &Privilege| context.may(&context.session.user, object, *privilege, false);
    TABLE_PRIVILEGE_LIST.iter().any(may) || may(&Privilege::Usage)
}

/// Tables and views, system ones included.
fn relations(context: &Context) -> impl Iterator<Item = &Object> {
    let relations = context.objects().relations.values();
    relations.filter(|o| matches!(o.kind(), "r" | "v")).filter(|o| is_known(context, o))
}

/// Tables that SQL made.
fn own_tables(context: &Context) -> impl Iterator<Item = (&Object, &Table)> {
    relations(context).filter_map(|object| match &object.what {
        What::Table(table) => Some((object, table.as_ref())),
        _ => None,
    })
}

fn table_rows(context: &Context, rows: &mut Rows) {
    for object in relations(context) {
        // As PostgreSQL's, which does not tell of materialized views here.
        let kind = match object.kind() {
            "m" => continue,
            "v" => "VIEW",
            "f" => "FOREIGN",
            _ => "BASE TABLE",
        };
        let insertable = yes(matches!(object.what, What::Table(_)));
        row!(rows;
            &context.session.database, &object.schema, &object.name, kind, (), (), (), (), (),
            insertable, "NO", ());
    }
}

/// What `columns` tells of a type: (length, octets, precision, radix, scale, time precision).
struct TypeFacts {
    oid: u32,
    length: Option<i64>,
    precision: Option<(i64, i64, i64)>,
    time: Option<i64>,
}

impl TypeFacts {
    fn of(ty: SqlType) -> Self {
        let length = match ty {
            SqlType::Char(n) | SqlType::Varchar(n) => n.map(i64::from),
            _ => None,
        };
        let precision = match ty {
            SqlType::Decimal { precision, scale } => Some((precision.into(), 10, scale.into())),
            other => binary_precision(other.oid()),
        };
        TypeFacts { oid: ty.oid(), length, precision, time: time_precision(ty.oid()) }
    }

    fn of_system(oid: u32) -> Self {
        let (precision, time) = (binary_precision(oid), time_precision(oid));
        TypeFacts { oid, length: None, precision, time }
    }
}

/// Bits, radix and scale of binary numbers; floating ones have no scale, told as −1 here.
fn binary_precision(oid: u32) -> Option<(i64, i64, i64)> {
    match oid {
        21 => Some((16, 2, 0)),
        23 => Some((32, 2, 0)),
        20 => Some((64, 2, 0)),
        700 => Some((24, 2, -1)),
        701 => Some((53, 2, -1)),
        _ => None,
    }
}

fn time_precision(oid: u32) -> Option<i64> {
    match oid {
        1082 => Some(0),
        1083 | 1114 | 1184 | 1186 => Some(6),
        _ => None,
    }
}

fn column_rows(context: &Context, rows: &mut Rows) {
    for object in relations(context) {
        match &object.what {
            What::Table(table) => {
                for (at, column) in table.columns.iter().enumerate() {
                    let facts = TypeFacts::of(column.ty);
                    column_row(
                        context,
                        object,
                        at,
                        &column.name,
                        facts,
                        Some((table, column)),
                        rows,
                    );
                }
            }
            What::View(view) => {
                for (at, (name, ty)) in view.columns.iter().enumerate() {
                    column_row(context, object, at, name, TypeFacts::of(*ty), None, rows);
                }
            }
            What::System(system) => {
                for (at, field) in system.schema().fields().iter().enumerate() {
                    let facts = TypeFacts::of_system(type_oid(field));
                    column_row(context, object, at, field.name(), facts, None, rows);
                }
            }
            What::Index(..) | What::Sequence(_) => {}
        }
    }
}

fn column_row(
    context: &Context,
    object: &Object,
    at: usize,
    name: &String,
    facts: TypeFacts,
    column: Option<(&Table, &Column)>,
    rows: &mut Rows,
) {
    let database = &context.session.database;
    let identity = column.and_then(|(table, column)| {
        let identity = column.identity.as_ref()?;
        let schema = context.catalog.schemas.get(&table.schema)?;
        let options = match schema.relations.get(&identity.sequence)? {
            halcyon_catalog::Relation::Sequence(sequence) => sequence.options,
            _ => return None,
        };
        Some((identity.always, options))
    });
    let options = identity.map(|(_, options)| options);
    let type_row = statics::type_by_oid(facts.oid);
    let array = type_row.is_some_and(|ty| ty.element.is_some() && ty.name.starts_with('_'));
    let data_type = match array {
        true => "ARRAY".to_owned(),
        false => describe::format_type(facts.oid, None).unwrap_or_default(),
    };
    let octets = match facts.length {
        Some(n) => Some(n.saturating_mul(4)),
        None => matches!(facts.oid, 25 | 1042 | 1043 | 17).then_some(1 << 30),
    };
    let scale = facts.precision.map(|(_, _, scale)| scale).filter(|scale| *scale >= 0);
    let not_null = column.is_some_and(|(_, column)| column.not_null);
    row!(rows;
        database, &object.schema, &object.name, name, at + 1,
        column.and_then(|(_, column)| describe::default(column)), yes(!not_null), data_type,
        facts.length, octets, facts.precision.map(|p| p.0), facts.precision.map(|p| p.1), scale,
        facts.time, (), (), (), (), (), (), (), (), (), (), (), database, "pg_catalog",
        type_row.map(|ty| ty.name.clone()), (), (), (), (), (at + 1).to_string(), "NO",
        yes(identity.is_some()),
        identity.map(|(always, _)| if always { "ALWAYS" } else { "BY DEFAULT" }),
        options.map(|o| o.start.to_string()), options.map(|o| o.increment.to_string()),
        options.map(|o| o.max.to_string()), options.map(|o| o.min.to_string()),
        yes(options.is_some_and(|o| o.cycle)), "NEVER", (), yes(column.is_some()));
}

fn schemata(context: &Context, rows: &mut Rows) {
    for schema in context.catalog.schemas.values() {
        row!(rows; &context.session.database, &schema.name, &schema.owner, (), (), (), ());
    }
}

fn views(context: &Context, rows: &mut Rows) {
    for object in relations(context) {
        let text = match &object.what {
            What::View(view) => Some(format!(" {};", view.query)),
            What::System(_) if object.kind() == "v" => None,
            _ => continue,
        };
        row!(rows;
            &context.session.database, &object.schema, &object.name, text, "NONE", "NO", "NO",
            "NO", "NO", "NO");
    }
}

fn sequences(context: &Context, rows: &mut Rows) {
    for object in context.objects().relations.values().filter(|o| is_known(context, o)) {
        let What::Sequence(sequence) = &object.what else { continue };
        let options = sequence.options;
        let ty = describe::sequence_type(&context.catalog, sequence);
        let bits = binary_precision(ty).map(|p| p.0);
        row!(rows;
            &context.session.database, &object.schema, &object.name,
            describe::format_type(ty, None), bits, 2, 0, options.start.to_string(),
            options.min.to_string(), options.max.to_string(), options.increment.to_string(),
            yes(options.cycle));
    }
}

/// A constraint of a table, by kind.
struct Constraint<'a> {
    name: &'a str,
    kind: &'static str,
    columns: Vec<u16>,
}

/// Keys and checks of a table; NOT NULL is told as a check, as the standard has it.
fn constraints(table: &Table) -> Vec<Constraint<'_>> {
    let mut all = Vec::new();
    for index in &table.indexes {
        let kind = match index.constraint {
            Some(IndexConstraint::PrimaryKey) => "PRIMARY KEY",
            Some(IndexConstraint::Unique) => "UNIQUE",
            None => continue,
        };
        let columns = index.columns.iter().map(|key| key.column).collect();
        all.push(Constraint { name: &index.name, kind, columns });
    }
    for key in &table.foreign_keys {
        let columns = key.columns.clone();
        all.push(Constraint { name: &key.name, kind: "FOREIGN KEY", columns });
    }
    for check in &table.checks {
        all.push(Constraint { name: &check.name, kind: "CHECK", columns: Vec::new() });
    }
    all
}

/// Name of the check that stands for NOT NULL.
fn not_null_name(table: &Table, at: usize) -> String {
    format!("{}_{}_not_null", table.id.0, at + 1)
}

fn table_constraints(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table) {
            let distinct = (constraint.kind == "UNIQUE").then_some("YES");
            row!(rows;
                database, &object.schema, constraint.name.to_owned(), database, &object.schema,
                &object.name, constraint.kind, "NO", "NO", "YES", distinct);
        }
        for (at, _) in table.columns.iter().enumerate().filter(|(_, column)| column.not_null) {
            row!(rows;
                database, &object.schema, not_null_name(table, at), database, &object.schema,
                &object.name, "CHECK", "NO", "NO", "YES", ());
        }
    }
}

fn key_column_usage(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table) {
            let foreign = table.foreign_keys.iter().find(|key| key.name == constraint.name);
            for (at, column) in constraint.columns.iter().enumerate() {
                let position = foreign.and_then(|key| {
                    let target = context.catalog.tables.get(&key.target)?;
                    let index = unique_index(target, &key.target_columns)?;
                    let index = target.indexes.iter().find(|i| i.id.0 == index)?;
                    let wanted = key.target_columns[at];
                    index.columns.iter().position(|k| k.column == wanted).map(|p| p + 1)
                });
                row!(rows;
                    database, &object.schema, constraint.name.to_owned(), database, &object.schema,
                    &object.name, &table.columns[*column as usize].name, at + 1, position);
            }
        }
    }
}

fn referential_constraints(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for key in &table.foreign_keys {
            let Some(target) = context.catalog.tables.get(&key.target) else { continue };
            let index = unique_index(target, &key.target_columns);
            let index = target.indexes.iter().find(|i| Some(i.id.0) == index);
            row!(rows;
                database, &object.schema, &key.name, database, &target.schema,
                index.map(|index| &index.name), "NONE", key.on_update.name(),
                key.on_delete.name());
        }
    }
}

/// Columns that constraints are about: of foreign keys, the columns referred to.
fn constraint_column_usage(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table) {
            let foreign = table.foreign_keys.iter().find(|key| key.name == constraint.name);
            let (about, columns) = match foreign {
                Some(key) => match context.catalog.tables.get(&key.target) {
                    Some(target) => (target.as_ref(), &key.target_columns),
                    None => continue,
                },
                None => (table, &constraint.columns),
            };
            for column in columns {
                row!(rows;
                    database, &about.schema, &about.name, &about.columns[*column as usize].name,
                    database, &object.schema, constraint.name.to_owned());
            }
        }
    }
}

fn constraint_table_usage(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table).iter().filter(|c| c.kind != "CHECK") {
            let foreign = table.foreign_keys.iter().find(|key| key.name == constraint.name);
            let target = foreign.and_then(|key| context.catalog.tables.get(&key.target));
            let about = target.map_or(table, |target| target.as_ref());
            row!(rows;
                database, &about.schema, &about.name, database, &object.schema,
                constraint.name.to_owned());
        }
    }
}

fn check_constraints(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for check in &table.checks {
            row!(rows; database, &object.schema, &check.name, format!("({})", check.expr));
        }
        for (at, column) in table.columns.iter().enumerate().filter(|(_, c)| c.not_null) {
            let clause = format!("{} IS NOT NULL", quote_ident(&column.name));
            row!(rows; database, &object.schema, not_null_name(table, at), clause);
        }
    }
}

/// Calls `each` with (grantor, grantee, relation, privilege, grantable) of what the session's
/// roles may see: what they own, gave or were given, and what everybody may.
fn each_grant(
    context: &Context,
    with_public: bool,
    mut each: impl FnMut(&str, &str, &Object, Privilege, bool),
) {
    let user = &context.session.user;
    let mine = |name: &str| context.catalog.acts_for(user, name);
    for object in context.objects().relations.values() {
        if !matches!(object.what, What::Table(_) | What::View(_)) {
            continue;
        }
        let owner = context.owner_name(object);
        if mine(&owner) {
            for privilege in TABLE_PRIVILEGE_LIST {
                each(&owner, &owner, object, *privilege, true);
            }
        }
        for grant in object.grants().iter().filter(|grant| grant.grantee != owner) {
            let everybody = grant.grantee == "public";
            if (everybody && with_public)
                || (!everybody && (mine(&grant.grantee) || mine(&grant.grantor)))
            {
                let grantee = if everybody { "PUBLIC" } else { &grant.grantee };
                each(&grant.grantor, grantee, object, grant.privilege, grant.grantable);
            }
        }
    }
}

fn privilege_rows(context: &Context, with_public: bool, rows: &mut Rows) {
    let database = &context.session.database;
    each_grant(context, with_public, |grantor, grantee, object, privilege, grantable| {
        row!(rows;
            grantor.to_owned(), grantee.to_owned(), database, &object.schema, &object.name,
            privilege.name(), yes(grantable),
            yes(privilege == Privilege::Select));
    });
}

fn table_privileges(context: &Context, rows: &mut Rows) {
    privilege_rows(context, true, rows);
}

fn role_table_grants(context: &Context, rows: &mut Rows) {
    privilege_rows(context, false, rows);
}

fn column_privileges(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    each_grant(context, true, |grantor, grantee, object, privilege, grantable| {
        if matches!(privilege, Privilege::Delete | Privilege::Truncate) {
            return;
        }
        let names: Vec<&String> = match &object.what {
            What::Table(table) => table.columns.iter().map(|column| &column.name).collect(),
            What::View(view) => view.columns.iter().map(|(name, _)| name).collect(),
            _ => return,
        };
        for name in names {
            row!(rows;
                grantor.to_owned(), grantee.to_owned(), database, &object.schema, &object.name,
                name, privilege.name(), yes(grantable));
        }
    });
}

fn applicable_roles(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values() {
        if context.catalog.acts_for(&context.session.user, &role.name) {
            for group in &role.member_of {
                row!(rows; &role.name, group, "NO");
            }
        }
    }
}

fn enabled_roles(context: &Context, rows: &mut Rows) {
    for role in context.catalog.roles.values() {
        if context.catalog.acts_for(&context.session.user, &role.name) {
            row!(rows; &role.name);
        }
    }
}

fn catalog_name(context: &Context, rows: &mut Rows) {
    row!(rows; &context.session.database);
}

fn character_sets(context: &Context, rows: &mut Rows) {
    let database = &context.session.database;
    row!(rows; (), (), "UTF8", "UCS", "UTF8", database, "pg_catalog", "C");
}
