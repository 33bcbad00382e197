//! COPY FROM … (FORMAT orderbook): messages of a stock exchange as changes of one side of the book.
//!
//! A line is `t,id,action,volume,price`. Action `B` adds a bid and `S` an ask; `E` executes `volume` of
//! the order with that id (bids are searched first), which leaves the book when no volume remains;
//! `D` and `F` delete the order. Other actions, and unknown ids, are ignored. The broker of an
//! order is its id modulo the number of brokers (option `brokers`, 10).
//!
//! Both sides of the book are kept, since an id does not say on which side its order stands. Only
//! changes of the side that the option `book` names become events: inserted and deleted tuples
//! (t, id, broker, volume, price). A stream gets every event, in order; a table gets the orders
//! that remain at the end. DBToaster's finance benchmark reads its files in this way.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use halcyon_store::ValueRef;
use halcyon_txn::{Mode, Transaction};

use crate::{CopyKind, DataPlace};
use halcyon_catalog::{Privilege, Table};
use halcyon_exec::dml::bulk::{Late, Writer};
use halcyon_exec::dml::{Scope, Target, WriteContext};
use halcyon_exec::upkeep::FedViews;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::{Env, Locks};
use halcyon_sql::coerce::Arena;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::{CopyOrders, Side};
use halcyon_sql::types::SqlType;
use halcyon_sql::values::ArrayWriter;

/// A bound COPY of orders.
pub(super) struct Orders {
    pub(super) whole: Vec<(usize, Mode)>,
    at: usize,
    writer: Writer,
    target: Target,
    views: FedViews,
    book: Side,
    brokers: u64,
}

/// Types that the columns of the table must have.
const COLUMNS: [(&str, &[SqlType]); 5] = [
    ("t", &[SqlType::Double]),
    ("id", &[SqlType::Integer, SqlType::BigInt]),
    ("broker", &[SqlType::Integer, SqlType::BigInt]),
    ("volume", &[SqlType::Double]),
    ("price", &[SqlType::Double]),
];

/// Binds the COPY. Errors: 42P01, 42809, 42501, 42804 for a table of other columns.
pub fn bind(binder: &Binder<'_>, copy: &CopyOrders, text: &str) -> Result<crate::CopyPlan> {
    let options = crate::Options::from_ast(&[], &[], false)?;
    let place = match &copy.path {
        Some(path) => DataPlace::File(crate::permitted_file(binder, path)?),
        None => DataPlace::Client,
    };
    let table = halcyon_exec::dml::find_target(binder, &copy.table, "copy to")?;
    binder.catalog.require_on_table(&binder.session.user, &table, Privilege::Insert)?;
    check_columns(&table)?;
    let mut scope = Scope::new(binder, text, Vec::new());
    let target = Target::bind(&mut scope, &table, None)?;
    let at = target.at;
    scope.need_whole(at, Mode::Exclusive);
    let views = scope.feed(&table)?;
    let (tables, whole, deferrable) = scope.into_parts();
    let writer = Writer::for_table(Target::without_references(binder, &table, None)?);
    let (book, brokers) = (copy.book, copy.brokers);
    let orders = Orders { whole, at, writer, target, views, book, brokers };
    let kind = CopyKind::Orders(Box::new(orders));
    Ok(crate::CopyPlan { tables, options, place, kind, deferrable })
}

fn check_columns(table: &Table) -> Result<()> {
    let columns = &table.columns;
    let fits = columns.len() == COLUMNS.len()
        && columns.iter().zip(COLUMNS).all(|(column, (_, types))| types.contains(&column.ty));
    match fits && table.foreign_keys.is_empty() {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("\"{}\" cannot take orders", table.name),
        )
        .detail(
            "Its columns must be t, id, broker, volume and price: double precision, integer, \
             integer, double precision, double precision; and it must refer to no other table.",
        )),
    }
}

/// An order of the book.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Order {
    t: f64,
    id: i64,
    volume: f64,
    price: f64,
}

/// Both sides of the book.
#[derive(Default)]
struct Book {
    bids: HashMap<i64, Order>,
    asks: HashMap<i64, Order>,
}

impl Book {
    fn side(&mut self, side: Side) -> &mut HashMap<i64, Order> {
        match side {
            Side::Bids => &mut self.bids,
            Side::Asks => &mut self.asks,
        }
    }

