//! DO: the statements of a block, as one unit.

use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::syntax::DoBlock;
use halcyon_sql::utility::Modes;

use crate::session::Session;

/// The savepoint that a block goes back to, which no statement can name.
const BEGINNING: &str = "\u{1}do";

impl Session {
    /// Runs a block, in a transaction of its own if none is in progress. An error undoes all of it, and ends
    /// there if the block passes it over.
    ///
    /// Errors: those of the statements, and of COMMIT.
    pub(crate) fn run_block(&mut self, block: &DoBlock) -> Result<()> {
        let own = self.block.is_none();
        if own {
            self.start(Modes::default());
        }
        self.savepoint(BEGINNING)?;
        let ran = block.statements.iter().try_for_each(|text| self.run_in_block(text));
        let ran = match ran {
            Ok(()) => self.release(BEGINNING),
            Err(error) => self.end_failed(error, block),
        };
        match (ran, own) {
            (Ok(()), true) => self.finish_commit(),
            (Ok(()), false) => Ok(()),
            (Err(error), true) => {
                self.rollback_block();
                Err(error)
            }
            (Err(error), false) => {
                self.fail_transaction();
                Err(error)
            }
        }
    }

    fn run_in_block(&mut self, text: &str) -> Result<()> {
        let ran = self.execute(text, &[]);
        let context = || format!("SQL statement \"{text}\"");
        // A position would count in the statement's text, which the client does not have.
        ran.map(|_| ()).map_err(|error| error.without_position().context(context()))
    }

    /// Goes back to where the block began, if the transaction is still there.
    fn end_failed(&mut self, error: SqlError, block: &DoBlock) -> Result<()> {
        self.rollback_to(BEGINNING)?;
        self.release(BEGINNING)?;
        match block.passes_over(error.state()) {
            true => Ok(()),
            false => Err(error),
        }
    }
}
