//! The guide's program: a statement by the registry's driver manager, which finds the library by its name.

use adbc_core::options::AdbcVersion;
use adbc_core::{Connection, Database, Driver, Statement};
use adbc_driver_manager::ManagedDriver;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut driver =
        ManagedDriver::load_dynamic_from_name("adbc_driver_halcyon", None, AdbcVersion::V110)?;
    let database = driver.new_database_with_opts([("path".into(), "data".into())])?;
    let mut statement = database.new_connection()?.new_statement()?;
    statement.set_sql_query("SELECT 42")?;
    for batch in statement.execute()? {
        println!("{:?}", batch?);
    }
    Ok(())
}
