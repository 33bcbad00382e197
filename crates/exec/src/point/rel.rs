//! DataFusion's logical plan as relations over slots.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, Subquery, TableScan};
use halcyon_store::{Type, Value};

use super::aggregate::{Aggregate, Function};
use halcyon_catalog::Table;
use halcyon_plan::scalar::{Columns, Compare, Ir, conjuncts, lower, storage_type};
use halcyon_scan::provider::{is_target, table_of};
use halcyon_sql::error::{Result, SqlError};

/// A relation: an operator whose rows lie in slots. Its *layout* are the slots of its columns.
#[derive(Debug)]
pub(super) enum Rel {
    /// Rows of constants (VALUES); without slots and with one row: SELECT without FROM.
    Rows {
        rows: Vec<Vec<Ir>>,
        slots: Vec<usize>,
    },
    Scan(Scan),
    Filter {
        input: Box<Rel>,
        conditions: Vec<Ir>,
    },
    /// Computes slots.
    Project {
        input: Box<Rel>,
        defs: Vec<(usize, Ir)>,
    },
    Join(Box<JoinRel>),
    Aggregate {
        input: Box<Rel>,
        groups: Vec<usize>,
        aggregates: Vec<Aggregate>,
    },
    Sort {
        input: Box<Rel>,
        keys: Vec<SortKey>,
        fetch: Option<usize>,
        carry: Vec<usize>,
    },
    Limit {
        input: Box<Rel>,
        skip: Option<Ir>,
        fetch: Option<Ir>,
    },
    Distinct {
        input: Box<Rel>,
        slots: Vec<usize>,
    },
    Union {
        inputs: Vec<(Rel, Vec<usize>)>,
        slots: Vec<usize>,
    },
}

/// A base table.
#[derive(Debug)]
pub(super) struct Scan {
    /// Position among the plan's tables.
    pub(super) table: usize,
    /// Columns that are read, each with the slot that gets it.
    pub(super) columns: Vec<(u16, usize)>,
    /// Slot of the hidden row id.
    pub(super) row_id: Option<usize>,
    /// Whether the rows are those that a write changes.
    pub(super) is_target: bool,
    pub(super) conditions: Vec<Ir>,
}

/// A join; `conditions` hold for pairs that match.
#[derive(Debug)]
pub(super) struct JoinRel {
    pub(super) kind: JoinKind,
    pub(super) left: Rel,
    pub(super) right: Rel,
    pub(super) conditions: Vec<Ir>,
    /// The right side's layout.
    pub(super) right_slots: Vec<usize>,
}

/// How pairs become rows. Right joins have their sides exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinKind {
    Inner,
    /// Rows of the left side without a match come with NULLs.
    Left,
    /// Rows of the left side that have a match.
    Semi,
    /// Rows of the left side that have none.
    Anti,
    /// Every row of the left side, and in a slot whether it has a match.
    Mark(usize),
}

/// A key of ORDER BY; its slot is computed below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortKey {
    pub(super) slot: usize,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

/// Slots and tables of a plan being made.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) tables: Vec<Arc<Table>>,
    /// Type of every slot; None for a column of NULLs without type.
    pub(super) slots: Vec<Option<Type>>,
    /// Uncorrelated scalar subqueries: relation, slot of its value, slot that gets it.
    pub(super) subqueries: Vec<(Rel, usize, usize)>,
}

type Lowered = (Rel, Vec<usize>);

fn refuse(what: &str) -> SqlError {
    SqlError::unsupported(format!("row-at-a-time execution of {what}"))
}

impl Builder {
    pub(super) fn slot(&mut self, ty: Option<Type>) -> usize {
        self.slots.push(ty);
        self.slots.len() - 1
    }

    pub(super) fn table(&mut self, table: &Arc<Table>) -> usize {
        let known = self.tables.iter().position(|other| other.id == table.id);
        known.unwrap_or_else(|| {
            self.tables.push(Arc::clone(table));
            self.tables.len() - 1
        })
    }

    /// Lowers an expression over the columns of `schema`, which lie in `layout`.
    fn expr(&mut self, expr: &Expr, schema: &DFSchema, layout: &[usize]) -> Result<Ir> {
        let this = RefCell::new(self);
        let subquery = |subquery: &Subquery| this.borrow_mut().subquery(subquery);
        lower(expr, &Columns { schema, slots: Some(layout), subquery: Some(&subquery) })
    }

