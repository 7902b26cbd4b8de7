//! Authentication of workers: a worker proves its key once and gets a session, a document signed by the server. The
//! server does not store sessions, so they are valid at every replica and after a restart. A session names its key and
//! ends with it: each call checks that the worker still has that key. `service::challenge` defines the document that
//! the worker must sign first.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use tonic::Request;
use undertone_api::id::WorkerId;
use undertone_api::problem::{Code, Problem};
use undertone_api::signed::{Document, KeyPurpose, Signed};

use undertone_server_core::ctx::{Ctx, fingerprint};
use undertone_server_core::error::Error;
use undertone_server_core::fairness::{WorkOwner, recognize_caller};
use undertone_server_core::service::presence;

/// The lifetime of a session.
pub(crate) const SESSION: Duration = Duration::hours(12);

/// The content of a session.
#[derive(Serialize, Deserialize)]
struct WorkerSession {
    worker: WorkerId,
    /// SHA-256 of the proved public key, hex.
    key: String,
    expires_at_unix: i64,
}

impl Document for WorkerSession {
    const DOMAIN: &'static str = "undertone/worker-session/2";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Connection);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(OffsetDateTime::from_unix_timestamp(self.expires_at_unix).ok()? - SESSION)
    }
}

/// A session token and its expiry.
pub(super) struct SessionToken {
    pub(super) text: String,
    pub(super) expires_at: OffsetDateTime,
}

/// Makes a session for a worker that has proved the key `public` (hex).
pub(super) async fn session(ctx: &Ctx, worker: WorkerId, public: &str) -> Result<SessionToken, Error> {
    let expires_at = ctx.now() + SESSION;
    let document = WorkerSession { worker, key: fingerprint(public), expires_at_unix: expires_at.unix_timestamp() };
    let signed = ctx.signer.sign(&document).await.map_err(|error| Error::internal("signing a session", error))?;
    let json = serde_json::to_vec(&signed).map_err(|error| Error::internal("writing a session", error))?;
    Ok(SessionToken { text: URL_SAFE_NO_PAD.encode(json), expires_at })
}

/// A verified session: its worker and its key.
#[derive(Debug, Clone)]
pub(super) struct RecognizedWorker {
    pub(super) worker: WorkerId,
    key: String,
}

/// Returns the session in `authorization: Bearer <session>`, if it is valid.
pub(super) fn presented<T>(ctx: &Ctx, request: &Request<T>) -> Result<RecognizedWorker, Problem> {
    if let Some(recognized) = request.extensions().get::<RecognizedWorker>() {
        return Ok(recognized.clone());
    }
    let text = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    text.and_then(|text| recognize(ctx, text)).ok_or_else(refused)
}

/// Returns the worker of a session, if its key is still the session's key. A thief of an earlier key loses the session;
/// the site signs in again with its current key.
pub(super) async fn worker(ctx: &Ctx, presented: RecognizedWorker) -> Result<WorkerId, Error> {
    let RecognizedWorker { worker, key } = presented;
    let site = presence::key(ctx, worker).await?.filter(|site| fingerprint(&site.public_key) == key);
    let site = site.ok_or_else(refused)?;
    recognize_caller(WorkOwner::Organization(site.organization));
    Ok(worker)
}

/// Returns the session in this value of `authorization`, if it is valid.
pub(super) fn recognize(ctx: &Ctx, authorization: &str) -> Option<RecognizedWorker> {
    let json = URL_SAFE_NO_PAD.decode(authorization.strip_prefix("Bearer ")?).ok()?;
    let signed: Signed = serde_json::from_slice(&json).ok()?;
    let WorkerSession { worker, key, expires_at_unix } = signed.open(&ctx.signer).ok()?;
    (expires_at_unix > ctx.now().unix_timestamp()).then_some(RecognizedWorker { worker, key })
}

/// Returns the refusal of a caller without a session.
pub(super) fn refused() -> Problem {
    Problem::new(
        Code::Unauthenticated,
        "sign in first: the session is missing, expired, of a replaced key or from another server",
    )
}
