//! TPC-H's tables as record batches, the same rows as `halcyon_tpch` loads, and the queries.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// Rows per record batch.
const BATCH_ROWS: usize = 8_192;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// A table: its name, its columns, and its rows at a scale factor.
pub struct ArrowTable {
    /// Name, lower case.
    pub name: &'static str,
    /// Columns.
    pub schema: fn() -> SchemaRef,
    batches: fn(f64) -> Batches,
}

impl ArrowTable {
    /// The rows at scale factor `sf`, batch by batch.
    pub fn batches(&self, sf: f64) -> Batches {
        (self.batches)(sf)
    }
}

macro_rules! table {
    ($name:literal, $arrow:ident, $generator:ident) => {
        ArrowTable {
            name: $name,
            schema: $arrow::schema_ref,
            batches: |sf| {
                let rows = $arrow::new($generator::new(sf, 1, 1)).with_batch_size(BATCH_ROWS);
                Box::new(rows)
            },
        }
    };
}

/// The eight tables, parents before children.
pub const ARROW_TABLES: [ArrowTable; 8] = [
    table!("region", RegionArrow, RegionGenerator),
    table!("nation", NationArrow, NationGenerator),
    table!("supplier", SupplierArrow, SupplierGenerator),
    table!("part", PartArrow, PartGenerator),
    table!("partsupp", PartSuppArrow, PartSuppGenerator),
    table!("customer", CustomerArrow, CustomerGenerator),
    table!("orders", OrderArrow, OrderGenerator),
    table!("lineitem", LineItemArrow, LineItemGenerator),
];

/// Text of query `number`, counted from 1 to 22, with the validation parameters of the standard.
pub fn query(number: usize) -> &'static str {
    QUERIES[number - 1]
}

macro_rules! queries {
    ($($file:literal),* $(,)?) => { [$(include_str!(concat!("queries/q", $file, ".sql"))),*] };
}

const QUERIES: [&str; 22] = queries!(
    "01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22",
);
