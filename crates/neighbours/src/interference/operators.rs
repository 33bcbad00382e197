//! The operators of the matrix, as statements, and the tables that they read.

use halcyon::{Database, Session, Statement, params};

use crate::{Failure, Result};

/// Rows of the tables.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Rows that operators read.
    pub fact: u64,
    /// Rows of the build side that a core's own cache holds.
    pub small: u64,
    /// Rows of the build side, and groups, that are about half of the shared cache.
    pub cached: u64,
    /// Rows of the build side that the shared cache does not hold.
    pub large: u64,
}

/// How an operator is expected to use the cache (P4 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Fills it with what is not read again.
    Polluting,
    /// Lives from it.
    Sensitive,
    /// Neither is claimed.
    Neither,
}

/// An operator.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// Name in arms and figures.
    pub name: &'static str,
    /// What the operator is expected to do.
    pub expected: Expected,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// A query of one number.
    Query(&'static str),
    /// Look-ups by key.
    Lookups,
    /// Updates of a table with a view over it.
    Upkeep,
    /// Transactions of a terminal that the caller brings.
    Transactions,
}

/// A terminal whose transactions are an operator, with tables of its own.
pub trait Terminal: Send {
    /// Runs so many transactions as one run of the operator.
    ///
    /// Errors: an answer was wrong, or the engine refused a statement.
    fn run(&mut self, transactions: u64) -> Result<()>;

    /// Looks at conditions that hold between transactions.
    ///
    /// Errors: one of them is broken.
    fn check(&self) -> Result<()>;
}

/// What makes a terminal for a side, 0 or 1.
pub type Terminals<'a> = &'a dyn Fn(usize) -> Result<Box<dyn Terminal>>;

/// Look-ups or updates of a run.
const STEPS: u64 = 500;
/// Rows of the table that is updated.
const ACCOUNTS: u64 = 1_000;
/// Transactions of a run.
const TRANSACTIONS: u64 = 100;

/// All operators.
pub const OPERATORS: [Operator; 10] = [
    query("scan", Expected::Polluting, "SELECT sum(v) FROM fact"),
    query(
        "join small",
        Expected::Neither,
        "SELECT sum(f.v + d.w) FROM fact f JOIN small d ON f.small = d.id",
    ),
    query(
        "join cache",
        Expected::Sensitive,
        "SELECT sum(f.v + d.w) FROM fact f JOIN cached d ON f.cached = d.id",
    ),
    query(
        "join large",
        Expected::Neither,
        "SELECT sum(f.v + d.w) FROM fact f JOIN large d ON f.large = d.id",
    ),
    query(
        "group few",
        Expected::Neither,
        "SELECT sum(s * (small + 1)) FROM (SELECT small, sum(v) AS s FROM fact GROUP BY small) q",
    ),
    query(
        "group many",
        Expected::Sensitive,
        "SELECT sum(s * (cached + 1)) FROM (SELECT cached, sum(v) AS s FROM fact GROUP BY cached) q",
    ),
    query(
        "sort",
        Expected::Neither,
        "SELECT sum(v * (r % 7)) FROM (SELECT v, row_number() OVER (ORDER BY large, id) AS r FROM fact) q",
    ),
    Operator { name: "look-ups", expected: Expected::Neither, work: Work::Lookups },
    Operator { name: "view upkeep", expected: Expected::Neither, work: Work::Upkeep },
    Operator { name: "TPC-C", expected: Expected::Neither, work: Work::Transactions },
];

const fn query(name: &'static str, expected: Expected, text: &'static str) -> Operator {
    Operator { name, expected, work: Work::Query(text) }
}

/// Fills the tables. Values are numbers that follow from the row's, so that answers are known.
pub fn load(database: &Database, sizes: Sizes) -> Result<()> {
    let Sizes { fact, small, cached, large } = sizes;
    let mut session = database.session();
    for (name, rows) in [("small", small), ("cached", cached), ("large", large)] {
        session.batch(&format!(
            "CREATE TABLE {name} AS SELECT g AS id, g % 100 AS w FROM generate_series(CAST(0 AS BIGINT), {rows} - 1) AS t (g)"
        ))?;
    }
    // A large prime times the row's number visits keys in an order that no prefetcher foresees.
    session.batch(&format!(
        "CREATE TABLE fact AS SELECT g AS id, g % 1000 AS v, (g * 2147483647) % {small} AS small, \
         (g * 2147483647) % {cached} AS cached, (g * 2147483647) % {large} AS large \
         FROM generate_series(CAST(0 AS BIGINT), {fact} - 1) AS t (g);
         CREATE TABLE item (id BIGINT PRIMARY KEY, v BIGINT NOT NULL);
         INSERT INTO item SELECT g, g % 1000 FROM generate_series(CAST(0 AS BIGINT), {fact} - 1) AS t (g)"
    ))?;
    // Each side of a pair has an account table of its own: locks are not what is measured.
    for side in 0..2 {
        session.batch(&format!(
            "CREATE TABLE account{side} (id BIGINT PRIMARY KEY, branch BIGINT, v BIGINT NOT NULL);
             INSERT INTO account{side} SELECT g, g % 10, 0 FROM generate_series(CAST(0 AS BIGINT), {ACCOUNTS} - 1) AS t (g);
             CREATE MATERIALIZED VIEW branch{side} AS SELECT branch, sum(v) AS total FROM account{side} GROUP BY branch"
        ))?;
    }
    Ok(())
}

