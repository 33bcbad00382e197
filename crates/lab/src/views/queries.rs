//! The queries: those of DBToaster's finance benchmark, and of its TPC-H variants.

use super::bare;
use super::events::{Column, Events, Relation};
use super::measure::{Ask, Given, ask_by_hand};
use crate::Result;

/// A query of the experiment.
pub struct Query {
    /// Name, as in the papers.
    pub name: &'static str,
    /// The SELECT of the view. The first `key_columns` are the group's.
    pub sql: &'static str,
    /// Number of key columns of the answer.
    pub key_columns: usize,
    /// Number of value columns behind them.
    pub value_columns: usize,
    /// Streams of the query.
    pub source: Source,
    /// The same work by hand.
    pub bare: fn(Ask, &Events) -> Result<Given>,
    /// Whether [`Query::bare`] takes time linear in the number of rows per event, where the engine
    /// does not.
    pub bare_is_linear: bool,
}

/// The source of a query's events.
pub enum Source {
    /// Order books.
    Book,
    /// TPC-H tables: names and the columns used. Rows come in turn, one of every table.
    Tpch(&'static [(&'static str, &'static [&'static str])]),
}

/// A column of TPC-H that some query uses.
pub fn tpch_column(name: &str) -> Column {
    match name {
        "quantity" | "extendedprice" | "discount" | "tax" | "supplycost" => Column::Money,
        "shipdate" | "commitdate" | "receiptdate" | "orderdate" => Column::Date,
        "returnflag" | "linestatus" | "shipmode" | "orderpriority" | "mktsegment" | "ptype" => {
            Column::Text
        }
        _ => Column::Int,
    }
}

impl Query {
    /// The columns' names, keys first.
    pub fn columns(&self) -> Vec<String> {
        let keys = (1..=self.key_columns).map(|column| format!("k{column}"));
        keys.chain((1..=self.value_columns).map(|column| format!("v{column}"))).collect()
    }

    /// Reads the answer from `source`, a table or subquery with [`Query::columns`]: keys as text
    /// (dates as days), values as numbers.
    pub fn answer_sql(&self, source: &str) -> String {
        let values =
            (1..=self.value_columns).map(|column| format!("CAST(v{column} AS DOUBLE PRECISION)"));
        let keys = (1..=self.key_columns).map(|column| format!("k{column}"));
        format!("SELECT {} FROM {source}", keys.chain(values).collect::<Vec<_>>().join(", "))
    }

