//! Constraints on rows (NOT NULL, CHECK, unique keys, foreign keys); the errors of their violations are
//! the catalog's ([`halcyon_catalog::violations`]).

use datafusion::common::ScalarValue;
use halcyon_base::ids::{IndexId, RowId};
use halcyon_store::{KeyBuf, Partition, Value, ValueRef};

use crate::key_types;
use halcyon_catalog::{Check, ForeignKey, Table, partition_of};
use halcyon_derived::row_schema;
use halcyon_plan::bind::Binder;
use halcyon_plan::domains::{self, Condition};
use halcyon_plan::env::Env;
use halcyon_plan::scalar::Program;
use halcyon_sql::coerce::{self, Arena, TimeZone};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::parse_expr;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::{from_scalar, sql_type_of_arrow};

pub use halcyon_catalog::violations::{
    check_option_violation, check_violation, key_text, key_violation, missing_reference,
    null_violation, refers_to_nothing, row_text, still_referenced,
};
pub use halcyon_plan::stored_names::{mentioned, mentioned_in};

/// Compiles a CHECK over the rows of its table.
pub fn compile_check(binder: &Binder<'_>, table: &Table, check: &Check) -> Result<Program> {
    let schema = row_schema(table)?;
    let expr = binder.expr(&parse_expr(&check.expr)?, &schema)?;
    Program::compile(&expr, &schema)
}

/// A condition on the rows of a table: a CHECK, or what the domain of a column asks for.
pub struct RowCondition {
    check: Check,
    program: Program,
    domain: Option<Condition>,
}

impl RowCondition {
    /// The conditions on the rows of a table in which columns of these take part.
    pub fn all(
        binder: &Binder<'_>,
        table: &Table,
        touched: &dyn Fn(&u16) -> bool,
    ) -> Result<Vec<RowCondition>> {
        let mut conditions = Vec::new();
        for check in &table.checks {
            let mentioned = columns_of_check(table, check);
            // A row that was there may not satisfy one that is NOT VALID, and must once it is written.
            let looked_at = mentioned.is_empty() || check.not_valid;
            if looked_at || mentioned.iter().any(touched) {
                let (check, program) = (check.clone(), compile_check(binder, table, check)?);
                conditions.push(RowCondition { check, program, domain: None });
            }
        }
        for (at, column) in table.columns.iter().enumerate() {
            let own = column.domain.filter(|_| touched(&(at as u16)));
            let Some(own) = own.and_then(|id| binder.catalog.type_numbered(id)) else { continue };
            for condition in domains::conditions(own, column) {
                let program = compile_check(binder, table, &condition.check)?;
                let check = condition.check.clone();
                conditions.push(RowCondition { check, program, domain: Some(condition) });
            }
        }
        Ok(conditions)
    }

    /// Looks at a row. Errors: 23514, 23502, those of the condition.
    pub fn verify(
        &self,
        table: &Table,
        row: &[ValueRef<'_>],
        env: &Env<'_>,
        arena: &Arena,
    ) -> Result<()> {
        match (holds(&self.program, row, env, arena)?, &self.domain) {
            (true, _) => Ok(()),
            (false, Some(condition)) => Err(domains::violation(condition)),
            (false, None) => Err(check_violation(table, &self.check, row)),
        }
    }
}

/// Whether a row satisfies a CHECK: it is not false; NULL passes.
pub fn holds(check: &Program, row: &[ValueRef<'_>], env: &Env<'_>, arena: &Arena) -> Result<bool> {
    Ok(check.eval(row, env, arena)? != ValueRef::Bool(false))
}

/// A literal as a value of a column: quoted text is read by the column's type, other literals are
/// assigned.
pub fn literal_value(literal: &ScalarValue, ty: SqlType, column: &str) -> Result<Value> {
    let value = from_scalar(literal).ok_or_else(|| {
        SqlError::unsupported(format!("a literal of type {}", literal.data_type()))
    })?;
    let zone = TimeZone::UTC;
    match &value {
        Value::Null => Ok(Value::Null),
        Value::Text(text) => coerce::parse_owned(text, ty, &zone),
        value => {
            let from = sql_type_of_arrow(&literal.data_type())
                .ok_or_else(|| mismatch(column, ty, &literal.data_type().to_string()))?;
            if !coerce::assignable(from, ty) {
                return Err(mismatch(column, ty, &from.to_string()));
            }
            coerce::assign(value.as_ref(), from, ty, &zone, &Arena::new())
                .map(|value| value.to_owned())
        }
    }
}

/// 42804: an expression does not fit its column.
pub fn mismatch(column: &str, ty: SqlType, found: &str) -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!("column \"{column}\" is of type {ty} but expression is of type {found}"),
    )
    .hint("You will need to rewrite or cast the expression.")
}

