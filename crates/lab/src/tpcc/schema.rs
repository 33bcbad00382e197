//! The nine tables (clause 1.3): columns, keys, indexes, and their SQL for each kind of engine.
//!
//! Tables are created in the order of [`Table::ALL`], which is the order in which every
//! transaction first touches them: engines that lock tables or partitions in order of creation
//! and engines that lock them as statements come then agree, and no circle of waits can close.

use std::fmt::Write;

/// One of the nine tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// What is sold; never changes.
    Item,
    /// A warehouse, the unit that everything but items belongs to.
    Warehouse,
    /// Ten districts a warehouse.
    District,
    /// Customers of a district.
    Customer,
    /// Payments; no key, only ever added to.
    History,
    /// Orders that wait for delivery.
    NewOrder,
    /// Orders.
    Orders,
    /// Items in stock at a warehouse.
    Stock,
    /// Lines of orders.
    OrderLine,
}

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A number of 32 bits.
    Int,
    /// Money: so many digits, two behind the point.
    Money(u8),
    /// A tax or a discount: four digits, all behind the point.
    Rate,
    /// Text of at most so many characters.
    Text(u16),
    /// A moment, to the microsecond.
    Time,
}

/// A column and whether it may be NULL.
pub struct Column {
    /// The column's name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: ColumnKind,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// The types that an engine has, and its additions to the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// NUMERIC and TIMESTAMP, and tables in so many partitions by warehouse.
    Halcyon {
        /// Partitions of every table but `item`.
        partitions: u32,
    },
    /// Money in whole cents and moments in microseconds, both as integers: SQLite, which has
    /// neither type, and PostgreSQL, whose numbers of arbitrary size would be a handicap.
    Integers,
    /// NUMERIC and TIMESTAMP: H2 and HSQLDB.
    Java,
}

impl Table {
    /// In order of creation, which is the order of locks.
    pub const ALL: [Table; 9] = [
        Table::Item,
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::History,
        Table::NewOrder,
        Table::Orders,
        Table::Stock,
        Table::OrderLine,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Item => "item",
            Table::Warehouse => "warehouse",
            Table::District => "district",
            Table::Customer => "customer",
            Table::History => "history",
            Table::NewOrder => "new_order",
            Table::Orders => "orders",
            Table::Stock => "stock",
            Table::OrderLine => "order_line",
        }
    }

    /// The columns, in order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Table::Item => ITEM,
            Table::Warehouse => WAREHOUSE,
            Table::District => DISTRICT,
            Table::Customer => CUSTOMER,
            Table::History => HISTORY,
            Table::NewOrder => NEW_ORDER,
            Table::Orders => ORDERS,
            Table::Stock => STOCK,
            Table::OrderLine => ORDER_LINE,
        }
    }

    /// Columns of the primary key; none of `history`.
    pub fn key(self) -> &'static str {
        match self {
            Table::Item => "i_id",
            Table::Warehouse => "w_id",
            Table::District => "d_w_id, d_id",
            Table::Customer => "c_w_id, c_d_id, c_id",
            Table::History => "",
            Table::NewOrder => "no_w_id, no_d_id, no_o_id",
            Table::Orders => "o_w_id, o_d_id, o_id",
            Table::Stock => "s_w_id, s_i_id",
            Table::OrderLine => "ol_w_id, ol_d_id, ol_o_id, ol_number",
        }
    }

    /// The column that names the warehouse; none of `item`.
    pub fn warehouse_column(self) -> Option<&'static str> {
        match self {
            Table::Item => None,
            Table::Warehouse => Some("w_id"),
            Table::District => Some("d_w_id"),
            Table::Customer => Some("c_w_id"),
            Table::History => Some("h_w_id"),
            Table::NewOrder => Some("no_w_id"),
            Table::Orders => Some("o_w_id"),
            Table::Stock => Some("s_w_id"),
            Table::OrderLine => Some("ol_w_id"),
        }
    }

    /// `INSERT INTO … VALUES ($1, …)` of a whole row.
    pub fn insert(self) -> String {
        let places: Vec<String> = (1..=self.columns().len()).map(|at| format!("${at}")).collect();
        format!("INSERT INTO {} VALUES ({})", self.name(), places.join(", "))
    }
}

/// Indexes beside the primary keys: customers by name, and a customer's last order.
const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE UNIQUE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// The statements that make all tables and indexes.
pub fn statements(dialect: Dialect) -> Vec<String> {
    let tables = Table::ALL.iter().map(|table| create(*table, dialect));
    tables.chain(INDEXES.map(ToOwned::to_owned)).collect()
}

fn create(table: Table, dialect: Dialect) -> String {
    let mut text = format!("CREATE TABLE {} (", table.name());
    for (at, column) in table.columns().iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        let kind = type_name(column.kind, dialect);
        write!(text, "{comma}{} {kind}{not_null}", column.name).expect("text");
    }
    if !table.key().is_empty() {
        write!(text, ", PRIMARY KEY ({})", table.key()).expect("text");
    }
    text.push(')');
    if let (Dialect::Halcyon { partitions: 2.. }, Some(column)) =
        (dialect, table.warehouse_column())
    {
        let Dialect::Halcyon { partitions } = dialect else { unreachable!("matched above") };
        write!(text, " WITH (partition_by = '{column}', partitions = {partitions})").expect("text");
    }
    text
}

