//! The 22 answers on data at rest, beside DataFusion's on the same rows.

use std::time::Instant;

use halcyon::{Database, Session};
use halcyon_gauge::measure::Rounds;

use super::queries::QUERIES;
use super::tables;
use crate::answers::{Answer, same};
use crate::twin::DataFusion;
use crate::{Failure, Result};

/// What a query gave at rest.
#[derive(Clone, Debug, Default)]
pub struct AtRest {
    /// Rows of the answer.
    pub rows: usize,
    /// Best time, milliseconds.
    pub best_ms: f64,
    /// Best time of DataFusion, milliseconds.
    pub datafusion_ms: f64,
    /// The reason why the answer is no answer, or a wrong one.
    pub failure: Option<Failure>,
}

/// Runs every query so often in the session and in DataFusion, by turns, over what the tables have now. Nobody writes
/// meanwhile.
pub fn compared(session: &mut Session, threads: usize, repeat: u32) -> Result<Vec<AtRest>> {
    let twin = DataFusion::new(threads)?;
    for name in tables::READ {
        let Answer { schema, batches } = Answer::of(session, &format!("SELECT * FROM {name}"))?;
        let schema = batches.first().map_or(schema, |batch| batch.schema());
        twin.add(name, schema, batches.into_iter().map(Ok))?;
    }
    Ok(QUERIES.iter().map(|text| one(session, &twin, text, repeat)).collect())
}

/// Lists of tables that DataFusion gets in another order, of the same joins: its own would begin with the product of two
/// tables that no condition joins, such as items and suppliers.
const ORDERS: [(&str, &str); 4] = [
    ("FROM item, supplier, stock, nation, region,", "FROM item, stock, supplier, nation, region,"),
    (
        "FROM customer, new_order, orders, order_line",
        "FROM customer, orders, new_order, order_line",
    ),
    ("FROM item, supplier, stock, order_line,", "FROM item, stock, supplier, order_line,"),
    (
        "FROM supplier, order_line l1, orders, stock, nation",
        "FROM orders JOIN order_line l1 ON ol_o_id = o_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id \
         JOIN stock ON ol_w_id = s_w_id AND ol_i_id = s_i_id \
         JOIN supplier ON mod((s_w_id * s_i_id), 10000) = su_suppkey \
         JOIN nation ON su_nationkey = n_nationkey",
    ),
];

/// The question as DataFusion gets it.
fn for_datafusion(text: &str) -> String {
    ORDERS
        .iter()
        .fold(text.to_owned(), |text, (published, ordered)| text.replace(published, ordered))
}

fn one(session: &mut Session, twin: &DataFusion, text: &str, repeat: u32) -> AtRest {
    let (mut own, mut other) = (Rounds::default(), Rounds::default());
    let mut answers = None;
    let reordered = for_datafusion(text);
    for _ in 0..repeat {
        let answer = timed(&mut own, || Answer::of(session, text));
        let expected = timed(&mut other, || twin.run(&reordered));
        match answer.and_then(|answer| Ok((answer, expected?))) {
            Ok(both) => answers = Some(both),
            Err(failure) => return AtRest { failure: Some(failure), ..AtRest::default() },
        }
    }
    let (answer, expected) = answers.expect("a query runs at least once");
    let differs = same(&answer, &expected).err();
    AtRest {
        rows: answer.row_count(),
        best_ms: own.best(),
        datafusion_ms: other.best(),
        failure: differs.map(|how| Failure::WrongAnswer(format!("DataFusion differs: {how}"))),
    }
}

fn timed<T>(times: &mut Rounds, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    times.push(start.elapsed().as_secs_f64() * 1e3);
    result
}

/// A session for the queries, with so many workers; 0: as many as there are.
pub fn session(database: &Database, threads: usize) -> Result<Session> {
    let mut session = database.session();
    if threads > 0 {
        session.set("halcyon.threads", &threads.to_string())?;
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_tables_is_one_of_a_query() {
        let reordered = QUERIES.iter().filter(|text| for_datafusion(text) != **text).count();
        assert_eq!(reordered, ORDERS.len());
    }
}
