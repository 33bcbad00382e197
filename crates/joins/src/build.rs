//! A region's joins, built in the order found.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, internal_datafusion_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::exprs::{Expr, column_of, columns, renumbered};
use crate::region::{Dependent, Region};
use crate::search::{self, Graph, Set, Tree, members, only};
use crate::sides;

/// The region's joins in the cheapest order; `None` if no order is found.
pub(crate) fn in_order(region: &Region, threads: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let graph = graph(region);
    let Some(tree) = graph.order() else { return Ok(None) };
    let done = vec![false; region.filters.len()];
    let mut build = Build { region, graph: &graph, threads, done };
    let built = build.tree(&tree)?;
    let built = build.filtered(built, |set| set == 0)?;
    build.projected(built).map(Some)
}

/// The share of rows that a condition over several relations is taken to keep.
fn share(filter: &Expr) -> f64 {
    match filter.downcast_ref::<BinaryExpr>().map(BinaryExpr::op) {
        Some(Operator::Eq) => 0.01,
        Some(Operator::NotEq | Operator::IsDistinctFrom) => 0.9,
        Some(Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) => 0.33,
        _ => 0.25,
    }
}

/// Rows of a relation, and of each column how many different values there are.
struct Known {
    rows: f64,
    distinct: Vec<Option<f64>>,
}

fn known(plan: &Arc<dyn ExecutionPlan>) -> Known {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let distinct = statistics.as_ref().map(|statistics| {
        let columns = statistics.column_statistics.iter();
        columns.map(|column| column.distinct_count.get_value().map(|&count| count as f64)).collect()
    });
    Known { rows: sides::rows(plan.as_ref()), distinct: distinct.unwrap_or_default() }
}

impl Known {
    /// Different values of an expression over columns that begin with the number `first`.
    fn distinct(&self, expr: &Expr, first: usize) -> f64 {
        let column = column_of(expr).and_then(|column| column.checked_sub(first));
        let distinct = column.and_then(|column| self.distinct.get(column).copied().flatten());
        distinct.unwrap_or(self.rows).clamp(1.0, self.rows.max(1.0))
    }
}

/// A region in numbers.
fn graph(region: &Region) -> Graph {
    let all: Vec<Known> = region.relations.iter().map(|relation| known(&relation.plan)).collect();
    let distinct = |relation: usize, expr: &Expr| {
        all[relation].distinct(expr, region.relations[relation].first)
    };
    let relations = region.relations.iter().zip(&all).enumerate();
    let relations = relations.map(|(number, (relation, known))| search::Relation {
        rows: known.rows,
        dependent: relation.dependent.as_ref().map(|dependent| {
            let mut matched: f64 = 1.0;
            for (outer, inner) in &dependent.keys {
                let set = region.set_of(outer);
                if set.count_ones() == 1 {
                    let outer = distinct(set.trailing_zeros() as usize, outer);
                    matched = matched.min(distinct(number, inner) / outer);
                }
            }
            if dependent.filter.is_some() {
                matched *= 0.5;
            }
            let keeps = if dependent.is_anti { 1.0 - matched } else { matched };
            let has_key = !dependent.keys.is_empty();
            search::Dependent { needs: dependent.needs, keeps: keeps.clamp(0.01, 1.0), has_key }
        }),
    });
    let classes = region.classes.iter().map(|class| {
        let member = |(relation, expr): &(usize, Expr)| search::Member {
            relation: *relation,
            distinct: distinct(*relation, expr),
        };
        class.iter().map(member).collect()
    });
    let filters = region.filters.iter();
    let filters = filters.map(|(set, filter)| search::Filter { set: *set, keeps: share(filter) });
    Graph::new(relations.collect(), classes.collect(), filters.collect())
}

/// A part of a region that is built: its plan, and the number of each of its columns.
struct Built {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    set: Set,
}