/// 23505 for a key of `index` that `row` would repeat.
pub fn unique_violation(table: &Table, index: IndexId, row: &[ValueRef<'_>]) -> SqlError {
    let index = table.index(index).expect("a conflict names an index of its table");
    if index.derived.is_some() {
        let key = halcyon_derived::key_of(index, row).ok().flatten().unwrap_or_default();
        let key: Vec<ValueRef<'_>> = key.iter().map(|value| value.as_ref()).collect();
        return key_violation(table, index, &key);
    }
    let key: Vec<ValueRef<'_>> =
        index.columns.iter().map(|column| row[column.column as usize]).collect();
    key_violation(table, index, &key)
}

/// How a foreign key finds the row it refers to.
#[derive(Debug)]
pub struct KeyLookup {
    /// Unique index of the target.
    index: IndexId,
    /// For each key column of the index, the position in the foreign key's column list.
    order: Vec<usize>,
    /// Types by position in the list: the referring column's and the target column's.
    types: Vec<(SqlType, SqlType)>,
    /// Position in the list of the column that the target is partitioned by.
    partition_by: Option<usize>,
    /// Partitions of the target.
    partitions: u32,
}

impl KeyLookup {
    /// Panics: if the target has no unique index of these columns; DDL keeps one.
    pub fn new(table: &Table, key: &ForeignKey, target: &Table) -> Self {
        let index = target
            .indexes
            .iter()
            .find(|index| index.unique && index.covers_exactly(&key.target_columns))
            .expect("DDL keeps a unique index for every foreign key");
        let position = |column: u16| {
            let found = key.target_columns.iter().position(|own| *own == column);
            found.expect("the index covers exactly these columns")
        };
        KeyLookup {
            index: index.id,
            order: index.columns.iter().map(|column| position(column.column)).collect(),
            types: key_types::types(table, key, target),
            partition_by: target.partition_column().map(position),
            partitions: target.cells.len() as u32,
        }
    }

    /// The partition of the target that would hold the row, for values without NULL.
    pub fn partition(&self, values: &[ValueRef<'_>]) -> Option<u32> {
        let Some(position) = self.partition_by else { return Some(0) };
        Some(partition_of(self.convert(values, position)?, self.partitions))
    }

    /// The value in the type of the target's column; `None` if that type has no such value.
    fn convert<'v>(&self, values: &[ValueRef<'v>], position: usize) -> Option<ValueRef<'v>> {
        let (own, theirs) = self.types[position];
        key_types::exactly(values[position], own, theirs)
    }

    /// The row that `values` (in the foreign key's order, no NULL among them) refer to.
    pub fn find<'p>(
        &self,
        values: &[ValueRef<'_>],
        key: &mut KeyBuf,
        partition: impl Fn(u32) -> &'p Partition,
    ) -> Option<(u32, RowId)> {
        let number = self.partition(values)?;
        let mut converted = smallvec::SmallVec::<[ValueRef<'_>; 4]>::new();
        for position in &self.order {
            converted.push(self.convert(values, *position)?);
        }
        let index = partition(number).index(self.index).expect("every partition has the index");
        index.encode(&converted, key);
        index.get(key).map(|row| (number, row))
    }
}

/// Positions of the columns that a CHECK mentions.
pub fn columns_of_check(table: &Table, check: &Check) -> Vec<u16> {
    mentioned_in(&check.expr).iter().filter_map(|name| table.column(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_by_the_columns_type() {
        let read = |literal: ScalarValue, ty| {
            literal_value(&literal, ty, "c").map_err(|error| error.state())
        };
        let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
        assert_eq!(read(text("12"), SqlType::Integer), Ok(Value::Int32(12)));
        assert_eq!(read(text("x"), SqlType::Integer), Err(SqlState::INVALID_TEXT_REPRESENTATION));
        assert_eq!(read(text("1970-01-02"), SqlType::Date), Ok(Value::Date(1)));
        let seven = ScalarValue::Int64(Some(7));
        assert_eq!(read(seven.clone(), SqlType::SmallInt), Ok(Value::Int16(7)));
        assert_eq!(read(seven.clone(), SqlType::Text), Ok(Value::Text("7".into())));
        assert_eq!(read(seven, SqlType::Date), Err(SqlState::DATATYPE_MISMATCH));
        assert_eq!(
            read(ScalarValue::Int64(Some(70_000)), SqlType::SmallInt),
            Err(SqlState::NUMERIC_VALUE_OUT_OF_RANGE)
        );
        assert_eq!(read(ScalarValue::Null, SqlType::Uuid), Ok(Value::Null));
    }
}
