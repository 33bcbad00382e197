//! The choice of an executor for a bound query.

use datafusion::logical_expr::LogicalPlan;

use crate::analytic::AnalyticalPlan;
use crate::point::PointPlan;
use halcyon_plan::bind::Binder;
use halcyon_plan::phases::Phase;
use halcyon_sql::error::Result;

/// A query with the executor that runs it.
pub enum Executor {
    /// Row at a time over bounded index lookups.
    Point(Box<PointPlan>),
    /// Vectorised over a snapshot.
    Analytical(Box<AnalyticalPlan>),
}

impl Executor {
    /// The executor of an analysed plan: row at a time if `point_plans` says that it may and every
    /// access is bounded, else vectorised.
    ///
    /// Errors: those of optimising, such as a constant that cannot be computed.
    pub fn choose(plan: LogicalPlan, binder: &Binder<'_>, point_plans: bool) -> Result<Executor> {
        binder.timed(Phase::Optimize, || Self::optimize(plan, binder, point_plans))
    }

    fn optimize(plan: LogicalPlan, binder: &Binder<'_>, point_plans: bool) -> Result<Executor> {
        if point_plans
            && let Some(plan) = binder.optimize_single_table(&plan)
            && let Some(point) = PointPlan::compile(&plan)
        {
            return Ok(Executor::Point(Box::new(point)));
        }
        if point_plans
            && let Some(brief) = binder.optimize_briefly(&plan)?
            && let Some(point) = PointPlan::compile(&brief)
        {
            return Ok(Executor::Point(Box::new(point)));
        }
        let plan = binder.optimize(plan)?;
        let point = point_plans.then(|| PointPlan::compile(&plan)).flatten();
        Ok(match point {
            Some(point) => Executor::Point(Box::new(point)),
            None => Executor::Analytical(Box::new(AnalyticalPlan::new(plan, binder.df))),
        })
    }
}
