//! Tables of the experiment, and the statements of its three applications with what they must answer.
//!
//! *web* sums the rows of a small table by region, for the customers that are not one: some milliseconds of
//! processor time, and no point lookup. *report* sums a large table by 97 parts. *etl* fills a table of its
//! own from a range of the large one, updates two ranges, and empties it again. Nobody changes what another reads, so
//! that every answer is known.

use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client as Connection, SimpleQueryMessage, Statement};

use crate::open_loop::Outcome;
use crate::programs::Program;
use crate::{Failure, Result};

/// The sizes of the tables.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Rows of the table that *web* sums.
    pub web: u32,
    /// Rows of the table that *report* sums and *etl* reads.
    pub large: u32,
    /// Rows that *etl* copies at a time, at most `large`.
    pub etl: u32,
    /// Writers of *etl*, a table each.
    pub writers: u32,
}

/// Regions of the small table.
const REGIONS: u32 = 16;
/// Customers of the small table.
const CUSTOMERS: u32 = 997;

/// Makes and fills the tables.
pub fn load(program: &Program, sizes: Sizes) -> Result<()> {
    let (runtime, client) = program.connect()?;
    let Sizes { web, large, writers, .. } = sizes;
    let mut texts = vec![
        "CREATE TABLE shop (id INTEGER PRIMARY KEY, region INTEGER NOT NULL, customer INTEGER NOT NULL,
             amount INTEGER NOT NULL)"
            .to_owned(),
        "CREATE TABLE sale (id INTEGER PRIMARY KEY, part INTEGER NOT NULL, amount INTEGER NOT NULL,
             note TEXT NOT NULL)"
            .to_owned(),
        format!(
            "INSERT INTO shop (id, region, customer, amount)
                 SELECT n, n % {REGIONS}, n % {CUSTOMERS}, n % 1000 FROM generate_series(1, {web}) AS g (n)"
        ),
        format!(
            "INSERT INTO sale (id, part, amount, note)
                 SELECT n, n % 97, n % 1000, 'note ' || n % 100 FROM generate_series(1, {large}) AS g (n)"
        ),
    ];
    texts.extend((0..writers).map(|writer| {
        format!("CREATE TABLE stage{writer} (id INTEGER PRIMARY KEY, part INTEGER, amount INTEGER)")
    }));
    texts.iter().try_for_each(|text| runtime.block_on(client.batch_execute(text)))?;
    // Only PostgreSQL wants statistics.
    if program.wants_analyze() {
        runtime.block_on(client.batch_execute("VACUUM ANALYZE"))?;
    }
    Ok(())
}

/// Sums by region, the last first; `$1` is left out.
const WEB: &str = "SELECT region, count(*), sum(amount) FROM shop WHERE customer <> $1
    GROUP BY region ORDER BY region DESC";

/// A client of the application *web*, with a connection of its own.
pub struct WebClient {
    runtime: Runtime,
    connection: Connection,
    statement: Statement,
    rows: u32,
}

impl WebClient {
    /// A connection whose `application_name` is `web`, with the statement prepared.
    pub fn new(program: &Program, sizes: Sizes) -> Result<Self> {
        let (runtime, connection) = program.connect_as("web")?;
        let statement = runtime.block_on(connection.prepare(WEB))?;
        Ok(WebClient { runtime, connection, statement, rows: sizes.web })
    }

    /// Sends the statement and checks its answer. `number` chooses the customer.
    pub fn run(&mut self, number: usize) -> Result<Outcome> {
        let customer = (number % CUSTOMERS as usize) as i32;
        let (connection, statement) = (&self.connection, &self.statement);
        let answer = async { connection.query(statement, &[&customer]).await };
        let answer = match self.runtime.block_on(answer) {
            Ok(answer) => answer,
            Err(error) if has_no_room(&error) => return Ok(Outcome::Rejected),
            Err(error) => return Err(error.into()),
        };
        let (mut count, mut sum, mut regions) = (0, 0, Vec::new());
        for row in &answer {
            regions.push(row.try_get::<_, i32>(0)?);
            count += row.try_get::<_, i64>(1)?;
            sum += row.try_get::<_, i64>(2)?;
        }
        let ordered = regions.is_sorted_by(|before, after| before > after);
        match ordered && (count, sum) == web_answer(self.rows, customer) {
            true => Ok(Outcome::Answered),
            false => Err(Failure::WrongAnswer(format!(
                "without customer {customer}: {count} rows of {sum} in regions {regions:?}"
            ))),
        }
    }
}

/// Rows and sum of the amounts of `1..=rows` without a customer's.
fn web_answer(rows: u32, customer: i32) -> (i64, i64) {
    let amount = |n: i64| n % 1000;
    let rows = i64::from(rows);
    let (thousands, rest) = (rows / 1000, rows % 1000);
    let all = thousands * 499_500 + rest * (rest + 1) / 2;
    let customer = i64::from(customer);
    let first = if customer == 0 { i64::from(CUSTOMERS) } else { customer };
    let own = (first..=rows).step_by(CUSTOMERS as usize);
    own.fold((rows, all), |(count, sum), n| (count - 1, sum - amount(n)))
}

