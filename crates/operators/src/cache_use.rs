//! How operators use the shared cache (P4 §3): what a plan's tasks are annotated with.
//!
//! Each operator says so by the structure that it visits at random: a join by its build side, an aggregation
//! by its groups. A structure that a core's own cache holds, or that is much larger than the shared one, gains nothing
//! from a share of that; one between lives from it. A leaf that reads more than a tenth of the shared
//! cache pollutes it. A statement's operators run in the same tasks, so the statement is sensitive if one of them is.
//!
//! Sizes are the optimizer's estimates. A structure of unknown size counts as sensitive, as in P4: a restriction would be the
//! worse mistake.

use std::sync::{Arc, OnceLock};

use datafusion::common::stats::Precision;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halcyon_hashing::groups::HashAggregateExec;
use halcyon_hashing::joins::JoinExec;
use halcyon_machine::Topology;
use halcyon_task::CacheUse;

/// Bytes beside a row's values in a hash table: hash, place and what is left free.
const TABLE_ROW_BYTES: u64 = 24;
/// Bytes of a value whose width is not fixed.
const TEXT_BYTES: u64 = 24;
/// How many times the shared cache a structure may be that still gains from it.
const LARGEST: u64 = 4;

/// The caches of the machine, bytes.
#[derive(Clone, Copy, Debug)]
pub struct CacheSizes {
    /// A core's own.
    pub private: u64,
    /// The one that cores of an island share.
    pub shared: u64,
}

impl CacheSizes {
    /// The sizes of this machine, looked up once; 1 and 32 MiB where the kernel tells none.
    pub fn of_this_machine() -> CacheSizes {
        static SIZES: OnceLock<CacheSizes> = OnceLock::new();
        *SIZES.get_or_init(|| {
            let topology = Topology::of_this_machine_or_flat();
            let of = |level| topology.caches.iter().find(|cache| cache.level == level);
            let bytes = |level, other| of(level).map_or(other, |cache| cache.bytes);
            CacheSizes { private: bytes(2, 1 << 20), shared: bytes(3, 32 << 20) }
        })
    }

    /// The use of a structure that is visited at random.
    fn of_structure(self, bytes: Option<u64>) -> CacheUse {
        match bytes {
            None => CacheUse::Sensitive,
            Some(bytes) if bytes <= self.private => CacheUse::Adaptive,
            Some(bytes) if bytes <= self.shared * LARGEST => CacheUse::Sensitive,
            Some(_) => CacheUse::Adaptive,
        }
    }
}

/// How the tasks of a plan use the cache.
pub fn cache_use(plan: &Arc<dyn ExecutionPlan>, sizes: CacheSizes) -> CacheUse {
    let mut found = of_operator(plan, sizes);
    for child in plan.children() {
        if found == CacheUse::Sensitive {
            break;
        }
        match cache_use(child, sizes) {
            CacheUse::Adaptive => {}
            other => found = other,
        }
    }
    found
}

fn of_operator(node: &Arc<dyn ExecutionPlan>, sizes: CacheSizes) -> CacheUse {
    let join = match node.downcast_ref::<JoinExec>() {
        Some(ours) => Some(ours.node()),
        None => node.downcast_ref::<HashJoinExec>(),
    };
    if let Some(join) = join {
        return sizes.of_structure(bytes(join.left(), TABLE_ROW_BYTES));
    }
    let aggregate = match node.downcast_ref::<HashAggregateExec>() {
        Some(ours) => Some(ours.node()),
        None => node.downcast_ref::<AggregateExec>(),
    };
    if let Some(aggregate) = aggregate {
        return match aggregate.group_expr().is_empty() {
            true => CacheUse::Adaptive,
            false => sizes.of_structure(bytes(node, TABLE_ROW_BYTES)),
        };
    }
    let is_large = || bytes(node, 0).is_some_and(|bytes| bytes > sizes.shared / 10);
    if node.children().is_empty() && is_large() { CacheUse::Polluting } else { CacheUse::Adaptive }
}

/// Bytes of the rows that an operator gives, each with so many more; `None` if nobody can say.
fn bytes(plan: &Arc<dyn ExecutionPlan>, more: u64) -> Option<u64> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    let rows = match known.num_rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => rows as u64,
        Precision::Absent => return None,
    };
    let width = |kind: &arrow::datatypes::DataType| {
        kind.primitive_width().map_or(TEXT_BYTES, |width| width as u64)
    };
    let row: u64 = plan.schema().fields().iter().map(|field| width(field.data_type())).sum();
    Some(rows.saturating_mul(row + more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::MemTable;
    use datafusion::prelude::SessionContext;

    /// The use of a query over tables of 100, 10,000 and 1,000,000 rows of two integers.
    async fn of(query: &str) -> CacheUse {
        let context = SessionContext::new();
        for (name, rows) in [("small", 100), ("middle", 10_000), ("large", 1_000_000)] {
            let schema = Schema::new(vec![
                Field::new("k", DataType::Int64, false),
                Field::new("v", DataType::Int64, false),
            ]);
            let column = || Arc::new(Int64Array::from_iter_values(0..rows));
            let batch = RecordBatch::try_new(Arc::new(schema), vec![column(), column()]);
            let batch = batch.expect("two columns");
            let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("a table");
            context.register_table(name, Arc::new(table)).expect("a new name");
        }
        let plan = context.sql(query).await.expect("it is SQL").create_physical_plan().await;
        let sizes = CacheSizes { private: 64 << 10, shared: 2 << 20 };
        cache_use(&plan.expect("it can be planned"), sizes)
    }

    #[tokio::test]
    async fn a_scan_pollutes_by_what_it_reads() {
        assert_eq!(of("SELECT sum(v) FROM large WHERE k % 2 = 0").await, CacheUse::Polluting);
        assert_eq!(of("SELECT sum(v) FROM small").await, CacheUse::Adaptive);
    }

    #[tokio::test]
    async fn a_join_is_sensitive_if_its_build_side_is_as_large_as_the_shared_cache() {
        let join =
            |build: &str| format!("SELECT sum(l.v) FROM large l JOIN {build} b ON l.k = b.k");
        assert_eq!(of(&join("small")).await, CacheUse::Polluting, "the scan's share remains");
        assert_eq!(of(&join("middle")).await, CacheUse::Sensitive);
        assert_eq!(of(&join("large")).await, CacheUse::Polluting, "nothing is gained any more");
    }

    #[tokio::test]
    async fn grouping_is_sensitive_by_its_groups() {
        assert_eq!(of("SELECT k, sum(v) FROM middle GROUP BY k").await, CacheUse::Sensitive);
        assert_eq!(of("SELECT k, sum(v) FROM small GROUP BY k").await, CacheUse::Adaptive);
    }

    #[test]
    fn a_structure_of_unknown_size_is_not_restricted() {
        let sizes = CacheSizes { private: 1 << 10, shared: 1 << 20 };
        assert_eq!(sizes.of_structure(None), CacheUse::Sensitive);
        assert_eq!(sizes.of_structure(Some(1 << 10)), CacheUse::Adaptive);
        assert_eq!(sizes.of_structure(Some(1 << 11)), CacheUse::Sensitive);
        assert_eq!(sizes.of_structure(Some(1 << 23)), CacheUse::Adaptive);
        let this = CacheSizes::of_this_machine();
        assert!(this.private > 0 && this.private <= this.shared);
    }
}
