//! The statements of the five transactions, one text for every engine that speaks SQL.
//!
//! Parameters occur in the text in their order and once each, so that `$n` can become `?`. Rows
//! that will be changed are read FOR UPDATE: shared locks that are raised later cause deadlocks.
//! Engines without that clause get the text without it.

/// One of the prepared statements. Its number is its place in [`Sql::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sql {
    /// Tax of a warehouse.
    WarehouseTax,
    /// Discount, name and credit of a customer.
    CustomerDiscount,
    /// Tax and next order number of a district.
    DistrictNext,
    /// Counts the order number up.
    DistrictAdvance,
    /// A new order.
    OrderInsert,
    /// The order's entry in the queue of deliveries.
    NewOrderInsert,
    /// Price, name and data of an item.
    Item,
    /// Quantity and data of stock, and what is printed for district 1 to 10.
    Stock(u8),
    /// Takes from the stock.
    StockUpdate,
    /// A line of an order.
    OrderLineInsert,
    /// Adds to what the warehouse has.
    WarehousePay,
    /// Name and address of a warehouse.
    WarehouseAddress,
    /// Adds to what the district has.
    DistrictPay,
    /// Name and address of a district.
    DistrictAddress,
    /// Numbers of the customers of a name, in order of first names, to change one.
    CustomersToPay,
    /// A customer, to change it.
    CustomerToPay,
    /// Takes a payment from the balance.
    CustomerPay,
    /// Data of a customer with bad credit, to change it.
    CustomerData,
    /// Writes the customer's data.
    CustomerDataUpdate,
    /// The payment itself.
    HistoryInsert,
    /// Numbers of the customers of a name, in order of first names.
    CustomersByName,
    /// Name and balance of a customer.
    CustomerStatus,
    /// The last order of a customer.
    LastOrder,
    /// Lines of an order.
    OrderLines,
    /// Any row of `customer`, to have its lock before those of orders.
    CustomerLock,
    /// The oldest order that waits.
    OldestNewOrder,
    /// Takes the order from the queue.
    NewOrderDelete,
    /// The order's customer.
    OrderCustomer,
    /// Sets the order's carrier.
    OrderDeliver,
    /// Marks the order's lines as delivered.
    LinesDeliver,
    /// The sum of the lines' amounts.
    LinesAmount,
    /// Charges the customer.
    CustomerDeliver,
    /// The district's next order number.
    NextOrder,
    /// Number of items of the last orders whose stock is short.
    ShortItems,
}

use Sql::*;

/// Statements before the ten of [`Sql::Stock`], and after.
const PLAIN: [Sql; 33] = [
    WarehouseTax,
    CustomerDiscount,
    DistrictNext,
    DistrictAdvance,
    OrderInsert,
    NewOrderInsert,
    Item,
    StockUpdate,
    OrderLineInsert,
    WarehousePay,
    WarehouseAddress,
    DistrictPay,
    DistrictAddress,
    CustomersToPay,
    CustomerToPay,
    CustomerPay,
    CustomerData,
    CustomerDataUpdate,
    HistoryInsert,
    CustomersByName,
    CustomerStatus,
    LastOrder,
    OrderLines,
    CustomerLock,
    OldestNewOrder,
    NewOrderDelete,
    OrderCustomer,
    OrderDeliver,
    LinesDeliver,
    LinesAmount,
    CustomerDeliver,
    NextOrder,
    ShortItems,
];

impl Sql {
    /// All statements, each at its number.
    pub fn all() -> impl Iterator<Item = Sql> {
        PLAIN.into_iter().chain((1..=10).map(Stock))
    }

    /// The statement's place in [`Sql::all`].
    #[inline]
    pub fn number(self) -> usize {
        match self {
            Stock(district) => PLAIN.len() + usize::from(district) - 1,
            WarehouseTax => 0,
            CustomerDiscount => 1,
            DistrictNext => 2,
            DistrictAdvance => 3,
            OrderInsert => 4,
            NewOrderInsert => 5,
            Item => 6,
            StockUpdate => 7,
            OrderLineInsert => 8,
            WarehousePay => 9,
            WarehouseAddress => 10,
            DistrictPay => 11,
            DistrictAddress => 12,
            CustomersToPay => 13,
            CustomerToPay => 14,
            CustomerPay => 15,
            CustomerData => 16,
            CustomerDataUpdate => 17,
            HistoryInsert => 18,
            CustomersByName => 19,
            CustomerStatus => 20,
            LastOrder => 21,
            OrderLines => 22,
            CustomerLock => 23,
            OldestNewOrder => 24,
            NewOrderDelete => 25,
            OrderCustomer => 26,
            OrderDeliver => 27,
            LinesDeliver => 28,
            LinesAmount => 29,
            CustomerDeliver => 30,
            NextOrder => 31,
            ShortItems => 32,
        }
    }

