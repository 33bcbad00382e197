//! Ten lines of an embedded database; the README shows them.

use halcyon::{Database, params};

/// Puts a row in, moves money in a transaction, reads it back.
pub fn main() -> halcyon::Result<()> {
    let mut session = Database::in_memory().session();
    session.batch("CREATE TABLE account (id INTEGER PRIMARY KEY, owner TEXT, balance BIGINT)")?;
    session.execute("INSERT INTO account VALUES (1, 'Ada', 100), (2, 'Alan', 50)", &[])?;
    let add = session.prepare("UPDATE account SET balance = balance + $2 WHERE id = $1")?;
    session.transaction(|tx| {
        tx.execute(&add, params![1, -30_i64])?;
        tx.execute(&add, params![2, 30_i64])
    })?;
    let mut rows = session.query("SELECT owner, balance FROM account ORDER BY id", &[])?;
    while let Some(row) = rows.next()? {
        println!("{}: {}", row.get::<&str>(0)?, row.get::<i64>(1)?);
    }
    Ok(())
}
