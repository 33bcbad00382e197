//! DECLARE, FETCH, MOVE and CLOSE as a session runs them.

use std::sync::Arc;
use std::time::Duration;

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::rows::{ResultColumn, RowSet};
use halcyon_sql::syntax::{DeclareCursor, Step};
use halcyon_sql::types::SqlType;
use halcyon_store::Value;

use crate::cursor::{Cursor, IdleLimit};
use crate::outcome::{Outcome, Tag};
use crate::rows::Rows;
use crate::session::Session;

impl Session {
    /// DECLARE. `params`: the parameters of the cursor's query, of the given types.
    ///
    /// Errors: 25P01 without HOLD outside blocks, 42P03 if a cursor of this name exists; those of
    /// the query.
    pub(crate) fn declare(
        &mut self,
        declare: &DeclareCursor,
        types: &[SqlType],
        params: &[Value],
    ) -> Result<()> {
        if self.block.is_none() && !declare.holds {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        let name = halcyon_sql::identifier::fold(&declare.name);
        if self.cursors.by_name.contains_key(&name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        let types: Vec<_> = types.iter().copied().map(Some).collect();
        let statement = self.prepare_typed(&declare.query, &types)?;
        let rows = self.query(&statement, params)?;
        let of_block = self.block.is_some();
        let mut cursor = Cursor::new(rows, declare, of_block, self.idle_limit());
        if !of_block {
            cursor.keep_rest()?;
        }
        self.cursors.open(name, cursor);
        Ok(())
    }

    /// FETCH and MOVE. Errors: 34000 if no such cursor exists, 55000 if one failed before; those of
    /// [`crate::cursor::Cursor::go`].
    pub(crate) fn fetch(&mut self, name: &str, step: Step, moves_only: bool) -> Result<Outcome> {
        let cursor = self.cursors.by_name.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let columns = cursor.columns().clone();
        let mut out = RowSet::new(columns.len());
        let went = cursor.go(name, step, (!moves_only).then_some(&mut out));
        let went = went.inspect_err(|_| self.fail_transaction())?;
        let rows = Rows::from_set(columns, out);
        Ok(match moves_only {
            true => Outcome::Done(Tag::counted("MOVE", went)),
            false => Outcome::Rows { rows, tag: "FETCH", written: None },
        })
    }

    /// Returns the next rows of a cursor, at most `rows_max`, as FETCH does.
    ///
    /// Errors: 34000 if no such cursor exists; those of its query.
    pub fn fetch_cursor(&mut self, name: &str, rows_max: Option<u64>) -> Result<Outcome> {
        let count = rows_max.and_then(|rows| i64::try_from(rows).ok());
        self.fetch(name, count.map_or(Step::ToEnd, Step::By), false)
    }

    /// Whether any cursor is open.
    #[inline]
    pub fn has_cursors(&self) -> bool {
        !self.cursors.by_name.is_empty()
    }

    /// How long a result of the class of the statement that was run last may lie unread; `None`: for ever.
    pub fn idle_limit(&self) -> Option<IdleLimit> {
        self.class.limits.idle_cursor_lifetime.map(IdleLimit::new)
    }

    /// Closes cursors that have lain unread for longer than the class of their query allows, with a warning (01000)
    /// each; returns how long no other one is due. Statements do so before they begin; a server, while its client is
    /// silent.
    pub fn close_idle_cursors(&mut self) -> Option<Duration> {
        if !self.has_cursors() {
            return None;
        }
        for name in self.cursors.close_idle() {
            self.warn_of_idle_cursor(&name);
        }
        self.cursors.idle_left()
    }

    /// Warns the client that a cursor or portal has been closed because nobody read it.
    pub fn warn_of_idle_cursor(&mut self, name: &str) {
        let message =
            format!("cursor \"{name}\" was closed because nobody had read it for too long");
        let hint = "The workload class of its query has an IDLE CURSOR LIFETIME.";
        self.notice(SqlError::new(SqlState::WARNING, message).hint(hint));
    }

    /// The columns of a cursor; `None` if no cursor has this name.
    pub fn cursor_columns(&self, name: &str) -> Option<Arc<[ResultColumn]>> {
        self.cursors.by_name.get(name).map(|cursor| cursor.columns().clone())
    }

    /// CLOSE, and CLOSE ALL without a name. Errors: 34000 if no such cursor exists.
    pub fn close_cursor(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.cursors.close_all(),
            Some(name) if !self.cursors.close(name) => return Err(no_cursor(name)),
            Some(_) => {}
        }
        Ok(())
    }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use halcyon_base::rng::Rng;

    fn numbers(outcome: Outcome) -> Vec<i64> {
        let Outcome::Rows { mut rows, .. } = outcome else { panic!("rows") };
        let mut seen = Vec::new();
        while let Some(row) = rows.next().expect("a row") {
            seen.push(row.get::<i64>(0).expect("a number"));
        }
        seen
    }

    /// PostgreSQL's FETCH over the numbers 1 to `len`: the rows, and the new position.
    fn model(len: i64, at: i64, step: Step) -> (Vec<i64>, i64) {
        let inside = |row: i64| (1..=len).contains(&row);
        let single = |row: i64| {
            let row = row.clamp(0, len + 1);
            (if inside(row) { vec![row] } else { Vec::new() }, row)
        };
        match step {
            Step::By(0) | Step::Relative(0) => single(at),
            Step::By(rows) if rows > 0 => {
                let end = at.saturating_add(rows).min(len + 1);
                ((at + 1..=end.min(len)).collect(), end)
            }
            Step::By(rows) => {
                let end = at.saturating_add(rows).max(0);
                ((end.max(1)..at).rev().collect(), end)
            }
            Step::ToEnd => ((at + 1..=len).collect(), len + 1),
            Step::ToBegin => ((1..at).rev().collect(), 0),
            Step::Absolute(row) if row >= 0 => single(row),
            Step::Absolute(row) => single(len + 1 + row),
            Step::Relative(rows) => single(at + rows),
        }
    }

    #[test]
    fn a_cursor_goes_where_a_list_would() {
        let mut session = Database::in_memory().session();
        session.batch("BEGIN").expect("a block");
        let mut random = Rng::new(7);
        for len in [0_i64, 1, 2, 7] {
            let text = format!("DECLARE c SCROLL CURSOR FOR SELECT generate_series(1, {len})");
            session.batch(&text).expect("a cursor");
            let mut at = 0;
            for _ in 0..200 {
                let amount = random.below(9) as i64 - 4;
                let step = match random.below(8) {
                    0..=2 => Step::By(amount),
                    3 => Step::ToEnd,
                    4 => Step::ToBegin,
                    5 | 6 => Step::Absolute(amount),
                    _ => Step::Relative(amount),
                };
                let (rows, after) = model(len, at, step);
                let seen = numbers(session.fetch("c", step, false).expect("it scrolls"));
                assert_eq!(seen, rows, "{step} from {at} of {len}");
                at = after;
            }
            session.batch("CLOSE c").expect("closed");
        }
    }

    #[test]
    fn a_cursor_without_scroll_goes_forward_alone() {
        let mut session = Database::in_memory().session();
        session.batch("BEGIN; DECLARE c CURSOR FOR VALUES (1), (2), (3)").expect("a cursor");
        session.execute("MOVE c", &[]).expect("forward");
        let refused = session.execute("FETCH PRIOR FROM c", &[]).expect_err("backward");
        assert_eq!(refused.state(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    }
}