    /// Applies one message; reports the orders that leave (−1) and enter (1) the book.
    fn message(&mut self, action: &str, order: Order, tell: &mut impl FnMut(Side, Order, i8)) {
        let coming = match action {
            "B" => Some(Side::Bids),
            "S" => Some(Side::Asks),
            _ => None,
        };
        if let Some(side) = coming {
            // An id that is used again replaces its order: the book has one order per id.
            if let Some(old) = self.side(side).insert(order.id, order) {
                tell(side, old, -1);
            }
            return tell(side, order, 1);
        }
        if !matches!(action, "E" | "D" | "F") {
            return;
        }
        let side = if self.bids.contains_key(&order.id) { Side::Bids } else { Side::Asks };
        let Some(old) = self.side(side).remove(&order.id) else { return };
        tell(side, old, -1);
        let rest = Order { volume: old.volume - order.volume, ..old };
        if action == "E" && rest.volume > 0.0 {
            self.side(side).insert(rest.id, rest);
            tell(side, rest, 1);
        }
    }
}

/// Fields of a line.
pub(super) const FIELDS: [&str; 5] = ["t", "order id", "action", "volume", "price"];

/// Longest line: no message comes near.
const LINE_BYTES_MAX: usize = 1 << 16;

/// Messages that have come so far, and the book after them.
#[derive(Default)]
pub(super) struct OrdersIn {
    book: Book,
    /// Events of the side that the option `book` names, if the target is a stream.
    events: Vec<(Order, i8)>,
    /// The beginning of a line whose end has not come.
    pending: Vec<u8>,
    line: u64,
    ended: bool,
}

impl OrdersIn {
    /// Messages taken so far.
    pub(super) fn messages(&self) -> u64 {
        self.line
    }

    /// Takes bytes, cut anywhere. Errors: 22P04 with line and field.
    pub(super) fn push(&mut self, orders: &Orders, bytes: &[u8]) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            if pending.is_empty() {
                self.take(orders, &rest[..end])?;
            } else {
                pending.extend_from_slice(&rest[..end]);
                self.take(orders, &pending)?;
                pending.clear();
            }
            rest = &rest[end + 1..];
        }
        pending.extend_from_slice(rest);
        if pending.len() > LINE_BYTES_MAX {
            self.line += 1;
            return Err(self.malformed(orders, "the line is too long"));
        }
        self.pending = pending;
        Ok(())
    }

    /// Gives the events to the stream, or the remaining orders to the table. Returns the number of
    /// events or rows stored.
    ///
    /// Errors: 22P04 of the last line; 23514 and what else a row can be refused for. The caller
    /// takes everything back.
    pub(super) fn finish(
        mut self,
        orders: &Orders,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<u64> {
        let last = std::mem::take(&mut self.pending);
        self.take(orders, &last)?;
        match orders.writer.table().is_stream() {
            true => orders.pass(&self.events, env, tx),
            false => orders.store(self.book, env, tx, locks),
        }
    }

    fn take(&mut self, orders: &Orders, line: &[u8]) -> Result<()> {
        self.line += 1;
        let text = std::str::from_utf8(line).map_err(|_| self.malformed(orders, "no UTF-8"))?;
        let text = text.trim();
        self.ended |= text == "\\.";
        if self.ended || text.is_empty() {
            return Ok(());
        }
        let (action, order) = parse(text).map_err(|what| self.malformed(orders, &what))?;
        let is_stream = orders.writer.table().is_stream();
        self.book.message(action, order, &mut |side, order, weight| {
            if is_stream && side == orders.book {
                self.events.push((order, weight));
            }
        });
        Ok(())
    }

    fn malformed(&self, orders: &Orders, what: &str) -> SqlError {
        SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "malformed message of an order book")
            .detail(format!("Line {}: {what}.", self.line))
            .context(format!("COPY {}, line {}", orders.writer.table().name, self.line))
    }
}

/// The action and the order of a line. Errors: what is wrong, and the field's number and name.
fn parse(line: &str) -> Result<(&str, Order), String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("{} fields, not {}", fields.len(), FIELDS.len()));
    }
    let bad = |at: usize| format!("field {} ({}): \"{}\"", at + 1, FIELDS[at], fields[at]);
    let number = |at: usize| {
        let number = fields[at].parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| bad(at))
    };
    let id = fields[1].parse::<i64>().map_err(|_| bad(1))?;
    let action = fields[2];
    if action.len() != 1 || !action.as_bytes()[0].is_ascii_uppercase() {
        return Err(bad(2));
    }
    Ok((action, Order { t: number(0)?, id, volume: number(3)?, price: number(4)? }))
}