/// Parts of the large table; each part's rows, sum and last note.
const REPORT: &str = "SELECT sum(n), sum(total), max(last) FROM (
    SELECT part, count(*) AS n, sum(amount) AS total, max(note) AS last FROM sale GROUP BY part) AS parts";

/// One run of *report*, checked.
pub async fn report(connection: &Connection, sizes: Sizes) -> Result<Outcome> {
    let answer = match connection.simple_query(REPORT).await {
        Ok(answer) => answer,
        Err(error) if has_no_room(&error) => return Ok(Outcome::Rejected),
        Err(error) => return Err(error.into()),
    };
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some([row.get(0), row.get(1)]),
        _ => None,
    });
    let (thousands, rest) = (u64::from(sizes.large / 1000), u64::from(sizes.large % 1000));
    let sum = thousands * 499_500 + rest * (rest + 1) / 2;
    let expected = [sizes.large.to_string(), sum.to_string()];
    let expected = [Some(expected[0].as_str()), Some(expected[1].as_str())];
    match row == Some(expected) {
        true => Ok(Outcome::Answered),
        false => Err(Failure::WrongAnswer(format!("the large table is {row:?}"))),
    }
}

/// The statements of a writer of *etl* and the number of rows that each changes.
pub struct Writer {
    statements: Vec<(String, Option<u64>)>,
    next: usize,
}

impl Writer {
    /// The writer that owns the table of this number, above 0.
    pub fn new(number: u32, sizes: Sizes) -> Self {
        let rows = sizes.etl.min(sizes.large);
        let first = 1 + (number * 7919) % (sizes.large - rows + 1);
        let (middle, last) = (first + rows / 2, first + rows - 1);
        let update = |low: u32, high: u32| {
            let text = format!(
                "UPDATE stage{number} SET amount = amount + part WHERE id BETWEEN {low} AND {high}"
            );
            (text, Some(u64::from(high - low + 1)))
        };
        let fill = format!(
            "INSERT INTO stage{number} SELECT id, part, amount FROM sale WHERE id BETWEEN {first} AND {last}"
        );
        let statements = vec![
            (fill, Some(u64::from(rows))),
            update(first, middle),
            update(middle, last),
            (format!("TRUNCATE stage{number}"), None),
        ];
        Writer { statements, next: 0 }
    }

    /// One statement, checked; a rejected one is tried again by the next call.
    pub async fn run(&mut self, connection: &Connection) -> Result<Outcome> {
        let (text, rows) = &self.statements[self.next % self.statements.len()];
        match connection.execute_typed(text, &[]).await {
            Ok(changed) if rows.is_none_or(|rows| rows == changed) => {
                self.next += 1;
                Ok(Outcome::Answered)
            }
            Ok(changed) => Err(Failure::WrongAnswer(format!("{text} changed {changed} rows"))),
            Err(error) if has_no_room(&error) => Ok(Outcome::Rejected),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the error says that the server has no room for the statement (class 53).
pub fn has_no_room(error: &tokio_postgres::Error) -> bool {
    error.code().map(SqlState::code).is_some_and(|code| code.starts_with("53"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_web_is_what_adding_row_by_row_gives() {
        for (rows, customer) in [(100_000, 0), (100_000, 996), (1_234, 3), (500, 700), (1, 0)] {
            let others = (1..=i64::from(rows)).filter(|n| n % i64::from(CUSTOMERS) != customer);
            let slow = others.fold((0, 0), |(count, sum), n| (count + 1, sum + n % 1000));
            assert_eq!(web_answer(rows, customer as i32), slow, "{rows} rows without {customer}");
        }
    }

    #[test]
    fn a_writer_touches_rows_that_are_there() {
        let sizes = Sizes { web: 1, large: 1_000, etl: 300, writers: 60 };
        for number in 0..sizes.writers {
            let writer = Writer::new(number, sizes);
            let numbers = |text: &str| -> Vec<u32> {
                let words = text.split_once("BETWEEN ").expect("a range").1.split(" AND ");
                words.map(|word| word.parse().expect("a number")).collect()
            };
            let ranges: Vec<_> =
                writer.statements[..3].iter().map(|(text, _)| numbers(text)).collect();
            assert!(ranges[0][0] >= 1 && ranges[0][1] <= 1_000, "{ranges:?}");
            for (range, (_, rows)) in ranges.iter().zip(&writer.statements) {
                assert!(range[0] >= ranges[0][0] && range[1] <= ranges[0][1], "{ranges:?}");
                assert_eq!(Some(u64::from(range[1] - range[0] + 1)), *rows);
            }
        }
    }
}
