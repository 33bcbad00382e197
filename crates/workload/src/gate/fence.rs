//! The outer fence: thresholds on processor time and memory in use, compared with weighted averages.
//!
//! Source: P4 §2 (admission control): a sample every second, weighted 0.7; a statement is rejected from one threshold
//! on and queued from another, and the queue is emptied in batches once the average has fallen. HANA's thresholds and
//! batch; simulation shows that the processor's is a poor signal for an engine that uses all cores on purpose, so that
//! no class has one unless a user sets it.

use super::rejection::Reason;
use crate::limits::Limits;

/// Weight of the newest sample.
const LAMBDA: f64 = 0.7;
/// Time between samples, ns.
pub(super) const SAMPLE_NS: u64 = 1_000_000_000;
/// Statements of a class that leave its queue between two samples after a fence has opened.
pub(super) const BATCH: u32 = 50;

/// Averages of what is in use, in percent.
#[derive(Clone, Debug, Default)]
pub(super) struct Fence {
    cpu: f64,
    memory: f64,
    sampled_ns: Option<u64>,
}

impl Fence {
    /// Takes a sample if it is time for one, and tells whether.
    pub(super) fn sample(&mut self, now_ns: u64, cpu: f64, memory: f64) -> bool {
        let clean =
            |percent: f64| if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        let weight = match self.sampled_ns {
            Some(before) if now_ns < before.saturating_add(SAMPLE_NS) => return false,
            Some(_) => LAMBDA,
            None => 1.0,
        };
        self.sampled_ns = Some(now_ns);
        self.cpu += weight * (clean(cpu) - self.cpu);
        self.memory += weight * (clean(memory) - self.memory);
        true
    }

    /// The averages of processor time and memory, percent.
    pub(super) fn averages(&self) -> (f64, f64) {
        (self.cpu, self.memory)
    }

    /// The threshold from which new statements are rejected that is reached: the reason, value and limit.
    pub(super) fn rejects(&self, limits: &Limits) -> Option<(Reason, u64, u64)> {
        self.reached(limits.reject_cpu, limits.reject_memory)
    }

    /// Whether a threshold is reached from which new statements queue.
    pub(super) fn queues(&self, limits: &Limits) -> bool {
        self.reached(limits.queue_cpu, limits.queue_memory).is_some()
    }

    fn reached(&self, cpu: Option<u8>, memory: Option<u8>) -> Option<(Reason, u64, u64)> {
        let over = |reason: Reason, value: f64, limit: Option<u8>| {
            let limit = limit.filter(|limit| value >= f64::from(*limit))?;
            // A percentage, 0 to 100.
            Some((reason, value as u64, u64::from(limit)))
        };
        over(Reason::CpuThreshold, self.cpu, cpu)
            .or_else(|| over(Reason::MemoryThreshold, self.memory, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_each_second_and_weighted() {
        let mut fence = Fence::default();
        assert!(fence.sample(0, 50.0, 10.0));
        assert!(!fence.sample(SAMPLE_NS - 1, 100.0, 100.0));
        assert!(fence.sample(SAMPLE_NS, 100.0, f64::NAN));
        let (cpu, memory) = fence.averages();
        assert!((cpu - 85.0).abs() < 1e-9 && (memory - 3.0).abs() < 1e-9, "{cpu} {memory}");
    }

    #[test]
    fn thresholds_are_reached_at_their_value_and_zero_always_is() {
        let mut fence = Fence::default();
        let limits = Limits { reject_cpu: Some(90), queue_memory: Some(0), ..Limits::default() };
        assert!(fence.queues(&limits) && fence.rejects(&limits).is_none());
        fence.sample(0, 90.0, 0.0);
        assert_eq!(fence.rejects(&limits), Some((Reason::CpuThreshold, 90, 90)));
        assert!(!fence.queues(&Limits::default()));
        fence.sample(SAMPLE_NS, 0.0, 100.0);
        fence.sample(2 * SAMPLE_NS, 0.0, 100.0);
        assert!(fence.queues(&Limits::default()));
    }
}
