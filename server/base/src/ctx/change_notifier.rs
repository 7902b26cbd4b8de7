//! Notifies waiting tasks of changes. Displayed changes of other replicas arrive through the database
//! (`service::change`); for other changes of theirs tasks poll, so notifications affect latency only.
//!
//! Each notified task queries the database, so notify only the tasks that the change concerns: with hundreds of workers
//! waiting for an offer, a change within a job must not wake them all. To add a channel: add a `subscribe_*` method for
//! the tasks that need these changes, and send to it from each `notify*` method whose changes concern them. In case of
//! doubt, [`ChangeNotifier::notify`] is correct.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use undertone_api::id::JobId;

/// The number of channels for jobs. Two jobs may share one; then some tasks query once without need.
const JOBS: usize = 64;
/// The displayed changes that a subscriber may be behind; one that is further behind takes the missed ones for its own.
const MOST_BEHIND: usize = 1024;

/// The channels of notifications.
#[derive(Clone)]
pub struct ChangeNotifier(Arc<ChangeChannels>);

struct ChangeChannels {
    /// Notifies streams that show a consortium.
    displayed: broadcast::Sender<DisplayedChange>,
    /// Notifies streams that show a job.
    displayed_jobs: [watch::Sender<()>; JOBS],
    /// Notifies workers that wait for an offer.
    offers: watch::Sender<()>,
    /// Notifies tasks that wait for a round, a file or answers of a job.
    jobs: [watch::Sender<()>; JOBS],
    /// Notifies streams whose caller may have lost access.
    standings: watch::Sender<()>,
    /// The number of these notifications.
    standing_changes: AtomicU64,
    /// The channels of jobs with displayed changes that the other replicas do not know yet, one bit each.
    unannounced_jobs: AtomicU64,
    /// Whether they do not know of a displayed change that may concern any job.
    is_unannounced: AtomicBool,
    /// Whether they do not know that a session, a key or a role has ended.
    are_standings_unannounced: AtomicBool,
}

/// The tasks that a displayed change concerns: what the replicas announce to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DisplayedChange {
    /// Streams of the jobs of this channel, and of their consortia.
    Jobs(u8),
    /// Every stream.
    Any,
    /// Every stream, and the rights of its caller.
    Standings,
}

impl DisplayedChange {
    /// Returns the number in the database.
    pub const fn number(self) -> i32 {
        match self {
            Self::Jobs(channel) => channel as i32,
            Self::Any => JOBS as i32,
            Self::Standings => JOBS as i32 + 1,
        }
    }

    /// Returns the change with a number of the database; an unknown number concerns every stream.
    pub fn from_number(number: i32) -> Self {
        match u8::try_from(number) {
            Ok(channel) if usize::from(channel) < JOBS => Self::Jobs(channel),
            _ if number == Self::Standings.number() => Self::Standings,
            _ => Self::Any,
        }
    }
}

/// The channels of some jobs, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobChannels(u64);

impl JobChannels {
    /// The channels of all jobs.
    pub const ALL: Self = Self(u64::MAX);

    const fn contains(self, channel: u8) -> bool {
        self.0 & (1 << channel) != 0
    }
}

impl FromIterator<JobId> for JobChannels {
    fn from_iter<T: IntoIterator<Item = JobId>>(jobs: T) -> Self {
        Self(jobs.into_iter().fold(0, |channels, job| channels | (1 << channel_index(job))))
    }
}

/// A subscriber, which receives every notification after its creation.
pub struct ChangeSubscription(watch::Receiver<()>);

/// A subscriber to displayed changes, which receives every one after its creation.
pub struct DisplaySubscription(broadcast::Receiver<DisplayedChange>);

