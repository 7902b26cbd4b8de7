//! What pages may ask about what members are told, and about what jobs say of themselves. Part of [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::id::{JobId, NotificationId};
use undertone_api::job::log::{LogLine, LogQuery};
use undertone_api::notification::{Notification, NotificationQuery, NotificationSwitches};
use undertone_api::page::Page;

use super::Answer;

/// What one caller may ask about what they are told, and about the logs of jobs.
#[async_trait]
pub trait Told: Send + Sync + 'static {
    /// The wanted lines of a job's log, newest first.
    async fn job_log(&self, job: JobId, wanted: LogQuery) -> Answer<Page<LogLine>>;

    /// The address from which the caller's browser can fetch a job's whole log: the REST address.
    fn job_log_file(&self, job: JobId) -> String;

    /// What the caller was told, newest first.
    async fn notifications(&self, wanted: NotificationQuery) -> Answer<Page<Notification>>;

    /// How much of it they have not read.
    async fn unread(&self) -> Answer<u64>;

    /// Marks one as read.
    async fn read_notification(&self, notification: NotificationId) -> Answer<Notification>;

    /// Marks all as read; gives how many that were.
    async fn read_all_notifications(&self) -> Answer<u64>;

    /// Of what the caller is told.
    async fn notification_switches(&self) -> Answer<NotificationSwitches>;

    /// Sets of what the caller is told.
    async fn set_notification_switches(&self, switches: NotificationSwitches) -> Answer<NotificationSwitches>;
}
