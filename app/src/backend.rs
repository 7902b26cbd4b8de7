//! All the dashboard may ask, as one trait.
//!
//! The server implements it over its service layer, once for every request: a value of `dyn Backend` already knows who is
//! asking, so no call here names a caller and no page can forget to. It must translate and delegate only; whether the
//! caller may do something is decided by the service. Nothing here reads a cookie: signing in and out gives back the
//! `Set-Cookie` values, which the dashboard passes on without reading them.
//!
//! # For whoever mounts the dashboard
//! For each request provide `Arc<dyn Backend>` as context, both to the pages and to the server functions under `/ui`:
//! ```ignore
//! let context = move || provide_context::<Arc<dyn Backend>>(Arc::new(Desk::of(&state, actor_of_this_request())));
//! ```
//! where the actor comes from the request's cookies, resolved (and refreshed, when the access token has run out) by a
//! middleware before leptos sees the request; it can hand the actor over in the request's extensions, which leptos_axum
//! provides as context in `http::request::Parts`. Server functions only accept `POST` from the same origin when that
//! middleware says so: the check against forged requests is the server's.

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
use undertone_api::budget::{Account, Entry, NewBudget};
use undertone_api::consortium::{Consortium, NewConsortium, NewOverlap, OverlapRule};
use undertone_api::dataset::Dataset;
use undertone_api::freeze::{ClearFreeze, Freeze};
use undertone_api::id::{ApiKeyId, ConsortiumId, DatasetId, IdentityId, JobId, OrganizationId, QuestionId};
use undertone_api::job::audit::AuditView;
use undertone_api::job::{Job, JobSummary, NewJob, Progress, Refuse};
use undertone_api::member::{Member, NewMember};
use undertone_api::model::Artifact;
use undertone_api::organization::{Invitation, InvitationPreview, NewInvitation, Organization};
use undertone_api::page::{Page, PageQuery};
use undertone_api::plan::Plan;
use undertone_api::problem::{Code, Problem};
use undertone_api::question::{Annotation, AskingJob, ExportFormat, Imported, NewAnnotation, Queue};
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

/// What a call answers.
pub type Answer<T> = Result<T, Problem>;

/// Whole values of `Set-Cookie` headers, in order; opaque to the dashboard.
pub type Cookies = Vec<String>;

/// A provider at which people may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInProvider {
    /// Its id in addresses; empty for the first.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its address.
    pub issuer: String,
}

