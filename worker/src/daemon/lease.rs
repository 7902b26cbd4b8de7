//! A lease: the right to work on one participant's part, until the server ends it.

use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use undertone_api::problem::Code;

use crate::gateway::{Gateway, Patience};

/// The shortest time between renewals.
const SHORTEST: Duration = Duration::from_millis(500);

/// The reason for the end of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The job is over, according to the server.
    Over(String),
    /// Another process works on it.
    Lost(String),
}

/// A lease and its state.
#[derive(Debug)]
pub(super) struct Lease {
    token: watch::Sender<String>,
    /// The number of confirmations by the server.
    renewed: watch::Sender<u64>,
    /// Cancelled when the run has to stop, for any reason.
    pub(super) stop: CancellationToken,
    /// Cancelled when the worker has to stop. A wait for a tick of the release clock continues after the end of the
    /// lease alone: the time at which a run learns of that depends on its computation.
    pub(super) shutdown: CancellationToken,
    end: OnceLock<End>,
    doubt: Notify,
    time: RwLock<Duration>,
}

impl Lease {
    pub(super) fn new(token: String, stop: CancellationToken) -> Self {
        let (token, renewed) = (watch::Sender::new(token), watch::Sender::new(0));
        let time = RwLock::new(Duration::from_secs(30));
        let shutdown = stop.clone();
        Self { token, renewed, stop, shutdown, end: OnceLock::new(), doubt: Notify::new(), time }
    }

    /// Sets the token that is cancelled when the worker has to stop.
    pub(super) fn with_shutdown(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    /// Returns the current fencing token.
    pub(super) fn token(&self) -> String {
        self.token.borrow().clone()
    }

    /// Adopts a later lease of the same part.
    pub(super) fn replace(&self, token: String) {
        self.token.send_replace(token);
    }

    /// Returns its end; `None` before the end, or when the daemon stops.
    pub(super) fn end(&self) -> Option<&End> {
        self.end.get()
    }

    /// Returns the reason why the run has to stop.
    pub(super) fn reason(&self) -> String {
        match self.end() {
            Some(End::Over(reason) | End::Lost(reason)) => reason.clone(),
            None => "the worker is being stopped".to_owned(),
        }
    }

    fn close(&self, end: End) {
        // The first reason remains.
        let _ = self.end.set(end);
        self.stop.cancel();
    }

    /// Ends the lease at this site: the part stops and may be offered again.
    pub(super) fn put_down(&self, reason: String) {
        self.close(End::Lost(reason));
    }

    /// Waits after the server rejected `token`. Returns true when a later token is in force, or the same one is valid
    /// again after a short pause of the job. Then the call can be repeated, after the shortest pause. Returns false
    /// when the run has to stop.
    pub(super) async fn holds_after(&self, token: &str) -> bool {
        let (mut changes, mut renewals) = (self.token.subscribe(), self.renewed.subscribe());
        self.doubt.notify_one();
        tokio::select! {
            changed = changes.wait_for(|now| now != token) => return changed.is_ok(),
            renewed = renewals.changed() => if renewed.is_err() { return false },
            () = self.stop.cancelled() => return false,
        }
        // If the renewal began before the rejection, the repeated call is rejected again, and waits again.
        tokio::select! {
            () = tokio::time::sleep(SHORTEST) => true,
            () = self.stop.cancelled() => false,
        }
    }

    /// Renews the lease until it ends or the daemon stops.
    pub(super) async fn keep(&self, gateway: &Gateway, time: Duration) {
        *self.time.write().unwrap_or_else(PoisonError::into_inner) = time;
        while !self.stop.is_cancelled() {
            let pause = (*self.time.read().unwrap_or_else(PoisonError::into_inner) / 3).max(SHORTEST);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.doubt.notified() => {}
                () = self.stop.cancelled() => return,
            }
            let token = self.token();
            let renewed = Patience::default().keep_trying("renew", &self.stop, || gateway.renew(&token)).await;
            match renewed {
                None => return,
                Some(Ok(renewal)) if renewal.go_on => {
                    *self.time.write().unwrap_or_else(PoisonError::into_inner) = renewal.lease_time;
                    self.renewed.send_modify(|times| *times += 1);
                }
                Some(Ok(renewal)) => self.close(End::Over(renewal.reason)),
                // A later lease arrived in between.
                Some(Err(_)) if self.token() != token => {}
                Some(Err(error)) if error.code() == Some(Code::LeaseLost) => self.close(End::Lost(error.to_string())),
                Some(Err(error)) => {
                    tracing::warn!(error = %error, "a lease could not be renewed");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::{End, Lease};

    #[tokio::test]
    async fn a_later_lease_lets_the_run_go_on() {
        let lease = Lease::new("first".to_owned(), CancellationToken::new());
        lease.replace("second".to_owned());
        assert!(lease.holds_after("first").await);
        assert_eq!(lease.token(), "second");
    }

    #[tokio::test]
    async fn the_first_reason_to_stop_is_the_reason() {
        let lease = Lease::new("first".to_owned(), CancellationToken::new());
        lease.close(End::Over("cancelled".to_owned()));
        lease.close(End::Lost("lost".to_owned()));
        assert!(!lease.holds_after("first").await && lease.stop.is_cancelled());
        assert_eq!(lease.reason(), "cancelled");
    }
}
