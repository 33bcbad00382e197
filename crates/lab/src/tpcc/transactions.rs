//! The five transactions (clauses 2.4 to 2.8) over any engine that speaks SQL, statement by
//! statement: what an application with a connection does.
//!
//! Tables are first touched in the order of [`super::schema::Table::ALL`]. Order-Status reads
//! customer, orders, lines; New-Order reads the customer before it inserts; Delivery learns the
//! customer from the order and so would touch `customer` last, but takes a lock there first.

use std::hint::black_box;

use halcyon::{RowSet, Value, ValueRef};

use super::input::{Delivery, Input, Line, NewOrder, OrderStatus, Payment, StockLevel, Type, Who};
use super::load::decimal;
use super::random::DISTRICTS;
use super::sql::Sql;
use super::{Done, Trouble};

/// A client's connection to an engine that speaks SQL.
pub trait Connection {
    /// Whether the engine locks tables or partitions, so that the order of locks matters.
    const TABLE_LOCKS: bool;

    /// Begins a transaction with this input.
    fn begin(&mut self, input: &Input) -> Done<()>;
    /// Commits it.
    fn commit(&mut self) -> Done<()>;
    /// Undoes it.
    fn rollback(&mut self) -> Done<()>;
    /// The rows of a statement, until the next call.
    fn query(&mut self, sql: Sql, params: &[Value]) -> Done<&RowSet>;
    /// Runs a statement; returns how many rows it concerned.
    fn execute(&mut self, sql: Sql, params: &[Value]) -> Done<u64>;
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The transaction was committed.
    Committed,
    /// The transaction was undone because an item did not exist: the 1 % of clause 2.4.1.4.
    RolledBack,
}

/// Runs a transaction once. After an error it is undone.
pub fn run<C: Connection>(connection: &mut C, input: &Input) -> Done<Ended> {
    let begun = connection.begin(input);
    let ended = begun.and_then(|()| steps(connection, input)).and_then(|ended| {
        match ended {
            Ended::Committed => connection.commit()?,
            Ended::RolledBack => connection.rollback()?,
        }
        Ok(ended)
    });
    if ended.is_err() {
        // The first error is reported; the engine may have undone the transaction by itself.
        let _ = connection.rollback();
    }
    ended
}

/// The statements between begin and commit.
pub fn steps<C: Connection>(connection: &mut C, input: &Input) -> Done<Ended> {
    match input {
        Input::NewOrder(input) => return new_order(connection, input),
        Input::Payment(input) => payment(connection, input)?,
        Input::OrderStatus(input) => order_status(connection, input)?,
        Input::Delivery(input) => delivery(connection, input)?,
        Input::StockLevel(input) => stock_level(connection, input)?,
    }
    Ok(Ended::Committed)
}

fn new_order<C: Connection>(connection: &mut C, input: &NewOrder) -> Done<Ended> {
    let (w, d) = (Value::Int32(input.w), Value::Int32(input.d));
    let tax = number(one(connection.query(Sql::WarehouseTax, std::slice::from_ref(&w))?)?, 0)?;
    let next = connection.query(Sql::DistrictNext, &[w.clone(), d.clone()])?;
    let (d_tax, id) = (number(one(next)?, 0)?, number(next, 1)? as i32);
    changed(connection.execute(Sql::DistrictAdvance, &[w.clone(), d.clone()])?, 1)?;
    let c = Value::Int32(input.c);
    let customer = connection.query(Sql::CustomerDiscount, &[w.clone(), d.clone(), c.clone()])?;
    let discount = number(one(customer)?, 0)?;
    let order = Value::Int32(id);
    let waits = [w.clone(), d.clone(), order.clone()];
    changed(connection.execute(Sql::NewOrderInsert, &waits)?, 1)?;
    let all_local = input.lines.iter().all(|line| line.supply == input.w);
    let values = [
        w,
        d,
        order,
        c,
        Value::Timestamp(input.at),
        Value::Int32(input.lines.len() as i32),
        Value::Int32(i32::from(all_local)),
    ];
    changed(connection.execute(Sql::OrderInsert, &values)?, 1)?;
    let mut total = 0;
    for (number, line) in (1..).zip(&input.lines) {
        match order_line(connection, input, id, number, line)? {
            Some(amount) => total += amount,
            None => return Ok(Ended::RolledBack),
        }
    }
    // The total that the terminal would show, in ten-thousandths of a cent, twice.
    black_box(total * (10_000 - discount) * (10_000 + tax + d_tax));
    Ok(Ended::Committed)
}

