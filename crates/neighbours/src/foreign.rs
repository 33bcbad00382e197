//! The load of other processes, from the system's count of processor time.

use std::fs;

/// Share of the processors' time that other processes may have had where something is concluded.
pub const FOREIGN_MAX: f64 = 0.1;

/// Processor time in ticks of the system: of all, and of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    all: u64,
    own: u64,
    /// Time of all processors, idle or not.
    total: u64,
}

impl Busy {
    /// The counts now; `None` where the system does not tell.
    pub fn now() -> Option<Busy> {
        let (all, total) = of_machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let own = of_process(&fs::read_to_string("/proc/self/stat").ok()?)?;
        Some(Busy { all, own, total })
    }

    /// Share of all processors' time between two counts that other processes had; all of it where nobody knows.
    pub fn foreign_between(before: Option<Busy>, after: Option<Busy>) -> f64 {
        match (before, after) {
            (Some(before), Some(after)) => after.foreign_since(before),
            _ => 1.0,
        }
    }

    /// Share of all processors' time since `before` that other processes had.
    pub fn foreign_since(self, before: Busy) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let foreign = all.saturating_sub(self.own.saturating_sub(before.own));
        foreign as f64 / self.total.saturating_sub(before.total).max(1) as f64
    }
}

/// Ticks in which processors worked or were taken away, and all ticks (`/proc/stat`, first line: user, nice, system, idle,
/// iowait, irq, softirq, steal; guests' time is in user's).
fn of_machine(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Option<Vec<u64>> =
        line.split_whitespace().take(8).map(|word| word.parse().ok()).collect();
    let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
    let total = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
    Some((total - ticks[3] - ticks[4], total))
}

/// Ticks of a process, its own and the kernel's for it (`/proc/self/stat`, fields 14 and 15).
fn of_process(text: &str) -> Option<u64> {
    let (_, behind) = text.rsplit_once(") ")?;
    let mut words = behind.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_had_is_what_this_process_had_not() {
        let stat = "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n";
        assert_eq!(of_machine(stat), Some((150, 1000)));
        let own = "12 (a ) b) R 1 1 1 0 -1 0 0 0 0 0 60 20 0 0 20 0 1 0 5 0 0";
        assert_eq!(of_process(own), Some(80));
        let before = Busy { all: 150, own: 80, total: 1000 };
        let after = Busy { all: 350, own: 130, total: 1400 };
        assert_eq!(after.foreign_since(before), 150.0 / 400.0);
        assert_eq!(before.foreign_since(before), 0.0);
        assert_eq!(Busy::foreign_between(Some(before), Some(after)), 150.0 / 400.0);
        assert_eq!(Busy::foreign_between(None, Some(after)), 1.0);
        let now = Busy::now().expect("this system tells");
        assert!(Busy::now().expect("still").foreign_since(now) <= 1.0);
    }

    #[test]
    fn no_text_makes_a_parser_panic() {
        let mut random = halcyon_base::rng::Rng::new(7);
        for _ in 0..10_000 {
            let letters = b"cpu 0189) (\n\xff";
            let bytes: Vec<u8> = (0..random.below(60))
                .map(|_| letters[random.below(letters.len() as u64) as usize])
                .collect();
            let text = String::from_utf8_lossy(&bytes);
            let _ = (of_machine(&text), of_process(&text));
        }
        assert_eq!(of_machine(&format!("cpu {0} {0} 0 0 0 0 0 0", u64::MAX)), None);
    }
}
