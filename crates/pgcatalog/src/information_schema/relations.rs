//! Relations, schemas and the database.

use super::columns::binary_precision;
use super::visible::{is_known, relations, yes};
use crate::objects::What;
use crate::view::{Name, Text, row, system_tables};
use crate::{Context, describe, updatable};
use halcyon_catalog::temporary::is_temporary;

system_tables! {
    tables: TablesRow from table_rows {
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        table_type: Text,
        self_referencing_column_name: Option<Name> = None,
        reference_generation: Option<Text> = None,
        user_defined_type_catalog: Option<Name> = None,
        user_defined_type_schema: Option<Name> = None,
        user_defined_type_name: Option<Name> = None,
        is_insertable_into: Text,
        is_typed: Text = Text::from("NO"),
        commit_action: Option<Text> = None,
    }

    schemata: SchemataRow from schemata {
        catalog_name: Name,
        schema_name: Name,
        schema_owner: Name,
        default_character_set_catalog: Option<Name> = None,
        default_character_set_schema: Option<Name> = None,
        default_character_set_name: Option<Name> = None,
        sql_path: Option<Text> = None,
    }

    views: ViewsRow from views {
        table_catalog: Name,
        table_schema: Name,
        table_name: Name,
        view_definition: Option<Text>,
        check_option: Text,
        is_updatable: Text,
        is_insertable_into: Text,
        is_trigger_updatable: Text = Text::from("NO"),
        is_trigger_deletable: Text = Text::from("NO"),
        is_trigger_insertable_into: Text = Text::from("NO"),
    }

    sequences: SequencesRow from sequences {
        sequence_catalog: Name,
        sequence_schema: Name,
        sequence_name: Name,
        data_type: Option<Text>,
        numeric_precision: Option<i32>,
        numeric_precision_radix: i32 = 2,
        numeric_scale: i32 = 0,
        start_value: Text,
        minimum_value: Text,
        maximum_value: Text,
        increment: Text,
        cycle_option: Text,
    }

    information_schema_catalog_name: InformationSchemaCatalogNameRow from catalog_name {
        catalog_name: Name,
    }

    character_sets: CharacterSetsRow from character_sets {
        character_set_catalog: Option<Name> = None,
        character_set_schema: Option<Name> = None,
        character_set_name: Name = Name("UTF8".to_owned()),
        character_repertoire: Name = Name("UCS".to_owned()),
        form_of_use: Name = Name("UTF8".to_owned()),
        default_collate_catalog: Name,
        default_collate_schema: Name = Name("pg_catalog".to_owned()),
        default_collate_name: Name = Name("C".to_owned()),
    }
}

fn table_rows(context: &Context, rows: &mut Vec<TablesRow>) {
    for object in relations(context) {
        // As PostgreSQL's, which does not tell of materialized views here.
        let kind = match object.kind() {
            "m" => continue,
            "v" => "VIEW",
            "f" => "FOREIGN",
            _ if is_temporary(&object.schema) => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        };
        let insertable = yes(updatable::events(&context.catalog, object) & updatable::INSERT != 0);
        row!(rows; TablesRow {
            table_catalog: &context.session.database,
            table_schema: &object.schema,
            table_name: &object.name,
            table_type: kind,
            is_insertable_into: insertable,
        });
    }
}

fn schemata(context: &Context, rows: &mut Vec<SchemataRow>) {
    for schema in context.catalog.schemas.values() {
        row!(rows; SchemataRow {
            catalog_name: &context.session.database,
            schema_name: &schema.name,
            schema_owner: &schema.owner,
        });
    }
}

fn views(context: &Context, rows: &mut Vec<ViewsRow>) {
    for object in relations(context) {
        let text = match &object.what {
            What::View(view) => Some(format!(" {};", view.query)),
            What::System(_) if object.kind() == "v" => None,
            _ => continue,
        };
        let option = match &object.what {
            What::View(view) => view.options.check_option(),
            _ => None,
        };
        let events = updatable::events(&context.catalog, object);
        let changes = updatable::UPDATE | updatable::DELETE;
        row!(rows; ViewsRow {
            table_catalog: &context.session.database,
            table_schema: &object.schema,
            table_name: &object.name,
            view_definition: text,
            check_option: option.map_or("NONE", |option| option.word()),
            is_updatable: yes(events & changes == changes),
            is_insertable_into: yes(events & updatable::INSERT != 0),
        });
    }
}

fn sequences(context: &Context, rows: &mut Vec<SequencesRow>) {
    for object in context.objects().relations.values().filter(|o| is_known(context, o)) {
        let What::Sequence(sequence) = &object.what else { continue };
        let options = sequence.options;
        let ty = describe::sequence_type(&context.catalog, sequence);
        let bits = binary_precision(ty).map(|p| p.0);
        row!(rows; SequencesRow {
            sequence_catalog: &context.session.database,
            sequence_schema: &object.schema,
            sequence_name: &object.name,
            data_type: describe::format_type(ty, None),
            numeric_precision: bits,
            start_value: options.start.to_string(),
            minimum_value: options.min.to_string(),
            maximum_value: options.max.to_string(),
            increment: options.increment.to_string(),
            cycle_option: yes(options.cycle),
        });
    }
}

fn catalog_name(context: &Context, rows: &mut Vec<InformationSchemaCatalogNameRow>) {
    row!(rows; InformationSchemaCatalogNameRow {
        catalog_name: &context.session.database,
    });
}

fn character_sets(context: &Context, rows: &mut Vec<CharacterSetsRow>) {
    let database = &context.session.database;
    row!(rows; CharacterSetsRow {
        default_collate_catalog: database,
    });
}
