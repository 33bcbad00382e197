//! TPC-H in a database: the eight tables, generated in this process and loaded by COPY. The demo
//! shows them, the lab measures queries over them.
//!
//! Words: the *scale factor* is the standard's; 1 means six million rows of `lineitem`.
//! Invariant: one scale factor always gives the same rows in the same order (checked by the test
//! `a_scale_factor_always_gives_the_same_rows`), so that engines can be compared.
//! Cost: generating takes less time than loading; a quarter of a MiB of text is held.
#![forbid(unsafe_code)]

use std::fmt::{Display, Write as _};

use halcyon::{Outcome, Session, SqlError, SqlState};
use tpchgen::csv::{
    CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv,
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

/// The statements that create the tables, with primary keys and in the order of [`TABLES`].
pub const SCHEMA: &str = include_str!("schema.sql");

/// Bytes of data handed to the session at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Takes a row as a line of CSV.
pub type Emit<'a> = dyn FnMut(&dyn Display) -> Result<(), SqlError> + 'a;

/// A table: its name, and its rows at a scale factor.
pub struct Table {
    /// Name, lower case.
    pub name: &'static str,
    lines: fn(f64, &mut Emit<'_>) -> Result<(), SqlError>,
    rows_at_sf1: f64,
}

impl Table {
    /// The rows at scale factor `sf` as lines of CSV.
    ///
    /// Errors: the first that `emit` gives; no row follows it.
    pub fn lines(&self, sf: f64, emit: &mut Emit<'_>) -> Result<(), SqlError> {
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
    ($name:literal, $generator:ident, $csv:ident, $rows:expr) => {
        Table {
            name: $name,
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
    table!("region", RegionGenerator, RegionCsv, 5.0),
    table!("nation", NationGenerator, NationCsv, 25.0),
    table!("supplier", SupplierGenerator, SupplierCsv, 10_000.0),
    table!("part", PartGenerator, PartCsv, 200_000.0),
    table!("partsupp", PartSuppGenerator, PartSuppCsv, 800_000.0),
    table!("customer", CustomerGenerator, CustomerCsv, 150_000.0),
    table!("orders", OrderGenerator, OrderCsv, 1_500_000.0),
    table!("lineitem", LineItemGenerator, LineItemCsv, 6_000_000.0),
];

/// Creates the eight tables and fills them by COPY, a transaction per table. `progress` is called
/// with the table's name and its rows so far.
///
/// Errors: what the database answers, 42P07 for instance if a table exists already.
pub fn load(
    session: &mut Session,
    sf: f64,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<(), SqlError> {
    session.batch(SCHEMA)?;
    for table in &TABLES {
        let text = format!("COPY {} FROM STDIN WITH (FORMAT csv)", table.name);
        let copy = session.prepare(&text)?;
        if !matches!(session.run(&copy, &[])?, Outcome::CopyIn { .. }) {
            let message = format!("{text} asks for no data");
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
        let (mut lines, mut rows) = (String::new(), 0);
        table.lines(sf, &mut |line| {
            writeln!(lines, "{line}").expect("writing to memory does not fail");
            rows += 1;
            if lines.len() >= CHUNK_BYTES {
                session.copy_data(lines.as_bytes())?;
                lines.clear();
                progress(table.name, rows);
            }
            Ok(())
        })?;
        session.copy_data(lines.as_bytes())?;
        session.copy_end()?;
        progress(table.name, rows);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon::Database;

    fn count(session: &mut Session, table: &str) -> u64 {
        let mut rows = session.query(&*format!("SELECT count(*) FROM {table}"), &[]).unwrap();
        rows.next().unwrap().unwrap().get::<i64>(0).unwrap() as u64
    }

    #[test]
    fn every_table_has_the_rows_that_it_says() {
        let mut session = Database::in_memory().session();
        let mut told = 0;
        load(&mut session, 0.01, &mut |_, rows| told = rows).unwrap();
        for table in &TABLES {
            let (rows, expected) = (count(&mut session, table.name), table.rows(0.01));
            match table.name {
                "lineitem" => assert!(rows.abs_diff(expected) < expected / 100, "{rows}"),
                name => assert_eq!(rows, expected, "{name}"),
            }
        }
        assert_eq!(told, count(&mut session, "lineitem"));
        let twice = load(&mut session, 0.01, &mut |_, _| {}).unwrap_err();
        assert_eq!(twice.state(), SqlState::DUPLICATE_TABLE);
    }

    #[test]
    fn a_scale_factor_always_gives_the_same_rows() {
        let text = |table: &Table| {
            let mut text = String::new();
            let mut emit = |line: &dyn Display| {
                writeln!(text, "{line}").unwrap();
                Ok(())
            };
            table.lines(0.001, &mut emit).unwrap();
            text
        };
        for table in &TABLES {
            let first = text(table);
            assert!(first.lines().count() > 1, "{}", table.name);
            assert_eq!(first, text(table), "{}", table.name);
        }
    }
}
