//! COPY.
use crate::bind::Binder;
use crate::error::Result;
use crate::parse::Parsed;
use crate::rows::ResultColumn;
use crate::types::SqlType;
use std::sync::Arc;
/// A bound COPY.
pub enum CopyPlan {}
/// What the binder learns.
pub struct BoundCopy {
    /// The plan.
    pub plan: CopyPlan,
    /// Columns.
    pub columns: Arc<[ResultColumn]>,
}
/// Binds COPY.
pub fn bind(_: &Binder<'_>, _: &Parsed<'_>, _: &[Option<SqlType>]) -> Result<Option<BoundCopy>> {
    Ok(None)
}