    fn subquery(&mut self, subquery: &Subquery) -> Result<Ir> {
        if !subquery.outer_ref_columns.is_empty() {
            return Err(refuse("a correlated subquery"));
        }
        let (rel, layout) = self.rel(&subquery.subquery)?;
        let [value] = layout[..] else { return Err(refuse("a subquery of several columns")) };
        let ty = self.slots[value].ok_or_else(|| refuse("a NULL subquery"))?;
        let slot = self.slot(Some(ty));
        self.subqueries.push((rel, value, slot));
        Ok(Ir::Slot(slot, ty))
    }

    /// Lowers a plan.
    pub(super) fn rel(&mut self, plan: &LogicalPlan) -> Result<Lowered> {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => self.rel(&alias.input),
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Projection(projection) => {
                let (input, layout) = self.rel(&projection.input)?;
                self.project(input, &layout, projection.input.schema(), &projection.expr)
            }
            LogicalPlan::Filter(filter) => {
                let (input, layout) = self.rel(&filter.input)?;
                let condition = self.expr(&filter.predicate, filter.input.schema(), &layout)?;
                Ok((filtered(input, condition), layout))
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => {
                let (input, layout) = self.rel(&aggregate.input)?;
                let schema = aggregate.input.schema();
                let (input, groups) =
                    self.project(input, &layout, schema, &aggregate.group_expr)?;
                let mut slots = groups.clone();
                let mut aggregates = vec![];
                let offset = aggregate.group_expr.len();
                for (position, expr) in aggregate.aggr_expr.iter().enumerate() {
                    let ty = aggregate.schema.field(offset + position).data_type();
                    let ty = storage_type(ty).ok_or_else(|| refuse("an aggregate"))?;
                    let aggregate = self.aggregate(expr, schema, &layout, ty)?;
                    slots.push(aggregate.slot);
                    aggregates.push(aggregate);
                }
                Ok((Rel::Aggregate { input: input.into(), groups, aggregates }, slots))
            }
            LogicalPlan::Sort(sort) => {
                let (input, layout) = self.rel(&sort.input)?;
                let exprs: Vec<Expr> = sort.expr.iter().map(|key| key.expr.clone()).collect();
                let (input, slots) = self.project(input, &layout, sort.input.schema(), &exprs)?;
                let keys = sort.expr.iter().zip(&slots).map(|(key, slot)| SortKey {
                    slot: *slot,
                    descending: !key.asc,
                    nulls_first: key.nulls_first,
                });
                let mut carry = layout.clone();
                carry.extend(&slots);
                carry.sort_unstable();
                carry.dedup();
                let (keys, fetch) = (keys.collect(), sort.fetch);
                Ok((Rel::Sort { input: input.into(), keys, fetch, carry }, layout))
            }
            LogicalPlan::Limit(limit) => {
                let (input, layout) = self.rel(&limit.input)?;
                let empty = DFSchema::empty();
                let mut bound = |expr: &Option<Box<Expr>>| {
                    expr.as_ref().map(|expr| self.expr(expr, &empty, &[])).transpose()
                };
                let (skip, fetch) = (bound(&limit.skip)?, bound(&limit.fetch)?);
                Ok((Rel::Limit { input: input.into(), skip, fetch }, layout))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (input, layout) = self.rel(input)?;
                Ok((Rel::Distinct { input: input.into(), slots: layout.clone() }, layout))
            }
            LogicalPlan::Union(union) => {
                let types = union.schema.fields().iter().map(|f| storage_type(f.data_type()));
                let slots: Vec<usize> = types.map(|ty| self.slot(ty)).collect();
                let inputs = union.inputs.iter().map(|input| self.rel(input));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                Ok((Rel::Union { inputs, slots: slots.clone() }, slots))
            }
            LogicalPlan::Values(values) => {
                let types = values.schema.fields().iter().map(|f| storage_type(f.data_type()));
                let slots: Vec<usize> = types.map(|ty| self.slot(ty)).collect();
                let empty = DFSchema::empty();
                let rows = values
                    .values
                    .iter()
                    .map(|row| row.iter().map(|expr| self.expr(expr, &empty, &[])).collect());
                let rows = rows.collect::<Result<Vec<Vec<Ir>>>>()?;
                Ok((Rel::Rows { rows, slots: slots.clone() }, slots))
            }
            LogicalPlan::EmptyRelation(empty) => {
                let types = empty.schema.fields().iter().map(|f| storage_type(f.data_type()));
                let slots: Vec<usize> = types.map(|ty| self.slot(ty)).collect();
                let null = |slot: &usize| Ir::Const(Value::Null, self.slots[*slot]);
                let row: Vec<Ir> = slots.iter().map(null).collect();
                let rows = if empty.produce_one_row { vec![row] } else { vec![] };
                Ok((Rel::Rows { rows, slots: slots.clone() }, slots))
            }
            other => Err(refuse(&other.display().to_string())),
        }
    }