impl Orders {
    /// Errors: 22003 for an id or a broker that is no integer of the column's width.
    fn row(&self, order: &Order) -> Result<[ValueRef<'static>; COLUMNS.len()]> {
        let columns = &self.writer.table().columns;
        let integer = |value: i64, column: usize| match columns[column].ty {
            SqlType::Integer => i32::try_from(value).map(ValueRef::Int32).map_err(|_| {
                SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
                    .detail(format!("Order {} in column \"{}\".", order.id, columns[column].name))
            }),
            _ => Ok(ValueRef::Int64(value)),
        };
        let broker = i128::from(order.id).rem_euclid(i128::from(self.brokers)) as i64;
        Ok([
            ValueRef::Float64(order.t),
            integer(order.id, 1)?,
            integer(broker, 2)?,
            ValueRef::Float64(order.volume),
            ValueRef::Float64(order.price),
        ])
    }

    /// Gives events to the views of a stream.
    fn pass(&self, events: &[(Order, i8)], env: &Env<'_>, tx: &mut Transaction) -> Result<u64> {
        let mut rows = Vec::with_capacity(events.len());
        let mut arena = Arena::new();
        for (order, weight) in events {
            let row = self.row(order)?;
            self.target.verify(&row, env, &arena)?;
            arena.reset();
            rows.push((row.to_vec(), *weight));
        }
        let since = tx.savepoint();
        let stream = (self.writer.table().id, rows.as_slice());
        self.views.end_with(&since, Some(stream), env, tx)?;
        Ok(rows.len() as u64)
    }

    /// Stores what is left of a side.
    fn store(
        &self,
        mut book: Book,
        env: &Env<'_>,
        tx: &mut Transaction,
        locks: &Locks,
    ) -> Result<u64> {
        let mut orders: Vec<Order> = book.side(self.book).values().copied().collect();
        orders.sort_by(|one, other| one.t.total_cmp(&other.t).then(one.id.cmp(&other.id)));
        let table: &Arc<Table> = self.writer.table();
        let column = |at: usize| -> Result<ArrayRef> {
            let mut writer = ArrayWriter::for_storage(table.columns[at].ty, orders.len());
            orders.iter().try_for_each(|order| writer.push(self.row(order)?[at]))?;
            Ok(writer.finish())
        };
        let columns = (0..COLUMNS.len()).map(column).collect::<Result<Vec<_>>>()?;
        let since = self.views.begin(tx);
        let mut cx = WriteContext::new(env, tx, locks);
        let partitions = 0..table.cells.len() as u32;
        let handles: Vec<_> = partitions.map(|partition| cx.lock(self.at, partition)).collect();
        let stored = self.writer.append(&mut cx, &handles, columns, &mut Late::new())?;
        if let Some(since) = since {
            self.views.end(&since, env, tx)?;
        }
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_change_the_book_as_the_exchange_says() {
        let mut book = Book::default();
        let mut told = Vec::new();
        for line in [
            "1,7,B,100,10",
            "2,8,S,50,11",
            "3,7,E,30,0",
            "4,9,D,0,0",
            "5,8,X,1,1",
            "6,8,F,0,0",
            "7,7,E,70,0",
            "8,7,D,0,0",
        ] {
            let (action, order) = parse(line).unwrap();
            let t = order.t;
            book.message(action, order, &mut |side, order, weight| {
                told.push((t as u32, side, order.t as u32, order.volume as u32, weight));
            });
        }
        assert_eq!(
            told,
            [
                (1, Side::Bids, 1, 100, 1),
                (2, Side::Asks, 2, 50, 1),
                (3, Side::Bids, 1, 100, -1),
                (3, Side::Bids, 1, 70, 1),
                (6, Side::Asks, 2, 50, -1),
                (7, Side::Bids, 1, 70, -1),
            ]
        );
        assert!(book.bids.is_empty() && book.asks.is_empty());
    }

    #[test]
    fn a_malformed_line_names_its_field() {
        for (line, wrong) in [
            ("1,2,B,3", "4 fields, not 5"),
            ("x,2,B,3,4", "field 1 (t): \"x\""),
            ("1,2.5,B,3,4", "field 2 (order id): \"2.5\""),
            ("1,2,buy,3,4", "field 3 (action): \"buy\""),
            ("1,2,B,,4", "field 4 (volume): \"\""),
            ("1,2,B,3,inf", "field 5 (price): \"inf\""),
        ] {
            assert_eq!(parse(line).unwrap_err(), wrong, "{line}");
        }
    }
}
