//! SET CONSTRAINTS, and the constraints that it names.

use halcyon_base::ids::TableId;
use halcyon_catalog::{Catalog, Deferral, display_name};
use halcyon_sql::error::{Result, SqlError, SqlState};

use crate::block::outside_block;
use crate::session::Session;

impl Session {
    /// SET CONSTRAINTS: `names` of none mean all constraints. What is immediate from now on is judged.
    ///
    /// Errors: 42704, 42809, 3F000; 23503, 23505. Outside blocks it is a warning.
    pub(crate) fn set_constraints(
        &mut self,
        names: Option<&[Vec<String>]>,
        deferral: Deferral,
    ) -> Result<()> {
        let catalog = self.current_catalog();
        let named = match names {
            Some(names) => Some(self.deferrable_named(&catalog, names)?),
            None => None,
        };
        let Some(mut block) = self.block.take() else {
            self.notice(outside_block("SET CONSTRAINTS"));
            return Ok(());
        };
        block.deferrals.set(named, deferral);
        let judged = self.judge_waiting(&mut block, |deferrals, check| {
            deferrals.of(check) == Deferral::Immediate
        });
        self.block = Some(block);
        judged.inspect_err(|_| self.fail_transaction())
    }

    /// The constraints of these names: (table, name). All of a name in the first schema of the search
    /// path that has one. Errors: 42704, 42809, 3F000.
    fn deferrable_named(
        &self,
        catalog: &Catalog,
        names: &[Vec<String>],
    ) -> Result<Vec<(TableId, String)>> {
        let mut found = Vec::new();
        for name in names {
            let constraint = name.last().expect("a name has parts");
            let schemas: Vec<&String> = match name.as_slice() {
                [.., schema, _] => vec![&catalog.schema(schema)?.name],
                _ => self.vars.search_path.iter().collect(),
            };
            let of_name = |schema: &&String| constraints_named(catalog, schema, constraint);
            let all = schemas.iter().map(of_name).find(|all| !all.is_empty());
            let all = all.ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{}\" does not exist", display_name(name)),
                )
            })?;
            for (table, is_deferrable) in all {
                if !is_deferrable {
                    return Err(SqlError::new(
                        SqlState::WRONG_OBJECT_TYPE,
                        format!("constraint \"{constraint}\" is not deferrable"),
                    ));
                }
                found.push((table, constraint.clone()));
            }
        }
        Ok(found)
    }
}

/// Constraints of this name in a schema: the table, and whether it is DEFERRABLE.
fn constraints_named(catalog: &Catalog, schema: &str, name: &str) -> Vec<(TableId, bool)> {
    let mut found = Vec::new();
    for table in catalog.tables.values().filter(|table| table.schema == schema) {
        let keys = table.foreign_keys.iter().map(|key| (&key.name, key.deferral));
        let indexes = table.indexes.iter().filter(|index| index.constraint.is_some());
        let indexes = indexes.map(|index| (&index.name, index.deferral));
        let checks = table.checks.iter().map(|check| (&check.name, None));
        let own = keys.chain(indexes).chain(checks).filter(|(known, _)| *known == name);
        found.extend(own.map(|(_, deferral)| (table.id, deferral.is_some())));
    }
    found
}
