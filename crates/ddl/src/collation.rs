//! CREATE COLLATION and DROP COLLATION, and which collation a column says it has.

use datafusion::sql::sqlparser::ast::ObjectName;

use super::collation_uses::{columns_of, refuse_used};
use super::{DdlContext, alter, parts, type_uses};
use halcyon_catalog::OwnCollation;
use halcyon_collations::{BUILT_IN_SCHEMA, Collation, Order};
use halcyon_functions::collation::refused;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::CollationStatement;
use halcyon_sql::types::SqlType;

/// Carries a statement out. Errors: those of the statement.
pub(super) fn run(cx: &mut DdlContext<'_>, statement: &CollationStatement) -> Result<()> {
    match statement {
        CollationStatement::Create { if_not_exists, name, from, options } => {
            create(cx, *if_not_exists, name, from.as_ref(), options)
        }
        CollationStatement::Drop { if_exists, names, cascade } => {
            names.iter().try_for_each(|name| drop(cx, *if_exists, name, *cascade))
        }
    }
}

impl DdlContext<'_> {
    /// What COLLATE says of a column of this type; `None` for the default collation.
    ///
    /// Errors: 42704, 42804, 3F000.
    pub(super) fn column_collation(
        &self,
        name: &ObjectName,
        ty: SqlType,
    ) -> Result<Option<Collation>> {
        let found = self.catalog.collation(&parts(name)?, self.search_path())?;
        let is_text = |ty| matches!(ty, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_));
        let takes = match ty {
            SqlType::Array(element) => is_text(element.ty()),
            ty => is_text(ty),
        };
        if !takes {
            let message = format!("collations are not supported by type {ty}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let is_default = found.schema == BUILT_IN_SCHEMA && found.name == "default";
        Ok((!is_default).then(|| (*found).clone()))
    }
}

fn create(
    cx: &mut DdlContext<'_>,
    if_not_exists: bool,
    name: &ObjectName,
    from: Option<&ObjectName>,
    options: &[(String, String)],
) -> Result<()> {
    let (schema, name) = cx.place(&parts(name)?)?;
    let locale = match from {
        Some(from) => {
            let from = cx.catalog.collation(&parts(from)?, cx.search_path())?;
            if from.schema == BUILT_IN_SCHEMA && from.name == "default" {
                let message = "collation \"default\" cannot be copied";
                return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
            }
            from.locale.clone()
        }
        None => locale_of(options)?,
    };
    if cx.catalog.schema(&schema)?.collations.contains_key(&name) {
        let message = format!("collation \"{name}\" already exists");
        if if_not_exists {
            cx.notice(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
            return Ok(());
        }
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
    }
    let collation = Collation { schema: schema.clone(), name: name.clone(), locale };
    let own = OwnCollation { oid: cx.catalog.ids.oid(), collation, owner: cx.user().to_owned() };
    cx.catalog.schema_mut(&schema).collations.insert(name, own.into());
    Ok(())
}

/// The locale that the options of CREATE COLLATION name; `None`: the order of bytes.
///
/// Errors: 42601, 42P17, 22023; 0A000 for orders of the operating system, and for collations that take texts for
/// equal whose bytes are not.
fn locale_of(options: &[(String, String)]) -> Result<Option<String>> {
    let known = ["provider", "locale", "lc_collate", "lc_ctype", "deterministic", "version"];
    for (at, (name, _)) in options.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let message = format!("collation attribute \"{name}\" not recognized");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if options[..at].iter().any(|(other, _)| other == name) {
            let message = "conflicting or redundant options";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    let option =
        |name: &str| options.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let deterministic = option("deterministic").unwrap_or("true").to_ascii_lowercase();
    let missing = |what: &str| {
        let message = format!("parameter \"{what}\" must be specified");
        SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
    };
    if !["true", "on", "yes", "1", "t"].contains(&deterministic.as_str()) {
        return Err(SqlError::unsupported("a nondeterministic collation")
            .detail("Texts are equal if their bytes are; a collation orders them alone.")
            .hint("Compare lower(a), or a column generated from it."));
    }
    match option("provider").unwrap_or("libc").to_ascii_lowercase().as_str() {
        "icu" => {
            let locale = option("locale").ok_or_else(|| missing("locale"))?;
            Order::of(locale).map_err(|problem| refused(locale, &problem))?;
            Ok(Some(locale.to_owned()))
        }
        "libc" => {
            let locale = option("locale");
            let of = |name: &str| option(name).or(locale).ok_or_else(|| missing(name));
            let (collate, ctype) = (of("lc_collate")?, of("lc_ctype")?);
            let by_bytes =
                |name: &str| ["C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic"].contains(&name);
            if by_bytes(collate) && by_bytes(ctype) {
                return Ok(None);
            }
            Err(SqlError::unsupported(format!("locale \"{collate}\" of the operating system"))
                .hint("Write provider = icu, which has the orders of all languages."))
        }
        other => {
            let message = format!("unrecognized collation provider: {other}");
            Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message))
        }
    }
}

fn drop(cx: &mut DdlContext<'_>, if_exists: bool, name: &ObjectName, cascade: bool) -> Result<()> {
    let found = match cx.catalog.collation(&parts(name)?, cx.search_path()) {
        Ok(found) => found,
        Err(missing) if if_exists => {
            let shown = parts(name)?.join(".");
            let message = format!("collation \"{shown}\" does not exist, skipping");
            cx.notice(missing.state(), message);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if found.schema == BUILT_IN_SCHEMA {
        let message = format!(
            "cannot drop collation {} because it is required by the database system",
            found.name
        );
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    let own = cx.catalog.schema(&found.schema)?.collations.get(&found.name).cloned();
    let owner = own.map(|own| own.owner.clone()).unwrap_or_default();
    cx.catalog.require_owner(cx.user(), &owner, "collation", &found.name)?;
    remove(cx, &found, cascade)
}

/// Takes a collation out of the catalog, with the columns that have it if that is wanted.
///
/// Errors: 2BP01 for one that is used.
fn remove(cx: &mut DdlContext<'_>, own: &Collation, cascade: bool) -> Result<()> {
    if cascade {
        // Dropping a column moves those behind it.
        while let Some((id, at)) = columns_of(cx.catalog, own).into_iter().next() {
            let table = cx.catalog.table(id).clone();
            let shown = type_uses::shown_column(&table, at);
            cx.notice(SqlState::SUCCESSFUL_COMPLETION, format!("drop cascades to {shown}"));
            alter::drop_column(cx, &table, &table.columns[usize::from(at)].name, false, true)?;
        }
    }
    refuse_used(cx.catalog, own)?;
    cx.catalog.schema_mut(&own.schema).collations.remove(&own.name);
    Ok(())
}
