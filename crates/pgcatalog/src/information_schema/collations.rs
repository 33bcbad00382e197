//! `information_schema.collations`, and that all of them are of UTF-8.

use halcyon_collations::{Collation, builtins};

use crate::Context;
use crate::view::{Name, Text, row, system_tables};

system_tables! {
    collations: CollationsRow from collations {
        collation_catalog: Name,
        collation_schema: Name,
        collation_name: Name,
        pad_attribute: Text = Text::from("NO PAD"),
    }

    collation_character_set_applicability: ApplicabilityRow from applicability {
        collation_catalog: Name,
        collation_schema: Name,
        collation_name: Name,
        character_set_catalog: Option<Name> = None,
        character_set_schema: Option<Name> = None,
        character_set_name: Name = Name("UTF8".to_owned()),
    }
}

fn all(context: &Context) -> impl Iterator<Item = &Collation> {
    let own = context.catalog.schemas.values().flat_map(|schema| schema.collations.values());
    builtins().iter().map(|found| &found.collation).chain(own.map(|own| &own.collation))
}

fn collations(context: &Context, rows: &mut Vec<CollationsRow>) {
    for collation in all(context) {
        row!(rows; CollationsRow {
            collation_catalog: &context.session.database,
            collation_schema: &collation.schema,
            collation_name: &collation.name,
        });
    }
}

fn applicability(context: &Context, rows: &mut Vec<ApplicabilityRow>) {
    for collation in all(context) {
        row!(rows; ApplicabilityRow {
            collation_catalog: &context.session.database,
            collation_schema: &collation.schema,
            collation_name: &collation.name,
        });
    }
}
