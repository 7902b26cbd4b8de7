//! The backend of pages, which calls the service in process. It translates and delegates, and makes no decisions.

mod account;

use async_trait::async_trait;
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
use undertone_api::plan::{NewPlan, Plan};
use undertone_api::problem::{Code, Problem};
use undertone_api::question::{Annotation, AnnotationQueue, ExportFormat, ImportResult, NewAnnotation};
use undertone_api::report::ReportFile;
use undertone_api::session::{LinkedIdentity, SignIn};
use undertone_api::signed::Certificate;
use undertone_api::worker::{Enrolment, NewEnrolment};
use undertone_app::{Answer, Backend, Cookies, Entered, SignInProvider, Standing};

use crate::rest::cookie;
use undertone_server_core::auth::{Actor, Origin, Provider};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::{
    api_key, approval, audit, budget, certificate, consortium, dataset, freeze, invitation, job, ledger, member, model,
    oidc, organization, plan, question, report, session, worker,
};

/// The backend of one request.
pub(super) struct Desk {
    ctx: Ctx,
    actor: Option<Actor>,
    from: Origin,
    half: Option<String>,
}

impl Desk {
    /// Makes the backend of a request by `actor` with origin `from`; `half` is the token of a sign-in that waits for
    /// its code.
    pub(super) const fn new(ctx: Ctx, actor: Option<Actor>, from: Origin, half: Option<String>) -> Self {
        Self { ctx, actor, from, half }
    }

    pub(super) const fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    pub(super) const fn origin(&self) -> Origin {
        self.from
    }

    /// Returns the token of the caller's half session.
    pub(super) fn half_token(&self) -> Answer<&str> {
        let over = "this took longer than five minutes: sign in again from the beginning";
        self.half.as_deref().ok_or_else(|| Problem::new(Code::Unauthenticated, over))
    }

    pub(super) fn actor(&self) -> Answer<&Actor> {
        self.actor.as_ref().ok_or_else(|| Problem::new(Code::Unauthenticated, "sign in to continue"))
    }
}

#[async_trait]
impl Backend for Desk {
    fn now(&self) -> OffsetDateTime {
        self.ctx.now()
    }

    fn secure(&self) -> bool {
        cookie::secure(&self.ctx)
    }

    async fn me(&self) -> Answer<Option<Member>> {
        match &self.actor {
            None => Ok(None),
            Some(actor) => member::me(actor).map(Some).map_err(Error::into_problem),
        }
    }

    async fn sign_in(&self, credentials: SignIn) -> Answer<Entered> {
        let entered = session::sign_in(&self.ctx, self.from, &credentials).await.map_err(Error::into_problem)?;
        Ok(account::entered(&self.ctx, &entered))
    }

    fn providers(&self) -> Vec<SignInProvider> {
        let to_page = |provider: &Provider| SignInProvider {
            id: provider.id().to_owned(),
            name: provider.name().to_owned(),
            issuer: provider.issuer().to_owned(),
        };
        self.ctx.providers.iter().map(to_page).collect()
    }