/// Runs one line of a new order; returns its price in cents, or `None` if the item does not exist.
fn order_line<C: Connection>(
    connection: &mut C,
    input: &NewOrder,
    id: i32,
    number_in_order: i32,
    line: &Line,
) -> Done<Option<i64>> {
    let item = connection.query(Sql::Item, &[Value::Int32(line.item)])?;
    if item.is_empty() {
        return Ok(None);
    }
    let price = number(one(item)?, 0)?;
    let original = text(item, 2)?.contains("ORIGINAL");
    let (supply, i_id) = (Value::Int32(line.supply), Value::Int32(line.item));
    let stock = connection.query(Sql::Stock(input.d as u8), &[supply.clone(), i_id.clone()])?;
    let quantity = number(one(stock)?, 0)? as i32;
    black_box(original && text(stock, 1)?.contains("ORIGINAL"));
    let dist_info = text(stock, 2)?.to_owned();
    let values = [
        Value::Int32(stock_after(quantity, line.quantity)),
        Value::Int32(line.quantity),
        Value::Int32(i32::from(line.supply != input.w)),
        supply.clone(),
        i_id.clone(),
    ];
    changed(connection.execute(Sql::StockUpdate, &values)?, 1)?;
    let amount = price * i64::from(line.quantity);
    let values = [
        Value::Int32(input.w),
        Value::Int32(input.d),
        Value::Int32(id),
        Value::Int32(number_in_order),
        i_id,
        supply,
        Value::Int32(line.quantity),
        decimal(amount),
        Value::Text(dist_info),
    ];
    changed(connection.execute(Sql::OrderLineInsert, &values)?, 1)?;
    Ok(Some(amount))
}

/// The stock after an order of `ordered`, refilled by 91 if it would become short (2.4.2.2).
pub fn stock_after(quantity: i32, ordered: i32) -> i32 {
    if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 }
}

fn payment<C: Connection>(connection: &mut C, input: &Payment) -> Done<()> {
    let (w, d) = (Value::Int32(input.w), Value::Int32(input.d));
    let amount = decimal(input.amount);
    changed(connection.execute(Sql::WarehousePay, &[amount.clone(), w.clone()])?, 1)?;
    let warehouse = connection.query(Sql::WarehouseAddress, std::slice::from_ref(&w))?;
    let mut paid_at = String::with_capacity(24);
    paid_at.push_str(text(one(warehouse)?, 0)?);
    let values = [amount.clone(), w.clone(), d.clone()];
    changed(connection.execute(Sql::DistrictPay, &values)?, 1)?;
    let district = connection.query(Sql::DistrictAddress, &[w.clone(), d.clone()])?;
    paid_at.push_str("    ");
    paid_at.push_str(text(one(district)?, 0)?);
    let id = find(connection, Sql::CustomersToPay, input.c_w, input.c_d, &input.who)?;
    let key = [Value::Int32(input.c_w), Value::Int32(input.c_d), Value::Int32(id)];
    let customer = connection.query(Sql::CustomerToPay, &key)?;
    let bad_credit = text(one(customer)?, 10)? == "BC";
    let [c_w, c_d, c] = &key;
    let values = [amount.clone(), amount.clone(), c_w.clone(), c_d.clone(), c.clone()];
    changed(connection.execute(Sql::CustomerPay, &values)?, 1)?;
    if bad_credit {
        let data = connection.query(Sql::CustomerData, &key)?;
        let noted = noted(input, id, text(one(data)?, 0)?);
        let values = [Value::Text(noted), c_w.clone(), c_d.clone(), c.clone()];
        changed(connection.execute(Sql::CustomerDataUpdate, &values)?, 1)?;
    }
    let [c_w, c_d, c] = key;
    let at = Value::Timestamp(input.at);
    let values = [c, c_d, c_w, d, w, at, amount, Value::Text(paid_at)];
    changed(connection.execute(Sql::HistoryInsert, &values)?, 1)
}

/// C_DATA of a customer with bad credit: this payment, then the previous text, cut at 500
/// characters.
pub fn noted(input: &Payment, id: i32, data: &str) -> String {
    let Payment { w, d, c_w, c_d, amount, .. } = input;
    let (whole, cents) = (amount / 100, amount % 100);
    let mut text = format!("{id} {c_d} {c_w} {d} {w} {whole}.{cents:02} | ");
    let room = 500 - text.len();
    text.push_str(data.get(..room).unwrap_or(data));
    text
}

fn order_status<C: Connection>(connection: &mut C, input: &OrderStatus) -> Done<()> {
    let id = find(connection, Sql::CustomersByName, input.w, input.d, &input.who)?;
    let key = [Value::Int32(input.w), Value::Int32(input.d), Value::Int32(id)];
    let customer = connection.query(Sql::CustomerStatus, &key)?;
    black_box(number(one(customer)?, 3)?);
    let last = connection.query(Sql::LastOrder, &key)?;
    let order = number(one(last)?, 0)? as i32;
    let [w, d, _] = key;
    let lines = connection.query(Sql::OrderLines, &[w, d, Value::Int32(order)])?;
    if !(5..=15).contains(&lines.len()) {
        return Err(wrong(format!("order {order} has {} lines", lines.len())));
    }
    black_box((0..lines.len()).try_fold(0, |sum, row| number_at(lines, row, 3).map(|n| sum + n))?);
    Ok(())
}

