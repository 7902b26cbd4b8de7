//! The connection to the server: outbound gRPC, TLS to pinned certificates, one signed session. No other module of the
//! worker knows the wire.
//!
//! This module makes no decision about releases. A call is answered once; callers that may wait longer retry with
//! `retry_call`. To add a call: its method here, its test against the real wire in `gateway/tests.rs`.

mod announcement;
mod consent;
mod enrolment;
mod error;
#[cfg(test)]
pub(crate) mod fake;
mod identity;
mod masked;
mod peers;
mod pin;
mod proxy;
mod questions;
mod retry;
mod stream;
mod transfer;
mod trust;
mod witness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};
use undertone_api::dataset::DatasetRegistration;
use undertone_api::id::{DatasetId, WorkerId};
use undertone_api::job::{Measurement, Report, Spec};
use undertone_api::problem::Code;
use undertone_api::signed::{PresenceProof, Signed, SignedApproval};
use undertone_proto::v1;
use undertone_proto::v1::worker_gateway_client::WorkerGatewayClient;

use crate::config::{Config, ServerEndpoint};
use crate::fault;
use crate::site::folder::Folder;
use crate::site::jobs::RunOutcome;
use crate::site::keys::SiteKey;
use crate::site::server_trust::ServerTrust;
use crate::telemetry;

pub use enrolment::{EnrolledWorker, enroll, rotate_key};
pub use error::GatewayError;
pub use masked::{MaskedAnswer, MaskedStep};
pub use questions::QuestionPools;
#[cfg(test)]
pub(crate) use retry::FAULTS;
pub(crate) use retry::{LONGEST as LONGEST_PAUSE, pauses, retry_call};
pub use stream::Download;
#[cfg(test)]
pub(crate) use stream::MOST as MOST_TAKEN;
pub use transfer::AverageQuery;
use trust::CertificateTrust;

/// The time limit of a connection attempt.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
/// The time limit of an ordinary call.
pub(crate) const CALL: Duration = Duration::from_secs(30);
/// The time limit of the transfer of a vector or a file.
pub(crate) const TRANSFER: Duration = Duration::from_mins(10);
/// The silence after which a connection is probed, and after the same time again given up.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The size limit of one message, bytes; manifests of many participants are the largest.
pub(crate) const MESSAGE: usize = 8 * 1024 * 1024;
/// This software's version, as reported to the server.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A proposed job or work, as the server offers it.
#[derive(Debug, Clone)]
pub enum ServerOffer {
    /// No offer within the waiting time.
    Nothing,
    /// A proposal to decide.
    Proposal {
        /// The manifest.
        manifest: Signed,
        /// The dataset.
        dataset: DatasetId,
    },
    /// Work to run.
    Work(OfferedWork),
}

/// Work to run now.
#[derive(Debug, Clone)]
pub struct OfferedWork {
    /// The manifest.
    pub manifest: Signed,
    /// The dataset.
    pub dataset: DatasetId,
    /// The fencing token.
    pub lease: String,
    /// The validity of the lease without renewal.
    pub lease_time: Duration,
    /// The steward who approved this manifest, according to the server.
    pub steward: Option<String>,
    /// The steward's signed approval, unverified; `None` when the server sent none.
    pub approval: Option<SignedApproval>,
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRenewal {
    /// Whether the job continues.
    pub is_active: bool,
    /// The validity of the lease.
    pub lease_time: Duration,
    /// The reason if it does not continue.
    pub reason: String,
}

/// The answer to a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedSubmission {
    /// Whether the server had it already.
    pub is_repeated: bool,
    /// The server's signed countersignature of each receipt, in their order.
    pub countersignatures: Vec<Signed>,
}

/// A session.
#[derive(Clone)]
struct SessionHeader(AsciiMetadataValue);

/// The connection of one worker to one server. Cheap to share; calls run concurrently on one connection.
pub struct Gateway {
    client: WorkerGatewayClient<Channel>,
    worker: WorkerId,
    key: SiteKey,
    session: Mutex<Option<SessionHeader>>,
    sessions: AtomicU64,
    server: ServerEndpoint,
    trust: Option<Arc<CertificateTrust>>,
    server_keys: Option<ServerTrust>,
}

/// Returns the server's endpoint, with its limits for connection attempts and silence.
fn build_endpoint(server: &ServerEndpoint) -> Result<Endpoint, GatewayError> {
    let endpoint = Endpoint::from_shared(server.address().to_owned())
        .map_err(|error| GatewayError::Address(error.to_string()))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    Ok(endpoint)
}

