//! CREATE, ALTER and DROP SEQUENCE, and the sequences of SERIAL and identity columns.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, ObjectName, SequenceOptions as AstOption, UnaryOperator, Value, ValueWithSpan,
};
use halcyon_base::ids::TableId;

use super::{DdlContext, parts};
use halcyon_catalog::sequence::Position;
use halcyon_catalog::temporary::is_temporary;
use halcyon_catalog::{Relation, Sequence, SequenceOptions, Table};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::syntax::SequenceOptions as AlterOptions;
use halcyon_sql::type_names::column_type;
use halcyon_sql::types::SqlType;

/// What a statement says about a sequence; `None` means it does not say.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// AS type.
    pub ty: Option<SqlType>,
    /// INCREMENT BY.
    pub increment: Option<i64>,
    /// MINVALUE; inner `None` is NO MINVALUE.
    pub min: Option<Option<i64>>,
    /// MAXVALUE; inner `None` is NO MAXVALUE.
    pub max: Option<Option<i64>>,
    /// START WITH.
    pub start: Option<i64>,
    /// RESTART; inner `None` is the start value.
    pub restart: Option<Option<i64>>,
    /// CYCLE or NO CYCLE.
    pub cycle: Option<bool>,
}

impl Wish {
    /// Reads the parser's options. Errors: 22023.
    pub(super) fn from_ast(ty: Option<&DataType>, options: &[AstOption]) -> Result<Wish> {
        let mut wish = Wish { ty: ty.map(column_type).transpose()?, ..Wish::default() };
        for option in options {
            match option {
                AstOption::IncrementBy(value, _) => wish.increment = Some(number(value)?),
                AstOption::MinValue(value) => {
                    wish.min = Some(value.as_ref().map(number).transpose()?);
                }
                AstOption::MaxValue(value) => {
                    wish.max = Some(value.as_ref().map(number).transpose()?);
                }
                AstOption::StartWith(value, _) => wish.start = Some(number(value)?),
                AstOption::Cache(value) => {
                    let count = number(value)?;
                    if count < 1 {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!("CACHE ({count}) must be greater than zero"),
                        ));
                    }
                }
                // The parser's flag says NO.
                AstOption::Cycle(no) => wish.cycle = Some(!no),
            }
        }
        Ok(wish)
    }

    /// What ALTER SEQUENCE says. Errors: 42704, 0A000 for its type.
    pub(super) fn of(options: &AlterOptions) -> Result<Wish> {
        Ok(Wish {
            ty: options.data_type.as_ref().map(column_type).transpose()?,
            increment: options.increment,
            min: options.min,
            max: options.max,
            start: options.start,
            restart: options.restart,
            cycle: options.cycle,
        })
    }

    /// The options of a sequence; `before` are those it has, if it exists.
    pub(super) fn resolve(&self, before: Option<SequenceOptions>) -> Result<SequenceOptions> {
        let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let increment = self.increment.or(before.map(|b| b.increment)).unwrap_or(1);
        if increment == 0 {
            return Err(bad("INCREMENT must not be zero".to_owned()));
        }
        let (type_min, type_max) = match self.ty {
            Some(SqlType::SmallInt) => (i16::MIN as i64, i16::MAX as i64),
            Some(SqlType::Integer) => (i32::MIN as i64, i32::MAX as i64),
            Some(SqlType::BigInt) | None => (i64::MIN, i64::MAX),
            Some(_) => {
                return Err(bad("sequence type must be smallint, integer, or bigint".to_owned()));
            }
        };
        let default_min = if increment > 0 { 1 } else { type_min };
        let default_max = if increment > 0 { type_max } else { -1 };
        // Bounds that are those of a type follow the sequence to another type.
        let follows = |bound: i64, bounds: [i64; 3]| self.ty.is_some() && bounds.contains(&bound);
        let kept_min = before.map_or(default_min, |b| match follows(b.min, LEAST) {
            true => type_min,
            false => b.min,
        });
        let kept_max = before.map_or(default_max, |b| match follows(b.max, GREATEST) {
            true => type_max,
            false => b.max,
        });
        let min = self.min.map_or(kept_min, |min| min.unwrap_or(default_min));
        let max = self.max.map_or(kept_max, |max| max.unwrap_or(default_max));
        if min >= max {
            return Err(bad(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        for (what, bound) in [("MINVALUE", min), ("MAXVALUE", max)] {
            if bound < type_min || bound > type_max {
                let ty = self.ty.unwrap_or(SqlType::BigInt);
                let message = "is out of range for sequence data type";
                return Err(bad(format!("{what} ({bound}) {message} {ty}")));
            }
        }
        let first = if increment > 0 { min } else { max };
        let start = self.start.or(before.map(|b| b.start)).unwrap_or(first);
        for (what, at) in [("START", Some(start)), ("RESTART", self.restart.flatten())] {
            let Some(at) = at else { continue };
            if at < min {
                return Err(bad(format!(
                    "{what} value ({at}) cannot be less than MINVALUE ({min})"
                )));
            }
            if at > max {
                return Err(bad(format!(
                    "{what} value ({at}) cannot be greater than MAXVALUE ({max})"
                )));
            }
        }
        let cycle = self.cycle.or(before.map(|b| b.cycle)).unwrap_or(false);
        Ok(SequenceOptions { start, increment, min, max, cycle })
    }
}

/// The least values of the types that a sequence may have.
const LEAST: [i64; 3] = [i16::MIN as i64, i32::MIN as i64, i64::MIN];

/// The greatest values of these types.
const GREATEST: [i64; 3] = [i16::MAX as i64, i32::MAX as i64, i64::MAX];

/// A signed integer literal.
fn number(expr: &Expr) -> Result<i64> {
    let bad = || {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{expr}\" is not an integer"))
    };
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.to_string().parse().map_err(|_| bad())
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => number(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let digits = expr.to_string();
            format!("-{digits}").parse().map_err(|_| bad())
        }
        _ => Err(bad()),
    }
}

