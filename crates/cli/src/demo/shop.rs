//! The shop: its tables, its customers and their actions.

use halcyon::{Session, SqlError, SqlState, Statement, params};

use super::random::Random;

/// Customers at the start.
const CUSTOMERS: i32 = 1_000;
/// Products sold.
const PRODUCTS: i32 = 200;
/// Pieces of each product at the start, and after a refill.
const STOCK: i32 = 500;
/// Orders kept; older ones are cleared away.
const ORDERS_KEPT: i64 = 5_000;

const CITIES: [&str; 8] =
    ["Berlin", "Lyon", "Turin", "Porto", "Gdansk", "Malmo", "Utrecht", "Graz"];
const KINDS: [&str; 10] =
    ["tea", "coffee", "cocoa", "honey", "salt", "pepper", "rice", "oats", "oil", "soap"];

/// Creates and fills the tables, in one transaction.
pub fn create(session: &mut Session) -> Result<(), SqlError> {
    session.batch(include_str!("shop.sql"))?;
    session.transaction(|session| {
        let customer =
            session.prepare("INSERT INTO shop.customers (name, city) VALUES ($1, $2)")?;
        for number in 0..CUSTOMERS {
            let city = CITIES[number as usize % CITIES.len()];
            session.execute(&customer, params![format!("Customer {number:04}"), city])?;
        }
        let product = session.prepare("INSERT INTO shop.products VALUES ($1, $2, $3)")?;
        let stock = session.prepare("INSERT INTO shop.stock VALUES ($1, $2)")?;
        for number in 1..=PRODUCTS {
            let kind = KINDS[number as usize % KINDS.len()];
            let name = format!("{kind} no. {number}");
            let price = format!("{}.{:02}", 1 + number * 7 % 40, number * 13 % 100);
            session.execute(&product, params![number, name, price])?;
            session.execute(&stock, params![number, STOCK])?;
        }
        Ok(())
    })
}

/// Checks the invariants of the shop: totals are the sums of their items, paid orders have their
/// payment, and no piece is lost.
#[cfg(test)]
pub fn check(session: &mut Session) -> Result<(), String> {
    let rules = [
        (
            "an order's total is not the sum of its items",
            "SELECT count(*) FROM shop.orders o WHERE o.total <> (SELECT COALESCE(sum(i.quantity * \
             i.price), 0) FROM shop.order_items i WHERE i.order_id = o.id)",
        ),
        (
            "a paid order lacks its payment",
            "SELECT count(*) FROM shop.orders o WHERE o.status = 'paid' AND NOT EXISTS \
             (SELECT 1 FROM shop.payments p WHERE p.order_id = o.id AND p.amount = o.total)",
        ),
        ("stock is negative", "SELECT count(*) FROM shop.stock WHERE quantity < 0"),
    ];
    super::holds(session, &rules)
}

/// A session that acts for the customers.
pub struct Shopper {
    session: Session,
    statements: Statements,
    random: Random,
    acts: u64,
}

struct Statements {
    order: Statement,
    take: Statement,
    item: Statement,
    total: Statement,
    open: Statement,
    pay: Statement,
    status: Statement,
    charge: Statement,
    items: Statement,
    give_back: Statement,
    refill: Statement,
    clear: Statement,
}

impl Statements {
    fn new(session: &mut Session) -> Result<Self, SqlError> {
        let mut prepare = |text: &str| session.prepare(text);
        Ok(Statements {
            order: prepare("INSERT INTO shop.orders (customer_id) VALUES ($1) RETURNING id")?,
            take: prepare("UPDATE shop.stock SET quantity = quantity - $2 WHERE product_id = $1")?,
            item: prepare(
                "INSERT INTO shop.order_items SELECT $1, $2, id, $4, price FROM shop.products \
                 WHERE id = $3",
            )?,
            total: prepare(
                "UPDATE shop.orders SET total = (SELECT sum(quantity * price) FROM \
                 shop.order_items WHERE order_id = $1) WHERE id = $1",
            )?,
            open: prepare(
                "SELECT id, customer_id FROM shop.orders WHERE customer_id = $1 AND \
                 status = 'open' ORDER BY id LIMIT 1 FOR UPDATE",
            )?,
            pay: prepare(
                "INSERT INTO shop.payments (order_id, amount) SELECT id, total FROM shop.orders \
                 WHERE id = $1",
            )?,
            status: prepare("UPDATE shop.orders SET status = $2 WHERE id = $1")?,
            charge: prepare(
                "UPDATE shop.customers SET balance = balance - (SELECT total FROM shop.orders \
                 WHERE id = $2) WHERE id = $1",
            )?,
            items: prepare(
                "SELECT product_id, quantity FROM shop.order_items WHERE order_id = $1",
            )?,
            give_back: prepare(
                "UPDATE shop.stock SET quantity = quantity + $2 WHERE product_id = $1",
            )?,
            refill: prepare("UPDATE shop.stock SET quantity = $1 WHERE quantity < $2")?,
            clear: prepare(
                "DELETE FROM shop.orders WHERE id <= (SELECT max(id) FROM shop.orders) - $1",
            )?,
        })
    }
}

