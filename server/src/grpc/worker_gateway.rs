//! The worker gateway: each method reads its message, calls one operation, and writes the answer. It contains all
//! methods for workers; they have no other interface.

use tonic::{Request, Response, Status, Streaming};
use undertone_api::id::WorkerId;
use undertone_api::problem::{Code, Problem};
use undertone_api::signed::KeyRotation;
use undertone_proto::v1::worker_gateway_server::WorkerGateway;
use undertone_proto::v1::{self, answers_chunk, ask_chunk, asked_chunk, get_artifact_chunk, next_offer_reply};
use undertone_proto::v1::{put_artifact_chunk, submit_chunk};
use undertone_proto::{to_retry_status, to_status, v1::average_chunk};

use super::convert::{fail, json, texts};
use super::documents::{malformed, parse_all_signed, parse_signed, signed};
use super::stream::{self, Answer};
use super::{auth, consent, submission};
use crate::rate::OrganizationRates;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::fairness::WorkOwner;
use undertone_server_core::metrics::Limit;
use undertone_server_core::service::finish::PartOutcome;
use undertone_server_core::service::offer::{OfferRequest, WorkOffer};
use undertone_server_core::service::{
    approval, challenge, dataset, finish, job, job_log, lease, measurement, model, offer, pins, presence, question,
    receipt, round, site_key, witness, worker,
};

/// The gateway.
pub(super) struct GatewayService {
    ctx: Ctx,
    writes: OrganizationRates,
}

impl GatewayService {
    pub(super) fn new(ctx: Ctx) -> Self {
        let writes = OrganizationRates::new(ctx.config.rates);
        Self { ctx, writes }
    }

    /// Counts a write of the recognized worker.
    fn count_write(&self) -> Result<(), Status> {
        let WorkOwner::Organization(organization) = WorkOwner::current() else { return Ok(()) };
        let Some(wait) = self.writes.wait(organization) else { return Ok(()) };
        self.ctx.metrics.reach(Limit::OrganizationWrites);
        let seconds = wait.as_secs() + 1;
        let detail = format!(
            "the workers of your organization write more often than `rates.by_organization` allows: try again in {seconds} s"
        );
        Err(to_retry_status(&Problem::new(Code::RateLimited, detail), wait))
    }

    /// Returns the calling worker. The request is read before the first await, because a stream cannot be shared.
    fn caller<T>(&self, request: &Request<T>) -> impl Future<Output = Result<WorkerId, Status>> + Send {
        let presented = auth::presented(&self.ctx, request).map_err(|problem| to_status(&problem));
        async move { auth::worker(&self.ctx, presented?).await.map_err(fail) }
    }
}

#[tonic::async_trait]
impl WorkerGateway for GatewayService {
    type AnswersStream = Answer<v1::AnswersChunk>;
    type AskedStream = Answer<v1::AskedChunk>;
    type AverageStream = Answer<v1::AverageChunk>;
    type GetArtifactStream = Answer<v1::GetArtifactChunk>;

    async fn enroll(&self, request: Request<v1::EnrollRequest>) -> Result<Response<v1::EnrollReply>, Status> {
        let v1::EnrollRequest { secret, public_key, version } = request.into_inner();
        texts([&*secret, &*public_key, &*version])?;
        let worker = worker::enrol(&self.ctx, &secret, &public_key, &version, &[]).await.map_err(fail)?;
        let organization = presence::organization_name(&self.ctx, worker.organization).await.map_err(fail)?;
        Ok(Response::new(v1::EnrollReply {
            worker_id: worker.id.to_string(),
            organization_id: worker.organization.to_string(),
            organization_name: organization,
            worker_name: worker.name,
        }))
    }

    async fn challenge(&self, request: Request<v1::ChallengeRequest>) -> Result<Response<v1::ChallengeReply>, Status> {
        let worker = request.into_inner().worker_id.parse().map_err(|_| malformed("worker_id is not an id"))?;
        let challenge = challenge::ask(&self.ctx, worker).await.map_err(fail)?;
        Ok(Response::new(v1::ChallengeReply { challenge }))
    }

