//! The same work by hand: structs in vectors and maps, one mutex per warehouse, no SQL, no undo.
//!
//! This is what the machine can do. An order's lines lie within the order, a customer knows its
//! last order, names lead to lists of customers in order of first names. A new order checks all its
//! items before it changes anything, so there is nothing to undo.
//!
//! The conditions are checked by SQL in Halcyon, into which the structs' contents are loaded.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard};

use halcyon::Value;

use super::halcyon::{Halcyon, Loading, Setup};
use super::{Client, Content, Engine};
use crate::tpcc::Done;
use crate::tpcc::input::{Delivery, Input, NewOrder, OrderStatus, Payment, StockLevel, Who};
use crate::tpcc::load::{decimal, populate};
use crate::tpcc::random::{DISTRICTS, Scale};
use crate::tpcc::schema::Table;
use crate::tpcc::transactions::{Ended, noted, stock_after};
use crate::{Failure, Result};

struct Item {
    price: i64,
    original: bool,
}

#[derive(Default)]
struct Customer {
    last: String,
    bad_credit: bool,
    discount: i64,
    balance: i64,
    ytd_payment: i64,
    payments: i32,
    deliveries: i32,
    data: String,
    first: String,
    last_order: i32,
}

#[derive(Default)]
struct Stock {
    quantity: i32,
    dist: [String; DISTRICTS as usize],
    ytd: i32,
    orders: i32,
    remote: i32,
    original: bool,
}

struct OrderLine {
    item: i32,
    supply: i32,
    delivered: Option<i64>,
    quantity: i32,
    amount: i64,
    dist: String,
}

struct Order {
    customer: i32,
    at: i64,
    carrier: Option<i32>,
    all_local: bool,
    lines: Vec<OrderLine>,
}

struct History {
    customer: (i32, i32, i32),
    d: i32,
    at: i64,
    amount: i64,
    data: String,
}

#[derive(Default)]
struct District {
    name: String,
    tax: i64,
    ytd: i64,
    /// Customer number `n` at `n - 1`.
    customers: Vec<Customer>,
    by_name: HashMap<String, Vec<i32>>,
    /// Order number `n` at `n - 1`.
    orders: Vec<Order>,
    waiting: VecDeque<i32>,
}

#[derive(Default)]
struct Warehouse {
    name: String,
    tax: i64,
    ytd: i64,
    districts: [District; DISTRICTS as usize],
    stock: Vec<Stock>,
    history: Vec<History>,
}

impl Warehouse {
    fn district(&mut self, d: i32) -> &mut District {
        &mut self.districts[d as usize - 1]
    }
}

struct World {
    items: Vec<Item>,
    warehouses: Vec<Mutex<Warehouse>>,
}

/// The structs.
pub struct Bare {
    world: Arc<World>,
    scale: Scale,
}

impl Bare {
    /// The structs with their content.
    pub fn loaded(content: Content) -> Result<Self> {
        let mut items = Vec::new();
        let mut warehouses = Vec::new();
        populate(content.scale, content.seed, &mut |table, values| {
            store(&mut items, &mut warehouses, table, &Fields(values));
            Ok(())
        })?;
        for district in warehouses.iter_mut().flat_map(|w: &mut Warehouse| &mut w.districts) {
            let District { by_name, customers, .. } = district;
            for ids in by_name.values_mut() {
                ids.sort_by(|a, b| {
                    let first = |id: &i32| &customers[*id as usize - 1].first;
                    first(a).cmp(first(b))
                });
            }
        }
        let warehouses = warehouses.into_iter().map(Mutex::new).collect();
        Ok(Bare { world: Arc::new(World { items, warehouses }), scale: content.scale })
    }
}

/// A row of the population.
struct Fields<'a>(&'a [Value]);

impl Fields<'_> {
    fn int(&self, at: usize) -> i32 {
        match self.0[at] {
            Value::Int32(value) => value,
            ref other => unreachable!("{other:?} at {at}"),
        }
    }

    fn cents(&self, at: usize) -> i64 {
        match self.0[at] {
            Value::Decimal(value) => value as i64,
            ref other => unreachable!("{other:?} at {at}"),
        }
    }

    fn time(&self, at: usize) -> Option<i64> {
        match self.0[at] {
            Value::Timestamp(value) => Some(value),
            Value::Null => None,
            ref other => unreachable!("{other:?} at {at}"),
        }
    }

    fn text(&self, at: usize) -> String {
        match &self.0[at] {
            Value::Text(value) => value.clone(),
            other => unreachable!("{other:?} at {at}"),
        }
    }
}