impl Shopper {
    /// A shopper with its statements prepared.
    pub fn new(mut session: Session, number: u64) -> Result<Self, SqlError> {
        session.set("application_name", &format!("shop {number}"))?;
        let statements = Statements::new(&mut session)?;
        Ok(Shopper { session, statements, random: Random::new(number * 7919), acts: 0 })
    }

    /// One transaction: mostly orders and payments.
    pub fn act(&mut self) -> Result<(), SqlError> {
        self.acts += 1;
        if self.acts.is_multiple_of(250) {
            return self.tidy();
        }
        let done = match self.random.below(10) {
            0..5 => self.place(),
            5..9 => self.settle(),
            _ => self.cancel(),
        };
        match done {
            // Out of stock: the order is undone as a whole, as it should be.
            Err(error) if error.state() == SqlState::CHECK_VIOLATION => self.tidy(),
            other => other,
        }
    }

    fn place(&mut self) -> Result<(), SqlError> {
        let customer = self.customer();
        let lines = 1 + self.random.below(4) as i32;
        let picks: Vec<(i32, i32)> = (0..lines)
            .map(|_| {
                (1 + self.random.below(PRODUCTS as u64) as i32, 1 + self.random.below(5) as i32)
            })
            .collect();
        let statements = &self.statements;
        self.session.transaction(|session| {
            let order: i64 = {
                let mut rows = session.query(&statements.order, params![customer])?;
                rows.next()?.expect("INSERT … RETURNING one row").get(0)?
            };
            for (line, (product, quantity)) in (1..).zip(&picks) {
                session.execute(&statements.take, params![*product, *quantity])?;
                session.execute(&statements.item, params![order, line, *product, *quantity])?;
            }
            session.execute(&statements.total, params![order])?;
            Ok(())
        })
    }

    fn settle(&mut self) -> Result<(), SqlError> {
        let customer = self.customer();
        let statements = &self.statements;
        self.session.transaction(|session| {
            let Some(order) = first(session, &statements.open, customer)? else { return Ok(()) };
            session.execute(&statements.pay, params![order])?;
            session.execute(&statements.status, params![order, "paid"])?;
            session.execute(&statements.charge, params![customer, order])?;
            Ok(())
        })
    }

    fn cancel(&mut self) -> Result<(), SqlError> {
        let customer = self.customer();
        let statements = &self.statements;
        self.session.transaction(|session| {
            let Some(order) = first(session, &statements.open, customer)? else { return Ok(()) };
            let mut items: Vec<(i32, i32)> = Vec::new();
            let mut rows = session.query(&statements.items, params![order])?;
            while let Some(row) = rows.next()? {
                items.push((row.get(0)?, row.get(1)?));
            }
            drop(rows);
            for (product, quantity) in items {
                session.execute(&statements.give_back, params![product, quantity])?;
            }
            session.execute(&statements.status, params![order, "cancelled"])?;
            Ok(())
        })
    }

    /// Refills products that run low, and deletes old orders.
    fn tidy(&mut self) -> Result<(), SqlError> {
        let statements = &self.statements;
        self.session.transaction(|session| {
            session.execute(&statements.refill, params![STOCK, STOCK / 10])?;
            session.execute(&statements.clear, params![ORDERS_KEPT])?;
            Ok(())
        })
    }

    /// A customer; few of them, so that their open orders are found again.
    fn customer(&mut self) -> i32 {
        1 + self.random.below(CUSTOMERS as u64 / 20) as i32
    }
}

/// The first column of the first row, if there is one.
fn first(
    session: &mut Session,
    statement: &Statement,
    customer: i32,
) -> Result<Option<i64>, SqlError> {
    let mut rows = session.query(statement, params![customer])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}