impl Built {
    fn place(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|known| *known == column)
    }

    /// An expression over the region's numbers as one over the part's columns.
    fn over(&self, expr: &Expr) -> Result<Expr> {
        renumbered(expr, |column| self.place(column))
    }
}

struct Build<'a> {
    region: &'a Region,
    graph: &'a Graph,
    threads: usize,
    /// Which filters are in the plan already.
    done: Vec<bool>,
}

impl Build<'_> {
    /// Builds a tree.
    fn tree(&mut self, tree: &Tree) -> Result<Built> {
        match tree {
            Tree::Leaf(relation) => {
                let from = &self.region.relations[*relation];
                let count = from.plan.schema().fields().len();
                let columns = (from.first..from.first + count).collect();
                let set = only(*relation);
                let built = Built { plan: Arc::clone(&from.plan), columns, set };
                match from.dependent {
                    Some(_) => Ok(built),
                    None => self.filtered(built, |named| named == set),
                }
            }
            Tree::Join(left, right) => {
                let (left, right) = (self.tree(left)?, self.tree(right)?);
                let dependent = match right.set.count_ones() {
                    1 => self.region.relations[right.set.trailing_zeros() as usize]
                        .dependent
                        .as_ref(),
                    _ => None,
                };
                match dependent {
                    Some(dependent) => self.dependent(left, right, dependent),
                    None => self.inner(left, right),
                }
            }
        }
    }

    /// Whether a column is still wanted above a part of the region.
    fn is_wanted(&self, column: usize, set: Set) -> bool {
        let region = self.region;
        let names = |expr: &Expr| columns(expr).contains(&column);
        let outside = |named: Set| named & !set != 0;
        region.output.iter().any(names)
            || region
                .filters
                .iter()
                .enumerate()
                .any(|(number, (_, filter))| !self.done[number] && names(filter))
            || region.classes.iter().any(|class| {
                class.iter().any(|(_, member)| names(member))
                    && class.iter().any(|(relation, _)| outside(only(*relation)))
            })
            || members(!set & self.graph.all()).any(|number| {
                let dependent = region.relations[number].dependent.as_ref();
                dependent.is_some_and(|dependent| {
                    dependent.keys.iter().any(|(outer, _)| names(outer))
                        || dependent.filter.as_ref().is_some_and(names)
                })
            })
    }

    /// Filters that may be put above a part, each once.
    fn due(&mut self, is_due: impl Fn(Set) -> bool) -> Vec<Expr> {
        let mut due = Vec::new();
        for (number, (set, filter)) in self.region.filters.iter().enumerate() {
            if !self.done[number] && is_due(*set) {
                self.done[number] = true;
                due.push(Arc::clone(filter));
            }
        }
        due
    }

    fn filtered(&mut self, mut built: Built, is_due: impl Fn(Set) -> bool) -> Result<Built> {
        let due = self.due(is_due);
        if !due.is_empty() {
            let due = due.iter().map(|filter| built.over(filter)).collect::<Result<Vec<_>>>()?;
            built.plan = Arc::new(FilterExec::try_new(conjunction(due), built.plan)?);
        }
        Ok(built)
    }

    fn inner(&mut self, left: Built, right: Built) -> Result<Built> {
        let set = left.set | right.set;
        let mut keys = Vec::new();
        for class in &self.region.classes {
            let member = |built: &Built| {
                class.iter().find(|(relation, _)| built.set & only(*relation) != 0).map(|(_, m)| m)
            };
            if let (Some(l), Some(r)) = (member(&left), member(&right)) {
                keys.push((left.over(l)?, right.over(r)?));
            }
        }
        let due = self.due(|named| named & !set == 0 && named != 0);
        let filter = (!due.is_empty()).then(|| conjunction(due));
        let all: Vec<usize> = left.columns.iter().chain(&right.columns).copied().collect();
        let kept: Vec<usize> =
            (0..all.len()).filter(|&place| self.is_wanted(all[place], set)).collect();
        let columns = kept.iter().map(|&place| all[place]).collect();
        let projection = (kept.len() < all.len()).then_some(kept);
        let filter = filter.map(|filter| join_filter(&filter, &left, &right)).transpose()?;
        let (l, r) = (Arc::clone(&left.plan), Arc::clone(&right.plan));
        let plan: Arc<dyn ExecutionPlan> = match (keys.is_empty(), filter) {
            (true, None) => {
                let product: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(l, r));
                return Ok(Built { plan: product, columns: all, set });
            }
            (true, filter) => {
                Arc::new(NestedLoopJoinExec::try_new(l, r, filter, &JoinType::Inner, projection)?)
            }
            (false, filter) => {
                let rows = (self.graph.rows(left.set), self.graph.rows(right.set));
                Arc::new(HashJoinExec::try_new(
                    l,
                    r,
                    keys,
                    filter,
                    &JoinType::Inner,
                    projection,
                    sides::mode(rows.0, rows.1, self.threads),
                    NullEquality::NullEqualsNothing,
                    false,
                )?)
            }
        };
        Ok(Built { plan, columns, set })
    }

    /// Joins a dependent relation to the rows that it acts on.
    fn dependent(&mut self, left: Built, right: Built, by: &Dependent) -> Result<Built> {
        let set = left.set | right.set;
        let keys = by.keys.iter().map(|(l, r)| Ok((left.over(l)?, right.over(r)?)));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let filter = by.filter.as_ref().map(|filter| join_filter(filter, &left, &right));
        let filter = filter.transpose()?;
        let kind = if by.is_anti { JoinType::LeftAnti } else { JoinType::LeftSemi };
        let number = right.set.trailing_zeros() as usize;
        let rows = (self.graph.rows(left.set), self.graph.relations[number].rows);
        let join = HashJoinExec::try_new(
            Arc::clone(&left.plan),
            Arc::clone(&right.plan),
            keys,
            filter,
            &kind,
            None,
            sides::mode(rows.0, rows.1, self.threads),
            NullEquality::NullEqualsNothing,
            false,
        )?;
        let plan: Arc<dyn ExecutionPlan> = match rows.0 > rows.1 {
            true => join.swap_inputs(sides::mode(rows.1, rows.0, self.threads))?,
            false => Arc::new(join),
        };
        Ok(Built { plan, columns: left.columns, set })
    }

    /// The region's output, with the names that it had.
    fn projected(&self, built: Built) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.region.schema.as_ref();
        let schema = schema.ok_or_else(|| internal_datafusion_err!("a region has a schema"))?;
        let output = self.region.output.iter().zip(schema.fields()).map(|(given, field)| {
            Ok(ProjectionExpr { expr: built.over(given)?, alias: field.name().clone() })
        });
        let output = output.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(output, built.plan)?))
    }
}

/// A condition over two parts as a join's.
fn join_filter(filter: &Expr, left: &Built, right: &Built) -> Result<JoinFilter> {
    let named = columns(filter);
    let (mut indices, mut fields) = (Vec::new(), Vec::new());
    let schemas: (SchemaRef, SchemaRef) = (left.plan.schema(), right.plan.schema());
    for &column in &named {
        let (place, side, schema) = match (left.place(column), right.place(column)) {
            (Some(place), _) => (place, JoinSide::Left, &schemas.0),
            (None, Some(place)) => (place, JoinSide::Right, &schemas.1),
            (None, None) => {
                return Err(internal_datafusion_err!("column {column} is not at hand"));
            }
        };
        indices.push(ColumnIndex { index: place, side });
        fields.push(Arc::clone(&schema.fields()[place]));
    }
    let expr = renumbered(filter, |column| named.binary_search(&column).ok())?;
    Ok(JoinFilter::new(expr, indices, Arc::new(Schema::new(fields))))
}
