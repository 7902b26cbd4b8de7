//! The pages' requests about the states of jobs: drafts, an owner's review, pauses, and copies of a job.

use async_trait::async_trait;
use undertone_api::id::{ConsortiumId, DatasetId, DraftId, JobId};
use undertone_api::job::{ApprovalLimit, Job, JobDraft, JobReview, NewApprovalLimit, NewDraft, PauseRequest};
use undertone_api::signed::{SignedApproval, SiteApproval};

use super::Answer;

/// The requests about the states of jobs.
#[async_trait]
pub trait Life: Send + Sync + 'static {
    /// Returns a job's review for a dataset: the manifest, its cost, and its disclosures.
    async fn review(&self, job: JobId, dataset: DatasetId) -> Answer<JobReview>;

    /// Returns how the sites of a job's datasets approve it; without sites whose workers do not report it.
    async fn site_approvals(&self, job: JobId) -> Answer<Vec<(DatasetId, SiteApproval)>>;

    /// Returns the REST address of a job's review for a dataset, for the caller's browser.
    fn review_file(&self, job: JobId, dataset: DatasetId) -> String;

    /// Approves exactly the manifest with this digest, with the steward's signature where the dataset's site verifies
    /// one.
    async fn approve_signed(
        &self,
        job: JobId,
        dataset: DatasetId,
        manifest: &str,
        signature: Option<SignedApproval>,
    ) -> Answer<Job>;

    /// Pauses a job.
    async fn pause(&self, job: JobId, pause: PauseRequest) -> Answer<Job>;

    /// Resumes a job that was paused as a whole.
    async fn resume(&self, job: JobId) -> Answer<Job>;

    /// Holds a job for a dataset.
    async fn hold(&self, job: JobId, dataset: DatasetId, pause: PauseRequest) -> Answer<Job>;

    /// Ends the hold of a job for a dataset.
    async fn release(&self, job: JobId, dataset: DatasetId) -> Answer<Job>;

    /// Proposes again a job that failed, was cancelled or refused.
    async fn retry(&self, job: JobId) -> Answer<Job>;

    /// Makes a draft with a job's title and spec.
    async fn clone_job(&self, job: JobId) -> Answer<JobDraft>;

    /// Returns the drafts of the caller's organization in a consortium, the last changed first.
    async fn drafts(&self, consortium: ConsortiumId) -> Answer<Vec<JobDraft>>;

    /// Returns a draft.
    async fn draft(&self, draft: DraftId) -> Answer<JobDraft>;

    /// Makes a draft.
    async fn begin_draft(&self, consortium: ConsortiumId, new: NewDraft) -> Answer<JobDraft>;

    /// Replaces a draft that has this version.
    async fn write_draft(&self, draft: DraftId, new: NewDraft, version: u64) -> Answer<JobDraft>;

    /// Deletes a draft.
    async fn delete_draft(&self, draft: DraftId) -> Answer<()>;

    /// Proposes a draft, which becomes a job.
    async fn propose_draft(&self, draft: DraftId) -> Answer<Job>;

    /// Returns the limits for automatic approval of jobs on a dataset, the newest first.
    async fn approval_limits(&self, dataset: DatasetId) -> Answer<Vec<ApprovalLimit>>;

    /// Sets such a limit, which replaces the previous one.
    async fn set_approval_limit(&self, dataset: DatasetId, new: NewApprovalLimit) -> Answer<ApprovalLimit>;

    /// Withdraws the current limit.
    async fn withdraw_approval_limit(&self, dataset: DatasetId) -> Answer<Vec<ApprovalLimit>>;
}
