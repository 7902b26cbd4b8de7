//! Notifies waiting tasks of changes, within this process. Tasks poll for the changes of other replicas, so
//! notifications affect latency only.
//!
//! Each notified task queries the database, so notify only the tasks that the change concerns: with hundreds of workers
//! waiting for an offer, a change within a job must not wake them all. To add a channel: add a `subscribe_*` method for
//! the tasks that need these changes, and send to it from each `notify*` method whose changes concern them. In case of
//! doubt, [`ChangeNotifier::notify`] is correct.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use undertone_api::id::JobId;

/// The number of channels for jobs. Two jobs may share one; then some tasks query once without need.
const JOBS: usize = 64;

/// The channels of notifications.
#[derive(Clone)]
pub struct ChangeNotifier(Arc<ChangeChannels>);

struct ChangeChannels {
    /// Notifies streams that show a consortium.
    displayed: watch::Sender<()>,
    /// Notifies streams that show a job.
    displayed_jobs: [watch::Sender<()>; JOBS],
    /// Notifies workers that wait for an offer.
    offers: watch::Sender<()>,
    /// Notifies tasks that wait for a round, a file or answers of a job.
    jobs: [watch::Sender<()>; JOBS],
    /// Notifies streams whose caller may have lost access.
    standings: watch::Sender<()>,
}

/// A subscriber, which receives every notification after its creation.
pub struct ChangeSubscription(watch::Receiver<()>);

impl ChangeNotifier {
    /// Makes channels without subscribers.
    pub fn new() -> Self {
        let channel = || watch::Sender::new(());
        Self(Arc::new(ChangeChannels {
            displayed: channel(),
            displayed_jobs: std::array::from_fn(|_| channel()),
            offers: channel(),
            jobs: std::array::from_fn(|_| channel()),
            standings: channel(),
        }))
    }

    /// Announces a change that may concern any task: a new offer, or the state of a job.
    pub fn notify(&self) {
        self.0.offers.send_replace(());
        for channel in &self.0.jobs {
            channel.send_replace(());
        }
        self.notify_display();
    }

    /// Announces a change within a job: a vector, a round, a file, a question. Workers that wait for an offer are not
    /// notified.
    pub fn notify_job(&self, job: JobId) {
        self.0.jobs[channel_index(job)].send_replace(());
        self.notify_job_display(job);
    }

    /// Announces a change that is only displayed, possibly with any job. Tasks that wait for work or for a round are
    /// not notified.
    pub fn notify_display(&self) {
        self.0.displayed.send_replace(());
        for channel in &self.0.displayed_jobs {
            channel.send_replace(());
        }
    }

    /// Announces a displayed change of one job: a line of its log, a figure. Streams of other jobs are not notified.
    pub fn notify_job_display(&self, job: JobId) {
        self.0.displayed.send_replace(());
        self.0.displayed_jobs[channel_index(job)].send_replace(());
    }

    /// Subscribes to every change. Subscribe before querying, so that no change is missed.
    pub fn subscribe(&self) -> ChangeSubscription {
        ChangeSubscription(self.0.displayed.subscribe())
    }

    /// Subscribes to changes of the work within a job.
    pub fn subscribe_to_job(&self, job: JobId) -> ChangeSubscription {
        ChangeSubscription(self.0.jobs[channel_index(job)].subscribe())
    }

    /// Subscribes to displayed changes of a job.
    pub fn subscribe_to_job_display(&self, job: JobId) -> ChangeSubscription {
        ChangeSubscription(self.0.displayed_jobs[channel_index(job)].subscribe())
    }

    /// Subscribes to changes that may create an offer.
    pub fn subscribe_to_offers(&self) -> ChangeSubscription {
        ChangeSubscription(self.0.offers.subscribe())
    }

    /// Announces that a session, a key or a role has ended: each stream checks its caller at once.
    pub fn notify_standings(&self) {
        self.0.standings.send_replace(());
        self.notify_display();
    }

    /// Subscribes to changes of sessions, keys and roles.
    pub fn subscribe_to_standings(&self) -> ChangeSubscription {
        ChangeSubscription(self.0.standings.subscribe())
    }
}

/// Returns the index of a job's channel. The low bits of an id are random.
const fn channel_index(job: JobId) -> usize {
    (job.0.as_u128() % JOBS as u128) as usize
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        Self::new()
    }
}

impl ChangeSubscription {
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

    use super::{ChangeNotifier, ChangeSubscription};

    fn is_notified(waiter: &ChangeSubscription) -> bool {
        waiter.0.has_changed().expect("the channels are open")
    }

    #[test]
    fn change_notifies_only_the_tasks_it_concerns() {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let notified_tasks = |notify: fn(&ChangeNotifier, JobId)| {
            let notifier = ChangeNotifier::new();
            let waiters = [
                notifier.subscribe(),
                notifier.subscribe_to_offers(),
                notifier.subscribe_to_job(one),
                notifier.subscribe_to_job(other),
                notifier.subscribe_to_job_display(one),
                notifier.subscribe_to_job_display(other),
            ];
            notify(&notifier, one);
            waiters.map(|waiter| is_notified(&waiter))
        };
        assert_eq!(notified_tasks(|notifier, _| notifier.notify()), [true, true, true, true, true, true]);
        assert_eq!(notified_tasks(ChangeNotifier::notify_job), [true, false, true, false, true, false]);
        assert_eq!(notified_tasks(|notifier, _| notifier.notify_display()), [true, false, false, false, true, true]);
        assert_eq!(notified_tasks(ChangeNotifier::notify_job_display), [true, false, false, false, true, false]);
    }

    #[tokio::test]
    async fn notification_before_the_wait_ends_it() {
        let notifier = ChangeNotifier::new();
        let mut waiter = notifier.subscribe_to_offers();
        notifier.notify();
        waiter.wait(Duration::MAX).await;
        assert!(!is_notified(&waiter));
    }
}
