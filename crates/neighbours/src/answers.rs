//! Answers of engines as record batches, and the comparison of two answers.
//!
//! The queries order their rows, but engines may break ties either way, so rows are compared as a
//! multiset, sorted by their text. Numbers are compared as numbers, to one part in 10^9 and at
//! least to half a unit in the last place; to a whole unit if one number has fewer places, because
//! each engine chooses the scale of averages of decimals, and some truncate where others round.
//! Everything else is compared as text.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use halcyon::Session;

use crate::{Failure, Result};

/// The answer of an engine.
pub struct Answer {
    /// Columns.
    pub schema: SchemaRef,
    /// Rows.
    pub batches: Vec<RecordBatch>,
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Failure::Engine(error.to_string())
    }
}

impl Answer {
    /// The answer of a session to a query.
    pub fn of(session: &mut Session, text: &str) -> Result<Self> {
        let rows = session.query(text, &[])?;
        let fields: Vec<_> = rows.columns().iter().map(|column| column.field.clone()).collect();
        let batches = rows.batches().collect::<Result<Vec<_>, _>>()?;
        Ok(Answer { schema: Arc::new(Schema::new(fields)), batches })
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Rows as text; NULL is an empty text.
    fn rows(&self) -> Result<Vec<Vec<String>>> {
        let options = FormatOptions::default();
        let mut rows = Vec::new();
        for batch in &self.batches {
            let columns = batch.columns().iter();
            let columns: Vec<ArrayFormatter<'_>> = columns
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
                .collect::<Result<_, _>>()?;
            for row in 0..batch.num_rows() {
                let texts = columns.iter().zip(batch.columns()).map(|(column, array)| {
                    if array.is_null(row) { String::new() } else { column.value(row).to_string() }
                });
                rows.push(texts.collect());
            }
        }
        Ok(rows)
    }

    /// The rows as CSV with a header.
    pub fn csv(&self) -> Result<String> {
        let names: Vec<String> =
            self.schema.fields().iter().map(|field| field.name().to_owned()).collect();
        let mut text = String::new();
        for row in std::iter::once(names).chain(self.rows()?) {
            let cells: Vec<String> = row.iter().map(|cell| quote(cell)).collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        Ok(text)
    }
}

fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Errors unless two answers are the same; the error says where they first differ.
pub fn same(left: &Answer, right: &Answer) -> Result<(), String> {
    let columns = left.schema.fields().len();
    if columns != right.schema.fields().len() {
        return Err(format!("{columns} columns and {}", right.schema.fields().len()));
    }
    let numeric: Vec<bool> =
        left.schema.fields().iter().map(|field| is_number(field.data_type())).collect();
    let sorted = |answer: &Answer| -> Result<Vec<Vec<String>>, String> {
        let mut rows = answer.rows().map_err(|failure| failure.to_string())?;
        rows.sort_by_cached_key(|row| sort_key(row, &numeric));
        Ok(rows)
    };
    let (left, right) = (sorted(left)?, sorted(right)?);
    if left.len() != right.len() {
        return Err(format!("{} rows and {}", left.len(), right.len()));
    }
    for (left, right) in left.iter().zip(&right) {
        let cells = left.iter().zip(right).zip(&numeric);
        for ((left_cell, right_cell), numeric) in cells {
            if !same_cell(left_cell, right_cell, *numeric) {
                return Err(format!("{left:?} and {right:?}"));
            }
        }
    }
    Ok(())
}

/// A key for sorting: texts first and numbers rounded, so that a difference in the last digit moves
/// no row.
fn sort_key(row: &[String], numeric: &[bool]) -> (Vec<String>, Vec<i64>) {
    let cells = || row.iter().zip(numeric);
    let texts = cells().filter(|(_, numeric)| !**numeric).map(|(cell, _)| cell.clone()).collect();
    let rounded =
        |cell: &String| cell.parse::<f64>().map_or(i64::MIN, |value| value.round() as i64);
    let numbers = cells().filter(|(_, numeric)| **numeric).map(|(cell, _)| rounded(cell)).collect();
    (texts, numbers)
}

fn is_number(ty: &DataType) -> bool {
    ty.is_numeric()
}

fn same_cell(left: &str, right: &str, numeric: bool) -> bool {
    if left == right {
        return true;
    }
    if !numeric {
        return false;
    }
    let (Ok(a), Ok(b)) = (left.parse::<f64>(), right.parse::<f64>()) else { return false };
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, behind)| behind.len()) as i32;
    let (shorter, longer) = (digits(left).min(digits(right)), digits(left).max(digits(right)));
    let last_place = 10_f64.powi(-shorter);
    let units = if shorter == longer { 0.505 } else { 1.01 };
    (a - b).abs() <= (1e-9 * a.abs().max(b.abs())).max(units * last_place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, StringArray};

    fn answer(rows: &[(&str, f64)]) -> Answer {
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.0)));
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.1)));
        let batch = RecordBatch::try_from_iter([("a", names), ("b", values)]).unwrap();
        Answer { schema: batch.schema(), batches: vec![batch] }
    }

    #[test]
    fn order_and_last_digits_do_not_matter() {
        let left = answer(&[("x", 1.25), ("y", 1e12 / 3.0)]);
        let right = answer(&[("y", 1e12 / 3.0 + 0.001), ("x", 1.25)]);
        assert_eq!(same(&left, &right), Ok(()));
        assert!(same_cell("1.0067", "1.00667", true));
        assert!(same_cell("3", "3.0000", true));
    }

    #[test]
    fn a_planted_difference_is_found() {
        let left = answer(&[("x", 1.25), ("y", 2.0)]);
        assert!(same(&left, &answer(&[("x", 1.26), ("y", 2.0)])).is_err());
        assert!(same(&left, &answer(&[("x", 1.25), ("z", 2.0)])).is_err());
        assert_eq!(same(&left, &answer(&[("x", 1.25)])), Err("2 rows and 1".to_owned()));
        assert!(!same_cell("1.2", "", true));
        assert!(!same_cell("01", "1", false));
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let csv = answer(&[("a,b", 1.0), ("say \"x\"", 2.5)]).csv().unwrap();
        assert_eq!(csv, "a,b\n\"a,b\",1.0\n\"say \"\"x\"\"\",2.5\n");
    }
}
