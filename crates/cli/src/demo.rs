//! The demo of `halcyon serve --demo`: TPC-H for queries, a shop for transactions.
//!
//! The shop's sessions run all the time at a limited rate, so that an idle machine stays cool: they
//! place orders (taking from stock; the stock's CHECK refuses an order when it is used up), pay or
//! cancel orders, refill stock, and delete old orders, so that the shop neither grows nor runs dry.

mod shop;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use halcyon::{Database, SqlError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use shop::Shopper;

/// Sessions that run transactions.
const SESSIONS: u64 = 3;
/// Pause between two transactions of a session.
const PAUSE: Duration = Duration::from_millis(40);

/// Three queries worth running: a large scan, a join with the shop's tables, and a system view.
pub const QUERIES: [&str; 3] = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_extendedprice), count(*) \
     FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2;",
    "SELECT p.name, sum(i.quantity) AS sold, sum(i.quantity * i.price) AS revenue \
     FROM shop.order_items i JOIN shop.products p ON p.id = i.product_id \
     GROUP BY p.name ORDER BY revenue DESC LIMIT 5;",
    "SELECT * FROM halcyon.sessions;",
];

/// A database with the demo's data.
pub struct Demo {
    database: Database,
}

/// The shop's running sessions. Dropping it ends them.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Demo {
    /// Fills `database`: TPC-H at scale factor `sf`, and the shop.
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
        Ok(Demo { database: database.clone() })
    }

    /// Opens the shop.
    pub fn start(self) -> Traffic {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |number| {
            let (stop, session) = (stop.clone(), self.database.session());
            let name = format!("shop-{number}");
            let work = move || trade(&stop, session, number);
            std::thread::Builder::new().name(name).spawn(work).expect("a thread can be made")
        };
        let threads = (0..SESSIONS).map(start).collect();
        Traffic { stop, threads }
    }
}

fn trade(stop: &AtomicBool, session: halcyon::Session, number: u64) {
    let mut shopper = match Shopper::new(session, number) {
        Ok(shopper) => shopper,
        Err(error) => return tracing::error!(%error, "the shop stays closed"),
    };
    while !stop.load(Ordering::Relaxed) {
        // Refused orders are part of the business; any other error is worth knowing.
        if let Err(error) = shopper.act() {
            tracing::warn!(%error, "a transaction of the shop failed");
        }
        std::thread::park_timeout(PAUSE);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shop_trades_and_the_queries_answer() {
        let database = Database::in_memory();
        let traffic = Demo::load(&database, 0.01).unwrap().start();
        let mut session = database.session();
        let count = |session: &mut halcyon::Session, text: &str| {
            let mut rows = session.query(text, &[]).unwrap();
            rows.next().unwrap().unwrap().get::<i64>(0).unwrap()
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while count(&mut session, "SELECT count(*) FROM shop.payments") < 5 {
            assert!(std::time::Instant::now() < deadline, "nobody pays");
            std::thread::sleep(Duration::from_millis(20));
        }
        for query in QUERIES {
            assert!(session.execute(query, &[]).unwrap() > 0, "{query}");
        }
        drop(traffic);
        shop::check(&mut session).unwrap();
    }
}
