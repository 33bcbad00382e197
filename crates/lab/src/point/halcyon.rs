//! Halcyon embedded: one session per thread, statements prepared once.

use halcyon::{Database, RowSet, Session, Statement, ValueRef, params};

use super::{Subject, UPDATE_STEP, Work, Worker, check_row, name_of, price_of};
use crate::{Failure, Result};

/// A database with the table.
pub struct Halcyon {
    database: Database,
}

impl Halcyon {
    /// An empty table.
    pub fn new() -> Result<Self> {
        let database = Database::in_memory();
        database.session().batch(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name VARCHAR(16) NOT NULL, \
             amount BIGINT NOT NULL, price DOUBLE PRECISION NOT NULL)",
        )?;
        Ok(Halcyon { database })
    }
}

/// A session and its statements.
struct Hand {
    session: Session,
    select: Statement,
    update: Statement,
    insert: Statement,
    row: RowSet,
}

impl Hand {
    fn new(mut session: Session) -> Result<Self> {
        Ok(Hand {
            select: session.prepare("SELECT name, amount, price FROM item WHERE id = $1")?,
            update: session.prepare("UPDATE item SET amount = amount + $2 WHERE id = $1")?,
            insert: session.prepare("INSERT INTO item VALUES ($1, $2, $3, $4)")?,
            row: RowSet::default(),
            session,
        })
    }

    fn select(&mut self, id: u32) -> Result<()> {
        self.session.query_into(&self.select, params![id as i32], &mut self.row)?;
        if self.row.len() != 1 {
            return Err(Failure::WrongAnswer(format!("row {id}: {} rows", self.row.len())));
        }
        match (self.row.value(0, 0), self.row.value(0, 1), self.row.value(0, 2)) {
            (ValueRef::Text(name), ValueRef::Int64(amount), ValueRef::Float64(price)) => {
                check_row(id, name.as_bytes(), amount, price)
            }
            other => Err(Failure::WrongAnswer(format!("row {id} is {other:?}"))),
        }
    }

    fn update(&mut self, id: u32) -> Result<()> {
        match self.session.execute(&self.update, params![id as i32, UPDATE_STEP])? {
            1 => Ok(()),
            rows => Err(Failure::WrongAnswer(format!("row {id}: {rows} rows updated"))),
        }
    }

    fn insert(&mut self, id: u32) -> Result<()> {
        let name = name_of(id);
        let name = std::str::from_utf8(&name).expect("letters");
        let values = params![id as i32, name, i64::from(id), price_of(id)];
        match self.session.execute(&self.insert, values)? {
            1 => Ok(()),
            rows => Err(Failure::WrongAnswer(format!("row {id}: {rows} rows inserted"))),
        }
    }
}

impl Subject for Halcyon {
    fn load(&mut self, rows: u32) -> Result<()> {
        let mut hand = Hand::new(self.database.session())?;
        hand.session.execute("BEGIN", &[])?;
        (0..rows).try_for_each(|id| hand.insert(id))?;
        hand.session.execute("COMMIT", &[])?;
        Ok(())
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(Hand::new(self.database.session())?))
    }

    fn totals(&mut self) -> Result<(u64, u64)> {
        let text = "SELECT count(*), CAST(sum(amount / 4294967296) AS BIGINT) FROM item";
        let mut session = self.database.session();
        let mut rows = session.query(text, &[])?;
        let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("no totals".into()))?;
        Ok((row.get::<i64>(0)? as u64, row.get::<i64>(1)? as u64))
    }
}

impl Worker for Hand {
    fn work(&mut self, work: Work, ids: &[u32]) -> Result<()> {
        match work {
            Work::Select => ids.iter().try_for_each(|id| self.select(*id)),
            Work::Update => ids.iter().try_for_each(|id| self.update(*id)),
            Work::Insert => ids.iter().try_for_each(|id| self.insert(*id)),
        }
    }
}
