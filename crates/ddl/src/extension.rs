//! CREATE EXTENSION and DROP EXTENSION: extensions are there from the start, or not at all.

use datafusion::sql::sqlparser::ast::{CreateExtension, DropExtension};
use halcyon_catalog::extensions;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;

use super::DdlContext;

/// CREATE EXTENSION.
///
/// Errors: 0A000 for an extension that Halcyon has not; 22023 for another version; 3F000 for a schema that is not there.
pub(super) fn create(cx: &mut DdlContext<'_>, create: &CreateExtension) -> Result<()> {
    let name = fold(&create.name);
    let Some(extension) = extensions::of_name(&name) else {
        let message = format!("extension \"{name}\" is not available");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .hint("The extensions that are there stand in pg_available_extensions."));
    };
    if let Some(schema) = &create.schema {
        cx.catalog.schema(&fold(schema))?;
    }
    if let Some(version) = create.version.as_ref().filter(|own| own.value != extension.version) {
        let message = format!(
            "extension \"{name}\" has no installation script nor update path for version \"{}\"",
            version.value
        );
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    // A script for a new database of PostgreSQL's creates the extension there, and may go on here.
    cx.notice(SqlState::DUPLICATE_OBJECT, format!("extension \"{name}\" already exists, skipping"));
    Ok(())
}

/// DROP EXTENSION.
///
/// Errors: 2BP01 for an extension that is there; 42704 for others, unless IF EXISTS says that they may be missing.
pub(super) fn drop(cx: &mut DdlContext<'_>, drop: &DropExtension) -> Result<()> {
    for name in &drop.names {
        let name = fold(name);
        if extensions::of_name(&name).is_some() {
            let message = format!(
                "cannot drop extension {name} because it is required by the database system"
            );
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        let missing = format!("extension \"{name}\" does not exist");
        if !drop.if_exists {
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, missing));
        }
        cx.notice(SqlState::UNDEFINED_OBJECT, format!("{missing}, skipping"));
    }
    Ok(())
}
