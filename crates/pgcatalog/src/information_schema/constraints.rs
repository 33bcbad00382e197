//! Constraints of tables; NOT NULL is told as a check, as the standard has it.

use super::visible::{own_tables, yes};
use crate::pg_catalog::unique_index;
use crate::view::{Name, Text, row, system_tables};
use crate::{Context, describe};
use halcyon_catalog::{Deferral, IndexConstraint, Table};
use halcyon_sql::identifier::quote_ident;

system_tables! {
    table_constraints: TableConstraintsRow from table_constraints {
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        constraint_type: Text,
        is_deferrable: Text,
        initially_deferred: Text,
        enforced: Text = Text::from("YES"),
        nulls_distinct: Option<Text>,
    }

    key_column_usage: KeyColumnUsageRow from key_column_usage {
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        column_name: Name,
        ordinal_position: i32,
        position_in_unique_constraint: Option<i32>,
    }

    referential_constraints: ReferentialConstraintsRow from referential_constraints {
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
        unique_constraint_catalog: Name,
        unique_constraint_schema: Name,
        unique_constraint_name: Option<Name>,
        match_option: Text,
        update_rule: Text,
        delete_rule: Text,
    }

    constraint_column_usage: ConstraintColumnUsageRow from constraint_column_usage {
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        column_name: Name,
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
    }

    constraint_table_usage: ConstraintTableUsageRow from constraint_table_usage {
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
    }

    check_constraints: CheckConstraintsRow from check_constraints {
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
        check_clause: Text,
    }
}

/// A constraint of a table, by kind.
struct Constraint<'a> {
    name: &'a str,
    kind: &'static str,
    columns: Vec<u16>,
    deferral: Option<Deferral>,
    nulls_not_distinct: bool,
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
        let (deferral, nulls_not_distinct) = (index.deferral, index.nulls_not_distinct);
        let name = &index.name;
        all.push(Constraint { name, kind, columns, deferral, nulls_not_distinct });
    }
    for key in &table.foreign_keys {
        let (columns, deferral) = (key.columns.clone(), key.deferral);
        let (name, kind) = (&key.name, "FOREIGN KEY");
        all.push(Constraint { name, kind, columns, deferral, nulls_not_distinct: false });
    }
    for check in &table.checks {
        let (columns, deferral) = (describe::columns_of_check(table, check), None);
        let (name, kind) = (&check.name, "CHECK");
        all.push(Constraint { name, kind, columns, deferral, nulls_not_distinct: false });
    }
    all
}

/// Name of the check that stands for NOT NULL.
fn not_null_name(table: &Table, at: usize) -> String {
    format!("{}_{}_not_null", table.id.0, at + 1)
}

fn table_constraints(context: &Context, rows: &mut Vec<TableConstraintsRow>) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table) {
            let distinct =
                (constraint.kind == "UNIQUE").then(|| yes(!constraint.nulls_not_distinct));
            row!(rows; TableConstraintsRow {
                constraint_catalog: database,
                constraint_schema: &object.schema,
                constraint_name: constraint.name.to_owned(),
                table_catalog: database,
                table_schema: &object.schema,
                table_name: &object.name,
                constraint_type: constraint.kind,
                is_deferrable: yes(constraint.deferral.is_some()),
                initially_deferred: yes(constraint.deferral == Some(Deferral::Deferred)),
                nulls_distinct: distinct,
            });
        }
        for (at, _) in table.columns.iter().enumerate().filter(|(_, column)| column.not_null) {
            row!(rows; TableConstraintsRow {
                constraint_catalog: database,
                constraint_schema: &object.schema,
                constraint_name: not_null_name(table, at),
                table_catalog: database,
                table_schema: &object.schema,
                table_name: &object.name,
                constraint_type: "CHECK",
                is_deferrable: yes(false),
                initially_deferred: yes(false),
                nulls_distinct: None::<&str>,
            });
        }
    }
}

