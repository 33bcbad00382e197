//! The queries: CH-benCHmark's 22, and those that hold in every state between transactions.

/// Texts of the 22 queries. Differences from the published ones: TPC-C's tables are named as here (`orders`,
/// `order_line`, `new_order`), and upper bounds of dates lie 20 years later, because the orders are of 2026.
pub const QUERIES: [&str; 22] = [
    include_str!("queries/q01.sql"),
    include_str!("queries/q02.sql"),
    include_str!("queries/q03.sql"),
    include_str!("queries/q04.sql"),
    include_str!("queries/q05.sql"),
    include_str!("queries/q06.sql"),
    include_str!("queries/q07.sql"),
    include_str!("queries/q08.sql"),
    include_str!("queries/q09.sql"),
    include_str!("queries/q10.sql"),
    include_str!("queries/q11.sql"),
    include_str!("queries/q12.sql"),
    include_str!("queries/q13.sql"),
    include_str!("queries/q14.sql"),
    include_str!("queries/q15.sql"),
    include_str!("queries/q16.sql"),
    include_str!("queries/q17.sql"),
    include_str!("queries/q18.sql"),
    include_str!("queries/q19.sql"),
    include_str!("queries/q20.sql"),
    include_str!("queries/q21.sql"),
    include_str!("queries/q22.sql"),
];

/// Queries of one truth value, which is true between transactions of TPC-C: the consistency conditions 1 to 6 as far as
/// one sum or count shows them (clause 3.3.2). A snapshot with a part of a transaction makes one of them false.
pub const PINS: [&str; 5] = [
    "SELECT (SELECT sum(w_ytd) FROM warehouse) = (SELECT sum(d_ytd) FROM district)",
    "SELECT (SELECT sum(w_ytd) FROM warehouse) = (SELECT sum(h_amount) FROM history)",
    "SELECT (SELECT sum(d_next_o_id - 1) FROM district) = (SELECT count(*) FROM orders)",
    "SELECT (SELECT count(*) FROM orders WHERE o_carrier_id IS NULL) = (SELECT count(*) FROM new_order)",
    "SELECT (SELECT sum(o_ol_cnt) FROM orders) = (SELECT count(*) FROM order_line)",
];