/// Returns a channel that connects at its first use, and again after every loss.
fn build_channel(server: &ServerEndpoint, trust: Option<&Arc<CertificateTrust>>) -> Result<Channel, GatewayError> {
    let address = |error: tonic::transport::Error| GatewayError::Address(error.to_string());
    let endpoint = build_endpoint(server)?;
    let endpoint = match trust {
        Some(trust) => {
            let verifier = pin::PinVerifier::for_trust(Arc::clone(trust));
            endpoint.tls_config_with_verifier(ClientTlsConfig::new(), verifier).map_err(address)?
        }
        None => endpoint,
    };
    proxy::connect_lazy(&endpoint, server)
}

/// Returns the SHA-256 of a certificate (DER): its fingerprint.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

fn build_client(
    server: &ServerEndpoint,
    trust: Option<&Arc<CertificateTrust>>,
) -> Result<WorkerGatewayClient<Channel>, GatewayError> {
    Ok(WorkerGatewayClient::new(build_channel(server, trust)?)
        .max_decoding_message_size(MESSAGE)
        .max_encoding_message_size(MESSAGE))
}

/// Returns the certificates to accept from a server that may announce others with `keys`; `None` without TLS.
fn open_trust(
    server: &ServerEndpoint,
    keys: &ServerTrust,
    folder: Option<&Folder>,
) -> Result<Option<Arc<CertificateTrust>>, GatewayError> {
    let trust = server.certificate().map(|_| CertificateTrust::with_announcements(server, keys, folder)).transpose();
    trust.map_err(|error| GatewayError::Address(error.to_string()))
}

fn parse_id<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, GatewayError> {
    text.parse().map_err(|_| GatewayError::Protocol(format!("`{field}` is not an id")))
}

async fn call_within<T>(time: Duration, call: impl Future<Output = Result<T, Status>>) -> Result<T, GatewayError> {
    match tokio::time::timeout(time, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(GatewayError::Unreachable(format!("no answer within {} seconds", time.as_secs()))),
    }
}

impl Gateway {
    /// Makes the connection of `worker` to `server` that accepts only the pinned certificate. It does not connect yet.
    ///
    /// # Errors
    /// [`GatewayError::Address`] when the address cannot be used.
    pub fn new(server: &ServerEndpoint, worker: WorkerId, key: SiteKey) -> Result<Self, GatewayError> {
        Self::with_trust(server, worker, key, server.certificate().map(CertificateTrust::with_certificate), None)
    }

    /// Makes the connection of the site in `folder` to its server, with the certificates that the server announced
    /// last. It does not connect yet.
    ///
    /// # Errors
    /// [`GatewayError::Address`] when the address, or the stored certificates, cannot be used.
    pub fn for_site(config: &Config, folder: &Folder, key: SiteKey) -> Result<Self, GatewayError> {
        let keys = trust::server_keys(folder, &config.server_key)?;
        let trust = open_trust(&config.server, &keys, Some(folder))?;
        Self::with_trust(&config.server, config.worker, key, trust, Some(keys))
    }

    fn with_trust(
        server: &ServerEndpoint,
        worker: WorkerId,
        key: SiteKey,
        trust: Option<Arc<CertificateTrust>>,
        server_keys: Option<ServerTrust>,
    ) -> Result<Self, GatewayError> {
        Ok(Self {
            client: build_client(server, trust.as_ref())?,
            worker,
            key,
            session: Mutex::new(None),
            sessions: AtomicU64::new(0),
            server: server.clone(),
            trust,
            server_keys,
        })
    }

    /// Signs in: answers the server's challenge with the site's key.
    async fn sign_in(&self) -> Result<(SessionHeader, i64), GatewayError> {
        let mut client = self.client.clone();
        let request = v1::ChallengeRequest { worker_id: self.worker.to_string() };
        let mut challenge = call_within(CALL, client.challenge(request.clone())).await;
        if matches!(challenge, Err(GatewayError::Unreachable(_))) && self.refresh_trust().await {
            challenge = call_within(CALL, client.challenge(request)).await;
        }
        let challenge = challenge?.into_inner().challenge;
        let presence = self.key.sign(&PresenceProof { worker: self.worker, challenge })?;
        let request = v1::SignInRequest {
            presence: Some(presence.into()),
            version: VERSION.to_owned(),
            kinds: Spec::KINDS.iter().map(|kind| (*kind).to_owned()).collect(),
        };
        let reply = call_within(CALL, client.sign_in(request)).await?.into_inner();
        let value = format!("Bearer {}", reply.session).parse();
        let mut value: AsciiMetadataValue =
            value.map_err(|_| GatewayError::Protocol("the session is no valid header value".to_owned()))?;
        value.set_sensitive(true);
        self.sessions.fetch_add(1, Ordering::SeqCst);
        tracing::info!(worker.id = %self.worker, "signed in");
        Ok((SessionHeader(value), reply.now_unix))
    }

