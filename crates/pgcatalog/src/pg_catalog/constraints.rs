//! Indexes and constraints.

use crate::objects::{self, What, each_table};
use crate::view::{Char, Int2Vector, Int2s, Name, Oid, OidArray, Oids, Text, row, system_tables};
use crate::{Context, describe};
use halcyon_catalog::{Deferral, Table};
use halcyon_sql::types::SqlType;

system_tables! {
    pg_index: IndexRow from index {
        indexrelid: Oid,
        indrelid: Oid,
        indnatts: i16,
        indnkeyatts: i16,
        indisunique: bool,
        indnullsnotdistinct: bool,
        indisprimary: bool,
        indisexclusion: bool = false,
        indimmediate: bool,
        indisclustered: bool = false,
        indisvalid: bool = true,
        indcheckxmin: bool = false,
        indisready: bool = true,
        indislive: bool = true,
        indisreplident: bool = false,
        indkey: Int2Vector,
        indcollation: Oids,
        indclass: Oids,
        indoption: Int2Vector,
        indexprs: Option<Text>,
        indpred: Option<Text>,
    }

    pg_constraint: ConstraintRow from constraint {
        oid: Oid,
        conname: Name,
        connamespace: Oid,
        contype: Char,
        condeferrable: bool,
        condeferred: bool,
        convalidated: bool,
        conrelid: Oid,
        contypid: Oid,
        conindid: Oid,
        conparentid: Oid = Oid(0),
        confrelid: Oid,
        confupdtype: Char,
        confdeltype: Char,
        confmatchtype: Char,
        conislocal: bool = true,
        coninhcount: i32 = 0,
        connoinherit: bool,
        conkey: Option<Int2s>,
        confkey: Option<Int2s>,
        conpfeqop: Option<OidArray> = None,
        conppeqop: Option<OidArray> = None,
        conffeqop: Option<OidArray> = None,
        confdelsetcols: Option<Int2s>,
        conexclop: Option<OidArray> = None,
        conbin: Option<Text>,
    }
}

/// Operator class of an index column by type, as `pg_opclass` numbers them.
fn operator_class(ty: SqlType) -> i64 {
    match ty {
        SqlType::Boolean => 10003,
        SqlType::SmallInt => 1979,
        SqlType::Integer => 1978,
        SqlType::Oid => 1981,
        SqlType::BigInt => 3124,
        SqlType::Real => 10012,
        SqlType::Double => 3123,
        SqlType::Decimal { .. } => 3125,
        SqlType::Char(_) => 10004,
        SqlType::Varchar(_) | SqlType::Text | SqlType::Json => 3126,
        SqlType::Bytea => 10006,
        SqlType::Date => 3122,
        SqlType::Time => 10038,
        SqlType::Timestamp => 3128,
        SqlType::TimestampTz => 3127,
        SqlType::Interval => 10022,
        SqlType::Uuid => 10065,
        SqlType::Jsonb => 10088,
        SqlType::Inet => 10025,
        SqlType::Cidr => 10024,
        SqlType::MacAddr => 10032,
        SqlType::Array(_) => 10000,
        SqlType::Enum(_) => 10069,
    }
}

/// Operator class of this name, as `pg_opclass` numbers those that are no type's own.
fn named_class(name: &str) -> Option<i64> {
    Some(match name {
        "varchar_ops" => 10044,
        "text_pattern_ops" => 4217,
        "varchar_pattern_ops" => 4218,
        "bpchar_pattern_ops" => 4219,
        _ => return None,
    })
}

fn index(context: &Context, rows: &mut Vec<IndexRow>) {
    for object in context.objects().relations.values() {
        let What::Index(table, index) = &object.what else { continue };
        let primary = index.constraint == Some(halcyon_catalog::IndexConstraint::PrimaryKey);
        let key = describe::index_keys(table, index);
        let columns = describe::index_columns(table, index);
        let keys: Vec<i64> = columns.iter().map(|key| key.number).collect();
        let collation = |key: &describe::IndexKey<'_>| match key.collation {
            Some(own) => i64::from(context.catalog.collation_oid(own)),
            None if matches!(key.ty.oid(), 25 | 1042 | 1043) => 100,
            None => 0,
        };
        let collations: Vec<i64> = key.iter().map(collation).collect();
        let class = |key: &describe::IndexKey<'_>| {
            key.class.and_then(named_class).unwrap_or_else(|| operator_class(key.ty))
        };
        let classes: Vec<i64> = key.iter().map(class).collect();
        let order = |descending, nulls_first| i64::from(descending) | (i64::from(nulls_first) << 1);
        let options: Vec<i64> =
            key.iter().map(|key| order(key.descending, key.nulls_first)).collect();
        row!(rows; IndexRow {
            indexrelid: object.oid,
            indrelid: table.id.0,
            indnatts: columns.len(),
            indnkeyatts: key.len(),
            indisunique: index.says_unique(),
            indnullsnotdistinct: index.nulls_not_distinct,
            indisprimary: primary,
            indimmediate: index.deferral.is_none() || index.constraint.is_none(),
            indkey: keys,
            indcollation: collations,
            indclass: classes,
            indoption: options,
            indexprs: describe::index_expressions(table, index),
            indpred: describe::index_predicate(index),
        });
    }
}

