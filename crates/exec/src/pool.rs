//! The memory of an analytical plan: what its operators reserve, under the session's limit for a statement
//! and the limit of all memory in use.
//!
//! The allocator counts what operators really take ([`halcyon_base::memory`]); a reservation tells it before.
//! An operator that may not reserve can often go on with less (it passes groups on early), so a
//! refused reservation does not end the statement by itself. A join makes one batch of the rows that it has
//! read of one side: what it reserves for them must leave room for that copy.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation,
};
use halcyon_base::memory::AccountId;
use halcyon_sql::diagnose::SHORT_OF_ALL;

/// Consumers that copy all that they have read when they have read all, by the beginnings of their names.
const COPYING: [&str; 3] = ["HashJoinInput", "NestedLoopJoinLoad", "CrossJoinExec"];

/// A pool of `bytes` for a plan that runs for `account`.
pub(crate) fn pool(bytes: usize, account: AccountId) -> Arc<dyn MemoryPool> {
    Arc::new(PlanPool { own: GreedyMemoryPool::new(bytes.max(1)), account })
}

#[derive(Debug)]
struct PlanPool {
    own: GreedyMemoryPool,
    account: AccountId,
}

impl fmt::Display for PlanPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

impl MemoryPool for PlanPool {
    fn name(&self) -> &str {
        "statement"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer().name();
        let copied = match COPYING.iter().any(|name| consumer.starts_with(name)) {
            true => additional.saturating_add(reservation.size()),
            false => 0,
        };
        if !self.account.has_room(additional.saturating_add(copied)) {
            let asked = format!("{SHORT_OF_ALL}{consumer} asked for {additional} bytes");
            return Err(DataFusionError::ResourcesExhausted(asked));
        }
        self.own.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}