fn store(items: &mut Vec<Item>, all: &mut Vec<Warehouse>, table: Table, row: &Fields<'_>) {
    if table == Table::Item {
        items.push(Item { price: row.cents(3), original: row.text(4).contains("ORIGINAL") });
        return;
    }
    if table == Table::Warehouse {
        let (name, tax, ytd) = (row.text(1), row.cents(7), row.cents(8));
        all.push(Warehouse { name, tax, ytd, ..Warehouse::default() });
        return;
    }
    let w = row.int(if table == Table::History { 4 } else { 0 });
    let warehouse = &mut all[w as usize - 1];
    match table {
        Table::Stock => warehouse.stock.push(Stock {
            quantity: row.int(2),
            dist: std::array::from_fn(|d| row.text(3 + d)),
            original: row.text(16).contains("ORIGINAL"),
            ..Stock::default()
        }),
        Table::History => warehouse.history.push(History {
            customer: (row.int(2), row.int(1), row.int(0)),
            d: row.int(3),
            at: row.time(5).expect("NOT NULL"),
            amount: row.cents(6),
            data: row.text(7),
        }),
        _ => store_in_district(warehouse.district(row.int(1)), table, row),
    }
}

fn store_in_district(district: &mut District, table: Table, row: &Fields<'_>) {
    match table {
        Table::District => {
            (district.name, district.tax, district.ytd) = (row.text(2), row.cents(8), row.cents(9));
        }
        Table::Customer => {
            let id = row.int(2);
            district.by_name.entry(row.text(5)).or_default().push(id);
            district.customers.push(Customer {
                first: row.text(3),
                last: row.text(5),
                bad_credit: row.text(13) == "BC",
                discount: row.cents(15),
                balance: row.cents(16),
                ytd_payment: row.cents(17),
                payments: row.int(18),
                deliveries: row.int(19),
                data: row.text(20),
                last_order: 0,
            });
        }
        Table::NewOrder => district.waiting.push_back(row.int(2)),
        Table::Orders => {
            let customer = row.int(3);
            district.customers[customer as usize - 1].last_order = row.int(2);
            district.orders.push(Order {
                customer,
                at: row.time(4).expect("NOT NULL"),
                carrier: (row.0[5] != Value::Null).then(|| row.int(5)),
                all_local: row.int(7) == 1,
                lines: Vec::with_capacity(row.int(6) as usize),
            });
        }
        Table::OrderLine => district.orders[row.int(2) as usize - 1].lines.push(OrderLine {
            item: row.int(4),
            supply: row.int(5),
            delivered: row.time(6),
            quantity: row.int(7),
            amount: row.cents(8),
            dist: row.text(9),
        }),
        other => unreachable!("{} belongs to no district", other.name()),
    }
}

impl Engine for Bare {
    fn client(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(Hand(Arc::clone(&self.world))))
    }

    fn broken(&self) -> Result<Option<String>> {
        let mut judge = Halcyon::new(self.scale, Setup::default())?;
        let mut loading = judge.loading()?;
        for (w, warehouse) in (1..).zip(&self.world.warehouses) {
            hand_over(&mut loading, w, &warehouse.lock().expect("nobody panics with it"))?;
        }
        loading.finish()?;
        judge.broken()
    }
}