/// Everything one caller may ask of the server. Every method fails with the [`Problem`] that REST would answer.
#[async_trait]
pub trait Backend: Accounts + Passkeys + Glance + Insight + Told + Life + Retirements + Send + Sync + 'static {
    /// The present moment: pages tell durations against it and read no clock themselves.
    fn now(&self) -> OffsetDateTime;

    /// Whether the site is served over TLS, so that the dashboard's own cookies are marked `Secure`.
    fn secure(&self) -> bool;

    /// Who is asking; `None` when nobody is signed in.
    async fn me(&self) -> Answer<Option<Member>>;

    /// Signs in. The answer's cookies make the following requests this member's, or ask for a code first.
    async fn sign_in(&self, credentials: SignIn) -> Answer<Entered>;

    /// The providers at which people may sign in beside their passwords.
    fn providers(&self) -> Vec<SignInProvider>;

    /// The caller's own API keys, newest first.
    async fn api_keys(&self) -> Answer<Vec<ApiKey>>;

    /// Makes an API key of the caller's; the answer holds it, nothing later does.
    async fn create_api_key(&self, key: NewApiKey) -> Answer<ApiKey>;

    /// Revokes an API key of the caller's.
    async fn revoke_api_key(&self, key: ApiKeyId) -> Answer<()>;

    /// The caller's identities at the provider.
    async fn identities(&self) -> Answer<Vec<LinkedIdentity>>;

    /// Takes an identity at the provider away from the caller.
    async fn unlink_identity(&self, identity: IdentityId) -> Answer<()>;

    /// Ends the session. The answer's cookies delete the session's.
    async fn sign_out(&self) -> Answer<Cookies>;

    /// What a one-time link is for. `secret` is the last part of `/accept/<secret>`; links must have that address.
    async fn invitation(&self, secret: &str) -> Answer<InvitationPreview>;

    /// Accepts a one-time link and signs the new member in.
    async fn accept(&self, secret: &str, member: NewMember) -> Answer<Cookies>;

    /// The consortia the caller takes part in; all of them for the operator.
    async fn consortia(&self) -> Answer<Vec<Consortium>>;

    /// Founds a consortium.
    async fn found(&self, consortium: NewConsortium) -> Answer<Consortium>;

    /// What was declared about people who may be in several organizations of a consortium, the last first.
    async fn overlap(&self, consortium: ConsortiumId) -> Answer<Vec<OverlapRule>>;

    /// Declares in how many organizations of a consortium one person may be.
    async fn attest(&self, consortium: ConsortiumId, overlap: NewOverlap) -> Answer<OverlapRule>;

    /// The organizations of a consortium, by name.
    async fn organizations(&self, consortium: ConsortiumId) -> Answer<Vec<Organization>>;

    /// The members of an organization, as far as the caller may see them.
    async fn members(&self, organization: OrganizationId) -> Answer<Vec<Member>>;

    /// Makes a one-time link; the answer holds it, nothing later does.
    async fn invite(&self, invitation: NewInvitation) -> Answer<Invitation>;

    /// Makes an enrolment token for a worker of the organization; the answer holds it, nothing later does.
    async fn enrol(&self, organization: OrganizationId, worker: NewEnrolment) -> Answer<Enrolment>;

    /// The datasets of a consortium, with their accounts.
    async fn datasets(&self, consortium: ConsortiumId) -> Answer<Vec<Dataset>>;

    /// The full balances of a dataset's accounts, for planning: what the server itself decides by.
    async fn standing(&self, dataset: DatasetId) -> Answer<Vec<Standing>>;

    /// Sets or raises a dataset's lifetime limit for one unit.
    async fn set_budget(&self, dataset: DatasetId, budget: NewBudget) -> Answer<Account>;

    /// The rows of a dataset's ledger, newest first.
    async fn entries(&self, dataset: DatasetId, page: PageQuery) -> Answer<Page<Entry>>;

    /// The jobs of a consortium, newest first.
    async fn jobs(&self, consortium: ConsortiumId, page: PageQuery) -> Answer<Page<JobSummary>>;

    /// What a job would come to, with the tight numbers that only the server computes. Nothing is changed.
    async fn plan(&self, consortium: ConsortiumId, job: NewJob) -> Answer<Plan>;

    /// Proposes a job to the owners of its datasets.
    async fn propose(&self, consortium: ConsortiumId, job: NewJob) -> Answer<Job>;

    /// A job in full.
    async fn job(&self, job: JobId) -> Answer<Job>;

    /// How a job stands at this moment.
    async fn progress(&self, job: JobId) -> Answer<Progress>;

    /// Agrees, as a steward, to what the job does with one dataset.
    async fn approve(&self, job: JobId, dataset: DatasetId) -> Answer<Job>;

    /// Refuses, as a steward, what the job would do with one dataset.
    async fn refuse(&self, job: JobId, dataset: DatasetId, refusal: Refuse) -> Answer<Job>;

    /// Ends a job that is not over.
    async fn cancel(&self, job: JobId) -> Answer<Job>;

    /// The files of a job.
    async fn artifacts(&self, job: JobId) -> Answer<Vec<Artifact>>;

    /// What the audits of a job found.
    async fn audits(&self, job: JobId) -> Answer<Vec<AuditView>>;

    /// The freezes of a dataset's accounts and their ends, the last first.
    async fn freezes(&self, dataset: DatasetId) -> Answer<Vec<Freeze>>;

    /// Clears a dataset that an audit has frozen.
    async fn clear_freeze(&self, dataset: DatasetId, word: ClearFreeze) -> Answer<Freeze>;

    /// What a job cost, when it is over.
    async fn certificate(&self, job: JobId) -> Answer<Certificate>;

    /// The address from which the caller's browser can fetch a job's certificate with its evidence: the REST address.
    fn certificate_file(&self, job: JobId) -> String;

    /// All that is known of a job.
    async fn report(&self, job: JobId) -> Answer<ReportFile>;

    /// The address from which the caller's browser can fetch a job's report for programs: the REST address.
    fn report_file(&self, job: JobId) -> String;

    /// The address from which the caller's browser can fetch a job's report as a page that needs nothing else.
    fn report_document(&self, job: JobId) -> String;

    /// Proposes a job of the consortium again, exactly as it was signed.
    async fn propose_again(&self, consortium: ConsortiumId, job: JobId) -> Answer<Job>;

    /// The jobs of a consortium that ask people, newest first, with how far each is.
    async fn asking(&self, consortium: ConsortiumId) -> Answer<Vec<AskingJob>>;

    /// What the caller has to answer in a job.
    async fn queue(&self, job: JobId) -> Answer<Queue>;

    /// Records the caller's answer to a question.
    async fn annotate(&self, question: QuestionId, annotation: NewAnnotation) -> Answer<Annotation>;

    /// Takes the caller's answer to a question back.
    async fn take_back(&self, question: QuestionId) -> Answer<Annotation>;

    /// Records labels that were given elsewhere: JSON Lines, or what Label Studio exports. They are one person's answers, of
    /// whoever has the `name`; the caller's without one.
    async fn import_labels(&self, job: JobId, name: Option<&str>, labels: &str) -> Answer<Imported>;

    /// The address from which the caller's browser can fetch a job's questions with their answers: the REST address.
    fn questions_file(&self, job: JobId, format: ExportFormat) -> String;

    /// The address from which the caller's browser can fetch a file with its cookies: the REST address.
    fn download(&self, artifact: &Artifact) -> String;
}

/// The backend of the request that is being answered.
///
/// # Errors
/// [`Code::Internal`] when the server provided none: a mistake in mounting, not of the caller.
pub fn backend() -> Answer<Arc<dyn Backend>> {
    use_context().ok_or_else(|| Problem::new(Code::Internal, "the dashboard was mounted without its backend"))
}
