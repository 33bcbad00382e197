//! SQLite in memory: one connection, which clients take for a whole transaction.
//!
//! Statements are prepared once and looked up in the connection's cache by their text, which costs
//! about a tenth of a microsecond each, because the Rust binding ties statements to the
//! connection's lifetime. SQLite has neither decimals nor moments: both are whole numbers here,
//! which is cheaper.

use std::sync::{Arc, Mutex};

use halcyon::{RowSet, Value, ValueRef};
use rusqlite::types::{ToSqlOutput, ValueRef as Cell};
use rusqlite::{Connection as Db, OpenFlags, Statement, ToSql};

use super::{Client, Content, Engine};
use crate::tpcc::consistency;
use crate::tpcc::input::Input;
use crate::tpcc::load::populate;
use crate::tpcc::random::Scale;
use crate::tpcc::schema::{Dialect, statements};
use crate::tpcc::sql::Sql;
use crate::tpcc::transactions::{self, Connection, Ended};
use crate::tpcc::{Done, Trouble};
use crate::{Failure, Result};

/// The database.
pub struct Sqlite {
    hand: Arc<Mutex<Hand>>,
    scale: Scale,
}

struct Hand {
    db: Db,
    texts: Vec<String>,
    rows: RowSet,
}

impl Sqlite {
    /// The tables with their content.
    pub fn loaded(content: Content) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Db::open_in_memory_with_flags(flags)?;
        db.set_prepared_statement_cache_capacity(128);
        for text in statements(Dialect::Integers) {
            db.execute_batch(&text)?;
        }
        db.execute_batch("BEGIN")?;
        populate(content.scale, content.seed, &mut |table, values| {
            let mut statement = db.prepare_cached(&table.insert().replace('$', "?"))?;
            bind(&mut statement, values)?;
            statement.raw_execute()?;
            Ok(())
        })?;
        db.execute_batch("COMMIT")?;
        // Statistics for its planner, as PostgreSQL gets them.
        db.execute_batch("ANALYZE")?;
        let texts = Sql::all().map(|sql| sql.text_without_locks().replace('$', "?")).collect();
        let hand = Hand { db, texts, rows: RowSet::default() };
        Ok(Sqlite { hand: Arc::new(Mutex::new(hand)), scale: content.scale })
    }
}

impl Engine for Sqlite {
    fn client(&self) -> Result<Box<dyn Client>> {
        Ok(Box::new(Turn(Arc::clone(&self.hand))))
    }

    fn broken(&self) -> Result<Option<String>> {
        let hand = self.hand.lock().expect("nobody panics with it");
        consistency::broken(self.scale, &mut |text| {
            Ok(hand.db.query_row(text, [], |row| row.get(0))?)
        })
    }
}

/// A client, who waits for its turn at the connection.
struct Turn(Arc<Mutex<Hand>>);

impl Client for Turn {
    fn run(&mut self, input: &Input) -> Done<Ended> {
        let mut hand = self.0.lock().expect("nobody panics with it");
        transactions::run(&mut *hand, input)
    }
}

/// A value as SQLite takes it.
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let cell = match self.0 {
            Value::Null => Cell::Null,
            Value::Int32(value) => Cell::Integer((*value).into()),
            Value::Timestamp(value) => Cell::Integer(*value),
            Value::Decimal(value) => Cell::Integer(*value as i64),
            Value::Text(value) => Cell::Text(value.as_bytes()),
            other => unreachable!("TPC-C has no {other:?}"),
        };
        Ok(ToSqlOutput::Borrowed(cell))
    }
}

fn bind(statement: &mut Statement<'_>, params: &[Value]) -> rusqlite::Result<()> {
    for (at, value) in (1..).zip(params) {
        statement.raw_bind_parameter(at, Bound(value))?;
    }
    Ok(())
}

impl Connection for Hand {
    const TABLE_LOCKS: bool = false;

    fn begin(&mut self, _input: &Input) -> Done<()> {
        self.command("BEGIN")
    }

    fn commit(&mut self) -> Done<()> {
        self.command("COMMIT")
    }

    fn rollback(&mut self) -> Done<()> {
        self.command("ROLLBACK")
    }

    fn query(&mut self, sql: Sql, params: &[Value]) -> Done<&RowSet> {
        let mut statement = self.db.prepare_cached(&self.texts[sql.number()])?;
        bind(&mut statement, params)?;
        let width = statement.column_count();
        self.rows.reset(width);
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            self.rows
                .push_row((0..width).map(|column| {
                    match row.get_ref(column).expect("within its width") {
                        Cell::Integer(value) => ValueRef::Int64(value),
                        Cell::Text(text) => {
                            ValueRef::Text(std::str::from_utf8(text).expect("ASCII"))
                        }
                        Cell::Null => ValueRef::Null,
                        other => unreachable!("TPC-C has no {other:?}"),
                    }
                }))
                .expect("rows of TPC-C are short");
        }
        Ok(&self.rows)
    }

    fn execute(&mut self, sql: Sql, params: &[Value]) -> Done<u64> {
        let mut statement = self.db.prepare_cached(&self.texts[sql.number()])?;
        bind(&mut statement, params)?;
        Ok(statement.raw_execute()? as u64)
    }
}

impl Hand {
    fn command(&self, text: &str) -> Done<()> {
        self.db.prepare_cached(text)?.raw_execute()?;
        Ok(())
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Trouble::Failed(Failure::from(error))
    }
}
