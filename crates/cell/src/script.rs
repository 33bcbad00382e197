//! A view's program with events in its words: what a cell needs to do what an engine of this process does.

use std::ops::Range;

use halcyon_cell_abi::events::{Batch, Events, row_words};
use halcyon_view::program::{Program, RelationId};

use crate::cell::{Cell, CellError};
use crate::fault::Fault;

/// Events of a batch.
const BATCH_EVENTS: usize = 256;

/// A program, its strings, and events.
#[derive(Clone, Debug)]
pub struct Script {
    program: Program,
    row_words: Vec<usize>,
    /// The strings by whose numbers texts stand in the events, in the order of the numbers.
    strings: Vec<String>,
    events: Batch,
}

impl Script {
    /// A script without events.
    pub fn new(program: Program, strings: Vec<String>) -> Script {
        let row_words = row_words(&program);
        Script { program, row_words, strings, events: Batch::default() }
    }

    /// Appends an event. Panics: if it is none of the program's.
    pub fn push(&mut self, relation: RelationId, row: &[u64], weight: i64) {
        let pushed = self.events.push(&self.row_words, relation, row, weight);
        pushed.expect("an event of the program");
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Loads the program into a cell, with all strings under their numbers.
    ///
    /// Errors: the cell's; [`CellError::Down`] if the cell gives strings other numbers.
    pub fn load(&self, cell: &mut Cell) -> Result<(), CellError> {
        cell.load(&self.program)?;
        for (number, text) in self.strings.iter().enumerate() {
            if cell.intern(&[text])? != [number as i64] {
                let problem = format!("string {number} has another number in the cell");
                return Err(CellError::Down(Fault::Protocol(problem)));
            }
        }
        Ok(())
    }

    /// A run of events, in batches.
    pub fn batches(&self, range: Range<usize>) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let events = Events::new(self.events.words(), &self.row_words);
        for (relation, row, weight) in events.skip(range.start).take(range.len()) {
            if batches.last().is_none_or(|last| last.len() == BATCH_EVENTS) {
                batches.push(Batch::default());
            }
            let last = batches.last_mut().expect("one has been pushed");
            last.push(&self.row_words, relation, row, weight).expect("an event of the program");
        }
        batches
    }
}
