//! Subscriptions: the changes of a materialized view, by whole transactions.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use halcyon::{RowDelta, SqlType, Value};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::{closed, told};
use crate::interrupt::LOOK;
use crate::values::object;

/// A subscription to a materialized view.
#[pyclass(frozen, module = "halcyon._halcyon")]
pub struct Subscription {
    following: Mutex<Option<halcyon::Subscription>>,
    names: Vec<String>,
    types: Vec<Option<SqlType>>,
}

impl Subscription {
    /// Subscribes with a session of its own.
    pub fn new(
        mut session: halcyon::Session,
        view: &str,
        position: Option<u64>,
    ) -> halcyon::Result<Self> {
        let quoted = view.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
        let select = format!("SELECT * FROM {}", quoted.collect::<Vec<_>>().join("."));
        let columns = session.prepare(&select)?.columns();
        let following = session.into_subscription(view, position)?;
        Ok(Subscription {
            following: Mutex::new(Some(following)),
            names: columns.iter().map(|column| column.name.clone()).collect(),
            types: columns.iter().map(|column| column.ty).collect(),
        })
    }

    fn row<'py>(&self, py: Python<'py>, row: Option<&[Value]>) -> PyResult<Bound<'py, PyAny>> {
        let Some(row) = row else { return Ok(py.None().into_bound(py)) };
        let values = row.iter().zip(&self.types).map(|(value, ty)| object(py, value.as_ref(), *ty));
        Ok(PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }
}

/// Position, and the rows as pairs of before and after.
type Changes<'py> = (u64, Bound<'py, PyList>);

#[pymethods]
impl Subscription {
    /// Names of the view's columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The changes of the next transaction: position, and for each row (before, after), with None for a row that was
    /// not there. None if none came within so many seconds.
    fn next<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Option<Changes<'py>>> {
        let wait = Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default();
        let until = Instant::now() + wait;
        let changes = loop {
            let left = until.saturating_duration_since(Instant::now());
            // Not longer at once: signals are looked at between, and others may close the subscription.
            let found = py.detach(|| {
                let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
                let following = following.as_mut().ok_or_else(|| closed("subscription"))?;
                following.next(left.min(LOOK))
            });
            match told(py, found)? {
                Some(changes) => break changes,
                None if left.is_zero() => return Ok(None),
                None => py.check_signals()?,
            }
        };
        let rows = PyList::empty(py);
        for RowDelta { old, new } in &changes.rows {
            rows.append((self.row(py, old.as_deref())?, self.row(py, new.as_deref())?))?;
        }
        Ok(Some((changes.position, rows)))
    }

    /// The position behind which another subscription would continue.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        let found = py.detach(|| {
            let following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
            following
                .as_ref()
                .map(halcyon::Subscription::position)
                .ok_or_else(|| closed("subscription"))
        });
        told(py, found)
    }

    /// Ends the subscription.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.following.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
