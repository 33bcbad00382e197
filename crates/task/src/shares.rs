//! How the workers' time is divided: weights of classes, floors of bands.
//!
//! Nothing that waits is left waiting for ever: a class has a weight of at least 1 within its band,
//! every band below the first has a floor, and floors together leave half of the time to the bands
//! above. Both may change while the runtime runs ([`crate::Runtime::set_shares`]).

use crate::annotation::{BANDS, CLASSES, ClassId, Priority};
use std::error::Error;
use std::fmt;

/// The largest weight of a class: a larger one would round the time of the class to nothing.
pub const WEIGHT_MAX: u32 = 65_536;
/// The largest sum of all floors, per mille.
const FLOORS_MAX: u32 = 500;

/// Shares of the workers' time, by class and by band.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Weights of the classes within a band: 1 to [`WEIGHT_MAX`].
    pub weights: [u32; CLASSES],
    /// Time that a band with waiting tasks gets for sure, per mille of the time that the other bands
    /// take: of [`Priority::High`], [`Priority::Normal`] and [`Priority::Low`]. At least 1 each, at
    /// most 500 together. Urgent tasks go first and need no floor.
    pub floors: [u32; BANDS - 1],
}

impl Default for Shares {
    /// All classes alike; 30 per mille, which is 2.9 % of all time, for each lower band.
    fn default() -> Self {
        Shares { weights: [1; CLASSES], floors: [30; BANDS - 1] }
    }
}

impl Shares {
    /// Whether every class and every band gets time.
    ///
    /// Errors: see [`SharesError`].
    pub fn check(&self) -> Result<(), SharesError> {
        let wrong = |weight: &u32| !(1..=WEIGHT_MAX).contains(weight);
        if let Some(class) = self.weights.iter().position(wrong) {
            return Err(SharesError::Weight(ClassId(class as u8)));
        }
        let lower = [Priority::High, Priority::Normal, Priority::Low];
        if let Some(band) = self.floors.iter().position(|&floor| floor == 0) {
            return Err(SharesError::NoFloor(lower[band]));
        }
        let sum: u64 = self.floors.iter().copied().map(u64::from).sum();
        if sum > u64::from(FLOORS_MAX) { Err(SharesError::FloorsTooHigh(sum)) } else { Ok(()) }
    }
}

/// Reasons for which shares are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharesError {
    /// The class's weight is 0, or above [`WEIGHT_MAX`].
    Weight(ClassId),
    /// The band's floor is 0: its tasks might wait for ever.
    NoFloor(Priority),
    /// The floors are this many per mille together, and leave too little to urgent tasks.
    FloorsTooHigh(u64),
}

impl fmt::Display for SharesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharesError::Weight(class) => {
                write!(f, "the weight of class {} is not within 1 to {WEIGHT_MAX}", class.0)
            }
            SharesError::NoFloor(band) => write!(f, "the {band:?} band has no floor"),
            SharesError::FloorsTooHigh(sum) => {
                write!(f, "floors of {sum} per mille are more than {FLOORS_MAX}")
            }
        }
    }
}

impl Error for SharesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_starve_somebody_are_refused() {
        let changed = |change: fn(&mut Shares)| {
            let mut shares = Shares::default();
            change(&mut shares);
            shares.check()
        };
        assert_eq!(changed(|_| ()), Ok(()));
        assert_eq!(changed(|s| s.weights[9] = 0), Err(SharesError::Weight(ClassId(9))));
        assert_eq!(changed(|s| s.weights[63] = 65_537), Err(SharesError::Weight(ClassId(63))));
        assert_eq!(changed(|s| s.floors[1] = 0), Err(SharesError::NoFloor(Priority::Normal)));
        assert_eq!(changed(|s| s.floors = [200; 3]), Err(SharesError::FloorsTooHigh(600)));
        assert_eq!(changed(|s| s.floors = [1, 1, 498]), Ok(()));
    }
}
