//! What pages may ask about the life of jobs: drafts, what an owner decides by, pauses, and the way from one job to the next.

use async_trait::async_trait;
use undertone_api::id::{ConsortiumId, DatasetId, DraftId, JobId};
use undertone_api::job::{ApprovalLimit, Draft, Job, NewApprovalLimit, NewDraft, Pause, Review};
use undertone_api::signed::{SignedApproval, SiteApproval};

use super::Answer;

/// What pages may ask about the life of jobs.
#[async_trait]
pub trait Life: Send + Sync + 'static {
    /// What a job asks of a dataset: the manifest, its cost, and who learns what.
    async fn review(&self, job: JobId, dataset: DatasetId) -> Answer<Review>;

    /// Returns how the sites of a job's datasets approve it; those whose workers do not say are left out.
    async fn site_approvals(&self, job: JobId) -> Answer<Vec<(DatasetId, SiteApproval)>>;

    /// The address from which the caller's browser can fetch what a job asks of a dataset: the REST address.
    fn review_file(&self, job: JobId, dataset: DatasetId) -> String;

    /// Agrees to exactly the manifest with this digest, with the steward's signature where the dataset's site verifies one.
    async fn approve_signed(
        &self,
        job: JobId,
        dataset: DatasetId,
        manifest: &str,
        signature: Option<SignedApproval>,
    ) -> Answer<Job>;

    /// Pauses a job.
    async fn pause(&self, job: JobId, pause: Pause) -> Answer<Job>;

    /// Lets a job go on that was paused as a whole.
    async fn resume(&self, job: JobId) -> Answer<Job>;

    /// Holds a job for a dataset.
    async fn hold(&self, job: JobId, dataset: DatasetId, pause: Pause) -> Answer<Job>;

    /// Lets a job go on that was held for a dataset.
    async fn release(&self, job: JobId, dataset: DatasetId) -> Answer<Job>;

    /// Proposes a job again that failed, was cancelled or refused.
    async fn retry(&self, job: JobId) -> Answer<Job>;

    /// Begins a draft with a job's title and spec.
    async fn clone_job(&self, job: JobId) -> Answer<Draft>;

    /// The drafts of the caller's organization in a consortium, the last changed first.
    async fn drafts(&self, consortium: ConsortiumId) -> Answer<Vec<Draft>>;

    /// A draft.
    async fn draft(&self, draft: DraftId) -> Answer<Draft>;

    /// Begins a draft.
    async fn begin_draft(&self, consortium: ConsortiumId, new: NewDraft) -> Answer<Draft>;

    /// Writes a draft anew that has this version.
    async fn write_draft(&self, draft: DraftId, new: NewDraft, version: u64) -> Answer<Draft>;

    /// Deletes a draft.
    async fn delete_draft(&self, draft: DraftId) -> Answer<()>;

    /// Proposes a draft; it is a job then.
    async fn propose_draft(&self, draft: DraftId) -> Answer<Job>;

    /// The limits within which jobs on a dataset pass without being asked about, the newest first.
    async fn approval_limits(&self, dataset: DatasetId) -> Answer<Vec<ApprovalLimit>>;

    /// Sets such a limit in the place of the one before.
    async fn set_approval_limit(&self, dataset: DatasetId, new: NewApprovalLimit) -> Answer<ApprovalLimit>;

    /// Withdraws the limit in force.
    async fn withdraw_approval_limit(&self, dataset: DatasetId) -> Answer<Vec<ApprovalLimit>>;
}
