//! Constraints on rows (NOT NULL, CHECK, unique keys, foreign keys), and the errors of their
//! violations.
//!
//! The texts of the errors are PostgreSQL's, because programs read them.

use datafusion::common::ScalarValue;
use halcyon_base::ids::{IndexId, RowId};
use halcyon_store::{KeyBuf, Partition, Value, ValueRef};

use halcyon_catalog::{Check, DerivedKey, ForeignKey, Index, Table, partition_of};
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

/// 23502.
pub fn null_violation(table: &Table, column: u16, row: &[ValueRef<'_>]) -> SqlError {
    let column = &table.columns[column as usize].name;
    SqlError::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "null value in column \"{column}\" of relation \"{}\" violates not-null constraint",
            table.name
        ),
    )
    .detail_of_rows(
        &table.schema,
        &table.name,
        format!("Failing row contains {}.", row_text(table, row)),
    )
    .table(&table.schema, &table.name)
    .column(column)
}

/// 23514.
pub fn check_violation(table: &Table, check: &Check, row: &[ValueRef<'_>]) -> SqlError {
    SqlError::new(
        SqlState::CHECK_VIOLATION,
        format!(
            "new row for relation \"{}\" violates check constraint \"{}\"",
            table.name, check.name
        ),
    )
    .detail_of_rows(
        &table.schema,
        &table.name,
        format!("Failing row contains {}.", row_text(table, row)),
    )
    .table(&table.schema, &table.name)
    .constraint(&check.name)
}

/// 44000: the view through which a row of the table is written would not show it.
pub fn check_option_violation(table: &Table, view: &str, row: &[ValueRef<'_>]) -> SqlError {
    let message = format!("new row violates check option for view \"{view}\"");
    SqlError::new(SqlState::WITH_CHECK_OPTION_VIOLATION, message).detail_of_rows(
        &table.schema,
        &table.name,
        format!("Failing row contains {}.", row_text(table, row)),
    )
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

/// 23505 for a key of `index` that stands more than once.
pub fn key_violation(table: &Table, index: &Index, key: &[ValueRef<'_>]) -> SqlError {
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{}\"", index.name),
    )
    .detail_of_rows(
        &table.schema,
        &table.name,
        format!("Key {} already exists.", key_text(table, index, key)),
    )
    .table(&table.schema, &table.name)
    .constraint(&index.name)
}

/// 23503: a row refers to a row that does not exist.
pub fn missing_reference(
    table: &Table,
    key: &ForeignKey,
    target: &Table,
    values: &[ValueRef<'_>],
) -> SqlError {
    violated_reference(table, key).detail_of_rows(
        &table.schema,
        &table.name,
        format!(
            "Key {} is not present in table \"{}\".",
            columns_text(table, &key.columns, values),
            target.name
        ),
    )
}

/// Whether a row with these values of a foreign key's columns refers to nothing, since one is NULL.
/// Errors: 23503 if MATCH FULL wants all of them to be NULL, or none.
pub fn refers_to_nothing(table: &Table, key: &ForeignKey, values: &[ValueRef<'_>]) -> Result<bool> {
    if !values.iter().any(ValueRef::is_null) {
        return Ok(false);
    }
    match key.full && !values.iter().all(ValueRef::is_null) {
        true => Err(violated_reference(table, key).detail_of_rows(
            &table.schema,
            &table.name,
            "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned(),
        )),
        false => Ok(true),
    }
}

fn violated_reference(table: &Table, key: &ForeignKey) -> SqlError {
    SqlError::new(
        SqlState::FOREIGN_KEY_VIOLATION,
        format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            table.name, key.name
        ),
    )
    .table(&table.schema, &table.name)
    .constraint(&key.name)
}

/// 23503: a row that others refer to would be deleted or change its key.
pub fn still_referenced(
    target: &Table,
    key: &ForeignKey,
    referrer: &Table,
    values: &[ValueRef<'_>],
) -> SqlError {
    SqlError::new(
        SqlState::FOREIGN_KEY_VIOLATION,
        format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \
             \"{}\"",
            target.name, key.name, referrer.name
        ),
    )
    .detail_of_rows(
        &target.schema,
        &target.name,
        format!(
            "Key {} is still referenced from table \"{}\".",
            columns_text(target, &key.target_columns, values),
            referrer.name
        ),
    )
    .table(&referrer.schema, &referrer.name)
    .constraint(&key.name)
}

/// `(a, b)=(1, 2)` for a key of an index.
pub fn key_text(table: &Table, index: &Index, values: &[ValueRef<'_>]) -> String {
    if let Some(derived) = &index.derived {
        let names: Vec<String> = derived.keys.iter().map(DerivedKey::shown).collect();
        let values = derived.keys.iter().zip(values).map(|(key, value)| shown(*value, key.ty));
        let values: Vec<String> = values.collect();
        return format!("({})=({})", names.join(", "), values.join(", "));
    }
    let columns: Vec<u16> = index.columns.iter().map(|key| key.column).collect();
    columns_text(table, &columns, values)
}

fn columns_text(table: &Table, columns: &[u16], values: &[ValueRef<'_>]) -> String {
    let columns: Vec<_> = columns.iter().map(|at| &table.columns[*at as usize]).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let values: Vec<String> =
        columns.iter().zip(values).map(|(column, value)| shown(*value, column.ty)).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

/// Longest text of a value in the detail of an error.
const SHOWN_BYTES_MAX: usize = 64;

fn shown(value: ValueRef<'_>, ty: SqlType) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut text = coerce::to_text(value, ty, &TimeZone::UTC);
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.expect("0 is a boundary"));
        text.push_str("...");
    }
    text
}

/// `(1, null, abc)`.
pub fn row_text(table: &Table, row: &[ValueRef<'_>]) -> String {
    let values: Vec<String> =
        table.columns.iter().zip(row).map(|(column, value)| shown(*value, column.ty)).collect();
    format!("({})", values.join(", "))
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
        let types = key.columns.iter().zip(&key.target_columns).map(|(own, theirs)| {
            (table.columns[*own as usize].ty, target.columns[*theirs as usize].ty)
        });
        KeyLookup {
            index: index.id,
            order: index.columns.iter().map(|column| position(column.column)).collect(),
            types: types.collect(),
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
        if own.storage() == theirs.storage() {
            return Some(values[position]);
        }
        match halcyon_value::integer::widen(values[position]) {
            Some(value) => coerce::fit_integer(value, theirs),
            None => Some(values[position]),
        }
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

    #[test]
    fn long_values_are_cut_at_a_character() {
        let long = "ä".repeat(100);
        let text = shown(ValueRef::Text(&long), SqlType::Text);
        assert!(text.ends_with("...") && text.len() <= SHOWN_BYTES_MAX + 3);
    }
}
