//! Reports: analytical queries now and then, in a class that leaves everybody else the way.

use halcyon::{Session, SqlError};

/// Queries over TPC-H, the shop and the market, by turns.
const REPORTS: [&str; 4] = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), avg(l_discount), \
     count(*) FROM lineitem GROUP BY l_returnflag, l_linestatus",
    "SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem JOIN orders ON o_orderkey = l_orderkey \
     JOIN customer ON c_custkey = o_custkey JOIN nation ON n_nationkey = c_nationkey GROUP BY n_name ORDER BY revenue DESC",
    "SELECT date_trunc('second', at) AS second, symbol, min(price), max(price), sum(volume) FROM market.trades \
     GROUP BY 1, 2 ORDER BY 1 DESC, 2 LIMIT 60",
    "SELECT city, status, count(*), sum(total) FROM shop.orders JOIN shop.customers c ON c.id = customer_id \
     GROUP BY city, status",
];

/// A session that makes reports.
pub struct Reporter {
    session: Session,
    made: usize,
}

impl Reporter {
    /// A reporter under the name of reports.
    pub fn new(mut session: Session) -> Result<Self, SqlError> {
        session.set("application_name", "reports")?;
        Ok(Reporter { session, made: 0 })
    }

    /// The next report.
    pub fn act(&mut self) -> Result<(), SqlError> {
        let report = REPORTS[self.made % REPORTS.len()];
        self.made += 1;
        self.session.execute(report, &[]).map(drop)
    }
}
