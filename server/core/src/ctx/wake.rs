//! Notifies waiting tasks of changes, within this process. Tasks poll for the changes of other replicas, so
//! notifications affect latency only.
//!
//! Each notified task queries the database, so notify only the tasks that the change concerns: with hundreds of workers
//! waiting for an offer, a change within a job must not wake them all. To add a channel: add a `listen_*` method for
//! the tasks that need these changes, and send to it from each `ring*` method whose changes concern them. In case of
//! doubt, [`Wake::ring`] is correct.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use undertone_api::id::JobId;

/// The number of channels for jobs. Two jobs may share one; then some tasks query once without need.
const JOBS: usize = 64;

/// The channels of notifications.
#[derive(Clone)]
pub struct Wake(Arc<Bells>);

struct Bells {
    /// Notifies streams that show a consortium.
    watched: watch::Sender<()>,
    /// Notifies streams that show a job.
    watched_jobs: [watch::Sender<()>; JOBS],
    /// Notifies workers that wait for an offer.
    offers: watch::Sender<()>,
    /// Notifies tasks that wait for a round, a file or answers of a job.
    jobs: [watch::Sender<()>; JOBS],
    /// Notifies streams whose caller may have lost access.
    standings: watch::Sender<()>,
}

/// A subscriber, which receives every notification after its creation.
pub struct Waiter(watch::Receiver<()>);

impl Wake {
    /// Makes channels without subscribers.
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

    /// Announces a change that may concern any task: a new offer, or the state of a job.
    pub fn ring(&self) {
        self.0.offers.send_replace(());
        for bell in &self.0.jobs {
            bell.send_replace(());
        }
        self.ring_watched();
    }

    /// Announces a change within a job: a vector, a round, a file, a question. Workers that wait for an offer are not
    /// notified.
    pub fn ring_in(&self, job: JobId) {
        self.0.jobs[place_of(job)].send_replace(());
        self.ring_watched_in(job);
    }

    /// Announces a change that is only displayed, possibly with any job. Tasks that wait for work or for a round are
    /// not notified.
    pub fn ring_watched(&self) {
        self.0.watched.send_replace(());
        for bell in &self.0.watched_jobs {
            bell.send_replace(());
        }
    }

    /// Announces a displayed change of one job: a line of its log, a figure. Streams of other jobs are not notified.
    pub fn ring_watched_in(&self, job: JobId) {
        self.0.watched.send_replace(());
        self.0.watched_jobs[place_of(job)].send_replace(());
    }

    /// Subscribes to every change. Subscribe before querying, so that no change is missed.
    pub fn listen(&self) -> Waiter {
        Waiter(self.0.watched.subscribe())
    }

    /// Subscribes to changes of the work within a job.
    pub fn listen_in(&self, job: JobId) -> Waiter {
        Waiter(self.0.jobs[place_of(job)].subscribe())
    }

    /// Subscribes to displayed changes of a job.
    pub fn listen_to_shown(&self, job: JobId) -> Waiter {
        Waiter(self.0.watched_jobs[place_of(job)].subscribe())
    }

    /// Subscribes to changes that may create an offer.
    pub fn listen_for_offers(&self) -> Waiter {
        Waiter(self.0.offers.subscribe())
    }

    /// Announces that a session, a key or a role has ended: each stream checks its caller at once.
    pub fn ring_standings(&self) {
        self.0.standings.send_replace(());
        self.ring_watched();
    }

    /// Subscribes to changes of sessions, keys and roles.
    pub fn listen_for_standings(&self) -> Waiter {
        Waiter(self.0.standings.subscribe())
    }
}

/// Returns the index of a job's channel. The low bits of an id are random.
const fn place_of(job: JobId) -> usize {
    (job.0.as_u128() % JOBS as u128) as usize
}

impl Default for Wake {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiter {
    /// Returns whether a change was announced since the subscription.
    #[cfg(any(test, feature = "testing"))]
    pub fn has_changed(&self) -> bool {
        self.0.has_changed().unwrap_or_default()
    }

    /// Waits for the next change.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The notifier is gone, so no further change is announced.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the next change, but for at most `at_most`.
    pub async fn wait(&mut self, at_most: Duration) {
        // A closed channel sends no more notifications; wait for the full time.
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
