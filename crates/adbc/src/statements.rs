//! Statements: SQL with parameters, or bulk ingestion.

use std::sync::Arc;

use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Field, Schema};
use halcyon::{Outcome, Rows, SqlError, SqlState, SqlType, Value};
use halcyon_interchange::placeholders::{numbers, questions};
use halcyon_interchange::transactions::{begin_for, in_transaction};

use crate::binding::{Given, Params};
use crate::errors::{Result, invalid, missing, out_of_turn, told};
use crate::ingest::Target;
use crate::options::{not_found, other_getters, truth, truth_text, unknown};
use crate::reading::{self, More, Reading};
use crate::sessions::{Shared, State, VIEWS};

/// A statement of a connection.
pub struct Statement {
    shared: Arc<Shared>,
    /// The text, with `?` as `$1`.
    sql: Option<String>,
    /// The plan that stays from run to run, and the types of its parameters.
    prepared: Option<Plan>,
    given: Option<Given>,
    target: Target,
    views: Option<bool>,
}

/// A plan, and the types that were given for its parameters.
struct Plan {
    statement: halcyon::Statement,
    types: Vec<Option<SqlType>>,
}

impl Statement {
    /// A statement without a text.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let target = Target::default();
        Statement { shared, sql: None, prepared: None, given: None, target, views: None }
    }

    fn sql(&self) -> Result<&str> {
        self.sql.as_deref().ok_or_else(|| out_of_turn("the statement has no text"))
    }

    /// The plan for parameters of these types: the one that is there, if it was made for them.
    fn plan(&mut self, state: &mut State, types: &[Option<SqlType>]) -> Result<Plan> {
        match self.prepared.take() {
            Some(plan) if plan.types == types => Ok(plan),
            _ => {
                let sql = self.sql()?;
                let statement = state.session.prepare_passing(sql, types).map_err(told)?;
                Ok(Plan { statement, types: types.to_vec() })
            }
        }
    }

    /// Runs the statement and returns its result's stream, and how many rows it has written, if it counts them.
    fn run(&mut self) -> Result<(Reading, Option<u64>)> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if self.target.table.is_some() {
            let count = self.target.take(&mut state, self.given.take())?;
            return Ok(self.without_rows(&state, Some(count)));
        }
        match self.given.take() {
            None => self.run_plain(&mut state),
            Some(given) => self.run_bound(&mut state, given),
        }
    }

    fn views(&self, state: &State) -> bool {
        self.views.unwrap_or(state.views)
    }

    fn without_rows(&self, state: &State, written: Option<u64>) -> (Reading, Option<u64>) {
        let (shared, columns) = (self.shared.clone(), Arc::from([]));
        let views = self.views(state);
        (Reading::new(shared, columns, views, None, None, written), written)
    }

    fn of_outcome(&self, state: &State, outcome: Outcome) -> (Reading, Option<u64>) {
        match outcome {
            Outcome::Rows { rows, written, .. } => {
                let (shared, views) = (self.shared.clone(), self.views(state));
                let columns = rows.columns().clone();
                (Reading::new(shared, columns, views, Some(rows), None, written), written)
            }
            Outcome::Done(tag) => self.without_rows(state, tag.rows),
            Outcome::CopyIn { .. } | Outcome::CopyOut { .. } => self.without_rows(state, None),
        }
    }

    /// Runs the text's statements without parameters; the last one's result is the statement's.
    fn run_plain(&mut self, state: &mut State) -> Result<(Reading, Option<u64>)> {
        if let Some(plan) = self.prepared.take_if(|plan| plan.types.is_empty()) {
            let outcome = run_one(state, &plan.statement, &[]);
            self.prepared = Some(plan);
            return Ok(self.of_outcome(state, outcome.map_err(told)?));
        }
        let sql = self.sql()?.to_owned();
        let mut last = None;
        for text in statements(state, &sql)? {
            // What an earlier statement returns nobody reads.
            drop(last.take());
            let statement = state.session.prepare_passing(text, &[]).map_err(told)?;
            let outcome = run_one(state, &statement, &[]).map_err(told)?;
            last = Some(self.of_outcome(state, outcome));
        }
        Ok(last.unwrap_or_else(|| self.without_rows(state, None)))
    }

    /// Runs the statement for each row of parameters.
    fn run_bound(&mut self, state: &mut State, given: Given) -> Result<(Reading, Option<u64>)> {
        if statements(state, self.sql()?)?.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(told(SqlError::new(SqlState::SYNTAX_ERROR, message)));
        }
        let mut params = Params::new(given).map_err(told)?;
        let plan = self.plan(state, params.types())?;
        // The engine takes more parameters than a text has.
        let (wanted, bound) = (numbers(self.sql()?), params.types().len());
        if wanted != bound {
            return Err(invalid(format!(
                "the statement has {wanted} parameters, and {bound} are bound"
            )));
        }
        let columns = state.session.columns(&plan.statement);
        let (shared, views) = (self.shared.clone(), self.views(state));
        if columns.is_empty() {
            let stays = !state.autocommit;
            let count = in_transaction(&mut state.session, stays, |session| {
                let mut count = 0;
                while let Some(values) = params.next_row()? {
                    count += session.execute(&plan.statement, &values)?;
                }
                Ok(count)
            });
            self.prepared = Some(plan);
            return Ok(self.without_rows(state, Some(count.map_err(told)?)));
        }
        if plan.statement.tag() == "SELECT" {
            return self.run_queries(state, plan, params);
        }
        // Rows that a write returns: all of it happens now, not as somebody reads.
        let stays = !state.autocommit;
        let ran = in_transaction(&mut state.session, stays, |session| {
            let (mut kept, mut count) = (Vec::new(), 0);
            while let Some(values) = params.next_row()? {
                if let Outcome::Rows { rows, written, .. } =
                    session.run(&plan.statement, &values)?
                {
                    count += written.unwrap_or(0);
                    kept.push(rows);
                }
            }
            Ok((kept, count))
        });
        self.prepared = Some(plan);
        let (kept, count) = ran.map_err(told)?;
        let mut kept = kept.into_iter();
        let more: More = Box::new(move || Ok(kept.next()));
        Ok((Reading::new(shared, columns, views, None, Some(more), Some(count)), Some(count)))
    }

    /// Runs a query for the first row of parameters now, and for the others as their results are read.
    fn run_queries(
        &mut self,
        state: &mut State,
        plan: Plan,
        mut params: Params,
    ) -> Result<(Reading, Option<u64>)> {
        let columns = state.session.columns(&plan.statement);
        let (shared, views) = (self.shared.clone(), self.views(state));
        let first = match params.next_row().map_err(told)? {
            Some(values) => Some(query(state, &plan.statement, &values).map_err(told)?),
            None => None,
        };
        let of = shared.clone();
        let more: More = Box::new(move || {
            let Some(values) = params.next_row()? else { return Ok(None) };
            query(&mut of.lock(), &plan.statement, &values).map(Some)
        });
        Ok((Reading::new(shared, columns, views, first, Some(more), None), None))
    }
}

