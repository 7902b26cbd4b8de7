//! All external services of a running job, by the site's own rules and the server's gateway.

mod batch;
mod masked;
mod pacing;
mod questions;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};
use undertone_api::dataset::{SizeClass, Visibility};
use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::log::SiteEvent;
use undertone_api::job::{Measurement, Report};
use undertone_api::model::PersonalMarkScan;
use undertone_api::problem::Code;
use undertone_api::signed::{Manifest, ManifestParticipant, Signed};
use undertone_privacy::PrivacyUnit;

use super::Site;
use super::lease::Lease;
use super::log::PartLog;
use super::part_session::PartSession;
use super::release_clock::ReleaseClock;
use super::{maintenance, witness};
use crate::config::queries::Queries;
use crate::dp::release::Outgoing;
use crate::fault;
use crate::gateway::{AcceptedSubmission, AverageQuery, Download, GatewayError, report_to_json, retry_call};
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::run::{
    AnswerLine, Artifacts, Averaging, MaskedAveraging, Outbound, Questions, RoundAverage, RoundKey, RoundProgress,
    RunContext, RunError, TranscriptionSite,
};
use crate::site::admission::ExaminedManifest;
use crate::site::clearance::{Clearance, PublicProof};
use crate::site::gate;
use crate::site::policy::is_exact;
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds};
use crate::speech::transcribe::provider::line::ProviderLine;
use crate::telemetry;

/// The longest wait of the server for a round or a file.
const WAIT: Duration = Duration::from_secs(20);

/// The exchange of one part.
pub(super) struct SiteExchange {
    handle: Handle,
    site: Arc<Site>,
    lease: Arc<Lease>,
    session: PartSession,
    /// The average that came with the answer that a round is closed, until it is requested.
    fetched: Option<(String, u32, RoundAverage)>,
    results: RunResults,
    log: PartLog,
    /// The clock at whose ticks releases leave.
    release_clock: Arc<ReleaseClock>,
    /// Whether this process has sent sounds to recipients other than the server.
    has_dispatched: Cell<bool>,
    /// The current round, for traces: its calls belong together.
    round: RefCell<Option<(String, u32, Span)>>,
}

/// The results of a run for its end.
#[derive(Debug, Default)]
pub(super) struct RunResults {
    /// The report as JSON; empty without one.
    pub(super) report: String,
    /// The audit's statement, if there is one.
    pub(super) audit: Option<Signed>,
}

/// The reason for a missing answer.
enum CallFailure {
    /// The run has to stop.
    Stop(RunError),
    /// The server refuses.
    Refused(GatewayError),
}

impl From<CallFailure> for RunError {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Stop(error) => error,
            CallFailure::Refused(error) => Self::failed(error),
        }
    }
}

impl SiteExchange {
    pub(super) fn new(
        handle: Handle,
        site: Arc<Site>,
        lease: Arc<Lease>,
        examined: ExaminedManifest,
    ) -> Result<Self, RunError> {
        let session = PartSession::new(&site, examined)?;
        let log = PartLog::silent();
        let release_clock = Arc::new(ReleaseClock::open(Arc::clone(&site.timeline), session.folder()));
        let round = RefCell::default();
        let has_dispatched = Cell::new(false);
        let results = RunResults::default();
        Ok(Self { handle, site, lease, session, fetched: None, results, log, release_clock, has_dispatched, round })
    }

    /// Returns the clock at whose ticks its releases leave.
    pub(super) fn release_clock(&self) -> Arc<ReleaseClock> {
        Arc::clone(&self.release_clock)
    }

    /// Sets the log of its actions.
    pub(super) fn with_log(self, log: PartLog) -> Self {
        Self { log, ..self }
    }

    /// Returns the results for the end of the run.
    pub(super) fn into_results(self) -> RunResults {
        self.results
    }

    /// Repeats a call under the current lease until it is answered.
    fn repeat_call<T, F: Future<Output = Result<T, GatewayError>>>(
        &self,
        label: &str,
        call: impl Fn(String) -> F,
    ) -> Result<T, CallFailure> {
        let span = self.round.borrow().as_ref().map_or_else(Span::none, |(.., span)| span.clone());
        let attempts = async {
            loop {
                let token = self.lease.token();
                let answer = retry_call(label, &self.lease.stop, || call(token.clone())).await;
                match answer {
                    Some(Ok(answer)) => return Ok(answer),
                    Some(Err(error)) if error.code() == Some(Code::LeaseLost) => {
                        if !self.lease.wait_after_rejection(&token).await {
                            return Err(CallFailure::Stop(RunError::Stopped(self.lease.reason().into())));
                        }
                    }
                    Some(Err(error)) => return Err(CallFailure::Refused(error)),
                    None => return Err(CallFailure::Stop(RunError::Stopped(self.lease.reason().into()))),
                }
            }
        };
        self.handle.block_on(attempts.instrument(span))
    }

