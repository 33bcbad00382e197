//! Aggregates as window functions, which look whether their statement is to end.
//!
//! DataFusion evaluates an aggregate once for every row of a partition, in a loop that neither yields nor looks:
//! a frame of a hundred thousand rows, or a median over all that came before, takes minutes. And `array_agg` and
//! `string_agg` give a value for each row that is as large as all rows before.
//!
//! Cost: a look at a thread-local word per call of the accumulator.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use halcyon_sql::diagnose::external;
use halcyon_sql::error::SqlError;

/// Aggregates whose values grow with the rows before.
const GATHERING: [&str; 2] = ["array_agg", "string_agg"];

/// An accumulator of the aggregate `name` that ends with its statement (57014, 53200).
pub(crate) fn watched(inner: Box<dyn Accumulator>, name: &str) -> Box<dyn Accumulator> {
    Box::new(Watched { inner, gathers: GATHERING.contains(&name) })
}

#[derive(Debug)]
struct Watched {
    inner: Box<dyn Accumulator>,
    /// Whether values are as large as what was taken in.
    gathers: bool,
}

fn go_on() -> Result<()> {
    SqlError::unless_interrupted().map_err(external)
}

impl Accumulator for Watched {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        go_on()?;
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        go_on()?;
        if self.gathers {
            SqlError::unless_refused(self.inner.size() as u64).map_err(external)?;
        }
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        go_on()?;
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use halcyon_base::memory::{Account, Work};

    use super::*;

    #[derive(Debug)]
    struct Sum(i64);

    impl Accumulator for Sum {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            self.0 += values.len() as i64;
            Ok(())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::Int64(Some(self.0)))
        }

        fn size(&self) -> usize {
            1 << 40
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(Vec::new())
        }

        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_ended_work_ends_its_windows() {
        let mut sum = watched(Box::new(Sum(0)), "sum");
        let values: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![1]))];
        let account = Account::new();
        let work = Work::of(account.id());
        let _entered = work.id().enter();
        assert!(sum.update_batch(&values).is_ok() && sum.evaluate().is_ok());
        drop(work);
        assert!(sum.update_batch(&values).is_err() && sum.evaluate().is_err());
    }

    #[test]
    fn values_that_gather_ask_for_their_memory() {
        let account = Account::new();
        account.begin(
            halcyon_base::memory::Limits { total: i64::MAX, statement: 1 << 30, class: None },
            false,
        );
        let _entered = account.id().enter();
        assert!(watched(Box::new(Sum(0)), "sum").evaluate().is_ok());
        assert!(watched(Box::new(Sum(0)), "array_agg").evaluate().is_err());
    }
}
