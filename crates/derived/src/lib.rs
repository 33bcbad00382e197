//! Values that follow from a row's columns: the keys of derived indexes and generated columns.
//!
//! Expressions are immutable: they give the same value for the same row in every session and for ever,
//! so they need no session to be evaluated, and the store may evaluate them wherever a row changes.
//! Invariant: a row is stored only after [`VerifiedIndex::verify`] has computed its key without an error,
//! so that the store's own computation cannot fail (`exec/src/dml` sees to it for each row written, DDL for
//! rows that are there when an index is made). Checked by `halcyon/tests/derived_indexes.rs`.
#![forbid(unsafe_code)]

mod immutable;
mod implied;
mod table_row;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::Expr as Ast;
use halcyon_base::IndexId;
use halcyon_store::{ColumnDef, Derivation, DeriveKey, Schema, Type, Value, ValueRef};
use smallvec::SmallVec;

use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{Catalog, Derived, Index, Table};
use halcyon_plan::bind::Binder;
use halcyon_plan::engine::DataFusion;
pub use halcyon_plan::env::without_session;
use halcyon_plan::scalar::{Arena, Columns, Ir, Program, conjuncts, lower};
use halcyon_sql::diagnose::sql_error;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::parse::parse_expr;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::sql_type_of;

pub use immutable::{Place, immutable, of_one_row};
pub use implied::{Proof, Slots, prove};
pub use table_row::row_schema;

/// The expressions of a derived index, compiled. Slots are positions among the index's inputs.
pub struct DerivedIndex {
    keys: Vec<Ir>,
    /// Conjuncts of the index's condition.
    predicate: Vec<Ir>,
    programs: Vec<Program>,
    conditions: Vec<Program>,
}

/// Values of a key, or of the inputs of one.
type Values<'a> = SmallVec<[ValueRef<'a>; 8]>;

/// What binding the expressions of an index gives.
pub struct BoundIndex {
    /// The function of the index.
    pub derivation: Derivation,
    /// Types of the key's values.
    pub types: Vec<SqlType>,
}

/// Binds the expressions of an index over a table's columns.
///
/// Errors: those of the expressions; 42P17 if one is not immutable, 42804 if the condition is not
/// BOOLEAN, 0A000, 42803 and 42P20 for subqueries, aggregates and window functions.
pub fn bind(
    binder: &Binder<'_>,
    table: &Table,
    keys: &[&Ast],
    predicate: Option<&Ast>,
) -> Result<BoundIndex> {
    let schema = row_schema(table)?;
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for key in keys {
        let bound = immutable(binder, key, &schema, Place::IndexExpression)?;
        let field = bound.to_field(&schema).map_err(|error| sql_error(error, ""))?.1;
        types.push(sql_type_of(&field).ok_or_else(|| {
            SqlError::unsupported(format!("an index over values of type {}", field.data_type()))
        })?);
        values.push(bound);
    }
    let condition = predicate.map(|predicate| -> Result<Expr> {
        let bound = immutable(binder, predicate, &schema, Place::IndexPredicate)?;
        require_boolean(&bound, &schema)?;
        Ok(bound)
    });
    let derivation = derivation(&values, condition.transpose()?.as_ref(), &schema)?;
    Ok(BoundIndex { derivation, types })
}

/// Binds a stored index again, for the columns that its table has now.
///
/// Errors: an expression that a change of the table's columns has made invalid.
pub fn rebind(binder: &Binder<'_>, table: &Table, derived: &Derived) -> Result<BoundIndex> {
    let keys = derived.keys.iter().map(|key| parse_expr(&key.expr)).collect::<Result<Vec<_>>>()?;
    let predicate = derived.predicate.as_deref().map(parse_expr).transpose()?;
    bind(binder, table, &keys.iter().collect::<Vec<_>>(), predicate.as_ref())
}

