//! A client of either server, and the contents of the tables at the start.

use std::time::Instant;

use halcyon_base::rng::Rng;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client as Connection, SimpleQueryMessage, Statement};

use super::{Contention, Work, sum};
use crate::bare::branches;
use crate::programs::Program;
use crate::{Failure, Result};

const TABLES: &str = "
    CREATE TABLE branch (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler TEXT);
    CREATE TABLE teller (id INTEGER PRIMARY KEY, branch INTEGER, balance INTEGER NOT NULL, filler TEXT);
    CREATE TABLE account (id INTEGER PRIMARY KEY, branch INTEGER, balance INTEGER NOT NULL, filler TEXT);
    CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
    INSERT INTO counter VALUES (1, 0);
    CREATE TABLE history (teller INTEGER, branch INTEGER, account INTEGER, delta INTEGER, at TIMESTAMP)";

/// Makes the tables of a bank with `rows` accounts, all of them empty.
pub(crate) fn load(program: &Program, rows: u32) -> Result<()> {
    let (runtime, client) = program.connect()?;
    let branches = branches(rows);
    let mut text = TABLES.to_owned();
    let fillings = [
        ("branch", branches, "", ""),
        ("teller", 10 * branches, "branch,", "1 + n % "),
        ("account", rows, "branch,", "1 + n % "),
    ];
    for (table, count, column, branch) in fillings {
        let branch = if branch.is_empty() { String::new() } else { format!("{branch}{branches},") };
        text.push_str(&format!(
            ";INSERT INTO {table} (id, {column} balance, filler)
                 SELECT n, {branch} 0, 'row ' || n FROM generate_series(1, {count}) AS g (n)"
        ));
    }
    runtime.block_on(client.batch_execute(&text))?;
    // Only PostgreSQL wants statistics.
    if program.wants_analyze() {
        runtime.block_on(client.batch_execute("VACUUM ANALYZE"))?;
    }
    Ok(())
}

/// A connection with its prepared statements.
pub(crate) struct Client {
    runtime: Runtime,
    connection: Connection,
    select: Statement,
    /// Empty where there are no such tables.
    tpcb: Vec<Statement>,
    /// What the client met in *read_then_write* and *for_update*.
    met: [Contention; 2],
    /// A number that occurs in no text of another client or run.
    next_text: u64,
}

const SELECT: &str = "SELECT branch, balance, filler FROM account WHERE id = $1";

/// Accounts by branch and part of their numbers; the first column is their number.
const ANALYSIS: &str = "SELECT sum(n), sum(total), max(last) FROM (
    SELECT branch, id % 97 AS part, count(*) AS n, sum(balance) AS total, max(filler) AS last
    FROM account GROUP BY branch, id % 97) AS parts";

/// The changes of a TPC-B transaction: account, teller, branch, history; `$1` is the delta.
const CHANGES: [&str; 4] = [
    "UPDATE account SET balance = balance + $1 WHERE id = $2",
    "UPDATE teller SET balance = balance + $1 WHERE id = $2",
    "UPDATE branch SET balance = balance + $1 WHERE id = $2",
    "INSERT INTO history (teller, branch, account, delta, at) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
];

impl Client {
    pub fn new(program: &Program, number: u32) -> Result<Self> {
        let (runtime, connection) = program.connect()?;
        let select = runtime.block_on(connection.prepare(SELECT))?;
        let balance = "SELECT balance FROM account WHERE id = $1";
        let texts = CHANGES.into_iter().chain([balance, "BEGIN", "COMMIT"]);
        let texts = texts.filter(|_| !program.is_bare());
        let tpcb = texts.map(|text| runtime.block_on(connection.prepare(text)));
        let tpcb = tpcb.collect::<Result<_, _>>()?;
        let (met, next_text) = (Default::default(), u64::from(number) << 40);
        Ok(Client { runtime, connection, select, tpcb, met, next_text })
    }

    /// What the client met in one of the two pieces of work in which all clients update one row.
    pub fn met(&self, work: Work) -> Contention {
        self.met[usize::from(work == Work::ForUpdate)]
    }

    /// One run of a piece of work, checked.
    pub fn run(&mut self, work: Work, rows: u32, rng: &mut Rng) -> Result<()> {
        let id = 1 + rng.below(u64::from(rows)) as i32;
        match work {
            Work::Prepared | Work::Beside => {
                let row = self.runtime.block_on(self.connection.query_one(&self.select, &[&id]))?;
                check(id, row.try_get(2)?)
            }
            Work::Extended => {
                let params = [(&id as &(dyn ToSql + Sync), Type::INT4)];
                let rows = self.runtime.block_on(self.connection.query_typed(SELECT, &params))?;
                let row = rows.first().ok_or_else(|| no_row(id))?;
                check(id, row.try_get(2)?)
            }
            Work::Simple => {
                let text = format!("SELECT branch, balance, filler FROM account WHERE id = {id}");
                check(id, &self.simple(&text, 2)?)
            }
            Work::New => {
                self.next_text += 1;
                let text = format!(
                    "SELECT branch, balance AS b{}, filler FROM account WHERE id = {id}",
                    self.next_text
                );
                check(id, &self.simple(&text, 2)?)
            }
            Work::Tpcb => self.tpcb(id, rows, rng),
            Work::TpcbPrepared => self.tpcb_prepared(id, rows, rng),
            Work::ReadThenWrite | Work::ForUpdate => self.count(work),
            Work::Analyses => {
                let found = self.simple(ANALYSIS, 0)?;
                match found == rows.to_string() {
                    true => Ok(()),
                    false => Err(Failure::WrongAnswer(format!("{found} of {rows} accounts"))),
                }
            }
        }
    }

