//! Scenarios of paper 2 and the runners that work within them.
//!
//! A runner is where and how tuples are worked through: a thread of this process, a cell, an image under an emulator.
//! A shield is what keeps others from the measured processor. Neither is made here: whoever has one hands it in.

use crate::stamps::Stamps;

/// A place where tuples are worked through, with a stamp at the end of each.
pub trait Runner {
    /// Makes everything ready: memory touched, state as before the first tuple of a series.
    ///
    /// Errors: a sentence for people.
    fn prepare(&mut self) -> Result<(), String>;

    /// Works through the next `tuples` tuples: begins the stamps if they have not begun, and sets one at the end of each
    /// tuple. May be called several times after one [`Runner::prepare`].
    ///
    /// Errors: a sentence for people. Panics: if the stamps have no room.
    fn run(&mut self, tuples: usize, stamps: &mut Stamps) -> Result<(), String>;

    /// A number that follows from all tuples since [`Runner::prepare`] and from nothing else: runs of the same tuples
    /// in all scenarios, on all runners, must give the same.
    ///
    /// Errors: a sentence for people.
    fn checksum(&mut self) -> Result<u64, String>;

    /// The kernel's number of the thread that the tuples were worked through in, if that is not the one that has called
    /// [`Runner::run`]. `None` of a cell: its stamps are not by the host's counter.
    fn thread(&self) -> Option<u32> {
        None
    }

    /// What left the machine of a cell in the last [`Runner::run`]; `None` of others, and where the kernel does not count.
    fn exits(&self) -> Option<Exits> {
        None
    }
}

/// How often a cell's processor left its machine, by the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// For another reason than an interrupt of the host: what the cell itself has caused.
    pub own: u64,
    /// For interrupts of the host.
    pub interrupts: u64,
    /// Page faults within the machine.
    pub page_faults: u64,
}

/// What keeps other threads, interrupts and kernel work from a processor.
pub trait Shield {
    /// Shields the processor.
    ///
    /// Errors: a sentence that says what is missing, or how to get a shield.
    fn up(&mut self, cpu: u32) -> Result<(), String>;

    /// Takes the shield away.
    ///
    /// Errors: what did not come back.
    fn down(&mut self) -> Result<(), String>;
}

/// Where the tuples are worked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A thread of this process.
    Native,
    /// A freestanding image on a processor of its own, beside Linux.
    Cell,
}

/// A scenario (P2, Figure 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Name in tables and figures.
    pub name: &'static str,
    /// Whether tenants work beside the runner on all processors that they may have.
    pub load: bool,
    /// Whether the measured thread has a real-time policy.
    pub fifo: bool,
    /// Whether the measured processor is shielded.
    pub shield: bool,
    /// Where the tuples are worked through.
    pub place: Place,
}

const fn native(name: &'static str, load: bool, shield: bool, fifo: bool) -> Scenario {
    Scenario { name, load, fifo, shield, place: Place::Native }
}

/// The scenarios, in the paper's order of increasing isolation.
pub const SCENARIOS: [Scenario; 7] = [
    native("no-load", false, false, false),
    native("load", true, false, false),
    native("load-fifo", true, false, true),
    native("load-shield", true, true, false),
    native("load-shield-fifo", true, true, true),
    Scenario { name: "cell", load: false, fifo: true, shield: true, place: Place::Cell },
    Scenario { name: "load-cell", load: true, fifo: true, shield: true, place: Place::Cell },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_names_of_their_own_that_say_what_they_are() {
        for (at, scenario) in SCENARIOS.iter().enumerate() {
            let said = |word: &str| scenario.name.split('-').any(|part| part == word);
            assert!(SCENARIOS[..at].iter().all(|other| other.name != scenario.name));
            assert_eq!(scenario.place == Place::Cell, said("cell"));
            if scenario.place == Place::Native {
                assert_eq!((scenario.fifo, scenario.shield), (said("fifo"), said("shield")));
            }
            assert_eq!(scenario.load, said("load") && !said("no"), "{}", scenario.name);
        }
    }
}
