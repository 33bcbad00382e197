//! The effects that functions of the system catalogs have on the engine, beside reading its state.

use std::time::Duration;

use halcyon_sql::error::Result;

/// The key of an advisory lock: one number of 64 bits, or two of 32. The two kinds never collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdvisoryKey {
    /// `pg_advisory_lock(bigint)`.
    One(i64),
    /// `pg_advisory_lock(integer, integer)`.
    Two(i32, i32),
}

/// A request for an advisory lock.
pub type AdvisoryRequest = halcyon_txn::advisory::AdvisoryRequest<AdvisoryKey>;

/// The engine as functions with effects reach it: on the calling session and on others.
///
/// Methods run on threads of the executor. A change of the session's own state takes effect once
/// the session's statement has ended.
pub trait Effects {
    /// The channels that the session listens to.
    fn listening(&self) -> Vec<String> {
        Vec::new()
    }
    /// `set_config`: the value that the setting will have.
    ///
    /// Errors: 42704 unknown, 22023 not a value it takes, 55P02 not the session's.
    fn set_config(&self, name: &str, value: &str, local: bool) -> Result<String>;

    /// `pg_notify`. Errors: 22023 for a name or payload that is too long.
    fn notify(&self, channel: &str, payload: &str) -> Result<()>;

    /// `pg_cancel_backend`: whether there is such a session. Errors: 42501 if it is another role's.
    fn cancel(&self, session: u32) -> Result<bool>;

    /// `pg_terminate_backend`: whether there is such a session. Errors: 42501 if it is another role's.
    fn end(&self, session: u32) -> Result<bool>;

    /// `pg_sleep`. Errors: 57014 cancelled.
    fn sleep(&self, time: Duration) -> Result<()>;

    /// Takes an advisory lock; false if it would have to wait and is not to.
    ///
    /// Errors: 40P01, 57014, 55P03.
    fn lock(&self, request: AdvisoryRequest, waits: bool) -> Result<bool>;

    /// Gives an advisory lock of the session back; false if the session does not hold it.
    fn unlock(&self, key: AdvisoryKey, shared: bool) -> bool;

    /// Gives all advisory locks of the session back.
    fn unlock_all(&self);
}
