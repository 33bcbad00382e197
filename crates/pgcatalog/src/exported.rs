//! Tables of `pg_catalog` that are the same in every database, as somebody exported them from
//! PostgreSQL.
//!
//! Source: the files of `exported/` are those of the crate `datafusion-pg-catalog` 0.19 (Apache-2.0).
//! The crate itself is not used: it turns on every feature of DataFusion, readers of compressed
//! files in C among them, which a first build would compile (docs/building.md).
//! Invariant: each file holds a table with at least one row (checked by the test
//! `every_exported_table_has_rows`). Columns of object ids carry [`OID_ALIAS_KEY`].

use std::collections::HashMap;
use std::io::Cursor;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow_ipc::reader::FileReader;

pub(crate) use halcyon_sql::types::OID_ALIAS_KEY;

/// A column of object ids of the type `kind`.
pub(crate) fn oid_field(name: &str, kind: &str, nullable: bool) -> Field {
    let metadata = HashMap::from([(OID_ALIAS_KEY.to_owned(), kind.to_owned())]);
    Field::new(name, DataType::Int32, nullable).with_metadata(metadata)
}

/// A table as exported.
pub(crate) struct Exported {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Exported {
    fn read(file: &'static [u8]) -> Exported {
        let reader = FileReader::try_new(Cursor::new(file), None).expect("it is an Arrow file");
        let schema = reader.schema();
        let batches = reader.collect::<Result<_, _>>().expect("the file is whole");
        Exported { schema, batches }
    }
}

macro_rules! exported {
    ($($name:ident),* $(,)?) => {
        /// All exported tables, each by its name.
        pub(crate) struct ExportedTables {
            $(pub(crate) $name: Exported,)*
        }

        impl ExportedTables {
            /// Decodes the files: a millisecond or two.
            pub(crate) fn read() -> ExportedTables {
                ExportedTables {
                    $($name: Exported::read(include_bytes!(
                        concat!("exported/", stringify!($name), ".feather")
                    )),)*
                }
            }

            /// Every table with its name.
            pub(crate) fn all(&self) -> Vec<(&'static str, &Exported)> {
                vec![$((stringify!($name), &self.$name)),*]
            }
        }
    };
}

exported!(
    pg_aggregate,
    pg_am,
    pg_amop,
    pg_amproc,
    pg_cast,
    pg_conversion,
    pg_description,
    pg_get_keywords,
    pg_language,
    pg_opclass,
    pg_operator,
    pg_opfamily,
    pg_proc,
    pg_range,
    pg_ts_config,
    pg_ts_dict,
    pg_ts_parser,
    pg_ts_template,
    pg_type,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exported_table_has_rows() {
        for (name, table) in ExportedTables::read().all() {
            let rows: usize = table.batches.iter().map(RecordBatch::num_rows).sum();
            assert!(rows > 0, "{name}");
            assert!(table.batches.iter().all(|batch| batch.schema() == table.schema), "{name}");
        }
    }

    #[test]
    fn columns_of_object_ids_are_marked_alike_in_files_and_in_our_own_tables() {
        let tables = ExportedTables::read();
        let exported = tables.pg_type.schema.field_with_name("typnamespace").unwrap();
        let made = oid_field("typnamespace", "oid", true);
        for field in [exported, &made] {
            assert!(field.metadata().contains_key(OID_ALIAS_KEY), "{field}");
            assert_eq!(field.data_type(), &DataType::Int32);
        }
    }
}