    /// Computes expressions; those that are columns stay where they are.
    fn project(
        &mut self,
        input: Rel,
        layout: &[usize],
        schema: &DFSchema,
        exprs: &[Expr],
    ) -> Result<Lowered> {
        let (mut defs, mut slots) = (vec![], vec![]);
        for expr in exprs {
            match self.expr(expr, schema, layout)? {
                Ir::Slot(slot, _) => slots.push(slot),
                ir => {
                    let slot = self.slot(ir.ty());
                    defs.push((slot, ir));
                    slots.push(slot);
                }
            }
        }
        let rel = if defs.is_empty() { input } else { Rel::Project { input: input.into(), defs } };
        Ok((rel, slots))
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Lowered> {
        let table = table_of(&scan.source).ok_or_else(|| refuse("a table of the system"))?;
        let table = Arc::clone(table);
        let position = self.table(&table);
        let source = scan.source.schema();
        let column_count = table.columns.len();
        let all = || (0..source.fields().len()).collect();
        let projection: Vec<usize> = scan.projection.clone().unwrap_or_else(all);
        let is_target = is_target(&source);
        let (columns, conditions) = (vec![], vec![]);
        let mut rel = Scan { table: position, columns, row_id: None, is_target, conditions };
        let mut slot_of = |this: &mut Builder, column: usize| {
            if column == column_count {
                return *rel.row_id.get_or_insert_with(|| this.slot(Some(Type::Int64)));
            }
            let known = rel.columns.iter().find(|(known, _)| *known as usize == column);
            known.map(|(_, slot)| *slot).unwrap_or_else(|| {
                let slot = this.slot(Some(table.columns[column].ty.storage()));
                rel.columns.push((column as u16, slot));
                slot
            })
        };
        let layout: Vec<usize> = projection.iter().map(|at| slot_of(self, *at)).collect();
        // The target of a write gives the hidden column, read or not.
        if is_target {
            slot_of(self, column_count);
        }
        if !scan.filters.is_empty() {
            let slots: Vec<usize> =
                (0..source.fields().len()).map(|at| slot_of(self, at)).collect();
            let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source)
                .map_err(|_| refuse("a scan"))?;
            for filter in &scan.filters {
                let condition = self.expr(filter, &schema, &slots)?;
                conjuncts(condition, &mut rel.conditions);
            }
        }
        let rel = Rel::Scan(rel);
        Ok(match scan.fetch {
            Some(fetch) => {
                let fetch = Some(Ir::Const(Value::Int64(fetch as i64), Some(Type::Int64)));
                (Rel::Limit { input: rel.into(), skip: None, fetch }, layout)
            }
            None => (rel, layout),
        })
    }