    /// A value of the only row that a text gives.
    fn simple(&self, text: &str, column: usize) -> Result<String> {
        let messages = self.runtime.block_on(self.connection.simple_query(text))?;
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(column).map(ToOwned::to_owned),
            _ => None,
        });
        row.ok_or_else(|| Failure::WrongAnswer(format!("no row for {text}")))
    }

    fn tpcb(&mut self, account: i32, rows: u32, rng: &mut Rng) -> Result<()> {
        let (branch, teller, delta) = choice(rows, rng);
        let by_key = |change: usize, id: i32| {
            CHANGES[change].replace("$1", &delta.to_string()).replace("$2", &id.to_string())
        };
        let history = format!(
            "INSERT INTO history (teller, branch, account, delta, at)
                 VALUES ({teller}, {branch}, {account}, {delta}, CURRENT_TIMESTAMP)"
        );
        let run = |text: &str| self.runtime.block_on(self.connection.simple_query(text));
        run("BEGIN")?;
        run(&by_key(0, account))?;
        self.simple(&format!("SELECT balance FROM account WHERE id = {account}"), 0)?;
        run(&by_key(1, teller))?;
        run(&by_key(2, branch))?;
        run(&history)?;
        run("COMMIT")?;
        Ok(())
    }

    fn tpcb_prepared(&mut self, account: i32, rows: u32, rng: &mut Rng) -> Result<()> {
        let (branch, teller, delta) = choice(rows, rng);
        let Client { runtime, connection, tpcb, .. } = self;
        runtime.block_on(async {
            connection.execute(&tpcb[5], &[]).await?;
            connection.execute(&tpcb[0], &[&delta, &account]).await?;
            connection.query_one(&tpcb[4], &[&account]).await?;
            connection.execute(&tpcb[1], &[&delta, &teller]).await?;
            connection.execute(&tpcb[2], &[&delta, &branch]).await?;
            connection.execute(&tpcb[3], &[&teller, &branch, &account, &delta]).await?;
            connection.execute(&tpcb[6], &[]).await?;
            Ok(())
        })
    }

    /// Reads and updates the row that all clients update, until that is committed.
    fn count(&mut self, work: Work) -> Result<()> {
        let lock = if work == Work::ForUpdate { "FOR UPDATE" } else { "" };
        let read = format!("SELECT n FROM counter WHERE id = 1 {lock}");
        let texts = ["BEGIN", read.as_str(), "UPDATE counter SET n = n + 1 WHERE id = 1", "COMMIT"];
        let (began, mut victims) = (Instant::now(), 0);
        let run = |text| self.runtime.block_on(self.connection.simple_query(text));
        while let Err(error) = texts.iter().try_for_each(|text| run(text).map(drop)) {
            if error.code() != Some(&SqlState::T_R_DEADLOCK_DETECTED) {
                return Err(error.into());
            }
            run("ROLLBACK")?;
            victims += 1;
        }
        let met = &mut self.met[usize::from(work == Work::ForUpdate)];
        *met = sum(*met, [1, victims, victims, began.elapsed().as_micros() as u64]);
        Ok(())
    }

    /// Checks that the row which all clients update counts so many commits.
    pub fn check_count(&mut self, commits: u64) -> Result<()> {
        let found = self.simple("SELECT n FROM counter WHERE id = 1", 0)?;
        match found == commits.to_string() {
            true => Ok(()),
            false => {
                Err(Failure::WrongAnswer(format!("{commits} commits, and the row has {found}")))
            }
        }
    }

    /// Checks that accounts, tellers, branches and history have the same sum.
    pub fn check_sums(&mut self) -> Result<()> {
        let sums = [
            "balance FROM account",
            "balance FROM teller",
            "balance FROM branch",
            "delta FROM history",
        ];
        let sum = |of: &str| {
            let (column, rest) = of.split_once(' ').expect("a column and its table");
            self.simple(&format!("SELECT coalesce(sum({column}), 0) {rest}"), 0)
        };
        let sums = sums.iter().map(|of| sum(of)).collect::<Result<Vec<_>>>()?;
        match sums.iter().all(|sum| *sum == sums[0]) {
            true => Ok(()),
            false => Err(Failure::WrongAnswer(format!("the books do not balance: {sums:?}"))),
        }
    }
}

/// Branch, teller and delta of a transaction.
fn choice(rows: u32, rng: &mut Rng) -> (i32, i32, i32) {
    let branches = u64::from(branches(rows));
    let branch = 1 + rng.below(branches) as i32;
    let teller = 1 + rng.below(10 * branches) as i32;
    (branch, teller, rng.range(-5_000..5_001) as i32)
}

fn check(id: i32, filler: &str) -> Result<()> {
    match filler.strip_prefix("row ") == Some(id.to_string().as_str()) {
        true => Ok(()),
        false => Err(Failure::WrongAnswer(format!("account {id} is {filler:?}"))),
    }
}

fn no_row(id: i32) -> Failure {
    Failure::WrongAnswer(format!("no account {id}"))
}
