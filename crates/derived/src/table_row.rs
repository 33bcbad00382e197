//! A table's row as expressions see it.

use datafusion::common::{DFSchema, TableReference};

use halcyon_catalog::Table;
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::Result;

/// The schema that expressions over a table's row are bound to.
pub fn row_schema(table: &Table) -> Result<DFSchema> {
    DFSchema::try_from_qualified_schema(TableReference::bare(table.name.as_str()), &table.arrow)
        .map_err(|error| sql_error(error, ""))
}