fn type_name(kind: ColumnKind, dialect: Dialect) -> String {
    match (kind, dialect) {
        (ColumnKind::Int, _) => "INTEGER".into(),
        (ColumnKind::Text(length), _) => format!("VARCHAR({length})"),
        (ColumnKind::Money(_) | ColumnKind::Rate | ColumnKind::Time, Dialect::Integers) => {
            "BIGINT".into()
        }
        (ColumnKind::Money(digits), _) => format!("NUMERIC({digits},2)"),
        (ColumnKind::Rate, _) => "NUMERIC(4,4)".into(),
        (ColumnKind::Time, _) => "TIMESTAMP".into(),
    }
}

const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, nullable: false }
}

const fn nullable(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, nullable: true }
}

use ColumnKind::{Int, Money, Rate, Text, Time};

const ITEM: &[Column] = &[
    column("i_id", Int),
    column("i_im_id", Int),
    column("i_name", Text(24)),
    column("i_price", Money(5)),
    column("i_data", Text(50)),
];

const WAREHOUSE: &[Column] = &[
    column("w_id", Int),
    column("w_name", Text(10)),
    column("w_street_1", Text(20)),
    column("w_street_2", Text(20)),
    column("w_city", Text(20)),
    column("w_state", Text(2)),
    column("w_zip", Text(9)),
    column("w_tax", Rate),
    column("w_ytd", Money(12)),
];

const DISTRICT: &[Column] = &[
    column("d_w_id", Int),
    column("d_id", Int),
    column("d_name", Text(10)),
    column("d_street_1", Text(20)),
    column("d_street_2", Text(20)),
    column("d_city", Text(20)),
    column("d_state", Text(2)),
    column("d_zip", Text(9)),
    column("d_tax", Rate),
    column("d_ytd", Money(12)),
    column("d_next_o_id", Int),
];

const CUSTOMER: &[Column] = &[
    column("c_w_id", Int),
    column("c_d_id", Int),
    column("c_id", Int),
    column("c_first", Text(16)),
    column("c_middle", Text(2)),
    column("c_last", Text(16)),
    column("c_street_1", Text(20)),
    column("c_street_2", Text(20)),
    column("c_city", Text(20)),
    column("c_state", Text(2)),
    column("c_zip", Text(9)),
    column("c_phone", Text(16)),
    column("c_since", Time),
    column("c_credit", Text(2)),
    column("c_credit_lim", Money(12)),
    column("c_discount", Rate),
    column("c_balance", Money(12)),
    column("c_ytd_payment", Money(12)),
    column("c_payment_cnt", Int),
    column("c_delivery_cnt", Int),
    column("c_data", Text(500)),
];

const HISTORY: &[Column] = &[
    column("h_c_id", Int),
    column("h_c_d_id", Int),
    column("h_c_w_id", Int),
    column("h_d_id", Int),
    column("h_w_id", Int),
    column("h_date", Time),
    column("h_amount", Money(6)),
    column("h_data", Text(24)),
];

const NEW_ORDER: &[Column] =
    &[column("no_w_id", Int), column("no_d_id", Int), column("no_o_id", Int)];

const ORDERS: &[Column] = &[
    column("o_w_id", Int),
    column("o_d_id", Int),
    column("o_id", Int),
    column("o_c_id", Int),
    column("o_entry_d", Time),
    nullable("o_carrier_id", Int),
    column("o_ol_cnt", Int),
    column("o_all_local", Int),
];

const STOCK: &[Column] = &[
    column("s_w_id", Int),
    column("s_i_id", Int),
    column("s_quantity", Int),
    column("s_dist_01", Text(24)),
    column("s_dist_02", Text(24)),
    column("s_dist_03", Text(24)),
    column("s_dist_04", Text(24)),
    column("s_dist_05", Text(24)),
    column("s_dist_06", Text(24)),
    column("s_dist_07", Text(24)),
    column("s_dist_08", Text(24)),
    column("s_dist_09", Text(24)),
    column("s_dist_10", Text(24)),
    column("s_ytd", Int),
    column("s_order_cnt", Int),
    column("s_remote_cnt", Int),
    column("s_data", Text(50)),
];

const ORDER_LINE: &[Column] = &[
    column("ol_w_id", Int),
    column("ol_d_id", Int),
    column("ol_o_id", Int),
    column("ol_number", Int),
    column("ol_i_id", Int),
    column("ol_supply_w_id", Int),
    nullable("ol_delivery_d", Time),
    column("ol_quantity", Int),
    column("ol_amount", Money(6)),
    column("ol_dist_info", Text(24)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_by_warehouse_and_never_of_items() {
        let texts = statements(Dialect::Halcyon { partitions: 4 });
        assert!(texts[1].ends_with("WITH (partition_by = 'w_id', partitions = 4)"), "{}", texts[1]);
        assert!(!texts[0].contains("WITH"), "{}", texts[0]);
        assert!(!statements(Dialect::Halcyon { partitions: 1 }).concat().contains("WITH"));
    }

    #[test]
    fn money_is_a_number_of_cents_where_the_engine_has_no_decimals() {
        let text = create(Table::Orders, Dialect::Integers);
        assert!(text.contains("o_entry_d BIGINT NOT NULL, o_carrier_id INTEGER, "), "{text}");
        let text = create(Table::District, Dialect::Java);
        assert!(text.contains("d_tax NUMERIC(4,4) NOT NULL, d_ytd NUMERIC(12,2)"), "{text}");
    }
}
