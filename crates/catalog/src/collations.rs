//! Collations by name: those that always exist, and those that users have made.

use std::sync::Arc;

use halcyon_collations::{BUILT_IN_SCHEMA, Collation, builtin};
use halcyon_sql::error::{Result, SqlError, SqlState};
use serde::{Deserialize, Serialize};

use crate::{Catalog, Schema, display_name};

/// A collation that a user has made. Columns keep a copy of its name and order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OwnCollation {
    /// Object id.
    pub oid: u32,
    /// Name and order.
    pub collation: Collation,
    /// Role that owns it.
    pub owner: String,
}

impl Catalog {
    /// The collation that a name with or without a schema stands for.
    ///
    /// Errors: 42704, 3F000.
    pub fn collation(&self, name: &[String], search_path: &[String]) -> Result<Arc<Collation>> {
        let found = match name {
            [own] => {
                let builtin = builtin(own).map(|found| found.collation.clone());
                builtin.or_else(|| {
                    let schemas = search_path.iter().filter_map(|schema| self.schemas.get(schema));
                    schemas.into_iter().find_map(|schema| schema.collation(own)).cloned()
                })
            }
            [.., schema, own] if schema == BUILT_IN_SCHEMA => {
                builtin(own).map(|found| found.collation.clone())
            }
            [.., schema, own] => self.schema(schema)?.collation(own).cloned(),
            [] => None,
        };
        found.map(Arc::new).ok_or_else(|| {
            let name = display_name(name);
            let message = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// The object id of a collation; 0 if it is gone.
    pub fn collation_oid(&self, collation: &Collation) -> u32 {
        if collation.schema == BUILT_IN_SCHEMA {
            return builtin(&collation.name).map_or(0, |found| found.oid);
        }
        let schema = self.schemas.get(&collation.schema);
        let own = schema.and_then(|schema| schema.collations.get(&collation.name));
        own.map_or(0, |own| own.oid)
    }
}

impl Schema {
    fn collation(&self, name: &str) -> Option<&Collation> {
        self.collations.get(name).map(|own| &own.collation)
    }
}
