//! Connections: a session of the engine, shared by the statements and streams made of it.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::error::Status;
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Optionable};
use arrow::array::RecordBatchReader;
use arrow::datatypes::Schema;
use halcyon::{Session, SessionState, SqlState, Value};
use halcyon_interchange::load::quoted;

use crate::errors::{Result, invalid, missing, out_of_turn, own, told};
use crate::info;
use crate::objects::{self, Filter};
use crate::options::{not_found, other_getters, text, truth, truth_text, unknown};
use crate::reading;
use crate::sessions::{Shared, VIEWS};
use crate::sharing::Opened;
use crate::statements::Statement;

type Batches = Box<dyn RecordBatchReader + Send + 'static>;

/// Beginning of a connection's options that are settings of the session, as SET knows them.
const SETTING: &str = "halcyon.setting.";
/// Number of the session, as `pg_backend_pid()` gives it.
const SESSION_ID: &str = "halcyon.session_id";

/// A connection.
pub struct Connection {
    shared: Arc<Shared>,
}

impl Connection {
    /// A connection with autocommit for a session.
    pub(crate) fn new(session: Session, opened: Arc<Opened>) -> Self {
        Connection { shared: Shared::new(session, opened) }
    }

    fn run<T>(&self, work: impl FnOnce(&mut Session) -> halcyon::Result<T>) -> Result<T> {
        work(&mut self.shared.lock().session).map_err(told)
    }

    fn set_autocommit(&self, wanted: bool) -> Result<()> {
        let mut state = self.shared.lock();
        if wanted && !state.autocommit && state.session.state() != SessionState::Idle {
            state.session.commit().map_err(told)?;
        }
        state.autocommit = wanted;
        Ok(())
    }

    /// Sets what the following transactions begin with. Errors: invalid state within one.
    fn set_mode(&self, sql: &str) -> Result<()> {
        let mut state = self.shared.lock();
        if state.session.state() != SessionState::Idle {
            return Err(out_of_turn("a transaction is in progress, whose modes stay"));
        }
        state.session.execute(sql, &[]).map(|_| ()).map_err(told)
    }

    fn set_isolation(&self, level: &str) -> Result<()> {
        let level = match level.strip_prefix("adbc.connection.transaction.isolation.") {
            Some("default") => {
                return self.set_mode("SET default_transaction_isolation TO DEFAULT");
            }
            Some("read_uncommitted") => "READ UNCOMMITTED",
            Some("read_committed") => "READ COMMITTED",
            Some("repeatable_read" | "snapshot") => "REPEATABLE READ",
            Some("serializable") => "SERIALIZABLE",
            Some("linearizable") => return Err(missing("isolation level linearizable")),
            _ => return Err(invalid(format!("no isolation level: \"{level}\""))),
        };
        self.set_mode(&format!(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}"
        ))
    }

    fn set_catalog(&self, wanted: &str) -> Result<()> {
        self.shared.lock().require_catalog(wanted)
    }

    fn set_schema(&self, wanted: &str) -> Result<()> {
        let found = self.scalar(
            "SELECT CAST(count(*) AS text) FROM pg_catalog.pg_namespace WHERE nspname = $1",
            &[Value::Text(wanted.to_owned())],
        )?;
        if found == "0" {
            let message = format!("schema \"{wanted}\" does not exist");
            return Err(own(Status::NotFound, SqlState::INVALID_SCHEMA_NAME, message));
        }
        let set = format!("SET search_path TO {}", quoted(wanted));
        self.run(|session| session.execute(set.as_str(), &[])).map(|_| ())
    }

    fn scalar(&self, sql: &str, params: &[Value]) -> Result<String> {
        self.shared.lock().scalar(sql, params)
    }

    /// COMMIT or ROLLBACK. Errors: invalid state with autocommit.
    fn end(&self, end: impl FnOnce(&mut Session) -> halcyon::Result<()>) -> Result<()> {
        let mut state = self.shared.lock();
        if state.autocommit {
            return Err(out_of_turn("each statement commits by itself (autocommit)"));
        }
        match state.session.state() {
            SessionState::Idle => Ok(()),
            _ => end(&mut state.session).map_err(told),
        }
    }
}

