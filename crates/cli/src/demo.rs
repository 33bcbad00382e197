//! The demo of `halcyon serve --demo`: a market for live views, a shop for transactions, TPC-H for queries, and a
//! workload class for each of the three.
//!
//! Sessions run all the time at a limited rate, so that an idle machine stays cool. Traders' orders are matched or wait in the
//! book, and a trade beyond a trader's credit is refused by an assertion. The shop's sessions
//! place orders (taking from stock; the stock's CHECK refuses an order when it is used up), pay or
//! cancel orders, refill stock, and delete old orders. Neither market nor shop grows or runs dry. A report
//! comes every two seconds.

mod market;
mod random;
mod reports;
mod shop;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use halcyon::{Database, Session, SqlError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use market::Trader;
use reports::Reporter;
use shop::Shopper;

/// Sessions that run the shop's transactions.
const SHOPPERS: u64 = 3;
/// Sessions that run the market's.
const TRADERS: u64 = 2;
/// Pause between two transactions of the shop's sessions.
const SHOP_PAUSE: Duration = Duration::from_millis(40);
/// Pause between two orders of a trader.
const MARKET_PAUSE: Duration = Duration::from_millis(10);
/// Pause between two reports.
const REPORT_PAUSE: Duration = Duration::from_secs(2);

/// Queries worth running: a live view, who keeps which promise, a large scan, and a join of the shop's tables.
pub const QUERIES: [&str; 4] = [
    "SELECT * FROM market.book ORDER BY symbol;",
    "SELECT workload_class_name, p99_ms, target, attainment FROM halcyon.m_workload_class_latency;",
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_extendedprice), count(*) \
     FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2;",
    "SELECT p.name, sum(i.quantity) AS sold, sum(i.quantity * i.price) AS revenue \
     FROM shop.order_items i JOIN shop.products p ON p.id = i.product_id \
     GROUP BY p.name ORDER BY revenue DESC LIMIT 5;",
];
/// Follows a live view, until Ctrl-C.
pub const FOLLOW: &str = "SUBSCRIBE market.book;";
/// Asks for more than the trader's credit, which the assertion refuses.
pub const REFUSED: &str = "INSERT INTO market.trades (symbol, buyer, seller, price, volume) VALUES ('FARO', 13, 1, 273.50, 1000);";

/// A database with the demo's data.
pub struct Demo {
    database: Database,
}

/// The running sessions of market, shop and reports. Dropping it ends them.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Demo {
    /// Fills `database`: TPC-H at scale factor `sf`, the market and the shop, with their classes.
    pub fn load(database: &Database, sf: f64) -> Result<Self, SqlError> {
        let mut session = database.session();
        let total: u64 = halcyon_tpch::TABLES.iter().map(|table| table.rows(sf)).sum();
        let bar = ProgressBar::new(total);
        let shown = std::io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        bar.set_draw_target(target);
        let template = "loading TPC-H {bar:30} {msg} {elapsed}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        let (mut table_now, mut before, mut done) = (String::new(), 0, 0);
        halcyon_tpch::load(&mut session, sf, &mut |table, rows| {
            if table != table_now {
                before += done;
                table_now = table.to_owned();
                bar.set_message(table.to_owned());
            }
            done = rows;
            bar.set_position(before + rows);
        })?;
        bar.finish_and_clear();
        shop::create(&mut session)?;
        market::create(&mut session)?;
        session.batch(include_str!("demo/classes.sql"))?;
        Ok(Demo { database: database.clone() })
    }

    /// Opens market and shop.
    pub fn start(self) -> Traffic {
        let stop = Arc::new(AtomicBool::new(false));
        let mut traffic = Traffic { stop, threads: Vec::new() };
        for number in 0..SHOPPERS {
            let make = move |session| Shopper::new(session, number);
            traffic.add(&self.database, "the shop", SHOP_PAUSE, make, Shopper::act);
        }
        for number in 0..TRADERS {
            let make = move |session| Trader::new(session, number);
            let act = |trader: &mut Trader| trader.act().map(drop);
            traffic.add(&self.database, "the market", MARKET_PAUSE, make, act);
        }
        traffic.add(&self.database, "reports", REPORT_PAUSE, Reporter::new, Reporter::act);
        traffic
    }
}

