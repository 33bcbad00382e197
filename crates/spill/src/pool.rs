//! The memory of an analytical plan: what its operators reserve, under the session's limit for a statement
//! and the limit of all memory in use.
//!
//! The allocator counts what operators really take ([`halcyon_base::memory`]); a reservation tells it before.
//! An operator that may not reserve can often go on with less (it passes groups on early), so a
//! refused reservation does not end the statement by itself. A join makes one batch of the rows that it has
//! read of one side: what it reserves for them must leave room for that copy.
//!
//! A statement that may spill has two kinds of operators. Those that can spill share three quarters of its limit, less
//! what the others have taken: of that, each may have its part in any case, half is for the operator that asks first, and up to the
//! whole for those who have less than their part of it. They are refused, too, before the statement is: when a part of
//! its own limit, its class's or that of all is all that is left ([`AccountId::has_room_to_spare`]). Each may always have
//! [`FLOOR`], on which it can go on by spilling, and what it asks for first if the statement's limit has room for it. (DataFusion's `FairSpillPool` gives each its part and nothing more, so
//! that an operator of eight spills with seven eighths of the memory unused.)
//!
//! Invariant, checked by `who_can_spill_is_refused_in_time_and_gets_its_part`: those that can spill have together at most
//! their three quarters and half as much again, as long as parts are larger than [`FLOOR`].

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use halcyon_base::memory::AccountId;
use halcyon_sql::diagnose::{SHORT_OF_ALL, external, sql_error};
use parking_lot::Mutex;

/// Consumers that copy all that they have read when they have read all, by the beginnings of their names.
const COPYING: [&str; 3] = ["HashJoinInput", "NestedLoopJoinLoad", "CrossJoinExec"];

/// Of these, those that would read their side a second time when they are refused, which our scans and exchanges do not
/// let them: they are told an error that ends the statement.
const READING_AGAIN: &str = "NestedLoopJoinLoad";

/// What merges files of a sort, as many as it gets memory for: it counts as one that can spill, though it does not say so.
const MERGING: &str = "ExternalSorterMerge";

/// What an operator that can spill may always have.
const FLOOR: usize = 256 << 10;

/// A pool of `bytes` for a plan that runs for `account`.
pub fn pool(bytes: usize, account: AccountId, can_spill: bool) -> Arc<dyn MemoryPool> {
    let bytes = bytes.max(1);
    let spilling = can_spill.then(|| Spilling { bytes, state: Mutex::default() });
    Arc::new(PlanPool { own: GreedyMemoryPool::new(bytes), account, spilling })
}

#[derive(Debug)]
struct PlanPool {
    own: GreedyMemoryPool,
    account: AccountId,
    /// `None`: nothing spills, and the operator that asks first has it.
    spilling: Option<Spilling>,
}

/// Who has how much in a statement that may spill.
#[derive(Debug)]
struct Spilling {
    bytes: usize,
    state: Mutex<Shares>,
}

#[derive(Debug, Default)]
struct Shares {
    /// Consumers that can spill.
    spillers: usize,
    /// What they have reserved.
    spillable: usize,
    /// What all others have reserved.
    fixed: usize,
}

/// Whether a consumer can go on with less than it asks for.
fn can_yield(consumer: &MemoryConsumer) -> bool {
    consumer.can_spill() || consumer.name().starts_with(MERGING)
}

impl Spilling {
    /// Whether a consumer that can spill, and has so much, may have more.
    fn allows(&self, has: usize, additional: usize, has_room: impl Fn(usize) -> bool) -> bool {
        let shares = self.state.lock();
        let wanted = has.saturating_add(additional);
        let in_all = shares.spillable.saturating_add(shares.fixed).saturating_add(additional);
        // A sort cannot put a batch into a file that it may not take in.
        let is_first = has == 0 && in_all <= self.bytes;
        if wanted <= FLOOR || is_first {
            return true;
        }
        let all = (self.bytes / 4 * 3).saturating_sub(shares.fixed);
        let part = all / shares.spillers.max(1);
        let together = shares.spillable.saturating_add(additional);
        let is_fair =
            wanted <= part / 2 || together <= all / 2 || (wanted <= part && together <= all);
        is_fair && has_room(additional)
    }

    fn change(&self, consumer: &MemoryConsumer, change: impl Fn(&mut usize)) {
        let mut shares = self.state.lock();
        match can_yield(consumer) {
            true => change(&mut shares.spillable),
            false => change(&mut shares.fixed),
        }
    }
}

