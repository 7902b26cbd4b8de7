//! The backend of pages about notifications and the logs of jobs.

use async_trait::async_trait;
use undertone_api::id::{JobId, NotificationId};
use undertone_api::job::log::{LogLine, LogQuery};
use undertone_api::notification::{Notification, NotificationQuery, NotificationSwitches};
use undertone_api::page::Page;
use undertone_app::{Answer, Told};

use super::desk::Desk;
use undertone_server_core::error::Error;
use undertone_server_core::service::{job_log, notification};

#[async_trait]
impl Told for Desk {
    async fn job_log(&self, job: JobId, wanted: LogQuery) -> Answer<Page<LogLine>> {
        job_log::list(self.ctx(), self.actor()?, job, &wanted).await.map_err(Error::into_problem)
    }

    fn job_log_file(&self, job: JobId) -> String {
        format!("/api/v1/jobs/{job}/log/export")
    }

    async fn notifications(&self, wanted: NotificationQuery) -> Answer<Page<Notification>> {
        notification::list(self.ctx(), self.actor()?, &wanted).await.map_err(Error::into_problem)
    }

    async fn unread(&self) -> Answer<u64> {
        notification::unread(self.ctx(), self.actor()?).await.map_err(Error::into_problem)
    }

    async fn read_notification(&self, id: NotificationId) -> Answer<Notification> {
        notification::read(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn read_all_notifications(&self) -> Answer<u64> {
        notification::read_all(self.ctx(), self.actor()?).await.map_err(Error::into_problem)
    }

    async fn notification_switches(&self) -> Answer<NotificationSwitches> {
        notification::switches(self.ctx(), self.actor()?).await.map_err(Error::into_problem)
    }

    async fn set_notification_switches(&self, switches: NotificationSwitches) -> Answer<NotificationSwitches> {
        notification::set_switches(self.ctx(), self.actor()?, &switches).await.map_err(Error::into_problem)
    }
}