    /// The name by which a driver in another process asks for it.
    pub fn name(self) -> String {
        match self {
            Stock(district) => format!("Stock{district}"),
            other => format!("{other:?}"),
        }
    }

    /// The text, with `$n` for parameters and FOR UPDATE.
    pub fn text(self) -> String {
        let text = match self {
            Stock(district) => {
                return format!(
                    "SELECT s_quantity, s_data, s_dist_{district:02} FROM stock \
                     WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE"
                );
            }
            WarehouseTax => "SELECT w_tax FROM warehouse WHERE w_id = $1",
            CustomerDiscount => {
                "SELECT c_discount, c_last, c_credit FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            DistrictNext => {
                "SELECT d_tax, d_next_o_id FROM district \
                 WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE"
            }
            DistrictAdvance => {
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2"
            }
            OrderInsert => "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)",
            NewOrderInsert => "INSERT INTO new_order VALUES ($1, $2, $3)",
            Item => "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
            StockUpdate => {
                "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, \
                 s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $3 \
                 WHERE s_w_id = $4 AND s_i_id = $5"
            }
            OrderLineInsert => {
                "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)"
            }
            WarehousePay => "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2",
            WarehouseAddress => {
                "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip \
                 FROM warehouse WHERE w_id = $1"
            }
            DistrictPay => "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3",
            DistrictAddress => {
                "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
                 FROM district WHERE d_w_id = $1 AND d_id = $2"
            }
            CustomersToPay => {
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
                 ORDER BY c_first FOR UPDATE"
            }
            CustomerToPay => {
                "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
                 c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance \
                 FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE"
            }
            CustomerPay => {
                "UPDATE customer SET c_balance = c_balance - $1, \
                 c_ytd_payment = c_ytd_payment + $2, c_payment_cnt = c_payment_cnt + 1 \
                 WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5"
            }
            CustomerData => {
                "SELECT c_data FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 FOR UPDATE"
            }
            CustomerDataUpdate => {
                "UPDATE customer SET c_data = $1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4"
            }
            HistoryInsert => "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            CustomersByName => {
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
                 ORDER BY c_first"
            }
            CustomerStatus => {
                "SELECT c_first, c_middle, c_last, c_balance FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3"
            }
            LastOrder => {
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1"
            }
            OrderLines => {
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                 FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            CustomerLock => {
                "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 \
                 FOR UPDATE"
            }
            OldestNewOrder => {
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                 ORDER BY no_o_id LIMIT 1 FOR UPDATE"
            }
            NewOrderDelete => {
                "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3"
            }
            OrderCustomer => {
                "SELECT o_c_id FROM orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 FOR UPDATE"
            }
            OrderDeliver => {
                "UPDATE orders SET o_carrier_id = $1 \
                 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4"
            }
            LinesDeliver => {
                "UPDATE order_line SET ol_delivery_d = $1 \
                 WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4"
            }
            LinesAmount => {
                "SELECT sum(ol_amount) FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3"
            }
            CustomerDeliver => {
                "UPDATE customer SET c_balance = c_balance + $1, \
                 c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4"
            }
            NextOrder => "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
            ShortItems => {
                "SELECT count(DISTINCT ol_i_id) FROM order_line, stock \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 \
                 AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $6"
            }
        };
        text.to_owned()
    }

    /// The text for an engine without FOR UPDATE.
    pub fn text_without_locks(self) -> String {
        self.text().replace(" FOR UPDATE", "")
    }
}

/// The text with `?` for every `$n`; these must occur in their order.
pub fn question_marks(text: &str) -> String {
    let mut parts = text.split('$');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push('?');
        result.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_stands_at_its_number() {
        for (at, sql) in Sql::all().enumerate() {
            assert_eq!(sql.number(), at, "{sql:?}");
        }
    }

    #[test]
    fn parameters_stand_in_their_order_and_once() {
        for sql in Sql::all() {
            let text = sql.text();
            let count = text.matches('$').count();
            let mut rest = text.as_str();
            for number in 1..=count {
                let at = rest.find('$').unwrap() + 1;
                rest = &rest[at..];
                assert!(rest.starts_with(&number.to_string()), "{text}");
            }
            assert_eq!(question_marks(&text).matches('?').count(), count);
        }
    }
}
