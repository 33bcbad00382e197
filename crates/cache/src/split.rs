//! Which processors fill the cache as polluters, and which as the sensitive.

/// The processors of workers, divided; each is in one list at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSplit {
    /// Processors that polluting morsels run on, ascending.
    pub polluting: Vec<u32>,
    /// Processors that sensitive morsels run on, ascending.
    pub sensitive: Vec<u32>,
}

impl CpuSplit {
    /// The split of workers' processors, given by island (a last-level cache): `polluting` workers of
    /// each island, counted from its end, but one worker at least stays for the sensitive. An island
    /// of one worker is not divided; its processor is in neither list and may fill the whole cache.
    pub fn of(islands: &[Vec<u32>], polluting: usize) -> CpuSplit {
        let mut split = CpuSplit::default();
        for cpus in islands.iter().filter(|cpus| cpus.len() > 1) {
            let count = polluting.clamp(1, cpus.len() - 1);
            let (sensitive, polluting) = cpus.split_at(cpus.len() - count);
            split.sensitive.extend(sensitive);
            split.polluting.extend(polluting);
        }
        split.sensitive.sort_unstable();
        split.polluting.sort_unstable();
        split
    }

    /// All processors of the split.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.polluting.iter().chain(&self.sensitive).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_island_keeps_a_worker_for_the_sensitive() {
        let split = CpuSplit::of(&[vec![0, 1, 2, 3], vec![4, 5], vec![6]], 3);
        assert_eq!(split.polluting, [1, 2, 3, 5]);
        assert_eq!(split.sensitive, [0, 4]);
        assert_eq!(CpuSplit::of(&[vec![0, 1]], 0).polluting, [1], "polluters run somewhere");
        assert_eq!(CpuSplit::of(&[vec![0]], 1), CpuSplit::default());
    }
}
