//! Stamped runs: how long each tuple takes within the cell, by readings of the counter that the cell takes.

use halcyon_cell_abi::events::Batch;
use halcyon_cell_abi::message::{command, reply};
use halcyon_noise::tsc;

use super::{Cell, CellError};
use crate::fault::Fault;
use crate::place::Counters;

/// What a stamped run has told.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Readings of the counter: the beginning of the first tuple, and the end of each.
    pub stamps: Vec<u64>,
    /// The host's readings before the run was asked for, and behind its end.
    pub host: (u64, u64),
    /// KVM's counters at these moments. `None`: the cell is no machine, or the kernel counts nothing.
    pub counters: Option<(Counters, Counters)>,
    /// Checksum of a workload without a program.
    pub checksum: u64,
}

impl Run {
    /// Whether the cell's counter is the host's, as far as that can be seen: all readings lie between the host's.
    pub fn shares_counter(&self) -> bool {
        let ends = self.stamps.first().zip(self.stamps.last());
        ends.is_some_and(|(first, last)| self.host.0 <= *first && *last <= self.host.1)
    }

    /// How much more of a counter KVM has counted behind the run than before.
    pub fn counted(&self, name: &str) -> Option<u64> {
        let (before, behind) = self.counters.as_ref()?;
        Some(behind.get(name).saturating_sub(before.get(name)))
    }
}

impl Cell {
    /// Gives the cell events that wait there for [`Cell::run_held`]; they are accepted as those of [`Cell::feed`] are.
    ///
    /// Errors: as [`Cell::feed`].
    pub fn hold(&mut self, batch: &Batch) -> Result<u64, CellError> {
        self.check_batch(batch.words())?;
        self.accept(command::HOLD, batch.words().into())
    }

    /// Applies at most so many of the events that are held, one after the other, and tells how long each took. Events that
    /// cannot be applied are told by [`Cell::rejections`].
    ///
    /// Errors: [`CellError::NoProgram`], [`CellError::Down`], also if the cell broke on the way and another one has the
    /// events now.
    pub fn run_held(&mut self, events: usize) -> Result<Run, CellError> {
        self.loaded.as_ref().ok_or(CellError::NoProgram)?;
        self.stamped(|cell| {
            let sequence = cell.accept(command::RUN, [events as u64].as_slice().into())?;
            cell.confirm(sequence, &|| false)?;
            Ok(0)
        })
    }

    /// Works through tuples of a workload without a program ([`halcyon_cell_abi::message::work`]), from where the last call
    /// for the same one has ended, and tells how long each took.
    ///
    /// Errors: [`CellError::Refused`], [`CellError::Down`], also if the cell broke on the way.
    pub fn run_work(&mut self, work: u64, tuples: usize) -> Result<Run, CellError> {
        self.stamped(|cell| {
            let answers = cell.ask(command::WORK, &[work, tuples as u64])?;
            let end = answers.last().and_then(|answer| answer.words.get(1).copied());
            end.ok_or_else(|| cell.distrust("a workload without a checksum"))
        })
    }

    /// The kernel's number of the thread in which the cell runs.
    pub fn thread(&self) -> Option<u32> {
        self.link.as_ref().and_then(|link| link.running.thread())
    }

    /// Does something whose readings the cell keeps, and fetches these.
    fn stamped(
        &mut self,
        work: impl FnOnce(&mut Cell) -> Result<u64, CellError>,
    ) -> Result<Run, CellError> {
        // A cell that was broken before is replaced now, and not within the run.
        self.ping()?;
        let (starts, before) = (self.starts, self.counters());
        let begun = tsc::stamp();
        let checksum = work(self)?;
        let host = (begun, tsc::stamp());
        let counters = before.zip(self.counters());
        let mut stamps = Vec::new();
        let mut told = None;
        for answer in self.ask(command::STAMPS, &[])? {
            match answer.kind {
                reply::STAMPS => stamps.extend_from_slice(&answer.words),
                _ => told = answer.words.get(1).copied(),
            }
        }
        if self.starts != starts {
            return Err(CellError::Down(self.fault().unwrap_or(Fault::Killed)));
        }
        if told != Some(stamps.len() as u64) || !stamps.is_sorted() {
            return Err(self.distrust("readings that are none of a run"));
        }
        Ok(Run { stamps, host, counters, checksum })
    }
}
