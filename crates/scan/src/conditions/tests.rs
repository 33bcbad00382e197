use arrow::array::{Int64Array, StringViewArray};
use arrow::compute::{max, min};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::lit;
use halcyon_base::rng::Rng;

use super::*;

fn schema() -> Schema {
    let field = |name: &str, ty| Field::new(name, ty, true);
    Schema::new(vec![
        field("a", DataType::Int64),
        field("b", DataType::Int64),
        field("t", DataType::Utf8View),
    ])
}

fn columns(rng: &mut Rng, rows: usize) -> Vec<ArrayRef> {
    let number = |rng: &mut Rng| (!rng.chance(1, 9)).then(|| rng.below(100) as i64);
    let numbers = |rng: &mut Rng| -> ArrayRef {
        Arc::new((0..rows).map(|_| number(rng)).collect::<Int64Array>())
    };
    let texts = |rng: &mut Rng| -> ArrayRef {
        let text = |rng: &mut Rng| number(rng).map(|n| format!("a text of some length {n}"));
        Arc::new((0..rows).map(|_| text(rng)).collect::<StringViewArray>())
    };
    vec![numbers(rng), numbers(rng), texts(rng)]
}

type Expr = Arc<dyn PhysicalExpr>;

fn column(place: usize) -> Expr {
    Arc::new(Column::new(["a", "b", "t"][place], place))
}

fn compared(left: Expr, op: Operator, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn condition(rng: &mut Rng) -> Expr {
    use Operator::{Eq, Gt, Lt, LtEq, NotEq};
    let op = *rng.pick(&[Eq, NotEq, Lt, LtEq, Gt]);
    let bound = lit(rng.below(110) as i64);
    let (a, b) = (column(0), column(1));
    match rng.below(6) {
        0 => compared(a, op, bound),
        1 => compared(b, op, bound),
        2 => compared(a, op, b),
        3 => Arc::new(IsNotNullExpr::new(column(2))),
        4 => {
            let text = format!("a text of some length {}", rng.below(100));
            compared(column(2), op, lit(ScalarValue::Utf8View(Some(text))))
        }
        _ => compared(compared(a, Operator::Plus, b), op, bound),
    }
}

/// The rows for which an expression over all columns is true: the slow twin.
fn filtered(columns: &[ArrayRef], expr: &Expr) -> Vec<ArrayRef> {
    let batch = RecordBatch::try_new(Arc::new(schema()), columns.to_vec()).expect("alike");
    let held = expr.evaluate(&batch).and_then(|held| held.into_array(batch.num_rows()));
    let held = held.expect("nothing fails");
    columns.iter().map(|column| filter(column, held.as_boolean()).expect("alike")).collect()
}

#[test]
fn conditions_keep_what_one_filter_keeps() {
    let (schema, mut rng) = (schema(), Rng::new(5));
    for case in 0..500 {
        // Few rows have narrow zones.
        let rows = 1 + if rng.chance(1, 2) { rng.below(700) } else { rng.below(4) } as usize;
        let columns = columns(&mut rng, rows);
        let fixed: Vec<Expr> = (0..rng.below(4)).map(|_| condition(&mut rng)).collect();
        let found: Vec<Expr> = (0..rng.below(3)).map(|_| condition(&mut rng)).collect();
        let mut read_times = [0; 3];
        let mut read = |column: usize| {
            read_times[column] += 1;
            Ok(Arc::clone(&columns[column]))
        };
        let zone = |column: usize| {
            let values = columns[column].as_primitive_opt::<Int64Type>()?;
            let (least, greatest) = (min(values), max(values));
            Some(((least.unwrap_or(1), greatest.unwrap_or(0)), values.null_count() > 0))
        };
        let mut kept = Rows::new(rows, 3, &mut read);
        if rng.chance(1, 2) {
            kept = kept.within(&zone);
        }
        let all_fixed = Condition::all_of(&conjunction(fixed.clone()), &schema).expect("columns");
        let mut all_found: Vec<Found> = found
            .iter()
            .map(|expr| {
                let children = (0..3).map(column).collect();
                let source = DynamicFilterPhysicalExpr::new(children, lit(true));
                source.update(Arc::clone(expr)).expect("over its children");
                Found::new(Arc::new(source))
            })
            .collect();
        kept.keep_all(&all_fixed, &mut all_found, &schema).expect("nothing fails");
        let left = kept.left();
        let got = if left == 0 { Vec::new() } else { kept.columns(&[2, 0, 1]).expect("read") };
        let all = conjunction(fixed.into_iter().chain(found));
        let expected = filtered(&columns, &all);
        assert_eq!(left, expected[0].len(), "case {case}: {all}");
        if left > 0 {
            assert_eq!(got, [&expected[2], &expected[0], &expected[1]].map(Arc::clone), "{all}");
        }
        assert!(read_times.iter().all(|&times| times <= 1), "case {case}: {read_times:?}");
    }
}

#[test]
fn a_found_condition_that_keeps_nearly_all_rows_is_given_up() {
    let schema = schema();
    let columns = columns(&mut Rng::new(6), 2_048);
    let source = Arc::new(DynamicFilterPhysicalExpr::new(vec![column(0)], lit(true)));
    let mut found = [Found::new(Arc::clone(&source))];
    let read_some = |found: &mut [Found]| {
        let mut times = 0;
        let mut read = |column: usize| {
            times += 1;
            Ok(Arc::clone(&columns[column]))
        };
        let mut rows = Rows::new(2_048, 3, &mut read);
        rows.keep_all(&[], found, &schema).expect("nothing fails");
        times
    };
    // A join that has found nothing yet.
    assert_eq!(read_some(&mut found), 0);
    source.update(compared(column(0), Operator::GtEq, lit(1_i64))).expect("over its children");
    let looked: usize = (0..TRIAL_ROWS / 4_096).map(|_| read_some(&mut found)).sum();
    source.update(compared(column(0), Operator::GtEq, lit(2_i64))).expect("over its children");
    let looked_after: usize = (0..TRIAL_ROWS / 2_048).map(|_| read_some(&mut found)).sum();
    assert_eq!((looked, looked_after), (TRIAL_ROWS / 4_096, TRIAL_ROWS / 4_096));
}
