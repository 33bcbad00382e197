//! The conditions of a plan reach its scans: a filter right above a scan becomes the scan's own.
//!
//! A rule for physical plans that runs before any that looks at estimates, so that these know how many rows the
//! scans give. DataFusion's rule for filters knows columns by their names, of which a join's output may have two
//! alike; here a filter only goes into the scan below it, by the places of columns.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use crate::scan::ScanExec;

/// The rule.
#[derive(Debug, Default)]
pub struct FiltersReachScans;

impl PhysicalOptimizerRule for FiltersReachScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let reached = node.downcast_ref::<FilterExec>().map(reached);
            Ok(match reached.transpose()?.flatten() {
                Some(scan) => Transformed::yes(scan),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "filters_reach_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan in the place of a filter above a scan.
fn reached(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(scan) = filter.input().downcast_ref::<ScanExec>() else { return Ok(None) };
    let Some(mut scan) = scan.keeping(filter.predicate())? else { return Ok(None) };
    if let Some(columns) = filter.projection().as_ref() {
        scan = scan.giving(columns)?;
    }
    Ok(match filter.fetch() {
        None => Some(Arc::new(scan)),
        fetch => scan.with_fetch(fetch),
    })
}