/// CREATE SEQUENCE: schema and name are where it goes.
pub(super) fn create(
    cx: &mut DdlContext<'_>,
    (schema, name): (String, String),
    if_not_exists: bool,
    wish: &Wish,
    owned_by: Option<&ObjectName>,
) -> Result<()> {
    if let Err(taken) = cx.catalog.refuse_taken(&schema, &name) {
        if !if_not_exists {
            return Err(taken);
        }
        cx.notice(taken.state(), format!("{}, skipping", taken.message()));
        return Ok(());
    }
    let options = wish.resolve(None)?;
    let owner = match owned_by {
        Some(column) => owning_column(cx, &parts(column)?)?,
        None => None,
    };
    let sequence = new(cx, &schema, &name, options, owner);
    cx.catalog.put(&schema, &name, Relation::Sequence(sequence));
    Ok(())
}

/// A sequence that has handed out nothing; the caller puts it into the catalog.
pub(super) fn new(
    cx: &DdlContext<'_>,
    schema: &str,
    name: &str,
    options: SequenceOptions,
    owned_by: Option<(TableId, u16)>,
) -> Arc<Sequence> {
    Arc::new(Sequence {
        oid: cx.catalog.ids.oid(),
        schema: schema.to_owned(),
        name: name.to_owned(),
        options,
        position: position(cx, schema, options.before_first()),
        owned_by,
        owner: cx.user().to_owned(),
        grants: Vec::new(),
        comment: None,
    })
}

/// A position behind `last` for a sequence of the schema.
fn position(cx: &DdlContext<'_>, schema: &str, last: i64) -> Arc<Position> {
    match is_temporary(schema) {
        true => Position::unlogged(&cx.catalog.ids, last),
        false => Position::new(&cx.catalog.ids, last),
    }
}

/// The column of OWNED BY; `None` for NONE.
pub(super) fn owning_column(
    cx: &DdlContext<'_>,
    name: &[String],
) -> Result<Option<(TableId, u16)>> {
    match name {
        [none] if none == "none" => Ok(None),
        [table @ .., column] if !table.is_empty() => {
            let table = cx.owned_table(table)?;
            Ok(Some((table.id, table.require_column(column)?)))
        }
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
            .hint("Specify OWNED BY table.column or OWNED BY NONE.")),
    }
}

/// ALTER SEQUENCE with options.
pub(super) fn alter(
    cx: &mut DdlContext<'_>,
    name: &[String],
    wish: &Wish,
    owned_by: Option<&[String]>,
) -> Result<()> {
    let (schema, sequence) = owned(cx, name)?;
    let owner = match owned_by {
        Some(column) => owning_column(cx, column)?,
        None => sequence.owned_by,
    };
    let options = wish.resolve(Some(sequence.options))?;
    let mut changed = (*sequence).clone();
    let last = match wish.restart {
        Some(at) => at.unwrap_or(options.start).wrapping_sub(options.increment),
        None if !sequence.is_called() => options.before_first(),
        None => sequence.position.last(),
    };
    // A place of its own: if the statement is undone, the old sequence has not moved.
    changed.position = position(cx, &schema, last);
    changed.options = options;
    changed.owned_by = owner;
    let name = changed.name.clone();
    cx.catalog.put(&schema, &name, Relation::Sequence(Arc::new(changed)));
    Ok(())
}

/// The sequence of this name, if its owner is asking.
pub(super) fn owned(cx: &DdlContext<'_>, name: &[String]) -> Result<(String, Arc<Sequence>)> {
    let found = cx.owned(name)?;
    match found.relation {
        Relation::Sequence(sequence) => Ok((found.schema.name.clone(), sequence.clone())),
        _ => Err(halcyon_catalog::wrong_kind(found.name, "sequence")),
    }
}

/// Names of the sequences that belong to a table, or to one of its columns.
pub(super) fn of_table(cx: &DdlContext<'_>, table: &Table, column: Option<u16>) -> Vec<String> {
    let belongs = |relation: &Relation| match relation {
        Relation::Sequence(sequence) => match sequence.owned_by {
            Some((owner, of)) => owner == table.id && column.is_none_or(|column| column == of),
            None => false,
        },
        _ => false,
    };
    let relations = &cx.catalog.schemas[&table.schema].relations;
    relations.iter().filter(|(_, r)| belongs(r)).map(|(name, _)| name.clone()).collect()
}

/// 42501 unless the user owns all sequences of the table's columns.
pub(super) fn require_owner_of_all(cx: &DdlContext<'_>, table: &Table) -> Result<()> {
    let schema = cx.catalog.schema(&table.schema)?;
    for name in of_table(cx, table, None) {
        if let Some(Relation::Sequence(sequence)) = schema.relations.get(&name) {
            cx.catalog.require_owner(cx.user(), &sequence.owner, "sequence", &name)?;
        }
    }
    Ok(())
}

/// Starts the sequences of a table anew, for TRUNCATE … RESTART IDENTITY.
pub(super) fn restart_of_table(cx: &mut DdlContext<'_>, table: &Table) {
    for name in of_table(cx, table, None) {
        if let Some(Relation::Sequence(sequence)) = cx.catalog.remove(&table.schema, &name) {
            let mut fresh = (*sequence).clone();
            fresh.position = position(cx, &table.schema, fresh.options.before_first());
            cx.catalog.put(&table.schema, &name, Relation::Sequence(Arc::new(fresh)));
        }
    }
}
