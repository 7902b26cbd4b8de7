//! A lease: the right to work on one participant's part, as long as the server says so.

use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use undertone_api::problem::Code;

use crate::gateway::{Gateway, Patience};

/// Shortest time between renewals.
const SHORTEST: Duration = Duration::from_millis(500);

/// Why a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The job is over, by the server's word.
    Over(String),
    /// Somebody else works on it.
    Lost(String),
}

/// A lease and whether it still holds.
#[derive(Debug)]
pub(super) struct Lease {
    token: watch::Sender<String>,
    /// How often the server said that it holds.
    renewed: watch::Sender<u64>,
    /// Cancelled when the run has to stop, for whatever reason.
    pub(super) stop: CancellationToken,
    /// Cancelled when the worker has to stop. What waits for a tick of the release clock waits on when the lease alone ends, because how
    /// soon a run hears of that depends on what it computes.
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

    /// The same, with the token that is cancelled when the worker has to stop.
    pub(super) fn with_shutdown(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    /// The fencing token in force.
    pub(super) fn token(&self) -> String {
        self.token.borrow().clone()
    }

    /// Takes over a later lease of the same part.
    pub(super) fn replace(&self, token: String) {
        self.token.send_replace(token);
    }

    /// How it ended; `None` while it has not, or when the daemon stops.
    pub(super) fn end(&self) -> Option<&End> {
        self.end.get()
    }

    /// Why the run has to stop, in words.
    pub(super) fn reason(&self) -> String {
        match self.end() {
            Some(End::Over(reason) | End::Lost(reason)) => reason.clone(),
            None => "the worker is being stopped".to_owned(),
        }
    }

    fn close(&self, end: End) {
        // The first reason is the reason.
        let _ = self.end.set(end);
        self.stop.cancel();
    }

    /// Ends it here: the part is put down and may come back.
    pub(super) fn put_down(&self, reason: String) {
        self.close(End::Lost(reason));
    }

    /// A call was told that `token` does not hold. True when a later one is in force, or it holds again, because the job was paused
    /// for a moment only: then the call can be made again, after the shortest pause. False when the run has to stop.
    pub(super) async fn holds_after(&self, token: &str) -> bool {
        let (mut changes, mut renewals) = (self.token.subscribe(), self.renewed.subscribe());
        self.doubt.notify_one();
        tokio::select! {
            changed = changes.wait_for(|now| now != token) => return changed.is_ok(),
            renewed = renewals.changed() => if renewed.is_err() { return false },
            () = self.stop.cancelled() => return false,
        }
        // Should the renewal have been under way before the doubt, the call is told so again, and asks again.
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
                // A later lease came in between.
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