/// Binds the derived indexes of a catalog that was read back. Nobody uses the catalog yet.
///
/// Errors: an expression that cannot be bound any more; the message names the index.
pub fn revive_indexes(catalog: Catalog, df: &DataFusion) -> Result<Catalog> {
    let has_derived = |table: &Arc<Table>| table.indexes.iter().any(|i| i.derived.is_some());
    let tables: Vec<Arc<Table>> =
        catalog.tables.values().filter(|table| has_derived(table)).cloned().collect();
    let mut catalog = Arc::new(catalog);
    let session = SessionVars::of_engine();
    for table in tables {
        let mut indexes = table.indexes.clone();
        let binder = Binder::new(&catalog, &session, df);
        for index in &mut indexes {
            let Some(derived) = &mut index.derived else { continue };
            let bound = rebind(&binder, &table, derived)
                .map_err(|error| error.context(format!("recovery of index \"{}\"", index.name)))?;
            derived.bound = Some(bound.derivation);
        }
        Arc::make_mut(&mut catalog).change_table(table.id, |table| table.indexes = indexes);
    }
    Ok(Arc::unwrap_or_clone(catalog))
}

/// 42804 unless a condition is BOOLEAN.
fn require_boolean(bound: &Expr, schema: &DFSchema) -> Result<()> {
    let field = bound.to_field(schema).map_err(|error| sql_error(error, ""))?.1;
    match field.data_type() {
        DataType::Boolean => Ok(()),
        other => {
            let found = sql_type_of(&field).map_or_else(|| other.to_string(), |ty| ty.to_string());
            Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of WHERE must be type boolean, not type {found}"),
            ))
        }
    }
}

/// Compiles expressions over the columns of a table.
fn derivation(keys: &[Expr], predicate: Option<&Expr>, schema: &DFSchema) -> Result<Derivation> {
    let mut reads = vec![false; schema.fields().len()];
    for expr in keys.iter().chain(predicate) {
        let ir = lower(expr, &Columns::by_position(schema))?;
        ir.for_each_slot(&mut |column| reads[column] = true);
    }
    let inputs: Vec<u16> = (0..).zip(&reads).filter(|(_, read)| **read).map(|(at, _)| at).collect();
    // Columns that are not read have a slot that nobody asks for.
    let before = |column: usize| reads[..column].iter().filter(|read| **read).count();
    let slots: Vec<usize> = (0..reads.len()).map(before).collect();
    let columns = Columns { slots: Some(&slots), ..Columns::by_position(schema) };
    let keys = keys.iter().map(|key| lower(key, &columns)).collect::<Result<Vec<Ir>>>()?;
    let mut conditions = Vec::new();
    if let Some(predicate) = predicate {
        conjuncts(lower(predicate, &columns)?, &mut conditions);
    }
    let column = |ir: &Ir| match ir.ty() {
        Some(ty) => Ok(ColumnDef { ty, nullable: true }),
        None => Err(SqlError::unsupported("an index over a value without a type")),
    };
    let values = Schema::new(keys.iter().map(column).collect::<Result<_>>()?);
    let programs = keys.iter().map(Program::from_ir).collect();
    let function = Arc::new(DerivedIndex {
        programs,
        conditions: conditions.iter().map(Program::from_ir).collect(),
        keys,
        predicate: conditions,
    });
    Ok(Derivation { inputs, values, function })
}

/// The compiled expressions of a derived index.
///
/// Panics: if the index is not derived, or not bound.
pub fn of_index(index: &Index) -> (&Derivation, Arc<DerivedIndex>) {
    let derived = index.derived.as_ref().expect("a derived index");
    let derivation = derived.bound.as_ref().expect("a derived index has been bound");
    let function = Arc::clone(&derivation.function).as_any().downcast::<DerivedIndex>();
    (derivation, function.expect("all functions of indexes are made here"))
}

