//! All requests of the dashboard to the server, as one trait.
//!
//! The server implements it over its service layer, once for every request: a value of `dyn Backend` already knows the
//! caller, so no call here names a caller and no page can forget to. The implementation must translate and delegate
//! only; the service decides about permissions. Nothing here reads a cookie: sign-in and sign-out return `Set-Cookie`
//! values, which the dashboard forwards without reading them.
//!
//! # Mounting the dashboard
//! For each request provide `Arc<dyn Backend>` as context, both to the pages and to the server functions under `/ui`:
//! ```ignore
//! let context = move || provide_context::<Arc<dyn Backend>>(Arc::new(Desk::of(&state, actor_of_this_request())));
//! ```
//! The actor comes from the request's cookies. A middleware resolves it (and refreshes an expired access token) before
//! leptos sees the request; it can pass the actor in the request's extensions, which leptos_axum provides as context in
//! `http::request::Parts`. That middleware must also restrict server functions to `POST` from the same origin: the
//! server is responsible for the check against forged requests.

mod account;
mod glance;
mod insight;
mod life;
mod passkey;
mod retirement;
mod told;

use std::sync::Arc;

use async_trait::async_trait;
use leptos::prelude::use_context;
use time::OffsetDateTime;
use undertone_api::api_key::{ApiKey, NewApiKey};
use undertone_api::budget::{Account, LedgerEntry, NewBudget};
use undertone_api::consortium::{Consortium, NewConsortium, NewOverlap, OverlapRule};
use undertone_api::dataset::Dataset;
use undertone_api::freeze::{ClearFreeze, Freeze};
use undertone_api::id::{ApiKeyId, ConsortiumId, DatasetId, IdentityId, JobId, OrganizationId, QuestionId};
use undertone_api::job::audit::AuditView;
use undertone_api::job::{AskingJob, Job, JobProgress, JobSummary, NewJob, RefuseRequest};
use undertone_api::member::{Member, NewMember};
use undertone_api::model::Artifact;
use undertone_api::organization::{Invitation, InvitationPreview, NewInvitation, Organization};
use undertone_api::page::{Page, PageQuery};
use undertone_api::plan::Plan;
use undertone_api::problem::{Code, Problem};
use undertone_api::question::{Annotation, AnnotationQueue, ExportFormat, ImportResult, NewAnnotation};
use undertone_api::report::ReportFile;
use undertone_api::session::{LinkedIdentity, SignIn};
use undertone_api::signed::Certificate;
use undertone_api::worker::{Enrolment, NewEnrolment};

pub use account::{Accounts, Entered};
pub use glance::{Glance, Newest, Waiting};
pub use insight::Insight;
pub use life::Life;
pub use passkey::{PasskeyCeremony, Passkeys};
pub use retirement::{RetirementSubject, Retirements};
pub use told::Told;

use crate::standing::Standing;

/// The result of a call.
pub type Answer<T> = Result<T, Problem>;

/// Whole values of `Set-Cookie` headers, in order; opaque to the dashboard.
pub type Cookies = Vec<String>;

/// An identity provider for sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInProvider {
    /// Its id in addresses; empty for the first.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// Its address.
    pub issuer: String,
}