impl ChangeNotifier {
    /// Makes channels without subscribers.
    pub fn new() -> Self {
        let channel = || watch::Sender::new(());
        Self(Arc::new(ChangeChannels {
            displayed: broadcast::channel(MOST_BEHIND).0,
            displayed_jobs: std::array::from_fn(|_| channel()),
            offers: channel(),
            jobs: std::array::from_fn(|_| channel()),
            standings: channel(),
            standing_changes: AtomicU64::new(0),
            unannounced_jobs: AtomicU64::new(0),
            is_unannounced: AtomicBool::new(false),
            are_standings_unannounced: AtomicBool::new(false),
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
        self.0.is_unannounced.store(true, Ordering::Release);
        self.display(DisplayedChange::Any);
    }

    /// Announces a displayed change of one job: a line of its log, a figure. Streams of other jobs are not notified.
    pub fn notify_job_display(&self, job: JobId) {
        let channel = channel_index(job);
        self.0.unannounced_jobs.fetch_or(1 << channel, Ordering::AcqRel);
        // There are 64 channels.
        self.display(DisplayedChange::Jobs(channel as u8));
    }

    /// Notifies the streams of this process of a change here or at another replica.
    pub fn display(&self, change: DisplayedChange) {
        if change == DisplayedChange::Standings {
            self.0.standing_changes.fetch_add(1, Ordering::AcqRel);
            self.0.standings.send_replace(());
        }
        // Without a subscriber there is nothing to notify.
        let _ = self.0.displayed.send(change);
        let channels = match change {
            DisplayedChange::Jobs(channel) => &self.0.displayed_jobs[usize::from(channel) % JOBS..][..1],
            DisplayedChange::Any | DisplayedChange::Standings => &self.0.displayed_jobs[..],
        };
        for channel in channels {
            channel.send_replace(());
        }
    }

    /// Returns the changes of this process that the other replicas do not know yet, in ascending order. The caller
    /// announces them, or gives them back with [`Self::return_unannounced`].
    pub fn take_unannounced(&self) -> Vec<DisplayedChange> {
        let any = self.0.is_unannounced.swap(false, Ordering::AcqRel);
        let jobs = JobChannels(self.0.unannounced_jobs.swap(0, Ordering::AcqRel));
        let jobs = (0..JOBS as u8).filter(|channel| jobs.contains(*channel)).map(DisplayedChange::Jobs);
        let standings = self.0.are_standings_unannounced.swap(false, Ordering::AcqRel);
        let standings = standings.then_some(DisplayedChange::Standings);
        jobs.chain(any.then_some(DisplayedChange::Any)).chain(standings).collect()
    }

    /// Gives back changes that could not be announced.
    pub fn return_unannounced(&self, changes: &[DisplayedChange]) {
        for change in changes {
            match change {
                DisplayedChange::Jobs(channel) => {
                    self.0.unannounced_jobs.fetch_or(1 << channel, Ordering::AcqRel);
                }
                DisplayedChange::Any => self.0.is_unannounced.store(true, Ordering::Release),
                DisplayedChange::Standings => self.0.are_standings_unannounced.store(true, Ordering::Release),
            }
        }
    }

    /// Subscribes to displayed changes. Subscribe before querying, so that no change is missed.
    pub fn subscribe_to_display(&self) -> DisplaySubscription {
        DisplaySubscription(self.0.displayed.subscribe())
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
        self.0.are_standings_unannounced.store(true, Ordering::Release);
        self.display(DisplayedChange::Standings);
    }

    /// Returns the number of announced changes of sessions, keys and roles, here and at other replicas.
    pub fn standing_changes(&self) -> u64 {
        self.0.standing_changes.load(Ordering::Acquire)
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

impl DisplaySubscription {
    /// Waits for the next change that may concern one of these jobs, but for at most `at_most`. All changes so far end
    /// one wait.
    pub async fn wait(&mut self, jobs: JobChannels, at_most: Duration) {
        let concerns = async {
            loop {
                match self.0.recv().await {
                    Ok(DisplayedChange::Jobs(channel)) if !jobs.contains(channel) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return,
                    // The notifier is gone, so no further change is announced.
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        if tokio::time::timeout(at_most, concerns).await.is_ok() {
            self.0 = self.0.resubscribe();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use undertone_api::id::JobId;
    use uuid::Uuid;

    use super::{ChangeNotifier, ChangeSubscription, DisplayedChange, JobChannels, MOST_BEHIND};

    fn is_notified(waiter: &ChangeSubscription) -> bool {
        waiter.0.has_changed().expect("the channels are open")
    }

    #[test]
    fn change_notifies_only_the_tasks_it_concerns() {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let notified_tasks = |notify: fn(&ChangeNotifier, JobId)| {
            let notifier = ChangeNotifier::new();
            let waiters = [
                notifier.subscribe_to_offers(),
                notifier.subscribe_to_job(one),
                notifier.subscribe_to_job(other),
                notifier.subscribe_to_job_display(one),
                notifier.subscribe_to_job_display(other),
            ];
            notify(&notifier, one);
            waiters.map(|waiter| is_notified(&waiter))
        };
        assert_eq!(notified_tasks(|notifier, _| notifier.notify()), [true, true, true, true, true]);
        assert_eq!(notified_tasks(ChangeNotifier::notify_job), [false, true, false, true, false]);
        assert_eq!(notified_tasks(|notifier, _| notifier.notify_display()), [false, false, false, true, true]);
        assert_eq!(notified_tasks(ChangeNotifier::notify_job_display), [false, false, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn display_is_notified_of_its_own_jobs_only() {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let ends_at_once = async |notify: &dyn Fn(&ChangeNotifier)| {
            let notifier = ChangeNotifier::new();
            let mut waiter = notifier.subscribe_to_display();
            let start = tokio::time::Instant::now();
            notify(&notifier);
            waiter.wait([one].into_iter().collect(), Duration::from_secs(30)).await;
            start.elapsed() == Duration::ZERO
        };
        assert!(ends_at_once(&|notifier| notifier.notify_job(one)).await);
        assert!(ends_at_once(&ChangeNotifier::notify_display).await);
        assert!(ends_at_once(&|notifier| notifier.display(DisplayedChange::Any)).await);
        assert!(!ends_at_once(&|notifier| notifier.notify_job_display(other)).await);
        assert!(!ends_at_once(&|_| ()).await);
        let overflow = |notifier: &ChangeNotifier| (0..=MOST_BEHIND).for_each(|_| notifier.notify_job(other));
        assert!(ends_at_once(&overflow).await, "missed changes may have concerned it");
    }

    #[test]
    fn changes_are_announced_once_or_given_back() {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let notifier = ChangeNotifier::new();
        assert_eq!(notifier.take_unannounced(), []);
        notifier.notify_job(other);
        notifier.notify_job_display(one);
        notifier.notify_job_display(one);
        notifier.notify_display();
        notifier.notify_standings();
        let changes =
            [DisplayedChange::Jobs(1), DisplayedChange::Jobs(2), DisplayedChange::Any, DisplayedChange::Standings];
        assert_eq!(notifier.take_unannounced(), changes);
        assert_eq!(notifier.take_unannounced(), []);
        notifier.return_unannounced(&changes);
        assert_eq!(notifier.take_unannounced(), changes);
        notifier.display(DisplayedChange::Jobs(1));
        assert_eq!(notifier.take_unannounced(), [], "another replica has announced it");
        assert_eq!(changes.map(|change| DisplayedChange::from_number(change.number())), changes);
        assert_eq!(DisplayedChange::from_number(-1), DisplayedChange::Any);
        let own: JobChannels = [one].into_iter().collect();
        assert!(JobChannels::ALL.contains(63) && own.contains(1) && !own.contains(2));
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