/// The key of a row of the table in a derived index; `None` if the index leaves the row out.
///
/// Errors: those of the expressions.
pub fn key_of(index: &Index, row: &[ValueRef<'_>]) -> Result<Option<Vec<Value>>> {
    let (derivation, function) = of_index(index);
    let inputs: Values<'_> = derivation.inputs.iter().map(|at| row[*at as usize]).collect();
    let mut key = None;
    function.compute(&inputs, &mut |values| {
        key = Some(values.iter().map(|value| value.to_owned()).collect());
    })?;
    Ok(key)
}

/// The unique derived indexes that the conflict target of an INSERT describes: the keys are the
/// index's in any order, and the target's condition implies the index's.
///
/// Errors: those of the expressions.
pub fn inferred(
    binder: &Binder<'_>,
    table: &Table,
    keys: &[Ast],
    predicate: Option<&Ast>,
) -> Result<Vec<IndexId>> {
    let keys: Vec<&Ast> = keys.iter().collect();
    let wanted = bind(binder, table, &keys, predicate)?.derivation;
    let wanted_function = Arc::clone(&wanted.function).as_any().downcast::<DerivedIndex>();
    let wanted_function = wanted_function.expect("it was just made here");
    let fits = |index: &&Index| {
        let (derivation, function) = of_index(index);
        let slots = |slot: usize| {
            let column = wanted.inputs.get(slot)?;
            derivation.inputs.iter().position(|input| input == column)
        };
        let same = |a: &Ir, b: &Ir| a.is_same(b, &slots);
        let (given, own) = (wanted_function.keys(), function.keys());
        given.iter().all(|key| own.iter().any(|own| same(key, own)))
            && own.iter().all(|own| given.iter().any(|key| same(key, own)))
            && prove(wanted_function.predicate(), function.predicate(), &slots).is_some()
    };
    let derived = table.indexes.iter().filter(|index| index.unique && index.derived.is_some());
    Ok(derived.filter(fits).map(|index| index.id).collect())
}

/// A derived index as a statement that writes its table sees it.
pub struct VerifiedIndex {
    inputs: Vec<u16>,
    function: Arc<DerivedIndex>,
}

impl VerifiedIndex {
    /// The index of a table that is written.
    ///
    /// Panics: if the index is not derived, or not bound.
    pub fn new(index: &Index) -> VerifiedIndex {
        let (derivation, function) = of_index(index);
        VerifiedIndex { inputs: derivation.inputs.clone(), function }
    }

    /// Whether a row has a key, or none because the index leaves the row out. Errors: those of the
    /// expressions.
    pub fn verify(&self, row: &[ValueRef<'_>]) -> Result<()> {
        let inputs: Values<'_> = self.inputs.iter().map(|at| row[*at as usize]).collect();
        self.function.compute(&inputs, &mut |_| ())
    }
}

impl DerivedIndex {
    /// The expressions of the key; slots are positions among the inputs.
    pub fn keys(&self) -> &[Ir] {
        &self.keys
    }

    /// The conjuncts of the condition; slots are positions among the inputs.
    pub fn predicate(&self) -> &[Ir] {
        &self.predicate
    }

    fn compute(
        &self,
        inputs: &[ValueRef<'_>],
        enter: &mut dyn FnMut(&[ValueRef<'_>]),
    ) -> Result<()> {
        let arena = Arena::new();
        without_session(|env| {
            for condition in &self.conditions {
                if !condition.passes(inputs, env, &arena)? {
                    return Ok(());
                }
            }
            let mut values = Values::new();
            for program in &self.programs {
                values.push(program.eval(inputs, env, &arena)?);
            }
            enter(&values);
            Ok(())
        })
    }
}

impl DeriveKey for DerivedIndex {
    fn derive(&self, inputs: &[ValueRef<'_>], enter: &mut dyn FnMut(&[ValueRef<'_>])) {
        self.compute(inputs, enter).expect("each row was verified before it was stored");
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl fmt::Debug for DerivedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DerivedIndex({:?} where {:?})", self.programs, self.conditions)
    }
}

/// The type of a key's value as the index stores it.
pub fn key_type(ir: &Ir) -> Type {
    ir.ty().expect("keys have types")
}