    /// Assigns all later calls to this round.
    fn enter_round(&self, series: &str, round: u32) {
        let is_current = self.round.borrow().as_ref().is_some_and(|now| (now.0.as_str(), now.1) == (series, round));
        if !is_current {
            let span = telemetry::round_span(self.session.examined().manifest.job, series, round);
            self.round.replace(Some((series.to_owned(), round, span)));
        }
    }

    /// Checks that the data are public, or that the part's output follows from its charged releases. Other figures and
    /// files of private data would be unpaid releases.
    fn check_public(&self, kind: &str) -> Result<(), RunError> {
        self.site.ledger.check_quiet().map_err(RunError::refused)?;
        let examined = self.session.examined();
        let is_paid = examined.charge.as_ref().is_some_and(|charge| !is_exact(&charge.event));
        let is_derived = is_paid && examined.manifest.spec.follows_from_releases(examined.dataset.id);
        if examined.local.visibility == Visibility::Public || is_derived {
            return Ok(());
        }
        Err(RunError::refused(format!("{kind} may leave this site only for a dataset that its policy marks as public")))
    }

    /// Stores and pays for a vector as [`Averaging::send_vector`] does, and stops before it is sent.
    #[cfg(test)]
    pub(super) fn pay_unsent(&mut self, series: &str, round: u32, vector: &Outgoing) -> Result<(), RunError> {
        self.session.pay_vector(&self.site, series, round, vector)
    }

    /// Pays for the stored release of a round, unless it is paid, and waits until the server has countersigned the
    /// payment.
    fn countersign(&self, series: &str, round: u32) -> Result<(), RunError> {
        self.site.ledger.check_quiet().map_err(RunError::refused)?;
        let Some(request) = self.session.charge(&self.site, series, round)? else { return Ok(()) };
        fault::point(fault::BEFORE_COUNTERSIGN);
        let gateway = &self.site.gateway;
        let receipts = &request.receipts;
        let answer =
            self.repeat_call("countersign", |token| async move { gateway.countersign(&token, receipts).await });
        let answer = match answer {
            Ok(answer) => answer,
            Err(CallFailure::Refused(error)) => {
                // The server may have another chain of receipts: the ledger is an older copy, or has forked.
                if let Err(error) = self.handle.block_on(maintenance::compare_ledgers(&self.site)) {
                    tracing::warn!(error = %error, "cannot compare the ledger with the server's receipts");
                }
                let reason = format!("the server does not countersign the payment of {series}/{round}: {error}");
                return Err(RunError::refused(reason));
            }
            Err(failure) => return Err(failure.into()),
        };
        self.session.store_countersignatures(&self.site, &request, &answer)?;
        fault::point(fault::AFTER_COUNTERSIGN);
        Ok(())
    }

    /// Sends the stored release of a round. Returns false when the server lacks the steps of a masked round before it.
    fn send_stored(&self, series: &str, round: u32) -> Result<bool, RunError> {
        self.enter_round(series, round);
        self.countersign(series, round)?;
        let submission = self.session.submission(&self.site, series, round)?;
        fault::point(fault::BEFORE_SEND);
        let gateway = &self.site.gateway;
        let parcel = &submission.parcel;
        let receipts = &submission.receipts;
        let is_masked = self.session.masked_group(series).is_some();
        let answer = self.repeat_call("submit", |token| async move {
            match gateway.submit(&token, series, round, parcel, receipts).await {
                Err(error) if is_masked && error.code() == Some(Code::NotReady) => Ok(None),
                answer => answer.map(Some),
            }
        });
        fault::point(fault::AFTER_SEND);
        let countersignatures = match answer {
            Ok(None) => return Ok(false),
            Ok(Some(AcceptedSubmission { is_repeated, countersignatures })) => {
                tracing::debug!(job.id = %self.session.examined().manifest.job, series, round, repeated = is_repeated, "the worker has sent a vector");
                self.log.record_round(series, |series| SiteEvent::Sent { series, round, repeated: is_repeated });
                countersignatures
            }
            Err(CallFailure::Refused(error)) if error.code() == Some(Code::RoundClosed) => {
                tracing::warn!(job.id = %self.session.examined().manifest.job, series, round, "the round closed without this vector; it stays paid");
                self.log.record_round(series, |series| SiteEvent::Missed { series, round });
                Vec::new()
            }
            Err(failure) => return Err(failure.into()),
        };
        self.session.mark_received(&self.site, series, round, &submission)?;
        self.handle.block_on(witness::store_countersignatures(&self.site, &submission.receipts, &countersignatures));
        Ok(true)
    }
}

