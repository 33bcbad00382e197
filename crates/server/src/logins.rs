//! Logins of clients that speak another protocol than the wire's: a role and its password, judged by the
//! wire's rules and delays, in one count of connections with the wire's clients.
//!
//! A password that arrives as text is compared with the role's SCRAM verifier: the server derives the keys
//! that a client of the wire would derive. Over the wire no password ever arrives.

use std::net::IpAddr;
use std::sync::Arc;

use halcyon::{SqlError, SqlState};
use tokio::sync::Semaphore;

use crate::antechamber::Place;
use crate::config::is_loopback;
use crate::scram::Verifier;
use crate::shared::Shared;

/// Passwords that are judged at once.
const JUDGED_AT_ONCE: usize = 4;

/// Logins beside the wire; a clone shares the wire's memory of wrong passwords.
#[derive(Clone)]
pub struct Logins {
    shared: Arc<Shared>,
    /// Places for passwords that are judged at once: each costs milliseconds of a processor.
    judging: Arc<Semaphore>,
}

/// A place among the server's connections; dropping it gives it back.
pub struct Seat(#[allow(dead_code)] Place); // held for its drop

impl Logins {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Logins { shared, judging: Arc::new(Semaphore::new(JUDGED_AT_ONCE)) }
    }

    /// Whether a client at `peer` may act as `role` without a password: a role without one, a client of this
    /// machine, and a server that was given no password.
    pub fn trusts(&self, role: &str, peer: IpAddr) -> bool {
        trusts(&self.shared, role, peer)
    }

    /// Verifies that a client at `peer` may act as `role`. Sleeps first if wrong passwords came before, then
    /// computes on a thread for blocking work.
    ///
    /// `secure`: whether the client came over TLS. Errors: 28P01 for a wrong password, 28000 over an open
    /// network. Whether the role exists is not told apart.
    pub async fn judge(
        &self,
        role: &str,
        password: &str,
        peer: IpAddr,
        secure: bool,
    ) -> Result<(), SqlError> {
        let (shared, peer) = (&self.shared, peer.to_canonical());
        refuse_open_network(peer, secure)?;
        if trusts(shared, role, peer) {
            return Ok(());
        }
        let kept = shared.db.password_verifier(role);
        let genuine = kept.as_deref().and_then(Verifier::parse);
        let verifier = genuine.unwrap_or_else(|| Verifier::made_up(role, &shared.scram_secret));
        tokio::time::sleep(shared.failures.delay(peer, role)).await;
        // The semaphore is never closed.
        let _judging = self.judging.acquire().await;
        let password = password.to_owned();
        let fits = tokio::task::spawn_blocking(move || verifier.fits(&password)).await;
        if fits.unwrap_or(false) {
            shared.failures.right(peer, role);
            return Ok(());
        }
        shared.failures.wrong(peer, role);
        Err(wrong_password(role))
    }

    /// Takes one of the server's places for connections. Errors: 53300 if there is none for `role`.
    pub fn take_seat(&self, role: &str) -> Result<Seat, SqlError> {
        self.shared.places.take(self.shared.db.is_superuser(role)).map(Seat)
    }

    /// What has become of the statements that are sent as traces; `None`: none are.
    pub fn traces(&self) -> Option<halcyon_traces::Counts> {
        self.shared.tracer.as_ref().map(|tracer| tracer.counts())
    }

    /// How many of the server's places are taken, and how many there are.
    pub fn seats(&self) -> (usize, usize) {
        (self.shared.places.taken(), self.shared.config.connections_max)
    }
}

/// Whether a client at `peer` may act as `role` without a password.
pub(crate) fn trusts(shared: &Shared, role: &str, peer: IpAddr) -> bool {
    let asks_nobody = shared.config.password.is_none();
    is_loopback(peer) && asks_nobody && shared.db.password_verifier(role).is_none()
}

/// 28000 for a client of another machine without TLS.
pub(crate) fn refuse_open_network(peer: IpAddr, secure: bool) -> Result<(), SqlError> {
    match secure || is_loopback(peer) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "connections from other machines must use TLS",
        )),
    }
}

/// 28P01: a wrong password, or no such role.
pub(crate) fn wrong_password(role: &str) -> SqlError {
    let message = format!("password authentication failed for user \"{role}\"");
    SqlError::new(SqlState::INVALID_PASSWORD, message)
}
