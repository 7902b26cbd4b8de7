//! A lease: the right to work on one participant's part, until the server ends it.

use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use undertone_api::problem::Code;

use crate::gateway::{Gateway, retry_call};

/// The shortest time between renewals.
const SHORTEST: Duration = Duration::from_millis(500);

/// The reason for the end of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeaseEnd {
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
    renewals: watch::Sender<u64>,
    /// Cancelled when the run has to stop, for any reason.
    pub(super) stop: CancellationToken,
    /// Cancelled when the worker has to stop. A wait for a tick of the release clock continues after the end of the
    /// lease alone: the time at which a run learns of that depends on its computation.
    pub(super) shutdown: CancellationToken,
    end: OnceLock<LeaseEnd>,
    doubt: Notify,
    time: RwLock<Duration>,
}

impl Lease {
    pub(super) fn new(token: String, stop: CancellationToken) -> Self {
        Self {
            token: watch::Sender::new(token),
            renewals: watch::Sender::new(0),
            shutdown: stop.clone(),
            stop,
            end: OnceLock::new(),
            doubt: Notify::new(),
            time: RwLock::new(Duration::from_secs(30)),
        }
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
    pub(super) fn end(&self) -> Option<&LeaseEnd> {
        self.end.get()
    }

    /// Returns the reason why the run has to stop.
    pub(super) fn reason(&self) -> String {
        match self.end() {
            Some(LeaseEnd::Over(reason) | LeaseEnd::Lost(reason)) => reason.clone(),
            None => "the worker is stopping".to_owned(),
        }
    }

    fn close(&self, end: LeaseEnd) {
        // The first reason remains.
        let _ = self.end.set(end);
        self.stop.cancel();
    }

    /// Ends the lease at this site: the part stops and may be offered again.
    pub(super) fn put_down(&self, reason: String) {
        self.close(LeaseEnd::Lost(reason));
    }

    /// Ends the part of this lease for good: it stops, settles, and reports its end.
    pub(super) fn end_for_good(&self, reason: String) {
        self.close(LeaseEnd::Over(reason));
    }

    /// Waits after the server rejected `token`. Returns true when a later token is in force, or the same one is valid
    /// again after a short pause of the job. Then the call can be repeated, after the shortest pause. Returns false
    /// when the run has to stop.
    pub(super) async fn wait_after_rejection(&self, token: &str) -> bool {
        let mut changes = self.token.subscribe();
        let mut renewals = self.renewals.subscribe();
        self.doubt.notify_one();
        tokio::select! {
            change = changes.wait_for(|now| now != token) => return change.is_ok(),
            renewal = renewals.changed() => if renewal.is_err() { return false },
            () = self.stop.cancelled() => return false,
        }
        // If the renewal began before the rejection, the repeated call is rejected again, and waits again.
        tokio::select! {
            () = tokio::time::sleep(SHORTEST) => true,
            () = self.stop.cancelled() => false,
        }
    }

    /// Renews the lease until it ends or the daemon stops.
    pub(super) async fn keep_alive(&self, gateway: &Gateway, time: Duration) {
        *self.time.write().unwrap_or_else(PoisonError::into_inner) = time;
        while !self.stop.is_cancelled() {
            let pause = (*self.time.read().unwrap_or_else(PoisonError::into_inner) / 3).max(SHORTEST);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.doubt.notified() => {}
                () = self.stop.cancelled() => return,
            }
            let token = self.token();
            let answer = retry_call("renew", &self.stop, || gateway.renew(&token)).await;
            match answer {
                None => return,
                Some(Ok(renewal)) if renewal.is_active => {
                    *self.time.write().unwrap_or_else(PoisonError::into_inner) = renewal.lease_time;
                    self.renewals.send_modify(|times| *times += 1);
                }
                Some(Ok(renewal)) => self.close(LeaseEnd::Over(renewal.reason)),
                // A later lease arrived in between.
                Some(Err(_)) if self.token() != token => {}
                Some(Err(error)) if error.code() == Some(Code::LeaseLost) => {
                    self.close(LeaseEnd::Lost(error.to_string()));
                }
                Some(Err(error)) => {
                    tracing::warn!(error = %error, "cannot renew a lease");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::{Lease, LeaseEnd};

    #[tokio::test]
    async fn later_lease_continues_the_run() {
        let lease = Lease::new("first".to_owned(), CancellationToken::new());
        lease.replace("second".to_owned());
        assert!(lease.wait_after_rejection("first").await);
        assert_eq!(lease.token(), "second");
    }

    #[tokio::test]
    async fn first_reason_to_stop_is_kept() {
        let lease = Lease::new("first".to_owned(), CancellationToken::new());
        lease.close(LeaseEnd::Over("cancelled".to_owned()));
        lease.close(LeaseEnd::Lost("lost".to_owned()));
        assert!(!lease.wait_after_rejection("first").await && lease.stop.is_cancelled());
        assert_eq!(lease.reason(), "cancelled");
    }
}