    async fn api_keys(&self) -> Answer<Vec<ApiKey>> {
        api_key::list(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn create_api_key(&self, new: NewApiKey) -> Answer<ApiKey> {
        api_key::create(&self.ctx, self.actor()?, &new).await.map_err(Error::into_problem)
    }

    async fn revoke_api_key(&self, id: ApiKeyId) -> Answer<()> {
        api_key::revoke(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn identities(&self) -> Answer<Vec<LinkedIdentity>> {
        oidc::list(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn unlink_identity(&self, id: IdentityId) -> Answer<()> {
        oidc::unlink(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn sign_out(&self) -> Answer<Cookies> {
        if let Some(actor) = &self.actor {
            session::sign_out(&self.ctx, actor).await.map_err(Error::into_problem)?;
        }
        Ok(cookie::clear(&self.ctx))
    }

    async fn invitation(&self, secret: &str) -> Answer<InvitationPreview> {
        invitation::preview(&self.ctx, secret).await.map_err(Error::into_problem)
    }

    async fn accept(&self, secret: &str, member: NewMember) -> Answer<Cookies> {
        let accepted = invitation::accept(&self.ctx, self.from, secret, &member).await;
        accepted.map(|session| cookie::set(&self.ctx, &session.tokens)).map_err(Error::into_problem)
    }

    async fn consortia(&self) -> Answer<Vec<Consortium>> {
        consortium::list(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn found(&self, new: NewConsortium) -> Answer<Consortium> {
        consortium::create(&self.ctx, self.actor()?, &new).await.map_err(Error::into_problem)
    }

    async fn overlap(&self, id: ConsortiumId) -> Answer<Vec<OverlapRule>> {
        consortium::history(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn attest(&self, id: ConsortiumId, new: NewOverlap) -> Answer<OverlapRule> {
        consortium::attest(&self.ctx, self.actor()?, id, &new).await.map_err(Error::into_problem)
    }

    async fn organizations(&self, id: ConsortiumId) -> Answer<Vec<Organization>> {
        organization::in_consortium(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn members(&self, id: OrganizationId) -> Answer<Vec<Member>> {
        member::list(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn invite(&self, new: NewInvitation) -> Answer<Invitation> {
        invitation::create(&self.ctx, self.actor()?, &new).await.map_err(Error::into_problem)
    }

    async fn enrol(&self, id: OrganizationId, new: NewEnrolment) -> Answer<Enrolment> {
        worker::invite(&self.ctx, self.actor()?, id, &new).await.map_err(Error::into_problem)
    }

    async fn datasets(&self, id: ConsortiumId) -> Answer<Vec<Dataset>> {
        dataset::list(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn standing(&self, id: DatasetId) -> Answer<Vec<Standing>> {
        let balances = budget::balances(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)?;
        Ok(balances.into_iter().map(|(unit, adjacency, balance)| Standing { unit, adjacency, balance }).collect())
    }

    async fn set_budget(&self, id: DatasetId, new: NewBudget) -> Answer<Account> {
        budget::set(&self.ctx, self.actor()?, id, new).await.map_err(Error::into_problem)
    }

    async fn entries(&self, id: DatasetId, page: PageQuery) -> Answer<Page<LedgerEntry>> {
        ledger::entries(&self.ctx, self.actor()?, id, &page).await.map_err(Error::into_problem)
    }

    async fn jobs(&self, id: ConsortiumId, page: PageQuery) -> Answer<Page<JobSummary>> {
        job::list(&self.ctx, self.actor()?, id, &page).await.map_err(Error::into_problem)
    }

    async fn plan(&self, consortium: ConsortiumId, job: NewJob) -> Answer<Plan> {
        plan::plan(&self.ctx, self.actor()?, &NewPlan { consortium, job }).await.map_err(Error::into_problem)
    }

    async fn propose(&self, id: ConsortiumId, new: NewJob) -> Answer<Job> {
        job::propose(&self.ctx, self.actor()?, id, new).await.map_err(Error::into_problem)
    }

    async fn job(&self, id: JobId) -> Answer<Job> {
        job::get(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn progress(&self, id: JobId) -> Answer<JobProgress> {
        job::progress(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn approve(&self, id: JobId, dataset: DatasetId) -> Answer<Job> {
        approval::approve(&self.ctx, self.actor()?, id, dataset).await.map_err(Error::into_problem)
    }

    async fn refuse(&self, id: JobId, dataset: DatasetId, refusal: RefuseRequest) -> Answer<Job> {
        approval::refuse(&self.ctx, self.actor()?, id, dataset, &refusal).await.map_err(Error::into_problem)
    }

    async fn cancel(&self, id: JobId) -> Answer<Job> {
        job::cancel(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn artifacts(&self, id: JobId) -> Answer<Vec<Artifact>> {
        model::list(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn audits(&self, id: JobId) -> Answer<Vec<AuditView>> {
        audit::list(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn freezes(&self, id: DatasetId) -> Answer<Vec<Freeze>> {
        freeze::list(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn clear_freeze(&self, id: DatasetId, word: ClearFreeze) -> Answer<Freeze> {
        freeze::clear(&self.ctx, self.actor()?, id, &word).await.map_err(Error::into_problem)
    }

    async fn certificate(&self, id: JobId) -> Answer<Certificate> {
        certificate::get(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    fn certificate_file(&self, id: JobId) -> String {
        format!("/api/v1/jobs/{id}/certificate")
    }

    async fn report(&self, id: JobId) -> Answer<ReportFile> {
        report::get(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    fn report_file(&self, id: JobId) -> String {
        format!("/api/v1/jobs/{id}/report")
    }

    fn report_document(&self, id: JobId) -> String {
        format!("/api/v1/jobs/{id}/report.html")
    }

    async fn propose_again(&self, consortium: ConsortiumId, id: JobId) -> Answer<Job> {
        let file = self.report(id).await?;
        report::again(&self.ctx, self.actor()?, consortium, &file).await.map_err(Error::into_problem)
    }

    async fn asking(&self, id: ConsortiumId) -> Answer<Vec<AskingJob>> {
        question::asking(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn queue(&self, id: JobId) -> Answer<AnnotationQueue> {
        question::next(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn annotate(&self, id: QuestionId, new: NewAnnotation) -> Answer<Annotation> {
        question::annotate(&self.ctx, self.actor()?, id, &new).await.map_err(Error::into_problem)
    }

    async fn take_back(&self, id: QuestionId) -> Answer<Annotation> {
        question::take_back(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn import_labels(&self, id: JobId, name: Option<&str>, labels: &str) -> Answer<ImportResult> {
        question::import(&self.ctx, self.actor()?, id, name, labels).await.map_err(Error::into_problem)
    }

    fn questions_file(&self, id: JobId, format: ExportFormat) -> String {
        let format = match format {
            ExportFormat::Jsonl => "jsonl",
            ExportFormat::Csv => "csv",
            ExportFormat::LabelStudio => "label_studio",
        };
        format!("/api/v1/jobs/{id}/questions/export?format={format}")
    }

    fn download(&self, artifact: &Artifact) -> String {
        format!("/api/v1/artifacts/{}/content", artifact.id)
    }
}
