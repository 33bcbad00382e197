//! CREATE, ALTER and DROP of enumerations and domains.
//!
//! A label that ALTER TYPE adds is known when the transaction commits, as in PostgreSQL: until then nobody can
//! write it down, so that no row of an undone transaction, or of one beside it, has a label that is gone. A type
//! that the same transaction has made is its own, and takes labels at once.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{
    ColumnOption, ColumnOptionDef, DataType, Expr, Ident, ObjectName,
};

use super::constraint::check_default;
use super::remove::drop_relations;
use super::{DdlContext, alter, labels, parts, type_uses};
use halcyon_catalog::{Check, Domain, Table, TypeKind, UserType};
use halcyon_plan::domains::{self, Condition};
use halcyon_plan::user_types;
use halcyon_sql::enums::{self, Definition, Enumeration, LABEL_BYTES_MAX, Label};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::syntax::{LabelSide, MoveTo, RelationKind, TypeChange, TypeStatement};
use halcyon_sql::type_names::column_type;
use halcyon_sql::types::SqlType;

/// Carries a statement out. Errors: those of the statement.
pub(super) fn run(cx: &mut DdlContext<'_>, statement: &TypeStatement) -> Result<()> {
    match statement {
        TypeStatement::CreateEnum { name, labels } => create_enum(cx, name, labels),
        TypeStatement::CreateDomain { name, data_type, options } => {
            create_domain(cx, name, data_type, options)
        }
        TypeStatement::Alter { domain, name, change } => alter_type(cx, *domain, name, change),
        TypeStatement::Drop { domain, if_exists, names, cascade } => {
            drop_types(cx, *domain, *if_exists, names, *cascade)
        }
    }
}

impl DdlContext<'_> {
    /// The type that a column of this declaration has, and the domain that it is of. Errors: 42704, 0A000,
    /// 22023.
    pub(super) fn column_type(&self, ty: &DataType) -> Result<(SqlType, Option<u32>)> {
        let mut ty = ty.clone();
        let find = |name: &[String]| self.catalog.user_type(name, self.search_path()).cloned();
        let domain = user_types::settle_type(&mut ty, &find)?;
        Ok((column_type(&ty)?, domain.map(|domain| domain.id)))
    }

    /// The type of this name, if its owner is asking. Errors: 42704, 42809, 42501.
    pub(super) fn owned_type(&self, name: &ObjectName, domain: bool) -> Result<UserType> {
        let kind = if domain { "domain" } else { "type" };
        let own = self.catalog.find_type(&parts(name)?, self.search_path(), kind)?;
        self.catalog.require_owner(self.user(), &own.owner, own.kind_name(), &own.name)?;
        Ok((*own).clone())
    }
}

fn duplicate(message: String) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

/// Where a new type goes. Errors: 42710, 42501, 3F000, 0A000 in a temporary schema.
fn place(cx: &DdlContext<'_>, name: &ObjectName) -> Result<(String, String)> {
    let (schema, name) = cx.place(&parts(name)?)?;
    match cx.catalog.schema(&schema)?.relations.contains_key(&name) {
        true => Err(duplicate(format!("type \"{name}\" already exists"))),
        false => Ok((schema, name)),
    }
}

fn put_new(cx: &mut DdlContext<'_>, (schema, name): (String, String), kind: TypeKind) {
    let (id, owner) = (cx.catalog.ids.oid(), cx.user().to_owned());
    cx.catalog.put_type(UserType { id, schema, name, kind, owner, comment: None });
}

// ----------------------------------------------------------------------------- enumerations

fn create_enum(cx: &mut DdlContext<'_>, name: &ObjectName, labels: &[String]) -> Result<()> {
    let place = place(cx, name)?;
    let mut seen = BTreeSet::new();
    for label in labels {
        check_label(label)?;
        if !seen.insert(label) {
            let message = format!("enum label \"{label}\" used more than once");
            return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message));
        }
    }
    let labels = enums::labels(labels.to_vec());
    let registered = Enumeration::new(Definition::new(&place.0, &place.1, &labels))?;
    put_new(cx, place, TypeKind::Enum { labels, registered });
    Ok(())
}

/// Errors: 42602 for a label that is too long.
fn check_label(label: &str) -> Result<()> {
    match label.len() > LABEL_BYTES_MAX {
        true => {
            Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid enum label \"{label}\""))
                .detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less.")))
        }
        false => Ok(()),
    }
}