/// Loads the columns that the conditions read into Halcyon; other columns get any fitting value.
fn hand_over(to: &mut Loading, w: i32, warehouse: &Warehouse) -> Result<()> {
    let int = Value::Int32;
    let text = || Value::Text(String::new());
    let [a, b, c, d, e] = std::array::from_fn(|_| text());
    to.row(Table::Warehouse, &[int(w), text(), a, b, c, d, e, decimal(0), decimal(warehouse.ytd)])?;
    for (d, district) in (1..).zip(&warehouse.districts) {
        let next = int(district.orders.len() as i32 + 1);
        let mut row = vec![int(w), int(d)];
        row.extend((0..6).map(|_| text()));
        row.extend([decimal(0), decimal(district.ytd), next]);
        to.row(Table::District, &row)?;
        for (id, customer) in (1..).zip(&district.customers) {
            let mut row = vec![int(w), int(d), int(id)];
            row.extend((0..9).map(|_| text()));
            row.extend([Value::Timestamp(0), text(), decimal(0), decimal(customer.discount)]);
            row.extend([decimal(customer.balance), decimal(customer.ytd_payment)]);
            row.extend([int(customer.payments), int(customer.deliveries), text()]);
            to.row(Table::Customer, &row)?;
        }
        for id in &district.waiting {
            to.row(Table::NewOrder, &[int(w), int(d), int(*id)])?;
        }
        for (id, order) in (1..).zip(&district.orders) {
            hand_over_order(to, (w, d, id), order)?;
        }
    }
    for (item, stock) in (1..).zip(&warehouse.stock) {
        let mut row = vec![int(w), int(item), int(stock.quantity)];
        row.extend(stock.dist.iter().map(|dist| Value::Text(dist.clone())));
        row.extend([int(stock.ytd), int(stock.orders), int(stock.remote), text()]);
        to.row(Table::Stock, &row)?;
    }
    for paid in &warehouse.history {
        let (c_w, c_d, c) = paid.customer;
        let row = [int(c), int(c_d), int(c_w), int(paid.d), int(w), Value::Timestamp(paid.at)];
        let row = [&row[..], &[decimal(paid.amount), Value::Text(paid.data.clone())]].concat();
        to.row(Table::History, &row)?;
    }
    Ok(())
}

fn hand_over_order(to: &mut Loading, (w, d, id): (i32, i32, i32), order: &Order) -> Result<()> {
    let int = Value::Int32;
    let row = [
        int(w),
        int(d),
        int(id),
        int(order.customer),
        Value::Timestamp(order.at),
        order.carrier.map_or(Value::Null, int),
        int(order.lines.len() as i32),
        int(i32::from(order.all_local)),
    ];
    to.row(Table::Orders, &row)?;
    for (number, line) in (1..).zip(&order.lines) {
        let row = [
            int(w),
            int(d),
            int(id),
            int(number),
            int(line.item),
            int(line.supply),
            line.delivered.map_or(Value::Null, Value::Timestamp),
            int(line.quantity),
            decimal(line.amount),
            Value::Text(line.dist.clone()),
        ];
        to.row(Table::OrderLine, &row)?;
    }
    Ok(())
}

struct Hand(Arc<World>);

impl Client for Hand {
    fn run(&mut self, input: &Input) -> Done<Ended> {
        match input {
            Input::NewOrder(input) => return Ok(self.new_order(input)),
            Input::Payment(input) => self.payment(input)?,
            Input::OrderStatus(input) => self.order_status(input)?,
            Input::Delivery(input) => self.delivery(input),
            Input::StockLevel(input) => self.stock_level(input),
        }
        Ok(Ended::Committed)
    }
}

