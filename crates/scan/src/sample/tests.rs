use arrow::array::{Int64Array, StringViewArray};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column as Place, lit};
use halcyon_catalog::Column;
use halcyon_sql::types::SqlType;
use halcyon_store::ValueRef;

use super::*;

/// A table of `rows` rows: a key that ascends, a number below 1,000, a text of two, one value, NULLs.
fn table(rows: u64) -> (Arc<Table>, Vec<triomphe::Arc<Partition>>) {
    let columns = vec![
        Column::new("id", SqlType::BigInt),
        Column::new("thousand", SqlType::BigInt),
        Column::new("t", SqlType::Text),
        Column::new("one", SqlType::BigInt),
        Column::new("n", SqlType::BigInt),
    ];
    let table = Table::new(TableId(7), "public", "t", "halcyon", columns);
    let mut root = Partition::new(table.store_schema());
    let mut rng = Rng::new(1);
    for id in 0..rows as i64 {
        let text = if id % 4 == 0 { "rare" } else { "often, and longer than a view" };
        let null = if id % 2 == 0 { ValueRef::Null } else { ValueRef::Int64(id % 3) };
        let number = ValueRef::Int64(rng.below(1_000) as i64);
        let row = [ValueRef::Int64(id), number, ValueRef::Text(text), ValueRef::Int64(5), null];
        root.insert(&row).expect("no index");
    }
    (Arc::new(table), vec![triomphe::Arc::new(root)])
}

fn near(estimate: f64, truth: f64, factor: f64) -> bool {
    estimate <= truth * factor && estimate >= truth / factor
}

#[test]
fn distinct_values_are_near_the_truth() {
    for rows in [100, 8_000, 50_000, 200_000] {
        let (table, roots) = table(rows);
        let sample = Samples::default().of(&table, &roots, &[0, 1, 2, 3, 4]).expect("drawn");
        let of = |column| sample.distinct(column).expect("not long");
        assert!(near(of(0), rows as f64, 1.01), "{rows}: {}", of(0));
        let thousand = 1_000.0 * (1.0 - (1.0 - 1.0 / 1_000.0_f64).powf(rows as f64));
        assert!(near(of(1), thousand, 1.1), "{rows}: {} and {thousand}", of(1));
        assert_eq!((of(2), of(3), of(4)), (2.0, 1.0, 3.0), "{rows}");
        let nulls = sample.nulls(4).expect("not long");
        assert!((nulls - 0.5).abs() < 0.03, "{rows}: {nulls}");
    }
}

fn compared(column: usize, op: Operator, value: i64) -> Condition {
    let place: Arc<dyn PhysicalExpr> = Arc::new(Place::new("c", column));
    let expr = Arc::new(BinaryExpr::new(place, op, lit(value)));
    let fields: Vec<_> =
        (0..5).map(|_| arrow::datatypes::Field::new("c", DataType::Int64, true)).collect();
    Condition::new(expr, &arrow::datatypes::Schema::new(fields)).expect("columns are there")
}

#[test]
fn shares_are_near_the_truth() {
    let (table, roots) = table(100_000);
    let columns = [0, 1, 2, 3, 4];
    let sample = Samples::default().of(&table, &roots, &columns).expect("drawn");
    let share = |conditions: &[Condition]| sample.share(conditions, &columns);
    let below = |column, value| compared(column, Operator::Lt, value);
    assert!(near(share(&[below(0, 25_000)]), 0.25, 1.1));
    assert!(near(share(&[below(1, 100), below(0, 50_000)]), 0.05, 1.3));
    assert_eq!(share(&[compared(3, Operator::Eq, 5)]), 1.0);
    // No row of the sample has the key; the number of different keys says how many rows have it.
    let one = share(&[compared(0, Operator::Eq, 77_777)]);
    assert!(one <= 1.5 / 4_096.0, "{one}");
    assert!(share(&[compared(1, Operator::Eq, 5_000)]) <= 0.5 / 4_096.0);
}