/// The statements of a text.
fn statements<'t>(state: &mut State, text: &'t str) -> Result<Vec<&'t str>> {
    let end = text.trim_end().trim_end_matches(';').len();
    match text[..end].contains(';') {
        false => Ok(vec![text]),
        true => state.session.split(text).map_err(told),
    }
}

/// Runs a statement in the transaction that the connection's options want.
fn run_one(
    state: &mut State,
    statement: &halcyon::Statement,
    values: &[Value],
) -> halcyon::Result<Outcome> {
    if !state.autocommit {
        begin_for(&mut state.session, statement);
    }
    let outcome = state.session.run(statement, values)?;
    if matches!(outcome, Outcome::CopyIn { .. } | Outcome::CopyOut { .. }) {
        state.session.copy_abandon();
        let what = format!("{} between the server and its client", statement.tag());
        return Err(SqlError::unsupported(what).hint("Use bulk ingestion, or COPY with a file."));
    }
    Ok(outcome)
}

fn query(
    state: &mut State,
    statement: &halcyon::Statement,
    values: &[Value],
) -> halcyon::Result<Rows> {
    match run_one(state, statement, values)? {
        Outcome::Rows { rows, .. } => Ok(rows),
        _ => Err(SqlError::new(SqlState::NO_DATA, "the statement returns no rows")),
    }
}