impl RunContext for SiteExchange {
    fn manifest(&self) -> &Manifest {
        &self.session.examined().manifest
    }

    fn participant(&self) -> &ManifestParticipant {
        self.session.examined().own()
    }

    fn folder(&self) -> &Path {
        self.session.folder()
    }

    fn models(&self) -> Option<PathBuf> {
        Some(self.site.folder.models())
    }

    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError> {
        if id == self.session.examined().dataset.id {
            return Ok(self.session.examined().local.folder.clone());
        }
        let is_participant = self.session.examined().manifest.participants.iter().any(|party| party.dataset == id);
        let local = self.site.datasets().into_iter().find(|local| local.id == Some(id)).filter(|_| is_participant);
        let local = local.ok_or_else(|| RunError::failed("the job asks for a dataset that is not at this site"))?;
        if local.visibility == Visibility::Public {
            Ok(local.folder)
        } else {
            Err(RunError::refused(format!("only its own part of the job may read `{}`: it is not public", local.name)))
        }
    }

    fn confirm_public(&self, id: DatasetId) -> Result<PublicProof, RunError> {
        self.dataset(id)?;
        let local = self.site.datasets().into_iter().find(|local| local.id == Some(id));
        let name = local.map_or_else(|| self.session.examined().local.name.clone(), |local| local.name);
        // The current file decides, not its content at admission.
        let policy = self.site.policy().map_err(RunError::refused)?;
        gate::prove_public(&policy.rules(&name)).map_err(RunError::refused)
    }

    fn round_progress(&self, key: RoundKey<'_>) -> Result<RoundProgress, RunError> {
        let RoundKey { series, round } = key;
        self.session.past(&self.site, series, round)
    }

    fn fix_period(&mut self, measure: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError> {
        self.fix_release_period(measure)
    }

    fn clear(&mut self, key: RoundKey<'_>) -> Result<Clearance, RunError> {
        let RoundKey { series, round } = key;
        self.enter_round(series, round);
        if self.is_stopped() {
            return Err(RunError::Stopped(self.lease.reason().into()));
        }
        self.session.clear(&self.site, series, round)
    }

    fn submit_report(&mut self, report: Report) -> Result<(), RunError> {
        if !self.follows_from_manifest(&report) {
            self.check_public("a report")?;
        }
        self.results.report = report_to_json(Some(&report)).map_err(RunError::failed)?;
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.lease.stop.is_cancelled()
    }
}

impl Averaging for SiteExchange {
    fn longest_unit(&self, unit: PrivacyUnit) -> Option<usize> {
        self.public_length(unit)
    }

    fn is_closed(&mut self, key: RoundKey<'_>) -> Result<bool, RunError> {
        let RoundKey { series, round } = key;
        self.enter_round(series, round);
        let gateway = &self.site.gateway;
        let query = AverageQuery { series, round, precision: self.session.precision(series), wait: Duration::ZERO };
        let download = &Download::default();
        let answer =
            self.repeat_call("average", |token| async move { gateway.average(&token, query, download).await })?;
        self.release_clock.reopen();
        self.fetched = answer.map(|average| (series.to_owned(), round, average));
        Ok(self.fetched.is_some())
    }

    fn send_vector(&mut self, key: RoundKey<'_>, vector: Outgoing) -> Result<(), RunError> {
        let RoundKey { series, round } = key;
        if self.is_paced(series) {
            self.session.store_vector(series, round, &vector)?;
            self.wait_for_tick(series, round)?;
        } else {
            self.session.pay_vector(&self.site, series, round, &vector)?;
        }
        self.send_stored(series, round).map(|_| ())
    }

    fn resend_vector(&mut self, key: RoundKey<'_>) -> Result<(), RunError> {
        let RoundKey { series, round } = key;
        self.wait_for_tick(series, round)?;
        self.send_stored(series, round).map(|_| ())
    }

