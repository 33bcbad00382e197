//! The market: an order book for each instrument, traders who bid, ask and withdraw, and their trades.
//!
//! Live views follow every order and trade (best prices, DBToaster's VWAP, positions), and an assertion refuses
//! trades beyond a trader's credit, which one of the traders tries again and again.

use halcyon::{Session, SqlError, SqlState, Statement, params};

use super::random::Random;

/// Instruments: symbol, name, and the price at which the market opens, in hundredths.
const INSTRUMENTS: [(&str, &str, i64); 6] = [
    ("ALBA", "Alba Shipping", 4_120),
    ("BORA", "Bora Wind", 1_835),
    ("CIRO", "Ciro Foods", 9_760),
    ("DORA", "Dora Mills", 640),
    ("EURA", "Eura Rail", 12_480),
    ("FARO", "Faro Optics", 27_350),
];
/// Traders; the last one's credit soon is used up.
const TRADERS: [&str; 13] = [
    "Abel", "Bianca", "Carlo", "Dunja", "Edgar", "Fiona", "Gustav", "Hanna", "Ivo", "Judit",
    "Karim", "Lena", "Rookie",
];
/// What each trader but the last may buy for.
const CREDIT: &str = "1000000000";
/// What the last may.
const LITTLE_CREDIT: &str = "250000";
/// Orders of each side when the market opens.
const OPENING_ORDERS: i64 = 40;
/// Orders of an instrument beyond which the one farthest from the market is taken out.
const ORDERS_KEPT: i64 = 160;
/// Trades kept; older ones are cleared away.
const TRADES_KEPT: i64 = 20_000;

/// Creates and fills the tables. The session must be a superuser's, who then owns the views and the assertion.
pub fn create(session: &mut Session) -> Result<(), SqlError> {
    session.batch(include_str!("market.sql"))?;
    session.transaction(|session| {
        let instrument = session.prepare("INSERT INTO market.instruments VALUES ($1, $2, $3)")?;
        for (symbol, name, opened) in INSTRUMENTS {
            session.execute(&instrument, params![symbol, name, hundredths(opened)])?;
        }
        let trader = session.prepare("INSERT INTO market.traders VALUES ($1, $2, $3)")?;
        for (id, name) in (1..).zip(TRADERS) {
            let credit = if id == TRADERS.len() as i32 { LITTLE_CREDIT } else { CREDIT };
            session.execute(&trader, params![id, name, credit])?;
        }
        let order = session.prepare(ORDER)?;
        let mut random = Random::new(7);
        for (symbol, _, opened) in INSTRUMENTS {
            for step in 1..=OPENING_ORDERS {
                for (side, price) in [("bid", opened - step), ("ask", opened + step)] {
                    let (trader, volume) = (random.trader(), random.volume());
                    session.execute(
                        &order,
                        params![symbol, trader, side, hundredths(price), volume],
                    )?;
                }
            }
        }
        Ok(())
    })
}

/// A new order.
const ORDER: &str =
    "INSERT INTO market.orders (symbol, trader, side, price, volume) VALUES ($1, $2, $3, $4, $5)";

/// A number of hundredths as SQL writes it.
fn hundredths(number: i64) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}

impl Random {
    /// A trader; the last one comes seldom.
    fn trader(&mut self) -> i32 {
        let last = TRADERS.len() as u64;
        1 + if self.below(50) == 0 { last - 1 } else { self.below(last - 1) } as i32
    }

    fn volume(&mut self) -> i32 {
        10 * (1 + self.below(20) as i32)
    }
}

/// A session that acts for the traders.
pub struct Trader {
    session: Session,
    statements: Statements,
    random: Random,
    acts: u64,
}

struct Statements {
    book: Statement,
    best_ask: Statement,
    best_bid: Statement,
    order: Statement,
    trade: Statement,
    fill: Statement,
    reduce: Statement,
    lowest_bid: Statement,
    highest_ask: Statement,
    withdraw: Statement,
    clear: Statement,
}

/// An order that meets what is wanted.
struct Offer {
    id: i64,
    trader: i32,
    price: String,
    volume: i32,
}

impl Statements {
    fn new(session: &mut Session) -> Result<Self, SqlError> {
        let mut prepare = |text: &str| session.prepare(text);
        Ok(Statements {
            book: prepare(
                "SELECT bid::text, ask::text, orders FROM market.book WHERE symbol = $1",
            )?,
            best_ask: prepare(
                "SELECT id, trader, price::text, volume FROM market.orders WHERE symbol = $1 AND side = 'ask' \
                 AND price <= CAST($2 AS NUMERIC(10,2)) ORDER BY price, id LIMIT 1 FOR UPDATE",
            )?,
            best_bid: prepare(
                "SELECT id, trader, price::text, volume FROM market.orders WHERE symbol = $1 AND side = 'bid' \
                 AND price >= CAST($2 AS NUMERIC(10,2)) ORDER BY price DESC, id DESC LIMIT 1 FOR UPDATE",
            )?,
            order: prepare(ORDER)?,
            trade: prepare(
                "INSERT INTO market.trades (symbol, buyer, seller, price, volume) VALUES ($1, $2, $3, $4, $5)",
            )?,
            fill: prepare("DELETE FROM market.orders WHERE id = $1")?,
            reduce: prepare("UPDATE market.orders SET volume = volume - $2 WHERE id = $1")?,
            lowest_bid: prepare(
                "SELECT id FROM market.orders WHERE symbol = $1 AND side = 'bid' ORDER BY price, id LIMIT 1",
            )?,
            highest_ask: prepare(
                "SELECT id FROM market.orders WHERE symbol = $1 AND side = 'ask' ORDER BY price DESC, id DESC LIMIT 1",
            )?,
            withdraw: prepare("DELETE FROM market.orders WHERE trader = $1 AND side = 'bid'")?,
            clear: prepare(
                "DELETE FROM market.trades WHERE id <= (SELECT max(id) FROM market.trades) - $1",
            )?,
        })
    }
}