    async fn sign_in(&self, request: Request<v1::SignInRequest>) -> Result<Response<v1::SignInReply>, Status> {
        let v1::SignInRequest { presence, version, kinds } = request.into_inner();
        texts(kinds.iter().chain([&version]).map(String::as_str))?;
        let presence = signed(presence, "presence")?;
        // The payload names the worker of the challenge; the signature below proves that this worker's key signed it.
        let claimed: undertone_api::signed::PresenceProof = json(&presence.payload, "presence")?;
        let signing = presence::sign_in(&self.ctx, claimed.worker, &presence, &version, &kinds);
        let key = signing.await.map_err(fail)?;
        let session = auth::session(&self.ctx, claimed.worker, &key).await.map_err(fail)?;
        Ok(Response::new(v1::SignInReply {
            session: session.text,
            expires_at_unix: session.expires_at.unix_timestamp(),
            now_unix: self.ctx.now().unix_timestamp(),
        }))
    }

    async fn pins(&self, request: Request<v1::PinsRequest>) -> Result<Response<v1::PinsReply>, Status> {
        let pins = pins::pins(&self.ctx, &request.into_inner().challenge).await.map_err(fail)?;
        Ok(Response::new(v1::PinsReply { pins: Some(pins.into()) }))
    }

    async fn rotate_key(&self, request: Request<v1::RotateKeyRequest>) -> Result<Response<v1::RotateKeyReply>, Status> {
        let v1::RotateKeyRequest { by_old, by_new } = request.into_inner();
        let rotation = KeyRotation { by_old: signed(by_old, "by_old")?, by_new: signed(by_new, "by_new")? };
        site_key::rotate(&self.ctx, &rotation).await.map_err(fail)?;
        Ok(Response::new(v1::RotateKeyReply {}))
    }

    async fn register_dataset(
        &self,
        request: Request<v1::RegisterDatasetRequest>,
    ) -> Result<Response<v1::RegisterDatasetReply>, Status> {
        let caller = self.caller(&request).await?;
        let registration = json(&request.into_inner().registration, "registration")?;
        let registered = dataset::find_registered(&self.ctx, caller, &registration).await.map_err(fail)?;
        let dataset = if let Some(dataset) = registered {
            dataset
        } else {
            self.count_write()?;
            dataset::register(&self.ctx, caller, &registration).await.map_err(fail)?
        };
        Ok(Response::new(v1::RegisterDatasetReply { dataset_id: dataset.id.to_string() }))
    }