fn numbers(columns: impl IntoIterator<Item = u16>) -> Vec<i64> {
    columns.into_iter().map(|column| i64::from(column) + 1).collect()
}

fn constraint(context: &Context, rows: &mut Vec<ConstraintRow>) {
    domain_constraints(context, rows);
    for (object, table) in each_table(context) {
        let namespace = objects::namespace(&context.catalog, &object.schema);
        let mut push = |oid: u32, name: &String, kind: &'static str, columns, rest: Reference| {
            row!(rows; ConstraintRow {
                oid: oid,
                conname: name,
                connamespace: namespace,
                contype: kind,
                condeferrable: rest.deferral.is_some(),
                condeferred: rest.deferral == Some(Deferral::Deferred),
                convalidated: !rest.not_valid,
                conrelid: object.oid,
                contypid: 0_u32,
                conindid: rest.index,
                confrelid: rest.table,
                confupdtype: rest.on_update,
                confdeltype: rest.on_delete,
                confmatchtype: rest.matching,
                connoinherit: kind != "c",
                conkey: columns,
                confkey: rest.columns,
                confdelsetcols: rest.set_on_delete,
                conbin: rest.expr,
            });
        };
        for index in &table.indexes {
            let kind = match index.constraint {
                Some(halcyon_catalog::IndexConstraint::PrimaryKey) => "p",
                Some(halcyon_catalog::IndexConstraint::Unique) => "u",
                None => continue,
            };
            let columns = numbers(index.columns.iter().map(|key| key.column));
            let name = &index.name;
            let (index, deferral) = (index.id.0, index.deferral);
            let rest = Reference { index, deferral, ..Reference::none() };
            push(rest.index, name, kind, Some(columns), rest);
        }
        for check in &table.checks {
            let (expr, not_valid) = (Some(check.expr.clone()), check.not_valid);
            let rest = Reference { expr, not_valid, ..Reference::none() };
            let columns = describe::columns_of_check(table, check);
            let columns = (!columns.is_empty()).then(|| numbers(columns));
            push(objects::check_oid(table, check), &check.name, "c", columns, rest);
        }
        for key in &table.foreign_keys {
            let target = context.catalog.tables.get(&key.target);
            let rest = Reference {
                table: key.target.0,
                index: target.and_then(|t| unique_index(t, &key.target_columns)).unwrap_or(0),
                columns: Some(numbers(key.target_columns.iter().copied())),
                set_on_delete: (!key.on_delete_columns.is_empty())
                    .then(|| numbers(key.on_delete_columns.iter().copied())),
                on_update: describe::action_letter(key.on_update),
                on_delete: describe::action_letter(key.on_delete),
                matching: if key.full { "f" } else { "s" },
                expr: None,
                deferral: key.deferral,
                not_valid: key.not_valid,
            };
            let columns = numbers(key.columns.iter().copied());
            push(objects::foreign_key_oid(table, key), &key.name, "f", Some(columns), rest);
        }
    }
}

/// The conditions of domains.
fn domain_constraints(context: &Context, rows: &mut Vec<ConstraintRow>) {
    for own in context.catalog.types.values() {
        let namespace = objects::namespace(&context.catalog, &own.schema);
        for check in own.domain().into_iter().flat_map(|domain| &domain.checks) {
            let none = Reference::none();
            row!(rows; ConstraintRow {
                oid: objects::domain_check_oid(own, check),
                conname: &check.name,
                connamespace: namespace,
                contype: "c",
                condeferrable: false,
                condeferred: false,
                convalidated: !check.not_valid,
                conrelid: 0_u32,
                contypid: own.oid(),
                conindid: none.index,
                confrelid: none.table,
                confupdtype: none.on_update,
                confdeltype: none.on_delete,
                confmatchtype: none.matching,
                connoinherit: false,
                conkey: none.columns.clone(),
                confkey: none.columns,
                confdelsetcols: none.set_on_delete,
                conbin: Some(describe::value_in_capitals(&check.expr)),
            });
        }
    }
}

/// What a constraint refers to.
struct Reference {
    table: u32,
    index: u32,
    columns: Option<Vec<i64>>,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets, if it names them.
    set_on_delete: Option<Vec<i64>>,
    on_update: &'static str,
    on_delete: &'static str,
    matching: &'static str,
    expr: Option<String>,
    deferral: Option<Deferral>,
    not_valid: bool,
}

impl Reference {
    fn none() -> Self {
        let (on_update, on_delete, matching) = (" ", " ", " ");
        Reference {
            table: 0,
            index: 0,
            columns: None,
            set_on_delete: None,
            on_update,
            on_delete,
            matching,
            expr: None,
            deferral: None,
            not_valid: false,
        }
    }
}

/// The unique index over exactly these columns, in any order.
pub(crate) fn unique_index(table: &Table, columns: &[u16]) -> Option<u32> {
    let mut wanted = columns.to_vec();
    wanted.sort_unstable();
    let fits = |index: &&halcyon_catalog::Index| {
        let mut keys: Vec<u16> = index.columns.iter().map(|key| key.column).collect();
        keys.sort_unstable();
        index.unique && keys == wanted
    };
    table.indexes.iter().find(fits).map(|index| index.id.0)
}