impl Optionable for Connection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionConnection::AutoCommit => self.set_autocommit(truth(&name, value)?),
            OptionConnection::ReadOnly => {
                let mode = if truth(&name, value)? { "READ ONLY" } else { "READ WRITE" };
                self.set_mode(&format!("SET SESSION CHARACTERISTICS AS TRANSACTION {mode}"))
            }
            OptionConnection::IsolationLevel => self.set_isolation(&text(&name, value)?),
            OptionConnection::CurrentCatalog => self.set_catalog(&text(&name, value)?),
            OptionConnection::CurrentSchema => self.set_schema(&text(&name, value)?),
            _ if name == VIEWS => {
                self.shared.lock().views = truth(&name, value)?;
                Ok(())
            }
            _ => match name.strip_prefix(SETTING) {
                Some(setting) => {
                    let params = [setting.to_owned(), text(&name, value)?].map(Value::Text);
                    self.scalar("SELECT set_config($1, $2, false)", &params).map(|_| ())
                }
                None => Err(unknown(&name)),
            },
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        let name = key.as_ref().to_owned();
        match key {
            OptionConnection::AutoCommit => Ok(truth_text(self.shared.lock().autocommit)),
            OptionConnection::ReadOnly => {
                Ok(truth_text(self.scalar("SHOW default_transaction_read_only", &[])? == "on"))
            }
            OptionConnection::IsolationLevel => {
                let level = self.scalar("SHOW default_transaction_isolation", &[])?;
                let level = level.replace(' ', "_");
                Ok(format!("adbc.connection.transaction.isolation.{level}"))
            }
            OptionConnection::CurrentCatalog => self.scalar("SELECT current_database()", &[]),
            OptionConnection::CurrentSchema => self.scalar("SELECT current_schema()", &[]),
            _ if name == VIEWS => Ok(truth_text(self.shared.lock().views)),
            _ if name == SESSION_ID => Ok(self.shared.lock().session.id().to_string()),
            _ => match name.strip_prefix(SETTING) {
                Some(setting) => {
                    self.scalar("SELECT current_setting($1)", &[Value::Text(setting.to_owned())])
                }
                None => Err(not_found(&name)),
            },
        }
    }

    other_getters!(OptionConnection);
}

impl adbc_core::Connection for Connection {
    type StatementType = Statement;

    fn new_statement(&mut self) -> Result<Statement> {
        Ok(Statement::new(self.shared.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        self.shared.cancel_handle()
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Batches> {
        info::reader(codes)
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Batches> {
        let filter = Filter {
            depth,
            catalog,
            schema: db_schema,
            table: table_name,
            types: table_type,
            column: column_name,
        };
        self.run(|session| objects::found(session, &filter)).and_then(objects::reader)
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let mut state = self.shared.lock();
        if let Some(catalog) = catalog.filter(|catalog| !catalog.is_empty()) {
            state.require_catalog(catalog)?;
        }
        let schema = db_schema.filter(|schema| !schema.is_empty());
        let name = schema.into_iter().chain([table_name]).map(quoted);
        let name = name.collect::<Vec<_>>().join(".");
        let views = state.views;
        let statement = state.session.prepare_passing(&format!("SELECT * FROM {name}"), &[]);
        let columns = statement.map(|statement| state.session.columns(&statement));
        Ok(reading::schema(&columns.map_err(told)?, views).as_ref().clone())
    }

    fn get_table_types(&self) -> Result<Batches> {
        objects::table_types()
    }

    fn get_statistic_names(&self) -> Result<Batches> {
        Err(missing("statistics"))
    }

    fn get_statistics(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: Option<&str>,
        _: bool,
    ) -> Result<Batches> {
        Err(missing("statistics"))
    }

    fn commit(&mut self) -> Result<()> {
        self.end(Session::commit)
    }

    fn rollback(&mut self) -> Result<()> {
        self.end(Session::rollback)
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Batches> {
        Err(missing("results in partitions"))
    }
}
