//! Materialized views over TPC-C's tables, which its transactions maintain, and their check.

use halcyon::{Access, Database, Isolation, Session};

use crate::{Failure, Result};

/// Name and query: sales per district, customers' balances per district, low stock per warehouse.
pub const VIEWS: [(&str, &str); 3] = [
    (
        "sales",
        "SELECT ol_w_id, ol_d_id, sum(ol_amount) AS amount, count(*) AS lines
         FROM order_line GROUP BY ol_w_id, ol_d_id",
    ),
    (
        "balances",
        "SELECT c_w_id, c_d_id, max(c_balance) AS top, sum(c_balance) AS total
         FROM customer GROUP BY c_w_id, c_d_id",
    ),
    (
        "low_stock",
        "SELECT s_w_id, count(*) AS items FROM stock WHERE s_quantity < 15 GROUP BY s_w_id",
    ),
];

/// Creates the views over loaded tables.
pub fn create(session: &mut Session) -> Result<()> {
    for (name, query) in VIEWS {
        session.batch(&format!("CREATE MATERIALIZED VIEW {name} AS {query}"))?;
    }
    Ok(())
}

/// The name of a view that differs from its query, in one snapshot; `None` if no view does.
pub fn broken(database: &Database) -> Result<Option<String>> {
    let mut session = database.session();
    session.begin(Isolation::Serializable, Access::ReadOnly)?;
    for (name, query) in VIEWS {
        let text = format!(
            "SELECT count(*) FROM ((SELECT * FROM {name} EXCEPT {query})
             UNION ALL ({query} EXCEPT SELECT * FROM {name})) AS difference"
        );
        let mut rows = session.query(text.as_str(), &[])?;
        let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("no count".into()))?;
        let count: i64 = row.get(0)?;
        if count != 0 {
            return Ok(Some(format!("view {name} and its query differ in {count} rows")));
        }
    }
    session.commit()?;
    Ok(None)
}
