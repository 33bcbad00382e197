//! PostgreSQL on a socket, started for the arm ([`Server`]) and thrown away after it.
//!
//! Commits need not be on disk when they are acknowledged (`synchronous_commit`, `fsync` and
//! `full_page_writes` are off), just as in Halcyon in memory. Clients use a Unix socket and
//! prepared statements in binary form; money is in whole cents, since PostgreSQL's NUMERIC would be
//! a handicap.

use std::error::Error;
use std::path::Path;

use halcyon::{RowSet, Value, ValueRef};
use tokio::runtime::Runtime;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client as Pg, Row, Statement};

use super::{Client, Content, Engine};
use crate::Result;
use crate::postgres::Server;
use crate::tpcc::consistency;
use crate::tpcc::input::Input;
use crate::tpcc::random::Scale;
use crate::tpcc::schema::{Dialect, Table, statements};
use crate::tpcc::sql::Sql;
use crate::tpcc::transactions::{self, Connection, Ended};
use crate::tpcc::{Conflict, Done, Trouble};

/// Settings of a server whose commits need not be durable.
const SETTINGS: [&str; 6] = [
    "shared_buffers=4GB",
    "synchronous_commit=off",
    "fsync=off",
    "full_page_writes=off",
    "max_wal_size=8GB",
    "jit=off",
];

/// A database of PostgreSQL's.
pub struct Postgres {
    server: Server,
    scale: Scale,
    serializable: bool,
}

impl Postgres {
    /// The tables with what `folder` holds of them: a file of rows per table.
    pub fn loaded(content: Content, folder: &Path, serializable: bool) -> Result<Self> {
        let server = Server::start(&std::env::temp_dir(), &SETTINGS)?;
        let (runtime, client) = server.connect()?;
        let copy = |table: Table| {
            let file = folder.join(format!("{}.tsv", table.name()));
            format!("COPY {} FROM '{}'", table.name(), file.display())
        };
        let texts = statements(Dialect::Integers).into_iter().chain(Table::ALL.map(copy));
        for text in texts.chain(["VACUUM ANALYZE".into(), "CHECKPOINT".into()]) {
            runtime.block_on(client.batch_execute(&text))?;
        }
        Ok(Postgres { server, scale: content.scale, serializable })
    }
}

impl Engine for Postgres {
    fn client(&self) -> Result<Box<dyn Client>> {
        let (runtime, client) = self.server.connect()?;
        let mut statements = Vec::new();
        for sql in Sql::all() {
            // PostgreSQL's sums of BIGINT are NUMERIC.
            let text = sql.text().replace("sum(ol_amount)", "sum(ol_amount)::BIGINT");
            statements.push(runtime.block_on(client.prepare(&text))?);
        }
        let begin = match self.serializable {
            true => "BEGIN ISOLATION LEVEL SERIALIZABLE",
            false => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        Ok(Box::new(Hand { runtime, client, statements, begin, rows: RowSet::default() }))
    }

    fn broken(&self) -> Result<Option<String>> {
        let (runtime, client) = self.server.connect()?;
        consistency::broken(self.scale, &mut |text| {
            Ok(runtime.block_on(client.query_one(text, &[]))?.try_get(0)?)
        })
    }
}

struct Hand {
    runtime: Runtime,
    client: Pg,
    statements: Vec<Statement>,
    begin: &'static str,
    rows: RowSet,
}

impl Client for Hand {
    fn run(&mut self, input: &Input) -> Done<Ended> {
        transactions::run(self, input)
    }
}

/// A value as PostgreSQL takes it.
#[derive(Debug)]
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Int32(value) => value.to_sql(ty, out),
            Value::Timestamp(value) => value.to_sql(ty, out),
            Value::Decimal(value) => (*value as i64).to_sql(ty, out),
            Value::Text(value) => value.to_sql(ty, out),
            other => unreachable!("TPC-C has no {other:?}"),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::VARCHAR, Type::TEXT].contains(ty)
    }

    to_sql_checked!();
}

/// The cells of a row, for as long as it lives.
fn cell(row: &Row, column: usize) -> ValueRef<'_> {
    let ty = row.columns()[column].type_();
    let value = match *ty {
        Type::INT4 => row.get::<_, Option<i32>>(column).map(ValueRef::Int32),
        Type::INT8 => row.get::<_, Option<i64>>(column).map(ValueRef::Int64),
        _ => row.get::<_, Option<&str>>(column).map(ValueRef::Text),
    };
    value.unwrap_or(ValueRef::Null)
}

impl Connection for Hand {
    const TABLE_LOCKS: bool = false;

    fn begin(&mut self, _input: &Input) -> Done<()> {
        Ok(self.runtime.block_on(self.client.batch_execute(self.begin))?)
    }

    fn commit(&mut self) -> Done<()> {
        Ok(self.runtime.block_on(self.client.batch_execute("COMMIT"))?)
    }

    fn rollback(&mut self) -> Done<()> {
        Ok(self.runtime.block_on(self.client.batch_execute("ROLLBACK"))?)
    }

    fn query(&mut self, sql: Sql, params: &[Value]) -> Done<&RowSet> {
        let bound: Vec<Bound<'_>> = params.iter().map(Bound).collect();
        let params: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let statement = &self.statements[sql.number()];
        let rows = self.runtime.block_on(self.client.query(statement, &params))?;
        self.rows.reset(statement.columns().len());
        for row in &rows {
            self.rows
                .push_row((0..row.len()).map(|column| cell(row, column)))
                .expect("rows of TPC-C are short");
        }
        Ok(&self.rows)
    }

    fn execute(&mut self, sql: Sql, params: &[Value]) -> Done<u64> {
        let bound: Vec<Bound<'_>> = params.iter().map(Bound).collect();
        let params: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value| value as _).collect();
        let statement = &self.statements[sql.number()];
        Ok(self.runtime.block_on(self.client.execute(statement, &params))?)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code().map(|code| code.code()) {
            Some("40001") => Trouble::Conflict(Conflict::Serialization),
            Some("40P01") => Trouble::Conflict(Conflict::Deadlock),
            _ => Trouble::Failed(error.into()),
        }
    }
}