/// Place of a label. Errors: 22023.
fn place_of(labels: &[Label], wanted: &str) -> Result<usize> {
    labels.iter().position(|label| label.text == wanted).ok_or_else(|| {
        let message = format!("\"{wanted}\" is not an existing enum label");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

fn add_value(
    cx: &mut DdlContext<'_>,
    labels: &mut Vec<Label>,
    (if_not_exists, text): (bool, &str),
    place: Option<&(LabelSide, String)>,
) -> Result<()> {
    check_label(text)?;
    if labels.iter().any(|label| label.text == text) {
        let message = format!("enum label \"{text}\" already exists");
        if !if_not_exists {
            return Err(duplicate(message));
        }
        cx.notice(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
        return Ok(());
    }
    let at = match place {
        None => labels.len(),
        Some((LabelSide::Before, other)) => place_of(labels, other)?,
        Some((LabelSide::After, other)) => place_of(labels, other)? + 1,
    };
    let position = enums::position_before(labels, at).ok_or_else(|| {
        SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("there is no room for \"{text}\" between the labels beside it"),
        )
        .detail(
            "Between two labels that were given together, 32 can be added one before the other.",
        )
        .hint("Create another type, and change the columns' type to it.")
    })?;
    labels.insert(at, Label { text: text.to_owned(), position });
    Ok(())
}

fn rename_value(labels: &mut [Label], from: &str, to: &str) -> Result<()> {
    check_label(to)?;
    let at = place_of(labels, from)?;
    if labels.iter().any(|label| label.text == to) {
        return Err(duplicate(format!("enum label \"{to}\" already exists")));
    }
    labels[at].text = to.to_owned();
    Ok(())
}

// ---------------------------------------------------------------------------------- domains

fn create_domain(
    cx: &mut DdlContext<'_>,
    name: &ObjectName,
    data_type: &DataType,
    options: &[ColumnOptionDef],
) -> Result<()> {
    let (schema, name) = place(cx, name)?;
    let (base, parent) = cx.column_type(data_type)?;
    if parent.is_some() {
        return Err(SqlError::unsupported("a domain over a domain"));
    }
    let mut domain =
        Domain { base, not_null: false, collation: None, default: None, checks: Vec::new() };
    let (mut null, mut has_default) = (None, false);
    for ColumnOptionDef { name: given, option } in options {
        match option {
            ColumnOption::Default(expr) => {
                if std::mem::replace(&mut has_default, true) {
                    let message = "multiple default expressions";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                domain.default = default(cx, expr, &name, base)?;
            }
            ColumnOption::NotNull | ColumnOption::Null => {
                let not_null = matches!(option, ColumnOption::NotNull);
                if null.replace(not_null).is_some_and(|before| before != not_null) {
                    let message = "conflicting NULL/NOT NULL constraints";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                domain.not_null = not_null;
            }
            ColumnOption::Check(check) => {
                let given = check.name.as_ref().or(given.as_ref());
                let check = new_check(cx, &name, &domain, given, &check.expr)?;
                domain.checks.push(check);
            }
            ColumnOption::Collation(name) => domain.collation = cx.column_collation(name, base)?,
            other => return Err(refused_option(other)),
        }
    }
    put_new(cx, (schema, name), TypeKind::Domain(domain));
    Ok(())
}

fn refused_option(option: &ColumnOption) -> SqlError {
    let what = match option {
        ColumnOption::PrimaryKey(_) => "primary key constraints",
        ColumnOption::Unique(_) => "unique constraints",
        ColumnOption::ForeignKey(_) => "foreign key constraints",
        other => return SqlError::unsupported(format!("{other} of a domain")),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} not possible for domains"))
}

/// A DEFAULT as it is stored; DEFAULT NULL is none.
fn default(cx: &DdlContext<'_>, expr: &Expr, name: &str, base: SqlType) -> Result<Option<String>> {
    if expr.to_string().eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    check_default(&cx.binder(), expr, name, base)?;
    Ok(Some(cx.binder().stored_text(expr)))
}

/// A CHECK of a domain. Errors: 42804, 42703, 42710, those of the expression.
fn new_check(
    cx: &DdlContext<'_>,
    name: &str,
    domain: &Domain,
    given: Option<&Ident>,
    condition: &Expr,
) -> Result<Check> {
    use arrow::datatypes::DataType as Arrow;
    let binder = cx.binder();
    let bind = |expr: &Expr, schema: &datafusion::common::DFSchema| binder.expr(expr, schema);
    match domains::bound(&bind, condition, domain.base)? {
        Arrow::Boolean | Arrow::Null => {}
        other => {
            let shown = halcyon_sql::values::shown_type(&other);
            let message = format!("argument of CHECK must be type boolean, not type {shown}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
    }
    let taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
    let chosen = match given {
        Some(given) if taken(&fold(given)) => {
            let given = fold(given);
            let message = format!("constraint \"{given}\" for domain \"{name}\" already exists");
            return Err(duplicate(message));
        }
        Some(given) => fold(given),
        None => {
            let stem = format!("{name}_check");
            let numbered = (1..).map(|number| format!("{stem}{number}"));
            let mut names = std::iter::once(stem.clone()).chain(numbered);
            names.find(|name| !taken(name)).expect("numbers do not end")
        }
    };
    let mut condition = condition;
    while let Expr::Nested(inner) = condition {
        condition = inner;
    }
    Ok(Check::new(chosen, cx.binder().stored_text(condition)))
}

/// Whether all values that are stored satisfy a domain's conditions of these. Errors: 23502, 23514.
fn verify(
    cx: &mut DdlContext<'_>,
    own: &UserType,
    wanted: &dyn Fn(&Condition) -> bool,
) -> Result<()> {
    for (table, at) in type_uses::columns_of(cx.catalog, own) {
        let column = table.columns[at as usize].clone();
        for condition in domains::conditions(own, &column).into_iter().filter(wanted) {
            if type_uses::breaks(cx, &table, &condition)? {
                return Err(broken(&condition, &table, &column.name));
            }
        }
    }
    Ok(())
}

fn broken(condition: &Condition, table: &Table, column: &str) -> SqlError {
    let (state, what) = match condition.check.name.is_empty() {
        true => (SqlState::NOT_NULL_VIOLATION, "contains null values"),
        false => (SqlState::CHECK_VIOLATION, "contains values that violate the new constraint"),
    };
    let message = format!("column \"{column}\" of table \"{}\" {what}", table.name);
    SqlError::new(state, message).table(&table.schema, &table.name).column(column)
}

/// Lets plans that know a domain by what it was be made anew, and nobody write by them: the tables that have
/// columns of the domain are locked.
fn own_columns(cx: &mut DdlContext<'_>, own: &UserType) -> Result<()> {
    for (table, _) in type_uses::columns_of(cx.catalog, own) {
        cx.lock(&table)?;
    }
    Ok(())
}

// --------------------------------------------------------------------------------- changing

fn alter_type(
    cx: &mut DdlContext<'_>,
    is_domain: bool,
    name: &ObjectName,
    change: &TypeChange,
) -> Result<()> {
    let mut own = cx.owned_type(name, is_domain)?;
    if let TypeChange::Move(to) = change {
        return move_type(cx, &own, to);
    }
    match &mut own.kind {
        TypeKind::Enum { labels, registered } => {
            match change {
                TypeChange::AddValue { if_not_exists, label, place } => {
                    add_value(cx, labels, (*if_not_exists, label), place.as_ref())?;
                }
                TypeChange::RenameValue { from, to } => {
                    rename_value(labels, from, to)?;
                    labels::follow(cx, registered.id(), from, to)?;
                }
                _ => return Err(halcyon_catalog::wrong_kind(&own.name, "domain")),
            }
            if !registered.is_published() {
                registered.define(Definition::new(&own.schema, &own.name, labels));
            }
        }
        TypeKind::Domain(_) if !is_domain => {
            let message = format!("{} is not an enum", own.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        TypeKind::Domain(_) => {
            own_columns(cx, &own)?;
            alter_domain(cx, &mut own, change)?;
        }
    }
    cx.catalog.put_type(own);
    Ok(())
}

fn alter_domain(cx: &mut DdlContext<'_>, own: &mut UserType, change: &TypeChange) -> Result<()> {
    let name = own.name.clone();
    let TypeKind::Domain(domain) = &mut own.kind else { return Ok(()) };
    let missing = |wanted: &str| {
        let message = format!("constraint \"{wanted}\" of domain \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    };
    let place =
        |domain: &Domain, wanted: &str| domain.checks.iter().position(|check| check.name == wanted);
    match change {
        TypeChange::Default(None) => domain.default = None,
        TypeChange::Default(Some(expr)) => {
            domain.default = default(cx, expr, &name, domain.base)?;
        }
        TypeChange::NotNull(not_null) => {
            domain.not_null = *not_null;
            if *not_null {
                verify(cx, own, &|condition| condition.check.name.is_empty())?;
            }
        }
        TypeChange::AddConstraint { constraint, not_valid } => {
            let ColumnOptionDef { name: given, option } = constraint.as_ref();
            match option {
                ColumnOption::Check(check) => {
                    let given = check.name.as_ref().or(given.as_ref());
                    let check = new_check(cx, &name, domain, given, &check.expr)?;
                    domain.checks.push(check.clone());
                    if !not_valid {
                        verify(cx, own, &|condition| condition.check.name == check.name)?;
                    }
                }
                ColumnOption::NotNull => {
                    return alter_domain(cx, own, &TypeChange::NotNull(true));
                }
                other => return Err(refused_option(other)),
            }
        }
        TypeChange::DropConstraint { if_exists, name: wanted } => {
            let wanted = fold(wanted);
            match place(domain, &wanted) {
                Some(at) => drop(domain.checks.remove(at)),
                None if *if_exists => {
                    let error = missing(&wanted);
                    cx.notice(error.state(), format!("{}, skipping", error.message()));
                }
                None => return Err(missing(&wanted)),
            }
        }
        TypeChange::ValidateConstraint(wanted) => {
            let wanted = fold(wanted);
            place(domain, &wanted).ok_or_else(|| missing(&wanted))?;
            verify(cx, own, &|condition| condition.check.name == wanted)?;
        }
        TypeChange::RenameConstraint { from, to } => {
            let (from, to) = (fold(from), fold(to));
            let at = place(domain, &from).ok_or_else(|| missing(&from))?;
            if place(domain, &to).is_some() {
                let message = format!("constraint \"{to}\" for domain \"{name}\" already exists");
                return Err(duplicate(message));
            }
            domain.checks[at].name = to;
        }
        TypeChange::AddValue { .. } | TypeChange::RenameValue { .. } | TypeChange::Move(_) => {
            unreachable!("these are of enumerations, or done before")
        }
    }
    Ok(())
}

/// RENAME TO, OWNER TO, SET SCHEMA.
fn move_type(cx: &mut DdlContext<'_>, own: &UserType, to: &MoveTo) -> Result<()> {
    let name = [own.schema.clone(), own.name.clone()];
    if let MoveTo::Name(new) = to
        && cx.catalog.schema(&own.schema)?.relations.contains_key(&fold(new))
    {
        return Err(duplicate(format!("type \"{}\" already exists", fold(new))));
    }
    alter::relocate(cx, RelationKind::Table, &name, to)
}

// --------------------------------------------------------------------------------- dropping

fn drop_types(
    cx: &mut DdlContext<'_>,
    domain: bool,
    if_exists: bool,
    names: &[ObjectName],
    cascade: bool,
) -> Result<()> {
    let kind = if domain { "domain" } else { "type" };
    let mut wanted = Vec::new();
    for name in names {
        let found = cx.catalog.find_type(&parts(name)?, cx.search_path(), kind);
        match found {
            Ok(_) => wanted.push(cx.owned_type(name, domain)?),
            Err(missing) if if_exists && missing.state() == SqlState::UNDEFINED_OBJECT => {
                cx.notice(missing.state(), format!("{}, skipping", missing.message()));
            }
            Err(error) => return Err(error),
        }
    }
    drop_found(cx, wanted, cascade)
}

/// Drops types. Errors: 2BP01.
pub(super) fn drop_found(
    cx: &mut DdlContext<'_>,
    wanted: Vec<UserType>,
    cascade: bool,
) -> Result<()> {
    if cascade {
        wanted.iter().try_for_each(|own| drop_columns(cx, own))?;
    }
    drop_relations(cx, wanted.into_iter().map(|own| (own.schema, own.name)).collect(), cascade)
}

/// Drops the columns of a type that goes with CASCADE.
fn drop_columns(cx: &mut DdlContext<'_>, own: &UserType) -> Result<()> {
    for (table, at) in type_uses::columns_of(cx.catalog, own) {
        let shown = type_uses::shown_column(&table, at);
        cx.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {shown}"));
        // The columns before it have changed the table.
        let name = &table.columns[usize::from(at)].name;
        let table = cx.catalog.table(table.id).clone();
        alter::drop_column(cx, &table, name, false, true)?;
    }
    Ok(())
}
