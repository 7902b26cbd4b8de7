//! Wakes those who wait for something to change, in this process. Another replica's changes are found by looking again
//! after a while, so nothing depends on it but speed.
//!
//! Whoever is woken looks into the database, so whom a bell wakes is what it costs: with hundreds of workers that wait for an
//! offer, what goes on within a job must not wake them all. To add a bell: whoever only looks at some changes listens to a part
//! of them; who rings says with the method how far it is heard, and [`Wake::ring`] is right when in doubt.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use undertone_api::id::JobId;

/// Bells for jobs. Two jobs may share one; then some look once in vain.
const JOBS: usize = 64;

/// The bells that those who wait hear.
#[derive(Clone)]
pub struct Wake(Arc<Bells>);

struct Bells {
    /// Heard by who watches a consortium.
    watched: watch::Sender<()>,
    /// Heard by who watches a job.
    watched_jobs: [watch::Sender<()>; JOBS],
    /// Heard by who waits for an offer.
    offers: watch::Sender<()>,
    /// Heard by who waits for a round, a file or answers of a job.
    jobs: [watch::Sender<()>; JOBS],
    /// Heard by streams whose caller may have lost access.
    standings: watch::Sender<()>,
}

/// Somebody who waits; hears every bell since it was made.
pub struct Waiter(watch::Receiver<()>);

impl Wake {
    /// Bells that nobody hears yet.
    pub fn new() -> Self {
        let bell = || watch::Sender::new(());
        Self(Arc::new(Bells {
            watched: bell(),
            watched_jobs: std::array::from_fn(|_| bell()),
            offers: bell(),
            jobs: std::array::from_fn(|_| bell()),
            standings: bell(),
        }))
    }

    /// Something has changed that may concern anybody: what is on offer, or how a job stands.
    pub fn ring(&self) {
        self.0.offers.send_replace(());
        for bell in &self.0.jobs {
            bell.send_replace(());
        }
        self.ring_watched();
    }

    /// Something has changed within a job: a vector, a round, a file, a question. Whoever waits for an offer hears nothing.
    pub fn ring_in(&self, job: JobId) {
        self.0.jobs[place_of(job)].send_replace(());
        self.ring_watched_in(job);
    }

    /// Something has changed that is only shown, and may be shown with any job. Who waits for work or for a round hears nothing.
    pub fn ring_watched(&self) {
        self.0.watched.send_replace(());
        for bell in &self.0.watched_jobs {
            bell.send_replace(());
        }
    }

    /// As [`Self::ring_watched`], of one job: a line of its log, a figure. Who watches another hears nothing.
    pub fn ring_watched_in(&self, job: JobId) {
        self.0.watched.send_replace(());
        self.0.watched_jobs[place_of(job)].send_replace(());
    }

    /// Begins to listen to every change. Make it before looking, so that no change falls in between.
    pub fn listen(&self) -> Waiter {
        Waiter(self.0.watched.subscribe())
    }

    /// As [`Self::listen`], to what concerns the work within a job.
    pub fn listen_in(&self, job: JobId) -> Waiter {
        Waiter(self.0.jobs[place_of(job)].subscribe())
    }

    /// As [`Self::listen`], to what is shown of a job.
    pub fn listen_to_shown(&self, job: JobId) -> Waiter {
        Waiter(self.0.watched_jobs[place_of(job)].subscribe())
    }

    /// As [`Self::listen`], to what may put something on offer.
    pub fn listen_for_offers(&self) -> Waiter {
        Waiter(self.0.offers.subscribe())
    }

    /// Announces that a session, a key or a role has ended: each stream checks its caller at once.
    pub fn ring_standings(&self) {
        self.0.standings.send_replace(());
        self.ring_watched();
    }

    /// Begins to listen to changes of sessions, keys and roles.
    pub fn listen_for_standings(&self) -> Waiter {
        Waiter(self.0.standings.subscribe())
    }
}

/// Returns which of the bells is a job's. The low bits of an id are random.
const fn place_of(job: JobId) -> usize {
    (job.0.as_u128() % JOBS as u128) as usize
}

impl Default for Wake {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiter {
    /// Returns whether something has changed since it began to listen.
    #[cfg(test)]
    pub(crate) fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or_default()
    }

    /// Returns at the next change.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The notifier is gone: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }

    /// Returns at the next change, or after `at_most`.
    pub async fn wait(&mut self, at_most: Duration) {
        // A bell that is gone never rings again: then the time passes.
        if let Ok(Err(_)) = tokio::time::timeout(at_most, self.0.changed()).await {
            tokio::time::sleep(at_most).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use undertone_api::id::JobId;
    use uuid::Uuid;

    use super::{Waiter, Wake};

    fn rang(waiter: &Waiter) -> bool {
        waiter.0.has_changed().expect("the bells hang")
    }

    #[test]
    fn a_bell_is_heard_as_far_as_it_is_rung() {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let heard = |ring: fn(&Wake, JobId)| {
            let wake = Wake::new();
            let who = [
                wake.listen(),
                wake.listen_for_offers(),
                wake.listen_in(one),
                wake.listen_in(other),
                wake.listen_to_shown(one),
                wake.listen_to_shown(other),
            ];
            ring(&wake, one);
            who.map(|waiter| rang(&waiter))
        };
        assert_eq!(heard(|wake, _| wake.ring()), [true, true, true, true, true, true]);
        assert_eq!(heard(Wake::ring_in), [true, false, true, false, true, false]);
        assert_eq!(heard(|wake, _| wake.ring_watched()), [true, false, false, false, true, true]);
        assert_eq!(heard(Wake::ring_watched_in), [true, false, false, false, true, false]);
    }

    #[tokio::test]
    async fn a_bell_that_rang_before_the_wait_ends_it() {
        let wake = Wake::new();
        let mut waiter = wake.listen_for_offers();
        wake.ring();
        waiter.wait(Duration::MAX).await;
        assert!(!rang(&waiter));
    }
}