/// A table of which all rows are sampled and not all are tried.
#[test]
fn conditions_are_tried_on_rows_from_all_over_a_table() {
    for rows in [4_097_u64, 6_000, 8_192] {
        let (table, roots) = table(rows);
        let sample = Samples::default().of(&table, &roots, &[0]).expect("drawn");
        assert_eq!(sample.rows as u64, rows);
        let last = compared(0, Operator::GtEq, rows as i64 * 3 / 4);
        assert!(near(sample.share(&[last], &[0]), 0.25, 1.05), "{rows}");
        let beyond = sample.share(&[compared(0, Operator::Gt, rows as i64)], &[0]);
        assert!(beyond > 0.0 && beyond <= 1.0 / rows as f64, "{rows}: {beyond}");
    }
}

#[test]
fn samples_have_a_limit_together() {
    let (_, roots) = table(8_000);
    let samples = Samples::default();
    let tables: Vec<Arc<Table>> = (0..400)
        .map(|number| {
            let columns = (0..5).map(|at| Column::new(format!("c{at}"), SqlType::BigInt));
            let mut columns: Vec<Column> = columns.collect();
            columns[2].ty = SqlType::Text;
            Arc::new(Table::new(TableId(number), "public", "t", "halcyon", columns))
        })
        .collect();
    for table in &tables {
        samples.of(table, &roots, &[0, 1, 2, 3, 4]).expect("drawn");
        let held: u64 = samples.0.lock().values().map(|sample| sample.bytes).sum();
        assert!(held <= ALL_BYTES_MAX, "{held}");
    }
    assert!(samples.0.lock().len() < tables.len(), "some were given up");
    drop(tables);
    let (other, roots) = self::table(10);
    samples.of(&other, &roots, &[0]).expect("drawn");
    assert_eq!(samples.0.lock().len(), 1, "samples of dropped tables go");
}

#[test]
fn a_sample_stays_until_its_table_changes_and_refers_to_no_vector() {
    let (table, mut roots) = table(20_000);
    let samples = Samples::default();
    let first = samples.of(&table, &roots, &[0]).expect("drawn");
    assert!(Arc::ptr_eq(&first, &samples.of(&table, &roots, &[0]).expect("kept")));
    let wider = samples.of(&table, &roots, &[2]).expect("drawn");
    assert!(!Arc::ptr_eq(&first, &wider) && wider.distinct(0).is_some());
    let values = wider.values(2).expect("short").as_string_view();
    let copied: usize = values.data_buffers().iter().map(|buffer| buffer.len()).sum();
    assert!(copied <= ROWS * 32, "texts are copies: {copied} bytes");
    assert!(wider.values(0).is_some_and(|ids| ids.as_any().is::<Int64Array>()));
    assert!(wider.values(2).is_some_and(|texts| texts.as_any().is::<StringViewArray>()));
    let root = triomphe::Arc::make_mut(&mut roots[0]);
    for id in 0..3_000 {
        let null = ValueRef::Null;
        let row = [ValueRef::Int64(-id), null, ValueRef::Text("new"), null, null];
        root.insert(&row).expect("no index");
    }
    let grown = samples.of(&table, &roots, &[0]).expect("drawn");
    assert!(!Arc::ptr_eq(&wider, &grown));
    // Another definition under the same number.
    let (other, roots) = self::table(20_000);
    let other = samples.of(&other, &roots, &[0]).expect("drawn");
    assert!(!Arc::ptr_eq(&grown, &other));
}

#[test]
fn columns_of_long_texts_are_not_sampled() {
    let columns = vec![Column::new("id", SqlType::BigInt), Column::new("t", SqlType::Text)];
    let table = Arc::new(Table::new(TableId(8), "public", "t", "halcyon", columns));
    let mut root = Partition::new(table.store_schema());
    let long = "x".repeat(50_000);
    for id in 0..200 {
        root.insert(&[ValueRef::Int64(id), ValueRef::Text(&long)]).expect("no index");
    }
    let roots = vec![triomphe::Arc::new(root)];
    let sample = Samples::default().of(&table, &roots, &[0, 1]).expect("drawn");
    assert!(sample.values(1).is_none() && sample.distinct(1).is_none());
    assert_eq!(sample.distinct(0), Some(200.0));
}
