//! Batches whose texts are short enough together for what is done with a batch at once.
//!
//! A batch of texts refers to them: a join gives ten thousand rows with a text of a megabyte each without
//! copying one. Functions, sorts and results copy every row of a batch, though, before anybody looks at
//! the memory that this takes. So scans and joins give such batches in pieces.
//!
//! Cost: one addition per text of a batch.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The least size of an element of an array: a view or a decimal.
pub const ELEMENT_BYTES: u64 = 16;
/// The most bytes of texts and arrays in a batch of more than one row.
pub const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Aggregates whose values grow with the rows before: as window functions they give one for every row of a
/// batch.
const GATHERING: [&str; 2] = ["array_agg", "string_agg"];
/// The size that is assumed of such a value.
const GATHERED_BYTES: usize = 256 << 10;

/// Rows that a batch of a plan with large values may have: a constant becomes as many texts as a batch
/// has rows. `usual`: of other plans.
pub fn batch_rows(plan: &LogicalPlan, usual: usize) -> usize {
    let mut largest = 1;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                largest = largest.max(match expr {
                    Expr::Literal(value, _) => value.try_as_str().flatten().map_or(1, str::len),
                    Expr::WindowFunction(call) if GATHERING.contains(&call.fun.name()) => {
                        GATHERED_BYTES
                    }
                    _ => 1,
                });
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.expect("the closures do not fail");
    let most = usize::try_from(BATCH_BYTES_MAX).unwrap_or(usize::MAX) / largest;
    most.clamp(1, usual)
}

/// Puts a batch in order into `queue`, whole or in pieces, none of more than `rows_max` rows.
pub fn put(batch: RecordBatch, rows_max: usize, queue: &mut VecDeque<RecordBatch>) {
    assert!(rows_max > 0, "a piece has a row");
    let total: u64 = batch.columns().iter().map(total).sum();
    let fits = total <= BATCH_BYTES_MAX && batch.num_rows() <= rows_max;
    if fits || batch.num_rows() < 2 {
        queue.push_back(batch);
        return;
    }
    let widths: Vec<Vec<u64>> =
        batch.columns().iter().filter(|column| is_wide(column)).map(row_sizes).collect();
    let width = |row: usize| widths.iter().map(|widths| widths[row]).sum::<u64>();
    let (mut first, mut bytes) = (0, 0);
    for row in 0..batch.num_rows() {
        let width = width(row);
        let is_full = bytes + width > BATCH_BYTES_MAX || row - first == rows_max;
        if row > first && is_full {
            queue.push_back(batch.slice(first, row - first));
            (first, bytes) = (row, 0);
        }
        bytes += width;
    }
    queue.push_back(batch.slice(first, batch.num_rows() - first));
}

fn is_wide(column: &ArrayRef) -> bool {
    matches!(
        column.data_type(),
        DataType::Utf8View
            | DataType::BinaryView
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::LargeBinary
            | DataType::List(_)
    )
}

/// Bytes of all values of a column, repeated ones as often as they occur; 0 for numbers.
pub fn total(column: &ArrayRef) -> u64 {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(u64::from).sum(),
        _ if is_wide(column) => row_sizes(column).iter().sum(),
        _ => 0,
    }
}

/// Bytes of each row: the length of a text, of an array the number of its elements times the largest one.
pub fn row_sizes(array: &ArrayRef) -> Vec<u64> {
    let rows = 0..array.len();
    match array.data_type() {
        DataType::Null => vec![0; array.len()],
        DataType::Utf8View => {
            let array = array.as_string_view();
            array.lengths().map(u64::from).collect()
        }
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).collect(),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            rows.map(|row| u64::try_from(array.value_length(row)).unwrap_or(0)).collect()
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            rows.map(|row| u64::try_from(array.value_length(row)).unwrap_or(0)).collect()
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            rows.map(|row| u64::try_from(array.value_length(row)).unwrap_or(0)).collect()
        }
        DataType::List(_) => {
            let array = array.as_list::<i32>();
            let most = row_sizes(array.values()).into_iter().max().unwrap_or(0);
            let each = most.max(ELEMENT_BYTES);
            let length = |row| u64::try_from(array.value_length(row)).unwrap_or(0);
            rows.map(|row| length(row).saturating_mul(each)).collect()
        }
        _ => vec![ELEMENT_BYTES; array.len()],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringViewArray};

    use super::*;

    fn batch(lengths: &[usize]) -> RecordBatch {
        let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        let numbers = Int32Array::from_iter_values((0..).take(lengths.len()));
        RecordBatch::try_from_iter([
            ("t", Arc::new(StringViewArray::from_iter_values(texts)) as ArrayRef),
            ("n", Arc::new(numbers) as ArrayRef),
        ])
        .expect("two columns")
    }

    fn pieces(lengths: &[usize], rows_max: usize) -> Vec<usize> {
        let mut queue = VecDeque::new();
        put(batch(lengths), rows_max, &mut queue);
        let whole = queue.iter().flat_map(|piece| {
            piece.column(1).as_primitive::<arrow::datatypes::Int32Type>().values().to_vec()
        });
        assert_eq!(whole.collect::<Vec<_>>(), (0..).take(lengths.len()).collect::<Vec<i32>>());
        queue.iter().map(RecordBatch::num_rows).collect()
    }

    #[test]
    fn long_texts_come_in_pieces_and_every_row_comes_once() {
        const MB: usize = 1 << 20;
        assert_eq!(pieces(&[1; 1000], 8192), [1000]);
        assert_eq!(pieces(&[1; 1000], 400), [400, 400, 200]);
        assert_eq!(pieces(&[], 1), [0]);
        assert_eq!(pieces(&[20 * MB], 1), [1]);
        assert_eq!(pieces(&[20 * MB, 1, 20 * MB, 1, 1], 9), [1, 1, 1, 2]);
        assert_eq!(pieces(&[6 * MB; 5], 9), [2, 2, 1]);
    }
}