    async fn next_offer(&self, request: Request<v1::NextOfferRequest>) -> Result<Response<v1::NextOfferReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::NextOfferRequest { wait_seconds, decided, leases } = request.into_inner();
        texts(decided.iter().chain(&leases).map(String::as_str))?;
        let offer =
            offer::next(&self.ctx, caller, &OfferRequest { wait_seconds, decided, leases }).await.map_err(fail)?;
        let offer = match offer {
            WorkOffer::Nothing => next_offer_reply::Offer::Nothing(v1::Nothing {}),
            WorkOffer::Proposal { manifest, dataset } => next_offer_reply::Offer::Proposal(v1::Proposal {
                manifest: Some(manifest.into()),
                dataset_id: dataset.to_string(),
            }),
            WorkOffer::Work { manifest, dataset, lease, steward, approval } => {
                next_offer_reply::Offer::Work(v1::Work {
                    manifest: Some(manifest.into()),
                    dataset_id: dataset.to_string(),
                    lease,
                    lease_seconds: lease::SECONDS,
                    steward_approved: steward.is_some(),
                    steward: steward.unwrap_or_default(),
                    approval: approval.as_deref().map(consent::written).transpose()?.unwrap_or_default(),
                })
            }
        };
        Ok(Response::new(v1::NextOfferReply { offer: Some(offer) }))
    }

    async fn credential_notices(
        &self,
        request: Request<v1::CredentialNoticesRequest>,
    ) -> Result<Response<v1::CredentialNoticesReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::CredentialNoticesRequest { after } = request.into_inner();
        texts([&*after])?;
        Ok(Response::new(consent::notices(&self.ctx, caller, &after).await?))
    }

    async fn decide(&self, request: Request<v1::DecideRequest>) -> Result<Response<v1::DecideReply>, Status> {
        let caller = self.caller(&request).await?;
        self.count_write()?;
        let v1::DecideRequest { decision, hold, departure } = request.into_inner();
        if let Some(departure) = departure {
            job::leave::leave_by_site(&self.ctx, caller, &parse_signed(departure)?).await.map_err(fail)?;
            return Ok(Response::new(v1::DecideReply {}));
        }
        if let Some(hold) = hold {
            job::hold::hold_by_site(&self.ctx, caller, &parse_signed(hold)?).await.map_err(fail)?;
            return Ok(Response::new(v1::DecideReply {}));
        }
        let decision = signed(decision, "decision")?;
        approval::decide(&self.ctx, caller, &decision).await.map_err(fail)?;
        Ok(Response::new(v1::DecideReply {}))
    }

    async fn renew(&self, request: Request<v1::RenewRequest>) -> Result<Response<v1::RenewReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::RenewRequest { lease } = request.into_inner();
        texts([&*lease])?;
        let renewal = lease::renew(&self.ctx, caller, &lease).await.map_err(fail)?;
        Ok(Response::new(v1::RenewReply {
            go_on: renewal.go_on,
            lease_seconds: lease::SECONDS,
            reason: renewal.reason,
        }))
    }

    async fn submit(&self, request: Request<Streaming<v1::SubmitChunk>>) -> Result<Response<v1::SubmitReply>, Status> {
        let caller = self.caller(&request).await?;
        let mut chunks = request.into_inner();
        let Some(submit_chunk::Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
            return Err(malformed("a submission begins with its header"));
        };
        texts([&*header.lease, &*header.series, &*header.digest])?;
        let header = round::VectorHeader {
            lease: header.lease,
            series: header.series,
            round: header.round,
            receipts: parse_all_signed(header.receipts)?,
            length: header.length,
            digest: header.digest,
            size: if header.size == 0 { header.length.saturating_mul(4) } else { header.size },
            offset: header.offset,
        };
        let incoming = round::begin(&self.ctx, caller, header).await.map_err(fail)?;
        // In a separate task: if the connection is lost, this method is dropped, but the received bytes must be stored.
        let outcome =
            tokio::spawn(WorkOwner::current().scope(submission::receive(self.ctx.clone(), incoming, chunks))).await;
        let outcome = outcome.map_err(|_| fail(Error::problem(Code::Internal, "cannot store the submission")))??;
        let round::AcceptedSubmission { repeated, countersignatures } = outcome;
        let countersignatures = countersignatures.into_iter().map(v1::Signed::from).collect();
        Ok(Response::new(v1::SubmitReply { repeated, countersignatures }))
    }

    async fn received(&self, request: Request<v1::ReceivedRequest>) -> Result<Response<v1::ReceivedReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::ReceivedRequest { lease, series, round, digest } = request.into_inner();
        texts([&*lease, &*series, &*digest])?;
        let bytes = round::received(&self.ctx, caller, &lease, &series, round, &digest).await.map_err(fail)?;
        Ok(Response::new(v1::ReceivedReply { bytes }))
    }

    async fn masked_step(
        &self,
        request: Request<v1::MaskedStepRequest>,
    ) -> Result<Response<v1::MaskedStepReply>, Status> {
        let caller = self.caller(&request).await?;
        super::masked::step(&self.ctx, caller, request.into_inner()).await.map(Response::new)
    }

    async fn average(&self, request: Request<v1::AverageRequest>) -> Result<Response<Self::AverageStream>, Status> {
        let caller = self.caller(&request).await?;
        let v1::AverageRequest { lease, series, round, wait_seconds, offset } = request.into_inner();
        texts([&*lease, &*series])?;
        let mean = round::average(&self.ctx, caller, &lease, &series, round, wait_seconds).await.map_err(fail)?;
        let header = |header| v1::AverageChunk { part: Some(average_chunk::Part::Header(header)) };
        Ok(Response::new(match mean {
            None => stream::header(header(v1::AverageHeader::default())),
            Some(mean) => stream::object(
                &self.ctx,
                header(v1::AverageHeader {
                    ready: true,
                    contributors: mean.contributors,
                    length: mean.length,
                    digest: mean.digest,
                    size: mean.size,
                }),
                mean.object,
                offset,
                mean.size,
                |data| v1::AverageChunk { part: Some(average_chunk::Part::Data(data)) },
            ),
        }))
    }

    async fn put_artifact(
        &self,
        request: Request<Streaming<v1::PutArtifactChunk>>,
    ) -> Result<Response<v1::PutArtifactReply>, Status> {
        let caller = self.caller(&request).await?;
        self.count_write()?;
        let mut chunks = request.into_inner();
        let Some(put_artifact_chunk::Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part)
        else {
            return Err(malformed("a file begins with its header"));
        };
        let v1::PutArtifactHeader { lease, name, size, digest } = header;
        texts([&*lease, &*name, &*digest])?;
        let mut incoming =
            model::begin(&self.ctx, caller, model::ArtifactHeader { lease, name, size, digest }).await.map_err(fail)?;
        while let Some(chunk) = chunks.message().await? {
            let Some(put_artifact_chunk::Part::Data(data)) = chunk.part else {
                return Err(malformed("after the header come data only"));
            };
            incoming.write(&data).await.map_err(fail)?;
        }
        let id = incoming.accept(&self.ctx).await.map_err(fail)?;
        Ok(Response::new(v1::PutArtifactReply { artifact_id: id.to_string() }))
    }

    async fn get_artifact(
        &self,
        request: Request<v1::GetArtifactRequest>,
    ) -> Result<Response<Self::GetArtifactStream>, Status> {
        let caller = self.caller(&request).await?;
        let v1::GetArtifactRequest { lease, name, wait_seconds, offset } = request.into_inner();
        texts([&*lease, &*name])?;
        let stored = model::fetch(&self.ctx, caller, &lease, &name, wait_seconds).await.map_err(fail)?;
        let header = |header| v1::GetArtifactChunk { part: Some(get_artifact_chunk::Part::Header(header)) };
        Ok(Response::new(match stored {
            None => stream::header(header(v1::GetArtifactHeader::default())),
            Some(stored) => stream::object(
                &self.ctx,
                header(v1::GetArtifactHeader {
                    ready: true,
                    size: stored.artifact.size,
                    digest: stored.artifact.digest,
                }),
                stored.object,
                offset,
                stored.artifact.size,
                |data| v1::GetArtifactChunk { part: Some(get_artifact_chunk::Part::Data(data)) },
            ),
        }))
    }

    async fn ask(&self, request: Request<Streaming<v1::AskChunk>>) -> Result<Response<v1::AskReply>, Status> {
        let caller = self.caller(&request).await?;
        self.count_write()?;
        let mut chunks = request.into_inner();
        let Some(ask_chunk::Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
            return Err(malformed("a pool begins with its header"));
        };
        let v1::AskHeader { lease, series, round, receipts, size, digest } = header;
        texts([&*lease, &*series, &*digest])?;
        let receipts = parse_all_signed(receipts)?;
        let header = question::PoolHeader { lease, series, round, receipts, size, digest };
        let mut incoming = question::begin(&self.ctx, caller, header).await.map_err(fail)?;
        while let Some(chunk) = chunks.message().await? {
            let Some(ask_chunk::Part::Data(data)) = chunk.part else {
                return Err(malformed("after the header come data only"));
            };
            incoming.write(&data).await.map_err(fail)?;
        }
        let round::AcceptedSubmission { repeated, countersignatures } =
            incoming.accept(&self.ctx).await.map_err(fail)?;
        let countersignatures = countersignatures.into_iter().map(v1::Signed::from).collect();
        Ok(Response::new(v1::AskReply { repeated, countersignatures }))
    }

    async fn asked(&self, request: Request<v1::AskedRequest>) -> Result<Response<Self::AskedStream>, Status> {
        let caller = self.caller(&request).await?;
        let v1::AskedRequest { lease, wait_seconds, offset } = request.into_inner();
        texts([&*lease])?;
        let pools = question::wait_for_pools(&self.ctx, caller, &lease, wait_seconds).await.map_err(fail)?;
        let header = |header| v1::AskedChunk { part: Some(asked_chunk::Part::Header(header)) };
        Ok(Response::new(match pools {
            None => stream::header(header(v1::AskedHeader::default())),
            Some(question::JobPools { pools, missing }) => {
                let objects = pools.iter().map(|pool| (pool.object.clone(), pool.size)).collect();
                let pool = |pool: question::AcceptedPool| v1::Pool {
                    dataset_id: pool.dataset.to_string(),
                    questions: pool.questions,
                    size: pool.size,
                    digest: pool.digest,
                };
                let header = header(v1::AskedHeader {
                    ready: true,
                    pools: pools.into_iter().map(pool).collect(),
                    missing: missing.iter().map(ToString::to_string).collect(),
                });
                let data = |data| v1::AskedChunk { part: Some(asked_chunk::Part::Data(data)) };
                stream::objects(&self.ctx, header, objects, offset, data)
            }
        }))
    }

    async fn choose(&self, request: Request<v1::ChooseRequest>) -> Result<Response<v1::ChooseReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::ChooseRequest { lease, round, chosen } = request.into_inner();
        texts([&*lease])?;
        let choice = |v1::Chosen { question, uncertainty }: v1::Chosen| {
            let question = question.parse().map_err(|_| malformed("a chosen question is not an id"))?;
            Ok(question::QuestionChoice { question, uncertainty })
        };
        let choices = chosen.into_iter().map(choice).collect::<Result<Vec<_>, Status>>()?;
        let repeated = question::choose(&self.ctx, caller, &lease, round, &choices).await.map_err(fail)?;
        Ok(Response::new(v1::ChooseReply { repeated }))
    }

    async fn answers(&self, request: Request<v1::AnswersRequest>) -> Result<Response<Self::AnswersStream>, Status> {
        let caller = self.caller(&request).await?;
        let v1::AnswersRequest { lease, round, wait_seconds } = request.into_inner();
        texts([&*lease])?;
        let answers = question::answers(&self.ctx, caller, &lease, round, wait_seconds).await.map_err(fail)?;
        let header = |header| v1::AnswersChunk { part: Some(answers_chunk::Part::Header(header)) };
        let data = |data| v1::AnswersChunk { part: Some(answers_chunk::Part::Data(data)) };
        Ok(Response::new(match answers {
            Err((asked, answered)) => {
                stream::header(header(v1::AnswersHeader { asked, answered, ..v1::AnswersHeader::default() }))
            }
            Ok(question::RoundAnswers { asked, answered, bytes, digest }) => {
                let size = bytes.len() as u64;
                let header = header(v1::AnswersHeader { closed: true, asked, answered, size, digest });
                stream::bytes(header, &bytes, data)
            }
        }))
    }

    async fn measure(&self, request: Request<v1::MeasureRequest>) -> Result<Response<v1::MeasureReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::MeasureRequest { lease, measurement: figure } = request.into_inner();
        texts([&*lease])?;
        let figure = json(&figure, "measurement")?;
        measurement::measure(&self.ctx, caller, &lease, &figure).await.map_err(fail)?;
        Ok(Response::new(v1::MeasureReply {}))
    }

    async fn log(&self, request: Request<v1::LogRequest>) -> Result<Response<v1::LogReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::LogRequest { lease, sent_at_unix, events } = request.into_inner();
        texts([&*lease])?;
        let to_entry = |event: v1::LogEvent| {
            let sequence = event.sequence;
            let at_unix = event.at_unix;
            let event =
                event.try_into().map_err(|_| malformed("an event of the log that this server does not know"))?;
            Ok(job_log::SiteLogLine { sequence, at_unix, event })
        };
        let entries = events.into_iter().map(to_entry).collect::<Result<Vec<_>, Status>>()?;
        job_log::append(&self.ctx, caller, &lease, sent_at_unix, &entries).await.map_err(fail)?;
        Ok(Response::new(v1::LogReply {}))
    }

    async fn finish(&self, request: Request<v1::FinishRequest>) -> Result<Response<v1::FinishReply>, Status> {
        let caller = self.caller(&request).await?;
        self.count_write()?;
        let v1::FinishRequest { lease, outcome, receipts } = request.into_inner();
        texts([&*lease])?;
        let (outcome, audit) = match outcome {
            Some(v1::finish_request::Outcome::Done(done)) => {
                let report = (!done.report.is_empty()).then(|| json(&done.report, "done.report")).transpose()?;
                (PartOutcome::Done(report), done.audit.map(parse_signed).transpose()?)
            }
            Some(v1::finish_request::Outcome::GaveUp(gave_up)) => {
                texts([&*gave_up.reason])?;
                (PartOutcome::GaveUp(gave_up.reason), None)
            }
            None => return Err(malformed("the outcome of the part is missing")),
        };
        let receipts = parse_all_signed(receipts)?;
        let countersigned = finish::finish_audited(&self.ctx, caller, &lease, &outcome, audit.as_ref(), &receipts)
            .await
            .map_err(fail)?;
        let countersignatures = countersigned.into_iter().map(v1::Signed::from).collect();
        Ok(Response::new(v1::FinishReply { countersignatures }))
    }

    async fn countersign(
        &self,
        request: Request<v1::CountersignRequest>,
    ) -> Result<Response<v1::CountersignReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::CountersignRequest { lease, receipts } = request.into_inner();
        texts([&*lease])?;
        let receipts = parse_all_signed(receipts)?;
        let countersigned = receipt::countersign(&self.ctx, caller, &lease, &receipts).await.map_err(fail)?;
        let countersignatures = countersigned.into_iter().map(v1::Signed::from).collect();
        Ok(Response::new(v1::CountersignReply { countersignatures }))
    }

    async fn witness(&self, request: Request<v1::WitnessRequest>) -> Result<Response<v1::WitnessReply>, Status> {
        let caller = self.caller(&request).await?;
        let v1::WitnessRequest { known, receipts, restored } = request.into_inner();
        texts(restored.as_deref())?;
        let position = known.map(parse_signed).transpose()?;
        let answer = witness::witness(&self.ctx, caller, position.as_ref(), &receipts, restored.as_deref());
        let answer = answer.await.map_err(fail)?;
        Ok(Response::new(answer.into()))
    }

    async fn reconcile(&self, request: Request<v1::ReconcileRequest>) -> Result<Response<v1::ReconcileReply>, Status> {
        let caller = self.caller(&request).await?;
        super::reconcile::reconcile(&self.ctx, caller, request.into_inner()).await.map(Response::new)
    }

    async fn exchange_heads(
        &self,
        request: Request<v1::ExchangeHeadsRequest>,
    ) -> Result<Response<v1::ExchangeHeadsReply>, Status> {
        let caller = self.caller(&request).await?;
        super::head_exchange::exchange_heads(&self.ctx, caller, request.into_inner()).await.map(Response::new)
    }

    async fn receipts(&self, request: Request<v1::ReceiptsRequest>) -> Result<Response<v1::ReceiptsReply>, Status> {
        let caller = self.caller(&request).await?;
        let receipts = witness::receipts(&self.ctx, caller, request.into_inner().after).await.map_err(fail)?;
        Ok(Response::new(v1::ReceiptsReply { receipts: receipts.into_iter().map(v1::Signed::from).collect() }))
    }
}