impl PlanPool {
    fn short_of_all(consumer: &str, additional: usize) -> DataFusionError {
        let asked = format!("{SHORT_OF_ALL}{consumer} asked for {additional} bytes");
        DataFusionError::ResourcesExhausted(asked)
    }

    fn grant(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer().name();
        let copied = match COPYING.iter().any(|name| consumer.starts_with(name)) {
            true => additional.saturating_add(reservation.size()),
            false => 0,
        };
        if let Some(spilling) = self.spilling.as_ref().filter(|_| can_yield(reservation.consumer()))
        {
            let has_room = |bytes| self.account.has_room_to_spare(bytes);
            if !spilling.allows(reservation.size(), additional, has_room) {
                let asked = format!(
                    "{consumer}, which has {} bytes, asked for {additional} more",
                    reservation.size()
                );
                return Err(DataFusionError::ResourcesExhausted(asked));
            }
            self.own.grow(reservation, additional);
            return Ok(());
        }
        if !self.account.has_room(additional.saturating_add(copied)) {
            return Err(PlanPool::short_of_all(consumer, additional));
        }
        self.own.try_grow(reservation, additional)
    }
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

    fn register(&self, consumer: &MemoryConsumer) {
        if let Some(spilling) = &self.spilling {
            spilling.state.lock().spillers += usize::from(consumer.can_spill());
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if let Some(spilling) = &self.spilling {
            spilling.state.lock().spillers -= usize::from(consumer.can_spill());
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if let Some(spilling) = &self.spilling {
            spilling.change(reservation.consumer(), |bytes| *bytes += additional);
        }
        self.own.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if let Some(spilling) = &self.spilling {
            spilling.change(reservation.consumer(), |bytes| *bytes -= shrink);
        }
        self.own.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let granted = self.grant(reservation, additional);
        let Some(spilling) = &self.spilling else { return granted };
        if let Err(refused) = granted {
            return Err(match reservation.consumer().name().starts_with(READING_AGAIN) {
                true => external(sql_error(refused, "")),
                false => refused,
            });
        }
        spilling.change(reservation.consumer(), |bytes| *bytes += additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_spill_is_refused_in_time_and_gets_its_part() {
        let limit = 64 << 20;
        let pool = pool(limit, AccountId::default(), true);
        let consumer = |number: usize| {
            MemoryConsumer::new(format!("sort {number}")).with_can_spill(true).register(&pool)
        };
        let (first, second) = (consumer(1), consumer(2));
        // Half of three quarters, and its own part, which is as much, but no more.
        assert!(first.try_grow(24 << 20).is_ok() && first.try_grow(1).is_err());
        assert!(second.try_grow(24 << 20).is_ok() && second.try_grow(1).is_err());
        let others: Vec<MemoryReservation> = (3..9).map(consumer).collect();
        assert!(others.iter().all(|other| other.try_grow(1 << 20).is_ok()));
        // Parts are smaller now; each has half of its own in any case.
        assert!(others.iter().all(|other| other.try_grow(2 << 20).is_ok()));
        assert!(others.iter().all(|other| other.try_grow(1 << 20).is_err()));
        let spillable = 2 * (24 << 20) + 6 * (3 << 20);
        assert!(spillable <= limit / 4 * 3 / 2 * 3);
        first.free();
        assert!(others[0].try_grow(1 << 20).is_ok());
        // What cannot spill may have what is left of the whole.
        let fixed = MemoryConsumer::new("window").register(&pool);
        assert!(fixed.try_grow(20 << 20).is_ok());
        assert!(fixed.try_grow(20 << 20).is_err());
        // Nobody is refused what it needs to go on: a little, and a first batch as long as there is room for it.
        let (late, later) = (consumer(9), consumer(10));
        assert!(later.try_grow(limit).is_err());
        assert!(late.try_grow(FLOOR).is_ok());
        drop((second, others, fixed, late, later));
        first.free();
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_consumer_that_would_read_again_is_told_an_error_that_ends_it() {
        let pool = pool(1 << 20, AccountId::default(), true);
        let join = MemoryConsumer::new("NestedLoopJoinLoad[0]").register(&pool);
        let refused = join.try_grow(2 << 20).expect_err("too much");
        assert!(!matches!(refused.find_root(), DataFusionError::ResourcesExhausted(_)));
        assert_eq!(sql_error(refused, "").state().as_str(), "53200");
    }
}