    fn fetch_average(&mut self, key: RoundKey<'_>) -> Result<RoundAverage, RunError> {
        let RoundKey { series, round } = key;
        self.enter_round(series, round);
        if let Some((.., average)) =
            self.fetched.take().filter(|fetched| (fetched.0.as_str(), fetched.1) == (series, round))
        {
            self.log.record_round(series, |series| SiteEvent::Received { series, round });
            self.end_masked_round(series, round)?;
            return Ok(average);
        }
        let gateway = &self.site.gateway;
        let query = AverageQuery { series, round, precision: self.session.precision(series), wait: WAIT };
        let download = &Download::default();
        let mut may_repeat = true;
        loop {
            let answer =
                self.repeat_call("average", |token| async move { gateway.average(&token, query, download).await });
            if let Some(average) = answer.map_err(masked::spoiled_or_failed)? {
                self.release_clock.reopen();
                self.log.record_round(series, |series| SiteEvent::Received { series, round });
                self.end_masked_round(series, round)?;
                return Ok(average);
            }
            may_repeat = may_repeat && self.repeat_masked_round(series, round)?;
        }
    }

    fn masking(&mut self, series: &str) -> Option<&mut dyn MaskedAveraging> {
        self.session.masked_group(series).is_some().then_some(self as &mut dyn MaskedAveraging)
    }

    fn promised_audit(&self) -> Option<AuditPlan> {
        let examined = self.session.examined();
        examined.manifest.spec.audit_plan(&examined.dataset)
    }

    fn submit_finding(&mut self, finding: AuditFinding) -> Result<(), RunError> {
        self.results.audit = Some(self.session.sign_finding(&self.site, &finding)?);
        Ok(())
    }
}

impl Artifacts for SiteExchange {
    fn put_file(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError> {
        self.check_public("files")?;
        if PersonalMarkScan::default().add(&content) {
            return Err(RunError::refused("a personal model never leaves its site"));
        }
        let gateway = &self.site.gateway;
        let content = &content;
        Ok(self.repeat_call("put", |token| async move { gateway.put(&token, name, content).await })?)
    }

    fn fetch_file(&mut self, name: &str) -> Result<Vec<u8>, RunError> {
        let gateway = &self.site.gateway;
        let download = &Download::default();
        loop {
            let answer =
                self.repeat_call("get", |token| async move { gateway.get(&token, name, WAIT, download).await })?;
            if let Some(content) = answer {
                self.release_clock.reopen();
                return Ok(content);
            }
        }
    }

    fn report_measurement(&mut self, measurement: Measurement) -> Result<(), RunError> {
        self.check_public("figures")?;
        let gateway = &self.site.gateway;
        let measurement = &measurement;
        Ok(self.repeat_call("measure", |token| async move { gateway.measure(&token, measurement).await })?)
    }
}

impl Questions for SiteExchange {
    fn query_settings(&self) -> Queries {
        self.site.queries.clone()
    }

    fn send_pool(&mut self, key: RoundKey<'_>, pool: OutgoingPool) -> Result<(), RunError> {
        let RoundKey { series, round } = key;
        self.pay_and_send_pool(series, round, &pool)
    }

    fn resend_pool(&mut self, key: RoundKey<'_>) -> Result<(), RunError> {
        let RoundKey { series, round } = key;
        self.wait_for_tick(series, round)?;
        self.send_stored_pool(series, round)
    }

    fn fetch_pools(&mut self) -> Result<Vec<Released>, RunError> {
        self.collect_pools()
    }

    fn choose_questions(&mut self, round: u32, choice: &[(QuestionId, f64)]) -> Result<(), RunError> {
        self.send_choice(round, choice)
    }

    fn fetch_answers(&mut self, round: u32) -> Result<Vec<AnswerLine>, RunError> {
        self.collect_answers(round)
    }
}

impl Outbound for SiteExchange {
    fn longest_recordings(&self) -> Option<u64> {
        self.session.examined().dataset.seconds.map(SizeClass::most)
    }

    fn transcription_site(&self) -> TranscriptionSite {
        self.transcription_settings()
    }

    fn dispatch_batch(
        &mut self,
        key: RoundKey<'_>,
        batch: &Arc<SealedSounds>,
        lines: &[ProviderLine],
    ) -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError> {
        let RoundKey { series, round } = key;
        self.pay_and_dispatch(series, round, batch, lines)
    }
}
