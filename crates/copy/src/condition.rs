//! COPY FROM … WHERE: which of the rows in the data are stored.
//!
//! The condition sees a row with its defaults and without its generated columns, as PostgreSQL's does. Rows
//! that it is not true of are passed over: no constraint sees them, and they are not counted.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::{self, Field, FieldRef, Schema};
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Value, ValueWithSpan, Visit, Visitor,
};
use halcyon_catalog::{Privilege, Table};
use halcyon_derived::{Place, of_one_row};
use halcyon_dialect::many_rows::returns_rows;
use halcyon_exec::constraints::mentioned;
use halcyon_exec::dml::bulk::cell_of;
use halcyon_plan::bind::Binder;
use halcyon_plan::env::Env;
use halcyon_plan::scalar::{Arena, Program};
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::values::sql_type_of_arrow;
use halcyon_store::ValueRef;

/// A condition on the rows of a table.
pub(crate) struct Condition(Program);

impl Condition {
    /// Binds a condition.
    ///
    /// Errors: 42804 unless it is BOOLEAN, 42P10 for generated columns, 42P02 for parameters, 42501 if it
    /// reads columns that the user may not; those of expressions over one row.
    pub fn bind(binder: &Binder<'_>, table: &Arc<Table>, condition: &Expr) -> Result<Condition> {
        of_one_value(condition)?;
        let schema = schema_of(table)?;
        let bound = binder.expr(&as_boolean(condition), &schema)?;
        of_one_row(condition, &bound, Place::CopyCondition)?;
        let ty = bound.get_type(&schema).map_err(|error| sql_error(error, ""))?;
        if !matches!(ty, datatypes::DataType::Boolean | datatypes::DataType::Null) {
            let found = sql_type_of_arrow(&ty).map_or_else(|| ty.to_string(), |ty| ty.to_string());
            let message =
                format!("argument of COPY FROM WHERE must be type boolean, not type {found}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        let names = mentioned(condition);
        let columns = table.columns.iter().filter(|column| names.contains(&column.name));
        if let Some(column) = columns.clone().find(|column| column.generated.is_some()) {
            let message = "generated columns are not supported in COPY FROM WHERE conditions";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        if columns.count() > 0 {
            binder.catalog.require_on_table(&binder.session.user, table, Privilege::Select)?;
        }
        Ok(Condition(Program::compile(&bound, &schema)?))
    }

    /// The rows of a batch for which the condition is true. `place` tells where a row stands in the data.
    ///
    /// Errors: those of evaluating the condition.
    pub fn filtered(
        &self,
        columns: Vec<ArrayRef>,
        env: &Env<'_>,
        place: impl Fn(usize) -> Option<String>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut arena = Arena::new();
        let mut passes = Vec::with_capacity(rows);
        for row in 0..rows {
            let values: Vec<ValueRef<'_>> =
                columns.iter().map(|column| cell_of(column, row)).collect::<Result<_>>()?;
            let holds = self.0.eval(&values, env, &arena).map_err(|error| match place(row) {
                Some(place) => error.context(place),
                None => error,
            })?;
            passes.push(holds == ValueRef::Bool(true));
            drop(values);
            if row % 1024 == 1023 {
                arena.reset();
                SqlError::unless_interrupted()?;
            }
        }
        let passes = BooleanArray::from(passes);
        let pick = |column: &ArrayRef| {
            filter(column, &passes).map_err(|error| sql_error(error.into(), ""))
        };
        columns.iter().map(pick).collect()
    }
}

/// The columns of a table, any of which may be NULL: NOT NULL is judged later.
fn schema_of(table: &Table) -> Result<DFSchema> {
    let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    let fields: Vec<Field> = table.arrow.fields().iter().map(nullable).collect();
    let table = TableReference::bare(table.name.as_str());
    DFSchema::try_from_qualified_schema(table, &Schema::new(fields))
        .map_err(|error| sql_error(error, ""))
}

/// A constant in quotes is read as BOOLEAN.
fn as_boolean(condition: &Expr) -> Expr {
    match condition {
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(condition.clone()),
            data_type: DataType::Boolean,
            array: false,
            format: None,
        },
        Expr::Nested(inner) => as_boolean(inner),
        other => other.clone(),
    }
}

/// 42P02 for parameters, which COPY does not take, and 0A000 for functions that return many rows.
fn of_one_value(condition: &Expr) -> Result<()> {
    struct Search;
    impl Visitor for Search {
        type Break = SqlError;

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
            if !name.is_some_and(|name| returns_rows(&name)) {
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "set-returning functions are not allowed in COPY FROM WHERE conditions",
            ))
        }

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<SqlError> {
            match &value.value {
                Value::Placeholder(name) => {
                    let message = format!("there is no parameter {name}");
                    ControlFlow::Break(SqlError::new(SqlState::UNDEFINED_PARAMETER, message))
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    match condition.visit(&mut Search) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
