//! Definitions and names of objects, by their ids.

use super::*;
use crate::describe::parse_name;
use crate::objects::{self, Object, What};
use crate::{describe, statics, updatable, user_types};
use halcyon_catalog::{Check, Index, Table};
use halcyon_sql::identifier::quote_ident;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    define("pg_get_indexdef", (1, 3), Gives::Text, BOUND, indexdef),
    define("pg_get_constraintdef", (1, 2), Gives::Text, BOUND, constraintdef),
    define("pg_get_expr", (2, 3), Gives::Text, PURE, |_, args| {
        Ok(text_or_null(args[0].text().map(str::to_owned)))
    }),
    define("pg_index_column_has_property", (3, 3), Gives::Bool, BOUND, index_column_has),
    define("pg_index_has_property", (2, 2), Gives::Bool, BOUND, |c, args| {
        let Some(_) = index_of(c, &args[0]) else { return Ok(ScalarValue::Null) };
        let known = ["clusterable", "index_scan", "bitmap_scan", "backward_scan"];
        let asked = args[1].text().unwrap_or_default().to_lowercase();
        Ok(if known.contains(&asked.as_str()) { truth(true) } else { ScalarValue::Null })
    }),
    define("pg_indexam_has_property", (2, 2), Gives::Bool, PURE, |_, args| {
        let asked = args[1].text().unwrap_or_default().to_lowercase();
        let known = ["can_order", "can_unique", "can_multi_col", "can_exclude", "can_include"];
        let (Some(method), Some(at)) =
            (args[0].oid(), known.iter().position(|known| *known == asked))
        else {
            return Ok(ScalarValue::Null);
        };
        let found = ACCESS_METHODS.iter().find(|(own, _)| *own == method);
        Ok(found.map_or(ScalarValue::Null, |(_, can)| truth(can[at])))
    }),
    define("pg_get_viewdef", (1, 2), Gives::Text, BOUND, viewdef),
    define("pg_get_ruledef", (1, 2), Gives::Text, BOUND, viewdef),
    define("pg_get_userbyid", (1, 1), Gives::Text, BOUND, |c, args| {
        let Some(oid) = args[0].oid() else { return Ok(ScalarValue::Null) };
        Ok(text(role_name(c, oid).unwrap_or_else(|| format!("unknown (OID={oid})"))))
    }),
    define("pg_get_serial_sequence", (2, 2), Gives::Text, BOUND, serial_sequence),
    define("pg_sequence_last_value", (1, 1), Gives::Int8, BOUND, |c, args| {
        let object = args[0].oid().and_then(|oid| c.objects().get(oid));
        Ok(ScalarValue::Int64(object.and_then(|object| match &object.what {
            What::Sequence(sequence) => c.last_value(sequence),
            _ => None,
        })))
    }),
    define("pg_get_partkeydef", (1, 1), Gives::Text, BOUND, none),
    define("pg_get_triggerdef", (1, 2), Gives::Text, BOUND, none),
    define("pg_get_statisticsobjdef_columns", (1, 1), Gives::Text, BOUND, none),
    define("pg_get_function_sqlbody", (1, 1), Gives::Text, BOUND, none),
    define("pg_get_functiondef", (1, 1), Gives::Text, BOUND, none),
    define("pg_get_function_result", (1, 1), Gives::Text, BOUND, |_, args| {
        let function = args[0].oid().and_then(statics::function);
        Ok(text_or_null(function.and_then(|function| {
            let set = if function.returns_set { "SETOF " } else { "" };
            Some(format!("{set}{}", describe::format_type(function.result, None)?))
        })))
    }),
    define("pg_get_function_arguments", (1, 1), Gives::Text, BOUND, arguments),
    define("pg_get_function_identity_arguments", (1, 1), Gives::Text, BOUND, arguments),
    define("pg_table_is_visible", (1, 1), Gives::Bool, BOUND, |c, args| {
        let object = args[0].oid().and_then(|oid| c.objects().get(oid));
        Ok(object.map_or(ScalarValue::Null, |object| truth(c.is_visible(object))))
    }),
    define("pg_type_is_visible", (1, 1), Gives::Bool, BOUND, |c, args| {
        let oid = args[0].oid();
        Ok(oid.map_or(ScalarValue::Null, |oid| truth(user_types::is_visible(c, oid))))
    }),
    define("pg_function_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_operator_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_opclass_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_opfamily_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_collation_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_conversion_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_statistics_obj_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_ts_config_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_ts_dict_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_ts_parser_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_ts_template_is_visible", (1, 1), Gives::Bool, BOUND, visible),
    define("pg_relation_is_updatable", (2, 2), Gives::Int4, BOUND, |c, args| {
        let object = args[0].oid().and_then(|oid| c.objects().get(oid));
        let events = object.map_or(0, |object| updatable::events(&c.catalog, object));
        Ok(ScalarValue::Int32(Some(events)))
    }),
    define("pg_column_is_updatable", (3, 3), Gives::Bool, BOUND, |c, args| {
        let object = args[0].oid().and_then(|oid| c.objects().get(oid));
        let at = args[1].int().and_then(|number| usize::try_from(number - 1).ok());
        Ok(truth(match (object, at) {
            (Some(object), Some(at)) => updatable::column(&c.catalog, object, at),
            _ => false,
        }))
    }),
    define("pg_relation_is_publishable", (1, 1), Gives::Bool, BOUND, |c, args| {
        let object = args[0].oid().and_then(|oid| c.objects().get(oid));
        Ok(object.map_or(ScalarValue::Null, |o| truth(matches!(o.what, What::Table(_)))))
    }),
    define("pg_partition_ancestors", (1, 1), Gives::Oids, BOUND, |_, args| {
        // Partitions are no tables of their own, so a table is its only ancestor.
        let values: Vec<_> = args[0].oid().map(oid).into_iter().collect();
        Ok(ScalarValue::List(ScalarValue::new_list(&values, &DataType::Int32, true)))
    }),
    define("obj_description", (1, 2), Gives::Text, BOUND, |c, args| {
        let Some(oid) = args[0].oid() else { return Ok(ScalarValue::Null) };
        let found = match args.get(1) {
            Some(catalog) => catalog.text().and_then(|catalog| description(c, oid, catalog)),
            None => COMMENTED.iter().find_map(|catalog| description(c, oid, catalog)),
        };
        Ok(text_or_null(found))
    }),
    define("shobj_description", (2, 2), Gives::Text, BOUND, |c, args| {
        let (Some(oid), Some(catalog)) = (args[0].oid(), args[1].text()) else {
            return Ok(ScalarValue::Null);
        };
        let comment = match catalog {
            "pg_database" if oid == objects::DATABASE => c.catalog.comment.clone(),
            "pg_authid" => {
                let mut roles = c.catalog.roles.values();
                roles.find(|role| role.oid == oid).and_then(|role| role.comment.clone())
            }
            _ => None,
        };
        Ok(text_or_null(comment))
    }),
    define("col_description", (2, 2), Gives::Text, BOUND, column_description),
    // NULL where a cast from text would be an error. The rewriter puts casts around calls of these.
    define("to_regclass", (1, 1), Gives::Oid, BOUND, |c, args| found(relation_oid(c, &args[0]))),
    define("to_regtype", (1, 1), Gives::Oid, BOUND, |c, args| found(type_oid(c, &args[0]))),
    define("to_regnamespace", (1, 1), Gives::Oid, BOUND, |c, args| {
        found(namespace_oid(c, &args[0]))
    }),
    define("to_regrole", (1, 1), Gives::Oid, BOUND, |c, args| found(role_oid(c, &args[0]))),
    define("to_regproc", (1, 1), Gives::Oid, BOUND, |_, args| found(function_oid(&args[0]))),
    define("pg_typeof", (1, 1), Gives::Type, BOUND, |c, args| {
        let oid = crate::table::type_of(args[0].field());
        let name = user_types::format_type(c, oid, None);
        Ok(text(name.unwrap_or_else(|| "unknown".to_owned())))
    }),
    define("acldefault", (2, 2), Gives::Texts, BOUND, |c, args| {
        let (Some(kind), Some(owner)) = (args[0].text(), args[1].oid()) else {
            return Ok(ScalarValue::Null);
        };
        let owner = role_name(c, owner).unwrap_or_else(|| owner.to_string());
        let Some(rights) = describe::default_rights(kind, &owner) else {
            let message = format!("unrecognized object type abbreviation: {kind}");
            return Err(error(SqlState::INVALID_PARAMETER_VALUE, message));
        };
        let rights: Vec<ScalarValue> = rights.into_iter().map(text).collect();
        Ok(ScalarValue::List(ScalarValue::new_list(&rights, &DataType::Utf8View, true)))
    }),
    // What the rewritten casts to and from `regclass` and its like call.
    define("pg_regclass_oid", (1, 1), Gives::Oid, BOUND, |c, args| {
        Ok(relation_oid(c, &args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regclass_name", (1, 1), Gives::Text, BOUND, |c, args| {
        let Some(oid) = relation_oid(c, &args[0])? else { return Ok(ScalarValue::Null) };
        Ok(text(match (c.objects().get(oid), oid) {
            (Some(object), _) => relation_name(c, object),
            (None, 0) => "-".to_owned(),
            (None, oid) => oid.to_string(),
        }))
    }),
    define("pg_regtype_oid", (1, 1), Gives::Oid, BOUND, |c, args| {
        Ok(type_oid(c, &args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regtype_name", (1, 1), Gives::Text, BOUND, |c, args| {
        let Some(oid) = type_oid(c, &args[0])? else { return Ok(ScalarValue::Null) };
        let name = user_types::format_type(c, oid, None);
        Ok(text(name.unwrap_or_else(|| oid.to_string())))
    }),
    define("pg_regnamespace_oid", (1, 1), Gives::Oid, BOUND, |c, args| {
        Ok(namespace_oid(c, &args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regnamespace_name", (1, 1), Gives::Text, BOUND, |c, args| {
        let Some(oid) = namespace_oid(c, &args[0])? else { return Ok(ScalarValue::Null) };
        let mut schemas = c.catalog.schemas.values();
        let schema = schemas.find(|schema| objects::schema_oid(schema) == oid);
        Ok(text(schema.map_or_else(|| without_name(oid), |s| quote_ident(&s.name))))
    }),
    define("pg_regrole_oid", (1, 1), Gives::Oid, BOUND, |c, args| {
        Ok(role_oid(c, &args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regrole_name", (1, 1), Gives::Text, BOUND, |c, args| {
        let Some(oid) = role_oid(c, &args[0])? else { return Ok(ScalarValue::Null) };
        Ok(text(role_name(c, oid).map_or_else(|| without_name(oid), |n| quote_ident(&n))))
    }),
    define("pg_regoper_oid", (1, 1), Gives::Oid, PURE, |_, args| {
        Ok(operator_oid(&args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regoper_name", (1, 1), Gives::Text, PURE, |_, args| {
        Ok(operator_oid(&args[0])?.map_or(ScalarValue::Null, |oid| operator_name(oid, false)))
    }),
    define("pg_regoperator_oid", (1, 1), Gives::Oid, PURE, |_, args| {
        Ok(operator_oid(&args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regoperator_name", (1, 1), Gives::Text, PURE, |_, args| {
        Ok(operator_oid(&args[0])?.map_or(ScalarValue::Null, |oid| operator_name(oid, true)))
    }),
    define("pg_regproc_oid", (1, 1), Gives::Oid, BOUND, |_, args| {
        Ok(function_oid(&args[0])?.map_or(ScalarValue::Null, oid))
    }),
    define("pg_regproc_name", (1, 1), Gives::Text, BOUND, |_, args| {
        if let Some(name) = args[0].text().filter(|name| name.parse::<u32>().is_err()) {
            return Ok(text(name.strip_prefix("pg_catalog.").unwrap_or(name)));
        }
        let Some(oid) = args[0].oid() else { return Ok(ScalarValue::Null) };
        let known = statics::function(oid).map(|function| function.name.clone());
        Ok(text(known.unwrap_or_else(|| if oid == 0 { "-".into() } else { oid.to_string() })))
    }),
];

/// How an id of nothing is shown.
fn without_name(oid: u32) -> String {
    if oid == 0 { "-".to_owned() } else { oid.to_string() }
}

/// What a name stands for, or NULL if that does not exist.
fn found(oid: Result<Option<u32>>) -> Outcome {
    Ok(oid.ok().flatten().map_or(ScalarValue::Null, super::oid))
}

fn none(_: &Context, _: &[Arg<'_>]) -> Outcome {
    Ok(ScalarValue::Null)
}

fn visible(_: &Context, args: &[Arg<'_>]) -> Outcome {
    Ok(if args[0].is_null() { ScalarValue::Null } else { truth(true) })
}

fn role_name(context: &Context, oid: u32) -> Option<String> {
    let found = context.catalog.roles.values().find(|role| role.oid == oid);
    let bootstrap = || (oid == objects::BOOTSTRAP_ROLE).then(|| context.bootstrap_name());
    found.map(|role| role.name.clone()).or_else(bootstrap)
}

fn relation_name(context: &Context, object: &Object) -> String {
    if context.is_visible(object) {
        return quote_ident(&object.name);
    }
    let (schema, name) = (&object.schema, &object.name);
    format!("{}.{}", quote_ident(schema), quote_ident(name))
}

/// An id given as such or in digits; else what `resolve` makes of the name, which must exist.
fn reg(
    arg: &Arg<'_>,
    state: SqlState,
    kind: &str,
    resolve: impl FnOnce(&str) -> Option<u32>,
) -> Result<Option<u32>> {
    let Some(name) = arg.text() else { return Ok(arg.oid()) };
    if name == "-" {
        return Ok(Some(0));
    }
    if let Ok(oid) = name.trim().parse() {
        return Ok(Some(oid));
    }
    let missing = || error(state, format!("{kind} \"{name}\" does not exist"));
    resolve(name).map(Some).ok_or_else(missing)
}

/// The id of a relation given by id or by name.
pub(super) fn relation_oid(context: &Context, arg: &Arg<'_>) -> Result<Option<u32>> {
    reg(arg, SqlState::UNDEFINED_TABLE, "relation", |name| {
        Some(context.resolve(&parse_name(name)?)?.oid)
    })
}

/// The id of an operator by its number, by its name with the types of its operands, or by a name that only one has.
fn operator_oid(arg: &Arg<'_>) -> Result<Option<u32>> {
    reg(arg, SqlState::UNDEFINED_FUNCTION, "operator", |name| {
        let name = name.trim();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        let Some((own, operands)) = name.split_once('(') else {
            let mut found = statics::operators().iter().filter(|row| row.name == name);
            return found.next().filter(|_| found.next().is_none()).map(|row| row.oid);
        };
        let in_full = |ty: &str| match statics::type_by_name(ty.trim()) {
            Some(ty) => type_shown(ty.oid),
            None => ty.trim().to_owned(),
        };
        let operands: Vec<String> =
            operands.trim_end_matches(')').split(',').map(in_full).collect();
        let whole = format!("{own}({})", operands.join(","));
        let mut named = statics::operators().iter().filter(|row| row.name == own);
        named.find(|row| with_operands(row) == whole).map(|row| row.oid)
    })
}

/// An operator as `regoper` shows it, or with the types of its operands, as `regoperator` does.
fn operator_name(oid: u32, shows_operands: bool) -> ScalarValue {
    let Some(row) = statics::operators().iter().find(|row| row.oid == oid) else {
        return text(oid.to_string());
    };
    let is_only =
        || statics::operators().iter().filter(|other| other.name == row.name).count() == 1;
    text(match shows_operands {
        true => with_operands(row),
        false if is_only() => row.name.clone(),
        false => format!("pg_catalog.{}", row.name),
    })
}

fn with_operands(row: &statics::OperatorRow) -> String {
    let [left, right] = row.operands.map(|ty| match ty {
        0 => "NONE".to_owned(),
        ty => type_shown(ty),
    });
    format!("{}({left},{right})", row.name)
}

fn type_shown(oid: u32) -> String {
    describe::format_type(oid, None).unwrap_or_else(|| oid.to_string())
}

fn type_oid(context: &Context, arg: &Arg<'_>) -> Result<Option<u32>> {
    reg(arg, SqlState::UNDEFINED_OBJECT, "type", |name| {
        let (name, is_array) = match name.trim().strip_suffix("[]") {
            Some(element) => (element, true),
            None => (name, false),
        };
        let mut parts = parse_name(name)?;
        let last = parts.last_mut()?;
        let short = match last.as_str() {
            "boolean" => "bool",
            "smallint" => "int2",
            "integer" | "int" => "int4",
            "bigint" => "int8",
            "real" => "float4",
            "double precision" => "float8",
            "character varying" => "varchar",
            "character" | "char" => "bpchar",
            "decimal" => "numeric",
            "timestamp without time zone" => "timestamp",
            "timestamp with time zone" => "timestamptz",
            "time without time zone" => "time",
            other => other,
        };
        *last = short.to_owned();
        user_types::oid_of(context, &parts, is_array)
    })
}

fn namespace_oid(context: &Context, arg: &Arg<'_>) -> Result<Option<u32>> {
    reg(arg, SqlState::INVALID_SCHEMA_NAME, "schema", |name| {
        let schema = context.catalog.schemas.get(parse_name(name)?.first()?)?;
        Some(objects::schema_oid(schema))
    })
}

fn role_oid(context: &Context, arg: &Arg<'_>) -> Result<Option<u32>> {
    reg(arg, SqlState::UNDEFINED_OBJECT, "role", |name| {
        Some(context.catalog.roles.get(parse_name(name)?.first()?)?.oid)
    })
}

fn function_oid(arg: &Arg<'_>) -> Result<Option<u32>> {
    reg(arg, SqlState::UNDEFINED_FUNCTION, "function", |name| {
        statics::function_oid(parse_name(name)?.last()?)
    })
}

fn index_of<'a>(context: &'a Context, arg: &Arg<'_>) -> Option<(&'a Table, &'a Index)> {
    match &context.objects().get(arg.oid()?)?.what {
        What::Index(table, index) => Some((table, index)),
        _ => None,
    }
}

fn indexdef(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((table, index)) = index_of(context, &args[0]) else { return Ok(ScalarValue::Null) };
    let number = args.get(1).and_then(Arg::int).unwrap_or(0);
    let short = args.get(2).and_then(Arg::bool).unwrap_or(false);
    if number != 0 {
        let column = usize::try_from(number).ok();
        let column = column.and_then(|n| describe::index_column(table, index, n, false));
        return Ok(text(column.unwrap_or_default()));
    }
    Ok(text(describe::index(&context.session, table, index, short)))
}

/// Of the index methods of `pg_am`: whether each can order, be unique, have several columns, exclude, and
/// include columns.
const ACCESS_METHODS: &[(u32, [bool; 5])] = &[
    (403, [true; 5]),
    (405, [false, false, false, true, false]),
    (783, [false, false, true, true, true]),
    (2742, [false, false, true, false, false]),
    (3580, [false, false, true, false, false]),
    (4000, [false, false, false, true, true]),
];

fn index_column_has(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some((table, index)) = index_of(context, &args[0]) else { return Ok(ScalarValue::Null) };
    let keys = describe::index_keys(table, index);
    let at = args[1].int().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    let Some(at) = at.filter(|at| *at < keys.len() + index.included.len()) else {
        return Ok(ScalarValue::Null);
    };
    let key = keys.get(at);
    Ok(match (args[2].text().unwrap_or_default().to_lowercase().as_str(), key) {
        ("orderable", key) => truth(key.is_some()),
        ("distance_orderable", _) => truth(false),
        ("returnable", _) => truth(true),
        ("asc", Some(key)) => truth(!key.descending),
        ("desc", Some(key)) => truth(key.descending),
        ("nulls_first", Some(key)) => truth(key.nulls_first),
        ("nulls_last", Some(key)) => truth(!key.nulls_first),
        ("search_array" | "search_nulls", Some(_)) => truth(true),
        _ => ScalarValue::Null,
    })
}

fn constraintdef(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some(oid) = args[0].oid() else { return Ok(ScalarValue::Null) };
    let pretty = args.get(1).and_then(Arg::bool).unwrap_or(false);
    if let Some((table, index)) = index_of(context, &args[0]) {
        return Ok(text_or_null(describe::key_constraint(table, index)));
    }
    for own in context.catalog.types.values() {
        let mut checks = own.domain().into_iter().flat_map(|domain| &domain.checks);
        if let Some(check) = checks.find(|check| objects::domain_check_oid(own, check) == oid) {
            let expr = describe::value_in_capitals(&check.expr);
            return Ok(text(describe::check(&Check { expr, ..check.clone() }, pretty)));
        }
    }
    for table in context.catalog.tables.values() {
        if let Some(check) = table.checks.iter().find(|c| objects::check_oid(table, c) == oid) {
            return Ok(text(describe::check(check, pretty)));
        }
        let mut keys = table.foreign_keys.iter();
        if let Some(key) = keys.find(|key| objects::foreign_key_oid(table, key) == oid) {
            let catalog = &context.catalog;
            return Ok(text(describe::foreign_key(&context.session, catalog, table, key)));
        }
    }
    Ok(ScalarValue::Null)
}

fn viewdef(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some(oid) = relation_oid(context, &args[0])? else { return Ok(ScalarValue::Null) };
    Ok(match context.objects().get(oid).map(|object| &object.what) {
        Some(What::View(view)) => text(format!(" {};", describe::view(&context.catalog, view))),
        Some(What::Table(table)) if table.materialized().is_some() => {
            let view = table.materialized().expect("looked for just now");
            text(format!(" {};", view.query))
        }
        Some(_) => text("Not a view"),
        None => ScalarValue::Null,
    })
}

/// The sequence that feeds a column, as `schema.name`.
fn serial_sequence(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some(oid) = relation_oid(context, &args[0])? else { return Ok(ScalarValue::Null) };
    let Some(What::Table(table)) = context.objects().get(oid).map(|object| &object.what) else {
        return Ok(ScalarValue::Null);
    };
    let Some(name) = args[1].text() else { return Ok(ScalarValue::Null) };
    let Some(at) = table.columns.iter().position(|column| column.name == name) else {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
        return Err(error(SqlState::UNDEFINED_COLUMN, message));
    };
    let feeds = |object: &&Object| match &object.what {
        What::Sequence(sequence) => sequence.owned_by == Some((table.id, at as u16)),
        _ => false,
    };
    let sequence = context.objects().relations.values().find(feeds);
    Ok(text_or_null(
        sequence.map(|s| format!("{}.{}", quote_ident(&s.schema), quote_ident(&s.name))),
    ))
}

fn arguments(_: &Context, args: &[Arg<'_>]) -> Outcome {
    let Some(function) = args[0].oid().and_then(statics::function) else {
        return Ok(ScalarValue::Null);
    };
    let types = function.arguments.iter();
    let types: Vec<_> = types.filter_map(|oid| describe::format_type(*oid, None)).collect();
    Ok(text(types.join(", ")))
}

/// Tables of `pg_catalog` whose rows have comments of users, in the order in which they are searched.
const COMMENTED: &[&str] = &["pg_class", "pg_namespace", "pg_type", "pg_constraint", "pg_proc"];

fn description(context: &Context, oid: u32, catalog: &str) -> Option<String> {
    match catalog {
        "pg_class" => context.objects().get(oid)?.comment().map(str::to_owned),
        "pg_namespace" => {
            let mut schemas = context.catalog.schemas.values();
            schemas.find(|schema| objects::schema_oid(schema) == oid)?.comment.clone()
        }
        "pg_constraint" => {
            let comments = objects::constraint_comments(&context.catalog).into_iter();
            let mut found = comments.filter(|(own, _)| *own == oid);
            found.next().map(|(_, comment)| comment.to_owned())
        }
        _ => {
            if catalog == "pg_type"
                && let Some(found) = user_types::by_oid(&context.catalog, oid)
            {
                return found.own.comment.clone().filter(|_| !found.is_array);
            }
            let class = match catalog {
                "pg_proc" => 1255,
                "pg_type" => 1247,
                "pg_operator" => 2617,
                "pg_language" => 2612,
                "pg_am" => 2601,
                "pg_opclass" => 2616,
                "pg_cast" => 2605,
                "pg_collation" => 3456,
                "pg_ts_config" => 3602,
                "pg_ts_dict" => 3600,
                "pg_ts_parser" => 3601,
                "pg_ts_template" => 3764,
                _ => return None,
            };
            let known = statics::descriptions().iter();
            let mut known = known.filter(|(object, of, _)| *object == oid && *of == class);
            known.next().map(|(.., text)| text.clone())
        }
    }
}

fn column_description(context: &Context, args: &[Arg<'_>]) -> Outcome {
    let comment = || {
        let column = usize::try_from(args[1].int()?).ok()?.checked_sub(1)?;
        context.objects().get(args[0].oid()?)?.column_comment(column).map(str::to_owned)
    };
    Ok(text_or_null(comment()))
}
