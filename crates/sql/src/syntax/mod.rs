//! Statements as plain data: what a text says, before anybody asks what exists.
//!
//! A text becomes a [`Statement`] once, in `parse()`, and binding matches on it once. What the
//! SQL parser has a tree for stays its tree; everything else has a type of ours here, grouped by
//! the layer that carries it out. Names are as they were written ([`crate::identifier`] folds them), queries
//! and expressions within our statements are trees of the SQL parser.
//!
//! `grammar` has the table of our statements, `reader` the tokens that they are read from.
//!
//! **Invariant**, checked by `cargo xtask check layers`: nothing here knows of catalog, plans or
//! settings. It needs the SQL parser, [`crate::error`] and the dialect of `postgresql`.

mod alter_view;
mod balance;
mod collation;
mod comment;
mod constraint_words;
mod copy;
mod cursor;
mod ddl;
mod depth;
mod do_block;
mod elements;
mod errors;
mod grammar;
mod identity;
mod identity_order;
mod limits;
mod materialized;
mod merged_alias;
mod moves;
mod other_forms;
mod owned;
mod reader;
mod rows_from;
mod search_cycle;
mod sequence_options;
mod session;
mod spellings;
mod table_forms;
#[cfg(test)]
mod tests;
mod types;
mod upkeep;
mod view;
mod view_options;
mod words;
mod workload;

use std::fmt;

use datafusion::sql::sqlparser::ast;

pub use alter_view::ViewChange;
pub use balance::joined as balanced_chain;
pub use collation::CollationStatement;
pub use comment::{CommentOn, Commented};
pub use constraint_words::set_on_delete;
pub use copy::{Filtered, HEADER_MATCH};
pub use cursor::{CursorStatement, DeclareCursor, Step};
pub use ddl::{CreateRole, DdlStatement, RelationKind, RoleKind};
pub use do_block::{Condition, DoBlock};
pub use elements::assigned_element;
pub use errors::{DEPTH_MAX, NESTING_MAX, position_of};
pub(crate) use errors::{Lines, at, from_tokenizer, too_deep};
pub(crate) use grammar::parse;
pub use identity::{AlterIdentities, IdentityChange, TableChange};
pub use identity_order::named_sequence;
pub use limits::TIES;
pub use materialized::{CreateMaterializedView, ViewCell, ViewExecutor, ViewOptions, ViewPlace};
pub use merged_alias::merged_alias;
pub use moves::MoveTo;
pub use owned::{OwnedStatement, RightsChange};
pub use rows_from::ROWS_FROM;
pub use search_cycle::{Cycle, Search, search_and_cycle};
pub use sequence_options::SequenceOptions;
pub use session::{Discarded, SessionStatement, SystemChange};
pub(crate) use spellings::INFERENCE;
pub use spellings::{
    MERGE_DEFAULTS, MERGE_NOTHING, Overriding, SIMILAR, SYMMETRIC, TYPE_COLLATION, VARIADIC,
    is_mark_of_unique, is_unique_with_null,
};
pub use table_forms::{
    ALTERED_KEY, DROP_EXPRESSION, Like, PASSED_OVER, executed, is_executed, is_without_data,
};
pub use types::{Side as LabelSide, TypeChange, TypeStatement};
pub use upkeep::{Upkeep, UpkeepObject, UpkeepVerb};
pub use view::{CopyOrders, Explained, Side, ViewStatement};
pub(crate) use words::is_word;
pub use workload::{RuleAction, WorkloadChange, WorkloadKind, WorkloadSettings, WorkloadStatement};

/// One statement of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// What the SQL parser has a tree for.
    Sql(Box<ast::Statement>),
    /// About the session or the whole database: CHECKPOINT, EXPORT, ALTER SYSTEM, PREPARE, ….
    Session(Box<SessionStatement>),
    /// Definitions: streams, assertions, roles, ALTER SEQUENCE, ….
    Ddl(Box<DdlStatement>),
    /// About a materialized view: SUBSCRIBE, EXPLAIN MAINTENANCE, EXPLAIN (TRIGGERS).
    View(Box<ViewStatement>),
    /// COPY … (FORMAT orderbook).
    CopyOrders(Box<CopyOrders>),
}

impl Statement {
    /// The query, if the statement is nothing else.
    pub fn into_query(self) -> Option<Box<ast::Query>> {
        match self {
            Statement::Sql(statement) => match *statement {
                ast::Statement::Query(query) => Some(query),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Sql(statement) => statement.fmt(f),
            Statement::Session(statement) => statement.fmt(f),
            Statement::Ddl(statement) => statement.fmt(f),
            Statement::View(statement) => statement.fmt(f),
            Statement::CopyOrders(statement) => statement.fmt(f),
        }
    }
}

/// Things as a list of SQL.
fn with_commas(things: &[impl fmt::Display]) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