/// What a run needs, by kind of work.
enum Ready {
    Query(Statement),
    Lookups(Statement),
    /// The update, and the total of the view.
    Upkeep(Statement, Statement),
    Transactions(Box<dyn Terminal>),
}

/// An operator on one side of a pair, ready to run.
pub struct Hand {
    session: Session,
    operator: Operator,
    ready: Ready,
    rows: u64,
    /// Steps made so far.
    steps: u64,
    /// The answer that every run must have; `None` before the first.
    answer: Option<i64>,
}

impl Hand {
    /// An operator on a side, 0 or 1, that may use one worker.
    pub fn new(
        database: &Database,
        terminals: Terminals<'_>,
        operator: Operator,
        side: usize,
        sizes: Sizes,
    ) -> Result<Hand> {
        let mut session = database.session();
        session.batch("SET halcyon.threads = 1")?;
        let ready = match operator.work {
            Work::Query(text) => {
                let text = format!("SELECT CAST(x AS BIGINT) FROM ({text}) AS t (x)");
                Ready::Query(session.prepare(&text)?)
            }
            Work::Lookups => Ready::Lookups(session.prepare("SELECT v FROM item WHERE id = $1")?),
            Work::Upkeep => {
                session.batch(&format!("UPDATE account{side} SET v = 0"))?;
                let update = format!("UPDATE account{side} SET v = v + 1 WHERE id = $1");
                let total = format!("SELECT CAST(sum(total) AS BIGINT) FROM branch{side}");
                Ready::Upkeep(session.prepare(&update)?, session.prepare(&total)?)
            }
            Work::Transactions => Ready::Transactions(terminals(side)?),
        };
        Ok(Hand { session, operator, ready, rows: sizes.fact, steps: 0, answer: None })
    }

    /// Runs the operator once, and checks its answer.
    pub fn run(&mut self) -> Result<()> {
        let name = self.operator.name;
        match &mut self.ready {
            Ready::Query(statement) => {
                let answer = number(&mut self.session, statement)?;
                if *self.answer.get_or_insert(answer) != answer {
                    return Err(wrong(name, format!("{answer}, before it was {:?}", self.answer)));
                }
            }
            Ready::Lookups(statement) => {
                for _ in 0..STEPS {
                    self.steps += 1;
                    let id = (self.steps * 2_147_483_647 % self.rows) as i64;
                    let mut rows = self.session.query(&*statement, params![id])?;
                    let row = rows.next()?;
                    let found = row.map(|row| row.get::<i64>(0)).transpose()?;
                    drop(rows);
                    if found != Some(id % 1000) {
                        return Err(wrong(name, format!("item {id} has {found:?}")));
                    }
                }
            }
            Ready::Upkeep(update, totals) => {
                for _ in 0..STEPS {
                    self.steps += 1;
                    let id = (self.steps * 7919 % ACCOUNTS) as i64;
                    self.session.execute(&*update, params![id])?;
                }
                let total = number(&mut self.session, totals)?;
                if total != self.steps as i64 {
                    return Err(wrong(name, format!("{total} after {} updates", self.steps)));
                }
            }
            Ready::Transactions(terminal) => terminal.run(TRANSACTIONS)?,
        }
        Ok(())
    }

    /// Looks at the terminal's conditions, if this operator has one.
    pub fn check(&self) -> Result<()> {
        match &self.ready {
            Ready::Transactions(terminal) => terminal.check(),
            _ => Ok(()),
        }
    }

    /// Compares the query's answer with one that is computed here, row by row.
    pub fn verify(&mut self, sizes: Sizes) -> Result<()> {
        self.run()?;
        let key = |rows: u64, g: u64| (g * 2_147_483_647 % rows) as i64;
        let v = |g: u64| (g % 1000) as i64;
        let all = 0..sizes.fact;
        let joined = |rows: u64| all.clone().map(|g| v(g) + key(rows, g) % 100).sum::<i64>();
        let grouped = |rows: u64| all.clone().map(|g| v(g) * (key(rows, g) + 1)).sum::<i64>();
        let wanted = match self.operator.name {
            "scan" => all.clone().map(v).sum(),
            "join small" => joined(sizes.small),
            "join cache" => joined(sizes.cached),
            "join large" => joined(sizes.large),
            "group few" => grouped(sizes.small),
            "group many" => grouped(sizes.cached),
            "sort" => {
                let mut order: Vec<(i64, u64)> = all.map(|g| (key(sizes.large, g), g)).collect();
                order.sort_unstable();
                order.iter().zip(1_i64..).map(|((_, g), r)| v(*g) * (r % 7)).sum()
            }
            // Checked run by run.
            _ => return Ok(()),
        };
        match self.answer {
            Some(answer) if answer == wanted => Ok(()),
            answer => Err(wrong(self.operator.name, format!("{answer:?}, not {wanted}"))),
        }
    }
}

fn wrong(operator: &str, what: String) -> Failure {
    Failure::WrongAnswer(format!("{operator}: {what}"))
}

fn number(session: &mut Session, statement: &Statement) -> Result<i64> {
    let mut rows = session.query(statement, &[])?;
    let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("no row".into()))?;
    Ok(row.get::<i64>(0)?)
}
