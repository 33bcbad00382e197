//! The session that asks the 22 queries in turn.

use std::time::Instant;

use halcyon::{Database, Session};
use halcyon_gauge::measure::Rounds;

use super::queries::{PINS, QUERIES};
use super::rest;
use crate::answers::Answer;
use crate::{Failure, Result};

/// A session, and how many queries that pin a state it has asked.
pub struct Analyst {
    session: Session,
    pins: usize,
}

/// What the session did in one round of an arm.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Queries per second of their own time.
    pub per_s: f64,
    /// Geometric mean of the queries' times, milliseconds; a query's is the median of its runs.
    pub mean_ms: f64,
    /// Time of each query, milliseconds.
    pub each_ms: Vec<f64>,
    /// Queries that pin a state, all of which were true.
    pub pinned: usize,
}

impl Analyst {
    /// A session with so many workers; 0: as many as there are.
    pub fn new(database: &Database, threads: usize) -> Result<Self> {
        Ok(Analyst { session: rest::session(database, threads)?, pins: 0 })
    }

    /// Asks the 22 queries in turn, whole turns until `seconds` are over, at least one. After each comes one of the
    /// queries that hold in every state, which is not timed.
    ///
    /// Errors: a query was refused, or a snapshot shows a part of a transaction.
    pub fn turns(&mut self, seconds: f64) -> Result<Turns> {
        let began = Instant::now();
        let mut times = vec![Rounds::default(); QUERIES.len()];
        let (mut asked, mut total_s, before) = (0_u32, 0.0, self.pins);
        while asked == 0 || began.elapsed().as_secs_f64() < seconds {
            for (number, (text, times)) in (1..).zip(QUERIES.iter().zip(&mut times)) {
                let start = Instant::now();
                Answer::of(&mut self.session, text).map_err(|failure| of_query(number, failure))?;
                let took_s = start.elapsed().as_secs_f64();
                times.push(took_s * 1e3);
                (asked, total_s) = (asked + 1, total_s + took_s);
                self.pin()?;
            }
        }
        let each_ms: Vec<f64> = times.iter().map(Rounds::median).collect();
        Ok(Turns {
            per_s: f64::from(asked) / total_s,
            mean_ms: geometric_mean(&each_ms),
            each_ms,
            pinned: self.pins - before,
        })
    }

    /// Asks the next query that is true in every state between transactions.
    fn pin(&mut self) -> Result<()> {
        let text = PINS[self.pins % PINS.len()];
        self.pins += 1;
        let mut rows = self.session.query(text, &[])?;
        let row = rows.next()?.ok_or_else(|| Failure::WrongAnswer("no row".into()))?;
        match row.get::<bool>(0)? {
            true => Ok(()),
            false => Err(Failure::WrongAnswer(format!("a snapshot denies {text}"))),
        }
    }
}

fn of_query(number: u32, failure: Failure) -> Failure {
    match failure {
        Failure::Engine(what) => Failure::Engine(format!("query {number}: {what}")),
        other => other,
    }
}

/// The geometric mean of positive numbers.
pub fn geometric_mean(numbers: &[f64]) -> f64 {
    let logarithms: f64 = numbers.iter().map(|number| number.ln()).sum();
    (logarithms / numbers.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometric_mean_weighs_ratios() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-9);
        assert!((geometric_mean(&[3.0]) - 3.0).abs() < 1e-9);
    }
}
