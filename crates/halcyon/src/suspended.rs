//! The state of a statement that has given its thread back while it waits: see [`crate::suspension`].

use halcyon_sql::rows::RowSet;
use halcyon_txn::DurableWait;

use crate::activity::Watch;
use crate::execute::Ran;
use crate::transaction::Work;
use crate::workload::InClass;
use halcyon_exec::deadline::Deadline;

/// A run of a statement, from its beginning to its end, whatever it waits for.
pub(crate) struct Run {
    /// Number of the transaction's wishes before the statement.
    pub wishes: usize,
    pub deadline: Option<Deadline>,
    pub watch: Watch,
    /// The statement's membership in its workload class; `None` if nobody asks.
    pub in_class: Option<InClass>,
}

/// A statement that has run, and ends when the log is durable.
pub(crate) struct Syncing {
    pub run: Run,
    pub ran: Ran,
    pub out: RowSet,
    pub wait: DurableWait,
}

/// A statement that stands in the queue of a lock, waits to be let in, or whose function waits.
#[derive(Default)]
pub(crate) struct Suspended {
    /// The run that goes on, once the session has put it here.
    pub run: Option<Run>,
    /// The statement's own transaction; `None` if it belongs to a block.
    pub work: Option<Work>,
}