/// All requests of one caller to the server. Every method fails with the [`Problem`] that REST would return.
#[async_trait]
pub trait Backend: Accounts + Passkeys + Glance + Insight + Told + Life + Retirements + Send + Sync + 'static {
    /// Returns the present time: pages compute durations with it and read no clock themselves.
    fn now(&self) -> OffsetDateTime;

    /// Returns whether the site is served over TLS, so that the dashboard's own cookies are marked `Secure`.
    fn secure(&self) -> bool;

    /// Returns the caller; `None` without a sign-in.
    async fn me(&self) -> Answer<Option<Member>>;

    /// Signs in. The returned cookies make the following requests this member's, or request a code first.
    async fn sign_in(&self, credentials: SignIn) -> Answer<Entered>;

    /// Returns the identity providers that are available besides passwords.
    fn providers(&self) -> Vec<SignInProvider>;

    /// Returns the caller's own API keys, newest first.
    async fn api_keys(&self) -> Answer<Vec<ApiKey>>;

    /// Makes an API key of the caller's; only this answer contains the secret.
    async fn create_api_key(&self, key: NewApiKey) -> Answer<ApiKey>;

    /// Revokes an API key of the caller's.
    async fn revoke_api_key(&self, key: ApiKeyId) -> Answer<()>;

    /// Returns the caller's identities at the provider.
    async fn identities(&self) -> Answer<Vec<LinkedIdentity>>;

    /// Removes the caller's identity at the provider.
    async fn unlink_identity(&self, identity: IdentityId) -> Answer<()>;

    /// Ends the session. The returned cookies delete the session's.
    async fn sign_out(&self) -> Answer<Cookies>;

    /// Returns the purpose of a one-time link. `secret` is the last part of `/accept/<secret>`; links must have that
    /// address.
    async fn invitation(&self, secret: &str) -> Answer<InvitationPreview>;

    /// Accepts a one-time link and signs the new member in.
    async fn accept(&self, secret: &str, member: NewMember) -> Answer<Cookies>;

    /// Returns the caller's consortia; all of them for the operator.
    async fn consortia(&self) -> Answer<Vec<Consortium>>;

    /// Founds a consortium.
    async fn found(&self, consortium: NewConsortium) -> Answer<Consortium>;

    /// Returns the declarations about people who may be in several organizations of a consortium, the last first.
    async fn overlap(&self, consortium: ConsortiumId) -> Answer<Vec<OverlapRule>>;

    /// Declares in how many organizations of a consortium one person may be.
    async fn attest(&self, consortium: ConsortiumId, overlap: NewOverlap) -> Answer<OverlapRule>;

    /// Returns the organizations of a consortium, by name.
    async fn organizations(&self, consortium: ConsortiumId) -> Answer<Vec<Organization>>;

    /// Returns the members of an organization, as far as the caller may see them.
    async fn members(&self, organization: OrganizationId) -> Answer<Vec<Member>>;

    /// Makes a one-time link; only this answer contains it.
    async fn invite(&self, invitation: NewInvitation) -> Answer<Invitation>;

    /// Makes an enrolment token for a worker of the organization; only this answer contains it.
    async fn enrol(&self, organization: OrganizationId, worker: NewEnrolment) -> Answer<Enrolment>;

    /// Returns the datasets of a consortium, with their accounts.
    async fn datasets(&self, consortium: ConsortiumId) -> Answer<Vec<Dataset>>;

    /// Returns the full balances of a dataset's accounts, for planning: the balances by which the server itself
    /// decides.
    async fn standing(&self, dataset: DatasetId) -> Answer<Vec<Standing>>;

    /// Sets or raises a dataset's lifetime limit for one unit.
    async fn set_budget(&self, dataset: DatasetId, budget: NewBudget) -> Answer<Account>;

    /// Returns the rows of a dataset's ledger, newest first.
    async fn entries(&self, dataset: DatasetId, page: PageQuery) -> Answer<Page<LedgerEntry>>;

    /// Returns the jobs of a consortium, newest first.
    async fn jobs(&self, consortium: ConsortiumId, page: PageQuery) -> Answer<Page<JobSummary>>;

    /// Returns the cost of a planned job, with the tight numbers that only the server computes. Changes nothing.
    async fn plan(&self, consortium: ConsortiumId, job: NewJob) -> Answer<Plan>;

    /// Proposes a job to the owners of its datasets.
    async fn propose(&self, consortium: ConsortiumId, job: NewJob) -> Answer<Job>;

    /// Returns a job in full.
    async fn job(&self, job: JobId) -> Answer<Job>;

    /// Returns the present state of a job.
    async fn progress(&self, job: JobId) -> Answer<JobProgress>;

    /// Approves, as a steward, a job for one dataset.
    async fn approve(&self, job: JobId, dataset: DatasetId) -> Answer<Job>;

    /// Refuses, as a steward, a job for one dataset.
    async fn refuse(&self, job: JobId, dataset: DatasetId, refusal: RefuseRequest) -> Answer<Job>;

    /// Ends a job that is not over.
    async fn cancel(&self, job: JobId) -> Answer<Job>;

    /// Returns the files of a job.
    async fn artifacts(&self, job: JobId) -> Answer<Vec<Artifact>>;

    /// Returns the results of a job's audits.
    async fn audits(&self, job: JobId) -> Answer<Vec<AuditView>>;

    /// Returns the freezes of a dataset's accounts and their ends, the last first.
    async fn freezes(&self, dataset: DatasetId) -> Answer<Vec<Freeze>>;

    /// Clears a dataset that an audit has frozen.
    async fn clear_freeze(&self, dataset: DatasetId, word: ClearFreeze) -> Answer<Freeze>;

    /// Returns the certificate of a finished job.
    async fn certificate(&self, job: JobId) -> Answer<Certificate>;

    /// Returns the REST address of a job's certificate with its evidence, for the caller's browser.
    fn certificate_file(&self, job: JobId) -> String;

    /// Returns the report of a job.
    async fn report(&self, job: JobId) -> Answer<ReportFile>;

    /// Returns the REST address of a job's report for programs, for the caller's browser.
    fn report_file(&self, job: JobId) -> String;

    /// Returns the address of a job's report as a self-contained page, for the caller's browser.
    fn report_document(&self, job: JobId) -> String;

    /// Proposes a job of the consortium again, exactly as it was signed.
    async fn propose_again(&self, consortium: ConsortiumId, job: JobId) -> Answer<Job>;

    /// Returns the jobs of a consortium with questions, newest first, with the progress of each.
    async fn asking(&self, consortium: ConsortiumId) -> Answer<Vec<AskingJob>>;

    /// Returns the caller's open questions in a job.
    async fn queue(&self, job: JobId) -> Answer<AnnotationQueue>;

    /// Records the caller's answer to a question.
    async fn annotate(&self, question: QuestionId, annotation: NewAnnotation) -> Answer<Annotation>;

    /// Undoes the caller's answer to a question.
    async fn take_back(&self, question: QuestionId) -> Answer<Annotation>;

    /// Records labels from elsewhere: JSON Lines, or a Label Studio export. They count as the answers of the annotator
    /// `name`, or of the caller without a name.
    async fn import_labels(&self, job: JobId, name: Option<&str>, labels: &str) -> Answer<ImportResult>;

    /// Returns the REST address of a job's questions with their answers, for the caller's browser.
    fn questions_file(&self, job: JobId, format: ExportFormat) -> String;

    /// Returns the REST address of a file, for the caller's browser with its cookies.
    fn download(&self, artifact: &Artifact) -> String;
}

/// Returns the backend of the current request.
///
/// # Errors
/// [`Code::Internal`] if the server provided none: a mistake in mounting, not of the caller.
pub fn backend() -> Answer<Arc<dyn Backend>> {
    use_context().ok_or_else(|| Problem::new(Code::Internal, "the dashboard was mounted without its backend"))
}