impl Optionable for Statement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        match key {
            OptionStatement::IngestMode
            | OptionStatement::TargetTable
            | OptionStatement::TargetCatalog
            | OptionStatement::TargetDbSchema
            | OptionStatement::Temporary => {
                self.target.set(&key, value)?;
                if self.target.table.is_some() {
                    (self.sql, self.prepared) = (None, None);
                }
                Ok(())
            }
            // Results come in one piece, and never before they are complete.
            OptionStatement::Incremental if !truth(key.as_ref(), value.clone())? => Ok(()),
            _ if key.as_ref() == VIEWS => {
                self.views = Some(truth(VIEWS, value)?);
                Ok(())
            }
            other => Err(unknown(other.as_ref())),
        }
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        match key {
            OptionStatement::Incremental => Ok(truth_text(false)),
            _ if key.as_ref() == VIEWS => Ok(truth_text(self.views(&self.shared.lock()))),
            OptionStatement::Progress | OptionStatement::MaxProgress => {
                Err(not_found(key.as_ref()))
            }
            other => self.target.get(&other),
        }
    }

    other_getters!(OptionStatement);
}

impl adbc_core::Statement for Statement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        self.bind_stream(reading::of_batch(batch))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.given = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Box<dyn RecordBatchReader + Send + 'static>> {
        let (reading, _) = self.run()?;
        Ok(Box::new(reading))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        let (reading, written) = self.run()?;
        // What the stream has left is for streams.
        reading::taken();
        let count = reading.drain()?;
        let has_rows = written.is_none() && count > 0;
        let count = if has_rows { Some(count) } else { written };
        Ok(count.and_then(|count| i64::try_from(count).ok()))
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let types = match &self.given {
            Some(given) => crate::binding::types(&given.schema()).map_err(told)?,
            None => Vec::new(),
        };
        let plan = self.plan(&mut state, &types)?;
        let columns = state.session.columns(&plan.statement);
        self.prepared = Some(plan);
        Ok(reading::schema(&columns, self.views(&state)).as_ref().clone())
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(missing("results in partitions"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let Some(plan) = &self.prepared else {
            return Err(out_of_turn("the statement is not prepared"));
        };
        let field = |(at, ty): (usize, &SqlType)| {
            Field::new(format!("${}", at + 1), ty.shown_arrow(), true)
        };
        let fields = plan.statement.params().iter().enumerate().map(field).collect::<Vec<_>>();
        Ok(Schema::new(fields))
    }

    fn prepare(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let sql = self.sql()?;
        // A script is planned as it runs: its statements may need what earlier ones make.
        if statements(&mut state, sql)?.len() > 1 {
            return Ok(());
        }
        let statement = state.session.prepare(sql).map_err(told)?;
        self.prepared = Some(Plan { statement, types: Vec::new() });
        Ok(())
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        let query = query.as_ref();
        if query.contains('\0') {
            return Err(invalid("the text contains a zero byte"));
        }
        // Where a question mark is an operator of SQL, a parameter in its place is a mistake.
        let numbered = questions(query).filter(|text| halcyon::split_statements(text).is_ok());
        self.sql = Some(numbered.unwrap_or_else(|| query.to_owned()));
        (self.prepared, self.target.table) = (None, None);
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(missing("Substrait"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        self.shared.cancel_handle()
    }
}