    /// The streams of a query over TPC-H.
    pub fn relations(tables: &[(&'static str, &'static [&'static str])]) -> Vec<Relation> {
        let relation = |&(name, columns): &(&'static str, &'static [&'static str])| Relation {
            name,
            columns: columns.iter().map(|&column| (column, tpch_column(column))).collect(),
        };
        tables.iter().map(relation).collect()
    }
}

/// Finds a query by name.
pub fn find(name: &str) -> Option<&'static Query> {
    QUERIES.iter().find(|query| query.name == name)
}

macro_rules! query {
    ($name:literal, $keys:literal, $values:literal, $source:expr, $bare:ty, linear: $linear:literal, $sql:literal) => {
        Query {
            name: $name,
            sql: $sql,
            key_columns: $keys,
            value_columns: $values,
            source: $source,
            bare: ask_by_hand::<$bare>,
            bare_is_linear: $linear,
        }
    };
}

/// All of them.
pub const QUERIES: &[Query] = &[
    query!(
        "axfinder", 1, 1, Source::Book, bare::finance::Axfinder, linear: true,
        "SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) FROM bids b, asks a
         WHERE b.broker_id = a.broker_id
           AND (a.price - b.price > 1000 OR b.price - a.price > 1000) GROUP BY b.broker_id"
    ),
    query!(
        "pricespread", 0, 1, Source::Book, bare::finance::Pricespread, linear: true,
        "SELECT SUM(a.price - b.price) FROM bids b, asks a
         WHERE b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1)
           AND a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1)"
    ),
    query!(
        "vwap", 0, 1, Source::Book, bare::finance::Vwap, linear: true,
        "SELECT SUM(b1.price * b1.volume) FROM bids b1
         WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3)
             > COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price), 0)"
    ),
    query!(
        "brokerspread", 1, 1, Source::Book, bare::finance::Brokerspread, linear: true,
        "SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) FROM bids x, bids y
         WHERE x.broker_id = y.broker_id AND x.t > y.t GROUP BY x.broker_id"
    ),
    query!(
        "brokervariance", 1, 1, Source::Book, bare::finance::Brokervariance, linear: false,
        "SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5)
         FROM bids x, bids y WHERE x.broker_id = y.broker_id GROUP BY x.broker_id"
    ),
    query!(
        "missedtrades", 1, 1, Source::Book, bare::finance::Missedtrades, linear: true,
        "SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) FROM bids b, asks a
         WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1)
             > COALESCE((SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price), 0)
           AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1)
             > COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price), 0)
         GROUP BY b.broker_id"
    ),
    query!(
        "countone", 0, 1, Source::Book, bare::finance::Countone, linear: false,
        "SELECT COUNT(*) FROM bids"
    ),
    query!(
        "q1", 2, 5,
        Source::Tpch(&[("lineitem", &[
            "returnflag", "linestatus", "quantity", "extendedprice", "discount", "tax", "shipdate",
        ])]),
        bare::tpch::Q1, linear: false,
        "SELECT returnflag, linestatus, SUM(quantity), SUM(extendedprice),
                SUM(extendedprice * (1 - discount)),
                SUM(extendedprice * (1 - discount) * (1 + tax)), COUNT(*)
         FROM lineitem WHERE shipdate <= DATE '1997-09-01' GROUP BY returnflag, linestatus"
    ),
    query!(
        "q3", 3, 1,
        Source::Tpch(&[
            ("lineitem", &["orderkey", "extendedprice", "discount", "shipdate"]),
            ("orders", &["orderkey", "custkey", "orderdate", "shippriority"]),
            ("customer", &["custkey", "mktsegment"]),
        ]),
        bare::tpch::Q3, linear: false,
        "SELECT o.orderkey, o.orderdate, o.shippriority,
                SUM(l.extendedprice * (1 - l.discount))
         FROM customer c, orders o, lineitem l
         WHERE c.mktsegment = 'BUILDING' AND o.custkey = c.custkey AND l.orderkey = o.orderkey
           AND o.orderdate < DATE '1995-03-15' AND l.shipdate > DATE '1995-03-15'
         GROUP BY o.orderkey, o.orderdate, o.shippriority"
    ),
    query!(
        "q4", 1, 1,
        Source::Tpch(&[
            ("lineitem", &["orderkey", "commitdate", "receiptdate"]),
            ("orders", &["orderkey", "orderdate", "orderpriority"]),
        ]),
        bare::tpch::Q4, linear: false,
        "SELECT o.orderpriority, COUNT(*) FROM orders o
         WHERE o.orderdate >= DATE '1993-07-01' AND o.orderdate < DATE '1993-10-01'
           AND EXISTS (SELECT * FROM lineitem l
                       WHERE l.orderkey = o.orderkey AND l.commitdate < l.receiptdate)
         GROUP BY o.orderpriority"
    ),
    query!(
        "q6", 0, 1,
        Source::Tpch(&[("lineitem", &["shipdate", "discount", "quantity", "extendedprice"])]),
        bare::tpch::Q6, linear: false,
        "SELECT SUM(extendedprice * discount) FROM lineitem
         WHERE shipdate >= DATE '1994-01-01' AND shipdate < DATE '1995-01-01'
           AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24"
    ),
    query!(
        "q11a", 1, 1,
        Source::Tpch(&[
            ("partsupp", &["partkey", "suppkey", "availqty", "supplycost"]),
            ("supplier", &["suppkey"]),
        ]),
        bare::tpch::Q11a, linear: false,
        "SELECT ps.partkey, SUM(ps.supplycost * ps.availqty) FROM partsupp ps, supplier s
         WHERE ps.suppkey = s.suppkey GROUP BY ps.partkey"
    ),
    query!(
        "q12", 1, 2,
        Source::Tpch(&[
            ("lineitem", &["orderkey", "shipmode", "shipdate", "commitdate", "receiptdate"]),
            ("orders", &["orderkey", "orderpriority"]),
        ]),
        bare::tpch::Q12, linear: false,
        "SELECT l.shipmode,
                SUM(CASE WHEN o.orderpriority = '1-URGENT' OR o.orderpriority = '2-HIGH'
                         THEN 1 ELSE 0 END),
                SUM(CASE WHEN o.orderpriority <> '1-URGENT' AND o.orderpriority <> '2-HIGH'
                         THEN 1 ELSE 0 END)
         FROM orders o, lineitem l
         WHERE o.orderkey = l.orderkey AND l.shipmode IN ('MAIL', 'SHIP')
           AND l.commitdate < l.receiptdate AND l.shipdate < l.commitdate
           AND l.receiptdate >= DATE '1994-01-01' AND l.receiptdate < DATE '1995-01-01'
         GROUP BY l.shipmode"
    ),
    query!(
        "q14", 0, 2,
        Source::Tpch(&[
            ("lineitem", &["partkey", "extendedprice", "discount", "shipdate"]),
            ("part", &["partkey", "ptype"]),
        ]),
        bare::tpch::Q14, linear: false,
        "SELECT SUM(CASE WHEN p.ptype LIKE 'PROMO%' THEN l.extendedprice * (1 - l.discount)
                         ELSE 0 END),
                SUM(l.extendedprice * (1 - l.discount))
         FROM lineitem l, part p
         WHERE l.partkey = p.partkey
           AND l.shipdate >= DATE '1995-09-01' AND l.shipdate < DATE '1995-10-01'"
    ),
    query!(
        "q17a", 0, 1,
        Source::Tpch(&[
            ("lineitem", &["partkey", "quantity", "extendedprice"]),
            ("part", &["partkey"]),
        ]),
        bare::tpch::Q17a, linear: true,
        "SELECT SUM(l.extendedprice) FROM lineitem l, part p
         WHERE p.partkey = l.partkey
           AND l.quantity < 0.005 * (SELECT SUM(l2.quantity) FROM lineitem l2
                                     WHERE l2.partkey = p.partkey)"
    ),
    query!(
        "q18a", 1, 1,
        Source::Tpch(&[
            ("lineitem", &["orderkey", "quantity"]),
            ("orders", &["orderkey", "custkey"]),
            ("customer", &["custkey"]),
        ]),
        bare::tpch::Q18a, linear: false,
        "SELECT c.custkey, SUM(l1.quantity) FROM customer c, orders o, lineitem l1
         WHERE 1 <= (SELECT SUM(1) FROM lineitem l2
                     WHERE l1.orderkey = l2.orderkey
                       AND 100 < (SELECT SUM(l3.quantity) FROM lineitem l3
                                  WHERE l2.orderkey = l3.orderkey))
           AND c.custkey = o.custkey AND o.orderkey = l1.orderkey
         GROUP BY c.custkey"
    ),
];