impl Trader {
    /// A trader with its statements prepared.
    pub fn new(mut session: Session, number: u64) -> Result<Self, SqlError> {
        session.set("application_name", &format!("market {number}"))?;
        let statements = Statements::new(&mut session)?;
        Ok(Trader { session, statements, random: Random::new(0xB00C + number * 7919), acts: 0 })
    }

    /// An order that is matched with what is there, or waits in the book. Whether it was taken, not refused.
    pub fn act(&mut self) -> Result<bool, SqlError> {
        self.acts += 1;
        if self.acts.is_multiple_of(500) {
            self.session.execute(&self.statements.clear, params![TRADES_KEPT])?;
        }
        let (symbol, _, opened) = INSTRUMENTS[self.random.below(INSTRUMENTS.len() as u64) as usize];
        let (bid, ask, orders) = self.book(symbol, opened)?;
        let buys = self.random.below(2) == 0;
        if orders > ORDERS_KEPT {
            self.drop_one(symbol, buys)?;
        }
        // Most orders wait a little away from the best price; the others meet it.
        let away = self.random.below(8) as i64 - 2;
        let price = if buys { ask - away } else { bid + away }.max(1);
        let (trader, volume) = (self.random.trader(), self.random.volume());
        match self.place(symbol, trader, buys, &hundredths(price), volume) {
            // Beyond the last trader's credit: the order is undone as a whole, and that trader's bids are withdrawn.
            Err(error) if error.state() == SqlState::CHECK_VIOLATION => {
                let last = TRADERS.len() as i32;
                self.session.execute(&self.statements.withdraw, params![last])?;
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// The best prices, in hundredths, and the number of orders. A side without orders has the price of the opening.
    fn book(&mut self, symbol: &str, opened: i64) -> Result<(i64, i64, i64), SqlError> {
        let mut rows = self.session.query(&self.statements.book, params![symbol])?;
        let Some(row) = rows.next()? else { return Ok((opened, opened, 0)) };
        let price = |text: Option<String>| {
            let digits = text?.replace('.', "");
            digits.parse().ok()
        };
        let (bid, ask) = (price(row.get(0)?), price(row.get(1)?));
        Ok((bid.unwrap_or(opened), ask.unwrap_or(opened), row.get(2)?))
    }

    /// Takes the order that is farthest from the market out of one side of the book.
    fn drop_one(&mut self, symbol: &str, bids: bool) -> Result<(), SqlError> {
        let statements = &self.statements;
        let farthest = if bids { &statements.lowest_bid } else { &statements.highest_ask };
        let order: Option<i64> = {
            let mut rows = self.session.query(farthest, params![symbol])?;
            rows.next()?.map(|row| row.get(0)).transpose()?
        };
        if let Some(order) = order {
            self.session.execute(&statements.fill, params![order])?;
        }
        Ok(())
    }

    fn place(
        &mut self,
        symbol: &str,
        trader: i32,
        buys: bool,
        price: &str,
        volume: i32,
    ) -> Result<(), SqlError> {
        let statements = &self.statements;
        let best = if buys { &statements.best_ask } else { &statements.best_bid };
        self.session.transaction(|session| {
            let mut left = volume;
            while left > 0 {
                let Some(offer) = offer(session, best, symbol, price)? else { break };
                let taken = left.min(offer.volume);
                let (buyer, seller) =
                    if buys { (trader, offer.trader) } else { (offer.trader, trader) };
                session.execute(
                    &statements.trade,
                    params![symbol, buyer, seller, offer.price, taken],
                )?;
                if taken == offer.volume {
                    session.execute(&statements.fill, params![offer.id])?;
                } else {
                    session.execute(&statements.reduce, params![offer.id, taken])?;
                }
                left -= taken;
            }
            if left > 0 {
                let side = if buys { "bid" } else { "ask" };
                session.execute(&statements.order, params![symbol, trader, side, price, left])?;
            }
            Ok(())
        })
    }
}

fn offer(
    session: &mut Session,
    best: &Statement,
    symbol: &str,
    price: &str,
) -> Result<Option<Offer>, SqlError> {
    let mut rows = session.query(best, params![symbol, price])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Offer {
        id: row.get(0)?,
        trader: row.get(1)?,
        price: row.get(2)?,
        volume: row.get(3)?,
    }))
}

/// Checks the invariants of the market: views equal their queries, nobody has bought for more than their credit,
/// and no best bid exceeds the best ask.
#[cfg(test)]
pub fn check(session: &mut Session) -> Result<(), String> {
    let rules = [
        (
            "somebody's credit is exceeded",
            "SELECT count(*) FROM market.spending WHERE bought > credit",
        ),
        ("a bid above an ask was not matched", "SELECT count(*) FROM market.book WHERE bid >= ask"),
        (
            "positions do not add up to nothing",
            "SELECT CAST(COALESCE(sum(volume), 0) AS BIGINT) FROM market.positions",
        ),
        (
            "the view of best prices is not what its query gives",
            "SELECT count(*) FROM (SELECT symbol, max(price) FILTER (WHERE side = 'bid') AS bid FROM market.orders \
             GROUP BY symbol) q FULL JOIN market.book b ON b.symbol = q.symbol WHERE b.bid IS DISTINCT FROM q.bid",
        ),
    ];
    super::holds(session, &rules)
}