impl Hand {
    fn warehouse(&self, w: i32) -> MutexGuard<'_, Warehouse> {
        self.0.warehouses[w as usize - 1].lock().expect("nobody panics with it")
    }

    fn new_order(&self, input: &NewOrder) -> Ended {
        let exists = |item: i32| self.0.items.get(item as usize - 1).is_some();
        if !input.lines.iter().all(|line| exists(line.item)) {
            return Ended::RolledBack;
        }
        // Locks all warehouses of the order, by ascending number, so that no circle of waits can
        // close. Nearly always there is just one.
        let wanted: BTreeSet<i32> =
            input.lines.iter().map(|line| line.supply).chain([input.w]).collect();
        let mut held: Vec<_> = wanted.iter().map(|w| (*w, self.warehouse(*w))).collect();
        let at = |held: &[(i32, _)], w: i32| {
            held.iter().position(|(held, _)| *held == w).expect("all are held")
        };
        let home = at(&held, input.w);
        let mut lines = Vec::with_capacity(input.lines.len());
        let mut total = 0;
        for line in &input.lines {
            let item = &self.0.items[line.item as usize - 1];
            let place = at(&held, line.supply);
            let stock = &mut held[place].1.stock[line.item as usize - 1];
            stock.quantity = stock_after(stock.quantity, line.quantity);
            stock.ytd += line.quantity;
            stock.orders += 1;
            stock.remote += i32::from(line.supply != input.w);
            black_box(item.original && stock.original);
            let amount = item.price * i64::from(line.quantity);
            total += amount;
            lines.push(OrderLine {
                item: line.item,
                supply: line.supply,
                delivered: None,
                quantity: line.quantity,
                amount,
                dist: stock.dist[input.d as usize - 1].clone(),
            });
        }
        let warehouse = &mut *held[home].1;
        let tax = warehouse.tax;
        let district = warehouse.district(input.d);
        let customer = &mut district.customers[input.c as usize - 1];
        black_box((&customer.last, customer.bad_credit));
        black_box(total * (10_000 - customer.discount) * (10_000 + tax + district.tax));
        customer.last_order = district.orders.len() as i32 + 1;
        district.waiting.push_back(customer.last_order);
        let all_local = input.lines.iter().all(|line| line.supply == input.w);
        let order = Order { customer: input.c, at: input.at, carrier: None, all_local, lines };
        district.orders.push(order);
        Ended::Committed
    }

    fn payment(&self, input: &Payment) -> Result<()> {
        let (mut home, mut other) = (None, None);
        let mut wanted = [input.w, input.c_w];
        wanted.sort_unstable();
        for w in wanted {
            if w == input.w && home.is_none() {
                home = Some(self.warehouse(w));
            } else if w != input.w {
                other = Some(self.warehouse(w));
            }
        }
        let mut home = home.expect("the home warehouse was wanted");
        let residence = other.as_mut().unwrap_or(&mut home).district(input.c_d);
        let id = find(residence, &input.who)?;
        let customer = &mut residence.customers[id as usize - 1];
        customer.balance -= input.amount;
        customer.ytd_payment += input.amount;
        customer.payments += 1;
        if customer.bad_credit {
            customer.data = noted(input, id, &customer.data);
        }
        home.ytd += input.amount;
        let warehouse = &mut *home;
        let district = &mut warehouse.districts[input.d as usize - 1];
        district.ytd += input.amount;
        let data = format!("{}    {}", warehouse.name, district.name);
        let customer = (input.c_w, input.c_d, id);
        let (d, at, amount) = (input.d, input.at, input.amount);
        warehouse.history.push(History { customer, d, at, amount, data });
        Ok(())
    }

    fn order_status(&self, input: &OrderStatus) -> Result<()> {
        let mut warehouse = self.warehouse(input.w);
        let district = warehouse.district(input.d);
        let id = find(district, &input.who)?;
        let customer = &district.customers[id as usize - 1];
        let order = &district.orders[customer.last_order as usize - 1];
        black_box((&customer.first, customer.balance, order.at, order.carrier));
        black_box(order.lines.iter().map(|line| line.amount).sum::<i64>());
        Ok(())
    }

    fn delivery(&self, input: &Delivery) {
        let mut warehouse = self.warehouse(input.w);
        for district in &mut warehouse.districts {
            let Some(id) = district.waiting.pop_front() else { continue };
            let order = &mut district.orders[id as usize - 1];
            order.carrier = Some(input.carrier);
            let mut amount = 0;
            for line in &mut order.lines {
                line.delivered = Some(input.at);
                amount += line.amount;
            }
            let customer = &mut district.customers[order.customer as usize - 1];
            customer.balance += amount;
            customer.deliveries += 1;
        }
    }

    fn stock_level(&self, input: &StockLevel) {
        let mut warehouse = self.warehouse(input.w);
        let warehouse = &mut *warehouse;
        let orders = &warehouse.districts[input.d as usize - 1].orders;
        let last = &orders[orders.len().saturating_sub(20)..];
        let mut short: Vec<i32> = last
            .iter()
            .flat_map(|order| &order.lines)
            .map(|line| line.item)
            .filter(|item| warehouse.stock[*item as usize - 1].quantity < input.threshold)
            .collect();
        short.sort_unstable();
        short.dedup();
        black_box(short.len());
    }
}

fn find(district: &District, who: &Who) -> Result<i32> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::Name(name) => {
            let ids = district.by_name.get(name);
            let ids =
                ids.ok_or_else(|| Failure::WrongAnswer(format!("no customer is called {name}")))?;
            Ok(ids[(ids.len() - 1) / 2])
        }
    }
}