fn key_column_usage(context: &Context, rows: &mut Vec<KeyColumnUsageRow>) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table).iter().filter(|c| c.kind != "CHECK") {
            let foreign = table.foreign_keys.iter().find(|key| key.name == constraint.name);
            for (at, column) in constraint.columns.iter().enumerate() {
                let position = foreign.and_then(|key| {
                    let target = context.catalog.tables.get(&key.target)?;
                    let index = unique_index(target, &key.target_columns)?;
                    let index = target.indexes.iter().find(|i| i.id.0 == index)?;
                    let wanted = key.target_columns[at];
                    index.columns.iter().position(|k| k.column == wanted).map(|p| p + 1)
                });
                row!(rows; KeyColumnUsageRow {
                    constraint_catalog: database,
                    constraint_schema: &object.schema,
                    constraint_name: constraint.name.to_owned(),
                    table_catalog: database,
                    table_schema: &object.schema,
                    table_name: &object.name,
                    column_name: &table.columns[*column as usize].name,
                    ordinal_position: at + 1,
                    position_in_unique_constraint: position,
                });
            }
        }
    }
}

fn referential_constraints(context: &Context, rows: &mut Vec<ReferentialConstraintsRow>) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for key in &table.foreign_keys {
            let Some(target) = context.catalog.tables.get(&key.target) else { continue };
            let index = unique_index(target, &key.target_columns);
            let index = target.indexes.iter().find(|i| Some(i.id.0) == index);
            row!(rows; ReferentialConstraintsRow {
                constraint_catalog: database,
                constraint_schema: &object.schema,
                constraint_name: &key.name,
                unique_constraint_catalog: database,
                unique_constraint_schema: &target.schema,
                unique_constraint_name: index.map(|index| &index.name),
                match_option: if key.full { "FULL" } else { "NONE" },
                update_rule: key.on_update.name(),
                delete_rule: key.on_delete.name(),
            });
        }
    }
}

/// Columns that constraints are about: of foreign keys, the columns referred to.
fn constraint_column_usage(context: &Context, rows: &mut Vec<ConstraintColumnUsageRow>) {
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
                row!(rows; ConstraintColumnUsageRow {
                    table_catalog: database,
                    table_schema: &about.schema,
                    table_name: &about.name,
                    column_name: &about.columns[*column as usize].name,
                    constraint_catalog: database,
                    constraint_schema: &object.schema,
                    constraint_name: constraint.name.to_owned(),
                });
            }
        }
    }
}

fn constraint_table_usage(context: &Context, rows: &mut Vec<ConstraintTableUsageRow>) {
    let database = &context.session.database;
    for (object, table) in own_tables(context) {
        for constraint in constraints(table).iter().filter(|c| c.kind != "CHECK") {
            let foreign = table.foreign_keys.iter().find(|key| key.name == constraint.name);
            let target = foreign.and_then(|key| context.catalog.tables.get(&key.target));
            let about = target.map_or(table, |target| target.as_ref());
            row!(rows; ConstraintTableUsageRow {
                table_catalog: database,
                table_schema: &about.schema,
                table_name: &about.name,
                constraint_catalog: database,
                constraint_schema: &object.schema,
                constraint_name: constraint.name.to_owned(),
            });
        }
    }
}

fn check_constraints(context: &Context, rows: &mut Vec<CheckConstraintsRow>) {
    let database = &context.session.database;
    for (schema, name, clause) in super::domains::clauses(context) {
        row!(rows; CheckConstraintsRow {
            constraint_catalog: database,
            constraint_schema: schema,
            constraint_name: name,
            check_clause: clause,
        });
    }
    for (object, table) in own_tables(context) {
        for check in &table.checks {
            row!(rows; CheckConstraintsRow {
                constraint_catalog: database,
                constraint_schema: &object.schema,
                constraint_name: &check.name,
                check_clause: format!("({})", check.expr),
            });
        }
        for (at, column) in table.columns.iter().enumerate().filter(|(_, c)| c.not_null) {
            let clause = format!("{} IS NOT NULL", quote_ident(&column.name));
            row!(rows; CheckConstraintsRow {
                constraint_catalog: database,
                constraint_schema: &object.schema,
                constraint_name: not_null_name(table, at),
                check_clause: clause,
            });
        }
    }
}