impl Traffic {
    /// A thread with a session of `name` that acts, pauses, and acts again.
    fn add<T>(
        &mut self,
        database: &Database,
        name: &'static str,
        pause: Duration,
        make: impl FnOnce(Session) -> Result<T, SqlError> + Send + 'static,
        act: impl Fn(&mut T) -> Result<(), SqlError> + Send + 'static,
    ) {
        let (stop, session) = (self.stop.clone(), database.session());
        let work = move || {
            let mut actor = match make(session) {
                Ok(actor) => actor,
                Err(error) => {
                    return tracing::error!(%error, name, "a part of the demo does not begin");
                }
            };
            while !stop.load(Ordering::Relaxed) {
                // Refused orders are part of the business; any other error is worth knowing.
                if let Err(error) = act(&mut actor) {
                    tracing::warn!(%error, name, "a transaction of the demo failed");
                }
                std::thread::park_timeout(pause);
            }
        };
        let thread = std::thread::Builder::new().name("demo".to_owned()).spawn(work);
        self.threads.push(thread.expect("a thread can be made"));
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A session that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

/// Checks rules, each a name and a query whose number is 0 where the rule holds.
#[cfg(test)]
fn holds(session: &mut Session, rules: &[(&str, &str)]) -> Result<(), String> {
    for (rule, text) in rules {
        let mut rows = session.query(*text, &[]).map_err(|error| format!("{text}: {error}"))?;
        let row = rows.next().map_err(|error| error.to_string())?.ok_or("no count")?;
        if row.get::<i64>(0).map_err(|error| error.to_string())? != 0 {
            return Err((*rule).to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(session: &mut Session, text: &str) -> i64 {
        let mut rows = session.query(text, &[]).unwrap();
        rows.next().unwrap().unwrap().get::<i64>(0).unwrap()
    }

    #[test]
    fn market_and_shop_trade_and_the_queries_answer() {
        let database = Database::in_memory();
        let traffic = Demo::load(&database, 0.01).unwrap().start();
        let mut session = database.session();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        for (what, wanted) in [
            ("SELECT count(*) FROM shop.payments", 5),
            ("SELECT count(*) FROM market.trades", 50),
            (
                "SELECT count(*) FROM halcyon.m_workload_class_latency WHERE statement_count > 0 \
                 AND workload_class_name IN ('market', 'shop', 'reports')",
                3,
            ),
        ] {
            while count(&mut session, what) < wanted {
                assert!(std::time::Instant::now() < deadline, "{what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        for query in QUERIES {
            assert!(session.execute(query, &[]).unwrap() > 0, "{query}");
        }
        drop(traffic);
        shop::check(&mut session).unwrap();
        market::check(&mut session).unwrap();
    }

    #[test]
    fn the_assertion_refuses_orders_that_leave_no_trace() {
        let database = Database::in_memory();
        let mut session = database.session();
        market::create(&mut session).unwrap();
        let mut trader = Trader::new(database.session(), 1).unwrap();
        let mut refused = 0;
        while refused < 5 {
            refused += i32::from(!trader.act().unwrap());
        }
        market::check(&mut session).unwrap();
        let before = count(&mut session, "SELECT count(*) FROM market.trades");
        let error = session.execute(REFUSED, &[]).unwrap_err();
        assert!(
            error.to_string().starts_with("23514: assertion \"within_credit\" is violated"),
            "{error}"
        );
        assert_eq!(count(&mut session, "SELECT count(*) FROM market.trades"), before);
        for (view, kept) in [("orders", 7 * 170), ("trades", 20_000 + 2_000)] {
            assert!(
                count(&mut session, &format!("SELECT count(*) FROM market.{view}")) < kept,
                "{view}"
            );
        }
    }
}