    fn join(&mut self, join: &Join) -> Result<Lowered> {
        if join.null_aware {
            return Err(refuse("NOT IN over a subquery"));
        }
        let (left, left_slots) = self.rel(&join.left)?;
        let (right, right_slots) = self.rel(&join.right)?;
        let mut conditions = vec![];
        for (a, b) in &join.on {
            let a = self.expr(a, join.left.schema(), &left_slots)?;
            let b = self.expr(b, join.right.schema(), &right_slots)?;
            let (left, right) = (Box::new(a), Box::new(b));
            conditions.push(match join.null_equality {
                NullEquality::NullEqualsNothing => {
                    let (Some(a), Some(b)) = (left.ty(), right.ty()) else {
                        return Err(refuse("a join on NULL"));
                    };
                    if !halcyon_plan::scalar::fit_type(a, b) {
                        return Err(refuse("a join of different types"));
                    }
                    Ir::Compare { op: Compare::Eq, left, right }
                }
                NullEquality::NullEqualsNull => Ir::Distinct { left, right, negated: true },
            });
        }
        let both: Vec<usize> = left_slots.iter().chain(&right_slots).copied().collect();
        if let Some(filter) = &join.filter {
            let schema = join.left.schema().join(join.right.schema());
            let schema = schema.map_err(|_| refuse("a join of like-named columns"))?;
            conjuncts(self.expr(filter, &schema, &both)?, &mut conditions);
        }
        let (kind, exchanged) = match join.join_type {
            JoinType::Inner => (JoinKind::Inner, false),
            JoinType::Left => (JoinKind::Left, false),
            JoinType::Right => (JoinKind::Left, true),
            JoinType::LeftSemi => (JoinKind::Semi, false),
            JoinType::RightSemi => (JoinKind::Semi, true),
            JoinType::LeftAnti => (JoinKind::Anti, false),
            JoinType::RightAnti => (JoinKind::Anti, true),
            JoinType::LeftMark => (JoinKind::Mark(self.slot(Some(Type::Bool))), false),
            JoinType::RightMark => (JoinKind::Mark(self.slot(Some(Type::Bool))), true),
            JoinType::Full => return Err(refuse("a full join")),
        };
        let layout = match (kind, exchanged) {
            (JoinKind::Inner | JoinKind::Left, _) => both,
            (JoinKind::Semi | JoinKind::Anti, false) => left_slots.clone(),
            (JoinKind::Semi | JoinKind::Anti, true) => right_slots.clone(),
            (JoinKind::Mark(slot), false) => left_slots.iter().copied().chain([slot]).collect(),
            (JoinKind::Mark(slot), true) => right_slots.iter().copied().chain([slot]).collect(),
        };
        let (left, right, right_slots) = match exchanged {
            false => (left, right, right_slots),
            true => (right, left, left_slots),
        };
        let join = JoinRel { kind, left, right, conditions, right_slots };
        Ok((Rel::Join(join.into()), layout))
    }

    fn aggregate(
        &mut self,
        expr: &Expr,
        schema: &DFSchema,
        layout: &[usize],
        ty: Type,
    ) -> Result<Aggregate> {
        let mut expr = expr;
        while let Expr::Alias(alias) = expr {
            expr = &alias.expr;
        }
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
            return Err(refuse("an aggregate"));
        };
        if !params.order_by.is_empty() || params.null_treatment.is_some() || params.args.len() > 1 {
            return Err(refuse("an ordered aggregate"));
        }
        let function = Function::from_name(func.name()).ok_or_else(|| refuse(func.name()))?;
        // Here DataFusion has turned count(*) into count(1) already.
        let arg = match params.args.first() {
            Some(Expr::Literal(value, _)) if !value.is_null() && function == Function::Count => {
                None
            }
            Some(arg) => Some(self.expr(arg, schema, layout)?),
            None => None,
        };
        let filter = params.filter.as_ref();
        let filter = filter.map(|filter| self.expr(filter, schema, layout)).transpose()?;
        let distinct = params.distinct && !matches!(function, Function::Min | Function::Max);
        if distinct && arg.is_none() {
            return Err(refuse("count(distinct) of a constant"));
        }
        let slot = self.slot(Some(ty));
        let aggregate = Aggregate { function, arg, filter, distinct, ty, slot };
        if !aggregate.is_typed() {
            return Err(refuse("an aggregate of this type"));
        }
        Ok(aggregate)
    }
}

/// The relation with a condition; conditions of a scan stand with it.
fn filtered(input: Rel, condition: Ir) -> Rel {
    let mut conditions = vec![];
    conjuncts(condition, &mut conditions);
    match input {
        Rel::Scan(mut scan) => {
            scan.conditions.extend(conditions);
            Rel::Scan(scan)
        }
        input => Rel::Filter { input: input.into(), conditions },
    }
}