fn delivery<C: Connection>(connection: &mut C, input: &Delivery) -> Done<()> {
    let w = Value::Int32(input.w);
    if C::TABLE_LOCKS {
        one(connection.query(Sql::CustomerLock, &[w.clone(), Value::Int32(1), Value::Int32(1)])?)?;
    }
    for d in (1..=DISTRICTS).map(Value::Int32) {
        let oldest = connection.query(Sql::OldestNewOrder, &[w.clone(), d.clone()])?;
        if oldest.is_empty() {
            // No order waits: the district is skipped (2.7.4.2).
            continue;
        }
        let id = Value::Int32(number(oldest, 0)? as i32);
        let key = [w.clone(), d.clone(), id.clone()];
        changed(connection.execute(Sql::NewOrderDelete, &key)?, 1)?;
        let order = connection.query(Sql::OrderCustomer, &key)?;
        let customer = Value::Int32(number(one(order)?, 0)? as i32);
        let values = [Value::Int32(input.carrier), w.clone(), d.clone(), id.clone()];
        changed(connection.execute(Sql::OrderDeliver, &values)?, 1)?;
        let values = [Value::Timestamp(input.at), w.clone(), d.clone(), id];
        let lines = connection.execute(Sql::LinesDeliver, &values)?;
        if !(5..=15).contains(&lines) {
            return Err(wrong(format!("{lines} lines of an order were delivered")));
        }
        let amount = number(one(connection.query(Sql::LinesAmount, &key)?)?, 0)?;
        let values = [decimal(amount), w.clone(), d, customer];
        changed(connection.execute(Sql::CustomerDeliver, &values)?, 1)?;
    }
    Ok(())
}

fn stock_level<C: Connection>(connection: &mut C, input: &StockLevel) -> Done<()> {
    let (w, d) = (Value::Int32(input.w), Value::Int32(input.d));
    let next = number(one(connection.query(Sql::NextOrder, &[w.clone(), d.clone()])?)?, 0)? as i32;
    let values = [
        w.clone(),
        d,
        Value::Int32(next - 20),
        Value::Int32(next),
        w,
        Value::Int32(input.threshold),
    ];
    let short = number(one(connection.query(Sql::ShortItems, &values)?)?, 0)?;
    if !(0..=300).contains(&short) {
        return Err(wrong(format!("{short} items of twenty orders are short")));
    }
    Ok(())
}

/// The customer's number; of several customers of a name the middle one (2.5.2.2).
fn find<C: Connection>(connection: &mut C, by_name: Sql, w: i32, d: i32, who: &Who) -> Done<i32> {
    let name = match who {
        Who::Id(id) => return Ok(*id),
        Who::Name(name) => name,
    };
    let values = [Value::Int32(w), Value::Int32(d), Value::Text(name.clone())];
    let found = connection.query(by_name, &values)?;
    if found.is_empty() {
        return Err(wrong(format!("no customer is called {name}")));
    }
    Ok(number_at(found, (found.len() - 1) / 2, 0)? as i32)
}

fn wrong(what: String) -> Trouble {
    Trouble::Failed(crate::Failure::WrongAnswer(what))
}

/// The rows, if there is exactly one.
fn one(rows: &RowSet) -> Done<&RowSet> {
    if rows.len() == 1 { Ok(rows) } else { Err(wrong(format!("{} rows, not one", rows.len()))) }
}

fn changed(rows: u64, expected: u64) -> Done<()> {
    if rows == expected { Ok(()) } else { Err(wrong(format!("{rows} rows changed"))) }
}

/// A number of the first row: whole, cents or ten-thousandths.
fn number(rows: &RowSet, column: usize) -> Done<i64> {
    number_at(rows, 0, column)
}

fn number_at(rows: &RowSet, row: usize, column: usize) -> Done<i64> {
    match rows.value(row, column) {
        ValueRef::Int16(value) => Ok(value.into()),
        ValueRef::Int32(value) => Ok(value.into()),
        ValueRef::Int64(value) => Ok(value),
        ValueRef::Decimal(value) => Ok(value as i64),
        other => Err(wrong(format!("{other:?} is no number"))),
    }
}

/// A text of the first row.
fn text(rows: &RowSet, column: usize) -> Done<&str> {
    match rows.value(0, column) {
        ValueRef::Text(value) => Ok(value),
        other => Err(wrong(format!("{other:?} is no text"))),
    }
}

/// Types in the order of [`Type::ALL`], for tables of counts.
pub const TYPES: usize = Type::ALL.len();
