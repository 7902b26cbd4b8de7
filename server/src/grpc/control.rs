//! The control service: the interface for programs of researchers, stewards and admins. Each method reads its message,
//! calls the same operation as REST, and writes the answer.
//!
//! `Call` reaches every operation of REST; the other methods are typed forms of common ones.
//!
//! To add a method: in `control.proto`, a translation in `message`, a line here. The operation checks the permission.

mod call;
mod message;
mod models;
mod once;
mod questions;
mod retirement;
#[cfg(test)]
mod tests;
mod watch;

use tonic::{Request, Response, Status};
use undertone_api::budget::NewBudget;
use undertone_api::job::{LeaveRequest, NewDraft, NewJob, PartyTerms, PauseRequest, RefuseRequest};
use undertone_api::ledger::EntryFilter;
use undertone_api::page::Page;
use undertone_api::plan::NewPlan;
use undertone_proto::document;
use undertone_proto::v1;
use undertone_proto::v1::control_server;

use self::message::{field, id, optional, page, struct_of};
use super::convert::{fail, json, json_texts, texts};
use super::messages;
use super::stream::Answer;
use crate::rest::operation::RestOperations;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::version::ExpectedVersion;
use undertone_server_core::service::{
    approval, budget, certificate, consortium, dataset, job, ledger, member, model, organization, plan, report, session,
};

/// The control service.
pub(super) struct ControlService {
    ctx: Ctx,
    operations: RestOperations,
}

impl ControlService {
    pub(super) fn new(ctx: Ctx) -> Self {
        let operations = RestOperations::new(&ctx);
        Self { ctx, operations }
    }

    /// Returns the caller with the key, or session, in `authorization: Bearer ...`.
    async fn caller<T>(&self, request: &Request<T>) -> Result<Actor, Status> {
        if let Some(actor) = request.extensions().get::<Actor>() {
            return Ok(actor.clone());
        }
        session::authenticate(&self.ctx, bearer(request)?).await.map_err(fail)
    }
}

/// Returns the token of a request.
fn bearer<T>(request: &Request<T>) -> Result<&str, Status> {
    messages::bearer(request.metadata().as_ref())
}

#[tonic::async_trait]
impl control_server::Control for ControlService {
    type CallStream = Answer<v1::CallChunk>;
    type WatchJobStream = Answer<v1::Progress>;
    type DownloadArtifactStream = Answer<v1::DownloadArtifactChunk>;
    type DownloadModelArchiveStream = Answer<v1::DownloadModelArchiveChunk>;
    type ExportQuestionsStream = Answer<v1::ExportQuestionsChunk>;

    async fn call(&self, request: Request<v1::CallRequest>) -> Result<Response<Self::CallStream>, Status> {
        // The operation identifies its caller as well, and checks the right.
        self.caller(&request).await?;
        Ok(Response::new(call::run(&self.ctx, &self.operations, request).await?))
    }

    async fn list_operations(
        &self,
        request: Request<v1::ListOperationsRequest>,
    ) -> Result<Response<v1::ListOperationsReply>, Status> {
        self.caller(&request).await?;
        Ok(Response::new(call::list(&self.operations)))
    }

    async fn who_am_i(&self, request: Request<v1::WhoAmIRequest>) -> Result<Response<v1::WhoAmIReply>, Status> {
        let actor = self.caller(&request).await?;
        let member = member::me(&actor).map_err(fail)?;
        let document = document::to_struct(&member);
        Ok(Response::new(v1::WhoAmIReply { id: member.id.to_string(), name: member.name, document }))
    }

    async fn list_consortia(
        &self,
        request: Request<v1::ListConsortiaRequest>,
    ) -> Result<Response<v1::ListConsortiaReply>, Status> {
        let actor = self.caller(&request).await?;
        let all = consortium::list(&self.ctx, &actor).await.map_err(fail)?;
        let Page { items, next } = message::take_page(all, request.into_inner().page, |item| item.id.0)?;
        let consortia = items.into_iter().map(message::consortium).collect();
        Ok(Response::new(v1::ListConsortiaReply { consortia, next: next.unwrap_or_default() }))
    }

    async fn get_consortium(
        &self,
        request: Request<v1::GetConsortiumRequest>,
    ) -> Result<Response<v1::Consortium>, Status> {
        let actor = self.caller(&request).await?;
        let id = id(&request.get_ref().consortium, "consortium")?;
        let consortium = consortium::get(&self.ctx, &actor, id).await.map_err(fail)?;
        Ok(Response::new(message::consortium(consortium)))
    }