    /// Makes one call in a session: signs in when there is none, and once more when the server has forgotten it.
    async fn call<Q, A, F>(
        &self,
        time: Duration,
        make: impl Fn() -> Q,
        call: impl Fn(WorkerGatewayClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, GatewayError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut is_new = false;
        loop {
            let session = {
                let mut session = self.session.lock().await;
                if session.is_none() {
                    *session = Some(self.sign_in().await?.0);
                    is_new = true;
                }
                session.clone()
            };
            let Some(session) = session else { continue };
            let mut request = Request::new(make());
            request.metadata_mut().insert("authorization", session.0.clone());
            for (name, value) in telemetry::trace_headers() {
                if let (Ok(name), Ok(value)) = (name.parse::<AsciiMetadataKey>(), value.parse::<AsciiMetadataValue>()) {
                    request.metadata_mut().insert(name, value);
                }
            }
            fault::point(fault::BEFORE_CALL);
            let answer = call_within(time, call(self.client.clone(), request)).await;
            fault::point(fault::AFTER_CALL);
            match answer {
                Err(error) if error.code() == Some(Code::Unauthenticated) && !is_new => {
                    let mut current = self.session.lock().await;
                    // Another call may have signed in again already.
                    if current.as_ref().is_some_and(|current| current.0 == session.0) {
                        *current = None;
                    }
                }
                Err(error) if error.code() == Some(Code::Unauthenticated) => {
                    *self.session.lock().await = None;
                    return Err(error);
                }
                Err(error) => {
                    if matches!(error, GatewayError::Unreachable(_)) {
                        self.refresh_trust().await;
                    }
                    return Err(error);
                }
                Ok(answer) => return Ok(answer.into_inner()),
            }
        }
    }

    /// Registers a dataset, or renews its registration.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn register(&self, registration: &DatasetRegistration) -> Result<DatasetId, GatewayError> {
        let registration = to_json(registration)?;
        let make = || v1::RegisterDatasetRequest { registration: registration.clone() };
        let reply =
            self.call(CALL, make, |mut client, request| async move { client.register_dataset(request).await }).await?;
        parse_id("dataset_id", &reply.dataset_id)
    }

