//! The pages' requests about notifications of members and about the logs of jobs. Part of [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::id::{JobId, NotificationId};
use undertone_api::job::log::{LogLine, LogQuery};
use undertone_api::notification::{Notification, NotificationQuery, NotificationSwitches};
use undertone_api::page::Page;

use super::Answer;

/// The requests of one caller about notifications and the logs of jobs.
#[async_trait]
pub trait Told: Send + Sync + 'static {
    /// Returns the matching lines of a job's log, newest first.
    async fn job_log(&self, job: JobId, wanted: LogQuery) -> Answer<Page<LogLine>>;

    /// Returns the REST address of a job's whole log, for the caller's browser.
    fn job_log_file(&self, job: JobId) -> String;

    /// Returns the caller's notifications, newest first.
    async fn notifications(&self, wanted: NotificationQuery) -> Answer<Page<Notification>>;

    /// Returns the number of unread ones.
    async fn unread(&self) -> Answer<u64>;

    /// Marks one as read.
    async fn read_notification(&self, notification: NotificationId) -> Answer<Notification>;

    /// Marks all as read; returns their number.
    async fn read_all_notifications(&self) -> Answer<u64>;

    /// Returns the caller's notification switches.
    async fn notification_switches(&self) -> Answer<NotificationSwitches>;

    /// Sets the caller's notification switches.
    async fn set_notification_switches(&self, switches: NotificationSwitches) -> Answer<NotificationSwitches>;
}
