//! TPC-H's tables, generated in this process as record batches.

use std::fmt::Display;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tpchgen::csv::{
    CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv,
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::Failure;

/// The statements that create the tables, with primary keys and in the order of [`TABLES`].
pub const SCHEMA: &str = include_str!("schema.sql");

/// Rows per record batch.
const BATCH_ROWS: usize = 8_192;

/// Takes a row as a line of CSV.
pub type Emit<'a> = dyn FnMut(&dyn Display) -> Result<(), Failure> + 'a;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// A table: its name, its columns, and its rows at a scale factor.
pub struct Table {
    /// Name, lower case.
    pub name: &'static str,
    /// Columns.
    pub schema: fn() -> SchemaRef,
    batches: fn(f64) -> Batches,
    lines: fn(f64, &mut Emit<'_>) -> Result<(), Failure>,
    rows_at_sf1: f64,
}

impl Table {
    /// The rows at scale factor `sf`, batch by batch.
    pub fn batches(&self, sf: f64) -> Batches {
        (self.batches)(sf)
    }

    /// The same rows as lines of CSV, in the same order.
    pub fn lines(&self, sf: f64, emit: &mut Emit<'_>) -> Result<(), Failure> {
        (self.lines)(sf, emit)
    }

    /// About how many rows there are: exact but for lineitem.
    pub fn rows(&self, sf: f64) -> u64 {
        if self.rows_at_sf1 < 100.0 {
            self.rows_at_sf1 as u64
        } else {
            (self.rows_at_sf1 * sf) as u64
        }
    }
}

macro_rules! table {
    ($name:literal, $arrow:ident, $generator:ident, $csv:ident, $rows:expr) => {
        Table {
            name: $name,
            schema: $arrow::schema_ref,
            batches: |sf| {
                let rows = $arrow::new($generator::new(sf, 1, 1)).with_batch_size(BATCH_ROWS);
                Box::new(rows)
            },
            lines: |sf, emit| {
                let mut rows = $generator::new(sf, 1, 1).iter();
                rows.try_for_each(|row| emit(&$csv::new(row)))
            },
            rows_at_sf1: $rows,
        }
    };
}

/// The eight tables, parents before children.
pub const TABLES: [Table; 8] = [
    table!("region", RegionArrow, RegionGenerator, RegionCsv, 5.0),
    table!("nation", NationArrow, NationGenerator, NationCsv, 25.0),
    table!("supplier", SupplierArrow, SupplierGenerator, SupplierCsv, 10_000.0),
    table!("part", PartArrow, PartGenerator, PartCsv, 200_000.0),
    table!("partsupp", PartSuppArrow, PartSuppGenerator, PartSuppCsv, 800_000.0),
    table!("customer", CustomerArrow, CustomerGenerator, CustomerCsv, 150_000.0),
    table!("orders", OrderArrow, OrderGenerator, OrderCsv, 1_500_000.0),
    table!("lineitem", LineItemArrow, LineItemGenerator, LineItemCsv, 6_000_000.0),
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