    /// Waits up to `wait` for a proposal or for work.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn next_offer(
        &self,
        wait: Duration,
        decided: &[String],
        leases: &[String],
    ) -> Result<ServerOffer, GatewayError> {
        let make = || v1::NextOfferRequest {
            wait_seconds: wait.as_secs() as u32,
            decided: decided.to_vec(),
            leases: leases.to_vec(),
        };
        let reply =
            self.call(wait + CALL, make, |mut client, request| async move { client.next_offer(request).await }).await?;
        let manifest = |signed: Option<v1::Signed>| {
            signed.map(Signed::from).ok_or_else(|| GatewayError::Protocol("an offer without a manifest".to_owned()))
        };
        match reply.offer {
            None | Some(v1::next_offer_reply::Offer::Nothing(_)) => Ok(ServerOffer::Nothing),
            Some(v1::next_offer_reply::Offer::Proposal(proposal)) => Ok(ServerOffer::Proposal {
                manifest: manifest(proposal.manifest)?,
                dataset: parse_id("dataset_id", &proposal.dataset_id)?,
            }),
            Some(v1::next_offer_reply::Offer::Work(work)) => Ok(ServerOffer::Work(OfferedWork {
                manifest: manifest(work.manifest)?,
                dataset: parse_id("dataset_id", &work.dataset_id)?,
                lease: work.lease,
                lease_time: Duration::from_secs(u64::from(work.lease_seconds)),
                steward: work.steward_approved.then_some(work.steward),
                approval: consent::parse_approval(&work.approval)?,
            })),
        }
    }

    /// Renews a lease; returns whether the job continues.
    ///
    /// # Errors
    /// [`GatewayError`] with `lease_lost` when another lease has begun.
    pub async fn renew(&self, lease: &str) -> Result<LeaseRenewal, GatewayError> {
        let make = || v1::RenewRequest { lease: lease.to_owned() };
        let reply = self.call(CALL, make, |mut client, request| async move { client.renew(request).await }).await?;
        Ok(LeaseRenewal {
            is_active: reply.go_on,
            lease_time: Duration::from_secs(u64::from(reply.lease_seconds)),
            reason: reply.reason,
        })
    }

    /// Reports a figure measured on public data.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn measure(&self, lease: &str, measurement: &Measurement) -> Result<(), GatewayError> {
        let measurement = to_json(measurement)?;
        let make = || v1::MeasureRequest { lease: lease.to_owned(), measurement: measurement.clone() };
        self.call(CALL, make, |mut client, request| async move { client.measure(request).await }).await.map(|_| ())
    }

    /// Sends events of the part for the job's log; `now_unix` is this site's clock.
    ///
    /// # Errors
    /// [`GatewayError`] with `lease_lost` when another lease has begun.
    pub async fn log(&self, lease: &str, now_unix: i64, events: &[v1::LogEvent]) -> Result<(), GatewayError> {
        let make = || v1::LogRequest { lease: lease.to_owned(), sent_at_unix: now_unix, events: events.to_vec() };
        self.call(CALL, make, |mut client, request| async move { client.log(request).await }).await.map(|_| ())
    }

    /// Reports the end of this participant's part, with the receipts that the server does not have. Returns its
    /// countersignatures of them, in their order.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn finish(
        &self,
        lease: &str,
        outcome: &RunOutcome,
        receipts: &[Signed],
    ) -> Result<Vec<Signed>, GatewayError> {
        let outcome = match outcome {
            RunOutcome::Done { report, audit } => v1::finish_request::Outcome::Done(v1::Done {
                report: report.clone(),
                audit: audit.clone().map(Into::into),
            }),
            RunOutcome::GaveUp { reason } | RunOutcome::Stopped { reason } => {
                v1::finish_request::Outcome::GaveUp(v1::GaveUp { reason: reason.clone() })
            }
        };
        let make = || v1::FinishRequest {
            lease: lease.to_owned(),
            outcome: Some(outcome.clone()),
            receipts: receipts.iter().cloned().map(Into::into).collect(),
        };
        let reply = self.call(CALL, make, |mut client, request| async move { client.finish(request).await }).await?;
        Ok(reply.countersignatures.into_iter().map(Signed::from).collect())
    }

    /// Submits receipts that the server does not have, oldest first, before a release under the last of them leaves.
    /// Returns its countersignatures of them, in their order.
    ///
    /// # Errors
    /// [`GatewayError`] with `bad_signature` when the server has other receipts of this site, `lease_lost` when another
    /// lease has begun.
    pub async fn countersign(&self, lease: &str, receipts: &[Signed]) -> Result<Vec<Signed>, GatewayError> {
        let make = || v1::CountersignRequest {
            lease: lease.to_owned(),
            receipts: receipts.iter().cloned().map(Into::into).collect(),
        };
        let reply =
            self.call(CALL, make, |mut client, request| async move { client.countersign(request).await }).await?;
        Ok(reply.countersignatures.into_iter().map(Signed::from).collect())
    }

    /// Returns the number of sign-ins of this process.
    pub fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::SeqCst)
    }
}

/// Returns the wire form of a report; empty for a participant without one.
///
/// # Errors
/// [`GatewayError::Protocol`] when it has no JSON form.
pub fn report_to_json(report: Option<&Report>) -> Result<String, GatewayError> {
    report.map_or_else(|| Ok(String::new()), to_json)
}

fn to_json(value: &impl serde::Serialize) -> Result<String, GatewayError> {
    serde_json::to_string(value).map_err(|error| GatewayError::Protocol(error.to_string()))
}

async fn transfer_within_limit<T>(transfer: impl Future<Output = Result<T, GatewayError>>) -> Result<T, GatewayError> {
    match tokio::time::timeout(TRANSFER, transfer).await {
        Ok(answer) => answer,
        Err(_) => Err(GatewayError::Unreachable("a transfer exceeded its time limit".to_owned())),
    }
}

#[cfg(test)]
mod tests;
