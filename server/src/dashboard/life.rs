//! The backend of pages about the states of jobs.

use async_trait::async_trait;
use undertone_api::id::{ConsortiumId, DatasetId, DraftId, JobId};
use undertone_api::job::{ApprovalLimit, Job, JobDraft, JobReview, NewApprovalLimit, NewDraft, PauseRequest};
use undertone_api::signed::{SignedApproval, SiteApproval};
use undertone_app::{Answer, Life};

use super::desk::Desk;
use undertone_server_core::error::Error;
use undertone_server_core::service::version::ExpectedVersion;
use undertone_server_core::service::{approval, job};

#[async_trait]
impl Life for Desk {
    async fn review(&self, id: JobId, dataset: DatasetId) -> Answer<JobReview> {
        approval::review(self.ctx(), self.actor()?, id, dataset).await.map_err(Error::into_problem)
    }

    async fn site_approvals(&self, id: JobId) -> Answer<Vec<(DatasetId, SiteApproval)>> {
        approval::site_approvals(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    fn review_file(&self, id: JobId, dataset: DatasetId) -> String {
        format!("/api/v1/jobs/{id}/datasets/{dataset}/review")
    }

    async fn approve_signed(
        &self,
        id: JobId,
        dataset: DatasetId,
        manifest: &str,
        signature: Option<SignedApproval>,
    ) -> Answer<Job> {
        let (actor, signature) = (self.actor()?, signature.as_ref());
        let approved = approval::approve_signed(self.ctx(), actor, id, dataset, Some(manifest), signature).await;
        approved.map_err(Error::into_problem)
    }

    async fn pause(&self, id: JobId, pause: PauseRequest) -> Answer<Job> {
        job::pause(self.ctx(), self.actor()?, id, &pause).await.map_err(Error::into_problem)
    }

    async fn resume(&self, id: JobId) -> Answer<Job> {
        job::resume(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn hold(&self, id: JobId, dataset: DatasetId, pause: PauseRequest) -> Answer<Job> {
        job::hold_dataset(self.ctx(), self.actor()?, id, dataset, &pause).await.map_err(Error::into_problem)
    }

    async fn release(&self, id: JobId, dataset: DatasetId) -> Answer<Job> {
        job::release_dataset(self.ctx(), self.actor()?, id, dataset).await.map_err(Error::into_problem)
    }

    async fn retry(&self, id: JobId) -> Answer<Job> {
        job::retry(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn clone_job(&self, id: JobId) -> Answer<JobDraft> {
        job::clone_spec(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn drafts(&self, id: ConsortiumId) -> Answer<Vec<JobDraft>> {
        job::draft_list(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn draft(&self, id: DraftId) -> Answer<JobDraft> {
        job::draft_get(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn begin_draft(&self, id: ConsortiumId, new: NewDraft) -> Answer<JobDraft> {
        job::draft_create(self.ctx(), self.actor()?, id, &new).await.map_err(Error::into_problem)
    }

    async fn write_draft(&self, id: DraftId, new: NewDraft, version: u64) -> Answer<JobDraft> {
        let written =
            job::draft_update(self.ctx(), self.actor()?, id, &new, Some(version), &ExpectedVersion::Anything).await;
        written.map_err(Error::into_problem)
    }

    async fn delete_draft(&self, id: DraftId) -> Answer<()> {
        job::draft_delete(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn propose_draft(&self, id: DraftId) -> Answer<Job> {
        job::draft_propose(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn approval_limits(&self, id: DatasetId) -> Answer<Vec<ApprovalLimit>> {
        approval::limits(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn set_approval_limit(&self, id: DatasetId, new: NewApprovalLimit) -> Answer<ApprovalLimit> {
        let set = approval::limit_set(self.ctx(), self.actor()?, id, &new, &ExpectedVersion::Anything).await;
        set.map_err(Error::into_problem)
    }

    async fn withdraw_approval_limit(&self, id: DatasetId) -> Answer<Vec<ApprovalLimit>> {
        approval::limit_withdraw(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }
}
