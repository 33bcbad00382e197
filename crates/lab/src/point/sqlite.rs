//! SQLite in memory, with the one connection that such a database has: threads take turns.
//!
//! The journal stays in memory, too (SQLite's default), so that a failed statement can be undone,
//! as in Halcyon. Statements are prepared once, and looked up in the connection's cache once per
//! batch.

use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OpenFlags, params};

use super::{Subject, UPDATE_STEP, Work, Worker, check_row, name_of, price_of};
use crate::{Failure, Result};

/// The connection.
#[derive(Clone)]
pub struct Sqlite {
    connection: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// An empty table.
    pub fn new() -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_in_memory_with_flags(flags)?;
        connection.execute_batch(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, \
             amount INTEGER NOT NULL, price REAL NOT NULL)",
        )?;
        Ok(Sqlite { connection: Arc::new(Mutex::new(connection)) })
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Engine(error.to_string())
    }
}

const INSERT: &str = "INSERT INTO item VALUES (?1, ?2, ?3, ?4)";
const SELECT: &str = "SELECT name, amount, price FROM item WHERE id = ?1";
const UPDATE: &str = "UPDATE item SET amount = amount + ?2 WHERE id = ?1";

impl Subject for Sqlite {
    fn load(&mut self, rows: u32) -> Result<()> {
        let mut connection = self.connection.lock().expect("nobody panics with it");
        let transaction = connection.transaction()?;
        let ids: Vec<u32> = (0..rows).collect();
        insert(&transaction, &ids)?;
        Ok(transaction.commit()?)
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(self.clone()))
    }

    fn totals(&mut self) -> Result<(u64, u64)> {
        let connection = self.connection.lock().expect("nobody panics with it");
        let text = "SELECT count(*), sum(amount / ?1) FROM item";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let (rows, updates) = connection.query_row(text, [UPDATE_STEP], row)?;
        Ok((rows as u64, updates as u64))
    }
}

impl Worker for Sqlite {
    fn work(&mut self, work: Work, ids: &[u32]) -> Result<()> {
        let connection = self.connection.lock().expect("nobody panics with it");
        match work {
            Work::Select => select(&connection, ids),
            Work::Update => update(&connection, ids),
            Work::Insert => insert(&connection, ids),
        }
    }
}

fn select(connection: &Connection, ids: &[u32]) -> Result<()> {
    let mut statement = connection.prepare_cached(SELECT)?;
    for &id in ids {
        let mut rows = statement.query([id])?;
        let Some(row) = rows.next()? else {
            return Err(Failure::WrongAnswer(format!("row {id} is missing")));
        };
        let name = row
            .get_ref(0)?
            .as_bytes()
            .map_err(|error| Failure::WrongAnswer(format!("name of row {id}: {error}")))?;
        check_row(id, name, row.get(1)?, row.get(2)?)?;
    }
    Ok(())
}

fn update(connection: &Connection, ids: &[u32]) -> Result<()> {
    let mut statement = connection.prepare_cached(UPDATE)?;
    for &id in ids {
        if statement.execute(params![id, UPDATE_STEP])? != 1 {
            return Err(Failure::WrongAnswer(format!("row {id} was not updated")));
        }
    }
    Ok(())
}

fn insert(connection: &Connection, ids: &[u32]) -> Result<()> {
    let mut statement = connection.prepare_cached(INSERT)?;
    for &id in ids {
        let name = name_of(id);
        let name = std::str::from_utf8(&name).expect("letters");
        statement.execute(params![id, name, i64::from(id), price_of(id)])?;
    }
    Ok(())
}