    async fn list_organizations(
        &self,
        request: Request<v1::ListOrganizationsRequest>,
    ) -> Result<Response<v1::ListOrganizationsReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::ListOrganizationsRequest { consortium, page } = request.into_inner();
        let all = organization::in_consortium(&self.ctx, &actor, id(&consortium, "consortium")?).await.map_err(fail)?;
        let Page { items, next } = message::take_page(all, page, |item| item.id.0)?;
        let organizations = items.into_iter().map(message::organization).collect();
        Ok(Response::new(v1::ListOrganizationsReply { organizations, next: next.unwrap_or_default() }))
    }

    async fn retire(&self, request: Request<v1::RetireRequest>) -> Result<Response<v1::RetireReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::RetireRequest { subject, reason } = request.into_inner();
        let document = retirement::retire(&self.ctx, &actor, subject, reason).await?;
        Ok(Response::new(v1::RetireReply { document }))
    }

    async fn restore(&self, request: Request<v1::RestoreRequest>) -> Result<Response<v1::RestoreReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::RestoreRequest { subject, reason } = request.into_inner();
        let document = retirement::restore(&self.ctx, &actor, subject, reason).await?;
        Ok(Response::new(v1::RestoreReply { document }))
    }

    async fn list_datasets(
        &self,
        request: Request<v1::ListDatasetsRequest>,
    ) -> Result<Response<v1::ListDatasetsReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::ListDatasetsRequest { consortium, page, organization, text } = request.into_inner();
        texts([&*text])?;
        let filter = dataset::DatasetFilter {
            organization: optional(&organization, "organization")?,
            text: Some(text).filter(|text| !text.is_empty()),
            ..dataset::DatasetFilter::default()
        };
        let all = dataset::search(&self.ctx, &actor, id(&consortium, "consortium")?, &filter).await.map_err(fail)?;
        let Page { items, next } = message::take_page(all, page, |item| item.id.0)?;
        let datasets = items.into_iter().map(message::dataset).collect();
        Ok(Response::new(v1::ListDatasetsReply { datasets, next: next.unwrap_or_default() }))
    }

    async fn get_dataset(&self, request: Request<v1::GetDatasetRequest>) -> Result<Response<v1::Dataset>, Status> {
        let actor = self.caller(&request).await?;
        let dataset =
            dataset::get(&self.ctx, &actor, id(&request.get_ref().dataset, "dataset")?).await.map_err(fail)?;
        Ok(Response::new(message::dataset(dataset)))
    }

    async fn set_budget(&self, request: Request<v1::SetBudgetRequest>) -> Result<Response<v1::Account>, Status> {
        let actor = self.caller(&request).await?;
        let v1::SetBudgetRequest { dataset, unit, epsilon, delta, accounts_version, filter } = request.into_inner();
        let new = NewBudget {
            unit: field(&unit, "unit")?,
            epsilon: message::number(epsilon, "epsilon")?,
            delta: message::number(delta, "delta")?,
            filter: Some(filter)
                .filter(|filter| !filter.is_empty())
                .map(|filter| field(&filter, "filter"))
                .transpose()?,
        };
        let expected = match accounts_version.as_str() {
            "" => ExpectedVersion::Anything,
            version => ExpectedVersion::OneOf(vec![version.to_owned()]),
        };
        let set = budget::set_if(&self.ctx, &actor, id(&dataset, "dataset")?, new, &expected).await.map_err(fail)?;
        Ok(Response::new(message::account(&set)))
    }

    async fn list_entries(
        &self,
        request: Request<v1::ListEntriesRequest>,
    ) -> Result<Response<v1::ListEntriesReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::ListEntriesRequest { dataset, page: part, kind, job, since } = request.into_inner();
        let filter = EntryFilter {
            kind: Some(kind).filter(|kind| !kind.is_empty()).map(|kind| field(&kind, "kind")).transpose()?,
            job: optional(&job, "job")?,
            since: since.map(message::moment).transpose()?,
            until: None,
        };
        let dataset = id(&dataset, "dataset")?;
        let Page { items, next } =
            ledger::search(&self.ctx, &actor, dataset, &filter, &page(part)?).await.map_err(fail)?;
        let entries = items.into_iter().map(message::entry).collect();
        Ok(Response::new(v1::ListEntriesReply { entries, next: next.unwrap_or_default() }))
    }

    async fn plan_job(&self, request: Request<v1::PlanJobRequest>) -> Result<Response<v1::PlanJobReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::PlanJobRequest { consortium, job } = request.into_inner();
        let new = NewPlan { consortium: id(&consortium, "consortium")?, job: struct_of::<NewJob>(job, "job")? };
        let plan = plan::plan(&self.ctx, &actor, &new).await.map_err(fail)?;
        Ok(Response::new(v1::PlanJobReply { admitted: plan.admitted, document: document::to_struct(&plan) }))
    }

    async fn propose_job(&self, request: Request<v1::ProposeJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        once::job(&self.ctx, &actor, "ProposeJob", &request, async |message| {
            let consortium = id(&message.consortium, "consortium")?;
            let new = struct_of::<NewJob>(message.job.clone(), "job")?;
            job::propose(&self.ctx, &actor, consortium, new).await.map_err(fail)
        })
        .await
    }

    async fn list_jobs(&self, request: Request<v1::ListJobsRequest>) -> Result<Response<v1::ListJobsReply>, Status> {
        let actor = self.caller(&request).await?;
        let message = request.into_inner();
        texts([&*message.kind, &*message.text])?;
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        let filter = job::JobFilter {
            state: text(message.state).map(|state| field(&state, "state")).transpose()?,
            kind: text(message.kind),
            dataset: optional(&message.dataset, "dataset")?,
            proposer: optional(&message.proposer, "proposer")?,
            since: message.since.map(message::moment).transpose()?,
            text: text(message.text),
        };
        let consortium = id(&message.consortium, "consortium")?;
        let Page { items, next } =
            job::search(&self.ctx, &actor, consortium, &filter, &page(message.page)?).await.map_err(fail)?;
        let jobs = items.iter().map(|summary| message::job(summary, document::to_struct(summary))).collect();
        Ok(Response::new(v1::ListJobsReply { jobs, next: next.unwrap_or_default() }))
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let job = job::get(&self.ctx, &actor, id(&request.get_ref().job, "job")?).await.map_err(fail)?;
        Ok(Response::new(message::whole_job(&job)))
    }

    async fn approve_job(&self, request: Request<v1::ApproveJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let v1::ApproveJobRequest { job, dataset, approval: signature, terms } = request.into_inner();
        texts([&*signature, &*terms])?;
        let job = id(&job, "job")?;
        let dataset = id(&dataset, "dataset")?;
        let signature = (!signature.is_empty()).then(|| json(&signature, "approval")).transpose()?;
        let terms: Option<PartyTerms> = (!terms.is_empty()).then(|| json(&terms, "terms")).transpose()?;
        let approved =
            approval::approve_with_terms(&self.ctx, &actor, job, dataset, None, signature.as_ref(), terms.as_ref())
                .await;
        let job = approved.map_err(fail)?;
        Ok(Response::new(message::whole_job(&job)))
    }

    async fn refuse_job(&self, request: Request<v1::RefuseJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let v1::RefuseJobRequest { job, dataset, reason } = request.into_inner();
        texts([&*reason])?;
        let job = id(&job, "job")?;
        let dataset = id(&dataset, "dataset")?;
        let job = approval::refuse(&self.ctx, &actor, job, dataset, &RefuseRequest { reason }).await.map_err(fail)?;
        Ok(Response::new(message::whole_job(&job)))
    }

    async fn pause_job(&self, request: Request<v1::PauseJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let v1::PauseJobRequest { job, reason, dataset } = request.into_inner();
        texts([&*reason])?;
        let job = id(&job, "job")?;
        let pause = PauseRequest { reason };
        let outcome = match optional(&dataset, "dataset")? {
            Some(dataset) => job::hold_dataset(&self.ctx, &actor, job, dataset, &pause).await,
            None => job::pause(&self.ctx, &actor, job, &pause).await,
        };
        Ok(Response::new(message::whole_job(&outcome.map_err(fail)?)))
    }

    async fn resume_job(&self, request: Request<v1::ResumeJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let v1::ResumeJobRequest { job, dataset } = request.into_inner();
        let job = id(&job, "job")?;
        let released = match optional(&dataset, "dataset")? {
            Some(dataset) => job::release_dataset(&self.ctx, &actor, job, dataset).await,
            None => job::resume(&self.ctx, &actor, job).await,
        };
        Ok(Response::new(message::whole_job(&released.map_err(fail)?)))
    }

    async fn leave_job(&self, request: Request<v1::LeaveJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let v1::LeaveJobRequest { job, dataset, reason } = request.into_inner();
        texts([&*reason])?;
        let job = id(&job, "job")?;
        let dataset = id(&dataset, "dataset")?;
        let job = job::leave(&self.ctx, &actor, job, dataset, &LeaveRequest { reason }).await.map_err(fail)?;
        Ok(Response::new(message::whole_job(&job)))
    }

    async fn cancel_job(&self, request: Request<v1::CancelJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        let job = job::cancel(&self.ctx, &actor, id(&request.get_ref().job, "job")?).await.map_err(fail)?;
        Ok(Response::new(message::whole_job(&job)))
    }

    async fn retry_job(&self, request: Request<v1::RetryJobRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        once::job(&self.ctx, &actor, "RetryJob", &request, async |message| {
            Box::pin(job::retry(&self.ctx, &actor, id(&message.job, "job")?)).await.map_err(fail)
        })
        .await
    }

    async fn clone_job(&self, request: Request<v1::CloneJobRequest>) -> Result<Response<v1::Draft>, Status> {
        let actor = self.caller(&request).await?;
        once::create_once(&self.ctx, &actor, "CloneJob", &request, message::draft, async |message| {
            job::clone_spec(&self.ctx, &actor, id(&message.job, "job")?).await.map_err(fail)
        })
        .await
    }

    async fn list_drafts(
        &self,
        request: Request<v1::ListDraftsRequest>,
    ) -> Result<Response<v1::ListDraftsReply>, Status> {
        let actor = self.caller(&request).await?;
        let v1::ListDraftsRequest { consortium, page } = request.into_inner();
        let all = job::draft_list(&self.ctx, &actor, id(&consortium, "consortium")?).await.map_err(fail)?;
        let Page { items, next } = message::take_page(all, page, |item| item.id.0)?;
        let drafts = items.iter().map(message::draft).collect();
        Ok(Response::new(v1::ListDraftsReply { drafts, next: next.unwrap_or_default() }))
    }

    async fn get_draft(&self, request: Request<v1::GetDraftRequest>) -> Result<Response<v1::Draft>, Status> {
        let actor = self.caller(&request).await?;
        let draft = job::draft_get(&self.ctx, &actor, id(&request.get_ref().draft, "draft")?).await.map_err(fail)?;
        Ok(Response::new(message::draft(&draft)))
    }

    async fn create_draft(&self, request: Request<v1::CreateDraftRequest>) -> Result<Response<v1::Draft>, Status> {
        let actor = self.caller(&request).await?;
        once::create_once(&self.ctx, &actor, "CreateDraft", &request, message::draft, async |message| {
            let consortium = id(&message.consortium, "consortium")?;
            let new = struct_of::<NewDraft>(message.content.clone(), "content")?;
            job::draft_create(&self.ctx, &actor, consortium, &new).await.map_err(fail)
        })
        .await
    }

    async fn update_draft(&self, request: Request<v1::UpdateDraftRequest>) -> Result<Response<v1::Draft>, Status> {
        let actor = self.caller(&request).await?;
        let v1::UpdateDraftRequest { draft, content, version } = request.into_inner();
        let draft = id(&draft, "draft")?;
        let new = struct_of::<NewDraft>(content, "content")?;
        let version = Some(version).filter(|version| *version != 0);
        let written = job::draft_update(&self.ctx, &actor, draft, &new, version, &ExpectedVersion::Anything).await;
        Ok(Response::new(message::draft(&written.map_err(fail)?)))
    }

    async fn delete_draft(
        &self,
        request: Request<v1::DeleteDraftRequest>,
    ) -> Result<Response<v1::DeleteDraftReply>, Status> {
        let actor = self.caller(&request).await?;
        job::draft_delete(&self.ctx, &actor, id(&request.get_ref().draft, "draft")?).await.map_err(fail)?;
        Ok(Response::new(v1::DeleteDraftReply {}))
    }

    async fn propose_draft(&self, request: Request<v1::ProposeDraftRequest>) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        once::job(&self.ctx, &actor, "ProposeDraft", &request, async |message| {
            job::draft_propose(&self.ctx, &actor, id(&message.draft, "draft")?).await.map_err(fail)
        })
        .await
    }

    async fn get_report(&self, request: Request<v1::GetReportRequest>) -> Result<Response<v1::GetReportReply>, Status> {
        let actor = self.caller(&request).await?;
        let file = report::take(&self.ctx, &actor, id(&request.get_ref().job, "job")?).await.map_err(fail)?;
        let file = serde_json::to_vec(&file).map_err(|error| fail(Error::internal("writing a report", error)))?;
        Ok(Response::new(v1::GetReportReply { file }))
    }

    async fn propose_job_again(
        &self,
        request: Request<v1::ProposeJobAgainRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        let actor = self.caller(&request).await?;
        once::job(&self.ctx, &actor, "ProposeJobAgain", &request, async |message| {
            let consortium = id(&message.consortium, "consortium")?;
            json_texts(&message.file)?;
            let file = serde_json::from_slice(&message.file);
            let file = file.map_err(|error| message::wrong("file", format!("give the file of a report: {error}")))?;
            report::again(&self.ctx, &actor, consortium, &file).await.map_err(fail)
        })
        .await
    }

    async fn watch_job(&self, request: Request<v1::WatchJobRequest>) -> Result<Response<Self::WatchJobStream>, Status> {
        let token = bearer(&request)?.to_owned();
        let actor = self.caller(&request).await?;
        let job = id(&request.get_ref().job, "job")?;
        let from = messages::address_of(&self.ctx, request.metadata().as_ref(), request.extensions());
        Ok(Response::new(watch::begin(&self.ctx, &actor, from, token, job).await?))
    }

    async fn list_artifacts(
        &self,
        request: Request<v1::ListArtifactsRequest>,
    ) -> Result<Response<v1::ListArtifactsReply>, Status> {
        let actor = self.caller(&request).await?;
        let files = model::list(&self.ctx, &actor, id(&request.get_ref().job, "job")?).await.map_err(fail)?;
        Ok(Response::new(v1::ListArtifactsReply { artifacts: files.into_iter().map(message::artifact).collect() }))
    }

    async fn download_artifact(
        &self,
        request: Request<v1::DownloadArtifactRequest>,
    ) -> Result<Response<Self::DownloadArtifactStream>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(models::content(&self.ctx, &actor, request.into_inner()).await?))
    }

    async fn get_model(&self, request: Request<v1::GetModelRequest>) -> Result<Response<v1::GetModelReply>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(models::get(&self.ctx, &actor, request.get_ref()).await?))
    }

    async fn compare_models(
        &self,
        request: Request<v1::CompareModelsRequest>,
    ) -> Result<Response<v1::CompareModelsReply>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(models::compare(&self.ctx, &actor, request.get_ref()).await?))
    }

    async fn get_model_card(
        &self,
        request: Request<v1::GetModelCardRequest>,
    ) -> Result<Response<v1::GetModelCardReply>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(models::card(&self.ctx, &actor, request.get_ref()).await?))
    }

    async fn download_model_archive(
        &self,
        request: Request<v1::DownloadModelArchiveRequest>,
    ) -> Result<Response<Self::DownloadModelArchiveStream>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(models::archive(&self.ctx, &actor, request.get_ref()).await?))
    }

    async fn delete_artifact(
        &self,
        request: Request<v1::DeleteArtifactRequest>,
    ) -> Result<Response<v1::Artifact>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(models::delete(&self.ctx, &actor, request.into_inner()).await?))
    }

    async fn get_certificate(
        &self,
        request: Request<v1::GetCertificateRequest>,
    ) -> Result<Response<v1::GetCertificateReply>, Status> {
        let actor = self.caller(&request).await?;
        let file = certificate::take(&self.ctx, &actor, id(&request.get_ref().job, "job")?).await.map_err(fail)?;
        let file =
            serde_json::to_vec(&file).map_err(|error| fail(Error::internal("writing a certificate's file", error)))?;
        Ok(Response::new(v1::GetCertificateReply { file }))
    }

    async fn export_questions(
        &self,
        request: Request<v1::ExportQuestionsRequest>,
    ) -> Result<Response<Self::ExportQuestionsStream>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(questions::export(&self.ctx, &actor, request.into_inner()).await?))
    }

    async fn import_answers(
        &self,
        request: Request<v1::ImportAnswersRequest>,
    ) -> Result<Response<v1::ImportAnswersReply>, Status> {
        let actor = self.caller(&request).await?;
        Ok(Response::new(questions::import(&self.ctx, &actor, request.into_inner()).await?))
    }
}
